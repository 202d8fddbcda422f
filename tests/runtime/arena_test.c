/*
 * Activation memory that contexts share: on the CPU, then on a device with memory of its own, whose streams are executed
 * as late as the rules allow, or interleaved. Results are compared with those of a context alone. Two tests turn the
 * ordering off and see wrong results: that shows that the others would see a race. cuda_run_test.c checks the order of
 * driver calls, arena_api_test.c the public functions.
 */
#include "support/support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/frame/activations.h"
#include "support/device/remote_device.h"
#include "support/plan/runtime_case.h"

/* ---- Engines: x f32[n] -> y f32[n]; of KINDS - 1, also a condition ---------------------------------------------------- */

enum { KINDS = 4, SIZES = 7, OFFSETS = 3, LARGEST = 3000 };

static const int64_t sizes[SIZES] = {1, 16, 100, 777, 0, 2048, LARGEST};

/* Each step adds two earlier values, chosen by the seed. */
static struct fixture *sums(uint32_t seed, uint32_t steps) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot n = tiny_symbol(t, "n", 0, 0, 0, LARGEST), bytes = bytes_for(t, n);
    uint32_t values[32];
    tiny_subplan(t);
    values[0] = tiny_input(t, "x", INGOT_F32, 1, &n);
    uint32_t y = tiny_output(t, "y", INGOT_F32, 1, &n);
    for (uint32_t i = 1; i <= steps; i++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t first = i > 5 ? i - 5 : 0, a = first + seed / 65536 % (i - first), b = i - 1;
        values[i] = i == steps ? y : tiny_arena(t, bytes);
        LAUNCH(f, f->add, n, values[a], values[b], values[i]);
    }
    return f;
}

/* y = -(condition ? -x : x + 7 + x) + 1 */
static struct fixture *choice(void) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot n = tiny_symbol(t, "n", 0, 0, 0, LARGEST);
    tiny_subplan(t);
    uint32_t x = tiny_input(t, "x", INGOT_F32, 1, &n), condition = tiny_input(t, "condition", INGOT_BOOL, 0, NULL);
    uint32_t y = tiny_output(t, "y", INGOT_F32, 1, &n), w = tiny_weight(t, 3, (const float[]){1}, 1);
    uint32_t chosen = tiny_arena(t, bytes_for(t, n)), negative = tiny_arena(t, bytes_for(t, n));
    struct ig_plan_step *step = tiny_step(t, IG_STEP_IF, "choose", (const uint32_t[]){condition, x, chosen}, 3);
    step->a = 1, step->b = 2, step->n_inputs = 1;
    LAUNCH(f, f->negate, n, chosen, negative);
    LAUNCH(f, f->shift, n, negative, w, y);
    tiny_subplan(t);
    x = tiny_input(t, "x", INGOT_F32, 1, &n), y = tiny_output(t, "y", INGOT_F32, 1, &n);
    LAUNCH(f, f->negate, n, x, y);
    tiny_subplan(t);
    x = tiny_input(t, "x", INGOT_F32, 1, &n), y = tiny_output(t, "y", INGOT_F32, 1, &n);
    w = tiny_weight(t, 4, (const float[]){7}, 1);
    uint32_t a = tiny_arena(t, bytes_for(t, n));
    LAUNCH(f, f->shift, n, x, w, a);
    LAUNCH(f, f->add, n, a, x, y);
    return f;
}

static struct fixture *engine(int kind) {
    switch (kind) {
    case 0: return chain(0, INT32_MAX);
    case 1: return sums(1, 9);
    case 2: return sums(5, 20);
    default: return choice();
    }
}

static struct fixture *make(int kind, struct ig_activations *activations) {
    struct fixture *f = engine(kind);
    const struct ig_context_config config = {.max_bytes = SIZE_MAX, .activations = activations};
    if (try_context(f, config, 1) != INGOT_OK) fail_msg("%s", f->error.message);
    return f;
}

