/* Walks a graph and asks the operators' rules; see rows.h and rows_rule.h. */
#include "ir/rows/rows.h"

#include "base/text.h"
#include "ir/rows/rows_rule.h"

static const ig_rows_fn rules[IG_OP_COUNT] = {
#define IG_MAP(name, ...) [IG_OP_##name] = ig_rows_map,
#define IG_OP(name, family, rows, ...) [IG_OP_##name] = ig_rows_##rows,
#include "ir/ops.def"
};

/* ---- Dims and types */

struct search {
    ig_dim symbol;
    bool found;
};

static void visit(void *user, ig_dim symbol) {
    struct search *s = user;
    s->found |= symbol == s->symbol;
}

bool ig_rows_mentions(const struct ig_rows *x, ig_dim dim) {
    struct search s = {.symbol = x->symbol};
    if (dim == IG_DIM_NONE || ig_dim_is_const(x->graph->dims, dim, NULL)) return false;
    ig_dim_symbols(x->graph->dims, dim, visit, &s);
    return s.found;
}

int ig_rows_axis(const struct ig_rows *x, const struct ig_type *type) {
    int axis = IG_ROWS_NONE;
    for (int i = 0; i < type->rank; i++) {
        if (!ig_rows_mentions(x, type->dim[i])) continue;
        if (axis != IG_ROWS_NONE) return IG_ROWS_NONE;
        axis = i;
    }
    return axis;
}

ig_dim ig_rows_multiple(const struct ig_rows *x, ig_dim dim) {
    struct ig_dims *dims = x->graph->dims;
    if (!ig_dim_divides(dims, x->symbol, dim)) return IG_DIM_NONE;
    ig_dim k = ig_dim_div(dims, dim, x->symbol);
    return ig_rows_mentions(x, k) ? IG_DIM_NONE : k;
}

const struct ig_type *ig_rows_type(const struct ig_rows *x, uint32_t operand) {
    return ig_type_of(x->graph, x->node->in[operand]);
}

bool ig_rows_is(const struct ig_rows *x, ig_dim dim, int64_t value) {
    int64_t found;
    return ig_dim_is_const(x->graph->dims, dim, &found) && found == value;
}

struct ig_rows_at ig_rows_numbered(const struct ig_rows *x, const struct ig_type *type) {
    struct ig_rows_at at = {.axis = ig_rows_axis(x, type)};
    if (at.axis != IG_ROWS_NONE) at.inner = ig_rows_multiple(x, type->dim[at.axis]);
    return at;
}

bool ig_rows_same_size(const struct ig_rows *x) {
    ig_dim size = ig_type_of(x->graph, x->node->out)->dim[x->out[0].axis];
    for (uint32_t i = 0; i < x->node->n_in; i++) {
        if (x->in[i].axis == IG_ROWS_NONE) continue;
        if (ig_rows_type(x, i)->dim[x->in[i].axis] != size || x->in[i].inner != x->out[0].inner) return false;
    }
    return true;
}

/* Can a value of that type have its rows there, or know nothing of the symbol? */
static bool fits(const struct ig_rows *x, const struct ig_type *type, const struct ig_rows_at *at) {
    for (int i = 0; i < type->rank; i++) {
        if (ig_rows_mentions(x, type->dim[i]) != (i == at->axis)) return false;
    }
    if (at->axis == IG_ROWS_NONE) return true;
    if (at->axis < 0 || at->axis >= type->rank || at->inner == IG_DIM_NONE) return false;
    ig_dim k = ig_rows_multiple(x, type->dim[at->axis]);
    return k != IG_DIM_NONE && (k == at->inner || ig_dim_divides(x->graph->dims, at->inner, k));
}

/* ---- Nodes */

enum mention { NOWHERE, IN_SHAPE, IN_CONTENTS };

static enum mention mention_in_list(const struct ig_rows *x, const ig_dim *list, int count, enum mention which) {
    for (int i = 0; i < count; i++) {
        if (ig_rows_mentions(x, list[i])) return which;
    }
    return NOWHERE;
}

