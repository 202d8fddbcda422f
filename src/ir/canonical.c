/* Canonical texts and orders; see canonical.h. */
#include "ir/canonical.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash/hash.h"
#include "base/map.h"
#include "ir/eval/eval.h"

/* ---- Dims ---------------------------------------------------------------------------------------------------------*/

typedef IG_VEC(const char *) texts;

static const char *dim_text(struct ig_canon *c, ig_dim dim);

/* The number of a symbol, a new one at the first request. */
static uint32_t number_of(struct ig_canon *c, ig_dim symbol) {
    for (uint32_t i = 0; i < c->symbols.count; i++) {
        if (c->symbols.at[i] == symbol) return i;
    }
    IG_PUSH(c->graph->job, &c->symbols, symbol);
    return c->symbols.count - 1;
}

void ig_canon_symbol(struct ig_canon *c, ig_dim symbol, struct ig_text *text) {
    int64_t lo, hi, usual;
    ig_dim_range(c->graph->dims, symbol, &lo, &hi);
    ig_text_printf(text, "%" PRId64 " to %" PRId64, lo, hi);
    if (ig_dim_usual(c->graph->dims, symbol, &usual)) ig_text_printf(text, ", usually %" PRId64, usual);
}

static const char *symbol_text(struct ig_canon *c, ig_dim symbol) {
    struct ig_text text;
    if (!c->anonymous) return ig_format(c->graph->job, "s%u", number_of(c, symbol));
    ig_text_init(&text, c->graph->job);
    ig_canon_symbol(c, symbol, &text);
    return ig_format(c->graph->job, "(%s)", text.at);
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *joined(struct ig_canon *c, texts *parts, const char *separator) {
    struct ig_text text;
    ig_text_init(&text, c->graph->job);
    qsort(parts->at, parts->count, sizeof *parts->at, compare_texts);
    for (uint32_t i = 0; i < parts->count; i++)
        ig_text_printf(&text, "%s%s", i ? separator : "", parts->at[i]);
    return text.at;
}

/* The operands of a sum or product, which are in an order that depends on names. */
static void add_parts(struct ig_canon *c, ig_dim dim, enum ig_dim_kind kind, texts *parts) {
    struct ig_dim_view view = ig_dim_look(c->graph->dims, dim);
    if (view.kind == kind) {
        add_parts(c, view.a, kind, parts);
        add_parts(c, view.b, kind, parts);
    } else {
        IG_PUSH(c->graph->job, parts, dim_text(c, dim));
    }
}

static const char *dim_text(struct ig_canon *c, ig_dim dim) {
    struct ig_job *job = c->graph->job;
    struct ig_dim_view view = ig_dim_look(c->graph->dims, dim);
    texts parts = {0};
    switch (view.kind) {
    case IG_DIM_CONST: return ig_format(job, "%" PRId64, view.value);
    case IG_DIM_SYMBOL: return symbol_text(c, dim);
    case IG_DIM_ADD: add_parts(c, dim, IG_DIM_ADD, &parts); return ig_format(job, "(%s)", joined(c, &parts, "+"));
    case IG_DIM_MUL: add_parts(c, dim, IG_DIM_MUL, &parts); return joined(c, &parts, "*");
    case IG_DIM_DIV: return ig_format(job, "floor(%s/%s)", dim_text(c, view.a), dim_text(c, view.b));
    case IG_DIM_MOD: return ig_format(job, "mod(%s,%s)", dim_text(c, view.a), dim_text(c, view.b));
    case IG_DIM_MIN:
    case IG_DIM_MAX:
        IG_PUSH(job, &parts, dim_text(c, view.a));
        IG_PUSH(job, &parts, dim_text(c, view.b));
        return ig_format(job, "%s(%s)", view.kind == IG_DIM_MIN ? "min" : "max", joined(c, &parts, ","));
    }
    return "";
}

void ig_canon_dim(struct ig_canon *c, ig_dim dim, struct ig_text *text) {
    int64_t value;
    if (dim == IG_DIM_NONE)
        ig_text_add(text, "?");
    else if (ig_dim_is_const(c->graph->dims, dim, &value))
        ig_text_printf(text, "%" PRId64, value);
    else
        ig_text_add(text, dim_text(c, dim));
}

void ig_canon_number(struct ig_canon *c, const struct ig_type *type) {
    for (int i = 0; i < type->rank; i++) {
        if (ig_dim_look(c->graph->dims, type->dim[i]).kind == IG_DIM_SYMBOL) number_of(c, type->dim[i]);
    }
}

/* ---- Types, attributes, literals ----------------------------------------------------------------------------------*/

void ig_canon_type(struct ig_canon *c, const struct ig_type *type, struct ig_text *text) {
    ig_text_printf(text, "%s[", ingot_dtype_name(type->dtype));
    for (int i = 0; i < type->rank; i++) {
        if (i > 0) ig_text_add(text, ",");
        ig_canon_dim(c, type->dim[i], text);
    }
    ig_text_add(text, "]");
}

static void add_attr(struct ig_canon *c, const struct ig_attr *a, struct ig_text *text) {
    bool list = a->kind == IG_KIND_INTS || a->kind == IG_KIND_FLOATS || a->kind == IG_KIND_DIMS;
    if (list) ig_text_add(text, "[");
    for (int i = 0; list && i < a->count; i++) {
        if (i > 0) ig_text_add(text, ",");
        if (a->kind == IG_KIND_INTS) ig_text_printf(text, "%" PRId64, a->ints[i]);
        if (a->kind == IG_KIND_FLOATS) ig_text_printf(text, "%a", a->floats[i]);
        if (a->kind == IG_KIND_DIMS) ig_canon_dim(c, a->dims[i], text);
    }
    if (list) ig_text_add(text, "]");
    if (a->kind == IG_KIND_INT) ig_text_printf(text, "%" PRId64, a->i);
    if (a->kind == IG_KIND_DTYPE) ig_text_add(text, ingot_dtype_name((enum ingot_dtype)a->i));
    if (a->kind == IG_KIND_FLOAT) ig_text_printf(text, "%a", a->f);
    if (a->kind == IG_KIND_DIM) ig_canon_dim(c, a->dim, text);
}

void ig_canon_attrs(struct ig_canon *c, const struct ig_node *n, struct ig_text *text) {
    const struct ig_op_info *info = ig_op_info(n->op);
    for (int i = 0; i < info->n_attrs; i++) {
        enum ig_attr_name name = info->attrs[i].name;
        ig_text_printf(text, "%s%s=", i ? ", " : " {", ig_attr_name_text(name));
        /* Which collective it is, and on which rank: kernels are told when they run. */
        if (ig_op_is_collective(n->op) && (name == IG_ATTR_number || name == IG_ATTR_rank)) continue;
        add_attr(c, &n->attr[i], text);
    }
    if (info->n_attrs) ig_text_add(text, "}");
}

static bool is_one_element(const struct ig_graph *g, ig_value v) {
    const struct ig_type *type = ig_type_of(g, v);
    for (int i = 0; i < type->rank; i++) {
        int64_t n;
        if (!ig_dim_is_const(g->dims, type->dim[i], &n) || n != 1) return false;
    }
    return true;
}

bool ig_is_literal(const struct ig_graph *g, ig_value v) {
    const struct ig_value_info *info = ig_info(g, v);
    return !info->in_memory && is_one_element(g, v) &&
           (info->is_const || (info->elements && info->elements[0] != IG_DIM_NONE && info->type.dtype == INGOT_I64));
}

void ig_canon_literal(struct ig_canon *c, ig_value v, struct ig_text *text) {
    const struct ig_value_info *info = ig_info(c->graph, v);
    ig_text_add(text, " = ");
    if (!info->is_const) {
        ig_canon_dim(c, info->elements[0], text);
        return;
    }
    struct ingot_tensor t = ig_const_tensor(c->graph, v);
    double number = ig_dtype_is_float(t.dtype) ? ig_load_f64(t.dtype, t.data, 0) : 0;
    if (!ig_dtype_is_float(t.dtype))
        ig_text_printf(text, "%" PRId64, ig_load_i64(t.dtype, t.data, 0));
    else if (isfinite(number))
        ig_text_printf(text, "%.*g", t.dtype == INGOT_F64 ? 17 : 9, number); /* tells all numbers of the type apart */
    else
        for (size_t i = 0; i < ingot_dtype_size(t.dtype); i++)
            ig_text_printf(text, "%02x", ((const unsigned char *)t.data)[i]);
    ig_const_release(c->graph, v, &t);
}

/* ---- Walks --------------------------------------------------------------------------------------------------------*/

/* A walk under way. Values and nodes are found by maps, because graphs are much larger than regions. */
struct walking {
    struct ig_graph *g;
    struct ig_map inputs, nodes; /* value, node -> 1: not met yet */
    struct ig_walk *out;
};

static void walking_init(struct walking *w, struct ig_graph *g, const struct ig_region *region, struct ig_walk *out) {
    *w = (struct walking){.g = g, .out = out};
    ig_map_init(&w->inputs, g->job);
    ig_map_init(&w->nodes, g->job);
    for (uint32_t i = 0; i < region->inputs.count; i++)
        ig_map_put(&w->inputs, &region->inputs.at[i], sizeof(ig_value), 1);
    for (uint32_t i = 0; i < region->nodes.count; i++)
        ig_map_put(&w->nodes, &region->nodes.at[i], sizeof(ig_node_id), 1);
}

static void walk_value(struct walking *w, ig_value v);

static void walk_node(struct walking *w, ig_node_id id) {
    uint32_t is_new;
    if (!ig_map_get(&w->nodes, &id, sizeof id, &is_new) || !is_new) return;
    ig_map_put(&w->nodes, &id, sizeof id, 0);
    const struct ig_node *n = &w->g->nodes.at[id];
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] != IG_NO_VALUE) walk_value(w, n->in[i]);
    }
    IG_PUSH(w->g->job, &w->out->nodes, id);
}

