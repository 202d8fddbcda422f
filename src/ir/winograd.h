/*
 * Winograd's minimal filtering for 3x3 convolutions of stride 1 (Winograd, "Arithmetic complexity of computations",
 * 1980; Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016).
 *
 * F(m x m, 3 x 3) computes m x m outputs from t x t inputs, t = m + 2, in transformed space: y = A' [(G g G') * (B' d
 * B)] A, where * is elementwise and sums over input channels are formed before A' … A. That takes t*t products instead
 * of 9*m*m: 2.25 times fewer for m = 2, 4 times fewer for m = 4.
 *
 * The matrices are those of interpolation at 0, pairs p, -p and infinity. With 1 for m = 2, these are Lavin and Gray's.
 * For m = 4 they take 1 and 2; 3/4 and 3/2 are as exact in binary and halve the error (cf. Barabasz et al., "Error
 * analysis and improving the accuracy of Winograd convolution for deep neural networks", 2020). An infinity or a NaN
 * among the t x t inputs reaches all m x m outputs. With a dilation d, positions that are d apart form d x d images of
 * their own.
 *
 * With m = 2, all coefficients but those of G are 0, 1 or -1, and 4 G g G' is whole for whole filters. So 8-bit convolutions
 * can be computed exactly: from the weights 4 G g G' in 16 bits, whose outputs are four times as large. All sums may wrap
 * as long as these fit 32 bits.
 *
 * A conv of the graph is to be computed in this way if its weights are transformed: t x t positions of G g G' in place
 * of the 3 x 3 that its attribute `kernel` says (ops.def).
 */
#ifndef IG_IR_WINOGRAD_H
#define IG_IR_WINOGRAD_H

#include "ir/graph.h"

enum { IG_WINOGRAD_KERNEL = 3, IG_WINOGRAD_MOST = 4, IG_WINOGRAD_INPUTS = IG_WINOGRAD_MOST + 2 };

struct ig_winograd {
    int m, t;
    double output[IG_WINOGRAD_MOST][IG_WINOGRAD_INPUTS];   /* A', m x t */
    double input[IG_WINOGRAD_INPUTS][IG_WINOGRAD_INPUTS];  /* B', t x t */
    double filter[IG_WINOGRAD_INPUTS][IG_WINOGRAD_KERNEL]; /* G, t x 3 */
    /* 3 x t: filter * g = u gives back g = inverse * u. */
    double inverse[IG_WINOGRAD_KERNEL][IG_WINOGRAD_INPUTS];
};

/* The matrices of F(m x m, 3 x 3); m is 2 or 4. */
void ig_winograd_init(struct ig_winograd *w, int m);

/* By how much integer filters are larger, and the channels up to which four times a sum of 9 products of bytes for each fits
 * 32 bits. */
enum { IG_WINOGRAD_SCALE = 4, IG_WINOGRAD_CHANNELS = INT32_MAX / (IG_WINOGRAD_SCALE * 9 * UINT8_MAX * -INT8_MIN) };

/* m if the conv's weights are transformed for it, else 0. */
int ig_winograd_of(const struct ig_graph *graph, const struct ig_node *conv);
/* m if transformed filters of 3 x 3 have that many positions along an axis, else 0. */
int ig_winograd_of_positions(int64_t positions);
/* The tiles that `outputs` positions along an axis take. With a dilation, every so many positions form a phase, which has
 * tiles of its own; phases have equally many tiles, of which some may be empty. */
int64_t ig_winograd_tiles(int m, int64_t dilation, int64_t outputs);

#endif
