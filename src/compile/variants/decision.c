/* Fits decision trees; see decision.h. */
#include "compile/variants/decision.h"

#include <math.h>
#include <string.h>

#include "base/text.h"

/* A leaf's kernel may be this far from the best one. */
#define TOLERANCE 0.003
enum { DEEPEST = 16 };

struct tree {
    const struct ig_decision_problem *p;
    double **losses;               /* by kernel, then by point: how far it is from the best, relative to that */
    double *sums;                  /* by kernel */
    double *least_to, *least_from; /* by place in a part: the least loss up to it, and from it on */
    struct ig_decision *out;
};

/* Some of the points, and the tree for them. */
struct part {
    struct tree *tree;
    uint32_t *points, count; /* in any order */
    int depth;
    struct ig_decision_range range;
};

/* Divides a part by size number `which`, below the threshold or not. */
struct division {
    int which;
    int64_t threshold;
};

static int64_t value_at(const struct part *part, uint32_t k, int which) {
    return part->tree->p->values[IG_MODEL_SIZES * part->points[k] + (uint32_t)which];
}

/* The kernel that loses least over the part, and the most that it loses anywhere. */
static uint32_t best_kernel(const struct part *part, double *out_worst) {
    uint32_t best = 0;
    double least = INFINITY;
    for (uint32_t i = 0; i < part->tree->p->n_kernels; i++) {
        double sum = 0, worst = 0;
        for (uint32_t k = 0; k < part->count; k++) {
            double loss = part->tree->losses[i][part->points[k]];
            sum += loss;
            worst = fmax(worst, loss);
        }
        if (sum >= least) continue;
        best = i;
        least = sum;
        *out_worst = worst;
    }
    return best;
}

static void sort(const struct part *part, int which) {
    for (uint32_t i = 1; i < part->count; i++) {
        uint32_t point = part->points[i], at = i;
        int64_t value = value_at(part, i, which);
        for (; at > 0 && value_at(part, at - 1, which) > value; at--)
            part->points[at] = part->points[at - 1];
        part->points[at] = point;
    }
}

/* What the best kernel of each beginning of the part (`step` 1), or of each end (-1), loses there. */
static void sum_up(const struct part *part, uint32_t first, int step, double *least) {
    struct tree *t = part->tree;
    for (uint32_t i = 0; i < t->p->n_kernels; i++)
        t->sums[i] = 0;
    for (uint32_t n = 0, k = first; n < part->count; n++, k += (uint32_t)step) {
        least[k] = INFINITY;
        for (uint32_t i = 0; i < t->p->n_kernels; i++) {
            t->sums[i] += t->losses[i][part->points[k]];
            least[k] = fmin(least[k], t->sums[i]);
        }
    }
}

/* The division after which the two sides lose least; false if no size divides the points. */
static bool best_division(const struct part *part, struct division *out) {
    const struct tree *t = part->tree;
    double least = INFINITY;
    for (int which = 0; which < IG_MODEL_SIZES; which++) {
        sort(part, which);
        sum_up(part, 0, 1, t->least_to);
        sum_up(part, part->count - 1, -1, t->least_from);
        for (uint32_t k = 0; k + 1 < part->count; k++) {
            int64_t below = value_at(part, k, which), above = value_at(part, k + 1, which);
            double loss = t->least_to[k] + t->least_from[k + 1];
            if (below == above || loss >= least) continue;
            least = loss;
            *out = (struct division){which, below + (above - below + 1) / 2};
        }
    }
    return least < INFINITY;
}

static struct part take_side(const struct part *part, const struct division *by, bool above) {
    struct part side = *part;
    side.points = IG_NEW_ARRAY(part->tree->p->job, uint32_t, part->count);
    side.count = 0;
    side.depth++;
    (above ? side.range.lo : side.range.hi)[by->which] = by->threshold;
    for (uint32_t k = 0; k < part->count; k++) {
        if ((value_at(part, k, by->which) >= by->threshold) == above) side.points[side.count++] = part->points[k];
    }
    return side;
}

/* Do two ranges of one kernel, the second of which comes later in the tree, make up one range? Sets *out_which to the
 * size in which they meet. */
static bool is_continued(const struct ig_decision_range *a, const struct ig_decision_range *b, int *out_which) {
    int differences = 0;
    for (int i = 0; i < IG_MODEL_SIZES; i++) {
        if (a->lo[i] == b->lo[i] && a->hi[i] == b->hi[i]) continue;
        if (a->hi[i] == 0 || a->hi[i] != b->lo[i]) return false;
        differences++;
        *out_which = i;
    }
    return a->kernel == b->kernel && differences == 1;
}

