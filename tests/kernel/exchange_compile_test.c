/* Kernels of collectives compile for GPUs with and without early starts: NVRTC needs no GPU. Skipped without it (INGOT_NVRTC
 * names it if the loader does not find it). */
#include "support/support.h"

#include <stdio.h>

#include "codegen/cuda/print.h"
#include "compile/estimates.h"
#include "ir/text/print.h"
#include "support/check/nvrtc_check.h"
#include "support/check/passes.h"
#include "support/device/exchange.h"

static struct exchange_kernel kernels[] = {
    {.what = {IG_ALL_REDUCE, INGOT_F16, IG_REDUCE_SUM, 0}, .ranks = 2},
    {.what = {IG_ALL_REDUCE, INGOT_BF16, IG_REDUCE_MAX, 0}, .ranks = 4},
    {.what = {IG_ALL_REDUCE, INGOT_I64, IG_REDUCE_MIN, 0}, .ranks = 3},
    {.what = {IG_REDUCE_SCATTER, INGOT_F64, IG_REDUCE_SUM, 0}, .ranks = 2},
    {.what = {IG_REDUCE_SCATTER, INGOT_U32, IG_REDUCE_MAX, 0}, .ranks = 2, .multiple = 4},
    {.what = {IG_ALL_GATHER, INGOT_U8, 0, 0}, .ranks = 3},
    {.what = {IG_ALL_TO_ALL, INGOT_F32, 0, 0}, .ranks = 4, .multiple = 2},
    {.what = {IG_BROADCAST, INGOT_BOOL, 0, 1}, .ranks = 2},
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

/* A decoder's residual and norm behind the sum, of rows whose number is known when they run. */
static const char layer[] =
    "graph {\n  input %0 \"x\": f16[n,4096]\n  input %1 \"r\": f16[n,4096]\n  input %2 \"w\": f16[1,4096]\n"
    "  %3 = neg(%0): f16[n,4096]\n"
    "  %4 = all_reduce(%3) {number=0, ranks=4, reduction=0}: f16[n,4096]\n"
    "  %5 = add(%1, %4): f16[n,4096]\n  %6 = mul(%5, %5): f16[n,4096]\n  %7 = reduce_mean(%6) {axes=[1]}: f16[n,1]\n"
    "  %8 = sqrt(%7): f16[n,1]\n  %9 = div(%5, %8): f16[n,4096]\n  %10 = mul(%9, %2): f16[n,4096]\n"
    "  output \"h\" = %5\n  output \"y\" = %10\n}\n";

static const char *text_of_rows(struct ig_job *job, int sm) {
    const struct ig_target target = {.isa = IG_ISA_CUDA, .vector_bytes = 64, .vector_registers = 32, .sm = sm};
    const struct ig_pass_options options = {.target = &target, .estimator = ig_estimates_open(job, &target)};
    struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), layer, sizeof layer - 1);
    g = passes_named(g, "fuse", &options);
    for (uint32_t r = 0; r < g->regions.count; r++) {
        const struct ig_region *joined = g->regions.at[r].joined;
        if (joined) return ig_cuda_kernel(job, ig_kernel_make(g, joined, &target), "rows", &target);
    }
    ig_raise(job, INGOT_INTERNAL, "nothing is joined with the sum");
}

static void compile(struct ig_job *job, void *argument) {
    static const struct {
        const char *name;
        int sm;
    } archs[] = {{"sm_80", 80}, {"sm_90a", 90}};
    struct ig_source sources[KERNELS + 1];
    for (size_t a = 0; a < sizeof archs / sizeof *archs; a++) {
        for (int i = 0; i < KERNELS; i++) {
            kernels[i].sm = archs[a].sm;
            sources[i] = (struct ig_source){.symbol = ig_collective_name(kernels[i].what.kind),
                                            .text = exchange_text(job, &kernels[i], 0, "kernel")};
        }
        sources[KERNELS] = (struct ig_source){.symbol = "rows", .text = text_of_rows(job, archs[a].sm)};
        assert_true(nvrtc_check(job, archs[a].name, sources, KERNELS + 1) > 0);
    }
}

static void kernels_compile(void **state) {
    struct ig_job job;
    struct ingot_error error;
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, compile, NULL, &error);
    ig_job_deinit(&job);
    if (status != INGOT_OK) fail_msg("%s", error.message);
}

int main(void) {
    struct ingot_error error;
    if (!nvrtc_is_found(&error)) {
        printf("skipped: %s\n", error.message);
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_compile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
