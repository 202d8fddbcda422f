/*
 * The passes that move and remove transposes and reshapes, choose layouts and pack weights, as in pass_test.c: one rewrite
 * per case.
 */
#include "support/check/rewrite_check.h"
#include "support/support.h"

enum { POISON = REWRITE_POISON, ON_GPU = REWRITE_ON_GPU };

#define X "f32[batch,4,6,5]"
#define Y "f32[batch,seq,12]"

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
    /* single numbers: one of them a reshape, the other not */
    {"move-views",
     "  %3 = reduce_sum(%0) {axes=[0,1,2,3]}: f32[1,1,1,1]\n"
     "  %4 = reshape(%3) {dims=[]}: f32[]\n"
     "  %5 = constant() {data=[0,1,2,3]}: i64[4]\n"
     "  %6 = gather_nd(%0, %5) {batch_dims=0}: f32[]\n"
     "  %7 = sub(%4, %6): f32[]\n"
     OUT(7),
     "reduce_sum f32[1,1,1,1]; reshape f32[]; gather_nd f32[]; sub f32[]", 0, 0},
    /* rows transposed, through a product and back */
    {"move-views",
     "  %3 = transpose(%1) {perm=[1,0,2]}: f32[seq,batch,12]\n"
     DATA(4, "w", "[12,20]")
     "  %5 = matmul(%3, %4) {acc=f32, packed=0, n=0, math=0}: f32[seq,batch,20]\n"
     "  %6 = transpose(%5) {perm=[1,0,2]}: f32[batch,seq,20]\n"
     OUT(6),
     "matmul f32[batch,seq,20]", 0, 0},
    /* the rows of one sample, a product, and back to a residual of the old shape: the sum stays after the product */
    {"move-views",
     "  %3 = reduce_sum(%0) {axes=[0,1]}: f32[1,1,6,5]\n"
     "  %4 = reshape(%3) {dims=[6,5]}: f32[6,5]\n"
     DATA(5, "w", "[5,5]")
     "  %6 = matmul(%4, %5) {acc=f32, packed=0, n=0, math=0}: f32[6,5]\n"
     "  %7 = reshape(%6) {dims=[1,1,6,5]}: f32[1,1,6,5]\n"
     "  %8 = add(%7, %3): f32[1,1,6,5]\n"
     "  %9 = tanh(%8): f32[1,1,6,5]\n"
     OUT(9),
     "reduce_sum f32[1,1,6,5]; reshape f32[6,5]; matmul f32[6,5]; add f32[6,5]; tanh f32[6,5]; reshape f32[1,1,6,5]", 0, 0},
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
    /* rows that differ by an axis of size 1 alone stay in front of a product, whose result others of that shape are added to */
    {"move-views",
     "  %3 = reduce_sum(%0) {axes=[1]}: f32[batch,1,6,5]\n"
     "  %4 = reshape(%3) {dims=[1,batch,30]}: f32[1,batch,30]\n"
     DATA(5, "w", "[30,20]")
     "  %6 = matmul(%4, %5) {acc=f32, packed=0, n=0, math=0}: f32[1,batch,20]\n"
     OUT(6),
     "reduce_sum f32[batch,1,6,5]; reshape f32[1,batch,30]; matmul f32[1,batch,20]", 0, 0},
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

/* What is computed from concatenations of parts of one value. */
#define HALF "f32[batch,seq,6]"
#define HALVES                                                                          \
    "  %3 = slice(%1) {starts=[0,0,0], sizes=[batch,seq,6], steps=[1,1,1]}: " HALF "\n" \
    "  %4 = slice(%1) {starts=[0,0,6], sizes=[batch,seq,6], steps=[1,1,1]}: " HALF "\n" \
    "  %5 = neg(%4): " HALF "\n"                                                        \
    "  %6 = concat(%5, %3) {axis=2}: " Y "\n"

