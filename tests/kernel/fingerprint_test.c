/*
 * Fingerprints of regions: random small networks, the same under other names, with their nodes in another order and
 * other weights, and with one change. Twins have equal fingerprints. Regions with equal fingerprints, of a network and of
 * what it was changed to, are shown to be equal by evaluation: their inputs and outputs correspond by position, as they
 * do when they share a kernel. A change that must change the meaning changes the fingerprints.
 *
 * fingerprint_test [NETWORKS [SEED]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash/hash.h"
#include "base/memory.h"
#include "ir/build.h"
#include "ir/eval/eval.h"
#include "kernel/kernel.h"
#include "pass/fuse/regions.h"
#include "support/support.h"
#include "tune/subject.h"

static long networks = 3000;
static uint64_t seed = 1;

static uint32_t pick(uint64_t *state, uint32_t count) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % count);
}

/* ---- Networks ---------------------------------------------------------------------------------------------------- */

enum kind { UNARY, BINARY, LITERAL, ROW, PRODUCT, BIAS, SWAP, SLICE, PAD, ROUND, SELECT, KINDS };
enum { MOST_INPUTS = 3, MOST_NODES = 9, MOST_VALUES = MOST_INPUTS + MOST_NODES, SYMBOLS = 2 };

/* A node: operands are numbers of values, inputs first. */
struct node {
    enum kind kind;
    uint32_t a, b;
    uint32_t op;     /* which of the kind's operators */
    uint32_t choice; /* literal, axis or start */
};

struct network {
    uint32_t n_inputs, n_nodes;
    uint32_t rows[MOST_INPUTS]; /* first dim: a symbol, or SYMBOLS: 3 */
    int64_t width[MOST_INPUTS];
    struct node nodes[MOST_NODES];
    int64_t hi[SYMBOLS], usual[SYMBOLS];
    bool narrow; /* f16 */
    uint32_t target;
    uint32_t more; /* a value that is also an output; 0: none */
    bool weights_are_inputs;
};

/* How a network is written down. */
struct writing {
    uint64_t order; /* seed of the order of nodes */
    const char *names[SYMBOLS];
    const char *prefix;
    uint64_t weights;
};

static const enum ig_op unary[] = {IG_OP_neg, IG_OP_abs, IG_OP_exp, IG_OP_tanh, IG_OP_sigmoid, IG_OP_floor};
static const enum ig_op binary[] = {IG_OP_add, IG_OP_sub, IG_OP_mul, IG_OP_max, IG_OP_div};
static const enum ig_op rows[] = {IG_OP_reduce_sum, IG_OP_reduce_max, IG_OP_reduce_mean};
static const double literals[] = {0.5, 3, -0.25, 0.75, 5};
#define COUNT(list) ((uint32_t)(sizeof(list) / sizeof *(list)))

static uint32_t n_ops(enum kind kind) {
    switch (kind) {
    case UNARY: return COUNT(unary);
    case BINARY:
    case LITERAL:
    case BIAS: return COUNT(binary);
    case ROW: return COUNT(rows);
    default: return 1;
    }
}

static uint32_t n_choices(enum kind kind) {
    return kind == LITERAL || kind == SELECT ? COUNT(literals) : kind == ROW || kind == SLICE || kind == PAD ? 2 : 1;
}

static struct node random_node(uint64_t *state, uint32_t n_values) {
    struct node n = {.kind = (enum kind)pick(state, KINDS)};
    n.a = pick(state, 2) ? n_values - 1 : pick(state, n_values);
    n.b = n.kind == BINARY ? pick(state, n_values) : 0;
    n.op = pick(state, n_ops(n.kind));
    n.choice = pick(state, n_choices(n.kind));
    return n;
}

/* Equal nodes would be one, named after whichever comes first. */
static bool has_twins(const struct network *w) {
    for (uint32_t i = 0; i < w->n_nodes; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (memcmp(&w->nodes[i], &w->nodes[k], sizeof w->nodes[i]) == 0) return true;
        }
    }
    return false;
}

