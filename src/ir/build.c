/*
 * The builder's core. To append a node is: infer its types (infer.h); where it does nothing, give the operand back; where an
 * equal node exists, give that one's value; where its integer contents are wholly known (elements.h), build a `constant`
 * or `shape` node with them instead. What follows is deterministic: the same calls give the same graph.
 */
#include "ir/build.h"

#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "ir/build_node.h"
#include "ir/elements.h"
#include "ir/eval.h"
#include "ir/infer.h"

enum { SMALL_CONSTANT = 4096 }; /* bytes up to which constants are compared by contents */

/* ---- The key of a node: equal keys, equal values */

struct key {
    struct ig_job *job;
    uint64_t *at;
    size_t count, capacity;
    uint64_t local[96];
};

static void key_add(struct key *key, uint64_t word) {
    if (key->count == key->capacity) {
        uint64_t *old = key->at;
        key->at = ig_grow(key->job, old == key->local ? NULL : old, old == key->local ? 0 : key->count,
                          2 * key->capacity, sizeof *key->at);
        if (old == key->local) memcpy(key->at, old, key->count * sizeof *old);
        key->capacity *= 2;
    }
    key->at[key->count++] = word;
}

static void key_add_double(struct key *key, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    key_add(key, bits);
}

/* Small constants are equal where their bytes are; large ones, and initialisers, where they are the same memory. */
static void key_add_data(struct key *key, const struct ig_data *data, const struct ig_type *type) {
    key_add(key, (uint64_t)type->dtype << 32 | (uint64_t)type->rank);
    for (int i = 0; i < type->rank; i++)
        key_add(key, type->dim[i]);
    key_add(key, data->absent);
    if (data->initializer == NULL && data->size <= SMALL_CONSTANT) {
        struct ig_hash128 hash = ig_hash128(data->size > 0 ? data->bytes : "", data->size);
        key_add(key, hash.low);
        key_add(key, hash.high);
        return;
    }
    key_add(key, (uint64_t)(uintptr_t)data->bytes);
    key_add(key, data->initializer != NULL ? ig_hash64(data->initializer, strlen(data->initializer)) : 0);
}

static void key_add_attr(struct key *key, const struct ig_attr *attr, const struct ig_type *type) {
    switch (attr->kind) {
    case IG_KIND_INT:
    case IG_KIND_DTYPE: key_add(key, (uint64_t)attr->i); break;
    case IG_KIND_FLOAT: key_add_double(key, attr->f); break;
    case IG_KIND_DIM: key_add(key, attr->dim); break;
    case IG_KIND_DATA: key_add_data(key, attr->data, type); break;
    case IG_KIND_INTS:
    case IG_KIND_FLOATS:
    case IG_KIND_DIMS:
        key_add(key, (uint64_t)attr->count);
        for (int i = 0; i < attr->count; i++) {
            if (attr->kind == IG_KIND_INTS)
                key_add(key, (uint64_t)attr->ints[i]);
            else if (attr->kind == IG_KIND_DIMS)
                key_add(key, attr->dims[i]);
            else
                key_add_double(key, attr->floats[i]);
        }
        break;
    }
}

static void key_make(struct key *key, struct ig_graph *g, const struct ig_node *node, const struct ig_type *type) {
    const struct ig_op_info *info = ig_op_info(node->op);
    *key = (struct key){.job = g->job, .capacity = sizeof key->local / sizeof *key->local};
    key->at = key->local;
    key_add(key, (uint64_t)node->op << 32 | node->n_out);
    key_add(key, node->n_in);
    for (uint32_t i = 0; i < node->n_in; i++)
        key_add(key, node->in[i]);
    for (int i = 0; i < info->n_attrs; i++)
        key_add_attr(key, &node->attr[i], type);
}

/* ---- Nodes that do nothing */

static bool all_zero(const struct ig_dims *dims, const struct ig_attr *attr) {
    int64_t value;
    for (int i = 0; i < attr->count; i++) {
        if (!ig_dim_is_const(dims, attr->dims[i], &value) || value != 0) return false;
    }
    return true;
}

static bool transpose_is_identity(struct ig_graph *g, const struct ig_node *node) {
    const struct ig_attr *perm = ig_attr(g, node, IG_ATTR_perm);
    for (int i = 0; i < perm->count; i++) {
        if (perm->ints[i] != i) return false;
    }
    return true;
}

static bool slice_is_identity(struct ig_graph *g, const struct ig_node *node) {
    const struct ig_attr *steps = ig_attr(g, node, IG_ATTR_steps);
    for (int i = 0; i < steps->count; i++) {
        if (steps->ints[i] != 1) return false;
    }
    return all_zero(g->dims, ig_attr(g, node, IG_ATTR_starts));
}

