/*
 * Products on the tensor cores of sm_90a overlap: NVIDIA's compiler says in its log where it lets them follow each other
 * instead, or where groups of warps cannot give each other registers, and neither may happen in any kernel that builds
 * choose from. One of each tactic, of each kind of graph, is compiled. Skipped without NVRTC, as gpu_kernels_test.
 *
 *     wgmma_test [--all]
 *
 * compiles each candidate.
 */
#include "support/support.h"

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/text.h"
#include "codegen/cuda/print.h"
#include "support/check/graph_check.h"
#include "support/check/kernel_cases.h"
#include "support/check/nvrtc_check.h"
#include "support/check/passes.h"

enum { CHOICES = 12 };

enum end { ROUNDED_BIAS, RELU, GELU, RESIDUAL };
static const char *const end_names[] = {", rounded, bias", ", bias, ReLU", ", bias, GELU", ", bias, residual"};

struct product {
    int64_t rows, depth, columns; /* of a convolution: images, channels; rows -1: a symbol */
    enum end end;
    int64_t side; /* of the images of a 3x3 convolution; 0: a matrix product */
    enum { F16, TF32, I8, F8, FAST_F8, SQUARES_F8, COLUMNS_F8, SQUARES_I8, COLUMNS_I8 } type;
};

static const struct {
    const char *name;
    enum ingot_dtype dtype, acc, out;
    enum ig_math math;
    int64_t shared; /* columns that share a scale in each 128 of the depth; 0: there are no such scales */
} types[] = {
    [F16] = {"f16", INGOT_F16, INGOT_F32, INGOT_F16, IG_MATH_EXACT},
    [TF32] = {"tf32", INGOT_F32, INGOT_F32, INGOT_F32, IG_MATH_TF32},
    [I8] = {"i8", INGOT_I8, INGOT_I32, INGOT_I8, IG_MATH_EXACT},
    [F8] = {"f8", INGOT_F8E4M3FN, INGOT_F32, INGOT_F16, IG_MATH_EXACT},
    [FAST_F8] = {"fast f8", INGOT_F8E4M3FN, INGOT_F32, INGOT_F16, IG_MATH_FAST},
    [SQUARES_F8] = {"f8, squares scaled", INGOT_F8E4M3FN, INGOT_F32, INGOT_F16, IG_MATH_EXACT, 128},
    [COLUMNS_F8] = {"f8, columns scaled", INGOT_F8E4M3FN, INGOT_F32, INGOT_F16, IG_MATH_EXACT, 1},
    [SQUARES_I8] = {"i8, squares scaled", INGOT_I8, INGOT_F32, INGOT_F16, IG_MATH_EXACT, 128},
    [COLUMNS_I8] = {"i8, columns scaled", INGOT_I8, INGOT_F32, INGOT_F16, IG_MATH_EXACT, 1},
};

