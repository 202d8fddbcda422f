/* Steps of networks, one after the other; see random_network.h. */
#include "support/random/random_network.h"

#include <math.h>
#include <string.h>

#include "support/random/random_steps.h"

enum { MAX_DEPTH = 4096 };

static const int64_t odd_sizes[] = {1, 2, 3, 5, 7, 8, 16, 17, 31, 33, 63, 64, 65, 127, 129};
enum { ODD_SIZES = sizeof odd_sizes / sizeof *odd_sizes };

static bool is_const(struct random_maker *m, ig_dim dim, int64_t *out_size) {
    return ig_dim_is_const(m->g->dims, dim, out_size);
}

/* Small enough for odd sizes to be worth it, large enough to be more than one tile. */
int64_t random_odd_size(struct random_maker *m) {
    return odd_sizes[random_pick(m, random_pick(m, 3) ? 8 : ODD_SIZES)];
}

/* Sums of `count` products or numbers, each of at most `each`, of either sign where `mixed`: four deviations then. */
void random_sum(struct random_maker *m, int64_t count, int64_t each, bool mixed) {
    double size = mixed ? 4 * sqrt((double)count) * (double)each : (double)count * (double)each;
    if (size > (double)m->largest) m->exact = false;
}

/* Of a product, so that results are about as large as what went in. */
static ig_value settled(struct random_maker *m, ig_value y, int64_t depth) {
    if (!m->exact) y = map2(m, IG_OP_mul, y, scalar(m, 1 / sqrt((double)(depth > 0 ? depth : 1))));
    if (m->exact && random_pick(m, 3)) { /* unlike a clamp, it hides no error */
        return map2(m, IG_OP_sub, map2(m, IG_OP_mod, y, scalar(m, 17)), scalar(m, 8));
    }
    return random_pick(m, 4) && !m->exact ? y : random_clamp(m, y);
}

/* ---- Contractions -------------------------------------------------------------------------------------------------------- */

static ig_value step_wide_matmul(struct random_maker *m, ig_value x) {
    struct ig_type type = type_of(m, x);
    int64_t k, dims[RANDOM_MAX_RANK] = {0};
    if (type.rank < 2 || !is_const(m, type.dim[type.rank - 1], &k) || k == 0) return x;
    int batches = random_pick(m, 3) ? 0 : type.rank - 2;
    for (int i = 0; i < batches; i++)
        if (!is_const(m, type.dim[i], &dims[i]) || random_pick(m, 2)) dims[i] = 1;
    dims[batches] = k;
    dims[batches + 1] = random_odd_size(m);
    ig_value w = random_weights(m, batches + 2, dims);
    ig_value y = ig_build_matmul(m->g, x, w, INGOT_F32);
    if (random_pick(m, 2)) y = map2(m, IG_OP_add, y, random_weights(m, 1, &dims[batches + 1]));
    random_sum(m, k, 6, true);
    return settled(m, y, k);
}

/* x x^T, x^T x or x y, batched. */
static ig_value step_own_matmul(struct random_maker *m, ig_value x) {
    struct ig_type type = type_of(m, x);
    int64_t perm[RANDOM_MAX_RANK];
    if (type.rank < 2) return x;
    for (int i = 0; i < type.rank; i++)
        perm[i] = i < type.rank - 2 ? i : 2 * type.rank - 3 - i;
    ig_value t = ig_build_transpose(m->g, x, perm);
    bool first = random_pick(m, 2);
    ig_value y = ig_build_matmul(m->g, first ? x : t, first ? t : x, INGOT_F32);
    int64_t depth = random_size(m, type.dim[type.rank - (first ? 1 : 2)]);
    random_sum(m, depth > 130 ? depth : 130, 64, false); /* it may be a symbol */
    return settled(m, y, depth);
}

/* All but the first axes merged, then a product with a matrix, perhaps from the left. */
static ig_value step_gemm(struct random_maker *m, ig_value x) {
    struct ig_type type = type_of(m, x);
    int64_t k;
    if (type.rank < 2) return x;
    int kept = 1 + (int)random_pick(m, type.rank - 1);
    ig_dim dims[2] = {ig_dim_product(m->g->dims, type.dim, kept),
                      ig_dim_product(m->g->dims, type.dim + kept, type.rank - kept)};
    if (!is_const(m, dims[1], &k) || k == 0 || k > MAX_DEPTH) return x;
    x = ig_build_reshape(m->g, x, dims, 2);
    int64_t sizes[2] = {k, random_odd_size(m)}, turned[2] = {sizes[1], k};
    static const int64_t swap[] = {1, 0};
    bool left = random_pick(m, 4) == 0;
    random_sum(m, k, 6, true);
    if (left)
        return settled(
            m, ig_build_matmul(m->g, random_weights(m, 2, turned), ig_build_transpose(m->g, x, swap), INGOT_F32), k);
    ig_value w =
        random_pick(m, 2) ? random_weights(m, 2, sizes) : ig_build_transpose(m->g, random_weights(m, 2, turned), swap);
    return settled(m, ig_build_matmul(m->g, x, w, INGOT_F32), k);
}

struct window {
    int64_t kernel[3], strides[3], dilations[3];
    ig_dim before[3], after[3], sizes[3];
};

