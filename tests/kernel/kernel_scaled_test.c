/*
 * Products whose sums are scaled block by block along the depth (matmul_scaled), by every kind of kernel: floats of 8 bits and bytes, sizes
 * that fit nothing, scales for each column and for 128 of them; NaN, infinities, zeros and large and small numbers among the scales.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/print.h"
#include "support/check/kernel_cases.h"
#include "support/check/nvrtc_check.h"
#include "support/check/passes.h"

enum scales { ORDINARY, HOSTILE, LARGE, SMALL };

struct product {
    int64_t rows, depth, columns; /* rows -1 … -4: a symbol (kernel_cases.h) */
    enum ingot_dtype a, b;
    int64_t shared; /* columns that share a scale */
    enum scales scales;
    bool turned; /* the rows' scales lie block by block; the operand has three axes */
    bool ended;  /* with a bias and a residual, rounded to f16 */
    /* How many kernels with tensor maps, and of all in the cost model's order. */
    int maps, first;
};

#define E4M3 .a = INGOT_F8E4M3FN, .b = INGOT_F8E4M3FN
#define E5M2 .a = INGOT_F8E5M2, .b = INGOT_F8E4M3FN
#define S8 .a = INGOT_I8, .b = INGOT_I8
#define U8S8 .a = INGOT_U8, .b = INGOT_I8

static const struct product products[] = {
    {300, 384, 288, E4M3, .shared = 128, .maps = 9, .first = 8, .ended = true},
    {300, 256, 288, E4M3, .shared = 1, .maps = 9, .first = 4, .ended = true},
    {300, 512, 136, E5M2, .shared = 128, .maps = 2, .first = 2},
    {-4, 1024, 192, E4M3, .shared = 1, .maps = 3, .first = 2},
    {-1, 512, 200, E4M3, .shared = 128, .maps = 1, .first = 2, .turned = true},
    {130, 144, 72, E4M3, .shared = 128, .first = 2},
    {20, 67, 41, E4M3, .shared = 1, .first = 2},
    {1, 128, 1, E4M3, .shared = 1, .first = 1},
    {1, 1, 1, E4M3, .shared = 1, .first = 1},
    {1, 1000, 130, E5M2, .shared = 128, .first = 2},
    {3, 2048, 64, E4M3, .shared = 1, .first = 3}, /* depths divided among blocks */
    {70, 400, 129, E4M3, .shared = 128, .scales = HOSTILE, .maps = 1, .first = 2},
    {70, 400, 129, E4M3, .shared = 1, .scales = HOSTILE, .maps = 1, .first = 2},
    {70, 384, 136, E4M3, .shared = 1, .scales = LARGE, .maps = 1, .first = 1},
    {70, 384, 136, E4M3, .shared = 128, .scales = SMALL, .maps = 1, .first = 1},
    {300, 384, 288, S8, .shared = 128, .maps = 9, .first = 8, .ended = true},
    {300, 256, 288, U8S8, .shared = 1, .maps = 4, .first = 4},
    {-4, 512, 192, .a = INGOT_I8, .b = INGOT_U8, .shared = 1, .maps = 2, .first = 2},
    {20, 200, 41, U8S8, .shared = 1, .first = 2, .turned = true},
    {3, 1030, 7, S8, .shared = 1, .scales = HOSTILE, .first = 3},
    {1, 127, 5, S8, .shared = 1, .scales = LARGE, .first = 1},
};

/* The same for kernels that compute elements one by one: on processors, and where blocks are not those of tensor cores' steps. */
static const struct product plain[] = {
    {5, 300, 9, E4M3, .shared = 1},
    {-2, 200, 130, U8S8, .shared = 64, .scales = HOSTILE},
    {3, 129, 300, E5M2, .shared = 128, .turned = true, .ended = true},
};

static ig_value scale_constant(struct ig_graph *g, const struct product *p, int64_t blocks) {
    static const float hostile[] = {NAN, INFINITY, -INFINITY, 0, -0.0f, 1e-40f, 3e38f, -1e-30f};
    const int64_t dims[] = {blocks, (p->columns + p->shared - 1) / p->shared}, count = dims[0] * dims[1];
    float *scales = IG_NEW_ARRAY(g->job, float, count);
    for (int64_t i = 0; i < count; i++) {
        float x = (float)(i * 29 % 37 + 1) / 37;
        bool odd = p->scales == HOSTILE && i % 5 == 2;
        scales[i] = odd ? hostile[i / 5 % 8] : p->scales == LARGE ? x * 1e30f : p->scales == SMALL ? x * 1e-36f : x;
    }
    struct ig_data data = {.bytes = scales, .size = (size_t)count * sizeof *scales};
    return ig_build_constant(g, INGOT_F32, 2, dims, ig_memdup(g->job, &data, sizeof data));
}