/* Of those that differ in sizes only, the first has the most kernels that are compiled. */
static const struct product products[] = {
    {1024, 1024, 1024, .end = ROUNDED_BIAS},
    {8192, 1024, 1024, .end = ROUNDED_BIAS},
    {3072, 3072, 3072, .end = ROUNDED_BIAS},
    {8192, 256, 1024, .end = ROUNDED_BIAS},
    {100352, 64, 256, .end = ROUNDED_BIAS},
    {-1, 1024, 1024, .end = ROUNDED_BIAS},
    {-1, 1024, 1024, .end = RELU},
    {8192, 1024, 1024, .end = RELU},
    {3072, 3072, 3072, .end = RELU},
    {8192, 256, 1024, .end = RELU},
    {8192, 1024, 1024, .end = GELU},
    {8192, 256, 1024, .end = GELU},
    {-1, 768, 3072, .end = GELU},
    {-1, 3072, 768, .end = RESIDUAL},
    {8192, 1024, 1024, .end = RESIDUAL},
    {8, 128, 128, .end = ROUNDED_BIAS, .side = 28},
    {-1, 256, 256, .end = RESIDUAL, .side = 14},
    {8, 64, 64, .end = RELU, .side = 56},
    {32, 64, 64, .end = RESIDUAL, .side = 112},
    {32, 32, 32, .end = GELU, .side = 56},
    {32, 128, 32, .end = RELU, .side = 28},
    {-1, 96, 96, .end = RELU, .side = 28},
    {8192, 1024, 1024, .end = RELU, .type = TF32},
    {-1, 1024, 1024, .end = RELU, .type = TF32},
    {8, 128, 128, .end = RELU, .side = 28, .type = TF32},
    {8192, 1024, 1024, .end = RELU, .type = I8},
    {100352, 64, 256, .end = RELU, .type = I8},
    {-1, 768, 3072, .end = RESIDUAL, .type = I8},
    {8, 128, 128, .end = RESIDUAL, .side = 28, .type = I8},
    {8, 64, 64, .end = RELU, .side = 56, .type = I8},
    {8192, 1024, 1024, .end = GELU, .type = F8},
    {100352, 256, 256, .end = RELU, .type = F8},
    {-1, 768, 3072, .end = RESIDUAL, .type = F8},
    {-1, 256, 256, .end = RELU, .side = 14, .type = F8},
    {8192, 1024, 1024, .end = RELU, .type = FAST_F8},
    {8192, 1024, 1024, .end = GELU, .type = SQUARES_F8},
    {-1, 768, 3072, .end = RESIDUAL, .type = SQUARES_F8},
    {8192, 1024, 1024, .end = RELU, .type = COLUMNS_F8},
    {100352, 256, 256, .end = RELU, .type = COLUMNS_F8},
    {8192, 1024, 1024, .end = RELU, .type = SQUARES_I8},
    {-1, 768, 3072, .end = RESIDUAL, .type = COLUMNS_I8},
};
enum { PRODUCTS = sizeof products / sizeof *products };

static const struct ig_target target = {
    .isa = IG_ISA_CUDA, .vector_bytes = 64, .vector_registers = 32, .sm = 90, .sm_own = true};

static bool compile_all;

struct collection {
    struct ig_map by_key;
    IG_VEC(struct ig_source) sources;
};

/* ---- Graphs ------------------------------------------------------------------------------------------------------ */

static ig_value conv(struct ig_graph *g, const struct product *p, ig_value x) {
    const int64_t filter[] = {p->columns, p->depth, 3, 3}, ones[] = {1, 1}, taps[] = {3, 3};
    struct ig_graph *const none[2] = {NULL, NULL};
    const ig_dim padding[] = {number(g, 1), number(g, 1)};
    const struct ig_attr attrs[] = {ig_attr_of_ints(ones, 2),
                                    ig_attr_of_ints(ones, 2),
                                    ig_attr_of_dims(padding, 2),
                                    ig_attr_of_dims(padding, 2),
                                    ig_attr_of_int(1),
                                    ig_attr_of_dtype(types[p->type].acc),
                                    ig_attr_of_int(1),
                                    ig_attr_of_int(0),
                                    ig_attr_of_int(p->columns),
                                    ig_attr_of_ints(taps, 2),
                                    ig_attr_of_int(types[p->type].math),
                                    ig_attr_of_int(0)};
    const ig_value in[] = {x, random_constant(g, types[p->type].dtype, 4, filter, 1)};
    return ig_build_node(g, IG_OP_conv, in, 2, 1, attrs, none);
}

static ig_value matmul(struct ig_graph *g, const struct product *p, ig_value x) {
    const int64_t matrix[] = {p->depth, p->columns};
    struct ig_graph *const none[2] = {NULL, NULL};
    const struct ig_attr attrs[] = {ig_attr_of_dtype(types[p->type].acc), ig_attr_of_int(0), ig_attr_of_int(0),
                                    ig_attr_of_int(types[p->type].math)};
    const ig_value in[] = {x, random_constant(g, types[p->type].dtype, 2, matrix, 1)};
    return ig_build_node(g, IG_OP_matmul, in, 2, 1, attrs, none);
}

