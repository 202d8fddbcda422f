/*
 * The epilogue of products whose sums stay in the registers of the threads that multiply, since a producer serves them: where they lie
 * follows from wgmma.
 */
#include "kernel/cuda/contract/contract_product.h"

static struct ig_stmt *unroll(struct ig_cuda_product *s, struct ig_stmt *body, int count, ig_x *out_var) {
    *out_var = num(s, 0);
    return count == 1 ? body : loop(s, body, IG_FOR_UNROLL, num(s, count), out_var);
}

/* Where the sums of a thread lie that gemm::own_sums gives it: `vector` columns of 32 from *out_column on, in *out_row of
 * eight rows; `piece` counts those of its eight sums. */
static void locate_own(struct ig_cuda_product *s, int vector, ig_x lane, ig_x piece, ig_x *out_row, ig_x *out_column) {
    struct ig_loops *k = s->k;
    ig_x bit[5];
    for (int i = 0; i < 5; i++)
        bit[i] = ig_x_mod(k, ig_x_div(k, lane, num(s, 1 << i)), num(s, 2));
    ig_x quarter = ig_x_mod(k, lane, num(s, 4)), row = ig_x_div(k, lane, num(s, 4)), column;
    switch (vector) {
    case 1:
        row = piece;
        column = ig_x_add(k, ig_x_mul(k, quarter, num(s, 2)), bit[2]);
        column = ig_x_add(k, column, ig_x_mul(k, ig_x_div(k, lane, num(s, 8)), num(s, 8)));
        break;
    case 2:
        row = ig_x_add(k, bit[2], ig_x_mul(k, piece, num(s, 2)));
        column = ig_x_mul(k, quarter, num(s, 2));
        column = ig_x_add(k, column, ig_x_mul(k, ig_x_div(k, lane, num(s, 8)), num(s, 8)));
        break;
    case 4:
        column = ig_x_add(k, ig_x_mul(k, bit[0], num(s, 8)), ig_x_mul(k, bit[1], num(s, 4)));
        column = ig_x_add(k, column, ig_x_mul(k, piece, num(s, 16)));
        break;
    default: column = ig_x_mul(k, quarter, num(s, 8)); break;
    }
    *out_row = row;
    *out_column = column;
}

/* A thread's pieces of its own sums: which, and where they lie. */
struct piece {
    ig_x rows, columns, half, piece; /* loop variables */
    ig_x row, column;                /* of the output; rows beyond the last are the last one */
    ig_x inside;                     /* is it no such row? IG_NO_X: always */
};

enum { WARP_ROWS = 16, OWN_LINE = IG_CUDA_OWN_COLUMNS * 4 };

static int own_vector(struct ig_cuda_product *s) {
    return ig_product_vector(s) < IG_CUDA_OWN_COLUMNS ? ig_product_vector(s) : IG_CUDA_OWN_COLUMNS;
}

/* A row of a tile that is a rectangle of an image's outputs, which begins at s->first_row of those that whole tiles have. */
static void locate_in_patch(struct ig_cuda_product *s, ig_x row, struct piece *p) {
    struct ig_loops *k = s->k;
    const struct ig_type *out = ig_contract_out(s->c);
    ig_x tile = ig_x_div(k, s->first_row, num(s, s->g->bm)), place[2];
    ig_x within[2] = {ig_x_div(k, row, num(s, s->g->patch[1])), ig_x_mod(k, row, num(s, s->g->patch[1]))};
    for (int i = 1; i >= 0; i--) {
        ig_dim size = ig_cuda_size_along(s->c, out, 1 + i), each = constant(s, s->g->patch[i]);
        ig_x block = ig_x_split_off(k, &tile, ig_dim_ceil_div(k->dims, size, each));
        place[i] = ig_x_add(k, ig_x_mul(k, block, num(s, s->g->patch[i])), within[i]);
        if (ig_dim_divides(k->dims, each, size)) continue;
        ig_x inside = ig_x_less(k, place[i], dim(s, size));
        p->inside = p->inside == IG_NO_X ? inside : ig_x_and(k, p->inside, inside);
        place[i] = ig_x_min(k, place[i], dim(s, ig_dim_sub(k->dims, size, constant(s, 1))));
    }
    p->row = tile;
    for (int i = 0; i < 2; i++)
        p->row = ig_x_add(k, ig_x_mul(k, p->row, dim(s, ig_cuda_size_along(s->c, out, 1 + i))), place[i]);
}

