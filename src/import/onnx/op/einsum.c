/*
 * Einsum: operands are joined from left to right, each join being one matrix product (or a plain product where nothing
 * is summed). Labels are numbers: letters first, then the axes of an ellipsis.
 */
#include <string.h>

#include "import/onnx/importer.h"
#include "import/onnx/op/arith.h"

enum { LETTERS = 52, LABELS = LETTERS + INGOT_MAX_RANK, MAX_TERMS = 16 };

struct term {
    ig_value value;
    int rank;
    int labels[2 * INGOT_MAX_RANK];
};

struct einsum {
    struct ig_onnx_node *n;
    ig_dim dims[LABELS]; /* IG_DIM_NONE: the label does not occur */
    struct term terms[MAX_TERMS], result;
    int n_terms;
    int ellipsis; /* axes that the ellipsis stands for */
};

/* ---- The equation ---- */

static int letter_label(struct ig_onnx_node *n, char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    ig_onnx_bad(n, "unexpected character '%c' in the equation", c);
}

/* Parses one term up to `end`. The ellipsis stands for `ellipsis` axes, numbered from the right. */
static void parse_term(struct ig_onnx_node *n, const char *at, const char *end, int ellipsis, struct term *term) {
    term->rank = 0;
    while (at < end) {
        int count = 1, label;
        if (end - at >= 3 && memcmp(at, "...", 3) == 0) {
            count = ellipsis;
            label = LETTERS;
            at += 3;
        } else {
            label = letter_label(n, *at++);
        }
        for (int i = 0; i < count; i++) {
            if (term->rank == INGOT_MAX_RANK) ig_onnx_refuse(n, "a term has more than %d axes", INGOT_MAX_RANK);
            term->labels[term->rank++] = label == LETTERS ? LETTERS + ellipsis - 1 - i : label;
        }
    }
}

static const char *without_spaces(struct ig_onnx_node *n) {
    const char *text = ig_onnx_string(n, "equation", NULL);
    if (!text) ig_onnx_bad(n, "attribute 'equation' is missing");
    char *clean = ig_strdup(n->job, text), *to = clean;
    for (const char *from = text; *from; from++) {
        if (*from != ' ') *to++ = *from;
    }
    *to = '\0';
    return clean;
}

/* The number of axes that the ellipsis covers: the operand's rank minus the term's letters. */
static int ellipsis_axes(struct ig_onnx_node *n, const char *at, const char *end, int rank) {
    int letters = 0;
    bool dots = false;
    for (; at < end; at++) {
        if (*at == '.')
            dots = true;
        else
            letters++;
    }
    if (letters > rank || (!dots && letters != rank)) {
        ig_onnx_bad(n, "a term has %d labels for an operand of rank %d", letters, rank);
    }
    return dots ? rank - letters : 0;
}

/* The result if there is no arrow: the ellipsis, then every letter that occurs once, in order. */
static void imply_result(struct einsum *e) {
    int uses[LABELS] = {0};
    for (int i = 0; i < e->n_terms; i++) {
        for (int j = 0; j < e->terms[i].rank; j++)
            uses[e->terms[i].labels[j]]++;
    }
    e->result.rank = 0;
    for (int i = 0; i < e->ellipsis; i++)
        e->result.labels[e->result.rank++] = LETTERS + e->ellipsis - 1 - i;
    for (int label = 0; label < LETTERS; label++) {
        if (uses[label] != 1) continue;
        if (e->result.rank == INGOT_MAX_RANK) ig_onnx_refuse(e->n, "the result's rank is over %d", INGOT_MAX_RANK);
        e->result.labels[e->result.rank++] = label;
    }
}

static void parse(struct einsum *e, const char *text) {
    struct ig_onnx_node *n = e->n;
    const char *arrow = strstr(text, "->"), *end = arrow ? arrow : text + strlen(text), *at = text;
    const char *starts[MAX_TERMS], *ends[MAX_TERMS];
    for (;; at++) {
        if (e->n_terms == MAX_TERMS) ig_onnx_refuse(n, "more than %d operands are not supported", MAX_TERMS);
        const char *comma = memchr(at, ',', (size_t)(end - at));
        starts[e->n_terms] = at;
        at = ends[e->n_terms++] = comma ? comma : end;
        if (!comma) break;
    }
    if ((uint32_t)e->n_terms != n->n_in) ig_onnx_bad(n, "the equation has %d terms for %u inputs", e->n_terms, n->n_in);
    for (int i = 0; i < e->n_terms; i++) {
        int axes = ellipsis_axes(n, starts[i], ends[i], ig_onnx_rank(n, ig_onnx_in(n, (uint32_t)i)));
        if (axes > e->ellipsis) e->ellipsis = axes;
    }
    for (int i = 0; i < e->n_terms; i++) {
        int axes = ellipsis_axes(n, starts[i], ends[i], ig_onnx_rank(n, n->in[i]));
        e->terms[i].value = n->in[i];
        parse_term(n, starts[i], ends[i], axes, &e->terms[i]);
    }
    if (arrow)
        parse_term(n, arrow + 2, arrow + 2 + strlen(arrow + 2), e->ellipsis, &e->result);
    else
        imply_result(e);
}

