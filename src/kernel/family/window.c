/*
 * Pooling: a window slides over the spatial axes and yields its maximum, the maximum's position, its sum or its
 * average. This is the computation of one output position; the loops around it are the schedule's. See window.h.
 */
#include <math.h>
#include <string.h>

#include "kernel/family/window.h"

static ig_x num(struct ig_window *w, int64_t i) {
    return ig_x_index(w->k, i);
}

static ig_x dim(struct ig_window *w, ig_dim d) {
    return ig_x_dim(w->k, d);
}

static const struct ig_attr *attr(const struct ig_window *w, enum ig_attr_name name) {
    return ig_attr(w->graph, &w->node, name);
}

static struct ig_stmt *loop(struct ig_window *w, struct ig_stmt *body, enum ig_for_kind kind, ig_x hi, ig_x *out_var) {
    return ig_s_for(w->k, body, kind, num(w, 0), hi, num(w, 1), out_var);
}

bool ig_window_is_argmax(const struct ig_window *w) {
    return w->node.op == IG_OP_pool_argmax;
}

static bool is_maximum(const struct ig_window *w) {
    return w->node.op == IG_OP_pool_max || ig_window_is_argmax(w);
}

/* The index at a spatial position of the current image and channel; input and output have the same layout. */
static void index_at(const struct ig_window *w, const ig_x *spatial, ig_x *out_index) {
    out_index[0] = w->image;
    bool several = w->lanes != IG_NO_X;
    out_index[w->last ? w->spatial + 1 : 1] =
        several ? ig_x_add(w->k, w->channel, ig_x_sub(w->k, w->lane, w->base)) : w->channel;
    memcpy(out_index + (w->last ? 1 : 2), spatial, (size_t)w->spatial * sizeof *out_index);
}

/* ---- Running results --------------------------------------------------------------------------------------------- */

/* The neutral element: the lowest value for a maximum, 0 for a sum. */
static ig_x neutral(struct ig_window *w) {
    if (ig_dtype_is_float(w->dtype)) return ig_x_float(w->k, w->dtype, is_maximum(w) ? -INFINITY : 0);
    int bits = 8 * (int)ingot_dtype_size(w->dtype);
    bool lowest = is_maximum(w) && ig_dtype_is_signed(w->dtype);
    return ig_x_int(w->k, w->dtype, lowest ? INT64_MIN >> (64 - bits) : 0);
}

static enum ig_op combining(const struct ig_window *w) {
    return is_maximum(w) ? IG_OP_max : IG_OP_add;
}

static ig_x best_so_far(struct ig_window *w) {
    if (w->lanes == IG_NO_X) return ig_x_acc(w->k, w->best_acc, w->dtype);
    ig_x best = ig_x_load(w->k, w->best, w->lane);
    for (int64_t i = 1; i < w->columns; i++) {
        ig_x column = ig_x_load(w->k, w->best, ig_x_add(w->k, w->lane, num(w, i * w->pitch)));
        best = ig_x_map2(w->k, combining(w), best, column);
    }
    return best;
}

static ig_x place_so_far(struct ig_window *w) {
    return w->lanes != IG_NO_X ? ig_x_load(w->k, w->place, w->lane) : ig_x_acc(w->k, w->place_acc, INGOT_I64);
}

/* Loops over the channels that are done together, if there are several. */
static struct ig_stmt *lane_loop(struct ig_window *w, struct ig_stmt *body) {
    ig_x lane;
    if (w->lanes == IG_NO_X) return body;
    body = loop(w, body, w->lane_kind, w->lanes, &lane);
    w->lane = ig_x_add(w->k, w->base, lane);
    return body;
}

void ig_window_begin(struct ig_window *w, struct ig_stmt *body) {
    ig_x nowhere = num(w, -1);
    if (w->lanes != IG_NO_X) {
        body = lane_loop(w, body);
        ig_s_store(w->k, body, w->best, w->lane, neutral(w));
        if (ig_window_is_argmax(w)) ig_s_store(w->k, body, w->place, w->lane, nowhere);
        return;
    }
    w->best_acc = ig_s_acc(w->k, body, w->dtype, neutral(w));
    if (ig_window_is_argmax(w)) w->place_acc = ig_s_acc(w->k, body, INGOT_I64, nowhere);
}

/* The position within one channel's plane, in the order that the node asks for. */
static ig_x place_of(struct ig_window *w, const ig_x *in_at) {
    bool column_major = attr(w, IG_ATTR_column_major)->i != 0;
    ig_x flat = num(w, 0);
    for (int i = 0; i < w->spatial; i++) {
        int axis = column_major ? w->spatial - 1 - i : i;
        flat = ig_x_add(w->k, ig_x_mul(w->k, flat, dim(w, w->axis[axis].in)), in_at[axis]);
    }
    return flat;
}

