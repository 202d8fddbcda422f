/* Operands in the form that a library call needs: weights are converted when the engine is written. */
#include "ir/build.h"
#include "kernel/cuda/library.h"

void ig_library_adapt(struct ig_kernel *kernel, uint32_t operand) {
    kernel->adapted |= (uint64_t)1 << operand;
}

bool ig_library_is_adapted(const struct ig_kernel *kernel, uint32_t operand) {
    return kernel->library && operand < 64 && (kernel->adapted >> operand & 1);
}

/* [groups, 1, kernel..., channels, columns and zeros] to [filters, kernel..., channels]; [1, filters, kernel...,
 * channels, 1] is that already. */
static ig_value turn_filters(struct ig_graph *g, const struct ig_kernel *kernel, ig_value w) {
    ig_dim filters = kernel->dims.at[IG_LIBRARY_FILTERS], groups = kernel->dims.at[IG_LIBRARY_GROUPS];
    int rank = ig_type_of(g, w)->rank;
    int64_t perm[INGOT_MAX_RANK] = {0, rank - 1}, width = 0;
    ig_dim dims[INGOT_MAX_RANK] = {filters};
    if (ig_dim_is_const(g->dims, ig_type_of(g, w)->dim[rank - 1], &width) && width == 1) {
        for (int i = 2; i < rank - 1; i++)
            dims[i - 1] = ig_type_of(g, w)->dim[i];
        return ig_build_reshape(g, w, dims, rank - 2);
    }
    ig_dim columns = ig_dim_div(g->dims, filters, groups);
    w = ig_build_slice_axis(g, w, rank - 1, ig_dim_const(g->dims, 0), columns, 1);
    for (int i = 2; i < rank; i++)
        perm[i] = i - 1;
    w = ig_build_transpose(g, w, perm);
    for (int i = 3; i < rank; i++)
        dims[i - 2] = ig_type_of(g, w)->dim[i];
    return ig_build_reshape(g, w, dims, rank - 2);
}

ig_value ig_library_adapted(struct ig_graph *g, const struct ig_kernel *kernel, uint32_t operand, ig_value v) {
    const struct ig_library_call *call = kernel->library;
    if (operand == call->bias) return ig_build_cast(g, v, (enum ingot_dtype)call->out_type);
    IG_ASSERT(g->job, operand == call->b && call->operation == IG_LIBRARY_CONVOLUTION);
    return turn_filters(g, kernel, v);
}
