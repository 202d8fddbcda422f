/*
 * Errors of the runtime half: every function that can fail returns a status and takes a caller-owned error. Two macros:
 * one creates an error, one propagates it. (The compiler half raises instead: see job.h.)
 */
#ifndef IG_BASE_ERROR_H
#define IG_BASE_ERROR_H

#include "ingot/ingot.h"

/* Fills `error` (may be NULL) and returns `status`. Message style: "cannot open '%s': %s". */
enum ingot_status ig_error_set(struct ingot_error *error, enum ingot_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Prepends "<prefix>: " to the message. */
void ig_error_prefix(struct ingot_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* return IG_ERR(error, INGOT_BAD_ENGINE, "…"); */
#define IG_ERR(error, status, ...) ig_error_set((error), (status), __VA_ARGS__)

/* Returns from the calling function on failure. */
#define IG_TRY(call)                                           \
    do {                                                       \
        enum ingot_status ig_try_status_ = (call);             \
        if (ig_try_status_ != INGOT_OK) return ig_try_status_; \
    } while (0)

#endif
