/* NCCL's library; see nccl_library.h. */
#define _GNU_SOURCE
#include "dist/nccl_library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define SYMBOL(name) \
    { "nccl" #name, offsetof(struct ig_nccl_library, name) }
static const struct {
    const char *name;
    size_t at; /* in the table */
} symbols[] = {
    SYMBOL(GetVersion),
    SYMBOL(GetErrorString),
    SYMBOL(GetLastError),
    SYMBOL(GetUniqueId),
    SYMBOL(CommInitRankConfig),
    SYMBOL(CommGetAsyncError),
    SYMBOL(CommFinalize),
    SYMBOL(CommDestroy),
    SYMBOL(CommAbort),
    SYMBOL(GroupStart),
    SYMBOL(GroupEnd),
    SYMBOL(AllReduce),
    SYMBOL(AllGather),
    SYMBOL(ReduceScatter),
    SYMBOL(Reduce),
    SYMBOL(Broadcast),
    SYMBOL(Send),
    SYMBOL(Recv),
};

enum ingot_status ig_nccl_load(const char *given, struct ig_nccl_library *l, struct ingot_error *error) {
    static const char *const names[] = {"libnccl.so.2", "libnccl.so"};
    if (given) l->file = dlopen(given, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; !given && !l->file && i < sizeof names / sizeof *names; i++)
        l->file = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!l->file && given) return IG_ERR(error, INGOT_DEVICE, "cannot load NCCL: %s", dlerror());
    if (!l->file)
        return IG_ERR(error, INGOT_DEVICE,
                      "GPUs that compute together need NCCL: found neither libnccl.so.2 nor libnccl.so (the package "
                      "libnccl2, or nvidia-nccl-cu12 of PyPI in LD_LIBRARY_PATH)");
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(l->file, symbols[i].name);
        if (!found) return IG_ERR(error, INGOT_UNSUPPORTED, "this NCCL has no %s, which 2.18 has", symbols[i].name);
        memcpy((char *)l + symbols[i].at, &found, sizeof found);
    }
    if (l->GetVersion(&l->version) != IG_NCCL_SUCCESS || l->version < IG_NCCL_OLDEST)
        return IG_ERR(error, INGOT_UNSUPPORTED, "NCCL is %d.%d: at least 2.18 is needed", l->version / 10000,
                      l->version / 100 % 100);
    return INGOT_OK;
}

void ig_nccl_unload(struct ig_nccl_library *library) {
    if (library->file) dlclose(library->file);
}
