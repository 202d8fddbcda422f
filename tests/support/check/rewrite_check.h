/*
 * Checks rewrites: a graph in text form, the non-constant nodes that the passes leave, and equal results before and
 * after. Data that the text gives as a hash are replaced with random numbers.
 */
#ifndef TESTS_SUPPORT_REWRITE_CHECK_H
#define TESTS_SUPPORT_REWRITE_CHECK_H

#include "ir/build.h"

enum {
    REWRITE_POISON = 1, /* inputs contain NaN and infinities, which the rewrite must treat like other numbers */
    REWRITE_ON_GPU = 2, /* the passes' target is a GPU */
    REWRITE_MANY = 4,   /* the batch is usually large */
};

/* Pieces of graphs. */
#define OUT(v) "  output \"out\" = %" #v "\n"
#define SCALAR(v, number) "  %" #v " = constant() {data=[" #number "]}: f32[]\n"
#define DATA(v, name, type) \
    "  %" #v " = constant() {data=hash:0000000000000001, initializer=\"" name "\"}: f32" type "\n"
#define CONV_ATTRS(n, k, border, groups)                                                                             \
    "{strides=[1,1], dilations=[1,1], before=[" border "," border "], after=[" border "," border "], groups=" groups \
    ", acc=f32, channels_last=0, packed=0, n=" n ", kernel=[" k "," k "], math=0, border=0}"

struct rewrite {
    const char *passes; /* names, separated by spaces */
    const char *before; /* nodes and outputs; given are x f32[batch,4,6,5], y f32[batch,seq,12] and z i32[batch] */
    const char *after;  /* the non-constant nodes left: operator and type of each, separated by semicolons */
    double tolerance;   /* relative to the largest result; 0: the same bits */
    int flags;
};

/* Fails the running cmocka test at the first difference. */
void check_rewrites(const struct rewrite *rewrites, size_t count);
#define CHECK_REWRITES(table) check_rewrites(table, sizeof(table) / sizeof *(table))

/* The same for all passes of the table together, on graphs of other tests: equal results within 1e-5 or the tolerance. */
void check_all_passes(const struct rewrite *rewrites, size_t count);
#define CHECK_ALL_PASSES(table) check_all_passes(table, sizeof(table) / sizeof *(table))

/* Its parts: the graph of a text, the result of passes on a graph, and a job that both can run in. */
struct ig_graph *rewrite_graph(struct ig_job *job, const char *nodes);
struct ig_graph *rewrite_by_passes(struct ig_graph *g, const char *names);
void rewrite_in_job(void (*body)(struct ig_job *job, void *argument), const void *argument, const char *what);

#endif
