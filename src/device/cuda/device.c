/*
 * The CUDA device: the table of device.h. Every entry makes the GPU's context current, calls the part that does the
 * work, and restores the caller's context.
 */
#include "device/cuda/cuda.h"

#include <stdio.h>
#include <string.h>

#include "device/cuda/context.h"
#include "device/cuda/copy.h"
#include "device/cuda/library.h"
#include "device/cuda/list.h"
#include "device/cuda/module.h"
#include "device/cuda/stream.h"

#define WORK_FAILED "the work on the GPU failed"

/* Gives the thread's own capture mode, for pop. Other modes than this one forbid calls that have nothing to do with what
 * is captured. */
static enum ingot_status push(struct ig_cuda *cuda, int *out_mode, struct ingot_error *error) {
    IG_TRY(IG_CUDA_STATUS(cuda, error, "cannot use the GPU", cuCtxPushCurrent, cuda->context));
    *out_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuda->driver.cuThreadExchangeStreamCaptureMode(out_mode);
    return INGOT_OK;
}

static void pop(struct ig_cuda *cuda, int mode) {
    CUcontext context;
    cuda->driver.cuThreadExchangeStreamCaptureMode(&mode);
    IG_CUDA(cuda, cuCtxPopCurrent, &context);
}

enum ingot_status ig_cuda_enter(struct ig_cuda *cuda, struct ingot_error *error) {
    if (cuda->entered == 0) IG_TRY(push(cuda, &cuda->capture_mode, error));
    cuda->entered++;
    return INGOT_OK;
}

enum ingot_status ig_cuda_leave(struct ig_cuda *cuda, enum ingot_status status) {
    if (--cuda->entered == 0) pop(cuda, cuda->capture_mode);
    return status;
}

static enum ingot_status enter_device(struct ig_device *device, struct ingot_error *error) {
    return ig_cuda_enter(ig_cuda_of(device), error);
}

static void leave_device(struct ig_device *device) {
    ig_cuda_leave(ig_cuda_of(device), INGOT_OK);
}

/* For functions that return no status: false where the GPU cannot be used any more; the driver has then freed all. */
static bool enter(struct ig_cuda *cuda) {
    return ig_cuda_enter(cuda, NULL) == INGOT_OK;
}

uint64_t ig_device_cuda_calls(const struct ig_device *device) {
    return atomic_load_explicit(&ig_cuda_of(device)->calls, memory_order_relaxed);
}

static uint32_t workers(const struct ig_device *device) {
    return ig_cuda_of(device)->info.processors * IG_CUDA_SCRATCH_BLOCKS;
}

/* ---- Memory and code --------------------------------------------------------------------------------------------- */

static enum ingot_status allocate(struct ig_device *device, size_t size, void **out_memory, struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    IG_TRY(ig_cuda_enter(cuda, error));
    return ig_cuda_leave(cuda, ig_cuda_allocate(cuda, size, out_memory, error));
}

static void release(struct ig_device *device, void *memory, size_t size) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    if (!memory || !enter(cuda)) return;
    ig_cuda_release(cuda, memory);
    ig_cuda_leave(cuda, INGOT_OK);
}

static enum ingot_status allocate_shared(struct ig_device *device, size_t size, void **out_memory,
                                         struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    IG_TRY(ig_cuda_enter(cuda, error));
    return ig_cuda_leave(cuda, ig_cuda_allocate_shared(cuda, size, out_memory, error));
}

static enum ingot_status export_shared(struct ig_device *device, void *memory, int *out_descriptor,
                                       struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    IG_TRY(ig_cuda_enter(cuda, error));
    return ig_cuda_leave(cuda, ig_cuda_export_shared(cuda, memory, out_descriptor, error));
}

static enum ingot_status import_shared(struct ig_device *device, int descriptor, size_t size, void **out_memory,
                                       struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    IG_TRY(ig_cuda_enter(cuda, error));
    return ig_cuda_leave(cuda, ig_cuda_import_shared(cuda, descriptor, size, out_memory, error));
}

static void release_shared(struct ig_device *device, void *memory, size_t size) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    if (memory) ig_cuda_release_shared(cuda, memory, size);
}

