/* Which cache the commands use: --cache, else $INGOT_CACHE, else the user's folder. */
#ifndef CLI_FOLDER_H
#define CLI_FOLDER_H

#include "cli.h"

#define CACHE_OPTION_HELP                                                                                             \
    "the folder that keeps compiled kernels for later builds\n(default: $INGOT_CACHE, else ingot in $XDG_CACHE_HOME " \
    "or\n~/.cache; holds 10 GB, or $INGOT_CACHE_GB)"

/* Opens it. `argument` is that of --cache, or NULL. *out_cache is NULL if it is "off", or there is no home folder. */
enum ingot_status cache_open(const char *argument, struct ingot_cache **out_cache, struct ingot_error *error);
/* The file in the same folder that keeps what this machine can do at best (`machines` of struct ingot_context_options); the
 * caller frees it. NULL: there is no folder. */
char *cache_machines(const char *argument);

#endif
