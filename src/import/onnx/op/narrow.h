/* Casts by ONNX's rules, which for narrow types are more than the core operator's. */
#ifndef IG_IMPORT_ONNX_NARROW_H
#define IG_IMPORT_ONNX_NARROW_H

#include "import/onnx/importer.h"

/* x cast to `to`, as the node's attributes `saturate` and `round_mode` and its opset say. */
ig_value ig_onnx_cast(struct ig_onnx_node *n, ig_value x, enum ingot_dtype to);

#endif
