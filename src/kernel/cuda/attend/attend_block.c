/* Sizes derived from the description of a block's attention. */
#include "kernel/cuda/attend/attend_block.h"

struct ig_cuda_attend_layout ig_cuda_attend_scores(const struct ig_cuda_attend *a) {
    if (a->math == IG_CUDA_FMA) return (struct ig_cuda_attend_layout){8, 4, 1, a->keys / 8};
    if (a->direct) return (struct ig_cuda_attend_layout){4, 1, 2, a->keys / 8};
    return (struct ig_cuda_attend_layout){4, 2, 2, a->keys / 8};
}

struct ig_cuda_attend_layout ig_cuda_attend_sums(const struct ig_cuda_attend *a) {
    if (a->math == IG_CUDA_FMA) return (struct ig_cuda_attend_layout){8, 4, 4, a->columns / 32};
    if (a->direct) return (struct ig_cuda_attend_layout){4, 2, 2, (a->columns + 63) / 64 * 4};
    return (struct ig_cuda_attend_layout){4, 2, 2, a->columns / 8};
}

int ig_cuda_attend_rows(const struct ig_cuda_attend *a) {
    return a->direct ? 8 : 16 * a->warps_m;
}

int ig_cuda_attend_workers(const struct ig_cuda_attend *a) {
    return 32 * a->warps_m * a->warps_n;
}

int ig_cuda_attend_threads(const struct ig_cuda_attend *a) {
    return ig_cuda_attend_workers(a) + (a->served ? 32 : 0);
}

int ig_cuda_attend_parts(const struct ig_cuda_attend *a) {
    return a->direct ? 1 : a->warps_n * a->split;
}

int ig_cuda_attend_element(const struct ig_cuda_attend *a) {
    return a->math == IG_CUDA_F16 || a->math == IG_CUDA_BF16 ? 2 : 4;
}

int ig_cuda_attend_tile_row(const struct ig_cuda_attend *a) {
    return a->columns + (a->narrow ? IG_CUDA_ATTEND_NARROW_PAD : IG_CUDA_ATTEND_PAD);
}

/* Results, with maxima and sums; behind them those of direct warps and blocks. */
static int result_bytes(const struct ig_cuda_attend *a) {
    if (a->narrow) return ig_cuda_attend_rows(a) * ig_cuda_attend_tile_row(a) * 2;
    int parts = ig_cuda_attend_parts(a) + (a->direct ? a->warps_n + a->split : 0);
    return parts * ig_cuda_attend_rows(a) * (ig_cuda_attend_tile_row(a) + 2) * 4;
}

int ig_cuda_attend_line(const struct ig_cuda_attend *a, int elements) {
    int bytes = elements * ig_cuda_attend_element(a);
    if (!a->warpgroups) return bytes;
    return bytes <= 64 ? 64 : (bytes + 127) / 128 * 128;
}

/* Queries, and stages of keys and values. */
static int operand_bytes(const struct ig_cuda_attend *a) {
    if (a->direct) return 0;
    int line = ig_cuda_attend_line(a, a->depth), step = a->warps_n * a->keys;
    return ig_cuda_attend_rows(a) * line + a->stages * step * (line + ig_cuda_attend_line(a, a->columns));
}

int ig_cuda_attend_results_at(const struct ig_cuda_attend *a) {
    return a->turns ? 2 * operand_bytes(a) : 0;
}

/* The larger of two uses: during the walk the operands and, on CUDA cores, each warp's weights; after it, the
 * results. */
int ig_cuda_attend_tables_at(const struct ig_cuda_attend *a) {
    int weights = a->math == IG_CUDA_FMA ? a->warps_m * a->warps_n * 16 * (a->keys + 4) * 4 : 0;
    int walking = operand_bytes(a) + weights;
    int left = ig_cuda_attend_results_at(a) + result_bytes(a);
    return ((walking > left ? walking : left) + 7) / 8 * 8;
}

/* Served blocks have no tables. */
int ig_cuda_attend_barriers_at(const struct ig_cuda_attend *a) {
    return ig_cuda_attend_tables_at(a);
}

int ig_cuda_attend_shared(const struct ig_cuda_attend *a) {
    enum { BARRIERS = 4 }; /* of a stage */
    return ig_cuda_attend_tables_at(a) + (a->served ? 8 * BARRIERS * a->stages : 8 * a->table_lines);
}
