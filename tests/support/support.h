/* Included by all test programs: cmocka with its prerequisites. */
#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The folder of models beside the checkout; NULL if it does not exist (tests then skip its models). */
const char *test_shared_models(void);

#endif
