/*
 * Products with weights of few bits in blocks, ONNX Runtime's own: MatMulNBits, whose integers have a scale and a zero point for each
 * block of a column, and MatMulBnb4, whose codes are of a table and have a scale for each block of the flattened weight.
 * Sources: ONNX Runtime, "Contrib operators"; Dettmers et al. 2023 (NF4, FP4).
 */
#include "import/onnx/importer.h"
#include "import/onnx/op/arith.h"

/* Splits each byte into elements of `bits`, [..., bytes] -> [..., bytes * 8 / bits]; the first is in the lowest bits, or, if
 * `high_first`, in the highest. */
static ig_value split_bytes(struct ig_onnx_node *n, ig_value bytes, int bits, bool high_first) {
    struct ig_graph *g = n->g;
    struct ig_type t = *ig_type_of(g, bytes);
    int64_t each = 8 / bits;
    if (each == 1) return bytes;
    uint8_t *shifts = IG_NEW_ARRAY(n->job, uint8_t, 8);
    for (int i = 0; i < each; i++)
        shifts[i] = (uint8_t)(bits * (high_first ? (int)each - 1 - i : i));
    struct ig_data data = {.bytes = shifts, .size = (size_t)each};
    ig_value apart = ig_build_unsqueeze(g, bytes, &t.rank, 1);
    ig_value shifted = ig_map2(g, IG_OP_shr, apart, ig_build_constant(g, INGOT_U8, 1, &each, &data));
    ig_value elements = ig_map2(g, IG_OP_bitand, shifted, ig_like(g, shifted, (1 << bits) - 1));
    t.dim[t.rank - 1] = ig_dim_mul(n->dims, t.dim[t.rank - 1], ig_dim_const(n->dims, each));
    /* the type tells passes how many bits there are */
    return ig_build_cast(g, ig_build_reshape(g, elements, t.dim, t.rank), bits == 4 ? INGOT_U4 : INGOT_U2);
}

static int64_t positive(struct ig_onnx_node *n, const char *name) {
    int64_t value = ig_onnx_int(n, name, 0);
    if (value < 1 || value > INT32_MAX) ig_onnx_bad(n, "attribute '%s' is %lld", name, (long long)value);
    return value;
}

static int64_t read_block_size(struct ig_onnx_node *n) {
    int64_t block = positive(n, "block_size");
    if (block < 16 || (block & (block - 1)))
        ig_onnx_bad(n, "attribute 'block_size' is %lld, expected a power of two from 16 on", (long long)block);
    return block;
}

static void check_dim(struct ig_onnx_node *n, uint32_t input, int axis, int64_t expected) {
    int64_t size;
    if (ig_dim_is_const(n->dims, ig_onnx_dim(n, n->in[input], axis), &size) && size == expected) return;
    ig_onnx_bad(n, "axis %d of input %u is not of size %lld", axis, input, (long long)expected);
}

static void check_bytes(struct ig_onnx_node *n, uint32_t input) {
    enum ingot_dtype type = ig_onnx_type(n, ig_onnx_in(n, input));
    if (type != INGOT_U8) ig_onnx_bad(n, "input %u has type %s, expected u8", input, ingot_dtype_name(type));
}

/* a times the transpose of w of f32, [columns, depth], in a's type. */
static ig_value product(struct ig_onnx_node *n, ig_value a, ig_value w) {
    static const int64_t turned[] = {1, 0};
    enum ingot_dtype type = ig_onnx_type(n, a);
    ig_onnx_check_rank(n, a, 1, INGOT_MAX_RANK, "input 0");
    int row = 0, rank = ig_onnx_rank(n, a), squeezed = 0;
    if (rank == 1) a = ig_build_unsqueeze(n->g, a, &row, 1);
    ig_value y = ig_build_matmul(n->g, a, ig_build_transpose(n->g, ig_build_cast(n->g, w, type), turned), type);
    return rank == 1 ? ig_build_squeeze(n->g, y, &squeezed, 1) : y;
}

/* ---- MatMulNBits: a, b [N, blocks, bytes], scales [N, blocks], zero points, g_idx, bias ---- */

