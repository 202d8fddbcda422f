/*
 * The schedule for everything that is a matrix product: panels of nr columns of B times blocks of up to mr rows of A,
 * the micro-kernel in the middle, the epilogue on each tile of results while it is in the first cache.
 *
 * Two loop orders, after Goto and van de Geijn:
 *
 *  - rows first: a tile is one block of rows. Its rows of A are copied to (or already fit) the first cache and meet all
 *    panels of B, which stay in the second: for many rows and a B that fits there.
 *  - columns first: a tile is a group of panels and a chunk of many blocks. Each panel is read from memory once, a
 *    stretch of the depth at a time, for the whole chunk, whose rows of A stay in the second cache: for large weights,
 *    few rows, or a B that is copied.
 *
 * Neighbouring tile numbers share copied data: a tile copies its rows of A only if it is the first of its call or of
 * its chunk. Rows are divided evenly over blocks, so that no block works on rows that do not exist.
 */
#include "kernel/cpu/contract.h"

struct gemm {
    struct ig_contract *c;
    struct ig_loops *k;
    struct ig_columns p;
    struct ig_row_blocks blocks; /* of A */
    ig_dim chunks;               /* columns first: chunks of blocks */
    int64_t chunk_blocks;        /* blocks per chunk, at most */
    ig_dim groups;               /* columns first: groups of panels */
    int64_t group_panels;        /* panels per group, at most */
    ig_dim steps;                /* steps along the depth */
    int64_t step;                /* depth of a step */
    bool columns_first;
    bool copy_a, copy_b;
    int64_t b_element; /* bytes per element of B in memory */
    struct ig_fetch fetch;
    ig_dim lda;
    int a_buffer, b_buffer, c_buffer;
    int list_buffer; /* of quads (micro.h), or -1 */
    struct ig_contract_view a_view;
    /* Variables of the tile being emitted. */
    ig_x batch, chunk, group, panel;
};

static ig_x num(struct gemm *s, int64_t i) {
    return ig_x_index(s->k, i);
}

static ig_x dim(struct gemm *s, ig_dim d) {
    return ig_x_dim(s->k, d);
}

static ig_dim constant(struct gemm *s, int64_t i) {
    return ig_dim_const(s->k->dims, i);
}

static int64_t known(const struct gemm *s, ig_dim d, int64_t otherwise) {
    return ig_contract_const(s->c, d, otherwise);
}

static struct ig_stmt *loop(struct gemm *s, struct ig_stmt *body, ig_x hi, ig_x *out_var) {
    return ig_s_for(s->k, body, IG_FOR_SERIAL, num(s, 0), hi, num(s, 1), out_var);
}

/* ---- Choosing ---------------------------------------------------------------------------------------------------- */

static void choose_shape(struct gemm *s) {
    ig_columns_init(s->c, &s->p);
    ig_row_blocks_init(s->c, s->c->rows, s->p.mr, &s->blocks);
}

/* The row stride of a copy: an odd number of cache lines, so that rows do not compete for the same sets. */
static ig_dim copied_stride(struct gemm *s) {
    int64_t line = 64 / s->p.element, depth = known(s, s->c->padded, -1);
    if (depth >= 0) return constant(s, ig_columns_copied_stride(&s->p, depth));
    struct ig_dims *dims = s->k->dims;
    ig_dim pairs = ig_dim_ceil_div(dims, s->c->padded, constant(s, 2 * line));
    return ig_dim_add(dims, ig_dim_mul(dims, pairs, constant(s, 2 * line)), constant(s, line));
}

static void choose_operands(struct gemm *s) {
    struct ig_contract *c = s->c;
    s->a_view = ig_contract_view_a(c, num(s, 0));
    s->copy_a = s->a_view.buffer < 0;
    if (!s->copy_a && known(s, c->rows, 2) > 1) {
        s->copy_a = ig_columns_rows_conflict(&s->p, known(s, s->a_view.stride, 0));
    }
    s->lda = s->copy_a ? copied_stride(s) : s->a_view.stride;
    const struct ig_type *b = ig_contract_in(c, 1);
    s->copy_b = !c->packed || (c->together == 1 && !ig_contract_can_convert(c, b->dtype));
    s->b_element = (int64_t)ingot_dtype_size(b->dtype);
}

