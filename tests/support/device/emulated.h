/* The GPU emulator (emulator/driver.h), for tests that compile kernels themselves. */
#ifndef TESTS_SUPPORT_EMULATED_H
#define TESTS_SUPPORT_EMULATED_H

#include "device/device.h"
#include "emulator/grid.h"
#include "toolchain/toolchain.h"

/* Is there a C++ compiler? */
bool emulated_is_present(void);
/* Compiles all sources at once, for any device of emulated_create. */
void emulated_compile(struct ig_job *job, const struct ig_source *sources, unsigned count, int sm,
                      struct ig_code *out_code);
/* Creates a CUDA device, of the machine's GPU number `gpu`. All share `*out_options`, which control how kernels run from
 * then on. */
struct ig_device *emulated_create(int gpu, struct emulator_options **out_options);

#endif
