/* The memory that kernels access, and what is known of every byte of it; see part.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emulator/part.h"
#include "emulator/turn.h"

static struct region *regions; /* from emulator_add_memory */
static size_t n_regions, room_for_regions;
static struct region *last_region;

void emulator_add_memory(void *begin, size_t size) {
    turn_take();
    if (n_regions == room_for_regions) {
        room_for_regions = room_for_regions ? 2 * room_for_regions : 64;
        regions = realloc(regions, room_for_regions * sizeof *regions);
        if (!regions) abort();
    }
    regions[n_regions++] = (struct region){begin, (char *)begin + size, "global memory", size, NULL};
    last_region = NULL;
    turn_end();
}

/* The words of a region begin at addresses that are multiples of their size. */
static char *first_word(const struct region *r) {
    return r->begin - (uintptr_t)r->begin % WORD;
}

static size_t words_of(const struct region *r) {
    return r->most / WORD + 2;
}

/* Cells of words, then those of bytes. */
static size_t bytes_of_cells(const struct region *r) {
    return words_of(r) * (1 + WORD) * sizeof(struct cell);
}

static struct cell *cells_of_bytes(const struct region *r) {
    return r->cells + words_of(r);
}

void memory_drop_cells(struct region *r) {
    if (r->cells) munmap(r->cells, bytes_of_cells(r));
    r->cells = NULL;
}

void emulator_remove_memory(void *begin) {
    turn_take();
    for (size_t i = 0; i < n_regions; i++) {
        if (regions[i].begin != begin) continue;
        memory_drop_cells(&regions[i]);
        regions[i] = regions[--n_regions];
        break;
    }
    last_region = NULL;
    turn_end();
}

void memory_drop_all(void) {
    for (size_t i = 0; i < n_regions; i++)
        memory_drop_cells(&regions[i]);
    for (int i = 0; i < MOST_PARTS; i++) {
        for (int rank = 0; parts[i] && rank < MOST_RANKS; rank++)
            memory_drop_cells(&parts[i]->dynamic[rank]);
        if (parts[i]) memory_drop_cells(&parts[i]->variables);
    }
}

/* ---- Accesses ----------------------------------------------------------------------------------------------------------- */

struct region *memory_region(const char *at, size_t size) {
    struct region *shared = &part->dynamic[part->seen.rank];
    if (last_region && lies_in(last_region, at, size)) return last_region;
    if (lies_in(shared, at, size)) return shared;
    if (lies_in(&part->variables, at, size)) return &part->variables;
    for (size_t i = 0; i < n_regions; i++) {
        if (lies_in(&regions[i], at, size)) return last_region = &regions[i];
    }
    return NULL;
}

void memory_refuse(const char *at, size_t size, bool write) {
    const struct region *nearest = &part->dynamic[part->seen.rank];
    size_t distance = SIZE_MAX;
    for (size_t i = 0; i < n_regions + 2; i++) {
        const struct region *r = i < n_regions    ? &regions[i]
                                 : i == n_regions ? &part->variables
                                                  : &part->dynamic[part->seen.rank];
        if (r->begin == r->end) continue;
        size_t away = at < r->begin ? (size_t)(r->begin - at) : at >= r->end ? (size_t)(at - r->end) : 0;
        if (away >= distance) continue;
        distance = away;
        nearest = r;
    }
    part_refuse("%s %zu bytes at %lld of %lld bytes of %s", write ? "writes" : "reads", size,
                (long long)(at - nearest->begin), (long long)(nearest->end - nearest->begin), nearest->name);
}

/* Of an access in another epoch than this one. Grids that run at the same time are taken to be ordered: by what one writes
 * and the other polls. */
static bool is_earlier(const struct region *r, uint32_t epoch) {
    const struct part *p = part, *other;
    if (epoch % MOST_PARTS == p->number && epoch >= p->block_epoch) return true;
    other = parts[epoch % MOST_PARTS];
    if (!other || other->run != p->run || epoch < other->taken) return true;
    return r == &p->variables || r == &p->dynamic[p->seen.rank] || p->ranks > 1;
}

static uint32_t epoch_of(stamp s) {
    return (uint32_t)(s >> 32);
}

static unsigned who(stamp s) {
    return s >> 16 & UINT16_MAX;
}

static stamp with_who(stamp s, unsigned who) {
    return (s & ~((stamp)UINT16_MAX << 16)) | (stamp)who << 16;
}

/* The warp of one thread or of several lanes. */
static unsigned warp_of(unsigned who) {
    return who & SEVERAL ? who & ~(unsigned)SEVERAL : who / 32;
}

/* Of an access now. */
static stamp own_stamp(void) {
    const struct part *p = part;
    return (stamp)p->epoch[p->seen.rank] << 32 | (stamp)p->seen.thread << 16 | p->threads[p->current]->syncs;
}

