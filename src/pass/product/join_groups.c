/*
 * Grouped convolutions of few channels on the tensor cores of GPUs: several groups become one, whose weights are zero
 * between channels of different ones (a block-diagonal matrix).
 *
 * Tensor cores multiply blocks: a tile has 32 columns or more and steps of 128 bytes along the depth, and copies of the
 * image are fastest in pieces of 16 bytes. In f16 a group of four channels fills an eighth of the columns and half of a
 * step; 16 of them together fill all, and take a fifth of the time that they take one by one on an H200, though most of the
 * products are by zero. What lies beyond the edges of an image of bytes is multiplied by zeros, too. Image data
 * that are infinite or NaN make NaN of all results of the joined groups at that place.
 */
#include "pass/product/join_groups.h"

#include "pass/view/view.h"

enum { LINES = 64, COLUMNS = 32, STEP = 128, LOAD = 16 /* bytes */, BLOCK = 400 };

static int64_t rounded_up(int64_t n, int64_t to) {
    return (n + to - 1) / to * to;
}

/* What all groups take, in copies of 16 bytes for LINES output positions, if `together` of them are one. BLOCK is what a
 * block takes besides its steps: fitted to times of an H200. */
static int64_t cost(const int64_t *dims, int rank, int64_t element, int64_t groups, int64_t together) {
    int64_t taps = 1, bytes = dims[1] * together * element, columns = rounded_up(dims[0] / groups * together, COLUMNS);
    int64_t apart = 1; /* copies instead of one of 16 bytes */
    for (int i = 2; i < rank; i++)
        taps *= dims[i];
    while (apart < LOAD && bytes * apart % LOAD != 0)
        apart *= 2;
    int64_t steps = rounded_up(taps * bytes, STEP) / STEP;
    return groups / together * (steps * (LINES * apart + columns) + BLOCK);
}

static int64_t best_number(const int64_t *dims, int rank, int64_t element, int64_t groups) {
    int64_t best = 1;
    for (int64_t n = 2; n <= groups; n++) {
        if (groups % n == 0 && cost(dims, rank, element, groups, n) < cost(dims, rank, element, groups, best)) best = n;
    }
    return best;
}

/* The same where the copy engine brings patches of the image (kernel/cuda/contract/contract_choose.c), whose channels are whole slices,
 * in cycles for 64 positions; 0: the weights do not fit beside them. TILE is what a tile of one group takes besides its products. */
static int64_t cost_of_patches(const int64_t *dims, int rank, int64_t element, int64_t groups, int64_t together) {
    enum { SLICE = 32, MOST_WEIGHTS = 150 << 10, TILE = 150 };
    int64_t depth = dims[1] * together * element, bn = rounded_up(dims[0] / groups * together, COLUMNS);
    if (depth % SLICE != 0) return 0;
    for (int i = 2; i < rank; i++)
        depth *= dims[i];
    if (depth * bn > MOST_WEIGHTS) return 0;
    int64_t product = bn / 2 > 16 + bn / 4 ? bn / 2 : 16 + bn / 4;
    return groups / together * (depth / SLICE * product + TILE);
}

/* 0: none suits patches. */
static int64_t best_for_patches(const int64_t *dims, int rank, int64_t element, int64_t groups) {
    int64_t best = 0, least = INT64_MAX;
    for (int64_t n = 1; n <= groups && rank <= 4; n++) {
        int64_t own = groups % n == 0 ? cost_of_patches(dims, rank, element, groups, n) : 0;
        if (own == 0 || own >= least) continue;
        best = n;
        least = own;
    }
    return best;
}

/* In a row that is longer by one than n of them, each number moves by one place from row to row: so zeros are appended, and
 * the rows divided anew. */
ig_value ig_spread_diagonal(struct ig_graph *g, ig_value v, int64_t rows, int64_t n, int64_t each) {
    ig_dim zero = ig_dim_const(g->dims, 0);
    v = ig_build_pad_end(g, v, 2, n * each);
    v = ig_view_reshape_to(g, v, (int64_t[]){rows, n * (n + 1) * each}, 2);
    v = ig_build_slice_axis(g, v, 1, zero, ig_dim_const(g->dims, n * n * each), 1);
    return ig_view_reshape_to(g, v, (int64_t[]){rows, n, n, each}, 4);
}

ig_value ig_join_groups(struct ig_graph *g, ig_value w, int64_t *groups, bool patches) {
    int64_t dims[INGOT_MAX_RANK], sizes[INGOT_MAX_RANK];
    int rank = ig_type_of(g, w)->rank;
    int64_t element =
        ingot_dtype_size(ig_type_of(g, w)->dtype) == 1 ? 1 : 2; /* of f32, too, for which nothing is fitted */
    if (!ig_type_is_static(g->dims, ig_type_of(g, w), dims)) return w;
    int64_t n = patches ? best_for_patches(dims, rank, (int64_t)ingot_dtype_size(ig_type_of(g, w)->dtype), *groups) : 0;
    if (n == 0) n = best_number(dims, rank, element, *groups);
    int64_t columns = dims[0] / *groups, each = 1;
    if (n == 1) return w;
    *groups /= n;
    for (int i = 1; i < rank; i++)
        each *= dims[i];
    w = ig_spread_diagonal(g, ig_view_reshape_to(g, w, (int64_t[]){*groups, n, columns * each}, 3), *groups, n,
                           columns * each);
    w = ig_view_reshape_to(g, w, (int64_t[]){*groups, n, n, columns, each}, 5);
    w = ig_view_transpose(g, w, (int64_t[]){0, 1, 3, 2, 4});
    sizes[0] = dims[0];
    sizes[1] = n * dims[1];
    for (int i = 2; i < rank; i++)
        sizes[i] = dims[i];
    return ig_view_reshape_to(g, w, sizes, rank);
}
