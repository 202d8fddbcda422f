/* Branches, loops and scans in random networks, two deep at most; see random_network.h. */
#include "support/random/random_steps.h"

enum { MAX_DEPTH = 2, MAX_CAPTURES = 2, BODY_TRIES = 3 };

static ig_value integer(struct random_maker *m, int64_t x) {
    return ig_build_scalar_int(m->g, INGOT_I64, x);
}

static bool is_same(const struct ig_type *a, const struct ig_type *b) {
    bool same = a->rank == b->rank && a->dtype == b->dtype;
    for (int i = 0; same && i < a->rank; i++)
        same = a->dim[i] == b->dim[i];
    return same;
}

/* ---- Bodies -------------------------------------------------------------------------------------------------------------- */

static struct random_maker enter(struct random_maker *m) {
    struct random_maker inner = *m;
    inner.g = ig_graph_create(m->job, m->g->dims);
    inner.pool.at = NULL;
    inner.pool.count = inner.pool.capacity = 0;
    inner.depth++;
    return inner;
}

/* What went on inside goes on outside. */
static void leave(struct random_maker *m, const struct random_maker *inner) {
    m->state = inner->state;
    m->exact = m->exact && inner->exact;
    m->initializers = inner->initializers;
}

static ig_value body_input(struct random_maker *inner, const char *name, const struct ig_type *type) {
    ig_value v = ig_build_input(inner->g, name, type);
    if (type->dtype == INGOT_F32) IG_PUSH(inner->job, &inner->pool, v);
    return v;
}

/* Some of the values so far. */
static int choose_captures(struct random_maker *m, ig_value *out) {
    int count = (int)random_pick(m, MAX_CAPTURES + 1);
    for (int i = 0; i < count; i++)
        out[i] = m->pool.at[random_pick(m, m->pool.count)];
    return count;
}

static void take_captures(struct random_maker *m, struct random_maker *inner, const ig_value *captures, int count) {
    for (int i = 0; i < count; i++)
        body_input(inner, ig_format(m->job, "capture%d", i), ig_type_of(m->g, captures[i]));
}

/* A few steps on x that give a value of its type; now and then none. */
static ig_value body_of(struct random_maker *inner, ig_value x) {
    struct ig_type type = type_of(inner, x);
    ig_value result = x;
    if (random_pick(inner, 8) == 0) return x;
    for (int tries = 0; tries < BODY_TRIES; tries++) {
        ig_value y = random_body_step(inner, result);
        struct ig_type t = type_of(inner, y);
        if (random_elements(inner, &t) <= inner->max_elements / 4) IG_PUSH(inner->job, &inner->pool, y);
        if (is_same(&type, &t)) result = y;
        if (result != x && random_pick(inner, 3) == 0) break;
    }
    return random_clamp(inner, result);
}

/* ---- Conditions, counts -------------------------------------------------------------------------------------------------- */

/* The sum of all elements, i64[]. */
static ig_value total(struct random_maker *m, ig_value x) {
    int64_t axes[RANDOM_MAX_RANK] = {0, 1, 2, 3, 4, 5};
    int rank = ig_type_of(m->g, x)->rank;
    ig_value sum = ig_build_cast(m->g, x, INGOT_I64);
    if (rank) sum = ig_build_reduce(m->g, IG_OP_reduce_sum, sum, axes, rank);
    return ig_build_reshape(m->g, sum, NULL, 0);
}

/* One of x that is no number, if there is any. */
static ig_dim any_size(struct random_maker *m, ig_value x) {
    struct ig_type t = type_of(m, x);
    int64_t size;
    if (t.rank == 0) return random_dim(m, 1 + random_pick(m, 4));
    int at = (int)random_pick(m, t.rank);
    for (int i = 0; i < t.rank && ig_dim_is_const(m->g->dims, t.dim[at], &size); i++)
        at = (at + 1) % t.rank;
    return t.dim[at];
}

/* Of the data, where they are exact, or of a size. */
static ig_value condition(struct random_maker *m, ig_value x) {
    if (m->exact && random_pick(m, 3)) return ig_map2(m->g, IG_OP_lt, total(m, x), integer(m, random_pick(m, 9) - 4));
    ig_value size = ig_build_shape_scalar(m->g, any_size(m, x));
    return ig_map2(m->g, IG_OP_lt, size, integer(m, 1 + random_pick(m, random_pick(m, 2) ? 5 : 40)));
}

