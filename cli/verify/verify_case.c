/* One case of `ingot verify`: a folder with expected outputs, or a model compared with the reference evaluator. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verify/dataset.h"
#include "verify/verify.h"

struct trial {
    const struct verify_arguments *arguments;
    struct ingot_model *model;
    size_t n_inputs, n_outputs;
    struct ingot_tensor_info *inputs, *outputs; /* the model's */
    struct session session;                     /* without an engine if the target is the reference */
    struct tensor_list casts;                   /* of the last run: tensors whose types --io-type changes */
    bool reference;
    struct tolerance tolerance;
    char *message;
    size_t size;
};

/* A tensor as the other side has it: --io-type changes floats. */
static enum ingot_status convert(struct trial *t, enum ingot_dtype dtype, struct ingot_tensor *inout_tensor,
                                 struct ingot_error *error) {
    if (inout_tensor->dtype == dtype || !dtype_is_float(dtype) || !dtype_is_float(inout_tensor->dtype)) return INGOT_OK;
    struct named_tensor cast = {0};
    CLI_TRY(tensor_cast(inout_tensor, dtype, &cast.tensor, error));
    tensor_list_add(&t->casts, cast);
    *inout_tensor = cast.tensor;
    return INGOT_OK;
}

static enum ingot_status bind_inputs(struct trial *t, const struct ingot_tensor *inputs, struct ingot_error *error) {
    for (size_t i = 0; i < t->n_inputs; i++) {
        struct ingot_tensor tensor = inputs[i];
        CLI_TRY(convert(t, t->session.inputs[i].dtype, &tensor, error));
        CLI_TRY(ingot_context_set_input(t->session.context, i, &tensor, error));
    }
    return INGOT_OK;
}

/* Runs on the target; the results are valid until the next run. */
static enum ingot_status run_target(struct trial *t, const struct ingot_tensor *inputs,
                                    struct ingot_tensor *out_outputs, struct ingot_error *error) {
    if (t->reference) return ingot_model_evaluate(t->model, inputs, t->n_inputs, out_outputs, t->n_outputs, error);
    tensor_list_free(&t->casts);
    CLI_TRY(bind_inputs(t, inputs, error));
    CLI_TRY(ingot_context_run(t->session.context, error));
    for (size_t i = 0; i < t->n_outputs; i++) {
        CLI_TRY(ingot_context_output(t->session.context, i, &out_outputs[i], error));
        CLI_TRY(convert(t, t->outputs[i].dtype, &out_outputs[i], error));
    }
    return INGOT_OK;
}

static enum verdict compare(struct trial *t, const char *set, const struct ingot_tensor *got,
                            const struct ingot_tensor *want) {
    char difference[256];
    for (size_t i = 0; i < t->n_outputs; i++) {
        if (tensors_agree(&got[i], &want[i], &t->tolerance, difference, sizeof difference)) continue;
        snprintf(t->message, t->size, "%s%soutput '%s': %s", set, *set ? ": " : "", t->outputs[i].name, difference);
        return VERDICT_FAILED;
    }
    return VERDICT_PASSED;
}

/* A model or input that Ingot does not support is skipped; any other error is a failure. */
static enum verdict refused(struct trial *t, const char *set, const struct ingot_error *error) {
    snprintf(t->message, t->size, "%s%s%s", set, *set ? ": " : "", error->message);
    return error->status == INGOT_UNSUPPORTED ? VERDICT_SKIPPED : VERDICT_FAILED;
}

static void copy_tensors(const struct tensor_list *list, struct ingot_tensor *out_tensors) {
    for (size_t i = 0; i < list->count; i++)
        out_tensors[i] = list->at[i].tensor;
}

static enum verdict try_set(struct trial *t, const struct dataset *set) {
    if (set->inputs.count != t->n_inputs || set->outputs.count != t->n_outputs) {
        snprintf(t->message, t->size, "%s: %zu inputs and %zu outputs, the model has %zu and %zu", set->name,
                 set->inputs.count, set->outputs.count, t->n_inputs, t->n_outputs);
        return VERDICT_FAILED;
    }
    struct ingot_error error;
    struct ingot_tensor *inputs = cli_alloc(t->n_inputs, sizeof *inputs), *got = cli_alloc(t->n_outputs, sizeof *got);
    struct ingot_tensor *want = cli_alloc(t->n_outputs, sizeof *want);
    copy_tensors(&set->inputs, inputs);
    copy_tensors(&set->outputs, want);
    enum verdict verdict = run_target(t, inputs, got, &error) == INGOT_OK ? compare(t, set->name, got, want)
                                                                          : refused(t, set->name, &error);
    free(inputs);
    free(got);
    free(want);
    return verdict;
}

static enum verdict try_sets(struct trial *t, const struct datasets *sets) {
    for (size_t i = 0; i < sets->count; i++) {
        enum verdict verdict = try_set(t, &sets->at[i]);
        if (verdict != VERDICT_PASSED) return verdict;
    }
    return VERDICT_PASSED;
}

