/* Elementwise operators: arithmetic, comparisons, logic, bits, casts. Broadcasting is the core operators' own
 * (NumPy's). */
#include <math.h>
#include <string.h>

#include "import/onnx/importer.h"
#include "import/onnx/op/arith.h"
#include "import/onnx/op/narrow.h"

ig_value ig_import_map1(struct ig_onnx_node *n) {
    return ig_map1(n->g, (enum ig_op)n->op->arg, ig_onnx_in(n, 0));
}

ig_value ig_import_map2(struct ig_onnx_node *n) {
    ig_value a = ig_onnx_in(n, 0), b = ig_onnx_in(n, 1);
    ig_onnx_check_same_type(n, a, b);
    return ig_map2(n->g, (enum ig_op)n->op->arg, a, b);
}

/* a > b is b < a. */
ig_value ig_import_map2_swapped(struct ig_onnx_node *n) {
    ig_value a = ig_onnx_in(n, 0), b = ig_onnx_in(n, 1);
    ig_onnx_check_same_type(n, a, b);
    return ig_map2(n->g, (enum ig_op)n->op->arg, b, a);
}

ig_value ig_import_variadic(struct ig_onnx_node *n) {
    ig_value result = ig_onnx_in(n, 0);
    for (uint32_t i = 1; i < n->n_in; i++) {
        ig_onnx_check_same_type(n, result, ig_onnx_in(n, i));
        result = ig_map2(n->g, (enum ig_op)n->op->arg, result, ig_onnx_in(n, i));
    }
    return result;
}

ig_value ig_import_mean(struct ig_onnx_node *n) {
    return ig_div_n(n->g, ig_import_variadic(n), n->n_in);
}

ig_value ig_import_reciprocal(struct ig_onnx_node *n) {
    return ig_rdiv_n(n->g, 1, ig_onnx_in(n, 0));
}

/* The result has the base's type. An integer base with a float exponent is computed in f64. */
ig_value ig_import_pow(struct ig_onnx_node *n) {
    ig_value base = ig_onnx_in(n, 0), exponent = ig_onnx_in(n, 1);
    enum ingot_dtype type = ig_onnx_type(n, base);
    bool mixed = !ig_dtype_is_float(type) && ig_dtype_is_float(ig_onnx_type(n, exponent));
    enum ingot_dtype compute = mixed ? INGOT_F64 : type;
    ig_value power = ig_pow(n->g, ig_build_cast(n->g, base, compute), ig_build_cast(n->g, exponent, compute));
    return ig_build_cast(n->g, power, type);
}

ig_value ig_import_mod(struct ig_onnx_node *n) {
    ig_value a = ig_onnx_in(n, 0), b = ig_onnx_in(n, 1);
    ig_onnx_check_same_type(n, a, b);
    return ig_map2(n->g, ig_onnx_flag(n, "fmod", false) ? IG_OP_fmod : IG_OP_mod, a, b);
}

ig_value ig_import_bitshift(struct ig_onnx_node *n) {
    static const char *const directions[] = {"LEFT", "RIGHT"};
    int direction = ig_onnx_choice(n, "direction", directions, 2, -1);
    ig_value a = ig_onnx_in(n, 0), b = ig_onnx_in(n, 1);
    if (direction < 0) ig_onnx_bad(n, "attribute 'direction' is missing");
    ig_onnx_check_same_type(n, a, b);
    return ig_map2(n->g, direction == 0 ? IG_OP_shl : IG_OP_shr, a, b);
}

ig_value ig_import_isinf(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0), infinite = ig_map1(n->g, IG_OP_isinf, x);
    bool positive = ig_onnx_flag(n, "detect_positive", true), negative = ig_onnx_flag(n, "detect_negative", true);
    if (positive && negative) return infinite;
    ig_value sign = negative ? ig_lt_n(n->g, x, 0) : ig_gt_n(n->g, x, 0);
    /* If neither sign is requested, the result is false: x < 0 and x > 0 at once. */
    if (!positive && !negative) sign = ig_and(n->g, sign, ig_lt_n(n->g, x, 0));
    return ig_and(n->g, infinite, sign);
}

/* ---- Clip: bounds as attributes, later as optional inputs ---- */

