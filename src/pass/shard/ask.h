/*
 * What the user asks of the division of single nodes: a layout in place of what the search would choose. Patterns match ONNX nodes,
 * which may have become several; asked are then its products, or, where it has none, the node that gives its result.
 *
 *     auto      as the search likes, after an earlier pattern
 *     whole     every rank computes it
 *     divided   in any way
 *     batch     along the first axis of the result
 *     axis0 …   along that axis of the result
 *     columns   of a product's result: the columns of its weights, or a convolution's channels
 *     rows      of a product's weights: its depth, so that each rank has a term of a sum; of the table that is gathered from
 */
#ifndef IG_PASS_SHARD_ASK_H
#define IG_PASS_SHARD_ASK_H

#include "pass/shard/rule.h"

enum ig_shard_how {
    IG_SHARD_AUTO,
    IG_SHARD_WHOLE,
    IG_SHARD_DIVIDED,
    IG_SHARD_AXIS,
    IG_SHARD_COLUMNS,
    IG_SHARD_ROWS,
};

struct ig_shard_ask {
    const char *text; /* "PATTERN=HOW" */
    size_t length;    /* of the pattern */
    enum ig_shard_how how;
    int axis;       /* of AXIS */
    uint32_t nodes; /* that it applies to */
};

struct ig_shard_asks {
    struct ig_shard_ask *list;
    size_t count;
    const struct ig_shard_ask **of; /* by node of the graph; NULL: as the search likes. NULL: so are all */
};

/* Raises INGOT_INVALID_ARGUMENT for a text of another form; binding, for a pattern that nothing fits. */
void ig_shard_asks_parse(struct ig_job *job, const char *const *texts, size_t count, struct ig_shard_asks *out_asks);
/* Is anything that the graph computes asked for, by a valid text? */
bool ig_shard_ask_has_nodes(const char *text, const struct ig_graph *graph);
/* Finds the graph's nodes that are asked for, once. */
void ig_shard_asks_bind(struct ig_shard_asks *asks, const struct ig_graph *graph);

/* Is that (NULL: whole) what is asked of the node? asks: NULL: nothing is. */
bool ig_shard_asks_allow(const struct ig_shard_asks *asks, const struct ig_graph *graph, ig_node_id node,
                         const struct ig_division *division);
/* Raises INGOT_INVALID_ARGUMENT, which says why the node cannot be divided as it is asked. */
_Noreturn void ig_shard_ask_fail(const struct ig_shard_ask *ask, struct ig_graph *graph, ig_node_id node, int ranks);

/* The axis of a product's result that its columns are; -1: it is none. */
int ig_shard_columns(const struct ig_graph *graph, const struct ig_node *node);

#endif
