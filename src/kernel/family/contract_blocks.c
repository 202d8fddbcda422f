/* Products with codes in blocks as contractions: an element of B, dequantised as it is read. See ir/blocks.h. */
#include "ir/blocks.h"
#include "kernel/family/contract_problem.h"

static ig_x number(struct ig_contract *c, int64_t i) {
    return ig_contract_int(c, i);
}

static ig_x div(struct ig_contract *c, ig_x a, int64_t b) {
    return ig_x_div(c->k, a, number(c, b));
}

static ig_x mod(struct ig_contract *c, ig_x a, int64_t b) {
    return ig_x_mod(c->k, a, number(c, b));
}

/* a * by + plus */
static ig_x mad(struct ig_contract *c, ig_x a, int64_t by, ig_x plus) {
    return ig_x_add(c->k, ig_x_mul(c->k, a, number(c, by)), plus);
}

/* As ig_blocks_place: the byte and the shift. */
static ig_x byte_of(struct ig_contract *c, enum ig_blocks_form form, int bits, ig_x n, ig_x p, ig_x *out_shift) {
    int64_t size = ig_blocks_chunk(form, bits);
    ig_x chunks = ig_contract_dim(c, ig_dim_ceil_div(c->graph->dims, c->depth, ig_contract_as_dim(c, size)));
    ig_x chunk = div(c, p, size), within = mod(c, p, size), own, thread, code;
    int64_t each = 8 / bits; /* of a byte */
    *out_shift = number(c, 0);
    if (form == IG_BLOCKS_LANES) {
        chunk = ig_x_add(c->k, ig_x_mul(c->k, n, chunks), chunk);
        if (bits == 8) return mad(c, chunk, size, within);
        code = div(c, within, 16);
        *out_shift = ig_x_mul(c->k, mod(c, code, each), number(c, bits));
        return ig_x_add(c->k, mad(c, chunk, 64, div(c, code, each)), ig_x_mul(c->k, mod(c, within, 16), number(c, 4)));
    }
    chunk = ig_x_add(c->k, ig_x_mul(c->k, div(c, n, 16), chunks), chunk);
    thread = mad(c, mod(c, n, 8), 4, div(c, mod(c, within, 32), 8));
    own = mod(c, within, 8);
    ig_x at = ig_x_add(c->k, ig_x_mul(c->k, mad(c, chunk, 32, thread), number(c, 16)),
                       ig_x_mul(c->k, div(c, mod(c, n, 16), 8), number(c, 8)));
    if (bits == 8) return ig_x_add(c->k, at, own);
    int64_t runs = 4 / bits; /* of a word */
    code = mad(c, mod(c, own, 2), 4 * runs, mad(c, mod(c, div(c, within, 32), runs), 4, div(c, own, 2)));
    *out_shift = ig_x_mul(c->k, mod(c, code, each), number(c, bits));
    return ig_x_add(c->k, at, mad(c, div(c, within, 32 * runs), 4, div(c, code, each)));
}

static ig_x code_at(struct ig_contract *c, enum ig_blocks_form form, int bits, ig_x n, ig_x p) {
    struct ig_loops *k = c->k;
    if (form == IG_BLOCKS_PLAIN) return ig_lower_value(&c->lower, c->node.in[1], (const ig_x[]){n, p});
    ig_x shift, byte = byte_of(c, form, bits, n, p, &shift);
    ig_x code = ig_x_load(k, c->lower.buffer_of[c->node.in[1]], byte);
    if (bits == 8) return code;
    code = ig_x_cast(k, code, INGOT_I64, false);
    return ig_x_map2(k, IG_OP_bitand, ig_x_map2(k, IG_OP_shr, code, shift), number(c, (1 << bits) - 1));
}

/* A scale or zero point, as f32. */
static ig_x of_block(struct ig_contract *c, uint32_t input, enum ig_blocks_form form, ig_x n, ig_x p) {
    ig_x block = div(c, p, ig_contract_attr_int(c, IG_ATTR_block));
    bool turned = form == IG_BLOCKS_FRAGMENTS;
    ig_x x = ig_lower_value(&c->lower, c->node.in[input], (const ig_x[]){turned ? block : n, turned ? n : block});
    return ig_x_cast(c->k, x, INGOT_F32, false);
}

static bool has(const struct ig_contract *c, uint32_t input) {
    return c->node.n_in > input && c->node.in[input] != IG_NO_VALUE;
}

ig_x ig_blocks_b(struct ig_contract *c, ig_x n, const ig_x *depth) {
    struct ig_loops *k = c->k;
    enum ig_blocks_form form = (enum ig_blocks_form)ig_contract_attr_int(c, IG_ATTR_packed);
    ig_x p = ig_contract_depth_at(c, depth), code, value;
    code = code_at(c, form, (int)ig_contract_attr_int(c, IG_ATTR_bits), n, p);
    if (has(c, 4)) {
        value = ig_lower_value(&c->lower, c->node.in[4], (const ig_x[]){ig_x_cast(k, code, INGOT_I64, false)});
    } else {
        value = ig_x_cast(k, code, INGOT_F32, false);
        int64_t offset = ig_contract_attr_int(c, IG_ATTR_offset);
        if (offset) value = ig_x_map2(k, IG_OP_sub, value, ig_x_float(k, INGOT_F32, (double)offset));
    }
    if (has(c, 3)) value = ig_x_map2(k, IG_OP_sub, value, of_block(c, 3, form, n, p));
    value = ig_x_map2(k, IG_OP_mul, value, of_block(c, 2, form, n, p));
    return ig_x_cast(k, value, ig_contract_in(c, 0)->dtype, false); /* rounds */
}
