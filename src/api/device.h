/* Matches an engine's target with the devices of this machine. */
#ifndef IG_API_DEVICE_H
#define IG_API_DEVICE_H

#include "engine/engine.h"
#include "runtime/runtime.h"

/* "cuda:…": does the target run on a GPU? */
bool ig_target_is_gpu(const char *target);

/* Fails if this machine, or its GPU `gpu`, cannot run the engine's code. */
enum ingot_status ig_machine_check(const struct ig_engine_file *file, int gpu, struct ingot_error *error);

/* Describes GPU `gpu`; INGOT_INCOMPATIBLE if it is older than any that engines can be built for. */
enum ingot_status ig_machine_gpu(int gpu, struct ig_device_cuda_info *out_info, struct ingot_error *error);

#endif