static void bind(struct fixture *f, int kind, int64_t n, int offset) {
    static unsigned char conditions[2] = {0, 1};
    set_input(f, 0, vector(ramp + offset, n));
    if (kind == KINDS - 1) set_input(f, 1, scalar_bool(&conditions[offset % 2]));
}

static void enqueue(struct fixture *f, void *stream) {
    if (ig_context_enqueue(f->context, stream, &f->error) != INGOT_OK) fail_msg("%s", f->error.message);
}

static void wait_for(struct fixture *f) {
    if (ig_context_wait(f->context, &f->error) != INGOT_OK) fail_msg("%s", f->error.message);
}

/* ---- What a context alone computes, and needs ------------------------------------------------------------------------- */

static float *expected[KINDS][SIZES][OFFSETS];
static size_t needs[KINDS][SIZES], largest_need;

static void compute_alone(void) {
    largest_need = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        struct fixture *f = make(kind, NULL);
        for (int s = 0; s < SIZES; s++) {
            for (int offset = 0; offset < OFFSETS; offset++) {
                const size_t bytes = (size_t)sizes[s] * sizeof(float);
                bind(f, kind, sizes[s], offset);
                run(f);
                expected[kind][s][offset] = malloc(bytes + 1);
                memcpy(expected[kind][s][offset], output(f, 0).data, bytes);
            }
            struct ingot_memory_info info;
            assert_int_equal(ig_context_memory(f->context, &info, &f->error), INGOT_OK);
            needs[kind][s] = info.arena_bytes;
            if (info.arena_bytes > largest_need) largest_need = info.arena_bytes;
        }
        end_plan(f);
    }
}

static void forget_alone(void) {
    for (int i = 0; i < KINDS * SIZES; i++) {
        for (int offset = 0; offset < OFFSETS; offset++)
            free(expected[i / SIZES][i % SIZES][offset]);
    }
}

static bool is_right(struct fixture *f, int kind, int size, int offset) {
    struct ingot_tensor y;
    if (ig_context_output(f->context, 0, &y, &f->error) != INGOT_OK || y.dims[0] != sizes[size]) return false;
    return memcmp(y.data, expected[kind][size][offset], (size_t)sizes[size] * sizeof(float)) == 0;
}

/* ---- The shared arena ------------------------------------------------------------------------------------------------- */

struct shared {
    struct counting_allocator allocator;
    struct ig_device *device;
    struct ig_activations *activations;
};

static enum ingot_status try_shared(struct shared *s, struct ig_activations_config config, struct ingot_error *error) {
    config.allocator = &s->allocator.base;
    config.shared = true;
    if (test_remote)
        IG_TRY(remote_device_create(1, config.allocator, &s->device, error));
    else
        IG_TRY(ig_device_cpu_create(1, config.allocator, &s->device, error));
    config.device = s->device;
    return ig_activations_create(&config, &s->activations, error);
}

static void make_shared(struct shared *s, struct ig_activations_config config) {
    struct ingot_error error;
    *s = (struct shared){0};
    counting_allocator_init(&s->allocator);
    if (try_shared(s, config, &error) != INGOT_OK) fail_msg("%s", error.message);
}

static void end_shared(struct shared *s) {
    ig_activations_destroy(s->activations);
    if (s->device) s->device->api->destroy(s->device);
    assert_int_equal(s->allocator.live_count, 0);
}

static struct ingot_arena_info describe(struct shared *s) {
    struct ingot_arena_info info;
    ig_activations_describe(s->activations, &info);
    return info;
}

static void run_alone(struct fixture *f, int kind, int size) {
    bind(f, kind, sizes[size], 0);
    run(f);
    assert_true(is_right(f, kind, size, 0));
}

/* ---- Sizes ------------------------------------------------------------------------------------------------------------ */

enum { N100 = 2, N777 = 3, N0 = 4, N2048 = 5, N3000 = 6 };

