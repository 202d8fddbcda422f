/*
 * MPI's library, loaded by name at run time. Libraries of MPI have one API and three ABIs: what a handle is, and which
 * constants there are. MPI_Get_library_version, which takes none, tells which one it is:
 *
 *   - Open MPI 4 and 5: handles are addresses of objects that the library exports. Its plugins need its symbols to be
 *     global (RTLD_GLOBAL).
 *   - MPICH 3 and 4 and its relatives (Intel MPI, MVAPICH, Cray): handles are ints.
 *   - the standard ABI of MPI 5.0 (chapter 20), libmpi_abi.so: handles are pointers with small constants.
 *
 * Ranks exchange bytes in pairs and nothing else, so that few constants are needed: the world, MPI_BYTE and the error
 * handler that returns. Handles go through registers and little-endian memory, where an int and a pointer differ in
 * their upper half only: all are of the type below, of which MPICH sees the lower half.
 */
#ifndef IG_DIST_MPI_LIBRARY_H
#define IG_DIST_MPI_LIBRARY_H

#include "base/error.h"

typedef uintptr_t ig_mpi_handle;

enum { IG_MPI_FUNNELED = 1, IG_MPI_SERIALIZED = 2 }; /* the same in all three */

struct ig_mpi_library {
    void *file;       /* NULL: the process has it already */
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
    int (*Comm_idup)(ig_mpi_handle comm, ig_mpi_handle *out, ig_mpi_handle *request);
    int (*Comm_free)(ig_mpi_handle *comm);
    int (*Comm_set_errhandler)(ig_mpi_handle comm, ig_mpi_handle handler);
    int (*Error_string)(int code, char *text, int *length);
    int (*Isend)(const void *data, int count, ig_mpi_handle type, int to, int tag, ig_mpi_handle comm,
                 ig_mpi_handle *request);
    int (*Irecv)(void *data, int count, ig_mpi_handle type, int from, int tag, ig_mpi_handle comm,
                 ig_mpi_handle *request);
    int (*Test)(ig_mpi_handle *request, int *flag, void *status); /* a status has at most 32 bytes */
};

/* The library that the process has already, or else the one of that file or, if it is NULL, by its usual names, those of
 * the launcher first ("mpirun (MPICH)"). It is loaded once, and stays loaded: libraries of MPI cannot be unloaded.
 * INGOT_DEVICE if there is none, with the names tried; INGOT_UNSUPPORTED if it is none of the three. */
enum ingot_status ig_mpi_load(const char *file, const char *launcher, const struct ig_mpi_library **out_library,
                              struct ingot_error *error);

#endif
