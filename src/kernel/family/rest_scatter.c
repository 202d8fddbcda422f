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
 * cuda/scatter.c has the schedule for GPUs.
 */
#include <string.h>

#include "kernel/family/rest.h"
#include "kernel/family/scatter.h"

enum { TILE_ELEMENTS = 16384, MOST_TILES = 64, INDEX_COST = 8 };

static ig_x num(struct ig_scatter_problem *s, int64_t i) {
    return ig_x_index(s->k, i);
}

static ig_x dim(struct ig_scatter_problem *s, ig_dim d) {
    return ig_x_dim(s->k, d);
}

static struct ig_stmt *loop(struct ig_scatter_problem *s, struct ig_stmt *body, enum ig_for_kind kind, ig_x lo, ig_x hi,
                            ig_x *out_var) {
    return ig_s_for(s->k, body, kind, lo, hi, num(s, 1), out_var);
}

static ig_dim volume(struct ig_scatter_problem *s, const struct ig_type *type, int from, int to) {
    return ig_dim_product(s->k->dims, type->dim + from, to - from);
}

bool ig_scatter_is_nd(const struct ig_scatter_problem *s) {
    return s->node.op == IG_OP_scatter_nd;
}

int ig_scatter_depth(const struct ig_scatter_problem *s) {
    return ig_scatter_is_nd(s) ? s->data.rank - (s->updates.rank - (s->index.rank - 1)) : 1;
}

bool ig_scatter_names(const struct ig_scatter_problem *s, int axis) {
    if (ig_scatter_is_nd(s)) return axis < ig_scatter_depth(s);
    return axis == ig_attr_int(s->graph, &s->node, IG_ATTR_axis);
}

/* ---- Tiles ------------------------------------------------------------------------------------------------------- */

static void choose_tiles(struct ig_scatter_problem *s) {
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
    if (ig_scatter_names(s, s->own)) {
        ig_dim tuples = volume(s, &s->index, 0, s->index.rank - ig_scatter_is_nd(s));
        enough = ig_dim_add(dims, enough, ig_dim_mul(dims, tuples, ig_dim_const(dims, INDEX_COST)));
    }
    ig_dim tiles = ig_dim_ceil_div(dims, ig_type_elements(dims, &s->data), enough);
    tiles = ig_dim_max(dims, one, ig_dim_min(dims, tiles, ig_dim_const(dims, MOST_TILES)));
    s->chunk = ig_dim_max(dims, one, ig_dim_ceil_div(dims, size, tiles));
    s->kernel->tiles = ig_dim_ceil_div(dims, size, s->chunk);
}

static void split_range(struct ig_scatter_problem *s, ig_x tile) {
    s->lo = num(s, 0);
    s->hi = num(s, 1);
    if (s->own < 0) return;
    s->lo = ig_x_mul(s->k, tile, dim(s, s->chunk));
    s->hi = ig_x_min(s->k, ig_x_add(s->k, s->lo, dim(s, s->chunk)), dim(s, s->data.dim[s->own]));
}

/* A loop along an axis of the indices or updates that corresponds to `axis` of the data; restricted to the tile's range
 * if that axis is divided among tiles. */
static struct ig_stmt *axis_loop(struct ig_scatter_problem *s, struct ig_stmt *body, enum ig_for_kind kind, ig_dim size,
                                 int axis, ig_x *out_var) {
    if (axis != s->own) return loop(s, body, kind, num(s, 0), dim(s, size), out_var);
    return loop(s, body, kind, s->lo, ig_x_min(s->k, s->hi, dim(s, size)), out_var);
}

/* ---- Copying ----------------------------------------------------------------------------------------------------- */

struct ig_stmt *ig_scatter_if_apart(struct ig_scatter_problem *s, struct ig_stmt *body) {
    if (ig_is_literal(s->graph, s->node.in[0])) return body;
    return ig_s_if(s->k, body, ig_x_apart(s->k, s->lower.buffer_of[s->node.in[0]], s->out));
}