/* Where the node's attributes mention the symbol: if only in the shape of the result, the rule decides. */
static enum mention mention_in_attrs(const struct ig_rows *x) {
    const struct ig_op_info *info = ig_op_info(x->node->op);
    enum mention all = NOWHERE;
    for (int i = 0; i < info->n_attrs; i++) {
        const struct ig_attr *a = &x->node->attr[i];
        enum ig_attr_name name = info->attrs[i].name;
        enum mention which = name == IG_ATTR_dims || name == IG_ATTR_sizes ? IN_SHAPE : IN_CONTENTS, found = NOWHERE;
        if (a->kind == IG_KIND_DIM) found = mention_in_list(x, &a->dim, 1, which);
        if (a->kind == IG_KIND_DIMS) found = mention_in_list(x, a->dims, a->count, which);
        if (found > all) all = found;
    }
    return all;
}

/* "reshape(f32[batch,8]): f32[8,batch]" */
static const char *node_text(const struct ig_rows *x) {
    struct ig_text text;
    ig_text_init(&text, x->graph->job);
    ig_text_printf(&text, "%s(", ig_op_info(x->node->op)->name);
    for (uint32_t i = 0; i < x->node->n_in && i < 4; i++) {
        if (i > 0) ig_text_add(&text, ", ");
        if (x->node->in[i] == IG_NO_VALUE)
            ig_text_add(&text, "-");
        else
            ig_type_print(x->graph->dims, ig_rows_type(x, i), &text);
    }
    ig_text_add(&text, x->node->n_in > 4 ? ", ...): " : "): ");
    ig_type_print(x->graph->dims, ig_type_of(x->graph, x->node->out), &text);
    return text.at;
}

static struct ig_rows_at only_rows(const struct ig_rows_at *at) {
    return (struct ig_rows_at){.axis = at->axis, .inner = at->inner};
}

/* False if the node mixes rows; then x->mixed says so, unless a body's node has been named. */
static bool visit_node(struct ig_rows *x) {
    const struct ig_node *n = x->node;
    enum mention mention = mention_in_attrs(x);
    bool relevant = mention != NOWHERE || ig_op_info(n->op)->family == IG_FAMILY_CONTROL;
    for (uint32_t i = 0; i < n->n_in; i++)
        relevant |= x->in[i].axis != IG_ROWS_NONE;
    bool clean = mention != IN_CONTENTS && (!relevant || rules[n->op](x));
    for (uint32_t o = 0; clean && o < n->n_out; o++) {
        x->out[o] = only_rows(&x->out[o]);
        clean = fits(x, ig_type_of(x->graph, n->out + o), &x->out[o]);
    }
    if (clean && n->n_out == 1) ig_rows_place(x);
    if (clean || x->mixed) return clean;
    const char *origin = n->origin ? n->origin : "an unnamed node";
    x->mixed =
        ig_format(x->graph->job, "%s %s (%s)", origin,
                  mention == IN_CONTENTS && n->n_in == 0 ? "computes with their number" : "mixes them", node_text(x));
    return false;
}

/* ---- Graphs */

/* Marks the values that outputs depend on. */
static bool *needed_values(const struct ig_graph *g) {
    bool *needed = IG_NEW_ARRAY(g->job, bool, g->values.count + 1);
    for (uint32_t i = 0; i < g->outputs.count; i++)
        needed[g->outputs.at[i].value] = true;
    for (ig_node_id id = g->nodes.count; id-- > 0;) {
        const struct ig_node *n = &g->nodes.at[id];
        bool wanted = false;
        for (uint32_t o = 0; o < n->n_out; o++)
            wanted |= needed[n->out + o];
        for (uint32_t i = 0; wanted && i < n->n_in; i++) {
            if (n->in[i] != IG_NO_VALUE) needed[n->in[i]] = true;
        }
        for (uint32_t o = 0; o < n->n_out; o++)
            needed[n->out + o] = wanted;
    }
    return needed;
}

/* Where all values that outputs depend on have their rows; NULL if a node mixes them. */
static const struct ig_rows_at *walk(struct ig_rows *x, const struct ig_rows_at *in) {
    static const struct ig_rows_at none = {.axis = IG_ROWS_NONE};
    const struct ig_graph *g = x->graph;
    const bool *needed = needed_values(g);
    struct ig_rows_at *at = IG_NEW_ARRAY(g->job, struct ig_rows_at, g->values.count + 1);
    uint32_t most = 0;
    for (ig_node_id id = 0; id < g->nodes.count; id++)
        most = g->nodes.at[id].n_in > most ? g->nodes.at[id].n_in : most;
    struct ig_rows_at *operands = IG_NEW_ARRAY(g->job, struct ig_rows_at, most + 1);
    x->at = at;
    x->in = operands;
    for (uint32_t i = 0; i < g->inputs.count; i++)
        at[g->inputs.at[i].value] = in[i];
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        x->node = &g->nodes.at[id];
        for (uint32_t o = 0; o < x->node->n_out; o++)
            at[x->node->out + o] = none;
        if (x->node->n_out == 0 || !needed[x->node->out]) continue;
        for (uint32_t i = 0; i < x->node->n_in; i++)
            operands[i] = x->node->in[i] == IG_NO_VALUE ? none : at[x->node->in[i]];
        x->out = &at[x->node->out];
        if (!visit_node(x)) return NULL;
    }
    return at;
}

