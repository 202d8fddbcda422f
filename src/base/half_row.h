/* Rows of float16 and bfloat16 converted at the speed of memory: bit by bit what half.h gives for each element. */
#ifndef IG_BASE_HALF_ROW_H
#define IG_BASE_HALF_ROW_H

#include <stddef.h>
#include <stdint.h>

/* A signalling NaN becomes quiet, as by any arithmetic. The arrays must not overlap. */
void ig_f16_to_f32_row(const uint16_t *from, float *to, size_t count);
void ig_bf16_to_f32_row(const uint16_t *from, float *to, size_t count);
void ig_f32_to_f16_row(const float *from, uint16_t *to, size_t count);
void ig_f32_to_bf16_row(const float *from, uint16_t *to, size_t count);

#endif
