/* Matrix products and convolutions with extreme shapes, prologues and epilogues, against the reference. */
#include <stdio.h>

#include "pass/product/winograd.h"
#include "support/check/graph_check.h"
#include "support/support.h"

/* ---- Convolutions ------------------------------------------------------------------------------------------------------ */

struct conv {
    enum ingot_dtype dtype, acc;
    int spatial;
    int64_t batch, size[3], in, out, kernel[3], stride[3], dilation[3], before[3], after[3], groups;
    bool last, bias, residual, relu, prologue, dynamic_weights;
    bool flat;    /* the input is given as one line of positions */
    int winograd; /* m, if filters are transformed for F(m x m, 3 x 3) */
};

static ig_value scalar(struct ig_graph *g, enum ingot_dtype dtype, double value) {
    return ig_build_scalar(g, dtype, value);
}

/* [n, ..., channels], given as [n, positions, channels] */
static ig_value build_flat_input(struct ig_graph *g, const struct ig_type *type) {
    ig_dim lines = ig_dim_const(g->dims, 1);
    for (int i = 1; i + 1 < type->rank; i++)
        lines = ig_dim_mul(g->dims, lines, type->dim[i]);
    struct ig_type flat = ig_type_make(type->dtype, 3, (ig_dim[]){type->dim[0], lines, type->dim[type->rank - 1]});
    return ig_build_reshape(g, ig_build_input(g, "x", &flat), type->dim, type->rank);
}

static void build_conv(struct ig_graph *g, const void *argument) {
    const struct conv *c = argument;
    int64_t sizes[INGOT_MAX_RANK], dims[INGOT_MAX_RANK];
    int rank = c->spatial + 2;
    sizes[0] = c->batch;
    sizes[c->last ? rank - 1 : 1] = c->in;
    for (int i = 0; i < c->spatial; i++)
        sizes[i + (c->last ? 1 : 2)] = c->size[i];
    struct ig_type type = sized_type(g, c->dtype, rank, sizes);
    ig_value x = c->flat ? build_flat_input(g, &type) : ig_build_input(g, "x", &type);
    if (c->prologue) {
        ig_value scale = random_constant(g, c->dtype, 1, &c->in, 7), shift = random_constant(g, c->dtype, 1, &c->in, 8);
        x = ig_map2(g, IG_OP_max, ig_map2(g, IG_OP_add, ig_map2(g, IG_OP_mul, x, scale), shift),
                    scalar(g, c->dtype, 0));
    }
    dims[0] = c->out;
    dims[1] = c->in / c->groups;
    ig_dim before[3], after[3];
    for (int i = 0; i < c->spatial; i++) {
        dims[i + 2] = c->kernel[i];
        before[i] = ig_dim_const(g->dims, c->before[i]);
        after[i] = ig_dim_const(g->dims, c->after[i]);
    }
    struct ig_type weight = sized_type(g, c->dtype, rank, dims);
    ig_value in[3] = {x, IG_NO_VALUE, IG_NO_VALUE};
    in[1] = c->dynamic_weights ? ig_build_input(g, "w", &weight) : random_constant(g, c->dtype, rank, dims, 11);
    if (c->winograd) in[1] = ig_winograd_filters(g, in[1], c->winograd);
    if (c->bias) in[2] = random_constant(g, c->acc, 1, &c->out, 12);
    struct ig_attr attrs[] = {ig_attr_of_ints(c->stride, c->spatial),
                              ig_attr_of_ints(c->dilation, c->spatial),
                              ig_attr_of_dims(before, c->spatial),
                              ig_attr_of_dims(after, c->spatial),
                              ig_attr_of_int(c->groups),
                              ig_attr_of_dtype(c->acc),
                              ig_attr_of_int(c->last),
                              ig_attr_of_int(0),
                              ig_attr_of_int(c->out),
                              ig_attr_of_ints(c->kernel, c->spatial),
                              ig_attr_of_int(IG_MATH_EXACT),
                              ig_attr_of_int(0)};
    struct ig_graph *const none[2] = {NULL, NULL};
    ig_value y = ig_build_node(g, IG_OP_conv, in, c->bias ? 3 : 2, 1, attrs, none);
    if (c->residual) {
        struct ig_type out = *ig_type_of(g, y);
        y = ig_map2(g, IG_OP_add, y, ig_build_input(g, "r", &out));
    }
    if (c->relu) y = ig_map2(g, IG_OP_max, y, scalar(g, c->acc, 0));
    ig_build_output(g, "y", y);
}

#define F32 .dtype = INGOT_F32, .acc = INGOT_F32
#define F64 .dtype = INGOT_F64, .acc = INGOT_F64
#define PLANE(n, h, w, i, o, k, s, p)                                                                     \
    F32, .spatial = 2, .batch = n, .size = {h, w}, .in = i, .out = o, .kernel = {k, k}, .stride = {s, s}, \
         .dilation = {1, 1}, .before = {p, p}, .after = {p, p}, .groups = 1, .last = true

static const struct conv convs[] = {
    {PLANE(1, 7, 7, 5, 3, 3, 1, 1), .bias = true, .relu = true},
    {PLANE(1, 14, 15, 33, 65, 3, 1, 1), .bias = true, .residual = true, .relu = true},
    {PLANE(2, 9, 5, 16, 32, 1, 1, 0), .bias = true},
    {PLANE(1, 13, 11, 64, 24, 1, 1, 0), .relu = true, .prologue = true},
    {PLANE(1, 13, 11, 7, 40, 1, 2, 0), .bias = true},
    {PLANE(1, 21, 17, 3, 64, 7, 2, 3), .bias = true, .relu = true},
    {PLANE(3, 6, 6, 4, 9, 3, 3, 2)},
    {PLANE(1, 3, 3, 6, 17, 3, 1, 4), .bias = true}, /* padding larger than the kernel */
    {PLANE(1, 1, 1, 1, 1, 1, 1, 0)},
    {PLANE(1, 1, 1, 20, 1, 1, 1, 0), .bias = true},
    {PLANE(1, 5, 5, 1, 1, 3, 1, 1)},
    {PLANE(1, 4, 4, 600, 70, 3, 1, 1), .bias = true}, /* several steps along the depth */
    {PLANE(2, 5, 7, 128, 24, 3, 1, 1)},               /* steps of whole channels, by taps */
    {PLANE(0, 4, 4, 8, 8, 3, 1, 1)},
    {PLANE(1, 0, 4, 8, 8, 1, 1, 0), .bias = true},
    {PLANE(1, 11, 28, 16, 200, 3, 1, 1), .relu = true},
    {PLANE(-1, 8, -2, 10, 20, 3, 1, 1), .bias = true, .relu = true},
    {PLANE(-1, -2, 14, 10, 20, 3, 1, 1), .bias = true, .relu = true}, /* lines of fixed length, any number of them */
    {PLANE(2, 30, 30, 8, 40, 3, 1, 0), .bias = true},                 /* lines read in place */
    {PLANE(2, 9, 3, 20, 40, 3, 1, 1), .residual = true},              /* several lines per block */
    /* Panels larger than half the second cache. */
    {PLANE(1, 7, 11, 512, 33, 3, 1, 1), .bias = true, .relu = true},
    {PLANE(1, 12, 20, 100, 16, 7, 1, 0), .residual = true},
    {F32, .spatial = 2, .batch = 2, .size = {9, 13}, .in = 72, .out = 23, .kernel = {12, 5}, .stride = {2, 1},
     .dilation = {2, 1}, .before = {14, 2}, .after = {9, 2}, .groups = 1, .last = true, .bias = true},
    {F32, .spatial = 2, .batch = 1, .size = {20, 28}, .in = 6, .out = 10, .kernel = {3, 5}, .stride = {2, 1},
     .dilation = {3, 1}, .before = {2, 0}, .after = {1, 4}, .groups = 1, .last = true, .bias = true},
    {PLANE(-1, -2, -2, 12, 33, 1, 1, 0), .bias = true},
    {F32, .spatial = 2, .batch = 1, .size = {12, 9}, .in = 6, .out = 10, .kernel = {3, 2}, .stride = {2, 1},
     .dilation = {2, 3}, .before = {1, 2}, .after = {0, 3}, .groups = 1, .last = true, .bias = true},
    {F32, .spatial = 2, .batch = 1, .size = {8, 23}, .in = 512, .out = 39, .kernel = {3, 3}, .stride = {1, 1},
     .dilation = {7, 20}, .before = {7, 20}, .after = {7, 20}, .groups = 1, .last = true, .bias = true,
     .relu = true}, /* most taps of a block lie beyond the image */
    {F32, .spatial = 2, .batch = 2, .size = {9, 9}, .in = 12, .out = 20, .kernel = {3, 3}, .stride = {1, 1},
     .dilation = {1, 1}, .before = {1, 1}, .after = {1, 1}, .groups = 4, .last = true, .bias = true, .relu = true},
    {F32, .spatial = 2, .batch = 1, .size = {8, 8}, .in = 64, .out = 128, .kernel = {3, 3}, .stride = {1, 1},
     .dilation = {1, 1}, .before = {1, 1}, .after = {1, 1}, .groups = 2, .last = true},
    {F32, .spatial = 2, .batch = 1, .size = {10, 7}, .in = 6, .out = 12, .kernel = {3, 3}, .stride = {1, 2},
     .dilation = {1, 1}, .before = {1, 1}, .after = {1, 1}, .groups = 1, .last = false, .bias = true, .relu = true},
    {F32, .spatial = 1, .batch = 2, .size = {30}, .in = 5, .out = 18, .kernel = {4}, .stride = {3}, .dilation = {2},
     .before = {3}, .after = {1}, .groups = 1, .last = true, .bias = true},
    {F32, .spatial = 1, .batch = 2, .size = {70}, .in = 16, .out = 24, .kernel = {40}, .stride = {1}, .dilation = {1},
     .before = {20}, .after = {19}, .groups = 2, .bias = true},
    {F32, .spatial = 3, .batch = 1, .size = {4, 5, 6}, .in = 3, .out = 7, .kernel = {2, 3, 2}, .stride = {1, 2, 1},
     .dilation = {1, 1, 2}, .before = {1, 0, 1}, .after = {0, 1, 1}, .groups = 1, .last = true, .bias = true},
    {F32, .spatial = 2, .batch = 1, .size = {6, 6}, .in = 4, .out = 5, .kernel = {3, 3}, .stride = {1, 1},
     .dilation = {1, 1}, .before = {1, 1}, .after = {1, 1}, .groups = 1, .last = true, .dynamic_weights = true},
    {.dtype = INGOT_F64,
     .acc = INGOT_F64,
     .spatial = 2,
     .batch = 1,
     .size = {7, 6},
     .in = 9,
     .out = 21,
     .kernel = {3, 3},
     .stride = {1, 1},
     .dilation = {1, 1},
     .before = {1, 1},
     .after = {1, 1},
     .groups = 1,
     .last = true},
};

