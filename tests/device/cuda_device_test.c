/*
 * The CUDA device on a stand-in for the driver: error messages, driver calls and leaks. device_test.c checks results,
 * and everything that needs a GPU.
 */
#include "support/support.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "device/cuda/copy.h"
#include "device/cuda/cubin.h"
#include "device/cuda/cuda.h"
#include "device/cuda/driver.h"
#include "support/counting_allocator.h"
#include "support/device/fake_driver.h"
#include "support/device/gpu_code.h"

#define ILLEGAL_ADDRESS 700

struct fixture {
    struct counting_allocator allocator;
    struct fake_driver driver;
    struct fake_cuda *cuda;
    struct ig_device *device;
    const struct ig_device_api *api;
    struct ig_stream *stream;
    struct ig_module *module;
    struct gpu_code code;
    uint64_t old_cubin, fitting_cubin, ptx, no_ptx;
    struct ingot_error error;
};

static void prepare(struct fixture *f) {
    memset(f, 0, sizeof *f);
    counting_allocator_init(&f->allocator);
    fake_driver_open(&f->driver);
    f->cuda = f->driver.cuda;
    f->old_cubin = gpu_code_add_cubin(&f->code, 80);
    f->fitting_cubin = gpu_code_add_cubin(&f->code, 90);
    f->ptx = gpu_code_add_text(&f->code, gpu_code_ptx);
    f->no_ptx = gpu_code_add_text(&f->code, ".something else");
}

static enum ingot_status create(struct fixture *f, int ordinal) {
    return ig_device_cuda_create_with(f->driver.path, ordinal, &f->allocator.base, &f->device, &f->error);
}

static void open_device(struct fixture *f) {
    assert_int_equal(create(f, 0), INGOT_OK);
    f->api = f->device->api;
    assert_int_equal(f->api->module_create(f->device, f->code.bytes, f->code.size, &f->module, &f->error), INGOT_OK);
    assert_int_equal(f->api->stream_create(f->device, &f->stream, &f->error), INGOT_OK);
}

static void begin(struct fixture *f) {
    prepare(f);
    open_device(f);
}

/* Checks that the allocator and the driver have no live objects and saw no misuse. */
static void assert_clean(const struct fixture *f) {
    assert_int_equal(f->allocator.live_count, 0);
    assert_int_equal(f->allocator.wrong, 0);
    assert_int_equal(f->cuda->live, 0);
    assert_string_equal(f->cuda->misuse, "");
    assert_int_equal(f->driver.depth(), 0);
}

static void end(struct fixture *f) {
    f->api->stream_destroy(f->device, f->stream);
    f->api->module_destroy(f->device, f->module);
    f->api->destroy(f->device);
    assert_clean(f);
}

static void assert_says(const struct fixture *f, const char *part) {
    if (!strstr(f->error.message, part)) fail_msg("'%s' does not say '%s'", f->error.message, part);
}

static float *allocate(struct fixture *f, size_t size) {
    void *memory = NULL;
    assert_int_equal(f->api->allocate(f->device, size, &memory, &f->error), INGOT_OK);
    return memory;
}

static struct ig_launch twice(const struct fixture *f, void *const *buffers, const int64_t *dims, int64_t tiles) {
    return (struct ig_launch){.module = f->module,
                              .entry = f->fitting_cubin,
                              .portable = UINT64_MAX,
                              .name = "twice",
                              .threads = 16,
                              .buffers = buffers,
                              .n_buffers = 1,
                              .dims = dims,
                              .n_dims = 1,
                              .tiles = tiles};
}

/* ---- Drivers that are missing, too old, or without a GPU --------------------------------------------------------------- */

static void says_what_driver_it_looked_for(void **state) {
    struct fixture f;
    int count = -1;
    prepare(&f);
    assert_int_equal(ig_device_cuda_count_with("libno-such-driver.so.1", &count, &f.error), INGOT_DEVICE);
    assert_int_equal(count, -1);
    assert_says(&f, "no NVIDIA driver: cannot load libno-such-driver.so.1 (");
    assert_int_equal(ig_device_cuda_create_with("libno-such-driver.so.1", 0, &f.allocator.base, &f.device, &f.error),
                     INGOT_DEVICE);
    assert_null(f.device);
    assert_int_equal(ig_device_cuda_create_with("libm.so.6", 0, &f.allocator.base, &f.device, &f.error), INGOT_DEVICE);
    assert_says(&f, "libm.so.6 is no NVIDIA driver");
    assert_clean(&f);
}

static void says_that_the_driver_is_too_old(void **state) {
    struct fixture f;
    prepare(&f);
    f.cuda->version = 11080;
    assert_int_equal(create(&f, 0), INGOT_DEVICE);
    assert_says(&f, "for CUDA 11.8, Ingot needs one for CUDA 12.4 or later");
    assert_clean(&f);
}

static void says_that_there_is_no_such_gpu(void **state) {
    struct fixture f;
    int count = -1;
    prepare(&f);
    assert_int_equal(ig_device_cuda_count_with(f.driver.path, &count, &f.error), INGOT_OK);
    assert_int_equal(count, 2);
    assert_int_equal(create(&f, 2), INGOT_DEVICE);
    assert_says(&f, "there is no GPU 2: the NVIDIA driver shows 2");
    assert_int_equal(create(&f, -1), INGOT_DEVICE);
    f.cuda->fail = "cuInit";
    f.cuda->fail_at = 1;
    f.cuda->fail_result = CUDA_ERROR_NO_DEVICE;
    assert_int_equal(create(&f, 0), INGOT_DEVICE);
    assert_says(&f, "CUDA_ERROR_NO_DEVICE (some text)");
    assert_clean(&f);
}

