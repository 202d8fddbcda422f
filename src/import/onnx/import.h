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

/* How the nodes of one name (as graphs' nodes have it for their origin) are divided among devices. */
struct ig_onnx_division {
    const char *origin;
    enum { IG_ONNX_RESULT_UNSAID, IG_ONNX_RESULT_WHOLE, IG_ONNX_RESULT_SPLIT, IG_ONNX_RESULT_SUM } result;
    enum { IG_ONNX_WEIGHTS_UNSAID, IG_ONNX_WEIGHTS_ROWS, IG_ONNX_WEIGHTS_COLUMNS } weights;
    int axis;                    /* of a SPLIT result */
    int64_t outer, count, inner; /* which is so many elements, of which the middle ones are divided; 0: not known */
    int weights_rank;
};

/*
 * Writes the model with these divisions among `devices` devices as device configurations, which replace those that it has; at least of IR
 * version 11. Weights are a table's rows, a product's depth or columns, or a convolution's channels. All other bytes are the file's;
 * external data stays where it is. Raises INGOT_BAD_MODEL.
 */
void ig_onnx_annotate(struct ig_job *job, const void *data, size_t size, const struct ig_onnx_division *divisions,
                      uint32_t count, unsigned devices, const struct ingot_sink *sink);

#endif
