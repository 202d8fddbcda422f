/*
 * Products of halves with codes in blocks on GPUs: up to 64 rows a block, on the tensor cores, with weights that are
 * dequantised in registers (codegen/cuda/blocks.cu). Few rows take the time of reading the codes: then the warps of a block
 * divide the depth of 16 columns, and codes are streamed where the copy engine can. More rows share each dequantised weight, and
 * warps side by side the rows.
 */
#include <string.h>

#include "ir/blocks.h"
#include "kernel/cuda/contract/contract.h"
#include "kernel/cuda/contract/contract_rows.h"

enum { MOST_ROWS = 64, SIZES = 4, AHEAD = 8, FEW_ROWS = 16 };

struct problem {
    const struct ig_cuda_blocks *b;
};

struct blocks {
    struct ig_contract *c;
    struct ig_loops *k;
    struct ig_cuda_blocks *b;
    struct ig_cuda_source a;
    struct ig_cuda_rows *first; /* what computes A's rows; NULL: they are in memory */
    ig_dim rows;
    int tile;
    ig_x first_row, first_column;
};

static ig_x num(struct blocks *s, int64_t i) {
    return ig_x_index(s->k, i);
}

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static bool has(const struct ig_node *n, uint32_t input) {
    return n->n_in > input && n->in[input] != IG_NO_VALUE;
}

/* The buffer of an operand in memory; -1: there is none. */
static int buffer_of(const struct ig_contract *c, const struct ig_node *n, uint32_t input) {
    ig_value v = n->in[input];
    return c->lower.is_input[v] && !ig_is_literal(c->graph, v) ? c->lower.buffer_of[v] : -1;
}

/* Are all that a product reads of its weights in memory? */
static bool has_weights(const struct ig_contract *c, const struct ig_node *n) {
    for (uint32_t i = 1; i < n->n_in; i++) {
        if (has(n, i) && buffer_of(c, n, i) < 0) return false;
    }
    return true;
}

/* Reads the problem; false if the template has no such products. */
static bool describe(struct blocks *s) {
    const struct ig_contract *c = s->c;
    struct ig_cuda_blocks *b = s->b;
    int64_t depth = ig_contract_const(c, c->depth, 0), columns = ig_contract_const(c, c->columns, 0);
    if (ig_contract_attr_int(c, IG_ATTR_packed) != IG_BLOCKS_FRAGMENTS || depth == 0 || columns == 0) return false;
    *b = (struct ig_cuda_blocks){.element = ig_contract_in(c, 0)->dtype,
                                 .scale = ig_contract_in(c, 2)->dtype,
                                 .codes = ig_contract_in(c, 1)->dtype,
                                 .bits = (int)ig_contract_attr_int(c, IG_ATTR_bits),
                                 .depth = depth,
                                 .block = ig_contract_attr_int(c, IG_ATTR_block),
                                 .columns = ig_blocks_columns(IG_BLOCKS_FRAGMENTS, columns),
                                 .offset = (int)ig_contract_attr_int(c, IG_ATTR_offset),
                                 .twin = c->has_twin,
                                 .zero = has(&c->node, 3),
                                 .table = has(&c->node, 4)};
    enum { OWN = 8 }; /* depths of a thread in a row */
    bool halves = b->element == INGOT_F16 || b->element == INGOT_BF16;
    bool scaled = b->scale == b->element || b->scale == INGOT_BF16 || b->scale == INGOT_F32;
    if (!halves || c->dtype != INGOT_F32 || !scaled) return false;
    if (depth % OWN != 0 || (b->block % OWN != 0 && b->block < depth) || columns > INT32_MAX / 2) return false;
    if (b->offset < 0 || b->offset >= 1 << b->bits || (b->table && b->bits != 4)) return false;
    if (b->zero && (ig_contract_in(c, 3)->dtype != INGOT_U8 || b->codes != INGOT_U8)) return false;
    if (!has_weights(c, &c->node) || (c->has_twin && !has_weights(c, &c->twin))) return false;
    if (c->first && !(s->first = ig_cuda_rows_find(s->c))) return false;
    b->first = ig_cuda_rows_most(s->first);
    s->rows = ig_cuda_rows(s->c);
    s->a = ig_cuda_source_a(s->c, num(s, 0), b->element);
    return s->a.kind == IG_CUDA_ALONG && s->a.copy == 16;
}

