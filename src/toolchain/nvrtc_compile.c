/*
 * Compiles sources to cubins with NVRTC, on several threads; see nvrtc.h.
 *
 * Worker threads compile and never touch the job; the job's thread copies their results into the arena, in the order in
 * which they were started, and lays them out in the order of the sources. Long texts start first: they take longest,
 * and the last to end should be a short one.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/text.h"
#include "toolchain/nvrtc.h"
#include "toolchain/nvrtc_api.h"

enum { MAX_THREADS = 64, ALIGNMENT = 64, PAGE = 4096 };

/* Compiles one source to a cubin or to PTX. */
struct task {
    const struct ig_source *source;
    const char *file; /* its name in messages */
    bool is_ptx;
    size_t length;
    unsigned order;
    /* Used by the thread that took the task, until `done`. */
    struct ig_nvrtc_program *program;
    int result;
    bool done;
    /* Used by the job's thread. */
    void *bytes;
    size_t size;
};

struct pool {
    struct ig_job *job;
    const struct ig_nvrtc *nvrtc;
    const char *cubin_option, *ptx_option;
    struct task *tasks;
    unsigned count;
    pthread_mutex_t mutex; /* guards what follows, and tasks[].done */
    pthread_cond_t changed;
    unsigned taken, finished;
    bool stopped;
    pthread_t threads[MAX_THREADS];
    unsigned n_threads;
};

/* ---- Worker threads ---------------------------------------------------------------------------------------------- */

static void compile(const struct pool *p, struct task *t) {
    const char *const options[] = {t->is_ptx ? p->ptx_option : p->cubin_option, "--std=c++17", "--disable-warnings",
                                   "--no-source-include", p->nvrtc->option};
    int count = (int)(sizeof options / sizeof *options) - !p->nvrtc->option;
    t->result = p->nvrtc->create_program(&t->program, t->source->text, t->file, 0, NULL, NULL);
    if (t->result) {
        t->program = NULL;
        return;
    }
    t->result = p->nvrtc->compile_program(t->program, count, options);
}