static void walk_value(struct walking *w, ig_value v) {
    uint32_t is_new;
    if (!ig_map_get(&w->inputs, &v, sizeof v, &is_new)) {
        ig_node_id id = ig_info(w->g, v)->node;
        if (id != IG_NO_NODE) walk_node(w, id);
    } else if (is_new) {
        ig_map_put(&w->inputs, &v, sizeof v, 0);
        IG_PUSH(w->g->job, &w->out->inputs, v);
    }
}

/* The last node, which is the anchor of elementwise and row regions, depends on the order of the nodes. */
static bool has_anchor(const struct ig_region *region) {
    return region->family != IG_FAMILY_MAP && region->family != IG_FAMILY_ROW;
}

void ig_region_walk(struct ig_graph *g, const struct ig_region *region, struct ig_walk *out) {
    struct walking w;
    *out = (struct ig_walk){0};
    walking_init(&w, g, region, out);
    if (has_anchor(region)) walk_node(&w, region->anchor);
    for (uint32_t i = 0; i < region->outputs.count; i++)
        walk_value(&w, region->outputs.at[i]);
    for (uint32_t i = 0; i < region->nodes.count; i++) /* of no use to any output */
        walk_node(&w, region->nodes.at[i]);
    for (uint32_t i = 0; i < region->inputs.count; i++)
        walk_value(&w, region->inputs.at[i]);
}