/* Can pieces of so many chunks be streamed? Each lies within a block of the depth, or has whole blocks. */
static bool fits_blocks(const struct ig_cuda_blocks *b, int chunks) {
    int64_t depth = chunks * ig_blocks_chunk(IG_BLOCKS_FRAGMENTS, b->bits);
    return b->block >= b->depth || b->block % depth == 0 || depth % b->block == 0;
}

/* Columns of a tile, at most `most`: two blocks a multiprocessor take tiles in turns, with as few columns in all turns as can be. */
static int choose_columns(int64_t columns, int64_t most) {
    int64_t best = 16, least = INT64_MAX;
    for (int64_t bn = 16; bn <= most; bn += 16) {
        int64_t taken = ceil_div(ceil_div(columns, bn), 2 * IG_CUDA_PROCESSORS) * bn;
        if (taken > least) continue;
        least = taken;
        best = bn;
    }
    return (int)best;
}

/* All columns at once, if the sums of their tiles leave room. Less than IG_BLOCKS_STREAMED bytes of a tile are under way at once
 * in registers, too, and arrive sooner. More stages than three made kernels of a decoder slower on an H100, two did not. */
static bool choose_stream(struct blocks *s) {
    enum { WARPS = 8, MOST_COLUMNS = 96, STAGES = 3, LARGEST = 112 << 10 };
    struct ig_cuda_blocks *b = s->b;
    int64_t chunks = ceil_div(b->depth, ig_blocks_chunk(IG_BLOCKS_FRAGMENTS, b->bits));
    b->warps_n = 1;
    b->warps_k = WARPS;
    b->ahead = b->bits == 2 ? 2 : 4; /* rows of a piece are in registers */
    while (b->ahead > 1 && (b->ahead * WARPS > chunks || !fits_blocks(b, b->ahead)))
        b->ahead /= 2;
    b->bn = choose_columns(b->columns, MOST_COLUMNS * 8 / b->bm);
    b->stages = STAGES;
    b->stream = true;
    bool large = chunks * ig_blocks_bytes(IG_BLOCKS_FRAGMENTS, b->bits, 1, b->bn) >= IG_BLOCKS_STREAMED;
    return large && fits_blocks(b, b->ahead) && ig_cuda_blocks_places(b).end <= LARGEST;
}

/* Microseconds: reading the codes once for each tile of rows, mostly from the second cache after the first; or the products. */
static double time_of(const struct ig_cuda_blocks *b, int64_t rows) {
    double tiles = (double)ceil_div(rows, b->bm);
    double weights = (double)b->depth * (double)b->columns * (b->twin ? 2 : 1);
    double bytes = weights * b->bits / 8 * (1 + (tiles - 1) / 2), products = tiles * b->bm * weights * 2;
    return 2.5 + bytes / 3.6e6 + products / 3e8;
}

static double cost(const struct ig_kernel *kernel, const int64_t *sizes) {
    const struct ig_cuda_blocks *b = ((const struct problem *)kernel->model.problem)->b;
    const double time = time_of(b, sizes[1]);
    return b->first ? time + ig_cuda_rows_time(b->first, b->depth, ceil_div(b->columns, b->bn)) / 1000 : time;
}

