/*
 * Contractions: from a region to the problem that the schedules solve (contract.h), and the choice among them.
 */
#include "kernel/contract.h"

#include <string.h>

#include "kernel/cpu/contract.h"
#include "kernel/cuda/contract.h"
#include "kernel/schedules.h"

/* ---- Shorthands ----------------------------------------------------------------------------------------------------- */

int64_t ig_contract_const(const struct ig_contract *c, ig_dim d, int64_t otherwise) {
    int64_t value;
    return ig_dim_is_const(c->graph->dims, d, &value) ? value : otherwise;
}

ig_x ig_contract_dim(struct ig_contract *c, ig_dim d) {
    return ig_x_dim(c->k, d);
}

ig_x ig_contract_int(struct ig_contract *c, int64_t i) {
    return ig_x_index(c->k, i);
}

int ig_contract_scratch(struct ig_contract *c, ig_dim elements, const char *name) {
    struct ig_dims *dims = c->graph->dims;
    int buffer = ig_loops_scratch(c->k, c->dtype, ig_x_dim(c->k, c->kernel->scratch_bytes), name);
    int64_t line = 64 / (int64_t)ingot_dtype_size(c->dtype);
    ig_dim lines = ig_dim_ceil_div(dims, elements, ig_dim_const(dims, line));
    ig_dim bytes = ig_dim_mul(dims, lines, ig_dim_const(dims, 64));
    c->kernel->scratch_bytes = ig_dim_add(dims, c->kernel->scratch_bytes, bytes);
    return buffer;
}

ig_x ig_contract_split_off(struct ig_contract *c, ig_x *number, ig_dim count) {
    struct ig_dims *dims = c->graph->dims;
    int64_t lo, hi;
    ig_dim_range(dims, count, &lo, &hi);
    ig_x by = ig_x_dim(c->k, lo >= 1 ? count : ig_dim_max(dims, count, ig_dim_const(dims, 1)));
    ig_x part = ig_x_mod(c->k, *number, by);
    *number = ig_x_div(c->k, *number, by);
    return part;
}

static const struct ig_attr *attr(const struct ig_contract *c, enum ig_attr_name name) {
    return ig_attr(c->graph, &c->node, name);
}

static const struct ig_type *type_in(const struct ig_contract *c, int operand) {
    return ig_type_of(c->graph, c->node.in[operand]);
}

static ig_dim constant(const struct ig_contract *c, int64_t value) {
    return ig_dim_const(c->graph->dims, value);
}

static bool is_one(const struct ig_contract *c, ig_dim d) {
    return ig_contract_const(c, d, 0) == 1;
}

enum ingot_dtype ig_contract_half(enum ingot_dtype dtype) {
    return dtype == INGOT_F16 || dtype == INGOT_BF16 ? dtype : INGOT_DTYPE_NONE;
}

/* GPUs have products of halves of their own, and micro-kernels only for what these do not do. */
bool ig_contract_can_convert(const struct ig_contract *c, enum ingot_dtype dtype) {
    if (dtype == c->dtype) return true;
    return c->dtype == INGOT_F32 && ig_contract_half(dtype) != INGOT_DTYPE_NONE && !ig_target_is_cuda(c->target);
}

/* True where B is in panels that the micro-kernel can use: one to four vectors wide. */
static bool fits_vectors(const struct ig_contract *c) {
    int64_t width = attr(c, IG_ATTR_packed)->i, lanes = ig_micro_lanes(c->target, c->dtype);
    return width > 0 && width % lanes == 0 && width <= 4 * lanes;
}

/* ---- Matrix products ------------------------------------------------------------------------------------------------ */

static bool has_batch(const struct ig_contract *c, int operand) {
    const struct ig_type *t = type_in(c, operand);
    for (int i = 0; i < t->rank - 2; i++) {
        if (!is_one(c, t->dim[i])) return true;
    }
    return false;
}

