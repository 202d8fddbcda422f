/*
 * Weights on devices that have memory of their own: brought there once for each device, by the first context that wants
 * them, and shared by all contexts of an engine until its end. Any thread may ask.
 */
#ifndef IG_RUNTIME_WEIGHTS_H
#define IG_RUNTIME_WEIGHTS_H

#include <pthread.h>

#include "device/device.h"
#include "engine/engine.h"

/* Opens device number `ordinal`. */
typedef enum ingot_status (*ig_device_opener)(int ordinal, const struct ingot_allocator *allocator,
                                              struct ig_device **out_device, struct ingot_error *error);

struct ig_weights; /* on one device */

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

/* Where they lie on device `ordinal`. Who comes while another thread brings them there waits for that. */
enum ingot_status ig_weight_store_get(struct ig_weight_store *store, ig_device_opener open, int ordinal,
                                      const void **out_weights, struct ingot_error *error);

#endif
