/* Loads vendor libraries; see binding.h. */
#include "device/cuda/binding.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* POSIX guarantees that functions found by dlsym can be called, but ISO C has no cast for it. */
bool ig_cuda_binding_find(void *handle, const char *symbol, void *out_function) {
    void *address = dlsym(handle, symbol);
    memcpy(out_function, &address, sizeof address);
    return address != NULL;
}

static void *open_file(const char *file) {
    return dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

/* Opens the first loadable library of a comma-separated list. */
static void *open_first(const char *files) {
    char name[64];
    while (*files) {
        size_t length = strcspn(files, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, files);
        void *handle = open_file(name);
        if (handle) return handle;
        files += length + strspn(files + length, ", ");
    }
    return NULL;
}

enum ingot_status ig_cuda_binding_load(uint32_t library, const char *file, void **out_handle,
                                       struct ingot_error *error) {
    const char *files = file ? file : ig_library_files(library);
    void *handle = file ? open_file(file) : open_first(files);
    if (!handle) {
        const char *reason = dlerror();
        bool several = strchr(files, ',') != NULL;
        return IG_ERR(error, INGOT_DEVICE, "cannot load %s%s (%s)", several ? "any of " : "", files,
                      reason ? reason : "unknown");
    }
    *out_handle = handle;
    return INGOT_OK;
}
