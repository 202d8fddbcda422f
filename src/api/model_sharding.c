/* ingot_model_write_sharding: a plan for ranks, in the model's own format. */
#include "api/model.h"

#include <string.h>

#include "compile/compile.h"
#include "compile/shard/shard.h"

struct writing {
    struct ingot_model *model;
    const struct ingot_build_options *options;
    const struct ingot_sink *sink;
};

static void write_body(struct ig_job *job, void *argument) {
    const struct writing *w = argument;
    const struct ig_onnx_division *divisions;
    struct ig_sharding sharding;
    ig_compile_divide(job, w->model->graph, w->options, &sharding);
    if (strcmp(sharding.considered[sharding.chosen].name, "own") == 0)
        ig_raise(job, INGOT_UNSUPPORTED, "the model has collectives: it is one rank's, and is not divided");
    const uint32_t count = ig_sharding_divisions(&sharding, &divisions);
    ig_onnx_annotate(job, w->model->data, w->model->size, divisions, count, w->options->ranks[0], w->sink);
}

enum ingot_status ingot_model_write_sharding(struct ingot_model *model, const struct ingot_build_options *given,
                                             const struct ingot_sink *sink, struct ingot_error *error) {
    struct ingot_build_options options;
    char target[IG_TARGET_SIZE];
    if (!model || !sink)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_model_write_sharding: %s is NULL",
                      model ? "sink" : "model");
    IG_TRY(ig_build_options_read(given, &options, target, error));
    if (options.n_ranks != 1 || options.ranks[0] < 2)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "a plan for ranks in a model: say for how many ranks, 2 or more");
    if (!model->data)
        return IG_ERR(error, INGOT_UNSUPPORTED,
                      "the network was not read from an ONNX model, in which its plan could be written");
    struct writing writing = {model, &options, sink};
    return ig_job_run(&model->job, write_body, &writing, error);
}
