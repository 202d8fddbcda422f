/* Extensions of the CUDA device for tests: a substitute for the driver's library, and a count of its calls. */
#ifndef IG_DEVICE_CUDA_CUDA_H
#define IG_DEVICE_CUDA_CUDA_H

#include "device/device.h"

/* As in device.h; `library` is the driver's file, NULL for libcuda.so.1. */
enum ingot_status ig_device_cuda_create_with(const char *library, int ordinal, const struct ingot_allocator *allocator,
                                             struct ig_device **out_device, struct ingot_error *error);
enum ingot_status ig_device_cuda_count_with(const char *library, int *out_count, struct ingot_error *error);

/* Substitutes `file` for a vendor library (base/library.h) on this device; the name is borrowed. */
void ig_device_cuda_use_library(struct ig_device *device, uint32_t library, const char *file);

/* The number of driver calls made for this device so far. */
uint64_t ig_device_cuda_calls(const struct ig_device *device);

#endif
