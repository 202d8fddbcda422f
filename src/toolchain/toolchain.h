/*
 * Text to machine code: C compilers as processes, several at once, and a linker small enough to read, which turns
 * position-independent object files into one blob that can be mapped and run anywhere.
 */
#ifndef IG_TOOLCHAIN_TOOLCHAIN_H
#define IG_TOOLCHAIN_TOOLCHAIN_H

#include "base/job.h"

struct ig_toolchain {
    const char *cc;      /* path of the compiler */
    const char *version; /* its first line of --version: part of what makes builds reproducible */
    unsigned jobs;       /* processes at once */
};

/* Finds the compiler: `cc` if not NULL (a path, or a name), else cc, gcc, clang. Names are looked for in the system's
 * folders (environment.h), not in $PATH, which is the command line's to read. `jobs` 0: one per processor that this
 * process may use. Raises INGOT_TOOLCHAIN naming what was looked for. */
void ig_toolchain_find(struct ig_job *job, const char *cc, unsigned jobs, struct ig_toolchain *out_toolchain);

struct ig_source {
    const char *symbol; /* the one external function */
    const char *text;
};
struct ig_code {
    const void *bytes; /* position-independent; starts and ends on 4096 */
    size_t size;
    uint64_t *entries;  /* offset of each source's function; CUDA: of the cubin that holds it, aligned to 64 */
    uint64_t *portable; /* CUDA: offset of each source's PTX, a terminated text, UINT64_MAX: none; NULL: none at all */
};

/* Compiles and links; `flags` are for the target ("-march=x86-64-v4"), ended by NULL, or NULL. The result depends on the sources, flags and
 * compiler only. Raises INGOT_TOOLCHAIN with the compiler's first error, or naming an undefined symbol. */
void ig_toolchain_compile(struct ig_job *job, const struct ig_toolchain *toolchain, const char *const *flags,
                          const struct ig_source *sources, unsigned count,
                          void (*progress)(void *user, unsigned done, unsigned total), void *user,
                          struct ig_code *out_code);

#endif
