/*
 * The way of inputs to a device that has memory of its own, and of results back.
 *
 * Inputs from the host's memory lie in one block of the device, and at the same places in pinned memory of the host, from
 * where the device fetches them by itself. What small networks take is fetched in one copy, which is work of the run like
 * its kernels. Of more, the host copies piece after piece, and while it copies one, the last one is under way. The pinned
 * memory of inputs is there twice, so that a run's can be written while the last run's are under way.
 *
 * Where inputs are large, several threads of the host copy them; they go their way on a stream of their own, beside the
 * work of the run before, to memory of their own that is there twice too. Large results leave like that, while the next run
 * is computed, where a run is enqueued behind two that may be under way (a way of their own costs the host several calls); and
 * where the caller wants them in other memory, they come in parts, of which the host copies one while the next is under way.
 */
#ifndef IG_RUNTIME_TRANSFER_H
#define IG_RUNTIME_TRANSFER_H

#include "device/device.h"
#include "runtime/copier.h"

/* What is fetched in one copy, at most. */
#define IG_TRANSFER_SMALL ((size_t)1 << 20)
/* From which size on a transfer pays for calls and threads of its own. */
#define IG_TRANSFER_LARGE ((size_t)2 << 20)
/* In how many parts large results come at most. */
enum { IG_TRANSFER_PARTS = 8 };

/* What a run needs of each. */
struct ig_transfer_sizes {
    size_t inputs, outputs;               /* of the device's blocks */
    size_t pinned_inputs, pinned_outputs; /* of the parts of them that come from and go to the host */
    bool inputs_at_once; /* inputs from the host are fetched in one copy, which is the caller's to make */
    bool inputs_beside;  /* they come on a stream of their own */
    size_t host_outputs; /* of what comes to the host in one way or another */
    bool outputs_beside; /* that has memory of its own and may leave on a stream of its own */
    bool outputs_in_parts;
};

struct ig_transfer {
    struct ig_device *device;
    unsigned threads;       /* that copy */
    char *inputs, *outputs; /* blocks of the device */
    size_t inputs_size, outputs_size;
    char *inputs_twice, *outputs_twice; /* what comes and leaves on streams of its own */
    size_t inputs_twice_size, outputs_twice_size;
    char *pinned_inputs, *pinned_outputs;
    size_t pinned_inputs_size, pinned_outputs_size;
    unsigned half;              /* of the inputs that is written now */
    size_t written, on_the_way; /* bytes of it */
    /* What follows is there once something large was on its way. */
    struct ig_copier *copier;
    struct ig_stream *beside;
    struct ig_event *arrived; /* the inputs that came on it */
    struct ig_stream *away;
    struct ig_event *computed;                 /* the results that leave on it */
    struct ig_event *left[2];                  /* by half: they are where they were wanted */
    unsigned last_left;                        /* the last half that results left from */
    bool leaving;                              /* some may be on their way */
    const char *leaving_from, *leaving_to;     /* between which all those go */
    struct ig_event *parts[IG_TRANSFER_PARTS]; /* of results */
    size_t part_bytes;                         /* of those under way; 0: none are */
};

/* `threads`: as many as may copy what is large, the caller's included. */
void ig_transfer_init(struct ig_transfer *transfer, struct ig_device *device, unsigned threads);
void ig_transfer_deinit(struct ig_transfer *transfer);

bool ig_transfer_has_room(const struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes);
/* Grows to these sizes; nothing may be under way. What was in memory that grows is lost, and its address changes. */
enum ingot_status ig_transfer_reserve(struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes,
                                      struct ingot_error *error);

/* Chooses the half for the next run: `busy` says whether the last run may be under way, and its half in use. */
void ig_transfer_choose_half(struct ig_transfer *transfer, bool busy);
/* That half, of the pinned memory. */
char *ig_transfer_pinned(const struct ig_transfer *transfer);
/* Where the device has what comes from the host and lies at `place`. */
char *ig_transfer_input(const struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes, size_t place);

/* Inputs: begin, when no run uses the chosen half any more; put those from the host in the order of their places; end.
 * What is put on `stream` then finds them on the device. */
void ig_transfer_begin(struct ig_transfer *transfer);
enum ingot_status ig_transfer_put(struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes,
                                  struct ig_stream *stream, size_t place, const void *data, size_t bytes,
                                  struct ingot_error *error);
enum ingot_status ig_transfer_end(struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes,
                                  struct ig_stream *stream, struct ingot_error *error);
/* Waits for what may be on its way on streams of its own. */
void ig_transfer_settle(struct ig_transfer *transfer);

/* Where the device has the results that come to the host and lie at `place`. */
char *ig_transfer_output(const struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes, size_t place);
/* Before a run is computed: puts `stream` behind results of other runs that are leaving, where they are in its way; behind
 * all of them with `all`. */
enum ingot_status ig_transfer_follow(struct ig_transfer *transfer, struct ig_stream *stream, bool all,
                                     struct ingot_error *error);
/* Do results that may be leaving go to this memory? True at times where they do not. */
bool ig_transfer_leaves_to(const struct ig_transfer *transfer, const void *memory, size_t bytes);
/* Results that leave on a stream of their own: begin behind the work of `stream`, say what goes where, end. */
enum ingot_status ig_transfer_begin_leaving(struct ig_transfer *transfer, struct ig_stream *stream,
                                            struct ingot_error *error);
enum ingot_status ig_transfer_leave(struct ig_transfer *transfer, void *to, const void *from, size_t bytes,
                                    struct ingot_error *error);
enum ingot_status ig_transfer_end_leaving(struct ig_transfer *transfer, struct ingot_error *error);
/* The host has waited for the last run. */
void ig_transfer_has_left(struct ig_transfer *transfer);
/* Results that come in parts: enqueues their way to the pinned block; then copies what lies there at `place`, as it comes. */
enum ingot_status ig_transfer_fetch_parts(struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes,
                                          struct ig_stream *stream, struct ingot_error *error);
enum ingot_status ig_transfer_deliver(struct ig_transfer *transfer, size_t place, void *to, size_t bytes,
                                      struct ingot_error *error);

/* Of the device and the host. */
size_t ig_transfer_bytes(const struct ig_transfer *transfer);

/* Makes device memory (or pinned memory of the host) at least `needed` bytes large; what was in it is lost. */
enum ingot_status ig_device_grow(struct ig_device *device, bool pinned, size_t needed, void **memory, size_t *size,
                                 struct ingot_error *error);

#endif
