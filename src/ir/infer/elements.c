/* Symbolic contents: entry point, sources, casts and elementwise operators. See elements.h. */
#include "ir/infer/elements.h"

#include "ir/eval/eval.h"

/* ---- Helpers of the rules */

bool ig_elements_input(struct ig_elements *e, uint32_t input, const ig_dim **out_elements,
                       int64_t out_dims[INGOT_MAX_RANK]) {
    if (input >= e->node->n_in || e->node->in[input] == IG_NO_VALUE) return false;
    const struct ig_value_info *info = ig_info(e->graph, e->node->in[input]);
    *out_elements = info->elements;
    return info->elements != NULL && ig_type_is_static(e->dims, &info->type, out_dims);
}

const struct ig_attr *ig_elements_attr(struct ig_elements *e, enum ig_attr_name name) {
    return ig_attr(e->graph, e->node, name);
}

void ig_elements_split(int64_t position, const int64_t *dims, int rank, int64_t *out_index) {
    for (int i = rank - 1; i >= 0; i--) {
        out_index[i] = position % dims[i];
        position /= dims[i];
    }
}

int64_t ig_elements_position(const int64_t *index, const int64_t *dims, int rank) {
    int64_t position = 0;
    for (int i = 0; i < rank; i++)
        position = position * dims[i] + index[i];
    return position;
}

int64_t ig_elements_broadcast(const struct ig_elements *e, const int64_t *index, const int64_t *dims, int rank) {
    int64_t position = 0;
    for (int i = 0; i < rank; i++) {
        int64_t at = dims[i] == 1 ? 0 : index[i + e->type->rank - rank];
        position = position * dims[i] + at;
    }
    return position;
}

/* ---- Sources */

static void of_constant(struct ig_elements *e) {
    const struct ig_data *data = ig_elements_attr(e, IG_ATTR_data)->data;
    for (int i = 0; i < e->count; i++) {
        int64_t value = ig_load_i64(e->type->dtype, data->bytes, i);
        if (value >= 0 || e->type->dtype != INGOT_U64) e->result[i] = ig_dim_const(e->dims, value);
    }
}

static void of_shape(struct ig_elements *e) {
    const struct ig_attr *values = ig_elements_attr(e, IG_ATTR_values);
    for (int i = 0; i < e->count; i++)
        e->result[i] = values->dims[i];
}

static void of_iota(struct ig_elements *e) {
    int64_t axis = ig_elements_attr(e, IG_ATTR_axis)->i, index[INGOT_MAX_RANK];
    for (int i = 0; i < e->count; i++) {
        ig_elements_split(i, e->dim, e->type->rank, index);
        e->result[i] = ig_dim_const(e->dims, index[axis]);
    }
}

/* ---- One element of an elementwise operator; operands may be IG_DIM_NONE */

static bool never_negative(struct ig_elements *e, ig_dim dim) {
    int64_t lo, hi;
    ig_dim_range(e->dims, dim, &lo, &hi);
    return lo >= 0;
}

static ig_dim of_bool(struct ig_elements *e, enum ig_answer answer, bool negate) {
    if (answer == IG_MAYBE) return IG_DIM_NONE;
    return ig_dim_const(e->dims, (answer == IG_YES) != negate);
}

static bool is_value(struct ig_elements *e, ig_dim dim, int64_t value) {
    int64_t found;
    return dim != IG_DIM_NONE && ig_dim_is_const(e->dims, dim, &found) && found == value;
}

static ig_dim elem_neg(struct ig_elements *e, ig_dim a, ig_dim b) {
    return ig_dim_sub(e->dims, ig_dim_const(e->dims, 0), a);
}

static ig_dim elem_abs(struct ig_elements *e, ig_dim a, ig_dim b) {
    return ig_dim_max(e->dims, a, elem_neg(e, a, b));
}

static ig_dim elem_not(struct ig_elements *e, ig_dim a, ig_dim b) {
    return ig_dim_sub(e->dims, ig_dim_const(e->dims, 1), a);
}