/* How many axes from `first` on have `size` elements together; 0: none. */
static int axes_of(struct ig_contract *c, const struct ig_type *type, int first, ig_dim size) {
    ig_dim product = constant(c, 1);
    int axes = 0;
    while (first + axes < type->rank && axes < IG_CONTRACT_DEPTH && product != size)
        product = ig_dim_mul(c->graph->dims, product, type->dim[first + axes++]);
    return product == size ? axes : 0;
}

/* A reshape that merges axes into A's depth is undone, so that copying walks along the axes beneath it: the heads of an
 * attention, say, whose channels lie together but which themselves do not. It may be under a transpose. */
static void split_depth(struct ig_contract *c) {
    ig_value a = c->node.in[0];
    const struct ig_node *turn = c->lower.is_input[a] ? NULL : ig_def_op(c->graph, a, IG_OP_transpose);
    int axis = ig_type_of(c->graph, a)->rank - 1;
    if (turn) {
        axis = (int)ig_attr(c->graph, turn, IG_ATTR_perm)->ints[axis];
        a = turn->in[0];
    }
    const struct ig_node *n = c->lower.is_input[a] ? NULL : ig_def_op(c->graph, a, IG_OP_reshape);
    c->depth_rank = 1;
    c->depth_dim[0] = c->depth;
    if (!n) return;
    const struct ig_type *from = ig_type_of(c->graph, n->in[0]);
    ig_dim above = ig_dim_product(c->graph->dims, ig_type_of(c->graph, a)->dim, axis), product = constant(c, 1);
    int first = 0;
    while (first < from->rank && product != above)
        product = ig_dim_mul(c->graph->dims, product, from->dim[first++]);
    int axes = product == above ? axes_of(c, from, first, c->depth) : 0;
    if (axes < 2) return;
    c->depth_rank = axes;
    memcpy(c->depth_dim, from->dim + first, (size_t)axes * sizeof *c->depth_dim);
}

static bool init_matmul(struct ig_contract *c) {
    struct ig_dims *dims = c->graph->dims;
    const struct ig_type *a = type_in(c, 0), *out = ig_type_of(c->graph, c->node.out);
    c->packed = fits_vectors(c);
    c->merged = attr(c, IG_ATTR_packed)->i > 0 || !has_batch(c, 1);
    c->depth = a->dim[a->rank - 1];
    c->columns = out->dim[out->rank - 1];
    int outer = out->rank - 2;
    c->batch = c->merged ? constant(c, 1) : ig_dim_product(dims, out->dim, outer);
    c->rows = c->merged ? ig_dim_product(dims, out->dim, outer + 1) : out->dim[outer];
    c->groups = 1;
    split_depth(c);
    return true;
}

/* The index of C without its column. */
static void matmul_row(struct ig_contract *c, ig_x b, ig_x m, ig_x *out_index) {
    struct ig_type rows = *ig_type_of(c->graph, c->node.out);
    rows.rank -= c->merged ? 1 : 2;
    ig_lower_split(&c->lower, &rows, c->merged ? m : b, out_index);
    if (!c->merged) out_index[rows.rank] = m;
}

/* The index of an operand under the output's batch index, by NumPy's rule. */
static void batch_index(struct ig_contract *c, const struct ig_type *operand, const ig_x *index, ig_x *out_index) {
    const struct ig_type *out = ig_type_of(c->graph, c->node.out);
    for (int i = 0; i < operand->rank - 2; i++) {
        bool one = is_one(c, operand->dim[i]);
        out_index[i] = one ? ig_contract_int(c, 0) : index[i + out->rank - operand->rank];
        if (one || operand->dim[i] == out->dim[i + out->rank - operand->rank]) continue;
        /* May turn out to be 1. */
        ig_x last = ig_contract_dim(c, ig_dim_sub(c->graph->dims, operand->dim[i], constant(c, 1)));
        out_index[i] = ig_x_min(c->k, out_index[i], last);
    }
}

/* A dense A under merged rows: row m begins at m * depth, whatever the axes. */
static bool is_dense(const struct ig_contract *c) {
    const struct ig_type *a = type_in(c, 0), *out = ig_type_of(c->graph, c->node.out);
    if (!c->lower.is_input[c->node.in[0]] || !c->merged) return false;
    ig_dim rows = ig_dim_product(c->graph->dims, a->dim, a->rank - 1);
    return a->rank <= out->rank && rows == c->rows;
}

