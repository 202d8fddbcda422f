/*
 * Internals of the window family (pooling), shared by its schedules cpu/window.c and cuda/window.c. A schedule makes
 * loops around ig_window_begin, ig_window_visit and ig_window_store, which compute one output element, or one for each
 * of several neighbouring channels, with running results in a small array.
 */
#ifndef IG_KERNEL_WINDOW_H
#define IG_KERNEL_WINDOW_H

#include "kernel/family/taps.h"
#include "kernel/kernel.h"
#include "kernel/lower.h"

enum { IG_WINDOW_SPATIAL = INGOT_MAX_RANK - 2 };

struct ig_window {
    struct ig_graph *graph;
    const struct ig_region *region;
    struct ig_node node;
    struct ig_loops *k;
    struct ig_lower lower;
    struct ig_kernel *kernel;
    enum ingot_dtype dtype; /* compute type */
    int spatial;
    bool last; /* channels-last */
    struct ig_axis axis[IG_WINDOW_SPATIAL];
    int best_acc, place_acc; /* one element at a time: running result and, for argmax, its position */
    ig_x lane;               /* index of the current element in the arrays */

    /* Set by the schedule: */
    int best, place; /* several channels: arrays of running results and of positions */
    /* Number of channels done together, at array elements base, base + 1, ...; IG_NO_X: one. */
    ig_x lanes;
    ig_x base;
    enum ig_for_kind lane_kind; /* kind of the loop over the lanes */
    bool unroll;                /* visit all taps and select those inside; else loop over those inside only */
    /* Column by column: the window's position along the last axis, whose running results are those of this column alone;
     * IG_NO_X: whole windows. */
    ig_x column;
    /* Stored are the results of so many columns, `pitch` array elements apart; 1: of whole windows. */
    int64_t columns, pitch;
    ig_x image, channel;        /* of the element; with lanes: the first channel */
    ig_x at[IG_WINDOW_SPATIAL]; /* output position */
};

void ig_window_init(struct ig_window *w, struct ig_graph *graph, const struct ig_region *region);
bool ig_window_is_argmax(const struct ig_window *w);
/* Initialises the running results to the neutral element. */
void ig_window_begin(struct ig_window *w, struct ig_stmt *body);
/* Accumulates all taps that are inside. */
void ig_window_visit(struct ig_window *w, struct ig_stmt *body);
/* Both at once, for several channels of a column whose taps are all inside: running results stay in registers. */
void ig_window_visit_whole(struct ig_window *w, struct ig_stmt *body);
/* Are all taps along axis i inside? */
ig_x ig_window_is_whole(struct ig_window *w, int i);
/* Stores the outputs, epilogue included. */
void ig_window_store(struct ig_window *w, struct ig_stmt *body);
/* Emits the tile loop. */
struct ig_stmt *ig_window_tiles(struct ig_window *w, ig_dim tiles, ig_x *out_tile);
/* Completes the kernel. */
void ig_window_finish(struct ig_window *w, int lanes);

#endif
