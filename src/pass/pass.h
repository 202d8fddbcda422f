/*
 * The passes: graph in, new graph out, one a file, all in one table (pass.c) in the order in which they run.
 */
#ifndef IG_PASS_PASS_H
#define IG_PASS_PASS_H

#include "ir/graph.h"
#include "ir/target.h"

struct ig_precisions;

struct ig_pass_options {
    const struct ig_target *target;
    const struct ig_precisions *precisions; /* precision.h; NULL: as the model says */
};

struct ig_pass {
    const char *name;
    const char *description; /* one line */
    int level;               /* runs at this optimisation level and above; 0: always needed for code generation */
    bool required;           /* cannot be switched off */
    /* Reads `in`, returns a new graph (or `in` where nothing changed) with the same inputs and outputs. */
    struct ig_graph *(*run)(struct ig_graph *in, const struct ig_pass_options *options);
};

extern const struct ig_pass ig_passes[];
extern const int ig_pass_count;

/*
 * The frame of a rewriting pass: walks `in` in order and copies every node that an output needs, unless `rewrite`
 * builds something else. rewrite gets the node of the old graph and its inputs in the new one; it returns true and
 * fills out_values (one per output of the node, in the new graph) or returns false to have the node copied. Bodies
 * of control flow are rewritten by recursion. The new graph has the old one's dims, inputs and outputs. rewrite may be
 * NULL: a copy without what no output needs.
 */
struct ig_rewriter {
    struct ig_graph *in, *out;
    ig_value *map;        /* old value -> new value; IG_NO_VALUE: not made yet */
    const uint32_t *uses; /* of `in`'s values */
    const struct ig_pass_options *options;
    void *state; /* the pass's own */
};
typedef bool (*ig_rewrite_fn)(struct ig_rewriter *rw, const struct ig_node *node, const ig_value *in,
                              ig_value *out_values);
struct ig_graph *ig_rewrite(struct ig_graph *in, const struct ig_pass_options *options, ig_rewrite_fn rewrite,
                            void *state);

/* Sweeps until a sweep changes nothing, at most `bound` times. */
struct ig_graph *ig_rewrite_until_stable(struct ig_graph *in, const struct ig_pass_options *options,
                                         ig_rewrite_fn rewrite, void *state, int bound);
/* The same nodes with the same attributes in the same order; names and origins do not count. */
bool ig_graph_same(const struct ig_graph *a, const struct ig_graph *b);

#endif
