/*
 * winograd: transforms the filters of 3x3 convolutions, so that they take fewer multiplications (ir/winograd.h).
 *
 * Requires:   layout (channels-last form), precision (final types).
 * Guarantees: on CPUs, the constant f32 weights [M, C, 3, 3] of convolutions of stride 1, one dilation and one group become
 *             G g G', [M, C, 4, 4] or [M, C, 6, 6], where the cost model expects that to be faster. They are a recipe of
 *             the old ones. Rounding differs, and an infinity or a NaN in the input turns results up to four positions
 *             away into NaN (docs/precision.md). Without VNNI, weights of i8 become 4 G g G' in i16, [M, C, 4, 4], by
 *             which convolutions of bytes have the same results.
 *
 * The cost model counts multiply-adds: of the products; of reading weights from memory, of which there are 16 or 36 for 9;
 * and of the transforms. So many output positions, for which weights are read once, speak for it, many channels, by which
 * the transforms are divided, too.
 */
#include "pass/product/winograd.h"

#include "ir/winograd.h"
#include "pass/passes.h"
#include "pass/view/view.h"

/* Sizes of a convolution: output positions along both axes, of all images, and channels. */
struct sizes {
    int64_t images, height, width, in, out, dilation;
    double weight; /* what reading an element of weights from memory takes, in multiply-adds */
    bool bytes;
};

static bool is_known(const struct ig_dims *dims, ig_dim d, int64_t *out_value) {
    return ig_dim_is_const(dims, d, out_value) && *out_value > 0;
}

/* Is the image's first position at a known distance from that of the result? */
static bool has_known_origin(const struct ig_dims *dims, const struct ig_attr *before) {
    int64_t at;
    return ig_dim_is_const(dims, before->dims[0], &at) && at >= 0 && ig_dim_is_const(dims, before->dims[1], &at) &&
           at >= 0;
}

static bool are_all(const struct ig_attr *attr, int64_t value) {
    for (int i = 0; i < attr->count; i++) {
        if (attr->ints[i] != value) return false;
    }
    return attr->count == 2;
}

/* Bytes are worth it where the processor does not multiply four pairs at once, and exact up to some channels. */
static bool suits_bytes(const struct ig_target *target, const struct ig_type *x, const struct ig_type *w,
                        const struct ig_dims *dims) {
    int64_t channels;
    bool bytes = (x->dtype == INGOT_U8 || x->dtype == INGOT_I8) && w->dtype == INGOT_I8;
    return bytes && !target->vnni && is_known(dims, w->dim[1], &channels) && channels % 2 == 0 &&
           channels <= IG_WINOGRAD_CHANNELS;
}

/* Can n, an old node whose operands in the new graph are in[], be transformed? */
static bool read_conv(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, struct sizes *out_sizes) {
    const struct ig_graph *g = rw->out, *old = rw->in;
    const struct ig_type *x = ig_type_of(g, in[0]), *w = ig_type_of(g, in[1]), *y = ig_type_of(old, n->out);
    out_sizes->bytes = x->rank == 4 && y->dtype == INGOT_I32 && suits_bytes(rw->options->target, x, w, g->dims);
    bool floats = x->dtype == INGOT_F32 && w->dtype == INGOT_F32 && y->dtype == INGOT_F32;
    bool suits = n->op == IG_OP_conv && x->rank == 4 && (floats || out_sizes->bytes) && ig_info(g, in[1])->is_const &&
                 !ig_info(g, in[0])->is_const && ig_attr_int(old, n, IG_ATTR_packed) == 0 &&
                 ig_attr_int(old, n, IG_ATTR_channels_last) && ig_attr_int(old, n, IG_ATTR_groups) == 1 &&
                 !ig_winograd_of(old, n) && are_all(ig_attr(old, n, IG_ATTR_kernel), IG_WINOGRAD_KERNEL) &&
                 are_all(ig_attr(old, n, IG_ATTR_strides), 1) &&
                 are_all(ig_attr(old, n, IG_ATTR_dilations), ig_attr(old, n, IG_ATTR_dilations)->ints[0]) &&
                 has_known_origin(g->dims, ig_attr(old, n, IG_ATTR_before));
    if (!suits) return false;
    /* Measured: 7 on an AMD EPYC, 25 on an Intel Xeon whose cores all read. Those with AMX are Intel's. */
    out_sizes->weight = rw->options->target->isa == IG_ISA_AMX ? 20 : 12;
    out_sizes->dilation = ig_attr(old, n, IG_ATTR_dilations)->ints[0];
    if (!ig_dim_usual(g->dims, y->dim[0], &out_sizes->images)) out_sizes->images = 1;
    return is_known(g->dims, y->dim[1], &out_sizes->height) && is_known(g->dims, y->dim[2], &out_sizes->width) &&
           is_known(g->dims, w->dim[0], &out_sizes->out) && is_known(g->dims, w->dim[1], &out_sizes->in) &&
           is_known(g->dims, x->dim[1], &(int64_t){0}) && is_known(g->dims, x->dim[2], &(int64_t){0});
}