/* Whichever driver call fails, or the first allocation: no device is created and nothing leaks. */
static void creation_fails_cleanly(void **state) {
    struct fixture f;
    for (uint64_t n = 1;; n++) {
        prepare(&f);
        f.cuda->fail_at = n;
        f.cuda->fail_result = 1;
        enum ingot_status status = create(&f, 1);
        if (status == INGOT_OK) {
            assert_true(n > 10);
            f.cuda->fail_at = 0;
            f.device->api->destroy(f.device);
            assert_clean(&f);
            break;
        }
        assert_int_equal(status, INGOT_DEVICE);
        assert_says(&f, "error 1 of the NVIDIA driver");
        assert_null(f.device);
        assert_clean(&f);
    }
    prepare(&f);
    f.allocator.fail_at = 1;
    assert_int_equal(create(&f, 0), INGOT_OUT_OF_MEMORY);
    assert_clean(&f);
}

/* ---- Code -------------------------------------------------------------------------------------------------------------- */

static enum ingot_status try_launch(struct fixture *f, uint64_t entry, uint64_t portable, const char *name) {
    struct ig_launch launch = twice(f, NULL, NULL, 0);
    launch.entry = entry;
    launch.portable = portable;
    launch.name = name;
    launch.n_buffers = launch.n_dims = 0;
    return f->api->launch(f->device, f->stream, &launch, &f->error);
}

static void says_what_code_it_has_and_wants(void **state) {
    struct fixture f;
    begin(&f);
    assert_int_equal(try_launch(&f, f.old_cubin, UINT64_MAX, "twice"), INGOT_DEVICE);
    assert_says(&f, "the engine's code is for sm_80, this GPU is an sm_90 (Fake 0)");
    assert_int_equal(try_launch(&f, f.old_cubin, f.code.size, "twice"), INGOT_BAD_ENGINE);
    assert_says(&f, "there is no PTX of kernel 'twice'");
    assert_int_equal(try_launch(&f, f.old_cubin, f.fitting_cubin, "twice"), INGOT_BAD_ENGINE);
    assert_int_equal(try_launch(&f, f.old_cubin, f.no_ptx, "twice"), INGOT_DEVICE);
    assert_says(&f, "cannot compile the PTX of kernel 'twice' for sm_90: line 1: no PTX");
    assert_int_equal(try_launch(&f, f.ptx, UINT64_MAX, "twice"), INGOT_BAD_ENGINE);
    assert_says(&f, "the code of kernel 'twice' is damaged");
    assert_int_equal(try_launch(&f, f.code.size, UINT64_MAX, "twice"), INGOT_INVALID_ARGUMENT);
    assert_int_equal(try_launch(&f, f.fitting_cubin, UINT64_MAX, "nobody"), INGOT_DEVICE);
    assert_says(&f, "the code has no kernel 'nobody'");
    assert_int_equal(try_launch(&f, f.fitting_cubin, UINT64_MAX, NULL), INGOT_INVALID_ARGUMENT);
    f.cuda->fail = "cuModuleLoadDataEx"; /* a cubin that cannot run on this GPU, although its header looks right */
    f.cuda->fail_at = 1;
    f.cuda->fail_result = CUDA_ERROR_NO_BINARY_FOR_GPU;
    assert_int_equal(try_launch(&f, f.fitting_cubin, f.ptx, "twice"), INGOT_OK);
    end(&f);
}

static void loads_code_once(void **state) {
    struct fixture f;
    static const char *const names[] = {"add", "twice", "pair", "mark"};
    begin(&f);
    for (int turn = 0; turn < 3; turn++) {
        uint64_t calls = ig_device_cuda_calls(f.device);
        uint64_t live = f.cuda->live;
        for (int i = 0; i < 4; i++) {
            assert_int_equal(try_launch(&f, f.fitting_cubin, UINT64_MAX, names[i]), INGOT_OK);
            assert_int_equal(try_launch(&f, f.old_cubin, f.ptx, names[i]), INGOT_OK);
        }
        assert_int_equal(f.cuda->live - live, turn == 0 ? 2 : 0);
        /* Each launch pushes and pops the context; the first turn also loads two modules and eight functions. There are
         * no tiles, so nothing is launched. */
        assert_int_equal(ig_device_cuda_calls(f.device) - calls, 8 * 2 + (turn == 0 ? 2 + 8 : 0));
    }
    end(&f);
}

/* More entries than the initial capacity of the function table. */
static void holds_many_functions(void **state) {
    struct fixture f;
    uint64_t entries[40];
    prepare(&f);
    for (int i = 0; i < 40; i++)
        entries[i] = gpu_code_add_cubin(&f.code, 90);
    const struct gpu_code code = f.code;
    begin(&f);
    f.api->module_destroy(f.device, f.module);
    assert_int_equal(f.api->module_create(f.device, code.bytes, code.size, &f.module, NULL), INGOT_OK);
    for (int turn = 0; turn < 2; turn++) {
        uint64_t live = f.cuda->live;
        for (int i = 0; i < 40; i++) {
            assert_int_equal(try_launch(&f, entries[i], UINT64_MAX, "twice"), INGOT_OK);
            assert_int_equal(try_launch(&f, entries[i], UINT64_MAX, "add"), INGOT_OK);
        }
        assert_int_equal(f.cuda->live - live, turn == 0 ? 40 : 0);
    }
    end(&f);
}

