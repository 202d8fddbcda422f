/*
 * Scatters on GPUs. A thread owns some neighbouring positions along the axes that are not indexed, and a range of the first that is: it
 * copies the data there, then applies the updates that fall into its range, in order, so that results do not depend on
 * which thread comes first. Where the threads of a block have the same indices, those of whole rows, they resolve them
 * together, each once, and find in shared memory which place a tuple addresses; then they load several updates at once. Of
 * many tuples each warp first lists those that address its range, in order. What is added up stays in shared memory until all
 * updates are applied, since each waits for the one before at its place; what the region computes of the results is computed as
 * they are stored.
 */
#include <string.h>

#include "kernel/family/scatter.h"

enum {
    THREADS = 128,
    ENOUGH_THREADS = 16384,  /* for which ranges are divided */
    SPARING_THREADS = 65536, /* the same, if blocks resolve indices together */
    WARP = 32,               /* threads */
    VECTOR = 4,              /* most positions of a thread */
    STAGE = 1024,            /* tuples that a block resolves at a time */
    AT_ONCE = 8,             /* of these, tuples that a thread looks at at once */
    FEW_PLACES = 8,          /* of a thread's range, whose loads are under way together */
    FEW = 64,                /* tuples that are not worth a list */
    MOST_STAGED = 24 << 10,  /* bytes of a block's range in shared memory */
    MOST_RANGES = 16,        /* into which an axis is divided for that, since every block looks at all tuples */
};

struct scatterer {
    struct ig_scatter_problem *s;
    bool together; /* the threads of a block have the same indices */
    int last;      /* the last of the axes that are not indexed on which indices depend, if `together`; else -1 */
    int vector;    /* positions of a thread along the innermost axis */
    ig_dim blocks; /* for each position along the axes up to `last` that are not indexed */
    ig_dim total;  /* threads of these */
    ig_dim tuples; /* for each of them */
    ig_dim within; /* places along the indexed axes behind the first */
    ig_x tile, thread;
    int staged; /* the buffer that has the block's range: [place][thread][vector]; -1: none */
    /* The thread's position along axes that are not indexed; along the innermost the first of a vector, or in loops over its lanes
     * `lane` positions behind it. */
    ig_x fixed[INGOT_MAX_RANK];
    ig_x first, lane;
    int places;        /* the buffer of places; -1: nowhere */
    bool lists;        /* the tuples in a warp's range are listed: */
    int listed, count; /* buffers of their numbers in the stage, and how many there are: of each warp */
};

static ig_x num(const struct scatterer *c, int64_t i) {
    return ig_x_index(c->s->k, i);
}

static ig_x dim(const struct scatterer *c, ig_dim d) {
    return ig_x_dim(c->s->k, d);
}

static struct ig_stmt *loop(const struct scatterer *c, struct ig_stmt *body, enum ig_for_kind kind, ig_x lo, ig_x hi,
                            ig_x *out_var) {
    return ig_s_for(c->s->k, body, kind, lo, hi, num(c, 1), out_var);
}

/* ---- Choosing ---------------------------------------------------------------------------------------------------- */

static bool contains(const struct ig_loops *k, ig_x x, ig_x what) {
    if (x == what) return true;
    for (int i = 0; i < 3; i++) {
        if (k->x.at[x].args[i] != IG_NO_X && contains(k, k->x.at[x].args[i], what)) return true;
    }
    return false;
}

/* The last axis that is not indexed on which the indices depend; -1: none. */
static int last_dependence(const struct scatterer *c) {
    struct ig_scatter_problem *s = c->s;
    struct ig_loops *k = s->k;
    ig_x at[INGOT_MAX_RANK];
    if (ig_scatter_is_nd(s)) return -1;
    for (int i = 0; i < s->data.rank; i++)
        at[i] = ig_x_free_var(k, s->index.dim[i]);
    ig_x index = ig_lower_value(&s->lower, s->node.in[1], at);
    int i = s->data.rank - 1;
    while (i >= 0 && (ig_scatter_names(s, i) || !contains(k, index, at[i])))
        i--;
    return i;
}