static void make_network(struct network *w, uint64_t *state) {
    do {
        memset(w, 0, sizeof *w);
        w->n_inputs = 1 + pick(state, MOST_INPUTS);
        for (uint32_t i = 0; i < w->n_inputs; i++) {
            w->rows[i] = pick(state, SYMBOLS + 1);
            w->width[i] = pick(state, 4) ? 6 : 4;
        }
        w->n_nodes = 1 + pick(state, MOST_NODES);
        for (uint32_t i = 0; i < w->n_nodes; i++)
            w->nodes[i] = random_node(state, w->n_inputs + i);
        for (int i = 0; i < SYMBOLS; i++) {
            w->hi[i] = pick(state, 2) ? 8 : 9;
            w->usual[i] = pick(state, 2) ? 2 : 5;
        }
        w->target = pick(state, 2);
        w->more = pick(state, 3) ? 0 : pick(state, w->n_inputs + w->n_nodes);
        if (w->more < w->n_inputs) w->more = 0;
    } while (has_twins(w));
}

/* ---- Graphs ------------------------------------------------------------------------------------------------------ */

struct making {
    const struct network *w;
    const struct writing *how;
    struct ig_graph *g;
    enum ingot_dtype dtype;
    ig_value values[MOST_VALUES];
    bool made[MOST_VALUES], used[MOST_VALUES];
};

static ig_value weights(struct making *m, uint32_t node, int rank, const int64_t *dims) {
    uint64_t state = m->how->weights + node;
    int64_t count = rank == 1 ? dims[0] : dims[0] * dims[1];
    const char *name = ig_format(m->g->job, "%sw%u", m->how->prefix, node);
    if (m->w->weights_are_inputs) {
        ig_dim sizes[2] = {ig_dim_const(m->g->dims, dims[0]), ig_dim_const(m->g->dims, rank > 1 ? dims[1] : 1)};
        struct ig_type type = ig_type_make(m->dtype, rank, sizes);
        return ig_build_input(m->g, name, &type);
    }
    size_t size = ingot_dtype_size(m->dtype);
    void *numbers = ig_alloc(m->g->job, (size_t)count * size);
    for (int64_t i = 0; i < count; i++)
        ig_store_f64(m->dtype, numbers, i, (double)pick(&state, 64) / 32 - 1);
    struct ig_data data = {.bytes = numbers, .size = (size_t)count * size, .initializer = name};
    return ig_build_constant(m->g, m->dtype, rank, dims, &data);
}

static ig_value literal(struct making *m, uint32_t choice) {
    return ig_build_scalar(m->g, m->dtype, literals[choice]);
}

static ig_value make_row(struct making *m, const struct node *n, ig_value a) {
    const int64_t axis = 1 + n->choice;
    return ig_map2(m->g, IG_OP_sub, a, ig_build_reduce(m->g, rows[n->op], a, &axis, 1));
}

static ig_value make_slice(struct making *m, const struct node *n, ig_value a, int64_t width) {
    if (width < 2) return ig_map1(m->g, IG_OP_sqrt, a);
    struct ig_dims *d = m->g->dims;
    return ig_build_slice_axis(m->g, a, 2, ig_dim_const(d, n->choice), ig_dim_const(d, width - 1), 1);
}

static ig_value make_pad(struct making *m, const struct node *n, ig_value a) {
    ig_dim none = ig_dim_const(m->g->dims, 0), one = ig_dim_const(m->g->dims, 1);
    ig_dim before[3] = {none, none, n->choice ? one : none}, after[3] = {none, none, n->choice ? none : one};
    return ig_build_pad(m->g, a, before, after, IG_PAD_CONSTANT, IG_NO_VALUE);
}

