/* Few long rows are reduced in parts (pass/simplify/split_rows.c), and no others. */
#include "support/check/rewrite_check.h"
#include "support/support.h"

enum { POISON = REWRITE_POISON, ON_GPU = REWRITE_ON_GPU };

/* %5: pictures of 600 lines of 6 groups of 20 channels. */
#define PICTURE                                                           \
    "  %3 = reshape(%0) {dims=[batch,1,6,20]}: f32[batch,1,6,20]\n" DATA( \
        4, "w", "[600,6,20]") "  %5 = add(%3, %4): f32[batch,600,6,20]\n"
#define PICTURE_BEFORE "reshape f32[batch,1,6,20]; add f32[batch,600,6,20]; "
/* Of them, what one normalises by. */
#define STATISTICS                                            \
    "  %6 = reduce_mean(%5) {axes=[1,3]}: f32[batch,1,6,1]\n" \
    "  %7 = sub(%5, %6): f32[batch,600,6,20]\n"               \
    "  %8 = mul(%7, %7): f32[batch,600,6,20]\n"               \
    "  %9 = reduce_mean(%8) {axes=[1,3]}: f32[batch,1,6,1]\n" \
    "  %10 = sqrt(%9): f32[batch,1,6,1]\n"                    \
    "  %11 = div(%7, %10): f32[batch,600,6,20]\n"

/* clang-format off */
static const struct rewrite rows[] = {
    /* a mean and a variance: one reading of each part gives both */
    {"split-rows",
     PICTURE
     STATISTICS
     OUT(11),
     PICTURE_BEFORE
     "reduce_mean f32[batch,600,6,1]; reduce_mean f32[batch,1,6,1]; sub f32[batch,600,6,20]; sub f32[batch,600,6,20]; "
     "mul f32[batch,600,6,20]; reduce_mean f32[batch,600,6,1]; sub f32[batch,600,6,1]; mul f32[batch,600,6,1]; "
     "add f32[batch,600,6,1]; reduce_mean f32[batch,1,6,1]; sqrt f32[batch,1,6,1]; div f32[batch,600,6,20]",
     2e-5, 0},
    /* extrema and sums, of NaN and infinities too */
    {"split-rows",
     PICTURE
     "  %6 = reduce_max(%5) {axes=[1,3]}: f32[batch,1,6,1]\n"
     "  output \"most\" = %6\n"
     "  %7 = reduce_min(%5) {axes=[1,2,3]}: f32[batch,1,1,1]\n"
     OUT(7),
     PICTURE_BEFORE
     "reduce_max f32[batch,600,6,1]; reduce_max f32[batch,1,6,1]; reduce_min f32[batch,600,1,1]; "
     "reduce_min f32[batch,1,1,1]",
     0, POISON},
    {"split-rows",
     PICTURE
     "  %6 = reduce_sum(%5) {axes=[1,3]}: f32[batch,1,6,1]\n"
     OUT(6),
     PICTURE_BEFORE
     "reduce_sum f32[batch,600,6,1]; reduce_sum f32[batch,1,6,1]", 2e-6, 0},
    /* parts of six elements would leave much to reduce once more */
    {"split-rows",
     PICTURE
     "  %6 = reduce_sum(%5) {axes=[1,2]}: f32[batch,1,1,20]\n"
     OUT(6),
     PICTURE_BEFORE
     "reduce_sum f32[batch,1,1,20]", 0, 0},
    /* distances from something else than the mean */
    {"split-rows",
     PICTURE
     "  %6 = reduce_max(%5) {axes=[1,3]}: f32[batch,1,6,1]\n"
     "  %7 = sub(%5, %6): f32[batch,600,6,20]\n"
     "  %8 = mul(%7, %7): f32[batch,600,6,20]\n"
     "  %9 = reduce_mean(%8) {axes=[1,3]}: f32[batch,1,6,1]\n"
     OUT(9),
     PICTURE_BEFORE
     "reduce_max f32[batch,600,6,1]; reduce_max f32[batch,1,6,1]; sub f32[batch,600,6,20]; mul f32[batch,600,6,20]; "
     "reduce_mean f32[batch,600,6,1]; reduce_mean f32[batch,1,6,1]", 2e-6, 0},
    /* GPUs divide rows among blocks, unless most of them would be idle */
    {"split-rows",
     "  %3 = reshape(%0) {dims=[batch,1,120]}: f32[batch,1,120]\n"
     DATA(4, "w", "[2400,120]")
     "  %5 = add(%3, %4): f32[batch,2400,120]\n"
     "  %6 = reduce_sum(%5) {axes=[1,2]}: f32[batch,1,1]\n"
     OUT(6),
     "reshape f32[batch,1,120]; add f32[batch,2400,120]; reduce_sum f32[batch,2400,1]; reduce_sum f32[batch,1,1]",
     0, ON_GPU},
    {"split-rows",
     PICTURE
     STATISTICS
     OUT(11),
     PICTURE_BEFORE
     "reduce_mean f32[batch,1,6,1]; sub f32[batch,600,6,20]; mul f32[batch,600,6,20]; reduce_mean f32[batch,1,6,1]; "
     "sqrt f32[batch,1,6,1]; div f32[batch,600,6,20]", 0, ON_GPU},
    /* one axis has no parts */
    {"split-rows",
     "  %3 = reshape(%0) {dims=[batch,1,120]}: f32[batch,1,120]\n"
     DATA(4, "w", "[600,120]")
     "  %5 = add(%3, %4): f32[batch,600,120]\n"
     "  %6 = reduce_mean(%5) {axes=[1]}: f32[batch,1,120]\n"
     OUT(6),
     "reshape f32[batch,1,120]; add f32[batch,600,120]; reduce_mean f32[batch,1,120]", 0, 0},
    /* rows that are short, and rows that are many */
    {"split-rows",
     "  %3 = reduce_mean(%0) {axes=[1,2,3]}: f32[batch,1,1,1]\n"
     OUT(3),
     "reduce_mean f32[batch,1,1,1]", 0, 0},
    {"split-rows",
     "  %3 = reshape(%0) {dims=[batch,1,1,120]}: f32[batch,1,1,120]\n"
     DATA(4, "w", "[20,60,120]")
     "  %5 = add(%3, %4): f32[batch,20,60,120]\n"
     "  %6 = reduce_mean(%5) {axes=[2,3]}: f32[batch,20,1,1]\n"
     OUT(6),
     "reshape f32[batch,1,1,120]; add f32[batch,20,60,120]; reduce_mean f32[batch,20,1,1]", 0, 0},
};
/* clang-format on */

static void test_rows(void **state) {
    CHECK_REWRITES(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
