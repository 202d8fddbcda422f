/*
 * The passes, one rewrite per case: a graph in text form, the operators that remain, and equal results before and
 * after. Inputs contain NaN and infinities where the rewrite must preserve them. pass_random_test.c covers unforeseen
 * cases.
 */
#include <stdio.h>
#include <string.h>

#include "pass/pass.h"
#include "support/check/rewrite_check.h"
#include "support/support.h"

enum { POISON = REWRITE_POISON, ON_GPU = REWRITE_ON_GPU };

/* Pieces of graphs */
#define OUT(v) "  output \"out\" = %" #v "\n"
#define SCALAR(v, number) "  %" #v " = constant() {data=[" #number "]}: f32[]\n"
#define DATA(v, name, type) \
    "  %" #v " = constant() {data=hash:0000000000000001, initializer=\"" name "\"}: f32" type "\n"
#define CONV_ATTRS(n, k, border, groups)                                                                             \
    "{strides=[1,1], dilations=[1,1], before=[" border "," border "], after=[" border "," border "], groups=" groups \
    ", acc=f32, channels_last=0, packed=0, n=" n ", kernel=[" k "," k "], math=0}"

/* ---- canonicalize ------------------------------------------------------------------------------------------------- */

#define X "f32[batch,4,6,5]"

static const struct rewrite arithmetic[] = {
    {"canonicalize", SCALAR(3, 0) "  %4 = add(%0, %3): " X "\n" OUT(4), "", 0, POISON},
    {"canonicalize", SCALAR(3, 1) "  %4 = mul(%3, %0): " X "\n" OUT(4), "", 0, POISON},
    {"canonicalize", SCALAR(3, 0) "  %4 = mul(%0, %3): " X "\n" OUT(4), "mul " X, 0, POISON},
    {"canonicalize", SCALAR(3, -1) "  %4 = mul(%0, %3): " X "\n" OUT(4), "neg " X, 0, POISON},
    {"canonicalize", SCALAR(3, 4) "  %4 = div(%0, %3): " X "\n" OUT(4), "mul " X, 0, POISON},
    {"canonicalize", SCALAR(3, 3) "  %4 = div(%0, %3): " X "\n" OUT(4), "div " X, 0, POISON},
    {"canonicalize", SCALAR(3, 0) "  %4 = sub(%3, %0): " X "\n" OUT(4), "neg " X, 0, POISON},
    {"canonicalize", SCALAR(3, 7) "  %4 = sub(%0, %3): " X "\n" OUT(4), "add " X, 0, POISON},
    {"canonicalize", SCALAR(3, 2) "  %4 = pow(%0, %3): " X "\n" OUT(4), "mul " X, 0, POISON},
    {"canonicalize", SCALAR(3, 3) "  %4 = pow(%0, %3): " X "\n" OUT(4), "mul " X "; mul " X, 1e-6, 0},
    {"canonicalize", SCALAR(3, 1.5) "  %4 = pow(%0, %3): " X "\n" OUT(4), "pow " X, 0, POISON},
    {"canonicalize", "  %3 = neg(%0): " X "\n  %4 = neg(%3): " X "\n" OUT(4), "", 0, POISON},
    {"canonicalize", "  %3 = neg(%0): " X "\n  %4 = add(%3, %0): " X "\n" OUT(4), "sub " X, 0, POISON},
    {"canonicalize", "  %3 = mul(%0, %0): " X "\n  %4 = abs(%3): " X "\n" OUT(4), "mul " X, 0, POISON},
};

/* clang-format off */
static const struct rewrite choices[] = {
    /* a clamp within a clamp, and a relu after a sigmoid */
    {"canonicalize",
     SCALAR(3, 0)
     SCALAR(4, 6)
     "  %5 = max(%0, %3): " X "\n"
     "  %6 = min(%5, %4): " X "\n"
     "  %7 = max(%6, %3): " X "\n"
     "  %8 = min(%7, %4): " X "\n"
     OUT(8),
     "max " X "; min " X, 0, POISON},
    {"canonicalize", SCALAR(3, 0) "  %4 = sigmoid(%0): " X "\n  %5 = max(%3, %4): " X "\n" OUT(5), "sigmoid " X, 0,
     POISON},
    {"canonicalize", SCALAR(3, 1) SCALAR(4, 2) "  %5 = max(%0, %3): " X "\n  %6 = max(%5, %4): " X "\n" OUT(6),
     "max " X, 0, POISON},
    /* where with a known condition, or a negated one */
    {"canonicalize",
     "  %3 = constant() {data=[1]}: bool[]\n  %4 = neg(%0): " X "\n  %5 = where(%3, %0, %4): " X "\n" OUT(5), "", 0,
     POISON},
    {"canonicalize",
     "  %3 = isnan(%0): bool[batch,4,6,5]\n"
     "  %4 = not(%3): bool[batch,4,6,5]\n"
     SCALAR(5, 0)
     "  %6 = where(%4, %0, %5): " X "\n"
     OUT(6),
     "isnan bool[batch,4,6,5]; where " X, 0, POISON},
    /* NaN compares false both ways, so this negation stays */
    {"canonicalize",
     "  %3 = isnan(%0): bool[batch,4,6,5]\n"
     "  %4 = constant() {data=[1,1,1,1,1]}: bool[5]\n"
     "  %5 = and(%3, %4): bool[batch,4,6,5]\n"
     "  %6 = constant() {data=[0]}: i64[]\n"
     "  %7 = iota() {dims=[batch,1,1,1], axis=0}: i64[batch,1,1,1]\n"
     "  %8 = le(%6, %7): bool[batch,1,1,1]\n"
     "  %9 = and(%8, %5): bool[batch,4,6,5]\n"
     OUT(9),
     "isnan bool[batch,4,6,5]", 0, POISON},
    {"canonicalize", SCALAR(3, 0) "  %4 = lt(%0, %3): bool[batch,4,6,5]\n  %5 = not(%4): bool[batch,4,6,5]\n" OUT(5),
     "lt bool[batch,4,6,5]; not bool[batch,4,6,5]", 0, POISON},
    {"canonicalize",
     "  %3 = constant() {data=[3]}: i32[]\n  %4 = lt(%2, %3): bool[batch]\n  %5 = not(%4): bool[batch]\n" OUT(5),
     "le bool[batch]", 0, 0},
    /* casts that are lossless, and one that is not */
    {"canonicalize",
     "  %3 = cast(%2) {to=i64, saturate=0}: i64[batch]\n  %4 = cast(%3) {to=i8, saturate=0}: i8[batch]\n" OUT(4),
     "cast i8[batch]", 0, 0},
    {"canonicalize",
     "  %3 = cast(%2) {to=f32, saturate=0}: f32[batch]\n  %4 = cast(%3) {to=i32, saturate=0}: i32[batch]\n" OUT(4),
     "cast f32[batch]; cast i32[batch]", 0, 0},
};

