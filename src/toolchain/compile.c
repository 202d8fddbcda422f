/*
 * Sources to linked code: a compiler process for each source, several at once, in a private folder.
 *
 * A process for each, because most of a kernel's time is spent in the optimiser: starting gcc takes about 8 ms of the
 * 30 to 500 that a kernel takes, and separate translation units keep each kernel's code independent of its neighbours.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "toolchain/environment.h"
#include "toolchain/find.h"
#include "toolchain/link.h"
#include "toolchain/process.h"
#include "toolchain/support.h"
#include "toolchain/toolchain.h"

/* Flags for both compilers. The code must not need a libc, a loader or a stack unwinder, and must not depend on the
 * folder that it is compiled in. It may assume what the runtime guarantees: nobody looks at errno or floating-point
 * traps. */
static const char *const common_flags[] = {
    "-x",
    "c",
    "-std=gnu11",
    "-O3",
    "-w",
    "-pipe",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffreestanding",
    "-nostdinc",
    "-fno-stack-protector",
    "-fcf-protection=none",
    "-fno-asynchronous-unwind-tables",
    "-fno-unwind-tables",
    "-fno-ident",
    "-fno-common",
    "-fopenmp-simd",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
};
/* gcc would turn loops into calls of memset and memcpy, which are no faster here, and split clamps into branches,
 * which cost more in vector code than the clamp. */
static const char *const gcc_flags[] = {"-fno-tree-loop-distribute-patterns", "-fno-thread-jumps",
                                        "-fno-stack-clash-protection"};

#define COUNT(array) (sizeof(array) / sizeof *(array))

struct compilation {
    struct ig_job *job;
    const struct ig_toolchain *toolchain;
    const char *const *flags; /* of the target */
    struct ig_folder *folder;
    struct ig_processes *processes;
    const char *const *environment;
    const struct ig_source *sources;
    unsigned count;
    ig_compiled *compiled;
    void *user;
};

static const char *path_of(const struct compilation *c, unsigned index, const char *suffix) {
    return ig_format(c->job, "%s/%u.%s", c->folder->path, index, suffix);
}

struct words {
    struct ig_job *job;
    IG_VEC(const char *) list;
};

static void add_word(struct words *w, const char *word) {
    IG_PUSH(w->job, &w->list, word);
}

/* All that the code depends on. */
static void add_flags(struct words *w, const struct ig_toolchain *toolchain, const char *const *flags) {
    bool is_clang = strstr(toolchain->version, "clang") != NULL;
    for (size_t i = 0; i < COUNT(common_flags); i++)
        add_word(w, common_flags[i]);
    for (size_t i = 0; !is_clang && i < COUNT(gcc_flags); i++)
        add_word(w, gcc_flags[i]);
    for (size_t i = 0; flags && flags[i]; i++)
        add_word(w, flags[i]);
}

static const char *const *command_line(const struct compilation *c, unsigned index) {
    struct words w = {.job = c->job};
    add_word(&w, c->toolchain->cc);
    add_flags(&w, c->toolchain, c->flags);
    add_word(&w, ig_format(c->job, "-ffile-prefix-map=%s=.", c->folder->path));
    add_word(&w, "-c");
    add_word(&w, path_of(c, index, "c"));
    add_word(&w, "-o");
    add_word(&w, path_of(c, index, "o"));
    add_word(&w, NULL);
    return w.list.at;
}

/* Returns an errno; must not raise while the descriptor is open. */
static int write_whole(int fd, const char *text, size_t length) {
    while (length > 0) {
        ssize_t done = write(fd, text, length);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return done < 0 ? errno : ENOSPC;
        text += done;
        length -= (size_t)done;
    }
    return 0;
}

static void write_source(const struct compilation *c, unsigned index, const char *text) {
    const char *path = path_of(c, index, "c");
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int failure = fd < 0 ? errno : write_whole(fd, text, strlen(text));
    if (fd >= 0 && close(fd) != 0 && !failure) failure = errno;
    if (failure) ig_raise(c->job, INGOT_IO, "cannot write '%s': %s", path, strerror(failure));
}

static void unmap(void *resource) {
    ig_file_unmap(resource);
}

/* Copies the object file into the arena. */
static struct ig_object_code read_object(const struct compilation *c, unsigned index) {
    struct ingot_error error;
    struct ig_mapping *mapping = IG_NEW(c->job, struct ig_mapping);
    if (ig_file_map(path_of(c, index, "o"), mapping, &error) != INGOT_OK) ig_raise_error(c->job, &error);
    ig_defer(c->job, unmap, mapping);
    struct ig_object_code object = {ig_memdup(c->job, mapping->data, mapping->size), mapping->size};
    ig_file_unmap(mapping);
    ig_undefer(c->job, mapping);
    return object;
}

/* ---- Failures ---- */

