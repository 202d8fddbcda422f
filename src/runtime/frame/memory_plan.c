/*
 * Dynamic storage allocation with known lifetimes: NP-hard, and solved well by greedy placement in a good order (Y.
 * Pisarchyk, J. Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020). Every order below is tried,
 * with best fit and with lowest fit, and the smallest result is kept. Placing n buffers takes O(n^2) steps; where that
 * would take seconds, only the first order is tried.
 */
#include "runtime/frame/memory_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define MANY 8192

struct block {
    size_t size; /* rounded up to the alignment */
    uint32_t first, last, index;
    size_t pressure; /* the most live bytes at any step of its lifetime */
    size_t offset;
};

struct planner {
    struct block *blocks;  /* in placement order */
    struct block **placed; /* by offset */
    uint32_t count, n_placed;
};

static size_t span(const struct block *b) {
    return (size_t)b->last - b->first + 1;
}

/* The buffer's number breaks ties, so that the result does not depend on the sort. */
#define ORDER(x, y) \
    if ((x) != (y)) return (x) < (y) ? -1 : 1

static int by_size(const void *pa, const void *pb) {
    const struct block *a = pa, *b = pb;
    ORDER(b->size, a->size);
    ORDER(span(b), span(a));
    ORDER(a->index, b->index);
    return 0;
}

static int by_span(const void *pa, const void *pb) {
    const struct block *a = pa, *b = pb;
    ORDER(span(b), span(a));
    ORDER(b->size, a->size);
    ORDER(a->index, b->index);
    return 0;
}

static int by_start(const void *pa, const void *pb) {
    const struct block *a = pa, *b = pb;
    ORDER(a->first, b->first);
    ORDER(b->last, a->last);
    ORDER(b->size, a->size);
    ORDER(a->index, b->index);
    return 0;
}

static int by_area(const void *pa, const void *pb) {
    const struct block *a = pa, *b = pb;
    double area_a = (double)a->size * (double)span(a), area_b = (double)b->size * (double)span(b);
    ORDER(area_b, area_a);
    ORDER(a->index, b->index);
    return 0;
}

/* Buffers that are live at the tightest steps first. */
static int by_pressure(const void *pa, const void *pb) {
    const struct block *a = pa, *b = pb;
    ORDER(b->pressure, a->pressure);
    return by_size(pa, pb);
}

static bool overlap_in_time(const struct block *a, const struct block *b) {
    return a->first <= b->last && b->first <= a->last;
}

/* The offset of a gap between the placed blocks that live at the same time: best fit, or lowest fit. */
static size_t find_gap(const struct planner *planner, const struct block *block, bool best_fit) {
    size_t end = 0, best = SIZE_MAX, best_size = SIZE_MAX;
    for (uint32_t i = 0; i < planner->n_placed; i++) {
        const struct block *other = planner->placed[i];
        if (!overlap_in_time(block, other)) continue;
        if (other->offset > end) {
            size_t gap = other->offset - end;
            if (gap >= block->size && gap < best_size) {
                best = end;
                best_size = gap;
                if (!best_fit) break;
            }
        }
        if (other->offset + other->size > end) end = other->offset + other->size;
    }
    return best != SIZE_MAX ? best : end;
}

/* Places all blocks in order; returns the bytes needed. Sums cannot overflow: make_blocks has checked the total. */
static size_t place_all(struct planner *planner, bool best_fit) {
    size_t total = 0;
    planner->n_placed = 0;
    for (uint32_t i = 0; i < planner->count; i++) {
        struct block *block = &planner->blocks[i];
        block->offset = find_gap(planner, block, best_fit);
        if (block->size == 0) continue; /* takes no space */
        if (block->offset + block->size > total) total = block->offset + block->size;
        uint32_t at = planner->n_placed++;
        for (; at > 0 && planner->placed[at - 1]->offset > block->offset; at--)
            planner->placed[at] = planner->placed[at - 1];
        planner->placed[at] = block;
    }
    return total;
}

static size_t try_orders(struct planner *planner, size_t enough, size_t *out_offsets) {
    static int (*const orders[])(const void *, const void *) = {by_size, by_pressure, by_area, by_span, by_start};
    size_t best = SIZE_MAX, tries = planner->count > MANY ? 1 : 2 * (sizeof orders / sizeof *orders);
    for (size_t i = 0; i < tries && best > enough; i++) {
        qsort(planner->blocks, planner->count, sizeof *planner->blocks, orders[i / 2]);
        size_t total = place_all(planner, i % 2 == 0);
        if (total >= best) continue;
        best = total;
        for (uint32_t b = 0; b < planner->count; b++)
            out_offsets[planner->blocks[b].index] = planner->blocks[b].offset;
    }
    return best;
}

