/* Builds the graphs of ranks; see split.h. */
#include "pass/shard/split.h"

#include "ir/build.h"
#include "pass/pass.h"
#include "pass/shard/part.h"
#include "pass/shard/stage.h"
#include "pass/view/view.h"

/* A value of the rank's graph, and how it holds one of the model's. */
struct form {
    struct ig_layout layout;
    ig_value value, of;
};
struct forms {
    IG_VEC(struct form) list; /* the first is what its node gives */
};

struct splitter {
    struct ig_graph *from, *to;
    struct ig_dims *dims;
    const struct ig_shard_plan *plan;
    int rank;
    int64_t collectives;          /* so far */
    struct forms *forms;          /* by value of `from`; in place, one list of the few that there are */
    bool in_place;                /* `to` is `from`, of which constants are divided: they are whole as they are */
    struct ig_shard_dealt *dealt; /* NULL: concatenations are divided by ranges alone */
};

static ig_value form_of(struct splitter *s, ig_value v, const struct ig_layout *layout);

static struct forms *forms_of(const struct splitter *s, ig_value v) {
    return &s->forms[s->in_place ? 0 : v];
}

static ig_value add_form(struct splitter *s, ig_value v, const struct ig_layout *layout, ig_value value) {
    IG_PUSH(s->from->job, &forms_of(s, v)->list, ((struct form){*layout, value, v}));
    return value;
}

static const struct form *find_form(const struct splitter *s, ig_value v, const struct ig_layout *layout) {
    const struct forms *forms = forms_of(s, v);
    for (uint32_t i = 0; i < forms->list.count; i++) {
        const struct form *form = &forms->list.at[i];
        if (form->of == v && ig_layout_same(&form->layout, layout)) return form;
    }
    return NULL;
}

/* What its node gives. */
static struct form first_form(const struct splitter *s, ig_value v) {
    if (s->in_place) return (struct form){ig_layout_whole(), v, v};
    const struct form *list = s->forms[v].list.at;
    IG_ASSERT(s->from->job, list && s->forms[v].list.count > 0);
    return list[0];
}

/* ---- Conversions ------------------------------------------------------------------------------------------------- */

/* The value with its split axis as two: outer, and what is divided. Where there is one outer index, as it is. */
static ig_value open_axis(struct splitter *s, ig_value value, const struct ig_layout *l, ig_dim size, int *out_axis) {
    const struct ig_type type = *ig_type_of(s->to, value);
    ig_dim dims[INGOT_MAX_RANK + 1];
    *out_axis = l->axis;
    if (l->outer == ig_dim_const(s->dims, 1)) return value;
    ig_dim before[] = {ig_dim_product(s->dims, type.dim, l->axis), l->outer};
    dims[0] = ig_dim_product(s->dims, before, 2);
    dims[1] = size;
    dims[2] = ig_dim_product(s->dims, type.dim + l->axis + 1, type.rank - l->axis - 1);
    *out_axis = 1;
    return ig_build_reshape(s->to, value, dims, 3);
}

static ig_value close_axis(struct splitter *s, ig_value value, const struct ig_type *type) {
    return ig_build_reshape(s->to, value, type->dim, type->rank);
}

/* The sizes of the ranks' parts of what is divided. */
static ig_dim *parts_of(struct splitter *s, const struct ig_layout *l) {
    ig_dim *parts = IG_NEW_ARRAY(s->from->job, ig_dim, (size_t)s->plan->ranks);
    for (int r = 0; r < s->plan->ranks; r++)
        parts[r] = ig_dim_mul(s->dims, ig_layout_part(s->dims, l, s->plan->ranks, r), l->inner);
    return parts;
}

/* This rank's part of a value that it has whole. */
static ig_value slice(struct splitter *s, ig_value whole, const struct ig_layout *l) {
    const struct ig_type type = *ig_type_of(s->to, whole);
    struct ig_type local = ig_layout_type(s->dims, l, &type, s->plan->ranks, s->rank);
    ig_dim starts[INGOT_MAX_RANK], sizes[INGOT_MAX_RANK];
    int64_t steps[INGOT_MAX_RANK];
    int axis;
    ig_value opened = open_axis(s, whole, l, ig_dim_mul(s->dims, l->count, l->inner), &axis);
    const struct ig_type *in = ig_type_of(s->to, opened);
    for (int i = 0; i < in->rank; i++) {
        starts[i] = ig_dim_const(s->dims, 0);
        sizes[i] = in->dim[i];
        steps[i] = 1;
    }
    starts[axis] = ig_dim_mul(s->dims, ig_layout_begin(s->dims, l, s->plan->ranks, s->rank), l->inner);
    sizes[axis] = parts_of(s, l)[s->rank];
    return close_axis(s, ig_build_slice(s->to, opened, starts, sizes, steps), &local);
}

