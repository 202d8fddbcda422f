/* A depthwise convolution by the threads of a CUDA block, described for codegen (codegen/cuda/depthwise.c): everything
 * that its text depends on. */
#ifndef IG_KERNEL_CUDA_DEPTHWISE_BLOCK_H
#define IG_KERNEL_CUDA_DEPTHWISE_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "ingot/ingot.h"

struct ig_cuda_depthwise {
    enum ingot_dtype input, weight; /* f32, f16 or bf16; or both i8 or u8 */
    int64_t channels;
    int taps[3], dilations[3]; /* planes, rows and columns; a convolution along fewer axes has one plane, or one row */
    int stride;                /* along columns */
    int lanes, width;          /* of a thread: channels, output positions side by side along columns */
    bool at_once;              /* all rows of the window are unrolled, so that their loads are in flight together */
    int border;                /* of bytes: what lies beyond the edges */
};

static inline bool ig_cuda_depthwise_is_bytes(const struct ig_cuda_depthwise *d) {
    return d->input == INGOT_I8 || d->input == INGOT_U8;
}

/* Of bytes: the steps in which the rows of a plane's window are walked, and the rows of each, at most four, which one instruction
 * multiplies. */
static inline int ig_cuda_depthwise_steps(const struct ig_cuda_depthwise *d) {
    return (d->taps[1] + 3) / 4;
}
static inline int ig_cuda_depthwise_together(const struct ig_cuda_depthwise *d) {
    int steps = ig_cuda_depthwise_steps(d);
    return (d->taps[1] + steps - 1) / steps;
}

#endif
