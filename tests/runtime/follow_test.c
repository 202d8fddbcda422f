/*
 * Readers of leased results on streams of the caller's (ingot_lease_follow): the device orders them behind the run, and later
 * runs that use the same memory behind them; the host waits for neither. On the device of support/device/remote_device.h,
 * which works as late as it may, and on a stand-in for the CUDA driver, whose calls tests count.
 */
#include "support/support.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "runtime/context/context.h"
#include "support/device/remote_device.h"
#include "support/plan/cuda_case.h"
#include "support/plan/runtime_case.h"

enum { N = 100 };
static const size_t SIZE = N * sizeof(float);

static void expect_ok(struct fixture *f, enum ingot_status status) {
    if (status != INGOT_OK) fail_msg("%s", f->error.message);
}

/* The chain, with results in device memory. */
static struct fixture *begin(void) {
    struct fixture *f = chain(0, INT32_MAX);
    make_context(f, 2, 4, false);
    expect_ok(f, ig_context_set_output(f->context, 0, INGOT_CUDA, NULL, 0, &f->error));
    return f;
}

static struct ig_stream *make_stream(struct fixture *f) {
    struct ig_stream *stream;
    expect_ok(f, f->device->api->stream_create(f->device, &stream, &f->error));
    return stream;
}

/* A lease on a run on elements that begin with `first`. */
static struct ig_results *enqueue_leased(struct fixture *f, float first) {
    static float x[N]; /* read when enqueue returns */
    struct ig_results *results = NULL;
    for (int i = 0; i < N; i++)
        x[i] = first + (float)i;
    set_input(f, 0, vector(x, N));
    expect_ok(f, ig_context_enqueue(f->context, NULL, &f->error));
    expect_ok(f, ig_context_lease(f->context, &results, &f->error));
    return results;
}

/* Work on a stream of the caller's that reads the results: a copy to pinned memory. */
struct reader {
    struct ig_stream *stream;
    void *copy;
};

static struct reader make_reader(struct fixture *f) {
    struct reader reader = {make_stream(f), NULL};
    expect_ok(f, f->device->api->allocate_host(f->device, SIZE, &reader.copy, &f->error));
    return reader;
}

static void read_on(struct fixture *f, struct reader *reader, struct ig_results *results) {
    struct ingot_tensor y;
    memset(reader->copy, 0, SIZE);
    expect_ok(f, ig_results_follow(results, reader->stream, &f->error));
    expect_ok(f, ig_results_output(results, 0, &y, &f->error));
    expect_ok(f, f->device->api->copy(f->device, reader->stream, reader->copy, y.data, SIZE, &f->error));
}

/* What the reader has read, once its stream is waited for, is the result for that input. */
static void check_read(struct fixture *f, struct reader *reader, float first) {
    const float *values = reader->copy;
    expect_ok(f, f->device->api->stream_wait(f->device, reader->stream, &f->error));
    for (int i = 0; i < N; i++)
        assert_true(values[i] == -(2 * (first + (float)i) + 10));
}

static void end_reader(struct fixture *f, struct reader *reader) {
    f->device->api->release_host(f->device, reader->copy, SIZE);
    f->device->api->stream_destroy(f->device, reader->stream);
}

/* ---- Orders ---------------------------------------------------------------------------------------------------------------- */

/* Without the first order, copies would read what was there before; without the second, what comes after. */
static void readers_come_between_the_runs(void **state) {
    struct fixture *f = begin();
    struct reader readers[3] = {make_reader(f), make_reader(f), make_reader(f)};
    ig_results_release(enqueue_leased(f, 1000));
    for (int turn = 0; turn < 4; turn++) {
        struct ig_results *results = enqueue_leased(f, (float)turn);
        remote_device_counts(f->device);
        for (int i = 0; i <= turn && i < 3; i++)
            read_on(f, &readers[i], results);
        ig_results_release(results);
        assert_int_equal(remote_device_counts(f->device).syncs, 0);
        struct ig_results *next = enqueue_leased(f, 500);
        assert_ptr_equal(next, results);
        ig_results_release(next);
        expect_ok(f, ig_context_wait(f->context, &f->error)); /* the device does what it must, and readers come later */
        for (int i = 0; i <= turn && i < 3; i++)
            check_read(f, &readers[i], (float)turn);
    }
    for (int i = 0; i < 3; i++)
        end_reader(f, &readers[i]);
    end_plan(f);
}

