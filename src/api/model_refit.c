/* ingot_refit_file and ingot_engine_refit: engines with other weights. */
#include <string.h>

#include "api/device.h"
#include "api/engine.h"
#include "api/options.h"
#include "compile/refit/refit.h"

struct refit_call {
    const char *path, *out_path; /* of a file */
    struct ingot_engine *engine; /* that is loaded */
    const struct ingot_named_tensor *tensors;
    size_t n_tensors;
    struct ingot_refit_options options;
    struct ingot_refit_info info;
};

static enum ingot_status read_options(const struct ingot_refit_options *given, struct ingot_refit_options *options,
                                      struct ingot_error *error) {
    IG_TRY(ig_options_read("ingot_refit_options", given, sizeof *options, options, error));
    if (options->n_only > 0 && !options->only)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "a count without its array in the refit options");
    if (options->device < 0) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "device is %d", options->device);
    return ig_options_allocator(options->allocator, &ig_libc_allocator, &options->allocator, error);
}

static void close_engine(void *file) {
    ig_engine_close(file);
}

static void abort_file(void *writer) {
    ig_file_writer_abort(writer);
}

static void write_file(struct ig_job *job, struct ig_refit *refit, const char *path) {
    struct ig_file_writer *writer = IG_NEW(job, struct ig_file_writer);
    struct ingot_error error = {INGOT_INTERNAL, ""};
    if (ig_file_writer_open(writer, path, job->allocator, &error) != INGOT_OK) ig_raise_error(job, &error);
    ig_defer(job, abort_file, writer);
    struct ig_engine_sink sink = ig_engine_file_sink(writer);
    ig_refit_write(refit, &sink);
    if (ig_file_writer_commit(writer, &error) != INGOT_OK) ig_raise_error(job, &error);
    ig_undefer(job, writer);
    ig_file_writer_abort(writer); /* a no-op after the commit */
}

static struct ig_refit_input input_of(const struct refit_call *call, const struct ig_engine_file *file) {
    return (struct ig_refit_input){.file = file,
                                   .tensors = call->tensors,
                                   .n_tensors = call->n_tensors,
                                   .only = call->options.only,
                                   .n_only = call->options.n_only,
                                   .partial = call->options.partial,
                                   .ignore_unknown = call->options.ignore_unknown,
                                   .progress = call->options.progress,
                                   .progress_user = call->options.progress_user};
}

static void refit_body(struct ig_job *job, void *argument) {
    struct refit_call *call = argument;
    struct ig_engine_file *file = IG_NEW(job, struct ig_engine_file);
    struct ingot_error error = {INGOT_INTERNAL, ""};
    struct ig_refit refit;
    if (ig_engine_open(call->path, INGOT_VERIFY_NO_WEIGHTS, job->allocator, file, &error) != INGOT_OK)
        ig_raise_error(job, &error);
    ig_defer(job, close_engine, file);
    struct ig_refit_input input = input_of(call, file);
    ig_refit_begin(job, &input, &refit);
    call->info = refit.info;
    if (call->out_path) write_file(job, &refit, call->out_path);
}

enum ingot_status ingot_refit_file(const char *path, const struct ingot_named_tensor *tensors, size_t n_tensors,
                                   const struct ingot_refit_options *options, const char *out_path,
                                   struct ingot_refit_info *out_info, struct ingot_error *error) {
    if (!path || (n_tensors > 0 && !tensors))
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_refit_file: %s is NULL", path ? "tensors" : "path");
    struct refit_call call = {.path = path, .out_path = out_path, .tensors = tensors, .n_tensors = n_tensors};
    call.options = (struct ingot_refit_options)INGOT_REFIT_OPTIONS_INIT;
    struct ig_job job;
    IG_TRY(read_options(options, &call.options, error));
    if (call.options.borrow)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_refit_file: a file cannot borrow weights");
    ig_job_init(&job, call.options.allocator);
    enum ingot_status status = ig_job_run(&job, refit_body, &call, error);
    ig_job_deinit(&job);
    if (status == INGOT_OK && out_info) *out_info = call.info;
    return status;
}

/* ---- In place ----------------------------------------------------------------------------------------------------- */

/* The engine with the values that it has now. */
static struct ig_engine_file present(const struct ingot_engine *engine) {
    struct ig_engine_file file = engine->file;
    if (!engine->is_refitted) return file;
    file.refit.initializers = engine->entries;
    file.stripped = false;
    return file;
}

static void make_weights(struct ig_refit *refit, struct ig_weight_set *set) {
    ig_refit_open(refit);
    for (uint32_t i = 0; i < refit->tables.n_weights; i++) {
        const struct ig_weight_entry *w = &refit->tables.weights[i];
        for (uint64_t done = 0; refit->stale[i] && done < w->size;) {
            size_t size;
            const void *data = ig_refit_read(refit, i, &size);
            memcpy((char *)ig_weight_address(&set->places, w->offset) + done, data, size);
            done += size;
        }
    }
    ig_refit_close(refit);
}

struct writing {
    struct ig_refit *refit;
    struct ig_weight_set *set;
};

static void write_body(struct ig_job *job, void *argument) {
    struct writing *w = argument;
    make_weights(w->refit, w->set);
}

