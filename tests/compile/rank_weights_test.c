/*
 * What devices with memory of their own get of an engine's weights: each rank's those that it reads, of an engine for several numbers of
 * ranks, and what it has put together of them; and the same again after weights were replaced. The device is
 * support/device/remote_device.h, of which the host cannot read the memory by mistake.
 */
#include <stdlib.h>
#include <string.h>

#include "compile/compile.h"
#include "engine/engine.h"
#include "runtime/resident.h"
#include "support/device/remote_device.h"
#include "support/plan/engine_bytes.h"
#include "support/random/random_values.h"
#include "support/support.h"

/* A tied table, a layer whose rows are dealt out and put together, and one that is whole. */
static const char network[] = "symbol n from 1 to 64\ngraph {\n  input %0 \"ids\": i64[n]\n"
                              "  %1 = constant() {data=hash:00000000deadbee1, initializer=\"words\"}: f32[30522,64]\n"
                              "  %2 = constant() {data=hash:00000000deadbee2, initializer=\"up\"}: f32[64,512]\n"
                              "  %3 = constant() {data=hash:00000000deadbee3, initializer=\"down\"}: f32[512,64]\n"
                              "  %4 = constant() {data=hash:00000000deadbee4, initializer=\"bias\"}: f32[64]\n"
                              "  %5 = gather(%1, %0) {axis=0}: f32[n,64]\n"
                              "  %6 = matmul(%5, %2) {acc=f32, packed=0, n=0, math=0}: f32[n,512]\n"
                              "  %7 = tanh(%6): f32[n,512]\n"
                              "  %8 = matmul(%7, %3) {acc=f32, packed=0, n=0, math=0}: f32[n,64]\n"
                              "  %9 = add(%8, %4): f32[n,64]\n"
                              "  %10 = transpose(%1) {perm=[1,0]}: f32[64,30522]\n"
                              "  %11 = matmul(%9, %10) {acc=f32, packed=0, n=0, math=0}: f32[n,30522]\n"
                              "  output \"y\" = %11\n}\n";

static struct ig_engine_file file;
static struct ig_resident_store store;
static struct ingot_error error;

static void check(enum ingot_status status) {
    if (status != INGOT_OK) fail_msg("%s", error.message);
}

static enum ingot_status open_device(int ordinal, const struct ingot_allocator *allocator,
                                     struct ig_device **out_device, struct ingot_error *e) {
    return remote_device_create(1, allocator, out_device, e);
}

static const struct ig_weight_set *host_set(void) {
    return atomic_load(&store.host.current);
}

/* The bytes of the weights that a rank reads, of which each must be as the host's. */
static uint64_t compare(const struct ig_resident *resident, uint32_t ranks, uint32_t rank) {
    const struct ig_plan *p = &file.plan;
    const struct ig_subplan *sub = &p->subplans[ig_plan_rank_subplan(p, ranks, rank)];
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sub->n_buffers; i++) {
        const struct ig_plan_buffer *b = &p->buffers[sub->buffers + i];
        if (b->kind != IG_PLAN_WEIGHT) continue;
        const size_t size = ig_plan_fixed_bytes(p, b);
        const uint64_t at = 64 * (uint64_t)b->index;
        void *found = malloc(size);
        remote_device_read(found, ig_weight_address(resident->weights, at), size);
        assert_memory_equal(found, ig_weight_address(&host_set()->places, at), size);
        free(found);
        sum += (size + 63) / 64 * 64;
    }
    return sum;
}

/* Adds `by` to all bytes of these weights. */
static void refit(const bool *stale, int by) {
    const struct ig_weight_change change = {.stale = stale};
    struct ig_weight_set *set;
    check(ig_resident_store_refit_begin(&store, &change, &set, &error));
    for (uint32_t i = 0; i < file.refit.n_weights; i++) {
        const struct ig_weight_entry *w = &file.refit.weights[i];
        unsigned char *to = ig_weight_address(&set->places, w->offset);
        const unsigned char *from = ig_weight_address(&host_set()->places, w->offset);
        for (uint64_t k = 0; stale[i] && k < w->size; k++)
            to[k] = (unsigned char)(from[k] + by);
    }
    check(ig_resident_store_refit_commit(&store, &change, set, &error));
}

/* All, then single ones, in the sets' turns. */
static void refit_all(struct ig_resident *residents, uint32_t ranks) {
    bool *stale = calloc(file.refit.n_weights, sizeof *stale);
    for (uint32_t turn = 0; turn <= file.refit.n_weights; turn++) {
        for (uint32_t i = 0; i < file.refit.n_weights; i++)
            stale[i] = turn == 0 || i == turn - 1;
        refit(stale, (int)turn + 1);
        for (uint32_t r = 0; r < ranks; r++) {
            assert_true(ig_resident_is_old(&residents[r]));
            ig_resident_store_switch(&store, &residents[r]);
            compare(&residents[r], ranks, r);
        }
    }
    free(stale);
}

/* Ranks of one process, each on a device of its own, and the last one beside the first. */
static void check_ranks(uint32_t ranks) {
    struct ig_resident residents[4], beside;
    uint64_t whole = 0;
    file.seats = (struct ig_plan_seats){ranks, 0, ranks};
    for (uint32_t i = 0; i < file.refit.n_weights; i++)
        whole += file.refit.weights[i].size;
    ig_resident_store_init(&store, &file, &ig_libc_allocator);
    for (uint32_t r = 0; r < ranks; r++) {
        (void)remote_device_peak();
        const size_t before = remote_device_peak();
        check(ig_resident_store_get(&store, open_device, (int)r, r, &residents[r], &error));
        const uint64_t read = compare(&residents[r], ranks, r);
        assert_int_equal(remote_device_peak() - before, residents[r].set->size);
        assert_in_range(residents[r].set->size, read * 9 / 10, read); /* weights may be read by two names */
        assert_in_range(residents[r].set->size * ranks * 10, 0, whole * 11);
    }
    check(ig_resident_store_get(&store, open_device, 0, ranks - 1, &beside, &error));
    assert_true(ranks == 1 ? beside.set == residents[0].set : beside.set != residents[0].set);
    compare(&beside, ranks, ranks - 1);
    refit_all(residents, ranks);
    ig_resident_store_switch(&store, &beside);
    compare(&beside, ranks, ranks - 1);
    ig_resident_store_put(&store, &beside);
    for (uint32_t r = 0; r < ranks; r++)
        ig_resident_store_put(&store, &residents[r]);
    ig_resident_store_deinit(&store);
}

static void build(struct ig_job *job, void *argument) {
    static const unsigned ranks[] = {1, 2, 4};
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    struct engine_bytes bytes;
    options.ranks = ranks;
    options.n_ranks = 3;
    options.sharding = "tensor";
    struct ig_graph *g = random_values_graph(job, network, NULL);
    const struct random_values values = random_values_change(job, g->initializers, 1, false);
    struct ig_engine_sink sink = engine_bytes_sink(&bytes, job);
    ig_compile(job, random_values_graph(job, network, &values), &options, &sink);
    if (ig_engine_open_memory(bytes.data, bytes.size, INGOT_VERIFY_ALL, &ig_libc_allocator, &file, &error))
        ig_raise_error(job, &error);
    assert_true(file.plan.n_copies > 0);
    for (size_t i = 0; i < 3; i++)
        check_ranks(ranks[i]);
    ig_engine_close(&file);
}

static void test_devices(void **state) {
    struct ig_job job;
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, build, NULL, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_devices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
