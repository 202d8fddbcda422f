/*
 * Contractions on GPUs: the schedules, and what their parts share. contract.c emits the loops of a matrix product,
 * contract_operand.c locates operands in memory, contract_choose.c chooses the tiles.
 */
#ifndef IG_KERNEL_CUDA_CONTRACT_H
#define IG_KERNEL_CUDA_CONTRACT_H

#include "kernel/cuda/contract/gemm_block.h"
#include "kernel/family/contract.h"

/* The schedules; see kernel/family/contract.h. */
bool ig_cuda_contract_gemm(struct ig_contract *c);
bool ig_cuda_contract_depthwise(struct ig_contract *c);
/* By banded matrices: before ig_cuda_contract_depthwise where it is estimated to take less time, else behind it. */
bool ig_cuda_contract_banded_first(struct ig_contract *c);
bool ig_cuda_contract_banded_last(struct ig_contract *c);
/* By codes in blocks, before ig_cuda_contract_gemm, which fills steps with any. */
bool ig_cuda_contract_blocks(struct ig_contract *c);
bool ig_cuda_contract_taps(struct ig_contract *c);
/* Of a small depth, and few rows or columns. */
bool ig_cuda_contract_small(struct ig_contract *c);
/* By patches of images: before the products of windows where it is estimated to take less time, else behind them. */
bool ig_cuda_contract_patch_first(struct ig_contract *c);
bool ig_cuda_contract_patch_last(struct ig_contract *c);
/* Does it convolve each channel by itself, channels-last? */
bool ig_cuda_is_depthwise(const struct ig_contract *c);
/* And do its input and filters lie in memory, in types of the templates'? */
bool ig_cuda_depthwise_lies(const struct ig_contract *c);
/* The buffer of an operand that is read as it is, maybe in another shape; -1: it is computed. */
int ig_cuda_plain_operand(const struct ig_contract *c, int operand);
/* Candidates that are library calls (library.h); false if the library cannot do the region. They come after those of
 * the schedules and are taken only if measured. */
bool ig_cuda_contract_product(struct ig_contract *c);
bool ig_cuda_contract_convolution(struct ig_contract *c);

/* A convolution's axes as planes, rows and columns, of which it has the last (contract_axes.c). Along one of them: an attribute, 1 where
 * the convolution lacks the axis; a size of its input or output; where the window of output position `at` begins, maybe
 * outside of the image. */
enum { IG_CUDA_AXES = 3 };
int64_t ig_cuda_attr_along(const struct ig_contract *c, enum ig_attr_name name, int axis);
ig_dim ig_cuda_size_along(const struct ig_contract *c, const struct ig_type *type, int axis);
ig_x ig_cuda_window_along(struct ig_contract *c, ig_x at, int axis);
/* Sets c->position and c->linear to a place in the output, which has `channels`. */
void ig_cuda_place(struct ig_contract *c, ig_x image, const ig_x at[IG_CUDA_AXES], ig_x channel, int64_t channels);
/* Columns per access: 16 bytes of the widest output, or less if `columns` are not divisible by that. */
int ig_cuda_vector_of(const struct ig_contract *c, int64_t columns);

/* The memory layout of an operand, for the template's copies. */
struct ig_cuda_source {
    enum ig_cuda_operand kind;
    int buffer;
    int copy;                     /* bytes per copy */
    ig_x base;                    /* ALONG, ACROSS, WINDOWS: offset of the first element of the current group
                                           or batch */
    ig_dim ld;                    /* ALONG, ACROSS */
    ig_x line, position;          /* LISTED: offset of a line, as an expression of the variable `line` */
    int64_t piece;                /* LISTED */
    ig_dim piece_stride;          /* LISTED */
    ig_dim size[3], pixel, below; /* WINDOWS, of the input: planes, rows, columns; `pixel`: channels of all
                                           groups; `below`: channels of one */
};

/* On a GPU, the rows of a convolution run over all images, and batches are groups. These give the two sizes in that
 * numbering, from c's. */
ig_dim ig_cuda_rows(struct ig_contract *c);
ig_dim ig_cuda_batch(struct ig_contract *c);
/* The batch and row in contract.h's numbering of row m of group or batch b. */
void ig_cuda_locate(struct ig_contract *c, ig_x b, ig_x m, ig_x *out_b, ig_x *out_m);

/* The layout of A and B of batch b, both with elements of type `element`; kind FILLED if no copy of the template
 * fits. */
