/*
 * Normalisations and softmaxes, written in core operators: reductions and elementwise work over the same rows, which
 * become one kernel again. Statistics are computed in f32 at least.
 * Sources: Ioffe and Szegedy 2015 (batch), Ba et al. 2016 (layer), Ulyanov et al. 2016 (instance), Wu and He 2018
 * (group), Zhang and Sennrich 2019 (RMS), Krizhevsky et al. 2012 (LRN).
 */
#include "import/onnx/importer.h"
#include "import/onnx/op/arith.h"

struct axes {
    int count;
    int64_t at[INGOT_MAX_RANK];
};

static struct axes axes_from(int first, int rank) {
    struct axes axes = {0};
    for (int i = first; i < rank; i++)
        axes.at[axes.count++] = i;
    return axes;
}

static ig_value reduce(struct ig_onnx_node *n, enum ig_op op, ig_value x, const struct axes *axes) {
    return axes->count ? ig_build_reduce(n->g, op, x, axes->at, axes->count) : x;
}

/* Casts back to the type of input 0. */
static ig_value narrow(struct ig_onnx_node *n, ig_value y) {
    return ig_build_cast(n->g, y, ig_onnx_type(n, n->in[0]));
}

/* ---- Softmax and its like ---- */

/* Before opset 13 the tensor was viewed as a matrix: all axes from `axis` on form one row. */
static struct axes softmax_axes(struct ig_onnx_node *n, ig_value x) {
    int rank = ig_onnx_rank(n, x);
    bool matrix = n->opset < 13;
    /* A scalar is a row of one element. */
    if (rank == 0) return (struct axes){0};
    int64_t given = ig_onnx_int(n, "axis", matrix ? 1 : -1);
    if (matrix && given == rank) return (struct axes){0};
    int axis = ig_onnx_axis(n, given, rank);
    return axes_from(axis, matrix ? rank : axis + 1);
}

ig_value ig_import_softmax(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = ig_onnx_wide(n, ig_onnx_in(n, 0));
    struct axes axes = softmax_axes(n, x);
    ig_value e = ig_exp(g, ig_sub(g, x, reduce(n, IG_OP_reduce_max, x, &axes)));
    return narrow(n, ig_div(g, e, reduce(n, IG_OP_reduce_sum, e, &axes)));
}

ig_value ig_import_log_softmax(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = ig_onnx_wide(n, ig_onnx_in(n, 0));
    struct axes axes = softmax_axes(n, x);
    ig_value shifted = ig_sub(g, x, reduce(n, IG_OP_reduce_max, x, &axes));
    return narrow(n, ig_sub(g, shifted, ig_log(g, reduce(n, IG_OP_reduce_sum, ig_exp(g, shifted), &axes))));
}

/* 1 at the first largest element of each row, 0 elsewhere. */
ig_value ig_import_hardmax(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = ig_onnx_in(n, 0);
    struct ig_type type = *ig_type_of(g, x);
    struct axes axes = softmax_axes(n, x);
    if (axes.count == 0) return ig_onnx_full(n, type.dtype, 1, type.dim, type.rank);
    int first = (int)axes.at[0];
    /* A row of several axes is merged into one axis for the search. */
    ig_dim dims[INGOT_MAX_RANK];
    int rank = type.rank - axes.count + 1;
    for (int i = 0; i < rank; i++)
        dims[i] = type.dim[i < first ? i : i + axes.count - 1];
    dims[first] = ig_dim_product(n->dims, type.dim + first, axes.count);
    if (axes.count > 1) x = ig_build_reshape(g, x, dims, rank);
    struct ig_attr attrs[] = {ig_attr_of_int(first), ig_attr_of_int(0)};
    ig_value top = ig_build_node(g, IG_OP_argmax, &x, 1, 1, attrs, NULL);
    ig_value place = ig_onnx_along(n, ig_build_iota(g, &dims[first], 1, 0), first, rank);
    ig_value y = ig_build_cast(g, ig_eq(g, top, place), type.dtype);
    return ig_build_reshape(g, y, type.dim, type.rank);
}

