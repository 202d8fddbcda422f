/* Symbolic contents of reductions and cumulative sums. See elements.h. */
#include "ir/infer/elements.h"

typedef ig_dim (*combine_fn)(struct ig_dims *dims, ig_dim a, ig_dim b);

static combine_fn combiner(enum ig_op op) {
    if (op == IG_OP_reduce_prod) return ig_dim_mul;
    if (op == IG_OP_reduce_max) return ig_dim_max;
    return op == IG_OP_reduce_min ? ig_dim_min : ig_dim_add;
}

void ig_elements_reduce(struct ig_elements *e) {
    const ig_dim *in;
    int64_t dims[INGOT_MAX_RANK], index[INGOT_MAX_RANK], count = 1;
    combine_fn combine = combiner(e->node->op);
    bool started[IG_ELEMENTS_MAX] = {false};
    int rank = e->type->rank;
    if (!ig_elements_input(e, 0, &in, dims)) return;
    for (int i = 0; i < rank; i++)
        count *= dims[i];
    for (int64_t i = 0; i < count; i++) {
        ig_elements_split(i, dims, rank, index);
        int64_t at = ig_elements_broadcast(e, index, e->dim, rank); /* reduced axes have size 1 */
        ig_dim *result = &e->result[at];
        if (!started[at])
            *result = in[i];
        else if (*result == IG_DIM_NONE || in[i] == IG_DIM_NONE)
            *result = IG_DIM_NONE;
        else
            *result = combine(e->dims, *result, in[i]);
        started[at] = true;
    }
    if (count > 0 || combine == ig_dim_max || combine == ig_dim_min) return;
    for (int i = 0; i < e->count; i++)
        e->result[i] = ig_dim_const(e->dims, combine == ig_dim_mul);
}

void ig_elements_cumsum(struct ig_elements *e) {
    const ig_dim *in;
    int64_t dims[INGOT_MAX_RANK], inner = 1;
    int axis = (int)ig_elements_attr(e, IG_ATTR_axis)->i;
    bool exclusive = ig_elements_attr(e, IG_ATTR_exclusive)->i != 0;
    bool reverse = ig_elements_attr(e, IG_ATTR_reverse)->i != 0;
    if (!ig_elements_input(e, 0, &in, dims)) return;
    for (int i = axis + 1; i < e->type->rank; i++)
        inner *= dims[i];
    for (int64_t i = 0; i < e->count; i++) {
        int64_t step = i / inner % dims[axis], base = i - step * inner;
        if (step > 0) continue; /* each line is handled once, at its first element */
        ig_dim sum = ig_dim_const(e->dims, 0);
        for (int64_t j = 0; j < dims[axis]; j++) {
            int64_t at = base + (reverse ? dims[axis] - 1 - j : j) * inner;
            ig_dim before = sum;
            sum = sum == IG_DIM_NONE || in[at] == IG_DIM_NONE ? IG_DIM_NONE : ig_dim_add(e->dims, sum, in[at]);
            e->result[at] = exclusive ? before : sum;
        }
    }
}