static bool pad_is_identity(struct ig_graph *g, const struct ig_node *node) {
    return all_zero(g->dims, ig_attr(g, node, IG_ATTR_before)) && all_zero(g->dims, ig_attr(g, node, IG_ATTR_after));
}

static bool concat_is_identity(struct ig_graph *g, const struct ig_node *node) {
    return node->n_in == 1;
}

static bool reduce_is_identity(struct ig_graph *g, const struct ig_node *node) {
    return ig_attr(g, node, IG_ATTR_axes)->count == 0;
}

static bool always_identity(struct ig_graph *g, const struct ig_node *node) {
    return true;
}

/* Asked only where the result's type is the operand's. */
static bool (*const identities[IG_OP_COUNT])(struct ig_graph *g, const struct ig_node *node) = {
    [IG_OP_cast] = always_identity,           [IG_OP_reshape] = always_identity,
    [IG_OP_broadcast] = always_identity,      [IG_OP_transpose] = transpose_is_identity,
    [IG_OP_slice] = slice_is_identity,        [IG_OP_pad] = pad_is_identity,
    [IG_OP_concat] = concat_is_identity,      [IG_OP_reduce_sum] = reduce_is_identity,
    [IG_OP_reduce_mean] = reduce_is_identity, [IG_OP_reduce_prod] = reduce_is_identity,
    [IG_OP_reduce_max] = reduce_is_identity,  [IG_OP_reduce_min] = reduce_is_identity,
};

static bool is_identity(struct ig_graph *g, const struct ig_node *node, const struct ig_type *type) {
    return identities[node->op] != NULL && ig_type_same(type, ig_type_of(g, node->in[0])) &&
           identities[node->op](g, node);
}

/* ---- Appending */

static bool attrs_are_const(struct ig_graph *g, const struct ig_node *node) {
    for (int i = 0; i < ig_op_info(node->op)->n_attrs; i++) {
        const struct ig_attr *attr = &node->attr[i];
        if (attr->kind == IG_KIND_DIM && (attr->dim == IG_DIM_NONE || !ig_dim_is_const(g->dims, attr->dim, NULL)))
            return false;
        for (int j = 0; attr->kind == IG_KIND_DIMS && j < attr->count; j++) {
            if (!ig_dim_is_const(g->dims, attr->dims[j], NULL)) return false;
        }
    }
    return true;
}

/* Bodies are not looked into: control flow is never constant. */
static bool is_constant(struct ig_graph *g, const struct ig_node *node, bool *out_refittable) {
    *out_refittable = node->op == IG_OP_constant && node->attr[0].data->initializer != NULL;
    if (node->body[0] != NULL || !attrs_are_const(g, node)) return false;
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] == IG_NO_VALUE) continue;
        if (!ig_info(g, node->in[i])->is_const) return false;
        *out_refittable |= ig_info(g, node->in[i])->is_refittable;
    }
    return true;
}

static struct ig_attr own_attr(struct ig_job *job, struct ig_attr attr) {
    size_t count = (size_t)attr.count;
    if (attr.kind == IG_KIND_INTS) attr.ints = ig_memdup(job, attr.ints, count * sizeof *attr.ints);
    if (attr.kind == IG_KIND_FLOATS) attr.floats = ig_memdup(job, attr.floats, count * sizeof *attr.floats);
    if (attr.kind == IG_KIND_DIMS) attr.dims = ig_memdup(job, attr.dims, count * sizeof *attr.dims);
    if (attr.kind == IG_KIND_DATA) attr.data = ig_memdup(job, attr.data, sizeof *attr.data);
    return attr;
}

static ig_value append(struct ig_graph *g, const struct ig_node *proto, const struct ig_type *types,
                       const struct ig_value_info *facts) {
    struct ig_node node = *proto;
    int n_attrs = ig_op_info(node.op)->n_attrs;
    struct ig_attr *attrs = IG_NEW_ARRAY(g->job, struct ig_attr, (size_t)n_attrs + 1);
    for (int i = 0; i < n_attrs; i++)
        attrs[i] = own_attr(g->job, proto->attr[i]);
    node.attr = attrs;
    node.in = ig_memdup(g->job, proto->in, proto->n_in * sizeof *proto->in);
    node.out = g->values.count;
    node.origin = g->origin;
    node.region = IG_NO_REGION;
    for (uint32_t i = 0; i < node.n_out; i++) {
        struct ig_value_info info = *facts;
        info.type = types[i];
        info.node = g->nodes.count;
        IG_PUSH(g->job, &g->values, info);
    }
    IG_PUSH(g->job, &g->nodes, node);
    return node.out;
}

/* ---- Wholly known contents */

static bool contents_are_const(struct ig_graph *g, const ig_dim *elements, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (!ig_dim_is_const(g->dims, elements[i], NULL)) return false;
    }
    return true;
}

