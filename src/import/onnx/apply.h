/* ONNX's operators without a model: single nodes, given by name and attributes, whose inputs are values of a graph. */
#ifndef IG_IMPORT_ONNX_APPLY_H
#define IG_IMPORT_ONNX_APPLY_H

#include "ingot/ingot.h"
#include "ir/graph.h"

struct ig_onnx;

/* `opset` is that of ONNX's own domain; 0: the newest. Raises INGOT_UNSUPPORTED for one that is not known. */
struct ig_onnx *ig_onnx_begin_nodes(struct ig_job *job, struct ig_dims *dims, struct ig_initializers *initializers,
                                    int opset);
/* Appends the operator, whose name is "Relu", or "com.example.Relu" for one of another domain; raises as the import of a file does. */
void ig_onnx_add_node(struct ig_onnx *import, struct ig_graph *g, const struct ingot_operator *op, ig_value *out_values,
                      size_t n_outputs);

#endif