static ig_dim elem_add(struct ig_elements *e, ig_dim a, ig_dim b) {
    return ig_dim_add(e->dims, a, b);
}

static ig_dim elem_sub(struct ig_elements *e, ig_dim a, ig_dim b) {
    return ig_dim_sub(e->dims, a, b);
}

static ig_dim elem_mul(struct ig_elements *e, ig_dim a, ig_dim b) {
    return ig_dim_mul(e->dims, a, b);
}

/* Truncating division; division by zero gives 0. */
static ig_dim elem_div(struct ig_elements *e, ig_dim a, ig_dim b) {
    int64_t x, y;
    if (ig_dim_is_const(e->dims, b, &y) && y == 0) return b;
    if (ig_dim_is_const(e->dims, a, &x) && ig_dim_is_const(e->dims, b, &y))
        return y == -1 ? elem_neg(e, a, b) : ig_dim_const(e->dims, x / y);
    if (!ig_dim_divides(e->dims, b, a) && !(never_negative(e, a) && never_negative(e, b))) return IG_DIM_NONE;
    return ig_dim_div(e->dims, a, b);
}

static ig_dim elem_mod(struct ig_elements *e, ig_dim a, ig_dim b) {
    return is_value(e, b, 0) ? IG_DIM_NONE : ig_dim_mod(e->dims, a, b);
}

static ig_dim elem_fmod(struct ig_elements *e, ig_dim a, ig_dim b) {
    return never_negative(e, a) && never_negative(e, b) ? elem_mod(e, a, b) : IG_DIM_NONE;
}

static ig_dim elem_min(struct ig_elements *e, ig_dim a, ig_dim b) {
    return ig_dim_min(e->dims, a, b);
}

static ig_dim elem_max(struct ig_elements *e, ig_dim a, ig_dim b) {
    return ig_dim_max(e->dims, a, b);
}

static ig_dim elem_pow(struct ig_elements *e, ig_dim a, ig_dim b) {
    int64_t exponent;
    ig_dim power = ig_dim_const(e->dims, 1);
    if (!ig_dim_is_const(e->dims, b, &exponent) || exponent < 0 || exponent > 16) return IG_DIM_NONE;
    while (exponent-- > 0)
        power = ig_dim_mul(e->dims, power, a);
    return power;
}

static ig_dim elem_eq(struct ig_elements *e, ig_dim a, ig_dim b) {
    return of_bool(e, ig_dim_equal(e->dims, a, b), false);
}

static ig_dim elem_lt(struct ig_elements *e, ig_dim a, ig_dim b) {
    return of_bool(e, ig_dim_less(e->dims, a, b), false);
}

static ig_dim elem_le(struct ig_elements *e, ig_dim a, ig_dim b) {
    return of_bool(e, ig_dim_less(e->dims, b, a), true);
}

static ig_dim elem_xor(struct ig_elements *e, ig_dim a, ig_dim b) {
    return ig_dim_mod(e->dims, ig_dim_add(e->dims, a, b), ig_dim_const(e->dims, 2));
}

typedef ig_dim (*elem_fn)(struct ig_elements *e, ig_dim a, ig_dim b);

/* Operators without an entry leave their results unknown. */
static const elem_fn elem_fns[IG_OP_COUNT] = {
    [IG_OP_neg] = elem_neg, [IG_OP_abs] = elem_abs, [IG_OP_not] = elem_not,   [IG_OP_add] = elem_add,
    [IG_OP_sub] = elem_sub, [IG_OP_mul] = elem_mul, [IG_OP_div] = elem_div,   [IG_OP_mod] = elem_mod,
    [IG_OP_min] = elem_min, [IG_OP_max] = elem_max, [IG_OP_fmod] = elem_fmod, [IG_OP_pow] = elem_pow,
    [IG_OP_eq] = elem_eq,   [IG_OP_lt] = elem_lt,   [IG_OP_le] = elem_le,     [IG_OP_and] = elem_min,
    [IG_OP_or] = elem_max,  [IG_OP_xor] = elem_xor,
};

