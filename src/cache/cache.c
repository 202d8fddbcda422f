/* Levels in turn, and one session's use of them; see cache.h. */
#include "cache/cache.h"

#include <stdio.h>
#include <unistd.h>

#include "cache/lock.h"

const char *ig_cache_kind_name(uint32_t kind) {
    static const char *const names[IG_CACHE_KIND_END] = {
        [IG_CACHE_KERNEL] = "kernel", [IG_CACHE_STRUCTURE] = "structure", [IG_CACHE_ENGINE] = "engine"};
    return kind < IG_CACHE_KIND_END ? names[kind] : NULL;
}

void ig_cache_found_release(struct ig_cache_found *found) {
    if (found->release) found->release(found->owner);
    *found = (struct ig_cache_found){.fd = -1};
}

static void note(const struct ig_cache_session *s, const char *text) {
    if (s->notes.note) s->notes.note(s->notes.user, text);
}

void ig_cache_begin(struct ig_cache_session *s, struct ingot_cache *cache, const struct ig_cache_notes *notes) {
    *s = (struct ig_cache_session){.cache = cache, .notes = *notes, .locks = -1};
}

void ig_cache_end(struct ig_cache_session *s) {
    if (s->locks >= 0) close(s->locks);
    s->locks = -1;
}

static void put_at(struct ig_cache_session *s, unsigned level, const struct ig_cache_id *id,
                   const struct ig_cache_content *content) {
    struct ig_cache_level *l = s->cache->levels[level];
    struct ingot_error error;
    if (s->is_gone[level] || s->is_full[level] || l->api->put(l, id, content, &error) == INGOT_OK) return;
    s->is_full[level] = true;
    char text[INGOT_ERROR_MESSAGE_SIZE + 64];
    snprintf(text, sizeof text, "nothing more is added to the cache: %s", error.message);
    note(s, text);
}

static void complain(struct ig_cache_session *s, unsigned level, const struct ingot_error *error) {
    char text[INGOT_ERROR_MESSAGE_SIZE + 64];
    s->is_gone[level] = s->cache->levels[level]->api->is_remote && error->status == INGOT_IO;
    snprintf(text, sizeof text, "%s%s", error->message, s->is_gone[level] ? "; it is not asked again" : "");
    note(s, text);
}

static bool get(struct ig_cache_session *s, const struct ig_cache_id *id, bool is_near,
                struct ig_cache_found *out_found) {
    for (unsigned i = 0; i < s->cache->n_levels; i++) {
        struct ig_cache_level *l = s->cache->levels[i];
        struct ingot_error error;
        if (s->is_gone[i] || (is_near && l->api->is_remote)) continue;
        enum ig_cache_answer answer = l->api->get(l, id, out_found, &error);
        if (answer == IG_CACHE_TROUBLE) complain(s, i, &error);
        if (answer != IG_CACHE_HIT) continue;
        while (i-- > 0)
            put_at(s, i, id, &out_found->content);
        return true;
    }
    return false;
}

bool ig_cache_get(struct ig_cache_session *s, const struct ig_cache_id *id, struct ig_cache_found *out_found) {
    return get(s, id, false, out_found);
}

bool ig_cache_get_near(struct ig_cache_session *s, const struct ig_cache_id *id, struct ig_cache_found *out_found) {
    return get(s, id, true, out_found);
}

void ig_cache_put(struct ig_cache_session *s, const struct ig_cache_id *id, const struct ig_cache_content *content) {
    for (unsigned i = 0; i < s->cache->n_levels; i++)
        put_at(s, i, id, content);
}

/* ---- Claims ---- */

/* The session's own opening of the file: claims belong to it, and end with it. */
static int locks_of(struct ig_cache_session *s) {
    struct ig_cache_level *disk = s->cache->disk;
    if (!s->locks_opened && disk) s->locks = disk->api->open_locks(disk);
    s->locks_opened = true;
    return s->locks;
}

bool ig_cache_claim(struct ig_cache_session *s, const struct ig_cache_id *id) {
    int locks = locks_of(s);
    return locks < 0 || ig_lock_try(locks, id);
}

void ig_cache_claim_wait(struct ig_cache_session *s, const struct ig_cache_id *id) {
    int locks = locks_of(s);
    if (locks < 0 || ig_lock_wait(locks, id, s->cache->wait_seconds)) return;
    char text[128];
    snprintf(text, sizeof text, "another process has been building the same for %u s: it is built twice",
             s->cache->wait_seconds);
    note(s, text);
}

void ig_cache_unclaim(struct ig_cache_session *s, const struct ig_cache_id *id) {
    if (s->locks >= 0) ig_lock_release(s->locks, id);
}

void ig_cache_unclaim_all(struct ig_cache_session *s) {
    if (s->locks >= 0) ig_lock_release_all(s->locks);
}