/* The first line that contains "error", else the first line; without the path of the folder. */
static const char *first_error(const struct compilation *c, const char *output) {
    const char *best = NULL;
    for (const char *line = output; *line; line += strspn(line, "\n")) {
        size_t length = strcspn(line, "\n");
        const char *text = ig_strndup(c->job, line, length);
        if (!best) best = text;
        if (strstr(text, "error")) {
            best = text;
            break;
        }
        line += length;
    }
    if (!best) return NULL;
    size_t folder = strlen(c->folder->path);
    return strncmp(best, c->folder->path, folder) == 0 && best[folder] == '/' ? best + folder + 1 : best;
}

static _Noreturn void refuse(const struct compilation *c, const char *label, const struct ig_process_end *end) {
    const char *cc = c->toolchain->cc, *line = first_error(c, end->output);
    if (line) ig_raise(c->job, INGOT_TOOLCHAIN, "'%s' cannot compile '%s': %s", cc, label, line);
    if (end->exit_status < 0) {
        ig_raise(c->job, INGOT_TOOLCHAIN, "'%s' cannot compile '%s': killed by signal %d (out of memory?)", cc, label,
                 end->signal);
    }
    ig_raise(c->job, INGOT_TOOLCHAIN, "'%s' cannot compile '%s': exit status %d", cc, label, end->exit_status);
}

/* ---- Processes ---- */

struct task {
    const struct ig_source *source;
    unsigned index;
    size_t length;
};

/* Longest texts first: they take the longest, and the last process to end should be a short one. */
static int longer_first(const void *a, const void *b) {
    const struct task *x = a, *y = b;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static void compile_all(const struct compilation *c) {
    struct task *tasks = IG_NEW_ARRAY(c->job, struct task, c->count);
    for (unsigned i = 0; i < c->count; i++)
        tasks[i] = (struct task){&c->sources[i], i, strlen(c->sources[i].text)};
    qsort(tasks, c->count, sizeof *tasks, longer_first);

    for (unsigned started = 0, done = 0; done < c->count;) {
        if (started < c->count && ig_processes_running(c->processes) < c->toolchain->jobs) {
            unsigned index = tasks[started++].index;
            write_source(c, index, c->sources[index].text);
            ig_process_start(c->processes, command_line(c, index), c->environment, index);
            continue;
        }
        struct ig_process_end end = ig_process_wait(c->processes);
        if (end.exit_status != 0) refuse(c, c->sources[end.tag].symbol, &end);
        struct ig_object_code object = read_object(c, end.tag);
        c->compiled(c->user, end.tag, &object);
        done++;
    }
}

void ig_toolchain_objects(struct ig_job *job, const struct ig_toolchain *toolchain, const char *const *flags,
                          const struct ig_source *sources, unsigned count, ig_compiled *compiled, void *user) {
    if (!count) return;
    struct compilation c = {.job = job,
                            .toolchain = toolchain,
                            .flags = flags,
                            .sources = sources,
                            .count = count,
                            .compiled = compiled,
                            .user = user};
    /* The folder exists as long as the processes that guard it. */
    c.folder = ig_folder_create(job);
    c.processes = ig_processes_create(job, toolchain->jobs, c.folder->path);
    c.environment = ig_compiler_environment(job, c.folder->path);
    compile_all(&c);
    ig_folder_remove(c.folder);
    ig_processes_destroy(c.processes);
}

const char *ig_toolchain_identity(struct ig_job *job, const struct ig_toolchain *toolchain, const char *const *flags) {
    struct words w = {.job = job};
    struct ig_text text;
    ig_text_init(&text, job);
    ig_text_printf(&text, "%s\n%s\n", toolchain->report, ig_toolchain_programs(job, toolchain));
    add_flags(&w, toolchain, flags);
    for (uint32_t i = 0; i < w.list.count; i++)
        ig_text_printf(&text, "%s\n", w.list.at[i]);
    return text.at;
}

/* ---- Linking ---- */

const struct ig_source ig_toolchain_support = {"memcpy", ig_support_text};

bool ig_toolchain_needs_support(struct ig_job *job, const struct ig_object_code *objects, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        struct ig_object object;
        ig_object_read(job, objects[i].bytes, objects[i].size, "object", &object);
        if (ig_link_needs_support(&object)) return true;
    }
    return false;
}

void ig_toolchain_link(struct ig_job *job, const struct ig_object_code *objects, const char *const *labels,
                       const char *const *symbols, unsigned count, const struct ig_object_code *support,
                       struct ig_code *out_code) {
    struct ig_object *read = IG_NEW_ARRAY(job, struct ig_object, count + 1);
    *out_code = (struct ig_code){0};
    if (!count) return;
    for (unsigned i = 0; i < count; i++)
        ig_object_read(job, objects[i].bytes, objects[i].size, labels[i], &read[i]);
    if (support) ig_object_read(job, support->bytes, support->size, ig_toolchain_support.symbol, &read[count]);
    ig_link(job, read, symbols, count, support ? &read[count] : NULL, out_code);
}
