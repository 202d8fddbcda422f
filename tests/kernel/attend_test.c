/*
 * Attention: which graphs are recognised; that every candidate for GPUs compiles; the results, on this processor, and on the GPU
 * emulator (without g++: those of the plain schedule, printed as C) and on GPU 0 if there is one.
 */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "codegen/cuda/print.h"
#include "ir/text/print.h"
#include "kernel/family/attend.h"
#include "kernel/kernel.h"
#include "pass/fuse/regions.h"
#include "pass/passes.h"
#include "pass/precision/precision.h"
#include "support/check/kernel_cases.h"
#include "support/check/nvrtc_check.h"
#include "support/check/rewrite_check.h"

enum mask {
    NO_MASK,
    ADDED,      /* adds, per batch element, a row of 0 and the lowest float */
    CHOSEN,     /* where(…, score, -infinity), by a row */
    ALL_MASKED, /* CHOSEN, with all keys masked */
    CAUSAL,     /* by a comparison of positions */
    ADDED_CAUSAL,
    SLIDING, /* the last 20 keys up to the query's own */
    CAPPED,  /* tanh(score / 4) * 4 */
    EACH,    /* adds a matrix: 0 or the lowest float per query and key */
};

struct attention {
    enum ingot_dtype dtype;
    int64_t batch, heads, shared, queries, keys, depth, columns; /* shared: heads that share keys; negative: symbols */
    enum mask mask;
    bool repaired, joint, biased;
    bool listed;   /* keys and values are gathered by a constant, which counts them */
    bool merged;   /* the scores of all heads of all batches are one axis of matrices; the results' are two */
    bool narrow;   /* the results are rounded to the operands' type */
    bool guarded;  /* rows that are all -infinity give zeros */
    int64_t shift; /* by which pictures are rolled before windows are cut out */
    bool constant; /* so are the biases and masks of windows, and masks of rows have a row for each query */
    int64_t side;  /* of the windows of a picture that are attended to apart, with biases; 0: none, see windows_of */
};
enum { ACROSS = 3, WINDOWS = 2 * ACROSS, LONGEST_LIST = 64 };

/* ---- Building ---------------------------------------------------------------------------------------------------------- */

static ig_value scalar(struct ig_graph *g, ig_value like, double x) {
    return ig_build_scalar(g, ig_type_of(g, like)->dtype, x);
}

/* [batch, length, heads * depth] as [batch, heads, length, depth]. */
static ig_value heads_of(struct ig_graph *g, ig_value x, int64_t heads, int64_t depth) {
    const struct ig_type type = *ig_type_of(g, x);
    ig_dim dims[4] = {type.dim[0], type.dim[1], number(g, heads), number(g, depth)};
    return ig_build_transpose(g, ig_build_reshape(g, x, dims, 4), (const int64_t[]){0, 2, 1, 3});
}

/* Repeats each head. */
static ig_value repeated(struct ig_graph *g, ig_value x, int64_t times) {
    if (times <= 1) return x;
    const struct ig_type t = *ig_type_of(g, x);
    ig_dim apart[5] = {t.dim[0], t.dim[1], number(g, 1), t.dim[2], t.dim[3]};
    ig_dim all[5] = {t.dim[0], t.dim[1], number(g, times), t.dim[2], t.dim[3]};
    ig_dim merged[4] = {t.dim[0], ig_dim_mul(g->dims, t.dim[1], number(g, times)), t.dim[2], t.dim[3]};
    return ig_build_reshape(g, ig_build_broadcast(g, ig_build_reshape(g, x, apart, 5), all, 5), merged, 4);
}

static ig_value changed(struct ig_graph *g, const struct attention *a, ig_value s) {
    const struct ig_type type = *ig_type_of(g, s);
    s = ig_map2(g, IG_OP_mul, s, scalar(g, s, 0.125));
    if (a->mask == NO_MASK) return s;
    if (a->mask == CAPPED) {
        ig_value small = ig_map2(g, IG_OP_mul, s, scalar(g, s, 0.25));
        return ig_map2(g, IG_OP_mul, ig_map1(g, IG_OP_tanh, small), scalar(g, s, 4));
    }
    if (a->mask == CAUSAL || a->mask == ADDED_CAUSAL || a->mask == SLIDING) {
        ig_dim rows[4] = {number(g, 1), number(g, 1), type.dim[2], number(g, 1)};
        ig_dim columns[4] = {number(g, 1), number(g, 1), number(g, 1), type.dim[3]};
        ig_value query = ig_build_iota(g, rows, 4, 2), key = ig_build_iota(g, columns, 4, 3);
        ig_value seen = ig_map2(g, IG_OP_le, key, query);
        if (a->mask == SLIDING) {
            ig_value before = ig_map2(g, IG_OP_sub, query, ig_build_scalar_int(g, INGOT_I64, 20));
            seen = ig_map2(g, IG_OP_and, ig_map2(g, IG_OP_lt, before, key), seen);
        }
        if (a->mask == CAUSAL) return ig_build_where(g, seen, s, scalar(g, s, -INFINITY));
        ig_value later = ig_build_where(g, seen, scalar(g, s, 0), scalar(g, s, -3.4028235e38));
        return ig_map2(g, IG_OP_add, s, later);
    }
    ig_dim lines = a->mask == EACH ? type.dim[2] : number(g, 1);
    struct ig_type row = {.dtype = INGOT_F32, .rank = 4, .dim = {type.dim[0], number(g, 1), lines, type.dim[3]}};
    ig_value x = a->constant ? random_constant(g, INGOT_F32, 2, (const int64_t[]){a->queries, a->keys}, 5)
                             : ig_build_input(g, "mask", &row);
    ig_value seen = ig_map2(g, IG_OP_lt, x, ig_build_scalar(g, INGOT_F32, a->mask == ALL_MASKED ? -1e30 : 0));
    if (a->mask != ADDED && a->mask != EACH) return ig_build_where(g, seen, s, scalar(g, s, -INFINITY));
    return ig_map2(g, IG_OP_add, s, ig_build_where(g, seen, scalar(g, s, 0), scalar(g, s, -3.4028235e38)));
}

