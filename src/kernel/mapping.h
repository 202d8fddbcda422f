/*
 * Inside the map family: what a region of elementwise nodes and views stores, as loop nests. A nest is a part: all outputs
 * of one shape, or one operand of a concatenation, which is stored by itself so that nothing is selected. How parts become
 * tiles and loops is the schedule's: cpu/map.c, cuda/map.c.
 */
#ifndef IG_KERNEL_MAPPING_H
#define IG_KERNEL_MAPPING_H

#include "kernel/kernel.h"
#include "kernel/lower.h"
#include "kernel/nest.h"

/* One nest: stores values[i] to buffers[i] at positions[i], the latter two in nest.x. */
struct ig_part {
    struct ig_nest nest;
    int count;
    int *buffer, *value, *position;
    int transposed; /* the dim along which some load steps by 1 while it strides along the last one; -1: none worth blocks */
    bool interleaves; /* the last dim is short, and what lies side by side for some load is another */
    /* The schedule's: */
    int split;     /* the dim that is cut into chunks for tiles */
    int64_t chunk; /* 0: not cut */
    ig_dim tiles;
};

struct ig_mapping {
    struct ig_graph *graph;
    const struct ig_region *region;
    struct ig_kernel *kernel;
    struct ig_loops *k;
    struct ig_lower lower;
    IG_VEC(struct ig_part *) parts;
};

/* Makes the kernel and its parts, simplified. */
void ig_mapping_init(struct ig_mapping *m, struct ig_graph *graph, const struct ig_region *region);
/* The tile loop over the tiles of all parts, in turn; emit adds what a part does in its tile of that number. */
void ig_mapping_emit(struct ig_mapping *m, void (*emit)(void *user, uint32_t part, struct ig_stmt *body, ig_x tile),
                     void *user);
/* Elements times the cost of each, divided by `lanes`. */
ig_dim ig_mapping_work(struct ig_mapping *m, int lanes);

/* The stores of a part at a place of its nest. */
void ig_part_store(struct ig_mapping *m, struct ig_part *p, struct ig_stmt *body, const ig_x *vars);
/* Cost of an element, in simple operations. */
int64_t ig_part_cost(struct ig_part *p);
/* True where dim d is known to be short enough to be unrolled: three colours, two halves. */
bool ig_part_is_short(const struct ig_part *p, int d);

#endif
