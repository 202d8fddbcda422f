/* The arithmetic of quantised operators, in one place (docs/quantisation.md). Operands broadcast as in NumPy. */
#ifndef IG_IMPORT_ONNX_QUANTIZE_H
#define IG_IMPORT_ONNX_QUANTIZE_H

#include "import/onnx/importer.h"

/* Raises unless the type is one that QuantizeLinear may have as its result. */
void ig_onnx_check_quantized(const struct ig_onnx_node *n, enum ingot_dtype type);
/* Raises unless the zero point in this input, if it is there, has the type of what it belongs to. */
void ig_onnx_check_zero_type(const struct ig_onnx_node *n, uint32_t input, enum ingot_dtype type);
/* The type of products of centered operands: i32, or f32 for floats of 8 bits. */
enum ingot_dtype ig_onnx_product_type(enum ingot_dtype type);
/* value - zero in type `wide`, which must hold it exactly: f32 for types of up to 16 bits, or i32. Floats of 8 bits have the zero
 * point 0. `zero` may be IG_NO_VALUE. */
ig_value ig_onnx_centered(struct ig_onnx_node *n, ig_value value, ig_value zero, enum ingot_dtype wide);
/* saturate(round(x) + zero), for x of f32: ties to even, NaN gives the type's lowest number. To floats of 8 and 4 bits: x, rounded
 * to them. `zero` may be IG_NO_VALUE. */
ig_value ig_onnx_quantized(struct ig_onnx_node *n, ig_value x, ig_value zero, enum ingot_dtype type);
/* A sum of products, requantised: quantized(f32(sum) * scale), where the scale has been computed in f32. */
ig_value ig_onnx_requantized(struct ig_onnx_node *n, ig_value sum, ig_value scale, ig_value zero,
                             enum ingot_dtype type);

/* x of f32 as u8, and what it was quantised by: scalars that follow from the data (DynamicQuantizeLinear). */
struct ig_onnx_dynamic {
    ig_value value, scale, zero;
};
struct ig_onnx_dynamic ig_onnx_quantized_dynamically(struct ig_onnx_node *n, ig_value x);

#endif
