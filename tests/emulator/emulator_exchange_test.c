/*
 * Kernels of several emulated GPUs that exchange words through each other's memory while they run: launched by two threads,
 * or by two processes, into memory that is shared by descriptor or the host's; and one that waits in vain. This program
 * starts itself as the second process.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/device/emulated.h"
#include "support/support.h"

enum { WORDS = 1000, LAUNCHES = 100, BLOCKS = 3, WINDOW = 2 * 2 * WORDS * sizeof(uint64_t) };

/*
 * Each rank stores pairs of words into the peer's window, of which each has the number of the launch as a flag, waits for
 * the peer's, and adds them to its own. Launches use the halves of a window in turns: a rank that begins one knows that
 * the peer has begun the one before, and so has read what this one overwrites. A block waits for pairs that another
 * block of the peer stores. Waiting ends after a minute, so that a test that fails ends, and in `in_vain` after ten
 * milliseconds.
 */
static const char exchange[] =
    "extern \"C\" __global__ void __launch_bounds__(128) exchange(unsigned long long *own, unsigned long long *peer,\n"
    "        unsigned *sums, long long flag, long long rank, long long tiles, void *scratch) {\n"
    "    __shared__ unsigned shown[128];\n"
    "    unsigned long long start, now;\n"
    "    asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(start));\n"
    "    int all = gridDim.x * 128, first = blockIdx.x * 128 + threadIdx.x;\n"
    "    own += flag % 2 * 2000, peer += flag % 2 * 2000;\n"
    "    for (int i = first; i < 1000; i += all) {\n"
    "        unsigned long long x = flag * 7 + rank * 1000 + i, y = x * 3;\n"
    "        asm volatile(\"st.relaxed.sys.global.v2.u64 [%0], {%1, %2};\" ::\"l\"(peer + 2 * i), \"l\"(x << 32 | "
    "flag),\n"
    "                     \"l\"(y << 32 | flag) : \"memory\");\n"
    "    }\n"
    "    for (int begin = 0; begin < 1000; begin += all) {\n"
    "        unsigned long long x = 0, y = 0;\n"
    "        bool there;\n"
    "        shown[threadIdx.x] = 999 - begin - first;\n"
    "        __syncthreads();\n"
    "        int i = (int)shown[threadIdx.x ^ 1];\n"
    "        do {\n"
    "            if (i >= 0)\n"
    "                asm volatile(\"ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];\" : \"=l\"(x), \"=l\"(y) : \"l\"(own "
    "+ 2 * i)\n"
    "                             : \"memory\");\n"
    "            asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(now));\n"
    "            there = i < 0 || now - start > 60000000000 || ((unsigned)x == (unsigned)flag && (unsigned)y == "
    "(unsigned)flag);\n"
    "        } while (!__all_sync(0xffffffff, there));\n"
    "        __syncthreads();\n"
    "        if (i >= 0) sums[i] = (unsigned)(x >> 32) + (unsigned)(y >> 32) + (unsigned)(flag * 7 + rank * 1000 + i) "
    "* 4;\n"
    "    }\n"
    "}\n";

static const char in_vain[] =
    "extern \"C\" __global__ void __launch_bounds__(128) in_vain(unsigned long long *own, unsigned long long *peer,\n"
    "        unsigned *sums, long long flag, long long rank, long long tiles, void *scratch) {\n"
    "    unsigned long long begin, now, word;\n"
    "    asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(begin));\n"
    "    do {\n"
    "        asm volatile(\"ld.relaxed.sys.global.u64 %0, [%1];\" : \"=l\"(word) : \"l\"(own) : \"memory\");\n"
    "        asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(now));\n"
    "        asm volatile(\"fence.acq_rel.sys;\" ::: \"memory\");\n"
    "        __nanosleep(100);\n"
    "    } while (word != flag && now - begin < 10000000);\n"
    "    if (threadIdx.x == 0 && blockIdx.x == 0) sums[rank] = word == flag;\n"
    "}\n";

struct rank {
    struct ig_device *device;
    struct ig_module *module;
    const char *kernel;
    int number, launches;
    void *own, *peer; /* windows */
    uint32_t *sums;
    struct ingot_error error;
};

static struct emulator_options *how;
static struct ig_code code;

static void set_up_rank(struct rank *r, int number, struct ig_device *device, const char *kernel) {
    void *sums;
    *r = (struct rank){.device = device, .number = number, .kernel = kernel, .launches = LAUNCHES};
    assert_int_equal(device->api->module_create(device, code.bytes, code.size, &r->module, &r->error), INGOT_OK);
    assert_int_equal(device->api->allocate_host(device, WORDS * sizeof *r->sums, &sums, &r->error), INGOT_OK);
    r->sums = sums;
}

static void tear_down_rank(struct rank *r) {
    r->device->api->release_host(r->device, r->sums, WORDS * sizeof *r->sums);
    r->device->api->module_destroy(r->device, r->module);
}