static ig_value build_known_constant(struct ig_graph *g, const struct ig_type *type, const ig_dim *elements,
                                     int64_t count) {
    struct ig_data data = {.size = (size_t)count * ingot_dtype_size(type->dtype)};
    void *bytes = ig_alloc(g->job, data.size + 1);
    for (int64_t i = 0; i < count; i++) {
        int64_t value = 0;
        ig_dim_is_const(g->dims, elements[i], &value);
        ig_store_i64(type->dtype, bytes, i, value);
    }
    data.bytes = bytes;
    return ig_build_typed_constant(g, type, &data);
}

/* A `shape` node, cast and reshaped where the value is not i64 of rank 0 or 1. These three are what the replacement of
 * any of them is, too: each is found again by its key, so nothing is built twice. */
static ig_value build_known_shape(struct ig_graph *g, const struct ig_type *type, const ig_dim *elements,
                                  int64_t count) {
    struct ig_attr shape[2] = {ig_attr_of_dims(elements, (int)count), ig_attr_of_int(type->rank == 0)};
    ig_value value = ig_build_plain(g, IG_OP_shape, NULL, 0, shape);
    if (type->dtype != INGOT_I64) {
        struct ig_attr cast[2] = {ig_attr_of_dtype(type->dtype), ig_attr_of_int(0)};
        value = ig_build_plain(g, IG_OP_cast, &value, 1, cast);
    }
    if (type->rank > 1) {
        struct ig_attr reshape = ig_attr_of_dims(type->dim, type->rank);
        value = ig_build_plain(g, IG_OP_reshape, &value, 1, &reshape);
    }
    return value;
}

/* Whether the node gives way to its known contents. Recipes of weights stay, and so do constants and index ramps, which
 * kernels compute more cheaply than they read. */
static bool gives_way(struct ig_graph *g, const struct ig_node *node, const struct ig_type *type,
                      const struct ig_value_info *facts, int64_t *out_count) {
    if (facts->elements == NULL || node->op == IG_OP_constant || node->op == IG_OP_iota || facts->is_refittable)
        return false;
    ig_dim_is_const(g->dims, ig_type_elements(g->dims, type), out_count);
    for (int64_t i = 0; i < *out_count; i++) {
        if (facts->elements[i] == IG_DIM_NONE) return false;
    }
    return true;
}

/* ---- Nodes */

ig_value ig_build_verbatim(struct ig_graph *g, const struct ig_node *node, struct ig_type *types) {
    struct ig_value_info facts = {.name = NULL};
    struct key key;
    uint32_t known;
    ig_infer_node(g, node, types);
    facts.is_const = is_constant(g, node, &facts.is_refittable);
    facts.is_refittable = facts.is_refittable && facts.is_const;
    facts.elements = node->n_out == 1 ? ig_elements_compute(g, node, types) : NULL;
    ig_value value = append(g, node, types, &facts);
    if (node->body[0] != NULL) return value;
    key_make(&key, g, node, types);
    if (!ig_map_get(g->cse, key.at, key.count * sizeof *key.at, &known))
        ig_map_put(g->cse, key.at, key.count * sizeof *key.at, value);
    return value;
}

/* Attributes with their dims simplified by what is known now; the same array where nothing changes. */
static const struct ig_attr *refresh_attrs(struct ig_graph *g, enum ig_op op, const struct ig_attr *attrs) {
    int n_attrs = ig_op_info(op)->n_attrs;
    struct ig_attr *fresh = NULL;
    for (int i = 0; i < n_attrs; i++) {
        int count = attrs[i].kind == IG_KIND_DIM ? 1 : attrs[i].kind == IG_KIND_DIMS ? attrs[i].count : 0;
        const ig_dim *dims = attrs[i].kind == IG_KIND_DIM ? &attrs[i].dim : attrs[i].dims;
        for (int j = 0; j < count; j++) {
            ig_dim dim = dims[j] == IG_DIM_NONE ? IG_DIM_NONE : ig_dim_refresh(g->dims, dims[j]);
            if (dim == dims[j]) continue;
            if (fresh == NULL) fresh = ig_memdup(g->job, attrs, (size_t)n_attrs * sizeof *fresh);
            if (attrs[i].kind == IG_KIND_DIM) {
                fresh[i].dim = dim;
                continue;
            }
            if (fresh[i].dims == attrs[i].dims) fresh[i].dims = ig_memdup(g->job, dims, (size_t)count * sizeof *dims);
            ((ig_dim *)fresh[i].dims)[j] = dim;
        }
    }
    return fresh != NULL ? fresh : attrs;
}