/* clang-format off */
static const struct rewrite in_parts[] = {
    /* a rotary embedding, with tables of constants: for all positions, and for each */
    {"compute-in-parts",
     HALVES
     DATA(7, "sin", "[12]")
     "  %8 = mul(%6, %7): " Y "\n"
     DATA(9, "cos", "[1,12]")
     "  %10 = mul(%1, %9): " Y "\n"
     "  %11 = add(%10, %8): " Y "\n"
     OUT(11),
     "slice f32[batch,seq,6]; slice f32[batch,seq,6]; neg f32[batch,seq,6]; mul f32[batch,seq,6]; "
     "mul f32[batch,seq,6]; mul f32[batch,seq,6]; add f32[batch,seq,6]; mul f32[batch,seq,6]; "
     "add f32[batch,seq,6]; concat f32[batch,seq,12]", 0, POISON},
    /* tables of one value twice */
    {"compute-in-parts",
     HALVES
     "  %7 = reduce_mean(%3) {axes=[0]}: f32[1,seq,6]\n"
     "  %8 = concat(%7, %7) {axis=2}: f32[1,seq,12]\n"
     "  %9 = sin(%8): f32[1,seq,12]\n"
     "  %10 = cos(%8): f32[1,seq,12]\n"
     "  %11 = mul(%6, %9): " Y "\n"
     "  %12 = mul(%1, %10): " Y "\n"
     "  %13 = sub(%12, %11): " Y "\n"
     OUT(13),
     "slice f32[batch,seq,6]; slice f32[batch,seq,6]; neg f32[batch,seq,6]; reduce_mean f32[1,seq,6]; "
     "sin f32[1,seq,6]; mul f32[batch,seq,6]; mul f32[batch,seq,6]; cos f32[1,seq,6]; mul f32[batch,seq,6]; "
     "sub f32[batch,seq,6]; mul f32[batch,seq,6]; sub f32[batch,seq,6]; concat f32[batch,seq,12]", 0, POISON},
    /* not where the concatenation is needed itself */
    {"compute-in-parts",
     HALVES
     "  %7 = tanh(%6): " Y "\n"
     "  %8 = add(%7, %6): " Y "\n"
     OUT(8),
     "slice f32[batch,seq,6]; slice f32[batch,seq,6]; neg f32[batch,seq,6]; concat f32[batch,seq,12]; "
     "tanh f32[batch,seq,12]; add f32[batch,seq,12]", 0, POISON},
    /* not beside a product, which would have to be stored */
    {"compute-in-parts",
     HALVES
     DATA(7, "w", "[12,12]")
     "  %8 = matmul(%1, %7) {acc=f32, packed=0, n=0, math=0}: " Y "\n"
     "  %9 = add(%6, %8): " Y "\n"
     OUT(9),
     "slice f32[batch,seq,6]; slice f32[batch,seq,6]; neg f32[batch,seq,6]; concat f32[batch,seq,12]; "
     "matmul f32[batch,seq,12]; add f32[batch,seq,12]", 0, 0},
    /* not of two values */
    {"compute-in-parts",
     "  %3 = tanh(%1): " Y "\n"
     "  %4 = slice(%3) {starts=[0,0,0], sizes=[batch,seq,6], steps=[1,1,1]}: " HALF "\n"
     "  %5 = slice(%1) {starts=[0,0,6], sizes=[batch,seq,6], steps=[1,1,1]}: " HALF "\n"
     "  %6 = reduce_sum(%1) {axes=[1]}: f32[batch,1,12]\n"
     "  %7 = slice(%6) {starts=[0,0,0], sizes=[batch,1,6], steps=[1,1,1]}: f32[batch,1,6]\n"
     "  %8 = mul(%5, %7): " HALF "\n"
     "  %9 = concat(%8, %4) {axis=2}: " Y "\n"
     "  %10 = exp(%9): " Y "\n"
     OUT(10),
     "tanh f32[batch,seq,12]; slice f32[batch,seq,6]; slice f32[batch,seq,6]; reduce_sum f32[batch,1,12]; "
     "slice f32[batch,1,6]; mul f32[batch,seq,6]; concat f32[batch,seq,12]; exp f32[batch,seq,12]", 0, POISON},
    /* the mean square of each head is computed from what is stored anyway, not stored beside it */
    {"move-views",
     DATA(3, "w", "[12,12]")
     "  %4 = matmul(%1, %3) {acc=f32, packed=0, n=0, math=0}: " Y "\n"
     "  %5 = reshape(%4) {dims=[batch,seq,3,4]}: f32[batch,seq,3,4]\n"
     "  %6 = mul(%5, %5): f32[batch,seq,3,4]\n"
     "  %7 = reduce_mean(%6) {axes=[3]}: f32[batch,seq,3,1]\n"
     "  %8 = mul(%5, %7): f32[batch,seq,3,4]\n"
     OUT(8),
     "matmul f32[batch,seq,12]; reshape f32[batch,seq,3,4]; mul f32[batch,seq,3,4]; "
     "reduce_mean f32[batch,seq,3,1]; mul f32[batch,seq,3,4]", 0, 0},
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

/* A picture becomes larger behind a convolution, as at the end of a segmentation. */
/* clang-format off */
static const char enlarged[] =
    DATA(3, "w", "[8,4,1,1]")
    "  %4 = conv(%0, %3) " CONV_ATTRS("8", "1", "0", "1") ": f32[batch,8,6,5]\n"
    "  %5 = constant() {data=[0,0,1,2,2,3,4,4]}: i64[8]\n"
    "  %6 = gather(%4, %5) {axis=3}: f32[batch,8,6,8]\n"
    OUT(6);
/* clang-format on */

static const struct rewrite layouts[] = {
    {"layout", enlarged,
     "transpose f32[batch,6,5,4]; conv f32[batch,6,5,8]; gather f32[batch,6,8,8]; transpose f32[batch,8,6,8]", 1e-6, 0},
    {"layout", enlarged,
     "transpose f32[batch,6,5,4]; conv f32[batch,6,5,8]; transpose f32[batch,8,6,5]; gather f32[batch,8,6,8]", 1e-6,
     ON_GPU},
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

/* ConvTranspose with stride 2, as imported: zeros between neighbours, then a convolution. */
/* clang-format off */
#define SPREAD \
    "  %3 = reshape(%0) {dims=[4*batch,6,1,5]}: f32[4*batch,6,1,5]\n" \
    "  %4 = pad(%3) {before=[0,0,0,0], after=[0,0,1,0], mode=0}: f32[4*batch,6,2,5]\n" \
    "  %5 = reshape(%4) {dims=[batch,4,12,5]}: f32[batch,4,12,5]\n" \
    "  %6 = slice(%5) {starts=[0,0,0,0], sizes=[batch,4,11,5], steps=[1,1,1,1]}: f32[batch,4,11,5]\n" \
    "  %7 = reshape(%6) {dims=[44*batch,5,1,1]}: f32[44*batch,5,1,1]\n" \
    "  %8 = pad(%7) {before=[0,0,0,0], after=[0,0,1,0], mode=0}: f32[44*batch,5,2,1]\n" \
    "  %9 = reshape(%8) {dims=[batch,4,11,10]}: f32[batch,4,11,10]\n" \
    "  %10 = slice(%9) {starts=[0,0,0,0], sizes=[batch,4,11,9], steps=[1,1,1,1]}: f32[batch,4,11,9]\n"
static const char transposed[] = SPREAD
    DATA(11, "w", "[3,4,2,2]")
    "  %12 = conv(%10, %11) " CONV_ATTRS("3", "2", "1", "1") ": f32[batch,3,12,10]\n"
    OUT(12);
static const char transposed_by_four[] = SPREAD
    DATA(11, "w", "[3,4,4,4]")
    "  %12 = conv(%10, %11) " CONV_ATTRS("3", "4", "2", "1") ": f32[batch,3,12,10]\n"
    OUT(12);
/* So many channels that what one convolution computes in vain is worth four; of three taps, phases have one or two. */
static const char transposed_wide[] = SPREAD
    DATA(11, "w", "[5632,4,4,4]")
    "  %12 = conv(%10, %11) " CONV_ATTRS("5632", "4", "2", "1") ": f32[batch,5632,12,10]\n"
    OUT(12);
static const char transposed_by_three[] = SPREAD
    DATA(11, "w", "[5632,4,3,3]")
    DATA(12, "b", "[5632]")
    "  %13 = conv(%10, %11, %12) " CONV_ATTRS("5632", "3", "1", "1") ": f32[batch,5632,11,9]\n"
    OUT(13);

/* Images of one position, and filters around it. */
#define POSITION "  %3 = reduce_mean(%0) {axes=[2,3]}: f32[batch,4,1,1]\n"
#define AROUND(strides, before, after) \
    "{strides=" strides ", dilations=[1,1], before=" before ", after=" after \
    ", groups=1, acc=f32, channels_last=0, packed=0, n=6, kernel=[4,3], math=0, border=0}"
static const char generated[] = POSITION
    DATA(4, "w", "[6,4,4,3]")
    DATA(5, "b", "[6]")
    "  %6 = conv(%3, %4, %5) " AROUND("[1,1]", "[3,2]", "[3,1]") ": f32[batch,6,4,2]\n"
    OUT(6);
static const char centred[] = POSITION
    DATA(4, "w", "[6,4,3,3]")
    "  %5 = conv(%3, %4) " CONV_ATTRS("6", "3", "1", "1") ": f32[batch,6,1,1]\n"
    OUT(5);
static const char beyond[] = POSITION
    DATA(4, "w", "[6,4,4,3]")
    "  %5 = conv(%3, %4) " AROUND("[1,1]", "[4,2]", "[3,2]") ": f32[batch,6,5,3]\n"
    OUT(5);
static const char in_steps[] = POSITION
    DATA(4, "w", "[6,4,4,3]")
    "  %5 = conv(%3, %4) " AROUND("[2,1]", "[3,2]", "[3,2]") ": f32[batch,6,2,3]\n"
    OUT(5);
/* clang-format on */

#define WIDE(size) "f32[batch,5632," size "]"
#define APART "conv " WIDE("6,5") "; reshape " WIDE("6,1,5,1")
static const struct rewrite phases[] = {
    {"split-phases", transposed,
     "conv f32[batch,12,6,5]; reshape f32[batch,2,2,3,6,5]; transpose f32[batch,3,6,2,5,2]; reshape f32[batch,3,12,10]",
     1e-6, 0},
    {"split-phases layout", transposed,
     "transpose f32[batch,6,5,4]; conv f32[batch,6,5,12]; reshape f32[batch,6,5,2,2,3]; "
     "transpose f32[batch,6,2,5,2,3]; reshape f32[batch,12,10,3]; transpose f32[batch,3,12,10]",
     1e-6, 0},
    /* phases by themselves, between each other: on CPUs */
    {"split-phases", transposed_wide,
     APART "; " APART "; " APART "; " APART "; concat " WIDE("6,1,5,2") "; concat " WIDE("6,1,5,2") "; concat " WIDE(
         "6,2,5,2") "; reshape " WIDE("12,10"),
     1e-6, 0},
    {"split-phases", transposed_by_three, NULL, 1e-6, POISON},
    {"split-phases", transposed_wide,
     "conv f32[batch,22528,7,6]; reshape f32[batch,2,2,5632,7,6]; transpose " WIDE("7,2,6,2") "; reshape " WIDE(
         "14,12") "; slice " WIDE("12,10"),
     1e-6, ON_GPU},
    /* images of one position: outputs that read a weight each, the one in the middle, and outputs that read none or are far apart */
    {"split-phases", generated,
     "reduce_mean f32[batch,4,1,1]; reshape f32[batch,4]; matmul f32[batch,48]; reshape f32[batch,4,2,6]; "
     "add f32[batch,4,2,6]; transpose f32[batch,6,4,2]",
     1e-6, POISON},
    {"split-phases", generated, NULL, 1e-6, ON_GPU},
    {"split-phases", centred,
     "reduce_mean f32[batch,4,1,1]; reshape f32[batch,4]; matmul f32[batch,6]; reshape f32[batch,6,1,1]", 1e-6, POISON},
    {"split-phases", beyond, "reduce_mean f32[batch,4,1,1]; conv f32[batch,6,5,3]", 0, 0},
    {"split-phases", in_steps, "reduce_mean f32[batch,4,1,1]; conv f32[batch,6,2,3]", 0, 0},
    /* two taps an axis, not three */
    {"split-phases", transposed_by_four,
     "conv f32[batch,12,7,6]; reshape f32[batch,2,2,3,7,6]; transpose f32[batch,3,7,2,6,2]; reshape "
     "f32[batch,3,14,12]; "
     "slice f32[batch,3,12,10]",
     1e-6, 0},
};

/* Windows over planes, rows and columns: k0 x k1 x k2 of them, with padding b0, b1, b2 and results of s0 x s1 x s2 of films of
 * 2 x 6 x 5 places, ReLU, and a pool of one place's planes. */
#define FILM(k0, k1, k2, b0, b1, b2, s0, s1, s2)                                                                     \
    "  %3 = reshape(%0) {dims=[batch,2,2,6,5]}: f32[batch,2,2,6,5]\n" DATA(                                          \
        4, "w", "[3,2," k0 "," k1 "," k2 "]") "  %5 = conv(%3, %4) {strides=[1,1,1], dilations=[1,1,1], before=[" b0 \
                                              "," b1 "," b2 "], after=[" b0 "," b1 "," b2                            \
                                              "], groups=1, acc=f32, channels_last=0, packed=0, n=3, kernel=[" k0    \
                                              "," k1 "," k2 "], math=0, border=0}: "                                 \
                                              "f32[batch,3," s0 "," s1 "," s2                                        \
                                              "]\n" SCALAR(6, 0) "  %7 = max(%5, %6): f32[batch,3," s0 "," s1 "," s2 \
                                                                 "]\n"
#define POOLED                                                                                                 \
    "  %8 = pool_max(%7) {kernel=[2,1,1], strides=[1,1,1], dilations=[1,1,1], before=[0,0,0], sizes=[1,6,5], " \
    "channels_last=0}: f32[batch,3,1,6,5]\n" OUT(8)

static const struct rewrite films[] = {
    /* pictures, then places */
    {"layout flatten-windows", FILM("1", "3", "3", "0", "1", "1", "2", "6", "5") POOLED,
     "reshape f32[batch,2,2,6,5]; transpose f32[batch,2,6,5,2]; reshape f32[2*batch,6,5,2]; conv f32[2*batch,6,5,3]; "
     "max f32[2*batch,6,5,3]; reshape f32[batch,2,30,3]; pool_max f32[batch,1,30,3]; reshape f32[batch,1,6,5,3]; "
     "transpose f32[batch,3,1,6,5]",
     1e-6, 0},
    {"layout flatten-windows", FILM("2", "1", "1", "1", "0", "0", "3", "6", "5") OUT(7), NULL, 1e-6, 0},
    /* all three, or none */
    {"layout flatten-windows", FILM("2", "3", "3", "1", "1", "1", "3", "6", "5") OUT(7),
     "reshape f32[batch,2,2,6,5]; transpose f32[batch,2,6,5,2]; conv f32[batch,3,6,5,3]; max f32[batch,3,6,5,3]; "
     "transpose "
     "f32[batch,3,3,6,5]",
     1e-6, 0},
    {"layout flatten-windows", FILM("1", "1", "1", "0", "0", "0", "2", "6", "5") OUT(7), NULL, 1e-6, 0},
    /* beside the planes there is padding */
    {"layout flatten-windows", FILM("1", "3", "3", "1", "1", "1", "4", "6", "5") OUT(7),
     "reshape f32[batch,2,2,6,5]; transpose f32[batch,2,6,5,2]; conv f32[batch,4,6,5,3]; max f32[batch,4,6,5,3]; "
     "transpose "
     "f32[batch,3,4,6,5]",
     1e-6, 0},
};

/* f16 films of `channels` channels and 2 planes of 3 x 5 or 6 x 5 places (rows), convolved by windows of 2 planes and 3 rows and k columns. */
#define THIN_FILM(channels, rows, k, b)                                                                             \
    "  %3 = reshape(%0) {dims=[batch," channels ",2," rows ",5]}: f32[batch," channels ",2," rows ",5]\n"           \
    "  %4 = cast(%3) {to=f16, saturate=0}: f16[batch," channels ",2," rows                                          \
    ",5]\n" DATA(5, "w", "[3," channels ",2,3," k "]") "  %6 = cast(%5) {to=f16, saturate=0}: f16[3," channels      \
                                                       ",2,3," k "]\n  %7 = conv(%4, %6) {strides=[1,1,1], "        \
                                                       "dilations=[1,1,1], before=[1,1," b "], after=[0,1," b       \
                                                       "], groups=1, acc=f32, channels_last=0, packed=0, n=3, "     \
                                                       "kernel=[2,3," k "], math=0, border=0}: f32[batch,3,2," rows \
                                                       ",5]\n" OUT(7)

static const struct rewrite thin_films[] = {
    /* columns are images where two channels are half of a load or less, and windows do not span them */
    {"layout flatten-windows", THIN_FILM("2", "6", "1", "0"),
     "reshape f32[batch,2,2,6,5]; cast f16[batch,2,2,6,5]; transpose f16[batch,5,2,6,2]; reshape f16[5*batch,2,6,2]; "
     "conv f32[5*batch,2,6,3]; reshape f32[batch,5,2,6,3]; transpose f32[batch,3,2,6,5]",
     1e-3, ON_GPU},
    {"layout flatten-windows", THIN_FILM("4", "3", "1", "0"),
     "reshape f32[batch,4,2,3,5]; cast f16[batch,4,2,3,5]; transpose f16[batch,5,2,3,4]; reshape f16[5*batch,2,3,4]; "
     "conv f32[5*batch,2,3,3]; reshape f32[batch,5,2,3,3]; transpose f32[batch,3,2,3,5]",
     1e-3, ON_GPU},
    {"layout flatten-windows", THIN_FILM("6", "2", "1", "0"),
     "reshape f32[batch,6,2,2,5]; cast f16[batch,6,2,2,5]; transpose f16[batch,2,2,5,6]; conv f32[batch,2,2,5,3]; "
     "transpose f32[batch,3,2,2,5]",
     1e-3, ON_GPU},
    {"layout flatten-windows", THIN_FILM("2", "6", "3", "1"),
     "reshape f32[batch,2,2,6,5]; cast f16[batch,2,2,6,5]; transpose f16[batch,2,6,5,2]; conv f32[batch,2,6,5,3]; "
     "transpose f32[batch,3,2,6,5]",
     1e-3, ON_GPU},
    {"layout flatten-windows", THIN_FILM("2", "6", "1", "0"),
     "reshape f32[batch,2,2,6,5]; cast f16[batch,2,2,6,5]; transpose f16[batch,2,6,5,2]; conv f32[batch,2,6,5,3]; "
     "transpose f32[batch,3,2,6,5]",
     1e-3, 0},
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
                                                       "n=8, kernel=[3," k "], math=0, border=0}: f32[batch,8,6," out  \
                                                       "]\n" OUT(7)

static const struct rewrite pictures[] = {
    /* five columns are three pairs, and a window that begins at an odd column is one longer */
    {"layout pack", PICTURE("3", "2", "1", "1", "3", "3"),
     "slice f32[batch,3,6,5]; transpose f32[batch,6,5,3]; pad f32[batch,6,6,4]; cast f16[batch,6,6,4]; "
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
    CHECK_REWRITES(films);
    CHECK_REWRITES(thin_films);
    CHECK_REWRITES(views);
    CHECK_REWRITES(in_parts);
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

static void test_all_passes(void **state) {
    (void)state;
    CHECK_ALL_PASSES(views);
    CHECK_ALL_PASSES(in_parts);
    CHECK_ALL_PASSES(layouts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_pack),
        cmocka_unit_test(test_all_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
