/* Comparing what came with what was expected. */
#ifndef CLI_COMPARE_H
#define CLI_COMPARE_H

#include "options.h"
#include "tensor.h"

/*
 * |got - want| <= atol + share * max|want| + rtol * |want| for every element, a mean of |got - want| of at most `mean`, and
 * its root mean square at most `rms` times that of want. NaN is equal to NaN and an infinity to itself; integers and
 * booleans must be equal.
 */
struct tolerance {
    double rtol, atol, share, mean, rms;
};

/* What an engine may be off that was built with this precision ("fp32", …; NULL: fp32) and with others for parts of the
 * model ("PATTERN=TYPE"): that of the widest. */
struct tolerance tolerance_of_precision(const char *precision, const struct option_list *of);

/* From a tolerance.json; a key that is missing keeps its value. A file that gives atol means all of it. */
enum ingot_status tolerance_read(const char *path, struct tolerance *tolerance, struct ingot_error *error);

/* False where they differ, with a line that says how in out_message. */
bool tensors_agree(const struct ingot_tensor *got, const struct ingot_tensor *want, const struct tolerance *tolerance,
                   char *out_message, size_t size);

#endif
