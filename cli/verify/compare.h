/* Compares results with expected ones. */
#ifndef CLI_COMPARE_H
#define CLI_COMPARE_H

#include "options.h"
#include "tensor/tensor.h"

/*
 * Passes if |got - want| <= atol + share * max|want| + rtol * |want| for every element, the mean of |got - want| is at
 * most `mean`, and its root mean square is at most `rms` times that of want. NaN equals NaN and an infinity itself;
 * integers and booleans must be equal.
 */
struct tolerance {
    double rtol, atol, share, mean, rms;
};

/* The tolerance for an engine built with this precision ("fp32", …; NULL: fp32) and with others for parts of the model
 * ("PATTERN=TYPE"): the widest of them. */
struct tolerance tolerance_of_precision(const char *precision, const struct option_list *of);

/* Reads a tolerance.json; missing keys keep their values. A file that gives atol replaces all of them. */
enum ingot_status tolerance_read(const char *path, struct tolerance *tolerance, struct ingot_error *error);

/* False if they differ, with a line in out_message that says how. */
bool tensors_agree(const struct ingot_tensor *got, const struct ingot_tensor *want, const struct tolerance *tolerance,
                   char *out_message, size_t size);

#endif
