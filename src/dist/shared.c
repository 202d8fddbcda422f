/*
 * Collectives in shared memory; see shared.h.
 *
 * A small all-reduce is one phase: everybody reads everybody's whole contribution. A large one of more than two ranks is
 * two: a rank reduces its piece of each step's elements, and publishes it. With two ranks both ways read the same amount.
 * Everything else is one phase per step. Each rank is the first to write its buffer, whose pages therefore lie in the memory
 * of the processors that it runs on.
 */
#define _GNU_SOURCE
#include "dist/shared.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cpu.h"
#include "dist/links.h"
#include "dist/reduce.h"
#include "dist/rows.h"
#include "dist/shared_wait.h"

/* Some tens of microseconds; with more ranks than processors, those that spin keep the others waiting. */
#define SPINS 1000
#define SPINS_IN_A_CROWD 20
/* Up to so many bytes, everybody reduces everything. */
#define ONE_PHASE ((size_t)32 << 10)
#define PAGE ((size_t)4096)

/* ---- Layout ------------------------------------------------------------------------------------------------------ */

static size_t round_up(size_t size, size_t to) {
    return (size + to - 1) / to * to;
}

static size_t mails_at(void) {
    return round_up(sizeof(struct ig_shared_header), PAGE);
}

static size_t buffers_at(uint32_t ranks) {
    return mails_at() + round_up((size_t)ranks * ranks * sizeof(struct ig_shared_mail), PAGE);
}

size_t ig_shared_bytes(uint32_t ranks) {
    return buffers_at(ranks) + ranks * 2 * IG_SHARED_HALF + (size_t)ranks * ranks * 2 * IG_SHARED_MAIL_HALF;
}

static char *half_of(const struct ig_shared_group *group, uint32_t rank, uint32_t phase) {
    return group->buffers + (2 * (size_t)rank + (phase & 1)) * IG_SHARED_HALF;
}

static char *mail_half(const struct ig_shared_group *group, uint32_t from, uint32_t to, uint32_t number) {
    size_t pair = (size_t)from * group->base.ranks + to;
    return group->buffers + group->base.ranks * 2 * IG_SHARED_HALF + (2 * pair + (number & 1)) * IG_SHARED_MAIL_HALF;
}

/* ---- Phases ------------------------------------------------------------------------------------------------------ */

struct call {
    struct ig_shared_group *group;
    const struct ig_collective_call *call;
    uint64_t signature;
    size_t element; /* bytes */
};

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Where this rank writes in the next phase, and where others' of the current one are. */
static char *next_half(const struct call *c) {
    return half_of(c->group, c->group->base.rank, c->group->phase + 1);
}

static const char *half(const struct call *c, uint32_t rank) {
    return half_of(c->group, rank, c->group->phase);
}

/* Publishes the next phase and waits for all others'. */
static enum ingot_status meet(const struct call *c, struct ingot_error *error) {
    struct ig_shared_group *group = c->group;
    const uint32_t ranks = group->base.ranks, phase = ++group->phase;
    ig_shared_publish(&group->seat->phase, phase, c->signature);
    for (uint32_t i = 1; i < ranks; i++) {
        uint32_t r = (group->base.rank + i) % ranks;
        struct ig_shared_number *number = &group->header->seats[r].phase;
        IG_TRY(ig_shared_await(group, number, phase, r, c->call, error));
        IG_TRY(ig_shared_compare(group, number, phase, c->signature, r, c->call, error));
    }
    return INGOT_OK;
}

/* ---- All-reduce -------------------------------------------------------------------------------------------------- */

/* Everybody's contribution to the current phase, `at` bytes into it. This rank's own is `own`. */
static void contributions(const struct call *c, size_t at, const void *own, const void **out_from) {
    for (uint32_t r = 0; r < c->group->base.ranks; r++)
        out_from[r] = r == c->group->base.rank ? own : half(c, r) + at;
}