/* Accumulates the input's element at in_at if it is inside. argmax keeps the first of equal elements; NaN is greater
 * than any number. */
static void take(struct ig_window *w, struct ig_stmt *body, const ig_x *in_at, ig_x inside) {
    struct ig_loops *k = w->k;
    ig_x index[INGOT_MAX_RANK];
    index_at(w, in_at, index);
    ig_x x = ig_lower_value(&w->lower, w->node.in[0], index), best = best_so_far(w), place = IG_NO_X;
    enum ig_op op = combining(w);
    if (k->x.at[inside].kind != IG_X_INT) x = ig_x_select(k, inside, x, neutral(w));
    if (ig_window_is_argmax(w)) {
        ig_x before = place_so_far(w), better = ig_x_map2(k, IG_OP_lt, best, x);
        if (ig_dtype_is_float(w->dtype)) {
            ig_x number = ig_x_map1(k, IG_OP_not, ig_x_map1(k, IG_OP_isnan, best));
            ig_x nan = ig_x_map2(k, IG_OP_and, ig_x_map1(k, IG_OP_isnan, x), number);
            better = ig_x_map2(k, IG_OP_or, better, nan);
        }
        better = ig_x_map2(k, IG_OP_or, better, ig_x_less(k, before, num(w, 0)));
        place = ig_x_select(k, better, place_of(w, in_at), before);
        x = ig_x_select(k, better, x, best);
        op = IG_OP_where;
    }
    if (w->lanes != IG_NO_X) {
        if (ig_window_is_argmax(w)) ig_s_store(k, body, w->place, w->lane, place);
        ig_s_store(k, body, w->best, w->lane, op == IG_OP_where ? x : ig_x_map2(k, op, best, x));
        return;
    }
    if (ig_window_is_argmax(w)) ig_s_update(k, body, w->place_acc, IG_OP_where, place);
    ig_s_update(k, body, w->best_acc, op, x);
}

/* `inside`, and is the position within the input along axis i? */
static ig_x between(struct ig_window *w, int i, ig_x at, ig_x inside) {
    inside = ig_x_and(w->k, inside, ig_x_less(w->k, num(w, -1), at));
    return ig_x_and(w->k, inside, ig_x_less(w->k, at, dim(w, w->axis[i].in)));
}

/* Loops over the taps along axis i: those inside, or, unrolled, all, with *inout_inside restricted to those inside.
 * *out_in_at: the tap's position in the input. */
static struct ig_stmt *tap_loop(struct ig_window *w, struct ig_stmt *body, int i, ig_x *out_in_at, ig_x *inout_inside) {
    struct ig_loops *k = w->k;
    const struct ig_axis *a = &w->axis[i];
    ig_x tap;
    if (!w->unroll) {
        struct ig_taps t = ig_taps_inside(k, a, w->at[i], a->in);
        body = loop(w, body, IG_FOR_SERIAL, t.count, &tap);
        *out_in_at = ig_x_add(k, t.from, ig_x_mul(k, tap, num(w, a->dilation)));
        return body;
    }
    body = loop(w, body, IG_FOR_UNROLL, num(w, a->taps), &tap);
    ig_x origin = ig_x_sub(k, ig_x_mul(k, w->at[i], num(w, a->stride)), dim(w, a->before));
    *out_in_at = ig_x_add(k, origin, ig_x_mul(k, tap, num(w, a->dilation)));
    *inout_inside = between(w, i, *out_in_at, *inout_inside);
    return body;
}

/* Can taps outside load a clamped position and be deselected, rather than branch around the load? Then no load waits
 * for another. */
static bool can_clamp(const struct ig_window *w) {
    int64_t lo, hi;
    for (int i = 0; i < w->spatial; i++) {
        ig_dim_range(w->k->dims, w->axis[i].in, &lo, &hi);
        if (lo < 1) return false;
    }
    return !ig_window_is_argmax(w);
}

/* Of a maximum, the element at the clamped position is in the window, too, if windows reach into the input and their taps lie side by
 * side: taken twice it changes nothing. */
