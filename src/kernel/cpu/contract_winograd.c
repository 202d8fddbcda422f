/*
 * The schedule for convolutions with transformed filters (ir/winograd.h).
 *
 * The outputs of all images are divided into tiles of m x m. A tile's t x t inputs are one row of each of t*t matrices
 * [tiles, channels]; each is multiplied by its matrix of weights [channels, columns], by the micro-kernel of all products;
 * and a row of the t*t results gives the tile's m x m outputs. All three steps are done for a chunk of tiles and one panel
 * of columns at a time, so that what lies between them stays in the caches.
 *
 * A unit of work is a chunk of blocks of tiles (a block is what the micro-kernel takes at once) and a group of panels.
 * Units of the same chunk follow each other, and only the first of a call transforms the inputs. Inputs at the edge of an
 * image are first copied, with zeros around them.
 */
#include "ir/winograd.h"
#include "kernel/cpu/contract.h"

struct winograd {
    struct ig_contract *c;
    struct ig_loops *k;
    struct ig_columns p;
    struct ig_winograd f;
    int64_t before[2], in_size[2], out_size[2], channels;
    int64_t dilation;
    int64_t tiles[2];                 /* along each axis of an image; of its phases in turn */
    ig_dim rows;                      /* tiles of all images */
    struct ig_row_blocks blocks;      /* of rows */
    int64_t chunk_blocks, chunk_rows; /* at most, per chunk */
    int64_t group_panels;             /* at most, per group */
    ig_dim chunks, groups;
    int64_t lda;                       /* elements per row of transformed inputs */
    int window, inputs, results, sums; /* buffers */
    ig_x panel;                        /* that is being emitted */
};

/* Where a tile lies. */
struct place {
    ig_x image, y, x; /* of its first output */
};

static ig_x num(struct winograd *s, int64_t i) {
    return ig_x_index(s->k, i);
}

static ig_x dim(struct winograd *s, ig_dim d) {
    return ig_x_dim(s->k, d);
}

static ig_dim constant(struct winograd *s, int64_t i) {
    return ig_dim_const(s->k->dims, i);
}

static struct ig_stmt *loop(struct winograd *s, struct ig_stmt *body, enum ig_for_kind kind, ig_x hi, ig_x *out_var) {
    return ig_s_for(s->k, body, kind, num(s, 0), hi, num(s, 1), out_var);
}

static int64_t squares(const struct winograd *s) {
    return (int64_t)s->f.t * s->f.t;
}

/* ---- Does it apply? ---------------------------------------------------------------------------------------------- */

static bool read_problem(struct winograd *s) {
    const struct ig_contract *c = s->c;
    const struct ig_type *x = ig_contract_in(c, 0), *y = ig_contract_out(c);
    const struct ig_attr *before = ig_contract_attr(c, IG_ATTR_before);
    bool plain = c->packed && ig_contract_attr_int(c, IG_ATTR_channels_last) &&
                 (c->dtype == INGOT_F32 || (c->dtype == INGOT_I32 && c->operand == INGOT_I16));
    s->channels = ig_contract_const(c, c->depth_dim[2], 0);
    s->dilation = ig_contract_attr(c, IG_ATTR_dilations)->ints[0];
    bool sized = s->channels > 0 && ig_contract_const(c, c->columns, 0) > 0;
    for (int i = 0; i < 2; i++) {
        s->in_size[i] = ig_contract_const(c, x->dim[i + 1], 0);
        s->out_size[i] = ig_contract_const(c, y->dim[i + 1], 0);
        s->before[i] = ig_contract_const(c, before->dims[i], -1);
        s->tiles[i] = ig_winograd_tiles(s->f.m, s->dilation, s->out_size[i]);
        sized &= s->in_size[i] > 0 && s->out_size[i] > 0 && s->before[i] >= 0;
    }
    s->rows = ig_dim_mul(s->k->dims, y->dim[0], constant(s, s->tiles[0] * s->tiles[1]));
    return plain && sized;
}

/* ---- Units of work ----------------------------------------------------------------------------------------------- */

/* What of a chunk's inputs and results may lie in the third cache, and weights that stay there: times the second. */
enum { BEYOND_SECOND = 4 };

/* The bytes of a block's inputs, and of its results for a panel. */
static int64_t block_bytes(const struct winograd *s) {
    return squares(s) * s->p.mr * (s->lda + s->p.nr) * s->p.element;
}