/* The c->choice-th best number of rows for a tile. Twins have few, and those that are computed first are one tile. */
static void choose(struct blocks *s) {
    struct ig_cuda_blocks *b = s->b;
    int64_t rows = ig_sizes_guess(s->c->at, s->rows);
    int bm[SIZES] = {8, FEW_ROWS, 32, MOST_ROWS};
    for (int i = 0; i < s->c->choices; i++) {
        for (int j = i + 1; j < s->c->choices; j++) {
            struct ig_cuda_blocks first = *b, second = *b;
            first.bm = bm[i];
            second.bm = bm[j];
            if (time_of(&second, rows) >= time_of(&first, rows)) continue;
            bm[i] = second.bm;
            bm[j] = first.bm;
        }
    }
    b->bm = bm[s->c->choice];
    if (!b->twin && b->bm <= FEW_ROWS && b->early && ig_target_can_stream(s->c->target) && choose_stream(s)) return;
    b->stream = false;
    int64_t chunks = ceil_div(b->depth, ig_blocks_chunk(IG_BLOCKS_FRAGMENTS, b->bits));
    b->warps_n = b->twin ? 2 : b->bm <= FEW_ROWS ? 1 : 4;
    int most = b->bm <= FEW_ROWS ? b->twin ? 4 : 16 : 2;
    b->warps_k = 1;
    while (b->warps_k < most && b->warps_k * 2 <= chunks)
        b->warps_k *= 2;
    b->ahead = b->bm > FEW_ROWS ? 2 : b->bits == 2 ? AHEAD / 2 : AHEAD;
    while (b->ahead > 1 && ceil_div(chunks, b->warps_k) <= b->ahead / 2)
        b->ahead /= 2;
    b->bn = 16 * b->warps_n / (b->twin ? 2 : 1);
}

static bool is_constant(const struct ig_contract *c, const struct ig_node *n) {
    for (uint32_t i = 1; i < n->n_in; i++) {
        if (has(n, i) && !ig_info(c->graph, n->in[i])->is_const) return false;
    }
    return true;
}

/* Constants are there before the preceding kernel has ended. */
static bool is_early(const struct blocks *s) {
    const struct ig_contract *c = s->c;
    const bool constant = is_constant(c, &c->node) && (!c->has_twin || is_constant(c, &c->twin));
    return constant && ig_target_has_early_start(c->target);
}

/* Codes, scales and zero points of a product. */
static int push_weights(struct blocks *s, const struct ig_node *n, struct ig_call_arg *args) {
    for (uint32_t i = 1; i <= 3; i++)
        args[i - 1] = (struct ig_call_arg){has(n, i) ? buffer_of(s->c, n, i) : -1, num(s, 0)};
    return 3;
}

static void call(struct blocks *s, struct ig_stmt *body) {
    const struct ig_contract *c = s->c;
    struct ig_call_arg args[9];
    int n = push_weights(s, &c->node, args);
    args[n++] = (struct ig_call_arg){has(&c->node, 4) ? buffer_of(c, &c->node, 4) : -1, num(s, 0)};
    args[n++] = (struct ig_call_arg){-1, s->first_column};
    if (s->b->twin) n += push_weights(s, &c->twin, args + n);
    if (s->b->pushes) args[n++] = ig_cuda_contract_seat(s->c);
    ig_s_text(s->k, body, "blocks::product product;");
    if (s->first) ig_cuda_rows_emit_constants(s->first, body);
    ig_s_call(s->k, body, "product.begin", args, n);
    if (s->first) ig_cuda_rows_emit(s->first, body);
    const struct ig_call_arg rows[] = {{s->tile, num(s, 0)},
                                       {s->a.buffer, s->a.base},
                                       {-1, ig_contract_dim(s->c, s->a.ld)},
                                       {-1, s->first_row},
                                       {-1, ig_contract_dim(s->c, s->rows)}};
    ig_s_call(s->k, body, "product.multiply", rows, sizeof rows / sizeof *rows);
}

static void emit_epilogue(struct blocks *s, struct ig_stmt *body) {
    struct ig_contract *c = s->c;
    struct ig_loops *k = s->k;
    int64_t bn = s->b->bn, tile_row = ig_cuda_blocks_tile_row(s->b);
    ig_x slot, rows = ig_x_min(k, num(s, s->b->bm), ig_x_sub(k, ig_contract_dim(c, s->rows), s->first_row));
    body = ig_s_for(k, body, IG_FOR_SIMD, num(s, 0), ig_x_mul(k, rows, num(s, bn)), num(s, 1), &slot);
    ig_x down = ig_x_div(k, slot, num(s, bn)), across = ig_x_mod(k, slot, num(s, bn));
    ig_x m = ig_x_add(k, s->first_row, down), n = ig_x_add(k, s->first_column, across);
    ig_x at = s->b->twin ? ig_x_add(k, ig_x_mul(k, down, num(s, tile_row)), across) : slot;
    if (!ig_dim_divides(k->dims, ig_dim_const(k->dims, bn), c->columns)) {
        c->inside = ig_x_less(k, n, ig_contract_dim(c, c->columns));
        n = ig_x_min(k, n, ig_contract_dim(c, ig_dim_sub(k->dims, c->columns, ig_dim_const(k->dims, 1))));
    }
    ig_contract_position(c, num(s, 0), m, n, c->position);
    if (s->b->twin) c->twin_at = ig_x_add(k, at, num(s, bn));
    ig_contract_store(c, body, s->tile, at);
}

