/* ingot_model_load … ingot_model_print: imported networks. */
#include "api/model.h"

#include <string.h>

#include "api/options.h"
#include "base/file.h"
#include "import/onnx/import.h"
#include "ir/eval/eval.h"
#include "ir/text/print.h"

static void release_results(struct ingot_model *model) {
    for (size_t i = 0; model->results && i < model->n_outputs; i++) {
        if (model->results[i].data) ig_eval_release(&model->job, &model->results[i]);
    }
}

void ingot_model_destroy(struct ingot_model *model) {
    if (!model) return;
    release_results(model);
    ig_job_deinit(&model->job);
    ig_release(model->allocator, model, sizeof *model);
}

/* ---- Loading */

struct ingot_tensor_info ig_model_describe_port(struct ig_graph *graph, const struct ig_port *port) {
    const struct ig_type *type = ig_type_of(graph, port->value);
    struct ingot_tensor_info info = {.name = port->name ? port->name : "", .dtype = type->dtype, .rank = type->rank};
    for (int i = 0; i < type->rank; i++) {
        if (!ig_dim_is_const(graph->dims, type->dim[i], &info.dims[i])) info.dims[i] = -1;
        info.symbols[i] = type->dim[i] == IG_DIM_NONE ? "?" : ig_dim_text(graph->dims, type->dim[i]);
    }
    return info;
}

void ig_model_take(struct ingot_model *model, struct ig_graph *graph) {
    struct ig_job *job = &model->job;
    model->graph = graph;
    model->n_inputs = graph->inputs.count;
    model->n_outputs = graph->outputs.count;
    model->inputs = IG_NEW_ARRAY(job, struct ingot_tensor_info, model->n_inputs);
    model->outputs = IG_NEW_ARRAY(job, struct ingot_tensor_info, model->n_outputs);
    model->results = IG_NEW_ARRAY(job, struct ingot_tensor, model->n_outputs);
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        model->inputs[i] = ig_model_describe_port(graph, &graph->inputs.at[i]);
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        model->outputs[i] = ig_model_describe_port(graph, &graph->outputs.at[i]);
}

enum ingot_status ig_model_create(const struct ingot_allocator *allocator, struct ingot_model **out_model,
                                  struct ingot_error *error) {
    struct ingot_model *model = ig_allocate(allocator, sizeof *model, _Alignof(struct ingot_model));
    if (!model) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory");
    model->allocator = allocator;
    ig_job_init(&model->job, allocator);
    model->metadata = (struct ingot_model_metadata){"", "", "", "", "", "", 0, NULL, 0};
    *out_model = model;
    return INGOT_OK;
}

struct load {
    struct ingot_model *model;
    const char *path; /* NULL: from memory */
    const void *data;
    size_t size;
    const char *folder;
    bool missing_weights;
};

static void unmap(void *mapping) {
    ig_file_unmap(mapping);
}

/* Keeps the file mapped until the model is destroyed: initialisers are used in place. */
static void map_file(struct ig_job *job, struct load *load) {
    struct ig_mapping *mapping = IG_NEW(job, struct ig_mapping);
    struct ingot_error error = {INGOT_INTERNAL, ""};
    if (ig_file_map(load->path, mapping, &error) != INGOT_OK) ig_raise_error(job, &error);
    ig_defer(job, unmap, mapping);
    load->data = mapping->data;
    load->size = mapping->size;
    const char *slash = strrchr(load->path, '/');
    load->folder = !slash ? "." : slash == load->path ? "/" : ig_strndup(job, load->path, (size_t)(slash - load->path));
}

static void load_body(struct ig_job *job, void *argument) {
    struct load *load = argument;
    if (load->path) {
        map_file(job, load);
    } else {
        load->data = ig_memdup(job, load->data, load->size);
    }
    load->model->data = load->data;
    load->model->size = load->size;
    ig_model_take(load->model, ig_import_onnx(job, load->data, load->size, load->folder, load->missing_weights,
                                              &load->model->metadata));
}

