/*
 * The schedule for products with codes in blocks (ir/blocks.h) on CPUs: a tile is a panel of columns by up to MOST_ROWS rows.
 * Codes go from memory into registers and are dequantised there (codegen/c/blocks.c), once for up to eight rows, which is
 * little work beside their products: so there is one way for few rows, whose time is that of reading the codes, and for many.
 * Rows are copied if they do not lie in memory as f32 in whole vectors; neighbouring tiles share a copy.
 */
#include "ir/blocks.h"
#include "kernel/cpu/contract.h"

enum { MOST_ROWS = 64, VECTOR = 16 };

struct blocks {
    struct ig_contract *c;
    struct ig_loops *k;
    struct ig_columns p;
    ig_dim chunks, row_chunk; /* of rows */
    int64_t depth, lda;
    bool copied;
    struct ig_contract_view view;
    int rows, sums; /* buffers */
};

static ig_x num(struct blocks *s, int64_t i) {
    return ig_x_index(s->k, i);
}

static bool has(const struct ig_contract *c, uint32_t input) {
    return c->node.n_in > input && c->node.in[input] != IG_NO_VALUE;
}

static int buffer_of(const struct ig_contract *c, uint32_t input) {
    return c->lower.is_input[c->node.in[input]] ? c->lower.buffer_of[c->node.in[input]] : -1;
}

/* Does the operand lie in memory, in a type that the micro-kernel reads? */
static bool is_plain(const struct ig_contract *c, uint32_t input) {
    if (!has(c, input)) return true;
    if (buffer_of(c, input) < 0 || ig_is_literal(c->graph, c->node.in[input])) return false;
    switch (ig_contract_in(c, (int)input)->dtype) {
    case INGOT_F32:
    case INGOT_F16:
    case INGOT_BF16:
    case INGOT_U8:
    case INGOT_I8: return true;
    case INGOT_F8E4M3FN:
    case INGOT_F8E5M2: return input == 1;
    default: return false;
    }
}

static bool applies(const struct blocks *s) {
    const struct ig_contract *c = s->c;
    if (c->node.op != IG_OP_matmul_blocks || ig_contract_attr_int(c, IG_ATTR_packed) != IG_BLOCKS_LANES) return false;
    int64_t block = ig_contract_attr_int(c, IG_ATTR_block);
    return c->dtype == INGOT_F32 && s->depth > 0 && (block % VECTOR == 0 || block >= s->depth) && is_plain(c, 1) &&
           (!has(c, 4) || ig_contract_attr_int(c, IG_ATTR_bits) == 4) && is_plain(c, 2) && is_plain(c, 3) &&
           is_plain(c, 4);
}

static void make_micro(struct blocks *s) {
    const struct ig_contract *c = s->c;
    struct ig_micro_blocks *b = IG_NEW(s->k->job, struct ig_micro_blocks);
    *b = (struct ig_micro_blocks){.bits = (int)ig_contract_attr_int(c, IG_ATTR_bits),
                                  .depth = s->depth,
                                  .block = ig_contract_attr_int(c, IG_ATTR_block),
                                  .offset = ig_contract_attr_int(c, IG_ATTR_offset),
                                  .weight = ig_contract_in(c, 0)->dtype,
                                  .scale = ig_contract_in(c, 2)->dtype,
                                  .zero = has(c, 3) ? ig_contract_in(c, 3)->dtype : INGOT_DTYPE_NONE,
                                  .codes = ig_contract_in(c, 1)->dtype,
                                  .table = has(c, 4)};
    struct ig_micro micro = {.kind = IG_MICRO_BLOCKS, .name = "blocks", .dtype = INGOT_F32, .nr = s->p.nr, .blocks = b};
    int most = c->target->vector_registers >= 32 ? 8 : 4;
    int64_t rows = ig_contract_const(c, c->rows, MOST_ROWS + 1);
    for (int r = 1; r <= most; r++) {
        bool rest = rows > MOST_ROWS ? (r & (r - 1)) == 0 : rows % most == r; /* of any number: 1, 2, 4 and 8 at once */
        if (rest || (r == most && rows >= most)) micro.rows |= 1u << r;
    }
    IG_PUSH(s->k->job, &s->c->kernel->micros, micro);
}

/* Copies rows, with zeros up to a whole vector. */
static void copy_rows(struct blocks *s, struct ig_stmt *body, ig_x first, ig_x count) {
    struct ig_loops *k = s->k;
    ig_x row, i;
    ig_contract_copy_a(s->c, body, num(s, 0), first, count, s->rows, num(s, s->lda));
    if (s->lda == s->depth) return;
    body = ig_s_for(k, body, IG_FOR_SERIAL, num(s, 0), count, num(s, 1), &row);
    body = ig_s_for(k, body, IG_FOR_SIMD, num(s, 0), num(s, s->lda - s->depth), num(s, 1), &i);
    ig_x at = ig_x_add(k, ig_x_mul(k, row, num(s, s->lda)), ig_x_add(k, num(s, s->depth), i));
    ig_s_store(k, body, s->rows, at, ig_x_float(k, INGOT_F32, 0));
}

