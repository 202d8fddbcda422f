/*
 * Results and streams of contexts on the CUDA device, on a stand-in for the driver: what each way to take results allocates,
 * and streams of the caller's that go after a wait.
 */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "support/plan/cuda_case.h"

/* After a wait the caller may destroy its streams: no later call uses them, neither to free memory nor at the end; others
 * take their places, also at the same address. The stand-in detects handles of what is gone. */
static void streams_are_let_go_after_a_wait(void **state) {
    enum { MOST = 6 }; /* more than a context keeps */
    struct cuda_case *f = cuda_begin(true, 0, 4);
    for (int round = 0; round < 4; round++) {
        struct ig_stream *callers[MOST];
        int n = round < 2 ? 1 : MOST;
        cuda_set_x(f, round % 2 ? 1000 : 100);
        for (int i = 0; i < n; i++) {
            void *native;
            if (f->device->api->stream_create(f->device, &callers[i], &f->error)) fail_msg("%s", f->error.message);
            memcpy(&native, callers[i], sizeof native); /* an ig_stream begins with the driver's handle */
            cuda_enqueue(f, native);
        }
        if (round < 3 && ig_context_wait(f->context, &f->error)) fail_msg("%s", f->error.message);
        for (int i = 0; i < n && round < 3; i++)
            f->device->api->stream_destroy(f->device, callers[i]);
        if (round < 3) cuda_check(f, round % 2 ? 1000 : 100);
        cuda_set_x(f, LARGEST - round); /* memory grows, which is freed behind all streams */
        if (round < 3 && (ig_context_run(f->context, &f->error) || ig_context_trim(f->context, &f->error)))
            fail_msg("%s", f->error.message);
        if (round < 3) continue;
        ig_context_destroy(f->context); /* in flight: the streams must exist until now */
        f->context = NULL;
        for (int i = 0; i < n; i++)
            f->device->api->stream_destroy(f->device, callers[i]);
    }
    cuda_end(f, true);
}

/* One stream of the caller's for each run, each gone before the next: nothing is allocated for it. */
static void a_stream_for_each_run_costs_nothing(void **state) {
    struct cuda_case *f = cuda_begin(true, 0, 4);
    size_t allocations = 0;
    cuda_set_x(f, 100);
    for (int turn = 0; turn < 8; turn++) {
        struct ig_stream *callers;
        void *native;
        if (f->device->api->stream_create(f->device, &callers, &f->error)) fail_msg("%s", f->error.message);
        memcpy(&native, callers, sizeof native);
        allocations = f->allocator.calls;
        cuda_enqueue(f, native);
        if (ig_context_wait(f->context, &f->error)) fail_msg("%s", f->error.message);
        if (turn > 0) assert_int_equal(f->allocator.calls, allocations);
        cuda_check(f, 100);
        f->device->api->stream_destroy(f->device, callers);
    }
    cuda_end(f, true);
}

/* Fresh results in pinned memory are one call of the driver each; leased and given ones none. */
static void only_fresh_results_are_allocated(void **state) {
    const size_t size = 100 * sizeof(float);
    struct cuda_case *f = cuda_begin(true, 0, 4);
    float *y = cuda_memory(f, INGOT_PINNED, size);
    struct ig_results *results;
    struct ingot_tensor tensor;
    cuda_set_x(f, 100);
    for (int mode = 0; mode < 3; mode++) {
        enum ingot_status status =
            mode == 2 ? ig_context_set_output_fresh(f->context, 0, INGOT_PINNED, &f->error)
                      : ig_context_set_output(f->context, 0, INGOT_PINNED, mode ? y : NULL, size, &f->error);
        if (status) fail_msg("%s", f->error.message);
        for (int turn = 0; turn < 6; turn++) {
            size_t allocations = f->allocator.calls;
            f->driver.cuda->log_size = 0;
            f->driver.cuda->log[0] = 0;
            cuda_enqueue(f, NULL);
            if (mode == 0 && ig_context_lease(f->context, &results, &f->error)) fail_msg("%s", f->error.message);
            if (ig_context_wait(f->context, &f->error)) fail_msg("%s", f->error.message);
            if (mode == 0) ig_results_release(results);
            if (turn > 0) assert_int_equal(cuda_count(f->driver.cuda->log, "Alloc"), mode == 2);
            if (turn > 0) assert_int_equal(f->allocator.calls, allocations);
            if (mode == 2 && ig_context_take_output(f->context, 0, &tensor, &f->error))
                fail_msg("%s", f->error.message);
            if (mode == 2) ig_context_free(f->context, tensor.memory, tensor.data, size);
        }
    }
    cuda_release(f, INGOT_PINNED, y, size);
    cuda_end(f, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_let_go_after_a_wait),
        cmocka_unit_test(a_stream_for_each_run_costs_nothing),
        cmocka_unit_test(only_fresh_results_are_allocated),
    };
    return cmocka_run_group_tests_name("results on the CUDA device", tests, NULL, NULL);
}
