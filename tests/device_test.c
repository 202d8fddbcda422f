/* One conformance suite for all devices: the null device and CPU devices of several sizes. */
#include "support/support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "device/null/null.h"
#include "support/counting_allocator.h"
#include "support/stub_code.h"

#define TILE 16

/* A device under test; threads 0 is the null device. */
struct fixture {
    struct counting_allocator allocator;
    struct ig_device *device;
    const struct ig_device_api *api;
    struct ig_stream *stream;
    struct ig_module *module;
    struct stub_code code;
    uint64_t add, double_, mark, pair;
    bool computes;
};

/* ---- Kernels --------------------------------------------------------------------------------------------------------- */

static void add_kernel(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    const float *a = buf[0], *b = buf[1];
    float *c = buf[2];
    for (int64_t i = begin * TILE; i < end * TILE && i < dim[0]; i++)
        c[i] = a[i] + b[i];
}

static void double_kernel(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    float *a = buf[0];
    for (int64_t i = begin * TILE; i < end * TILE && i < dim[0]; i++)
        a[i] *= 2;
}

/* Counts each tile, and fills the scratch: two workers that shared one would be a data race. */
static void mark_kernel(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    int *marks = buf[0];
    memset(scratch, (int)begin & 0xff, (size_t)dim[0]);
    for (int64_t i = begin; i < end; i++)
        marks[i]++;
}

/* Needs what the step before it wrote at both ends. */
static void pair_kernel(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    const float *a = buf[0];
    float *b = buf[1];
    for (int64_t i = begin * TILE; i < end * TILE && i < dim[0]; i++)
        b[i] = a[i] + a[dim[0] - 1 - i];
}

/* ---- Set-up ---------------------------------------------------------------------------------------------------------- */

static void begin(struct fixture *f, unsigned threads) {
    struct ingot_error error;
    memset(f, 0, sizeof *f);
    counting_allocator_init(&f->allocator);
    f->computes = threads > 0;
    if (threads)
        assert_int_equal(ig_device_cpu_create(threads, &f->allocator.base, &f->device, &error), INGOT_OK);
    else
        assert_int_equal(ig_device_null_create(&f->allocator.base, &f->device, &error), INGOT_OK);
    f->api = f->device->api;
    f->add = stub_code_add(&f->code, add_kernel);
    f->double_ = stub_code_add(&f->code, double_kernel);
    f->mark = stub_code_add(&f->code, mark_kernel);
    f->pair = stub_code_add(&f->code, pair_kernel);
    assert_int_equal(f->api->module_create(f->device, f->code.bytes, f->code.size, &f->module, &error), INGOT_OK);
    assert_int_equal(f->api->stream_create(f->device, &f->stream, &error), INGOT_OK);
}

static void end(struct fixture *f) {
    f->api->stream_destroy(f->device, f->stream);
    f->api->module_destroy(f->device, f->module);
    f->api->destroy(f->device);
    assert_int_equal(f->allocator.live_count, 0);
    assert_int_equal(f->allocator.wrong, 0);
}

static void *allocate(struct fixture *f, size_t size) {
    void *memory = NULL;
    assert_int_equal(f->api->allocate(f->device, size, &memory, NULL), INGOT_OK);
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % 64, 0);
    return memory;
}

static void wait_for(struct fixture *f) {
    assert_int_equal(f->api->stream_wait(f->device, f->stream, NULL), INGOT_OK);
}

static void launch(struct fixture *f, uint64_t entry, void *const *buffers, uint32_t n_buffers, int64_t dim,
                   int64_t tiles, size_t scratch, uint32_t max_workers) {
    const int64_t dims[] = {dim};
    struct ig_launch launch = {.module = f->module,
                               .entry = entry,
                               .buffers = buffers,
                               .n_buffers = n_buffers,
                               .dims = dims,
                               .n_dims = 1,
                               .tiles = tiles,
                               .scratch = scratch,
                               .max_workers = max_workers};
    assert_int_equal(f->api->launch(f->device, f->stream, &launch, NULL), INGOT_OK);
}

static int64_t tiles_of(int64_t n) {
    return (n + TILE - 1) / TILE;
}

static const unsigned devices[] = {0, 1, 2, 3, 7};
#define EACH_DEVICE(f)                                                              \
    for (size_t device_ = 0; device_ < sizeof devices / sizeof *devices; device_++) \
        for (bool once_ = (begin((f), devices[device_]), true); once_; end(f), once_ = false)

