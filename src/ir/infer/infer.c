/* Type inference: entry point, helpers of the rules, and the rules of elementwise operators and sources. See
 * infer.h. */
#include "ir/infer/infer.h"

#include <stdio.h>

#include "ir/build.h"

typedef void (*infer_fn)(struct ig_infer *x);

static const infer_fn rules[IG_OP_COUNT] = {
#define IG_MAP(name, ...) [IG_OP_##name] = ig_infer_map,
#define IG_OP(name, ...) [IG_OP_##name] = ig_infer_##name,
#include "ir/ops.def"
};

/* ---- Checks before any rule */

static void check_arity(struct ig_infer *x, const struct ig_op_info *info) {
    const struct ig_node *node = x->node;
    if ((int64_t)node->n_in < info->min_in || (info->max_in >= 0 && (int64_t)node->n_in > info->max_in))
        ig_infer_fail(x, "%u inputs do not fit, it takes from %d to %d", node->n_in, info->min_in, info->max_in);
    if (info->outputs >= 0 ? (int64_t)node->n_out != info->outputs : node->n_out > 4096)
        ig_infer_fail(x, "%u outputs do not fit", node->n_out);
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] != IG_NO_VALUE && node->in[i] >= x->graph->values.count)
            ig_raise(x->graph->job, INGOT_INTERNAL, "operator %s: input %u does not exist", info->name, i);
        /* All operands up to min_in are required, except by loops. */
        if (node->in[i] == IG_NO_VALUE && (int64_t)i < info->min_in && node->op != IG_OP_loop)
            ig_infer_fail(x, "input %u is missing", i);
    }
    bool has_bodies = node->body[0] != NULL && (node->op != IG_OP_if || node->body[1] != NULL);
    IG_ASSERT(x->graph->job, info->family != IG_FAMILY_CONTROL || has_bodies);
}

static void check_attrs(struct ig_infer *x, const struct ig_op_info *info) {
    for (int i = 0; i < info->n_attrs; i++) {
        const struct ig_attr *attr = &x->node->attr[i];
        if (attr->kind != info->attrs[i].kind)
            ig_raise(x->graph->job, INGOT_INTERNAL, "operator %s: attribute '%s' is of the wrong kind", info->name,
                     ig_attr_name_text(info->attrs[i].name));
        bool may_be_unknown = info->attrs[i].name == IG_ATTR_trip;
        bool unknown = attr->kind == IG_KIND_DIM && attr->dim == IG_DIM_NONE;
        for (int j = 0; attr->kind == IG_KIND_DIMS && j < attr->count; j++)
            unknown |= attr->dims[j] == IG_DIM_NONE;
        if (unknown && !may_be_unknown)
            ig_infer_fail(x, "attribute '%s' is not known", ig_attr_name_text(info->attrs[i].name));
    }
}

void ig_infer_node(struct ig_graph *graph, const struct ig_node *node, struct ig_type *out_types) {
    const struct ig_op_info *info = ig_op_info(node->op);
    struct ig_infer x = {.graph = graph, .dims = graph->dims, .node = node, .out = out_types};
    check_arity(&x, info);
    check_attrs(&x, info);
    rules[node->op](&x);
}

/* ---- Helpers of the rules */

void ig_infer_fail(struct ig_infer *x, const char *format, ...) {
    struct ig_text text;
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    ig_text_init(&text, x->graph->job);
    ig_text_printf(&text, "%s(", ig_op_info(x->node->op)->name);
    for (uint32_t i = 0; i < x->node->n_in && i < 12; i++) {
        if (i > 0) ig_text_add(&text, ", ");
        if (ig_infer_has(x, i))
            ig_type_print(x->dims, ig_type_of(x->graph, x->node->in[i]), &text);
        else
            ig_text_add(&text, "-");
    }
    ig_raise(x->graph->job, INGOT_BAD_MODEL, "%s): %s", text.at, message);
}

bool ig_infer_has(const struct ig_infer *x, uint32_t input) {
    return input < x->node->n_in && x->node->in[input] < x->graph->values.count;
}

