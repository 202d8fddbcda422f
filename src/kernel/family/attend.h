/*
 * Attention as its schedules see it: for each batch element ("head") and each query, the scores of all keys, changed
 * elementwise, their softmax, and the sum of the values weighted by it.
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
    const struct ig_sizes *at; /* the sizes at which candidates are ordered */
    struct ig_kernel *kernel;
    struct ig_loops *k;
    struct ig_lower lower;
    struct ig_attend parts;
    struct ig_node scores, product;      /* copies, since evaluating constants appends nodes to the graph */
    struct ig_type score_type, out_type; /* equal but for the last dim */
    ig_dim heads, queries, keys, depth, columns;

    /* State during lowering: the product being replaced, its value and its index. */
    ig_value at_hand;
    ig_x value, position[INGOT_MAX_RANK];
    bool astray; /* another element was requested: the schedule does not apply */
};

/* Fills in everything that follows from the region. */
void ig_attention_read(struct ig_attention *a);
/* The index of a head: all dims but the last two. */
void ig_attention_head(struct ig_attention *a, ig_x head, ig_x *out_index);
/* Elements of the operands. */
ig_x ig_attention_query(struct ig_attention *a, const ig_x *head, ig_x query, ig_x depth);
ig_x ig_attention_key(struct ig_attention *a, const ig_x *head, ig_x key, ig_x depth);
ig_x ig_attention_value(struct ig_attention *a, const ig_x *head, ig_x key, ig_x column);
/* The changed score (scales, masks, …), in f32. */
ig_x ig_attention_changed(struct ig_attention *a, const ig_x *head, ig_x query, ig_x key, ig_x score);
/* The result, from `sum`, the weighted sum of the values, with NaN weights taken as zero, and `total`, the sum of the
 * weights. */
ig_x ig_attention_result(struct ig_attention *a, ig_x sum, ig_x total);
/* Stores the region's outputs. */
void ig_attention_store(struct ig_attention *a, struct ig_stmt *body, const ig_x *head, ig_x query, ig_x column,
                        ig_x result);

/* Recognises a causal mask in `changed`, computed from `score` at a query and a key (free variables): true if it is
 * *out_rest where key <= query + *out_offset, which is not negative, and elsewhere so low that its weight is zero.
 * Skipped elements are not checked for NaN. */
bool ig_attention_diagonal(struct ig_attention *a, ig_x changed, ig_x score, ig_x query, ig_x key, ig_x *out_rest,
                           ig_dim *out_offset);

/* Of a region of the attend family: how many scores a head has that count: all but those beyond the diagonal of a causal
 * mask. */
ig_dim ig_attention_count_scores(struct ig_graph *graph, const struct ig_region *region);

#endif
