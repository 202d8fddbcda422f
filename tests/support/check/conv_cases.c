#include "support/check/conv_cases.h"

#include "pass/product/winograd.h"
#include "support/support.h"

const struct way ways[ALL_WAYS] = {{0, ""}, {GRAPH_POISON, ", poisoned"}, {GRAPH_RAW, ", as it comes"}};

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

void build_conv(struct ig_graph *g, const void *argument) {
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
