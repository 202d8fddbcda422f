/* Slots for adapters; see adapters.h. */
#include "compile/refit/adapters.h"

#include <fnmatch.h>
#include <string.h>

#include "ir/build.h"
#include "ir/rows/rows.h"
#include "pass/pass.h"

static const char input_name[] = "adapter", end_of_weight[] = ".weight";

struct adding {
    struct ig_job *job;
    const struct ig_graph *graph; /* the main one: bodies of control flow have no slots */
    const struct ingot_build_options *options;
    struct ig_initializers *all;
    const struct ig_rows_at *at; /* by value; NULL: one adapter for all samples */
    ig_dim samples;              /* the size of the input: a symbol, or 1 */
    unsigned *found;             /* layers by pattern; then all */
    /* Of the new graph; IG_NO_VALUE before the first layer. */
    ig_value index, none;
};

/* ---- Layers ------------------------------------------------------------------------------------------------------ */

/* x W, W computed from an initialiser by nothing but transposing and casting. */
struct layer {
    const struct ig_initializer *weight;
    const char *name;
    int64_t in, out;
};

static const struct ig_initializer *initializer_of(const struct ig_graph *g, ig_value v) {
    const struct ig_node *n = ig_def(g, v);
    while (n && (n->op == IG_OP_transpose || n->op == IG_OP_cast))
        n = ig_def(g, n->in[0]);
    const struct ig_initializer *one = n && n->op == IG_OP_constant ? ig_attr(g, n, IG_ATTR_data)->data->record : NULL;
    return one && one->rank == 2 && !one->decided_by_import ? one : NULL;
}

/* "encoder.layer.0.dense": as PyTorch names it, where that is known. */
static const char *layer_name(struct ig_job *job, const struct ig_initializer *weight) {
    const char *name = weight->alias ? weight->alias : weight->name;
    size_t length = strlen(name), end = strlen(end_of_weight);
    bool has_end = length > end && strcmp(name + length - end, end_of_weight) == 0;
    return has_end ? ig_strndup(job, name, length - end) : name;
}

/* Do the options name the layer? */
static bool is_wanted(struct adding *a, const struct layer *layer) {
    const struct ingot_build_options *o = a->options;
    bool wanted = o->n_adapter_layers == 0;
    for (size_t i = 0; i < o->n_adapter_layers; i++) {
        const char *pattern = o->adapter_layers[i];
        if (fnmatch(pattern, layer->name, 0) != 0 && fnmatch(pattern, layer->weight->name, 0) != 0) continue;
        a->found[i]++;
        wanted = true;
    }
    if (wanted) a->found[o->n_adapter_layers]++;
    return wanted;
}

static bool find_layer(struct adding *a, const struct ig_graph *g, const struct ig_node *n, struct layer *out) {
    int64_t dims[INGOT_MAX_RANK];
    if (g != a->graph || n->op != IG_OP_matmul || ig_info(g, n->out)->is_const) return false;
    if (!ig_dtype_is_float(ig_type_of(g, n->out)->dtype)) return false;
    const struct ig_type *weight = ig_type_of(g, n->in[1]);
    if (weight->rank != 2 || !ig_type_is_static(g->dims, weight, dims) || dims[0] == 0 || dims[1] == 0) return false;
    *out = (struct layer){.weight = initializer_of(g, n->in[1]), .in = dims[0], .out = dims[1]};
    if (!out->weight) return false;
    out->name = layer_name(a->job, out->weight);
    return is_wanted(a, out);
}

/* ---- The input --------------------------------------------------------------------------------------------------- */

static ig_value number(struct ig_graph *g, int64_t value) {
    return ig_build_scalar_int(g, INGOT_I64, value);
}

/* 1 to the number of slots become 0 and so on; for other numbers `none` is true, and the index is any that exists. */
static void build_input(struct adding *a, struct ig_graph *g) {
    if (a->index != IG_NO_VALUE) return;
    const struct ig_type type = ig_type_make(INGOT_I64, 1, &a->samples);
    ig_value given = ig_build_input(g, input_name, &type);
    ig_value one = ig_build_broadcast(g, number(g, 1), type.dim, 1);
    ig_value last = ig_build_broadcast(g, number(g, a->options->adapters), type.dim, 1);
    ig_value nearest = ig_map2(g, IG_OP_max, ig_map2(g, IG_OP_min, given, last), one);
    a->index = ig_map2(g, IG_OP_sub, nearest, one);
    a->none = ig_map1(g, IG_OP_not, ig_map2(g, IG_OP_eq, nearest, given));
}

