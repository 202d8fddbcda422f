/* Elementwise kernels: every operator and every cast in every type, on hostile numbers, against the reference. */
#include <math.h>
#include <string.h>

#include "support/check/kernel_cases.h"

/* ---- Every elementwise operator ---------------------------------------------------------------------------------------- */

static const struct {
    enum ig_op op;
    const char *operands;
} map_operators[] = {
#define IG_MAP(name, arity, operands, result, on_float, on_int) {IG_OP_##name, #operands},
#include "ir/ops.def"
};
enum { MAP_OPERATORS = sizeof map_operators / sizeof *map_operators };

static bool takes(const char *operands, enum ingot_dtype dtype) {
    if (!strcmp(operands, "ANY")) return true;
    if (dtype == INGOT_BOOL) return !strcmp(operands, "BOOL");
    if (ig_dtype_is_float(dtype)) return !strcmp(operands, "FLOAT") || !strcmp(operands, "NUM");
    return !strcmp(operands, "INT") || !strcmp(operands, "NUM");
}

/* mod of floats is a - b * floor(a / b), which is meaningless if a / b has more digits than the type. normcdf promises
 * no relative error. */
static bool is_hostile_safe(enum ig_op op, enum ingot_dtype dtype) {
    return !(op == IG_OP_mod && ig_dtype_is_float(dtype)) && op != IG_OP_normcdf;
}

/* All operators on one type, one output each. */
static void build_operators(struct ig_graph *g, const void *argument) {
    enum ingot_dtype dtype = *(const enum ingot_dtype *)argument;
    struct ig_type type = sized_type(g, dtype, 1, (const int64_t[]){2003});
    ig_value x = ig_build_input(g, "x", &type), y = ig_build_input(g, "y", &type);
    for (int i = 0; i < MAP_OPERATORS; i++) {
        enum ig_op op = map_operators[i].op;
        if (!takes(map_operators[i].operands, dtype) || !is_hostile_safe(op, dtype)) continue;
        ig_value z = ig_op_info(op)->max_in == 1 ? ig_map1(g, op, x) : ig_map2(g, op, x, y);
        ig_build_output(g, ig_op_info(op)->name, z);
    }
}

static void every_operator_on_hostile_numbers(void **state) {
    (void)state;
    for (int t = 0; t < TEST_TYPES; t++) {
        add_case(ingot_dtype_name(test_types[t]), build_operators, &test_types[t], tolerance_of(test_types[t]),
                 GRAPH_HOSTILE | GRAPH_EACH);
    }
    check_all();
}

static void build_mod(struct ig_graph *g, const void *argument) {
    enum ingot_dtype dtype = *(const enum ingot_dtype *)argument;
    struct ig_type type = sized_type(g, dtype, 1, (const int64_t[]){100});
    ig_value x = ig_build_input(g, "x", &type), y = ig_build_input(g, "y", &type);
    ig_build_output(g, "z", ig_map2(g, IG_OP_mod, x, y));
}

static void mod_of_floats(void **state) {
    (void)state;
    for (int t = 0; t < 4; t++)
        add_case("mod", build_mod, &test_types[t], sum_tolerance(test_types[t]), 0);
    check_all();
}

/* Of numbers as they are, and of others that are close together where the function is neither 0 nor 1. */
static void build_normcdf(struct ig_graph *g, const void *argument) {
    enum ingot_dtype dtype = *(const enum ingot_dtype *)argument;
    struct ig_type type = sized_type(g, dtype, 1, (const int64_t[]){40003});
    ig_value x = ig_build_input(g, "x", &type);
    ig_build_output(g, "plain", ig_map1(g, IG_OP_normcdf, x));
    ig_build_output(g, "spread", ig_map1(g, IG_OP_normcdf, ig_map2(g, IG_OP_mul, x, ig_build_scalar(g, dtype, 6))));
}

/* Absolute errors: of CUDA's power of two, which is accurate to 2^-22, the polynomial and the subtraction from 1. */
static void normal_distribution(void **state) {
    (void)state;
    for (int t = 0; t < 4; t++) {
        double tolerance = test_types[t] == INGOT_F32 ? 1.5e-7 : tolerance_of(test_types[t]);
        add_case("hostile", build_normcdf, &test_types[t], tolerance, GRAPH_HOSTILE);
        add_case("usual", build_normcdf, &test_types[t], tolerance, 0);
    }
    check_all();
}

/* ---- Casts --------------------------------------------------------------------------------------------------------------- */

static ig_value rounded_to(struct ig_graph *g, ig_value x, enum ingot_dtype dtype) {
    return ingot_dtype_size(dtype) == 1 ? ig_build_cast_saturating(g, x, dtype) : ig_build_cast(g, x, dtype);
}