static void it_has_the_size_in_use(void **state) {
    struct shared s;
    make_shared(&s, (struct ig_activations_config){0});
    struct fixture *a = make(0, s.activations), *b = make(2, s.activations);
    bind(a, 0, sizes[N100], 0);
    struct ingot_memory_info memory;
    assert_int_equal(ig_context_memory(a->context, &memory, &a->error), INGOT_OK);
    assert_int_equal(memory.arena_bytes, needs[0][N100]);
    assert_int_equal(describe(&s).bytes, 0); /* asking allocates nothing */
    run_alone(a, 0, N0);
    assert_int_equal(describe(&s).bytes, 0);
    assert_int_equal(describe(&s).executions, 0); /* an empty run needs no arena */
    run_alone(a, 0, N100);
    assert_int_equal(describe(&s).bytes, needs[0][N100]);
    run_alone(b, 2, N2048);
    assert_int_equal(describe(&s).bytes, needs[2][N2048]);
    run_alone(a, 0, N777);
    struct ingot_arena_info info = describe(&s);
    assert_int_equal(info.bytes, needs[2][N2048]);
    assert_int_equal(info.peak_bytes, needs[2][N2048]);
    assert_int_equal(info.contexts, 2);
    assert_int_equal(info.executions, 3);
    assert_int_equal(info.followed, 2);
    end_plan(b);
    assert_int_equal(describe(&s).contexts, 1);
    end_plan(a);
    end_shared(&s);
}

static void trimming_keeps_what_runs_needed(void **state) {
    struct shared s;
    make_shared(&s, (struct ig_activations_config){0});
    struct fixture *f = make(0, s.activations);
    run_alone(f, 0, N3000);
    ig_activations_trim(s.activations);
    assert_int_equal(describe(&s).bytes, needs[0][N3000]);
    run_alone(f, 0, N100);
    run_alone(f, 0, N777);
    ig_activations_trim(s.activations);
    assert_int_equal(describe(&s).bytes, needs[0][N777]);
    run_alone(f, 0, N100);
    run_alone(f, 0, N777);
    run_alone(f, 0, N2048); /* grows again */
    assert_int_equal(describe(&s).bytes, needs[0][N2048]);
    ig_activations_trim(s.activations);
    ig_activations_trim(s.activations); /* no run since */
    assert_int_equal(describe(&s).bytes, 0);
    assert_int_equal(describe(&s).peak_bytes, needs[0][N3000]);
    run_alone(f, 0, N100);
    end_plan(f);
    end_shared(&s);
}

static void a_bound_says_what_is_missing(void **state) {
    struct shared s;
    char wanted[200];
    make_shared(&s, (struct ig_activations_config){.max_bytes = needs[0][N777]});
    struct fixture *a = make(0, s.activations), *b = make(0, s.activations);
    snprintf(wanted, sizeof wanted,
             "activations with n=2048: %zu bytes needed, the arena's bound is %zu: %zu bytes are missing",
             needs[0][N2048], needs[0][N777], needs[0][N2048] - needs[0][N777]);
    for (int turn = 0; turn < 3; turn++) {
        run_alone(a, 0, turn ? N777 : N100);
        bind(b, 0, sizes[N2048], 0);
        expect_refusal(b, ig_context_run(b->context, &b->error), INGOT_OUT_OF_MEMORY, wanted);
        run_alone(b, 0, N777);
    }
    assert_int_equal(describe(&s).peak_bytes, needs[0][N777]);
    ig_activations_trim(s.activations); /* what was refused does not count */
    assert_int_equal(describe(&s).bytes, needs[0][N777]);
    end_plan(a);
    end_plan(b);
    end_shared(&s);
}

