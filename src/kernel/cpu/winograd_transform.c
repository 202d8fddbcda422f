/* The transforms of Winograd's convolutions: of tiles of inputs, and of the products' results. See winograd.h. */
#include "kernel/cpu/winograd.h"

/* Where a tile lies. */
struct place {
    ig_x image, y, x; /* of its first output */
};

static ig_x num(struct ig_winograd_conv *s, int64_t i) {
    return ig_x_index(s->k, i);
}

static ig_dim constant(struct ig_winograd_conv *s, int64_t i) {
    return ig_dim_const(s->k->dims, i);
}

static struct ig_stmt *loop(struct ig_winograd_conv *s, struct ig_stmt *body, enum ig_for_kind kind, ig_x hi,
                            ig_x *out_var) {
    return ig_s_for(s->k, body, kind, num(s, 0), hi, num(s, 1), out_var);
}

/* ---- Transforms -------------------------------------------------------------------------------------------------- */

static ig_x number(struct ig_winograd_conv *s, double value) {
    if (ig_dtype_is_float(s->c->dtype)) return ig_x_float(s->k, s->c->dtype, value);
    return ig_x_int(s->k, s->c->dtype, (int64_t)value);
}

/* sum + factor * value; sum may be IG_NO_X. */
static ig_x add_scaled(struct ig_winograd_conv *s, ig_x sum, double factor, ig_x value) {
    if (factor == 0 || value == IG_NO_X) return sum;
    if (sum != IG_NO_X && factor == -1) return ig_x_map2(s->k, IG_OP_sub, sum, value);
    if (factor != 1) value = ig_x_map2(s->k, IG_OP_mul, value, number(s, factor));
    return sum == IG_NO_X ? value : ig_x_map2(s->k, IG_OP_add, sum, value);
}

/* The sum of row[i] * in[i] over even or odd i, divided by the last factor, which *out_factor receives. */
static ig_x sum_of_parity(struct ig_winograd_conv *s, const double *row, const ig_x *in, int parity,
                          double *out_factor) {
    ig_x sum = IG_NO_X;
    *out_factor = 0;
    for (int i = parity; i < s->f.t; i += 2)
        if (row[i] != 0) *out_factor = row[i];
    for (int i = s->f.t - 1; i >= 0; i--)
        if (i % 2 == parity && row[i] != 0) sum = add_scaled(s, sum, row[i] / *out_factor, in[i]);
    return sum;
}

/* out = B' * in. The rows of p and -p are the same but for the sign of their odd part, which is computed once. */
static void transform_input(struct ig_winograd_conv *s, const ig_x *in, ig_x *out) {
    for (int i = 0; i < s->f.t; i++) {
        double even_factor, odd_factor;
        ig_x even = sum_of_parity(s, s->f.input[i], in, 0, &even_factor);
        ig_x odd = sum_of_parity(s, s->f.input[i], in, 1, &odd_factor);
        out[i] = add_scaled(s, add_scaled(s, IG_NO_X, even_factor, even), odd_factor, odd);
    }
}

/* out = A' * in. The factors of p and -p are the same but for the sign, so that sums and differences of the two inputs
 * do for all rows. */
static void transform_result(struct ig_winograd_conv *s, const ig_x *in, ig_x *out) {
    int last = s->f.t - 1;
    for (int i = 0; i < s->f.m; i++) {
        const double *row = s->f.output[i];
        out[i] = add_scaled(s, IG_NO_X, row[0], in[0]);
        for (int j = 1; j < last; j += 2) {
            ig_x both = ig_x_map2(s->k, row[j] == row[j + 1] ? IG_OP_add : IG_OP_sub, in[j], in[j + 1]);
            out[i] = add_scaled(s, out[i], row[j], both);
        }
        out[i] = add_scaled(s, out[i], row[last], in[last]);
    }
}

/* A one-dimensional transform along both axes: of the columns of in[t][t] to `count` each, then of the rows. */
static void transform_both(struct ig_winograd_conv *s,
                           void (*transform)(struct ig_winograd_conv *, const ig_x *, ig_x *), int count,
                           ig_x in[][IG_WINOGRAD_INPUTS], ig_x out[][IG_WINOGRAD_INPUTS]) {
    ig_x half[IG_WINOGRAD_INPUTS][IG_WINOGRAD_INPUTS] = {{0}};
    ig_x column[IG_WINOGRAD_INPUTS] = {0}, to[IG_WINOGRAD_INPUTS] = {0};
    for (int j = 0; j < s->f.t; j++) {
        for (int i = 0; i < s->f.t; i++)
            column[i] = in[i][j];
        transform(s, column, to);
        for (int i = 0; i < count; i++)
            half[i][j] = to[i];
    }
    for (int i = 0; i < count; i++)
        transform(s, half[i], out[i]);
}

/* ---- Inputs ------------------------------------------------------------------------------------------------------ */

