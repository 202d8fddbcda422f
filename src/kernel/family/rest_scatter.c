/*
 * Scatters: the data, with updates applied at the indexed places, in the order of the updates.
 *
 * A tile owns a range of the result along one axis: it copies the data there, then applies the updates that fall into
 * its range, in order. So no synchronisation is needed, and the result does not depend on the number of threads. Along
 * an indexed axis every tile scans all indices; along any other axis it walks only its own range.
 *
 * An update belongs to an index tuple, which addresses `depth` axes of the data. scatter_nd: one tuple per slice of the
 * updates. scatter_elements: one axis, and one tuple per element of the updates.
 *
 * On GPUs every thread is a tile: one position along the axes that are not indexed, and a range of the first that is. It
 * loads several indices at once, so as not to wait for each.
 */
#include <string.h>

#include "kernel/family/rest.h"
#include "kernel/lower.h"

enum {
    TILE_ELEMENTS = 16384,
    MOST_TILES = 64,
    INDEX_COST = 8,
    THREADS = 128,
    ENOUGH_THREADS = 16384,  /* threads for which ranges are divided */
    SPARING_THREADS = 65536, /* the same, if threads side by side read the same indices */
    AT_ONCE = 16,            /* tuples of indices that a thread loads at once */
    MOST_AT_ONCE = 32,       /* indices, in registers */
};

struct scatter {
    struct ig_graph *graph;
    const struct ig_region *region;
    struct ig_kernel *kernel;
    struct ig_loops *k;
    struct ig_lower lower;
    struct ig_node node;
    enum ig_scatter how;
    struct ig_type data, index, updates;
    int out;
    int own;                    /* the axis divided into ranges, one per tile; -1: none */
    ig_dim chunk;               /* length of a range */
    ig_x lo, hi;                /* the tile's range along the axis */
    ig_x fixed[INGOT_MAX_RANK]; /* GPUs: the thread's position along axes that are not indexed; IG_NO_X: any */
    /* GPUs: tuples that are loaded at once (1: one), buffers for their indices and updates, and the one at hand. */
    int at_once, indices, values;
    ig_x slot;
    enum { ONE, FETCH, APPLY } phase; /* of those: updates are loaded; applied. ONE: the only tuple's */
};

static ig_x num(struct scatter *s, int64_t i) {
    return ig_x_index(s->k, i);
}

static ig_x dim(struct scatter *s, ig_dim d) {
    return ig_x_dim(s->k, d);
}

static struct ig_stmt *loop(struct scatter *s, struct ig_stmt *body, enum ig_for_kind kind, ig_x lo, ig_x hi,
                            ig_x *out_var) {
    return ig_s_for(s->k, body, kind, lo, hi, num(s, 1), out_var);
}

static ig_dim volume(struct scatter *s, const struct ig_type *type, int from, int to) {
    return ig_dim_product(s->k->dims, type->dim + from, to - from);
}

static bool is_nd(const struct scatter *s) {
    return s->node.op == IG_OP_scatter_nd;
}

/* The number of axes that a tuple of scatter_nd addresses. */
static int depth_of(const struct scatter *s) {
    return s->data.rank - (s->updates.rank - (s->index.rank - 1));
}

/* Do the indices address this axis? */
static bool is_named(const struct scatter *s, int axis) {
    if (is_nd(s)) return axis < depth_of(s);
    return axis == ig_attr_int(s->graph, &s->node, IG_ATTR_axis);
}

/* ---- Tiles ------------------------------------------------------------------------------------------------------- */

static void choose_tiles(struct scatter *s) {
    struct ig_dims *dims = s->k->dims;
    ig_dim one = ig_dim_const(dims, 1);
    s->own = 0;
    while (s->own < s->data.rank && s->data.dim[s->own] == one)
        s->own++;
    s->own = s->own < s->data.rank ? s->own : s->data.rank - 1;
    if (s->own < 0) {
        s->kernel->tiles = one;
        return;
    }
    ig_dim size = s->data.dim[s->own], enough = ig_dim_const(dims, TILE_ELEMENTS);
    if (is_named(s, s->own)) {
        ig_dim tuples = volume(s, &s->index, 0, s->index.rank - is_nd(s));
        enough = ig_dim_add(dims, enough, ig_dim_mul(dims, tuples, ig_dim_const(dims, INDEX_COST)));
    }
    ig_dim tiles = ig_dim_ceil_div(dims, ig_type_elements(dims, &s->data), enough);
    tiles = ig_dim_max(dims, one, ig_dim_min(dims, tiles, ig_dim_const(dims, MOST_TILES)));
    s->chunk = ig_dim_max(dims, one, ig_dim_ceil_div(dims, size, tiles));
    s->kernel->tiles = ig_dim_ceil_div(dims, size, s->chunk);
}

