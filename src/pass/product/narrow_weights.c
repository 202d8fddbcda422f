/*
 * narrow-weights: products with weights of few bits keep them so.
 *
 * Requires:   the importer's forms of DequantizeLinear, MatMulNBits and MatMulBnb4, so it runs before canonicalize.
 * Guarantees: a matmul whose second operand is a constant matrix of codes of up to 8 bits (integers, or the floats f4e2m1,
 *             f8e4m3fn and f8e5m2), less zero points, times a scale for each block of 16 or more along the depth, becomes a matmul_blocks of the same values, unless it has
 *             many rows whatever the sizes: then its weights are better dequantised once, when the engine is built. Codes,
 *             scales and zero points are recipes. Left alone are products whose first operand was dequantised too, if they
 *             may be products of bytes (the passes integers and float8).
 */
#include "base/narrow.h"
#include "ir/blocks.h"
#include "pass/match.h"
#include "pass/passes.h"

enum { MANY_ROWS = 64, LEAST_BLOCK = 16 };

/* A constant matrix [columns, depth], or its transpose, under views; and what it is computed from. */
struct weight {
    struct ig_graph *g;
    int64_t n, k;
    bool turned;                  /* lies as [n, k]; else as [k, n] */
    int64_t rows, length;         /* before the last columns were cut off */
    ig_value product, scale;      /* the product by the scale, of any shape with those elements */
    ig_value codes, zero, table;  /* codes still in their own type */
    int64_t dims[INGOT_MAX_RANK]; /* of the product */
    int rank;
};

static const struct ig_node *def_of(const struct weight *w, ig_value v, enum ig_op op) {
    return ig_def_op(w->g, v, op);
}

static bool read_dims(const struct weight *w, ig_value v, int64_t *out_dims) {
    return ig_type_is_static(w->g->dims, ig_type_of(w->g, v), out_dims);
}

/* ---- Finding ----------------------------------------------------------------------------------------------------- */

/* Looks through a transpose and a rounding to the type of the first operand. */
static ig_value matrix_of(struct weight *w, ig_value v) {
    const struct ig_node *n;
    bool rounded = false;
    w->turned = false;
    for (;;) {
        if ((n = def_of(w, v, IG_OP_transpose))) {
            if (ig_type_of(w->g, v)->rank != 2) return IG_NO_VALUE;
            w->turned = !w->turned;
        } else if (!rounded && (n = def_of(w, v, IG_OP_cast))) {
            rounded = true;
        } else {
            return ig_type_of(w->g, v)->dtype == INGOT_F32 ? v : IG_NO_VALUE;
        }
        v = n->in[0];
    }
}

/* A slice from the first element on, of the last axis of a matrix. */
static bool cuts_end(const struct weight *w, const struct ig_node *slice) {
    int64_t from[INGOT_MAX_RANK], to[INGOT_MAX_RANK];
    if (!read_dims(w, slice->in[0], from) || !read_dims(w, slice->out, to) || ig_type_of(w->g, slice->out)->rank != 2)
        return false;
    const struct ig_attr *starts = ig_attr(w->g, slice, IG_ATTR_starts), *steps = ig_attr(w->g, slice, IG_ATTR_steps);
    for (int i = 0; i < 2; i++) {
        int64_t start;
        if (!ig_dim_is_const(w->g->dims, starts->dims[i], &start) || start != 0 || steps->ints[i] != 1) return false;
    }
    return from[0] == to[0];
}

/* Finds the product by the scale. */
static bool find_product(struct weight *w, ig_value v) {
    const struct ig_node *n;
    int64_t dims[INGOT_MAX_RANK];
    if (v == IG_NO_VALUE || ig_type_of(w->g, v)->rank != 2) return false;
    if ((n = def_of(w, v, IG_OP_slice))) {
        if (!cuts_end(w, n) || !w->turned) return false;
        v = n->in[0];
    }
    if (!read_dims(w, v, dims)) return false;
    w->rows = dims[0];
    w->length = dims[1];
    while ((n = def_of(w, v, IG_OP_reshape)))
        v = n->in[0];
    if (!(n = def_of(w, v, IG_OP_mul))) return false;
    w->product = v;
    w->rank = ig_type_of(w->g, v)->rank;
    w->scale = n->in[1];
    w->codes = n->in[0];
    return read_dims(w, v, w->dims) && w->rank > 0;
}

