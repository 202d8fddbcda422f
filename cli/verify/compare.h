/* Compares results with expected ones. */
#ifndef CLI_COMPARE_H
#define CLI_COMPARE_H

#include "session.h"
#include "tensor/tensor.h"

/*
 * Passes if |got - want| <= atol + share * max|want| + rtol * |want| for every element, the mean of |got - want| is at
 * most `mean`, and its root mean square is at most `rms` times that of want. NaN equals NaN and an infinity itself;
 * integers and booleans must be equal.
 */
struct tolerance {
    double rtol, atol, share, mean, rms;
};

/* The tolerance for an engine: the widest of those of its precision, of others for parts of the model, and of the types of
 * inputs and outputs. */
struct tolerance tolerance_of_build(const struct build_arguments *build);

/* Reads a tolerance.json; missing keys keep their values. A file that gives atol replaces all of them. */
enum ingot_status tolerance_read(const char *path, struct tolerance *tolerance, struct ingot_error *error);

/* False if they differ, with a line in out_message that says how. */
bool tensors_agree(const struct ingot_tensor *got, const struct ingot_tensor *want, const struct tolerance *tolerance,
                   char *out_message, size_t size);

#endif
