/*
 * A stand-in for NVIDIA's driver, to test the CUDA device on machines without a GPU. Memory is host memory, streams
 * execute work at once, and kernels are functions of the test. It counts objects that are not freed, detects calls
 * without a current context and invalid handles, logs the names of calls, and fails on request. Tests open it with
 * dlopen and get the state below from `fake_cuda_state`. For programs that load it as their driver,
 * FAKE_CUDA="version=13000 devices=2 sm=90 memory=1000000" in the environment describes the machine.
 */
#ifndef TESTS_FAKE_CUDA_H
#define TESTS_FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_KERNELS 8

struct fake_kernel {
    const char *name;
    uint32_t n_parameters, n_maps; /* the last n_maps parameters are tensor maps; all others have 8 bytes */
    void (*run)(unsigned grid, unsigned threads, void **parameters);
};

/* Hooks for a backend that loads and runs real code, instead of the kernels listed below; all NULL: none. `find`
 * returns what `run` receives, with n_parameters and n_maps filled in; `run` returns NULL or an error message. */
struct fake_code {
    void *(*load)(const void *image);
    void (*unload)(void *loaded);
    const struct fake_kernel *(*find)(void *loaded, const char *name);
    const char *(*run)(const struct fake_kernel *kernel, unsigned grid, unsigned threads, unsigned shared,
                       void **parameters); /* by several threads at once */
    void (*add_memory)(void *begin, size_t size);
    void (*remove_memory)(void *begin);
};

struct fake_cuda {
    /* The simulated machine. */
    int version, devices, sm, pools;
    int no_mapping, no_descriptors; /* no virtual memory management; no descriptors of such memory */
    int shared;                     /* shared memory per block, in bytes; 0: 100,000 */
    size_t memory;
    struct fake_kernel kernels[FAKE_KERNELS];
    struct fake_code code;
    /* Call number `fail_at` (from 1) of function `fail`, or of any function if that is NULL, returns `fail_result`; 0:
     * no call fails. */
    const char *fail;
    uint64_t fail_at;
    int fail_result;
    int later; /* result of the next stream synchronisation: an error of enqueued work */
    /* Every call that needs a context fails with this, until the last reference to the GPU's context is released: a
     * real driver's behaviour after a kernel's illegal access. */
    int lost;
    bool has_clock;     /* the time between events is the host's; else it is always the same */
    unsigned not_ready; /* so many queries of events say that the work is not done yet */
    /* Observations. */
    uint64_t used; /* bytes of memory, which cuMemGetInfo takes from half of all */
    uint64_t live, calls, programmatic_edges, edges;
    uint64_t carveouts;      /* nodes and launches that prefer shared memory to L1 cache */
    uint64_t early_launches; /* launches that may start before their predecessors end */
    unsigned shared_limit;   /* the last limit set for a function's dynamic shared memory */
    char misuse[128];        /* the first call that a real driver would reject */
    char log[4096];          /* names of calls, each followed by a space, until it is full */
    size_t log_size;
};

/* The contents of a CUtensorMap of this driver. */
struct fake_tensor_map {
    uint64_t magic, memory, width, lines, pitch; /* pitch: in bytes */
    uint32_t element, box_width, box_lines, swizzle;
    uint32_t axes, sizes[3]; /* of windows: columns, rows, planes; `lines` are images then */
    union {
        struct {
            int32_t lower[3], upper[3];
        };
        uint64_t apart[2]; /* of patches: bytes from one row to the next, and from one image to the next */
    };
    uint32_t steps[3], dealt;
    uint32_t patch[2], joined; /* a patch's columns and rows, 0: windows; its lines are pieces of memory */
    uint32_t unused;
};
#define FAKE_TENSOR_MAP 0x70616d726f736e65u

#define FAKE_WORK_BYTES 256

/* The object behind a stream's handle, for libraries that enqueue work: `run` gets a copy of `data`, at once or, if the
 * stream is being captured, whenever the graph is launched. */
struct fake_stream {
    int kind;
    void (*enqueue)(struct fake_stream *stream, void (*run)(const void *data), const void *data, size_t size);
    void *capturing; /* the graph being captured; NULL: none */
};

typedef struct fake_cuda *fake_cuda_state_function(void);
/* The depth of this thread's context stack, and the context on top. */
typedef unsigned fake_cuda_depth_function(void);
typedef void *fake_cuda_current_function(void);

#endif
