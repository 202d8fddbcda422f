/* Type inference of contractions and windows: matmul, conv, pooling. See infer.h and, for layouts, ops.def. */
#include "ir/blocks.h"
#include "ir/infer/infer.h"
#include "ir/winograd.h"

static bool is_byte(enum ingot_dtype dtype) {
    return dtype == INGOT_I8 || dtype == INGOT_U8;
}

/* Floats of 8 bits are multiplied exactly, and summed in f32. */
static bool is_f8(enum ingot_dtype dtype) {
    return dtype == INGOT_F8E4M3FN || dtype == INGOT_F8E5M2;
}

/* Products of f32 with weights of half precision, which kernels for CPUs read as f32. */
static bool is_half(enum ingot_dtype dtype) {
    return dtype == INGOT_F16 || dtype == INGOT_BF16;
}

/* Bytes by integer filters that are transformed (winograd.h). */
static bool is_of_filters(struct ig_infer *x, enum ingot_dtype a, enum ingot_dtype b) {
    return x->node->op == IG_OP_conv && is_byte(a) && b == INGOT_I16;
}

/* Checks the operands' types and returns the result's. */
static enum ingot_dtype accumulator(struct ig_infer *x) {
    enum ingot_dtype a = ig_infer_in(x, 0)->dtype, b = ig_infer_in(x, 1)->dtype;
    int64_t acc = ig_infer_int(x, IG_ATTR_acc);
    if (is_f8(a) && is_f8(b)) {
        if (acc != INGOT_F32) ig_infer_fail(x, "floats of 8 bits are accumulated in f32 only");
        return INGOT_F32;
    }
    ig_infer_numeric(x, 0);
    bool mixed = (is_byte(a) && is_byte(b)) || (a == INGOT_F32 && is_half(b)) || is_of_filters(x, a, b);
    if (a != b && !mixed) ig_infer_fail(x, "the operands have different types");
    int64_t math = ig_infer_int(x, IG_ATTR_math);
    if (math < IG_MATH_EXACT || math > IG_MATH_FAST) ig_infer_fail(x, "unknown math %lld", (long long)math);
    bool is_type = acc > INGOT_DTYPE_NONE && acc < INGOT_DTYPE_COUNT;
    if (!is_type || ig_dtype_is_float((enum ingot_dtype)acc) != ig_dtype_is_float(a) || acc == INGOT_BOOL)
        ig_infer_fail(x, "type %s cannot be accumulated in %s", ingot_dtype_name(a),
                      is_type ? ingot_dtype_name((enum ingot_dtype)acc) : "nothing");
    return (enum ingot_dtype)acc;
}

/* The width of packed panels; 0: not packed. */
static int64_t packed_width(struct ig_infer *x) {
    int64_t packed = ig_infer_int(x, IG_ATTR_packed);
    if (packed < 0 || packed > 1 << 20) ig_infer_fail(x, "panels of %lld columns", (long long)packed);
    if (packed > 0 && ig_infer_int(x, IG_ATTR_n) < 0) ig_infer_fail(x, "n is negative");
    return packed;
}

/* The steps of the depth that packed weights have together, as one axis more than `rank`: 2 or 4; else 1. */
static int64_t steps_together(struct ig_infer *x, int rank) {
    const struct ig_type *w = ig_infer_in(x, 1);
    int64_t together;
    if (w->rank != rank + 1) {
        ig_infer_rank(x, 1, rank);
        return 1;
    }
    if (!ig_dim_is_const(x->dims, w->dim[rank], &together) || (together != 2 && together != 4))
        ig_infer_fail(x, "the packed weights have %s steps of the depth together, 2 or 4 can be",
                      ig_infer_dim_text(x, w->dim[rank]));
    return together;
}

/* ---- Matrix products */

