/* Decides which attentions become one region (attend.c), for form.c. */
#ifndef IG_PASS_ATTEND_H
#define IG_PASS_ATTEND_H

#include "ir/attend.h"
#include "pass/pass.h"

enum { IG_ATTEND_MOST_DEPTH = 256 }; /* elements of a query, key or value */

/* The attentions of the graph, indexed by the node of their last product; NULL for all other nodes. `stored`: by value,
 * views that will be materialised. Returns NULL if the target has no kernel for attentions. */
const struct ig_attend **ig_find_attends(struct ig_graph *graph, const uint32_t *uses, const bool *stored,
                                         const struct ig_pass_options *options);

#endif
