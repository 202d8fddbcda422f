/*
 * Collectives out of phases; see phases.h.
 *
 * A small all-reduce is one phase: everybody gets everybody's whole contribution. A large one is two: a rank reduces its
 * piece of each step's elements, and gives it to all. Everything else is one phase per step.
 */
#include "dist/phases.h"

#include <string.h>

#include "dist/reduce.h"
#include "dist/rows.h"

/* Up to so many bytes, everybody reduces everything: of two ranks, and of more. */
#define ONE_PHASE_OF_TWO ((size_t)128 << 10)
#define ONE_PHASE ((size_t)32 << 10)

struct call {
    struct ig_group *group;
    const struct ig_phases_api *api;
    const struct ig_collective_call *call;
    uint64_t signature;
    size_t element; /* bytes */
};

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static char *next(const struct call *c) {
    return c->api->next(c->group);
}

static enum ingot_status meet(const struct call *c, size_t stride, size_t size, struct ingot_error *error) {
    return c->api->meet(c->group, &(struct ig_phase){c->call, c->signature, stride, size}, error);
}

static const char *from_rank(const struct call *c, uint32_t rank, size_t at) {
    return c->api->from(c->group, rank, at);
}

/* ---- All-reduce -------------------------------------------------------------------------------------------------- */

/* Everybody's contribution to the current phase, `at` bytes into it. This rank's own is `own`. */
static void contributions(const struct call *c, size_t at, const void *own, const void **out_from) {
    for (uint32_t r = 0; r < c->group->ranks; r++)
        out_from[r] = r == c->group->rank ? own : from_rank(c, r, at);
}

static enum ingot_status reduce_in_one(const struct call *c, size_t at, size_t count, struct ingot_error *error) {
    const struct ig_collective *what = &c->call->what;
    const char *source = (const char *)c->call->source + at * c->element;
    const void *from[IG_MOST_RANKS];
    if (count) memcpy(next(c), source, count * c->element);
    IG_TRY(meet(c, 0, count * c->element, error));
    contributions(c, 0, source, from);
    ig_reduce(what->dtype, what->reduction, from, c->group->ranks, (char *)c->call->destination + at * c->element,
              count);
    return INGOT_OK;
}

static enum ingot_status reduce_in_two(const struct call *c, size_t at, size_t count, struct ingot_error *error) {
    const struct ig_collective *what = &c->call->what;
    const uint32_t rank = c->group->rank, ranks = c->group->ranks;
    const char *source = (const char *)c->call->source + at * c->element;
    char *destination = (char *)c->call->destination + at * c->element;
    /* Pieces are whole lines of the cache; the last ones may be short or empty. */
    const size_t line = 64 / c->element, piece = ((count + ranks - 1) / ranks + line - 1) / line * line;
    const size_t begin = smaller(rank * piece, count), size = smaller(piece, count - begin);
    const void *from[IG_MOST_RANKS];
    /* What the others reduce. */
    memcpy(next(c), source, begin * c->element);
    memcpy(next(c) + (begin + size) * c->element, source + (begin + size) * c->element,
           (count - begin - size) * c->element);
    IG_TRY(meet(c, piece * c->element, piece * c->element, error));
    contributions(c, begin * c->element, source + begin * c->element, from);
    ig_reduce(what->dtype, what->reduction, from, ranks, next(c), size);
    IG_TRY(meet(c, 0, size * c->element, error));
    for (uint32_t r = 0; r < ranks; r++) {
        size_t first = smaller(r * piece, count);
        memcpy(destination + first * c->element, from_rank(c, r, 0), smaller(piece, count - first) * c->element);
    }
    return INGOT_OK;
}

static enum ingot_status all_reduce(const struct call *c, struct ingot_error *error) {
    const size_t count = ig_sizes_block(c->call->sizes), step = IG_PHASE_BYTES / c->element;
    const bool once = count * c->element <= (c->group->ranks <= 2 ? ONE_PHASE_OF_TWO : ONE_PHASE);
    size_t at = 0;
    do {
        size_t n = smaller(step, count - at);
        IG_TRY(once ? reduce_in_one(c, at, n, error) : reduce_in_two(c, at, n, error));
        at += n;
    } while (at < count);
    return INGOT_OK;
}

/* ---- What divides an axis ---------------------------------------------------------------------------------------- */

/* Rank r's part of the whole tensor, and where it begins there. */
static struct ig_rows part_of(const struct call *c, uint32_t r, size_t *out_at) {
    const struct ig_collective_sizes *sizes = c->call->sizes;
    const size_t line = sizes->inner * c->element;
    *out_at = ig_sizes_before(sizes, r) * line;
    return (struct ig_rows){sizes->outer, sizes->parts[r] * line, ig_sizes_whole(sizes, c->group->ranks) * line};
}

