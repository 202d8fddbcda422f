/*
 * The cache of what builds make: levels from near to far (memory, a folder, a server), behind one interface. Entries are opaque
 * bytes under a 128-bit key, which is a hash of everything that the bytes depend on, so that an entry is never changed:
 * it is right, or damaged and dropped. The cache is never needed: whatever fails, callers go on without it.
 *
 * An ingot_cache serves any number of threads. Each build has a session of its own.
 */
#ifndef IG_CACHE_CACHE_H
#define IG_CACHE_CACHE_H

#include "base/error.h"
#include "base/hash/hash.h"
#include "base/memory.h"

/* Stored in entries and names of files: never renumbered. */
enum ig_cache_kind {
    IG_CACHE_KERNEL = 1, /* head: an object file, a cubin or PTX, of one kernel; no body */
    IG_CACHE_STRUCTURE,  /* head, or body if it is large: an engine without the weights that can be replaced */
    IG_CACHE_ENGINE,     /* body: an engine's file */
    IG_CACHE_KIND_END
};
/* "kernel", …; NULL for other numbers. */
const char *ig_cache_kind_name(uint32_t kind);

struct ig_cache_id {
    enum ig_cache_kind kind;
    struct ig_hash128 key;
};

/* What an entry holds: a head, which is compressed, and a body, which is stored as it is and begins on a page of its
 * file, so that gigabytes of weights can be mapped, cloned or copied from there. */
struct ig_cache_content {
    const char *label; /* for people, on one line: what this is, and for which target; cut at 255 bytes */
    const void *head;
    size_t head_size;
    const void *body;
    uint64_t body_size;
};

/* Content that was found, until it is released. */
struct ig_cache_found {
    struct ig_cache_content content;
    int fd; /* a file that has the body at `body_at`; -1: there is none, or no body */
    uint64_t body_at;
    void *owner;
    void (*release)(void *owner);
};
void ig_cache_found_release(struct ig_cache_found *found);

enum ig_cache_answer {
    IG_CACHE_MISS,
    IG_CACHE_HIT,
    IG_CACHE_TROUBLE, /* as a miss; the error says what is wrong, for people */
};

/* A level. All functions may be called by any thread at any time. */
struct ig_cache_level {
    const struct ig_cache_level_api *api;
};
struct ig_cache_level_api {
    const char *name;
    /* Damaged entries are trouble once: they are removed. */
    enum ig_cache_answer (*get)(struct ig_cache_level *level, const struct ig_cache_id *id,
                                struct ig_cache_found *out_found, struct ingot_error *error);
    /* An entry that is there already stays. What is larger than the level is not stored, which is no failure. */
    enum ingot_status (*put)(struct ig_cache_level *level, const struct ig_cache_id *id,
                             const struct ig_cache_content *content, struct ingot_error *error);
    /* The file whose bytes stand for the things being built (lock.h), opened anew; -1: there is none. NULL: builders in
     * other processes do not see this level. */
    int (*open_locks)(struct ig_cache_level *level);
    void (*destroy)(struct ig_cache_level *level);
    bool is_remote; /* each failure may take as long as a time limit */
};

enum { IG_CACHE_LEVELS = 4 };
struct ingot_cache {
    const struct ingot_allocator *allocator;
    struct ig_cache_level *levels[IG_CACHE_LEVELS]; /* near ones first */
    unsigned n_levels;
    struct ig_cache_level *disk; /* one of them; NULL: none */
    unsigned wait_seconds;       /* the longest that one waits for another builder */
    uint64_t max_engine;         /* bytes of the largest engine that is kept; 0: none are */
};

/* ---- Sessions: what one build does with the cache ---- */

/* Called with a sentence on trouble with the cache. */
struct ig_cache_notes {
    void (*note)(void *user, const char *text); /* NULL: silent */
    void *user;
};

struct ig_cache_session {
    struct ingot_cache *cache;
    struct ig_cache_notes notes;
    bool is_full[IG_CACHE_LEVELS]; /* storing there failed: not tried again */
    bool is_gone[IG_CACHE_LEVELS]; /* a server failed: not asked again */
    bool locks_opened;
    int locks;
};

void ig_cache_begin(struct ig_cache_session *session, struct ingot_cache *cache, const struct ig_cache_notes *notes);
/* Gives up the session's claims. */
void ig_cache_end(struct ig_cache_session *session);

/* Asks the levels in turn; those before the one that has it get a copy. */
bool ig_cache_get(struct ig_cache_session *session, const struct ig_cache_id *id, struct ig_cache_found *out_found);
/* The same, but servers are not asked: whether somebody on this machine has built it by now. */
bool ig_cache_get_near(struct ig_cache_session *session, const struct ig_cache_id *id,
                       struct ig_cache_found *out_found);
/* Stores in all levels. A level that cannot be written is left out from then on, with one note. */
void ig_cache_put(struct ig_cache_session *session, const struct ig_cache_id *id,
                  const struct ig_cache_content *content);

/*
 * Building once: who wants to build a thing claims it first, asks the cache again, builds it, stores it and gives the
 * claim up. If the claim is another's, the thing will soon be in the cache, or its builder dies, with which the claim
 * ends. Who waits may have no claims of the same kind, nor of kernels, which could be waited for in a circle: a structure's
 * builder may wait for kernels.
 */
/* False: another session has it, in this process or another. */
bool ig_cache_claim(struct ig_cache_session *session, const struct ig_cache_id *id);
/* Waits for it; for too long (wait_seconds), and it is built twice. */
void ig_cache_claim_wait(struct ig_cache_session *session, const struct ig_cache_id *id);
void ig_cache_unclaim(struct ig_cache_session *session, const struct ig_cache_id *id);
void ig_cache_unclaim_all(struct ig_cache_session *session);

#endif