static ig_x depth_position(struct ig_contract *c, const ig_x *depth) {
    ig_x at = depth[0];
    for (int i = 1; i < c->depth_rank; i++)
        at = ig_x_add(c->k, ig_x_mul(c->k, at, ig_contract_dim(c, c->depth_dim[i])), depth[i]);
    return at;
}

static ig_x matmul_a(struct ig_contract *c, ig_x b, ig_x m, const ig_x *depth) {
    struct ig_loops *k = c->k;
    const struct ig_type *a = type_in(c, 0);
    ig_x at = depth_position(c, depth);
    if (is_dense(c)) {
        ig_x position = ig_x_add(k, ig_x_mul(k, m, ig_contract_dim(c, c->depth)), at);
        return ig_x_load(k, c->lower.buffer_of[c->node.in[0]], position);
    }
    ig_x row[INGOT_MAX_RANK], index[INGOT_MAX_RANK];
    matmul_row(c, b, m, row);
    batch_index(c, a, row, index);
    index[a->rank - 2] = row[ig_type_of(c->graph, c->node.out)->rank - 2];
    index[a->rank - 1] = at;
    return ig_lower_value(&c->lower, c->node.in[0], index);
}

/* B's panels as they lie: [group][panel][depth][nr]. */
static ig_x packed_b(struct ig_contract *c, ig_x group, ig_x n, const ig_x *depth) {
    struct ig_loops *k = c->k;
    int64_t nr = attr(c, IG_ATTR_packed)->i;
    ig_x width = ig_contract_int(c, nr);
    ig_dim panels = ig_dim_ceil_div(c->graph->dims, c->columns, constant(c, nr));
    ig_x panel = ig_x_add(k, ig_x_mul(k, group, ig_contract_dim(c, panels)), ig_x_div(k, n, width));
    ig_x row = ig_x_add(k, ig_x_mul(k, panel, ig_contract_dim(c, c->depth)), depth_position(c, depth));
    ig_x at = ig_x_add(k, ig_x_mul(k, row, width), ig_x_mod(k, n, width));
    return ig_x_load(k, c->lower.buffer_of[c->node.in[1]], at);
}

static ig_x matmul_b(struct ig_contract *c, ig_x b, ig_x n, const ig_x *depth) {
    const struct ig_type *type = type_in(c, 1);
    if (attr(c, IG_ATTR_packed)->i > 0) return packed_b(c, ig_contract_int(c, 0), n, depth);
    ig_x row[INGOT_MAX_RANK], index[INGOT_MAX_RANK];
    matmul_row(c, b, ig_contract_int(c, 0), row);
    batch_index(c, type, row, index);
    index[type->rank - 2] = depth_position(c, depth);
    index[type->rank - 1] = n;
    return ig_lower_value(&c->lower, c->node.in[1], index);
}

/* ---- Convolutions --------------------------------------------------------------------------------------------------- */

static bool channels_last(const struct ig_contract *c) {
    return attr(c, IG_ATTR_channels_last)->i != 0;
}

/* The axis of the i-th spatial dimension, or of the channels (i = -1). */
static int conv_axis(const struct ig_contract *c, int i) {
    if (i < 0) return channels_last(c) ? c->spatial + 1 : 1;
    return i + (channels_last(c) ? 1 : 2);
}

