/*
 * Finds the integer inputs that determine shapes. The elements of a small one may be a Reshape's target or a Slice's
 * ends, so a first import makes each element a symbol. If no shape depends on them, the input is plain data (a time
 * step, a sampling rate) and must be treated as such: every new set of symbol values is a new set of shapes to the
 * runtime.
 */
#include "import/onnx/importer.h"

struct symbols {
    struct ig_map seen;
};

static void note_symbol(void *user, ig_dim symbol) {
    struct symbols *symbols = user;
    ig_map_put(&symbols->seen, &symbol, sizeof symbol, 1);
}

static void note_dim(struct symbols *symbols, const struct ig_dims *dims, ig_dim dim) {
    if (dim != IG_DIM_NONE) ig_dim_symbols(dims, dim, note_symbol, symbols);
}

static void note_node(struct symbols *symbols, const struct ig_graph *graph, const struct ig_node *node) {
    /* Symbols in a shape node are data; they matter only if they also occur in a type or an attribute. */
    if (node->op == IG_OP_shape) return;
    const struct ig_op_info *info = ig_op_info(node->op);
    for (int i = 0; i < info->n_attrs; i++) {
        const struct ig_attr *attr = &node->attr[i];
        if (attr->kind == IG_KIND_DIM) note_dim(symbols, graph->dims, attr->dim);
        for (int j = 0; attr->kind == IG_KIND_DIMS && j < attr->count; j++) {
            note_dim(symbols, graph->dims, attr->dims[j]);
        }
    }
}

static void note_graph(struct symbols *symbols, const struct ig_graph *graph) {
    for (uint32_t v = 0; v < graph->values.count; v++) {
        const struct ig_type *type = &graph->values.at[v].type;
        for (int i = 0; i < type->rank; i++)
            note_dim(symbols, graph->dims, type->dim[i]);
    }
    for (uint32_t i = 0; i < graph->assumptions.count; i++) {
        note_dim(symbols, graph->dims, graph->assumptions.at[i].a);
        note_dim(symbols, graph->dims, graph->assumptions.at[i].b);
    }
    for (ig_node_id id = 0; id < graph->nodes.count; id++) {
        const struct ig_node *node = &graph->nodes.at[id];
        note_node(symbols, graph, node);
        for (int i = 0; i < 2; i++) {
            if (node->body[i]) note_graph(symbols, node->body[i]);
        }
    }
}

bool ig_onnx_find_plain_inputs(struct ig_graph *graph, struct ig_map *out_plain) {
    struct symbols symbols;
    bool any = false;
    ig_map_init(&symbols.seen, graph->job);
    note_graph(&symbols, graph);
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const struct ig_value_info *info = ig_info(graph, graph->inputs.at[i].value);
        int64_t count = 1;
        uint32_t there;
        if (!info->elements) continue;
        if (info->type.rank == 1) ig_dim_is_const(graph->dims, info->type.dim[0], &count);
        bool decides = false;
        for (int64_t j = 0; j < count; j++) {
            decides |= ig_map_get(&symbols.seen, &info->elements[j], sizeof(ig_dim), &there);
        }
        if (decides) continue;
        ig_map_put_name(out_plain, graph->inputs.at[i].name, 1);
        any = true;
    }
    return any;
}