/* As in contract_gemm.c: the time of all units, in multiply-adds. Measured: to transform an input
 * costs as much as six products; so does an element of weights from memory, but two from the third cache; products
 * take a twentieth longer if inputs come from there. */
static double cost_of(const struct winograd *s, int64_t blocks, int64_t panels, int64_t chunk, int64_t group) {
    int64_t units = (blocks + chunk - 1) / chunk * ((panels + group - 1) / group);
    int64_t weights = squares(s) * s->channels * panels * s->p.nr * s->p.element;
    double rows = (double)(chunk * s->p.mr), columns = (double)(group * s->p.nr);
    double product = chunk * block_bytes(s) <= s->p.second ? 1 : 1.05;
    double weight = weights <= BEYOND_SECOND * s->p.second ? 2 : 6;
    double each = product * rows * columns + 6 * rows + weight * columns;
    return each * ig_contract_turns(units);
}

static void choose_units(struct winograd *s) {
    struct ig_dims *dims = s->k->dims;
    int64_t images = 1, panels = ig_contract_const(s->c, s->p.panels, 1);
    if (!ig_dim_usual(dims, ig_contract_out(s->c)->dim[0], &images)) images = 1;
    int64_t blocks = (images * s->tiles[0] * s->tiles[1] + s->p.mr - 1) / s->p.mr;
    int64_t most = BEYOND_SECOND * s->p.second / block_bytes(s);
    double best = 0;
    for (int64_t chunk = 1; chunk <= blocks && (chunk == 1 || chunk <= most); chunk++) {
        for (int64_t group = 1; group <= panels; group++) {
            double cost = cost_of(s, blocks, panels, chunk, group);
            if (best > 0 && cost >= best) continue;
            best = cost;
            s->chunk_blocks = chunk;
            s->group_panels = group;
        }
    }
    if (best == 0) s->chunk_blocks = s->group_panels = 1;
    s->chunk_rows = s->chunk_blocks * s->p.mr;
    s->chunks = ig_dim_ceil_div(dims, s->blocks.count, constant(s, s->chunk_blocks));
    s->groups = ig_dim_ceil_div(dims, s->p.panels, constant(s, s->group_panels));
}

static void make_buffers(struct winograd *s) {
    int64_t rows = squares(s) * s->chunk_rows;
    s->window = ig_kernel_scratch(s->c->kernel, s->c->dtype, constant(s, squares(s) * s->channels), "window");
    s->inputs = ig_kernel_scratch(s->c->kernel, s->c->operand, constant(s, rows * s->lda), "inputs");
    s->results = ig_kernel_scratch(s->c->kernel, s->c->dtype, constant(s, rows * s->p.nr), "results");
    s->sums = ig_loops_local(s->k, s->c->dtype, (int64_t)s->f.m * s->f.m * s->p.nr, "sums");
}

static void make_micro(struct winograd *s) {
    struct ig_micro micro = {.kind = IG_MICRO_GEMM,
                             .name = "gemm",
                             .dtype = s->c->dtype,
                             .rows = ig_row_blocks_set(s->c, &s->blocks, s->p.mr),
                             .vectors = ig_columns_vector_set(s->c, &s->p, false),
                             .together = s->c->together > 1 ? s->c->together : 0,
                             .wide = s->c->together > 1,
                             .nr = s->p.nr,
                             .lda = s->lda,
                             .prefetch = 2048 / s->p.element};
    IG_PUSH(s->k->job, &s->c->kernel->micros, micro);
}

/* ---- Transforms -------------------------------------------------------------------------------------------------- */

static ig_x number(struct winograd *s, double value) {
    if (ig_dtype_is_float(s->c->dtype)) return ig_x_float(s->k, s->c->dtype, value);
    return ig_x_int(s->k, s->c->dtype, (int64_t)value);
}

/* sum + factor * value; sum may be IG_NO_X. */
static ig_x add_scaled(struct winograd *s, ig_x sum, double factor, ig_x value) {
    if (factor == 0 || value == IG_NO_X) return sum;
    if (sum != IG_NO_X && factor == -1) return ig_x_map2(s->k, IG_OP_sub, sum, value);
    if (factor != 1) value = ig_x_map2(s->k, IG_OP_mul, value, number(s, factor));
    return sum == IG_NO_X ? value : ig_x_map2(s->k, IG_OP_add, sum, value);
}