/* Positions along the axes that are not indexed, from axis `from` on and before `to`. */
static ig_dim positions(const struct scatterer *c, int from, int to) {
    struct ig_scatter_problem *s = c->s;
    ig_dim product = ig_dim_const(s->k->dims, 1);
    for (int i = from; i < to; i++) {
        if (!ig_scatter_names(s, i)) product = ig_dim_mul(s->k->dims, product, s->data.dim[i]);
    }
    return product;
}

/* Positions of a thread: as many as one access of updates has, along an innermost axis that is not indexed and that all updates have. */
static int choose_vector(const struct scatterer *c) {
    struct ig_scatter_problem *s = c->s;
    struct ig_dims *dims = s->k->dims;
    const int inner = s->data.rank - 1;
    const int64_t size = (int64_t)ingot_dtype_size(s->data.dtype);
    if (inner < 0 || ig_scatter_names(s, inner) || (size != 2 && size != 4)) return 1;
    if (!ig_scatter_is_nd(s) && s->index.dim[inner] != s->data.dim[inner]) return 1;
    int vector = VECTOR;
    while (vector > 1 && !ig_dim_divides(dims, ig_dim_const(dims, vector), s->data.dim[inner]))
        vector /= 2;
    return vector;
}

static int64_t usual(const struct scatterer *c, ig_dim d) {
    int64_t size;
    return ig_dim_usual(c->s->k->dims, d, &size) && size > 0 ? size : 1;
}

/* Can threads have `vector` positions each, so that there are enough of them, and those of a block have the same indices? Each position
 * along the axes up to `last`, on which indices depend, has blocks of its own, which should be full. */
static bool suits(const struct scatterer *c, int last, int vector) {
    struct ig_scatter_problem *s = c->s;
    const int rank = s->data.rank;
    const int64_t inner = usual(c, positions(c, last + 1, rank)) / vector,
                  all = inner * usual(c, positions(c, 0, last + 1));
    const int64_t size = s->own < 0 ? 1 : usual(c, s->data.dim[s->own]);
    if (vector > 1 && all < ENOUGH_THREADS && all * size < ENOUGH_THREADS) return false;
    if (last < 0) return true;
    if (last == rank - 1 || inner < WARP) return false;
    const int64_t ranges = all < SPARING_THREADS ? (SPARING_THREADS + all - 1) / all : 1;
    return inner * (ranges < size ? ranges : size) >= THREADS;
}

/* Are the results of a block's range collected in shared memory? Its length may be limited for that. Where few places are updated, the
 * others need not be moved (ig_scatter_if_apart); but results that only the region itself reads must stay somewhere. */
static bool is_staged(struct scatterer *c) {
    struct ig_scatter_problem *s = c->s;
    struct ig_dims *dims = s->k->dims;
    int64_t size, within, tuples, lo, hi;
    bool must = s->out < 0;
    if (!must && (!c->together || s->how == IG_SCATTER_SET || s->own < 0)) return false;
    if (!ig_dim_is_const(dims, s->data.dim[s->own], &size) || !ig_dim_is_const(dims, c->within, &within)) {
        IG_ASSERT(s->k->job, !must);
        return false;
    }
    if (!must && ig_dim_is_const(dims, c->tuples, &tuples) && tuples < size * within / 4) return false;
    int64_t most =
        MOST_STAGED / THREADS / c->vector / (int64_t)ingot_dtype_size(s->data.dtype) / (within > 0 ? within : 1);
    ig_dim_range(dims, s->chunk, &lo, &hi);
    if (hi <= most) return true;
    if (!must && (most < 1 || size > MOST_RANGES * most)) return false;
    IG_ASSERT(s->k->job, most >= 1);
    s->chunk = ig_dim_min(dims, s->chunk, ig_dim_const(dims, most));
    return true;
}

