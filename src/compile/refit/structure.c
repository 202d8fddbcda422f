/* Structures in the cache; see structure.h. */
#include "compile/refit/structure.h"

#include "base/text.h"
#include "compile/refit/refit.h"
#include "compile/variants/tuning.h"

struct ig_structures {
    struct ig_job *job;
    const struct ingot_build_options *options;
    const struct ig_initializers *initializers;
    struct ig_cache_session *session;
    struct ig_cache_id id;
    struct ig_cache_found found;
    struct ig_engine_file file; /* in what was found */
    bool is_open;               /* there is one */
    bool is_unusable;           /* an entry is there, but of no use: nothing can be stored in its place */
};

static void close_found(struct ig_structures *s) {
    if (s->is_open) ig_engine_close(&s->file);
    s->is_open = false;
    ig_cache_found_release(&s->found);
}

static void end(void *resource) {
    struct ig_structures *s = resource;
    close_found(s);
    ig_cache_unclaim_all(s->session);
}

struct ig_structures *ig_structures_open(struct ig_graph *graph, const struct ingot_build_options *options,
                                         const struct ig_target_choice *target,
                                         const struct ig_kernel_compiler *compiler, struct ig_cache_session *session) {
    struct ig_job *job = graph->job;
    if (!session || options->dump_after || options->verify_passes || ig_tuning_is_wanted(options)) return NULL;
    struct ig_structures *s = IG_NEW(job, struct ig_structures);
    *s =
        (struct ig_structures){.job = job, .options = options, .initializers = graph->initializers, .session = session};
    s->found.fd = -1;
    s->id = (struct ig_cache_id){IG_CACHE_STRUCTURE, ig_structure_key(graph, options, target, compiler)};
    ig_defer(job, end, s);
    return s;
}

void ig_structures_close(struct ig_structures *s) {
    ig_undefer(s->job, s);
    end(s);
}

/* Opens the entry of the present key; `again`: after a first time. False: there is none. */
static bool look(struct ig_structures *s, bool again) {
    struct ingot_error error;
    if (!(again ? ig_cache_get_near : ig_cache_get)(s->session, &s->id, &s->found)) return false;
    const struct ig_cache_content *c = &s->found.content;
    const bool is_large = c->body_size > 0;
    enum ingot_status status =
        ig_engine_open_memory(is_large ? c->body : c->head, is_large ? (size_t)c->body_size : c->head_size,
                              INGOT_VERIFY_ALL, s->job->allocator, &s->file, &error);
    if (status == INGOT_OUT_OF_MEMORY) ig_raise_error(s->job, &error);
    s->is_open = status == INGOT_OK;
    s->is_unusable = !s->is_open;
    if (s->is_unusable && s->options->note)
        s->options->note(s->options->note_user,
                         ig_format(s->job, "a structure in the cache is of no use: %s", error.message));
    return true;
}

/* The same; if there is none, the claim to build it is had. */
static bool look_or_claim(struct ig_structures *s) {
    if (look(s, false)) return true;
    if (!ig_cache_claim(s->session, &s->id)) ig_cache_claim_wait(s->session, &s->id);
    if (!look(s, true)) return false;
    ig_cache_unclaim(s->session, &s->id);
    return true;
}

const struct ig_engine_file *ig_structures_find(struct ig_structures *s) {
    const uint32_t most = s->initializers ? s->initializers->list.count : 0;
    for (uint32_t steps = 0; look_or_claim(s) && s->is_open; steps++) {
        s->is_unusable = steps > most || !ig_refit_is_of(&s->file, s->initializers);
        if (s->is_unusable) break;
        if (ig_refit_fits(&s->file, s->initializers)) return &s->file;
        s->id.key = ig_structure_next_key(s->id.key, &s->file.refit, s->initializers);
        close_found(s);
    }
    close_found(s);
    return NULL;
}

void ig_structures_keep(struct ig_structures *s, const char *label, const struct ig_engine_memory *engine) {
    enum { LARGE = 16 << 20 }; /* mostly weights, which hardly become smaller by compression */
    struct ig_cache_content content = {.label = label};
    if (engine->size < LARGE) {
        content.head = engine->data;
        content.head_size = engine->size;
    } else {
        content.body = engine->data;
        content.body_size = engine->size;
    }
    if (!s->is_unusable) ig_cache_put(s->session, &s->id, &content);
    ig_cache_unclaim_all(s->session);
}

/* ---- Engines ----------------------------------------------------------------------------------------------------- */

bool ig_structures_keeps_engine(const struct ig_structures *s, uint64_t weights_size) {
    return weights_size > 0 && weights_size <= s->session->cache->max_engine;
}

static struct ig_cache_id engine_id(const struct ig_structures *s) {
    return (struct ig_cache_id){IG_CACHE_ENGINE, ig_structure_engine_key(s->id.key, s->initializers)};
}

static void release_found(void *found) {
    ig_cache_found_release(found);
}

bool ig_structures_copy_engine(struct ig_structures *s, const struct ig_engine_sink *sink) {
    const struct ig_cache_id id = engine_id(s);
    struct ig_cache_found *found = IG_NEW(s->job, struct ig_cache_found);
    struct ingot_error error;
    if (!ig_cache_get(s->session, &id, found)) return false;
    ig_defer(s->job, release_found, found);
    const struct ig_cache_content *c = &found->content;
    if (sink->write(sink->user, c->body, (size_t)c->body_size, &error) != INGOT_OK) ig_raise_error(s->job, &error);
    ig_undefer(s->job, found);
    ig_cache_found_release(found);
    return true;
}

void ig_structures_keep_engine(struct ig_structures *s, const char *label, const struct ig_engine_memory *engine) {
    const struct ig_cache_id id = engine_id(s);
    const struct ig_cache_content content = {.label = label, .body = engine->data, .body_size = engine->size};
    if (engine->size <= s->session->cache->max_engine) ig_cache_put(s->session, &id, &content);
}
