/* ingot_engine_*: loading, sharing and describing engines. */
#include "api/engine.h"

#include <string.h>

#include "api/group.h"
#include "api/options.h"
#include "base/memory.h"
#include "engine/plan_view.h"
#include "runtime/frame/shape.h"
#include "runtime/frame/uncaptured.h"

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

struct source {
    const char *path; /* NULL: memory */
    const void *data;
    size_t size;
};

static size_t flags_size(const struct ingot_engine *engine) {
    return (engine->file.refit.n_initializers + (size_t)1) * sizeof *engine->is_in_place;
}

static enum ingot_status open_source(const struct source *source, enum ingot_verify verify,
                                     const struct ingot_allocator *allocator, struct ig_engine_file *out_file,
                                     struct ingot_error *error) {
    if (source->path) return ig_engine_open(source->path, verify, allocator, out_file, error);
    return ig_engine_open_memory(source->data, source->size, verify, allocator, out_file, error);
}

/* Closes the file on failure. */
static enum ingot_status allocate_flags(struct ingot_engine *engine, const struct ingot_allocator *allocator,
                                        struct ingot_error *error) {
    engine->is_in_place = ig_allocate(allocator, flags_size(engine), _Alignof(_Atomic bool));
    if (engine->is_in_place) return INGOT_OK;
    ig_engine_close(&engine->file);
    return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for an engine");
}

/* ---- Ranks ------------------------------------------------------------------------------------------------------- */

static enum ingot_status check_ranks(const struct ingot_load_options *options, struct ingot_error *error) {
    if (options->ranks > IG_MOST_RANKS)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ranks is %u, at most %u are possible", options->ranks,
                      IG_MOST_RANKS);
    if (options->ranks > 1 && options->group)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT,
                      "an engine is divided among ranks of this process or among those of a group, not both");
    return INGOT_OK;
}

static void destroy_views(struct ingot_engine *engine) {
    for (uint32_t i = 0; engine->views && i < engine->n_views; i++)
        if (engine->views[i].data) ig_plan_view_destroy(&engine->views[i], engine->allocator);
    ig_release(engine->allocator, engine->views, engine->n_views * sizeof *engine->views);
    engine->views = NULL;
}

/* Of the ranks that this process has: all `ranks`, or the group's one. */
static enum ingot_status make_views(struct ingot_engine *engine, uint32_t ranks, struct ingot_error *error) {
    const struct ig_group *seat = engine->group ? engine->group->seat : NULL;
    engine->n_views = seat ? 1 : ranks;
    if (seat) ranks = ig_group_ranks(seat);
    engine->file.seats = (struct ig_plan_seats){ranks, seat ? ig_group_rank(seat) : 0, engine->n_views};
    engine->views =
        ig_allocate(engine->allocator, engine->n_views * sizeof *engine->views, _Alignof(struct ig_engine_file));
    if (!engine->views) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for an engine");
    for (uint32_t i = 0; i < engine->n_views; i++)
        IG_TRY(ig_plan_view_create(&engine->file, ranks, seat ? ig_group_rank(seat) : i, engine->allocator,
                                   &engine->views[i], error));
    return INGOT_OK;
}

/* Of a loaded file: its plans for these ranks, and what the group says to it. */
static enum ingot_status take_ranks(struct ingot_engine *engine, const struct ingot_load_options *options,
                                    struct ingot_error *error) {
    if (options->group) IG_TRY(ig_group_accept(options->group, &engine->file, error));
    engine->group = options->group;
    if (!options->group && options->ranks <= 1) return INGOT_OK;
    enum ingot_status status = make_views(engine, options->ranks, error);
    if (status != INGOT_OK) destroy_views(engine);
    return status;
}

/* One that cannot load the engine says so to the others, who wait for it. */
static void tell_group(struct ingot_group *group, enum ingot_status status, const struct ingot_error *error) {
    if (group && ig_group_failure(group->seat, NULL) == INGOT_OK) ig_group_fail(group->seat, status, error->message);
}