static ig_value gather(struct splitter *s, ig_value part, const struct ig_layout *l, const struct ig_type *whole) {
    const ig_dim *parts = parts_of(s, l);
    int axis;
    ig_value opened = open_axis(s, part, l, parts[s->rank], &axis);
    opened = ig_build_all_gather(s->to, opened, s->collectives++, s->rank, axis, parts, s->plan->ranks);
    return close_axis(s, opened, whole);
}

static ig_value reduce_scatter(struct splitter *s, ig_value term, enum ig_reduction reduction,
                               const struct ig_layout *l) {
    const struct ig_type type = *ig_type_of(s->to, term);
    struct ig_type local = ig_layout_type(s->dims, l, &type, s->plan->ranks, s->rank);
    int axis;
    ig_value opened = open_axis(s, term, l, ig_dim_mul(s->dims, l->count, l->inner), &axis);
    opened = ig_build_reduce_scatter(s->to, opened, s->collectives++, s->rank, axis, parts_of(s, l), s->plan->ranks,
                                     reduction);
    return close_axis(s, opened, &local);
}

/* Each operand of a concatenation along the divided axis by itself, in the same units. */
static bool deal(struct splitter *s, const struct ig_node *n, const struct ig_layout *l, struct ig_layout *out) {
    struct ig_shard_dealt *dealt = s->dealt;
    int64_t inner, size;
    if (!dealt || l->grain > 1 || n->op != IG_OP_concat || ig_attr_int(s->from, n, IG_ATTR_axis) != l->axis ||
        dealt->count > 0 || n->n_in > IG_MOST_DEALT || l->outer != ig_dim_const(s->dims, 1) ||
        !ig_dim_is_const(s->dims, l->inner, &inner))
        return false;
    for (uint32_t i = 0; i < n->n_in; i++) {
        bool is_const = ig_dim_is_const(s->dims, ig_type_of(s->from, n->in[i])->dim[l->axis], &size);
        if (!is_const || size % (inner * s->plan->ranks) != 0) return false;
        dealt->units[i] = size / inner;
        out[i] = ig_layout_split(l->axis, l->outer, ig_dim_const(s->dims, size / inner), l->inner);
    }
    dealt->count = (int)n->n_in;
    return true;
}

/* What the rule of a constant's node says of its operands, for that part of it. */
static bool divide_constant(struct splitter *s, const struct ig_node *n, const struct ig_layout *layout,
                            struct ig_division *d) {
    const struct ig_slot_of slot = {.is_result = true};
    d->out[0] = *layout;
    if (deal(s, n, layout, d->in)) return true;
    return ig_shard_divide(s->from, n, slot, layout, d) && ig_layout_same(&d->out[0], layout);
}

/* The part of a constant, from the parts of what it is computed from, as far as a rule leads. IG_NO_VALUE: none does. */
static ig_value divided_constant(struct splitter *s, ig_value v, const struct ig_layout *layout) {
    const struct ig_node *node = ig_def(s->from, v);
    if (node->n_in == 0 || node->n_out != 1) return IG_NO_VALUE;
    struct ig_layout result;
    struct ig_division d = {.in = IG_NEW_ARRAY(s->from->job, struct ig_layout, node->n_in), .out = &result};
    if (!divide_constant(s, node, layout, &d)) return IG_NO_VALUE;
    ig_value *in = IG_NEW_ARRAY(s->from->job, ig_value, node->n_in);
    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = node->in[i] == IG_NO_VALUE ? IG_NO_VALUE : form_of(s, node->in[i], &d.in[i]);
    if (s->in_place && node->op == IG_OP_reshape) { /* as the passes write it */
        struct ig_type local = ig_layout_type(s->dims, layout, ig_type_of(s->from, v), s->plan->ranks, s->rank);
        return ig_view_reshape(s->to, in[0], local.dim, local.rank);
    }
    if (s->in_place && node->op == IG_OP_transpose)
        return ig_view_transpose(s->to, in[0], ig_attr(s->from, node, IG_ATTR_perm)->ints);
    return ig_shard_build(s->to, s->from, node, &d, in, s->plan->ranks, s->rank);
}

