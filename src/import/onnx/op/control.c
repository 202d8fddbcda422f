/*
 * Control flow. A branch known to be taken is imported in place; bodies that remain become graphs of their own, whose
 * captured values are inputs. A Scan becomes a loop that gathers a slice per step.
 */
#include "import/onnx/importer.h"
#include "import/onnx/op/arith.h"

/* ---- If ---- */

static struct ig_onnx_scope *branch_body(struct ig_onnx_node *n, const Onnx__GraphProto *proto,
                                         struct ig_onnx_captures *captures, ig_value *out_values) {
    struct ig_onnx_scope *scope = IG_NEW(n->job, struct ig_onnx_scope);
    if (proto->n_input) ig_onnx_bad(n, "a branch has %zu inputs, expected none", proto->n_input);
    if (proto->n_output != n->n_out) {
        ig_onnx_bad(n, "a branch has %zu outputs, expected %u", proto->n_output, n->n_out);
    }
    ig_onnx_enter(n->import);
    ig_onnx_scope_init(scope, n->import, ig_graph_create(n->job, n->dims), n->scope, proto);
    scope->captures = captures;
    ig_onnx_import_graph(scope);
    for (uint32_t i = 0; i < n->n_out; i++)
        out_values[i] = ig_onnx_graph_output(scope, i);
    ig_onnx_leave(n->import);
    return scope;
}

/* Gives both bodies the same inputs in the same order: all that either captured. */
static void share_captures(struct ig_onnx_scope *scope, const struct ig_onnx_captures *captures) {
    struct ig_job *job = scope->import->job;
    struct ig_graph *body = scope->graph;
    struct ig_port *ports = IG_NEW_ARRAY(job, struct ig_port, captures->outer.count);
    for (uint32_t i = 0; i < captures->outer.count; i++) {
        ig_value inner = ig_onnx_capture(scope, captures->outer.at[i]);
        ports[i] = (struct ig_port){.value = inner, .name = ig_info(body, inner)->name};
    }
    IG_ASSERT(job, body->inputs.count == captures->outer.count);
    if (ports) body->inputs.at = ports;
    body->inputs.capacity = captures->outer.count;
}

/* Can both types be one result's? Dims are assumed equal unless they provably differ. */
static bool can_join(struct ig_onnx_node *n, const struct ig_type *a, const struct ig_type *b) {
    if (a->dtype != b->dtype || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++) {
        if (ig_dim_equal(n->dims, a->dim[i], b->dim[i]) == IG_NO) return false;
    }
    return true;
}

static ig_value take_branch(struct ig_onnx_node *n, const Onnx__GraphProto *branch) {
    ig_value *values = IG_NEW_ARRAY(n->job, ig_value, n->n_out + 1);
    ig_onnx_import_inline(n, branch, values);
    for (uint32_t i = 0; i < n->n_out; i++)
        n->out[i] = values[i];
    return n->out[0];
}

static ig_value finish_if(struct ig_onnx_node *n, ig_value condition, struct ig_onnx_scope *const scopes[2],
                          ig_value *const values[2], const struct ig_onnx_captures *captures) {
    struct ig_graph *bodies[2];
    for (int i = 0; i < 2; i++) {
        share_captures(scopes[i], captures);
        bodies[i] = scopes[i]->graph;
        for (uint32_t j = 0; j < n->n_out; j++) {
            ig_build_output(bodies[i], scopes[i]->proto->output[j]->name, values[i][j]);
        }
    }
    uint32_t n_in = 1 + captures->outer.count;
    ig_value *in = IG_NEW_ARRAY(n->job, ig_value, n_in);
    in[0] = condition;
    for (uint32_t i = 1; i < n_in; i++)
        in[i] = captures->outer.at[i - 1];
    ig_value first = ig_build_node(n->g, IG_OP_if, in, n_in, n->n_out, NULL, bodies);
    for (uint32_t i = 0; i < n->n_out; i++)
        n->out[i] = first + i;
    return first;
}

