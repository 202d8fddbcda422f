/*
 * The way of inputs to a device that has memory of its own, and of results back.
 *
 * Inputs from the host's memory lie in one block of the device, and at the same places in pinned memory of the host, from
 * where the device fetches them by itself. The host copies them there in pieces, and while it copies one, the last one is
 * under way; what small networks take fits in one piece, one copy in all. So do results the other way. The pinned memory
 * of inputs is there twice, so that a run's can be written while the last run's are under way.
 */
#ifndef IG_RUNTIME_TRANSFER_H
#define IG_RUNTIME_TRANSFER_H

#include "device/device.h"

struct ig_transfer {
    struct ig_device *device;
    char *inputs, *outputs; /* blocks of the device */
    size_t inputs_size, outputs_size;
    char *pinned_inputs, *pinned_outputs;
    size_t pinned_inputs_size, pinned_outputs_size;
    unsigned half;              /* of the pinned inputs that is written now */
    size_t written, on_the_way; /* bytes of it */
};

/* What a run needs of each. */
struct ig_transfer_sizes {
    size_t inputs, outputs;               /* of the device's blocks */
    size_t pinned_inputs, pinned_outputs; /* of the parts of them that come from and go to the host */
};

void ig_transfer_init(struct ig_transfer *transfer, struct ig_device *device);
void ig_transfer_deinit(struct ig_transfer *transfer);

bool ig_transfer_has_room(const struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes);
/* Grows to these sizes; nothing may be under way. What was in memory that grows is lost, and its address changes. */
enum ingot_status ig_transfer_reserve(struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes,
                                      struct ingot_error *error);

/* Inputs: begin with a half that no run uses any more, put those from the host in the order of their places, end. */
void ig_transfer_begin(struct ig_transfer *transfer, unsigned half);
enum ingot_status ig_transfer_put(struct ig_transfer *transfer, struct ig_stream *stream, size_t place,
                                  const void *data, size_t bytes, struct ingot_error *error);
enum ingot_status ig_transfer_end(struct ig_transfer *transfer, struct ig_stream *stream, struct ingot_error *error);

/* Of the device and the host. */
size_t ig_transfer_bytes(const struct ig_transfer *transfer);

/* Makes device memory (or pinned memory of the host) at least `needed` bytes large; what was in it is lost. */
enum ingot_status ig_device_grow(struct ig_device *device, bool pinned, size_t needed, void **memory, size_t *size,
                                 struct ingot_error *error);

#endif
