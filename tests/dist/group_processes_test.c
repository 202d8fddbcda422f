/* Groups of processes of this host: how they meet, what they say when they cannot, and what the others say when one is
 * killed or stopped. No test waits for a limit to pass but where that is what it tests. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dist/dist.h"
#include "dist/links.h"
#include "support/support.h"

enum { MOST = 4, TEXT = 600 };

/* What processes of a test share, besides what they test. */
static struct board {
    char wrong[MOST][TEXT];
    atomic_int ready; /* processes that have come so far */
} * board;

/* Where the ranks of a test meet: a new path for each. */
static char meeting[60];

/* A body returns NULL or a text that says what is wrong; cmocka's assertions are for the parent. */
typedef const char *(*process_body)(uint32_t rank, uint32_t ranks);

static void child(process_body body, uint32_t rank, uint32_t ranks) {
    alarm(100);
    const char *wrong = body(rank, ranks);
    if (wrong) snprintf(board->wrong[rank], TEXT, "%s", wrong);
    _exit(wrong ? 1 : 0);
}

static void start(pid_t *processes, uint32_t ranks, process_body body) {
    static int count;
    snprintf(meeting, sizeof meeting, "/tmp/ingot-test-%d-%d", (int)getpid(), count++);
    memset(board, 0, sizeof *board);
    for (uint32_t r = 0; r < ranks; r++) {
        processes[r] = fork();
        assert_true(processes[r] >= 0);
        if (processes[r] == 0) child(body, r, ranks);
    }
}

