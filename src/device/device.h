/*
 * A device: where memory lives and kernels run. About 15 functions in one table; null/ is the commented example,
 * cpu/ the real one. One conformance suite (tests/device_test.c) runs on all.
 *
 * A device and everything made from it belong to one thread at a time: each context has a device of its own.
 */
#ifndef IG_DEVICE_DEVICE_H
#define IG_DEVICE_DEVICE_H

#include "base/error.h"

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
    void *const *buffers; /* copied by launch */
    uint32_t n_buffers;
    const int64_t *dims; /* copied by launch */
    uint32_t n_dims;
    int64_t tiles;
    size_t scratch;       /* bytes per worker */
    uint32_t max_workers; /* that its work pays for; 0: any number */
};

struct ig_device_api {
    const char *name;
    void (*destroy)(struct ig_device *device);
    /* How many workers a launch is spread over at most, the caller included; each has scratch of its own. */
    uint32_t (*workers)(const struct ig_device *device);
    /* Memory of the device, zero-filled is not promised. Aligned to 64. */
    enum ingot_status (*allocate)(struct ig_device *, size_t size, void **out_memory, struct ingot_error *);
    void (*release)(struct ig_device *, void *memory, size_t size);
    /* Loads code. `code` must stay mapped and unchanged until module_destroy. */
    enum ingot_status (*module_create)(struct ig_device *, const void *code, size_t size, struct ig_module **out_module,
                                       struct ingot_error *);
    void (*module_destroy)(struct ig_device *, struct ig_module *module);
    enum ingot_status (*stream_create)(struct ig_device *, struct ig_stream **out_stream, struct ingot_error *);
    void (*stream_destroy)(struct ig_device *, struct ig_stream *stream);
    /* Waits until all that was enqueued is done and returns the first failure since the last wait. */
    enum ingot_status (*stream_wait)(struct ig_device *, struct ig_stream *stream, struct ingot_error *);
    enum ingot_status (*event_create)(struct ig_device *, struct ig_event **out_event, struct ingot_error *);
    void (*event_destroy)(struct ig_device *, struct ig_event *event);
    enum ingot_status (*event_record)(struct ig_device *, struct ig_stream *, struct ig_event *, struct ingot_error *);
    enum ingot_status (*event_wait)(struct ig_device *, struct ig_stream *, struct ig_event *, struct ingot_error *);
    /* Enqueued. */
    enum ingot_status (*copy)(struct ig_device *, struct ig_stream *, void *to, const void *from, size_t size,
                              struct ingot_error *);
    enum ingot_status (*launch)(struct ig_device *, struct ig_stream *, const struct ig_launch *, struct ingot_error *);
    /* Makes sure that a launch with that much scratch per worker allocates nothing. */
    enum ingot_status (*reserve_scratch)(struct ig_device *, struct ig_stream *, size_t bytes, struct ingot_error *);
    /* Capture: launches and copies between begin and end are recorded, not run. They count from 0 in the order in which
     * they were made. Launching a list allocates nothing. */
    enum ingot_status (*list_begin)(struct ig_device *, struct ig_stream *, struct ingot_error *);
    enum ingot_status (*list_end)(struct ig_device *, struct ig_stream *, struct ig_list **out_list,
                                  struct ingot_error *);
    void (*list_destroy)(struct ig_device *, struct ig_list *);
    enum ingot_status (*list_launch)(struct ig_device *, struct ig_stream *, struct ig_list *, struct ingot_error *);
    /* Replaces the address of buffer `buffer` of the recorded launch number `item`; of a copy, 0 is the source and 1 the
     * destination. By place and not by old address, because one address may stand for two buffers (the caller may bind
     * the same memory to two inputs). */
    void (*list_patch)(struct ig_device *, struct ig_list *, uint32_t item, uint32_t buffer, void *address);
};

struct ig_device {
    const struct ig_device_api *api;
    const struct ingot_allocator *allocator;
};

/* `threads` that compute, the caller's included; 0: as many as this process may use (affinity, cgroup quota). */
enum ingot_status ig_device_cpu_create(unsigned threads, const struct ingot_allocator *allocator,
                                       struct ig_device **out_device, struct ingot_error *error);
/* Records what it is told as text, runs nothing. */
enum ingot_status ig_device_null_create(const struct ingot_allocator *allocator, struct ig_device **out_device,
                                        struct ingot_error *error);

#endif
