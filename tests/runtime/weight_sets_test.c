/*
 * New weights for contexts that run, on a device with memory of its own that does its work as late as it may
 * (support/device/remote_device.h): runs in flight have the old weights, later ones the new ones, and where a call fails
 * all stays as it was.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/context/context.h"
#include "runtime/resident.h"
#include "support/counting_allocator.h"
#include "support/device/faults.h"
#include "support/device/remote_device.h"
#include "support/plan/tiny_plan.h"
#include "support/support.h"

enum { N = 100, WEIGHTS = 3 };

struct bench {
    struct tiny_plan tiny;
    struct ig_engine_file file;
    struct counting_allocator allocator;
    struct ig_resident_store store;
    struct ingot_error error;
};

/* A context as ingot_context_create makes it. */
struct user {
    struct ig_device *device;
    struct ig_resident resident;
    struct ig_context *context;
    int ordinal;
    float x[N];
};

static struct bench b;
static const struct ig_weight_entry table[WEIGHTS] = {
    {.offset = 0, .size = 4, .recipe_size = 1, .n_sources = 1},
    {.offset = 64, .size = 4, .recipe_size = 1, .n_sources = 1},
    {.offset = 128, .size = 8},
};
static const bool both[WEIGHTS] = {true, true, false}, only_first[WEIGHTS] = {true, false, false};
static bool with_faults;

static void scale(void *const *buffer, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    for (int64_t i = begin; i < end; i++)
        ((float *)buffer[2])[i] = ((const float *)buffer[0])[i] * *(const float *)buffer[1];
}

static void shift(void *const *buffer, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    for (int64_t i = begin; i < end; i++)
        ((float *)buffer[2])[i] = ((const float *)buffer[0])[i] + *(const float *)buffer[1];
}

static enum ingot_status open_device(int ordinal, const struct ingot_allocator *allocator,
                                     struct ig_device **out_device, struct ingot_error *error) {
    enum ingot_status status = remote_device_create(1, allocator, out_device, error);
    if (status == INGOT_OK && with_faults) faults_add(*out_device);
    return status;
}

/* y = x * 2 + 10 */
static void begin(void) {
    memset(&b, 0, sizeof b);
    tiny_init(&b.tiny);
    uint32_t first = tiny_kernel(&b.tiny, "scale", scale), second = tiny_kernel(&b.tiny, "shift", shift);
    ig_slot n = tiny_symbol(&b.tiny, "n", 0, 0, 0, INT32_MAX),
            bytes = tiny_op(&b.tiny, IG_SHAPE_MUL, n, tiny_const(&b.tiny, 4));
    tiny_subplan(&b.tiny);
    uint32_t x = tiny_input(&b.tiny, "x", INGOT_F32, 1, &n), y = tiny_output(&b.tiny, "y", INGOT_F32, 1, &n);
    uint32_t w0 = tiny_weight(&b.tiny, 0, (const float[]){2}, 1), w1 = tiny_weight(&b.tiny, 1, (const float[]){10}, 1);
    uint32_t middle = tiny_arena(&b.tiny, bytes);
    tiny_launch(&b.tiny, first, n, (const uint32_t[]){x, w0, middle}, 3, &n, 1);
    tiny_launch(&b.tiny, second, n, (const uint32_t[]){middle, w1, y}, 3, &n, 1);
    b.file = tiny_file(&b.tiny);
    b.file.refit = (struct ig_refit_tables){.n_weights = WEIGHTS, .weights = table};
    counting_allocator_init(&b.allocator);
    ig_resident_store_init(&b.store, &b.file, &b.allocator.base);
}

static void end(void) {
    ig_resident_store_deinit(&b.store);
    assert_int_equal(b.allocator.live_count, 0);
}

static void check(enum ingot_status status) {
    if (status != INGOT_OK) fail_msg("%s", b.error.message);
}

