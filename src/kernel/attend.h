/*
 * Attention as the schedules see it: for each element of the batch ("head") and each query, the scores of all keys, changed
 * elementwise, their softmax, and the values summed up with these weights.
 */
#ifndef IG_KERNEL_ATTEND_H
#define IG_KERNEL_ATTEND_H

#include "ir/attend.h"
#include "kernel/kernel.h"
#include "kernel/lower.h"

struct ig_attention {
    struct ig_graph *graph;
    const struct ig_region *region;
    const struct ig_target *target;
    struct ig_kernel *kernel;
    struct ig_loops *k;
    struct ig_lower lower;
    struct ig_attend parts;
    struct ig_node scores, product;      /* copies: evaluating constants appends nodes */
    struct ig_type score_type, out_type; /* of the same rank, and the same but for the last dim */
    ig_dim heads, queries, keys, depth, columns;

    /* Under lowering: the product at hand, its value there, and the index. */
    ig_value at_hand;
    ig_x value, position[INGOT_MAX_RANK];
    bool astray; /* another element was asked for: the schedule does not fit */
};

/* Reads the region: fills in what follows from the graph. */
void ig_attention_read(struct ig_attention *a);
/* The index of a head: all dims but the last two. */
void ig_attention_head(struct ig_attention *a, ig_x head, ig_x *out_index);
/* Elements of the operands. */
ig_x ig_attention_query(struct ig_attention *a, const ig_x *head, ig_x query, ig_x depth);
ig_x ig_attention_key(struct ig_attention *a, const ig_x *head, ig_x key, ig_x depth);
ig_x ig_attention_value(struct ig_attention *a, const ig_x *head, ig_x key, ig_x column);
/* What becomes of a score, in f32. */
ig_x ig_attention_changed(struct ig_attention *a, const ig_x *head, ig_x query, ig_x key, ig_x score);
/* The result from the sum of the weights and that of the values, in which NaN weights count as zero. */
ig_x ig_attention_result(struct ig_attention *a, ig_x sum, ig_x total);
/* Stores the region's outputs. */
void ig_attention_store(struct ig_attention *a, struct ig_stmt *body, const ig_x *head, ig_x query, ig_x column,
                        ig_x result);

/* True where `changed`, made of `score` at a query and a key (free variables), is *out_rest where key <= query + *out_offset,
 * which is not negative, and else so little that it has no weight. What is left out then is not asked whether it is NaN. */
bool ig_attention_diagonal(struct ig_attention *a, ig_x changed, ig_x score, ig_x query, ig_x key, ig_x *out_rest,
                           ig_dim *out_offset);

#endif
