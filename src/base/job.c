/* Jobs: arena memory, failure by longjmp, deferred cleanups. See job.h for the model and its one rule. */
#include "base/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct ig_defer {
    struct ig_defer *older;
    void (*release)(void *resource);
    void *resource;
};

void ig_job_init(struct ig_job *job, const struct ingot_allocator *allocator) {
    *job = (struct ig_job){.allocator = allocator};
    ig_arena_init(&job->arena, allocator);
}

/* Runs the cleanups that are newer than `mark`. Each is unlinked first, so that it runs only once, whatever it does. */
static void run_defers(struct ig_job *job, const struct ig_defer *mark) {
    while (job->defers != mark) {
        struct ig_defer *newest = job->defers;
        job->defers = newest->older;
        newest->release(newest->resource);
    }
}

/* Not inlined into a caller of setjmp, where gcc takes `link` for a variable that longjmp may spoil. */
__attribute__((noinline)) static void unlink_defer(struct ig_job *job, const struct ig_defer *defer) {
    struct ig_defer **link = &job->defers;
    while (*link != defer)
        link = &(*link)->older;
    *link = defer->older;
}

void ig_job_deinit(struct ig_job *job) {
    run_defers(job, NULL);
    ig_arena_deinit(&job->arena);
}

enum ingot_status ig_job_run(struct ig_job *job, void (*body)(struct ig_job *job, void *argument), void *argument,
                             struct ingot_error *error) {
    /* None of these changes after setjmp, so they are intact after the longjmp; but for `mark`, which the list refers to. */
    jmp_buf here;
    jmp_buf *const outer_landing = job->landing;
    struct ingot_error *const outer_error = job->error;
    const struct ig_where *const where = job->where;
    struct ig_defer mark = {.older = job->defers, .resource = &mark};

    /* An element of its own, since the body may undefer what was registered before. */
    job->defers = &mark;
    job->raised = INGOT_OK;
    if (setjmp(here) == 0) {
        job->landing = &here;
        job->error = error;
        body(job, argument);
    } else {
        run_defers(job, &mark);
    }
    unlink_defer(job, &mark);
    enum ingot_status status = job->raised;
    job->raised = INGOT_OK;
    job->landing = outer_landing;
    job->error = outer_error;
    job->where = where;
    return status;
}

/* ---- Raising ---- */

static _Noreturn void leave(struct ig_job *job, enum ingot_status status) {
    /* Outside of ig_job_run there is nowhere to go, and returning would run on with broken invariants. */
    if (!job->landing) abort();
    job->raised = status == INGOT_OK ? INGOT_INTERNAL : status;
    longjmp(*job->landing, 1);
}

/*
 * Prefixes the message with the scopes, the innermost first, since it says most. Stops at the first that does not fit:
 * the message matters more than its outer circumstances.
 */
static void add_places(const struct ig_where *where, struct ingot_error *error) {
    for (; where; where = where->outer) {
        char place[320];
        int length = snprintf(place, sizeof place, "cannot %s", where->verb);
        if (length < 0) return;
        size_t used = (size_t)length < sizeof place ? (size_t)length : sizeof place - 1;
        /* Each is truncated, so that an enormous name does not hide the operator. */
        if (where->name) {
            snprintf(place + used, sizeof place - used, " '%.200s'", where->name);
            used = strlen(place);
        }
        if (where->kind) snprintf(place + used, sizeof place - used, " (%.60s)", where->kind);
        if (strlen(place) + 2 + strlen(error->message) >= sizeof error->message) return;
        ig_error_prefix(error, "%s", place);
    }
}

void ig_raise(struct ig_job *job, enum ingot_status status, const char *format, ...) {
    struct ingot_error *error = job->error;
    if (error) {
        /* Formatted in a buffer of its own, since an argument may be the current message. */
        char message[INGOT_ERROR_MESSAGE_SIZE];
        va_list arguments;
        va_start(arguments, format);
        int length = vsnprintf(message, sizeof message, format, arguments);
        va_end(arguments);
        ig_error_set(error, status, "%s", length < 0 ? format : message);
        add_places(job->where, error);
    }
    leave(job, status);
}

void ig_raise_error(struct ig_job *job, const struct ingot_error *error) {
    ig_raise(job, error->status, "%s", error->message);
}

void ig_where_push(struct ig_job *job, struct ig_where *where) {
    where->outer = job->where;
    job->where = where;
}

void ig_where_pop(struct ig_job *job) {
    if (job->where) job->where = job->where->outer;
}

/* ---- Cleanups ---- */

void ig_defer(struct ig_job *job, void (*release)(void *resource), void *resource) {
    struct ig_defer *defer = ig_arena_alloc(&job->arena, sizeof *defer);
    if (!defer) {
        /* The job owns the resource already: it must not leak because it cannot be registered. */
        release(resource);
        ig_raise(job, INGOT_OUT_OF_MEMORY, "out of memory");
    }
    *defer = (struct ig_defer){job->defers, release, resource};
    job->defers = defer;
}

void ig_undefer(struct ig_job *job, void *resource) {
    for (struct ig_defer **link = &job->defers; *link; link = &(*link)->older) {
        if ((*link)->resource == resource) {
            *link = (*link)->older;
            return;
        }
    }
}

/* ---- Memory ---- */

void *ig_alloc(struct ig_job *job, size_t size) {
    void *memory = ig_arena_alloc(&job->arena, size);
    if (!memory) ig_raise(job, INGOT_OUT_OF_MEMORY, "out of memory (%zu bytes wanted)", size);
    return memory;
}

void *ig_alloc_array(struct ig_job *job, size_t count, size_t size) {
    size_t total;
    if (!ig_size_mul(count, size, &total)) {
        ig_raise(job, INGOT_OUT_OF_MEMORY, "out of memory (%zu times %zu bytes wanted)", count, size);
    }
    return ig_alloc(job, total);
}

void *ig_grow(struct ig_job *job, void *old, size_t old_count, size_t new_count, size_t size) {
    /* A 32-bit capacity that overflowed when doubled arrives here smaller than it was. */
    if (new_count < old_count) ig_raise(job, INGOT_OUT_OF_MEMORY, "out of memory (more than %zu elements)", old_count);
    void *memory = ig_alloc_array(job, new_count, size);
    if (old_count) memcpy(memory, old, old_count * size);
    return memory;
}

char *ig_strndup(struct ig_job *job, const char *text, size_t length) {
    size_t size;
    if (!ig_size_add(length, 1, &size)) ig_raise(job, INGOT_OUT_OF_MEMORY, "out of memory");
    char *copy = ig_alloc(job, size);
    if (length) memcpy(copy, text, length);
    return copy;
}

char *ig_strdup(struct ig_job *job, const char *text) {
    return ig_strndup(job, text, strlen(text));
}

void *ig_memdup(struct ig_job *job, const void *data, size_t size) {
    void *copy = ig_alloc(job, size);
    if (size) memcpy(copy, data, size);
    return copy;
}

char *ig_format(struct ig_job *job, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = length < 0 ? NULL : ig_arena_alloc(&job->arena, (size_t)length + 1);
    if (text) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    if (!text) ig_raise(job, INGOT_OUT_OF_MEMORY, "out of memory");
    return text;
}
