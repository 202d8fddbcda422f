/*
 * Calls of a device that fail, each in turn, on the null device, the CPU and a device with memory of its own; in a
 * context's first run and later ones, alone and beside a neighbour of the same engine that is in flight, with arenas of
 * their own and a shared one. The context reports the failure and works again; the neighbour notices nothing; nothing
 * leaks. cuda_run_test.c does the same with the calls of a driver, gpu_fault_test.c with a real kernel.
 */
#include "support/support.h"

#include <string.h>

#include "runtime/frame/activations.h"
#include "support/device/faults.h"
#include "support/device/remote_device.h"
#include "support/plan/runtime_case.h"

enum { LARGE = 530000 /* is sent in pieces, beside other runs */, MOST = 400 };

static float data[LARGE];

enum where { ON_NULL, ON_CPU, ON_REMOTE };
static const char *const where_names[] = {"the null device", "the CPU", "the remote device"};

struct setting {
    enum where where;
    bool shared, warm, beside;
    int64_t n; /* of the run that fails */
};

struct member {
    struct ig_device *device;
    struct ig_context *context;
};

struct scene {
    struct setting setting;
    struct fixture *f; /* the engine */
    struct ig_device *arena_device;
    struct ig_activations *activations; /* NULL: not shared */
    struct member members[2];
};

static enum ingot_status open_remote(int ordinal, const struct ingot_allocator *allocator,
                                     struct ig_device **out_device, struct ingot_error *error) {
    return remote_device_create(1, allocator, out_device, error);
}

static struct ig_device *open_device(struct scene *s) {
    struct ig_device *device = NULL;
    const struct ingot_allocator *allocator = &s->f->allocator.base;
    enum ingot_status status = INGOT_OK;
    switch (s->setting.where) {
    case ON_NULL: status = ig_device_null_create(allocator, &device, &s->f->error); break;
    case ON_CPU: status = ig_device_cpu_create(2, allocator, &device, &s->f->error); break;
    case ON_REMOTE: status = open_remote(0, allocator, &device, &s->f->error); break;
    }
    if (status) fail_msg("%s", s->f->error.message);
    faults_add(device);
    return device;
}

static void join(struct scene *s, struct member *m) {
    struct ig_context_config config = {
        .allocator = &s->f->allocator.base, .threads = 1, .max_bytes = SIZE_MAX, .activations = s->activations};
    struct ig_resident resident;
    if (s->setting.where == ON_REMOTE) {
        if (ig_resident_store_get(&s->f->store, open_remote, 0, 0, &resident, &s->f->error))
            fail_msg("%s", s->f->error.message);
        config.weights = resident.weights;
        config.module = resident.module;
    }
    config.device = m->device = open_device(s);
    if (ig_context_create(&s->f->file, &config, &m->context, &s->f->error)) fail_msg("%s", s->f->error.message);
}

static void begin(struct scene *s, struct setting setting) {
    *s = (struct scene){.setting = setting, .f = chain(0, INT32_MAX)};
    s->f->file = tiny_file(&s->f->tiny);
    ig_resident_store_init(&s->f->store, &s->f->file, &s->f->allocator.base);
    if (setting.shared) {
        s->arena_device = open_device(s);
        const struct ig_activations_config config = {
            .allocator = &s->f->allocator.base, .device = s->arena_device, .shared = true};
        if (ig_activations_create(&config, &s->activations, &s->f->error)) fail_msg("%s", s->f->error.message);
    }
    for (int i = 0; i < 2; i++)
        join(s, &s->members[i]);
}

static void end(struct scene *s) {
    for (int i = 0; i < 2; i++) {
        ig_context_destroy(s->members[i].context);
        ig_device_release(s->members[i].device);
    }
    ig_activations_destroy(s->activations);
    ig_device_release(s->arena_device);
    end_plan(s->f);
    if (s->setting.where == ON_REMOTE) remote_device_reuse();
}

/* ---- Runs --------------------------------------------------------------------------------------------------------------- */

static enum ingot_status enqueue(struct scene *s, int who, int64_t n) {
    struct ingot_tensor x = vector(data, n);
    if (ig_context_set_input(s->members[who].context, 0, &x, &s->f->error)) fail_msg("%s", s->f->error.message);
    return ig_context_enqueue(s->members[who].context, NULL, &s->f->error);
}