struct blocks {
    int bits;
    int64_t n, k, size, count; /* of the blocks of a column */
};

static struct blocks read_blocks(struct ig_onnx_node *n) {
    struct blocks b = {(int)ig_onnx_int(n, "bits", 4), positive(n, "N"), positive(n, "K"), read_block_size(n), 0};
    if (b.bits != 2 && b.bits != 4 && b.bits != 8) ig_onnx_refuse(n, "weights of %d bits are not supported", b.bits);
    if (ig_onnx_int(n, "weight_prepacked", 0))
        ig_onnx_refuse(n, "weights packed for one kind of GPU are not supported");
    b.count = (b.k + b.size - 1) / b.size;
    return b;
}

/* [N, blocks] or flat, as [N, blocks]. */
static ig_value per_block(struct ig_onnx_node *n, uint32_t input, const struct blocks *b, int64_t columns) {
    struct ig_dims *dims = n->dims;
    ig_dim shape[] = {ig_dim_const(dims, b->n), ig_dim_const(dims, columns)};
    if (ig_onnx_rank(n, ig_onnx_in(n, input)) != 1) {
        ig_onnx_check_rank(n, n->in[input], 2, 2, "a scale or zero point");
        check_dim(n, input, 0, b->n);
        check_dim(n, input, 1, columns);
    } else {
        check_dim(n, input, 0, b->n * columns);
    }
    return ig_build_reshape(n->g, n->in[input], shape, 2);
}

/* In f32: packed as the weight is, or plain numbers, or the middle of the range. */
static ig_value zero_points(struct ig_onnx_node *n, const struct blocks *b) {
    struct ig_graph *g = n->g;
    if (!ig_onnx_has(n, 3)) return ig_build_scalar(g, INGOT_F32, 1 << (b->bits - 1));
    if (ig_onnx_type(n, n->in[3]) != INGOT_U8) return ig_build_cast(g, per_block(n, 3, b, b->count), INGOT_F32);
    ig_value bytes = per_block(n, 3, b, (b->count * b->bits + 7) / 8), zeros = split_bytes(n, bytes, b->bits, false);
    zeros = ig_build_slice_axis(g, zeros, 1, ig_dim_const(n->dims, 0), ig_dim_const(n->dims, b->count), 1);
    return ig_build_cast(g, zeros, INGOT_F32);
}

/* A value per block as one for each element of [N, K], or, without g_idx, of [N, blocks, block]. */
static ig_value spread(struct ig_onnx_node *n, ig_value value) {
    int axis = 2;
    if (ig_onnx_rank(n, value) == 0) return value;
    return ig_onnx_has(n, 4) ? ig_build_gather(n->g, value, n->in[4], 1) : ig_build_unsqueeze(n->g, value, &axis, 1);
}

static ig_value cut_depth(struct ig_onnx_node *n, ig_value w, const struct blocks *b) {
    struct ig_dims *dims = n->dims;
    ig_dim flat[] = {ig_dim_const(dims, b->n), ig_dim_const(dims, b->count * b->size)};
    w = ig_build_reshape(n->g, w, flat, 2);
    return ig_build_slice_axis(n->g, w, 1, ig_dim_const(dims, 0), ig_dim_const(dims, b->k), 1);
}

ig_value ig_import_matmul_nbits(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    struct blocks b = read_blocks(n);
    check_bytes(n, 1);
    ig_onnx_check_rank(n, n->in[1], 2, 3, "the weight");
    ig_dim shape[] = {ig_dim_const(n->dims, b.n), ig_dim_const(n->dims, b.count),
                      ig_dim_const(n->dims, b.size * b.bits / 8)};
    check_dim(n, 1, 0, b.n);
    check_dim(n, 1, 1, ig_onnx_rank(n, n->in[1]) == 3 ? b.count : b.count * b.size * b.bits / 8);
    if (ig_onnx_rank(n, n->in[1]) == 3) check_dim(n, 1, 2, b.size * b.bits / 8);
    ig_value w = split_bytes(n, ig_build_reshape(g, n->in[1], shape, 3), b.bits, false);
    bool grouped = ig_onnx_has(n, 4);
    if (grouped) w = cut_depth(n, w, &b);
    w = ig_sub(g, ig_build_cast(g, w, INGOT_F32), spread(n, zero_points(n, &b)));
    w = ig_mul(g, w, spread(n, ig_build_cast(g, per_block(n, 2, &b, b.count), INGOT_F32)));
    if (!grouped) w = cut_depth(n, w, &b);
    ig_value y = product(n, ig_onnx_in(n, 0), w);
    if (!ig_onnx_has(n, 5)) return y;
    ig_onnx_check_same_type(n, y, n->in[5]);
    return ig_add(g, y, n->in[5]);
}

