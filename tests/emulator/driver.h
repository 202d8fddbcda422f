/* The emulator as a machine with a GPU: a library that stands in for NVIDIA's driver (fake_cuda.c) and runs kernels that the
 * stand-in for NVRTC has compiled (nvrtc.c). Programs that find both, by LD_LIBRARY_PATH or by name, need nothing else. The
 * environment variable EMULATOR may hold "backwards", "late", "no-races", "sm_80"; see emulator_options in grid.h. */
#ifndef TESTS_EMULATOR_DRIVER_H
#define TESTS_EMULATOR_DRIVER_H

#include "emulator/grid.h"

/* The library's function "emulator_mode": how the next kernels are run. */
typedef struct emulator_options *emulator_mode_function(void);

#endif
