/*
 * Pooling on GPUs: one thread per output element or, channels-last, per as many neighbouring channels as one 16-byte
 * access holds, and per strip of neighbouring windows along the last axis: first the results of its columns, then those
 * of windows from their columns, so that 4 windows of 3 x 3 load 6 columns, not 12. Small windows are unrolled, so that all their
 * loads are in flight together. See window.h.
 */
#include "kernel/family/window.h"
#include "kernel/schedules.h"

enum { THREADS = 128, MOST_TAPS = 32, MOST_STRIP = 4 };

static ig_x num(struct ig_window *w, int64_t i) {
    return ig_x_index(w->k, i);
}

/* Does the region read what it pools through a cast from a narrower type? */
static bool is_widened(const struct ig_window *w) {
    const struct ig_node *cast = ig_def_op(w->graph, w->node.in[0], IG_OP_cast);
    for (uint32_t i = 0; i < w->region->inputs.count; i++) {
        if (w->region->inputs.at[i] == w->node.in[0]) return false;
    }
    return cast && ingot_dtype_size(ig_type_of(w->graph, cast->in[0])->dtype) < ingot_dtype_size(w->dtype);
}

/* Channels per thread: 16 bytes, at most 8, of the pooled type. */
static int vector_of(struct ig_window *w) {
    struct ig_dims *dims = w->k->dims;
    const struct ig_type *in = ig_type_of(w->graph, w->node.in[0]), *out = ig_type_of(w->graph, w->node.out);
    if (!w->last || ig_is_literal(w->graph, w->node.in[0])) return 1;
    int bytes = (int)ingot_dtype_size(in->dtype), most = 8;
    while (most > 1 && (most * bytes > 16 || !ig_dim_divides(dims, ig_dim_const(dims, most), out->dim[w->spatial + 1])))
        most /= 2;
    return most;
}

/* Columns that the windows of a strip read. */
static int64_t columns_of(const struct ig_window *w, int strip) {
    const struct ig_axis *a = &w->axis[w->spatial - 1];
    return (strip - 1) * a->stride + a->taps;
}

static bool is_small(const struct ig_window *w) {
    int64_t taps = 1;
    for (int i = 0; i < w->spatial; i++)
        taps = taps > MOST_TAPS ? taps : taps * w->axis[i].taps;
    return taps <= MOST_TAPS;
}

/* The output's dims in memory order, with channels counted in vectors and positions along the last axis in strips; returns
 * their product. */
static ig_dim places(struct ig_window *w, int vector, int strip, struct ig_type *out_space) {
    struct ig_dims *dims = w->k->dims;
    *out_space = *ig_type_of(w->graph, w->node.out);
    if (strip > 1) {
        ig_dim *last = &out_space->dim[w->spatial];
        *last = ig_dim_ceil_div(dims, *last, ig_dim_const(dims, strip));
    }
    ig_dim *channels = &out_space->dim[w->last ? w->spatial + 1 : 1];
    *channels = ig_dim_div(dims, *channels, ig_dim_const(dims, vector));
    return ig_type_elements(dims, out_space);
}

/* Is there work for all processors? Threads with many loads take longer each, and must be more. */
static bool fills(struct ig_window *w, int vector, int strip, const struct ig_sizes *at) {
    enum { USUAL = 18 /* loads: of 4 windows of 3 x 3 */ };
    struct ig_type space;
    int64_t loads = columns_of(w, strip);
    for (int i = 0; i < w->spatial - 1; i++)
        loads *= w->axis[i].taps;
    const double times = loads > USUAL ? (double)(loads * loads) / (USUAL * USUAL) : 1;
    return (double)ig_sizes_guess(at, places(w, vector, strip, &space)) >= times * THREADS * IG_CUDA_PROCESSORS;
}

/* Windows along the last axis that a thread does together: of those that have half of their columns in common, as many as leave work for all
 * processors. If there is enough, it also has as many channels as 16 bytes of memory hold. */
