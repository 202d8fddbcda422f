/* Pools that compute at once and share made-up processors: their kernels count the workers that execute them. Run under
 * ThreadSanitizer. */
#define _GNU_SOURCE
#include "device/cpu/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "device/cpu/ledger.h"
#include "support/counting_allocator.h"
#include "support/support.h"

/* Processors first … first + count - 1. */
static struct ig_processors processors_from(unsigned first, unsigned count) {
    struct ig_processors processors = {.count = count, .quota = UINT32_MAX};
    for (unsigned i = first; i < first + count; i++)
        processors.mask[i / 64] |= (uint64_t)1 << i % 64;
    return processors;
}

/* A kernel's view of the test: it counts who executes it, and waits until the gate is open. */
struct gate {
    atomic_int entered, open;
};

static void pass_gate(void *const *buffers, const int64_t *dims, int64_t first, int64_t past, void *scratch) {
    struct gate *gate = buffers[0];
    atomic_fetch_add(&gate->entered, 1);
    while (!atomic_load(&gate->open))
        sched_yield();
}

static void count_worker(void *const *buffers, const int64_t *dims, int64_t first, int64_t past, void *scratch) {
    atomic_fetch_add((atomic_int *)buffers[0], 1);
}

static void wait_for_growth(void *const *buffers, const int64_t *dims, int64_t first, int64_t past, void *scratch) {
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

struct run {
    pthread_t thread;
    struct ig_pool *pool;
    struct ig_pool_item items[4];
    uint32_t n_items;
};

static void *run_main(void *argument) {
    struct run *run = argument;
    ig_pool_run(run->pool, run->items, run->n_items, NULL);
    return NULL;
}

static void run_start(struct run *run) {
    assert_int_equal(pthread_create(&run->thread, NULL, run_main, run), 0);
}

static struct ig_pool *make_pool(unsigned threads, struct ig_processors processors) {
    struct ig_pool *pool;
    assert_int_equal(ig_pool_create(threads, &processors, &ig_libc_allocator, &pool, NULL), INGOT_OK);
    return pool;
}

static void add_item(struct run *run, ig_pool_kernel kernel, void **buffer) {
    run->items[run->n_items++] = (struct ig_pool_item){.kernel = kernel, .buffers = buffer, .tiles = 8, .workers = 4};
}

static void await(atomic_int *number, int wanted) {
    while (atomic_load(number) < wanted)
        sched_yield();
}

/* A run takes no more than its share while another computes, and gives up what it has too much, though not within a
 * kernel. */
static void pools_take_their_share(void **state) {
    static struct gate first_gate, second_gate;
    static atomic_int before, after;
    struct run first = {.pool = make_pool(4, processors_from(0, 4))};
    struct run second = {.pool = make_pool(4, processors_from(0, 4))};
    void *buffers[] = {&first_gate, &second_gate, &before, &after};
    add_item(&first, pass_gate, &buffers[0]);
    add_item(&first, count_worker, &buffers[2]);
    add_item(&first, count_worker, &buffers[3]);
    add_item(&second, pass_gate, &buffers[1]);
    run_start(&first);
    await(&first_gate.entered, 4);
    run_start(&second);
    await(&second_gate.entered, 2);
    atomic_store(&first_gate.open, 1);
    pthread_join(first.thread, NULL);
    assert_int_equal(atomic_load(&before), 4); /* the number of workers changes one barrier later */
    assert_int_equal(atomic_load(&after), 2);
    atomic_store(&second_gate.open, 1);
    pthread_join(second.thread, NULL);
    assert_int_equal(atomic_load(&second_gate.entered), 2);
    ig_pool_destroy(first.pool);
    ig_pool_destroy(second.pool);
}

/* A run that began with one worker gets more when the other is over. */
static void pools_grow_within_a_run(void **state) {
    static struct gate gates[5];
    static atomic_int workers;
    struct run others[4], last = {.pool = make_pool(4, processors_from(0, 4))};
    void *buffers[] = {&gates[0], &gates[1], &gates[2], &gates[3], &gates[4], &workers};
    for (int i = 0; i < 4; i++) {
        others[i] = (struct run){.pool = make_pool(1, processors_from(0, 4))};
        others[i].items[0] =
            (struct ig_pool_item){.kernel = pass_gate, .buffers = &buffers[i], .tiles = 1, .workers = 1};
        others[i].n_items = 1;
        run_start(&others[i]);
        await(&gates[i].entered, 1);
    }
    add_item(&last, pass_gate, &buffers[4]);
    add_item(&last, wait_for_growth, &buffers[5]);
    add_item(&last, count_worker, &buffers[5]);
    run_start(&last);
    await(&gates[4].entered, 1);
    for (int i = 0; i < 4; i++) {
        atomic_store(&gates[i].open, 1);
        pthread_join(others[i].thread, NULL);
        ig_pool_destroy(others[i].pool);
    }
    atomic_store(&gates[4].open, 1);
    pthread_join(last.thread, NULL);
    assert_int_equal(atomic_load(&gates[4].entered), 1);
    assert_int_equal(atomic_load(&workers), 4);
    ig_pool_destroy(last.pool);
}

/* The users' pools have 16 threads in all. */
enum { n_marks = 64, n_users = 6, n_processors = 12 };

/* Of turns of dims[0] tiles, the one before must have ended. */
static void mark(void *const *buffers, const int64_t *dims, int64_t first, int64_t past, void *scratch) {
    unsigned char *marks = buffers[0];
    for (int64_t i = first; i < past; i++) {
        int64_t turn = dims[0] > 0 ? i / dims[0] * dims[0] : 0;
        for (int64_t before = turn - dims[0]; turn > 0 && before < turn; before++) {
            if (marks[before] != marks[i] + 1) atomic_store((atomic_int *)buffers[1], 1);
        }
        marks[i]++;
    }
    memset(scratch, 1, 64); /* races with another worker's, if they are not apart */
}

struct user {
    pthread_t thread;
    unsigned threads;
    uint32_t random;
    bool wrong;
};

static uint32_t next(struct user *user) {
    user->random = user->random * 1664525u + 1013904223u;
    return user->random / 65536;
}

static void *user_main(void *argument) {
    struct user *user = argument;
    static const int64_t turns[] = {0, 0, 0, 23, 32, 1000};
    unsigned char marks[n_marks];
    atomic_int early = 0;
    void *buffers[2] = {marks, &early};
    struct ig_pool_item items[20];
    for (int life = 0; life < 4; life++) {
        struct ig_processors processors = processors_from(0, n_processors);
        struct ig_pool *pool;
        if (ig_pool_create(user->threads, &processors, &ig_libc_allocator, &pool, NULL) != INGOT_OK) user->wrong = true;
        if (user->wrong) return NULL;
        for (int run = 0; run < 200; run++) {
            uint32_t n = 1 + next(user) % 19;
            memset(marks, 0, sizeof marks);
            for (uint32_t i = 0; i < n; i++) {
                const int64_t *turn = &turns[next(user) % (sizeof turns / sizeof *turns)];
                items[i] = (struct ig_pool_item){.kernel = mark,
                                                 .buffers = buffers,
                                                 .dims = turn,
                                                 .tiles = n_marks,
                                                 .workers = 1 + next(user) % user->threads,
                                                 .chunks = i % 3 * 2,
                                                 .turn = *turn};
            }
            ig_pool_run(pool, items, n, NULL);
            for (int i = 0; i < n_marks; i++)
                user->wrong |= marks[i] != n || atomic_load(&early);
        }
        ig_pool_destroy(pool);
    }
    return NULL;
}

/* Pools of many sizes come, compute and go at once: every tile is done once, in order and turn by turn, and nobody
 * hangs. */
static void pools_do_every_tile_once(void **state) {
    struct user users[n_users];
    struct ig_processors processors = processors_from(0, n_processors);
    struct ig_claim claim;
    ig_ledger_join(&claim, &processors);
    for (unsigned i = 0; i < n_users; i++) {
        users[i] = (struct user){.threads = 1 + i % 5, .random = i};
        assert_int_equal(pthread_create(&users[i].thread, NULL, user_main, &users[i]), 0);
    }
    for (unsigned i = 0; i < n_users; i++) {
        pthread_join(users[i].thread, NULL);
        assert_false(users[i].wrong);
    }
    assert_int_equal(ig_ledger_running(&claim), 0);
    ig_ledger_leave(&claim);
}

/* Pools that could not be created, and destroyed ones, leave nothing in the ledger. */
static void failed_pools_leave_the_ledger(void **state) {
    unsigned first = 0;
    for (size_t fail_at = 1; fail_at < 20; fail_at++) {
        for (int again = 0; again < 100; again++, first = (first + 1) % 900) {
            struct counting_allocator allocator;
            struct ig_processors processors = processors_from(first, 3);
            struct ig_pool *pool;
            counting_allocator_init(&allocator);
            allocator.fail_at = fail_at;
            bool made = ig_pool_create(3, &processors, &allocator.base, &pool, NULL) == INGOT_OK;
            if (made) ig_pool_destroy(pool);
            assert_int_equal(allocator.live_count, 0);
            if (made) fail_at = 20;
        }
        struct ig_processors processors = processors_from(1000, 4);
        struct ig_claim claims[2];
        for (int i = 0; i < 2; i++) { /* they share what they have in common: there is room for them */
            ig_ledger_join(&claims[i], &processors);
            assert_int_equal(ig_ledger_begin(&claims[i], 4), i == 0 ? 4 : 2);
        }
        for (int i = 0; i < 2; i++) {
            ig_ledger_end(&claims[i]);
            ig_ledger_leave(&claims[i]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools_take_their_share),
        cmocka_unit_test(pools_grow_within_a_run),
        cmocka_unit_test(pools_do_every_tile_once),
        cmocka_unit_test(failed_pools_leave_the_ledger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
