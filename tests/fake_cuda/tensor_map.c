/* The stand-in's tensor maps. */
#include <string.h>

#include "fake_cuda/call.h"
#include "fake_cuda/fake_cuda.h"

#define EXPORT __attribute__((visibility("default")))
#define CALL()                                       \
    do {                                             \
        CUresult result_ = fake_call(__func__, 0);   \
        if (result_ != CUDA_SUCCESS) return result_; \
    } while (0)

/* Are every 32 lines dealt out, as base/tensor_map.h says? */
static bool are_dealt(const uint64_t *sizes, const uint64_t *strides, const uint32_t *box, const uint32_t *steps) {
    const uint64_t counts[] = {2, 4, 4}, places[] = {1, 8, 2, 32};
    bool are = steps[2] == 1 && steps[3] == 1 && steps[4] == 1;
    for (int i = 0; i < 3; i++)
        are = are && sizes[1 + i] == counts[i] && box[1 + i] == counts[i];
    for (int i = 0; i < 4; i++)
        are = are && strides[i] == strides[0] * places[i];
    return are;
}

/* Of a picture: a patch of some of its pixels. Those beyond its last one need not be there. Or of matrices, along two axes: lines of one
 * of them. */
static CUresult encode_patch(CUtensorMap *map, int type, CUdeviceptr memory, const uint64_t *sizes,
                             const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int swizzle) {
    struct fake_tensor_map made = {.magic = FAKE_TENSOR_MAP,
                                   .memory = memory,
                                   .width = sizes[0],
                                   .lines = sizes[3],
                                   .pitch = strides[0],
                                   .element = 1u << type,
                                   .box_width = box[0],
                                   .box_lines = 1,
                                   .swizzle = 16u << swizzle,
                                   .axes = 2};
    bool lines = box[2] == 1 && steps[1] == 1 && steps[2] == 1;
    bool right = memory % 16 == 0 && strides[0] % 16 == 0 && (uintptr_t)map % 64 == 0 && steps[0] == 1 &&
                 steps[3] == 1 && box[3] == 1 && box[0] * made.element <= made.swizzle;
    for (uint32_t i = 0; i < 2; i++) {
        made.sizes[i] = (uint32_t)sizes[i + 1];
        made.steps[i] = steps[i + 1];
        right = right && steps[i + 1] >= 1 && steps[i + 1] <= 8 && box[i + 1] >= 1 && box[i + 1] <= 256 &&
                (lines ? strides[i + 1] % 16 == 0 : strides[i + 1] == strides[i] * sizes[i + 1]);
        if (!right) return CUDA_ERROR_INVALID_VALUE;
        made.apart[i] = strides[i + 1];
        made.patch[i] = (box[i + 1] + steps[i + 1] - 1) / steps[i + 1];
        made.box_lines *= made.patch[i];
    }
    memcpy(map, &made, sizeof made);
    return CUDA_SUCCESS;
}

/* The same where pixels of 16 bytes follow each other in a line. */
static CUresult encode_lines(CUtensorMap *map, int type, CUdeviceptr memory, const uint64_t *sizes,
                             const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int swizzle) {
    const uint32_t pixel = 16u >> type;
    struct fake_tensor_map made;
    if (steps[0] != 1 || sizes[0] % pixel != 0 || box[0] % pixel != 0 || box[0] > 256 || strides[0] != sizes[0] << type)
        return CUDA_ERROR_INVALID_VALUE;
    const uint64_t own[4] = {pixel, sizes[0] / pixel, sizes[1], sizes[2]}, pitches[3] = {16, strides[0], strides[1]};
    const uint32_t boxes[4] = {pixel, box[0] / pixel, box[1], box[2]}, apart[4] = {1, 1, steps[1], steps[2]};
    CUresult result = encode_patch(map, type, memory, own, pitches, boxes, apart, swizzle);
    if (result != CUDA_SUCCESS) return result;
    memcpy(&made, map, sizeof made);
    made.joined = true;
    memcpy(map, &made, sizeof made);
    return CUDA_SUCCESS;
}