static void given_memory_may_fit_exactly(void **state) {
    struct shared memory, s;
    char wanted[200];
    make_shared(&memory, (struct ig_activations_config){0}); /* for its device */
    const size_t size = needs[2][N777];
    void *data = NULL;
    assert_int_equal(memory.device->api->allocate(memory.device, size, &data, NULL), INGOT_OK);
    make_shared(&s, (struct ig_activations_config){.data = data, .size = size});
    struct fixture *f = make(2, s.activations), *other = make(0, s.activations);
    run_alone(f, 2, N777);
    run_alone(other, 0, N777);
    bind(f, 2, sizes[N777] + 16, 0);
    snprintf(wanted, sizeof wanted, "activations with n=793: %zu bytes needed, the memory given for the arena has %zu",
             size + 64 * (size / (size_t)(784 * 4)), size);
    expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_OUT_OF_MEMORY, wanted);
    ig_activations_trim(s.activations);
    assert_int_equal(describe(&s).bytes, size);
    run_alone(f, 2, N777);
    end_plan(f);
    end_plan(other);
    end_shared(&s);
    memory.device->api->release(memory.device, data, size);
    end_shared(&memory);
}

/* Where it moves, the lists are patched: nothing is captured or allocated again. */
static void moving_patches_lists(void **state) {
    struct shared s;
    make_shared(&s, (struct ig_activations_config){0});
    struct fixture *a = make(1, s.activations), *b = make(0, s.activations);
    run_alone(a, 1, N100);
    size_t calls = a->allocator.calls;
    if (test_remote) remote_device_counts(a->device);
    run_alone(b, 0, N3000);
    run_alone(a, 1, N100);
    assert_int_equal(a->allocator.calls, calls);
    if (test_remote) {
        struct remote_counts c = remote_device_counts(a->device);
        assert_int_equal(c.captures + c.allocations, 0);
        assert_true(c.patches > 0);
    }
    end_plan(a);
    end_plan(b);
    end_shared(&s);
}

/* ---- Order ------------------------------------------------------------------------------------------------------------ */

static void only_other_streams_are_waited_for(void **state) {
    struct shared s;
    make_shared(&s, (struct ig_activations_config){0});
    struct fixture *f[2] = {make(0, s.activations), make(1, s.activations)};
    run_alone(f[0], 0, N3000);
    run_alone(f[1], 1, N3000);
    for (int i = 0; i < 2; i++)
        run_alone(f[i], i, N777);
    static const int order[] = {0, 0, 1, 1, 1, 0, 1, 0, 0};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        int who = order[i];
        remote_device_counts(f[who]->device);
        enqueue(f[who], NULL);
        struct remote_counts c = remote_device_counts(f[who]->device);
        assert_int_equal(c.waits, i == 0 || order[i - 1] != who); /* the last to run was f[1] */
        assert_int_equal(c.lists, 1);
        assert_int_equal(c.allocations + c.captures + c.blocked, 0);
        if (i % 2) wait_for(f[0]), wait_for(f[1]); /* a context with two runs in flight would block */
    }
    /* On the caller's stream, the device orders them anyway. */
    struct ig_stream *stream;
    assert_int_equal(s.device->api->stream_create(s.device, &stream, NULL), INGOT_OK);
    for (int turn = 0; turn < 6; turn++) {
        struct fixture *g = f[turn % 2];
        remote_device_counts(g->device);
        enqueue(g, stream);
        /* At first, for the context's own last run, and for the arena's last user: f[0], on its own stream. */
        assert_int_equal(remote_device_counts(g->device).waits, turn == 0 ? 2 : turn == 1 ? 1 : 0);
        if (turn % 2) wait_for(f[0]), wait_for(f[1]);
    }
    end_plan(f[0]);
    end_plan(f[1]);
    end_shared(&s);
}

