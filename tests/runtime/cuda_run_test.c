/*
 * Contexts on the CUDA device: the driver calls of a run, on a stand-in for the driver; and results on GPU 0 if there
 * is one.
 */
#define _GNU_SOURCE
#include "support/support.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda.h"
#include "runtime/frame/activations.h"
#include "runtime/resident.h"
#include "support/plan/cuda_case.h"

static struct cuda_case *begin_seed(bool fake, uint32_t seed) {
    return cuda_begin(fake, seed, 4);
}

static struct cuda_case *begin(bool fake) {
    return begin_seed(fake, 0);
}

/* With shapes seen before and inputs in host memory, a run is one graph launch and one event record, whatever the
 * number of kernels; the host neither blocks nor allocates. */
static void enqueueing_is_a_few_calls(void **state) {
    struct cuda_case *f = begin(true);
    cuda_run(f, 100);
    cuda_run(f, 37);
    size_t allocations = f->allocator.calls;
    for (int turn = 0; turn < 4; turn++) {
        cuda_set_x(f, turn % 2 ? 37 : 100);
        cuda_clear_log(f);
        uint64_t before = ig_device_cuda_calls(f->device);
        cuda_must(f, ig_context_enqueue(f->context, NULL, &f->error));
        uint64_t calls = ig_device_cuda_calls(f->device) - before;
        const char *log = f->driver.cuda->log;
        assert_int_equal(cuda_count(log, "cuGraphLaunch"), 1);
        assert_int_equal(cuda_count(log, "cuMemcpy"), 0);
        assert_int_equal(cuda_count(log, "cuEventRecord"), 1);
        assert_int_equal(cuda_count(log, "cuEventSynchronize"), 0);
        assert_int_equal(cuda_count(log, "cuStreamSynchronize") + cuda_count(log, "cuCtxSynchronize"), 0);
        assert_int_equal(cuda_count(log, "Alloc") + cuda_count(log, "Free") + cuda_count(log, "Instantiate") +
                             cuda_count(log, "Module"),
                         0);
        assert_int_equal(calls, 2 + 2); /* pushing and popping the context */
        cuda_must(f, ig_context_wait(f->context, &f->error));
        cuda_check(f, turn % 2 ? 37 : 100);
    }
    assert_int_equal(f->allocator.calls, allocations);
    cuda_end(f, true);
}

/* The memory behind a result up to the next, which is copied along with it. */
static void check_padding(struct cuda_case *f, int64_t n) {
    struct ingot_tensor y;
    cuda_must(f, ig_context_output(f->context, 0, &y, &f->error));
    for (size_t i = (size_t)n * sizeof(float); i % 64; i++)
        assert_int_equal(((unsigned char *)y.data)[i], 0);
}

/* The stand-in's new memory is full of 0xa5, of which nothing may reach the host. Sizes increase, so that no earlier
 * result lies behind. */
static void copies_only_what_was_written(void **state) {
    static const int64_t sizes[] = {1, 5, 37, 100, 1001, LARGEST};
    struct cuda_case *f = begin(true);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int turn = 0; turn < 3; turn++) { /* the third leaves beside later runs, if it is large */
            cuda_set_x(f, sizes[i]);
            cuda_must(f, ig_context_enqueue(f->context, NULL, &f->error));
        }
        cuda_must(f, ig_context_wait(f->context, &f->error));
        cuda_check(f, sizes[i]);
        check_padding(f, sizes[i]);
    }
    cuda_end(f, true);
}

/* Eight shapes in turn: eight graphs in all, and no allocation after the first rounds. */
static void eight_shapes_are_eight_captures(void **state) {
    static const int64_t sizes[] = {100, 37, 1, 64, 500, 333, 16, 17};
    struct cuda_case *f = cuda_begin(true, 0, 0);
    unsigned captures = 0;
    size_t allocations = 0;
    for (int turn = 0; turn < 10000; turn++) {
        if (turn == 16) allocations = f->allocator.calls;
        cuda_clear_log(f);
        cuda_run(f, sizes[turn % 8]);
        captures += cuda_count(f->driver.cuda->log, "cuGraphInstantiate");
    }
    assert_int_equal(captures, 8);
    assert_int_equal(f->allocator.calls, allocations);
    cuda_end(f, true);
}