static enum ingot_status reduce_in_one(const struct call *c, size_t at, size_t count, struct ingot_error *error) {
    const struct ig_collective *what = &c->call->what;
    const char *source = (const char *)c->call->source + at * c->element;
    const void *from[IG_MOST_RANKS];
    memcpy(next_half(c), source, count * c->element);
    IG_TRY(meet(c, error));
    contributions(c, 0, source, from);
    ig_reduce(what->dtype, what->reduction, from, c->group->base.ranks, (char *)c->call->destination + at * c->element,
              count);
    return INGOT_OK;
}

/* The elements before rank r's piece of `count`; pieces are whole lines of the cache. */
static size_t piece_at(const struct call *c, uint32_t r, size_t count) {
    const size_t line = 64 / c->element, lines = (count + line - 1) / line, ranks = c->group->base.ranks;
    return smaller(lines * r / ranks * line, count);
}

static enum ingot_status reduce_in_two(const struct call *c, size_t at, size_t count, struct ingot_error *error) {
    const struct ig_collective *what = &c->call->what;
    const uint32_t rank = c->group->base.rank, ranks = c->group->base.ranks;
    const char *source = (const char *)c->call->source + at * c->element;
    const size_t mine = piece_at(c, rank, count), size = (piece_at(c, rank + 1, count) - mine) * c->element;
    const void *from[IG_MOST_RANKS];
    memcpy(next_half(c), source, count * c->element);
    IG_TRY(meet(c, error));
    contributions(c, mine * c->element, source + mine * c->element, from);
    ig_reduce(what->dtype, what->reduction, from, ranks, next_half(c), size / c->element);
    IG_TRY(meet(c, error));
    for (uint32_t r = 0; r < ranks; r++) {
        size_t begin = piece_at(c, r, count), end = piece_at(c, r + 1, count);
        memcpy((char *)c->call->destination + (at + begin) * c->element, half(c, r), (end - begin) * c->element);
    }
    return INGOT_OK;
}

static enum ingot_status all_reduce(const struct call *c, struct ingot_error *error) {
    const size_t count = ig_sizes_block(c->call->sizes), step = IG_SHARED_HALF / c->element;
    const bool once = c->group->base.ranks <= 2 || count * c->element <= ONE_PHASE;
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
    return (struct ig_rows){sizes->outer, sizes->parts[r] * line, ig_sizes_whole(sizes, c->group->base.ranks) * line};
}

/* The largest part's packed bytes. */
static size_t largest_part(const struct call *c) {
    size_t largest = 0;
    for (uint32_t r = 0; r < c->group->base.ranks; r++)
        if (c->call->sizes->parts[r] > largest) largest = c->call->sizes->parts[r];
    return largest * ig_sizes_block(c->call->sizes) * c->element;
}

/* Of a range of `step` bytes, how much lies within `size`. */
static size_t within(size_t at, size_t step, size_t size) {
    return at < size ? smaller(step, size - at) : 0;
}

static enum ingot_status all_gather(const struct call *c, struct ingot_error *error) {
    const uint32_t rank = c->group->base.rank, ranks = c->group->base.ranks;
    const size_t largest = largest_part(c),
                 mine = c->call->sizes->parts[rank] * ig_sizes_block(c->call->sizes) * c->element;
    size_t at = 0, place;
    do {
        size_t n = within(at, IG_SHARED_HALF, mine);
        if (n) memcpy(next_half(c), (const char *)c->call->source + at, n);
        IG_TRY(meet(c, error));
        for (uint32_t r = 0; r < ranks; r++) {
            struct ig_rows rows = part_of(c, r, &place);
            size_t size = within(at, IG_SHARED_HALF, rows.lines * rows.length);
            ig_rows_unpack(&rows, (char *)c->call->destination + place, at, size, half(c, r));
        }
        at += IG_SHARED_HALF;
    } while (at < largest);
    return INGOT_OK;
}