/* Are products of u8 done without VNNI, for which quads of B may be listed? */
static bool is_of_quads(const struct gemm *s) {
    return s->c->together == 4 && !s->c->target->vnni;
}

/* Rows first if B stays in the second cache and there are enough blocks to share among threads. */
static void choose_order(struct gemm *s) {
    struct ig_contract *c = s->c;
    int64_t depth = known(s, c->padded, -1), columns = known(s, c->columns, -1), rows = known(s, c->rows, -1);
    int64_t b_bytes = depth < 0 || columns < 0 ? INT64_MAX : depth * columns * s->b_element;
    bool many_rows = rows < 0 || rows >= 16 * s->p.mr || (b_bytes <= s->p.first && rows > s->p.mr);
    s->columns_first = s->copy_b || b_bytes > s->p.second || !many_rows || is_of_quads(s);
}

/* The cost of a tile per element of depth, in multiply-adds: computing, copying A and waiting for B. */
static double tile_cost(const struct gemm *s, double rows, double columns) {
    return rows * columns + (s->copy_a ? s->p.transfer * rows : 0) + s->p.transfer * columns;
}

/* The time that all tiles take. */
static double tiling_cost(const struct gemm *s, int64_t blocks, int64_t panels, int64_t chunk, int64_t group) {
    int64_t tiles = ((blocks + chunk - 1) / chunk) * ((panels + group - 1) / group) * known(s, s->c->batch, 1);
    double each = tile_cost(s, (double)(chunk * (known(s, s->blocks.each, 0) + 1)), (double)(group * s->p.nr));
    return each * ig_contract_turns(tiles, 1);
}

/* The number of blocks whose rows fit the second cache. */
static int64_t fitting_blocks(const struct gemm *s) {
    int64_t depth = known(s, s->c->padded, 1024), row_bytes = (depth < 1 ? 1 : depth) * s->p.element;
    int64_t fit = s->p.second / row_bytes / s->p.mr;
    return fit < 4 ? 4 : fit > 64 ? 64 : fit;
}

/* The cheapest group size for chunks of that many blocks. */
static struct ig_tiling group_panels(const struct gemm *s, int64_t blocks, int64_t panels, int64_t chunk) {
    struct ig_tiling best = {.chunk = chunk};
    for (int64_t groups = 1; groups <= panels && groups <= 64; groups++) {
        int64_t group = s->copy_a ? (panels + groups - 1) / groups : 1;
        double cost = tiling_cost(s, blocks, panels, chunk, group);
        if (best.cost > 0 && cost >= best.cost) continue;
        best.cost = cost;
        best.group = group;
    }
    return best;
}

/* Lists the candidates and takes number c->choice; false if it is beyond the last. The loop order of choose_order comes
 * first, the other one after it. Columns first, with known sizes: chunks of blocks whose rows fit the second cache,
 * each with its best group size, cheapest first; with unknown sizes, one division that suits most. */
static bool choose_tiles(struct gemm *s) {
    struct ig_tiling tilings[IG_CONTRACT_MOST_CHOICES];
    int64_t fit = fitting_blocks(s), blocks = known(s, s->blocks.count, -1), panels = known(s, s->p.panels, -1);
    int64_t usual = s->copy_a ? 128 / s->p.nr + 1 : 1, last = 0;
    struct ig_tiling rows_first = {.rows_first = true, .chunk = 1, .group = usual};
    int count = 0;
    if (!s->columns_first) tilings[count++] = rows_first;
    if (blocks < 1 || panels < 1) tilings[count++] = (struct ig_tiling){.chunk = fit, .group = usual};
    for (int64_t chunks = 1; chunks <= blocks && chunks <= 64 && panels > 0; chunks++) {
        int64_t chunk = (blocks + chunks - 1) / chunks;
        if ((chunk > fit && chunks < blocks && chunks < 64) || chunk == last) continue;
        struct ig_tiling t = group_panels(s, blocks, panels, last = chunk);
        ig_tilings_keep(tilings, &count, IG_CONTRACT_MOST_CHOICES / 2, &t);
    }
    if (s->columns_first && !s->copy_b && !is_of_quads(s)) tilings[count++] = rows_first;
    s->c->choices = count;
    if (s->c->choice >= count) return false;
    s->columns_first = !tilings[s->c->choice].rows_first;
    s->chunk_blocks = tilings[s->c->choice].chunk;
    s->group_panels = tilings[s->c->choice].group;
    return true;
}