static void join(struct user *u, int ordinal) {
    *u = (struct user){.ordinal = ordinal};
    for (int i = 0; i < N; i++)
        u->x[i] = (float)i;
    check(open_device(ordinal, &b.allocator.base, &u->device, &b.error));
    check(ig_resident_store_get(&b.store, open_device, ordinal, 0, &u->resident, &b.error));
    struct ig_context_config config = {.allocator = &b.allocator.base,
                                       .device = u->device,
                                       .weights = u->resident.weights,
                                       .module = u->resident.module,
                                       .max_instances = 4,
                                       .max_bytes = SIZE_MAX};
    check(ig_context_create(&b.file, &config, &u->context, &b.error));
}

static void leave(struct user *u) {
    ig_context_destroy(u->context);
    ig_resident_store_put(&b.store, &u->resident);
    ig_device_release(u->device);
}

/* As ingot_context_enqueue does. */
static void enqueue(struct user *u, int64_t n) {
    struct ingot_tensor x = {INGOT_F32, 1, {n}, u->x, INGOT_HOST};
    if (ig_resident_is_old(&u->resident)) {
        check(ig_context_set_weights(u->context, NULL, &b.error));
        ig_resident_store_switch(&b.store, &u->resident);
        check(ig_context_set_weights(u->context, u->resident.weights, &b.error));
    }
    check(ig_context_set_input(u->context, 0, &x, &b.error));
    check(ig_context_enqueue(u->context, NULL, &b.error));
}

static void expect(struct user *u, int64_t n, float factor, float term) {
    struct ingot_tensor y;
    check(ig_context_wait(u->context, &b.error));
    check(ig_context_output(u->context, 0, &y, &b.error));
    for (int64_t i = 0; i < n; i++)
        assert_true(((const float *)y.data)[i] == u->x[i] * factor + term);
}

static void run(struct user *u, int64_t n, float factor, float term) {
    enqueue(u, n);
    expect(u, n, factor, term);
}

/* borrowed: by weight, the caller's memory on device 0; NULL: none. */
static enum ingot_status try_lending(const bool *stale, const void *const *borrowed, float factor, float term) {
    const struct ig_weight_change change = {stale, borrowed, 0};
    struct ig_weight_set *set;
    enum ingot_status status = ig_resident_store_refit_begin(&b.store, &change, &set, &b.error);
    if (status != INGOT_OK) return status;
    if (stale[0]) memcpy(ig_weight_address(&set->places, 0), &factor, sizeof factor);
    if (stale[1]) memcpy(ig_weight_address(&set->places, 64), &term, sizeof term);
    return ig_resident_store_refit_commit(&b.store, &change, set, &b.error);
}

static enum ingot_status try_refit(const bool *stale, float factor, float term) {
    return try_lending(stale, NULL, factor, term);
}

/* ---- What runs see ---------------------------------------------------------------------------------------------------- */

static void runs_in_flight_have_the_old_ones(void **state) {
    struct user u, v;
    begin();
    join(&u, 0);
    join(&v, 0);
    run(&u, N, 2, 10);
    for (int turn = 0; turn < 4; turn++) {
        float factor = (float)(3 + turn);
        enqueue(&u, N);
        check(try_refit(both, factor, 20)); /* before the device has done anything */
        expect(&u, N, turn ? factor - 1 : 2, turn ? 20 : 10);
        enqueue(&u, N);
        run(&v, 70, factor, 20);
        expect(&u, N, factor, 20);
        run(&u, 70, factor, 20);
    }
    leave(&u);
    leave(&v);
    end();
}

static void what_is_not_stale_stays(void **state) {
    struct user u;
    begin();
    join(&u, 0);
    check(try_refit(both, 3, 30));
    run(&u, N, 3, 30);
    check(try_refit(only_first, 4, 0));
    run(&u, N, 4, 30);
    check(try_refit(only_first, 5, 0)); /* written to the first set again, which follows */
    run(&u, N, 5, 30);
    leave(&u);
    end();
}

static void later_contexts_and_devices_have_the_new_ones(void **state) {
    struct user u, v, w;
    begin();
    join(&u, 0);
    check(try_refit(both, 3, 30));
    join(&v, 0);
    join(&w, 1);
    run(&v, N, 3, 30);
    run(&w, N, 3, 30);
    run(&u, N, 3, 30);
    check(try_refit(both, 4, 40));
    run(&w, N, 4, 40);
    run(&u, N, 4, 40);
    run(&v, N, 4, 40);
    leave(&u);
    leave(&v);
    leave(&w);
    end();
}

