/*
 * An all-reduce and the rows behind it as one kernel of two to four emulated GPUs: residual and norm, of rows of many lengths and
 * types. The sum is compared with a plain one, bit by bit; what follows from it with the reference evaluator; and all ranks'
 * results with each other. Plain all-reduces come in between, through the same windows. Some rows are pushed, by a kernel in the
 * place of the product.
 */
#include "support/support.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/exchange.h"
#include "codegen/cuda/print.h"
#include "compile/estimates.h"
#include "ir/build.h"
#include "ir/canonical.h"
#include "ir/eval/eval.h"
#include "ir/part.h"
#include "kernel/cuda/exchange.h"
#include "support/check/kernel_cases.h"
#include "support/check/passes.h"
#include "support/device/exchange.h"
#include "support/dist/plain.h"

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

static const struct ig_target gpu = {.isa = IG_ISA_CUDA, .vector_bytes = 64, .vector_registers = 32, .sm = 90};

/* ---- Networks ---------------------------------------------------------------------------------------------------- */

enum {
    RESIDUAL = 1,
    CENTRED = 2,
    BIAS = 4,
    READ = 8 /* the sum, by others */,
    FOLDED = 16 /* seen as [1,rows,n] */,
    HIDDEN = 32,
    PUSHED = 64
};

struct network {
    enum ingot_dtype dtype;
    int64_t n; /* elements of a row */
    uint32_t ranks;
    unsigned how;
    /* What follows is filled when it is compiled. */
    char name[24];
    struct ig_graph *divided, *rest;
    const struct ig_region *joined;
    const struct ig_kernel *kernel, *push; /* NULL: rows are not pushed */
    char push_name[24];
};
static struct network networks[] = {
    {.dtype = INGOT_F16, .n = 4096, .ranks = 2, .how = RESIDUAL | HIDDEN},
    {.dtype = INGOT_F16, .n = 4096, .ranks = 3, .how = RESIDUAL | HIDDEN | CENTRED | BIAS},
    {.dtype = INGOT_F16, .n = 5000, .ranks = 2, .how = RESIDUAL | HIDDEN | READ},
    {.dtype = INGOT_F16, .n = 33, .ranks = 2, .how = RESIDUAL | HIDDEN | FOLDED},
    {.dtype = INGOT_F16, .n = 7, .ranks = 4, .how = CENTRED | READ},
    {.dtype = INGOT_F16, .n = 2, .ranks = 2, .how = RESIDUAL},
    {.dtype = INGOT_F16, .n = 16384, .ranks = 2, .how = RESIDUAL | HIDDEN},
    {.dtype = INGOT_BF16, .n = 4096, .ranks = 2, .how = RESIDUAL | HIDDEN | READ | FOLDED},
    {.dtype = INGOT_BF16, .n = 768, .ranks = 4, .how = RESIDUAL | CENTRED | BIAS},
    {.dtype = INGOT_BF16, .n = 33, .ranks = 3, .how = BIAS | READ},
    {.dtype = INGOT_F32, .n = 4096, .ranks = 2, .how = RESIDUAL | HIDDEN | READ},
    {.dtype = INGOT_F32, .n = 5000, .ranks = 3, .how = CENTRED | BIAS | RESIDUAL | FOLDED},
    {.dtype = INGOT_F32, .n = 7, .ranks = 2, .how = READ | RESIDUAL | HIDDEN},
    {.dtype = INGOT_F32, .n = 1000, .ranks = 4, .how = CENTRED | RESIDUAL | READ},
    {.dtype = INGOT_F16, .n = 4096, .ranks = 2, .how = RESIDUAL | HIDDEN | PUSHED},
    {.dtype = INGOT_F16, .n = 36, .ranks = 2, .how = RESIDUAL | READ | PUSHED},
    {.dtype = INGOT_BF16, .n = 772, .ranks = 3, .how = CENTRED | BIAS | READ | FOLDED | PUSHED},
    {.dtype = INGOT_F32, .n = 1002, .ranks = 4, .how = HIDDEN | RESIDUAL | PUSHED},
};