/* A window that fits, on the axes from 2 on. False where none does. */
static bool random_window(struct random_maker *m, const struct ig_type *type, bool strictly, struct window *out) {
    int spatial = type->rank - 2;
    for (int i = 0; i < spatial; i++) {
        int64_t size;
        bool known = is_const(m, type->dim[2 + i], &size);
        out->kernel[i] = 1 + random_pick(m, spatial == 3 ? 3 : random_pick(m, 8) ? 4 : 7);
        out->strides[i] = random_pick(m, 2) ? 1 : 1 + random_pick(m, 3);
        out->dilations[i] = random_pick(m, 3) ? 1 : 1 + random_pick(m, 3);
        int64_t reach = (out->kernel[i] - 1) * out->dilations[i];
        int64_t before = random_pick(m, 2) ? reach / 2 : random_pick(m, reach + 1),
                after = random_pick(m, 2) ? reach - before : random_pick(m, reach + 1);
        if (strictly && before >= out->kernel[i]) before = 0;
        int64_t least = known ? size : 1;
        if (least + before + after < reach + 1) after = reach + 1 - least - before;
        if (known && size == 0) return false;
        struct ig_dims *dims = m->g->dims;
        out->before[i] = random_dim(m, before);
        out->after[i] = random_dim(m, after);
        ig_dim room = ig_dim_add(dims, type->dim[2 + i], random_dim(m, before + after - reach - 1));
        out->sizes[i] = ig_dim_add(dims, ig_dim_div(dims, room, random_dim(m, out->strides[i])), random_dim(m, 1));
    }
    return true;
}

static ig_value general_conv(struct random_maker *m, ig_value x, const struct window *w, int64_t groups,
                             int64_t channels, int64_t outputs) {
    int rank = ig_type_of(m->g, x)->rank, spatial = rank - 2;
    int64_t dims[5] = {outputs, channels / groups}, depth = channels / groups;
    for (int i = 0; i < spatial; i++) {
        dims[2 + i] = w->kernel[i];
        depth *= w->kernel[i];
    }
    struct ig_attr attrs[] = {ig_attr_of_ints(w->strides, spatial),
                              ig_attr_of_ints(w->dilations, spatial),
                              ig_attr_of_dims(w->before, spatial),
                              ig_attr_of_dims(w->after, spatial),
                              ig_attr_of_int(groups),
                              ig_attr_of_dtype(INGOT_F32),
                              ig_attr_of_int(0),
                              ig_attr_of_int(0),
                              ig_attr_of_int(outputs),
                              ig_attr_of_ints(dims + 2, spatial),
                              ig_attr_of_int(IG_MATH_EXACT),
                              ig_attr_of_int(0)};
    ig_value in[3] = {x, random_weights(m, rank, dims), random_weights(m, 1, dims)};
    random_sum(m, depth, 6, true);
    return settled(m, ig_build_node(m->g, IG_OP_conv, in, 2 + (uint32_t)random_pick(m, 2), 1, attrs, NULL), depth);
}

static ig_value step_wide_conv(struct random_maker *m, ig_value x) {
    struct ig_type type = type_of(m, x);
    struct window w;
    int64_t channels;
    if (type.rank < 3 || type.rank > 5 || !is_const(m, type.dim[1], &channels) || channels == 0) return x;
    if (!random_window(m, &type, false, &w)) return x;
    int64_t groups = 1, each = random_odd_size(m);
    if (random_pick(m, 3) == 0) {
        groups = channels;
        each = random_pick(m, 3) ? 1 : 1 + random_pick(m, 3);
    } else if (random_pick(m, 3) == 0) {
        for (int64_t d = 2 + random_pick(m, 3); d < channels && groups == 1; d++)
            if (channels % d == 0) groups = d;
        if (groups > 1) each = 1 + random_pick(m, 9);
    }
    return general_conv(m, x, &w, groups, channels, groups * each);
}

/* x + conv(conv(x)), as in residual networks. */
static ig_value step_residual(struct random_maker *m, ig_value x) {
    struct ig_type type = type_of(m, x);
    struct window w = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0}, {0}, {0}};
    int64_t channels;
    if (type.rank < 3 || type.rank > 5 || !is_const(m, type.dim[1], &channels) || channels == 0) return x;
    for (int i = 0; i < 3; i++)
        w.before[i] = w.after[i] = random_dim(m, 0);
    int64_t middle = random_odd_size(m);
    ig_value y = general_conv(m, x, &w, 1, channels, middle);
    if (random_pick(m, 2)) y = map2(m, IG_OP_max, y, scalar(m, 0));
    for (int i = 0; i < 3; i++) {
        w.kernel[i] = 3;
        w.before[i] = w.after[i] = random_dim(m, 1);
    }
    y = general_conv(m, y, &w, 1, middle, channels);
    y = random_pick(m, 2) ? map2(m, IG_OP_add, x, y) : map2(m, IG_OP_add, y, x);
    return random_clamp(m, y);
}

/* ---- Windows, rows ------------------------------------------------------------------------------------------------------- */

static ig_value step_wide_pool(struct random_maker *m, ig_value x) {
    struct ig_type type = type_of(m, x);
    struct window w;
    int spatial = type.rank - 2;
    if (spatial < 1 || spatial > 3 || !random_window(m, &type, true, &w)) return x;
    struct ig_attr attrs[] = {ig_attr_of_ints(w.kernel, spatial),
                              ig_attr_of_ints(w.strides, spatial),
                              ig_attr_of_ints(w.dilations, spatial),
                              ig_attr_of_dims(w.before, spatial),
                              ig_attr_of_dims(w.sizes, spatial),
                              ig_attr_of_int(0),
                              ig_attr_of_int(0),
                              ig_attr_of_int(0)};
    switch (random_pick(m, 4)) {
    case 0:
        attrs[6] = ig_attr_of_dims(w.after, spatial);
        attrs[7] = ig_attr_of_int(random_pick(m, 2));
        m->exact = false;
        return ig_build_node(m->g, IG_OP_pool_avg, &x, 1, 1, attrs, NULL);
    case 1:
        random_sum(m, 343, 8, false);
        return random_clamp(m, ig_build_node(m->g, IG_OP_pool_sum, &x, 1, 1, attrs, NULL));
    case 2:
        if (!m->exact) break;
        attrs[6] = ig_attr_of_int(random_pick(m, 2));
        return random_clamp(
            m, to_float(m, map2(m, IG_OP_mod, ig_build_node(m->g, IG_OP_pool_argmax, &x, 1, 1, attrs, NULL),
                                ig_build_scalar_int(m->g, INGOT_I64, 7))));
    default: break;
    }
    return ig_build_node(m->g, IG_OP_pool_max, &x, 1, 1, attrs, NULL);
}

