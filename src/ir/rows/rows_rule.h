/*
 * The rules of ig_rows_mixed, for the files rows*.c only: one function per kind in the column `rows` of ops.def.
 *
 * A value either knows nothing of the symbol: no dim mentions it, and the contents depend neither on it nor on any row.
 * Or it has rows along one axis, of size outer x symbol x inner, in that order; no other dim mentions the symbol. What
 * lies in row r follows from the rows r of the inputs, from r, and from what knows nothing of the symbol. A node whose
 * result is neither mixes rows.
 */
#ifndef IG_IR_ROWS_RULE_H
#define IG_IR_ROWS_RULE_H

#include "ir/rows/rows.h"

struct ig_rows {
    struct ig_graph *graph;
    ig_dim symbol;
    const char *mixed; /* the reason, once there is one */
    /* The node at hand. A rule is asked only if an operand has rows or an attribute `dims` or `sizes` mentions the
     * symbol (others never do), and always about control flow. */
    const struct ig_node *node;
    const struct ig_rows_at *in; /* one per operand; absent ones have no rows */
    struct ig_rows_at *out;      /* one per result, at first without rows; the caller checks that the types agree */
    const struct ig_rows_at *at; /* by value, of those before the node */
};

/* Fills axis and inner of x->out; false: the node mixes rows. */
typedef bool (*ig_rows_fn)(struct ig_rows *x);

#define IG_MAP(name, ...)
#define IG_OP(name, family, rows, ...) bool ig_rows_##rows(struct ig_rows *x);
#include "ir/ops.def"
bool ig_rows_map(struct ig_rows *x); /* all elementwise rows */

/* rows_place.c: fills step, least and most of the only result, whose axis is known, where that can be done. */
void ig_rows_place(struct ig_rows *x);
/* Is each of these integers the index of an element of its own row, along the axis where a value of that type has its
 * rows? */
bool ig_rows_stays(const struct ig_rows *x, const struct ig_rows_at *index, const struct ig_type *type,
                   const struct ig_rows_at *at);

bool ig_rows_mentions(const struct ig_rows *x, ig_dim dim);
/* The only axis of a type that mentions the symbol; IG_ROWS_NONE if there is none or more than one. */
int ig_rows_axis(const struct ig_rows *x, const struct ig_type *type);
/* k, where dim is k times the symbol; IG_DIM_NONE where it is not. */
ig_dim ig_rows_multiple(const struct ig_rows *x, ig_dim dim);
/* Of a value of that type which knows no more of the rows than their numbers. */
struct ig_rows_at ig_rows_numbered(const struct ig_rows *x, const struct ig_type *type);
/* The type of an operand that is present. */
const struct ig_type *ig_rows_type(const struct ig_rows *x, uint32_t operand);
bool ig_rows_is(const struct ig_rows *x, ig_dim dim, int64_t value);
/* Do all operands that have rows, and the first result, divide axes of the same size in the same way? They may differ
 * where a shape rule assumed dims equal. */
bool ig_rows_same_size(const struct ig_rows *x);
/* A body of control flow, whose inputs are the node's operands from `first` on. Returns where its outputs have their
 * rows, in the arena; NULL if it mixes them. */
const struct ig_rows_at *ig_rows_body(struct ig_rows *x, struct ig_graph *body, uint32_t first);

#endif