static ig_dim size(struct ig_graph *g, int64_t n) {
    return ig_dim_const(g->dims, n);
}

static struct ig_type type_of(struct ig_graph *g, const struct network *w, ig_dim rows) {
    ig_dim dims[3] = {size(g, 1), rows, size(g, w->n)};
    return w->how & FOLDED ? ig_type_make(w->dtype, 3, dims) : ig_type_make(w->dtype, 2, dims + 1);
}

static ig_value weight(struct ig_graph *g, const struct network *w, uint32_t seed) {
    const int64_t dims[] = {1, 1, w->n};
    const int rank = w->how & FOLDED ? 3 : 2;
    return ig_build_cast(g, random_constant(g, w->dtype, rank, dims + 3 - rank, seed), INGOT_F32);
}

static ig_value mean(struct ig_graph *g, const struct network *w, ig_value x) {
    const int64_t axis = w->how & FOLDED ? 2 : 1;
    return ig_build_reduce(g, IG_OP_reduce_mean, x, &axis, 1);
}

/* All of it, or what comes behind the sum, which is the first input then. */
static void build(struct ig_graph *g, const struct network *w, bool all) {
    ig_dim rows = ig_dim_symbol(g->dims, "rows"), flat[2] = {rows, size(g, w->n)};
    const struct ig_type type = ig_type_make(w->dtype, 2, flat), seen = type_of(g, w, rows);
    ig_value x = ig_build_input(g, "x", &type), sum = x;
    if (all) sum = ig_build_all_reduce(g, ig_map1(g, IG_OP_neg, x), 0, (int)w->ranks, IG_REDUCE_SUM);
    ig_value hidden = ig_build_reshape(g, sum, seen.dim, seen.rank);
    hidden = ig_build_cast(g, hidden, INGOT_F32);
    if (w->how & RESIDUAL)
        hidden = ig_map2(g, IG_OP_add, hidden, ig_build_cast(g, ig_build_input(g, "residual", &seen), INGOT_F32));
    if (w->how & HIDDEN) ig_build_output(g, "hidden", ig_build_cast(g, hidden, w->dtype));
    if (w->how & CENTRED) hidden = ig_map2(g, IG_OP_sub, hidden, mean(g, w, hidden));
    ig_value square = mean(g, w, ig_map2(g, IG_OP_mul, hidden, hidden));
    square = ig_map2(g, IG_OP_add, square, ig_build_scalar(g, INGOT_F32, 1e-5));
    ig_value norm = ig_map2(g, IG_OP_div, hidden, ig_map1(g, IG_OP_sqrt, square));
    norm = ig_map2(g, IG_OP_mul, norm, weight(g, w, 1));
    if (w->how & BIAS) norm = ig_map2(g, IG_OP_add, norm, weight(g, w, 2));
    ig_build_output(g, "norm", ig_build_cast(g, norm, w->dtype));
    if (w->how & READ) ig_build_output(g, "sum", sum);
}

static struct ig_graph *new_graph(struct ig_job *job, const struct network *w, bool all) {
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    build(g, w, all);
    return g;
}

/* Sends rows as products do: each block a row, in tiles of 64 columns. */
static const char *make_push(struct ig_job *job, struct network *w) {
    const struct ig_cuda_exchange e = {.kind = IG_ALL_REDUCE,
                                       .reduction = IG_REDUCE_SUM,
                                       .dtype = w->dtype,
                                       .ranks = w->ranks,
                                       .early = true,
                                       .row = w->n};
    struct ig_kernel *kernel = IG_NEW(job, struct ig_kernel);
    struct ig_text text;
    kernel->threads = 64;
    kernel->shared_bytes = 64 * 4;
    w->push = kernel;
    snprintf(w->push_name, sizeof w->push_name, "push_%s", w->name);
    ig_text_init(&text, job);
    ig_text_add(&text, "enum { THREADS = 64 };\n");
    ig_cuda_push(&e, &text);
    ig_text_printf(
        &text,
        "extern \"C\" __global__ void __launch_bounds__(64)\n"
        "%s(const exchange::element *x, void *seat, long long tiles, char *scratch) {\n"
        "    extern __shared__ __align__(1024) char ig_shared[];\n"
        "    float *const tile = (float *)ig_shared;\n"
        "    exchange::push push;\n"
        "    push.begin(seat);\n"
        "    for (int first = 0; first < exchange::ROW; first += 64) {\n"
        "        const int column = first + (int)threadIdx.x;\n"
        "        __syncthreads();\n"
        "        if (column < exchange::ROW)\n"
        "            tile[threadIdx.x] = exchange::widen(x[(long long)blockIdx.x * exchange::ROW + column]);\n"
        "        push.send<1, 64, 64>(tile, blockIdx.x, tiles, first);\n"
        "    }\n"
        "}\n",
        w->push_name);
    return text.at;
}

