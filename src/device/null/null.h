/* What the null device offers beyond device.h: the log of its calls. */
#ifndef IG_DEVICE_NULL_NULL_H
#define IG_DEVICE_NULL_NULL_H

#include "device/device.h"

/* One line for each call so far, such as "launch m0+64 tiles=4 buffers=b0,b1+128 dims=3,7"; valid until the next call
 * on the device. */
const char *ig_device_null_record(const struct ig_device *device);
void ig_device_null_clear(struct ig_device *device);

#endif
