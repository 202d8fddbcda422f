/* Runs passes outside of a build. */
#ifndef TESTS_PASSES_H
#define TESTS_PASSES_H

#include "ingot/ingot.h"
#include "pass/pass.h"

/* Those with these names, separated by spaces, in this order. Verifies the graph after each. */
struct ig_graph *passes_named(struct ig_graph *g, const char *names, const struct ig_pass_options *options);

/* Those of a build with these options, in the table's order. */
struct ig_graph *passes_of_build(struct ig_graph *g, const struct ingot_build_options *build,
                                 const struct ig_pass_options *options);

/* Fails unless the only result of g after some passes is nearly what it was: differences are at most `part` of the largest number of g's,
 * which has to be larger than `least`. */
void assert_nearly_same(struct ig_graph *g, struct ig_graph *after, const struct ingot_tensor *inputs, double part,
                        double least);

#endif