static void check(struct scene *s, int who, int64_t n) {
    struct ingot_tensor y;
    if (ig_context_output(s->members[who].context, 0, &y, &s->f->error)) fail_msg("%s", s->f->error.message);
    assert_int_equal(y.dims[0], n);
    for (int64_t i = 0; s->setting.where != ON_NULL && i < n; i++)
        assert_true(((const float *)y.data)[i] == -(2 * data[i] + 10));
}

static void run_right(struct scene *s, int who, int64_t n) {
    if (enqueue(s, who, n) || ig_context_wait(s->members[who].context, &s->f->error))
        fail_msg("%s", s->f->error.message);
    check(s, who, n);
}

static void expect_failure(struct scene *s, enum fault fault, enum ingot_status status) {
    struct ingot_tensor y;
    if (!strstr(s->f->error.message, "injected: ") || !strstr(s->f->error.message, fault_names[fault]))
        fail_msg("'%s' does not tell of %s", s->f->error.message, fault_names[fault]);
    assert_int_equal(status, INGOT_DEVICE);
    assert_int_equal(s->f->error.status, INGOT_DEVICE);
    expect_refusal(s->f, ig_context_output(s->members[0].context, 0, &y, &s->f->error), INGOT_INVALID_ARGUMENT,
                   "no result");
}

/* Call `n` fails. Returns whether there is such a call. */
static bool strike(struct setting setting, enum fault fault, uint64_t n, unsigned *reported) {
    struct scene s;
    begin(&s, setting);
    for (int i = 0; setting.warm && i < 2; i++)
        run_right(&s, i, i ? 50 : setting.n);
    if (setting.beside && enqueue(&s, 1, 50)) fail_msg("%s", s.f->error.message);
    faults_arm(fault, n);
    enum ingot_status status = enqueue(&s, 0, setting.n);
    if (status == INGOT_OK) status = ig_context_wait(s.members[0].context, &s.f->error);
    bool struck = faults_disarm();
    if (status == INGOT_OK) /* some failures do no harm */
        check(&s, 0, setting.n);
    else
        expect_failure(&s, fault, status);
    assert_true(struck || status == INGOT_OK);
    *reported += status != INGOT_OK;
    if (setting.beside) {
        if (ig_context_wait(s.members[1].context, &s.f->error)) fail_msg("%s", s.f->error.message);
        check(&s, 1, 50);
    }
    run_right(&s, 1, 777);
    run_right(&s, 0, setting.n);
    run_right(&s, 0, 333);
    run_right(&s, 1, setting.n);
    end(&s);
    return struck;
}

static void strike_all(struct setting setting) {
    unsigned all = 0;
    for (int fault = 0; fault < FAULT_COUNT; fault++) {
        unsigned reported = 0;
        uint64_t n = 1;
        while (strike(setting, (enum fault)fault, n, &reported))
            assert_in_range(n++, 1, MOST);
        all += reported;
        if (n > 1)
            print_message("%s%s%s%s, %lld: %llu calls of %s, %u failures reported\n", where_names[setting.where],
                          setting.shared ? ", shared arena" : "", setting.warm ? ", warm" : "",
                          setting.beside ? ", beside a run" : "", (long long)setting.n, (unsigned long long)n - 1,
                          fault_names[fault], reported);
    }
    assert_true(all > 0);
}

static void calls_fail_on(enum where where) {
    for (int i = 0; i < 8; i++)
        strike_all((struct setting){where, i & 1, i & 2, i & 4, 100});
}

static void calls_fail_on_the_null_device(void **state) {
    calls_fail_on(ON_NULL);
}

static void calls_fail_on_the_cpu(void **state) {
    calls_fail_on(ON_CPU);
}

static void calls_fail_on_the_remote_device(void **state) {
    calls_fail_on(ON_REMOTE);
    for (int warm = 0; warm < 2; warm++)
        strike_all((struct setting){ON_REMOTE, true, warm, true, LARGE});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_fail_on_the_null_device),
        cmocka_unit_test(calls_fail_on_the_cpu),
        cmocka_unit_test(calls_fail_on_the_remote_device),
    };
    for (int i = 0; i < LARGE; i++)
        data[i] = (float)(i % 1000) - 3;
    return cmocka_run_group_tests_name("failing calls", tests, NULL, NULL);
}