int random_axes(struct random_maker *m, int rank, int64_t *out_axes) {
    int count = 0;
    if (random_pick(m, 2)) { /* the last ones */
        for (int i = rank - 1 - (int)random_pick(m, rank > 2 ? 2 : 1); i < rank; i++)
            out_axes[count++] = i;
        return count;
    }
    for (int i = 0; i < rank; i++)
        if (random_pick(m, 2)) out_axes[count++] = i;
    if (count == 0) out_axes[count++] = random_pick(m, rank);
    return count;
}

static ig_value step_wide_reduce(struct random_maker *m, ig_value x) {
    int64_t axes[RANDOM_MAX_RANK];
    int rank = ig_type_of(m->g, x)->rank;
    if (rank == 0) return x;
    int count = random_axes(m, rank, axes);
    switch (random_pick(m, 5)) {
    case 0: m->exact = false; return ig_build_reduce(m->g, IG_OP_reduce_mean, x, axes, count);
    case 1: return m->exact ? ig_build_reduce(m->g, IG_OP_reduce_prod, ig_map1(m->g, IG_OP_sign, x), axes, count) : x;
    case 2:
        random_sum(m, m->max_elements, 8, false);
        return random_clamp(m, ig_build_reduce(m->g, IG_OP_reduce_sum, x, axes, count));
    case 3: return ig_build_reduce(m->g, IG_OP_reduce_max, x, axes, count);
    default: return ig_build_reduce(m->g, IG_OP_reduce_min, x, axes, count);
    }
}

static ig_value softmax(struct random_maker *m, ig_value x, const int64_t *axes, int count) {
    struct ig_graph *g = m->g;
    ig_value e = ig_map1(g, IG_OP_exp, map2(m, IG_OP_sub, x, ig_build_reduce(g, IG_OP_reduce_max, x, axes, count)));
    m->exact = false;
    return map2(m, IG_OP_div, e, ig_build_reduce(g, IG_OP_reduce_sum, e, axes, count));
}

static ig_value step_softmax(struct random_maker *m, ig_value x) {
    int64_t axes[RANDOM_MAX_RANK];
    int rank = ig_type_of(m->g, x)->rank;
    if (rank == 0) return x;
    int count = random_axes(m, rank, axes);
    if (random_pick(m, 3)) return softmax(m, x, axes, count);
    ig_value shifted = map2(m, IG_OP_sub, x, ig_build_reduce(m->g, IG_OP_reduce_max, x, axes, count));
    ig_value sum = ig_build_reduce(m->g, IG_OP_reduce_sum, ig_map1(m->g, IG_OP_exp, shifted), axes, count);
    m->exact = false;
    return map2(m, IG_OP_sub, shifted, ig_map1(m->g, IG_OP_log, sum));
}

/* Layer, instance and group norms differ in their axes. */
static ig_value step_layer_norm(struct random_maker *m, ig_value x) {
    struct ig_graph *g = m->g;
    struct ig_type type = type_of(m, x);
    int64_t axes[RANDOM_MAX_RANK], size;
    if (type.rank == 0) return x;
    int count = random_axes(m, type.rank, axes);
    m->exact = false;
    ig_value mean = ig_build_reduce(g, IG_OP_reduce_mean, x, axes, count), centered = map2(m, IG_OP_sub, x, mean);
    if (random_pick(m, 4) == 0) centered = x; /* of the root mean square */
    ig_value variance = ig_build_reduce(g, IG_OP_reduce_mean, map2(m, IG_OP_mul, centered, centered), axes, count);
    ig_value deviation = ig_map1(g, IG_OP_sqrt, map2(m, IG_OP_add, variance, scalar(m, 0.01)));
    ig_value y = random_pick(m, 2) ? map2(m, IG_OP_div, centered, deviation)
                                   : map2(m, IG_OP_mul, centered, map2(m, IG_OP_div, scalar(m, 1), deviation));
    if (random_pick(m, 2) && is_const(m, type.dim[type.rank - 1], &size)) {
        y = map2(m, IG_OP_mul, y, random_weights(m, 1, &size));
        y = map2(m, IG_OP_add, y, random_weights(m, 1, &size));
    }
    return y;
}

static ig_value step_activation(struct random_maker *m, ig_value x) {
    struct ig_graph *g = m->g;
    m->exact = false;
    switch (random_pick(m, 6)) {
    case 0: {
        ig_value e = ig_map1(g, IG_OP_erf, map2(m, IG_OP_mul, x, scalar(m, sqrt(0.5))));
        return map2(m, IG_OP_mul, map2(m, IG_OP_mul, x, scalar(m, 0.5)), map2(m, IG_OP_add, e, scalar(m, 1)));
    }
    case 1: return map2(m, IG_OP_mul, x, ig_map1(g, IG_OP_sigmoid, x));
    case 2: return ig_map1(g, IG_OP_tanh, x);
    case 3: return ig_map1(g, IG_OP_sigmoid, x);
    case 4: return ig_map1(g, IG_OP_log1p, ig_map1(g, IG_OP_exp, random_clamp(m, x)));
    default: { /* not from 0 on, where it is steep */
        ig_value size = ig_map1(g, IG_OP_abs, random_clamp(m, x));
        return ig_map1(g, IG_OP_sqrt, map2(m, IG_OP_add, size, scalar(m, 0.25)));
    }
    }
}