/* The driver calls of a run on `native`, without context changes and pointer queries. */
static uint64_t calls_of_run(struct cuda_case *f, void *native) {
    const char *log = f->driver.cuda->log;
    uint64_t before = ig_device_cuda_calls(f->device);
    cuda_clear_log(f);
    cuda_enqueue(f, native);
    assert_int_equal(cuda_count(log, "Synchronize") + cuda_count(log, "Alloc"), 0);
    return ig_device_cuda_calls(f->device) - before - cuda_count(log, "cuCtx") - cuda_count(log, "cuPointer");
}

/* On the context's own stream a run needs no event of its own: the graph launch is the only call. */
static void data_that_gpus_reach_need_one_call_on_the_own_stream(void **state) {
    struct cuda_case *f = begin(true);
    const size_t size = 100 * sizeof(float);
    float *x = cuda_memory(f, INGOT_PINNED, size);
    memcpy(x, f->x, size);
    struct ingot_tensor input = {INGOT_F32, 1, {100}, x, INGOT_PINNED};
    cuda_must(f, ig_context_set_input(f->context, 0, &input, &f->error));
    cuda_clear_log(f);
    cuda_enqueue(f, NULL);
    assert_int_equal(cuda_count(f->driver.cuda->log, "cuGraphAddKernelNode"), 2 + 2); /* small copies are kernels */
    assert_int_equal(cuda_count(f->driver.cuda->log, "cuGraphAddMemcpyNode"), 0);
    size_t allocations = f->allocator.calls;
    for (int turn = 0; turn < 4; turn++) {
        assert_int_equal(calls_of_run(f, NULL), 1);
        if (turn % 2) continue;
        cuda_must(f, ig_context_wait(f->context, &f->error));
        cuda_check(f, 100);
    }
    assert_int_equal(f->allocator.calls, allocations);
    cuda_must(f, ig_context_wait(f->context, &f->error));
    cuda_release(f, INGOT_PINNED, x, size);
    cuda_end(f, true);
}

/* Large results are copied by the graph too, unless two earlier runs may be in flight: then they leave on a stream of
 * their own, during the next run. That costs four calls to order the two streams (wait until earlier results have left
 * the same memory, record and wait for the event `computed`, record `left`), the copy, and patching the kernel that
 * writes the results to the other half. The graph's own copy is skipped meanwhile; afterwards it is enabled again, and
 * all addresses are the first half's. */
static void large_results_need_one_call_but_in_long_rows(void **state) {
    struct cuda_case *f = begin(true);
    const int64_t n = LARGEST;
    const size_t size = (size_t)n * sizeof(float);
    float *x = cuda_memory(f, INGOT_CUDA, size);
    memcpy(x, f->x, size);
    struct ingot_tensor input = {INGOT_F32, 1, {n}, x, INGOT_CUDA};
    cuda_must(f, ig_context_set_input(f->context, 0, &input, &f->error));
    cuda_enqueue(f, NULL);
    cuda_must(f, ig_context_wait(f->context, &f->error));
    size_t allocations = f->allocator.calls;
    for (int row = 0; row < 2; row++) {
        for (int turn = 0; turn < 5; turn++) {
            static const uint64_t calls[] = {1, 1, 1 + 1 + 5, 1 + 6, 1 + 6};
            assert_int_equal(calls_of_run(f, NULL), calls[turn]);
        }
        cuda_must(f, ig_context_wait(f->context, &f->error));
        cuda_check(f, n);
        for (int turn = 0; turn < 3; turn++) {
            assert_int_equal(calls_of_run(f, NULL), turn ? 1 : 1 + 3);
            cuda_must(f, ig_context_wait(f->context, &f->error));
            cuda_check(f, n);
        }
    }
    assert_int_equal(f->allocator.calls, allocations);
    cuda_release(f, INGOT_CUDA, x, size);
    cuda_end(f, true);
}

/* Pinned memory for which the driver gives no device address, discovered when the graph is built or when it is
 * patched. */
