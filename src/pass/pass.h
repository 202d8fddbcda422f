/*
 * The passes: graph in, new graph out, one per file, all in one table (pass.c) in the order they run.
 */
#ifndef IG_PASS_PASS_H
#define IG_PASS_PASS_H

#include "ir/graph.h"
#include "ir/target.h"

struct ig_precisions;

/* Estimates the kernel that a region would get, at the usual sizes: microseconds, its start included; 0: unknown. */
struct ig_estimator {
    double (*estimate)(void *user, struct ig_graph *graph, const struct ig_region *region);
    void *user;
};

/* What the user wants for nodes that match a pattern: the fused way, or the other one. */
struct ig_fuse_rule {
    const char *pattern;
    size_t length; /* of the pattern; an equals sign follows it */
    bool fused;
};

struct ig_pass_options {
    const struct ig_target *target;
    const struct ig_estimator *estimator;   /* NULL: fusion follows rules alone */
    const struct ig_precisions *precisions; /* see precision.h; NULL: as in the model */
    const struct ig_fuse_rule *fuse_rules;  /* override estimates; the last match wins */
    size_t n_fuse_rules;
};

struct ig_pass {
    const char *name;
    const char *description; /* one line */
    int level;               /* runs at this optimisation level and above; 0: always, code generation needs it */
    bool required;           /* cannot be switched off */
    /* Reads `in` and returns a new graph with the same inputs and outputs, or `in` itself if nothing changed. */
    struct ig_graph *(*run)(struct ig_graph *in, const struct ig_pass_options *options);
};

extern const struct ig_pass ig_passes[];
extern const int ig_pass_count;

/*
 * The frame of a rewriting pass: walks `in` in order and copies every node that an output needs, unless `rewrite`
 * builds a replacement. rewrite receives the old node and its inputs in the new graph. It returns true and fills
 * out_values (one per output of the node, in the new graph), or returns false to have the node copied. Bodies of
 * control flow are rewritten recursively. The new graph has the old one's dims, inputs and outputs. If rewrite is NULL,
 * the result is a copy without dead code.
 */
struct ig_rewriter {
    struct ig_graph *in, *out;
    ig_value *map;        /* old value -> new value; IG_NO_VALUE: not built yet */
    const uint32_t *uses; /* use counts of `in`'s values */
    const struct ig_pass_options *options;
    void *state; /* private to the pass */
};
typedef bool (*ig_rewrite_fn)(struct ig_rewriter *rw, const struct ig_node *node, const ig_value *in,
                              ig_value *out_values);
struct ig_graph *ig_rewrite(struct ig_graph *in, const struct ig_pass_options *options, ig_rewrite_fn rewrite,
                            void *state);

/* Sweeps until nothing changes, at most `bound` times. */
struct ig_graph *ig_rewrite_until_stable(struct ig_graph *in, const struct ig_pass_options *options,
                                         ig_rewrite_fn rewrite, void *state, int bound);
/* Same nodes, attributes and order? Names and origins are ignored. */
bool ig_graph_same(const struct ig_graph *a, const struct ig_graph *b);

#endif