/* Depthwise: in = out = groups. */
#define DEEP(n, h, w, c, k, s, d, p)                                                                      \
    F32, .spatial = 2, .batch = n, .size = {h, w}, .in = c, .out = c, .kernel = {k, k}, .stride = {s, s}, \
         .dilation = {d, d}, .before = {p, p}, .after = {p, p}, .groups = c, .last = true

/* As many groups of `each` channels. */
#define SQUARE(n, h, w, groups_, each, k, s, d, p)                                                                     \
    F32, .spatial = 2, .batch = n, .size = {h, w}, .in = (groups_) * (each), .out = (groups_) * (each),                \
         .kernel = {k, k}, .stride = {s, s}, .dilation = {d, d}, .before = {p, p}, .after = {p, p}, .groups = groups_, \
         .last = true

/* Groups of one input and `each` outputs. */
#define SPREAD(n, h, w, groups_, each, k, s, d, p)                                                               \
    F32, .spatial = 2, .batch = n, .size = {h, w}, .in = (groups_), .out = (groups_) * (each), .kernel = {k, k}, \
         .stride = {s, s}, .dilation = {d, d}, .before = {p, p}, .after = {p, p}, .groups = groups_, .last = true

static const struct conv depthwise[] = {
    {DEEP(1, 14, 14, 96, 3, 1, 1, 1), .bias = true, .relu = true},
    {DEEP(2, 15, 13, 24, 5, 2, 1, 2), .bias = true},
    {DEEP(1, 9, 30, 7, 3, 1, 1, 1), .residual = true},
    {DEEP(1, 4, 4, 144, 3, 2, 1, 1), .relu = true},
    {DEEP(1, 11, 12, 40, 3, 1, 3, 3), .bias = true},
    {DEEP(1, 2, 2, 33, 7, 1, 1, 3), .bias = true},   /* every window overlaps the padding */
    {DEEP(1, 3, 5, 17, 3, 3, 2, 6), .bias = true},   /* windows wholly in the padding */
    {DEEP(-1, -2, 5, 24, 7, 2, 1, 3), .bias = true}, /* row by row */
    {DEEP(1, 6, 6, 200, 3, 1, 1, 0)},
    {DEEP(1, 6, 6, 150, 3, 1, 1, 1)},
    {DEEP(-1, -2, -3, 20, 3, 2, 1, 1), .bias = true},
    {F32, .spatial = 1, .batch = 1, .size = {40}, .in = 50, .out = 50, .kernel = {5}, .stride = {1}, .dilation = {1},
     .before = {4}, .after = {0}, .groups = 50, .last = true, .bias = true},
    {F32, .spatial = 1, .batch = 2, .size = {70}, .in = 12, .out = 12, .kernel = {31}, .stride = {1}, .dilation = {2},
     .before = {30}, .after = {30}, .groups = 12, .last = true, .bias = true}, /* a long window */
    {F32, .spatial = 2, .batch = 1, .size = {12, 21}, .in = 8, .out = 8, .kernel = {2, 5}, .stride = {3, 2},
     .dilation = {2, 3}, .before = {0, 7}, .after = {2, 4}, .groups = 8, .last = true, .residual = true},
    {F32, .spatial = 2, .batch = 1, .size = {8, 8}, .in = 6, .out = 18, .kernel = {3, 3}, .stride = {1, 1},
     .dilation = {1, 1}, .before = {1, 1}, .after = {1, 1}, .groups = 6, .last = true}, /* three outputs per group */
    {F32, .spatial = 3, .batch = 1, .size = {4, 4, 5}, .in = 6, .out = 6, .kernel = {3, 3, 3}, .stride = {1, 1, 1},
     .dilation = {1, 1, 1}, .before = {1, 1, 1}, .after = {1, 1, 1}, .groups = 6, .last = true},
    /* Groups of a few channels, several in a vector. */
    {SQUARE(1, 14, 14, 32, 4, 3, 1, 1, 1), .bias = true, .relu = true},
    {SQUARE(2, 15, 13, 12, 8, 3, 2, 1, 1), .bias = true, .residual = true},
    {SQUARE(1, 9, 40, 11, 2, 5, 1, 1, 2), .bias = true}, /* a vector that overlaps the one before */
    {SQUARE(1, 3, 3, 3, 16, 3, 1, 1, 1), .bias = true},
    {SQUARE(1, 1, 1, 8, 4, 3, 1, 1, 1), .bias = true},  /* one output */
    {SQUARE(1, 6, 7, 50, 4, 3, 1, 3, 4), .relu = true}, /* wider borders than windows */
    {SQUARE(1, 3, 5, 8, 4, 3, 3, 2, 6), .bias = true},  /* windows wholly in the padding */
    {SQUARE(1, 6, 20, 4, 4, 1, 2, 1, 0), .bias = true},
    {SQUARE(-1, -2, -3, 8, 4, 3, 2, 1, 1), .bias = true},
    {SQUARE(1, 4, 5, 33, 4, 3, 1, 1, 1), .bias = true}, /* the last channels less than a vector */
    {SQUARE(1, 9, 9, 3, 2, 3, 1, 1, 1), .bias = true},  /* all less than one */
    {F32, .spatial = 1, .batch = 2, .size = {70}, .in = 48, .out = 48, .kernel = {31}, .stride = {1}, .dilation = {2},
     .before = {30}, .after = {30}, .groups = 12, .last = true, .bias = true}, /* a long window */
    {F32, .spatial = 1, .batch = 2, .size = {70}, .in = 48, .out = 48, .kernel = {4}, .stride = {3}, .dilation = {1},
     .before = {0}, .after = {3}, .groups = 24, .last = true, .bias = true},
    {F64, .spatial = 2, .batch = 1, .size = {7, 9}, .in = 12, .out = 12, .kernel = {3, 3}, .stride = {1, 1},
     .dilation = {1, 1}, .before = {1, 1}, .after = {1, 1}, .groups = 12, .last = true},
    /* Channels of which each gives a few. */
    {SPREAD(1, 14, 15, 48, 2, 7, 2, 1, 3), .bias = true, .residual = true},
    {SPREAD(2, 9, 13, 11, 4, 3, 1, 1, 1), .bias = true, .relu = true}, /* a vector that overlaps the one before */
    {SPREAD(1, 9, 9, 25, 8, 3, 1, 2, 3), .bias = true},
    {SPREAD(1, 6, 20, 15, 16, 5, 1, 1, 2), .bias = true},  /* with AVX2 two vectors of a group, 240 channels */
    {SPREAD(-1, -2, -3, 5, 24, 3, 2, 1, 1), .bias = true}, /* three, or products */
    {SPREAD(1, 3, 3, 70, 2, 3, 3, 2, 6), .bias = true},    /* windows wholly in the padding */
    {F32, .spatial = 1, .batch = 2, .size = {40}, .in = 12, .out = 48, .kernel = {5}, .stride = {1}, .dilation = {2},
     .before = {8}, .after = {0}, .groups = 12, .last = true, .bias = true},
    {F64, .spatial = 2, .batch = 1, .size = {7, 9}, .in = 12, .out = 24, .kernel = {3, 3}, .stride = {1, 1},
     .dilation = {1, 1}, .before = {1, 1}, .after = {1, 1}, .groups = 12, .last = true},
};