const struct ig_type *ig_infer_in(struct ig_infer *x, uint32_t input) {
    if (!ig_infer_has(x, input)) ig_infer_fail(x, "input %u is missing", input);
    return ig_type_of(x->graph, x->node->in[input]);
}

const struct ig_attr *ig_infer_attr(struct ig_infer *x, enum ig_attr_name name) {
    return ig_attr(x->graph, x->node, name);
}

int64_t ig_infer_int(struct ig_infer *x, enum ig_attr_name name) {
    return ig_infer_attr(x, name)->i;
}

int ig_infer_axis(struct ig_infer *x, enum ig_attr_name name, int rank) {
    int64_t axis = ig_infer_int(x, name);
    if (axis < 0 || axis >= rank)
        ig_infer_fail(x, "%s %lld is outside of rank %d", ig_attr_name_text(name), (long long)axis, rank);
    return (int)axis;
}

static const struct ig_attr *counted(struct ig_infer *x, enum ig_attr_name name, int count) {
    const struct ig_attr *attr = ig_infer_attr(x, name);
    if (attr->count != count)
        ig_infer_fail(x, "attribute '%s' has %d values, expected %d", ig_attr_name_text(name), attr->count, count);
    return attr;
}

const int64_t *ig_infer_ints(struct ig_infer *x, enum ig_attr_name name, int count) {
    return counted(x, name, count)->ints;
}

const ig_dim *ig_infer_dims(struct ig_infer *x, enum ig_attr_name name, int count) {
    return counted(x, name, count)->dims;
}

void ig_infer_rank(struct ig_infer *x, uint32_t input, int rank) {
    int found = ig_infer_in(x, input)->rank;
    if (found != rank) ig_infer_fail(x, "input %u has rank %d, expected %d", input, found, rank);
}

void ig_infer_dtype(struct ig_infer *x, uint32_t input, enum ingot_dtype dtype) {
    enum ingot_dtype found = ig_infer_in(x, input)->dtype;
    if (found != dtype)
        ig_infer_fail(x, "input %u has type %s, expected %s", input, ingot_dtype_name(found), ingot_dtype_name(dtype));
}

void ig_infer_index_dtype(struct ig_infer *x, uint32_t input) {
    enum ingot_dtype found = ig_infer_in(x, input)->dtype;
    if (found != INGOT_I32 && found != INGOT_I64)
        ig_infer_fail(x, "indices have type %s, expected i32 or i64", ingot_dtype_name(found));
}

void ig_infer_numeric(struct ig_infer *x, uint32_t input) {
    enum ingot_dtype found = ig_infer_in(x, input)->dtype;
    if (!ig_dtype_is_float(found) && !ig_dtype_is_integer(found))
        ig_infer_fail(x, "input %u has type %s, expected a number", input, ingot_dtype_name(found));
}

bool ig_dims_unify(struct ig_graph *graph, ig_dim a, ig_dim b, ig_dim *out_dim) {
    enum ig_answer answer = ig_dim_equal(graph->dims, a, b);
    if (answer == IG_NO) return false;
    if (answer == IG_MAYBE) ig_graph_assume_equal(graph, a, b);
    *out_dim = ig_dim_is_const(graph->dims, b, NULL) ? b : a;
    return true;
}

static bool at_most_one(struct ig_graph *graph, ig_dim dim) {
    int64_t lo, hi;
    ig_dim_range(graph->dims, dim, &lo, &hi);
    return hi <= 1;
}

bool ig_dims_broadcast(struct ig_graph *graph, ig_dim a, ig_dim b, ig_dim *out_dim) {
    ig_dim one = ig_dim_const(graph->dims, 1);
    bool a_stretches = at_most_one(graph, a), b_stretches = at_most_one(graph, b);
    if (ig_dim_is_const(graph->dims, a, NULL) && a != one) a_stretches = false; /* empty */
    if (ig_dim_is_const(graph->dims, b, NULL) && b != one) b_stretches = false;
    if (a == one || b == one || a_stretches == b_stretches) {
        *out_dim = a == one ? b : a;
        return a == one || b == one || ig_dims_unify(graph, a, b, out_dim);
    }
    ig_graph_assume_equal(graph, a_stretches ? a : b, one);
    *out_dim = a_stretches ? b : a;
    return true;
}