static bool init_conv(struct ig_contract *c) {
    struct ig_dims *dims = c->graph->dims;
    const struct ig_type *x = type_in(c, 0), *out = ig_type_of(c->graph, c->node.out);
    const struct ig_attr *kernel = attr(c, IG_ATTR_kernel);
    c->spatial = x->rank - 2;
    if (c->spatial < 1 || c->spatial >= IG_CONTRACT_DEPTH) return false;
    c->groups = attr(c, IG_ATTR_groups)->i;
    c->packed = fits_vectors(c);
    c->batch = ig_dim_mul(dims, out->dim[0], constant(c, c->groups));
    c->columns = ig_dim_div(dims, out->dim[conv_axis(c, -1)], constant(c, c->groups));
    c->rows = constant(c, 1);
    c->depth = constant(c, 1);
    for (int i = 0; i < c->spatial; i++) {
        c->rows = ig_dim_mul(dims, c->rows, out->dim[conv_axis(c, i)]);
        c->depth_dim[i] = constant(c, kernel->ints[i]);
        c->depth = ig_dim_mul(dims, c->depth, c->depth_dim[i]);
    }
    c->depth_dim[c->spatial] = ig_dim_div(dims, x->dim[conv_axis(c, -1)], constant(c, c->groups));
    c->depth = ig_dim_mul(dims, c->depth, c->depth_dim[c->spatial]);
    c->depth_rank = c->spatial + 1;
    return true;
}

bool ig_contract_padded(const struct ig_contract *c) {
    const struct ig_attr *before = attr(c, IG_ATTR_before), *after = attr(c, IG_ATTR_after);
    for (int i = 0; i < c->spatial; i++) {
        if (ig_contract_const(c, before->dims[i], 1) != 0 || ig_contract_const(c, after->dims[i], 1) != 0) return true;
    }
    return false;
}

/* The output's spatial index of row m. */
static void conv_spatial(struct ig_contract *c, ig_x m, ig_x *out_at) {
    const struct ig_type *out = ig_type_of(c->graph, c->node.out);
    struct ig_type space = {.dtype = out->dtype, .rank = c->spatial};
    memcpy(space.dim, out->dim + conv_axis(c, 0), (size_t)c->spatial * sizeof *space.dim);
    ig_lower_split(&c->lower, &space, m, out_at);
}

static ig_x conv_image(struct ig_contract *c, ig_x b, ig_x *out_group) {
    *out_group = ig_x_mod(c->k, b, ig_contract_int(c, c->groups));
    return ig_x_div(c->k, b, ig_contract_int(c, c->groups));
}

void ig_contract_window(struct ig_contract *c, ig_x b, ig_x m, ig_x *out_image, ig_x *out_origin) {
    struct ig_loops *k = c->k;
    const struct ig_attr *strides = attr(c, IG_ATTR_strides), *before = attr(c, IG_ATTR_before);
    ig_x group, at[INGOT_MAX_RANK];
    *out_image = conv_image(c, b, &group);
    conv_spatial(c, m, at);
    for (int i = 0; i < c->spatial; i++) {
        ig_x start = ig_x_mul(k, at[i], ig_contract_int(c, strides->ints[i]));
        out_origin[i] = ig_x_sub(k, start, ig_contract_dim(c, before->dims[i]));
    }
}

/* True where A's rows are the input's positions themselves. */
static bool is_pointwise(const struct ig_contract *c) {
    const struct ig_attr *strides = attr(c, IG_ATTR_strides);
    for (int i = 0; i < c->spatial; i++) {
        if (!is_one(c, c->depth_dim[i]) || strides->ints[i] != 1) return false;
    }
    return !ig_contract_padded(c);
}

static ig_x zero(struct ig_contract *c, enum ingot_dtype dtype) {
    dtype = ig_dtype_compute(dtype);
    return ig_dtype_is_float(dtype) ? ig_x_float(c->k, dtype, 0) : ig_x_int(c->k, dtype, 0);
}

