/* What the steps of random networks share, and those of them that have files of their own; see random_network.h. */
#ifndef TESTS_SUPPORT_RANDOM_STEPS_H
#define TESTS_SUPPORT_RANDOM_STEPS_H

#include "support/random/random_graph.h"

enum { RANDOM_MAX_RANK = 6 };

/* Shorthands. */
static inline struct ig_type type_of(struct random_maker *m, ig_value x) {
    return *ig_type_of(m->g, x);
}

static inline ig_value scalar(struct random_maker *m, double x) {
    return ig_build_scalar(m->g, INGOT_F32, x);
}

static inline ig_value map2(struct random_maker *m, enum ig_op op, ig_value a, ig_value b) {
    return ig_map2(m->g, op, a, b);
}

static inline ig_value to_float(struct random_maker *m, ig_value x) {
    return ig_build_cast(m->g, x, INGOT_F32);
}

/* Small enough for odd sizes to be worth it, large enough to be more than one tile. */
int64_t random_odd_size(struct random_maker *m);
/* Sums of `count` products or numbers, each of at most `each`, of either sign where `mixed`: four deviations then. */
void random_sum(struct random_maker *m, int64_t count, int64_t each, bool mixed);
/* The last axes, or any. */
int random_axes(struct random_maker *m, int rank, int64_t *out_axes);
/* Any step, on a value of a body. */
ig_value random_body_step(struct random_maker *m, ig_value x);

/* Branches, loops and scans. */
extern const random_step random_control_steps[];
extern const int random_control_step_count;
/* Quantisation, indices, order, integers, resizing, functions. */
extern const random_step random_data_steps[];
extern const int random_data_step_count;

#endif
