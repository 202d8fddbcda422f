/*
 * A CUDA device inside: one GPU's primary context, retained as long as the device lives, and what its parts share.
 *
 * The primary context is the one that the CUDA runtime and other libraries of the process use too, so that pointers and
 * streams can be exchanged with them. No call leaves it current: each pushes it and pops it again (ig_cuda_enter,
 * ig_cuda_leave), and so the caller's own current context, on whatever GPU, is untouched.
 */
#ifndef IG_DEVICE_CUDA_CONTEXT_H
#define IG_DEVICE_CUDA_CONTEXT_H

#include "base/library.h"
#include "base/memory.h"
#include "device/cuda/driver.h"
#include "device/device.h"

/* Blocks of a grid per multiprocessor where each block has scratch memory of its own. */
#define IG_CUDA_SCRATCH_BLOCKS 4
/* Scratch memory of a stream beyond which there are fewer blocks rather than more memory. */
#define IG_CUDA_SCRATCH_LIMIT ((size_t)256 << 20)

struct ig_cuda {
    struct ig_device base;
    struct ig_cuda_driver driver;
    struct ig_device_cuda_info info;
    CUdevice handle;
    CUcontext context;
    CUmemoryPool pool;         /* NULL: this GPU has none */
    CUstream memory_stream;    /* on which memory is taken from the pool and given back */
    CUevent fence;             /* what `memory_stream` waits for before memory is given back */
    struct ig_stream *streams; /* all that exist */
    void **parameters;         /* room for the parameters of a launch */
    size_t n_parameters;
    uint64_t calls;                              /* of the driver */
    unsigned entered;                            /* how often, and not left yet */
    const char *library_files[IG_LIBRARY_COUNT]; /* NULL: as ig_library_files says */
    bool copy_sought;                            /* the kernel that copies; see copy.h */
    CUmodule copy_module;
    CUfunction copy_kernel;
    struct ig_cuda_libraries *libraries; /* NULL: none was needed yet */
};

struct ig_stream {
    CUstream handle;
    bool adopted;              /* the caller's */
    struct ig_list *recording; /* NULL: what is launched runs */
    void *scratch;
    size_t scratch_size;
    struct ig_stream *next, **link; /* among the device's streams */
};

static inline struct ig_cuda *ig_cuda_of(const struct ig_device *device) {
    return (struct ig_cuda *)(uintptr_t)device;
}

/* Calls a function of the driver: the one way to do so, because calls are counted. */
#define IG_CUDA(cuda, function, ...) ((cuda)->calls++, (cuda)->driver.function(__VA_ARGS__))
/* The same as a status: IG_CUDA_TRY(cuda, error, "cannot …", cuStreamSynchronize, stream). Both are for code between
 * ig_cuda_enter and ig_cuda_leave. */
#define IG_CUDA_STATUS(cuda, error, what, function, ...) \
    ig_cuda_driver_check(&(cuda)->driver, IG_CUDA((cuda), function, __VA_ARGS__), (error), "%s", (what))
#define IG_CUDA_TRY(cuda, error, what, function, ...) \
    IG_TRY(IG_CUDA_STATUS((cuda), (error), (what), function, __VA_ARGS__))

/* Makes the GPU's context the current one of this thread until ig_cuda_leave, which returns `status`; within another such
 * pair there is nothing to do. */
enum ingot_status ig_cuda_enter(struct ig_cuda *cuda, struct ingot_error *error);
enum ingot_status ig_cuda_leave(struct ig_cuda *cuda, enum ingot_status status);

/* ---- memory.c: all within the context --------------------------------------------------------------------------- */

enum ingot_status ig_cuda_memory_init(struct ig_cuda *cuda, struct ingot_error *error);
void ig_cuda_memory_deinit(struct ig_cuda *cuda);
enum ingot_status ig_cuda_allocate(struct ig_cuda *cuda, size_t size, void **out_memory, struct ingot_error *error);
/* Behind all work that is enqueued on the device's streams. */
void ig_cuda_release(struct ig_cuda *cuda, void *memory);
enum ingot_status ig_cuda_allocate_host(struct ig_cuda *cuda, size_t size, void **out_memory,
                                        struct ingot_error *error);
enum ingot_status ig_cuda_pin_host(struct ig_cuda *cuda, void *memory, size_t size, struct ingot_error *error);
/* Scratch memory for launches with `bytes` for each block. */
enum ingot_status ig_cuda_reserve_scratch(struct ig_cuda *cuda, struct ig_stream *stream, size_t bytes,
                                          struct ingot_error *error);
/* The same for so many bytes in all. */
enum ingot_status ig_cuda_reserve_workspace(struct ig_cuda *cuda, struct ig_stream *stream, size_t bytes,
                                            struct ingot_error *error);
size_t ig_cuda_scratch_bytes(const struct ig_cuda *cuda, size_t bytes);
/* How many blocks such a launch has at most. */
uint32_t ig_cuda_scratch_blocks(const struct ig_cuda *cuda, size_t bytes);

#endif