/* Filters transformed for F(m x m, 3 x 3), with padding p on all sides. */
#define TRANSFORMED(m, n, h, w, i, o, p) PLANE(n, h, w, i, o, 3, 1, p), .winograd = m

/* The same with dilation d. */
#define DILATED(m, n, h, w, i, o, d, p)                                                                   \
    F32, .spatial = 2, .batch = n, .size = {h, w}, .in = i, .out = o, .kernel = {3, 3}, .stride = {1, 1}, \
         .dilation = {d, d}, .before = {p, p}, .after = {p, p}, .groups = 1, .last = true, .winograd = m

static const struct conv transformed[] = {
    {TRANSFORMED(4, 1, 8, 8, 16, 32, 1), .bias = true, .relu = true}, /* whole tiles */
    {TRANSFORMED(2, 1, 8, 8, 16, 32, 1), .bias = true, .relu = true},
    {TRANSFORMED(4, 1, 1, 1, 1, 1, 1)}, /* one output of one tile */
    {TRANSFORMED(2, 1, 1, 1, 1, 1, 1)},
    {TRANSFORMED(4, 1, 3, 3, 5, 7, 0), .bias = true},
    {TRANSFORMED(4, 2, 13, 6, 33, 65, 1), .bias = true, .residual = true, .relu = true},
    {TRANSFORMED(2, 2, 13, 6, 33, 65, 1), .bias = true, .residual = true, .relu = true},
    {TRANSFORMED(4, 1, 14, 15, 20, 40, 0), .residual = true}, /* no zeros around the image */
    {TRANSFORMED(2, 3, 3, 4, 6, 17, 4), .bias = true},        /* tiles wholly in the padding */
    {TRANSFORMED(4, 1, 3, 4, 6, 17, 7), .bias = true},
    {TRANSFORMED(4, 3, 7, 7, 600, 70, 1), .bias = true}, /* more than the second cache holds */
    {TRANSFORMED(2, 1, 7, 7, 600, 70, 1), .bias = true},
    {TRANSFORMED(4, 1, 60, 29, 8, 200, 1), .relu = true}, /* many tiles */
    {TRANSFORMED(4, -1, 10, 9, 24, 48, 1), .bias = true, .residual = true},
    {TRANSFORMED(2, -1, 5, 9, 24, 48, 1), .bias = true},
    {TRANSFORMED(4, 0, 8, 8, 8, 8, 1)},
    {F32, .spatial = 2, .batch = 1, .size = {9, 10}, .in = 6, .out = 10, .kernel = {3, 3}, .stride = {1, 1},
     .dilation = {1, 1}, .before = {2, 0}, .after = {0, 3}, .groups = 1, .last = true, .bias = true, .winograd = 4},
    {DILATED(4, 1, 16, 16, 20, 40, 2, 2), .bias = true, .relu = true},
    {DILATED(2, 2, 7, 9, 33, 65, 3, 3), .bias = true, .residual = true},
    {DILATED(4, 1, 11, 26, 6, 17, 4, 0), .bias = true},
    {DILATED(2, 1, 3, 2, 5, 7, 5, 5), .relu = true}, /* most phases have no position */
};
static const struct conv recovered[] = {
    {TRANSFORMED(4, -1, -2, 9, 6, 33, 1), .bias = true}, /* any number of lines */
    {TRANSFORMED(2, 1, 8, -3, 5, 7, 1), .relu = true},
    {TRANSFORMED(4, 2, 9, 10, 12, 20, 1), .bias = true, .residual = true},
    {DILATED(4, 1, 9, -2, 12, 20, 2, 2), .bias = true},
};

#define COUNT(a) (int)(sizeof(a) / sizeof *(a))

/* Every list is checked three times: laid out and packed by the passes; the same with NaN and infinities in the inputs
 * (no further compilation); and without these passes. */
static const struct {
    unsigned flags;
    const char *name;
} ways[] = {{0, ""}, {GRAPH_POISON, ", poisoned"}, {GRAPH_RAW, ", as it comes"}};
enum { MOST = 128 };
static struct graph_case cases[MOST];
static char names[MOST][64];

/* Fills cases[] with the list in each of `n` ways from number `first` on. Returns how many there are. */
static int make_convs(const struct conv *list, int count, int first, int n) {
    assert_true(n * count <= MOST);
    for (int i = 0; i < n * count; i++) {
        const struct conv *c = &list[i % count];
        int way = first + i / count;
        snprintf(names[i], sizeof names[i], "convolution %d%s", i % count, ways[way].name);
        double tolerance = c->dtype == INGOT_F64 ? 1e-14 : c->winograd ? 4e-6 : 2e-6;
        cases[i] = (struct graph_case){names[i], build_conv, c, tolerance, ways[way].flags, {2, 9, 13, 0}};
    }
    return n * count;
}

static void check_convs(const struct conv *list, int count) {
    check_graphs(cases, make_convs(list, count, 0, COUNT(ways)));
}

static void test_convolutions(void **state) {
    (void)state;
    check_convs(convs, COUNT(convs));
}

static void test_depthwise(void **state) {
    (void)state;
    check_convs(depthwise, COUNT(depthwise));
}

/* On GPUs also in fp16, and by either schedule. */
static void test_depthwise_narrow(void **state) {
    (void)state;
    enum { CHOICES = 2 };
    int count = 0;
    for (int i = 0; i < COUNT(depthwise) * CHOICES; i++) {
        const struct conv *c = &depthwise[i / CHOICES];
        unsigned flags = GRAPH_FP16 + (unsigned)(i % CHOICES) * GRAPH_CHOICE;
        if (c->dtype != INGOT_F32) continue;
        snprintf(names[count], sizeof names[count], "depthwise %d in fp16, choice %d", i / CHOICES, i % CHOICES);
        cases[count] = (struct graph_case){names[count], build_conv, c, 3e-3, flags, {2, 9, 13, 0}};
        count++;
    }
    check_graphs_for_cuda(cases, count);
}

/* Kernels that compute with transformed filters spread NaN as the reference does. Plain ones, on GPUs and where sizes are
 * not known, do not: they recover the filters. */
static void test_transformed(void **state) {
    (void)state;
    check_graphs_for_cpu(cases, make_convs(transformed, COUNT(transformed), 0, 2));
}

static void test_recovered(void **state) {
    (void)state;
    check_graphs(cases, make_convs(recovered, COUNT(recovered), 0, 1));
    check_graphs(cases, make_convs(recovered, COUNT(recovered), 2, 1));
}

/* Three spatial axes: windows by the GPU template's copies. */
#define VOLUME(n, d, h, w, i, o, k, s, p)                                                                          \
    F32, .spatial = 3, .batch = n, .size = {d, h, w}, .in = i, .out = o, .kernel = {k, k, k}, .stride = {s, s, s}, \
         .dilation = {1, 1, 1}, .before = {p, p, p}, .after = {p, p, p}, .groups = 1, .last = true

