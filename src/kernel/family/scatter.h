/* What the schedules of scatters share: rest_scatter.c for CPUs, cuda/scatter.c for GPUs. */
#ifndef IG_KERNEL_SCATTER_H
#define IG_KERNEL_SCATTER_H

#include "kernel/kernel.h"
#include "kernel/lower.h"

struct ig_scatter_problem {
    struct ig_graph *graph;
    const struct ig_region *region;
    struct ig_kernel *kernel;
    struct ig_loops *k;
    struct ig_lower lower;
    struct ig_node node;
    enum ig_scatter how;
    struct ig_type data, index, updates;
    int out;      /* the result's buffer */
    int own;      /* the axis divided into ranges, one per tile, or thread of a GPU; -1: none */
    ig_dim chunk; /* length of a range */
    ig_x lo, hi;  /* the range along the axis */
};

bool ig_scatter_is_nd(const struct ig_scatter_problem *s);
/* The number of axes that a tuple of indices addresses. */
int ig_scatter_depth(const struct ig_scatter_problem *s);
/* Do the indices address this axis? */
bool ig_scatter_names(const struct ig_scatter_problem *s, int axis);
/* Counts a negative index from the end, and clamps it; *inout_inside becomes false if it is outside the axis. */
ig_x ig_scatter_resolve(struct ig_scatter_problem *s, ig_x index, int axis, ig_x *inout_inside);
/* Statements that copy the data: not executed where the result is to lie in the data's memory (ig_plan_tensor.updates). */
struct ig_stmt *ig_scatter_if_apart(struct ig_scatter_problem *s, struct ig_stmt *body);
/* Updates the element at position `at` of a buffer, the result's or one with a part of it. */
void ig_scatter_apply(struct ig_scatter_problem *s, struct ig_stmt *body, int buffer, ig_x at, ig_x value);
/* The kernel's loops for GPUs. */
void ig_scatter_emit_cuda(struct ig_scatter_problem *s);

#endif
