/*
 * relative-positions: on GPUs, sums of relative positions that are added to scores become part of the product that makes these.
 *
 * Requires:   canonicalize; before move-views, which would carry the reshapes of scores beyond what reads them.
 * Guarantees: scores of queries by keys that lie on a grid, to which products are added that each depend on some of the keys' axes only (a
 *             row's and a column's: decomposed relative positions, Li et al., "MViTv2", 2022), are one product of longer queries and
 *             keys: behind a query stand its terms for all rows, then for all columns, and behind a key ones where its own row and
 *             column are. So no sum of the scores' size is stored or read. Each term is rounded as a narrow operand is, instead of
 *             their sum; where one is infinite, the query's other scores become NaN, too.
 *
 * A term of 32 rows adds 32 steps to the depth, which tensor cores take in less time than memory takes for a score; not other units,
 * so only products of narrow operands are rewritten.
 */
#include <math.h>

#include "pass/match.h"
#include "pass/passes.h"
#include "pass/precision/precision.h"
#include "pass/view/view.h"

enum {
    MOST_TERMS = 4,
    MOST_DEPTH = 256, /* of queries with their terms */
    MOST_SHARE = 4,   /* of the keys are a term's */
    LOAD = 8,         /* elements */
    MOST_FACTOR = 256 /* by which terms are divided: they must not overflow */
};

/* Scores, perhaps times a number and with queries and keys in several axes, of products that nothing else reads. */
struct scores {
    struct ig_node product; /* in the new graph */
    struct ig_type type;    /* of the product: [images..., queries, keys] */
    double factor;
    int64_t n_keys;
};

/* What is added to them: terms of images' axes, queries' axes and keys' axes, in a part of all scores. */
struct sum {
    ig_value terms[MOST_TERMS];
    int n_terms;
    struct ig_type grid;                  /* of the sum before it is reshaped and padded */
    int first_key;                        /* axis of the grid */
    const struct ig_attr *before, *after; /* padding of [..., queries, keys]; NULL: none */
};

/* Are the scores, as the old graph has them, read by one node alone, and so on down to the product? */
static bool is_read_once(const struct ig_rewriter *rw, ig_value v) {
    struct ig_graph *g = rw->in;
    for (const struct ig_node *n; rw->uses[v] == 1 && (n = ig_def(g, v)); v = n->in[0]) {
        if (n->op == IG_OP_matmul) return true;
        if (n->op == IG_OP_mul && ig_info(g, n->in[0])->is_const) return is_read_once(rw, n->in[1]);
        if (n->op == IG_OP_add) return is_read_once(rw, n->in[0]) || is_read_once(rw, n->in[1]);
        if (n->op != IG_OP_reshape && n->op != IG_OP_mul) return false;
    }
    return false;
}

static bool find_scores(struct ig_graph *g, ig_value v, struct scores *out) {
    double factor;
    out->factor = 1;
    for (ig_value x;; v = x) {
        const struct ig_node *n = ig_def(g, v);
        if (!n || ig_info(g, v)->is_const) return false;
        if (n->op == IG_OP_matmul) break;
        if (n->op == IG_OP_reshape) {
            x = n->in[0];
            continue;
        }
        if (!ig_match_with_scalar(g, v, IG_OP_mul, &x, &factor)) return false;
        out->factor *= factor;
    }
    out->product = *ig_def(g, v);
    out->type = *ig_type_of(g, v);
    const struct ig_type *a = ig_type_of(g, out->product.in[0]), *b = ig_type_of(g, out->product.in[1]);
    const int rank = out->type.rank;
    bool plain = a->rank == rank && b->rank == rank && rank >= 3 && a->dtype == b->dtype &&
                 !ig_info(g, out->product.in[1])->is_const && ig_attr_int(g, &out->product, IG_ATTR_packed) == 0;
    for (int i = 0; plain && i < rank - 2; i++)
        plain = a->dim[i] == out->type.dim[i] && b->dim[i] == out->type.dim[i];
    bool mild = fabs(out->factor) >= 1.0 / MOST_FACTOR && fabs(out->factor) <= MOST_FACTOR;
    return plain && mild && ig_dim_is_const(g->dims, out->type.dim[rank - 1], &out->n_keys);
}

