/* Engines from files or built from models; see session.h. */
#define _GNU_SOURCE
#include "session.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "progress.h"

char *model_path(const char *path) {
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return cli_format("%s/model.onnx", path);
    return cli_strdup(path);
}

bool is_engine_path(const char *path) {
    size_t length = strlen(path);
    return length >= 6 && strcmp(path + length - 6, ".ingot") == 0;
}

/* ---- Building */

static void write_stdout(void *user, const char *text, size_t length) {
    (void)user;
    fwrite(text, 1, length, stdout);
}

/* An empty variable counts as unset. */
static const char *environment(const char *name) {
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

static unsigned jobs_of_environment(void) {
    const char *text = getenv("INGOT_JOBS");
    return text ? (unsigned)strtoul(text, NULL, 10) : 0;
}

/* Saturates to the library's int, so that the library rejects the value with its own message. */
static int number(unsigned value) {
    return value > INT_MAX ? INT_MAX : (int)value;
}

/* Builds need no cache. */
static void open_cache(const struct build_arguments *arguments, struct build_job *job) {
    struct ingot_error error;
    if (cache_open(arguments->cache, &job->options.cache, &error) == INGOT_OK) return;
    char *text = cli_format("the cache is not used: %s", error.message);
    progress_note(job->progress, text);
    free(text);
}

/* "1,2,4" */
static enum ingot_status read_ranks(const char *text, struct build_job *job, struct ingot_error *error) {
    struct ingot_build_options *o = &job->options;
    const size_t most = sizeof job->ranks / sizeof *job->ranks;
    o->ranks = job->ranks;
    for (const char *at = text; at && *at;) {
        char *end;
        unsigned long count = strtoul(at, &end, 10);
        bool goes_on = *end == ',' && end[1];
        if (*at < '0' || *at > '9' || (*end && !goes_on) || o->n_ranks == most)
            return cli_error(error, INGOT_INVALID_ARGUMENT, "--ranks '%s': expected numbers such as 2 or 1,2,4", text);
        job->ranks[o->n_ranks++] = count > INT_MAX ? INT_MAX : (unsigned)count;
        at = end + goes_on;
    }
    return INGOT_OK;
}

enum ingot_status build_job_begin(const struct build_arguments *arguments, struct build_job *job,
                                  struct ingot_error *error) {
    *job = (struct build_job){.options = INGOT_BUILD_OPTIONS_INIT, .dump = {NULL, write_stdout}};
    CLI_TRY(shape_specs(&arguments->shapes, &job->specs, &job->text, error));
    CLI_TRY(read_ranks(arguments->ranks, job, error));
    struct ingot_build_options *o = &job->options;
    o->sharding = arguments->sharding;
    o->objective = arguments->objective;
    o->memory = (uint64_t)(arguments->memory * 1e9);
    o->shard_of = arguments->shard_of.at;
    o->n_shard_of = arguments->shard_of.count;
    o->target = arguments->target;
    o->opt_level = number(arguments->opt_level);
    o->shapes = job->specs;
    o->n_shapes = arguments->shapes.count;
    o->pass_switches = arguments->passes.at;
    o->n_pass_switches = arguments->passes.count;
    o->precision = arguments->precision;
    o->precision_of = arguments->precision_of.at;
    o->n_precision_of = arguments->precision_of.count;
    o->fuse_of = arguments->fuse_of.at;
    o->n_fuse_of = arguments->fuse_of.count;
    o->io_types = arguments->io_types.at;
    o->n_io_types = arguments->io_types.count;
    o->tune_seconds = arguments->tune;
    o->tactics = arguments->tactics;
    o->variants = arguments->variants;
    o->timing_caches = arguments->timing_caches.at;
    o->n_timing_caches = arguments->timing_caches.count;
    o->dump_after = arguments->dump_after;
    o->dump = &job->dump;
    o->cc = arguments->cc ? arguments->cc : environment("INGOT_CC");
    o->nvrtc = arguments->nvrtc ? arguments->nvrtc : environment("INGOT_NVRTC");
    o->portable = arguments->portable;
    o->device = number(arguments->device);
    o->jobs = arguments->jobs ? arguments->jobs : jobs_of_environment();
    o->verify_passes = arguments->verify_passes;
    o->strip_weights = arguments->strip_weights;
    o->strict_qdq = arguments->strict_qdq;
    o->adapters = arguments->adapters;
    o->adapter_rank = arguments->adapter_rank;
    o->adapter_layers = arguments->adapter_layers.at;
    o->n_adapter_layers = arguments->adapter_layers.count;
    if (!arguments->quiet) {
        job->progress = progress_create();
        o->progress = progress_update;
        o->progress_user = job->progress;
    }
    o->note = progress_note;
    o->note_user = job->progress;
    job->report = (struct ingot_build_report)INGOT_BUILD_REPORT_INIT;
    o->report = &job->report;
    open_cache(arguments, job);
    return INGOT_OK;
}

void build_job_end(struct build_job *job) {
    ingot_cache_close(job->options.cache);
    progress_destroy(job->progress);
    free(job->specs);
    free(job->text);
}

void build_arguments_free(struct build_arguments *arguments) {
    option_list_free(&arguments->shapes);
    option_list_free(&arguments->passes);
    option_list_free(&arguments->precision_of);
    option_list_free(&arguments->fuse_of);
    option_list_free(&arguments->shard_of);
    option_list_free(&arguments->io_types);
    option_list_free(&arguments->adapter_layers);
    option_list_free(&arguments->timing_caches);
}

/* ---- Sessions */

/* Has a launcher put a rank into the environment? The library reads more of it. */
static bool is_launched(void) {
    static const char *const variables[] = {"INGOT_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (environment(variables[i])) return true;
    return false;
}

/* The group of `ranks` processes that a launcher has started; *out_group is NULL if there is no other. */
static enum ingot_status join_group(struct session *session, unsigned ranks, struct ingot_group **out_group,
                                    struct ingot_error *error) {
    struct ingot_group_options options = INGOT_GROUP_OPTIONS_INIT;
    struct ingot_group *group;
    options.environment = (const char *const *)environ;
    CLI_TRY(ingot_group_join(&options, &group, error));
    unsigned found = ingot_group_ranks(group);
    if (found == ranks) {
        session->rank = ingot_group_rank(group);
        *out_group = group;
        return INGOT_OK;
    }
    ingot_group_release(group);
    if (found == 1) return INGOT_OK;
    return cli_error(error, INGOT_INVALID_ARGUMENT, "this is one of %u processes, but --ranks is %u", found, ranks);
}

static enum ingot_status choose_ranks(struct session *session, const struct build_arguments *build,
                                      struct ingot_load_options *options, struct ingot_error *error) {
    char *end;
    if (!build->ranks) return INGOT_OK;
    unsigned long ranks = strtoul(build->ranks, &end, 10);
    if (*build->ranks < '1' || *build->ranks > '9' || *end || ranks > UINT_MAX)
        return cli_error(error, INGOT_INVALID_ARGUMENT, "--ranks '%s': expected one number, from 1 up", build->ranks);
    if (build->joins && ranks > 1 && is_launched())
        CLI_TRY(join_group(session, (unsigned)ranks, &options->group, error));
    if (!options->group) options->ranks = (unsigned)ranks;
    if (session->rank > 0 && !freopen("/dev/null", "w", stdout))
        return cli_error(error, INGOT_DEVICE, "cannot open '/dev/null': %s", strerror(errno));
    return INGOT_OK;
}

void session_ask(struct session *session) {
    session->n_inputs = ingot_engine_input_count(session->engine);
    session->n_outputs = ingot_engine_output_count(session->engine);
    session->inputs = cli_alloc(session->n_inputs, sizeof *session->inputs);
    session->outputs = cli_alloc(session->n_outputs, sizeof *session->outputs);
    for (size_t i = 0; i < session->n_inputs; i++)
        ingot_engine_input(session->engine, i, &session->inputs[i]);
    for (size_t i = 0; i < session->n_outputs; i++)
        ingot_engine_output(session->engine, i, &session->outputs[i]);
}

static enum ingot_status load(struct session *session, const char *path, const struct build_arguments *build,
                              struct ingot_error *error) {
    struct ingot_load_options options = INGOT_LOAD_OPTIONS_INIT;
    double start = now_ms();
    CLI_TRY(choose_ranks(session, build, &options, error));
    enum ingot_status status = ingot_engine_load(path, &options, &session->engine, error);
    ingot_group_release(options.group); /* the engine has a reference */
    CLI_TRY(status);
    session->load_ms = now_ms() - start;
    session_ask(session);
    return INGOT_OK;
}

/* A temporary file for an engine that is not kept. It may be unlinked once the engine is loaded, since it is mapped. */
static enum ingot_status temporary_file(char **out_path, struct ingot_error *error) {
    const char *folder = getenv("TMPDIR");
    char *path = cli_format("%s/ingot-XXXXXX.ingot", folder && *folder ? folder : "/tmp");
    int fd = mkstemps(path, 6);
    if (fd < 0) {
        cli_error(error, INGOT_DEVICE, "cannot create '%s': %s", path, strerror(errno));
        free(path);
        return INGOT_DEVICE;
    }
    close(fd);
    *out_path = path;
    return INGOT_OK;
}

enum ingot_status session_build(struct session *session, struct ingot_model *model, const struct build_arguments *build,
                                struct ingot_error *error) {
    struct build_job job;
    char *path;
    *session = (struct session){.build_ms = -1};
    CLI_TRY(build_job_begin(build, &job, error));
    enum ingot_status status = temporary_file(&path, error);
    if (status == INGOT_OK) {
        double start = now_ms();
        status = ingot_model_build(model, &job.options, path, error);
        session->build_ms = now_ms() - start;
        if (status == INGOT_OK) status = load(session, path, build, error);
        unlink(path);
        free(path);
    }
    build_job_end(&job);
    return status;
}

enum ingot_status session_open(struct session *session, const char *path, const struct build_arguments *build,
                               struct ingot_error *error) {
    *session = (struct session){.build_ms = -1};
    if (is_engine_path(path)) return load(session, path, build, error);
    struct ingot_model *model;
    char *file = model_path(path);
    double start = now_ms();
    enum ingot_status status = ingot_model_load(file, NULL, &model, error);
    double import_ms = now_ms() - start;
    free(file);
    CLI_TRY(status);
    status = session_build(session, model, build, error);
    session->build_ms += import_ms;
    ingot_model_destroy(model);
    return status;
}

enum ingot_status session_context_create(const struct session *session, const struct context_arguments *arguments,
                                         enum session_clock clock, struct ingot_context **out_context,
                                         struct ingot_error *error) {
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    options.threads = arguments->threads;
    options.device = number(arguments->device);
    options.gpus = arguments->gpus;
    options.profile = clock == CLOCK_KERNELS;
    options.machines = arguments->machines;
    options.timing = clock == CLOCK_RUNS;
    return ingot_context_create(session->engine, &options, out_context, error);
}

enum ingot_status session_context(struct session *session, const struct context_arguments *arguments,
                                  enum session_clock clock, struct ingot_error *error) {
    if (session->context) ingot_context_destroy(session->context);
    session->context = NULL;
    return session_context_create(session, arguments, clock, &session->context, error);
}

bool session_is_gpu(const struct session *session) {
    return strncmp(ingot_engine_target(session->engine), "cuda", 4) == 0;
}

void session_close(struct session *session) {
    if (session->context) ingot_context_destroy(session->context);
    if (session->engine) ingot_engine_release(session->engine);
    free(session->inputs);
    free(session->outputs);
    *session = (struct session){0};
}