static ig_x conv_a(struct ig_contract *c, ig_x b, ig_x m, const ig_x *depth) {
    struct ig_loops *k = c->k;
    const struct ig_type *x = type_in(c, 0);
    const struct ig_attr *dilations = attr(c, IG_ATTR_dilations);
    ig_value a = c->node.in[0];
    ig_x group, index[INGOT_MAX_RANK], origin[INGOT_MAX_RANK], inside = ig_x_int(k, INGOT_BOOL, 1);
    ig_x image = conv_image(c, b, &group);
    ig_x channel = ig_x_add(k, ig_x_mul(k, group, ig_contract_dim(c, c->depth_dim[c->spatial])), depth[c->spatial]);
    if (is_pointwise(c) && channels_last(c) && c->lower.is_input[a]) {
        ig_x row = ig_x_add(k, ig_x_mul(k, image, ig_contract_dim(c, c->rows)), m);
        ig_x at = ig_x_mul(k, row, ig_contract_dim(c, x->dim[conv_axis(c, -1)]));
        return ig_x_load(k, c->lower.buffer_of[a], ig_x_add(k, at, channel));
    }
    ig_contract_window(c, b, m, &image, origin);
    index[0] = image;
    index[conv_axis(c, -1)] = channel;
    for (int i = 0; i < c->spatial; i++) {
        ig_dim size = x->dim[conv_axis(c, i)];
        ig_x at = ig_x_add(k, origin[i], ig_x_mul(k, depth[i], ig_contract_int(c, dilations->ints[i])));
        if (ig_contract_padded(c)) {
            inside = ig_x_and(k, inside, ig_x_less(k, ig_contract_int(c, -1), at));
            inside = ig_x_and(k, inside, ig_x_less(k, at, ig_contract_dim(c, size)));
            ig_x last = ig_contract_dim(c, ig_dim_sub(c->graph->dims, size, constant(c, 1)));
            at = ig_x_max(k, ig_x_min(k, at, last), ig_contract_int(c, 0));
        }
        index[conv_axis(c, i)] = at;
    }
    ig_x value = ig_lower_value(&c->lower, a, index);
    return ig_contract_padded(c) ? ig_x_select(k, inside, value, zero(c, x->dtype)) : value;
}

static ig_x conv_b(struct ig_contract *c, ig_x b, ig_x n, const ig_x *depth) {
    ig_x group, index[INGOT_MAX_RANK];
    conv_image(c, b, &group);
    int64_t packed = attr(c, IG_ATTR_packed)->i;
    if (packed == 1 && c->groups > 1) { /* depthwise: [kernel..., C] */
        for (int i = 0; i < c->spatial; i++)
            index[i] = depth[i];
        index[c->spatial] = group;
        return ig_lower_value(&c->lower, c->node.in[1], index);
    }
    if (packed > 0) return packed_b(c, group, n, depth);
    index[0] = ig_x_add(c->k, ig_x_mul(c->k, group, ig_contract_dim(c, c->columns)), n);
    index[1] = depth[c->spatial];
    for (int i = 0; i < c->spatial; i++)
        index[i + 2] = depth[i];
    return ig_lower_value(&c->lower, c->node.in[1], index);
}

/* ---- Both ----------------------------------------------------------------------------------------------------------- */

ig_x ig_contract_a(struct ig_contract *c, ig_x b, ig_x m, const ig_x *depth) {
    return ig_x_cast(c->k, c->spatial ? conv_a(c, b, m, depth) : matmul_a(c, b, m, depth), c->dtype, false);
}

ig_x ig_contract_b(struct ig_contract *c, ig_x b, ig_x n, const ig_x *depth) {
    return ig_x_cast(c->k, c->spatial ? conv_b(c, b, n, depth) : matmul_b(c, b, n, depth), c->dtype, false);
}

void ig_contract_position(struct ig_contract *c, ig_x b, ig_x m, ig_x n, ig_x *out_index) {
    if (!c->spatial) {
        matmul_row(c, b, m, out_index);
        out_index[ig_type_of(c->graph, c->node.out)->rank - 1] = n;
        return;
    }
    ig_x group;
    out_index[0] = conv_image(c, b, &group);
    conv_spatial(c, m, out_index + conv_axis(c, 0));
    out_index[conv_axis(c, -1)] = ig_x_add(c->k, ig_x_mul(c->k, group, ig_contract_dim(c, c->columns)), n);
}

