/*
 * Which products must be rounded before they are added: in kernels that round to integers, so that every compiler and device
 * gets the same ones, and in those that make floats of bytes or of sums of bytes, which another kernel may round. Elsewhere compilers
 * contract a product and a sum into one instruction (fused multiply-add).
 */
#include "codegen/printer.h"

static bool rounds(const struct ig_loops *k, const struct ig_x_node *n) {
    if (n->kind == IG_X_MAP) return n->op == IG_OP_round || n->op == IG_OP_floor || n->op == IG_OP_ceil;
    return n->kind == IG_X_CAST && ig_dtype_is_float(k->x.at[n->args[0]].dtype) &&
           ig_dtype_is_integer((enum ingot_dtype)n->i);
}

static bool dequantizes(const struct ig_loops *k, const struct ig_x_node *n) {
    if (n->kind != IG_X_CAST || !ig_dtype_is_float((enum ingot_dtype)n->i)) return false;
    enum ingot_dtype from = k->x.at[n->args[0]].dtype;
    return from == INGOT_I32 || from == INGOT_I8 || from == INGOT_U8;
}

/* The product that x is, perhaps negated; or IG_NO_X. */
static ig_x product_in(const struct ig_loops *k, ig_x x) {
    const struct ig_x_node *n = x == IG_NO_X ? NULL : &k->x.at[x];
    while (n && n->kind == IG_X_MAP && n->op == IG_OP_neg)
        n = &k->x.at[x = n->args[0]];
    bool is_product = n && n->kind == IG_X_MAP && n->op == IG_OP_mul && ig_dtype_is_float(n->dtype);
    return is_product ? x : IG_NO_X;
}

void ig_code_find_apart(struct ig_code_printer *p) {
    const struct ig_loops *k = p->k;
    bool exact = false;
    for (uint32_t x = 0; x < k->x.count && !exact; x++)
        exact = rounds(k, &k->x.at[x]) || dequantizes(k, &k->x.at[x]);
    for (uint32_t x = 0; x < k->x.count && exact; x++) {
        const struct ig_x_node *n = &k->x.at[x];
        if (n->kind != IG_X_MAP || (n->op != IG_OP_add && n->op != IG_OP_sub)) continue;
        for (int i = 0; i < 2; i++) {
            ig_x product = product_in(k, n->args[i]);
            if (product != IG_NO_X) p->apart[product] = true;
        }
    }
}