static void split_range(struct scatter *s, ig_x tile) {
    s->lo = num(s, 0);
    s->hi = num(s, 1);
    if (s->own < 0) return;
    s->lo = ig_x_mul(s->k, tile, dim(s, s->chunk));
    s->hi = ig_x_min(s->k, ig_x_add(s->k, s->lo, dim(s, s->chunk)), dim(s, s->data.dim[s->own]));
}

/* A loop along an axis of the indices or updates that corresponds to `axis` of the data; restricted to the tile's range
 * if that axis is divided among tiles. */
static struct ig_stmt *axis_loop(struct scatter *s, struct ig_stmt *body, enum ig_for_kind kind, ig_dim size, int axis,
                                 ig_x *out_var) {
    if (axis >= 0 && s->fixed[axis] != IG_NO_X) {
        ig_x inside = ig_x_less(s->k, s->fixed[axis], dim(s, size));
        *out_var = s->fixed[axis];
        return s->k->x.at[inside].kind == IG_X_INT && s->k->x.at[inside].i ? body : ig_s_if(s->k, body, inside);
    }
    if (axis != s->own) return loop(s, body, kind, num(s, 0), dim(s, size), out_var);
    return loop(s, body, kind, s->lo, ig_x_min(s->k, s->hi, dim(s, size)), out_var);
}

/* ---- Copying ----------------------------------------------------------------------------------------------------- */

static void emit_copy(struct scatter *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    ig_x outer, at, index[INGOT_MAX_RANK];
    int axis = s->own < 0 ? 0 : s->own, after = s->own < 0 ? 0 : s->own + 1;
    ig_x inner = dim(s, volume(s, &s->data, after, s->data.rank));
    ig_x row = dim(s, volume(s, &s->data, axis, s->data.rank));
    body = loop(s, body, IG_FOR_SERIAL, num(s, 0), dim(s, volume(s, &s->data, 0, axis)), &outer);
    body = loop(s, body, IG_FOR_SIMD, ig_x_mul(k, s->lo, inner), ig_x_mul(k, s->hi, inner), &at);
    at = ig_x_add(k, ig_x_mul(k, outer, row), at);
    int buffer = s->lower.buffer_of[s->node.in[0]];
    for (int i = 0; i < s->data.rank; i++)
        index[i] = num(s, 0);
    bool literal = ig_is_literal(s->graph, s->node.in[0]);
    ig_s_store(k, body, s->out, at,
               literal ? ig_lower_value(&s->lower, s->node.in[0], index) : ig_x_load(k, buffer, at));
}

/* ---- Updates ----------------------------------------------------------------------------------------------------- */

/* Counts a negative index from the end, and clamps it; *inout_inside becomes false if it is outside the axis or the
 * tile's range. */
static ig_x resolve(struct scatter *s, ig_x index, int axis, ig_x *inout_inside) {
    struct ig_loops *k = s->k;
    ig_x size = dim(s, s->data.dim[axis]), zero = num(s, 0), minus_one = num(s, -1);
    index = ig_x_cast(k, index, INGOT_I64, false);
    index = ig_x_select(k, ig_x_less(k, index, zero), ig_x_add(k, index, size), index);
    *inout_inside = ig_x_and(k, *inout_inside, ig_x_less(k, minus_one, index));
    *inout_inside = ig_x_and(k, *inout_inside, ig_x_less(k, index, size));
    if (axis == s->own) {
        ig_x below = ig_x_less(k, ig_x_sub(k, s->lo, num(s, 1)), index);
        *inout_inside = ig_x_and(k, *inout_inside, ig_x_and(k, below, ig_x_less(k, index, s->hi)));
    }
    return ig_x_max(k, ig_x_min(k, index, ig_x_sub(k, size, num(s, 1))), zero);
}

