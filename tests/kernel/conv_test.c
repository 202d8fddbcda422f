/* Convolutions with extreme shapes, prologues and epilogues, against the reference. */
#include <stdio.h>

#include "kernel/kernel.h"
#include "support/check/conv_cases.h"
#include "support/check/passes.h"
#include "support/support.h"

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
    {PLANE(2, 9, 7, 60, 100, 3, 1, 1), .bias = true},                 /* the same, panels that are prefetched */
    {PLANE(2, 12, 28, 60, 100, 3, 2, 1), .relu = true},
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
    {DEEP(1, 9, 8, 16, 5, 1, 268435461, 536870922)}, /* taps far beyond what an int of elements reaches */
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
    {TRANSFORMED(4, 1, 60, 29, 8, 200, 1), .relu = true},                /* many tiles */
    {TRANSFORMED(2, 1, 14, 14, 60, 140, 1), .bias = true, .relu = true}, /* matrices that are prefetched */
    {TRANSFORMED(4, 2, 28, 28, 60, 140, 1), .residual = true},
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

/* For the tensor cores, by 16-bit floats: multiples of 8 channels. */
static const struct conv banded[] = {
    {DEEP(1, 14, 14, 96, 5, 1, 1, 2), .bias = true, .relu = true},
    {DEEP(3, 9, 17, 40, 7, 1, 1, 3), .bias = true, .residual = true}, /* a part of a group, of a chunk and of a band */
    {DEEP(9, 7, 7, 16, 7, 1, 1, 3), .bias = true},
    {DEEP(24, 28, 28, 64, 7, 1, 1, 3), .bias = true}, /* bands of seven rows */
    {DEEP(1, 32, 32, 32, 9, 1, 1, 4), .relu = true},
    {DEEP(2, 15, 13, 24, 5, 2, 1, 2), .bias = true},
    {DEEP(1, 20, 12, 8, 3, 2, 1, 1)},
    {DEEP(1, 11, 70, 8, 7, 1, 3, 9), .bias = true}, /* dilated */
    {DEEP(1, 4, 150, 8, 3, 3, 1, 1)},               /* several tiles along a line */
    {DEEP(1, 2, 2, 32, 7, 1, 1, 3), .bias = true},  /* every window overlaps the padding */
    {DEEP(1, 3, 5, 16, 3, 3, 2, 6), .bias = true},  /* windows wholly in the padding */
    {DEEP(1, 1, 1, 8, 5, 1, 1, 2)},
    {DEEP(-1, -2, -3, 24, 7, 1, 1, 3), .bias = true},
    {F32, .spatial = 1, .batch = 2, .size = {70}, .in = 24, .out = 24, .kernel = {31}, .stride = {1}, .dilation = {1},
     .before = {30}, .after = {0}, .groups = 24, .last = true, .bias = true},
    {F32, .spatial = 2, .batch = 1, .size = {12, 21}, .in = 8, .out = 8, .kernel = {2, 5}, .stride = {3, 2},
     .dilation = {2, 3}, .before = {0, 7}, .after = {2, 4}, .groups = 8, .last = true, .residual = true},
    {F32, .spatial = 2, .batch = 2, .size = {5, 30}, .in = 16, .out = 16, .kernel = {1, 11}, .stride = {1, 1},
     .dilation = {1, 1}, .before = {0, 5}, .after = {0, 5}, .groups = 16, .last = true, .bias = true},
};

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