/* Two sets suffice for contexts that run, and their lists are patched, not made again. */
static void sets_are_used_in_turn(void **state) {
    struct user u;
    begin();
    join(&u, 0);
    for (int turn = 0; turn < 6; turn++) {
        if (turn) check(try_refit(both, (float)turn, 1));
        if (turn == 3) remote_device_counts(u.device);
        run(&u, N, turn ? (float)turn : 2, turn ? 1 : 10);
    }
    struct remote_counts c = remote_device_counts(u.device);
    assert_int_equal(c.captures + c.allocations, 0);
    assert_int_equal(c.patches, 3 * 2);
    unsigned sets = 0;
    for (const struct ig_weight_set *set = b.store.host.first; set; set = set->next)
        sets++;
    assert_int_equal(sets, 2);
    leave(&u);
    end();
}

static void given_up(void **state) {
    const struct ig_weight_change change = {.stale = both};
    struct ig_weight_set *set;
    struct user u;
    begin();
    join(&u, 0);
    for (int turn = 0; turn < 3; turn++) {
        check(ig_resident_store_refit_begin(&b.store, &change, &set, &b.error));
        memset(set->memory, 0x7f, 100);
        ig_resident_store_refit_abort(&b.store, &change, set);
        run(&u, N, turn ? 3 : 2, 10);
        check(try_refit(only_first, 3, 0)); /* the other weight is not what was being written */
        run(&u, N, 3, 10);
    }
    leave(&u);
    end();
}

/* ---- The caller's memory --------------------------------------------------------------------------------------------- */

static unsigned sets_on(const struct ig_weight_sets *sets, size_t size) {
    unsigned count = 0;
    for (const struct ig_weight_set *set = sets->first; set; set = set->next)
        count += set->size == size;
    return count;
}

/* The factor is read in the caller's memory, which runs see being written; the set has room for the rest. */
static void borrowed_weights(void **state) {
    static const bool none[WEIGHTS] = {false};
    struct ig_device *device;
    void *lent, *other;
    struct user u, v;
    begin();
    check(open_device(0, &b.allocator.base, &device, &b.error));
    check(device->api->allocate(device, 64, &lent, &b.error));
    check(device->api->allocate(device, 64, &other, &b.error));
    remote_device_write(lent, (const float[]){3}, sizeof(float));
    remote_device_write(other, (const float[]){7}, sizeof(float));
    const void *const first[WEIGHTS] = {lent}, *const second[WEIGHTS] = {other};
    join(&u, 0);
    run(&u, N, 2, 10);
    check(try_lending(none, first, 0, 0));
    assert_true(ig_resident_store_borrows(&b.store, lent));
    run(&u, N, 3, 10);
    assert_int_equal(ig_weight_own_bytes(u.resident.weights), 1024 - 64);
    assert_int_equal(sets_on(&b.store.host, 1024 - 64), 1);
    remote_device_write(lent, (const float[]){4}, sizeof(float));
    run(&u, N, 4, 10);
    join(&v, 0); /* others have it in the same place */
    run(&v, 70, 4, 10);
    /* Elsewhere, while a run is in flight. */
    enqueue(&u, N);
    check(try_lending(none, second, 0, 0));
    assert_true(ig_resident_store_borrows(&b.store, lent));
    expect(&u, N, 4, 10);
    run(&u, N, 7, 10);
    run(&u, 70, 7, 10);                                     /* sizes whose launches are captured: patched */
    assert_true(ig_resident_store_borrows(&b.store, lent)); /* by v */
    run(&v, 70, 7, 10);
    assert_false(ig_resident_store_borrows(&b.store, lent));
    /* Its neighbour alone is made again, twice, so that a set is used again; and the place changes with it. */
    check(try_lending((const bool[WEIGHTS]){false, true}, first, 0, 20));
    run(&u, N, 4, 20);
    run(&v, N, 4, 20);
    check(try_lending((const bool[WEIGHTS]){false, true}, second, 0, 30));
    run(&u, N, 7, 30);
    run(&v, 70, 7, 30);
    /* Its own again. */
    check(try_lending(only_first, NULL, 5, 0));
    run(&u, N, 5, 30);
    run(&v, N, 5, 30);
    assert_false(ig_resident_store_borrows(&b.store, other));
    leave(&u);
    leave(&v);
    device->api->release(device, lent, 64);
    device->api->release(device, other, 64);
    device->api->destroy(device);
    end();
}