static void copies_are_for_copy_engines_where_kernels_cannot(void **state) {
    const size_t size = 100 * sizeof(float);
    for (int late = 0; late < 2; late++) {
        struct cuda_case *f = begin(true);
        struct fake_cuda *cuda = f->driver.cuda;
        float *x[2] = {cuda_memory(f, INGOT_PINNED, size), cuda_memory(f, INGOT_PINNED, size)};
        cuda->fail = "cuPointerGetAttribute";
        cuda->fail_result = 1;
        for (int turn = 0; turn < 4; turn++) {
            memcpy(x[turn % 2], f->x, size);
            struct ingot_tensor input = {INGOT_F32, 1, {100}, x[turn % 2], INGOT_PINNED};
            cuda_must(f, ig_context_set_input(f->context, 0, &input, &f->error));
            cuda->fail_at = turn == late;
            cuda->log_size = 0;
            cuda_enqueue(f, NULL);
            if (turn == 0) assert_int_equal(cuda_count(cuda->log, "cuGraphAddMemcpyNode"), !late);
            if (turn == late) assert_int_equal(cuda_count(cuda->log, "cuGraphInstantiate"), 1);
            cuda_must(f, ig_context_wait(f->context, &f->error));
            cuda_check(f, 100);
            memset(x[turn % 2], 0, size);
        }
        cuda_release(f, INGOT_PINNED, x[0], size);
        cuda_release(f, INGOT_PINNED, x[1], size);
        cuda_end(f, true);
    }
}

/* On the caller's stream, with data in the caller's memory: one graph launch, and one event record that marks its end.
 * A new address is one more call for each node that uses it. */
static void data_that_gpus_reach_need_two_calls(void **state) {
    static const struct {
        enum ingot_memory memory;
        unsigned uses; /* nodes that use the input's address */
    } kinds[] = {{INGOT_PINNED, 1}, {INGOT_CUDA, 2}};
    const size_t size = 100 * sizeof(float);
    for (int k = 0; k < 2; k++) {
        enum ingot_memory memory = kinds[k].memory;
        struct cuda_case *f = begin(true);
        float *x[2] = {cuda_memory(f, memory, size), cuda_memory(f, memory, size)}, *y = cuda_memory(f, memory, size);
        struct ig_stream *callers;
        void *native;
        cuda_must(f, f->device->api->stream_create(f->device, &callers, &f->error));
        memcpy(&native, callers, sizeof native); /* an ig_stream begins with the driver's handle */
        memcpy(x[0], f->x, size);
        memcpy(x[1], f->x, size);
        cuda_must(f, ig_context_set_output(f->context, 0, memory, y, size, &f->error));
        size_t allocations = 0;
        for (int turn = 0; turn < 8; turn++) {
            struct ingot_tensor input = {INGOT_F32, 1, {100}, x[turn / 4], memory};
            cuda_must(f, ig_context_set_input(f->context, 0, &input, &f->error));
            memset(y, 0, size);
            if (turn == 0) {
                cuda_enqueue(f, native);
                allocations = f->allocator.calls;
            } else {
                assert_int_equal(calls_of_run(f, native), turn == 4 ? 2 + kinds[k].uses : 2);
            }
            assert_true(y[99] == 3 * f->x[99]);
        }
        assert_int_equal(f->allocator.calls, allocations);
        cuda_must(f, ig_context_wait(f->context, &f->error));
        cuda_release(f, memory, x[0], size);
        cuda_release(f, memory, x[1], size);
        cuda_release(f, memory, y, size);
        ig_context_destroy(f->context);
        f->context = NULL;
        f->device->api->stream_destroy(f->device, callers);
        cuda_end(f, true);
    }
}

/* ---- Leases and waits with a limit --------------------------------------------------------------------------------------------- */

/* The driver calls since cuda_clear_log, without context changes and pointer queries. */
static unsigned calls_logged(struct cuda_case *f) {
    const char *log = f->driver.cuda->log;
    return cuda_count(log, " ") - cuda_count(log, "cuCtx") - cuda_count(log, "cuPointer");
}

/* A lease on a run that is done costs no call, and one in flight an event. Two sets in turn cost one update of the
 * graph a run, whose copy goes to the other set. */
