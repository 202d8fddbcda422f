/* The epilogues that vendor libraries support; see library.h. */
#include "kernel/cuda/library.h"

#include <math.h>

#include "ir/eval/eval.h"

/* ---- The epilogue ------------------------------------------------------------------------------------------------ */

static const struct ig_node *def_of(const struct ig_library_region *p, ig_value v, enum ig_op op) {
    return p->c->lower.is_input[v] ? NULL : ig_def_op(p->c->graph, v, op);
}

/* The operand of a cast between float types; v itself if it is no such cast. */
static ig_value uncast(const struct ig_library_region *p, ig_value v) {
    const struct ig_node *n = def_of(p, v, IG_OP_cast);
    return n && ig_dtype_is_float(ig_type_of(p->c->graph, n->in[0])->dtype) ? n->in[0] : v;
}

static bool is_scalar(const struct ig_library_region *p, ig_value v, double wanted) {
    struct ig_graph *g = p->c->graph;
    v = uncast(p, v);
    if (!ig_info(g, v)->is_const || !ig_is_literal(g, v)) return false;
    struct ingot_tensor t = ig_const_tensor(g, v);
    double found = ig_load_f64(t.dtype, t.data, 0), difference = found - wanted;
    ig_const_release(g, v, &t);
    return difference <= 1e-3 * wanted && -difference <= 1e-3 * wanted;
}

/* x if v is f(x, scalar) or f(scalar, x); else IG_NO_VALUE. */
static ig_value with_scalar(const struct ig_library_region *p, ig_value v, enum ig_op op, double scalar) {
    const struct ig_node *n = def_of(p, v, op);
    for (int i = 0; n && i < 2; i++) {
        if (is_scalar(p, n->in[1 - i], scalar)) return n->in[i];
    }
    return IG_NO_VALUE;
}

/* The other operand if v is f(x, y) or f(y, x); else IG_NO_VALUE. */
static ig_value other_of(const struct ig_library_region *p, ig_value v, enum ig_op op, ig_value x) {
    const struct ig_node *n = v == IG_NO_VALUE ? NULL : def_of(p, v, op);
    if (!n) return IG_NO_VALUE;
    return n->in[0] == x ? n->in[1] : n->in[1] == x ? n->in[0] : IG_NO_VALUE;
}

/* Is x * gate a GELU? That is x * sigmoid(1.5957692 * (x + 0.044715 * x * x * x)) after the passes
 * (pass/simplify/recognize.c). */
static bool is_gelu_of(const struct ig_library_region *p, ig_value x, ig_value gate) {
    const struct ig_node *sigmoid = def_of(p, gate, IG_OP_sigmoid);
    if (!sigmoid) return false;
    ig_value sum = with_scalar(p, sigmoid->in[0], IG_OP_mul, 1.5957691216);
    ig_value part = other_of(p, sum, IG_OP_add, x);
    ig_value cube = part == IG_NO_VALUE ? IG_NO_VALUE : with_scalar(p, part, IG_OP_mul, 0.044715);
    ig_value square = other_of(p, cube, IG_OP_mul, x);
    return other_of(p, square, IG_OP_mul, x) == x;
}

