/* Sums of relative positions become part of the product of queries and keys (pass/product/relative_positions.c). */
#include "support/check/rewrite_check.h"
#include "support/support.h"

enum { ON_GPU = REWRITE_ON_GPU | REWRITE_MANY };

/* clang-format off */

/* From x f32[batch,4,6,5]: queries of 6 x 10 places [batch,4,60,5] at %10, keys of 4 x 16 places [batch,4,5,64] at %11, a
 * row of keys' term [batch,4,6,10,4,1] at %12, a column's [batch,4,6,10,1,16] at %13. */
#define GRID \
    "  %18 = cast(%0) {to=f16, saturate=0}: f16[batch,4,6,5]\n" \
    "  %20 = slice(%18) {starts=[0,0,0,0], sizes=[batch,4,1,5], steps=[1,1,1,1]}: f16[batch,4,1,5]\n" \
    DATA(21, "k", "[1,4,64,5]") \
    "  %22 = cast(%21) {to=f16, saturate=0}: f16[1,4,64,5]\n  %23 = add(%20, %22): f16[batch,4,64,5]\n" \
    DATA(14, "q", "[1,4,60,5]") \
    "  %15 = cast(%14) {to=f16, saturate=0}: f16[1,4,60,5]\n  %10 = add(%20, %15): f16[batch,4,60,5]\n" \
    "  %11 = transpose(%23) {perm=[0,1,3,2]}: f16[batch,4,5,64]\n" \
    DATA(24, "rows", "[5,4]") \
    "  %25 = cast(%24) {to=f16, saturate=0}: f16[5,4]\n" \
    "  %26 = matmul(%10, %25) {acc=f16, packed=0, n=0, math=0}: f16[batch,4,60,4]\n" \
    "  %12 = reshape(%26) {dims=[batch,4,6,10,4,1]}: f16[batch,4,6,10,4,1]\n" \
    DATA(27, "columns", "[5,16]") \
    "  %28 = cast(%27) {to=f16, saturate=0}: f16[5,16]\n" \
    "  %29 = matmul(%10, %28) {acc=f16, packed=0, n=0, math=0}: f16[batch,4,60,16]\n" \
    "  %13 = reshape(%29) {dims=[batch,4,6,10,1,16]}: f16[batch,4,6,10,1,16]\n"
#define PRODUCT "  %30 = matmul(%10, %11) {acc=f16, packed=0, n=0, math=0}: f16[batch,4,60,64]\n"
#define SUM                                         \
    "  %31 = add(%12, %13): f16[batch,4,6,10,4,16]\n" \
    "  %32 = reshape(%31) {dims=[batch,4,60,64]}: f16[batch,4,60,64]\n"
#define GRID_AFTER                                                                                    \
    "cast f16[batch,4,6,5]; slice f16[batch,4,1,5]; add f16[batch,4,64,5]; add f16[batch,4,60,5]; matmul f16[batch,4,60,4]; " \
    "matmul f16[batch,4,60,16]; "
#define GRID_BEFORE                                                                                       \
    "cast f16[batch,4,6,5]; slice f16[batch,4,1,5]; add f16[batch,4,64,5]; add f16[batch,4,60,5]; transpose f16[batch,4,5,64]; " \
    "matmul f16[batch,4,60,4]; reshape f16[batch,4,6,10,4,1]; matmul f16[batch,4,60,16]; reshape f16[batch,4,6,10,1,16]; "

