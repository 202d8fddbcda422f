/*
 * Runs that become part of a CUDA graph of the caller's, on a stand-in for the driver: what the graph computes, and which runs
 * are refused before the capture is touched.
 */
#include "support/support.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "dist/dist.h"
#include "runtime/context/context.h"
#include "support/plan/cuda_case.h"

enum { N = 100, RELAXED = 2 };
static const size_t SIZE = N * sizeof(float);

/* A stream that the caller captures, by the driver's functions as its program calls them. */
struct capture {
    struct cuda_case *f;
    struct ig_stream *stream;
    void *native, *graph, *executable;
    int (*begin)(void *stream, int mode);
    int (*end)(void *stream, void **graph);
    int (*instantiate)(void **executable, void *graph, unsigned long long flags);
    int (*launch)(void *executable, void *stream);
    int (*destroy_executable)(void *executable);
    int (*destroy)(void *graph);
};

static void begin_capture(struct capture *c, struct cuda_case *f) {
    void *driver = dlopen(f->driver.path, RTLD_NOW);
    assert_non_null(driver);
    *c = (struct capture){.f = f};
    *(void **)&c->begin = dlsym(driver, "cuStreamBeginCapture_v2");
    *(void **)&c->end = dlsym(driver, "cuStreamEndCapture");
    *(void **)&c->instantiate = dlsym(driver, "cuGraphInstantiateWithFlags");
    *(void **)&c->launch = dlsym(driver, "cuGraphLaunch");
    *(void **)&c->destroy_executable = dlsym(driver, "cuGraphExecDestroy");
    *(void **)&c->destroy = dlsym(driver, "cuGraphDestroy");
    cuda_must(f, f->device->api->stream_create(f->device, &c->stream, &f->error));
    memcpy(&c->native, c->stream, sizeof c->native); /* an ig_stream begins with the driver's handle */
    cuda_must(f, f->device->api->enter(f->device, &f->error));
    assert_int_equal(c->begin(c->native, RELAXED), 0);
    cuda_clear_log(f);
}

static void make_graph(struct capture *c) {
    assert_int_equal(c->end(c->native, &c->graph), 0);
    assert_int_equal(c->instantiate(&c->executable, c->graph, 0), 0);
}

static void end_capture(struct capture *c) {
    if (!c->graph) assert_int_equal(c->end(c->native, &c->graph), 0);
    if (c->executable) c->destroy_executable(c->executable);
    c->destroy(c->graph);
    c->f->device->api->leave(c->f->device);
    c->f->device->api->stream_destroy(c->f->device, c->stream);
}

static void set_input(struct cuda_case *f, size_t index, enum ingot_memory memory, void *data, int64_t n) {
    struct ingot_tensor input = {INGOT_F32, 1, {n}, data, memory};
    cuda_must(f, ig_context_set_input(f->context, index, &input, &f->error));
}

/* The run is refused with that message, and nothing of it has reached the stream. */
static void expect_refusal(struct capture *c, enum ingot_status wanted, const char *text) {
    struct cuda_case *f = c->f;
    assert_int_equal(ig_context_enqueue(f->context, c->native, &f->error), wanted);
    if (!strstr(f->error.message, text)) fail_msg("'%s' does not say '%s'", f->error.message, text);
    const char *log = f->driver.cuda->log;
    assert_int_equal(cuda_count(log, "cuLaunch") + cuda_count(log, "cuMemcpy") + cuda_count(log, "cuGraphLaunch") +
                         cuda_count(log, "cuEventRecord") + cuda_count(log, "cuStreamWaitEvent"),
                     0);
}

/* ---- What a graph computes --------------------------------------------------------------------------------------------------- */

/* A context's first run becomes part of the graph that the caller captures: each launch computes on what is in the input
 * then. It records no event, and the context makes no other run. */
static void runs_are_part_of_the_callers_graph(void **state) {
    static const enum ingot_memory memories[] = {INGOT_CUDA, INGOT_PINNED};
    for (int kind = 0; kind < 2; kind++) {
        struct cuda_case *f = cuda_begin(true, 0, 4);
        struct capture c;
        float *x = cuda_memory(f, memories[kind], SIZE), *y = cuda_memory(f, INGOT_CUDA, SIZE);
        begin_capture(&c, f);
        set_input(f, 0, memories[kind], x, N);
        cuda_must(f, ig_context_set_output(f->context, 0, INGOT_CUDA, y, SIZE, &f->error));
        cuda_enqueue(f, c.native);
        assert_int_equal(cuda_count(f->driver.cuda->log, "cuEvent"), 0);
        assert_int_equal(cuda_count(f->driver.cuda->log, "cuStreamWaitEvent"), 0);
        assert_int_equal(cuda_count(f->driver.cuda->log, "cuGraph"), 0);
        cuda_clear_log(f);
        expect_refusal(&c, INGOT_INVALID_ARGUMENT,
                       "the context's run is part of a CUDA graph: other runs need another");
        make_graph(&c);
        assert_int_equal(ig_context_enqueue(f->context, NULL, &f->error), INGOT_INVALID_ARGUMENT);
        for (int turn = 0; turn < 3; turn++) {
            for (int i = 0; i < N; i++)
                x[i] = (float)(turn * 100 + i);
            memset(y, 0, SIZE);
            assert_int_equal(c.launch(c.executable, c.native), 0);
            for (int i = 0; i < N; i++)
                assert_true(y[i] == 3 * x[i]);
        }
        end_capture(&c);
        cuda_release(f, memories[kind], x, SIZE);
        cuda_release(f, INGOT_CUDA, y, SIZE);
        cuda_end(f, true);
    }
}