/* ---- The lower bound --------------------------------------------------------------------------------------------- */

/* Prefix sums of differences give the live bytes at each of the steps 0 … n_steps-1; returns the largest. Without
 * `blocks`, it counts each lifetime's floor. */
static size_t live_sums(const struct ig_lifetime *lifetimes, const struct block *blocks, uint32_t count,
                        uint32_t n_steps, size_t *sums) {
    memset(sums, 0, ((size_t)n_steps + 1) * sizeof *sums);
    for (uint32_t i = 0; i < count; i++) {
        size_t size = blocks ? blocks[i].size : lifetimes[i].floor;
        sums[lifetimes[i].first] += size;
        sums[lifetimes[i].last + 1] -= size; /* unsigned wrap-around, which the running sum undoes */
    }
    size_t largest = 0;
    for (uint32_t step = 0; step < n_steps; step++) {
        if (step) sums[step] += sums[step - 1];
        if (sums[step] > largest) largest = sums[step];
    }
    return largest;
}

static void measure_pressure(struct block *blocks, uint32_t count, const size_t *sums) {
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t step = blocks[i].first; step <= blocks[i].last; step++) {
            if (sums[step] > blocks[i].pressure) blocks[i].pressure = sums[step];
        }
    }
}

/* ---- Planning ---------------------------------------------------------------------------------------------------- */

static enum ingot_status make_blocks(const struct ig_lifetime *lifetimes, uint32_t count, struct block *blocks,
                                     uint32_t *out_steps, struct ingot_error *error) {
    size_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        size_t size;
        if (!ig_size_add(lifetimes[i].size, IG_ARENA_ALIGNMENT - 1, &size) ||
            !ig_size_add(total, size / IG_ARENA_ALIGNMENT * IG_ARENA_ALIGNMENT, &total) || total > SIZE_MAX / 2)
            return IG_ERR(error, INGOT_OUT_OF_MEMORY, "the activations of these shapes exceed the address space");
        blocks[i] = (struct block){.size = size / IG_ARENA_ALIGNMENT * IG_ARENA_ALIGNMENT,
                                   .first = lifetimes[i].first,
                                   .last = lifetimes[i].last,
                                   .index = i};
        if (lifetimes[i].last >= *out_steps) *out_steps = lifetimes[i].last + 1;
    }
    return INGOT_OK;
}

/* `memory` holds the blocks, then `placed`, then the sums. */
static enum ingot_status plan_in(void *memory, uint32_t n_steps, const struct ig_lifetime *lifetimes, uint32_t count,
                                 size_t *out_offsets, size_t *out_total, size_t *out_lower_bound,
                                 struct ingot_error *error) {
    struct planner planner = {.blocks = memory, .count = count};
    planner.placed = (struct block **)(planner.blocks + count);
    size_t *sums = (size_t *)(planner.placed + count);
    uint32_t used = 0;
    IG_TRY(make_blocks(lifetimes, count, planner.blocks, &used, error));
    size_t bound = live_sums(lifetimes, NULL, count, n_steps, sums);
    size_t enough = live_sums(lifetimes, planner.blocks, count, n_steps, sums);
    measure_pressure(planner.blocks, count, sums);
    *out_total = try_orders(&planner, enough, out_offsets);
    *out_lower_bound = bound;
    return INGOT_OK;
}

enum ingot_status ig_memory_plan(const struct ig_lifetime *lifetimes, uint32_t count,
                                 const struct ingot_allocator *allocator, size_t *out_offsets, size_t *out_total,
                                 size_t *out_lower_bound, struct ingot_error *error) {
    *out_total = *out_lower_bound = 0;
    if (count == 0) return INGOT_OK;
    uint32_t n_steps = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (lifetimes[i].last >= n_steps) n_steps = lifetimes[i].last + 1;
    }
    size_t bytes = count * (sizeof(struct block) + sizeof(struct block *)) + ((size_t)n_steps + 1) * sizeof(size_t);
    void *memory = ig_allocate(allocator, bytes, _Alignof(struct block));
    if (!memory) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for planning %u buffers", count);
    enum ingot_status status =
        plan_in(memory, n_steps, lifetimes, count, out_offsets, out_total, out_lower_bound, error);
    ig_release(allocator, memory, bytes);
    return status;
}
