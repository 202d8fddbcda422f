/*
 * Sampling at positions that are data: GridSample, and AffineGrid, which computes such positions. A sample is a
 * weighted sum of neighbours, two or four along each axis, gathered from the image viewed as [batch, pixels, channels].
 * Source: Jaderberg et al. 2015 (spatial transformers); Keys 1981 for the cubic kernel.
 */
#include "import/onnx/importer.h"
#include "import/onnx/op/arith.h"

enum { MAX_AXES = 3 };
enum mode { LINEAR, NEAREST, CUBIC };
enum border { ZEROS, BORDER, REFLECTION };

struct sampler {
    struct ig_onnx_node *n;
    enum mode mode;
    enum border border;
    bool align_corners;
    int axes;
    struct ig_type image;     /* [N, C, D1, D2, …] */
    ig_dim places;            /* samples per batch element */
    ig_value pixels;          /* [N, D1 * D2 * …, C] */
    ig_value place[MAX_AXES]; /* [N, places], in elements of the axis */
};

static ig_value number_of(struct sampler *s, ig_dim dim, ig_value like) {
    return ig_build_cast(s->n->g, ig_build_shape_scalar(s->n->g, dim), ig_onnx_type(s->n, like));
}

/* Reflects x into [lo, lo + span] at both ends. */
static ig_value reflect(struct ig_graph *g, ig_value x, double lo, ig_value span) {
    ig_value zero = ig_eq(g, span, ig_like(g, span, 0));
    ig_value period = ig_build_where(g, zero, ig_like(g, span, 1), ig_mul_n(g, span, 2));
    ig_value t = ig_map2(g, IG_OP_fmod, ig_abs(g, ig_sub_n(g, x, lo)), period);
    t = ig_min(g, t, ig_sub(g, period, t));
    return ig_add_n(g, ig_build_where(g, zero, ig_like(g, t, 0), t), lo);
}

/* The distance between the borders: the centres of the outer pixels, or their edges. */
static ig_value span_of(struct sampler *s, ig_value like, int axis) {
    ig_value size = number_of(s, s->image.dim[axis + 2], like);
    return s->align_corners ? ig_sub_n(s->n->g, size, 1) : size;
}

static ig_value inside(struct sampler *s, ig_value x, int axis) {
    struct ig_graph *g = s->n->g;
    ig_value last = ig_sub_n(g, number_of(s, s->image.dim[axis + 2], x), 1);
    return ig_max_n(g, ig_min(g, x, last), 0);
}

/* Maps [-1, 1] to positions on the axis; positions beyond the border follow the padding mode. */
static ig_value read_place(struct sampler *s, ig_value grid, int axis) {
    struct ig_graph *g = s->n->g;
    double lo = s->align_corners ? 0 : -0.5;
    ig_value span = span_of(s, grid, axis);
    ig_value x = ig_add_n(g, ig_mul(g, ig_mul_n(g, ig_add_n(g, grid, 1), 0.5), span), lo);
    if (s->mode == NEAREST) x = ig_round(g, x);
    if (s->border == ZEROS) return x;
    ig_value outside = ig_or(g, ig_lt_n(g, x, lo), ig_lt(g, ig_add_n(g, span, lo), x));
    return ig_build_where(g, outside, s->border == BORDER ? inside(s, x, axis) : reflect(g, x, lo, span), x);
}

/* The weight of the i-th of four neighbours, for a position that lies t beyond the second one. */
static ig_value cubic_weight(struct ig_graph *g, ig_value t, int i) {
    const double a = -0.75;
    ig_value x = i < 2 ? ig_add_n(g, t, 1 - i) : ig_rsub_n(g, i - 1, t);
    if (i == 1 || i == 2) {
        ig_value y = ig_sub_n(g, ig_mul_n(g, x, a + 2), a + 3);
        return ig_add_n(g, ig_mul(g, ig_mul(g, y, x), x), 1);
    }
    ig_value y = ig_sub_n(g, ig_mul_n(g, x, a), 5 * a);
    y = ig_add_n(g, ig_mul(g, y, x), 8 * a);
    return ig_sub_n(g, ig_mul(g, y, x), 4 * a);
}

/* A neighbour along one axis: its index (a whole number, in range) and weight. */
struct tap {
    ig_value index, weight; /* weight IG_NO_VALUE: 1 */
};