/* Of integers of 1, 2 or 4 bytes, which are numbered so. */
static bool is_type(int type) {
    return type >= CU_TENSOR_MAP_DATA_TYPE_UINT8 && type <= CU_TENSOR_MAP_DATA_TYPE_UINT32;
}

EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap *map, int type, uint32_t rank, CUdeviceptr memory,
                                       const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,
                                       const uint32_t *steps, int interleave, int swizzle, int promotion, int fill) {
    CALL();
    _Static_assert(sizeof(struct fake_tensor_map) == sizeof *map, "what kernels get");
    if (rank == 4 && is_type(type) && interleave == 0 && swizzle >= 1 && swizzle <= 3)
        return encode_patch(map, type, memory, sizes, strides, box, steps, swizzle);
    if (rank == 3 && is_type(type) && interleave == 0 && swizzle == 0)
        return encode_lines(map, type, memory, sizes, strides, box, steps, swizzle);
    const struct fake_tensor_map made = {.magic = FAKE_TENSOR_MAP,
                                         .memory = memory,
                                         .width = sizes[0],
                                         .lines = rank == 5 ? sizes[4] * 32 : sizes[1],
                                         .pitch = strides[0],
                                         .element = 1u << type,
                                         .box_width = box[0],
                                         .box_lines = rank == 5 ? box[4] * 32 : box[1],
                                         .swizzle = 16u << swizzle,
                                         .dealt = rank == 5};
    bool known = is_type(type) && (rank == 2 || (rank == 5 && are_dealt(sizes, strides, box, steps))) &&
                 steps[0] == 1 && steps[1] == 1 && interleave == 0 && swizzle >= 0 && swizzle <= 3;
    bool right = memory % 16 == 0 && strides[0] % 16 == 0 && (uintptr_t)map % 64 == 0 && box[0] >= 1 && box[0] <= 256 &&
                 box[1] >= 1 && box[1] <= 256 && sizes[0] >= 1 && sizes[0] <= UINT32_MAX && sizes[1] >= 1 &&
                 sizes[1] <= UINT32_MAX && box[0] * made.element <= made.swizzle;
    if (!known) fake_misuse(__func__, "a map that no kernel asks for");
    if (!right) return CUDA_ERROR_INVALID_VALUE;
    memcpy(map, &made, sizeof made);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, int type, uint32_t rank, CUdeviceptr memory,
                                        const uint64_t *sizes, const uint64_t *strides, const int *lower,
                                        const int *upper, uint32_t channels, uint32_t pixels, const uint32_t *steps,
                                        int interleave, int swizzle, int promotion, int fill) {
    CALL();
    struct fake_tensor_map made = {.magic = FAKE_TENSOR_MAP,
                                   .memory = memory,
                                   .width = sizes[0],
                                   .lines = sizes[rank - 1],
                                   .pitch = strides[0],
                                   .element = 1u << type,
                                   .box_width = channels,
                                   .box_lines = pixels,
                                   .swizzle = 16u << swizzle,
                                   .axes = rank - 2};
    bool known = is_type(type) && (rank == 4 || rank == 5) && interleave == 0 && swizzle >= 0 && swizzle <= 3;
    if (!known) fake_misuse(__func__, "a map that no kernel asks for");
    bool right = memory % 16 == 0 && strides[0] % 16 == 0 && (uintptr_t)map % 64 == 0 && channels >= 1 && pixels >= 1 &&
                 pixels <= 1024 && channels * made.element <= made.swizzle && steps[0] == 1 && steps[rank - 1] == 1;
    for (uint32_t i = 0; i < rank - 2; i++) {
        int limit = rank == 4 ? 128 : 16;
        made.sizes[i] = (uint32_t)sizes[i + 1];
        made.lower[i] = lower[i];
        made.upper[i] = upper[i];
        made.steps[i] = steps[i + 1];
        right = right && lower[i] >= -limit && lower[i] < limit && upper[i] >= -limit && upper[i] < limit &&
                steps[i + 1] >= 1 && steps[i + 1] <= 8 && strides[i + 1] == strides[i] * sizes[i + 1];
    }
    if (!right) return CUDA_ERROR_INVALID_VALUE;
    memcpy(map, &made, sizeof made);
    return CUDA_SUCCESS;
}
