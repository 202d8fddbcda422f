/* Tensor maps in the driver's encoding; base/tensor_map.h defines them. */
#ifndef IG_DEVICE_CUDA_TENSOR_MAP_H
#define IG_DEVICE_CUDA_TENSOR_MAP_H

#include "base/tensor_map.h"
#include "device/cuda/context.h"

/* Encodes the map of an operand at `address` to `out_map`: a CUtensorMap at any address. The sizes have been checked
 * (ig_tensor_map_sizes_error). */
enum ingot_status ig_cuda_encode_tensor_map(struct ig_cuda *cuda, const struct ig_tensor_map *map, uint64_t address,
                                            const int64_t *dims, void *out_map, struct ingot_error *error);

#endif