ig_value ig_import_clip_attributes(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0);
    if (ig_onnx_attr(n, "min")) x = ig_max_n(n->g, x, ig_onnx_float(n, "min", 0));
    if (ig_onnx_attr(n, "max")) x = ig_min_n(n->g, x, ig_onnx_float(n, "max", 0));
    return x;
}

static ig_value clip_bound(struct ig_onnx_node *n, uint32_t input) {
    ig_value bound = ig_onnx_in(n, input);
    ig_onnx_check_same_type(n, n->in[0], bound);
    /* Some files store a scalar as a vector of one element. */
    return ig_onnx_rank(n, bound) == 0 ? bound : ig_build_reshape(n->g, bound, NULL, 0);
}

ig_value ig_import_clip(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0);
    if (ig_onnx_has(n, 1)) x = ig_max(n->g, x, clip_bound(n, 1));
    if (ig_onnx_has(n, 2)) x = ig_min(n->g, x, clip_bound(n, 2));
    return x;
}

/* ---- Casts and selection ---- */

/* Integers that a cast of constants gives, so that shapes may depend on them. */
static bool cast_constants(struct ig_onnx_node *n, ig_value x, ig_value cast, ig_dim *out_elements, int *out_count) {
    int64_t ints[IG_ONNX_MAX_RATIOS];
    const struct ig_value_info *info = ig_info(n->g, x);
    if (!info->is_const || info->is_refittable || !ig_const_ints(n->g, cast, ints, IG_ONNX_MAX_RATIOS, out_count))
        return false;
    for (int i = 0; i < *out_count; i++)
        out_elements[i] = ig_dim_const(n->dims, ints[i]);
    return true;
}

/* Sizes computed in floats become symbolic integers again, where possible. */
ig_value ig_import_cast(struct ig_onnx_node *n) {
    if (!ig_onnx_attr(n, "to")) ig_onnx_bad(n, "attribute 'to' is missing");
    ig_value x = ig_onnx_in(n, 0);
    enum ingot_dtype to = ig_onnx_dtype(n->job, ig_onnx_int(n, "to", 0), "the result");
    ig_dim sizes[IG_ONNX_MAX_RATIOS];
    int count, rank = ig_onnx_rank(n, x);
    bool back = ig_dtype_is_float(ig_onnx_type(n, x)) && (to == INGOT_I64 || to == INGOT_I32) && rank <= 1;
    bool known = back && ig_onnx_truncate(n, x, sizes, &count);
    ig_value cast = known ? IG_NO_VALUE : ig_onnx_cast(n, x, to);
    if (!known && (!back || !cast_constants(n, x, cast, sizes, &count))) return cast;
    ig_value shape = rank == 0 ? ig_build_shape_scalar(n->g, sizes[0]) : ig_build_shape(n->g, sizes, count);
    return ig_build_cast(n->g, shape, to);
}

ig_value ig_import_cast_like(struct ig_onnx_node *n) {
    return ig_onnx_cast(n, ig_onnx_in(n, 0), ig_onnx_type(n, ig_onnx_in(n, 1)));
}

ig_value ig_import_where(struct ig_onnx_node *n) {
    ig_value condition = ig_onnx_in(n, 0), a = ig_onnx_in(n, 1), b = ig_onnx_in(n, 2);
    if (ig_onnx_type(n, condition) != INGOT_BOOL) ig_onnx_bad(n, "the condition is not bool");
    ig_onnx_check_same_type(n, a, b);
    return ig_build_where(n->g, condition, a, b);
}

/* ---- Operators without effect ---- */

ig_value ig_import_identity(struct ig_onnx_node *n) {
    return ig_onnx_in(n, 0);
}

/* In inference, dropout is the identity. */
ig_value ig_import_dropout(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0);
    double training = ig_onnx_has(n, 2) ? ig_onnx_const_scalar(n, 2, "training_mode", 0) : 0;
    if (training != 0 && ig_onnx_const_scalar(n, 1, "ratio", 0.5) != 0) {
        ig_onnx_refuse(n, "dropout in training mode is not supported");
    }
    if (ig_onnx_wants(n, 1)) {
        struct ig_type type = *ig_type_of(n->g, x);
        n->out[1] = ig_onnx_full(n, INGOT_BOOL, 1, type.dim, type.rank);
    }
    return x;
}
