/* From the text of kernels in CUDA C to a shared object for the emulator (grid.h), by way of C++ (cuda.hpp) and g++. */
#ifndef TESTS_EMULATOR_TRANSLATE_H
#define TESTS_EMULATOR_TRANSLATE_H

#include <stdbool.h>
#include <stddef.h>

/* True where there is a compiler. */
bool emulator_present(void);
/* Compiles the texts to one object, which looks like a cubin for `sm` so far as headers go. Returns it, to be freed, or
 * NULL with the compiler's first words in `log`. */
void *emulator_compile(const char *const *texts, unsigned count, int sm, size_t *out_size, char *log, size_t log_size);
/* Makes of the object's first bytes what the loader of this machine wants to see. */
void emulator_unmask(void *object);

#endif