static void leases_are_a_few_calls(void **state) {
    struct cuda_case *f = begin(true);
    struct ig_results *last = NULL, *results;
    struct ingot_tensor y;
    size_t allocations = 0;
    float *x = cuda_memory(f, INGOT_PINNED, 100 * sizeof *x);
    struct ingot_tensor input = {INGOT_F32, 1, {100}, x, INGOT_PINNED};
    memcpy(x, f->x, 100 * sizeof *x);
    cuda_must(f, ig_context_set_input(f->context, 0, &input, &f->error));
    for (int turn = 0; turn < 12; turn++) {
        if (turn == 6) allocations = f->allocator.calls;
        bool early = turn % 2;
        x[7] = (float)turn;
        cuda_clear_log(f);
        cuda_enqueue(f, NULL);
        if (turn > 2) assert_int_equal(calls_logged(f), 1 + 1);
        if (!early && ig_context_wait(f->context, &f->error)) fail_msg("%s", f->error.message);
        cuda_clear_log(f);
        cuda_must(f, ig_context_lease(f->context, &results, &f->error));
        if (turn > 2) assert_int_equal(calls_logged(f), early);
        if (last) {
            cuda_must(f, ig_results_wait(last, &f->error));
            cuda_must(f, ig_results_output(last, 0, &y, &f->error));
            assert_true(((float *)y.data)[7] == 3 * (float)(turn - 1));
            ig_results_release(last);
        }
        last = results;
    }
    assert_int_equal(f->allocator.calls, allocations);
    ig_context_destroy(f->context);
    f->context = NULL;
    cuda_must(f, ig_results_wait(last, &f->error));
    ig_results_release(last);
    cuda_release(f, INGOT_PINNED, x, 100 * sizeof *x);
    cuda_end(f, true);
}

/* Asking costs an event, as the run has none of its own, and a call each time. */
static void limited_waits_ask(void **state) {
    struct cuda_case *f = begin(true);
    cuda_run(f, 100);
    cuda_enqueue(f, NULL);
    f->driver.cuda->not_ready = 3;
    cuda_clear_log(f);
    assert_int_equal(ig_context_wait_for(f->context, 0, &f->error), INGOT_TIMEOUT);
    assert_int_equal(cuda_count(f->driver.cuda->log, "cuEventQuery"), 1);
    assert_int_equal(cuda_count(f->driver.cuda->log, "Synchronize"), 0);
    cuda_must(f, ig_context_wait_for(f->context, 1e9, &f->error));
    assert_int_equal(cuda_count(f->driver.cuda->log, "cuEventQuery"), 4);
    cuda_check(f, 100);
    cuda_end(f, true);
}

/* ---- A GPU that is lost -------------------------------------------------------------------------------------------------------- */

static struct fake_driver shared_driver;

static enum ingot_status open_shared(int ordinal, const struct ingot_allocator *allocator,
                                     struct ig_device **out_device, struct ingot_error *error) {
    return ig_device_cuda_create_with(shared_driver.path, ordinal, allocator, out_device, error);
}

/* A context and its hold on what the engine has there, as ingot_context_create makes them. */
struct member {
    struct ig_device *device;
    struct ig_context *context;
    struct ig_resident resident;
    bool has_resident;
};

static enum ingot_status join(struct cuda_case *f, struct ig_resident_store *store, struct member *out_member) {
    struct ig_context_config config = {.allocator = &f->allocator.base, .max_instances = 4, .max_bytes = SIZE_MAX};
    *out_member = (struct member){NULL};
    ig_resident_store_drop_lost(store, 0);
    enum ingot_status status = open_shared(0, config.allocator, &out_member->device, &f->error);
    if (!status) status = ig_resident_store_get(store, open_shared, 0, 0, &out_member->resident, &f->error);
    config.weights = out_member->resident.weights;
    config.module = out_member->resident.module;
    out_member->has_resident = !status;
    config.device = out_member->device;
    if (!status) status = ig_context_create(&f->file, &config, &out_member->context, &f->error);
    return status;
}

static void part(struct ig_resident_store *store, struct member *member) {
    ig_context_destroy(member->context);
    if (member->has_resident) ig_resident_store_put(store, &member->resident);
    ig_device_release(member->device);
}

static enum ingot_status try_run(struct cuda_case *f, struct member *member) {
    struct ingot_tensor x = {INGOT_F32, 1, {100}, f->x, INGOT_HOST};
    enum ingot_status status = ig_context_set_input(member->context, 0, &x, &f->error);
    return status ? status : ig_context_run(member->context, &f->error);
}

static void must_say(struct cuda_case *f, enum ingot_status status, const char *text) {
    assert_int_equal(status, INGOT_DEVICE);
    if (!strstr(f->error.message, text)) fail_msg("'%s' does not say '%s'", f->error.message, text);
}

/* After an illegal access, all contexts fail, and new ones as long as anyone holds the GPU. Once the contexts and leases
 * are gone, the engine's weights do not hold it either, and a new context works. */
