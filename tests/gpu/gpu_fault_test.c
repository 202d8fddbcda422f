/*
 * A kernel that writes far out of bounds on GPU 0, in a child process, beside another context of the same engine: waits
 * report it, say that the GPU is lost and what the way back is; nothing crashes or hangs; and once all is destroyed, a new
 * context works in the same process, or the driver's refusal is reported in the same words. The stand-in for the driver
 * plays the same part on machines without a GPU. This program starts itself as the child.
 */
#include "support/support.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/cuda/cuda.h"
#include "runtime/frame/activations.h"
#include "runtime/resident.h"
#include "runtime/runtime.h"
#include "support/counting_allocator.h"
#include "support/device/fake_driver.h"
#include "support/device/gpu_code.h"
#include "support/plan/tiny_plan.h"

enum { TILE = 16, SOUND = 100, FATAL = 1001, LARGEST = 2000, SECONDS = 300 };

/* y = (x + x) + x, f32[n], but for n over 1000, where the first step has 2^36 elements more for each. */
static struct {
    struct tiny_plan tiny;
    struct gpu_code code;
    struct ig_engine_file file;
    struct ig_resident_store store;
    struct counting_allocator allocator;
    struct fake_driver driver; /* without a path: the real one is used */
} engine;

static float x[LARGEST];

static void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("the child process: ");
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    fflush(stdout);
    _exit(1);
}

static ig_slot tiles_of(struct tiny_plan *t, ig_slot n) {
    return tiny_op(t, IG_SHAPE_DIV, tiny_op(t, IG_SHAPE_ADD, n, tiny_const(t, TILE - 1)), tiny_const(t, TILE));
}

static void make_engine(void) {
    struct tiny_plan *t = &engine.tiny;
    tiny_init(t);
    uint32_t kernel = tiny_kernel(t, "add", NULL);
    t->kernels[kernel].entry = gpu_code_add_cubin(&engine.code, 80); /* empty, so that the PTX runs */
    t->kernels[kernel].portable = gpu_code_add_text(&engine.code, gpu_code_ptx);
    t->kernels[kernel].threads = TILE;
    ig_slot n = tiny_symbol(t, "n", 0, 0, 0, LARGEST);
    ig_slot over = tiny_op(t, IG_SHAPE_ADD, n, tiny_const(t, 1 - FATAL));
    ig_slot many = tiny_op(t, IG_SHAPE_MAX, n, tiny_op(t, IG_SHAPE_MUL, over, tiny_const(t, (int64_t)1 << 36)));
    tiny_subplan(t);
    uint32_t in = tiny_input(t, "x", INGOT_F32, 1, &n), out = tiny_output(t, "y", INGOT_F32, 1, &n);
    uint32_t a = tiny_arena(t, tiny_op(t, IG_SHAPE_MUL, n, tiny_const(t, sizeof(float))));
    tiny_launch(t, kernel, tiles_of(t, many), (const uint32_t[]){in, in, a}, 3, &many, 1)->scratch = IG_PLAN_NONE;
    tiny_launch(t, kernel, tiles_of(t, n), (const uint32_t[]){a, in, out}, 3, &n, 1)->scratch = IG_PLAN_NONE;
    engine.file = tiny_file(t);
    engine.file.code = engine.code.bytes;
    engine.file.code_size = engine.code.size;
    counting_allocator_init(&engine.allocator);
    ig_resident_store_init(&engine.store, &engine.file, &engine.allocator.base);
}

/* ---- Contexts, as ingot_context_create makes them ---------------------------------------------------------------------------- */

struct member {
    struct ig_device *device;
    struct ig_context *context;
    struct ig_resident resident;
    bool has_resident;
};

static enum ingot_status open_gpu(int ordinal, const struct ingot_allocator *allocator, struct ig_device **out_device,
                                  struct ingot_error *error) {
    return ig_device_cuda_create_with(engine.driver.path[0] ? engine.driver.path : NULL, ordinal, allocator, out_device,
                                      error);
}

static enum ingot_status join(struct member *m, struct ig_activations *activations, struct ingot_error *error) {
    struct ig_context_config config = {
        .allocator = &engine.allocator.base, .max_bytes = SIZE_MAX, .activations = activations};
    *m = (struct member){NULL};
    ig_resident_store_drop_lost(&engine.store, 0);
    enum ingot_status status = open_gpu(0, config.allocator, &m->device, error);
    if (!status) status = ig_resident_store_get(&engine.store, open_gpu, 0, 0, &m->resident, error);
    if (status) return status;
    m->has_resident = true;
    config.device = m->device;
    config.weights = m->resident.weights;
    config.module = m->resident.module;
    return ig_context_create(&engine.file, &config, &m->context, error);
}

static void part(struct member *m) {
    ig_context_destroy(m->context);
    if (m->has_resident) ig_resident_store_put(&engine.store, &m->resident);
    ig_device_release(m->device);
    *m = (struct member){NULL};
}

