/* What the CUDA device offers beyond device.h, for tests: another library in the driver's place, and how often it is called.
 */
#ifndef IG_DEVICE_CUDA_CUDA_H
#define IG_DEVICE_CUDA_CUDA_H

#include "device/device.h"

/* As those of device.h; `library`: the driver's file, NULL for libcuda.so.1. */
enum ingot_status ig_device_cuda_create_with(const char *library, int ordinal, const struct ingot_allocator *allocator,
                                             struct ig_device **out_device, struct ingot_error *error);
enum ingot_status ig_device_cuda_count_with(const char *library, int *out_count, struct ingot_error *error);

/* Another file in the place of a library's (base/library.h), for this device; the name is borrowed. */
void ig_device_cuda_use_library(struct ig_device *device, uint32_t library, const char *file);

/* How many functions of the driver were called for this device so far. */
uint64_t ig_device_cuda_calls(const struct ig_device *device);

#endif