static const struct rewrite movements[] = {
    {"canonicalize",
     "  %3 = slice(%0) {starts=[0,1,0,0], sizes=[batch,3,6,5], steps=[1,1,1,1]}: f32[batch,3,6,5]\n"
     "  %4 = slice(%3) {starts=[0,2,0,4], sizes=[batch,1,6,3], steps=[1,1,1,-2]}: f32[batch,1,6,3]\n"
     OUT(4),
     "slice f32[batch,1,6,3]", 0, POISON},
    {"canonicalize",
     "  %3 = neg(%0): " X "\n"
     "  %4 = concat(%0, %3) {axis=1}: f32[batch,8,6,5]\n"
     "  %5 = slice(%4) {starts=[0,5,0,0], sizes=[batch,2,6,5], steps=[1,1,1,1]}: f32[batch,2,6,5]\n"
     OUT(5),
     "neg " X "; slice f32[batch,2,6,5]", 0, POISON},
    {"canonicalize",
     "  %3 = slice(%0) {starts=[0,0,0,0], sizes=[batch,1,6,5], steps=[1,1,1,1]}: f32[batch,1,6,5]\n"
     "  %4 = slice(%0) {starts=[0,1,0,0], sizes=[batch,3,6,5], steps=[1,1,1,1]}: f32[batch,3,6,5]\n"
     "  %5 = concat(%3, %4) {axis=1}: f32[batch,4,6,5]\n"
     OUT(5),
     "", 0, POISON},
    {"canonicalize", "  %3 = constant() {data=[-1]}: i64[]\n  %4 = gather(%0, %3) {axis=1}: f32[batch,6,5]\n" OUT(4),
     "slice f32[batch,1,6,5]; reshape f32[batch,6,5]", 0, POISON},
    {"canonicalize",
     "  %3 = constant() {data=[1,3,5]}: i64[3]\n  %4 = gather(%0, %3) {axis=2}: f32[batch,4,3,5]\n" OUT(4),
     "slice f32[batch,4,3,5]", 0, POISON},
    {"canonicalize",
     "  %3 = constant() {data=[1,0]}: i64[2]\n  %4 = gather(%0, %3) {axis=2}: f32[batch,4,2,5]\n" OUT(4),
     "gather f32[batch,4,2,5]", 0, POISON},
    /* the number of rows is unknown: the index might be out of range */
    {"canonicalize", "  %3 = constant() {data=[1]}: i64[]\n  %4 = gather(%0, %3) {axis=0}: f32[4,6,5]\n" OUT(4),
     "gather f32[4,6,5]", 0, POISON},
    /* each element gathered from its own position */
    {"canonicalize",
     "  %3 = iota() {dims=[batch,1,seq,12,1], axis=0}: i64[batch,1,seq,12,1]\n"
     "  %4 = iota() {dims=[seq,12,1], axis=0}: i64[seq,12,1]\n"
     "  %5 = broadcast(%4) {dims=[batch,1,seq,12,1]}: i64[batch,1,seq,12,1]\n"
     "  %6 = iota() {dims=[batch,1,seq,12,1], axis=3}: i64[batch,1,seq,12,1]\n"
     "  %7 = concat(%3, %5, %6) {axis=4}: i64[batch,1,seq,12,3]\n"
     "  %8 = gather_nd(%1, %7) {batch_dims=0}: f32[batch,1,seq,12]\n"
     OUT(8),
     "reshape f32[batch,1,seq,12]", 0, POISON},
    {"canonicalize",
     "  %3 = iota() {dims=[2,2,1], axis=1}: i64[2,2,1]\n"
     "  %4 = iota() {dims=[2,2,1], axis=0}: i64[2,2,1]\n"
     "  %5 = concat(%3, %4, %4) {axis=2}: i64[2,2,3]\n"
     "  %6 = gather_nd(%1, %5) {batch_dims=0}: f32[2,2]\n"
     OUT(6),
     "gather_nd f32[2,2]", 0, POISON},
    /* rows 1 to 4 of axis 2 are assigned: with other values, and with their own and a sum */
    {"canonicalize",
     "  %3 = constant() {data=[1,2,3,4]}: i64[4]\n"
     "  %4 = reshape(%3) {dims=[4,1]}: i64[4,1]\n"
     "  %5 = transpose(%0) {perm=[2,1,0,3]}: f32[6,4,batch,5]\n"
     "  %6 = slice(%0) {starts=[0,0,0,0], sizes=[batch,4,4,5], steps=[1,1,1,1]}: f32[batch,4,4,5]\n"
     "  %7 = tanh(%6): f32[batch,4,4,5]\n"
     "  %8 = transpose(%7) {perm=[2,1,0,3]}: f32[4,4,batch,5]\n"
     "  %9 = scatter_nd(%5, %4, %8) {reduction=0}: f32[6,4,batch,5]\n"
     "  %10 = transpose(%9) {perm=[2,1,0,3]}: f32[batch,4,6,5]\n"
     OUT(10),
     "slice f32[batch,4,4,5]; tanh f32[batch,4,4,5]; slice f32[batch,4,1,5]; slice f32[batch,4,1,5]; concat " X, 0, POISON},
    {"canonicalize",
     "  %3 = iota() {dims=[6], axis=0}: i64[6]\n"
     "  %4 = slice(%3) {starts=[1], sizes=[4], steps=[1]}: i64[4]\n"
     "  %5 = reshape(%4) {dims=[4,1]}: i64[4,1]\n"
     "  %6 = transpose(%0) {perm=[2,1,0,3]}: f32[6,4,batch,5]\n"
     "  %7 = slice(%0) {starts=[0,0,1,0], sizes=[batch,4,4,5], steps=[1,1,1,1]}: f32[batch,4,4,5]\n"
     "  %8 = slice(%0) {starts=[0,0,0,0], sizes=[batch,4,4,5], steps=[1,1,1,1]}: f32[batch,4,4,5]\n"
     "  %9 = tanh(%8): f32[batch,4,4,5]\n"
     "  %10 = add(%7, %9): f32[batch,4,4,5]\n"
     "  %11 = transpose(%10) {perm=[2,1,0,3]}: f32[4,4,batch,5]\n"
     "  %12 = scatter_nd(%6, %5, %11) {reduction=0}: f32[6,4,batch,5]\n"
     "  %13 = transpose(%12) {perm=[2,1,0,3]}: f32[batch,4,6,5]\n"
     OUT(13),
     "slice f32[batch,4,4,5]; tanh f32[batch,4,4,5]; pad " X "; add " X, 0, POISON},
    {"canonicalize",
     "  %3 = constant() {data=[1,3]}: i64[2]\n"
     "  %4 = reshape(%3) {dims=[2,1]}: i64[2,1]\n"
     "  %5 = transpose(%0) {perm=[2,1,0,3]}: f32[6,4,batch,5]\n"
     "  %6 = slice(%5) {starts=[0,0,0,0], sizes=[2,4,batch,5], steps=[1,1,1,1]}: f32[2,4,batch,5]\n"
     "  %7 = scatter_nd(%5, %4, %6) {reduction=0}: f32[6,4,batch,5]\n"
     OUT(7),
     "transpose f32[6,4,batch,5]; slice f32[2,4,batch,5]; scatter_nd f32[6,4,batch,5]", 0, POISON},
    /* computed before it is broadcast */
    {"canonicalize", "  %3 = broadcast(%2) {dims=[6,batch]}: i32[6,batch]\n  %4 = abs(%3): i32[6,batch]\n" OUT(4),
     "abs i32[batch]; broadcast i32[6,batch]", 0, 0},
    {"canonicalize",
     "  %3 = reduce_sum(%0) {axes=[3]}: f32[batch,4,6,1]\n"
     "  %4 = reduce_sum(%3) {axes=[2,3]}: f32[batch,4,1,1]\n"
     OUT(4),
     "reduce_sum f32[batch,4,1,1]", 1e-6, 0},
    /* a window over everything */
    {"canonicalize",
     "  %3 = pool_avg(%0) {kernel=[6,5], strides=[1,1], dilations=[1,1], before=[0,0], sizes=[1,1], c"
         "hannels_last=0, after=[0,0], count_pad=0}: f32[batch,4,1,1]\n"
     OUT(3),
     "reduce_mean f32[batch,4,1,1]", 1e-6, 0},
    /* padding with zeros moves into the convolution */
    {"canonicalize",
     DATA(3, "w", "[3,4,3,3]")
     "  %4 = pad(%0) {before=[0,0,1,0], after=[0,0,1,2], mode=0}: f32[batch,4,8,7]\n"
     "  %5 = conv(%4, %3) " CONV_ATTRS("3", "3", "0", "1") ": f32[batch,3,6,5]\n"
     OUT(5),
     "conv f32[batch,3,6,5]", 0, 0},
};
/* clang-format on */

