/* Inserts patches into larger tensors: columns into images, updates into caches, tensors into frames. Also window
 * functions. */
#include <math.h>
#include <string.h>

#include "import/onnx/importer.h"
#include "import/onnx/op/arith.h"
#include "import/onnx/op/window.h"

/* ---- CenterCropPad ---- */

ig_value ig_import_center_crop_pad(struct ig_onnx_node *n) {
    struct ig_dims *dims = n->dims;
    ig_value x = ig_onnx_in(n, 0);
    int rank = ig_onnx_rank(n, x), count, n_axes = rank;
    const ig_dim *shape = ig_onnx_elements(n, 1, "shape", &count);
    const int64_t *given = ig_onnx_ints(n, "axes", &n_axes);
    if (!given) n_axes = rank;
    if (count != n_axes || count > rank) ig_onnx_bad(n, "'shape' has %d values, expected %d", count, n_axes);
    ig_dim zero = ig_dim_const(dims, 0), two = ig_dim_const(dims, 2), before[INGOT_MAX_RANK], after[INGOT_MAX_RANK];
    for (int i = 0; i < rank; i++)
        before[i] = after[i] = zero;
    for (int i = 0; i < count; i++) {
        int axis = given ? ig_onnx_axis(n, given[i], rank) : i;
        ig_dim size = ig_onnx_dim(n, x, axis), kept = ig_dim_min(dims, size, shape[i]);
        ig_dim missing = ig_dim_sub(dims, shape[i], kept);
        before[axis] = ig_dim_div(dims, missing, two);
        after[axis] = ig_dim_sub(dims, missing, before[axis]);
        ig_dim start = ig_dim_div(dims, ig_dim_sub(dims, size, kept), two);
        if (kept != size) x = ig_build_slice_axis(n->g, x, axis, start, kept, 1);
    }
    return ig_build_pad(n->g, x, before, after, IG_PAD_CONSTANT, IG_NO_VALUE);
}

/* ---- Col2Im ---- */

struct fold {
    int axes;
    int64_t block[INGOT_MAX_RANK], strides[INGOT_MAX_RANK], dilations[INGOT_MAX_RANK], pads[2 * INGOT_MAX_RANK];
    ig_dim image[INGOT_MAX_RANK], padded[INGOT_MAX_RANK], steps[INGOT_MAX_RANK];
};

static void read_fold(struct ig_onnx_node *n, struct fold *f) {
    struct ig_dims *dims = n->dims;
    int count;
    const ig_dim *image = ig_onnx_elements(n, 1, "image_shape", &f->axes);
    const ig_dim *block = ig_onnx_elements(n, 2, "block_shape", &count);
    if (count != f->axes || count < 1 || count > INGOT_MAX_RANK - 2)
        ig_onnx_bad(n, "'block_shape' has %d values", count);
    ig_onnx_ints_of(n, "strides", f->axes, 1, f->strides);
    ig_onnx_ints_of(n, "dilations", f->axes, 1, f->dilations);
    ig_onnx_ints_of(n, "pads", 2 * f->axes, 0, f->pads);
    for (int i = 0; i < f->axes; i++) {
        if (f->strides[i] < 1 || f->dilations[i] < 1 || f->pads[i] < 0 || f->pads[i + f->axes] < 0) {
            ig_onnx_bad(n, "strides, dilations and pads must be positive");
        }
        ig_dim pads = ig_dim_const(dims, f->pads[i] + f->pads[i + f->axes]), one = ig_dim_const(dims, 1);
        ig_dim reach = ig_dim_mul(dims, ig_dim_sub(dims, block[i], one), ig_dim_const(dims, f->dilations[i]));
        f->image[i] = image[i];
        f->padded[i] = ig_dim_add(dims, image[i], pads);
        ig_dim span = ig_dim_sub(dims, f->padded[i], ig_dim_add(dims, reach, one));
        f->steps[i] = ig_dim_add(dims, ig_dim_div(dims, span, ig_dim_const(dims, f->strides[i])), one);
    }
}

/* The flat index in the padded image of every element of a column: i64[block positions..., steps...]. */
static ig_value fold_places(struct ig_onnx_node *n, const struct fold *f, const ig_dim *grid) {
    struct ig_graph *g = n->g;
    ig_value place = IG_NO_VALUE;
    for (int i = 0; i < f->axes; i++) {
        ig_value inner = ig_build_iota(g, grid, 2 * f->axes, i),
                 outer = ig_build_iota(g, grid, 2 * f->axes, f->axes + i);
        inner = ig_mul(g, inner, ig_build_scalar_int(g, INGOT_I64, f->dilations[i]));
        outer = ig_mul(g, outer, ig_build_scalar_int(g, INGOT_I64, f->strides[i]));
        ig_value at = ig_add(g, inner, outer);
        if (i > 0) at = ig_add(g, ig_mul(g, place, ig_build_shape_scalar(g, f->padded[i])), at);
        place = at;
    }
    return place;
}