static const struct rewrite sums[] = {
    /* a sum that is reshaped (Segment Anything) */
    {"relative-positions", GRID PRODUCT SUM "  %33 = add(%30, %32): f16[batch,4,60,64]\n" OUT(33),
     GRID_AFTER
     "broadcast f16[batch,4,60,7]; broadcast f16[batch,4,64,27]; concat f16[batch,4,60,32]; concat f16[batch,4,64,32]; "
     "transpose f16[batch,4,32,64]; matmul f16[batch,4,60,64]",
     4e-3, ON_GPU},
    {"relative-positions", GRID PRODUCT SUM "  %33 = add(%32, %30): f16[batch,4,60,64]\n" OUT(33),
     GRID_AFTER
     "broadcast f16[batch,4,60,7]; broadcast f16[batch,4,64,27]; concat f16[batch,4,60,32]; concat f16[batch,4,64,32]; "
     "transpose f16[batch,4,32,64]; matmul f16[batch,4,60,64]",
     4e-3, ON_GPU},
    /* terms one after the other, on scores that are reshaped (MViTv2 of timm) */
    {"relative-positions",
     GRID PRODUCT
     "  %31 = reshape(%30) {dims=[batch,4,6,10,4,16]}: f16[batch,4,6,10,4,16]\n"
     "  %32 = add(%31, %12): f16[batch,4,6,10,4,16]\n  %33 = add(%32, %13): f16[batch,4,6,10,4,16]\n"
     "  %34 = reshape(%33) {dims=[batch,4,60,64]}: f16[batch,4,60,64]\n"
     OUT(34),
     GRID_AFTER
     "broadcast f16[batch,4,60,7]; broadcast f16[batch,4,64,11]; concat f16[batch,4,60,16]; "
     "concat f16[batch,4,64,16]; broadcast f16[batch,4,64,16]; concat f16[batch,4,60,32]; "
     "concat f16[batch,4,64,32]; transpose f16[batch,4,32,64]; matmul f16[batch,4,60,64]; reshape f16[batch,4,6,10,4,16]; "
     "reshape f16[batch,4,60,64]",
     4e-3, ON_GPU},
    /* terms that are parts of what is filled up with zeros (Halo Transformers) */
    {"relative-positions",
     GRID PRODUCT
     "  %31 = pad(%26) {before=[0,0,0,0], after=[0,0,0,1], mode=0}: f16[batch,4,60,5]\n"
     "  %32 = slice(%31) {starts=[0,0,0,1], sizes=[batch,4,60,4], steps=[1,1,1,1]}: f16[batch,4,60,4]\n"
     "  %33 = reshape(%32) {dims=[batch,4,6,10,4,1]}: f16[batch,4,6,10,4,1]\n"
     "  %34 = add(%33, %13): f16[batch,4,6,10,4,16]\n  %35 = reshape(%34) {dims=[batch,4,60,64]}: f16[batch,4,60,64]\n"
     "  %36 = add(%30, %35): f16[batch,4,60,64]\n"
     OUT(36),
     GRID_AFTER
     "pad f16[batch,4,60,5]; slice f16[batch,4,60,4]; broadcast f16[batch,4,60,7]; broadcast f16[batch,4,64,27]; "
     "concat f16[batch,4,60,32]; concat f16[batch,4,64,32]; transpose f16[batch,4,32,64]; matmul f16[batch,4,60,64]",
     4e-3, ON_GPU},
    /* scores times a number, of a query and two keys beside the grid (MViTv2 of torchvision) */
    {"relative-positions",
     GRID
     DATA(40, "first", "[1,4,2,5]")
     "  %41 = cast(%40) {to=f16, saturate=0}: f16[1,4,2,5]\n"
     "  %42 = broadcast(%41) {dims=[batch,4,2,5]}: f16[batch,4,2,5]\n"
     "  %43 = concat(%42, %23) {axis=2}: f16[batch,4,66,5]\n  %44 = concat(%20, %10) {axis=2}: f16[batch,4,61,5]\n"
     "  %45 = transpose(%43) {perm=[0,1,3,2]}: f16[batch,4,5,66]\n"
     "  %46 = matmul(%44, %45) {acc=f16, packed=0, n=0, math=0}: f16[batch,4,61,66]\n"
     "  %47 = constant() {data=[0.25]}: f32[]\n  %48 = cast(%47) {to=f16, saturate=0}: f16[]\n"
     "  %49 = mul(%46, %48): f16[batch,4,61,66]\n"
     SUM
     "  %50 = pad(%32) {before=[0,0,1,2], after=[0,0,0,0], mode=0}: f16[batch,4,61,66]\n"
     "  %51 = add(%49, %50): f16[batch,4,61,66]\n"
     OUT(51),
     GRID_AFTER
     "broadcast f16[batch,4,2,5]; concat f16[batch,4,66,5]; concat f16[batch,4,61,5]; "
     "mul f16[batch,4,60,4]; pad f16[batch,4,61,4]; mul f16[batch,4,60,16]; pad f16[batch,4,61,16]; "
     "broadcast f16[batch,4,61,7]; broadcast f16[batch,4,66,27]; concat f16[batch,4,61,32]; concat f16[batch,4,66,32]; "
     "transpose f16[batch,4,32,66]; matmul f16[batch,4,61,66]; mul f16[batch,4,61,66]",
     4e-3, ON_GPU},
};

