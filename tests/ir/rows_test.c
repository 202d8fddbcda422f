/*
 * Which models treat the samples of a batch independently (ir/rows/rows.h): one case or more for each kind of rule, and
 * random networks. Whatever is said to be independent is tried out, with garbage in further rows.
 */
#include "ir/rows/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/build.h"
#include "ir/text/print.h"
#include "support/check/rows_check.h"
#include "support/model/onnx_model.h"
#include "support/random/random_network.h"
#include "support/support.h"

/* ---- Operators --------------------------------------------------------------------------------------------------- */

struct rule_case {
    const char *nodes; /* with inputs and outputs; the symbol is n */
    const char *mixed; /* what the reason begins with; NULL: independent */
};

/* Attributes of windows over 2 spatial axes, 3x3 and 1x1. */
#define WIDE "strides=[1,1], dilations=[1,1], before=[1,1]"
#define NARROW "strides=[1,1], dilations=[1,1], before=[0,0]"
#define CONV ", groups=1, acc=f32, channels_last=0, packed=0, n=2, "
#define INPUT "input %0 \"x\": "
#define MATMUL " {acc=f32, packed=0, n=0, math=0}: "

#define LSTM(batch, states)                                                                             \
    INPUT "f32[" batch ",8]\ninput %1 \"r\": f32[8,2]\ninput %2 \"s\": f32[" states ",2]\n"             \
          "%3, %4, %5 = lstm(%0, %1, %2, %2) {reverse=0, activations=[0,1,1], clip=0, input_forget=0, " \
          "alphas=[0,0,0], betas=[0,0,0]}: f32[" batch ",2], f32[" states ",2], f32[" states ",2] @ \"LSTM 'l'\"\n"
/* Bodies of a branch. */
#define SAME(type)                                             \
    "then {\ninput %0 \"x\": " type "\noutput \"y\" = %0\n}\n" \
    "else {\ninput %0 \"x\": " type "\noutput \"y\" = %0\n}\n"
#define IF(node)                                                                       \
    INPUT "f32[n,3]\ninput %1 \"c\": bool[]\n%2 = if(%1, %0): f32[n,3] @ \"If 'i'\"\n" \
          "then {\ninput %0 \"x\": f32[n,3]\n%1 = " node "\noutput \"y\" = %1\n}\n"    \
          "else {\ninput %0 \"x\": f32[n,3]\noutput \"y\" = %0\n}\noutput \"y\" = %2\n"
/* %4: the last value of two iterations, %5: all of them. */
#define LOOP(dims, node)                                                                                     \
    INPUT "f32[" dims "]\n%1 = constant() {data=[2]}: i64[]\n"                                               \
          "%4, %5 = loop(%1, -, %0) {trip=2, carried=1}: f32[" dims "], f32[2," dims "] @ \"Loop 'l'\"\n"    \
          "body {\ninput %0 \"i\": i64[]\ninput %1 \"c\": bool[]\ninput %2 \"x\": f32[" dims "]\n%3 = " node \
          "\noutput \"c\" = %1\noutput \"x\" = %3\noutput \"s\" = %3\n}\n"
/* x[r, c] of all c in a row, fetched as element r*width + c + first of all. */
#define FLATTENED(width, first)                                                                             \
    INPUT "f32[n,m]\n%1 = reshape(%0) {dims=[m*n]}: f32[m*n]\n%2 = iota() {dims=[n,1], axis=0}: i64[n,1]\n" \
          "%3 = shape() {values=" width ", scalar=0}: i64[1]\n%4 = mul(%2, %3): i64[n,1]\n"                 \
          "%5 = iota() {dims=[m], axis=0}: i64[m]\n%6 = add(%4, %5): i64[n,m]\n"                            \
          "%7 = constant() {data=" first "}: i64[1]\n%8 = add(%6, %7): i64[n,m]\n"                          \
          "%9 = gather(%1, %8) {axis=0}: f32[n,m] @ \"Gather 'g'\"\noutput \"y\" = %9\n"

