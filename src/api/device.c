/* The devices of this machine: which engines they run, and what the public API reports about them; see device.h. */
#include "api/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/memory.h"

bool ig_target_is_gpu(const char *target) {
    return strncmp(target, "cuda:", 5) == 0;
}

/* ---- Compatibility ----------------------------------------------------------------------------------------------- */

static enum ingot_status check_cpu(const struct ig_engine_file *file, struct ingot_error *error) {
    uint64_t missing = file->required_features & ~ig_cpu_features();
    if (missing)
        return IG_ERR(error, INGOT_INCOMPATIBLE, "the engine for '%s' needs %s, which this processor lacks",
                      file->target, ig_cpu_feature_name(missing));
    if ((file->required_features & IG_CPU_AMX_TILE) && !ig_cpu_request_amx())
        return IG_ERR(error, INGOT_INCOMPATIBLE, "the engine needs AMX, which the operating system does not grant");
    return INGOT_OK;
}

/* Has every generated kernel PTX too, which drivers can compile for later GPUs? */
static bool is_portable(const struct ig_plan *plan) {
    for (uint32_t i = 0; i < plan->n_kernels; i++) {
        if (!plan->kernels[i].library && plan->kernels[i].portable == UINT64_MAX) return false;
    }
    return true;
}

/*
 * Machine code runs on GPUs of the same generation (the same tens of "sm_86") that are not older; architecture-specific
 * code (the "a") runs on that architecture only. PTX runs on all later ones.
 */
static bool runs_on(int wanted, bool own, bool portable, const struct ig_device_cuda_info *gpu) {
    if (own) return gpu->sm == wanted;
    return gpu->sm >= wanted && (portable || gpu->sm / 10 == wanted / 10);
}

/* The first with asynchronous copies to shared memory, which kernels rely on. */
#define OLDEST_SM 80

enum ingot_status ig_machine_gpu(int gpu, struct ig_device_cuda_info *out_info, struct ingot_error *error) {
    IG_TRY(ig_device_cuda_describe(gpu, out_info, error));
    if (out_info->sm >= OLDEST_SM) return INGOT_OK;
    return IG_ERR(error, INGOT_INCOMPATIBLE, "GPU %d (%s) is '%s': engines are for 'sm_%d' and later", gpu,
                  out_info->name, out_info->arch, OLDEST_SM);
}

static enum ingot_status check_gpu(const struct ig_engine_file *file, int gpu, struct ingot_error *error) {
    struct ig_device_cuda_info info;
    char *end;
    const char *arch = file->target + strlen("cuda:");
    if (strncmp(arch, "sm_", 3) != 0)
        return IG_ERR(error, INGOT_INCOMPATIBLE, "the engine is for '%s', which this library does not know",
                      file->target);
    long wanted = strtol(arch + 3, &end, 10);
    IG_TRY(ig_machine_gpu(gpu, &info, error));
    if (runs_on((int)wanted, *end == 'a', is_portable(&file->plan), &info)) return INGOT_OK;
    return IG_ERR(error, INGOT_INCOMPATIBLE, "the engine is for '%s', GPU %d (%s) is '%s': build it for 'cuda:%s'",
                  file->target, gpu, info.name, info.arch, info.arch);
}

enum ingot_status ig_machine_check(const struct ig_engine_file *file, int gpu, struct ingot_error *error) {
    if (strncmp(file->target, "cpu", 3) == 0) return check_cpu(file, error);
    if (ig_target_is_gpu(file->target)) return check_gpu(file, gpu, error);
    return IG_ERR(error, INGOT_INCOMPATIBLE, "the engine is for '%s': this library runs engines for cpu and cuda",
                  file->target);
}

/* ---- GPUs in the public API -------------------------------------------------------------------------------------- */

enum ingot_status ingot_gpu_count(int *out_count, struct ingot_error *error) {
    if (!out_count) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_gpu_count: out_count is NULL");
    return ig_device_cuda_count(out_count, error);
}

enum ingot_status ingot_gpu_describe(int device, struct ingot_gpu_info *out_info, struct ingot_error *error) {
    struct ig_device_cuda_info info;
    if (!out_info) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_gpu_describe: out_info is NULL");
    IG_TRY(ig_device_cuda_describe(device, &info, error));
    struct ingot_gpu_info result = {
        .memory_bytes = info.memory, .multiprocessors = info.processors, .driver = info.driver};
    snprintf(result.name, sizeof result.name, "%s", info.name);
    snprintf(result.target, sizeof result.target, "cuda:%s", info.arch);
    *out_info = result;
    return INGOT_OK;
}

/* An ingot_gpu is an ig_device under another name: it holds the GPU as the devices of contexts do. */
enum ingot_status ingot_gpu_hold(int device, struct ingot_gpu **out_gpu, struct ingot_error *error) {
    struct ig_device *held;
    if (!out_gpu) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_gpu_hold: out_gpu is NULL");
    IG_TRY(ig_device_cuda_create(device, &ig_libc_allocator, &held, error));
    *out_gpu = (struct ingot_gpu *)held;
    return INGOT_OK;
}

void ingot_gpu_release(struct ingot_gpu *gpu) {
    struct ig_device *held = (struct ig_device *)gpu;
    if (held) held->api->destroy(held);
}
