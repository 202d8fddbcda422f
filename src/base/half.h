/* float16 (IEEE 754 binary16) and bfloat16 conversions; round to nearest even, NaN stays NaN. */
#ifndef IG_BASE_HALF_H
#define IG_BASE_HALF_H

#include <stdint.h>

float ig_f16_to_f32(uint16_t bits);
uint16_t ig_f32_to_f16(float value);
uint16_t ig_f64_to_f16(double value);
float ig_bf16_to_f32(uint16_t bits);
uint16_t ig_f32_to_bf16(float value);
uint16_t ig_f64_to_bf16(double value);

#endif
