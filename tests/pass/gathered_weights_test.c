/* Rows that choose weights from a list choose among products instead (pass/product/gathered_weights.c), where that pays. */
#include "support/check/rewrite_check.h"
#include "support/support.h"

enum { ON_GPU = REWRITE_ON_GPU };

#define MATMUL " {acc=f32, packed=0, n=0, math=0}: "
/* 24 numbers at %4, and as many indices up to 2 at %9. */
#define CHOICE                                                                                       \
    "  %3 = reduce_max(%0) {axes=[0,3]}: f32[1,4,6,1]\n"                                             \
    "  %4 = reshape(%3) {dims=[24]}: f32[24]\n" SCALAR(5, 0) "  %6 = max(%4, %5): f32[24]\n" SCALAR( \
        7, 2) "  %8 = min(%6, %7): f32[24]\n"                                                        \
              "  %9 = cast(%8) {to=i64, saturate=0}: i64[24]\n"
#define CHOICE_BEFORE "reduce_max f32[1,4,6,1]; reshape f32[24]; max f32[24]; min f32[24]; cast i64[24]; "
/* Rows [24,1,9] at %12, and as columns at %13. */
#define ROWS                                                       \
    "  %10 = reshape(%4) {dims=[24,1,1]}: f32[24,1,1]\n" DATA(     \
        11, "r", "[1,1,9]") "  %12 = mul(%10, %11): f32[24,1,9]\n" \
                            "  %13 = reshape(%12) {dims=[24,9,1]}: f32[24,9,1]\n"

/* clang-format off */
static const struct rewrite products[] = {
    /* rows by matrices, and matrices by columns */
    {"gathered-weights",
     CHOICE ROWS
     DATA(14, "w", "[3,9,7]")
     "  %15 = gather(%14, %9) {axis=0}: f32[24,9,7]\n"
     "  %16 = matmul(%12, %15)" MATMUL "f32[24,1,7]\n"
     OUT(16),
     CHOICE_BEFORE "reshape f32[24,1,1]; mul f32[24,1,9]; reshape f32[24,9]; matmul f32[24,21]; "
     "reshape f32[24,3,7]; reshape i64[24,1]; gather_nd f32[24,7]; reshape f32[24,1,7]", 1e-6, 0},
    {"gathered-weights",
     CHOICE ROWS
     DATA(14, "w", "[3,7,9]")
     "  %15 = reshape(%9) {dims=[24,1]}: i64[24,1]\n"
     "  %16 = gather_nd(%14, %15) {batch_dims=0}: f32[24,7,9]\n"
     "  %17 = matmul(%16, %13)" MATMUL "f32[24,7,1]\n"
     OUT(17),
     CHOICE_BEFORE "reshape f32[24,1,1]; mul f32[24,1,9]; reshape i64[24,1]; reshape f32[24,9]; matmul f32[24,21]; "
     "reshape f32[24,3,7]; gather_nd f32[24,7]; reshape f32[24,7,1]", 1e-6, ON_GPU},
    /* each row is there twice */
    {"gathered-weights",
     CHOICE
     "  %10 = slice(%4) {starts=[0], sizes=[12], steps=[1]}: f32[12]\n"
     "  %11 = reshape(%10) {dims=[12,1,1]}: f32[12,1,1]\n"
     DATA(12, "r", "[1,1,9]")
     "  %13 = mul(%11, %12): f32[12,1,9]\n"
     "  %14 = broadcast(%13) {dims=[12,2,9]}: f32[12,2,9]\n"
     "  %15 = reshape(%14) {dims=[24,1,9]}: f32[24,1,9]\n"
     DATA(16, "w", "[3,9,7]")
     "  %17 = gather(%16, %9) {axis=0}: f32[24,9,7]\n"
     "  %18 = matmul(%15, %17)" MATMUL "f32[24,1,7]\n"
     OUT(18),
     CHOICE_BEFORE "slice f32[12]; reshape f32[12,1,1]; mul f32[12,1,9]; reshape f32[12,9]; matmul f32[12,21]; "
     "reshape f32[12,1,21]; broadcast f32[12,2,21]; reshape f32[24,3,7]; reshape i64[24,1]; gather_nd f32[24,7]; "
     "reshape f32[24,1,7]", 1e-6, 0},
    /* more matrices than rows */
    {"gathered-weights",
     CHOICE ROWS
     DATA(14, "w", "[25,9,7]")
     "  %15 = gather(%14, %9) {axis=0}: f32[24,9,7]\n"
     "  %16 = matmul(%12, %15)" MATMUL "f32[24,1,7]\n"
     OUT(16),
     CHOICE_BEFORE "reshape f32[24,1,1]; mul f32[24,1,9]; gather f32[24,9,7]; matmul f32[24,1,7]", 0, ON_GPU},
    /* several rows for each choice */
    {"gathered-weights",
     CHOICE
     DATA(10, "w", "[3,9,7]")
     "  %11 = gather(%10, %9) {axis=0}: f32[24,9,7]\n"
     "  %12 = reshape(%4) {dims=[24,1,1]}: f32[24,1,1]\n"
     "  %13 = broadcast(%12) {dims=[24,2,9]}: f32[24,2,9]\n"
     "  %14 = matmul(%13, %11)" MATMUL "f32[24,2,7]\n"
     OUT(14),
     CHOICE_BEFORE "gather f32[24,9,7]; reshape f32[24,1,1]; broadcast f32[24,2,9]; matmul f32[24,2,7]", 0, 0},
};
/* clang-format on */

static void test_products(void **state) {
    CHECK_REWRITES(products);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
