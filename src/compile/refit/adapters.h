/*
 * Low-rank adapters beside the weights: several at once, chosen per sample (L. Chen et al., "Punica: Multi-Tenant LoRA
 * Serving", 2023, has the idea). A linear layer x W gets a second term, (x A) B, whose matrices are taken by the sample's
 * number from `count` slots; refitting fills the slots.
 */
#ifndef IG_COMPILE_ADAPTERS_H
#define IG_COMPILE_ADAPTERS_H

#include "ir/graph.h"

/*
 * Returns the graph (a model's, as imported; unchanged) with slots for `options->adapters` adapters in the layers that the
 * options name, and with the input 'adapter'. Its initialisers are the model's and the slots' matrices, which are zeros: for
 * slot k of a layer "fc", "fc.lora_A.k.weight" [rank, in] and "fc.lora_B.k.weight" [out, rank], in PEFT's order, the scale
 * included in B.
 *
 * The input is i64[batch], a number for each sample, where the layers tell samples apart (ir/rows), else i64[1]: k for slot
 * k; any other number for none, and then the layer's result is that of x W, to the bit.
 *
 * Raises INGOT_INVALID_ARGUMENT where a pattern fits no linear layer, or names are taken.
 */
struct ig_graph *ig_adapters_add(struct ig_graph *graph, const struct ingot_build_options *options);

#endif