/* The largest part's packed bytes. */
static size_t largest_part(const struct call *c) {
    size_t largest = 0;
    for (uint32_t r = 0; r < c->group->ranks; r++)
        if (c->call->sizes->parts[r] > largest) largest = c->call->sizes->parts[r];
    return largest * ig_sizes_block(c->call->sizes) * c->element;
}

/* Of a range of `step` bytes, how much lies within `size`. */
static size_t within(size_t at, size_t step, size_t size) {
    return at < size ? smaller(step, size - at) : 0;
}

static enum ingot_status all_gather(const struct call *c, struct ingot_error *error) {
    const uint32_t rank = c->group->rank, ranks = c->group->ranks;
    const size_t largest = largest_part(c),
                 mine = c->call->sizes->parts[rank] * ig_sizes_block(c->call->sizes) * c->element;
    size_t at = 0, place;
    do {
        size_t n = within(at, IG_PHASE_BYTES, mine);
        if (n) memcpy(next(c), (const char *)c->call->source + at, n);
        IG_TRY(meet(c, 0, n, error));
        for (uint32_t r = 0; r < ranks; r++) {
            struct ig_rows rows = part_of(c, r, &place);
            size_t size = within(at, IG_PHASE_BYTES, rows.lines * rows.length);
            ig_rows_unpack(&rows, (char *)c->call->destination + place, at, size, from_rank(c, r, 0));
        }
        at += IG_PHASE_BYTES;
    } while (at < largest);
    return INGOT_OK;
}

/* In each step, a rank's half has room for a piece of every rank's part. */
static enum ingot_status reduce_scatter(const struct call *c, struct ingot_error *error) {
    const struct ig_collective *what = &c->call->what;
    const uint32_t rank = c->group->rank, ranks = c->group->ranks;
    const size_t step = IG_PHASE_BYTES / ranks / 64 * 64, largest = largest_part(c);
    const void *from[IG_MOST_RANKS];
    size_t at = 0, place;
    do {
        for (uint32_t r = 0; r < ranks; r++) {
            struct ig_rows rows = part_of(c, r, &place);
            size_t size = within(at, step, rows.lines * rows.length);
            ig_rows_pack(&rows, (const char *)c->call->source + place, at, size, next(c) + r * step);
        }
        IG_TRY(meet(c, step, step, error));
        struct ig_rows rows = part_of(c, rank, &place);
        contributions(c, rank * step, from_rank(c, rank, rank * step), from);
        ig_reduce(what->dtype, what->reduction, from, ranks, (char *)c->call->destination + at,
                  within(at, step, rows.lines * rows.length) / c->element);
        at += step;
    } while (at < largest);
    return INGOT_OK;
}

/* ---- The others -------------------------------------------------------------------------------------------------- */

static enum ingot_status all_to_all(const struct call *c, struct ingot_error *error) {
    const uint32_t rank = c->group->rank, ranks = c->group->ranks;
    const size_t step = IG_PHASE_BYTES / ranks / 64 * 64, block = ig_sizes_block(c->call->sizes) * c->element;
    size_t at = 0;
    do {
        size_t n = within(at, step, block);
        for (uint32_t r = 0; n && r < ranks; r++)
            memcpy(next(c) + r * step, (const char *)c->call->source + r * block + at, n);
        IG_TRY(meet(c, step, n, error));
        for (uint32_t r = 0; n && r < ranks; r++)
            memcpy((char *)c->call->destination + r * block + at, from_rank(c, r, rank * step), n);
        at += step;
    } while (at < block);
    return INGOT_OK;
}

static enum ingot_status broadcast(const struct call *c, struct ingot_error *error) {
    const uint32_t root = c->call->what.peer;
    const size_t size = ig_sizes_block(c->call->sizes) * c->element;
    const bool mine = root == c->group->rank;
    size_t at = 0;
    do {
        size_t n = within(at, IG_PHASE_BYTES, size);
        if (n && mine) memcpy(next(c), (const char *)c->call->source + at, n);
        IG_TRY(meet(c, 0, mine ? n : 0, error));
        if (n) memcpy((char *)c->call->destination + at, from_rank(c, root, 0), n);
        at += n;
    } while (at < size);
    return INGOT_OK;
}

enum ingot_status ig_phases_call(struct ig_group *group, const struct ig_phases_api *api,
                                 const struct ig_collective_call *call, uint64_t signature, struct ingot_error *error) {
    typedef enum ingot_status (*kind)(const struct call *, struct ingot_error *);
    static const kind kinds[] = {all_reduce, all_gather, reduce_scatter, all_to_all, broadcast};
    const struct call c = {group, api, call, signature, ingot_dtype_size((enum ingot_dtype)call->what.dtype)};
    return kinds[call->what.kind](&c, error);
}
