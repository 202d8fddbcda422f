/*
 * Low-rank adapters (E. Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021) as Hugging Face's PEFT
 * writes them: a configuration in JSON, and for each adapted layer the matrices A [rank, in] and B [out, rank]. The layer's
 * weight becomes W + scale * B A.
 */
#ifndef IG_WEIGHTS_ADAPTER_H
#define IG_WEIGHTS_ADAPTER_H

#include "weights/weights.h"

/*
 * Adds to `out` the tensors of `base` that the adapter changes, under their names: weights with its products added
 * (computed in double precision and rounded once), and tensors that it replaces. `config` is adapter_config.json's text.
 * Layers are found by the names of PyTorch's parameters, which may stand behind a prefix of the model's own.
 *
 * Raises INGOT_BAD_TENSOR for what is malformed or fits no tensor of `base`, with the name, what was expected and what was
 * found, and INGOT_UNSUPPORTED for adapters that are none of this kind (DoRA and others).
 */
void ig_adapter_merge(struct ig_tensors *out, const void *config, size_t config_size, const struct ig_tensors *adapter,
                      const struct ingot_named_tensor *base, size_t n_base);

/*
 * The same for an engine that has slots for adapters: adds to `out` the matrices of slot `slot`, A [rank, in] and B [out,
 * rank] of each layer, with the adapter's: ranks that are smaller are filled up with zeros, and B is multiplied by the
 * scale. Layers that the adapter does not change, or all if `config` is NULL, get zeros. `slots` are the engine's
 * initialisers.
 *
 * Raises also INGOT_INVALID_ARGUMENT if there is no such slot, and INGOT_UNSUPPORTED for whole tensors.
 */
void ig_adapter_fill(struct ig_tensors *out, const void *config, size_t config_size, const struct ig_tensors *adapter,
                     const struct ingot_initializer_info *slots, size_t n_slots, unsigned slot);

#endif