static void emit(struct blocks *s) {
    struct ig_contract *c = s->c;
    struct ig_loops *k = s->k;
    struct ig_dims *dims = k->dims;
    ig_dim across = ig_dim_ceil_div(dims, c->columns, ig_dim_const(dims, s->b->bn));
    ig_dim down = ig_dim_ceil_div(dims, s->rows, ig_dim_const(dims, s->b->bm));
    c->kernel->tiles = ig_dim_mul(dims, across, down);
    ig_x tile, row;
    struct ig_stmt *body =
        ig_s_for(k, NULL, IG_FOR_TILE, num(s, 0), ig_contract_dim(c, c->kernel->tiles), num(s, 1), &tile);
    row = tile;
    s->first_column = ig_x_mul(k, ig_x_split_off(k, &row, across), num(s, s->b->bn));
    s->first_row = ig_x_mul(k, row, num(s, s->b->bm));
    call(s, body);
    emit_epilogue(s, body);
    if (s->b->pushes)
        ig_cuda_contract_send(
            c, body,
            &(struct ig_cuda_push_tile){s->tile, s->b->bm, s->b->bn, s->b->bn, s->first_row, s->first_column, s->rows});
}

bool ig_cuda_contract_blocks(struct ig_contract *c) {
    if (c->node.op != IG_OP_matmul_blocks) return false;
    struct blocks s = {.c = c, .k = c->k, .b = IG_NEW(c->k->job, struct ig_cuda_blocks)};
    struct problem *p = IG_NEW(c->k->job, struct problem);
    if (!describe(&s)) return false;
    c->choices = s.first ? 1 : s.b->twin ? 2 : SIZES;
    if (c->choice >= c->choices) return true;
    s.b->early = is_early(&s);
    choose(&s);
    if (c->region->pushed) {
        s.b->pushes = s.b->stream && c->choice == 0 ? ig_cuda_contract_push(c, s.b->bm) : NULL;
        c->choices = 1;
        if (!s.b->pushes) return false;
    }
    p->b = s.b;
    ig_dim one = ig_dim_const(c->k->dims, 1);
    c->kernel->model = (struct ig_kernel_model){{one, s.rows, c->columns, c->depth}, p, cost};
    c->kernel->blocks = s.b;
    c->kernel->threads = ig_cuda_blocks_threads(s.b);
    c->kernel->shared_bytes = ig_cuda_blocks_places(s.b).end;
    const bool fits = c->kernel->shared_bytes <= ig_target_shared_bytes(c->target);
    if (s.first && (!fits || !ig_cuda_rows_prepare(s.first, ig_cuda_blocks_places(s.b).rows))) return false;
    c->kernel->tactic = ig_format(c->k->job, "codes of %d bits %dx%s%d, %d warps, ", s.b->bits, s.b->bm,
                                  s.b->twin ? "2x" : "", s.b->bn, s.b->warps_n * s.b->warps_k);
    c->kernel->tactic =
        s.b->stream
            ? ig_format(c->k->job, "%sstreamed, %d pieces of %d chunks ahead%s", c->kernel->tactic, s.b->stages,
                        s.b->ahead, s.b->pushes ? ", pushed" : "")
            : ig_format(c->k->job, "%sdepth in %d, %d chunks ahead", c->kernel->tactic, s.b->warps_k, s.b->ahead);
    if (s.first) c->kernel->tactic = ig_format(c->k->job, "%s, rows first", c->kernel->tactic);
    s.tile = ig_loops_shared(c->k, INGOT_F32, 0, "sums");
    emit(&s);
    ig_loops_store_once(c->k);
    return !c->astray;
}
