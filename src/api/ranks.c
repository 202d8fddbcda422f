/* Threads for ranks; see ranks.h. */
#define _GNU_SOURCE
#include "api/ranks.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"
#include "base/stop.h"
#include "dist/nccl.h"

/* How long a thread looks for the next task, or for the end of this one, before it sleeps. */
#define AWAKE 1000000u /* nanoseconds */

/* A number that one thread increases and another one waits for. */
struct turn {
    _Alignas(128) atomic_uint number;
    atomic_uint asleep;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
};

struct member {
    struct ig_ranks *ranks;
    struct ig_group *seat;
    struct ig_device *device; /* NULL: rank 0's, which is the caller's */
    struct ig_device *used;   /* by its context */
    struct ig_context *context;
    pthread_t thread;
    bool is_started;
    struct turn begun, ended; /* tasks */
    enum ingot_status status;
    struct ingot_error error;
};

/* What all ranks do at once. */
enum task { OPEN_WINDOWS, ENQUEUE, AWAIT, WAIT, RUN, FINISH, STOP };

struct ig_ranks {
    const struct ingot_allocator *allocator;
    uint32_t count;
    bool gpus, under_way; /* under_way: nobody has waited for the last run */
    unsigned turns;
    enum task task;        /* of the last turn */
    const double *seconds; /* WAIT: the longest; NULL: as the contexts are told */
    struct member members[];
};

/* ---- Turns ------------------------------------------------------------------------------------------------------- */

static void turn_init(struct turn *turn) {
    pthread_mutex_init(&turn->mutex, NULL);
    pthread_cond_init(&turn->changed, NULL);
}

static void turn_deinit(struct turn *turn) {
    pthread_mutex_destroy(&turn->mutex);
    pthread_cond_destroy(&turn->changed);
}

/* Sequentially consistent: either who waits sees the number before it sleeps, or this sees that it sleeps. */
static void turn_set(struct turn *turn, unsigned number) {
    atomic_store(&turn->number, number);
    if (!atomic_load(&turn->asleep)) return;
    pthread_mutex_lock(&turn->mutex);
    pthread_cond_signal(&turn->changed);
    pthread_mutex_unlock(&turn->mutex);
}

static void turn_await(struct turn *turn, unsigned number) {
    const uint64_t begin = ig_clock();
    do {
        if (atomic_load_explicit(&turn->number, memory_order_acquire) == number) return;
        sched_yield();
    } while (ig_clock() - begin < AWAKE);
    pthread_mutex_lock(&turn->mutex);
    atomic_store(&turn->asleep, 1);
    while (atomic_load(&turn->number) != number)
        pthread_cond_wait(&turn->changed, &turn->mutex);
    atomic_store(&turn->asleep, 0);
    pthread_mutex_unlock(&turn->mutex);
}

/* ---- Tasks ------------------------------------------------------------------------------------------------------- */

/* The others wait for a rank that could not do it. */
static enum ingot_status begin(struct member *member, enum task task) {
    enum ingot_status status = task == OPEN_WINDOWS ? ig_group_open_windows(member->seat, member->used, &member->error)
                                                    : ig_context_enqueue(member->context, NULL, &member->error);
    if (status != INGOT_OK && ig_group_failure(member->seat, NULL) == INGOT_OK)
        ig_group_fail(member->seat, status, member->error.message);
    return status;
}

static enum ingot_status wait(struct ig_context *context, const double *seconds, struct ingot_error *error) {
    return seconds ? ig_context_wait_for(context, *seconds, error) : ig_context_wait(context, error);
}

static enum ingot_status do_task(struct member *member) {
    const struct ig_ranks *ranks = member->ranks;
    switch (ranks->task) {
    case OPEN_WINDOWS:
    case ENQUEUE: return begin(member, ranks->task);
    case AWAIT: return ig_context_await_ranks(member->context, &member->error);
    case WAIT: return wait(member->context, ranks->seconds, &member->error);
    case RUN: IG_TRY(begin(member, RUN)); return ig_context_wait(member->context, &member->error);
    case FINISH: ig_context_finish(member->context); return INGOT_OK;
    case STOP: break;
    }
    return INGOT_OK;
}

