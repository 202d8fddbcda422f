/* Pools: windows over spatial axes, or all of them at once. */
#include <math.h>

#include "import/onnx/op/arith.h"
#include "import/onnx/op/pool.h"
#include "import/onnx/op/window.h"

/*
 * The number of windows. Rounding up may add a last window that begins in the padding after the input; it does not
 * count, so there are at most ceil((size + before) / stride).
 */
static ig_dim count_windows(struct ig_onnx_node *n, const struct ig_onnx_window *window, int i, ig_dim size, bool up) {
    struct ig_dims *dims = n->dims;
    ig_dim stride = ig_dim_const(dims, window->strides[i]), one = ig_dim_const(dims, 1);
    ig_dim padded = ig_dim_add(dims, size, ig_dim_add(dims, window->before[i], window->after[i]));
    ig_dim span = ig_dim_sub(dims, padded, ig_dim_const(dims, ig_onnx_extent(window, i)));
    if (!up) return ig_dim_add(dims, ig_dim_div(dims, span, stride), one);
    ig_dim count = ig_dim_add(dims, ig_dim_ceil_div(dims, span, stride), one);
    return ig_dim_min(dims, count, ig_dim_ceil_div(dims, ig_dim_add(dims, size, window->before[i]), stride));
}

struct pool {
    struct ig_onnx_window window;
    ig_dim sizes[IG_ONNX_MAX_SPATIAL];
    struct ig_attr attrs[8]; /* the first six are common to all pools */
};

static struct pool *read_pool(struct ig_onnx_node *n, ig_value x) {
    struct pool *p = IG_NEW(n->job, struct pool);
    struct ig_onnx_window *window = &p->window;
    ig_onnx_read_window(n, x, NULL, window);
    bool up = ig_onnx_flag(n, "ceil_mode", false) && ig_onnx_read_auto_pad(n) == IG_AUTO_NOTSET;
    for (int i = 0; i < window->spatial; i++) {
        p->sizes[i] = count_windows(n, window, i, ig_onnx_dim(n, x, i + 2), up);
        int64_t size;
        if (ig_dim_is_const(n->dims, p->sizes[i], &size) && size < 0) {
            ig_onnx_bad(n, "the kernel is larger than spatial axis %d with its pads", i);
        }
    }
    p->attrs[0] = ig_attr_of_ints(window->kernel, window->spatial);
    p->attrs[1] = ig_attr_of_ints(window->strides, window->spatial);
    p->attrs[2] = ig_attr_of_ints(window->dilations, window->spatial);
    p->attrs[3] = ig_attr_of_dims(window->before, window->spatial);
    p->attrs[4] = ig_attr_of_dims(p->sizes, window->spatial);
    p->attrs[5] = ig_attr_of_int(0); /* channels_last */
    return p;
}

ig_value ig_import_max_pool(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0);
    struct pool *p = read_pool(n, x);
    if (ig_onnx_wants(n, 1)) {
        p->attrs[6] = ig_attr_of_int(ig_onnx_flag(n, "storage_order", false));
        n->out[1] = ig_build_node(n->g, IG_OP_pool_argmax, &x, 1, 1, p->attrs, NULL);
    }
    return ig_build_node(n->g, IG_OP_pool_max, &x, 1, 1, p->attrs, NULL);
}

ig_value ig_onnx_average_pool(struct ig_onnx_node *n, ig_value x) {
    struct pool *p = read_pool(n, x);
    p->attrs[6] = ig_attr_of_dims(p->window.after, p->window.spatial);
    p->attrs[7] = ig_attr_of_int(ig_onnx_flag(n, "count_include_pad", false));
    return ig_build_node(n->g, IG_OP_pool_avg, &x, 1, 1, p->attrs, NULL);
}

ig_value ig_import_average_pool(struct ig_onnx_node *n) {
    return ig_onnx_average_pool(n, ig_onnx_in(n, 0));
}

/* |x|^p before the sum, the p-th root after it. */
static ig_value to_power(struct ig_onnx_node *n, ig_value x, int64_t p) {
    if (p == 2) return ig_mul(n->g, x, x);
    x = ig_abs(n->g, x);
    return p == 1 ? x : ig_pow(n->g, x, ig_like(n->g, x, (double)p));
}

static ig_value from_power(struct ig_onnx_node *n, ig_value x, int64_t p) {
    if (p == 1) return x;
    return p == 2 ? ig_sqrt(n->g, x) : ig_pow(n->g, x, ig_like(n->g, x, 1.0 / (double)p));
}

static int64_t read_p(struct ig_onnx_node *n) {
    int64_t p = ig_onnx_int(n, "p", 2);
    if (p < 1) ig_onnx_bad(n, "attribute 'p' is %lld", (long long)p);
    return p;
}

