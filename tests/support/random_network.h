/*
 * Random networks for kernels: the steps of random_graph.h and those that networks are made of, on sizes that no tile divides.
 * Steps that round (or whose sums may grow beyond what is exact) clear `exact` of the maker, and steps whose results jump
 * (comparisons, positions, conversions) are made only while it is set: so results of another order of sums stay close, and
 * those that are exact can be compared bit by bit.
 */
#ifndef TESTS_SUPPORT_RANDOM_NETWORK_H
#define TESTS_SUPPORT_RANDOM_NETWORK_H

#include "support/random_graph.h"

/* Inputs "x" and "y", `steps` steps, outputs "a" (the last result) and, if there are several, "b". */
void random_network(struct random_maker *m, int steps);

#endif