/* In each step, a rank's half has room for a piece of every rank's part. */
static enum ingot_status reduce_scatter(const struct call *c, struct ingot_error *error) {
    const struct ig_collective *what = &c->call->what;
    const uint32_t rank = c->group->base.rank, ranks = c->group->base.ranks;
    const size_t step = IG_SHARED_HALF / ranks / 64 * 64, largest = largest_part(c);
    const void *from[IG_MOST_RANKS];
    size_t at = 0, place;
    do {
        for (uint32_t r = 0; r < ranks; r++) {
            struct ig_rows rows = part_of(c, r, &place);
            size_t size = within(at, step, rows.lines * rows.length);
            ig_rows_pack(&rows, (const char *)c->call->source + place, at, size, next_half(c) + r * step);
        }
        IG_TRY(meet(c, error));
        struct ig_rows rows = part_of(c, rank, &place);
        contributions(c, rank * step, half(c, rank) + rank * step, from);
        ig_reduce(what->dtype, what->reduction, from, ranks, (char *)c->call->destination + at,
                  within(at, step, rows.lines * rows.length) / c->element);
        at += step;
    } while (at < largest);
    return INGOT_OK;
}

/* ---- The others -------------------------------------------------------------------------------------------------- */

static enum ingot_status all_to_all(const struct call *c, struct ingot_error *error) {
    const uint32_t rank = c->group->base.rank, ranks = c->group->base.ranks;
    const size_t step = IG_SHARED_HALF / ranks / 64 * 64, block = ig_sizes_block(c->call->sizes) * c->element;
    size_t at = 0;
    do {
        size_t n = within(at, step, block);
        for (uint32_t r = 0; n && r < ranks; r++)
            memcpy(next_half(c) + r * step, (const char *)c->call->source + r * block + at, n);
        IG_TRY(meet(c, error));
        for (uint32_t r = 0; n && r < ranks; r++)
            memcpy((char *)c->call->destination + r * block + at, half(c, r) + rank * step, n);
        at += step;
    } while (at < block);
    return INGOT_OK;
}

static enum ingot_status broadcast(const struct call *c, struct ingot_error *error) {
    const uint32_t root = c->call->what.peer;
    const size_t size = ig_sizes_block(c->call->sizes) * c->element;
    const bool mine = root == c->group->base.rank;
    size_t at = 0;
    do {
        size_t n = within(at, IG_SHARED_HALF, size);
        if (n && mine) memcpy(next_half(c), (const char *)c->call->source + at, n);
        IG_TRY(meet(c, error));
        if (n) memcpy((char *)c->call->destination + at, half(c, root), n);
        at += n;
    } while (at < size);
    return INGOT_OK;
}

static enum ingot_status send(const struct call *c, struct ingot_error *error) {
    const uint32_t rank = c->group->base.rank, to = c->call->what.peer;
    struct ig_shared_mail *mail = &c->group->mails[(size_t)rank * c->group->base.ranks + to];
    const size_t size = ig_sizes_block(c->call->sizes) * c->element;
    for (size_t at = 0; at < size; at += IG_SHARED_MAIL_HALF) {
        uint32_t number = atomic_load_explicit(&mail->sent.value, memory_order_relaxed) + 1;
        IG_TRY(ig_shared_await(c->group, &mail->taken, number - 2, to, c->call, error));
        memcpy(mail_half(c->group, rank, to, number), (const char *)c->call->source + at,
               within(at, IG_SHARED_MAIL_HALF, size));
        ig_shared_publish(&mail->sent, number, c->signature);
    }
    return INGOT_OK;
}

static enum ingot_status receive(const struct call *c, struct ingot_error *error) {
    const uint32_t rank = c->group->base.rank, from = c->call->what.peer;
    struct ig_shared_mail *mail = &c->group->mails[(size_t)from * c->group->base.ranks + rank];
    const size_t size = ig_sizes_block(c->call->sizes) * c->element;
    for (size_t at = 0; at < size; at += IG_SHARED_MAIL_HALF) {
        uint32_t number = atomic_load_explicit(&mail->taken.value, memory_order_relaxed) + 1;
        IG_TRY(ig_shared_await(c->group, &mail->sent, number, from, c->call, error));
        IG_TRY(ig_shared_compare(c->group, &mail->sent, number, c->signature, from, c->call, error));
        memcpy((char *)c->call->destination + at, mail_half(c->group, from, rank, number),
               within(at, IG_SHARED_MAIL_HALF, size));
        ig_shared_publish(&mail->taken, number, 0);
    }
    return INGOT_OK;
}