static void test_canonicalize(void **state) {
    CHECK_REWRITES(arithmetic);
    CHECK_REWRITES(choices);
    CHECK_REWRITES(movements);
}

/* ---- Folding ------------------------------------------------------------------------------------------------------ */

/* Counts constant values: `constant` nodes, and those computed from constants. */
static void count_constants(struct ig_graph *g, int *out_plain, int *out_computed) {
    *out_plain = *out_computed = 0;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (!ig_info(g, n->out)->is_const) continue;
        ++*(n->op == IG_OP_constant ? out_plain : out_computed);
    }
}

struct folding {
    const char *before;
    int plain, computed; /* constants afterwards */
};

static void check_folding(struct ig_job *job, void *argument) {
    const struct folding *f = argument;
    int plain, computed;
    count_constants(rewrite_by_passes(rewrite_graph(job, f->before), "fold-constants"), &plain, &computed);
    assert_int_equal(plain, f->plain);
    assert_int_equal(computed, f->computed);
}

static void test_fold_constants(void **state) {
    static const struct folding foldings[] = {
        /* not an initialiser */
        {"  %3 = constant() {data=[4,9]}: f32[2]\n  %4 = sqrt(%3): f32[2]\n  %5 = neg(%4): f32[2]\n" OUT(5), 1, 0},
        /* computed from an initialiser: the recipe stays, for refitting */
        {"  %3 = constant() {data=[4,9], initializer=\"w\"}: f32[2]\n  %4 = sqrt(%3): f32[2]\n" OUT(4), 1, 1},
        /* but scalars are folded: the graph may depend on them */
        {"  %3 = constant() {data=[4], initializer=\"w\"}: f32[]\n  %4 = sqrt(%3): f32[]\n" OUT(4), 1, 0},
        /* too large */
        {"  %3 = constant() {data=[4]}: f32[]\n  %4 = broadcast(%3) {dims=[65,64]}: f32[65,64]\n" OUT(4), 1, 1},
    };
    for (size_t i = 0; i < sizeof foldings / sizeof *foldings; i++)
        rewrite_in_job(check_folding, &foldings[i], "fold-constants");
}

/* clang-format off */
static const struct rewrite branches[] = {
    {"resolve-branches",
     "  %3 = constant() {data=[0]}: bool[]\n"
     "  %4 = if(%3, %0): " X "\n"
     "  then {\n"
     "    input %0 \"x\": " X "\n"
     "    output \"y\" = %0\n"
     "  }\n"
     "  else {\n"
     "    input %0 \"x\": " X "\n"
     "    %1 = neg(%0): " X "\n"
     "    output \"y\" = %1\n"
     "  }\n"
     OUT(4),
     "neg " X, 0, POISON},
    {"dead-code", "  %3 = neg(%0): " X "\n  %4 = abs(%0): " X "\n" OUT(4), "abs " X, 0, POISON},
    {"common-subexpressions",
     "  %3 = neg(%0): " X "\n  %4 = mul(%0, %3): " X "\n  %5 = mul(%3, %0): " X "\n  %6 = add(%4, %5): " X "\n" OUT(6),
     "neg " X "; mul " X "; add " X, 0, POISON},
};
/* clang-format on */

static void test_graph_folding(void **state) {
    CHECK_REWRITES(branches);
}

/* ---- Algebra that changes roundings --------------------------------------------------------------------------------- */

#define Y "f32[batch,seq,12]"

/* clang-format off */
static const struct rewrite recognized[] = {
    {"canonicalize recognize",
     "  %3 = neg(%1): " Y "\n"
     "  %4 = exp(%3): " Y "\n"
     SCALAR(5, 1)
     "  %6 = add(%4, %5): " Y "\n"
     "  %7 = div(%5, %6): " Y "\n"
     OUT(7),
     "sigmoid " Y, 1e-6, 0},
    /* GELU with erf, 0.5 * x first and last */
    {"canonicalize recognize",
     SCALAR(3, 0.70710677)
     "  %4 = mul(%1, %3): " Y "\n"
     "  %5 = erf(%4): " Y "\n"
     SCALAR(6, 1)
     "  %7 = add(%5, %6): " Y "\n"
     SCALAR(8, 0.5)
     "  %9 = mul(%8, %1): " Y "\n"
     "  %10 = mul(%9, %7): " Y "\n"
     OUT(10),
     "normcdf " Y "; mul " Y, 1e-6, 0},
    {"canonicalize recognize",
     SCALAR(3, 0.70710677)
     "  %4 = mul(%1, %3): " Y "\n"
     "  %5 = erf(%4): " Y "\n"
     SCALAR(6, 1)
     "  %7 = add(%5, %6): " Y "\n"
     SCALAR(8, 0.5)
     "  %9 = mul(%1, %7): " Y "\n"
     "  %10 = mul(%9, %8): " Y "\n"
     OUT(10),
     "normcdf " Y "; mul " Y, 1e-6, 0},
    /* by a quotient, as f * 0.5 + 0.5 */
    {"canonicalize recognize",
     SCALAR(3, 1.4142135)
     "  %4 = div(%1, %3): " Y "\n"
     "  %5 = erf(%4): " Y "\n"
     SCALAR(6, 0.5)
     "  %7 = mul(%5, %6): " Y "\n"
     "  %8 = add(%6, %7): " Y "\n"
     "  %9 = mul(%1, %8): " Y "\n"
     OUT(9),
     "normcdf " Y "; mul " Y, 1e-6, 0},
    /* the gate alone, of another multiple: the constants become one */
    {"canonicalize recognize",
     SCALAR(3, 0.70711)
     "  %4 = mul(%1, %3): " Y "\n"
     "  %5 = erf(%4): " Y "\n"
     SCALAR(6, 1)
     "  %7 = add(%5, %6): " Y "\n"
     SCALAR(8, 0.5)
     "  %9 = mul(%7, %8): " Y "\n"
     OUT(9),
     "mul " Y "; normcdf " Y, 1e-6, 0},
    /* of no multiple, and of one that leaves the type's range if its constant is merged */
    {"canonicalize recognize",
     "  %3 = erf(%1): " Y "\n"
     SCALAR(4, 1)
     "  %5 = add(%3, %4): " Y "\n"
     SCALAR(6, 0.5)
     "  %7 = mul(%5, %6): " Y "\n"
     OUT(7),
     "mul " Y "; normcdf " Y, 1e-6, POISON},
    {"canonicalize recognize",
     SCALAR(3, 1e-39)
     "  %4 = div(%1, %3): " Y "\n"
     "  %5 = erf(%4): " Y "\n"
     SCALAR(6, 1)
     "  %7 = add(%5, %6): " Y "\n"
     SCALAR(8, 0.5)
     "  %9 = mul(%7, %8): " Y "\n"
     OUT(9),
     "div " Y "; mul " Y "; normcdf " Y, 1e-6, 0},
    /* with tanh */
    {"canonicalize recognize",
     SCALAR(3, 0.79)
     "  %4 = mul(%1, %3): " Y "\n"
     "  %5 = tanh(%4): " Y "\n"
     SCALAR(6, 1)
     "  %7 = add(%6, %5): " Y "\n"
     SCALAR(8, 0.5)
     "  %9 = mul(%1, %8): " Y "\n"
     "  %10 = mul(%9, %7): " Y "\n"
     OUT(10),
     "mul " Y "; sigmoid " Y "; mul " Y, 1e-6, 0},
};