static const struct rule_case cases[] = {
    /* Elementwise. */
    {INPUT "f32[n,2]\n%1 = exp(%0): f32[n,2]\noutput \"y\" = %1\n", NULL},
    {INPUT "f32[n,2]\ninput %1 \"b\": f32[2]\n%2 = add(%0, %1): f32[n,2]\noutput \"y\" = %2\n", NULL},
    {INPUT "f32[3,n]\ninput %1 \"b\": f32[3,1]\n%2 = add(%0, %1): f32[3,n]\noutput \"y\" = %2\n", NULL},
    {INPUT "f32[n,1]\ninput %1 \"y\": f32[1,n]\n%2 = add(%0, %1): f32[n,n] @ \"Add 'a'\"\noutput \"y\" = %2\n",
     "Add 'a' mixes them (add(f32[n,1], f32[1,n]): f32[n,n])"},
    {INPUT "f32[n]\ninput %1 \"b\": f32[m]\n%2 = add(%0, %1): f32[n] @ \"Add 'a'\"\noutput \"y\" = %2\n",
     "Add 'a' mixes them"},
    {INPUT "f32[n,2]\n%1 = cast(%0) {to=i32, saturate=0}: i32[n,2]\noutput \"y\" = %1\n", NULL},
    {INPUT "f32[n,2]\ninput %1 \"c\": bool[n,1]\n%2 = neg(%0): f32[n,2]\n%3 = where(%1, %0, %2): f32[n,2]\n"
           "output \"y\" = %3\n",
     NULL},
    /* Sources: the number of a row may be used, the number of rows may not. */
    {INPUT "f32[n]\n%1 = iota() {dims=[n], axis=0}: i64[n]\n%2 = cast(%1) {to=f32, saturate=0}: f32[n]\n"
           "%3 = add(%0, %2): f32[n]\noutput \"y\" = %3\n",
     NULL},
    {INPUT "f32[n]\n%1 = shape() {values=[n], scalar=1}: i64[] @ \"Shape 's'\"\n"
           "%2 = cast(%1) {to=f32, saturate=0}: f32[]\n%3 = div(%0, %2): f32[n]\noutput \"y\" = %3\n",
     "Shape 's' computes with their number"},
    {INPUT "f32[n]\n%1 = iota() {dims=[n,n], axis=0}: i64[n,n]\noutput \"y\" = %1\n", "an unnamed node mixes them"},
    /* Views. */
    {INPUT "f32[n,4,3]\n%1 = reshape(%0) {dims=[2*n,2,3]}: f32[2*n,2,3]\n%2 = exp(%1): f32[2*n,2,3]\n"
           "%3 = reshape(%2) {dims=[n,12]}: f32[n,12]\noutput \"y\" = %3\n",
     NULL},
    {INPUT "f32[n,4]\n%1 = reshape(%0) {dims=[4,n]}: f32[4,n] @ \"Reshape 'r'\"\noutput \"y\" = %1\n",
     "Reshape 'r' mixes them (reshape(f32[n,4]): f32[4,n])"},
    {INPUT "f32[3,n,2]\n%1 = reshape(%0) {dims=[3*n,2]}: f32[3*n,2]\n%2 = exp(%1): f32[3*n,2]\n"
           "%3 = reshape(%2) {dims=[3,n,2]}: f32[3,n,2]\noutput \"y\" = %3\n",
     NULL},
    {INPUT "f32[3,n,2]\n%1 = reshape(%0) {dims=[3*n,2]}: f32[3*n,2]\n"
           "%2 = reshape(%1) {dims=[n,3,2]}: f32[n,3,2] @ \"Reshape 'r'\"\noutput \"y\" = %2\n",
     "Reshape 'r' mixes them"},
    {INPUT "f32[3,n,2]\ninput %1 \"z\": f32[n,3,2]\n%2 = reshape(%0) {dims=[3*n,2]}: f32[3*n,2]\n"
           "%3 = reshape(%1) {dims=[3*n,2]}: f32[3*n,2]\n%4 = add(%2, %3): f32[3*n,2] @ \"Add 'a'\"\n"
           "%5 = reshape(%4) {dims=[n,6]}: f32[n,6]\noutput \"y\" = %5\n",
     "Add 'a' mixes them"},
    {INPUT "f32[n,m]\n%1 = reshape(%0) {dims=[m*n]}: f32[m*n]\n%2 = exp(%1): f32[m*n]\n"
           "%3 = reshape(%2) {dims=[n,m]}: f32[n,m]\noutput \"y\" = %3\n",
     NULL},
    {INPUT "f32[0,n,2]\n%1 = reshape(%0) {dims=[0,n,3]}: f32[0,n,3] @ \"Reshape 'r'\"\noutput \"y\" = %1\n",
     "Reshape 'r' mixes them"},
    {INPUT "f32[n,2,3]\n%1 = transpose(%0) {perm=[2,0,1]}: f32[3,n,2]\noutput \"y\" = %1\n", NULL},
    {INPUT "f32[n,1]\n%1 = broadcast(%0) {dims=[2,n,3]}: f32[2,n,3]\noutput \"y\" = %1\n", NULL},
    {INPUT "f32[n]\ninput %1 \"z\": f32[1,2]\n%2 = broadcast(%1) {dims=[n,2]}: f32[n,2]\n"
           "output \"y\" = %2\noutput \"z\" = %0\n",
     NULL},
    {INPUT "f32[n,5]\n%1 = slice(%0) {starts=[0,4], sizes=[n,3], steps=[1,-2]}: f32[n,3]\noutput \"y\" = %1\n", NULL},
    {INPUT "f32[n,5]\n%1 = slice(%0) {starts=[n-1,0], sizes=[n,5], steps=[-1,1]}: f32[n,5] @ \"Slice 's'\"\n"
           "output \"y\" = %1\n",
     "Slice 's' mixes them"},
    {INPUT "f32[n]\ninput %1 \"table\": f32[9]\n%2 = slice(%1) {starts=[1], sizes=[n], steps=[1]}: f32[n]\n"
           "%3 = add(%0, %2): f32[n]\noutput \"y\" = %3\n",
     NULL},
    /* Movement. */
    {INPUT "f32[n,2]\n%1 = pad(%0, -) {before=[0,1], after=[0,1], mode=1}: f32[n,4]\noutput \"y\" = %1\n", NULL},
    {INPUT "f32[n,2]\n%1 = pad(%0, -) {before=[0,0], after=[1,0], mode=0}: f32[n+1,2] @ \"Pad 'p'\"\n"
           "output \"y\" = %1\n",
     "Pad 'p' mixes them"},
    {INPUT "f32[n,2]\n%1 = neg(%0): f32[n,2]\n%2 = concat(%0, %1) {axis=1}: f32[n,4]\noutput \"y\" = %2\n", NULL},
    {INPUT "f32[n,2]\n%1 = neg(%0): f32[n,2]\n%2 = concat(%0, %1) {axis=0}: f32[2*n,2] @ \"Concat 'c'\"\n"
           "output \"y\" = %2\n",
     "Concat 'c' mixes them"},
    /* Indices. */
    {INPUT "i64[n,2]\ninput %1 \"table\": f32[5,3]\n%2 = gather(%1, %0) {axis=0}: f32[n,2,3]\noutput \"y\" = %2\n",
     NULL},
    {INPUT "f32[n,5,3]\ninput %1 \"i\": i64[2,2]\n%2 = gather(%0, %1) {axis=1}: f32[n,2,2,3]\noutput \"y\" = %2\n",
     NULL},
    {INPUT "f32[5,n]\ninput %1 \"i\": i64[2,2]\n%2 = gather(%0, %1) {axis=0}: f32[2,2,n]\noutput \"y\" = %2\n", NULL},
    {INPUT "f32[n,5]\ninput %1 \"i\": i64[2]\n%2 = gather(%0, %1) {axis=0}: f32[2,5] @ \"Gather 'g'\"\n"
           "output \"y\" = %2\n",
     "Gather 'g' mixes them"},
    {INPUT "f32[n,5]\ninput %1 \"i\": i64[n]\n%2 = gather(%0, %1) {axis=0}: f32[n,5] @ \"Gather 'g'\"\n"
           "output \"y\" = %2\n",
     "Gather 'g' mixes them"},
    {INPUT "f32[n,3]\ninput %1 \"i\": i64[n,2]\n%2 = gather_elements(%0, %1) {axis=1}: f32[n,2]\noutput \"y\" = %2\n",
     NULL},
    {INPUT "f32[n,3]\ninput %1 \"i\": i64[n,3]\n%2 = gather_elements(%0, %1) {axis=0}: f32[n,3] @ \"Gather 'g'\"\n"
           "output \"y\" = %2\n",
     "Gather 'g' mixes them"},
    {INPUT "f32[n,3,2]\ninput %1 \"i\": i64[n,4,1]\n%2 = gather_nd(%0, %1) {batch_dims=1}: f32[n,4,2]\n"
           "output \"y\" = %2\n",
     NULL},
    {INPUT "f32[3,n]\ninput %1 \"i\": i64[4,1]\n%2 = gather_nd(%0, %1) {batch_dims=0}: f32[4,n]\noutput \"y\" = %2\n",
     NULL},
    {INPUT "i64[n,1]\ninput %1 \"t\": f32[3,2]\n%2 = gather_nd(%1, %0) {batch_dims=0}: f32[n,2]\noutput \"y\" = %2\n",
     NULL},
    {INPUT "f32[n,3]\ninput %1 \"i\": i64[n,2]\n%2 = gather_nd(%0, %1) {batch_dims=0}: f32[n] @ \"GatherND 'g'\"\n"
           "output \"y\" = %2\n",
     "GatherND 'g' mixes them"},
    {INPUT "f32[n,3]\ninput %1 \"i\": i64[n,2]\ninput %2 \"u\": f32[n,2]\n"
           "%3 = scatter_elements(%0, %1, %2) {axis=1, reduction=1}: f32[n,3]\noutput \"y\" = %3\n",
     NULL},
    {INPUT "f32[n,3]\ninput %1 \"i\": i64[n,3]\ninput %2 \"u\": f32[n,3]\n"
           "%3 = scatter_elements(%0, %1, %2) {axis=0, reduction=0}: f32[n,3] @ \"S 's'\"\noutput \"y\" = %3\n",
     "S 's' mixes them"},
    {INPUT "f32[3,n]\ninput %1 \"i\": i64[2,1]\ninput %2 \"u\": f32[2,n]\n"
           "%3 = scatter_nd(%0, %1, %2) {reduction=1}: f32[3,n]\noutput \"y\" = %3\n",
     NULL},
    {INPUT "f32[n,3]\ninput %1 \"i\": i64[2,1]\ninput %2 \"u\": f32[2,3]\n"
           "%3 = scatter_nd(%0, %1, %2) {reduction=0}: f32[n,3] @ \"S 's'\"\noutput \"y\" = %3\n",
     "S 's' mixes them"},
    /* Reductions and order. */
    {INPUT "f32[n,3]\n%1 = reduce_mean(%0) {axes=[1]}: f32[n,1]\noutput \"y\" = %1\n", NULL},
    {INPUT "f32[n,3]\n%1 = reduce_mean(%0) {axes=[0]}: f32[1,3] @ \"ReduceMean 'm'\"\noutput \"y\" = %1\n",
     "ReduceMean 'm' mixes them (reduce_mean(f32[n,3]): f32[1,3])"},
    {INPUT "f32[3,n]\n%1 = argmax(%0) {axis=0, last=0}: i64[1,n]\noutput \"y\" = %1\n", NULL},
    {INPUT "f32[3,n]\n%1 = argmax(%0) {axis=1, last=0}: i64[3,1] @ \"ArgMax 'a'\"\noutput \"y\" = %1\n",
     "ArgMax 'a' mixes them"},
    {INPUT "f32[n,3]\n%1 = cumsum(%0) {axis=0, exclusive=0, reverse=0}: f32[n,3] @ \"CumSum 'c'\"\n"
           "output \"y\" = %1\n",
     "CumSum 'c' mixes them"},
    {INPUT "f32[n,3]\n%1, %2 = topk(%0) {axis=1, k=2, largest=1}: f32[n,2], i64[n,2]\n"
           "output \"y\" = %1\noutput \"z\" = %2\n",
     NULL},
    {INPUT "f32[n,3]\n%1, %2 = topk(%0) {axis=0, k=1, largest=1}: f32[1,3], i64[1,3] @ \"TopK 't'\"\n"
           "output \"y\" = %1\n",
     "TopK 't' mixes them"},
    /* Products. */
    {INPUT "f32[n,3]\ninput %1 \"w\": f32[3,2]\n%2 = matmul(%0, %1)" MATMUL "f32[n,2]\noutput \"y\" = %2\n", NULL},
    {INPUT "f32[n,2,3]\ninput %1 \"w\": f32[n,3,2]\n%2 = matmul(%0, %1)" MATMUL "f32[n,2,2]\noutput \"y\" = %2\n",
     NULL},
    {INPUT "f32[2,n,2,3]\ninput %1 \"w\": f32[n,3,2]\n%2 = matmul(%0, %1)" MATMUL "f32[2,n,2,2]\noutput \"y\" = %2\n",
     NULL},
    {INPUT "f32[3,n]\ninput %1 \"w\": f32[2,2,3]\n%2 = matmul(%1, %0)" MATMUL "f32[2,2,n]\noutput \"y\" = %2\n", NULL},
    {INPUT "f32[n,3]\n%1 = transpose(%0) {perm=[1,0]}: f32[3,n]\n"
           "%2 = matmul(%1, %0)" MATMUL "f32[3,3] @ \"MatMul 'm'\"\noutput \"y\" = %2\n",
     "MatMul 'm' mixes them"},
    {INPUT "f32[n,3]\n%1 = transpose(%0) {perm=[1,0]}: f32[3,n]\n"
           "%2 = matmul(%0, %1)" MATMUL "f32[n,n] @ \"MatMul 'm'\"\noutput \"y\" = %2\n",
     "MatMul 'm' mixes them"},
    /* Windows. */
    {INPUT "f32[n,2,4,4]\ninput %1 \"w\": f32[2,2,3,3]\ninput %2 \"b\": f32[2]\n"
           "%3 = conv(%0, %1, %2) {" WIDE ", after=[1,1]" CONV "kernel=[3,3], math=0, border=0}: f32[n,2,4,4]\n"
           "output \"y\" = %3\n",
     NULL},
    {INPUT "f32[2,2,4,n]\ninput %1 \"w\": f32[2,2,1,1]\n"
           "%2 = conv(%0, %1) {" NARROW ", after=[0,0]" CONV "kernel=[1,1], math=0, border=0}: f32[2,2,4,n]\n"
           "output \"y\" = %2\n",
     NULL},
    {INPUT "f32[2,2,4,n]\ninput %1 \"w\": f32[2,2,3,3]\n"
           "%2 = conv(%0, %1) {" WIDE ", after=[1,1]" CONV
           "kernel=[3,3], math=0, border=0}: f32[2,2,4,n] @ \"Conv 'c'\"\n"
           "output \"y\" = %2\n",
     "Conv 'c' mixes them"},
    {INPUT "f32[n,2,4,4]\ninput %1 \"w\": f32[2,2,3,3]\n%2 = pool_max(%0) {kernel=[2,2], " NARROW
           ", sizes=[3,3], channels_last=0}: f32[n,2,3,3]\noutput \"y\" = %2\n",
     NULL},
    {INPUT "f32[n,2,4,4]\n%1 = pool_argmax(%0) {kernel=[2,2], " NARROW
           ", sizes=[3,3], channels_last=0, column_major=0}: i64[n,2,3,3]\noutput \"y\" = %1\n",
     NULL},
    {INPUT "f32[2,2,4,n]\n%1 = pool_argmax(%0) {kernel=[1,1], " NARROW
           ", sizes=[4,n], channels_last=0, column_major=0}: i64[2,2,4,n] @ \"MaxPool 'p'\"\noutput \"y\" = %1\n",
     "MaxPool 'p' mixes them"},
    /* Recurrences. */
    {LSTM("3,n", "n") "output \"y\" = %3\noutput \"h\" = %4\n", NULL},
    {LSTM("n,3", "3") "output \"h\" = %4\n", "LSTM 'l' mixes them"},
    {INPUT "f32[3,n,6]\ninput %1 \"r\": f32[6,2]\ninput %2 \"h0\": f32[n,2]\ninput %3 \"lengths\": i32[n]\n"
           "input %4 \"b\": f32[2]\n%5, %6 = gru(%0, %1, %2, %3, %4) {reverse=1, activations=[0,1], clip=0, "
           "linear_before_reset=1, alphas=[0,0], betas=[0,0]}: f32[3,n,2], f32[n,2]\n"
           "output \"y\" = %5\noutput \"h\" = %6\n",
     NULL},
    {INPUT "f32[3,n,2]\ninput %1 \"r\": f32[2,2]\ninput %2 \"h0\": f32[m,2]\n"
           "%3, %4 = rnn(%0, %1, %2) {reverse=0, activations=[1], clip=0, alphas=[0], betas=[0]}: f32[3,n,2], f32[n,2] "
           "@ \"RNN 'r'\"\noutput \"y\" = %3\n",
     "RNN 'r' mixes them"},
    /* Control flow. */
    {IF("neg(%0): f32[n,3]"), NULL},
    {IF("cumsum(%0) {axis=0, exclusive=0, reverse=0}: f32[n,3] @ \"CumSum 'c'\""), "CumSum 'c' mixes them"},
    {INPUT "f32[n,3]\ninput %1 \"c\": bool[n]\n%2 = if(%1, %0): f32[n,3] @ \"If 'i'\"\n" SAME(
         "f32[n,3]") "output \"y\" = %2\n",
     "If 'i' mixes them"},
    {LOOP("n,3", "exp(%2): f32[n,3]") "output \"y\" = %4\noutput \"z\" = %5\n", NULL},
    {LOOP("n,n", "transpose(%2) {perm=[1,0]}: f32[n,n]") "output \"y\" = %4\n", "input 'x' does not have them"},
    /* Indices that address their own row. */
    {INPUT "f32[n,3]\n%1 = iota() {dims=[n], axis=0}: i64[n]\n%2 = reshape(%1) {dims=[n,1]}: i64[n,1]\n"
           "%3 = iota() {dims=[2], axis=0}: i64[2]\n%4 = broadcast(%2) {dims=[n,2]}: i64[n,2]\n"
           "%5 = broadcast(%3) {dims=[n,2]}: i64[n,2]\n%6 = reshape(%4) {dims=[n,2,1]}: i64[n,2,1]\n"
           "%7 = reshape(%5) {dims=[n,2,1]}: i64[n,2,1]\n%8 = concat(%6, %7) {axis=2}: i64[n,2,2]\n"
           "%9 = gather_nd(%0, %8) {batch_dims=0}: f32[n,2]\n"
           "%10 = scatter_nd(%0, %8, %9) {reduction=1}: f32[n,3]\n"
           "output \"y\" = %9\noutput \"z\" = %10\n",
     NULL},
    {INPUT "f32[n,3]\n%1 = iota() {dims=[n,1], axis=0}: i64[n,1]\n"
           "%2 = concat(%1, %1) {axis=1}: i64[n,2]\n%3 = gather_nd(%0, %2) {batch_dims=0}: f32[n]\n"
           "output \"y\" = %3\n",
     NULL},
    {FLATTENED("[m]", "[0]"), NULL},
    {FLATTENED("[m]", "[1]"), "Gather 'g' mixes them"},
    {FLATTENED("[m+1]", "[0]"), "Gather 'g' mixes them"},
    {INPUT "f32[n,3]\ninput %1 \"o\": i64[1]\n%2 = iota() {dims=[n], axis=0}: i64[n]\n%3 = add(%2, %1): i64[n]\n"
           "%4 = gather(%0, %3) {axis=0}: f32[n,3] @ \"Gather 'g'\"\noutput \"y\" = %4\n",
     "Gather 'g' mixes them"},
    /* The numbers that a loop carries change. */
    {INPUT "f32[n,3]\n%1 = constant() {data=[2]}: i64[]\n%2 = iota() {dims=[n], axis=0}: i64[n]\n"
           "%3, %4 = loop(%1, -, %2, %0) {trip=2, carried=1}: i64[n], f32[2,n,3] @ \"Loop 'l'\"\n"
           "body {\ninput %0 \"i\": i64[]\ninput %1 \"c\": bool[]\ninput %2 \"k\": i64[n]\n"
           "input %3 \"x\": f32[n,3]\n%4 = gather(%3, %2) {axis=0}: f32[n,3] @ \"Gather 'g'\"\n"
           "%5 = constant() {data=[1]}: i64[]\n%6 = add(%2, %5): i64[n]\n"
           "output \"c\" = %1\noutput \"k\" = %6\noutput \"s\" = %4\n}\noutput \"y\" = %4\n",
     "Gather 'g' mixes them"},
    /* Inputs, outputs, and what does not matter. */
    {INPUT "f32[2*n]\ninput %1 \"z\": f32[n]\noutput \"y\" = %1\n",
     "input 'x' does not have them along exactly one axis (f32[2*n])"},
    {INPUT "f32[n,n]\noutput \"y\" = %0\n", "input 'x' does not have them along exactly one axis (f32[n,n])"},
    {INPUT "f32[n,4]\n%1 = reshape(%0) {dims=[4*n]}: f32[4*n]\noutput \"y\" = %1\n",
     "output 'y' does not have them along exactly one axis (f32[4*n])"},
    {INPUT "f32[m]\ninput %1 \"size\": i64[1] = [n]\n%2 = broadcast(%0) {dims=[n,m]}: f32[n,m]\noutput \"y\" = %2\n",
     "input 'size' contains their number"},
    {INPUT "f32[n,3]\n%1 = reduce_sum(%0) {axes=[0]}: f32[1,3]\n%2 = neg(%0): f32[n,3]\noutput \"y\" = %2\n", NULL},
    {INPUT "f32[n,3]\ninput %1 \"w\": f32[3]\n%2 = reduce_sum(%1) {axes=[0]}: f32[1]\noutput \"y\" = %2\n", NULL},
};

