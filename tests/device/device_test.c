/*
 * One conformance suite for all devices: the null device, CPU devices with several numbers of threads, a CUDA device on
 * a stand-in for the driver, and one on GPU 0 if there is a GPU.
 */
#define _GNU_SOURCE
#include "support/support.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/null/null.h"
#include "support/clock.h"
#include "support/device/device_fixture.h"

static int64_t tiles_of(int64_t n) {
    return (n + TILE - 1) / TILE;
}

/* GPU 0 is last, so that it can be left out. */
enum { OF_GPU_0 = 2 };
static const struct subject subjects[] = {{NULL_DEVICE, 0, false}, {CPU, 1, false}, {CPU, 2, false},
                                          {CPU, 3, false},         {CPU, 7, false}, {FAKE_GPU, 0, false},
                                          {FAKE_GPU, 0, true},     {GPU, 0, false}, {GPU, 0, true}};
static size_t n_subjects = sizeof subjects / sizeof *subjects;
#define EACH_DEVICE(f)                                        \
    for (size_t device_ = 0; device_ < n_subjects; device_++) \
        for (bool once_ = (fixture_begin((f), subjects[device_]), true); once_; fixture_end(f), once_ = false)

/* ---- The suite --------------------------------------------------------------------------------------------------------- */

static void gives_out_aligned_memory(void **state) {
    struct fixture f;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4097, 1 << 20};
    EACH_DEVICE(&f) {
        void *memory[sizeof sizes / sizeof *sizes];
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            memory[i] = fixture_allocate(&f, sizes[i]);
            if (f.device->host_memory) memset(memory[i], 0x5a, sizes[i]);
        }
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            f.api->release(f.device, memory[i], sizes[i]);
        struct ingot_error error = {0};
        void *none = &f;
        assert_int_equal(f.api->allocate(f.device, (size_t)1 << 62, &none, &error), INGOT_OUT_OF_MEMORY);
        assert_ptr_equal(none, &f);
        assert_true(strlen(error.message) > 0);
        f.api->release(f.device, NULL, 0);
    }
}

static void pins_host_memory(void **state) {
    struct fixture f;
    EACH_DEVICE(&f) {
        static const size_t sizes[] = {0, 1, 1000, 1 << 20};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            void *host = NULL, *memory = fixture_allocate(&f, sizes[i]);
            assert_int_equal(f.api->allocate_host(f.device, sizes[i], &host, NULL), INGOT_OK);
            assert_int_equal((uintptr_t)host % 64, 0);
            memset(host, 0x5a, sizes[i]);
            fixture_copy(&f, f.stream, memory, host, sizes[i]);
            fixture_wait(&f);
            memset(host, 0, sizes[i]);
            fixture_copy(&f, f.stream, host, memory, sizes[i]);
            fixture_wait(&f);
            for (size_t b = 0; f.computes && b < sizes[i]; b++)
                assert_int_equal(((unsigned char *)host)[b], 0x5a);
            f.api->release_host(f.device, host, sizes[i]);
            f.api->release(f.device, memory, sizes[i]);
        }
    }
}

static void has_workers(void **state) {
    struct fixture f;
    EACH_DEVICE(&f) {
        const struct subject subject = subjects[device_];
        uint32_t workers = f.api->workers(f.device);
        if (subject.kind == CPU) assert_int_equal(workers, subject.threads);
        if (subject.kind == NULL_DEVICE) assert_int_equal(workers, 1);
        assert_true(workers >= 1);
        assert_true(f.api->scratch_bytes(f.device, 100) == (size_t)100 * workers);
        assert_int_equal(f.api->scratch_bytes(f.device, 0), 0);
    }
}

static void does_every_tile_once(void **state) {
    struct fixture f;
    static const int64_t counts[] = {0, 1, 2, 3, 5, 13, 16, 64, 1000, 4099};
    static int host[4099], zero[4099];
    EACH_DEVICE(&f) {
        int *marks = fixture_allocate(&f, sizeof host);
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            for (uint32_t max_workers = 0; max_workers < 4; max_workers++) {
                fixture_move(&f, marks, zero, sizeof zero);
                fixture_launch(&f, f.mark, (void *[]){marks}, 1, 1000, counts[c], 1000, max_workers);
                fixture_wait(&f);
                memset(host, 0, sizeof host);
                fixture_move(&f, host, marks, sizeof host);
                for (int64_t i = 0; i < 4099; i++)
                    assert_int_equal(host[i], f.computes && i < counts[c]);
            }
        }
        f.api->release(f.device, marks, sizeof host);
    }
}