/* Every stream has work, and the device takes one operation of each in turn. Returns how many results are wrong. */
static int interleave(bool unordered) {
    struct shared s;
    struct fixture *f[8];
    int wrong = 0;
    make_shared(&s, (struct ig_activations_config){.unordered = unordered});
    for (int i = 0; i < 8; i++) {
        f[i] = make(i % 3, s.activations);
        run_alone(f[i], i % 3, N3000);
    }
    remote_device_interleave(true);
    for (int turn = 0; turn < 10; turn++) {
        for (int i = 0; i < 8; i++) {
            bind(f[i], i % 3, sizes[N777], (turn + i) % OFFSETS);
            enqueue(f[i], NULL);
        }
        for (int i = 0; i < 8; i++) {
            wait_for(f[(i + turn) % 8]);
            wrong += !is_right(f[(i + turn) % 8], (i + turn) % 8 % 3, N777, (turn + (i + turn) % 8) % OFFSETS);
        }
    }
    remote_device_interleave(false);
    for (int i = 0; i < 8; i++)
        end_plan(f[i]);
    end_shared(&s);
    return wrong;
}

static void executions_are_ordered_on_the_device(void **state) {
    assert_int_equal(interleave(false), 0);
    assert_true(interleave(true) > 0); /* the test sees the race */
}

/* On the CPU. A kernel of the first thread waits until the second thread has run, or has been about to. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int stage;
} meeting = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

static void reach(int stage) {
    pthread_mutex_lock(&meeting.lock);
    if (meeting.stage < stage) meeting.stage = stage;
    pthread_cond_broadcast(&meeting.changed);
    pthread_mutex_unlock(&meeting.lock);
}

static void await(int stage) {
    pthread_mutex_lock(&meeting.lock);
    while (meeting.stage < stage)
        pthread_cond_wait(&meeting.changed, &meeting.lock);
    pthread_mutex_unlock(&meeting.lock);
}

enum { NOBODY, WRITTEN, RUN };
static int awaited;

static void meet(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    reach(WRITTEN);
    await(awaited);
    for (int64_t i = 0; i < dim[0]; i++)
        ((float *)buf[1])[i] = ((const float *)buf[0])[i];
}

static void *run_second(void *argument) {
    struct fixture *f = argument;
    await(WRITTEN);
    bind(f, 0, 16, 2);
    enqueue(f, NULL);
    wait_for(f);
    reach(RUN);
    return NULL;
}

/* Two threads, of which the first has written to the arena when the second comes. */
static float meet_in(bool unordered) {
    struct shared s;
    pthread_t thread;
    make_shared(&s, (struct ig_activations_config){.unordered = unordered});
    struct fixture *f = begin_plan(), *second = make(0, s.activations);
    struct tiny_plan *t = &f->tiny;
    uint32_t kernel = tiny_kernel(t, "meet", meet);
    ig_slot n = tiny_symbol(t, "n", 0, 0, 0, TILE);
    tiny_subplan(t);
    uint32_t x = tiny_input(t, "x", INGOT_F32, 1, &n), y = tiny_output(t, "y", INGOT_F32, 1, &n);
    uint32_t a = tiny_arena(t, bytes_for(t, n));
    LAUNCH(f, f->negate, n, x, a);
    LAUNCH(f, kernel, n, a, y);
    if (try_context(f, (struct ig_context_config){.max_bytes = SIZE_MAX, .activations = s.activations}, 1))
        fail_msg("%s", f->error.message);
    run_alone(second, 0, N100); /* so that the arena need not grow */
    meeting.stage = NOBODY;
    awaited = unordered ? RUN : WRITTEN;
    set_input(f, 0, vector(ramp, 16));
    assert_int_equal(pthread_create(&thread, NULL, run_second, second), 0);
    run(f);
    pthread_join(thread, NULL);
    assert_true(is_right(second, 0, 1, 2));
    assert_int_equal(describe(&s).executions, 3);
    float found = ((float *)output(f, 0).data)[15];
    end_plan(f);
    end_plan(second);
    end_shared(&s);
    return found;
}

static void meeting_threads_take_turns(void **state) {
    assert_true(meet_in(false) == -ramp[15]);
    assert_true(meet_in(true) != -ramp[15]); /* the test sees the race */
}

/* ---- Many contexts, many threads ---------------------------------------------------------------------------------------- */

