/*
 * What a kernel is expected to take in a run: estimates that are reported, for kernels of every family.
 *
 * Choices between candidates are made by the cost models of kernel/cuda, which know tactics and say what a kernel takes by
 * itself, on the machine that they were fitted to. In a run a kernel starts while the one before ends, weights come from memory
 * or from the cache, depending on how many the network has, and the rates are those of the machine at hand. So a kernel's time
 * in a run is made of few terms, one place for each kind of kernel: a start, what its model or its loops say beyond that, and
 * the bytes, at the machine's rates. Nothing is decided by it: what is built depends on the target alone.
 */
#ifndef IG_KERNEL_EXPECT_H
#define IG_KERNEL_EXPECT_H

#include "base/cpu_time.h"
#include "kernel/kernel.h"

/* Kinds of kernels, by what their time is made of. */
enum ig_expect_kind {
    IG_EXPECT_NONE, /* not estimated */
    IG_EXPECT_MAP,
    IG_EXPECT_ROWS,
    IG_EXPECT_COLUMNS,      /* rows across columns */
    IG_EXPECT_SIDE_BY_SIDE, /* rows side by side */
    IG_EXPECT_WINDOW,
    IG_EXPECT_REST, /* sorting, scattering, running totals */
    IG_EXPECT_RECURRENT,
    IG_EXPECT_KEPT,     /* products with a producer, by groups in turns that keep B */
    IG_EXPECT_TURNS,    /* with a producer, by groups in turns */
    IG_EXPECT_PRODUCER, /* with a producer */
    IG_EXPECT_GROUPS,   /* by warp groups that copy themselves */
    IG_EXPECT_CORES,    /* by warps on the tensor cores */
    IG_EXPECT_FMA,      /* on the CUDA cores */
    IG_EXPECT_DIRECT,
    IG_EXPECT_STREAM, /* of few rows */
    IG_EXPECT_PATCH,
    IG_EXPECT_DEPTHWISE,
    IG_EXPECT_ATTEND,
    IG_EXPECT_EXCHANGE,
    IG_EXPECT_LIBRARY,
    IG_EXPECT_CPU, /* of a kind of base/cpu_time.h */
    /* Behind those that measured times are recorded by: */
    IG_EXPECT_CODES,  /* products of weights of few bits */
    IG_EXPECT_BANDED, /* depthwise convolutions on the tensor cores */
    IG_EXPECT_KINDS
};
/* IG_CPU_UNKNOWN: not estimated */
enum ig_cpu_kind ig_expect_cpu_kind(const struct ig_kernel *kernel);
/* "rows side by side" */
const char *ig_expect_kind_name(enum ig_expect_kind kind);

/* What the time depends on. Per tile: see struct ig_cuda_walk. Bytes of the whole kernel. */
struct ig_expect {
    enum ig_expect_kind kind;
    bool first;                      /* of a run: its operands are not in the cache, and nothing hides its start */
    enum ig_cpu_kind cpu;            /* on CPUs, with the next two */
    struct ig_demand demand;         /* of the kernel */
    double weights;                  /* bytes, of the network */
    double model;                    /* microseconds that its cost model says; 0: it has none */
    double loops;                    /* microseconds that its loops take, the start included */
    double tiles, threads, resident; /* blocks on a multiprocessor at once */
    double issues, lines, turns, moved, once; /* of its loops; of a depthwise convolution's template */
    double far, near;                         /* bytes that it demands: weights that come from memory; the others */
    double operations;                        /* that it demands: products, or else arithmetic */
    double steps, state; /* waiting for each other, of a recurrence or of a direct product; elements of a state */
    double pieces;       /* copies of A, beyond those of 16 bytes */
    bool windows, split,
        filled; /* products: of windows; of a depth that blocks share; with operands that loops fill in */
};

/* `demand` is the region's, `weights` all bytes of the network's, of which `machine` keeps some in its cache. The kernel must not have been printed yet. */
void ig_expect_of(const struct ig_kernel *kernel, const struct ig_demand *demand, double weights,
                  const struct ig_machine *machine, const struct ig_sizes *at, struct ig_expect *out_expect);

/* Microseconds that the kernel adds to a run on the machine; 0: not known. */
double ig_expect_time(const struct ig_expect *expect, const struct ig_machine *machine);

#endif
