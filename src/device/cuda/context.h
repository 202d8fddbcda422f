/*
 * Internals of a CUDA device: one GPU's primary context, retained for the life of the device, and the state that its
 * parts share.
 *
 * The primary context is the one that the CUDA runtime and other libraries in the process use, so that pointers and
 * streams can be exchanged with them. Every call pushes it and pops it again (ig_cuda_enter, ig_cuda_leave), which
 * leaves the caller's own current context, on whatever GPU, untouched.
 */
#ifndef IG_DEVICE_CUDA_CONTEXT_H
#define IG_DEVICE_CUDA_CONTEXT_H

#include "base/library.h"
#include "base/memory.h"
#include "device/cuda/driver.h"
#include "device/device.h"

/* Blocks per multiprocessor in grids whose blocks have scratch memory. */
#define IG_CUDA_SCRATCH_BLOCKS 4
/* Bound on a stream's scratch memory; beyond it a launch gets fewer blocks instead of more memory. */
#define IG_CUDA_SCRATCH_LIMIT ((size_t)256 << 20)

struct ig_cuda {
    struct ig_device base;
    struct ig_cuda_driver driver;
    struct ig_device_cuda_info info;
    CUdevice handle;
    CUcontext context;
    CUmemoryPool pool;         /* NULL: this GPU has no memory pools */
    CUstream memory_stream;    /* the stream that pool allocations and frees are ordered on */
    CUevent fence;             /* orders frees behind work: recorded on every stream, awaited by `memory_stream` */
    struct ig_stream *streams; /* all streams of the device */
    size_t shared_unit;        /* granularity of shared memory; 0: not asked yet */
    uint64_t *block;           /* the reusable block of parameters of launches */
    size_t block_size;
    atomic_ullong calls;                         /* driver calls made so far, by any thread */
    unsigned entered;                            /* nesting depth of ig_cuda_enter */
    int capture_mode;                            /* the thread's own, while `entered` is not 0 */
    const char *library_files[IG_LIBRARY_COUNT]; /* NULL: the names of ig_library_files */
    bool copy_sought;                            /* the copy kernel was looked for; see copy.h */
    struct ig_cuda_copy *copy;                   /* NULL: not used so far, or not possible */
    struct ig_cuda_libraries *libraries;         /* NULL: none used yet */
};

struct ig_stream {
    CUstream handle;           /* NULL: the caller's stream was let go, and may not exist any more */
    bool adopted;              /* the caller's stream */
    struct ig_list *recording; /* list being captured; NULL: launches run */
    void *_Atomic scratch;     /* also read by the threads that capture lists for this stream */
    size_t scratch_size;
    const struct ig_stream *launcher; /* of the lists captured here; NULL: this stream */
    struct ig_stream *next, **link;   /* in the device's list of streams */
};

static inline struct ig_cuda *ig_cuda_of(const struct ig_device *device) {
    return (struct ig_cuda *)(uintptr_t)device;
}

/* Calls a driver function. All calls go through this, because they are counted. */
#define IG_CUDA(cuda, function, ...) \
    (atomic_fetch_add_explicit(&(cuda)->calls, 1, memory_order_relaxed), (cuda)->driver.function(__VA_ARGS__))
/* The same, returning a status: IG_CUDA_TRY(cuda, error, "cannot …", cuStreamSynchronize, stream). Both require
 * ig_cuda_enter. */
#define IG_CUDA_STATUS(cuda, error, what, function, ...) \
    ig_cuda_driver_check(&(cuda)->driver, IG_CUDA((cuda), function, __VA_ARGS__), (error), "%s", (what))
#define IG_CUDA_TRY(cuda, error, what, function, ...) \
    IG_TRY(IG_CUDA_STATUS((cuda), (error), (what), function, __VA_ARGS__))

/* Makes the GPU's context current on this thread until ig_cuda_leave, which returns `status`, and lets the thread
 * allocate memory and the like while somebody captures a stream. Pairs nest; only the outermost calls the driver. */
enum ingot_status ig_cuda_enter(struct ig_cuda *cuda, struct ingot_error *error);
enum ingot_status ig_cuda_leave(struct ig_cuda *cuda, enum ingot_status status);

/* ---- memory.c: call between ig_cuda_enter and ig_cuda_leave
 * ----------------------------------------------------------- */

enum ingot_status ig_cuda_memory_init(struct ig_cuda *cuda, struct ingot_error *error);
void ig_cuda_memory_deinit(struct ig_cuda *cuda);
enum ingot_status ig_cuda_allocate(struct ig_cuda *cuda, size_t size, void **out_memory, struct ingot_error *error);
/* Frees behind all work enqueued on the device's streams. */
void ig_cuda_release(struct ig_cuda *cuda, void *memory);
enum ingot_status ig_cuda_allocate_host(struct ig_cuda *cuda, size_t size, void **out_memory,
                                        struct ingot_error *error);
enum ingot_status ig_cuda_pin_host(struct ig_cuda *cuda, void *memory, size_t size, struct ingot_error *error);
/* Ensures scratch memory on `stream` for launches with `bytes` per block. */
enum ingot_status ig_cuda_reserve_scratch(struct ig_cuda *cuda, struct ig_stream *stream, size_t bytes,
                                          struct ingot_error *error);
/* Ensures `bytes` of scratch memory in total. */
enum ingot_status ig_cuda_reserve_workspace(struct ig_cuda *cuda, struct ig_stream *stream, size_t bytes,
                                            struct ingot_error *error);
size_t ig_cuda_scratch_bytes(const struct ig_cuda *cuda, size_t bytes);
/* The most blocks that such a launch may have. */
uint32_t ig_cuda_scratch_blocks(const struct ig_cuda *cuda, size_t bytes);

/* ---- shared.c: documented in device.h; all but the last likewise */

enum ingot_status ig_cuda_allocate_shared(struct ig_cuda *cuda, size_t size, void **out_memory,
                                          struct ingot_error *error);
enum ingot_status ig_cuda_export_shared(struct ig_cuda *cuda, void *memory, int *out_descriptor,
                                        struct ingot_error *error);
enum ingot_status ig_cuda_import_shared(struct ig_cuda *cuda, int descriptor, size_t size, void **out_memory,
                                        struct ingot_error *error);
void ig_cuda_release_shared(struct ig_cuda *cuda, void *memory, size_t size);

#endif