static void a_lost_gpu_comes_back(void **state) {
    struct cuda_case *f = cuda_new();
    struct ig_resident_store store;
    struct member members[2], late;
    struct ig_results *held;
    fake_driver_open(&shared_driver);
    cuda_plan(f);
    f->file.weights = f->tiny.weights;
    f->file.weights_size = sizeof f->tiny.weights;
    ig_resident_store_init(&store, &f->file, &f->allocator.base);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2; i++) {
            if (join(f, &store, &members[i]) || try_run(f, &members[i])) fail_msg("%s", f->error.message);
        }
        cuda_must(f, ig_context_lease(members[0].context, &held, &f->error));
        if (round == 2) break;
        shared_driver.cuda->lost = 700;
        for (int i = 0; i < 2; i++)
            must_say(f, try_run(f, &members[i]),
                     "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered); no context in this "
                     "process can use the GPU any more: destroy all contexts on it");
        part(&store, &members[0]);
        must_say(f, join(f, &store, &late), "destroy all contexts");
        part(&store, &late);
        part(&store, &members[1]);
        must_say(f, join(f, &store, &late), "destroy all contexts"); /* the lease holds it */
        part(&store, &late);
        ig_results_release(held);
        /* Weights whose users went before the GPU was lost. */
        if (join(f, &store, &late) || try_run(f, &late)) fail_msg("%s", f->error.message);
        part(&store, &late);
        shared_driver.cuda->lost = 719;
    }
    /* Another failure is that context's own, and only for once. */
    shared_driver.cuda->fail = "cuGraphLaunch";
    shared_driver.cuda->fail_at = 1;
    shared_driver.cuda->fail_result = 1;
    must_say(f, try_run(f, &members[0]), "cannot launch a graph: error 1 of the NVIDIA driver");
    assert_null(strstr(f->error.message, "any more"));
    for (int i = 1; i >= 0; i--) {
        if (try_run(f, &members[i])) fail_msg("%s", f->error.message);
        part(&store, &members[i]);
    }
    assert_non_null(store.first); /* those of a sound GPU stay for later contexts */
    ig_results_release(held);
    ig_resident_store_deinit(&store);
    assert_int_equal(f->allocator.live_count, 0);
    assert_int_equal(shared_driver.cuda->live, 0);
    assert_string_equal(shared_driver.cuda->misuse, "");
    free(f);
}

static void runs_on(bool fake) {
    static const int64_t sizes[] = {1, 100, 0, 1000, 16, 17, 100, 1};
    struct cuda_case *f = begin(fake);
    if (!f) skip();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        cuda_run(f, sizes[i]);
    size_t allocations = f->allocator.calls;
    for (int i = 0; i < 20; i++)
        cuda_run(f, i % 2 ? 100 : 17);
    assert_int_equal(f->allocator.calls, allocations);
    cuda_end(f, fake);
}

static void runs_any_shape_on_the_stand_in(void **state) {
    runs_on(true);
}

static void runs_any_shape_on_a_gpu(void **state) {
    runs_on(false);
}

/* Of the nodes that are ready, the stand-in runs the one added last first. */
static void runs_branches(bool fake) {
    static const int64_t sizes[] = {16, 1, 0, 1000, 32};
    size_t beside = 0;
    for (uint32_t seed = 1; seed <= (fake ? 200 : 20); seed++) {
        struct cuda_case *f = begin_seed(fake, seed);
        struct ingot_memory_info info;
        if (!f) skip();
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            cuda_run(f, sizes[i]);
            assert_int_equal(ig_context_memory(f->context, &info, &f->error), INGOT_OK);
            beside += info.parallel_steps;
        }
        cuda_run(f, 16);
        cuda_end(f, fake);
    }
    assert_true(beside > (fake ? 1000 : 0));
}

static void runs_branches_on_the_stand_in(void **state) {
    runs_branches(true);
}

static void runs_branches_on_a_gpu(void **state) {
    runs_branches(false);
}

/* ---- Two contexts, which may share an arena ------------------------------------------------------------------------- */

struct pair {
    struct fake_driver driver;
    struct counting_allocator allocator;
    struct ig_device *device; /* the arena's */
    struct ig_activations *activations;
    struct ig_stream *callers; /* NULL: none */
    struct cuda_case *f[2];
};

