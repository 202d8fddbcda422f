/* A growing text in a job's arena, written by printers. */
#ifndef IG_BASE_TEXT_H
#define IG_BASE_TEXT_H

#include "base/job.h"

struct ig_text {
    struct ig_job *job;
    char *at; /* always NUL-terminated once something was written; NULL before */
    size_t length, capacity;
};

void ig_text_init(struct ig_text *text, struct ig_job *job);
void ig_text_add(struct ig_text *text, const char *string);
void ig_text_add_n(struct ig_text *text, const char *bytes, size_t length);
void ig_text_printf(struct ig_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
