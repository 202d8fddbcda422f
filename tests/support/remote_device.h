/*
 * A device for tests of what the runtime does where the device has memory of its own and works by itself. It computes as
 * the CPU device does, but
 *
 *  - its memory cannot be touched except by its kernels and copies: the host that tries is ended by a signal;
 *  - work is done as late as the rules allow: when the host waits for it, or for something ordered behind it. A copy whose
 *    source was overwritten too early, or a missing order between streams, shows as a wrong result;
 *  - kernels that get an address of the host's, and copies from or to host memory that is not pinned, end the test;
 *  - calls are counted.
 */
#ifndef TESTS_SUPPORT_REMOTE_DEVICE_H
#define TESTS_SUPPORT_REMOTE_DEVICE_H

#include "device/device.h"

struct remote_counts {
    unsigned copies, launches, lists, patches;
    unsigned skips;          /* of copies in lists: there and back */
    unsigned records, waits; /* of events by streams */
    unsigned syncs;          /* of the host: events and streams */
    unsigned blocked;        /* of them, those that found work undone */
    unsigned allocations;    /* of both kinds of memory */
    unsigned captures;
};

/* Kernels run with that many threads. All such devices are one: memory of one may be used by the others. */
enum ingot_status remote_device_create(unsigned threads, const struct ingot_allocator *allocator,
                                       struct ig_device **out_device, struct ingot_error *error);

/* Since the device was made or this was called last. */
struct remote_counts remote_device_counts(struct ig_device *device);

/* From here on `memory` counts as pinned; size 0: no longer. */
void remote_device_pin(struct ig_device *device, const void *memory, size_t size);

/* Looks into its memory, or fills it, at once. */
void remote_device_read(void *to, const void *from, size_t size);
void remote_device_write(void *to, const void *from, size_t size);

/* The next wait of the host fails. */
void remote_device_fail(struct ig_device *device);
/* Allocations that would make its memory exceed this fail; 0: no bound. */
void remote_device_limit(size_t bytes);

#endif