static ig_value guarded(struct ig_graph *g, const struct attention *a, ig_value x, double never, double instead) {
    if (!a->guarded) return x;
    return ig_build_where(g, ig_map2(g, IG_OP_eq, x, scalar(g, x, never)), scalar(g, x, instead), x);
}

static ig_value softmax(struct ig_graph *g, const struct attention *a, ig_value s) {
    const int64_t last[] = {ig_type_of(g, s)->rank - 1};
    ig_value most = guarded(g, a, ig_build_reduce(g, IG_OP_reduce_max, s, last, 1), -INFINITY, 0);
    ig_value e = ig_map1(g, IG_OP_exp, ig_map2(g, IG_OP_sub, s, most));
    ig_value sum = guarded(g, a, ig_build_reduce(g, IG_OP_reduce_sum, e, last, 1), 0, 1);
    ig_value w = ig_map2(g, IG_OP_mul, e, ig_map2(g, IG_OP_div, scalar(g, s, 1), sum));
    return a->repaired ? ig_build_where(g, ig_map1(g, IG_OP_isnan, w), scalar(g, w, 0), w) : w;
}

/* Pictures have 2 x 3 windows. The third part `which` of [batch, height, width, 3 * heads * depth], as [batch * windows, heads, side * side, depth]. */
static ig_value windows_of(struct ig_graph *g, const struct attention *a, ig_value all, int64_t which) {
    ig_dim batch = ig_type_of(g, all)->dim[0], n = number(g, a->side), h = number(g, a->heads), d = number(g, a->depth);
    ig_dim cut[8] = {batch, number(g, WINDOWS / ACROSS), n, number(g, ACROSS), n, number(g, 3), h, d};
    ig_dim one[4] = {ig_dim_mul(g->dims, batch, number(g, WINDOWS)), h, number(g, a->side * a->side), d};
    if (a->shift) {
        ig_dim height = ig_type_of(g, all)->dim[1];
        ig_value row = ig_build_iota(g, &height, 1, 0);
        row = ig_map2(g, IG_OP_mod, ig_map2(g, IG_OP_add, row, ig_build_scalar(g, INGOT_I64, (double)a->shift)),
                      ig_build_scalar(g, INGOT_I64, (double)(WINDOWS / ACROSS * a->side)));
        all = ig_build_gather(g, all, row, 1);
    }
    ig_value x = ig_build_transpose(g, ig_build_reshape(g, all, cut, 8), (const int64_t[]){5, 0, 1, 3, 6, 2, 4, 7});
    x = ig_build_slice_axis(g, x, 0, number(g, which), number(g, 1), 1);
    return ig_build_reshape(g, x, one, 4);
}

/* Adds what windows add to their scores, the mask to [batch, windows, heads, queries, keys]. */
static ig_value biased_by_place(struct ig_graph *g, const struct attention *a, ig_value s) {
    struct ig_type type = *ig_type_of(g, s), bias = {.dtype = INGOT_F32, .rank = 3};
    ig_dim windows = number(g, WINDOWS), length = type.dim[3];
    memcpy(bias.dim, (ig_dim[]){number(g, a->heads), length, length}, 3 * sizeof *bias.dim);
    const int64_t sizes[] = {a->heads, a->keys, a->keys};
    ig_value biases = a->constant ? random_constant(g, INGOT_F32, 3, sizes, 9) : ig_build_input(g, "bias", &bias);
    s = ig_map2(g, IG_OP_add, ig_map2(g, IG_OP_mul, s, scalar(g, s, 0.125)), biases);
    if (a->mask != EACH) return s;
    ig_dim apart[5] = {ig_dim_div(g->dims, type.dim[0], windows), windows, type.dim[1], length, length};
    struct ig_type mask = {.dtype = INGOT_F32, .rank = 4, .dim = {windows, number(g, 1), length, length}};
    const int64_t all[] = {WINDOWS, 1, a->keys, a->keys};
    ig_value x =
        a->constant && a->keys > 64 ? random_constant(g, INGOT_F32, 4, all, 3) : ig_build_input(g, "mask", &mask);
    ig_value seen = ig_map2(g, IG_OP_lt, x, ig_build_scalar(g, INGOT_F32, 0));
    x = ig_build_where(g, seen, ig_build_scalar(g, INGOT_F32, 0), ig_build_scalar(g, INGOT_F32, -100));
    return ig_map2(g, IG_OP_add, ig_build_reshape(g, s, apart, 5), x);
}

/* All rows of [batch, length, depth], gathered by a constant that counts them. */
static ig_value rows_by_list(struct ig_graph *g, const struct attention *a, ig_value x) {
    int64_t list[LONGEST_LIST];
    IG_ASSERT(g->job, a->keys <= LONGEST_LIST);
    for (int64_t i = 0; i < a->keys; i++)
        list[i] = i;
    return ig_build_gather(g, x, ig_build_i64s(g, list, (int)a->keys), 1);
}

/* The product of [batch, heads, m, n] and [batch, heads, n, p], computed as one of [batch * heads, m, n] and so on. */
static ig_value matmul_of_merged(struct ig_graph *g, ig_value x, ig_value y) {
    const struct ig_type a = *ig_type_of(g, x), b = *ig_type_of(g, y);
    ig_dim matrices = ig_dim_mul(g->dims, a.dim[0], a.dim[1]), result[4] = {a.dim[0], a.dim[1], a.dim[2], b.dim[3]};
    x = ig_build_reshape(g, x, (const ig_dim[]){matrices, a.dim[2], a.dim[3]}, 3);
    y = ig_build_reshape(g, y, (const ig_dim[]){matrices, b.dim[2], b.dim[3]}, 3);
    return ig_build_reshape(g, ig_build_matmul(g, x, y, INGOT_F32), result, 4);
}

