/* Sets of weights; see weight_set.h. */
#include "runtime/weight_set.h"

#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"

static enum ingot_status no_memory(size_t size, struct ingot_error *error) {
    return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for weights of %zu bytes", size);
}

/* ---- Where weights are ------------------------------------------------------------------------------------------- */

static void add_span(struct ig_weight_set *set, uint64_t begin, uint64_t end, const void *borrowed) {
    set->spans[set->places.n_spans++] =
        (struct ig_weight_span){.begin = begin, .end = end, .address = borrowed, .is_borrowed = borrowed != NULL};
}

/* Spans of copies that are needed, and of those that are not. */
static void add_copies(struct ig_weight_set *set, const struct ig_engine_file *file) {
    const struct ig_plan *plan = &file->plan;
    uint64_t at = file->section_size;
    for (uint32_t i = 0; i < plan->n_copies; i++) {
        bool ends = i + 1 == plan->n_copies || set->used[i + 1] != set->used[i];
        if (!ends) continue;
        uint64_t end = i + 1 == plan->n_copies ? file->weights_size : plan->copies[i + 1].to;
        add_span(set, at, end, NULL);
        set->spans[set->places.n_spans - 1].is_copied = true;
        set->spans[set->places.n_spans - 1].is_absent = !set->used[i];
        at = end;
    }
}

/* What is read of the section, of which not all need be in the set's memory; NULL: all is. */
struct reads {
    const struct ig_plan_range *ranges;
    uint32_t count, next; /* the first that ends behind what is divided already */
};

/* Spans of a range that is not borrowed: of what is read, and of what is not. */
static void add_own(struct ig_weight_set *set, struct reads *reads, uint64_t begin, uint64_t end) {
    if (!reads) {
        add_span(set, begin, end, NULL);
        return;
    }
    while (begin < end) {
        while (reads->next < reads->count && reads->ranges[reads->next].end <= begin)
            reads->next++;
        const struct ig_plan_range *range = reads->next < reads->count ? &reads->ranges[reads->next] : NULL;
        const bool is_read = range && range->begin <= begin;
        uint64_t until = !range ? end : is_read ? range->end : range->begin;
        if (until > end) until = end;
        add_span(set, begin, until, NULL);
        set->spans[set->places.n_spans - 1].is_absent = !is_read;
        begin = until;
    }
}

/* Divides the section where weights are borrowed; the bytes that fill up behind one count as its own. */
static void divide(struct ig_weight_set *set, const struct ig_engine_file *file, struct reads *reads) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < set->n_weights; i++) {
        const struct ig_weight_entry *w = &file->refit.weights[i];
        uint64_t end = (w->offset + w->size + 63) / 64 * 64;
        if (!set->borrowed[i]) continue;
        if (at < w->offset) add_own(set, reads, at, w->offset);
        add_span(set, w->offset, end, set->borrowed[i]);
        at = end;
    }
    if (at < file->section_size) add_own(set, reads, at, file->section_size);
    if (set->places.n_spans == 0) add_span(set, 0, 0, NULL);
    add_copies(set, file);
}

static uint64_t next_number(void) {
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

/* Are what is borrowed and what is not in the memory as they are in the section? Else there is no room for the former. */
static bool has_all(const struct ig_weight_set *set) {
    return set->kind == IG_WEIGHTS_FILE || set->kind == IG_WEIGHTS_MAPPED;
}

void ig_weight_set_use(struct ig_weight_set *set, void *memory) {
    uint64_t place = 0, copied = 0;
    set->memory = memory;
    set->places.number = next_number();
    for (uint32_t i = 0; i < set->places.n_spans; i++) {
        struct ig_weight_span *span = &set->spans[i];
        if (span->is_borrowed || span->is_absent) continue;
        uint64_t *next = has_all(set) && span->is_copied ? &copied : &place;
        char *from = next == &copied ? set->copies : memory;
        span->address = from + (has_all(set) && !span->is_copied ? span->begin : *next);
        *next += span->end - span->begin;
    }
}

bool ig_weight_set_has_layout(const struct ig_weight_set *set, const void *const *borrowed) {
    for (uint32_t i = 0; i < set->n_weights; i++) {
        if ((set->borrowed[i] != NULL) != (borrowed && borrowed[i])) return false;
    }
    return true;
}

void ig_weight_set_borrow(struct ig_weight_set *set, const struct ig_refit_tables *tables,
                          const void *const *borrowed) {
    for (uint32_t i = 0; borrowed && i < set->n_weights; i++)
        set->borrowed[i] = borrowed[i];
    for (uint32_t i = 0, w = 0; i < set->places.n_spans; i++) {
        struct ig_weight_span *span = &set->spans[i];
        if (!span->is_borrowed) continue;
        while (!set->borrowed[w] || tables->weights[w].offset != span->begin)
            w++;
        span->address = set->borrowed[w];
    }
    set->places.number = next_number();
}

/* ---- Sets -------------------------------------------------------------------------------------------------------- */

static size_t tables_size(const struct ig_weight_set *set) {
    return set->n_weights * (sizeof(uint64_t) + sizeof(void *)) + set->most_spans * sizeof(struct ig_weight_span) +
           set->n_copies * sizeof(bool);
}

/* The bytes of the copies that are needed. */
static size_t copies_size(const struct ig_weight_set *set) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < set->places.n_spans; i++) {
        const struct ig_weight_span *span = &set->spans[i];
        if (span->is_copied && !span->is_absent) bytes += span->end - span->begin;
    }
    return (size_t)bytes;
}

