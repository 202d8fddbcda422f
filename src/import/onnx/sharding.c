/*
 * How a model says that its nodes are divided among devices: device configurations of IR version 11 (onnx.ai, "Multi-device
 * configuration"). Of each node in turn, the layout of its result, or where only operands of products are described, what
 * follows from those.
 */
#include <string.h>

#include "import/onnx/importer.h"

struct notes {
    struct ig_onnx_scope *scope;
    struct ig_job *job;
    const Onnx__NodeProto *node;
    const char *name; /* "Gemm 'fc'" */
    unsigned devices;
    IG_VEC(struct ig_sharding_note) list;
};

static void add_ask(struct notes *n, const char *how) {
    struct ig_sharding_note note = {.ask = ig_format(n->job, "%s=%s", n->name, how), .devices = n->devices};
    IG_PUSH(n->job, &n->list, note);
}

static void add_problem(struct notes *n, const char *what) {
    struct ig_sharding_note note = {.problem = ig_format(n->job, "%s: %s", n->name, what), .devices = n->devices};
    IG_PUSH(n->job, &n->list, note);
}

/* In ranges for all devices, of one axis or of one that is fused with others, which are whole. */
static bool is_simple(const struct notes *n, const Onnx__ShardingSpecProto *spec) {
    const Onnx__ShardedDimProto *dim = spec->sharded_dim[0];
    size_t divided = 0;
    if (spec->n_sharded_dim != 1) return false;
    for (size_t i = 0; i < dim->n_simple_sharding; i++) {
        if (dim->simple_sharding[i]->num_shards == 1) continue;
        if (dim->simple_sharding[i]->num_shards != (int64_t)n->devices) return false;
        divided++;
    }
    return divided == 1;
}

/* The axis that a tensor is divided along, from 0 up; -1: it is whole; -2: there is nothing to ask, or it is not understood, and
 * said. */
static int axis_of(struct notes *n, const Onnx__ShardingSpecProto *spec) {
    uint32_t value;
    if (spec->n_sharded_dim == 0) return -1;
    const Onnx__ShardedDimProto *dim = spec->sharded_dim[0];
    bool one = spec->n_sharded_dim == 1 && dim->n_simple_sharding == 1;
    if (one && dim->simple_sharding[0]->num_shards == 1) return -1;
    if (!is_simple(n, spec)) {
        add_problem(
            n, ig_format(n->job, "tensor '%s' is not in one range of one axis for each device", spec->tensor_name));
        return -2;
    }
    int64_t axis = dim->axis;
    bool known = ig_map_get_name(&n->scope->values, spec->tensor_name, &value) && value < n->scope->graph->values.count;
    if (axis < 0 && !known) return -2; /* nothing needs it */
    if (axis < 0) axis += ig_type_of(n->scope->graph, value)->rank;
    if (axis >= 0 && axis < INGOT_MAX_RANK) return (int)axis;
    add_problem(n, ig_format(n->job, "tensor '%s' has no axis %lld", spec->tensor_name, (long long)dim->axis));
    return -2;
}

static const Onnx__ShardingSpecProto *find(const Onnx__NodeDeviceConfigurationProto *c, const char *tensor) {
    for (size_t i = 0; i < c->n_sharding_spec; i++) {
        const Onnx__ShardingSpecProto *spec = c->sharding_spec[i];
        if (spec->tensor_name && *tensor && strcmp(spec->tensor_name, tensor) == 0) return spec;
    }
    return NULL;
}

int64_t ig_onnx_proto_int(const Onnx__NodeProto *node, const char *name, int64_t otherwise) {
    for (size_t i = 0; i < node->n_attribute; i++) {
        const Onnx__AttributeProto *a = node->attribute[i];
        if (a->name && strcmp(a->name, name) == 0) return a->i;
    }
    return otherwise;
}

