/*
 * dead-code: leaves out the nodes that no output needs.
 *
 * Requires:   nothing.
 * Guarantees: every node is needed by an output. Every later pass leaves its own dead code out too, since only needed
 *             nodes are copied (rewrite.c): switching this off keeps it in until the first pass that rewrites.
 */
#include "pass/passes.h"

struct ig_graph *ig_pass_dead_code(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite(in, options, NULL, NULL);
}