static ig_value to_whole(struct splitter *s, ig_value v) {
    const struct form first = first_form(s, v);
    const struct ig_type whole = *ig_type_of(s->from, v);
    if (first.layout.kind == IG_LAYOUT_SPLIT) return gather(s, first.value, &first.layout, &whole);
    return ig_build_all_reduce(s->to, first.value, s->collectives++, s->plan->ranks, first.layout.reduction);
}

static ig_value convert(struct splitter *s, ig_value v, const struct ig_layout *layout) {
    const struct ig_layout whole = ig_layout_whole();
    if (layout->kind == IG_LAYOUT_WHOLE) return to_whole(s, v);
    const struct form first = first_form(s, v);
    ig_value value = ig_info(s->from, v)->is_const ? divided_constant(s, v, layout) : IG_NO_VALUE;
    if (value == IG_NO_VALUE && first.layout.kind == IG_LAYOUT_PARTIAL && !find_form(s, v, &whole))
        value = reduce_scatter(s, first.value, first.layout.reduction, layout);
    return value == IG_NO_VALUE ? slice(s, form_of(s, v, &whole), layout) : value;
}

/* The value in that layout, converted where nobody asked for it before. */
static ig_value form_of(struct splitter *s, ig_value v, const struct ig_layout *layout) {
    const struct form *known = find_form(s, v, layout);
    if (known) return known->value;
    if (s->in_place && layout->kind == IG_LAYOUT_WHOLE) return v;
    IG_ASSERT(s->from->job, layout->kind != IG_LAYOUT_PARTIAL);
    const char *reader = s->to->origin; /* what converts a value belongs to the node that gave it */
    const struct ig_node *node = ig_def(s->from, v);
    if (node) ig_build_origin(s->to, node->origin);
    ig_value converted = convert(s, v, layout);
    ig_build_origin(s->to, reader);
    return add_form(s, v, layout, converted);
}

ig_value ig_shard_part(struct ig_graph *g, ig_value constant, const struct ig_layout *layout, int ranks, int rank,
                       struct ig_shard_dealt *out_dealt) {
    const struct ig_shard_plan plan = {.ranks = ranks};
    struct splitter s = {
        .from = g, .to = g, .dims = g->dims, .plan = &plan, .rank = rank, .in_place = true, .dealt = out_dealt};
    if (out_dealt) out_dealt->count = 0;
    s.forms = IG_NEW(g->job, struct forms);
    return form_of(&s, constant, layout);
}

/* ---- Nodes ------------------------------------------------------------------------------------------------------- */

/* What a rule promised and what the rank's operator gives must agree. */
static void check_result(const struct splitter *s, const struct ig_node *n, uint32_t result, ig_value value,
                         const struct ig_layout *layout) {
    struct ig_type expected =
        ig_layout_type(s->dims, layout, ig_type_of(s->from, n->out + result), s->plan->ranks, s->rank);
    const struct ig_type *found = ig_type_of(s->to, value);
    bool same = found->dtype == expected.dtype && found->rank == expected.rank;
    for (int i = 0; same && i < expected.rank; i++)
        same = ig_dim_equal(s->dims, found->dim[i], expected.dim[i]) != IG_NO;
    if (same) return;
    struct ig_text text;
    ig_text_init(&text, s->from->job);
    ig_type_print(s->dims, &expected, &text);
    ig_text_add(&text, " became ");
    ig_type_print(s->dims, found, &text);
    ig_raise(s->from->job, INGOT_INTERNAL, "rank %d's part of a result of %s has another type: %s", s->rank,
             ig_op_info(n->op)->name, text.at);
}

static void split_node(struct splitter *s, const struct ig_node *n, const struct ig_division *d) {
    const struct ig_layout whole = ig_layout_whole();
    ig_value *in = IG_NEW_ARRAY(s->from->job, ig_value, n->n_in + 1);
    ig_build_origin(s->to, n->origin);
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = n->in[i] == IG_NO_VALUE ? IG_NO_VALUE : form_of(s, n->in[i], d ? &d->in[i] : &whole);
    ig_value first =
        d ? ig_shard_build(s->to, s->from, n, d, in, s->plan->ranks, s->rank) : ig_build_copy(s->to, s->from, n, in);
    for (uint32_t o = 0; o < n->n_out; o++) {
        const struct ig_layout *layout = d ? &d->out[o] : &whole;
        const struct ig_value_info *info = ig_info(s->from, n->out + o);
        check_result(s, n, o, first + o, layout);
        add_form(s, n->out + o, layout, first + o);
        if (info->name) ig_build_name(s->to, first + o, info->name);
    }
}