static void readers_follow_as_often_as_they_like(void **state) {
    struct fixture *f = begin();
    struct reader reader = make_reader(f);
    for (int turn = 0; turn < 4; turn++) {
        struct ig_results *results = enqueue_leased(f, (float)turn);
        read_on(f, &reader, results);
        read_on(f, &reader, results);
        remote_device_counts(f->device);
        size_t calls = f->allocator.calls;
        if (turn % 2)
            expect_ok(f, ig_results_release_after(results, reader.stream, &f->error));
        else
            ig_results_release(results);
        assert_int_equal(remote_device_counts(f->device).records, 1); /* one event, however often */
        struct ig_results *next = enqueue_leased(f, 500);
        assert_ptr_equal(next, results);
        ig_results_release(next);
        check_read(f, &reader, (float)turn);
        if (turn > 0) assert_int_equal(f->allocator.calls, calls);
    }
    end_reader(f, &reader);
    end_plan(f);
}

/* Three sets, of which one is read. */
static void other_memory_is_not_delayed(void **state) {
    struct fixture *f = begin();
    struct reader reader = make_reader(f);
    struct ig_results *read = enqueue_leased(f, 1), *second = enqueue_leased(f, 2), *third = enqueue_leased(f, 3);
    read_on(f, &reader, read);
    ig_results_release(read);
    ig_results_release(second);
    ig_results_release(third);
    unsigned delayed = 0;
    struct ig_results *held[3];
    for (int i = 0; i < 3; i++) {
        remote_device_counts(f->device);
        held[i] = enqueue_leased(f, 500);
        unsigned waits = remote_device_counts(f->device).waits;
        assert_int_equal(waits, held[i] == read);
        delayed += waits;
    }
    assert_int_equal(delayed, 1);
    check_read(f, &reader, 1);
    for (int i = 0; i < 3; i++)
        ig_results_release(held[i]);
    end_reader(f, &reader);
    end_plan(f);
}

/* A run that is done orders nothing more, but its memory follows the reader. */
static void results_that_are_there_are_followed_too(void **state) {
    struct fixture *f = begin();
    struct reader reader = make_reader(f);
    struct ig_results *results = enqueue_leased(f, 1);
    expect_ok(f, ig_context_wait(f->context, &f->error));
    remote_device_counts(f->device);
    read_on(f, &reader, results);
    assert_int_equal(remote_device_counts(f->device).waits, 0);
    ig_results_release(results);
    ig_results_release(enqueue_leased(f, 500));
    check_read(f, &reader, 1);
    end_reader(f, &reader);
    end_plan(f);
}

/* The lease is all there is when the context goes; the memory is freed behind the reader. */
static void leases_of_no_context_are_followed(void **state) {
    struct fixture *f = begin();
    struct reader reader = make_reader(f);
    struct ig_results *results = enqueue_leased(f, 1);
    ig_device_retain(f->device);
    ig_context_destroy(f->context);
    f->context = NULL;
    read_on(f, &reader, results);
    ig_results_release(results);
    check_read(f, &reader, 1);
    end_reader(f, &reader);
    ig_device_release(f->device);
    end_plan(f);
}

/* ---- Refusals -------------------------------------------------------------------------------------------------------------- */