static void emit_copy(struct ig_scatter_problem *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    body = ig_scatter_if_apart(s, body);
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

ig_x ig_scatter_resolve(struct ig_scatter_problem *s, ig_x index, int axis, ig_x *inout_inside) {
    struct ig_loops *k = s->k;
    ig_x size = dim(s, s->data.dim[axis]), zero = num(s, 0), minus_one = num(s, -1);
    index = ig_x_cast(k, index, INGOT_I64, false);
    index = ig_x_select(k, ig_x_less(k, index, zero), ig_x_add(k, index, size), index);
    *inout_inside = ig_x_and(k, *inout_inside, ig_x_less(k, minus_one, index));
    *inout_inside = ig_x_and(k, *inout_inside, ig_x_less(k, index, size));
    return ig_x_max(k, ig_x_min(k, index, ig_x_sub(k, size, num(s, 1))), zero);
}

/* Like ig_scatter_resolve; also false if it is outside the tile's range. */
static ig_x resolve(struct ig_scatter_problem *s, ig_x index, int axis, ig_x *inout_inside) {
    struct ig_loops *k = s->k;
    index = ig_scatter_resolve(s, index, axis, inout_inside);
    if (axis == s->own) {
        ig_x below = ig_x_less(k, ig_x_sub(k, s->lo, num(s, 1)), index);
        *inout_inside = ig_x_and(k, *inout_inside, ig_x_and(k, below, ig_x_less(k, index, s->hi)));
    }
    return index;
}

void ig_scatter_apply(struct ig_scatter_problem *s, struct ig_stmt *body, int buffer, ig_x at, ig_x value) {
    static const enum ig_op ops[] = {
        [IG_SCATTER_ADD] = IG_OP_add,
        [IG_SCATTER_MUL] = IG_OP_mul,
        [IG_SCATTER_MAX] = IG_OP_max,
        [IG_SCATTER_MIN] = IG_OP_min,
    };
    if (s->how != IG_SCATTER_SET) value = ig_x_map2(s->k, ops[s->how], ig_x_load(s->k, buffer, at), value);
    ig_s_store(s->k, body, buffer, at, value);
}

/* Updates the slice of the data that a tuple addresses, restricted to the tile's range if an axis of the slice is
 * divided among tiles. */
static void emit_slice(struct ig_scatter_problem *s, struct ig_stmt *body, const ig_x *tuple, const ig_x *to,
                       int depth) {
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
    ig_scatter_apply(s, body, s->out, ig_x_add(k, base, at), ig_lower_value(&s->lower, s->node.in[2], index));
}

/* The first axis behind `axis` from which on the indices are repetitions: those of whole rows, or the rank. */
static int find_row(const struct ig_scatter_problem *s, int axis) {
    const struct ig_node *repeats = ig_def_op(s->graph, s->node.in[1], IG_OP_broadcast);
    int row = s->data.rank;
    if (!repeats || s->lower.is_input[repeats->out]) return row;
    const struct ig_type *one = ig_type_of(s->graph, repeats->in[0]);
    while (row > axis + 1) {
        int from = row - 1 - (s->data.rank - one->rank);
        if (from >= 0 && one->dim[from] != ig_dim_const(s->k->dims, 1)) break;
        row--;
    }
    return row;
}

static void emit_elements(struct ig_scatter_problem *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    ig_x at[INGOT_MAX_RANK], to[INGOT_MAX_RANK], inside = ig_x_int(k, INGOT_BOOL, 1);
    int axis = (int)ig_attr_int(s->graph, &s->node, IG_ATTR_axis), rank = s->data.rank, row = find_row(s, axis);
    for (int i = 0; i < rank; i++) {
        /* Indices are checked along `axis`. Along other axes positions are not indexed, so the loop must stay inside
         * the data. */
        ig_dim size = i == axis ? s->index.dim[i] : ig_dim_min(k->dims, s->index.dim[i], s->data.dim[i]);
        bool simd = row < rank && i == rank - 1; /* elements of a row are different ones */
        if (i == row) {
            for (int j = i; j < rank; j++)
                at[j] = num(s, 0);
            to[axis] = resolve(s, ig_lower_value(&s->lower, s->node.in[1], at), axis, &inside);
            body = ig_s_if(k, body, inside);
        }
        body = axis_loop(s, body, simd ? IG_FOR_SIMD : IG_FOR_SERIAL, size, i == axis ? -1 : i, &at[i]);
        if (i != axis) to[i] = at[i];
    }
    if (row == rank) {
        to[axis] = resolve(s, ig_lower_value(&s->lower, s->node.in[1], at), axis, &inside);
        body = ig_s_if(k, body, inside);
    }
    ig_scatter_apply(s, body, s->out, ig_lower_linear(&s->lower, &s->data, to),
                     ig_lower_value(&s->lower, s->node.in[2], at));
}

static void emit_nd(struct ig_scatter_problem *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    ig_x at[INGOT_MAX_RANK], to[INGOT_MAX_RANK], inside = ig_x_int(k, INGOT_BOOL, 1);
    int outer = s->index.rank - 1, depth = ig_scatter_depth(s);
    for (int i = 0; i < outer; i++)
        body = loop(s, body, IG_FOR_SERIAL, num(s, 0), dim(s, s->index.dim[i]), &at[i]);
    for (int i = 0; i < depth; i++) {
        at[outer] = num(s, i);
        to[i] = resolve(s, ig_lower_value(&s->lower, s->node.in[1], at), i, &inside);
    }
    emit_slice(s, depth > 0 ? ig_s_if(k, body, inside) : body, at, to, depth);
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

/* Halves that are only copied are moved as integers, without conversion. */
static void move_halves_as_integers(struct ig_scatter_problem *s) {
    ig_value data = s->node.in[0], updates = s->node.in[2];
    bool half = s->data.dtype == INGOT_F16 || s->data.dtype == INGOT_BF16;
    if (!half || s->how != IG_SCATTER_SET) return;
    if (ig_is_literal(s->graph, data) || !s->lower.is_input[updates]) return;
    s->k->buffers.at[s->lower.buffer_of[data]].dtype = INGOT_U16;
    s->k->buffers.at[s->lower.buffer_of[updates]].dtype = INGOT_U16;
    s->k->buffers.at[s->out].dtype = INGOT_U16;
}

static struct ig_stmt *tile_loop(struct ig_scatter_problem *s) {
    ig_x tile;
    choose_tiles(s);
    struct ig_stmt *body = ig_s_for(s->k, NULL, IG_FOR_TILE, num(s, 0), dim(s, s->kernel->tiles), num(s, 1), &tile);
    split_range(s, tile);
    return body;
}

struct ig_kernel *ig_kernel_scatter(struct ig_graph *graph, const struct ig_region *region,
                                    const struct ig_target *target) {
    struct ig_scatter_problem s = {.graph = graph, .region = region, .kernel = IG_NEW(graph->job, struct ig_kernel)};
    s.node = graph->nodes.at[region->anchor];
    s.how = (enum ig_scatter)ig_attr_int(graph, &s.node, IG_ATTR_reduction);
    s.data = *ig_type_of(graph, s.node.in[0]);
    s.index = *ig_type_of(graph, s.node.in[1]);
    s.updates = *ig_type_of(graph, s.node.in[2]);
    s.k = s.kernel->loops = ig_loops_create(graph->job, graph->dims);
    ig_lower_init(&s.lower, s.k, graph, region);
    s.out = s.lower.buffer_of[s.node.out];
    move_halves_as_integers(&s);
    if (ig_target_is_cuda(target)) {
        ig_scatter_emit_cuda(&s);
    } else {
        struct ig_stmt *body = tile_loop(&s);
        emit_copy(&s, body);
        if (ig_scatter_is_nd(&s)) {
            emit_nd(&s, body);
        } else {
            emit_elements(&s, body);
        }
    }
    s.kernel->tactic = s.own < 0 ? "scatter" : ig_format(graph->job, "scatter, ranges of axis %d", s.own);
    struct ig_dims *dims = graph->dims;
    s.kernel->work = ig_dim_add(dims, ig_type_elements(dims, &s.updates),
                                ig_dim_ceil_div(dims, ig_type_elements(dims, &s.data), ig_dim_const(dims, 8)));
    return s.kernel;
}
