/*
 * Convolution, as a contraction: rows are output pixels, depth is kernel positions x input channels, columns are output
 * channels. Everything runs channels-last; a channels-first input is copied once, and its result is a transposed view.
 */
#include <string.h>

#include "ir/eval/eval_contract.h"
#include "ir/eval/eval_conv.h"
#include "ir/winograd.h"

enum { MAX_SPATIAL = INGOT_MAX_RANK - 2 };

struct conv {
    struct ig_contraction base;
    struct ig_view x; /* [N, spatial..., C], dense */
    struct ig_view w;
    int spatial;
    int64_t kernel[MAX_SPATIAL], positions; /* product of kernel */
    const int64_t *strides, *dilations;
    int64_t before[MAX_SPATIAL], out_dims[MAX_SPATIAL], after[MAX_SPATIAL];
    int64_t groups, group, channels; /* input channels of a group */
    int64_t packed, together;        /* as in ops.def: NR and G, or 4 with lines together */
    bool depthwise, in_rows;         /* packed = 1 in groups: [kernel..., C], or [kernel..., C/groups, M] */
    union ig_cell border;            /* an element beyond the edges */
    int winograd;                    /* m, if the weights are transformed for F(m x m, 3 x 3); else 0 */
};

/* The input pixel that the row's window reads at kernel position `position`; NULL beyond the edges. */
static const char *input_at(const struct conv *c, int64_t row, int64_t position) {
    int64_t index[INGOT_MAX_RANK] = {0};
    for (int i = c->spatial - 1; i >= 0; i--) {
        int64_t at = row % c->out_dims[i] * c->strides[i] - c->before[i] + position % c->kernel[i] * c->dilations[i];
        if (at < 0 || at >= c->x.dims[1 + i]) return NULL;
        index[1 + i] = at;
        row /= c->out_dims[i];
        position /= c->kernel[i];
    }
    index[0] = row;
    return ig_view_at(&c->x, index);
}

/* Loads `count` channels of the pixel at `at`, or of the border if that is NULL. */
static void load_pixel(const struct conv *c, const char *at, int64_t count, union ig_cell *out_cells) {
    if (at) {
        ig_contract_load(&c->base, c->x.dtype, at, (int64_t)ingot_dtype_size(c->x.dtype), count, out_cells);
    } else {
        for (int64_t i = 0; i < count; i++)
            out_cells[i] = c->border;
    }
}

static void conv_row(const struct ig_contraction *base, int64_t row, union ig_cell *out_cells) {
    const struct conv *c = (const struct conv *)base;
    int64_t size = (int64_t)ingot_dtype_size(c->x.dtype);
    for (int64_t position = 0; position < c->positions; position++) {
        const char *at = input_at(c, row, position);
        load_pixel(c, at ? at + c->group * c->channels * size : NULL, c->channels, out_cells);
        out_cells += c->channels;
    }
}

/* Writes kernel position `position` as per-axis indices to out_index. */
static void kernel_index(const struct conv *c, int64_t position, int64_t *out_index) {
    for (int i = c->spatial - 1; i >= 0; i--) {
        out_index[i] = position % c->kernel[i];
        position /= c->kernel[i];
    }
}

static void conv_columns(const struct ig_contraction *base, int64_t k, int64_t first, int n, union ig_cell *out_cells) {
    const struct conv *c = (const struct conv *)base;
    int64_t index[INGOT_MAX_RANK + 2] = {0}, position = k / c->channels, channel = k % c->channels;
    int64_t size = (int64_t)ingot_dtype_size(c->w.dtype);
    if (!c->packed) { /* [M, C/groups, kernel...] */
        index[0] = c->group * c->base.columns + first;
        index[1] = channel;
        kernel_index(c, position, index + 2);
        ig_contract_load(base, c->w.dtype, ig_view_at(&c->w, index), c->w.strides[0] * size, n, out_cells);
        return;
    }
    if (c->in_rows) { /* [kernel..., C/groups, M] */
        kernel_index(c, position, index);
        index[c->spatial] = channel;
        index[c->spatial + 1] = c->group * c->base.columns + first;
        ig_contract_load(base, c->w.dtype, ig_view_at(&c->w, index), c->w.strides[c->spatial + 1] * size, n, out_cells);
        return;
    }
    /* [groups, panels, kernel..., C/groups, NR], or [groups, panels, kernel..., C/groups/G, NR, G] */
    index[0] = c->group;
    kernel_index(c, position, index + 2);
    index[2 + c->spatial] = channel / c->together;
    if (c->together > 1) index[4 + c->spatial] = channel % c->together;
    for (int64_t column = first; column < first + n; column++) {
        index[1] = column / c->packed;
        index[3 + c->spatial] = column % c->packed;
        ig_contract_load(base, c->w.dtype, ig_view_at(&c->w, index), 0, 1, out_cells++);
    }
}