static void add_range(struct tree *t, const struct ig_decision_range *range) {
    uint32_t count = t->out->ranges.count;
    int which = 0;
    if (count > 0 && is_continued(&t->out->ranges.at[count - 1], range, &which))
        t->out->ranges.at[count - 1].hi[which] = range->hi[which];
    else
        IG_PUSH(t->p->job, &t->out->ranges, *range);
}

const char *ig_decision_where(struct ig_job *job, const struct ig_dims *dims, const ig_dim *sizes,
                              const struct ig_decision_range *range) {
    struct ig_text text;
    ig_text_init(&text, job);
    ig_text_add(&text, "");
    for (int i = 0; i < IG_MODEL_SIZES; i++) {
        if (!range->lo[i] && !range->hi[i]) continue;
        if (text.length) ig_text_add(&text, " and ");
        if (range->lo[i]) ig_text_printf(&text, "%lld <= ", (long long)range->lo[i]);
        ig_dim_print(dims, sizes[i], &text);
        if (range->hi[i]) ig_text_printf(&text, " < %lld", (long long)range->hi[i]);
    }
    return text.at;
}

/* 1 if the size is at least the threshold, else 0: min(max(size - threshold + 1, 0), 1). */
static ig_dim is_at_least(struct ig_dims *dims, ig_dim size, int64_t threshold) {
    ig_dim over = ig_dim_sub(dims, size, ig_dim_const(dims, threshold - 1));
    return ig_dim_min(dims, ig_dim_max(dims, over, ig_dim_const(dims, 0)), ig_dim_const(dims, 1));
}

/* `yes` if `is` is 1, `no` if it is 0; both are at least 0 and below `limit`. Minima, and no products: sums of products
 * are multiplied out, and a deep tree would have thousands of terms. */
static ig_dim choose(struct ig_dims *dims, ig_dim is, ig_dim yes, ig_dim no, int64_t limit) {
    ig_dim most = ig_dim_const(dims, limit), not = ig_dim_sub(dims, ig_dim_const(dims, 1), is);
    ig_dim a = ig_dim_min(dims, yes, ig_dim_mul(dims, most, is)),
           b = ig_dim_min(dims, no, ig_dim_mul(dims, most, not ));
    return yes == no ? yes : ig_dim_add(dims, a, b);
}

/* A leaf of the tree. */
static ig_dim conclude(const struct part *part, uint32_t kernel) {
    struct ig_decision_range range = part->range;
    range.kernel = kernel;
    add_range(part->tree, &range);
    return ig_dim_const(part->tree->p->dims, kernel);
}

static ig_dim decide(const struct part *part) {
    struct ig_dims *dims = part->tree->p->dims;
    struct division by;
    double worst = 0;
    uint32_t best = best_kernel(part, &worst);
    if (worst <= TOLERANCE || part->depth == DEEPEST || !best_division(part, &by)) return conclude(part, best);
    struct part below = take_side(part, &by, false), above = take_side(part, &by, true);
    ig_dim low = decide(&below), high = decide(&above);
    return choose(dims, is_at_least(dims, part->tree->p->sizes[by.which], by.threshold), high, low,
                  part->tree->p->n_kernels);
}

static void find_losses(struct tree *t) {
    const struct ig_decision_problem *p = t->p;
    t->losses = IG_NEW_ARRAY(p->job, double *, p->n_kernels);
    for (uint32_t i = 0; i < p->n_kernels; i++)
        t->losses[i] = IG_NEW_ARRAY(p->job, double, p->n_points);
    for (uint32_t k = 0; k < p->n_points; k++) {
        double best = INFINITY;
        for (uint32_t i = 0; i < p->n_kernels; i++)
            best = fmin(best, p->costs[i][k]);
        for (uint32_t i = 0; i < p->n_kernels; i++)
            t->losses[i][k] = p->costs[i][k] / best - 1;
    }
}

void ig_decide(const struct ig_decision_problem *p, struct ig_decision *out) {
    struct tree tree = {.p = p, .out = out};
    struct part all = {.tree = &tree, .points = IG_NEW_ARRAY(p->job, uint32_t, p->n_points), .count = p->n_points};
    *out = (struct ig_decision){0};
    memcpy(out->sizes, p->sizes, sizeof out->sizes);
    tree.sums = IG_NEW_ARRAY(p->job, double, p->n_kernels);
    tree.least_to = IG_NEW_ARRAY(p->job, double, p->n_points);
    tree.least_from = IG_NEW_ARRAY(p->job, double, p->n_points);
    find_losses(&tree);
    for (uint32_t k = 0; k < p->n_points; k++)
        all.points[k] = k;
    out->kernel = decide(&all);
}
