/*
 * Writes how a network is divided into its ONNX model, as sharding.c reads it: device configurations of IR version 11 (onnx.ai,
 * "Multi-device configuration"). On the wire form, so that nothing else of the file changes.
 */
#include <string.h>

#include "base/map.h"
#include "import/onnx/import.h"
#include "import/onnx/importer.h"
#include "import/onnx/wire.h"

enum { VERSION = 11, LENGTH_DELIMITED = 2 };
/* Numbers of fields. */
enum { MODEL_VERSION = 1, MODEL_GRAPH = 7, MODEL_CONFIGURATION = 26, GRAPH_NODE = 1, NODE_CONFIGURATIONS = 10 };

struct annotating {
    struct ig_job *job;
    const struct ig_onnx_division *divisions;
    struct ig_map by_origin;
    unsigned devices;
    const char *name; /* of the configuration */
};

/* ---- Writing */

/* What is written, in pieces of the file and of the arena: weights are not copied. */
struct piece {
    const uint8_t *at;
    size_t size;
};
struct pieces {
    struct ig_job *job;
    IG_VEC(struct piece) list;
    size_t size;
};

static void put(struct pieces *to, const void *bytes, size_t size) {
    struct piece *last = to->list.count ? &to->list.at[to->list.count - 1] : NULL;
    to->size += size;
    if (last && last->at + last->size == (const uint8_t *)bytes)
        last->size += size;
    else
        IG_PUSH(to->job, &to->list, ((struct piece){bytes, size}));
}

static void put_varint(struct pieces *to, uint64_t value) {
    uint8_t *bytes = ig_alloc(to->job, 10);
    size_t size = 0;
    for (; value > 0x7f; value >>= 7)
        bytes[size++] = (uint8_t)(value | 0x80);
    bytes[size++] = (uint8_t)value;
    put(to, bytes, size);
}

static void put_header(struct pieces *to, uint64_t field, size_t size) {
    put_varint(to, field << 3 | LENGTH_DELIMITED);
    put_varint(to, size);
}

static void put_pieces(struct pieces *to, uint64_t field, const struct pieces *from) {
    put_header(to, field, from->size);
    for (uint32_t i = 0; i < from->list.count; i++)
        put(to, from->list.at[i].at, from->list.at[i].size);
}

static void put_field(struct pieces *to, const struct ig_wire_field *field, const struct ig_wire_cursor *behind) {
    put(to, field->begin, (size_t)(behind->at - field->begin));
}

static void put_message(struct annotating *a, struct pieces *to, uint64_t field, const ProtobufCMessage *message) {
    const size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = ig_alloc(a->job, size + 1);
    protobuf_c_message_pack(message, bytes);
    put_header(to, field, size);
    put(to, bytes, size);
}

static _Noreturn void fail(struct annotating *a) {
    ig_raise(a->job, INGOT_BAD_MODEL, "the model has another form than ONNX's");
}

/* ---- Nodes */

static Onnx__SimpleShardedDimProto *new_part(struct annotating *a, int64_t size, int64_t shards) {
    Onnx__SimpleShardedDimProto *part = IG_NEW(a->job, Onnx__SimpleShardedDimProto);
    onnx__simple_sharded_dim_proto__init(part);
    part->has_dim_value = size > 0;
    part->dim_value = size;
    part->has_num_shards = true;
    part->num_shards = shards;
    return part;
}

/* A tensor that is divided along an axis, or whole (axis -1). */
static Onnx__ShardingSpecProto *new_spec(struct annotating *a, char *tensor, int axis,
                                         const struct ig_onnx_division *d) {
    Onnx__ShardingSpecProto *spec = IG_NEW(a->job, Onnx__ShardingSpecProto);
    onnx__sharding_spec_proto__init(spec);
    spec->tensor_name = tensor;
    spec->n_device = a->devices;
    spec->device = IG_NEW_ARRAY(a->job, int64_t, a->devices);
    for (unsigned i = 0; i < a->devices; i++)
        spec->device[i] = i;
    if (axis < 0) return spec;
    Onnx__ShardedDimProto *dim = IG_NEW(a->job, Onnx__ShardedDimProto);
    onnx__sharded_dim_proto__init(dim);
    dim->has_axis = true;
    dim->axis = axis;
    dim->simple_sharding = IG_NEW_ARRAY(a->job, Onnx__SimpleShardedDimProto *, 2);
    if (d && d->outer > 1) dim->simple_sharding[dim->n_simple_sharding++] = new_part(a, d->outer, 1);
    dim->simple_sharding[dim->n_simple_sharding++] = new_part(a, d ? d->count * d->inner : 0, a->devices);
    spec->sharded_dim = IG_NEW_ARRAY(a->job, Onnx__ShardedDimProto *, 1);
    spec->sharded_dim[spec->n_sharded_dim++] = dim;
    return spec;
}

