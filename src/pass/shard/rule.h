/*
 * Sharding rules: how each core operator can be divided among ranks. A rule answers one question: if one operand or result
 * has this layout, which layouts of all operands and results let each rank run the same operator on what it has? An axis that
 * operands and results share is a factor of the operator, as in (i,k),(k,j)->(i,j); splitting a factor that results lack
 * gives them as partial sums. Operators without a rule are computed whole by every rank.
 */
#ifndef IG_PASS_SHARD_RULE_H
#define IG_PASS_SHARD_RULE_H

#include "pass/shard/layout.h"

/* One way to divide a node. */
struct ig_division {
    struct ig_layout *in;  /* by operand; WHOLE of absent ones */
    struct ig_layout *out; /* by result */
};

/* Which operand, or result, of a node is given. */
struct ig_slot_of {
    bool is_result;
    uint32_t index;
};

/*
 * Fills `division` so that the given operand or result has that layout, or one along the same axis with a multiple of its
 * inner elements and so fewer to count (a reshape of [768] to [12,64] can only be divided by the 12). False: it cannot be
 * divided so. `given` is not WHOLE.
 */
bool ig_shard_divide(struct ig_graph *graph, const struct ig_node *node, struct ig_slot_of slot,
                     const struct ig_layout *given, struct ig_division *division);

/*
 * Appends to `to` what one rank computes of the node: the same operator on its parts `in` of the operands (IG_NO_VALUE:
 * absent), with attributes for their sizes; of a gather from a range of an axis, zeros where an index is elsewhere. Returns the
 * first result.
 */
ig_value ig_shard_build(struct ig_graph *to, struct ig_graph *from, const struct ig_node *node,
                        const struct ig_division *division, const ig_value *in, int ranks, int rank);

/* ---- For rule*.c */

struct ig_rule {
    struct ig_graph *graph;
    struct ig_dims *dims;
    const struct ig_node *node;
    struct ig_slot_of slot;
    struct ig_layout given;
    struct ig_layout *in, *out; /* at first WHOLE */
};
typedef bool (*ig_rule_fn)(struct ig_rule *x);

const struct ig_type *ig_rule_in(const struct ig_rule *x, uint32_t operand);
const struct ig_type *ig_rule_out(const struct ig_rule *x, uint32_t result);
bool ig_rule_has(const struct ig_rule *x, uint32_t operand);
/* Is the given value that operand, or that result? */
bool ig_rule_is_in(const struct ig_rule *x, uint32_t operand);
bool ig_rule_is_out(const struct ig_rule *x, uint32_t result);
bool ig_rule_is(const struct ig_rule *x, ig_dim dim, int64_t value);
/* The given split, along another axis. */
struct ig_layout ig_rule_at(const struct ig_rule *x, int axis);
/* Is it a split, and are its sizes those of this axis? */
bool ig_rule_fits(const struct ig_rule *x, const struct ig_type *type, int axis);
/* Sets operand i, whose shape is aligned with a result's at the end, to be split along the result's axis; WHOLE if it is
 * stretched there. False if it cannot be. */
bool ig_rule_align(struct ig_rule *x, uint32_t operand, int result_rank, int axis);

bool ig_rule_elementwise(struct ig_rule *x);
bool ig_rule_reshape(struct ig_rule *x);
bool ig_rule_transpose(struct ig_rule *x);
bool ig_rule_slice(struct ig_rule *x);
bool ig_rule_pad(struct ig_rule *x);
bool ig_rule_concat(struct ig_rule *x);
bool ig_rule_iota(struct ig_rule *x);
bool ig_rule_gather(struct ig_rule *x);
/* What of gather(whole, index) lies in one range, which begins at `begin` of the `whole` elements of the axis: zeros for all else. */
ig_value ig_shard_gather_range(struct ig_graph *to, ig_value range, ig_value index, int axis, int64_t whole,
                               int64_t begin);
bool ig_rule_gather_elements(struct ig_rule *x);
bool ig_rule_gather_nd(struct ig_rule *x);
bool ig_rule_scatter_elements(struct ig_rule *x);
bool ig_rule_scatter_nd(struct ig_rule *x);
bool ig_rule_reduce(struct ig_rule *x);
bool ig_rule_beside_axis(struct ig_rule *x);
bool ig_rule_matmul(struct ig_rule *x);
bool ig_rule_matmul_blocks(struct ig_rule *x);
bool ig_rule_matmul_scaled(struct ig_rule *x);
bool ig_rule_conv(struct ig_rule *x);
bool ig_rule_pool(struct ig_rule *x);
bool ig_rule_recurrence(struct ig_rule *x);

#endif