static void build(struct ig_graph *g, const void *argument) {
    const struct attention *a = argument;
    int64_t h = a->heads, hk = h / a->shared;
    ig_value q, k, v;
    if (a->side) {
        const int64_t sizes[] = {a->batch, WINDOWS / ACROSS * a->side, ACROSS * a->side, 3 * h * a->depth};
        struct ig_type type = sized_type(g, a->dtype, 4, sizes);
        ig_value all = ig_build_input(g, "qkv", &type), *parts[] = {&q, &k, &v};
        for (int i = 0; i < 3; i++)
            *parts[i] = windows_of(g, a, all, i);
    } else if (a->joint) {
        const int64_t sizes[] = {a->batch, a->queries, 3 * h * a->depth};
        struct ig_type type = sized_type(g, a->dtype, 3, sizes);
        ig_value all = ig_build_input(g, "qkv", &type);
        ig_value *parts[] = {&q, &k, &v};
        for (int i = 0; i < 3; i++)
            *parts[i] = ig_build_slice_axis(g, all, 2, number(g, i * h * a->depth), number(g, h * a->depth), 1);
    } else {
        const int64_t sizes[3][3] = {{a->batch, a->queries, h * a->depth},
                                     {a->batch, a->keys, hk * a->depth},
                                     {a->batch, a->keys, hk * a->columns}};
        q = input(g, "q", a->dtype, 3, sizes[0]);
        k = input(g, "k", a->dtype, 3, sizes[1]);
        v = input(g, "v", a->dtype, 3, sizes[2]);
    }
    if (a->listed) {
        k = rows_by_list(g, a, k);
        v = rows_by_list(g, a, v);
    }
    if (!a->side) {
        q = heads_of(g, q, h, a->depth);
        k = repeated(g, heads_of(g, k, hk, a->depth), a->shared);
        v = repeated(g, heads_of(g, v, hk, a->columns), a->shared);
    }
    k = ig_build_transpose(g, k, (const int64_t[]){0, 1, 3, 2});
    ig_value s = a->merged ? matmul_of_merged(g, q, k) : ig_build_matmul(g, q, k, INGOT_F32);
    ig_value w = softmax(g, a, a->side ? biased_by_place(g, a, s) : changed(g, a, s));
    w = ig_build_reshape(g, w, ig_type_of(g, s)->dim, 4);
    ig_value y = ig_build_matmul(g, ig_build_cast(g, w, a->dtype), v, INGOT_F32);
    if (a->narrow) y = ig_build_cast(g, y, a->dtype);
    if (a->biased) y = ig_map1(g, IG_OP_tanh, ig_map2(g, IG_OP_add, y, scalar(g, y, 0.5)));
    if (a->joint) { /* the heads side by side again */
        const struct ig_type type = *ig_type_of(g, y);
        ig_dim rows[3] = {type.dim[0], type.dim[2], ig_dim_mul(g->dims, type.dim[1], type.dim[3])};
        y = ig_build_reshape(g, ig_build_transpose(g, y, (const int64_t[]){0, 2, 1, 3}), rows, 3);
    }
    ig_build_output(g, "y", y);
}

/* ---- Recognition -------------------------------------------------------------------------------------------------------- */

struct division {
    const struct attention *a;
    bool cuda, read_twice, padded;
    uint32_t regions, attends;
};

static void divide(struct ig_job *job, void *argument) {
    struct division *d = argument;
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    struct ig_target target = {.isa = d->cuda ? IG_ISA_CUDA : IG_ISA_X86_64_V3, .sm = 90};
    struct ig_pass_options options = {.target = &target};
    build(g, d->a);
    for (ig_node_id id = 0; d->read_twice && id < g->nodes.count; id++) {
        if (g->nodes.at[id].op == IG_OP_reduce_sum) ig_build_output(g, "sums", g->nodes.at[id].out);
    }
    g = ig_pass_attend(g, &options);
    if (d->padded) g = ig_pass_pad_heads(g, &options);
    g = ig_pass_fuse(g, &options);
    ig_graph_verify(g, "fuse");
    d->regions = g->regions.count;
    for (uint32_t r = 0; r < g->regions.count; r++)
        d->attends += g->regions.at[r].family == IG_FAMILY_ATTEND;
}

static void expect(struct division d, uint32_t regions, uint32_t attends) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, divide, &d, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
    assert_int_equal(d.regions, regions);
    assert_int_equal(d.attends, attends);
}

static void test_recognition(void **state) {
    (void)state;
    struct attention a = {INGOT_F32, 1, 2, 1, 16, 16, 64, 64, NO_MASK, .joint = true};
    expect((struct division){&a, .cuda = true}, 1, 1);
    expect((struct division){&a, .cuda = false}, 1, 1);
    expect((struct division){&a, .cuda = true, .read_twice = true}, 4, 0);
    a.merged = true;
    expect((struct division){&a, .cuda = true}, 4, 0);
    a.merged = false;
    a.repaired = a.biased = true;
    a.mask = CAPPED;
    expect((struct division){&a, .cuda = true}, 1, 1);
    a.mask = CAUSAL;
    expect((struct division){&a, .cuda = true}, 1, 1);
    struct attention b = {INGOT_F16, -1, 4, 2, -2, -3, 32, 48, NO_MASK, .joint = false};
    expect((struct division){&b, .cuda = true}, 1, 1);
    b.depth = 20; /* not a multiple of 16 bytes */
    expect((struct division){&b, .cuda = true}, 3, 0);
    expect((struct division){&b, .cuda = true, .padded = true}, 3, 1); /* beside copies of queries and keys */
    b.columns = 42;
    expect((struct division){&b, .cuda = true, .padded = true}, 5, 1); /* of values, too, and a slice */
    b.queries = 31;                                                    /* which are not worth copies */
    expect((struct division){&b, .cuda = true, .padded = true}, 3, 0);
    b.queries = -2;
    b.depth = 264;
    expect((struct division){&b, .cuda = true}, 3, 0);
    struct attention c = {INGOT_F16, -1, 3, 1, 49, 49, 32, 32, EACH, .side = 7, .joint = true};
    expect((struct division){&c, .cuda = true}, 2, 1); /* the mask is made once for all heads */
    c.mask = NO_MASK;
    expect((struct division){&c, .cuda = true}, 1, 1);
}

/* ---- Room ---------------------------------------------------------------------------------------------------------------- */

