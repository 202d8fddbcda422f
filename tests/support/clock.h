/* The test's own clock: an upper bound for what the code under test says that it took. No test may expect anything of
 * itself to be fast, because machines are slow or busy. */
#ifndef TESTS_SUPPORT_CLOCK_H
#define TESTS_SUPPORT_CLOCK_H

#include <stdint.h>

/* Nanoseconds since some moment in the past. */
uint64_t test_now_ns(void);

#endif
