/*
 * Copies between strided views. Constants of hundreds of megabytes are transposed and packed here when an engine is
 * written, so the access order is cache-friendly: long runs use memcpy, and if the two sides are contiguous along
 * different axes, square tiles are copied.
 */
#include <string.h>

#include "ir/eval/eval_op.h"

/* Sorts the axes of all views by decreasing stride of view 0, so that its memory is walked sequentially. */
static void sort_axes(struct ig_nest *nest) {
    for (int i = 1; i < nest->rank; i++) {
        for (int j = i; j > 0; j--) {
            int64_t before = nest->strides[0][j - 1], here = nest->strides[0][j];
            if ((before < 0 ? -before : before) >= (here < 0 ? -here : here)) break;
            int64_t dim = nest->dims[j];
            nest->dims[j] = nest->dims[j - 1];
            nest->dims[j - 1] = dim;
            for (int v = 0; v < nest->n; v++) {
                int64_t stride = nest->strides[v][j];
                nest->strides[v][j] = nest->strides[v][j - 1];
                nest->strides[v][j - 1] = stride;
            }
        }
    }
}

/* Merges adjacent axes that are contiguous with each other in every view. */
static void merge_axes(struct ig_nest *nest) {
    int rank = 0;
    for (int i = 0; i < nest->rank; i++) {
        bool merge = rank > 0;
        for (int v = 0; merge && v < nest->n; v++) {
            merge = nest->strides[v][rank - 1] == nest->strides[v][i] * nest->dims[i];
        }
        if (merge) rank--;
        nest->dims[rank] = merge ? nest->dims[rank] * nest->dims[i] : nest->dims[i];
        for (int v = 0; v < nest->n; v++)
            nest->strides[v][rank] = nest->strides[v][i];
        rank++;
    }
    nest->rank = rank;
}

bool ig_nest_begin(struct ig_nest *nest, const struct ig_view *const *views, int n) {
    memset(nest, 0, sizeof *nest);
    nest->n = n;
    for (int v = 0; v < n; v++)
        nest->data[v] = views[v]->data;
    for (int i = 0; i < views[0]->rank; i++) {
        int64_t dim = views[0]->dims[i];
        if (dim == 0) return false;
        if (dim == 1) continue;
        nest->dims[nest->rank] = dim;
        for (int v = 0; v < n; v++) {
            nest->strides[v][nest->rank] = views[v]->strides[i] * (int64_t)ingot_dtype_size(views[v]->dtype);
        }
        nest->rank++;
    }
    sort_axes(nest);
    merge_axes(nest);
    if (nest->rank == 0) { /* one element */
        nest->rank = 1;
        nest->dims[0] = 1;
    }
    return true;
}

bool ig_nest_next(struct ig_nest *nest) {
    for (int i = nest->rank - 2; i >= 0; i--) {
        nest->index[i]++;
        for (int v = 0; v < nest->n; v++)
            nest->data[v] += nest->strides[v][i];
        if (nest->index[i] < nest->dims[i]) return true;
        for (int v = 0; v < nest->n; v++)
            nest->data[v] -= nest->strides[v][i] * nest->dims[i];
        nest->index[i] = 0;
    }
    return false;
}

/* rows x columns elements; either side may have any strides (in bytes) and any alignment. */
static void copy_block(char *to, int64_t to_row, int64_t to_column, const char *from, int64_t from_row,
                       int64_t from_column, int64_t rows, int64_t columns, size_t size) {
#define COPY_BLOCK(type)                                                             \
    for (int64_t r = 0; r < rows; r++) {                                             \
        for (int64_t c = 0; c < columns; c++) {                                      \
            type element;                                                            \
            memcpy(&element, from + r * from_row + c * from_column, sizeof element); \
            memcpy(to + r * to_row + c * to_column, &element, sizeof element);       \
        }                                                                            \
    }
    switch (size) {
    case 1: COPY_BLOCK(uint8_t) break;
    case 2: COPY_BLOCK(uint16_t) break;
    case 4: COPY_BLOCK(uint32_t) break;
    default: COPY_BLOCK(uint64_t) break;
    }
#undef COPY_BLOCK
}

