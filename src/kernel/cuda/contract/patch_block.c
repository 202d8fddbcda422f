/* Sizes derived from the description of a block's convolution. */
#include "kernel/cuda/contract/patch_block.h"

enum { CHUNK = 16 /* bytes */ };

int ig_cuda_patch_element(const struct ig_cuda_patch *p) {
    return ig_cuda_math_is_bytes(p->math) ? 1 : 2;
}

static int lanes(const struct ig_cuda_patch *p) {
    return CHUNK / ig_cuda_patch_element(p);
}

/* So many chunks that eight lines at the same position fall into different banks. */
static int odd(int chunks) {
    return chunks | 1;
}

int ig_cuda_patch_pixels(const struct ig_cuda_patch *p, int axis) {
    int outputs = axis == 0 ? 1 : p->tile[axis - 1];
    return (outputs - 1) * p->strides[axis] + (p->taps[axis] - 1) * p->dilations[axis] + 1;
}

int ig_cuda_patch_chunks(const struct ig_cuda_patch *p) {
    return (p->channels + lanes(p) - 1) / lanes(p);
}

int ig_cuda_patch_steps(const struct ig_cuda_patch *p) {
    return (p->taps[0] * p->taps[1] * p->taps[2] * ig_cuda_patch_chunks(p) + 1) / 2;
}

int ig_cuda_patch_phase(const struct ig_cuda_patch *p) {
    return (ig_cuda_patch_pixels(p, 2) + p->strides[2] - 1) / p->strides[2];
}

int ig_cuda_patch_pixel(const struct ig_cuda_patch *p) {
    return odd(ig_cuda_patch_chunks(p)) * CHUNK;
}

int ig_cuda_patch_line(const struct ig_cuda_patch *p) {
    return ig_cuda_patch_phase(p) * p->strides[2] * ig_cuda_patch_pixel(p);
}

int ig_cuda_patch_bytes(const struct ig_cuda_patch *p) {
    return ig_cuda_patch_pixels(p, 0) * ig_cuda_patch_pixels(p, 1) * ig_cuda_patch_line(p);
}

/* Neighbouring rows lie 8 or 24 banks apart. */
int ig_cuda_patch_row(const struct ig_cuda_patch *p) {
    return p->bn % 16 == 0 ? p->bn + 8 : p->bn;
}

int ig_cuda_patch_zero_at(const struct ig_cuda_patch *p) {
    int sums = p->tile[0] * p->tile[1] * ig_cuda_patch_row(p) * 4, bytes = ig_cuda_patch_bytes(p);
    return bytes > sums ? bytes : sums;
}

int ig_cuda_patch_weights_at(const struct ig_cuda_patch *p) {
    return ig_cuda_patch_zero_at(p) + CHUNK;
}

int ig_cuda_patch_weights_line(const struct ig_cuda_patch *p) {
    return odd(p->b_across ? p->bn / lanes(p) : ig_cuda_patch_steps(p) * 2) * CHUNK;
}

int ig_cuda_patch_shared(const struct ig_cuda_patch *p) {
    int lines = p->b_across ? ig_cuda_patch_steps(p) * 2 * lanes(p) : p->bn;
    return ig_cuda_patch_weights_at(p) + lines * ig_cuda_patch_weights_line(p);
}

int ig_cuda_patch_threads(const struct ig_cuda_patch *p) {
    return p->tile[0] * p->tile[1] / (16 * p->blocks) * 32;
}
