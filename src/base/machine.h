/*
 * What a kernel demands of a machine, and its floor: the least time in which a machine can meet the demand.
 *
 * A demand is a property of what is computed, whoever computes it: bytes that must be read and written once, operations
 * that must be done, turns that must be waited for. A machine is a table of rates. The floor is the longest of
 *
 *     far bytes / rate of memory      all bytes / rate of the cache      operations of a unit / rate of that unit
 *
 * plus the turns, plus one step. Nothing overlaps better than completely, so no kernel is faster. Bytes are far, which
 * means that they come from memory, only if no cache could have kept them:
 *
 *   - of the weights, the part of all the network's weights that exceeds the cache: between two reads of a weight a run
 *     reads all others, and however a cache chooses what it keeps, it keeps no more than its size;
 *   - of what the kernel reads and writes besides, what exceeds the cache: all else may lie there from the kernel before,
 *     and may stay there for the kernel after.
 *
 * So floors are lower than what a perfect kernel takes on a cache that keeps what was used last, by at most the cache's
 * share of the weights. Rates are the highest that the hardware has at its highest clock.
 */
#ifndef IG_BASE_MACHINE_H
#define IG_BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* Units by what they do. Of products, an operation is a multiply-add of operands of that type. */
enum ig_unit {
    IG_UNIT_F64,
    IG_UNIT_F32,
    IG_UNIT_TF32, /* f32 operands that may be rounded */
    IG_UNIT_F16,
    IG_UNIT_BF16,
    IG_UNIT_I8,      /* signed or not; floats of 8 bits */
    IG_UNIT_SIMPLE,  /* additions, comparisons, selections, … of f32, one each */
    IG_UNIT_SPECIAL, /* divisions, roots, exponentials and what is made of them, one each */
    IG_UNIT_COUNT
};
/* "f16 products" */
const char *ig_unit_name(enum ig_unit unit);

struct ig_machine {
    const char *name;
    double threads;             /* CPUs: whose rates these are together */
    double memory, cache;       /* bytes per microsecond; of the cache that all processors share, or have together */
    double cache_bytes;         /* its size */
    double rate[IG_UNIT_COUNT]; /* operations per microsecond */
    double step; /* microseconds from the end of a kernel to the start of one that waits for it; CPUs: on one thread */
    double turn; /* microseconds that a time step of a recurrence takes at least, however small it is */
};

/* Bytes and operations as doubles: products of sizes from an engine file must not overflow. */
struct ig_demand {
    double constants, reads, writes; /* bytes: of weights; of other operands; of results */
    double operations[IG_UNIT_COUNT];
    double turns; /* operations that wait for each other in sequence, such as the steps of a recurrence, less one */
};

struct ig_floor {
    double time;       /* microseconds */
    const char *bound; /* what takes that long: "memory", "cache", a unit's name, "turns" or "step" */
};

/* `weights`: bytes of all the network's weights. */
struct ig_floor ig_floor_of(const struct ig_machine *machine, const struct ig_demand *demand, double weights);

/* A GPU as the driver describes it; 0: as that of the table. */
struct ig_gpu_figures {
    int sm; /* compute capability times ten */
    uint32_t processors;
    double mhz;         /* the highest clock of the multiprocessors */
    double memory;      /* bytes per microsecond */
    double cache_bytes; /* of the L2 */
};
/* By generation: the tables are of one GPU each (A100, A10, L40S, H100, B200, RTX 5090), in the order of
 * generations. What is known of a certain GPU replaces them. Only H100 and H200 have been measured; the others' figures
 * are those of the vendor's architecture papers. */
struct ig_machine ig_machine_of_gpu(const struct ig_gpu_figures *figures);

/* `threads` of a processor that has these IG_CPU_* features, as far as one can say without measuring. */
struct ig_machine ig_machine_of_cpu(uint64_t features, unsigned threads);

#endif
