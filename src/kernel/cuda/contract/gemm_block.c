/* Sizes derived from the description of a block's matrix product. */
#include "kernel/cuda/contract/gemm_block.h"

#include "base/tensor_map.h"

bool ig_cuda_math_of(enum ingot_dtype dtype, bool rounded, enum ig_cuda_math *out_math) {
    switch (dtype) {
    case INGOT_F32: *out_math = rounded ? IG_CUDA_TF32 : IG_CUDA_FMA; return true;
    case INGOT_F16: *out_math = IG_CUDA_F16; return true;
    case INGOT_BF16: *out_math = IG_CUDA_BF16; return true;
    default: return false;
    }
}

static bool is_f8(enum ingot_dtype dtype) {
    return dtype == INGOT_F8E4M3FN || dtype == INGOT_F8E5M2;
}

bool ig_cuda_math_of_bytes(enum ingot_dtype a, enum ingot_dtype b, int sm, enum ig_cuda_math *out_math) {
    bool integers = (a == INGOT_I8 || a == INGOT_U8) && (b == INGOT_I8 || b == INGOT_U8);
    *out_math = integers ? IG_CUDA_I8 : IG_CUDA_F8;
    return integers || (is_f8(a) && is_f8(b) && sm >= 89);
}

enum { GROUP = 128 }; /* threads of a warp group */

int ig_cuda_gemm_groups(const struct ig_cuda_gemm *gemm) {
    return gemm->turns ? gemm->turns : gemm->bm == 192 ? 3 : 2;
}

/* A multiprocessor has 65536, of which the producer's group takes few. */
int ig_cuda_gemm_registers(const struct ig_cuda_gemm *gemm) {
    static const int registers[] = {[2] = 240, [3] = 160, [4] = 112};
    return registers[ig_cuda_gemm_groups(gemm)];
}

int ig_cuda_gemm_sum_registers(const struct ig_cuda_gemm *gemm) {
    enum { OTHERS = 48 };
    return ig_cuda_gemm_registers(gemm) - OTHERS;
}

bool ig_cuda_gemm_adds_in_pairs(const struct ig_cuda_gemm *gemm) {
    int rows = gemm->turns ? 64 : 64 * ig_cuda_gemm_groups(gemm); /* one instruction's for each group */
    return gemm->promoted && gemm->bm == rows && gemm->bn / 2 * 3 <= ig_cuda_gemm_sum_registers(gemm);
}

int ig_cuda_gemm_threads(const struct ig_cuda_gemm *gemm) {
    if (gemm->producer) return (ig_cuda_gemm_groups(gemm) + 1) * GROUP;
    if (gemm->direct || gemm->stream) return 32 * gemm->warps_n;
    if (gemm->math == IG_CUDA_FMA) return gemm->bm / gemm->thread_m * (gemm->bn / gemm->thread_n);
    return 32 * gemm->warps_m * gemm->warps_n;
}

int ig_cuda_gemm_walkers(const struct ig_cuda_gemm *gemm) {
    return gemm->warps_n / (gemm->twin ? 2 : 1);
}

int ig_cuda_gemm_element(const struct ig_cuda_gemm *gemm) {
    if (ig_cuda_math_is_bytes(gemm->math)) return 1;
    return gemm->math == IG_CUDA_F16 || gemm->math == IG_CUDA_BF16 ? 2 : 4;
}

/* FILLED: 16 bytes longer than a step, so that eight lines at the same position fall into different banks. */
int ig_cuda_gemm_line(const struct ig_cuda_gemm *gemm) {
    return gemm->bk + (gemm->a == IG_CUDA_FILLED ? 16 / ig_cuda_gemm_element(gemm) : 0);
}

int ig_cuda_gemm_list(const struct ig_cuda_gemm *gemm) {
    int copies = ig_cuda_gemm_stage(gemm) * (gemm->a == IG_CUDA_FILLED ? 1 : gemm->stages);
    int tile = gemm->bm * (gemm->bn + IG_CUDA_TILE_PAD) * 4;
    return copies > tile ? copies : tile;
}

int ig_cuda_gemm_workers(const struct ig_cuda_gemm *gemm) {
    if (!gemm->producer) return ig_cuda_gemm_threads(gemm);
    return (gemm->turns ? 1 : ig_cuda_gemm_groups(gemm)) * GROUP;
}

int ig_cuda_gemm_tile_row(const struct ig_cuda_gemm *gemm) {
    return gemm->bn * (gemm->twin ? 2 : 1) + IG_CUDA_TILE_PAD;
}

static int round_up(int bytes, int to) {
    return (bytes + to - 1) / to * to;
}

enum { PATTERN = 1024 }; /* boxes are swizzled by their addresses modulo this */

/* Axis 1 and 2 of the windows. */
int ig_cuda_gemm_patch_phases(const struct ig_cuda_gemm *gemm, int axis) {
    int taps = gemm->taps[axis + 1], stride = gemm->strides[axis + 1];
    return taps < stride ? taps : stride;
}