static bool pads_zeros(const struct ig_graph *g, const struct ig_node *n) {
    return n->op == IG_OP_pad && ig_attr_int(g, n, IG_ATTR_mode) == IG_PAD_CONSTANT &&
           (n->n_in < 2 || n->in[1] == IG_NO_VALUE);
}

/* Is v a product, perhaps times a number, seen in another shape? Then it is finite, as a mask need not be. */
static bool is_product(struct ig_graph *g, ig_value v) {
    double unused;
    for (ig_value x;; v = x) {
        const struct ig_node *n = ig_info(g, v)->is_const ? NULL : ig_def(g, v);
        if (!n || n->op == IG_OP_matmul) return n;
        if (pads_zeros(g, n) || n->op == IG_OP_reshape || n->op == IG_OP_transpose || n->op == IG_OP_slice ||
            n->op == IG_OP_cast) {
            x = n->in[0];
            continue;
        }
        if (!ig_match_with_scalar(g, v, IG_OP_mul, &x, &unused)) return false;
    }
}

static bool add_terms(struct ig_graph *g, ig_value v, struct sum *out) {
    ig_value a, b;
    if (ig_match_binary(g, v, IG_OP_add, &a, &b)) return add_terms(g, a, out) && add_terms(g, b, out);
    if (out->n_terms == MOST_TERMS || ig_type_of(g, v)->rank != out->grid.rank || !is_product(g, v)) return false;
    out->terms[out->n_terms++] = v;
    return true;
}

/* The first of the last axes that have `size` elements together; -1: none. */
static int first_of(struct ig_graph *g, const struct ig_type *type, int64_t size) {
    int64_t product = 1, each;
    for (int i = type->rank - 1; i > 0; i--) {
        if (!ig_dim_is_const(g->dims, type->dim[i], &each)) return -1;
        product *= each;
        if (product == size) return i;
    }
    return -1;
}

/* Elements that a term has along the keys' axes; 0: it does not fit the grid, or is not smaller than that. */
static int64_t keys_of(struct ig_graph *g, const struct sum *s, ig_value term) {
    const struct ig_type *type = ig_type_of(g, term);
    int64_t own = 1, all = 1, size, whole;
    for (int i = 0; i < type->rank; i++) {
        bool one = ig_dim_is(g->dims, type->dim[i], 1);
        if (!one && type->dim[i] != s->grid.dim[i]) return 0;
        if (i < s->first_key) continue;
        if (!ig_dim_is_const(g->dims, type->dim[i], &size) || !ig_dim_is_const(g->dims, s->grid.dim[i], &whole))
            return 0;
        own *= size;
        all *= whole;
    }
    return own * MOST_SHARE <= all ? own : 0;
}

/* Takes zeros off that stand beside the queries and the keys of a sum; returns how many keys are left, or -1: it is padded otherwise. */
static int64_t take_padding_off(struct ig_graph *g, const struct scores *scores, ig_value *v, struct sum *out) {
    const struct ig_node *n = ig_def_op(g, *v, IG_OP_pad);
    const int rank = scores->type.rank;
    int64_t left = scores->n_keys, before, after;
    if (!n) return left;
    if (!pads_zeros(g, n) || !ig_same_dims(ig_type_of(g, *v), &scores->type)) return -1;
    out->before = ig_attr(g, n, IG_ATTR_before);
    out->after = ig_attr(g, n, IG_ATTR_after);
    for (int i = 0; i < rank; i++) {
        if (!ig_dim_is_const(g->dims, out->before->dims[i], &before) ||
            !ig_dim_is_const(g->dims, out->after->dims[i], &after))
            return -1;
        if (before < 0 || after < 0 || (i < rank - 2 && before + after > 0)) return -1;
        if (i == rank - 1) left -= before + after;
    }
    *v = n->in[0];
    return left;
}