static ig_value make_node(struct making *m, uint32_t i) {
    static const int64_t swapped[3] = {0, 2, 1};
    const struct node *n = &m->w->nodes[i];
    struct ig_graph *g = m->g;
    ig_value a = m->values[n->a], b = m->values[n->b];
    const struct ig_type type = *ig_type_of(g, a), other = *ig_type_of(g, b);
    int64_t width = 0, dims[2];
    ig_dim_is_const(g->dims, type.dim[2], &width);
    dims[0] = dims[1] = width;
    /* A weight of one element is a literal: its value is part of the kernel. */
    if (width == 1 && (n->kind == PRODUCT || n->kind == BIAS)) return ig_map1(g, unary[n->op], a);
    switch (n->kind) {
    case UNARY: return ig_map1(g, unary[n->op], a);
    case BINARY:
        if (!ig_type_same(&type, &other)) return ig_map2(g, binary[n->op], a, literal(m, 0));
        m->used[n->b] = true;
        return ig_map2(g, binary[n->op], a, b);
    case LITERAL: return ig_map2(g, binary[n->op], a, literal(m, n->choice));
    case ROW: return make_row(m, n, a);
    case PRODUCT: return ig_build_cast(g, ig_build_matmul(g, a, weights(m, i, 2, dims), INGOT_F32), m->dtype);
    case BIAS: return ig_map2(g, binary[n->op], a, weights(m, i, 1, dims));
    case SWAP: return ig_build_transpose(g, a, swapped);
    case SLICE: return make_slice(m, n, a, width);
    case PAD: return make_pad(m, n, a);
    case ROUND: return ig_build_cast(g, ig_build_cast(g, a, m->dtype == INGOT_F32 ? INGOT_F16 : INGOT_BF16), m->dtype);
    case SELECT: {
        ig_value limit = literal(m, n->choice);
        return ig_build_where(g, ig_map2(g, IG_OP_lt, a, limit), limit, a);
    }
    case KINDS: break;
    }
    return a;
}

static void make_input(struct making *m, uint32_t i) {
    struct ig_dims *d = m->g->dims;
    const struct network *w = m->w;
    ig_dim dims[3] = {ig_dim_const(d, 3), ig_dim_const(d, 4), ig_dim_const(d, w->width[i])};
    if (w->rows[i] < SYMBOLS) dims[0] = ig_dim_symbol(d, m->how->names[w->rows[i]]);
    struct ig_type type = ig_type_make(m->dtype, 3, dims);
    m->values[i] = ig_build_input(m->g, ig_format(m->g->job, "%s%u", m->how->prefix, i), &type);
}

/* Operands are values of the network, so that operands of operands come first. */
static bool is_ready(const struct making *m, uint32_t i) {
    return m->made[m->w->nodes[i].a] && m->made[m->w->nodes[i].b];
}

static struct ig_graph *make_graph(struct ig_job *job, const struct network *w, const struct writing *how) {
    struct ig_dims *dims = ig_dims_create(job);
    struct making m = {.w = w, .how = how, .g = ig_graph_create(job, dims)};
    uint64_t state = how->order;
    m.dtype = w->narrow ? INGOT_F16 : INGOT_F32;
    for (int i = 0; i < SYMBOLS; i++) {
        ig_dim symbol = ig_dim_symbol(dims, how->names[i]);
        ig_dim_set_range(dims, symbol, 1, w->hi[i]);
        ig_dim_set_usual(dims, symbol, w->usual[i]);
    }
    for (uint32_t left = w->n_inputs; left > 0; left--) {
        uint32_t i = pick(&state, w->n_inputs);
        while (m.made[i])
            i = (i + 1) % w->n_inputs;
        make_input(&m, i);
        m.made[i] = true;
    }
    for (uint32_t left = w->n_nodes; left > 0; left--) {
        uint32_t i = how->order ? pick(&state, w->n_nodes) : 0;
        while (m.made[w->n_inputs + i] || !is_ready(&m, i))
            i = (i + 1) % w->n_nodes;
        ig_build_origin(m.g, ig_format(job, "%s %u", how->prefix, i));
        m.values[w->n_inputs + i] = make_node(&m, i);
        m.made[w->n_inputs + i] = m.used[w->nodes[i].a] = true;
    }
    for (uint32_t i = w->n_inputs; i < w->n_inputs + w->n_nodes; i++) {
        if (!m.used[i] || i == w->more) ig_build_output(m.g, ig_format(job, "%sy%u", how->prefix, i), m.values[i]);
    }
    return m.g;
}

/* ---- Regions ----------------------------------------------------------------------------------------------------- */

static const struct ig_target targets[] = {
    {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16},
    {.isa = IG_ISA_CUDA, .vector_bytes = 64, .vector_registers = 32, .sm = 90, .sm_own = true},
    {.isa = IG_ISA_X86_64_V4, .vector_bytes = 64, .vector_registers = 32},
};