static int compare_ids(const void *a, const void *b) {
    ig_node_id x = *(const ig_node_id *)a, y = *(const ig_node_id *)b;
    return (x > y) - (x < y);
}

void ig_region_sort(struct ig_region *region) {
    qsort(region->nodes.at, region->nodes.count, sizeof *region->nodes.at, compare_ids);
}

/* ---- The order of inputs and outputs ------------------------------------------------------------------------------*/

/*
 * Which output is the first of equal ones must not depend on the order of the nodes. So values get colours, hashes of
 * what they are, which spread along the edges in both directions (Weisfeiler and Leman's refinement): two outputs have the
 * same colour if what computes them looks alike, whatever else the region does with their operands. Then one is put
 * first, the inputs that it depends on get numbers, and these spread too.
 */
struct colour {
    uint64_t hash;
    uint64_t uses; /* a sum over the operands that it is */
};

struct arrangement {
    struct ig_graph *g;
    struct ig_region *region;
    struct ig_canon canon;
    struct ig_map input_of, node_of;  /* value, node -> index in the region */
    uint64_t *input_text, *node_text; /* hashes of what they are by themselves */
    uint32_t *number;                 /* by input; 0: none yet */
    uint32_t n_numbers;
    struct colour *inputs, *nodes;
    uint32_t *depth; /* by node */
    struct walking walk;
    struct ig_walk walked;
};

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t words[2] = {a, b};
    return ig_hash64(words, sizeof words);
}

