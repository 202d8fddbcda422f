/* ingot inspect: prints what a model or engine contains, and why. */
#include "inspect/inspect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct inspect_arguments {
    struct build_arguments build;
    bool json, graph, kernels, sharing, initializers, counts;
    const char *html, *source, *why, *onnx_sharding;
};

static void write_stdout(void *user, const char *text, size_t length) {
    (void)user;
    fwrite(text, 1, length, stdout);
}

/* ---- Models */

static enum ingot_status count_model(const struct inspect_arguments *a, struct ingot_model *model,
                                     const struct ingot_sink *sink, struct ingot_error *error) {
    struct build_job job;
    CLI_TRY(build_job_begin(&a->build, &job, error));
    enum ingot_status status = ingot_model_count(model, &job.options, sink, error);
    build_job_end(&job);
    return status;
}

static enum ingot_status show_model(const struct inspect_arguments *a, const char *path, struct ingot_error *error) {
    struct ingot_model *model;
    struct ingot_model_options options = INGOT_MODEL_OPTIONS_INIT;
    struct ingot_sink sink = {NULL, write_stdout};
    char *file = model_path(path);
    options.missing_weights = a->counts;
    enum ingot_status status = ingot_model_load(file, &options, &model, error);
    free(file);
    CLI_TRY(status);
    if (a->counts)
        status = count_model(a, model, &sink, error);
    else
        status = a->graph ? ingot_model_print(model, &sink, error) : inspect_model_print(model, path, a->json, error);
    ingot_model_destroy(model);
    return status;
}

static void write_file(void *user, const char *text, size_t length) {
    fwrite(text, 1, length, user);
}

/* The model with its plan for ranks, into a file that replaces another one when it is complete. */
static enum ingot_status write_sharding(const struct inspect_arguments *a, const char *path,
                                        struct ingot_error *error) {
    struct ingot_model *model = NULL;
    struct build_job job;
    char *from = model_path(path), *part = cli_format("%s.part", a->onnx_sharding);
    FILE *file = NULL;
    enum ingot_status status = build_job_begin(&a->build, &job, error);
    if (status == INGOT_OK) {
        status = ingot_model_load(from, NULL, &model, error);
        if (status == INGOT_OK && !(file = fopen(part, "wb")))
            status = cli_error(error, INGOT_DEVICE, "cannot create '%s': %s", part, strerror(errno));
        const struct ingot_sink sink = {file, write_file};
        if (status == INGOT_OK) status = ingot_model_write_sharding(model, &job.options, &sink, error);
        build_job_end(&job);
    }
    bool failed = file && ferror(file) != 0;
    failed |= file && fclose(file) != 0;
    if (status == INGOT_OK && (failed || rename(part, a->onnx_sharding) != 0))
        status = cli_error(error, INGOT_DEVICE, "cannot write '%s': %s", a->onnx_sharding, strerror(errno));
    if (status != INGOT_OK && file) remove(part);
    ingot_model_destroy(model);
    free(part);
    free(from);
    return status;
}

/* ---- Engines */

/* "x 1x3x224x224, mask 1x64" */
static void print_shapes(const struct session *session, const struct ingot_tensor *tensors, char *out_text,
                         size_t size) {
    size_t used = 0;
    snprintf(out_text, size, "no inputs");
    for (size_t i = 0; i < session->n_inputs && used < size; i++) {
        used += (size_t)snprintf(out_text + used, size - used, "%s%s ", i ? ", " : "", session->inputs[i].name);
        for (int d = 0; d < tensors[i].rank && used < size; d++) {
            used +=
                (size_t)snprintf(out_text + used, size - used, "%s%lld", d ? "x" : "", (long long)tensors[i].dims[d]);
        }
    }
}

/* Binds the requested shapes, or defaults, and queries the memory they need. */
static enum ingot_status find_memory(struct inspected *engine, const struct inspect_arguments *a,
                                     struct ingot_error *error) {
    struct session *session = &engine->session;
    struct tensor_list made = {0};
    struct ingot_tensor *tensors;
    CLI_TRY(inputs_prepare(session->inputs, session->n_inputs, NULL, &a->build.shapes, 0, &made, &tensors, error));
    print_shapes(session, tensors, engine->shapes, sizeof engine->shapes);
    enum ingot_status status = session_context(session, &(struct context_arguments){.threads = 1}, CLOCK_NONE, error);
    if (status == INGOT_OK) status = inputs_bind(session, tensors, error);
    if (status == INGOT_OK) status = ingot_context_memory(session->context, &engine->memory, error);
    free(tensors);
    tensor_list_free(&made);
    return status;
}

static enum ingot_status write_html(const struct inspected *engine, const char *path, struct ingot_error *error) {
    FILE *file = fopen(path, "w");
    if (!file) return cli_error(error, INGOT_DEVICE, "cannot create '%s': %s", path, strerror(errno));
    inspect_html_write(engine, file);
    bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed)
        return cli_error(error, INGOT_DEVICE, "cannot write '%s': %s", path, strerror(errno));
    return INGOT_OK;
}

