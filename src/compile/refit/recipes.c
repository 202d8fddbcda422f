/* Recipes as text, and back; see recipes.h. */
#include "compile/refit/recipes.h"

#include <string.h>

#include "base/hash/hash_all.h"
#include "base/map.h"
#include "base/text.h"
#include "ir/build.h"
#include "ir/text/print.h"

/* ---- Writing ---------------------------------------------------------------------------------------------------- */

struct maker {
    struct ig_job *job;
    struct ig_text recipes, names;
    struct ig_map recipe_of, name_of; /* text -> its offset */
    IG_VEC(uint32_t) sources;
    bool *used; /* by initialiser */
    /* By value of the graph of the last weight: the value in its recipe; IG_NO_VALUE: not copied yet. */
    const struct ig_graph *graph;
    ig_value *map;
    IG_VEC(ig_value) mapped;
};

struct extraction {
    struct maker *maker;
    struct ig_graph *from, *to;
    uint32_t n_sources;
};

static struct ig_initializer *replaceable(const struct ig_graph *g, const struct ig_node *n) {
    if (n->op != IG_OP_constant) return NULL;
    struct ig_initializer *record = ig_attr(g, n, IG_ATTR_data)->data->record;
    return record && !record->decided ? record : NULL;
}

/* Inputs have numbers instead of names, so that the recipes of equal layers are one text. */
static ig_value add_source(struct extraction *x, const struct ig_initializer *record, const struct ig_type *type) {
    IG_PUSH(x->maker->job, &x->maker->sources, record->index);
    x->maker->used[record->index] = true;
    return ig_build_input(x->to, ig_format(x->maker->job, "%u", x->n_sources++), type);
}

/* Structural initialisers cannot change: they are constants like those of the model's logic. */
static ig_value copy_node(struct extraction *x, const struct ig_node *n, const ig_value *in) {
    if (n->op != IG_OP_constant) return ig_build_copy(x->to, x->from, n, in);
    const struct ig_data *data = ig_attr(x->from, n, IG_ATTR_data)->data;
    struct ig_data plain = {.bytes = data->bytes, .size = data->size, .absent = data->absent};
    struct ig_attr attr = {.kind = IG_KIND_DATA, .data = &plain};
    struct ig_node copy = *n;
    copy.attr = &attr;
    return ig_build_copy(x->to, x->from, &copy, in);
}

/* Copies what v needs, depth first; recursion is bounded by the longest chain of constant nodes. */
static ig_value extract(struct extraction *x, ig_value v) {
    struct maker *m = x->maker;
    if (m->map[v] != IG_NO_VALUE) return m->map[v];
    struct ig_node n = *ig_def(x->from, v);
    ig_value *in = IG_NEW_ARRAY(x->maker->job, ig_value, n.n_in + 1);
    const struct ig_initializer *record = replaceable(x->from, &n);
    ig_value first;
    if (record) {
        struct ig_type type = *ig_type_of(x->from, v);
        first = add_source(x, record, &type);
    } else {
        for (uint32_t i = 0; i < n.n_in; i++)
            in[i] = n.in[i] == IG_NO_VALUE ? IG_NO_VALUE : extract(x, n.in[i]);
        n.origin = NULL;
        first = copy_node(x, &n, in);
    }
    for (uint32_t o = 0; o < n.n_out; o++) {
        m->map[n.out + o] = first + o;
        IG_PUSH(m->job, &m->mapped, n.out + o);
    }
    return m->map[v];
}

/* The offset of a text among those that were added before, or at their end. */
static uint32_t intern(struct maker *m, struct ig_map *map, struct ig_text *all, const char *text, size_t length) {
    uint32_t at;
    if (ig_map_get(map, text, length, &at)) return at;
    if (all->length + length >= IG_PLAN_NONE)
        ig_raise(m->job, INGOT_UNSUPPORTED, "the recipes of the weights are over 4 GiB");
    at = (uint32_t)all->length;
    ig_map_put(map, text, length, at);
    ig_text_add_n(all, text, length);
    return at;
}