/* Integers of few bits. */
static bool is_small_int(enum ingot_dtype dtype) {
    return dtype == INGOT_U4 || dtype == INGOT_I4 || dtype == INGOT_U2 || dtype == INGOT_I2;
}

/* What the codes of f4e2m1 stand for. */
static ig_value numbers_of_4_bits(struct ig_graph *g) {
    static const int64_t entries = 16;
    float *numbers = IG_NEW_ARRAY(g->job, float, 16);
    for (int i = 0; i < 16; i++)
        numbers[i] = ig_narrow_to_f32(INGOT_F4E2M1, (uint8_t)i);
    struct ig_data data = {.bytes = numbers, .size = 16 * sizeof *numbers};
    return ig_build_constant(g, INGOT_F32, 1, &entries, &data);
}

static bool is_float8(enum ingot_dtype dtype) {
    return dtype == INGOT_F8E4M3FN || dtype == INGOT_F8E5M2;
}

/* Looks through a zero point, and a table or the conversion to f32. */
static bool find_codes(struct weight *w) {
    const struct ig_node *n;
    int64_t entries[INGOT_MAX_RANK];
    if ((n = def_of(w, w->codes, IG_OP_sub))) {
        w->zero = n->in[1];
        w->codes = n->in[0];
    }
    while ((n = def_of(w, w->codes, IG_OP_reshape)))
        w->codes = n->in[0];
    if ((n = def_of(w, w->codes, IG_OP_gather))) {
        bool one_axis = ig_type_of(w->g, n->in[0])->rank == 1 && read_dims(w, n->in[0], entries) && entries[0] == 16;
        if (!one_axis || ig_type_of(w->g, n->in[0])->dtype != INGOT_F32) return false;
        w->table = n->in[0];
        w->codes = n->in[1];
        while (!is_small_int(ig_type_of(w->g, w->codes)->dtype) && (n = def_of(w, w->codes, IG_OP_cast)))
            w->codes = n->in[0];
        return ig_type_of(w->g, w->codes)->dtype == INGOT_U4;
    }
    if (!(n = def_of(w, w->codes, IG_OP_cast))) return false;
    w->codes = n->in[0];
    n = def_of(w, w->codes, IG_OP_cast);
    if (n && is_small_int(ig_type_of(w->g, n->in[0])->dtype)) w->codes = n->in[0];
    enum ingot_dtype type = ig_type_of(w->g, w->codes)->dtype;
    if (type == INGOT_F4E2M1) w->table = numbers_of_4_bits(w->g);
    return type == INGOT_U8 || type == INGOT_I8 || type == INGOT_F4E2M1 || is_float8(type) || is_small_int(type);
}

/* ---- Scales and zero points by block ----------------------------------------------------------------------------- */

static ig_value shaped(const struct weight *w, ig_value v, int64_t rows, int64_t columns) {
    ig_dim dims[] = {ig_dim_const(w->g->dims, rows), ig_dim_const(w->g->dims, columns)};
    return ig_build_reshape(w->g, v, dims, 2);
}

static ig_value transposed(const struct weight *w, ig_value v) {
    static const int64_t turn[] = {1, 0};
    return ig_build_transpose(w->g, v, turn);
}