static ig_value scaled(struct ig_graph *g, const struct product *p, ig_value x) {
    enum { BLOCK = 128 };
    int64_t shared = types[p->type].shared;
    const int64_t rows[] = {p->rows, p->depth / BLOCK}, matrix[] = {p->columns, p->depth};
    const int64_t scales[] = {p->depth / BLOCK, p->columns / shared};
    return ig_build_matmul_scaled(g, x, random_constant(g, types[p->type].dtype, 2, matrix, 1),
                                  input(g, "scales", INGOT_F32, 2, rows), random_constant(g, INGOT_F32, 2, scales, 3),
                                  BLOCK, shared);
}

static ig_value ended(struct ig_graph *g, const struct product *p, ig_value y) {
    const enum ingot_dtype dtype = types[p->type].out;
    const bool rounded = p->end == ROUNDED_BIAS;
    if (rounded) y = ig_build_cast(g, ig_build_cast(g, y, dtype), INGOT_F32);
    ig_value bias = random_constant(g, rounded ? dtype : INGOT_F32, 1, &p->columns, 2);
    y = ig_map2(g, IG_OP_add, y, ig_build_cast(g, bias, INGOT_F32));
    if (p->end == RELU) return ig_map2(g, IG_OP_max, y, ig_build_scalar(g, INGOT_F32, 0));
    if (p->end == GELU) return ig_map2(g, IG_OP_mul, y, ig_map1(g, IG_OP_normcdf, y));
    if (p->end != RESIDUAL) return y;
    struct ig_type type = *ig_type_of(g, y);
    type.dtype = dtype;
    return ig_map2(g, IG_OP_add, y, ig_build_cast(g, ig_build_input(g, "residual", &type), INGOT_F32));
}

static void build_product(struct ig_graph *g, const struct product *p) {
    const int64_t sizes[] = {p->rows, p->side ? p->side : p->depth, p->side, p->depth};
    ig_value x = input(g, "x", types[p->type].dtype, p->side ? 4 : 2, sizes);
    ig_value y = p->side ? conv(g, p, x) : types[p->type].shared ? scaled(g, p, x) : matmul(g, p, x);
    if (p->type == I8) y = ig_build_cast(g, y, INGOT_F32);
    if (p->type == I8) y = ig_map2(g, IG_OP_mul, y, random_constant(g, INGOT_F32, 1, &p->columns, 2));
    y = ended(g, p, y);
    if (p->type == I8) y = ig_map1(g, IG_OP_round, y);
    ig_build_output(g, "y", ig_build_cast_saturating(g, y, types[p->type].out));
}

