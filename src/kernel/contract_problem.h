/*
 * What contract_problem.c makes one problem of: matrix products (contract_matmul.c) and convolutions (contract_conv.c). Each fills in
 * the sizes and says where the elements of A, B and C are, in the terms of contract.h.
 */
#ifndef IG_KERNEL_CONTRACT_PROBLEM_H
#define IG_KERNEL_CONTRACT_PROBLEM_H

#include "kernel/contract.h"

void ig_matmul_init(struct ig_contract *c);
ig_x ig_matmul_a(struct ig_contract *c, ig_x b, ig_x m, const ig_x *depth);
ig_x ig_matmul_b(struct ig_contract *c, ig_x b, ig_x n, const ig_x *depth);
void ig_matmul_position(struct ig_contract *c, ig_x b, ig_x m, ig_x n, ig_x *out_index);

/* False where there are more spatial axes than the problem has room for. */
bool ig_conv_init(struct ig_contract *c);
ig_x ig_conv_a(struct ig_contract *c, ig_x b, ig_x m, const ig_x *depth);
ig_x ig_conv_b(struct ig_contract *c, ig_x b, ig_x n, const ig_x *depth);
void ig_conv_position(struct ig_contract *c, ig_x b, ig_x m, ig_x n, ig_x *out_index);

/* For both. True where B is in panels that the micro-kernel can use: one to four vectors wide. */
bool ig_contract_is_packed(const struct ig_contract *c);
/* B's panels as they lie: [group][panel][depth][nr]. */
ig_x ig_contract_packed_b(struct ig_contract *c, ig_x group, ig_x n, const ig_x *depth);
/* The number of the element along the depth. */
ig_x ig_contract_depth_at(struct ig_contract *c, const ig_x *depth);

#endif
