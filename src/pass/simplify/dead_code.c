/*
 * dead-code: drops the nodes that no output needs.
 *
 * Requires:   nothing.
 * Guarantees: every node is needed by an output. Every later pass drops its own dead code too, since only needed nodes
 *             are copied (rewrite.c): switching this pass off keeps dead code only until the first pass that rewrites.
 */
#include "pass/passes.h"

struct ig_graph *ig_pass_dead_code(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite(in, options, NULL, NULL);
}