int ig_cuda_gemm_patch_pixels(const struct ig_cuda_gemm *gemm, int axis) {
    int last = (gemm->taps[axis + 1] - 1) * gemm->dilations[axis + 1];
    return gemm->patch[axis] + last / gemm->strides[axis + 1];
}

int ig_cuda_gemm_patch_pixel(const struct ig_cuda_gemm *gemm) {
    int all = gemm->channels * ig_cuda_gemm_element(gemm);
    return all == IG_PATCH_PIXEL ? all : gemm->bk * ig_cuda_gemm_element(gemm);
}

int ig_cuda_gemm_patch_slices(const struct ig_cuda_gemm *gemm) {
    return (gemm->channels + gemm->bk - 1) / gemm->bk;
}

static int patch_box(const struct ig_cuda_gemm *gemm) {
    int pixels = ig_cuda_gemm_patch_pixels(gemm, 0) * ig_cuda_gemm_patch_pixels(gemm, 1);
    return pixels * ig_cuda_gemm_patch_pixel(gemm);
}

int ig_cuda_gemm_patch_bytes(const struct ig_cuda_gemm *gemm) {
    return round_up(patch_box(gemm), PATTERN);
}

int ig_cuda_gemm_patch_arriving(const struct ig_cuda_gemm *gemm) {
    return ig_cuda_gemm_patch_phases(gemm, 0) * ig_cuda_gemm_patch_phases(gemm, 1) * patch_box(gemm);
}

int ig_cuda_gemm_stage(const struct ig_cuda_gemm *gemm) {
    if (gemm->patch[0])
        return ig_cuda_gemm_patch_phases(gemm, 0) * ig_cuda_gemm_patch_phases(gemm, 1) * ig_cuda_gemm_patch_bytes(gemm);
    return (gemm->bm + (gemm->kept ? 0 : gemm->bn)) * ig_cuda_gemm_line(gemm) * ig_cuda_gemm_element(gemm);
}

int ig_cuda_gemm_barriers_at(const struct ig_cuda_gemm *gemm) {
    int kept = gemm->kept * gemm->bn * ig_cuda_gemm_line(gemm) * ig_cuda_gemm_element(gemm);
    return gemm->stages * ig_cuda_gemm_stage(gemm) + kept;
}

/* The tile, and each warp's sums. */
static int direct_shared(const struct ig_cuda_gemm *gemm) {
    return 4 * gemm->bm * (ig_cuda_gemm_tile_row(gemm) + gemm->warps_n * gemm->bn);
}

/* What a block asks for that needs `bytes`: mostly so much that no third one fits. Then those of the next kernel, which start as these
 * end, are spread evenly, and small ones do not crowd on few multiprocessors. But where boxes bring all of a block's weights at once,
 * and these are large, it fits beside two blocks of the kernel before, while which they arrive. */
static int asked_for(const struct ig_cuda_gemm *gemm, int bytes) {
    int64_t weights = (int64_t)gemm->bn * (gemm->twin ? 2 : 1) * gemm->depth * ig_cuda_gemm_element(gemm);
    bool whole = gemm->bm > 4 && gemm->stages * gemm->warps_n * gemm->bk >= gemm->depth;
    return (whole && weights > IG_CUDA_FOURTH) || bytes > IG_CUDA_THIRD ? bytes : IG_CUDA_THIRD;
}

struct ig_cuda_stream ig_cuda_gemm_stream(const struct ig_cuda_gemm *gemm) {
    bool cores = gemm->bm > 4;
    int element = ig_cuda_gemm_element(gemm), piece = gemm->bk * element, columns = gemm->bn * (gemm->twin ? 2 : 1);
    int stages = gemm->warps_n * gemm->stages, pieces = stages * (cores ? columns * piece : piece);
    int sums = cores ? gemm->warps_n * gemm->bm * columns * 4 : 0;
    struct ig_cuda_stream s = {.ring = round_up(4 * gemm->bm * ig_cuda_gemm_tile_row(gemm), PATTERN)};
    s.barriers = s.ring + (pieces > sums ? pieces : sums);
    s.rows = round_up(s.barriers + stages * 8, 16);
    s.end = s.rows + (cores ? gemm->first : gemm->bm) * gemm->depth * element;
    s.end = asked_for(gemm, s.end);
    return s;
}

int ig_cuda_gemm_shared(const struct ig_cuda_gemm *gemm) {
    if (gemm->stream) return ig_cuda_gemm_stream(gemm).end;
    if (gemm->direct) return direct_shared(gemm);
    if (gemm->producer) return ig_cuda_gemm_barriers_at(gemm) + 8 * (2 * gemm->stages + gemm->turns + 1);
    return ig_cuda_gemm_list(gemm) + (gemm->a == IG_CUDA_LISTED ? gemm->bm * 8 : 0);
}