ig_dim ig_infer_unify(struct ig_infer *x, ig_dim a, ig_dim b, const char *what) {
    ig_dim dim = a;
    if (!ig_dims_unify(x->graph, a, b, &dim))
        ig_infer_fail(x, "%s %s and %s differ", what, ig_infer_dim_text(x, a), ig_infer_dim_text(x, b));
    return dim;
}

void ig_infer_not_negative(struct ig_infer *x, ig_dim dim, const char *what) {
    int64_t lo, hi;
    ig_dim_range(x->dims, dim, &lo, &hi);
    if (hi < 0) ig_infer_fail(x, "%s %s is negative", what, ig_infer_dim_text(x, dim));
}

const char *ig_infer_dim_text(struct ig_infer *x, ig_dim dim) {
    return ig_dim_text(x->dims, dim);
}

/* ---- Broadcasting */

static bool broadcast(struct ig_graph *g, const struct ig_type *a, const struct ig_type *b, struct ig_type *result,
                      int *out_axis) {
    int rank = a->rank > b->rank ? a->rank : b->rank;
    struct ig_type type = {.dtype = result->dtype, .rank = rank};
    ig_dim one = ig_dim_const(g->dims, 1);
    for (int i = 0; i < rank; i++) {
        int in_a = i - (rank - a->rank), in_b = i - (rank - b->rank);
        ig_dim x = in_a < 0 ? one : a->dim[in_a], y = in_b < 0 ? one : b->dim[in_b];
        *out_axis = i;
        if (!ig_dims_broadcast(g, x, y, &type.dim[i])) return false;
    }
    *result = type;
    return true;
}

void ig_broadcast_dims(struct ig_graph *g, const char *what, const struct ig_type *a, const struct ig_type *b,
                       struct ig_type *inout_type) {
    struct ig_text text;
    int axis = 0;
    struct ig_type x = *a, y = *b; /* copies: either may alias inout_type */
    if (broadcast(g, &x, &y, inout_type, &axis)) return;
    ig_text_init(&text, g->job);
    ig_type_print(g->dims, &x, &text);
    ig_text_add(&text, " and ");
    ig_type_print(g->dims, &y, &text);
    ig_raise(g->job, INGOT_BAD_MODEL, "%s: the shapes of %s cannot be broadcast (axis %d)", what, text.at, axis);
}

static void broadcast_into(struct ig_infer *x, const struct ig_type *operand) {
    struct ig_type so_far = x->out[0];
    int axis;
    if (!broadcast(x->graph, &so_far, operand, &x->out[0], &axis))
        ig_infer_fail(x, "the shapes cannot be broadcast (axis %d)", axis);
}

/* ---- Elementwise */

static bool takes(enum ig_operands operands, enum ingot_dtype dtype) {
    switch (operands) {
    case IG_OPERANDS_FLOAT: return ig_dtype_is_float(dtype);
    case IG_OPERANDS_INT: return ig_dtype_is_integer(dtype);
    case IG_OPERANDS_NUM: return ig_dtype_is_float(dtype) || ig_dtype_is_integer(dtype);
    case IG_OPERANDS_BOOL: return dtype == INGOT_BOOL;
    case IG_OPERANDS_ANY: return !ig_dtype_is_narrow(dtype);
    }
    return false;
}