static bool clamps_inside(const struct ig_window *w) {
    if (w->node.op != IG_OP_pool_max) return false;
    for (int i = 0; i < w->spatial; i++) {
        const struct ig_axis *a = &w->axis[i];
        struct ig_dims *dims = w->k->dims;
        ig_dim one = ig_dim_const(dims, 1), last = ig_dim_const(dims, a->taps - 1);
        if (a->dilation != 1 || ig_dim_less(dims, last, a->before) != IG_NO) return false;
        /* The elements from where the last window begins: in - ((out - 1) * stride - before) */
        ig_dim begin = ig_dim_mul(dims, ig_dim_sub(dims, a->out, one), ig_dim_const(dims, a->stride));
        ig_dim left = ig_dim_add(dims, ig_dim_sub(dims, a->in, begin), a->before);
        if (ig_dim_less(dims, ig_dim_const(dims, 0), left) != IG_YES) return false;
    }
    return true;
}

static ig_x clamp(struct ig_window *w, int i, ig_x at) {
    ig_dim last = ig_dim_sub(w->k->dims, w->axis[i].in, ig_dim_const(w->k->dims, 1));
    return ig_x_max(w->k, ig_x_min(w->k, at, dim(w, last)), num(w, 0));
}

void ig_window_visit(struct ig_window *w, struct ig_stmt *body) {
    ig_x in_at[IG_WINDOW_SPATIAL] = {0}, everywhere = ig_x_int(w->k, INGOT_BOOL, 1), inside = everywhere;
    int looped = w->spatial - (w->column != IG_NO_X);
    for (int i = 0; i < looped; i++)
        body = tap_loop(w, body, i, &in_at[i], &inside);
    if (looped < w->spatial) {
        in_at[looped] = w->column;
        if (w->unroll) inside = between(w, looped, w->column, inside);
    }
    if (w->k->x.at[inside].kind != IG_X_INT) {
        if (can_clamp(w)) {
            for (int i = 0; i < w->spatial; i++)
                in_at[i] = clamp(w, i, in_at[i]);
            if (clamps_inside(w)) inside = everywhere;
        } else {
            body = ig_s_if(w->k, body, inside);
            inside = everywhere;
        }
    }
    take(w, lane_loop(w, body), in_at, inside);
}

ig_x ig_window_is_whole(struct ig_window *w, int i) {
    struct ig_taps t = ig_taps_inside(w->k, &w->axis[i], w->at[i], w->axis[i].in);
    return ig_x_less(w->k, num(w, w->axis[i].taps - 1), t.count);
}

/* The result of the taps along the axes from i on, those before being at in_at. */
static ig_x whole_column(struct ig_window *w, int i, ig_x *in_at) {
    struct ig_loops *k = w->k;
    if (i == w->spatial - 1) {
        ig_x index[INGOT_MAX_RANK];
        in_at[i] = w->column;
        index_at(w, in_at, index);
        return ig_lower_value(&w->lower, w->node.in[0], index);
    }
    const struct ig_axis *a = &w->axis[i];
    ig_x origin = ig_x_sub(k, ig_x_mul(k, w->at[i], num(w, a->stride)), dim(w, a->before)), best = IG_NO_X;
    for (int64_t tap = 0; tap < a->taps; tap++) {
        in_at[i] = ig_x_add(k, origin, num(w, tap * a->dilation));
        ig_x x = whole_column(w, i + 1, in_at);
        best = tap == 0 ? x : ig_x_map2(k, combining(w), best, x);
    }
    return best;
}

void ig_window_visit_whole(struct ig_window *w, struct ig_stmt *body) {
    ig_x in_at[IG_WINDOW_SPATIAL] = {0};
    body = lane_loop(w, body);
    ig_s_store(w->k, body, w->best, w->lane, whole_column(w, 0, in_at));
}

/* The number of positions that an average divides by. */
static ig_x divisor(struct ig_window *w) {
    struct ig_loops *k = w->k;
    bool padded = attr(w, IG_ATTR_count_pad)->i != 0;
    ig_x count = num(w, 1);
    for (int i = 0; i < w->spatial; i++) {
        struct ig_axis a = w->axis[i];
        if (padded) { /* count in the padded input, which begins at 0 */
            ig_dim all = ig_dim_add(k->dims, ig_dim_add(k->dims, a.in, a.before), attr(w, IG_ATTR_after)->dims[i]);
            a.before = ig_dim_const(k->dims, 0);
            a.in = all;
        }
        count = ig_x_mul(k, count, ig_taps_inside(k, &a, w->at[i], a.in).count);
    }
    return count;
}

