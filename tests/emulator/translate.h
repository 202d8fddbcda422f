/* Compiles CUDA C kernels to a shared object for the emulator (grid.h): they are rewritten as C++ (cuda.hpp) and
 * compiled by g++. */
#ifndef TESTS_EMULATOR_TRANSLATE_H
#define TESTS_EMULATOR_TRANSLATE_H

#include <stdbool.h>
#include <stddef.h>

/* Is g++ installed? */
bool emulator_present(void);
/* Compiles the texts into one object whose ELF header looks like that of a cubin for `sm`. Returns it, for the caller
 * to free, or NULL with the compiler's first error in `log`. */
void *emulator_compile(const char *const *texts, unsigned count, int sm, size_t *out_size, char *log, size_t log_size);
/* Restores the object's ELF header, so that this machine's loader accepts it. */
void emulator_unmask(void *object);

#endif