/* Memory of device 0 is not for kernels of device 1. */
static void borrowed_elsewhere(void **state) {
    static const bool none[WEIGHTS] = {false};
    static const float memory[16];
    const void *const lent[WEIGHTS] = {memory};
    struct ig_resident resident;
    struct user u;
    begin();
    join(&u, 1);
    assert_int_equal(try_lending(none, lent, 0, 0), INGOT_UNSUPPORTED);
    assert_non_null(strstr(b.error.message, "in the memory of GPU 0, which kernels on GPU 1 do not read"));
    run(&u, N, 2, 10);
    leave(&u);
    end();
    begin();
    check(try_lending(none, lent, 0, 0));
    assert_int_equal(ig_resident_store_get(&b.store, open_device, 1, 0, &resident, &b.error), INGOT_UNSUPPORTED);
    end();
}

static void fetched(void **state) {
    enum { SIZE = (9 << 20) + 5 };
    struct ig_device *device;
    unsigned char *from = malloc(SIZE), *to = malloc(SIZE), small[3];
    void *memory;
    begin();
    for (size_t i = 0; i < SIZE; i++)
        from[i] = (unsigned char)(i * 31 + (i >> 13));
    check(open_device(0, &b.allocator.base, &device, &b.error));
    check(device->api->allocate(device, SIZE, &memory, &b.error));
    remote_device_write(memory, from, SIZE);
    const struct ig_fetch fetches[] = {{memory, to, SIZE}, {(char *)memory + 100, small, sizeof small}};
    check(ig_resident_fetch(open_device, 0, &b.allocator.base, fetches, 2, &b.error));
    assert_memory_equal(from, to, SIZE);
    assert_memory_equal(from + 100, small, sizeof small);
    device->api->release(device, memory, SIZE);
    device->api->destroy(device);
    end();
    free(from);
    free(to);
}

/* ---- Failures --------------------------------------------------------------------------------------------------------- */

static void each_call_may_fail(void **state) {
    static const enum fault kinds[] = {FAULT_ALLOCATE,    FAULT_ALLOCATE_HOST, FAULT_COPY,
                                       FAULT_STREAM_WAIT, FAULT_EVENT_RECORD,  FAULT_EVENT_SYNC};
    with_faults = true;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        bool failed = true;
        for (uint64_t n = 1; failed && n < 100; n++) {
            struct user u;
            begin();
            join(&u, 0);
            run(&u, N, 2, 10);
            faults_arm(kinds[k], n);
            enum ingot_status status = try_refit(both, 3, 30);
            failed = faults_disarm();
            assert_true(failed == (status != INGOT_OK) || kinds[k] == FAULT_STREAM_WAIT);
            if (status != INGOT_OK) run(&u, N, 2, 10);
            check(try_refit(both, 4, 40));
            run(&u, N, 4, 40);
            leave(&u);
            end();
        }
        assert_false(failed);
    }
    with_faults = false;
}

static void too_little_memory(void **state) {
    struct user u;
    begin();
    join(&u, 0);
    run(&u, N, 2, 10);
    remote_device_limit(1);
    assert_int_equal(try_refit(both, 3, 30), INGOT_OUT_OF_MEMORY);
    remote_device_limit(0);
    run(&u, N, 2, 10);
    check(try_refit(both, 3, 30));
    run(&u, N, 3, 30);
    leave(&u);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_in_flight_have_the_old_ones),
        cmocka_unit_test(what_is_not_stale_stays),
        cmocka_unit_test(later_contexts_and_devices_have_the_new_ones),
        cmocka_unit_test(sets_are_used_in_turn),
        cmocka_unit_test(given_up),
        cmocka_unit_test(borrowed_weights),
        cmocka_unit_test(borrowed_elsewhere),
        cmocka_unit_test(fetched),
        cmocka_unit_test(each_call_may_fail),
        cmocka_unit_test(too_little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