static void choose_threads(struct scatterer *c) {
    struct ig_scatter_problem *s = c->s;
    struct ig_dims *dims = s->k->dims;
    const int rank = s->data.rank, last = last_dependence(c);
    ig_dim one = ig_dim_const(dims, 1);
    s->own = -1;
    for (int i = rank - 1; i >= 0; i--) {
        if (ig_scatter_names(s, i)) s->own = i;
    }
    c->vector = choose_vector(c);
    while (c->vector > 1 && !suits(c, last, c->vector))
        c->vector /= 2;
    c->together = suits(c, last, c->vector);
    c->last = c->together ? last : -1;
    c->tuples = ig_scatter_is_nd(s) ? ig_dim_product(dims, s->index.dim, s->index.rank - 1) : one;
    for (int i = 0; i < rank && !ig_scatter_is_nd(s); i++) {
        if (ig_scatter_names(s, i)) c->tuples = s->index.dim[i];
    }
    ig_dim size = s->own < 0 ? one : s->data.dim[s->own], vector = ig_dim_const(dims, c->vector);
    ig_dim outer = positions(c, 0, c->last + 1), inner = ig_dim_div(dims, positions(c, c->last + 1, rank), vector);
    ig_dim enough = ig_dim_const(dims, c->together ? SPARING_THREADS : ENOUGH_THREADS);
    ig_dim ranges = ig_dim_ceil_div(dims, enough, ig_dim_max(dims, ig_dim_mul(dims, outer, inner), one));
    ranges = ig_dim_max(dims, one, ig_dim_min(dims, ranges, size));
    s->chunk = ig_dim_max(dims, one, ig_dim_ceil_div(dims, size, ranges));
    c->within = one;
    for (int i = s->own + 1; s->own >= 0 && i < rank; i++) {
        if (ig_scatter_names(s, i)) c->within = ig_dim_mul(dims, c->within, s->data.dim[i]);
    }
    c->staged = -1;
    if (is_staged(c)) {
        ig_dim places = ig_dim_mul(dims, s->chunk, c->within);
        int64_t lo, most;
        ig_dim_range(dims, places, &lo, &most);
        c->staged = ig_loops_shared(s->k, s->data.dtype, 0, "staged");
        s->kernel->shared_bytes = (int)(most * THREADS * c->vector * (int64_t)ingot_dtype_size(s->data.dtype));
    }
    c->total = ig_dim_mul(dims, inner, ig_dim_ceil_div(dims, size, s->chunk));
    c->blocks = ig_dim_ceil_div(dims, c->total, ig_dim_const(dims, THREADS));
    s->kernel->tiles = ig_dim_mul(dims, outer, c->blocks);
    s->kernel->threads = THREADS;
}

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

/* The position along axes `from` to `to` that are not indexed, of a number that counts these, the last fastest; returns the rest. */
static ig_x split_position(struct scatterer *c, ig_x number, int from, int to) {
    struct ig_scatter_problem *s = c->s;
    struct ig_loops *k = s->k;
    for (int i = to - 1; i >= from; i--) {
        if (ig_scatter_names(s, i)) continue;
        const bool vectors = i == s->data.rank - 1 && c->vector > 1;
        ig_dim size = s->data.dim[i];
        if (vectors) size = ig_dim_div(k->dims, size, ig_dim_const(k->dims, c->vector));
        c->fixed[i] = ig_x_mod(k, number, dim(c, size));
        if (vectors) c->fixed[i] = c->first = ig_x_mul(k, c->fixed[i], num(c, c->vector));
        number = ig_x_div(k, number, dim(c, size));
    }
    return number;
}

/* The number of the block's first thread, among those with its position along the axes up to c->last. */
static ig_x first_number(struct scatterer *c) {
    ig_x outer = c->tile, block = ig_x_split_off(c->s->k, &outer, c->blocks);
    split_position(c, outer, 0, c->last + 1);
    return ig_x_mul(c->s->k, block, num(c, THREADS));
}