static void asks_for_much_shared_memory(void **state) {
    struct fixture f;
    begin(&f);
    struct ig_launch launch = twice(&f, NULL, NULL, 0);
    launch.n_buffers = launch.n_dims = 0;
    launch.shared = 48 << 10;
    assert_int_equal(f.api->launch(f.device, f.stream, &launch, &f.error), INGOT_OK);
    assert_int_equal(f.cuda->shared_limit, 0);
    launch.shared = 99000;
    assert_int_equal(f.api->launch(f.device, f.stream, &launch, &f.error), INGOT_OK);
    assert_int_equal(f.cuda->shared_limit, 99000);
    launch.shared = 100001;
    assert_int_equal(f.api->launch(f.device, f.stream, &launch, &f.error), INGOT_DEVICE);
    assert_says(&f, "wants 100001 bytes of shared memory, a block has 100000 on Fake 0");
    end(&f);
}

static enum ingot_status run(struct fixture *f, struct ig_list *list) {
    return f->api->list_launch(f->device, f->stream, list, &f->error);
}

static enum ingot_status make_ready(struct fixture *f, struct ig_list *list) {
    return f->api->list_ready(f->device, f->stream, list, &f->error);
}

/* If a kernel takes more parameters than the plan has, nothing beyond the plan's is read (checked by AddressSanitizer);
 * a plan with more parameters than the kernel is refused. */
static void passes_no_more_parameters_than_there_are(void **state) {
    struct fixture f;
    begin(&f);
    float *a = allocate(&f, 64);
    struct ig_list *list = NULL;
    void *buffers[] = {a};
    const int64_t dims[] = {16, 16};
    struct ig_launch launch = twice(&f, buffers, dims, 0);
    launch.tiles = 1;
    a[0] = 3;
    launch.n_dims = 0; /* `twice` takes the number of tiles as n, and a zero as the number of tiles */
    assert_int_equal(f.api->launch(f.device, f.stream, &launch, &f.error), INGOT_OK);
    assert_true(a[0] == 3);
    launch.n_dims = 2;
    assert_int_equal(f.api->launch(f.device, f.stream, &launch, &f.error), INGOT_DEVICE);
    assert_says(&f, "cannot launch kernel 'twice'");
    assert_int_equal(f.api->list_begin(f.device, f.stream, &f.error), INGOT_OK);
    assert_int_equal(f.api->launch(f.device, f.stream, &launch, &f.error), INGOT_OK);
    assert_int_equal(f.api->list_end(f.device, f.stream, &list, &f.error), INGOT_OK);
    assert_int_equal(run(&f, list), INGOT_DEVICE);
    assert_says(&f, "cannot launch item 0 of 1: error 1");
    assert_int_equal(make_ready(&f, list), INGOT_DEVICE);
    assert_says(&f, "cannot add launch 0 of 1 to a graph: error 1");
    f.api->list_destroy(f.device, list);
    launch.name = "map"; /* 7 parameters of 8 bytes and a tensor map */
    launch.n_dims = 1;
    launch.n_maps = 1;
    assert_int_equal(f.api->launch(f.device, f.stream, &launch, &f.error), INGOT_BAD_ENGINE);
    assert_says(&f, "parameter 4 of kernel 'map' is not a tensor map, as its plan says");
    f.api->release(f.device, a, 64);
    end(&f);
}

static void refuses_blocks_that_no_gpu_has(void **state) {
    struct fixture f;
    begin(&f);
    struct ig_launch launch = twice(&f, NULL, NULL, 0);
    static const uint32_t wrong[] = {0, 1025, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        launch.threads = wrong[i];
        assert_int_equal(f.api->launch(f.device, f.stream, &launch, &f.error), INGOT_INVALID_ARGUMENT);
        assert_says(&f, "threads in a block, which has 1 to 1024");
    }
    end(&f);
}

/* Truncated cubins are refused; whichever byte of a header is changed, no access is out of bounds (checked by
 * AddressSanitizer). */
static void checks_cubins(void **state) {
    struct gpu_code code = {0};
    unsigned char bytes[256];
    gpu_code_add_cubin(&code, 90);
    assert_true(ig_cubin_is_whole(code.bytes, code.size));
    assert_int_equal(ig_cubin_architecture(code.bytes), 90);
    for (size_t size = 0; size < code.size; size++)
        assert_false(ig_cubin_is_whole(code.bytes, size));
    for (size_t at = 0; at < code.size; at++) {
        static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff};
        for (size_t v = 0; v < sizeof values; v++) {
            memcpy(bytes, code.bytes, code.size);
            bytes[at] = values[v];
            ig_cubin_is_whole(bytes, code.size);
        }
    }
    memcpy(bytes, code.bytes, code.size);
    bytes[8] = 7; /* as CUDA 12 writes cubins */
    bytes[48] = 0x50;
    assert_int_equal(ig_cubin_architecture(bytes), 80);
    bytes[8] = 99;
    assert_int_equal(ig_cubin_architecture(bytes), 0);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------------ */

