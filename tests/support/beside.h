/* Files beside the program of a test: stand-ins for libraries. */
#ifndef TEST_BESIDE_H
#define TEST_BESIDE_H

#include <stddef.h>

/* The path of file `name` in the folder of this program. */
void test_beside(const char *name, char *out_path, size_t size);

#endif
