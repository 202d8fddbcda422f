/* Items taken in order under one lock, by threads that end with the crew; see crew.h. */
#include "base/crew.h"

#include <pthread.h>

#include "base/cpu.h"

struct ig_crew {
    struct ig_job *job;
    void (*work)(void *user, uint32_t item);
    void *user;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t offered, finished;
    uint32_t n_offered, n_taken;
    uint32_t working[IG_CREW_MOST]; /* the item of each thread; UINT32_MAX: none */
    bool stopped;
    pthread_t threads[IG_CREW_MOST]; /* the first is the caller's, and not here */
    unsigned n_threads;
};

struct member {
    struct ig_crew *crew;
    unsigned index;
};

/* With the lock held. */
static void work_on_next(struct ig_crew *c, unsigned member) {
    uint32_t item = c->working[member] = c->n_taken++;
    pthread_mutex_unlock(&c->mutex);
    c->work(c->user, item);
    pthread_mutex_lock(&c->mutex);
    c->working[member] = UINT32_MAX;
    pthread_cond_signal(&c->finished);
}

static void *run(void *argument) {
    const struct member *member = argument;
    struct ig_crew *c = member->crew;
    pthread_mutex_lock(&c->mutex);
    while (!c->stopped) {
        if (c->n_taken < c->n_offered) {
            work_on_next(c, member->index);
        } else {
            pthread_cond_wait(&c->offered, &c->mutex);
        }
    }
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

static void stop(void *resource) {
    struct ig_crew *c = resource;
    pthread_mutex_lock(&c->mutex);
    c->stopped = true;
    pthread_cond_broadcast(&c->offered);
    pthread_mutex_unlock(&c->mutex);
    for (unsigned i = 1; i < c->n_threads; i++)
        pthread_join(c->threads[i], NULL);
    pthread_cond_destroy(&c->finished);
    pthread_cond_destroy(&c->offered);
    pthread_mutex_destroy(&c->mutex);
}

struct ig_crew *ig_crew_create(struct ig_job *job, unsigned threads, void (*work)(void *user, uint32_t item),
                               void *user) {
    struct ig_crew *c = IG_NEW(job, struct ig_crew);
    *c = (struct ig_crew){.job = job, .work = work, .user = user, .n_threads = 1};
    if (threads == 0) threads = ig_cpu_processors();
    if (threads > IG_CREW_MOST) threads = IG_CREW_MOST;
    struct member *members = IG_NEW_ARRAY(job, struct member, threads);
    for (unsigned i = 0; i < IG_CREW_MOST; i++)
        c->working[i] = UINT32_MAX;
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->offered, NULL);
    pthread_cond_init(&c->finished, NULL);
    ig_defer(job, stop, c);
    for (; c->n_threads < threads; c->n_threads++) {
        struct member *member = &members[c->n_threads];
        *member = (struct member){c, c->n_threads};
        if (pthread_create(&c->threads[c->n_threads], NULL, run, member)) break;
    }
    return c;
}

void ig_crew_offer(struct ig_crew *c, uint32_t count) {
    pthread_mutex_lock(&c->mutex);
    if (count > c->n_offered) {
        c->n_offered = count;
        pthread_cond_broadcast(&c->offered);
    }
    pthread_mutex_unlock(&c->mutex);
}

/* Items are taken in order, so one is done if it was taken, and no thread works on it or an earlier one. */
static bool is_done(const struct ig_crew *c, uint32_t item) {
    if (item >= c->n_taken) return false;
    for (unsigned i = 0; i < c->n_threads; i++) {
        if (c->working[i] <= item) return false;
    }
    return true;
}

void ig_crew_wait(struct ig_crew *c, uint32_t item) {
    pthread_mutex_lock(&c->mutex);
    while (!is_done(c, item)) {
        if (c->n_taken < c->n_offered) {
            work_on_next(c, 0);
        } else {
            pthread_cond_wait(&c->finished, &c->mutex);
        }
    }
    pthread_mutex_unlock(&c->mutex);
}

void ig_crew_destroy(struct ig_crew *c) {
    ig_undefer(c->job, c);
    stop(c);
}