static void locate_piece(struct ig_cuda_product *s, ig_x warp, ig_x lane, struct piece *p) {
    struct ig_loops *k = s->k;
    int warps = ig_cuda_gemm_workers(s->g) / 32;
    ig_x own_row, own_column;
    locate_own(s, own_vector(s), lane, p->piece, &own_row, &own_column);
    ig_x row = ig_x_mul(k, ig_x_add(k, ig_x_mul(k, p->rows, num(s, warps)), warp), num(s, WARP_ROWS));
    row = ig_x_add(k, row, ig_x_mul(k, p->half, num(s, WARP_ROWS / 2)));
    p->inside = IG_NO_X;
    ig_x column = ig_x_add(k, ig_x_mul(k, p->columns, num(s, OWN_LINE)), own_column);
    p->column = ig_x_add(k, s->first_column, column);
    if (s->g->patch[0]) {
        locate_in_patch(s, ig_x_add(k, row, own_row), p);
        return;
    }
    p->row = ig_x_add(k, s->first_row, ig_x_add(k, row, own_row));
    if (!ig_dim_divides(k->dims, constant(s, s->g->bm), s->rows)) {
        p->inside = ig_x_less(k, p->row, dim(s, s->rows));
        p->row = ig_x_min(k, p->row, dim(s, ig_dim_sub(s->k->dims, s->rows, constant(s, 1))));
    }
}

/* Opens the loops over the pieces; all are unrolled, because registers cannot be indexed. */
static struct ig_stmt *loop_pieces(struct ig_cuda_product *s, struct ig_stmt *body, bool takes_sums, struct piece *p) {
    int vector = own_vector(s), warps = ig_cuda_gemm_workers(s->g) / 32;
    body = unroll(s, body, s->g->bm / WARP_ROWS / warps, &p->rows);
    body = unroll(s, body, s->g->bn / OWN_LINE, &p->columns);
    body = unroll(s, body, 2, &p->half);
    if (takes_sums)
        ig_s_text(s->k, body,
                  ig_format(s->k->job, "gemm::own_sums<%d>(registers, sums, @%u, @%u, @%u);", vector, (unsigned)p->rows,
                            (unsigned)p->columns, (unsigned)p->half));
    return unroll(s, body, IG_CUDA_OWN_COLUMNS / vector, &p->piece);
}

/* Of the pieces' elements in registers. */
static ig_x number_of_piece(struct ig_cuda_product *s, const struct piece *p) {
    struct ig_loops *k = s->k;
    int vector = own_vector(s);
    ig_x n = ig_x_add(k, ig_x_mul(k, p->rows, num(s, s->g->bn / OWN_LINE)), p->columns);
    n = ig_x_add(k, ig_x_mul(k, n, num(s, 2)), p->half);
    n = ig_x_add(k, ig_x_mul(k, n, num(s, IG_CUDA_OWN_COLUMNS / vector)), p->piece);
    return ig_x_mul(k, n, num(s, vector));
}

/* The epilogue of a thread's own sums, whose places follow from wgmma's: eight of 32 columns in eight rows. Rows beyond the last
 * are computed like the last one and not stored, so that loads need not wait for comparisons. */
static void emit_own(struct ig_cuda_product *s, struct ig_stmt *body, ig_x warp, ig_x lane) {
    struct piece p;
    int vector = own_vector(s);
    body = loop_pieces(s, body, true, &p);
    locate_piece(s, warp, lane, &p);
    s->c->inside = p.inside;
    s->c->ahead_at = number_of_piece(s, &p);
    ig_product_emit_columns(s, body, p.row, p.column, vector, ig_x_mul(s->k, p.piece, num(s, vector)));
}

/* ---- Operands of the epilogue, loaded ahead of the product ---- */

