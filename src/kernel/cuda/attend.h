/*
 * Attention on GPUs between the files of its schedule: attend_choose.c decides how, attend_scores.c changes the scores,
 * attend.c finds the operands and makes the loops around the template (attend_block.h).
 */
#ifndef IG_KERNEL_CUDA_ATTEND_H
#define IG_KERNEL_CUDA_ATTEND_H

#include "kernel/attend.h"

/* Makes candidate number `choice`; false where there are no more, or it does not apply. */
bool ig_attention_cuda(struct ig_attention *a, int choice);

enum { IG_ATTENTION_LOADS = 3 };

/* Where the lines of an operand are: `line` elements apart, with unit stride within. */
struct ig_attention_source {
    int buffer;
    ig_x base;
    ig_dim line;
};

/* A load that the change of the scores needs, and the registers that it goes to. */
struct ig_attention_load {
    ig_x load;
    int buffer;
};

struct ig_cuda_attention {
    struct ig_attention *a;
    struct ig_loops *k;
    struct ig_cuda_attend *t;
    int element, threads, rows, step; /* bytes; queries and keys of a block's step */
    ig_x head[INGOT_MAX_RANK], first_query;
    struct ig_attention_source q, key, value;
    ig_x at_query, at_key, slot; /* free variables of `rest`, */
    ig_x rest;                   /* what becomes of a score, but for the mask behind the diagonal: */
    bool diagonal;               /* a query sees keys up to its own number + offset */
    ig_dim offset;
    ig_x part;                /* of the keys, among `split` */
    ig_x seen;                /* keys that queries of the tile see */
    ig_x scale;               /* what scores are multiplied by, besides what the loops do */
    int scores, sums, state;  /* registers */
    int tile, maxima, totals; /* shared */
    struct ig_attention_load early[IG_ATTENTION_LOADS];
    int n_early;
};

/* Fills in the description `t`, which follows from the choice; false where there is none. */
bool ig_cuda_attention_choose(struct ig_cuda_attention *s, int choice);

/* Places of a thread for its scores: a power of two, for compilers to see through what follows from it. */
int ig_cuda_attention_places(const struct ig_cuda_attention *s);
/* What becomes of a score: `rest`, `diagonal`, `offset` and, by these, `seen` and the order of the tiles. */
void ig_cuda_attention_find_change(struct ig_cuda_attention *s);
/* Begins the loads that the change of a step's scores needs; changes them. */
void ig_cuda_attention_load_early(struct ig_cuda_attention *s, struct ig_stmt *body, ig_x step);
void ig_cuda_attention_change_scores(struct ig_cuda_attention *s, struct ig_stmt *body, ig_x step);

#endif