/* A thread's number is a range of the first indexed axis and a position along the axes behind c->last, the latter innermost. */
static void split_number(struct scatterer *c, ig_x number) {
    struct ig_scatter_problem *s = c->s;
    struct ig_loops *k = s->k;
    number = split_position(c, number, c->last + 1, s->data.rank);
    s->lo = num(c, 0);
    s->hi = num(c, 1);
    if (s->own < 0) return;
    s->lo = ig_x_mul(k, number, dim(c, s->chunk));
    s->hi = ig_x_min(k, ig_x_add(k, s->lo, dim(c, s->chunk)), dim(c, s->data.dim[s->own]));
}

static struct ig_stmt *thread_loop(struct scatterer *c, struct ig_stmt *body) {
    struct ig_loops *k = c->s->k;
    ig_x first = first_number(c);
    body = loop(c, body, IG_FOR_SIMD, num(c, 0), num(c, THREADS), &c->thread);
    ig_x number = ig_x_add(k, first, c->thread);
    split_number(c, number);
    return ig_s_if(k, body, ig_x_less(k, number, dim(c, c->total)));
}

/* The positions of a thread, side by side. */
static struct ig_stmt *lanes(struct scatterer *c, struct ig_stmt *body) {
    c->lane = num(c, 0);
    if (c->vector == 1) return body;
    body = loop(c, body, IG_FOR_VECTOR, num(c, 0), num(c, c->vector), &c->lane);
    c->fixed[c->s->data.rank - 1] = ig_x_add(c->s->k, c->first, c->lane);
    return body;
}

/* Loops over the places of the thread's range; out_index: in the data. Returns the place. If a few are collected, the loop goes to
 * the full length of a range, so that loads are under way together, and *out_inside says whether there is such a place; else it is IG_NO_X. */
static ig_x each_place(struct scatterer *c, struct ig_stmt **body, ig_x *out_index, ig_x *out_inside) {
    struct ig_scatter_problem *s = c->s;
    struct ig_loops *k = s->k;
    int64_t chunk;
    const bool few = c->staged >= 0 && ig_dim_is_const(k->dims, s->chunk, &chunk) && chunk <= FEW_PLACES;
    ig_x place = num(c, 0);
    *out_inside = IG_NO_X;
    for (int i = 0; i < s->data.rank; i++) {
        if (!ig_scatter_names(s, i)) continue;
        const bool own = i == s->own;
        ig_x at;
        if (own && few) {
            *body = loop(c, *body, IG_FOR_UNROLL, num(c, 0), num(c, chunk), &at);
            at = ig_x_add(k, s->lo, at);
            *out_inside = ig_x_less(k, at, s->hi);
            out_index[i] = ig_x_min(k, at, ig_x_sub(k, s->hi, num(c, 1)));
        } else {
            ig_x to = own ? s->hi : dim(c, s->data.dim[i]);
            *body = loop(c, *body, IG_FOR_SERIAL, own ? s->lo : num(c, 0), to, &at);
            out_index[i] = at;
        }
        place = ig_x_add(k, ig_x_mul(k, place, dim(c, s->data.dim[i])), at);
    }
    *body = lanes(c, *body);
    for (int i = 0; i < s->data.rank; i++) {
        if (!ig_scatter_names(s, i)) out_index[i] = c->fixed[i];
    }
    return place;
}

static ig_x staged_at(struct scatterer *c, ig_x place) {
    struct ig_loops *k = c->s->k;
    ig_x first = ig_x_mul(k, c->s->lo, dim(c, c->within));
    ig_x thread = ig_x_add(k, ig_x_mul(k, ig_x_sub(k, place, first), num(c, THREADS)), c->thread);
    return ig_x_add(k, ig_x_mul(k, thread, num(c, c->vector)), c->lane);
}

static void emit_copy(struct scatterer *c, struct ig_stmt *body) {
    struct ig_scatter_problem *s = c->s;
    ig_x index[INGOT_MAX_RANK];
    bool staged = c->staged >= 0;
    if (!staged) body = ig_scatter_if_apart(s, body);
    ig_x inside, place = each_place(c, &body, index, &inside), value = ig_lower_value(&s->lower, s->node.in[0], index);
    ig_x at = staged ? staged_at(c, place) : ig_lower_linear(&s->lower, &s->data, index);
    ig_s_store(s->k, body, staged ? c->staged : s->out, at, value);
}

