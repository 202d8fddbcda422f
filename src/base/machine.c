/*
 * Rates of machines, and floors; see machine.h.
 *
 * Sources for GPUs: NVIDIA's architecture papers (A100, GA102, Ada, H100, Blackwell) and the CUDA programming guide's
 * table of arithmetic throughput, in operations per clock and multiprocessor. The L2 gives what its slices give together, as far
 * as that is published, and not more than a multiprocessor takes, which is 64 bytes per clock on all of them.
 */
#include "base/machine.h"

#include <string.h>

#include "base/cpu.h"

static const char *const unit_names[IG_UNIT_COUNT] = {
    [IG_UNIT_F64] = "f64 products",  [IG_UNIT_F32] = "f32 products",          [IG_UNIT_TF32] = "tf32 products",
    [IG_UNIT_F16] = "f16 products",  [IG_UNIT_BF16] = "bf16 products",        [IG_UNIT_I8] = "8-bit products",
    [IG_UNIT_SIMPLE] = "arithmetic", [IG_UNIT_SPECIAL] = "special functions",
};

const char *ig_unit_name(enum ig_unit unit) {
    return unit_names[unit];
}

/* ---- Floors ------------------------------------------------------------------------------------------------------- */

static double beyond(double bytes, double room) {
    return bytes > room ? bytes - room : 0;
}

static void at_least(struct ig_floor *floor, double time, const char *bound) {
    if (time > floor->time) *floor = (struct ig_floor){time, bound};
}

struct ig_floor ig_floor_of(const struct ig_machine *m, const struct ig_demand *d, double weights) {
    struct ig_floor floor = {0, "step"};
    double others = d->reads + d->writes, far = beyond(others, m->cache_bytes);
    if (weights > 0) far += d->constants * beyond(weights, m->cache_bytes) / weights;
    at_least(&floor, (d->constants + others) / m->cache, "cache");
    at_least(&floor, far / m->memory, "memory");
    for (int u = 0; u < IG_UNIT_COUNT; u++)
        at_least(&floor, d->operations[u] / m->rate[u], unit_names[u]);
    double turns = d->turns * m->turn;
    if (turns > floor.time) floor.bound = "turns";
    floor.time += turns;
    if (m->step > floor.time) floor.bound = "step";
    floor.time += m->step;
    return floor;
}

/* ---- GPUs --------------------------------------------------------------------------------------------------------- */

struct generation {
    const char *name;
    struct ig_gpu_figures typical;
    /* Per clock and multiprocessor; the matrix units' are for operands that are not sparse, with sums in f32. */
    double rate[IG_UNIT_COUNT];
    double cache; /* bytes per clock of all slices of the L2; 0: not published */
    double step;
};

#define MATRIX(f64, f32, f16)                                                                                       \
    {                                                                                                               \
        [IG_UNIT_F64] = (f64), [IG_UNIT_F32] = (f32), [IG_UNIT_TF32] = (f16) / 2.0, [IG_UNIT_F16] = (f16),          \
        [IG_UNIT_BF16] = (f16), [IG_UNIT_I8] = 2.0 * (f16), [IG_UNIT_SIMPLE] = 2.0 * (f32), [IG_UNIT_SPECIAL] = 16, \
    }
static const struct generation generations[] = {
    {"sm_80, as an A100", {80, 108, 1410, 2.04e6, 40e6}, MATRIX(64, 64, 1024), 5120, 0.9},
    {"sm_86, as an A10", {86, 72, 1695, 0.60e6, 6e6}, MATRIX(2, 128, 512), 0, 0.9},
    {"sm_89, as an L40S", {89, 142, 2520, 0.864e6, 96e6}, MATRIX(2, 128, 512), 0, 0.9},
    {"sm_90, as an H200", {90, 132, 1980, 4.8e6, 60e6}, MATRIX(128, 128, 2048), 5120, 0.6},
    {"sm_100, as a B200", {100, 148, 1965, 8.0e6, 126e6}, MATRIX(64, 128, 4096), 0, 0.6},
    {"sm_120, as an RTX 5090", {120, 170, 2407, 1.79e6, 96e6}, MATRIX(2, 128, 512), 0, 0.6},
};
enum { GENERATIONS = sizeof generations / sizeof *generations };

struct ig_machine ig_machine_of_gpu(const struct ig_gpu_figures *f) {
    const struct generation *g = &generations[0];
    for (int i = 0; i < GENERATIONS; i++) {
        if (generations[i].typical.sm <= f->sm) g = &generations[i];
    }
    double clocks = f->mhz > 0 ? f->mhz : g->typical.mhz; /* per microsecond */
    const double processors = f->processors ? f->processors : g->typical.processors;
    double cache = 64 * processors;
    if (g->cache > 0 && g->cache < cache) cache = g->cache;
    struct ig_machine m = {
        .name = g->name,
        .memory = f->memory > 0 ? f->memory : g->typical.memory,
        .cache = cache * clocks,
        .cache_bytes = f->cache_bytes > 0 ? f->cache_bytes : g->typical.cache_bytes,
        .step = g->step,
        .turn = 0.1, /* a sum across threads, and functions of it */
    };
    for (int u = 0; u < IG_UNIT_COUNT; u++)
        m.rate[u] = g->rate[u] * processors * clocks;
    return m;
}

/* ---- CPUs --------------------------------------------------------------------------------------------------------- */

struct ig_machine ig_machine_of_cpu(uint64_t features, unsigned threads) {
    double n = threads > 0 ? threads : 1;
    bool amx = (features & IG_CPU_AMX) == IG_CPU_AMX, wide = (features & IG_CPU_X86_64_V4) == IG_CPU_X86_64_V4;
    bool vnni = (features & (wide ? IG_CPU_AVX512_VNNI : IG_CPU_AVX_VNNI)) != 0;
    double f32 = n * (wide ? 110e3 : 50e3); /* two units of 16 or 8 lanes, and the clocks of servers */
    struct ig_machine m = {
        .name = amx    ? "x86-64 with AMX"
                : wide ? "x86-64-v4"
                       : "x86-64-v3",
        .threads = n,
        .memory = 15e3 * n,
        .cache = 100e3 * n,
        .cache_bytes = 2e6 * n,
        .step = 0.03,
        .turn = 0.03,
        /* f16 and bf16 are widened, but for AMX, where an f32 product is six of bf16 (codegen/c/gemm_parts.c); sums of bytes
         * take two instructions for two products a lane without VNNI. An exponential takes about eight multiply-adds. */
        .rate = {[IG_UNIT_F64] = f32 / 2,
                 [IG_UNIT_F32] = f32 * (amx ? 14 / 6.0 : 1),
                 [IG_UNIT_TF32] = f32 * (amx ? 14 / 6.0 : 1),
                 [IG_UNIT_F16] = f32,
                 [IG_UNIT_BF16] = f32 * (amx ? 14 : 1),
                 [IG_UNIT_I8] = f32 * (amx    ? 28
                                       : vnni ? 4
                                              : 2),
                 [IG_UNIT_SIMPLE] = 2 * f32,
                 [IG_UNIT_SPECIAL] = f32 / 8},
    };
    return m;
}
