/* What the files of the stand-in share: every function of the driver begins with CALL, which counts and logs it, and
 * makes it fail on request. */
#ifndef TESTS_FAKE_CUDA_CALL_H
#define TESTS_FAKE_CUDA_CALL_H

#include "device/cuda/driver.h"

struct fake_cuda *fake_cuda_state(void);
CUresult fake_call(const char *function, bool needs_context);
/* Notes a call that a real driver would reject. */
void fake_misuse(const char *function, const char *what);
/* Changes the number of live objects, and the bytes of memory in use. */
void fake_count(int change, int64_t bytes);

#endif