static void what_cannot_be_followed_is_refused(void **state) {
    struct fixture *f = chain(0, INT32_MAX);
    make_context(f, 2, 4, false);
    struct ig_results *results = enqueue_leased(f, 1);
    if (f->remote) {
        expect_refusal(f, ig_results_follow(results, NULL, &f->error), INGOT_INVALID_ARGUMENT, "default stream");
        struct reader reader = make_reader(f);
        remote_device_fail(f->device);
        expect_refusal(f, ig_results_wait(results, &f->error), INGOT_DEVICE, "failed");
        expect_refusal(f, ig_results_follow(results, reader.stream, &f->error), INGOT_DEVICE, "the leased run failed");
        end_reader(f, &reader);
    } else {
        expect_refusal(f, ig_results_follow(results, f, &f->error), INGOT_INVALID_ARGUMENT, "runs on the CPU");
    }
    ig_results_release(results);
    end_plan(f);
    assert_int_equal(ingot_lease_follow(NULL, NULL, NULL), INGOT_INVALID_ARGUMENT);
}

static void without_memory_nothing_is_followed(void **state) {
    struct fixture *f = begin();
    struct reader reader = make_reader(f);
    for (size_t fail_at = 1; fail_at <= 3; fail_at++) {
        struct ig_results *results = enqueue_leased(f, 1);
        f->allocator.calls = 0;
        f->allocator.fail_at = fail_at;
        enum ingot_status status = ig_results_follow(results, reader.stream, &f->error);
        f->allocator.fail_at = 0;
        assert_int_equal(status, fail_at < 3 ? INGOT_OUT_OF_MEMORY : INGOT_OK);
        read_on(f, &reader, results);
        ig_results_release(results);
        check_read(f, &reader, 1);
        expect_ok(f, ig_context_wait(f->context, &f->error));
        ig_results_pool_trim(f->context->pool);
        if (fail_at < 3) { /* a new context, whose lease has no reader yet */
            end_reader(f, &reader);
            end_plan(f);
            f = begin();
            reader = make_reader(f);
        }
    }
    end_reader(f, &reader);
    end_plan(f);
}

/* ---- Calls of the driver --------------------------------------------------------------------------------------------------- */

struct driver_case {
    struct cuda_case *f;
    struct ig_stream *stream, *other;
    void *native, *other_native; /* of the streams: an ig_stream begins with the driver's handle */
    int (*capture)(void *stream, int mode);
    int (*end_capture)(void *stream, void **graph);
    int (*destroy_graph)(void *graph);
    float *x;
};

static struct driver_case open_driver(void) {
    struct driver_case d = {.f = cuda_begin(true, 0, 4)};
    struct cuda_case *f = d.f;
    void *library = dlopen(f->driver.path, RTLD_NOW);
    *(void **)&d.capture = dlsym(library, "cuStreamBeginCapture_v2");
    *(void **)&d.end_capture = dlsym(library, "cuStreamEndCapture");
    *(void **)&d.destroy_graph = dlsym(library, "cuGraphDestroy");
    cuda_must(f, f->device->api->stream_create(f->device, &d.stream, &f->error));
    cuda_must(f, f->device->api->stream_create(f->device, &d.other, &f->error));
    memcpy(&d.native, d.stream, sizeof d.native);
    memcpy(&d.other_native, d.other, sizeof d.other_native);
    d.x = cuda_memory(f, INGOT_CUDA, SIZE);
    struct ingot_tensor input = {INGOT_F32, 1, {N}, d.x, INGOT_CUDA};
    cuda_must(f, ig_context_set_input(f->context, 0, &input, &f->error));
    cuda_must(f, ig_context_set_output(f->context, 0, INGOT_CUDA, NULL, 0, &f->error));
    return d;
}

static void close_driver(struct driver_case *d) {
    struct cuda_case *f = d->f;
    cuda_release(f, INGOT_CUDA, d->x, SIZE);
    ig_context_destroy(f->context);
    f->context = NULL;
    f->device->api->stream_destroy(f->device, d->stream);
    f->device->api->stream_destroy(f->device, d->other);
    cuda_end(f, true);
}