static enum ingot_status enqueue(struct member *m, int64_t n, struct ingot_error *error) {
    struct ingot_tensor input = {INGOT_F32, 1, {n}, x, INGOT_HOST};
    enum ingot_status status = ig_context_set_input(m->context, 0, &input, error);
    return status ? status : ig_context_enqueue(m->context, NULL, error);
}

static enum ingot_status run(struct member *m, int64_t n, struct ingot_error *error) {
    struct ingot_tensor y;
    enum ingot_status status = enqueue(m, n, error);
    if (!status) status = ig_context_wait(m->context, error);
    if (!status) status = ig_context_output(m->context, 0, &y, error);
    for (int64_t i = 0; !status && i < n; i++) {
        if (((const float *)y.data)[i] != 3 * x[i]) die("a wrong result");
    }
    return status;
}

/* ---- The child process --------------------------------------------------------------------------------------------------------- */

static void expect_lost(enum ingot_status status, const struct ingot_error *error, const char *what) {
    if (status == INGOT_OK) die("%s succeeds on a lost GPU", what);
    if (status != INGOT_DEVICE || !strstr(error->message, "CUDA_ERROR_") ||
        !strstr(error->message, "no context in this process can use the GPU any more: destroy all contexts on it"))
        die("%s gives status %d: %s", what, (int)status, error->message);
}

/* Destroys everything and begins anew. */
static void expect_way_back(struct ingot_error *error) {
    struct member m;
    enum ingot_status status = join(&m, NULL, error);
    if (!status) status = run(&m, SOUND, error);
    if (status)
        expect_lost(status, error, "a new context, where the driver refuses one,");
    else
        printf("the child process: a new context on the same engine works\n");
    if (status) printf("the child process: no way back in this process: %s\n", error->message);
    if (status && engine.driver.cuda) die("the stand-in has one");
    part(&m);
}

static void lose_gpu(struct member *members, struct ig_activations *activations, struct ingot_error *error) {
    struct member late;
    for (int i = 0; i < 2; i++) {
        if (join(&members[i], activations, error) || run(&members[i], SOUND, error)) die("%s", error->message);
    }
    if (engine.driver.cuda) engine.driver.cuda->lost = 700;
    enum ingot_status status = enqueue(&members[0], engine.driver.cuda ? SOUND : FATAL, error);
    if (!status) status = ig_context_wait(members[0].context, error);
    expect_lost(status, error, "the run");
    printf("the child process: %s\n", error->message);
    if (!strstr(error->message, "CUDA_ERROR_ILLEGAL_ADDRESS")) die("that is no illegal address");
    expect_lost(run(&members[1], SOUND, error), error, "the other context's run");
    expect_lost(join(&late, NULL, error), error, "a new context beside the others");
    part(&late);
}

static void be_child(bool fake, bool shared) {
    struct ingot_error error;
    struct member members[2];
    struct ig_device *device = NULL;
    struct ig_activations *activations = NULL;
    alarm(SECONDS); /* ends it if it hangs */
    if (fake) fake_driver_open(&engine.driver);
    make_engine();
    for (int i = 0; i < LARGEST; i++)
        x[i] = (float)i - 3;
    if (shared) {
        if (open_gpu(0, &engine.allocator.base, &device, &error)) die("%s", error.message);
        const struct ig_activations_config config = {
            .allocator = &engine.allocator.base, .device = device, .shared = true};
        if (ig_activations_create(&config, &activations, &error)) die("%s", error.message);
    }
    lose_gpu(members, activations, &error);
    for (int i = 0; i < 2; i++)
        part(&members[i]);
    ig_activations_destroy(activations);
    ig_device_release(device);
    expect_way_back(&error);
    ig_resident_store_deinit(&engine.store);
    if (engine.allocator.live_count || engine.allocator.wrong) die("memory leaks");
    if (fake && (engine.driver.cuda->misuse[0] || engine.driver.cuda->live)) die("handles leak");
    fflush(stdout);
}

/* ---- Tests --------------------------------------------------------------------------------------------------------------------- */

static void watch(const char *driver, const char *arena) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "gpu_fault_test", driver, arena, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) fail_msg("the child process %s", WTERMSIG(status) == SIGALRM ? "hangs" : "crashes");
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_fault_is_reported_on_the_stand_in(void **state) {
    watch("fake", "own");
    watch("fake", "shared");
}

static void a_fault_is_reported_on_a_gpu(void **state) {
    int count = 0;
    if (ig_device_cuda_count(&count, NULL) != INGOT_OK || count == 0) skip();
    watch("gpu", "own");
    watch("gpu", "shared");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fault_is_reported_on_the_stand_in),
        cmocka_unit_test(a_fault_is_reported_on_a_gpu),
    };
    if (argc == 3) {
        be_child(strcmp(argv[1], "fake") == 0, strcmp(argv[2], "shared") == 0);
        return 0;
    }
    return cmocka_run_group_tests_name("faults on a GPU", tests, NULL, NULL);
}
