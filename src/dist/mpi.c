/*
 * Groups over MPI; see mpi.h. Ranks exchange messages in pairs, of which each phase takes one or two for each pair, and
 * wait by testing: so it is known which rank is late, and a wait can end. Messages come from and go to buffers of the
 * seat's own. After a failure some may still be under way, and their buffers stay MPI's for ever.
 *
 * All calls of MPI come from one thread at a time (MPI_THREAD_SERIALIZED), or from the thread that initialised it where
 * the library has no more than that.
 */
#define _GNU_SOURCE
#include "dist/mpi.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "dist/mpi_library.h"
#include "dist/phases.h"

/* Tests before a rank that waits yields its processor, and the least time before it looks at the clock. */
#define TESTS 200
enum { TAG_HEAD = 1, TAG_DATA, TAG_PAIR };

/* Before the data of every phase. */
struct head {
    uint64_t signature;
    uint32_t failed; /* 1: the rank has failed, and `text` says why; else it is the call's label */
    uint32_t kind;
    char text[240];
};

/* A head, and the data behind it. */
struct message {
    struct head head;
    char data[IG_PHASE_BYTES];
};

struct mpi_group {
    struct ig_group base;
    const struct ig_mpi_library *mpi;
    ig_mpi_handle comm;
    struct message *own, *others; /* others: by rank */
    struct head last_words;
    unsigned long long calls;
};

/* A message under way. */
struct transfer {
    ig_mpi_handle request;
    uint32_t rank; /* the other end */
    bool done;
};

/* Of the process: has a group failed, so that MPI_Finalize would wait for ever? */
static atomic_bool is_broken;

/* ---- Waiting ----------------------------------------------------------------------------------------------------- */

static enum ingot_status say_code(const struct mpi_group *group, const char *what, int code,
                                  struct ingot_error *error) {
    char text[1024] = "";
    int length;
    if (group->mpi->Error_string(code, text, &length) != 0) snprintf(text, sizeof text, "error %d", code);
    return IG_ERR(error, INGOT_DEVICE, "%s over %s: %.300s", what, group->mpi->version, text);
}

static enum ingot_status say_late(const struct mpi_group *group, const struct ig_collective_call *call, uint32_t rank,
                                  struct ingot_error *error) {
    return IG_ERR(error, INGOT_TIMEOUT, "%s '%s' (call %llu): rank %u waited %.3g s for rank %u over %s",
                  ig_collective_name(call->what.kind), call->label, group->calls, group->base.rank,
                  (double)group->base.limit / 1e9, rank, group->mpi->version);
}

/* Waits for all of them. */
static enum ingot_status finish(struct mpi_group *group, struct transfer *transfers, uint32_t count,
                                const struct ig_collective_call *call, struct ingot_error *error) {
    uint64_t begin = 0;
    uint32_t open = count;
    for (unsigned tests = 0; open > 0; tests++) {
        uint32_t late = 0;
        for (uint32_t i = 0; i < count; i++) {
            _Alignas(16) char status[64];
            int flag = 0;
            if (transfers[i].done) continue;
            int code = group->mpi->Test(&transfers[i].request, &flag, status);
            if (code != 0) return say_code(group, call->label, code, error);
            transfers[i].done = flag;
            if (flag)
                open--;
            else
                late = transfers[i].rank;
        }
        if (open == 0 || tests < TESTS) continue;
        if (!begin) begin = ig_clock();
        if (ig_clock() - begin > group->base.limit) return say_late(group, call, late, error);
        if (call->stop && ig_stop_asked(call->stop))
            return IG_ERR(error, INGOT_CANCELLED, "%s '%s': rank %u was stopped", ig_collective_name(call->what.kind),
                          call->label, group->base.rank);
        sched_yield();
    }
    return INGOT_OK;
}

static enum ingot_status post_send(struct mpi_group *group, const void *data, size_t size, uint32_t to, int tag,
                                   struct transfer *out, struct ingot_error *error) {
    *out = (struct transfer){.rank = to};
    int code = group->mpi->Isend(data, (int)size, group->mpi->byte, (int)to, tag, group->comm, &out->request);
    return code == 0 ? INGOT_OK : say_code(group, "MPI_Isend", code, error);
}

static enum ingot_status post_receive(struct mpi_group *group, void *data, size_t size, uint32_t from, int tag,
                                      struct transfer *out, struct ingot_error *error) {
    *out = (struct transfer){.rank = from};
    int code = group->mpi->Irecv(data, (int)size, group->mpi->byte, (int)from, tag, group->comm, &out->request);
    return code == 0 ? INGOT_OK : say_code(group, "MPI_Irecv", code, error);
}

