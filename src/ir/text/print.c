/* Prints the text form of graphs; docs/ir.md describes it, parse.c reads it. Values are renumbered: inputs, then
 * results. */
#include "ir/text/print.h"

#include <inttypes.h>

#include "ir/text/print_data.h"

struct printer {
    struct ig_graph *graph;
    struct ig_text *text;
    unsigned flags;
    int indent;
    uint32_t *number; /* by value */
};

static void print_graph(struct ig_graph *graph, unsigned flags, int indent, struct ig_text *text);

static void line(struct printer *p) {
    ig_text_printf(p->text, "%*s", 2 * p->indent, "");
}

/* Dims are printed as they will be read back: simplified by the ranges printed before the graph. */
static void print_dim(struct printer *p, ig_dim dim) {
    ig_dim_print(p->graph->dims, dim == IG_DIM_NONE ? dim : ig_dim_refresh(p->graph->dims, dim), p->text);
}

static void print_type(struct printer *p, const struct ig_type *type) {
    struct ig_type fresh = *type;
    for (int i = 0; i < fresh.rank; i++)
        fresh.dim[i] = ig_dim_refresh(p->graph->dims, fresh.dim[i]);
    ig_type_print(p->graph->dims, &fresh, p->text);
}

/* ---- Attributes */

static void print_list(struct printer *p, const struct ig_attr *attr) {
    ig_text_add(p->text, "[");
    for (int i = 0; i < attr->count; i++) {
        if (i > 0) ig_text_add(p->text, ",");
        if (attr->kind == IG_KIND_INTS)
            ig_text_printf(p->text, "%" PRId64, attr->ints[i]);
        else if (attr->kind == IG_KIND_FLOATS)
            ig_float_print(INGOT_F64, attr->floats[i], p->text);
        else
            print_dim(p, attr->dims[i]);
    }
    ig_text_add(p->text, "]");
}

static void print_attr(struct printer *p, const struct ig_node *node, int index) {
    const struct ig_attr *attr = &node->attr[index];
    ig_text_printf(p->text, "%s=", ig_attr_name_text(ig_op_info(node->op)->attrs[index].name));
    switch (attr->kind) {
    case IG_KIND_INT: ig_text_printf(p->text, "%" PRId64, attr->i); break;
    case IG_KIND_FLOAT: ig_float_print(INGOT_F64, attr->f, p->text); break;
    case IG_KIND_DTYPE: ig_text_add(p->text, ingot_dtype_name((enum ingot_dtype)attr->i)); break;
    case IG_KIND_DIM: print_dim(p, attr->dim); break;
    case IG_KIND_INTS:
    case IG_KIND_FLOATS:
    case IG_KIND_DIMS: print_list(p, attr); break;
    case IG_KIND_DATA:
        if (!(p->flags & IG_PRINT_NO_DATA))
            ig_data_print(ig_type_of(p->graph, node->out), attr->data, p->flags & IG_PRINT_DATA, p->text);
        if (attr->data->initializer == NULL) break;
        ig_text_add(p->text, ", initializer=");
        ig_quote(attr->data->initializer, p->text);
        break;
    }
}

/* ---- Nodes */

static void print_results(struct printer *p, const struct ig_node *node) {
    for (uint32_t i = 0; i < node->n_out; i++) {
        const char *name = ig_info(p->graph, node->out + i)->name;
        ig_text_printf(p->text, i > 0 ? ", %%%u" : "%%%u", p->number[node->out + i]);
        if (name == NULL) continue;
        ig_text_add(p->text, " ");
        ig_quote(name, p->text);
    }
}

static void print_bodies(struct printer *p, const struct ig_node *node) {
    static const char *const two[] = {"then", "else"};
    for (int i = 0; i < 2; i++) {
        if (node->body[i] == NULL) continue;
        line(p);
        ig_text_printf(p->text, "%s {\n", node->body[1] != NULL ? two[i] : "body");
        print_graph(node->body[i], p->flags, p->indent + 1, p->text);
        line(p);
        ig_text_add(p->text, "}\n");
    }
}

