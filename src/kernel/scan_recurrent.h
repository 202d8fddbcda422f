/*
 * Recurrences between their two files: the loops over a sequence (scan_recurrent.c) and what a unit computes in a step
 * (scan_gates.c).
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
    int number; /* of the recurrence among those of the kernel */
    ig_dim tiles;
    enum ingot_dtype dtype; /* that it computes in */
    enum ingot_dtype storage;
    ig_dim time, batch, hidden, panels;
    int gates, units; /* units of a panel */
    bool reverse;
    ig_value lengths;
    int out_y, out_h, out_c; /* buffers; -1: nobody wants it */
    /* Rows of a tile: `more` tiles have per_tile + 1, the others per_tile; never more than most_rows. */
    int most_rows;
    ig_dim per_tile, more;
    ig_dim stride;     /* between rows of states */
    int weights;       /* panels */
    int states, cells; /* [2][rows][stride], the new and the old one taking turns; [rows][stride] */
    int update, reset; /* GRU: [rows][stride]: the update gate; the states after the reset gate */
    int sums;          /* [rows][gates*units] */
    bool packs;        /* the weights, itself */
    /* Of the loops being emitted. */
    ig_x first_row, rows, step, old_at, new_at;
    ig_x row, length; /* of a row of the tile; length: IG_NO_X where all have the whole time */
    ig_x panel, lane, unit;
};

/* An operand; IG_NO_VALUE where it is absent. */
ig_value ig_recurrence_operand(const struct ig_recurrence *r, uint32_t index);
/* Position of the unit in an array of the tile's rows. */
ig_x ig_recurrence_position(struct ig_recurrence *r);
ig_x ig_recurrence_old_state(struct ig_recurrence *r);
/* A GRU whose reset gate comes after the recurrent product. */
bool ig_recurrence_resets_product(const struct ig_recurrence *r);
/* The gates of r->unit in a round through the panels: stores its new state, or what the second round needs of it. */
void ig_recurrence_gates(struct ig_recurrence *r, struct ig_stmt *body, int round);

#endif
