/*
 * Each collective on known data; see dist.h. Values are small integers that depend on the rank and the place, so that
 * sums are exact and a piece in a wrong place is seen. Parts differ, and in the large case everything takes several steps.
 */
#include <stdio.h>
#include <string.h>

#include "dist/group.h"

enum { SMALL = 3, LARGE = 30000 }; /* elements of the innermost dim */

struct trial {
    struct ig_group *group;
    ig_group_caller call;
    struct ig_collective_sizes sizes;
    float *source, *destination; /* as large as any of them needs */
};

static float value(uint32_t rank, size_t at) {
    return (float)((rank * 7 + at * 3 + at / 61) % 64);
}

static float sum(uint32_t ranks, size_t at) {
    float all = 0;
    for (uint32_t r = 0; r < ranks; r++)
        all += value(r, at);
    return all;
}

/* ---- What must be at place i of the destination ------------------------------------------------------------------ */

static float expected_gathered(const struct trial *t, size_t i) {
    const struct ig_collective_sizes *s = &t->sizes;
    const size_t whole = ig_sizes_whole(s, t->group->ranks), n = i % s->inner, x = i / s->inner % whole;
    const size_t o = i / s->inner / whole;
    uint32_t r = 0;
    while (ig_sizes_before(s, r + 1) <= x)
        r++;
    return value(r, (o * s->parts[r] + x - ig_sizes_before(s, r)) * s->inner + n);
}

static float expected_scattered(const struct trial *t, size_t i) {
    const struct ig_collective_sizes *s = &t->sizes;
    const size_t part = s->parts[t->group->rank], n = i % s->inner, x = i / s->inner % part, o = i / s->inner / part;
    const size_t whole = ig_sizes_whole(s, t->group->ranks), before = ig_sizes_before(s, t->group->rank);
    return sum(t->group->ranks, (o * whole + before + x) * s->inner + n);
}

static float expected(const struct trial *t, const struct ig_collective *what, size_t i) {
    const size_t block = ig_sizes_block(&t->sizes);
    switch ((enum ig_collective_kind)what->kind) {
    case IG_ALL_REDUCE: return sum(t->group->ranks, i);
    case IG_ALL_GATHER: return expected_gathered(t, i);
    case IG_REDUCE_SCATTER: return expected_scattered(t, i);
    case IG_ALL_TO_ALL: return value((uint32_t)(i / block), t->group->rank * block + i % block);
    case IG_BROADCAST:
    case IG_RECEIVE: return value(what->peer, i);
    case IG_SEND:
    case IG_COLLECTIVE_COUNT: break;
    }
    return 0;
}

/* ---- Trials ------------------------------------------------------------------------------------------------------ */

static enum ingot_status try(struct trial *t, uint32_t kind, uint32_t peer, struct ingot_error *error) {
    const struct ig_collective what = {kind, INGOT_F32, 0, peer};
    struct ig_collective_sizes sizes = t->sizes;
    size_t source, destination;
    if (!ig_collective_divides(kind)) memset(sizes.parts, 0, sizeof sizes.parts);
    ig_collective_bytes(&what, &sizes, t->group->rank, t->group->ranks, &source, &destination);
    for (size_t i = 0; i < source / sizeof(float); i++)
        t->source[i] = value(t->group->rank, i);
    memset(t->destination, 0xff, destination);
    const struct ig_collective_call call = {what, &sizes, t->source, t->destination, "self-test", NULL};
    IG_TRY(t->call(t->group, &call, error));
    for (size_t i = 0; i < destination / sizeof(float); i++) {
        if (t->destination[i] == expected(t, &what, i)) continue;
        char text[INGOT_ERROR_MESSAGE_SIZE];
        snprintf(text, sizeof text, "%s over %s gave rank %u of %u the wrong result: element %zu of %zu is %g, not %g",
                 ig_collective_name(kind), t->group->transport, t->group->rank, t->group->ranks, i,
                 destination / sizeof(float), (double)t->destination[i], (double)expected(t, &what, i));
        ig_group_fail(t->group, INGOT_DEVICE, text);
        return IG_ERR(error, INGOT_DEVICE, "%s", text);
    }
    return INGOT_OK;
}

/* From rank to rank, and from the last to the first. */
static enum ingot_status try_pairs(struct trial *t, struct ingot_error *error) {
    const uint32_t rank = t->group->rank, ranks = t->group->ranks;
    const uint32_t next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    if (ranks == 1) return INGOT_OK;
    if (rank == 0) IG_TRY(try(t, IG_SEND, next, error));
    IG_TRY(try(t, IG_RECEIVE, previous, error));
    return rank == 0 ? INGOT_OK : try(t, IG_SEND, next, error);
}

static enum ingot_status try_all(struct trial *t, struct ingot_error *error) {
    static const size_t inner[] = {SMALL, LARGE};
    for (int i = 0; i < 2; i++) {
        t->sizes.inner = inner[i];
        for (uint32_t kind = IG_ALL_REDUCE; kind <= IG_BROADCAST; kind++)
            IG_TRY(try(t, kind, kind == IG_BROADCAST ? t->group->ranks - 1 : 0, error));
        IG_TRY(try_pairs(t, error));
    }
    return INGOT_OK;
}

enum ingot_status ig_group_test(struct ig_group *group, struct ingot_error *error) {
    return ig_group_test_by(group, ig_group_call, error);
}

enum ingot_status ig_group_test_by(struct ig_group *group, ig_group_caller call, struct ingot_error *error) {
    struct trial t = {.group = group, .call = call, .sizes = {.outer = 2}};
    for (uint32_t r = 0; r < group->ranks; r++)
        t.sizes.parts[r] = r % 3;
    t.sizes.parts[0] = 1;
    size_t whole = ig_sizes_whole(&t.sizes, group->ranks), most = whole > group->ranks ? whole : group->ranks;
    size_t bytes = t.sizes.outer * most * LARGE * sizeof(float);
    t.source = ig_allocate(group->allocator, bytes, 64);
    t.destination = ig_allocate(group->allocator, bytes, 64);
    enum ingot_status status = t.source && t.destination
                                   ? try_all(&t, error)
                                   : IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory to test what ranks exchange");
    ig_release(group->allocator, t.source, bytes);
    ig_release(group->allocator, t.destination, bytes);
    return status;
}