/* What each worker does of a kernel that is whole is one call. */
static void calls_whole_kernels_once(void **state) {
    struct fixture f;
    enum { TILES = 1000 };
    const int64_t dim = TILES;
    int calls[TILES];
    EACH_DEVICE(&f) {
        if (subjects[device_].kind != CPU) continue;
        struct ig_launch launch = fixture_launch_of(&f, f.call, (void *[]){calls}, 1, &dim, TILES);
        struct ingot_error error;
        uint32_t count = 0;
        memset(calls, 0, sizeof calls);
        launch.whole = true;
        assert_int_equal(f.api->launch(f.device, f.stream, &launch, &error), INGOT_OK);
        fixture_wait(&f);
        for (int i = 0; i < TILES; i++)
            count += (uint32_t)calls[i];
        assert_in_range(count, 1, f.api->workers(f.device)); /* fewer where processors are fewer */
    }
}

static void keeps_order_within_a_stream(void **state) {
    struct fixture f;
    const int64_t n = 3001;
    float host[3001];
    for (int64_t i = 0; i < n; i++)
        host[i] = (float)i;
    EACH_DEVICE(&f) {
        float *a = fixture_floats(&f, n, 0), *b = fixture_floats(&f, n, 0);
        fixture_move(&f, a, host, sizeof host);
        for (int turn = 0; turn < 20; turn++) {
            fixture_launch(&f, f.twice, (void *[]){a}, 1, n, tiles_of(n), 0, 0);
            fixture_launch(&f, f.pair, (void *[]){a, b}, 2, n, tiles_of(n), 0, (uint32_t)turn % 3);
        }
        fixture_wait(&f);
        fixture_expect(&f, b, n, (float)(n - 1) * (1 << 20));
        f.api->release(f.device, a, sizeof host);
        f.api->release(f.device, b, sizeof host);
    }
}

/* Memory that is released while enqueued work uses it must not be reused before that work is done. */
static void releases_behind_the_work(void **state) {
    struct fixture f;
    const int64_t n = 1 << 20;
    EACH_DEVICE(&f) {
        float *sum = fixture_floats(&f, n, 0);
        for (int turn = 0; turn < 20; turn++) {
            float *a = fixture_floats(&f, n, 1), *b = fixture_floats(&f, n, 0);
            fixture_launch(&f, f.pair, (void *[]){a, b}, 2, n, tiles_of(n), 0, 0);
            fixture_launch(&f, f.add, (void *[]){sum, b, sum}, 3, n, tiles_of(n), 0, 0);
            f.api->release(f.device, a, (size_t)n * sizeof *a);
            f.api->release(f.device, b, (size_t)n * sizeof *b);
        }
        fixture_wait(&f);
        fixture_expect(&f, sum, n, 40);
        f.api->release(f.device, sum, (size_t)n * sizeof *sum);
    }
}

static void copies(void **state) {
    struct fixture f;
    static const size_t sizes[] = {0, 1, 100, 65536, 65537, 1 << 20, (1 << 20) + 7};
    const size_t room = 2 << 20;
    unsigned char *host = malloc(room), *found = malloc(room), *zero = calloc(room, 1);
    for (size_t i = 0; i < room; i++)
        host[i] = (unsigned char)(i * 7 + i / 251);
    EACH_DEVICE(&f) {
        unsigned char *from = fixture_allocate(&f, room), *to = fixture_allocate(&f, room);
        fixture_move(&f, from, host, room);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            fixture_move(&f, to, zero, room);
            fixture_copy(&f, f.stream, to, from, sizes[s]);
            fixture_copy(&f, f.stream, to, to, sizes[s]);
            fixture_wait(&f);
            if (!f.computes) continue;
            fixture_move(&f, found, to, room);
            assert_true(memcmp(found, host, sizes[s]) == 0);
            assert_int_equal(found[sizes[s]], 0);
        }
        f.api->release(f.device, from, room);
        f.api->release(f.device, to, room);
    }
    free(host);
    free(found);
    free(zero);
}