/* Each of one scale in several: a broadcast along a middle axis, [blocks, 1, n] or [n * blocks, 1, 1]. */
static ig_value from_repeats(const struct weight *w, ig_value v, int64_t *out_block) {
    const struct ig_node *n;
    int64_t dims[INGOT_MAX_RANK];
    while ((n = def_of(w, v, IG_OP_cast)) && !ig_dtype_is_float(ig_type_of(w->g, n->in[0])->dtype))
        v = n->in[0];
    if ((n = def_of(w, v, IG_OP_slice))) v = n->in[0]; /* of the last block */
    while ((n = def_of(w, v, IG_OP_reshape)))
        v = n->in[0];
    if (!(n = def_of(w, v, IG_OP_broadcast)) || ig_type_of(w->g, v)->rank != 3 || !read_dims(w, v, dims))
        return IG_NO_VALUE;
    *out_block = dims[1];
    if (dims[1] < 1) return IG_NO_VALUE;
    int64_t blocks = (w->k + dims[1] - 1) / dims[1];
    ig_value one = n->in[0];
    enum ingot_dtype type = ig_type_of(w->g, one)->dtype;
    if (is_small_int(type)) one = ig_build_cast(w->g, one, type == INGOT_U4 || type == INGOT_U2 ? INGOT_U8 : INGOT_I8);
    if (ig_narrow_is_float(type)) one = ig_build_cast(w->g, one, INGOT_BF16);
    if (w->turned) return dims[2] == 1 && dims[0] == w->n * blocks ? shaped(w, one, w->n, blocks) : IG_NO_VALUE;
    if (dims[2] != w->n || dims[0] != blocks) return IG_NO_VALUE;
    return transposed(w, shaped(w, one, blocks, w->n));
}

/* `v`, which is broadcast over the product, as a matrix [n, ceil(k / block)]; IG_NO_VALUE if it differs within blocks. */
static ig_value by_block(const struct weight *w, ig_value v, int64_t *out_block) {
    int64_t own[INGOT_MAX_RANK], dims[INGOT_MAX_RANK], count = 1;
    int rank = ig_type_of(w->g, v)->rank, missing = w->rank - rank;
    if (missing < 0 || !read_dims(w, v, own)) return IG_NO_VALUE;
    bool same = true, but_last = true; /* as the product; as the product, with a last axis of size 1 */
    for (int i = 0; i < w->rank; i++) {
        dims[i] = i < missing ? 1 : own[i - missing];
        count *= dims[i];
        same &= dims[i] == w->dims[i];
        but_last &= dims[i] == (i + 1 < w->rank ? w->dims[i] : 1);
    }
    bool plain = w->rank == 2 && w->dims[0] == w->rows && w->dims[1] == w->length;
    *out_block = w->k;
    if (count == 1) {
        ig_dim wide[] = {ig_dim_const(w->g->dims, w->n), ig_dim_const(w->g->dims, 1)};
        return ig_build_broadcast(w->g, shaped(w, v, 1, 1), wide, 2);
    }
    if (plain && count == w->n && dims[w->turned ? 0 : 1] == w->n) return shaped(w, v, w->n, 1);
    if (plain) return same ? from_repeats(w, v, out_block) : IG_NO_VALUE;
    *out_block = w->dims[w->rank - 1];
    if (!but_last || !w->turned || w->length % *out_block != 0) return IG_NO_VALUE;
    return shaped(w, v, w->n, w->length / *out_block);
}

/* Beneath views, before a conversion to f32: smaller, and as exact. Scales of 8 bits become bf16, which has all of them. */
static ig_value unconverted(struct weight *w, ig_value v) {
    const struct ig_node *n;
    for (ig_value at = v;; at = n->in[0]) {
        n = ig_def(w->g, at);
        if (n && n->op == IG_OP_cast && n->in[0] != IG_NO_VALUE) {
            enum ingot_dtype type = ig_type_of(w->g, n->in[0])->dtype;
            bool exact = type == INGOT_U8 || type == INGOT_I8 || type == INGOT_F16 || type == INGOT_BF16;
            if (at == v && (type == INGOT_F8E8M0 || is_float8(type))) return ig_build_cast(w->g, n->in[0], INGOT_BF16);
            return exact && at == v ? n->in[0] : v;
        }
        bool view = n && (n->op == IG_OP_reshape || n->op == IG_OP_transpose || n->op == IG_OP_broadcast);
        if (!view) return v;
        ig_value beneath = unconverted(w, n->in[0]);
        return beneath == n->in[0] ? v : ig_build_copy(w->g, w->g, n, &beneath);
    }
}