/* Scatters the columns x, [N, C * block, steps], into padded images. */
static ig_value scatter_columns(struct ig_onnx_node *n, const struct fold *f, ig_value x, const ig_dim *grid,
                                const ig_dim *result) {
    struct ig_graph *g = n->g;
    struct ig_dims *dims = n->dims;
    ig_dim rows = ig_dim_mul(dims, result[0], result[1]), columns = ig_dim_product(dims, grid, 2 * f->axes);
    ig_dim flat[] = {rows, columns}, target[] = {rows, ig_dim_product(dims, f->padded, f->axes)};
    ig_value place = ig_build_broadcast(g, ig_build_reshape(g, fold_places(n, f, grid), &columns, 1), flat, 2);
    ig_value zeros = ig_onnx_full(n, ig_onnx_type(n, x), 0, target, 2);
    ig_value in[] = {zeros, place, ig_build_reshape(g, x, flat, 2)};
    struct ig_attr attrs[] = {ig_attr_of_int(1), ig_attr_of_int(IG_SCATTER_ADD)};
    return ig_build_reshape(g, ig_build_node(g, IG_OP_scatter_elements, in, 3, 1, attrs, NULL), result, 2 + f->axes);
}

/* What one position of the block adds to the padded images along an axis: its steps, a stride apart, from `first` on. */
static ig_value place_steps(struct ig_onnx_node *n, const struct fold *f, ig_value x, int i, int64_t first) {
    struct ig_dims *dims = n->dims;
    ig_dim before[INGOT_MAX_RANK], after[INGOT_MAX_RANK];
    x = ig_onnx_spread(n, x, 2 + i, f->strides[i]);
    for (int a = 0; a < 2 + f->axes; a++)
        before[a] = after[a] = ig_dim_const(dims, 0);
    before[2 + i] = ig_dim_const(dims, first);
    after[2 + i] = ig_dim_sub(dims, f->padded[i], ig_dim_add(dims, before[2 + i], ig_onnx_dim(n, x, 2 + i)));
    return ig_build_pad(n->g, x, before, after, IG_PAD_CONSTANT, IG_NO_VALUE);
}

/* The same for blocks of few positions: the sum of what each position adds, which needs no indices. */
static ig_value sum_positions(struct ig_onnx_node *n, const struct fold *f, ig_value x, const ig_dim *grid,
                              const ig_dim *result, int64_t positions) {
    struct ig_graph *g = n->g;
    struct ig_dims *dims = n->dims;
    ig_dim apart[INGOT_MAX_RANK + 1] = {result[0], result[1], ig_dim_const(dims, positions)}, steps[INGOT_MAX_RANK];
    for (int i = 0; i < f->axes; i++)
        apart[3 + i] = f->steps[i];
    memcpy(steps, apart, 2 * sizeof *steps);
    memcpy(steps + 2, f->steps, (size_t)f->axes * sizeof *steps);
    x = ig_build_reshape(g, x, apart, 3 + f->axes);
    ig_value sum = IG_NO_VALUE;
    for (int64_t p = 0; p < positions; p++) {
        ig_value part = ig_build_slice_axis(g, x, 2, ig_dim_const(dims, p), ig_dim_const(dims, 1), 1);
        part = ig_build_reshape(g, part, steps, 2 + f->axes);
        int64_t rest = p;
        for (int i = f->axes; i-- > 0;) {
            int64_t size = 1;
            ig_dim_is_const(dims, grid[i], &size);
            part = place_steps(n, f, part, i, rest % size * f->dilations[i]);
            rest /= size;
        }
        sum = p == 0 ? part : ig_add(g, sum, part);
    }
    return sum;
}