/* ---- Mean and variance ---- */

struct moments {
    ig_value centered, variance, mean;
};

static struct moments moments(struct ig_onnx_node *n, ig_value x, const struct axes *axes) {
    struct moments m;
    m.mean = reduce(n, IG_OP_reduce_mean, x, axes);
    m.centered = ig_sub(n->g, x, m.mean);
    m.variance = reduce(n, IG_OP_reduce_mean, ig_mul(n->g, m.centered, m.centered), axes);
    return m;
}

/* 1 / sqrt(variance + epsilon) */
static ig_value inverse_deviation(struct ig_graph *g, ig_value variance, double epsilon) {
    return ig_rdiv_n(g, 1, ig_sqrt(g, ig_add_n(g, variance, epsilon)));
}

/* A vector per channel, widened and shaped to broadcast over [N, C, spatial...]. */
static ig_value per_channel(struct ig_onnx_node *n, uint32_t input, int rank) {
    ig_value value = ig_onnx_in(n, input);
    return ig_onnx_along(n, ig_onnx_wide(n, value), 1, rank);
}

/* Normalises by the statistics of this batch, and moves the running ones towards them. */
static ig_value batch_norm_training(struct ig_onnx_node *n, ig_value x, double epsilon) {
    struct ig_graph *g = n->g;
    int rank = ig_onnx_rank(n, x);
    double momentum = ig_onnx_float(n, "momentum", 0.9);
    struct axes axes = axes_from(1, rank);
    axes.at[0] = 0; /* all but the channels: 0, 2, 3, … */
    struct moments m = moments(n, x, &axes);
    for (uint32_t i = 1; i <= 2 && i < n->n_out; i++) {
        ig_value running = ig_onnx_in(n, i + 2);
        ig_dim channels = ig_onnx_dim(n, x, 1);
        ig_value now = ig_build_reshape(g, i == 1 ? m.mean : m.variance, &channels, 1);
        ig_value moved = ig_add(g, ig_mul_n(g, ig_onnx_wide(n, running), momentum), ig_mul_n(g, now, 1 - momentum));
        n->out[i] = ig_build_cast(g, moved, ig_onnx_type(n, running));
    }
    ig_value scale = ig_mul(g, inverse_deviation(g, m.variance, epsilon), per_channel(n, 1, rank));
    return narrow(n, ig_add(g, ig_mul(g, m.centered, scale), per_channel(n, 2, rank)));
}

/* In inference, y = x * a + b, with a and b per channel, computed from the weights. */
ig_value ig_import_batch_norm(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = ig_onnx_wide(n, ig_onnx_in(n, 0));
    double epsilon = ig_onnx_float(n, "epsilon", 1e-5);
    int rank = ig_onnx_rank(n, x);
    ig_onnx_check_rank(n, x, 2, INGOT_MAX_RANK, "input 0");
    if (n->opset < 9 && !ig_onnx_flag(n, "spatial", true))
        ig_onnx_refuse(n, "normalising each element is not supported");
    if (n->opset >= 14 && ig_onnx_flag(n, "training_mode", false)) return batch_norm_training(n, x, epsilon);
    ig_value scale = ig_onnx_wide(n, ig_onnx_in(n, 1)), offset = ig_onnx_wide(n, ig_onnx_in(n, 2));
    ig_value mean = ig_onnx_wide(n, ig_onnx_in(n, 3)), variance = ig_onnx_wide(n, ig_onnx_in(n, 4));
    enum ingot_dtype type = ig_onnx_type(n, x);
    scale = ig_build_cast(g, scale, type);
    ig_value deviation = ig_build_cast(g, ig_sqrt(g, ig_add_n(g, variance, epsilon)), type);
    ig_value a = ig_div(g, scale, deviation);
    ig_value b = ig_sub(g, ig_build_cast(g, offset, type), ig_mul(g, ig_build_cast(g, mean, type), a));
    ig_value y = ig_add(g, ig_mul(g, x, ig_onnx_along(n, a, 1, rank)), ig_onnx_along(n, b, 1, rank));
    return narrow(n, y);
}

