/* The loop shared by all contractions of the reference evaluator. */
#ifndef IG_IR_EVAL_CONTRACT_H
#define IG_IR_EVAL_CONTRACT_H

#include "ir/eval/eval_op.h"

/* rows x depth times depth x columns, plus a bias per column; embedded in a struct that knows the layouts. */
struct ig_contraction {
    int64_t rows, depth, columns;
    /* Fetch `depth` cells of a row of the left side, and `n` cells of row k of the right side from column `first` on,
     * with ig_contract_load. */
    void (*fetch_row)(const struct ig_contraction *c, int64_t row, union ig_cell *out_cells);
    void (*fetch_columns)(const struct ig_contraction *c, int64_t k, int64_t first, int n, union ig_cell *out_cells);
    enum ingot_dtype result;
    char *out;
    int64_t row_stride, column_stride; /* of the result, in bytes */
    const struct ig_view *bias;        /* may be NULL; its data start at column 0 */
    int64_t bias_stride;               /* in bytes */
    bool integer;                      /* cells are integers; set by ig_contract */
};

/* a and b are the element types of the two sides. */
void ig_contract(struct ig_eval *ev, struct ig_contraction *c, enum ingot_dtype a, enum ingot_dtype b);
/* Loads n elements, `stride` bytes apart, as cells of the type that this contraction computes in. */
void ig_contract_load(const struct ig_contraction *c, enum ingot_dtype dtype, const void *data, int64_t stride,
                      int64_t n, union ig_cell *out_cells);

#endif