static void check_room(struct ig_job *job, void *argument) {
    const struct attention *a = argument;
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    const struct ig_target target = {.isa = IG_ISA_CUDA, .sm = 90, .sm_own = true};
    const struct ig_pass_options options = {.target = &target};
    build(g, a);
    g = ig_pass_fuse(ig_pass_attend(g, &options), &options);
    assert_int_equal(g->regions.count, 1);
    const char *tactic = ig_kernel_make(g, &g->regions.at[0], &target)->tactic;
    if (!strstr(tactic, "wgmma"))
        fail_msg("heads of %d and %d, %d keys: %s", (int)a->depth, (int)a->columns, (int)a->keys, tactic);
}

/* Heads of all widths and any number of keys find room on the tensor cores. */
static void test_room(void **state) {
    (void)state;
    static const int64_t widths[] = {16, 64, 96, 128, 160, 256}, keys[] = {49, 112, 144, 196, 224, 225, 1024};
    enum { WIDTHS = sizeof widths / sizeof *widths, KEYS = sizeof keys / sizeof *keys };
    for (int i = 0; i < WIDTHS * WIDTHS * KEYS; i++) {
        struct attention a = {INGOT_F16,
                              1,
                              100,
                              1,
                              196,
                              keys[i % KEYS],
                              widths[i / KEYS % WIDTHS],
                              widths[i / KEYS / WIDTHS],
                              NO_MASK,
                              .joint = false};
        struct ig_job job;
        struct ingot_error error = {0};
        ig_job_init(&job, &ig_libc_allocator);
        if (ig_job_run(&job, check_room, &a, &error)) fail_msg("%s", error.message);
        ig_job_deinit(&job);
    }
}

/* ---- Candidates ---------------------------------------------------------------------------------------------------------- */

static const struct attention compiled[] = {
    {INGOT_F16, 1, 12, 1, 128, 128, 64, 64, ADDED, .repaired = true, .joint = true},
    {INGOT_BF16, -1, 4, 2, -2, -3, 32, 40, CAUSAL, .joint = false},
    {INGOT_F32, 1, 2, 1, -2, -2, 80, 80, CHOSEN, .joint = true},
    {INGOT_F32, 2, 2, 1, 197, 197, 128, 128, NO_MASK, .joint = true},
    {INGOT_F16, -1, 3, 1, 49, 49, 32, 32, NO_MASK, .side = 7, .joint = true},
    {INGOT_F16, 1, 8, 1, 300, 300, 256, 256, ADDED_CAUSAL, .joint = true},
    {INGOT_BF16, -1, 4, 2, -2, -3, 192, 72, CHOSEN, .joint = false},
};
enum { N_COMPILED = sizeof compiled / sizeof *compiled };

static void compile(struct ig_job *job, void *argument) {
    const char *arch = argument;
    IG_VEC(struct ig_source) sources = {0};
    struct ig_target target = {.isa = IG_ISA_CUDA, .vector_bytes = 64, .vector_registers = 32};
    target.sm = atoi(arch + 3);
    target.sm_own = strchr(arch, 'a') != NULL;
    for (int i = 0; i < N_COMPILED; i++) {
        struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
        struct ig_pass_options options = {.target = &target};
        struct ig_kernel *kernel;
        build(g, &compiled[i]);
        for (ig_node_id id = 0; i == 2 && id < g->nodes.count; id++) {
            struct ig_node *n = &g->nodes.at[id];
            if (n->op != IG_OP_matmul) continue;
            struct ig_attr *attrs = ig_memdup(job, n->attr, (size_t)ig_op_info(n->op)->n_attrs * sizeof *attrs);
            for (int at = 0; at < ig_op_info(n->op)->n_attrs; at++) {
                if (ig_op_info(n->op)->attrs[at].name == IG_ATTR_math) attrs[at].i = IG_MATH_TF32;
            }
            n->attr = attrs;
        }
        g = ig_pass_fuse(ig_pass_attend(g, &options), &options);
        const struct ig_region *region = &g->regions.at[g->regions.count - 1];
        assert_int_equal(region->family, IG_FAMILY_ATTEND);
        int most = i == 0 || i == 4 || target.sm_own ? INT_MAX : 3;
        for (int choice = 0; choice < most && (kernel = ig_kernel_candidate(g, region, &target, NULL, choice));
             choice++) {
            const char *name = ig_format(job, "attend_%d_%d", i, choice);
            assert_non_null(kernel->attend);
            IG_PUSH(job, &sources, (struct ig_source){name, ig_cuda_kernel(job, kernel, "kernel", &target)});
        }
    }
    nvrtc_check(job, arch, sources.at, sources.count);
}

static void test_compiles(void **state) {
    static const char *const archs[] = {"sm_80", "sm_90a", "sm_100"};
    (void)state;
    nvrtc_check_archs(compile, archs, sizeof archs / sizeof *archs);
}

/* ---- Results -------------------------------------------------------------------------------------------------------------- */

static const struct attention cases[] = {
    {INGOT_F32, 1, 2, 1, 1, 1, 64, 64, NO_MASK, .joint = true},
    {INGOT_F32, 2, 3, 1, 7, 7, 32, 32, ADDED, .repaired = true, .joint = true},
    {INGOT_F32, 1, 2, 1, 128, 128, 64, 64, CAUSAL, .joint = true, .biased = true},
    {INGOT_F32, 1, 2, 1, 40, 129, 80, 48, CHOSEN, .joint = false},
    {INGOT_F32, 1, 2, 1, 150, 150, 32, 32, ADDED_CAUSAL, .joint = true},
    {INGOT_F32, 2, 2, 1, 33, 65, 96, 128, ALL_MASKED, .joint = false},
    {INGOT_F32, 2, 2, 1, 33, 65, 40, 64, ALL_MASKED, .repaired = true},
    {INGOT_F32, 2, 2, 1, 33, 65, 40, 64, ALL_MASKED, .guarded = true},
    {INGOT_F32, 1, 2, 1, 40, 40, 64, 64, CHOSEN, .guarded = true, .joint = true},
    {INGOT_F32, 2, 2, 1, 20, 37, 32, 32, NO_MASK, .listed = true},
    {INGOT_F32, 1, 1, 1, 20, 40, 256, 256, CHOSEN, .joint = false},
    {INGOT_F32, -1, 4, 2, -2, -4, 64, 64, CAPPED, .joint = false},
    {INGOT_F32, 1, 1, 1, 17, 500, 128, 128, ADDED, .joint = false},
    {INGOT_F32, 1, 1, 1, 300, 300, 16, 16, CAUSAL, .joint = true},
    {INGOT_F32, 3, 16, 1, 66, 20, 32, 32, NO_MASK, .joint = false},
    {INGOT_F32, 1, 2, 1, 5, 0, 32, 32, NO_MASK, .joint = false},
    {INGOT_F32, 1, 1, 1, 1, 600, 32, 32, CHOSEN, .guarded = true},
    {INGOT_F32, 1, 1, 1, 9, 1030, 64, 64, CAPPED, .joint = false},
    {INGOT_F32, 1, 1, 1, 70, 40, 32, 160, EACH, .joint = false},
    {INGOT_F32, 1, 1, 1, 70, 70, 80, 72, CAUSAL, .joint = false},
    {INGOT_F32, 1, 1, 1, 2, 130, 256, 256, NO_MASK, .joint = false},
    {INGOT_F32, 1, 2, 1, 150, 150, 64, 64, SLIDING, .joint = true},
    {INGOT_F32, 1, 1, 1, 70, 40, 32, 32, SLIDING, .joint = false}, /* some queries see nothing */
};
enum { N_CASES = sizeof cases / sizeof *cases, N_POISONED = 11 };

