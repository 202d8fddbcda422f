#include "support/device/faults.h"

#include "base/error.h"

const char *const fault_names[FAULT_COUNT] = {"allocate",     "allocate_host", "list_begin", "list_end",
                                              "list_ready",   "launch",        "copy",       "list_launch",
                                              "event_record", "event_wait",    "event_sync", "stream_wait"};

static const struct ig_device_api *original;
static struct ig_device_api altered;
static enum fault armed;
static uint64_t left; /* calls until it fails; 0: none does */

static bool strikes(enum fault fault) {
    return fault == armed && left > 0 && --left == 0;
}

static enum ingot_status refuse(enum fault fault, struct ingot_error *error) {
    return IG_ERR(error, INGOT_DEVICE, "injected: %s", fault_names[fault]);
}

#define BEFORE(fault) \
    if (strikes(fault)) return refuse((fault), error)

static enum ingot_status allocate(struct ig_device *device, size_t size, void **out_memory, struct ingot_error *error) {
    BEFORE(FAULT_ALLOCATE);
    return original->allocate(device, size, out_memory, error);
}

static enum ingot_status allocate_host(struct ig_device *device, size_t size, void **out_memory,
                                       struct ingot_error *error) {
    BEFORE(FAULT_ALLOCATE_HOST);
    return original->allocate_host(device, size, out_memory, error);
}

static enum ingot_status list_begin(struct ig_device *device, struct ig_stream *stream, struct ingot_error *error) {
    BEFORE(FAULT_LIST_BEGIN);
    return original->list_begin(device, stream, error);
}

/* The stream records no more, as after a failure of a real device. */
static enum ingot_status list_end(struct ig_device *device, struct ig_stream *stream, struct ig_list **out_list,
                                  struct ingot_error *error) {
    struct ig_list *list;
    if (!strikes(FAULT_LIST_END)) return original->list_end(device, stream, out_list, error);
    if (original->list_end(device, stream, &list, error) == INGOT_OK) original->list_destroy(device, list);
    return refuse(FAULT_LIST_END, error);
}

static enum ingot_status list_ready(struct ig_device *device, struct ig_stream *stream, struct ig_list *list,
                                    struct ingot_error *error) {
    BEFORE(FAULT_LIST_READY);
    return original->list_ready(device, stream, list, error);
}

static enum ingot_status launch(struct ig_device *device, struct ig_stream *stream, const struct ig_launch *launch,
                                struct ingot_error *error) {
    BEFORE(FAULT_LAUNCH);
    return original->launch(device, stream, launch, error);
}

static enum ingot_status copy(struct ig_device *device, struct ig_stream *stream, void *to, const void *from,
                              size_t size, struct ingot_error *error) {
    BEFORE(FAULT_COPY);
    return original->copy(device, stream, to, from, size, error);
}

static enum ingot_status list_launch(struct ig_device *device, struct ig_stream *stream, struct ig_list *list,
                                     struct ingot_error *error) {
    BEFORE(FAULT_LIST_LAUNCH);
    return original->list_launch(device, stream, list, error);
}

static enum ingot_status event_record(struct ig_device *device, struct ig_stream *stream, struct ig_event *event,
                                      struct ingot_error *error) {
    BEFORE(FAULT_EVENT_RECORD);
    return original->event_record(device, stream, event, error);
}

static enum ingot_status event_wait(struct ig_device *device, struct ig_stream *stream, struct ig_event *event,
                                    struct ingot_error *error) {
    BEFORE(FAULT_EVENT_WAIT);
    return original->event_wait(device, stream, event, error);
}

static enum ingot_status event_sync(struct ig_device *device, struct ig_event *event, struct ingot_error *error) {
    enum ingot_status status = original->event_sync(device, event, error);
    BEFORE(FAULT_EVENT_SYNC);
    return status;
}

static enum ingot_status stream_wait(struct ig_device *device, struct ig_stream *stream, struct ingot_error *error) {
    enum ingot_status status = original->stream_wait(device, stream, error);
    BEFORE(FAULT_STREAM_WAIT);
    return status;
}

void faults_add(struct ig_device *device) {
    if (device->api == &altered) return;
    original = device->api;
    altered = *original;
    altered.allocate = allocate;
    altered.allocate_host = allocate_host;
    altered.list_begin = list_begin;
    altered.list_end = list_end;
    if (original->list_ready) altered.list_ready = list_ready;
    altered.launch = launch;
    altered.copy = copy;
    altered.list_launch = list_launch;
    altered.event_record = event_record;
    altered.event_wait = event_wait;
    altered.event_sync = event_sync;
    altered.stream_wait = stream_wait;
    device->api = &altered;
}

void faults_arm(enum fault fault, uint64_t n) {
    armed = fault;
    left = n;
}

bool faults_disarm(void) {
    bool struck = left == 0;
    left = 0;
    return struck;
}