/* The time in multiply-adds. m = 0: without transforms. */
static double cost_of(const struct sizes *s, int m) {
    static const double input = 7, result = 7; /* to be transformed; measured, on AVX-512 */
    int64_t tiles_of_image = s->height * s->width;
    if (m > 0)
        tiles_of_image = ig_winograd_tiles(m, s->dilation, s->height) * ig_winograd_tiles(m, s->dilation, s->width);
    double positions = m > 0 ? (m + 2) * (m + 2) : 9;
    double tiles = (double)s->images * (double)tiles_of_image;
    double in = (double)s->in, out = (double)s->out;
    double transforms = m > 0 ? tiles * (input * in + result * out) : 0;
    /* Two products of bytes, or of 16 bits, take as long as one of f32; so many bytes has a weight. */
    double product = s->bytes ? 0.5 : 1, bytes = !s->bytes ? 4 : m > 0 ? 2 : 1;
    return positions * (product * tiles * in * out + s->weight * bytes / 4 * in * out + transforms);
}

/* The m of the cheapest way; 0 unless a tenth is gained, since transforms cost precision and memory. */
static int choose(const struct sizes *s) {
    int best = s->bytes || cost_of(s, 2) < cost_of(s, 4) ? 2 : 4;
    return cost_of(s, best) < 0.9 * cost_of(s, 0) ? best : 0;
}

/* The two products of G w G' as one: the matrix [9, t*t] by which a filter's row of 9 elements is multiplied. */
static ig_value filter_matrix(struct ig_graph *g, const struct ig_winograd *f) {
    enum { KERNEL = IG_WINOGRAD_KERNEL };
    const int64_t dims[] = {KERNEL * KERNEL, f->t * f->t};
    size_t count = (size_t)(dims[0] * dims[1]);
    float *numbers = IG_NEW_ARRAY(g->job, float, count);
    for (int64_t row = 0; row < dims[0]; row++) {
        for (int64_t column = 0; column < dims[1]; column++)
            numbers[row * dims[1] + column] =
                (float)(f->filter[column / f->t][row / KERNEL] * f->filter[column % f->t][row % KERNEL]);
    }
    struct ig_data *data = IG_NEW(g->job, struct ig_data);
    *data = (struct ig_data){.bytes = numbers, .size = count * sizeof *numbers};
    return ig_build_constant(g, INGOT_F32, 2, dims, data);
}

ig_value ig_winograd_filters(struct ig_graph *g, ig_value w, int m) {
    struct ig_winograd f;
    ig_winograd_init(&f, m);
    const struct ig_type *type = ig_type_of(g, w);
    const ig_dim t = ig_dim_const(g->dims, f.t), dims[] = {type->dim[0], type->dim[1], t, t};
    const ig_dim rows[] = {ig_dim_mul(g->dims, dims[0], dims[1]),
                           ig_dim_const(g->dims, IG_WINOGRAD_KERNEL * IG_WINOGRAD_KERNEL)};
    ig_value filters = ig_build_matmul(g, ig_view_reshape(g, w, rows, 2), filter_matrix(g, &f), INGOT_F32);
    return ig_view_reshape(g, filters, dims, 4);
}

ig_value ig_winograd_integer_filters(struct ig_graph *g, ig_value w) {
    /* f32 holds all of these numbers exactly. */
    ig_value filters = ig_winograd_filters(g, ig_build_cast(g, w, INGOT_F32), 2);
    filters = ig_map2(g, IG_OP_mul, filters, ig_build_scalar(g, INGOT_F32, IG_WINOGRAD_SCALE));
    return ig_build_cast(g, filters, INGOT_I16);
}

static bool transform(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct ig_graph *g = rw->out;
    struct sizes sizes;
    if (ig_target_is_cuda(rw->options->target) || n->op != IG_OP_conv || !read_conv(rw, n, in, &sizes)) return false;
    int m = choose(&sizes);
    if (m == 0) return false;
    ig_value w = sizes.bytes ? ig_winograd_integer_filters(g, in[1]) : ig_winograd_filters(g, in[1], m);
    ig_value operands[3] = {in[0], w, n->n_in > 2 ? in[2] : IG_NO_VALUE};
    out_values[0] = ig_build_copy(g, rw->in, n, operands);
    return true;
}

struct ig_graph *ig_pass_winograd(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite(in, options, transform, NULL);
}
