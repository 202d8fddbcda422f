/* See cpu_time.h. */
#include "base/cpu_time.h"

/*
 * Microseconds of a start, and of an agreement of several threads; how often what is demanded takes its time at the machine's rates:
 * products, bytes of the cache and of memory, arithmetic, functions. Turns as they are.
 */
struct terms {
    double start, agreement, products, near, far, simple, special;
};
/* Fitted to 3,949 kernels of 36 networks in f32 at batch 1, on two threads of an AMD processor with AVX-512
 * (bench/results/cpu/2026-12-01-estimates.md). */
static const struct terms usual[IG_CPU_KINDS] = {
    [IG_CPU_PRODUCTS] = {0.33, 0.07, 0.92, 6.0, 1.45, 0.2, 1.6},
    [IG_CPU_WINOGRAD] = {3.0, 4.0, 1.02, 12.0, 0.36, 16.0, 4.4},
    [IG_CPU_DEPTHWISE] = {0.33, 0.95, 0.99, 2.9, 2.45, 0.2, 2.0},
    [IG_CPU_MAP] = {0.29, 0, 0.82, 2.8, 0.68, 2.5, 1.1},
    [IG_CPU_ROWS] = {0.02, 0.27, 1.8, 1.3, 0.4, 3.5, 6.2},
    [IG_CPU_WINDOW] = {0.17, 1.29, 1.18, 3.0, 0.3, 0.2, 6.4},
    [IG_CPU_ATTEND] = {0.02, 0.1, 1.02, 9.6, 3.0, 0.2, 4.1},
    [IG_CPU_SCAN] = {0, 0, 2.9, 2.9, 2.9, 2.9, 2.9},
};
/* Processors with tiles (AMX), whose cores each have a large cache, and wait longer for what another core wrote: fitted to 10,800 kernels of
 * 79 networks in f32 and bf16, likewise, on a Xeon (2026-12-01-xeon.md). */
static const struct terms with_tiles[IG_CPU_KINDS] = {
    [IG_CPU_PRODUCTS] = {0.16, 0.22, 1.2, 5.3, 1.8, 0.17, 3.2},
    [IG_CPU_WINOGRAD] = {1.7, 1.8, 1.2, 0.98, 1.9, 170, 6.5},
    [IG_CPU_DEPTHWISE] = {0.18, 0.61, 1.9, 7.3, 3, 0.13, 8.4},
    [IG_CPU_MAP] = {0.2, 0.26, 0.69, 8.2, 8.3, 1.2, 0.32},
    [IG_CPU_ROWS] = {0.16, 0.84, 1.1, 2.2, 2.4, 12, 5.9},
    [IG_CPU_WINDOW] = {0.13, 3, 1.4, 8.2, 0.25, 0.76, 9},
    [IG_CPU_ATTEND] = {0, 0.14, 0.6, 22, 3.5, 0.16, 14},
    [IG_CPU_SCAN] = {0, 0, 2.9, 2.9, 2.9, 2.9, 2.9},
    [IG_CPU_TILES] = {1.8, 0.02, 2.2, 8.2, 0.73, 6.9, 3.2},
    [IG_CPU_PARTS] = {13, 0.02, 1.6, 10, 2.1, 5.2, 2.2},
};

static const struct terms *terms_of(enum ig_cpu_kind kind, const struct ig_machine *m) {
    bool tiles = m->rate[IG_UNIT_BF16] > 2 * m->rate[IG_UNIT_SIMPLE] || kind == IG_CPU_TILES || kind == IG_CPU_PARTS;
    return &(tiles ? with_tiles : usual)[kind];
}

/* Does a kernel multiply these at the unit's own rate? Floats that it has no tiles for take the time of vectors. */
static bool has_rate(enum ig_cpu_kind kind, int unit) {
    switch (unit) {
    case IG_UNIT_F32:
    case IG_UNIT_TF32:
    case IG_UNIT_F16: return kind == IG_CPU_PARTS;
    case IG_UNIT_BF16: return kind == IG_CPU_TILES || kind == IG_CPU_ATTEND;
    default: return true;
    }
}

static double products_time(enum ig_cpu_kind kind, const struct ig_machine *m, const double *operations) {
    double time = 0;
    for (int u = 0; u < IG_UNIT_SIMPLE; u++)
        time += operations[u] / (has_rate(kind, u) ? m->rate[u] : m->rate[IG_UNIT_SIMPLE] / 2);
    return time;
}

double ig_cpu_time(enum ig_cpu_kind kind, const struct ig_machine *m, const struct ig_demand *d, double weights,
                   double tiles) {
    const struct terms *t = terms_of(kind, m);
    if (kind == IG_CPU_UNKNOWN) return 0;
    const double threads = m->threads > 1 ? m->threads : 1, busy = tiles < 1 ? 1 : tiles < threads ? tiles : threads;
    const double far = weights > m->cache_bytes ? d->constants * (1 - m->cache_bytes / weights) : 0;
    const double near = d->constants + d->reads + d->writes - far;
    const double by_all = t->products * products_time(kind, m, d->operations) + t->near * near / m->cache +
                          t->simple * d->operations[IG_UNIT_SIMPLE] / m->rate[IG_UNIT_SIMPLE] +
                          t->special * d->operations[IG_UNIT_SPECIAL] / m->rate[IG_UNIT_SPECIAL];
    return t->start + (busy > 1 ? t->agreement : 0) + by_all * threads / busy + t->far * far / m->memory +
           d->turns * m->turn;
}
