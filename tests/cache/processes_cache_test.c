/*
 * Many processes build the same things at once on one folder, and some are killed. Each thing is built once where nobody
 * is killed; where somebody is, the others take over, and neither damaged entries nor files nor locks are left behind.
 *
 * Processes kill themselves at random steps and are killed at random times; nothing depends on how fast they are.
 * INGOT_CACHE_ROUNDS=500 repeats it so often (30 by default).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cache/disk.h"
#include "support/cache/folder.h"
#include "support/support.h"

enum { PROCESSES = 16, THINGS = 8, SIZE = 20000 };

static uint64_t next(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static void pause_for(uint64_t microseconds) {
    nanosleep(&(struct timespec){.tv_nsec = (long)microseconds * 1000}, NULL);
}

static struct ig_cache_id id_of(unsigned thing) {
    return (struct ig_cache_id){IG_CACHE_ENGINE, ig_hash128(&thing, sizeof thing)};
}

static unsigned char *bytes_of(unsigned thing) {
    unsigned char *bytes = malloc(SIZE);
    uint64_t seed = thing;
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)next(&seed);
    return bytes;
}

/* ---- One process --------------------------------------------------------------------------------------------------------- */

struct process {
    struct ingot_cache cache;
    struct ig_cache_session session;
    uint64_t seed;
    int steps; /* left to live; negative: no end */
    int log;   /* a byte for each thing that is built */
};

/* A step further; the last one. */
static void step(struct process *p) {
    if (p->steps-- == 0) raise(SIGKILL);
}

static bool fetch(struct process *p, unsigned thing) {
    const struct ig_cache_id id = id_of(thing);
    struct ig_cache_found found;
    if (!ig_cache_get(&p->session, &id, &found)) return false;
    unsigned char *bytes = bytes_of(thing);
    if (found.content.head_size != SIZE || found.content.body_size != SIZE) _exit(2);
    if (memcmp(found.content.head, bytes, SIZE) != 0 || memcmp(found.content.body, bytes, SIZE) != 0) _exit(3);
    free(bytes);
    ig_cache_found_release(&found);
    return true;
}

static void build(struct process *p, unsigned thing) {
    const struct ig_cache_id id = id_of(thing);
    unsigned char *bytes = bytes_of(thing);
    const struct ig_cache_content content = {"a thing", bytes, SIZE, bytes, SIZE};
    step(p);
    if (write(p->log, &(char){(char)('0' + thing)}, 1) != 1) _exit(4);
    pause_for(next(&p->seed) % 300);
    step(p);
    ig_cache_put(&p->session, &id, &content);
    free(bytes);
    step(p);
}

static void get_or_build(struct process *p, unsigned thing) {
    const struct ig_cache_id id = id_of(thing);
    if (fetch(p, thing)) return;
    step(p);
    if (!ig_cache_claim(&p->session, &id)) ig_cache_claim_wait(&p->session, &id);
    step(p);
    if (!fetch(p, thing)) build(p, thing);
    step(p);
    ig_cache_unclaim(&p->session, &id);
    if (!fetch(p, thing)) _exit(5);
}

static void complain(void *user, const char *text) {
    (void)user;
    fprintf(stderr, "note: %s\n", text);
    _exit(6);
}

static _Noreturn void live(const char *folder, int log, uint64_t seed, int steps) {
    struct process p = {.seed = seed, .steps = steps, .log = log};
    const struct ig_cache_notes notes = {complain, NULL};
    unsigned first = (unsigned)(next(&p.seed) % THINGS);
    p.cache = (struct ingot_cache){.allocator = &ig_libc_allocator, .n_levels = 1, .wait_seconds = 3600};
    if (ig_cache_disk_create(folder, 1 << 30, &ig_libc_allocator, &p.cache.disk, NULL) != INGOT_OK) _exit(7);
    p.cache.levels[0] = p.cache.disk;
    ig_cache_begin(&p.session, &p.cache, &notes);
    for (unsigned i = 0; i < THINGS; i++)
        get_or_build(&p, (first + i) % THINGS);
    ig_cache_end(&p.session);
    p.cache.disk->api->destroy(p.cache.disk);
    _exit(0);
}