static void orders_streams_by_events(void **state) {
    struct fixture f;
    const int64_t n = 100;
    EACH_DEVICE(&f) {
        struct ig_stream *other;
        struct ig_event *event;
        assert_int_equal(f.api->stream_create(f.device, &other, NULL), INGOT_OK);
        assert_int_equal(f.api->event_create(f.device, true, &event, NULL), INGOT_OK);
        assert_int_equal(f.api->event_wait(f.device, other, event, NULL), INGOT_OK); /* never recorded: no wait */
        assert_int_equal(f.api->event_sync(f.device, event, NULL), INGOT_OK);
        float *a = fixture_floats(&f, n, 1), *b = fixture_floats(&f, n, 0);
        fixture_launch(&f, f.twice, (void *[]){a}, 1, n, tiles_of(n), 0, 0);
        assert_int_equal(f.api->event_record(f.device, f.stream, event, NULL), INGOT_OK);
        assert_int_equal(f.api->event_wait(f.device, other, event, NULL), INGOT_OK);
        fixture_copy(&f, other, b, a, n * sizeof *a);
        assert_int_equal(f.api->event_record(f.device, other, event, NULL), INGOT_OK);
        assert_int_equal(f.api->event_sync(f.device, event, NULL), INGOT_OK);
        bool done = false;
        assert_int_equal(f.api->event_await(f.device, event, true, &done, NULL), INGOT_OK);
        assert_true(done);
        fixture_expect(&f, b, n, 2);
        f.api->release(f.device, a, n * sizeof *a);
        f.api->release(f.device, b, n * sizeof *b);
        f.api->event_destroy(f.device, event);
        f.api->stream_destroy(f.device, other);
    }
}

/* The stand-in for the driver says 1.5 ms whatever it took. */
static void measures_time(void **state) {
    struct fixture f;
    const int64_t n = 1 << 20;
    EACH_DEVICE(&f) {
        struct ig_event *events[2];
        uint64_t time = UINT64_MAX, begin = test_now_ns();
        float *a = fixture_floats(&f, n, 0);
        for (int i = 0; i < 2; i++)
            assert_int_equal(f.api->event_create(f.device, true, &events[i], NULL), INGOT_OK);
        assert_int_equal(f.api->event_record(f.device, f.stream, events[0], NULL), INGOT_OK);
        fixture_launch(&f, f.twice, (void *[]){a}, 1, n, tiles_of(n), 0, 0);
        assert_int_equal(f.api->event_record(f.device, f.stream, events[1], NULL), INGOT_OK);
        fixture_wait(&f);
        assert_int_equal(f.api->event_elapsed(f.device, events[0], events[1], &time, NULL), INGOT_OK);
        if (f.driver.cuda)
            assert_int_equal(time, 1500000);
        else
            assert_true(f.computes ? time > 0 && time <= test_now_ns() - begin : time == 0);
        for (int i = 0; i < 2; i++)
            f.api->event_destroy(f.device, events[i]);
        f.api->release(f.device, a, (size_t)n * sizeof *a);
    }
}

/* Records: a += b (many workers), a *= 2 (one worker), c = a. The list is then launched often and patched to other
 * memory. */
static struct ig_list *record(struct fixture *f, float *a, float *b, float *c, int64_t n) {
    assert_int_equal(f->api->list_begin(f->device, f->stream, NULL), INGOT_OK);
    struct ingot_error error = {0};
    assert_int_equal(f->api->list_begin(f->device, f->stream, &error), INGOT_INVALID_ARGUMENT);
    fixture_launch(f, f->add, (void *[]){a, b, a}, 3, n, tiles_of(n), 0, 0);
    fixture_launch(f, f->twice, (void *[]){a}, 1, n, tiles_of(n), 0, 1);
    fixture_copy(f, f->stream, c, a, (size_t)n * sizeof *a);
    struct ig_list *list = fixture_end_list(f), *none;
    assert_int_equal(f->api->list_end(f->device, f->stream, &none, &error), INGOT_INVALID_ARGUMENT);
    return list;
}

