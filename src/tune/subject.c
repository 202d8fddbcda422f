/* Extracts regions from their graphs; see subject.h. */
#include "tune/subject.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/narrow.h"
#include "base/text.h"
#include "ir/build.h"
#include "ir/eval/eval.h"
#include "kernel/lower.h"

/* ---- Sizes ------------------------------------------------------------------------------------------------------- */

struct naming {
    struct ig_job *job;
    const struct ig_sizes *sizes;
    IG_VEC(const char *) names; /* "batch=8" */
};

static void add_name(void *user, ig_dim symbol) {
    struct naming *n = user;
    long long value = (long long)ig_sizes_of(n->sizes, n->job, symbol);
    const char *name = ig_format(n->job, "%s=%lld", ig_dim_text(n->sizes->dims, symbol), value);
    for (uint32_t i = 0; i < n->names.count; i++) {
        if (strcmp(n->names.at[i], name) == 0) return;
    }
    IG_PUSH(n->job, &n->names, name);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void add_names(struct naming *n, struct ig_graph *g, ig_value v) {
    const struct ig_type *type = ig_type_of(g, v);
    for (int i = 0; i < type->rank; i++)
        ig_dim_symbols(g->dims, type->dim[i], add_name, n);
}

const char *ig_subject_shapes(struct ig_graph *graph, const struct ig_region *region, const struct ig_sizes *sizes) {
    struct naming n = {.job = graph->job, .sizes = sizes};
    struct ig_text text;
    for (uint32_t i = 0; i < region->inputs.count; i++)
        add_names(&n, graph, region->inputs.at[i]);
    for (uint32_t i = 0; i < region->outputs.count; i++)
        add_names(&n, graph, region->outputs.at[i]);
    if (n.names.count) qsort(n.names.at, n.names.count, sizeof *n.names.at, compare_names);
    ig_text_init(&text, graph->job);
    ig_text_add(&text, "");
    for (uint32_t i = 0; i < n.names.count; i++)
        ig_text_printf(&text, "%s%s", i ? ", " : "", n.names.at[i]);
    return text.at;
}

/* ---- Taking a region out ----------------------------------------------------------------------------------------- */

struct extraction {
    struct ig_subject *s;
    ig_value *map; /* of the graph's values; IG_NO_VALUE: not extracted yet */
};

static ig_dim number(const void *user, ig_dim dim) {
    const struct extraction *x = user;
    return ig_dim_const(x->s->graph->dims, ig_sizes_of(x->s->sizes, x->s->job, dim));
}

static struct ig_type static_type(const struct extraction *x, ig_value v) {
    struct ig_type type = *ig_type_of(x->s->graph, v);
    for (int i = 0; i < type.rank; i++)
        type.dim[i] = number(x, type.dim[i]);
    return type;
}

/* A literal that is an element of a graph input: its value is the given size. */
static ig_value given_size(struct extraction *x, ig_value v) {
    struct ig_graph *to = x->s->alone;
    struct ig_type type = static_type(x, v);
    const ig_dim *elements = ig_info(x->s->graph, v)->elements;
    ig_value scalar = ig_build_scalar_int(to, type.dtype, ig_sizes_of(x->s->sizes, x->s->job, elements[0]));
    return ig_build_reshape(to, scalar, type.dim, type.rank);
}

static ig_value extract(struct extraction *x, ig_value v);

static ig_value extract_node(struct extraction *x, const struct ig_node *n) {
    struct ig_graph *to = x->s->alone;
    if (n->op == IG_OP_constant) return ig_build_copy(to, x->s->graph, n, NULL);
    ig_value *in = IG_NEW_ARRAY(x->s->job, ig_value, n->n_in + 1);
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = n->in[i] == IG_NO_VALUE ? IG_NO_VALUE : extract(x, n->in[i]);
    struct ig_graph *const body[2] = {n->body[0], n->body[1]};
    return ig_build_node(to, n->op, in, n->n_in, n->n_out, ig_attrs_with_dims(x->s->job, n, number, x), body);
}

/* Extracts what v is computed from, down to the region's inputs. */
static ig_value extract(struct extraction *x, ig_value v) {
    if (x->map[v] != IG_NO_VALUE) return x->map[v];
    const struct ig_node *def = ig_def(x->s->graph, v);
    if (!def) {
        IG_ASSERT(x->s->job, ig_is_literal(x->s->graph, v));
        return x->map[v] = given_size(x, v);
    }
    struct ig_node n = *def;
    ig_value first = extract_node(x, &n);
    for (uint32_t o = 0; o < n.n_out; o++) {
        if (x->map[n.out + o] == IG_NO_VALUE) x->map[n.out + o] = first + o;
    }
    return x->map[v];
}

/* ---- Inputs ------------------------------------------------------------------------------------------------------ */

enum { MOST_EVALUATED = 1 << 20 }; /* elements of constants whose values are used */

struct filling {
    uint64_t state;
    int64_t bound; /* of indices */
};

static uint32_t random_bits(struct filling *f) {
    f->state = f->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(f->state >> 40);
}

static void fill_random(struct filling *f, const struct ingot_tensor *t, double range) {
    int64_t count = ingot_tensor_elements(t);
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = random_bits(f);
        double number = range * ((double)bits / (1 << 23) - 1);
        if (ig_dtype_is_float(t->dtype)) {
            ig_store_f64(t->dtype, t->data, i, number);
        } else if (ig_narrow_is_float(t->dtype)) { /* any byte would be NaN now and then, and so most sums */
            ((uint8_t *)t->data)[i] = ig_f64_to_narrow(t->dtype, 4 * number, true);
        } else if (t->dtype == INGOT_BOOL) {
            ig_store_i64(t->dtype, t->data, i, bits & 1);
        } else if (ingot_dtype_size(t->dtype) == 1) {
            ig_store_i64(t->dtype, t->data, i, (int64_t)(bits & 255) - (t->dtype == INGOT_I8 ? 128 : 0));
        } else {
            ig_store_i64(t->dtype, t->data, i, (int64_t)bits % f->bound);
        }
    }
}

