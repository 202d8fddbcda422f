/* Pooling: all channels of an output pixel at once, channels-last as in eval_conv.c. */
#include <math.h>
#include <string.h>

#include "ir/eval/eval_op.h"

enum { MAX_SPATIAL = INGOT_MAX_RANK - 2 };

struct window {
    struct ig_view x; /* [N, spatial..., C], dense */
    int spatial;
    int64_t channels;
    const int64_t *kernel, *strides, *dilations;
    int64_t before[MAX_SPATIAL], after[MAX_SPATIAL], sizes[MAX_SPATIAL];
    int64_t batch;
    int64_t index[MAX_SPATIAL]; /* of the current window */
    int64_t at[MAX_SPATIAL];    /* of its current position in the input */
};

static void window_begin(struct ig_eval *ev, struct ig_graph *graph, const struct ig_node *node,
                         const struct ig_view *in, struct window *w) {
    *w = (struct window){0};
    if (in->rank < 2) ig_eval_raise(ev, "the input has rank %d", in->rank);
    bool last = ig_attr_int(graph, node, IG_ATTR_channels_last) != 0;
    struct ig_view x = last ? *in : ig_view_move_channels(in, true);
    w->x = ig_view_dense(ev, &x);
    w->spatial = in->rank - 2;
    w->channels = w->x.dims[in->rank - 1];
    w->kernel = ig_attr(graph, node, IG_ATTR_kernel)->ints;
    w->strides = ig_attr(graph, node, IG_ATTR_strides)->ints;
    w->dilations = ig_attr(graph, node, IG_ATTR_dilations)->ints;
    ig_eval_attr_dims(ev, ig_attr(graph, node, IG_ATTR_before), w->before, MAX_SPATIAL);
    if (ig_eval_attr_dims(ev, ig_attr(graph, node, IG_ATTR_sizes), w->sizes, MAX_SPATIAL) != w->spatial) {
        ig_eval_raise(ev, "sizes for %d axes expected", w->spatial);
    }
}

static struct ig_view window_result(struct ig_eval *ev, const struct window *w, enum ingot_dtype dtype) {
    int64_t dims[INGOT_MAX_RANK] = {w->x.dims[0]};
    memcpy(dims + 1, w->sizes, (size_t)w->spatial * sizeof *dims);
    dims[w->x.rank - 1] = w->channels;
    return ig_view_new(ev, dtype, w->x.rank, dims);
}

/* Calls visit for each position of the current window that lies in the input; returns their number. */
static int64_t visit_window(struct window *w, void (*visit)(void *user, const struct window *w, const char *pixel),
                            void *user) {
    int64_t position[MAX_SPATIAL] = {0}, index[INGOT_MAX_RANK] = {0}, count = 0;
    index[0] = w->batch;
    do {
        bool inside = true;
        for (int i = 0; i < w->spatial; i++) {
            w->at[i] = w->index[i] * w->strides[i] - w->before[i] + position[i] * w->dilations[i];
            inside &= w->at[i] >= 0 && w->at[i] < w->x.dims[1 + i];
            index[1 + i] = w->at[i];
        }
        if (!inside) continue;
        count++;
        visit(user, w, ig_view_at(&w->x, index));
    } while (ig_advance(w->spatial, w->kernel, position));
    return count;
}

/* Advances to the next window, from batch and index 0 on. */
static bool next_window(struct window *w) {
    if (ig_advance(w->spatial, w->sizes, w->index)) return true;
    return ++w->batch < w->x.dims[0];
}

/* ---- Maximum */

struct maximum {
    union ig_cell *best, *row;
    int64_t *where; /* flat index of the maximum in the channels-first input, without channel; may be NULL */
    bool column_major;
    bool any;
};

static bool greater(enum ingot_dtype dtype, union ig_cell a, union ig_cell b) {
    if (ig_cells_are_float(dtype)) return a.f > b.f || (isnan(a.f) && !isnan(b.f));
    return dtype == INGOT_U64 ? (uint64_t)a.i > (uint64_t)b.i : a.i > b.i;
}

static int64_t flat_position(const struct window *w, bool column_major) {
    int64_t flat = 0;
    for (int i = 0; i < w->spatial; i++) {
        int axis = column_major ? w->spatial - 1 - i : i;
        flat = flat * w->x.dims[1 + axis] + w->at[axis];
    }
    return flat;
}

static void visit_maximum(void *user, const struct window *w, const char *pixel) {
    struct maximum *m = user;
    enum ingot_dtype dtype = w->x.dtype;
    int64_t flat = m->where ? flat_position(w, m->column_major) : 0;
    ig_cells_load(dtype, pixel, (int64_t)ingot_dtype_size(dtype), w->channels, m->row);
    for (int64_t c = 0; c < w->channels; c++) {
        if (m->any && !greater(dtype, m->row[c], m->best[c])) continue;
        m->best[c] = m->row[c];
        if (m->where) m->where[c] = flat;
    }
    m->any = true;
}

/* The maximum of an empty window: the type's lowest value. */
static union ig_cell lowest(enum ingot_dtype dtype) {
    int bits = 8 * (int)ingot_dtype_size(dtype);
    if (ig_cells_are_float(dtype)) return (union ig_cell){.f = -INFINITY};
    bool is_signed = dtype == INGOT_I8 || dtype == INGOT_I16 || dtype == INGOT_I32 || dtype == INGOT_I64;
    return (union ig_cell){.i = is_signed ? INT64_MIN >> (64 - bits) : 0};
}

