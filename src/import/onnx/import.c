/*
 * The importer: unpacks the model, creates its inputs, imports what its outputs depend on. Source: onnx.ai, "ONNX IR
 * specification", IR versions 3 and up; operators from opset 7 up.
 */
#include "import/onnx/import.h"

#include <string.h>

#include "import/onnx/importer.h"

enum { MIN_IR_VERSION = 3 };

/* ---- Unpacking: protobuf-c allocates in the job's arena, and a failed allocation leaves the job ---- */

static void *arena_alloc(void *job, size_t size) {
    return ig_alloc(job, size ? size : 1);
}

static void arena_free(void *job, void *memory) {
    (void)job;
    (void)memory;
}

static const Onnx__ModelProto *unpack(struct ig_job *job, const struct ig_onnx_message *message) {
    ProtobufCAllocator allocator = {.alloc = arena_alloc, .free = arena_free, .allocator_data = job};
    const Onnx__ModelProto *model = onnx__model_proto__unpack(&allocator, message->size, message->data);
    if (!model) ig_raise(job, INGOT_BAD_MODEL, "the file is no ONNX model: its encoding is malformed");
    if (!model->has_ir_version || !model->graph) {
        ig_raise(job, INGOT_BAD_MODEL, "the file is no ONNX model: it has no %s",
                 model->graph ? "IR version" : "graph");
    }
    if (model->ir_version < MIN_IR_VERSION) {
        ig_raise(job, INGOT_UNSUPPORTED, "IR version %lld is not supported, only %d and up",
                 (long long)model->ir_version, MIN_IR_VERSION);
    }
    return model;
}

/* ---- Inputs ---- */

struct known {
    const struct ig_map *plain; /* the names that are a whole dim of some input */
    struct ig_dims *dims;
    bool all;
};

static void check_known(void *user, ig_dim symbol) {
    struct known *known = user;
    uint32_t there;
    known->all &= ig_map_get_name(known->plain, ig_dim_look(known->dims, symbol).name, &there);
}

/*
 * A dim of an input: a number, a name that dims may share, or an expression of such names ("past+sequence"). Anything
 * else (no name, "?", 0, -1) is a dim of its own.
 */
static ig_dim input_dim(struct ig_onnx *import, const struct ig_map *plain, const char *input, size_t axis,
                        const Onnx__TensorShapeProto__Dimension *dim) {
    if (dim->has_dim_value && dim->dim_value > 0) return ig_dim_const(import->dims, dim->dim_value);
    const char *text = dim->dim_param ? dim->dim_param : "";
    if (ig_dim_is_name(text)) return ig_dim_symbol(import->dims, text);
    if (*text) {
        const char *end = NULL;
        struct known known = {.plain = plain, .dims = import->dims, .all = true};
        ig_dim parsed = ig_dim_parse(import->dims, text, &end);
        int64_t lo = -1, hi;
        if (parsed != IG_DIM_NONE && end && *end == '\0') {
            ig_dim_symbols(import->dims, parsed, check_known, &known);
            ig_dim_range(import->dims, parsed, &lo, &hi);
            if (known.all && lo >= 0) return parsed;
        }
    }
    return ig_dim_symbol(import->dims, ig_format(import->job, "%s.%zu", input, axis));
}

static const Onnx__TypeProto *type_of(struct ig_job *job, const Onnx__ValueInfoProto *info) {
    const Onnx__TypeProto *type = info->type;
    if (!info->name || !*info->name) ig_raise(job, INGOT_BAD_MODEL, "an input has no name");
    if (!type) ig_raise(job, INGOT_BAD_MODEL, "input '%s' has no type", info->name);
    return type;
}

/* Why an input of this type is not supported, or NULL. */
static const char *refusal_of(struct ig_job *job, const char *name, const Onnx__TypeProto *type) {
    const char *kind = type->sequence_type        ? "a sequence"
                       : type->map_type           ? "a map"
                       : type->optional_type      ? "an optional"
                       : type->sparse_tensor_type ? "a sparse tensor"
                                                  : NULL;
    if (kind) return ig_format(job, "input '%s' is %s, which is not supported", name, kind);
    if (!type->tensor_type) ig_raise(job, INGOT_BAD_MODEL, "input '%s' has no tensor type", name);
    const char *unsupported = ig_onnx_unsupported_type(type->tensor_type->elem_type);
    if (unsupported) return ig_format(job, "type %s of input '%s' is not supported", unsupported, name);
    const Onnx__TensorShapeProto *shape = type->tensor_type->shape;
    if (!shape) return ig_format(job, "input '%s' has no shape: its rank must be known", name);
    if (shape->n_dim <= INGOT_MAX_RANK) return NULL;
    return ig_format(job, "input '%s' has rank %zu; at most %d is supported", name, shape->n_dim, INGOT_MAX_RANK);
}