static enum ingot_status launch(struct rank *r, struct ig_stream *stream, int64_t flag) {
    const struct ig_launch l = {.module = r->module,
                                .portable = UINT64_MAX,
                                .name = r->kernel,
                                .threads = 128,
                                .buffers = (void *[]){r->own, r->peer, r->sums},
                                .n_buffers = 3,
                                .dims = (int64_t[]){flag, r->number},
                                .n_dims = 2,
                                .tiles = BLOCKS};
    enum ingot_status status = r->device->api->launch(r->device, stream, &l, &r->error);
    return status == INGOT_OK ? r->device->api->stream_wait(r->device, stream, &r->error) : status;
}

/* The sum that both ranks compute, of the pairs number i. */
static uint32_t expected(int64_t flag, uint32_t i) {
    return (uint32_t)(flag * 7 + i) * 8 + 4000;
}

static enum ingot_status run_launches(struct rank *r, struct ig_stream *stream) {
    for (int64_t flag = 1; flag <= r->launches; flag++) {
        IG_TRY(launch(r, stream, flag));
        for (uint32_t i = 0; strcmp(r->kernel, "exchange") == 0 && i < WORDS; i++) {
            if (r->sums[i] != expected(flag, i))
                return IG_ERR(&r->error, INGOT_INTERNAL, "rank %d has %u at %u, not %u, in launch %d", r->number,
                              r->sums[i], i, expected(flag, i), (int)flag);
        }
    }
    return INGOT_OK;
}

static void *run_rank(void *argument) {
    struct rank *r = argument;
    struct ig_stream *stream;
    enum ingot_status status = r->device->api->stream_create(r->device, &stream, &r->error);
    if (status != INGOT_OK) return "no stream";
    status = run_launches(r, stream);
    r->device->api->stream_destroy(r->device, stream);
    return status == INGOT_OK ? NULL : r->error.message;
}

static void run_both(struct rank *ranks, const char *says) {
    pthread_t threads[2];
    void *messages[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], &messages[i]);
    if (messages[0]) fail_msg("%s", (char *)messages[0]);
    if (says && messages[1]) assert_non_null(strstr(messages[1], says));
    if (!says && messages[1]) fail_msg("%s", (char *)messages[1]);
    if (says) assert_non_null(messages[1]);
}

/* ---- Windows ---------------------------------------------------------------------------------------------------------------- */

/* In the memory of the rank's own GPU; `*out_descriptor` for the peer to import it. */
static void allocate_window(struct rank *r, int *out_descriptor) {
    const struct ig_device_api *api = r->device->api;
    if (api->allocate_shared(r->device, WINDOW, &r->own, &r->error) != INGOT_OK ||
        api->export_shared(r->device, r->own, out_descriptor, &r->error) != INGOT_OK)
        fail_msg("%s", r->error.message);
    memset(r->own, 0, WINDOW);
}

static void import_window(struct rank *r, int descriptor, void **out) {
    if (r->device->api->import_shared(r->device, descriptor, WINDOW, out, &r->error) != INGOT_OK)
        fail_msg("%s", r->error.message);
    close(descriptor);
}

static void share_windows(struct rank *ranks) {
    int descriptors[2];
    for (int i = 0; i < 2; i++)
        allocate_window(&ranks[i], &descriptors[i]);
    for (int i = 0; i < 2; i++)
        import_window(&ranks[i], descriptors[1 - i], &ranks[i].peer);
}

static void release_windows(struct rank *r) {
    r->device->api->release_shared(r->device, r->own, WINDOW);
    r->device->api->release_shared(r->device, r->peer, WINDOW);
}

/* ---- Tests ------------------------------------------------------------------------------------------------------------------ */

static void set_order(bool backwards) {
    *how = (struct emulator_options){.backwards = backwards, .late = backwards, .races = true};
}

/* Both ranks on GPU 0 are two streams of one device. */
static void exchange_between(struct ig_device *first, struct ig_device *second) {
    struct rank ranks[2];
    for (int backwards = 0; backwards < 2; backwards++) {
        set_order(backwards);
        set_up_rank(&ranks[0], 0, first, "exchange");
        set_up_rank(&ranks[1], 1, second, "exchange");
        share_windows(ranks);
        run_both(ranks, NULL);
        for (int i = 0; i < 2; i++) {
            release_windows(&ranks[i]);
            tear_down_rank(&ranks[i]);
        }
    }
}

static struct ig_device *devices[2];

static void two_gpus_exchange(void **state) {
    exchange_between(devices[0], devices[1]);
}

static void two_streams_exchange(void **state) {
    exchange_between(devices[0], devices[0]);
}

/* One module, so that both grids have the same __shared__ variables; windows in the host's memory. */
static void grids_of_one_module_exchange(void **state) {
    struct rank ranks[2];
    void *windows;
    struct ingot_error error;
    set_order(false);
    set_up_rank(&ranks[0], 0, devices[0], "exchange");
    assert_int_equal(devices[0]->api->allocate_host(devices[0], 2 * WINDOW, &windows, &error), INGOT_OK);
    memset(windows, 0, 2 * WINDOW);
    void *sums = ranks[0].sums, *others;
    assert_int_equal(devices[0]->api->allocate_host(devices[0], WORDS * sizeof(uint32_t), &others, &error), INGOT_OK);
    ranks[1] = ranks[0];
    ranks[1].number = 1;
    ranks[1].sums = others;
    ranks[0].own = ranks[1].peer = windows;
    ranks[1].own = ranks[0].peer = (char *)windows + WINDOW;
    run_both(ranks, NULL);
    ranks[0].sums = sums;
    devices[0]->api->release_host(devices[0], others, WORDS * sizeof(uint32_t));
    devices[0]->api->release_host(devices[0], windows, 2 * WINDOW);
    tear_down_rank(&ranks[0]);
}