static ig_dim symbol_named(struct ig_graph *g, const char *name) {
    return ig_dim_symbol(g->dims, name);
}

/* Fails where the analysis accepts a graph that mixes rows. Returns the reason, NULL: accepted. */
static const char *try_rows(struct ig_job *job, struct ig_graph *g, const char *symbol, int64_t others, uint64_t seed) {
    struct rows_trial t = {g, symbol_named(g, symbol), 2, 3, others, seed};
    const char *mixed = ig_rows_mixed(g, t.symbol);
    const char *difference = mixed ? NULL : rows_differ(job, &t);
    struct ig_text text;
    if (!difference) return mixed;
    ig_text_init(&text, job);
    ig_graph_print(g, 0, &text);
    fail_msg("%s: %s\n%s", symbol, difference, text.at);
    return NULL;
}

static struct ig_graph *parse(struct ig_job *job, const char *nodes) {
    const char *text = ig_format(job, "graph {\n%s}\n", nodes);
    return ig_graph_parse(job, ig_dims_create(job), text, strlen(text));
}

static void check_case(struct ig_job *job, void *argument) {
    const struct rule_case *c = argument;
    const char *mixed = try_rows(job, parse(job, c->nodes), "n", 3, 1);
    if (c->mixed ? !mixed || strncmp(mixed, c->mixed, strlen(c->mixed)) != 0 : mixed != NULL)
        fail_msg("'%s', expected '%s' of\n%s", mixed ? mixed : "", c->mixed ? c->mixed : "", c->nodes);
}