/*
 * The elements of a small integer input may determine shapes (a Reshape's target, a Slice's ends). Each becomes a
 * symbol, which the runtime reads from the input at the start of a run.
 */
static void give_elements(struct ig_onnx *import, struct ig_graph *g, ig_value value, const char *name) {
    const struct ig_type *type = ig_type_of(g, value);
    int64_t count = 1;
    uint32_t plain;
    if (ig_map_get_name(&import->plain, name, &plain)) return;
    if (type->rank > 1 || (type->dtype != INGOT_I64 && type->dtype != INGOT_I32)) return;
    if (type->rank == 1 && !ig_dim_is_const(import->dims, type->dim[0], &count)) return;
    if (count > IG_ONNX_MAX_INPUT_ELEMENTS) return;
    ig_dim *elements = IG_NEW_ARRAY(import->job, ig_dim, (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        elements[i] = ig_dim_symbol(import->dims, ig_format(import->job, "%s[%lld]", name, (long long)i));
        ig_dim_set_range(import->dims, elements[i], INT32_MIN, INT32_MAX);
    }
    g->values.at[value].elements = elements;
}

static void import_input(struct ig_onnx_scope *scope, const struct ig_map *plain, const Onnx__ValueInfoProto *info) {
    struct ig_onnx *import = scope->import;
    const Onnx__TypeProto *proto = type_of(import->job, info);
    const char *refusal = refusal_of(import->job, info->name, proto);
    if (refusal) {
        ig_onnx_bind(scope, info->name, IG_ONNX_REFUSED);
        ig_map_put_name(&import->refused, info->name, import->refusals.count);
        IG_PUSH(import->job, &import->refusals, refusal);
        return;
    }
    const Onnx__TypeProto__Tensor *tensor = proto->tensor_type;
    struct ig_type type = {.rank = (int)tensor->shape->n_dim};
    type.dtype = ig_onnx_dtype(import->job, tensor->elem_type, ig_format(import->job, "input '%s'", info->name));
    for (size_t i = 0; i < tensor->shape->n_dim; i++) {
        type.dim[i] = input_dim(import, plain, info->name, i, tensor->shape->dim[i]);
    }
    ig_value value = ig_build_input(scope->graph, info->name, &type);
    ig_onnx_bind(scope, info->name, value);
    give_elements(import, scope->graph, value, info->name);
}

/* Adds the names that are a whole dim of this input. */
static void add_plain_dims(struct ig_map *plain, const Onnx__TypeProto *type) {
    const Onnx__TensorShapeProto *shape = type->tensor_type ? type->tensor_type->shape : NULL;
    for (size_t i = 0; shape && i < shape->n_dim; i++) {
        const char *name = shape->dim[i]->dim_param;
        if (name && ig_dim_is_name(name)) ig_map_put_name(plain, name, 1);
    }
}

/* Inputs that are also initialisers are constants (before IR version 4 all initialisers are listed as inputs). */
static void import_inputs(struct ig_onnx_scope *scope) {
    const Onnx__GraphProto *graph = scope->proto;
    struct ig_job *job = scope->import->job;
    struct ig_map plain;
    ig_map_init(&plain, job);
    for (size_t i = 0; i < graph->n_input; i++) {
        const Onnx__ValueInfoProto *info = graph->input[i];
        if (info->name && ig_onnx_is_initializer(scope, info->name)) continue;
        add_plain_dims(&plain, type_of(job, info));
    }
    for (size_t i = 0; i < graph->n_input; i++) {
        const Onnx__ValueInfoProto *info = graph->input[i];
        if (!ig_onnx_is_initializer(scope, info->name)) import_input(scope, &plain, info);
    }
}

/* ---- The import ---- */

static void add_unused(struct ig_onnx *import, const Onnx__GraphProto *graph) {
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const Onnx__TensorProto *proto = graph->initializer[i];
        ig_onnx_add_unused(import, proto, proto->n_dims, proto->dims);
    }
    for (size_t i = 0; i < graph->n_sparse_initializer; i++) {
        const Onnx__SparseTensorProto *sparse = graph->sparse_initializer[i];
        if (sparse->values) ig_onnx_add_unused(import, sparse->values, sparse->n_dims, sparse->dims);
    }
}