/* ---- One operand ---- */

static int find_label(const struct term *term, int label) {
    for (int i = 0; i < term->rank; i++) {
        if (term->labels[i] == label) return i;
    }
    return -1;
}

static void drop_label(struct term *term, int position) {
    memmove(&term->labels[position], &term->labels[position + 1], sizeof(int) * (size_t)(term->rank - position - 1));
    term->rank--;
}

static void permute(struct ig_onnx_node *n, struct term *term, const int *order) {
    int64_t perm[INGOT_MAX_RANK];
    int labels[INGOT_MAX_RANK];
    for (int i = 0; i < term->rank; i++) {
        perm[i] = order[i];
        labels[i] = term->labels[order[i]];
    }
    term->value = ig_build_transpose(n->g, term->value, perm);
    memcpy(term->labels, labels, sizeof(int) * (size_t)term->rank);
}

/* A label that occurs twice takes a diagonal: both axes are moved to the end and merged, and every (size + 1)-th
 * element is taken. */
static void take_diagonal(struct ig_onnx_node *n, struct term *term, int a, int b) {
    struct ig_dims *dims = n->dims;
    int order[INGOT_MAX_RANK], count = 0;
    for (int i = 0; i < term->rank; i++) {
        if (i != a && i != b) order[count++] = i;
    }
    order[count++] = a;
    order[count] = b;
    permute(n, term, order);
    struct ig_type t = *ig_type_of(n->g, term->value);
    int64_t size = ig_onnx_static_dim(n, term->value, t.rank - 1, "the size of a diagonal");
    if (ig_onnx_static_dim(n, term->value, t.rank - 2, "the size of a diagonal") != size) {
        ig_onnx_bad(n, "a repeated label has two sizes");
    }
    t.dim[t.rank - 2] = ig_dim_mul(dims, t.dim[t.rank - 2], t.dim[t.rank - 1]);
    term->value = ig_build_reshape(n->g, term->value, t.dim, t.rank - 1);
    term->value =
        ig_build_slice_axis(n->g, term->value, t.rank - 2, ig_dim_const(dims, 0), ig_dim_const(dims, size), size + 1);
    term->rank--;
}

static void take_diagonals(struct ig_onnx_node *n, struct term *term) {
    for (int i = 0; i < term->rank; i++) {
        int again = -1;
        for (int j = i + 1; j < term->rank && again < 0; j++) {
            if (term->labels[j] == term->labels[i]) again = j;
        }
        if (again < 0) continue;
        take_diagonal(n, term, i, again);
        i = -1;
    }
}

/* Records the sizes of a term's labels. Between 1 and another size, the other wins. */
static void note_dims(struct einsum *e, const struct term *term) {
    ig_dim one = ig_dim_const(e->n->dims, 1);
    for (int i = 0; i < term->rank; i++) {
        ig_dim *known = &e->dims[term->labels[i]], dim = ig_onnx_dim(e->n, term->value, i);
        if (*known == IG_DIM_NONE || *known == one)
            *known = dim;
        else if (dim != one && ig_dim_equal(e->n->dims, *known, dim) == IG_NO)
            ig_onnx_bad(e->n, "a label has two sizes");
    }
}

/* Drops axes of size 1 whose label is larger elsewhere, so that they broadcast. */
static void drop_ones(struct einsum *e, struct term *term) {
    ig_dim one = ig_dim_const(e->n->dims, 1);
    for (int i = term->rank - 1; i >= 0; i--) {
        if (ig_onnx_dim(e->n, term->value, i) != one || e->dims[term->labels[i]] == one) continue;
        term->value = ig_build_squeeze(e->n->g, term->value, &i, 1);
        drop_label(term, i);
    }
}

/* Sums over the labels that neither `other` nor the remaining terms and the result need. */
static void sum_out(struct einsum *e, struct term *term, const struct term *other, const bool *needed) {
    for (int i = term->rank - 1; i >= 0; i--) {
        int64_t axis = i;
        if (needed[term->labels[i]] || (other && find_label(other, term->labels[i]) >= 0)) continue;
        term->value = ig_build_reduce(e->n->g, IG_OP_reduce_sum, term->value, &axis, 1);
        term->value = ig_build_squeeze(e->n->g, term->value, &i, 1);
        drop_label(term, i);
    }
}

/* ---- Two operands ---- */

