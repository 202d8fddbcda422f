/*
 * A stand-in for a library with the standard ABI of MPI 5.0: it passes the calls that Ingot makes on to MPICH's library, whose
 * handles are ints, and refuses what is no handle of the standard's. Handles: MPI 5.0, appendix A, as in the MPI Forum's mpi.h.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

typedef uintptr_t handle; /* a pointer in the standard's header */

enum { ABI_WORLD = 0x101, ABI_BYTE = 0x247, ABI_ERRORS_RETURN = 0x142, ERR_COMM = 5, ERR_TYPE = 3, ERR_ARG = 13 };

static void *find(const char *name) {
    static void *file;
    if (!file) file = dlopen("libmpich.so.12", RTLD_NOW | RTLD_LOCAL);
    void *found = file ? dlsym(file, name) : NULL;
    if (!found) abort();
    return found;
}
#define CALL(name, type) ((int(*) type)(uintptr_t)find(#name))

/* Communicators that MPICH has made go through as they are: none of them is as small as the standard's own. */
static int comm_of(handle comm) {
    return comm == ABI_WORLD ? 0x44000000 : comm > 0xfff ? (int)comm : 0;
}

int MPI_Get_library_version(char *text, int *length) {
    return CALL(MPI_Get_library_version, (char *, int *))(text, length);
}

int MPI_Initialized(int *flag) {
    return CALL(MPI_Initialized, (int *))(flag);
}

int MPI_Finalized(int *flag) {
    return CALL(MPI_Finalized, (int *))(flag);
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    return CALL(MPI_Init_thread, (int *, char ***, int, int *))(argc, argv, required, provided);
}

int MPI_Query_thread(int *provided) {
    return CALL(MPI_Query_thread, (int *))(provided);
}

int MPI_Is_thread_main(int *flag) {
    return CALL(MPI_Is_thread_main, (int *))(flag);
}

int MPI_Finalize(void) {
    return CALL(MPI_Finalize, (void))();
}

int MPI_Comm_rank(handle comm, int *rank) {
    return comm_of(comm) ? CALL(MPI_Comm_rank, (int, int *))(comm_of(comm), rank) : ERR_COMM;
}

int MPI_Comm_size(handle comm, int *size) {
    return comm_of(comm) ? CALL(MPI_Comm_size, (int, int *))(comm_of(comm), size) : ERR_COMM;
}

int MPI_Comm_idup(handle comm, handle *out, handle *request) {
    return comm_of(comm) ? CALL(MPI_Comm_idup, (int, handle *, handle *))(comm_of(comm), out, request) : ERR_COMM;
}

int MPI_Comm_free(handle *comm) {
    return CALL(MPI_Comm_free, (handle *))(comm);
}

int MPI_Comm_set_errhandler(handle comm, handle handler) {
    if (handler != ABI_ERRORS_RETURN) return ERR_ARG;
    return comm_of(comm) ? CALL(MPI_Comm_set_errhandler, (int, int))(comm_of(comm), 0x54000001) : ERR_COMM;
}

int MPI_Error_string(int code, char *text, int *length) {
    return CALL(MPI_Error_string, (int, char *, int *))(code, text, length);
}

int MPI_Isend(const void *data, int count, handle type, int to, int tag, handle comm, handle *request) {
    if (type != ABI_BYTE || !comm_of(comm)) return ERR_TYPE;
    return CALL(MPI_Isend, (const void *, int, int, int, int, int, handle *))(data, count, 0x4c00010d, to, tag,
                                                                              comm_of(comm), request);
}

int MPI_Irecv(void *data, int count, handle type, int from, int tag, handle comm, handle *request) {
    if (type != ABI_BYTE || !comm_of(comm)) return ERR_TYPE;
    return CALL(MPI_Irecv, (void *, int, int, int, int, int, handle *))(data, count, 0x4c00010d, from, tag,
                                                                        comm_of(comm), request);
}

int MPI_Test(handle *request, int *flag, void *status) {
    return CALL(MPI_Test, (handle *, int *, void *))(request, flag, status);
}