/* Results that one operand decides alone: 0*x, false and x, true or x. */
static ig_dim decided_by_one(struct ig_elements *e, ig_dim a, ig_dim b) {
    ig_dim known = a != IG_DIM_NONE ? a : b;
    bool zero = e->node->op == IG_OP_mul || e->node->op == IG_OP_and, one = e->node->op == IG_OP_or;
    if ((zero && is_value(e, known, 0)) || (one && is_value(e, known, 1))) return known;
    return IG_DIM_NONE;
}

static void of_map(struct ig_elements *e) {
    const ig_dim *elements[2] = {NULL, NULL};
    int64_t dims[2][INGOT_MAX_RANK], index[INGOT_MAX_RANK];
    uint32_t n = e->node->n_in;
    bool any = false, all = true;
    for (uint32_t i = 0; i < n; i++) {
        bool known = ig_elements_input(e, i, &elements[i], dims[i]);
        any |= known;
        all &= known;
        if (!known) elements[i] = NULL;
    }
    if (!any || (!all && n == 1)) return;
    for (int i = 0; i < e->count; i++) {
        ig_dim operand[2] = {IG_DIM_NONE, IG_DIM_NONE};
        ig_elements_split(i, e->dim, e->type->rank, index);
        for (uint32_t j = 0; j < n; j++) {
            int rank = ig_type_of(e->graph, e->node->in[j])->rank;
            if (elements[j] != NULL) operand[j] = elements[j][ig_elements_broadcast(e, index, dims[j], rank)];
        }
        bool known = operand[0] != IG_DIM_NONE && (n == 1 || operand[1] != IG_DIM_NONE);
        e->result[i] = known    ? elem_fns[e->node->op](e, operand[0], operand[1])
                       : n == 2 ? decided_by_one(e, operand[0], operand[1])
                                : IG_DIM_NONE;
    }
}

static void of_where(struct ig_elements *e) {
    const ig_dim *elements[3];
    int64_t dims[3][INGOT_MAX_RANK], index[INGOT_MAX_RANK];
    bool known[3];
    for (uint32_t i = 0; i < 3; i++)
        known[i] = ig_elements_input(e, i, &elements[i], dims[i]);
    if (!known[1] && !known[2]) return;
    for (int i = 0; i < e->count; i++) {
        ig_dim operand[3];
        ig_elements_split(i, e->dim, e->type->rank, index);
        for (uint32_t j = 0; j < 3; j++) {
            int rank = ig_type_of(e->graph, e->node->in[j])->rank;
            operand[j] = known[j] ? elements[j][ig_elements_broadcast(e, index, dims[j], rank)] : IG_DIM_NONE;
        }
        if (is_value(e, operand[0], 1))
            e->result[i] = operand[1];
        else if (is_value(e, operand[0], 0))
            e->result[i] = operand[2];
        else if (operand[1] == operand[2])
            e->result[i] = operand[1];
    }
}

static void of_cast(struct ig_elements *e) {
    const ig_dim *elements;
    int64_t dims[INGOT_MAX_RANK];
    ig_dim zero = ig_dim_const(e->dims, 0);
    if (!ig_elements_input(e, 0, &elements, dims)) return;
    for (int i = 0; i < e->count; i++) {
        bool to_bool = e->type->dtype == INGOT_BOOL && elements[i] != IG_DIM_NONE;
        e->result[i] = to_bool ? of_bool(e, ig_dim_equal(e->dims, elements[i], zero), true) : elements[i];
    }
}

/* ---- Entry point */

typedef void (*elements_fn)(struct ig_elements *e);