static const struct conv volumes[] = {
    {VOLUME(2, 5, 6, 7, 16, 40, 3, 1, 1), .bias = true, .relu = true},
    {VOLUME(1, 3, 5, 4, 128, 24, 3, 2, 1), .bias = true, .residual = true}, /* steps of whole channels, by taps */
    {VOLUME(-1, 4, -2, 5, 8, 33, 3, 1, 1), .bias = true},
    {VOLUME(1, -2, 3, 3, 6, 17, 2, 1, 3)}, /* windows wholly in the padding */
    {VOLUME(0, 4, 4, 4, 8, 8, 3, 1, 1)},
    {VOLUME(1, 1, 1, 1, 1, 1, 1, 1, 0)},
    {VOLUME(2, 4, 5, 6, 12, 20, 1, 1, 0), .bias = true},
    {VOLUME(2, 5, 5, 5, 12, 20, 1, 2, 0), .bias = true},
    /* One plane of taps, with planes of padding; one column of them. */
    {F32, .spatial = 3, .batch = 2, .size = {3, 9, 8}, .in = 16, .out = 24, .kernel = {1, 3, 3}, .stride = {1, 2, 1},
     .dilation = {1, 1, 1}, .before = {1, 1, 1}, .after = {2, 1, 1}, .groups = 1, .last = true, .bias = true},
    {F32, .spatial = 3, .batch = 2, .size = {9, 4, 5}, .in = 16, .out = 24, .kernel = {3, 1, 1}, .stride = {1, 1, 1},
     .dilation = {2, 1, 1}, .before = {2, 0, 0}, .after = {2, 0, 0}, .groups = 1, .last = true, .bias = true},
    /* A film's first convolution; one with pairs of columns that begin at an odd one. */
    {F32, .spatial = 3, .batch = 2, .size = {4, 13, 18}, .in = 3, .out = 40, .kernel = {3, 7, 7}, .stride = {1, 2, 2},
     .dilation = {1, 1, 1}, .before = {1, 3, 3}, .after = {1, 3, 3}, .groups = 1, .last = false, .bias = true},
    {F32, .spatial = 3, .batch = 1, .size = {5, 7, 11}, .in = 4, .out = 9, .kernel = {2, 3, 5}, .stride = {2, 1, 2},
     .dilation = {1, 1, 1}, .before = {0, 1, 1}, .after = {1, 1, 2}, .groups = 1, .last = true},
    {F32, .spatial = 3, .batch = 2, .size = {4, 8, 12}, .in = 3, .out = 24, .kernel = {2, 4, 4}, .stride = {2, 4, 4},
     .dilation = {1, 1, 1}, .before = {0, 0, 0}, .after = {0, 0, 0}, .groups = 1, .last = false, .bias = true},
    {F32, .spatial = 3, .batch = 1, .size = {6, 7, 8}, .in = 32, .out = 48, .kernel = {3, 3, 3}, .stride = {1, 1, 1},
     .dilation = {1, 1, 1}, .before = {1, 1, 1}, .after = {1, 1, 1}, .groups = 4, .last = true, .relu = true},
    {F32, .spatial = 3, .batch = 1, .size = {3, 4, 4}, .in = 8, .out = 8, .kernel = {21, 3, 9}, .stride = {1, 1, 1},
     .dilation = {1, 1, 1}, .before = {10, 1, 4}, .after = {10, 1, 4}, .groups = 1, .last = true}, /* too many taps */
};

/* In f32, also with NaN and infinities, and in fp16 (where infinities under the zero weights of a picture count). */
static void test_volumes(void **state) {
    (void)state;
    enum { WAYS = 3 };
    static const unsigned flags[WAYS] = {0, GRAPH_POISON, GRAPH_FP16};
    static const char *const of[WAYS] = {"", ", poisoned", ", fp16"};
    for (int i = 0; i < COUNT(volumes) * WAYS; i++) {
        int way = i / COUNT(volumes), at = i % COUNT(volumes);
        snprintf(names[i], sizeof names[i], "volume %d%s", at, of[way]);
        cases[i] =
            (struct graph_case){names[i], build_conv, &volumes[at], way == 2 ? 3e-3 : 2e-6, flags[way], {2, 5, 0, 0}};
    }
    check_graphs_for_cuda(cases, COUNT(volumes) * WAYS);
}

/* Narrow groups, which become fewer on tensor cores. */
#define GROUPED(n, h, w, count, i, o, k, s, p)                                                                  \
    F32, .spatial = 2, .batch = n, .size = {h, w}, .in = (count) * (i), .out = (count) * (o), .kernel = {k, k}, \
         .stride = {s, s}, .dilation = {1, 1}, .before = {p, p}, .after = {p, p}, .groups = count, .last = true

static const struct conv grouped[] = {
    {GROUPED(2, 9, 8, 32, 4, 4, 3, 1, 1), .bias = true, .relu = true},
    {GROUPED(1, 7, 5, 16, 8, 8, 3, 2, 1), .residual = true},
    {GROUPED(1, 7, 5, 6, 16, 16, 3, 1, 1), .bias = true},
    {GROUPED(1, 7, 5, 3, 24, 24, 3, 1, 1), .bias = true},
    {GROUPED(1, 7, 5, 7, 3, 5, 3, 1, 1), .bias = true},
    {GROUPED(1, 7, 5, 2, 1, 1, 3, 1, 1)}, /* depthwise */
    {GROUPED(1, 7, 5, 12, 1, 3, 3, 1, 1)},
    {GROUPED(1, 7, 5, 12, 3, 1, 3, 1, 1)},
    {GROUPED(-1, -2, 5, 8, 10, 6, 1, 1, 0), .bias = true},
    {GROUPED(0, 4, 4, 8, 4, 4, 3, 1, 1)},
    {F32, .spatial = 1, .batch = 2, .size = {30}, .in = 24, .out = 48, .kernel = {5}, .stride = {1}, .dilation = {2},
     .before = {4}, .after = {4}, .groups = 6, .last = true, .bias = true},
    {F32, .spatial = 3, .batch = 1, .size = {3, 4, 5}, .in = 32, .out = 32, .kernel = {3, 3, 3}, .stride = {1, 1, 1},
     .dilation = {1, 1, 1}, .before = {1, 1, 1}, .after = {1, 1, 1}, .groups = 8, .last = true, .relu = true},
};

static void test_grouped(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(grouped); i++) {
        snprintf(names[i], sizeof names[i], "groups %d", i);
        cases[i] = (struct graph_case){names[i], build_conv, &grouped[i], 3e-3, GRAPH_FP16, {2, 5, 0, 0}};
    }
    check_graphs_for_cuda(cases, COUNT(grouped));
}

/* Operands that lie in memory in another shape. */
static const struct conv flat[] = {
    {PLANE(2, 9, 5, 64, 40, 3, 1, 1), .bias = true, .flat = true},
    {PLANE(-1, 9, 6, 16, 64, 3, 2, 1), .flat = true},
    {PLANE(2, 7, 5, 24, 40, 1, 1, 0), .bias = true, .flat = true},
    {DEEP(2, 7, 9, 24, 3, 1, 1, 1), .bias = true, .flat = true},
    {GROUPED(1, 9, 8, 32, 4, 4, 3, 1, 1), .bias = true, .flat = true},
};

static void test_flat(void **state) {
    (void)state;
    static const unsigned flags[] = {0, GRAPH_FP16, GRAPH_FP16 + GRAPH_CHOICE};
    for (int i = 0; i < COUNT(flat) * COUNT(flags); i++) {
        unsigned way = flags[i % COUNT(flags)];
        snprintf(names[i], sizeof names[i], "flat %d in way %d", i / COUNT(flags), i % COUNT(flags));
        cases[i] =
            (struct graph_case){names[i], build_conv, &flat[i / COUNT(flags)], way ? 3e-3 : 2e-6, way, {2, 9, 0, 0}};
    }
    check_graphs_for_cuda(cases, COUNT(flat) * COUNT(flags));
}

/* By patches of the image in shared memory: tiles of several shapes, weights along the depth and across it. */
#define NARROW(n, h, w, i, o, kh, kw, sh, sw, p)                                                              \
    F32, .spatial = 2, .batch = n, .size = {h, w}, .in = i, .out = o, .kernel = {kh, kw}, .stride = {sh, sw}, \
         .dilation = {1, 1}, .before = {p, p}, .after = {p, p}, .groups = 1, .last = true