static void matmul_packed(struct ig_infer *x, int64_t width) {
    const struct ig_type *a = ig_infer_in(x, 0), *b = ig_infer_in(x, 1);
    int64_t n = ig_infer_int(x, IG_ATTR_n), together = steps_together(x, 3);
    ig_dim depth = ig_dim_ceil_div(x->dims, a->dim[a->rank - 1], ig_dim_const(x->dims, together));
    ig_infer_unify(x, b->dim[0], ig_dim_const(x->dims, (n + width - 1) / width), "numbers of panels");
    ig_infer_unify(x, b->dim[1], depth, "inner dims");
    ig_infer_unify(x, b->dim[2], ig_dim_const(x->dims, width), "widths of panels");
    x->out[0] = *a;
    x->out[0].dim[a->rank - 1] = ig_dim_const(x->dims, n);
}

enum { MOST_FILLED = 64 };

void ig_infer_matmul(struct ig_infer *x) {
    const struct ig_type *a = ig_infer_in(x, 0), *b = ig_infer_in(x, 1);
    enum ingot_dtype acc = accumulator(x);
    int64_t packed = ig_infer_int(x, IG_ATTR_packed), filled = packed < 0 ? -packed : 0;
    int64_t width = packed < 0 ? 0 : packed_width(x);
    ig_dim one = ig_dim_const(x->dims, 1);
    if (packed < -MOST_FILLED) ig_infer_fail(x, "lines that are filled up by %lld elements", (long long)filled);
    if (a->rank < 2 || b->rank < 2) ig_infer_fail(x, "both operands must be of rank 2 or more");
    if (width > 0) {
        matmul_packed(x, width);
    } else {
        int rank = a->rank > b->rank ? a->rank : b->rank;
        ig_dim depth = ig_dim_add(x->dims, b->dim[b->rank - 2], ig_dim_const(x->dims, filled));
        ig_infer_unify(x, a->dim[a->rank - 1], depth, "inner dims");
        x->out[0].rank = rank;
        for (int i = 0; i < rank - 2; i++) {
            int in_a = i - (rank - a->rank), in_b = i - (rank - b->rank);
            ig_dim p = in_a < 0 ? one : a->dim[in_a], q = in_b < 0 ? one : b->dim[in_b];
            if (!ig_dims_broadcast(x->graph, p, q, &x->out[0].dim[i]))
                ig_infer_fail(x, "batch dims %s and %s differ", ig_infer_dim_text(x, p), ig_infer_dim_text(x, q));
        }
        x->out[0].dim[rank - 2] = a->dim[a->rank - 2];
        x->out[0].dim[rank - 1] = b->dim[b->rank - 1];
    }
    x->out[0].dtype = acc;
}

/* ---- Products with codes in blocks */

/* The codes' shape against n and k. */
static void check_codes(struct ig_infer *x, enum ig_blocks_form form, int bits, ig_dim n, ig_dim k) {
    struct ig_dims *d = x->dims;
    const struct ig_type *codes = ig_infer_in(x, 1);
    ig_dim chunks = ig_dim_ceil_div(d, k, ig_dim_const(d, ig_blocks_chunk(form, bits)));
    ig_dim tiles = ig_dim_ceil_div(d, n, ig_dim_const(d, 16));
    ig_dim plain[] = {n, k}, lanes[] = {n, chunks, ig_dim_const(d, 64)},
           fragments[] = {tiles, chunks, ig_dim_const(d, 32), ig_dim_const(d, 16)};
    const ig_dim *dims = form == IG_BLOCKS_PLAIN ? plain : form == IG_BLOCKS_LANES ? lanes : fragments;
    bool is_float = codes->dtype == INGOT_F8E4M3FN || codes->dtype == INGOT_F8E5M2;
    if (!is_float) ig_infer_dtype(x, 1, INGOT_U8);
    if (is_float && (bits != 8 || ig_infer_int(x, IG_ATTR_offset) != 0 || ig_infer_has(x, 4)))
        ig_infer_fail(x, "codes of %s with fewer bits, an offset or a table", ingot_dtype_name(codes->dtype));
    int rank = form == IG_BLOCKS_PLAIN ? 2 : form == IG_BLOCKS_LANES ? 3 : 4;
    ig_infer_rank(x, 1, rank);
    for (int i = 0; i < rank; i++)
        ig_infer_unify(x, codes->dim[i], dims[i], "dims of codes and product");
}

