/* Analyses row regions: which pass computes, caches and stores each value. See row.h. */
#include "kernel/family/row.h"

#include <math.h>
#include <string.h>

enum {
    LONG_ROW = 4096, /* elements above which a sum is split into partial sums */
    LONG_COLUMN = 1024,
};

/* ---- Reductions -------------------------------------------------------------------------------------------------- */

bool ig_row_is_reduction(const struct ig_node *n) {
    return ig_op_info(n->op)->family == IG_FAMILY_ROW;
}

static bool is_arg(enum ig_op op) {
    return op == IG_OP_argmax || op == IG_OP_argmin;
}

static bool finds_last(const struct ig_row *r, const struct ig_row_step *step) {
    return ig_attr_int(r->graph, ig_def(r->graph, step->value), IG_ATTR_last) != 0;
}

static enum ig_op update_of(enum ig_op op) {
    switch (op) {
    case IG_OP_reduce_prod: return IG_OP_mul;
    case IG_OP_reduce_max:
    case IG_OP_argmax: return IG_OP_max;
    case IG_OP_reduce_min:
    case IG_OP_argmin: return IG_OP_min;
    default: return IG_OP_add;
    }
}

/* Small integers accumulate in 32 bits, integer means in 64. */
static enum ingot_dtype acc_dtype(enum ig_op op, enum ingot_dtype dtype) {
    if (ig_dtype_is_float(dtype)) return ig_dtype_compute(dtype);
    if (op == IG_OP_reduce_mean) return INGOT_I64;
    if (dtype == INGOT_I64 || dtype == INGOT_U64 || dtype == INGOT_U32) return dtype;
    return INGOT_I32;
}

static void axes_of(const struct ig_graph *g, const struct ig_node *n, bool *out_reduced) {
    memset(out_reduced, 0, INGOT_MAX_RANK * sizeof *out_reduced);
    if (is_arg(n->op)) {
        out_reduced[ig_attr_int(g, n, IG_ATTR_axis)] = true;
        return;
    }
    const struct ig_attr *axes = ig_attr(g, n, IG_ATTR_axes);
    for (int i = 0; i < axes->count; i++)
        out_reduced[axes->ints[i]] = true;
}

static int64_t highest(enum ingot_dtype dtype) {
    switch (dtype) {
    case INGOT_U32: return UINT32_MAX;
    case INGOT_I64: return INT64_MAX;
    case INGOT_U64: return -1;
    default: return INT32_MAX;
    }
}

static int64_t lowest(enum ingot_dtype dtype) {
    if (dtype == INGOT_U32 || dtype == INGOT_U64) return 0;
    return dtype == INGOT_I64 ? INT64_MIN : INT32_MIN;
}

/* The extreme of the operand's own type, which may be narrower than the accumulator's. */
static ig_x extreme(struct ig_row *r, const struct ig_row_step *step, bool high) {
    static const int bits[INGOT_DTYPE_COUNT] = {
        [INGOT_I8] = 7, [INGOT_I16] = 15, [INGOT_U8] = 8, [INGOT_U16] = 16, [INGOT_BOOL] = 1};
    enum ingot_dtype own = ig_type_of(r->graph, step->in)->dtype;
    if (ig_dtype_is_float(step->dtype))
        return ig_x_float(r->k, step->dtype, high ? (double)INFINITY : -(double)INFINITY);
    if (!bits[own]) return ig_x_int(r->k, step->dtype, high ? highest(step->dtype) : lowest(step->dtype));
    int64_t limit = (int64_t)1 << bits[own];
    return ig_x_int(r->k, step->dtype, high ? limit - 1 : ig_dtype_is_signed(own) ? -limit : 0);
}

ig_x ig_row_neutral(struct ig_row *r, const struct ig_row_step *step) {
    if (step->is_place) return ig_x_int(r->k, INGOT_I32, finds_last(r, step) ? -1 : INT32_MAX);
    if (step->update == IG_OP_min || step->update == IG_OP_max) return extreme(r, step, step->update == IG_OP_min);
    double neutral = step->update == IG_OP_mul;
    return ig_dtype_is_float(step->dtype) ? ig_x_float(r->k, step->dtype, neutral)
                                          : ig_x_int(r->k, step->dtype, (int64_t)neutral);
}

static ig_x accumulated(struct ig_row *r, const struct ig_row_step *step);