static struct ig_graph *import_model(struct ig_onnx *import) {
    struct ig_job *job = import->job;
    import->dims = ig_dims_create(job);
    import->nesting = import->forks = 0;
    import->nodes = 0;
    import->collectives = 0;
    ig_map_init(&import->refused, job);
    import->refusals.count = 0;
    struct ig_graph *graph = ig_graph_create(job, import->dims);
    graph->initializers = import->initializers = ig_initializers_create(job);
    ig_map_init(&import->records, job);
    struct ig_onnx_scope scope;
    ig_onnx_scope_init(&scope, import, graph, NULL, import->model->graph);
    scope.n_opsets = import->model->n_opset_import;
    scope.opsets = import->model->opset_import;
    if (scope.proto->n_output == 0) ig_raise(job, INGOT_BAD_MODEL, "the graph has no outputs");
    import_inputs(&scope);
    ig_onnx_import_graph(&scope);
    for (size_t i = 0; i < scope.proto->n_output; i++) {
        ig_value value = ig_onnx_graph_output(&scope, i);
        ig_build_output(graph, scope.proto->output[i]->name, value);
    }
    if (import->refusals.count) ig_raise(job, INGOT_UNSUPPORTED, "%s", import->refusals.at[0]);
    add_unused(import, scope.proto);
    ig_onnx_name_parameters(graph->initializers, scope.proto);
    ig_onnx_read_sharding(&scope);
    ig_initializers_end_import(graph->initializers);
    return graph;
}

struct again {
    struct ig_onnx *import;
    struct ig_graph *graph;
};

static void import_again(struct ig_job *job, void *argument) {
    struct again *again = argument;
    (void)job;
    again->graph = import_model(again->import);
}

static struct ig_onnx *begin(struct ig_job *job, const void *data, size_t size, const char *folder) {
    struct ig_onnx *import = IG_NEW(job, struct ig_onnx);
    import->job = job;
    import->folder = folder;
    ig_defer(job, ig_onnx_release_files, import);
    import->message = ig_onnx_cut(job, data, size);
    import->model = unpack(job, &import->message);
    return import;
}

struct ig_initializers *ig_import_onnx_initializers(struct ig_job *job, const void *data, size_t size,
                                                    const char *folder) {
    struct ig_onnx *import = begin(job, data, size, folder);
    import->initializers = ig_initializers_create(job);
    ig_map_init(&import->records, job);
    ig_onnx_read_initializers(import, import->model->graph);
    ig_onnx_name_parameters(import->initializers, import->model->graph);
    return import->initializers;
}

static const char *text_or_empty(const char *text) {
    return text ? text : "";
}

static struct ingot_model_metadata describe(struct ig_job *job, const Onnx__ModelProto *model) {
    struct ingot_model_property *properties = IG_NEW_ARRAY(job, struct ingot_model_property, model->n_metadata_props);
    for (size_t i = 0; i < model->n_metadata_props; i++) {
        const Onnx__StringStringEntryProto *entry = model->metadata_props[i];
        properties[i] = (struct ingot_model_property){text_or_empty(entry->key), text_or_empty(entry->value)};
    }
    return (struct ingot_model_metadata){.producer = text_or_empty(model->producer_name),
                                         .producer_version = text_or_empty(model->producer_version),
                                         .domain = text_or_empty(model->domain),
                                         .description = text_or_empty(model->doc_string),
                                         .graph_name = text_or_empty(model->graph->name),
                                         .graph_description = text_or_empty(model->graph->doc_string),
                                         .version = model->model_version,
                                         .properties = properties,
                                         .n_properties = model->n_metadata_props};
}

struct ig_graph *ig_import_onnx(struct ig_job *job, const void *data, size_t size, const char *folder,
                                bool missing_weights, struct ingot_model_metadata *out_metadata) {
    struct ig_onnx *import = begin(job, data, size, folder);
    if (out_metadata) *out_metadata = describe(job, import->model);
    import->missing_weights = missing_weights;
    ig_onnx_register_functions(import);
    ig_map_init(&import->plain, job);
    struct ig_graph *graph = import_model(import);
    if (ig_onnx_find_plain_inputs(graph, &import->plain)) {
        /* Symbols that are left in no shape may still have been needed on the way: if the second import fails, the
         * first one stays. */
        struct again again = {.import = import};
        struct ingot_error error;
        if (ig_job_run(job, import_again, &again, &error) == INGOT_OK) graph = again.graph;
    }
    ig_graph_narrow_symbols(graph);
    return graph;
}