/* What is added to scores: a term, or the sum of several, reshaped and padded or not. `result` is the type of all scores and what is added. */
static bool find_sum(struct ig_graph *g, ig_value v, const struct scores *scores, const struct ig_type *result,
                     struct sum *out) {
    *out = (struct sum){.grid = *result};
    int64_t keys = scores->n_keys;
    if (ig_same_dims(ig_type_of(g, v), result)) {
        keys = take_padding_off(g, scores, &v, out);
        for (const struct ig_node *n; (n = ig_def_op(g, v, IG_OP_reshape));)
            v = n->in[0];
        out->grid = *ig_type_of(g, v);
    }
    out->first_key = keys > 0 ? first_of(g, &out->grid, keys) : -1;
    return out->first_key > 0 && add_terms(g, v, out);
}

/* Zeros beside the queries, where there are some beside the sum's. */
static ig_value pad_queries(struct ig_graph *g, const struct sum *s, ig_value term) {
    ig_dim before[INGOT_MAX_RANK], after[INGOT_MAX_RANK];
    const int rank = ig_type_of(g, term)->rank;
    for (int i = 0; i < rank; i++) {
        before[i] = i == rank - 2 ? s->before->dims[i] : ig_dim_const(g->dims, 0);
        after[i] = i == rank - 2 ? s->after->dims[i] : ig_dim_const(g->dims, 0);
    }
    return ig_build_pad(g, term, before, after, IG_PAD_CONSTANT, IG_NO_VALUE);
}

/* The rows of queries of a term, [images..., queries, keys of the term], with zeros for queries beside the grid. */
static ig_value rows_of(struct ig_graph *g, const struct scores *scores, const struct sum *s, ig_value term,
                        int64_t own) {
    const struct ig_type *product = &scores->type;
    struct ig_type type = *ig_type_of(g, term);
    ig_dim dims[INGOT_MAX_RANK];
    const int last = product->rank - 1;
    for (int i = 0; i < s->first_key; i++)
        type.dim[i] = s->grid.dim[i];
    term = ig_build_broadcast(g, term, type.dim, type.rank);
    for (int i = 0; i < last; i++)
        dims[i] = product->dim[i];
    dims[last] = ig_dim_const(g->dims, own);
    if (s->before) {
        ig_dim beside = ig_dim_add(g->dims, s->before->dims[last - 1], s->after->dims[last - 1]);
        dims[last - 1] = ig_dim_sub(g->dims, product->dim[last - 1], beside);
    }
    term = ig_view_reshape(g, term, dims, product->rank);
    if (scores->factor != 1) term = ig_map2(g, IG_OP_mul, term, ig_scalar_like(g, term, 1 / scores->factor));
    return s->before ? pad_queries(g, s, term) : term;
}

/* Marks a term's columns: for each key of the grid, which of them is its own. */
static void mark(struct ig_graph *g, const struct sum *s, ig_value term, float *keys, int64_t width) {
    const struct ig_type *type = ig_type_of(g, term);
    int64_t sizes[INGOT_MAX_RANK], own[INGOT_MAX_RANK], count = 1;
    for (int i = s->first_key; i < type->rank; i++) {
        ig_dim_is_const(g->dims, s->grid.dim[i], &sizes[i]);
        ig_dim_is_const(g->dims, type->dim[i], &own[i]);
        count *= sizes[i];
    }
    for (int64_t key = 0; key < count; key++) {
        int64_t rest = key, column = 0, stride = 1;
        for (int i = type->rank - 1; i >= s->first_key; i--) {
            if (own[i] > 1) column += rest % sizes[i] * stride;
            stride *= own[i];
            rest /= sizes[i];
        }
        keys[key * width + column] = 1;
    }
}

/* [keys, terms' keys]: one where a key has a term's place, zero elsewhere. */
static ig_value places_of_keys(struct ig_graph *g, const struct scores *scores, const struct sum *s, const int64_t *own,
                               int64_t width) {
    const int64_t dims[] = {scores->n_keys, width};
    float *at = IG_NEW_ARRAY(g->job, float, scores->n_keys *width);
    int64_t before = 0, column = 0;
    if (s->before) ig_dim_is_const(g->dims, s->before->dims[scores->type.rank - 1], &before);
    for (int i = 0; i < s->n_terms; i++) {
        mark(g, s, s->terms[i], at + before * width + column, width);
        column += own[i];
    }
    struct ig_data *data = IG_NEW(g->job, struct ig_data);
    *data = (struct ig_data){.bytes = at, .size = (size_t)(scores->n_keys * width) * sizeof *at};
    return ig_build_constant(g, INGOT_F32, 2, dims, data);
}

