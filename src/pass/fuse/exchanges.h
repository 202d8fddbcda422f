/*
 * An all-reduce and the rows behind it: the sum of a product's terms, and then the residual and the norm of a decoder's layer. Where
 * GPUs exchange through each other's memory, a kernel can do both (kernel/cuda/exchange_row.c). Both regions stay, for where
 * they do not: the collective comes right before the other, and has with it what they do together (ir/graph.h, joined).
 */
#ifndef IG_PASS_EXCHANGES_H
#define IG_PASS_EXCHANGES_H

#include "pass/pass.h"

/* Finds them, once everything else about regions is decided, where the estimates (options->estimator) do not speak for two kernels.
 * Ranks must have the same ones (compile/shard/agree.h). */
void ig_join_exchanges(struct ig_graph *graph, const struct ig_pass_options *options);

#endif