static const char *make(struct ig_job *job, struct network *w) {
    const struct ig_pass_options options = {.target = &gpu, .estimator = ig_estimates_open(job, &gpu)};
    struct ig_graph *g = passes_named(new_graph(job, w, true), "fuse", &options);
    for (uint32_t r = 0; r < g->regions.count; r++)
        if (g->regions.at[r].joined) w->joined = g->regions.at[r].joined;
    if (!w->joined) ig_raise(job, INGOT_INTERNAL, "network %s is two kernels", w->name);
    if (w->how & PUSHED) {
        struct ig_region *pushed = ig_memdup(job, w->joined, sizeof *pushed);
        pushed->pushed = (int)w->ranks;
        w->joined = pushed;
    }
    w->divided = g;
    w->rest = new_graph(job, w, false);
    w->kernel = ig_kernel_make(g, w->joined, &gpu);
    return ig_cuda_kernel(job, w->kernel, w->name, &gpu);
}

/* ---- Plain all-reduces ------------------------------------------------------------------------------------------- */

static struct exchange_kernel plain[EXCHANGE_RANKS + 1];

static const char *make_plain(struct ig_job *job, uint32_t ranks) {
    struct exchange_kernel *k = &plain[ranks];
    *k = (struct exchange_kernel){.what = {IG_ALL_REDUCE, INGOT_I32, IG_REDUCE_SUM, 0}, .ranks = ranks};
    snprintf(k->name, sizeof k->name, "plain_%u", ranks);
    return exchange_text(job, k, 0, k->name);
}

static const char *reduce_plainly(struct exchange_rank *r, size_t count) {
    int32_t from[5000] = {0}, to[5000] = {0};
    const struct exchange_call call = {.kernel = &plain[r->ranks], .number = 7, .sizes = {.outer = 1, .inner = count}};
    for (size_t i = 0; i < count; i++)
        from[i] = (int32_t)(i * (r->rank + 1));
    const char *wrong = exchange_launch(r, &call, from, to);
    for (size_t i = 0; i < count && !wrong; i++)
        if (to[i] != (int32_t)(i * r->ranks * (r->ranks + 1) / 2)) wrong = "a wrong sum of plain numbers";
    return wrong;
}

/* ---- Runs -------------------------------------------------------------------------------------------------------- */

static struct ig_job *the_job;

/* A run's numbers. */
struct trial {
    const struct network *w;
    int64_t rows;
    bool hostile;
    void *sources[EXCHANGE_RANKS], *sum, *residual;
    struct ingot_tensor expected[3];
    void *results[EXCHANGE_RANKS][3]; /* by output of the network */
    struct exchange_run runs[EXCHANGE_RANKS], pushes[EXCHANGE_RANKS];
};

static size_t bytes_of(const struct trial *t) {
    return (size_t)(t->rows * t->w->n) * ingot_dtype_size(t->w->dtype);
}

static void fill(const struct trial *t, void *to, uint32_t seed) {
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (int64_t i = 0; i < t->rows * t->w->n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        ig_store_f64(t->w->dtype, to, i, (double)(int32_t)(state >> 32) / 0x40000000);
    }
}

/* Some rows have a number that is none, or no end. */
static void poison(const struct trial *t) {
    const int64_t n = t->w->n;
    if (t->rows > 1) ig_store_f64(t->w->dtype, t->sources[1], 2 * n - 1, NAN);
    if (t->rows > 2) ig_store_f64(t->w->dtype, t->sources[0], 2 * n, INFINITY);
}