static enum ingot_status allocate_host(struct ig_device *device, size_t size, void **out_memory,
                                       struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    IG_TRY(ig_cuda_enter(cuda, error));
    return ig_cuda_leave(cuda, ig_cuda_allocate_host(cuda, size, out_memory, error));
}

static void release_host(struct ig_device *device, void *memory, size_t size) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    if (!memory || !enter(cuda)) return;
    IG_CUDA(cuda, cuMemFreeHost, memory);
    ig_cuda_leave(cuda, INGOT_OK);
}

static enum ingot_status pin_host(struct ig_device *device, void *memory, size_t size, struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    IG_TRY(ig_cuda_enter(cuda, error));
    return ig_cuda_leave(cuda, ig_cuda_pin_host(cuda, memory, size, error));
}

static void unpin_host(struct ig_device *device, void *memory) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    if (!enter(cuda)) return;
    IG_CUDA(cuda, cuMemHostUnregister, memory);
    ig_cuda_leave(cuda, INGOT_OK);
}

static enum ingot_status module_create(struct ig_device *device, const void *code, size_t size,
                                       struct ig_module **out_module, struct ingot_error *error) {
    return ig_cuda_module_create(ig_cuda_of(device), code, size, out_module, error);
}

/* Waits for all streams: the module's kernels may be in flight. */
static void module_destroy(struct ig_device *device, struct ig_module *module) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    bool entered = enter(cuda);
    if (entered) ig_cuda_stream_wait_all(cuda);
    ig_cuda_module_destroy(cuda, module);
    if (entered) ig_cuda_leave(cuda, INGOT_OK);
}

/* ---- Streams and events ------------------------------------------------------------------------------------------ */

static enum ingot_status stream_create(struct ig_device *device, struct ig_stream **out_stream,
                                       struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    IG_TRY(ig_cuda_enter(cuda, error));
    return ig_cuda_leave(cuda, ig_cuda_stream_create(cuda, NULL, out_stream, error));
}

static enum ingot_status stream_adopt(struct ig_device *device, void *native, struct ig_stream **stream,
                                      struct ingot_error *error) {
    if (!native)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "the default stream cannot be adopted, only a created one");
    if (!*stream) return ig_cuda_stream_create(ig_cuda_of(device), native, stream, error);
    (*stream)->handle = native;
    return INGOT_OK;
}

static void stream_let_go(struct ig_device *device, struct ig_stream *stream) {
    stream->handle = NULL;
}

static bool is_captured(struct ig_cuda *cuda, CUstream native) {
    int status = 0;
    if (native == CU_STREAM_LEGACY) return false;
    return cuda->driver.cuStreamIsCapturing(native, &status) == CUDA_SUCCESS && status != 0;
}

static void *stream_native(struct ig_device *device, const struct ig_stream *stream) {
    return stream->handle;
}

static bool stream_is_captured(struct ig_device *device, const struct ig_stream *stream) {
    return stream->adopted && is_captured(ig_cuda_of(device), stream->handle);
}

static void stream_destroy(struct ig_device *device, struct ig_stream *stream) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    bool entered = enter(cuda);
    ig_cuda_stream_destroy(cuda, stream);
    if (entered) ig_cuda_leave(cuda, INGOT_OK);
}

static enum ingot_status stream_wait(struct ig_device *device, struct ig_stream *stream, struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    IG_TRY(ig_cuda_enter(cuda, error));
    return ig_cuda_leave(cuda, IG_CUDA_STATUS(cuda, error, WORK_FAILED, cuStreamSynchronize, stream->handle));
}

/* Any thread may call this and the like below: `entered` counts the brackets of the device's own thread, so these push the
 * context themselves. */
static enum ingot_status event_create(struct ig_device *device, bool timed, struct ig_event **out_event,
                                      struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    int mode;
    IG_TRY(push(cuda, &mode, error));
    enum ingot_status status = ig_cuda_event_create(cuda, timed, out_event, error);
    pop(cuda, mode);
    return status;
}

static void event_destroy(struct ig_device *device, struct ig_event *event) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    bool entered = enter(cuda);
    ig_cuda_event_destroy(cuda, event);
    if (entered) ig_cuda_leave(cuda, INGOT_OK);
}

