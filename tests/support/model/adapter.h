/* Low-rank adapters made by tests, in the files that PEFT writes. */
#ifndef TESTS_SUPPORT_ADAPTER_H
#define TESTS_SUPPORT_ADAPTER_H

#include <stddef.h>
#include <stdint.h>

struct test_adapter_layer {
    const char *module;
    int64_t in, out, rank;
};

enum { TEST_ADAPTER_ALPHA = 3 };

/* Writes a new adapter with random matrices in -1 … 1, which follow from the seed, into the new folder. */
void test_adapter_write(const char *folder, const struct test_adapter_layer *layers, size_t n, uint64_t seed);
void test_adapter_remove(const char *folder);
/* The same matrices: A [rank, in] and B [out, rank] of the layer, without the scale (alpha / rank). The caller frees. */
void test_adapter_matrices(const struct test_adapter_layer *layers, size_t layer, uint64_t seed, float **out_a,
                           float **out_b);

#endif
