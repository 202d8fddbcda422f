/*
 * Collectives in shared memory; see shared.h. Each rank is the first to write its buffer, whose pages therefore lie in the
 * memory of the processors that it runs on.
 */
#define _GNU_SOURCE
#include "dist/shared.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cpu.h"
#include "dist/links.h"
#include "dist/phases.h"
#include "dist/shared_wait.h"

/* Some tens of microseconds; with more ranks than processors, those that spin keep the others waiting. */
#define SPINS 1000
#define SPINS_IN_A_CROWD 20
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
    return buffers_at(ranks) + ranks * 2 * IG_PHASE_BYTES + (size_t)ranks * ranks * 2 * IG_SHARED_MAIL_HALF;
}

static char *half_of(const struct ig_shared_group *group, uint32_t rank, uint32_t phase) {
    return group->buffers + (2 * (size_t)rank + (phase & 1)) * IG_PHASE_BYTES;
}

static char *mail_half(const struct ig_shared_group *group, uint32_t from, uint32_t to, uint32_t number) {
    size_t pair = (size_t)from * group->base.ranks + to;
    return group->buffers + group->base.ranks * 2 * IG_PHASE_BYTES + (2 * pair + (number & 1)) * IG_SHARED_MAIL_HALF;
}

/* ---- Phases ------------------------------------------------------------------------------------------------------ */

static char *next(struct ig_group *base) {
    const struct ig_shared_group *group = (const struct ig_shared_group *)base;
    return half_of(group, base->rank, group->phase + 1);
}

static const char *from(const struct ig_group *base, uint32_t rank, size_t at) {
    const struct ig_shared_group *group = (const struct ig_shared_group *)base;
    return half_of(group, rank, group->phase) + at;
}

/* Everybody sees everything. */
static enum ingot_status meet(struct ig_group *base, const struct ig_phase *p, struct ingot_error *error) {
    struct ig_shared_group *group = (struct ig_shared_group *)base;
    const uint32_t ranks = base->ranks, phase = ++group->phase;
    ig_shared_publish(&group->seat->phase, phase, p->signature);
    for (uint32_t i = 1; i < ranks; i++) {
        uint32_t r = (base->rank + i) % ranks;
        struct ig_shared_number *number = &group->header->seats[r].phase;
        IG_TRY(ig_shared_await(group, number, phase, r, p->call, error));
        IG_TRY(ig_shared_compare(group, number, phase, p->signature, r, p->call, error));
    }
    return INGOT_OK;
}

static const struct ig_phases_api phases = {next, meet, from};

/* ---- Pairs ------------------------------------------------------------------------------------------------------- */

struct call {
    struct ig_shared_group *group;
    const struct ig_collective_call *call;
    uint64_t signature;
    size_t element; /* bytes */
};

/* Of a range of a half's bytes from `at` on, how much lies within `size`. */
static size_t within(size_t at, size_t size) {
    return size - at < IG_SHARED_MAIL_HALF ? size - at : IG_SHARED_MAIL_HALF;
}

static enum ingot_status send(const struct call *c, struct ingot_error *error) {
    const uint32_t rank = c->group->base.rank, to = c->call->what.peer;
    struct ig_shared_mail *mail = &c->group->mails[(size_t)rank * c->group->base.ranks + to];
    const size_t size = ig_sizes_block(c->call->sizes) * c->element;
    for (size_t at = 0; at < size; at += IG_SHARED_MAIL_HALF) {
        uint32_t number = atomic_load_explicit(&mail->sent.value, memory_order_relaxed) + 1;
        IG_TRY(ig_shared_await(c->group, &mail->taken, number - 2, to, c->call, error));
        memcpy(mail_half(c->group, rank, to, number), (const char *)c->call->source + at, within(at, size));
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
        memcpy((char *)c->call->destination + at, mail_half(c->group, from, rank, number), within(at, size));
        ig_shared_publish(&mail->taken, number, 0);
    }
    return INGOT_OK;
}

static enum ingot_status call(struct ig_group *base, const struct ig_collective_call *call, uint64_t signature,
                              struct ingot_error *error) {
    struct ig_shared_group *group = (struct ig_shared_group *)base;
    const struct call c = {group, call, signature, ingot_dtype_size((enum ingot_dtype)call->what.dtype)};
    ig_shared_begin(group, call);
    if (call->what.kind == IG_SEND)
        IG_TRY(send(&c, error));
    else if (call->what.kind == IG_RECEIVE)
        IG_TRY(receive(&c, error));
    else
        IG_TRY(ig_phases_call(base, &phases, call, signature, error));
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

/* Between threads a descriptor is as good as its number. */
static enum ingot_status share_files(struct ig_group *base, int own, int *out_files, struct ingot_error *error) {
    struct ig_shared_group *group = (struct ig_shared_group *)base;
    if (group->links) return ig_links_share_files(group->links, own, out_files, error);
    int all[IG_MOST_RANKS];
    struct ig_collective_sizes sizes = {.outer = 1, .inner = 1};
    for (uint32_t r = 0; r < base->ranks; r++)
        sizes.parts[r] = 1;
    const struct ig_collective_call gather = {{IG_ALL_GATHER, INGOT_I32, 0, 0}, &sizes, &own, all, "files", NULL};
    IG_TRY(ig_group_call(base, &gather, error));
    enum ingot_status status = INGOT_OK;
    for (uint32_t r = 0; r < base->ranks; r++) {
        if (r == base->rank) continue;
        out_files[r] = fcntl(all[r], F_DUPFD_CLOEXEC, 0);
        if (out_files[r] < 0) status = IG_ERR(error, INGOT_IO, "cannot share a file with rank %u: %m", r);
    }
    IG_TRY(ig_group_barrier(base, "files", error)); /* before anybody closes its own */
    return status;
}

static size_t bytes_of(const struct ig_group *base) {
    return ig_shared_bytes(base->ranks);
}

static const struct ig_group_api api = {.destroy = destroy,
                                        .call = call,
                                        .look = ig_shared_look,
                                        .share_files = share_files,
                                        .bytes = bytes_of,
                                        .fail = ig_shared_fail};

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
    group->base.neighbours = ranks;
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

void ig_group_renew_local(struct ig_group *const *seats, uint32_t ranks) {
    struct ig_shared_group *first = (struct ig_shared_group *)seats[0];
    struct ig_shared_header *header = first->header;
    memset(header->seats, 0, sizeof header->seats);
    memset(first->mails, 0, (size_t)ranks * ranks * sizeof *first->mails);
    atomic_store(&header->failed, 0);
    for (uint32_t r = 0; r < ranks; r++) {
        ((struct ig_shared_group *)seats[r])->phase = 0;
        seats[r]->failure.status = INGOT_OK;
    }
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
    struct ig_group *seats[IG_MOST_RANKS] = {NULL};
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
