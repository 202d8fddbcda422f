/* ingot refit: an engine with the weights of another file. */
#include <stdio.h>
#include <stdlib.h>

#include "options.h"
#include "progress.h"
#include "session.h"

struct refit_arguments {
    struct option_list weights, adapters, only;
    const char *output;
    unsigned slot;
    bool partial, ignore_unknown, check, quiet;
};

/* The tensors of all files, one behind the other. */
struct weight_files {
    struct ingot_tensors **files;
    size_t n_files;
    struct ingot_named_tensor *tensors;
    size_t n_tensors;
};

static void weight_files_free(struct weight_files *w) {
    for (size_t i = 0; i < w->n_files; i++)
        ingot_tensors_close(w->files[i]);
    free(w->files);
    free(w->tensors);
    *w = (struct weight_files){0};
}

/* Takes the file over. */
static void weight_files_add(struct weight_files *w, struct ingot_tensors *file) {
    size_t count;
    const struct ingot_named_tensor *list = ingot_tensors_list(file, &count);
    w->files[w->n_files++] = file;
    w->tensors = cli_resize(w->tensors, w->n_tensors + count + 1, sizeof *w->tensors);
    for (size_t k = 0; k < count; k++)
        w->tensors[w->n_tensors++] = list[k];
}

/* The matrices of one of the engine's slots. */
static enum ingot_status open_slot(const char *engine_path, const struct refit_arguments *arguments,
                                   struct weight_files *out, struct ingot_error *error) {
    struct ingot_load_options options = INGOT_LOAD_OPTIONS_INIT;
    struct ingot_engine *engine;
    struct ingot_tensors *file;
    options.verify = INGOT_VERIFY_NO_WEIGHTS;
    CLI_TRY(ingot_engine_load(engine_path, &options, &engine, error));
    const char *folder = arguments->adapters.count ? arguments->adapters.at[0] : NULL;
    enum ingot_status status = ingot_tensors_open_slot(folder, engine, arguments->slot, NULL, &file, error);
    if (status == INGOT_OK) weight_files_add(out, file);
    ingot_engine_release(engine);
    return status;
}

/* Adapters without a slot change what the files and the adapters before them have. */
static enum ingot_status weight_files_open(const char *engine, const struct refit_arguments *arguments,
                                           struct weight_files *out, struct ingot_error *error) {
    struct ingot_tensors *file;
    out->files = cli_alloc(arguments->weights.count + arguments->adapters.count + 2, sizeof *out->files);
    for (size_t i = 0; i < arguments->weights.count; i++) {
        CLI_TRY(ingot_tensors_open(arguments->weights.at[i], NULL, &file, error));
        weight_files_add(out, file);
    }
    if (arguments->slot) return open_slot(engine, arguments, out, error);
    for (size_t i = 0; i < arguments->adapters.count; i++) {
        CLI_TRY(
            ingot_tensors_open_adapter(arguments->adapters.at[i], out->tensors, out->n_tensors, NULL, &file, error));
        weight_files_add(out, file);
    }
    return INGOT_OK;
}

static enum ingot_status refit(const char *engine, const struct refit_arguments *arguments,
                               struct ingot_refit_info *out_info, struct ingot_error *error) {
    struct ingot_refit_options options = INGOT_REFIT_OPTIONS_INIT;
    struct weight_files weights = {0};
    const char *output = arguments->check ? NULL : arguments->output ? arguments->output : engine;
    options.only = arguments->only.at;
    options.n_only = arguments->only.count;
    options.partial = arguments->partial || (arguments->slot && arguments->weights.count == 0);
    options.ignore_unknown = arguments->ignore_unknown;
    enum ingot_status status = weight_files_open(engine, arguments, &weights, error);
    if (status == INGOT_OK)
        status = ingot_refit_file(engine, weights.tensors, weights.n_tensors, &options, output, out_info, error);
    weight_files_free(&weights);
    return status;
}

static void print_result(const struct refit_arguments *arguments, const struct ingot_refit_info *info, double ms) {
    size_t given = info->changed + info->unchanged;
    if (arguments->check) {
        printf("%zu of %zu initialisers differ\n", info->changed, given);
    } else if (!arguments->quiet) {
        fprintf(stderr, "%zu of %zu initialisers changed: %zu weights (%.2f MB) made again in %.2f s\n", info->changed,
                given, info->weights, (double)info->weight_bytes / 1e6, ms / 1e3);
    }
}

static int run(const char *engine, const struct refit_arguments *arguments) {
    struct ingot_refit_info info;
    struct ingot_error error;
    if (arguments->weights.count == 0 && !arguments->slot)
        return cli_usage("refit", "no weights are given (--weights FILE)");
    if (arguments->slot && arguments->adapters.count > 1) return cli_usage("refit", "a slot has one adapter");
    if (arguments->check && arguments->output) return cli_usage("refit", "--check writes nothing: -o is in vain");
    if (arguments->output && !is_engine_path(arguments->output))
        return cli_usage("refit", "the engine file '%s' does not end in .ingot", arguments->output);
    double start = now_ms();
    if (refit(engine, arguments, &info, &error) != INGOT_OK) {
        if (error.status == INGOT_INVALID_ARGUMENT) error.status = INGOT_BAD_TENSOR; /* of what is in the files */
        return cli_fail(&error);
    }
    print_result(arguments, &info, now_ms() - start);
    return arguments->check && info.changed ? EXIT_DIFFERENT : EXIT_DONE;
}

int cmd_refit(int argc, char **argv) {
    struct refit_arguments arguments = {.output = NULL};
    const struct option_row rows[] = {
        {"weights", 'w', OPTION_LIST, "FILE",
         "the new weights: .onnx, .safetensors or .npz; repeatable, later\nfiles win", &arguments.weights},
        {"adapter", 0, OPTION_LIST, "FOLDER",
         "a low-rank adapter (LoRA, as PEFT writes it), added to the weights\nof the files; repeatable",
         &arguments.adapters},
        {"slot", 0, OPTION_UNSIGNED, "N",
         "puts the adapter into slot N of an engine built with --adapters,\nbeside the weights; without --adapter, "
         "empties "
         "the slot",
         &arguments.slot},
        {"output", 'o', OPTION_TEXT, "ENGINE", "the engine file to write (default: ENGINE itself is replaced)",
         &arguments.output},
        {"only", 0, OPTION_LIST, "PATTERN", "replaces initialisers of matching names only (* and ?); repeatable",
         &arguments.only},
        {"partial", 0, OPTION_FLAG, NULL, "initialisers that the files lack keep their values", &arguments.partial},
        {"ignore-unknown", 0, OPTION_FLAG, NULL, "skips tensors that the engine's model does not have",
         &arguments.ignore_unknown},
        {"check", 0, OPTION_FLAG, NULL, "writes nothing; ends with status 1 if the engine would change",
         &arguments.check},
        {"quiet", 'q', OPTION_FLAG, NULL, "no report", &arguments.quiet},
        {0},
    };
    const struct option_table table = {
        "refit", "ENGINE --weights FILE [OPTION...]\n       ingot refit ENGINE --slot N [--adapter FOLDER] [OPTION...]",
        "Replaces the weights of an engine, which is not compiled again. 'ingot inspect ENGINE\n--initializers' lists "
        "what can be replaced.\n",
        rows};
    int status, count = options_parse(&table, argc, argv, &status);
    if (count == 1)
        status = run(argv[0], &arguments);
    else if (count >= 0)
        status = cli_usage("refit", "expected one engine, got %d", count);
    option_list_free(&arguments.weights);
    option_list_free(&arguments.adapters);
    option_list_free(&arguments.only);
    return status;
}
