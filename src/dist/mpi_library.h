/*
 * MPI's library, loaded by name at run time. Libraries of MPI have one API and three ABIs: what a handle is, and which
 * constants there are. MPI_Get_library_version, which takes none, tells which one it is:
 *
 *   - Open MPI 4 and 5: handles are addresses of objects that the library exports. Its plugins need its symbols to be
 *     global (RTLD_GLOBAL).
 *   - MPICH 3 and 4 and its relatives (Intel MPI, MVAPICH, Cray): handles are ints.
 *   - the standard ABI of MPI 5.0 (libmpi_abi.so; chapter 20): handles are pointers with small constants.
 *
 * Only bytes are moved, so that no types and no operations are needed: a handle of the world, one of MPI_BYTE, and one of
 * the error handler that returns. Handles are passed in registers, where an int and a pointer are passed alike; so all are
 * of the type below, of which MPICH looks at the lower half.
 */
#ifndef IG_DIST_MPI_LIBRARY_H
#define IG_DIST_MPI_LIBRARY_H

#include "base/error.h"

typedef uintptr_t ig_mpi_handle;

enum { IG_MPI_SERIALIZED = 2, IG_MPI_FUNNELED = 1 }; /* the same in all three */

struct ig_mpi_library {
    void *file;
    char version[64]; /* "Open MPI v4.1.4": the beginning of what the library says */
    ig_mpi_handle world, byte, errors_return;
    int (*Get_library_version)(char *text, int *length);
    int (*Initialized)(int *flag);
    int (*Finalized)(int *flag);
    int (*Init_thread)(int *argc, char ***argv, int required, int *provided);
    int (*Query_thread)(int *provided);
    int (*Is_thread_main)(int *flag);
    int (*Finalize)(void);
    int (*Comm_rank)(ig_mpi_handle comm, int *rank);
    int (*Comm_size)(ig_mpi_handle comm, int *size);
    int (*Comm_dup)(ig_mpi_handle comm, ig_mpi_handle *out);
    int (*Comm_free)(ig_mpi_handle *comm);
    int (*Comm_set_errhandler)(ig_mpi_handle comm, ig_mpi_handle handler);
    int (*Error_string)(int code, char *text, int *length);
    int (*Isend)(const void *data, int count, ig_mpi_handle type, int to, int tag, ig_mpi_handle comm,
                 ig_mpi_handle *request);
    int (*Irecv)(void *data, int count, ig_mpi_handle type, int from, int tag, ig_mpi_handle comm,
                 ig_mpi_handle *request);
    int (*Iallgather)(const void *from, int count, ig_mpi_handle type, void *to, int count_to, ig_mpi_handle type_to,
                      ig_mpi_handle comm, ig_mpi_handle *request);
    int (*Iallgatherv)(const void *from, int count, ig_mpi_handle type, void *to, const int *counts, const int *places,
                       ig_mpi_handle type_to, ig_mpi_handle comm, ig_mpi_handle *request);
    int (*Ialltoallv)(const void *from, const int *counts, const int *places, ig_mpi_handle type, void *to,
                      const int *counts_to, const int *places_to, ig_mpi_handle type_to, ig_mpi_handle comm,
                      ig_mpi_handle *request);
    int (*Ibcast)(void *data, int count, ig_mpi_handle type, int root, ig_mpi_handle comm, ig_mpi_handle *request);
    int (*Test)(ig_mpi_handle *request, int *flag, void *status);
};

/* Loads the library, once in a process, and leaves it loaded: libraries of MPI cannot be unloaded. `file`: its name or path;
 * NULL: by its usual names, where `launcher` says whose mpirun it was ("mpirun (MPICH)"; NULL: not known). INGOT_DEVICE if there is
 * none, with the names tried; INGOT_UNSUPPORTED if it is none of the three. */
enum ingot_status ig_mpi_load(const char *file, const char *launcher, const struct ig_mpi_library **out_library,
                              struct ingot_error *error);

#endif