static bool is_ordered(const struct region *r, stamp other, stamp own) {
    if (epoch_of(other) != epoch_of(own)) return is_earlier(r, epoch_of(other));
    if (who(other) == who(own)) return true;
    return who(other) != SEVERAL_WARPS && warp_of(who(other)) == warp_of(who(own)) && (uint16_t)other != (uint16_t)own;
}

static void refuse_race(const struct region *r, const char *at, bool write, const char *verb, unsigned who) {
    char whom[32];
    if (who == SEVERAL_WARPS) {
        snprintf(whom, sizeof whom, "several warps");
    } else if (who & SEVERAL) {
        snprintf(whom, sizeof whom, "lanes of warp %u", warp_of(who));
    } else {
        snprintf(whom, sizeof whom, "thread %u", who);
    }
    part_refuse("%s byte %lld of %lld of %s, which %s %s with no barrier between", write ? "writes" : "reads",
                (long long)(at - r->begin), (long long)(r->end - r->begin), r->name, whom, verb);
}

/* An access and what it has done to the last cell: adjacent cells are mostly equal. */
struct access {
    const struct region *region;
    stamp own;
    bool write;
    struct cell before, after;
};

/* Checks an access against a cell, that of the byte at `at`, and returns the updated cell. */
static struct cell after_access(const struct access *a, const char *at, struct cell c) {
    if (!is_ordered(a->region, c.write, a->own)) refuse_race(a->region, at, a->write, "wrote", who(c.write));
    if (a->write) {
        if (!is_ordered(a->region, c.read, a->own)) refuse_race(a->region, at, a->write, "read", who(c.read));
        c.write = a->own;
    } else if (epoch_of(c.read) != epoch_of(a->own) || is_ordered(a->region, c.read, a->own)) {
        c.read = a->own;
    } else {
        unsigned warp = warp_of(who(a->own));
        bool same_warp = who(c.read) != SEVERAL_WARPS && warp_of(who(c.read)) == warp;
        c.read = with_who(a->own, same_warp ? SEVERAL | warp : SEVERAL_WARPS);
    }
    return c;
}

static inline void note_cell(struct access *a, struct cell *c, const char *at) {
    if (c->write != a->before.write || c->read != a->before.read) {
        a->before = *c;
        a->after = after_access(a, at, *c);
    }
    if (a->write)
        c->write = a->after.write;
    else
        c->read = a->after.read;
}

static bool is_divided(const struct cell *word) {
    return word->write == DIVIDED;
}

/* Bytes [from, end) of a word, of which the region's first has number 0. A word whose bytes are all accessed alike is one
 * again. */
static void note_bytes(struct access *a, size_t from, size_t end) {
    const struct region *r = a->region;
    struct cell *word = &r->cells[from / WORD], *bytes = cells_of_bytes(r) + from / WORD * WORD;
    if (!is_divided(word)) {
        for (int i = 0; i < WORD; i++)
            bytes[i] = *word;
        word->write = DIVIDED;
    }
    for (size_t i = from; i < end; i++)
        note_cell(a, &bytes[i % WORD], first_word(r) + i);
    if (end - from < WORD) return;
    for (int i = 1; i < WORD; i++) {
        if (memcmp(&bytes[i], &bytes[0], sizeof *bytes) != 0) return;
    }
    *word = bytes[0];
}

static void note_access(struct region *r, const char *at, size_t size, bool write) {
    if (!r->cells) {
        void *cells =
            mmap(NULL, bytes_of_cells(r), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (cells == MAP_FAILED) return;
        r->cells = cells;
    }
    struct access a = {.region = r, .own = own_stamp(), .write = write, .before = {DIVIDED, DIVIDED}};
    const char *first = first_word(r);
    size_t from = (size_t)(at - first), end = from + size;
    while (from < end) {
        struct cell *word = &r->cells[from / WORD];
        size_t next = (from / WORD + 1) * WORD;
        if (from % WORD == 0 && next <= end && !is_divided(word)) {
            note_cell(&a, word, first + from);
        } else {
            note_bytes(&a, from, next < end ? next : end);
        }
        from = next;
    }
}

/* Nearly all sizes are powers of two, which need no division. */
static bool is_aligned(const char *at, size_t size) {
    return (size & (size - 1)) == 0 ? ((uintptr_t)at & (size - 1)) == 0 : (uintptr_t)at % size == 0;
}

void memory_access(const void *where, size_t size, int how) {
    const char *at = where, *stack = part->seen.stack;
    bool write = how & EMULATED_WRITE;
    if (how & EMULATED_ALIGNED && size <= 16 && !is_aligned(at, size))
        part_refuse("%s %zu bytes at an address that is no multiple of them", write ? "writes" : "reads", size);
    if (at >= stack && at < stack + EMULATED_STACK) return;
    struct region *r = memory_region(at, size);
    if (r) {
        if (part->options.races && !(how & EMULATED_ATOMIC)) note_access(r, at, size, write);
        return;
    }
    const struct emulated_object *o = part->launch->object;
    if (!write && at >= o->begin && at + size <= o->end) return;
    memory_refuse(at, size, write);
}
