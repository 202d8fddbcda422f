/*
 * Opens windows: memory of each GPU (device/device.h, allocate_shared), passed on to the other ranks as file descriptors,
 * which serve threads of one process and processes of one host alike. GPUs say that they reach each other's memory where
 * they do not, so each rank writes to every window and looks what has come into its own, before any kernel waits for that.
 */
#include "dist/windows.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dist/group.h"

#define PIECE ((size_t)1 << 20)       /* of zeros, copied at a time */
#define MOST_BYTES ((size_t)64 << 20) /* of a window */
enum { LABEL = 64 };

struct name {
    char text[LABEL];
};

struct ig_windows {
    const struct ingot_allocator *allocator;
    struct ig_device *device;
    struct ig_stream *stream;
    uint32_t rank, ranks;
    uint64_t patience;
    size_t size;                     /* of a window */
    void *at[IG_MOST_RANKS];         /* windows, as this GPU reaches them */
    void *seat;                      /* in its memory */
    struct ig_window_report *report; /* pinned; with room for a seat and a word behind it */
    char *zeros;                     /* pinned */
    struct name *names;
    uint32_t n_names;
    /* If calls are split: the host's seat; two events of each rank, which it records in turn; and how often it did. */
    struct ig_group *host;
    bool is_split;
    struct ig_event *events[IG_MOST_RANKS][2];
    uint32_t meetings;
};

/* ---- Agreement --------------------------------------------------------------------------------------------------- */

/* What a rank says after each step: whether it is well, or why not. */
struct word {
    uint32_t is_well;
    char reason[IG_WINDOWS_REASON_SIZE - 4];
};

/* Is everybody well? If not, out_reason is the first one's. */
static enum ingot_status hear(struct ig_group *host, enum ingot_status status, const struct ingot_error *failure,
                              bool *out_well, char *out_reason, struct ingot_error *error) {
    struct word mine = {.is_well = status == INGOT_OK}, all[IG_MOST_RANKS];
    const uint32_t ranks = ig_group_ranks(host);
    if (!mine.is_well)
        snprintf(mine.reason, sizeof mine.reason, "rank %u: %.200s", ig_group_rank(host), failure->message);
    IG_TRY(ig_group_gather(host, &mine, sizeof mine, all, "windows", error));
    *out_well = true;
    for (uint32_t r = 0; r < ranks && *out_well; r++) {
        if (all[r].is_well) continue;
        *out_well = false;
        all[r].reason[sizeof all[r].reason - 1] = '\0';
        snprintf(out_reason, IG_WINDOWS_REASON_SIZE, "%s", all[r].reason);
    }
    return INGOT_OK;
}

/* ---- Meetings of split calls -------------------------------------------------------------------------------------- */

static enum ingot_status make_events(struct ig_windows *w, struct ingot_error *error) {
    for (int i = 0; i < 2 && w->is_split; i++)
        IG_TRY(w->device->api->event_create(w->device, false, &w->events[w->rank][i], error));
    return INGOT_OK;
}

/* Ranks are threads, so that an event's address is good for all. */
static enum ingot_status share_events(struct ig_windows *w, struct ingot_error *error) {
    struct ig_event *own[2] = {w->events[w->rank][0], w->events[w->rank][1]};
    return w->is_split ? ig_group_gather(w->host, own, sizeof own, w->events, "the events of shared GPUs", error)
                       : INGOT_OK;
}