/* The first rank gives up; the second finds, meanwhile, that it was given no window, which is no error of the first. */
static void waiting_ends(void **state) {
    struct rank ranks[2];
    for (int backwards = 0; backwards < 2; backwards++) {
        set_order(backwards);
        for (int i = 0; i < 2; i++) {
            set_up_rank(&ranks[i], i, devices[i], "in_vain");
            ranks[i].launches = 1;
        }
        share_windows(ranks);
        void *window = ranks[1].own;
        ranks[1].own = NULL;
        ranks[0].sums[0] = 7;
        run_both(ranks, "reads 8 bytes at");
        assert_int_equal(ranks[0].sums[0], 0);
        ranks[1].own = window;
        run_both(ranks, NULL);
        assert_int_equal(ranks[1].sums[1], 0);
        for (int i = 0; i < 2; i++) {
            release_windows(&ranks[i]);
            tear_down_rank(&ranks[i]);
        }
    }
}

/* ---- Two processes ------------------------------------------------------------------------------------------------------------ */

/* Imports both windows, and is the second rank. */
static void run_second(const char *own, const char *peer) {
    struct rank r;
    set_order(false);
    set_up_rank(&r, 1, devices[1], "exchange");
    import_window(&r, atoi(own), &r.own);
    import_window(&r, atoi(peer), &r.peer);
    const char *message = run_rank(&r);
    if (message) fail_msg("%s", message);
}

static pid_t start_second(int own, int peer) {
    char numbers[2][16];
    pid_t id = fork();
    assert_true(id >= 0);
    if (id > 0) return id;
    fcntl(own, F_SETFD, 0);
    fcntl(peer, F_SETFD, 0);
    snprintf(numbers[0], sizeof numbers[0], "%d", own);
    snprintf(numbers[1], sizeof numbers[1], "%d", peer);
    execl("/proc/self/exe", "emulator_exchange_test", numbers[0], numbers[1], (char *)NULL);
    _exit(127);
}

static void two_processes_exchange(void **state) {
    struct rank ranks[2];
    int descriptors[2], status;
    set_order(false);
    for (int i = 0; i < 2; i++) {
        set_up_rank(&ranks[i], i, devices[i], "exchange");
        allocate_window(&ranks[i], &descriptors[i]);
    }
    ranks[0].peer = ranks[1].own;
    pid_t second = start_second(descriptors[1], descriptors[0]);
    const char *message = run_rank(&ranks[0]);
    if (message) fail_msg("%s", message);
    assert_int_equal(waitpid(second, &status, 0), second);
    assert_int_equal(status, 0);
    for (int i = 0; i < 2; i++) {
        close(descriptors[i]);
        ranks[i].device->api->release_shared(ranks[i].device, ranks[i].own, WINDOW);
        tear_down_rank(&ranks[i]);
    }
}

/* ---- Set-up ------------------------------------------------------------------------------------------------------------------- */

static struct {
    const char *own, *peer; /* descriptors; NULL: this is the first process */
    int result;
} process;

static void second_process_exchanges(void **state) {
    run_second(process.own, process.peer);
}

static void run(struct ig_job *job, void *argument) {
    const struct CMUnitTest first[] = {
        cmocka_unit_test(two_gpus_exchange),
        cmocka_unit_test(two_streams_exchange),
        cmocka_unit_test(grids_of_one_module_exchange),
        cmocka_unit_test(waiting_ends),
        cmocka_unit_test(two_processes_exchange),
    };
    const struct CMUnitTest second[] = {cmocka_unit_test(second_process_exchanges)};
    const struct ig_source sources[] = {{.symbol = "exchange", .text = exchange},
                                        {.symbol = "in_vain", .text = in_vain}};
    emulated_compile(job, sources, 2, 90, &code);
    for (int i = 0; i < 2; i++)
        devices[i] = emulated_create(i, &how);
    process.result = process.own ? cmocka_run_group_tests_name("the second process", second, NULL, NULL)
                                 : cmocka_run_group_tests_name("exchange between emulated GPUs", first, NULL, NULL);
    for (int i = 0; i < 2; i++)
        devices[i]->api->destroy(devices[i]);
}

int main(int argc, char **argv) {
    struct ig_job job;
    struct ingot_error error = {0};
    if (!emulated_is_present()) return 77;
    if (argc == 3) process.own = argv[1], process.peer = argv[2];
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, run, NULL, &error);
    ig_job_deinit(&job);
    if (status != INGOT_OK) printf("%s\n", error.message);
    return status == INGOT_OK ? process.result : 1;
}