static void says_how_much_memory_there_is(void **state) {
    for (int pools = 0; pools < 2; pools++) {
        struct fixture f;
        void *memory = NULL;
        prepare(&f);
        f.cuda->pools = pools;
        assert_int_equal(create(&f, 0), INGOT_OK);
        f.api = f.device->api;
        assert_int_equal(f.api->allocate(f.device, (size_t)2 << 30, &memory, &f.error), INGOT_OUT_OF_MEMORY);
        assert_says(&f, "2147483648 bytes (2048.0 MiB) wanted, 536870912 (512.0 MiB) of 1024.0 MiB free on Fake 0");
        f.cuda->fail = pools ? "cuMemAllocFromPoolAsync" : "cuMemAlloc_v2";
        f.cuda->fail_at = 1;
        f.cuda->fail_result = CUDA_ERROR_OUT_OF_MEMORY;
        assert_int_equal(f.api->allocate(f.device, 1000, &memory, &f.error), INGOT_OUT_OF_MEMORY);
        assert_says(&f, "1000 bytes (0.0 MiB) wanted");
        assert_null(memory);
        f.api->release(f.device, allocate(&f, 1000), 1000);
        f.api->destroy(f.device);
        assert_clean(&f);
    }
}

/* ---- Lists ------------------------------------------------------------------------------------------------------------- */

static enum ingot_status try_to_record(struct fixture *f, float *a, uint32_t count, bool waits, size_t scratch,
                                       struct ig_list **out_list) {
    const int64_t dims[] = {16};
    enum ingot_status status = f->api->list_begin(f->device, f->stream, &f->error);
    for (uint32_t i = 0; i < count && status == INGOT_OK; i++) {
        struct ig_launch launch = twice(f, (void *[]){a}, dims, 1);
        launch.waits = waits;
        launch.scratch = scratch;
        status = f->api->launch(f->device, f->stream, &launch, &f->error);
    }
    enum ingot_status end = f->api->list_end(f->device, f->stream, out_list, &f->error);
    return status != INGOT_OK ? status : end;
}

static struct ig_list *record_twice(struct fixture *f, float *a, uint32_t count, bool waits, size_t scratch) {
    struct ig_list *list = NULL;
    if (try_to_record(f, a, count, waits, scratch, &list) != INGOT_OK || make_ready(f, list) != INGOT_OK)
        fail_msg("%s", f->error.message);
    return list;
}

static void start_log(struct fixture *f) {
    f->cuda->log_size = 0;
    f->cuda->log[0] = '\0';
}

/* A warm run: its driver calls, and that nothing is allocated. */
static void launches_a_list_with_one_call(void **state) {
    struct fixture f;
    begin(&f);
    float *a = allocate(&f, 64), *b = allocate(&f, 64);
    for (int i = 0; i < 16; i++)
        a[i] = b[i] = 1;
    struct ig_list *list = record_twice(&f, a, 3, false, 0);
    size_t allocations = f.allocator.calls;
    start_log(&f);
    uint64_t calls = ig_device_cuda_calls(f.device);
    assert_int_equal(run(&f, list), INGOT_OK);
    assert_string_equal(f.cuda->log, "cuCtxPushCurrent_v2 cuGraphLaunch cuCtxPopCurrent_v2 ");
    assert_int_equal(ig_device_cuda_calls(f.device) - calls, 3);
    assert_true(a[15] == 8);
    start_log(&f);
    f.api->list_patch(f.device, list, 1, 0, b);
    f.api->list_patch(f.device, list, 1, 0, b);
    assert_string_equal(f.cuda->log, "");
    assert_int_equal(run(&f, list), INGOT_OK);
    assert_string_equal(f.cuda->log, "cuCtxPushCurrent_v2 cuGraphExecKernelNodeSetParams_v2 cuGraphLaunch "
                                     "cuCtxPopCurrent_v2 ");
    assert_true(a[15] == 32 && b[15] == 2);
    start_log(&f);
    assert_int_equal(run(&f, list), INGOT_OK);
    assert_string_equal(f.cuda->log, "cuCtxPushCurrent_v2 cuGraphLaunch cuCtxPopCurrent_v2 ");
    assert_int_equal(f.allocator.calls, allocations);
    f.api->list_destroy(f.device, list);
    f.api->release(f.device, a, 64);
    f.api->release(f.device, b, 64);
    end(&f);
}