/* Relative to the largest result. */
static double tolerance_for(enum ingot_dtype dtype) {
    return dtype == INGOT_F32 ? 1e-5 : dtype == INGOT_F16 ? 4e-3 : 3e-2;
}

/* The cases in a type; if poisoned, only the first of them, with NaN and infinities in queries, keys, values and
 * masks. */
static int add_cases(struct graph_case *all, enum ingot_dtype dtype, unsigned flags) {
    static struct attention given[INGOT_BF16 + 1][N_CASES];
    int count = 0;
    for (int i = 0; i < N_CASES; i++) {
        /* Keys beyond the diagonal are not read, so a NaN there does not propagate. */
        bool causal = cases[i].mask == CAUSAL || cases[i].mask == ADDED_CAUSAL || cases[i].mask == SLIDING;
        given[dtype][i] = cases[i];
        given[dtype][i].dtype = dtype;
        if (flags & GRAPH_POISON && (causal || i >= N_POISONED)) continue;
        all[count++] = (struct graph_case){"attention",       build,          &given[dtype][i], tolerance_for(dtype),
                                           flags | GRAPH_RAW, {5, 7, 33, 128}};
    }
    return count;
}

static void test_single(void **state) {
    struct graph_case all[2 * N_CASES];
    (void)state;
    int count = add_cases(all, INGOT_F32, 0);
    count += add_cases(all + count, INGOT_F32, GRAPH_POISON);
    check_graphs_for_cuda(all, count);
}

static void test_processor(void **state) {
    struct graph_case all[2 * N_CASES];
    (void)state;
    int count = add_cases(all, INGOT_F32, 0);
    count += add_cases(all + count, INGOT_F32, GRAPH_POISON);
    check_graphs_for_cpu(all, count);
}

/* Tiles of AMX, where the machine has them; else the plain schedule. */
static void test_processor_half(void **state) {
    struct graph_case all[2 * N_CASES];
    (void)state;
    int count = add_cases(all, INGOT_BF16, 0);
    count += add_cases(all + count, INGOT_BF16, GRAPH_POISON);
    check_graphs_for_cpu(all, count);
}

static void test_half(void **state) {
    struct graph_case all[3 * N_CASES];
    (void)state;
    int count = add_cases(all, INGOT_F16, 0);
    count += add_cases(all + count, INGOT_BF16, 0);
    count += add_cases(all + count, INGOT_F16, GRAPH_POISON);
    check_graphs_for_cuda(all, count);
}

/* Every block shape; some are the first choice only for large problems. */
static void test_choices(void **state) {
    (void)state;
    static const struct attention shapes[] = {
        {INGOT_F16, 1, 2, 1, 70, 90, 64, 64, ADDED, .repaired = true, .joint = false},
        {INGOT_F16, 1, 2, 1, 33, 197, 64, 64, NO_MASK, .joint = false},
        {INGOT_F16, 1, 1, 1, 40, 196, 96, 64, NO_MASK, .joint = false}, /* one step of more than WHOLE */
        {INGOT_BF16, -1, 2, 2, -2, -4, 32, 128, CAUSAL, .joint = false},
        {INGOT_F16, 1, 2, 1, 20, 40, 128, 32, ALL_MASKED, .guarded = true},
        {INGOT_F16, 1, 1, 1, 170, 170, 32, 32, ADDED_CAUSAL, .joint = true},
        {INGOT_F16, -1, 2, 1, -2, -4, 64, 64, ADDED, .joint = false},
        {INGOT_BF16, 1, 2, 1, 66, 130, 64, 64, CAPPED, .joint = false},
        {INGOT_F16, 1, 2, 1, 40, 0, 64, 64, NO_MASK, .joint = false},
        {INGOT_F16, 1, 1, 1, 66, 40, 192, 136, ADDED, .joint = false},
        {INGOT_BF16, 1, 1, 1, 66, 70, 24, 96, NO_MASK, .joint = false},
    };
    enum { SHAPES = sizeof shapes / sizeof *shapes, CHOICES = 13 };
    struct graph_case all[SHAPES * CHOICES];
    for (unsigned choice = 0; choice < CHOICES; choice++) {
        for (int i = 0; i < SHAPES; i++)
            all[choice * SHAPES + (unsigned)i] = (struct graph_case){
                "attention",    build, &shapes[i], tolerance_for(shapes[i].dtype), GRAPH_RAW | choice * GRAPH_CHOICE,
                {2, 7, 33, 128}};
    }
    check_graphs_for_cuda(all, SHAPES * CHOICES);
}

/* Sizes that are symbols, so that whole steps and tiles are told from partial ones at run time: some of both, only
 * partial ones, only whole ones. */