static const struct conv patches[] = {
    {NARROW(2, 21, 19, 24, 24, 3, 3, 1, 1, 1), .bias = true, .residual = true, .relu = true}, /* an odd chunk */
    {NARROW(1, 18, 35, 64, 3, 3, 3, 1, 1, 1)},
    {NARROW(1, 17, 16, 32, 32, 3, 3, 1, 1, 1), .bias = true}, /* weights along the depth */
    {NARROW(2, 9, 33, 24, 200, 3, 3, 2, 2, 1), .bias = true}, /* blocks of columns */
    {NARROW(1, 23, 18, 3, 40, 7, 7, 2, 2, 3), .bias = true, .relu = true},
    {NARROW(1, 11, 12, 3, 64, 3, 3, 1, 1, 1), .relu = true},
    {NARROW(1, 9, 10, 5, 7, 3, 3, 1, 1, 1), .bias = true}, /* channels of any number */
    {NARROW(1, 10, 9, 12, 17, 2, 5, 3, 3, 2)},
    {NARROW(-1, -2, -3, 16, 9, 3, 3, 1, 1, 1), .bias = true},
    {NARROW(2, 7, 9, 40, 6, 1, 1, 1, 1, 0), .bias = true},
    {NARROW(1, 1, 1, 8, 1, 3, 3, 1, 1, 4)}, /* windows wholly in the padding */
    {NARROW(0, 4, 4, 8, 8, 3, 3, 1, 1, 1)},
    {F32, .spatial = 2, .batch = 1, .size = {13, 22}, .in = 16, .out = 10, .kernel = {3, 2}, .stride = {2, 1},
     .dilation = {2, 3}, .before = {1, 2}, .after = {0, 3}, .groups = 1, .last = true, .bias = true},
    {F32, .spatial = 1, .batch = 2, .size = {150}, .in = 16, .out = 18, .kernel = {4}, .stride = {3}, .dilation = {2},
     .before = {3}, .after = {1}, .groups = 1, .last = true, .bias = true},
    {F32, .spatial = 3, .batch = 2, .size = {4, 9, 8}, .in = 16, .out = 24, .kernel = {3, 1, 3}, .stride = {1, 2, 1},
     .dilation = {1, 1, 1}, .before = {1, 0, 1}, .after = {2, 0, 1}, .groups = 1, .last = true, .bias = true},
    {GROUPED(2, 9, 12, 3, 16, 24, 3, 1, 1), .bias = true},
    {GROUPED(1, 9, 12, 2, 24, 100, 3, 1, 1), .relu = true},
};

static void test_patches(void **state) {
    (void)state;
    enum { CHOICES = 3 };
    static const unsigned flags[CHOICES] = {GRAPH_FP16, GRAPH_FP16 + GRAPH_POISON, GRAPH_BF16};
    for (int i = 0; i < COUNT(patches) * CHOICES; i++) {
        const struct conv *c = &patches[i / CHOICES];
        bool zeros =
            c->in < 8 || c->groups > 1; /* infinities under the zero weights of pictures and joined groups count */
        unsigned way = i % CHOICES == 1 && zeros ? GRAPH_FP16 : flags[i % CHOICES];
        snprintf(names[i], sizeof names[i], "patch %d, choice %d", i / CHOICES, i % CHOICES);
        cases[i] = (struct graph_case){names[i],
                                       build_conv,
                                       c,
                                       way & GRAPH_BF16 ? 3e-2 : 3e-3,
                                       way + GRAPH_PATCH + (unsigned)(i % CHOICES) * GRAPH_CHOICE,
                                       {2, 13, 18, 0}};
    }
    check_graphs_for_cuda(cases, COUNT(patches) * CHOICES);
}

/* ---- Matrix products --------------------------------------------------------------------------------------------------- */

struct product {
    enum ingot_dtype a_dtype, b_dtype, acc;
    int a_rank, b_rank;
    int64_t a[4], b[4];
    bool constant;   /* b */
    bool transposed; /* b is given as [..., n, k] */
    bool bias, gelu, prologue;
    bool rounded; /* the result is stored in f16 */
    /* Not 0: a is given as [batch, heads, rows, each], and transposed and reshaped to [batch, rows, heads * each]. */
    int heads;
    /* With heads: a is reshaped to [batch, heads * each, rows] first, then transposed. Without: a is given as [k,
     * m]. */
    bool turned;
};

static void build_product(struct ig_graph *g, const void *argument) {
    const struct product *p = argument;
    struct ig_type a_type = sized_type(g, p->a_dtype, p->a_rank, p->a),
                   b_type = sized_type(g, p->b_dtype, p->b_rank, p->b);
    ig_value a = ig_build_input(g, "a", &a_type);
    ig_value b = p->constant ? random_constant(g, p->b_dtype, p->b_rank, p->b, 3) : ig_build_input(g, "b", &b_type);
    if (p->heads && p->turned) { /* the same, by way of [batch, heads, each, rows] and [batch, heads * each, rows] */
        ig_dim dims[3] = {a_type.dim[0], ig_dim_mul(g->dims, a_type.dim[1], a_type.dim[3]), a_type.dim[2]};
        a = ig_build_reshape(g, ig_build_transpose(g, a, (const int64_t[]){0, 1, 3, 2}), dims, 3);
        a = ig_build_transpose(g, a, (const int64_t[]){0, 2, 1});
    } else if (p->turned) {
        a = ig_build_transpose(g, a, (const int64_t[]){1, 0});
    } else if (p->heads) { /* [batch, heads, rows, each] -> [batch, rows, heads * each] */
        ig_dim dims[3] = {a_type.dim[0], a_type.dim[2], ig_dim_mul(g->dims, a_type.dim[1], a_type.dim[3])};
        a = ig_build_reshape(g, ig_build_transpose(g, a, (const int64_t[]){0, 2, 1, 3}), dims, 3);
    }
    if (p->prologue) a = ig_map2(g, IG_OP_mul, ig_map2(g, IG_OP_add, a, scalar(g, p->a_dtype, 0.5)), a);
    if (p->transposed) {
        int64_t perm[4] = {0, 1, 2, 3};
        perm[p->b_rank - 1] = p->b_rank - 2;
        perm[p->b_rank - 2] = p->b_rank - 1;
        b = ig_build_transpose(g, b, perm);
    }
    ig_value y = ig_build_matmul(g, a, b, p->acc);
    const struct ig_type *type = ig_type_of(g, y);
    int64_t columns = p->transposed ? p->b[p->b_rank - 2] : p->b[p->b_rank - 1];
    if (p->bias) y = ig_map2(g, IG_OP_add, y, random_constant(g, type->dtype, 1, &columns, 5));
    if (p->gelu) {
        ig_value e = ig_map1(g, IG_OP_erf, ig_map2(g, IG_OP_mul, y, scalar(g, p->acc, 0.70710678)));
        y = ig_map2(g, IG_OP_mul, ig_map2(g, IG_OP_mul, y, scalar(g, p->acc, 0.5)),
                    ig_map2(g, IG_OP_add, e, scalar(g, p->acc, 1)));
    }
    ig_build_output(g, "y", p->rounded ? ig_build_cast(g, y, INGOT_F16) : y);
}

