/* A network that is all weights and no work, for tests of where weights are: y[n, 16] = table[ids[n]], in fp32. */
#ifndef TESTS_SUPPORT_TABLE_H
#define TESTS_SUPPORT_TABLE_H

#include "ingot/ingot.h"

enum { TABLE_ROWS = 1 << 20, TABLE_COLUMNS = 16 };
#define TABLE_BYTES ((size_t)TABLE_ROWS * TABLE_COLUMNS * sizeof(float)) /* 64 MiB */

/* Builds it into the file `path`. */
enum ingot_status table_build(const struct ingot_build_options *options, const char *path, struct ingot_error *error);
/* Runs it and checks the result: INGOT_INTERNAL if it is wrong. */
enum ingot_status table_run(struct ingot_context *context, struct ingot_error *error);

#endif
