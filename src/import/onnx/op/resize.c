/*
 * Resize and Upsample, one axis at a time: each result is a weighted sum of a few gathered neighbours. Core operators
 * compute positions and weights from the index along the axis, so that they are constants if the sizes are known, and
 * are computed at run time otherwise. Source: onnx.ai, "Resize" (its coordinate modes); Keys 1981 for the cubic kernel.
 */
#include <math.h>
#include <string.h>

#include "import/onnx/importer.h"
#include "import/onnx/op/arith.h"

enum mode { NEAREST, LINEAR, CUBIC };
enum transform { HALF_PIXEL, SYMMETRIC, PYTORCH_HALF_PIXEL, ALIGN_CORNERS, ASYMMETRIC, TF_HALF_PIXEL, TF_CROP };
enum rounding { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL };
enum policy { STRETCH, NOT_LARGER, NOT_SMALLER };

struct resize {
    enum mode mode;
    enum transform transform;
    enum rounding rounding;
    enum policy policy;
    bool antialias, exclude_outside;
    double cubic_a, extrapolation;
    int count; /* number of axes given */
    int64_t axes[INGOT_MAX_RANK];
    const double *roi; /* starts, then ends */
};

/* One axis. */
struct line {
    int axis;
    ig_dim in, out;
    bool scale_known;
    double scale;         /* valid if scale_known */
    ig_value scale_value; /* f32 scalar */
    double roi_start, roi_end;
};

/* ---- Positions ---- */

static ig_value number_of(struct ig_onnx_node *n, ig_dim dim) {
    return ig_build_cast(n->g, ig_build_shape_scalar(n->g, dim), INGOT_F32);
}

/* `single` if the result has one element, else `several`. */
static ig_value by_count(struct ig_onnx_node *n, const struct line *line, ig_value single, ig_value several) {
    int64_t count;
    if (ig_dim_is_const(n->dims, line->out, &count)) return count == 1 ? single : several;
    return ig_build_where(n->g, ig_lt_n(n->g, number_of(n, line->out), 1.5), single, several);
}

/* (x + 0.5) / scale - 0.5 */
static ig_value half_pixel(struct ig_graph *g, ig_value x, ig_value scale) {
    return ig_sub_n(g, ig_div(g, ig_add_n(g, x, 0.5), scale), 0.5);
}

/* Like half_pixel, but aligns the centres of result and input even if the size was rounded. */
static ig_value symmetric(struct ig_onnx_node *n, const struct line *line, ig_value x) {
    struct ig_graph *g = n->g;
    ig_value in = number_of(n, line->in);
    ig_value adjustment = ig_div(g, number_of(n, line->out), ig_mul(g, line->scale_value, in));
    ig_value offset = ig_mul(g, ig_mul_n(g, in, 0.5), ig_rsub_n(g, 1, adjustment));
    return ig_add(g, offset, half_pixel(g, x, line->scale_value));
}

/* The position on the input's axis of each element of the result: f32[out]. */
static ig_value places(struct ig_onnx_node *n, const struct resize *r, const struct line *line) {
    struct ig_graph *g = n->g;
    ig_value x = ig_build_cast(g, ig_build_iota(g, &line->out, 1, 0), INGOT_F32), scale = line->scale_value;
    ig_dim one = ig_dim_const(n->dims, 1);
    ig_value last = number_of(n, ig_dim_sub(n->dims, line->in, one));
    /* At least 1, to avoid 0 / 0 if the result has one element. */
    ig_value steps = number_of(n, ig_dim_max(n->dims, ig_dim_sub(n->dims, line->out, one), one));
    switch (r->transform) {
    case HALF_PIXEL: return half_pixel(g, x, scale);
    case SYMMETRIC: return symmetric(n, line, x);
    case PYTORCH_HALF_PIXEL: return by_count(n, line, x, half_pixel(g, x, scale));
    case ALIGN_CORNERS: return ig_div(g, ig_mul(g, x, last), steps);
    case ASYMMETRIC: return ig_div(g, x, scale);
    case TF_HALF_PIXEL: return ig_div(g, ig_add_n(g, x, 0.5), scale);
    default: break;
    }
    ig_value step = ig_div(g, ig_mul_n(g, last, line->roi_end - line->roi_start), steps);
    ig_value several = ig_add(g, ig_mul(g, x, step), ig_mul_n(g, last, line->roi_start));
    return by_count(n, line, ig_add(g, x, ig_mul_n(g, last, 0.5 * (line->roi_start + line->roi_end))), several);
}

