/* The copy kernel; see copy.h. It is PTX, which the driver compiles (and caches on disk) for any GPU. */
#include "device/cuda/copy.h"

#include <pthread.h>

#define NAME "ingot_copy"

/* Each thread copies vectors of 16 bytes in a grid-stride loop, then the remaining bytes. */
static const char text[] = ".version 7.0\n"
                           ".target sm_80\n"
                           ".address_size 64\n"
                           ".visible .entry " NAME "(.param .u64 p_from, .param .u64 p_to, .param .u64 p_bytes) {\n"
                           "  .reg .pred %done;\n"
                           "  .reg .b32 %block, %threads, %thread, %blocks, %a, %b, %c, %d;\n"
                           "  .reg .b64 %from, %to, %bytes, %first, %step, %vectors, %i, %at, %source, %target;\n"
                           "  ld.param.u64 %from, [p_from];\n"
                           "  ld.param.u64 %to, [p_to];\n"
                           "  ld.param.u64 %bytes, [p_bytes];\n"
                           "  mov.u32 %block, %ctaid.x;\n"
                           "  mov.u32 %blocks, %nctaid.x;\n"
                           "  mov.u32 %threads, %ntid.x;\n"
                           "  mov.u32 %thread, %tid.x;\n"
                           "  cvt.u64.u32 %first, %thread;\n"
                           "  mad.wide.u32 %first, %block, %threads, %first;\n"
                           "  mul.wide.u32 %step, %blocks, %threads;\n"
                           "  shr.u64 %vectors, %bytes, 4;\n"
                           "  mov.u64 %i, %first;\n"
                           "VECTORS:\n"
                           "  setp.ge.u64 %done, %i, %vectors;\n"
                           "  @%done bra REST;\n"
                           "  shl.b64 %at, %i, 4;\n"
                           "  add.u64 %source, %from, %at;\n"
                           "  add.u64 %target, %to, %at;\n"
                           "  ld.global.v4.u32 {%a, %b, %c, %d}, [%source];\n"
                           "  st.global.v4.u32 [%target], {%a, %b, %c, %d};\n"
                           "  add.u64 %i, %i, %step;\n"
                           "  bra VECTORS;\n"
                           "REST:\n"
                           "  shl.b64 %at, %vectors, 4;\n"
                           "  add.u64 %i, %first, %at;\n"
                           "BYTES:\n"
                           "  setp.ge.u64 %done, %i, %bytes;\n"
                           "  @%done bra END;\n"
                           "  add.u64 %source, %from, %i;\n"
                           "  add.u64 %target, %to, %i;\n"
                           "  ld.global.u8 %a, [%source];\n"
                           "  st.global.u8 [%target], %a;\n"
                           "  add.u64 %i, %i, %step;\n"
                           "  bra BYTES;\n"
                           "END:\n"
                           "  ret;\n"
                           "}\n";

/* Compiling takes milliseconds, in which the driver serves nobody: the devices of a GPU share the kernel. */
struct ig_cuda_copy {
    CUcontext context;
    CUmodule module;
    CUfunction kernel;
    size_t users;
};
enum { MOST_GPUS = 64 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of this table */
static struct ig_cuda_copy copies[MOST_GPUS];

static bool load(struct ig_cuda *cuda, struct ig_cuda_copy *copy) {
    if (IG_CUDA(cuda, cuModuleLoadDataEx, &copy->module, text, 0, NULL, NULL) != CUDA_SUCCESS) return false;
    if (IG_CUDA(cuda, cuModuleGetFunction, &copy->kernel, copy->module, NAME) == CUDA_SUCCESS) return true;
    IG_CUDA(cuda, cuModuleUnload, copy->module);
    return false;
}

/* The primary context's entry, which exists as long as a device uses it; else a free one. */
static struct ig_cuda_copy *find_entry(const struct ig_cuda *cuda) {
    struct ig_cuda_copy *free = NULL;
    for (int i = 0; i < MOST_GPUS; i++) {
        if (copies[i].users && copies[i].context == cuda->context) return &copies[i];
        if (!copies[i].users && !free) free = &copies[i];
    }
    return free;
}

static struct ig_cuda_copy *join(struct ig_cuda *cuda) {
    pthread_mutex_lock(&lock);
    struct ig_cuda_copy *copy = find_entry(cuda);
    if (copy && !copy->users && !load(cuda, copy)) copy = NULL;
    if (copy) copy->context = cuda->context;
    if (copy) copy->users++;
    pthread_mutex_unlock(&lock);
    return copy;
}

CUfunction ig_cuda_copy_kernel(struct ig_cuda *cuda) {
    if (!cuda->copy_sought) cuda->copy = join(cuda);
    cuda->copy_sought = true;
    return cuda->copy ? cuda->copy->kernel : NULL;
}

void ig_cuda_copy_deinit(struct ig_cuda *cuda) {
    if (!cuda->copy) return;
    pthread_mutex_lock(&lock);
    if (--cuda->copy->users == 0) IG_CUDA(cuda, cuModuleUnload, cuda->copy->module);
    pthread_mutex_unlock(&lock);
}

uint32_t ig_cuda_copy_blocks(size_t bytes) {
    const size_t block = (size_t)16 * IG_CUDA_COPY_THREADS;
    return (uint32_t)((bytes + block - 1) / block);
}

/* Finds the device address, since pinned memory may have another one than on the host; false if it is unaligned. */
static bool find(struct ig_cuda *cuda, uint64_t address, uint64_t *out_address) {
    CUdeviceptr found = 0;
    *out_address = 0;
    if (IG_CUDA(cuda, cuPointerGetAttribute, &found, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address) != CUDA_SUCCESS)
        return false;
    *out_address = found;
    return found && found % 16 == 0;
}

bool ig_cuda_copy_parameters(struct ig_cuda *cuda, uint64_t from, uint64_t to, size_t bytes,
                             uint64_t out_parameters[3]) {
    out_parameters[2] = bytes;
    return bytes > 0 && bytes <= IG_CUDA_COPY_LIMIT && find(cuda, from, &out_parameters[0]) &&
           find(cuda, to, &out_parameters[1]);
}