static bool is_dilated(const struct ig_contract *c) {
    if (c->spatial == 0 || !ig_contract_padded(c) || ig_contract_border(c) != 0) return false;
    for (int i = 0; i < c->spatial; i++) {
        if (ig_contract_attr(c, IG_ATTR_dilations)->ints[i] > 1) return true;
    }
    return false;
}

/* A step that divides the channels, so that each belongs to one tap; `limit` if there is none. */
static int64_t step_of_tap(const struct gemm *s, int64_t limit) {
    int64_t channels = known(s, s->c->depth_dim[s->c->spatial], 1);
    for (int64_t step = limit / 16 * 16; step > limit / 2; step -= 16) {
        if (channels % step == 0) return step;
    }
    return limit;
}

/* The step along the depth. Rows first, a long step is best, since it keeps partial sums cheap; columns first, the blocks of the
 * chunk pass over a panel's step. Vectors take floats from the second cache as fast as they multiply them, so it may be several times
 * what the first one holds; tiles do not, and of bytes that was not measured. */
static void choose_step(struct gemm *s) {
    enum { BEYOND_FIRST = 4 };
    bool beyond = !s->p.tile_groups && s->p.element > 1;
    int64_t depth = known(s, s->c->padded, -1), room = s->p.first * (beyond ? BEYOND_FIRST : 1);
    int64_t limit = room / (s->p.nr * s->p.element);
    if (!s->columns_first || s->chunk_blocks == 1) limit = 4096;
    if (is_dilated(s->c)) limit = step_of_tap(s, limit);
    if (depth >= 0) {
        int64_t steps = depth <= limit + limit / 2 ? 1 : (depth + limit - 1) / limit;
        s->step = depth == 0 ? 1 : (depth + steps - 1) / steps;
        int64_t unit = s->p.tile_groups ? s->p.tile_groups * s->c->together : 16;
        if (steps > 1) s->step = (s->step + unit - 1) / unit * unit;
        s->steps = constant(s, depth == 0 ? 1 : (depth + s->step - 1) / s->step);
    } else {
        struct ig_dims *dims = s->k->dims;
        s->step = limit;
        s->steps = ig_dim_max(dims, ig_dim_ceil_div(dims, s->c->padded, constant(s, limit)), constant(s, 1));
    }
}

static const char *tactic(const struct gemm *s) {
    struct ig_job *job = s->k->job;
    const char *tiles = "";
    if (s->columns_first)
        tiles = ig_format(job, ", tiles of %lld blocks and %lld panels", (long long)s->chunk_blocks,
                          (long long)s->group_panels);
    return ig_format(job, "%s %dx%d, %s first, steps of %lld%s%s%s", s->p.tile_groups ? "tiles" : "gemm", s->p.mr,
                     s->p.nr, s->columns_first ? "columns" : "rows", (long long)s->step, tiles,
                     s->copy_a ? ", rows copied" : "", s->copy_b ? ", columns copied" : "");
}

static bool choose(struct gemm *s) {
    struct ig_dims *dims = s->k->dims;
    choose_shape(s);
    choose_operands(s);
    choose_order(s);
    if (!choose_tiles(s)) return false;
    choose_step(s);
    s->chunks = ig_dim_ceil_div(dims, s->blocks.count, constant(s, s->chunk_blocks));
    s->groups = ig_dim_ceil_div(dims, s->p.panels, constant(s, s->group_panels));
    s->c->kernel->tactic = tactic(s);
    return true;
}

