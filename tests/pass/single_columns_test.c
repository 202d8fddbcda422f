/* Products with one column become sums of rows on CPUs (pass/product/single_columns.c), and no others. */
#include "support/check/rewrite_check.h"
#include "support/support.h"

enum { POISON = REWRITE_POISON, ON_GPU = REWRITE_ON_GPU };

#define MATMUL(a, b, dtype) "matmul(%" #a ", %" #b ") {acc=" dtype ", packed=0, n=0, math=0}"
#define SUM "mul f32[batch,seq,12]; reduce_sum f32[batch,seq,1]"

/* clang-format off */
static const struct rewrite columns[] = {
    /* weights; what stands behind the product stays there */
    {"single-columns",
     DATA(3, "w", "[12,1]")
     "  %4 = " MATMUL(1, 3, "f32") ": f32[batch,seq,1]\n"
     "  %5 = tanh(%4): f32[batch,seq,1]\n"
     OUT(5),
     SUM "; tanh f32[batch,seq,1]", 1e-6, 0},
    {"single-columns",
     DATA(3, "w", "[12,1]")
     "  %4 = " MATMUL(1, 3, "f32") ": f32[batch,seq,1]\n"
     OUT(4),
     "matmul f32[batch,seq,1]", 0, ON_GPU},
    /* activations, one matrix for each of the batch, and one row by several matrices */
    {"single-columns",
     "  %3 = slice(%1) {starts=[0,0,0], sizes=[batch,1,12], steps=[1,1,1]}: f32[batch,1,12]\n"
     "  %4 = transpose(%3) {perm=[0,2,1]}: f32[batch,12,1]\n"
     "  %5 = " MATMUL(1, 4, "f32") ": f32[batch,seq,1]\n"
     OUT(5),
     "slice f32[batch,1,12]; " SUM, 1e-6, 0},
    {"single-columns",
     DATA(3, "w", "[2,5]")
     "  %4 = slice(%0) {starts=[0,0,0,0], sizes=[batch,4,5,1], steps=[1,1,1,1]}: f32[batch,4,5,1]\n"
     "  %5 = " MATMUL(3, 4, "f32") ": f32[batch,4,2,1]\n"
     OUT(5),
     "slice f32[batch,4,5,1]; reshape f32[batch,4,1,5]; mul f32[batch,4,2,5]; reduce_sum f32[batch,4,2,1]", 1e-6, 0},
    /* NaN and infinities */
    {"single-columns",
     DATA(3, "w", "[12,1]")
     "  %4 = " MATMUL(1, 3, "f32") ": f32[batch,seq,1]\n"
     OUT(4),
     SUM, 1e-6, POISON},
    /* two columns, and halves */
    {"single-columns",
     DATA(3, "w", "[12,2]")
     "  %4 = " MATMUL(1, 3, "f32") ": f32[batch,seq,2]\n"
     OUT(4),
     "matmul f32[batch,seq,2]", 0, 0},
    {"single-columns",
     DATA(3, "w", "[12,1]")
     "  %4 = cast(%1) {to=f16, saturate=0}: f16[batch,seq,12]\n"
     "  %5 = cast(%3) {to=f16, saturate=0}: f16[12,1]\n"
     "  %6 = " MATMUL(4, 5, "f32") ": f32[batch,seq,1]\n"
     OUT(6),
     "cast f16[batch,seq,12]; matmul f32[batch,seq,1]", 0, 0},
};
/* clang-format on */

static void test_columns(void **state) {
    (void)state;
    CHECK_REWRITES(columns);
}

static void test_all_passes(void **state) {
    (void)state;
    check_all_passes(columns, sizeof columns / sizeof *columns);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_columns), cmocka_unit_test(test_all_passes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