/* A size of the kernel's. */
static int64_t eval(const struct trial *t, ig_dim dim) {
    struct ig_dims *dims = t->w->divided->dims;
    const ig_dim symbols[] = {ig_exchange_number(dims), ig_dim_symbol(dims, "rows")};
    const int64_t values[] = {3, t->rows};
    int64_t value;
    return ig_dim_eval(dims, dim, symbols, values, 2, &value) ? value : -1;
}

/* The number of the network's output that a region stores. */
static uint32_t output_of(const struct network *w, ig_value v) {
    uint32_t o = 0;
    while (ig_part_base(w->divided, w->divided->outputs.at[o].value) != v)
        o++;
    return o;
}

/* Each rank's part of it. The compiler's objects are one thread's, ranks are several. */
static void prepare_runs(struct trial *t) {
    const struct network *w = t->w;
    struct ig_graph *g = w->divided;
    const ig_value source = g->nodes.at[w->joined->anchor].in[0];
    struct exchange_run run = {.name = w->name, .kernel = w->kernel, .tiles = eval(t, w->kernel->tiles)};
    uint32_t own = 0;
    for (uint32_t i = 0; i < w->joined->inputs.count; i++) {
        ig_value v = w->joined->inputs.at[i];
        if (ig_is_literal(g, v)) continue;
        const uint32_t k = run.n_tensors++;
        if (v == source) own = k;
        run.tensors[k] = t->residual;
        run.sizes[k] = bytes_of(t);
        if (!ig_info(g, v)->is_const) continue;
        const struct ingot_tensor weight = ig_const_weight(g, v);
        run.tensors[k] = weight.data;
        run.sizes[k] = (size_t)w->n * ingot_dtype_size(weight.dtype);
    }
    run.n_inputs = run.n_tensors;
    run.n_tensors += w->joined->outputs.count;
    for (uint32_t i = 0; i < w->kernel->dims.count; i++)
        run.dims[i] = eval(t, w->kernel->dims.at[i]);
    for (uint32_t r = 0; r < w->ranks; r++) {
        t->runs[r] = run;
        t->runs[r].tensors[own] = t->sources[r];
        t->pushes[r] = (struct exchange_run){.name = w->push_name,
                                             .kernel = w->push,
                                             .tensors = {t->sources[r]},
                                             .sizes = {bytes_of(t)},
                                             .n_inputs = 1,
                                             .n_tensors = 1,
                                             .tiles = t->rows};
        for (uint32_t i = 0; i < w->joined->outputs.count; i++) {
            t->runs[r].tensors[run.n_inputs + i] = t->results[r][output_of(w, w->joined->outputs.at[i])];
            t->runs[r].sizes[run.n_inputs + i] = bytes_of(t);
        }
    }
}

static void prepare(struct trial *t) {
    const struct network *w = t->w;
    const struct ig_collective what = {IG_ALL_REDUCE, (uint32_t)w->dtype, IG_REDUCE_SUM, 0};
    const struct ig_collective_sizes sizes = {.outer = 1, .inner = (size_t)(t->rows * w->n)};
    for (uint32_t r = 0; r < w->ranks; r++) {
        t->sources[r] = malloc(bytes_of(t) + 1);
        assert_non_null(t->sources[r]);
        if (t->hostile)
            plain_fill(w->dtype, t->sources[r], sizes.inner, (uint32_t)t->rows * 4 + r);
        else
            fill(t, t->sources[r], (uint32_t)t->rows * 4 + r + 1);
    }
    if (!t->hostile) poison(t);
    t->sum = malloc(bytes_of(t) + 1);
    t->residual = malloc(bytes_of(t) + 1);
    assert_true(t->sum && t->residual);
    plain_collective(&what, &sizes, w->ranks, 0, t->sources, t->sum);
    fill(t, t->residual, 1000);
    struct ingot_tensor inputs[2] = {{.data = t->sum, .dtype = w->dtype, .rank = 2, .dims = {t->rows, w->n}},
                                     {.data = t->residual, .dtype = w->dtype, .rank = 2, .dims = {t->rows, w->n}}};
    if (w->how & FOLDED)
        inputs[1] =
            (struct ingot_tensor){.data = t->residual, .dtype = w->dtype, .rank = 3, .dims = {1, t->rows, w->n}};
    ig_eval_graph(the_job, w->rest, inputs, t->expected);
    for (uint32_t r = 0; r < w->ranks; r++)
        for (uint32_t o = 0; o < w->rest->outputs.count; o++) {
            t->results[r][o] = malloc(bytes_of(t) + 1);
            assert_non_null(t->results[r][o]);
            memset(t->results[r][o], 0xee, bytes_of(t));
        }
    prepare_runs(t);
}