ig_value ig_import_instance_norm(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = ig_onnx_wide(n, ig_onnx_in(n, 0));
    int rank = ig_onnx_rank(n, x);
    ig_onnx_check_rank(n, x, 3, INGOT_MAX_RANK, "input 0");
    struct axes axes = axes_from(2, rank);
    struct moments m = moments(n, x, &axes);
    ig_value unit = ig_mul(g, m.centered, inverse_deviation(g, m.variance, ig_onnx_float(n, "epsilon", 1e-5)));
    return narrow(n, ig_add(g, ig_mul(g, unit, per_channel(n, 1, rank)), per_channel(n, 2, rank)));
}

/* Reshapes to [N, groups, C/groups * spatial]. Scale and bias are per group before opset 21, per channel since. */
ig_value ig_import_group_norm(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    struct ig_dims *dims = n->dims;
    ig_value x = ig_onnx_wide(n, ig_onnx_in(n, 0));
    struct ig_type t = *ig_type_of(g, x);
    int64_t groups = ig_onnx_int(n, "num_groups", 0);
    ig_onnx_check_rank(n, x, 3, INGOT_MAX_RANK, "input 0");
    if (groups < 1) ig_onnx_bad(n, "attribute 'num_groups' is %lld", (long long)groups);
    ig_dim count = ig_dim_const(dims, groups);
    if (!ig_dim_divides(dims, count, t.dim[1])) ig_onnx_bad(n, "the channels are no multiple of the groups");
    ig_dim row = ig_dim_mul(dims, ig_dim_div(dims, t.dim[1], count), ig_dim_product(dims, t.dim + 2, t.rank - 2));
    ig_dim grouped[] = {t.dim[0], count, row};
    struct axes axes = axes_from(2, 3);
    struct moments m = moments(n, ig_build_reshape(g, x, grouped, 3), &axes);
    ig_value unit = ig_mul(g, m.centered, inverse_deviation(g, m.variance, ig_onnx_float(n, "epsilon", 1e-5)));
    if (n->opset < 21) {
        unit = ig_add(g, ig_mul(g, unit, per_channel(n, 1, 3)), per_channel(n, 2, 3));
        return narrow(n, ig_build_reshape(g, unit, t.dim, t.rank));
    }
    unit = ig_build_reshape(g, unit, t.dim, t.rank);
    return narrow(n, ig_add(g, ig_mul(g, unit, per_channel(n, 1, t.rank)), per_channel(n, 2, t.rank)));
}

ig_value ig_import_layer_norm(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = ig_onnx_wide(n, ig_onnx_in(n, 0));
    int rank = ig_onnx_rank(n, x), axis = ig_onnx_axis(n, ig_onnx_int(n, "axis", -1), rank);
    struct axes axes = axes_from(axis, rank);
    struct moments m = moments(n, x, &axes);
    ig_value inverse = inverse_deviation(g, m.variance, ig_onnx_float(n, "epsilon", 1e-5));
    ig_value y = ig_mul(g, ig_mul(g, m.centered, inverse), ig_onnx_wide(n, ig_onnx_in(n, 1)));
    if (ig_onnx_has(n, 2)) y = ig_add(g, y, ig_onnx_wide(n, n->in[2]));
    if (n->n_out > 1) n->out[1] = m.mean;
    if (n->n_out > 2) n->out[2] = inverse;
    return narrow(n, y);
}

ig_value ig_import_rms_norm(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = ig_onnx_wide(n, ig_onnx_in(n, 0));
    int rank = ig_onnx_rank(n, x), axis = ig_onnx_axis(n, ig_onnx_int(n, "axis", -1), rank);
    struct axes axes = axes_from(axis, rank);
    ig_value square = reduce(n, IG_OP_reduce_mean, ig_mul(g, x, x), &axes);
    ig_value unit = ig_mul(g, x, inverse_deviation(g, square, ig_onnx_float(n, "epsilon", 1e-5)));
    ig_value scale = ig_onnx_in(n, 1);
    return ig_build_cast(g, ig_mul(g, unit, ig_build_cast(g, scale, ig_onnx_type(n, x))), ig_onnx_type(n, scale));
}

