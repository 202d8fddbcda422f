/*
 * The interface between library.c and the binding of each vendor library. A library chooses an algorithm by sizes and
 * alignment; the prepared choice is a *way*. It serves all operands with the sizes and at least the alignment that it
 * was prepared for.
 */
#ifndef IG_DEVICE_CUDA_BINDING_H
#define IG_DEVICE_CUDA_BINDING_H

#include "base/library.h"
#include "base/memory.h"
#include "device/cuda/driver.h"

struct ig_cuda_call {
    const struct ig_library_call *what;
    const int64_t *sizes;
    void *const *operands;
    unsigned alignment; /* in bytes, of the least aligned address; at most 16 */
};

struct ig_cuda_binding {
    /* `file`: replaces the names of ig_library_files; NULL: those. INGOT_DEVICE, naming the files tried, if there is
     * none. */
    enum ingot_status (*open)(const struct ingot_allocator *allocator, const char *file, void **out_library,
                              struct ingot_error *error);
    void (*close)(void *library);
    /* INGOT_UNSUPPORTED if the library cannot carry out the call. */
    enum ingot_status (*prepare)(void *library, const struct ig_cuda_call *call, void **out_way, size_t *out_workspace,
                                 struct ingot_error *error);
    void (*discard)(void *library, void *way);
    enum ingot_status (*enqueue)(void *library, const void *way, const struct ig_cuda_call *call, void *workspace,
                                 CUstream stream, struct ingot_error *error);
};

extern const struct ig_cuda_binding ig_cublaslt_binding, ig_cudnn_binding;

/* Loads `file` or, if NULL, the first of the library's files that exists. It is never unloaded, since such libraries
 * start threads and register exit handlers. */
enum ingot_status ig_cuda_binding_load(uint32_t library, const char *file, void **out_handle,
                                       struct ingot_error *error);
/* Looks up a function and stores its address; false if the library does not have it. */
bool ig_cuda_binding_find(void *handle, const char *symbol, void *out_function);

#endif