static const struct rewrite reciprocals[] = {
    {"use-reciprocals", SCALAR(3, 3) "  %4 = div(%1, %3): " Y "\n" OUT(4), "mul " Y, 1e-6, POISON},
    /* too small for a reciprocal */
    {"use-reciprocals", SCALAR(3, 1e-39) "  %4 = div(%1, %3): " Y "\n" OUT(4), "div " Y, 0, POISON},
    /* the reciprocal's error could round to another number */
    {"use-reciprocals", SCALAR(3, 3) "  %4 = div(%1, %3): " Y "\n  %5 = round(%4): " Y "\n" OUT(5),
     "div " Y "; round " Y, 0, POISON},
    /* softmax */
    {"use-reciprocals",
     "  %3 = reduce_max(%1) {axes=[2]}: f32[batch,seq,1]\n"
     "  %4 = sub(%1, %3): " Y "\n"
     "  %5 = exp(%4): " Y "\n"
     "  %6 = reduce_sum(%5) {axes=[2]}: f32[batch,seq,1]\n"
     "  %7 = div(%5, %6): " Y "\n"
     OUT(7),
     "reduce_max f32[batch,seq,1]; sub " Y "; exp " Y "; reduce_sum f32[batch,seq,1]; div f32[batch,seq,1]; mul " Y,
     1e-6, 0},
    /* a divisor that may be too small */
    {"use-reciprocals", "  %3 = reduce_sum(%1) {axes=[2]}: f32[batch,seq,1]\n  %4 = div(%1, %3): " Y "\n" OUT(4),
     "reduce_sum f32[batch,seq,1]; div " Y, 0, POISON},
    /* root mean square */
    {"use-reciprocals",
     "  %3 = mul(%1, %1): " Y "\n"
     "  %4 = reduce_mean(%3) {axes=[2]}: f32[batch,seq,1]\n"
     SCALAR(5, 1e-6)
     "  %6 = add(%4, %5): f32[batch,seq,1]\n"
     "  %7 = sqrt(%6): f32[batch,seq,1]\n"
     "  %8 = div(%1, %7): " Y "\n"
     OUT(8),
     "mul " Y
     "; reduce_mean f32[batch,seq,1]; add f32[batch,seq,1]; sqrt f32[batch,seq,1]; div f32[batch,seq,1]; mul " Y,
     1e-6, 0},
};

static const struct rewrite norms[] = {
    /* batch normalisation after a convolution without and with a bias */
    {"fold-batch-norm",
     DATA(3, "w", "[8,4,3,3]")
     "  %4 = conv(%0, %3) " CONV_ATTRS("8", "3", "1", "1") ": f32[batch,8,6,5]\n"
     DATA(5, "a", "[8,1,1]")
     "  %6 = mul(%4, %5): f32[batch,8,6,5]\n"
     DATA(7, "b", "[1,8,1,1]")
     "  %8 = add(%6, %7): f32[batch,8,6,5]\n"
     OUT(8),
     "conv f32[batch,8,6,5]", 1e-5, 0},
    /* the convolution has another reader: the scale stays */
    {"fold-batch-norm",
     DATA(3, "w", "[8,4,3,3]")
     "  %4 = conv(%0, %3) " CONV_ATTRS("8", "3", "1", "1") ": f32[batch,8,6,5]\n"
     DATA(5, "a", "[8,1,1]")
     "  %6 = mul(%4, %5): f32[batch,8,6,5]\n"
     "  %7 = add(%6, %4): f32[batch,8,6,5]\n"
     OUT(7),
     "conv f32[batch,8,6,5]; mul f32[batch,8,6,5]; add f32[batch,8,6,5]", 0, 0},
    /* not per channel */
    {"fold-batch-norm",
     DATA(3, "w", "[8,4,3,3]")
     "  %4 = conv(%0, %3) " CONV_ATTRS("8", "3", "1", "1") ": f32[batch,8,6,5]\n"
     DATA(5, "a", "[6,5]")
     "  %6 = mul(%4, %5): f32[batch,8,6,5]\n"
     OUT(6),
     "conv f32[batch,8,6,5]; mul f32[batch,8,6,5]", 0, 0},
    /* before the convolution: scale and shift fold without padding, only the scale with it */
    {"fold-batch-norm",
     DATA(3, "a", "[4,1,1]")
     "  %4 = mul(%0, %3): " X "\n"
     DATA(5, "b", "[4,1,1]")
     "  %6 = add(%4, %5): " X "\n"
     DATA(7, "w", "[8,4,1,1]")
     "  %8 = conv(%6, %7) " CONV_ATTRS("8", "1", "0", "1") ": f32[batch,8,6,5]\n"
     OUT(8),
     "conv f32[batch,8,6,5]", 1e-5, 0},
    {"fold-batch-norm",
     DATA(3, "a", "[4,1,1]")
     "  %4 = mul(%0, %3): " X "\n"
     DATA(7, "w", "[4,1,3,3]")
     "  %8 = conv(%4, %7) " CONV_ATTRS("4", "3", "1", "4") ": f32[batch,4,6,5]\n"
     OUT(8),
     "conv f32[batch,4,6,5]", 1e-5, 0},
    {"fold-batch-norm",
     DATA(3, "b", "[4,1,1]")
     "  %4 = add(%0, %3): " X "\n"
     DATA(7, "w", "[8,4,3,3]")
     "  %8 = conv(%4, %7) " CONV_ATTRS("8", "3", "1", "1") ": f32[batch,8,6,5]\n"
     OUT(8),
     "add " X "; conv f32[batch,8,6,5]", 0, 0},
    /* convolutions of one input, and the input itself, scaled and shifted */
    {"fold-batch-norm",
     DATA(3, "w", "[4,4,3,3]")
     "  %4 = conv(%0, %3) " CONV_ATTRS("4", "3", "1", "1") ": f32[batch,4,6,5]\n"
     DATA(5, "v", "[4,4,1,1]")
     "  %6 = conv(%0, %5) " CONV_ATTRS("4", "1", "0", "1") ": f32[batch,4,6,5]\n"
     DATA(7, "a", "[4,1,1]")
     "  %8 = mul(%0, %7): " X "\n"
     DATA(9, "b", "[1,4,1,1]")
     "  %10 = add(%8, %9): " X "\n"
     "  %11 = add(%6, %4): " X "\n"
     "  %12 = add(%10, %11): " X "\n"
     OUT(12),
     "conv f32[batch,4,6,5]", 1e-5, 0},
    {"fold-batch-norm",
     DATA(3, "w", "[4,1,3,3]")
     "  %4 = conv(%0, %3) " CONV_ATTRS("4", "3", "1", "4") ": f32[batch,4,6,5]\n"
     DATA(5, "a", "[4,1,1]")
     "  %6 = mul(%0, %5): " X "\n"
     "  %7 = add(%4, %6): " X "\n"
     OUT(7),
     "conv f32[batch,4,6,5]", 1e-5, 0},
    /* of different inputs, or with another reader: they stay */
    {"fold-batch-norm",
     DATA(3, "w", "[4,4,3,3]")
     "  %4 = conv(%0, %3) " CONV_ATTRS("4", "3", "1", "1") ": f32[batch,4,6,5]\n"
     DATA(5, "v", "[4,4,1,1]")
     "  %6 = conv(%4, %5) " CONV_ATTRS("4", "1", "0", "1") ": f32[batch,4,6,5]\n"
     "  %7 = add(%6, %4): " X "\n"
     OUT(7),
     "conv f32[batch,4,6,5]; conv f32[batch,4,6,5]; add " X, 0, 0},
    /* (y * W + b) * c is y * (W * c) + b * c */
    {"fold-batch-norm",
     DATA(3, "w", "[12,20]")
     "  %4 = matmul(%1, %3) {acc=f32, packed=0, n=0, math=0}: f32[batch,seq,20]\n"
     DATA(5, "b", "[20]")
     "  %6 = add(%4, %5): f32[batch,seq,20]\n"
     SCALAR(7, 0.125)
     "  %8 = mul(%6, %7): f32[batch,seq,20]\n"
     OUT(8),
     "matmul f32[batch,seq,20]; add f32[batch,seq,20]", 1e-5, 0},
};