static ig_x count_as(struct ig_row *r, enum ingot_dtype dtype) {
    return ig_x_cast(r->k, ig_x_dim(r->k, r->count), dtype, false);
}

/* The sum or mean of squared deviations from the mean, from the squares of x - shift. Rounding makes none negative. */
static ig_x deviation(struct ig_row *r, const struct ig_row_step *step, ig_x squares) {
    struct ig_loops *k = r->k;
    const struct ig_row_step *of = &r->steps.at[step->mean];
    ig_x away = ig_x_map2(k, IG_OP_sub, ig_row_result(r, of, accumulated(r, of)), step->shift);
    ig_x all = ig_x_map2(k, IG_OP_mul, away, away);
    if (step->op == IG_OP_reduce_mean) {
        squares = ig_x_map2(k, IG_OP_div, squares, count_as(r, step->dtype));
    } else {
        all = ig_x_map2(k, IG_OP_mul, all, count_as(r, step->dtype));
    }
    return ig_x_map2(k, IG_OP_max, ig_x_map2(k, IG_OP_sub, squares, all), ig_x_float(k, step->dtype, 0));
}

ig_x ig_row_result(struct ig_row *r, const struct ig_row_step *step, ig_x accumulated) {
    struct ig_loops *k = r->k;
    enum ingot_dtype dtype = ig_type_of(r->graph, step->value)->dtype;
    if (step->mean >= 0) return deviation(r, step, accumulated);
    if (step->is_place) {
        /* An empty axis gives 0. */
        ig_x none = ig_x_map2(k, IG_OP_eq, accumulated, ig_row_neutral(r, step));
        return ig_x_cast(k, ig_x_select(k, none, ig_x_int(k, INGOT_I32, 0), accumulated), INGOT_I64, false);
    }
    if (step->op == IG_OP_reduce_mean) {
        accumulated = ig_x_map2(k, IG_OP_div, accumulated, count_as(r, step->dtype));
    }
    return ig_dtype_is_float(dtype) ? accumulated : ig_x_cast(k, accumulated, dtype, false);
}

ig_x ig_row_term(struct ig_row *r, const struct ig_row_step *step, ig_x operand, ig_x extremum, ig_x place) {
    struct ig_loops *k = r->k;
    enum ingot_dtype own = ig_type_of(r->graph, step->in)->dtype;
    ig_x number = ig_x_cast(k, operand, acc_dtype(step->op, own), false);
    if (!step->is_place) return number;
    ig_x found = ig_x_map2(k, IG_OP_eq, number, extremum);
    if (ig_dtype_is_float(own)) found = ig_x_map2(k, IG_OP_or, found, ig_x_map1(k, IG_OP_isnan, number));
    return ig_x_select(k, found, ig_x_cast(k, place, INGOT_I32, false), ig_row_neutral(r, step));
}

bool ig_row_is_result_shape(const struct ig_row *r, const struct ig_type *type) {
    int64_t n;
    if (type->rank != r->space.rank) return false;
    for (int i = 0; i < type->rank; i++) {
        if (r->reduced[i] ? !ig_dim_is_const(r->k->dims, type->dim[i], &n) || n != 1
                          : type->dim[i] != r->space.dim[i]) {
            return false;
        }
    }
    return true;
}

ig_dim ig_row_results(const struct ig_row *r) {
    ig_dim rows = ig_dim_const(r->k->dims, 1);
    for (int d = 0; d < r->space.rank; d++) {
        if (!r->reduced[d]) rows = ig_dim_mul(r->k->dims, rows, r->space.dim[d]);
    }
    return rows;
}

bool ig_row_is_space_shape(const struct ig_row *r, const struct ig_type *type) {
    return type->rank == r->space.rank && !memcmp(type->dim, r->space.dim, (size_t)type->rank * sizeof *type->dim);
}

/* ---- Passes ------------------------------------------------------------------------------------------------------ */

static void add_step(struct ig_row *r, const struct ig_node *n, bool is_place, int pass) {
    enum ingot_dtype dtype = ig_type_of(r->graph, n->in[0])->dtype;
    struct ig_row_step step = {.value = n->out,
                               .in = n->in[0],
                               .op = n->op,
                               .update = update_of(n->op),
                               .dtype = acc_dtype(n->op, dtype),
                               .is_place = is_place,
                               .mean = -1,
                               .shift = IG_NO_X,
                               .pass = pass,
                               .acc = -1,
                               .array = -1,
                               .partial = -1};
    if (is_place) {
        step.dtype = INGOT_I32;
        step.update = finds_last(r, &step) ? IG_OP_max : IG_OP_min;
    }
    IG_PUSH(r->graph->job, &r->steps, step);
    if (pass + 1 > r->passes) r->passes = pass + 1;
}

