/*
 * The cache of plan instances: what is kept, what goes, and what a run of shapes seen before costs; on the CPU, then on
 * a device with memory of its own. cuda_run_test.c counts captures at the driver.
 */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/context/context.h"
#include "support/device/remote_device.h"
#include "support/plan/runtime_case.h"

static struct fixture *ready_chain(size_t max_instances, size_t max_bytes) {
    struct fixture *f = chain(0, INT32_MAX);
    struct ig_context_config config = {.max_instances = max_instances, .max_bytes = max_bytes};
    if (try_context(f, config, 2) != INGOT_OK) fail_msg("%s", f->error.message);
    return f;
}

static struct ingot_plans_info plans(struct fixture *f) {
    struct ingot_plans_info info;
    ig_context_plans(f->context, &info);
    return info;
}

static unsigned captures_at_the_device(struct fixture *f) {
    return f->remote ? remote_device_counts(f->device).captures : 0;
}

static void a_hundred_sizes_are_captured_once(void **state) {
    struct fixture *f = ready_chain(0, (size_t)256 << 20);
    for (int round = 0; round < 2; round++) {
        for (int64_t n = 1; n <= 100; n++)
            run_chain(f, n);
    }
    struct ingot_plans_info info = plans(f);
    assert_int_equal(info.captures, 100);
    assert_int_equal(captures_at_the_device(f), f->remote ? 100 : 0);
    assert_int_equal(info.misses, 100);
    assert_int_equal(info.hits, 100);
    assert_int_equal(info.evictions, 0);
    assert_int_equal(info.instances, 100);
    end_plan(f);
}

static void eight_shapes_alternate_for_free(void **state) {
    static const int64_t sizes[] = {8, 1, 100, 33, 0, 64, 500, 7};
    struct fixture *f = ready_chain(0, (size_t)256 << 20);
    for (int i = 0; i < 8; i++)
        run_chain(f, sizes[i]);
    for (int i = 0; i < 8; i++)
        run_chain(f, sizes[i]); /* instances made before memory grew see where it is now */
    size_t calls = f->allocator.calls;
    captures_at_the_device(f);
    for (int turn = 0; turn < 10000; turn++)
        run_chain(f, sizes[turn % 8]);
    assert_int_equal(f->allocator.calls, calls);
    assert_int_equal(captures_at_the_device(f), 0);
    assert_int_equal(plans(f).captures, 8);
    assert_int_equal(plans(f).hits, 8 + 10000);
    end_plan(f);
}

/* What a cache of `capacity` holds, the most recent first. */
struct model {
    int64_t sizes[64];
    int count, capacity;
    uint64_t hits, misses, evictions;
};

static void use(struct model *model, int64_t size) {
    int at = 0;
    while (at < model->count && model->sizes[at] != size)
        at++;
    if (at < model->count) {
        model->hits++;
    } else {
        model->misses++;
        if (model->count == model->capacity)
            at = model->count - 1, model->evictions++;
        else
            model->count++;
    }
    memmove(model->sizes + 1, model->sizes, (size_t)at * sizeof *model->sizes);
    model->sizes[0] = size;
}

static void the_least_recently_used_goes(void **state) {
    static const int capacities[] = {1, 2, 7, 40};
    for (int c = 0; c < 4; c++) {
        struct fixture *f = ready_chain((size_t)capacities[c], SIZE_MAX);
        struct model model = {.capacity = capacities[c]};
        uint32_t seed = 7;
        for (int turn = 0; turn < 2000; turn++) {
            seed = seed * 1664525u + 1013904223u;
            int64_t n = seed / 65536 % (turn % 100 < 50 ? 10 : 50);
            run_chain(f, n);
            use(&model, n);
        }
        struct ingot_plans_info info = plans(f);
        assert_int_equal(info.hits, model.hits);
        assert_int_equal(info.misses, model.misses);
        assert_int_equal(info.evictions, model.evictions);
        assert_int_equal(info.instances, model.count);
        end_plan(f);
    }
}

/* The bytes of one instance of the chain. */
static size_t bytes_of_one(void) {
    struct fixture *f = ready_chain(0, SIZE_MAX);
    run_chain(f, 30);
    size_t bytes = plans(f).bytes;
    end_plan(f);
    return bytes;
}

