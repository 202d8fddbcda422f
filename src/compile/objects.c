/* Code from the cache, or compiled; see objects.h. */
#include "compile/objects.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "toolchain/rename.h"

/* One source of the build. */
struct slot {
    struct ig_cache_id id;
    struct ig_object_code object;   /* no bytes: not known yet */
    const struct ig_source *source; /* while it is wanted */
    bool is_new;                    /* compiled by this build */
};

struct ig_objects {
    struct ig_job *job;
    const struct ig_kernel_compiler *compiler;
    struct ig_cache_session *session; /* NULL: no cache */
    const char *identity[2];          /* by is_portable; NULL: not yet asked for */
    struct ig_map by_key;             /* the numbers of slots */
    IG_VEC(struct slot) slots;
    unsigned cached, compiled;
};

struct ig_objects *ig_objects_create(struct ig_job *job, const struct ig_kernel_compiler *compiler,
                                     struct ig_cache_session *session) {
    struct ig_objects *o = IG_NEW(job, struct ig_objects);
    *o = (struct ig_objects){.job = job, .compiler = compiler, .session = session};
    ig_map_init(&o->by_key, job);
    return o;
}

void ig_objects_count(const struct ig_objects *o, unsigned *out_cached, unsigned *out_compiled) {
    *out_cached = o->cached;
    *out_compiled = o->compiled;
}

/* ---- Keys -------------------------------------------------------------------------------------------------------- */

/* Without a cache, keys need to be right within this build only. */
static const char *identity(struct ig_objects *o, bool is_portable) {
    if (!o->session) return "";
    const char **known = &o->identity[is_portable];
    if (!*known) *known = ig_kernel_compiler_identity(o->job, o->compiler, is_portable);
    return *known;
}

static void add(struct ig_hash_stream *stream, const char *text) {
    ig_hash_stream_add(stream, text, strlen(text) + 1);
}

static struct ig_cache_id id_of(struct ig_objects *o, bool is_portable, const struct ig_source *source) {
    struct ig_hash_stream stream;
    ig_hash_stream_begin(&stream);
    add(&stream, "ingot " INGOT_VERSION);
    add(&stream, is_portable ? "portable" : "");
    add(&stream, identity(o, is_portable));
    add(&stream, ig_source_strip(o->job, source->text));
    return (struct ig_cache_id){IG_CACHE_KERNEL, ig_hash_stream_end(&stream)};
}

static uint32_t slot_of(struct ig_objects *o, bool is_portable, const struct ig_source *source) {
    const struct ig_cache_id id = id_of(o, is_portable, source);
    uint32_t number;
    if (ig_map_get(&o->by_key, &id.key, sizeof id.key, &number)) return number;
    ig_map_put(&o->by_key, &id.key, sizeof id.key, o->slots.count);
    IG_PUSH(o->job, &o->slots, (struct slot){.id = id});
    return o->slots.count - 1;
}

/* ---- One call ---------------------------------------------------------------------------------------------------- */

struct request {
    struct ig_job *job;
    struct ig_objects *objects;
    IG_VEC(uint32_t) open; /* slots whose code is not known yet */
    IG_VEC(uint32_t) mine; /* of these, the ones to compile here */
    bool is_portable;
    unsigned left, total;
    void (*progress)(void *user, unsigned done, unsigned total);
    void *user;
};

/* PTX goes with a cubin, and support with everything. */
static bool is_counted(const struct request *r, const struct slot *slot) {
    return !r->is_portable && slot->source->text != ig_toolchain_support.text;
}

static void report(const struct request *r) {
    if (r->progress && r->left < r->total) r->progress(r->user, r->total - r->left, r->total);
}

/* "contract, NVRTC 13.0" */
static void write_label(const struct request *r, const struct ig_source *source, char *label, size_t size) {
    const struct ig_kernel_compiler *compiler = r->objects->compiler;
    const char *last = strrchr(source->symbol, '_');
    const int length = (int)(last ? (size_t)(last - source->symbol) : strlen(source->symbol));
    snprintf(label, size, "%.*s, %s%s, %s", length, source->symbol, compiler->arch, r->is_portable ? " (PTX)" : "",
             compiler->version);
}

/* Asks the cache; `again`, after a first time: whether somebody has built it meanwhile. */
static bool fetch(struct request *r, struct slot *slot, bool again) {
    struct ig_objects *o = r->objects;
    struct ig_cache_found found;
    if (!(again ? ig_cache_get_near : ig_cache_get)(o->session, &slot->id, &found)) return false;
    /* Allocating may raise; what was found is not in the arena. */
    void *bytes = ig_arena_alloc(&o->job->arena, found.content.head_size + 1);
    if (bytes) memcpy(bytes, found.content.head, found.content.head_size);
    slot->object = (struct ig_object_code){bytes, found.content.head_size};
    ig_cache_found_release(&found);
    if (!bytes) ig_raise(r->job, INGOT_OUT_OF_MEMORY, "out of memory for code from the cache");
    o->cached += is_counted(r, slot);
    r->left--;
    return true;
}

