/* ingot_network_create … ingot_network_finish: models made by code. */
#include <string.h>

#include "api/model.h"
#include "api/options.h"
#include "base/memory.h"
#include "import/network/network.h"
#include "ir/build.h"
#include "ir/initializer.h"

/* A network, or a body of one. All of it is in the job of the model that it becomes. */
struct ingot_network {
    struct ingot_model *model;
    struct ig_network *shared;
    struct ig_graph *graph;
    struct ingot_network *outer; /* of a body */
    bool is_given;               /* a body, to its operator */
    struct ig_map inputs, outputs;
};

/* One call: what the functions below do within the job. */
struct call {
    struct ingot_network *network;
    const char *name;
    union {
        struct {
            enum ingot_dtype dtype;
            int rank;
            const char *const *dims;
        } input;
        struct {
            int64_t lo, hi;
        } range;
        struct {
            const struct ingot_tensor *tensor;
            bool copy;
        } weight;
        struct {
            const struct ingot_operator *op;
            ingot_value *values;
            size_t count;
        } add;
        int onnx_opset;
        const char *symbol;
        ingot_value input_value;
    };
    ingot_value value; /* given or made */
    struct ingot_tensor_info info;
    struct ingot_network *body;
};

static enum ingot_status run(struct call *call, void (*body)(struct ig_job *, void *), struct ingot_error *error) {
    if (!call->network) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_network: there is no network");
    struct ig_graph *graph = call->network->graph;
    uint32_t assumed = graph ? graph->assumptions.count : 0;
    enum ingot_status status = ig_job_run(&call->network->model->job, body, call, error);
    if (status != INGOT_OK && graph) graph->assumptions.count = assumed;
    return status;
}

static void check_name(struct ig_job *job, const struct ig_map *names, const char *name, const char *what) {
    uint32_t there;
    if (!name || !*name) ig_raise(job, INGOT_INVALID_ARGUMENT, "%s needs a name", what);
    if (names && ig_map_get_name(names, name, &there))
        ig_raise(job, INGOT_INVALID_ARGUMENT, "there is already %s named '%.100s'", what, name);
}

static void check_value(struct ig_job *job, const struct ingot_network *network, ingot_value value) {
    if (value >= network->graph->values.count)
        ig_raise(job, INGOT_INVALID_ARGUMENT, "%u is no value of this network", value);
}

/* ---- Creation */

static struct ingot_network *make(struct ig_job *job, struct ingot_model *model, struct ingot_network *outer) {
    struct ingot_network *network = IG_NEW(job, struct ingot_network);
    network->model = model;
    network->outer = outer;
    ig_map_init(&network->inputs, job);
    ig_map_init(&network->outputs, job);
    return network;
}

struct creation {
    struct ingot_model *model;
    struct ingot_network *network;
    int onnx_opset;
};

static void create_body(struct ig_job *job, void *argument) {
    struct creation *creation = argument;
    struct ingot_network *network = make(job, creation->model, NULL);
    network->shared = IG_NEW(job, struct ig_network);
    ig_network_init(network->shared, job, creation->onnx_opset);
    network->graph = ig_graph_create(job, network->shared->dims);
    network->graph->initializers = network->shared->initializers;
    creation->network = network;
}

enum ingot_status ingot_network_create(const struct ingot_network_options *options, struct ingot_network **out_network,
                                       struct ingot_error *error) {
    struct ingot_network_options whole = INGOT_NETWORK_OPTIONS_INIT;
    struct creation creation = {NULL};
    const struct ingot_allocator *allocator;
    if (!out_network) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_network_create: NULL argument");
    IG_TRY(ig_options_read("ingot_network_options", options, sizeof whole, &whole, error));
    IG_TRY(ig_options_allocator(whole.allocator, &ig_libc_allocator, &allocator, error));
    creation.onnx_opset = whole.onnx_opset;
    IG_TRY(ig_model_create(allocator, &creation.model, error));
    enum ingot_status status = ig_job_run(&creation.model->job, create_body, &creation, error);
    if (status != INGOT_OK) {
        ingot_model_destroy(creation.model);
        return status;
    }
    *out_network = creation.network;
    return INGOT_OK;
}

void ingot_network_destroy(struct ingot_network *network) {
    /* Bodies go with the network that they are part of. */
    if (network && !network->outer) ingot_model_destroy(network->model);
}

static void body_body(struct ig_job *job, void *argument) {
    struct call *call = argument;
    struct ingot_network *body = make(job, call->network->model, call->network);
    body->shared = call->network->shared;
    body->graph = ig_graph_create(job, body->shared->dims);
    call->body = body;
}

