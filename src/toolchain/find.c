/* Finds the C compiler; see toolchain.h. */
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "toolchain/environment.h"
#include "toolchain/find.h"
#include "toolchain/process.h"
#include "toolchain/program.h"
#include "toolchain/toolchain.h"

static const char *const names[] = {"cc", "gcc", "clang"};

/* The path of the first executable `name` in the search path; NULL if there is none. */
static const char *find_in_path(struct ig_job *job, const char *name) {
    for (const char *at = IG_SEARCH_PATH; *at;) {
        int length = (int)strcspn(at, ":");
        const char *path = ig_format(job, "%.*s/%s", length, at, name);
        if (access(path, X_OK) == 0) return path;
        at += length + (at[length] == ':');
    }
    return NULL;
}

static const char *find_compiler(struct ig_job *job, const char *cc) {
    if (cc && !*cc) ig_raise(job, INGOT_TOOLCHAIN, "no C compiler: its name is empty");
    if (cc && strchr(cc, '/')) {
        if (access(cc, X_OK) != 0) ig_raise(job, INGOT_TOOLCHAIN, "no C compiler: '%s' cannot be executed", cc);
        return cc;
    }
    if (cc) {
        const char *path = find_in_path(job, cc);
        if (!path) ig_raise(job, INGOT_TOOLCHAIN, "no C compiler: looked for '%s' in %s", cc, IG_SEARCH_PATH);
        return path;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = find_in_path(job, names[i]);
        if (path) return path;
    }
    ig_raise(job, INGOT_TOOLCHAIN, "no C compiler: looked for cc, gcc and clang in %s; install one or name its path",
             IG_SEARCH_PATH);
}

/* What the compiler prints when asked; NULL if it fails. */
static const char *ask(struct ig_job *job, const char *cc, const char *option) {
    const char *const argv[] = {cc, option, NULL};
    struct ig_processes *processes = ig_processes_create(job, 1, NULL);
    ig_process_start(processes, argv, ig_compiler_environment(job, NULL), 0);
    struct ig_process_end end = ig_process_wait(processes);
    ig_processes_destroy(processes);
    return end.exit_status == 0 ? end.output : NULL;
}

void ig_toolchain_find(struct ig_job *job, const char *cc, unsigned jobs, struct ig_toolchain *out_toolchain) {
    const char *path = find_compiler(job, cc), *report = ask(job, path, "--version");
    size_t length = report ? strcspn(report, "\n") : 0;
    if (!length) ig_raise(job, INGOT_TOOLCHAIN, "'%s' is no C compiler: '%s --version' failed", path, path);
    *out_toolchain =
        (struct ig_toolchain){path, ig_strndup(job, report, length), report, jobs ? jobs : ig_cpu_processors()};
}

/* ---- Identity ---- */

const char *ig_toolchain_programs(struct ig_job *job, const struct ig_toolchain *toolchain) {
    const char *cc1 = ask(job, toolchain->cc, "-print-prog-name=cc1");
    cc1 = cc1 && *cc1 == '/' ? ig_strndup(job, cc1, strcspn(cc1, "\n")) : NULL; /* clang has none */
    return ig_format(job, "%s\n%s\n%s\n", ig_program_identity(job, toolchain->cc), ig_program_identity(job, cc1),
                     ig_program_identity(job, find_in_path(job, "as")));
}