static void check_blocks(struct ig_infer *x, uint32_t input, enum ig_blocks_form form, ig_dim n, ig_dim blocks) {
    const struct ig_type *type = ig_infer_in(x, input);
    bool turned = form == IG_BLOCKS_FRAGMENTS;
    ig_dim sixteen = ig_dim_const(x->dims, 16);
    if (turned) n = ig_dim_mul(x->dims, ig_dim_ceil_div(x->dims, n, sixteen), sixteen);
    ig_infer_rank(x, input, 2);
    ig_infer_unify(x, type->dim[turned ? 1 : 0], n, "dims of scales and columns");
    ig_infer_unify(x, type->dim[turned ? 0 : 1], blocks, "dims of scales and blocks");
}

void ig_infer_matmul_blocks(struct ig_infer *x) {
    const struct ig_type *a = ig_infer_in(x, 0);
    int64_t acc = ig_infer_int(x, IG_ATTR_acc), bits = ig_infer_int(x, IG_ATTR_bits);
    int64_t block = ig_infer_int(x, IG_ATTR_block), packed = ig_infer_int(x, IG_ATTR_packed);
    if (a->rank < 2 || !ig_dtype_is_float(a->dtype) || ig_dtype_is_narrow(a->dtype))
        ig_infer_fail(x, "the first operand must be a matrix of floats");
    if (acc <= INGOT_DTYPE_NONE || acc >= INGOT_DTYPE_COUNT || !ig_dtype_is_float((enum ingot_dtype)acc) ||
        ig_dtype_is_narrow((enum ingot_dtype)acc))
        ig_infer_fail(x, "unknown type of the result");
    if (bits != 2 && bits != 4 && bits != 8) ig_infer_fail(x, "codes of %lld bits", (long long)bits);
    if (block < 1 || block > INT32_MAX) ig_infer_fail(x, "blocks of %lld", (long long)block);
    if (packed < 0 || packed >= IG_BLOCKS_FORMS) ig_infer_fail(x, "unknown form %lld", (long long)packed);
    if (packed && ig_infer_int(x, IG_ATTR_n) < 0) ig_infer_fail(x, "n is negative");
    ig_dim k = a->dim[a->rank - 1];
    ig_dim n = packed ? ig_dim_const(x->dims, ig_infer_int(x, IG_ATTR_n)) : ig_infer_in(x, 1)->dim[0];
    ig_dim blocks = ig_dim_ceil_div(x->dims, k, ig_dim_const(x->dims, block));
    check_codes(x, (enum ig_blocks_form)packed, (int)bits, n, k);
    ig_infer_numeric(x, 2);
    check_blocks(x, 2, (enum ig_blocks_form)packed, n, blocks);
    if (ig_infer_has(x, 3)) {
        ig_infer_numeric(x, 3);
        check_blocks(x, 3, (enum ig_blocks_form)packed, n, blocks);
    }
    if (ig_infer_has(x, 4)) {
        ig_infer_dtype(x, 4, INGOT_F32);
        ig_infer_rank(x, 4, 1);
        ig_infer_unify(x, ig_infer_in(x, 4)->dim[0], ig_dim_const(x->dims, 1 << bits), "dims of table and codes");
    }
    x->out[0] = *a;
    x->out[0].dtype = (enum ingot_dtype)acc;
    x->out[0].dim[a->rank - 1] = n;
}

/* ---- Products with scales in blocks */

