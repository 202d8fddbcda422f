/* See network.h. */
#include "import/network/network.h"

#include <string.h>

#include "base/memory.h"
#include "import/onnx/apply.h"
#include "ir/build.h"
#include "ir/initializer.h"

void ig_network_init(struct ig_network *network, struct ig_job *job, int onnx_opset) {
    *network = (struct ig_network){.job = job, .dims = ig_dims_create(job)};
    network->initializers = ig_initializers_create(job);
    network->onnx = ig_onnx_begin_nodes(job, network->dims, network->initializers, onnx_opset);
    ig_map_init(&network->known, job);
    ig_map_init(&network->awaited, job);
}

/* ---- Dims */

static ig_dim parse(struct ig_network *network, const char *text) {
    const char *end = text;
    ig_dim dim = text ? ig_dim_parse(network->dims, text, &end) : IG_DIM_NONE;
    if (dim == IG_DIM_NONE || *end)
        ig_raise(network->job, INGOT_INVALID_ARGUMENT,
                 "'%.100s' is no dim: expected a number, a name or an expression of both", text ? text : "(null)");
    return dim;
}

struct visit {
    struct ig_network *network;
    const char *unknown; /* the first */
    bool await;
};

static void visit_symbol(void *user, ig_dim symbol) {
    struct visit *visit = user;
    struct ig_network *network = visit->network;
    const char *name = ig_dim_look(network->dims, symbol).name;
    uint32_t there;
    if (ig_map_get_name(&network->known, name, &there)) return;
    if (!visit->unknown) visit->unknown = name;
    if (!visit->await || ig_map_get_name(&network->awaited, name, &there)) return;
    ig_map_put_name(&network->awaited, name, 1);
    IG_PUSH(network->job, &network->awaiting, name);
}

ig_dim ig_network_symbol(struct ig_network *network, const char *name) {
    if (!name || !ig_dim_is_name(name))
        ig_raise(network->job, INGOT_INVALID_ARGUMENT,
                 "'%.100s' is no name of a symbol: expected letters, digits and _", name ? name : "(null)");
    ig_map_put_name(&network->known, name, 1);
    return ig_dim_symbol(network->dims, name);
}

ig_dim ig_network_input_dim(struct ig_network *network, const char *text) {
    int64_t lo, hi;
    if (text && ig_dim_is_name(text)) return ig_network_symbol(network, text);
    ig_dim dim = parse(network, text);
    ig_dim_range(network->dims, dim, &lo, &hi);
    if (hi < 0) ig_raise(network->job, INGOT_INVALID_ARGUMENT, "'%s' is no dim: it is negative", text);
    struct visit visit = {.network = network, .await = true};
    ig_dim_symbols(network->dims, dim, visit_symbol, &visit);
    return dim;
}

ig_dim ig_network_dim(struct ig_network *network, const char *text) {
    struct visit visit = {.network = network};
    ig_dim dim = parse(network, text);
    ig_dim_symbols(network->dims, dim, visit_symbol, &visit);
    if (visit.unknown)
        ig_raise(network->job, INGOT_INVALID_ARGUMENT, "symbol '%s' of '%s' is no dim of an input", visit.unknown,
                 text);
    return dim;
}

void ig_network_check_symbols(struct ig_network *network) {
    uint32_t there;
    for (uint32_t i = 0; i < network->awaiting.count; i++) {
        const char *name = network->awaiting.at[i];
        if (ig_map_get_name(&network->known, name, &there)) continue;
        ig_raise(network->job, INGOT_INVALID_ARGUMENT,
                 "symbol '%s' is part of an expression alone: no input has it as a whole dim, or as its value", name);
    }
}

/* ---- Tensors */

size_t ig_network_check_tensor(struct ig_network *network, const struct ingot_tensor *tensor) {
    struct ig_job *job = network->job;
    if (!tensor) ig_raise(job, INGOT_INVALID_ARGUMENT, "there is no tensor");
    size_t size = ingot_dtype_size(tensor->dtype);
    bool fits = true;
    if (size == 0) ig_raise(job, INGOT_INVALID_ARGUMENT, "the tensor's type %d does not exist", (int)tensor->dtype);
    if (tensor->rank < 0 || tensor->rank > INGOT_MAX_RANK)
        ig_raise(job, INGOT_INVALID_ARGUMENT, "the tensor has rank %d, expected 0 to %d", tensor->rank, INGOT_MAX_RANK);
    if (tensor->memory == INGOT_CUDA) ig_raise(job, INGOT_UNSUPPORTED, "the tensor is in a GPU's memory");
    for (int i = 0; i < tensor->rank; i++) {
        if (tensor->dims[i] < 0)
            ig_raise(job, INGOT_INVALID_ARGUMENT, "the tensor has the dim %lld", (long long)tensor->dims[i]);
        fits &= tensor->dims[i] == 0 || ig_size_mul(size, (size_t)tensor->dims[i], &size);
    }
    for (int i = 0; i < tensor->rank; i++) {
        if (tensor->dims[i] == 0) return 0;
    }
    if (!fits || size > INT64_MAX) ig_raise(job, INGOT_INVALID_ARGUMENT, "the tensor is too large");
    if (!tensor->data) ig_raise(job, INGOT_INVALID_ARGUMENT, "the tensor has no data");
    return size;
}