/* The first output of a tile, by its number along an axis. */
static ig_x first_output(struct ig_winograd_conv *s, ig_x tile, int axis) {
    ig_x nth = ig_x_split_off(s->k, &tile, constant(s, s->tiles[axis] / s->dilation));
    return ig_x_add(s->k, tile, ig_x_mul(s->k, nth, num(s, s->f.m * s->dilation)));
}

static struct place place_of(struct ig_winograd_conv *s, ig_x row) {
    ig_x across = ig_x_split_off(s->k, &row, constant(s, s->tiles[1]));
    ig_x down = ig_x_split_off(s->k, &row, constant(s, s->tiles[0]));
    return (struct place){row, first_output(s, down, 0), first_output(s, across, 1)};
}

/* 0 <= at and at + size <= all */
static ig_x within(struct ig_winograd_conv *s, ig_x at, int64_t size, int64_t all) {
    ig_x low = ig_x_less(s->k, num(s, -1), at);
    return ig_x_and(s->k, low, ig_x_less(s->k, at, num(s, all - size + 1)));
}

/* The element of the input i positions down and j across from `index`, both times the dilation. */
static ig_x input_at(struct ig_winograd_conv *s, const ig_x *index, int64_t i, int64_t j) {
    struct ig_loops *k = s->k;
    struct ig_contract *c = s->c;
    ig_value input = c->node.in[0];
    i *= s->dilation;
    j *= s->dilation;
    if (!c->lower.is_input[input]) { /* through views */
        const ig_x at[] = {index[0], ig_x_add(k, index[1], num(s, i)), ig_x_add(k, index[2], num(s, j)), index[3]};
        return ig_x_cast(k, ig_lower_value(&c->lower, input, at), c->dtype, false);
    }
    ig_x at = ig_x_add(k, ig_x_mul(k, index[0], num(s, s->in_size[0])), index[1]);
    at = ig_x_add(k, ig_x_mul(k, at, num(s, s->in_size[1])), index[2]);
    at = ig_x_add(k, ig_x_mul(k, at, num(s, s->channels)), index[3]);
    at = ig_x_add(k, at, num(s, (i * s->in_size[1] + j) * s->channels));
    return ig_x_cast(k, ig_x_load(k, c->lower.buffer_of[input], at), c->dtype, false);
}

/* The position in the window of a channel of input (i, j). */
static ig_x window_at(struct ig_winograd_conv *s, ig_x i, ig_x j, ig_x channel) {
    ig_x at = ig_x_add(s->k, ig_x_mul(s->k, i, num(s, s->f.t)), j);
    return ig_x_add(s->k, ig_x_mul(s->k, at, num(s, s->channels)), channel);
}

/* Copies the t x t inputs from (y, x) on to the window, the border where there is no image. */
static void copy_window(struct ig_winograd_conv *s, struct ig_stmt *body, ig_x image, ig_x y, ig_x x) {
    struct ig_loops *k = s->k;
    ig_x i, j, channel;
    body = loop(s, body, IG_FOR_SERIAL, num(s, s->f.t), &i);
    body = loop(s, body, IG_FOR_SERIAL, num(s, s->f.t), &j);
    y = ig_x_add(k, y, ig_x_mul(k, i, num(s, s->dilation)));
    x = ig_x_add(k, x, ig_x_mul(k, j, num(s, s->dilation)));
    ig_x inside = ig_x_and(k, within(s, y, 1, s->in_size[0]), within(s, x, 1, s->in_size[1]));
    struct ig_stmt *copy = ig_s_if(k, body, inside), *fill = ig_s_if(k, body, ig_x_map1(k, IG_OP_not, inside));
    copy = loop(s, copy, IG_FOR_SIMD, num(s, s->channels), &channel);
    ig_x value = input_at(s, (const ig_x[]){image, y, x, channel}, 0, 0);
    ig_s_store(k, copy, s->window, window_at(s, i, j, channel), value);
    fill = loop(s, fill, IG_FOR_SIMD, num(s, s->channels), &channel);
    ig_s_store(k, fill, s->window, window_at(s, i, j, channel), number(s, (double)ig_contract_border(s->c)));
}

/* Stores t x t inputs of a channel, transformed, to row `row` of the matrices. */
static void store_inputs(struct ig_winograd_conv *s, struct ig_stmt *body, ig_x in[][IG_WINOGRAD_INPUTS], ig_x row,
                         ig_x channel) {
    struct ig_loops *k = s->k;
    ig_x out[IG_WINOGRAD_INPUTS][IG_WINOGRAD_INPUTS] = {{0}};
    transform_both(s, transform_input, s->f.t, in, out);
    ig_x to = ig_x_add(k, ig_x_mul(k, row, num(s, s->lda)), channel);
    for (int i = 0; i < s->f.t; i++) {
        for (int j = 0; j < s->f.t; j++) {
            int64_t matrix = (i * s->f.t + j) * s->chunk_rows * s->lda;
            ig_s_store(k, body, s->inputs, ig_x_add(k, to, num(s, matrix)), out[i][j]);
        }
    }
}

