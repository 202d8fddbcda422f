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
    const char *report;  /* all of --version */
    unsigned jobs;       /* processes at once */
};

/* Finds the compiler: `cc` if not NULL (a path, or a name), else cc, gcc, clang. Names are searched in the system's
 * folders (environment.h), not in $PATH, which the command line reads. `jobs` 0: one per processor available to this
 * process. Raises INGOT_TOOLCHAIN naming what was looked for. */
void ig_toolchain_find(struct ig_job *job, const char *cc, unsigned jobs, struct ig_toolchain *out_toolchain);

struct ig_source {
    const char *symbol; /* the one external function; names the source in messages */
    const char *text;
};
/* What a compiler makes of one source: an object file, a cubin, or PTX with its NUL. */
struct ig_object_code {
    const void *bytes;
    size_t size;
};
struct ig_code {
    const void *bytes; /* position-independent; start and size are multiples of 4096 */
    size_t size;
    uint64_t *entries;  /* offset of each source's function; CUDA: of its cubin, aligned to 64 */
    bool *is_new;       /* by source: compiled now, not found; NULL: not known */
    uint64_t *portable; /* CUDA: offset of each source's PTX, NUL-terminated, UINT64_MAX: none; NULL: no PTX at all */
};

/* Called when source `index` has been compiled; the code is in the arena. */
typedef void ig_compiled(void *user, unsigned index, const struct ig_object_code *object);

/*
 * Compiles each source; `flags` are for the target ("-march=x86-64-v4"), NULL-terminated, or NULL. `compiled` gets them
 * in the order in which they end. Raises INGOT_TOOLCHAIN with the compiler's first error.
 */
void ig_toolchain_objects(struct ig_job *job, const struct ig_toolchain *toolchain, const char *const *flags,
                          const struct ig_source *sources, unsigned count, ig_compiled *compiled, void *user);
/* What objects depend on besides the source, as text: the compiler's report on itself, the builds of its programs, and
 * flags. */
const char *ig_toolchain_identity(struct ig_job *job, const struct ig_toolchain *toolchain, const char *const *flags);

/* Functions that compilers may call even in freestanding code: the source of an object to link if any object needs it. */
extern const struct ig_source ig_toolchain_support;
/* Does any of the objects need it? */
bool ig_toolchain_needs_support(struct ig_job *job, const struct ig_object_code *objects, unsigned count);
/* Links objects, in order, into one blob. `symbols`: the function of each; `labels`: what messages call each; `support`
 * may be NULL. Raises INGOT_TOOLCHAIN, naming an undefined symbol. */
void ig_toolchain_link(struct ig_job *job, const struct ig_object_code *objects, const char *const *labels,
                       const char *const *symbols, unsigned count, const struct ig_object_code *support,
                       struct ig_code *out_code);

#endif