/* The axis with view 1's smallest stride, if smaller than that of the last axis; -1: none. */
static int contiguous_axis(const struct ig_nest *nest) {
    int last = nest->rank - 1, best = -1;
    int64_t smallest = nest->strides[1][last] < 0 ? -nest->strides[1][last] : nest->strides[1][last];
    for (int i = 0; i < last; i++) {
        int64_t stride = nest->strides[1][i] < 0 ? -nest->strides[1][i] : nest->strides[1][i];
        if (stride > 0 && stride < smallest) {
            smallest = stride;
            best = i;
        }
    }
    return best;
}

/* Moves `axis` to the second-last position, so that the last two axes form a matrix. */
static void move_axis(struct ig_nest *nest, int axis) {
    int to = nest->rank - 2;
    for (int i = axis; i < to; i++) {
        int64_t dim = nest->dims[i];
        nest->dims[i] = nest->dims[i + 1];
        nest->dims[i + 1] = dim;
        for (int v = 0; v < nest->n; v++) {
            int64_t stride = nest->strides[v][i];
            nest->strides[v][i] = nest->strides[v][i + 1];
            nest->strides[v][i + 1] = stride;
        }
    }
}

static void copy_tiles(struct ig_nest *nest, int axis, size_t size) {
    enum { TILE = 32 };
    move_axis(nest, axis);
    int r = nest->rank - 2, c = nest->rank - 1;
    int64_t rows = nest->dims[r], columns = nest->dims[c];
    nest->dims[r] = 1; /* ig_nest_next walks the other axes */
    do {
        for (int64_t i = 0; i < rows; i += TILE) {
            for (int64_t j = 0; j < columns; j += TILE) {
                copy_block(nest->data[0] + i * nest->strides[0][r] + j * nest->strides[0][c], nest->strides[0][r],
                           nest->strides[0][c], nest->data[1] + i * nest->strides[1][r] + j * nest->strides[1][c],
                           nest->strides[1][r], nest->strides[1][c], rows - i < TILE ? rows - i : TILE,
                           columns - j < TILE ? columns - j : TILE, size);
            }
        }
    } while (ig_nest_next(nest));
}

void ig_view_copy(const struct ig_view *from, const struct ig_view *to) {
    struct ig_nest nest;
    const struct ig_view *views[] = {to, from};
    if (!ig_nest_begin(&nest, views, 2)) return;
    size_t size = ingot_dtype_size(to->dtype);
    int last = nest.rank - 1;
    int64_t run = nest.dims[last];
    bool contiguous = nest.strides[0][last] == (int64_t)size && nest.strides[1][last] == (int64_t)size;
    int axis = contiguous ? -1 : contiguous_axis(&nest);
    if (axis >= 0) {
        copy_tiles(&nest, axis, size);
        return;
    }
    do {
        if (contiguous && run * (int64_t)size >= 32) {
            memcpy(nest.data[0], nest.data[1], (size_t)run * size);
        } else {
            copy_block(nest.data[0], 0, nest.strides[0][last], nest.data[1], 0, nest.strides[1][last], 1, run, size);
        }
    } while (ig_nest_next(&nest));
}

void ig_view_fill(const struct ig_view *to, const void *element) {
    struct ig_view from = *to;
    uint64_t copy = 0; /* aligned */
    memcpy(&copy, element, ingot_dtype_size(to->dtype));
    from.data = (char *)&copy;
    memset(from.strides, 0, sizeof from.strides);
    ig_view_copy(&from, to);
}

bool ig_advance(int rank, const int64_t *dims, int64_t *index) {
    for (int i = rank - 1; i >= 0; i--) {
        if (++index[i] < dims[i]) return true;
        index[i] = 0;
    }
    return false;
}