static const struct rewrite merged[] = {
    {"merge-matmul",
     DATA(3, "q", "[12,12]") "  %4 = matmul(%1, %3) {acc=f32, packed=0, n=0, math=0}: f32[batch,seq,12]\n" DATA(
         5, "p", "[12]") "  %6 = add(%4, %5): f32[batch,seq,12]\n" DATA(7, "k", "[12,20]") "  %8 = matmul(%1, %7) "
                                                                                           "{acc=f32, packed=0, "
                                                                                           "n=0, math=0}: "
                                                                                           "f32[batch,seq,20]"
                                                                                           "\n" DATA(9, "r",
                                                                                                     "[20]") "  "
                                                                                                             "%10 "
                                                                                                             "= "
                                                                                                             "add(%"
                                                                                                             "8, "
                                                                                                             "%9): "
                                                                                                             "f32["
                                                                                                             "batch"
                                                                                                             ",seq,"
                                                                                                             "20]\n"
                                                                                                             "  "
                                                                                                             "%11 "
                                                                                                             "= "
                                                                                                             "trans"
                                                                                                             "pose("
                                                                                                             "%6) "
                                                                                                             "{perm"
                                                                                                             "=[0,"
                                                                                                             "2,1]}"
                                                                                                             ": "
                                                                                                             "f32["
                                                                                                             "batch"
                                                                                                             ",12,"
                                                                                                             "seq]"
                                                                                                             "\n"
                                                                                                             "  "
                                                                                                             "%12 "
                                                                                                             "= "
                                                                                                             "trans"
                                                                                                             "pose("
                                                                                                             "%10) "
                                                                                                             "{perm"
                                                                                                             "=[0,"
                                                                                                             "2,1]}"
                                                                                                             ": "
                                                                                                             "f32["
                                                                                                             "batch"
                                                                                                             ",20,"
                                                                                                             "seq]"
                                                                                                             "\n"
                                                                                                             "  "
                                                                                                             "outpu"
                                                                                                             "t "
                                                                                                             "\"a\""
                                                                                                             " = "
                                                                                                             "%11\n"
                                                                                                             "  "
                                                                                                             "outpu"
                                                                                                             "t "
                                                                                                             "\"b\""
                                                                                                             " = "
                                                                                                             "%12"
                                                                                                             "\n",
     "matmul f32[batch,seq,32]; add f32[batch,seq,32]; slice f32[batch,seq,12]; slice f32[batch,seq,20]; "
     "transpose f32[batch,12,seq]; transpose f32[batch,20,seq]",
     0, 0},
    /* read by more than views: each keeps its epilogue */
    {"merge-matmul",
     DATA(3, "q", "[12,12]")
     "  %4 = matmul(%1, %3) {acc=f32, packed=0, n=0, math=0}: f32[batch,seq,12]\n"
     DATA(5, "k", "[12,12]")
     "  %6 = matmul(%1, %5) {acc=f32, packed=0, n=0, math=0}: f32[batch,seq,12]\n"
     "  %7 = mul(%4, %6): " Y "\n"
     OUT(7),
     "matmul " Y "; matmul " Y "; mul " Y, 0, 0},
};
/* clang-format on */

static void test_algebra(void **state) {
    CHECK_REWRITES(recognized);
    CHECK_REWRITES(reciprocals);
    CHECK_REWRITES(norms);
    CHECK_REWRITES(merged);
}

/* ---- Views -------------------------------------------------------------------------------------------------------- */