enum ingot_status ingot_network_create_body(struct ingot_network *outer, struct ingot_network **out_body,
                                            struct ingot_error *error) {
    struct call call = {.network = outer};
    if (!out_body) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_network_create_body: NULL argument");
    IG_TRY(run(&call, body_body, error));
    *out_body = call.body;
    return INGOT_OK;
}

/* ---- Inputs and weights */

static void input_body(struct ig_job *job, void *argument) {
    struct call *call = argument;
    struct ingot_network *network = call->network;
    struct ig_type type = {.dtype = call->input.dtype, .rank = call->input.rank};
    check_name(job, &network->inputs, call->name, "an input");
    struct ig_where where = {.verb = "add", .name = call->name, .kind = "input"};
    ig_where_push(job, &where);
    if (ingot_dtype_size(type.dtype) == 0)
        ig_raise(job, INGOT_INVALID_ARGUMENT, "its type %d does not exist", (int)type.dtype);
    if (type.rank < 0 || type.rank > INGOT_MAX_RANK)
        ig_raise(job, INGOT_INVALID_ARGUMENT, "it has rank %d, expected 0 to %d", type.rank, INGOT_MAX_RANK);
    if (type.rank > 0 && !call->input.dims) ig_raise(job, INGOT_INVALID_ARGUMENT, "it has no dims");
    for (int i = 0; i < type.rank; i++) {
        const char *text = call->input.dims[i];
        type.dim[i] =
            network->outer ? ig_network_dim(network->shared, text) : ig_network_input_dim(network->shared, text);
    }
    call->value = ig_build_input(network->graph, ig_strdup(job, call->name), &type);
    ig_map_put_name(&network->inputs, call->name, 1);
    ig_where_pop(job);
}

enum ingot_status ingot_network_input(struct ingot_network *network, const char *name, enum ingot_dtype dtype, int rank,
                                      const char *const *dims, ingot_value *out_value, struct ingot_error *error) {
    struct call call = {.network = network, .name = name, .input = {dtype, rank, dims}};
    if (!out_value) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_network_input: NULL argument");
    IG_TRY(run(&call, input_body, error));
    *out_value = call.value;
    return INGOT_OK;
}

static void size_body(struct ig_job *job, void *argument) {
    struct call *call = argument;
    struct ingot_network *network = call->network;
    struct ig_type type = {.dtype = INGOT_I64};
    check_name(job, &network->inputs, call->name, "an input");
    if (network->outer) ig_raise(job, INGOT_INVALID_ARGUMENT, "a body's inputs are no sizes");
    ig_dim *element = IG_NEW(job, ig_dim);
    *element = ig_network_symbol(network->shared, call->symbol);
    call->value = ig_build_input(network->graph, ig_strdup(job, call->name), &type);
    network->graph->values.at[call->value].elements = element;
    ig_map_put_name(&network->inputs, call->name, 1);
}

enum ingot_status ingot_network_size_input(struct ingot_network *network, const char *name, const char *symbol,
                                           ingot_value *out_value, struct ingot_error *error) {
    struct call call = {.network = network, .name = name, .symbol = symbol};
    if (!out_value) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_network_size_input: NULL argument");
    IG_TRY(run(&call, size_body, error));
    *out_value = call.value;
    return INGOT_OK;
}

static void range_body(struct ig_job *job, void *argument) {
    struct call *call = argument;
    struct ig_dims *dims = call->network->shared->dims;
    int64_t lo, hi;
    ig_dim symbol = ig_network_dim(call->network->shared, call->name);
    if (ig_dim_look(dims, symbol).kind != IG_DIM_SYMBOL)
        ig_raise(job, INGOT_INVALID_ARGUMENT, "'%.100s' is no symbol", call->name);
    ig_dim_range(dims, symbol, &lo, &hi);
    ig_dim_set_range(dims, symbol, call->range.lo > lo ? call->range.lo : lo,
                     call->range.hi < hi ? call->range.hi : hi);
}

enum ingot_status ingot_network_set_range(struct ingot_network *network, const char *symbol, int64_t lo, int64_t hi,
                                          struct ingot_error *error) {
    struct call call = {.network = network, .name = symbol, .range = {lo, hi}};
    return run(&call, range_body, error);
}