/* The larger of y and all of z: a result that needs both. */
static ig_value both(struct random_maker *m, ig_value y, ig_value z) {
    int64_t axes[RANDOM_MAX_RANK + 1] = {0, 1, 2, 3, 4, 5, 6};
    int rank = ig_type_of(m->g, z)->rank;
    if (rank) z = ig_build_reduce(m->g, IG_OP_reduce_max, z, axes, rank);
    z = ig_build_reshape(m->g, z, NULL, 0);
    return ig_map2(m->g, IG_OP_max, y, ig_map2(m->g, IG_OP_sub, z, ig_build_scalar(m->g, INGOT_F32, 8)));
}

/* ---- Steps --------------------------------------------------------------------------------------------------------------- */

static ig_value step_branch(struct random_maker *m, ig_value x) {
    struct ig_graph *bodies[2];
    ig_value in[2 + MAX_CAPTURES];
    if (m->depth >= MAX_DEPTH) return x;
    in[0] = condition(m, x);
    in[1] = x;
    int captures = choose_captures(m, in + 2), results = 1 + (captures > 0 && random_pick(m, 2));
    for (int i = 0; i < 2; i++) {
        struct random_maker inner = enter(m);
        ig_value own = body_input(&inner, "x", ig_type_of(m->g, x));
        take_captures(m, &inner, in + 2, captures);
        ig_value other = captures ? inner.pool.at[1] : own;
        ig_build_output(inner.g, "y", body_of(&inner, own));
        if (results > 1) ig_build_output(inner.g, "z", body_of(&inner, other));
        bodies[i] = inner.g;
        leave(m, &inner);
    }
    ig_value y = ig_build_node(m->g, IG_OP_if, in, (uint32_t)(2 + captures), (uint32_t)results, NULL, bodies);
    return results == 1 || random_pick(m, 3) == 0 ? y + results - 1 : both(m, y, y + 1);
}

/* None to four times, as often as a size or the data say, or until a condition ends it. */
struct counting {
    bool ends, starts; /* the body, or the condition at the start, may end it */
    int64_t most;
    ig_dim known;
    ig_value trip;
};

static struct counting choose_count(struct random_maker *m, ig_value x) {
    struct counting c = {.most = random_pick(m, 5), .known = IG_DIM_NONE};
    switch (random_pick(m, m->exact ? 4 : 2)) {
    case 0: c.known = random_dim(m, c.most); break;
    case 1: c.known = ig_dim_min(m->g->dims, any_size(m, x), random_dim(m, c.most)); break;
    case 2: c.trip = ig_map2(m->g, IG_OP_mod, total(m, x), integer(m, c.most + 1)); break;
    default: c.trip = integer(m, random_pick(m, 2) ? INT64_MAX : c.most); break;
    }
    if (c.known != IG_DIM_NONE) c.trip = ig_build_shape_scalar(m->g, c.known);
    c.ends = c.known == IG_DIM_NONE;
    c.starts = c.ends && random_pick(m, 2);
    return c;
}

/* Goes on while there are fewer iterations and, now and then, while the sum is small. */
static ig_value going_on(struct random_maker *m, ig_value iteration, ig_value y, int64_t most) {
    ig_value next = ig_map2(m->g, IG_OP_lt, iteration, integer(m, most));
    if (random_pick(m, 2)) return next;
    return ig_map2(m->g, IG_OP_and, next, ig_map2(m->g, IG_OP_lt, total(m, y), integer(m, 5)));
}

/* Carries x, perhaps a second value that changes places with it, and perhaps a counter; its slices may be kept. */
static ig_value step_loop(struct random_maker *m, ig_value x) {
    struct ig_type type = type_of(m, x), count = {.dtype = INGOT_I64}, flag = {.dtype = INGOT_BOOL};
    if (m->depth >= MAX_DEPTH || type.rank >= RANDOM_MAX_RANK) return x;
    struct counting c = choose_count(m, x);
    bool swaps = random_pick(m, 3) == 0, counts = random_pick(m, 3) == 0;
    bool scanned = c.known != IG_DIM_NONE && random_pick(m, 2);
    ig_value in[5 + MAX_CAPTURES] = {c.trip, c.starts ? condition(m, x) : IG_NO_VALUE, x};
    uint32_t carried = 1;
    if (swaps) in[2 + carried++] = ig_map1(m->g, IG_OP_neg, x);
    if (counts) in[2 + carried++] = integer(m, 3);
    int captures = choose_captures(m, in + 2 + carried);

    struct random_maker inner = enter(m);
    ig_value iteration = ig_build_input(inner.g, "i", &count), going = ig_build_input(inner.g, "going", &flag);
    ig_value own = body_input(&inner, "x", &type), other = swaps ? body_input(&inner, "y", &type) : own;
    ig_value counter = counts ? ig_build_input(inner.g, "n", &count) : iteration;
    take_captures(m, &inner, in + 2 + carried, captures);
    ig_value y = body_of(&inner, own), number = ig_build_cast(inner.g, counter, INGOT_F32);
    if (counts) y = random_clamp(&inner, ig_map2(inner.g, IG_OP_add, y, number));
    if (c.ends) going = going_on(&inner, iteration, y, c.most);
    ig_build_output(inner.g, "going", going);
    ig_build_output(inner.g, "x", swaps ? other : y);
    if (swaps) ig_build_output(inner.g, "y", y);
    if (counts) ig_build_output(inner.g, "n", ig_map2(inner.g, IG_OP_sub, counter, integer(&inner, 1)));
    ig_value slices[] = {y, own, inner.pool.at[inner.pool.count - 1], number};
    ig_value kept = slices[random_pick(&inner, 4)];
    if (ig_type_of(inner.g, kept)->rank >= RANDOM_MAX_RANK) kept = number;
    if (scanned) ig_build_output(inner.g, "all", random_clamp(&inner, kept));
    leave(m, &inner);

    struct ig_attr attrs[] = {ig_attr_of_dim(c.known), ig_attr_of_int(carried)};
    struct ig_graph *const bodies[2] = {inner.g, NULL};
    ig_value r =
        ig_build_node(m->g, IG_OP_loop, in, 2 + carried + (uint32_t)captures, carried + scanned, attrs, bodies);
    if (swaps && random_pick(m, 2)) r = random_pick(m, 2) ? r + 1 : both(m, r, r + 1);
    if (!scanned || swaps) return r;
    return random_pick(m, 2) ? r + carried : both(m, r, r + carried);
}