void ig_infer_matmul_scaled(struct ig_infer *x) {
    struct ig_dims *d = x->dims;
    const struct ig_type *a = ig_infer_in(x, 0), *b = ig_infer_in(x, 1), *row = ig_infer_in(x, 2);
    int64_t block = ig_infer_int(x, IG_ATTR_block), columns = ig_infer_int(x, IG_ATTR_columns);
    if (!(is_f8(a->dtype) && is_f8(b->dtype)) && !(is_byte(a->dtype) && is_byte(b->dtype)))
        ig_infer_fail(x, "the operands are neither floats of 8 bits nor bytes");
    if (ig_infer_int(x, IG_ATTR_acc) != INGOT_F32) ig_infer_fail(x, "scaled sums are accumulated in f32 only");
    if (block < 1 || block > INT32_MAX) ig_infer_fail(x, "blocks of %lld", (long long)block);
    if (columns < 1 || columns > INT32_MAX) ig_infer_fail(x, "scales for %lld columns", (long long)columns);
    if (a->rank < 2) ig_infer_fail(x, "the first operand must be a matrix");
    ig_infer_rank(x, 1, 2);
    ig_infer_rank(x, 2, a->rank);
    ig_infer_rank(x, 3, 2);
    ig_infer_dtype(x, 2, INGOT_F32);
    ig_infer_dtype(x, 3, INGOT_F32);
    ig_infer_unify(x, a->dim[a->rank - 1], b->dim[1], "inner dims");
    ig_dim blocks = ig_dim_ceil_div(d, b->dim[1], ig_dim_const(d, block));
    ig_dim across = ig_dim_ceil_div(d, b->dim[0], ig_dim_const(d, columns));
    for (int i = 0; i + 1 < a->rank; i++)
        ig_infer_unify(x, row->dim[i], a->dim[i], "dims of scales and rows");
    ig_infer_unify(x, row->dim[a->rank - 1], blocks, "dims of scales and blocks");
    ig_infer_unify(x, ig_infer_in(x, 3)->dim[0], blocks, "dims of scales and blocks");
    ig_infer_unify(x, ig_infer_in(x, 3)->dim[1], across, "dims of scales and columns");
    x->out[0] = *a;
    x->out[0].dtype = INGOT_F32;
    x->out[0].dim[a->rank - 1] = b->dim[0];
}

/* ---- Convolution */

/* Axis positions in an image: [N, C, spatial…] or [N, spatial…, C]. */
struct layout {
    int channel, first_spatial, n_spatial;
};

static struct layout image_layout(struct ig_infer *x) {
    int rank = ig_infer_in(x, 0)->rank;
    bool last = ig_infer_int(x, IG_ATTR_channels_last) != 0;
    if (rank < 3) ig_infer_fail(x, "input 0 has rank %d, an image has at least 3", rank);
    return (struct layout){.channel = last ? rank - 1 : 1, .first_spatial = last ? 1 : 2, .n_spatial = rank - 2};
}

static void check_positive(struct ig_infer *x, enum ig_attr_name name, int count) {
    const int64_t *values = ig_infer_ints(x, name, count);
    for (int i = 0; i < count; i++) {
        if (values[i] < 1 || values[i] > INT32_MAX)
            ig_infer_fail(x, "attribute '%s' has the value %lld", ig_attr_name_text(name), (long long)values[i]);
    }
}

static void unify_weight(struct ig_infer *x, int axis, ig_dim expected) {
    ig_dim found = ig_infer_in(x, 1)->dim[axis], either;
    if (!ig_dims_unify(x->graph, found, expected, &either))
        ig_infer_fail(x, "dim %d of the weights is %s, expected %s", axis, ig_infer_dim_text(x, found),
                      ig_infer_dim_text(x, expected));
}

static bool are_ones(const int64_t *values, int count) {
    for (int i = 0; i < count; i++) {
        if (values[i] != 1) return false;
    }
    return true;
}

/* The positions by which transformed weights exceed the kernel along each axis (winograd.h); 0 for others. */
static int64_t transformed(struct ig_infer *x, const struct layout *l) {
    const struct ig_type *w = ig_infer_in(x, 1);
    const int64_t *kernel = ig_infer_ints(x, IG_ATTR_kernel, l->n_spatial);
    int64_t positions = 0;
    const int64_t *dilations = ig_infer_ints(x, IG_ATTR_dilations, l->n_spatial);
    bool suits = l->n_spatial == 2 && w->rank >= 4 && ig_infer_int(x, IG_ATTR_groups) == 1 &&
                 kernel[0] == IG_WINOGRAD_KERNEL && kernel[1] == IG_WINOGRAD_KERNEL &&
                 (w->dtype == INGOT_F32 || w->dtype == INGOT_I16) &&
                 are_ones(ig_infer_ints(x, IG_ATTR_strides, 2), 2) && dilations[0] == dilations[1];
    if (!suits || !ig_dim_is_const(x->dims, w->dim[2], &positions)) return 0;
    int m = ig_winograd_of_positions(positions);
    return m > 0 ? m - 1 : 0;
}

