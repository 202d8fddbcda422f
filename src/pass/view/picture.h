/* Part of pack.c: the layout of images with few channels for GPUs. */
#ifndef IG_PASS_PICTURE_H
#define IG_PASS_PICTURE_H

#include "ir/build.h"
#include "ir/target.h"

/* Pads or regroups the image, the weights and the attributes of a channels-last convolution of one group, if its
 * windows then consist of whole vector loads. True if these are lines of several pixels: then the weights are to lie along the depth. */
bool ig_picture_pack(struct ig_graph *g, struct ig_node *n, ig_value *in, const struct ig_target *target);

#endif
