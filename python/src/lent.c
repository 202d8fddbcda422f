/*
 * Tensors whose memory an engine's kernels read in place (ingot_engine_refit with `borrow`): they are kept as long as any run
 * might. A list that is taken and put back as a whole, so that several threads may refit and run.
 */
#include "ingot_python.h"

/* Runs after a refit that look whether what it replaced is free: sessions take new weights at their next run. */
enum { LOOKS = 16 };

struct lent {
    struct array array;
    struct lent *next;
};

static void push(struct engine *engine, struct lent *first) {
    struct lent *last = first;
    if (!first) return;
    while (last->next)
        last = last->next;
    last->next = atomic_load(&engine->lent);
    while (!atomic_compare_exchange_weak(&engine->lent, &last->next, first))
        continue;
}

/* Of two with the same memory, one is enough. */
static bool is_among(const struct lent *list, const void *data) {
    while (list && list->array.tensor.data != data)
        list = list->next;
    return list != NULL;
}

/* Frees what nobody reads. */
static void prune(struct engine *engine) {
    struct lent *kept = NULL, *freed = NULL;
    for (struct lent *at = atomic_exchange(&engine->lent, NULL), *next; at; at = next) {
        const void *data = at->array.tensor.data;
        const bool stays = !is_among(kept, data) && ingot_engine_borrows(engine->engine, data);
        struct lent **list = stays ? &kept : &freed;
        next = at->next;
        at->next = *list;
        *list = at;
    }
    push(engine, kept);
    lent_free(freed); /* last: this may run any code */
}

struct lent *lent_new(size_t n) {
    struct lent *first = NULL;
    for (size_t i = 0; i < n; i++) {
        struct lent *lent = PyMem_Calloc(1, sizeof *lent);
        if (!lent) {
            lent_free(first);
            PyErr_NoMemory();
            return NULL;
        }
        lent->next = first;
        first = lent;
    }
    return first;
}

void lent_free(struct lent *first) {
    for (struct lent *next; first; first = next) {
        next = first->next;
        array_release(&first->array);
        PyMem_Free(first);
    }
}

void lent_keep(struct engine *engine, struct lent *room, struct array *arrays) {
    size_t i = 0;
    for (struct lent *at = room; at; at = at->next) {
        struct array *array = &arrays[i++];
        at->array = *array;
        array->has_buffer = false; /* moved */
        array->managed = NULL;
        array->managed_old = NULL;
    }
    if (atomic_load(&engine->lent)) atomic_store(&engine->looks, LOOKS);
    push(engine, room);
    prune(engine);
}

void lent_look(struct engine *engine) {
    atomic_fetch_sub(&engine->looks, 1);
    prune(engine);
}