#define FLOATS .a_dtype = INGOT_F32, .b_dtype = INGOT_F32, .acc = INGOT_F32
static const struct product products[] = {
    {FLOATS, 2, 2, {1, 1}, {1, 1}, .constant = true},
    {FLOATS, 2, 2, {1, 300}, {300, 77}, .constant = true, .bias = true},
    {FLOATS, 2, 2, {128, 96}, {96, 100}, .constant = true, .bias = true, .gelu = true},
    {FLOATS, 2, 2, {49, 1024}, {1024, 64}, .constant = true, .bias = true}, /* rows that share cache sets: copied */
    {FLOATS, 2, 2, {37, 700}, {700, 513}, .constant = true},
    {FLOATS, 2, 2, {5, 1}, {1, 40}, .constant = true},
    {FLOATS, 2, 2, {3, 0}, {0, 8}, .constant = false, .bias = true},
    {FLOATS, 2, 2, {0, 4}, {4, 8}, .constant = true},
    {FLOATS, 3, 2, {2, 19, 64}, {64, 48}, .constant = true, .bias = true},
    {FLOATS, 3, 2, {-1, -2, 40}, {40, 24}, .constant = true, .bias = true, .gelu = true},
    {FLOATS, 3, 2, {-1, -2, 40}, {40, 24}, .constant = true, .prologue = true},
    {FLOATS, 2, 2, {9, 5}, {5, 33}, .constant = false},
    {FLOATS, 2, 2, {9, 50}, {33, 50}, .constant = false, .transposed = true, .bias = true},
    {FLOATS, 4, 4, {2, 3, 17, 20}, {2, 3, 20, 17}},
    {FLOATS, 4, 4, {2, 3, 17, 20}, {2, 3, 35, 20}, .transposed = true},
    {FLOATS, 4, 4, {2, 3, -2, 20}, {2, 3, -3, 20}, .transposed = true},
    {FLOATS, 4, 4, {-1, 3, -2, -3}, {-1, 3, -3, 20}},
    /* Several tiles along all axes, of which one is symbolic, or two. */
    {FLOATS, 4, 4, {-1, 3, 70, 20}, {-1, 3, 20, 150}},
    {FLOATS, 4, 4, {2, 3, -2, 20}, {2, 3, 20, 150}},
    {FLOATS, 4, 4, {-1, 3, -2, 20}, {-1, 3, 20, 150}},
    {FLOATS, 4, 4, {2, 1, 4, 8}, {1, 3, 8, 5}},
    {FLOATS, 2, 3, {4, 8}, {3, 8, 5}},
    {FLOATS, 4, 2, {2, 4, 10, 16}, {64, 70}, .constant = true, .heads = 4, .bias = true},
    {FLOATS, 4, 2, {-1, 4, -2, 16}, {64, 70}, .constant = true, .heads = 4, .bias = true},
    {FLOATS, 4, 2, {2, 4, 10, 16}, {64, 70}, .constant = true, .heads = 4, .turned = true},
    {FLOATS, 4, 2, {-1, 3, 9, 5}, {15, 8}, .constant = true, .heads = 3, .turned = true, .bias = true},
    {FLOATS, 2, 2, {6, 3}, {6, 4}, .turned = true, .bias = true}, /* fewer rows than a tile */
    {FLOATS, 2, 2, {300, 49}, {300, 36}, .turned = true},
    {FLOATS,
     2,
     2,
     {49, 2048},
     {2048, 20},
     .constant = true,
     .bias = true}, /* each share of a tile has a remainder of rows */
    {.a_dtype = INGOT_F64, .b_dtype = INGOT_F64, .acc = INGOT_F64, 2, 2, {23, 31}, {31, 19}, .constant = true},
    {.a_dtype = INGOT_U8, .b_dtype = INGOT_I8, .acc = INGOT_I32, 2, 2, {23, 131}, {131, 39}, .constant = true},
    {.a_dtype = INGOT_I8, .b_dtype = INGOT_I8, .acc = INGOT_I32, 2, 2, {6, 31}, {31, 19}},
    {.a_dtype = INGOT_I64, .b_dtype = INGOT_I64, .acc = INGOT_I64, 2, 2, {6, 31}, {31, 19}},
    {.a_dtype = INGOT_U32, .b_dtype = INGOT_U32, .acc = INGOT_U32, 2, 2, {6, 31}, {31, 19}, .constant = true},
    {.a_dtype = INGOT_F16, .b_dtype = INGOT_F16, .acc = INGOT_F32, 2, 2, {15, 64}, {64, 40}, .constant = true},
    {.a_dtype = INGOT_BF16, .b_dtype = INGOT_BF16, .acc = INGOT_BF16, 2, 2, {15, 64}, {64, 40}, .constant = true},
    {.a_dtype = INGOT_F16, .b_dtype = INGOT_F16, .acc = INGOT_F16, 2, 2, {15, 64}, {64, 40}},
};

static double tolerance_of(const struct product *p) {
    switch (p->acc) {
    case INGOT_F32: return 3e-6;
    case INGOT_F64: return 1e-14;
    case INGOT_F16: return 1e-3;
    case INGOT_BF16: return 8e-3;
    default: return 0;
    }
}

static void test_products(void **state) {
    (void)state;
    const int count = COUNT(products);
    assert_true(COUNT(ways) * count <= MOST);
    for (int i = 0; i < COUNT(ways) * count; i++) {
        const struct product *p = &products[i % count];
        snprintf(names[i], sizeof names[i], "product %d%s", i % count, ways[i / count].name);
        cases[i] =
            (struct graph_case){names[i], build_product, p, tolerance_of(p), ways[i / count].flags, {3, 29, 18, 0}};
    }
    check_graphs(cases, COUNT(ways) * count);
}

/* [s0 + 1, rows, 7] by [7, 33], the first two axes merged: the number of rows is a symbolic multiple of `rows`. */
static void build_multiple(struct ig_graph *g, const void *argument) {
    const int64_t *rows = argument, sizes[] = {-1, *rows, 7}, weights[] = {7, 33};
    struct ig_type type = sized_type(g, INGOT_F32, 3, sizes);
    ig_dim zero = ig_dim_const(g->dims, 0), one = ig_dim_const(g->dims, 1);
    ig_dim before[] = {zero, zero, zero}, after[] = {one, zero, zero};
    ig_value x = ig_build_pad(g, ig_build_input(g, "x", &type), before, after, IG_PAD_CONSTANT, IG_NO_VALUE);
    const struct ig_type *padded = ig_type_of(g, x);
    ig_dim merged[] = {ig_dim_mul(g->dims, padded->dim[0], padded->dim[1]), padded->dim[2]};
    x = ig_build_reshape(g, x, merged, 2);
    ig_build_output(g, "y", ig_build_matmul(g, x, random_constant(g, INGOT_F32, 2, weights, 5), INGOT_F32));
}

/* Of several matrices, each sample has the one that its number says: counted from the end, or beyond both ends. */
struct chosen {
    enum ingot_dtype dtype;
    int64_t a[3], b[3];                /* [samples, rows, depth] and [matrices, depth, columns] */
    bool constant, transposed, shared; /* shared: one number for all samples */
};

static void build_chosen(struct ig_graph *g, const void *argument) {
    const struct chosen *p = argument;
    struct ig_type a_type = sized_type(g, p->dtype, 3, p->a), b_type = sized_type(g, p->dtype, 3, p->b);
    struct ig_type number = sized_type(g, INGOT_I64, 1, (const int64_t[]){p->shared ? 1 : p->a[0]});
    ig_value a = ig_build_input(g, "a", &a_type);
    ig_value all = p->constant ? random_constant(g, p->dtype, 3, p->b, 3) : ig_build_input(g, "b", &b_type);
    ig_value b = ig_build_gather(g, all, ig_build_input(g, "number", &number), 0);
    if (p->transposed) b = ig_build_transpose(g, b, (const int64_t[]){0, 2, 1});
    ig_value y = ig_build_matmul(g, a, b, p->dtype);
    ig_build_output(g, "y", ig_map2(g, IG_OP_add, y, y));
}

static const struct chosen chosen[] = {
    {INGOT_F32, {3, 19, 64}, {5, 64, 16}, .constant = true},
    {INGOT_F32, {-1, -2, 33}, {4, 33, 7}, .constant = true},
    {INGOT_F32, {-1, 1, 16}, {4, 16, 130}, .constant = true},
    {INGOT_F32, {-1, 70, 1}, {2, 1, 1}, .constant = false},
    {INGOT_F32, {3, 9, 40}, {5, 24, 40}, .constant = true, .transposed = true},
    {INGOT_F32, {0, 9, 8}, {2, 8, 8}, .constant = true},
    {INGOT_F32, {-1, -2, 48}, {3, 48, 40}, .constant = true, .shared = true},
    {INGOT_F16, {-1, -2, 64}, {5, 64, 16}, .constant = true},
    {INGOT_F16, {3, 70, 16}, {5, 16, 72}, .constant = true},
    {INGOT_F64, {3, 9, 5}, {5, 5, 11}, .constant = true},
};

static void test_chosen(void **state) {
    (void)state;
    const int count = COUNT(chosen);
    for (int i = 0; i < COUNT(ways) * count; i++) {
        const struct chosen *p = &chosen[i % count];
        double tolerance = p->dtype == INGOT_F32 ? 3e-6 : p->dtype == INGOT_F16 ? 1e-3 : 1e-14;
        snprintf(names[i], sizeof names[i], "chosen %d%s", i % count, ways[i / count].name);
        cases[i] = (struct graph_case){names[i], build_chosen, p, tolerance, ways[i / count].flags, {3, 29, 18, 0}};
    }
    check_graphs(cases, COUNT(ways) * count);
}