/* The sum of row[i] * in[i] over even or odd i, divided by the last factor, which *out_factor receives. */
static ig_x sum_of_parity(struct winograd *s, const double *row, const ig_x *in, int parity, double *out_factor) {
    ig_x sum = IG_NO_X;
    *out_factor = 0;
    for (int i = parity; i < s->f.t; i += 2)
        if (row[i] != 0) *out_factor = row[i];
    for (int i = s->f.t - 1; i >= 0; i--)
        if (i % 2 == parity && row[i] != 0) sum = add_scaled(s, sum, row[i] / *out_factor, in[i]);
    return sum;
}

/* out = B' * in. The rows of p and -p are the same but for the sign of their odd part, which is computed once. */
static void transform_input(struct winograd *s, const ig_x *in, ig_x *out) {
    for (int i = 0; i < s->f.t; i++) {
        double even_factor, odd_factor;
        ig_x even = sum_of_parity(s, s->f.input[i], in, 0, &even_factor);
        ig_x odd = sum_of_parity(s, s->f.input[i], in, 1, &odd_factor);
        out[i] = add_scaled(s, add_scaled(s, IG_NO_X, even_factor, even), odd_factor, odd);
    }
}

/* out = A' * in. The factors of p and -p are the same but for the sign, so that sums and differences of the two inputs
 * do for all rows. */
