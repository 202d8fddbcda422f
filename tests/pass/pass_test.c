/*
 * The passes, one rewrite per case: a graph in text form, the operators that remain, and equal results before and
 * after. Inputs contain NaN and infinities where the rewrite must preserve them. pass_random_test.c covers unforeseen
 * cases.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "pass/pass.h"
#include "support/check/rewrite_check.h"
#include "support/support.h"

enum { POISON = REWRITE_POISON, ON_GPU = REWRITE_ON_GPU };

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
    /* a mask that hides nothing, and one that hides something */
    {"canonicalize",
     "  %3 = constant() {data=[1,1,1,1,1,1]}: bool[6,1]\n"
     "  %4 = broadcast(%3) {dims=[batch,1,6,5]}: bool[batch,1,6,5]\n"
     SCALAR(5, 0)
     SCALAR(6, -1e9)
     "  %7 = where(%4, %5, %6): f32[batch,1,6,5]\n"
     "  %8 = neg(%0): " X "\n"
     "  %9 = add(%8, %7): " X "\n"
     OUT(9),
     "neg " X, 0, POISON},
    {"canonicalize",
     "  %3 = constant() {data=[1,1,1,1,1,0]}: bool[6,1]\n"
     SCALAR(4, -1e9)
     "  %5 = where(%3, %0, %4): " X "\n"
     OUT(5),
     "where " X, 0, POISON},
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

/* Every second element, from `first` on and negated and from `second` on, each in the last two dims `half`, joined to `both`. */
#define HALVES(first, second, half, both) \
     "  %3 = reshape(%0) {dims=[batch,4,5,6]}: f32[batch,4,5,6]\n" \
     "  %4 = slice(%3) {starts=[0,1,0," first "], sizes=[batch,2,5,3], steps=[1,1,1,2]}: f32[batch,2,5,3]\n" \
     "  %5 = neg(%4): f32[batch,2,5,3]\n" \
     "  %6 = reshape(%5) {dims=[batch,2,5," half "]}: f32[batch,2,5," half "]\n" \
     "  %7 = slice(%3) {starts=[0,1,0," second "], sizes=[batch,2,5,3], steps=[1,1,1,2]}: f32[batch,2,5,3]\n" \
     "  %8 = reshape(%7) {dims=[batch,2,5," half "]}: f32[batch,2,5," half "]\n" \
     "  %9 = concat(%6, %8) {axis=4}: f32[batch,2,5," both "]\n" \
     "  %10 = reshape(%9) {dims=[batch,2,5,6]}: f32[batch,2,5,6]\n" OUT(10)

/* One column of y; six of them, and as steps in front of one another. */
#define COLUMN(v, at) \
    "  %" #v " = slice(%1) {starts=[0,0," #at "], sizes=[batch,seq,1], steps=[1,1,1]}: f32[batch,seq,1]\n"
#define SIX_COLUMNS                                                                                    \
    "slice f32[batch,seq,1]; slice f32[batch,seq,1]; slice f32[batch,seq,1]; slice f32[batch,seq,1]; " \
    "slice f32[batch,seq,1]; slice f32[batch,seq,1]; "
