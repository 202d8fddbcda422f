/*
 * Contractions by cuBLASLt (base/library.h): candidates beside the generated ones, for regions that are nothing but a matrix
 * product, or a pointwise convolution, with what the library can do after it:
 *
 *     cast(activation(addend + (bias + product)))      in any order of the sums, each part but the product optional
 *
 * They have no code: what they are is their kernel's `library`, and their dims are the sizes of the call. A bias must be of
 * the results' type; where it is not, and is a constant, it is rounded when the engine is written.
 */
#include "ir/eval.h"
#include "kernel/affine.h"
#include "kernel/cuda_contract.h"

enum { CHOICES = 4 }; /* of the library, that are worth measuring */

struct product {
    struct ig_contract *c;
    struct ig_library_call *call;
    ig_value bias, addend;
};

/* ---- What follows ----------------------------------------------------------------------------------------------------- */

static const struct ig_node *def_of(const struct product *p, ig_value v, enum ig_op op) {
    return p->c->lower.is_input[v] ? NULL : ig_def_op(p->c->graph, v, op);
}

/* The value beneath a conversion between floats; v where there is none. */
static ig_value uncast(const struct product *p, ig_value v) {
    const struct ig_node *n = def_of(p, v, IG_OP_cast);
    return n && ig_dtype_is_float(ig_type_of(p->c->graph, n->in[0])->dtype) ? n->in[0] : v;
}

static bool is_scalar(const struct product *p, ig_value v, double wanted) {
    struct ig_graph *g = p->c->graph;
    v = uncast(p, v);
    if (!ig_info(g, v)->is_const || !ig_lower_is_literal(g, v)) return false;
    struct ingot_tensor t = ig_const_tensor(g, v);
    double found = ig_load_f64(t.dtype, t.data, 0), difference = found - wanted;
    ig_const_release(g, v, &t);
    return difference <= 1e-3 * wanted && -difference <= 1e-3 * wanted;
}

/* x for f(x, scalar) and f(scalar, x); IG_NO_VALUE where v is no such thing. */
static ig_value with_scalar(const struct product *p, ig_value v, enum ig_op op, double scalar) {
    const struct ig_node *n = def_of(p, v, op);
    for (int i = 0; n && i < 2; i++) {
        if (is_scalar(p, n->in[1 - i], scalar)) return n->in[i];
    }
    return IG_NO_VALUE;
}

/* The other operand of f(x, y) where one is x. */
static ig_value other_of(const struct product *p, ig_value v, enum ig_op op, ig_value x) {
    const struct ig_node *n = v == IG_NO_VALUE ? NULL : def_of(p, v, op);
    if (!n) return IG_NO_VALUE;
    return n->in[0] == x ? n->in[1] : n->in[1] == x ? n->in[0] : IG_NO_VALUE;
}

/* x * sigmoid(1.5957692 * (x + 0.044715 * x * x * x)), as the passes leave it (pass/recognize.c). */
static bool is_gelu_of(const struct product *p, ig_value x, ig_value gate) {
    const struct ig_node *sigmoid = def_of(p, gate, IG_OP_sigmoid);
    if (!sigmoid) return false;
    ig_value sum = with_scalar(p, sigmoid->in[0], IG_OP_mul, 1.5957691216);
    ig_value part = other_of(p, sum, IG_OP_add, x);
    ig_value cube = part == IG_NO_VALUE ? IG_NO_VALUE : with_scalar(p, part, IG_OP_mul, 0.044715);
    ig_value square = other_of(p, cube, IG_OP_mul, x);
    return other_of(p, square, IG_OP_mul, x) == x;
}

/* What v is the activation of. */
static ig_value find_activation(struct product *p, ig_value v) {
    ig_value x = with_scalar(p, v, IG_OP_max, 0);
    const struct ig_node *n = def_of(p, v, IG_OP_mul);
    if (x != IG_NO_VALUE) {
        p->call->activation = IG_LIBRARY_RELU;
        return x;
    }
    for (int i = 0; n && i < 2; i++) {
        if (!is_gelu_of(p, n->in[i], n->in[1 - i])) continue;
        p->call->activation = IG_LIBRARY_GELU;
        return n->in[i];
    }
    return v;
}

static bool same_dims(const struct product *p, ig_value v) {
    const struct ig_type *a = ig_type_of(p->c->graph, v), *b = ig_type_of(p->c->graph, p->c->node.out);
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = a->dim[i] == b->dim[i];
    return same;
}

/* An element for each column. */
static bool is_bias(const struct product *p, ig_value v) {
    const struct ig_type *t = ig_type_of(p->c->graph, v);
    if (t->rank == 0 || t->dim[t->rank - 1] != p->c->columns) return false;
    for (int i = 0; i < t->rank - 1; i++) {
        if (ig_contract_const(p->c, t->dim[i], 0) != 1) return false;
    }
    return true;
}