/* Until it is ready, a list is launched item by item; without what a graph has for them, copies that are left out, say. */
static void launches_the_items_of_a_new_list(void **state) {
    static const struct { int sm, early; } machines[] = {{80, 0}, {90, 2}};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        struct fixture f;
        const int64_t dims[] = {16};
        prepare(&f);
        f.cuda->sm = machines[i].sm;
        open_device(&f);
        f.fitting_cubin = f.cuda->sm == 80 ? f.old_cubin : f.fitting_cubin;
        float *a = allocate(&f, 64), *b = allocate(&f, 64);
        struct ig_list *list;
        a[0] = b[0] = 1;
        assert_int_equal(f.api->list_begin(f.device, f.stream, &f.error), INGOT_OK);
        for (int k = 0; k < 5; k++) {
            struct ig_launch launch = twice(&f, (void *[]){a}, dims, k != 2);
            launch.waits = k != 4;
            assert_int_equal(f.api->launch(f.device, f.stream, &launch, &f.error), INGOT_OK);
        }
        assert_int_equal(f.api->copy(f.device, f.stream, b, a, 64, &f.error), INGOT_OK);
        assert_int_equal(f.api->list_end(f.device, f.stream, &list, &f.error), INGOT_OK);
        f.api->list_skip(f.device, list, 5, true);
        size_t allocations = f.allocator.calls;
        start_log(&f);
        assert_int_equal(run(&f, list), INGOT_OK);
        assert_string_equal(f.cuda->log, "cuCtxPushCurrent_v2 cuLaunchKernelEx cuLaunchKernelEx cuLaunchKernelEx "
                                         "cuLaunchKernelEx cuCtxPopCurrent_v2 ");
        assert_int_equal(f.cuda->early_launches, machines[i].early); /* the second and the fourth */
        assert_int_equal(f.allocator.calls, allocations);
        assert_true(a[0] == 16 && b[0] == 1);
        f.api->list_skip(f.device, list, 5, false);
        assert_int_equal(run(&f, list), INGOT_OK);
        assert_true(a[0] == 256 && b[0] == 256);
        assert_int_equal(make_ready(&f, list), INGOT_OK);
        start_log(&f);
        assert_int_equal(make_ready(&f, list), INGOT_OK); /* it is */
        assert_int_equal(run(&f, list), INGOT_OK);
        assert_string_equal(f.cuda->log, "cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuCtxPushCurrent_v2 cuGraphLaunch "
                                         "cuCtxPopCurrent_v2 ");
        assert_true(b[0] == 4096);
        f.api->list_destroy(f.device, list);
        f.api->release(f.device, a, 64);
        f.api->release(f.device, b, 64);
        end(&f);
    }
}

/* A list that copies a to c, followed by an empty copy; a holds 1 and b holds 2. */
struct copying {
    size_t size;
    float *a, *b, *c;
    struct ig_list *list;
};

static struct copying record_copy(struct fixture *f, size_t size) {
    struct copying r = {.size = size, .a = allocate(f, size), .b = allocate(f, size), .c = allocate(f, size)};
    r.a[0] = 1, r.b[0] = 2, r.c[0] = 0;
    assert_int_equal(f->api->list_begin(f->device, f->stream, NULL), INGOT_OK);
    assert_int_equal(f->api->copy(f->device, f->stream, r.c, r.a, size, NULL), INGOT_OK);
    assert_int_equal(f->api->copy(f->device, f->stream, r.c, r.a, 0, NULL), INGOT_OK);
    assert_int_equal(f->api->list_end(f->device, f->stream, &r.list, NULL), INGOT_OK);
    assert_int_equal(make_ready(f, r.list), INGOT_OK);
    return r;
}

static void release_copy(struct fixture *f, const struct copying *r) {
    f->api->list_destroy(f->device, r->list);
    f->api->release(f->device, r->a, r->size);
    f->api->release(f->device, r->b, r->size);
    f->api->release(f->device, r->c, r->size);
}

/* A skipped copy is patched only when it is included again, and is omitted from a graph that is rebuilt. */
static void leaves_copies_out(void **state) {
    struct fixture f;
    begin(&f);
    struct copying r = record_copy(&f, 64);
    f.api->list_skip(f.device, r.list, 0, true);
    f.api->list_patch(f.device, r.list, 0, 0, r.b);
    f.cuda->fail = "cuGraphNodeSetEnabled";
    f.cuda->fail_at = 1;
    f.cuda->fail_result = 1;
    assert_int_equal(run(&f, r.list), INGOT_OK);
    assert_int_equal(f.cuda->fail_at, 0); /* it was called */
    f.api->list_patch(f.device, r.list, 0, 0, r.a);
    start_log(&f);
    assert_int_equal(run(&f, r.list), INGOT_OK);
    assert_string_equal(f.cuda->log, "cuCtxPushCurrent_v2 cuGraphLaunch cuCtxPopCurrent_v2 ");
    assert_true(r.c[0] == 0);
    f.api->list_skip(f.device, r.list, 0, false);
    assert_int_equal(run(&f, r.list), INGOT_OK);
    assert_true(r.c[0] == 1);
    release_copy(&f, &r);
    end(&f);
}

/* If the driver rejects an update, the graph is rebuilt: for a copy by a kernel, and for one by the copy engine. */
static void makes_a_graph_anew(void **state) {
    static const struct {
        size_t size;
        const char *change;
    } kinds[] = {{64, "cuGraphExecKernelNodeSetParams_v2"},
                 {IG_CUDA_COPY_LIMIT + 64, "cuGraphExecMemcpyNodeSetParams"}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct fixture f;
        begin(&f);
        struct copying r = record_copy(&f, kinds[k].size);
        f.api->list_patch(f.device, r.list, 0, 0, r.b);
        f.api->list_patch(f.device, r.list, 1, 1, r.a); /* an empty copy has no node */
        f.cuda->fail = kinds[k].change;
        f.cuda->fail_at = 1;
        f.cuda->fail_result = 1;
        uint64_t live = f.cuda->live;
        assert_int_equal(run(&f, r.list), INGOT_OK);
        assert_int_equal(f.cuda->fail_at, 0); /* it was called */
        assert_int_equal(f.cuda->live, live);
        assert_true(r.c[0] == 2);
        f.api->list_patch(f.device, r.list, 0, 0, r.a);
        f.cuda->fail_at = 1;
        f.cuda->fail = "cuGraphLaunch"; /* a failure that is reported */
        assert_int_equal(run(&f, r.list), INGOT_DEVICE);
        assert_says(&f, "cannot launch a graph: error 1");
        assert_int_equal(run(&f, r.list), INGOT_OK);
        assert_true(r.c[0] == 1);
        release_copy(&f, &r);
        end(&f);
    }
}

