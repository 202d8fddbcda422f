/* See twins.h. */
#include "pass/fuse/twins.h"

#include "ir/blocks.h"

enum { MOST_ROWS = 16, ALIGNED = 8 /* elements */ };

static bool is_of_few_rows(struct ig_graph *g, const struct ig_node *n) {
    const struct ig_type *out = ig_type_of(g, n->out);
    int64_t lo, most;
    ig_dim_range(g->dims, ig_dim_product(g->dims, out->dim, out->rank - 1), &lo, &most);
    return most <= MOST_ROWS;
}

/* Can a kernel of few rows read the weight straight from memory, or stream its columns? Those of twins must lie in the same way: [depth,
 * columns], or packed as [columns, depth, 1]. */
static bool has_plain_weight(struct ig_graph *g, const struct ig_node *n) {
    struct ig_dims *dims = g->dims;
    const struct ig_type *b = ig_type_of(g, n->in[1]);
    int64_t depth, columns;
    bool along = ig_attr_int(g, n, IG_ATTR_packed) == 1;
    if (!ig_info(g, n->in[1])->is_const || b->rank != (along ? 3 : 2)) return false;
    if (!along && ig_attr_int(g, n, IG_ATTR_packed) != 0) return false;
    if (b->dtype != INGOT_F16 && b->dtype != INGOT_BF16) return false;
    return ig_dim_is_const(dims, b->dim[along], &depth) && depth % ALIGNED == 0 &&
           ig_dim_is_const(dims, b->dim[!along], &columns) && columns % ALIGNED == 0;
}

static bool has_same(const struct ig_graph *g, const struct ig_node *a, const struct ig_node *b,
                     enum ig_attr_name name) {
    return ig_attr_int(g, a, name) == ig_attr_int(g, b, name);
}

/* Of deeper and of wider ones, whose codes are streamed, two kernels are as fast as one (of 4096 x 11008 21.5 and 22.6 us, of 2048 x 8192 10.9). */
static bool is_small(const struct ig_graph *g, const struct ig_node *n) {
    enum { COLUMNS = 16, TILES = 264 /* all of them at once, two on each of an H200's multiprocessors */ };
    const struct ig_type *a = ig_type_of(g, n->in[0]), *out = ig_type_of(g, n->out);
    const int bits = (int)ig_attr_int(g, n, IG_ATTR_bits);
    int64_t depth, columns;
    return ig_dim_is_const(g->dims, a->dim[a->rank - 1], &depth) &&
           ig_dim_is_const(g->dims, out->dim[out->rank - 1], &columns) && columns <= COLUMNS * TILES &&
           ig_blocks_bytes(IG_BLOCKS_FRAGMENTS, bits, depth, COLUMNS) < IG_BLOCKS_STREAMED;
}

/* Constant codes, scales and zero points that lie in the same way, as kernels of GPUs read them, and one table, or none. */
static bool have_alike_codes(const struct ig_graph *g, const struct ig_node *a, const struct ig_node *b) {
    enum { CODES = 1, TABLE = 4 };
    static const enum ig_attr_name same[] = {IG_ATTR_acc,    IG_ATTR_bits,   IG_ATTR_block,
                                             IG_ATTR_offset, IG_ATTR_packed, IG_ATTR_n};
    if (a->n_in != b->n_in || ig_attr_int(g, a, IG_ATTR_packed) != IG_BLOCKS_FRAGMENTS || !is_small(g, a)) return false;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        if (!has_same(g, a, b, same[i])) return false;
    }
    for (uint32_t i = CODES; i < a->n_in; i++) {
        const ig_value x = a->in[i], y = b->in[i];
        if (x == y) continue;
        if (i == TABLE || x == IG_NO_VALUE || y == IG_NO_VALUE) return false;
        if (!ig_info(g, x)->is_const || !ig_info(g, y)->is_const || !ig_type_same(ig_type_of(g, x), ig_type_of(g, y)))
            return false;
    }
    return true;
}

static bool have_alike_weights(struct ig_graph *g, const struct ig_node *a, const struct ig_node *b) {
    return ig_type_same(ig_type_of(g, a->in[1]), ig_type_of(g, b->in[1])) && has_same(g, a, b, IG_ATTR_acc) &&
           has_same(g, a, b, IG_ATTR_math) && has_plain_weight(g, a) && has_plain_weight(g, b);
}

bool ig_are_twins(struct ig_graph *g, const struct ig_node *a, const struct ig_node *b) {
    if (a->op != b->op || a->in[0] != b->in[0] || !is_of_few_rows(g, a) || !is_of_few_rows(g, b)) return false;
    return a->op == IG_OP_matmul_blocks ? have_alike_codes(g, a, b) : have_alike_weights(g, a, b);
}

bool ig_are_alike_recurrences(const struct ig_graph *g, const struct ig_node *a, const struct ig_node *b) {
    if (a->op != b->op || (a->op != IG_OP_lstm && a->op != IG_OP_gru && a->op != IG_OP_rnn)) return false;
    for (int i = 0; i < 2; i++) {
        if (!ig_type_same(ig_type_of(g, a->in[i]), ig_type_of(g, b->in[i]))) return false;
    }
    return a->op != IG_OP_gru ||
           ig_attr_int(g, a, IG_ATTR_linear_before_reset) == ig_attr_int(g, b, IG_ATTR_linear_before_reset);
}
