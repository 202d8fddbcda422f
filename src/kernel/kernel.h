/*
 * From region to kernel: the family's schedule decides tiles and loops, codegen prints the text.
 */
#ifndef IG_KERNEL_KERNEL_H
#define IG_KERNEL_KERNEL_H

#include "base/library.h"
#include "base/tensor_map.h"
#include "kernel/cuda/attend_block.h"
#include "kernel/cuda/gemm_block.h"
#include "kernel/loop.h"
#include "kernel/micro.h"

/* A kernel before compilation. Parameters: buf = region inputs, then outputs; dim = dims. */
struct ig_kernel {
    enum ig_family family;
    const char *tactic;             /* what the schedule chose, for people: "gemm 14x32 kc=256, rows copied" */
    const char *title;              /* the ONNX nodes it computes, for people */
    struct ig_loops *loops;         /* complete; templates are TEXT statements within */
    const char *prelude;            /* text to stand before the function: micro-kernels of the template; may be NULL */
    IG_VEC(struct ig_micro) micros; /* micro-kernels that the loops call; printed by ig_c_micro after the prelude */
    IG_VEC(ig_value) literals;      /* region inputs that became literals: not passed */
    IG_VEC(ig_dim) dims;            /* the values of dim[] at run time: loops->dim_params */
    ig_dim tiles;                   /* how many tiles there are */
    ig_dim scratch_bytes;           /* per thread */
    int threads;                    /* CUDA: of a block, which does a tile at a time; CPU: 0 */
    int shared_bytes;               /* CUDA: dynamic shared memory of a block */
    int cluster;  /* CUDA, sm_90 and up: blocks of a cluster, which are in step: `tiles` is a multiple of
                                       it, and the grid has to be too; 0: no clusters */
    bool lasting; /* CUDA: a block does tiles until none is left, and there are no more blocks than multiprocessors */
    struct ig_tensor_map maps[IG_MOST_TENSOR_MAPS]; /* CUDA: parameters behind the others, map0 and so on */
    int n_maps;
    const struct ig_cuda_gemm *gemm; /* CUDA: the matrix product that the loops call as gemm::…, or NULL; printed by
                                       ig_cuda_gemm before the function */
    const struct ig_cuda_attend *attend; /* likewise attend::… and ig_cuda_attend */
    const struct ig_library_call
        *library;     /* CUDA: there is no code, but a call of a library with the buffers as operands
                                              and the dims as sizes; NULL: there is code */
    uint64_t adapted; /* which of its operands, constants all of them, the call wants in another form: a set of bits */
    ig_dim work;      /* estimate, in vector operations, for deciding how many threads are worth it */
};

/* Schedules a region by its family's first choice. Never fails for want of a tactic. */
struct ig_kernel *ig_kernel_make(struct ig_graph *graph, const struct ig_region *region,
                                 const struct ig_target *target);
/*
 * Candidate number `choice` for a region: 0 is ig_kernel_make's, the others follow in the order of the family's cost model;
 * NULL where there are no more. All compute the same, within rounding, and differ in `tactic`, which names them. Families
 * that know one way only have one candidate. IG_CHOICE_PLAIN: the simplest way, an element at a time, to check others by;
 * NULL where a family has none.
 */
enum { IG_CHOICE_PLAIN = -1 };
struct ig_kernel *ig_kernel_candidate(struct ig_graph *graph, const struct ig_region *region,
                                      const struct ig_target *target, int choice);

/* For kernels that call a library: marks an operand as one that the call wants in another form (a bias rounded to the type of
 * the results, filters with their channels innermost), asks for the mark, and builds that form of the value v. */
void ig_library_adapt(struct ig_kernel *kernel, uint32_t operand);
bool ig_library_is_adapted(const struct ig_kernel *kernel, uint32_t operand);
ig_value ig_library_adapted(struct ig_graph *graph, const struct ig_kernel *kernel, uint32_t operand, ig_value v);

/* Canonical text of a region: operators, attributes, edges, shapes in their symbols, dtypes, values of literals, target;
 * no names, no weight values. Equal texts may share a kernel, and its dims are the same expressions. */
const char *ig_region_fingerprint(struct ig_graph *graph, const struct ig_region *region,
                                  const struct ig_target *target);

#endif
