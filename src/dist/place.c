/* Ranks by what launchers say; see place.h. */
#include "dist/place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A launcher's variables; NULL: it has none such. */
struct launcher {
    const char *name;
    const char *rank, *ranks, *local_rank, *local_ranks;
    const char *job[2]; /* which together no other job on this host has */
    bool is_mpi;
    bool by_parent; /* its jobs have no names, but its processes have one parent */
};

static const struct launcher launchers[] = {
    {"INGOT_RANK", "INGOT_RANK", "INGOT_RANKS", NULL, NULL, {NULL, NULL}, false, false},
    {"mpirun (Open MPI)",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
     true,
     false},
    {"mpirun (MPICH)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", {NULL, NULL}, true, true},
    {"srun",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     "SLURM_STEP_TASKS_PER_NODE",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     true,
     false},
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"TORCHELASTIC_RUN_ID", "MASTER_PORT"},
     false,
     false},
};
#define LAUNCHERS (sizeof launchers / sizeof *launchers)

static const char *variable(const char *const *environment, const char *name) {
    size_t length = name ? strlen(name) : 0;
    for (; name && *environment; environment++)
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') return *environment + length + 1;
    return NULL;
}

/* ---- Numbers ----------------------------------------------------------------------------------------------------- */

static enum ingot_status read_number(const char *const *environment, const char *name, uint32_t most, uint32_t *out,
                                     struct ingot_error *error) {
    const char *text = variable(environment, name);
    char *end;
    if (!text) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "which rank this is, is not clear: %s is not set", name);
    unsigned long number = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || number > most)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "%s is '%s', wanted a number up to %u", name, text, most);
    *out = (uint32_t)number;
    return INGOT_OK;
}

/* One that may be missing, or be more than a number ("2(x3)"): then it is 0. */
static uint32_t optional(const char *const *environment, const char *name) {
    const char *text = variable(environment, name);
    char *end;
    unsigned long number = text ? strtoul(text, &end, 10) : 0;
    return text && !*end && number <= IG_MOST_RANKS ? (uint32_t)number : 0;
}

/* ---- Where they meet --------------------------------------------------------------------------------------------- */

static bool is_own_folder(const char *path) {
    struct stat found;
    return lstat(path, &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
           (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

enum ingot_status ig_place_path(const char *const *environment, const char *name, char out_path[IG_ADDRESS_SIZE],
                                struct ingot_error *error) {
    const char *folder = variable(environment, "XDG_RUNTIME_DIR");
    char own[64];
    if (!folder || folder[0] != '/' || strlen(folder) > 60 || !is_own_folder(folder)) {
        snprintf(own, sizeof own, "/tmp/ingot-%u", (unsigned)geteuid());
        folder = own;
        if ((mkdir(own, 0700) != 0 && errno != EEXIST) || !is_own_folder(own))
            return IG_ERR(error, INGOT_IO, "the ranks have no folder to meet in: '%s' is not one of this user's alone",
                          own);
    }
    snprintf(out_path, IG_ADDRESS_SIZE, "%s/ingot-%s", folder, name);
    return INGOT_OK;
}

/* A name that processes of one job agree on. Jobs' names may have any length and characters: it has their hash. */
static void name_job(const char *const *environment, const struct launcher *launcher, char *out_name, size_t size) {
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (int i = 0; i < 2; i++) {
        const char *text = variable(environment, launcher->job[i]);
        for (; text && *text; text++)
            hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    }
    snprintf(out_name, size, "%016llx-%ld", (unsigned long long)hash, launcher->by_parent ? (long)getppid() : 0L);
}

static enum ingot_status find_address(const char *const *environment, const struct launcher *launcher,
                                      struct ig_place *place, struct ingot_error *error) {
    const char *given = variable(environment, "INGOT_RENDEZVOUS"), *host = variable(environment, "MASTER_ADDR");
    char name[64];
    uint32_t port;
    if (given) {
        if (strlen(given) >= sizeof place->address)
            return IG_ERR(error, INGOT_INVALID_ARGUMENT, "INGOT_RENDEZVOUS is longer than %zu characters",
                          sizeof place->address - 1);
        strcpy(place->address, given);
        return INGOT_OK;
    }
    if (launcher == &launchers[0])
        return place->ranks == 1 ? INGOT_OK
                                 : IG_ERR(error, INGOT_INVALID_ARGUMENT,
                                          "INGOT_RANKS is %u, but INGOT_RENDEZVOUS does not say where they meet: "
                                          "HOST:PORT, or a path",
                                          place->ranks);
    if (place->local_ranks == place->ranks) {
        name_job(environment, launcher, name, sizeof name);
        return ig_place_path(environment, name, place->address, error);
    }
    if (launcher->is_mpi || !host) return INGOT_OK;
    /* torchrun's own store listens at MASTER_PORT. */
    IG_TRY(read_number(environment, "MASTER_PORT", 65534, &port, error));
    if (snprintf(place->address, sizeof place->address, "%s:%u", host, port + 1) >= (int)sizeof place->address)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "MASTER_ADDR is too long");
    return INGOT_OK;
}

enum ingot_status ig_place_read(const char *const *environment, struct ig_place *out_place, struct ingot_error *error) {
    static const char *const nothing[] = {NULL};
    const struct launcher *launcher = NULL;
    struct ig_place place = {0};
    if (!environment) environment = nothing;
    for (size_t i = 0; !launcher && i < LAUNCHERS; i++)
        if (variable(environment, launchers[i].rank)) launcher = &launchers[i];
    if (!launcher)
        return IG_ERR(
            error, INGOT_INVALID_ARGUMENT,
            "nothing says which rank this is: start the ranks with mpirun, srun or torchrun, or set INGOT_RANK, "
            "INGOT_RANKS and INGOT_RENDEZVOUS");
    IG_TRY(read_number(environment, launcher->rank, IG_MOST_RANKS, &place.rank, error));
    IG_TRY(read_number(environment, launcher->ranks, IG_MOST_RANKS, &place.ranks, error));
    if (place.ranks == 0 || place.rank >= place.ranks)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "%s is %u, and %s is %u", launcher->rank, place.rank,
                      launcher->ranks, place.ranks);
    place.launcher = launcher->name;
    place.is_mpi = launcher->is_mpi;
    place.local_rank = optional(environment, launcher->local_rank);
    place.local_ranks = optional(environment, launcher->local_ranks);
    IG_TRY(find_address(environment, launcher, &place, error));
    *out_place = place;
    return INGOT_OK;
}
