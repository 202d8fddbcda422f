/*
 * Rows in front of a product that alone reads them: the norm of a decoder's token, say, and the projections behind it. Where rows are
 * so few that weights are streamed, each block of the product's kernel can compute them all, which takes less than a kernel of their own
 * adds to the chain (kernel/cuda/contract/contract_rows.c).
 */
#ifndef IG_PASS_NORMS_H
#define IG_PASS_NORMS_H

#include "pass/pass.h"

/* Joins such regions of a graph for a GPU, where there is such a kernel and the estimates (options->estimator) do not speak for two, once
 * attentions and views are decided. */
void ig_join_norms(struct ig_graph *graph, const struct ig_pass_options *options);

#endif
