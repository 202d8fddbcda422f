/*
 * What a kernel is expected to take on a CPU: few terms, by the rates of a machine. Compilers evaluate it for one thread of a typical
 * processor, profiles for the machine and the threads at hand.
 */
#ifndef IG_BASE_CPU_TIME_H
#define IG_BASE_CPU_TIME_H

#include "base/machine.h"

/* Kinds of kernels, by what their time is made of. Engines have these numbers. */
enum ig_cpu_kind {
    IG_CPU_UNKNOWN, /* not estimated */
    IG_CPU_PRODUCTS,
    IG_CPU_WINOGRAD,
    IG_CPU_DEPTHWISE,
    IG_CPU_MAP,
    IG_CPU_ROWS,
    IG_CPU_WINDOW,
    IG_CPU_ATTEND,
    IG_CPU_SCAN,
    IG_CPU_TILES, /* products by AMX */
    IG_CPU_PARTS, /* of f32, likewise */
    IG_CPU_KINDS
};

/*
 * Microseconds that a kernel takes that is divided into so many tiles among the machine's threads; 0: it is not known. `weights`: bytes
 * of all the network's weights.
 */
double ig_cpu_time(enum ig_cpu_kind kind, const struct ig_machine *machine, const struct ig_demand *demand,
                   double weights, double tiles);

#endif