bool ig_contract_init(struct ig_contract *c) {
    c->node = c->graph->nodes.at[c->region->anchor];
    c->k = ig_loops_create(c->graph->job, c->graph->dims);
    c->kernel->loops = c->k;
    c->kernel->scratch_bytes = ig_dim_const(c->graph->dims, 0);
    c->linear = c->sum = IG_NO_X;
    ig_lower_init(&c->lower, c->k, c->graph, c->region);
    c->dtype = ig_dtype_compute((enum ingot_dtype)attr(c, IG_ATTR_acc)->i);
    if (c->node.op == IG_OP_matmul) return init_matmul(c);
    return c->node.op == IG_OP_conv && init_conv(c);
}

static void finish(struct ig_contract *c) {
    struct ig_kernel *kernel = c->kernel;
    for (uint32_t i = 0; i < c->region->inputs.count; i++) {
        ig_value v = c->region->inputs.at[i];
        if (ig_lower_is_literal(c->graph, v)) IG_PUSH(c->graph->job, &kernel->literals, v);
    }
    for (uint32_t i = 0; i < c->k->dim_params.count; i++)
        IG_PUSH(c->graph->job, &kernel->dims, c->k->dim_params.at[i]);
}

/* Multiply-adds over the lanes of a vector. */
static ig_dim work(struct ig_contract *c) {
    struct ig_dims *dims = c->graph->dims;
    ig_dim product = ig_dim_mul(dims, ig_dim_mul(dims, c->batch, c->rows), ig_dim_mul(dims, c->columns, c->depth));
    return ig_dim_ceil_div(dims, product, constant(c, ig_micro_lanes(c->target, c->dtype)));
}

static struct ig_contract *begin(struct ig_graph *graph, const struct ig_region *region, const struct ig_target *target,
                                 int choice) {
    struct ig_contract *c = IG_NEW(graph->job, struct ig_contract);
    *c = (struct ig_contract){.graph = graph, .region = region, .target = target, .choice = choice, .choices = 1};
    c->kernel = IG_NEW(graph->job, struct ig_kernel);
    c->kernel->family = IG_FAMILY_CONTRACT;
    if (!ig_contract_init(c)) {
        ig_raise(graph->job, INGOT_UNSUPPORTED, "a convolution over %d spatial axes (1 to 3 are supported)",
                 c->spatial);
    }
    return c;
}

static struct ig_kernel *end(struct ig_contract *c) {
    c->kernel->work = work(c);
    finish(c);
    return c->kernel;
}

/* What is asked for, on the way through the schedules. */
struct asked {
    struct ig_graph *graph;
    const struct ig_region *region;
    const struct ig_target *target;
    int choice;   /* of those that are still to come */
    bool applied; /* one of the schedules so far */
};

/* The candidates of the first schedule that applies, then those of the next one, and so on. */
static struct ig_kernel *take(struct asked *a, const ig_contract_schedule *schedules) {
    for (int i = 0; schedules[i]; i++) {
        struct ig_contract *c = begin(a->graph, a->region, a->target, a->choice);
        if (!schedules[i](c)) continue; /* the next one starts afresh */
        if (a->choice < c->choices) return end(c);
        a->choice -= c->choices;
        a->applied = true;
    }
    return NULL;
}

/* Plain code is for what no schedule applies to. */
struct ig_kernel *ig_kernel_contract(struct ig_graph *graph, const struct ig_region *region,
                                     const struct ig_target *target, int choice) {
    static const ig_contract_schedule cpu[] = {ig_contract_depthwise, ig_contract_lines, ig_contract_gemm, NULL};
    static const ig_contract_schedule cuda[] = {ig_cuda_contract_depthwise, ig_cuda_contract_gemm, NULL};
    static const ig_contract_schedule libraries[] = {ig_cuda_contract_product, ig_cuda_contract_convolution, NULL};
    struct asked asked = {graph, region, target, choice, false};
    bool is_cuda = ig_target_is_cuda(target);
    if (choice != IG_CHOICE_PLAIN) {
        struct ig_kernel *kernel = take(&asked, is_cuda ? cuda : cpu);
        if (!kernel && asked.applied && is_cuda) kernel = take(&asked, libraries);
        if (kernel || asked.applied || choice > 0) return kernel;
    }
    struct ig_contract *c = begin(graph, region, target, 0);
    ig_contract_plain(c);
    return end(c);
}
