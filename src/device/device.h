/*
 * A device: the memory that buffers live in and the code that runs on it, as one table of functions. null/ is the
 * commented example; cpu/ and cuda/ are the real ones. One conformance suite (tests/device/device_test.c) runs on all.
 *
 * Not thread-safe, except where stated: a device and everything made from it belong to one thread at a time, so each
 * context has a device of its own. Devices of the same GPU, or of the host, may use each other's memory and modules, on
 * several threads at once. They may also record and await each other's events, on streams of their own, and devices of other
 * GPUs may await them; whoever shares an event sees to it that no thread uses it while another one records it
 * (runtime/frame/activations.h, dist/windows.h). A list may be handed to another such
 * device with the same allocator, and is that one's from then on (runtime/context/preparer.h); the device that made it stays until
 * the list is destroyed.
 */
#ifndef IG_DEVICE_DEVICE_H
#define IG_DEVICE_DEVICE_H

#include <stdatomic.h>

#include "base/library.h"
#include "base/machine.h"
#include "base/stop.h"
#include "base/tensor_map.h"

struct ig_device;
struct ig_stream; /* enqueued work runs in order */
struct ig_event;
struct ig_module; /* loaded code */
struct ig_list;   /* a captured sequence of launches and copies */

struct ig_launch {
    struct ig_module *module;
    uint64_t entry;    /* offset of the kernel in the module's code */
    uint64_t portable; /* CUDA: offset of its PTX; UINT64_MAX: none */
    const char *name;  /* CUDA: the function's name; lives as long as the module's code */
    uint32_t threads;  /* CUDA: threads per block */
    uint32_t shared;   /* CUDA: bytes of dynamic shared memory per block */
    /* CUDA: every thread waits for the preceding kernel itself (griddepcontrol.wait) before it touches anything but
     * constants, so that the kernel may be started early. */
    bool waits;
    void *const *buffers; /* borrowed for the call */
    uint32_t n_buffers;
    const int64_t *dims; /* borrowed for the call */
    uint32_t n_dims;
    const struct ig_tensor_map *maps; /* CUDA: borrowed for the call; valid for `dims` if there are tiles */
    uint32_t n_maps;
    int64_t tiles;
    /* CUDA: persistent blocks: each takes tiles until none is left, so this many per multiprocessor are enough; 0: one
     * block per tile. */
    uint32_t lasting;
    uint32_t turn;        /* CPU: tiles of a turn, which begins when the one before has ended; 0: there are no turns */
    bool whole;           /* CPU: each worker does its tiles (of a turn) in one call */
    size_t scratch;       /* bytes per worker */
    uint32_t max_workers; /* more would not pay for its work; 0: no limit */
    /* CUDA: a library call instead of a kernel. `buffers` are its operands and `dims` its sizes, in the numbers that
     * the call asks for; the sizes have been checked against the operands. Borrowed for the call. NULL: a kernel. */
    const struct ig_library_call *library;
};

/* A call of a function of the host in the order of the work. Borrowed for the call of the device. */
struct ig_host_call {
    void (*function)(void *user, void *const *buffers);
    void *user;           /* must exist as long as a list has the call */
    void *const *buffers; /* operands, as a launch has them */
    uint32_t n_buffers;
};