static int strip_of(struct ig_window *w, const struct ig_sizes *at, int *inout_vector) {
    const struct ig_axis *a = &w->axis[w->spatial - 1];
    int strip = MOST_STRIP, wide = 2 * *inout_vector;
    if (*inout_vector == 1 || !is_small(w) || ig_window_is_argmax(w) || a->dilation != 1 || 2 * a->stride > a->taps)
        return 1;
    const struct ig_type *out = ig_type_of(w->graph, w->node.out);
    bool divides = ig_dim_divides(w->k->dims, ig_dim_const(w->k->dims, wide), out->dim[w->spatial + 1]);
    if (is_widened(w) && divides && fills(w, wide, strip, at)) *inout_vector = wide;
    while (strip > 1 && !fills(w, *inout_vector, strip, at))
        strip /= 2;
    return strip;
}

/* Of the running results, as many as a thread has columns. */
static void use_vector(struct ig_window *w, int vector, int64_t columns) {
    w->lanes = num(w, vector);
    w->lane_kind = IG_FOR_VECTOR;
    w->best = ig_loops_spread(w->k, w->dtype, THREADS, columns * vector, "best");
    if (ig_window_is_argmax(w)) w->place = ig_loops_spread(w->k, INGOT_I64, THREADS, vector, "place");
}

/* The columns of a strip, then its windows. */
static void emit_strip(struct ig_window *w, struct ig_stmt *body, int vector, int strip, ig_x thread) {
    struct ig_loops *k = w->k;
    const struct ig_axis *a = &w->axis[w->spatial - 1];
    const int64_t columns = columns_of(w, strip);
    ig_x column, window, base = ig_x_mul(k, thread, num(w, columns * vector));
    ig_x first = ig_x_mul(k, w->at[w->spatial - 1], num(w, strip));
    ig_x begin = ig_x_sub(k, ig_x_mul(k, first, num(w, a->stride)), ig_x_dim(k, a->before));
    use_vector(w, vector, columns);
    struct ig_stmt *each = ig_s_for(k, body, IG_FOR_UNROLL, num(w, 0), num(w, columns), num(w, 1), &column);
    w->column = ig_x_add(k, begin, column);
    w->base = ig_x_add(k, base, ig_x_mul(k, column, num(w, vector)));
    ig_window_begin(w, each);
    ig_window_visit(w, each);
    each = ig_s_for(k, body, IG_FOR_UNROLL, num(w, 0), num(w, strip), num(w, 1), &window);
    w->at[w->spatial - 1] = ig_x_add(k, first, window);
    if (!ig_dim_divides(k->dims, ig_dim_const(k->dims, strip), a->out))
        each = ig_s_if(k, each, ig_x_less(k, w->at[w->spatial - 1], ig_x_dim(k, a->out)));
    w->base = ig_x_add(k, base, ig_x_mul(k, window, num(w, a->stride * vector)));
    w->columns = a->taps;
    w->pitch = vector;
    ig_window_store(w, each);
}

static void emit(struct ig_window *w, int vector, int strip) {
    struct ig_loops *k = w->k;
    struct ig_type space;
    ig_x tile, thread, index[INGOT_MAX_RANK];
    ig_dim count = places(w, vector, strip, &space);
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
    w->unroll = is_small(w);
    if (strip > 1) {
        emit_strip(w, body, vector, strip, thread);
        return;
    }
    if (vector > 1) {
        use_vector(w, vector, 1);
        w->base = ig_x_mul(k, thread, num(w, vector));
    }
    ig_window_begin(w, body);
    ig_window_visit(w, body);
    ig_window_store(w, body);
}

struct ig_kernel *ig_kernel_window_cuda(struct ig_graph *graph, const struct ig_region *region,
                                        const struct ig_target *target, const struct ig_sizes *at) {
    (void)target;
    struct ig_window *w = IG_NEW(graph->job, struct ig_window);
    ig_window_init(w, graph, region);
    int vector = vector_of(w), strip = strip_of(w, at, &vector);
    emit(w, vector, strip);
    w->kernel->threads = THREADS;
    w->kernel->tactic = ig_format(graph->job, "window, %d elements by %d a thread", vector, strip);
    ig_window_finish(w, vector);
    return w->kernel;
}