/* Attention in f16, of 12 heads. */
static void build_attention(struct ig_graph *g, int64_t batch, int64_t length, int64_t depth) {
    const int64_t sizes[] = {batch, 12, length, depth}, last[] = {3}, turned[] = {0, 1, 3, 2};
    ig_value q = input(g, "q", INGOT_F16, 4, sizes), k = input(g, "k", INGOT_F16, 4, sizes);
    ig_value s = ig_build_matmul(g, q, ig_build_transpose(g, k, turned), INGOT_F32);
    s = ig_map2(g, IG_OP_mul, s, ig_build_scalar(g, INGOT_F32, 0.125));
    ig_value e = ig_map1(g, IG_OP_exp, ig_map2(g, IG_OP_sub, s, ig_build_reduce(g, IG_OP_reduce_max, s, last, 1)));
    ig_value one = ig_build_scalar(g, INGOT_F32, 1), sum = ig_build_reduce(g, IG_OP_reduce_sum, e, last, 1);
    ig_value w = ig_map2(g, IG_OP_mul, e, ig_map2(g, IG_OP_div, one, sum));
    ig_value v = input(g, "v", INGOT_F16, 4, sizes);
    ig_value y = ig_build_matmul(g, ig_build_cast(g, w, INGOT_F16), v, INGOT_F32);
    ig_build_output(g, "y", ig_build_cast(g, y, INGOT_F16));
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

static bool overlaps(const struct ig_kernel *kernel) {
    return !kernel->library && (strstr(kernel->tactic, " tma") || strstr(kernel->tactic, " wgmma"));
}

/* One of each tile, and of each way to share tiles, suffices of graphs of a kind. */
static const char *key_of(struct ig_job *job, const struct ig_kernel *kernel, const char *kind, const char *name) {
    const char *end = strstr(kernel->tactic, " threads");
    if (compile_all || !end) return ig_format(job, "%s: %s", name, kernel->tactic);
    return ig_format(job, "%s: %.*s", kind, (int)(end - kernel->tactic), kernel->tactic);
}

static void add_kernel(struct ig_job *job, struct collection *c, const struct ig_kernel *kernel, const char *kind,
                       const char *name) {
    uint32_t known;
    const char *key = key_of(job, kernel, kind, name);
    if (ig_map_get_name(&c->by_key, key, &known)) return;
    ig_map_put_name(&c->by_key, key, c->sources.count);
    struct ig_source source = {.symbol = ig_format(job, "%s: %s", name, kernel->tactic)};
    source.text = ig_cuda_kernel(job, kernel, "kernel", &target);
    IG_PUSH(job, &c->sources, source);
}

/* The candidates at several values of a symbol, if there is one. */
static void add_kernels(struct ig_job *job, struct collection *c, struct ig_graph *g, const char *kind,
                        const char *name) {
    static const int64_t values[] = {64, 1024, 8192};
    const struct ig_pass_options options = {.target = &target};
    g = passes_named(g, "attend pack fuse partition", &options);
    const struct ig_region *region = &g->regions.at[g->regions.count - 1];
    for (int i = 0; i < 3; i++) {
        struct ig_sizes at;
        ig_sizes_usual(g->dims, job, &at);
        if (at.symbols.count) ig_sizes_set(&at, job, at.symbols.at[0], values[i]);
        for (int choice = 0; choice < CHOICES; choice++) {
            struct ig_sizes *own = ig_memdup(job, &at, sizeof at);
            const struct ig_kernel *kernel = ig_kernel_candidate(g, region, &target, own, choice);
            if (kernel && overlaps(kernel)) add_kernel(job, c, kernel, kind, name);
        }
    }
}

static void collect(struct ig_job *job, struct collection *c) {
    ig_map_init(&c->by_key, job);
    for (int i = 0; i < PRODUCTS; i++) {
        const struct product *p = &products[i];
        struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
        const char *kind = ig_format(job, "%s%s%s", types[p->type].name, p->side ? ", 3x3" : "", end_names[p->end]);
        build_product(g, p);
        add_kernels(job, c, g, kind,
                    ig_format(job, "%lld x %lld x %lld %s", (long long)p->rows, (long long)p->depth,
                              (long long)p->columns, kind));
    }
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    build_attention(g, 8, 512, 64);
    add_kernels(job, c, g, "attention", "attention");
}

static void check(struct ig_job *job, void *argument) {
    struct collection c = {0};
    collect(job, &c);
    nvrtc_check_losses(job, "sm_90a", c.sources.at, c.sources.count);
    *(uint32_t *)argument = c.sources.count;
}

static void products_overlap(void **state) {
    (void)state;
    struct ig_job job;
    struct ingot_error error;
    uint32_t count = 0;
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, check, &count, &error);
    ig_job_deinit(&job);
    if (status != INGOT_OK) fail_msg("%s", error.message);
    printf("%u kernels\n", count);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_overlap)};
    struct ingot_error error;
    if (!nvrtc_is_found(&error)) {
        printf("skipped: %s\n", error.message);
        return 77;
    }
    compile_all = argc > 1 && strcmp(argv[1], "--all") == 0;
    return cmocka_run_group_tests_name("wgmma", tests, NULL, NULL);
}
