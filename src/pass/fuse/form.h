/* Forms regions, once decisions are made: what may be fused (form.c). */
#ifndef IG_PASS_FORM_H
#define IG_PASS_FORM_H

#include "pass/fuse/profit.h"

/* Replaces the graph's regions by the most fused ones that the choices permit; without `join`, by one for each node. */
void ig_regions_form(struct ig_graph *graph, const struct ig_pass_options *options, bool join,
                     const struct ig_choices *choices);

#endif