ig_value ig_import_lp_pool(struct ig_onnx_node *n) {
    int64_t p = read_p(n);
    ig_value x = ig_onnx_in(n, 0), wide = to_power(n, ig_onnx_wide(n, x), p);
    struct pool *pool = read_pool(n, x);
    ig_value sum = ig_build_node(n->g, IG_OP_pool_sum, &wide, 1, 1, pool->attrs, NULL);
    return ig_build_cast(n->g, from_power(n, sum, p), ig_onnx_type(n, x));
}

/* ---- Global ---- */

static ig_value reduce_spatial(struct ig_onnx_node *n, enum ig_op op, ig_value x) {
    int64_t axes[INGOT_MAX_RANK];
    int rank = ig_onnx_rank(n, x);
    ig_onnx_check_rank(n, x, 3, INGOT_MAX_RANK, "input 0");
    for (int i = 2; i < rank; i++)
        axes[i - 2] = i;
    return ig_build_reduce(n->g, op, x, axes, rank - 2);
}

ig_value ig_import_global_pool(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0);
    ig_value y = reduce_spatial(n, (enum ig_op)n->op->arg, ig_onnx_wide(n, x));
    return ig_build_cast(n->g, y, ig_onnx_type(n, x));
}

ig_value ig_import_global_lp_pool(struct ig_onnx_node *n) {
    int64_t p = read_p(n);
    ig_value x = ig_onnx_in(n, 0);
    ig_value y = from_power(n, reduce_spatial(n, IG_OP_reduce_sum, to_power(n, ig_onnx_wide(n, x), p)), p);
    return ig_build_cast(n->g, y, ig_onnx_type(n, x));
}

/* ---- MaxUnpool ---- */

/* The size before pooling: (size - 1) * stride + kernel - pads. */
static ig_dim unpooled(struct ig_onnx_node *n, const struct ig_onnx_window *window, int i, ig_dim size) {
    struct ig_dims *dims = n->dims;
    ig_dim reach =
        ig_dim_mul(dims, ig_dim_sub(dims, size, ig_dim_const(dims, 1)), ig_dim_const(dims, window->strides[i]));
    reach = ig_dim_add(dims, reach, ig_dim_const(dims, window->kernel[i]));
    return ig_dim_sub(dims, reach, ig_dim_add(dims, window->before[i], window->after[i]));
}

/* Crops or zero-pads each axis at its end. */
static ig_value fit(struct ig_onnx_node *n, ig_value x, const ig_dim *shape) {
    struct ig_dims *dims = n->dims;
    struct ig_type t = *ig_type_of(n->g, x);
    ig_dim zero = ig_dim_const(dims, 0), before[INGOT_MAX_RANK], after[INGOT_MAX_RANK];
    for (int i = 0; i < t.rank; i++) {
        before[i] = zero;
        after[i] = ig_dim_max(dims, ig_dim_sub(dims, shape[i], t.dim[i]), zero);
        ig_dim kept = ig_dim_min(dims, shape[i], t.dim[i]);
        if (kept != t.dim[i]) x = ig_build_slice_axis(n->g, x, i, zero, kept, 1);
    }
    return ig_build_pad(n->g, x, before, after, IG_PAD_CONSTANT, IG_NO_VALUE);
}

/* Indices refer to the size that follows from the window, whatever size is requested. */
ig_value ig_import_max_unpool(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = ig_onnx_in(n, 0), index = ig_onnx_in(n, 1);
    struct ig_onnx_window window;
    ig_onnx_read_window(n, x, NULL, &window);
    struct ig_type t = *ig_type_of(g, x);
    for (int i = 0; i < window.spatial; i++)
        t.dim[i + 2] = unpooled(n, &window, i, t.dim[i + 2]);
    ig_dim all = ig_type_elements(n->dims, &t), pooled = ig_type_elements(n->dims, ig_type_of(g, x));
    ig_value in[] = {ig_onnx_full(n, t.dtype, 0, &all, 1), ig_build_reshape(g, index, &pooled, 1),
                     ig_build_reshape(g, x, &pooled, 1)};
    struct ig_attr attrs[] = {ig_attr_of_int(0), ig_attr_of_int(IG_SCATTER_SET)};
    ig_value y = ig_build_reshape(g, ig_build_node(g, IG_OP_scatter_elements, in, 3, 1, attrs, NULL), t.dim, t.rank);
    if (!ig_onnx_has(n, 2)) return y;
    int count;
    const ig_dim *shape = ig_onnx_elements(n, 2, "output_shape", &count);
    if (count != t.rank) ig_onnx_bad(n, "'output_shape' has %d values, expected %d", count, t.rank);
    return fit(n, y, shape);
}
