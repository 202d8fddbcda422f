/*
 * Weights on devices with memory of their own: uploaded once per device, by the first context that needs them, and
 * shared by all contexts of an engine until it is destroyed. Thread-safe.
 */
#ifndef IG_RUNTIME_WEIGHTS_H
#define IG_RUNTIME_WEIGHTS_H

#include <pthread.h>

#include "device/device.h"
#include "engine/engine.h"

/* Opens device number `ordinal`. */
typedef enum ingot_status (*ig_device_opener)(int ordinal, const struct ingot_allocator *allocator,
                                              struct ig_device **out_device, struct ingot_error *error);

struct ig_weights; /* the copy on one device */

struct ig_weight_store {
    pthread_mutex_t lock;
    const struct ingot_allocator *allocator;
    const struct ig_engine_file *file; /* outlives the store */
    struct ig_weights *first;
};

void ig_weight_store_init(struct ig_weight_store *store, const struct ig_engine_file *file,
                          const struct ingot_allocator *allocator);
/* Nobody uses the weights any more. */
void ig_weight_store_deinit(struct ig_weight_store *store);

/* The address of the weights on device `ordinal`. Blocks while another thread uploads them. */
enum ingot_status ig_weight_store_get(struct ig_weight_store *store, ig_device_opener open, int ordinal,
                                      const void **out_weights, struct ingot_error *error);

#endif
