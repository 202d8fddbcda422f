/* Convolutions of images of one position: matrix products. */
#ifndef IG_PASS_SINGLE_POSITION_H
#define IG_PASS_SINGLE_POSITION_H

#include "pass/pass.h"

/*
 * A convolution of floats by constant weights with stride 1 whose input has one position, all around which is padding: the first layer of generators that begin
 * with a vector, a transposed convolution, or 3x3 filters at the end of a network. Output o reads weight `before - o` alone, so that all
 * of them are one product with the matrix of these weights, a recipe. IG_NO_VALUE: it is none, or a product of the same size anyhow.
 */
ig_value ig_multiply_position(struct ig_rewriter *rw, const struct ig_node *node, const ig_value *in);

#endif
