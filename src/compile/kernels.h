/* From regions to kernels: equal regions share one (fingerprint.c); distinct ones are scheduled, printed and
 * compiled. */
#ifndef IG_COMPILE_KERNELS_H
#define IG_COMPILE_KERNELS_H

#include "base/map.h"
#include "compile/compiler.h"
#include "compile/variants/variants.h"
#include "tune/tune.h"

/* A candidate that could not be printed or compiled, and was replaced by another. */
struct ig_refusal {
    const char *fingerprint;
    const char *tactic;        /* "" if scheduling failed */
    const struct ig_sizes *at; /* as in ig_compiled_kernel */
    int choice;
    const struct ingot_error *error;
};

struct ig_compiled_kernel {
    const char *symbol;
    const char *fingerprint;        /* 32 hexadecimal digits */
    const struct ig_kernel *kernel; /* as scheduled for the first region that needed it */
    struct ig_graph *graph;         /* the graph of that region */
    const struct ig_region *region;
    const struct ig_sizes *at;    /* the sizes at which it is a candidate; NULL: the usual ones */
    int choice;                   /* its candidate number there */
    const struct ig_tuned *tuned; /* candidates and their times, of a group's first kernel; NULL: not tuned */
    const char *source;           /* NULL: a library call */
    uint32_t code_index;          /* its entry in the set's code */
    uint32_t uses;                /* number of regions that share it */
};

/* The kernels for equal regions. */
struct ig_kernel_group {
    const char *fingerprint;
    struct ig_fingerprint first;        /* of the region that the kernels were made for */
    struct ig_fingerprint latest;       /* of the region that was added last: its symbols may have other names */
    const struct ig_variants *variants; /* says which kernel runs at which sizes; NULL: there is one */
    IG_VEC(uint32_t) kernels;           /* one more than variants; a variant that was refused is the first kernel */
};

struct ig_kernel_set {
    struct ig_job *job;
    const struct ig_target *target;
    const struct ig_kernel_compiler *compiler;
    const struct ig_tuner *tuner;          /* chooses among candidates; NULL: always the first */
    const struct ig_variant_set *variants; /* NULL: a kernel for each region */
    struct ig_map by_fingerprint;
    IG_VEC(struct ig_kernel_group) groups;
    IG_VEC(struct ig_compiled_kernel) kernels;
    IG_VEC(struct ig_refusal) refusals;
    struct ig_code code;
};

void ig_kernel_set_init(struct ig_kernel_set *set, struct ig_job *job, const struct ig_kernel_compiler *compiler,
                        const struct ig_tuner *tuner, const struct ig_variant_set *variants);
/* Removes the kernels but remembers the refusals. */
void ig_kernel_set_restart(struct ig_kernel_set *set);
/* The kernels for a region; valid until the next call. On first sight schedules and prints them: first the tuner's
 * choice or, if that was refused, the first candidate, or the plain one (one element at a time); then the variants.
 * Raises if all were refused. */
const struct ig_kernel_group *ig_kernel_set_add(struct ig_kernel_set *set, struct ig_graph *graph,
                                                const struct ig_region *region);
/* The group whose first kernel this is; NULL: it is none's. */
const struct ig_kernel_group *ig_kernel_set_group(const struct ig_kernel_set *set, uint32_t first);
/* Bytes of a compiled kernel's code, PTX included. */
uint64_t ig_kernel_set_bytes(const struct ig_kernel_set *set, uint32_t kernel);
/* How many regions there are, and for how many of them a kernel was compiled that was in no cache. */
void ig_kernel_set_count(const struct ig_kernel_set *set, unsigned *out_regions, unsigned *out_new);
/* Compiles all kernels with source into one blob. False if some were refused: restart the set and fill it again. */
bool ig_kernel_set_compile(struct ig_kernel_set *set, void (*progress)(void *user, unsigned done, unsigned total),
                           void *user);

#endif
