/* Blocks of memory of one evaluation, and the strided views over them. */
#include <string.h>

#include "ir/eval/eval_op.h"

enum { HEADER = 64, ALIGNMENT = 64 };

/* The header of a block, in the 64 bytes before its elements. */
struct ig_eval_block {
    struct ig_eval_block *previous, *next;
    struct ig_eval_memory *memory; /* NULL: detached */
    size_t size;                   /* header included */
    uint32_t references;
};
_Static_assert(sizeof(struct ig_eval_block) <= HEADER, "the header fits");

static char *block_data(struct ig_eval_block *block) {
    return (char *)block + HEADER;
}

static struct ig_eval_block *block_new(struct ig_eval *ev, size_t size) {
    size_t whole;
    if (!ig_size_add(size, HEADER, &whole)) ig_raise(ev->job, INGOT_OUT_OF_MEMORY, "tensor too large");
    const struct ingot_allocator *allocator = ev->job->allocator;
    struct ig_eval_block *block = allocator->alloc(allocator->user, whole, ALIGNMENT);
    if (!block) ig_raise(ev->job, INGOT_OUT_OF_MEMORY, "out of memory (%zu bytes for a tensor)", size);
    *block = (struct ig_eval_block){NULL, ev->memory.blocks, &ev->memory, whole, 1};
    if (block->next) block->next->previous = block;
    ev->memory.blocks = block;
    return block;
}

static void block_unlink(struct ig_eval_block *block) {
    if (block->previous) {
        block->previous->next = block->next;
    } else {
        block->memory->blocks = block->next;
    }
    if (block->next) block->next->previous = block->previous;
    block->previous = block->next = NULL;
    block->memory = NULL;
}

static void block_free(const struct ingot_allocator *allocator, struct ig_eval_block *block) {
    ig_release(allocator, block, block->size);
}

static void block_drop(struct ig_eval *ev, struct ig_eval_block *block) {
    if (--block->references > 0) return;
    block_unlink(block);
    block_free(ev->job->allocator, block);
}

void ig_eval_free_all(void *memory) {
    struct ig_eval_memory *m = memory;
    while (m->blocks) {
        struct ig_eval_block *block = m->blocks;
        block_unlink(block);
        block_free(m->job->allocator, block);
    }
}

void *ig_eval_scratch(struct ig_eval *ev, int64_t count, size_t size) {
    size_t bytes;
    if (count < 0 || !ig_size_mul((size_t)count, size, &bytes))
        ig_raise(ev->job, INGOT_OUT_OF_MEMORY, "tensor too large");
    struct ig_eval_block *block = block_new(ev, bytes);
    IG_PUSH(ev->job, &ev->temporaries, block);
    return block_data(block);
}

void ig_eval_drop_temporaries(struct ig_eval *ev, uint32_t keep) {
    while (ev->temporaries.count > keep)
        block_drop(ev, ev->temporaries.at[--ev->temporaries.count]);
}

struct ig_view ig_view_new(struct ig_eval *ev, enum ingot_dtype dtype, int rank, const int64_t *dims) {
    struct ig_view view = {.dtype = dtype, .rank = rank};
    size_t bytes = ingot_dtype_size(dtype);
    IG_ASSERT(ev->job, rank >= 0 && rank <= INGOT_MAX_RANK);
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0) ig_eval_raise(ev, "axis %d has the negative size %lld", i, (long long)dims[i]);
        view.dims[i] = dims[i];
        /* If one dim is 0, the others may be of any size. */
        if (!ig_size_mul(bytes, (size_t)dims[i], &bytes)) ig_raise(ev->job, INGOT_OUT_OF_MEMORY, "tensor too large");
    }
    ig_dense_strides(rank, dims, view.strides);
    view.block = block_new(ev, bytes);
    view.data = block_data(view.block);
    return view;
}

void ig_view_retain(const struct ig_view *view) {
    if (view->block) view->block->references++;
}

void ig_view_drop(struct ig_eval *ev, struct ig_view *view) {
    if (view->block) block_drop(ev, view->block);
    *view = (struct ig_view){0};
}

