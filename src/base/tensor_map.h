/*
 * Tensor maps: they tell a GPU's copy engine (TMA, sm_90 and up) where the tiles of a matrix lie. A kernel describes
 * each of its maps by the numbers of operands and dims; the device encodes them when addresses and sizes are known, and
 * passes them after the kernel's other parameters.
 *
 * The matrix starts at the beginning of its buffer and has `lines` lines of `width` elements, `pitch` elements apart.
 * One copy fetches a box of it, at most 128 bytes wide; elements beyond the matrix are zero. In shared memory, the
 * 16-byte chunks of a box's lines are swizzled, with the pattern as wide as the box (128, 64 or 32 bytes).
 *
 * With `matrices`, there are more of them in the buffer, along two axes: counts[i] of them, which begin apart[i] elements after each other,
 * the first of all at element `begin`. A box is of one of them.
 *
 * If `dealt`, every 32 lines come in another order, and `lines` is a multiple of 32: line 8a + 2b + c of them at place 8b +
 * 2a + c, for a and b below 4 and c below 2. So where four threads in turn get two results of each eight, they get eight
 * neighbours each.
 *
 * With `axes`, it describes the windows of a convolution over `lines` images, channels-last, of `width` channels: pixels
 * are `pitch` elements apart. A box is one tap of `box_lines` windows in the order of the outputs, which begin at every
 * steps-th pixel from `lower` to the last pixel + `upper`, along each axis; pixels outside the image are zero.
 *
 * With `patch`, a box is a patch of such an image instead, of `patch` columns and rows, every steps-th pixel; `box_lines` is
 * their product. There are two axes then, and `lower` and `upper` are zero. Pixels of 16 bytes that follow each other in memory come
 * without a pattern, steps[0] being 1.
 */
#ifndef IG_BASE_TENSOR_MAP_H
#define IG_BASE_TENSOR_MAP_H

#include "base/error.h"

#define IG_MOST_TENSOR_MAPS 2u
enum { IG_DEALT_LINES = 32 };

enum { IG_PATCH_PIXEL = 16 }; /* bytes of a pixel without a pattern */

/* Part of a record of the engine file. */
struct ig_tensor_map {
    uint32_t buffer;              /* operand number */
    uint32_t width, lines, pitch; /* dim numbers */
    uint32_t box_width, box_lines;
    uint32_t element;  /* bytes per element: 1, 2 or 4 */
    uint32_t dealt;    /* 1: a matrix whose lines are dealt out */
    uint32_t matrices; /* 1: several matrices; the following are dim numbers */
    uint32_t begin, counts[2], apart[2];
    uint32_t axes; /* 0: a matrix; 2 or 3: windows. The following are those of columns, rows, planes. */
    uint32_t sizes[3];
    int32_t lower[3], upper[3];
    uint32_t steps[3];
    uint32_t patch[2]; /* columns and rows; 0: windows, or a matrix */
};

/* The first pixels of windows along one axis lie between -limit and limit - 1 of the image's ends. */
static inline int32_t ig_tensor_map_limit(uint32_t axes) {
    return axes == 2 ? 128 : 16;
}
enum { IG_MOST_WINDOW_STEP = 8 };

/* Does it bring patches of pixels without a pattern, line by line? */
static inline bool ig_tensor_map_brings_lines(const struct ig_tensor_map *map) {
    return map->patch[0] > 0 && map->box_width * map->element == IG_PATCH_PIXEL;
}

/* NULL if the description is valid for a kernel with that many operands and dims, else what is wrong with it. */
const char *ig_tensor_map_error(const struct ig_tensor_map *map, uint32_t n_operands, uint32_t n_dims);
/* The same for actual sizes: they must be within the copy engine's limits, and the matrix within its operand of `bytes`
 * bytes. */
const char *ig_tensor_map_sizes_error(const struct ig_tensor_map *map, const int64_t *dims, size_t bytes);

#endif