#define SIX_STEPS                                                                                              \
    "reshape f32[1,batch,seq]; reshape f32[1,batch,seq]; reshape f32[1,batch,seq]; reshape f32[1,batch,seq]; " \
    "reshape f32[1,batch,seq]; reshape f32[1,batch,seq]; "

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
    /* pairs are exchanged, or only taken apart and joined; halves that are the same, or joined end to end, are no pairs */
    {"canonicalize", HALVES("1", "0", "3,1", "3,2"),
     "reshape f32[batch,4,5,6]; slice f32[batch,2,5,6]; reshape f32[batch,2,5,3,2]; slice f32[batch,2,5,3,2]; reshape "
     "f32[batch,2,5,6]; neg f32[batch,2,5,6]; where f32[batch,2,5,6]", 0, POISON},
    {"canonicalize", HALVES("0", "1", "3,1", "3,2"),
     "reshape f32[batch,4,5,6]; slice f32[batch,2,5,6]; neg f32[batch,2,5,6]; where f32[batch,2,5,6]", 0, POISON},
    {"canonicalize", HALVES("1", "1", "3,1", "3,2"),
     "reshape f32[batch,4,5,6]; slice f32[batch,2,5,3]; neg f32[batch,2,5,3]; reshape f32[batch,2,5,3,1]; reshape "
     "f32[batch,2,5,3,1]; concat f32[batch,2,5,3,2]; reshape f32[batch,2,5,6]", 0, POISON},
    {"canonicalize", HALVES("0", "1", "1,3", "1,6"),
     "reshape f32[batch,4,5,6]; slice f32[batch,2,5,3]; neg f32[batch,2,5,3]; reshape f32[batch,2,5,1,3]; slice "
     "f32[batch,2,5,3]; reshape f32[batch,2,5,1,3]; concat f32[batch,2,5,1,6]; reshape f32[batch,2,5,6]", 0, POISON},
    {"canonicalize", "  %3 = constant() {data=[-1]}: i64[]\n  %4 = gather(%0, %3) {axis=1}: f32[batch,6,5]\n" OUT(4),
     "slice f32[batch,1,6,5]; reshape f32[batch,6,5]", 0, POISON},
    {"canonicalize",
     "  %3 = constant() {data=[1,3,5]}: i64[3]\n  %4 = gather(%0, %3) {axis=2}: f32[batch,4,3,5]\n" OUT(4),
     "slice f32[batch,4,3,5]", 0, POISON},
    {"canonicalize",
     "  %3 = constant() {data=[0,1,2,3,4,5]}: i64[1,6]\n  %4 = gather(%0, %3) {axis=2}: f32[batch,4,1,6,5]\n" OUT(4),
     "reshape f32[batch,4,1,6,5]", 0, POISON},
    {"canonicalize",
     "  %3 = constant() {data=[0,1,1,2]}: i64[2,2]\n  %4 = gather(%0, %3) {axis=2}: f32[batch,4,2,2,5]\n" OUT(4),
     "gather f32[batch,4,2,2,5]", 0, POISON},
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
    /* many values stacked along the last axis; a few, or pieces of lines, as they are */
    {"canonicalize",
     COLUMN(3, 11) COLUMN(4, 10) COLUMN(5, 9) COLUMN(6, 8) COLUMN(7, 7) COLUMN(8, 6) COLUMN(9, 5) COLUMN(10, 4)
     COLUMN(11, 3) COLUMN(12, 2) COLUMN(13, 1) COLUMN(14, 0)
     "  %15 = concat(%3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14) {axis=2}: f32[batch,seq,12]\n" OUT(15),
     SIX_COLUMNS SIX_COLUMNS SIX_STEPS SIX_STEPS "concat f32[12,batch,seq]; transpose f32[batch,seq,12]", 0, POISON},
    {"canonicalize",
     COLUMN(3, 5) COLUMN(4, 4) COLUMN(5, 3) COLUMN(6, 2) COLUMN(7, 1) COLUMN(8, 0)
     "  %9 = concat(%3, %4, %5, %6, %7, %8) {axis=2}: f32[batch,seq,6]\n" OUT(9),
     SIX_COLUMNS "concat f32[batch,seq,6]", 0, POISON},
    /* turned before it is broadcast */
    {"canonicalize",
     "  %3 = broadcast(%2) {dims=[6,4,batch]}: i32[6,4,batch]\n  %4 = transpose(%3) {perm=[2,0,1]}: i32[batch,6,4]\n" OUT(4),
     "reshape i32[batch,1,1]; broadcast i32[batch,6,4]", 0, 0},
    /* computed before it is broadcast */
    {"canonicalize", "  %3 = broadcast(%2) {dims=[6,batch]}: i32[6,batch]\n  %4 = abs(%3): i32[6,batch]\n" OUT(4),
     "abs i32[batch]; broadcast i32[6,batch]", 0, 0},
    {"canonicalize",
     "  %3 = reduce_sum(%0) {axes=[3]}: f32[batch,4,6,1]\n"
     "  %4 = reduce_sum(%3) {axes=[2,3]}: f32[batch,4,1,1]\n"
     OUT(4),
     "reduce_sum f32[batch,4,1,1]", 1e-6, 0},
    /* a sum of two, but not one of squares */
    {"canonicalize",
     "  %3 = abs(%0): " X "\n"
     "  %4 = slice(%3) {starts=[0,1,0,0], sizes=[batch,2,6,5], steps=[1,1,1,1]}: f32[batch,2,6,5]\n"
     "  %5 = abs(%4): f32[batch,2,6,5]\n"
     "  %6 = sqrt(%5): f32[batch,2,6,5]\n"
     "  %7 = reduce_sum(%6) {axes=[1]}: f32[batch,1,6,5]\n"
     OUT(7),
     "abs " X "; slice f32[batch,1,6,5]; sqrt f32[batch,1,6,5]; slice f32[batch,1,6,5]; sqrt f32[batch,1,6,5]; add "
     "f32[batch,1,6,5]", 0, POISON},
    {"canonicalize",
     "  %3 = slice(%0) {starts=[0,1,0,0], sizes=[batch,2,6,5], steps=[1,1,1,1]}: f32[batch,2,6,5]\n"
     "  %4 = mul(%3, %3): f32[batch,2,6,5]\n"
     "  %5 = reduce_sum(%4) {axes=[1]}: f32[batch,1,6,5]\n"
     OUT(5),
     "slice f32[batch,2,6,5]; mul f32[batch,2,6,5]; reduce_sum f32[batch,1,6,5]", 1e-6, 0},
    /* a window over everything */
    {"canonicalize",
     "  %3 = pool_avg(%0) {kernel=[6,5], strides=[1,1], dilations=[1,1], before=[0,0], sizes=[1,1], c"
         "hannels_last=0, after=[0,0], count_pad=0}: f32[batch,4,1,1]\n"
     OUT(3),
     "reduce_mean f32[batch,4,1,1]", 1e-6, 0},
    /* large windows side by side, but not such that overlap */
    {"canonicalize",
     "  %3 = reshape(%0) {dims=[batch,1,12,10]}: f32[batch,1,12,10]\n"
     "  %4 = pool_max(%3) {kernel=[6,10], strides=[6,7], dilations=[1,1], before=[0,0], sizes=[2,1], c"
         "hannels_last=0}: f32[batch,1,2,1]\n"
     OUT(4),
     "reshape f32[batch,1,2,6,1,10]; reduce_max f32[batch,1,2,1,1,1]; reshape f32[batch,1,2,1]", 0, POISON},
    {"canonicalize",
     "  %3 = reshape(%0) {dims=[batch,1,12,10]}: f32[batch,1,12,10]\n"
     "  %4 = pool_max(%3) {kernel=[6,10], strides=[3,1], dilations=[1,1], before=[0,0], sizes=[3,1], c"
         "hannels_last=0}: f32[batch,1,3,1]\n"
     OUT(4),
     "reshape f32[batch,1,12,10]; pool_max f32[batch,1,3,1]", 0, POISON},
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

