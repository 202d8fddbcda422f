/* Ranks of a group as threads of a test. */
#ifndef TESTS_SUPPORT_DIST_RANKS_H
#define TESTS_SUPPORT_DIST_RANKS_H

#include "dist/dist.h"

/* Runs body(seat, user) on a thread for each rank of a new local group, and destroys the seats when all have returned.
 * Bodies must not use cmocka's assertions, which leave only the test's own thread: they return a text that says what is
 * wrong, or NULL, and the test fails with it. */
void run_ranks(uint32_t ranks, double seconds, const char *(*body)(struct ig_group *seat, void *user), void *user);

/* "error: …" in a static buffer of the thread's; for bodies. */
const char *failed(const struct ingot_error *error);

#endif