enum { CONTEXTS = 16, THREADS = 8, EACH = CONTEXTS / THREADS };

struct worker {
    pthread_t thread;
    struct shared *shared;
    struct fixture *f[EACH];
    int kind[EACH];
    uint32_t seed;
    int runs, wrong;
    bool trims;
};

static uint32_t choose(struct worker *w, uint32_t n) {
    w->seed = w->seed * 1664525u + 1013904223u;
    return (w->seed >> 8) % n;
}

static void *work(void *argument) {
    struct worker *w = argument;
    int size[EACH], offset[EACH];
    bool pending[EACH] = {false};
    for (int turn = 0; turn < w->runs; turn++) {
        int i = (int)choose(w, EACH);
        if (turn % 64 == 63 && w->trims) ig_activations_trim(w->shared->activations);
        size[i] = (int)choose(w, SIZES);
        offset[i] = (int)choose(w, OFFSETS);
        bind(w->f[i], w->kind[i], sizes[size[i]], offset[i]);
        enqueue(w->f[i], NULL);
        pending[i] = true;
        for (int k = 0; k < EACH; k++) {
            if (!pending[k] || choose(w, 2)) continue;
            wait_for(w->f[k]);
            w->wrong += !is_right(w->f[k], w->kind[k], size[k], offset[k]);
            pending[k] = false;
        }
    }
    return NULL;
}

static void stress(int runs, bool trims) {
    struct shared s;
    static struct worker workers[THREADS];
    make_shared(&s, (struct ig_activations_config){0});
    for (int t = 0; t < THREADS; t++) {
        workers[t] = (struct worker){.shared = &s, .seed = (uint32_t)t + 1, .runs = runs / THREADS, .trims = trims};
        for (int i = 0; i < EACH; i++) {
            workers[t].kind[i] = (t * EACH + i) % KINDS;
            workers[t].f[i] = make(workers[t].kind[i], s.activations);
        }
    }
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&workers[t].thread, NULL, work, &workers[t]), 0);
    for (int t = 0; t < THREADS; t++) {
        pthread_join(workers[t].thread, NULL);
        assert_int_equal(workers[t].wrong, 0);
    }
    struct ingot_arena_info info = describe(&s);
    assert_int_equal(info.contexts, CONTEXTS);
    assert_int_equal(info.peak_bytes, largest_need);
    assert_true(info.followed > 0 && info.executions > (uint64_t)runs / 2);
    for (int t = 0; t < THREADS; t++) {
        for (int i = 0; i < EACH; i++)
            end_plan(workers[t].f[i]); /* some with work in flight */
    }
    end_shared(&s);
}

static void many_contexts_share_one_arena(void **state) {
    stress(test_remote ? 4000 : 20000, false);
}

static void trimming_disturbs_nobody(void **state) {
    stress(test_remote ? 1000 : 4000, true);
}

static void interleaved_streams_share_one_arena(void **state) {
    remote_device_interleave(true);
    stress(2000, false);
    remote_device_interleave(false);
}

/* ---- Lifetimes and failures ------------------------------------------------------------------------------------------------ */

/* Memory that goes or moves while earlier executions have not begun. */
static void work_in_flight_keeps_its_memory(void **state) {
    for (int turn = 0; turn < 3; turn++) {
        struct shared s;
        make_shared(&s, (struct ig_activations_config){0});
        struct fixture *a = make(1, s.activations), *b = make(2, s.activations);
        bind(a, 1, sizes[N100], 0);
        enqueue(a, NULL);
        bind(b, 2, sizes[N3000], 1);
        enqueue(b, NULL); /* the arena grows */
        if (turn == 1) ig_activations_trim(s.activations);
        if (turn == 2) end_plan(b); /* in flight */
        bind(a, 1, sizes[N777], 2);
        enqueue(a, NULL);
        wait_for(a);
        assert_true(is_right(a, 1, N777, 2));
        if (turn < 2) wait_for(b);
        if (turn < 2) assert_true(is_right(b, 2, N3000, 1));
        if (turn < 2) end_plan(b);
        enqueue(a, NULL);
        end_plan(a); /* in flight */
        end_shared(&s);
    }
}