/* The first reduction determines the space and the reduced axes; the others must agree. */
static bool fits_space(struct ig_row *r, const struct ig_node *n) {
    bool reduced[INGOT_MAX_RANK];
    axes_of(r->graph, n, reduced);
    if (r->space.rank < 0) {
        r->space = *ig_type_of(r->graph, n->in[0]);
        memcpy(r->reduced, reduced, sizeof reduced);
        return true;
    }
    return ig_row_is_space_shape(r, ig_type_of(r->graph, n->in[0])) && !memcmp(reduced, r->reduced, sizeof reduced);
}

/* ---- Deviations in the pass of their mean ------------------------------------------------------------------------ */

/* Is all that the region stores rounded to 16 bits, and has each row an element? */
static bool may_join(const struct ig_row *r) {
    int64_t least = 1, lo, hi;
    for (uint32_t i = 0; i < r->region->outputs.count; i++) {
        enum ingot_dtype dtype = ig_type_of(r->graph, r->region->outputs.at[i])->dtype;
        if (!ig_dtype_is_float(dtype) || ingot_dtype_size(dtype) != 2) return false;
    }
    for (int i = 0; i < r->space.rank; i++) {
        ig_dim_range(r->k->dims, r->reduced[i] ? r->space.dim[i] : ig_dim_const(r->k->dims, 1), &lo, &hi);
        if (lo < least) least = lo;
    }
    return least >= 1;
}

static const struct ig_node *node_in(const struct ig_row *r, ig_value v, enum ig_op op) {
    const struct ig_node *n = v == IG_NO_VALUE || r->pass_of[v] < 0 ? NULL : ig_def(r->graph, v);
    return n && n->op == op ? n : NULL;
}

/* The step of x's mean if n sums (x - mean)^2 and x is known before all reductions, else -1. */
static int find_mean(const struct ig_row *r, const struct ig_node *n) {
    if (n->op != IG_OP_reduce_mean && n->op != IG_OP_reduce_sum) return -1;
    const struct ig_node *square = node_in(r, n->in[0], IG_OP_mul);
    const struct ig_node *less = square && square->in[0] == square->in[1] ? node_in(r, square->in[0], IG_OP_sub) : NULL;
    for (uint32_t i = 0; less && i < r->steps.count; i++) {
        const struct ig_row_step *step = &r->steps.at[i];
        if (step->value == less->in[1] && step->in == less->in[0] && step->op == IG_OP_reduce_mean &&
            step->dtype == INGOT_F32 && step->pass == 0) {
            return may_join(r) ? (int)i : -1;
        }
    }
    return -1;
}

/* Is n such a sum? Its step goes into the mean's pass. */
static bool join_deviations(struct ig_row *r, const struct ig_node *n) {
    int mean = r->joins ? find_mean(r, n) : -1;
    if (mean < 0) return false;
    add_step(r, n, false, 0);
    struct ig_row_step *step = &r->steps.at[r->steps.count - 1];
    step->mean = mean;
    step->in = r->steps.at[mean].in;
    return true;
}

/* ---- Passes, by value -------------------------------------------------------------------------------------------- */

static void assign_passes(struct ig_row *r) {
    r->space.rank = -1;
    for (uint32_t i = 0; i < r->region->nodes.count; i++) {
        const struct ig_node *n = &r->graph->nodes.at[r->region->nodes.at[i]];
        int pass = 0;
        for (uint32_t j = 0; j < n->n_in; j++) {
            if (n->in[j] != IG_NO_VALUE && r->pass_of[n->in[j]] > pass) pass = r->pass_of[n->in[j]];
        }
        if (ig_row_is_reduction(n)) {
            if (!fits_space(r, n)) r->regular = false;
            if (join_deviations(r, n)) {
                pass = 1;
            } else {
                add_step(r, n, false, pass++);
                if (is_arg(n->op)) add_step(r, n, true, pass++);
            }
        }
        for (uint32_t o = 0; o < n->n_out; o++)
            r->pass_of[n->out + o] = pass;
    }
    IG_ASSERT(r->graph->job, r->steps.count > 0);
    if (r->passes >= IG_ROW_PASSES) r->regular = false;
}

