/* From an engine's target to a device of this machine. */
#ifndef IG_API_DEVICE_H
#define IG_API_DEVICE_H

#include "engine/engine.h"
#include "runtime/runtime.h"

/* "cuda:…": runs on a GPU. */
bool ig_target_is_gpu(const char *target);

/* Fails where this machine, or its GPU number `gpu`, cannot run the engine's code. */
enum ingot_status ig_machine_check(const struct ig_engine_file *file, int gpu, struct ingot_error *error);

/* What GPU number `gpu` is; INGOT_INCOMPATIBLE where it is older than any that engines can be built for. */
enum ingot_status ig_machine_gpu(int gpu, struct ig_device_cuda_info *out_info, struct ingot_error *error);

#endif