/* The colour of the input or node that v is, and which of the node's results it is; NULL: neither. */
static struct colour *colour_of(struct arrangement *a, ig_value v, uint32_t *out_result, uint32_t *out_depth) {
    uint32_t i;
    *out_result = *out_depth = 0;
    if (ig_map_get(&a->input_of, &v, sizeof v, &i)) return &a->inputs[i];
    ig_node_id id = ig_info(a->g, v)->node;
    if (id == IG_NO_NODE || !ig_map_get(&a->node_of, &id, sizeof id, &i)) return NULL;
    *out_result = v - a->g->nodes.at[id].out;
    *out_depth = a->depth[i];
    return &a->nodes[i];
}

/* Mixes the colours of its operands into a node's, and counts the uses. */
static void colour_node(struct arrangement *a, uint32_t i) {
    const struct ig_node *n = &a->g->nodes.at[a->region->nodes.at[i]];
    uint64_t old = a->nodes[i].hash, hash = a->node_text[i];
    uint32_t result, depth, deepest = 0;
    for (uint32_t k = 0; k < n->n_in; k++) {
        struct colour *in = n->in[k] == IG_NO_VALUE ? NULL : colour_of(a, n->in[k], &result, &depth);
        hash = mix(hash, in ? mix(in->hash, result) : 0);
        if (in) in->uses += mix(old, mix(k, result));
        if (in && depth > deepest) deepest = depth;
    }
    a->depth[i] = deepest + 1;
    a->nodes[i].hash = hash;
}

static void colour(struct arrangement *a) {
    enum { ROUNDS = 6 };
    struct ig_region *r = a->region;
    uint32_t result, depth;
    for (uint32_t i = 0; i < r->inputs.count; i++)
        a->inputs[i] = (struct colour){mix(a->input_text[i], a->number[i]), 0};
    for (uint32_t i = 0; i < r->nodes.count; i++)
        a->nodes[i] = (struct colour){0};
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < r->outputs.count; i++) {
            struct colour *c = colour_of(a, r->outputs.at[i], &result, &depth);
            if (c) c->uses += mix(1, result);
        }
        for (uint32_t i = 0; i < r->nodes.count; i++) /* in an order of execution */
            colour_node(a, i);
        for (uint32_t i = 0; i < r->inputs.count; i++)
            a->inputs[i] = (struct colour){mix(mix(a->input_text[i], a->number[i]), a->inputs[i].uses), 0};
        for (uint32_t i = 0; i < r->nodes.count; i++)
            a->nodes[i] = (struct colour){mix(a->nodes[i].hash, a->nodes[i].uses), 0};
    }
}

static uint64_t input_text(struct arrangement *a, ig_value v) {
    struct ig_text text;
    ig_text_init(&text, a->g->job);
    ig_canon_type(&a->canon, ig_type_of(a->g, v), &text);
    if (ig_info(a->g, v)->is_const) ig_text_add(&text, " constant");
    if (ig_is_literal(a->g, v)) ig_canon_literal(&a->canon, v, &text);
    return ig_hash64(text.at, text.length);
}

static uint64_t node_text(struct arrangement *a, ig_node_id id) {
    const struct ig_node *n = &a->g->nodes.at[id];
    struct ig_text text;
    ig_text_init(&text, a->g->job);
    ig_text_add(&text, ig_op_info(n->op)->name);
    ig_canon_attrs(&a->canon, n, &text);
    for (uint32_t o = 0; o < n->n_out; o++)
        ig_canon_type(&a->canon, ig_type_of(a->g, n->out + o), &text);
    return ig_hash64(text.at, text.length);
}

