/*
 * Quantised values in graphs, for the pass `integers`: what dequantisation is written as, and what it is built as.
 *
 * Activations are bytes with one scale and one zero point. Bytes that are quantised inside a graph are u8: those that a model
 * has as i8 are stored with 128 more, since u8 x i8 is the product that processors compute fastest, and read as i8 only by what
 * the pass does not know. On GPUs those with a zero point of 0 stay i8.
 */
#ifndef IG_PASS_QUANTIZED_H
#define IG_PASS_QUANTIZED_H

#include "pass/pass.h"

static inline bool ig_is_byte(enum ingot_dtype dtype) {
    return dtype == INGOT_U8 || dtype == INGOT_I8;
}

/* (bytes - zero) * scale */
struct ig_quantized {
    ig_value bytes; /* u8 or i8 */
    int64_t zero;
    ig_value scale; /* a positive scalar of f32 */
};

/* Is v an integer expression bytes - zero, of f32 or i32, with a constant zero point? */
bool ig_match_centered(struct ig_graph *g, ig_value v, ig_value *out_bytes, int64_t *out_zero);
/* Is v, of f32, a dequantised activation? */
bool ig_match_quantized(struct ig_graph *g, ig_value v, struct ig_quantized *out);
/* bytes - zero, in f32 or i32 */
ig_value ig_build_centered(struct ig_graph *g, ig_value bytes, int64_t zero, enum ingot_dtype wide);
/* The dequantised value, in the form that ig_match_quantized knows. */
ig_value ig_build_dequantized(struct ig_graph *g, const struct ig_quantized *q);

/* u8 with 128 more as i8, and back: the same byte but for its first bit. */
ig_value ig_build_as_i8(struct ig_graph *g, ig_value u8);
ig_value ig_build_as_u8(struct ig_graph *g, ig_value i8);

/* Scalars of the type f32, positive, finite and so large that products with integers of 9 bits are normal numbers. */
bool ig_match_scale(struct ig_graph *g, ig_value v, double *out);
bool ig_same_scale(struct ig_graph *g, ig_value a, ig_value b);

/* Deterministic on every device: computed by single, correctly rounded operations from integers. */
bool ig_is_of_integers(struct ig_graph *g, ig_value v);

/* ---- The rules (each returns IG_NO_VALUE if it does not apply) ---- */

/* integer_product.c: matmul and conv of dequantised operands, or of integers less their zero points. */
ig_value ig_integer_product(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
/* A dequantised bias that is added to such a product. */
ig_value ig_integer_bias(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
/* requantize.c: the last operator of a quantisation, a saturating cast to a byte. */
ig_value ig_integer_quantize(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
/* requantize.c: the last operator of a fake quantisation in f32, a product with the scale: rounded, bounded, less a zero point. */
ig_value ig_integer_fake(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
/* integer_move.c: operators that move bytes as they move what these stand for, and those that choose among them or add them. */
ig_value ig_integer_move(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
ig_value ig_integer_mean(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);

#endif
