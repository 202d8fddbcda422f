/*
 * Convolutions with transformed filters on CPUs: what their schedule (contract_winograd.c) and its transforms
 * (winograd_transform.c) share.
 */
#ifndef IG_KERNEL_CPU_WINOGRAD_H
#define IG_KERNEL_CPU_WINOGRAD_H

#include "ir/winograd.h"
#include "kernel/cpu/contract.h"

struct ig_winograd_conv {
    struct ig_contract *c;
    struct ig_loops *k;
    struct ig_columns p;
    struct ig_winograd f;
    int64_t before[2], in_size[2], out_size[2], channels;
    int64_t dilation;
    int64_t tiles[2];         /* along each axis of an image; of its phases in turn */
    int64_t chunk_rows;       /* at most, per chunk: tiles, which are the rows of the matrices */
    int64_t lda;              /* elements per row of transformed inputs */
    int window, inputs, sums; /* buffers */
    int results;              /* of the current panel: t*t matrices of chunk_rows x nr */
    ig_x panel;               /* that is being emitted */
};

static inline int64_t ig_winograd_squares(const struct ig_winograd_conv *s) {
    return (int64_t)s->f.t * s->f.t;
}

/* Transforms the inputs of `rows` tiles from number `start` on: row r of matrix i to element (i * chunk_rows + r) * lda of `inputs`. */
void ig_winograd_inputs(struct ig_winograd_conv *s, struct ig_stmt *body, ig_x start, ig_x rows);
/* Transforms the current panel's results of `rows` tiles from number `start` on, and emits the epilogue. */
void ig_winograd_results(struct ig_winograd_conv *s, struct ig_stmt *body, ig_x start, ig_x rows);

#endif
