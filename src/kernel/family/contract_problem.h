/*
 * The two cases that contract_problem.c dispatches to: matrix products (contract_matmul.c) and convolutions
 * (contract_conv.c). Each fills in the sizes and locates the elements of A, B and C, in the terms of contract.h.
 */
#ifndef IG_KERNEL_CONTRACT_PROBLEM_H
#define IG_KERNEL_CONTRACT_PROBLEM_H

#include "kernel/family/contract.h"

void ig_matmul_init(struct ig_contract *c);
ig_x ig_matmul_a(struct ig_contract *c, ig_x b, ig_x m, const ig_x *depth);
ig_x ig_matmul_b(struct ig_contract *c, ig_x b, ig_x n, const ig_x *depth);
void ig_matmul_position(struct ig_contract *c, ig_x b, ig_x m, ig_x n, ig_x *out_index);

/* False if there are more spatial axes than IG_CONTRACT_DEPTH allows. */
bool ig_conv_init(struct ig_contract *c);
ig_x ig_conv_a(struct ig_contract *c, ig_x b, ig_x m, const ig_x *depth);
ig_x ig_conv_b(struct ig_contract *c, ig_x b, ig_x n, const ig_x *depth);
void ig_conv_position(struct ig_contract *c, ig_x b, ig_x m, ig_x n, ig_x *out_index);

/* matmul_blocks: the rest is as in matrix products. */
ig_x ig_blocks_b(struct ig_contract *c, ig_x n, const ig_x *depth);

/* matmul_scaled: likewise. */
ig_x ig_scaled_b(struct ig_contract *c, ig_x n, const ig_x *depth);

/* For both: sets what B's packing says; its rank with no steps of the depth together is `rank`. It is `packed` if the
 * micro-kernel can use the panels: one to four vectors wide, and of types that it can multiply. */
void ig_contract_read_packing(struct ig_contract *c, int rank);
/* An element of packed B: [group][panel][depth][nr], or [group][panel][padded/G][nr][G]. */
ig_x ig_contract_packed_b(struct ig_contract *c, ig_x group, ig_x n, const ig_x *depth);
/* The linear index along the depth. */
ig_x ig_contract_depth_at(struct ig_contract *c, const ig_x *depth);

#endif