/* Depthwise weights with four lines of the kernel together (ops.def). */
static void check_lines_together(struct ig_infer *x, ig_dim channels, const int64_t *kernel) {
    ig_dim whole = ig_dim_const(x->dims, 16);
    ig_infer_rank(x, 1, 4);
    unify_weight(x, 0, ig_dim_const(x->dims, (kernel[0] + 3) / 4));
    unify_weight(x, 1, ig_dim_const(x->dims, kernel[1]));
    unify_weight(x, 2, ig_dim_mul(x->dims, ig_dim_ceil_div(x->dims, channels, whole), whole));
    unify_weight(x, 3, ig_dim_const(x->dims, 4));
}

/* Checks the weights against channels, groups, kernel and n. */
static void check_weights(struct ig_infer *x, const struct layout *l, int64_t width) {
    struct ig_dims *d = x->dims;
    const int64_t *kernel = ig_infer_ints(x, IG_ATTR_kernel, l->n_spatial);
    int64_t groups = ig_infer_int(x, IG_ATTR_groups), n = ig_infer_int(x, IG_ATTR_n);
    ig_dim channels = ig_infer_in(x, 0)->dim[l->channel];
    if (groups < 1 || n < 0 || n % groups != 0)
        ig_infer_fail(x, "%lld output channels cannot be split into %lld groups", (long long)n, (long long)groups);
    if (ig_dim_is_const(d, channels, NULL) && !ig_dim_divides(d, ig_dim_const(d, groups), channels))
        ig_infer_fail(x, "%s channels cannot be split into %lld groups", ig_infer_dim_text(x, channels),
                      (long long)groups);
    ig_dim per_group = ig_dim_div(d, channels, ig_dim_const(d, groups));
    /* Depthwise, or of few channels, without panels. */
    bool in_rows = width == 1 && groups > 1 && ig_infer_in(x, 1)->rank <= l->n_spatial + 2;
    if (in_rows && l->n_spatial == 2 && ig_infer_in(x, 1)->rank == 4 && ig_infer_in(x, 1)->dtype == INGOT_I8) {
        check_lines_together(x, channels, kernel);
        return;
    }
    int64_t more = transformed(x, l);
    int at = 0;
    bool depthwise = in_rows && ig_infer_in(x, 1)->rank == l->n_spatial + 1;
    int rank = depthwise ? l->n_spatial + 1 : width > 0 && !in_rows ? l->n_spatial + 4 : l->n_spatial + 2;
    int64_t together = width > 0 && !in_rows ? steps_together(x, rank) : 1;
    if (together == 1) ig_infer_rank(x, 1, rank);
    if (width == 0) {
        unify_weight(x, at++, ig_dim_const(d, n));
        unify_weight(x, at++, per_group);
    } else if (!in_rows) {
        unify_weight(x, at++, ig_dim_const(d, groups));
        unify_weight(x, at++, ig_dim_const(d, (n / groups + width - 1) / width));
    }
    for (int i = 0; i < l->n_spatial; i++)
        unify_weight(x, at++, ig_dim_const(d, kernel[i] + more));
    if (width == 0) return;
    unify_weight(x, at++, depthwise ? channels : ig_dim_ceil_div(d, per_group, ig_dim_const(d, together)));
    if (!depthwise) unify_weight(x, at, ig_dim_const(d, in_rows ? n : width));
}

/* floor((in + before + after - dilation*(kernel-1) - 1) / stride) + 1 */
static ig_dim window_count(struct ig_infer *x, ig_dim in, ig_dim before, ig_dim after, int64_t kernel, int64_t stride,
                           int64_t dilation) {
    struct ig_dims *d = x->dims;
    int64_t span = dilation * (kernel - 1) + 1; /* both below 2^31 */
    ig_dim room = ig_dim_sub(d, ig_dim_add(d, in, ig_dim_add(d, before, after)), ig_dim_const(d, span));
    ig_dim count = ig_dim_add(d, ig_dim_div(d, room, ig_dim_const(d, stride)), ig_dim_const(d, 1));
    int64_t lo, hi;
    ig_dim_range(d, count, &lo, &hi);
    if (hi < 0)
        ig_infer_fail(x, "a window of %lld does not fit into %s padded by %s and %s", (long long)span,
                      ig_infer_dim_text(x, in), ig_infer_dim_text(x, before), ig_infer_dim_text(x, after));
    return count;
}

