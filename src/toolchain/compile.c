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
#include "toolchain/environment.h"
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
};

static const char *path_of(const struct compilation *c, unsigned index, const char *suffix) {
    return ig_format(c->job, "%s/%u.%s", c->folder->path, index, suffix);
}

static const char *const *command_line(const struct compilation *c, unsigned index) {
    bool is_clang = strstr(c->toolchain->version, "clang") != NULL;
    IG_VEC(const char *) argv = {0};
    IG_PUSH(c->job, &argv, c->toolchain->cc);
    for (size_t i = 0; i < COUNT(common_flags); i++)
        IG_PUSH(c->job, &argv, common_flags[i]);
    for (size_t i = 0; !is_clang && i < COUNT(gcc_flags); i++)
        IG_PUSH(c->job, &argv, gcc_flags[i]);
    for (size_t i = 0; c->flags && c->flags[i]; i++)
        IG_PUSH(c->job, &argv, c->flags[i]);
    IG_PUSH(c->job, &argv, ig_format(c->job, "-ffile-prefix-map=%s=.", c->folder->path));
    IG_PUSH(c->job, &argv, "-c");
    IG_PUSH(c->job, &argv, path_of(c, index, "c"));
    IG_PUSH(c->job, &argv, "-o");
    IG_PUSH(c->job, &argv, path_of(c, index, "o"));
    IG_PUSH(c->job, &argv, NULL);
    return argv.at;
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

/* Copies the object file into the arena and parses it. */
static void read_object(const struct compilation *c, unsigned index, const char *label, struct ig_object *out_object) {
    struct ingot_error error;
    struct ig_mapping *mapping = IG_NEW(c->job, struct ig_mapping);
    if (ig_file_map(path_of(c, index, "o"), mapping, &error) != INGOT_OK) ig_raise_error(c->job, &error);
    ig_defer(c->job, unmap, mapping);
    const void *bytes = ig_memdup(c->job, mapping->data, mapping->size);
    size_t size = mapping->size;
    ig_file_unmap(mapping);
    ig_undefer(c->job, mapping);
    ig_object_read(c->job, bytes, size, label, out_object);
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

static void compile_all(const struct compilation *c, const struct ig_source *sources, unsigned count,
                        void (*progress)(void *user, unsigned done, unsigned total), void *user) {
    struct task *tasks = IG_NEW_ARRAY(c->job, struct task, count);
    for (unsigned i = 0; i < count; i++)
        tasks[i] = (struct task){&sources[i], i, strlen(sources[i].text)};
    qsort(tasks, count, sizeof *tasks, longer_first);

    for (unsigned started = 0, done = 0; done < count;) {
        if (started < count && ig_processes_running(c->processes) < c->toolchain->jobs) {
            unsigned index = tasks[started++].index;
            write_source(c, index, sources[index].text);
            ig_process_start(c->processes, command_line(c, index), c->environment, index);
            continue;
        }
        struct ig_process_end end = ig_process_wait(c->processes);
        if (end.exit_status != 0) refuse(c, sources[end.tag].symbol, &end);
        done++;
        if (progress) progress(user, done, count);
    }
}

/* The folder exists as long as the processes that guard it. */
static void open_compilation(struct compilation *c) {
    c->folder = ig_folder_create(c->job);
    c->processes = ig_processes_create(c->job, c->toolchain->jobs, c->folder->path);
    c->environment = ig_compiler_environment(c->job, c->folder->path);
}

static void close_compilation(struct compilation *c) {
    ig_folder_remove(c->folder);
    ig_processes_destroy(c->processes);
}

void ig_toolchain_compile(struct ig_job *job, const struct ig_toolchain *toolchain, const char *const *flags,
                          const struct ig_source *sources, unsigned count,
                          void (*progress)(void *user, unsigned done, unsigned total), void *user,
                          struct ig_code *out_code) {
    *out_code = (struct ig_code){0};
    if (!count) return;
    struct compilation c = {.job = job, .toolchain = toolchain, .flags = flags};
    open_compilation(&c);
    compile_all(&c, sources, count, progress, user);

    struct ig_object *objects = IG_NEW_ARRAY(job, struct ig_object, count);
    const char **symbols = IG_NEW_ARRAY(job, const char *, count);
    bool needs_support = false;
    for (unsigned i = 0; i < count; i++) {
        symbols[i] = sources[i].symbol;
        read_object(&c, i, sources[i].symbol, &objects[i]);
        if (ig_link_needs_support(&objects[i])) needs_support = true;
    }
    struct ig_object support;
    if (needs_support) {
        struct compilation s = {.job = job, .toolchain = toolchain, .flags = flags};
        const struct ig_source source = {"memcpy", ig_support_text};
        open_compilation(&s);
        compile_all(&s, &source, 1, NULL, NULL);
        read_object(&s, 0, "memcpy", &support);
        close_compilation(&s);
    }
    close_compilation(&c);
    ig_link(job, objects, symbols, count, needs_support ? &support : NULL, out_code);
}
