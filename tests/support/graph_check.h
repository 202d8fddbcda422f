/*
 * Whole graphs through the passes, the kernels and the compiler, against the reference evaluator, on one thread and on
 * three: for every instruction set that this machine has and every C compiler that is installed. The first compiler, gcc,
 * takes every case; the second, clang, a third of a list longer than eight, another for each instruction set. Kernels whose text
 * is the same are compiled once in a list, so lists should hold together what differs in its inputs or passes alone.
 * The schedules for GPUs are checked too: their text runs on the emulator of GPUs, forwards and backwards, or, where there is
 * no C++ compiler for that, their loops are printed as C; and on the first GPU where there is one. GRAPH_CHECK=gpu in the environment leaves all but that
 * GPU out, and INGOT_NVRTC says where its compiler is.
 */
#ifndef TESTS_GRAPH_CHECK_H
#define TESTS_GRAPH_CHECK_H

#include "ir/build.h"

enum {
    GRAPH_RAW = 1,     /* no layout pass, no packing */
    GRAPH_POISON = 2,  /* inputs hold NaN and infinities here and there */
    GRAPH_HOSTILE = 4, /* inputs of all magnitudes: limits, denormals, NaN, infinities, signed zeros */
    GRAPH_EACH = 8,    /* the tolerance is relative to each element */
    GRAPH_FP16 = 16,   /* in this precision */
    GRAPH_BF16 = 32,
    GRAPH_MAPS = 64,    /* candidates with tensor maps alone count for the choice */
    GRAPH_CHOICE = 256, /* times a number: that candidate of each kernel, where there are so many; else the first */
};

struct graph_case {
    const char *name;
    void (*build)(struct ig_graph *g, const void *argument); /* adds inputs, nodes and outputs */
    const void *argument;
    double tolerance; /* relative to the largest magnitude of the output; 0: exact */
    unsigned flags;
    int64_t sizes[4]; /* of the symbols "s0" … "s3" */
};

/* Fails the running cmocka test at the first element that differs, naming case, target and compiler. */
void check_graphs(const struct graph_case *cases, int count);
/* The schedules for GPUs alone. */
void check_graphs_for_cuda(const struct graph_case *cases, int count);

/* Constants for builders: numbers in -1 … 1 (floats) or -5 … 5 (integers), the same for the same seed. */
ig_value random_constant(struct ig_graph *g, enum ingot_dtype dtype, int rank, const int64_t *dims, uint32_t seed);
/* A type; a negative size -1 … -4 stands for the symbol "s0" … "s3". */
struct ig_type sized_type(struct ig_graph *g, enum ingot_dtype dtype, int rank, const int64_t *sizes);

#endif