/* ---- Operators */

/* Core operators have lower-case names, ONNX's begin with a capital, or have a domain. */
static bool is_core(const char *name) {
    return *name >= 'a' && *name <= 'z' && !strchr(name, '.');
}

static void check_inputs(struct ig_network *network, const struct ig_graph *g, const struct ingot_operator *op) {
    if (op->n_inputs > UINT32_MAX / 2 || (op->n_inputs > 0 && !op->inputs))
        ig_raise(network->job, INGOT_INVALID_ARGUMENT, "%zu inputs without a list", op->n_inputs);
    for (size_t i = 0; i < op->n_inputs; i++) {
        if (op->inputs[i] != INGOT_NO_VALUE && op->inputs[i] >= g->values.count)
            ig_raise(network->job, INGOT_INVALID_ARGUMENT, "input %zu is no value of this network", i);
    }
}

static void check_attributes(struct ig_network *network, const struct ingot_operator *op) {
    struct ig_job *job = network->job;
    if (op->n_attributes > 0 && !op->attributes)
        ig_raise(job, INGOT_INVALID_ARGUMENT, "%zu attributes without a list", op->n_attributes);
    for (size_t i = 0; i < op->n_attributes; i++) {
        const struct ingot_attribute *a = &op->attributes[i];
        if (!a->name) ig_raise(job, INGOT_INVALID_ARGUMENT, "attribute %zu has no name", i);
        for (size_t j = 0; j < i; j++) {
            if (strcmp(op->attributes[j].name, a->name) == 0)
                ig_raise(job, INGOT_INVALID_ARGUMENT, "attribute '%s' is given twice", a->name);
        }
        bool list =
            a->kind == INGOT_ATTRIBUTE_INTS || a->kind == INGOT_ATTRIBUTE_FLOATS || a->kind == INGOT_ATTRIBUTE_DIMS;
        if (a->count > INT32_MAX || (list && a->count > 0 && !a->ints))
            ig_raise(job, INGOT_INVALID_ARGUMENT, "attribute '%s' has no list of %zu", a->name, a->count);
        if (a->kind == INGOT_ATTRIBUTE_STRING && !a->string)
            ig_raise(job, INGOT_INVALID_ARGUMENT, "attribute '%s' is NULL", a->name);
        if (a->kind == INGOT_ATTRIBUTE_TENSOR) ig_network_check_tensor(network, a->tensor);
    }
}

void ig_network_add(struct ig_network *network, struct ig_graph *g, const struct ingot_operator *op,
                    struct ig_graph *const *bodies, ig_value *out_values, size_t n_outputs) {
    struct ig_job *job = network->job;
    if (!op->name || !*op->name) ig_raise(job, INGOT_INVALID_ARGUMENT, "the operator has no name");
    const char *label = op->label && *op->label ? op->label : ig_format(job, "%%%u", g->values.count);
    const char *kind = op->source && *op->source ? ig_format(job, "%s, %s", op->name, op->source) : op->name;
    struct ig_where where = {.verb = "add", .name = label, .kind = kind};
    ig_where_push(job, &where);
    check_inputs(network, g, op);
    check_attributes(network, op);
    if (n_outputs > INT32_MAX) ig_raise(job, INGOT_INVALID_ARGUMENT, "%zu outputs are too many", n_outputs);
    ig_build_origin(g, ig_format(job, "%s '%s'", op->name, label));
    if (is_core(op->name)) {
        ig_network_add_core(network, g, op, bodies, out_values, n_outputs);
    } else {
        ig_onnx_add_node(network->onnx, g, op, out_values, n_outputs);
    }
    if (n_outputs == 1 && op->label && *op->label) ig_build_name(g, out_values[0], ig_strdup(job, op->label));
    ig_where_pop(job);
}
