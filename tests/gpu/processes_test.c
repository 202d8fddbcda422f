/*
 * The weights of an engine on GPU 0, in two processes: the second imports what the first exports, computes the same, and
 * takes no second copy, also when the first has gone. Skipped without a GPU or NVRTC (INGOT_NVRTC names it if the loader
 * does not find it); processes_emulated_test runs it on the emulator. This program starts itself as the second process.
 */
#define _GNU_SOURCE
#include "support/support.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "support/model/table.h"

/* By how much the memory of two equal runs may differ. */
#define LITTLE (TABLE_BYTES / 8)

static char path[] = "/tmp/ingot-weights-XXXXXX";

struct loaded {
    struct ingot_engine *engine;
    struct ingot_context *context;
};

static void unload(struct loaded *loaded) {
    ingot_context_destroy(loaded->context);
    ingot_engine_release(loaded->engine);
    *loaded = (struct loaded){NULL, NULL};
}

/* ---- Free memory of the GPU, by the driver ------------------------------------------------------------------------------- */

static struct {
    int (*retain)(void **context, int device);
    int (*release)(int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*info)(size_t *available, size_t *total);
} driver;

static bool open_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return false;
    *(void **)&driver.retain = dlsym(library, "cuDevicePrimaryCtxRetain");
    *(void **)&driver.release = dlsym(library, "cuDevicePrimaryCtxRelease_v2");
    *(void **)&driver.push = dlsym(library, "cuCtxPushCurrent_v2");
    *(void **)&driver.pop = dlsym(library, "cuCtxPopCurrent_v2");
    *(void **)&driver.info = dlsym(library, "cuMemGetInfo_v2");
    return driver.retain && driver.release && driver.push && driver.pop && driver.info;
}

/* Both processes hold the GPU before they ask, so that what a process itself costs there is not counted. */
static size_t available_memory(void) {
    void *context;
    size_t available = 0, total;
    if (driver.retain(&context, 0) != 0) return 0;
    if (driver.push(context) == 0) {
        if (driver.info(&available, &total) != 0) available = 0;
        driver.pop(&context);
    }
    driver.release(0);
    return available;
}

/* ---- Messages: a report each way, and the handle with its descriptor ----------------------------------------------------- */

struct report {
    enum ingot_status status;
    long long taken; /* bytes of GPU memory */
    char message[INGOT_ERROR_MESSAGE_SIZE];
};

static bool send_handle(int to, struct ingot_weights_handle *handle) {
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {handle, sizeof *handle};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &handle->fd, sizeof handle->fd);
    return sendmsg(to, &message, 0) == (ssize_t)sizeof *handle;
}

static bool receive_handle(int from, struct ingot_weights_handle *out_handle) {
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {out_handle, sizeof *out_handle};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(from, &message, 0) != (ssize_t)sizeof *out_handle || !CMSG_FIRSTHDR(&message)) return false;
    memcpy(&out_handle->fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof out_handle->fd);
    return true;
}

/* ---- The second process ---------------------------------------------------------------------------------------------------- */

static enum ingot_status expect_refusal(struct ingot_engine *engine, const struct ingot_weights_handle *handle,
                                        enum ingot_status wanted, const char *text, struct ingot_error *error) {
    struct ingot_error found = {0};
    enum ingot_status status = ingot_engine_import_weights(engine, 0, handle, &found);
    if (status == wanted && strstr(found.message, text)) return INGOT_OK;
    return IG_ERR(error, INGOT_INTERNAL, "an import is not refused by '%s' but gives %d: %s", text, (int)status,
                  found.message);
}

/* After each, the engine is as before. */
static enum ingot_status try_bad_handles(struct ingot_engine *engine, const struct ingot_weights_handle *good,
                                         struct ingot_error *error) {
    struct ingot_weights_handle bad = *good;
    bad.checksum ^= 1;
    IG_TRY(expect_refusal(engine, &bad, INGOT_INVALID_ARGUMENT, "the handle is for other weights: ", error));
    bad = *good;
    bad.bytes += 64;
    IG_TRY(expect_refusal(engine, &bad, INGOT_INVALID_ARGUMENT, "the handle is for other weights: ", error));
    bad = *good;
    bad.gpu[3] ^= 1;
    IG_TRY(expect_refusal(engine, &bad, INGOT_INVALID_ARGUMENT, "memory of another GPU than GPU 0", error));
    bad = *good;
    bad.fd = -1;
    IG_TRY(expect_refusal(engine, &bad, INGOT_INVALID_ARGUMENT, "the handle's fd is -1", error));
    bad.fd = open("/dev/null", O_RDWR);
    enum ingot_status status = expect_refusal(engine, &bad, INGOT_DEVICE, "cannot import", error);
    close(bad.fd);
    if (status == INGOT_OK) status = expect_refusal(engine, &bad, INGOT_DEVICE, "cannot import", error); /* closed */
    return status;
}

