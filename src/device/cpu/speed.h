/* The speed of the threads of a CPU device. */
#ifndef IG_DEVICE_CPU_SPEED_H
#define IG_DEVICE_CPU_SPEED_H

#include "base/machine.h"
#include "device/cpu/pool.h"

/* Measures the machine that the pool's threads are, in some ten milliseconds; where there is no code for that, the table's.
 * The size of the cache is not measured. */
enum ingot_status ig_cpu_measure(struct ig_pool *pool, const struct ingot_allocator *allocator,
                                 struct ig_machine *out_machine, struct ingot_error *error);

#endif