static enum ingot_status event_record(struct ig_device *device, struct ig_stream *stream, struct ig_event *event,
                                      struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    IG_TRY(ig_cuda_enter(cuda, error));
    return ig_cuda_leave(cuda, IG_CUDA_STATUS(cuda, error, "cannot record an event", cuEventRecord,
                                              ig_cuda_event_handle(event), stream->handle));
}

static enum ingot_status event_wait(struct ig_device *device, struct ig_stream *stream, struct ig_event *event,
                                    struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    IG_TRY(ig_cuda_enter(cuda, error));
    return ig_cuda_leave(cuda, IG_CUDA_STATUS(cuda, error, "cannot wait for an event", cuStreamWaitEvent,
                                              stream->handle, ig_cuda_event_handle(event), 0));
}

static enum ingot_status event_sync(struct ig_device *device, struct ig_event *event, struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    IG_TRY(ig_cuda_enter(cuda, error));
    return ig_cuda_leave(cuda,
                         IG_CUDA_STATUS(cuda, error, WORK_FAILED, cuEventSynchronize, ig_cuda_event_handle(event)));
}

static enum ingot_status event_await(struct ig_device *device, struct ig_event *event, bool block, bool *out_done,
                                     struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    CUevent handle = ig_cuda_event_handle(event);
    int mode;
    IG_TRY(push(cuda, &mode, error));
    CUresult result = block ? IG_CUDA(cuda, cuEventSynchronize, handle) : IG_CUDA(cuda, cuEventQuery, handle);
    pop(cuda, mode);
    *out_done = result != CUDA_ERROR_NOT_READY;
    return *out_done ? ig_cuda_driver_check(&cuda->driver, result, error, WORK_FAILED) : INGOT_OK;
}

static enum ingot_status refuse_captured(struct ingot_error *error) {
    return IG_ERR(error, INGOT_UNSUPPORTED,
                  "the caller's stream is captured into a CUDA graph: it orders nothing else");
}

static enum ingot_status event_record_native(struct ig_device *device, void *native, struct ig_event *event,
                                             struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    int mode;
    IG_TRY(push(cuda, &mode, error));
    enum ingot_status status = is_captured(cuda, native)
                                   ? refuse_captured(error)
                                   : IG_CUDA_STATUS(cuda, error, "cannot record an event", cuEventRecord,
                                                    ig_cuda_event_handle(event), (CUstream)native);
    pop(cuda, mode);
    return status;
}

static enum ingot_status event_wait_native(struct ig_device *device, void *native, struct ig_event *event,
                                           struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    int mode;
    IG_TRY(push(cuda, &mode, error));
    enum ingot_status status = is_captured(cuda, native)
                                   ? refuse_captured(error)
                                   : IG_CUDA_STATUS(cuda, error, "cannot wait for an event", cuStreamWaitEvent,
                                                    (CUstream)native, ig_cuda_event_handle(event), 0);
    pop(cuda, mode);
    return status;
}

static bool native_keeps_order(struct ig_device *device, void *native) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    int mode;
    if (native == CU_STREAM_LEGACY) return true;
    if (native == CU_STREAM_PER_THREAD || push(cuda, &mode, NULL) != INGOT_OK) return false;
    bool captured = is_captured(cuda, native);
    pop(cuda, mode);
    return !captured;
}

static enum ingot_status event_elapsed(struct ig_device *device, struct ig_event *begin, struct ig_event *end,
                                       uint64_t *out_nanoseconds, struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    IG_TRY(ig_cuda_enter(cuda, error));
    return ig_cuda_leave(cuda, ig_cuda_event_elapsed(cuda, begin, end, out_nanoseconds, error));
}

/* ---- Copies and launches ----------------------------------------------------------------------------------------- */

static enum ingot_status copy(struct ig_device *device, struct ig_stream *stream, void *to, const void *from,
                              size_t size, struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    IG_TRY(ig_cuda_enter(cuda, error));
    return ig_cuda_leave(cuda, ig_cuda_copy(cuda, stream, to, from, size, error));
}

static enum ingot_status launch(struct ig_device *device, struct ig_stream *stream, const struct ig_launch *launch,
                                struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    IG_TRY(ig_cuda_enter(cuda, error));
    return ig_cuda_leave(cuda, ig_cuda_launch(cuda, stream, launch, error));
}