static struct ig_call_arg argument(struct blocks *s, uint32_t input, ig_x index) {
    if (!has(s->c, input)) return (struct ig_call_arg){-1, num(s, 0)};
    return (struct ig_call_arg){buffer_of(s->c, input), index};
}

static void call_micro(struct blocks *s, struct ig_stmt *body, ig_x panel, ig_x first_row, ig_x rows) {
    struct ig_loops *k = s->k;
    const struct ig_contract *c = s->c;
    ig_x column = ig_x_mul(k, panel, num(s, s->p.nr));
    ig_x columns = ig_x_min(k, num(s, s->p.nr), ig_x_sub(k, ig_contract_dim(s->c, c->columns), column));
    int64_t size = ig_blocks_chunk(IG_BLOCKS_LANES, (int)ig_contract_attr_int(c, IG_ATTR_bits));
    int64_t block = ig_contract_attr_int(c, IG_ATTR_block);
    ig_x codes = ig_x_mul(k, column, num(s, (s->depth + size - 1) / size * 64));
    ig_x scales = ig_x_mul(k, column, num(s, (s->depth + block - 1) / block));
    ig_x a = num(s, 0);
    if (!s->copied) a = ig_x_add(k, s->view.base, ig_x_mul(k, first_row, num(s, s->lda)));
    struct ig_call_arg args[] = {{-1, rows},
                                 {-1, columns},
                                 {s->copied ? s->rows : s->view.buffer, a},
                                 {-1, num(s, s->lda)},
                                 argument(s, 1, codes),
                                 argument(s, 2, scales),
                                 argument(s, 3, scales),
                                 argument(s, 4, num(s, 0)),
                                 {s->sums, num(s, 0)}};
    ig_s_call(k, body, "blocks", args, sizeof args / sizeof *args);
}

static void choose_rows(struct blocks *s) {
    struct ig_contract *c = s->c;
    s->view = ig_contract_view_a(c, num(s, 0));
    int64_t stride = s->view.buffer < 0 ? 0 : ig_contract_const(c, s->view.stride, 0);
    s->copied = s->view.buffer < 0 || s->depth % VECTOR != 0 || stride <= 0;
    s->lda = s->copied ? (s->depth + VECTOR - 1) / VECTOR * VECTOR : stride;
}

bool ig_contract_blocks(struct ig_contract *c) {
    struct blocks s = {.c = c, .k = c->k, .depth = ig_contract_const(c, c->depth, 0)};
    struct ig_dims *dims = c->k->dims;
    if (!applies(&s)) return false;
    if (c->choice > 0) return true;
    ig_columns_init(c, &s.p);
    choose_rows(&s);
    ig_dim most = ig_dim_const(dims, MOST_ROWS);
    s.chunks = ig_dim_ceil_div(dims, c->rows, most);
    if (s.copied)
        s.rows = ig_kernel_scratch(c->kernel, INGOT_F32, ig_dim_mul(dims, most, ig_dim_const(dims, s.lda)), "rows");
    s.sums = ig_loops_local(c->k, INGOT_F32, (int64_t)MOST_ROWS * s.p.nr, "sums");
    make_micro(&s);
    c->kernel->tactic = ig_format(c->k->job, "rows by codes of %d bits%s", (int)ig_contract_attr_int(c, IG_ATTR_bits),
                                  s.copied ? ", rows copied" : "");
    c->kernel->tiles = ig_dim_mul(dims, s.chunks, s.p.panels);
    ig_x tile, chunk;
    struct ig_stmt *body =
        ig_s_for(c->k, NULL, IG_FOR_TILE, num(&s, 0), ig_contract_dim(c, c->kernel->tiles), num(&s, 1), &tile);
    chunk = tile;
    ig_x panel = ig_x_split_off(c->k, &chunk, s.p.panels);
    ig_x first = ig_x_mul(c->k, chunk, num(&s, MOST_ROWS));
    ig_x rows = ig_x_min(c->k, num(&s, MOST_ROWS), ig_x_sub(c->k, ig_contract_dim(c, c->rows), first));
    if (s.copied) {
        ig_x same = ig_x_and(c->k, ig_x_less(c->k, ig_x_begin(c->k), tile), ig_x_less(c->k, num(&s, 0), panel));
        copy_rows(&s, ig_s_if(c->k, body, ig_x_map1(c->k, IG_OP_not, same)), first, rows);
    }
    call_micro(&s, body, panel, first, rows);
    ig_columns_epilogue(c, &s.p, body, num(&s, 0), panel, first, rows, s.sums, num(&s, 0));
    return !c->astray;
}