static struct tap tap_of(struct sampler *s, int axis, int i) {
    struct ig_graph *g = s->n->g;
    ig_value x = s->place[axis], base = s->mode == NEAREST ? x : ig_floor(g, x), t = ig_sub(g, x, base);
    struct tap tap = {.weight = IG_NO_VALUE};
    ig_value at = ig_add_n(g, base, s->mode == CUBIC ? i - 1 : i);
    if (s->mode == LINEAR) tap.weight = i == 0 ? ig_rsub_n(g, 1, t) : t;
    if (s->mode == CUBIC) tap.weight = cubic_weight(g, t, i);
    if (s->border == ZEROS) {
        ig_value size = number_of(s, s->image.dim[axis + 2], at);
        ig_value there = ig_and(g, ig_lt(g, ig_like(g, at, -0.5), at), ig_lt(g, at, size));
        ig_value weight = tap.weight == IG_NO_VALUE ? ig_like(g, at, 1) : tap.weight;
        tap.weight = ig_build_where(g, there, weight, ig_like(g, at, 0));
    } else if (s->border == REFLECTION) {
        at = reflect(g, at, s->align_corners ? 0 : -0.5, span_of(s, at, axis));
    }
    tap.index = ig_build_cast(g, inside(s, at, axis), INGOT_I64);
    return tap;
}

/* The weighted pixels at one neighbour of every sample: [N, places, C]. */
static ig_value fetch(struct sampler *s, const struct tap *taps) {
    struct ig_onnx_node *n = s->n;
    struct ig_graph *g = n->g;
    int last = 2;
    IG_ASSERT(g->job, s->axes > 0);
    ig_value flat = taps[0].index, weight = taps[0].weight;
    for (int axis = 1; axis < s->axes; axis++) {
        ig_value size = ig_build_shape_scalar(g, s->image.dim[axis + 2]);
        flat = ig_add(g, ig_mul(g, flat, size), taps[axis].index);
        if (weight == IG_NO_VALUE)
            weight = taps[axis].weight;
        else if (taps[axis].weight != IG_NO_VALUE)
            weight = ig_mul(g, weight, taps[axis].weight);
    }
    ig_value in[] = {s->pixels, ig_build_unsqueeze(g, flat, &last, 1)};
    struct ig_attr batch = ig_attr_of_int(1);
    ig_value y = ig_build_node(g, IG_OP_gather_nd, in, 2, 1, &batch, NULL);
    if (weight == IG_NO_VALUE) return y;
    weight = ig_build_unsqueeze(g, weight, &last, 1);
    return ig_mul(g, y, ig_build_cast(g, weight, ig_onnx_type(n, y)));
}

/* Sums over all combinations of neighbours along the axes. */
static ig_value sum_taps(struct sampler *s) {
    int each = s->mode == NEAREST ? 1 : s->mode == LINEAR ? 2 : 4, all = 1;
    struct tap taps[MAX_AXES][4], chosen[MAX_AXES];
    ig_value sum = IG_NO_VALUE;
    for (int axis = 0; axis < s->axes; axis++) {
        all *= each;
        for (int i = 0; i < each; i++)
            taps[axis][i] = tap_of(s, axis, i);
    }
    for (int i = 0; i < all; i++) {
        int rest = i;
        for (int axis = 0; axis < s->axes; axis++) {
            chosen[axis] = taps[axis][rest % each];
            rest /= each;
        }
        ig_value part = fetch(s, chosen);
        sum = sum == IG_NO_VALUE ? part : ig_add(s->n->g, sum, part);
    }
    return sum;
}

static void read_image(struct sampler *s, ig_value x) {
    static const int64_t channels_last[] = {0, 2, 1};
    struct ig_dims *dims = s->n->dims;
    s->image = *ig_type_of(s->n->g, x);
    ig_dim flat[] = {s->image.dim[0], s->image.dim[1], ig_dim_product(dims, s->image.dim + 2, s->axes)};
    s->pixels = ig_build_transpose(s->n->g, ig_build_reshape(s->n->g, x, flat, 3), channels_last);
}

/* The grid's last axis holds a coordinate per axis of the image, last axis first. */
static void read_grid(struct sampler *s, ig_value grid) {
    struct ig_onnx_node *n = s->n;
    struct ig_type t = *ig_type_of(n->g, grid);
    int last = t.rank - 1;
    s->places = ig_dim_product(n->dims, t.dim + 1, t.rank - 2);
    if (ig_onnx_static_dim(n, grid, last, "the grid's last dim") != s->axes) {
        ig_onnx_bad(n, "the grid's last dim is not %d", s->axes);
    }
    ig_dim flat[] = {t.dim[0], s->places};
    for (int axis = 0; axis < s->axes; axis++) {
        ig_dim start = ig_dim_const(n->dims, s->axes - 1 - axis), one = ig_dim_const(n->dims, 1);
        ig_value place = ig_build_slice_axis(n->g, grid, last, start, one, 1);
        s->place[axis] = read_place(s, ig_build_reshape(n->g, place, flat, 2), axis);
    }
}

