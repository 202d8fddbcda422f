/*
 * Tensor maps: how a GPU's copy engine (sm_90 and up) finds the tiles of a matrix that a kernel asks it for. A kernel says
 * of each map what is in it, in numbers of its operands and dims; the device encodes it when addresses and sizes are known
 * and passes it behind the kernel's other parameters.
 *
 * The matrix has `lines` lines of `width` elements, each `pitch` elements after the last, and begins where its buffer does.
 * What is brought at once is a box of it, at most 128 bytes wide; what lies beyond the matrix comes as zeros. In shared
 * memory the 16-byte chunks of a box's lines are permuted, in the pattern that is as wide as the box (128, 64 or 32 bytes).
 */
#ifndef IG_BASE_TENSOR_MAP_H
#define IG_BASE_TENSOR_MAP_H

#include "base/error.h"

#define IG_MOST_TENSOR_MAPS 2u

/* Part of a record of the engine file. */
struct ig_tensor_map {
    uint32_t buffer;              /* number of an operand */
    uint32_t width, lines, pitch; /* numbers of dims */
    uint32_t box_width, box_lines;
    uint32_t element; /* bytes: 2 or 4 */
};

/* NULL where the description makes sense for a kernel with so many operands and dims, else what is wrong with it. */
const char *ig_tensor_map_error(const struct ig_tensor_map *map, uint32_t n_operands, uint32_t n_dims);
/* The same for numbers: whether copy engines can count so far, and all of the matrix is inside its operand, which has so
 * many bytes. */
const char *ig_tensor_map_sizes_error(const struct ig_tensor_map *map, const int64_t *dims, size_t bytes);

#endif