static const char *push(struct exchange_rank *rank, const struct trial *t) {
    return t->w->push ? exchange_run(rank, &t->pushes[rank->rank]) : NULL;
}

static const char *run_rank(struct exchange_rank *rank, void *user) {
    const struct trial *t = user;
    const char *wrong = reduce_plainly(rank, (size_t)(t->rows % 7 * 600 + 1));
    if (!wrong) wrong = push(rank, t);
    if (!wrong) wrong = exchange_run(rank, &t->runs[rank->rank]);
    if (!wrong) wrong = reduce_plainly(rank, 1);
    if (!wrong && ig_group_look(rank->seat, &rank->error)) wrong = rank->error.message;
    return wrong;
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

static double largest(const struct ingot_tensor *x) {
    double most = 0;
    for (int64_t i = 0; i < ingot_tensor_elements(x); i++) {
        double number = fabs(ig_load_f64(x->dtype, x->data, i));
        if (isfinite(number) && number > most) most = number;
    }
    return most;
}

static bool agree(double a, double b, double tolerance) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return a == b || fabs(a - b) <= tolerance;
}

static void check_numbers(const struct trial *t, uint32_t o) {
    const struct ingot_tensor *e = &t->expected[o];
    const double tolerance = sum_tolerance(t->w->dtype) * largest(e);
    for (int64_t i = 0; i < t->rows * t->w->n; i++) {
        const double found = ig_load_f64(e->dtype, t->results[0][o], i), wanted = ig_load_f64(e->dtype, e->data, i);
        if (!agree(found, wanted, tolerance))
            fail_msg("%s, %lld rows: '%s' has %g at %lld, not %g", t->w->name, (long long)t->rows,
                     t->w->rest->outputs.at[o].name, found, (long long)i, wanted);
    }
}

static void check_sum(const struct trial *t, uint32_t o) {
    const struct ig_collective what = {IG_ALL_REDUCE, (uint32_t)t->w->dtype, IG_REDUCE_SUM, 0};
    const size_t each = ingot_dtype_size(t->w->dtype);
    for (size_t i = 0; i < bytes_of(t); i += each)
        if (!plain_is_same(&what, (char *)t->sum + i, (char *)t->results[0][o] + i))
            fail_msg("%s, %lld rows: element %zu of the sum is wrong", t->w->name, (long long)t->rows, i / each);
}

static void check(struct trial *t) {
    const struct network *w = t->w;
    for (uint32_t o = 0; o < w->rest->outputs.count; o++) {
        if (strcmp(w->rest->outputs.at[o].name, "sum") == 0)
            check_sum(t, o);
        else if (!t->hostile)
            check_numbers(t, o);
        for (uint32_t r = 1; r < w->ranks; r++)
            assert_memory_equal(t->results[r][o], t->results[0][o], bytes_of(t));
    }
}

static void drop(struct trial *t) {
    for (uint32_t o = 0; o < t->w->rest->outputs.count; o++) {
        ig_eval_release(the_job, &t->expected[o]);
        for (uint32_t r = 0; r < t->w->ranks; r++)
            free(t->results[r][o]);
    }
    for (uint32_t r = 0; r < t->w->ranks; r++)
        free(t->sources[r]);
    free(t->sum);
    free(t->residual);
}

static void try_rows(struct exchange_group *group, const struct network *w, int64_t rows, bool hostile) {
    struct trial t = {.w = w, .rows = rows, .hostile = hostile};
    prepare(&t);
    exchange_together(group, run_rank, &t);
    check(&t);
    drop(&t);
}