ig_value ig_import_if(struct ig_onnx_node *n) {
    const Onnx__GraphProto *branches[2] = {ig_onnx_graph_attr(n, "then_branch"), ig_onnx_graph_attr(n, "else_branch")};
    ig_value condition = ig_onnx_in(n, 0), *values[2];
    const ig_dim *element;
    int count;
    double known;
    int64_t symbolic;
    if (ig_onnx_type(n, condition) != INGOT_BOOL) ig_onnx_bad(n, "the condition is not bool");
    if (ig_const_scalar(n->g, condition, &known)) return take_branch(n, branches[known != 0 ? 0 : 1]);
    if (ig_elements(n->g, condition, &element, &count) && count == 1 && ig_dim_is_const(n->dims, *element, &symbolic)) {
        return take_branch(n, branches[symbolic != 0 ? 0 : 1]);
    }
    struct ig_onnx_captures captures;
    struct ig_onnx_scope *scopes[2];
    ig_onnx_captures_init(&captures, n->job);
    for (int i = 0; i < 2; i++) {
        values[i] = IG_NEW_ARRAY(n->job, ig_value, n->n_out + 1);
        scopes[i] = branch_body(n, branches[i], &captures, values[i]);
    }
    bool joined = true;
    for (uint32_t i = 0; i < n->n_out; i++) {
        joined &= can_join(n, ig_type_of(scopes[0]->graph, values[0][i]), ig_type_of(scopes[1]->graph, values[1][i]));
    }
    if (joined) return finish_if(n, condition, scopes, values, &captures);
    if (ig_onnx_fork(n, branches)) return IG_NO_VALUE;
    ig_onnx_refuse(n, "its branches give results of different types, and which is taken depends on the input");
}

/* ---- Loops ---- */

struct loop {
    const Onnx__GraphProto *body;
    struct ig_onnx_scope scope;
    struct ig_onnx_captures captures;
    ig_value trip, condition; /* condition: IG_NO_VALUE for true */
    ig_dim trips;             /* IG_DIM_NONE: unknown */
    uint32_t n_carried, n_scanned;
    ig_value *carried; /* initial, in the outer graph */
};

static void begin_loop(struct ig_onnx_node *n, struct loop *loop) {
    ig_onnx_enter(n->import);
    ig_onnx_captures_init(&loop->captures, n->job);
    ig_onnx_scope_init(&loop->scope, n->import, ig_graph_create(n->job, n->dims), n->scope, loop->body);
    loop->scope.captures = &loop->captures;
}

static ig_value body_input(struct loop *loop, const char *name, struct ig_type type) {
    return ig_build_input(loop->scope.graph, name, &type);
}

static const char *input_name(struct ig_onnx_node *n, const struct loop *loop, size_t index) {
    const char *name = loop->body->input[index]->name;
    if (!name || !*name) ig_onnx_bad(n, "input %zu of the body has no name", index);
    return name;
}

/* The body must return a carried value in the type that it received. */
static void check_carried(struct ig_onnx_node *n, const struct loop *loop, uint32_t index, ig_value value) {
    const struct ig_type *in = ig_type_of(n->g, loop->carried[index]), *out = ig_type_of(loop->scope.graph, value);
    if (in->dtype != out->dtype) {
        ig_onnx_bad(n, "carried value %u begins as %s and goes on as %s", index, ingot_dtype_name(in->dtype),
                    ingot_dtype_name(out->dtype));
    }
    if (!can_join(n, in, out))
        ig_onnx_refuse(n, "carried value %u changes its shape from one iteration to the next", index);
}

/* Builds the loop node. The body's outputs must have been added. */
static ig_value end_loop(struct ig_onnx_node *n, struct loop *loop) {
    uint32_t n_in = 2 + loop->n_carried + loop->captures.outer.count, at = 0;
    ig_value *in = IG_NEW_ARRAY(n->job, ig_value, n_in);
    in[at++] = loop->trip;
    in[at++] = loop->condition;
    for (uint32_t i = 0; i < loop->n_carried; i++)
        in[at++] = loop->carried[i];
    for (uint32_t i = 0; i < loop->captures.outer.count; i++)
        in[at++] = loop->captures.outer.at[i];
    struct ig_attr attrs[] = {ig_attr_of_dim(loop->trips), ig_attr_of_int(loop->n_carried)};
    struct ig_graph *bodies[2] = {loop->scope.graph, NULL};
    ig_onnx_leave(n->import);
    return ig_build_node(n->g, IG_OP_loop, in, n_in, loop->n_carried + loop->n_scanned, attrs, bodies);
}