/* A value at a place that is known already: the scatter's result. */
struct result {
    ig_value value;
    ig_x x;
};

static ig_x known_result(void *user, ig_value value, const ig_x *index) {
    const struct result *r = user;
    (void)index;
    return value == r->value ? r->x : IG_NO_X;
}

/* Stores what was collected, and what the region makes of it. */
static void emit_results(struct scatterer *c, struct ig_stmt *body) {
    struct ig_scatter_problem *s = c->s;
    ig_x index[INGOT_MAX_RANK], inside, place = each_place(c, &body, index, &inside);
    ig_x at = ig_lower_linear(&s->lower, &s->data, index);
    bool staged = c->staged >= 0;
    struct result r = {s->node.out, ig_x_load(s->k, staged ? c->staged : s->out, staged ? staged_at(c, place) : at)};
    s->lower.known = known_result;
    s->lower.user = &r;
    for (uint32_t i = 0; i < s->region->outputs.count; i++) {
        ig_value v = s->region->outputs.at[i];
        if (v == s->node.out && !staged) continue; /* is there */
        ig_x result = ig_lower_value(&s->lower, v, index);
        ig_s_store(s->k, inside == IG_NO_X ? body : ig_s_if(s->k, body, inside), s->lower.buffer_of[v], at, result);
    }
    s->lower.known = NULL;
}

/* ---- Tuples ------------------------------------------------------------------------------------------------------ */

/* Which place along the indexed axes tuple number `tuple` addresses; *out_inside: there is such a place. */
static ig_x place_of(struct scatterer *c, ig_x tuple, ig_x *out_inside) {
    struct ig_scatter_problem *s = c->s;
    struct ig_loops *k = s->k;
    ig_x at[INGOT_MAX_RANK], place = num(c, 0);
    *out_inside = ig_x_int(k, INGOT_BOOL, 1);
    struct ig_type outer = s->index;
    outer.rank = s->index.rank - 1;
    if (ig_scatter_is_nd(s)) ig_lower_split(&s->lower, &outer, tuple, at);
    for (int i = 0; i < s->data.rank && !ig_scatter_is_nd(s); i++) {
        ig_x last = ig_x_sub(k, dim(c, s->index.dim[i]), num(c, 1));
        at[i] = ig_scatter_names(s, i) ? tuple : ig_x_min(k, c->fixed[i], last);
    }
    for (int axis = 0, i = 0; axis < s->data.rank; axis++) {
        if (!ig_scatter_names(s, axis)) continue;
        if (ig_scatter_is_nd(s)) at[s->index.rank - 1] = num(c, i++);
        ig_x index = ig_scatter_resolve(s, ig_lower_value(&s->lower, s->node.in[1], at), axis, out_inside);
        place = ig_x_add(k, ig_x_mul(k, place, dim(c, s->data.dim[axis])), index);
    }
    return place;
}

/* Is the place in the thread's range? */
static ig_x is_own(struct scatterer *c, ig_x place) {
    struct ig_scatter_problem *s = c->s;
    struct ig_loops *k = s->k;
    ig_x within = dim(c, c->within), before = ig_x_sub(k, ig_x_mul(k, s->lo, within), num(c, 1));
    return ig_x_and(k, ig_x_less(k, before, place), ig_x_less(k, place, ig_x_mul(k, s->hi, within)));
}

/* The element of the updates that belongs to a tuple and to the thread's position. */
static ig_x update_of(struct scatterer *c, ig_x tuple) {
    struct ig_scatter_problem *s = c->s;
    ig_x at[INGOT_MAX_RANK];
    int outer = s->index.rank - 1, depth = ig_scatter_depth(s);
    struct ig_type tuples = s->index;
    tuples.rank = outer;
    if (ig_scatter_is_nd(s)) ig_lower_split(&s->lower, &tuples, tuple, at);
    for (int i = 0; i < s->data.rank; i++) {
        if (ig_scatter_is_nd(s)) {
            if (i >= depth) at[outer + i - depth] = c->fixed[i];
        } else {
            at[i] = ig_scatter_names(s, i) ? tuple : c->fixed[i];
        }
    }
    return ig_lower_value(&s->lower, s->node.in[2], at);
}