static void *member_main(void *argument) {
    struct member *member = argument;
    for (unsigned turn = 1;; turn++) {
        turn_await(&member->begun, turn);
        if (member->ranks->task == STOP) return NULL;
        member->status = do_task(member);
        turn_set(&member->ended, turn);
    }
}

/* The rank whose failure made the others fail: those say who has ended the group, and so come second. */
static const struct member *find_cause(const struct ig_ranks *ranks) {
    const struct member *cause = NULL;
    for (uint32_t r = 0; r < ranks->count; r++) {
        const struct member *member = &ranks->members[r];
        if (member->status == INGOT_OK) continue;
        if (!cause ||
            (strstr(cause->error.message, "ended the group") && !strstr(member->error.message, "ended the group")))
            cause = member;
    }
    return cause;
}

static enum ingot_status do_all(struct ig_ranks *ranks, enum task task, struct ingot_error *error) {
    const unsigned turn = ++ranks->turns;
    ranks->task = task;
    for (uint32_t r = 1; r < ranks->count; r++)
        turn_set(&ranks->members[r].begun, turn);
    ranks->members[0].status = do_task(&ranks->members[0]);
    for (uint32_t r = 1; r < ranks->count; r++)
        turn_await(&ranks->members[r].ended, turn);
    const struct member *cause = find_cause(ranks);
    return cause ? IG_ERR(error, cause->status, "%s", cause->error.message) : INGOT_OK;
}

/* ---- Runs -------------------------------------------------------------------------------------------------------- */

static bool has_failed(const struct ig_ranks *ranks) {
    for (uint32_t r = 0; r < ranks->count; r++)
        if (ig_group_failure(ranks->members[r].seat, NULL) != INGOT_OK) return true;
    return false;
}

/* Behind a failure: nothing stays under way, and what rank 0 may have is no result. */
static void give_up(struct ig_ranks *ranks) {
    (void)do_all(ranks, FINISH, NULL);
    ranks->under_way = false;
    ig_context_drop_results(ranks->members[0].context);
}

static enum ingot_status renew(struct ig_ranks *ranks, struct ingot_error *error) {
    struct ig_group *seats[IG_MOST_RANKS] = {NULL};
    give_up(ranks); /* a single rank's context may have told of the failure */
    for (uint32_t r = 0; r < ranks->count; r++)
        IG_TRY(ig_nccl_renew(ranks->members[r].seat, &seats[r], error));
    ig_group_renew_local(seats, ranks->count);
    return INGOT_OK;
}

static enum ingot_status conclude(struct ig_ranks *ranks, enum ingot_status status) {
    if (has_failed(ranks))
        give_up(ranks);
    else if (status != INGOT_OK && status != INGOT_TIMEOUT)
        ig_context_drop_results(ranks->members[0].context); /* rank 0 may have come to its end */
    return status;
}

static enum ingot_status launch(struct ig_ranks *ranks, enum task task, struct ingot_error *error) {
    if (has_failed(ranks)) IG_TRY(renew(ranks, error));
    return conclude(ranks, do_all(ranks, task, error));
}

/* On CPUs a run is done when it has been enqueued. */
enum ingot_status ig_ranks_enqueue(struct ig_ranks *ranks, struct ingot_error *error) {
    IG_TRY(launch(ranks, ranks->gpus ? ENQUEUE : RUN, error));
    ranks->under_way = ranks->gpus;
    return INGOT_OK;
}

enum ingot_status ig_ranks_run(struct ig_ranks *ranks, struct ingot_error *error) {
    return launch(ranks, RUN, error);
}

enum ingot_status ig_ranks_wait(struct ig_ranks *ranks, const double *seconds, struct ingot_error *error) {
    if (!ranks->gpus) return wait(ranks->members[0].context, seconds, error);
    ranks->seconds = seconds;
    return conclude(ranks, do_all(ranks, WAIT, error));
}

