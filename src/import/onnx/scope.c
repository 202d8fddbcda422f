/* Name lookup: what a node's input may refer to, in models, subgraphs and function bodies. */
#include "import/onnx/importer.h"

#include <string.h>

void ig_onnx_scope_init(struct ig_onnx_scope *scope, struct ig_onnx *import, struct ig_graph *graph,
                        struct ig_onnx_scope *outer, const Onnx__GraphProto *proto) {
    *scope = (struct ig_onnx_scope){.import = import, .outer = outer, .graph = graph, .proto = proto};
    ig_map_init(&scope->values, import->job);
    ig_map_init(&scope->initializers, import->job);
    ig_map_init(&scope->sparse, import->job);
    ig_map_init(&scope->captured, import->job);
    if (outer) {
        scope->n_opsets = outer->n_opsets;
        scope->opsets = outer->opsets;
        scope->frame = outer->frame;
    }
    if (!proto) return;
    for (size_t i = 0; i < proto->n_initializer; i++) {
        const char *name = proto->initializer[i]->name;
        if (name) ig_map_put_name(&scope->initializers, name, (uint32_t)i);
    }
    for (size_t i = 0; i < proto->n_sparse_initializer; i++) {
        const Onnx__TensorProto *values = proto->sparse_initializer[i]->values;
        if (values && values->name) ig_map_put_name(&scope->sparse, values->name, (uint32_t)i);
    }
}

void ig_onnx_bind(struct ig_onnx_scope *scope, const char *name, ig_value value) {
    uint32_t there;
    if (ig_map_get_name(&scope->values, name, &there)) {
        ig_raise(scope->import->job, INGOT_BAD_MODEL, "value '%s' is defined twice", name);
    }
    ig_map_put_name(&scope->values, name, value);
}

bool ig_onnx_is_initializer(const struct ig_onnx_scope *scope, const char *name) {
    uint32_t index;
    return ig_map_get_name(&scope->initializers, name, &index) || ig_map_get_name(&scope->sparse, name, &index);
}

/* An initialiser becomes a constant when it is first used. */
static bool find_initializer(struct ig_onnx_scope *scope, const char *name, ig_value *out_value) {
    uint32_t index;
    if (ig_map_get_name(&scope->initializers, name, &index)) {
        *out_value = ig_onnx_constant(scope->import, scope->graph, scope->proto->initializer[index], name);
    } else if (ig_map_get_name(&scope->sparse, name, &index)) {
        *out_value =
            ig_onnx_sparse_constant(scope->import, scope->graph, scope->proto->sparse_initializer[index], name);
    } else {
        return false;
    }
    ig_build_name(scope->graph, *out_value, name);
    ig_map_put_name(&scope->values, name, *out_value);
    return true;
}

static bool find(struct ig_onnx_scope *scope, const char *name, ig_value *out_value) {
    if (ig_map_get_name(&scope->values, name, out_value)) return true;
    if (find_initializer(scope, name, out_value)) return true;
    if (!scope->outer || !find(scope->outer, name, out_value)) return false;
    if (scope->graph != scope->outer->graph && *out_value < IG_ONNX_REFUSED) {
        *out_value = ig_onnx_capture(scope, *out_value);
    }
    return true;
}

ig_value ig_onnx_lookup(struct ig_onnx_scope *scope, const char *name) {
    while (scope->taken)
        scope = scope->taken;
    ig_value value;
    if (!find(scope, name, &value)) {
        ig_raise(scope->import->job, INGOT_BAD_MODEL, "value '%s' is not defined", name);
    }
    if (value == IG_ONNX_UNMADE) {
        ig_raise(scope->import->job, INGOT_UNSUPPORTED, "value '%s' is an optional output that is not supported", name);
    }
    if (value == IG_ONNX_REFUSED) {
        uint32_t index = 0;
        ig_map_get_name(&scope->import->refused, name, &index);
        ig_raise(scope->import->job, INGOT_UNSUPPORTED, "%s", scope->import->refusals.at[index]);
    }
    return value;
}

/* ---- Captures ---- */