static struct ig_results *lease_run(struct driver_case *d) {
    struct ig_results *results;
    cuda_enqueue(d->f, d->native);
    cuda_must(d->f, ig_context_lease(d->f->context, &results, &d->f->error));
    cuda_clear_log(d->f);
    return results;
}

/* The driver calls since the log was cleared, by name; context changes are left out. */
static void expect_calls(struct driver_case *d, unsigned waits, unsigned records, unsigned syncs) {
    const char *log = d->f->driver.cuda->log;
    assert_int_equal(cuda_count(log, "cuStreamWaitEvent"), waits);
    assert_int_equal(cuda_count(log, "cuEventRecord"), records);
    assert_int_equal(cuda_count(log, "Synchronize") + cuda_count(log, "cuEventQuery"), syncs);
    assert_int_equal(cuda_count(log, " ") - cuda_count(log, "cuCtx") - cuda_count(log, "cuEventCreate"),
                     waits + records + syncs);
    cuda_clear_log(d->f);
}

static void following_is_one_call(void **state) {
    struct driver_case d = open_driver();
    for (int turn = 0; turn < 4; turn++) {
        struct ig_results *results = lease_run(&d);
        cuda_must(d.f, ig_results_follow(results, d.other_native, &d.f->error));
        expect_calls(&d, 1, 0, 0);
        cuda_must(d.f, ig_results_follow(results, (void *)2, &d.f->error)); /* CU_STREAM_PER_THREAD */
        expect_calls(&d, 1, 0, 0);
        cuda_must(d.f, ig_results_release_after(results, d.native, &d.f->error));
        expect_calls(&d, 0, 2, 0); /* on the run's own stream the next run follows by itself */
        cuda_enqueue(d.f, d.native);
        assert_int_equal(cuda_count(d.f->driver.cuda->log, "cuStreamWaitEvent"), 2);
        assert_int_equal(cuda_count(d.f->driver.cuda->log, "Synchronize"), 0);
    }
    close_driver(&d);
}

/* Events of a capture order nothing outside it. The host waits for the run, and what is released then is used no more. */
static void captured_streams_are_not_touched(void **state) {
    struct driver_case d = open_driver();
    void *graph;
    struct ig_results *results = lease_run(&d), *second, *third;
    cuda_must(d.f, d.f->device->api->enter(d.f->device, &d.f->error));
    assert_int_equal(d.capture(d.other_native, 2), 0);
    cuda_clear_log(d.f);
    cuda_must(d.f, ig_results_follow(results, d.other_native, &d.f->error));
    expect_calls(&d, 0, 0, 1);
    cuda_must(d.f, ig_results_follow(results, d.other_native, &d.f->error)); /* the run is done */
    expect_calls(&d, 0, 0, 0);
    assert_int_equal(ig_results_release_after(results, d.other_native, &d.f->error), INGOT_UNSUPPORTED);
    assert_non_null(strstr(d.f->error.message, "captured into a CUDA graph"));
    ig_results_release(results);
    expect_calls(&d, 0, 0, 0);
    second = lease_run(&d);
    assert_ptr_not_equal(second, results);
    cuda_must(d.f, ig_context_wait(d.f->context, &d.f->error));
    cuda_must(d.f, ig_results_follow(second, d.other_native, &d.f->error));
    assert_int_equal(d.end_capture(d.other_native, &graph), 0);
    d.destroy_graph(graph);
    d.f->device->api->leave(d.f->device);
    cuda_clear_log(d.f);
    ig_results_release(second); /* the graph has been made: an event is behind what ran it */
    expect_calls(&d, 0, 1, 0);
    third = lease_run(&d);
    assert_ptr_equal(third, second);
    ig_results_release(third);
    close_driver(&d);
}

