/* The stand-in's memory that processes share: a file in memory, mapped where it is used. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_cuda/call.h"
#include "fake_cuda/fake_cuda.h"

#define EXPORT __attribute__((visibility("default")))
#define CALL()                                       \
    do {                                             \
        CUresult result_ = fake_call(__func__, 0);   \
        if (result_ != CUDA_SUCCESS) return result_; \
    } while (0)
enum { UNIT = 1 << 21 };

extern fake_cuda_state_function fake_cuda_state;

/* A handle is the address of one of these. */
struct allocation {
    int file, references;
    size_t size;
};

/* Reserved addresses. */
struct range {
    char *begin;
    size_t size;
    struct allocation *mapped; /* NULL: nothing */
    bool open;                 /* kernels have access */
    struct range *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct range *ranges;

static struct allocation *allocation_of(CUmemGenericAllocationHandle memory) {
    return (struct allocation *)(uintptr_t)memory;
}

static void change_references(struct allocation *a, int change) {
    pthread_mutex_lock(&mutex);
    bool last = (a->references += change) == 0;
    pthread_mutex_unlock(&mutex);
    fake_count(change, 0);
    if (!last) return;
    close(a->file);
    free(a);
}

/* Takes the file over. */
static CUmemGenericAllocationHandle new_allocation(int file, size_t size) {
    struct allocation *a = malloc(sizeof *a);
    if (!a) abort();
    *a = (struct allocation){.file = file, .references = 0, .size = size};
    change_references(a, 1);
    return (uintptr_t)a;
}

/* Removes the range if `remove`. NULL, and a misuse, if there is none. */
static struct range *find(const char *function, CUdeviceptr address, size_t size, bool remove) {
    pthread_mutex_lock(&mutex);
    struct range **at = &ranges;
    while (*at && (CUdeviceptr)(uintptr_t)(*at)->begin != address)
        at = &(*at)->next;
    struct range *found = *at;
    if (found && remove) *at = found->next;
    pthread_mutex_unlock(&mutex);
    if (!found || found->size != size) fake_misuse(function, "not a reserved range");
    return found;
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties, int option) {
    CALL();
    *granularity = UNIT;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *memory, size_t size, const CUmemAllocationProp *properties,
                            uint64_t flags) {
    CALL();
    if (size % UNIT || properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        fake_misuse(__func__, "memory of that kind");
    if (size > fake_cuda_state()->memory) return CUDA_ERROR_OUT_OF_MEMORY;
    int file = memfd_create("fake-cuda", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)size) != 0) abort();
    fake_count(0, (int64_t)size); /* for good: nobody knows when the last process has gone */
    *memory = new_allocation(file, size);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle memory) {
    CUresult result = fake_call(__func__, false);
    change_references(allocation_of(memory), -1);
    return result;
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wish,
                                    uint64_t flags) {
    CALL();
    struct range *range = calloc(1, sizeof *range);
    void *begin = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!range || begin == MAP_FAILED) abort();
    *range = (struct range){.begin = begin, .size = size};
    pthread_mutex_lock(&mutex);
    range->next = ranges;
    ranges = range;
    pthread_mutex_unlock(&mutex);
    fake_count(1, 0);
    *address = (uintptr_t)begin;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
    CUresult result = fake_call(__func__, false);
    struct range *range = find(__func__, address, size, true);
    if (!range) return CUDA_ERROR_INVALID_VALUE;
    if (range->mapped) fake_misuse(__func__, "still mapped");
    munmap(range->begin, range->size);
    free(range);
    fake_count(-1, 0);
    return result;
}

EXPORT CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle memory,
                         uint64_t flags) {
    CALL();
    struct range *range = find(__func__, address, size, false);
    struct allocation *a = allocation_of(memory);
    if (!range || range->mapped || offset || size > a->size) return CUDA_ERROR_INVALID_VALUE;
    if (mmap(range->begin, size, PROT_NONE, MAP_SHARED | MAP_FIXED, a->file, 0) == MAP_FAILED) abort();
    range->mapped = a;
    change_references(a, 1);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
    CUresult result = fake_call(__func__, false);
    struct range *range = find(__func__, address, size, false);
    if (!range || !range->mapped) {
        fake_misuse(__func__, "not mapped");
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct fake_code *code = &fake_cuda_state()->code;
    if (range->open && code->remove_memory) code->remove_memory(range->begin);
    range->open = false;
    mmap(range->begin, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    change_references(range->mapped, -1);
    range->mapped = NULL;
    return result;
}

EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count) {
    CALL();
    struct range *range = find(__func__, address, size, false);
    if (!range || !range->mapped || count == 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return CUDA_ERROR_INVALID_VALUE;
    }
    mprotect(range->begin, size, PROT_READ | PROT_WRITE);
    struct fake_code *code = &fake_cuda_state()->code;
    if (!range->open && code->add_memory) code->add_memory(range->begin, size);
    range->open = true;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *memory, void *address) {
    CALL();
    pthread_mutex_lock(&mutex);
    struct range *range = ranges;
    while (range && range->begin != address)
        range = range->next;
    struct allocation *a = range ? range->mapped : NULL;
    pthread_mutex_unlock(&mutex);
    if (!a) return CUDA_ERROR_INVALID_VALUE;
    change_references(a, 1);
    *memory = (uintptr_t)a;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemExportToShareableHandle(void *descriptor, CUmemGenericAllocationHandle memory, int type,
                                             uint64_t flags) {
    CALL();
    int file = fcntl(allocation_of(memory)->file, F_DUPFD_CLOEXEC, 0);
    if (file < 0) abort();
    *(int *)descriptor = file;
    return CUDA_SUCCESS;
}

/* Only what a file in memory can be asked counts as one of the driver's. */
EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *memory, void *descriptor, int type) {
    CALL();
    struct stat info;
    int given = (int)(intptr_t)descriptor;
    if (fcntl(given, F_GET_SEALS) < 0 || fstat(given, &info) != 0) return CUDA_ERROR_INVALID_VALUE;
    int file = fcntl(given, F_DUPFD_CLOEXEC, 0);
    if (file < 0) abort();
    *memory = new_allocation(file, (size_t)info.st_size);
    return CUDA_SUCCESS;
}