static void begin_pair(struct pair *p, bool shared) {
    struct ingot_error error;
    p->callers = NULL;
    fake_driver_open(&p->driver);
    counting_allocator_init(&p->allocator);
    if (ig_device_cuda_create_with(p->driver.path, 0, &p->allocator.base, &p->device, &error))
        fail_msg("%s", error.message);
    const struct ig_activations_config config = {.allocator = &p->allocator.base, .device = p->device, .shared = true};
    assert_int_equal(ig_activations_create(&config, &p->activations, &error), INGOT_OK);
    for (int i = 0; i < 2; i++) {
        p->f[i] = cuda_new();
        if (shared) p->f[i]->activations = p->activations;
        if (!cuda_open(p->f[i], p->driver.path, 0)) fail_msg("%s", p->f[i]->error.message);
    }
}

static void end_pair(struct pair *p) {
    for (int i = 0; i < 2; i++) {
        cuda_close(p->f[i]);
        free(p->f[i]);
    }
    ig_activations_destroy(p->activations);
    p->device->api->stream_destroy(p->device, p->callers);
    p->device->api->destroy(p->device);
    assert_int_equal(p->allocator.live_count, 0);
    assert_string_equal(p->driver.cuda->misuse, "");
    assert_int_equal(p->driver.cuda->live, 0);
}

/* The driver calls of a run, without context changes. */
static const char *calls_in_pair(struct pair *p, int who, void *native) {
    static char calls[sizeof((struct fake_cuda *)0)->log];
    p->driver.cuda->log_size = 0;
    p->driver.cuda->log[0] = 0;
    cuda_enqueue(p->f[who], native);
    char *to = calls;
    for (const char *at = p->driver.cuda->log, *end; (end = strchr(at, ' ')); at = end + 1) {
        if (strncmp(at, "cuCtx", 5) == 0) continue;
        memcpy(to, at, (size_t)(end + 1 - at));
        to += end + 1 - at;
    }
    *to = 0;
    return calls;
}

#define WAIT "cuStreamWaitEvent "
#define LAUNCH "cuGraphLaunch "
#define RECORD "cuEventRecord "

/* A run waits on the GPU for the arena's last user, if that was on another stream, and marks its own use behind its
 * kernels. The second record is the context's own, since it staged an input. */
static void sharing_costs_two_calls(void **state) {
    struct pair p;
    begin_pair(&p, true);
    for (int i = 0; i < 4; i++)
        cuda_run(p.f[i % 2], 100);
    cuda_set_x(p.f[0], 100), cuda_set_x(p.f[1], 100);
    assert_string_equal(calls_in_pair(&p, 0, NULL), WAIT LAUNCH RECORD RECORD);
    assert_string_equal(calls_in_pair(&p, 1, NULL), WAIT LAUNCH RECORD RECORD);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ig_context_wait(p.f[i]->context, NULL), INGOT_OK);
    assert_string_equal(calls_in_pair(&p, 1, NULL), LAUNCH RECORD RECORD);
    assert_string_equal(calls_in_pair(&p, 0, NULL), WAIT LAUNCH RECORD RECORD);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ig_context_wait(p.f[i]->context, NULL), INGOT_OK);
    /* On one stream of the caller's there is nobody to wait for. */
    void *native;
    assert_int_equal(p.device->api->stream_create(p.device, &p.callers, NULL), INGOT_OK);
    memcpy(&native, p.callers, sizeof native); /* an ig_stream begins with the driver's handle */
    for (int i = 0; i < 2; i++) {
        cuda_enqueue(p.f[i], native);
        assert_int_equal(ig_context_wait(p.f[i]->context, NULL), INGOT_OK);
    }
    assert_string_equal(calls_in_pair(&p, 1, native), LAUNCH RECORD RECORD);
    assert_string_equal(calls_in_pair(&p, 0, native), LAUNCH RECORD RECORD);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ig_context_wait(p.f[i]->context, NULL), INGOT_OK);
        cuda_check(p.f[i], 100);
    }
    end_pair(&p);
}

