/* Matrix products and pointwise convolutions by cuBLASLt; see library.h. */
#include "kernel/affine.h"
#include "kernel/cuda/library.h"

enum { CHOICES = 4 }; /* of the library's algorithms; more are not worth measuring */

static bool at_least(struct ig_contract *c, ig_dim d, int64_t least) {
    int64_t lo, hi;
    ig_dim_range(c->graph->dims, d, &lo, &hi);
    return lo >= least;
}

/* The position of matrix b as b * *out_step + *out_offset; false if it has no such form. Whether sizes fit is checked
 * at run time. */
static bool place(struct ig_contract *c, const struct ig_cuda_source *s, ig_x b, ig_dim *out_step, ig_dim *out_offset) {
    struct ig_affine sum;
    bool is_var = ig_x_look(c->k, b)->kind == IG_X_VAR;
    ig_affine_of(c->k, s->base, &sum);
    for (int i = 0; i < sum.count; i++) {
        if (!is_var || sum.term[i].atom != b) return false;
    }
    *out_step = is_var ? ig_affine_factor(c->k, &sum, b) : ig_dim_const(c->graph->dims, 0);
    *out_offset = sum.constant;
    return at_least(c, *out_step, 0) && at_least(c, *out_offset, 0);
}

static bool find_matrices(struct ig_library_region *p, ig_dim *sizes) {
    struct ig_contract *c = p->c;
    struct ig_dims *dims = c->graph->dims;
    ig_dim batch = ig_cuda_batch(c), rows = ig_cuda_rows(c);
    bool one = ig_contract_const(c, batch, 0) == 1;
    ig_x b = one ? ig_contract_int(c, 0) : ig_x_free_var(c->k, batch);
    struct ig_cuda_source first = ig_cuda_source_a(c, b, (enum ingot_dtype)p->call->a_type);
    struct ig_cuda_source second = ig_cuda_source_b(c, b, (enum ingot_dtype)p->call->b_type);
    if ((first.kind != IG_CUDA_ALONG && first.kind != IG_CUDA_ACROSS) ||
        (second.kind != IG_CUDA_ALONG && second.kind != IG_CUDA_ACROSS))
        return false;
    p->call->a = (uint32_t)first.buffer;
    p->call->b = (uint32_t)second.buffer;
    p->call->a_across = first.kind == IG_CUDA_ACROSS;
    p->call->b_along = second.kind == IG_CUDA_ALONG;
    sizes[IG_LIBRARY_BATCH] = batch;
    sizes[IG_LIBRARY_ROWS] = rows;
    sizes[IG_LIBRARY_COLUMNS] = c->columns;
    sizes[IG_LIBRARY_DEPTH] = c->depth;
    sizes[IG_LIBRARY_A_LD] = first.ld;
    sizes[IG_LIBRARY_B_LD] = second.ld;
    ig_dim a_length = p->call->a_across ? rows : c->depth, b_length = p->call->b_along ? c->depth : c->columns;
    return at_least(c, c->depth, 1) && at_least(c, ig_dim_sub(dims, first.ld, a_length), 0) &&
           at_least(c, ig_dim_sub(dims, second.ld, b_length), 0) &&
           place(c, &first, b, &sizes[IG_LIBRARY_A_STEP], &sizes[IG_LIBRARY_A_OFFSET]) &&
           place(c, &second, b, &sizes[IG_LIBRARY_B_STEP], &sizes[IG_LIBRARY_B_OFFSET]);
}

/* The library multiplies bytes, and floats of 8 bits, only where these sizes are multiples of what its tensor cores take, and bytes
 * only of more than 16 rows: its documentation has 4 for bytes and no such limit, but PyTorch, whose limits these are, found fewer
 * refused. A refusal when shapes are bound would be too late. */
static bool are_whole(const struct ig_library_region *p, const ig_dim *sizes) {
    static const enum ig_library_size of[] = {IG_LIBRARY_COLUMNS, IG_LIBRARY_DEPTH,   IG_LIBRARY_A_LD,
                                              IG_LIBRARY_B_LD,    IG_LIBRARY_A_STEP,  IG_LIBRARY_A_OFFSET,
                                              IG_LIBRARY_B_STEP,  IG_LIBRARY_B_OFFSET};
    struct ig_dims *dims = p->c->graph->dims;
    bool integer = ig_library_is_integer(p->call);
    if (!integer && !ig_library_is_float8(p->call)) return true;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        if (!ig_dim_divides(dims, ig_dim_const(dims, integer ? 8 : 16), sizes[of[i]])) return false;
    }
    return !integer || at_least(p->c, sizes[IG_LIBRARY_ROWS], 17);
}

/* Can sums of integers leave 32 bits? What becomes of them then is not documented. */
static bool may_overflow(const struct ig_library_region *p) {
    int64_t lo, hi;
    ig_dim_range(p->c->graph->dims, p->c->depth, &lo, &hi);
    return ig_library_is_integer(p->call) && hi > INT32_MAX / (128 * 128);
}

bool ig_cuda_contract_product(struct ig_contract *c) {
    struct ig_library_region p;
    ig_dim sizes[IG_LIBRARY_SIZES];
    if (c->has_twin || c->node.op == IG_OP_matmul_blocks || (c->spatial && c->groups != 1)) return false;
    if (!ig_library_region_init(&p, c, IG_LIBRARY_CUBLASLT, IG_LIBRARY_PRODUCT) || !find_matrices(&p, sizes))
        return false;
    return are_whole(&p, sizes) && !may_overflow(&p) && ig_library_region_finish(&p, sizes, CHOICES);
}
