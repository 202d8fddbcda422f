/* Convolutions along one to three axes as those of planes, rows and columns, of which some have one of each. */
#include "kernel/cuda/contract/contract.h"

/* The index of an axis among the convolution's; negative: it has none. */
static int index_of(const struct ig_contract *c, int axis) {
    return axis - IG_CUDA_AXES + c->spatial;
}

int64_t ig_cuda_attr_along(const struct ig_contract *c, enum ig_attr_name name, int axis) {
    return index_of(c, axis) < 0 ? 1 : ig_contract_attr(c, name)->ints[index_of(c, axis)];
}

ig_dim ig_cuda_size_along(const struct ig_contract *c, const struct ig_type *type, int axis) {
    return index_of(c, axis) < 0 ? ig_dim_const(c->k->dims, 1) : type->dim[1 + index_of(c, axis)];
}

ig_x ig_cuda_window_along(struct ig_contract *c, ig_x at, int axis) {
    struct ig_loops *k = c->k;
    ig_x from = ig_x_mul(k, at, ig_x_index(k, ig_cuda_attr_along(c, IG_ATTR_strides, axis)));
    if (index_of(c, axis) < 0) return from;
    return ig_x_sub(k, from, ig_x_dim(k, ig_contract_attr(c, IG_ATTR_before)->dims[index_of(c, axis)]));
}

void ig_cuda_place(struct ig_contract *c, ig_x image, const ig_x at[IG_CUDA_AXES], ig_x channel, int64_t channels) {
    struct ig_loops *k = c->k;
    c->linear = image;
    c->position[0] = image;
    for (int i = 0; i < IG_CUDA_AXES; i++) {
        if (index_of(c, i) < 0) continue;
        c->position[1 + index_of(c, i)] = at[i];
        ig_x size = ig_x_dim(k, ig_cuda_size_along(c, ig_contract_out(c), i));
        c->linear = ig_x_add(k, ig_x_mul(k, c->linear, size), at[i]);
    }
    c->position[1 + c->spatial] = channel;
    c->linear = ig_x_add(k, ig_x_mul(k, c->linear, ig_x_index(k, channels)), channel);
}

int ig_cuda_vector_of(const struct ig_contract *c, int64_t columns) {
    int widest = 2;
    for (uint32_t i = 0; i < c->region->outputs.count; i++) {
        int bytes = (int)ingot_dtype_size(ig_type_of(c->graph, c->region->outputs.at[i])->dtype);
        widest = bytes > widest ? bytes : widest;
    }
    int vector = 16 / widest;
    while (columns % vector != 0)
        vector /= 2;
    return vector;
}
