/*
 * split-rows: lets several threads, or all of a GPU, reduce a few long rows.
 *
 * Requires:   layout (channels-last form), precision (final types).
 * Guarantees: a reduction of f32 over several axes whose rows are too few, or on CPUs lie too close together, for threads to
 *             divide them becomes one over all of these axes but the first, and one over that. A variance, the mean of
 *             squared distances from the mean, becomes that of each part from the part's own mean, and that of these means;
 *             so one kernel computes both while a part is in the caches. Sums are added in another order.
 *
 * What follows a reduction is elementwise and a kernel of its own, which threads divide as they like.
 */
#include "pass/match.h"
#include "pass/passes.h"

enum {
    LEAST_ELEMENTS = 1 << 16, /* some ten microseconds of work, several times what two more kernels take to start */
    LEAST_PARTS = 8,
    MOST_PARTS = 1 << 13,
    LEAST_PART = 16,    /* elements that a part of a row has */
    ENOUGH_TILES = 16,  /* threads have enough to divide */
    LANES = 128,        /* elements side by side in a tile, where rows lie in pieces (kernel/cpu/row.c) */
    LONGEST_PIECE = 64, /* longer ones are tiles of their own */
    /* On GPUs, where a cluster of blocks reduces a row (kernel/cuda/row.c) and others are idle: */
    FEW_ROWS = 4,
    LONG_ROW = 1 << 18, /* some five microseconds for a cluster, more than two more kernels take */
    FULL_PARTS = 128,   /* keep all multiprocessors busy */
};

/* The dim's usual value, 1 if there is none. */
static int64_t usual(const struct ig_graph *g, ig_dim d) {
    int64_t n;
    return ig_dim_usual(g->dims, d, &n) ? n : 1;
}

/* Is it worth reducing along the first of several axes last, on a GPU? */
static bool is_few_rows_of_gpu(const struct ig_graph *g, const struct ig_type *type, const struct ig_attr *axes) {
    int64_t parts, rows = 1, length = 1;
    int next = 0;
    if (!ig_dim_is_const(g->dims, type->dim[axes->ints[0]], &parts)) return false;
    for (int i = 0; i < type->rank; i++) {
        bool reduced = next < axes->count && axes->ints[next] == i;
        *(reduced ? &length : &rows) *= usual(g, type->dim[i]);
        next += reduced;
    }
    bool enough = parts * rows >= FULL_PARTS && length / parts >= LEAST_PART;
    return rows <= FEW_ROWS && length >= LONG_ROW && enough && parts <= MOST_PARTS;
}

/* The same on CPUs. */
static bool is_few_rows_of_cpu(const struct ig_graph *g, const struct ig_type *type, const struct ig_attr *axes) {
    int first = (int)axes->ints[0], next = 0;
    int64_t parts, tiles = 1, part = 1, beside = 1, piece = 1;
    if (!ig_dim_is_const(g->dims, type->dim[first], &parts)) return false;
    if (parts < LEAST_PARTS || parts > MOST_PARTS) return false;
    for (int i = 0; i < type->rank; i++) {
        bool reduced = next < axes->count && axes->ints[next] == i;
        int64_t n = usual(g, type->dim[i]);
        next += reduced;
        if (i < first) {
            tiles *= n;
        } else if (i > first) {
            *(reduced ? &part : &beside) *= n;
            piece = reduced ? piece * n : n > 1 ? 1 : piece;
        }
    }
    tiles *= piece > LONGEST_PIECE ? beside : (beside * piece + LANES - 1) / LANES;
    return part >= LEAST_PART && tiles < ENOUGH_TILES && tiles * parts * part * beside >= LEAST_ELEMENTS;
}

/* Matches the mean over the axes in two steps; returns that over all of them but the first. */
static bool match_mean(const struct ig_graph *g, ig_value v, ig_value x, const struct ig_attr *axes,
                       ig_value *out_part) {
    const struct ig_node *whole = ig_def_op(g, v, IG_OP_reduce_mean);
    const struct ig_node *part = whole ? ig_def_op(g, whole->in[0], IG_OP_reduce_mean) : NULL;
    if (!part || part->in[0] != x) return false;
    const struct ig_attr *last = ig_attr(g, whole, IG_ATTR_axes), *rest = ig_attr(g, part, IG_ATTR_axes);
    if (last->count != 1 || last->ints[0] != axes->ints[0] || rest->count != axes->count - 1) return false;
    for (int i = 0; i < rest->count; i++) {
        if (rest->ints[i] != axes->ints[i + 1]) return false;
    }
    *out_part = whole->in[0];
    return true;
}

static ig_value square(struct ig_graph *g, ig_value x) {
    return ig_map2(g, IG_OP_mul, x, x);
}

static bool split(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct ig_graph *g = rw->out;
    bool suits = n->op == IG_OP_reduce_sum || n->op == IG_OP_reduce_mean || n->op == IG_OP_reduce_max ||
                 n->op == IG_OP_reduce_min;
    if (!suits || ig_info(g, in[0])->is_const || ig_type_of(g, in[0])->dtype != INGOT_F32) return false;
    const struct ig_attr *axes = ig_attr(rw->in, n, IG_ATTR_axes);
    if (axes->count < 2) return false;
    bool on_gpu = ig_target_is_cuda(rw->options->target);
    const struct ig_type *type = ig_type_of(g, in[0]);
    if (!(on_gpu ? is_few_rows_of_gpu(g, type, axes) : is_few_rows_of_cpu(g, type, axes))) return false;
    ig_value factor, other, x, mean, part, term = in[0];
    bool variance = n->op == IG_OP_reduce_mean && ig_match_binary(g, in[0], IG_OP_mul, &factor, &other) &&
                    factor == other && ig_match_binary(g, factor, IG_OP_sub, &x, &mean) &&
                    match_mean(g, mean, x, axes, &part);
    if (variance) term = square(g, ig_map2(g, IG_OP_sub, x, part));
    term = ig_build_reduce(g, n->op, term, axes->ints + 1, axes->count - 1);
    if (variance) term = ig_map2(g, IG_OP_add, term, square(g, ig_map2(g, IG_OP_sub, part, mean)));
    out_values[0] = ig_build_reduce(g, n->op, term, axes->ints, 1);
    return true;
}

struct ig_graph *ig_pass_split_rows(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite(in, options, split, NULL);
}
