/*
 * Tries what ig_rows_mixed promises: evaluates a graph with a few rows, and again with rows of garbage behind them, and
 * compares the first rows of the outputs.
 */
#ifndef TESTS_SUPPORT_ROWS_CHECK_H
#define TESTS_SUPPORT_ROWS_CHECK_H

#include "ir/graph.h"

struct rows_trial {
    struct ig_graph *graph;
    ig_dim symbol;
    int64_t rows, more; /* the symbol is `rows`, then rows + more */
    int64_t others;     /* the other symbols */
    uint64_t seed;      /* of the inputs' elements */
};

/* NULL if all outputs agree bit by bit; else what differs, in the job's arena. Outputs have the symbol along at most one
 * axis. Raises where the graph cannot be evaluated for these sizes. */
const char *rows_differ(struct ig_job *job, const struct rows_trial *t);

#endif