/* The GPU memory that the engine takes without an import, for comparison. */
static enum ingot_status measure_own(long long *out_taken, struct ingot_error *error) {
    struct loaded own = {0};
    size_t before = available_memory();
    enum ingot_status status = ingot_engine_load(path, NULL, &own.engine, error);
    if (status == INGOT_OK) status = ingot_context_create(own.engine, NULL, &own.context, error);
    if (status == INGOT_OK) status = table_run(own.context, error);
    *out_taken = (long long)before - (long long)available_memory();
    unload(&own);
    return status;
}

static enum ingot_status import_and_run(struct loaded *l, const struct ingot_weights_handle *handle,
                                        struct ingot_error *error) {
    struct ingot_weights_handle none;
    IG_TRY(ingot_engine_load(path, NULL, &l->engine, error));
    IG_TRY(try_bad_handles(l->engine, handle, error));
    IG_TRY(ingot_engine_import_weights(l->engine, 0, handle, error));
    close(handle->fd);
    IG_TRY(ingot_context_create(l->engine, NULL, &l->context, error));
    IG_TRY(table_run(l->context, error));
    IG_TRY(expect_refusal(l->engine, handle, INGOT_INVALID_ARGUMENT, "already", error));
    if (ingot_engine_export_weights(l->engine, 0, &none, NULL) == INGOT_INVALID_ARGUMENT) return INGOT_OK;
    return IG_ERR(error, INGOT_INTERNAL, "imported weights are exported again");
}

static bool tell(int to, enum ingot_status status, long long taken, const struct ingot_error *error) {
    struct report report = {.status = status, .taken = taken};
    if (status != INGOT_OK) memcpy(report.message, error->message, sizeof report.message);
    return write(to, &report, sizeof report) == (ssize_t)sizeof report;
}

/* Arguments: the socket and the engine's file. */
static int be_second_process(int other, const char *engine) {
    struct loaded loaded = {0};
    struct ingot_weights_handle handle;
    struct ingot_gpu *gpu;
    struct ingot_error error = {0};
    char byte;
    snprintf(path, sizeof path, "%s", engine);
    if (!open_driver() || ingot_gpu_hold(0, &gpu, &error) != INGOT_OK) return 2;
    long long taken = 0;
    enum ingot_status status = measure_own(&taken, &error);
    if (!tell(other, status, taken, &error) || !receive_handle(other, &handle)) return 3;
    size_t before = available_memory(); /* the first process has its copy */
    status = import_and_run(&loaded, &handle, &error);
    if (!tell(other, status, (long long)before - (long long)available_memory(), &error)) return 4;
    if (read(other, &byte, 1) != 1) return 5; /* the first process has destroyed all that it had */
    if (status == INGOT_OK) {
        ingot_context_destroy(loaded.context);
        loaded.context = NULL;
        status = ingot_context_create(loaded.engine, NULL, &loaded.context, &error);
    }
    if (status == INGOT_OK) status = table_run(loaded.context, &error);
    unload(&loaded);
    ingot_gpu_release(gpu);
    return tell(other, status, 0, &error) ? 0 : 6;
}

/* ---- The first process ------------------------------------------------------------------------------------------------------- */

struct second {
    pid_t id;
    int socket;
};

static struct second start_second(void) {
    int ends[2];
    char number[16];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    struct second second = {fork(), ends[0]};
    assert_true(second.id >= 0);
    if (second.id == 0) {
        close(ends[0]);
        snprintf(number, sizeof number, "%d", ends[1]);
        execl("/proc/self/exe", "processes_test", "second", number, path, (char *)NULL);
        _exit(127);
    }
    close(ends[1]); /* so that reading ends if the second process does */
    return second;
}