/* ---- Buffers ----------------------------------------------------------------------------------------------------- */

static bool one_step(const struct gemm *s) {
    return known(s, s->steps, 2) == 1;
}

/* The results of a whole chunk must be kept until the end of the depth only if columns come first and the depth takes
 * several steps. */
static bool chunk_of_results(const struct gemm *s) {
    return s->columns_first && !one_step(s) && s->chunk_blocks > 1;
}

/* Are quads listed? A list serves all blocks of a chunk. */
static bool lists(const struct gemm *s) {
    return is_of_quads(s) && s->chunk_blocks > 1;
}

static void make_buffers(struct gemm *s) {
    struct ig_dims *dims = s->k->dims;
    ig_dim chunk_rows = constant(s, s->chunk_blocks * s->p.mr);
    if (s->copy_a)
        s->a_buffer = ig_kernel_scratch(s->c->kernel, s->c->operand, ig_dim_mul(dims, chunk_rows, s->lda), "rows");
    if (s->copy_b)
        s->b_buffer = ig_kernel_scratch(s->c->kernel, s->c->interleaves ? ig_contract_in(s->c, 1)->dtype : s->c->dtype,
                                        ig_dim_mul(dims, s->c->padded, constant(s, s->p.nr)), "panel");
    s->list_buffer = lists(s) ? ig_kernel_scratch(s->c->kernel, INGOT_U16, constant(s, s->step / 4 + 2), "quads") : -1;
    if (chunk_of_results(s)) {
        s->c_buffer =
            ig_kernel_scratch(s->c->kernel, s->c->dtype, ig_dim_mul(dims, chunk_rows, constant(s, s->p.nr)), "sums");
    } else {
        s->c_buffer = ig_loops_local(s->k, s->c->dtype, (int64_t)s->p.mr * s->p.nr, "sums");
    }
}

/* ---- The micro-kernel -------------------------------------------------------------------------------------------- */

/* As many blocks prefetch as there surely are, or usually. Of quads, which are small, the processor fetches the next ones by
 * itself, and prefetches would cost a tenth of the time. */
static void choose_fetch(struct gemm *s) {
    if (!s->columns_first || s->copy_b || s->chunk_blocks == 1 || is_of_quads(s)) return;
    int64_t most = known(s, s->blocks.count, -1) < 0 ? 4 : 16;
    s->fetch = ig_fetch_of(s->p.nr * s->b_element, s->step, s->chunk_blocks, most, s->p.tile_groups > 0);
}

static void make_micro(struct gemm *s) {
    struct ig_micro micro = {.kind = IG_MICRO_GEMM, .name = "gemm", .dtype = s->c->dtype, .nr = s->p.nr};
    micro.rows = ig_row_blocks_set(s->c, &s->blocks, s->p.mr);
    micro.vectors = ig_columns_vector_set(s->c, &s->p, s->copy_b);
    if (!s->copy_b) micro.half = ig_contract_half(ig_contract_in(s->c, 1)->dtype);
    if (s->c->together > 1) {
        micro.together = s->c->together;
        micro.tile_groups = s->p.tile_groups;
        micro.listed = lists(s);
    }
    int64_t lda = known(s, s->lda, 0);
    micro.lda = lda > 0 ? lda : 0;
    /* Panels from memory are prefetched by the preceding blocks, or else two kilobytes ahead of their use. */
    choose_fetch(s);
    micro.rate = s->fetch.rate;
    micro.stretches = s->fetch.stretches;
    micro.stretch = s->fetch.stretch;
    if (s->columns_first && !s->copy_b && micro.rate == 0 && !micro.listed) micro.prefetch = 2048 / s->b_element;
    IG_PUSH(s->k->job, &s->c->kernel->micros, micro);
    struct ig_micro list = {.kind = IG_MICRO_LIST, .name = "list", .dtype = s->c->dtype, .nr = s->p.nr};
    if (lists(s)) IG_PUSH(s->k->job, &s->c->kernel->micros, list);
}