/* Not by a reciprocal alone: of integers in floats, the next rounding would tell them apart. */
static ig_x average(struct ig_window *w) {
    enum { MOST_COUNT = 4096 /* that ig_average divides by exactly */ };
    struct ig_loops *k = w->k;
    int64_t most = 1;
    for (int i = 0; i < w->spatial && most <= MOST_COUNT; i++)
        most *= w->axis[i].taps;
    ig_x count = ig_x_cast(k, divisor(w), w->dtype, false), one = ig_x_float(k, w->dtype, 1);
    if (most > MOST_COUNT || w->dtype != INGOT_F32) return ig_x_map2(k, IG_OP_div, best_so_far(w), count);
    return ig_x_call(k, w->dtype, "ig_average", best_so_far(w), count, ig_x_map2(k, IG_OP_div, one, count));
}

static ig_x result(struct ig_window *w) {
    struct ig_loops *k = w->k;
    if (w->node.op == IG_OP_pool_avg) return average(w);
    if (!ig_window_is_argmax(w)) return best_so_far(w);
    ig_x plane = ig_x_add(
        k, ig_x_mul(k, w->image, dim(w, ig_type_of(w->graph, w->node.in[0])->dim[w->last ? w->spatial + 1 : 1])),
        w->lanes != IG_NO_X ? ig_x_add(k, w->channel, ig_x_sub(k, w->lane, w->base)) : w->channel);
    for (int i = 0; i < w->spatial; i++)
        plane = ig_x_mul(k, plane, dim(w, w->axis[i].in));
    return ig_x_add(k, plane, ig_x_max(k, place_so_far(w), num(w, 0)));
}

/* ---- Epilogue ---------------------------------------------------------------------------------------------------- */

static ig_x known(void *user, ig_value value, const ig_x *index) {
    struct ig_window *w = user;
    (void)index;
    if (value != w->node.out) return IG_NO_X;
    return ig_x_cast(w->k, result(w), ig_type_of(w->graph, value)->dtype, false);
}

void ig_window_store(struct ig_window *w, struct ig_stmt *body) {
    ig_x index[INGOT_MAX_RANK];
    body = lane_loop(w, body);
    index_at(w, w->at, index);
    w->lower.known = known;
    w->lower.user = w;
    for (uint32_t i = 0; i < w->region->outputs.count; i++) {
        ig_value v = w->region->outputs.at[i];
        ig_x value = ig_lower_value(&w->lower, v, index);
        ig_s_store(w->k, body, w->lower.buffer_of[v], ig_lower_linear(&w->lower, ig_type_of(w->graph, v), index),
                   value);
    }
    w->lower.known = NULL;
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

struct ig_stmt *ig_window_tiles(struct ig_window *w, ig_dim tiles, ig_x *out_tile) {
    w->kernel->tiles = tiles;
    return ig_s_for(w->k, NULL, IG_FOR_TILE, num(w, 0), dim(w, tiles), num(w, 1), out_tile);
}

void ig_window_init(struct ig_window *w, struct ig_graph *graph, const struct ig_region *region) {
    *w = (struct ig_window){.graph = graph, .region = region, .kernel = IG_NEW(graph->job, struct ig_kernel)};
    w->lanes = w->column = IG_NO_X;
    w->columns = 1;
    w->node = w->graph->nodes.at[w->region->anchor];
    w->k = ig_loops_create(w->graph->job, w->graph->dims);
    w->kernel->loops = w->k;
    ig_lower_init(&w->lower, w->k, w->graph, w->region);
    const struct ig_type *in = ig_type_of(w->graph, w->node.in[0]), *out = ig_type_of(w->graph, w->node.out);
    w->dtype = ig_dtype_compute(in->dtype);
    w->spatial = in->rank - 2;
    w->last = attr(w, IG_ATTR_channels_last)->i != 0;
    for (int i = 0; i < w->spatial; i++) {
        int at = i + (w->last ? 1 : 2);
        w->axis[i] = (struct ig_axis){.in = in->dim[at],
                                      .out = out->dim[at],
                                      .before = attr(w, IG_ATTR_before)->dims[i],
                                      .taps = attr(w, IG_ATTR_kernel)->ints[i],
                                      .stride = attr(w, IG_ATTR_strides)->ints[i],
                                      .dilation = attr(w, IG_ATTR_dilations)->ints[i]};
    }
}

void ig_window_finish(struct ig_window *w, int lanes) {
    struct ig_dims *dims = w->k->dims;
    ig_dim taps = ig_type_elements(dims, ig_type_of(w->graph, w->node.out));
    for (int i = 0; i < w->spatial; i++)
        taps = ig_dim_mul(dims, taps, ig_dim_const(dims, w->axis[i].taps));
    w->kernel->work = ig_dim_ceil_div(dims, taps, ig_dim_const(dims, lanes));
    w->kernel->scratch_bytes = ig_dim_const(dims, 0);
}
