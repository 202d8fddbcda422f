/*
 * Expected times beside measured ones: expect.txt has kernels of the zoo that were measured on an H100 (attentions: on an H200), with
 * what their estimates depend on. And what estimates depend on, of a few graphs.
 *
 * The table holds what was counted when it was made: a change of the cost models or of the loops that kernels consist of shows in
 * bench/counted, one of kernel/expect.c here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/cpu_time.h"
#include "ir/text/print.h"
#include "kernel/cost.h"
#include "kernel/expect.h"
#include "pass/fuse/regions.h"
#include "pass/passes.h"
#include "support/support.h"

#define TABLE TEST_SOURCE_DIR "/tests/kernel/expect.txt"
#define NEAR 1.3

/* An H100 in its socket: the memory is slower than that of the H200 that stands for sm_90. */
static struct ig_machine h100(void) {
    return ig_machine_of_gpu(&(struct ig_gpu_figures){.sm = 90, .memory = 3.35e6, .cache_bytes = 50e6});
}

/* A line of the table; false for others. */
static bool read_line(const char *line, char part[16], double *out_us, struct ig_expect *e) {
    int kind, first, windows, split, filled;
    *e = (struct ig_expect){0};
    int n =
        sscanf(line, "%15s %*s %*s %lf %d %d %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf %d %d %d",
               part, out_us, &kind, &first, &e->model, &e->loops, &e->tiles, &e->threads, &e->resident, &e->issues,
               &e->lines, &e->turns, &e->moved, &e->once, &e->far, &e->near, &e->operations, &e->steps, &e->state,
               &e->pieces, &windows, &split, &filled);
    if (n != 23) return false;
    assert_in_range(kind, IG_EXPECT_MAP, IG_EXPECT_KINDS - 1);
    e->kind = (enum ig_expect_kind)kind;
    e->first = first;
    e->windows = windows;
    e->split = split;
    e->filled = filled;
    return true;
}

/* The share of the part's kernels whose estimate is within 30% of the measured time. */
static double near_share(const char *wanted, struct ig_machine machine, int *out_count) {
    char line[1000], part[16];
    int count = 0, near = 0, all[IG_EXPECT_KINDS] = {0}, good[IG_EXPECT_KINDS] = {0};
    FILE *file = fopen(TABLE, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        struct ig_expect e;
        double us;
        if (line[0] == '#') continue;
        if (!read_line(line, part, &us, &e)) fail_msg("not a line of the table: %s", line);
        if (strcmp(part, wanted) != 0) continue;
        double time = ig_expect_time(&e, &machine);
        bool is_near = time < NEAR * us && us < NEAR * time;
        count++;
        near += is_near;
        all[e.kind]++;
        good[e.kind] += is_near;
    }
    fclose(file);
    for (int k = 0; k < IG_EXPECT_KINDS; k++)
        if (all[k])
            print_message("%-10s %-24s %3d of %3d\n", wanted, ig_expect_kind_name((enum ig_expect_kind)k), good[k],
                          all[k]);
    *out_count = count;
    return count ? (double)near / count : 0;
}

static void nine_of_ten_confirmed_times(void **state) {
    (void)state;
    int count;
    double share = near_share("confirmed", h100(), &count);
    assert_int_equal(count, 428);
    if (share < 0.9) fail_msg("%.3f of the confirmed kernels are within 30%%", share);
}

/* One in four is not, most of these because a single profile does not tell short kernels' times better than to a microsecond. */
static void three_of_four_of_all_times(void **state) {
    (void)state;
    int count;
    double share = near_share("any", h100(), &count);
    assert_true(count > 300);
    if (share < 0.75) fail_msg("%.3f of all kernels are within 30%%", share);
}

/* The attention of four networks, as its kernels are since they take all keys at once. */
static void all_of_attention(void **state) {
    (void)state;
    static const struct ig_target h200 = {.isa = IG_ISA_CUDA, .sm = 90, .sm_own = true};
    int count;
    double share = near_share("attention", ig_target_machine(&h200, 0), &count);
    assert_int_equal(count, 8);
    if (share < 1) fail_msg("%.3f of the attentions are within 30%%", share);
}

/* ---- What it depends on ------------------------------------------------------------------------------------------- */

struct case_of_graph {
    const char *nodes;
    enum ig_expect_kind kind; /* of the first region */
};

static void estimate(struct ig_job *job, void *argument) {
    const struct case_of_graph *c = argument;
    const struct ig_target target = {
        .isa = IG_ISA_CUDA, .vector_bytes = 32, .vector_registers = 16, .sm = 90, .sm_own = true};
    const struct ig_pass_options options = {.target = &target};
    const char *text = ig_format(job, "graph {\n%s}\n", c->nodes);
    struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), text, strlen(text));
    g = ig_pass_fuse(ig_pass_pack(g, &options), &options);
    const struct ig_region *region = &g->regions.at[0];
    struct ig_region_demand symbolic;
    struct ig_sizes at;
    struct ig_expect e;
    ig_sizes_usual(g->dims, job, &at);
    ig_region_demand(g, region, &symbolic);
    const struct ig_demand demand = ig_region_demand_at(&symbolic, &at);
    const struct ig_kernel *kernel = ig_kernel_candidate(g, region, &target, NULL, 0);
    const struct ig_machine slow = h100(), fast = ig_target_machine(&target, 1);
    ig_expect_of(kernel, &demand, 1e9, &slow, &at, &e);
    if (e.kind != c->kind)
        ig_raise(job, INGOT_INTERNAL, "'%s' is taken for %s", kernel->tactic, ig_expect_kind_name(e.kind));
    double time = ig_expect_time(&e, &slow), faster = ig_expect_time(&e, &fast);
    struct ig_floor floor = ig_floor_of(&slow, &demand, 1e9);
    if (time < floor.time || time > 1000) ig_raise(job, INGOT_INTERNAL, "%g us, the floor is %g", time, floor.time);
    if (faster > time) ig_raise(job, INGOT_INTERNAL, "%g us, %g on a faster memory", time, faster);
    e.first = true;
    if (ig_expect_time(&e, &slow) <= time) ig_raise(job, INGOT_INTERNAL, "the first kernel takes no longer");
}

