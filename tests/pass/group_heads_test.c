/* Queries of heads that share their keys become rows of one product (pass/product/group_heads.c), and only theirs. */
#include "support/check/rewrite_check.h"
#include "support/support.h"

#define OUT(v) "  output \"out\" = %" #v "\n"

/* From y f32[batch,seq,12]: queries [batch,6,1,4] at %10, keys [batch,3,seq,4] at %11, a mask [seq] at %12. */
#define HEADS                                                         \
    "  %3 = reduce_max(%1) {axes=[1]}: f32[batch,1,12]\n"             \
    "  %4 = concat(%3, %3) {axis=2}: f32[batch,1,24]\n"               \
    "  %10 = reshape(%4) {dims=[batch,6,1,4]}: f32[batch,6,1,4]\n"    \
    "  %6 = reshape(%1) {dims=[batch,seq,3,4]}: f32[batch,seq,3,4]\n" \
    "  %11 = transpose(%6) {perm=[0,2,1,3]}: f32[batch,3,seq,4]\n"    \
    "  %8 = iota() {dims=[seq], axis=0}: i64[seq]\n"                  \
    "  %12 = cast(%8) {to=f32, saturate=0}: f32[seq]\n"
#define ATTEND(keys, values)                                                          \
    "  %30 = transpose(%" #keys ") {perm=[0,1,3,2]}: f32[batch,6,4,seq]\n"            \
    "  %31 = matmul(%10, %30) {acc=f32, packed=0, n=0, math=0}: f32[batch,6,1,seq]\n" \
    "  %32 = add(%31, %12): f32[batch,6,1,seq]\n"                                     \
    "  %33 = reduce_max(%32) {axes=[3]}: f32[batch,6,1,1]\n"                          \
    "  %34 = sub(%32, %33): f32[batch,6,1,seq]\n"                                     \
    "  %35 = exp(%34): f32[batch,6,1,seq]\n"                                          \
    "  %36 = reduce_sum(%35) {axes=[3]}: f32[batch,6,1,1]\n"                          \
    "  %37 = div(%35, %36): f32[batch,6,1,seq]\n"                                     \
    "  %38 = matmul(%37, %" #values ") {acc=f32, packed=0, n=0, math=0}: f32[batch,6,1,4]\n"
#define HEADS_BEFORE                                                                                             \
    "reduce_max f32[batch,1,12]; concat f32[batch,1,24]; reshape f32[batch,6,1,4]; reshape f32[batch,seq,3,4]; " \
    "transpose f32[batch,3,seq,4]; iota i64[seq]; cast f32[seq]; "
#define GROUPED                                                                                                      \
    "reduce_max f32[batch,1,12]; concat f32[batch,1,24]; reshape f32[batch,seq,3,4]; transpose f32[batch,3,seq,4]; " \
    "iota i64[seq]; cast f32[seq]; transpose f32[batch,3,4,seq]; reshape f32[batch,3,2,4]; "                         \
    "matmul f32[batch,3,2,seq]; add f32[batch,3,2,seq]; reduce_max f32[batch,3,2,1]; sub f32[batch,3,2,seq]; "       \
    "exp f32[batch,3,2,seq]; reduce_sum f32[batch,3,2,1]; div f32[batch,3,2,seq]; matmul f32[batch,3,2,4]; "         \
    "reshape f32[batch,6,1,4]"

/* clang-format off */
static const struct rewrite shared_heads[] = {
    /* an axis inserted, repeated and merged */
    {"group-heads",
     HEADS
     "  %20 = reshape(%11) {dims=[batch,3,1,seq,4]}: f32[batch,3,1,seq,4]\n"
     "  %21 = broadcast(%20) {dims=[batch,3,2,seq,4]}: f32[batch,3,2,seq,4]\n"
     "  %22 = reshape(%21) {dims=[batch,6,seq,4]}: f32[batch,6,seq,4]\n"
     ATTEND(22, 22)
     OUT(38),
     GROUPED, 1e-6, 0},
    /* whole matrices repeated behind one another, as Tile gives them */
    {"group-heads",
     HEADS
     "  %20 = reshape(%11) {dims=[3*batch,1,4*seq]}: f32[3*batch,1,4*seq]\n"
     "  %21 = broadcast(%20) {dims=[3*batch,2,4*seq]}: f32[3*batch,2,4*seq]\n"
     "  %22 = reshape(%21) {dims=[batch,6,seq,4]}: f32[batch,6,seq,4]\n"
     ATTEND(22, 22)
     OUT(38),
     GROUPED, 1e-6, 0},
    /* heads 0, 1, 2, 0, 1, 2: no group of neighbours shares its keys */
    {"group-heads",
     HEADS
     "  %20 = reshape(%11) {dims=[batch,1,3,seq,4]}: f32[batch,1,3,seq,4]\n"
     "  %21 = broadcast(%20) {dims=[batch,2,3,seq,4]}: f32[batch,2,3,seq,4]\n"
     "  %22 = reshape(%21) {dims=[batch,6,seq,4]}: f32[batch,6,seq,4]\n"
     ATTEND(22, 22)
     OUT(38),
     HEADS_BEFORE
     "reshape f32[batch,1,3,seq,4]; broadcast f32[batch,2,3,seq,4]; reshape f32[batch,6,seq,4]; "
     "transpose f32[batch,6,4,seq]; matmul f32[batch,6,1,seq]; add f32[batch,6,1,seq]; reduce_max f32[batch,6,1,1]; "
     "sub f32[batch,6,1,seq]; exp f32[batch,6,1,seq]; reduce_sum f32[batch,6,1,1]; div f32[batch,6,1,seq]; "
     "matmul f32[batch,6,1,4]",
     0, 0},
};

/* clang-format on */

static void test_shared_heads(void **state) {
    CHECK_REWRITES(shared_heads);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shared_heads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
