/*
 * What dist/mpi_test starts under mpirun: mpi_ranks FOLDER MODE [LIBRARY]. Each rank makes a file in the folder if all is as it must be,
 * or says what is wrong. Statuses and output do not tell: Open MPI takes it for an error that MPI_Finalize is not called after a
 * failure, and MPICH may lose output.
 *
 *     mpi      two groups over MPI, one after the other: every collective, and many of random sizes
 *     best     a group by the best way, which is shared memory
 *     differ   rank 1 makes another call than the others
 *     late     rank 1 comes when the others' time has passed
 *     missing  the library cannot be loaded
 *     foreign  the library is not that of this mpirun
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "dist/dist.h"

extern char **environ;

static struct ingot_error error;
static const char *library;

static int fail(const char *what) {
    fprintf(stderr, "mpi_ranks: %s\n", what);
    return 1;
}

/* Without its own mpirun, Open MPI makes a folder for a job of one process, and fails where another process makes it at
 * the same time. */
static bool have_folder_of_own(const char *folder) {
    char path[300];
    snprintf(path, sizeof path, "%s.jobs/%d", folder, (int)getpid());
    return mkdir(path, 0700) == 0 && setenv("OMPI_MCA_orte_tmpdir_base", path, 1) == 0;
}

static enum ingot_status join(enum ig_transport transport, double seconds, struct ig_group **out_seat) {
    const struct ig_join_options options = {.group = {.seconds = seconds},
                                            .environment = (const char *const *)environ,
                                            .transport = transport,
                                            .mpi_library = library};
    return ig_group_join(&options, out_seat, &error);
}

static int expect(enum ingot_status found, enum ingot_status wanted, const char *text) {
    char wrong[1200];
    if (found == wanted && strstr(error.message, text)) return 0;
    snprintf(wrong, sizeof wrong, "expected '%s' (%s), found '%s' (%s)", text, ingot_status_name(wanted),
             found ? error.message : "", ingot_status_name(found));
    return fail(wrong);
}

static unsigned next_random(unsigned *seed, unsigned below) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

enum { CALLS = 200, MOST = 400000 };

/* All-reduces of random sizes, of numbers whose sums are exact. */
static int reduce_much(struct ig_group *seat) {
    static float data[MOST];
    const uint32_t rank = ig_group_rank(seat), ranks = ig_group_ranks(seat);
    unsigned seed = 7;
    for (int i = 0; i < CALLS; i++) {
        struct ig_collective_sizes sizes = {.outer = 1, .inner = next_random(&seed, i % 10 ? 5000 : MOST)};
        for (size_t k = 0; k < sizes.inner; k++)
            data[k] = (float)((k + (size_t)i) % 1000 * (rank + 1));
        const struct ig_collective_call call = {{IG_ALL_REDUCE, INGOT_F32, 0, 0}, &sizes, data, data, "much", NULL};
        if (ig_group_call(seat, &call, &error)) return fail(error.message);
        for (size_t k = 0; k < sizes.inner; k++)
            if (data[k] != (float)((k + (size_t)i) % 1000 * (ranks * (ranks + 1) / 2))) return fail("a wrong sum");
    }
    return 0;
}

static int try_group(enum ig_transport transport, const char *wanted) {
    struct ig_group *seat;
    if (join(transport, 60, &seat)) return fail(error.message);
    if (!strstr(ig_group_transport(seat), wanted)) return fail(ig_group_transport(seat));
    if (ig_group_test(seat, &error)) return fail(error.message);
    int status = reduce_much(seat);
    ig_group_destroy(seat);
    return status;
}

static int differ(void) {
    struct ig_group *seat;
    float data[4] = {0};
    if (join(IG_TRANSPORT_MPI, 60, &seat)) return fail(error.message);
    struct ig_collective_sizes sizes = {.outer = 1, .inner = ig_group_rank(seat) == 1 ? 3 : 4};
    const struct ig_collective_call call = {{IG_ALL_REDUCE, INGOT_F32, 0, 0}, &sizes, data, data, "block 3", NULL};
    enum ingot_status status = ig_group_call(seat, &call, &error);
    return expect(status, INGOT_INCOMPATIBLE, "ranks do different things: rank ");
}

static int be_late(void) {
    struct ig_group *seat;
    if (join(IG_TRANSPORT_MPI, 60, &seat)) return fail(error.message);
    if (ig_group_barrier(seat, "before", &error)) return fail(error.message);
    ig_group_set_time_limit(seat, 0.3);
    const bool late = ig_group_rank(seat) == 1;
    if (late) nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 500000000}, NULL);
    enum ingot_status status = ig_group_barrier(seat, "block 3", &error);
    if (late) {
        /* What the others sent before they gave up is there. */
        if (status == INGOT_OK) status = ig_group_barrier(seat, "block 4", &error);
        return expect(status, INGOT_DEVICE, "ended the group: all_gather 'block 3' (call 3): rank ");
    }
    int wrong = expect(status, INGOT_TIMEOUT, "waited 0.3 s for rank 1 over ");
    return wrong;
}

static int run(const char *mode) {
    struct ig_group *seat;
    if (strcmp(mode, "mpi") == 0) return try_group(IG_TRANSPORT_MPI, "MPI (") || try_group(IG_TRANSPORT_MPI, "MPI (");
    if (strcmp(mode, "best") == 0)
        return try_group(IG_TRANSPORT_BEST, "shared memory") || try_group(IG_TRANSPORT_BEST, "shared memory");
    if (strcmp(mode, "differ") == 0) return differ();
    if (strcmp(mode, "late") == 0) return be_late();
    if (strcmp(mode, "missing") == 0)
        return expect(join(IG_TRANSPORT_MPI, 60, &seat), INGOT_DEVICE, "cannot load MPI's library: /nowhere/libmpi.so");
    if (strcmp(mode, "foreign") == 0)
        return expect(join(IG_TRANSPORT_MPI, 60, &seat), INGOT_INCOMPATIBLE,
                      "the library and the launcher must belong together");
    return fail("no such mode");
}

int main(int argc, char **argv) {
    char path[300];
    if (argc < 3) return 2;
    alarm(100);
    library = argc > 3 ? argv[3] : NULL;
    if (strcmp(argv[2], "foreign") == 0 && !have_folder_of_own(argv[1])) return fail("no folder for a job");
    if (run(argv[2]) != 0) return 1;
    snprintf(path, sizeof path, "%s/%d", argv[1], (int)getpid());
    FILE *file = fopen(path, "w");
    if (!file) return 1;
    fclose(file);
    /* Open MPI's mpirun ends a job as soon as one rank has ended without MPI_Finalize. */
    if (strcmp(argv[2], "differ") == 0 || strcmp(argv[2], "late") == 0)
        nanosleep(&(struct timespec){.tv_sec = 3}, NULL);
    return 0;
}