/* The maxima, or their indices. */
static void pool_maximum(struct ig_eval *ev, struct window *w, bool positions, bool column_major, struct ig_view *out) {
    enum ingot_dtype dtype = w->x.dtype;
    struct maximum m = {.best = ig_eval_scratch(ev, w->channels, sizeof *m.best),
                        .row = ig_eval_scratch(ev, w->channels, sizeof *m.row),
                        .column_major = column_major};
    if (positions) m.where = ig_eval_scratch(ev, w->channels, sizeof *m.where);
    int64_t plane = 1, size = (int64_t)ingot_dtype_size(out->dtype);
    for (int i = 0; i < w->spatial; i++)
        plane *= w->x.dims[1 + i];
    char *to = out->data;
    if (ig_view_elements(out) == 0) return;
    do {
        m.any = false;
        if (visit_window(w, visit_maximum, &m) == 0) {
            for (int64_t c = 0; c < w->channels; c++)
                m.best[c] = lowest(dtype);
            if (positions) memset(m.where, 0, (size_t)w->channels * sizeof *m.where);
        }
        for (int64_t c = 0; positions && c < w->channels; c++) {
            m.best[c].i = (w->batch * w->channels + c) * plane + m.where[c];
        }
        ig_cells_store(out->dtype, to, size, w->channels, m.best);
        to += w->channels * size;
    } while (next_window(w));
}

IG_EVAL(pool_max) {
    struct window w;
    window_begin(ev, graph, node, &in[0], &w);
    out[0] = window_result(ev, &w, in[0].dtype);
    pool_maximum(ev, &w, false, false, &out[0]);
    if (!ig_attr_int(graph, node, IG_ATTR_channels_last)) out[0] = ig_view_move_channels(&out[0], false);
}

IG_EVAL(pool_argmax) {
    struct window w;
    window_begin(ev, graph, node, &in[0], &w);
    out[0] = window_result(ev, &w, INGOT_I64);
    pool_maximum(ev, &w, true, ig_attr_int(graph, node, IG_ATTR_column_major) != 0, &out[0]);
    if (!ig_attr_int(graph, node, IG_ATTR_channels_last)) out[0] = ig_view_move_channels(&out[0], false);
}

/* ---- Sum and average */

struct total {
    union ig_cell *sums, *row;
};

static void visit_sum(void *user, const struct window *w, const char *pixel) {
    struct total *t = user;
    enum ingot_dtype dtype = w->x.dtype;
    bool is_float = ig_cells_are_float(dtype);
    ig_cells_load(dtype, pixel, (int64_t)ingot_dtype_size(dtype), w->channels, t->row);
    for (int64_t c = 0; c < w->channels; c++) {
        if (is_float) {
            t->sums[c].f += t->row[c].f;
        } else {
            t->sums[c].i = (int64_t)((uint64_t)t->sums[c].i + (uint64_t)t->row[c].i);
        }
    }
}

/* The positions of the current window within input and padding; what reaches beyond the padding is not counted. */
static int64_t padded_count(const struct window *w) {
    int64_t count = 1;
    for (int i = 0; i < w->spatial; i++) {
        int64_t inside = 0;
        for (int64_t p = 0; p < w->kernel[i]; p++) {
            int64_t at = w->index[i] * w->strides[i] - w->before[i] + p * w->dilations[i];
            inside += at >= -w->before[i] && at < w->x.dims[1 + i] + w->after[i];
        }
        count *= inside;
    }
    return count;
}

enum divisor { DIVIDE_BY_NOTHING, DIVIDE_BY_INSIDE, DIVIDE_BY_PADDED };

static void pool_total(struct ig_eval *ev, struct window *w, enum divisor divisor, struct ig_view *out) {
    int64_t size = (int64_t)ingot_dtype_size(out->dtype);
    bool is_float = ig_cells_are_float(out->dtype);
    struct total t = {ig_eval_scratch(ev, w->channels, sizeof *t.sums),
                      ig_eval_scratch(ev, w->channels, sizeof *t.row)};
    char *to = out->data;
    if (ig_view_elements(out) == 0) return;
    do {
        memset(t.sums, 0, (size_t)w->channels * sizeof *t.sums);
        int64_t count = visit_window(w, visit_sum, &t);
        if (divisor == DIVIDE_BY_PADDED) count = padded_count(w);
        for (int64_t c = 0; divisor != DIVIDE_BY_NOTHING && c < w->channels; c++) {
            if (is_float) {
                t.sums[c].f /= (double)count;
            } else {
                t.sums[c].i = count ? t.sums[c].i / count : 0;
            }
        }
        ig_cells_store(out->dtype, to, size, w->channels, t.sums);
        to += w->channels * size;
    } while (next_window(w));
}

static void pool_sums(struct ig_eval *ev, struct ig_graph *graph, const struct ig_node *node, const struct ig_view *in,
                      bool average, struct ig_view *out) {
    struct window w;
    enum divisor divisor = DIVIDE_BY_NOTHING;
    window_begin(ev, graph, node, in, &w);
    if (average) {
        ig_eval_attr_dims(ev, ig_attr(graph, node, IG_ATTR_after), w.after, MAX_SPATIAL);
        divisor = ig_attr_int(graph, node, IG_ATTR_count_pad) ? DIVIDE_BY_PADDED : DIVIDE_BY_INSIDE;
    }
    *out = window_result(ev, &w, in->dtype);
    pool_total(ev, &w, divisor, out);
    if (!ig_attr_int(graph, node, IG_ATTR_channels_last)) *out = ig_view_move_channels(out, false);
}

IG_EVAL(pool_sum) {
    pool_sums(ev, graph, node, &in[0], false, &out[0]);
}

IG_EVAL(pool_avg) {
    pool_sums(ev, graph, node, &in[0], true, &out[0]);
}
