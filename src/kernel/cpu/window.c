/*
 * Pooling on CPUs. Channels-last, a tile is one row of the output over a chunk of channels; the channels' running
 * results lie in a small array, and every window position is one vector loop over it. Windows that overlap share work:
 * first the results of single columns are computed for some neighbouring windows, then those of windows from their
 * columns, so that 3 x 3 positions cost 3 + 3. Otherwise a tile is one plane, and results are computed one by one. Loop
 * bounds clip windows to the input, so that borders need no selects.
 */
#include "kernel/family/window.h"

#include <string.h>

#include "kernel/schedules.h"

enum { CHUNK = 64, COLUMNS = 32, MOST_TAPS = 16 };

static ig_x num(struct ig_window *w, int64_t i) {
    return ig_x_index(w->k, i);
}

static ig_x dim(struct ig_window *w, ig_dim d) {
    return ig_x_dim(w->k, d);
}

static struct ig_stmt *loop(struct ig_window *w, struct ig_stmt *body, enum ig_for_kind kind, ig_x hi, ig_x *out_var) {
    return ig_s_for(w->k, body, kind, num(w, 0), hi, num(w, 1), out_var);
}

/* Does each column serve several windows, or at least cost no more alone? */
static bool by_columns(const struct ig_window *w) {
    const struct ig_axis *last = &w->axis[w->spatial - 1];
    int64_t others = 1;
    for (int i = 0; i < w->spatial - 1; i++)
        others *= w->axis[i].taps;
    return !ig_window_is_argmax(w) && others > 1 && others <= MOST_TAPS && last->taps <= MOST_TAPS &&
           last->dilation == 1 && last->stride <= last->taps;
}

/* Results of column number `column` of a block, which may be outside the input. */
static void emit_column(struct ig_window *w, struct ig_stmt *body, ig_x first, ig_x column) {
    struct ig_loops *k = w->k;
    ig_dim width = w->axis[w->spatial - 1].in;
    ig_x at = ig_x_add(k, first, column), yes = ig_x_int(k, INGOT_BOOL, 1);
    ig_x inside = ig_x_and(k, ig_x_less(k, num(w, -1), at), ig_x_less(k, at, dim(w, width))), whole = inside;
    for (int i = 0; i < w->spatial - 1; i++)
        whole = ig_x_and(k, whole, ig_window_is_whole(w, i));
    w->base = ig_x_mul(k, column, num(w, CHUNK));
    w->column = at;
    ig_window_visit_whole(w, ig_s_if(k, body, whole));
    struct ig_stmt *partly = ig_s_if(k, body, ig_x_select(k, whole, ig_x_int(k, INGOT_BOOL, 0), yes));
    ig_window_begin(w, partly);
    ig_window_visit(w, ig_s_if(k, partly, inside));
}

/* A row of the output: blocks of windows whose columns fill the array. */
static void emit_row_by_columns(struct ig_window *w, struct ig_stmt *body, ig_dim outputs) {
    struct ig_loops *k = w->k;
    int axis = w->spatial - 1;
    const struct ig_axis *a = &w->axis[axis];
    int64_t windows = (COLUMNS - a->taps) / a->stride + 1;
    ig_x block, column, window;
    body = ig_s_for(k, body, IG_FOR_SERIAL, num(w, 0), dim(w, outputs), num(w, windows), &block);
    ig_x count = ig_x_min(k, num(w, windows), ig_x_sub(k, dim(w, outputs), block));
    ig_x first = ig_x_sub(k, ig_x_mul(k, block, num(w, a->stride)), dim(w, a->before));
    ig_x columns = ig_x_add(k, ig_x_mul(k, count, num(w, a->stride)), num(w, a->taps - a->stride));
    struct ig_stmt *each = loop(w, body, IG_FOR_SERIAL, columns, &column);
    emit_column(w, each, first, column);
    each = loop(w, body, IG_FOR_SERIAL, count, &window);
    w->at[axis] = ig_x_add(k, block, window);
    w->base = ig_x_mul(k, window, num(w, a->stride * CHUNK));
    w->columns = a->taps;
    w->pitch = CHUNK;
    ig_window_store(w, each);
}

