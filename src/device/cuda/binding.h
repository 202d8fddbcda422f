/*
 * What library.c asks of each library's binding, and how bindings load theirs. A library decides by sizes and alignment how
 * it does something; what was decided is a *way*, which serves any operands that are aligned as those were for which it was
 * prepared.
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
    unsigned alignment; /* bytes of which all addresses are multiples, at most 16 */
};

struct ig_cuda_binding {
    /* `file` in the place of those that ig_library_files names, unless it is NULL. INGOT_DEVICE, naming what was looked for,
     * where there is none. */
    enum ingot_status (*open)(const struct ingot_allocator *allocator, const char *file, void **out_library,
                              struct ingot_error *error);
    void (*close)(void *library);
    /* INGOT_UNSUPPORTED where the library has no way to do it. */
    enum ingot_status (*prepare)(void *library, const struct ig_cuda_call *call, void **out_way, size_t *out_workspace,
                                 struct ingot_error *error);
    void (*discard)(void *library, void *way);
    enum ingot_status (*enqueue)(void *library, const void *way, const struct ig_cuda_call *call, void *workspace,
                                 CUstream stream, struct ingot_error *error);
};

extern const struct ig_cuda_binding ig_cublaslt_binding, ig_cudnn_binding;

/* Loads `file`, or, where that is NULL, the first of the library's files that there is: for good, since such libraries have
 * threads and handlers at exit. */
enum ingot_status ig_cuda_binding_load(uint32_t library, const char *file, void **out_handle,
                                       struct ingot_error *error);
/* Sets a pointer to a function; false where the library has none of that name. */
bool ig_cuda_binding_find(void *handle, const char *symbol, void *out_function);

#endif
