/*
 * Contractions: matrix products and convolutions as one problem, and what its schedules share.
 *
 * Every contraction is C[b][m][n] = sum over k of A[b][m][k] * B[b][k][n]: for a matrix product as it stands, for a
 * convolution m are the output's positions, k the positions of the kernel and the channels under them, n the output's
 * channels, b images and groups. The problem says where elements of A and B are; the schedule decides
 * which of them are read where they lie and which are copied into panels first.
 */
#ifndef IG_KERNEL_CONTRACT_H
#define IG_KERNEL_CONTRACT_H

#include "kernel/kernel.h"
#include "kernel/lower.h"

#define IG_CONTRACT_DEPTH 4 /* spatial axes (3 at most) and channels */

struct ig_contract {
    struct ig_graph *graph;
    const struct ig_region *region;
    const struct ig_target *target;
    struct ig_loops *k;
    struct ig_lower lower;
    struct ig_kernel *kernel;
    struct ig_node node;    /* the contraction */
    enum ingot_dtype dtype; /* that it accumulates in */
    int choice;             /* which of the schedule's candidates is asked for, from 0 */
    int choices;            /* how many it has: set by the schedule */

    /* The problem. `depth` is split into axes, of which the last is the innermost. */
    ig_dim batch, rows, columns, depth;
    int depth_rank;
    ig_dim depth_dim[IG_CONTRACT_DEPTH];
    bool packed;    /* B is in panels that the micro-kernel can use */
    bool merged;    /* matmul: all axes of A but the last are rows */
    int64_t groups; /* conv */
    int spatial;    /* conv: number of spatial axes; 0: a matmul */

    /* The tile of results under the epilogue: element (row, column) of C lies in `tile` at tile_at. */
    int tile;
    ig_x tile_at;
    ig_x sum;                      /* the element itself, where it is in no tile; else IG_NO_X */
    ig_x position[INGOT_MAX_RANK]; /* its index in the contraction's output */
    ig_x linear; /* where that is in memory, in fewer terms than the index; IG_NO_X: follows from it */
    bool astray; /* the epilogue asked for another element: the schedule does not fit */
};

/* Reads the region. False where it is no contraction that the schedules know. */
bool ig_contract_init(struct ig_contract *c);

/* The operands' elements, converted to c->dtype. b, m, n, depth[] are i64 expressions in range. */
ig_x ig_contract_a(struct ig_contract *c, ig_x b, ig_x m, const ig_x *depth);
ig_x ig_contract_b(struct ig_contract *c, ig_x b, ig_x n, const ig_x *depth);
/* The index of C[b][m][n] in the contraction's output. */
void ig_contract_position(struct ig_contract *c, ig_x b, ig_x m, ig_x n, ig_x *out_index);
/* The whole of A's index in its operand, before borders are looked at (convolutions). */
void ig_contract_window(struct ig_contract *c, ig_x b, ig_x m, ig_x *out_image, ig_x *out_origin);
/* True where windows may reach beyond the input. */
bool ig_contract_padded(const struct ig_contract *c);

/* The rest of the region over `rows` rows and `columns` columns of the tile, whose rows are nr elements apart. */
void ig_contract_epilogue(struct ig_contract *c, struct ig_stmt *body, ig_x b, ig_x first_row, ig_x rows,
                          ig_x first_column, ig_x columns, int tile, ig_x tile_at, int nr);
/* Stores the region's outputs at c->position, where the contraction's sum is element tile_at of `tile`. */
void ig_contract_store(struct ig_contract *c, struct ig_stmt *body, int tile, ig_x tile_at);

/* Schedules (cpu/contract.h, cuda/contract.h) return false where they do not apply; then the kernel is as it was. One that
 * knows several ways sets c->choices and takes number c->choice of them, counted in the order of its cost model; where that
 * is beyond the last, it returns true at once. */
typedef bool (*ig_contract_schedule)(struct ig_contract *c);
enum { IG_CONTRACT_MOST_CHOICES = 24 };
void ig_contract_plain(struct ig_contract *c); /* one element at a time (CUDA: a thread each); always applies */

/* Shorthands. */
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
static inline ig_x ig_contract_dim(struct ig_contract *c, ig_dim d) {
    return ig_x_dim(c->k, d);
}
static inline ig_x ig_contract_int(struct ig_contract *c, int64_t i) {
    return ig_x_index(c->k, i);
}

#endif