/* The position in the result of a place along the indexed axes and the thread's along the others. */
static ig_x target_of(struct scatterer *c, ig_x place) {
    struct ig_scatter_problem *s = c->s;
    ig_x to[INGOT_MAX_RANK];
    if (ig_scatter_is_nd(s)) {
        ig_x at = place;
        for (int i = ig_scatter_depth(s); i < s->data.rank; i++)
            at = ig_x_add(s->k, ig_x_mul(s->k, at, dim(c, s->data.dim[i])), c->fixed[i]);
        return at;
    }
    for (int i = 0; i < s->data.rank; i++)
        to[i] = ig_scatter_names(s, i) ? place : c->fixed[i];
    return ig_lower_linear(&s->lower, &s->data, to);
}

/* Skips threads whose position along the axes that are not indexed is outside the indices and updates. */
static struct ig_stmt *if_updated(struct scatterer *c, struct ig_stmt *body) {
    struct ig_scatter_problem *s = c->s;
    for (int i = 0; i < s->data.rank && !ig_scatter_is_nd(s); i++) {
        if (!ig_scatter_names(s, i) && s->index.dim[i] != s->data.dim[i])
            body = ig_s_if(s->k, body, ig_x_less(s->k, c->fixed[i], dim(c, s->index.dim[i])));
    }
    return body;
}

/* ---- Updates ----------------------------------------------------------------------------------------------------- */

static void apply_update(struct scatterer *c, struct ig_stmt *body, ig_x place, ig_x update) {
    bool staged = c->staged >= 0;
    ig_scatter_apply(c->s, body, staged ? c->staged : c->s->out, staged ? staged_at(c, place) : target_of(c, place),
                     update);
}

/* Applies the updates at `slot` of a buffer, and behind it; in shared memory all of a thread's positions at once. */
static void apply_values(struct scatterer *c, struct ig_stmt *body, ig_x place, int values, ig_x slot) {
    struct ig_loops *k = c->s->k;
    if (c->staged < 0 || c->vector == 1) {
        body = lanes(c, body);
        apply_update(c, body, place, ig_x_load(k, values, ig_x_add(k, slot, c->lane)));
        return;
    }
    int own = ig_loops_local(k, c->s->data.dtype, c->vector, "own");
    struct ig_stmt *each = lanes(c, body);
    ig_s_store(k, each, own, c->lane, ig_x_load(k, c->staged, staged_at(c, place)));
    each = lanes(c, body);
    ig_scatter_apply(c->s, each, own, c->lane, ig_x_load(k, values, ig_x_add(k, slot, c->lane)));
    each = lanes(c, body);
    ig_s_store(k, each, c->staged, staged_at(c, place), ig_x_load(k, own, c->lane));
}

/* Each thread by itself, one tuple after the other. */
static void emit_alone(struct scatterer *c, struct ig_stmt *body) {
    struct ig_loops *k = c->s->k;
    ig_x tuple, inside;
    body = loop(c, if_updated(c, body), IG_FOR_SERIAL, num(c, 0), dim(c, c->tuples), &tuple);
    ig_x place = place_of(c, tuple, &inside);
    body = lanes(c, ig_s_if(k, body, ig_x_and(k, inside, is_own(c, place))));
    apply_update(c, body, place, update_of(c, tuple));
}

/* Sets the range to that of all threads of a warp, whose numbers and so ranges ascend, and the position to the first one's. */
static void take_range_of_warp(struct scatterer *c, ig_x warp) {
    struct ig_loops *k = c->s->k;
    ig_x first = ig_x_add(k, first_number(c), ig_x_mul(k, warp, num(c, WARP))),
         last = ig_x_add(k, first, num(c, WARP - 1));
    split_number(c, ig_x_min(k, last, ig_x_sub(k, dim(c, c->total), num(c, 1))));
    ig_x hi = c->s->hi;
    split_number(c, first);
    c->s->hi = hi;
}