/* Numbers of rows that are multiples of the micro-kernel's block, for each block size of a processor: no remainder. */
static void test_multiples(void **state) {
    (void)state;
    static const int64_t rows[] = {6, 14, 42, 5, 8, 12};
    for (int i = 0; i < COUNT(rows); i++) {
        snprintf(names[i], sizeof names[i], "a multiple of %lld rows", (long long)rows[i]);
        cases[i] = (struct graph_case){names[i], build_multiple, &rows[i], 1e-5, 0, {4}};
    }
    check_graphs(cases, COUNT(rows));
}

/* All GPU candidates for some sizes: with and without warpgroups, with and without split-K; and in TF32. */
static void test_tiles(void **state) {
    (void)state;
    static const struct product sizes[] = {
        {FLOATS, 2, 2, {65, 520}, {520, 136}, .constant = true, .bias = true},
        {FLOATS, 2, 2, {390, 75}, {390, 130}, .constant = true, .turned = true},
    };
    static const unsigned precisions[] = {0, GRAPH_FP16, GRAPH_TF32};
    static const char *const labels[] = {"", ", fp16", ", tf32"};
    enum { CHOICES = 12, WAYS = COUNT(precisions) };
    for (int i = 0; i < COUNT(sizes) * CHOICES * WAYS; i++) {
        int size = i / WAYS / CHOICES, choice = i / WAYS % CHOICES, way = i % WAYS;
        unsigned flags = precisions[way] + (unsigned)choice * GRAPH_CHOICE;
        snprintf(names[i], sizeof names[i], "product %d, tile %d%s", size, choice, labels[way]);
        cases[i] = (struct graph_case){names[i], build_product, &sizes[size], way ? 3e-3 : 1e-5, flags, {0}};
    }
    check_graphs_for_cuda(cases, COUNT(sizes) * CHOICES * WAYS);
}

/* Convolutions and products in TF32, whose weights lie along the depth if it is whole loads: all candidates. */
static void test_tf32(void **state) {
    (void)state;
    static const struct conv windows[] = {
        {PLANE(2, 9, 8, 36, 40, 3, 1, 1), .bias = true, .relu = true},
        {PLANE(-1, 7, -2, 3, 24, 7, 2, 3), .bias = true}, /* a picture */
        {PLANE(2, 9, 5, 16, 33, 1, 1, 0), .residual = true},
        {PLANE(2, 9, 5, 5, 33, 3, 1, 1)}, /* no whole loads */
        {GROUPED(2, 9, 8, 8, 4, 4, 3, 1, 1), .bias = true},
        {GROUPED(2, 9, 8, 3, 1, 1, 3, 1, 1), .bias = true}, /* depthwise */
    };
    enum { CHOICES = 6 };
    for (int i = 0; i < COUNT(windows) * CHOICES; i++) {
        unsigned flags = GRAPH_TF32 + (unsigned)(i % CHOICES) * GRAPH_CHOICE;
        int at = i / CHOICES;
        snprintf(names[i], sizeof names[i], "convolution %d in TF32, tile %d", at, i % CHOICES);
        cases[i] = (struct graph_case){names[i], build_conv, &windows[at], 3e-3, flags, {2, 9, 0, 0}};
    }
    check_graphs_for_cuda(cases, COUNT(windows) * CHOICES);
}

/* Few columns: warp groups swap the operands. A along and across the depth, and windows; in TF32 along only. */
static void test_swapped(void **state) {
    (void)state;
    static const struct product product = {FLOATS, 2, 2, {300, 136}, {136, 40}, .constant = true, .bias = true};
    static const struct product turned = {FLOATS, 2, 2, {200, 296}, {200, 72}, .constant = true, .turned = true};
    static const struct conv conv = {PLANE(2, 9, 20, 20, 36, 3, 1, 1), .bias = true, .relu = true};
    static const struct {
        void (*build)(struct ig_graph *g, const void *argument);
        const void *argument;
        unsigned flags;
    } kinds[] = {{build_product, &product, GRAPH_FP16},
                 {build_product, &turned, GRAPH_FP16},
                 {build_conv, &conv, GRAPH_FP16},
                 {build_conv, &conv, GRAPH_TF32}};
    enum { CHOICES = 5 };
    for (int i = 0; i < COUNT(kinds) * CHOICES; i++) {
        int kind = i / CHOICES, choice = i % CHOICES;
        unsigned flags = kinds[kind].flags + GRAPH_SWAPPED + (unsigned)choice * GRAPH_CHOICE;
        if (choice % 2 && kind < 2) flags += GRAPH_POISON;
        snprintf(names[i], sizeof names[i], "kind %d, tile %d", kind, choice);
        cases[i] = (struct graph_case){names[i], kinds[kind].build, kinds[kind].argument, 3e-3, flags, {0}};
    }
    check_graphs_for_cuda(cases, COUNT(kinds) * CHOICES);
}

/* Windows fetched by TMA, tap by tap: along one to three axes, strided, dilated, wholly in the padding; several images a
 * tile. In fp16, where channels are multiples of 64, and in TF32, where they are of 32. */
static void test_window_producers(void **state) {
    (void)state;
    static const struct conv windows[] = {
        {PLANE(2, 9, 11, 64, 136, 3, 1, 1), .bias = true, .relu = true},
        {PLANE(-1, 7, -2, 128, 72, 3, 2, 1), .residual = true},
        {PLANE(3, 5, 4, 64, 80, 2, 1, 3)},
        {F32, .spatial = 2, .batch = 2, .size = {9, 14}, .in = 64, .out = 72, .kernel = {1, 5}, .stride = {2, 3},
         .dilation = {1, 2}, .before = {0, 5}, .after = {1, 2}, .groups = 1, .last = true, .bias = true},
        {F32, .spatial = 1, .batch = 3, .size = {70}, .in = 64, .out = 72, .kernel = {3}, .stride = {1},
         .dilation = {2}, .before = {2}, .after = {2}, .groups = 1, .last = true, .bias = true},
        {VOLUME(2, 4, 5, 6, 64, 72, 3, 1, 1), .bias = true},
        {F32, .spatial = 3, .batch = 2, .size = {5, 6, 7}, .in = 64, .out = 72, .kernel = {3, 1, 2},
         .stride = {2, 1, 3}, .dilation = {1, 1, 2}, .before = {1, 0, 2}, .after = {1, 0, 1}, .groups = 1, .last = true,
         .relu = true},
        {PLANE(-1, -2, 5, 64, 72, 1, 2, 0), .bias = true},
    };
    enum { CHOICES = 3 };
    for (int i = 0; i < COUNT(windows) * CHOICES; i++) {
        int at = i / CHOICES, choice = i % CHOICES;
        unsigned flags = (choice < 2 ? GRAPH_FP16 : GRAPH_TF32) + GRAPH_MAPS + (unsigned)(4 * choice) * GRAPH_CHOICE;
        if (choice == 1) flags += GRAPH_POISON;
        snprintf(names[i], sizeof names[i], "windows %d, producer %d", at, choice);
        cases[i] = (struct graph_case){names[i], build_conv, &windows[at], 3e-3, flags, {2, 9, 0, 0}};
    }
    check_graphs_for_cuda(cases, COUNT(windows) * CHOICES);
}

