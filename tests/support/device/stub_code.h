/*
 * Machine code without a compiler: a blob of trampolines, each of which jumps to a C function of the test program. So
 * a device runs "loaded code", while sanitizers see what the kernels do.
 */
#ifndef TESTS_SUPPORT_STUB_CODE_H
#define TESTS_SUPPORT_STUB_CODE_H

#include <stddef.h>
#include <stdint.h>

#define STUB_SIZE 16
#define STUB_CAPACITY 32

typedef void (*stub_kernel)(void *const *buffers, const int64_t *dims, int64_t begin, int64_t end, void *scratch);

struct stub_code {
    unsigned char bytes[STUB_SIZE * STUB_CAPACITY];
    size_t size;
};

/* Appends a stub; returns its offset. */
uint64_t stub_code_add(struct stub_code *code, stub_kernel kernel);

#endif