static void replays_lists(void **state) {
    struct fixture f;
    const int64_t n = 40000;
    const size_t bytes = (size_t)n * sizeof(float);
    EACH_DEVICE(&f) {
        float *a = fixture_floats(&f, n, 0), *b = fixture_floats(&f, n, 1);
        float *c = fixture_floats(&f, n, -1), *d = fixture_floats(&f, n, -1);
        struct ig_list *list = record(&f, a, b, c, n);
        assert_true(!f.computes || f.api->list_bytes(f.device, list) > 3 * sizeof(void *));
        fixture_expect(&f, a, n, 0); /* recorded, not run */
        fixture_expect(&f, c, n, -1);
        size_t calls = f.allocator.calls;
        for (int turn = 0; turn < 3; turn++)
            assert_int_equal(f.api->list_launch(f.device, f.stream, list, NULL), INGOT_OK);
        fixture_wait(&f);
        if (f.computes) assert_int_equal(f.allocator.calls, calls);
        fixture_expect(&f, c, n, 14); /* 2, 6, 14 */
        f.api->list_patch(f.device, list, 2, 1, d);
        assert_int_equal(f.api->list_launch(f.device, f.stream, list, NULL), INGOT_OK);
        f.api->list_patch(f.device, list, 2, 1, c);
        f.api->list_patch(f.device, list, 2, 1, d); /* and back, before the next launch */
        f.api->list_patch(f.device, list, 0, 1, a);
        fixture_expect(&f, c, n, 14);
        fixture_expect(&f, d, n, 30);
        calls = f.allocator.calls;
        assert_int_equal(f.api->list_launch(f.device, f.stream, list, NULL), INGOT_OK);
        if (f.computes) assert_int_equal(f.allocator.calls, calls);
        fixture_expect(&f, d, n, 120); /* a is added to itself, then doubled */
        f.api->list_destroy(f.device, list);
        float *all[] = {a, b, c, d};
        for (int i = 0; i < 4; i++)
            f.api->release(f.device, all[i], bytes);
    }
}

/* Launches before a list is made ready, patched in between, and after. */
static void makes_lists_ready_late(void **state) {
    struct fixture f;
    const int64_t n = 5000;
    const size_t bytes = (size_t)n * sizeof(float);
    EACH_DEVICE(&f) {
        if (!f.api->list_ready || !f.unready) continue;
        float *a = fixture_floats(&f, n, 0), *b = fixture_floats(&f, n, 1);
        float *c = fixture_floats(&f, n, -1), *d = fixture_floats(&f, n, -1);
        struct ig_list *list = record(&f, a, b, c, n);
        assert_int_equal(f.api->list_launch(f.device, f.stream, list, NULL), INGOT_OK);
        fixture_expect(&f, c, n, 2);
        f.api->list_patch(f.device, list, 2, 1, d);
        f.api->list_patch(f.device, list, 0, 1, a);
        assert_int_equal(f.api->list_launch(f.device, f.stream, list, NULL), INGOT_OK);
        fixture_expect(&f, c, n, 2);
        fixture_expect(&f, d, n, 8);
        f.api->list_patch(f.device, list, 2, 1, c);
        for (int turn = 0; turn < 2; turn++)
            assert_int_equal(f.api->list_ready(f.device, f.stream, list, NULL), INGOT_OK);
        fixture_expect(&f, a, n, 8);
        assert_int_equal(f.api->list_launch(f.device, f.stream, list, NULL), INGOT_OK);
        fixture_expect(&f, c, n, 32);
        fixture_expect(&f, d, n, 8);
        f.api->list_destroy(f.device, list);
        float *all[] = {a, b, c, d};
        for (int i = 0; i < 4; i++)
            f.api->release(f.device, all[i], bytes);
    }
}

/* Copies in from pinned memory, kernels, copies out to pinned memory; then patched to other pinned memory. */
static void replays_copies_of_host_memory(void **state) {
    struct fixture f;
    const int64_t n = 5000;
    const size_t bytes = (size_t)n * sizeof(float);
    EACH_DEVICE(&f) {
        float *in[2], *out[2], *a = fixture_allocate(&f, bytes);
        struct ig_list *list;
        for (int i = 0; i < 2; i++) {
            assert_int_equal(f.api->allocate_host(f.device, bytes, (void **)&in[i], NULL), INGOT_OK);
            assert_int_equal(f.api->allocate_host(f.device, bytes, (void **)&out[i], NULL), INGOT_OK);
            for (int64_t k = 0; k < n; k++)
                in[i][k] = (float)(i + 1), out[i][k] = 0;
        }
        assert_int_equal(f.api->list_begin(f.device, f.stream, NULL), INGOT_OK);
        fixture_copy(&f, f.stream, a, in[0], bytes);
        fixture_launch(&f, f.twice, (void *[]){a}, 1, n, tiles_of(n), 0, 0);
        fixture_copy(&f, f.stream, out[0], a, bytes);
        list = fixture_end_list(&f);
        assert_int_equal(f.api->list_launch(f.device, f.stream, list, NULL), INGOT_OK);
        f.api->list_patch(f.device, list, 0, 0, in[1]);
        f.api->list_patch(f.device, list, 2, 1, out[1]);
        assert_int_equal(f.api->list_launch(f.device, f.stream, list, NULL), INGOT_OK);
        fixture_wait(&f);
        for (int64_t k = 0; f.computes && k < n; k++)
            assert_true(out[0][k] == 2 && out[1][k] == 4);
        f.api->list_destroy(f.device, list);
        f.api->release(f.device, a, bytes);
        for (int i = 0; i < 2; i++) {
            f.api->release_host(f.device, in[i], bytes);
            f.api->release_host(f.device, out[i], bytes);
        }
    }
}

