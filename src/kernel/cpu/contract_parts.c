/*
 * The schedule for products of f32 on AMX: tiles multiply bf16 so fast that six products of parts (codegen/c/gemm_parts.c)
 * take less time than one by vectors, with the same accuracy.
 *
 * As in contract_gemm.c, columns first: a tile is a chunk of blocks of 16 to 32 rows by a group of panels of B. The rows of a
 * chunk are divided into parts once for all panels of the group, and stay in the second cache; a panel, a step of its depth at a
 * time, once for all blocks of the chunk. Rows too long for that are taken in cuts of their depth, and the sums of all panels
 * are kept from cut to cut.
 *
 * An infinity or a NaN among the operands makes NaN of all sums that it has a part in, and so do numbers close to the largest. A
 * panel's sums that are not all finite are therefore computed once more, with plain products. That looks at whole panels, so
 * tiles write these even where columns are few: what a run before has left there must not decide how one computes.
 */
#include "kernel/cpu/contract.h"

enum {
    BLOCK = 32,                /* rows of a block */
    FEW = 16,                  /* rows of a tile; fewer are multiplied by vectors */
    BYTES = 3 * 2,             /* of an element in parts */
    SECOND = 1280 << 10,       /* bytes of the second cache for the rows of a chunk */
    USUAL_BLOCKS = 4,          /* of a chunk */
    USUAL_PANELS = 6,          /* of a group, where each tile divides its rows */
    STEP = 3 * IG_MICRO_PIECE, /* a step's parts of a panel and of a block take the first cache */
    MOST_TILINGS = 6,
};

/* What 32 rows, columns and steps of the depth take, in nanoseconds on a Xeon with AMX: products by vectors and by tiles, of blocks of 32
 * rows and of 16, and dividing operands into parts. Only their ratios matter. */
enum { BY_VECTORS = 336, BY_TILES = 165, BY_HALF = 85, DIVIDE = 95, COPY_ROWS = 100 };
/* Beyond that for the sums of a block and a panel, which leave the first cache before they are stored. */
enum { SUMS = 200 };

struct parts {
    struct ig_contract *c;
    struct ig_loops *k;
    struct ig_columns p;
    struct ig_row_blocks blocks;
    int64_t depth, cut, step;           /* elements; of a cut and of a step */
    int64_t chunk_blocks, group_panels; /* at most */
    ig_dim chunks, groups;
    bool copy_b, may_be_few;
    struct ig_fetch fetch;
    struct ig_contract_view view;                       /* of A, or buffer -1 */
    int64_t lda;                                        /* of copied rows */
    int rows, row_parts, panel_copy, panel_parts, sums; /* buffers */
    ig_x batch, first, panel;                           /* of the current tile: first block */
};

static ig_x num(struct parts *s, int64_t i) {
    return ig_x_index(s->k, i);
}

static ig_x dim(struct parts *s, ig_dim d) {
    return ig_x_dim(s->k, d);
}

static ig_dim constant(struct parts *s, int64_t i) {
    return ig_dim_const(s->k->dims, i);
}

static int64_t known(const struct parts *s, ig_dim d, int64_t otherwise) {
    return ig_contract_const(s->c, d, otherwise);
}

static struct ig_stmt *loop(struct parts *s, struct ig_stmt *body, enum ig_for_kind kind, ig_x hi, ig_x *out_var) {
    return ig_s_for(s->k, body, kind, num(s, 0), hi, num(s, 1), out_var);
}

/* How many units of so many cover n. */
static int64_t covering(int64_t n, int64_t unit) {
    return (n + unit - 1) / unit;
}

static int64_t pieces(int64_t depth) {
    return covering(depth, IG_MICRO_PIECE);
}

/* ---- Does it apply? ---------------------------------------------------------------------------------------------- */

static bool applies(struct parts *s) {
    const struct ig_contract *c = s->c;
    int64_t least, most;
    if (c->target->isa != IG_ISA_AMX || c->dtype != INGOT_F32 || c->operand != INGOT_F32 || c->together > 1)
        return false;
    if ((c->node.op != IG_OP_matmul && c->node.op != IG_OP_conv) || c->has_twin) return false;
    if (ig_contract_without_panels(c) || s->p.nr != BLOCK || s->depth <= 0 || known(s, c->columns, 0) <= 0)
        return false;
    ig_dim_range(c->graph->dims, c->rows, &least, &most);
    s->may_be_few = least < FEW;
    return most >= BLOCK;
}

