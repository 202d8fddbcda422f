/*
 * Pooling on GPUs: one thread per output element or, channels-last, per as many neighbouring channels as one 16-byte
 * access holds. Small windows are unrolled, so that all their loads are in flight together. See window.h.
 */
#include "kernel/family/window.h"
#include "kernel/schedules.h"

enum { THREADS = 128, MOST_TAPS = 32 };

static ig_x num(struct ig_window *w, int64_t i) {
    return ig_x_index(w->k, i);
}

/* Channels per thread, 16 bytes of the pooled type. If that is a cast from f16, loads have half that size, which is
 * faster: there are more threads. */
static int vector_of(struct ig_window *w) {
    struct ig_dims *dims = w->k->dims;
    const struct ig_type *in = ig_type_of(w->graph, w->node.in[0]), *out = ig_type_of(w->graph, w->node.out);
    if (!w->last || ig_is_literal(w->graph, w->node.in[0])) return 1;
    int bytes = (int)ingot_dtype_size(in->dtype), most = 8;
    while (most > 1 && (most * bytes > 16 || !ig_dim_divides(dims, ig_dim_const(dims, most), out->dim[w->spatial + 1])))
        most /= 2;
    return most;
}

static bool is_small(const struct ig_window *w) {
    int64_t taps = 1;
    for (int i = 0; i < w->spatial; i++)
        taps = taps > MOST_TAPS ? taps : taps * w->axis[i].taps;
    return taps <= MOST_TAPS;
}

/* The output's dims in memory order, with channels counted in vectors; returns the number of vectors. */
static ig_dim places(struct ig_window *w, int vector, struct ig_type *out_space) {
    struct ig_dims *dims = w->k->dims;
    *out_space = *ig_type_of(w->graph, w->node.out);
    ig_dim *channels = &out_space->dim[w->last ? w->spatial + 1 : 1];
    *channels = ig_dim_div(dims, *channels, ig_dim_const(dims, vector));
    return ig_type_elements(dims, out_space);
}

static void use_vector(struct ig_window *w, int vector, ig_x thread) {
    w->lanes = num(w, vector);
    w->lane_kind = IG_FOR_VECTOR;
    w->base = ig_x_mul(w->k, thread, num(w, vector));
    w->best = ig_loops_spread(w->k, w->dtype, THREADS, vector, "best");
    if (ig_window_is_argmax(w)) w->place = ig_loops_spread(w->k, INGOT_I64, THREADS, vector, "place");
}

static void emit(struct ig_window *w, int vector) {
    struct ig_loops *k = w->k;
    struct ig_type space;
    ig_x tile, thread, index[INGOT_MAX_RANK];
    ig_dim count = places(w, vector, &space);
    struct ig_stmt *body = ig_window_tiles(w, ig_dim_ceil_div(k->dims, count, ig_dim_const(k->dims, THREADS)), &tile);
    body = ig_s_for(k, body, IG_FOR_SIMD, num(w, 0), num(w, THREADS), num(w, 1), &thread);
    ig_x place = ig_x_add(k, ig_x_mul(k, tile, num(w, THREADS)), thread);
    ig_x exists = ig_x_less(k, place, ig_x_dim(k, count));
    if (k->x.at[exists].kind != IG_X_INT) body = ig_s_if(k, body, exists);
    ig_lower_split(&w->lower, &space, place, index);
    w->image = index[0];
    w->channel = ig_x_mul(k, index[w->last ? w->spatial + 1 : 1], num(w, vector));
    for (int i = 0; i < w->spatial; i++)
        w->at[i] = index[i + (w->last ? 1 : 2)];
    if (vector > 1) use_vector(w, vector, thread);
    w->unroll = is_small(w);
    ig_window_begin(w, body);
    ig_window_visit(w, body);
    ig_window_store(w, body);
}

struct ig_kernel *ig_kernel_window_cuda(struct ig_graph *graph, const struct ig_region *region,
                                        const struct ig_target *target, const struct ig_sizes *at) {
    (void)target;
    struct ig_window *w = IG_NEW(graph->job, struct ig_window);
    ig_window_init(w, graph, region);
    int vector = vector_of(w);
    emit(w, vector);
    w->kernel->threads = THREADS;
    w->kernel->tactic = ig_format(graph->job, "window, %d elements a thread", vector);
    ig_window_finish(w, vector);
    return w->kernel;
}