/* The labels of both operands in four groups: shared and kept, only in a, only in b, shared and summed. */
struct groups {
    int count[4];
    int labels[4][2 * INGOT_MAX_RANK];
};
enum { BATCH, LEFT, RIGHT, SUMMED };

static struct groups divide(const struct term *a, const struct term *b, const bool *needed) {
    struct groups groups = {0};
    for (int i = 0; i < a->rank; i++) {
        int label = a->labels[i];
        int group = find_label(b, label) < 0 ? LEFT : needed[label] ? BATCH : SUMMED;
        groups.labels[group][groups.count[group]++] = label;
    }
    for (int i = 0; i < b->rank; i++) {
        if (find_label(a, b->labels[i]) < 0) groups.labels[RIGHT][groups.count[RIGHT]++] = b->labels[i];
    }
    return groups;
}

static ig_dim group_size(const struct einsum *e, const struct groups *groups, int group) {
    ig_dim size = ig_dim_const(e->n->dims, 1);
    for (int i = 0; i < groups->count[group]; i++)
        size = ig_dim_mul(e->n->dims, size, e->dims[groups->labels[group][i]]);
    return size;
}

/* The operand as a batch of matrices whose axes are three of the groups. */
static ig_value as_matrices(struct einsum *e, struct term *term, const struct groups *groups, const int *which) {
    int order[INGOT_MAX_RANK], count = 0;
    ig_dim dims[3];
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < groups->count[which[i]]; j++)
            order[count++] = find_label(term, groups->labels[which[i]][j]);
        dims[i] = group_size(e, groups, which[i]);
    }
    permute(e->n, term, order);
    return ig_build_reshape(e->n->g, term->value, dims, 3);
}

static void join(struct einsum *e, struct term *a, struct term *b, const bool *needed) {
    static const int left[] = {BATCH, LEFT, SUMMED}, right[] = {BATCH, SUMMED, RIGHT}, result[] = {BATCH, LEFT, RIGHT};
    sum_out(e, a, b, needed);
    sum_out(e, b, a, needed);
    struct groups groups = divide(a, b, needed);
    ig_value x = as_matrices(e, a, &groups, left), y = as_matrices(e, b, &groups, right);
    bool product = groups.count[SUMMED] == 0;
    x = product ? ig_mul(e->n->g, x, y) : ig_build_matmul(e->n->g, x, y, ig_onnx_type(e->n, x));
    ig_dim dims[INGOT_MAX_RANK];
    a->rank = 0;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < groups.count[result[i]]; j++) {
            if (a->rank == INGOT_MAX_RANK) ig_onnx_refuse(e->n, "an intermediate rank is over %d", INGOT_MAX_RANK);
            a->labels[a->rank] = groups.labels[result[i]][j];
            dims[a->rank] = e->dims[a->labels[a->rank]];
            a->rank++;
        }
    }
    a->value = ig_build_reshape(e->n->g, x, dims, a->rank);
}

/* ---- Entry point ---- */

static void mark_needed(const struct einsum *e, int from, bool *out_needed) {
    memset(out_needed, 0, LABELS * sizeof *out_needed);
    for (int i = 0; i < e->result.rank; i++)
        out_needed[e->result.labels[i]] = true;
    for (int i = from; i < e->n_terms; i++) {
        for (int j = 0; j < e->terms[i].rank; j++)
            out_needed[e->terms[i].labels[j]] = true;
    }
}

static ig_value order_result(struct einsum *e, struct term *term) {
    int order[INGOT_MAX_RANK];
    for (int i = 0; i < e->result.rank; i++) {
        order[i] = find_label(term, e->result.labels[i]);
        for (int j = 0; j < i; j++) {
            if (order[j] == order[i]) ig_onnx_bad(e->n, "the result repeats a label");
        }
        if (order[i] < 0) ig_onnx_bad(e->n, "the result has a label that no operand has");
    }
    IG_ASSERT(e->n->job, term->rank == e->result.rank);
    permute(e->n, term, order);
    return term->value;
}

ig_value ig_import_einsum(struct ig_onnx_node *n) {
    struct einsum *e = IG_NEW(n->job, struct einsum);
    bool needed[LABELS];
    e->n = n;
    parse(e, without_spaces(n));
    for (int i = 0; i < e->n_terms; i++) {
        ig_onnx_check_same_type(n, n->in[0], n->in[i]);
        take_diagonals(n, &e->terms[i]);
        note_dims(e, &e->terms[i]);
    }
    for (int i = 0; i < e->n_terms; i++)
        drop_ones(e, &e->terms[i]);
    for (int i = 1; i < e->n_terms; i++) {
        mark_needed(e, i + 1, needed);
        join(e, &e->terms[0], &e->terms[i], needed);
    }
    mark_needed(e, e->n_terms, needed);
    sum_out(e, &e->terms[0], NULL, needed);
    return order_result(e, &e->terms[0]);
}