static uint32_t add_name(struct maker *m, const char *name) {
    return name ? intern(m, &m->name_of, &m->names, name, strlen(name) + 1) : IG_PLAN_NONE;
}

/* Forgets what the last recipe has copied: of many small ones, each is as cheap as it is small. */
static void begin_recipe(struct maker *m, const struct ig_graph *graph) {
    if (m->graph != graph) {
        m->graph = graph;
        m->map = IG_NEW_ARRAY(m->job, ig_value, graph->values.count + 1);
        memset(m->map, 0xff, sizeof *m->map * graph->values.count);
        m->mapped.count = 0;
    }
    for (uint32_t i = 0; i < m->mapped.count; i++)
        m->map[m->mapped.at[i]] = IG_NO_VALUE;
    m->mapped.count = 0;
}

static void make_weight(struct maker *m, const struct ig_weight *w, struct ig_weight_entry *out) {
    struct extraction x = {.maker = m, .from = w->graph, .to = ig_graph_create(m->job, w->graph->dims)};
    *out = (struct ig_weight_entry){.offset = w->offset, .size = w->size, .sources = m->sources.count};
    if (!ig_info(w->graph, w->value)->is_refittable) return;
    begin_recipe(m, w->graph);
    ig_value result = extract(&x, w->value);
    out->n_sources = x.n_sources;
    if (!x.n_sources) return;
    struct ig_text text;
    ig_text_init(&text, m->job);
    ig_build_output(x.to, "weight", result);
    ig_graph_print(x.to, IG_PRINT_DATA, &text);
    out->recipe = intern(m, &m->recipe_of, &m->recipes, text.at, text.length);
    out->recipe_size = (uint32_t)text.length;
}

static struct ig_initializer_entry make_initializer(struct maker *m, const struct ig_initializer *one) {
    struct ig_initializer_entry entry = {.name = add_name(m, one->name),
                                         .alias = add_name(m, one->alias),
                                         .reason = add_name(m, one->decided),
                                         .dtype = (uint32_t)one->dtype,
                                         .rank = (uint32_t)one->rank,
                                         .is_transposed = one->is_transposed,
                                         .slot = one->slot};
    entry.kind = one->decided ? INGOT_STRUCTURAL : m->used[one->index] ? INGOT_REFITTABLE : INGOT_UNUSED;
    for (int i = 0; i < one->rank; i++)
        entry.dims[i] = one->dims[i];
    return entry;
}

static void hash_initializers(struct ig_job *job, const struct ig_initializers *all, bool stripped,
                              struct ig_initializer_entry *entries) {
    const uint32_t n = all->list.count;
    struct ig_bytes *ranges = IG_NEW_ARRAY(job, struct ig_bytes, n + 1);
    struct ig_hash128 *hashes = IG_NEW_ARRAY(job, struct ig_hash128, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const bool has_hash = entries[i].kind == INGOT_STRUCTURAL || (entries[i].kind == INGOT_REFITTABLE && !stripped);
        const struct ig_initializer *one = all->list.at[i];
        if (has_hash && one->bytes) ranges[i] = (struct ig_bytes){one->bytes, one->size};
    }
    ig_hash128_all(job, ranges, n, hashes);
    for (uint32_t i = 0; i < n; i++) {
        if (!ranges[i].data) continue;
        entries[i].hash[0] = hashes[i].low;
        entries[i].hash[1] = hashes[i].high;
    }
}

