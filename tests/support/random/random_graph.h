/*
 * Generates random graphs, for tests that compare ways to compute them. A maker has a pool of values, the results so
 * far; a step adds one. All numbers follow from the maker's state.
 */
#ifndef TESTS_SUPPORT_RANDOM_GRAPH_H
#define TESTS_SUPPORT_RANDOM_GRAPH_H

#include "ir/build.h"

/* "batch" and "length" */
enum { RANDOM_SYMBOLS = 2 };
extern const char *const random_symbols[RANDOM_SYMBOLS];

struct random_maker {
    struct ig_job *job;
    struct ig_graph *g;
    uint64_t state;
    int64_t sizes[RANDOM_SYMBOLS]; /* of the symbols, for counting elements */
    IG_VEC(ig_value) pool;         /* f32 */
    int initializers;
    bool empty;           /* symbols may be 0 */
    int64_t max_elements; /* of a value */
    bool whole;           /* inputs and weights are small whole numbers */
    bool exact;           /* all results so far are whole and computed without rounding: see random_network.h */
    int depth;            /* of the body that is being made; 0: none */
    bool tables;          /* networks may begin with a look-up in a table */
    int64_t largest;      /* all whole numbers up to this are exact in the precision */
};

/* 0 … count - 1 */
int64_t random_pick(struct random_maker *m, int64_t count);
ig_dim random_dim(struct random_maker *m, int64_t value);
int64_t random_size(struct random_maker *m, ig_dim dim);
int64_t random_elements(struct random_maker *m, const struct ig_type *type);
/* A constant of small whole numbers; it may be an initialiser. */
ig_value random_weights(struct random_maker *m, int rank, const int64_t *dims);
/* Clamps to -8 … 8. */
ig_value random_clamp(struct random_maker *m, ig_value v);

/* Builds a value from x, or returns x if the step does not apply. */
typedef ig_value (*random_step)(struct random_maker *m, ig_value x);

/* This many of random_plain_steps, the first ones, contain no sums. */
enum { RANDOM_PLAIN_MOVES = 12 };
/* Steps for which every rewrite is exact on small whole numbers. */
extern const random_step random_plain_steps[];
extern const int random_plain_step_count;

#endif
