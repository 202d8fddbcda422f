/* A table of blocks, searched from the front. See spare.h. */
#include "base/spare.h"

/* Smaller blocks are no burden to any allocator. */
#define SMALLEST ((size_t)128 << 10)
/* Blocks that nobody uses and that do not suit: more are not kept. */
enum { MOST_UNUSED = 8 };

/* Is the block for this request? It may be larger, but not much, since it counts as in use as a whole. */
static bool suits(const struct ig_spare *s, size_t size, size_t alignment) {
    return s->memory && !s->is_used && s->size >= size && s->size / 2 <= size && s->alignment >= alignment;
}

/* Takes a block that suits, or a place for a new one; the place may be that of a block that is to be released. NULL: none
 * is left. */
static struct ig_spare *take(struct ig_spares *spares, size_t size, size_t alignment, struct ig_spare *out_old) {
    struct ig_spare *empty = NULL, *unused = NULL;
    int n_unused = 0;
    for (int i = 0; i < IG_MOST_BLOCKS; i++) {
        struct ig_spare *s = &spares->blocks[i];
        if (suits(s, size, alignment)) {
            s->is_used = true;
            return s;
        }
        if (s->is_used) continue;
        if (s->memory) {
            unused = s;
            n_unused++;
        } else {
            empty = s;
        }
    }
    struct ig_spare *place = n_unused >= MOST_UNUSED || !empty ? unused : empty;
    if (place) {
        *out_old = *place;
        *place = (struct ig_spare){.is_used = true};
    }
    return place;
}

static void *spares_alloc(void *user, size_t size, size_t alignment) {
    struct ig_spares *spares = user;
    struct ig_spare old = {0}, *spare = NULL;
    if (size >= SMALLEST) {
        pthread_mutex_lock(&spares->mutex);
        spare = take(spares, size, alignment, &old);
        pthread_mutex_unlock(&spares->mutex);
        ig_release(spares->base, old.memory, old.size);
    }
    if (spare && spare->memory) return spare->memory;
    void *memory = spares->base->alloc(spares->base->user, size, alignment);
    if (spare) {
        pthread_mutex_lock(&spares->mutex);
        *spare = (struct ig_spare){memory, size, alignment, memory != NULL};
        pthread_mutex_unlock(&spares->mutex);
    }
    return memory;
}

static void spares_release(void *user, void *memory, size_t size) {
    struct ig_spares *spares = user;
    bool kept = false;
    if (size >= SMALLEST) {
        pthread_mutex_lock(&spares->mutex);
        for (int i = 0; i < IG_MOST_BLOCKS && !kept; i++) {
            struct ig_spare *s = &spares->blocks[i];
            kept = s->memory == memory;
            if (kept) s->is_used = false;
        }
        pthread_mutex_unlock(&spares->mutex);
    }
    if (!kept) ig_release(spares->base, memory, size);
}

void ig_spares_init(struct ig_spares *spares, const struct ingot_allocator *base) {
    *spares = (struct ig_spares){.allocator = {spares, spares_alloc, spares_release}, .base = base};
    pthread_mutex_init(&spares->mutex, NULL);
}

void ig_spares_deinit(struct ig_spares *spares) {
    for (int i = 0; i < IG_MOST_BLOCKS; i++)
        ig_release(spares->base, spares->blocks[i].memory, spares->blocks[i].size);
    pthread_mutex_destroy(&spares->mutex);
}
