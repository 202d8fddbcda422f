/*
 * Activations, written in core operators. f16 and bf16 are computed in f32 and rounded once.
 * Sources: Clevert et al. 2015 (ELU), Klambauer et al. 2017 (SELU), Hendrycks and Gimpel 2016 (GELU), Ramachandran et
 * al. 2017 (Swish), Misra 2019 (Mish), Barron 2017 (CELU).
 */
#include <math.h>

#include "import/onnx/importer.h"
#include "import/onnx/op/arith.h"

/* Input 0 in the type it is computed in. */
static ig_value begin(struct ig_onnx_node *n) {
    return ig_onnx_wide(n, ig_onnx_in(n, 0));
}

/* Casts back to input 0's type. */
static ig_value end(struct ig_onnx_node *n, ig_value y) {
    return ig_build_cast(n->g, y, ig_onnx_type(n, n->in[0]));
}

ig_value ig_import_relu(struct ig_onnx_node *n) {
    return ig_max_n(n->g, ig_onnx_in(n, 0), 0);
}

ig_value ig_import_leaky_relu(struct ig_onnx_node *n) {
    ig_value x = begin(n);
    return end(n, ig_build_where(n->g, ig_lt_n(n->g, x, 0), ig_mul_n(n->g, x, ig_onnx_float(n, "alpha", 0.01)), x));
}

ig_value ig_import_prelu(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0), slope = ig_onnx_in(n, 1);
    ig_onnx_check_same_type(n, x, slope);
    return ig_build_where(n->g, ig_lt_n(n->g, x, 0), ig_mul(n->g, x, slope), x);
}

ig_value ig_import_thresholded_relu(struct ig_onnx_node *n) {
    ig_value x = begin(n);
    ig_value above = ig_gt_n(n->g, x, ig_onnx_float(n, "alpha", 1));
    return end(n, ig_build_where(n->g, above, x, ig_like(n->g, x, 0)));
}

/* alpha * (exp(x / by) - 1) where x is negative, and zero elsewhere: so that it is bounded everywhere. */
static ig_value exp_part(struct ig_graph *g, ig_value x, double alpha, double by) {
    ig_value below = ig_min_n(g, x, 0);
    return ig_mul_n(g, ig_sub_n(g, ig_exp(g, by == 1 ? below : ig_div_n(g, below, by)), 1), alpha);
}

ig_value ig_import_elu(struct ig_onnx_node *n) {
    ig_value x = begin(n);
    return end(n, ig_build_where(n->g, ig_lt_n(n->g, x, 0), exp_part(n->g, x, ig_onnx_float(n, "alpha", 1), 1), x));
}

ig_value ig_import_selu(struct ig_onnx_node *n) {
    double alpha = ig_onnx_float(n, "alpha", 1.67326319217681884765625);
    double gamma = ig_onnx_float(n, "gamma", 1.05070102214813232421875);
    ig_value x = begin(n);
    ig_value y = ig_build_where(n->g, ig_lt_n(n->g, x, 0), exp_part(n->g, x, alpha, 1), x);
    return end(n, ig_mul_n(n->g, y, gamma));
}

ig_value ig_import_celu(struct ig_onnx_node *n) {
    double alpha = ig_onnx_float(n, "alpha", 1);
    if (alpha == 0) ig_onnx_bad(n, "attribute 'alpha' is 0");
    ig_value x = begin(n);
    return end(n, ig_add(n->g, ig_max_n(n->g, x, 0), exp_part(n->g, x, alpha, alpha)));
}

ig_value ig_import_sigmoid(struct ig_onnx_node *n) {
    return end(n, ig_sigmoid(n->g, begin(n)));
}

ig_value ig_import_tanh(struct ig_onnx_node *n) {
    return end(n, ig_tanh(n->g, begin(n)));
}

static ig_value hard_sigmoid(struct ig_graph *g, ig_value x, double alpha, double beta) {
    return ig_max_n(g, ig_min_n(g, ig_add_n(g, ig_mul_n(g, x, alpha), beta), 1), 0);
}

ig_value ig_import_hard_sigmoid(struct ig_onnx_node *n) {
    return end(n, hard_sigmoid(n->g, begin(n), ig_onnx_float(n, "alpha", 0.2), ig_onnx_float(n, "beta", 0.5)));
}

ig_value ig_import_hard_swish(struct ig_onnx_node *n) {
    ig_value x = begin(n);
    return end(n, ig_mul(n->g, x, hard_sigmoid(n->g, x, 1.0 / 6, 0.5)));
}

ig_value ig_import_swish(struct ig_onnx_node *n) {
    ig_value x = begin(n);
    double alpha = ig_onnx_float(n, "alpha", 1);
    return end(n, ig_mul(n->g, x, ig_sigmoid(n->g, alpha == 1 ? x : ig_mul_n(n->g, x, alpha))));
}

ig_value ig_import_swiglu(struct ig_onnx_node *n) {
    ig_value value = ig_onnx_in(n, 1);
    ig_onnx_check_same_type(n, ig_onnx_in(n, 0), value);
    return ig_mul(n->g, ig_import_swish(n), value);
}

/* log(1 + exp(x)), without overflow and without losing small terms. */
static ig_value softplus(struct ig_graph *g, ig_value x) {
    ig_value rest = ig_log1p(g, ig_exp(g, ig_neg(g, ig_abs(g, x))));
    return ig_add(g, ig_max_n(g, x, 0), rest);
}

ig_value ig_import_softplus(struct ig_onnx_node *n) {
    return end(n, softplus(n->g, begin(n)));
}

ig_value ig_import_mish(struct ig_onnx_node *n) {
    ig_value x = begin(n);
    return end(n, ig_mul(n->g, x, ig_tanh(n->g, softplus(n->g, x))));
}

ig_value ig_import_softsign(struct ig_onnx_node *n) {
    ig_value x = begin(n);
    return end(n, ig_div(n->g, x, ig_add_n(n->g, ig_abs(n->g, x), 1)));
}

ig_value ig_import_gelu(struct ig_onnx_node *n) {
    static const char *const kinds[] = {"none", "tanh"};
    struct ig_graph *g = n->g;
    ig_value x = begin(n), curve;
    if (ig_onnx_choice(n, "approximate", kinds, 2, 0) == 0) {
        curve = ig_erf(g, ig_mul_n(g, x, M_SQRT1_2));
    } else {
        ig_value cube = ig_mul(g, ig_mul(g, x, x), x);
        curve = ig_tanh(g, ig_mul_n(g, ig_add(g, x, ig_mul_n(g, cube, 0.044715)), sqrt(2 / M_PI)));
    }
    return end(n, ig_mul(g, ig_mul_n(g, x, 0.5), ig_add_n(g, curve, 1)));
}

ig_value ig_import_shrink(struct ig_onnx_node *n) {
    double lambd = ig_onnx_float(n, "lambd", 0.5), bias = ig_onnx_float(n, "bias", 0);
    struct ig_graph *g = n->g;
    ig_value x = begin(n);
    ig_value above = ig_build_where(g, ig_gt_n(g, x, lambd), ig_sub_n(g, x, bias), ig_like(g, x, 0));
    return end(n, ig_build_where(g, ig_lt_n(g, x, -lambd), ig_add_n(g, x, bias), above));
}
