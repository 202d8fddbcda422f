/*
 * Contractions: matrix products and convolutions as one problem, and what its schedules share.
 *
 * Every contraction is C[b][m][n] = sum over k of A[b][m][k] * B[b][k][n]. A convolution is an implicit GEMM: m are
 * output positions, k the kernel positions and the input channels, n the output channels, b images and groups. The
 * problem says where elements of A and B lie; the schedule decides which are read in place and which are first copied
 * into panels.
 */
#ifndef IG_KERNEL_CONTRACT_H
#define IG_KERNEL_CONTRACT_H

#include "kernel/family/line.h"
#include "kernel/kernel.h"
#include "kernel/lower.h"

#define IG_CONTRACT_DEPTH 4 /* up to 3 spatial axes, and channels */

struct ig_contract {
    struct ig_graph *graph;
    const struct ig_region *region;
    const struct ig_target *target;
    struct ig_loops *k;
    struct ig_lower lower;
    struct ig_kernel *kernel;
    struct ig_node node; /* the contraction, copied */
    bool has_twin;       /* the region has a second product, of the same first operand and sizes */
    struct ig_node twin;
    bool first;             /* ig_contract_computes_rows */
    enum ingot_dtype dtype; /* accumulator type */
    enum ingot_dtype
        operand; /* A's type as micro-kernels read it: with pairs and fours together bf16, u8 or i16, else dtype */
    const struct ig_sizes *at; /* the sizes at which candidates are ordered */
    int choice;                /* the candidate of the schedule to make, from 0 */
    int choices;               /* the number of candidates; set by the schedule */

    /* The problem. `depth` is the product of depth_dim[], the last of which is innermost. */
    ig_dim batch, rows, columns, depth;
    int depth_rank;
    ig_dim depth_dim[IG_CONTRACT_DEPTH];
    bool packed;      /* B is in the micro-kernel's panel layout */
    bool interleaves; /* B is not packed, but copied with steps of the depth together */
    int together;     /* steps of the depth that packed or copied B has together; 1: none */
    ig_dim padded;    /* `depth` with the channels (or all of it) rounded up to a multiple of these */
    bool merged;      /* matmul: all axes of A but the last form the rows */
    bool scaled;      /* matmul_scaled: schedules that do not scale the sums of blocks of the depth do not apply */
    int64_t groups;   /* conv */
    int spatial;      /* conv: number of spatial axes; 0: matmul */
    int winograd;     /* conv: m if B is transformed for F(m x m, 3 x 3) (ir/winograd.h); else 0 */

    /* State during the epilogue: element (row, column) of C is `tile` at tile_at. */
    int tile;
    ig_x tile_at;
    ig_x twin_at;   /* where the twin's element is in the tile */
    ig_x sum;       /* the element itself, if it is not in a tile; else IG_NO_X */
    ig_value begun; /* the sums in the tile are this value, as they began with ig_contract_start; or IG_NO_VALUE */
    ig_x position[INGOT_MAX_RANK]; /* its index in the contraction's output */
    ig_x linear;                   /* its offset in memory as a simpler expression than from the index, or IG_NO_X */
    const int *ahead; /* by value: a buffer that has its elements at ahead_at, or -1; NULL: there are none */
    ig_x ahead_at;
    ig_x inside;         /* whether it exists: otherwise it is not stored; IG_NO_X: it does */
    struct ig_line line; /* the loop over a row of results, on CPUs */
    bool kept;           /* results are also stored in the tile, in the place of the sums */
    bool astray;         /* the epilogue requested another element: the schedule does not apply */
};

/* Does a contraction's region compute rows with reductions? They are the first operand of its product, or of both. */
bool ig_contract_computes_rows(const struct ig_graph *graph, const struct ig_region *region);
/* Reads the region. False if it is no contraction that the schedules support. */
bool ig_contract_init(struct ig_contract *c);

/* Elements of the operands, of c->operand and c->dtype (converted; halves as floats). b, m, n and depth[] are i64 expressions in range. */
ig_x ig_contract_a(struct ig_contract *c, ig_x b, ig_x m, const ig_x *depth);
ig_x ig_contract_b(struct ig_contract *c, ig_x b, ig_x n, const ig_x *depth);
/* The twin's, of B. */
ig_x ig_contract_twin_b(struct ig_contract *c, ig_x b, ig_x n, const ig_x *depth);
/* matmul_scaled: the scale of row m, or of column n, in block t of the depth, f32. */
ig_x ig_contract_row_scale(struct ig_contract *c, ig_x m, ig_x t);
ig_x ig_contract_column_scale(struct ig_contract *c, ig_x n, ig_x t);
/* The index of C[b][m][n] in the contraction's output. */
void ig_contract_position(struct ig_contract *c, ig_x b, ig_x m, ig_x n, ig_x *out_index);
/* Where the window of output m begins in A's operand, ignoring borders (convolutions). */
void ig_contract_window(struct ig_contract *c, ig_x b, ig_x m, ig_x *out_image, ig_x *out_origin);
/* A number of channels (or a matrix product's depth) rounded up to steps that are together. */
ig_dim ig_contract_rounded(struct ig_contract *c, ig_dim size);
/* An input of i32 that has a number for each column, which the region does nothing with but to add it to the sums, and they are used for
 * nothing else: sums may begin with it, exactly. IG_NO_VALUE: there is none. *out_begun: the node's result. */