struct ig_device_api {
    const char *name;
    void (*destroy)(struct ig_device *device);
    /* Bracket several calls, so that the device is made current on this thread once and not once per call. Brackets
     * nest. NULL where there is nothing to do. */
    enum ingot_status (*enter)(struct ig_device *device, struct ingot_error *error);
    void (*leave)(struct ig_device *device);
    /* The most workers that a launch is spread over, the caller included; each has scratch memory of its own. */
    uint32_t (*workers)(const struct ig_device *device);
    /* Bytes of the device's memory that nobody uses now, of this process or another; 0: not known. NULL where device memory is
     * the host's. */
    size_t (*free_bytes)(struct ig_device *);
    /* Device memory, not zeroed, aligned to 64 bytes. Enqueued work may still use memory that is released: it is freed
     * behind that work. */
    enum ingot_status (*allocate)(struct ig_device *, size_t size, void **out_memory, struct ingot_error *);
    void (*release)(struct ig_device *, void *memory, size_t size);
    /* Device memory that several processes can use, aligned to 64 bytes; INGOT_UNSUPPORTED where this device has none. It
     * exists as long as a process has it or a descriptor of it is open, whatever becomes of the others. These four are
     * NULL where device memory is the host's. */
    enum ingot_status (*allocate_shared)(struct ig_device *, size_t size, void **out_memory, struct ingot_error *);
    /* A new file descriptor, the caller's, of memory from allocate_shared. */
    enum ingot_status (*export_shared)(struct ig_device *, void *memory, int *out_descriptor, struct ingot_error *);
    /* The memory behind a descriptor, which stays the caller's, for the same GPU and in the size that was allocated. */
    enum ingot_status (*import_shared)(struct ig_device *, int descriptor, size_t size, void **out_memory,
                                       struct ingot_error *);
    /* Of memory from either, in this process. No enqueued work may use it. */
    void (*release_shared)(struct ig_device *, void *memory, size_t size);
    /* Pinned host memory, aligned to 64 bytes: copies from and to it proceed while the host continues. No enqueued work
     * may use it when it is released. */
    enum ingot_status (*allocate_host)(struct ig_device *, size_t size, void **out_memory, struct ingot_error *);
    void (*release_host)(struct ig_device *, void *memory, size_t size);
    /* Pins memory that the host already has, and unpins it; any address and size. NULL where pinning makes no
     * difference. */
    enum ingot_status (*pin_host)(struct ig_device *, void *memory, size_t size, struct ingot_error *);
    void (*unpin_host)(struct ig_device *, void *memory);
    /* Loads code. The caller keeps `code` mapped and unchanged until module_destroy. */
    enum ingot_status (*module_create)(struct ig_device *, const void *code, size_t size, struct ig_module **out_module,
                                       struct ingot_error *);
    void (*module_destroy)(struct ig_device *, struct ig_module *module);
    enum ingot_status (*stream_create)(struct ig_device *, struct ig_stream **out_stream, struct ingot_error *);
    /* Wraps a stream of the caller's (CUDA: a CUstream of this GPU's primary context), which must exist until it is let
     * go and is not destroyed with the ig_stream. `*stream` is NULL, or an ig_stream that was let go, to be used again
     * with what it has allocated. INGOT_UNSUPPORTED where a device has no native streams. */
    enum ingot_status (*stream_adopt)(struct ig_device *, void *native, struct ig_stream **stream,
                                      struct ingot_error *);
    /* Never uses the caller's stream again, whose work has been done: the caller may destroy it. NULL where there are
     * none. */
    void (*stream_let_go)(struct ig_device *, struct ig_stream *stream);
    /* The driver's stream behind this one, for libraries that enqueue on it. NULL where there are none. */
    void *(*stream_native)(struct ig_device *, const struct ig_stream *stream);
    /* Whether the caller is capturing its stream: what is enqueued there becomes part of a graph of the caller's, and
     * runs whenever that is launched. NULL where there is no such thing. */
    bool (*stream_is_captured)(struct ig_device *, const struct ig_stream *stream);
    void (*stream_destroy)(struct ig_device *, struct ig_stream *stream);
    /* Blocks until all enqueued work is done; returns the first failure since the last wait. */
    enum ingot_status (*stream_wait)(struct ig_device *, struct ig_stream *stream, struct ingot_error *);
    /* `timed`: event_elapsed may be called on it. From any thread, also while another uses the device. */
    enum ingot_status (*event_create)(struct ig_device *, bool timed, struct ig_event **out_event,
                                      struct ingot_error *);
    void (*event_destroy)(struct ig_device *, struct ig_event *event);
    enum ingot_status (*event_record)(struct ig_device *, struct ig_stream *, struct ig_event *, struct ingot_error *);
    enum ingot_status (*event_wait)(struct ig_device *, struct ig_stream *, struct ig_event *, struct ingot_error *);
    /* Blocks the host until the work before the event's last record is done; returns at once if it was never recorded.
     * Failures of that work are reported by stream_wait, not here. */
    enum ingot_status (*event_sync)(struct ig_device *, struct ig_event *, struct ingot_error *);
    /* From any thread, also while another uses the device: has the work before the event's last record been done? With
     * `block`, waits for it. The last record must happen before the call. */
    enum ingot_status (*event_await)(struct ig_device *, struct ig_event *, bool block, bool *out_done,
                                     struct ingot_error *);
    /* From any thread: event_record and event_wait on a stream of the caller's; see stream_adopt. INGOT_UNSUPPORTED, with
     * nothing done, while the caller captures the stream: events of a capture order nothing outside it. NULL where there
     * are none. */
    enum ingot_status (*event_record_native)(struct ig_device *, void *native, struct ig_event *, struct ingot_error *);
    enum ingot_status (*event_wait_native)(struct ig_device *, void *native, struct ig_event *, struct ingot_error *);
    /* From any thread: does what is enqueued on a stream of the caller's from now on come behind what is there? Not while the
     * caller captures it, nor where its handle means another stream on each thread. NULL where there are none. */
    bool (*native_keeps_order)(struct ig_device *, void *native);
    /* The time between two timed events, by the device's clock. The caller has waited for both. */
    enum ingot_status (*event_elapsed)(struct ig_device *, struct ig_event *begin, struct ig_event *end,
                                       uint64_t *out_nanoseconds, struct ingot_error *);
    /* Enqueues a copy between any two addresses of the device or the host. The call may block for host memory that is
     * not from allocate_host; a list must not contain such a copy. */
    enum ingot_status (*copy)(struct ig_device *, struct ig_stream *, void *to, const void *from, size_t size,
                              struct ingot_error *);
    enum ingot_status (*launch)(struct ig_device *, struct ig_stream *, const struct ig_launch *, struct ingot_error *);
    /* On one thread, while the device does nothing else. NULL where device memory is not the host's. */
    enum ingot_status (*call_host)(struct ig_device *, struct ig_stream *, const struct ig_host_call *,
                                   struct ingot_error *);
    /* Loads a library that launches call. INGOT_DEVICE, naming the files tried, if it is missing; INGOT_UNSUPPORTED
     * where the device uses no libraries. */
    enum ingot_status (*need_library)(struct ig_device *, uint32_t library, struct ingot_error *);
    /* Ensures that launches with up to `bytes` of scratch per worker allocate nothing. */
    enum ingot_status (*reserve_scratch)(struct ig_device *, struct ig_stream *, size_t bytes, struct ingot_error *);
    /* The total size of such a reservation. */
    size_t (*scratch_bytes)(const struct ig_device *, size_t bytes);
    /* Capture: launches and copies between begin and end are recorded, not run, and numbered from 0 in that order.
     * Launching a list neither allocates nor blocks. A list may be launched on any stream, but be in flight on one at a
     * time. */
    enum ingot_status (*list_begin)(struct ig_device *, struct ig_stream *, struct ingot_error *);
    /* The lists captured on `stream` are for `launcher`, of another device of the same GPU, and are captured with its scratch
     * memory; `stream` needs none then. NULL where lists do not depend on it. */
    void (*list_for)(struct ig_device *, struct ig_stream *stream, const struct ig_stream *launcher);
    /* Makes the next recorded item depend on the items with these numbers only; without this call it depends on all
     * before it. NULL where lists are strictly sequential. */
    enum ingot_status (*list_after)(struct ig_device *, struct ig_stream *, const uint32_t *items, uint32_t count,
                                    struct ingot_error *);
    enum ingot_status (*list_end)(struct ig_device *, struct ig_stream *, struct ig_list **out_list,
                                  struct ingot_error *);
    /* Does once what makes further launches of the list cheap (CUDA: makes its graph). A list can be launched before: its
     * items are then enqueued one by one. NULL where lists need nothing of the kind. */
    enum ingot_status (*list_ready)(struct ig_device *, struct ig_stream *, struct ig_list *, struct ingot_error *);
    void (*list_destroy)(struct ig_device *, struct ig_list *);
    /* The host and device memory that the list takes; an estimate where only the driver knows. */
    size_t (*list_bytes)(const struct ig_device *, const struct ig_list *);
    enum ingot_status (*list_launch)(struct ig_device *, struct ig_stream *, struct ig_list *, struct ingot_error *);
    /* Replaces the address of operand `buffer` in recorded item `item`; of a copy, 0 is the source and 1 the
     * destination. Identified by position and not by old address, because two operands may have the same address (the
     * caller may bind the same memory to two inputs). */
    void (*list_patch)(struct ig_device *, struct ig_list *, uint32_t item, uint32_t buffer, void *address);
    /* Excludes a recorded copy from later launches, or includes it again; its successors inherit its dependencies. NULL
     * where device memory is the host's. */
    void (*list_skip)(struct ig_device *, struct ig_list *, uint32_t item, bool skipped);
    /* Has a failure made the device useless to this process, until all that use it have been destroyed? NULL where that
     * cannot happen. */
    bool (*lost)(struct ig_device *);
};

