/* Shared by the files of the row family's schedule for GPUs. */
#ifndef IG_KERNEL_CUDA_ROW_H
#define IG_KERNEL_CUDA_ROW_H

#include "ir/target.h"
#include "kernel/family/row.h"

/* Rows whose innermost axis is kept; false if the region turns out not to be regular. */
bool ig_row_columns_cuda(struct ig_row *r);
/*
 * Rows of which one value does not come from memory: each block has it, of one row, when it has called some functions. They get
 * what they need as arguments, and know by the block's number which row it is.
 */
struct ig_row_call {
    const char *function;
    struct ig_call_arg args[4];
    int n_args;
};
struct ig_row_arrival {
    ig_value value;                   /* of the space's shape, whose rows lie one behind the other */
    int buffer;                       /* in shared memory, with room for a row: where the value comes to */
    struct ig_row_call first;         /* at the beginning; then other operands are loaded, while it is on its way */
    struct ig_row_call arrives, last; /* before it is read; at the end */
};
/* Makes the kernel of r, initialised and with kernel->threads set: a block for each row. False if the region turns out not to be
 * regular. */
bool ig_row_arrived_cuda(struct ig_row *r, const struct ig_row_arrival *arrival);
/*
 * Rows within a kernel of other work: a `single` one is done by all threads of each block, of several each by a warp. r is initialised
 * (ig_row_init_within), and kernel->threads set. NULL if the region turns out not to be regular.
 */
struct ig_row_lines;
struct ig_row_lines *ig_row_within_cuda(struct ig_row *r, bool single);
/* Loads what the row needs of constants, or of several brings it near, where that is worth it: before the kernel waits for the preceding
 * one. */
void ig_row_within_constants_cuda(struct ig_row_lines *lines, struct ig_stmt *body);
void ig_row_within_emit_cuda(struct ig_row_lines *lines, struct ig_stmt *body);
/* Rows in pieces that lie side by side; false if there are none, or the region turns out not to be regular. */
bool ig_row_groups_cuda(struct ig_row *r, const struct ig_target *target);
/*
 * Long rows that blocks of a cluster do together (row_share.c). The time in microseconds of `clusters` of `blocks` each that move
 * `bytes`, where a multiprocessor has room for `slots` blocks.
 */
double ig_row_share_time(double clusters, int blocks, int slots, double bytes);
/* Is there a multiprocessor for each block? */
bool ig_row_share_alone(int64_t clusters, int blocks);
/*
 * Bytes of shared memory that the kernel then asks for at least, where several blocks share rows: over half of a multiprocessor's. Kernels
 * begin before the one in front of them has ended, and two blocks would share a multiprocessor that is free early, while others stay
 * idle. Else 0.
 */
int ig_row_share_bytes(const struct ig_target *target, int64_t clusters, int blocks);
/* The number of blocks, 1 to 8, for which the model's time is least; negative: so many cannot be. */
typedef double (*ig_row_share_model)(const void *user, int blocks);
int ig_row_share_choose(ig_row_share_model model, const void *user, bool shares);
/* The only input of the row's shape, if it is of 16 bits and several passes need it, else IG_NO_VALUE: what blocks keep in
 * shared memory as it is, where registers have no room for it. */
ig_value ig_row_halves_cuda(struct ig_row *r);
/* Keeps it from byte `offset` of dynamic shared memory on, in places of r->place, filled by the first pass that needs it, or if
 * `comes` before the passes by the schedule. Before ig_row_prepare. */
void ig_row_keep_halves_cuda(struct ig_row *r, ig_value v, int64_t offset, bool comes);
/* Chooses what stays in the registers of the threads that loaded or computed it, which need it in several passes, if they
 * have `each` elements; in buffers of `elements`, whose width is to be set once it is known. Before ig_row_prepare. */
void ig_row_keep_cuda(struct ig_row *r, int64_t elements, int each);
/* Elements along the nest's last dim, of a row, for one access. */
int ig_row_vector_cuda(struct ig_row *r);

#endif
