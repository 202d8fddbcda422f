/* Kernels on narrow types, against the reference: every cast, of every code and of hostile numbers, and every movement. */
#include "support/check/kernel_cases.h"

static const enum ingot_dtype narrow[] = {INGOT_I4,       INGOT_U4,     INGOT_I2,         INGOT_U2,
                                          INGOT_F8E4M3FN, INGOT_F8E5M2, INGOT_F8E4M3FNUZ, INGOT_F8E5M2FNUZ,
                                          INGOT_F8E8M0,   INGOT_F4E2M1};
enum { NARROW = sizeof narrow / sizeof *narrow, COUNT = 2003 };

/* Each type's casts, saturating or not, to a type; composed by the builder. */
static void add_casts(struct ig_graph *g, ig_value x, enum ingot_dtype to) {
    if (ig_type_of(g, x)->dtype == to) return;
    const char *name = ingot_dtype_name(to);
    ig_build_output(g, ig_format(g->job, "to_%s", name), ig_build_cast(g, x, to));
    ig_build_output(g, ig_format(g->job, "sat_%s", name), ig_build_cast_saturating(g, x, to));
}

static void build_from_narrow(struct ig_graph *g, const void *argument) {
    struct ig_type type = sized_type(g, *(const enum ingot_dtype *)argument, 1, (const int64_t[]){COUNT});
    ig_value x = ig_build_input(g, "x", &type);
    for (int t = 0; t < TEST_TYPES; t++)
        add_casts(g, x, test_types[t]);
    for (int t = 0; t < NARROW; t++)
        add_casts(g, x, narrow[t]);
}

static void build_to_narrow(struct ig_graph *g, const void *argument) {
    struct ig_type type = sized_type(g, *(const enum ingot_dtype *)argument, 1, (const int64_t[]){COUNT});
    ig_value x = ig_build_input(g, "x", &type);
    for (int t = 0; t < NARROW; t++)
        add_casts(g, x, narrow[t]);
}

static void casts(void **state) {
    (void)state;
    for (int t = 0; t < NARROW; t++)
        add_case(ingot_dtype_name(narrow[t]), build_from_narrow, &narrow[t], 0, GRAPH_HOSTILE | GRAPH_EACH);
    for (int t = 0; t < TEST_TYPES; t++)
        add_case(ingot_dtype_name(test_types[t]), build_to_narrow, &test_types[t], 0, GRAPH_HOSTILE | GRAPH_EACH);
    check_all();
}

/* Numbers around those of a type: multiples of 1/64, where all of them have ties, and the same ones scaled. */
static void build_ties(struct ig_graph *g, const void *argument) {
    (void)argument;
    struct ig_type type = sized_type(g, INGOT_F32, 1, (const int64_t[]){65537});
    ig_value x = ig_build_cast(g, ig_build_iota(g, type.dim, 1, 0), INGOT_F32);
    x = ig_map2(g, IG_OP_sub, x, ig_build_input(g, "shift", &(struct ig_type){.dtype = INGOT_F32}));
    static const double scales[] = {0x1p-6, 0x1p-22, 0x1p-134};
    for (int s = 0; s < 3; s++) {
        ig_value y = ig_map2(g, IG_OP_mul, x, ig_build_scalar(g, INGOT_F32, scales[s]));
        for (int t = 4; t < NARROW; t++)
            add_casts(g, y, narrow[t]);
    }
}

static void ties(void **state) {
    (void)state;
    add_case("ties", build_ties, NULL, 0, GRAPH_EACH);
    check_all();
}

/* Elements move as they are, through a cast or not. */
static void build_moves(struct ig_graph *g, const void *argument) {
    enum ingot_dtype dtype = *(const enum ingot_dtype *)argument;
    static const int64_t sizes[] = {-1, 6, 10}, turned[] = {2, 0, 1};
    ig_value x = input(g, "x", dtype, 3, sizes), y = input(g, "y", dtype, 3, sizes),
             which = input(g, "c", INGOT_BOOL, 1, sizes + 2);
    ig_value joined = ig_build_concat(g, (ig_value[]){x, y}, 2, 1), chosen = ig_build_where(g, which, x, y);
    ig_value moved = ig_build_transpose(g, joined, turned);
    ig_dim none[] = {number(g, 0), number(g, 0), number(g, 0)}, one[] = {number(g, 1), number(g, 2), number(g, 3)};
    ig_value padded = ig_build_pad(g, chosen, none, one, IG_PAD_CONSTANT, IG_NO_VALUE);
    ig_value flat = ig_build_reshape(g, moved, (ig_dim[]){ig_type_elements(g->dims, ig_type_of(g, moved))}, 1);
    enum ingot_dtype beside = ig_dtype_beside(dtype);
    ig_build_output(g, "moved", moved);
    ig_build_output(g, "padded", padded);
    ig_build_output(g, "flat", flat);
    ig_build_output(g, "wide", ig_build_cast(g, moved, beside));
    ig_value literal = random_constant(g, dtype, 0, NULL, 3),
             weight = random_constant(g, dtype, 1, (const int64_t[]){10}, 4);
    ig_build_output(g, "literal", ig_build_where(g, which, x, literal));
    ig_build_output(g, "literal_wide",
                    ig_map2(g, IG_OP_add, ig_build_cast(g, literal, beside), ig_build_cast(g, x, beside)));
    ig_build_output(g, "weight", ig_build_where(g, which, weight, x));
    ig_build_output(g, "product", ig_map2(g, IG_OP_mul, ig_build_cast(g, weight, beside), ig_build_cast(g, y, beside)));
}

static void moves(void **state) {
    (void)state;
    for (int t = 0; t < NARROW; t++)
        add_case(ingot_dtype_name(narrow[t]), build_moves, &narrow[t], 0, GRAPH_HOSTILE | GRAPH_EACH);
    check_all();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(casts),
        cmocka_unit_test(ties),
        cmocka_unit_test(moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