struct ig_device {
    const struct ig_device_api *api;
    const struct ingot_allocator *allocator;
    /* The host can access buffers, and kernels any memory of the process. If false, the host must use `copy`, and
     * kernels take memory from `allocate` only. */
    bool host_memory;
    /* Threads among which a kernel's tiles are divided, and bytes of cache that they have together; 0: not known, or it
     * does not matter. */
    uint32_t threads;
    size_t cache_bytes;
    uint32_t ordinal; /* the GPU's number in this process; 0 for the CPU */
    /* The number of multiprocessors, if lists run independent items concurrently; else 0. */
    uint32_t processors;
    /* Devices that execute work within the call skip what is left once this asks them to; their memory then holds
     * anything. Borrowed; NULL: nobody asks. */
    const struct ig_stop *stop;
    atomic_uint shares; /* owners beyond the first; see ig_device_retain */
};

/* Several owners: api->destroy is for a device that has one, these are for others. They may be called from any
 * thread. */
static inline void ig_device_retain(struct ig_device *device) {
    atomic_fetch_add_explicit(&device->shares, 1, memory_order_relaxed);
}

static inline void ig_device_release(struct ig_device *device) {
    if (device && atomic_fetch_sub_explicit(&device->shares, 1, memory_order_acq_rel) == 0)
        device->api->destroy(device);
}