static int rank_of(const struct notes *n, const char *tensor) {
    uint32_t value;
    bool known = ig_map_get_name(&n->scope->values, tensor, &value) && value < n->scope->graph->values.count;
    return known ? ig_type_of(n->scope->graph, value)->rank : 2;
}

/* From the rows of a table: a gather's data along its axis. */
static void read_table(struct notes *n, const Onnx__NodeDeviceConfigurationProto *c) {
    const Onnx__NodeProto *node = n->node;
    const Onnx__ShardingSpecProto *spec = node->n_input > 0 ? find(c, node->input[0]) : NULL;
    const int axis = spec ? axis_of(n, spec) : -1;
    if (axis < 0) return;
    const int64_t own = ig_onnx_proto_int(node, "axis", 0);
    if (axis == (own < 0 ? own + rank_of(n, node->input[0]) : own)) add_ask(n, "rows");
}

/* From the weights of a product or convolution. */
static void read_weights(struct notes *n, const Onnx__NodeDeviceConfigurationProto *c) {
    const Onnx__NodeProto *node = n->node;
    const char *op = node->op_type ? node->op_type : "";
    if (strcmp(op, "Gather") == 0) {
        read_table(n, c);
        return;
    }
    const Onnx__ShardingSpecProto *spec = node->n_input > 1 ? find(c, node->input[1]) : NULL;
    bool is_conv = strcmp(op, "Conv") == 0, is_gemm = strcmp(op, "Gemm") == 0;
    if (!spec || !(is_conv || is_gemm || strcmp(op, "MatMul") == 0)) return;
    int axis = axis_of(n, spec);
    if (axis < 0) return;
    const int first = is_conv || is_gemm ? 0 : rank_of(n, node->input[1]) - 2; /* behind those of a batch */
    if (axis == first || axis == first + 1)
        add_ask(n, (axis == first) == (is_conv || (is_gemm && ig_onnx_proto_int(node, "transB", 0) != 0)) ? "columns"
                                                                                                          : "rows");
    else
        add_problem(n, ig_format(n->job, "its weights are divided along axis %d", axis));
}

static void read_node(struct notes *n, const Onnx__NodeDeviceConfigurationProto *c) {
    if (c->pipeline_stage > 0) return add_problem(n, "stages of a pipeline are not supported");
    const Onnx__ShardingSpecProto *spec = n->node->n_output > 0 ? find(c, n->node->output[0]) : NULL;
    if (!spec) return read_weights(n, c);
    int axis = axis_of(n, spec);
    if (axis >= 0) add_ask(n, ig_format(n->job, "axis%d", axis));
    if (axis != -1) return;
    /* A whole result may be the sum of what the devices have. */
    const uint32_t before = n->list.count;
    read_weights(n, c);
    if (n->list.count == before) add_ask(n, "whole");
}

static unsigned devices_of(const Onnx__ModelProto *model, const char *configuration) {
    for (size_t i = 0; i < model->n_configuration; i++) {
        const Onnx__DeviceConfigurationProto *c = model->configuration[i];
        if (c->name && configuration && strcmp(c->name, configuration) == 0)
            return c->num_devices > 0 ? (unsigned)c->num_devices : 0;
    }
    return 0;
}

void ig_onnx_read_sharding(struct ig_onnx_scope *scope) {
    struct notes n = {.scope = scope, .job = scope->import->job};
    for (size_t i = 0; i < scope->proto->n_node; i++) {
        const Onnx__NodeProto *node = scope->proto->node[i];
        const char *name = node->name && *node->name ? node->name : node->n_output ? node->output[0] : "";
        n.node = node;
        n.name = ig_format(n.job, "%s '%s'", node->op_type ? node->op_type : "", name);
        for (size_t k = 0; k < node->n_device_configurations; k++) {
            n.devices = devices_of(scope->import->model, node->device_configurations[k]->configuration_id);
            if (n.devices > 1) read_node(&n, node->device_configurations[k]);
        }
    }
    scope->graph->notes = n.list.at;
    scope->graph->n_notes = n.list.count;
}
