/*
 * From text to machine code: runs C compilers as processes, several at once, and links their position-independent
 * objects into one blob that can be mapped and run at any address.
 */
#ifndef IG_TOOLCHAIN_TOOLCHAIN_H
#define IG_TOOLCHAIN_TOOLCHAIN_H

#include "base/job.h"

struct ig_toolchain {
    const char *cc;      /* path of the compiler */
    const char *version; /* first line of --version; recorded, since reproducibility depends on it */
    unsigned jobs;       /* processes at once */
};

/* Finds the compiler: `cc` if not NULL (a path, or a name), else cc, gcc, clang. Names are searched in the system's
 * folders (environment.h), not in $PATH, which the command line reads. `jobs` 0: one per processor available to this
 * process. Raises INGOT_TOOLCHAIN naming what was looked for. */
void ig_toolchain_find(struct ig_job *job, const char *cc, unsigned jobs, struct ig_toolchain *out_toolchain);

struct ig_source {
    const char *symbol; /* the one external function */
    const char *text;
};
struct ig_code {
    const void *bytes; /* position-independent; start and size are multiples of 4096 */
    size_t size;
    uint64_t *entries;  /* offset of each source's function; CUDA: of its cubin, aligned to 64 */
    uint64_t *portable; /* CUDA: offset of each source's PTX, NUL-terminated, UINT64_MAX: none; NULL: no PTX at all */
};

/* Compiles and links; `flags` are for the target ("-march=x86-64-v4"), NULL-terminated, or NULL. The result depends on
 * the sources, flags and compiler only. Raises INGOT_TOOLCHAIN with the compiler's first error, or naming an undefined
 * symbol. */
void ig_toolchain_compile(struct ig_job *job, const struct ig_toolchain *toolchain, const char *const *flags,
                          const struct ig_source *sources, unsigned count,
                          void (*progress)(void *user, unsigned done, unsigned total), void *user,
                          struct ig_code *out_code);

#endif
