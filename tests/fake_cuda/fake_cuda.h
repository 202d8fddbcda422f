/*
 * A library that stands in for NVIDIA's driver, so that the CUDA device is tested where there is none: memory is the
 * host's, streams do their work at once, kernels are functions of the test. It counts what is not given back, notices
 * calls without a current context or with handles that it did not give out, notes the names of the calls, and fails where
 * it is told to. The test opens it with dlopen and gets the state below from `fake_cuda_state`. A program that takes it for
 * the driver can be told by FAKE_CUDA="version=13000 devices=2 sm=90 memory=1000000" what to find.
 */
#ifndef TESTS_FAKE_CUDA_H
#define TESTS_FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_KERNELS 8

struct fake_kernel {
    const char *name;
    uint32_t n_parameters, n_maps; /* the last n_maps parameters are tensor maps, all others have 8 bytes */
    void (*run)(unsigned grid, unsigned threads, void **parameters);
};

/* Code that is more than the kernels listed below; all NULL: there is none. `find` returns what `run` gets, of which
 * n_parameters is filled in; `run` returns NULL, or what went wrong. */
struct fake_code {
    void *(*load)(const void *image);
    void (*unload)(void *loaded);
    const struct fake_kernel *(*find)(void *loaded, const char *name);
    const char *(*run)(const struct fake_kernel *kernel, unsigned grid, unsigned threads, unsigned shared,
                       void **parameters);
    void (*add_memory)(void *begin, size_t size);
    void (*remove_memory)(void *begin);
};

struct fake_cuda {
    /* What it pretends to be. */
    int version, devices, sm, pools;
    int shared; /* bytes that a block may have; 0: 100,000 */
    size_t memory;
    struct fake_kernel kernels[FAKE_KERNELS];
    struct fake_code code;
    /* Call number `fail_at` (from 1) of function `fail`, or of any where that is NULL, returns `fail_result`; 0: none. */
    const char *fail;
    uint64_t fail_at;
    int fail_result;
    int later;          /* what the next wait for a stream returns: enqueued work that failed */
    const char *reason; /* of error 700 */
    /* What it has seen. */
    uint64_t live, calls, programmatic_edges, edges;
    unsigned shared_limit; /* the last dynamic shared memory that a function was allowed */
    char misuse[128];      /* the first thing that a driver would not have taken well */
    char log[4096];        /* the names of calls, a space after each, while there is room */
    size_t log_size;
};

/* What a CUtensorMap holds here. */
struct fake_tensor_map {
    uint64_t magic, memory, width, lines, pitch; /* pitch: in bytes */
    uint32_t element, box_width, box_lines, swizzle;
    uint64_t unused[9];
};
#define FAKE_TENSOR_MAP 0x70616d726f736e65u

#define FAKE_WORK_BYTES 256

/* What a stream's handle points to, for libraries that put work on streams: `run` gets a copy of `data`, now, or, where the
 * stream is captured, whenever the graph is launched. */
struct fake_stream {
    int kind;
    void (*enqueue)(struct fake_stream *stream, void (*run)(const void *data), const void *data, size_t size);
    void *capturing; /* the graph; NULL: none */
};

typedef struct fake_cuda *fake_cuda_state_function(void);
/* How many contexts are on this thread's stack, and the one on top. */
typedef unsigned fake_cuda_depth_function(void);
typedef void *fake_cuda_current_function(void);

#endif