static enum ingot_status show_engine(const struct inspect_arguments *a, const char *path, struct ingot_error *error) {
    struct inspected engine = {.path = path};
    json_error_t problem;
    const char *text = NULL;
    enum ingot_status status = session_open(&engine.session, path, &a->build, error);
    if (status == INGOT_OK) status = ingot_engine_explanation(engine.session.engine, &text, error);
    if (status == INGOT_OK) {
        engine.explanation = json_loads(text, 0, &problem);
        if (!engine.explanation) {
            status = cli_error(error, INGOT_BAD_ENGINE, "cannot read the explanation in '%s': %s", path, problem.text);
        } else if (a->sharing) {
            inspect_sharing_print(engine.explanation, a->json);
        } else if (a->initializers) {
            inspect_initializers_print(engine.session.engine, a->json);
        } else if (a->why) {
            if (!inspect_why_print(engine.explanation, a->why, a->json)) {
                status = cli_error(error, INGOT_INVALID_ARGUMENT, "in '%s' nothing was decided by estimates about '%s'",
                                   path, a->why);
            }
        } else if (a->json) {
            fputs(text, stdout);
        } else if (a->kernels) {
            inspect_kernels_print(engine.explanation);
        } else if (a->source) {
            if (!inspect_source_print(engine.explanation, a->source)) {
                status = cli_error(error, INGOT_INVALID_ARGUMENT, "'%s' has no kernel '%s'", path, a->source);
            }
        } else {
            engine.has_memory = find_memory(&engine, a, &engine.problem) == INGOT_OK;
            if (a->html) {
                status = write_html(&engine, a->html, error);
            } else {
                inspect_engine_print(&engine);
            }
        }
    }
    json_decref(engine.explanation);
    session_close(&engine.session);
    return status;
}

int cmd_inspect(int argc, char **argv) {
    struct inspect_arguments a = {.build = BUILD_ARGUMENTS_DEFAULT};
    const struct option_row rows[] = {
        {"json", 0, OPTION_FLAG, NULL, "the engine's explanation, or the model's facts, as JSON", &a.json},
        {"html", 0, OPTION_TEXT, "FILE", "writes a page with everything", &a.html},
        {"graph", 0, OPTION_FLAG, NULL, "the graph of a model in its text form", &a.graph},
        {"kernels", 0, OPTION_FLAG, NULL, "the table of kernels", &a.kernels},
        {"sharing", 0, OPTION_FLAG, NULL, "equal regions and repeated layers; with --json as JSON", &a.sharing},
        {"initializers", 0, OPTION_FLAG, NULL,
         "which of the model's initialisers 'ingot refit' can replace;\nwith --json as JSON", &a.initializers},
        {"counts", 0, OPTION_FLAG, NULL,
         "of a model: regions, kernels, bytes, operations, floor,\nestimated time and memory of what would be built, "
         "without\n"
         "building it; weights may be missing",
         &a.counts},
        {"onnx-sharding", 0, OPTION_TEXT, "FILE",
         "writes the model as ONNX that says how it would be divided among\n--ranks N, as device configurations",
         &a.onnx_sharding},
        {"source", 0, OPTION_TEXT, "K", "the C or CUDA text of a kernel, by its number or name", &a.source},
        {"why", 0, OPTION_TEXT, "NODE",
         "what was fused or not by estimates, of nodes whose names\ncontain NODE or fit it (*, ?); with --json as JSON",
         &a.why},
        {"shape", 's', OPTION_LIST, "NAME=SPEC", "for which memory is told; repeatable", &a.build.shapes},
        BUILD_OPTION_ROWS(a.build),
        RUN_RANK_OPTION_ROWS(a.build),
        {0},
    };
    const struct option_table table = {
        "inspect", "ENGINE|MODEL [OPTION...]",
        "Shows what an engine holds: what it was built from and how, regions and kernels, memory and its lower bound.\n"
        "Of a model: inputs, outputs and operators; with --html, --kernels, --sharing, --initializers, --source or "
        "--why "
        "it\n"
        "is built first.\n",
        rows};
    int status, count = options_parse(&table, argc, argv, &status);
    if (count >= 0 && count != 1) status = cli_usage("inspect", "expected one engine or model, got %d", count);
    int shown = a.counts + a.graph + a.kernels + a.sharing + a.initializers + (a.html != NULL) + (a.source != NULL) +
                (a.why != NULL) + (a.onnx_sharding != NULL);
    bool json_alone = a.json && !a.sharing && !a.initializers && !a.why;
    if (count == 1 && shown + json_alone > 1) {
        status =
            cli_usage("inspect", "--json, --html, --graph, --kernels, --sharing, --initializers, --counts, --source, "
                                 "--onnx-sharding and --why exclude each other");
    } else if (count == 1 && a.onnx_sharding && is_engine_path(argv[0])) {
        status = cli_usage("inspect", "an engine holds no model; give the one it was built from");
    } else if (count == 1 && a.counts && is_engine_path(argv[0])) {
        status = cli_usage("inspect", "--counts is of a model, not of an engine");
    } else if (count == 1 && a.graph && is_engine_path(argv[0])) {
        status = cli_usage("inspect", "an engine holds no graph; give the model it was built from");
    } else if (count == 1) {
        struct ingot_error error;
        bool engine =
            is_engine_path(argv[0]) || a.html || a.kernels || a.sharing || a.initializers || a.source || a.why;
        enum ingot_status result = a.onnx_sharding ? write_sharding(&a, argv[0], &error)
                                   : engine        ? show_engine(&a, argv[0], &error)
                                                   : show_model(&a, argv[0], &error);
        if (result != INGOT_OK) status = cli_fail(&error);
    }
    build_arguments_free(&a.build);
    return status;
}