/* ---- Attention ----------------------------------------------------------------------------------------------------------- */

static ig_value split_heads(struct random_maker *m, ig_value x, int64_t heads, int64_t depth) {
    struct ig_type t = type_of(m, x);
    ig_dim dims[4] = {t.dim[0], t.dim[1], random_dim(m, heads), random_dim(m, depth)};
    static const int64_t perm[] = {0, 2, 1, 3};
    return ig_build_transpose(m->g, ig_build_reshape(m->g, x, dims, 4), perm);
}

static ig_value masked(struct random_maker *m, ig_value s) {
    struct ig_graph *g = m->g;
    struct ig_type t = type_of(m, s);
    ig_dim one = random_dim(m, 1), rows[4] = {one, one, t.dim[2], one}, columns[4] = {one, one, one, t.dim[3]};
    ig_value row = ig_build_iota(g, rows, 4, 2), column = ig_build_iota(g, columns, 4, 3);
    ig_value seen = map2(m, IG_OP_le, column, row);
    int64_t kind = random_pick(m, 6);
    if (kind == 3) { /* a window of the last three */
        ig_value later = map2(m, IG_OP_sub, row, ig_build_scalar_int(g, INGOT_I64, 3));
        seen = map2(m, IG_OP_and, seen, map2(m, IG_OP_lt, later, column));
    }
    if (kind == 0) return s;
    if (kind == 1) { /* by distance */
        return map2(m, IG_OP_add, s, to_float(m, map2(m, IG_OP_sub, column, row)));
    }
    if (kind == 2) return map2(m, IG_OP_add, s, ig_build_where(g, seen, scalar(m, 0), scalar(m, -3.4028235e38)));
    if (kind == 5) { /* keys of an input's sign, the first is always seen */
        ig_value y = m->pool.at[0];
        struct ig_type u = type_of(m, y);
        if (u.rank < 2 || u.dim[0] != t.dim[0] || u.dim[1] != t.dim[3]) return s;
        for (int i = u.rank - 1; i >= 2; i--) {
            int64_t axis = i;
            y = ig_build_reduce(g, IG_OP_reduce_max, y, &axis, 1);
        }
        ig_dim dims[4] = {t.dim[0], one, one, t.dim[3]};
        y = ig_build_reshape(g, y, dims, 4);
        ig_value first = map2(m, IG_OP_lt, column, ig_build_scalar_int(g, INGOT_I64, 1));
        seen = map2(m, IG_OP_or, first, map2(m, IG_OP_lt, y, scalar(m, 0)));
    }
    return ig_build_where(g, seen, s, scalar(m, kind == 4 ? -INFINITY : -1e9));
}

/* Of [batch, length, channels]; the projections are products, scores are scaled at one place or the other. */
static ig_value step_attention(struct random_maker *m, ig_value x) {
    static const int64_t depths[] = {8, 16, 32, 64, 5, 20, 40};
    struct ig_graph *g = m->g;
    struct ig_type t = type_of(m, x);
    int64_t k, heads = 1 + random_pick(m, 3), depth = depths[random_pick(m, 7)], last = 3;
    if (t.rank != 3 || !is_const(m, t.dim[2], &k) || k == 0) return x;
    m->exact = false;
    ig_value part[3], normed = map2(m, IG_OP_mul, x, scalar(m, 0.25 / sqrt((double)k)));
    for (int i = 0; i < 3; i++) {
        const int64_t dims[] = {k, heads * depth};
        part[i] = split_heads(m, ig_build_matmul(g, normed, random_weights(m, 2, dims), INGOT_F32), heads, depth);
    }
    static const int64_t turn[] = {0, 1, 3, 2};
    bool early = random_pick(m, 2);
    if (early) part[0] = map2(m, IG_OP_mul, part[0], scalar(m, 1 / sqrt((double)depth)));
    ig_value s = ig_build_matmul(g, part[0], ig_build_transpose(g, part[1], turn), INGOT_F32);
    if (!early) s = map2(m, IG_OP_mul, s, scalar(m, 1 / sqrt((double)depth)));
    ig_value y = ig_build_matmul(g, softmax(m, masked(m, s), &last, 1), part[2], INGOT_F32);
    static const int64_t back[] = {0, 2, 1, 3};
    ig_dim dims[3] = {t.dim[0], t.dim[1], random_dim(m, heads * depth)};
    y = ig_build_reshape(g, ig_build_transpose(g, y, back), dims, 3);
    if (random_pick(m, 2)) return y;
    const int64_t out[] = {heads * depth, k};
    y = map2(m, IG_OP_mul, ig_build_matmul(g, y, random_weights(m, 2, out), INGOT_F32), scalar(m, 0.125));
    return map2(m, IG_OP_add, x, y);
}

/* ---- Scans --------------------------------------------------------------------------------------------------------------- */

static ig_value step_scan(struct random_maker *m, ig_value x) {
    int rank = ig_type_of(m->g, x)->rank;
    if (rank == 0) return x;
    struct ig_attr attrs[] = {ig_attr_of_int(random_pick(m, rank)), ig_attr_of_int(random_pick(m, 2)),
                              ig_attr_of_int(random_pick(m, 2))};
    random_sum(m, m->max_elements, 8, false);
    if (random_pick(m, 3) || !m->exact)
        return random_clamp(m, ig_build_node(m->g, IG_OP_cumsum, &x, 1, 1, attrs, NULL));
    x = ig_map1(m->g, IG_OP_sign, x);
    return ig_build_node(m->g, IG_OP_cumprod, &x, 1, 1, attrs, NULL);
}

