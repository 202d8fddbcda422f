/*
 * Kernels that are only texts (fake_nvrtc), for the fake driver: they compute nothing, but take the parameters that the
 * text declares, and read all of the matrices that their tensor maps describe, as TMA may.
 */
#ifndef TESTS_SUPPORT_TEXT_CODE_H
#define TESTS_SUPPORT_TEXT_CODE_H

#include "fake_cuda/fake_cuda.h"

/* For fake_cuda.code. */
struct fake_code text_code(void);

#endif
