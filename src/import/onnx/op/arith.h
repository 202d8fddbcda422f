/* Short names for arithmetic in the importer, so that code reads like the formula. */
#ifndef IG_IMPORT_ONNX_ARITH_H
#define IG_IMPORT_ONNX_ARITH_H

#include "ir/build.h"

#define IG_ARITH1(name)                                                \
    static inline ig_value ig_##name(struct ig_graph *g, ig_value a) { \
        return ig_map1(g, IG_OP_##name, a);                            \
    }
#define IG_ARITH2(name)                                                            \
    static inline ig_value ig_##name(struct ig_graph *g, ig_value a, ig_value b) { \
        return ig_map2(g, IG_OP_##name, a, b);                                     \
    }
IG_ARITH1(neg)
IG_ARITH1(abs)
IG_ARITH1(floor)
IG_ARITH1(ceil)
IG_ARITH1(round)
IG_ARITH1(sqrt)
IG_ARITH1(exp)
IG_ARITH1(log)
IG_ARITH1(log1p)
IG_ARITH1(cos)
IG_ARITH1(sin)
IG_ARITH1(tanh)
IG_ARITH1(erf)
IG_ARITH1(sigmoid)
IG_ARITH1(not )
IG_ARITH2(add)
IG_ARITH2(sub)
IG_ARITH2(mul)
IG_ARITH2(div)
IG_ARITH2(mod)
IG_ARITH2(pow)
IG_ARITH2(min)
IG_ARITH2(max)
IG_ARITH2(and)
IG_ARITH2(or)
IG_ARITH2(eq)
IG_ARITH2(lt)
IG_ARITH2(le)
#undef IG_ARITH1
#undef IG_ARITH2

/* A scalar of the other operand's type. */
static inline ig_value ig_like(struct ig_graph *g, ig_value like, double value) {
    return ig_build_scalar(g, ig_type_of(g, like)->dtype, value);
}
/* The same operations with a number as the right operand (or, for ig_rsub_n and ig_rdiv_n, the left). */
static inline ig_value ig_add_n(struct ig_graph *g, ig_value a, double b) {
    return ig_add(g, a, ig_like(g, a, b));
}
static inline ig_value ig_sub_n(struct ig_graph *g, ig_value a, double b) {
    return ig_sub(g, a, ig_like(g, a, b));
}
static inline ig_value ig_rsub_n(struct ig_graph *g, double a, ig_value b) {
    return ig_sub(g, ig_like(g, b, a), b);
}
static inline ig_value ig_mul_n(struct ig_graph *g, ig_value a, double b) {
    return ig_mul(g, a, ig_like(g, a, b));
}
static inline ig_value ig_div_n(struct ig_graph *g, ig_value a, double b) {
    return ig_div(g, a, ig_like(g, a, b));
}
static inline ig_value ig_rdiv_n(struct ig_graph *g, double a, ig_value b) {
    return ig_div(g, ig_like(g, b, a), b);
}
static inline ig_value ig_min_n(struct ig_graph *g, ig_value a, double b) {
    return ig_min(g, a, ig_like(g, a, b));
}
static inline ig_value ig_max_n(struct ig_graph *g, ig_value a, double b) {
    return ig_max(g, a, ig_like(g, a, b));
}
static inline ig_value ig_lt_n(struct ig_graph *g, ig_value a, double b) {
    return ig_lt(g, a, ig_like(g, a, b));
}
static inline ig_value ig_gt_n(struct ig_graph *g, ig_value a, double b) {
    return ig_lt(g, ig_like(g, a, b), a);
}

#endif
