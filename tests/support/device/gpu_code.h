/*
 * Code for tests of the CUDA device: cubins that are only a header, for a chosen GPU, and PTX with the kernels of
 * device_test. If the cubin is for another GPU than the machine's, the PTX runs.
 */
#ifndef TESTS_SUPPORT_GPU_CODE_H
#define TESTS_SUPPORT_GPU_CODE_H

#include <stddef.h>
#include <stdint.h>

struct gpu_code {
    unsigned char bytes[16384];
    size_t size;
};

/* Each appends code and returns its offset. */
uint64_t gpu_code_add_cubin(struct gpu_code *code, unsigned sm);
uint64_t gpu_code_add_text(struct gpu_code *code, const char *text);

/*
 * For launches of 16 threads per block, one per element of a tile of 16:
 *     add(a, b, c, n, tiles, scratch)   c[i] = a[i] + b[i]
 *     twice(a, n, tiles, scratch)       a[i] *= 2
 *     pair(a, b, n, tiles, scratch)     b[i] = a[i] + a[n - 1 - i]
 *     mark(marks, n, tiles, scratch)    marks[tile]++, if n bytes of scratch belong to the block alone
 *     crash(n, tiles, scratch)          writes to unmapped memory
 */
extern const char gpu_code_ptx[];
/* sm_90 and up: `twice` as `twice_late`, which lets its successor start early and waits for its predecessor. */
extern const char gpu_code_late_ptx[];

#endif