static void measure(struct ig_row *r) {
    struct ig_dims *dims = r->k->dims;
    int last = r->space.rank - 1;
    int64_t n;
    r->count = ig_dim_const(dims, 1);
    for (int i = 0; i < r->space.rank; i++) {
        if (r->reduced[i]) r->count = ig_dim_mul(dims, r->count, r->space.dim[i]);
    }
    while (last >= 0 && ig_dim_is_const(dims, r->space.dim[last], &n) && n == 1)
        last--;
    r->columns = last >= 0 && !r->reduced[last];
    r->long_row = !ig_dim_is_const(dims, r->count, &n) || n > (r->columns ? LONG_COLUMN : LONG_ROW);
}

/* ---- Caching between passes -------------------------------------------------------------------------------------- */

static void mark_pass(struct ig_row *r, uint32_t *passes, ig_value v, int pass) {
    if (v == IG_NO_VALUE || passes[v] >> pass & 1) return;
    passes[v] |= (uint32_t)1 << pass;
    if (r->pass_of[v] < 0 || (r->cache_of[v] >= 0 && pass > r->cache_pass[v])) return;
    const struct ig_node *n = ig_def(r->graph, v);
    if (ig_row_is_reduction(n)) return;
    for (uint32_t i = 0; i < n->n_in; i++)
        mark_pass(r, passes, n->in[i], pass);
}

uint32_t *ig_row_passes_of(struct ig_row *r) {
    uint32_t *passes = IG_NEW_ARRAY(r->graph->job, uint32_t, r->graph->values.count);
    for (uint32_t i = 0; i < r->steps.count; i++)
        mark_pass(r, passes, r->steps.at[i].in, r->steps.at[i].pass);
    for (uint32_t i = 0; i < r->region->outputs.count; i++) {
        ig_value v = r->region->outputs.at[i];
        if (ig_row_is_space_shape(r, ig_type_of(r->graph, v))) mark_pass(r, passes, v, r->pass_of[v]);
    }
    return passes;
}

bool ig_row_is_expensive(const struct ig_node *n) {
    switch (n->op) {
    case IG_OP_add:
    case IG_OP_sub:
    case IG_OP_mul:
    case IG_OP_min:
    case IG_OP_max:
    case IG_OP_neg:
    case IG_OP_abs:
    case IG_OP_div:
    case IG_OP_cast:
    case IG_OP_where: return false;
    default:
        return ig_op_info(n->op)->is_map && ig_op_info(n->op)->family == IG_FAMILY_MAP &&
               !ig_op_info(n->op)->result_bool;
    }
}

/* The only reader of v in the region; IG_NO_VALUE if there are several or none. */
static ig_value only_reader(const struct ig_row *r, ig_value v) {
    ig_value reader = IG_NO_VALUE;
    for (uint32_t i = 0; i < r->region->nodes.count; i++) {
        const struct ig_node *n = &r->graph->nodes.at[r->region->nodes.at[i]];
        for (uint32_t j = 0; j < n->n_in; j++) {
            if (n->in[j] != v) continue;
            if (reader != IG_NO_VALUE && reader != n->out) return IG_NO_VALUE;
            reader = n->out;
        }
    }
    return reader;
}

ig_value ig_row_widen(const struct ig_row *r, const uint32_t *passes, ig_value v) {
    for (;;) {
        ig_value next = only_reader(r, v);
        if (next == IG_NO_VALUE || ig_row_is_reduction(ig_def(r->graph, next)) || passes[next] != passes[v] ||
            r->pass_of[next] != r->pass_of[v] || !ig_row_is_space_shape(r, ig_type_of(r->graph, next))) {
            return v;
        }
        v = next;
    }
}

/* ---- Lowering ---------------------------------------------------------------------------------------------------- */

/* The current element's position in the row's caches. */
static ig_x cache_position(struct ig_row *r) {
    struct ig_loops *k = r->k;
    if (r->place != IG_NO_X) return r->place;
    ig_x at = ig_x_index(k, 0);
    for (int i = 0; i < r->space.rank; i++) {
        if (r->reduced[i]) at = ig_x_add(k, ig_x_mul(k, at, ig_x_dim(k, r->space.dim[i])), r->index[i]);
    }
    return at;
}

