/* Weights multiply from the left what would be transposed for them and back (pass/product/weights_first.c), and only that. */
#include "support/check/rewrite_check.h"
#include "support/support.h"

enum { POISON = REWRITE_POISON, ON_GPU = REWRITE_ON_GPU };

#define MATMUL " {acc=f32, packed=0, n=0, math=0}: "
/* From x f32[batch,4,6,5]: 15 tokens of 8 channels at %3. */
#define TOKENS "  %3 = reshape(%0) {dims=[batch,15,8]}: f32[batch,15,8]\n"
/* Two layers over tokens: an activation that reads a value twice, biases, and a factor of one element. */
#define LAYERS                                                                                      \
    TOKENS                                                                                          \
    "  %4 = transpose(%3) {perm=[0,2,1]}: f32[batch,8,15]\n" DATA(                                  \
        5, "w",                                                                                     \
        "[15,20]") "  %6 = matmul(%4, %5)" MATMUL                                                   \
                   "f32[batch,8,20]\n" DATA(                                                        \
                       7, "b",                                                                      \
                       "[20]") "  %8 = add(%6, %7): f32[batch,8,20]\n"                              \
                               "  %9 = tanh(%8): f32[batch,8,20]\n"                                 \
                               "  %10 = mul(%8, %9): f32[batch,8,20]\n" DATA(                       \
                                   11, "v",                                                         \
                                   "[20,15]") "  %12 = matmul(%10, %11)" MATMUL                     \
                                              "f32[batch,8,15]\n" SCALAR(                           \
                                                  13, 3) "  %14 = mul(%12, %13): f32[batch,8,15]\n" \
                                                         "  %15 = transpose(%14) {perm=[0,2,1]}: f32[batch,15,8]\n"
#define LAYERS_BEFORE                                                                                    \
    "reshape f32[batch,15,8]; transpose f32[batch,8,15]; matmul f32[batch,8,20]; add f32[batch,8,20]; "  \
    "tanh f32[batch,8,20]; mul f32[batch,8,20]; matmul f32[batch,8,15]; mul f32[batch,8,15]; transpose " \
    "f32[batch,15,8]"

/* clang-format off */
static const struct rewrite products[] = {
    {"weights-first",
     LAYERS
     OUT(15),
     "reshape f32[batch,15,8]; matmul f32[batch,20,8]; add f32[batch,20,8]; tanh f32[batch,20,8]; mul f32[batch,20,8]; "
     "matmul f32[batch,15,8]; mul f32[batch,15,8]", 0, ON_GPU},
    /* NaN and infinities stay where they were */
    {"weights-first",
     LAYERS
     OUT(15),
     NULL, 0, ON_GPU | POISON},
    /* an axis that is not beside the last one: what lies behind it is one line */
    {"weights-first",
     "  %3 = reshape(%0) {dims=[batch,3,5,8]}: f32[batch,3,5,8]\n"
     "  %4 = transpose(%3) {perm=[0,3,2,1]}: f32[batch,8,5,3]\n"
     DATA(5, "w", "[3,7]")
     "  %6 = matmul(%4, %5)" MATMUL "f32[batch,8,5,7]\n"
     DATA(7, "b", "[8,1,7]")
     "  %8 = add(%6, %7): f32[batch,8,5,7]\n"
     "  %9 = transpose(%8) {perm=[0,3,2,1]}: f32[batch,7,5,8]\n"
     OUT(9),
     "reshape f32[batch,3,40]; matmul f32[batch,7,40]; reshape f32[batch,7,5,8]; "
     "add f32[batch,7,5,8]", 0, ON_GPU},
    /* the first axis, and transposes that are inverse but not the same */
    {"weights-first",
     TOKENS
     "  %4 = transpose(%3) {perm=[1,2,0]}: f32[15,8,batch]\n"
     "  %5 = transpose(%4) {perm=[1,2,0]}: f32[8,batch,15]\n"
     DATA(6, "w", "[15,4]")
     "  %7 = matmul(%5, %6)" MATMUL "f32[8,batch,4]\n"
     "  %8 = transpose(%7) {perm=[1,2,0]}: f32[batch,4,8]\n"
     OUT(8),
     NULL, 0, ON_GPU},
    /* a value that something else reads, too */
    {"weights-first",
     LAYERS
     "  output \"also\" = %8\n"
     OUT(15),
     LAYERS_BEFORE, 0, ON_GPU},
    /* another operand that would have to be transposed */
    {"weights-first",
     TOKENS
     "  %4 = transpose(%3) {perm=[0,2,1]}: f32[batch,8,15]\n"
     DATA(5, "w", "[15,15]")
     "  %6 = matmul(%4, %5)" MATMUL "f32[batch,8,15]\n"
     "  %7 = reshape(%0) {dims=[batch,8,15]}: f32[batch,8,15]\n"
     "  %8 = add(%6, %7): f32[batch,8,15]\n"
     "  %9 = transpose(%8) {perm=[0,2,1]}: f32[batch,15,8]\n"
     OUT(9),
     "reshape f32[batch,15,8]; transpose f32[batch,8,15]; matmul f32[batch,8,15]; reshape f32[batch,8,15]; "
     "add f32[batch,8,15]; transpose f32[batch,15,8]", 0, ON_GPU},
    /* lines of six are no whole loads */
    {"weights-first",
     "  %3 = reshape(%0) {dims=[batch,20,6]}: f32[batch,20,6]\n"
     "  %4 = transpose(%3) {perm=[0,2,1]}: f32[batch,6,20]\n"
     DATA(5, "w", "[20,8]")
     "  %6 = matmul(%4, %5)" MATMUL "f32[batch,6,8]\n"
     "  %7 = transpose(%6) {perm=[0,2,1]}: f32[batch,8,6]\n"
     OUT(7),
     "reshape f32[batch,20,6]; transpose f32[batch,6,20]; matmul f32[batch,6,8]; transpose f32[batch,8,6]", 0, ON_GPU},
    /* CPUs pack weights as second operands */
    {"weights-first",
     LAYERS
     OUT(15),
     LAYERS_BEFORE, 0, 0},
};
/* clang-format on */

static void test_products(void **state) {
    CHECK_REWRITES(products);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