/* The arena's stream waits for the last user, the free for it, the allocation for the free; nobody for a new graph. */
static void growth_frees_behind_the_last_user(void **state) {
    struct pair p;
    begin_pair(&p, true);
    cuda_run(p.f[0], 100);
    cuda_run(p.f[1], 50);
    cuda_set_x(p.f[1], 1000);
    const char *calls = calls_in_pair(&p, 1, NULL);
    if (!strstr(calls, WAIT RECORD WAIT "cuMemFreeAsync cuMemAllocFromPoolAsync cuStreamSynchronize ") ||
        cuda_count(strstr(calls, "cuMemcpyAsync "), WAIT) || !strstr(calls, "Ex " RECORD RECORD "cuGraphCreate "))
        fail_msg("%s", calls);
    assert_int_equal(ig_context_wait(p.f[1]->context, NULL), INGOT_OK);
    cuda_check(p.f[1], 1000);
    cuda_set_x(p.f[0], 100);
    calls = calls_in_pair(&p, 0, NULL); /* two kernels' addresses are patched */
    if (!strstr(calls, WAIT) || !strstr(calls, LAUNCH RECORD RECORD)) fail_msg("%s", calls);
    assert_int_equal(cuda_count(calls, "Instantiate") + cuda_count(calls, "Synchronize") + cuda_count(calls, "Alloc"),
                     0);
    assert_int_equal(ig_context_wait(p.f[0]->context, NULL), INGOT_OK);
    cuda_check(p.f[0], 100);
    end_pair(&p);
}

/* Call `n` of `function` fails in one of four runs of two contexts. Only that run fails, and what follows is right.
 * Returns whether there is such a call. */
static bool driver_call_fails(const char *function, unsigned n, bool shared) {
    struct pair p;
    begin_pair(&p, shared);
    cuda_run(p.f[0], 100), cuda_run(p.f[1], 50);
    p.driver.cuda->fail = function, p.driver.cuda->fail_result = 999, p.driver.cuda->fail_at = n;
    for (int turn = 0; turn < 4; turn++) {
        struct cuda_case *f = p.f[turn % 2];
        bool before = p.driver.cuda->fail_at == 0;
        cuda_set_x(f, turn < 2 ? 1000 : 100);
        bool failed = ig_context_run(f->context, &f->error) != INGOT_OK;
        if (!failed) cuda_check(f, turn < 2 ? 1000 : 100);
        if (failed && (before || p.driver.cuda->fail_at || !strstr(f->error.message, "error 999 of the NVIDIA driver")))
            fail_msg("a run fails, but not of %s: %s", function, f->error.message);
    }
    bool struck = p.driver.cuda->fail_at == 0;
    p.driver.cuda->fail_at = 0;
    cuda_run(p.f[0], 1000), cuda_run(p.f[1], 1001);
    end_pair(&p);
    return struck;
}

static void driver_calls_may_fail(void **state) {
    char functions[] =
        "cuStreamWaitEvent cuEventRecord cuMemAllocFromPoolAsync cuStreamSynchronize cuGraphCreate "
        "cuGraphAddKernelNode_v2 cuGraphAddMemcpyNode cuGraphAddDependencies_v2 cuGraphUpload "
        "cuGraphExecKernelNodeSetParams_v2 cuGraphExecMemcpyNodeSetParams cuGraphInstantiateWithFlags "
        "cuGraphLaunch cuEventSynchronize cuMemHostAlloc cuMemcpyAsync cuPointerGetAttribute cuLaunchKernelEx";
    for (const char *function = strtok(functions, " "); function; function = strtok(NULL, " ")) {
        for (unsigned n = 1; driver_call_fails(function, n, false) | driver_call_fails(function, n, true);)
            assert_in_range(n++, 1, 100);
    }
}

struct user {
    pthread_t thread;
    const struct fake_driver *driver;
    int ordinal;
    unsigned wrong; /* calls after which the thread's current context had changed */
};

/* A thread whose current context is another one than the engine's. */
static void *use(void *argument) {
    struct user *user = argument;
    int own;
    void *popped;
    user->driver->push(&own);
    struct cuda_case *f = cuda_new();
    if (!cuda_open(f, user->driver->path, user->ordinal)) fail_msg("%s", f->error.message);
    for (int turn = 0; turn < 50; turn++) {
        cuda_run(f, turn % 3 * 31 + 1);
        user->wrong += user->driver->current() != &own || user->driver->depth() != 1;
    }
    cuda_close(f);
    user->wrong += user->driver->current() != &own || user->driver->depth() != 1;
    user->driver->pop(&popped);
    free(f);
    return NULL;
}