/* ---- Slots ------------------------------------------------------------------------------------------------------- */

static ig_value slot_matrix(struct adding *a, struct ig_graph *g, const struct layer *layer, const char *which,
                            unsigned slot, enum ingot_dtype dtype, int64_t rows, int64_t columns) {
    static const int64_t turned[] = {1, 0};
    const int64_t dims[] = {rows, columns};
    const char *name = ig_format(a->job, "%s.lora_%s.%u.weight", layer->name, which, slot);
    size_t size = (size_t)rows * (size_t)columns * ingot_dtype_size(dtype);
    uint32_t index;
    struct ig_initializer *one;
    if (ig_map_get_name(&a->all->by_name, name, &index)) {
        one = a->all->list.at[index]; /* of a layer that the model has in several places */
        if (one->slot != slot)
            ig_raise(a->job, INGOT_INVALID_ARGUMENT, "the model has an initialiser '%.200s' of its own", name);
    } else {
        one = ig_initializers_add(a->all, name, dtype, 2, dims, ig_alloc_array(a->job, size, 1), size);
        one->slot = slot;
    }
    struct ig_data *data = IG_NEW(a->job, struct ig_data);
    *data = (struct ig_data){.bytes = one->bytes, .size = size, .initializer = one->name, .record = one};
    ig_value matrix = ig_build_transpose(g, ig_build_constant(g, dtype, 2, dims, data), turned);
    return ig_build_unsqueeze(g, matrix, (const int[]){0}, 1);
}

/* The matrices that the samples choose: [samples, rows, columns], transposed as a product needs them. */
static ig_value chosen_matrices(struct adding *a, struct ig_graph *g, const struct layer *layer, const char *which,
                                enum ingot_dtype dtype, int64_t rows, int64_t columns) {
    unsigned count = a->options->adapters;
    ig_value *slots = IG_NEW_ARRAY(a->job, ig_value, count);
    for (unsigned k = 0; k < count; k++)
        slots[k] = slot_matrix(a, g, layer, which, k + 1, dtype, rows, columns);
    if (count == 1) return slots[0];
    return ig_build_gather(g, ig_build_concat(g, slots, (int)count, 0), a->index, 0);
}

/* ---- The layer with its second term ------------------------------------------------------------------------------ */

/* The shape [outer, samples, rows of a sample, columns], without `outer` if that is 1. */
struct shape {
    ig_dim dim[4];
    int rank;
};

static struct shape shape_for(struct adding *a, struct ig_graph *g, const struct ig_type *x, ig_value old_x) {
    ig_dim one = ig_dim_const(g->dims, 1), columns = x->dim[x->rank - 1];
    ig_dim outer = one, rows = ig_dim_product(g->dims, x->dim, x->rank - 1);
    if (a->at) {
        const struct ig_rows_at *at = &a->at[old_x];
        ig_dim part = ig_dim_mul(g->dims, a->samples, at->inner);
        outer =
            ig_dim_mul(g->dims, ig_dim_product(g->dims, x->dim, at->axis), ig_dim_div(g->dims, x->dim[at->axis], part));
        rows = ig_dim_product(g->dims, x->dim + at->axis + 1, x->rank - at->axis - 2);
        rows = ig_dim_mul(g->dims, at->inner, rows);
    }
    if (outer == one) return (struct shape){{a->samples, rows, columns}, 3};
    return (struct shape){{outer, a->samples, rows, columns}, 4};
}

/* Flags by sample as flags by element. */
static ig_value spread(struct ig_graph *g, ig_value flags, const struct shape *to) {
    ig_dim dims[4], one = ig_dim_const(g->dims, 1);
    for (int i = 0; i < to->rank; i++)
        dims[i] = i == to->rank - 3 ? to->dim[i] : one;
    return ig_build_broadcast(g, ig_build_reshape(g, flags, dims, to->rank), to->dim, to->rank);
}

/*
 * The second term comes first in the graph, so that the sum joins the kernel of x W: its result is then rounded as often
 * as without adapters.
 */