ig_value ig_contract_start(const struct ig_contract *c, ig_value *out_begun);
/* The linear index along the padded depth. */
ig_x ig_contract_padded_at(struct ig_contract *c, const ig_x *depth);
/* May windows reach beyond the input? */
bool ig_contract_padded(const struct ig_contract *c);
/* The elements beyond the input; not 0 only of bytes. Schedules that skip these elements or clear memory for them must see
 * that it is 0. */
int64_t ig_contract_border(const struct ig_contract *c);

/* Emits the rest of the region over `rows` x `columns` elements of the tile, whose row stride is nr elements. */
void ig_contract_epilogue(struct ig_contract *c, struct ig_stmt *body, ig_x b, ig_x first_row, ig_x rows,
                          ig_x first_column, ig_x columns, int tile, ig_x tile_at, int nr);
/* Stores the region's outputs at c->position, where the contraction's sum is element tile_at of `tile`. */
void ig_contract_store(struct ig_contract *c, struct ig_stmt *body, int tile, ig_x tile_at);
/* What is stored next is stored only where the condition holds, too. */
void ig_contract_store_where(struct ig_contract *c, ig_x condition);

/* Schedules (cpu/contract.h, cuda/contract.h) return false if they do not apply, and leave the kernel unchanged. A
 * schedule with several candidates sets c->choices and makes number c->choice, in the order of its cost model; if that
 * is past the last, it returns true at once. */
typedef bool (*ig_contract_schedule)(struct ig_contract *c);
enum { IG_CONTRACT_MOST_CHOICES = 24 };
void ig_contract_plain(struct ig_contract *c); /* One element at a time (CUDA: per thread); always applies. */

static inline int64_t ig_contract_const(const struct ig_contract *c, ig_dim d, int64_t otherwise) {
    int64_t value;
    return ig_dim_is_const(c->graph->dims, d, &value) ? value : otherwise;
}
static inline bool ig_contract_is_one(const struct ig_contract *c, ig_dim d) {
    return ig_contract_const(c, d, 0) == 1;
}
static inline ig_dim ig_contract_as_dim(const struct ig_contract *c, int64_t value) {
    return ig_dim_const(c->graph->dims, value);
}
static inline const struct ig_attr *ig_contract_attr(const struct ig_contract *c, enum ig_attr_name name) {
    return ig_attr(c->graph, &c->node, name);
}
static inline int64_t ig_contract_attr_int(const struct ig_contract *c, enum ig_attr_name name) {
    return ig_attr_int(c->graph, &c->node, name);
}
static inline const struct ig_type *ig_contract_in(const struct ig_contract *c, int operand) {
    return ig_type_of(c->graph, c->node.in[operand]);
}
static inline const struct ig_type *ig_contract_out(const struct ig_contract *c) {
    return ig_type_of(c->graph, c->node.out);
}
/* The zeros that lines of a product's first operand have beyond the depth (ops.def). */
static inline int64_t ig_contract_filled(const struct ig_contract *c) {
    int64_t packed = c->node.op == IG_OP_matmul ? ig_contract_attr_int(c, IG_ATTR_packed) : 0;
    return packed < 0 ? -packed : 0;
}
/* Are the weights those of groups, without panels (ops.def)? */
static inline bool ig_contract_without_panels(const struct ig_contract *c) {
    return c->spatial && c->groups > 1 && ig_contract_attr_int(c, IG_ATTR_packed) == 1 &&
           ig_contract_in(c, 1)->rank <= c->spatial + 2;
}
/* Are these depthwise weights with four lines of the kernel together? */
static inline bool ig_contract_lines_together(const struct ig_contract *c) {
    const struct ig_type *w = ig_contract_in(c, 1);
    return ig_contract_without_panels(c) && c->spatial == 2 && w->rank == 4 && w->dtype == INGOT_I8;
}
static inline ig_x ig_contract_dim(struct ig_contract *c, ig_dim d) {
    return ig_x_dim(c->k, d);
}
static inline ig_x ig_contract_int(struct ig_contract *c, int64_t i) {
    return ig_x_index(c->k, i);
}

#endif