/* ---- The suite --------------------------------------------------------------------------------------------------------- */

static void gives_out_aligned_memory(void **state) {
    struct fixture f;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4097, 1 << 20};
    EACH_DEVICE(&f) {
        void *memory[sizeof sizes / sizeof *sizes];
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            memory[i] = allocate(&f, sizes[i]);
            memset(memory[i], 0x5a, sizes[i]);
        }
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            f.api->release(f.device, memory[i], sizes[i]);
        struct ingot_error error = {0};
        void *none = &f;
        assert_int_equal(f.api->allocate(f.device, (size_t)1 << 62, &none, &error), INGOT_OUT_OF_MEMORY);
        assert_ptr_equal(none, &f);
        assert_true(strlen(error.message) > 0);
    }
}

static void has_workers(void **state) {
    struct fixture f;
    EACH_DEVICE(&f) assert_int_equal(f.api->workers(f.device), devices[device_] ? devices[device_] : 1);
}

static void does_every_tile_once(void **state) {
    struct fixture f;
    static const int64_t counts[] = {0, 1, 2, 3, 5, 13, 16, 64, 1000, 4099};
    EACH_DEVICE(&f) {
        int *marks = allocate(&f, 4099 * sizeof *marks);
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            for (uint32_t max_workers = 0; max_workers < 4; max_workers++) {
                memset(marks, 0, 4099 * sizeof *marks);
                launch(&f, f.mark, (void *[]){marks}, 1, 1000, counts[c], 1000, max_workers);
                wait_for(&f);
                for (int64_t i = 0; i < 4099; i++)
                    assert_int_equal(marks[i], f.computes && i < counts[c]);
            }
        }
        f.api->release(f.device, marks, 4099 * sizeof *marks);
    }
}

static void keeps_order_within_a_stream(void **state) {
    struct fixture f;
    const int64_t n = 3001;
    EACH_DEVICE(&f) {
        float *a = allocate(&f, n * sizeof *a), *b = allocate(&f, n * sizeof *b);
        for (int64_t i = 0; i < n; i++)
            a[i] = (float)i, b[i] = 0;
        for (int turn = 0; turn < 20; turn++) {
            launch(&f, f.double_, (void *[]){a}, 1, n, tiles_of(n), 0, 0);
            launch(&f, f.pair, (void *[]){a, b}, 2, n, tiles_of(n), 0, (uint32_t)turn % 3);
        }
        wait_for(&f);
        for (int64_t i = 0; f.computes && i < n; i++)
            assert_true(b[i] == (float)(n - 1) * (1 << 20));
        f.api->release(f.device, a, n * sizeof *a);
        f.api->release(f.device, b, n * sizeof *b);
    }
}

static void copies(void **state) {
    struct fixture f;
    static const size_t sizes[] = {0, 1, 100, 65536, 65537, 1 << 20, (1 << 20) + 7};
    EACH_DEVICE(&f) {
        unsigned char *from = allocate(&f, 2 << 20), *to = allocate(&f, 2 << 20);
        for (size_t i = 0; i < 2 << 20; i++)
            from[i] = (unsigned char)(i * 7 + i / 251);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            memset(to, 0, 2 << 20);
            assert_int_equal(f.api->copy(f.device, f.stream, to, from, sizes[s], NULL), INGOT_OK);
            wait_for(&f);
            if (!f.computes) continue;
            assert_true(memcmp(to, from, sizes[s]) == 0);
            assert_int_equal(to[sizes[s]], 0);
        }
        f.api->release(f.device, from, 2 << 20);
        f.api->release(f.device, to, 2 << 20);
    }
}

