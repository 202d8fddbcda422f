/* Ranks and meeting places by the environments that launchers make. */
#define _GNU_SOURCE
#include "dist/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/support.h"

#define ENV(...)            \
    (const char *const[]) { \
        __VA_ARGS__, NULL   \
    }

static struct ig_place read_place(const char *const *environment) {
    struct ig_place place;
    struct ingot_error error;
    if (ig_place_read(environment, &place, &error)) fail_msg("%s", error.message);
    return place;
}

static void expect_place(const char *const *environment, uint32_t rank, uint32_t ranks, uint32_t local_rank,
                         uint32_t local_ranks, const char *launcher) {
    struct ig_place place = read_place(environment);
    assert_int_equal(place.rank, rank);
    assert_int_equal(place.ranks, ranks);
    assert_int_equal(place.local_rank, local_rank);
    assert_int_equal(place.local_ranks, local_ranks);
    assert_string_equal(place.launcher, launcher);
}

static void launchers_are_understood(void **state) {
    expect_place(ENV("INGOT_RANK=1", "INGOT_RANKS=2", "INGOT_RENDEZVOUS=/tmp/x", "RANK=5"), 1, 2, 0, 0, "INGOT_RANK");
    expect_place(ENV("A=b", "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=1",
                     "OMPI_COMM_WORLD_LOCAL_SIZE=2", "SLURM_PROCID=0"),
                 3, 4, 1, 2, "mpirun (Open MPI)");
    expect_place(ENV("PMI_RANK=0", "PMI_SIZE=3", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=3"), 0, 3, 0, 3,
                 "mpirun (MPICH)");
    expect_place(ENV("SLURM_PROCID=5", "SLURM_STEP_NUM_TASKS=6", "SLURM_LOCALID=1", "SLURM_STEP_TASKS_PER_NODE=2(x3)"),
                 5, 6, 1, 0, "srun");
    expect_place(
        ENV("RANK=2", "WORLD_SIZE=4", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=node1", "MASTER_PORT=29500"),
        2, 4, 0, 2, "torchrun");
}

static void meeting_places(void **state) {
    struct ig_place place;
    const char *const across[] = {
        "RANK=2", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=node1", "MASTER_PORT=29500", NULL};
    place = read_place(across);
    assert_string_equal(place.address, "node1:29501");
    assert_false(place.is_mpi);
    /* mpirun over several hosts: MPI says where they are. */
    place = read_place(ENV("PMI_RANK=0", "PMI_SIZE=3", "MPI_LOCALNRANKS=2"));
    assert_string_equal(place.address, "");
    assert_true(place.is_mpi);
    place = read_place(ENV("PMI_RANK=0", "PMI_SIZE=3", "MPI_LOCALNRANKS=2", "INGOT_RENDEZVOUS=a:1"));
    assert_string_equal(place.address, "a:1");
    place = read_place(ENV("INGOT_RANK=0", "INGOT_RANKS=1"));
    assert_string_equal(place.address, "");
}

/* All ranks of a job on one host find the same path, and other jobs another one. */
static void jobs_have_places(void **state) {
#define JOB(rank, name) \
    ENV("OMPI_COMM_WORLD_RANK=" rank, "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_NAMESPACE=" name)
    struct ig_place a = read_place(JOB("0", "one")), b = read_place(JOB("1", "one")), c = read_place(JOB("0", "two"));
    assert_string_equal(a.address, b.address);
    assert_string_not_equal(a.address, c.address);
    char folder[64], path[IG_ADDRESS_SIZE], variable[100], wanted[200];
    snprintf(folder, sizeof folder, "/tmp/ingot-%u", (unsigned)geteuid());
    assert_memory_equal(a.address, folder, strlen(folder));
    struct stat found;
    assert_int_equal(stat(folder, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0700);
    /* The user's own folder for such things. */
    char own[] = "/tmp/ingot-place-XXXXXX";
    struct ingot_error error;
    assert_non_null(mkdtemp(own));
    snprintf(variable, sizeof variable, "XDG_RUNTIME_DIR=%s", own);
    assert_int_equal(ig_place_path(ENV(variable), "x", path, &error), INGOT_OK);
    snprintf(wanted, sizeof wanted, "%s/ingot-x", own);
    assert_string_equal(path, wanted);
    /* One that others may write is not used. */
    assert_int_equal(chmod(own, 0777), 0);
    assert_int_equal(ig_place_path(ENV(variable), "x", path, &error), INGOT_OK);
    assert_memory_equal(path, folder, strlen(folder));
    assert_int_equal(rmdir(own), 0);
}

static void expect_refusal(const char *const *environment, const char *expected) {
    struct ig_place place;
    struct ingot_error error;
    assert_int_equal(ig_place_read(environment, &place, &error), INGOT_INVALID_ARGUMENT);
    if (!strstr(error.message, expected)) fail_msg("'%s' does not say '%s'", error.message, expected);
}

static void nonsense_is_refused(void **state) {
    expect_refusal(NULL, "nothing says which rank this is: start the ranks with mpirun, srun or torchrun");
    expect_refusal(ENV("INGOT_RANKS=2"), "nothing says which rank this is");
    expect_refusal(ENV("INGOT_RANK=0"), "INGOT_RANKS is not set");
    expect_refusal(ENV("INGOT_RANK=", "INGOT_RANKS=2"), "INGOT_RANK is '', wanted a number up to 64");
    expect_refusal(ENV("INGOT_RANK=-1", "INGOT_RANKS=2"), "INGOT_RANK is '-1'");
    expect_refusal(ENV("INGOT_RANK=1x", "INGOT_RANKS=2"), "INGOT_RANK is '1x'");
    expect_refusal(ENV("INGOT_RANK=99999999999999999999", "INGOT_RANKS=2"), "INGOT_RANK is '99999999999999999999'");
    expect_refusal(ENV("INGOT_RANK=2", "INGOT_RANKS=2"), "INGOT_RANK is 2, and INGOT_RANKS is 2");
    expect_refusal(ENV("INGOT_RANK=0", "INGOT_RANKS=0"), "INGOT_RANK is 0, and INGOT_RANKS is 0");
    expect_refusal(ENV("INGOT_RANK=0", "INGOT_RANKS=65"), "INGOT_RANKS is '65', wanted a number up to 64");
    expect_refusal(ENV("INGOT_RANK=0", "INGOT_RANKS=2"), "INGOT_RENDEZVOUS does not say where they meet");
    expect_refusal(ENV("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=65535"), "MASTER_PORT is '65535'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launchers_are_understood),
        cmocka_unit_test(meeting_places),
        cmocka_unit_test(jobs_have_places),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