/* The block resolves the tuples from number `first` on. */
static void emit_places(struct scatterer *c, struct ig_stmt *body, ig_x first) {
    struct ig_loops *k = c->s->k;
    ig_x i, inside, last = ig_x_sub(k, dim(c, c->tuples), num(c, 1));
    split_number(c, first_number(c));
    body = loop(c, body, IG_FOR_SIMD, num(c, 0), num(c, STAGE), &i);
    ig_x tuple = ig_x_add(k, first, i), place = place_of(c, ig_x_min(k, tuple, last), &inside);
    inside = ig_x_and(k, inside, ig_x_less(k, tuple, dim(c, c->tuples)));
    place = ig_x_select(k, inside, place, num(c, -1));
    ig_s_store(k, body, c->places, i, ig_x_cast(k, place, k->buffers.at[c->places].dtype, false));
}

/* Each warp lists the tuples in its range, of the `left` that there are. */
static void emit_list(struct scatterer *c, struct ig_stmt *body, ig_x left) {
    struct ig_loops *k = c->s->k;
    ig_x warp, within = dim(c, c->within);
    body = loop(c, body, IG_FOR_TEAM, num(c, 0), num(c, THREADS / WARP), &warp);
    body->lanes = WARP;
    take_range_of_warp(c, warp);
    const struct ig_call_arg args[] = {{c->listed, ig_x_mul(k, warp, num(c, STAGE))},
                                       {c->count, warp},
                                       {c->places, num(c, 0)},
                                       {-1, left},
                                       {-1, ig_x_mul(k, c->s->lo, within)},
                                       {-1, ig_x_mul(k, c->s->hi, within)}};
    ig_s_call(k, body, "ig_list_range", args, sizeof args / sizeof *args);
}

/* Loads which tuples a thread looks at, if they are listed (else out_slots is -1), and their places, -1 beyond the last one. */
static void emit_places_of(struct scatterer *c, struct ig_stmt *body, ig_x from, ig_x count, int *out_slots,
                           int *out_spots) {
    struct ig_loops *k = c->s->k;
    const enum ingot_dtype dtype = k->buffers.at[c->places].dtype;
    ig_x i, list = ig_x_mul(k, ig_x_div(k, c->thread, num(c, WARP)), num(c, STAGE));
    *out_slots = c->lists ? ig_loops_local(k, INGOT_I32, AT_ONCE, "slots") : -1;
    *out_spots = ig_loops_local(k, dtype, AT_ONCE, "spots");
    if (c->lists) {
        struct ig_stmt *each = loop(c, body, IG_FOR_UNROLL, num(c, 0), num(c, AT_ONCE), &i);
        ig_x at = ig_x_add(k, from, i);
        ig_x slot = ig_x_cast(k, ig_x_load(k, c->listed, ig_x_add(k, list, at)), INGOT_I64, false);
        slot = ig_x_select(k, ig_x_less(k, at, count), slot, num(c, 0));
        ig_s_store(k, each, *out_slots, i, ig_x_cast(k, slot, INGOT_I32, false));
    }
    struct ig_stmt *each = loop(c, body, IG_FOR_UNROLL, num(c, 0), num(c, AT_ONCE), &i);
    ig_x at = ig_x_add(k, from, i), exists = ig_x_less(k, at, count);
    if (c->lists) at = ig_x_cast(k, ig_x_load(k, *out_slots, i), INGOT_I64, false);
    ig_x place = ig_x_load(k, c->places, at);
    if (c->lists) place = ig_x_select(k, exists, place, ig_x_int(k, dtype, -1));
    ig_s_store(k, each, *out_spots, i, place);
}

/* A thread looks at AT_ONCE of them: it loads where they are, then the updates that it wants, then it applies them, so that the
 * loads of each kind are under way together. */
