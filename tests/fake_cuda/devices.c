/* What the stand-in's GPUs are, and the texts of errors. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "fake_cuda/call.h"
#include "fake_cuda/fake_cuda.h"

#define EXPORT __attribute__((visibility("default")))
#define CALL(needs_context)                                    \
    do {                                                       \
        CUresult result_ = fake_call(__func__, needs_context); \
        if (result_ != CUDA_SUCCESS) return result_;           \
    } while (0)

EXPORT CUresult cuInit(unsigned flags) {
    CALL(false);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int *version) {
    CALL(false);
    *version = fake_cuda_state()->version;
    return CUDA_SUCCESS;
}

/* ---- Errors ---------------------------------------------------------------------------------------------------------- */

static char failures[FAKE_DEVICES][FAKE_REASON]; /* reasons; "": none */
static _Thread_local char taken[FAKE_REASON];    /* the last that this thread took */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void fake_fail_later(int device, const char *why) {
    pthread_mutex_lock(&mutex);
    snprintf(failures[device], FAKE_REASON, "%s", why);
    pthread_mutex_unlock(&mutex);
}

bool fake_has_failed(int device) {
    pthread_mutex_lock(&mutex);
    bool failed = failures[device][0] != '\0';
    pthread_mutex_unlock(&mutex);
    return failed;
}

CUresult fake_take_failure(int device) {
    pthread_mutex_lock(&mutex);
    bool failed = failures[device][0] != '\0';
    if (failed) memcpy(taken, failures[device], FAKE_REASON);
    failures[device][0] = '\0';
    pthread_mutex_unlock(&mutex);
    return failed ? 700 : CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **text) {
    *text = error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : NULL;
    if (error == CUDA_ERROR_NO_DEVICE) *text = "CUDA_ERROR_NO_DEVICE";
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **text) {
    *text = error == 700 ? "an illegal memory access was encountered" : "some text";
    if (error == 700 && taken[0]) *text = taken;
    return CUDA_SUCCESS;
}

/* ---- GPUs ------------------------------------------------------------------------------------------------------------ */

EXPORT CUresult cuDeviceGetCount(int *out_count) {
    CALL(false);
    *out_count = fake_cuda_state()->devices;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    CALL(false);
    *device = ordinal;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
    CALL(false);
    snprintf(name, (size_t)length, "Fake %d", device);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    CALL(false);
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = fake_cuda_state()->sm / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = fake_cuda_state()->sm % 10; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 3; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = fake_cuda_state()->shared ? fake_cuda_state()->shared : 100000;
        break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: *value = fake_cuda_state()->pools; break;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: *value = !fake_cuda_state()->no_mapping; break;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
        *value = !fake_cuda_state()->no_descriptors;
        break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = 1000000; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 2000000; break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 64; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 1 << 20; break;
    default: fake_misuse(__func__, "unknown attribute");
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    CALL(false);
    *bytes = fake_cuda_state()->memory;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    CALL(false);
    for (int i = 0; i < 16; i++)
        uuid->bytes[i] = (char)(16 * device + i);
    return CUDA_SUCCESS;
}
