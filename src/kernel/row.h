/*
 * Inside the row family. A region of reductions over the same axes of one space, and elementwise nodes around them, is a
 * number of passes over a row (the elements with one kept index): pass p computes the reductions that need the results of
 * the passes before it. The row stays in the cache between the passes, so memory is read once; what is expensive and
 * needed again is kept in scratch memory.
 *
 *   cpu/row_lines.c    the innermost axis is reduced: a row at a time, accumulators in registers
 *   cpu/row_columns.c  the innermost axis is kept: a block of neighbouring rows at a time, accumulators in arrays
 *   cuda/row.c, cuda/row_columns.c   the same for GPUs
 *   row_staged.c       any region: one reduction after the other, results in scratch memory, one thread
 */
#ifndef IG_KERNEL_ROW_H
#define IG_KERNEL_ROW_H

#include "kernel/kernel.h"
#include "kernel/lower.h"
#include "kernel/nest.h"

enum {
    IG_ROW_PASSES = 16,
    IG_ROW_COLUMNS = 64,    /* rows of a block, where columns are walked */
    IG_ROW_ELEMENTS = 8192, /* simple work for one tile */
};

/* One accumulation. argmax is two: the maximum, then the place where it is. */
struct ig_row_step {
    ig_value value; /* the reduction's result; of both steps of argmax */
    ig_value in;
    enum ig_op op;          /* of the reduction */
    enum ig_op update;      /* add, mul, min, max */
    enum ingot_dtype dtype; /* of the accumulator */
    bool is_place;          /* the second step of argmax */
    int pass;
    int acc;     /* lines */
    int array;   /* columns: a local buffer of results */
    int partial; /* sums over many elements are sums of partial sums: the partial one's accumulator or array */
    int term;    /* what is accumulated: in the nest */
};

/* Something stored while a pass runs. */
struct ig_row_store {
    int pass;
    int buffer, position, value; /* the latter two in the nest */
};

struct ig_row {
    struct ig_graph *graph;
    const struct ig_region *region;
    struct ig_kernel *kernel;
    struct ig_loops *k;
    struct ig_lower lower;
    struct ig_type space;
    bool reduced[INGOT_MAX_RANK];
    bool regular; /* false: only the staged way works */
    bool columns;
    ig_dim count;  /* elements of a row */
    bool long_row; /* worth partial sums */

    IG_VEC(struct ig_row_step) steps;
    int passes;      /* with reductions; one more for the rest */
    int *pass_of;    /* by value: the first pass in which it can be computed; -1: not of the region */
    int *cache_of;   /* by value, inputs too: the buffer it is kept in; -1: none */
    int *cache_pass; /* by value: the pass that fills cache_of */
    int pass;        /* that is being lowered */

    struct ig_nest nest;
    int kept;                   /* dims of the nest before the reduced ones */
    ig_x index[INGOT_MAX_RANK]; /* in the space, free variables */
    ig_x lane;                  /* columns: which row of the block, a free variable */
    ig_x place;                 /* of the element in the row's caches, a free variable; IG_NO_X: from the index */
    IG_VEC(struct ig_row_store) stores;
    ig_dim scratch; /* bytes */
};

/* The neutral element of a step's accumulator. */
ig_x ig_row_neutral(struct ig_row *r, const struct ig_row_step *step);
/* The final result from the accumulated value. */
ig_x ig_row_result(struct ig_row *r, const struct ig_row_step *step, ig_x accumulated);
/* What a step accumulates, given the operand and, for the second step of argmax, the extremum and the place. */
ig_x ig_row_term(struct ig_row *r, const struct ig_row_step *step, ig_x operand, ig_x extremum, ig_x place);
/* True where a value has the shape of the results: 1 along the reduced axes. */
bool ig_row_is_result_shape(const struct ig_row *r, const struct ig_type *type);
bool ig_row_is_space_shape(const struct ig_row *r, const struct ig_type *type);
bool ig_row_is_reduction(const struct ig_node *n);
/* Worth keeping where several passes need it. */
bool ig_row_is_expensive(const struct ig_node *n);
/* By value: the passes that compute it, as bits; what is kept (cache_of) is computed in one of them. */
uint32_t *ig_row_passes_of(struct ig_row *r);
/* From a value to the last one that follows from it alone and is needed in the same passes (bits, by value). */
ig_value ig_row_widen(const struct ig_row *r, const uint32_t *passes, ig_value v);

/* Divides the region into passes; r->regular says whether that could be done. Then the schedule may choose what is kept
 * (cache_of, cache_pass). */
void ig_row_init(struct ig_row *r, struct ig_graph *graph, const struct ig_region *region);
/* Lowers everything over the nest and simplifies it; false where the region is not regular after all. `lanes`: columns
 * side by side, with an array of results for each step; 0: results are accumulators. */
bool ig_row_prepare(struct ig_row *r, int lanes);
/* Completes the kernel: work, scratch. */
void ig_row_finish(struct ig_row *r);

/* The schedule that is always there: row_staged.c. */
void ig_row_staged(struct ig_row *r);

#endif
