/*
 * Which rank a process is, by the environment that it was started with. Nothing here reads the process's own environment:
 * callers pass it, as they pass options.
 *
 *     INGOT_RANK, INGOT_RANKS, INGOT_RENDEZVOUS               by hand; they come before all others
 *     OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE   mpirun of Open MPI
 *     PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS    mpirun of MPICH and its relatives
 *     SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, …    srun
 *     RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE          torchrun, with MASTER_ADDR and MASTER_PORT
 */
#ifndef IG_DIST_PLACE_H
#define IG_DIST_PLACE_H

#include "dist/links.h"

struct ig_place {
    uint32_t rank, ranks;
    uint32_t local_rank, local_ranks; /* on this host; local_ranks 0: not known */
    const char *launcher;             /* "mpirun (Open MPI)"; a static string */
    bool is_mpi;                      /* it starts ranks of MPI */
    char address[IG_ADDRESS_SIZE];    /* where they meet; empty: nowhere but through MPI */
};

/* `environment`: "NAME=value" …, NULL, like environ. INGOT_INVALID_ARGUMENT: nothing there says which rank this is, or it
 * makes no sense. */
enum ingot_status ig_place_read(const char *const *environment, struct ig_place *out_place, struct ingot_error *error);

/* A path for a Unix socket of that name in a folder of this user's alone: $XDG_RUNTIME_DIR, or else one in /tmp, which is
 * made. INGOT_IO: there is no such folder. */
enum ingot_status ig_place_path(const char *const *environment, const char *name, char out_path[IG_ADDRESS_SIZE],
                                struct ingot_error *error);

#endif