struct divided {
    struct ig_graph *g;
    IG_VEC(const char *) texts;     /* by region */
    IG_VEC(const char *) divisions; /* the nodes in each, sorted; all in order */
};

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The nodes of the network that a region is made of, and how many of the graph each is. */
static const char *nodes_of(struct ig_graph *g, const struct ig_region *region) {
    struct ig_text text;
    int parts[MOST_NODES] = {0};
    ig_text_init(&text, g->job);
    ig_text_add(&text, "");
    for (uint32_t i = 0; i < region->nodes.count; i++) {
        const char *origin = g->nodes.at[region->nodes.at[i]].origin;
        if (origin) parts[atoi(strchr(origin, ' ') + 1)]++;
    }
    for (int i = 0; i < MOST_NODES; i++)
        if (parts[i]) ig_text_printf(&text, "%d:%d ", i, parts[i]);
    return text.at;
}

static struct divided divide(struct ig_job *job, const struct network *w, const struct writing *how) {
    struct ig_pass_options options = {.target = &targets[w->target]};
    struct divided d = {.g = ig_pass_fuse(make_graph(job, w, how), &options)};
    for (uint32_t r = 0; r < d.g->regions.count; r++) {
        IG_PUSH(job, &d.texts, ig_region_fingerprint(d.g, &d.g->regions.at[r], options.target).text);
        IG_PUSH(job, &d.divisions, nodes_of(d.g, &d.g->regions.at[r]));
    }
    if (d.divisions.count) qsort(d.divisions.at, d.divisions.count, sizeof *d.divisions.at, compare_texts);
    return d;
}

static const char **sorted_texts(struct ig_job *job, const struct divided *d) {
    const char **texts = ig_memdup(job, d->texts.at, d->texts.count * sizeof *texts);
    if (d->texts.count) qsort(texts, d->texts.count, sizeof *texts, compare_texts);
    return texts;
}

static bool same_texts(const char *const *a, uint32_t n_a, const char *const *b, uint32_t n_b) {
    for (uint32_t i = 0; n_a == n_b && i < n_a; i++) {
        if (strcmp(a[i], b[i]) != 0) return false;
    }
    return n_a == n_b;
}

static bool agree(struct ig_job *job, const struct divided *a, const struct divided *b) {
    return same_texts(sorted_texts(job, a), a->texts.count, sorted_texts(job, b), b->texts.count);
}

/* ---- Evaluation -------------------------------------------------------------------------------------------------- */

/* A region's results for inputs that depend on their positions alone. */
static struct ig_subject *compute(struct ig_graph *g, uint32_t region, struct ingot_tensor *out) {
    struct ig_sizes *sizes = IG_NEW(g->job, struct ig_sizes);
    ig_sizes_usual(g->dims, g->job, sizes);
    struct ig_subject *s = ig_subject_create(g, &g->regions.at[region], sizes);
    for (uint32_t i = 0; i < s->n_inputs; i++) {
        uint64_t state = i + 1;
        int64_t count = ingot_tensor_elements(&s->inputs[i]);
        for (int64_t k = 0; k < count; k++)
            ig_store_f64(s->inputs[i].dtype, s->inputs[i].data, k, (double)pick(&state, 4096) / 1024 - 2);
    }
    ig_subject_evaluate(s, out);
    return s;
}

static void expect_same_values(const struct ingot_tensor *a, const struct ingot_tensor *b) {
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->rank, b->rank);
    for (int i = 0; i < a->rank; i++)
        assert_int_equal(a->dims[i], b->dims[i]);
    size_t size = (size_t)ingot_tensor_elements(a) * ingot_dtype_size(a->dtype);
    assert_memory_equal(a->data, b->data, size);
}

static void expect_same_results(struct ig_graph *a, uint32_t i, struct ig_graph *b, uint32_t k) {
    enum { MOST_OUTPUTS = 16 };
    struct ingot_tensor x[MOST_OUTPUTS], y[MOST_OUTPUTS];
    assert_true(a->regions.at[i].outputs.count <= MOST_OUTPUTS);
    struct ig_subject *s = compute(a, i, x), *t = compute(b, k, y);
    assert_int_equal(s->n_inputs, t->n_inputs);
    assert_int_equal(s->n_outputs, t->n_outputs);
    for (uint32_t o = 0; o < s->n_inputs; o++)
        expect_same_values(&s->inputs[o], &t->inputs[o]);
    for (uint32_t o = 0; o < s->n_outputs; o++) {
        expect_same_values(&x[o], &y[o]);
        ig_eval_release(s->job, &x[o]);
        ig_eval_release(t->job, &y[o]);
    }
    ig_subject_destroy(t);
    ig_subject_destroy(s);
}

static uint32_t evaluated;