/* Registers that a thread has left for them, beside its sums, addresses and what the epilogue computes. */
static int spare_registers(struct ig_cuda_product *s) {
    enum { OTHERS = 32 };
    return ig_cuda_gemm_registers(s->g) - OTHERS - s->g->bm * s->g->bn / ig_cuda_gemm_workers(s->g);
}

/* The memory is far away, and the epilogue would wait for it: a thread has its elements under way before it waits for the product. */
static void emit_ahead(struct ig_cuda_product *s, struct ig_stmt *body, ig_x warp, ig_x lane) {
    struct ig_contract *c = s->c;
    struct ig_loops *k = s->k;
    int elements = s->g->bm * s->g->bn / ig_cuda_gemm_workers(s->g), vector = own_vector(s), left = spare_registers(s);
    int *ahead = IG_NEW_ARRAY(k->job, int, c->graph->values.count);
    struct piece p;
    struct ig_stmt *loops = NULL;
    for (uint32_t v = 0; v < c->graph->values.count; v++)
        ahead[v] = -1;
    for (uint32_t i = 0; i < c->region->inputs.count; i++) {
        ig_value v = c->region->inputs.at[i];
        if (!c->spatial || !ig_product_is_beside(s, v)) continue;
        enum ingot_dtype dtype = ig_type_of(c->graph, v)->dtype;
        int bytes = vector * (int)ingot_dtype_size(dtype), registers = elements * (int)ingot_dtype_size(dtype) / 4;
        if (bytes < 4 || registers > left) continue;
        left -= registers;
        ahead[v] = ig_loops_local(k, dtype, elements, ig_format(k->job, "ahead%u", i));
        if (!loops) {
            loops = loop_pieces(s, body, false, &p);
            locate_piece(s, warp, lane, &p);
        }
        ig_x column = p.column;
        if (!ig_dim_divides(k->dims, constant(s, s->g->bn), c->columns))
            column = ig_x_min(k, column, dim(s, ig_dim_sub(k->dims, c->columns, constant(s, vector))));
        column = ig_x_add(k, ig_x_mul(k, s->at, dim(s, c->columns)), column);
        ig_x from = ig_x_add(k, ig_x_mul(k, p.row, dim(s, ig_dim_mul(k->dims, s->batches.count, c->columns))), column);
        const struct ig_call_arg args[] = {{ahead[v], number_of_piece(s, &p)}, {c->lower.buffer_of[v], from}};
        ig_s_call(k, loops, ig_format(k->job, "ig_copy_%d", bytes), args, 2);
    }
    c->ahead = ahead;
}

/* What the sums begin with, and how many columns that has from the tile's first one on, as arguments of gemm::multiply. The copies of a
 * thread's columns are of two or more. */
static const char *start_of(struct ig_cuda_product *s) {
    struct ig_contract *c = s->c;
    struct ig_loops *k = s->k;
    ig_value begun, start = ig_contract_start(c, &begun);
    if (start == IG_NO_VALUE || !ig_dim_divides(k->dims, constant(s, 2), c->columns)) return "";
    c->begun = begun;
    s->g->begun = true;
    ig_x left = s->g->whole_columns ? num(s, s->g->bn) : ig_x_sub(k, dim(s, c->columns), s->first_column);
    return ig_format(k->job, ", %s + @%u, @%u", k->buffers.at[c->lower.buffer_of[start]].name,
                     (unsigned)s->first_column, (unsigned)left);
}

void ig_product_emit_owners(struct ig_cuda_product *s, struct ig_stmt *body, ig_x tile) {
    struct ig_loops *k = s->k;
    ig_x warp, lane;
    body = loop(s, body, IG_FOR_TEAM, num(s, ig_cuda_gemm_workers(s->g) / 32), &warp);
    body->lanes = 32;
    body = loop(s, body, IG_FOR_SIMD, num(s, 32), &lane);
    emit_ahead(s, body, warp, lane);
    ig_s_text(k, body, "gemm::sums registers;");
    ig_product_start_scales(s, body, "registers", num(s, 0));
    ig_s_text(k, body,
              ig_format(k->job, "gemm::multiply(registers, @%u, @%u%s);", (unsigned)tile, (unsigned)dim(s, s->c->depth),
                        start_of(s)));
    emit_own(s, body, warp, lane);
    s->c->ahead = NULL;
}
