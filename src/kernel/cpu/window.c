/*
 * Pooling on CPUs. Channels-last, a tile is one row of the output over a chunk of channels; the channels' running
 * results lie in a small array, and every window position is one vector loop over it. Otherwise a tile is one plane,
 * and results are computed one by one. Loop bounds clip windows to the input, so that borders need no selects.
 */
#include "kernel/window.h"

#include <string.h>

#include "kernel/schedules.h"

enum { CHUNK = 64 };

static ig_x num(struct ig_window *w, int64_t i) {
    return ig_x_index(w->k, i);
}

static ig_x dim(struct ig_window *w, ig_dim d) {
    return ig_x_dim(w->k, d);
}

static struct ig_stmt *loop(struct ig_window *w, struct ig_stmt *body, enum ig_for_kind kind, ig_x hi, ig_x *out_var) {
    return ig_s_for(w->k, body, kind, num(w, 0), hi, num(w, 1), out_var);
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
    w->best = ig_loops_local(k, w->dtype, CHUNK, "best");
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
