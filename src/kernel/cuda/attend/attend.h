/*
 * Attention on GPUs, shared by the files of its schedule: attend_choose.c chooses the shape of blocks, attend_scores.c
 * changes the scores, attend.c locates the operands and emits the loops around the template (attend_block.h),
 * attend_turns.c those for many heads of few keys, attend_tables.c loads from packed tables.
 */
#ifndef IG_KERNEL_CUDA_ATTEND_H
#define IG_KERNEL_CUDA_ATTEND_H

#include "kernel/family/attend.h"

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

/* A load that the change of the scores needs, at at_query and at_key, and the register buffer it is prefetched to.
 * Tables that are packed for it (pass/product/pack_tables.h) have four scores of a thread side by side. */
struct ig_attention_load {
    ig_x load;
    int buffer;
    ig_x
        first; /* of a packed table: the place of the first of four scores, at at_query, at_group and at_lane; else IG_NO_X */
};

/* What the change of the scores reads: what is only computed, such as a causal mask, needs no registers. */
enum ig_attention_reads {
    IG_ATTENTION_READS_NOTHING,
    IG_ATTENTION_READS_ROWS,
    IG_ATTENTION_READS_PACKED, /* for a query, too, from packed tables */
    IG_ATTENTION_READS_EACH    /* for a query, one by one */
};

struct ig_cuda_attention {
    struct ig_attention *a;
    struct ig_loops *k;
    struct ig_cuda_attend *t;
    int element, threads, rows, step; /* bytes per element; threads and queries per block; keys per step */
    enum ig_attention_reads reads;    /* by the change of the scores */
    ig_x head[INGOT_MAX_RANK], first_query;
    struct ig_attention_source source[3]; /* IG_CUDA_ATTEND_QUERIES, … */
    int tables;                           /* shared-memory buffer */
    ig_x at_query, at_key, slot;          /* free variables of `rest` */
    ig_x at_group, at_lane;               /* of packed tables: which 16 keys, and the thread among four */
    ig_x rest;                            /* the changed score, without the mask beyond the diagonal */
    bool diagonal;                        /* a query sees keys up to its own index + offset */
    ig_dim offset;
    ig_x part;                /* of the keys: index of this block among `split` */
    ig_x seen;                /* keys that the tile's queries see */
    ig_x end;                 /* the end of this block's keys */
    ig_x scale;               /* factor for the scores that the template applies */
    int scores, sums, state;  /* register buffers */
    int tile, maxima, totals; /* shared-memory buffers */
    struct ig_attention_load early[IG_ATTENTION_LOADS];
    int n_early;
    bool late; /* there are too many loads to prefetch them */

    /* Heads in turn: the dims of a head's index as the masks see it, in which dims a block's heads differ, and the
     * changed score as score * factor + addend, where the addend is the same for all heads of a block. */
    struct ig_type grid;
    bool turning[INGOT_MAX_RANK];
    ig_x factor, addend; /* IG_NO_X: 1, 0 */
    int addends;         /* register buffer */
};

/* An element of the scores: its register, query and key, and the register of what is added to it if the table is packed. */
struct ig_attention_element {
    ig_x slot, query, key, packed_slot;
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
/* Finds out, before the heads are known, what that change reads. */
enum ig_attention_reads ig_cuda_attention_change_reads(struct ig_cuda_attention *s);
/* Loops over all scores of a step, of all threads, which begins with a key. */
struct ig_stmt *ig_cuda_attention_each_score(struct ig_cuda_attention *s, struct ig_stmt *body, ig_x first_key,
                                             struct ig_attention_element *out_element);
/* The element or, beyond the last query or key, that of the last one. */
struct ig_attention_element ig_cuda_attention_clamped(struct ig_cuda_attention *s,
                                                      const struct ig_attention_element *element);
/* The query that a thread's row of scores belongs to; perhaps beyond the last one. */
ig_x ig_cuda_attention_query_of(struct ig_cuda_attention *s, ig_x thread, ig_x row);
/* Emit the loads that the change of a step's scores needs, but for those from packed tables, and the change itself. */
void ig_cuda_attention_load_early(struct ig_cuda_attention *s, struct ig_stmt *body, ig_x first_key);
void ig_cuda_attention_change_scores(struct ig_cuda_attention *s, struct ig_stmt *body, ig_x first_key);

/* Packed tables (attend_tables.c): does a load, at the free variable `key`, read one? Find those among the early loads; are there any?
 * Emit the loads of a step. */
bool ig_cuda_attention_is_packed(struct ig_cuda_attention *s, ig_x load, ig_x key);
void ig_cuda_attention_find_packed(struct ig_cuda_attention *s);
bool ig_cuda_attention_has_packed(const struct ig_cuda_attention *s);
void ig_cuda_attention_load_packed(struct ig_cuda_attention *s, struct ig_stmt *body, ig_x first_key);

/* Parts of the schedule (attend.c): locate the operands at s->head, false if they lie otherwise; make the buffers; list
 * the places of lines; the address of an operand from line `first` on and the distance of its lines or, if they are
 * listed, the first one's number; leave all parts of a tile's results in shared memory; store the results. */
bool ig_cuda_attention_find_sources(struct ig_cuda_attention *s);
void ig_cuda_attention_make_buffers(struct ig_cuda_attention *s);
void ig_cuda_attention_write_tables(struct ig_cuda_attention *s, struct ig_stmt *body);
void ig_cuda_attention_locate(struct ig_cuda_attention *s, int which, ig_x first, struct ig_call_arg out[2]);
void ig_cuda_attention_finish(struct ig_cuda_attention *s, struct ig_stmt *body);
void ig_cuda_attention_store_results(struct ig_cuda_attention *s, struct ig_stmt *body);

/* Heads in turn (attend_turns.c): can a block do several? Sets grid, turning, factor and addend, for heads that are free
 * variables. */
bool ig_cuda_attention_can_turn(struct ig_cuda_attention *s);
bool ig_cuda_attention_in_turns(struct ig_cuda_attention *s);

#endif