static void orders_streams_by_events(void **state) {
    struct fixture f;
    const int64_t n = 100;
    EACH_DEVICE(&f) {
        struct ig_stream *other;
        struct ig_event *event;
        assert_int_equal(f.api->stream_create(f.device, &other, NULL), INGOT_OK);
        assert_int_equal(f.api->event_create(f.device, &event, NULL), INGOT_OK);
        assert_int_equal(f.api->event_wait(f.device, other, event, NULL), INGOT_OK); /* never recorded: no wait */
        float *a = allocate(&f, n * sizeof *a), *b = allocate(&f, n * sizeof *b);
        for (int64_t i = 0; i < n; i++)
            a[i] = 1;
        launch(&f, f.double_, (void *[]){a}, 1, n, tiles_of(n), 0, 0);
        assert_int_equal(f.api->event_record(f.device, f.stream, event, NULL), INGOT_OK);
        assert_int_equal(f.api->event_wait(f.device, other, event, NULL), INGOT_OK);
        assert_int_equal(f.api->copy(f.device, other, b, a, n * sizeof *a, NULL), INGOT_OK);
        assert_int_equal(f.api->stream_wait(f.device, other, NULL), INGOT_OK);
        for (int64_t i = 0; f.computes && i < n; i++)
            assert_true(b[i] == 2);
        f.api->release(f.device, a, n * sizeof *a);
        f.api->release(f.device, b, n * sizeof *b);
        f.api->event_destroy(f.device, event);
        f.api->stream_destroy(f.device, other);
    }
}

/* a += b (large), double a (alone), c = a: recorded once, launched often, patched to other memory. */
static struct ig_list *record(struct fixture *f, float *a, float *b, float *c, int64_t n) {
    struct ig_list *list;
    assert_int_equal(f->api->list_begin(f->device, f->stream, NULL), INGOT_OK);
    struct ingot_error error = {0};
    assert_int_equal(f->api->list_begin(f->device, f->stream, &error), INGOT_INVALID_ARGUMENT);
    launch(f, f->add, (void *[]){a, b, a}, 3, n, tiles_of(n), 0, 0);
    launch(f, f->double_, (void *[]){a}, 1, n, tiles_of(n), 0, 1);
    assert_int_equal(f->api->copy(f->device, f->stream, c, a, (size_t)n * sizeof *a, NULL), INGOT_OK);
    assert_int_equal(f->api->list_end(f->device, f->stream, &list, NULL), INGOT_OK);
    assert_int_equal(f->api->list_end(f->device, f->stream, &list, &error), INGOT_INVALID_ARGUMENT);
    return list;
}

static void replays_lists(void **state) {
    struct fixture f;
    const int64_t n = 40000;
    const size_t bytes = (size_t)n * sizeof(float);
    EACH_DEVICE(&f) {
        float *a = allocate(&f, bytes), *b = allocate(&f, bytes), *c = allocate(&f, bytes), *d = allocate(&f, bytes);
        for (int64_t i = 0; i < n; i++)
            a[i] = 0, b[i] = 1, c[i] = -1, d[i] = -1;
        struct ig_list *list = record(&f, a, b, c, n);
        for (int64_t i = 0; i < n; i++)
            assert_true(a[i] == 0 && c[i] == -1); /* recorded, not run */
        size_t calls = f.allocator.calls;
        for (int turn = 0; turn < 3; turn++)
            assert_int_equal(f.api->list_launch(f.device, f.stream, list, NULL), INGOT_OK);
        wait_for(&f);
        if (f.computes) {
            assert_int_equal(f.allocator.calls, calls);
            for (int64_t i = 0; i < n; i++)
                assert_true(c[i] == 14); /* 2, 6, 14 */
        }
        f.api->list_patch(f.device, list, 2, 1, d);
        assert_int_equal(f.api->list_launch(f.device, f.stream, list, NULL), INGOT_OK);
        wait_for(&f);
        for (int64_t i = 0; f.computes && i < n; i++)
            assert_true(c[i] == 14 && d[i] == 30);
        f.api->list_destroy(f.device, list);
        float *all[] = {a, b, c, d};
        for (int i = 0; i < 4; i++)
            f.api->release(f.device, all[i], bytes);
    }
}

static void replays_empty_lists(void **state) {
    struct fixture f;
    EACH_DEVICE(&f) {
        struct ig_list *list;
        assert_int_equal(f.api->list_begin(f.device, f.stream, NULL), INGOT_OK);
        assert_int_equal(f.api->list_end(f.device, f.stream, &list, NULL), INGOT_OK);
        assert_int_equal(f.api->list_launch(f.device, f.stream, list, NULL), INGOT_OK);
        wait_for(&f);
        f.api->list_destroy(f.device, list);
    }
}