struct ig_cuda_source ig_cuda_source_a(struct ig_contract *c, ig_x b, enum ingot_dtype element);
struct ig_cuda_source ig_cuda_source_b(struct ig_contract *c, ig_x b, enum ingot_dtype element);
struct ig_cuda_source ig_cuda_source_twin_b(struct ig_contract *c, ig_x b, enum ingot_dtype element);

/* matmul_scaled: where the scales lie, of f32. That of row m in step s at base + m * row_pitch + s * step_pitch; those of columns, `across`
 * of them, step by step from the beginning of their buffer. False if they do not lie so. */
struct ig_cuda_scales {
    int rows, columns; /* buffers */
    ig_x base;
    ig_dim row_pitch, step_pitch, across;
};
bool ig_cuda_find_scales(struct ig_contract *c, struct ig_cuda_scales *out);

/* Of a region whose results are pushed (ir/graph.h): what its kernel sends, the rows of the product, of which a tile has `height`; NULL: it cannot. Then the epilogue
 * puts results into the tile too. */
const struct ig_cuda_exchange *ig_cuda_contract_push(struct ig_contract *c, int height);
/* What a kernel sends so; NULL: nothing. */
const struct ig_cuda_exchange *ig_cuda_contract_pushes(const struct ig_kernel *kernel);
/* The last argument of the template's `product.begin`, and the call behind the epilogue that sends a tile. */
struct ig_call_arg ig_cuda_contract_seat(struct ig_contract *c);
struct ig_cuda_push_tile {
    int tile, height, width, apart; /* the buffer, its rows and columns, and elements from row to row */
    ig_x first_row, first_column;
    ig_dim rows; /* of all tiles */
};
void ig_cuda_contract_send(struct ig_contract *c, struct ig_stmt *body, const struct ig_cuda_push_tile *tile);

/* The inputs of the cost model. */
struct ig_cuda_problem {
    int64_t batch, rows, columns, depth; /* estimates if not constant */
    enum ig_cuda_math math;
    enum ig_cuda_operand a, b;
    int a_copy, b_copy;
    int step; /* bytes of the depth that the copy engine fetches at once: 128, or 64 */
    int sm;
    bool streams;          /* ig_target_can_stream */
    bool warpgroups;       /* the target has wgmma */
    bool heavy;            /* the epilogue computes exponentials or the like */
    double issue;          /* ig_cuda_contract_issue */
    bool mapped;           /* the copy engine (TMA) can fetch both operands */
    int slice;             /* it can fetch patches of the windows' image: bytes of the channels that these have; or 0 */
    int64_t height, width; /* of the output, of windows */
    bool boxed;            /* it can fetch B of all batches as one matrix */
    bool twin;             /* two products of the same A: only `direct` and `stream` do both, if they can */
    int first;   /* at most so many rows of A are computed by the kernel, first, which only `stream` does; 0: none */
    bool fixed;  /* columns and depth are constants */
    bool single; /* there is one batch, whatever the sizes */
};
/* Chooses tiles, warps, stages and splits for a problem: at most `most` descriptions that otherwise equal *gemm, best
 * by the cost model first. All are correct, so a tuner may measure them. Returns how many. */
int ig_cuda_gemm_candidates(const struct ig_cuda_problem *problem, const struct ig_cuda_gemm *gemm, int most,
                            struct ig_cuda_gemm *out_candidates);
/* Estimated time of the best of ig_cuda_contract_gemm at c->at, in microseconds; INFINITY: it does not apply. */
double ig_cuda_contract_gemm_time(struct ig_contract *c);
/* The same of ig_cuda_contract_depthwise. */
double ig_cuda_contract_depthwise_time(struct ig_contract *c);
/* Nanoseconds per element in which a multiprocessor issues the epilogue's instructions; 0: few, which nothing waits for. Those of
 * quantised results (codegen/cuda/quantize.c) are counted, and weighed by a measured rate. */
double ig_cuda_contract_issue(const struct ig_contract *c);
/* Does the epilogue compute functions of many instructions? */
bool ig_cuda_contract_is_heavy(const struct ig_contract *c);
/* Estimated time of a candidate in microseconds. */
double ig_cuda_gemm_cost(const struct ig_cuda_problem *problem, const struct ig_cuda_gemm *gemm);
/* The same within a network. */
double ig_cuda_gemm_cost_in_network(const struct ig_cuda_problem *problem, const struct ig_cuda_gemm *gemm);

#endif