static void run(void (*body)(struct ig_job *job, void *argument), const void *argument) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, body, (void *)argument, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

static void test_rules(void **state) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run(check_case, &cases[i]);
}

/* ---- Random networks --------------------------------------------------------------------------------------------- */

enum { NETWORKS = 1500, MAX_STEPS = 7 };

struct network_trial {
    uint64_t seed;
    uint32_t inputs, accepted; /* of all symbols so far that networks have as an axis of an input; and the accepted */
};

static bool is_symbol_of_inputs(const struct ig_graph *g, ig_dim symbol) {
    for (uint32_t i = 0; i < g->inputs.count; i++) {
        const struct ig_type *type = ig_type_of(g, g->inputs.at[i].value);
        for (int k = 0; k < type->rank; k++) {
            if (type->dim[k] == symbol) return true;
        }
    }
    return false;
}

static void check_network(struct ig_job *job, void *argument) {
    struct network_trial *t = argument;
    struct random_maker m = {.job = job,
                             .g = ig_graph_create(job, ig_dims_create(job)),
                             .state = t->seed * 7919 + 1,
                             .sizes = {5, 5},
                             .max_elements = 2000,
                             .whole = true,
                             .exact = true,
                             .largest = 1 << 24};
    random_network(&m, 1 + (int)(t->seed % MAX_STEPS));
    for (int i = 0; i < RANDOM_SYMBOLS; i++) {
        if (!is_symbol_of_inputs(m.g, symbol_named(m.g, random_symbols[i]))) continue;
        t->inputs++;
        if (!try_rows(job, m.g, random_symbols[i], 4, t->seed)) t->accepted++;
    }
}