/* Work after a skipped copy is still ordered behind the work before it; addresses change meanwhile. */
static void leaves_copies_out(void **state) {
    struct fixture f;
    const int64_t n = 1000;
    const size_t bytes = (size_t)n * sizeof(float);
    EACH_DEVICE(&f) {
        if (!f.api->list_skip) continue;
        float *a = fixture_floats(&f, n, 1), *b = fixture_floats(&f, n, 0), *c = fixture_floats(&f, n, 0);
        struct ig_list *list;
        assert_int_equal(f.api->list_begin(f.device, f.stream, NULL), INGOT_OK);
        fixture_launch(&f, f.twice, (void *[]){a}, 1, n, tiles_of(n), 0, 0);
        fixture_copy(&f, f.stream, b, a, bytes);
        fixture_launch(&f, f.twice, (void *[]){a}, 1, n, tiles_of(n), 0, 0);
        list = fixture_end_list(&f);
        f.api->list_skip(f.device, list, 1, true);
        assert_int_equal(f.api->list_launch(f.device, f.stream, list, NULL), INGOT_OK);
        fixture_expect(&f, a, n, 4);
        fixture_expect(&f, b, n, 0);
        f.api->list_patch(f.device, list, 1, 1, c);
        f.api->list_skip(f.device, list, 1, false);
        f.api->list_skip(f.device, list, 1, true); /* and back, before the next launch */
        assert_int_equal(f.api->list_launch(f.device, f.stream, list, NULL), INGOT_OK);
        fixture_expect(&f, a, n, 16);
        fixture_expect(&f, c, n, 0);
        f.api->list_skip(f.device, list, 1, false);
        assert_int_equal(f.api->list_launch(f.device, f.stream, list, NULL), INGOT_OK);
        fixture_expect(&f, a, n, 64);
        fixture_expect(&f, b, n, 0);
        fixture_expect(&f, c, n, 32);
        f.api->list_destroy(f.device, list);
        float *all[] = {a, b, c};
        for (int i = 0; i < 3; i++)
            f.api->release(f.device, all[i], bytes);
    }
}

/* Scratch memory that grows after a list was recorded, and a list launched on another stream. */
static void replays_lists_with_scratch(void **state) {
    struct fixture f;
    int host[100];
    EACH_DEVICE(&f) {
        struct ig_stream *other;
        struct ig_list *list;
        int *marks = fixture_allocate(&f, sizeof host);
        memset(host, 0, sizeof host);
        fixture_move(&f, marks, host, sizeof host);
        assert_int_equal(f.api->stream_create(f.device, &other, NULL), INGOT_OK);
        assert_int_equal(f.api->list_begin(f.device, f.stream, NULL), INGOT_OK);
        fixture_launch(&f, f.mark, (void *[]){marks}, 1, 50, 0, 50, 0);
        fixture_launch(&f, f.mark, (void *[]){marks}, 1, 50, 100, 50, 0);
        list = fixture_end_list(&f);
        assert_int_equal(f.api->list_launch(f.device, f.stream, list, NULL), INGOT_OK);
        assert_int_equal(f.api->reserve_scratch(f.device, f.stream, 100000, NULL), INGOT_OK);
        assert_int_equal(f.api->list_launch(f.device, f.stream, list, NULL), INGOT_OK);
        fixture_wait(&f);
        assert_int_equal(f.api->list_launch(f.device, other, list, NULL), INGOT_OK);
        assert_int_equal(f.api->stream_wait(f.device, other, NULL), INGOT_OK);
        fixture_move(&f, host, marks, sizeof host);
        for (int i = 0; f.computes && i < 100; i++)
            assert_int_equal(host[i], 3);
        f.api->stream_destroy(f.device, other);
        f.api->list_destroy(f.device, list);
        f.api->release(f.device, marks, sizeof host);
    }
}