static void apply(struct scatter *s, struct ig_stmt *body, ig_x at, ig_x value) {
    static const enum ig_op ops[] = {
        [IG_SCATTER_ADD] = IG_OP_add,
        [IG_SCATTER_MUL] = IG_OP_mul,
        [IG_SCATTER_MAX] = IG_OP_max,
        [IG_SCATTER_MIN] = IG_OP_min,
    };
    if (s->phase == FETCH) {
        s->values = ig_loops_local(s->k, ig_x_look(s->k, value)->dtype, s->at_once, "values");
        ig_s_store(s->k, body, s->values, s->slot, value);
        return;
    }
    if (s->phase == APPLY) value = ig_x_load(s->k, s->values, s->slot);
    if (s->how != IG_SCATTER_SET) value = ig_x_map2(s->k, ops[s->how], ig_x_load(s->k, s->out, at), value);
    ig_s_store(s->k, body, s->out, at, value);
}

/* Number i of the tuple at position `at`. */
static ig_x index_at(struct scatter *s, const ig_x *at, int i) {
    ig_x place[INGOT_MAX_RANK];
    if (s->phase != ONE)
        return ig_x_load(s->k, s->indices, ig_x_add(s->k, ig_x_mul(s->k, num(s, i), num(s, s->at_once)), s->slot));
    memcpy(place, at, (size_t)s->index.rank * sizeof *place);
    if (is_nd(s)) place[s->index.rank - 1] = num(s, i);
    return ig_lower_value(&s->lower, s->node.in[1], place);
}

/* Updates the slice of the data that a tuple addresses, restricted to the tile's range if an axis of the slice is
 * divided among tiles. */
static void emit_slice(struct scatter *s, struct ig_stmt *body, const ig_x *tuple, const ig_x *to, int depth) {
    struct ig_loops *k = s->k;
    struct ig_type named = s->data;
    named.rank = depth;
    ig_x base = ig_x_mul(k, ig_lower_linear(&s->lower, &named, to), dim(s, volume(s, &s->data, depth, s->data.rank)));
    ig_x index[INGOT_MAX_RANK], at = num(s, 0);
    int outer = s->index.rank - 1, axes = s->data.rank - depth;
    memcpy(index, tuple, (size_t)outer * sizeof *index);
    for (int i = 0; i < axes; i++) {
        enum ig_for_kind kind = i == axes - 1 ? IG_FOR_SIMD : IG_FOR_SERIAL;
        body = axis_loop(s, body, kind, s->data.dim[depth + i], depth + i, &index[outer + i]);
        at = ig_x_add(k, ig_x_mul(k, at, dim(s, s->data.dim[depth + i])), index[outer + i]);
    }
    apply(s, body, ig_x_add(k, base, at), ig_lower_value(&s->lower, s->node.in[2], index));
}

/* The updates of the tuple at position `at`. */
static void emit_tuple(struct scatter *s, struct ig_stmt *body, const ig_x *at) {
    struct ig_loops *k = s->k;
    ig_x to[INGOT_MAX_RANK], inside = ig_x_int(k, INGOT_BOOL, 1);
    if (is_nd(s)) {
        int depth = depth_of(s);
        for (int i = 0; i < depth; i++)
            to[i] = resolve(s, index_at(s, at, i), i, &inside);
        emit_slice(s, depth > 0 ? ig_s_if(k, body, inside) : body, at, to, depth);
        return;
    }
    int axis = (int)ig_attr_int(s->graph, &s->node, IG_ATTR_axis);
    memcpy(to, at, (size_t)s->data.rank * sizeof *to);
    to[axis] = resolve(s, index_at(s, at, 0), axis, &inside);
    body = ig_s_if(k, body, inside);
    apply(s, body, ig_lower_linear(&s->lower, &s->data, to), ig_lower_value(&s->lower, s->node.in[2], at));
}

/* The updates of all tuples along at[axis]. Several at once: loads their indices, then the updates that are wanted, and
 * applies these. */