static void transform_result(struct winograd *s, const ig_x *in, ig_x *out) {
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
static void transform_both(struct winograd *s, void (*transform)(struct winograd *, const ig_x *, ig_x *), int count,
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
static ig_x first_output(struct winograd *s, ig_x tile, int axis) {
    ig_x nth = ig_x_split_off(s->k, &tile, constant(s, s->tiles[axis] / s->dilation));
    return ig_x_add(s->k, tile, ig_x_mul(s->k, nth, num(s, s->f.m * s->dilation)));
}

static struct place place_of(struct winograd *s, ig_x row) {
    ig_x across = ig_x_split_off(s->k, &row, constant(s, s->tiles[1]));
    ig_x down = ig_x_split_off(s->k, &row, constant(s, s->tiles[0]));
    return (struct place){row, first_output(s, down, 0), first_output(s, across, 1)};
}

/* 0 <= at and at + size <= all */
static ig_x within(struct winograd *s, ig_x at, int64_t size, int64_t all) {
    ig_x low = ig_x_less(s->k, num(s, -1), at);
    return ig_x_and(s->k, low, ig_x_less(s->k, at, num(s, all - size + 1)));
}

/* The element of the input i positions down and j across from `index`, both times the dilation. */
static ig_x input_at(struct winograd *s, const ig_x *index, int64_t i, int64_t j) {
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
static ig_x window_at(struct winograd *s, ig_x i, ig_x j, ig_x channel) {
    ig_x at = ig_x_add(s->k, ig_x_mul(s->k, i, num(s, s->f.t)), j);
    return ig_x_add(s->k, ig_x_mul(s->k, at, num(s, s->channels)), channel);
}

/* Copies the t x t inputs from (y, x) on to the window, the border where there is no image. */
static void copy_window(struct winograd *s, struct ig_stmt *body, ig_x image, ig_x y, ig_x x) {
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
static void store_inputs(struct winograd *s, struct ig_stmt *body, ig_x in[][IG_WINOGRAD_INPUTS], ig_x row,
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

/* Transforms the inputs of `rows` tiles from number `start` on. */
static void emit_inputs(struct winograd *s, struct ig_stmt *body, ig_x start, ig_x rows) {
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

/* ---- Products and results ---------------------------------------------------------------------------------------- */

/* Multiplies the rows of `count` blocks from the first on, which begin with row `start`, by the panel. */
static void emit_products(struct winograd *s, struct ig_stmt *body, ig_x first, ig_x count, ig_x start) {
    struct ig_loops *k = s->k;
    ig_x matrix, nth;
    body = loop(s, body, IG_FOR_SERIAL, num(s, squares(s)), &matrix);
    ig_x weights = ig_x_add(k, ig_x_mul(k, s->panel, num(s, squares(s))), matrix);
    body = loop(s, body, IG_FOR_SERIAL, count, &nth);
    ig_x block = ig_x_add(k, first, nth), row = ig_x_sub(k, ig_row_blocks_start(s->c, &s->blocks, block), start);
    row = ig_x_add(k, ig_x_mul(k, matrix, num(s, s->chunk_rows)), row);
    struct ig_call_arg args[] = {
        {-1, ig_row_blocks_rows(s->c, &s->blocks, block)},
        {-1, ig_columns_vectors(s->c, &s->p, s->panel, false)},
        {s->inputs, ig_x_mul(k, row, num(s, s->lda))},
        {-1, num(s, s->lda)},
        {s->c->lower.buffer_of[s->c->node.in[1]], ig_x_mul(k, weights, num(s, s->channels * s->p.nr))},
        {s->results, ig_x_mul(k, row, num(s, s->p.nr))},
        {-1, num(s, s->channels)},
        {-1, num(s, 1)}};
    ig_s_call(k, body, "gemm", args, 8);
}

/* Integer filters are larger than others. */
static ig_x scaled(struct winograd *s, ig_x sum) {
    enum { SHIFT = 2 };
    if (ig_dtype_is_float(s->c->dtype)) return sum;
    return ig_x_map2(s->k, IG_OP_shr, sum, number(s, SHIFT));
}

/* Transforms row `row` of the results to the tile's sums. */
static void transform_row(struct winograd *s, struct ig_stmt *body, ig_x row) {
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
static ig_x outputs_from(struct winograd *s, ig_x at, int axis) {
    struct ig_loops *k = s->k;
    ig_x left = ig_x_sub(k, num(s, s->out_size[axis] + s->dilation - 1), at);
    if (s->dilation > 1) left = ig_x_div(k, ig_x_max(k, left, num(s, 0)), num(s, s->dilation));
    return ig_x_min(k, num(s, s->f.m), left);
}

/* The epilogue takes outputs that follow each other: a line of a tile, or with a dilation each by itself. */
static void emit_results(struct winograd *s, struct ig_stmt *body, ig_x start, ig_x rows) {
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

static void emit_unit(struct winograd *s, struct ig_stmt *body, ig_x unit) {
    struct ig_loops *k = s->k;
    ig_x chunk = unit, group = ig_x_split_off(k, &chunk, s->groups), panel;
    ig_x first = ig_x_mul(k, chunk, num(s, s->chunk_blocks));
    ig_x end = ig_x_min(k, ig_x_add(k, first, num(s, s->chunk_blocks)), dim(s, s->blocks.count));
    ig_x start = ig_row_blocks_start(s->c, &s->blocks, first);
    ig_x rows = ig_x_sub(k, ig_row_blocks_start(s->c, &s->blocks, end), start);
    ig_x same = ig_x_and(k, ig_x_less(k, ig_x_begin(k), unit), ig_x_less(k, num(s, 0), group));
    emit_inputs(s, ig_s_if(k, body, ig_x_map1(k, IG_OP_not, same)), start, rows);
    ig_x first_panel = ig_x_mul(k, group, num(s, s->group_panels));
    ig_x panels = ig_x_min(k, num(s, s->group_panels), ig_x_sub(k, dim(s, s->p.panels), first_panel));
    body = loop(s, body, IG_FOR_SERIAL, panels, &panel);
    s->panel = ig_x_add(k, first_panel, panel);
    emit_products(s, body, first, ig_x_sub(k, end, first), start);
    emit_results(s, body, start, rows);
}

bool ig_contract_winograd(struct ig_contract *c) {
    struct winograd s = {.c = c, .k = c->k};
    ig_winograd_init(&s.f, c->winograd);
    if (!read_problem(&s)) return false;
    ig_columns_init(c, &s.p);
    ig_row_blocks_init(c, s.rows, s.p.mr, &s.blocks);
    s.lda = ig_columns_copied_stride(&s.p, s.channels);
    choose_units(&s);
    make_buffers(&s);
    make_micro(&s);
    c->kernel->way = IG_WAY_WINOGRAD;
    c->kernel->tactic = ig_format(c->k->job, "winograd %dx%d, gemm %dx%d, tiles of %lld blocks and %lld panels", s.f.m,
                                  s.f.m, s.p.mr, s.p.nr, (long long)s.chunk_blocks, (long long)s.group_panels);
    c->kernel->tiles = ig_dim_mul(c->k->dims, s.chunks, s.groups);
    ig_x unit;
    struct ig_stmt *body = ig_s_for(c->k, NULL, IG_FOR_TILE, num(&s, 0), dim(&s, c->kernel->tiles), num(&s, 1), &unit);
    emit_unit(&s, body, unit);
    return !c->astray;
}
