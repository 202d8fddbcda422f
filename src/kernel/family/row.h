/*
 * Internals of the row family. A region of reductions over the same axes of one space, with elementwise nodes around
 * them, becomes passes over a row (the elements that share one kept index): pass p computes the reductions that need
 * results of the passes before it. The row stays in cache between passes, so memory is read once; expensive values that
 * are needed again are kept in scratch memory.
 *
 *     cpu/row_lines.c    the innermost axis is reduced: one row at a time, accumulators in registers
 *     cpu/row_columns.c  the innermost axis is kept: a block of neighbouring rows at a time, accumulators in arrays; also
 *                        where neighbouring rows have some elements each side by side (groups of channels)
 *     cuda/row.c, cuda/row_columns.c, cuda/row_groups.c   the same for GPUs; cuda/row_share.c: long rows, by several blocks
 *     row_staged.c       any region: one reduction after the other, results in scratch memory, one thread
 */
#ifndef IG_KERNEL_ROW_H
#define IG_KERNEL_ROW_H

#include "kernel/kernel.h"
#include "kernel/lower.h"
#include "kernel/nest.h"

enum {
    IG_ROW_PASSES = 16,
    IG_ROW_ELEMENTS = 8192, /* elements of simple work per tile */
};

/* One accumulation. argmax takes two: the maximum, then its position. */
struct ig_row_step {
    ig_value value; /* the reduction's result; both steps of argmax have the same */
    ig_value in;
    enum ig_op op;          /* of the reduction */
    enum ig_op update;      /* add, mul, min, max */
    enum ingot_dtype dtype; /* of the accumulator */
    bool is_place;          /* the second step of argmax */
    int mean;   /* the step of the mean whose squared deviations are summed in the same pass (ig_row_init); -1: none */
    ig_x shift; /* of these: the row's first element */
    int pass;
    int acc;     /* row_lines: accumulator */
    int array;   /* row_columns: local buffer of results */
    int partial; /* long sums are sums of partial sums: accumulator or array of these */
    int term;    /* the accumulated expression: index in the nest */
};

/* A space of pixels by groups by pieces, with anything before them, where a row is a group over all pixels: the groups of
 * channels of a channels-last picture. */
struct ig_row_groups {
    int64_t count, piece; /* groups side by side; elements of each of them in a pixel */
    ig_dim pixels;
};

/* A store made during a pass. */
struct ig_row_store {
    int pass;
    int buffer, position, value; /* position, value: indices in the nest */
};

struct ig_row {
    struct ig_graph *graph;
    const struct ig_region *region;
    struct ig_kernel *kernel;
    struct ig_loops *k;
    const struct ig_sizes *at; /* sizes for estimates */
    struct ig_lower lower;
    struct ig_type space;
    bool reduced[INGOT_MAX_RANK];
    bool regular; /* false: only row_staged applies */
    bool columns;
    bool joins;    /* squared deviations from a mean are summed in the mean's pass */
    ig_dim count;  /* elements per row */
    bool long_row; /* long enough for partial sums */

    IG_VEC(struct ig_row_step) steps;
    int passes;    /* passes with reductions; one more stores the rest */
    int *pass_of;  /* by value: the first pass that can compute it; -1: not in the region */
    int *cache_of; /* by value, inputs included: the buffer that caches it; -1: none */
    int *
        cache_pass; /* by value: the pass that fills cache_of; -1: one before all others, -2: not by the row's passes */
    int pass;       /* the pass being lowered */

    struct ig_nest nest;
    int kept;                   /* dims of the nest before the reduced ones */
    ig_x index[INGOT_MAX_RANK]; /* in the space; free variables */
    ig_x lane;                  /* row_columns: lane within the block, a free variable */
    ig_x place;                 /* position in the row's caches, a free variable; IG_NO_X: derived from the index */
    IG_VEC(struct ig_row_store) stores;
    ig_dim scratch; /* bytes */
};

/* The neutral element of a step's accumulator. */
ig_x ig_row_neutral(struct ig_row *r, const struct ig_row_step *step);
/* Converts the accumulated value to the reduction's result. */
ig_x ig_row_result(struct ig_row *r, const struct ig_row_step *step, ig_x accumulated);
/* The term that a step accumulates for an operand; the second step of argmax also takes the extremum and the
 * position. */
ig_x ig_row_term(struct ig_row *r, const struct ig_row_step *step, ig_x operand, ig_x extremum, ig_x place);
/* Has the type the shape of the results, 1 along the reduced axes? */
bool ig_row_is_result_shape(const struct ig_row *r, const struct ig_type *type);
/* The number of rows: the product of the dims that are not reduced. */
ig_dim ig_row_results(const struct ig_row *r);
bool ig_row_is_space_shape(const struct ig_row *r, const struct ig_type *type);
bool ig_row_is_reduction(const struct ig_node *n);
/* Worth caching if several passes need it? */
bool ig_row_is_expensive(const struct ig_node *n);
/* By value: bit mask of the passes that need it; a cached value (cache_of) is computed in only one of them. */
uint32_t *ig_row_passes_of(struct ig_row *r);
/* The last value of the chain from v in which each is the only reader of the one before and is needed in the same
 * passes. */
ig_value ig_row_widen(const struct ig_row *r, const uint32_t *passes, ig_value v);

/*
 * Divides the region into passes, or clears r->regular. The schedule may then choose what to cache (cache_of, cache_pass).
 *
 * `joins`: a variance is summed in the pass of its mean, where all that the region stores is rounded to 16 bits: of x less the
 * row's first element s, the mean of the squares less (mean - s)^2 (the shifted algorithm of Chan, Golub and LeVeque, "Algorithms
 * for Computing the Sample Variance", 1983). Since s is one of the row's n elements, (mean - s)^2 is at most n times the variance, and
 * of the order of the variance unless s is far from all others; so is the relative error, in units of f32's rounding.
 */
void ig_row_init(struct ig_row *r, struct ig_graph *graph, const struct ig_region *region, const struct ig_sizes *at,
                 bool joins);
/* The same of rows that a kernel of other work does besides, from and to the buffers that `lower` has for its region. */
void ig_row_init_within(struct ig_row *r, struct ig_kernel *kernel, const struct ig_lower *lower,
                        const struct ig_sizes *at);
/* Lowers everything over the nest and simplifies it; false if the region turns out not to be regular. `lanes`: columns
 * side by side, with an array of results per step; 0: results are accumulators. */
bool ig_row_prepare(struct ig_row *r, int lanes);
/* Is the space one of groups, none of whose reductions asks for places? */
bool ig_row_find_groups(const struct ig_row *r, struct ig_row_groups *out_groups);
/* Are the nest's dims those of the space, that is others, groups, pixels (one or more), and elements of a piece? */
bool ig_row_fits_groups(const struct ig_row *r, const struct ig_row_groups *groups);
/* Completes the kernel: work, scratch. */
void ig_row_finish(struct ig_row *r);

/* The fallback, row_staged.c: always applies. */
void ig_row_staged(struct ig_row *r);

#endif