/* Is `index` the current element (for a result: the current row)? */
static bool is_here(const struct ig_row *r, const struct ig_type *type, const ig_x *index) {
    bool result = ig_row_is_result_shape(r, type);
    if (!result && !ig_row_is_space_shape(r, type)) return false;
    for (int i = 0; i < type->rank; i++) {
        if (!(result && r->reduced[i]) && index[i] != r->index[i]) return false;
    }
    return true;
}

static ig_x accumulated(struct ig_row *r, const struct ig_row_step *step) {
    return r->columns ? ig_x_load(r->k, step->array, r->lane) : ig_x_acc(r->k, step->acc, step->dtype);
}

static ig_x known(void *user, ig_value v, const ig_x *index) {
    struct ig_row *r = user;
    const struct ig_type *type = ig_type_of(r->graph, v);
    if (r->cache_of[v] >= 0 && r->cache_pass[v] < r->pass && is_here(r, type, index)) {
        return ig_x_load(r->k, r->cache_of[v], cache_position(r));
    }
    if (r->pass_of[v] < 0) return IG_NO_X;
    for (uint32_t i = r->steps.count; i-- > 0;) {
        const struct ig_row_step *step = &r->steps.at[i];
        if (step->value != v) continue;
        if (!is_here(r, type, index)) r->regular = false;
        return ig_row_result(r, step, accumulated(r, step));
    }
    return IG_NO_X;
}

/* The element's position along argmax's axis. */
static ig_x place_of(const struct ig_row *r, const struct ig_row_step *step) {
    return r->index[ig_attr_int(r->graph, ig_def(r->graph, step->value), IG_ATTR_axis)];
}

/* What the step sums, of the row's first element. */
static ig_x first_element(struct ig_row *r, const struct ig_row_step *step) {
    ig_x index[INGOT_MAX_RANK];
    for (int d = 0; d < r->space.rank; d++)
        index[d] = r->reduced[d] ? ig_x_index(r->k, 0) : r->index[d];
    return ig_row_term(r, step, ig_lower_value(&r->lower, step->in, index), IG_NO_X, IG_NO_X);
}

static void lower_step(struct ig_row *r, uint32_t i) {
    struct ig_row_step *step = &r->steps.at[i];
    ig_x extremum = step->is_place ? accumulated(r, &r->steps.at[i - 1]) : IG_NO_X;
    ig_x operand = ig_lower_value(&r->lower, step->in, r->index);
    ig_x place = step->is_place ? place_of(r, step) : IG_NO_X;
    step = &r->steps.at[i];
    ig_x term = ig_row_term(r, step, operand, extremum, place);
    if (step->mean >= 0) {
        step->shift = first_element(r, step);
        term = ig_x_map2(r->k, IG_OP_sub, term, step->shift);
        term = ig_x_map2(r->k, IG_OP_mul, term, term);
    }
    step->term = ig_nest_add(&r->nest, term);
}

static void add_store(struct ig_row *r, int pass, int buffer, ig_x position, ig_value value, const ig_x *index) {
    struct ig_row_store store = {.pass = pass, .buffer = buffer};
    store.position = ig_nest_add(&r->nest, position);
    store.value = ig_nest_add(&r->nest, ig_lower_value(&r->lower, value, index));
    IG_PUSH(r->graph->job, &r->stores, store);
}

static void lower_cache(struct ig_row *r, int pass, ig_value v) {
    if (r->cache_of[v] < 0 || r->cache_pass[v] != pass) return;
    add_store(r, pass, r->cache_of[v], cache_position(r), v, r->index);
}

/* Results are stored after the last pass, other outputs and caches in the pass that computes them. */
static void lower_stores(struct ig_row *r, int pass) {
    for (uint32_t i = 0; i < r->region->inputs.count; i++)
        lower_cache(r, pass, r->region->inputs.at[i]);
    for (uint32_t i = 0; i < r->region->nodes.count; i++)
        lower_cache(r, pass, r->graph->nodes.at[r->region->nodes.at[i]].out);
    for (uint32_t i = 0; i < r->region->outputs.count; i++) {
        ig_value v = r->region->outputs.at[i];
        const struct ig_type type = *ig_type_of(r->graph, v);
        int at = r->pass_of[v];
        bool wide = ig_row_is_space_shape(r, &type);
        if (wide ? at != pass : pass != r->passes) continue;
        if (!wide && !ig_row_is_result_shape(r, &type)) r->regular = false;
        if (!r->regular) return;
        ig_x index[INGOT_MAX_RANK];
        for (int d = 0; d < type.rank; d++)
            index[d] = !wide && r->reduced[d] ? ig_x_index(r->k, 0) : r->index[d];
        /* This pass number is beyond all passes: such stores are emitted once per row, outside their loops. */
        add_store(r, wide ? pass : r->passes + 1, r->lower.buffer_of[v], ig_lower_linear(&r->lower, &type, index), v,
                  index);
    }
}