/* [N, C * block, steps] -> [N, C, image...]: adds columns at the positions that they came from. */
ig_value ig_import_col2im(struct ig_onnx_node *n) {
    enum { FEW = 49 };
    struct ig_graph *g = n->g;
    struct ig_dims *dims = n->dims;
    ig_value x = ig_onnx_in(n, 0);
    struct fold f;
    ig_onnx_check_rank(n, x, 3, 3, "input 0");
    read_fold(n, &f);
    if (2 * f.axes > INGOT_MAX_RANK) ig_onnx_refuse(n, "%d axes are not supported", f.axes);
    int count;
    const ig_dim *block = ig_onnx_elements(n, 2, "block_shape", &count);
    ig_dim grid[INGOT_MAX_RANK], result[INGOT_MAX_RANK];
    for (int i = 0; i < f.axes; i++) {
        grid[i] = block[i];
        grid[f.axes + i] = f.steps[i];
        result[2 + i] = f.padded[i];
    }
    const struct ig_type *t = ig_type_of(g, x);
    ig_dim all = ig_dim_product(dims, grid, f.axes);
    result[0] = t->dim[0];
    result[1] = ig_dim_div(dims, t->dim[1], all);
    int64_t positions;
    bool few =
        ig_dim_is_const(dims, all, &positions) && positions > 0 && positions <= FEW && f.axes + 3 <= INGOT_MAX_RANK;
    ig_value y = few ? sum_positions(n, &f, x, grid, result, positions) : scatter_columns(n, &f, x, grid, result);
    for (int i = 0; i < f.axes; i++)
        y = ig_build_slice_axis(g, y, 2 + i, ig_dim_const(dims, f.pads[i]), f.image[i], 1);
    return y;
}

/* ---- TensorScatter ---- */

/* Writes `update` into a cache along an axis, from a start index per batch element on. */
ig_value ig_import_tensor_scatter(struct ig_onnx_node *n) {
    static const char *const modes[] = {"linear", "circular"};
    struct ig_graph *g = n->g;
    ig_value cache = ig_onnx_in(n, 0), update = ig_onnx_in(n, 1);
    struct ig_type t = *ig_type_of(g, update);
    int axis = ig_onnx_axis(n, ig_onnx_int(n, "axis", -2), t.rank);
    ig_onnx_check_same_type(n, cache, update);
    ig_onnx_check_rank(n, cache, t.rank, t.rank, "input 0");
    if (axis == 0) ig_onnx_bad(n, "axis 0 is the batch");
    ig_value place = ig_onnx_along(n, ig_build_iota(g, &t.dim[axis], 1, 0), axis, t.rank);
    if (ig_onnx_has(n, 2)) {
        ig_value start = ig_build_cast(g, n->in[2], INGOT_I64);
        place = ig_add(g, place, ig_onnx_along(n, start, 0, t.rank));
    }
    if (ig_onnx_choice(n, "mode", modes, 2, 0) == 1) {
        place = ig_mod(g, place, ig_build_shape_scalar(g, ig_onnx_dim(n, cache, axis)));
    }
    ig_value in[] = {cache, ig_build_broadcast(g, place, t.dim, t.rank), update};
    struct ig_attr attrs[] = {ig_attr_of_int(axis), ig_attr_of_int(IG_SCATTER_SET)};
    return ig_build_node(g, IG_OP_scatter_elements, in, 3, 1, attrs, NULL);
}

/* ---- Window functions ---- */

/* a0 - a1 cos(x) + a2 cos(2x) over one period. */
ig_value ig_import_window(struct ig_onnx_node *n) {
    static const double weights[][3] = {{0.5, 0.5, 0}, {25.0 / 46, 21.0 / 46, 0}, {0.42, 0.5, 0.08}};
    const double *a = weights[n->op->arg];
    struct ig_graph *g = n->g;
    struct ig_dims *dims = n->dims;
    ig_dim size = ig_onnx_element(n, 0, "size"), one = ig_dim_const(dims, 1);
    enum ingot_dtype type = ig_onnx_dtype(n->job, ig_onnx_int(n, "output_datatype", 1), "the result");
    size = ig_dim_max(dims, size, ig_dim_const(dims, 0));
    ig_dim period = ig_onnx_flag(n, "periodic", true) ? size : ig_dim_max(dims, ig_dim_sub(dims, size, one), one);
    ig_value i = ig_build_cast(g, ig_build_iota(g, &size, 1, 0), INGOT_F64);
    ig_value x = ig_div(g, ig_mul_n(g, i, 2 * M_PI), ig_build_cast(g, ig_build_shape_scalar(g, period), INGOT_F64));
    ig_value y = ig_rsub_n(g, a[0], ig_mul_n(g, ig_cos(g, x), a[1]));
    if (a[2] != 0) y = ig_add(g, y, ig_mul_n(g, ig_cos(g, ig_mul_n(g, x, 2)), a[2]));
    return ig_build_cast(g, y, type);
}