static enum ingot_status need_library(struct ig_device *device, uint32_t library, struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    IG_TRY(ig_cuda_enter(cuda, error));
    return ig_cuda_leave(cuda, ig_cuda_library_need(cuda, library, error));
}

void ig_device_cuda_use_library(struct ig_device *device, uint32_t library, const char *file) {
    ig_cuda_of(device)->library_files[library] = file;
}

static enum ingot_status reserve_scratch(struct ig_device *device, struct ig_stream *stream, size_t bytes,
                                         struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    if (ig_cuda_scratch_bytes(cuda, bytes) <= stream->scratch_size) return INGOT_OK;
    IG_TRY(ig_cuda_enter(cuda, error));
    return ig_cuda_leave(cuda, ig_cuda_reserve_scratch(cuda, stream, bytes, error));
}

static size_t scratch_bytes(const struct ig_device *device, size_t bytes) {
    return ig_cuda_scratch_bytes(ig_cuda_of(device), bytes);
}

/* ---- Lists ------------------------------------------------------------------------------------------------------- */

static enum ingot_status list_begin(struct ig_device *device, struct ig_stream *stream, struct ingot_error *error) {
    if (stream->recording) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "the stream is recording a list already");
    return ig_cuda_list_create(ig_cuda_of(device), &stream->recording, error);
}

static void list_for(struct ig_device *device, struct ig_stream *stream, const struct ig_stream *launcher) {
    stream->launcher = launcher;
}

static enum ingot_status list_after(struct ig_device *device, struct ig_stream *stream, const uint32_t *items,
                                    uint32_t count, struct ingot_error *error) {
    if (!stream->recording) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "the stream is not recording a list");
    return ig_cuda_list_after(stream->recording, items, count, error);
}

static enum ingot_status list_end(struct ig_device *device, struct ig_stream *stream, struct ig_list **out_list,
                                  struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    struct ig_list *list = stream->recording;
    if (!list) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "the stream is not recording a list");
    IG_TRY(ig_cuda_enter(cuda, error));
    stream->recording = NULL;
    enum ingot_status status = ig_cuda_list_finish(cuda, list, stream, error);
    if (status != INGOT_OK)
        ig_cuda_list_destroy(cuda, list);
    else
        *out_list = list;
    return ig_cuda_leave(cuda, status);
}

static enum ingot_status list_ready(struct ig_device *device, struct ig_stream *stream, struct ig_list *list,
                                    struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    IG_TRY(ig_cuda_enter(cuda, error));
    return ig_cuda_leave(cuda, ig_cuda_list_ready(cuda, list, stream, error));
}

static void list_destroy(struct ig_device *device, struct ig_list *list) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    bool entered = enter(cuda);
    ig_cuda_list_destroy(cuda, list);
    if (entered) ig_cuda_leave(cuda, INGOT_OK);
}

static size_t list_bytes(const struct ig_device *device, const struct ig_list *list) {
    return ig_cuda_list_bytes(list);
}

static enum ingot_status list_launch(struct ig_device *device, struct ig_stream *stream, struct ig_list *list,
                                     struct ingot_error *error) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    if (stream->recording) return IG_ERR(error, INGOT_UNSUPPORTED, "a list cannot be recorded into another");
    IG_TRY(ig_cuda_enter(cuda, error));
    return ig_cuda_leave(cuda, ig_cuda_list_launch(cuda, list, stream, error));
}

static void list_patch(struct ig_device *device, struct ig_list *list, uint32_t item, uint32_t buffer, void *address) {
    ig_cuda_list_patch(list, item, buffer, address);
}

static void list_skip(struct ig_device *device, struct ig_list *list, uint32_t item, bool skipped) {
    ig_cuda_list_skip(list, item, skipped);
}

static CUresult ask_for_free(struct ig_device *device, size_t *out_free) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    size_t total;
    CUresult result = IG_CUDA(cuda, cuCtxPushCurrent, cuda->context);
    if (result == CUDA_SUCCESS) {
        CUcontext context;
        result = IG_CUDA(cuda, cuMemGetInfo, out_free, &total);
        IG_CUDA(cuda, cuCtxPopCurrent, &context);
    }
    return result;
}

