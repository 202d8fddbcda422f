/*
 * Convolutions with transformed filters (ir/winograd.h), tile by tile in double precision. Terms with the coefficient 0
 * are left out, so that infinities spread as they do in kernels.
 */
#include "ir/eval/eval_conv.h"
#include "ir/winograd.h"

enum { T = IG_WINOGRAD_INPUTS };

struct winograd {
    struct ig_winograd f;
    const struct ig_view *x, *w; /* x is [N, H, W, C], dense */
    int64_t before[2], dilation, packed, together, columns;
    double border, scale; /* scale: by which results of integer filters are too large; else 1 */
};

/* out = matrix * in * matrix', where matrix is rows x depth. */
static void transform(const double matrix[][T], int rows, int depth, const double in[T][T], double out[T][T]) {
    double half[T][T];
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < depth; j++) {
            half[i][j] = 0;
            for (int k = 0; k < depth; k++)
                if (matrix[i][k] != 0) half[i][j] += matrix[i][k] * in[k][j];
        }
    }
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < rows; j++) {
            out[i][j] = 0;
            for (int k = 0; k < depth; k++)
                if (matrix[j][k] != 0) out[i][j] += matrix[j][k] * half[i][k];
        }
    }
}

static double element(enum ingot_dtype dtype, const char *at) {
    union ig_cell cell;
    ig_cells_load(dtype, at, 0, 1, &cell);
    return ig_cells_are_float(dtype) ? cell.f : (double)cell.i;
}

/* The t x t inputs of a channel from line y and column x on, transformed. */
static void transform_input(const struct winograd *s, int64_t image, int64_t y, int64_t x, int64_t channel,
                            double out[T][T]) {
    double in[T][T];
    for (int i = 0; i < s->f.t; i++) {
        for (int j = 0; j < s->f.t; j++) {
            const int64_t at[] = {image, y + i * s->dilation, x + j * s->dilation, channel};
            bool inside = at[1] >= 0 && at[1] < s->x->dims[1] && at[2] >= 0 && at[2] < s->x->dims[2];
            in[i][j] = inside ? element(s->x->dtype, ig_view_at(s->x, at)) : s->border;
        }
    }
    transform(s->f.input, s->f.t, s->f.t, in, out);
}

static double weight(const struct winograd *s, int64_t column, int64_t channel, int i, int j) {
    const int64_t plain[] = {column, channel, i, j};
    if (!s->packed) return element(s->w->dtype, ig_view_at(s->w, plain));
    const int64_t packed[] = {
        0, column / s->packed, i, j, channel / s->together, column % s->packed, channel % s->together};
    return element(s->w->dtype, ig_view_at(s->w, packed));
}

/* The m x m outputs of a column, from the transformed inputs of all channels. */
static void multiply(const struct winograd *s, const double (*inputs)[T][T], int64_t column, double out[T][T]) {
    double sums[T][T] = {{0}};
    for (int64_t channel = 0; channel < s->x->dims[3]; channel++) {
        for (int i = 0; i < s->f.t; i++)
            for (int j = 0; j < s->f.t; j++)
                sums[i][j] += inputs[channel][i][j] * weight(s, column, channel, i, j);
    }
    transform(s->f.output, s->f.m, s->f.t, sums, out);
}

/* The tile whose first output is (y, x). */
static void tile(const struct winograd *s, double (*inputs)[T][T], int64_t image, int64_t y, int64_t x,
                 const struct ig_view *bias, struct ig_view *out) {
    double results[T][T];
    for (int64_t c = 0; c < s->x->dims[3]; c++)
        transform_input(s, image, y - s->before[0], x - s->before[1], c, inputs[c]);
    for (int64_t column = 0; column < s->columns; column++) {
        multiply(s, inputs, column, results);
        double start = bias ? element(bias->dtype, ig_view_at(bias, &column)) : 0;
        for (int i = 0; i < s->f.m && y + i * s->dilation < out->dims[1]; i++) {
            for (int j = 0; j < s->f.m && x + j * s->dilation < out->dims[2]; j++) {
                const int64_t at[] = {image, y + i * s->dilation, x + j * s->dilation, column};
                double result = results[i][j] / s->scale + start;
                union ig_cell cell = {.f = result};
                if (!ig_cells_are_float(out->dtype)) cell.i = (int64_t)result;
                ig_cells_store(out->dtype, ig_view_at(out, at), 0, 1, &cell);
            }
        }
    }
}

/* The first output of tile number i along an axis. */
static int64_t first_output(const struct winograd *s, int64_t i, int64_t outputs) {
    int64_t of_phase = ig_winograd_tiles(s->f.m, s->dilation, outputs) / s->dilation;
    return i / of_phase + i % of_phase * s->f.m * s->dilation;
}

void ig_eval_winograd(struct ig_eval *ev, int m, const struct ig_view *x, const struct ig_view *w,
                      const struct ig_eval_window *window, const struct ig_view *bias, struct ig_view *out) {
    const int64_t *dims = out->dims, dilation = window->dilation;
    struct winograd s = {.x = x,
                         .w = w,
                         .before = {window->before[0], window->before[1]},
                         .dilation = dilation,
                         .packed = window->packed,
                         .together = window->together,
                         .border = window->border,
                         .scale = w->dtype == INGOT_I16 ? IG_WINOGRAD_SCALE : 1,
                         .columns = dims[3]};
    ig_winograd_init(&s.f, m);
    double(*inputs)[T][T] = ig_eval_scratch(ev, x->dims[3], sizeof *inputs);
    for (int64_t image = 0; image < dims[0]; image++)
        for (int64_t i = 0; i < ig_winograd_tiles(m, dilation, dims[1]); i++)
            for (int64_t j = 0; j < ig_winograd_tiles(m, dilation, dims[2]); j++)
                tile(&s, inputs, image, first_output(&s, i, dims[1]), first_output(&s, j, dims[2]), bias, out);
}