ig_value ig_import_mean_variance_norm(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = ig_onnx_wide(n, ig_onnx_in(n, 0));
    struct axes axes;
    axes.count = ig_onnx_axes(n, -1, ig_onnx_rank(n, x), axes.at);
    if (axes.count < 0) {
        ig_onnx_check_rank(n, x, 4, INGOT_MAX_RANK, "input 0");
        axes = (struct axes){.count = 3, .at = {0, 2, 3}};
    }
    struct moments m = moments(n, x, &axes);
    return narrow(n, ig_div(g, m.centered, ig_add_n(g, ig_sqrt(g, m.variance), 1e-9)));
}

/* ---- Norms by length ---- */

/* x / ||x||; a row of zeros stays zero. */
ig_value ig_import_lp_norm(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = ig_onnx_wide(n, ig_onnx_in(n, 0)), length;
    int axis = ig_onnx_axis(n, ig_onnx_int(n, "axis", -1), ig_onnx_rank(n, x));
    int64_t p = ig_onnx_int(n, "p", 2);
    struct axes axes = axes_from(axis, axis + 1);
    if (p == 1)
        length = reduce(n, IG_OP_reduce_sum, ig_abs(g, x), &axes);
    else if (p == 2)
        length = ig_sqrt(g, reduce(n, IG_OP_reduce_sum, ig_mul(g, x, x), &axes));
    else
        ig_onnx_bad(n, "attribute 'p' is %lld, expected 1 or 2", (long long)p);
    ig_value zero = ig_eq(g, length, ig_like(g, length, 0));
    return narrow(n, ig_div(g, x, ig_build_where(g, zero, ig_like(g, length, 1), length)));
}

/* x / (bias + alpha / size * sum of squares over `size` neighbouring channels)^beta. The sum is a window over
 * channels. */
ig_value ig_import_lrn(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    struct ig_dims *dims = n->dims;
    ig_value x = ig_onnx_wide(n, ig_onnx_in(n, 0));
    struct ig_type t = *ig_type_of(g, x);
    int64_t size = ig_onnx_int(n, "size", 0);
    ig_onnx_check_rank(n, x, 2, INGOT_MAX_RANK, "input 0");
    if (size < 1 || size > INT32_MAX) ig_onnx_bad(n, "attribute 'size' is %lld", (long long)size);
    ig_dim one = ig_dim_const(dims, 1), zero = ig_dim_const(dims, 0);
    ig_dim flat[] = {t.dim[0], one, t.dim[1], ig_dim_product(dims, t.dim + 2, t.rank - 2)};
    ig_dim before[] = {ig_dim_const(dims, (size - 1) / 2), zero};
    int64_t kernel[] = {size, 1}, ones[] = {1, 1};
    struct ig_attr attrs[] = {ig_attr_of_ints(kernel, 2), ig_attr_of_ints(ones, 2),     ig_attr_of_ints(ones, 2),
                              ig_attr_of_dims(before, 2), ig_attr_of_dims(flat + 2, 2), ig_attr_of_int(0)};
    ig_value squares = ig_build_reshape(g, ig_mul(g, x, x), flat, 4);
    ig_value sum = ig_build_reshape(g, ig_build_node(g, IG_OP_pool_sum, &squares, 1, 1, attrs, NULL), t.dim, t.rank);
    double alpha = ig_onnx_float(n, "alpha", 1e-4), beta = ig_onnx_float(n, "beta", 0.75);
    ig_value base = ig_add_n(g, ig_mul_n(g, sum, alpha / (double)size), ig_onnx_float(n, "bias", 1));
    return narrow(n, ig_div(g, x, ig_pow(g, base, ig_like(g, base, beta))));
}