void ig_recipes_make(struct ig_job *job, const struct ig_initializers *all, const struct ig_built_plan *built,
                     bool stripped, struct ig_refit_tables *out_tables) {
    struct maker m = {.job = job};
    uint32_t n = all ? all->list.count : 0;
    struct ig_weight_entry *weights = IG_NEW_ARRAY(job, struct ig_weight_entry, built->weights.count + 1);
    struct ig_initializer_entry *initializers = IG_NEW_ARRAY(job, struct ig_initializer_entry, n + 1);
    m.used = IG_NEW_ARRAY(job, bool, n + 1);
    ig_text_init(&m.recipes, job);
    ig_text_init(&m.names, job);
    ig_map_init(&m.recipe_of, job);
    ig_map_init(&m.name_of, job);
    for (uint32_t i = 0; i < built->weights.count; i++)
        make_weight(&m, &built->weights.at[i], &weights[i]);
    for (uint32_t i = 0; i < n; i++)
        initializers[i] = make_initializer(&m, all->list.at[i]);
    if (all) hash_initializers(job, all, stripped, initializers);
    *out_tables = (struct ig_refit_tables){.n_weights = built->weights.count,
                                           .n_initializers = n,
                                           .n_sources = m.sources.count,
                                           .names_size = (uint32_t)m.names.length,
                                           .recipes_size = m.recipes.length,
                                           .weights = weights,
                                           .initializers = initializers,
                                           .sources = m.sources.at,
                                           .names = m.names.at,
                                           .recipes = m.recipes.at};
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

static _Noreturn void refuse(struct ig_job *job) {
    ig_raise(job, INGOT_BAD_ENGINE, "a recipe of the engine does not compute its weight from its sources");
}

/* Is the tensor of the type of input i? */
static bool fits(const struct ig_graph *g, uint32_t i, const struct ingot_tensor *tensor) {
    const struct ig_type *type = ig_type_of(g, g->inputs.at[i].value);
    int64_t dims[INGOT_MAX_RANK];
    if (type->dtype != tensor->dtype || type->rank != tensor->rank) return false;
    if (!ig_type_is_static(g->dims, type, dims)) return false;
    for (int k = 0; k < type->rank; k++) {
        if (dims[k] != tensor->dims[k]) return false;
    }
    return true;
}

static ig_value build_source(struct ig_graph *g, const struct ingot_tensor *tensor, uint32_t i) {
    struct ig_initializer *record = IG_NEW(g->job, struct ig_initializer);
    struct ig_data data = {.bytes = tensor->data, .initializer = ig_format(g->job, "%u", i), .record = record};
    data.size = (size_t)ingot_tensor_elements(tensor) * ingot_dtype_size(tensor->dtype);
    return ig_build_constant(g, tensor->dtype, tensor->rank, tensor->dims, &data);
}

/* The result's bytes, or UINT64_MAX. */
static uint64_t size_of(const struct ig_graph *g, ig_value v) {
    int64_t dims[INGOT_MAX_RANK];
    const struct ig_type *type = ig_type_of(g, v);
    uint64_t size = ingot_dtype_size(type->dtype);
    if (!ig_info(g, v)->is_const || !ig_type_is_static(g->dims, type, dims)) return UINT64_MAX;
    for (int i = 0; i < type->rank; i++) {
        if (__builtin_mul_overflow(size, (uint64_t)dims[i], &size)) return UINT64_MAX;
    }
    return size;
}

struct ig_weight ig_recipe_read(struct ig_job *job, const char *text, size_t length,
                                const struct ingot_tensor *initializers, uint32_t n, uint64_t size) {
    struct ig_graph *from = ig_graph_parse(job, ig_dims_create(job), text, length);
    struct ig_graph *to = ig_graph_create(job, from->dims);
    if (from->inputs.count != n || from->outputs.count != 1) refuse(job);
    ig_value *map = IG_NEW_ARRAY(job, ig_value, from->values.count + 1);
    for (uint32_t i = 0; i < n; i++) {
        if (!fits(from, i, &initializers[i])) refuse(job);
        map[from->inputs.at[i].value] = build_source(to, &initializers[i], i);
    }
    for (uint32_t i = 0; i < from->nodes.count; i++) {
        const struct ig_node *node = &from->nodes.at[i];
        ig_value *in = IG_NEW_ARRAY(job, ig_value, node->n_in + 1);
        for (uint32_t k = 0; k < node->n_in; k++)
            in[k] = node->in[k] == IG_NO_VALUE ? IG_NO_VALUE : map[node->in[k]];
        ig_value first = ig_build_copy(to, from, node, in);
        for (uint32_t o = 0; o < node->n_out; o++)
            map[node->out + o] = first + o;
    }
    struct ig_weight weight = {.graph = to, .value = map[from->outputs.at[0].value], .size = size};
    if (size_of(to, weight.value) != size) refuse(job);
    return weight;
}