static void emit_tuples(struct scatter *s, struct ig_stmt *body, ig_dim size, ig_x *at, int axis) {
    struct ig_loops *k = s->k;
    if (s->at_once == 1) {
        emit_tuple(s, loop(s, body, IG_FOR_SERIAL, num(s, 0), dim(s, size), &at[axis]), at);
        return;
    }
    ig_x first, ahead, last = ig_x_sub(k, dim(s, size), num(s, 1));
    body = ig_s_for(k, body, IG_FOR_SERIAL, num(s, 0), dim(s, size), num(s, s->at_once), &first);
    struct ig_stmt *loads = loop(s, body, IG_FOR_UNROLL, num(s, 0), num(s, s->at_once), &ahead);
    at[axis] = ig_x_min(k, ig_x_add(k, first, ahead), last);
    for (int i = 0; i < (is_nd(s) ? depth_of(s) : 1); i++) {
        ig_x to = ig_x_add(k, num(s, (int64_t)i * s->at_once), ahead);
        ig_s_store(k, loads, s->indices, to, index_at(s, at, i));
    }
    for (s->phase = FETCH; s->phase <= APPLY; s->phase++) {
        struct ig_stmt *each = loop(s, body, IG_FOR_UNROLL, num(s, 0), num(s, s->at_once), &s->slot);
        at[axis] = ig_x_add(k, first, s->slot);
        emit_tuple(s, ig_s_if(k, each, ig_x_less(k, at[axis], dim(s, size))), at);
    }
}

static void emit_elements(struct scatter *s, struct ig_stmt *body) {
    ig_x at[INGOT_MAX_RANK];
    int axis = (int)ig_attr_int(s->graph, &s->node, IG_ATTR_axis);
    for (int i = 0; i < s->data.rank; i++) {
        /* Indices are checked along `axis`. Along other axes positions are not indexed, so the loop must stay inside
         * the data. */
        ig_dim size = ig_dim_min(s->k->dims, s->index.dim[i], s->data.dim[i]);
        if (i != axis) body = axis_loop(s, body, IG_FOR_SERIAL, size, i, &at[i]);
    }
    emit_tuples(s, body, s->index.dim[axis], at, axis);
}

static void emit_nd(struct scatter *s, struct ig_stmt *body) {
    ig_x at[INGOT_MAX_RANK];
    int outer = s->index.rank - 1;
    for (int i = 0; i < outer - 1; i++)
        body = loop(s, body, IG_FOR_SERIAL, num(s, 0), dim(s, s->index.dim[i]), &at[i]);
    if (outer == 0) {
        emit_tuple(s, body, at);
    } else {
        emit_tuples(s, body, s->index.dim[outer - 1], at, outer - 1);
    }
}

/* ---- GPUs -------------------------------------------------------------------------------------------------------- */

/* A thread's number is a range of the first indexed axis and a position along the other axes, the latter innermost. */
static ig_x split_thread(struct scatter *s, ig_x number) {
    struct ig_loops *k = s->k;
    for (int i = s->data.rank - 1; i >= 0; i--) {
        if (is_named(s, i)) continue;
        s->fixed[i] = ig_x_mod(k, number, dim(s, s->data.dim[i]));
        number = ig_x_div(k, number, dim(s, s->data.dim[i]));
    }
    return number;
}

static struct ig_stmt *thread_loop(struct scatter *s) {
    struct ig_loops *k = s->k;
    struct ig_dims *dims = k->dims;
    ig_dim one = ig_dim_const(dims, 1), lines = one, threads = ig_dim_const(dims, THREADS);
    s->own = -1;
    for (int i = s->data.rank - 1; i >= 0; i--) {
        if (is_named(s, i)) {
            s->own = i;
        } else {
            lines = ig_dim_mul(dims, lines, s->data.dim[i]);
        }
    }
    ig_dim size = s->own < 0 ? one : s->data.dim[s->own];
    bool shared = is_nd(s) || s->lower.buffer_of[s->node.in[1]] < 0;
    ig_dim enough = ig_dim_const(dims, shared ? SPARING_THREADS : ENOUGH_THREADS);
    ig_dim ranges = ig_dim_ceil_div(dims, enough, ig_dim_max(dims, lines, one));
    ranges = ig_dim_max(dims, one, ig_dim_min(dims, ranges, size));
    s->chunk = ig_dim_max(dims, one, ig_dim_ceil_div(dims, size, ranges));
    ig_dim total = ig_dim_mul(dims, lines, ig_dim_ceil_div(dims, size, s->chunk));
    s->kernel->tiles = ig_dim_ceil_div(dims, total, threads);
    s->kernel->threads = THREADS;
    ig_x tile, thread;
    struct ig_stmt *body = ig_s_for(k, NULL, IG_FOR_TILE, num(s, 0), dim(s, s->kernel->tiles), num(s, 1), &tile);
    body = loop(s, body, IG_FOR_SIMD, num(s, 0), num(s, THREADS), &thread);
    ig_x number = ig_x_add(k, ig_x_mul(k, tile, num(s, THREADS)), thread);
    body = ig_s_if(k, body, ig_x_less(k, number, dim(s, total)));
    split_range(s, split_thread(s, number));
    return body;
}