static bool one_cut(const struct parts *s) {
    return s->cut == s->depth;
}

/* Blocks whose rows, or cuts of these, fit the second cache. */
static int64_t fitting_blocks(const struct parts *s) {
    int64_t fit = SECOND / (s->cut * BYTES * BLOCK);
    return fit < 1 ? 1 : fit > 64 ? 64 : fit;
}

/* Whole rows if enough of them fit, or if they have to be copied first; else cuts of them, which each tile divides anew. */
static void choose_cut(struct parts *s) {
    int64_t blocks = known(s, s->blocks.count, USUAL_BLOCKS), wanted = blocks < USUAL_BLOCKS ? blocks : USUAL_BLOCKS;
    s->step = s->depth <= STEP + STEP / 2 ? s->depth : STEP;
    s->cut = s->depth;
    if (fitting_blocks(s) >= wanted || s->view.buffer < 0 || s->copy_b) return;
    int64_t most = SECOND / (BYTES * BLOCK * wanted), cuts = covering(s->depth, most);
    s->cut = covering(s->depth, cuts * STEP) * STEP;
}

/* Is it worth while? Where several threads need the same rows, each divides them. */
static bool pays(const struct parts *s) {
    enum { THREADS = 2 };
    int64_t rows = known(s, s->c->rows, USUAL_BLOCKS * BLOCK), columns = known(s, s->c->columns, 0);
    int64_t blocks = covering(rows, BLOCK), panels = covering(columns, BLOCK), fit = fitting_blocks(s);
    int64_t chunks = covering(blocks, fit < USUAL_BLOCKS ? fit : USUAL_BLOCKS), halves = covering(rows, BLOCK / 2);
    int64_t tiles = panels * (BY_TILES * blocks + (halves < 2 * blocks ? BY_HALF - BY_TILES : 0));
    int64_t of_rows = (DIVIDE + (s->view.buffer < 0 ? COPY_ROWS : 0)) * blocks * (panels < THREADS ? 1 : THREADS);
    double vectors = (double)covering(columns, BLOCK / 2) / 2; /* those skip half a panel */
    double alone = BY_VECTORS * (double)s->depth / IG_MICRO_PIECE * (double)rows / BLOCK * vectors;
    return (double)((tiles + DIVIDE * panels * chunks + of_rows) * pieces(s->depth) + SUMS * panels * blocks) <
           0.9 * alone;
}

/* ---- Choosing ---------------------------------------------------------------------------------------------------- */

static double tiling_cost(const struct parts *s, int64_t blocks, int64_t panels, int64_t chunk, int64_t group) {
    int64_t tiles = covering(blocks, chunk) * covering(panels, group) * known(s, s->c->batch, 1);
    double products = (double)chunk * (double)group * BY_TILES, divided = (double)(one_cut(s) ? group : group + chunk);
    return (products + divided * DIVIDE) * ig_contract_turns(tiles, 1);
}

/* As in contract_gemm.c: candidates by cost, each with its best group; false if c->choice is beyond the last. */
static bool choose_tiles(struct parts *s) {
    struct ig_tiling tilings[MOST_TILINGS + 1];
    int64_t blocks = known(s, s->blocks.count, -1), panels = known(s, s->p.panels, 1), fit = fitting_blocks(s),
            last = 0;
    int count = 0;
    if (blocks < 1)
        ig_tilings_keep(tilings, &count, MOST_TILINGS,
                        &(struct ig_tiling){.chunk = fit,
                                            .group = one_cut(s)              ? 1
                                                     : panels < USUAL_PANELS ? panels
                                                                             : USUAL_PANELS});
    for (int64_t chunks = 1; chunks <= blocks && chunks <= 64; chunks++) {
        int64_t chunk = covering(blocks, chunks);
        if ((chunk > fit && chunks < blocks && chunks < 64) || chunk == last) continue;
        struct ig_tiling best = {.chunk = last = chunk};
        for (int64_t groups = 1; groups <= panels && groups <= 64; groups++) {
            int64_t group = covering(panels, groups);
            double cost = tiling_cost(s, blocks, panels, chunk, group);
            if (best.cost > 0 && cost >= best.cost) continue;
            best.cost = cost;
            best.group = group;
        }
        ig_tilings_keep(tilings, &count, MOST_TILINGS, &best);
    }
    s->c->choices = count;
    if (s->c->choice >= count) return false;
    s->chunk_blocks = tilings[s->c->choice].chunk;
    s->group_panels = tilings[s->c->choice].group;
    return true;
}