/* Over the first of three axes. */
static ig_value step_recurrence(struct random_maker *m, ig_value x) {
    struct ig_graph *g = m->g;
    struct ig_type t = type_of(m, x);
    static const int64_t kinds[] = {IG_ACT_SIGMOID, IG_ACT_TANH, IG_ACT_TANH}, tanh_only[] = {IG_ACT_TANH};
    static const double zeros[] = {0, 0, 0};
    int64_t k, gates = 1 + random_pick(m, 3), hidden = 1 + random_pick(m, random_pick(m, 2) ? 9 : 40);
    if (t.rank != 3 || !is_const(m, t.dim[2], &k) || k == 0) return x;
    m->exact = false;
    gates = gates == 2 ? 4 : gates;
    int functions = gates == 1 ? 1 : gates - 1;
    const int64_t dims[] = {k, gates * hidden}, back[] = {gates * hidden, hidden};
    ig_value in[5], small = scalar(m, 0.25);
    in[0] = map2(m, IG_OP_mul, ig_build_matmul(g, x, random_weights(m, 2, dims), INGOT_F32),
                 scalar(m, 1 / sqrt((double)k)));
    in[1] = map2(m, IG_OP_mul, random_weights(m, 2, back), small);
    ig_dim state[2] = {t.dim[1], random_dim(m, hidden)};
    in[2] = in[3] = ig_build_broadcast(g, small, state, 2);
    struct ig_attr attrs[6];
    uint32_t n = 0;
    attrs[n++] = ig_attr_of_int(random_pick(m, 2));
    attrs[n++] = ig_attr_of_ints(gates == 1 ? tanh_only : kinds, functions);
    attrs[n++] = ig_attr_of_float(0);
    if (gates > 1) attrs[n++] = ig_attr_of_int(gates == 3 ? random_pick(m, 2) : 0);
    attrs[n++] = ig_attr_of_floats(zeros, functions);
    attrs[n++] = ig_attr_of_floats(zeros, functions);
    enum ig_op op = gates == 4 ? IG_OP_lstm : gates == 3 ? IG_OP_gru : IG_OP_rnn;
    return ig_build_node(g, op, in, gates == 4 ? 4 : 3, gates == 4 ? 3 : 2, attrs, NULL);
}

/* ---- What jumps: integers, positions ------------------------------------------------------------------------------------- */

static ig_value step_integers(struct random_maker *m, ig_value x) {
    static const enum ingot_dtype types[] = {INGOT_I32, INGOT_I64, INGOT_I32, INGOT_I64, INGOT_I8, INGOT_I16};
    static const enum ig_op ops[] = {IG_OP_add, IG_OP_sub, IG_OP_mul,    IG_OP_div,   IG_OP_mod,    IG_OP_fmod,
                                     IG_OP_max, IG_OP_min, IG_OP_bitand, IG_OP_bitor, IG_OP_bitxor, IG_OP_shr};
    struct ig_graph *g = m->g;
    if (!m->exact) return x;
    enum ingot_dtype type = types[random_pick(m, 6)];
    ig_value i = ig_build_cast(g, x, type), y = i;
    for (int64_t n = 1 + random_pick(m, 3); n > 0; n--) {
        ig_value c = random_pick(m, 3) ? ig_build_scalar_int(g, type, random_pick(m, 7) - 2) : i;
        y = ig_map2(g, ops[random_pick(m, 12)], y, c);
    }
    if (random_pick(m, 3) == 0) {
        ig_value less = ig_map2(g, random_pick(m, 2) ? IG_OP_lt : IG_OP_eq, y, i);
        ig_value both = ig_map2(g, random_pick(m, 2) ? IG_OP_xor : IG_OP_or, less,
                                ig_map2(g, IG_OP_le, i, ig_build_scalar_int(g, type, 1)));
        if (random_pick(m, 2)) return ig_build_where(g, ig_map1(g, IG_OP_not, both), x, scalar(m, 2));
        return to_float(m, both);
    }
    int64_t axes[RANDOM_MAX_RANK];
    int rank = ig_type_of(g, y)->rank;
    if (rank && random_pick(m, 3) == 0)
        y = ig_build_reduce(g, random_pick(m, 2) ? IG_OP_reduce_sum : IG_OP_reduce_max, y, axes,
                            random_axes(m, rank, axes));
    return random_clamp(m, to_float(m, y));
}

static ig_value squeeze_axis(struct random_maker *m, ig_value x, int axis) {
    return ig_build_squeeze(m->g, x, &axis, 1);
}

static ig_value step_positions(struct random_maker *m, ig_value x) {
    struct ig_graph *g = m->g;
    struct ig_type t = type_of(m, x);
    int64_t size;
    if (t.rank == 0 || !m->exact) return x;
    int axis = (int)random_pick(m, t.rank);
    if (m->empty && !is_const(m, t.dim[axis], &size)) return x;
    struct ig_attr best[] = {ig_attr_of_int(axis), ig_attr_of_int(random_pick(m, 2))};
    if (random_pick(m, 2)) {
        ig_value at = ig_build_node(g, random_pick(m, 2) ? IG_OP_argmax : IG_OP_argmin, &x, 1, 1, best, NULL);
        if (random_pick(m, 2)) return random_clamp(m, to_float(m, at));
        ig_value in[2] = {x, at};
        if (random_pick(m, 2)) return ig_build_node(g, IG_OP_gather_elements, in, 2, 1, best, NULL);
        return t.rank > 3 ? x : ig_build_gather(g, x, squeeze_axis(m, at, axis), axis);
    }
    if (!is_const(m, t.dim[axis], &size) || size == 0) return x;
    struct ig_attr top[] = {ig_attr_of_int(axis), ig_attr_of_dim(random_dim(m, 1 + random_pick(m, size))),
                            ig_attr_of_int(random_pick(m, 2))};
    ig_value v = ig_build_node(g, IG_OP_topk, &x, 1, 2, top, NULL);
    if (random_pick(m, 2)) return v;
    ig_value in[2] = {x, v + 1};
    return random_pick(m, 2) ? random_clamp(m, to_float(m, v + 1))
                             : ig_build_node(g, IG_OP_gather_elements, in, 2, 1, best, NULL);
}