/* Tuples are loaded several at once if there is a loop over them. */
static void choose_at_once(struct scatter *s) {
    int depth = is_nd(s) ? depth_of(s) : 1;
    bool looped = depth > 0 && (!is_nd(s) || s->index.rank > 1) && !ig_is_literal(s->graph, s->node.in[1]);
    if (!looped || depth > MOST_AT_ONCE / 2) return;
    while (s->at_once < AT_ONCE && 2 * s->at_once * depth <= MOST_AT_ONCE)
        s->at_once *= 2;
    s->indices = ig_loops_local(s->k, ig_dtype_compute(s->index.dtype), (int64_t)depth * s->at_once, "indices");
}

static void emit_own_copy(struct scatter *s, struct ig_stmt *body) {
    ig_x index[INGOT_MAX_RANK];
    for (int i = 0; i < s->data.rank; i++)
        body = axis_loop(s, body, IG_FOR_SERIAL, s->data.dim[i], i, &index[i]);
    ig_x at = ig_lower_linear(&s->lower, &s->data, index);
    ig_s_store(s->k, body, s->out, at, ig_lower_value(&s->lower, s->node.in[0], index));
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

/* Halves that are only copied are moved as integers, without conversion. */
static void move_halves_as_integers(struct scatter *s) {
    ig_value data = s->node.in[0], updates = s->node.in[2];
    bool half = s->data.dtype == INGOT_F16 || s->data.dtype == INGOT_BF16;
    if (!half || s->how != IG_SCATTER_SET) return;
    if (ig_is_literal(s->graph, data) || ig_is_literal(s->graph, updates)) return;
    s->k->buffers.at[s->lower.buffer_of[data]].dtype = INGOT_U16;
    s->k->buffers.at[s->lower.buffer_of[updates]].dtype = INGOT_U16;
    s->k->buffers.at[s->out].dtype = INGOT_U16;
}

static struct ig_stmt *tile_loop(struct scatter *s) {
    ig_x tile;
    choose_tiles(s);
    struct ig_stmt *body = ig_s_for(s->k, NULL, IG_FOR_TILE, num(s, 0), dim(s, s->kernel->tiles), num(s, 1), &tile);
    split_range(s, tile);
    return body;
}

struct ig_kernel *ig_kernel_scatter(struct ig_graph *graph, const struct ig_region *region,
                                    const struct ig_target *target) {
    struct scatter s = {.graph = graph, .region = region, .kernel = IG_NEW(graph->job, struct ig_kernel)};
    s.node = graph->nodes.at[region->anchor];
    s.how = (enum ig_scatter)ig_attr_int(graph, &s.node, IG_ATTR_reduction);
    s.data = *ig_type_of(graph, s.node.in[0]);
    s.index = *ig_type_of(graph, s.node.in[1]);
    s.updates = *ig_type_of(graph, s.node.in[2]);
    s.k = s.kernel->loops = ig_loops_create(graph->job, graph->dims);
    ig_lower_init(&s.lower, s.k, graph, region);
    s.out = s.lower.buffer_of[s.node.out];
    move_halves_as_integers(&s);
    s.at_once = 1;
    for (int i = 0; i < INGOT_MAX_RANK; i++)
        s.fixed[i] = IG_NO_X;
    struct ig_stmt *body = ig_target_is_cuda(target) ? thread_loop(&s) : tile_loop(&s);
    if (ig_target_is_cuda(target)) {
        choose_at_once(&s);
        emit_own_copy(&s, body);
    } else {
        emit_copy(&s, body);
    }
    if (is_nd(&s)) {
        emit_nd(&s, body);
    } else {
        emit_elements(&s, body);
    }
    s.kernel->tactic = s.own < 0 ? "scatter" : ig_format(graph->job, "scatter, ranges of axis %d", s.own);
    struct ig_dims *dims = graph->dims;
    s.kernel->work = ig_dim_add(dims, ig_type_elements(dims, &s.updates),
                                ig_dim_ceil_div(dims, ig_type_elements(dims, &s.data), ig_dim_const(dims, 8)));
    return s.kernel;
}