/* A constant of the given data; `name` for weights. */
static ingot_value constant(struct ig_job *job, struct call *call, bool copy) {
    struct ingot_network *network = call->network;
    const struct ingot_tensor *tensor = call->weight.tensor;
    size_t size = ig_network_check_tensor(network->shared, tensor);
    struct ig_data *data = IG_NEW(job, struct ig_data);
    bool aligned = size >= IG_DATA_LARGE || (uintptr_t)tensor->data % ingot_dtype_size(tensor->dtype) == 0;
    data->size = size;
    data->bytes = copy || !aligned || size == 0 ? ig_memdup(job, tensor->data, size) : tensor->data;
    if (call->name) {
        data->initializer = ig_strdup(job, call->name);
        data->record = ig_initializers_add(network->shared->initializers, data->initializer, tensor->dtype,
                                           (size_t)tensor->rank, tensor->dims, data->bytes, size);
    }
    ig_value value = ig_build_constant(network->graph, tensor->dtype, tensor->rank, tensor->dims, data);
    if (call->name) ig_build_name(network->graph, value, data->initializer);
    return value;
}

static void weight_body(struct ig_job *job, void *argument) {
    struct call *call = argument;
    check_name(job, &call->network->shared->initializers->by_name, call->name, "a weight");
    struct ig_where where = {.verb = "add", .name = call->name, .kind = "weight"};
    ig_where_push(job, &where);
    call->value = constant(job, call, call->weight.copy);
    ig_where_pop(job);
}

enum ingot_status ingot_network_weight(struct ingot_network *network, const char *name,
                                       const struct ingot_tensor *tensor, bool copy, ingot_value *out_value,
                                       struct ingot_error *error) {
    struct call call = {.network = network, .name = name, .weight = {tensor, copy}};
    if (!out_value) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_network_weight: NULL argument");
    IG_TRY(run(&call, weight_body, error));
    *out_value = call.value;
    return INGOT_OK;
}

static void constant_body(struct ig_job *job, void *argument) {
    struct call *call = argument;
    struct ig_where where = {.verb = "add", .kind = "constant"};
    ig_where_push(job, &where);
    call->value = constant(job, call, true);
    ig_where_pop(job);
}

enum ingot_status ingot_network_constant(struct ingot_network *network, const struct ingot_tensor *tensor,
                                         ingot_value *out_value, struct ingot_error *error) {
    struct call call = {.network = network, .weight = {tensor, true}};
    if (!out_value) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_network_constant: NULL argument");
    IG_TRY(run(&call, constant_body, error));
    *out_value = call.value;
    return INGOT_OK;
}

/* ---- Operators */

/* The graphs of the bodies that the operator is given. */
static struct ig_graph **bodies_of(struct ig_job *job, struct ingot_network *network, const struct ingot_operator *op) {
    struct ig_graph **graphs = IG_NEW_ARRAY(job, struct ig_graph *, op->n_attributes + 1);
    size_t count = 0;
    for (size_t i = 0; op->attributes && i < op->n_attributes; i++) {
        struct ingot_network *body = op->attributes[i].body;
        if (op->attributes[i].kind != INGOT_ATTRIBUTE_BODY) continue;
        if (!body || body->outer != network || body->is_given)
            ig_raise(job, INGOT_INVALID_ARGUMENT,
                     "operator '%s': body %zu is none of this network, or is given already", op->name ? op->name : "",
                     count);
        graphs[count++] = body->graph;
    }
    return graphs;
}

static void add_body(struct ig_job *job, void *argument) {
    struct call *call = argument;
    struct ingot_network *network = call->network;
    const struct ingot_operator *op = call->add.op;
    ingot_value *values = IG_NEW_ARRAY(job, ingot_value, call->add.count + 1);
    struct ig_graph **bodies = bodies_of(job, network, op);
    if (call->add.count > INT32_MAX || (call->add.count && !call->add.values))
        ig_raise(job, INGOT_INVALID_ARGUMENT, "%zu outputs without a list", call->add.count);
    ig_network_add(network->shared, network->graph, op, bodies, values, call->add.count);
    for (size_t i = 0; i < op->n_attributes; i++) {
        if (op->attributes[i].kind == INGOT_ATTRIBUTE_BODY) op->attributes[i].body->is_given = true;
    }
    if (call->add.count) memcpy(call->add.values, values, call->add.count * sizeof *values);
}

enum ingot_status ingot_network_add(struct ingot_network *network, const struct ingot_operator *op,
                                    ingot_value *out_values, size_t n_outputs, struct ingot_error *error) {
    struct call call = {.network = network, .add = {op, out_values, n_outputs}};
    if (!op) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_network_add: NULL argument");
    return run(&call, add_body, error);
}

/* ---- Values and outputs */

static void describe_body(struct ig_job *job, void *argument) {
    struct call *call = argument;
    struct ig_graph *graph = call->network->graph;
    check_value(job, call->network, call->value);
    struct ig_port port = {.value = call->value, .name = ig_info(graph, call->value)->name};
    call->info = ig_model_describe_port(graph, &port);
}