int64_t ig_view_elements(const struct ig_view *view) {
    int64_t n = 1;
    for (int i = 0; i < view->rank; i++)
        n *= view->dims[i];
    return n;
}

void ig_dense_strides(int rank, const int64_t *dims, int64_t *out_strides) {
    uint64_t stride = 1; /* unsigned: strides of a tensor without elements may wrap; they are never used */
    for (int i = rank - 1; i >= 0; i--) {
        out_strides[i] = (int64_t)stride;
        stride *= (uint64_t)dims[i];
    }
}

bool ig_view_is_dense(const struct ig_view *view) {
    int64_t stride = 1;
    for (int i = view->rank - 1; i >= 0; i--) {
        if (view->dims[i] == 0) return true;
        if (view->dims[i] != 1 && view->strides[i] != stride) return false;
        stride *= view->dims[i];
    }
    return true;
}

struct ig_view ig_view_dense(struct ig_eval *ev, const struct ig_view *view) {
    if (ig_view_is_dense(view)) {
        struct ig_view same = *view;
        ig_dense_strides(same.rank, same.dims, same.strides); /* normalises the strides of axes of size 1 */
        return same;
    }
    struct ig_view copy = ig_view_new(ev, view->dtype, view->rank, view->dims);
    IG_PUSH(ev->job, &ev->temporaries, copy.block);
    ig_view_copy(view, &copy);
    return copy;
}

struct ig_view ig_view_permute(const struct ig_view *view, const int64_t *perm) {
    struct ig_view out = *view;
    for (int i = 0; i < view->rank; i++) {
        out.dims[i] = view->dims[perm[i]];
        out.strides[i] = view->strides[perm[i]];
    }
    return out;
}

struct ig_view ig_view_move_channels(const struct ig_view *view, bool to_last) {
    int64_t perm[INGOT_MAX_RANK] = {0};
    for (int i = 1; i < view->rank; i++)
        perm[i] = to_last ? i + 1 : i - 1;
    perm[to_last ? view->rank - 1 : 1] = to_last ? 1 : view->rank - 1;
    return ig_view_permute(view, perm);
}

struct ig_view ig_view_broadcast(struct ig_eval *ev, const struct ig_view *view, int rank, const int64_t *dims) {
    struct ig_view out = *view;
    if (rank < view->rank) ig_eval_raise(ev, "rank %d does not broadcast to rank %d", view->rank, rank);
    out.rank = rank;
    for (int i = 0; i < rank; i++) {
        int from = i - (rank - view->rank);
        int64_t dim = from < 0 ? 1 : view->dims[from];
        if (dim != dims[i] && dim != 1) {
            ig_eval_raise(ev, "size %lld does not broadcast to %lld along axis %d", (long long)dim, (long long)dims[i],
                          i);
        }
        out.dims[i] = dims[i];
        out.strides[i] = dim == 1 ? 0 : view->strides[from];
    }
    return out;
}

char *ig_view_at(const struct ig_view *view, const int64_t *index) {
    int64_t offset = 0;
    for (int i = 0; i < view->rank; i++)
        offset += index[i] * view->strides[i];
    return view->data + offset * (int64_t)ingot_dtype_size(view->dtype);
}

void ig_eval_make_own(struct ig_eval *ev, struct ig_view *view) {
    struct ig_eval_block *block = view->block;
    if (block && block->references == 1 && view->data == block_data(block) && ig_view_is_dense(view)) return;
    struct ig_view copy = ig_view_new(ev, view->dtype, view->rank, view->dims);
    ig_view_copy(view, &copy);
    ig_view_drop(ev, view);
    *view = copy;
}

void *ig_eval_detach(struct ig_view *view) {
    void *data = block_data(view->block);
    block_unlink(view->block);
    *view = (struct ig_view){0};
    return data;
}

void ig_eval_free_detached(const struct ingot_allocator *allocator, void *data) {
    if (data) block_free(allocator, (struct ig_eval_block *)((char *)data - HEADER));
}