static void test_partial(void **state) {
    (void)state;
    static const struct attention shapes[] = {
        {INGOT_F16, -1, 2, 1, -2, -3, 64, 64, ADDED, .joint = false},
        {INGOT_F16, -1, 1, 1, -2, -3, 32, 64, EACH, .repaired = true, .joint = false},
        {INGOT_BF16, -1, 2, 1, -4, -4, 64, 64, CHOSEN, .joint = true},
        {INGOT_F32, 1, 2, 1, -2, -3, 40, 64, EACH, .joint = false},
        {INGOT_F16, 1, 2, 1, -2, -3, 128, 64, NO_MASK, .joint = false},
    };
    static const int64_t sizes[][4] = {{2, 70, 150, 190}, {1, 33, 40, 96}, {2, 64, 256, 128}, {1, 130, 129, 1}};
    enum { SHAPES = sizeof shapes / sizeof *shapes, SIZES = sizeof sizes / sizeof *sizes, CHOICES = 3 };
    struct graph_case all[SHAPES * SIZES * CHOICES];
    int count = 0;
    for (unsigned choice = 0; choice < CHOICES; choice++) {
        for (int i = 0; i < SHAPES * SIZES; i++) {
            const struct attention *a = &shapes[i % SHAPES];
            all[count] = (struct graph_case){
                "attention", build, a, tolerance_for(a->dtype), GRAPH_RAW | choice * GRAPH_CHOICE, {0}};
            memcpy(all[count++].sizes, sizes[i / SHAPES], sizeof *sizes);
        }
    }
    check_graphs_for_cuda(all, count);
}

/* Constant biases, which are stored as narrow as queries and keys where they are many. */
static const struct attention tables[] = {
    {INGOT_F32, 1, 2, 1, 256, 256, 32, 32, NO_MASK, .constant = true, .side = 16, .joint = true},
    {INGOT_F32, 1, 1, 1, 289, 289, 16, 16, EACH, .constant = true, .side = 17},
    {INGOT_F32, 1, 2, 1, 49, 49, 32, 32, EACH, .constant = true, .side = 7},
    {INGOT_F32, 1, 2, 1, 36, 36, 64, 64, EACH, .constant = true, .side = 6}, /* small */
};
enum { TABLES = sizeof tables / sizeof *tables };

/* For a GPU, in fp16. */
static struct ig_graph *divided_in_halves(struct ig_job *job, const struct attention *a, bool packs) {
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    struct ig_target target = {.isa = IG_ISA_CUDA, .sm = 90};
    const struct ig_precisions precisions = {.base = IG_PRECISION_FP16, .everywhere = true};
    struct ig_pass_options options = {.target = &target, .precisions = &precisions};
    build(g, a);
    g = ig_pass_precision(ig_pass_attend(g, &options), &options);
    return ig_pass_fuse(packs ? ig_pass_pack(g, &options) : g, &options);
}

static void find_narrow_table(struct ig_job *job, void *argument) {
    const struct attention *a = *(const struct attention *const *)argument;
    struct ig_graph *g = divided_in_halves(job, a, false);
    const struct ig_region *region = NULL;
    for (uint32_t r = 0; r < g->regions.count; r++) {
        if (g->regions.at[r].family == IG_FAMILY_ATTEND) region = &g->regions.at[r];
    }
    assert_non_null(region);
    int found = 0;
    for (uint32_t i = 0; i < region->inputs.count; i++) {
        const struct ig_type *type = ig_type_of(g, region->inputs.at[i]);
        found += ig_info(g, region->inputs.at[i])->is_const && type->rank == 3 && type->dtype == INGOT_F16;
    }
    assert_int_equal(found, a->queries > 36);
}

static void test_tables(void **state) {
    (void)state;
    static const unsigned ways[] = {GRAPH_FP16, GRAPH_FP16 | 13 * GRAPH_CHOICE, GRAPH_FP16 | 14 * GRAPH_CHOICE,
                                    GRAPH_TF32};
    enum { WAYS = sizeof ways / sizeof *ways };
    struct graph_case all[TABLES * WAYS];
    for (int i = 0; i < TABLES * WAYS; i++)
        all[i] =
            (struct graph_case){"tables", build, &tables[i / WAYS], 4e-3, GRAPH_RAW | ways[i % WAYS], {2, 7, 33, 128}};
    check_graphs_for_cuda(all, TABLES * WAYS);
    for (int i = 0; i < TABLES; i++) {
        const struct attention *a = &tables[i];
        rewrite_in_job(find_narrow_table, &a, "tables");
    }
}

/* Constants with a number for each query and key, in the order in which threads have the scores. */
static const struct attention packed[] = {
    {INGOT_F32, 1, 2, 1, 81, 81, 16, 16, NO_MASK, .constant = true, .side = 9},
    {INGOT_F32, 1, 1, 1, 289, 289, 16, 16, EACH, .constant = true, .side = 17}, /* two of them */
    {INGOT_F32, 2, 2, 1, 70, 197, 64, 64, EACH, .constant = true, .joint = false},
    {INGOT_F32, 1, 1, 1, 33, 160, 32, 64, CHOSEN, .constant = true, .joint = false}, /* of bytes */
    {INGOT_F32, 1, 2, 1, 16, 65, 64, 32, EACH, .constant = true, .repaired = true, .joint = false},
};
enum { PACKED = sizeof packed / sizeof *packed };

static void find_packed(struct ig_job *job, void *argument) {
    const struct attention *a = *(const struct attention *const *)argument;
    struct ig_graph *g = divided_in_halves(job, a, true);
    int found = 0, others = 0;
    for (uint32_t r = 0; r < g->regions.count; r++) {
        const struct ig_region *region = &g->regions.at[r];
        for (uint32_t i = 0; region->family == IG_FAMILY_ATTEND && i < region->inputs.count; i++) {
            const struct ig_type *type = ig_type_of(g, region->inputs.at[i]);
            if (!ig_info(g, region->inputs.at[i])->is_const || type->rank < 2) continue;
            found += type->rank == 6;
            others += type->rank != 6;
        }
    }
    assert_int_equal(found, a->keys > 64 ? a->side && a->mask == EACH ? 2 : 1 : 0);
    assert_int_equal(others, a->keys > 64 ? 0 : 1);
}

