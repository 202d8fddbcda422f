/* A timing cache in which chance says how fast kernels are: so a build takes any of the candidates, not the first ones. */
#ifndef TESTS_SUPPORT_RANDOM_CHOICE_H
#define TESTS_SUPPORT_RANDOM_CHOICE_H

#include "ir/graph.h"

/* For a build of this graph with these options; writes the file at `path`. No candidates that call libraries are in it. */
void random_choices_write(struct ig_graph *graph, const struct ingot_build_options *options, uint64_t seed,
                          const char *path);

#endif
