/* The explanation in an engine: what was built, and why; docs/engine.md describes the JSON. */
#ifndef IG_COMPILE_EXPLAIN_H
#define IG_COMPILE_EXPLAIN_H

#include "compile/figures.h"
#include "compile/shard/shard.h"

struct ig_pass_report {
    const char *name;
    bool ran;
    uint32_t nodes_before, nodes_after; /* of the non-constant part, bodies included */
};

struct ig_explanation {
    struct ig_graph *graph;
    const struct ig_kernel_set *set;
    const struct ig_built_plan *built;
    const char *target;
    const char *compiler;
    const char *precision; /* as requested */
    int opt_level;
    const struct ig_sharding *shardings; /* by number of ranks; none: the engine is for one */
    uint32_t n_shardings;
    struct ig_figures figures;
    IG_VEC(struct ig_pass_report) passes;
};

/* Appends a JSON string. */
void ig_explain_string(struct ig_text *text, const char *string);
const char *ig_explain(const struct ig_explanation *explanation);

#endif