/* Regions that would share a kernel compute the same. */
static void expect_equal_meanings(const struct divided *a, const struct divided *b) {
    for (uint32_t i = 0; i < a->texts.count; i++) {
        for (uint32_t k = 0; k < b->texts.count; k++) {
            if (strcmp(a->texts.at[i], b->texts.at[k]) != 0) continue;
            expect_same_results(a->g, i, b->g, k);
            evaluated++;
            break;
        }
    }
}

/* ---- Changes ----------------------------------------------------------------------------------------------------- */

/* Makes one change. True: it must change the fingerprints; else the regions may stay the same, differently connected,
 * or the change means nothing here. */
static bool change(struct network *w, uint64_t *state) {
    struct node *n = &w->nodes[pick(state, w->n_nodes)];
    uint32_t i = (uint32_t)(n - w->nodes), which = pick(state, 9);
    switch (which) {
    case 0: n->op = (n->op + 1) % n_ops(n->kind); return n_ops(n->kind) > 1;
    case 1: n->choice = (n->choice + 1) % n_choices(n->kind); return n_choices(n->kind) > 1 && n->kind != SLICE;
    case 2: n->a = pick(state, w->n_inputs + i); return false;
    case 3: n->b = n->kind == BINARY ? pick(state, w->n_inputs + i) : n->b; return false;
    case 4: w->narrow = true; return true;
    case 5: w->target = 2 - w->target; return w->target != 1;
    case 6: w->hi[pick(state, SYMBOLS)] += 3; return false;
    case 7: w->weights_are_inputs = true; return false;
    default: *n = random_node(state, w->n_inputs + i); return false;
    }
}

struct trial {
    uint64_t state;
    bool divided_otherwise, changed;
    uint32_t n_regions;
};

static void try_network(struct ig_job *job, void *argument) {
    struct trial *t = argument;
    struct network w, other;
    const struct writing plain = {0, {"batch", "length"}, "x", 7};
    const struct writing renamed = {.order = 1 + pick(&t->state, 1000000),
                                    .names = {pick(&t->state, 2) ? "z" : "a b", "n"},
                                    .prefix = "another",
                                    .weights = 8};
    make_network(&w, &t->state);
    struct divided a = divide(job, &w, &plain), b = divide(job, &w, &renamed);
    t->n_regions = a.texts.count;
    t->divided_otherwise = !same_texts(a.divisions.at, a.divisions.count, b.divisions.at, b.divisions.count);
    if (!t->divided_otherwise && !agree(job, &a, &b)) {
        const char **x = sorted_texts(job, &a), **y = sorted_texts(job, &b);
        for (uint32_t i = 0; i < a.texts.count && i < b.texts.count; i++)
            if (strcmp(x[i], y[i]) != 0) print_error("---- one\n%s---- its twin\n%s", x[i], y[i]);
        fail_msg("the fingerprints of twins differ");
    }
    expect_equal_meanings(&a, &b);
    other = w;
    bool must = change(&other, &t->state);
    if (has_twins(&other)) return;
    struct divided c = divide(job, &other, &plain);
    t->changed = !agree(job, &a, &c);
    if (must && !t->changed) {
        for (uint32_t i = 0; i < a.texts.count; i++)
            print_error("----\n%s", a.texts.at[i]);
        fail_msg("the change of a network did not change its fingerprints");
    }
    expect_equal_meanings(&a, &c);
}

static void test_random_networks(void **state) {
    uint64_t numbers = seed;
    long otherwise = 0, changed = 0, regions = 0;
    for (long i = 0; i < networks; i++) {
        struct ig_job job;
        struct ingot_error error = {0};
        struct trial t = {.state = numbers};
        pick(&numbers, 2);
        ig_job_init(&job, &ig_libc_allocator);
        if (ig_job_run(&job, try_network, &t, &error)) fail_msg("network %ld: %s", i, error.message);
        ig_job_deinit(&job);
        otherwise += t.divided_otherwise;
        changed += t.changed;
        regions += t.n_regions;
    }
    printf("%ld networks of %ld regions, %ld twins divided otherwise, %ld changed, %u pairs evaluated\n", networks,
           regions, otherwise, changed, evaluated);
    assert_true(otherwise < networks / 4 && changed > networks / 3);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_networks)};
    if (argc > 1) networks = atol(argv[1]);
    if (argc > 2) seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