static void estimates_follow_from_kernels(void **state) {
    (void)state;
    static const struct case_of_graph cases[] = {
        {"  input %0 \"x\": f16[4096,4096]\n  %1 = exp(%0): f16[4096,4096]\n  output \"y\" = %1\n", IG_EXPECT_MAP},
        {"  input %0 \"x\": f32[4096,512]\n  %1 = reduce_max(%0) {axes=[1]}: f32[4096,1]\n  output \"y\" = %1\n",
         IG_EXPECT_ROWS},
        {"  input %0 \"x\": f32[512,4096]\n  %1 = reduce_max(%0) {axes=[0]}: f32[1,4096]\n  output \"y\" = %1\n",
         IG_EXPECT_COLUMNS},
        {"  input %0 \"x\": f16[512,1024]\n  input %1 \"y\": f16[1024,2048]\n"
         "  %2 = matmul(%0, %1) {acc=f32, packed=0, n=2048, math=0}: f32[512,2048]\n  output \"z\" = %2\n",
         IG_EXPECT_TURNS},
        {"  input %0 \"x\": f16[1,4096]\n  %1 = constant() {data=hash:0000000000000001, initializer=\"w\"}: "
         "u8[4096,4096]\n  %2 = constant() {data=hash:0000000000000002, initializer=\"scale\"}: f32[4096,32]\n"
         "  %3 = matmul_blocks(%0, %1, %2) {acc=f32, bits=4, block=128, offset=8, packed=0, n=0}: f32[1,4096]\n"
         "  output \"y\" = %3\n",
         IG_EXPECT_CODES},
        {"  input %0 \"x\": f16[32,28,28,192]\n  input %1 \"w\": f16[7,7,192]\n"
         "  %2 = conv(%0, %1) {strides=[1,1], dilations=[1,1], before=[3,3], after=[3,3], groups=192, acc=f32, "
         "channels_last=1, packed=1, n=192, kernel=[7,7], math=0, border=0}: f32[32,28,28,192]\n  output \"y\" = %2\n",
         IG_EXPECT_BANDED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ig_job job;
        struct ingot_error error = {0};
        struct case_of_graph c = cases[i];
        ig_job_init(&job, &ig_libc_allocator);
        if (ig_job_run(&job, estimate, &c, &error)) fail_msg("%s%s", c.nodes, error.message);
        ig_job_deinit(&job);
    }
}

/* Of a machine whose rates are those of all its threads. */
static void follows_its_rates(uint64_t features) {
    const struct ig_machine one = ig_machine_of_cpu(features, 1), two = ig_machine_of_cpu(features, 2);
    struct ig_demand demand = {.constants = 1e6, .reads = 1e6, .writes = 1e6};
    demand.operations[IG_UNIT_F32] = 1e9, demand.operations[IG_UNIT_SIMPLE] = 1e7,
    demand.operations[IG_UNIT_SPECIAL] = 1e6;
    assert_true(ig_cpu_time(IG_CPU_UNKNOWN, &one, &demand, 1e6, 100) == 0);
    for (int i = IG_CPU_UNKNOWN + 1; i < IG_CPU_KINDS; i++) {
        const enum ig_cpu_kind kind = (enum ig_cpu_kind)i;
        struct ig_machine slow = two;
        double alone = ig_cpu_time(kind, &one, &demand, 1e6, 100), both = ig_cpu_time(kind, &two, &demand, 1e6, 100);
        assert_true(both > 0.499 * alone && both < 0.51 * alone);
        /* What is one tile, one thread computes, and so does nobody agree. */
        assert_float_equal(ig_cpu_time(kind, &two, &demand, 1e6, 1), alone, 1e-6 * alone);
        slow.memory /= 2;
        assert_float_equal(ig_cpu_time(kind, &slow, &demand, 1e6, 100), both, 1e-9); /* all weights fit the cache */
        assert_true(ig_cpu_time(kind, &slow, &demand, 1e9, 100) > ig_cpu_time(kind, &two, &demand, 1e9, 100));
        slow.cache /= 2;
        assert_true(ig_cpu_time(kind, &slow, &demand, 1e6, 100) > both);
    }
}

static void processors_follow_their_rates(void **state) {
    (void)state;
    follows_its_rates(IG_CPU_X86_64_V4);
    follows_its_rates(IG_CPU_X86_64_V4 | IG_CPU_AMX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processors_follow_their_rates), cmocka_unit_test(nine_of_ten_confirmed_times),
        cmocka_unit_test(three_of_four_of_all_times),    cmocka_unit_test(all_of_attention),
        cmocka_unit_test(estimates_follow_from_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