static void arrangement_init(struct arrangement *a, struct ig_graph *g, struct ig_region *region) {
    uint32_t n_inputs = region->inputs.count, n_nodes = region->nodes.count;
    *a = (struct arrangement){.g = g, .region = region, .canon = {.graph = g, .anonymous = true}};
    ig_map_init(&a->input_of, g->job);
    ig_map_init(&a->node_of, g->job);
    a->input_text = IG_NEW_ARRAY(g->job, uint64_t, n_inputs + 1);
    a->node_text = IG_NEW_ARRAY(g->job, uint64_t, n_nodes);
    a->number = IG_NEW_ARRAY(g->job, uint32_t, n_inputs + 1);
    a->depth = IG_NEW_ARRAY(g->job, uint32_t, n_nodes);
    a->inputs = IG_NEW_ARRAY(g->job, struct colour, n_inputs + 1);
    a->nodes = IG_NEW_ARRAY(g->job, struct colour, n_nodes);
    for (uint32_t i = 0; i < n_inputs; i++) {
        ig_map_put(&a->input_of, &region->inputs.at[i], sizeof(ig_value), i);
        a->input_text[i] = input_text(a, region->inputs.at[i]);
    }
    for (uint32_t i = 0; i < n_nodes; i++) {
        ig_map_put(&a->node_of, &region->nodes.at[i], sizeof(ig_node_id), i);
        a->node_text[i] = node_text(a, region->nodes.at[i]);
    }
    walking_init(&a->walk, g, region, &a->walked);
}

/* Numbers the inputs that were met since the last time. */
static void number_inputs(struct arrangement *a) {
    while (a->n_numbers < a->walked.inputs.count) {
        uint32_t i;
        ig_map_get(&a->input_of, &a->walked.inputs.at[a->n_numbers], sizeof(ig_value), &i);
        a->number[i] = ++a->n_numbers;
    }
}

/* An output's place: by depth, then by colour. */
struct place {
    uint32_t depth;
    uint64_t hash;
};

static bool is_before(struct place a, struct place b) {
    return a.depth != b.depth ? a.depth < b.depth : a.hash < b.hash;
}

static struct place place_of(struct arrangement *a, ig_value v) {
    uint32_t result, depth;
    const struct colour *c = colour_of(a, v, &result, &depth);
    return (struct place){depth, c ? mix(c->hash, result) : 0};
}

/* The next of the outputs from `first` on: the first among those that no other equals, or if there is none, any of the
 * first: then they are images of each other. */
static uint32_t next_output(struct arrangement *a, uint32_t first) {
    uint32_t count = a->region->outputs.count, best = first;
    bool best_is_alone = false;
    struct place *places = IG_NEW_ARRAY(a->g->job, struct place, count);
    for (uint32_t i = first; i < count; i++)
        places[i] = place_of(a, a->region->outputs.at[i]);
    for (uint32_t i = first; i < count; i++) {
        bool alone = true;
        for (uint32_t k = first; k < count && alone; k++)
            alone = k == i || places[k].hash != places[i].hash;
        if (alone != best_is_alone ? alone : is_before(places[i], places[best])) {
            best = i;
            best_is_alone = alone;
        }
    }
    return best;
}

/* Of more outputs, those behind keep their order. */
enum { MOST_OUTPUTS = 64 };

static void order_outputs(struct arrangement *a) {
    struct ig_region *r = a->region;
    for (uint32_t i = 0; i < r->outputs.count && i < MOST_OUTPUTS; i++) {
        colour(a);
        uint32_t next = next_output(a, i);
        ig_value v = r->outputs.at[next];
        r->outputs.at[next] = r->outputs.at[i];
        r->outputs.at[i] = v;
        walk_value(&a->walk, v);
        number_inputs(a);
    }
}

void ig_region_arrange(struct ig_graph *g, struct ig_region *region) {
    struct ig_walk walk;
    if (!ig_family_has_kernels(region->family)) return;
    if (region->outputs.count > 1) {
        struct arrangement a;
        arrangement_init(&a, g, region);
        if (has_anchor(region)) walk_node(&a.walk, region->anchor);
        number_inputs(&a);
        order_outputs(&a);
    }
    ig_region_walk(g, region, &walk);
    IG_ASSERT(g->job, walk.inputs.count == region->inputs.count);
    for (uint32_t i = 0; i < walk.inputs.count; i++)
        region->inputs.at[i] = walk.inputs.at[i];
}
