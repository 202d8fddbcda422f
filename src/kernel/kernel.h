/*
 * From region to kernel: the family's schedule chooses tiles and loops, codegen prints the text.
 */
#ifndef IG_KERNEL_KERNEL_H
#define IG_KERNEL_KERNEL_H

#include "base/library.h"
#include "base/tensor_map.h"
#include "kernel/cuda/attend/attend_block.h"
#include "kernel/cuda/contract/banded_block.h"
#include "kernel/cuda/contract/blocks_block.h"
#include "kernel/cuda/contract/depthwise_block.h"
#include "kernel/cuda/contract/gemm_block.h"
#include "kernel/cuda/contract/patch_block.h"
#include "kernel/cuda/recurrent_block.h"
#include "kernel/loop.h"
#include "kernel/micro.h"
#include "kernel/sizes.h"

/* How a cost model sees a kernel: the sizes that it depends on, and an estimate for their values. */
struct ig_kernel;
enum { IG_MODEL_SIZES = 4 };
struct ig_kernel_model {
    ig_dim sizes[IG_MODEL_SIZES];
    const void *problem;
    double (*cost)(const struct ig_kernel *kernel, const int64_t *sizes); /* microseconds; NULL: no model */
};

/* How a kernel goes about it, as far as estimates depend on it: rows on GPUs, convolutions on CPUs. */
enum ig_kernel_way { IG_WAY_USUAL, IG_WAY_COLUMNS, IG_WAY_SIDE_BY_SIDE, IG_WAY_WINOGRAD, IG_WAY_DEPTHWISE };

/* A kernel before compilation. Its parameters: buf = region inputs, then outputs; dim = dims. */
struct ig_kernel {
    enum ig_family family;
    const char *tactic;             /* the schedule's choice, for people: "gemm 14x32 kc=256, rows copied" */
    const char *title;              /* the ONNX nodes that it computes, for people */
    struct ig_loops *loops;         /* complete; template code is in TEXT statements */
    const char *prelude;            /* text printed before the function, such as template functions; may be NULL */
    const char *opening;            /* CUDA: text at the beginning of the function; NULL: none. See exchange_block.h */
    IG_VEC(struct ig_micro) micros; /* micro-kernels that the loops call; ig_c_micro prints them after the prelude */
    IG_VEC(ig_value) literals;      /* region inputs inlined as literals, not passed */
    IG_VEC(ig_dim) dims;            /* run-time values of dim[]: loops->dim_params */
    ig_dim tiles;                   /* the number of tiles */
    ig_dim scratch_bytes;           /* bytes per thread */
    int turn;                       /* CPU: tiles of a turn, see engine/plan.h; 0: no turns */
    bool whole;                     /* CPU: a worker does its tiles in one call, see engine/plan.h */
    int threads;                    /* CUDA: threads per block, which does one tile at a time; CPU: 0 */
    int shared_bytes;               /* CUDA: bytes of dynamic shared memory per block */
    /* CUDA, sm_90 and up: blocks per cluster. `tiles` is a multiple of it, and the grid must be. 0: no clusters. */
    int cluster;
    int resident; /* CUDA: blocks for which a multiprocessor shall have registers; 0: any number */
    int lasting; /* CUDA: persistent blocks, at most so many per multiprocessor, each taking tiles until none is left; 0: others */
    struct ig_tensor_map maps[IG_MOST_TENSOR_MAPS]; /* CUDA: parameters after the others, named map0 and so on */
    int n_maps;
    /* CUDA: the matrix product that the loops call as gemm::…, or NULL; ig_cuda_gemm prints it before the function. */
    const struct ig_cuda_gemm *gemm;
    const struct ig_cuda_attend *attend;       /* the same for attend::… and ig_cuda_attend */
    const struct ig_cuda_blocks *blocks;       /* and for blocks::… and ig_cuda_blocks */
    const struct ig_cuda_banded *banded;       /* and for banded::… and ig_cuda_banded */
    const struct ig_cuda_depthwise *depthwise; /* and for depthwise::… and ig_cuda_depthwise */
    const struct ig_cuda_patch *patch;         /* and for patch::… and ig_cuda_patch */
    const struct ig_cuda_recurrent *recurrent; /* and for recurrent::… and ig_cuda_recurrent */
    const struct ig_cuda_exchange *exchange;   /* and for exchange::… and ig_cuda_exchange (exchange_block.h) */
    /* CUDA: no code, but a library call with the buffers as operands and the dims as sizes; NULL: code. */
    const struct ig_library_call *library;
    uint64_t adapted; /* bit i: the library call wants constant operand i in another form; see ig_library_adapt */
    struct ig_kernel_model model;
    enum ig_kernel_way way;
    ig_dim work;          /* estimated vector operations, for choosing the number of threads */
    IG_VEC(ig_dim) bytes; /* of what the parameters point to, for estimates */
};

/* Reserves scratch memory of the kernel for `elements` of a type; returns its loop buffer. */
int ig_kernel_scratch(struct ig_kernel *kernel, enum ingot_dtype dtype, ig_dim elements, const char *name);

/* Schedules a region by its family's first choice at the usual sizes. Always succeeds: every family has a schedule that applies to all of
 * its regions. */
struct ig_kernel *ig_kernel_make(struct ig_graph *graph, const struct ig_region *region,
                                 const struct ig_target *target);
/*
 * Candidate number `choice` for a region, in the order of the family's cost model at the sizes `at` (NULL: the usual
 * ones, for which candidate 0 is ig_kernel_make's); NULL if there are no more. All are right at all sizes and compute
 * the same within rounding; `tactic` tells them apart. Families without alternatives have one candidate.
 * IG_CHOICE_PLAIN: the simplest kernel, one element at a time, to check others against; NULL if the family has none.
 */
enum { IG_CHOICE_PLAIN = -1 };
struct ig_kernel *ig_kernel_candidate(struct ig_graph *graph, const struct ig_region *region,
                                      const struct ig_target *target, const struct ig_sizes *at, int choice);
/* The cost model's estimate of a kernel's time at some sizes, in microseconds, by which the candidates of a region are
 * told apart; 0: no model for it. */
double ig_kernel_cost(const struct ig_kernel *kernel, const struct ig_sizes *at);
/* An estimate by which regions are weighed against each other: of all kernels for GPUs, those without a model too, and
 * with what it costs to compute operands while they are loaded; 0: none, since the kernel is for CPUs or a library's. */
double ig_kernel_estimate(const struct ig_kernel *kernel, const struct ig_sizes *at);

/* Operands of library calls that are needed in another form (a bias rounded to the type of the results, filters with
 * channels innermost): mark one, query the mark, build that form of value v. */
void ig_library_adapt(struct ig_kernel *kernel, uint32_t operand);
bool ig_library_is_adapted(const struct ig_kernel *kernel, uint32_t operand);
ig_value ig_library_adapted(struct ig_graph *graph, const struct ig_kernel *kernel, uint32_t operand, ig_value v);

/*
 * Canonical text of a region (fingerprint.c): operators, attributes, edges, shapes in their symbols, the symbols' ranges
 * and usual values, dtypes, values of literals, target; no names, no order of nodes, no weight values. Regions with equal
 * texts share a kernel: their inputs and outputs correspond by position, and their symbols by number, so that a size of
 * one region's kernel is a size of the other's after ig_dim_substitute.
 */
struct ig_fingerprint {
    const char *text;
    const ig_dim *symbols; /* by number */
    uint32_t n_symbols;
};
struct ig_fingerprint ig_region_fingerprint(struct ig_graph *graph, const struct ig_region *region,
                                            const struct ig_target *target);

#endif
