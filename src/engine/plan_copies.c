/* Which weights ranks read, and those that are put together from others; see plan.h. */
#include "engine/plan.h"

#include <stdlib.h>

uint64_t ig_plan_copies_end(const struct ig_plan *plan, uint64_t section) {
    const struct ig_weight_copy *last = plan->n_copies ? &plan->copies[plan->n_copies - 1] : NULL;
    return last ? (last->to + last->piece * last->count + 63) / 64 * 64 : section;
}

uint64_t ig_plan_fixed_bytes(const struct ig_plan *plan, const struct ig_plan_buffer *buffer) {
    if (buffer->bytes < plan->n_symbols || buffer->bytes - plan->n_symbols >= plan->n_instrs) return UINT64_MAX;
    const struct ig_shape_instr *instr = &plan->instrs[buffer->bytes - plan->n_symbols];
    return instr->op == IG_SHAPE_CONST ? (uint64_t)instr->value : UINT64_MAX;
}

uint64_t ig_plan_weight_bytes(const struct ig_plan *plan, uint32_t subplan) {
    const struct ig_subplan *sub = &plan->subplans[subplan];
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sub->n_buffers; i++) {
        const struct ig_plan_buffer *buffer = &plan->buffers[sub->buffers + i];
        const uint64_t bytes = ig_plan_fixed_bytes(plan, buffer);
        if (buffer->kind == IG_PLAN_WEIGHT && bytes != UINT64_MAX) sum += bytes;
    }
    return sum;
}

/* The first copy at a place or behind it. */
static uint32_t first_at(const struct ig_plan *plan, uint64_t place) {
    uint32_t low = 0, high = plan->n_copies;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (plan->copies[middle].to >= place)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The copies of the weight of so many bytes at a place, which follow each other without gaps. Returns where they end. */
static uint64_t end_of(const struct ig_plan *plan, uint64_t place, uint64_t bytes, bool *used) {
    uint64_t end = place;
    for (uint32_t i = first_at(plan, place); i < plan->n_copies && plan->copies[i].to == end && end - place < bytes;
         i++) {
        if (used) used[i] = true;
        end += plan->copies[i].piece * plan->copies[i].count;
    }
    return end;
}

bool ig_plan_copies_hold(const struct ig_plan *plan, uint64_t section, const struct ig_plan_buffer *weight) {
    const uint64_t place = 64 * (uint64_t)weight->index, bytes = ig_plan_fixed_bytes(plan, weight);
    const uint64_t end = place < section ? section : end_of(plan, place, bytes, NULL);
    return bytes == 0 || (place <= end && bytes <= end - place);
}

static bool is_main(const struct ig_plan *plan, uint32_t subplan, struct ig_plan_seats seats, bool *out_own) {
    for (uint32_t i = 0; i < plan->n_ranks; i++) {
        const struct ig_plan_rank *r = &plan->ranks[i];
        if (r->subplan != subplan) continue;
        *out_own = r->ranks == seats.ranks && r->rank >= seats.first && r->rank - seats.first < seats.count;
        return true;
    }
    return false;
}

void ig_plan_copies_find(const struct ig_plan *plan, struct ig_plan_seats seats, bool *out_used) {
    for (uint32_t i = 0; i < plan->n_copies; i++)
        out_used[i] = false;
    for (uint32_t s = 0; plan->n_copies && s < plan->n_subplans; s++) {
        const struct ig_subplan *sub = &plan->subplans[s];
        bool is_own;
        if (is_main(plan, s, seats, &is_own) && !is_own) continue; /* bodies are anyone's */
        for (uint32_t b = 0; b < sub->n_buffers; b++) {
            const struct ig_plan_buffer *buffer = &plan->buffers[sub->buffers + b];
            if (buffer->kind == IG_PLAN_WEIGHT)
                (void)end_of(plan, 64 * (uint64_t)buffer->index, ig_plan_fixed_bytes(plan, buffer), out_used);
        }
    }
}

static int compare(const void *a, const void *b) {
    const struct ig_plan_range *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Joins ranges that overlap or touch. Returns how many are left. */
static uint32_t join(struct ig_plan_range *ranges, uint32_t count) {
    uint32_t kept = 0;
    qsort(ranges, count, sizeof *ranges, compare);
    for (uint32_t i = 0; i < count; i++) {
        struct ig_plan_range *last = kept ? &ranges[kept - 1] : NULL;
        if (!last || ranges[i].begin > last->end)
            ranges[kept++] = ranges[i];
        else if (ranges[i].end > last->end)
            last->end = ranges[i].end;
    }
    return kept;
}

uint32_t ig_plan_reads_find(const struct ig_plan *plan, uint64_t section, struct ig_plan_seats seats,
                            struct ig_plan_range *out) {
    uint32_t count = 0;
    for (uint32_t s = 0; s < plan->n_subplans; s++) {
        const struct ig_subplan *sub = &plan->subplans[s];
        bool is_own;
        if (is_main(plan, s, seats, &is_own) && !is_own) continue; /* bodies are anyone's */
        for (uint32_t b = 0; b < sub->n_buffers; b++) {
            const struct ig_plan_buffer *buffer = &plan->buffers[sub->buffers + b];
            const uint64_t begin = 64 * (uint64_t)buffer->index, bytes = ig_plan_fixed_bytes(plan, buffer);
            if (buffer->kind != IG_PLAN_WEIGHT || begin >= section || bytes == 0) continue;
            const uint64_t most = section - begin, end = bytes < most ? begin + (bytes + 63) / 64 * 64 : section;
            if (out) out[count] = (struct ig_plan_range){begin, end < section ? end : section};
            count++;
        }
    }
    return out ? join(out, count) : count;
}
