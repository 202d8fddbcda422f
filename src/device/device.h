/*
 * A device: where memory lives and kernels run. About 20 functions in one table; null/ is the commented example,
 * cpu/ and cuda/ the real ones. One conformance suite (tests/device_test.c) runs on all.
 *
 * A device and everything made from it belong to one thread at a time: each context has a device of its own.
 */
#ifndef IG_DEVICE_DEVICE_H
#define IG_DEVICE_DEVICE_H

#include "base/library.h"
#include "base/tensor_map.h"

struct ig_device;
struct ig_stream; /* work enqueued on one stream is done in order */
struct ig_event;
struct ig_module; /* loaded code */
struct ig_list;   /* a captured sequence of launches */

struct ig_launch {
    struct ig_module *module;
    uint64_t entry;       /* offset of the kernel in the module's code */
    uint64_t portable;    /* CUDA: of its PTX; UINT64_MAX: none */
    const char *name;     /* CUDA: of the function; lives as long as the module's code */
    uint32_t threads;     /* CUDA: of a block */
    uint32_t shared;      /* CUDA: bytes of dynamic shared memory of a block */
    bool waits;           /* CUDA: the kernel itself waits for the one before it (griddepcontrol.wait) in every thread
                             and before it touches anything but constants, so that it may be started early */
    void *const *buffers; /* copied by launch */
    uint32_t n_buffers;
    const int64_t *dims; /* copied by launch */
    uint32_t n_dims;
    const struct ig_tensor_map *maps; /* CUDA: copied by launch; right for the dims where there are tiles */
    uint32_t n_maps;
    int64_t tiles;
    bool lasting;   /* CUDA: a block does tiles until none is left, so there need not be more than multiprocessors */
    size_t scratch; /* bytes per worker */
    uint32_t max_workers; /* that its work pays for; 0: any number */
    /* CUDA: no kernel but a call of a library, of which `buffers` are the operands and `dims` the sizes, both as many as it
     * wants, and the sizes are right for the operands; copied by launch. NULL: a kernel. */
    const struct ig_library_call *library;
};

struct ig_device_api {
    const char *name;
    void (*destroy)(struct ig_device *device);
    /* Around several calls: what each would do to make the device this thread's, and to undo that, is then done once. They
     * may be nested. NULL where there is nothing to do. */
    enum ingot_status (*enter)(struct ig_device *device, struct ingot_error *error);
    void (*leave)(struct ig_device *device);
    /* How many workers a launch is spread over at most, the caller included; each has scratch of its own. */
    uint32_t (*workers)(const struct ig_device *device);
    /* Memory of the device, zero-filled is not promised. Aligned to 64. Enqueued work may still use what is released: it
     * is given back behind that work. */
    enum ingot_status (*allocate)(struct ig_device *, size_t size, void **out_memory, struct ingot_error *);
    void (*release)(struct ig_device *, void *memory, size_t size);
    /* Memory of the host that copies can read and write while the host goes on (pinned). Aligned to 64. No enqueued work
     * may use it when it is released. */
    enum ingot_status (*allocate_host)(struct ig_device *, size_t size, void **out_memory, struct ingot_error *);
    void (*release_host)(struct ig_device *, void *memory, size_t size);
    /* The same for memory that the host has already, and back; any address and size. NULL where all memory is as good. */
    enum ingot_status (*pin_host)(struct ig_device *, void *memory, size_t size, struct ingot_error *);
    void (*unpin_host)(struct ig_device *, void *memory);
    /* Loads code. `code` must stay mapped and unchanged until module_destroy. */
    enum ingot_status (*module_create)(struct ig_device *, const void *code, size_t size, struct ig_module **out_module,
                                       struct ingot_error *);
    void (*module_destroy)(struct ig_device *, struct ig_module *module);
    enum ingot_status (*stream_create)(struct ig_device *, struct ig_stream **out_stream, struct ingot_error *);
    /* A stream of the caller's own (CUDA: a CUstream of this GPU's primary context), which outlives the ig_stream and is
     * not destroyed with it. INGOT_UNSUPPORTED where a device knows no such thing. */
    enum ingot_status (*stream_adopt)(struct ig_device *, void *native, struct ig_stream **out_stream,
                                      struct ingot_error *);
    void (*stream_destroy)(struct ig_device *, struct ig_stream *stream);
    /* Waits until all that was enqueued is done and returns the first failure since the last wait. */
    enum ingot_status (*stream_wait)(struct ig_device *, struct ig_stream *stream, struct ingot_error *);
    /* `timed`: event_elapsed may be asked of it. */
    enum ingot_status (*event_create)(struct ig_device *, bool timed, struct ig_event **out_event,
                                      struct ingot_error *);
    void (*event_destroy)(struct ig_device *, struct ig_event *event);
    enum ingot_status (*event_record)(struct ig_device *, struct ig_stream *, struct ig_event *, struct ingot_error *);
    enum ingot_status (*event_wait)(struct ig_device *, struct ig_stream *, struct ig_event *, struct ingot_error *);
    /* The host waits until the work before the event's last record is done; at once where it was never recorded. Whether
     * that work failed, stream_wait says. */
    enum ingot_status (*event_sync)(struct ig_device *, struct ig_event *, struct ingot_error *);
    /* The time between two recorded events, which are timed, by the device's clock. Both have happened (a wait saw to that). */
    enum ingot_status (*event_elapsed)(struct ig_device *, struct ig_event *begin, struct ig_event *end,
                                       uint64_t *out_nanoseconds, struct ingot_error *);
    /* Enqueued. From and to any memory of the device or the host. Where the host's is not from allocate_host, the call may
     * wait for the copy; such memory must not be in a list. */
    enum ingot_status (*copy)(struct ig_device *, struct ig_stream *, void *to, const void *from, size_t size,
                              struct ingot_error *);
    enum ingot_status (*launch)(struct ig_device *, struct ig_stream *, const struct ig_launch *, struct ingot_error *);
    /* INGOT_DEVICE, saying what was looked for, where a library that launches call is missing; INGOT_UNSUPPORTED where the
     * device has no use for any. */
    enum ingot_status (*need_library)(struct ig_device *, uint32_t library, struct ingot_error *);
    /* Makes sure that a launch with that much scratch per worker allocates nothing. */
    enum ingot_status (*reserve_scratch)(struct ig_device *, struct ig_stream *, size_t bytes, struct ingot_error *);
    /* What such a reservation takes in all. */
    size_t (*scratch_bytes)(const struct ig_device *, size_t bytes);
    /* Capture: launches and copies between begin and end are recorded, not run. They count from 0 in the order in which
     * they were made. Launching a list allocates nothing and waits for nothing. It may be launched on any stream, but on
     * one at a time. */
    enum ingot_status (*list_begin)(struct ig_device *, struct ig_stream *, struct ingot_error *);
    /* What is recorded next comes after these launches and copies alone, given by their numbers; without such a call it
     * comes after all before it. NULL where lists know one order only. */
    enum ingot_status (*list_after)(struct ig_device *, struct ig_stream *, const uint32_t *items, uint32_t count,
                                    struct ingot_error *);
    enum ingot_status (*list_end)(struct ig_device *, struct ig_stream *, struct ig_list **out_list,
                                  struct ingot_error *);
    void (*list_destroy)(struct ig_device *, struct ig_list *);
    /* What the list takes of host and device memory, roughly where only the driver knows. */
    size_t (*list_bytes)(const struct ig_device *, const struct ig_list *);
    enum ingot_status (*list_launch)(struct ig_device *, struct ig_stream *, struct ig_list *, struct ingot_error *);
    /* Replaces the address of buffer `buffer` of the recorded launch number `item`; of a copy, 0 is the source and 1 the
     * destination. By place and not by old address, because one address may stand for two buffers (the caller may bind
     * the same memory to two inputs). */
    void (*list_patch)(struct ig_device *, struct ig_list *, uint32_t item, uint32_t buffer, void *address);
    /* Leaves a recorded copy out of the launches from here on, or takes it in again; what comes after it comes after what it
     * came after. NULL where memory is the host's. */
    void (*list_skip)(struct ig_device *, struct ig_list *, uint32_t item, bool skipped);
};

