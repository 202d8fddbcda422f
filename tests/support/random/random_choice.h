/* A timing cache with random times: a build with it takes random candidates instead of the first ones, and others at
 * other sizes. */
#ifndef TESTS_SUPPORT_RANDOM_CHOICE_H
#define TESTS_SUPPORT_RANDOM_CHOICE_H

#include "ir/graph.h"

/* For a build of this graph with these options; writes the file at `path`. Excludes candidates that call libraries. */
void random_choices_write(struct ig_graph *graph, const struct ingot_build_options *options, uint64_t seed,
                          const char *path);

#endif