static const struct rewrite others[] = {
    /* on CPUs */
    {"relative-positions", GRID PRODUCT SUM "  %33 = add(%30, %32): f16[batch,4,60,64]\n" OUT(33),
     GRID_BEFORE
     "matmul f16[batch,4,60,64]; add f16[batch,4,6,10,4,16]; reshape f16[batch,4,60,64]; add f16[batch,4,60,64]",
     0, 0},
    /* scores that something else reads, too */
    {"relative-positions",
     GRID PRODUCT SUM "  %33 = add(%30, %32): f16[batch,4,60,64]\n  %34 = mul(%33, %30): f16[batch,4,60,64]\n" OUT(34),
     GRID_BEFORE
     "matmul f16[batch,4,60,64]; add f16[batch,4,6,10,4,16]; reshape f16[batch,4,60,64]; add f16[batch,4,60,64]; "
     "mul f16[batch,4,60,64]",
     0, ON_GPU},
    /* a term of the query and its key alone */
    {"relative-positions",
     GRID PRODUCT
     "  %31 = mul(%12, %13): f16[batch,4,6,10,4,16]\n  %32 = reshape(%31) {dims=[batch,4,60,64]}: f16[batch,4,60,64]\n"
     "  %33 = add(%30, %32): f16[batch,4,60,64]\n"
     OUT(33),
     GRID_BEFORE
     "matmul f16[batch,4,60,64]; mul f16[batch,4,6,10,4,16]; reshape f16[batch,4,60,64]; add f16[batch,4,60,64]",
     0, ON_GPU},
    /* few scores */
    {"relative-positions", GRID PRODUCT SUM "  %33 = add(%30, %32): f16[batch,4,60,64]\n" OUT(33),
     GRID_BEFORE
     "matmul f16[batch,4,60,64]; add f16[batch,4,6,10,4,16]; reshape f16[batch,4,60,64]; add f16[batch,4,60,64]",
     0, REWRITE_ON_GPU},
    /* terms that may be infinite */
    {"relative-positions",
     GRID PRODUCT
     "  %31 = exp(%12): f16[batch,4,6,10,4,1]\n  %32 = add(%31, %13): f16[batch,4,6,10,4,16]\n"
     "  %33 = reshape(%32) {dims=[batch,4,60,64]}: f16[batch,4,60,64]\n  %34 = add(%30, %33): f16[batch,4,60,64]\n"
     OUT(34),
     GRID_BEFORE
     "matmul f16[batch,4,60,64]; exp f16[batch,4,6,10,4,1]; add f16[batch,4,6,10,4,16]; reshape f16[batch,4,60,64]; "
     "add f16[batch,4,60,64]", 0, ON_GPU},
    /* products in f32 */
    {"relative-positions",
     GRID PRODUCT SUM
     "  %33 = cast(%10) {to=f32, saturate=0}: f32[batch,4,60,5]\n  %34 = cast(%11) {to=f32, saturate=0}: f32[batch,4,5,64]\n"
     "  %35 = matmul(%33, %34) {acc=f32, packed=0, n=0, math=0}: f32[batch,4,60,64]\n"
     "  %36 = cast(%32) {to=f32, saturate=0}: f32[batch,4,60,64]\n  %37 = add(%35, %36): f32[batch,4,60,64]\n"
     OUT(37),
     GRID_BEFORE
     "add f16[batch,4,6,10,4,16]; reshape f16[batch,4,60,64]; cast f32[batch,4,60,5]; cast f32[batch,4,5,64]; "
     "matmul f32[batch,4,60,64]; cast f32[batch,4,60,64]; add f32[batch,4,60,64]", 0, ON_GPU},
};
/* clang-format on */

static void test_sums(void **state) {
    CHECK_REWRITES(sums);
}

static void test_others(void **state) {
    CHECK_REWRITES(others);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