static bool choose(struct parts *s) {
    struct ig_dims *dims = s->k->dims;
    if (!choose_tiles(s)) return false;
    s->chunks = ig_dim_ceil_div(dims, s->blocks.count, constant(s, s->chunk_blocks));
    s->groups = ig_dim_ceil_div(dims, s->p.panels, constant(s, s->group_panels));
    return true;
}

static const char *tactic(const struct parts *s) {
    struct ig_job *job = s->k->job;
    const char *cuts = one_cut(s) ? "" : ig_format(job, ", cuts of %lld", (long long)s->cut);
    return ig_format(job, "tiles of three parts %dx%d, steps of %lld%s, tiles of %lld blocks and %lld panels%s%s",
                     BLOCK, s->p.nr, (long long)s->step, cuts, (long long)s->chunk_blocks, (long long)s->group_panels,
                     s->view.buffer < 0 ? ", rows copied" : "", s->copy_b ? ", columns copied" : "");
}

/* ---- Buffers and micro-kernels ----------------------------------------------------------------------------------- */

static int scratch(struct parts *s, enum ingot_dtype dtype, int64_t elements, const char *name) {
    return ig_kernel_scratch(s->c->kernel, dtype, constant(s, elements), name);
}

static void make_buffers(struct parts *s) {
    int64_t panels = one_cut(s) ? 1 : s->group_panels;
    if (s->view.buffer < 0) s->rows = scratch(s, INGOT_F32, BLOCK * s->lda, "rows");
    s->row_parts = scratch(s, INGOT_BF16, s->chunk_blocks * pieces(s->cut) * IG_MICRO_PIECE_ELEMENTS, "row_parts");
    if (s->copy_b) s->panel_copy = scratch(s, INGOT_F32, s->depth * s->p.nr, "panel");
    s->panel_parts = scratch(s, INGOT_BF16, pieces(s->step) * IG_MICRO_PIECE_ELEMENTS, "panel_parts");
    s->sums = scratch(s, INGOT_F32, panels * s->chunk_blocks * BLOCK * s->p.nr, "sums");
}

static void make_micros(struct parts *s) {
    struct ig_micro micro = {.kind = IG_MICRO_GEMM,
                             .name = "gemm",
                             .dtype = INGOT_F32,
                             .nr = s->p.nr,
                             .together = 2,
                             .tile_groups = IG_MICRO_PIECE / 2,
                             .parts = true};
    micro.rows = ig_row_blocks_set(s->c, &s->blocks, BLOCK);
    micro.vectors = ig_columns_vector_set(s->c, &s->p, true);
    if (!s->copy_b && s->chunk_blocks > 1) {
        s->fetch = ig_fetch_of(s->p.nr * (int64_t)sizeof(float), s->step, s->chunk_blocks, 16, true);
        micro.rate = s->fetch.rate;
        micro.stretches = s->fetch.stretches;
        micro.stretch = s->fetch.stretch;
    }
    for (int r = 1; r < FEW; r++)
        micro.rows &= ~((uint64_t)1 << r);
    struct ig_micro few = {.kind = IG_MICRO_GEMM,
                           .name = "few",
                           .dtype = INGOT_F32,
                           .nr = s->p.nr,
                           .rows = ((uint64_t)1 << FEW) - 2,
                           .vectors = micro.vectors,
                           .prefetch = 512};
    struct ig_micro rows = {.kind = IG_MICRO_ROW_PARTS, .name = "divide_rows", .dtype = INGOT_F32};
    struct ig_micro columns = {
        .kind = IG_MICRO_COLUMN_PARTS, .name = "divide_columns", .dtype = INGOT_F32, .nr = s->p.nr};
    IG_PUSH(s->k->job, &s->c->kernel->micros, micro);
    if (s->may_be_few) IG_PUSH(s->k->job, &s->c->kernel->micros, few);
    IG_PUSH(s->k->job, &s->c->kernel->micros, rows);
    IG_PUSH(s->k->job, &s->c->kernel->micros, columns);
}

/* ---- Loops ------------------------------------------------------------------------------------------------------- */

static ig_x row_parts_at(struct parts *s, ig_x nth_block) {
    return ig_x_mul(s->k, nth_block, num(s, pieces(s->cut) * IG_MICRO_PIECE_ELEMENTS));
}