/* ---- Constant masks ----------------------------------------------------------------------------------------------- */

struct mask {
    int64_t rows, columns, least, most; /* hidden: columns before row + least, and after row + most */
    bool is_band;                       /* shall it be written in indices? */
    int64_t flaw;                       /* an element that is not as the band says, or -1 */
    int matrices;
};

static bool lets_through(const struct mask *m, int64_t i) {
    const int64_t row = i / m->columns % m->rows, column = i % m->columns;
    return (column >= row + m->least && column <= row + m->most) != (i == m->flaw);
}

/* A constant of numbers for what is let through and what is hidden, in the text of graphs. */
static const char *mask_text(struct ig_job *job, const struct mask *m, const char *yes, const char *no,
                             const char *dtype) {
    struct ig_text text;
    ig_text_init(&text, job);
    ig_text_printf(&text, "  %%3 = constant() {data=[");
    for (int64_t i = 0; i < m->matrices * m->rows * m->columns; i++)
        ig_text_printf(&text, "%s%s", i ? "," : "", lets_through(m, i) ? yes : no);
    ig_text_printf(&text, "]}: %s[%d,%lld,%lld]\n", dtype, m->matrices, (long long)m->rows, (long long)m->columns);
    return text.at;
}

struct written {
    const char *before;
    bool in_indices;
};

static void check_written(struct ig_job *job, void *argument) {
    const struct written *w = argument;
    struct ig_graph *g = rewrite_by_passes(rewrite_graph(job, w->before), "canonicalize");
    int indices = 0;
    for (ig_node_id id = 0; id < g->nodes.count; id++)
        indices += g->nodes.at[id].op == IG_OP_iota;
    if ((indices > 0) != w->in_indices) fail_msg("written in %s:\n%s", indices ? "indices" : "data", w->before);
}

