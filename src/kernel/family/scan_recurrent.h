/*
 * Recurrences: the interface between the loops over a sequence (scan_recurrent.c) and the computation of one unit in
 * one step (scan_gates.c).
 */
#ifndef IG_KERNEL_SCAN_RECURRENT_H
#define IG_KERNEL_SCAN_RECURRENT_H

#include "kernel/kernel.h"
#include "kernel/lower.h"

/* One round over the panels: computes `gates` gates from `first_gate` on, from the rows at `a` + a_at. */
struct ig_recurrence_round {
    int number, first_gate, gates;
    int a;
    ig_x a_at;
};

struct ig_recurrence {
    struct ig_graph *graph;
    const struct ig_target *target;
    struct ig_kernel *kernel;
    struct ig_loops *k;
    struct ig_lower *lower;
    struct ig_node node;
    int number; /* index among the kernel's recurrences, of which there are `count` */
    int count;
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
    int block_rows; /* the most that the micro-kernel takes at once */
    ig_dim per_tile, more;
    ig_dim stride;     /* between rows of states, in elements */
    int weights;       /* buffer of weight panels */
    int states, cells; /* [2][rows][stride], double-buffered: old and new states; [rows][stride] */
    int update, reset; /* GRU, [rows][stride]: the update gate; the states after the reset gate */
    int sums;          /* [rows][gates*units] */
    bool packs;        /* the kernel packs the weights itself */
    /* On GPUs, if the blocks of a cluster share the units (cuda/recurrent.c), NULL otherwise; then the arrays above are
     * in shared memory, as are the weights in `kept` and, for the tensor cores, `operands`; `inputs` has what the gates
     * take from the input, by unit. */
    const struct ig_cuda_recurrent *block;
    int kept, inputs;
    /* On the tensor cores: states, cells, update, reset and sums are in the registers of the thread that has the row and unit, by
     * iteration. */
    bool own;
    bool turns; /* threads share each step (scan_turns.c): states are copied from y, the cells are those of out_c */
    /* Variables of the loops being emitted. */
    ig_x first_row, rows, step, old_at, new_at;
    ig_x row, length; /* of the tile; its sequence length, IG_NO_X if all rows have the full length */
    ig_x panel, lane, unit;
    ig_x iteration; /* of the loop over the block's units of all rows; on the tensor cores by thread */
};

/* The recurrent sums of r->panel, for `rows` rows from row `first` of the tile on. */
void ig_recurrence_sums(struct ig_recurrence *r, struct ig_stmt *body, const struct ig_recurrence_round *round,
                        ig_x first, ig_x rows);
/* The gates of the units of r->panel, in all rows of the tile. */
void ig_recurrence_units(struct ig_recurrence *r, struct ig_stmt *body, const struct ig_recurrence_round *round);
/* Loops over the rows of the tile. */
struct ig_stmt *ig_recurrence_rows(struct ig_recurrence *r, struct ig_stmt *body);
/* An operand's element in the row at hand. */
ig_x ig_recurrence_in_batch(struct ig_recurrence *r, ig_value v, ig_x unit);
/* Emits the kernel of recurrences whose threads share each step. */
void ig_recurrence_emit_turns(struct ig_recurrence *all, uint32_t count);

/* Where y has the state of the row and unit at hand, in its step. */
ig_x ig_recurrence_y_at(struct ig_recurrence *r);
/* Where `cells` has the cell of the row and unit at hand. */
ig_x ig_recurrence_cell_at(struct ig_recurrence *r);
/* An operand, or IG_NO_VALUE if absent. */
ig_value ig_recurrence_operand(const struct ig_recurrence *r, uint32_t index);
/* The unit's offset in an array of the tile's rows. */
ig_x ig_recurrence_position(struct ig_recurrence *r);
ig_x ig_recurrence_old_state(struct ig_recurrence *r);
/* Is this a GRU whose reset gate applies after the recurrent product? */
bool ig_recurrence_resets_product(const struct ig_recurrence *r);
/* Does a GRU need its recurrent product between its gates? */
bool ig_recurrence_has_two_rounds(const struct ig_recurrence *r);
/* What gate g takes from the input in this step. */
ig_x ig_recurrence_input(struct ig_recurrence *r, int g);
/* The length of the row's sequence; IG_NO_X if all rows have the full length. */
ig_x ig_recurrence_length(struct ig_recurrence *r);
/* The gates of r->unit in one round over the panels: stores its new state, or what the second round needs. */
void ig_recurrence_gates(struct ig_recurrence *r, struct ig_stmt *body, int round);
/* Stores r->unit's state in a step past the end of the row's sequence: the old one, and a zero as its output. */
void ig_recurrence_rest(struct ig_recurrence *r, struct ig_stmt *body);

/* cuda/recurrent.c: chooses r->block for the sizes `at`, unless weights or target do not suit; then, for such a
 * recurrence: its arrays; what precedes the steps; a step; and a loop over the block's units, with r->row and r->unit.
 * r->panel is the block's number in its cluster. */
bool ig_cuda_recurrent_choose(struct ig_recurrence *r, const struct ig_sizes *at);
void ig_cuda_recurrent_buffers(struct ig_recurrence *r);
void ig_cuda_recurrent_begin(struct ig_recurrence *r, struct ig_stmt *body);
void ig_cuda_recurrent_step(struct ig_recurrence *r, struct ig_stmt *body);
struct ig_stmt *ig_cuda_recurrent_units(struct ig_recurrence *r, struct ig_stmt *body);
/* The same of places beyond the last row or unit too, which are those of the last one. */
struct ig_stmt *ig_cuda_recurrent_places(struct ig_recurrence *r, struct ig_stmt *body);

#endif