struct ig_device {
    const struct ig_device_api *api;
    const struct ingot_allocator *allocator;
    /* Its memory is the host's: the host touches buffers, kernels any memory of the process. Where this is false, the host
     * uses `copy`, and kernels take memory from `allocate` only. */
    bool host_memory;
    /* Multiprocessors, where lists run what does not wait for each other side by side; 0 where they do not. */
    uint32_t processors;
};

/* `threads` that compute, the caller's included; 0: as many as this process may use (affinity, cgroup quota). */
enum ingot_status ig_device_cpu_create(unsigned threads, const struct ingot_allocator *allocator,
                                       struct ig_device **out_device, struct ingot_error *error);
/* GPU number `ordinal`. The driver is loaded here (libcuda.so.1); INGOT_DEVICE where there is none, it is too old or has
 * no such GPU. The caller's current context is the same after every call. */
enum ingot_status ig_device_cuda_create(int ordinal, const struct ingot_allocator *allocator,
                                        struct ig_device **out_device, struct ingot_error *error);
/* Records what it is told as text, runs nothing. */
enum ingot_status ig_device_null_create(const struct ingot_allocator *allocator, struct ig_device **out_device,
                                        struct ingot_error *error);

/* What a GPU is. */
struct ig_device_cuda_info {
    char name[128];      /* "NVIDIA H100 80GB HBM3" */
    char arch[16];       /* "sm_90a": the target that uses all of it */
    int sm;              /* 90 */
    bool sm_own;         /* has instructions of its own generation only ("a") */
    uint32_t processors; /* multiprocessors */
    uint32_t shared;     /* most bytes of dynamic shared memory of a block */
    size_t memory;       /* bytes in all */
    int driver;          /* the newest CUDA that its driver knows: 13000 is 13.0 */
};
/* How many GPUs the driver shows; INGOT_DEVICE where there is no driver. */
enum ingot_status ig_device_cuda_count(int *out_count, struct ingot_error *error);
enum ingot_status ig_device_cuda_describe(int ordinal, struct ig_device_cuda_info *out_info, struct ingot_error *error);

#endif
