/* MPI's library by its ABI; see mpi_library.h. Constants: MPICH 4.0 and Open MPI 4.1, mpi.h; MPI: A Message-Passing Interface
 * Standard, Version 5.0, appendix A. */
#define _GNU_SOURCE
#include "dist/mpi_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define MPICH_WORLD 0x44000000u
#define MPICH_BYTE 0x4c00010du
#define MPICH_ERRORS_RETURN 0x54000001u
#define ABI_WORLD 0x101u
#define ABI_BYTE 0x247u
#define ABI_ERRORS_RETURN 0x142u
enum { LONGEST_VERSION = 8192 }; /* MPI_MAX_LIBRARY_VERSION_STRING, the largest of the three */

#define SYMBOL(name) \
    { "MPI_" #name, offsetof(struct ig_mpi_library, name) }
static const struct {
    const char *name;
    size_t at; /* in the table */
} symbols[] = {
    SYMBOL(Get_library_version), SYMBOL(Initialized),    SYMBOL(Finalized), SYMBOL(Init_thread),
    SYMBOL(Query_thread),        SYMBOL(Is_thread_main), SYMBOL(Finalize),  SYMBOL(Comm_rank),
    SYMBOL(Comm_size),           SYMBOL(Comm_idup),      SYMBOL(Comm_free), SYMBOL(Comm_set_errhandler),
    SYMBOL(Error_string),        SYMBOL(Isend),          SYMBOL(Irecv),     SYMBOL(Test),
};
#define SYMBOLS (sizeof symbols / sizeof *symbols)

/* The libraries' usual names; Debian calls MPICH's by that name, others by MPI's. */
static const struct {
    const char *name, *launcher;
} names[] = {
    {"libmpi.so.40", "mpirun (Open MPI)"},
    {"libmpich.so.12", "mpirun (MPICH)"},
    {"libmpi.so.12", "mpirun (MPICH)"},
    {"libmpi_abi.so.1", NULL},
    {"libmpi_abi.so.0", NULL},
    {"libmpi_abi.so", NULL},
    {"libmpi.so", NULL},
};
#define NAMES (sizeof names / sizeof *names)

/* Fills the table from a handle of dlopen's; the name of what is missing, or NULL. */
static const char *find_symbols(void *file, struct ig_mpi_library *l) {
    for (size_t i = 0; i < SYMBOLS; i++) {
        void *found = dlsym(file, symbols[i].name);
        if (!found) return symbols[i].name;
        memcpy((char *)l + symbols[i].at, &found, sizeof found);
    }
    return NULL;
}

/* Open MPI's handles are its objects. */
static bool find_objects(void *file, struct ig_mpi_library *l) {
    l->world = (ig_mpi_handle)dlsym(file, "ompi_mpi_comm_world");
    l->byte = (ig_mpi_handle)dlsym(file, "ompi_mpi_byte");
    l->errors_return = (ig_mpi_handle)dlsym(file, "ompi_mpi_errors_return");
    return l->world && l->byte && l->errors_return;
}

/* The standard ABI's library has a name that the standard asks for; who has built it, it says as the others do. */
static bool is_standard(const struct ig_mpi_library *l) {
    Dl_info info;
    void *function;
    memcpy(&function, &l->Get_library_version, sizeof function);
    return dladdr(function, &info) && info.dli_fname && strstr(info.dli_fname, "libmpi_abi");
}

static enum ingot_status find_abi(void *file, struct ig_mpi_library *l, struct ingot_error *error) {
    char text[LONGEST_VERSION] = "";
    int length;
    if (l->Get_library_version(text, &length) != 0) text[0] = '\0';
    snprintf(l->version, sizeof l->version, "%.*s", (int)strcspn(text, ",\n"), text);
    for (char *c = l->version; *c; c++)
        if ((unsigned char)*c < ' ') *c = ' ';
    if (is_standard(l)) {
        l->world = ABI_WORLD, l->byte = ABI_BYTE, l->errors_return = ABI_ERRORS_RETURN;
        return INGOT_OK;
    }
    if (strstr(text, "Open MPI") && find_objects(file, l)) return INGOT_OK;
    if (strstr(text, "MPICH") || strstr(text, "Intel(R) MPI") || strstr(text, "MVAPICH")) {
        l->world = MPICH_WORLD, l->byte = MPICH_BYTE, l->errors_return = MPICH_ERRORS_RETURN;
        return INGOT_OK;
    }
    return IG_ERR(error, INGOT_UNSUPPORTED, "this library of MPI is none that Ingot knows: '%s'", l->version);
}

static enum ingot_status take(void *file, const char *name, struct ig_mpi_library *l, struct ingot_error *error) {
    const char *missing = find_symbols(file, l);
    if (missing) return IG_ERR(error, INGOT_UNSUPPORTED, "%s has no %s, which MPI 3.0 has", name, missing);
    return find_abi(file, l, error);
}

/* Tries the names of a launcher's library, or all others. */
static void *open_named(const char *launcher, bool others, const char **out_name) {
    for (size_t i = 0; i < NAMES; i++) {
        bool own = launcher && names[i].launcher && strcmp(names[i].launcher, launcher) == 0;
        void *file = own != others ? dlopen(names[i].name, RTLD_NOW | RTLD_GLOBAL) : NULL;
        if (!file) continue;
        *out_name = names[i].name;
        return file;
    }
    return NULL;
}

static enum ingot_status load(const char *given, const char *launcher, struct ig_mpi_library *l,
                              struct ingot_error *error) {
    const char *name = given;
    if (dlsym(RTLD_DEFAULT, "MPI_Get_library_version")) return take(RTLD_DEFAULT, "the process's library", l, error);
    if (given) {
        l->file = dlopen(given, RTLD_NOW | RTLD_GLOBAL);
        if (!l->file) return IG_ERR(error, INGOT_DEVICE, "cannot load MPI's library: %s", dlerror());
    } else {
        l->file = open_named(launcher, false, &name);
        if (!l->file) l->file = open_named(launcher, true, &name);
        if (!l->file)
            return IG_ERR(
                error, INGOT_DEVICE,
                "found no library of MPI: tried libmpi.so.40 (Open MPI), libmpich.so.12, libmpi.so.12 (MPICH), "
                "libmpi_abi.so");
    }
    return take(l->file, name, l, error);
}

enum ingot_status ig_mpi_load(const char *file, const char *launcher, const struct ig_mpi_library **out_library,
                              struct ingot_error *error) {
    /* MPI is initialised once in a process, so that its library is the process's. */
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static struct ig_mpi_library library;
    static bool is_loaded;
    enum ingot_status status = INGOT_OK;
    pthread_mutex_lock(&mutex);
    if (!is_loaded) {
        struct ig_mpi_library found = {0};
        status = load(file, launcher, &found, error);
        if (status == INGOT_OK) library = found, is_loaded = true;
        if (status != INGOT_OK && found.file) dlclose(found.file);
    }
    pthread_mutex_unlock(&mutex);
    if (status == INGOT_OK) *out_library = &library;
    return status;
}
