/* Loads the driver and formats its errors; see driver.h. */
#include "device/cuda/driver.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* POSIX guarantees that functions found by dlsym can be called, but ISO C has no cast for it. */
static bool find(void *library, const char *symbol, void *out_function) {
    void *address = dlsym(library, symbol);
    memcpy(out_function, &address, sizeof address);
    return address != NULL;
}

/* Uses only functions that every driver has. */
static enum ingot_status check_version(struct ig_cuda_driver *driver, const char *name, struct ingot_error *error) {
    if (!find(driver->library, "cuInit", &driver->cuInit) ||
        !find(driver->library, "cuDriverGetVersion", &driver->cuDriverGetVersion) ||
        !find(driver->library, "cuGetErrorName", &driver->cuGetErrorName) ||
        !find(driver->library, "cuGetErrorString", &driver->cuGetErrorString))
        return IG_ERR(error, INGOT_DEVICE, "%s is no NVIDIA driver", name);
    IG_TRY(ig_cuda_driver_check(driver, driver->cuDriverGetVersion(&driver->version), error,
                                "cannot ask the NVIDIA driver for its version"));
    if (driver->version < IG_CUDA_OLDEST_DRIVER)
        return IG_ERR(error, INGOT_DEVICE,
                      "the NVIDIA driver is too old: it is for CUDA %d.%d, Ingot needs one for CUDA %d.%d or later",
                      driver->version / 1000, driver->version % 1000 / 10, IG_CUDA_OLDEST_DRIVER / 1000,
                      IG_CUDA_OLDEST_DRIVER % 1000 / 10);
    return INGOT_OK;
}

static enum ingot_status find_functions(struct ig_cuda_driver *driver, const char *name, struct ingot_error *error) {
#define FIND(function, symbol, parameters)                 \
    if (!find(driver->library, symbol, &driver->function)) \
        return IG_ERR(error, INGOT_DEVICE, "the NVIDIA driver %s has no %s", name, symbol);
    IG_CUDA_FUNCTIONS(FIND)
#undef FIND
    return INGOT_OK;
}

enum ingot_status ig_cuda_driver_load(struct ig_cuda_driver *driver, const char *library, struct ingot_error *error) {
    const char *name = library ? library : IG_CUDA_LIBRARY;
    *driver = (struct ig_cuda_driver){0};
    /* Never unloaded, since a driver starts threads and registers exit handlers. */
    driver->library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!driver->library) {
        const char *reason = dlerror();
        return IG_ERR(error, INGOT_DEVICE, "no NVIDIA driver: cannot load %s (%s)", name, reason ? reason : "unknown");
    }
    dlclose(driver->library); /* drops the reference; the library stays */
    IG_TRY(check_version(driver, name, error));
    IG_TRY(find_functions(driver, name, error));
    return ig_cuda_driver_check(driver, driver->cuInit(0), error, "cannot initialise the NVIDIA driver");
}

bool ig_cuda_driver_is_lost(CUresult result) {
    switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT: return true;
    default: return result >= CUDA_ERROR_HARDWARE_STACK_ERROR && result <= CUDA_ERROR_LAUNCH_FAILED;
    }
}

/* What a caller must know about such a failure: it is not this context's alone, and there is a way back. */
#define LOST                                                                                                     \
    "; no context in this process can use the GPU any more: destroy all contexts on it and release all leases, " \
    "arenas and holds of it, then create new ones"

enum ingot_status ig_cuda_driver_check(const struct ig_cuda_driver *driver, CUresult result, struct ingot_error *error,
                                       const char *what, ...) {
    if (result == CUDA_SUCCESS) return INGOT_OK;
    char text[256];
    va_list arguments;
    va_start(arguments, what);
    vsnprintf(text, sizeof text, what, arguments);
    va_end(arguments);
    const char *name = NULL, *meaning = NULL;
    driver->cuGetErrorName(result, &name);
    driver->cuGetErrorString(result, &meaning);
    enum ingot_status status = result == CUDA_ERROR_OUT_OF_MEMORY ? INGOT_OUT_OF_MEMORY : INGOT_DEVICE;
    if (!name)
        return IG_ERR(error, status, "%s: error %d of the NVIDIA driver%s", text, result,
                      ig_cuda_driver_is_lost(result) ? LOST : "");
    return IG_ERR(error, status, "%s: %s (%s)%s", text, name, meaning ? meaning : "no text",
                  ig_cuda_driver_is_lost(result) ? LOST : "");
}