/* A rank records an event again at the next meeting but one: by then all have waited for it as it was. */
enum ingot_status ig_windows_meet(struct ig_windows *w, struct ig_stream *stream, struct ingot_error *error) {
    const struct ig_device_api *api = w->device->api;
    const uint32_t which = w->meetings++ % 2;
    IG_TRY(api->event_record(w->device, stream, w->events[w->rank][which], error));
    IG_TRY(ig_group_barrier(w->host, "a call between ranks that share GPUs", error));
    for (uint32_t r = 0; r < w->ranks; r++)
        if (r != w->rank) IG_TRY(api->event_wait(w->device, stream, w->events[r][which], error));
    return INGOT_OK;
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static enum ingot_status copy(struct ig_windows *w, void *to, const void *from, size_t size,
                              struct ingot_error *error) {
    IG_TRY(w->device->api->copy(w->device, w->stream, to, from, size, error));
    return w->device->api->stream_wait(w->device, w->stream, error);
}

static enum ingot_status clear(struct ig_windows *w, struct ingot_error *error) {
    char *own = w->at[w->rank];
    for (size_t at = 0; at < w->size; at += PIECE)
        IG_TRY(w->device->api->copy(w->device, w->stream, own + at, w->zeros,
                                    w->size - at < PIECE ? w->size - at : PIECE, error));
    return w->device->api->stream_wait(w->device, w->stream, error);
}

static enum ingot_status fill_seat(struct ig_windows *w, struct ingot_error *error) {
    struct ig_window_seat *seat = (struct ig_window_seat *)(w->report + 1);
    *seat = (struct ig_window_seat){
        .report = (uint64_t)(uintptr_t)w->report, .patience = w->patience, .rank = w->rank, .is_split = w->is_split};
    for (int b = 0; b < IG_WINDOW_HEADERS; b++)
        seat->epochs[b] = IG_WINDOW_FIRST_EPOCH;
    for (uint32_t r = 0; r < w->ranks; r++)
        seat->windows[r] = (uint64_t)(uintptr_t)w->at[r];
    *w->report = (struct ig_window_report){.state = IG_WINDOW_WELL};
    return copy(w, w->seat, seat, sizeof *seat, error);
}

#define PINNED (sizeof(struct ig_window_report) + sizeof(struct ig_window_seat) + sizeof(uint64_t))

/* This rank's own part; *out_file: the window's descriptor, the caller's. */
static enum ingot_status allocate(struct ig_windows *w, int *out_file, struct ingot_error *error) {
    const struct ig_device_api *api = w->device->api;
    if (!api->allocate_shared)
        return IG_ERR(error, INGOT_UNSUPPORTED, "a device of this kind has no memory that others could write to");
    if (w->size > MOST_BYTES)
        return IG_ERR(error, INGOT_UNSUPPORTED, "windows for %u ranks would take more than %zu bytes", w->ranks,
                      MOST_BYTES);
    IG_TRY(api->stream_create(w->device, &w->stream, error));
    IG_TRY(api->allocate_host(w->device, PINNED, (void **)&w->report, error));
    IG_TRY(api->allocate_host(w->device, PIECE, (void **)&w->zeros, error));
    memset(w->zeros, 0, PIECE);
    IG_TRY(api->allocate(w->device, sizeof(struct ig_window_seat), &w->seat, error));
    IG_TRY(api->allocate_shared(w->device, w->size, &w->at[w->rank], error));
    IG_TRY(clear(w, error));
    IG_TRY(make_events(w, error));
    return api->export_shared(w->device, w->at[w->rank], out_file, error);
}

static enum ingot_status import(struct ig_windows *w, const int *files, struct ingot_error *error) {
    for (uint32_t r = 0; r < w->ranks; r++)
        if (r != w->rank) IG_TRY(w->device->api->import_shared(w->device, files[r], w->size, &w->at[r], error));
    return fill_seat(w, error);
}

void ig_windows_close(struct ig_windows *w) {
    if (!w) return;
    const struct ig_device_api *api = w->device->api;
    for (uint32_t r = 0; r < w->ranks; r++)
        if (w->at[r]) api->release_shared(w->device, w->at[r], w->size);
    for (int i = 0; i < 2; i++)
        if (w->events[w->rank][i]) api->event_destroy(w->device, w->events[w->rank][i]);
    if (w->seat) api->release(w->device, w->seat, sizeof(struct ig_window_seat));
    if (w->zeros) api->release_host(w->device, w->zeros, PIECE);
    if (w->report) api->release_host(w->device, w->report, PINNED);
    if (w->stream) api->stream_destroy(w->device, w->stream);
    ig_release(w->allocator, w->names, w->n_names * sizeof *w->names);
    ig_device_release(w->device);
    ig_release(w->allocator, w, sizeof *w);
}

/* ---- Proof ------------------------------------------------------------------------------------------------------- */

static char *header_at(const struct ig_windows *w, uint32_t owner, uint32_t sender) {
    return (char *)w->at[owner] + (size_t)sender * IG_WINDOW_SLOT;
}

/* Another number for each pair of ranks, and none that memory has by chance. */
static uint64_t sign(uint32_t owner, uint32_t sender) {
    return 0x696e676f74000000u + owner * 251u + sender;
}

static uint64_t *pinned_word(const struct ig_windows *w) {
    return (uint64_t *)(void *)((char *)w->report + PINNED - sizeof(uint64_t));
}

static enum ingot_status write_signs(struct ig_windows *w, struct ingot_error *error) {
    for (uint32_t r = 0; r < w->ranks; r++) {
        *pinned_word(w) = sign(r, w->rank);
        IG_TRY(copy(w, header_at(w, r, w->rank), pinned_word(w), sizeof(uint64_t), error));
    }
    return INGOT_OK;
}

static enum ingot_status read_signs(struct ig_windows *w, struct ingot_error *error) {
    for (uint32_t r = 0; r < w->ranks; r++) {
        IG_TRY(copy(w, pinned_word(w), header_at(w, w->rank, r), sizeof(uint64_t), error));
        if (*pinned_word(w) != sign(w->rank, r))
            return IG_ERR(error, INGOT_DEVICE, "what rank %u wrote to this GPU's memory did not come", r);
    }
    return clear(w, error);
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

/* A step of this rank's and what all say of it. Goes on only where all are well. */
#define STEP(call)                                                         \
    do {                                                                   \
        status = (call);                                                   \
        IG_TRY(hear(host, status, &failure, out_well, out_reason, error)); \
        if (!*out_well) return INGOT_OK;                                   \
    } while (0)

static enum ingot_status open_all(struct ig_windows *w, struct ig_group *host, int *own, int *files, bool *out_well,
                                  char *out_reason, struct ingot_error *error) {
    struct ingot_error failure;
    enum ingot_status status;
    STEP(allocate(w, own, &failure));
    STEP(host->api->share_files ? host->api->share_files(host, *own, files, &failure)
                                : IG_ERR(&failure, INGOT_UNSUPPORTED, "the ranks are on several hosts"));
    STEP(import(w, files, &failure));
    STEP(write_signs(w, &failure));
    STEP(read_signs(w, &failure));
    return share_events(w, error);
}

enum ingot_status ig_windows_open(struct ig_group *host, struct ig_device *device, bool is_split,
                                  struct ig_windows **out_windows, char out_reason[IG_WINDOWS_REASON_SIZE],
                                  struct ingot_error *error) {
    int own = -1, files[IG_MOST_RANKS];
    bool well = false;
    *out_windows = NULL;
    struct ig_windows *w = ig_allocate(host->allocator, sizeof *w, _Alignof(struct ig_windows));
    if (!w) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for the windows of a group of GPUs");
    w->allocator = host->allocator;
    w->device = device;
    w->host = host;
    w->is_split = is_split;
    ig_device_retain(device);
    w->rank = ig_group_rank(host);
    w->ranks = ig_group_ranks(host);
    /* Less than the limit, so that kernels say who is missing before the host only knows that somebody is. */
    w->patience = is_split ? 0 : ig_group_limit(host) / 10 * 9; /* of split calls, no kernel has to wait */
    w->size = ig_window_bytes(w->ranks);
    for (uint32_t r = 0; r < IG_MOST_RANKS; r++)
        files[r] = -1;
    enum ingot_status status = open_all(w, host, &own, files, &well, out_reason, error);
    if (own >= 0) close(own);
    for (uint32_t r = 0; r < w->ranks; r++)
        if (files[r] >= 0) close(files[r]);
    if (status == INGOT_OK && well)
        *out_windows = w;
    else
        ig_windows_close(w);
    return status;
}

size_t ig_windows_bytes(uint32_t ranks) {
    const size_t window = ig_window_bytes(ranks);
    return window > MOST_BYTES ? 0 : window + sizeof(struct ig_window_seat);
}

void *ig_windows_seat(const struct ig_windows *w) {
    return w->seat;
}

enum ingot_status ig_windows_renew(struct ig_windows *w, struct ingot_error *error) {
    w->meetings = 0; /* some ranks may not have come to the last one */
    IG_TRY(clear(w, error));
    return fill_seat(w, error);
}

/* ---- Failures ---------------------------------------------------------------------------------------------------- */

enum ingot_status ig_windows_name(struct ig_windows *w, uint32_t number, const char *label, struct ingot_error *error) {
    if (number >= w->n_names) {
        const uint32_t count = 2 * number + 16;
        struct name *names = ig_allocate(w->allocator, count * sizeof *names, 1);
        if (!names) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for the names of collectives");
        if (w->n_names) memcpy(names, w->names, w->n_names * sizeof *names);
        ig_release(w->allocator, w->names, w->n_names * sizeof *names);
        w->names = names;
        w->n_names = count;
    }
    snprintf(w->names[number].text, LABEL, "%s", label);
    return INGOT_OK;
}

static const char *name_of(const struct ig_windows *w, uint32_t number) {
    return number < w->n_names ? w->names[number].text : "";
}

enum ingot_status ig_windows_look(const struct ig_windows *w, struct ingot_error *error) {
    volatile const struct ig_window_report *r = w->report;
    const uint32_t state = r->state;
    atomic_thread_fence(memory_order_acquire);
    if (state == IG_WINDOW_LATE)
        return IG_ERR(error, INGOT_TIMEOUT, "collective %u, '%s': rank %u waited %.3g s for rank %u", r->number,
                      name_of(w, r->number), w->rank, (double)w->patience / 1e9, r->peer);
    if (state == IG_WINDOW_DIFFERENT)
        return IG_ERR(error, INGOT_INCOMPATIBLE,
                      "ranks do different things: rank %u is at collective %u, '%s', rank %u at collective %u, '%s'%s",
                      w->rank, r->number, name_of(w, r->number), r->peer, r->other_number, name_of(w, r->other_number),
                      r->number == r->other_number ? ", of other sizes" : "");
    return INGOT_OK;
}

void ig_windows_stop(struct ig_windows *w) {
    *(volatile uint32_t *)&w->report->stop = 1;
}