static void emit_some(struct scatterer *c, struct ig_stmt *body, ig_x first, ig_x from, ig_x count) {
    struct ig_loops *k = c->s->k;
    ig_x i;
    int values = -1, slots, spots;
    emit_places_of(c, body, from, count, &slots, &spots);
    for (int apply = 0; apply < 2; apply++) {
        struct ig_stmt *each = loop(c, body, IG_FOR_UNROLL, num(c, 0), num(c, AT_ONCE), &i);
        ig_x at = c->lists ? ig_x_cast(k, ig_x_load(k, slots, i), INGOT_I64, false) : ig_x_add(k, from, i);
        ig_x place = ig_x_cast(k, ig_x_load(k, spots, i), INGOT_I64, false);
        each = ig_s_if(k, each, is_own(c, place));
        ig_x slot = ig_x_mul(k, i, num(c, c->vector));
        if (apply) {
            apply_values(c, each, place, values, slot);
            continue;
        }
        each = lanes(c, each);
        ig_x update = update_of(c, ig_x_add(k, first, at));
        values = ig_loops_local(k, ig_x_look(k, update)->dtype, AT_ONCE * c->vector, "values");
        ig_s_store(k, each, values, ig_x_add(k, slot, c->lane), update);
    }
}

static void emit_together(struct scatterer *c, struct ig_stmt *body) {
    struct ig_scatter_problem *s = c->s;
    struct ig_loops *k = s->k;
    int64_t lo, hi;
    ig_dim places = ig_dim_const(k->dims, 1);
    for (int i = 0; i < s->data.rank; i++) {
        if (ig_scatter_names(s, i)) places = ig_dim_mul(k->dims, places, s->data.dim[i]);
    }
    ig_dim_range(k->dims, places, &lo, &hi);
    const enum ingot_dtype dtype = hi <= INT32_MAX ? INGOT_I32 : INGOT_I64;
    int64_t tuples;
    c->lists = dtype == INGOT_I32 && (!ig_dim_usual(k->dims, c->tuples, &tuples) || tuples > FEW);
    c->places = ig_loops_local(k, dtype, STAGE, "places");
    if (c->lists) {
        c->listed = ig_loops_local(k, INGOT_U16, THREADS / WARP * STAGE, "listed");
        c->count = ig_loops_local(k, INGOT_I32, THREADS / WARP, "count");
    }
    ig_x first, from;
    body = ig_s_for(k, body, IG_FOR_SERIAL, num(c, 0), dim(c, c->tuples), num(c, STAGE), &first);
    emit_places(c, body, first);
    ig_x left = ig_x_min(k, ig_x_sub(k, dim(c, c->tuples), first), num(c, STAGE));
    if (c->lists) emit_list(c, body, left);
    struct ig_stmt *own = if_updated(c, thread_loop(c, body));
    if (c->lists) left = ig_x_cast(k, ig_x_load(k, c->count, ig_x_div(k, c->thread, num(c, WARP))), INGOT_I64, false);
    own = ig_s_for(k, own, IG_FOR_SERIAL, num(c, 0), left, num(c, AT_ONCE), &from);
    emit_some(c, own, first, from, left);
}

void ig_scatter_emit_cuda(struct ig_scatter_problem *s) {
    struct scatterer c = {.s = s};
    struct ig_loops *k = s->k;
    for (int i = 0; i < INGOT_MAX_RANK; i++)
        c.fixed[i] = num(&c, 0);
    c.first = c.lane = num(&c, 0);
    choose_threads(&c);
    struct ig_stmt *body = ig_s_for(k, NULL, IG_FOR_TILE, num(&c, 0), dim(&c, s->kernel->tiles), num(&c, 1), &c.tile);
    struct ig_stmt *own = thread_loop(&c, body);
    emit_copy(&c, own);
    if (c.together) {
        emit_together(&c, body);
    } else {
        emit_alone(&c, own);
    }
    if (c.staged >= 0 || s->region->outputs.count > 1) emit_results(&c, thread_loop(&c, body));
}