/* `threads` compute, the caller's included; 0: as many as this process may use (affinity, cgroup quota). */
enum ingot_status ig_device_cpu_create(unsigned threads, const struct ingot_allocator *allocator,
                                       struct ig_device **out_device, struct ingot_error *error);
/* What the threads of a CPU device can do at best, in some ten milliseconds; the size of the cache is not measured. */
enum ingot_status ig_device_cpu_measure(struct ig_device *device, struct ig_machine *out_machine,
                                        struct ingot_error *error);
/* GPU number `ordinal`. Loads the driver (libcuda.so.1); INGOT_DEVICE where it is missing, too old or has no such GPU.
 * The caller's current context is the same after every call. */
enum ingot_status ig_device_cuda_create(int ordinal, const struct ingot_allocator *allocator,
                                        struct ig_device **out_device, struct ingot_error *error);
/* Records all calls as text and runs nothing. */
enum ingot_status ig_device_null_create(const struct ingot_allocator *allocator, struct ig_device **out_device,
                                        struct ingot_error *error);

struct ig_device_cuda_info {
    char name[128];      /* "NVIDIA H100 80GB HBM3" */
    char arch[16];       /* the target that uses all of its features: "sm_90a" */
    int sm;              /* compute capability: 90 */
    bool sm_own;         /* has instructions that later generations lack ("a") */
    uint32_t processors; /* multiprocessors */
    uint32_t shared;     /* the most bytes of dynamic shared memory per block */
    size_t memory;       /* total bytes */
    int driver;          /* the newest CUDA that the driver supports: 13000 is 13.0 */
    double mhz;          /* the highest clock of the multiprocessors; these three are 0 where the driver does not say */
    double bandwidth;    /* of the memory at its highest clock, bytes per microsecond */
    size_t cache;        /* bytes of the second-level cache */
    /* The same in all processes. */
    unsigned char uuid[16];
};
/* The number of GPUs that the driver reports; INGOT_DEVICE where there is no driver. */
enum ingot_status ig_device_cuda_count(int *out_count, struct ingot_error *error);
enum ingot_status ig_device_cuda_describe(int ordinal, struct ig_device_cuda_info *out_info, struct ingot_error *error);

#endif