enum ingot_status ig_ranks_await(struct ig_ranks *ranks, struct ingot_error *error) {
    if (!ranks->under_way) return INGOT_OK;
    IG_TRY(conclude(ranks, do_all(ranks, AWAIT, error)));
    ranks->under_way = false;
    return INGOT_OK;
}

struct ig_context *ig_ranks_context(const struct ig_ranks *ranks, uint32_t rank) {
    return ranks->members[rank].context;
}

/* ---- Creation and destruction ------------------------------------------------------------------------------------ */

static enum ingot_status start(struct member *member, struct ingot_error *error) {
    sigset_t all, old;
    sigfillset(&all); /* the application's handlers must not run on this thread */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int failure = pthread_create(&member->thread, NULL, member_main, member);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failure) return IG_ERR(error, INGOT_DEVICE, "cannot start a thread for a rank: %s", strerror(failure));
    member->is_started = true;
    return INGOT_OK;
}

static enum ingot_status make_member(struct ig_ranks *ranks, uint32_t rank, const struct ig_ranks_config *config,
                                     struct ingot_error *error) {
    struct member *member = &ranks->members[rank];
    struct ig_context_config context = *config->context;
    if (rank > 0) {
        IG_TRY(config->open(config->user, rank, &context, error));
        member->device = context.device;
        context.profile = false;
        context.timing = false;
    }
    context.group = member->seat;
    member->used = context.device;
    IG_TRY(ig_context_create(&config->views[rank], &context, &member->context, error));
    return rank > 0 ? start(member, error) : INGOT_OK;
}

static size_t ranks_size(uint32_t count) {
    return sizeof(struct ig_ranks) + count * sizeof(struct member);
}

enum ingot_status ig_ranks_create(const struct ig_ranks_config *config, struct ig_ranks **out_ranks,
                                  struct ingot_error *error) {
    struct ig_group *seats[IG_MOST_RANKS] = {NULL};
    const struct ig_group_options options = {.allocator = config->allocator};
    struct ig_ranks *ranks = ig_allocate(config->allocator, ranks_size(config->count), _Alignof(struct member));
    if (!ranks) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for %u ranks", config->count);
    enum ingot_status status = ig_group_create_local(config->count, &options, seats, error);
    if (status != INGOT_OK) {
        ig_release(config->allocator, ranks, ranks_size(config->count));
        return status;
    }
    ranks->allocator = config->allocator;
    ranks->count = config->count;
    ranks->gpus = config->gpus;
    for (uint32_t r = 0; r < config->count; r++) {
        ranks->members[r].ranks = ranks;
        ranks->members[r].seat = seats[r];
        turn_init(&ranks->members[r].begun);
        turn_init(&ranks->members[r].ended);
    }
    for (uint32_t r = 0; status == INGOT_OK && config->gpus && r < config->count; r++) {
        status = ig_nccl_create(seats[r], NULL, &ranks->members[r].seat, error);
        if (status == INGOT_OK) ig_group_share_gpus(ranks->members[r].seat, config->shared);
    }
    for (uint32_t r = 0; status == INGOT_OK && r < config->count; r++)
        status = make_member(ranks, r, config, error);
    /* All together, while what only asks about sizes prepares rank 0 alone. */
    if (status == INGOT_OK && config->gpus && config->views->plan.n_collectives > 0)
        status = do_all(ranks, OPEN_WINDOWS, error);
    if (status == INGOT_OK)
        *out_ranks = ranks;
    else
        ig_ranks_destroy(ranks);
    return status;
}

void ig_ranks_destroy(struct ig_ranks *ranks) {
    if (!ranks) return;
    ranks->task = STOP;
    for (uint32_t r = 0; r < ranks->count; r++) {
        struct member *member = &ranks->members[r];
        if (member->is_started) {
            turn_set(&member->begun, ranks->turns + 1);
            pthread_join(member->thread, NULL);
        }
        ig_context_destroy(member->context);
        ig_device_release(member->device);
        turn_deinit(&member->begun);
        turn_deinit(&member->ended);
    }
    for (uint32_t r = 0; r < ranks->count; r++)
        ig_group_destroy(ranks->members[r].seat);
    ig_release(ranks->allocator, ranks, ranks_size(ranks->count));
}