static size_t free_bytes(struct ig_device *device) {
    size_t found;
    return ask_for_free(device, &found) == CUDA_SUCCESS ? found : 0;
}

/* Asks for something that needs no work: a GPU in that state answers nothing. */
static bool lost(struct ig_device *device) {
    size_t found;
    return ig_cuda_driver_is_lost(ask_for_free(device, &found));
}

/* ---- Enumeration ------------------------------------------------------------------------------------------------- */

static enum ingot_status count(const struct ig_cuda_driver *driver, int *out_count, struct ingot_error *error) {
    return ig_cuda_driver_check(driver, driver->cuDeviceGetCount(out_count), error, "cannot count the GPUs");
}

enum ingot_status ig_device_cuda_count_with(const char *library, int *out_count, struct ingot_error *error) {
    struct ig_cuda_driver driver;
    IG_TRY(ig_cuda_driver_load(&driver, library, error));
    return count(&driver, out_count, error);
}

enum ingot_status ig_device_cuda_count(int *out_count, struct ingot_error *error) {
    return ig_device_cuda_count_with(NULL, out_count, error);
}

/* What floors are computed from. Memory transfers twice per clock. */
static void describe_speed(const struct ig_cuda_driver *driver, CUdevice device, struct ig_device_cuda_info *info) {
    int clock = 0, memory_clock = 0, bits = 0, cache = 0;
    const struct {
        int attribute, *value;
    } questions[] = {
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &clock},
        {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &memory_clock},
        {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &bits},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &cache},
    };
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        if (driver->cuDeviceGetAttribute(questions[i].value, questions[i].attribute, device) != CUDA_SUCCESS ||
            *questions[i].value < 0)
            *questions[i].value = 0;
    }
    info->mhz = clock / 1e3;
    info->bandwidth = 2.0 * memory_clock / 1e3 * bits / 8;
    info->cache = (size_t)cache;
}

/* For a GPU that exists, none of these queries fails. */
static enum ingot_status describe(const struct ig_cuda_driver *driver, CUdevice device,
                                  struct ig_device_cuda_info *out_info, struct ingot_error *error) {
    struct ig_device_cuda_info info = {.driver = driver->version};
    int major = 0, minor = 0, processors = 0, shared = 0;
    CUuuid uuid = {{0}};
    const struct {
        int attribute, *value;
    } questions[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &processors},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &shared},
    };
    CUresult result = driver->cuDeviceGetName(info.name, (int)sizeof info.name, device);
    if (result == CUDA_SUCCESS) result = driver->cuDeviceTotalMem(&info.memory, device);
    if (result == CUDA_SUCCESS) result = driver->cuDeviceGetUuid(&uuid, device);
    for (size_t i = 0; result == CUDA_SUCCESS && i < sizeof questions / sizeof *questions; i++)
        result = driver->cuDeviceGetAttribute(questions[i].value, questions[i].attribute, device);
    IG_TRY(ig_cuda_driver_check(driver, result, error, "cannot ask a GPU what it is"));
    memcpy(info.uuid, uuid.bytes, sizeof info.uuid);
    info.sm = 10 * major + minor;
    info.sm_own = info.sm >= 90;
    info.processors = processors > 0 ? (uint32_t)processors : 1;
    info.shared = shared > 0 ? (uint32_t)shared : 0;
    describe_speed(driver, device, &info);
    snprintf(info.arch, sizeof info.arch, "sm_%d%s", info.sm % 10000, info.sm_own ? "a" : "");
    *out_info = info;
    return INGOT_OK;
}

static enum ingot_status find_device(const struct ig_cuda_driver *driver, int ordinal, CUdevice *out_device,
                                     struct ingot_error *error) {
    int there = 0;
    IG_TRY(count(driver, &there, error));
    if (ordinal < 0 || ordinal >= there)
        return IG_ERR(error, INGOT_DEVICE, "there is no GPU %d: the NVIDIA driver shows %d", ordinal, there);
    return ig_cuda_driver_check(driver, driver->cuDeviceGet(out_device, ordinal), error, "cannot find GPU %d", ordinal);
}

