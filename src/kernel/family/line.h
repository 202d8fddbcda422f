/*
 * Loops over neighbouring elements on CPUs. Compilers find no good instructions for loops that mix bytes with floats: so bytes
 * become a line of floats before the loop, and results a line of floats that is narrowed behind it, by micro-kernels
 * (codegen/c/narrow.c).
 */
#ifndef IG_KERNEL_LINE_H
#define IG_KERNEL_LINE_H

#include "kernel/kernel.h"

struct ig_line {
    struct ig_stmt *around; /* the statement that contains the loop; NULL: there is no such loop */
    ig_x column, columns;   /* its variable, from 0, and how many elements there are */
    int64_t most;           /* at most so many */
};

/* Stores a value that ends in a cast from f32 to bytes, or with AVX512-BF16 to bf16, at position `at` within `loop`, and the
 * bytes that it reads along the line as well, by way of lines of floats. False, with nothing stored, if it is no such
 * value. */
bool ig_line_store(struct ig_kernel *kernel, const struct ig_target *target, const struct ig_line *line,
                   struct ig_stmt *loop, int buffer, ig_x at, ig_x value);

#endif