static void build_blocks(struct ig_graph *g, const struct product *p, int64_t block) {
    int64_t blocks = (p->depth + block - 1) / block;
    const int64_t matrix[] = {p->rows, p->depth}, images[] = {2, p->rows, p->depth}, weights[] = {p->columns, p->depth};
    const int64_t rows[] = {p->rows, blocks}, turned[] = {2, blocks, p->rows}, order[] = {0, 2, 1};
    ig_value x = input(g, "x", p->a, p->turned ? 3 : 2, p->turned ? images : matrix);
    ig_value row = input(g, "row", INGOT_F32, p->turned ? 3 : 2, p->turned ? turned : rows);
    if (p->turned) row = ig_build_transpose(g, row, order);
    ig_value w = random_constant(g, p->b, 2, weights, 1), column = scale_constant(g, p, blocks);
    ig_value y = ig_build_matmul_scaled(g, x, w, row, column, block, p->shared);
    if (p->ended) {
        struct ig_type type = *ig_type_of(g, y);
        y = ig_map2(g, IG_OP_add, y, random_constant(g, INGOT_F32, 1, &p->columns, 3));
        y = ig_map2(g, IG_OP_add, y, ig_build_input(g, "residual", &type));
        y = ig_build_cast(g, y, INGOT_F16);
    }
    ig_build_output(g, "y", y);
}

static void build(struct ig_graph *g, const void *argument) {
    build_blocks(g, argument, 128);
}

static void build_short(struct ig_graph *g, const void *argument) {
    build_blocks(g, argument, 48);
}

static void add(const struct product *p, void (*how)(struct ig_graph *, const void *), unsigned flags,
                const char *kind) {
    static const int64_t sizes[] = {2, 9, 33, 257};
    if (p->scales == HOSTILE) flags |= GRAPH_POISON;
    struct graph_case *added =
        add_named_case(how, p, flags, sizes, "%lld x %lld x %lld, %s x %s, %lld%s, %s", (long long)p->rows,
                       (long long)p->depth, (long long)p->columns, ingot_dtype_name(p->a), ingot_dtype_name(p->b),
                       (long long)p->shared, p->scales ? " other scales" : "", kind);
    added->tolerance = sum_tolerance(p->ended ? INGOT_F16 : INGOT_F32);
}

static void test_tensor_cores(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        const struct product *p = &products[i];
        for (int choice = 0; choice < p->maps; choice++)
            add(p, build, GRAPH_MAPS | (unsigned)choice * GRAPH_CHOICE, "map");
        for (int choice = 0; choice < p->first; choice++)
            add(p, build, (unsigned)choice * GRAPH_CHOICE, "all");
    }
    check_all_for_cuda();
}

static void test_plain(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        add(&plain[i], build, 0, "plain");
        add(&plain[i], build_short, 0, "plain, blocks of 48");
    }
    check_all();
}

/* ---- On GPUs of every generation ---- */

/* One product of each pair of types. */
static const struct product compiled[] = {
    {300, 384, 288, E4M3, .shared = 128, .ended = true},
    {-4, 1024, 192, E5M2, .shared = 1},
    {300, 384, 288, S8, .shared = 128, .ended = true},
    {20, 200, 41, U8S8, .shared = 1, .turned = true},
};

static void compile(struct ig_job *job, void *argument) {
    enum { CHOICES = 6, FIRST_FLOAT8_SM = 89 };
    const char *arch = argument;
    IG_VEC(struct ig_source) sources = {0};
    struct ig_target target = {.isa = IG_ISA_CUDA, .vector_bytes = 64, .vector_registers = 32};
    target.sm = atoi(arch + 3);
    target.sm_own = strchr(arch, 'a') != NULL;
    const struct ig_pass_options options = {.target = &target};
    for (size_t i = 0; i < sizeof compiled / sizeof *compiled; i++) {
        struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
        const struct ig_kernel *kernel;
        build(g, &compiled[i]);
        g = passes_named(g, "fuse partition", &options);
        const struct ig_region *region = &g->regions.at[g->regions.count - 1];
        bool integers = compiled[i].b == INGOT_I8;
        for (int c = 0; c < CHOICES && (kernel = ig_kernel_candidate(g, region, &target, NULL, c)); c++) {
            /* Never one by one where the tensor cores multiply such numbers. */
            assert_int_equal(kernel->gemm != NULL, integers || target.sm >= FIRST_FLOAT8_SM);
            const char *name = ig_format(job, "scaled_%d_%d", (int)i, c);
            IG_PUSH(job, &sources, (struct ig_source){name, ig_cuda_kernel(job, kernel, "kernel", &target)});
        }
    }
    nvrtc_check(job, arch, sources.at, sources.count);
}

static void test_compiles(void **state) {
    static const char *const archs[] = {"sm_80", "sm_89", "sm_90a", "sm_100"};
    (void)state;
    nvrtc_check_archs(compile, archs, sizeof archs / sizeof *archs);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tensor_cores), cmocka_unit_test(test_plain),
                                       cmocka_unit_test(test_compiles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