static long long hear(const struct second *second, const char *what) {
    struct report report;
    if (read(second->socket, &report, sizeof report) != (ssize_t)sizeof report)
        fail_msg("the second process ended before it said: %s", what);
    if (report.status != INGOT_OK) fail_msg("%s: %s", what, report.message);
    return report.taken;
}

static void must(enum ingot_status status, const struct ingot_error *error) {
    if (status) fail_msg("%s", error->message);
}

static void two_processes_have_one_copy(void **state) {
    struct loaded first = {0}, again = {0};
    struct ingot_weights_handle handle;
    struct ingot_error error;
    struct ingot_gpu *gpu;
    int status;
    struct second second = start_second();
    long long own = hear(&second, "it has run with weights of its own");
    must(ingot_gpu_hold(0, &gpu, &error), &error);
    size_t before = available_memory();
    must(ingot_engine_load(path, NULL, &first.engine, &error), &error);
    must(ingot_engine_export_weights(first.engine, 0, &handle, &error), &error);
    must(ingot_context_create(first.engine, NULL, &first.context, &error), &error);
    must(table_run(first.context, &error), &error);
    size_t taken = before - available_memory();
    assert_true(send_handle(second.socket, &handle));
    long long imported = hear(&second, "it has imported the weights and run");
    print_message("bytes of GPU memory taken: %zu by the first process; by the second %lld alone, %lld with imported "
                  "weights\n",
                  taken, own, imported);
    assert_true(taken >= TABLE_BYTES && own >= (long long)TABLE_BYTES);
    assert_true(imported <= own - (long long)(TABLE_BYTES - LITTLE));
    /* The same in this process. */
    must(ingot_engine_load(path, NULL, &again.engine, &error), &error);
    must(ingot_engine_import_weights(again.engine, 0, &handle, &error), &error);
    must(ingot_context_create(again.engine, NULL, &again.context, &error), &error);
    must(table_run(again.context, &error), &error);
    close(handle.fd);
    unload(&first);
    must(table_run(again.context, &error), &error);
    unload(&again);
    ingot_gpu_release(gpu);
    assert_int_equal(write(second.socket, "!", 1), 1);
    hear(&second, "it has run when the first process had freed all");
    assert_int_equal(waitpid(second.id, &status, 0), second.id);
    assert_int_equal(status, 0);
    close(second.socket);
}

static void sharing_begins_before_contexts(void **state) {
    struct loaded own = {0};
    struct ingot_weights_handle handle = {.fd = -5};
    struct ingot_error error;
    must(ingot_engine_load(path, NULL, &own.engine, &error), &error);
    must(ingot_context_create(own.engine, NULL, &own.context, &error), &error);
    assert_int_equal(ingot_engine_export_weights(own.engine, 0, &handle, &error), INGOT_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "export them before the engine's first context there"));
    assert_int_equal(handle.fd, -5);
    assert_int_equal(ingot_engine_export_weights(own.engine, -1, &handle, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_engine_export_weights(own.engine, 999, &handle, &error), INGOT_DEVICE);
    must(table_run(own.context, &error), &error);
    unload(&own);
}

/* ---- Set-up ------------------------------------------------------------------------------------------------------------------- */

/* False: there is no GPU, or no NVRTC to build for it. Other errors are for the tests to report. */
static bool set_up(struct ingot_error *error) {
    struct ingot_gpu_info gpu;
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    options.target = "cuda";
    options.nvrtc = getenv("INGOT_NVRTC");
    int file = mkstemp(path);
    if (file < 0 || ingot_gpu_describe(0, &gpu, error) != INGOT_OK || !open_driver()) return false;
    close(file);
    return table_build(&options, path, error) != INGOT_TOOLCHAIN;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_processes_have_one_copy),
        cmocka_unit_test(sharing_begins_before_contexts),
    };
    struct ingot_error error = {0};
    if (argc == 4 && strcmp(argv[1], "second") == 0) return be_second_process(atoi(argv[2]), argv[3]);
    int result = 77;
    if (set_up(&error))
        result = cmocka_run_group_tests_name("processes on a GPU", tests, NULL, NULL);
    else
        printf("skipped: %s\n", error.message);
    unlink(path);
    return result;
}