/* The total is that of the instances, also when what is captured changes, and the bound is kept. */
static void bytes_are_counted(void **state) {
    const size_t one = bytes_of_one(), bounds[] = {SIZE_MAX, 10 * one, 3 * one};
    static float given[50];
    for (int b = 0; b < 3; b++) {
        struct fixture *f = ready_chain(0, bounds[b]);
        for (int turn = 0; turn < 200; turn++) {
            void *data = turn % 7 < 3 ? given : NULL;
            assert_int_equal(ig_context_set_output(f->context, 0, INGOT_HOST, data, sizeof given, &f->error), 0);
            run_chain(f, turn % 50);
            size_t sum = 0, count = 0;
            for (const struct ig_instance *at = f->context->cache.newest; at; at = at->older)
                sum += at->bytes, count++;
            assert_int_equal(plans(f).bytes, sum);
            assert_int_equal(plans(f).instances, count);
            assert_true(sum <= bounds[b]);
        }
        assert_int_equal(plans(f).instances + plans(f).evictions, plans(f).misses);
        assert_in_range(plans(f).instances, b == 2 ? 2 : b == 1 ? 8 : 50, b == 2 ? 4 : b == 1 ? 14 : 50);
        end_plan(f);
    }
}

/* Instances that are only asked for their memory, never run, are bounded too. */
static void queries_keep_to_the_bound(void **state) {
    const size_t bound = 5 * bytes_of_one();
    struct fixture *f = ready_chain(0, bound);
    for (int64_t n = 1; n < 100; n++) {
        struct ingot_memory_info info;
        set_input(f, 0, vector(ramp, n));
        assert_int_equal(ig_context_memory(f->context, &info, &f->error), INGOT_OK);
        assert_true(plans(f).bytes <= bound);
    }
    assert_true(plans(f).instances > 1);
    assert_int_equal(plans(f).captures, 0);
    end_plan(f);
}

/* More shapes than the table has room for, with each allocation failing in turn. */
static void every_allocation_may_fail(void **state) {
    bool done = false;
    for (size_t n = 1; !done; n++) {
        struct fixture *f = chain(0, 1000);
        f->allocator.fail_at = n;
        enum ingot_status status = try_context(f, (struct ig_context_config){.max_bytes = SIZE_MAX}, 1);
        for (int64_t size = 1; f->context && size <= 40; size++) {
            set_input(f, 0, vector(ramp, size));
            status = ig_context_run(f->context, &f->error);
            if (status != INGOT_OK) assert_int_equal(f->error.status, INGOT_OUT_OF_MEMORY);
            run_chain(f, size);
        }
        done = f->allocator.calls < n;
        end_plan(f);
        assert_true(n < 2000);
    }
}

/* c = a + b + b, with a and b of sizes of their own: shapes differ if any symbol does. */
static void every_symbol_counts(void **state) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot n = tiny_symbol(t, "n", 0, 0, 0, 1000), m = tiny_symbol(t, "m", 1, 0, 0, 1000);
    tiny_subplan(t);
    uint32_t a = tiny_input(t, "a", INGOT_F32, 1, &n), b = tiny_input(t, "b", INGOT_F32, 1, &m);
    uint32_t c = tiny_output(t, "c", INGOT_F32, 1, &n), d = tiny_output(t, "d", INGOT_F32, 1, &m);
    LAUNCH(f, f->negate, n, a, c);
    LAUNCH(f, f->negate, m, b, d);
    make_context(f, 1, 0, false);
    for (int round = 0; round < 2; round++) {
        for (int64_t i = 0; i < 400; i++) {
            set_input(f, 0, vector(ramp, i / 20));
            set_input(f, 1, vector(ramp, i % 20));
            run(f);
            assert_int_equal(output(f, 0).dims[0], i / 20);
            assert_int_equal(output(f, 1).dims[0], i % 20);
        }
        assert_int_equal(plans(f).misses, 400);
        assert_int_equal(plans(f).hits, 400 * round);
    }
    end_plan(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_sizes_are_captured_once),
        cmocka_unit_test(eight_shapes_alternate_for_free),
        cmocka_unit_test(the_least_recently_used_goes),
        cmocka_unit_test(bytes_are_counted),
        cmocka_unit_test(queries_keep_to_the_bound),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(every_symbol_counts),
    };
    fill_ramp();
    int failed = cmocka_run_group_tests_name("plan instances on the CPU", tests, NULL, NULL);
    test_remote = true;
    return failed + cmocka_run_group_tests_name("plan instances on a device with memory of its own", tests, NULL, NULL);
}