enum ingot_status ingot_network_describe(struct ingot_network *network, ingot_value value,
                                         struct ingot_tensor_info *out_info, struct ingot_error *error) {
    struct call call = {.network = network, .value = value};
    if (!out_info) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_network_describe: NULL argument");
    IG_TRY(run(&call, describe_body, error));
    *out_info = call.info;
    return INGOT_OK;
}

static void output_body(struct ig_job *job, void *argument) {
    struct call *call = argument;
    struct ingot_network *network = call->network;
    check_name(job, &network->outputs, call->name, "an output");
    check_value(job, network, call->value);
    if (network->is_given) ig_raise(job, INGOT_INVALID_ARGUMENT, "the body is given to its operator already");
    ig_build_output(network->graph, ig_strdup(job, call->name), call->value);
    ig_map_put_name(&network->outputs, call->name, 1);
}

enum ingot_status ingot_network_output(struct ingot_network *network, const char *name, ingot_value value,
                                       struct ingot_error *error) {
    struct call call = {.network = network, .name = name, .value = value};
    return run(&call, output_body, error);
}

static uint32_t find_input(struct ig_job *job, const struct ingot_network *network, ingot_value value) {
    const struct ig_graph *g = network->graph;
    for (uint32_t i = 0; i < g->inputs.count; i++) {
        if (g->inputs.at[i].value != value) continue;
        for (uint32_t k = 0; k < g->outputs.count; k++) {
            if (g->outputs.at[k].updates == i + 1)
                ig_raise(job, INGOT_INVALID_ARGUMENT, "input '%s' is updated already", g->inputs.at[i].name);
        }
        return i;
    }
    ig_raise(job, INGOT_INVALID_ARGUMENT, "%u is no input", value);
}

static void update_body(struct ig_job *job, void *argument) {
    struct call *call = argument;
    struct ingot_network *network = call->network;
    struct ig_where where = {.verb = "update an input by", .name = call->name};
    ig_where_push(job, &where);
    check_name(job, &network->outputs, call->name, "an output");
    check_value(job, network, call->value);
    if (network->outer) ig_raise(job, INGOT_INVALID_ARGUMENT, "a body updates nothing");
    uint32_t input = find_input(job, network, call->input_value);
    const struct ig_type *is = ig_type_of(network->graph, call->value);
    const struct ig_type *was = ig_type_of(network->graph, call->input_value);
    bool same = is->dtype == was->dtype && is->rank == was->rank;
    for (int i = 0; same && i < is->rank; i++)
        same = ig_dim_equal(network->shared->dims, is->dim[i], was->dim[i]) == IG_YES;
    if (!same)
        ig_raise(job, INGOT_INVALID_ARGUMENT, "its type is not that of the input '%s'",
                 network->graph->inputs.at[input].name);
    ig_build_update(network->graph, call->name, call->value, input);
    ig_map_put_name(&network->outputs, call->name, 1);
    ig_where_pop(job);
}

enum ingot_status ingot_network_update(struct ingot_network *network, const char *name, ingot_value input,
                                       ingot_value value, struct ingot_error *error) {
    struct call call = {.network = network, .name = name, .value = value, .input_value = input};
    return run(&call, update_body, error);
}

/* ---- The model */

/* Callers read the first outputs, and need not look at the others. */
static void put_updates_last(struct ig_job *job, struct ig_graph *g) {
    struct ig_port *sorted = IG_NEW_ARRAY(job, struct ig_port, g->outputs.count);
    uint32_t count = 0;
    for (int updates = 0; updates < 2; updates++) {
        for (uint32_t i = 0; i < g->outputs.count; i++) {
            if ((g->outputs.at[i].updates != 0) == updates) sorted[count++] = g->outputs.at[i];
        }
    }
    memcpy(g->outputs.at, sorted, count * sizeof *sorted);
}

static void finish_body(struct ig_job *job, void *argument) {
    struct call *call = argument;
    struct ingot_network *network = call->network;
    if (network->outer) ig_raise(job, INGOT_INVALID_ARGUMENT, "a body of control flow is no model");
    if (network->graph->outputs.count == 0) ig_raise(job, INGOT_INVALID_ARGUMENT, "the network has no outputs");
    ig_network_check_symbols(network->shared);
    put_updates_last(job, network->graph);
    ig_graph_narrow_symbols(network->graph);
    ig_model_take(network->model, network->graph);
    ig_initializers_end_import(network->shared->initializers);
}

enum ingot_status ingot_network_finish(struct ingot_network *network, struct ingot_model **out_model,
                                       struct ingot_error *error) {
    struct call call = {.network = network};
    if (!out_model) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_network_finish: NULL argument");
    IG_TRY(run(&call, finish_body, error));
    *out_model = network->model;
    return INGOT_OK;
}