static struct ig_type scalar_type(enum ingot_dtype dtype) {
    return (struct ig_type){.dtype = dtype};
}

/* Is the condition always true: the constant true, or passed on unchanged and true at the start? */
static bool always_true(struct loop *loop, ig_value condition, ig_value condition_in, bool outer_true) {
    double known;
    if (ig_const_scalar(loop->scope.graph, condition, &known)) return known != 0;
    return condition == condition_in && outer_true;
}

static void read_trip(struct ig_onnx_node *n, struct loop *loop) {
    const ig_dim *element;
    int count;
    ig_dim zero = ig_dim_const(n->dims, 0);
    loop->trips = IG_DIM_NONE;
    loop->trip = ig_build_scalar_int(n->g, INGOT_I64, INT64_MAX);
    if (!ig_onnx_has(n, 0)) return;
    loop->trip = ig_build_reshape(n->g, ig_build_cast(n->g, n->in[0], INGOT_I64), NULL, 0);
    if (ig_elements(n->g, n->in[0], &element, &count) && count == 1) loop->trips = ig_dim_max(n->dims, *element, zero);
}

static void read_condition(struct ig_onnx_node *n, struct loop *loop, bool *out_true) {
    double known;
    loop->condition = ig_onnx_optional(n, 1);
    *out_true = loop->condition == IG_NO_VALUE;
    if (*out_true) return;
    if (ig_onnx_type(n, loop->condition) != INGOT_BOOL) ig_onnx_bad(n, "the condition is not bool");
    loop->condition = ig_build_reshape(n->g, loop->condition, NULL, 0);
    if (ig_const_scalar(n->g, loop->condition, &known) && known != 0) {
        loop->condition = IG_NO_VALUE;
        *out_true = true;
    }
}

ig_value ig_import_loop(struct ig_onnx_node *n) {
    struct loop loop = {.body = ig_onnx_graph_attr(n, "body")};
    bool outer_true;
    uint32_t extra = n->n_in > 2 ? n->n_in - 2 : 0;
    loop.n_carried = extra;
    if (loop.body->n_input != 2 + extra)
        ig_onnx_bad(n, "the body has %zu inputs, expected %u", loop.body->n_input, 2 + extra);
    if (loop.body->n_output < 1 + extra) ig_onnx_bad(n, "the body has %zu outputs", loop.body->n_output);
    loop.n_scanned = (uint32_t)(loop.body->n_output - 1) - extra;
    if (n->n_out > loop.n_carried + loop.n_scanned) ig_onnx_bad(n, "it has more outputs than its body");
    read_trip(n, &loop);
    read_condition(n, &loop, &outer_true);
    loop.carried = n->in + (extra ? 2 : 0);
    begin_loop(n, &loop);
    struct ig_onnx_scope *scope = &loop.scope;
    ig_value iteration = body_input(&loop, input_name(n, &loop, 0), scalar_type(INGOT_I64));
    ig_value condition_in = body_input(&loop, input_name(n, &loop, 1), scalar_type(INGOT_BOOL));
    ig_onnx_bind(scope, loop.body->input[0]->name, iteration);
    ig_onnx_bind(scope, loop.body->input[1]->name, condition_in);
    for (uint32_t i = 0; i < extra; i++) {
        const char *name = input_name(n, &loop, 2 + i);
        ig_onnx_bind(scope, name, body_input(&loop, name, *ig_type_of(n->g, ig_onnx_in(n, 2 + i))));
    }
    ig_onnx_import_graph(scope);
    ig_value condition = ig_build_reshape(scope->graph, ig_onnx_graph_output(scope, 0), NULL, 0);
    bool known = always_true(&loop, condition, condition_in, outer_true);
    if (known) condition = ig_build_scalar(scope->graph, INGOT_BOOL, 1);
    ig_build_output(scope->graph, "condition", condition);
    for (uint32_t i = 0; i < loop.n_carried + loop.n_scanned; i++) {
        ig_value value = ig_onnx_graph_output(scope, 1 + i);
        if (i < loop.n_carried) check_carried(n, &loop, i, value);
        ig_build_output(scope->graph, loop.body->output[1 + i]->name, value);
    }
    /* The trip count is the number of iterations only if no condition can end the loop. */
    if (!known || !outer_true) loop.trips = IG_DIM_NONE;
    if (loop.trips == IG_DIM_NONE && loop.n_scanned) {
        ig_onnx_refuse(n, "the number of its iterations, and so the shape of its results, depends on the input");
    }
    ig_value first = end_loop(n, &loop);
    for (uint32_t i = 0; i < n->n_out; i++)
        n->out[i] = first + i;
    return n->n_out ? n->out[0] : IG_NO_VALUE;
}

