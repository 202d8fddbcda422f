/*
 * Tables: constants of which a network gathers rows by indices that it computes or is given, as embeddings of words. A product with
 * weights is divided because that takes less time; a table is, although its lookup hardly takes any, because of what it would
 * add to the weights that each rank reads: the rest of it, which is more than 1/50 of what the rank reads beside.
 *
 * Ranks have ranges of the rows, so that what a rank reads lies in one piece, and add up what they find. A table that is the
 * weights of a product as well (tied weights) is only divided so, as the product's columns are. Others may have their rows
 * divided instead (IG_SEED_WIDTHS), where only parts are exchanged.
 */
#ifndef IG_PASS_SHARD_TABLE_H
#define IG_PASS_SHARD_TABLE_H

#include "pass/shard/rule.h"

enum ig_shard_table {
    IG_TABLE_NONE, /* the node gathers from no such constant */
    IG_TABLE_ROWS, /* whose rows are dealt out */
    IG_TABLE_ANY,  /* which may be divided within its rows, too */
};

/* By node of the graph, which has no dead nodes: ROWS of tied tables. */
uint8_t *ig_shard_tables(struct ig_graph *graph, int ranks);
/* Does the division (NULL: whole) divide the table in a way that it may be? */
bool ig_shard_divides_table(const struct ig_graph *graph, const struct ig_node *gather,
                            const struct ig_division *division, enum ig_shard_table table);

#endif
