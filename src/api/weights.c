/* ingot_engine_export_weights and _import_weights: one copy of an engine's weights on a GPU for several processes. */
#include <string.h>

#include "api/device.h"
#include "api/engine.h"

static enum ingot_status check(const struct ingot_engine *engine, int device, struct ig_device_cuda_info *out_gpu,
                               struct ingot_error *error) {
    if (!ig_target_is_gpu(engine->file.target))
        return IG_ERR(error, INGOT_UNSUPPORTED,
                      "the engine is for '%s': processes that load it from one file share its weights already",
                      engine->file.target);
    if (device < 0) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "device is %d", device);
    IG_TRY(ig_machine_check(&engine->file, device, error));
    if (atomic_load_explicit(&engine->resident.refits, memory_order_relaxed))
        return IG_ERR(error, INGOT_UNSUPPORTED, "the engine's weights are no longer those of its file");
    return ig_device_cuda_describe(device, out_gpu, error);
}

enum ingot_status ingot_engine_export_weights(struct ingot_engine *engine, int device,
                                              struct ingot_weights_handle *out_handle, struct ingot_error *error) {
    struct ig_device_cuda_info gpu;
    if (!engine || !out_handle)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_engine_export_weights: %s is NULL",
                      engine ? "out_handle" : "engine");
    IG_TRY(check(engine, device, &gpu, error));
    struct ingot_weights_handle handle = {.bytes = engine->file.weights_size,
                                          .checksum = ig_engine_weights_checksum(&engine->file)};
    memcpy(handle.gpu, gpu.uuid, sizeof handle.gpu);
    IG_TRY(ig_resident_store_export(&engine->resident, ig_device_cuda_create, device, &handle.fd, error));
    *out_handle = handle;
    return INGOT_OK;
}

static enum ingot_status check_handle(const struct ingot_weights_handle *handle, const struct ig_engine_file *file,
                                      int device, const struct ig_device_cuda_info *gpu, struct ingot_error *error) {
    uint64_t checksum = ig_engine_weights_checksum(file);
    if (handle->bytes != file->weights_size || handle->checksum != checksum)
        return IG_ERR(
            error, INGOT_INVALID_ARGUMENT,
            "the handle is for other weights: %llu bytes with checksum %016llx, the engine has %zu bytes with "
            "checksum %016llx",
            (unsigned long long)handle->bytes, (unsigned long long)handle->checksum, file->weights_size,
            (unsigned long long)checksum);
    if (memcmp(handle->gpu, gpu->uuid, sizeof gpu->uuid) != 0)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "the handle is for memory of another GPU than GPU %d (%s)", device,
                      gpu->name);
    if (handle->fd < 0)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT,
                      "the handle's fd is %d: it must be the descriptor as this process received it", handle->fd);
    return INGOT_OK;
}

enum ingot_status ingot_engine_import_weights(struct ingot_engine *engine, int device,
                                              const struct ingot_weights_handle *handle, struct ingot_error *error) {
    struct ig_device_cuda_info gpu;
    if (!engine || !handle)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_engine_import_weights: %s is NULL",
                      engine ? "handle" : "engine");
    IG_TRY(check(engine, device, &gpu, error));
    IG_TRY(check_handle(handle, &engine->file, device, &gpu, error));
    return ig_resident_store_import(&engine->resident, ig_device_cuda_create, device, handle->fd, error);
}
