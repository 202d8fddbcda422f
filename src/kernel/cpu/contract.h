/*
 * Contractions on CPUs: the schedules, and what they share. contract_panel.c reads A and B in place or copies them into
 * panels, contract_columns.c has the panels of B and the register block, contract_rows.c blocks of rows; contract.c tries the schedules in turn.
 */
#ifndef IG_KERNEL_CPU_CONTRACT_H
#define IG_KERNEL_CPU_CONTRACT_H

#include "kernel/family/contract.h"

/* The schedules; see kernel/family/contract.h. */
bool ig_contract_parts(struct ig_contract *c); /* f32 on AMX */
bool ig_contract_gemm(struct ig_contract *c);
bool ig_contract_lines(struct ig_contract *c);
bool ig_contract_depthwise(struct ig_contract *c);
bool ig_contract_depthwise_dots(struct ig_contract *c);
bool ig_contract_blocks(struct ig_contract *c);
bool ig_contract_winograd(struct ig_contract *c); /* where c->winograd */

/* Can micro-kernels load this type as c->dtype? True for that type, and for halves if it is f32. */
bool ig_contract_can_convert(const struct ig_contract *c, enum ingot_dtype dtype);
/* The type's value for ig_micro.half. */
enum ingot_dtype ig_contract_half(enum ingot_dtype dtype);

/* The turns in which threads do so many equal units of work: with two threads, which counts most, with 8 and with 16. `together`: how
 * many that follow each other are one turn. */
static inline double ig_contract_turns(int64_t units, int64_t together) {
    static const int64_t threads[] = {2, 8, 16}, counts[] = {2, 2, 4};
    int64_t turns = 0;
    for (int i = 0; i < 3; i++)
        turns += counts[i] * (((units + threads[i] - 1) / threads[i] + together - 1) / together);
    return (double)turns;
}

/* A division of the work into tiles, with its cost by the schedule's model: blocks of rows (or lines) of a chunk, panels of a
 * group. */
struct ig_tiling {
    double cost;
    int64_t chunk, group;
    bool rows_first;
};
/* Inserts a tiling behind those that cost no more; if there are `most` already, drops the most expensive. */
void ig_tilings_keep(struct ig_tiling *tilings, int *count, int most, const struct ig_tiling *t);

/* While the blocks of a chunk pass over one step of a panel, the first ones prefetch a share each of the panel's next step. */
struct ig_fetch {
    int64_t blocks;             /* that prefetch; 0: none do */
    int64_t rate;               /* of each, in bytes per element of depth */
    int64_t stretches, stretch; /* see ig_micro */
    int64_t share;              /* bytes from where a block begins to where the next does */
};
/* `line`: bytes of B per element of the depth. Of `chunk` blocks, at most `most` prefetch. `in_tiles`: for AMX. */
struct ig_fetch ig_fetch_of(int64_t line, int64_t step, int64_t chunk, int64_t most, bool in_tiles);
/* What the nth block begins with; the next step lies at `next` of B, whose elements have that many bytes. */
ig_x ig_fetch_from(struct ig_contract *c, const struct ig_fetch *f, ig_x next, ig_x nth_block, int64_t element);

/* An operand that can be read in place: unit stride along the depth (A, of c->operand), or along the columns or the depth
 * (B, of a type that micro-kernels convert). */
struct ig_contract_view {
    int buffer;      /* -1: not readable in place */
    ig_x base;       /* offset of element [0][0] of the given batch */
    ig_dim stride;   /* between rows of A, or along B's other axis */
    bool transposed; /* B: unit stride along the depth */
};
struct ig_contract_view ig_contract_view_a(struct ig_contract *c, ig_x b);
struct ig_contract_view ig_contract_view_b(struct ig_contract *c, ig_x b);

/* A convolution's channels-last input that can be read in place, with unit stride along the channels. */
struct ig_contract_image {
    int buffer;                    /* -1: not readable in place */
    ig_x base;                     /* offset of the first element */
    ig_dim image;                  /* between images */
    ig_dim stride[INGOT_MAX_RANK]; /* along the spatial axes */
};
struct ig_contract_image ig_contract_view_image(struct ig_contract *c);