/* Where the engine notes what it has; allocated before anything changes, so that nothing fails afterwards. */
static void allocate_notes(struct ig_job *job, struct ingot_engine *engine) {
    const size_t n_entries = engine->file.refit.n_initializers + (size_t)1;
    const size_t n_weights = engine->file.refit.n_weights + (size_t)1;
    if (!engine->borrowed)
        engine->borrowed = ig_allocate(engine->allocator, n_weights * sizeof *engine->borrowed, _Alignof(void *));
    if (!engine->entries)
        engine->entries =
            ig_allocate(engine->allocator, n_entries * sizeof *engine->entries, _Alignof(struct ig_initializer_entry));
    if (!engine->borrowed || !engine->entries)
        ig_raise(job, INGOT_OUT_OF_MEMORY, "out of memory for refitting an engine");
}

static void note(struct ingot_engine *engine, const struct ig_refit *refit, int device) {
    const struct ig_refit_tables *t = &refit->tables;
    engine->is_refitted = true;
    engine->borrowed_device = device;
    memcpy(engine->entries, t->initializers, t->n_initializers * sizeof *engine->entries);
    memcpy(engine->borrowed, refit->borrowed, t->n_weights * sizeof *engine->borrowed);
    for (uint32_t i = 0; i < t->n_initializers; i++)
        atomic_store_explicit(&engine->is_in_place[i],
                              t->initializers[i].kind == INGOT_REFITTABLE && !refit->is_made[i], memory_order_relaxed);
}

/* Makes the weights, brings them to the devices, and only then notes the values that they have. */
static void replace_weights(struct ig_job *job, struct ingot_engine *engine, struct ig_refit *refit, int device) {
    struct ig_resident_store *store = &engine->resident;
    struct ingot_error error = {INGOT_INTERNAL, ""};
    struct writing writing = {.refit = refit};
    const struct ig_weight_change change = {refit->stale, refit->borrowed, device};
    allocate_notes(job, engine);
    enum ingot_status status = ig_resident_store_refit_begin(store, &change, &writing.set, &error);
    if (status == INGOT_OK) {
        status = ig_job_run(job, write_body, &writing, &error);
        if (status == INGOT_OK)
            status = ig_resident_store_refit_commit(store, &change, writing.set, &error);
        else
            ig_resident_store_refit_abort(store, &change, writing.set);
    }
    if (status != INGOT_OK) ig_raise_error(job, &error);
    note(engine, refit, device);
}

/* Tensors in the memory of a GPU. */
static void fetch(struct ig_job *job, void *user, const struct ig_refit_copy *copies, size_t n) {
    const struct refit_call *call = user;
    struct ig_fetch *fetches = IG_NEW_ARRAY(job, struct ig_fetch, n + 1);
    struct ingot_error error;
    for (size_t i = 0; i < n; i++)
        fetches[i] = (struct ig_fetch){copies[i].from, copies[i].to, copies[i].size};
    if (ig_resident_fetch(ig_device_cuda_create, call->options.device, job->allocator, fetches, n, &error) != INGOT_OK)
        ig_raise_error(job, &error);
}

/* The GPU whose memory is borrowed after the refit: it is one. */
static int choose_device(struct ig_job *job, const struct refit_call *call, const struct ig_refit *refit,
                         const void *const *before) {
    const int now = call->engine->borrowed_device, wanted = call->options.device;
    bool stays = false;
    for (uint32_t i = 0; before && i < refit->tables.n_weights; i++)
        stays = stays || (before[i] && before[i] == refit->borrowed[i]);
    if (!stays) return wanted;
    if (call->options.borrow && wanted != now)
        ig_raise(job, INGOT_INVALID_ARGUMENT,
                 "the engine borrows weights in the memory of GPU %d, and is lent others in "
                 "that of GPU %d",
                 now, wanted);
    return now;
}

static void engine_body(struct ig_job *job, void *argument) {
    struct refit_call *call = argument;
    struct ingot_engine *engine = call->engine;
    struct ig_engine_file file = present(engine);
    struct ig_refit refit;
    struct ig_refit_input input = input_of(call, &file);
    input.borrow = call->options.borrow;
    input.borrowed = engine->is_refitted ? engine->borrowed : NULL;
    if (ig_target_is_gpu(file.target)) input.fetch = fetch;
    input.fetch_user = call;
    ig_refit_begin(job, &input, &refit);
    call->info = refit.info;
    if (refit.info.changed == 0 && refit.info.weights == 0 && !file.stripped) return;
    replace_weights(job, engine, &refit, choose_device(job, call, &refit, input.borrowed));
}

bool ingot_engine_borrows(struct ingot_engine *engine, const void *data) {
    return engine && data && ig_resident_store_borrows(&engine->resident, data);
}

enum ingot_status ingot_engine_refit(struct ingot_engine *engine, const struct ingot_named_tensor *tensors,
                                     size_t n_tensors, const struct ingot_refit_options *options,
                                     struct ingot_refit_info *out_info, struct ingot_error *error) {
    if (!engine || (n_tensors > 0 && !tensors))
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_engine_refit: %s is NULL", engine ? "tensors" : "engine");
    struct refit_call call = {.engine = engine, .tensors = tensors, .n_tensors = n_tensors};
    struct ig_job job;
    call.options = (struct ingot_refit_options)INGOT_REFIT_OPTIONS_INIT;
    IG_TRY(read_options(options, &call.options, error));
    ig_job_init(&job, call.options.allocator);
    pthread_mutex_lock(&engine->refitting);
    enum ingot_status status = ig_job_run(&job, engine_body, &call, error);
    pthread_mutex_unlock(&engine->refitting);
    ig_job_deinit(&job);
    if (status == INGOT_OK && out_info) *out_info = call.info;
    return status;
}