/* ---- Phases ------------------------------------------------------------------------------------------------------ */

static void fill_head(struct head *head, const struct ig_collective_call *call, uint64_t signature) {
    head->signature = signature;
    head->failed = 0;
    head->kind = call->what.kind;
    snprintf(head->text, sizeof head->text, "%s", call->label);
}

static enum ingot_status check_head(const struct mpi_group *group, struct head *head, uint32_t rank,
                                    const struct ig_collective_call *call, uint64_t signature,
                                    struct ingot_error *error) {
    head->text[sizeof head->text - 1] = '\0';
    if (head->failed)
        return IG_ERR(error, INGOT_DEVICE, "%s '%s': rank %u ended the group: %s", ig_collective_name(call->what.kind),
                      call->label, rank, head->text);
    if (head->signature == signature) return INGOT_OK;
    return IG_ERR(error, INGOT_INCOMPATIBLE,
                  "ranks do different things: rank %u is at %s '%s' (call %llu), rank %u at %s '%s'; all must make the "
                  "same calls, of the same sizes and types, in the same order",
                  group->base.rank, ig_collective_name(call->what.kind), call->label, group->calls, rank,
                  ig_collective_name(head->kind), head->text);
}

/* What rank r is given, from the phase's data on. */
static size_t size_for(const struct ig_phase *phase, uint32_t r) {
    size_t begin = r * phase->stride;
    if (begin >= IG_PHASE_BYTES) return 0;
    return phase->size < IG_PHASE_BYTES - begin ? phase->size : IG_PHASE_BYTES - begin;
}

/* Heads, and behind them what all are given. */
static enum ingot_status exchange_heads(struct mpi_group *group, const struct ig_phase *phase,
                                        struct ingot_error *error) {
    const uint32_t rank = group->base.rank, ranks = group->base.ranks;
    const size_t size = sizeof(struct head) + (phase->stride ? 0 : phase->size);
    struct transfer transfers[2 * IG_MOST_RANKS];
    uint32_t count = 0;
    for (uint32_t r = 0; r < ranks; r++)
        if (r != rank)
            IG_TRY(
                post_receive(group, &group->others[r], sizeof *group->others, r, TAG_HEAD, &transfers[count++], error));
    for (uint32_t r = 0; r < ranks; r++)
        if (r != rank) IG_TRY(post_send(group, group->own, size, r, TAG_HEAD, &transfers[count++], error));
    IG_TRY(finish(group, transfers, count, phase->call, error));
    for (uint32_t r = 0; r < ranks; r++)
        if (r != rank) IG_TRY(check_head(group, &group->others[r].head, r, phase->call, phase->signature, error));
    return INGOT_OK;
}

/* What each is given. */
static enum ingot_status exchange_pieces(struct mpi_group *group, const struct ig_phase *phase,
                                         struct ingot_error *error) {
    const uint32_t rank = group->base.rank, ranks = group->base.ranks;
    struct transfer transfers[2 * IG_MOST_RANKS];
    uint32_t count = 0;
    for (uint32_t r = 0; r < ranks; r++)
        if (r != rank)
            IG_TRY(post_receive(group, group->others[r].data, IG_PHASE_BYTES, r, TAG_DATA, &transfers[count++], error));
    for (uint32_t r = 0; r < ranks; r++)
        if (r != rank)
            IG_TRY(post_send(group, group->own->data + (size_for(phase, r) ? r * phase->stride : 0), size_for(phase, r),
                             r, TAG_DATA, &transfers[count++], error));
    return finish(group, transfers, count, phase->call, error);
}

static char *next(struct ig_group *base) {
    return ((struct mpi_group *)base)->own->data;
}

static enum ingot_status meet(struct ig_group *base, const struct ig_phase *phase, struct ingot_error *error) {
    struct mpi_group *group = (struct mpi_group *)base;
    fill_head(&group->own->head, phase->call, phase->signature);
    IG_TRY(exchange_heads(group, phase, error));
    return phase->stride ? exchange_pieces(group, phase, error) : INGOT_OK;
}

/* Of a piece, its beginning is what came, wherever it lay in the sender's memory. */
static const char *from(const struct ig_group *base, uint32_t rank, size_t at) {
    const struct mpi_group *group = (const struct mpi_group *)base;
    return rank == base->rank ? group->own->data + at : group->others[rank].data;
}

