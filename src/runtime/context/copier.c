/*
 * Shared host copies; see copier.h.
 *
 * A thread takes a piece by decrementing `ticket`, whose upper half is the number of the copy and whose lower half
 * counts the pieces left. The description of a copy changes only once all its pieces have been taken and completed. So
 * a successful compare-and-swap on a ticket proves that the description belongs to that copy, however long the thread
 * was delayed in between.
 */
#include "runtime/context/copier.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"

#define CACHE_LINE 64
/* Large enough to make the cost of taking a piece negligible, small enough for all threads to finish at about the
 * same time. */
#define PIECE ((size_t)256 << 10)
#define MAX_PIECES 1024
#define MAX_HELPERS 15
#define STACK_BYTES ((size_t)256 << 10)

struct ig_copier {
    const struct ingot_allocator *allocator;
    pthread_t helpers[MAX_HELPERS];
    unsigned n_helpers;
    pthread_mutex_t lock;
    pthread_cond_t called;
    uint32_t calls; /* number of copies that helpers were woken for; guarded by `lock`, like `stopping` */
    bool stopping;
    /* The current copy. */
    char *to;
    const char *from;
    size_t size, piece;
    uint32_t n_pieces, n_there; /* n_there: length of the finished prefix, used by the caller only */
    _Alignas(CACHE_LINE) atomic_ullong ticket;
    _Alignas(CACHE_LINE) atomic_uint there[MAX_PIECES]; /* by piece: the number of the last copy that completed it */
};

static uint32_t copy_of(uint64_t ticket) {
    return (uint32_t)(ticket >> 32);
}

/* Takes and copies the next piece; false if none is left. */
static bool copy_piece(struct ig_copier *copier) {
    uint64_t ticket = atomic_load_explicit(&copier->ticket, memory_order_acquire);
    do {
        if ((uint32_t)ticket == 0) return false;
    } while (!atomic_compare_exchange_weak_explicit(&copier->ticket, &ticket, ticket - 1, memory_order_acquire,
                                                    memory_order_acquire));
    uint32_t piece = copier->n_pieces - (uint32_t)ticket;
    size_t at = piece * copier->piece, left = copier->size - at;
    memcpy(copier->to + at, copier->from + at, left < copier->piece ? left : copier->piece);
    atomic_store_explicit(&copier->there[piece], copy_of(ticket), memory_order_release);
    return true;
}

void ig_copier_begin(struct ig_copier *copier, void *to, const void *from, size_t size) {
    uint32_t number = copy_of(atomic_load_explicit(&copier->ticket, memory_order_relaxed)) + 1;
    if (number == 0) number = 1; /* 0 marks pieces that were never completed */
    copier->to = to;
    copier->from = from;
    copier->size = size;
    copier->piece = size / MAX_PIECES < PIECE ? PIECE : (size / MAX_PIECES / CACHE_LINE + 1) * CACHE_LINE;
    copier->n_pieces = (uint32_t)((size + copier->piece - 1) / copier->piece);
    copier->n_there = 0;
    atomic_store_explicit(&copier->ticket, (uint64_t)number << 32 | copier->n_pieces, memory_order_release);
    if (copier->n_helpers == 0 || copier->n_pieces < 2) return;
    pthread_mutex_lock(&copier->lock);
    copier->calls++;
    pthread_cond_broadcast(&copier->called);
    pthread_mutex_unlock(&copier->lock);
}

size_t ig_copier_advance(struct ig_copier *copier) {
    uint32_t number = copy_of(atomic_load_explicit(&copier->ticket, memory_order_relaxed)), before = copier->n_there;
    while (copier->n_there < copier->n_pieces) {
        if (atomic_load_explicit(&copier->there[copier->n_there], memory_order_acquire) == number) {
            copier->n_there++;
        } else if (copier->n_there > before) {
            break;
        } else if (!copy_piece(copier)) {
            sched_yield(); /* a helper is still copying this piece */
        }
    }
    size_t bytes = copier->n_there * copier->piece;
    return bytes < copier->size ? bytes : copier->size;
}

static void *help(void *argument) {
    struct ig_copier *copier = argument;
    uint32_t seen = 0;
    for (;;) {
        pthread_mutex_lock(&copier->lock);
        while (copier->calls == seen && !copier->stopping)
            pthread_cond_wait(&copier->called, &copier->lock);
        seen = copier->calls;
        bool stopping = copier->stopping;
        pthread_mutex_unlock(&copier->lock);
        if (stopping) return NULL;
        while (copy_piece(copier))
            continue;
    }
}

/* Blocks all signals in helpers: the application's handlers must not run on our threads. */
static void start_helpers(struct ig_copier *copier, unsigned count) {
    sigset_t all, old;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (copier->n_helpers < count &&
           pthread_create(&copier->helpers[copier->n_helpers], &attributes, help, copier) == 0)
        copier->n_helpers++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
}

enum ingot_status ig_copier_create(unsigned threads, const struct ingot_allocator *allocator,
                                   struct ig_copier **out_copier, struct ingot_error *error) {
    struct ig_copier *copier = ig_allocate(allocator, sizeof *copier, CACHE_LINE);
    if (!copier) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for the host's copies");
    copier->allocator = allocator;
    pthread_mutex_init(&copier->lock, NULL);
    pthread_cond_init(&copier->called, NULL);
    unsigned helpers = threads > 1 ? threads - 1 : 0;
    start_helpers(copier, helpers < MAX_HELPERS ? helpers : MAX_HELPERS);
    *out_copier = copier;
    return INGOT_OK;
}

void ig_copier_destroy(struct ig_copier *copier) {
    if (!copier) return;
    pthread_mutex_lock(&copier->lock);
    copier->stopping = true;
    pthread_cond_broadcast(&copier->called);
    pthread_mutex_unlock(&copier->lock);
    for (unsigned i = 0; i < copier->n_helpers; i++)
        pthread_join(copier->helpers[i], NULL);
    pthread_cond_destroy(&copier->called);
    pthread_mutex_destroy(&copier->lock);
    ig_release(copier->allocator, copier, sizeof *copier);
}