static void reserves_scratch(void **state) {
    struct fixture f;
    EACH_DEVICE(&f) {
        int *marks = allocate(&f, 64 * sizeof *marks);
        assert_int_equal(f.api->reserve_scratch(f.device, f.stream, 100000, NULL), INGOT_OK);
        size_t calls = f.allocator.calls;
        launch(&f, f.mark, (void *[]){marks}, 1, 100000, 64, 100000, 0);
        wait_for(&f);
        if (f.computes) assert_int_equal(f.allocator.calls, calls);
        f.api->release(f.device, marks, 64 * sizeof *marks);
    }
}

static void refuses_foreign_entries(void **state) {
    struct fixture f;
    begin(&f, 2);
    struct ig_launch launch = {.module = f.module, .entry = f.code.size, .tiles = 1};
    struct ingot_error error = {0};
    assert_int_equal(f.api->launch(f.device, f.stream, &launch, &error), INGOT_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "outside"));
    end(&f);
}

static void survives_many_short_runs(void **state) {
    struct fixture f;
    EACH_DEVICE(&f) {
        int *marks = allocate(&f, 64 * sizeof *marks);
        memset(marks, 0, 64 * sizeof *marks);
        int turns = 3000;
        for (int turn = 0; turn < turns; turn++)
            launch(&f, f.mark, (void *[]){marks}, 1, 8, 1 + turn % 64, 8, 0);
        wait_for(&f);
        assert_int_equal(marks[0], f.computes ? turns : 0);
        f.api->release(f.device, marks, 64 * sizeof *marks);
    }
}

/* ---- The null device's record -------------------------------------------------------------------------------------------- */

static void null_device_records(void **state) {
    struct fixture f;
    begin(&f, 0);
    float *a = allocate(&f, 256), *b = allocate(&f, 256);
    float host;
    ig_device_null_clear(f.device);
    launch(&f, f.double_, (void *[]){a}, 1, 5, 1, 0, 0);
    struct ig_list *list;
    assert_int_equal(f.api->list_begin(f.device, f.stream, NULL), INGOT_OK);
    launch(&f, f.add, (void *[]){a, &host, a + 4}, 3, 7, 2, 0, 0);
    assert_int_equal(f.api->copy(f.device, f.stream, b, a, 12, NULL), INGOT_OK);
    assert_int_equal(f.api->list_end(f.device, f.stream, &list, NULL), INGOT_OK);
    f.api->list_patch(f.device, list, 0, 1, b);
    assert_int_equal(f.api->list_launch(f.device, f.stream, list, NULL), INGOT_OK);
    wait_for(&f);
    f.api->list_destroy(f.device, list);
    assert_string_equal(ig_device_null_record(f.device), "launch m0+16 tiles=1 buffers=b0 dims=5\n"
                                                         "list_begin s0 l0\n"
                                                         "l0[0]: launch m0+0 tiles=2 buffers=b0,host,b0+16 dims=7\n"
                                                         "l0[1]: copy b0 to b1 size=12\n"
                                                         "list_end l0 items=2\n"
                                                         "list_patch l0[0] buffer=1 b1\n"
                                                         "list_launch s0 l0\n"
                                                         "stream_wait s0\n"
                                                         "list_destroy l0\n");
    f.api->release(f.device, a, 256);
    f.api->release(f.device, b, 256);
    end(&f);
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
    begin(&f, 2);
    int *marks = allocate(&f, 100 * sizeof *marks);
    memset(marks, 0, 100 * sizeof *marks);
    for (int turn = 0; turn < 200; turn++)
        launch(&f, f.mark, (void *[]){marks}, 1, 8, 100, 8, 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(marks[i], 200);
    f.api->release(f.device, marks, 100 * sizeof *marks);
    end(&f);
    return NULL;
}

static void devices_are_independent(void **state) {
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_a_device, NULL), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_out_aligned_memory),
        cmocka_unit_test(has_workers),
        cmocka_unit_test(does_every_tile_once),
        cmocka_unit_test(keeps_order_within_a_stream),
        cmocka_unit_test(copies),
        cmocka_unit_test(orders_streams_by_events),
        cmocka_unit_test(replays_lists),
        cmocka_unit_test(replays_empty_lists),
        cmocka_unit_test(reserves_scratch),
        cmocka_unit_test(refuses_foreign_entries),
        cmocka_unit_test(survives_many_short_runs),
        cmocka_unit_test(null_device_records),
        cmocka_unit_test(creation_fails_cleanly),
        cmocka_unit_test(devices_are_independent),
    };
    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