/* Over the slices of x along an axis, forwards or backwards; a state goes along. */
static ig_value step_slices(struct random_maker *m, ig_value x) {
    struct ig_type type = type_of(m, x), count = {.dtype = INGOT_I64}, flag = {.dtype = INGOT_BOOL}, slice = type;
    struct ig_dims *dims = m->g->dims;
    if (m->depth >= MAX_DEPTH || type.rank < 2) return x;
    int axis = (int)random_pick(m, type.rank);
    if (random_size(m, type.dim[axis]) > 40) return x;
    slice.rank--;
    for (int i = axis; i < slice.rank; i++)
        slice.dim[i] = type.dim[i + 1];
    ig_value seen = x;
    if (random_pick(m, 2))
        seen =
            ig_build_slice_axis(m->g, x, axis, ig_dim_sub(dims, type.dim[axis], random_dim(m, 1)), type.dim[axis], -1);
    ig_value zero = ig_build_broadcast(m->g, ig_build_scalar(m->g, INGOT_F32, 0), slice.dim, slice.rank);
    ig_value in[3 + 1 + MAX_CAPTURES] = {ig_build_shape_scalar(m->g, type.dim[axis]), IG_NO_VALUE, zero, seen};
    int captures = choose_captures(m, in + 4);

    struct random_maker inner = enter(m);
    ig_value iteration = ig_build_input(inner.g, "i", &count);
    ig_build_input(inner.g, "going", &flag);
    ig_value state = body_input(&inner, "state", &slice), whole = ig_build_input(inner.g, "x", &type);
    take_captures(m, &inner, in + 4, captures);
    ig_value y = ig_build_gather(inner.g, whole, iteration, axis);
    if (random_pick(&inner, 2)) y = body_of(&inner, y);
    ig_value sum = ig_map2(inner.g, IG_OP_add, state, y);
    if (!inner.exact) sum = ig_map2(inner.g, IG_OP_mul, sum, ig_build_scalar(inner.g, INGOT_F32, 0.5));
    sum = random_clamp(&inner, sum);
    ig_build_output(inner.g, "going", ig_build_scalar(inner.g, INGOT_BOOL, 1));
    ig_build_output(inner.g, "state", sum);
    ig_build_output(inner.g, "all", random_pick(&inner, 3) ? sum : y);
    leave(m, &inner);

    struct ig_attr attrs[] = {ig_attr_of_dim(type.dim[axis]), ig_attr_of_int(1)};
    struct ig_graph *const bodies[2] = {inner.g, NULL};
    ig_value r = ig_build_node(m->g, IG_OP_loop, in, 4 + (uint32_t)captures, 2, attrs, bodies);
    int64_t perm[RANDOM_MAX_RANK];
    for (int i = 0; i < type.rank; i++)
        perm[i] = i < axis ? i + 1 : i == axis ? 0 : i;
    switch (random_pick(m, 3)) {
    case 0: return r;
    case 1: return r + 1;
    default: return ig_build_transpose(m->g, r + 1, perm);
    }
}

const random_step random_control_steps[] = {step_branch, step_branch, step_loop, step_loop, step_slices};
const int random_control_step_count = sizeof random_control_steps / sizeof *random_control_steps;