/* Where the rows from `start` on lie as f32: copied, or in place. */
static struct ig_call_arg plain_rows(struct parts *s, ig_x start, ig_x *out_stride) {
    struct ig_loops *k = s->k;
    *out_stride = num(s, s->lda);
    if (s->view.buffer < 0) return (struct ig_call_arg){s->rows, num(s, 0)};
    struct ig_contract_view view = ig_contract_view_a(s->c, s->batch);
    *out_stride = dim(s, view.stride);
    return (struct ig_call_arg){view.buffer, ig_x_add(k, view.base, ig_x_mul(k, start, *out_stride))};
}

static void copy_rows(struct parts *s, struct ig_stmt *body, ig_x start, ig_x rows) {
    if (s->view.buffer < 0) ig_contract_copy_a(s->c, body, s->batch, start, rows, s->rows, num(s, s->lda));
}

/* Divides the rows of `count` blocks, `length` elements from depth_at on. */
static void divide_rows(struct parts *s, struct ig_stmt *body, ig_x count, ig_x depth_at, ig_x length) {
    ig_x nth, stride;
    body = loop(s, body, IG_FOR_SERIAL, count, &nth);
    ig_x block = ig_x_add(s->k, s->first, nth), start = ig_row_blocks_start(s->c, &s->blocks, block);
    ig_x rows = ig_row_blocks_rows(s->c, &s->blocks, block);
    copy_rows(s, body, start, rows);
    struct ig_call_arg from = plain_rows(s, start, &stride);
    from.index = ig_x_add(s->k, from.index, depth_at);
    struct ig_call_arg args[] = {{-1, rows}, from, {-1, stride}, {s->row_parts, row_parts_at(s, nth)}, {-1, length}};
    ig_s_call(s->k, body, "divide_rows", args, 5);
}

/* The position of B's row depth_at in the current panel. */
static ig_x b_position(struct parts *s, ig_x depth_at) {
    if (s->copy_b) return ig_x_mul(s->k, depth_at, num(s, s->p.nr));
    return ig_columns_packed_at(s->c, &s->p, s->batch, s->panel, depth_at);
}

static int b_buffer(const struct parts *s) {
    return s->copy_b ? s->panel_copy : s->c->lower.buffer_of[s->c->node.in[1]];
}

/* Multiplies all blocks by step `step` of a cut of the panel, which begins at cut_at and has `whole` elements. */
static void multiply_step(struct parts *s, struct ig_stmt *body, ig_x count, ig_x cut_at, ig_x whole, ig_x step,
                          ig_x sums_at) {
    struct ig_loops *k = s->k;
    int b = b_buffer(s);
    ig_x nth, zero = num(s, 0), one = num(s, 1), within = ig_x_mul(k, step, num(s, s->step));
    ig_x length = ig_x_min(k, num(s, s->step), ig_x_sub(k, whole, within)), depth_at = ig_x_add(k, cut_at, within);
    struct ig_call_arg divide[] = {{b, b_position(s, depth_at)}, {s->panel_parts, zero}, {-1, length}};
    ig_s_call(k, body, "divide_columns", divide, 3);
    body = loop(s, body, IG_FOR_SERIAL, count, &nth);
    ig_x block = ig_x_add(k, s->first, nth), start = ig_row_blocks_start(s->c, &s->blocks, block);
    ig_x row = ig_x_sub(k, start, ig_row_blocks_start(s->c, &s->blocks, s->first));
    ig_x a = ig_x_mul(k, step, num(s, pieces(s->step) * IG_MICRO_PIECE_ELEMENTS));
    struct ig_call_arg args[9] = {{-1, ig_row_blocks_rows(s->c, &s->blocks, block)},
                                  {-1, ig_columns_vectors(s->c, &s->p, s->panel, true)},
                                  {s->row_parts, ig_x_add(k, row_parts_at(s, nth), a)},
                                  {-1, zero},
                                  {s->panel_parts, zero},
                                  {s->sums, ig_x_add(k, sums_at, ig_x_mul(k, row, num(s, s->p.nr)))},
                                  {-1, length},
                                  {-1, ig_x_select(k, ig_x_less(k, zero, depth_at), zero, one)}};
    int n = 8;
    if (s->fetch.rate) {
        ig_x next = b_position(s, ig_x_add(k, depth_at, num(s, s->step)));
        args[n++] = (struct ig_call_arg){b, ig_fetch_from(s->c, &s->fetch, next, nth, (int64_t)sizeof(float))};
    }
    ig_s_call(k, body, "gemm", args, n);
}

