/* A depthwise convolution as CUDA C++: the description's numbers as constants, then the template (depthwise.cu, depthwise_bytes.cu), in the
 * namespace `depthwise`. */
#ifndef IG_CODEGEN_CUDA_DEPTHWISE_H
#define IG_CODEGEN_CUDA_DEPTHWISE_H

#include "base/text.h"
#include "kernel/cuda/contract/depthwise_block.h"

/*
 * Declares, for each thread alone,
 *
 *     depthwise::add_up(sums, input, filters, image, plane, row, column, channel, planes, rows, columns)
 *
 * which sets `sums`, floats or of bytes i32, in registers by position and channel. The input is channels-last, `filters` by taps and
 * channels. The first position's window begins at `plane`, `row` and `column` of an image of planes x rows x columns, or
 * outside of it.
 */
void ig_cuda_depthwise(const struct ig_cuda_depthwise *depthwise, struct ig_text *text);

#endif
