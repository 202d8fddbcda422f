/*
 * fold-constants: evaluates small constants, so that later passes see numbers.
 *
 * Requires:   nothing.
 * Guarantees: a computed constant of at most 4096 elements becomes a plain constant, unless it derives from a named
 *             initialiser: that stays a recipe, for refitting. Scalars, indices (i64) and flags derived from named
 *             initialisers are folded too, since they decide the structure of the graph. Large constants stay lazy.
 */
#include "ir/build.h"
#include "ir/eval/eval.h"
#include "pass/match.h"
#include "pass/passes.h"

enum { MAX_ELEMENTS = 4096 };

static bool is_shape_like(enum ingot_dtype dtype) {
    return dtype == INGOT_I64 || dtype == INGOT_BOOL;
}

static ig_value fold(struct ig_graph *from, struct ig_graph *to, ig_value v) {
    struct ingot_tensor tensor = ig_const_tensor(from, v);
    size_t size = (size_t)ingot_tensor_elements(&tensor) * ingot_dtype_size(tensor.dtype);
    struct ig_data *data = IG_NEW(to->job, struct ig_data);
    data->bytes = ig_memdup(to->job, tensor.data, size);
    data->size = size;
    ig_value folded = ig_build_constant(to, tensor.dtype, tensor.rank, tensor.dims, data);
    ig_const_release(from, v, &tensor);
    return folded;
}

static bool fold_node(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    const struct ig_value_info *info = ig_info(rw->in, n->out);
    int64_t count;
    if (!info->is_const || n->n_out != 1 || n->op == IG_OP_constant) return false;
    if (!ig_dim_is_const(rw->in->dims, ig_type_elements(rw->in->dims, &info->type), &count)) return false;
    if (count == 0 || count > MAX_ELEMENTS) return false;
    if (info->is_refittable && count > 1 && !is_shape_like(info->type.dtype)) return false;
    out_values[0] = fold(rw->in, rw->out, n->out);
    return true;
}

struct ig_graph *ig_pass_fold_constants(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite(in, options, fold_node, NULL);
}