static enum ingot_status use_all(struct shared *s, struct fixture **f, struct ingot_error *error) {
    IG_TRY(try_shared(s, (struct ig_activations_config){0}, error));
    for (int i = 0; i < 2; i++) {
        f[i] = engine(i);
        f[i]->allocator.fail_at = s->allocator.fail_at; /* of each, the same call fails: there are three allocators */
        struct ig_context_config config = {.max_bytes = SIZE_MAX, .activations = s->activations};
        enum ingot_status status = try_context(f[i], config, 1);
        *error = f[i]->error;
        IG_TRY(status);
    }
    for (int turn = 0; turn < 6; turn++) {
        struct fixture *g = f[turn % 2];
        const int size = turn < 2 ? N100 : turn < 4 ? N3000 : N777;
        bind(g, turn % 2, sizes[size], 0);
        enum ingot_status status = ig_context_run(g->context, error);
        if (status != INGOT_OK) assert_int_equal(status, INGOT_OUT_OF_MEMORY);
        if (status != INGOT_OK) status = ig_context_run(g->context, error); /* another one's may fail */
        if (status != INGOT_OK) run(g);
        assert_true(is_right(g, turn % 2, size, 0));
        if (turn == 3) ig_activations_trim(s->activations);
        if (turn == 4) ig_activations_trim(s->activations);
    }
    return INGOT_OK;
}

static void every_allocation_may_fail(void **state) {
    bool done = false;
    for (size_t n = 1; !done; n++) {
        struct shared s = {0};
        struct fixture *f[2] = {NULL, NULL};
        struct ingot_error error = {0};
        counting_allocator_init(&s.allocator);
        s.allocator.fail_at = n;
        enum ingot_status status = use_all(&s, f, &error);
        if (status != INGOT_OK) assert_int_equal(error.status, INGOT_OUT_OF_MEMORY);
        done = s.allocator.calls < n;
        for (int i = 0; i < 2; i++) {
            if (f[i]) done &= f[i]->allocator.calls < n;
            if (f[i]) end_plan(f[i]);
        }
        end_shared(&s);
        assert_true(n < 1000);
    }
}

/* Enqueueing computes, so that threads wait for each other. */
static const struct CMUnitTest cpu_tests[] = {
    cmocka_unit_test(meeting_threads_take_turns),
};

/* Enqueueing does not, so that streams do. */
static const struct CMUnitTest remote_tests[] = {
    cmocka_unit_test(only_other_streams_are_waited_for),
    cmocka_unit_test(executions_are_ordered_on_the_device),
    cmocka_unit_test(interleaved_streams_share_one_arena),
};

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_has_the_size_in_use),       cmocka_unit_test(trimming_keeps_what_runs_needed),
        cmocka_unit_test(a_bound_says_what_is_missing), cmocka_unit_test(given_memory_may_fit_exactly),
        cmocka_unit_test(moving_patches_lists),         cmocka_unit_test(many_contexts_share_one_arena),
        cmocka_unit_test(trimming_disturbs_nobody),     cmocka_unit_test(work_in_flight_keeps_its_memory),
        cmocka_unit_test(every_allocation_may_fail),
    };
    fill_ramp();
    compute_alone();
    int failed = cmocka_run_group_tests_name("arenas on the CPU", tests, NULL, NULL);
    failed += cmocka_run_group_tests_name("turns on the CPU", cpu_tests, NULL, NULL);
    forget_alone();
    test_remote = true;
    compute_alone();
    failed += cmocka_run_group_tests_name("arenas on a device with memory of its own", tests, NULL, NULL);
    failed += cmocka_run_group_tests_name("order on a device with streams", remote_tests, NULL, NULL);
    forget_alone();
    return failed;
}