static enum ingot_status load_model(struct load *load, const struct ingot_model_options *options,
                                    struct ingot_model **out_model, struct ingot_error *error) {
    struct ingot_model_options whole = INGOT_MODEL_OPTIONS_INIT;
    const struct ingot_allocator *allocator;
    IG_TRY(ig_options_read("ingot_model_options", options, sizeof whole, &whole, error));
    IG_TRY(ig_options_allocator(whole.allocator, &ig_libc_allocator, &allocator, error));
    load->missing_weights = whole.missing_weights;
    IG_TRY(ig_model_create(allocator, &load->model, error));
    enum ingot_status status = ig_job_run(&load->model->job, load_body, load, error);
    if (status != INGOT_OK) {
        ingot_model_destroy(load->model);
        return status;
    }
    *out_model = load->model;
    return INGOT_OK;
}

enum ingot_status ingot_model_load(const char *path, const struct ingot_model_options *options,
                                   struct ingot_model **out_model, struct ingot_error *error) {
    if (!path || !out_model) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_model_load: NULL argument");
    struct load load = {.path = path};
    return load_model(&load, options, out_model, error);
}

enum ingot_status ingot_model_load_memory(const void *data, size_t size, const char *folder,
                                          const struct ingot_model_options *options, struct ingot_model **out_model,
                                          struct ingot_error *error) {
    if (!data || !out_model) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_model_load_memory: NULL argument");
    struct load load = {.data = data, .size = size, .folder = folder};
    return load_model(&load, options, out_model, error);
}

/* ---- Queries */

size_t ingot_model_input_count(const struct ingot_model *model) {
    return model->n_inputs;
}

size_t ingot_model_output_count(const struct ingot_model *model) {
    return model->n_outputs;
}

void ingot_model_input(const struct ingot_model *model, size_t index, struct ingot_tensor_info *out_info) {
    *out_info = model->inputs[index];
}

void ingot_model_output(const struct ingot_model *model, size_t index, struct ingot_tensor_info *out_info) {
    *out_info = model->outputs[index];
}

void ingot_model_describe(const struct ingot_model *model, struct ingot_model_metadata *out_metadata) {
    *out_metadata = model->metadata;
}

struct printing {
    struct ig_graph *graph;
    const struct ingot_sink *sink;
};

static void print_body(struct ig_job *job, void *argument) {
    struct printing *p = argument;
    struct ig_text text;
    ig_text_init(&text, job);
    ig_graph_print(p->graph, 0, &text);
    if (text.length > 0) p->sink->write(p->sink->user, text.at, text.length);
}

enum ingot_status ingot_model_print(struct ingot_model *model, const struct ingot_sink *sink,
                                    struct ingot_error *error) {
    if (!model || !sink || !sink->write)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_model_print: NULL argument");
    struct printing printing = {model->graph, sink};
    return ig_job_run(&model->job, print_body, &printing, error);
}

/* ---- Evaluation */

struct evaluation {
    struct ingot_model *model;
    const struct ingot_tensor *inputs;
};

static void evaluate_body(struct ig_job *job, void *argument) {
    struct evaluation *e = argument;
    ig_eval_graph(job, e->model->graph, e->inputs, e->model->results);
}

enum ingot_status ingot_model_evaluate(struct ingot_model *model, const struct ingot_tensor *inputs, size_t n_inputs,
                                       struct ingot_tensor *out_outputs, size_t n_outputs, struct ingot_error *error) {
    if (!model || (n_inputs > 0 && !inputs) || (n_outputs > 0 && !out_outputs)) {
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_model_evaluate: NULL argument");
    }
    if (n_inputs != model->n_inputs || n_outputs != model->n_outputs) {
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "%zu inputs and %zu outputs given, the model has %zu and %zu",
                      n_inputs, n_outputs, model->n_inputs, model->n_outputs);
    }
    release_results(model);
    struct evaluation evaluation = {model, inputs};
    IG_TRY(ig_job_run(&model->job, evaluate_body, &evaluation, error));
    if (n_outputs > 0) memcpy(out_outputs, model->results, n_outputs * sizeof *out_outputs);
    return INGOT_OK;
}