static void print_node(struct printer *p, const struct ig_node *node) {
    const struct ig_op_info *info = ig_op_info(node->op);
    line(p);
    print_results(p, node);
    ig_text_printf(p->text, "%s%s(", node->n_out > 0 ? " = " : "= ", info->name);
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (i > 0) ig_text_add(p->text, ", ");
        if (node->in[i] == IG_NO_VALUE)
            ig_text_add(p->text, "-");
        else
            ig_text_printf(p->text, "%%%u", p->number[node->in[i]]);
    }
    ig_text_add(p->text, ")");
    for (int i = 0; i < info->n_attrs; i++) {
        ig_text_add(p->text, i == 0 ? " {" : ", ");
        print_attr(p, node, i);
    }
    if (info->n_attrs > 0) ig_text_add(p->text, "}");
    for (uint32_t i = 0; i < node->n_out; i++) {
        ig_text_add(p->text, i == 0 ? ": " : ", ");
        print_type(p, ig_type_of(p->graph, node->out + i));
    }
    if (node->origin != NULL) ig_text_add(p->text, " @ ");
    if (node->origin != NULL) ig_quote(node->origin, p->text);
    if ((p->flags & IG_PRINT_REGIONS) && node->region != IG_NO_REGION)
        ig_text_printf(p->text, " region %u", node->region);
    ig_text_add(p->text, "\n");
    print_bodies(p, node);
}

/* ---- Ports */

static void print_input(struct printer *p, const struct ig_port *port) {
    const struct ig_value_info *info = ig_info(p->graph, port->value);
    int64_t count = 0;
    line(p);
    ig_text_printf(p->text, "input %%%u ", p->number[port->value]);
    ig_quote(port->name, p->text);
    ig_text_add(p->text, ": ");
    print_type(p, &info->type);
    if (info->elements != NULL) {
        ig_dim_is_const(p->graph->dims, ig_type_elements(p->graph->dims, &info->type), &count);
        ig_text_add(p->text, " = ");
        struct ig_attr elements = {.kind = IG_KIND_DIMS, .count = (int)count, .dims = info->elements};
        print_list(p, &elements);
    }
    ig_text_add(p->text, "\n");
}

static void print_output(struct printer *p, const struct ig_port *port) {
    line(p);
    ig_text_add(p->text, "output ");
    ig_quote(port->name, p->text);
    ig_text_printf(p->text, " = %%%u", p->number[port->value]);
    if (port->updates) ig_text_printf(p->text, " updates %u", port->updates - 1);
    ig_text_add(p->text, "\n");
}

static void print_graph(struct ig_graph *graph, unsigned flags, int indent, struct ig_text *text) {
    struct printer p = {.graph = graph, .text = text, .flags = flags, .indent = indent};
    uint32_t next = 0;
    p.number = IG_NEW_ARRAY(graph->job, uint32_t, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        p.number[graph->inputs.at[i].value] = next++;
    for (ig_node_id id = 0; id < graph->nodes.count; id++) {
        const struct ig_node *node = &graph->nodes.at[id];
        for (uint32_t i = 0; i < node->n_out; i++)
            p.number[node->out + i] = next++;
    }
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        print_input(&p, &graph->inputs.at[i]);
    for (ig_node_id id = 0; id < graph->nodes.count; id++)
        print_node(&p, &graph->nodes.at[id]);
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        print_output(&p, &graph->outputs.at[i]);
}

/* ---- Entry point */

/* Symbols whose range differs from the default. */
static void print_symbols(struct ig_dims *dims, struct ig_text *text) {
    ig_dim symbol;
    int64_t lo, hi;
    for (uint32_t i = 0; ig_dim_symbol_at(dims, i, &symbol, &lo, &hi); i++) {
        if (lo == 0 && hi == INT32_MAX) continue;
        ig_text_add(text, "symbol ");
        ig_dim_print(dims, symbol, text);
        ig_text_printf(text, " from %" PRId64 " to %" PRId64 "\n", lo, hi);
    }
}

void ig_graph_print(struct ig_graph *graph, unsigned flags, struct ig_text *text) {
    print_symbols(graph->dims, text);
    ig_text_add(text, "graph {\n");
    print_graph(graph, flags, 1, text);
    ig_text_add(text, "}\n");
}