/* If v is an activation, notes it in the call and returns its operand; else returns v. */
static ig_value find_activation(struct ig_library_region *p, ig_value v) {
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

static bool same_dims(const struct ig_library_region *p, ig_value v) {
    const struct ig_type *a = ig_type_of(p->c->graph, v), *b = ig_type_of(p->c->graph, p->c->node.out);
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = a->dim[i] == b->dim[i];
    return same;
}

/* Is v a vector with one element per column? */
static bool is_bias(const struct ig_library_region *p, ig_value v) {
    const struct ig_type *t = ig_type_of(p->c->graph, v), *out = ig_type_of(p->c->graph, p->c->node.out);
    if (t->rank == 0 || t->dim[t->rank - 1] != out->dim[out->rank - 1]) return false;
    for (int i = 0; i < t->rank - 1; i++) {
        if (ig_contract_const(p->c, t->dim[i], 0) != 1) return false;
    }
    return true;
}

/* Takes v as bias or addend if it is a region input and the first of its kind. */
static bool take_summand(struct ig_library_region *p, ig_value v) {
    v = uncast(p, v);
    if (!p->c->lower.is_input[v] || ig_is_literal(p->c->graph, v)) return false;
    if (p->bias == IG_NO_VALUE && is_bias(p, v)) {
        p->bias = v;
        return true;
    }
    if (p->addend != IG_NO_VALUE || !same_dims(p, v)) return false;
    p->addend = v;
    return true;
}

static bool is_one_element(const struct ig_library_region *p, ig_value v) {
    const struct ig_type *t = ig_type_of(p->c->graph, v);
    bool one = true;
    for (int i = 0; i < t->rank; i++)
        one = one && ig_contract_const(p->c, t->dim[i], 0) == 1;
    return one;
}

/* Takes v as the product times a number: one that the kernel's text would have, or one in memory. */
static bool take_scaled(struct ig_library_region *p, ig_value v) {
    struct ig_graph *g = p->c->graph;
    const struct ig_node *n = def_of(p, v, IG_OP_mul);
    if (!n || !same_dims(p, n->out) || (p->c->spatial && p->bias != IG_NO_VALUE)) return false;
    int at = uncast(p, n->in[0]) == p->c->node.out ? 1 : 0;
    ig_value factor = uncast(p, n->in[at]);
    if (uncast(p, n->in[1 - at]) != p->c->node.out) return false;
    if (ig_info(g, factor)->is_const && ig_is_literal(g, factor)) {
        struct ingot_tensor t = ig_const_tensor(g, factor);
        p->call->scale = (float)ig_load_f64(t.dtype, t.data, 0);
        ig_const_release(g, factor, &t);
        return isfinite(p->call->scale);
    }
    p->factor = factor;
    return p->c->lower.is_input[factor] && ig_type_of(g, factor)->dtype == INGOT_F32 && is_one_element(p, factor);
}

/* Matches the region backwards, from its output to the product. */
static bool follow(struct ig_library_region *p) {
    struct ig_contract *c = p->c;
    if (c->region->outputs.count != 1 || !same_dims(p, c->region->outputs.at[0])) return false;
    ig_value v = find_activation(p, uncast(p, c->region->outputs.at[0]));
    if (c->spatial && c->node.n_in > 2 && c->node.in[2] != IG_NO_VALUE && !take_summand(p, c->node.in[2])) return false;
    for (int i = 0; i < 2 && uncast(p, v) != c->node.out; i++) {
        const struct ig_node *n = def_of(p, uncast(p, v), IG_OP_add);
        if (!n || !same_dims(p, n->out)) break;
        int summand = take_summand(p, n->in[1]) ? 1 : take_summand(p, n->in[0]) ? 0 : -1;
        if (summand < 0) return false;
        v = n->in[1 - summand];
    }
    return uncast(p, v) == c->node.out || take_scaled(p, uncast(p, v));
}

/* ---- The call ---------------------------------------------------------------------------------------------------- */

static uint32_t operand(const struct ig_library_region *p, ig_value v) {
    return v == IG_NO_VALUE ? IG_LIBRARY_NO_OPERAND : (uint32_t)p->c->lower.buffer_of[v];
}

/* Does the library sum up products of these types as the contraction does? */
static bool choose_sums(struct ig_library_region *p, enum ingot_dtype a, enum ingot_dtype b) {
    int64_t math = ig_attr_int(p->c->graph, &p->c->node, IG_ATTR_math);
    enum ig_cuda_math bytes;
    if (ingot_dtype_size(a) > 1) {
        p->call->rounded = a == INGOT_F32 && math == IG_MATH_TF32;
        return p->c->dtype == INGOT_F32;
    }
    if (!ig_cuda_math_of_bytes(a, b, p->c->target->sm, &bytes)) return false;
    if (bytes == IG_CUDA_I8) return p->c->dtype == INGOT_I32;
    p->call->rounded = math == IG_MATH_FAST;
    return p->c->dtype == INGOT_F32 && p->call->rounded;
}

static bool choose_types(struct ig_library_region *p) {
    bool rounds = false;
    struct ig_graph *g = p->c->graph;
    const struct ig_node *n = &p->c->node;
    enum ingot_dtype a = ig_type_of(g, n->in[0])->dtype, b = ig_type_of(g, n->in[1])->dtype;
    enum ingot_dtype out = ig_type_of(g, p->c->region->outputs.at[0])->dtype;
    if (!choose_sums(p, a, b)) return false;
    if (p->addend != IG_NO_VALUE && ig_type_of(g, p->addend)->dtype != out) return false;
    if (p->bias != IG_NO_VALUE && ig_type_of(g, p->bias)->dtype != out) {
        if (!ig_info(g, p->bias)->is_const || ig_type_of(g, p->bias)->dtype != INGOT_F32) return false;
        rounds = true;
    }
    p->call->a_type = a;
    p->call->b_type = b;
    p->call->out_type = out;
    p->call->factor = operand(p, p->factor);
    p->call->bias = operand(p, p->bias);
    if (rounds) ig_library_adapt(p->c->kernel, p->call->bias);
    p->call->addend = operand(p, p->addend);
    p->call->out = operand(p, p->c->region->outputs.at[0]);
    return true;
}

bool ig_library_region_init(struct ig_library_region *region, struct ig_contract *c, enum ig_library library,
                            enum ig_library_operation operation) {
    *region =
        (struct ig_library_region){c, IG_NEW(c->k->job, struct ig_library_call), IG_NO_VALUE, IG_NO_VALUE, IG_NO_VALUE};
    region->call->library = library;
    region->call->operation = operation;
    region->call->choice = (uint32_t)c->choice;
    region->call->scale = 1;
    if (c->spatial && !ig_contract_attr_int(c, IG_ATTR_channels_last)) return false;
    return follow(region) && choose_types(region);
}

bool ig_library_region_finish(struct ig_library_region *region, const ig_dim *sizes, int choices) {
    struct ig_contract *c = region->c;
    if (ig_library_call_error(region->call)) return false;
    c->choices = choices;
    if (c->choice >= choices) return true;
    c->k->dim_params.count = 0;
    for (uint32_t i = 0; i < ig_library_size_count(region->call); i++)
        IG_PUSH(c->k->job, &c->k->dim_params, sizes[i]);
    c->kernel->library = region->call;
    c->kernel->tiles = ig_dim_const(c->graph->dims, 1);
    c->kernel->tactic = ig_format(c->k->job, "%s, choice %d", ig_library_name(region->call->library), c->choice + 1);
    return true;
}