static void runs_on_two_gpus_at_once(void **state) {
    struct fake_driver driver;
    fake_driver_open(&driver);
    struct user users[4] = {{.ordinal = 0}, {.ordinal = 1}, {.ordinal = 0}, {.ordinal = 1}};
    for (int i = 0; i < 4; i++) {
        users[i].driver = &driver;
        assert_int_equal(pthread_create(&users[i].thread, NULL, use, &users[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(users[i].thread, NULL);
    for (int i = 0; i < 4; i++)
        assert_int_equal(users[i].wrong, 0);
    assert_string_equal(driver.cuda->misuse, "");
    assert_int_equal(driver.cuda->live, 0);
}

/* ---- Loaded code ---------------------------------------------------------------------------------------------------- */

static const char *fake_path;

static enum ingot_status open_fake(int ordinal, const struct ingot_allocator *allocator, struct ig_device **out_device,
                                   struct ingot_error *error) {
    return ig_device_cuda_create_with(fake_path, ordinal, allocator, out_device, error);
}

static void *use_shared(void *argument) {
    struct cuda_case *f = argument;
    if (!cuda_open(f, fake_path, 0)) fail_msg("%s", f->error.message);
    for (int turn = 0; turn < 20; turn++)
        cuda_run(f, 1 + turn * 37);
    cuda_close(f);
    return NULL;
}

/* The contexts of an engine load each kernel once, whichever comes first; and none unloads what others use. */
static void contexts_share_loaded_code(void **state) {
    enum { USERS = 4 };
    struct fake_driver driver;
    struct counting_allocator allocator;
    struct ig_resident_store store;
    struct ig_resident resident;
    struct ingot_error error;
    struct cuda_case *f[USERS], *owner = cuda_new();
    pthread_t threads[USERS];
    fake_driver_open(&driver);
    fake_path = driver.path;
    counting_allocator_init(&allocator);
    cuda_plan(owner);
    ig_resident_store_init(&store, &owner->file, &allocator.base);
    assert_int_equal(ig_resident_store_get(&store, open_fake, 0, 0, &resident, &error), INGOT_OK);
    unsigned loads = 0;
    for (int i = 0; i < USERS; i++) { /* first one after the other */
        f[i] = cuda_new();
        f[i]->owner = owner;
        f[i]->module = resident.module;
        driver.cuda->log_size = 0;
        driver.cuda->log[0] = 0;
        assert_true(cuda_open(f[i], fake_path, 0));
        cuda_run(f[i], 100);
        loads += cuda_count(driver.cuda->log, "cuModuleLoad");
        cuda_close(f[i]);
    }
    for (int i = 0; i < USERS; i++) /* then all at once */
        assert_int_equal(pthread_create(&threads[i], NULL, use_shared, f[i]), 0);
    for (int i = 0; i < USERS; i++) {
        pthread_join(threads[i], NULL);
        free(f[i]);
    }
    assert_int_equal(loads, 1 + USERS); /* and each device its kernel for copies */
    ig_resident_store_deinit(&store);
    assert_int_equal(allocator.live_count, 0);
    assert_string_equal(driver.cuda->misuse, "");
    assert_int_equal(driver.cuda->live, 0);
    free(owner);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(enqueueing_is_a_few_calls),
        cmocka_unit_test(copies_only_what_was_written),
        cmocka_unit_test(eight_shapes_are_eight_captures),
        cmocka_unit_test(data_that_gpus_reach_need_two_calls),
        cmocka_unit_test(large_results_need_one_call_but_in_long_rows),
        cmocka_unit_test(data_that_gpus_reach_need_one_call_on_the_own_stream),
        cmocka_unit_test(copies_are_for_copy_engines_where_kernels_cannot),
        cmocka_unit_test(leases_are_a_few_calls),
        cmocka_unit_test(limited_waits_ask),
        cmocka_unit_test(a_lost_gpu_comes_back),
        cmocka_unit_test(runs_any_shape_on_the_stand_in),
        cmocka_unit_test(runs_any_shape_on_a_gpu),
        cmocka_unit_test(runs_branches_on_the_stand_in),
        cmocka_unit_test(runs_branches_on_a_gpu),
        cmocka_unit_test(runs_on_two_gpus_at_once),
        cmocka_unit_test(sharing_costs_two_calls),
        cmocka_unit_test(growth_frees_behind_the_last_user),
        cmocka_unit_test(driver_calls_may_fail),
        cmocka_unit_test(contexts_share_loaded_code),
    };
    return cmocka_run_group_tests_name("contexts on CUDA", tests, NULL, NULL);
}