static const struct ig_phases_api phases = {next, meet, from};

/* ---- Pairs ------------------------------------------------------------------------------------------------------- */

static enum ingot_status send(struct mpi_group *group, const struct ig_collective_call *call, uint64_t signature,
                              size_t size, struct ingot_error *error) {
    struct transfer transfer;
    for (size_t at = 0; at < size; at += IG_PHASE_BYTES) {
        size_t n = size - at < IG_PHASE_BYTES ? size - at : IG_PHASE_BYTES;
        fill_head(&group->own->head, call, signature);
        memcpy(group->own->data, (const char *)call->source + at, n);
        IG_TRY(post_send(group, group->own, sizeof(struct head) + n, call->what.peer, TAG_PAIR, &transfer, error));
        IG_TRY(finish(group, &transfer, 1, call, error));
    }
    return INGOT_OK;
}

static enum ingot_status receive(struct mpi_group *group, const struct ig_collective_call *call, uint64_t signature,
                                 size_t size, struct ingot_error *error) {
    const uint32_t peer = call->what.peer;
    struct transfer transfer;
    for (size_t at = 0; at < size; at += IG_PHASE_BYTES) {
        size_t n = size - at < IG_PHASE_BYTES ? size - at : IG_PHASE_BYTES;
        IG_TRY(post_receive(group, &group->others[peer], sizeof *group->others, peer, TAG_PAIR, &transfer, error));
        IG_TRY(finish(group, &transfer, 1, call, error));
        IG_TRY(check_head(group, &group->others[peer].head, peer, call, signature, error));
        memcpy((char *)call->destination + at, group->others[peer].data, n);
    }
    return INGOT_OK;
}

/* ---- Groups ------------------------------------------------------------------------------------------------------ */

static enum ingot_status check_thread(const struct mpi_group *group, struct ingot_error *error) {
    int level = 0, is_main = 0;
    if (group->mpi->Query_thread(&level) == 0 && level >= IG_MPI_SERIALIZED) return INGOT_OK;
    if (group->mpi->Is_thread_main(&is_main) == 0 && is_main) return INGOT_OK;
    return IG_ERR(error, INGOT_INVALID_ARGUMENT,
                  "%s was initialised for calls from one thread, and this is another: run where MPI was initialised",
                  group->mpi->version);
}

static enum ingot_status call(struct ig_group *base, const struct ig_collective_call *call, uint64_t signature,
                              struct ingot_error *error) {
    struct mpi_group *group = (struct mpi_group *)base;
    const size_t size = ig_sizes_block(call->sizes) * ingot_dtype_size((enum ingot_dtype)call->what.dtype);
    group->calls++;
    IG_TRY(check_thread(group, error));
    if (call->what.kind == IG_SEND) return send(group, call, signature, size, error);
    if (call->what.kind == IG_RECEIVE) return receive(group, call, signature, size, error);
    return ig_phases_call(base, &phases, call, signature, error);
}

/* Those who wait for a head get these. Nobody waits for the messages to leave. */
static void fail(struct ig_group *base, const char *reason) {
    struct mpi_group *group = (struct mpi_group *)base;
    struct ingot_error ignored;
    struct transfer transfer;
    atomic_store(&is_broken, true);
    group->last_words = (struct head){.failed = 1};
    snprintf(group->last_words.text, sizeof group->last_words.text, "%s", reason);
    for (uint32_t r = 0; r < base->ranks; r++)
        if (r != base->rank)
            (void)post_send(group, &group->last_words, sizeof group->last_words, r, TAG_HEAD, &transfer, &ignored);
}

static size_t buffers_size(uint32_t ranks) {
    return (1 + (size_t)ranks) * sizeof(struct message);
}

static void destroy(struct ig_group *base) {
    struct mpi_group *group = (struct mpi_group *)base;
    int finalized = 0;
    if (base->failure.status != INGOT_OK) return; /* its memory is MPI's */
    if (group->mpi->Finalized(&finalized) == 0 && !finalized) group->mpi->Comm_free(&group->comm);
    ig_release(base->allocator, group->own, buffers_size(base->ranks));
    ig_release(base->allocator, group, sizeof *group);
}

static size_t bytes_of(const struct ig_group *base) {
    return buffers_size(base->ranks);
}

static const struct ig_group_api api = {.destroy = destroy, .call = call, .bytes = bytes_of, .fail = fail};

/* ---- Joining ----------------------------------------------------------------------------------------------------- */

static const struct ig_mpi_library *finalizes;

