/*
 * Inside the window family: what is common to its schedules, cpu/window.c and cuda/window.c. A schedule
 * makes loops around ig_window_begin, ig_window_visit and ig_window_store, which do one place of the output: one element,
 * or one for each of some neighbouring channels, whose running results lie in a small array.
 */
#ifndef IG_KERNEL_WINDOW_H
#define IG_KERNEL_WINDOW_H

#include "kernel/kernel.h"
#include "kernel/lower.h"
#include "kernel/taps.h"

enum { IG_WINDOW_SPATIAL = INGOT_MAX_RANK - 2 };

struct ig_window {
    struct ig_graph *graph;
    const struct ig_region *region;
    struct ig_node node;
    struct ig_loops *k;
    struct ig_lower lower;
    struct ig_kernel *kernel;
    enum ingot_dtype dtype; /* that it computes in */
    int spatial;
    bool last; /* channels last */
    struct ig_axis axis[IG_WINDOW_SPATIAL];
    int best_acc, place_acc; /* running results and their positions (argmax), one element at a time */
    ig_x lane;               /* of the element at hand: its place in the arrays */

    /* For the schedule to set: */
    int best, place; /* several channels: arrays of running results and of positions */
    ig_x lanes;      /* how many channels at once, at the arrays' elements base, base + 1, ...; IG_NO_X: one */
    ig_x base;
    enum ig_for_kind lane_kind; /* of the loop over them */
    bool unroll;         /* visit all positions of a window and ask which are inside; else loop over those inside */
    ig_x image, channel; /* the element's; with lanes: the first channel */
    ig_x at[IG_WINDOW_SPATIAL]; /* in the output */
};

void ig_window_init(struct ig_window *w, struct ig_graph *graph, const struct ig_region *region);
bool ig_window_is_argmax(const struct ig_window *w);
/* Running results: what no element is less than, or nothing in a sum. */
void ig_window_begin(struct ig_window *w, struct ig_stmt *body);
/* All positions of the window that are inside. */
void ig_window_visit(struct ig_window *w, struct ig_stmt *body);
/* The outputs, with what follows in the region. */
void ig_window_store(struct ig_window *w, struct ig_stmt *body);
/* The tile loop. */
struct ig_stmt *ig_window_tiles(struct ig_window *w, ig_dim tiles, ig_x *out_tile);
/* Completes the kernel. */
void ig_window_finish(struct ig_window *w, int lanes);

#endif