/* Depthwise convolution: all channels of a pixel at once, with weights [kernel..., C]. */
static void depthwise(struct ig_eval *ev, struct conv *c, const struct ig_view *bias, struct ig_view *out) {
    int64_t n = c->groups, size_out = (int64_t)ingot_dtype_size(out->dtype);
    union ig_cell *weights = ig_eval_scratch(ev, c->positions, (size_t)n * sizeof *weights);
    union ig_cell *x = ig_eval_scratch(ev, n, sizeof *x), *sums = ig_eval_scratch(ev, n, sizeof *sums);
    union ig_cell *start = ig_eval_scratch(ev, n, sizeof *start);
    memset(start, 0, (size_t)n * sizeof *start);
    if (bias) {
        ig_contract_load(&c->base, bias->dtype, bias->data, bias->strides[0] * (int64_t)ingot_dtype_size(bias->dtype),
                         n, start);
    }
    for (int64_t p = 0; p < c->positions; p++) {
        int64_t index[INGOT_MAX_RANK] = {0};
        kernel_index(c, p, index + (c->packed ? 0 : 2));
        if (c->packed && c->together > 1) {
            index[c->spatial + 1] = index[0] % c->together;
            index[0] /= c->together;
        }
        int axis = c->packed ? c->spatial : 0;
        ig_contract_load(&c->base, c->w.dtype, ig_view_at(&c->w, index),
                         c->w.strides[axis] * (int64_t)ingot_dtype_size(c->w.dtype), n, weights + p * n);
    }
    for (int64_t row = 0; row < c->base.rows; row++) {
        memcpy(sums, start, (size_t)n * sizeof *sums);
        for (int64_t p = 0; p < c->positions; p++) {
            const char *at = input_at(c, row, p);
            const union ig_cell *w = weights + p * n;
            if (!at && c->border.f == 0) continue;
            load_pixel(c, at, n, x);
            for (int64_t i = 0; i < n; i++)
                sums[i].f += x[i].f * w[i].f;
        }
        if (!ig_cells_are_float(out->dtype)) {
            for (int64_t i = 0; i < n; i++)
                sums[i].i = (int64_t)sums[i].f;
        }
        ig_cells_store(out->dtype, out->data + row * n * size_out, size_out, n, sums);
    }
}

static void convolve(struct ig_eval *ev, struct conv *c, const struct ig_view *bias, struct ig_view *out) {
    int64_t size = (int64_t)ingot_dtype_size(out->dtype);
    struct ig_view part;
    c->base.row_stride = c->groups * c->base.columns * size;
    c->base.column_stride = size;
    for (c->group = 0; c->group < c->groups; c->group++) {
        c->base.out = out->data + c->group * c->base.columns * size;
        if (bias) {
            part = *bias;
            c->base.bias_stride = bias->strides[0] * (int64_t)ingot_dtype_size(bias->dtype);
            part.data += c->group * c->base.columns * c->base.bias_stride;
            c->base.bias = &part;
        }
        ig_contract(ev, &c->base, c->x.dtype, c->w.dtype);
    }
}

static void check_weights(struct ig_eval *ev, const struct conv *c, int64_t columns) {
    int64_t want[INGOT_MAX_RANK + 2], panels = c->packed ? (columns + c->packed - 1) / c->packed : 0;
    int rank = 0;
    bool in_panels = c->packed && !c->depthwise && !c->in_rows;
    if (!c->packed) want[rank++] = columns * c->groups, want[rank++] = c->channels;
    if (in_panels) want[rank++] = c->groups, want[rank++] = panels;
    bool lines = c->depthwise && c->together > 1;
    for (int i = 0; i < c->spatial; i++)
        want[rank++] = lines && i == 0 ? (c->kernel[0] + 3) / 4 : c->kernel[i] + (c->winograd ? c->winograd - 1 : 0);
    if (c->depthwise) want[rank++] = lines ? (c->groups + 15) / 16 * 16 : c->groups;
    if (lines) want[rank++] = c->together;
    if (c->in_rows) want[rank++] = c->channels, want[rank++] = columns * c->groups;
    if (in_panels) {
        want[rank++] = (c->channels + c->together - 1) / c->together, want[rank++] = c->packed;
        if (c->together > 1) want[rank++] = c->together;
    }
    bool fits = c->w.rank == rank;
    for (int i = 0; fits && i < rank; i++)
        fits = c->w.dims[i] == want[i];
    if (!fits) ig_eval_raise(ev, "the weights do not have the shape that channels, groups and kernel ask for");
}