static void check_mask(struct ig_job *job, void *argument) {
    const struct mask *m = argument;
    const char *result = ig_format(job, "f32[%d,%lld,%lld]", m->matrices, (long long)m->rows, (long long)m->columns);
    const char *x = ig_format(job,
                              "  %%4 = slice(%%0) {starts=[0,0,0,0], sizes=[1,1,6,5], steps=[1,1,1,1]}: f32[1,1,6,5]\n"
                              "  %%5 = reduce_max(%%4) {axes=[0,1,2,3]}: f32[1,1,1,1]\n"
                              "  %%6 = reshape(%%5) {dims=[1,1,1]}: f32[1,1,1]\n"
                              "  %%7 = broadcast(%%6) {dims=[%d,%lld,%lld]}: %s\n",
                              m->matrices, (long long)m->rows, (long long)m->columns, result);
    const char *chosen = "  %8 = constant() {data=[-3.4028235e+38]}: f32[]\n", *tail = OUT(9);
    const char *flags = mask_text(job, m, "1", "0", "bool"), *inverse = mask_text(job, m, "0", "1", "bool");
    const char *numbers = mask_text(job, m, "0", "-3.4028235e+38", "f32"),
               *small = mask_text(job, m, "0", "-100", "f32");
    const struct {
        const char *constant, *operation;
        bool converts;
    } ways[] = {
        {flags, "where(%3, %7, %8)", m->is_band},
        {inverse, "where(%3, %8, %7)", m->is_band},
        {numbers, "add(%7, %3)", m->is_band},
        {small, "add(%7, %3)", false}, /* which still counts in a softmax */
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *before =
            ig_format(job, "%s%s%s  %%9 = %s: %s\n%s", ways[i].constant, x, chosen, ways[i].operation, result, tail);
        check_written(job, &(struct written){before, ways[i].converts});
        check_rewrites(&(struct rewrite){.passes = "canonicalize", .before = before, .flags = POISON}, 1);
    }
}

static void test_masks(void **state) {
    (void)state;
    static const struct mask masks[] = {
        {40, 40, -99, 0, true, -1, 1},      {40, 40, -9, 0, true, -1, 1},      {40, 40, -2, 3, true, -1, 2},
        {30, 70, -99, 40, true, -1, 1},     {70, 30, -99, 0, true, -1, 1},     {40, 40, 0, 0, true, -1, 1},
        {40, 40, -99, 0, false, 0, 1},      {40, 40, -99, 0, false, 1599, 1},  {40, 40, -99, 0, false, 1601, 2},
        {40, 40, -9, 0, false, 39 * 40, 1}, {1, 2000, -99, 700, false, -1, 1}, {2000, 1, -99, 0, false, -1, 1},
        {70, 30, -1, 0, false, -1, 1}, /* rows that see nothing */
        {32, 32, -99, 0, false, -1, 1} /* the builder makes data of so few */
    };
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++)
        rewrite_in_job(check_mask, &masks[i], "masks");
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
    /* the keys have no bias */
    {"merge-matmul",
     DATA(3, "k", "[12,20]")
     "  %4 = matmul(%1, %3) {acc=f32, packed=0, n=0, math=0}: f32[batch,seq,20]\n"
     DATA(5, "q", "[12,12]")
     "  %6 = matmul(%1, %5) {acc=f32, packed=0, n=0, math=0}: f32[batch,seq,12]\n"
     DATA(7, "p", "[12]")
     "  %8 = add(%6, %7): f32[batch,seq,12]\n"
     "  %9 = transpose(%4) {perm=[0,2,1]}: f32[batch,20,seq]\n"
     "  %10 = transpose(%8) {perm=[0,2,1]}: f32[batch,12,seq]\n"
     "  output \"a\" = %9\n  output \"b\" = %10\n",
     "matmul f32[batch,seq,32]; add f32[batch,seq,32]; slice f32[batch,seq,20]; slice f32[batch,seq,12]; "
     "transpose f32[batch,20,seq]; transpose f32[batch,12,seq]",
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

/* ---- The table ---------------------------------------------------------------------------------------------------- */

static void test_all_passes(void **state) {
    (void)state;
    CHECK_ALL_PASSES(arithmetic);
    CHECK_ALL_PASSES(choices);
    CHECK_ALL_PASSES(movements);
    CHECK_ALL_PASSES(branches);
    CHECK_ALL_PASSES(recognized);
    CHECK_ALL_PASSES(reciprocals);
    CHECK_ALL_PASSES(norms);
    CHECK_ALL_PASSES(merged);
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
        cmocka_unit_test(test_canonicalize),  cmocka_unit_test(test_masks),   cmocka_unit_test(test_fold_constants),
        cmocka_unit_test(test_graph_folding), cmocka_unit_test(test_algebra), cmocka_unit_test(test_all_passes),
        cmocka_unit_test(test_documentation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
