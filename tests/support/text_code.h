/*
 * Kernels that are only texts (fake_nvrtc), for the fake driver: they compute nothing, but have the parameters that the
 * text names, and read all of the matrices that their tensor maps describe, as copy engines may.
 */
#ifndef TESTS_SUPPORT_TEXT_CODE_H
#define TESTS_SUPPORT_TEXT_CODE_H

#include "fake_cuda/fake_cuda.h"

/* For fake_cuda.code. */
struct fake_code text_code(void);

#endif