static void finalize(void) {
    int finalized = 0;
    if (atomic_load(&is_broken) || finalizes->Finalized(&finalized) != 0 || finalized) return;
    finalizes->Finalize();
}

/* Once in a process, if nobody else has. */
static enum ingot_status initialize(const struct ig_mpi_library *mpi, struct ingot_error *error) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    int is_initialized = 0, finalized = 0, level = 0, code = 0;
    pthread_mutex_lock(&mutex);
    code = mpi->Initialized(&is_initialized);
    if (code == 0) code = mpi->Finalized(&finalized);
    if (code == 0 && !is_initialized && !finalized) {
        code = mpi->Init_thread(NULL, NULL, IG_MPI_SERIALIZED, &level);
        finalizes = mpi;
        if (code == 0) atexit(finalize);
    }
    pthread_mutex_unlock(&mutex);
    if (finalized) return IG_ERR(error, INGOT_DEVICE, "%s has been finalised in this process", mpi->version);
    return code == 0 ? INGOT_OK : IG_ERR(error, INGOT_DEVICE, "%s cannot be initialised: %d", mpi->version, code);
}

/* The library of another launcher takes each process for the only one. */
static enum ingot_status compare_place(const struct ig_mpi_library *mpi, const struct ig_place *place,
                                       struct ingot_error *error) {
    int rank = -1, ranks = -1;
    if (mpi->Comm_rank(mpi->world, &rank) == 0 && mpi->Comm_size(mpi->world, &ranks) == 0 && rank == (int)place->rank &&
        ranks == (int)place->ranks)
        return INGOT_OK;
    return IG_ERR(
        error, INGOT_INCOMPATIBLE,
        "%s started rank %u of %u, which %s takes for rank %d of %d: the library and the launcher must belong "
        "together",
        place->launcher, place->rank, place->ranks, mpi->version, rank, ranks);
}

/* A communicator of the group's own, so that no other messages get between. */
static enum ingot_status make_comm(struct mpi_group *group, struct ingot_error *error) {
    const struct ig_collective_call call = {.what = {.kind = IG_ALL_GATHER}, .label = "the beginning of a group"};
    struct transfer transfer = {0};
    int code = group->mpi->Comm_idup(group->mpi->world, &group->comm, &transfer.request);
    if (code != 0) return say_code(group, "MPI_Comm_idup", code, error);
    for (uint32_t r = 0; r < group->base.ranks; r++)
        if (r != group->base.rank) transfer.rank = r;
    IG_TRY(finish(group, &transfer, 1, &call, error));
    code = group->mpi->Comm_set_errhandler(group->comm, group->mpi->errors_return);
    return code == 0 ? INGOT_OK : say_code(group, "MPI_Comm_set_errhandler", code, error);
}

static enum ingot_status make_group(struct mpi_group *group, struct ingot_error *error) {
    group->own = ig_allocate(group->base.allocator, buffers_size(group->base.ranks), 64);
    if (!group->own)
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a group of %u ranks", group->base.ranks);
    group->others = group->own + 1;
    snprintf(group->base.transport, sizeof group->base.transport, "MPI (%s)", group->mpi->version);
    return make_comm(group, error);
}

enum ingot_status ig_mpi_join(const struct ig_place *place, const struct ig_group_options *options, const char *library,
                              struct ig_group **out_seat, struct ingot_error *error) {
    const struct ig_mpi_library *mpi;
    IG_TRY(ig_mpi_load(library, place->launcher, &mpi, error));
    IG_TRY(initialize(mpi, error));
    IG_TRY(compare_place(mpi, place, error));
    const struct ingot_allocator *allocator = options && options->allocator ? options->allocator : &ig_libc_allocator;
    struct mpi_group *group = ig_allocate(allocator, sizeof *group, _Alignof(struct mpi_group));
    if (!group) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a group of %u ranks", place->ranks);
    ig_group_init(&group->base, &api, place->rank, place->ranks, options);
    group->mpi = mpi;
    if (place->local_ranks) group->base.neighbours = place->local_ranks;
    enum ingot_status status = make_group(group, error);
    if (status != INGOT_OK) {
        atomic_store(&is_broken, true); /* what was begun stays MPI's */
        return status;
    }
    status = ig_group_agree(&group->base, INGOT_VERSION, sizeof INGOT_VERSION, "version of Ingot", error);
    if (status == INGOT_OK)
        *out_seat = &group->base;
    else
        ig_group_destroy(&group->base);
    return status;
}