/* Kernels that may start before their predecessors end, among others. */
static void replays_kernels_that_wait(void **state) {
    struct fixture f;
    const int64_t n = 50000;
    EACH_DEVICE(&f) {
        struct ig_device_cuda_info info;
        if (subjects[device_].kind == GPU && (ig_device_cuda_describe(0, &info, NULL) != INGOT_OK || info.sm < 90))
            continue;
        float *a = fixture_floats(&f, n, 1), *b = fixture_floats(&f, n, 0);
        struct ig_list *list;
        assert_int_equal(f.api->list_begin(f.device, f.stream, NULL), INGOT_OK);
        for (int i = 0; i < 18; i++) {
            struct ig_launch launch = fixture_launch_of(&f, f.late, (void *[]){a}, 1, &n, tiles_of(n));
            launch.portable = f.late_portable;
            launch.waits = true;
            assert_int_equal(f.api->launch(f.device, f.stream, &launch, NULL), INGOT_OK);
            if (i % 6 == 5) fixture_copy(&f, f.stream, b, a, (size_t)n * sizeof *a);
        }
        list = fixture_end_list(&f);
        assert_int_equal(f.api->list_launch(f.device, f.stream, list, NULL), INGOT_OK);
        fixture_expect(&f, b, n, 1 << 18);
        f.api->list_destroy(f.device, list);
        f.api->release(f.device, a, (size_t)n * sizeof *a);
        f.api->release(f.device, b, (size_t)n * sizeof *b);
    }
}

static void replays_empty_lists(void **state) {
    struct fixture f;
    EACH_DEVICE(&f) {
        struct ig_list *list;
        assert_int_equal(f.api->list_begin(f.device, f.stream, NULL), INGOT_OK);
        list = fixture_end_list(&f);
        assert_int_equal(f.api->list_launch(f.device, f.stream, list, NULL), INGOT_OK);
        fixture_wait(&f);
        f.api->list_destroy(f.device, list);
    }
}

static void reserves_scratch(void **state) {
    struct fixture f;
    EACH_DEVICE(&f) {
        int *marks = fixture_allocate(&f, 64 * sizeof *marks);
        fixture_launch(&f, f.mark, (void *[]){marks}, 1, 8, 1, 8, 0); /* the first launch may load code */
        assert_int_equal(f.api->reserve_scratch(f.device, f.stream, 100000, NULL), INGOT_OK);
        size_t calls = f.allocator.calls;
        fixture_launch(&f, f.mark, (void *[]){marks}, 1, 100000, 64, 100000, 0);
        fixture_wait(&f);
        if (f.computes) assert_int_equal(f.allocator.calls, calls);
        f.api->release(f.device, marks, 64 * sizeof *marks);
    }
}

static void refuses_foreign_entries(void **state) {
    struct fixture f;
    EACH_DEVICE(&f) {
        if (!f.computes) continue;
        const struct kernel outside = {sizeof f.gpu_code, "add"};
        struct ig_launch launch = fixture_launch_of(&f, outside, NULL, 0, NULL, 1);
        struct ingot_error error = {0};
        assert_int_equal(f.api->launch(f.device, f.stream, &launch, &error), INGOT_INVALID_ARGUMENT);
        assert_non_null(strstr(error.message, "outside"));
    }
}

static void survives_many_short_runs(void **state) {
    struct fixture f;
    EACH_DEVICE(&f) {
        int host[64] = {0}, *marks = fixture_allocate(&f, sizeof host);
        fixture_move(&f, marks, host, sizeof host);
        int turns = 3000;
        for (int turn = 0; turn < turns; turn++)
            fixture_launch(&f, f.mark, (void *[]){marks}, 1, 8, 1 + turn % 64, 8, 0);
        fixture_wait(&f);
        fixture_move(&f, host, marks, sizeof host);
        assert_int_equal(host[0], f.computes ? turns : 0);
        f.api->release(f.device, marks, sizeof host);
    }
}