/* ---- MatMulBnb4: a, b [(N * K + 1) / 2], absmax [blocks] ---- */

/* FP4's values are twelfths, and NF4's quantiles of the normal distribution, both as bitsandbytes has them. */
static const float tables[2][16] = {
    {0, 0.0052083333f, 0.66666667f, 1, 0.33333333f, 0.5f, 0.16666667f, 0.25f, -0.0f, -0.0052083333f, -0.66666667f, -1,
     -0.33333333f, -0.5f, -0.16666667f, -0.25f},
    {-1, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
     -0.18477343022823334f, -0.09105003625154495f, 0, 0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f,
     0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1},
};

/* Blocks run over all of the flattened weight, and so over the ends of its rows. */
static ig_value times_absmax(struct ig_onnx_node *n, ig_value flat, int64_t count, int64_t block) {
    struct ig_dims *dims = n->dims;
    struct ig_graph *g = n->g;
    int64_t blocks = (count + block - 1) / block;
    int axis = 1;
    ig_onnx_check_rank(n, ig_onnx_in(n, 2), 1, 1, "absmax");
    check_dim(n, 2, 0, blocks);
    ig_dim zero = ig_dim_const(dims, 0), missing = ig_dim_const(dims, blocks * block - count);
    ig_dim shape[] = {ig_dim_const(dims, blocks), ig_dim_const(dims, block)},
           whole = ig_dim_const(dims, blocks * block);
    flat = ig_build_reshape(g, ig_build_pad(g, flat, &zero, &missing, IG_PAD_CONSTANT, IG_NO_VALUE), shape, 2);
    ig_value scales = ig_build_unsqueeze(g, ig_build_cast(g, n->in[2], INGOT_F32), &axis, 1);
    flat = ig_build_reshape(g, ig_mul(g, flat, scales), &whole, 1);
    return ig_build_slice_axis(g, flat, 0, zero, ig_dim_const(dims, count), 1);
}

ig_value ig_import_matmul_bnb4(struct ig_onnx_node *n) {
    static const int64_t turned[] = {1, 0}, sixteen = 16;
    struct ig_graph *g = n->g;
    int64_t rows = positive(n, "N"), depth = positive(n, "K"), block = read_block_size(n), count = rows * depth;
    int64_t type = ig_onnx_int(n, "quant_type", 1);
    if (type != 0 && type != 1) ig_onnx_refuse(n, "attribute 'quant_type' is %lld", (long long)type);
    check_bytes(n, 1);
    ig_dim all = ig_dim_const(n->dims, count), packed = ig_dim_const(n->dims, (count + 1) / 2),
           zero = ig_dim_const(n->dims, 0);
    ig_value bytes = ig_build_reshape(g, n->in[1], &packed, 1);
    ig_value codes = ig_build_slice_axis(g, split_bytes(n, bytes, 4, true), 0, zero, all, 1);
    struct ig_data data = {.bytes = tables[type], .size = sizeof tables[type]};
    ig_value table = ig_build_constant(g, INGOT_F32, 1, &sixteen, &data);
    ig_value flat = ig_build_gather(g, table, ig_build_cast(g, codes, INGOT_I32), 0);
    ig_dim shape[] = {ig_dim_const(n->dims, rows), ig_dim_const(n->dims, depth)};
    ig_value w = ig_build_reshape(g, times_absmax(n, flat, count, block), shape, 2);
    bool transposed = ig_onnx_flag(n, "transB", true);
    return product(n, ig_onnx_in(n, 0), transposed ? w : ig_build_transpose(g, w, turned));
}
