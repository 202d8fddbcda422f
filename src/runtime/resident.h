/*
 * What all contexts of an engine on one device share, from the first context until the engine is destroyed: the weights,
 * uploaded once if the device has memory of its own, or another process's copy there; and the loaded code. On a device
 * that is lost they go with the last user, or before the next, so that the device can be opened afresh. Thread-safe.
 */
#ifndef IG_RUNTIME_RESIDENT_H
#define IG_RUNTIME_RESIDENT_H

#include <pthread.h>

#include "device/device.h"
#include "engine/engine.h"

/* Opens device number `ordinal`. */
typedef enum ingot_status (*ig_device_opener)(int ordinal, const struct ingot_allocator *allocator,
                                              struct ig_device **out_device, struct ingot_error *error);

struct ig_resident {
    const void *weights; /* as kernels see them */
    struct ig_module *module;
};

struct ig_residence; /* one device's */

struct ig_resident_store {
    pthread_mutex_t lock;
    const struct ingot_allocator *allocator;
    const struct ig_engine_file *file; /* outlives the store */
    struct ig_residence *first;
};

void ig_resident_store_init(struct ig_resident_store *store, const struct ig_engine_file *file,
                            const struct ingot_allocator *allocator);
/* Nobody uses what it gave out any more. */
void ig_resident_store_deinit(struct ig_resident_store *store);

/* What is on device `ordinal`, which gains a user. Blocks while another thread brings it there. */
enum ingot_status ig_resident_store_get(struct ig_resident_store *store, ig_device_opener open, int ordinal,
                                        struct ig_resident *out_resident, struct ingot_error *error);
/* Call before device `ordinal` is opened for another user. */
void ig_resident_store_drop_lost(struct ig_resident_store *store, int ordinal);
/* What is on device `ordinal` loses a user. */
void ig_resident_store_put(struct ig_resident_store *store, int ordinal);

/* Share the weights on device `ordinal` with other processes; documented at ingot_engine_export_weights and _import_
 * in ingot.h. `out_descriptor` is the caller's to close; `descriptor` stays the caller's. */
enum ingot_status ig_resident_store_export(struct ig_resident_store *store, ig_device_opener open, int ordinal,
                                           int *out_descriptor, struct ingot_error *error);
enum ingot_status ig_resident_store_import(struct ig_resident_store *store, ig_device_opener open, int ordinal,
                                           int descriptor, struct ingot_error *error);

#endif
