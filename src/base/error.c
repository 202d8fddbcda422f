/* Errors: a status and one line of text in a caller-owned buffer. See error.h. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *ingot_status_name(enum ingot_status status) {
    static const char *const names[] = {
        [INGOT_OK] = "ok",
        [INGOT_INVALID_ARGUMENT] = "invalid argument",
        [INGOT_OUT_OF_MEMORY] = "out of memory",
        [INGOT_IO] = "input/output error",
        [INGOT_BAD_MODEL] = "bad model",
        [INGOT_BAD_ENGINE] = "bad engine",
        [INGOT_BAD_TENSOR] = "bad tensor",
        [INGOT_UNSUPPORTED] = "unsupported",
        [INGOT_INCOMPATIBLE] = "incompatible",
        [INGOT_TOOLCHAIN] = "toolchain error",
        [INGOT_DEVICE] = "device error",
        [INGOT_INTERNAL] = "internal error",
        [INGOT_TIMEOUT] = "timeout",
        [INGOT_CANCELLED] = "cancelled",
    };
    size_t index = (size_t)status;
    return index < sizeof names / sizeof *names ? names[index] : "unknown status";
}

/* Names in messages come from untrusted files; the message must be one printable line, whatever they contain. */
static void make_one_line(char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7f) *text = ' ';
    }
}

/* Marks a text that filled its buffer, without cutting a UTF-8 sequence in half. */
static void mark_truncation(char *text, size_t capacity) {
    static const char ellipsis[] = "...";
    size_t end = capacity - sizeof ellipsis;
    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80)
        end--;
    memcpy(text + end, ellipsis, sizeof ellipsis);
}

static void format_message(char *out, size_t capacity, const char *format, va_list arguments) {
    int length = vsnprintf(out, capacity, format, arguments);
    if (length < 0) out[0] = '\0';
    if (length >= 0 && (size_t)length >= capacity) mark_truncation(out, capacity);
    make_one_line(out);
}

enum ingot_status ig_error_set(struct ingot_error *error, enum ingot_status status, const char *format, ...) {
    if (!error) return status;
    /* Formatted in a buffer of its own, since an argument may point into the error's message. */
    char message[INGOT_ERROR_MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    format_message(message, sizeof message, format, arguments);
    va_end(arguments);
    error->status = status;
    memcpy(error->message, message, sizeof message);
    return status;
}

void ig_error_prefix(struct ingot_error *error, const char *format, ...) {
    if (!error) return;
    char prefix[INGOT_ERROR_MESSAGE_SIZE / 2];
    va_list arguments;
    va_start(arguments, format);
    format_message(prefix, sizeof prefix, format, arguments);
    va_end(arguments);
    ig_error_set(error, error->status, "%s: %s", prefix, error->message);
}
