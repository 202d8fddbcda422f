/* Allocation for the command line: running out of memory ends the program. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static void *checked(void *memory) {
    if (memory) return memory;
    fputs("error: out of memory\n", stderr);
    exit(EXIT_SYSTEM);
}

void *cli_alloc(size_t count, size_t size) {
    return checked(calloc(count ? count : 1, size ? size : 1));
}

void *cli_resize(void *old, size_t count, size_t size) {
    if (size && count > SIZE_MAX / size) return checked(NULL);
    return checked(realloc(old, count && size ? count * size : 1));
}

char *cli_strdup(const char *text) {
    size_t length = strlen(text) + 1;
    return memcpy(cli_alloc(length, 1), text, length);
}

char *cli_format(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = cli_alloc((size_t)(length < 0 ? 0 : length) + 1, 1);
    va_start(arguments, format);
    if (length > 0) vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}
