/*
 * Expected times; see expect.h.
 *
 * The constants are fitted to 6,177 kernels of 169 runs of the zoo in f16, at batch 1 and at large ones, on an H100
 * (bench/results/gpu/networks/2026-11-26-estimates.md); streams of weights that the caches cannot hold, to those of a decoder
 * on one and two H200 (bench/results/ranks/2026-11-28-pushes.md).
 */
#include "kernel/expect.h"

#include <math.h>

#include "kernel/cuda/contract/contract.h"
#include "kernel/cuda/estimate.h"

enum { WARP = 32 };

static const char *const kind_names[IG_EXPECT_KINDS] = {
    [IG_EXPECT_NONE] = "none",
    [IG_EXPECT_MAP] = "map",
    [IG_EXPECT_ROWS] = "rows",
    [IG_EXPECT_COLUMNS] = "columns",
    [IG_EXPECT_SIDE_BY_SIDE] = "rows side by side",
    [IG_EXPECT_WINDOW] = "window",
    [IG_EXPECT_REST] = "rest",
    [IG_EXPECT_RECURRENT] = "recurrent",
    [IG_EXPECT_KEPT] = "products, B kept",
    [IG_EXPECT_TURNS] = "products in turns",
    [IG_EXPECT_PRODUCER] = "products, fetched",
    [IG_EXPECT_GROUPS] = "products of warp groups",
    [IG_EXPECT_CORES] = "products of warps",
    [IG_EXPECT_FMA] = "products of threads",
    [IG_EXPECT_DIRECT] = "products, direct",
    [IG_EXPECT_STREAM] = "products, streamed",
    [IG_EXPECT_CODES] = "products of codes",
    [IG_EXPECT_PATCH] = "patch",
    [IG_EXPECT_DEPTHWISE] = "depthwise",
    [IG_EXPECT_BANDED] = "depthwise, banded",
    [IG_EXPECT_ATTEND] = "attend",
    [IG_EXPECT_EXCHANGE] = "exchange",
    [IG_EXPECT_LIBRARY] = "library",
    [IG_EXPECT_CPU] = "CPU",
};