/* A run in the caller's graph has not happened when its results are asked for: there is nothing to wait for. */
static void runs_in_graphs_are_followed_by_the_graph(void **state) {
    for (int inside = 0; inside < 2; inside++) {
        struct driver_case d = open_driver();
        struct ig_results *results;
        struct ingot_tensor y;
        void *graph;
        cuda_must(d.f, d.f->device->api->enter(d.f->device, &d.f->error));
        assert_int_equal(d.capture(d.native, 2), 0);
        results = lease_run(&d);
        cuda_must(d.f, ig_results_follow(results, d.native, &d.f->error));
        cuda_must(d.f, ig_results_follow(results, d.other_native, &d.f->error));
        cuda_must(d.f, ig_results_output(results, 0, &y, &d.f->error));
        expect_calls(&d, 0, 0, 0);
        if (inside) ig_results_release(results);
        if (inside) expect_calls(&d, 0, 1, 0); /* of the stream that is not captured */
        assert_int_equal(d.end_capture(d.native, &graph), 0);
        d.destroy_graph(graph);
        cuda_clear_log(d.f);
        if (!inside) ig_results_release(results);
        if (!inside) expect_calls(&d, 0, 2, 0);
        d.f->device->api->leave(d.f->device);
        close_driver(&d);
    }
}

/* What reads a result on the stream of its run is followed by the next run there without a call. */
static void the_runs_own_stream_is_marked_once_it_matters(void **state) {
    struct driver_case d = open_driver();
    const char *log = d.f->driver.cuda->log;
    for (int turn = 0; turn < 3; turn++) {
        struct ig_results *results = lease_run(&d);
        cuda_must(d.f, ig_results_release_after(results, d.native, &d.f->error));
        expect_calls(&d, 0, 0, 0);
        cuda_enqueue(d.f, d.native);
        assert_int_equal(cuda_count(log, "cuStreamWaitEvent"), 0);
    }
    cuda_must(d.f, ig_results_release_after(lease_run(&d), d.native, &d.f->error));
    cuda_enqueue(d.f, d.other_native);
    assert_int_equal(cuda_count(log, "cuEventRecord"), 2); /* of what was read, and of the run */
    assert_int_equal(cuda_count(log, "cuStreamWaitEvent"), 2);
    cuda_must(d.f, ig_results_release_after(lease_run(&d), d.native, &d.f->error));
    cuda_must(d.f, ig_context_wait(d.f->context, &d.f->error)); /* after which the streams may go */
    assert_int_equal(cuda_count(log, "cuEventRecord"), 1);
    d.f->device->api->stream_destroy(d.f->device, d.stream);
    d.stream = NULL;
    cuda_clear_log(d.f);
    cuda_enqueue(d.f, d.other_native);
    assert_int_equal(cuda_count(log, "cuStreamWaitEvent"), 1); /* of what was read: the runs have been waited for */
    close_driver(&d);
}

/* Once it is captured, nothing tells any more where what read the result ends. */
static void own_streams_may_be_captured_meanwhile(void **state) {
    struct driver_case d = open_driver();
    void *graph;
    for (int before = 0; before < 2; before++) {
        struct ig_results *results = lease_run(&d), *next;
        cuda_must(d.f, d.f->device->api->enter(d.f->device, &d.f->error));
        if (before) cuda_must(d.f, ig_results_release_after(results, d.native, &d.f->error));
        assert_int_equal(d.capture(d.native, 2), 0);
        if (before) {
            assert_int_equal(ig_context_enqueue(d.f->context, d.other_native, &d.f->error), INGOT_UNSUPPORTED);
            assert_non_null(strstr(d.f->error.message, "captured into a CUDA graph"));
        } else {
            assert_int_equal(ig_results_release_after(results, d.native, &d.f->error), INGOT_UNSUPPORTED);
            ig_results_release(results);
        }
        cuda_must(d.f, ig_context_wait(d.f->context, &d.f->error));
        assert_int_equal(d.end_capture(d.native, &graph), 0);
        d.destroy_graph(graph);
        d.f->device->api->leave(d.f->device);
        next = lease_run(&d);
        assert_ptr_not_equal(next, results);
        ig_results_release(next);
    }
    close_driver(&d);
}

