/* What the files of the stand-in share: every function of the driver begins with CALL, which counts and logs it, and
 * makes it fail on request. */
#ifndef TESTS_FAKE_CUDA_CALL_H
#define TESTS_FAKE_CUDA_CALL_H

#include <stdbool.h>

#include "device/cuda/driver.h"

enum { FAKE_DEVICES = 4, FAKE_REASON = 600 };

struct fake_cuda *fake_cuda_state(void);
CUresult fake_call(const char *function, bool needs_context);
/* Notes a call that a real driver would reject. */
void fake_misuse(const char *function, const char *what);
/* A backend's kernel that fails is an error of the GPU's next stream synchronisation, which takes it. */
void fake_fail_later(int device, const char *why);
bool fake_has_failed(int device);
CUresult fake_take_failure(int device);
/* Changes the number of live objects, and the bytes of memory in use. */
void fake_count(int change, int64_t bytes);

#endif