/* Programmatic edges are used on sm_90 and later. */
static void lets_kernels_start_early(void **state) {
    static const struct { int sm, early; } machines[] = {{80, 0}, {90, 3}};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        struct fixture f;
        prepare(&f);
        f.cuda->sm = machines[i].sm;
        open_device(&f);
        f.fitting_cubin = f.cuda->sm == 80 ? f.old_cubin : f.fitting_cubin;
        float *a = allocate(&f, 64);
        uint64_t edges = f.cuda->edges, early = f.cuda->programmatic_edges;
        struct ig_list *list = record_twice(&f, a, 4, true, 0);
        assert_int_equal(f.cuda->programmatic_edges - early, machines[i].early);
        assert_int_equal(f.cuda->edges - edges, 3 - machines[i].early);
        f.api->list_destroy(f.device, list);
        f.api->release(f.device, a, 64);
        end(&f);
    }
}

/* A few large blocks behind large ones are not crowded where there is room first. */
static void spreads_large_blocks(void **state) {
    static const struct {
        uint32_t shared, blocks;
    } kernels[] = {{60000, 2}, {60000, 2}, {0, 2}, {60000, 2}, {60000, 3}};
    struct fixture f;
    const int64_t dims[] = {16};
    begin(&f);
    float *a = allocate(&f, 64);
    struct ig_list *list;
    assert_int_equal(f.api->list_begin(f.device, f.stream, &f.error), INGOT_OK);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        struct ig_launch launch = twice(&f, (void *[]){a}, dims, kernels[i].blocks);
        launch.shared = kernels[i].shared;
        launch.waits = true;
        assert_int_equal(f.api->launch(f.device, f.stream, &launch, &f.error), INGOT_OK);
    }
    assert_int_equal(f.api->list_end(f.device, f.stream, &list, &f.error), INGOT_OK);
    assert_int_equal(run(&f, list), INGOT_OK);
    assert_int_equal(f.cuda->early_launches, 3); /* all but the first two; the fake GPU has three multiprocessors */
    uint64_t edges = f.cuda->edges, early = f.cuda->programmatic_edges;
    assert_int_equal(make_ready(&f, list), INGOT_OK);
    assert_int_equal(f.cuda->programmatic_edges - early, 3);
    assert_int_equal(f.cuda->edges - edges, 1);
    f.api->list_destroy(f.device, list);
    f.api->release(f.device, a, 64);
    end(&f);
}

/* Kernels of up to two blocks for each of the fake GPU's three multiprocessors prefer shared memory to cache, alone and in a
 * graph. */
static void small_kernels_prefer_shared_memory(void **state) {
    static const uint32_t blocks[] = {1, 6, 7, 100};
    struct fixture f;
    const int64_t dims[] = {16};
    begin(&f);
    float *a = allocate(&f, 64);
    struct ig_list *list;
    assert_int_equal(f.api->list_begin(f.device, f.stream, &f.error), INGOT_OK);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        struct ig_launch launch = twice(&f, (void *[]){a}, dims, blocks[i]);
        assert_int_equal(f.api->launch(f.device, f.stream, &launch, &f.error), INGOT_OK);
    }
    assert_int_equal(f.api->list_end(f.device, f.stream, &list, &f.error), INGOT_OK);
    assert_int_equal(run(&f, list), INGOT_OK);
    assert_int_equal(f.cuda->carveouts, 2);
    assert_int_equal(make_ready(&f, list), INGOT_OK);
    assert_int_equal(f.cuda->carveouts, 4);
    f.api->list_destroy(f.device, list);
    f.api->release(f.device, a, 64);
    end(&f);
}

/* in: 3 rows of 4 floats, 8 apart; out: these rows, dense, then the number of blocks. */
static struct ig_launch launch_of_map(struct fixture *f, void *const *buffers) {
    static const struct ig_tensor_map map = {0, 0, 1, 2, 32, 8, .element = 4};
    static const int64_t dims[] = {4, 3, 8};
    struct ig_launch launch = twice(f, buffers, dims, 1000);
    launch.name = "map";
    launch.n_buffers = 2;
    launch.n_dims = 3;
    launch.maps = &map;
    launch.n_maps = 1;
    launch.lasting = 1;
    return launch;
}

static void expect_lines(const float *out, float first) {
    for (int i = 0; i < 12; i++)
        assert_true(out[i] == first + (float)(i / 4 * 8 + i % 4));
    assert_true(out[12] == 3); /* as many as there are multiprocessors */
}