/* First row and number of rows of a block. */
static ig_x block_start(struct gemm *s, ig_x block) {
    return ig_row_blocks_start(s->c, &s->blocks, block);
}

static ig_x block_rows(struct gemm *s, ig_x block) {
    return ig_row_blocks_rows(s->c, &s->blocks, block);
}

/* The position of B's row depth_at in the current panel. */
static ig_x b_position(struct gemm *s, ig_x depth_at) {
    if (s->copy_b) return ig_x_mul(s->k, depth_at, num(s, s->p.nr));
    return ig_columns_packed_at(s->c, &s->p, s->batch, s->panel, depth_at);
}

static struct ig_call_arg fetch_from(struct gemm *s, ig_x depth_at, ig_x nth_block) {
    ig_x next = b_position(s, ig_x_add(s->k, depth_at, num(s, s->step)));
    ig_x from = ig_fetch_from(s->c, &s->fetch, next, nth_block, s->b_element);
    return (struct ig_call_arg){s->c->lower.buffer_of[s->c->node.in[1]], from};
}

/* ---- Taps beyond the image ---------------------------------------------------------------------------------------- */

/* Do steps belong to one tap each, of which dilation may place many beyond the image? */
static bool has_far_taps(const struct gemm *s) {
    const struct ig_contract *c = s->c;
    return s->copy_a && !one_step(s) && is_dilated(c) && known(s, c->depth_dim[c->spatial], 1) % s->step == 0;
}

/* May a position from `first` to `last` lie in an image of that size? */
static ig_x may_lie_inside(struct gemm *s, ig_x first, ig_x last, ig_dim size) {
    return ig_x_and(s->k, ig_x_less(s->k, num(s, -1), last), ig_x_less(s->k, first, dim(s, size)));
}

/* May a row from `first` to `last` read something of the image with the tap of this step? Later axes tell only among rows
 * that agree in the earlier ones. */
static ig_x reads_image(struct gemm *s, ig_x first, ig_x last, ig_x step) {
    struct ig_loops *k = s->k;
    const struct ig_contract *c = s->c;
    const struct ig_attr *dilations = ig_contract_attr(c, IG_ATTR_dilations);
    ig_x image, from[INGOT_MAX_RANK], to[INGOT_MAX_RANK], tap[IG_CONTRACT_DEPTH], yes = ig_x_int(k, INGOT_BOOL, 1);
    ig_x agree = yes, reads = yes;
    ig_contract_window(s->c, s->batch, first, &image, from);
    ig_contract_window(s->c, s->batch, last, &image, to);
    ig_x rest = ig_x_div(k, step, num(s, known(s, c->depth_dim[c->spatial], 1) / s->step));
    for (int i = c->spatial - 1; i >= 0; i--)
        tap[i] = i > 0 ? ig_x_split_off(k, &rest, c->depth_dim[i]) : rest;
    for (int i = 0; i < c->spatial; i++) {
        ig_x away = ig_x_mul(k, tap[i], num(s, dilations->ints[i]));
        ig_dim size = ig_contract_in(c, 0)->dim[i + (ig_contract_attr_int(c, IG_ATTR_channels_last) ? 1 : 2)];
        ig_x inside = may_lie_inside(s, ig_x_add(k, from[i], away), ig_x_add(k, to[i], away), size);
        reads = ig_x_and(k, reads, ig_x_select(k, agree, inside, yes));
        agree = ig_x_and(k, agree, ig_x_map1(k, IG_OP_not, ig_x_less(k, from[i], to[i])));
    }
    return reads;
}

/* The depth of step `step`, which begins at depth_at. */
static ig_x step_length(struct gemm *s, ig_x depth_at) {
    ig_x left = ig_x_sub(s->k, dim(s, s->c->padded), depth_at);
    return one_step(s) ? dim(s, s->c->padded) : ig_x_min(s->k, num(s, s->step), left);
}

