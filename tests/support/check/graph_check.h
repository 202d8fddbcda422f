/*
 * Compiles whole graphs (passes, kernels, compilers) and checks their results against the reference evaluator, with one
 * thread and with three: for every instruction set of this machine and every installed C compiler. The first compiler,
 * gcc, takes every case; the second, clang, which needs four times as long for each, takes a ninth of a list longer than
 * eight, a different ninth per instruction set. Kernels with equal texts are compiled once per list, so a list should
 * group cases that differ only in inputs or passes.
 *
 * The schedules for GPUs are checked too: their text runs on the GPU emulator, with threads in ascending and in
 * descending order (without a C++ compiler for that, their loops are printed as C), and on GPU 0, if there is one. On the
 * emulator, which takes the most time, a case whose kernels have run in both orders with other inputs takes one of them.
 * GRAPH_CHECK=gpu in the environment restricts the checks to that GPU, GRAPH_CHECK=LEVEL (x86-64-v4+vnni, amx) to
 * that level of processors, and INGOT_NVRTC names the NVRTC library.
 */
#ifndef TESTS_GRAPH_CHECK_H
#define TESTS_GRAPH_CHECK_H

#include "ir/build.h"

enum {
    GRAPH_RAW = 1,     /* no layout pass, no packing */
    GRAPH_POISON = 2,  /* inputs contain some NaN and infinities */
    GRAPH_HOSTILE = 4, /* inputs of all magnitudes: limits, denormals, NaN, infinities, signed zeros */
    GRAPH_EACH = 8,    /* the tolerance is relative to each element */
    GRAPH_FP16 = 16,   /* in that precision */
    GRAPH_BF16 = 32,
    GRAPH_MAPS = 64, /* only candidates with tensor maps, but not of patches, are counted by GRAPH_CHOICE */
    GRAPH_TF32 = 128,
    GRAPH_SWAPPED = 256,    /* only those that swap the operands of warp groups, likewise */
    GRAPH_PATCH = 512,      /* only those by patches of images; with GRAPH_MAPS, which the copy engine brings */
    GRAPH_INTEGERS = 1024,  /* behind the pass of that name, for the reference evaluator, too */
    GRAPH_VNNI = 2048,      /* on CPUs: the whole list also for the levels with VNNI */
    GRAPH_NUMBERS = 4096,   /* floats of 8 bits are compared as numbers; else their codes have to be the same */
    GRAPH_BANDED = 8192,    /* only those by banded matrices, likewise */
    GRAPH_SERVED = 16384,   /* only attentions with a warp that copies, likewise */
    GRAPH_DEMANDED = 32768, /* with GRAPH_MAPS: products on targets with warpgroups must have such a candidate */
    /* Rows in front of products are joined with them where estimates allow; only products that compute such rows are counted likewise, and
     * there must be one on targets with streams. */
    GRAPH_ROWS_FIRST = 65536,
    GRAPH_ESTIMATED = 131072, /* what is fused is decided by estimates, as in builds */
    GRAPH_CHOICE = 262144,    /* times a number: that candidate of each kernel, if it has that many; else the first */
};

enum { GRAPH_SIZES = 4 };

struct graph_case {
    const char *name;
    void (*build)(struct ig_graph *g, const void *argument); /* adds inputs, nodes and outputs */
    const void *argument;
    double tolerance; /* relative to the largest magnitude of the output; 0: exact */
    unsigned flags;
    int64_t sizes[GRAPH_SIZES + 1]; /* of the symbols "s0" … "s3"; then, which of many inputs */
};

/* Fails the running cmocka test at the first element that differs, naming case, target and compiler. */
void check_graphs(const struct graph_case *cases, int count);
/* Only the schedules for CPUs. */
void check_graphs_for_cpu(const struct graph_case *cases, int count);
/* Only the schedules for GPUs. */
void check_graphs_for_cuda(const struct graph_case *cases, int count);

/* Constants for builders: numbers in -1 … 1 (floats) or -5 … 5 (integers), the same for the same seed. */
ig_value random_constant(struct ig_graph *g, enum ingot_dtype dtype, int rank, const int64_t *dims, uint32_t seed);
/* A type; a negative size -1 … -4 stands for the symbol "s0" … "s3". */
struct ig_type sized_type(struct ig_graph *g, enum ingot_dtype dtype, int rank, const int64_t *sizes);

#endif
