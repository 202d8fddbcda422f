/*
 * A device for tests of the runtime with device memory and asynchronous work. It computes like the CPU device, but
 *
 *  - its memory is accessible to its kernels and copies only: an access by the host raises a signal;
 *  - work is done as late as the rules allow: when the host waits for it, or for something ordered behind it. So a copy
 *    whose source is overwritten too early, or a missing order between streams, shows as a wrong result;
 *  - kernels that get a host address, and copies from or to host memory that is not pinned, end the test;
 *  - calls are counted.
 */
#ifndef TESTS_SUPPORT_REMOTE_DEVICE_H
#define TESTS_SUPPORT_REMOTE_DEVICE_H

#include "device/device.h"

struct remote_counts {
    unsigned copies, launches, lists, patches;
    unsigned skips;          /* list_skip calls, to skip or include a copy */
    unsigned records, waits; /* of events by streams */
    unsigned syncs;          /* by the host: of events and streams */
    unsigned blocked;        /* syncs that found work undone */
    unsigned allocations;    /* of both kinds of memory */
    unsigned captures;
    unsigned ready;   /* lists made ready */
    unsigned unready; /* launches of lists that were not */
};

/* Kernels run with that many threads. All such devices share their memory, and may await each other's events. */
enum ingot_status remote_device_create(unsigned threads, const struct ingot_allocator *allocator,
                                       struct ig_device **out_device, struct ingot_error *error);

/* Counts since the device was created or since the last call. */
struct remote_counts remote_device_counts(struct ig_device *device);

/* Registers `memory` as pinned; size 0: unregisters it. */
void remote_device_pin(struct ig_device *device, const void *memory, size_t size);

/* Reads or fills its memory, and waits. */
void remote_device_read(void *to, const void *from, size_t size);
void remote_device_write(void *to, const void *from, size_t size);

/* The host's next wait fails. */
void remote_device_fail(struct ig_device *device);
/* Work is done, too, once the host has asked so many times whether it is (event_await without `block`); UINT_MAX, the
 * default: never, only when the host waits for it. */
void remote_device_hold(struct ig_device *device, unsigned questions);
/* Whenever an operation of one stream is executed, one of each other stream is too that has nothing to wait for: a
 * missing order between streams shows in what they do to each other's memory. */
void remote_device_interleave(bool on);
/* The most device memory held at once, in bytes, since the last call. */
size_t remote_device_peak(void);
/* Gives memory out again that was released: for a test of many parts, none of which has any left. */
void remote_device_reuse(void);
/* Allocations that would make its memory exceed this fail; 0: unlimited. */
void remote_device_limit(size_t bytes);

#endif