static void gives_kernels_tensor_maps(void **state) {
    struct fixture f;
    begin(&f);
    float *in = allocate(&f, 256), *out = allocate(&f, 64);
    struct ig_list *list = NULL;
    for (int i = 0; i < 64; i++)
        in[i] = (float)i;
    struct ig_launch launch = launch_of_map(&f, (void *[]){in, out});
    assert_int_equal(f.api->launch(f.device, f.stream, &launch, &f.error), INGOT_OK);
    expect_lines(out, 0);
    launch = launch_of_map(&f, (void *[]){in + 4, out});
    assert_int_equal(f.api->list_begin(f.device, f.stream, &f.error), INGOT_OK);
    assert_int_equal(f.api->launch(f.device, f.stream, &launch, &f.error), INGOT_OK);
    launch.tiles = 0; /* no tiles: no map is encoded */
    assert_int_equal(f.api->launch(f.device, f.stream, &launch, &f.error), INGOT_OK);
    assert_int_equal(f.api->list_end(f.device, f.stream, &list, &f.error), INGOT_OK);
    assert_int_equal(run(&f, list), INGOT_OK);
    expect_lines(out, 4);
    f.api->list_patch(f.device, list, 0, 0, in + 12);
    assert_int_equal(run(&f, list), INGOT_OK);
    expect_lines(out, 12);
    f.api->list_patch(f.device, list, 0, 0, in + 4);
    assert_int_equal(make_ready(&f, list), INGOT_OK);
    assert_int_equal(run(&f, list), INGOT_OK);
    expect_lines(out, 4);
    start_log(&f);
    f.api->list_patch(f.device, list, 0, 0, in + 8);
    assert_int_equal(run(&f, list), INGOT_OK);
    assert_string_equal(f.cuda->log, "cuCtxPushCurrent_v2 cuTensorMapEncodeTiled cuGraphExecKernelNodeSetParams_v2 "
                                     "cuGraphLaunch cuCtxPopCurrent_v2 ");
    expect_lines(out, 8);
    f.api->list_patch(f.device, list, 0, 0, in + 1);
    assert_int_equal(run(&f, list), INGOT_DEVICE);
    assert_says(&f, "cannot describe a matrix of 3 lines of 4 elements to the copy engine");
    f.api->list_patch(f.device, list, 0, 0, in);
    start_log(&f);
    assert_int_equal(run(&f, list), INGOT_OK);
    assert_non_null(strstr(f.cuda->log, "cuGraphInstantiateWithFlags ")); /* once ready, it stays a graph */
    expect_lines(out, 0);
    f.api->list_destroy(f.device, list);
    f.api->release(f.device, in, 256);
    f.api->release(f.device, out, 64);
    end(&f);
}

/* Whichever call fails while a list is recorded, launched, patched and launched again: it returns an error and nothing
 * leaks. */
static void lists_fail_cleanly(void **state) {
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        struct fixture f;
        begin(&f);
        float *a = allocate(&f, 64), *b = allocate(&f, 64);
        struct ig_list *list = NULL;
        f.cuda->fail_at = n;
        f.cuda->fail_result = 1;
        enum ingot_status status = try_to_record(&f, a, 3, true, 1000, &list);
        if (status == INGOT_OK) status = run(&f, list);
        if (status == INGOT_OK) status = make_ready(&f, list);
        if (status == INGOT_OK) {
            f.api->list_patch(f.device, list, 1, 0, b);
            status = run(&f, list);
        }
        failed = f.cuda->fail_at == 0;
        if (status != INGOT_OK) assert_says(&f, "error 1 of the NVIDIA driver");
        assert_true(failed || (status == INGOT_OK && n > 20));
        f.cuda->fail_at = 0;
        f.api->list_destroy(f.device, list);
        f.api->release(f.device, a, 64);
        f.api->release(f.device, b, 64);
        end(&f);
    }
}

/* ---- Failures of enqueued work, and the caller's context -------------------------------------------------------------------- */

static void reports_failures_at_the_wait(void **state) {
    struct fixture f;
    begin(&f);
    float *a = allocate(&f, 64);
    struct ig_list *list = record_twice(&f, a, 1, false, 0);
    f.cuda->later = ILLEGAL_ADDRESS;
    assert_int_equal(run(&f, list), INGOT_OK);
    assert_int_equal(f.api->stream_wait(f.device, f.stream, &f.error), INGOT_DEVICE);
    assert_says(&f, "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)");
    assert_int_equal(f.api->stream_wait(f.device, f.stream, &f.error), INGOT_OK);
    f.api->list_destroy(f.device, list);
    f.api->release(f.device, a, 64);
    end(&f);
}

