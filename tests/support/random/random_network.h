/*
 * Random networks for kernels: the steps of random_graph.h and typical layers, with sizes that no tile divides. Steps
 * that round (or whose sums may exceed the exact range) clear the maker's `exact`; steps with discontinuous results
 * (comparisons, positions, conversions) are used only while it is set. So results with another order of sums stay
 * close, and exact ones can be compared bit by bit.
 */
#ifndef TESTS_SUPPORT_RANDOM_NETWORK_H
#define TESTS_SUPPORT_RANDOM_NETWORK_H

#include "support/random/random_graph.h"

/* Inputs "x" and "y", `steps` steps, outputs "a" (the last result) and, if there are several, "b". */
void random_network(struct random_maker *m, int steps);

#endif
