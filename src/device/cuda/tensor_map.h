/* Tensor maps as the driver encodes them: base/tensor_map.h says what they are. */
#ifndef IG_DEVICE_CUDA_TENSOR_MAP_H
#define IG_DEVICE_CUDA_TENSOR_MAP_H

#include "base/tensor_map.h"
#include "device/cuda/context.h"

/* Fills in *out_map for an operand at `address`. The sizes are right (ig_tensor_map_sizes_error). */
enum ingot_status ig_cuda_encode_tensor_map(struct ig_cuda *cuda, const struct ig_tensor_map *map, uint64_t address,
                                            const int64_t *dims, CUtensorMap *out_map, struct ingot_error *error);

#endif
