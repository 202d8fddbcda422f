/* What the machine that a context runs on can do at best. */
#ifndef IG_API_MACHINES_H
#define IG_API_MACHINES_H

#include "base/machine.h"
#include "device/device.h"

/* Of GPU `gpu`, as its driver describes it. */
enum ingot_status ig_machines_gpu(int gpu, struct ig_machine *out_machine, struct ingot_error *error);
/* Of a CPU device: measured, or what the file at `path` says of this processor and that many threads, whichever is faster.
 * Adds to the file what is faster than it says. NULL, or a file that cannot be read or written: there is none. */
enum ingot_status ig_machines_cpu(struct ig_device *device, const char *path, struct ig_machine *out_machine,
                                  struct ingot_error *error);

#endif
