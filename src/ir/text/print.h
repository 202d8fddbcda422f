/* The text form of graphs (docs/ir.md) and its parser. Printing a parsed text gives the same text. */
#ifndef IG_IR_PRINT_H
#define IG_IR_PRINT_H

#include "ir/graph.h"

enum {
    IG_PRINT_DATA = 1,    /* constants in full (base 64), so that the text is the whole graph; else their size and
                             hash */
    IG_PRINT_REGIONS = 2, /* the region of each node */
    IG_PRINT_NO_DATA = 4, /* constants without their data, which cannot be read back */
};
void ig_graph_print(struct ig_graph *graph, unsigned flags, struct ig_text *text);
/* Raises INGOT_BAD_MODEL with line and column. A constant without data gets zeros. */
struct ig_graph *ig_graph_parse(struct ig_job *job, struct ig_dims *dims, const char *text, size_t length);
/* Raises INGOT_INTERNAL with the first violated invariant: order, arity, attributes, inferred types, regions. */
void ig_graph_verify(struct ig_graph *graph, const char *after);

#endif