/* clang-format off */
static const struct rewrite views[] = {
    /* two transposes cancel across elementwise work and a per-channel constant */
    {"move-views",
     "  %3 = transpose(%0) {perm=[0,2,3,1]}: f32[batch,6,5,4]\n"
     DATA(4, "a", "[4]")
     "  %5 = add(%3, %4): f32[batch,6,5,4]\n"
     "  %6 = tanh(%5): f32[batch,6,5,4]\n"
     "  %7 = transpose(%6) {perm=[0,3,1,2]}: " X "\n"
     OUT(7),
     "add " X "; tanh " X, 0, POISON},
    /* two combine across a reshape that merges axes, or splits one whose parts stay together, but not if they come apart */
    {"join-transposes",
     "  %3 = transpose(%0) {perm=[0,3,1,2]}: f32[batch,5,4,6]\n"
     "  %4 = reshape(%3) {dims=[batch,5,4,2,3]}: f32[batch,5,4,2,3]\n"
     "  %5 = transpose(%4) {perm=[0,1,3,4,2]}: f32[batch,5,2,3,4]\n"
     "  %6 = tanh(%5): f32[batch,5,2,3,4]\n"
     OUT(6),
     "transpose f32[batch,5,6,4]; reshape f32[batch,5,2,3,4]; tanh f32[batch,5,2,3,4]", 0, POISON},
    {"join-transposes",
     "  %3 = transpose(%0) {perm=[0,3,1,2]}: f32[batch,5,4,6]\n"
     "  %4 = reshape(%3) {dims=[batch,5,4,2,3]}: f32[batch,5,4,2,3]\n"
     "  %5 = transpose(%4) {perm=[0,1,4,3,2]}: f32[batch,5,3,2,4]\n"
     OUT(5),
     "transpose f32[batch,5,4,6]; reshape f32[batch,5,4,2,3]; transpose f32[batch,5,3,2,4]", 0, POISON},
    {"join-transposes",
     "  %3 = transpose(%0) {perm=[0,1,3,2]}: f32[batch,4,5,6]\n"
     "  %4 = reshape(%3) {dims=[batch,20,6]}: f32[batch,20,6]\n"
     "  %5 = transpose(%4) {perm=[0,2,1]}: f32[batch,6,20]\n"
     "  %6 = tanh(%5): f32[batch,6,20]\n"
     OUT(6),
     "transpose f32[batch,6,4,5]; reshape f32[batch,6,20]; tanh f32[batch,6,20]", 0, POISON},
    {"join-transposes",
     "  %3 = transpose(%0) {perm=[0,1,3,2]}: f32[batch,4,5,6]\n"
     "  %4 = reshape(%3) {dims=[batch,4,15,2]}: f32[batch,4,15,2]\n"
     "  %5 = transpose(%4) {perm=[0,2,1,3]}: f32[batch,15,4,2]\n"
     OUT(5),
     "transpose f32[batch,4,5,6]; reshape f32[batch,4,15,2]; transpose f32[batch,15,4,2]", 0, POISON},
    /* a transpose that moves only an axis of size 1 is a reshape */
    {"move-views",
     "  %3 = reduce_sum(%1) {axes=[2]}: f32[batch,seq,1]\n"
     "  %4 = transpose(%3) {perm=[0,2,1]}: f32[batch,1,seq]\n"
     OUT(4),
     "reduce_sum f32[batch,seq,1]; reshape f32[batch,1,seq]", 0, POISON},
    /* rows transposed, through a product and back */
    {"move-views",
     "  %3 = transpose(%1) {perm=[1,0,2]}: f32[seq,batch,12]\n"
     DATA(4, "w", "[12,20]")
     "  %5 = matmul(%3, %4) {acc=f32, packed=0, n=0, math=0}: f32[seq,batch,20]\n"
     "  %6 = transpose(%5) {perm=[1,0,2]}: f32[batch,seq,20]\n"
     OUT(6),
     "matmul f32[batch,seq,20]", 0, 0},
    /* flattened rows, a product, a bias, and back: the bias stays after the product */
    {"move-views",
     "  %3 = reshape(%1) {dims=[batch*seq,12]}: f32[batch*seq,12]\n"
     DATA(4, "w", "[12,20]")
     "  %5 = matmul(%3, %4) {acc=f32, packed=0, n=0, math=0}: f32[batch*seq,20]\n"
     DATA(6, "b", "[20]")
     "  %7 = add(%5, %6): f32[batch*seq,20]\n"
     "  %8 = reshape(%7) {dims=[batch,seq,20]}: f32[batch,seq,20]\n"
     OUT(8),
     "matmul f32[batch,seq,20]; add f32[batch,seq,20]", 0, 0},
    /* attention's keys: heads split, batches merged, transposed, split again */
    {"move-views",
     "  %3 = reshape(%1) {dims=[batch,seq,3,4]}: f32[batch,seq,3,4]\n"
     "  %4 = transpose(%3) {perm=[0,2,1,3]}: f32[batch,3,seq,4]\n"
     "  %5 = reshape(%4) {dims=[3*batch,seq,4]}: f32[3*batch,seq,4]\n"
     "  %6 = transpose(%5) {perm=[0,2,1]}: f32[3*batch,4,seq]\n"
     "  %7 = reshape(%6) {dims=[batch,3,4,seq]}: f32[batch,3,4,seq]\n"
     OUT(7),
     "reshape f32[batch,seq,3,4]; transpose f32[batch,3,4,seq]", 0, POISON},
    /* a softmax over the innermost axis keeps it there */
    {"move-views",
     "  %3 = transpose(%1) {perm=[0,2,1]}: f32[batch,12,seq]\n"
     "  %4 = reduce_max(%3) {axes=[2]}: f32[batch,12,1]\n"
     "  %5 = sub(%3, %4): f32[batch,12,seq]\n"
     OUT(5),
     "transpose f32[batch,12,seq]; reduce_max f32[batch,12,1]; sub f32[batch,12,seq]", 0, 0},
};
/* clang-format on */

/* Convolution, relu, depthwise convolution, squeeze and excite, residual add, mean: one transpose, at the input. */
/* clang-format off */
static const char excite[] =
    DATA(3, "w0", "[8,4,3,3]")
    "  %4 = conv(%0, %3) " CONV_ATTRS("8", "3", "1", "1") ": f32[batch,8,6,5]\n"
    SCALAR(5, 0)
    "  %6 = max(%4, %5): f32[batch,8,6,5]\n"
    DATA(7, "w1", "[8,1,3,3]")
    "  %8 = conv(%6, %7) " CONV_ATTRS("8", "3", "1", "8") ": f32[batch,8,6,5]\n"
    "  %9 = reduce_mean(%8) {axes=[2,3]}: f32[batch,8,1,1]\n"
    DATA(10, "w2", "[8,8,1,1]")
    "  %11 = conv(%9, %10) " CONV_ATTRS("8", "1", "0", "1") ": f32[batch,8,1,1]\n"
    "  %12 = sigmoid(%11): f32[batch,8,1,1]\n"
    "  %13 = mul(%12, %8): f32[batch,8,6,5]\n"
    "  %14 = add(%13, %6): f32[batch,8,6,5]\n"
    "  %15 = reduce_mean(%14) {axes=[2,3]}: f32[batch,8,1,1]\n"
    "  %16 = reshape(%15) {dims=[batch,8]}: f32[batch,8]\n"
    OUT(16);
/* clang-format on */

/* A channel shuffle: with channels last, the exchanged axes are the innermost ones. */
/* clang-format off */
static const char shuffle[] =
    DATA(3, "w0", "[4,4,1,1]")
    "  %4 = conv(%0, %3) " CONV_ATTRS("4", "1", "0", "1") ": " X "\n"
    "  %5 = reshape(%4) {dims=[batch,2,2,6,5]}: f32[batch,2,2,6,5]\n"
    "  %6 = transpose(%5) {perm=[0,2,1,3,4]}: f32[batch,2,2,6,5]\n"
    "  %7 = reshape(%6) {dims=[batch,4,6,5]}: " X "\n"
    "  %8 = conv(%7, %3) " CONV_ATTRS("4", "1", "0", "1") ": " X "\n"
    OUT(8);
/* clang-format on */

/* Group normalisation: the view merges each group's channels with the pixels. */
/* clang-format off */
static const char groups[] =
    DATA(3, "w0", "[6,4,1,1]")
    "  %4 = conv(%0, %3) " CONV_ATTRS("6", "1", "0", "1") ": f32[batch,6,6,5]\n"
    "  %5 = reshape(%4) {dims=[batch,2,90]}: f32[batch,2,90]\n"
    "  %6 = reduce_mean(%5) {axes=[2]}: f32[batch,2,1]\n"
    "  %7 = sub(%5, %6): f32[batch,2,90]\n"
    "  %8 = reshape(%7) {dims=[batch,6,6,5]}: f32[batch,6,6,5]\n"
    DATA(9, "w1", "[4,6,3,3]")
    "  %10 = conv(%8, %9) " CONV_ATTRS("4", "3", "1", "1") ": " X "\n"
    "  %11 = add(%10, %0): " X "\n"
    OUT(11);
/* clang-format on */