static void test_random_networks(void **state) {
    struct network_trial t = {0};
    for (t.seed = 0; t.seed < NETWORKS; t.seed++)
        run(check_network, &t);
    print_message("%u of %u symbols count independent rows\n", t.accepted, t.inputs);
    assert_in_range(t.accepted, t.inputs / 4, t.inputs * 9 / 10);
}

/* ---- Engines ----------------------------------------------------------------------------------------------------- */

/* y = the mean over length of x + table[:batch], where the table has one line. */
static struct ingot_model *make_model(void) {
    struct test_model m;
    struct ingot_model *model;
    struct ingot_error error;
    size_t size;
    test_model_init(&m, 13);
    test_input(&m, NULL, "x", TEST_FLOAT, "batch length 4");
    test_floats(&m, NULL, "table", "1 1 4", "1 2 3 4");
    test_ints(&m, NULL, "zero", "1", "0");
    test_node(&m, NULL, "Shape", "x", "shape");
    test_node(&m, NULL, "Gather", "shape zero", "count");
    test_node(&m, NULL, "Slice", "table zero count zero", "lines");
    test_node(&m, NULL, "Add", "x lines", "sum");
    test_attributes(&m, test_node(&m, NULL, "ReduceMean", "sum", "y"), "axes=[1]; keepdims=0");
    test_output(&m, NULL, "y");
    const void *data = test_model_pack(&m, &size);
    if (ingot_model_load_memory(data, size, NULL, NULL, &model, &error)) fail_msg("%s", error.message);
    test_model_deinit(&m);
    return model;
}

