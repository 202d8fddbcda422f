/* ingot run: once, with given or random inputs. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "session.h"
#include "tensor/image.h"

struct run_arguments {
    struct build_arguments build;
    struct image_arguments image;
    struct option_list inputs;
    const char *output;
    struct context_arguments context;
    unsigned seed;
};

/* "output 'y' f32[1,10]: min -3.1 max 7.2 mean 0.4" */
static void print_summary(const char *name, const struct ingot_tensor *tensor) {
    double least = INFINITY, most = -INFINITY, sum = 0;
    int64_t n = ingot_tensor_elements(tensor);
    for (int64_t i = 0; i < n; i++) {
        double value = tensor_get(tensor, i);
        least = value < least || isnan(value) ? value : least;
        most = value > most || isnan(value) ? value : most;
        sum += value;
    }
    char *type = tensor_type_text(tensor);
    printf("output '%s' %s", name, type);
    if (n > 0) printf(": min %.6g max %.6g mean %.6g", least, most, sum / (double)n);
    printf("\n");
    free(type);
}

/* DIR/NAME.npy; characters that could leave the folder are replaced. */
static enum ingot_status write_output(const char *folder, const char *name, const struct ingot_tensor *tensor,
                                      struct ingot_error *error) {
    char *path = cli_format("%s/%s.npy", folder, name);
    for (char *c = path + strlen(folder) + 1; *c; c++) {
        if (*c == '/' || *c == '\\' || (unsigned char)*c < 0x20) *c = '_';
    }
    enum ingot_status status = ingot_tensors_write_npy(path, tensor, error);
    if (error && status == INGOT_IO) error->status = status = INGOT_DEVICE; /* a failed write is not an input's fault */
    free(path);
    return status;
}

static enum ingot_status report(const struct run_arguments *a, const struct session *session,
                                struct ingot_error *error) {
    if (a->output && mkdir(a->output, 0777) != 0 && errno != EEXIST) {
        return cli_error(error, INGOT_DEVICE, "cannot create '%s': %s", a->output, strerror(errno));
    }
    for (size_t i = 0; session->rank == 0 && i < session->n_outputs; i++) {
        struct ingot_tensor tensor;
        CLI_TRY(ingot_context_output(session->context, i, &tensor, error));
        if (a->output) CLI_TRY(write_output(a->output, session->outputs[i].name, &tensor, error));
        if (i == 0 && (a->image.labels || a->image.file)) {
            CLI_TRY(labels_print(&a->image, &tensor, error));
        } else {
            print_summary(session->outputs[i].name, &tensor);
        }
    }
    return INGOT_OK;
}

static enum ingot_status run(const struct run_arguments *a, struct session *session, struct tensor_list *given,
                             struct ingot_error *error) {
    struct ingot_tensor *tensors;
    const struct option_list *shapes = &a->build.shapes;
    if (a->image.file) {
        CLI_TRY(image_prepare(&a->image, session->inputs, session->n_inputs, shapes, given, error));
    }
    CLI_TRY(inputs_prepare(session->inputs, session->n_inputs, &a->inputs, shapes, a->seed, given, &tensors, error));
    enum ingot_status status = session_context(session, &a->context, CLOCK_NONE, error);
    if (status == INGOT_OK) status = inputs_bind(session, tensors, error);
    free(tensors);
    CLI_TRY(status);
    CLI_TRY(ingot_context_run(session->context, error));
    return report(a, session, error);
}

int cmd_run(int argc, char **argv) {
    struct run_arguments a = {.build = BUILD_ARGUMENTS_DEFAULT, .image = IMAGE_ARGUMENTS_DEFAULT};
    const struct option_row rows[] = {
        {"input", 'i', OPTION_LIST, "NAME=FILE", "a tensor from .npy, .npz or ONNX .pb; repeatable", &a.inputs},
        {"output", 'o', OPTION_TEXT, "DIR", "writes each output as DIR/NAME.npy", &a.output},
        {"shape", 's', OPTION_LIST, "NAME=SPEC",
         "a symbol (batch=4) or input (image=1x3x224x224) of what\nis not given; repeatable", &a.build.shapes},
        {"seed", 0, OPTION_UNSIGNED, "N", "of the random inputs (default 0)", &a.seed},
        CONTEXT_OPTION_ROWS(a.context),
        RUN_RANK_OPTION_ROWS(a.build),
        IMAGE_OPTION_ROWS(a.image),
        BUILD_OPTION_ROWS(a.build),
        {0},
    };
    const struct option_table table = {
        "run", "ENGINE|MODEL [OPTION...]",
        "Runs once and prints a line for each output. Inputs that are not given are seeded random numbers; open\n"
        "dims without --shape are 1 along the first axis, 224 along the spatial axes of rank 4, 64 elsewhere.\n",
        rows};
    int status, count = options_parse(&table, argc, argv, &status);
    if (count >= 0 && count != 1) status = cli_usage("run", "expected one engine or model, got %d", count);
    a.build.device = a.context.device;
    a.build.joins = true;
    if (count == 1) {
        struct ingot_error error;
        struct session session;
        struct tensor_list given = {0};
        enum ingot_status result = session_open(&session, argv[0], &a.build, &error);
        if (result == INGOT_OK) result = run(&a, &session, &given, &error);
        session_close(&session);
        tensor_list_free(&given);
        status = result == INGOT_OK ? EXIT_DONE : cli_fail(&error);
    }
    build_arguments_free(&a.build);
    option_list_free(&a.inputs);
    return status;
}
