/* Part of the pack pass: see pack.c. What attentions on GPUs add to each score, in the order in which a thread has the scores. */
#ifndef IG_PASS_PACK_TABLES_H
#define IG_PASS_PACK_TABLES_H

#include "pass/pass.h"

/* By value of the graph: constants with a number for each query and key, which attentions on tensor cores read. */
bool *ig_find_tables(struct ig_graph *graph);

/*
 * A constant [..., queries, keys], possibly widened from half precision, as views of
 *
 *     [heads, queries, ceil(keys / 16), 4, 2, 2], of keys 16 * i + 8 * j + 2 * lane + e at [i][lane][j][e], zeros behind the last
 *
 * so that four scores of a row of a thread, which has two neighbours of every eight keys, are neighbours there.
 */
ig_value ig_pack_table(struct ig_graph *graph, ig_value table);

/* Is v such a view, or one on the way to it? Kernels read through it. */
bool ig_is_packed_table(const struct ig_graph *graph, ig_value v);

#endif