/* What activations make of numbers from -s to s, and of hostile ones, rounded to 16 bits or to floats of 8: GPUs have short forms for
 * these. normcdf promises no relative error far below 0. */
static void build_activations(struct ig_graph *g, const void *argument) {
    enum { COUNT = 65537 };
    static const enum ig_op functions[] = {IG_OP_normcdf, IG_OP_sigmoid, IG_OP_tanh};
    static const double ranges[] = {0x1p-5, 1, 4, 16}; /* the steps are exact */
    enum ingot_dtype dtype = *(const enum ingot_dtype *)argument;
    struct ig_type type = sized_type(g, INGOT_F32, 1, (const int64_t[]){COUNT});
    ig_value hostile = ig_build_input(g, "x", &type);
    /* Nothing is less than that. Without it the steps would be constants, and so would be what is made of them. */
    ig_value none = ig_map2(g, IG_OP_lt, hostile, ig_build_scalar(g, INGOT_F32, -INFINITY));
    ig_value steps = ig_map2(g, IG_OP_add, ig_build_cast(g, ig_build_iota(g, type.dim, 1, 0), INGOT_F32),
                             ig_build_cast(g, none, INGOT_F32));
    for (int r = 0; r < 5; r++) {
        ig_value x = hostile;
        if (r < 4) {
            x = ig_map2(g, IG_OP_mul, steps, ig_build_scalar(g, INGOT_F32, 2 * ranges[r] / (COUNT - 1)));
            x = ig_map2(g, IG_OP_sub, x, ig_build_scalar(g, INGOT_F32, ranges[r]));
        }
        for (int f = r < 3 ? 0 : 1; f < 3; f++) {
            ig_value y = ig_map1(g, functions[f], x);
            ig_build_output(g, "plain", rounded_to(g, y, dtype));
            ig_build_output(g, "times", rounded_to(g, ig_map2(g, IG_OP_mul, x, y), dtype));
        }
    }
}

/* Off by the distance of two numbers of the type at most: both are rounded, one of them from a slightly other value. */
static void activations_in_few_bits(void **state) {
    (void)state;
    static const enum ingot_dtype types[] = {INGOT_F16, INGOT_BF16, INGOT_F8E4M3FN, INGOT_F8E5M2};
    static const double distances[] = {0x1.01p-10, 0x1.01p-7, 0x1.01p-3, 0x1.01p-2};
    for (int t = 0; t < 4; t++)
        add_case(ingot_dtype_name(types[t]), build_activations, &types[t], distances[t],
                 GRAPH_HOSTILE | GRAPH_EACH | GRAPH_NUMBERS);
    check_all();
}

static void build_casts(struct ig_graph *g, const void *argument) {
    enum ingot_dtype from = *(const enum ingot_dtype *)argument;
    struct ig_type type = sized_type(g, from, 1, (const int64_t[]){1501});
    ig_value x = ig_build_input(g, "x", &type);
    for (int t = 0; t < TEST_TYPES; t++) {
        if (test_types[t] == from) continue;
        ig_build_output(g, ig_format(g->job, "to_%s", ingot_dtype_name(test_types[t])),
                        ig_build_cast(g, x, test_types[t]));
        ig_build_output(g, ig_format(g->job, "sat_%s", ingot_dtype_name(test_types[t])),
                        ig_build_cast_saturating(g, x, test_types[t]));
    }
}

/* A cast to a narrower type and back within one kernel must round. */
static void build_rounding(struct ig_graph *g, const void *argument) {
    (void)argument;
    struct ig_type type = sized_type(g, INGOT_F32, 1, (const int64_t[]){100});
    ig_value x = ig_build_input(g, "x", &type);
    for (int t = 2; t < 4; t++) {
        ig_value y = ig_build_cast(g, ig_build_cast(g, x, test_types[t]), INGOT_F32);
        ig_build_output(g, ig_format(g->job, "y%d", t), ig_map2(g, IG_OP_sub, x, y));
    }
}

static void every_cast(void **state) {
    (void)state;
    for (int t = 0; t < TEST_TYPES; t++) {
        add_case(ingot_dtype_name(test_types[t]), build_casts, &test_types[t], 0, GRAPH_HOSTILE | GRAPH_EACH);
    }
    add_case("rounding", build_rounding, NULL, 1e-7, 0);
    check_all();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_on_hostile_numbers),
        cmocka_unit_test(mod_of_floats),
        cmocka_unit_test(normal_distribution),
        cmocka_unit_test(activations_in_few_bits),
        cmocka_unit_test(every_cast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
