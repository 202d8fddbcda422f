/* The emulator as a machine with a GPU: a library that stands in for NVIDIA's driver (fake_cuda.c) and runs kernels
 * compiled by the stand-in for NVRTC (nvrtc.c). Programs that load both, through LD_LIBRARY_PATH or by path, need
 * nothing else. The environment variable EMULATOR may contain "backwards", "late" and "no-races" (see
 * emulator_options in grid.h), "sm_80", "gpus_2" for two GPUs, "no-mapping" for
 * GPUs without memory that others could map, and "places" for kernels that say in which line an index or an integer is
 * wrong, but take longer to compile. */
#ifndef TESTS_EMULATOR_DRIVER_H
#define TESTS_EMULATOR_DRIVER_H

#include "emulator/grid.h"

/* The library's function "emulator_mode": options of the next kernels. */
typedef struct emulator_options *emulator_mode_function(void);

#endif