/* Small inputs in host memory are read by the call, as they are for any run: launches have what they held then. */
static void host_inputs_are_those_of_the_capture(void **state) {
    struct cuda_case *f = cuda_begin(true, 0, 4);
    struct capture c;
    float *y = cuda_memory(f, INGOT_CUDA, SIZE);
    begin_capture(&c, f);
    cuda_set_x(f, N);
    cuda_must(f, ig_context_set_output(f->context, 0, INGOT_CUDA, y, SIZE, &f->error));
    cuda_enqueue(f, c.native);
    make_graph(&c);
    for (int turn = 0; turn < 2; turn++) {
        memset(y, 0, SIZE);
        assert_int_equal(c.launch(c.executable, c.native), 0);
        for (int i = 0; i < N; i++)
            assert_true(y[i] == 3 * ((float)i - 3));
        f->x[0] = 1000;
    }
    end_capture(&c);
    cuda_release(f, INGOT_CUDA, y, SIZE);
    cuda_end(f, true);
}

/* ---- What is refused --------------------------------------------------------------------------------------------------------- */

/* A context that has run before, and could have work under way, is refused before the capture is touched. */
static void later_runs_are_no_part_of_graphs(void **state) {
    struct cuda_case *f = cuda_begin(true, 0, 4);
    struct capture c;
    cuda_run(f, N);
    begin_capture(&c, f);
    expect_refusal(&c, INGOT_INVALID_ARGUMENT, "must be its context's first: use another context");
    end_capture(&c);
    cuda_run(f, 37);
    cuda_end(f, true);
}

static void results_stay_in_gpu_memory(void **state) {
    static const enum ingot_memory memories[] = {INGOT_HOST, INGOT_PINNED};
    for (int kind = 0; kind < 2; kind++) {
        struct cuda_case *f = cuda_begin(true, 0, 4);
        struct capture c;
        begin_capture(&c, f);
        cuda_set_x(f, N);
        cuda_must(f, ig_context_set_output(f->context, 0, memories[kind], NULL, 0, &f->error));
        expect_refusal(&c, INGOT_UNSUPPORTED,
                       "output 'y' of a run that becomes part of a CUDA graph must be in GPU memory");
        end_capture(&c);
        cuda_end(f, true);
    }
}

/* They would be staged on a stream that is not captured. Afterwards the context may run as it likes, outside of graphs. */
static void large_inputs_are_not_in_host_memory(void **state) {
    struct cuda_case *f = cuda_begin(true, 0, 4);
    struct capture c;
    begin_capture(&c, f);
    cuda_set_x(f, LARGEST);
    cuda_must(f, ig_context_set_output(f->context, 0, INGOT_CUDA, NULL, 0, &f->error));
    expect_refusal(&c, INGOT_UNSUPPORTED,
                   "a run that becomes part of a CUDA graph has less than 2097152 bytes of inputs in host memory: pin "
                   "them, or copy them to GPU memory");
    cuda_must(f, ig_context_set_output(f->context, 0, INGOT_HOST, NULL, 0, &f->error));
    end_capture(&c); /* the context has let the stream go */
    cuda_run(f, LARGEST);
    cuda_end(f, true);
}

/* The host has to see whether all have come. */
static void several_ranks_are_no_part_of_graphs(void **state) {
    struct cuda_case *f = cuda_begin(true, 0, 4);
    struct ig_group *seats[2];
    struct capture c;
    cuda_must(f, ig_group_create_local(2, NULL, seats, &f->error));
    f->context->env.group = seats[0];
    begin_capture(&c, f);
    cuda_set_x(f, N);
    cuda_must(f, ig_context_set_output(f->context, 0, INGOT_CUDA, NULL, 0, &f->error));
    expect_refusal(&c, INGOT_UNSUPPORTED, "a run of several ranks cannot become part of a CUDA graph");
    end_capture(&c);
    f->context->env.group = NULL;
    for (int r = 0; r < 2; r++)
        ig_group_destroy(seats[r]);
    cuda_run(f, N);
    cuda_end(f, true);
}