/* The elements of x at `place` (whole numbers in f32, clamped to the axis). */
static ig_value fetch(struct ig_onnx_node *n, const struct line *line, ig_value x, ig_value place) {
    ig_value last = number_of(n, ig_dim_sub(n->dims, line->in, ig_dim_const(n->dims, 1)));
    ig_value inside = ig_max_n(n->g, ig_min(n->g, place, last), 0);
    return ig_build_gather(n->g, x, ig_build_cast(n->g, inside, INGOT_I64), line->axis);
}

/* ---- Neighbours and weights ---- */

static ig_value resize_nearest(struct ig_onnx_node *n, const struct resize *r, const struct line *line, ig_value x,
                               ig_value place) {
    struct ig_graph *g = n->g;
    switch (r->rounding) {
    case PREFER_FLOOR: place = ig_ceil(g, ig_sub_n(g, place, 0.5)); break;
    case PREFER_CEIL: place = ig_floor(g, ig_add_n(g, place, 0.5)); break;
    case FLOOR: place = ig_floor(g, place); break;
    case CEIL: place = ig_ceil(g, place); break;
    }
    return fetch(n, line, x, place);
}

/* c3 * x^3 + c2 * x^2 + c1 * x + c0 */
static ig_value cubic(struct ig_graph *g, ig_value x, double c3, double c2, double c1, double c0) {
    ig_value y = ig_add_n(g, ig_mul_n(g, x, c3), c2);
    y = ig_add_n(g, ig_mul(g, y, x), c1);
    return ig_add_n(g, ig_mul(g, y, x), c0);
}

/* The weight of a neighbour at a distance. */
static ig_value weigh(struct ig_graph *g, const struct resize *r, ig_value distance) {
    double a = r->cubic_a;
    ig_value x = ig_abs(g, distance);
    if (r->mode == LINEAR) return ig_max_n(g, ig_rsub_n(g, 1, x), 0);
    ig_value near = cubic(g, x, a + 2, -(a + 3), 0, 1), far = cubic(g, x, a, -5 * a, 8 * a, -4 * a);
    ig_value tail = ig_build_where(g, ig_lt_n(g, x, 2), far, ig_like(g, x, 0));
    return ig_build_where(g, ig_le(g, x, ig_like(g, x, 1)), near, tail);
}

/* The scale if antialiasing must widen the filter, so that a shrinking axis averages its elements; else 1. */
static double shrink_of(struct ig_onnx_node *n, const struct resize *r, const struct line *line) {
    if (!r->antialias) return 1;
    if (!line->scale_known) ig_onnx_refuse(n, "antialiasing needs sizes that are known at build time");
    if (line->scale < 1.0 / 512) ig_onnx_refuse(n, "antialiasing by a scale under 1/512 is not supported");
    return line->scale < 1 ? line->scale : 1;
}

static ig_value zero_outside(struct ig_onnx_node *n, const struct line *line, ig_value place, ig_value weight) {
    struct ig_graph *g = n->g;
    ig_value inside = ig_and(g, ig_lt_n(g, ig_neg(g, place), 0.5), ig_lt(g, place, number_of(n, line->in)));
    return ig_build_where(g, inside, weight, ig_like(g, weight, 0));
}