void ig_onnx_captures_init(struct ig_onnx_captures *captures, struct ig_job *job) {
    *captures = (struct ig_onnx_captures){0};
    ig_map_init(&captures->known, job);
}

/*
 * Copies the constant expression that computes `value`, so that a body sees a constant instead of an opaque input.
 * Iterative, because expressions may be long: a node is copied once all of its inputs are.
 */
static ig_value copy_constant(struct ig_onnx_scope *scope, ig_value value) {
    struct ig_job *job = scope->import->job;
    const struct ig_graph *from = scope->outer->graph;
    IG_VEC(ig_value) pending = {0};
    IG_PUSH(job, &pending, value);
    while (pending.count) {
        ig_value next = pending.at[pending.count - 1];
        ig_value here;
        if (ig_map_get(&scope->captured, &next, sizeof next, &here)) {
            pending.count--;
            continue;
        }
        const struct ig_node *node = ig_def(from, next);
        ig_value *in = IG_NEW_ARRAY(job, ig_value, node->n_in);
        bool ready = true;
        for (uint32_t i = 0; i < node->n_in; i++) {
            in[i] = IG_NO_VALUE;
            if (node->in[i] == IG_NO_VALUE) continue;
            if (ig_map_get(&scope->captured, &node->in[i], sizeof(ig_value), &in[i])) continue;
            IG_PUSH(job, &pending, node->in[i]);
            ready = false;
        }
        if (!ready) continue;
        ig_value first = ig_build_copy(scope->graph, from, node, in);
        for (uint32_t i = 0; i < node->n_out; i++) {
            ig_value outer = node->out + i;
            ig_map_put(&scope->captured, &outer, sizeof outer, first + i);
        }
    }
    ig_value copy = IG_NO_VALUE;
    ig_map_get(&scope->captured, &value, sizeof value, &copy);
    return copy;
}

/* Contents that are known symbolically outside are known in the body as well. */
static bool capture_symbolic(struct ig_onnx_scope *scope, ig_value outer, ig_value *out_value) {
    struct ig_graph *from = scope->outer->graph;
    struct ig_type type = *ig_type_of(from, outer);
    const ig_dim *elements;
    int count;
    if (type.rank > 1 || !ig_dtype_is_integer(type.dtype) || !ig_elements(from, outer, &elements, &count)) return false;
    ig_value shape = type.rank == 0 ? ig_build_shape_scalar(scope->graph, elements[0])
                                    : ig_build_shape(scope->graph, elements, count);
    *out_value = ig_build_cast(scope->graph, shape, type.dtype);
    return true;
}

ig_value ig_onnx_capture(struct ig_onnx_scope *scope, ig_value outer) {
    struct ig_job *job = scope->import->job;
    const struct ig_value_info *info = ig_info(scope->outer->graph, outer);
    ig_value value;
    if (ig_map_get(&scope->captured, &outer, sizeof outer, &value)) return value;
    if (info->is_const) return copy_constant(scope, outer);
    if (!capture_symbolic(scope, outer, &value)) {
        struct ig_type type = info->type;
        const char *name = info->name ? info->name : ig_format(job, "capture%u", (unsigned)outer);
        value = ig_build_input(scope->graph, name, &type);
        IG_ASSERT(job, scope->captures);
        uint32_t known;
        if (!ig_map_get(&scope->captures->known, &outer, sizeof outer, &known)) {
            ig_map_put(&scope->captures->known, &outer, sizeof outer, 1);
            IG_PUSH(job, &scope->captures->outer, outer);
        }
    }
    ig_map_put(&scope->captured, &outer, sizeof outer, value);
    return value;
}

/* ---- Opsets ---- */

static const char *canonical_domain(const char *domain) {
    return !domain || strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

int64_t ig_onnx_opset(const struct ig_onnx_scope *scope, const char *domain) {
    for (size_t i = 0; i < scope->n_opsets; i++) {
        if (strcmp(canonical_domain(scope->opsets[i]->domain), canonical_domain(domain)) == 0) {
            return scope->opsets[i]->version;
        }
    }
    return 0;
}