static enum ingot_status load_file(const struct source *source, const struct ingot_load_options *options,
                                   struct ingot_engine *engine, struct ingot_error *error) {
    IG_TRY(open_source(source, options->verify, engine->allocator, &engine->file, error));
    IG_TRY(allocate_flags(engine, engine->allocator, error));
    enum ingot_status status = take_ranks(engine, options, error);
    if (status == INGOT_OK) return INGOT_OK;
    ig_release(engine->allocator, engine->is_in_place, flags_size(engine));
    ig_engine_close(&engine->file);
    return status;
}

static enum ingot_status load(const struct source *source, const struct ingot_load_options *given,
                              struct ingot_engine **out_engine, struct ingot_error *error) {
    struct ingot_load_options options = INGOT_LOAD_OPTIONS_INIT;
    const struct ingot_allocator *allocator;
    IG_TRY(ig_options_read("ingot_load_options", given, sizeof options, &options, error));
    IG_TRY(ig_options_allocator(options.allocator, &ig_libc_allocator, &allocator, error));
    if ((unsigned)options.verify > INGOT_VERIFY_NO_WEIGHTS)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "verify is %d, which is no enum ingot_verify",
                      (int)options.verify);
    IG_TRY(check_ranks(&options, error));
    struct ingot_engine *engine = ig_allocate(allocator, sizeof *engine, _Alignof(struct ingot_engine));
    if (!engine) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for an engine");
    engine->allocator = allocator;
    struct ingot_error failure;
    enum ingot_status status = load_file(source, &options, engine, &failure);
    if (status != INGOT_OK) {
        tell_group(options.group, status, &failure);
        ig_release(allocator, engine, sizeof *engine);
        return IG_ERR(error, status, "%s", failure.message);
    }
    ingot_group_retain(engine->group);
    ig_resident_store_init(&engine->resident, &engine->file, allocator);
    pthread_mutex_init(&engine->refitting, NULL);
    atomic_init(&engine->references, 1);
    atomic_init(&engine->explanation, NULL);
    atomic_init(&engine->weights_state,
                options.verify == INGOT_VERIFY_LATER ? IG_WEIGHTS_UNCHECKED : IG_WEIGHTS_TRUSTED);
    *out_engine = engine;
    return INGOT_OK;
}

enum ingot_status ingot_engine_load(const char *path, const struct ingot_load_options *options,
                                    struct ingot_engine **out_engine, struct ingot_error *error) {
    if (!path || !out_engine)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_engine_load: %s is NULL", path ? "out_engine" : "path");
    return load(&(struct source){.path = path}, options, out_engine, error);
}

enum ingot_status ingot_engine_load_memory(const void *data, size_t size, const struct ingot_load_options *options,
                                           struct ingot_engine **out_engine, struct ingot_error *error) {
    if (!data || !out_engine)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_engine_load_memory: %s is NULL",
                      data ? "out_engine" : "data");
    if ((uintptr_t)data % 64 != 0)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_engine_load_memory: data is not aligned to 64 bytes");
    return load(&(struct source){.data = data, .size = size}, options, out_engine, error);
}

/* ---- Sharing ----------------------------------------------------------------------------------------------------- */

void ingot_engine_retain(struct ingot_engine *engine) {
    if (engine) atomic_fetch_add_explicit(&engine->references, 1, memory_order_relaxed);
}

static void release_text(const struct ingot_engine *engine, struct ig_engine_text *text) {
    if (!text) return;
    ig_release(engine->allocator, text->text, text->size);
    ig_release(engine->allocator, text, sizeof *text);
}