static void test_banded(void **state) {
    (void)state;
    enum { CHOICES = 3 };
    int count = 0;
    for (int i = 0; i < COUNT(banded) * CHOICES; i++) {
        unsigned flags = GRAPH_BANDED + (unsigned)(i % CHOICES) * GRAPH_CHOICE + (i % 2 ? GRAPH_BF16 : GRAPH_FP16);
        if (i % CHOICES == 2) flags += GRAPH_POISON; /* NaN does not spread to other windows */
        snprintf(names[count], sizeof names[count], "banded %d, choice %d", i / CHOICES, i % CHOICES);
        cases[count] = (struct graph_case){names[count],        build_conv, &banded[i / CHOICES],
                                           i % 2 ? 2e-2 : 3e-3, flags,      {2, 9, 13, 0}};
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
     .dilation = {1, 1, 1}, .before = {10, 1, 4}, .after = {10, 1, 4}, .groups = 1,
     .last = true}, /* taps without bits of their own */
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
    /* of one or two channels, in lines of whole loads: of pixels, of pairs, of pairs of pairs; and of those that move too far */
    {NARROW(2, 21, 39, 1, 24, 5, 7, 1, 1, 3), .bias = true, .relu = true},
    {NARROW(1, 30, 25, 1, 32, 11, 5, 2, 2, 2), .bias = true},
    {NARROW(2, 20, 17, 2, 9, 3, 3, 1, 1, 1)},
    {NARROW(-1, -2, -3, 1, 40, 3, 8, 2, 1, 0)},
    {NARROW(1, 18, 40, 1, 16, 4, 12, 4, 4, 1), .bias = true},
    {NARROW(1, 19, 23, 2, 17, 3, 5, 1, 2, 2)},
    {NARROW(1, 19, 23, 1, 17, 3, 5, 1, 3, 2)},
    {F32, .spatial = 3, .batch = 1, .size = {4, 9, 21}, .in = 1, .out = 24, .kernel = {3, 2, 5}, .stride = {1, 2, 1},
     .dilation = {1, 1, 1}, .before = {1, 0, 2}, .after = {2, 0, 1}, .groups = 1, .last = true, .bias = true},
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

/* The same by the copy engine: slices of 32, 64 and 128 bytes, of one or several; tiles of squares and of lines. */
static const struct conv brought[] = {
    {NARROW(2, 9, 13, 32, 32, 3, 3, 1, 1, 1), .bias = true, .relu = true},
    {NARROW(3, 17, 8, 64, 40, 3, 3, 1, 1, 1), .bias = true, .residual = true}, /* weights across the depth */
    {NARROW(1, 1, 1, 16, 8, 3, 3, 1, 1, 1)},
    {NARROW(2, 16, 24, 48, 96, 3, 3, 2, 2, 1), .bias = true}, /* four phases */
    {NARROW(1, 15, 15, 32, 40, 5, 5, 1, 1, 2), .relu = true},
    {NARROW(-1, -2, -3, 64, 64, 3, 3, 1, 1, 1), .bias = true, .relu = true},
    {NARROW(2, 20, 9, 128, 24, 3, 3, 1, 1, 0)},                            /* nothing lies beyond the image */
    {NARROW(1, 3, 3, 16, 17, 7, 7, 1, 1, 9)},                              /* windows wholly in the padding */
    {NARROW(2, 9, 11, 64, 32, 1, 1, 2, 2, 0)},                             /* one phase of four */
    {NARROW(2, 9, 12, 24, 24, 3, 3, 1, 1, 1), .bias = true, .relu = true}, /* slices that are not filled */
    {NARROW(1, 14, 11, 72, 40, 3, 3, 2, 2, 1), .residual = true},
    {NARROW(1, 10, 19, 32, 200, 2, 5, 3, 2, 2), .bias = true, .residual = true}, /* blocks of columns */
    {GROUPED(2, 9, 12, 3, 64, 40, 3, 1, 1), .bias = true, .residual = true},
    {GROUPED(1, 13, 10, 2, 48, 80, 3, 2, 1), .bias = true, .relu = true}, /* blocks of columns of each group */
    {GROUPED(2, 8, 9, 16, 4, 4, 3, 1, 1), .relu = true},                  /* joined */
    {GROUPED(-1, -2, -3, 4, 32, 32, 3, 1, 1), .bias = true},
    {F32, .spatial = 2, .batch = 1, .size = {13, 22}, .in = 16, .out = 10, .kernel = {3, 2}, .stride = {1, 1},
     .dilation = {2, 3}, .before = {1, 2}, .after = {0, 3}, .groups = 1, .last = true, .bias = true},
    {F32, .spatial = 1, .batch = 2, .size = {150}, .in = 64, .out = 32, .kernel = {4}, .stride = {1}, .dilation = {2},
     .before = {3}, .after = {1}, .groups = 1, .last = true, .bias = true},
    {F32, .spatial = 1, .batch = 2, .size = {150}, .in = 32, .out = 64, .kernel = {5}, .stride = {2}, .dilation = {1},
     .before = {2}, .after = {2}, .groups = 1, .last = true, .relu = true},
};

/* Pixels of 16 bytes, of two bytes each: as they are, and those of pictures that are packed so. */
static const struct conv small_pixels[] = {
    {NARROW(2, 11, 21, 8, 40, 3, 4, 1, 1, 1), .bias = true, .relu = true},
    {NARROW(1, 9, 10, 8, 16, 5, 2, 2, 1, 2), .residual = true},
    {NARROW(1, 23, 18, 3, 64, 7, 7, 2, 2, 3), .bias = true, .relu = true},
    {NARROW(2, 34, 40, 3, 24, 3, 3, 2, 2, 1), .bias = true},
    {NARROW(-1, -2, 20, 3, 32, 3, 3, 2, 2, 1), .bias = true},
};

static void test_brought(void **state) {
    (void)state;
    enum { CHOICES = 3, ALL = COUNT(brought) + COUNT(small_pixels) };
    static const unsigned flags[CHOICES] = {GRAPH_FP16, GRAPH_BF16 + GRAPH_POISON, GRAPH_TF32};
    for (int i = 0; i < ALL * CHOICES; i++) {
        bool small = i / CHOICES >= COUNT(brought);
        const struct conv *c = small ? &small_pixels[i / CHOICES - COUNT(brought)] : &brought[i / CHOICES];
        unsigned way = small && i % CHOICES == 2 ? GRAPH_FP16 : flags[i % CHOICES];
        if (c->groups > 1 || c->in < 8) way &= ~(unsigned)GRAPH_POISON; /* infinities under zero weights count */
        snprintf(names[i], sizeof names[i], "brought %d, choice %d", i / CHOICES, i % CHOICES);
        cases[i] = (struct graph_case){names[i],
                                       build_conv,
                                       c,
                                       way & GRAPH_BF16 ? 3e-2 : 3e-3,
                                       way + GRAPH_MAPS + GRAPH_PATCH + (unsigned)(i % CHOICES) * 2 * GRAPH_CHOICE,
                                       {2, 13, 18, 0}};
    }
    check_graphs_for_cuda(cases, ALL * CHOICES);
}

/* conv_test [PATTERN]: runs only the tests whose names match. */
/* ---- Prefetches ------------------------------------------------------------------------------------------------------ */

/* Weights that are prefetched while those before are multiplied: transformed ones, and panels of lines that fill the first cache. */
static const struct conv prefetched[] = {
    {TRANSFORMED(2, 1, 14, 14, 256, 256, 1)},
    {TRANSFORMED(4, 1, 28, 28, 128, 128, 1)},
    {PLANE(1, 7, 7, 512, 512, 3, 1, 1)},
    {PLANE(1, 56, 56, 64, 64, 3, 2, 1)},
};
/* And that are not: there is one block only, or a panel is small. */
static const struct conv at_once[] = {
    {TRANSFORMED(4, 1, 8, 8, 64, 64, 1)},
    {PLANE(1, 56, 56, 3, 64, 3, 2, 1)},
};

static const struct ig_kernel *only_kernel(struct ig_job *job, const struct conv *c) {
    static const struct ig_target target = {.isa = IG_ISA_X86_64_V4, .vector_bytes = 64, .vector_registers = 32};
    struct ig_pass_options options = {.target = &target};
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    build_conv(g, c);
    g = passes_named(g, "pack fuse partition", &options);
    assert_int_equal(g->regions.count, 1);
    return ig_kernel_make(g, &g->regions.at[0], &target);
}

static bool prefetches(const struct ig_kernel *kernel) {
    assert_int_equal(kernel->micros.count, 1);
    return kernel->micros.at[0].rate > 0;
}

static void check_prefetches(struct ig_job *job, void *argument) {
    (void)argument;
    for (int i = 0; i < COUNT(prefetched); i++) {
        const struct ig_kernel *kernel = only_kernel(job, &prefetched[i]);
        if (!prefetches(kernel)) fail_msg("convolution %d: %s", i, kernel->tactic);
        assert_true(kernel->whole); /* or what is prefetched last would be another worker's */
    }
    for (int i = 0; i < COUNT(at_once); i++) {
        const struct ig_kernel *kernel = only_kernel(job, &at_once[i]);
        if (prefetches(kernel)) fail_msg("convolution %d of those at once: %s", i, kernel->tactic);
    }
}

static void test_prefetches(void **state) {
    (void)state;
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, check_prefetches, NULL, &error);
    ig_job_deinit(&job);
    if (status != INGOT_OK) fail_msg("%s", error.message);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolutions), cmocka_unit_test(test_depthwise),        cmocka_unit_test(test_volumes),
        cmocka_unit_test(test_grouped),      cmocka_unit_test(test_patches),          cmocka_unit_test(test_flat),
        cmocka_unit_test(test_transformed),  cmocka_unit_test(test_depthwise_narrow), cmocka_unit_test(test_banded),
        cmocka_unit_test(test_recovered),    cmocka_unit_test(test_prefetches),       cmocka_unit_test(test_brought),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
