/* The two passes that divide the graph into regions (fuse.c). */
#ifndef IG_PASS_REGIONS_H
#define IG_PASS_REGIONS_H

#include <stdlib.h>

#include "ir/build.h"
#include "pass/pass.h"

/* Regions as large as pays. */
struct ig_graph *ig_pass_fuse(struct ig_graph *in, const struct ig_pass_options *options);
/* A region a node, where fuse made none: what runs with fuse switched off. */
struct ig_graph *ig_pass_partition(struct ig_graph *in, const struct ig_pass_options *options);

#endif