const struct ig_rows_at *ig_rows_body(struct ig_rows *x, struct ig_graph *body, uint32_t first) {
    struct ig_rows inner = {.graph = body, .symbol = x->symbol};
    struct ig_rows_at *in = IG_NEW_ARRAY(body->job, struct ig_rows_at, body->inputs.count + 1);
    for (uint32_t i = 0; i < body->inputs.count; i++) {
        const struct ig_type *type = ig_type_of(body, body->inputs.at[i].value);
        in[i] = only_rows(&x->in[first + i]); /* its numbers may be carried, and change */
        int axis = in[i].axis;
        if (!fits(&inner, type, &in[i])) return NULL;
        if (axis != IG_ROWS_NONE && type->dim[axis] != ig_rows_type(x, first + i)->dim[axis]) return NULL;
    }
    const struct ig_rows_at *at = walk(&inner, in);
    x->mixed = inner.mixed;
    if (!at) return NULL;
    struct ig_rows_at *out = IG_NEW_ARRAY(body->job, struct ig_rows_at, body->outputs.count + 1);
    for (uint32_t i = 0; i < body->outputs.count; i++)
        out[i] = at[body->outputs.at[i].value];
    return out;
}

/* ---- Inputs and outputs */

static const char *port_text(const struct ig_rows *x, const char *what, const struct ig_port *port) {
    struct ig_text type;
    ig_text_init(&type, x->graph->job);
    ig_type_print(x->graph->dims, ig_type_of(x->graph, port->value), &type);
    return ig_format(x->graph->job, "%s '%s' does not have them along exactly one axis (%s)", what,
                     port->name ? port->name : "", type.at);
}

/* Does the type have as many elements along one axis as there are rows, or no rows? */
static bool is_plain(const struct ig_rows *x, const struct ig_type *type) {
    struct ig_rows_at at = ig_rows_numbered(x, type);
    return fits(x, type, &at) && (at.axis == IG_ROWS_NONE || type->dim[at.axis] == x->symbol);
}

/* Is the symbol an element of that input, or part of one? */
static bool holds_symbol(const struct ig_rows *x, const struct ig_value_info *input) {
    int64_t count;
    if (!input->elements || !ig_dim_is_const(x->graph->dims, ig_type_elements(x->graph->dims, &input->type), &count))
        return false;
    return mention_in_list(x, input->elements, (int)count, IN_CONTENTS) != NOWHERE;
}

const char *ig_rows_mixed(struct ig_graph *g, ig_dim symbol) {
    const struct ig_rows_at *at;
    return ig_rows_find(g, symbol, &at);
}

const char *ig_rows_find(struct ig_graph *g, ig_dim symbol, const struct ig_rows_at **out_at) {
    struct ig_rows x = {.graph = g, .symbol = symbol};
    struct ig_rows_at *in = IG_NEW_ARRAY(g->job, struct ig_rows_at, g->inputs.count + 1);
    for (uint32_t i = 0; i < g->inputs.count; i++) {
        const struct ig_port *port = &g->inputs.at[i];
        const struct ig_value_info *info = ig_info(g, port->value);
        if (holds_symbol(&x, info))
            return ig_format(g->job, "input '%s' contains their number", port->name ? port->name : "");
        if (!is_plain(&x, &info->type)) return port_text(&x, "input", port);
        in[i] = ig_rows_numbered(&x, &info->type);
    }
    for (uint32_t i = 0; i < g->outputs.count; i++) {
        if (g->outputs.at[i].updates)
            return ig_format(g->job, "output '%s' is stored in an input's memory", g->outputs.at[i].name);
    }
    *out_at = walk(&x, in);
    if (!*out_at) return x.mixed;
    for (uint32_t i = 0; i < g->outputs.count; i++) {
        if (!is_plain(&x, ig_type_of(g, g->outputs.at[i].value))) return port_text(&x, "output", &g->outputs.at[i]);
    }
    return NULL;
}