/* Rows of x by indices that follow from it, and such rows added to. */
static ig_value step_indexed(struct random_maker *m, ig_value x) {
    struct ig_graph *g = m->g;
    struct ig_type t = type_of(m, x);
    int64_t size;
    if (t.rank == 0 || !m->exact) return x;
    int axis = (int)random_pick(m, t.rank);
    if (!is_const(m, t.dim[axis], &size) || size == 0) return x;
    enum ingot_dtype type = random_pick(m, 2) ? INGOT_I64 : INGOT_I32;
    ig_value index = ig_map2(g, IG_OP_mod, ig_build_cast(g, x, type), ig_build_scalar_int(g, type, size));
    ig_value in[3] = {x, index, ig_map1(g, IG_OP_neg, x)};
    struct ig_attr attrs[] = {ig_attr_of_int(axis),
                              ig_attr_of_int(random_pick(m, 2) ? IG_SCATTER_ADD : IG_SCATTER_MAX)};
    if (random_pick(m, 2)) return ig_build_node(g, IG_OP_gather_elements, in, 2, 1, attrs, NULL);
    return random_clamp(m, ig_build_node(g, IG_OP_scatter_elements, in, 3, 1, attrs, NULL));
}

/* Rows of a table by what x says, also from the end, and with another table's; and how well they fit the table's rows. */
static ig_value step_table(struct random_maker *m, ig_value x) {
    static const int64_t perm[] = {1, 0};
    static const enum ingot_dtype types[] = {INGOT_F32, INGOT_F16, INGOT_F64, INGOT_I32};
    struct ig_graph *g = m->g;
    struct ig_type t = type_of(m, x);
    const int64_t dims[2] = {3 + random_pick(m, 70), 1 + random_pick(m, 12)};
    const enum ingot_dtype type = random_pick(m, 2) ? INGOT_I64 : INGOT_I32, of = types[random_pick(m, 4)];
    if (t.rank > 3 || !m->exact || random_elements(m, &t) * (dims[0] + dims[1]) > m->max_elements) return x;
    ig_value rows = ig_build_scalar_int(g, type, dims[0]), scaled = map2(m, IG_OP_mul, x, scalar(m, 5));
    ig_value index = ig_map2(g, IG_OP_mod, ig_build_cast(g, scaled, type), ig_build_scalar_int(g, type, 2 * dims[0]));
    ig_value table = random_weights(m, 2, dims);
    index = ig_map2(g, IG_OP_sub, index, rows);
    ig_value y = to_float(m, ig_build_gather(g, ig_build_cast(g, table, of), index, 0));
    if (random_pick(m, 3) == 0) y = map2(m, IG_OP_add, y, ig_build_gather(g, random_weights(m, 2, dims), index, 0));
    if (random_pick(m, 2)) return y;
    random_sum(m, dims[1], 8, true);
    return random_clamp(m, ig_build_matmul(g, y, ig_build_transpose(g, table, perm), INGOT_F32));
}

/* ---- Other types --------------------------------------------------------------------------------------------------------- */

/* Bytes multiplied, as quantised networks do it: by weights, or by a part of themselves. */
static ig_value step_bytes(struct random_maker *m, ig_value x) {
    struct ig_graph *g = m->g;
    struct ig_type t = type_of(m, x);
    int64_t k;
    if (t.rank < 2 || !m->exact || !is_const(m, t.dim[t.rank - 1], &k) || k == 0) return x;
    bool is_signed = random_pick(m, 2);
    ig_value shifted = is_signed ? x : map2(m, IG_OP_add, x, scalar(m, 8));
    ig_value a = random_pick(m, 2) ? ig_build_cast_saturating(g, shifted, is_signed ? INGOT_I8 : INGOT_U8)
                                   : ig_build_cast(g, shifted, is_signed ? INGOT_I8 : INGOT_U8);
    int64_t dims[2] = {k, random_odd_size(m)};
    ig_value b = ig_build_cast(g, random_weights(m, 2, dims), INGOT_I8);
    ig_value y = ig_build_matmul(g, a, b, INGOT_I32);
    if (random_pick(m, 2)) y = ig_map2(g, IG_OP_add, y, ig_build_cast(g, random_weights(m, 1, &dims[1]), INGOT_I32));
    if (random_pick(m, 2)) return to_float(m, ig_map2(g, IG_OP_mod, y, ig_build_scalar_int(g, INGOT_I32, 13)));
    return random_clamp(m, to_float(m, y));
}

/* A part in a narrow type, or in double precision, whatever the engine's. */
static ig_value step_typed(struct random_maker *m, ig_value x) {
    static const enum ingot_dtype types[] = {INGOT_F16, INGOT_BF16, INGOT_F64, INGOT_F16};
    struct ig_graph *g = m->g;
    struct ig_type t = type_of(m, x);
    int64_t k, axes[RANDOM_MAX_RANK];
    enum ingot_dtype type = types[random_pick(m, 4)];
    ig_value y = ig_build_cast(g, x, type);
    if (!m->exact || !m->whole) return x;
    switch (random_pick(m, 4)) {
    case 0:
        if (t.rank < 2 || !is_const(m, t.dim[t.rank - 1], &k) || k == 0 || k > 129) return x;
        int64_t dims[2] = {k, random_odd_size(m)};
        y = ig_build_matmul(g, y, ig_build_cast(g, random_weights(m, 2, dims), type),
                            type == INGOT_F64 ? type : INGOT_F32);
        random_sum(m, k, 6, true);
        return settled(m, to_float(m, y), k);
    case 1:
        if (t.rank == 0) return x;
        y = ig_build_reduce(g, random_pick(m, 2) ? IG_OP_reduce_max : IG_OP_reduce_min, y, axes,
                            random_axes(m, t.rank, axes));
        break;
    case 2: y = ig_map2(g, IG_OP_max, ig_map1(g, IG_OP_neg, y), ig_build_scalar(g, type, 1)); break;
    default: y = ig_map2(g, IG_OP_add, y, ig_build_scalar(g, type, 2)); break;
    }
    return random_clamp(m, to_float(m, y));
}

