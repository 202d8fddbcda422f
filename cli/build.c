/* ingot build: a model to an engine file. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "inspect/inspect.h"
#include "session.h"

/* What is printed about a build that is done. */
struct summary {
    bool has_cache;
    struct ingot_build_report report;
};

static enum ingot_status build(const char *model_file, const char *engine_file, const struct build_arguments *arguments,
                               struct summary *out_summary, struct ingot_error *error) {
    struct ingot_model *model;
    struct build_job job;
    char *path = model_path(model_file);
    enum ingot_status status = ingot_model_load(path, NULL, &model, error);
    free(path);
    CLI_TRY(status);
    status = build_job_begin(arguments, &job, error);
    if (status == INGOT_OK) {
        status = ingot_model_build(model, &job.options, engine_file, error);
        if (status == INGOT_IO) error->status = status = INGOT_DEVICE; /* a failed write is not the fault of an input */
        *out_summary = (struct summary){job.options.cache != NULL, job.report};
        build_job_end(&job);
    }
    ingot_model_destroy(model);
    return status;
}

static void print_report(const struct ingot_build_report *r) {
    if (r->engine_cached) {
        fprintf(stderr, "engine: from the cache\n");
    } else if (r->structure_cached) {
        fprintf(stderr, "structure: from the cache\n");
    } else {
        fprintf(stderr, "kernels: %u from the cache, %u compiled, for %u of %u regions\n", r->kernels_cached,
                r->kernels_compiled, r->regions_new, r->regions);
    }
    if (r->quads_proved + r->quads_widened > 0)
        fprintf(stderr, "weights of bytes: %llu blocks are proved to not saturate, %llu are widened\n",
                (unsigned long long)r->quads_proved, (unsigned long long)r->quads_widened);
}

/* How the network is divided among ranks, if it is; what further kernels for some sizes cost, if there are any. */
static void print_explained(const char *engine_file) {
    struct ingot_engine *engine;
    struct ingot_load_options options = INGOT_LOAD_OPTIONS_INIT;
    options.verify = INGOT_VERIFY_NO_WEIGHTS;
    if (ingot_engine_load(engine_file, &options, &engine, NULL) != INGOT_OK) return;
    const char *text = "{}";
    ingot_engine_explanation(engine, &text, NULL);
    json_t *explanation = json_loads(text, 0, NULL);
    inspect_ranks_print(explanation, false, stderr);
    const json_t *variants = json_object_get(explanation, "variants");
    long long kernels = (long long)json_number(variants, "kernels");
    if (kernels > 0) {
        fprintf(stderr, "variants: %lld kernels more, for %lld of %zu regions, %.2f MB\n", kernels,
                (long long)json_number(variants, "regions"), json_array_size(json_object_get(explanation, "regions")),
                json_number(variants, "bytes") / 1e6);
    }
    json_decref(explanation);
    ingot_engine_release(engine);
}

int cmd_build(int argc, char **argv) {
    struct build_arguments arguments = BUILD_ARGUMENTS_DEFAULT;
    const char *output = NULL;
    const struct option_row rows[] = {
        {"output", 'o', OPTION_TEXT, "ENGINE", "the engine file to write; ends in .ingot", &output},
        BUILD_OPTION_ROWS(arguments),
        {"device", 'd', OPTION_UNSIGNED, "N", "the GPU that the target cuda means (default 0)", &arguments.device},
        {"shape", 's', OPTION_LIST, "NAME=SPEC",
         "limits a symbol (batch=4, batch=1:8:64 for MIN:OPT:MAX)\nor an input (image=1x3x224x224); repeatable",
         &arguments.shapes},
        RANK_OPTION_ROWS(arguments),
        {"dump-after", 0, OPTION_TEXT, "PASS|all", "prints the graph after a pass to stdout", &arguments.dump_after},
        {"adapters", 0, OPTION_UNSIGNED, "N",
         "slots for low-rank adapters (LoRA), chosen for each sample by\nthe input 'adapter'; 'ingot refit --slot' "
         "fills "
         "them",
         &arguments.adapters},
        {"adapter-rank", 0, OPTION_UNSIGNED, "R", "the largest rank of an adapter (default 16)",
         &arguments.adapter_rank},
        {"adapter-layers", 0, OPTION_LIST, "PATTERN",
         "the linear layers that have slots, with * and ?; repeatable\n(default: all)", &arguments.adapter_layers},
        {"strip-weights", 0, OPTION_FLAG, NULL, "leaves out the weights that 'ingot refit' can put in later",
         &arguments.strip_weights},
        {"verify-passes", 0, OPTION_FLAG, NULL, "checks the graph after every pass", &arguments.verify_passes},
        {0},
    };
    const struct option_table table = {"build", "MODEL -o ENGINE [OPTION...]",
                                       "Compiles an ONNX model (or a folder with model.onnx) into an engine.\n", rows};
    int status, count = options_parse(&table, argc, argv, &status);
    struct ingot_error error;
    struct stat info;
    if (count < 0) {
        build_arguments_free(&arguments);
        return status;
    }
    if (count != 1) {
        status = cli_usage("build", "expected one model, got %d", count);
    } else if (!output) {
        status = cli_usage("build", "no engine file is given (-o ENGINE)");
    } else if (!is_engine_path(output)) {
        status = cli_usage("build", "the engine file '%s' does not end in .ingot", output);
    } else {
        struct summary summary = {0};
        double start = now_ms();
        status = build(argv[0], output, &arguments, &summary, &error) == INGOT_OK ? EXIT_DONE : cli_fail(&error);
        if (status == EXIT_DONE && !arguments.quiet && stat(output, &info) == 0) {
            fprintf(stderr, "built '%s': %.2f MB in %.2f s\n", output, (double)info.st_size / 1e6,
                    (now_ms() - start) / 1e3);
            if (summary.has_cache) print_report(&summary.report);
            print_explained(output);
        }
    }
    build_arguments_free(&arguments);
    return status;
}
