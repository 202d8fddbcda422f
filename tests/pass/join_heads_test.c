/* Heads of linear attentions become one product of all heads' columns (pass/product/join_heads.c). */
#include "support/check/rewrite_check.h"
#include "support/support.h"

/* clang-format off */

/* From y [batch,seq,12]: queries [batch,8,seq,3] at %10, transposed keys [batch,8,3,seq] at %11, values [batch,8,seq,2] at %12. */
#define OPERANDS(type) \
    "  %20 = cast(%1) {to=" type ", saturate=0}: " type "[batch,seq,12]\n" \
    "  %21 = concat(%20, %20) {axis=2}: " type "[batch,seq,24]\n" \
    DATA(22, "q", "[24]") "  %23 = cast(%22) {to=" type ", saturate=0}: " type "[24]\n" \
    DATA(24, "k", "[24]") "  %25 = cast(%24) {to=" type ", saturate=0}: " type "[24]\n" \
    "  %26 = mul(%21, %23): " type "[batch,seq,24]\n" \
    "  %27 = mul(%21, %25): " type "[batch,seq,24]\n" \
    "  %28 = slice(%27) {starts=[0,0,5], sizes=[batch,seq,16], steps=[1,1,1]}: " type "[batch,seq,16]\n" \
    "  %29 = reshape(%26) {dims=[batch,seq,8,3]}: " type "[batch,seq,8,3]\n" \
    "  %30 = reshape(%27) {dims=[batch,seq,8,3]}: " type "[batch,seq,8,3]\n" \
    "  %31 = reshape(%28) {dims=[batch,seq,8,2]}: " type "[batch,seq,8,2]\n" \
    "  %10 = transpose(%29) {perm=[0,2,1,3]}: " type "[batch,8,seq,3]\n" \
    "  %11 = transpose(%30) {perm=[0,2,3,1]}: " type "[batch,8,3,seq]\n" \
    "  %12 = transpose(%31) {perm=[0,2,1,3]}: " type "[batch,8,seq,2]\n"
#define INNER(type) "  %40 = matmul(%11, %12) {acc=" type ", packed=0, n=0, math=0}: " type "[batch,8,3,2]\n"
#define OUTER(type, v) \
    "  %50 = matmul(%10, %" #v ") {acc=" type ", packed=0, n=0, math=0}: " type "[batch,8,seq,2]\n"
#define HEADS_AFTER                                                                                                 \
    "cast f16[batch,seq,12]; concat f16[batch,seq,24]; mul f16[batch,seq,24]; mul f16[batch,seq,24]; slice f16[batch,seq,16]; "
#define ROWS_AFTER "matmul f16[batch,seq,16]; reshape f16[batch,seq,8,2]; transpose f16[batch,8,seq,2]"
#define BEFORE(type)                                                                                                 \
    "concat " type "[batch,seq,24]; mul " type "[batch,seq,24]; mul " type "[batch,seq,24]; slice " type "[batch,seq,16]; " \
    "reshape " type "[batch,seq,8,3]; reshape " type "[batch,seq,8,3]; reshape " type "[batch,seq,8,2]; " \
    "transpose " type "[batch,8,seq,3]; transpose " type "[batch,8,3,seq]; transpose " type "[batch,8,seq,2]; " \
    "matmul " type "[batch,8,3,2]; matmul " type "[batch,8,seq,2]"

static const struct rewrite heads[] = {
    {"join-heads move-views", OPERANDS("f16") INNER("f16") OUTER("f16", 40) OUT(50),
     HEADS_AFTER "transpose f16[batch,24,seq]; matmul f16[batch,24,16]; where f16[batch,24,16]; " ROWS_AFTER, 2e-3, REWRITE_ON_GPU},
    /* times a number in between */
    {"join-heads move-views",
     OPERANDS("f16") INNER("f16")
     "  %41 = constant() {data=[0.25]}: f32[]\n  %42 = cast(%41) {to=f16, saturate=0}: f16[]\n"
     "  %43 = mul(%40, %42): f16[batch,8,3,2]\n"
     OUTER("f16", 43) OUT(50),
     HEADS_AFTER "transpose f16[batch,24,seq]; matmul f16[batch,24,16]; mul f16[batch,24,16]; where f16[batch,24,16]; "
     ROWS_AFTER, 2e-3, REWRITE_ON_GPU},
};

static const struct rewrite others[] = {
    /* on CPUs */
    {"join-heads", OPERANDS("f16") INNER("f16") OUTER("f16", 40) OUT(50), "cast f16[batch,seq,12]; " BEFORE("f16"), 0, 0},
    /* in f32 */
    {"join-heads", OPERANDS("f32") INNER("f32") OUTER("f32", 40) OUT(50), BEFORE("f32"), 0, REWRITE_ON_GPU},
    /* something else reads the product */
    {"join-heads",
     OPERANDS("f16") INNER("f16") OUTER("f16", 40)
     "  %51 = reduce_sum(%40) {axes=[2]}: f16[batch,8,1,2]\n  %52 = add(%50, %51): f16[batch,8,seq,2]\n"
     OUT(52), "cast f16[batch,seq,12]; " BEFORE("f16") "; reduce_sum f16[batch,8,1,2]; add f16[batch,8,seq,2]", 0, REWRITE_ON_GPU},
    /* heads that are whole loads */
    {"join-heads",
     OPERANDS("f16")
     "  %32 = reshape(%28) {dims=[batch,seq,2,8]}: f16[batch,seq,2,8]\n"
     "  %33 = transpose(%32) {perm=[0,2,1,3]}: f16[batch,2,seq,8]\n"
     "  %34 = transpose(%32) {perm=[0,2,3,1]}: f16[batch,2,8,seq]\n"
     "  %40 = matmul(%34, %33) {acc=f16, packed=0, n=0, math=0}: f16[batch,2,8,8]\n"
     "  %50 = matmul(%33, %40) {acc=f16, packed=0, n=0, math=0}: f16[batch,2,seq,8]\n"
     OUT(50),
     "cast f16[batch,seq,12]; concat f16[batch,seq,24]; mul f16[batch,seq,24]; slice f16[batch,seq,16]; "
     "reshape f16[batch,seq,2,8]; transpose f16[batch,2,seq,8]; transpose f16[batch,2,8,seq]; matmul f16[batch,2,8,8]; "
     "matmul f16[batch,2,seq,8]", 0, REWRITE_ON_GPU},
};
/* clang-format on */

static void test_heads(void **state) {
    CHECK_REWRITES(heads);
}

static void test_others(void **state) {
    CHECK_REWRITES(others);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