/* Weights that are no constants: some of the samples themselves. */
static ig_value step_own_conv(struct random_maker *m, ig_value x) {
    struct ig_graph *g = m->g;
    struct ig_type t = type_of(m, x);
    struct window w;
    int64_t channels, size;
    if (t.rank < 3 || t.rank > 4 || !is_const(m, t.dim[1], &channels) || channels == 0) return x;
    if (m->empty && !is_const(m, t.dim[0], &size)) return x;
    if (!random_window(m, &t, false, &w)) return x;
    ig_value filter = x;
    for (int i = 2; i < t.rank; i++) {
        if (!is_const(m, t.dim[i], &size)) return x;
        if (w.kernel[i - 2] > size) return x;
        filter = ig_build_slice_axis(g, filter, i, random_dim(m, 0), random_dim(m, w.kernel[i - 2]), 1);
    }
    filter = ig_build_slice_axis(g, filter, 0, random_dim(m, 0), random_dim(m, 1), 1);
    int64_t outputs = 1 + random_pick(m, 3), depth = channels;
    ig_dim dims[5] = {random_dim(m, outputs)};
    for (int i = 1; i < t.rank; i++) {
        dims[i] = ig_type_of(g, filter)->dim[i];
        if (i > 1) depth *= w.kernel[i - 2];
    }
    filter = ig_build_broadcast(g, filter, dims, t.rank);
    if (random_pick(m, 2)) filter = ig_map1(g, IG_OP_neg, filter);
    int spatial = t.rank - 2;
    struct ig_attr attrs[] = {ig_attr_of_ints(w.strides, spatial),
                              ig_attr_of_ints(w.dilations, spatial),
                              ig_attr_of_dims(w.before, spatial),
                              ig_attr_of_dims(w.after, spatial),
                              ig_attr_of_int(1),
                              ig_attr_of_dtype(INGOT_F32),
                              ig_attr_of_int(0),
                              ig_attr_of_int(0),
                              ig_attr_of_int(outputs),
                              ig_attr_of_ints(w.kernel, spatial),
                              ig_attr_of_int(IG_MATH_EXACT),
                              ig_attr_of_int(0)};
    ig_value in[2] = {x, filter};
    random_sum(m, depth, 64, false);
    return settled(m, ig_build_node(g, IG_OP_conv, in, 2, 1, attrs, NULL), depth);
}

/* ---- Movement ------------------------------------------------------------------------------------------------------------ */

static ig_value step_wide_pad(struct random_maker *m, ig_value x) {
    static const enum ig_pad_mode modes[] = {IG_PAD_CONSTANT, IG_PAD_REFLECT, IG_PAD_EDGE, IG_PAD_WRAP};
    struct ig_type type = type_of(m, x);
    ig_dim before[RANDOM_MAX_RANK], after[RANDOM_MAX_RANK];
    enum ig_pad_mode mode = modes[random_pick(m, 4)];
    for (int i = 0; i < type.rank; i++) {
        int64_t size, most = is_const(m, type.dim[i], &size) ? size : 1;
        if (mode == IG_PAD_CONSTANT) most = 4;
        before[i] = random_dim(m, random_pick(m, 3) || most < 2 ? 0 : random_pick(m, most < 4 ? most : 4));
        after[i] = random_dim(m, random_pick(m, 3) || most < 2 ? 0 : random_pick(m, most < 4 ? most : 4));
    }
    ig_value value = mode == IG_PAD_CONSTANT && random_pick(m, 2) ? scalar(m, 3) : IG_NO_VALUE;
    return ig_build_pad(m->g, x, before, after, mode, value);
}

/* Each element of an axis repeated, as an upsampling does it, or the whole axis. */
static ig_value step_repeat(struct random_maker *m, ig_value x) {
    struct ig_type t = type_of(m, x);
    if (t.rank == 0 || t.rank >= RANDOM_MAX_RANK) return x;
    int axis = (int)random_pick(m, t.rank), at = axis + (int)random_pick(m, 2);
    ig_dim apart[RANDOM_MAX_RANK + 1], times = random_dim(m, 2);
    for (int i = 0, k = 0; k <= t.rank; k++)
        apart[k] = k == at ? random_dim(m, 1) : t.dim[i++];
    x = ig_build_reshape(m->g, x, apart, t.rank + 1);
    apart[at] = times;
    t.dim[axis] = ig_dim_mul(m->g->dims, t.dim[axis], times);
    return ig_build_reshape(m->g, ig_build_broadcast(m->g, x, apart, t.rank + 1), t.dim, t.rank);
}