/* Asks the cache for all open slots, and keeps those that it lacks. */
static void fetch_all(struct request *r) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->open.count; i++) {
        if (!fetch(r, &r->objects->slots.at[r->open.at[i]], false)) r->open.at[kept++] = r->open.at[i];
    }
    r->open.count = kept;
}

static void store(void *user, unsigned index, const struct ig_object_code *object) {
    struct request *r = user;
    struct ig_objects *o = r->objects;
    struct slot *slot = &o->slots.at[r->mine.at[index]];
    slot->object = *object;
    slot->is_new = true;
    o->compiled += is_counted(r, slot);
    r->left--;
    if (o->session) {
        char label[256];
        write_label(r, slot->source, label, sizeof label);
        const struct ig_cache_content content = {label, object->bytes, object->size, NULL, 0};
        ig_cache_put(o->session, &slot->id, &content);
        ig_cache_unclaim(o->session, &slot->id);
    }
    report(r);
}

static void compile_mine(struct request *r) {
    struct ig_source *sources = IG_NEW_ARRAY(r->job, struct ig_source, r->mine.count + 1);
    for (uint32_t i = 0; i < r->mine.count; i++)
        sources[i] = *r->objects->slots.at[r->mine.at[i]].source;
    ig_kernel_compiler_objects(r->job, r->objects->compiler, r->is_portable, sources, r->mine.count, store, r);
}

/* A slot whose claim this session has: somebody else may have had it before, and built it. */
static void take(struct request *r, uint32_t number) {
    struct slot *slot = &r->objects->slots.at[number];
    if (!fetch(r, slot, true)) {
        IG_PUSH(r->job, &r->mine, number);
        return;
    }
    ig_cache_unclaim(r->objects->session, &slot->id);
    report(r);
}

/* Divides the open slots into this session's and those that others build. Waits only if there is nothing else to do. */
static void claim(struct request *r) {
    struct ig_cache_session *session = r->objects->session;
    uint32_t kept = 0;
    r->mine.count = 0;
    for (uint32_t i = 0; i < r->open.count; i++) {
        uint32_t number = r->open.at[i];
        if (ig_cache_claim(session, &r->objects->slots.at[number].id)) {
            take(r, number);
        } else {
            r->open.at[kept++] = number;
        }
    }
    bool is_idle = kept == r->open.count;
    r->open.count = kept;
    if (!is_idle) return;
    uint32_t number = r->open.at[--r->open.count];
    ig_cache_claim_wait(session, &r->objects->slots.at[number].id);
    take(r, number);
}

static void drop_claims(void *resource) {
    struct ig_objects *o = resource;
    ig_cache_unclaim_all(o->session);
}

static void build(struct request *r) {
    struct ig_objects *o = r->objects;
    if (!o->session) {
        for (uint32_t i = 0; i < r->open.count; i++)
            IG_PUSH(r->job, &r->mine, r->open.at[i]);
        compile_mine(r);
        return;
    }
    ig_defer(r->job, drop_claims, o);
    while (r->open.count > 0) {
        claim(r);
        compile_mine(r);
    }
    ig_undefer(r->job, o);
}

void ig_objects_get(struct ig_job *job, struct ig_objects *o, bool is_portable, const struct ig_source *sources,
                    unsigned count, void (*progress)(void *user, unsigned done, unsigned total), void *user,
                    struct ig_object_code *out_objects, bool *out_new) {
    uint32_t *numbers = IG_NEW_ARRAY(job, uint32_t, count + 1);
    struct request r = {.job = job, .objects = o, .is_portable = is_portable, .total = count, .progress = progress};
    r.user = user;
    for (uint32_t i = 0; i < o->slots.count; i++)
        o->slots.at[i].source = NULL;
    for (unsigned i = 0; i < count; i++) {
        numbers[i] = slot_of(o, is_portable, &sources[i]);
        struct slot *slot = &o->slots.at[numbers[i]];
        if (slot->object.bytes || slot->source) continue;
        slot->source = &sources[i];
        IG_PUSH(job, &r.open, numbers[i]);
    }
    r.left = r.open.count;
    if (o->session) fetch_all(&r);
    report(&r);
    build(&r);
    for (unsigned i = 0; i < count; i++) {
        out_objects[i] = o->slots.at[numbers[i]].object;
        if (out_new) out_new[i] = o->slots.at[numbers[i]].is_new;
    }
}