/* Only bytes have zero points. */
static void check_border(struct ig_infer *x) {
    int64_t border = ig_infer_int(x, IG_ATTR_border);
    enum ingot_dtype type = ig_infer_in(x, 0)->dtype;
    bool fits = type == INGOT_I8   ? border >= INT8_MIN && border <= INT8_MAX
                : type == INGOT_U8 ? border >= 0 && border <= UINT8_MAX
                                   : border == 0;
    if (!fits) ig_infer_fail(x, "%lld beyond the edges of %s", (long long)border, ingot_dtype_name(type));
}

void ig_infer_conv(struct ig_infer *x) {
    const struct ig_type *in = ig_infer_in(x, 0);
    struct layout l = image_layout(x);
    enum ingot_dtype acc = accumulator(x);
    check_positive(x, IG_ATTR_kernel, l.n_spatial);
    check_positive(x, IG_ATTR_strides, l.n_spatial);
    check_positive(x, IG_ATTR_dilations, l.n_spatial);
    check_weights(x, &l, packed_width(x));
    check_border(x);
    const int64_t *kernel = ig_infer_ints(x, IG_ATTR_kernel, l.n_spatial);
    const int64_t *strides = ig_infer_ints(x, IG_ATTR_strides, l.n_spatial);
    const int64_t *dilations = ig_infer_ints(x, IG_ATTR_dilations, l.n_spatial);
    const ig_dim *before = ig_infer_dims(x, IG_ATTR_before, l.n_spatial);
    const ig_dim *after = ig_infer_dims(x, IG_ATTR_after, l.n_spatial);
    ig_dim n = ig_dim_const(x->dims, ig_infer_int(x, IG_ATTR_n));
    if (ig_infer_has(x, 2)) {
        ig_infer_rank(x, 2, 1);
        ig_infer_dtype(x, 2, acc);
        ig_infer_unify(x, ig_infer_in(x, 2)->dim[0], n, "dims of bias and output channels");
    }
    x->out[0] = *in;
    x->out[0].dtype = acc;
    x->out[0].dim[l.channel] = n;
    for (int i = 0; i < l.n_spatial; i++)
        x->out[0].dim[l.first_spatial + i] =
            window_count(x, in->dim[l.first_spatial + i], before[i], after[i], kernel[i], strides[i], dilations[i]);
}

/* ---- Pooling */

static void pool(struct ig_infer *x) {
    const struct ig_type *in = ig_infer_in(x, 0);
    struct layout l = image_layout(x);
    check_positive(x, IG_ATTR_kernel, l.n_spatial);
    check_positive(x, IG_ATTR_strides, l.n_spatial);
    check_positive(x, IG_ATTR_dilations, l.n_spatial);
    ig_infer_dims(x, IG_ATTR_before, l.n_spatial);
    const ig_dim *sizes = ig_infer_dims(x, IG_ATTR_sizes, l.n_spatial);
    x->out[0] = *in;
    for (int i = 0; i < l.n_spatial; i++) {
        ig_infer_not_negative(x, sizes[i], "size");
        x->out[0].dim[l.first_spatial + i] = sizes[i];
    }
}

void ig_infer_pool_max(struct ig_infer *x) {
    ig_infer_numeric(x, 0);
    pool(x);
}

void ig_infer_pool_argmax(struct ig_infer *x) {
    ig_infer_numeric(x, 0);
    pool(x);
    x->out[0].dtype = INGOT_I64;
}

void ig_infer_pool_sum(struct ig_infer *x) {
    ig_infer_numeric(x, 0);
    pool(x);
}

void ig_infer_pool_avg(struct ig_infer *x) {
    ig_infer_numeric(x, 0);
    pool(x);
    ig_infer_dims(x, IG_ATTR_after, ig_infer_in(x, 0)->rank - 2);
}
