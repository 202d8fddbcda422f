/* Depthwise convolutions of parts of the channels become one of all channels (pass/product/join_windows.c). */
#include "support/check/rewrite_check.h"
#include "support/support.h"

/* clang-format off */

/* The first channel of x [batch,4,6,5] at %10, the other three at %11. */
#define PARTS \
    "  %10 = slice(%0) {starts=[0,0,0,0], sizes=[batch,1,6,5], steps=[1,1,1,1]}: f32[batch,1,6,5]\n" \
    "  %11 = slice(%0) {starts=[0,1,0,0], sizes=[batch,3,6,5], steps=[1,1,1,1]}: f32[batch,3,6,5]\n"
#define WEIGHTS(k0, k1) \
    DATA(20, "w0", "[1,1," k0 "," k0 "]") DATA(21, "w1", "[3,1," k1 "," k1 "]") DATA(22, "b0", "[1]") DATA(23, "b1", "[3]")
#define JOINED "  %40 = concat(%30, %31) {axis=1}: f32[batch,4,6,5]\n"
#define SMALL "  %30 = conv(%10, %20, %22) " CONV_ATTRS("1", "3", "1", "1") ": f32[batch,1,6,5]\n"
#define LARGE "  %31 = conv(%11, %21, %23) " CONV_ATTRS("3", "5", "2", "3") ": f32[batch,3,6,5]\n"

static const struct rewrite windows[] = {
    {"join-windows dead-code", PARTS WEIGHTS("3", "5") SMALL LARGE JOINED OUT(40), "conv f32[batch,4,6,5]", 1e-6,
     REWRITE_ON_GPU},
    /* the larger one first, and a bias of one alone */
    {"join-windows dead-code",
     PARTS WEIGHTS("5", "3")
     "  %30 = conv(%10, %20) " CONV_ATTRS("1", "5", "2", "1") ": f32[batch,1,6,5]\n"
     "  %31 = conv(%11, %21, %23) " CONV_ATTRS("3", "3", "1", "3") ": f32[batch,3,6,5]\n"
     JOINED OUT(40), "conv f32[batch,4,6,5]", 1e-6, REWRITE_ON_GPU},
    /* in steps of two, beside the middle, without biases */
    {"join-windows dead-code",
     PARTS WEIGHTS("3", "5")
     "  %30 = conv(%10, %20) {strides=[2,2], dilations=[1,1], before=[1,0], after=[0,1], groups=1, acc=f32, "
     "channels_last=0, packed=0, n=1, kernel=[3,3], math=0, border=0}: f32[batch,1,3,2]\n"
     "  %31 = conv(%11, %21) {strides=[2,2], dilations=[1,1], before=[2,2], after=[1,1], groups=3, acc=f32, "
     "channels_last=0, packed=0, n=3, kernel=[5,5], math=0, border=0}: f32[batch,3,3,2]\n"
     "  %40 = concat(%30, %31) {axis=1}: f32[batch,4,3,2]\n"
     OUT(40), "conv f32[batch,4,3,2]", 1e-6, REWRITE_ON_GPU},
};

#define APART \
    "slice f32[batch,1,6,5]; slice f32[batch,3,6,5]; conv f32[batch,1,6,5]; conv f32[batch,3,6,5]; concat f32[batch,4,6,5]"
static const struct rewrite others[] = {
    /* on CPUs */
    {"join-windows dead-code", PARTS WEIGHTS("3", "5") SMALL LARGE JOINED OUT(40), APART, 0, 0},
    /* in another order */
    {"join-windows dead-code",
     PARTS WEIGHTS("3", "5") SMALL LARGE "  %40 = concat(%31, %30) {axis=1}: f32[batch,4,6,5]\n" OUT(40), APART, 0,
     REWRITE_ON_GPU},
    /* something else reads a part */
    {"join-windows dead-code",
     PARTS WEIGHTS("3", "5") SMALL LARGE JOINED "  %41 = add(%40, %30): f32[batch,4,6,5]\n" OUT(41),
     APART "; add f32[batch,4,6,5]", 0, REWRITE_ON_GPU},
    /* dilated otherwise */
    {"join-windows dead-code",
     PARTS WEIGHTS("3", "5")
     "  %30 = conv(%10, %20, %22) {strides=[1,1], dilations=[2,2], before=[2,2], after=[2,2], groups=1, acc=f32, "
     "channels_last=0, packed=0, n=1, kernel=[3,3], math=0, border=0}: f32[batch,1,6,5]\n"
     LARGE JOINED OUT(40), APART, 0, REWRITE_ON_GPU},
    /* convolutions over all of a part's channels */
    {"join-windows dead-code",
     PARTS DATA(20, "w0", "[1,1,3,3]") DATA(21, "w1", "[3,3,5,5]") DATA(22, "b0", "[1]") DATA(23, "b1", "[3]") SMALL
     "  %31 = conv(%11, %21, %23) " CONV_ATTRS("3", "5", "2", "1") ": f32[batch,3,6,5]\n"
     JOINED OUT(40), APART, 0, REWRITE_ON_GPU},
    /* windows that do not lie within each other */
    {"join-windows dead-code",
     PARTS DATA(20, "w0", "[1,1,1,5]") DATA(21, "w1", "[3,1,5,1]")
     "  %30 = conv(%10, %20) {strides=[1,1], dilations=[1,1], before=[0,2], after=[0,2], groups=1, acc=f32, "
     "channels_last=0, packed=0, n=1, kernel=[1,5], math=0, border=0}: f32[batch,1,6,5]\n"
     "  %31 = conv(%11, %21) {strides=[1,1], dilations=[1,1], before=[2,0], after=[2,0], groups=3, acc=f32, "
     "channels_last=0, packed=0, n=3, kernel=[5,1], math=0, border=0}: f32[batch,3,6,5]\n"
     JOINED OUT(40), APART, 0, REWRITE_ON_GPU},
    /* many more taps */
    {"join-windows dead-code",
     "  %9 = concat(%0, %0) {axis=1}: f32[batch,8,6,5]\n"
     "  %10 = slice(%9) {starts=[0,0,0,0], sizes=[batch,7,6,5], steps=[1,1,1,1]}: f32[batch,7,6,5]\n"
     "  %11 = slice(%9) {starts=[0,7,0,0], sizes=[batch,1,6,5], steps=[1,1,1,1]}: f32[batch,1,6,5]\n"
     DATA(20, "w0", "[7,1,1,1]") DATA(21, "w1", "[1,1,5,5]")
     "  %30 = conv(%10, %20) " CONV_ATTRS("7", "1", "0", "7") ": f32[batch,7,6,5]\n"
     "  %31 = conv(%11, %21) " CONV_ATTRS("1", "5", "2", "1") ": f32[batch,1,6,5]\n"
     "  %40 = concat(%30, %31) {axis=1}: f32[batch,8,6,5]\n"
     OUT(40),
     "concat f32[batch,8,6,5]; slice f32[batch,7,6,5]; slice f32[batch,1,6,5]; conv f32[batch,7,6,5]; conv f32[batch,1,6,5]; "
     "concat f32[batch,8,6,5]", 0, REWRITE_ON_GPU},
};
/* clang-format on */

static void test_windows(void **state) {
    CHECK_REWRITES(windows);
}

static void test_others(void **state) {
    CHECK_REWRITES(others);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