void ig_infer_map(struct ig_infer *x) {
    static const char *const wanted[] = {"a floating-point type", "an integer type", "a number", "bool",
                                         "a number or bool"};
    const struct ig_op_info *info = ig_op_info(x->node->op);
    const struct ig_type *first = ig_infer_in(x, 0);
    x->out[0] = *first;
    for (uint32_t i = 0; i < x->node->n_in; i++) {
        const struct ig_type *type = ig_infer_in(x, i);
        if (!takes(info->operands, type->dtype))
            ig_infer_fail(x, "input %u has type %s, expected %s", i, ingot_dtype_name(type->dtype),
                          wanted[info->operands]);
        if (type->dtype != first->dtype) ig_infer_fail(x, "the operands have different types");
        if (i > 0) broadcast_into(x, type);
    }
    if (info->result_bool) x->out[0].dtype = INGOT_BOOL;
}

void ig_infer_where(struct ig_infer *x) {
    ig_infer_dtype(x, 0, INGOT_BOOL);
    const struct ig_type *a = ig_infer_in(x, 1), *b = ig_infer_in(x, 2);
    if (a->dtype != b->dtype) ig_infer_fail(x, "the two alternatives have different types");
    x->out[0] = *ig_infer_in(x, 0);
    x->out[0].dtype = a->dtype;
    broadcast_into(x, a);
    broadcast_into(x, b);
}

static void check_narrow_cast(struct ig_infer *x, enum ingot_dtype from, enum ingot_dtype to) {
    bool fits = true;
    if (ig_dtype_is_narrow(from)) fits &= to == ig_dtype_beside(from);
    if (ig_dtype_is_narrow(to)) fits &= from == ig_dtype_beside(to) || (from == INGOT_F64 && ig_dtype_rounds_f64(to));
    if (!fits) ig_infer_fail(x, "no cast leads from %s to %s at once", ingot_dtype_name(from), ingot_dtype_name(to));
}

void ig_infer_cast(struct ig_infer *x) {
    int64_t to = ig_infer_int(x, IG_ATTR_to);
    if (to <= INGOT_DTYPE_NONE || to >= INGOT_DTYPE_COUNT) ig_infer_fail(x, "type %lld does not exist", (long long)to);
    x->out[0] = *ig_infer_in(x, 0);
    x->out[0].dtype = (enum ingot_dtype)to;
    check_narrow_cast(x, ig_infer_in(x, 0)->dtype, (enum ingot_dtype)to);
}

/* ---- Sources */

void ig_infer_constant(struct ig_infer *x) {
    const struct ig_data *data = ig_infer_attr(x, IG_ATTR_data)->data;
    const struct ig_type *type = &x->out[0];
    int64_t dims[INGOT_MAX_RANK];
    size_t size = ingot_dtype_size(type->dtype);
    if (!ig_type_is_static(x->dims, type, dims)) ig_infer_fail(x, "a constant has unknown dims");
    for (int i = 0; i < type->rank; i++) {
        if (dims[i] < 0) ig_infer_fail(x, "dim %d of a constant is negative", i);
        if (!ig_size_mul(size, (size_t)dims[i], &size)) ig_infer_fail(x, "a constant is too large");
    }
    if (data->size != size) ig_infer_fail(x, "a constant has %zu bytes of data, its type has %zu", data->size, size);
}

void ig_infer_shape(struct ig_infer *x) {
    const struct ig_attr *values = ig_infer_attr(x, IG_ATTR_values);
    bool scalar = ig_infer_int(x, IG_ATTR_scalar) != 0;
    if (scalar && values->count != 1) ig_infer_fail(x, "a scalar has %d values", values->count);
    x->out[0] = (struct ig_type){.dtype = INGOT_I64, .rank = scalar ? 0 : 1};
    if (!scalar) x->out[0].dim[0] = ig_dim_const(x->dims, values->count);
}

void ig_infer_iota(struct ig_infer *x) {
    const struct ig_attr *dims = ig_infer_attr(x, IG_ATTR_dims);
    if (dims->count > INGOT_MAX_RANK) ig_infer_fail(x, "rank %d is over %d", dims->count, INGOT_MAX_RANK);
    ig_infer_axis(x, IG_ATTR_axis, dims->count);
    for (int i = 0; i < dims->count; i++)
        ig_infer_not_negative(x, dims->dims[i], "dim");
    x->out[0] = ig_type_make(INGOT_I64, dims->count, dims->dims);
}