struct ig_graph *ig_shard_split(struct ig_graph *graph, const struct ig_shard_plan *plan, int rank) {
    if (plan->places) return ig_shard_split_stages(graph, plan, rank);
    struct splitter s = {.from = graph, .dims = graph->dims, .plan = plan, .rank = rank};
    const struct ig_layout whole = ig_layout_whole();
    s.to = ig_graph_create(graph->job, graph->dims);
    s.forms = IG_NEW_ARRAY(graph->job, struct forms, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const struct ig_port *port = &graph->inputs.at[i];
        ig_value input = ig_build_input(s.to, port->name, ig_type_of(graph, port->value));
        s.to->values.at[input].elements = ig_info(graph, port->value)->elements;
        add_form(&s, port->value, &whole, input);
    }
    for (ig_node_id id = 0; id < graph->nodes.count; id++)
        split_node(&s, &graph->nodes.at[id], plan->divisions[id]);
    ig_build_origin(s.to, NULL);
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        ig_build_port(s.to, &graph->outputs.at[i], form_of(&s, graph->outputs.at[i].value, &whole));
    return ig_rewrite(s.to, NULL, NULL, NULL); /* without what was sliced and is not read, and with bodies of its own */
}

/* ---- Agreement --------------------------------------------------------------------------------------------------- */

static const struct ig_node *next_collective(const struct ig_graph *g, ig_node_id *inout_id) {
    while (*inout_id < g->nodes.count) {
        const struct ig_node *n = &g->nodes.at[(*inout_id)++];
        if (ig_op_is_collective(n->op)) return n;
    }
    return NULL;
}

/* The same but for whose part it is. */
static bool agree(const struct ig_graph *g, const struct ig_node *a, const struct ig_graph *h,
                  const struct ig_node *b) {
    if (!a || !b) return a == b;
    if (a->op != b->op || ig_type_of(g, a->in[0])->dtype != ig_type_of(h, b->in[0])->dtype) return false;
    for (int i = 0; i < ig_op_info(a->op)->n_attrs; i++) {
        const struct ig_attr *x = &a->attr[i], *y = &b->attr[i];
        if (ig_op_info(a->op)->attrs[i].name == IG_ATTR_rank) continue;
        if (x->kind == IG_KIND_INT && x->i != y->i) return false;
        if (x->kind != IG_KIND_DIMS) continue;
        if (x->count != y->count) return false;
        for (int k = 0; k < x->count; k++) {
            if (ig_dim_equal(g->dims, x->dims[k], y->dims[k]) == IG_NO) return false;
        }
    }
    return true;
}

static uint32_t check_pair(const struct ig_graph *first, const struct ig_graph *other, int rank) {
    ig_node_id i = 0, k = 0;
    for (uint32_t number = 0;; number++) {
        const struct ig_node *a = next_collective(first, &i), *b = next_collective(other, &k);
        bool in_order = !a || ig_attr_int(first, a, IG_ATTR_number) == number;
        if (!in_order || !agree(first, a, other, b))
            ig_raise(first->job, INGOT_INTERNAL,
                     "the graphs of ranks 0 and %d differ in collective %u: %s of rank 0, %s of rank %d%s", rank,
                     number, a ? ig_op_info(a->op)->name : "none", b ? ig_op_info(b->op)->name : "none", rank,
                     in_order ? "" : "; one before it was dropped or moved");
        if (!a) return number;
    }
}

uint32_t ig_shard_check(struct ig_graph *const *graphs, int ranks) {
    uint32_t count = check_pair(graphs[0], graphs[0], 0);
    for (int r = 1; r < ranks; r++) {
        IG_ASSERT(graphs[0]->job, graphs[r]->inputs.count == graphs[0]->inputs.count);
        IG_ASSERT(graphs[0]->job, graphs[r]->outputs.count == graphs[0]->outputs.count);
        check_pair(graphs[0], graphs[r], r);
    }
    return count;
}