static void *work(void *argument) {
    struct pool *p = argument;
    pthread_mutex_lock(&p->mutex);
    while (!p->stopped && p->taken < p->count) {
        struct task *t = &p->tasks[p->taken++];
        pthread_mutex_unlock(&p->mutex);
        compile(p, t);
        pthread_mutex_lock(&p->mutex);
        t->done = true;
        p->finished++;
        pthread_cond_signal(&p->changed);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

/* ---- The job's thread -------------------------------------------------------------------------------------------- */

/* Lets the threads finish their current tasks, then frees everything. */
static void stop(void *resource) {
    struct pool *p = resource;
    pthread_mutex_lock(&p->mutex);
    p->stopped = true;
    pthread_mutex_unlock(&p->mutex);
    for (unsigned i = 0; i < p->n_threads; i++)
        pthread_join(p->threads[i], NULL);
    for (unsigned i = 0; i < p->count; i++) {
        if (p->tasks[i].program) p->nvrtc->destroy_program(&p->tasks[i].program);
    }
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->mutex);
}

/* The first line of the log that contains "error", else the first line. */
static const char *first_error(struct pool *p, struct task *t) {
    size_t size = 0;
    if (!t->program || p->nvrtc->get_log_size(t->program, &size) || size <= 1) return NULL;
    char *log = ig_alloc(p->job, size + 1);
    if (p->nvrtc->get_log(t->program, log)) return NULL;
    const char *best = NULL;
    for (const char *line = log; *line; line += strspn(line, "\n")) {
        size_t length = strcspn(line, "\n");
        const char *text = ig_strndup(p->job, line, length);
        if (!best) best = text;
        if (strstr(text, "error")) return text;
        line += length;
    }
    return best;
}

static _Noreturn void refuse(struct pool *p, struct task *t) {
    const char *line = t->result == IG_NVRTC_COMPILATION ? first_error(p, t) : NULL;
    if (!line) line = p->nvrtc->get_error_string(t->result);
    enum ingot_status status = t->result == IG_NVRTC_OUT_OF_MEMORY ? INGOT_OUT_OF_MEMORY : INGOT_TOOLCHAIN;
    ig_raise(p->job, status, "%s cannot compile '%s' with %s: %s", p->nvrtc->version, t->source->symbol,
             t->is_ptx ? p->ptx_option : p->cubin_option, line);
}

/* Copies a task's result into the arena. */
static void fetch(struct pool *p, struct task *t) {
    const struct ig_nvrtc *n = p->nvrtc;
    if (t->result) refuse(p, t);
    t->result = t->is_ptx ? n->get_ptx_size(t->program, &t->size) : n->get_cubin_size(t->program, &t->size);
    if (t->result) refuse(p, t);
    t->bytes = ig_alloc(p->job, t->size + 1);
    t->result = t->is_ptx ? n->get_ptx(t->program, t->bytes) : n->get_cubin(t->program, t->bytes);
    if (t->result) refuse(p, t);
    n->destroy_program(&t->program);
    t->program = NULL;
}

/* Waits for the task; compiles it here if there are no threads. */
static void wait_for(struct pool *p, struct task *t) {
    pthread_mutex_lock(&p->mutex);
    if (p->n_threads == 0) {
        pthread_mutex_unlock(&p->mutex);
        compile(p, t);
        pthread_mutex_lock(&p->mutex);
        t->done = true;
        p->finished++;
    }
    while (!t->done)
        pthread_cond_wait(&p->changed, &p->mutex);
    pthread_mutex_unlock(&p->mutex);
}

static int longer_first(const void *a, const void *b) {
    const struct task *x = a, *y = b;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static void start(struct pool *p, unsigned jobs) {
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->changed, NULL);
    ig_defer(p->job, stop, p);
    if (jobs == 0) jobs = ig_cpu_processors();
    if (jobs > MAX_THREADS) jobs = MAX_THREADS;
    while (jobs > 1 && p->n_threads < jobs && p->n_threads < p->count) {
        if (pthread_create(&p->threads[p->n_threads], NULL, work, p)) break;
        p->n_threads++;
    }
}

static size_t rounded(size_t size, size_t to) {
    return (size + to - 1) / to * to;
}

static void lay_out(struct pool *p, unsigned count, bool portable, struct ig_code *out) {
    size_t size = 0;
    for (unsigned i = 0; i < p->count; i++)
        size += rounded(p->tasks[i].size, ALIGNMENT);
    out->size = rounded(size, PAGE);
    char *bytes = ig_alloc(p->job, out->size + PAGE);
    bytes += rounded((size_t)bytes, PAGE) - (size_t)bytes;
    out->bytes = bytes;
    out->entries = IG_NEW_ARRAY(p->job, uint64_t, count);
    if (portable) out->portable = IG_NEW_ARRAY(p->job, uint64_t, count);
    struct task **at = IG_NEW_ARRAY(p->job, struct task *, p->count);
    for (unsigned i = 0; i < p->count; i++)
        at[p->tasks[i].order] = &p->tasks[i];
    size = 0;
    for (unsigned i = 0; i < p->count; i++) {
        memcpy(bytes + size, at[i]->bytes, at[i]->size);
        if (i < count) {
            out->entries[i] = size;
        } else {
            out->portable[i - count] = size;
        }
        size += rounded(at[i]->size, ALIGNMENT);
    }
}

void ig_nvrtc_compile(struct ig_job *job, const struct ig_nvrtc *nvrtc, const char *arch, bool portable, unsigned jobs,
                      const struct ig_source *sources, unsigned count,
                      void (*progress)(void *user, unsigned done, unsigned total), void *user,
                      struct ig_code *out_code) {
    *out_code = (struct ig_code){0};
    if (!count) return;
    struct pool *p = IG_NEW(job, struct pool);
    p->job = job;
    p->nvrtc = nvrtc;
    p->cubin_option = ig_format(job, "--gpu-architecture=%s", arch);
    /* Without the "a" of "sm_90a", whose features only that architecture has: PTX is for later GPUs. */
    IG_ASSERT(job, strncmp(arch, "sm_", 3) == 0);
    p->ptx_option = ig_format(job, "--gpu-architecture=compute_%.*s", (int)strspn(arch + 3, "0123456789"), arch + 3);
    p->count = portable ? 2 * count : count;
    p->tasks = IG_NEW_ARRAY(job, struct task, p->count);
    for (unsigned i = 0; i < p->count; i++) {
        const struct ig_source *source = &sources[i % count];
        p->tasks[i] = (struct task){.source = source, .is_ptx = i >= count, .length = strlen(source->text), .order = i};
        p->tasks[i].file = ig_format(job, "%s.cu", source->symbol);
    }
    qsort(p->tasks, p->count, sizeof *p->tasks, longer_first);
    start(p, jobs);
    for (unsigned i = 0; i < p->count; i++) {
        wait_for(p, &p->tasks[i]);
        fetch(p, &p->tasks[i]);
        if (progress && (i + 1) * count / p->count > i * count / p->count)
            progress(user, (i + 1) * count / p->count, count);
    }
    ig_undefer(job, p);
    stop(p);
    lay_out(p, count, portable, out_code);
}