/* y = condition ? x : x, or, without the choice, f32[n] whose n is an element of another input. */
static void plan(struct cuda_case *f, bool chooses) {
    struct tiny_plan *t = &f->tiny;
    tiny_init(t);
    ig_slot n = chooses ? tiny_symbol(t, "n", 1, 0, 0, 1000) : tiny_symbol(t, "n", 0, IG_PLAN_NONE, 0, 1000), one = 0;
    tiny_subplan(t);
    if (!chooses) one = tiny_const(t, 1);
    uint32_t first =
        chooses ? tiny_input(t, "condition", INGOT_BOOL, 0, NULL) : tiny_input(t, "size", INGOT_I64, 1, &one);
    uint32_t x = tiny_input(t, "x", INGOT_F32, 1, &n), y = tiny_output(t, "y", INGOT_F32, 1, &n);
    if (chooses) {
        struct ig_plan_step *step = tiny_step(t, IG_STEP_IF, "choose", (const uint32_t[]){first, x, y}, 3);
        step->a = 1, step->b = 2, step->n_inputs = 1;
        for (int branch = 0; branch < 2; branch++) {
            tiny_subplan(t);
            x = tiny_input(t, "x", INGOT_F32, 1, &n), y = tiny_output(t, "y", INGOT_F32, 1, &n);
            tiny_step(t, IG_STEP_COPY, "take", (const uint32_t[]){x, y}, 2);
        }
    } else {
        tiny_step(t, IG_STEP_COPY, "take", (const uint32_t[]){x, y}, 2);
    }
    f->file = tiny_file(t);
}

static void expect_refusal_of_plan(bool chooses, const char *text) {
    struct cuda_case *owner = cuda_new(), *f = cuda_new();
    struct capture c;
    plan(owner, chooses);
    f->owner = owner;
    f->max_instances = 4;
    fake_driver_open(&f->driver);
    if (!cuda_open(f, f->driver.path, 0)) fail_msg("%s", f->error.message);
    int64_t *first = cuda_memory(f, INGOT_CUDA, sizeof *first);
    float *x = cuda_memory(f, INGOT_CUDA, SIZE);
    struct ingot_tensor tensor = {chooses ? INGOT_BOOL : INGOT_I64, chooses ? 0 : 1, {1}, first, INGOT_CUDA};
    *first = chooses ? 1 : N; /* the stand-in's memory is the host's */
    begin_capture(&c, f);
    cuda_must(f, ig_context_set_input(f->context, 0, &tensor, &f->error));
    set_input(f, 1, INGOT_CUDA, x, N);
    cuda_must(f, ig_context_set_output(f->context, 0, INGOT_CUDA, NULL, 0, &f->error));
    expect_refusal(&c, INGOT_UNSUPPORTED, text);
    end_capture(&c);
    cuda_must(f, ig_context_run(f->context, &f->error)); /* outside of graphs it can be done */
    cuda_release(f, INGOT_CUDA, first, sizeof *first);
    cuda_release(f, INGOT_CUDA, x, SIZE);
    cuda_end(f, true);
    free(owner);
}

static void control_flow_is_no_part_of_graphs(void **state) {
    expect_refusal_of_plan(true, "a run with control flow cannot become part of a CUDA graph");
}

static void sizes_are_known_to_the_host(void **state) {
    expect_refusal_of_plan(false,
                           "while a CUDA graph is captured, no size can be read from input 'size' in GPU memory");
}

/* Profiles, times, and arenas that others use meanwhile, need the host. */
static void what_the_host_takes_part_in_is_refused(void **state) {
    for (int kind = 0; kind < 3; kind++) {
        struct cuda_case *f = cuda_begin(true, 0, 4);
        struct capture c;
        struct ig_activations *shared = NULL;
        struct ig_activations_config activations = {
            .allocator = &f->allocator.base, .device = f->device, .shared = true};
        ig_context_destroy(f->context);
        f->context = NULL;
        if (kind == 2) cuda_must(f, ig_activations_create(&activations, &shared, &f->error));
        struct ig_context_config config = {.allocator = &f->allocator.base,
                                           .device = f->device,
                                           .max_instances = 4,
                                           .max_bytes = SIZE_MAX,
                                           .profile = kind == 0,
                                           .timing = kind == 1,
                                           .activations = shared};
        cuda_must(f, ig_context_create(&f->file, &config, &f->context, &f->error));
        begin_capture(&c, f);
        cuda_set_x(f, N);
        cuda_must(f, ig_context_set_output(f->context, 0, INGOT_CUDA, NULL, 0, &f->error));
        expect_refusal(&c, INGOT_UNSUPPORTED, "has neither a shared arena nor a profile nor times");
        end_capture(&c);
        ig_context_destroy(f->context);
        f->context = NULL;
        ig_activations_destroy(shared);
        cuda_end(f, true);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_part_of_the_callers_graph),  cmocka_unit_test(host_inputs_are_those_of_the_capture),
        cmocka_unit_test(later_runs_are_no_part_of_graphs),    cmocka_unit_test(results_stay_in_gpu_memory),
        cmocka_unit_test(large_inputs_are_not_in_host_memory), cmocka_unit_test(control_flow_is_no_part_of_graphs),
        cmocka_unit_test(sizes_are_known_to_the_host),         cmocka_unit_test(what_the_host_takes_part_in_is_refused),
        cmocka_unit_test(several_ranks_are_no_part_of_graphs),
    };
    return cmocka_run_group_tests_name("runs in the caller's graphs", tests, NULL, NULL);
}