/* ---- Scan ---- */

struct scan {
    struct loop loop;
    uint32_t n_states, n_inputs, first; /* first: index of the node's first state (opset 8 has lengths before) */
    bool batched;                       /* opset 8: axis 0 of everything is a batch */
    const int64_t *in_directions, *in_axes, *out_directions, *out_axes;
    ig_dim steps;
};

static const int64_t *scan_list(struct ig_onnx_node *n, const char *name, uint32_t count) {
    int there;
    const int64_t *list = ig_onnx_ints(n, name, &there);
    if (list && there != (int)count) ig_onnx_bad(n, "attribute '%s' has %d values, expected %u", name, there, count);
    return list ? list : IG_NEW_ARRAY(n->job, int64_t, count);
}

static void read_scan(struct ig_onnx_node *n, struct scan *s) {
    int64_t inputs = ig_onnx_int(n, "num_scan_inputs", 0);
    s->first = n->opset < 9 ? 1 : 0;
    s->loop.body = ig_onnx_graph_attr(n, "body");
    uint32_t total = n->n_in > s->first ? n->n_in - s->first : 0;
    if (inputs < 1 || inputs > total) ig_onnx_bad(n, "attribute 'num_scan_inputs' is %lld", (long long)inputs);
    s->n_inputs = (uint32_t)inputs;
    s->n_states = total - s->n_inputs;
    if (s->loop.body->n_input != total)
        ig_onnx_bad(n, "the body has %zu inputs, expected %u", s->loop.body->n_input, total);
    if (s->loop.body->n_output < s->n_states) ig_onnx_bad(n, "the body has %zu outputs", s->loop.body->n_output);
    s->loop.n_carried = s->n_states;
    s->loop.n_scanned = (uint32_t)s->loop.body->n_output - s->n_states;
    if (n->n_out > s->loop.body->n_output) ig_onnx_bad(n, "it has more outputs than its body");
    s->in_directions = scan_list(n, n->opset < 9 ? "directions" : "scan_input_directions", s->n_inputs);
    s->in_axes = scan_list(n, "scan_input_axes", s->n_inputs);
    s->out_directions = scan_list(n, "scan_output_directions", s->loop.n_scanned);
    s->out_axes = scan_list(n, "scan_output_axes", s->loop.n_scanned);
}

/* Opset 8 runs the body for every element of a batch; only batches of one are supported. */
static ig_value scan_input(struct ig_onnx_node *n, const struct scan *s, uint32_t index) {
    int axis = 0;
    ig_value value = ig_onnx_in(n, s->first + index);
    if (n->opset >= 9) return value;
    ig_onnx_check_rank(n, value, 1, INGOT_MAX_RANK, "an input");
    if (ig_onnx_static_dim(n, value, 0, "the batch") != 1)
        ig_onnx_refuse(n, "a batch of more than one is not supported");
    return ig_build_squeeze(n->g, value, &axis, 1);
}

/* The slice of a scanned input for one iteration, in the body. */
static ig_value scan_slice(struct ig_onnx_node *n, struct scan *s, uint32_t i, ig_value outer, ig_value iteration) {
    struct ig_graph *body = s->loop.scope.graph;
    int axis = ig_onnx_axis(n, s->in_axes[i], ig_onnx_rank(n, outer));
    if (s->in_directions[i]) outer = ig_onnx_reverse(n, outer, axis);
    return ig_build_gather(body, ig_onnx_capture(&s->loop.scope, outer), iteration, axis);
}

