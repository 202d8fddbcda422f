/* The matrices of Winograd's convolutions: see winograd.h. */
#include "ir/winograd.h"

#include <string.h>

/* The points of interpolation but for infinity: 0, then pairs. */
static const double two[IG_WINOGRAD_INPUTS] = {0, 1, -1}, four[IG_WINOGRAD_INPUTS] = {0, 0.75, -0.75, 1.5, -1.5};

/* The coefficients of the product of (x - z) over `count` zeros, that of x^count last. */
static void polynomial(const double *zeros, int count, double *out) {
    out[0] = 1;
    for (int n = 0; n < count; n++) {
        out[n + 1] = out[n];
        for (int i = n; i > 0; i--)
            out[i] = out[i - 1] - zeros[n] * out[i];
        out[0] *= -zeros[n];
    }
}

/* The rows and columns of a finite point z, the i-th; `others` are the other finite ones. */
static void add_point(struct ig_winograd *w, int i, double z, const double *others) {
    double power = 1, product = 1;
    polynomial(others, w->m, w->input[i]);
    for (int k = 0; k < w->m; k++)
        product *= z - others[k];
    for (int k = 0; k < IG_WINOGRAD_KERNEL || k < w->m; k++) {
        if (k < w->m) w->output[k][i] = power;
        if (k < IG_WINOGRAD_KERNEL) w->filter[i][k] = power / product;
        power *= z;
    }
}

void ig_winograd_init(struct ig_winograd *w, int m) {
    const double *finite = m == 2 ? two : four;
    double others[IG_WINOGRAD_INPUTS];
    *w = (struct ig_winograd){.m = m, .t = m + IG_WINOGRAD_KERNEL - 1};
    int last = w->t - 1;
    for (int i = 0; i < last; i++) {
        memcpy(others, finite, (size_t)i * sizeof *others);
        memcpy(others + i, finite + i + 1, (size_t)(last - i - 1) * sizeof *others);
        add_point(w, i, finite[i], others);
    }
    polynomial(finite, last, w->input[last]);
    w->output[m - 1][last] = w->filter[last][IG_WINOGRAD_KERNEL - 1] = 1;
    /* The first point is 0, the next two are p and -p, the last is infinity. */
    w->inverse[0][0] = 1 / w->filter[0][0];
    w->inverse[1][1] = 1 / (2 * w->filter[1][1]);
    w->inverse[1][2] = -w->inverse[1][1];
    w->inverse[2][last] = 1;
}

int ig_winograd_of_positions(int64_t positions) {
    return positions == 4 ? 2 : positions == 6 ? 4 : 0;
}

int64_t ig_winograd_tiles(int m, int64_t dilation, int64_t outputs) {
    int64_t phase = (outputs + dilation - 1) / dilation;
    return dilation * ((phase + m - 1) / m);
}

int ig_winograd_of(const struct ig_graph *graph, const struct ig_node *conv) {
    if (conv->op != IG_OP_conv) return 0;
    const struct ig_attr *kernel = ig_attr(graph, conv, IG_ATTR_kernel);
    const struct ig_type *weights = ig_type_of(graph, conv->in[1]);
    int64_t positions;
    if (ig_attr_int(graph, conv, IG_ATTR_groups) != 1) return 0;
    /* The first spatial axis is 2, packed or not. */
    if (kernel->count != 2 || kernel->ints[0] != IG_WINOGRAD_KERNEL || weights->rank < 4) return 0;
    return ig_dim_is_const(graph->dims, weights->dim[2], &positions) ? ig_winograd_of_positions(positions) : 0;
}
