/*
 * A job: one call into the compiler half (import, build, evaluate), run as a transaction.
 *
 * Compiler code allocates thousands of small objects and can fail almost anywhere. As in PostgreSQL's memory contexts
 * with ereport, or Lua's protected calls, a job owns an arena for all of its memory and a landing place for failure:
 * ig_raise leaves the job by longjmp, and resources outside the arena (files, processes, mappings) are released by the
 * cleanups registered with ig_defer, last first. So compiler functions return their result, never a status, and an
 * allocation never returns NULL. The runtime half, which serves requests for months, does not work this way.
 *
 * Rule: between ig_job_run and ig_raise, no frame may hold a resource that is neither in the arena nor deferred. A job
 * belongs to one thread.
 */
#ifndef IG_BASE_JOB_H
#define IG_BASE_JOB_H

#include <setjmp.h>
#include <stdarg.h>

#include "base/memory.h"

struct ig_defer;

struct ig_job {
    const struct ingot_allocator *allocator;
    struct ig_arena arena;        /* lives as long as the job */
    struct ingot_error *error;    /* where ig_raise writes */
    jmp_buf *landing;             /* of the innermost ig_job_run */
    enum ingot_status raised;     /* the status that a longjmp carries to the landing place */
    struct ig_defer *defers;      /* cleanups, last registered first */
    const struct ig_where *where; /* stack of contexts for messages, innermost first */
};

/* Starts with an empty arena and no cleanups. */
void ig_job_init(struct ig_job *job, const struct ingot_allocator *allocator);
/* Runs the remaining cleanups and frees the arena. */
void ig_job_deinit(struct ig_job *job);

/*
 * Calls body(job, argument). Returns INGOT_OK, or the raised status with `error` filled. On failure the cleanups that
 * body registered have run; on success they stay registered until ig_job_deinit or ig_undefer. Calls may be nested;
 * arena memory is not freed before ig_job_deinit.
 */
enum ingot_status ig_job_run(struct ig_job *job, void (*body)(struct ig_job *job, void *argument), void *argument,
                             struct ingot_error *error);

/* Leaves the job. The message gets the `where` prefixes: "cannot import node 'conv1' (Conv): <message>". */
_Noreturn void ig_raise(struct ig_job *job, enum ingot_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* For defects in Ingot: raises INGOT_INTERNAL with file and line. */
#define IG_ASSERT(job, condition)                                                                           \
    do {                                                                                                    \
        if (!(condition))                                                                                   \
            ig_raise((job), INGOT_INTERNAL, "%s:%d: broken invariant: %s", __FILE__, __LINE__, #condition); \
    } while (0)
/* Raises a failure of runtime-style code; `error` has its status and message. */
_Noreturn void ig_raise_error(struct ig_job *job, const struct ingot_error *error);

/* A prefix for messages raised within a scope; lives on the caller's stack, pushed and popped in pairs. */
struct ig_where {
    const struct ig_where *outer;
    const char *verb; /* "import node" */
    const char *name; /* "conv1"; may be NULL */
    const char *kind; /* "Conv"; may be NULL */
};
void ig_where_push(struct ig_job *job, struct ig_where *where);
void ig_where_pop(struct ig_job *job);

/* Registers release(resource), to be called at the end of the job or on failure. */
void ig_defer(struct ig_job *job, void (*release)(void *resource), void *resource);
/* Removes the newest registration of `resource` without calling it. */
void ig_undefer(struct ig_job *job, void *resource);

/* Zeroed arena memory; never NULL (raises INGOT_OUT_OF_MEMORY). */
void *ig_alloc(struct ig_job *job, size_t size);
void *ig_alloc_array(struct ig_job *job, size_t count, size_t size);
void *ig_grow(struct ig_job *job, void *old, size_t old_count, size_t new_count, size_t size);
char *ig_strdup(struct ig_job *job, const char *text);
char *ig_strndup(struct ig_job *job, const char *text, size_t length);
char *ig_format(struct ig_job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));
void *ig_memdup(struct ig_job *job, const void *data, size_t size);
#define IG_NEW(job, type) ((type *)ig_alloc((job), sizeof(type)))
#define IG_NEW_ARRAY(job, type, count) ((type *)ig_alloc_array((job), (count), sizeof(type)))

/* Growable arrays in the arena: struct { T *at; uint32_t count, capacity; }. */
#define IG_VEC(type)              \
    struct {                      \
        type *at;                 \
        uint32_t count, capacity; \
    }
#define IG_PUSH(job, vec, ...)                                                               \
    do {                                                                                     \
        if ((vec)->count == (vec)->capacity) {                                               \
            uint32_t ig_cap_ = (vec)->capacity ? 2 * (vec)->capacity : 8;                    \
            (vec)->at = ig_grow((job), (vec)->at, (vec)->count, ig_cap_, sizeof *(vec)->at); \
            (vec)->capacity = ig_cap_;                                                       \
        }                                                                                    \
        (vec)->at[(vec)->count++] = (__VA_ARGS__);                                           \
    } while (0)

#endif
