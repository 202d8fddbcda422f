/*
 * Recurrences: the interface between the loops over a sequence (scan_recurrent.c) and the computation of one unit in
 * one step (scan_gates.c).
 */
#ifndef IG_KERNEL_SCAN_RECURRENT_H
#define IG_KERNEL_SCAN_RECURRENT_H

#include "kernel/kernel.h"
#include "kernel/lower.h"

struct ig_recurrence {
    struct ig_graph *graph;
    const struct ig_target *target;
    struct ig_kernel *kernel;
    struct ig_loops *k;
    struct ig_lower *lower;
    struct ig_node node;
    int number; /* index among the kernel's recurrences */
    ig_dim tiles;
    enum ingot_dtype dtype; /* compute type */
    enum ingot_dtype storage;
    ig_dim time, batch, hidden, panels;
    int gates, units; /* units per panel */
    bool reverse;
    ig_value lengths;
    int out_y, out_h, out_c; /* buffers; -1: not needed */
    /* Rows per tile: `more` tiles have per_tile + 1, the others per_tile; at most most_rows. */
    int most_rows;
    ig_dim per_tile, more;
    ig_dim stride;     /* between rows of states, in elements */
    int weights;       /* buffer of weight panels */
    int states, cells; /* [2][rows][stride], double-buffered: old and new states; [rows][stride] */
    int update, reset; /* GRU, [rows][stride]: the update gate; the states after the reset gate */
    int sums;          /* [rows][gates*units] */
    bool packs;        /* the kernel packs the weights itself */
    /* Variables of the loops being emitted. */
    ig_x first_row, rows, step, old_at, new_at;
    ig_x row, length; /* of the tile; its sequence length, IG_NO_X if all rows have the full length */
    ig_x panel, lane, unit;
};

/* An operand, or IG_NO_VALUE if absent. */
ig_value ig_recurrence_operand(const struct ig_recurrence *r, uint32_t index);
/* The unit's offset in an array of the tile's rows. */
ig_x ig_recurrence_position(struct ig_recurrence *r);
ig_x ig_recurrence_old_state(struct ig_recurrence *r);
/* Is this a GRU whose reset gate applies after the recurrent product? */
bool ig_recurrence_resets_product(const struct ig_recurrence *r);
/* The gates of r->unit in one round over the panels: stores its new state, or what the second round needs. */
void ig_recurrence_gates(struct ig_recurrence *r, struct ig_stmt *body, int round);

#endif
