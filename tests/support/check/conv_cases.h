/* What tests of convolutions and products share: convolutions to build, and how lists of cases are checked. */
#ifndef TESTS_CONV_CASES_H
#define TESTS_CONV_CASES_H

#include "support/check/graph_check.h"

struct conv {
    enum ingot_dtype dtype, acc;
    int spatial;
    int64_t batch, size[3], in, out, kernel[3], stride[3], dilation[3], before[3], after[3], groups;
    bool last, bias, residual, relu, prologue, dynamic_weights;
    bool flat;    /* the input is given as one line of positions */
    int winograd; /* m, if filters are transformed for F(m x m, 3 x 3) */
};

#define COUNT(a) (int)(sizeof(a) / sizeof *(a))

/* Lists are checked in these ways: laid out and packed by the passes; the same with NaN and infinities in the inputs (no further
 * compilation); and without these passes. */
enum { ALL_WAYS = 3 };
extern const struct way {
    unsigned flags;
    const char *name;
} ways[ALL_WAYS];

/* `argument`: a struct conv. Its input is "x"; "w" if the weights are one, "r" the residual. */
void build_conv(struct ig_graph *g, const void *argument);

#define F32 .dtype = INGOT_F32, .acc = INGOT_F32
#define F64 .dtype = INGOT_F64, .acc = INGOT_F64
#define PLANE(n, h, w, i, o, k, s, p)                                                                     \
    F32, .spatial = 2, .batch = n, .size = {h, w}, .in = i, .out = o, .kernel = {k, k}, .stride = {s, s}, \
         .dilation = {1, 1}, .before = {p, p}, .after = {p, p}, .groups = 1, .last = true
/* In three dimensions. */
#define VOLUME(n, d, h, w, i, o, k, s, p)                                                                          \
    F32, .spatial = 3, .batch = n, .size = {d, h, w}, .in = i, .out = o, .kernel = {k, k, k}, .stride = {s, s, s}, \
         .dilation = {1, 1, 1}, .before = {p, p, p}, .after = {p, p, p}, .groups = 1, .last = true
/* In groups. */
#define GROUPED(n, h, w, count, i, o, k, s, p)                                                                  \
    F32, .spatial = 2, .batch = n, .size = {h, w}, .in = (count) * (i), .out = (count) * (o), .kernel = {k, k}, \
         .stride = {s, s}, .dilation = {1, 1}, .before = {p, p}, .after = {p, p}, .groups = count, .last = true

#endif
