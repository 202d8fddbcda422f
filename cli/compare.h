/* Comparing what came with what was expected. */
#ifndef CLI_COMPARE_H
#define CLI_COMPARE_H

#include "tensor.h"

/*
 * |got - want| <= atol + rtol * |want| for every element, and a mean of |got - want| of at most `mean`. NaN is equal to
 * NaN and an infinity to itself; integers and booleans must be equal. A negative atol stands for 1e-6 + 1e-4 * max|want|.
 */
struct tolerance {
    double rtol, atol, mean;
};
#define TOLERANCE_DEFAULT \
    { 1e-3, -1, 1e300 }

/* From a tolerance.json; a key that is missing keeps its value. */
enum ingot_status tolerance_read(const char *path, struct tolerance *tolerance, struct ingot_error *error);

/* False where they differ, with a line that says how in out_message. */
bool tensors_agree(const struct ingot_tensor *got, const struct ingot_tensor *want, const struct tolerance *tolerance,
                   char *out_message, size_t size);

#endif