/* Windows of a picture whose channels the model itself has put last: they stay innermost. */
/* clang-format off */
static const char windows[] =
    "  %3 = slice(%0) {starts=[0,0,0,0], sizes=[batch,4,6,4], steps=[1,1,1,1]}: f32[batch,4,6,4]\n"
    DATA(4, "w0", "[8,4,1,1]")
    "  %5 = conv(%3, %4) " CONV_ATTRS("8", "1", "0", "1") ": f32[batch,8,6,4]\n"
    "  %6 = transpose(%5) {perm=[0,2,3,1]}: f32[batch,6,4,8]\n"
    "  %7 = reshape(%6) {dims=[batch,2,3,2,2,8]}: f32[batch,2,3,2,2,8]\n"
    "  %8 = transpose(%7) {perm=[0,1,3,2,4,5]}: f32[batch,2,2,3,2,8]\n"
    "  %9 = reshape(%8) {dims=[4*batch,6,8]}: f32[4*batch,6,8]\n"
    DATA(10, "w1", "[8,3]")
    "  %11 = matmul(%9, %10) {acc=f32, packed=0, n=0, math=0}: f32[4*batch,6,3]\n"
    OUT(11);
/* clang-format on */

/* A mixer's exchange of tokens and channels, its own, leaves the picture's channels innermost elsewhere. */
/* clang-format off */
static const char tokens[] =
    DATA(3, "w0", "[8,4,1,1]")
    "  %4 = conv(%0, %3) " CONV_ATTRS("8", "1", "0", "1") ": f32[batch,8,6,5]\n"
    "  %5 = reshape(%4) {dims=[batch,8,30]}: f32[batch,8,30]\n"
    "  %6 = transpose(%5) {perm=[0,2,1]}: f32[batch,30,8]\n"
    "  %7 = transpose(%6) {perm=[0,2,1]}: f32[batch,8,30]\n"
    DATA(8, "w1", "[30,30]")
    "  %9 = matmul(%7, %8) {acc=f32, packed=0, n=0, math=0}: f32[batch,8,30]\n"
    "  %10 = transpose(%9) {perm=[0,2,1]}: f32[batch,30,8]\n"
    "  %11 = add(%6, %10): f32[batch,30,8]\n"
    "  %12 = reduce_mean(%11) {axes=[2]}: f32[batch,30,1]\n"
    "  %13 = sub(%11, %12): f32[batch,30,8]\n"
    OUT(13);
/* clang-format on */

static const struct rewrite layouts[] = {
    {"layout", tokens,
     "transpose f32[batch,6,5,4]; conv f32[batch,6,5,8]; reshape f32[batch,30,8]; transpose f32[batch,8,30]; "
     "matmul f32[batch,8,30]; transpose f32[batch,30,8]; add f32[batch,30,8]; reduce_mean f32[batch,30,1]; "
     "sub f32[batch,30,8]",
     1e-6, 0},
    {"layout", windows,
     "slice f32[batch,4,6,4]; transpose f32[batch,6,4,4]; conv f32[batch,6,4,8]; matmul f32[batch,6,4,3]; "
     "reshape f32[batch,2,3,2,2,3]; transpose f32[batch,2,2,3,2,3]; reshape f32[4*batch,6,3]",
     1e-6, 0},
    {"layout", excite,
     "transpose f32[batch,6,5,4]; conv f32[batch,6,5,8]; max f32[batch,6,5,8]; conv f32[batch,6,5,8]; "
     "reduce_mean f32[batch,1,1,8]; conv f32[batch,1,1,8]; sigmoid f32[batch,1,1,8]; mul f32[batch,6,5,8]; "
     "add f32[batch,6,5,8]; reduce_mean f32[batch,1,1,8]; reshape f32[batch,8]",
     1e-6, 0},
    {"layout", shuffle,
     "transpose f32[batch,6,5,4]; conv f32[batch,6,5,4]; reshape f32[batch,6,5,2,2]; transpose f32[batch,6,5,2,2]; "
     "reshape f32[batch,6,5,4]; conv f32[batch,6,5,4]; transpose " X,
     1e-6, 0},
    {"layout", groups,
     "transpose f32[batch,6,5,4]; conv f32[batch,6,5,6]; reshape f32[batch,6,5,2,3]; reduce_mean f32[batch,1,1,2,1]; "
     "sub f32[batch,6,5,2,3]; reshape f32[batch,6,5,6]; conv f32[batch,6,5,4]; add f32[batch,6,5,4]; transpose " X,
     1e-6, 0},
    {"layout pack", excite, NULL, 1e-6, 0},
    {"layout pack", groups, NULL, 1e-6, 0},
};

/* ConvTranspose with kernel and stride 2, as imported: zeros between neighbours, then a convolution. */
/* clang-format off */
static const char transposed[] =
    "  %3 = reshape(%0) {dims=[4*batch,6,1,5]}: f32[4*batch,6,1,5]\n"
    "  %4 = pad(%3) {before=[0,0,0,0], after=[0,0,1,0], mode=0}: f32[4*batch,6,2,5]\n"
    "  %5 = reshape(%4) {dims=[batch,4,12,5]}: f32[batch,4,12,5]\n"
    "  %6 = slice(%5) {starts=[0,0,0,0], sizes=[batch,4,11,5], steps=[1,1,1,1]}: f32[batch,4,11,5]\n"
    "  %7 = reshape(%6) {dims=[44*batch,5,1,1]}: f32[44*batch,5,1,1]\n"
    "  %8 = pad(%7) {before=[0,0,0,0], after=[0,0,1,0], mode=0}: f32[44*batch,5,2,1]\n"
    "  %9 = reshape(%8) {dims=[batch,4,11,10]}: f32[batch,4,11,10]\n"
    "  %10 = slice(%9) {starts=[0,0,0,0], sizes=[batch,4,11,9], steps=[1,1,1,1]}: f32[batch,4,11,9]\n"
    DATA(11, "w", "[3,4,2,2]")
    "  %12 = conv(%10, %11) " CONV_ATTRS("3", "2", "1", "1") ": f32[batch,3,12,10]\n"
    OUT(12);
/* clang-format on */

static const struct rewrite phases[] = {
    {"split-phases", transposed,
     "conv f32[batch,12,6,5]; reshape f32[batch,2,2,3,6,5]; transpose f32[batch,3,6,2,5,2]; reshape f32[batch,3,12,10]",
     1e-6, 0},
    {"split-phases layout", transposed,
     "transpose f32[batch,6,5,4]; conv f32[batch,6,5,12]; reshape f32[batch,6,5,2,2,3]; "
     "transpose f32[batch,6,2,5,2,3]; reshape f32[batch,12,10,3]; transpose f32[batch,3,12,10]",
     1e-6, 0},
};

/* f16 pictures of 3 or 4 channels, convolved by windows of 3 rows and k columns with stride `stride` and padding
 * `before`. */
#define PICTURE(k, stride, before, after, channels, out)                                                               \
    "  %3 = slice(%0) {starts=[0,0,0,0], sizes=[batch," channels ",6,5], steps=[1,1,1,1]}: f32[batch," channels        \
    ",6,5]\n  %4 = cast(%3) {to=f16, saturate=0}: f16[batch," channels                                                 \
    ",6,5]\n" DATA(5, "w", "[8," channels ",3," k "]") "  %6 = cast(%5) {to=f16, saturate=0}: f16[8," channels ",3," k \
                                                       "]\n  %7 = conv(%4, %6) {strides=[1," stride                    \
                                                       "], dilations=[1,1], before=[1," before "], after=[1," after    \
                                                       "], groups=1, acc=f32, channels_last=0, packed=0, "             \
                                                       "n=8, kernel=[3," k "], math=0}: f32[batch,8,6," out            \
                                                       "]\n" OUT(7)

