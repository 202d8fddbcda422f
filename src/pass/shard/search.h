/*
 * Which nodes are divided, and how. Layouts spread from seeds (the axes of weights, the batch) through the rules to what they
 * can reach, forwards and backwards, until nothing is new. Then one walk over the nodes, in their order, keeps the cheapest
 * ways to have computed what is still needed, for each combination of layouts that it can be in: what a node takes when
 * divided, and what it takes to bring operands into the layouts that it reads. That is exact as long as the combinations are
 * fewer than the walk keeps; of more, the cheapest are kept.
 */
#ifndef IG_PASS_SHARD_SEARCH_H
#define IG_PASS_SHARD_SEARCH_H

#include "pass/shard/ask.h"
#include "pass/shard/split.h"
#include "pass/shard/table.h"

/* Estimates, in microseconds. */
struct ig_shard_costs {
    /* A node of which the slowest rank reads and writes these shares (1: all) of its operands and results, and does that
     * share of the work. */
    double (*node)(void *user, struct ig_graph *graph, ig_node_id node, const double *in, const double *out,
                   double work);
    /* A collective of so many bytes: of the whole value. */
    double (*collective)(void *user, enum ig_op op, double bytes, int ranks);
    /* The usual value of a size. */
    int64_t (*size)(void *user, ig_dim dim);
    void *user;
};

enum {
    IG_SEED_TENSOR = 1, /* columns and depths of weights, and with them heads, channels and vocabularies */
    IG_SEED_BATCH = 2,  /* the first axes of inputs */
    IG_SEED_WIDTHS = 4, /* with TENSOR: tables may be divided within their rows, if they are not tied */
};

/* A stage of a pipeline. */
struct ig_shard_stage {
    int rank;
    uint32_t nodes;
    ig_node_id first, last; /* if there are any */
    double time;            /* with what it exchanges */
};

struct ig_shard_result {
    struct ig_shard_plan plan;
    double time;                   /* of one run, in microseconds */
    double computing;              /* of that, without collectives */
    uint32_t divided;              /* nodes */
    uint32_t untied;               /* tables that IG_SEED_WIDTHS is of use to */
    struct ig_shard_stage *stages; /* of a pipeline, as many as ranks; else NULL */
    double slowest;                /* of them: what each further run takes if there are as many under way as stages */
};

/* Where layouts spread from: IG_SEED_…, and what is asked of nodes (NULL: nothing). */
struct ig_shard_seeds {
    unsigned of;
    const struct ig_shard_asks *asks;
};

/* Plans the graph, which has no dead nodes, for so many ranks. Raises INGOT_INVALID_ARGUMENT if a node cannot be divided as is
 * asked. */
void ig_shard_search(struct ig_graph *graph, int ranks, struct ig_shard_seeds seeds, const struct ig_shard_costs *costs,
                     struct ig_shard_result *out_result);

/* What a plan that such a search made takes by other estimates: fills the times of `result`. */
void ig_shard_price(struct ig_graph *graph, struct ig_shard_seeds seeds, const struct ig_shard_costs *costs,
                    struct ig_shard_result *result);

/* ---- For search*.c: the layouts that values may have, and the ways to divide nodes. */

enum { IG_MOST_LAYOUTS = 16, IG_MOST_WAYS = 24 };

struct ig_value_layouts {
    struct ig_layout at[IG_MOST_LAYOUTS]; /* the first is WHOLE */
    int count;
};
struct ig_way {
    struct ig_division division;
    uint8_t *in, *out; /* numbers of layouts, by operand and result; of constants 0 */
};
struct ig_node_ways {
    IG_VEC(struct ig_way) list;
};
struct ig_shard_space {
    struct ig_value_layouts *layouts; /* by value */
    struct ig_node_ways *ways;        /* by node */
    uint8_t *tables;                  /* by node: how its table is to be divided, if it can be; NULL: there are none */
    uint32_t n_untied;                /* tables that may be divided within their rows */
};
void ig_shard_spread(struct ig_graph *graph, int ranks, struct ig_shard_seeds seeds, struct ig_shard_space *out_space);

#endif