/* The product of longer queries and keys. */
static ig_value multiply(struct ig_graph *g, const struct scores *scores, const struct sum *s, const int64_t *own,
                         int64_t width, int64_t zeros) {
    const struct ig_node *product = &scores->product;
    const int rank = scores->type.rank;
    ig_value queries[MOST_TERMS + 2] = {product->in[0]};
    int n_queries = 1;
    ig_dim dims[INGOT_MAX_RANK];
    for (int i = 0; i < s->n_terms; i++)
        queries[n_queries++] = rows_of(g, scores, s, s->terms[i], own[i]);
    for (int i = 0; i < rank; i++)
        dims[i] = scores->type.dim[i];
    dims[rank - 1] = ig_dim_const(g->dims, zeros);
    if (zeros > 0) queries[n_queries++] = ig_build_broadcast(g, ig_scalar_like(g, product->in[0], 0), dims, rank);
    dims[rank - 2] = scores->type.dim[rank - 1];
    dims[rank - 1] = ig_dim_const(g->dims, width);
    ig_value places = ig_build_cast(g, places_of_keys(g, scores, s, own, width), ig_type_of(g, product->in[1])->dtype);
    ig_value keys[] = {ig_view_swap(g, product->in[1]), ig_build_broadcast(g, places, dims, rank)};
    ig_value in[] = {ig_build_concat(g, queries, n_queries, rank - 1),
                     ig_view_swap(g, ig_build_concat(g, keys, 2, rank - 1))};
    ig_value result = ig_build_copy(g, g, product, in);
    return scores->factor == 1 ? result : ig_map2(g, IG_OP_mul, result, ig_scalar_like(g, result, scores->factor));
}

/* Are there so many scores that a sum of each takes longer than to store queries and keys of this depth once more, and than the kernels that
 * do so? */
static bool are_many(struct ig_graph *g, const struct scores *scores, int64_t depth) {
    enum { MANY = 2000000 };
    int64_t all, queries;
    if (!ig_dim_usual(g->dims, ig_type_elements(g->dims, &scores->type), &all) || all < MANY) return false;
    if (!ig_dim_usual(g->dims, scores->type.dim[scores->type.rank - 2], &queries)) return false;
    return 4 * (double)queries * (double)scores->n_keys >= 3 * (double)(queries + scores->n_keys) * (double)depth;
}

static bool rewrite(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct ig_graph *g = rw->out;
    if (n->op != IG_OP_add) return false;
    const struct ig_type out = *ig_type_of(rw->in, n->out);
    for (int side = 0; side < 2; side++) {
        struct scores scores;
        struct sum sum;
        int64_t own[MOST_TERMS], width = 0, depth;
        if (!ig_same_dims(ig_type_of(rw->in, n->in[side]), &out) || !is_read_once(rw, n->in[side])) continue;
        if (!find_scores(g, in[side], &scores) || !find_sum(g, in[1 - side], &scores, &out, &sum)) continue;
        const struct ig_type *queries = ig_type_of(g, scores.product.in[0]);
        if (!ig_precision_is_half(rw->options->precisions, &scores.product, queries->dtype) ||
            ig_type_of(g, in[1 - side])->dtype != queries->dtype)
            continue;
        bool fits = ig_dim_is_const(g->dims, queries->dim[queries->rank - 1], &depth);
        for (int i = 0; i < sum.n_terms; i++) {
            own[i] = keys_of(g, &sum, sum.terms[i]);
            fits = fits && own[i] > 0;
            width += own[i];
        }
        int64_t zeros = (LOAD - (depth + width) % LOAD) % LOAD;
        if (!fits || depth + width + zeros > MOST_DEPTH || !are_many(g, &scores, depth + width + zeros)) continue;
        ig_value product = multiply(g, &scores, &sum, own, width + zeros, zeros);
        out_values[0] = ig_view_reshape(g, product, out.dim, out.rank);
        return true;
    }
    return false;
}

struct ig_graph *ig_pass_relative_positions(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_target_is_cuda(options->target) ? ig_rewrite(in, options, rewrite, NULL) : in;
}
