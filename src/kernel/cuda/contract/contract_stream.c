/* Products of few rows by streamed weights; see gemm_block.h. */
#include "kernel/cuda/contract/contract_product.h"

static void push(struct ig_call_arg *args, int *count, int buffer, ig_x index) {
    args[(*count)++] = (struct ig_call_arg){buffer, index};
}

int ig_product_only_rows(const struct ig_cuda_product *s) {
    const int64_t rows = ig_contract_const(s->c, s->rows, 0);
    return s->g->stream && rows <= s->g->bm ? (int)rows : 0;
}

/* The tile's operands of the epilogue, under way while it is multiplied. Those of a thread are those of its part of the epilogue, if it has
 * only one. */
static void emit_operands(struct ig_cuda_product *s, struct ig_stmt *body) {
    struct ig_contract *c = s->c;
    struct ig_loops *k = s->k;
    const int vector = ig_product_epilogue_vector(s), across = s->g->bn / vector, rows = ig_product_only_rows(s);
    int *ahead = IG_NEW_ARRAY(k->job, int, c->graph->values.count);
    if (rows == 0 || rows * across > ig_cuda_gemm_threads(s->g) || s->g->twin ||
        ig_contract_const(c, s->batches.count, 0) != 1 ||
        !ig_dim_divides(k->dims, ig_contract_as_dim(c, s->g->bn), c->columns))
        return;
    for (uint32_t v = 0; v < c->graph->values.count; v++)
        ahead[v] = -1;
    for (uint32_t i = 0; i < c->region->inputs.count; i++) {
        const ig_value v = c->region->inputs.at[i];
        if (!ig_product_is_beside(s, v)) continue;
        const enum ingot_dtype dtype = ig_type_of(c->graph, v)->dtype;
        const int bytes = vector * (int)ingot_dtype_size(dtype);
        if (bytes < 4 || bytes > 16) continue;
        ig_x slot;
        ahead[v] = ig_loops_spread(k, dtype, rows * across, vector, ig_format(k->job, "ahead%u", i));
        struct ig_stmt *own = loop(s, body, IG_FOR_SIMD, ig_contract_int(c, rows * across), &slot);
        ig_x row = ig_x_add(k, s->first_row, ig_x_div(k, slot, ig_contract_int(c, across))),
             column = ig_x_mul(k, ig_x_mod(k, slot, ig_contract_int(c, across)), ig_contract_int(c, vector));
        ig_x from = ig_x_add(k, ig_x_mul(k, row, ig_contract_dim(c, c->columns)), ig_x_add(k, s->first_column, column));
        const struct ig_call_arg args[] = {{ahead[v], ig_x_mul(k, slot, ig_contract_int(c, vector))},
                                           {c->lower.buffer_of[v], from}};
        ig_s_call(k, own, ig_format(k->job, "ig_copy_%d", bytes), args, 2);
    }
    c->ahead = ahead;
}

void ig_product_emit_stream(struct ig_cuda_product *s, struct ig_stmt *body) {
    const bool boxes = ig_cuda_gemm_streams_boxes(s->g);
    struct ig_call_arg args[8];
    int n = 0;
    ig_s_text(s->k, body, boxes ? "gemm::stream product(map0, map1);" : "gemm::stream product;");
    if (s->first) ig_cuda_rows_emit_constants(s->first, body);
    if (boxes) {
        push(args, &n, -1,
             ig_x_add(s->k, ig_x_mul(s->k, s->at, ig_contract_dim(s->c, s->columns_apart)), s->first_column));
    } else {
        push(args, &n, s->b.buffer, s->b.base);
        push(args, &n, -1, ig_contract_dim(s->c, s->b.ld));
        push(args, &n, -1, s->first_column);
        push(args, &n, -1, ig_contract_dim(s->c, s->c->columns));
        if (s->g->twin) push(args, &n, s->twin.buffer, s->twin.base);
        if (s->g->pushes) push(args, &n, -1, ig_contract_int(s->c, 0)); /* in place of a twin */
    }
    if (s->g->pushes) args[n++] = ig_cuda_contract_seat(s->c);
    ig_s_call(s->k, body, "product.begin", args, n);
    emit_operands(s, body);
    if (s->first) ig_cuda_rows_emit(s->first, body);
    n = 0;
    push(args, &n, s->tile, ig_contract_int(s->c, 0));
    push(args, &n, s->a.buffer, s->a.base);
    push(args, &n, -1, ig_contract_dim(s->c, s->a.ld));
    push(args, &n, -1, s->first_row);
    push(args, &n, -1, ig_contract_dim(s->c, s->rows));
    ig_s_call(s->k, body, "product.multiply", args, n);
}