static int b_buffer(const struct gemm *s) {
    return s->copy_b ? s->b_buffer : s->c->lower.buffer_of[s->c->node.in[1]];
}

/* Lists the quads of step `step` of the current panel, if that is wanted. */
static void list_quads(struct gemm *s, struct ig_stmt *body, ig_x step) {
    if (!lists(s)) return;
    ig_x depth_at = ig_x_mul(s->k, step, num(s, s->step));
    struct ig_call_arg args[] = {
        {b_buffer(s), b_position(s, depth_at)}, {-1, step_length(s, depth_at)}, {s->list_buffer, num(s, 0)}};
    ig_s_call(s->k, body, "list", args, 3);
}

/* Multiplies the nth block of the chunk that begins with first_block by the current panel, over step `step` of the
 * depth. Copied rows begin with row `copied_from`; the sums go to `sums_at`. */
static void call_micro(struct gemm *s, struct ig_stmt *body, ig_x first_block, ig_x nth, ig_x step, ig_x copied_from,
                       ig_x sums_at) {
    struct ig_loops *k = s->k;
    ig_x block = ig_x_add(k, first_block, nth), depth_at = ig_x_mul(k, step, num(s, s->step));
    ig_x first = ig_x_select(k, ig_x_less(k, step, num(s, 1)), num(s, 1), num(s, 0));
    if (has_far_taps(s)) { /* the first step sets the sums */
        ig_x start = block_start(s, block), last = ig_x_sub(k, ig_x_add(k, start, block_rows(s, block)), num(s, 1));
        ig_x zeros = ig_x_map1(k, IG_OP_not, reads_image(s, start, last, step));
        body = ig_s_if(k, body, ig_x_map1(k, IG_OP_not, ig_x_and(k, ig_x_less(k, num(s, 0), step), zeros)));
    }
    ig_x row = ig_x_sub(k, block_start(s, block), copied_from);
    struct ig_contract_view view = s->copy_a ? (struct ig_contract_view){.buffer = s->a_buffer, .base = num(s, 0)}
                                             : ig_contract_view_a(s->c, s->batch);
    ig_x a = ig_x_add(k, ig_x_add(k, view.base, ig_x_mul(k, row, dim(s, s->lda))), depth_at);
    struct ig_call_arg args[10] = {{-1, block_rows(s, block)},
                                   {-1, ig_columns_vectors(s->c, &s->p, s->panel, s->copy_b)},
                                   {view.buffer, a},
                                   {-1, dim(s, s->lda)},
                                   {b_buffer(s), b_position(s, depth_at)},
                                   {s->c_buffer, sums_at},
                                   {-1, step_length(s, depth_at)},
                                   {-1, first}};
    int count = 8;
    if (lists(s)) args[count++] = (struct ig_call_arg){s->list_buffer, num(s, 0)};
    if (s->fetch.rate) args[count++] = fetch_from(s, depth_at, nth);
    ig_s_call(k, body, "gemm", args, (uint32_t)count);
}

/* ---- Loops ------------------------------------------------------------------------------------------------------- */

static void emit_rows_first(struct gemm *s, struct ig_stmt *body, ig_x block) {
    ig_x step, zero = num(s, 0), start = block_start(s, block), rows = block_rows(s, block);
    if (s->copy_a) ig_contract_copy_a(s->c, body, s->batch, start, rows, s->a_buffer, dim(s, s->lda));
    body = loop(s, body, dim(s, s->p.panels), &s->panel);
    struct ig_stmt *steps = loop(s, body, dim(s, s->steps), &step);
    call_micro(s, steps, block, zero, step, s->copy_a ? start : zero, zero);
    ig_columns_epilogue(s->c, &s->p, body, s->batch, s->panel, start, rows, s->c_buffer, zero);
}

