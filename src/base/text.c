/* A growing text in a job's arena. See text.h. */
#include "base/text.h"

#include <stdio.h>
#include <string.h>

void ig_text_init(struct ig_text *text, struct ig_job *job) {
    *text = (struct ig_text){.job = job};
}

/* Makes room for `more` bytes and the terminator. */
static void reserve(struct ig_text *text, size_t more) {
    size_t need;
    if (!ig_size_add(text->length, more, &need) || !ig_size_add(need, 1, &need)) {
        ig_raise(text->job, INGOT_OUT_OF_MEMORY, "out of memory (a text of %zu bytes)", text->length);
    }
    if (need <= text->capacity) return;
    size_t capacity = text->capacity ? text->capacity : 128;
    while (capacity < need)
        capacity = capacity > SIZE_MAX / 2 ? need : 2 * capacity;
    text->at = ig_grow(text->job, text->at, text->length, capacity, 1);
    text->capacity = capacity;
}

void ig_text_add_n(struct ig_text *text, const char *bytes, size_t length) {
    reserve(text, length);
    if (length) memcpy(text->at + text->length, bytes, length);
    text->length += length;
    text->at[text->length] = '\0';
}

void ig_text_add(struct ig_text *text, const char *string) {
    ig_text_add_n(text, string, strlen(string));
}

void ig_text_printf(struct ig_text *text, const char *format, ...) {
    reserve(text, 64); /* enough for most pieces */
    size_t room = text->capacity - text->length;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text->at + text->length, room, format, arguments);
    va_end(arguments);
    if (length < 0) ig_raise(text->job, INGOT_INTERNAL, "cannot format '%s'", format);
    if ((size_t)length >= room) {
        text->at[text->length] = '\0';
        reserve(text, (size_t)length);
        va_start(arguments, format);
        vsnprintf(text->at + text->length, (size_t)length + 1, format, arguments);
        va_end(arguments);
    }
    text->length += (size_t)length;
}