/* Workers that leave a wide launch late must not disturb narrower launches after it. */
static void survives_runs_of_changing_width(void **state) {
    struct fixture f;
    EACH_DEVICE(&f) {
        int host[64] = {0}, *marks = fixture_allocate(&f, sizeof host);
        uint32_t random = 2;
        int turns = subjects[device_].kind == CPU ? 3000 : 100;
        fixture_move(&f, marks, host, sizeof host);
        for (int turn = 0; turn < turns; turn++) {
            random = random * 1664525u + 1013904223u;
            fixture_launch(&f, f.mark, (void *[]){marks}, 1, 8, 64, 8, 2 + random / 65536 % 6);
        }
        fixture_wait(&f);
        fixture_move(&f, host, marks, sizeof host);
        for (int i = 0; i < 64; i++)
            assert_int_equal(host[i], f.computes ? turns : 0);
        f.api->release(f.device, marks, sizeof host);
    }
}

/* ---- The null device's record -------------------------------------------------------------------------------------------- */

static void null_device_records(void **state) {
    struct fixture f;
    fixture_begin(&f, (struct subject){NULL_DEVICE, 0, false});
    float *a = fixture_allocate(&f, 256), *b = fixture_allocate(&f, 256);
    float host;
    ig_device_null_clear(f.device);
    fixture_launch(&f, f.twice, (void *[]){a}, 1, 5, 1, 0, 0);
    struct ig_list *list;
    assert_int_equal(f.api->list_begin(f.device, f.stream, NULL), INGOT_OK);
    fixture_launch(&f, f.add, (void *[]){a, &host, a + 4}, 3, 7, 2, 0, 0);
    assert_int_equal(f.api->copy(f.device, f.stream, b, a, 12, NULL), INGOT_OK);
    assert_int_equal(f.api->list_end(f.device, f.stream, &list, NULL), INGOT_OK);
    f.api->list_patch(f.device, list, 0, 1, b);
    f.api->list_skip(f.device, list, 1, true);
    f.api->list_skip(f.device, list, 1, false);
    assert_int_equal(f.api->list_launch(f.device, f.stream, list, NULL), INGOT_OK);
    fixture_wait(&f);
    f.api->list_destroy(f.device, list);
    assert_string_equal(ig_device_null_record(f.device), "launch m0+16 tiles=1 buffers=b0 dims=5\n"
                                                         "list_begin s0 l0\n"
                                                         "l0[0]: launch m0+0 tiles=2 buffers=b0,host,b0+16 dims=7\n"
                                                         "l0[1]: copy b0 to b1 size=12\n"
                                                         "list_end l0 items=2\n"
                                                         "list_patch l0[0] buffer=1 b1\n"
                                                         "list_skip l0[1]\n"
                                                         "list_take l0[1]\n"
                                                         "list_launch s0 l0\n"
                                                         "stream_wait s0\n"
                                                         "list_destroy l0\n");
    f.api->release(f.device, a, 256);
    f.api->release(f.device, b, 256);
    fixture_end(&f);
}

/* ---- The caller's context on a GPU ------------------------------------------------------------------------------------------ */

/* The driver's current context, as seen by a program that uses the driver besides Ingot. */
static void *current_context(void) {
    int (*get)(void **);
    void *context = NULL, *address = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuCtxGetCurrent");
    memcpy(&get, &address, sizeof get);
    assert_int_equal(get(&context), 0);
    return context;
}

static void leaves_the_callers_context(void **state) {
    struct fixture f;
    if (n_subjects < sizeof subjects / sizeof *subjects) skip();
    void *before = current_context();
    fixture_begin(&f, (struct subject){GPU, 0, false});
    assert_ptr_equal(current_context(), before);
    float *a = fixture_floats(&f, 100, 1);
    fixture_launch(&f, f.twice, (void *[]){a}, 1, 100, tiles_of(100), 0, 0);
    fixture_expect(&f, a, 100, 2);
    assert_ptr_equal(current_context(), before);
    f.api->release(f.device, a, 100 * sizeof *a);
    fixture_end(&f);
    assert_ptr_equal(current_context(), before);
}

/* ---- Failing allocations, and many devices at once ------------------------------------------------------------------------- */

static void creation_fails_cleanly(void **state) {
    for (size_t n = 1; n < 20; n++) {
        struct counting_allocator allocator;
        struct ig_device *device = NULL;
        struct ingot_error error = {0};
        counting_allocator_init(&allocator);
        allocator.fail_at = n;
        if (ig_device_cpu_create(3, &allocator.base, &device, &error) == INGOT_OK) {
            device->api->destroy(device);
            assert_int_equal(allocator.live_count, 0);
            return;
        }
        assert_int_equal(error.status, INGOT_OUT_OF_MEMORY);
        assert_null(device);
        assert_int_equal(allocator.live_count, 0);
    }
    fail_msg("a device takes too many allocations");
}

