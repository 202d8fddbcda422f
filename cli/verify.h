/* One case of `ingot verify`. */
#ifndef CLI_VERIFY_H
#define CLI_VERIFY_H

#include "compare.h"
#include "session.h"

struct verify_arguments {
    struct build_arguments build;
    const char *rtol, *atol; /* as given; NULL: of the folder, or the default */
    struct tolerance given;  /* the numbers of rtol and atol */
    struct context_arguments context;
    unsigned seed, parallel;
    unsigned processors; /* of the machine */
    bool any_order;
    double timeout; /* seconds for a case; 0: as long as it takes */
};

enum verdict { VERDICT_PASSED, VERDICT_FAILED, VERDICT_SKIPPED };

/* Builds and compares; a line of explanation for what did not pass in out_message. */
enum verdict verify_case(const struct verify_arguments *arguments, const char *path, char *out_message, size_t size);

#endif
