/* Encodes tensor maps; see tensor_map.h. */
#include "device/cuda/tensor_map.h"

#include <string.h>

/* The swizzle pattern that is as wide as the box. */
static int swizzle_of(const struct ig_tensor_map *map) {
    switch (map->box_width * map->element) {
    case 128: return CU_TENSOR_MAP_SWIZZLE_128B;
    case 64: return CU_TENSOR_MAP_SWIZZLE_64B;
    case 32: return CU_TENSOR_MAP_SWIZZLE_32B;
    default: return CU_TENSOR_MAP_SWIZZLE_NONE;
    }
}

/* Elements are only moved, so integers of their size serve all types. */
static int type_of(const struct ig_tensor_map *map) {
    switch (map->element) {
    case 1: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case 2: return CU_TENSOR_MAP_DATA_TYPE_UINT16;
    default: return CU_TENSOR_MAP_DATA_TYPE_UINT32;
    }
}

static CUresult encode_matrix(struct ig_cuda *cuda, const struct ig_tensor_map *map, uint64_t address,
                              const int64_t *dims, CUtensorMap *out) {
    const uint64_t sizes[2] = {(uint64_t)dims[map->width], (uint64_t)dims[map->lines]};
    const uint64_t strides[1] = {(uint64_t)dims[map->pitch] * map->element};
    const uint32_t box[2] = {map->box_width, map->box_lines}, steps[2] = {1, 1};
    return IG_CUDA(cuda, cuTensorMapEncodeTiled, out, type_of(map), 2, address, sizes, strides, box, steps,
                   CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(map), CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static CUresult encode_matrices(struct ig_cuda *cuda, const struct ig_tensor_map *map, uint64_t address,
                                const int64_t *dims, CUtensorMap *out) {
    uint64_t sizes[4] = {(uint64_t)dims[map->width], (uint64_t)dims[map->lines]};
    uint64_t strides[3] = {(uint64_t)dims[map->pitch] * map->element};
    const uint32_t box[4] = {map->box_width, map->box_lines, 1, 1}, steps[4] = {1, 1, 1, 1};
    for (int i = 0; i < 2; i++) {
        sizes[2 + i] = (uint64_t)dims[map->counts[i]];
        strides[1 + i] = (uint64_t)dims[map->apart[i]] * map->element;
    }
    return IG_CUDA(cuda, cuTensorMapEncodeTiled, out, type_of(map), 4,
                   address + (uint64_t)dims[map->begin] * map->element, sizes, strides, box, steps,
                   CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(map), CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/* The axes of every 32 lines are those of their places, fastest first. */
static CUresult encode_dealt(struct ig_cuda *cuda, const struct ig_tensor_map *map, uint64_t address,
                             const int64_t *dims, CUtensorMap *out) {
    const uint64_t pitch = (uint64_t)dims[map->pitch] * map->element;
    const uint64_t sizes[5] = {(uint64_t)dims[map->width], 2, 4, 4, (uint64_t)dims[map->lines] / IG_DEALT_LINES};
    const uint64_t strides[4] = {pitch, 8 * pitch, 2 * pitch, IG_DEALT_LINES * pitch};
    const uint32_t box[5] = {map->box_width, 2, 4, 4, map->box_lines / IG_DEALT_LINES}, steps[5] = {1, 1, 1, 1, 1};
    return IG_CUDA(cuda, cuTensorMapEncodeTiled, out, type_of(map), 5, address, sizes, strides, box, steps,
                   CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(map), CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static CUresult encode_windows(struct ig_cuda *cuda, const struct ig_tensor_map *map, uint64_t address,
                               const int64_t *dims, CUtensorMap *out) {
    uint64_t sizes[5] = {(uint64_t)dims[map->width]}, strides[4] = {(uint64_t)dims[map->pitch] * map->element};
    uint32_t steps[5] = {1}, axes = map->axes;
    int lower[3], upper[3];
    for (uint32_t i = 0; i < axes; i++) {
        sizes[i + 1] = (uint64_t)dims[map->sizes[i]];
        strides[i + 1] = strides[i] * sizes[i + 1];
        steps[i + 1] = map->steps[i];
        lower[i] = map->lower[i];
        upper[i] = map->upper[i];
    }
    sizes[axes + 1] = (uint64_t)dims[map->lines];
    steps[axes + 1] = 1;
    return IG_CUDA(cuda, cuTensorMapEncodeIm2col, out, type_of(map), axes + 2, address, sizes, strides, lower, upper,
                   map->box_width, map->box_lines, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(map),
                   CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/* Lines of pixels that follow each other have one axis fewer. */
static CUresult encode_patch(struct ig_cuda *cuda, const struct ig_tensor_map *map, uint64_t address,
                             const int64_t *dims, CUtensorMap *out) {
    const uint64_t pitch = (uint64_t)dims[map->pitch] * map->element, columns = (uint64_t)dims[map->sizes[0]],
                   rows = (uint64_t)dims[map->sizes[1]];
    uint64_t sizes[4] = {(uint64_t)dims[map->width], columns, rows, (uint64_t)dims[map->lines]};
    const uint64_t strides[3] = {pitch, pitch * columns, pitch * columns * rows};
    const uint32_t steps[4] = {1, map->steps[0], map->steps[1], 1};
    uint32_t box[4] = {map->box_width, map->patch[0] * steps[1], map->patch[1] * steps[2], 1};
    const uint32_t first = ig_tensor_map_brings_lines(map);
    if (first > 0) {
        sizes[1] *= sizes[0];
        box[1] *= box[0];
    }
    return IG_CUDA(cuda, cuTensorMapEncodeTiled, out, type_of(map), 4 - first, address, sizes + first, strides + first,
                   box + first, steps + first, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(map),
                   CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

enum ingot_status ig_cuda_encode_tensor_map(struct ig_cuda *cuda, const struct ig_tensor_map *map, uint64_t address,
                                            const int64_t *dims, void *out_map, struct ingot_error *error) {
    CUtensorMap encoded = {0};
    CUresult result = map->patch[0]   ? encode_patch(cuda, map, address, dims, &encoded)
                      : map->axes     ? encode_windows(cuda, map, address, dims, &encoded)
                      : map->dealt    ? encode_dealt(cuda, map, address, dims, &encoded)
                      : map->matrices ? encode_matrices(cuda, map, address, dims, &encoded)
                                      : encode_matrix(cuda, map, address, dims, &encoded);
    memcpy(out_map, &encoded, sizeof encoded);
    return ig_cuda_driver_check(&cuda->driver, result, error,
                                "cannot describe a matrix of %lld lines of %lld elements to the copy engine",
                                (long long)dims[map->lines], (long long)dims[map->width]);
}
