/*
 * GPU memory that processes share: an allocation of the driver's virtual memory management, mapped into each process's
 * addresses, and passed on as a file descriptor. Unlike the older IPC handles, whose memory is gone for all when its
 * owner frees it or dies, it is counted: by the processes that map it, and by open descriptors. Allocations have the
 * granularity of the GPU's large pages, 2 MiB, so this is not for everything.
 */
#include "device/cuda/context.h"

static CUmemAllocationProp properties_of(const struct ig_cuda *cuda) {
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, cuda->handle}};
}

static enum ingot_status check_support(struct ig_cuda *cuda, struct ingot_error *error) {
    int mapped = 0, passed = 0;
    IG_CUDA_TRY(cuda, error, "cannot ask the GPU whether its memory can be shared", cuDeviceGetAttribute, &mapped,
                CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, cuda->handle);
    IG_CUDA_TRY(cuda, error, "cannot ask the GPU whether its memory can be shared", cuDeviceGetAttribute, &passed,
                CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, cuda->handle);
    if (mapped && passed) return INGOT_OK;
    return IG_ERR(error, INGOT_UNSUPPORTED, "%s has no memory that processes can share: its driver does not support %s",
                  cuda->info.name, mapped ? "file descriptors of it" : "virtual memory management");
}

/* Rounds up to what the driver allocates and maps. */
static enum ingot_status round_up(struct ig_cuda *cuda, size_t size, size_t *out_size, struct ingot_error *error) {
    const CUmemAllocationProp properties = properties_of(cuda);
    size_t padded;
    IG_TRY(check_support(cuda, error));
    IG_CUDA_TRY(cuda, error, "cannot ask the GPU for the granularity of its memory", cuMemGetAllocationGranularity,
                &cuda->shared_unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (cuda->shared_unit == 0 || !ig_size_add(size ? size : 1, cuda->shared_unit - 1, &padded))
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of GPU memory: %zu bytes to share wanted", size);
    *out_size = padded / cuda->shared_unit * cuda->shared_unit;
    return INGOT_OK;
}

static CUresult map_at(struct ig_cuda *cuda, CUdeviceptr address, size_t size, CUmemGenericAllocationHandle memory) {
    const CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, cuda->handle},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = IG_CUDA(cuda, cuMemMap, address, size, 0, memory, 0);
    if (result != CUDA_SUCCESS) return result;
    result = IG_CUDA(cuda, cuMemSetAccess, address, size, &access, 1);
    if (result != CUDA_SUCCESS) IG_CUDA(cuda, cuMemUnmap, address, size);
    return result;
}

static CUresult map(struct ig_cuda *cuda, size_t size, CUmemGenericAllocationHandle memory, CUdeviceptr *out_address) {
    CUdeviceptr address = 0;
    CUresult result = IG_CUDA(cuda, cuMemAddressReserve, &address, size, 0, 0, 0);
    if (result != CUDA_SUCCESS) return result;
    result = map_at(cuda, address, size, memory);
    if (result != CUDA_SUCCESS)
        IG_CUDA(cuda, cuMemAddressFree, address, size);
    else
        *out_address = address;
    return result;
}

enum ingot_status ig_cuda_allocate_shared(struct ig_cuda *cuda, size_t size, void **out_memory,
                                          struct ingot_error *error) {
    const CUmemAllocationProp properties = properties_of(cuda);
    CUmemGenericAllocationHandle memory = 0;
    CUdeviceptr address = 0;
    size_t rounded = 0;
    IG_TRY(round_up(cuda, size, &rounded, error));
    CUresult result = IG_CUDA(cuda, cuMemCreate, &memory, rounded, &properties, 0);
    if (result == CUDA_SUCCESS) {
        result = map(cuda, rounded, memory, &address);
        IG_CUDA(cuda, cuMemRelease, memory); /* the mapping keeps it */
    }
    IG_TRY(ig_cuda_driver_check(&cuda->driver, result, error, "cannot allocate %zu bytes of GPU memory to share",
                                rounded));
    *out_memory = (void *)(uintptr_t)address;
    return INGOT_OK;
}

enum ingot_status ig_cuda_export_shared(struct ig_cuda *cuda, void *memory, int *out_descriptor,
                                        struct ingot_error *error) {
    static const char failed[] = "cannot export GPU memory";
    CUmemGenericAllocationHandle handle = 0;
    int descriptor = -1;
    IG_CUDA_TRY(cuda, error, failed, cuMemRetainAllocationHandle, &handle, memory);
    enum ingot_status status = IG_CUDA_STATUS(cuda, error, failed, cuMemExportToShareableHandle, &descriptor, handle,
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    IG_CUDA(cuda, cuMemRelease, handle);
    if (status == INGOT_OK) *out_descriptor = descriptor;
    return status;
}

enum ingot_status ig_cuda_import_shared(struct ig_cuda *cuda, int descriptor, size_t size, void **out_memory,
                                        struct ingot_error *error) {
    CUmemGenericAllocationHandle memory = 0;
    CUdeviceptr address = 0;
    size_t rounded = 0;
    IG_TRY(round_up(cuda, size, &rounded, error));
    /* This handle type's argument is the descriptor itself, not its address. */
    CUresult result = IG_CUDA(cuda, cuMemImportFromShareableHandle, &memory, (void *)(intptr_t)descriptor,
                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result == CUDA_SUCCESS) {
        result = map(cuda, rounded, memory, &address);
        IG_CUDA(cuda, cuMemRelease, memory);
    }
    IG_TRY(ig_cuda_driver_check(&cuda->driver, result, error,
                                "cannot import %zu bytes of GPU memory by file descriptor %d", rounded, descriptor));
    *out_memory = (void *)(uintptr_t)address;
    return INGOT_OK;
}

/* Failures cannot be handled here. Needs no current context, so that it also works on a lost GPU. */
void ig_cuda_release_shared(struct ig_cuda *cuda, void *memory, size_t size) {
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)memory;
    size_t rounded = ((size ? size : 1) + cuda->shared_unit - 1) / cuda->shared_unit * cuda->shared_unit;
    IG_CUDA(cuda, cuMemUnmap, address, rounded);
    IG_CUDA(cuda, cuMemAddressFree, address, rounded);
}
