/* Pools of values that are no inputs of the node. */
#ifndef IG_IMPORT_ONNX_POOL_H
#define IG_IMPORT_ONNX_POOL_H

#include "import/onnx/importer.h"

/* The means of x, [N, C, spatial...], over windows that the node's attributes describe. */
ig_value ig_onnx_average_pool(struct ig_onnx_node *n, ig_value x);

#endif
