/* Graphs, and the one table of operators as data. */
#include "ir/graph.h"

#include <string.h>

#include "base/map.h"

/* Attributes of a row. The list has an unused first entry, so that rows without attributes need no special case. */
#define A(name, kind) \
    { IG_ATTR_##name, IG_KIND_##kind }
#define IG_RESULT_SAME false
#define IG_RESULT_BOOL true

struct attr_row {
    enum ig_attr_name name;
    enum ig_attr_kind kind;
};

static const struct ig_op_info op_infos[IG_OP_COUNT] = {
#define IG_MAP(name_, arity, operands_, result, on_float, on_int) \
    [IG_OP_##name_] = {.name = #name_,                            \
                       .family = IG_FAMILY_MAP,                   \
                       .min_in = arity,                           \
                       .max_in = arity,                           \
                       .outputs = 1,                              \
                       .is_map = true,                            \
                       .operands = IG_OPERANDS_##operands_,       \
                       .result_bool = IG_RESULT_##result},
#define IG_OP(name_, family_, rows, min_in_, max_in_, outputs_, ...)                                              \
    [IG_OP_##name_] = {.name = #name_,                                                                            \
                       .family = IG_FAMILY_##family_,                                                             \
                       .min_in = min_in_,                                                                         \
                       .max_in = max_in_,                                                                         \
                       .outputs = outputs_,                                                                       \
                       .n_attrs = sizeof((struct attr_row[]){{0, 0}, __VA_ARGS__}) / sizeof(struct attr_row) - 1, \
                       .attrs = {__VA_ARGS__}},
#include "ir/ops.def"
};
#undef A

static const char *const attr_names[IG_ATTR_COUNT] = {
#define IG_ATTR_TEXT(name) [IG_ATTR_##name] = #name
    IG_ATTR_NAMES(IG_ATTR_TEXT)
#undef IG_ATTR_TEXT
};

const struct ig_op_info *ig_op_info(enum ig_op op) {
    return &op_infos[op];
}

bool ig_op_commutes(enum ig_op op) {
    switch (op) {
    case IG_OP_add:
    case IG_OP_mul:
    case IG_OP_and:
    case IG_OP_or:
    case IG_OP_xor:
    case IG_OP_bitand:
    case IG_OP_bitor:
    case IG_OP_bitxor:
    case IG_OP_eq: return true;
    default: return false; /* not min and max: of two zeros of different sign they pick by position */
    }
}

const char *ig_family_name(enum ig_family family) {
    static const char *const names[] = {
        [IG_FAMILY_SOURCE] = "source",
        [IG_FAMILY_VIEW] = "view",
        [IG_FAMILY_MAP] = "map",
        [IG_FAMILY_ROW] = "row",
        [IG_FAMILY_CONTRACT] = "contract",
        [IG_FAMILY_ATTEND] = "attend",
        [IG_FAMILY_WINDOW] = "window",
        [IG_FAMILY_SCAN] = "scan",
        [IG_FAMILY_REST] = "rest",
        [IG_FAMILY_CONTROL] = "control",
        [IG_FAMILY_COLLECTIVE] = "collective",
    };
    return names[family];
}

enum ig_op ig_op_parse(const char *name) {
    for (int op = 0; op < IG_OP_COUNT; op++) {
        if (strcmp(op_infos[op].name, name) == 0) return (enum ig_op)op;
    }
    return IG_OP_COUNT;
}

const char *ig_attr_name_text(enum ig_attr_name name) {
    return attr_names[name];
}

struct ig_graph *ig_graph_create(struct ig_job *job, struct ig_dims *dims) {
    struct ig_graph *graph = IG_NEW(job, struct ig_graph);
    graph->job = job;
    graph->dims = dims;
    graph->cse = IG_NEW(job, struct ig_map);
    ig_map_init(graph->cse, job);
    return graph;
}

const struct ig_node *ig_def(const struct ig_graph *graph, ig_value value) {
    IG_ASSERT(graph->job, value < graph->values.count);
    ig_node_id id = graph->values.at[value].node;
    return id == IG_NO_NODE ? NULL : &graph->nodes.at[id];
}

const struct ig_node *ig_def_op(const struct ig_graph *graph, ig_value value, enum ig_op op) {
    const struct ig_node *node = ig_def(graph, value);
    return node != NULL && node->op == op ? node : NULL;
}

const struct ig_attr *ig_attr(const struct ig_graph *graph, const struct ig_node *node, enum ig_attr_name name) {
    const struct ig_op_info *info = ig_op_info(node->op);
    for (int i = 0; i < info->n_attrs; i++) {
        if (info->attrs[i].name == name) return &node->attr[i];
    }
    ig_raise(graph->job, INGOT_INTERNAL, "operator %s has no attribute '%s'", info->name, ig_attr_name_text(name));
}

bool ig_gathers_from_one(const struct ig_graph *graph, const struct ig_node *node) {
    if (node->op != IG_OP_all_gather) return false;
    const struct ig_attr *parts = ig_attr(graph, node, IG_ATTR_parts);
    int some = 0;
    for (int i = 0; i < parts->count; i++) {
        int64_t part;
        some += !ig_dim_is_const(graph->dims, parts->dims[i], &part) || part > 0;
    }
    return some <= 1 && parts->count > 1;
}

int ig_gathers_from(const struct ig_graph *graph, const struct ig_node *node) {
    const struct ig_attr *parts = ig_attr(graph, node, IG_ATTR_parts);
    for (int i = 0; i < parts->count; i++) {
        int64_t part;
        if (!ig_dim_is_const(graph->dims, parts->dims[i], &part) || part > 0) return i;
    }
    return 0;
}

uint32_t *ig_graph_use_counts(struct ig_graph *graph) {
    uint32_t *counts = IG_NEW_ARRAY(graph->job, uint32_t, graph->values.count);
    for (ig_node_id id = 0; id < graph->nodes.count; id++) {
        const struct ig_node *node = &graph->nodes.at[id];
        for (uint32_t i = 0; i < node->n_in; i++) {
            if (node->in[i] != IG_NO_VALUE) counts[node->in[i]]++;
        }
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        counts[graph->outputs.at[i].value]++;
    return counts;
}

void ig_graph_assume_equal(struct ig_graph *graph, ig_dim a, ig_dim b) {
    struct ig_dim_pair pair = a < b ? (struct ig_dim_pair){a, b} : (struct ig_dim_pair){b, a};
    if (a == b) return;
    for (uint32_t i = 0; i < graph->assumptions.count; i++) {
        if (graph->assumptions.at[i].a == pair.a && graph->assumptions.at[i].b == pair.b) return;
    }
    IG_PUSH(graph->job, &graph->assumptions, pair);
}

/* Matches dim = symbol + offset; offset may be 0. */
static bool is_shifted_symbol(struct ig_graph *graph, ig_dim dim, ig_dim *out_symbol, int64_t *out_offset) {
    struct ig_dim_view view = ig_dim_look(graph->dims, dim);
    bool shifted = view.kind == IG_DIM_ADD && ig_dim_is_const(graph->dims, view.b, out_offset);
    *out_symbol = shifted ? view.a : dim;
    if (!shifted) *out_offset = 0;
    return ig_dim_look(graph->dims, *out_symbol).kind == IG_DIM_SYMBOL;
}

/* Narrows the symbol in `dim`, a symbol plus a constant, so that at_least <= dim <= at_most; INT32_MIN, INT32_MAX: no
 * bound. */
static void narrow(struct ig_graph *graph, ig_dim dim, int64_t at_least, int64_t at_most) {
    int64_t lo, hi, offset;
    ig_dim symbol;
    if (!is_shifted_symbol(graph, dim, &symbol, &offset) || offset != (int32_t)offset) return;
    ig_dim_range(graph->dims, symbol, &lo, &hi);
    if (at_least > INT32_MIN && at_least - offset > lo) lo = at_least - offset;
    if (at_most < INT32_MAX && at_most - offset < hi) hi = at_most - offset;
    if (lo > hi)
        ig_raise(graph->job, INGOT_BAD_MODEL, "no value of the dimension %s makes the model's shapes fit",
                 ig_dim_text(graph->dims, symbol));
    ig_dim_set_range(graph->dims, symbol, lo, hi);
}

/* Narrows s, a symbol plus a constant, by a == b, if that is s == k, s == min(s, m), s == max(s, m), min(s, m) == k or
 * max(s, m) == k. */
static void narrow_by(struct ig_graph *graph, ig_dim a, ig_dim b) {
    struct ig_dim_view view = ig_dim_look(graph->dims, b);
    int64_t k, m;
    bool is_min = view.kind == IG_DIM_MIN, is_max = view.kind == IG_DIM_MAX;
    bool a_is_const = ig_dim_is_const(graph->dims, a, &k);
    if (a_is_const) narrow(graph, b, k, k);
    if (!is_min && !is_max) return;
    ig_dim s = ig_dim_is_const(graph->dims, view.a, &m) ? view.b : view.a;
    if (!ig_dim_is_const(graph->dims, s == view.a ? view.b : view.a, &m)) return;
    if (a == s) narrow(graph, s, is_max ? m : INT32_MIN, is_min ? m : INT32_MAX);
    if (!a_is_const) return;
    bool exact = is_min ? k < m : k > m; /* then s itself must be k */
    narrow(graph, s, is_min || exact ? k : INT32_MIN, is_max || exact ? k : INT32_MAX);
}

void ig_graph_narrow_symbols(struct ig_graph *graph) {
    for (uint32_t i = 0; i < graph->assumptions.count; i++) {
        struct ig_dim_pair pair = graph->assumptions.at[i];
        if (ig_dim_equal(graph->dims, pair.a, pair.b) == IG_NO)
            ig_raise(graph->job, INGOT_BAD_MODEL, "the dimensions %s and %s must be equal and cannot be",
                     ig_dim_text(graph->dims, pair.a), ig_dim_text(graph->dims, pair.b));
        narrow_by(graph, pair.a, pair.b);
        narrow_by(graph, pair.b, pair.a);
    }
}
