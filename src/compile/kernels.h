/* Regions to kernels: equal regions share one (fingerprint.c), the distinct ones are scheduled, printed and compiled. */
#ifndef IG_COMPILE_KERNELS_H
#define IG_COMPILE_KERNELS_H

#include "base/map.h"
#include "kernel/kernel.h"
#include "toolchain/nvrtc.h"
#include "toolchain/toolchain.h"
#include "tune/tune.h"

/* What compiles kernels for a target: a C compiler or NVRTC. */
struct ig_kernel_compiler {
    const struct ig_target *target;
    const char *version;          /* part of what makes builds reproducible */
    struct ig_toolchain c;        /* CPUs */
    const struct ig_nvrtc *nvrtc; /* CUDA */
    const char *arch;             /* CUDA: "sm_90a" */
    bool portable;                /* CUDA: PTX too */
    unsigned jobs;
};

/* Finds it. Raises INGOT_TOOLCHAIN. */
void ig_kernel_compiler_find(struct ig_job *job, const struct ig_target *target,
                             const struct ingot_build_options *options, struct ig_kernel_compiler *out_compiler);
/* The text of a kernel, and texts to machine code. */
const char *ig_kernel_compiler_print(struct ig_job *job, const struct ig_kernel_compiler *compiler,
                                     const struct ig_kernel *kernel, const char *symbol);
void ig_kernel_compiler_run(struct ig_job *job, const struct ig_kernel_compiler *compiler,
                            const struct ig_source *sources, unsigned count,
                            void (*progress)(void *user, unsigned done, unsigned total), void *user,
                            struct ig_code *out_code);

/* A candidate that could not be printed or compiled: another one took its place. */
struct ig_refusal {
    const char *fingerprint;
    const char *tactic; /* "" where it was not even scheduled */
    int choice;
    const struct ingot_error *error;
};

struct ig_compiled_kernel {
    const char *symbol;
    const char *fingerprint;        /* 32 hexadecimal digits */
    const struct ig_kernel *kernel; /* as scheduled for the first region that needed it */
    struct ig_graph *graph;         /* of that region */
    const struct ig_region *region;
    int choice;                   /* the candidate that it is */
    const struct ig_tuned *tuned; /* its candidates and their times; NULL: the first was taken without asking */
    const char *source;           /* NULL: it calls a library */
    uint32_t code_index;          /* its number in the set's code */
    uint32_t uses;                /* how many regions share it */
};

struct ig_kernel_set {
    struct ig_job *job;
    const struct ig_target *target;
    const struct ig_kernel_compiler *compiler;
    const struct ig_tuner *tuner; /* chooses among candidates; NULL: the first */
    struct ig_map by_fingerprint;
    IG_VEC(struct ig_compiled_kernel) kernels;
    IG_VEC(struct ig_refusal) refusals;
    struct ig_code code;
};

void ig_kernel_set_init(struct ig_kernel_set *set, struct ig_job *job, const struct ig_kernel_compiler *compiler,
                        const struct ig_tuner *tuner);
/* Forgets the kernels, but not what was refused. */
void ig_kernel_set_restart(struct ig_kernel_set *set);
/* The index of the kernel for a region; schedules and prints it on first sight: the candidate that the tuner chose, or
 * where that is refused the first one, or the one that computes an element at a time. Raises where all are refused. */
uint32_t ig_kernel_set_add(struct ig_kernel_set *set, struct ig_graph *graph, const struct ig_region *region);
/* Compiles all that have a source: one blob. False where some are refused, and the set has to be restarted and filled
 * again. */
bool ig_kernel_set_compile(struct ig_kernel_set *set, void (*progress)(void *user, unsigned done, unsigned total),
                           void *user);

#endif
