/* The compiler of a target, and kernels to machine code. */
#ifndef IG_COMPILE_COMPILER_H
#define IG_COMPILE_COMPILER_H

#include "kernel/kernel.h"
#include "toolchain/nvrtc.h"
#include "toolchain/toolchain.h"

struct ig_objects;
struct ig_cache_session;

/* The compiler of a target: a C compiler or NVRTC. */
struct ig_kernel_compiler {
    const struct ig_target *target;
    const char *version;          /* recorded, since reproducibility depends on it */
    struct ig_toolchain c;        /* CPUs */
    const struct ig_nvrtc *nvrtc; /* CUDA */
    const char *arch;             /* "sm_90a", "x86-64-v4" */
    bool portable;                /* CUDA: also emit PTX */
    unsigned jobs;
    struct ig_objects *objects; /* what was compiled in this build, or before */
};

/* Finds the compiler. `session`: with a cache of what it made; NULL: there is none. Raises INGOT_TOOLCHAIN. */
void ig_kernel_compiler_find(struct ig_job *job, const struct ig_target *target,
                             const struct ingot_build_options *options, struct ig_cache_session *session,
                             struct ig_kernel_compiler *out_compiler);
/* What code depends on besides its source. */
const char *ig_kernel_compiler_identity(struct ig_job *job, const struct ig_kernel_compiler *compiler,
                                        bool is_portable);
/* Compiles each source by itself; CUDA: to PTX, not to a cubin, if `is_portable`. */
void ig_kernel_compiler_objects(struct ig_job *job, const struct ig_kernel_compiler *compiler, bool is_portable,
                                const struct ig_source *sources, unsigned count, ig_compiled *compiled, void *user);

/* Prints a kernel; compiles texts to machine code, as far as they are not known. */
const char *ig_kernel_compiler_print(struct ig_job *job, const struct ig_kernel_compiler *compiler,
                                     const struct ig_kernel *kernel, const char *symbol);
void ig_kernel_compiler_run(struct ig_job *job, const struct ig_kernel_compiler *compiler,
                            const struct ig_source *sources, unsigned count,
                            void (*progress)(void *user, unsigned done, unsigned total), void *user,
                            struct ig_code *out_code);

#endif