static void set_accumulators(struct ig_row *r, int lanes) {
    for (uint32_t i = 0; i < r->steps.count; i++) {
        struct ig_row_step *step = &r->steps.at[i];
        step->acc = ig_loops_acc(r->k);
        if (lanes) step->array = ig_loops_local(r->k, step->dtype, lanes, ig_format(r->k->job, "sum%u", i));
    }
}

bool ig_row_prepare(struct ig_row *r, int lanes) {
    if (!r->regular) return false;
    r->lower.known = known;
    r->lower.user = r;
    set_accumulators(r, lanes);
    ig_nest_init(&r->nest, r->k, r->at);
    for (int part = 0; part < 2; part++) {
        int first = r->nest.rank;
        for (int i = 0; i < r->space.rank; i++) {
            if (r->reduced[i] == (part == 1)) r->index[i] = ig_nest_dim(&r->nest, r->space.dim[i]);
        }
        if (part == 1 && r->nest.rank > first) r->nest.border[first] = true;
    }
    int rank = r->nest.rank;
    r->lane = ig_x_free_var(r->k, ig_dim_const(r->k->dims, lanes ? lanes : 1));
    for (r->pass = -1; r->pass <= r->passes && r->regular; r->pass++) {
        for (uint32_t i = 0; i < r->steps.count && r->regular; i++) {
            if (r->steps.at[i].pass == r->pass) lower_step(r, i);
        }
        lower_stores(r, r->pass);
    }
    if (!r->regular) return false;
    ig_nest_simplify(&r->nest);
    r->kept = rank > 0 ? r->nest.rank : 0;
    for (int d = r->nest.rank - 1; d >= 0; d--) {
        if (r->nest.border[d]) r->kept = d;
    }
    return true;
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

static void init(struct ig_row *r) {
    struct ig_graph *graph = r->graph;
    r->regular = true;
    r->pass_of = IG_NEW_ARRAY(graph->job, int, graph->values.count);
    r->cache_of = IG_NEW_ARRAY(graph->job, int, graph->values.count);
    r->cache_pass = IG_NEW_ARRAY(graph->job, int, graph->values.count);
    for (uint32_t v = 0; v < graph->values.count; v++)
        r->pass_of[v] = r->cache_of[v] = -1;
    r->scratch = ig_dim_const(graph->dims, 0);
    r->place = IG_NO_X;
    assign_passes(r);
    if (r->regular) measure(r);
}

void ig_row_init(struct ig_row *r, struct ig_graph *graph, const struct ig_region *region, const struct ig_sizes *at,
                 bool joins) {
    *r = (struct ig_row){.graph = graph, .region = region, .at = at, .joins = joins};
    r->kernel = IG_NEW(graph->job, struct ig_kernel);
    r->k = r->kernel->loops = ig_loops_create(graph->job, graph->dims);
    ig_lower_init(&r->lower, r->k, graph, region);
    init(r);
}

void ig_row_init_within(struct ig_row *r, struct ig_kernel *kernel, const struct ig_lower *lower,
                        const struct ig_sizes *at) {
    *r = (struct ig_row){.graph = lower->graph, .region = lower->region, .at = at, .joins = true};
    r->kernel = kernel;
    r->k = lower->loops;
    r->lower = *lower;
    init(r);
}

void ig_row_finish(struct ig_row *r) {
    struct ig_dims *dims = r->k->dims;
    int64_t cost = 2;
    for (uint32_t i = 0; i < r->region->nodes.count; i++)
        cost += ig_row_is_expensive(&r->graph->nodes.at[r->region->nodes.at[i]]) ? 12 : 1;
    ig_dim work = ig_dim_mul(dims, ig_type_elements(dims, &r->space), ig_dim_const(dims, cost));
    r->kernel->work = ig_dim_ceil_div(dims, work, ig_dim_const(dims, 16));
    r->kernel->scratch_bytes = r->scratch;
}