/* A tile is one image, a chunk of channels, and one position along all spatial axes but the last; if there is only one
 * axis, along that axis too. */
static void emit_channels_last(struct ig_window *w) {
    struct ig_loops *k = w->k;
    struct ig_dims *dims = k->dims;
    const struct ig_type *out = ig_type_of(w->graph, w->node.out);
    ig_dim channels = out->dim[w->spatial + 1], chunks = ig_dim_ceil_div(dims, channels, ig_dim_const(dims, CHUNK));
    int outer = w->spatial == 1 ? 1 : w->spatial - 1;
    struct ig_type space = {.dtype = out->dtype, .rank = outer};
    memcpy(space.dim, out->dim + 1, (size_t)outer * sizeof *space.dim);
    ig_dim rows = ig_dim_product(dims, space.dim, outer);
    ig_x tile;
    struct ig_stmt *body = ig_window_tiles(w, ig_dim_mul(dims, ig_dim_mul(dims, out->dim[0], chunks), rows), &tile);
    ig_lower_split(&w->lower, &space, ig_x_mod(k, tile, dim(w, rows)), w->at);
    ig_x rest = ig_x_div(k, tile, dim(w, rows));
    w->image = ig_x_div(k, rest, dim(w, chunks));
    ig_x first = ig_x_mul(k, ig_x_mod(k, rest, dim(w, chunks)), num(w, CHUNK));
    w->lanes = ig_x_min(k, num(w, CHUNK), ig_x_sub(k, dim(w, channels), first));
    w->base = num(w, 0);
    w->lane_kind = IG_FOR_SIMD;
    w->channel = first;
    bool columns = by_columns(w);
    w->best = ig_loops_local(k, w->dtype, columns ? COLUMNS * CHUNK : CHUNK, "best");
    if (columns) {
        emit_row_by_columns(w, body, out->dim[w->spatial]);
        return;
    }
    if (ig_window_is_argmax(w)) w->place = ig_loops_local(k, INGOT_I64, CHUNK, "place");
    if (w->spatial > 1) {
        body = loop(w, body, IG_FOR_SERIAL, dim(w, out->dim[w->spatial]), &w->at[w->spatial - 1]);
    }
    ig_window_begin(w, body);
    ig_window_visit(w, body);
    ig_window_store(w, body);
}

/* A tile is one channel of one image. */
static void emit_channels_first(struct ig_window *w) {
    struct ig_loops *k = w->k;
    const struct ig_type *out = ig_type_of(w->graph, w->node.out);
    ig_x tile;
    struct ig_stmt *body = ig_window_tiles(w, ig_dim_mul(k->dims, out->dim[0], out->dim[1]), &tile);
    w->image = ig_x_div(k, tile, dim(w, out->dim[1]));
    w->channel = ig_x_mod(k, tile, dim(w, out->dim[1]));
    for (int i = 0; i < w->spatial; i++)
        body = loop(w, body, IG_FOR_SERIAL, dim(w, out->dim[i + 2]), &w->at[i]);
    ig_window_begin(w, body);
    ig_window_visit(w, body);
    ig_window_store(w, body);
}

struct ig_kernel *ig_kernel_window(struct ig_graph *graph, const struct ig_region *region,
                                   const struct ig_target *target, const struct ig_sizes *at) {
    struct ig_window *w = IG_NEW(graph->job, struct ig_window);
    ig_window_init(w, graph, region);
    w->kernel->tactic = w->last ? "window, vectors of channels" : "window, one by one";
    if (w->last) {
        emit_channels_last(w);
    } else {
        emit_channels_first(w);
    }
    ig_window_finish(w, w->last ? ig_micro_lanes(target, w->dtype) : 1);
    return w->kernel;
}
