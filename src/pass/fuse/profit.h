/*
 * What pays: form.c proposes the most fused division into regions, and this decides where less of it is faster.
 *
 * A view that a region reads through may be stored by a kernel of its own instead, and so may what it computes beneath a view; an
 * attention may be three regions instead of one. Both ways are formed and estimated (ig_estimator), and the cheaper one is taken: the
 * other way only if it saves enough to outweigh the estimates' errors. Decisions follow from the graph, the target and the sizes alone.
 */
#ifndef IG_PASS_PROFIT_H
#define IG_PASS_PROFIT_H

#include "pass/pass.h"

/* Decisions so far, on which the next division is formed. */
struct ig_choices {
    bool *stored;   /* by value: a view that is stored */
    bool *apart;    /* by value: computed elementwise, read by one region through views, and stored for it */
    bool *declined; /* by node: the last product of an attention that is no region */
    bool beneath;   /* what is not apart may be computed by the region that reads it */
    bool is_body;   /* the graph is a body of control flow */
};
void ig_choices_init(struct ig_choices *choices, struct ig_graph *graph);

/* Decides about the views that the graph's regions read through. Returns whether there are new ones to store; then the
 * graph is to be divided again. */
bool ig_profit_of_views(struct ig_graph *graph, const struct ig_pass_options *options, struct ig_choices *choices);

/* Decides about what regions compute elementwise and read through views. Returns whether any of it is to be stored; then the graph is to
 * be divided again. */
bool ig_profit_of_maps(struct ig_graph *graph, const struct ig_pass_options *options, struct ig_choices *choices);

/* Estimated microseconds that the regions which compute these nodes add to a network; 0: unknown. */
double ig_profit_time(struct ig_graph *graph, const struct ig_pass_options *options, const ig_node_id *nodes,
                      uint32_t count);
/* The same of a region, which may be one that the graph does not have. */
double ig_profit_time_of(struct ig_graph *graph, const struct ig_pass_options *options, const struct ig_region *region);
/* Is a way that takes so many microseconds to be preferred to the proposed one? Notes the decision. */
bool ig_profit_is_better(struct ig_graph *graph, const struct ig_pass_options *options, ig_value value,
                         const char *otherwise, double proposed, double other);
/* Parses the build options' "PATTERN=on|off". Raises INGOT_INVALID_ARGUMENT: a pattern that matches no node of the imported
 * graph is an error. */
const struct ig_fuse_rule *ig_fuse_rules_parse(struct ig_graph *graph, const char *const *rules, size_t count);

#endif