static void test_packed(void **state) {
    (void)state;
    static const unsigned precisions[] = {GRAPH_FP16,
                                          GRAPH_FP16 | 3 * GRAPH_CHOICE,
                                          GRAPH_FP16 | 7 * GRAPH_CHOICE,
                                          GRAPH_FP16 | 9 * GRAPH_CHOICE,
                                          GRAPH_BF16,
                                          GRAPH_TF32};
    enum { WAYS = sizeof precisions / sizeof *precisions };
    struct graph_case all[PACKED * WAYS];
    for (int i = 0; i < PACKED * WAYS; i++)
        all[i] = (struct graph_case){
            "packed", build, &packed[i / WAYS], i % WAYS == 4 ? 3e-2 : 4e-3, precisions[i % WAYS], {0}};
    check_graphs_for_cuda(all, PACKED * WAYS);
    for (int i = 0; i < PACKED; i++) {
        const struct attention *a = &packed[i];
        rewrite_in_job(find_packed, &a, "packed");
    }
    const struct attention few = {INGOT_F32, 1, 2, 1, 49, 49, 32, 32, NO_MASK, .constant = true, .side = 7}, *a = &few;
    rewrite_in_job(find_packed, &a, "packed");
}

struct diagonal {
    const struct attention *a;
    int64_t scores; /* of a head, that count */
};

static void count_scores(struct ig_job *job, void *argument) {
    const struct diagonal *d = argument;
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    struct ig_target target = {.isa = IG_ISA_CUDA, .sm = 90};
    struct ig_pass_options options = {.target = &target};
    int64_t count = 0;
    build(g, d->a);
    g = ig_pass_fuse(ig_pass_attend(g, &options), &options);
    for (uint32_t r = 0; r < g->regions.count; r++) {
        if (g->regions.at[r].family != IG_FAMILY_ATTEND) continue;
        assert_true(ig_dim_is_const(g->dims, ig_attention_count_scores(g, &g->regions.at[r]), &count));
    }
    if (count != d->scores) fail_msg("mask %d: %lld scores", d->a->mask, (long long)count);
}

/* Which masks tell of keys that no query reads. */
static void test_diagonals(void **state) {
    (void)state;
    enum { N = 150, HALF = N * (N + 1) / 2 };
    static const struct attention masks[] = {
        {INGOT_F32, 1, 2, 1, N, N, 64, 64, CAUSAL, .joint = true},
        {INGOT_F32, 1, 2, 1, N, N, 64, 64, ADDED_CAUSAL, .joint = true},
        {INGOT_F32, 1, 2, 1, N, N, 64, 64, SLIDING, .joint = true},
        {INGOT_F32, 1, 2, 1, N, N, 64, 64, EACH, .joint = true},
        {INGOT_F32, 1, 1, 1, 70, 40, 32, 32, SLIDING, .joint = false}, /* some queries see nothing */
    };
    static const int64_t scores[] = {HALF, HALF, HALF, N * N, 70 * 40};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        const struct diagonal d = {&masks[i], scores[i]};
        rewrite_in_job(count_scores, &d, "diagonals");
    }
}

/* Heads of no whole loads, which are copied first. */
static void test_uneven(void **state) {
    (void)state;
    static const struct attention shapes[] = {
        {INGOT_F16, 2, 3, 1, 64, 64, 10, 10, EACH, .narrow = true, .joint = true},
        {INGOT_F16, 1, 2, 1, 33, 90, 19, 64, ADDED, .repaired = true},
        {INGOT_BF16, -1, 2, 2, -2, -4, 20, 36, CAUSAL, .joint = false},
        {INGOT_BF16, 1, 2, 1, 17, 40, 64, 1, CHOSEN, .guarded = true, .biased = true},
        {INGOT_F32, 1, 2, 1, 40, 50, 10, 7, NO_MASK, .joint = false},
        {INGOT_F16, 1, 1, 1, 20, 70, 250, 250, CAPPED, .narrow = true},
        {INGOT_F16, 1, 2, 1, 15, 40, 10, 10, ADDED, .joint = false},
    };
    enum { SHAPES = sizeof shapes / sizeof *shapes };
    struct graph_case all[2 * SHAPES];
    for (int i = 0; i < 2 * SHAPES; i++) {
        const struct attention *a = &shapes[i / 2];
        unsigned poison = i % 2 && a->mask != CAUSAL ? GRAPH_POISON : 0;
        all[i] =
            (struct graph_case){"attention", build, a, tolerance_for(a->dtype), GRAPH_RAW | poison, {2, 70, 33, 128}};
    }
    check_graphs_for_cuda(all, 2 * SHAPES);
}

/* Windows of a picture, whose lines lie at places that are computed. */
static void test_windows(void **state) {
    (void)state;
    static const struct attention shapes[] = {
        {INGOT_F16, 2, 3, 1, 49, 49, 32, 32, EACH, .side = 7, .joint = true},
        {INGOT_F16, -1, 2, 1, 49, 49, 32, 32, NO_MASK, .side = 7, .joint = true},
        {INGOT_BF16, 1, 2, 1, 64, 64, 64, 64, EACH, .side = 8},
        {INGOT_F32, 1, 2, 1, 49, 49, 32, 32, EACH, .side = 7, .joint = true},
        {INGOT_F16, 1, 1, 1, 1, 1, 16, 16, EACH, .side = 1},
        {INGOT_F16, 1, 1, 1, 144, 144, 32, 32, EACH, .side = 12, .joint = true},
        {INGOT_F16, 1, 1, 1, 256, 256, 80, 80, NO_MASK, .side = 16},
        {INGOT_F16, 2, 2, 1, 49, 49, 32, 32, EACH, .side = 7, .joint = true, .shift = 3},
        {INGOT_F16, -1, 2, 1, 16, 16, 32, 48, NO_MASK, .joint = false},
        {INGOT_BF16, 3, 4, 2, 70, 50, 40, 64, ADDED, .joint = false},
        {INGOT_F16, 2, 7, 1, 65, 1, 64, 16, EACH, .biased = true, .joint = false},
        {INGOT_F16, 2, 5, 1, 33, 63, 128, 128, ADDED_CAUSAL, .guarded = true, .joint = false},
    };
    static const unsigned choices[] = {0, 13, 14}; /* the last ones do heads in turn */
    enum { SHAPES = sizeof shapes / sizeof *shapes, CHOICES = sizeof choices / sizeof *choices };
    struct graph_case all[2 * SHAPES * CHOICES];
    int count = 0;
    for (int c = 0; c < CHOICES; c++) {
        for (int i = 0; i < SHAPES; i++) {
            for (unsigned poison = 0; poison < 2; poison++)
                all[count++] = (struct graph_case){"windows",
                                                   build,
                                                   &shapes[i],
                                                   tolerance_for(shapes[i].dtype),
                                                   GRAPH_RAW | choices[c] * GRAPH_CHOICE | poison * GRAPH_POISON,
                                                   {2, 7, 33, 128}};
        }
    }
    check_graphs_for_cuda(all, count);
}

