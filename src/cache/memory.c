/* Entries in a hash table of chains, and in a list by last use; see memory.h. */
#include "cache/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { CHAINS = 1024 };

struct entry {
    struct ig_cache_id id;
    struct entry *next;          /* in its chain */
    struct entry *newer, *older; /* by last use */
    const struct ingot_allocator *allocator;
    atomic_uint references; /* the table's, and one for each that was found and is not released */
    size_t size;            /* of this allocation: head and body follow */
    size_t head_size, body_size;
    char label[256];
    _Alignas(64) unsigned char bytes[];
};

struct memory {
    struct ig_cache_level base;
    const struct ingot_allocator *allocator;
    size_t bytes, max_bytes;
    pthread_mutex_t lock; /* of all that follows, and `bytes` */
    struct entry *chains[CHAINS];
    struct entry *newest, *oldest;
};

static void drop(void *owner) {
    struct entry *e = owner;
    if (atomic_fetch_sub(&e->references, 1) == 1) ig_release(e->allocator, e, e->size);
}

/* ---- With the lock held ---- */

static struct entry **chain_of(struct memory *m, const struct ig_cache_id *id) {
    return &m->chains[(id->key.low ^ (uint64_t)id->kind) % CHAINS];
}

static struct entry *find(struct memory *m, const struct ig_cache_id *id) {
    for (struct entry *e = *chain_of(m, id); e; e = e->next) {
        if (e->id.kind == id->kind && e->id.key.low == id->key.low && e->id.key.high == id->key.high) return e;
    }
    return NULL;
}

static void unlist(struct memory *m, struct entry *e) {
    *(e->newer ? &e->newer->older : &m->newest) = e->older;
    *(e->older ? &e->older->newer : &m->oldest) = e->newer;
}

static void list_newest(struct memory *m, struct entry *e) {
    e->newer = NULL;
    e->older = m->newest;
    *(m->newest ? &m->newest->newer : &m->oldest) = e;
    m->newest = e;
}

static void evict(struct memory *m, struct entry *e) {
    struct entry **at = chain_of(m, &e->id);
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    unlist(m, e);
    m->bytes -= e->size;
    drop(e);
}

/* ---- The level ---- */

static enum ig_cache_answer get(struct ig_cache_level *level, const struct ig_cache_id *id,
                                struct ig_cache_found *out_found, struct ingot_error *error) {
    struct memory *m = (struct memory *)level;
    pthread_mutex_lock(&m->lock);
    struct entry *e = find(m, id);
    if (e) {
        unlist(m, e);
        list_newest(m, e);
        atomic_fetch_add(&e->references, 1);
    }
    pthread_mutex_unlock(&m->lock);
    if (!e) return IG_CACHE_MISS;
    *out_found = (struct ig_cache_found){
        .content = {e->label, e->bytes, e->head_size, NULL, e->body_size}, .fd = -1, .owner = e, .release = drop};
    out_found->content.body = e->bytes + e->head_size;
    return IG_CACHE_HIT;
}

static struct entry *copy(const struct memory *m, const struct ig_cache_id *id, const struct ig_cache_content *content,
                          size_t size) {
    struct entry *e = ig_allocate(m->allocator, size, _Alignof(struct entry));
    if (!e) return NULL;
    e->id = *id;
    e->allocator = m->allocator;
    e->references = 1;
    e->size = size;
    e->head_size = content->head_size;
    e->body_size = (size_t)content->body_size;
    snprintf(e->label, sizeof e->label, "%s", content->label);
    if (e->head_size > 0) memcpy(e->bytes, content->head, e->head_size);
    if (e->body_size > 0) memcpy(e->bytes + e->head_size, content->body, e->body_size);
    return e;
}

/* Without memory for a copy there is none. */
static enum ingot_status put(struct ig_cache_level *level, const struct ig_cache_id *id,
                             const struct ig_cache_content *content, struct ingot_error *error) {
    struct memory *m = (struct memory *)level;
    const size_t most = m->max_bytes / 4;
    if (content->body_size > most || content->head_size > most - content->body_size) return INGOT_OK;
    struct entry *e = copy(m, id, content, sizeof *e + content->head_size + (size_t)content->body_size);
    if (!e) return INGOT_OK;
    pthread_mutex_lock(&m->lock);
    bool is_new = !find(m, id);
    if (is_new) {
        struct entry **chain = chain_of(m, id);
        e->next = *chain;
        *chain = e;
        list_newest(m, e);
        m->bytes += e->size;
        while (m->bytes > m->max_bytes)
            evict(m, m->oldest);
    }
    pthread_mutex_unlock(&m->lock);
    if (!is_new) drop(e);
    return INGOT_OK;
}

static void destroy(struct ig_cache_level *level) {
    struct memory *m = (struct memory *)level;
    while (m->oldest)
        evict(m, m->oldest);
    pthread_mutex_destroy(&m->lock);
    ig_release(m->allocator, m, sizeof *m);
}

static const struct ig_cache_level_api api = {"memory", get, put, NULL, destroy, false};

struct ig_cache_level *ig_cache_memory_create(const struct ingot_allocator *allocator, size_t max_bytes) {
    struct memory *m = ig_allocate(allocator, sizeof *m, _Alignof(struct memory));
    if (!m) return NULL;
    m->base.api = &api;
    m->allocator = allocator;
    m->max_bytes = max_bytes;
    pthread_mutex_init(&m->lock, NULL);
    return &m->base;
}