static ig_value resize_weighted(struct ig_onnx_node *n, const struct resize *r, const struct line *line, ig_value x,
                                ig_value place) {
    struct ig_graph *g = n->g;
    double shrink = shrink_of(n, r, line);
    int first = (int)floor(-(r->mode == LINEAR ? 1 : 2) / shrink) + 1, rank = ig_onnx_rank(n, x);
    ig_value base = ig_floor(g, place), sum = IG_NO_VALUE, total = IG_NO_VALUE;
    for (int i = first; i <= 1 - first; i++) {
        ig_value at = ig_add_n(g, base, i), distance = ig_sub(g, at, place);
        ig_value weight = weigh(g, r, shrink < 1 ? ig_mul_n(g, distance, shrink) : distance);
        if (r->exclude_outside) weight = zero_outside(n, line, at, weight);
        total = total == IG_NO_VALUE ? weight : ig_add(g, total, weight);
        ig_value along = ig_build_cast(g, ig_onnx_along(n, weight, line->axis, rank), ig_onnx_type(n, x));
        ig_value part = ig_mul(g, fetch(n, line, x, at), along);
        sum = sum == IG_NO_VALUE ? part : ig_add(g, sum, part);
    }
    if (!r->exclude_outside && shrink == 1) return sum;
    return ig_div(g, sum, ig_build_cast(g, ig_onnx_along(n, total, line->axis, rank), ig_onnx_type(n, x)));
}

static ig_value resize_line(struct ig_onnx_node *n, const struct resize *r, const struct line *line, ig_value x) {
    struct ig_graph *g = n->g;
    ig_value place = places(n, r, line), y;
    y = r->mode == NEAREST ? resize_nearest(n, r, line, x, place) : resize_weighted(n, r, line, x, place);
    if (r->transform != TF_CROP) return y;
    ig_value last = number_of(n, ig_dim_sub(n->dims, line->in, ig_dim_const(n->dims, 1)));
    ig_value outside = ig_or(g, ig_lt_n(g, place, 0), ig_lt(g, last, place));
    outside = ig_onnx_along(n, outside, line->axis, ig_onnx_rank(n, y));
    return ig_build_where(g, outside, ig_like(g, y, r->extrapolation), y);
}

/* ---- Sizes and scales ---- */

/* floor(size * scale), where the scale stands for the simplest fraction that rounds to it: 0.7f is 7/10. */
static ig_dim scaled_size(struct ig_onnx_node *n, ig_dim size, double scale) {
    int64_t num, den;
    if (!(scale > 0) || !ig_onnx_simplest_fraction(scale, &num, &den)) ig_onnx_bad(n, "the scale is %g", scale);
    ig_dim product = ig_dim_mul(n->dims, size, ig_dim_const(n->dims, num));
    return ig_dim_div(n->dims, product, ig_dim_const(n->dims, den));
}

static struct line line_of_scale(struct ig_onnx_node *n, ig_value x, int axis, double scale) {
    ig_dim in = ig_onnx_dim(n, x, axis);
    return (struct line){.axis = axis,
                         .in = in,
                         .out = scaled_size(n, in, scale),
                         .scale_known = true,
                         .scale = scale,
                         .scale_value = ig_build_scalar(n->g, INGOT_F32, scale)};
}

static struct line line_of_size(struct ig_onnx_node *n, ig_value x, int axis, ig_dim out) {
    struct line line = {.axis = axis, .in = ig_onnx_dim(n, x, axis), .out = out};
    int64_t from, to;
    if (ig_dim_is_const(n->dims, line.in, &from) && ig_dim_is_const(n->dims, out, &to)) {
        if (to < 0 || from < 1) ig_onnx_bad(n, "cannot resize %lld elements to %lld", (long long)from, (long long)to);
        line.scale_known = true;
        line.scale = (double)to / (double)from;
        line.scale_value = ig_build_scalar(n->g, INGOT_F32, line.scale);
    } else {
        line.scale_value = ig_div(n->g, number_of(n, out), number_of(n, line.in));
    }
    return line;
}

