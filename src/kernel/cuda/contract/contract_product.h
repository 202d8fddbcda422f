/*
 * The schedule of matrix products, shared by its files: contract.c chooses, and emits the loops around the template
 * (codegen/cuda/gemm/gemm.h); contract_owners.c the epilogue of threads that have sums of their own, contract_stream.c what belongs
 * to products of few rows.
 */
#ifndef IG_KERNEL_CUDA_CONTRACT_PRODUCT_H
#define IG_KERNEL_CUDA_CONTRACT_PRODUCT_H

#include "kernel/cuda/contract/contract_maps.h"
#include "kernel/cuda/contract/contract_rows.h"

struct ig_cuda_product {
    struct ig_contract *c;
    struct ig_loops *k;
    struct ig_cuda_gemm *g;
    struct ig_cuda_source a, b, twin;
    struct ig_cuda_scales scales; /* of matmul_scaled */
    struct ig_cuda_batches batches;
    ig_dim rows, columns_apart; /* `boxed`: columns of B from one batch to the next */
    int tile;                   /* buffer of sums */
    int list;
    int a_lines, b_lines;       /* FILLED: buffers of the operands' lines */
    struct ig_cuda_rows *first; /* the rows of A, which the kernel computes; NULL: they come from memory */
    /* Variables of the tile being emitted. */
    ig_x at, share, first_row, first_column;
};

static inline ig_x num(struct ig_cuda_product *s, int64_t i) {
    return ig_x_index(s->k, i);
}
static inline ig_x dim(struct ig_cuda_product *s, ig_dim d) {
    return ig_x_dim(s->k, d);
}
static inline ig_dim constant(struct ig_cuda_product *s, int64_t i) {
    return ig_dim_const(s->k->dims, i);
}
static inline struct ig_stmt *loop(struct ig_cuda_product *s, struct ig_stmt *body, enum ig_for_kind kind, ig_x hi,
                                   ig_x *out_var) {
    return ig_s_for(s->k, body, kind, num(s, 0), hi, num(s, 1), out_var);
}

/* Columns per access: 16 bytes of the widest output, or less if the columns are not divisible by that; and in an epilogue that takes the
 * sums from the tile. */
int ig_product_vector(struct ig_cuda_product *product);
int ig_product_epilogue_vector(struct ig_cuda_product *product);
/* Is v an operand of the epilogue alone, of which the epilogue reads the element that it stores? */
bool ig_product_is_beside(struct ig_cuda_product *product, ig_value v);
/* Stores the results of `vector` columns from `column` on in row m, whose sums are in the tile at `at`. */
void ig_product_emit_columns(struct ig_cuda_product *product, struct ig_stmt *body, ig_x m, ig_x column, int vector,
                             ig_x at);
/* Tells the scales that `name` has, from step `first` on, where they and the tile lie. */
void ig_product_start_scales(struct ig_cuda_product *product, struct ig_stmt *body, const char *name, ig_x first);

/* With a producer: the product of tile number `tile`, and each thread's epilogue of its own sums. */
void ig_product_emit_owners(struct ig_cuda_product *product, struct ig_stmt *body, ig_x tile);

/* Streams. All rows, if they are known and one tile has them; else 0. */
int ig_product_only_rows(const struct ig_cuda_product *product);
/* Up to the sums in the tile; operands of the epilogue are loaded ahead (struct ig_contract, ahead). */
void ig_product_emit_stream(struct ig_cuda_product *product, struct ig_stmt *body);

#endif
