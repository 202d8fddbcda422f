/*
 * The schedule for convolutions with transformed filters (ir/winograd.h).
 *
 * The outputs of all images are divided into tiles of m x m. A tile's t x t inputs are one row of each of t*t matrices
 * [tiles, channels]; each is multiplied by its matrix of weights [channels, columns], by the micro-kernel of all products;
 * and a row of the t*t results gives the tile's m x m outputs. All three steps are done for a chunk of tiles and one panel
 * of columns at a time, so that what lies between them stays in the caches.
 *
 * A unit of work is a chunk of blocks of tiles (a block is what the micro-kernel takes at once) and a panel. Units of the
 * same chunk follow each other, and only the first of a call transforms the inputs. Inputs at the edge of an
 * image are first copied, with zeros around them. A panel's matrices of weights lie one behind the other: while the blocks of a chunk are
 * multiplied by one, they prefetch the next.
 */
#include "kernel/cpu/winograd.h"

struct winograd {
    struct ig_winograd_conv conv;
    struct ig_contract *c;
    struct ig_loops *k;
    ig_dim rows;                 /* tiles of all images */
    struct ig_row_blocks blocks; /* of rows */
    int64_t chunk_blocks;        /* at most, per chunk */
    ig_dim chunks;
    struct ig_fetch fetch;
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

static struct ig_stmt *loop(struct winograd *s, struct ig_stmt *body, ig_x hi, ig_x *out_var) {
    return ig_s_for(s->k, body, IG_FOR_SERIAL, num(s, 0), hi, num(s, 1), out_var);
}

static int64_t squares(const struct winograd *s) {
    return ig_winograd_squares(&s->conv);
}

/* ---- Does it apply? ---------------------------------------------------------------------------------------------- */

static bool read_problem(struct winograd *s) {
    const struct ig_contract *c = s->c;
    struct ig_winograd_conv *conv = &s->conv;
    const struct ig_type *x = ig_contract_in(c, 0), *y = ig_contract_out(c);
    const struct ig_attr *before = ig_contract_attr(c, IG_ATTR_before);
    bool plain = c->packed && ig_contract_attr_int(c, IG_ATTR_channels_last) &&
                 (c->dtype == INGOT_F32 || (c->dtype == INGOT_I32 && c->operand == INGOT_I16));
    conv->channels = ig_contract_const(c, c->depth_dim[2], 0);
    conv->dilation = ig_contract_attr(c, IG_ATTR_dilations)->ints[0];
    bool sized = conv->channels > 0 && ig_contract_const(c, c->columns, 0) > 0;
    for (int i = 0; i < 2; i++) {
        conv->in_size[i] = ig_contract_const(c, x->dim[i + 1], 0);
        conv->out_size[i] = ig_contract_const(c, y->dim[i + 1], 0);
        conv->before[i] = ig_contract_const(c, before->dims[i], -1);
        conv->tiles[i] = ig_winograd_tiles(conv->f.m, conv->dilation, conv->out_size[i]);
        sized &= conv->in_size[i] > 0 && conv->out_size[i] > 0 && conv->before[i] >= 0;
    }
    s->rows = ig_dim_mul(s->k->dims, y->dim[0], constant(s, conv->tiles[0] * conv->tiles[1]));
    return plain && sized;
}

/* ---- Units of work ----------------------------------------------------------------------------------------------- */

/* What of a chunk's inputs and results may lie in the third cache: times the second. */
enum { BEYOND_SECOND = 4 };

/* The bytes of a block's inputs, and of its results for a panel. */
static int64_t block_bytes(const struct winograd *s) {
    const struct ig_columns *p = &s->conv.p;
    return squares(s) * p->mr * (s->conv.lda + p->nr) * p->element;
}

/* As in contract_gemm.c: the time of all units, in multiply-adds. A thread transforms inputs once for all units of a chunk that it
 * does. Measured: to transform an input costs as much as a product of a vector, since it waits for memory, too; an element of
 * weights as six products, or three if it was prefetched; products take a twentieth longer if inputs come from the third cache. */
static double cost_of(const struct winograd *s, int64_t blocks, int64_t panels, int64_t chunk) {
    const struct ig_columns *p = &s->conv.p;
    int64_t units = (blocks + chunk - 1) / chunk * panels;
    double rows = (double)(chunk * p->mr), columns = (double)p->nr, weight = chunk > 1 ? 3 : 6;
    double product = chunk * block_bytes(s) <= p->second ? 1 : 1.05, transform = (double)(p->lanes * chunk * p->mr);
    return (product * rows * columns + weight * columns) * ig_contract_turns(units, 1) +
           transform * ig_contract_turns(units, panels);
}

static void choose_chunk(struct winograd *s) {
    struct ig_dims *dims = s->k->dims;
    const struct ig_columns *p = &s->conv.p;
    int64_t images = 1, panels = ig_contract_const(s->c, p->panels, 1);
    if (!ig_dim_usual(dims, ig_contract_out(s->c)->dim[0], &images)) images = 1;
    int64_t blocks = (images * s->conv.tiles[0] * s->conv.tiles[1] + p->mr - 1) / p->mr;
    double best = 0;
    s->chunk_blocks = 1;
    for (int64_t chunk = 1; chunk <= blocks && (chunk == 1 || chunk * block_bytes(s) <= BEYOND_SECOND * p->second);
         chunk++) {
        double cost = cost_of(s, blocks, panels, chunk);
        if (best > 0 && cost >= best) continue;
        best = cost;
        s->chunk_blocks = chunk;
    }
    s->conv.chunk_rows = s->chunk_blocks * p->mr;
    s->chunks = ig_dim_ceil_div(dims, s->blocks.count, constant(s, s->chunk_blocks));
}

static void make_buffers(struct winograd *s) {
    struct ig_kernel *kernel = s->c->kernel;
    struct ig_winograd_conv *conv = &s->conv;
    int64_t rows = squares(s) * conv->chunk_rows;
    conv->window = ig_kernel_scratch(kernel, s->c->dtype, constant(s, squares(s) * conv->channels), "window");
    conv->inputs = ig_kernel_scratch(kernel, s->c->operand, constant(s, rows * conv->lda), "inputs");
    conv->results = ig_kernel_scratch(kernel, s->c->dtype, constant(s, rows * conv->p.nr), "results");
    conv->sums = ig_loops_local(s->k, s->c->dtype, (int64_t)conv->f.m * conv->f.m * conv->p.nr, "sums");
}

static void make_micro(struct winograd *s) {
    const struct ig_columns *p = &s->conv.p;
    struct ig_micro micro = {.kind = IG_MICRO_GEMM,
                             .name = "gemm",
                             .dtype = s->c->dtype,
                             .rows = ig_row_blocks_set(s->c, &s->blocks, p->mr),
                             .vectors = ig_columns_vector_set(s->c, p, false),
                             .together = s->c->together > 1 ? s->c->together : 0,
                             .wide = s->c->together > 1,
                             .nr = p->nr,
                             .lda = s->conv.lda};
    if (s->chunk_blocks > 1) s->fetch = ig_fetch_of(p->nr * p->element, s->conv.channels, s->chunk_blocks, 4, false);
    micro.rate = s->fetch.rate;
    if (!micro.rate) micro.prefetch = 2048 / p->element;
    IG_PUSH(s->k->job, &s->c->kernel->micros, micro);
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

/* Multiplies the rows of `count` blocks from the first on, which begin with row `start`, by the panel. */
static void emit_products(struct winograd *s, struct ig_stmt *body, ig_x first, ig_x count, ig_x start) {
    struct ig_loops *k = s->k;
    const struct ig_winograd_conv *conv = &s->conv;
    int64_t size = conv->channels * conv->p.nr;
    int buffer = s->c->lower.buffer_of[s->c->node.in[1]], n = 8;
    ig_x matrix, nth;
    body = loop(s, body, num(s, squares(s)), &matrix);
    ig_x weights = ig_x_mul(k, ig_x_add(k, ig_x_mul(k, conv->panel, num(s, squares(s))), matrix), num(s, size));
    body = loop(s, body, count, &nth);
    ig_x block = ig_x_add(k, first, nth), row = ig_x_sub(k, ig_row_blocks_start(s->c, &s->blocks, block), start);
    row = ig_x_add(k, ig_x_mul(k, matrix, num(s, conv->chunk_rows)), row);
    struct ig_call_arg args[9] = {{-1, ig_row_blocks_rows(s->c, &s->blocks, block)},
                                  {-1, ig_columns_vectors(s->c, &conv->p, conv->panel, false)},
                                  {conv->inputs, ig_x_mul(k, row, num(s, conv->lda))},
                                  {-1, num(s, conv->lda)},
                                  {buffer, weights},
                                  {conv->results, ig_x_mul(k, row, num(s, conv->p.nr))},
                                  {-1, num(s, conv->channels)},
                                  {-1, num(s, 1)}};
    if (s->fetch.rate) {
        ig_x next = ig_x_add(k, weights, num(s, size));
        args[n++] = (struct ig_call_arg){buffer, ig_fetch_from(s->c, &s->fetch, next, nth, conv->p.element)};
    }
    ig_s_call(k, body, "gemm", args, n);
}

static void emit_unit(struct winograd *s, struct ig_stmt *body, ig_x unit) {
    struct ig_loops *k = s->k;
    ig_x chunk = unit;
    s->conv.panel = ig_x_split_off(k, &chunk, s->conv.p.panels);
    ig_x first = ig_x_mul(k, chunk, num(s, s->chunk_blocks));
    ig_x end = ig_x_min(k, ig_x_add(k, first, num(s, s->chunk_blocks)), dim(s, s->blocks.count));
    ig_x start = ig_row_blocks_start(s->c, &s->blocks, first);
    ig_x rows = ig_x_sub(k, ig_row_blocks_start(s->c, &s->blocks, end), start);
    ig_x same = ig_x_and(k, ig_x_less(k, ig_x_begin(k), unit), ig_x_less(k, num(s, 0), s->conv.panel));
    ig_winograd_inputs(&s->conv, ig_s_if(k, body, ig_x_map1(k, IG_OP_not, same)), start, rows);
    emit_products(s, body, first, ig_x_sub(k, end, first), start);
    ig_winograd_results(&s->conv, body, start, rows);
}

bool ig_contract_winograd(struct ig_contract *c) {
    struct winograd s = {.c = c, .k = c->k, .conv = {.c = c, .k = c->k}};
    ig_winograd_init(&s.conv.f, c->winograd);
    if (!read_problem(&s)) return false;
    ig_columns_init(c, &s.conv.p);
    ig_row_blocks_init(c, s.rows, s.conv.p.mr, &s.blocks);
    s.conv.lda = ig_columns_copied_stride(&s.conv.p, s.conv.channels);
    choose_chunk(&s);
    make_buffers(&s);
    make_micro(&s);
    c->kernel->way = IG_WAY_WINOGRAD;
    c->kernel->whole = true; /* inputs are transformed once for all units of a chunk in a call */
    c->kernel->tactic = ig_format(c->k->job, "winograd %dx%d, gemm %dx%d, tiles of %lld blocks", s.conv.f.m, s.conv.f.m,
                                  s.conv.p.mr, s.conv.p.nr, (long long)s.chunk_blocks);
    c->kernel->tiles = ig_dim_mul(c->k->dims, s.chunks, s.conv.p.panels);
    ig_x unit;
    struct ig_stmt *body = ig_s_for(c->k, NULL, IG_FOR_TILE, num(&s, 0), dim(&s, c->kernel->tiles), num(&s, 1), &unit);
    emit_unit(&s, body, unit);
    return !c->astray;
}