/* Uses one scale for all axes: the smallest or the largest of those requested. */
static void keep_aspect(struct ig_onnx_node *n, const struct resize *r, struct line *lines) {
    double scale = 0;
    for (int i = 0; i < r->count; i++) {
        if (!lines[i].scale_known)
            ig_onnx_refuse(n, "keeping the aspect ratio needs sizes that are known at build time");
        bool better = r->policy == NOT_LARGER ? lines[i].scale < scale : lines[i].scale > scale;
        if (i == 0 || better) scale = lines[i].scale;
    }
    for (int i = 0; i < r->count; i++) {
        int64_t from = 0;
        ig_dim_is_const(n->dims, lines[i].in, &from);
        lines[i].scale = scale;
        lines[i].scale_value = ig_build_scalar(n->g, INGOT_F32, scale);
        lines[i].out = ig_dim_const(n->dims, (int64_t)floor(scale * (double)from + 0.5));
    }
}

/* Scales computed from dims: sizes are symbolic, the scales themselves run-time values. */
static void lines_of_computed_scales(struct ig_onnx_node *n, const struct resize *r, ig_value x, uint32_t input,
                                     struct line *lines) {
    ig_dim in[INGOT_MAX_RANK], out[INGOT_MAX_RANK], one = ig_dim_const(n->dims, 1);
    ig_value scales = ig_onnx_in(n, input);
    for (int i = 0; i < r->count; i++)
        in[i] = ig_onnx_dim(n, x, (int)r->axes[i]);
    if (!ig_onnx_scale_dims(n, scales, in, r->count, out)) {
        ig_onnx_refuse(n, "input 'scales' depends on data that are known only during a run");
    }
    for (int i = 0; i < r->count; i++) {
        ig_value scale = ig_build_slice_axis(n->g, scales, 0, ig_dim_const(n->dims, i), one, 1);
        scale = ig_build_cast(n->g, ig_build_reshape(n->g, scale, NULL, 0), INGOT_F32);
        lines[i] = (struct line){.axis = (int)r->axes[i], .in = in[i], .out = out[i], .scale_value = scale};
    }
}

static void lines_of_scales(struct ig_onnx_node *n, const struct resize *r, ig_value x, uint32_t input,
                            struct line *lines) {
    int count;
    if (ig_onnx_has(n, input) && !ig_info(n->g, n->in[input])->is_const) {
        lines_of_computed_scales(n, r, x, input, lines);
        return;
    }
    const double *scales = ig_onnx_const_floats(n, input, "scales", &count);
    if (!scales) ig_onnx_bad(n, "it has neither scales nor sizes");
    if (count != r->count) ig_onnx_bad(n, "'scales' has %d values, expected %d", count, r->count);
    for (int i = 0; i < r->count; i++)
        lines[i] = line_of_scale(n, x, (int)r->axes[i], scales[i]);
}

static void lines_of_sizes(struct ig_onnx_node *n, const struct resize *r, ig_value x, struct line *lines) {
    int count;
    const ig_dim *sizes = ig_onnx_elements(n, 3, "sizes", &count);
    if (count != r->count) ig_onnx_bad(n, "'sizes' has %d values, expected %d", count, r->count);
    for (int i = 0; i < r->count; i++)
        lines[i] = line_of_size(n, x, (int)r->axes[i], sizes[i]);
    if (r->policy != STRETCH) keep_aspect(n, r, lines);
}

static void set_regions(struct ig_onnx_node *n, struct resize *r, struct line *lines) {
    int count;
    if (r->transform != TF_CROP) return;
    r->roi = ig_onnx_const_floats(n, 1, "roi", &count);
    if (count != 2 * r->count) ig_onnx_bad(n, "'roi' has %d values, expected %d", count, 2 * r->count);
    for (int i = 0; i < r->count; i++) {
        lines[i].roi_start = r->roi[i];
        lines[i].roi_end = r->roi[r->count + i];
    }
}

