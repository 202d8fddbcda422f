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
    regions[n_regions++] = (struct region){begin, (char *)begin + size, "global memory", NULL};
    last_region = NULL;
    turn_end();
}

/* The words of a region begin at addresses that are multiples of their size. */
static char *first_word(const struct region *r) {
    return r->begin - (uintptr_t)r->begin % WORD;
}

static size_t words_of(const struct region *r) {
    return (size_t)(r->end - first_word(r)) / WORD + 1;
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
    const struct part *other = parts[epoch % MOST_PARTS];
    if (other == part && epoch >= part->block_epoch) return true;
    if (!other || other->run != part->run || epoch < other->taken) return true;
    return r == &part->variables || r == &part->dynamic[part->seen.rank] || part->ranks > 1;
}

static bool is_ordered(const struct region *r, uint32_t epoch, unsigned who, uint16_t sync) {
    unsigned thread = (unsigned)part->seen.thread;
    if (epoch != part->epoch[part->seen.rank]) return is_earlier(r, epoch);
    if (who == thread) return true;
    if (who == SEVERAL_WARPS) return false;
    unsigned warp = who & SEVERAL ? who & ~(unsigned)SEVERAL : who / 32;
    return warp == thread / 32 && sync != self()->syncs;
}

static void refuse_race(const struct region *r, const char *at, bool write, const char *other, unsigned who) {
    char whom[32];
    if (who == SEVERAL_WARPS) {
        snprintf(whom, sizeof whom, "several warps");
    } else if (who & SEVERAL) {
        snprintf(whom, sizeof whom, "lanes of warp %u", who & ~(unsigned)SEVERAL);
    } else {
        snprintf(whom, sizeof whom, "thread %u", who);
    }
    part_refuse("%s byte %lld of %lld of %s, which %s %s with no barrier between", write ? "writes" : "reads",
                (long long)(at - r->begin), (long long)(r->end - r->begin), r->name, whom, other);
}

/* Checks an access against a cell, that of the byte at `at`, and returns the updated cell. */
static struct cell after_access(const struct region *r, const char *at, bool write, struct cell c) {
    uint32_t epoch = part->epoch[part->seen.rank];
    unsigned thread = (unsigned)part->seen.thread;
    if (!is_ordered(r, c.write_epoch, c.writer, c.write_sync)) refuse_race(r, at, write, "wrote", c.writer);
    if (write) {
        if (!is_ordered(r, c.read_epoch, c.reader, c.read_sync)) refuse_race(r, at, write, "read", c.reader);
        c.write_epoch = epoch;
        c.writer = (uint16_t)thread;
        c.write_sync = self()->syncs;
    } else if (c.read_epoch != epoch || is_ordered(r, c.read_epoch, c.reader, c.read_sync)) {
        c.read_epoch = epoch;
        c.reader = (uint16_t)thread;
        c.read_sync = self()->syncs;
    } else {
        bool same_warp = c.reader != SEVERAL_WARPS &&
                         (c.reader & SEVERAL ? c.reader & ~(unsigned)SEVERAL : c.reader / 32u) == thread / 32;
        c.reader = (uint16_t)(same_warp ? SEVERAL | thread / 32 : SEVERAL_WARPS);
        c.read_sync = self()->syncs;
    }
    return c;
}

/* Updates cells [0, count) by an access to `per` bytes each from `at` on. */
static void note_cells(const struct region *r, struct cell *c, size_t count, const char *at, size_t per, bool write) {
    struct cell before, after;
    for (size_t i = 0; i < count; i++) {
        /* Adjacent cells are mostly equal. */
        if (i == 0 || memcmp(&c[i], &before, sizeof before) != 0) {
            before = c[i];
            after = after_access(r, at + i * per, write, before);
        }
        if (memcmp(&c[i], &after, sizeof after) != 0) c[i] = after;
    }
}

static bool is_divided(const struct cell *word) {
    return word->write_epoch == DIVIDED;
}

/* Bytes [from, end) of a word, of which the region's first has number 0. A word whose bytes are all accessed alike is one
 * again. */
static void note_bytes(const struct region *r, size_t from, size_t end, bool write) {
    struct cell *word = &r->cells[from / WORD], *bytes = cells_of_bytes(r) + from / WORD * WORD;
    if (!is_divided(word)) {
        for (int i = 0; i < WORD; i++)
            bytes[i] = *word;
        word->write_epoch = DIVIDED;
    }
    note_cells(r, bytes + from % WORD, end - from, first_word(r) + from, 1, write);
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
    size_t from = (size_t)(at - first_word(r)), end = from + size;
    while (from < end) {
        size_t whole = 0;
        if (from % WORD == 0) {
            while (whole < (end - from) / WORD && !is_divided(&r->cells[from / WORD + whole]))
                whole++;
        }
        note_cells(r, &r->cells[from / WORD], whole, first_word(r) + from, WORD, write);
        from += whole * WORD;
        if (from == end) break;
        size_t stop = (from / WORD + 1) * WORD < end ? (from / WORD + 1) * WORD : end;
        note_bytes(r, from, stop, write);
        from = stop;
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