ig_value ig_import_grid_sample(struct ig_onnx_node *n) {
    static const char *const modes[] = {"linear", "nearest", "cubic", "bilinear", "bicubic"};
    static const enum mode core[] = {LINEAR, NEAREST, CUBIC, LINEAR, CUBIC};
    static const char *const borders[] = {"zeros", "border", "reflection"};
    static const int64_t channels_first[] = {0, 2, 1};
    ig_value x = ig_onnx_in(n, 0), grid = ig_onnx_wide(n, ig_onnx_in(n, 1));
    struct sampler s = {
        .n = n,
        .mode = core[ig_onnx_choice(n, "mode", modes, 5, 0)],
        .border = (enum border)ig_onnx_choice(n, "padding_mode", borders, 3, ZEROS),
        .align_corners = ig_onnx_flag(n, "align_corners", false),
        .axes = ig_onnx_rank(n, x) - 2,
    };
    ig_onnx_check_rank(n, x, 3, 2 + MAX_AXES, "input 0");
    ig_onnx_check_rank(n, grid, s.axes + 2, s.axes + 2, "input 1");
    read_image(&s, x);
    read_grid(&s, grid);
    ig_value y = ig_build_transpose(n->g, sum_taps(&s), channels_first);
    struct ig_type t = *ig_type_of(n->g, grid);
    ig_dim result[2 + MAX_AXES] = {s.image.dim[0], s.image.dim[1]};
    for (int axis = 0; axis < s.axes; axis++)
        result[2 + axis] = t.dim[1 + axis];
    return ig_build_reshape(n->g, y, result, s.axes + 2);
}

/* ---- AffineGrid ---- */

/* Evenly spaced coordinates from -1 to 1 along one axis of the image: between the outer pixels' centres, or their
 * edges. */
static ig_value spaced(struct ig_onnx_node *n, const ig_dim *shape, int axes, int axis, bool align,
                       enum ingot_dtype type) {
    struct ig_graph *g = n->g;
    ig_dim one = ig_dim_const(n->dims, 1);
    ig_value i = ig_build_cast(g, ig_build_iota(g, shape, axes, axis), type);
    ig_dim steps = align ? ig_dim_max(n->dims, ig_dim_sub(n->dims, shape[axis], one), one) : shape[axis];
    ig_value count = ig_build_cast(g, ig_build_shape_scalar(g, steps), type);
    i = ig_add_n(g, ig_mul_n(g, i, 2), align ? 0 : 1);
    return ig_sub_n(g, ig_div(g, i, count), 1);
}

/* theta [N, r, r + 1] applied to every (x, y, 1) of an image of the given size: [N, H, W, r]. */
ig_value ig_import_affine_grid(struct ig_onnx_node *n) {
    static const int64_t turned[] = {0, 2, 1};
    struct ig_graph *g = n->g;
    ig_value theta = ig_onnx_in(n, 0), coordinates[MAX_AXES + 1];
    int count;
    const ig_dim *size = ig_onnx_elements(n, 1, "size", &count);
    int axes = count - 2, last = 2;
    if (axes < 1 || axes > MAX_AXES) ig_onnx_bad(n, "'size' has %d values", count);
    ig_onnx_check_rank(n, theta, 3, 3, "input 0");
    enum ingot_dtype type = ig_onnx_type(n, theta);
    ig_dim places = ig_dim_product(n->dims, size + 2, axes), flat[] = {places, ig_dim_const(n->dims, 1)};
    bool align = ig_onnx_flag(n, "align_corners", false);
    for (int i = 0; i < axes; i++) {
        coordinates[i] = ig_build_reshape(g, spaced(n, size + 2, axes, axes - 1 - i, align, type), flat, 2);
    }
    coordinates[axes] = ig_onnx_full(n, type, 1, flat, 2);
    ig_value points = ig_build_concat(g, coordinates, axes + 1, last - 1);
    int front = 0;
    points = ig_build_unsqueeze(g, points, &front, 1);
    ig_value grid = ig_build_matmul(g, points, ig_build_transpose(g, theta, turned), type);
    ig_dim result[MAX_AXES + 2] = {size[0]};
    for (int i = 0; i < axes; i++)
        result[1 + i] = size[2 + i];
    result[axes + 1] = ig_dim_const(n->dims, axes);
    return ig_build_reshape(g, grid, result, axes + 2);
}
