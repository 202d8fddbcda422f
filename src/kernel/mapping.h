/*
 * Internals of the map family: a region of elementwise nodes and views as loop nests. A nest is a *part*: all outputs
 * of one shape, or one operand of a concatenation, which is stored separately so that no select is needed. The
 * schedules, cpu/map.c and cuda/map.c, turn parts into tiles and loops.
 */
#ifndef IG_KERNEL_MAPPING_H
#define IG_KERNEL_MAPPING_H

#include "kernel/kernel.h"
#include "kernel/lower.h"
#include "kernel/nest.h"

/* One nest: stores values[i] to buffers[i] at positions[i]; values and positions are indices in nest.x. */
struct ig_part {
    struct ig_nest nest;
    int count;
    int *buffer, *value, *position;
    /* A dim along which some load has stride 1 while it strides along the last dim; -1: none worth blocking. */
    int transposed;
    bool interleaves; /* the last dim is short, and some load has stride 1 along another dim, or -1 along the last */
    bool gathers;     /* where some load is depends, along the last dim, on what another one gives */
    /* Set by the schedule: */
    int split;     /* the dim that is divided into chunks for tiles */
    int64_t chunk; /* chunk size; 0: not divided */
    bool joined;   /* CPU: one loop runs along the last two dims */
    ig_dim tiles;
};

struct ig_mapping {
    struct ig_graph *graph;
    const struct ig_region *region;
    struct ig_kernel *kernel;
    struct ig_loops *k;
    const struct ig_sizes *at; /* sizes for estimates */
    struct ig_lower lower;
    IG_VEC(struct ig_part *) parts;
};

/* Creates the kernel and its parts, simplified. */
void ig_mapping_init(struct ig_mapping *m, struct ig_graph *graph, const struct ig_region *region,
                     const struct ig_sizes *at);
/* Emits the tile loop over the tiles of all parts, one part after the other; `emit` adds one tile of a part, numbered
 * within it. */
void ig_mapping_emit(struct ig_mapping *m, void (*emit)(void *user, uint32_t part, struct ig_stmt *body, ig_x tile),
                     void *user);
/* Elements times the cost of each, divided by `lanes`. */
ig_dim ig_mapping_work(struct ig_mapping *m, int lanes);

/* Emits the stores of a part with the nest's variables bound to `vars`. */
void ig_part_store(struct ig_mapping *m, struct ig_part *p, struct ig_stmt *body, const ig_x *vars);
/* Cost per element, in simple operations. */
int64_t ig_part_cost(struct ig_part *p);
/* Is dim d known to be short enough to unroll (three colours, two halves)? */
bool ig_part_is_short(const struct ig_part *p, int d);

#endif
