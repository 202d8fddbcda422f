/* Random networks whose initialisers get other values: ordinary ones, and such as could decide something. */
#ifndef TESTS_SUPPORT_RANDOM_VALUES_H
#define TESTS_SUPPORT_RANDOM_VALUES_H

#include "ir/graph.h"

uint64_t random_mixed(uint64_t x);

/* The text of a random network of at most so many steps and two. */
const char *random_values_network(struct ig_job *job, uint64_t seed, int most_steps);

/* The initialisers' values: NULL where they are the network's own. */
struct random_values {
    uint32_t n;
    void **bytes;
};
/* Other values for all initialisers, or for one. */
struct random_values random_values_change(struct ig_job *job, const struct ig_initializers *all, uint64_t seed,
                                          bool only_one);
/* The network of a text with these values (NULL: its own), as if imported. */
struct ig_graph *random_values_graph(struct ig_job *job, const char *text, const struct random_values *values);

#endif