void ingot_engine_release(struct ingot_engine *engine) {
    /* Acquire and release: whatever other threads did with the engine happens before it is closed. */
    if (!engine || atomic_fetch_sub_explicit(&engine->references, 1, memory_order_acq_rel) != 1) return;
    ig_resident_store_deinit(&engine->resident);
    pthread_mutex_destroy(&engine->refitting);
    ig_release(engine->allocator, engine->entries,
               (engine->file.refit.n_initializers + (size_t)1) * sizeof *engine->entries);
    ig_release(engine->allocator, engine->borrowed,
               (engine->file.refit.n_weights + (size_t)1) * sizeof *engine->borrowed);
    ig_release(engine->allocator, engine->is_in_place, flags_size(engine));
    destroy_views(engine);
    ingot_group_release(engine->group);
    release_text(engine, atomic_load_explicit(&engine->explanation, memory_order_relaxed));
    ig_engine_close(&engine->file);
    ig_release(engine->allocator, engine, sizeof *engine);
}

enum ingot_status ig_engine_refuse_bad_weights(const struct ingot_engine *engine, struct ingot_error *error) {
    if (atomic_load_explicit(&engine->weights_state, memory_order_relaxed) != IG_WEIGHTS_BAD) return INGOT_OK;
    return IG_ERR(error, INGOT_BAD_ENGINE, "the engine's weights failed their check before: the file is damaged");
}

enum ingot_status ig_engine_trust_weights(struct ingot_engine *engine, struct ingot_error *error) {
    if (atomic_load_explicit(&engine->weights_state, memory_order_relaxed) == IG_WEIGHTS_TRUSTED) return INGOT_OK;
    IG_TRY(ig_engine_refuse_bad_weights(engine, error));
    enum ingot_status status = ig_engine_check_weights(&engine->file, error);
    int state = status == INGOT_OK ? IG_WEIGHTS_TRUSTED : IG_WEIGHTS_BAD;
    atomic_store_explicit(&engine->weights_state, state, memory_order_relaxed);
    return status;
}

size_t ingot_engine_ranks(const struct ingot_engine *engine, unsigned *ranks, size_t capacity) {
    uint32_t degrees[IG_MOST_RANKS];
    if (!engine) return 0;
    uint32_t count = ig_plan_degrees(&engine->file.plan, degrees, IG_MOST_RANKS);
    for (uint32_t i = 0; i < count && i < capacity; i++)
        ranks[i] = degrees[i];
    return count;
}

/* ---- Description ------------------------------------------------------------------------------------------------- */

size_t ingot_engine_input_count(const struct ingot_engine *engine) {
    return engine ? engine->file.plan.subplans[0].n_inputs : 0;
}

size_t ingot_engine_output_count(const struct ingot_engine *engine) {
    return engine ? engine->file.plan.subplans[0].n_outputs : 0;
}

static void describe(const struct ingot_engine *engine, size_t first, size_t index, size_t count,
                     struct ingot_tensor_info *out_info) {
    if (!out_info) return;
    *out_info = (struct ingot_tensor_info){.name = ""}; /* for an index out of range */
    if (index < count) ig_plan_tensor_info(&engine->file.plan, &engine->file.plan.tensors[first + index], out_info);
}

void ingot_engine_input(const struct ingot_engine *engine, size_t index, struct ingot_tensor_info *out_info) {
    describe(engine, engine ? engine->file.plan.subplans[0].inputs : 0, index, ingot_engine_input_count(engine),
             out_info);
}

void ingot_engine_output(const struct ingot_engine *engine, size_t index, struct ingot_tensor_info *out_info) {
    describe(engine, engine ? engine->file.plan.subplans[0].outputs : 0, index, ingot_engine_output_count(engine),
             out_info);
}

size_t ingot_engine_updated_input(const struct ingot_engine *engine, size_t index) {
    if (index >= ingot_engine_output_count(engine)) return SIZE_MAX;
    uint32_t updates = engine->file.plan.tensors[engine->file.plan.subplans[0].outputs + index].updates;
    return updates ? updates - 1 : SIZE_MAX;
}

size_t ingot_engine_symbol_count(const struct ingot_engine *engine) {
    return engine ? engine->file.plan.n_symbols : 0;
}