/* `killed`: the rank that ends by SIGKILL; `ranks`: none. */
static void finish(const pid_t *processes, uint32_t ranks, uint32_t killed) {
    for (uint32_t r = 0; r < ranks; r++) {
        int status;
        while (waitpid(processes[r], &status, 0) < 0)
            assert_int_equal(errno, EINTR);
        if (r == killed)
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        else if (board->wrong[r][0])
            fail_msg("rank %u: %s", r, board->wrong[r]);
        else
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(access(meeting, F_OK), -1);
}

static void run_processes(uint32_t ranks, process_body body) {
    pid_t processes[MOST];
    start(processes, ranks, body);
    finish(processes, ranks, ranks);
}

/* ---- Parts of bodies --------------------------------------------------------------------------------------------- */

static const char *say(const struct ingot_error *error) {
    static char text[TEXT];
    snprintf(text, sizeof text, "error: %.500s", error->message);
    return text;
}

static const char *wanted(enum ingot_status status, enum ingot_status wanted_status, const struct ingot_error *error,
                          const char *text) {
    static char wrong[TEXT];
    if (status == INGOT_OK) return "no error";
    if (status == wanted_status && strstr(error->message, text)) return NULL;
    snprintf(wrong, sizeof wrong, "expected '%s', found '%.400s' (%s)", text, error->message,
             ingot_status_name(status));
    return wrong;
}

static enum ingot_status join_as(uint32_t rank, uint32_t ranks, const char *address, double seconds,
                                 struct ig_group **out_seat, struct ingot_error *error) {
    char own[40], all[40], place[200];
    snprintf(own, sizeof own, "INGOT_RANK=%u", rank);
    snprintf(all, sizeof all, "INGOT_RANKS=%u", ranks);
    snprintf(place, sizeof place, "INGOT_RENDEZVOUS=%s", address);
    const char *const environment[] = {own, all, place, NULL};
    const struct ig_join_options options = {.group = {.seconds = seconds}, .environment = environment};
    return ig_group_join(&options, out_seat, error);
}

static void wait_for_all(uint32_t ranks) {
    atomic_fetch_add(&board->ready, 1);
    while (atomic_load(&board->ready) < (int)ranks)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* ---- Meeting ----------------------------------------------------------------------------------------------------- */

static const char *test_at(const char *address, uint32_t rank, uint32_t ranks) {
    struct ingot_error error;
    struct ig_group *seat;
    if (join_as(rank, ranks, address, 60, &seat, &error)) return say(&error);
    if (ig_group_rank(seat) != rank || ig_group_ranks(seat) != ranks) return "another rank";
    if (strcmp(ig_group_transport(seat), "shared memory") != 0) return ig_group_transport(seat);
    if (ig_group_test(seat, &error)) return say(&error);
    ig_group_destroy(seat);
    return NULL;
}

/* Twice: a group may follow another one at the same place. */
static const char *meet_at_path(uint32_t rank, uint32_t ranks) {
    const char *wrong = test_at(meeting, rank, ranks);
    return wrong ? wrong : test_at(meeting, rank, ranks);
}

static const char *meet_by_tcp(uint32_t rank, uint32_t ranks) {
    char address[40];
    snprintf(address, sizeof address, "localhost:%d", 20000 + (int)getppid() % 20000);
    return test_at(address, rank, ranks);
}

static void processes_meet(void **state) {
    for (uint32_t ranks = 1; ranks <= 4; ranks++)
        run_processes(ranks, meet_at_path);
    run_processes(3, meet_by_tcp);
}

/* What a rank 0 that was killed has left. */
static void an_old_socket_does_no_harm(void **state) {
    pid_t processes[2];
    start(processes, 2, meet_at_path);
    finish(processes, 2, 2);
    char next[120];
    int number = 0;
    sscanf(strrchr(meeting, '-') + 1, "%d", &number);
    snprintf(next, sizeof next, "/tmp/ingot-test-%d-%d", (int)getpid(), number + 1);
    FILE *file = fopen(next, "w");
    assert_non_null(file);
    fclose(file);
    run_processes(2, meet_at_path);
}

/* Like launchers do it: without an address. */
static const char *meet_as_job(uint32_t rank, uint32_t ranks) {
    char own[60], all[60], local[60];
    struct ingot_error error;
    struct ig_group *seat;
    snprintf(own, sizeof own, "PMI_RANK=%u", rank);
    snprintf(all, sizeof all, "PMI_SIZE=%u", ranks);
    snprintf(local, sizeof local, "MPI_LOCALNRANKS=%u", ranks);
    const char *const environment[] = {"XDG_RUNTIME_DIR=/nowhere", own, all, local, NULL};
    const struct ig_join_options options = {.environment = environment};
    if (ig_group_join(&options, &seat, &error)) return say(&error);
    if (ig_group_test(seat, &error)) return say(&error);
    ig_group_destroy(seat);
    return NULL;
}

static void jobs_meet(void **state) {
    run_processes(3, meet_as_job);
}

/* ---- Those who cannot meet --------------------------------------------------------------------------------------- */

static const char *refuse(uint32_t rank, uint32_t ranks, double seconds, enum ingot_status status, const char *text) {
    struct ingot_error error;
    struct ig_group *seat;
    enum ingot_status found = join_as(rank, ranks, meeting, seconds, &seat, &error);
    return wanted(found, status, &error, text);
}

static const char *count_differently(uint32_t rank, uint32_t ranks) {
    return refuse(rank, rank == 1 ? 3 : 2, 60, INGOT_INCOMPATIBLE,
                  "rank 1 was started as one of 3 ranks, rank 0 as one of 2");
}

/* The third process is rank 1 once more, and the first that comes may be either of them. */
static const char *come_twice(uint32_t rank, uint32_t ranks) {
    struct ingot_error error;
    struct ig_group *seat;
    enum ingot_status status = join_as(rank == 2 ? 1 : rank, 3, meeting, 60, &seat, &error);
    return wanted(status, INGOT_INCOMPATIBLE, &error, "two processes were started as rank 1 of 3");
}

static const char *miss_one(uint32_t rank, uint32_t ranks) {
    struct ingot_error error;
    struct ig_group *seat;
    /* Rank 0 gives up first, and tells rank 1. */
    enum ingot_status status = join_as(rank, 4, meeting, rank == 0 ? 0.3 : 60, &seat, &error);
    return wanted(status, INGOT_TIMEOUT, &error, "within 0.3 s: 2, 3");
}

static const char *miss_the_first(uint32_t rank, uint32_t ranks) {
    return refuse(1, 2, 0.1, INGOT_TIMEOUT, "rank 1 of 2: rank 0 did not answer at '/tmp/ingot-test-");
}

/* Somebody else who knocks is no rank, and does no harm. */
static const char *be_knocked_at(uint32_t rank, uint32_t ranks) {
    if (rank < 2) return test_at(meeting, rank, 2);
    char command[400];
    snprintf(command, sizeof command,
             "python3 -c \"import socket,time\nfor i in range(100):\n  try:\n    s=socket.socket(socket.AF_UNIX)\n    "
             "s.connect('%s'); s.send(b'x'*44); break\n  except OSError: time.sleep(0.01)\"",
             meeting);
    return system(command) == -1 ? "no shell" : NULL;
}

static void some_cannot_meet(void **state) {
    run_processes(2, count_differently);
    run_processes(3, come_twice);
    run_processes(2, miss_one);
    run_processes(1, miss_the_first);
    run_processes(3, be_knocked_at);
    struct ingot_error error;
    struct ig_group *seat;
    char longer[150];
    memset(longer, '/', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(join_as(0, 2, longer, 1, &seat, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(join_as(0, 2, "/nowhere/at/all", 1, &seat, &error), INGOT_IO);
    assert_non_null(strstr(error.message, "rank 0 cannot listen at '/nowhere/at/all'"));
    assert_int_equal(join_as(0, 2, "here", 1, &seat, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(join_as(0, 2, "no.such.host.invalid:1", 1, &seat, &error), INGOT_IO);
    assert_int_equal(ig_links_meet("/tmp/x", 3, 3, 1, &ig_libc_allocator, NULL, &error), INGOT_INVALID_ARGUMENT);
}

/* ---- Those who do not stay --------------------------------------------------------------------------------------- */

static const struct ig_collective_sizes some = {.outer = 1, .inner = 100};

static enum ingot_status reduce(struct ig_group *seat, const char *label, struct ingot_error *error) {
    float data[100] = {0};
    return ig_group_call(
        seat, &(struct ig_collective_call){{IG_ALL_REDUCE, INGOT_F32, 0, 0}, &some, data, data, label, NULL}, error);
}

/* Computes until something happens; then a new group must work. */
static const char *go_on(uint32_t rank, uint32_t ranks, double seconds, enum ingot_status status, const char *text) {
    struct ingot_error error;
    struct ig_group *seat;
    if (join_as(rank, ranks, meeting, seconds, &seat, &error)) return say(&error);
    wait_for_all(ranks);
    while (reduce(seat, "block 7", &error) == INGOT_OK)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    const char *wrong = wanted(error.status, status, &error, text);
    if (!wrong) wrong = wanted(ig_group_barrier(seat, "x", &error), status, &error, text);
    ig_group_destroy(seat);
    return wrong;
}

/* Those who are left meet once more. */
static const char *see_rank_1_die(uint32_t rank, uint32_t ranks) {
    const char *wrong = go_on(rank, ranks, 60, INGOT_DEVICE, "rank 1 has died; its last: all_reduce 'block 7' (call ");
    return wrong ? wrong : test_at(meeting, rank == 2 ? 1 : 0, 2);
}

static const char *see_rank_0_die(uint32_t rank, uint32_t ranks) {
    const char *wrong = go_on(rank, ranks, 60, INGOT_DEVICE, "rank 0 has died; its last: all_reduce 'block 7' (call ");
    return wrong ? wrong : test_at(meeting, rank - 1, 2);
}

static void wait_until_ready(int ranks) {
    while (atomic_load(&board->ready) < ranks)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static void a_killed_rank(void **state) {
    static const process_body bodies[2] = {see_rank_0_die, see_rank_1_die};
    pid_t processes[3];
    for (uint32_t killed = 0; killed < 2; killed++) {
        start(processes, 3, bodies[killed]);
        wait_until_ready(3);
        kill(processes[killed], SIGKILL);
        finish(processes, 3, killed);
    }
}

static const char *see_a_stop(uint32_t rank, uint32_t ranks) {
    const char *text = rank == 1 ? "rank 0 ended the group: all_reduce 'block 7'"
                                 : "s for rank 1; its last: all_reduce 'block 7' (call ";
    const char *wrong = go_on(rank, ranks, 1.0, INGOT_TIMEOUT, text);
    return wrong ? wrong : test_at(meeting, rank, ranks);
}

static void a_stopped_rank(void **state) {
    pid_t processes[2];
    start(processes, 2, see_a_stop);
    wait_until_ready(2);
    kill(processes[1], SIGSTOP);
    nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
    kill(processes[1], SIGCONT);
    finish(processes, 2, 2);
}

/* ---- Looking ----------------------------------------------------------------------------------------------------- */

/* Rank 1 leaves, in one way or another, when both others have looked at it; they look until they see that. */
static const char *look_until(uint32_t rank, uint32_t ranks, void (*leave)(struct ig_group *seat),
                              enum ingot_status status, const char *text) {
    struct ingot_error error;
    struct ig_group *seat;
    if (join_as(rank, ranks, meeting, 60, &seat, &error)) return say(&error);
    if (ig_group_look(seat, &error)) return say(&error);
    wait_for_all(ranks);
    if (rank == 1) {
        leave(seat);
        return NULL;
    }
    while (ig_group_look(seat, &error) == INGOT_OK)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    const char *wrong = wanted(error.status, status, &error, text);
    if (!wrong) wrong = wanted(ig_group_look(seat, &error), status, &error, text);
    ig_group_destroy(seat);
    return wrong;
}

static void die(struct ig_group *seat) {
    kill(getpid(), SIGKILL);
}

static void say_enough(struct ig_group *seat) {
    ig_group_fail(seat, INGOT_CANCELLED, "enough");
    ig_group_destroy(seat);
}

static const char *look_at_one_that_leaves(uint32_t rank, uint32_t ranks) {
    return look_until(rank, ranks, ig_group_destroy, INGOT_DEVICE, "rank 1 has left the group; its last: no call yet");
}

/* Rank 0 alone is connected with it, and tells the others. */
static const char *look_at_one_that_dies(uint32_t rank, uint32_t ranks) {
    return look_until(rank, ranks, die, INGOT_DEVICE, "rank 1 has died; its last: no call yet");
}

static const char *look_at_one_that_fails(uint32_t rank, uint32_t ranks) {
    return look_until(rank, ranks, say_enough, INGOT_CANCELLED, "rank 1 ended the group: enough");
}

static void ranks_look_at_each_other(void **state) {
    pid_t processes[3];
    run_processes(3, look_at_one_that_leaves);
    run_processes(3, look_at_one_that_fails);
    start(processes, 3, look_at_one_that_dies);
    finish(processes, 3, 1);
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

/* Each rank writes to its own file and to all others', at the place of its number, and finds what all have written. */
static const char *write_to_all(struct ig_links *links, uint32_t rank, uint32_t ranks) {
    struct ingot_error error;
    int own = memfd_create("test", 0), files[MOST] = {-1, -1, -1, -1};
    char letters[MOST] = {0}, mine = (char)('a' + rank), all[MOST];
    if (own < 0) return "no file";
    if (ig_links_share_files(links, own, files, &error)) return say(&error);
    if (files[rank] != -1) return "its own file has come back";
    files[rank] = own;
    for (uint32_t r = 0; r < ranks; r++)
        if (pwrite(files[r], &mine, 1, rank) != 1) return "a file that cannot be written to";
    if (ig_links_gather(links, &mine, 1, all, &error)) return say(&error); /* all have written */
    for (uint32_t r = 0; r < ranks; r++) {
        if (pread(files[r], letters, sizeof letters, 0) != (ssize_t)ranks) return "a file of another size";
        if (memcmp(letters, all, ranks) != 0) return "another file";
        close(files[r]);
    }
    return NULL;
}

static const char *share_files(uint32_t rank, uint32_t ranks) {
    struct ingot_error error;
    struct ig_links *links;
    if (ig_links_meet(meeting, rank, ranks, 60, &ig_libc_allocator, &links, &error)) return say(&error);
    const char *wrong = write_to_all(links, rank, ranks);
    if (!wrong) wrong = write_to_all(links, rank, ranks);
    ig_links_destroy(links);
    return wrong;
}

/* Rank 2 ends without a word. */
static const char *share_files_with_one_that_ends(uint32_t rank, uint32_t ranks) {
    struct ingot_error error;
    struct ig_links *links;
    int files[MOST] = {-1, -1, -1, -1};
    if (ig_links_meet(meeting, rank, ranks, 60, &ig_libc_allocator, &links, &error)) return say(&error);
    if (rank == 2) return NULL;
    const char *wrong =
        wanted(ig_links_share_files(links, 2, files, &error), INGOT_DEVICE, &error,
               rank == 0 ? "rank 0 lost its connection with rank 2" : "rank 1 lost its connection with rank 0");
    ig_links_destroy(links);
    return wrong;
}

static void files_are_shared(void **state) {
    for (uint32_t ranks = 1; ranks <= 4; ranks++)
        run_processes(ranks, share_files);
    run_processes(3, share_files_with_one_that_ends);
}

int main(void) {
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_meet),
        cmocka_unit_test(an_old_socket_does_no_harm),
        cmocka_unit_test(jobs_meet),
        cmocka_unit_test(some_cannot_meet),
        cmocka_unit_test(a_killed_rank),
        cmocka_unit_test(a_stopped_rank),
        cmocka_unit_test(ranks_look_at_each_other),
        cmocka_unit_test(files_are_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