/* Copies `rows` rows of A from first_row on to `buffer`, with row stride lda. */
void ig_contract_copy_a(struct ig_contract *c, struct ig_stmt *body, ig_x b, ig_x first_row, ig_x rows, int buffer,
                        ig_x lda);
/* Copies the panel of B that starts at column panel*nr to `buffer` as [depth][nr], zero-padded past the last column. */
void ig_contract_copy_b(struct ig_contract *c, struct ig_stmt *body, ig_x b, ig_x panel, int nr, int buffer);

/* Rows divided evenly over blocks of up to mr, so that no block works on rows that do not exist. */
struct ig_row_blocks {
    ig_dim count;
    ig_dim each, more; /* `more` blocks have each + 1 rows, the others `each` */
};
void ig_row_blocks_init(struct ig_contract *c, ig_dim rows, int mr, struct ig_row_blocks *out_blocks);
/* The numbers of rows that blocks may have, for ig_micro.rows. If the number of rows is a symbolic multiple of mr, blocks
 * have one known size, though their number is unknown. */
uint64_t ig_row_blocks_set(const struct ig_contract *c, const struct ig_row_blocks *blocks, int mr);
/* The first row of a block, and how many it has. */
ig_x ig_row_blocks_start(struct ig_contract *c, const struct ig_row_blocks *blocks, ig_x block);
ig_x ig_row_blocks_rows(struct ig_contract *c, const struct ig_row_blocks *blocks, ig_x block);

/* The columns of a product in panels of nr, and the register block of mr rows. */
struct ig_columns {
    ig_dim panels;
    int lanes, nr, mr;
    int tile_groups; /* groups of steps for AMX's tiles, of up to mr rows; 0: products of vectors */
    double
        transfer; /* copying an element of A costs as much as so many products; so does one of B from memory. Measured; of tiles, estimated */
    int element;  /* bytes of an element of A, as micro-kernels read it */
    int64_t first, second; /* budgets for the first and second cache, in bytes */
};
void ig_columns_init(struct ig_contract *c, struct ig_columns *out_columns);
/* Groups of steps that a tile of AMX takes at once: a whole part of `run` elements of the depth, at most 16; 0 if the tiles
 * would be rather empty (a quarter of their rate is above that of vectors), or there are fewer rows than a tile has. */
int ig_columns_tile_groups(const struct ig_contract *c, const struct ig_columns *p, int64_t run);
/* Do mr rows, `stride` elements apart, crowd few sets of the first cache (64 sets of at least 8 lines)? */
bool ig_columns_rows_conflict(const struct ig_columns *p, int64_t stride);
/* A stride for rows of `depth` elements that do not: an odd number of cache lines. */
int64_t ig_columns_copied_stride(const struct ig_columns *p, int64_t depth);
/* The number of vectors of a panel that have columns, all except in the last panel: as an argument of the micro-kernel,
 * and as the bit set for its description. `whole`: always the whole panel. */
ig_x ig_columns_vectors(struct ig_contract *c, const struct ig_columns *p, ig_x panel, bool whole);
uint32_t ig_columns_vector_set(const struct ig_contract *c, const struct ig_columns *p, bool whole);
/* The position of row depth_at of a panel of packed B. The panels of one group of a convolution follow those of the other. */
ig_x ig_columns_packed_at(struct ig_contract *c, const struct ig_columns *p, ig_x batch, ig_x panel, ig_x depth_at);
/* ig_contract_epilogue over the columns of a panel; full panels and a shorter last one are emitted separately, so that
 * both have loops of constant length. */
void ig_columns_epilogue(struct ig_contract *c, const struct ig_columns *p, struct ig_stmt *body, ig_x b, ig_x panel,
                         ig_x first_row, ig_x rows, int tile, ig_x tile_at);

#endif
