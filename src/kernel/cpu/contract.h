/*
 * Contractions on CPUs: the schedules, and what they share. contract_panel.c reads A and B or copies them into panels,
 * contract_columns.c has the panels of B and the register block; contract.c tries the schedules in turn.
 */
#ifndef IG_KERNEL_CPU_CONTRACT_H
#define IG_KERNEL_CPU_CONTRACT_H

#include "kernel/contract.h"

/* The schedules, as in contract.h. */
bool ig_contract_gemm(struct ig_contract *c);
bool ig_contract_lines(struct ig_contract *c);
bool ig_contract_depthwise(struct ig_contract *c);

/* True for types that micro-kernels read as they read c->dtype: that itself, and halves where it is f32. */
bool ig_contract_can_convert(const struct ig_contract *c, enum ingot_dtype dtype);
/* The type as micro-kernels name it (ig_micro.half). */
enum ingot_dtype ig_contract_half(enum ingot_dtype dtype);
/* Reserves scratch for `elements` of c->dtype: a buffer of the loops. */
int ig_contract_scratch(struct ig_contract *c, ig_dim elements, const char *name);

/* Where a matrix lies in memory with unit stride along its depth (A, of c->dtype) or its columns or depth (B, of a type
 * that micro-kernels convert). */
struct ig_contract_view {
    int buffer;      /* -1: nowhere */
    ig_x base;       /* position of element [0][0] of the batch given */
    ig_dim stride;   /* between rows of A, or between the elements along B's other axis */
    bool transposed; /* B: unit stride along the depth */
};
struct ig_contract_view ig_contract_view_a(struct ig_contract *c, ig_x b);
struct ig_contract_view ig_contract_view_b(struct ig_contract *c, ig_x b);

/* Copies rows first_row … first_row + rows - 1 of A to `buffer` at row stride lda. */
void ig_contract_copy_a(struct ig_contract *c, struct ig_stmt *body, ig_x b, ig_x first_row, ig_x rows, int buffer,
                        ig_x lda);
/* Copies columns panel*nr … of B to `buffer` as a panel [depth][nr], zeros beyond the last column. */
void ig_contract_copy_b(struct ig_contract *c, struct ig_stmt *body, ig_x b, ig_x panel, int nr, int buffer);

/* The columns of a product, in panels of nr, and the block of registers that meets them. */
struct ig_columns {
    ig_dim panels;
    int lanes, nr, mr;
    int element;           /* bytes */
    int64_t first, second; /* what of the first and second cache may be filled, in bytes */
};
void ig_columns_init(struct ig_contract *c, struct ig_columns *out_columns);
/* True where mr rows, `stride` elements apart, crowd few sets of the first cache (64 sets of at least 8 lines). */
bool ig_columns_rows_conflict(const struct ig_columns *p, int64_t stride);
/* How many vectors of a panel have columns: all but in the last one. As a number for the micro-kernel, and as the set of
 * bits that its description asks for. `whole`: always the whole panel. */
ig_x ig_columns_vectors(struct ig_contract *c, const struct ig_columns *p, ig_x panel, bool whole);
uint32_t ig_columns_vector_set(const struct ig_contract *c, const struct ig_columns *p, bool whole);
/* ig_contract_epilogue over the columns of a panel, apart for full panels and the last one where they differ, so that both
 * have loops of fixed length. */
void ig_columns_epilogue(struct ig_contract *c, const struct ig_columns *p, struct ig_stmt *body, ig_x b, ig_x panel,
                         ig_x first_row, ig_x rows, int tile, ig_x tile_at);

#endif
