/*
 * What a region computes, as texts that depend neither on names nor on the order in which its nodes were appended: the
 * parts of a fingerprint (kernel/fingerprint.c), and the order of a region's inputs and outputs.
 */
#ifndef IG_IR_CANONICAL_H
#define IG_IR_CANONICAL_H

#include "ir/graph.h"

/* A printer of canonical texts. Symbols are numbered in the order in which they are printed: "s0", "s1". */
struct ig_canon {
    struct ig_graph *graph;
    bool anonymous;         /* print a symbol's range instead of its number */
    IG_VEC(ig_dim) symbols; /* by number */
};

void ig_canon_dim(struct ig_canon *canon, ig_dim dim, struct ig_text *text);
/* "f32[s0,3,224,224]" */
void ig_canon_type(struct ig_canon *canon, const struct ig_type *type, struct ig_text *text);
/* " {axes=[1], last=0}"; nothing if there are none. */
void ig_canon_attrs(struct ig_canon *canon, const struct ig_node *node, struct ig_text *text);
/* " = 0.5": a literal's value, or its expression; the bytes of what is not finite. */
void ig_canon_literal(struct ig_canon *canon, ig_value value, struct ig_text *text);
/* "1 to 32, usually 8": all that is known of a symbol besides its name. */
void ig_canon_symbol(struct ig_canon *canon, ig_dim symbol, struct ig_text *text);
/* Numbers the symbols that are dims of the type by themselves. Call it for all types before anything is printed: then
 * the numbers do not depend on names even where expressions have several symbols. */
void ig_canon_number(struct ig_canon *canon, const struct ig_type *type);

/* Does a kernel that reads this value have it in its text? One-element constants and sizes. */
bool ig_is_literal(const struct ig_graph *graph, ig_value value);

/* The nodes of a region, each after those that it reads: depth first from the anchor's results (of families that have an
 * anchor) and the region's outputs. */
struct ig_walk {
    IG_VEC(ig_node_id) nodes;
    IG_VEC(ig_value) inputs; /* in the order in which they are met */
};
void ig_region_walk(struct ig_graph *graph, const struct ig_region *region, struct ig_walk *out_walk);

/* Puts a region's nodes in the order of the graph's. */
void ig_region_sort(struct ig_region *region);

/* Puts a region's inputs and outputs in an order that follows from what it computes, so that equal regions have theirs
 * in the same order. Outputs come by depth, then by what computes them. */
void ig_region_arrange(struct ig_graph *graph, struct ig_region *region);

#endif