static enum ingot_status call(struct ig_group *base, const struct ig_collective_call *call, uint64_t signature,
                              struct ingot_error *error) {
    typedef enum ingot_status (*kind)(const struct call *, struct ingot_error *);
    static const kind kinds[IG_COLLECTIVE_COUNT] = {all_reduce, all_gather, reduce_scatter, all_to_all,
                                                    broadcast,  send,       receive};
    struct ig_shared_group *group = (struct ig_shared_group *)base;
    const struct call c = {group, call, signature, ingot_dtype_size((enum ingot_dtype)call->what.dtype)};
    ig_shared_begin(group, call);
    IG_TRY(kinds[call->what.kind](&c, error));
    return ig_shared_heed(group, call, error); /* who comes late finds all that it waits for, but nobody who waits */
}

/* ---- Seats ------------------------------------------------------------------------------------------------------- */

/* Threads share a mapping, which the last one unmaps; each process has one of its own. */
static void leave(void *memory, uint32_t ranks, bool is_own) {
    struct ig_shared_header *header = memory;
    if (is_own || atomic_fetch_sub(&header->users, 1) == 1) munmap(memory, ig_shared_bytes(ranks));
}

static void destroy(struct ig_group *base) {
    struct ig_shared_group *group = (struct ig_shared_group *)base;
    atomic_store(&group->seat->left, 1);
    leave(group->header, base->ranks, group->links != NULL);
    ig_links_destroy(group->links);
    ig_release(base->allocator, group, sizeof *group);
}

static const struct ig_group_api api = {.destroy = destroy, .call = call, .fail = ig_shared_fail};

enum ingot_status ig_shared_create(void *memory, uint32_t rank, uint32_t ranks, struct ig_links *links,
                                   const struct ig_group_options *options, struct ig_group **out_group,
                                   struct ingot_error *error) {
    const struct ingot_allocator *allocator = options && options->allocator ? options->allocator : &ig_libc_allocator;
    struct ig_shared_group *group = ig_allocate(allocator, sizeof *group, _Alignof(struct ig_shared_group));
    if (!group) {
        leave(memory, ranks, links != NULL);
        ig_links_destroy(links);
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a group of %u ranks", ranks);
    }
    ig_group_init(&group->base, &api, rank, ranks, options);
    snprintf(group->base.transport, sizeof group->base.transport, "shared memory");
    group->header = memory;
    group->seat = &group->header->seats[rank];
    group->mails = (struct ig_shared_mail *)((char *)memory + mails_at());
    group->buffers = (char *)memory + buffers_at(ranks);
    group->links = links;
    group->spins = ranks <= ig_cpu_processors() ? SPINS : SPINS_IN_A_CROWD;
    *out_group = &group->base;
    return INGOT_OK;
}

enum ingot_status ig_group_create_local(uint32_t ranks, const struct ig_group_options *options,
                                        struct ig_group **out_seats, struct ingot_error *error) {
    if (ranks < 1 || ranks > IG_MOST_RANKS)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "a group of %u ranks: at least 1 and at most %u", ranks,
                      IG_MOST_RANKS);
    void *memory = mmap(NULL, ig_shared_bytes(ranks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for %zu bytes that %u ranks share",
                      ig_shared_bytes(ranks), ranks);
    struct ig_group *seats[IG_MOST_RANKS];
    struct ig_shared_header *header = memory;
    header->ranks = ranks;
    atomic_store(&header->users, ranks);
    enum ingot_status status = INGOT_OK;
    uint32_t made = 0;
    for (; status == INGOT_OK && made < ranks; made++)
        status = ig_shared_create(memory, made, ranks, NULL, options, &seats[made], error);
    if (status == INGOT_OK) {
        memcpy(out_seats, seats, ranks * sizeof *seats);
        return INGOT_OK;
    }
    /* The seat that failed has left already. */
    for (uint32_t r = made; r < ranks; r++)
        leave(memory, ranks, false);
    for (uint32_t r = 0; r + 1 < made; r++)
        ig_group_destroy(seats[r]);
    return status;
}