/* ---- Rounds -------------------------------------------------------------------------------------------------------------- */

/* Waits for all. Those that were not killed must have succeeded. */
static unsigned await_all(const pid_t *pids) {
    unsigned killed = 0;
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        if (WIFSIGNALED(status)) {
            assert_int_equal(WTERMSIG(status), SIGKILL);
            killed++;
        } else {
            assert_int_equal(WEXITSTATUS(status), 0);
        }
    }
    return killed;
}

/* All entries are sound, all things can be claimed, and there is one file for locks and none that is unfinished. */
static void check_folder(const char *folder, bool is_complete) {
    struct ig_cache_level *level;
    struct ingot_error error;
    struct ig_disk_list list;
    assert_int_equal(ig_cache_disk_create(folder, 1 << 30, &ig_libc_allocator, &level, &error), INGOT_OK);
    struct ingot_cache cache = {&ig_libc_allocator, {level}, 1, level, 0, 0};
    struct ig_cache_session session;
    ig_cache_begin(&session, &cache, &(struct ig_cache_notes){complain, NULL});
    assert_int_equal(ig_disk_list(level, &list, &error), INGOT_OK);
    if (is_complete) assert_int_equal(list.count, THINGS);
    for (size_t i = 0; i < list.count; i++) {
        struct ig_cache_found found;
        assert_int_equal(ig_disk_check(level, &list.at[i].id, &found, &error), IG_CACHE_HIT);
        ig_cache_found_release(&found);
    }
    for (unsigned i = 0; i < THINGS; i++) {
        const struct ig_cache_id id = id_of(i);
        assert_true(ig_cache_claim(&session, &id));
    }
    /* "locks", and "CACHEDIR.TAG" unless who made the folder was killed at once. */
    assert_in_range(test_folder_files(folder) - list.count, 1, 2);
    ig_disk_list_release(level, &list);
    ig_cache_end(&session);
    level->api->destroy(level);
}

static void play_round(uint64_t *seed, bool kills) {
    struct test_folder folder, logs;
    char path[128], inner[128];
    pid_t pids[PROCESSES];
    test_folder_make(&folder);
    test_folder_make(&logs);
    snprintf(path, sizeof path, "%s/log", logs.path);
    snprintf(inner, sizeof inner, "%s/cache", folder.path);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    for (unsigned i = 0; i < PROCESSES; i++) {
        uint64_t own = next(seed);
        int steps = kills && next(seed) % 2 ? (int)(next(seed) % 20) : -1;
        pids[i] = fork();
        if (pids[i] == 0) live(inner, log, own, steps);
        assert_true(pids[i] > 0);
    }
    if (kills) {
        for (unsigned i = 0; i < PROCESSES; i += 4) { /* not yet waited for: the numbers are still theirs */
            pause_for(next(seed) % 2000);
            kill(pids[i], SIGKILL);
        }
    }
    unsigned killed = await_all(pids);
    close(log);
    unsigned char *built;
    size_t count = test_file_read(path, &built);
    if (killed == 0) {
        assert_int_equal(count, THINGS);
        for (unsigned i = 0; i < THINGS; i++)
            assert_non_null(memchr(built, '0' + (int)i, count));
    }
    assert_true(count <= THINGS + killed); /* who is killed leaves at most one thing to build again */
    if (killed < PROCESSES) check_folder(inner, true);
    free(built);
    test_folder_remove(&folder);
    test_folder_remove(&logs);
}

static void test_each_is_built_once(void **state) {
    uint64_t seed = 1;
    for (int i = 0; i < 5; i++)
        play_round(&seed, false);
}

static void test_killed_builders(void **state) {
    const char *text = getenv("INGOT_CACHE_ROUNDS");
    uint64_t seed = 2;
    for (int i = 0, rounds = text ? atoi(text) : 30; i < rounds; i++)
        play_round(&seed, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_is_built_once),
        cmocka_unit_test(test_killed_builders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