/* ---- Tests ------------------------------------------------------------------------------------------------------- */

static void rows_of_all_lengths(void **state) {
    for (uint32_t ranks = 2; ranks <= EXCHANGE_RANKS; ranks++) {
        struct exchange_group group;
        exchange_set_order(ranks == 3);
        exchange_open(&group, ranks);
        for (int i = 0; i < COUNT(networks); i++) {
            if (networks[i].ranks != ranks) continue;
            try_rows(&group, &networks[i], 1, false);
            try_rows(&group, &networks[i], 5, false);
            try_rows(&group, &networks[i], 3, true);
        }
        exchange_close(&group);
    }
}

/* As many blocks as there can be; and the longest message, whose last line is the last of the windows'. */
static void as_many_as_fit(void **state) {
    struct exchange_group group;
    for (int backwards = 0; backwards < 2; backwards++) {
        exchange_set_order(backwards);
        exchange_open(&group, 2);
        for (int i = 0; i < COUNT(networks); i++) {
            const struct network *w = &networks[i];
            if (w->ranks != 2 || (w->n != 33 && w->n != 36 && (w->n != 16384 || backwards))) continue;
            const int64_t lines = (w->n * (int64_t)ingot_dtype_size(w->dtype) + 7) / 8;
            const int64_t most = IG_WINDOW_SHORT_LINES / lines;
            try_rows(&group, w, most < IG_WINDOW_HEADERS ? most : IG_WINDOW_HEADERS, false);
        }
        exchange_close(&group);
    }
}

/* Ranks that share GPUs: split calls give the same bits. */
static void split_calls(void **state) {
    for (uint32_t ranks = 2; ranks <= EXCHANGE_RANKS; ranks++) {
        struct exchange_group apart, group;
        exchange_set_order(ranks == 3);
        exchange_open(&apart, ranks);
        exchange_open_shared(&group, ranks, ranks == 4 ? 3 : 1);
        for (int i = 0; i < COUNT(networks); i++) {
            if (networks[i].ranks != ranks) continue;
            for (int64_t rows = 1; rows <= 5; rows += 2) {
                struct trial t = {.w = &networks[i], .rows = rows, .hostile = rows == 3}, same = t;
                prepare(&t);
                exchange_together(&apart, run_rank, &t);
                prepare(&same);
                for (uint32_t r = 0; r < ranks; r++)
                    assert_null(push(&group.at[r], &same));
                exchange_run_split(&group, same.runs);
                check(&same);
                for (uint32_t o = 0; o < t.w->rest->outputs.count; o++)
                    assert_memory_equal(t.results[0][o], same.results[0][o], bytes_of(&t));
                drop(&t);
                drop(&same);
            }
        }
        exchange_close(&group);
        exchange_close(&apart);
    }
}

/* ---- Epochs and other ranks -------------------------------------------------------------------------------------- */

enum { SHORT_ROWS = 3, SHORT_PUSHED = 15 }; /* the networks of 33 and 36 elements a row, of two ranks */

static const char *write_seat(struct exchange_rank *r, size_t offset, const void *from, size_t bytes) {
    return exchange_write(r, (char *)ig_group_seat(r->seat) + offset, from, bytes);
}

struct epochs {
    uint32_t first;
    const struct trial *t;
};

/* Several calls from an epoch on, behind each other. */
static const char *go_on_from(struct exchange_rank *r, void *user) {
    const struct epochs *e = user;
    uint32_t epochs[IG_WINDOW_HEADERS];
    for (int b = 0; b < IG_WINDOW_HEADERS; b++)
        epochs[b] = e->first;
    const char *wrong = ig_group_barrier(r->seat, "before", &r->error) ? r->error.message : NULL;
    if (!wrong) wrong = write_seat(r, offsetof(struct ig_window_seat, epochs), epochs, sizeof epochs);
    if (!wrong && ig_group_barrier(r->seat, "after", &r->error)) wrong = r->error.message;
    for (int i = 0; i < 4 && !wrong; i++)
        wrong = run_rank(r, (void *)(uintptr_t)e->t);
    return wrong;
}