/* The tables, without spans. */
static bool make_tables(struct ig_weight_set *set, const void *const *borrowed,
                        const struct ingot_allocator *allocator) {
    const uint32_t n = set->n_weights;
    set->spans = ig_allocate(allocator, tables_size(set), _Alignof(struct ig_weight_span));
    if (!set->spans) return false;
    set->places.spans = set->spans;
    set->made = (uint64_t *)(set->spans + set->most_spans);
    set->borrowed = (const void **)(set->made + n);
    set->used = (bool *)(set->borrowed + n);
    if (borrowed && n) memcpy(set->borrowed, borrowed, n * sizeof *borrowed);
    return true;
}

/* With what `seats` read alone; NULL: with all weights, and the copies that the process needs. Who has no ranks has all weights. */
static bool find_spans(struct ig_weight_set *set, const struct ig_engine_file *file, const struct ig_plan_seats *seats,
                       uint32_t n_reads, const struct ingot_allocator *allocator) {
    ig_plan_copies_find(&file->plan, seats ? *seats : file->seats, (bool *)(uintptr_t)set->used);
    if (!seats || file->plan.n_ranks == 0) {
        divide(set, file, NULL);
        return true;
    }
    const size_t size = (n_reads + 1) * sizeof(struct ig_plan_range);
    struct ig_plan_range *ranges = ig_allocate(allocator, size, _Alignof(struct ig_plan_range));
    if (!ranges) return false;
    struct reads reads = {.ranges = ranges,
                          .count = ig_plan_reads_find(&file->plan, file->section_size, *seats, ranges)};
    divide(set, file, &reads);
    ig_release(allocator, ranges, size);
    return true;
}

/* Without memory. NULL: there is none for it. */
static struct ig_weight_set *new_set(const struct ig_engine_file *file, enum ig_weight_memory kind,
                                     const void *const *borrowed, const struct ig_plan_seats *seats,
                                     const struct ingot_allocator *allocator) {
    const uint32_t n = file->refit.n_weights, n_copies = file->plan.n_copies;
    const uint32_t n_reads = seats ? ig_plan_reads_find(&file->plan, file->section_size, *seats, NULL) : 0;
    struct ig_weight_set *set = ig_allocate(allocator, sizeof *set, _Alignof(struct ig_weight_set));
    if (!set) return NULL;
    set->kind = kind;
    set->n_weights = n;
    set->n_copies = n_copies;
    set->most_spans = 2 * (n + n_reads + 1) + n_copies;
    bool made = make_tables(set, borrowed, allocator) && find_spans(set, file, seats, n_reads, allocator);
    if (made) {
        set->places.number = next_number();
        set->size = has_all(set) ? file->section_size : (size_t)ig_weight_own_bytes(&set->places);
        set->copies_size = has_all(set) ? copies_size(set) : 0;
        set->copies = set->copies_size ? ig_allocate(allocator, set->copies_size, 64) : NULL;
    }
    if (!made || (set->copies_size && !set->copies)) {
        ig_weight_set_destroy(set, NULL, allocator);
        return NULL;
    }
    return set;
}

void ig_weight_set_destroy(struct ig_weight_set *set, struct ig_device *device,
                           const struct ingot_allocator *allocator) {
    if (!set) return;
    switch (set->kind) {
    case IG_WEIGHTS_FILE: break;
    case IG_WEIGHTS_MAPPED:
        if (set->memory) ig_file_unmap_private(set->memory, set->size);
        break;
    case IG_WEIGHTS_ALLOCATED: ig_release(allocator, set->memory, set->size); break;
    case IG_WEIGHTS_DEVICE:
        if (set->memory && device) device->api->release(device, set->memory, set->size);
        break;
    }
    ig_release(allocator, set->copies, set->copies_size);
    ig_release(allocator, set->spans, tables_size(set));
    ig_release(allocator, set, sizeof *set);
}

enum ingot_status ig_weight_set_of_file(const struct ig_engine_file *file, const struct ingot_allocator *allocator,
                                        struct ig_weight_set **out_set, struct ingot_error *error) {
    struct ig_weight_set *set = new_set(file, IG_WEIGHTS_FILE, NULL, NULL, allocator);
    if (!set) return no_memory(sizeof *set, error);
    ig_weight_set_use(set, (void *)(uintptr_t)file->weights);
    ig_weight_set_put_together(set, &file->plan);
    *out_set = set;
    return INGOT_OK;
}

/* ---- Copies on the host ------------------------------------------------------------------------------------------ */

