/* Errors of the command line: the library's struct, printed as a line on stderr, mapped to an exit status. */
#include <stdarg.h>
#include <stdio.h>

#include "cli.h"

int cli_set_error(struct ingot_error *error, enum ingot_status status, const char *format, ...) {
    va_list arguments;
    if (!error) return 0;
    error->status = status;
    va_start(arguments, format);
    int length = vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return length;
}

int cli_fail(const struct ingot_error *error) {
    fflush(stdout);
    fprintf(stderr, "error: %s\n", error->message);
    switch (error->status) {
    case INGOT_OK: return EXIT_DONE;
    case INGOT_INVALID_ARGUMENT: return EXIT_USAGE;
    case INGOT_IO:
    case INGOT_BAD_MODEL:
    case INGOT_BAD_ENGINE:
    case INGOT_BAD_TENSOR:
    case INGOT_UNSUPPORTED:
    case INGOT_INCOMPATIBLE: return EXIT_INPUT;
    case INGOT_OUT_OF_MEMORY:
    case INGOT_TOOLCHAIN:
    case INGOT_DEVICE:
    case INGOT_INTERNAL:
    case INGOT_TIMEOUT:
    case INGOT_CANCELLED: break;
    }
    return EXIT_SYSTEM;
}

int cli_usage(const char *command, const char *format, ...) {
    va_list arguments;
    fflush(stdout);
    fputs("error: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    if (command) {
        fprintf(stderr, "\nsee 'ingot %s --help'\n", command);
    } else {
        fputs("\nsee 'ingot --help'\n", stderr);
    }
    return EXIT_USAGE;
}