static const struct rewrite pictures[] = {
    /* five columns are three pairs, and a window that begins at an odd column is one longer */
    {"layout pack", PICTURE("3", "2", "1", "1", "3", "3"),
     "slice f32[batch,3,6,5]; cast f16[batch,3,6,5]; transpose f16[batch,6,5,3]; pad f16[batch,6,6,4]; "
     "reshape f16[batch,6,3,8]; conv f32[batch,6,3,8]; transpose f32[batch,8,6,3]",
     1e-3, ON_GPU},
    {"layout pack", PICTURE("3", "2", "0", "0", "3", "2"), NULL, 1e-3, ON_GPU},
    {"layout pack", PICTURE("2", "2", "1", "0", "3", "3"), NULL, 1e-3, ON_GPU},
    {"layout pack", PICTURE("2", "2", "0", "3", "4", "4"), NULL, 1e-3, ON_GPU},
    {"layout pack", PICTURE("5", "4", "3", "2", "3", "2"), NULL, 1e-3, ON_GPU},
    {"layout pack", PICTURE("1", "4", "0", "0", "3", "2"), NULL, 1e-3, ON_GPU},
    {"layout pack", PICTURE("2", "4", "0", "0", "3", "1"), NULL, 1e-3, ON_GPU}, /* three columns remain unused */
    {"layout pack", PICTURE("3", "3", "1", "1", "3", "2"), NULL, 1e-3, ON_GPU},
    {"layout pack", PICTURE("3", "1", "1", "1", "4", "5"), NULL, 1e-3, ON_GPU},
};

static void test_views(void **state) {
    CHECK_REWRITES(pictures);
    CHECK_REWRITES(phases);
    CHECK_REWRITES(views);
    CHECK_REWRITES(layouts);
}

/* ---- Packing ------------------------------------------------------------------------------------------------------ */

static void check_packed_shapes(struct ig_job *job, void *argument) {
    static const char *const expected[] = {"f32[1,1,3,3,4,16]", "f32[3,3,8]", "f32[1,1,1,1,8,16]"};
    struct ig_graph *g = rewrite_by_passes(rewrite_graph(job, excite), "layout pack");
    size_t found = 0;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (n->op != IG_OP_conv) continue;
        struct ig_text text;
        ig_text_init(&text, job);
        ig_type_print(g->dims, ig_type_of(g, n->in[1]), &text);
        assert_string_equal(text.at, expected[found]);
        assert_int_equal(ig_attr_int(g, n, IG_ATTR_packed), found == 1 ? 1 : 16);
        assert_true(ig_info(g, n->in[1])->is_refittable);
        found++;
    }
    assert_int_equal(found, 3);
}

static void test_pack(void **state) {
    /* clang-format off */
    static const struct rewrite odd[] = {
        /* one column, one more than a panel, exactly two panels */
        {"pack",
         DATA(3, "w", "[12,1]") "  %4 = matmul(%1, %3) {acc=f32, packed=0, n=0, math=0}: f32[batch,seq,1]\n" OUT(4),
         "matmul f32[batch,seq,1]", 0, 0},
        {"pack",
         DATA(3, "w", "[12,17]") "  %4 = matmul(%1, %3) {acc=f32, packed=0, n=0, math=0}: f32[batch,seq,17]\n" OUT(4),
         "matmul f32[batch,seq,17]", 0, 0},
        {"pack",
         DATA(3, "w", "[12,32]") "  %4 = matmul(%1, %3) {acc=f32, packed=0, n=0, math=0}: f32[batch,seq,32]\n" OUT(4),
         "matmul f32[batch,seq,32]", 0, 0},
        /* two groups of two channels, five outputs each */
        {"canonicalize layout pack",
         DATA(3, "w", "[10,2,3,3]")
         "  %4 = conv(%0, %3) " CONV_ATTRS("10", "3", "1", "2") ": f32[batch,10,6,5]\n"
         OUT(4),
         NULL, 0, 0},
    };
    static const struct rewrite half[] = {
        {"widen pack",
         "  %3 = cast(%1) {to=f16, saturate=0}: f16[batch,seq,12]\n"
         DATA(4, "w", "[12,20]")
         "  %5 = cast(%4) {to=f16, saturate=0}: f16[12,20]\n"
         "  %6 = matmul(%3, %5) {acc=f16, packed=0, n=0, math=0}: f16[batch,seq,20]\n"
         OUT(6),
         "cast f16[batch,seq,12]; matmul f32[batch,seq,20]; cast f16[batch,seq,20]", 1e-3, 0},
    };
    /* clang-format on */
    CHECK_REWRITES(half);
    CHECK_REWRITES(odd);
    rewrite_in_job(check_packed_shapes, NULL, "pack");
}

/* ---- The table ---------------------------------------------------------------------------------------------------- */

/* All passes together, on all graphs above. */
static void test_all_passes(void **state) {
    static const struct {
        const struct rewrite *rewrites;
        size_t count;
    } tables[] = {
        {arithmetic, sizeof arithmetic / sizeof *arithmetic},
        {choices, sizeof choices / sizeof *choices},
        {movements, sizeof movements / sizeof *movements},
        {branches, sizeof branches / sizeof *branches},
        {recognized, sizeof recognized / sizeof *recognized},
        {reciprocals, sizeof reciprocals / sizeof *reciprocals},
        {norms, sizeof norms / sizeof *norms},
        {merged, sizeof merged / sizeof *merged},
        {views, sizeof views / sizeof *views},
        {layouts, sizeof layouts / sizeof *layouts},
    };
    char names[1024] = "";
    for (int i = 0; i < ig_pass_count; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? " " : "", ig_passes[i].name);
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        for (size_t i = 0; i < tables[t].count; i++) {
            struct rewrite all = tables[t].rewrites[i];
            all.passes = names;
            all.after = NULL;
            all.tolerance = all.tolerance > 1e-5 ? all.tolerance : 1e-5;
            all.flags = 0;
            check_rewrites(&all, 1);
        }
    }
}

/* docs/passes.md has a row for every pass, in this order, with its level and switch. */
static void test_documentation(void **state) {
    FILE *file = fopen(TEST_SOURCE_DIR "/docs/passes.md", "r");
    char line[1024];
    int row = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        char expected[512];
        if (strncmp(line, "| `", 3) != 0) continue;
        assert_true(row < ig_pass_count);
        const struct ig_pass *p = &ig_passes[row++];
        snprintf(expected, sizeof expected, "| `%s` | %d | %s | %s |", p->name, p->level, p->required ? "no" : "yes",
                 p->description);
        line[strcspn(line, "\n")] = '\0';
        assert_string_equal(line, expected);
    }
    fclose(file);
    assert_int_equal(row, ig_pass_count);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canonicalize),  cmocka_unit_test(test_fold_constants),
        cmocka_unit_test(test_graph_folding), cmocka_unit_test(test_algebra),
        cmocka_unit_test(test_views),         cmocka_unit_test(test_pack),
        cmocka_unit_test(test_all_passes),    cmocka_unit_test(test_documentation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