/* Few queries, whose keys and values go straight to registers: in one block and in clusters, some of whose blocks have no
 * keys. */
static void test_few(void **state) {
    (void)state;
    static const struct attention shapes[] = {
        {INGOT_F16, 1, 2, 1, 1, 513, 64, 64, CHOSEN, .joint = false},
        {INGOT_BF16, 2, 2, 1, 8, 300, 128, 128, ADDED, .repaired = true, .joint = false},
        {INGOT_F16, 1, 2, 1, 5, 97, 40, 80, EACH, .biased = true, .joint = false},
        {INGOT_BF16, 1, 1, 1, 3, 1030, 96, 16, CAPPED, .joint = false},
        {INGOT_F16, 1, 2, 1, 7, 40, 64, 64, ADDED_CAUSAL, .joint = false},
        {INGOT_F16, 2, 2, 1, 8, 9, 16, 24, NO_MASK, .joint = false},
        {INGOT_F16, -1, 2, 2, -2, -4, 64, 64, ADDED, .guarded = true, .joint = false},
        {INGOT_F16, 1, 1, 1, 2, 1, 64, 64, ALL_MASKED, .joint = false},
        {INGOT_F16, 1, 2, 1, 4, 0, 64, 64, NO_MASK, .joint = false},
        {INGOT_F16, 1, 1, 1, 20, 200, 72, 32, NO_MASK, .joint = false},
    };
    static const unsigned choices[] = {0, 14, 15, 16, 17, 18}; /* the last ones are direct */
    enum { SHAPES = sizeof shapes / sizeof *shapes, CHOICES = sizeof choices / sizeof *choices };
    struct graph_case all[2 * SHAPES * CHOICES];
    int count = 0;
    for (int c = 0; c < CHOICES; c++) {
        for (int i = 0; i < SHAPES; i++) {
            for (unsigned poison = 0; poison < 2; poison++) {
                if (poison && shapes[i].mask == ADDED_CAUSAL) continue; /* keys beyond the diagonal are not read */
                all[count++] = (struct graph_case){"few queries",
                                                   build,
                                                   &shapes[i],
                                                   tolerance_for(shapes[i].dtype),
                                                   GRAPH_RAW | choices[c] * GRAPH_CHOICE | poison * GRAPH_POISON,
                                                   {2, 7, 33, 600}};
            }
        }
    }
    check_graphs_for_cuda(all, count);
}

/* A warp copies keys and values for the others: steps more and fewer than there are stages, queries of several tiles and
 * of none of a group, and symbols. */
static void test_served(void **state) {
    (void)state;
    static const struct attention shapes[] = {
        {INGOT_F16, 1, 2, 1, 70, 410, 64, 64, NO_MASK, .narrow = true},
        {INGOT_BF16, 1, 2, 1, 130, 130, 64, 64, CHOSEN, .repaired = true, .narrow = true, .joint = true},
        {INGOT_F16, 1, 2, 2, 200, 330, 128, 128, NO_MASK, .narrow = true},
        {INGOT_F16, 1, 1, 1, 260, 260, 32, 48, ADDED_CAUSAL, .narrow = true},
        {INGOT_BF16, -1, 2, 1, -2, -4, 80, 96, ADDED, .narrow = true},
        {INGOT_F16, -1, 1, 1, -2, -4, 16, 64, CAUSAL, .narrow = true},
        {INGOT_F16, 1, 2, 1, 33, 65, 40, 64, ALL_MASKED, .guarded = true, .narrow = true},
        {INGOT_F16, 1, 2, 1, 1, 1, 64, 64, NO_MASK, .narrow = true},
        {INGOT_F16, 1, 2, 1, 40, 0, 64, 64, NO_MASK, .narrow = true},
        {INGOT_F16, 1, 1, 1, 66, 90, 64, 64, EACH, .narrow = true},
    };
    enum { SHAPES = sizeof shapes / sizeof *shapes, CHOICES = 2 };
    struct graph_case all[2 * SHAPES * CHOICES];
    int count = 0;
    for (unsigned choice = 0; choice < CHOICES; choice++) {
        for (int i = 0; i < SHAPES; i++) {
            bool causal = shapes[i].mask == CAUSAL || shapes[i].mask == ADDED_CAUSAL;
            for (unsigned poison = 0; poison < (causal ? 1 : 2); poison++)
                all[count++] =
                    (struct graph_case){"served",
                                        build,
                                        &shapes[i],
                                        tolerance_for(shapes[i].dtype),
                                        GRAPH_RAW | GRAPH_SERVED | choice * GRAPH_CHOICE | poison * GRAPH_POISON,
                                        {2, 70, 33, 300}};
        }
    }
    check_graphs_for_cuda(all, count);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recognition),    cmocka_unit_test(test_compiles),  cmocka_unit_test(test_processor),
        cmocka_unit_test(test_processor_half), cmocka_unit_test(test_single),    cmocka_unit_test(test_half),
        cmocka_unit_test(test_choices),        cmocka_unit_test(test_partial),   cmocka_unit_test(test_tables),
        cmocka_unit_test(test_packed),         cmocka_unit_test(test_diagonals), cmocka_unit_test(test_uneven),
        cmocka_unit_test(test_windows),        cmocka_unit_test(test_few),       cmocka_unit_test(test_served),
        cmocka_unit_test(test_room),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