/* Weights of an engine that has none but these. */
static void place_kept(const struct ig_engine_file *file, struct ig_weight_set *set) {
    const unsigned char *from = file->weights;
    for (uint32_t i = 0; i < file->refit.n_weights; i++) {
        const struct ig_weight_entry *w = &file->refit.weights[i];
        if (w->recipe_size) continue;
        if (w->size) memcpy(ig_weight_address(&set->places, w->offset), from, w->size);
        from += (w->size + 63) / 64 * 64;
    }
}

static void place_all(const struct ig_engine_file *file, struct ig_weight_set *set) {
    for (uint32_t i = 0; i < set->places.n_spans; i++) {
        const struct ig_weight_span *span = &set->spans[i];
        size_t size = (size_t)(span->end - span->begin);
        if (!span->is_borrowed && !span->is_copied && size)
            memcpy((void *)(uintptr_t)span->address, file->weights + span->begin, size);
    }
}

static enum ingot_status allocate_host(const struct ig_engine_file *file, const struct ingot_allocator *allocator,
                                       struct ig_weight_set *set, struct ingot_error *error) {
    if (set->size == 0) return INGOT_OK;
    void *memory = ig_allocate(allocator, set->size, 64);
    if (!memory) return no_memory(set->size, error);
    ig_weight_set_use(set, memory);
    if (file->stripped)
        place_kept(file, set);
    else
        place_all(file, set);
    return INGOT_OK;
}

/* Pages of the file, until they are written. */
static enum ingot_status map(const struct ig_engine_file *file, struct ig_weight_set *set, struct ingot_error *error) {
    size_t offset = (size_t)(file->weights - file->data);
    void *memory;
    IG_TRY(ig_file_map_private(file->descriptor, offset, set->size, &memory, error));
    ig_weight_set_use(set, memory);
    return INGOT_OK;
}

enum ingot_status ig_weight_set_copy(const struct ig_engine_file *file, const struct ig_weight_set *current,
                                     const void *const *borrowed, const struct ingot_allocator *allocator,
                                     struct ig_weight_set **out_set, struct ingot_error *error) {
    bool mappable = file->mapping.data && !file->stripped && file->weights_size > 0;
    struct ig_weight_set *set =
        new_set(file, mappable ? IG_WEIGHTS_MAPPED : IG_WEIGHTS_ALLOCATED, borrowed, NULL, allocator);
    if (!set) return no_memory(sizeof *set, error);
    enum ingot_status status = mappable ? map(file, set, error) : allocate_host(file, allocator, set, error);
    if (status != INGOT_OK) {
        ig_weight_set_destroy(set, NULL, allocator);
        return status;
    }
    if (current) ig_weight_set_follow(set, current, &file->refit, NULL);
    *out_set = set;
    return INGOT_OK;
}

void ig_weight_set_put_together(struct ig_weight_set *set, const struct ig_plan *plan) {
    for (uint32_t i = 0; i < plan->n_copies; i++) {
        const struct ig_weight_copy *copy = &plan->copies[i];
        if (!set->used[i]) continue;
        char *to = ig_weight_address(&set->places, copy->to);
        const char *from = ig_weight_address(&set->places, copy->from);
        for (uint64_t k = 0; k < copy->count; k++)
            memcpy(to + k * copy->piece, from + k * copy->stride, (size_t)copy->piece);
    }
}

void ig_weight_set_follow(struct ig_weight_set *set, const struct ig_weight_set *current,
                          const struct ig_refit_tables *tables, const bool *stale) {
    for (uint32_t i = 0; i < set->n_weights; i++) {
        const struct ig_weight_entry *w = &tables->weights[i];
        if (set->borrowed[i] || current->borrowed[i]) continue; /* what is borrowed no more is stale */
        if (set->made[i] == current->made[i] || (stale && stale[i])) continue;
        if (w->size)
            memcpy(ig_weight_address(&set->places, w->offset), ig_weight_address(&current->places, w->offset), w->size);
        set->made[i] = current->made[i];
    }
}

/* ---- Copies on devices ------------------------------------------------------------------------------------------- */

enum ingot_status ig_weight_set_on_device(const struct ig_engine_file *file, const void *const *borrowed,
                                          struct ig_device *device, const struct ig_plan_seats *seats,
                                          const struct ingot_allocator *allocator, struct ig_weight_set **out_set,
                                          struct ingot_error *error) {
    struct ig_weight_set *set = new_set(file, IG_WEIGHTS_DEVICE, borrowed, seats, allocator);
    void *memory = NULL;
    if (!set) return no_memory(sizeof *set, error);
    size_t size = set->size;
    if (set->size == 0) set->size = 64; /* so that there is an address */
    enum ingot_status status = seats ? device->api->allocate(device, set->size, &memory, error) : INGOT_OK;
    if (status != INGOT_OK) {
        ig_error_prefix(error, "weights of %zu bytes", size);
        ig_weight_set_destroy(set, device, allocator);
        return status;
    }
    ig_weight_set_use(set, memory);
    *out_set = set;
    return INGOT_OK;
}
