/*
 * Compiles sources to cubins with NVRTC, on several threads; see nvrtc.h.
 *
 * A crew compiles and never touches the job; the job's thread copies its results into the arena, in the order in which
 * they were started, and lays them out in the order of the sources. Long texts start first: they take longest,
 * and the last to end should be a short one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/crew.h"
#include "base/text.h"
#include "toolchain/nvrtc.h"
#include "toolchain/nvrtc_api.h"

enum { ALIGNMENT = 64, PAGE = 4096 };

/* Compiles one source to a cubin or to PTX. */
struct task {
    const struct ig_source *source;
    size_t length;
    unsigned order;
    /* Used by the thread that compiles it, until it is done. */
    struct ig_nvrtc_program *program;
    int result;
    /* Used by the job's thread. */
    void *bytes;
    size_t size;
};

struct batch {
    struct ig_job *job;
    const struct ig_nvrtc *nvrtc;
    bool is_portable;
    const char *architecture; /* the option that chooses it */
    struct task *tasks;
    unsigned count;
};

/* ---- The crew ---------------------------------------------------------------------------------------------------- */

static const char *const common_options[] = {"--std=c++17", "--disable-warnings", "--no-source-include"};
enum { COMMON = sizeof common_options / sizeof *common_options };

static void compile(void *user, uint32_t item) {
    const struct batch *p = user;
    struct task *t = &p->tasks[item];
    const char *options[COMMON + 2] = {p->architecture};
    memcpy(options + 1, common_options, sizeof common_options);
    options[COMMON + 1] = p->nvrtc->option;
    int count = COMMON + 1 + (p->nvrtc->option != NULL);
    t->result = p->nvrtc->create_program(&t->program, t->source->text, "kernel.cu", 0, NULL, NULL);
    if (t->result) {
        t->program = NULL;
        return;
    }
    t->result = p->nvrtc->compile_program(t->program, count, options);
}

/* ---- The job's thread -------------------------------------------------------------------------------------------- */

static void destroy_programs(void *resource) {
    struct batch *p = resource;
    for (unsigned i = 0; i < p->count; i++) {
        if (p->tasks[i].program) p->nvrtc->destroy_program(&p->tasks[i].program);
    }
}

/* NULL if there is none. */
static const char *log_of(struct batch *p, struct task *t) {
    size_t size = 0;
    if (!t->program || p->nvrtc->get_log_size(t->program, &size) || size <= 1) return NULL;
    char *log = ig_alloc(p->job, size + 1);
    return p->nvrtc->get_log(t->program, log) ? NULL : log;
}

/* The first line that contains some text, or NULL. */
static const char *line_with(struct batch *p, const char *log, const char *text) {
    const char *at = strstr(log, text);
    if (!at) return NULL;
    while (at > log && at[-1] != '\n')
        at--;
    return ig_strndup(p->job, at, strcspn(at, "\n"));
}

/* The first line of the log that contains "error", else the first line. */
static const char *first_error(struct batch *p, struct task *t) {
    const char *log = log_of(p, t);
    const char *line = log ? line_with(p, log, "error") : NULL;
    return log && !line ? line_with(p, log, "") : line;
}

static _Noreturn void refuse(struct batch *p, struct task *t) {
    const char *line = t->result == IG_NVRTC_COMPILATION ? first_error(p, t) : NULL;
    if (!line) line = p->nvrtc->get_error_string(t->result);
    enum ingot_status status = t->result == IG_NVRTC_OUT_OF_MEMORY ? INGOT_OUT_OF_MEMORY : INGOT_TOOLCHAIN;
    ig_raise(p->job, status, "%s cannot compile '%s' with %s: %s", p->nvrtc->version, t->source->symbol,
             p->architecture, line);
}

static void refuse_losses(struct batch *p, struct task *t) {
    const char *log = log_of(p, t), *line = log ? line_with(p, log, "Performance Loss") : NULL;
    if (!line) return;
    ig_raise(p->job, INGOT_TOOLCHAIN, "%s compiles '%s' with %s badly: %s", p->nvrtc->version, t->source->symbol,
             p->architecture, line);
}