/* ---- Building ---------------------------------------------------------------------------------------------------- */

/* The codes of f4e2m1, as u8: a sign, and the place among 0, 0.5, 1, 1.5, 2, 3, 4 and 6. */
static ig_value codes_of_4_bits(struct ig_graph *g, ig_value v) {
    ig_value x = ig_build_cast(g, v, INGOT_F32), one = ig_scalar_like(g, x, 1);
    ig_value size = ig_map1(g, IG_OP_abs, x), twice = ig_map2(g, IG_OP_add, size, size);
    ig_value negative = ig_map2(g, IG_OP_lt, ig_map2(g, IG_OP_div, one, x), ig_scalar_like(g, x, 0)); /* -0 too */
    ig_value two_more =
        ig_map2(g, IG_OP_min, ig_map2(g, IG_OP_add, size, ig_scalar_like(g, x, 2)), ig_scalar_like(g, x, 7));
    ig_value place = ig_map2(g, IG_OP_min, twice, two_more);
    ig_value code = ig_build_where(g, negative, ig_map2(g, IG_OP_add, place, ig_scalar_like(g, x, 8)), place);
    return ig_build_cast(g, code, INGOT_U8);
}

/* Codes as u8, or floats of 8 bits, [n, k], and what is to be subtracted from them. */
static ig_value plain_codes(struct weight *w, int64_t *out_offset) {
    struct ig_graph *g = w->g;
    enum ingot_dtype type = ig_type_of(g, w->codes)->dtype;
    ig_value v = w->codes;
    int64_t sign = type == INGOT_I8 ? 128 : type == INGOT_I4 ? 8 : type == INGOT_I2 ? 2 : 0;
    *out_offset = sign;
    bool converted = is_float8(type) || type == INGOT_F4E2M1;
    if (type == INGOT_F4E2M1) v = codes_of_4_bits(g, v);
    v = shaped(w, converted ? v : ig_build_cast(g, v, INGOT_U8), w->rows, w->length);
    if ((w->table != IG_NO_VALUE && !converted) || type == INGOT_I4 || type == INGOT_I2)
        v = ig_map2(g, IG_OP_bitand, v, ig_scalar_like(g, v, type == INGOT_I2 ? 3 : 15));
    if (sign) v = ig_map2(g, IG_OP_bitxor, v, ig_scalar_like(g, v, (double)sign));
    if (!w->turned) return transposed(w, v);
    return ig_build_slice_axis(g, v, 1, ig_dim_const(g->dims, 0), ig_dim_const(g->dims, w->k), 1);
}

/* The type of one byte that x was dequantised from, and perhaps rounded then; NONE if it was not. */
static enum ingot_dtype dequantized_from(const struct ig_graph *g, ig_value x) {
    const struct ig_node *rounded = ig_def_op(g, x, IG_OP_cast);
    if (rounded && ig_type_of(g, rounded->in[0])->dtype == INGOT_F32) x = rounded->in[0];
    const struct ig_node *n = ig_def_op(g, x, IG_OP_mul);
    const struct ig_node *sub = n ? ig_def_op(g, n->in[0], IG_OP_sub) : NULL;
    const struct ig_node *cast = ig_def_op(g, !n ? x : sub ? sub->in[0] : n->in[0], IG_OP_cast);
    enum ingot_dtype from = cast ? ig_type_of(g, cast->in[0])->dtype : INGOT_DTYPE_NONE;
    bool unscaled = !n && !is_float8(from); /* bytes that are numbers already */
    return from == INGOT_DTYPE_NONE || ingot_dtype_size(from) != 1 || unscaled ? INGOT_DTYPE_NONE : from;
}

/* May it be a product of bytes? Of integers, or of floats of 8 bits whose scales do not change along the depth. */
static bool is_of_bytes(const struct weight *w, enum ingot_dtype a, int64_t block) {
    enum ingot_dtype codes = ig_type_of(w->g, w->codes)->dtype;
    if (a == INGOT_DTYPE_NONE || codes == INGOT_F4E2M1) return false;
    return is_float8(codes) ? is_float8(a) && block >= w->k : !is_float8(a);
}