/* Tiles fetched by TMA: operands along and across the depth, several tiles per block, edges, NaN. */
static void check_producers(unsigned precision) {
    static const struct product sizes[] = {
        {FLOATS, 2, 2, {300, 136}, {136, 264}, .constant = true, .bias = true, .gelu = true},
        {FLOATS, 2, 2, {-2, 72}, {264, 72}, .transposed = true},
        {FLOATS, 2, 2, {1181, 8}, {8, 136}, .constant = true},
        {FLOATS, 2, 2, {72, 280}, {72, 136}, .turned = true, .bias = true},
        {FLOATS, 2, 2, {140, 72}, {72, 267}, .constant = true, .bias = true}, /* columns one by one */
        {FLOATS, 2, 2, {140, 72}, {72, 270}, .constant = true, .bias = true}, /* two by two */
    };
    /* Tiles in more than one band of 16 rows of tiles, the last one of another height. */
    static const struct product banded = {FLOATS, 2, 2, {-3, 8}, {8, 264}, .constant = true};
    enum { CHOICES = 9, BANDED = 2 };
    for (int i = 0; i < COUNT(sizes) * CHOICES; i++) {
        int size = i / CHOICES;
        unsigned flags = precision + GRAPH_MAPS + (i % 2 ? GRAPH_POISON : 0u) + (unsigned)(i % CHOICES) * GRAPH_CHOICE;
        snprintf(names[i], sizeof names[i], "product %d, producer %d", size, i % CHOICES);
        cases[i] = (struct graph_case){names[i], build_product, &sizes[size], 3e-3, flags, {0, 301}};
    }
    for (int i = 0; i < BANDED; i++) {
        unsigned flags = precision + GRAPH_MAPS + (unsigned)i * GRAPH_CHOICE;
        int at = COUNT(sizes) * CHOICES + i;
        snprintf(names[at], sizeof names[at], "bands, producer %d", i);
        cases[at] = (struct graph_case){names[at], build_product, &banded, 3e-3, flags, {0, 0, 2410}};
    }
    check_graphs_for_cuda(cases, COUNT(sizes) * CHOICES + BANDED);
}

/* Groups that take turns, and columns that stay in shared memory: fewer blocks of columns than the emulator has
 * multiprocessors, and more. The columns of the last are dealt out. */
static void test_kept_columns(void **state) {
    (void)state;
    static const struct product sizes[] = {
        {FLOATS, 2, 2, {-2, 72}, {72, 72}, .constant = true, .bias = true},
        {FLOATS, 2, 2, {300, 136}, {136, 288}, .constant = true, .bias = true, .gelu = true, .rounded = true},
    };
    static const unsigned precisions[] = {GRAPH_FP16, GRAPH_FP16, GRAPH_BF16, GRAPH_TF32};
    enum { CHOICES = 12 };
    int count = 0;
    for (int p = 0; p < COUNT(precisions); p++) {
        for (int choice = p < 2 ? 0 : CHOICES / 2; choice < CHOICES; choice++) {
            unsigned flags =
                precisions[p] + GRAPH_MAPS + (choice % 2 ? GRAPH_POISON : 0u) + (unsigned)choice * GRAPH_CHOICE;
            snprintf(names[count], sizeof names[count], "kept %d, producer %d", p, choice);
            cases[count] =
                (struct graph_case){names[count], build_product, &sizes[p > 0], p == 2 ? 2e-2 : 3e-3, flags, {0, 1181}};
            count++;
        }
    }
    check_graphs_for_cuda(cases, count);
}

static void test_producers(void **state) {
    (void)state;
    check_producers(GRAPH_FP16);
}

static void test_producers_tf32(void **state) {
    (void)state;
    check_producers(GRAPH_TF32);
}

/* Every second candidate of n graphs of few rows, in the first of four precisions; `arguments` of so many bytes each. */
static void check_few_rows(const char *name, void (*build)(struct ig_graph *, const void *), const void *arguments,
                           size_t bytes, int n, int choices, int precisions) {
    static const unsigned flags[] = {GRAPH_FP16, GRAPH_FP16 + GRAPH_POISON, GRAPH_BF16, 0};
    static const double tolerances[] = {3e-3, 3e-3, 2e-2, 1e-5};
    for (int i = 0; i < n * choices; i++) {
        const void *argument = (const char *)arguments + (size_t)(i / choices) * bytes;
        unsigned flag = flags[i % precisions] + (unsigned)(i % choices * 2) * GRAPH_CHOICE;
        snprintf(names[i], sizeof names[i], "%s %d, choice %d", name, i / choices, i % choices * 2);
        cases[i] = (struct graph_case){names[i], build, argument, tolerances[i % precisions], flag, {1, 3, 7, 13}};
    }
    check_graphs_for_cuda(cases, n * choices);
}

/* Few rows, whose weights go from memory to registers: on CUDA cores and on tensor cores, narrow blocks and wide ones,
 * clusters, depths that end within a step, columns that end within a block, fewer rows than the tile has, NaN. */
static void test_direct(void **state) {
    (void)state;
    static const struct product sizes[] = {
        {FLOATS, 2, 2, {-1, 516}, {516, 136}, .constant = true, .bias = true},
        {FLOATS, 2, 2, {-2, 1100}, {1100, 40}, .constant = true},
        {FLOATS, 2, 2, {-3, 264}, {264, 72}, .constant = true, .gelu = true},
        {FLOATS, 2, 2, {-4, 1036}, {1036, 72}, .constant = true, .bias = true},
        {FLOATS, 2, 2, {-3, 516}, {516, 136}, .constant = true},
        {FLOATS, 2, 2, {2, 4}, {4, 8}, .constant = true},
    };
    check_few_rows("few rows", build_product, sizes, sizeof *sizes, COUNT(sizes), 10, 4);
}

/* Few rows by weights that stream through shared memory: on CUDA cores and on tensor cores, columns shorter than a piece and
 * longer than a ring, depths that end within a step, columns that end within a block or a group, fewer columns than warps,
 * fewer rows than the tile has, NaN. */
static void test_stream(void **state) {
    (void)state;
    static const struct product sizes[] = {
        {FLOATS, 2, 2, {1, 520}, {520, 136}, .constant = true, .bias = true},
        {FLOATS, 2, 2, {3, 9224}, {9224, 13}, .constant = true},
        {FLOATS, 2, 2, {1, 264}, {264, 2200}, .constant = true, .gelu = true},
        {FLOATS, 2, 2, {13, 1032}, {1032, 77}, .constant = true, .bias = true},
        {FLOATS, 2, 2, {8, 520}, {520, 136}, .constant = true},
        {FLOATS, 2, 2, {16, 2048}, {2048, 18}, .constant = true},
        {FLOATS, 2, 2, {2, 1000}, {1000, 3}, .constant = true},
        {FLOATS, 3, 2, {5, 1, 776}, {776, 50}, .constant = true},
    };
    check_few_rows("streamed", build_product, sizes, sizeof *sizes, COUNT(sizes), 4, 4);
}

struct twins {
    int64_t rows, depth, columns;
    bool both; /* the second product is a result too */
};

/* What a gate lets through: two products of one operand, which a kernel before them computes. */
static void build_twins(struct ig_graph *g, const void *argument) {
    const struct twins *t = argument;
    struct ig_type type = sized_type(g, INGOT_F32, 3, (const int64_t[]){1, t->rows, t->depth});
    ig_value x = ig_map1(g, IG_OP_neg, ig_build_input(g, "x", &type));
    ig_value gate = random_constant(g, INGOT_F32, 2, (const int64_t[]){t->depth, t->columns}, 1);
    ig_value let = random_constant(g, INGOT_F32, 2, (const int64_t[]){t->depth, t->columns}, 2);
    gate = ig_build_matmul(g, x, gate, INGOT_F32);
    let = ig_build_matmul(g, x, let, INGOT_F32);
    ig_build_output(g, "y", ig_map2(g, IG_OP_mul, ig_map1(g, IG_OP_sigmoid, gate), let));
    if (t->both) ig_build_output(g, "z", let);
}

static void test_twins(void **state) {
    (void)state;
    static const struct twins sizes[] = {
        {1, 1024, 192, false}, {3, 264, 72, true}, {8, 520, 136, false}, {16, 1032, 40, true}, {2, 8, 8, false},
    };
    check_few_rows("twins", build_twins, sizes, sizeof *sizes, COUNT(sizes), 9, 3);
}

/* contract_test [PATTERN]: runs only the tests whose names match. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),         cmocka_unit_test(test_chosen),
        cmocka_unit_test(test_convolutions),     cmocka_unit_test(test_depthwise),
        cmocka_unit_test(test_volumes),          cmocka_unit_test(test_grouped),
        cmocka_unit_test(test_patches),          cmocka_unit_test(test_flat),
        cmocka_unit_test(test_transformed),      cmocka_unit_test(test_recovered),
        cmocka_unit_test(test_multiples),        cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_producers),        cmocka_unit_test(test_tf32),
        cmocka_unit_test(test_swapped),          cmocka_unit_test(test_window_producers),
        cmocka_unit_test(test_producers_tf32),   cmocka_unit_test(test_direct),
        cmocka_unit_test(test_stream),           cmocka_unit_test(test_twins),
        cmocka_unit_test(test_depthwise_narrow), cmocka_unit_test(test_kept_columns),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