/* Which input has the weights, and along which axis they are divided; false: sharding.c would not know. */
static bool find_weights(const Onnx__NodeProto *node, const struct ig_onnx_division *d, size_t *out_input,
                         int *out_axis) {
    const char *op = node->op_type ? node->op_type : "";
    const bool rows = d->weights == IG_ONNX_WEIGHTS_ROWS;
    const bool is_gather = strcmp(op, "Gather") == 0;
    *out_input = is_gather ? 0 : 1;
    if (d->weights == IG_ONNX_WEIGHTS_UNSAID || node->n_input <= *out_input) return false;
    if (is_gather) {
        const int64_t axis = ig_onnx_proto_int(node, "axis", 0);
        *out_axis = (int)(axis < 0 ? axis + d->weights_rank : axis);
        return rows;
    }
    if (strcmp(op, "Conv") == 0) {
        *out_axis = rows;
        return true;
    }
    if (strcmp(op, "Gemm") == 0) {
        *out_axis = rows == (ig_onnx_proto_int(node, "transB", 0) != 0);
        return true;
    }
    *out_axis = d->weights_rank - (rows ? 2 : 1);
    return strcmp(op, "MatMul") == 0 && d->weights_rank >= 2;
}

static void annotate(struct annotating *a, struct pieces *to, const Onnx__NodeProto *node,
                     const struct ig_onnx_division *d) {
    Onnx__NodeDeviceConfigurationProto own = ONNX__NODE_DEVICE_CONFIGURATION_PROTO__INIT;
    Onnx__ShardingSpecProto *specs[2];
    size_t input;
    int axis;
    own.configuration_id = (char *)(uintptr_t)a->name;
    own.sharding_spec = specs;
    const bool has_weights = find_weights(node, d, &input, &axis);
    const bool is_said = d->result == IG_ONNX_RESULT_SUM ? has_weights : d->result != IG_ONNX_RESULT_UNSAID;
    if (node->n_output > 0 && is_said)
        specs[own.n_sharding_spec++] =
            new_spec(a, node->output[0], d->result == IG_ONNX_RESULT_SPLIT ? d->axis : -1, d);
    if (has_weights) specs[own.n_sharding_spec++] = new_spec(a, node->input[input], axis, NULL);
    if (own.n_sharding_spec > 0) put_message(a, to, NODE_CONFIGURATIONS, &own.base);
}

static void put_node(struct annotating *a, struct pieces *to, struct ig_wire_cursor from) {
    struct pieces own = {.job = a->job};
    struct ig_wire_field field;
    uint32_t index;
    Onnx__NodeProto *node = onnx__node_proto__unpack(NULL, (size_t)(from.end - from.at), from.at);
    if (!node) fail(a);
    const char *name = node->name && *node->name ? node->name : node->n_output ? node->output[0] : "";
    name = ig_format(a->job, "%s '%s'", node->op_type ? node->op_type : "", name);
    while (from.at < from.end && ig_wire_read(&from, &field))
        if (field.number != NODE_CONFIGURATIONS) put_field(&own, &field, &from);
    if (ig_map_get_name(&a->by_origin, name, &index)) annotate(a, &own, node, &a->divisions[index]);
    onnx__node_proto__free_unpacked(node, NULL);
    put_pieces(to, GRAPH_NODE, &own);
}

/* ---- Models */

static void put_graph(struct annotating *a, struct pieces *to, struct ig_wire_cursor from) {
    struct pieces own = {.job = a->job};
    struct ig_wire_field field;
    while (from.at < from.end) {
        if (!ig_wire_read(&from, &field)) fail(a);
        if (field.number == GRAPH_NODE && field.body.at)
            put_node(a, &own, field.body);
        else
            put_field(&own, &field, &from);
    }
    put_pieces(to, MODEL_GRAPH, &own);
}

static uint64_t version_of(const struct ig_wire_field *field, const struct ig_wire_cursor *behind) {
    uint64_t value = 0;
    for (const uint8_t *at = field->behind_tag; at < behind->at; at++)
        value |= (uint64_t)(*at & 0x7f) << 7 * (at - field->behind_tag);
    return value;
}

void ig_onnx_annotate(struct ig_job *job, const void *data, size_t size, const struct ig_onnx_division *divisions,
                      uint32_t count, unsigned devices, const struct ingot_sink *sink) {
    struct annotating a = {.job = job, .divisions = divisions, .devices = devices};
    Onnx__DeviceConfigurationProto configuration = ONNX__DEVICE_CONFIGURATION_PROTO__INIT;
    struct ig_wire_cursor from = {data, (const uint8_t *)data + size};
    struct ig_wire_field field;
    struct pieces to = {.job = job};
    uint64_t version = VERSION;
    ig_map_init(&a.by_origin, job);
    for (uint32_t i = 0; i < count; i++)
        ig_map_put_name(&a.by_origin, divisions[i].origin, i);
    a.name = ig_format(job, "%u devices", devices);
    while (from.at < from.end) {
        if (!ig_wire_read(&from, &field)) fail(&a);
        if (field.number == MODEL_VERSION && version_of(&field, &from) > version) version = version_of(&field, &from);
        if (field.number == MODEL_GRAPH && field.body.at)
            put_graph(&a, &to, field.body);
        else if (field.number != MODEL_VERSION && field.number != MODEL_CONFIGURATION)
            put_field(&to, &field, &from);
    }
    put_varint(&to, MODEL_VERSION << 3);
    put_varint(&to, version);
    configuration.name = (char *)(uintptr_t)a.name;
    configuration.has_num_devices = true;
    configuration.num_devices = (int32_t)devices;
    put_message(&a, &to, MODEL_CONFIGURATION, &configuration.base);
    for (uint32_t i = 0; i < to.list.count; i++)
        sink->write(sink->user, (const char *)to.list.at[i].at, to.list.at[i].size);
}