/* An axis in two parts, one of which is changed, put together again in either order; channels shuffled. */
static ig_value step_split(struct random_maker *m, ig_value x) {
    struct ig_type t = type_of(m, x);
    int64_t size;
    if (t.rank == 0) return x;
    int axis = (int)random_pick(m, t.rank);
    if (!is_const(m, t.dim[axis], &size) || size < 2) return x;
    int64_t first = 1 + random_pick(m, size - 1);
    ig_value parts[2] = {ig_build_slice_axis(m->g, x, axis, random_dim(m, 0), random_dim(m, first), 1),
                         ig_build_slice_axis(m->g, x, axis, random_dim(m, first), random_dim(m, size - first), 1)};
    int changed = (int)random_pick(m, 2);
    parts[changed] = map2(m, IG_OP_mul, parts[changed], scalar(m, -1));
    if (random_pick(m, 2)) {
        ig_value other = parts[0];
        parts[0] = parts[1];
        parts[1] = other;
    }
    if (size % 2 == 0 && first == size / 2 && random_pick(m, 2)) return map2(m, IG_OP_max, parts[0], parts[1]);
    return ig_build_concat(m->g, parts, 2, axis);
}

/* Three axes of whatever there is, for what needs as many. */
static ig_value step_three_axes(struct random_maker *m, ig_value x) {
    struct ig_type t = type_of(m, x);
    struct ig_dims *dims = m->g->dims;
    if (t.rank < 3) return x;
    ig_dim three[3] = {t.dim[0], t.dim[1], ig_dim_product(dims, t.dim + 2, t.rank - 2)};
    return ig_build_reshape(m->g, x, three, 3);
}

static const random_step wide_steps[] = {
    step_wide_matmul, step_wide_matmul, step_own_matmul, step_gemm,        step_wide_conv,  step_wide_conv,
    step_wide_conv,   step_residual,    step_wide_pool,  step_wide_reduce, step_softmax,    step_layer_norm,
    step_activation,  step_attention,   step_attention,  step_scan,        step_recurrence, step_bytes,
    step_typed,       step_own_conv,    step_integers,   step_integers,    step_positions,  step_indexed,
    step_wide_pad,    step_repeat,      step_split,      step_three_axes};
enum { WIDE_STEPS = sizeof wide_steps / sizeof *wide_steps };

/* ---- Networks ------------------------------------------------------------------------------------------------------------ */

static bool too_large(struct random_maker *m, const struct ig_type *type) {
    return random_elements(m, type) > m->max_elements / 2;
}

static ig_value random_input(struct random_maker *m, const char *name, bool sequence) {
    static const int ranks[] = {2, 3, 3, 3, 4, 4, 4, 5};
    struct ig_dims *dims = m->g->dims;
    ig_dim batch = ig_dim_symbol(dims, random_symbols[0]), length = ig_dim_symbol(dims, random_symbols[1]);
    struct ig_type type = {.dtype = INGOT_F32,
                           .dim = {random_pick(m, 3) ? batch : random_dim(m, 1 + random_pick(m, 2))}};
    int rank = sequence ? 3 : ranks[random_pick(m, 8)], along = sequence            ? 1
                                                                : random_pick(m, 2) ? 1 + (int)random_pick(m, rank - 1)
                                                                                    : 0;
    for (type.rank = 1; type.rank < rank;) {
        int k = type.rank++;
        type.dim[k] = along == k ? length : random_dim(m, random_odd_size(m));
        if (too_large(m, &type)) type.dim[k] = random_dim(m, 1 + random_pick(m, 3));
    }
    return ig_build_input(m->g, name, &type);
}

/* What fits such inputs most often. */
static const random_step picture_steps[] = {step_wide_conv,  step_residual, step_wide_pool, step_activation,
                                            step_layer_norm, step_repeat,   step_split};
static const random_step sequence_steps[] = {step_attention,  step_wide_matmul, step_gemm,       step_layer_norm,
                                             step_activation, step_softmax,     step_recurrence, step_scan};

static random_step choose_step(struct random_maker *m, bool sequence) {
    switch (random_pick(m, 10)) {
    case 0:
    case 1: return random_control_steps[random_pick(m, random_control_step_count)];
    case 2:
    case 3: return random_data_steps[random_pick(m, random_data_step_count)];
    case 4:
    case 5:
        return sequence ? sequence_steps[random_pick(m, sizeof sequence_steps / sizeof *sequence_steps)]
                        : picture_steps[random_pick(m, sizeof picture_steps / sizeof *picture_steps)];
    case 6:
    case 7: return wide_steps[random_pick(m, WIDE_STEPS)];
    default:
        return random_plain_steps[random_pick(m, m->largest < 1 << 24 ? RANDOM_PLAIN_MOVES : random_plain_step_count)];
    }
}

ig_value random_body_step(struct random_maker *m, ig_value x) {
    return choose_step(m, false)(m, x);
}

void random_network(struct random_maker *m, int steps) {
    bool sequence = random_pick(m, 3) == 0, staying = m->exact && random_pick(m, 4);
    for (int i = 0; i < 2; i++)
        IG_PUSH(m->job, &m->pool, random_input(m, i ? "y" : "x", sequence));
    if (m->tables && random_pick(m, 2)) IG_PUSH(m->job, &m->pool, step_table(m, m->pool.at[0]));
    for (int i = 0; i < steps; i++) {
        ig_value x = m->pool.at[random_pick(m, 4) ? m->pool.count - 1 : (uint32_t)random_pick(m, m->pool.count)], y = x;
        bool exact = m->exact;
        for (int tries = 0; tries < 8 && (y == x || (staying && !m->exact)); tries++) {
            m->exact = exact;
            y = choose_step(m, sequence)(m, x);
        }
        if (random_elements(m, ig_type_of(m->g, y)) <= m->max_elements &&
            ig_type_of(m->g, y)->rank <= RANDOM_MAX_RANK) {
            IG_PUSH(m->job, &m->pool, y);
        } else {
            m->exact = exact;
        }
    }
    ig_build_output(m->g, "a", m->pool.at[m->pool.count - 1]);
    if (random_pick(m, 2)) ig_build_output(m->g, "b", m->pool.at[random_pick(m, m->pool.count)]);
}