const char *ig_expect_kind_name(enum ig_expect_kind kind) {
    return kind_names[kind];
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* ---- What the time depends on ------------------------------------------------------------------------------------- */

static enum ig_expect_kind gemm_kind(const struct ig_cuda_gemm *g) {
    if (g->stream) return IG_EXPECT_STREAM;
    if (g->direct) return IG_EXPECT_DIRECT;
    if (g->producer) return g->kept ? IG_EXPECT_KEPT : g->turns ? IG_EXPECT_TURNS : IG_EXPECT_PRODUCER;
    if (g->math == IG_CUDA_FMA) return IG_EXPECT_FMA;
    return g->warpgroups ? IG_EXPECT_GROUPS : IG_EXPECT_CORES;
}

static enum ig_cpu_kind cpu_products(const struct ig_kernel *k) {
    if (k->way == IG_WAY_WINOGRAD) return IG_CPU_WINOGRAD;
    if (k->way == IG_WAY_DEPTHWISE) return IG_CPU_DEPTHWISE;
    for (uint32_t i = 0; i < k->micros.count; i++) {
        if (k->micros.at[i].parts) return IG_CPU_PARTS;
        if (k->micros.at[i].tile_groups) return IG_CPU_TILES;
    }
    return IG_CPU_PRODUCTS;
}

enum ig_cpu_kind ig_expect_cpu_kind(const struct ig_kernel *k) {
    switch (k->family) {
    case IG_FAMILY_CONTRACT: return cpu_products(k);
    case IG_FAMILY_MAP: return IG_CPU_MAP;
    case IG_FAMILY_ROW: return IG_CPU_ROWS;
    case IG_FAMILY_WINDOW: return IG_CPU_WINDOW;
    case IG_FAMILY_ATTEND: return IG_CPU_ATTEND;
    case IG_FAMILY_SCAN: return IG_CPU_SCAN;
    default: return IG_CPU_UNKNOWN;
    }
}

static enum ig_expect_kind kind_of(const struct ig_kernel *k) {
    static const enum ig_expect_kind ways[] = {[IG_WAY_USUAL] = IG_EXPECT_ROWS,
                                               [IG_WAY_COLUMNS] = IG_EXPECT_COLUMNS,
                                               [IG_WAY_SIDE_BY_SIDE] = IG_EXPECT_SIDE_BY_SIDE};
    if (k->library) return IG_EXPECT_LIBRARY;
    if (k->threads == 0) return ig_expect_cpu_kind(k) == IG_CPU_UNKNOWN ? IG_EXPECT_NONE : IG_EXPECT_CPU;
    if (k->exchange) return IG_EXPECT_EXCHANGE;
    if (k->gemm) return gemm_kind(k->gemm);
    if (k->blocks) return IG_EXPECT_CODES;
    if (k->attend) return IG_EXPECT_ATTEND;
    if (k->patch) return IG_EXPECT_PATCH;
    if (k->banded) return IG_EXPECT_BANDED;
    if (k->depthwise) return IG_EXPECT_DEPTHWISE;
    if (k->recurrent) return IG_EXPECT_RECURRENT;
    switch (k->family) {
    case IG_FAMILY_ROW: return ways[k->way];
    case IG_FAMILY_WINDOW: return IG_EXPECT_WINDOW;
    case IG_FAMILY_SCAN:
    case IG_FAMILY_REST: return IG_EXPECT_REST;
    default: return IG_EXPECT_MAP;
    }
}

/* Copies of rows of A in pieces of less than 16 bytes: one for each piece, by all blocks side by side. */
static void count_pieces(const struct ig_kernel *k, const struct ig_sizes *at, struct ig_expect *e) {
    const struct ig_cuda_gemm *g = k->gemm;
    double size[IG_MODEL_SIZES] = {0};
    for (int i = 0; i < IG_MODEL_SIZES && k->model.cost; i++)
        size[i] = (double)ig_sizes_guess(at, k->model.sizes[i]);
    double element = ig_cuda_gemm_element(g), elements = size[0] * size[1] * ceil(size[2] / g->bn) * size[3];
    e->pieces = elements * element * (1.0 / g->a_copy - 1.0 / 16);
    e->windows = g->a == IG_CUDA_WINDOWS;
    if (e->windows && g->a_copy == 2) e->pieces = 0; /* its model has them */
    e->split = g->split > 1;
    if (g->direct) e->steps = g->stages;
    e->filled = g->a == IG_CUDA_FILLED || g->b == IG_CUDA_FILLED;
}

/* Instructions of a thread, and its loads, of which those of weights mostly hit the first cache. */
static void count_depthwise(const struct ig_cuda_depthwise *d, struct ig_expect *e) {
    double rows = (double)d->taps[0] * d->taps[1], width = d->width, lanes = d->lanes;
    double loads = rows * ((width - 1) * d->stride + d->taps[2]), weights = rows * d->taps[2];
    e->issues = weights * lanes * width + (loads + weights) * (lanes / 2 + 2) + 60;
    e->lines = (loads + 0.05 * weights) * larger(1, lanes / 2);
    e->turns = weights;
    if (!ig_cuda_depthwise_is_bytes(d)) return;
    double together = ig_cuda_depthwise_together(d); /* rows that an instruction multiplies; bytes are moved for that */
    e->issues = weights / together * lanes * width + (loads + weights) * (2 * lanes / together + 3) + 60;
    e->lines = loads + 0.05 * weights;
}

void ig_expect_of(const struct ig_kernel *k, const struct ig_demand *demand, double weights,
                  const struct ig_machine *machine, const struct ig_sizes *at, struct ig_expect *e) {
    *e = (struct ig_expect){.kind = kind_of(k), .model = ig_kernel_cost(k, at)};
    if (e->kind == IG_EXPECT_NONE) return;
    if (weights > machine->cache_bytes) e->far = demand->constants * (1 - machine->cache_bytes / weights);
    e->near = demand->constants + demand->reads + demand->writes - e->far;
    e->operations = demand->operations[IG_UNIT_SIMPLE];
    e->steps = demand->turns + 1;
    if (e->kind == IG_EXPECT_CPU) {
        e->cpu = ig_expect_cpu_kind(k);
        e->tiles = (double)ig_sizes_guess(at, k->tiles);
        e->demand = *demand;
        e->weights = weights;
        return;
    }
    if (e->kind == IG_EXPECT_LIBRARY) {
        for (int u = 0; u < IG_UNIT_SIMPLE; u++) /* as operations of f16 */
            e->loops += demand->operations[u] / machine->rate[u];
        return;
    }
    const struct ig_cuda_walk w = ig_cuda_walk(k, at);
    e->loops = ig_cuda_estimate(k, at);
    e->tiles = w.tiles;
    e->threads = w.threads;
    e->resident = w.resident;
    e->issues = w.issues;
    e->lines = w.lines;
    e->turns = w.turns;
    e->moved = w.moved;
    e->once = w.once;
    if (k->gemm) count_pieces(k, at, e);
    if (k->depthwise) count_depthwise(k->depthwise, e);
    if (k->recurrent) e->state = k->recurrent->hidden;
}

/* ---- Kernels of loops --------------------------------------------------------------------------------------------- */

/* The start of a kernel in a run, in microseconds. In nanoseconds: an instruction of a multiprocessor's warps, a line of its
 * first cache, a load that is waited for, an instruction that waits for the one before. Parts of the second cache's rate: at which
 * all bytes move between the caches, and at which those that are not there yet come into the first cache. */
struct loop_terms {
    double start, issue, line, load, serial, moved, once;
};
static const struct loop_terms loop_terms[IG_EXPECT_KINDS] = {
    [IG_EXPECT_MAP] = {0.90, 0.060, 0, 51, 0.27, 1.19, 0.55},
    [IG_EXPECT_ROWS] = {0.96, 0.003, 0.31, 149, 0.102, 1.53, 0.49},
    [IG_EXPECT_COLUMNS] = {1.10, 0.034, 2.53, 27, 3.75, 3.2, 1.37},
    [IG_EXPECT_SIDE_BY_SIDE] = {0, 0.102, 1.77, 562, 0.068, 0.70, 3.9},
    [IG_EXPECT_WINDOW] = {0.98, 0.006, 1.05, 87, 1.09, 1.64, 1.08},
};
/* The part of the second cache in which kernels find what those before have written; of the rest, some is found as well. */
#define FOUND 0.3
#define FOUND_BEYOND 1.1

static double loop_time(const struct ig_expect *e, const struct ig_machine *m) {
    const struct loop_terms *c = &loop_terms[e->kind];
    /* Text that loops call, in columns and windows, is not seen by the walk: at least it moves what the region demands. */
    double once = e->kind == IG_EXPECT_MAP ? e->once : larger(e->once, e->far + e->near),
           moved = larger(e->moved, once);
    double far = larger(0, once - FOUND * m->cache_bytes);
    double reading = far / (FOUND_BEYOND * m->memory) + (once - far) / (c->once * m->cache);
    double tiles = larger(e->tiles, 1), each = larger(1, tiles / IG_CUDA_PROCESSORS);
    double waves = ceil(ceil(tiles / IG_CUDA_PROCESSORS) / larger(1, e->resident));
    double lines = larger(e->lines, moved / tiles / 256), busy = each * (e->issues * c->issue + lines * c->line);
    double alone = waves * (e->issues / larger(1, e->threads / WARP) * c->serial + e->turns * c->load);
    return c->start + larger(moved / (c->moved * m->cache), reading) + larger(busy, alone) / 1e3;
}

static double depthwise_time(const struct ig_expect *e, const struct ig_machine *m) {
    double warps = larger(1, e->tiles / IG_CUDA_PROCESSORS) * e->threads / WARP;
    double alone = 2.5e-3 * e->issues, busy = 3.06e-3 * warps * e->lines, bytes = e->near / (0.27 * m->cache);
    return 0.7 + 0.05 * e->turns + larger(alone, larger(busy, bytes)) + 0.14 * larger(0, e->loops - 2.2);
}

/* ---- Products ----------------------------------------------------------------------------------------------------- */

/* What models say of a kernel that does nothing. */
#define ALONE 2.0
#define STREAMED 4.25e6 /* bytes per microsecond in the models of streams */

/* The part of a model's time beyond that, and how often bytes from the second cache count at its rate. */
struct model_terms {
    double start, part, bytes;
};
static const struct model_terms model_terms[IG_EXPECT_KINDS] = {
    [IG_EXPECT_KEPT] = {1.76, 0.62, 2},   [IG_EXPECT_TURNS] = {0.72, 0.89, 2},   [IG_EXPECT_PRODUCER] = {0.22, 0.99, 1},
    [IG_EXPECT_GROUPS] = {0.80, 1.12, 1}, [IG_EXPECT_CORES] = {1.46, 0.63, 2.1}, [IG_EXPECT_FMA] = {0, 1.06, 1},
    [IG_EXPECT_DIRECT] = {1.28, 1.41, 0}, [IG_EXPECT_STREAM] = {2.05, 0.34, 1},  [IG_EXPECT_CODES] = {2.05, 0.4, 1},
    [IG_EXPECT_PATCH] = {0.5, 0.85, 1},   [IG_EXPECT_ATTEND] = {2.0, 1.0, 0},    [IG_EXPECT_BANDED] = {0.5, 0.85, 1},
};

static double model_time(const struct ig_expect *e, const struct ig_machine *m) {
    const struct model_terms *c = &model_terms[e->kind];
    const double beyond = larger(0, e->model - ALONE);
    double model = c->part * beyond, memory = m->memory;
    if (e->kind == IG_EXPECT_STREAM) {
        /* What comes from far takes the memory's time, by what streams reach of it, and what the model has beyond that. */
        const double all = e->far + e->near, share = pow(e->far / larger(1, all), 2);
        model += share * (larger(0, beyond - all / STREAMED) - model);
        memory *= 1 - 0.1 * share;
    }
    double time = c->start + model + e->far / memory + c->bytes * e->near / m->cache;
    time += e->pieces / 0.5e6 + (e->windows ? 0.4 : 0);
    if (e->kind == IG_EXPECT_CORES && e->split) time += 0.78;
    if (e->kind == IG_EXPECT_DIRECT) time += 0.62 * e->steps;
    return e->filled ? larger(time, 0.8 * e->loops) : time;
}

double ig_expect_time(const struct ig_expect *e, const struct ig_machine *m) {
    double time = 0;
    switch (e->kind) {
    case IG_EXPECT_NONE: return 0;
    case IG_EXPECT_CPU: return ig_cpu_time(e->cpu, m, &e->demand, e->weights, e->tiles);
    case IG_EXPECT_MAP:
    case IG_EXPECT_ROWS:
    case IG_EXPECT_COLUMNS:
    case IG_EXPECT_SIDE_BY_SIDE:
    case IG_EXPECT_WINDOW: time = loop_time(e, m); break;
    case IG_EXPECT_REST: time = larger(e->loops - 1, e->operations > 1e5 ? 10 + e->operations / 1e5 : 0); break;
    case IG_EXPECT_RECURRENT:
        time = 2 + e->steps * (0.6 + 3.4e-3 * e->state + 1.6 * e->tiles / IG_CUDA_PROCESSORS);
        break;
    case IG_EXPECT_DEPTHWISE: time = depthwise_time(e, m); break;
    case IG_EXPECT_EXCHANGE: time = e->model; break;
    case IG_EXPECT_LIBRARY: time = 3 + e->loops / 0.7 + e->far / m->memory + e->near / m->cache; break;
    default: time = model_time(e, m); break;
    }
    /* What nothing hides: the start, and operands that have just come from elsewhere. */
    return time + (e->first ? 2.4 + (e->far + e->near) / 4e6 : 0);
}