/* If the reference evaluator rejects the inputs, the default sizes of symbolic dims may be the reason. */
static void explain_sizes(struct ingot_error *error) {
    size_t used = strlen(error->message);
    snprintf(error->message + used, sizeof error->message - used, " (sizes that fit can be given by --shape)");
}

/* Target against reference evaluator, on random inputs. */
static enum verdict try_random(struct trial *t) {
    struct ingot_error error;
    struct tensor_list given = {0};
    struct ingot_tensor *inputs = NULL, *got = cli_alloc(t->n_outputs, sizeof *got);
    struct ingot_tensor *want = cli_alloc(t->n_outputs, sizeof *want);
    enum verdict verdict = VERDICT_SKIPPED;
    enum ingot_status status = inputs_prepare(t->inputs, t->n_inputs, NULL, &t->arguments->build.shapes,
                                              t->arguments->seed, &given, &inputs, &error);
    if (status == INGOT_OK) {
        status = ingot_model_evaluate(t->model, inputs, t->n_inputs, want, t->n_outputs, &error);
        if (status == INGOT_INVALID_ARGUMENT) explain_sizes(&error);
    }
    if (status == INGOT_OK && t->reference) {
        snprintf(t->message, t->size, "evaluates, but there are no expected outputs to compare with");
    } else if (status == INGOT_OK) {
        status = run_target(t, inputs, got, &error);
        if (status == INGOT_OK) verdict = compare(t, "", got, want);
    }
    if (status != INGOT_OK) verdict = refused(t, "", &error);
    free(inputs);
    free(got);
    free(want);
    tensor_list_free(&given);
    return verdict;
}

static void ask_model(struct trial *t) {
    t->n_inputs = ingot_model_input_count(t->model);
    t->n_outputs = ingot_model_output_count(t->model);
    t->inputs = cli_alloc(t->n_inputs, sizeof *t->inputs);
    t->outputs = cli_alloc(t->n_outputs, sizeof *t->outputs);
    for (size_t i = 0; i < t->n_inputs; i++)
        ingot_model_input(t->model, i, &t->inputs[i]);
    for (size_t i = 0; i < t->n_outputs; i++)
        ingot_model_output(t->model, i, &t->outputs[i]);
}

/* A tolerance.json beside a lone model file applies too, since it describes the model. */
static enum ingot_status tolerance_beside(const char *model, struct tolerance *tolerance, struct ingot_error *error) {
    const char *slash = strrchr(model, '/');
    char *path = cli_format("%.*stolerance.json", slash ? (int)(slash + 1 - model) : 0, model);
    enum ingot_status status = access(path, F_OK) == 0 ? tolerance_read(path, tolerance, error) : INGOT_OK;
    free(path);
    return status;
}

static void choose_tolerance(struct trial *t, const struct datasets *sets) {
    t->tolerance = sets->tolerance;
    if (t->arguments->rtol) t->tolerance.rtol = t->arguments->given.rtol;
    if (t->arguments->atol) {
        t->tolerance.atol = t->arguments->given.atol;
        t->tolerance.share = 0;
        t->tolerance.rms = 1e300;
    }
}

/* Builds and runs the case at `path`, whose model is loaded. */
static enum verdict try_model(struct trial *t, const char *path, bool folder) {
    struct ingot_error error;
    const struct build_arguments *build = &t->arguments->build;
    struct datasets sets = {.tolerance = tolerance_of_build(build)};
    ask_model(t);
    enum ingot_status status =
        folder ? datasets_read(path, t->inputs, t->n_inputs, t->outputs, t->n_outputs, &sets, &error)
               : tolerance_beside(path, &sets.tolerance, &error);
    if (status != INGOT_OK) return refused(t, "", &error);
    choose_tolerance(t, &sets);
    if (!t->reference) {
        status = session_build(&t->session, t->model, &t->arguments->build, &error);
        if (status == INGOT_OK) status = session_context(&t->session, &t->arguments->context, CLOCK_NONE, &error);
    }
    enum verdict verdict = status != INGOT_OK ? refused(t, "", &error)
                           : sets.count > 0   ? try_sets(t, &sets)
                                              : try_random(t);
    datasets_free(&sets);
    tensor_list_free(&t->casts);
    session_close(&t->session);
    return verdict;
}

enum verdict verify_case(const struct verify_arguments *arguments, const char *path, char *out_message, size_t size) {
    struct trial t = {.arguments = arguments, .message = out_message, .size = size};
    struct ingot_error error;
    struct stat info;
    bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    char *file = model_path(path);
    enum verdict verdict;
    out_message[0] = 0;
    t.reference = arguments->build.target && strcmp(arguments->build.target, "reference") == 0;
    if (ingot_model_load(file, NULL, &t.model, &error) == INGOT_OK) {
        verdict = try_model(&t, path, folder);
        ingot_model_destroy(t.model);
    } else {
        verdict = refused(&t, "", &error);
    }
    free(t.inputs);
    free(t.outputs);
    free(file);
    return verdict;
}