static void *use_a_device(void *argument) {
    struct fixture f;
    int host[100] = {0};
    fixture_begin(&f, *(const struct subject *)argument);
    int *marks = fixture_allocate(&f, sizeof host);
    fixture_move(&f, marks, host, sizeof host);
    for (int turn = 0; turn < 200; turn++)
        fixture_launch(&f, f.mark, (void *[]){marks}, 1, 8, 100, 8, 0);
    fixture_move(&f, host, marks, sizeof host);
    for (int i = 0; i < 100; i++)
        assert_int_equal(host[i], 200);
    f.api->release(f.device, marks, sizeof host);
    fixture_end(&f);
    return NULL;
}

static void devices_are_independent(void **state) {
    pthread_t threads[8];
    bool has_gpu = n_subjects == sizeof subjects / sizeof *subjects;
    for (int i = 0; i < 8; i++) {
        static const struct subject cpu = {CPU, 2, false}, cuda = {GPU, 0, false};
        const struct subject *subject = has_gpu && i % 2 ? &cuda : &cpu;
        assert_int_equal(pthread_create(&threads[i], NULL, use_a_device, (void *)(uintptr_t)subject), 0);
    }
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
}

/* The affinity of the thread that creates a device holds for the device's threads, and decides how many there are. */
static void *create_on_one_processor(void *argument) {
    cpu_set_t all, one;
    int processor = 0;
    if (pthread_getaffinity_np(pthread_self(), sizeof all, &all) != 0) return NULL;
    while (!CPU_ISSET(processor, &all))
        processor++;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    if (pthread_setaffinity_np(pthread_self(), sizeof one, &one) != 0) return NULL;
    ig_device_cpu_create(0, &ig_libc_allocator, argument, NULL);
    return NULL;
}

static void respects_affinity(void **state) {
    struct ig_device *device = NULL;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, create_on_one_processor, &device), 0);
    pthread_join(thread, NULL);
    assert_non_null(device);
    assert_int_equal(device->api->workers(device), 1);
    device->api->destroy(device);
}

/* Held for the whole program, so that opening and closing the GPU in every test is quick. */
static struct ingot_gpu *gpu;

static void look_for_a_gpu(void) {
    struct ingot_error error = {0};
    struct ig_device_cuda_info info;
    if (ig_device_cuda_describe(0, &info, &error) == INGOT_OK) {
        print_message("[  GPU     ] %s, %s\n", info.name, info.arch);
        ingot_gpu_hold(0, &gpu, NULL);
        return;
    }
    n_subjects -= OF_GPU_0;
    print_message("[  SKIPPED ] GPU 0: %s\n", error.message);
}

int main(void) {
    look_for_a_gpu();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_out_aligned_memory),
        cmocka_unit_test(pins_host_memory),
        cmocka_unit_test(has_workers),
        cmocka_unit_test(does_every_tile_once),
        cmocka_unit_test(calls_whole_kernels_once),
        cmocka_unit_test(keeps_order_within_a_stream),
        cmocka_unit_test(releases_behind_the_work),
        cmocka_unit_test(copies),
        cmocka_unit_test(orders_streams_by_events),
        cmocka_unit_test(measures_time),
        cmocka_unit_test(replays_lists),
        cmocka_unit_test(makes_lists_ready_late),
        cmocka_unit_test(replays_copies_of_host_memory),
        cmocka_unit_test(leaves_copies_out),
        cmocka_unit_test(replays_lists_with_scratch),
        cmocka_unit_test(replays_kernels_that_wait),
        cmocka_unit_test(replays_empty_lists),
        cmocka_unit_test(reserves_scratch),
        cmocka_unit_test(refuses_foreign_entries),
        cmocka_unit_test(survives_many_short_runs),
        cmocka_unit_test(survives_runs_of_changing_width),
        cmocka_unit_test(null_device_records),
        cmocka_unit_test(leaves_the_callers_context),
        cmocka_unit_test(creation_fails_cleanly),
        cmocka_unit_test(devices_are_independent),
        cmocka_unit_test(respects_affinity),
    };
    int failures = cmocka_run_group_tests_name("device", tests, NULL, NULL);
    ingot_gpu_release(gpu);
    return failures;
}