static void fill(struct ig_subject *s, struct filling *f, ig_value v, struct ingot_tensor *t) {
    int64_t count = ingot_tensor_elements(t);
    size_t size = 0;
    if (count < 0 || !ig_size_mul((size_t)count, ingot_dtype_size(t->dtype), &size))
        ig_raise(s->job, INGOT_UNSUPPORTED, "a tensor is too large");
    t->data = ig_allocate(s->job->allocator, size + 64, 64);
    if (!t->data) ig_raise(s->job, INGOT_OUT_OF_MEMORY, "out of memory for a tensor of %zu bytes", size);
    t->memory = INGOT_HOST;
    bool is_const = ig_info(s->graph, v)->is_const;
    if (is_const && (count <= MOST_EVALUATED || !ig_dtype_is_float(t->dtype))) {
        struct ingot_tensor value = ig_const_weight(s->graph, v);
        memcpy(t->data, value.data, size);
        ig_const_release(s->graph, v, &value);
        return;
    }
    fill_random(f, t, is_const ? 0.05 : 1);
}

/* If a region gathers, its integer inputs are taken for indices into the shortest indexed axis. */
static int64_t index_bound(const struct ig_graph *g) {
    int64_t bound = INT64_MAX, size;
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        const struct ig_node *n = &g->nodes.at[i];
        bool indexes = n->op == IG_OP_gather || n->op == IG_OP_gather_elements || n->op == IG_OP_gather_nd;
        if (!indexes) continue;
        const struct ig_type *type = ig_type_of(g, n->in[0]);
        for (int k = 0; k < type->rank; k++) {
            if (ig_dim_is_const(g->dims, type->dim[k], &size) && size > 0 && size < bound) bound = size;
        }
    }
    return bound == INT64_MAX ? 5 : bound;
}

static struct ingot_tensor shape_of(const struct ig_graph *g, ig_value v) {
    const struct ig_type *type = ig_type_of(g, v);
    struct ingot_tensor t = {.dtype = type->dtype, .rank = type->rank};
    IG_ASSERT(g->job, ig_type_is_static(g->dims, type, t.dims));
    return t;
}

static void give_back(void *resource) {
    struct ig_subject *s = resource;
    for (uint32_t i = 0; i < s->n_inputs; i++) {
        if (!s->inputs[i].data) continue;
        size_t size = (size_t)ingot_tensor_elements(&s->inputs[i]) * ingot_dtype_size(s->inputs[i].dtype);
        ig_release(s->job->allocator, s->inputs[i].data, size + 64);
        s->inputs[i].data = NULL;
    }
}

void ig_subject_destroy(struct ig_subject *subject) {
    ig_undefer(subject->job, subject);
    give_back(subject);
}

struct ig_subject *ig_subject_create(struct ig_graph *graph, const struct ig_region *region,
                                     const struct ig_sizes *sizes) {
    struct ig_job *job = graph->job;
    struct ig_subject *s = IG_NEW(job, struct ig_subject);
    *s = (struct ig_subject){.job = job, .graph = graph, .region = region, .sizes = sizes};
    s->alone = ig_graph_create(job, graph->dims);
    struct extraction x = {.s = s, .map = IG_NEW_ARRAY(job, ig_value, graph->values.count + 1)};
    memset(x.map, 0xff, graph->values.count * sizeof *x.map);
    ig_value *passed = IG_NEW_ARRAY(job, ig_value, region->inputs.count + 1);
    for (uint32_t i = 0; i < region->inputs.count; i++) {
        ig_value v = region->inputs.at[i];
        if (ig_is_literal(graph, v)) continue;
        struct ig_type type = static_type(&x, v);
        x.map[v] = ig_build_input(s->alone, ig_format(job, "x%u", s->n_inputs), &type);
        passed[s->n_inputs++] = v;
    }
    s->n_outputs = region->outputs.count;
    s->inputs = IG_NEW_ARRAY(job, struct ingot_tensor, s->n_inputs + 1);
    s->outputs = IG_NEW_ARRAY(job, struct ingot_tensor, s->n_outputs + 1);
    s->is_const = IG_NEW_ARRAY(job, bool, s->n_inputs + 1);
    for (uint32_t i = 0; i < s->n_outputs; i++) {
        ig_value v = extract(&x, region->outputs.at[i]);
        ig_build_output(s->alone, ig_format(job, "y%u", i), v);
        s->outputs[i] = shape_of(s->alone, v);
    }
    ig_defer(job, give_back, s);
    struct filling f = {.state = 0x9e3779b97f4a7c15u, .bound = index_bound(s->alone)};
    for (uint32_t i = 0; i < s->n_inputs; i++) {
        s->is_const[i] = ig_info(graph, passed[i])->is_const;
        s->inputs[i] = shape_of(s->alone, s->alone->inputs.at[i].value);
        fill(s, &f, passed[i], &s->inputs[i]);
    }
    return s;
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

void ig_subject_evaluate(const struct ig_subject *s, struct ingot_tensor *out_outputs) {
    ig_eval_graph(s->job, s->alone, s->inputs, out_outputs);
}
