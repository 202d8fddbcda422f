/*
 * The command line: a table of commands, one file each. A client of ingot/ingot.h and of nothing else in Ingot.
 *
 * Data go to stdout, messages to stderr. Environment variables are read here and nowhere else: INGOT_CC (as --cc),
 * INGOT_NVRTC (as --nvrtc), INGOT_JOBS (as --jobs), INGOT_CACHE (as --cache) and INGOT_CACHE_GB (its bound), INGOT_CACHE_ENGINES,
 * INGOT_CACHE_SHARED, INGOT_CACHE_TRUST and INGOT_CACHE_KEY (docs/reuse.md), XDG_CACHE_HOME and HOME, where the cache is by
 * default, and TMPDIR, where temporary engines are built.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "ingot/ingot.h"

enum exit_status {
    EXIT_DONE = 0,
    EXIT_DIFFERENT = 1, /* a comparison failed */
    EXIT_USAGE = 2,
    EXIT_INPUT = 3,  /* a model, tensor or engine is bad */
    EXIT_SYSTEM = 4, /* the device or the system failed */
};

struct command {
    const char *name;
    const char *summary;               /* one line */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit status */
};

int cmd_build(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_refit(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_cache(int argc, char **argv);

/* ---- error.c */

/* Fills `error` (may be NULL) as the library does. Use the macro below. */
int cli_set_error(struct ingot_error *error, enum ingot_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static inline enum ingot_status cli_status(enum ingot_status status, int length) {
    (void)length;
    return status;
}
/* Fills `error` and evaluates to `status`. A macro, so that static analysis, which sees one file at a time and not into
 * variadic functions, knows that an error is not INGOT_OK. Evaluates `status` twice. */
#define cli_error(error, status, ...) cli_status((status), cli_set_error((error), (status), __VA_ARGS__))
/* Prints the error and returns the exit status for it. */
int cli_fail(const struct ingot_error *error);
/* Prints what is wrong with the arguments and where to find help; returns EXIT_USAGE. */
int cli_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define CLI_TRY(call)                                            \
    do {                                                         \
        enum ingot_status cli_try_status_ = (call);              \
        if (cli_try_status_ != INGOT_OK) return cli_try_status_; \
    } while (0)

/* ---- memory.c: ends the program if memory runs out; free() releases */

void *cli_alloc(size_t count, size_t size); /* zeroed */
void *cli_resize(void *old, size_t count, size_t size);
char *cli_strdup(const char *text);
char *cli_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- clock.c */

double now_ms(void); /* monotonic, from an arbitrary origin */

#endif