static bool is_suitable(const struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    const struct ig_type *w = ig_type_of(g, in[1]), *y = ig_type_of(rw->in, n->out);
    enum ingot_dtype a = ig_type_of(g, in[0])->dtype;
    ig_dim rows = ig_dim_product(g->dims, y->dim, y->rank - 1);
    int64_t lo, hi;
    ig_dim_range(g->dims, rows, &lo, &hi);
    if (w->rank != 2 || ig_type_of(g, in[0])->rank < 2 || lo >= MANY_ROWS || !ig_dtype_is_float(y->dtype)) return false;
    return (a == INGOT_F32 || a == INGOT_F16 || a == INGOT_BF16) && ig_info(g, in[1])->is_const &&
           !ig_info(g, in[0])->is_const;
}

/* The zero point: part of the offset if it is one number for all. */
static bool read_zero(struct weight *w, struct ig_blocks *b) {
    double value;
    int64_t block;
    if (w->zero == IG_NO_VALUE) return true;
    bool one =
        ig_match_scalar(w->g, w->zero, &value) && value >= -128 && value <= 255 && value == (double)(int64_t)value;
    if (one && value == 0) return true;
    if (is_float8(ig_type_of(w->g, w->codes)->dtype)) return false;
    if (one && w->table == IG_NO_VALUE) {
        b->offset += (int64_t)value;
        return true;
    }
    b->zero = by_block(w, w->zero, &block);
    if (b->zero == IG_NO_VALUE) return false;
    b->zero = unconverted(w, b->zero);
    if (block == b->block) return true;
    if (block != w->k) return false;
    ig_dim wide[] = {ig_dim_const(w->g->dims, w->n), ig_dim_const(w->g->dims, (w->k + b->block - 1) / b->block)};
    b->zero = ig_build_broadcast(w->g, b->zero, wide, 2);
    return true;
}

static bool keep_narrow(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    if (n->op != IG_OP_matmul || ig_attr_int(rw->in, n, IG_ATTR_packed) != 0 || !is_suitable(rw, n, in)) return false;
    struct weight w = {.g = rw->out, .zero = IG_NO_VALUE, .table = IG_NO_VALUE};
    struct ig_blocks b = {.zero = IG_NO_VALUE};
    int64_t dims[INGOT_MAX_RANK];
    if (!read_dims(&w, in[1], dims) || dims[0] < LEAST_BLOCK || dims[1] < 1) return false;
    w.k = dims[0];
    w.n = dims[1];
    if (!find_product(&w, matrix_of(&w, in[1])) || !find_codes(&w)) return false;
    if (w.turned ? w.rows != w.n || w.length < w.k : w.rows != w.k || w.length != w.n) return false;
    b.scale = by_block(&w, w.scale, &b.block);
    if (b.scale == IG_NO_VALUE || (b.block % LEAST_BLOCK != 0 && b.block < w.k)) return false;
    if (is_of_bytes(&w, dequantized_from(w.g, in[0]), b.block)) return false;
    if (ig_dim_product(w.g->dims, ig_type_of(w.g, b.scale)->dim, 2) !=
        ig_dim_const(w.g->dims, w.n * ((w.k + b.block - 1) / b.block)))
        return false;
    b.scale = unconverted(&w, b.scale);
    b.codes = plain_codes(&w, &b.offset);
    b.table = w.table;
    enum ingot_dtype type = ig_type_of(w.g, w.codes)->dtype;
    b.bits = type == INGOT_U2 || type == INGOT_I2 ? 2 : is_small_int(type) || w.table != IG_NO_VALUE ? 4 : 8;
    if (!read_zero(&w, &b)) return false;
    out_values[0] = ig_build_matmul_blocks(w.g, in[0], &b, (enum ingot_dtype)ig_attr_int(rw->in, n, IG_ATTR_acc));
    return true;
}

struct ig_graph *ig_pass_narrow_weights(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite(in, options, keep_narrow, NULL);
}