void ig_winograd_inputs(struct ig_winograd_conv *s, struct ig_stmt *body, ig_x start, ig_x rows) {
    struct ig_loops *k = s->k;
    ig_x row, channel, in[IG_WINOGRAD_INPUTS][IG_WINOGRAD_INPUTS] = {{0}};
    body = loop(s, body, IG_FOR_SERIAL, rows, &row);
    struct place at = place_of(s, ig_x_add(k, start, row));
    ig_x y = ig_x_sub(k, at.y, num(s, s->before[0])), x = ig_x_sub(k, at.x, num(s, s->before[1]));
    int64_t size = (s->f.t - 1) * s->dilation + 1;
    ig_x inside = ig_x_and(k, within(s, y, size, s->in_size[0]), within(s, x, size, s->in_size[1]));
    struct ig_stmt *whole = ig_s_if(k, body, inside), *edge = ig_s_if(k, body, ig_x_map1(k, IG_OP_not, inside));

    whole = loop(s, whole, IG_FOR_SIMD, num(s, s->channels), &channel);
    for (int i = 0; i < s->f.t; i++)
        for (int j = 0; j < s->f.t; j++)
            in[i][j] = input_at(s, (const ig_x[]){at.image, y, x, channel}, i, j);
    store_inputs(s, whole, in, row, channel);

    copy_window(s, edge, at.image, y, x);
    edge = loop(s, edge, IG_FOR_SIMD, num(s, s->channels), &channel);
    for (int i = 0; i < s->f.t; i++)
        for (int j = 0; j < s->f.t; j++)
            in[i][j] = ig_x_load(k, s->window, window_at(s, num(s, i), num(s, j), channel));
    store_inputs(s, edge, in, row, channel);
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

/* Integer filters are larger than others. */
static ig_x scaled(struct ig_winograd_conv *s, ig_x sum) {
    enum { SHIFT = 2 };
    if (ig_dtype_is_float(s->c->dtype)) return sum;
    return ig_x_map2(s->k, IG_OP_shr, sum, number(s, SHIFT));
}

/* Transforms row `row` of the results to the tile's sums. */
static void transform_row(struct ig_winograd_conv *s, struct ig_stmt *body, ig_x row) {
    struct ig_loops *k = s->k;
    ig_x column, in[IG_WINOGRAD_INPUTS][IG_WINOGRAD_INPUTS] = {{0}},
                 out[IG_WINOGRAD_INPUTS][IG_WINOGRAD_INPUTS] = {{0}};
    body = loop(s, body, IG_FOR_SIMD, num(s, s->p.nr), &column);
    ig_x from = ig_x_add(k, ig_x_mul(k, row, num(s, s->p.nr)), column);
    for (int i = 0; i < s->f.t; i++)
        for (int j = 0; j < s->f.t; j++)
            in[i][j] = ig_x_load(k, s->results, ig_x_add(k, from, num(s, (i * s->f.t + j) * s->chunk_rows * s->p.nr)));
    transform_both(s, transform_result, s->f.m, in, out);
    for (int i = 0; i < s->f.m; i++)
        for (int j = 0; j < s->f.m; j++)
            ig_s_store(k, body, s->sums, ig_x_add(k, column, num(s, (i * s->f.m + j) * s->p.nr)), scaled(s, out[i][j]));
}

/* How many outputs a tile has from position `at` on along an axis. */
static ig_x outputs_from(struct ig_winograd_conv *s, ig_x at, int axis) {
    struct ig_loops *k = s->k;
    ig_x left = ig_x_sub(k, num(s, s->out_size[axis] + s->dilation - 1), at);
    if (s->dilation > 1) left = ig_x_div(k, ig_x_max(k, left, num(s, 0)), num(s, s->dilation));
    return ig_x_min(k, num(s, s->f.m), left);
}

/* The epilogue takes outputs that follow each other: a line of a tile, or with a dilation each by itself. */
void ig_winograd_results(struct ig_winograd_conv *s, struct ig_stmt *body, ig_x start, ig_x rows) {
    struct ig_loops *k = s->k;
    ig_x row, line, column = num(s, 0);
    body = loop(s, body, IG_FOR_SERIAL, rows, &row);
    transform_row(s, body, row);
    struct place at = place_of(s, ig_x_add(k, start, row));
    ig_x width = outputs_from(s, at.x, 1);
    body = loop(s, body, IG_FOR_SERIAL, outputs_from(s, at.y, 0), &line);
    if (s->dilation > 1) {
        body = loop(s, body, IG_FOR_SERIAL, width, &column);
        width = num(s, 1);
    }
    ig_x y = ig_x_add(k, at.y, ig_x_mul(k, line, num(s, s->dilation)));
    ig_x x = ig_x_add(k, at.x, ig_x_mul(k, column, num(s, s->dilation)));
    ig_x sums = ig_x_add(k, ig_x_mul(k, line, num(s, s->f.m)), column);
    ig_columns_epilogue(s->c, &s->p, body, at.image, s->panel, ig_x_add(k, ig_x_mul(k, y, num(s, s->out_size[1])), x),
                        width, s->sums, ig_x_mul(k, sums, num(s, s->p.nr)));
}
