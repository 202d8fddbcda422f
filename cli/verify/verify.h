/* One case of `ingot verify`. */
#ifndef CLI_VERIFY_H
#define CLI_VERIFY_H

#include "session.h"
#include "verify/compare.h"

struct verify_arguments {
    struct build_arguments build;
    const char *rtol, *atol; /* as given; NULL: the folder's, or the default */
    struct tolerance given;  /* parsed rtol and atol */
    struct context_arguments context;
    unsigned seed, parallel;
    unsigned processors; /* of the machine */
    bool any_order;
    double timeout; /* seconds per case; 0: no limit */
};

enum verdict { VERDICT_PASSED, VERDICT_FAILED, VERDICT_SKIPPED };

/* Builds, runs and compares; if it does not pass, out_message says why in a line. */
enum verdict verify_case(const struct verify_arguments *arguments, const char *path, char *out_message, size_t size);

#endif