/* Copies a task's result into the arena. */
static void fetch(struct batch *p, struct task *t) {
    const struct ig_nvrtc *n = p->nvrtc;
    if (t->result) refuse(p, t);
    if (n->refuses_losses) refuse_losses(p, t);
    t->result = p->is_portable ? n->get_ptx_size(t->program, &t->size) : n->get_cubin_size(t->program, &t->size);
    if (t->result) refuse(p, t);
    t->bytes = ig_alloc(p->job, t->size + 1);
    t->result = p->is_portable ? n->get_ptx(t->program, t->bytes) : n->get_cubin(t->program, t->bytes);
    if (t->result) refuse(p, t);
    n->destroy_program(&t->program);
    t->program = NULL;
}

static int longer_first(const void *a, const void *b) {
    const struct task *x = a, *y = b;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static size_t rounded(size_t size, size_t to) {
    return (size + to - 1) / to * to;
}

/* The option that chooses the architecture. PTX is for later GPUs: it must not use what only one has, as "sm_90a". */
static const char *architecture(struct ig_job *job, const char *arch, bool is_portable) {
    IG_ASSERT(job, strncmp(arch, "sm_", 3) == 0);
    if (!is_portable) return ig_format(job, "--gpu-architecture=%s", arch);
    return ig_format(job, "--gpu-architecture=compute_%.*s", (int)strspn(arch + 3, "0123456789"), arch + 3);
}

void ig_nvrtc_objects(struct ig_job *job, const struct ig_nvrtc *nvrtc, const char *arch, bool is_portable,
                      unsigned jobs, const struct ig_source *sources, unsigned count, ig_compiled *compiled,
                      void *user) {
    if (!count) return;
    struct batch *p = IG_NEW(job, struct batch);
    p->job = job;
    p->nvrtc = nvrtc;
    p->count = count;
    p->tasks = IG_NEW_ARRAY(job, struct task, count);
    p->is_portable = is_portable;
    p->architecture = architecture(job, arch, is_portable);
    for (unsigned i = 0; i < count; i++)
        p->tasks[i] = (struct task){.source = &sources[i], .length = strlen(sources[i].text), .order = i};
    qsort(p->tasks, count, sizeof *p->tasks, longer_first);
    ig_defer(job, destroy_programs, p);
    struct ig_crew *crew = ig_crew_create(job, jobs, compile, p);
    ig_crew_offer(crew, count);
    for (unsigned i = 0; i < count; i++) {
        struct task *t = &p->tasks[i];
        ig_crew_wait(crew, i);
        fetch(p, t);
        compiled(user, t->order, &(struct ig_object_code){t->bytes, t->size});
    }
    ig_crew_destroy(crew);
    ig_undefer(job, p);
}

const char *ig_nvrtc_identity(struct ig_job *job, const struct ig_nvrtc *nvrtc, const char *arch, bool is_portable) {
    struct ig_text text;
    ig_text_init(&text, job);
    ig_text_printf(&text, "%s\n%s\n%s\n", nvrtc->version, ig_nvrtc_program(job, nvrtc),
                   architecture(job, arch, is_portable));
    for (int i = 0; i < COMMON; i++)
        ig_text_printf(&text, "%s\n", common_options[i]);
    if (nvrtc->option) ig_text_printf(&text, "%s\n", nvrtc->option);
    return text.at;
}

/* ---- Laying out -------------------------------------------------------------------------------------------------- */

static size_t place(const struct ig_object_code *objects, unsigned count, size_t at, char *bytes,
                    uint64_t *out_places) {
    for (unsigned i = 0; i < count; i++) {
        if (bytes) memcpy(bytes + at, objects[i].bytes, objects[i].size);
        if (out_places) out_places[i] = at;
        at += rounded(objects[i].size, ALIGNMENT);
    }
    return at;
}

void ig_nvrtc_lay_out(struct ig_job *job, const struct ig_object_code *cubins, const struct ig_object_code *portable,
                      unsigned count, struct ig_code *out_code) {
    *out_code = (struct ig_code){0};
    if (!count) return;
    size_t cubins_end = place(cubins, count, 0, NULL, NULL);
    out_code->size = rounded(portable ? place(portable, count, cubins_end, NULL, NULL) : cubins_end, PAGE);
    char *bytes = ig_alloc(job, out_code->size + PAGE);
    bytes += rounded((size_t)bytes, PAGE) - (size_t)bytes;
    out_code->bytes = bytes;
    out_code->entries = IG_NEW_ARRAY(job, uint64_t, count);
    place(cubins, count, 0, bytes, out_code->entries);
    if (!portable) return;
    out_code->portable = IG_NEW_ARRAY(job, uint64_t, count);
    place(portable, count, cubins_end, bytes, out_code->portable);
}