static const elements_fn rules[IG_OP_COUNT] = {
    [IG_OP_constant] = of_constant,
    [IG_OP_shape] = of_shape,
    [IG_OP_iota] = of_iota,
    [IG_OP_where] = of_where,
    [IG_OP_cast] = of_cast,
    [IG_OP_reshape] = ig_elements_reshape,
    [IG_OP_transpose] = ig_elements_transpose,
    [IG_OP_broadcast] = ig_elements_expand,
    [IG_OP_slice] = ig_elements_slice,
    [IG_OP_pad] = ig_elements_pad,
    [IG_OP_concat] = ig_elements_concat,
    [IG_OP_gather] = ig_elements_gather,
    [IG_OP_gather_elements] = ig_elements_gather_elements,
    [IG_OP_gather_nd] = ig_elements_gather_nd,
    [IG_OP_scatter_elements] = ig_elements_scatter_elements,
    [IG_OP_scatter_nd] = ig_elements_scatter_nd,
    [IG_OP_reduce_sum] = ig_elements_reduce,
    [IG_OP_reduce_prod] = ig_elements_reduce,
    [IG_OP_reduce_max] = ig_elements_reduce,
    [IG_OP_reduce_min] = ig_elements_reduce,
    [IG_OP_cumsum] = ig_elements_cumsum,
};

static elements_fn rule_of(enum ig_op op) {
    return elem_fns[op] != NULL ? of_map : rules[op];
}

/* Does the element fit its type? The model's arithmetic wraps, ours does not. */
static bool fits(struct ig_elements *e, ig_dim dim) {
    int64_t lo, hi;
    enum ingot_dtype dtype = e->type->dtype;
    int bits = dtype == INGOT_BOOL ? 1 : 8 * (int)ingot_dtype_size(dtype);
    bool is_signed = ig_dtype_is_signed(dtype);
    ig_dim_range(e->dims, dim, &lo, &hi);
    if (!is_signed && lo < 0) return false;
    if (bits == 64) return true;
    int64_t limit = INT64_C(1) << (is_signed ? bits - 1 : bits);
    if (ig_dim_is_const(e->dims, dim, NULL)) return lo < limit && (!is_signed || lo >= -limit);
    return lo < limit; /* symbolic sizes are assumed to fit the type that the model's author chose */
}

static void compute(struct ig_job *job, void *argument) {
    struct ig_elements *e = argument;
    rule_of(e->node->op)(e);
    for (int i = 0; i < e->count; i++) {
        if (e->result[i] != IG_DIM_NONE && !fits(e, e->result[i])) e->result[i] = IG_DIM_NONE;
    }
}

static bool any_known(const struct ig_elements *e) {
    for (int i = 0; i < e->count; i++) {
        if (e->result[i] != IG_DIM_NONE) return true;
    }
    return e->count == 0;
}

const ig_dim *ig_elements_compute(struct ig_graph *graph, const struct ig_node *node, const struct ig_type *type) {
    struct ig_elements e = {.graph = graph, .dims = graph->dims, .node = node, .type = type, .count = 1};
    struct ingot_error error;
    if (rule_of(node->op) == NULL || (!ig_dtype_is_integer(type->dtype) && type->dtype != INGOT_BOOL)) return NULL;
    if (!ig_type_is_static(graph->dims, type, e.dim)) return NULL;
    for (int i = 0; i < type->rank; i++) {
        if (e.dim[i] > IG_ELEMENTS_MAX) return NULL;
        e.count *= (int)e.dim[i];
        if (e.count > IG_ELEMENTS_MAX) return NULL;
    }
    e.result = IG_NEW_ARRAY(graph->job, ig_dim, (size_t)e.count);
    /* An expression that overflows or grows too large is not a defect of the model: the contents are then unknown. */
    enum ingot_status status = ig_job_run(graph->job, compute, &e, &error);
    if (status != INGOT_OK && status != INGOT_BAD_MODEL && status != INGOT_UNSUPPORTED)
        ig_raise_error(graph->job, &error);
    return status == INGOT_OK && any_known(&e) ? e.result : NULL;
}