static void check_symbol(struct ingot_engine *engine, size_t index, const char *name, int64_t lo, int64_t hi,
                         const char *mixes) {
    struct ingot_symbol_info info;
    ingot_engine_symbol(engine, index, &info);
    assert_string_equal(info.name, name);
    assert_true(info.lo == lo && info.hi == hi);
    if (!mixes) assert_null(info.mixes);
    if (mixes && (!info.mixes || !strstr(info.mixes, mixes))) fail_msg("'%s' says nothing of %s", info.mixes, mixes);
    const char *explanation;
    assert_int_equal(ingot_engine_explanation(engine, &explanation, NULL), INGOT_OK);
    if (mixes && !strstr(explanation, info.mixes)) fail_msg("unexplained: %s", info.mixes);
}

/* Ranges simplify what slices take: the table has as many lines as one sample, where there is one at least. */
static void test_engine(void **state) {
    static const struct ingot_shape_spec ranges[] = {{"batch", "2:2:8"}, {"length", "1:3:5"}};
    for (size_t limited = 0; limited < 2; limited++) {
        struct ingot_model *model = make_model();
        struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
        struct ingot_engine *engine;
        struct ingot_error error;
        void *data;
        size_t size;
        if (limited) options.shapes = ranges, options.n_shapes = 2;
        if (ingot_model_build_memory(model, &options, &data, &size, &error)) fail_msg("%s", error.message);
        if (ingot_engine_load_memory(data, size, NULL, &engine, &error)) fail_msg("%s", error.message);
        assert_int_equal(ingot_engine_symbol_count(engine), 2);
        check_symbol(engine, 0, "batch", limited ? 2 : 1, limited ? 8 : INT32_MAX, NULL);
        check_symbol(engine, 1, "length", limited ? 1 : 0, limited ? 5 : INT32_MAX,
                     "ReduceMean 'y_node' mixes them (reduce_mean(f32[batch,length,4])");
        ingot_engine_release(engine);
        ingot_blob_release(model, data, size);
        ingot_model_destroy(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules), cmocka_unit_test(test_random_networks),
                                       cmocka_unit_test(test_engine)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