static void emit_columns_first(struct gemm *s, struct ig_stmt *body, ig_x tile) {
    struct ig_loops *k = s->k;
    ig_x block, nth, step, zero = num(s, 0);
    ig_x first = ig_x_mul(k, s->chunk, num(s, s->chunk_blocks));
    ig_x end = ig_x_min(k, ig_x_add(k, first, num(s, s->chunk_blocks)), dim(s, s->blocks.count));
    ig_x count = ig_x_sub(k, end, first), start = block_start(s, first);
    ig_x rows = ig_x_sub(k, block_start(s, end), start);
    if (s->copy_a) {
        ig_x same = ig_x_and(k, ig_x_less(k, ig_x_begin(k), tile), ig_x_less(k, zero, s->group));
        struct ig_stmt *copy = ig_s_if(k, body, ig_x_map1(k, IG_OP_not, same));
        ig_contract_copy_a(s->c, copy, s->batch, start, rows, s->a_buffer, dim(s, s->lda));
    }
    ig_x first_panel = ig_x_mul(k, s->group, num(s, s->group_panels));
    ig_x panels = ig_x_min(k, num(s, s->group_panels), ig_x_sub(k, dim(s, s->p.panels), first_panel));
    body = loop(s, body, panels, &s->panel);
    s->panel = ig_x_add(k, first_panel, s->panel);
    if (s->copy_b) ig_contract_copy_b(s->c, body, s->batch, s->panel, s->p.nr, s->b_buffer);
    ig_x copied_from = s->copy_a ? start : zero;
    if (chunk_of_results(s)) {
        struct ig_stmt *steps = loop(s, body, dim(s, s->steps), &step);
        list_quads(s, steps, step);
        struct ig_stmt *each = loop(s, steps, count, &nth);
        block = ig_x_add(k, first, nth);
        ig_x sums_at = ig_x_mul(k, ig_x_sub(k, block_start(s, block), start), num(s, s->p.nr));
        call_micro(s, each, first, nth, step, copied_from, sums_at);
        ig_columns_epilogue(s->c, &s->p, body, s->batch, s->panel, start, rows, s->c_buffer, zero);
        return;
    }
    list_quads(s, body, zero); /* the only step, if there are several blocks */
    struct ig_stmt *each = loop(s, body, count, &nth);
    block = ig_x_add(k, first, nth);
    struct ig_stmt *steps = loop(s, each, dim(s, s->steps), &step);
    call_micro(s, steps, first, nth, step, copied_from, zero);
    ig_columns_epilogue(s->c, &s->p, each, s->batch, s->panel, block_start(s, block), block_rows(s, block), s->c_buffer,
                        zero);
}

bool ig_contract_gemm(struct ig_contract *c) {
    struct gemm s = {.c = c, .k = c->k};
    struct ig_dims *dims = c->k->dims;
    if (ig_contract_without_panels(c) && ig_contract_is_one(c, c->columns)) return false; /* depthwise */
    if (c->together > 1 && !c->packed && !c->interleaves) return false;
    if (!choose(&s)) return true;
    make_buffers(&s);
    make_micro(&s);
    ig_x tile, rest;
    c->kernel->tiles =
        ig_dim_mul(dims, c->batch, s.columns_first ? ig_dim_mul(dims, s.chunks, s.groups) : s.blocks.count);
    struct ig_stmt *body = ig_s_for(c->k, NULL, IG_FOR_TILE, num(&s, 0), dim(&s, c->kernel->tiles), num(&s, 1), &tile);
    bool one_batch = known(&s, c->batch, 0) == 1;
    rest = tile;
    if (s.columns_first) {
        s.group = ig_x_split_off(c->k, &rest, s.groups);
        s.chunk = one_batch ? rest : ig_x_split_off(c->k, &rest, s.chunks);
        s.batch = one_batch ? num(&s, 0) : rest;
        emit_columns_first(&s, body, tile);
    } else {
        ig_x block = one_batch ? tile : ig_x_split_off(c->k, &rest, s.blocks.count);
        s.batch = one_batch ? num(&s, 0) : rest;
        emit_rows_first(&s, body, block);
    }
    return !c->astray;
}
