/* The two passes that divide the graph into regions (fuse.c). */
#ifndef IG_PASS_REGIONS_H
#define IG_PASS_REGIONS_H

#include <stdlib.h>

#include "ir/build.h"
#include "pass/pass.h"

/* Forms regions as large as pays off. */
struct ig_graph *ig_pass_fuse(struct ig_graph *in, const struct ig_pass_options *options);
/* If fuse formed no regions (it is switched off), forms one per node. */
struct ig_graph *ig_pass_partition(struct ig_graph *in, const struct ig_pass_options *options);

#endif
