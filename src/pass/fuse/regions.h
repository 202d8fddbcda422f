/* The passes that divide the graph into regions (fuse.c), and what the files beside them share. */
#ifndef IG_PASS_REGIONS_H
#define IG_PASS_REGIONS_H

#include <stdlib.h>

#include "ir/build.h"
#include "pass/pass.h"

/* Forms regions as large as pays off. */
struct ig_graph *ig_pass_fuse(struct ig_graph *in, const struct ig_pass_options *options);
/* The same, but that all that is computed elementwise and read through views lies in memory: where narrow types are chosen, since it is rounded
 * there, whether it is stored or not. */
struct ig_graph *ig_regions_stored(struct ig_graph *in, const struct ig_pass_options *options);
/* If fuse formed no regions (it is switched off), forms one per node. */
struct ig_graph *ig_pass_partition(struct ig_graph *in, const struct ig_pass_options *options);

/* Removes regions, by number, that others have taken the place of: no node is of one. */
void ig_regions_remove(struct ig_graph *graph, const bool *dead);

#endif
