/*
 * The builder's core. Appending a node infers its types (infer.h); returns the operand if the node is an identity;
 * returns the existing value if an equal node exists; and builds a `constant` or `shape` node instead if its integer
 * contents are fully known (elements.h). Deterministic: the same calls give the same graph.
 */
#include "ir/build.h"

#include <string.h>

#include "base/map.h"
#include "ir/build_node.h"
#include "ir/eval/eval.h"
#include "ir/infer/elements.h"
#include "ir/infer/infer.h"

/* ---- Identities */

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

/* Called only if the result's type equals the operand's. */
static bool (*const identities[IG_OP_COUNT])(struct ig_graph *g, const struct ig_node *node) = {
    [IG_OP_cast] = always_identity,           [IG_OP_reshape] = always_identity,
    [IG_OP_broadcast] = always_identity,      [IG_OP_transpose] = transpose_is_identity,
    [IG_OP_slice] = slice_is_identity,        [IG_OP_pad] = pad_is_identity,
    [IG_OP_concat] = concat_is_identity,      [IG_OP_reduce_sum] = reduce_is_identity,
    [IG_OP_reduce_mean] = reduce_is_identity, [IG_OP_reduce_prod] = reduce_is_identity,
    [IG_OP_reduce_max] = reduce_is_identity,  [IG_OP_reduce_min] = reduce_is_identity,
};

static bool is_identity(struct ig_graph *g, const struct ig_node *node, const struct ig_type *type) {
    return identities[node->op] != NULL && node->n_in > 0 && ig_type_same(type, ig_type_of(g, node->in[0])) &&
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

/* Control flow is never constant, whatever its bodies compute, nor is what other ranks take part in. */
static bool is_constant(struct ig_graph *g, const struct ig_node *node, bool *out_refittable) {
    *out_refittable = node->op == IG_OP_constant && node->attr[0].data->initializer != NULL;
    if (node->body[0] != NULL || ig_op_is_collective(node->op) || !attrs_are_const(g, node)) return false;
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] == IG_NO_VALUE) continue;
        if (!ig_info(g, node->in[i])->is_const) return false;
        *out_refittable |= ig_info(g, node->in[i])->is_refittable;
    }
    return true;
}

/* Contents that depend on sizes are free to be read; constants that they are computed from decide what they are. */
static void note_contents(struct ig_graph *g, const struct ig_node *node, const struct ig_value_info *facts) {
    for (uint32_t i = 0; facts->elements && !facts->is_const && i < node->n_in; i++) {
        if (node->in[i] != IG_NO_VALUE) ig_const_decides(g, node->in[i]);
    }
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

/* ---- Nodes */

ig_value ig_build_verbatim(struct ig_graph *g, const struct ig_node *node, struct ig_type *types) {
    struct ig_value_info facts = {.name = NULL};
    struct ig_key key;
    uint32_t known;
    ig_infer_node(g, node, types);
    facts.is_const = is_constant(g, node, &facts.is_refittable);
    facts.is_refittable = facts.is_refittable && facts.is_const;
    facts.elements = node->n_out == 1 ? ig_elements_compute(g, node, types) : NULL;
    note_contents(g, node, &facts);
    ig_value value = append(g, node, types, &facts);
    if (node->body[0] != NULL) return value;
    ig_key_make(&key, g, node, types);
    if (!ig_map_get(g->cse, key.at, key.count * sizeof *key.at, &known))
        ig_map_put(g->cse, key.at, key.count * sizeof *key.at, value);
    return value;
}

static ig_dim refresh(struct ig_graph *g, ig_dim dim) {
    return dim == IG_DIM_NONE ? dim : ig_dim_refresh(g->dims, dim);
}

/* The list with its dims simplified by the ranges known now; the same list if nothing changes. */
static const ig_dim *refresh_dims(struct ig_graph *g, const ig_dim *dims, int count) {
    ig_dim *fresh = NULL;
    for (int i = 0; i < count; i++) {
        ig_dim dim = refresh(g, dims[i]);
        if (dim == dims[i]) continue;
        if (fresh == NULL) fresh = ig_memdup(g->job, dims, (size_t)count * sizeof *dims);
        fresh[i] = dim;
    }
    return fresh != NULL ? fresh : dims;
}

static void refresh_attrs(struct ig_graph *g, enum ig_op op, const struct ig_attr *attrs, struct ig_attr *out) {
    for (int i = 0; i < ig_op_info(op)->n_attrs; i++) {
        out[i] = attrs[i];
        if (attrs[i].kind == IG_KIND_DIM) out[i].dim = refresh(g, attrs[i].dim);
        if (attrs[i].kind == IG_KIND_DIMS) out[i].dims = refresh_dims(g, attrs[i].dims, attrs[i].count);
    }
}

static ig_value build(struct ig_graph *g, const struct ig_node *proto, struct ig_type *types, bool plain) {
    struct ig_node own = *proto, *node = &own;
    struct ig_value_info facts = {.name = NULL};
    struct ig_key key;
    uint32_t known;
    struct ig_attr attrs[IG_MAX_ATTRS];
    refresh_attrs(g, own.op, proto->attr, attrs);
    own.attr = attrs;
    ig_infer_node(g, node, types);
    if (!plain && is_identity(g, node, types)) return node->in[0];
    if (node->body[0] == NULL) {
        ig_key_make(&key, g, node, types);
        if (plain)
            ig_key_add(&key, 1); /* keeps nodes that build a known value apart from nodes that give way to them */
        if (ig_map_get(g->cse, key.at, key.count * sizeof *key.at, &known)) return known;
    }
    facts.is_const = is_constant(g, node, &facts.is_refittable);
    facts.is_refittable = facts.is_refittable && facts.is_const;
    facts.elements = node->n_out == 1 ? ig_elements_compute(g, node, types) : NULL;
    note_contents(g, node, &facts);
    ig_value value = plain ? IG_NO_VALUE : ig_build_known(g, node, types, &facts);
    if (value == IG_NO_VALUE) value = append(g, node, types, &facts);
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
    struct ig_attr attrs[IG_MAX_ATTRS] = {{.kind = IG_KIND_DATA, .data = data}};
    struct ig_node node = {.op = IG_OP_constant, .n_out = 1, .attr = attrs};
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

/* ---- Ports and names */

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

void ig_build_update(struct ig_graph *g, const char *name, ig_value value, uint32_t input) {
    IG_ASSERT(g->job, input < g->inputs.count);
    ig_build_output(g, name, value);
    g->outputs.at[g->outputs.count - 1].updates = input + 1;
}

void ig_build_port(struct ig_graph *g, const struct ig_port *like, ig_value value) {
    ig_build_output(g, like->name, value);
    g->outputs.at[g->outputs.count - 1].updates = like->updates;
}

void ig_build_kept(struct ig_graph *g, ig_value value, const char *reason) {
    g->values.at[value].kept = reason;
}

void ig_build_as_written(struct ig_graph *g, ig_value value, const char *reason) {
    g->values.at[value].as_written = reason;
}

void ig_build_name(struct ig_graph *g, ig_value value, const char *name) {
    IG_ASSERT(g->job, value < g->values.count);
    if (g->values.at[value].name == NULL) g->values.at[value].name = ig_strdup(g->job, name);
}