static ig_value build(struct ig_graph *g, const struct ig_node *proto, struct ig_type *types, bool plain) {
    struct ig_node own = *proto, *node = &own;
    struct ig_value_info facts = {.name = NULL};
    struct key key;
    uint32_t known;
    int64_t count = 0;
    ig_value value;
    own.attr = refresh_attrs(g, own.op, own.attr);
    ig_infer_node(g, node, types);
    if (!plain && is_identity(g, node, types)) return node->in[0];
    if (node->body[0] == NULL) {
        key_make(&key, g, node, types);
        if (plain) key_add(&key, 1); /* a known value's own nodes are kept apart from the nodes that give way to them */
        if (ig_map_get(g->cse, key.at, key.count * sizeof *key.at, &known)) return known;
    }
    facts.is_const = is_constant(g, node, &facts.is_refittable);
    facts.is_refittable = facts.is_refittable && facts.is_const;
    facts.elements = node->n_out == 1 ? ig_elements_compute(g, node, types) : NULL;
    if (plain || !gives_way(g, node, types, &facts, &count))
        value = append(g, node, types, &facts);
    else if (contents_are_const(g, facts.elements, count))
        value = build_known_constant(g, types, facts.elements, count);
    else
        value = build_known_shape(g, types, facts.elements, count);
    if (node->body[0] == NULL) ig_map_put(g->cse, key.at, key.count * sizeof *key.at, value);
    return value;
}

ig_value ig_build_node(struct ig_graph *g, enum ig_op op, const ig_value *in, uint32_t n_in, uint32_t n_out,
                       const struct ig_attr *attrs, struct ig_graph *const body[2]) {
    struct ig_node node = {.op = op, .n_in = n_in, .n_out = n_out, .in = in, .attr = attrs};
    struct ig_type few[8] = {{.rank = 0}}, *types = few;
    IG_ASSERT(g->job, op < IG_OP_COUNT && op != IG_OP_constant); /* ig_build_constant knows the type */
    if (body != NULL) {
        node.body[0] = body[0];
        node.body[1] = body[1];
    }
    if (n_out > sizeof few / sizeof *few) types = IG_NEW_ARRAY(g->job, struct ig_type, n_out);
    return build(g, &node, types, false);
}

ig_value ig_build_plain(struct ig_graph *g, enum ig_op op, const ig_value *in, uint32_t n_in,
                        const struct ig_attr *attrs) {
    struct ig_node node = {.op = op, .n_in = n_in, .n_out = 1, .in = in, .attr = attrs};
    struct ig_type type = {.rank = 0};
    return build(g, &node, &type, true);
}

ig_value ig_build_typed_constant(struct ig_graph *g, const struct ig_type *type, const struct ig_data *data) {
    struct ig_attr attr = {.kind = IG_KIND_DATA, .data = data};
    struct ig_node node = {.op = IG_OP_constant, .n_out = 1, .attr = &attr};
    struct ig_type copy = *type;
    return build(g, &node, &copy, false);
}

ig_value ig_build_copy(struct ig_graph *g, const struct ig_graph *from, const struct ig_node *node,
                       const ig_value *in) {
    const char *origin = g->origin;
    ig_value value;
    if (node->origin != NULL) g->origin = node->origin;
    if (node->op == IG_OP_constant) {
        struct ig_type type = *ig_type_of(from, node->out); /* `from` may be g, whose values may move */
        value = ig_build_typed_constant(g, &type, node->attr[0].data);
    } else {
        struct ig_graph *const body[2] = {node->body[0], node->body[1]};
        value = ig_build_node(g, node->op, in, node->n_in, node->n_out, node->attr, body);
    }
    g->origin = origin;
    return value;
}

/* ---- The graph's ports and names */

void ig_build_origin(struct ig_graph *g, const char *origin) {
    g->origin = origin;
}

ig_value ig_build_input(struct ig_graph *g, const char *name, const struct ig_type *type) {
    ig_value value = g->values.count;
    const char *own = ig_strdup(g->job, name);
    struct ig_type fresh = *type;
    IG_ASSERT(g->job, type->rank >= 0 && type->rank <= INGOT_MAX_RANK);
    for (int i = 0; i < type->rank; i++)
        fresh.dim[i] = ig_dim_refresh(g->dims, type->dim[i]);
    IG_PUSH(g->job, &g->values, (struct ig_value_info){.type = fresh, .node = IG_NO_NODE, .name = own});
    IG_PUSH(g->job, &g->inputs, (struct ig_port){.value = value, .name = own});
    return value;
}

void ig_build_output(struct ig_graph *g, const char *name, ig_value value) {
    IG_ASSERT(g->job, value < g->values.count);
    IG_PUSH(g->job, &g->outputs, (struct ig_port){.value = value, .name = ig_strdup(g->job, name)});
}

void ig_build_name(struct ig_graph *g, ig_value value, const char *name) {
    IG_ASSERT(g->job, value < g->values.count);
    if (g->values.at[value].name == NULL) g->values.at[value].name = ig_strdup(g->job, name);
}