void ingot_engine_symbol(const struct ingot_engine *engine, size_t index, struct ingot_symbol_info *out_info) {
    if (!out_info) return;
    *out_info = (struct ingot_symbol_info){.name = "", .mixes = ""}; /* for an index out of range */
    if (index >= ingot_engine_symbol_count(engine)) return;
    const struct ig_plan *plan = &engine->file.plan;
    const struct ig_plan_symbol *symbol = &plan->symbols[index];
    *out_info =
        (struct ingot_symbol_info){.name = ig_plan_text(plan, symbol->name), .lo = symbol->lo, .hi = symbol->hi};
    if (symbol->mixes != IG_PLAN_NONE) out_info->mixes = ig_plan_text(plan, symbol->mixes);
}

size_t ingot_engine_uncaptured(const struct ingot_engine *engine, struct ingot_uncaptured_row *rows, size_t capacity) {
    return engine ? ig_plan_uncaptured(&engine->file.plan, rows, rows ? capacity : 0) : 0;
}

size_t ingot_engine_initializer_count(const struct ingot_engine *engine) {
    return engine ? engine->file.refit.n_initializers : 0;
}

void ingot_engine_initializer(const struct ingot_engine *engine, size_t index,
                              struct ingot_initializer_info *out_info) {
    if (!out_info) return;
    *out_info = (struct ingot_initializer_info){.name = ""}; /* for an index out of range */
    if (index >= ingot_engine_initializer_count(engine)) return;
    const struct ig_refit_tables *tables = &engine->file.refit;
    const struct ig_initializer_entry *one = &tables->initializers[index];
    *out_info = (struct ingot_initializer_info){.name = tables->names + one->name,
                                                .kind = (enum ingot_initializer_kind)one->kind,
                                                .dtype = (enum ingot_dtype)one->dtype,
                                                .rank = (int)one->rank,
                                                .slot = one->slot};
    if (one->alias != IG_PLAN_NONE) out_info->alias = tables->names + one->alias;
    out_info->is_transposed = one->is_transposed;
    if (one->reason != IG_PLAN_NONE) out_info->reason = tables->names + one->reason;
    memcpy(out_info->dims, one->dims, sizeof out_info->dims);
    out_info->is_borrowed = atomic_load_explicit(&engine->is_in_place[index], memory_order_relaxed);
}

const char *ingot_engine_target(const struct ingot_engine *engine) {
    return engine ? engine->file.target : "";
}

static enum ingot_status unpack(const struct ingot_engine *engine, struct ig_engine_text **out_text,
                                struct ingot_error *error) {
    struct ig_engine_text *text = ig_allocate(engine->allocator, sizeof *text, _Alignof(struct ig_engine_text));
    if (!text) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for the engine's explanation");
    enum ingot_status status =
        ig_engine_unpack_explanation(&engine->file, engine->allocator, &text->text, &text->size, error);
    if (status == INGOT_OK)
        *out_text = text;
    else
        ig_release(engine->allocator, text, sizeof *text);
    return status;
}

enum ingot_status ingot_engine_explanation(struct ingot_engine *engine, const char **out_json,
                                           struct ingot_error *error) {
    if (!engine || !out_json)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_engine_explanation: %s is NULL",
                      engine ? "out_json" : "engine");
    struct ig_engine_text *text = atomic_load_explicit(&engine->explanation, memory_order_acquire);
    if (!text) {
        struct ig_engine_text *mine = NULL, *none = NULL;
        IG_TRY(unpack(engine, &mine, error));
        /* Several threads may unpack it at once: the first one's stays. */
        if (!atomic_compare_exchange_strong_explicit(&engine->explanation, &none, mine, memory_order_release,
                                                     memory_order_relaxed))
            release_text(engine, mine);
        text = atomic_load_explicit(&engine->explanation, memory_order_acquire);
    }
    *out_json = text->text;
    return INGOT_OK;
}
