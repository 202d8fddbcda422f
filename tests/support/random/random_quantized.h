/* Random quantised networks, as quantisers write them: each step dequantises, computes in f32 and mostly quantises again. */
#ifndef TESTS_SUPPORT_RANDOM_QUANTIZED_H
#define TESTS_SUPPORT_RANDOM_QUANTIZED_H

#include "ir/build.h"

struct random_quantized {
    uint32_t seed;
};

/* Adds inputs (f32 or bytes, of batch "s0"), some steps and up to three outputs. The same for the same seed. `argument` is a
 * struct random_quantized. */
void random_quantized_build(struct ig_graph *g, const void *argument);

#endif