/* Takes a summand that the region is given: the first of its kind. */
static bool take_summand(struct product *p, ig_value v) {
    v = uncast(p, v);
    if (!p->c->lower.is_input[v] || ig_lower_is_literal(p->c->graph, v)) return false;
    if (p->bias == IG_NO_VALUE && is_bias(p, v)) {
        p->bias = v;
        return true;
    }
    if (p->addend != IG_NO_VALUE || !same_dims(p, v)) return false;
    p->addend = v;
    return true;
}

/* Walks from the result down to the product. */
static bool follow(struct product *p) {
    struct ig_contract *c = p->c;
    if (c->region->outputs.count != 1 || !same_dims(p, c->region->outputs.at[0])) return false;
    ig_value v = find_activation(p, uncast(p, c->region->outputs.at[0]));
    if (c->spatial && c->node.n_in > 2 && c->node.in[2] != IG_NO_VALUE && !take_summand(p, c->node.in[2])) return false;
    for (int i = 0; i < 2 && uncast(p, v) != c->node.out; i++) {
        const struct ig_node *n = def_of(p, uncast(p, v), IG_OP_add);
        if (!n || !same_dims(p, n->out)) return false;
        int summand = take_summand(p, n->in[1]) ? 1 : take_summand(p, n->in[0]) ? 0 : -1;
        if (summand < 0) return false;
        v = n->in[1 - summand];
    }
    return uncast(p, v) == c->node.out;
}

/* ---- The call --------------------------------------------------------------------------------------------------------- */

static uint32_t operand(const struct product *p, ig_value v) {
    return v == IG_NO_VALUE ? IG_LIBRARY_NO_OPERAND : (uint32_t)p->c->lower.buffer_of[v];
}

static bool choose_types(struct product *p) {
    struct ig_graph *g = p->c->graph;
    const struct ig_node *n = &p->c->node;
    enum ingot_dtype in = ig_type_of(g, n->in[0])->dtype, out = ig_type_of(g, p->c->region->outputs.at[0])->dtype;
    if (in != ig_type_of(g, n->in[1])->dtype || p->c->dtype != INGOT_F32) return false;
    if (p->addend != IG_NO_VALUE && ig_type_of(g, p->addend)->dtype != out) return false;
    if (p->bias != IG_NO_VALUE && ig_type_of(g, p->bias)->dtype != out) {
        if (!ig_info(g, p->bias)->is_const || ig_type_of(g, p->bias)->dtype != INGOT_F32) return false;
        p->c->kernel->rounded_bias = true;
    }
    p->call->in_type = in;
    p->call->out_type = out;
    p->call->rounded = in == INGOT_F32 && ig_attr_int(g, n, IG_ATTR_math) == IG_MATH_TF32;
    p->call->bias = operand(p, p->bias);
    p->call->addend = operand(p, p->addend);
    p->call->out = operand(p, p->c->region->outputs.at[0]);
    return ig_library_call_error(p->call) == NULL;
}

static bool at_least(struct ig_contract *c, ig_dim d, int64_t least) {
    int64_t lo, hi;
    ig_dim_range(c->graph->dims, d, &lo, &hi);
    return lo >= least;
}

/* The place of matrix b, a sum of a constant and a multiple of b. Sizes that do not fit are left to checks at run time. */
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

static bool find_matrices(struct product *p, ig_dim *sizes) {
    struct ig_contract *c = p->c;
    struct ig_dims *dims = c->graph->dims;
    ig_dim batch = ig_cuda_batch(c), rows = ig_cuda_rows(c);
    bool one = ig_contract_const(c, batch, 0) == 1;
    ig_x b = one ? ig_contract_int(c, 0) : ig_x_free_var(c->k, batch);
    enum ingot_dtype element = (enum ingot_dtype)p->call->in_type;
    struct ig_cuda_source first = ig_cuda_source_a(c, b, element), second = ig_cuda_source_b(c, b, element);
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

bool ig_cuda_contract_library(struct ig_contract *c) {
    struct ig_job *job = c->k->job;
    struct product p = {c, IG_NEW(job, struct ig_library_call), IG_NO_VALUE, IG_NO_VALUE};
    ig_dim sizes[IG_LIBRARY_SIZES];
    p.call->library = IG_LIBRARY_CUBLASLT;
    p.call->choice = (uint32_t)c->choice;
    if (c->spatial && (c->groups != 1 || !ig_attr_int(c->graph, &c->node, IG_ATTR_channels_last))) return false;
    if (!follow(&p) || !choose_types(&p) || !find_matrices(&p, sizes)) return false;
    c->choices = CHOICES;
    if (c->choice >= CHOICES) return true;
    c->k->dim_params.count = 0;
    for (int i = 0; i < IG_LIBRARY_SIZES; i++)
        IG_PUSH(job, &c->k->dim_params, sizes[i]);
    c->kernel->library = p.call;
    c->kernel->tiles = ig_dim_const(c->graph->dims, 1);
    c->kernel->tactic = ig_format(job, "%s, choice %d", ig_library_name(p.call->library), c->choice + 1);
    return true;
}