static bool add_term(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct adding *a = rw->state;
    struct ig_graph *g = rw->out;
    struct layer layer;
    if (!find_layer(a, rw->in, n, &layer)) return false;
    build_input(a, g);
    const struct ig_type x = *ig_type_of(g, in[0]), y = *ig_type_of(rw->in, n->out);
    struct shape shape = shape_for(a, g, &x, n->in[0]);
    int64_t rank = a->options->adapter_rank;
    ig_value left = chosen_matrices(a, g, &layer, "A", x.dtype, rank, layer.in);
    ig_value right = chosen_matrices(a, g, &layer, "B", x.dtype, layer.out, rank);
    ig_value term = ig_build_reshape(g, in[0], shape.dim, shape.rank);
    term = ig_build_matmul(g, ig_build_matmul(g, term, left, y.dtype), right, y.dtype);
    shape.dim[shape.rank - 1] = y.dim[y.rank - 1];
    ig_value plain = ig_build_reshape(g, ig_build_copy(g, rw->in, n, in), shape.dim, shape.rank);
    ig_value sum = ig_build_where(g, spread(g, a->none, &shape), plain, ig_map2(g, IG_OP_add, plain, term));
    out_values[0] = ig_build_reshape(g, sum, y.dim, y.rank);
    return true;
}

/* ---- All of them ------------------------------------------------------------------------------------------------- */

/* The symbol that counts samples, if every layer knows whose rows it has: else all samples have one adapter. */
static void find_samples(struct adding *a, struct ig_graph *g) {
    const struct ig_rows_at *at;
    struct layer layer;
    a->samples = ig_dim_const(g->dims, 1);
    if (g->inputs.count == 0) return;
    const struct ig_type *first = ig_type_of(g, g->inputs.at[0].value);
    if (first->rank == 0 || ig_dim_look(g->dims, first->dim[0]).kind != IG_DIM_SYMBOL) return;
    if (ig_rows_find(g, first->dim[0], &at)) return;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (find_layer(a, g, n, &layer) && at[n->in[0]].axis == IG_ROWS_NONE) return;
    }
    a->at = at;
    a->samples = first->dim[0];
}

static void check(const struct adding *a, const struct ig_graph *g) {
    const struct ingot_build_options *o = a->options;
    for (uint32_t i = 0; i < g->inputs.count; i++) {
        if (g->inputs.at[i].name && strcmp(g->inputs.at[i].name, input_name) == 0)
            ig_raise(a->job, INGOT_INVALID_ARGUMENT, "the model has an input 'adapter' of its own");
    }
    for (size_t i = 0; i <= o->n_adapter_layers; i++) {
        if (a->found[i]) continue;
        const char *which = i < o->n_adapter_layers ? ig_format(a->job, " '%.200s'", o->adapter_layers[i]) : "";
        ig_raise(a->job, INGOT_INVALID_ARGUMENT,
                 "the model has no linear layer%s for adapters: a product with an initialiser of two dims", which);
    }
}

static struct ig_initializers *copy_of(struct ig_job *job, const struct ig_initializers *all) {
    struct ig_initializers *copy = ig_initializers_create(job);
    for (uint32_t i = 0; all && i < all->list.count; i++) {
        IG_PUSH(job, &copy->list, all->list.at[i]);
        ig_map_put_name(&copy->by_name, all->list.at[i]->name, i);
    }
    return copy;
}

struct ig_graph *ig_adapters_add(struct ig_graph *graph, const struct ingot_build_options *options) {
    struct adding a = {
        .job = graph->job, .graph = graph, .options = options, .index = IG_NO_VALUE, .none = IG_NO_VALUE};
    struct layer layer;
    a.found = IG_NEW_ARRAY(a.job, unsigned, options->n_adapter_layers + 1);
    for (ig_node_id id = 0; id < graph->nodes.count; id++)
        find_layer(&a, graph, &graph->nodes.at[id], &layer);
    check(&a, graph);
    find_samples(&a, graph);
    a.all = copy_of(a.job, graph->initializers);
    struct ig_graph *out = ig_rewrite(graph, NULL, add_term, &a);
    out->initializers = a.all;
    out->notes = graph->notes;
    out->n_notes = graph->n_notes;
    return out;
}