/* Fills the fields that follow from attributes and shapes; x, w and packed are set already. */
static void conv_shape(struct ig_eval *ev, struct ig_graph *graph, const struct ig_node *node, struct conv *c) {
    const struct ig_attr *kernel = ig_attr(graph, node, IG_ATTR_kernel);
    int64_t channels = c->x.dims[c->x.rank - 1], n = ig_attr_int(graph, node, IG_ATTR_n);
    c->spatial = c->x.rank - 2;
    c->groups = ig_attr_int(graph, node, IG_ATTR_groups);
    if (kernel->count != c->spatial || c->groups < 1 || channels % c->groups != 0 || n % c->groups != 0) {
        ig_eval_raise(ev, "%lld input and %lld output channels do not fall into %lld groups", (long long)channels,
                      (long long)n, (long long)c->groups);
    }
    c->channels = channels / c->groups;
    c->strides = ig_attr(graph, node, IG_ATTR_strides)->ints;
    c->dilations = ig_attr(graph, node, IG_ATTR_dilations)->ints;
    ig_eval_attr_dims(ev, ig_attr(graph, node, IG_ATTR_before), c->before, MAX_SPATIAL);
    ig_eval_attr_dims(ev, ig_attr(graph, node, IG_ATTR_after), c->after, MAX_SPATIAL);
    c->positions = 1;
    c->base.rows = c->x.dims[0];
    for (int i = 0; i < c->spatial; i++) {
        c->kernel[i] = kernel->ints[i];
        c->positions *= c->kernel[i];
        int64_t span = c->x.dims[1 + i] + c->before[i] + c->after[i] - (c->kernel[i] - 1) * c->dilations[i] - 1;
        c->out_dims[i] = span < 0 ? 0 : span / c->strides[i] + 1;
        c->base.rows *= c->out_dims[i];
    }
    c->base.depth = c->positions * c->channels;
    c->base.columns = n / c->groups;
    check_weights(ev, c, c->base.columns);
}

IG_EVAL(conv) {
    bool last = ig_attr_int(graph, node, IG_ATTR_channels_last) != 0;
    const struct ig_view *bias = node->n_in > 2 && in[2].dtype != INGOT_DTYPE_NONE ? &in[2] : NULL;
    if (in[0].rank < 2) ig_eval_raise(ev, "the input has rank %d", in[0].rank);
    struct ig_view x = last ? in[0] : ig_view_move_channels(&in[0], true);
    struct conv c = {.x = ig_view_dense(ev, &x), .w = in[1], .packed = ig_attr_int(graph, node, IG_ATTR_packed)};
    c.winograd = ig_winograd_of(graph, node);
    bool together = c.packed > 0 && c.w.rank == x.rank + 3;
    c.together = together && c.w.dims[x.rank + 2] > 0 ? c.w.dims[x.rank + 2] : 1;
    if (c.packed == 1 && x.rank == 4 && c.w.rank == 4 && c.w.dtype == INGOT_I8) c.together = 4;
    bool unpanelled = c.packed == 1 && ig_attr_int(graph, node, IG_ATTR_groups) > 1 && c.w.rank <= x.rank;
    c.in_rows = unpanelled && c.w.rank == x.rank && c.together == 1;
    c.depthwise = unpanelled && !c.in_rows;
    conv_shape(ev, graph, node, &c);
    c.base.result = (enum ingot_dtype)ig_attr_int(graph, node, IG_ATTR_acc);
    c.border.f = (double)ig_attr_int(graph, node, IG_ATTR_border); /* of bytes, which are summed as double; else 0 */
    c.base.fetch_row = conv_row;
    c.base.fetch_columns = conv_columns;
    int64_t dims[INGOT_MAX_RANK] = {0};
    dims[0] = c.x.dims[0];
    memcpy(dims + 1, c.out_dims, (size_t)c.spatial * sizeof *dims);
    dims[x.rank - 1] = c.base.columns * c.groups;
    out[0] = ig_view_new(ev, c.base.result, x.rank, dims);
    if (c.winograd) {
        const struct ig_eval_window window = {
            {c.before[0], c.before[1]}, c.dilations[0], c.border.f, c.packed, c.together};
        ig_eval_winograd(ev, c.winograd, &c.x, &c.w, &window, bias, &out[0]);
    } else if (ig_view_elements(&out[0]) != 0) {
        bool as_double = ig_cells_are_float(c.x.dtype) || ingot_dtype_size(c.x.dtype) <= 2;
        bool one = c.packed == 0 && c.channels == 1 && c.base.columns == 1 && as_double;
        (c.depthwise || one ? depthwise : convolve)(ev, &c, bias, &out[0]);
    }
    if (!last) out[0] = ig_view_move_channels(&out[0], false);
}
