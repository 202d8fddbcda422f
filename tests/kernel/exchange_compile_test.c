/* Kernels of collectives compile for GPUs with and without early starts: NVRTC needs no GPU. Skipped without it (INGOT_NVRTC
 * names it if the loader does not find it). */
#include "support/support.h"

#include <stdio.h>

#include "support/check/nvrtc_check.h"
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

static void compile(struct ig_job *job, void *argument) {
    static const struct {
        const char *name;
        int sm;
    } archs[] = {{"sm_80", 80}, {"sm_90a", 90}};
    struct ig_source sources[KERNELS];
    for (size_t a = 0; a < sizeof archs / sizeof *archs; a++) {
        for (int i = 0; i < KERNELS; i++) {
            kernels[i].sm = archs[a].sm;
            sources[i] = (struct ig_source){.symbol = ig_collective_name(kernels[i].what.kind),
                                            .text = exchange_text(job, &kernels[i], 0, "kernel")};
        }
        assert_true(nvrtc_check(job, archs[a].name, sources, KERNELS) > 0);
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
