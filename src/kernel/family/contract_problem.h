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

/* For both: is B packed in panels that the micro-kernel can use, one to four vectors wide? */
bool ig_contract_is_packed(const struct ig_contract *c);
/* An element of packed B: [group][panel][depth][nr]. */
ig_x ig_contract_packed_b(struct ig_contract *c, ig_x group, ig_x n, const ig_x *depth);
/* The linear index along the depth. */
ig_x ig_contract_depth_at(struct ig_contract *c, const ig_x *depth);

#endif
