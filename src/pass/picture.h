/* A part of pack.c: how images of a few channels are stored for GPUs. */
#ifndef IG_PASS_PICTURE_H
#define IG_PASS_PICTURE_H

#include "ir/build.h"

/* Rewrites image and weights of a channels-last convolution of one group, and its attributes, where that makes loads
 * whole. */
void ig_picture_pack(struct ig_graph *g, struct ig_node *n, ig_value *in);

#endif