static void epochs_go_on(void **state) {
    static const uint32_t firsts[] = {(1u << 30) - 1, (3u << 30) + 2, UINT32_MAX - 4};
    struct exchange_group group;
    exchange_set_order(false);
    exchange_open(&group, 2);
    for (int i = 0; i < COUNT(firsts); i++) {
        for (int pushed = 0; pushed < 2; pushed++) {
            struct trial t = {.w = &networks[pushed ? SHORT_PUSHED : SHORT_ROWS], .rows = 9};
            prepare(&t);
            exchange_together(&group, go_on_from, &(struct epochs){firsts[i], &t});
            check(&t);
            drop(&t);
        }
    }
    exchange_close(&group);
}

static const char *expect(struct exchange_rank *r, enum ingot_status status, const char *text) {
    static _Thread_local char wrong[INGOT_ERROR_MESSAGE_SIZE];
    const enum ingot_status found = ig_group_look(r->seat, &r->error);
    if (found == status && strstr(r->error.message, text)) return NULL;
    snprintf(wrong, sizeof wrong, "expected '%s', found '%.600s'", text, found ? r->error.message : "");
    return wrong;
}

/* Rank 1 adds up plain numbers instead. */
static const char *do_different_things(struct exchange_rank *r, void *user) {
    static const char text[] = "ranks do different things: ";
    const char *wrong =
        r->rank == 0
            ? exchange_run(r, &((const struct trial *)user)->runs[r->rank])
            : exchange_launch(
                  r, &(struct exchange_call){.kernel = &plain[2], .number = 3, .sizes = {.outer = 1, .inner = 33}},
                  (int32_t[33]){0}, (int32_t[33]){0});
    return wrong ? wrong : expect(r, INGOT_INCOMPATIBLE, text);
}

static const char *wait_in_vain(struct exchange_rank *r, void *user) {
    const uint64_t patience = 200000000;
    if (r->rank == 1) return NULL;
    const char *wrong = write_seat(r, offsetof(struct ig_window_seat, patience), &patience, sizeof patience);
    if (!wrong) wrong = exchange_run(r, &((const struct trial *)user)->runs[r->rank]);
    return wrong ? wrong : expect(r, INGOT_TIMEOUT, "collective 3, '': rank 0 waited ");
}

static void other_ranks_are_missed(void **state) {
    static const exchange_body bodies[] = {do_different_things, wait_in_vain};
    exchange_set_order(false);
    for (int i = 0; i < COUNT(bodies); i++) {
        struct exchange_group group;
        struct trial t = {.w = &networks[SHORT_ROWS], .rows = 2};
        prepare(&t);
        exchange_open(&group, 2);
        exchange_together(&group, bodies[i], &t);
        exchange_close(&group);
        drop(&t);
    }
}

static int run_all(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_all_lengths), cmocka_unit_test(as_many_as_fit),         cmocka_unit_test(split_calls),
        cmocka_unit_test(epochs_go_on),        cmocka_unit_test(other_ranks_are_missed),
    };
    return cmocka_run_group_tests_name("all-reduces by rows", tests, NULL, NULL);
}

static void compile(struct ig_job *job) {
    struct ig_source sources[2 * COUNT(networks) + EXCHANGE_RANKS];
    uint32_t count = 0;
    the_job = job;
    for (int i = 0; i < COUNT(networks); i++) {
        snprintf(networks[i].name, sizeof networks[i].name, "rows_%d", i);
        sources[count++] = (struct ig_source){networks[i].name, make(job, &networks[i])};
        if (!(networks[i].how & PUSHED)) continue;
        const char *text = make_push(job, &networks[i]);
        sources[count++] = (struct ig_source){networks[i].push_name, text};
    }
    for (uint32_t ranks = 2; ranks <= EXCHANGE_RANKS; ranks++) {
        const char *text = make_plain(job, ranks);
        sources[count++] = (struct ig_source){plain[ranks].name, text};
    }
    exchange_compile_texts(job, sources, count);
}

int main(void) {
    return exchange_program(compile, run_all);
}