/* The stream is gone or the GPU is lost: the memory is given back all the same. */
static void failing_records_give_the_memory_back(void **state) {
    struct driver_case d = open_driver();
    struct ig_results *results = lease_run(&d);
    d.f->driver.cuda->fail = "cuStreamWaitEvent";
    d.f->driver.cuda->fail_at = 1;
    d.f->driver.cuda->fail_result = 400;
    assert_int_equal(ig_results_follow(results, d.other_native, &d.f->error), INGOT_DEVICE);
    assert_non_null(strstr(d.f->error.message, "cannot wait for an event"));
    cuda_must(d.f, ig_results_follow(results, d.other_native, &d.f->error));
    d.f->driver.cuda->fail = "cuEventRecord";
    d.f->driver.cuda->fail_at = 1;
    ig_results_release(results);
    struct ig_results *next = lease_run(&d);
    assert_ptr_equal(next, results);
    ig_results_release(next);
    close_driver(&d);
}

/* ---- Threads (under ThreadSanitizer) ------------------------------------------------------------------------------------------ */

enum { THREADS = 4, TURNS = 50 };

struct sharer {
    pthread_t thread;
    struct ig_results *results;
    void *native;
    enum ingot_status status;
};

static void *follow_much(void *argument) {
    struct sharer *sharer = argument;
    for (int turn = 0; turn < TURNS && !sharer->status; turn++)
        sharer->status = ig_results_follow(sharer->results, sharer->native, NULL);
    return NULL;
}

static void threads_share_a_lease(void **state) {
    struct driver_case d = open_driver();
    struct ig_stream *streams[THREADS];
    struct sharer sharers[THREADS];
    struct ig_results *results = lease_run(&d);
    for (int i = 0; i < THREADS; i++) {
        cuda_must(d.f, d.f->device->api->stream_create(d.f->device, &streams[i], &d.f->error));
        sharers[i] = (struct sharer){.results = results, .status = INGOT_OK};
        memcpy(&sharers[i].native, streams[i], sizeof sharers[i].native);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&sharers[i].thread, NULL, follow_much, &sharers[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(sharers[i].thread, NULL);
        assert_int_equal(sharers[i].status, INGOT_OK);
    }
    cuda_clear_log(d.f);
    ig_results_release(results);
    expect_calls(&d, 0, THREADS, 0);
    for (int i = 0; i < THREADS; i++)
        d.f->device->api->stream_destroy(d.f->device, streams[i]);
    close_driver(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(readers_come_between_the_runs, test_on_remote),
        cmocka_unit_test_setup(readers_follow_as_often_as_they_like, test_on_remote),
        cmocka_unit_test_setup(other_memory_is_not_delayed, test_on_remote),
        cmocka_unit_test_setup(results_that_are_there_are_followed_too, test_on_remote),
        cmocka_unit_test_setup(leases_of_no_context_are_followed, test_on_remote),
        TEST_ON_BOTH(what_cannot_be_followed_is_refused),
        cmocka_unit_test_setup(without_memory_nothing_is_followed, test_on_remote),
        cmocka_unit_test(following_is_one_call),
        cmocka_unit_test(captured_streams_are_not_touched),
        cmocka_unit_test(runs_in_graphs_are_followed_by_the_graph),
        cmocka_unit_test(the_runs_own_stream_is_marked_once_it_matters),
        cmocka_unit_test(own_streams_may_be_captured_meanwhile),
        cmocka_unit_test(failing_records_give_the_memory_back),
        cmocka_unit_test(threads_share_a_lease),
    };
    return cmocka_run_group_tests_name("readers of results", tests, NULL, NULL);
}