/* All operations of the device, while the caller's thread has another current context. */
static void leaves_the_callers_context(void **state) {
    struct fixture f;
    int own;
    void *popped;
    prepare(&f);
    f.driver.push(&own);
    begin(&f);
    float *a = allocate(&f, 64);
    struct ig_event *event;
    struct ig_stream *adopted = NULL;
    void *host;
    uint64_t time;
    struct ig_list *list = record_twice(&f, a, 2, false, 100);
    assert_int_equal(run(&f, list), INGOT_OK);
    assert_int_equal(f.api->event_create(f.device, true, &event, NULL), INGOT_OK);
    assert_int_equal(f.api->event_record(f.device, f.stream, event, NULL), INGOT_OK);
    assert_int_equal(f.api->event_wait(f.device, f.stream, event, NULL), INGOT_OK);
    assert_int_equal(f.api->event_elapsed(f.device, event, event, &time, NULL), INGOT_OK);
    bool done = false;
    void *native;
    memcpy(&native, f.stream, sizeof native); /* an ig_stream begins with the driver's handle */
    assert_int_equal(f.api->event_record_native(f.device, native, event, NULL), INGOT_OK);
    f.cuda->not_ready = 1;
    assert_int_equal(f.api->event_await(f.device, event, false, &done, NULL), INGOT_OK);
    assert_false(done);
    assert_int_equal(f.api->event_await(f.device, event, false, &done, NULL), INGOT_OK);
    assert_true(done);
    assert_int_equal(f.api->event_await(f.device, event, true, &done, NULL), INGOT_OK);
    assert_false(f.api->lost(f.device));
    assert_int_equal(f.api->free_bytes(f.device), f.cuda->memory / 2 - f.cuda->used);
    assert_int_equal(time, 1500000);
    assert_int_equal(f.api->allocate_host(f.device, 10, &host, NULL), INGOT_OK);
    assert_int_equal(f.api->copy(f.device, f.stream, host, a, 10, NULL), INGOT_OK);
    assert_int_equal(f.api->reserve_scratch(f.device, f.stream, 1000, NULL), INGOT_OK);
    assert_int_equal(f.api->stream_wait(f.device, f.stream, NULL), INGOT_OK);
    assert_int_equal(f.api->stream_adopt(f.device, NULL, &adopted, &f.error), INGOT_INVALID_ARGUMENT);
    assert_ptr_equal(f.driver.current(), &own);
    assert_int_equal(f.api->pin_host(f.device, f.device, 64, NULL), INGOT_OK);
    f.api->unpin_host(f.device, f.device);
    f.api->release_host(f.device, host, 10);
    f.api->event_destroy(f.device, event);
    f.api->list_destroy(f.device, list);
    f.api->release(f.device, a, 64);
    f.api->stream_destroy(f.device, f.stream);
    f.api->module_destroy(f.device, f.module);
    f.api->destroy(f.device);
    assert_ptr_equal(f.driver.current(), &own);
    assert_int_equal(f.driver.depth(), 1);
    f.driver.pop(&popped);
    assert_clean(&f);
}

/* A caller's stream is used but not destroyed. */
static void adopts_streams(void **state) {
    struct fixture f;
    struct ig_stream *adopted = NULL;
    begin(&f);
    /* An ig_stream begins with the driver's handle. */
    CUstream native;
    memcpy(&native, f.stream, sizeof native);
    assert_int_equal(f.api->stream_adopt(f.device, native, &adopted, &f.error), INGOT_OK);
    float *a = allocate(&f, 64), *b = allocate(&f, 64);
    a[0] = 3;
    assert_int_equal(f.api->copy(f.device, adopted, b, a, 64, NULL), INGOT_OK);
    assert_int_equal(f.api->stream_wait(f.device, adopted, NULL), INGOT_OK);
    assert_true(b[0] == 3);
    f.api->stream_destroy(f.device, adopted);
    assert_int_equal(f.api->stream_wait(f.device, f.stream, NULL), INGOT_OK);
    f.api->release(f.device, a, 64);
    f.api->release(f.device, b, 64);
    end(&f);
}

/* ---- Two GPUs from two threads ------------------------------------------------------------------------------------------------ */

struct user {
    const struct fixture *f;
    int ordinal;
};

static void *use(void *argument) {
    const struct user *user = argument;
    struct counting_allocator allocator;
    struct ig_device *device = NULL;
    counting_allocator_init(&allocator);
    for (int turn = 0; turn < 100; turn++) {
        void *memory;
        assert_int_equal(
            ig_device_cuda_create_with(user->f->driver.path, user->ordinal, &allocator.base, &device, NULL), INGOT_OK);
        assert_int_equal(device->api->allocate(device, 100, &memory, NULL), INGOT_OK);
        assert_int_equal(user->f->driver.depth(), 0);
        device->api->release(device, memory, 100);
        device->api->destroy(device);
    }
    assert_int_equal(allocator.live_count, 0);
    return NULL;
}

static void serves_several_gpus(void **state) {
    struct fixture f;
    pthread_t threads[4];
    prepare(&f);
    struct user users[4] = {{&f, 0}, {&f, 1}, {&f, 0}, {&f, 1}};
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_clean(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_driver_it_looked_for),
        cmocka_unit_test(says_that_the_driver_is_too_old),
        cmocka_unit_test(says_that_there_is_no_such_gpu),
        cmocka_unit_test(creation_fails_cleanly),
        cmocka_unit_test(says_what_code_it_has_and_wants),
        cmocka_unit_test(loads_code_once),
        cmocka_unit_test(holds_many_functions),
        cmocka_unit_test(asks_for_much_shared_memory),
        cmocka_unit_test(passes_no_more_parameters_than_there_are),
        cmocka_unit_test(refuses_blocks_that_no_gpu_has),
        cmocka_unit_test(checks_cubins),
        cmocka_unit_test(says_how_much_memory_there_is),
        cmocka_unit_test(launches_a_list_with_one_call),
        cmocka_unit_test(launches_the_items_of_a_new_list),
        cmocka_unit_test(leaves_copies_out),
        cmocka_unit_test(makes_a_graph_anew),
        cmocka_unit_test(lets_kernels_start_early),
        cmocka_unit_test(spreads_large_blocks),
        cmocka_unit_test(small_kernels_prefer_shared_memory),
        cmocka_unit_test(gives_kernels_tensor_maps),
        cmocka_unit_test(lists_fail_cleanly),
        cmocka_unit_test(reports_failures_at_the_wait),
        cmocka_unit_test(leaves_the_callers_context),
        cmocka_unit_test(adopts_streams),
        cmocka_unit_test(serves_several_gpus),
    };
    return cmocka_run_group_tests_name("cuda_device", tests, NULL, NULL);
}
