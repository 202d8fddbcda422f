/*
 * Attention on GPUs, shared by the files of its schedule: attend_choose.c chooses the shape of blocks, attend_scores.c
 * changes the scores, attend.c locates the operands and emits the loops around the template (attend_block.h).
 */
#ifndef IG_KERNEL_CUDA_ATTEND_H
#define IG_KERNEL_CUDA_ATTEND_H

#include "kernel/attend.h"

/* Makes candidate number `choice`; false if there are no more, or the schedule does not apply. */
bool ig_attention_cuda(struct ig_attention *a, int choice);

enum { IG_ATTENTION_LOADS = 3 };

/* An operand in memory: lines with unit stride within. Line i begins at base + place, a function of the free variable
 * `at`: mostly i times a distance; otherwise a table in shared memory lists the places. */
struct ig_attention_source {
    int buffer;
    ig_x base, place, at;
    ig_dim distance; /* IG_DIM_NONE: listed */
};

/* A load that the change of the scores needs, at at_query and at_key, and the register buffer it is prefetched to. */
struct ig_attention_load {
    ig_x load;
    int buffer;
};

struct ig_cuda_attention {
    struct ig_attention *a;
    struct ig_loops *k;
    struct ig_cuda_attend *t;
    int element, threads, rows, step; /* bytes per element; threads and queries per block; keys per step */
    ig_x head[INGOT_MAX_RANK], first_query;
    struct ig_attention_source source[3]; /* IG_CUDA_ATTEND_QUERIES, … */
    int tables;                           /* shared-memory buffer */
    ig_x at_query, at_key, slot;          /* free variables of `rest` */
    ig_x rest;                            /* the changed score, without the mask beyond the diagonal */
    bool diagonal;                        /* a query sees keys up to its own index + offset */
    ig_dim offset;
    ig_x part;                /* of the keys: index of this block among `split` */
    ig_x seen;                /* keys that the tile's queries see */
    ig_x scale;               /* factor for the scores that the template applies */
    int scores, sums, state;  /* register buffers */
    int tile, maxima, totals; /* shared-memory buffers */
    struct ig_attention_load early[IG_ATTENTION_LOADS];
    int n_early;
    bool late; /* there are too many loads to prefetch them */
};

/* Fills in the description `t` for a choice; false if there is no such candidate. */
bool ig_cuda_attention_choose(struct ig_cuda_attention *s, int choice);

/* Bytes of shared memory that a block may have. */
int ig_cuda_attention_most_shared(const struct ig_cuda_attention *s);

/* Score registers per thread, rounded up to a power of two so that compilers can simplify the index arithmetic. */
int ig_cuda_attention_places(const struct ig_cuda_attention *s);
/* Analyses the change of the scores: sets `rest`, `diagonal`, `offset` and, from these, `seen` and the order of the
 * tiles. */
void ig_cuda_attention_find_change(struct ig_cuda_attention *s);
/* Emit the loads that the change of a step's scores needs, and the change itself. */
void ig_cuda_attention_load_early(struct ig_cuda_attention *s, struct ig_stmt *body, ig_x step);
void ig_cuda_attention_change_scores(struct ig_cuda_attention *s, struct ig_stmt *body, ig_x step);

#endif
