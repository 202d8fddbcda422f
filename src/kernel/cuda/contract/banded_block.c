/* Sizes derived from the description of a depthwise convolution by banded matrices. */
#include "kernel/cuda/contract/banded_block.h"

enum { CHUNK = 8, BYTES = 16 }; /* columns, and what they take */

int ig_cuda_banded_steps(const struct ig_cuda_banded *b) {
    return ((CHUNK - 1) * b->strides[1] + (b->taps[1] - 1) * b->dilations[1]) / 16 + 1;
}

int ig_cuda_banded_reach(const struct ig_cuda_banded *b) {
    return (b->rows - 1) * b->strides[0] + (b->taps[0] - 1) * b->dilations[0] + 1;
}

int ig_cuda_banded_lines(const struct ig_cuda_banded *b) {
    return (b->tile[1] - 1) * b->rows * b->strides[0] + ig_cuda_banded_reach(b);
}

int ig_cuda_banded_chunks(const struct ig_cuda_banded *b) {
    return (b->tile[2] - 1) * b->strides[1] + 2 * ig_cuda_banded_steps(b);
}

/* Slots are loaded eight at once: chunks side by side, then images, then bands. An odd number of chunks from line to line,
 * and images as far apart as their slots are many, keep most of them in different banks. */
int ig_cuda_banded_line(const struct ig_cuda_banded *b) {
    return (ig_cuda_banded_chunks(b) | 1) * BYTES;
}

int ig_cuda_banded_image(const struct ig_cuda_banded *b) {
    int chunks = ig_cuda_banded_lines(b) * ig_cuda_banded_line(b) / BYTES;
    return (chunks + (b->tile[2] - chunks % 8 + 8) % 8) * BYTES;
}

int ig_cuda_banded_plane(const struct ig_cuda_banded *b) {
    int images = b->tile[0] * ig_cuda_banded_image(b), sums = ig_cuda_banded_positions(b) * 4;
    return images > sums ? images : sums;
}

/* Pieces of eight channels are read side by side, of as many chunks as fill all banks. */
int ig_cuda_banded_skew(const struct ig_cuda_banded *b) {
    return 128 / (b->group / 8);
}

int ig_cuda_banded_filters_at(const struct ig_cuda_banded *b) {
    return b->group * ig_cuda_banded_plane(b) + b->group / 8 * ig_cuda_banded_skew(b);
}

int ig_cuda_banded_positions(const struct ig_cuda_banded *b) {
    return 16 * CHUNK * b->rows;
}

int ig_cuda_banded_shared(const struct ig_cuda_banded *b) {
    return ig_cuda_banded_filters_at(b) + b->group * b->taps[0] * (b->taps[1] + 1) * 2;
}

int ig_cuda_banded_threads(const struct ig_cuda_banded *b) {
    return b->group / b->own * 32;
}
