/* The ONNX importer: a serialised ModelProto becomes a graph of core operators. */
#ifndef IG_IMPORT_ONNX_IMPORT_H
#define IG_IMPORT_ONNX_IMPORT_H

#include "ir/graph.h"

/*
 * Imports. `data` must live as long as the job. `folder` contains external data (NULL refuses them); they are mapped
 * and stay mapped until the job ends. With `missing_weights`, initialisers without data are zeros. `out_metadata`, which may be NULL, gets what the file says
 * about itself. Raises INGOT_BAD_MODEL or
 * INGOT_UNSUPPORTED with node, operator and opset.
 */
struct ig_graph *ig_import_onnx(struct ig_job *job, const void *data, size_t size, const char *folder,
                                bool missing_weights, struct ingot_model_metadata *out_metadata);
/* The initialisers alone; the model's operators need not be supported. Those of types that Ingot does not have are left
 * out. */
struct ig_initializers *ig_import_onnx_initializers(struct ig_job *job, const void *data, size_t size,
                                                    const char *folder);

#endif