static bool is_unchanged(const struct resize *r, const struct line *line) {
    if (r->transform == TF_CROP) return line->in == line->out && line->roi_start == 0 && line->roi_end == 1;
    return line->in == line->out && (!line->scale_known || line->scale == 1);
}

/* Integers are interpolated in f32, and results are converted back as by a cast. */
static ig_value resize_all(struct ig_onnx_node *n, const struct resize *r, ig_value x, const struct line *lines) {
    enum ingot_dtype type = ig_onnx_type(n, x);
    if (r->mode != NEAREST && type != INGOT_F64) x = ig_build_cast(n->g, x, INGOT_F32);
    for (int i = 0; i < r->count; i++) {
        if (!is_unchanged(r, &lines[i])) x = resize_line(n, r, &lines[i], x);
    }
    return ig_build_cast(n->g, x, type);
}

/* ---- Attributes ---- */

static enum mode read_mode(struct ig_onnx_node *n) {
    static const char *const modes[] = {"nearest", "linear", "cubic", "bilinear"};
    static const enum mode core[] = {NEAREST, LINEAR, CUBIC, LINEAR};
    return core[ig_onnx_choice(n, "mode", modes, 4, 0)];
}

/* Upsample and Resize of opset 10: the scales are input 1 (or an attribute), and everything else is fixed. */
ig_value ig_import_upsample(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0);
    struct resize r = {.mode = read_mode(n), .transform = ASYMMETRIC, .rounding = FLOOR, .count = ig_onnx_rank(n, x)};
    struct line lines[INGOT_MAX_RANK];
    int count;
    for (int i = 0; i < r.count; i++)
        r.axes[i] = i;
    if (n->op->arg) {
        lines_of_scales(n, &r, x, 1, lines);
    } else {
        const float *scales = ig_onnx_floats(n, "scales", &count);
        if (!scales || count != r.count) ig_onnx_bad(n, "'scales' has %d values, expected %d", count, r.count);
        for (int i = 0; i < r.count; i++)
            lines[i] = line_of_scale(n, x, i, (double)scales[i]);
    }
    return resize_all(n, &r, x, lines);
}

ig_value ig_import_resize(struct ig_onnx_node *n) {
    static const char *const transforms[] = {"half_pixel",        "half_pixel_symmetric", "pytorch_half_pixel",
                                             "align_corners",     "asymmetric",           "tf_half_pixel_for_nn",
                                             "tf_crop_and_resize"};
    static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    static const char *const policies[] = {"stretch", "not_larger", "not_smaller"};
    ig_value x = ig_onnx_in(n, 0);
    struct resize r = {
        .mode = read_mode(n),
        .transform = (enum transform)ig_onnx_choice(n, "coordinate_transformation_mode", transforms, 7, HALF_PIXEL),
        .rounding = (enum rounding)ig_onnx_choice(n, "nearest_mode", roundings, 4, PREFER_FLOOR),
        .policy = (enum policy)ig_onnx_choice(n, "keep_aspect_ratio_policy", policies, 3, STRETCH),
        .antialias = ig_onnx_flag(n, "antialias", false),
        .exclude_outside = ig_onnx_flag(n, "exclude_outside", false),
        .cubic_a = ig_onnx_float(n, "cubic_coeff_a", -0.75),
        .extrapolation = ig_onnx_float(n, "extrapolation_value", 0),
    };
    struct line lines[INGOT_MAX_RANK] = {0};
    int rank = ig_onnx_rank(n, x);
    const int64_t *axes = ig_onnx_ints(n, "axes", &r.count);
    if (!axes) r.count = rank;
    if (r.count > rank) ig_onnx_bad(n, "there are more axes than dims");
    for (int i = 0; i < r.count; i++)
        r.axes[i] = axes ? ig_onnx_axis(n, axes[i], rank) : i;
    if (ig_onnx_has(n, 3))
        lines_of_sizes(n, &r, x, lines);
    else
        lines_of_scales(n, &r, x, 2, lines);
    set_regions(n, &r, lines);
    return resize_all(n, &r, x, lines);
}