enum ingot_status ig_device_cuda_describe(int ordinal, struct ig_device_cuda_info *out_info,
                                          struct ingot_error *error) {
    struct ig_cuda_driver driver;
    CUdevice device = 0;
    IG_TRY(ig_cuda_driver_load(&driver, NULL, error));
    IG_TRY(find_device(&driver, ordinal, &device, error));
    return describe(&driver, device, out_info, error);
}

/* ---- Creation and destruction ------------------------------------------------------------------------------------ */

static void destroy(struct ig_device *device) {
    struct ig_cuda *cuda = ig_cuda_of(device);
    if (cuda->context) {
        bool entered = enter(cuda);
        ig_cuda_library_deinit(cuda);
        ig_cuda_copy_deinit(cuda);
        ig_cuda_memory_deinit(cuda);
        if (entered) ig_cuda_leave(cuda, INGOT_OK);
        IG_CUDA(cuda, cuDevicePrimaryCtxRelease, cuda->handle);
    }
    ig_release(device->allocator, cuda->block, cuda->block_size);
    ig_release(device->allocator, cuda, sizeof *cuda);
}

static const struct ig_device_api api = {
    .name = "cuda",
    .destroy = destroy,
    .enter = enter_device,
    .leave = leave_device,
    .workers = workers,
    .free_bytes = free_bytes,
    .allocate = allocate,
    .release = release,
    .allocate_shared = allocate_shared,
    .export_shared = export_shared,
    .import_shared = import_shared,
    .release_shared = release_shared,
    .allocate_host = allocate_host,
    .release_host = release_host,
    .pin_host = pin_host,
    .unpin_host = unpin_host,
    .module_create = module_create,
    .module_destroy = module_destroy,
    .stream_create = stream_create,
    .stream_adopt = stream_adopt,
    .stream_let_go = stream_let_go,
    .stream_native = stream_native,
    .stream_is_captured = stream_is_captured,
    .stream_destroy = stream_destroy,
    .stream_wait = stream_wait,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_sync = event_sync,
    .event_await = event_await,
    .event_record_native = event_record_native,
    .event_wait_native = event_wait_native,
    .native_keeps_order = native_keeps_order,
    .event_elapsed = event_elapsed,
    .copy = copy,
    .launch = launch,
    .need_library = need_library,
    .reserve_scratch = reserve_scratch,
    .scratch_bytes = scratch_bytes,
    .list_begin = list_begin,
    .list_for = list_for,
    .list_after = list_after,
    .list_end = list_end,
    .list_ready = list_ready,
    .list_destroy = list_destroy,
    .list_bytes = list_bytes,
    .list_launch = list_launch,
    .list_patch = list_patch,
    .list_skip = list_skip,
    .lost = lost,
};

static enum ingot_status init(struct ig_cuda *cuda, const char *library, int ordinal, struct ingot_error *error) {
    IG_TRY(ig_cuda_driver_load(&cuda->driver, library, error));
    IG_TRY(find_device(&cuda->driver, ordinal, &cuda->handle, error));
    IG_TRY(describe(&cuda->driver, cuda->handle, &cuda->info, error));
    cuda->base.processors = cuda->info.processors;
    IG_CUDA_TRY(cuda, error, "cannot open the GPU", cuDevicePrimaryCtxRetain, &cuda->context, cuda->handle);
    IG_TRY(ig_cuda_enter(cuda, error));
    return ig_cuda_leave(cuda, ig_cuda_memory_init(cuda, error));
}

enum ingot_status ig_device_cuda_create_with(const char *library, int ordinal, const struct ingot_allocator *allocator,
                                             struct ig_device **out_device, struct ingot_error *error) {
    struct ig_cuda *cuda = ig_allocate(allocator, sizeof *cuda, _Alignof(struct ig_cuda));
    if (!cuda) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a device");
    cuda->base = (struct ig_device){.api = &api, .allocator = allocator, .ordinal = (uint32_t)ordinal};
    enum ingot_status status = init(cuda, library, ordinal, error);
    if (status != INGOT_OK)
        destroy(&cuda->base);
    else
        *out_device = &cuda->base;
    return status;
}

enum ingot_status ig_device_cuda_create(int ordinal, const struct ingot_allocator *allocator,
                                        struct ig_device **out_device, struct ingot_error *error) {
    return ig_device_cuda_create_with(NULL, ordinal, allocator, out_device, error);
}
