/*
 * What ONNX Runtime's collectives say of one rank (domain com.microsoft; its sources, collective_defs.cc and nccl_kernels.cc). A
 * model does not say which rank it is, nor AllReduce of how many: the nodes are made as rank 0's, and reductions as those of one
 * rank, until the network is built for a number of ranks (pass/shard/own.h).
 */
#include "base/collective.h"
#include "import/onnx/importer.h"

static void check_count(const struct ig_onnx_node *n) {
    if (n->n_in != 1 || n->n_out != 1)
        ig_onnx_refuse(n, "%u inputs and %u outputs: only one tensor is supported", n->n_in, n->n_out);
}

static int group_size(const struct ig_onnx_node *n) {
    int64_t size = ig_onnx_int(n, "group_size", 1);
    if (size < 1 || size > (int64_t)IG_MOST_RANKS)
        ig_onnx_refuse(n, "attribute 'group_size' is %lld, from 1 to %u can be", (long long)size, IG_MOST_RANKS);
    return (int)size;
}

ig_value ig_import_all_reduce(struct ig_onnx_node *n) {
    check_count(n);
    return ig_build_all_reduce(n->g, ig_onnx_in(n, 0), n->import->collectives++, 1, IG_REDUCE_SUM);
}

ig_value ig_import_all_gather(struct ig_onnx_node *n) {
    ig_dim parts[IG_MOST_RANKS];
    check_count(n);
    ig_value x = ig_onnx_in(n, 0);
    int ranks = group_size(n), axis = ig_onnx_axis(n, ig_onnx_int(n, "axis", 1), ig_onnx_rank(n, x));
    for (int r = 0; r < ranks; r++)
        parts[r] = ig_onnx_dim(n, x, axis);
    return ig_build_all_gather(n->g, x, n->import->collectives++, 0, axis, parts, ranks);
}

/* As many ranges of the first axis as there are ranks. */
ig_value ig_import_all_to_all(struct ig_onnx_node *n) {
    ig_dim dims[INGOT_MAX_RANK + 1];
    check_count(n);
    ig_value x = ig_onnx_in(n, 0);
    ig_onnx_check_rank(n, x, 1, INGOT_MAX_RANK, "input 0");
    const struct ig_type type = *ig_type_of(n->g, x);
    dims[0] = ig_dim_const(n->dims, group_size(n));
    dims[1] = ig_dim_div(n->dims, type.dim[0], dims[0]);
    if (ig_dim_equal(n->dims, ig_dim_mul(n->dims, dims[0], dims[1]), type.dim[0]) == IG_NO)
        ig_onnx_bad(n, "the first axis has %s elements, which %s ranks cannot share equally",
                    ig_dim_text(n->dims, type.dim[0]), ig_dim_text(n->dims, dims[0]));
    dims[2] = ig_dim_product(n->dims, type.dim + 1, type.rank - 1);
    ig_value opened = ig_build_reshape(n->g, x, dims, 3);
    return ig_build_reshape(n->g, ig_build_all_to_all(n->g, opened, n->import->collectives++, group_size(n)), type.dim,
                            type.rank);
}