/* Slices are stacked on axis 0 in the order of steps; moves them to the axis and into the direction that ONNX
 * requests. */
static ig_value scan_output(struct ig_onnx_node *n, const struct scan *s, uint32_t i, ig_value value) {
    int rank = ig_onnx_rank(n, value), axis = ig_onnx_axis(n, s->out_axes[i], rank), batch = 0;
    int64_t perm[INGOT_MAX_RANK];
    if (s->out_directions[i]) value = ig_onnx_reverse(n, value, 0);
    for (int j = 0; j < rank; j++)
        perm[j] = j < axis ? j + 1 : j == axis ? 0 : j;
    if (axis != 0) value = ig_build_transpose(n->g, value, perm);
    return n->opset < 9 ? ig_build_unsqueeze(n->g, value, &batch, 1) : value;
}

/* Adds the body's inputs in the loop's order (iteration, condition, states), then takes the slices. */
static void fill_scan_body(struct ig_onnx_node *n, struct scan *s, const ig_value *inputs) {
    struct loop *loop = &s->loop;
    ig_value iteration = body_input(loop, "iteration", scalar_type(INGOT_I64));
    body_input(loop, "condition", scalar_type(INGOT_BOOL));
    for (uint32_t i = 0; i < s->n_states; i++) {
        const char *name = input_name(n, loop, i);
        ig_onnx_bind(&loop->scope, name, body_input(loop, name, *ig_type_of(n->g, loop->carried[i])));
    }
    for (uint32_t i = 0; i < s->n_inputs; i++) {
        ig_onnx_bind(&loop->scope, input_name(n, loop, s->n_states + i), scan_slice(n, s, i, inputs[i], iteration));
    }
    ig_onnx_import_graph(&loop->scope);
    ig_build_output(loop->scope.graph, "condition", ig_build_scalar(loop->scope.graph, INGOT_BOOL, 1));
    for (uint32_t i = 0; i < s->n_states + loop->n_scanned; i++) {
        ig_value value = ig_onnx_graph_output(&loop->scope, i);
        if (i < s->n_states) check_carried(n, loop, i, value);
        ig_build_output(loop->scope.graph, loop->body->output[i]->name, value);
    }
}

ig_value ig_import_scan(struct ig_onnx_node *n) {
    struct scan s = {0};
    int batch = 0;
    if (n->opset < 9 && ig_onnx_has(n, 0)) ig_onnx_refuse(n, "sequence lengths are not supported");
    read_scan(n, &s);
    ig_value *inputs = IG_NEW_ARRAY(n->job, ig_value, s.n_inputs);
    s.loop.carried = IG_NEW_ARRAY(n->job, ig_value, s.n_states + 1);
    for (uint32_t i = 0; i < s.n_states; i++)
        s.loop.carried[i] = scan_input(n, &s, i);
    for (uint32_t i = 0; i < s.n_inputs; i++)
        inputs[i] = scan_input(n, &s, s.n_states + i);
    ig_onnx_check_rank(n, inputs[0], 1, INGOT_MAX_RANK, "a scanned input");
    int axis = ig_onnx_axis(n, s.in_axes[0], ig_onnx_rank(n, inputs[0]));
    s.loop.trips = ig_onnx_dim(n, inputs[0], axis);
    s.loop.trip = ig_build_shape_scalar(n->g, s.loop.trips);
    s.loop.condition = IG_NO_VALUE;
    begin_loop(n, &s.loop);
    fill_scan_body(n, &s, inputs);
    ig_value first = end_loop(n, &s.loop);
    for (uint32_t i = 0; i < n->n_out; i++) {
        n->out[i] = first + i;
        if (i >= s.n_states)
            n->out[i] = scan_output(n, &s, i - s.n_states, n->out[i]);
        else if (n->opset < 9)
            n->out[i] = ig_build_unsqueeze(n->g, n->out[i], &batch, 1);
    }
    return n->n_out ? n->out[0] : IG_NO_VALUE;
}