/* Multiplies a chunk of few rows by the panel. */
static void multiply_few(struct parts *s, struct ig_stmt *body, ig_x start, ig_x rows, ig_x sums_at) {
    ig_x stride;
    struct ig_call_arg from = plain_rows(s, start, &stride);
    struct ig_call_arg args[] = {{-1, rows},
                                 {-1, ig_columns_vectors(s->c, &s->p, s->panel, true)},
                                 from,
                                 {-1, stride},
                                 {b_buffer(s), b_position(s, num(s, 0))},
                                 {s->sums, sums_at},
                                 {-1, num(s, s->depth)},
                                 {-1, num(s, 1)}};
    ig_s_call(s->k, body, "few", args, 8);
}

/* Computes sums once more if one of them is not finite: then 0 times it is NaN. Such products are added up in several chains, since
 * one would take as long as all of the epilogue. */
static void mend(struct parts *s, struct ig_stmt *body, ig_x start, ig_x rows, ig_x sums_at) {
    enum { CHAINS = 4 };
    struct ig_loops *k = s->k;
    struct ig_contract *c = s->c;
    ig_x row, column, depth[IG_CONTRACT_DEPTH], width = num(s, s->p.nr), zero = ig_x_float(k, INGOT_F32, 0);
    int acc[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        acc[i] = ig_s_acc(k, body, INGOT_F32, zero);
    ig_x each_chain = ig_x_mul(k, rows, num(s, s->p.nr / CHAINS)), finite = zero;
    struct ig_stmt *each = loop(s, body, IG_FOR_SIMD, each_chain, &column);
    for (int i = 0; i < CHAINS; i++) {
        ig_x at = ig_x_add(k, sums_at, ig_x_add(k, ig_x_mul(k, each_chain, num(s, i)), column));
        ig_s_update(k, each, acc[i], IG_OP_add, ig_x_map2(k, IG_OP_mul, ig_x_load(k, s->sums, at), zero));
        finite = ig_x_map2(k, IG_OP_add, finite, ig_x_acc(k, acc[i], INGOT_F32));
    }
    finite = ig_x_less(k, finite, ig_x_float(k, INGOT_F32, 1));
    body = ig_s_if(k, body, ig_x_map1(k, IG_OP_not, finite));
    body = loop(s, body, IG_FOR_SERIAL, rows, &row);
    ig_x at = ig_x_add(k, sums_at, ig_x_mul(k, row, width));
    each = loop(s, body, IG_FOR_SIMD, width, &column);
    ig_s_store(k, each, s->sums, ig_x_add(k, at, column), zero);
    for (int i = 0; i < c->depth_rank; i++)
        body = loop(s, body, IG_FOR_SERIAL, dim(s, c->depth_dim[i]), &depth[i]);
    body = loop(s, body, IG_FOR_SIMD, width, &column);
    at = ig_x_add(k, at, column);
    ig_x last = ig_x_sub(k, dim(s, c->columns), num(s, 1));
    ig_x n = ig_x_min(k, ig_x_add(k, ig_x_mul(k, s->panel, width), column), last);
    ig_x product = ig_x_map2(k, IG_OP_mul, ig_contract_a(c, s->batch, ig_x_add(k, start, row), depth),
                             ig_contract_b(c, s->batch, n, depth));
    ig_s_store(k, body, s->sums, at, ig_x_map2(k, IG_OP_add, ig_x_load(k, s->sums, at), product));
}

/* Divides the `rows` rows of a chunk of `count` blocks, or copies them if they are not `many`: unless the tile before did that, or a
 * cut of them. Opens the loop over cuts if there are several. */
static struct ig_stmt *begin_cut(struct parts *s, struct ig_stmt *body, ig_x tile, ig_x group, ig_x count, ig_x start,
                                 ig_x rows, ig_x many, ig_x *out_at, ig_x *out_length) {
    struct ig_loops *k = s->k;
    ig_x cut = num(s, 0), depth = num(s, s->depth);
    struct ig_stmt *divide = body;
    *out_at = num(s, 0);
    *out_length = depth;
    if (one_cut(s)) {
        ig_x same = ig_x_and(k, ig_x_less(k, ig_x_begin(k), tile), ig_x_less(k, num(s, 0), group));
        divide = ig_s_if(k, body, ig_x_map1(k, IG_OP_not, same));
    } else {
        divide = body = loop(s, body, IG_FOR_SERIAL, num(s, covering(s->depth, s->cut)), &cut);
        *out_at = ig_x_mul(k, cut, num(s, s->cut));
        *out_length = ig_x_min(k, num(s, s->cut), ig_x_sub(k, depth, *out_at));
    }
    divide_rows(s, s->may_be_few ? ig_s_if(k, divide, many) : divide, count, *out_at, *out_length);
    if (s->may_be_few && s->view.buffer < 0)
        copy_rows(s, ig_s_if(k, divide, ig_x_map1(k, IG_OP_not, many)), start, rows);
    return body;
}

static void emit_tile(struct parts *s, struct ig_stmt *body, ig_x tile, ig_x chunk, ig_x group) {
    struct ig_loops *k = s->k;
    ig_x nth, step, cut_at, length, sums_at = num(s, 0);
    s->first = ig_x_mul(k, chunk, num(s, s->chunk_blocks));
    ig_x end = ig_x_min(k, ig_x_add(k, s->first, num(s, s->chunk_blocks)), dim(s, s->blocks.count));
    ig_x count = ig_x_sub(k, end, s->first), start = ig_row_blocks_start(s->c, &s->blocks, s->first);
    ig_x rows = ig_x_sub(k, ig_row_blocks_start(s->c, &s->blocks, end), start),
         many = ig_x_less(k, num(s, FEW - 1), rows);
    body = begin_cut(s, body, tile, group, count, start, rows, many, &cut_at, &length);
    ig_x first_panel = ig_x_mul(k, group, num(s, s->group_panels));
    ig_x panels = ig_x_min(k, num(s, s->group_panels), ig_x_sub(k, dim(s, s->p.panels), first_panel));
    body = loop(s, body, IG_FOR_SERIAL, panels, &nth);
    s->panel = ig_x_add(k, first_panel, nth);
    if (!one_cut(s)) sums_at = ig_x_mul(k, nth, num(s, s->chunk_blocks * BLOCK * s->p.nr));
    if (s->copy_b) ig_contract_copy_b(s->c, body, s->batch, s->panel, s->p.nr, s->panel_copy);
    struct ig_stmt *steps = s->may_be_few ? ig_s_if(k, body, many) : body;
    ig_x count_steps = ig_x_div(k, ig_x_add(k, length, num(s, s->step - 1)), num(s, s->step));
    steps = loop(s, steps, IG_FOR_SERIAL, count_steps, &step);
    multiply_step(s, steps, count, cut_at, length, step, sums_at);
    if (!one_cut(s)) body = ig_s_if(k, body, ig_x_less(k, num(s, s->depth - 1), ig_x_add(k, cut_at, length)));
    mend(s, s->may_be_few ? ig_s_if(k, body, many) : body, start, rows, sums_at);
    if (s->may_be_few) multiply_few(s, ig_s_if(k, body, ig_x_map1(k, IG_OP_not, many)), start, rows, sums_at);
    ig_columns_epilogue(s->c, &s->p, body, s->batch, s->panel, start, rows, s->sums, sums_at);
}

bool ig_contract_parts(struct ig_contract *c) {
    struct parts s = {.c = c, .k = c->k, .depth = ig_contract_const(c, c->depth, 0)};
    struct ig_dims *dims = c->k->dims;
    ig_columns_init(c, &s.p);
    if (!applies(&s)) return false;
    s.view = ig_contract_view_a(c, num(&s, 0));
    s.lda = ig_columns_copied_stride(&s.p, s.depth);
    s.copy_b = !c->packed || ig_contract_in(c, 1)->dtype != INGOT_F32;
    ig_row_blocks_init(c, c->rows, BLOCK, &s.blocks);
    choose_cut(&s);
    if (!pays(&s)) return false;
    if (!choose(&s)) return true;
    make_buffers(&s);
    make_micros(&s);
    c->kernel->whole = true; /* rows are divided once for all tiles of a call */
    c->kernel->tactic = tactic(&s);
    c->kernel->tiles = ig_dim_mul(dims, c->batch, ig_dim_mul(dims, s.chunks, s.groups));
    ig_x tile, rest;
    struct ig_stmt *body = ig_s_for(c->k, NULL, IG_FOR_TILE, num(&s, 0), dim(&s, c->kernel->tiles), num(&s, 1), &tile);
    rest = tile;
    ig_x group = ig_x_split_off(c->k, &rest, s.groups);
    bool one_batch = ig_contract_is_one(c, c->batch);
    ig_x chunk = one_batch ? rest : ig_x_split_off(c->k, &rest, s.chunks);
    s.batch = one_batch ? num(&s, 0) : rest;
    emit_tile(&s, body, tile, chunk, group);
    return !c->astray;
}
