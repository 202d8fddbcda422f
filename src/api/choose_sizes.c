/*
 * ingot_choose_sizes: the sizes that batches are rounded up to.
 *
 * The sorted sizes are divided into groups of neighbours, each rounded up to its largest member; some best choice is of
 * this form, since lowering a size to the largest one below it pads less. The cost of a group is the rows that it adds,
 * and the best division into k groups follows from those into k - 1 (W. D. Fisher, "On Grouping for Maximum
 * Homogeneity", 1958). As the cost satisfies the quadrangle inequality, the last group begins no earlier when further
 * sizes are added at the end, so that each step of the programme divides and conquers (X. Wu, "Optimal Quantization by
 * Matrix Searching", 1991): O(most * n * log n) in all.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

struct observation {
    int64_t size;
    uint64_t count;
};

struct programme {
    struct observation *sorted; /* of distinct sizes */
    uint64_t *counts, *rows;    /* sums over the first i of them */
    size_t n, most;
    uint64_t *before, *cost; /* by i: of the best division of the first i into k - 1 groups, and into k */
    uint32_t *first;         /* by k - 1 and i: where the last of these k groups begins */
};

/* The rows added if the sizes from i to before j are rounded up to the last of them. */
static uint64_t cost_of(const struct programme *p, size_t i, size_t j) {
    return (uint64_t)p->sorted[j - 1].size * (p->counts[j] - p->counts[i]) - (p->rows[j] - p->rows[i]);
}

/* Finds the best k groups of the first `low` to `high` sizes. Their last group begins between `from` and `to`. */
static void divide(struct programme *p, size_t k, size_t low, size_t high, size_t from, size_t to) {
    size_t middle = low + (high - low) / 2, best = from;
    uint64_t least = UINT64_MAX;
    for (size_t i = from; i <= to && i < middle; i++) {
        uint64_t cost = p->before[i] + cost_of(p, i, middle);
        if (cost < least) {
            least = cost;
            best = i;
        }
    }
    p->cost[middle] = least;
    p->first[(k - 1) * (p->n + 1) + middle] = (uint32_t)best;
    if (low < middle) divide(p, k, low, middle - 1, from, best);
    if (middle < high) divide(p, k, middle + 1, high, best, to);
}

/* With `most` groups at most as many as there are sizes, each can have a member. */
static void solve(struct programme *p) {
    for (size_t j = 1; j <= p->n; j++)
        p->cost[j] = cost_of(p, 0, j);
    for (size_t k = 2; k <= p->most; k++) {
        uint64_t *swap = p->before;
        p->before = p->cost;
        p->cost = swap;
        divide(p, k, k, p->n, k - 1, p->n - 1);
    }
}

static void read_sizes(const struct programme *p, int64_t *out_sizes) {
    size_t end = p->n;
    for (size_t k = p->most; k > 0; k--) {
        out_sizes[k - 1] = p->sorted[end - 1].size;
        end = p->first[(k - 1) * (p->n + 1) + end];
    }
}

/* ---- Reading what was observed ----------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
    const struct observation *x = a, *y = b;
    return (x->size > y->size) - (x->size < y->size);
}

/* Sorts, joins equal sizes and sums. Every cost is at most the rows that all would have if they had the largest size. */
static enum ingot_status read(struct programme *p, const int64_t *observed, const uint64_t *counts, size_t n,
                              struct ingot_error *error) {
    size_t kept = 0;
    uint64_t total = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        if (observed[i] < 0)
            return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_choose_sizes: size %zu is %lld", i,
                          (long long)observed[i]);
        if (counts[i]) p->sorted[kept++] = (struct observation){observed[i], counts[i]};
    }
    if (kept == 0) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_choose_sizes: no size was observed");
    qsort(p->sorted, kept, sizeof *p->sorted, by_size);
    for (size_t i = 0; i < kept; i++) {
        if (__builtin_add_overflow(total, p->sorted[i].count, &total) ||
            __builtin_mul_overflow(total, (uint64_t)p->sorted[i].size, &most) || most > INT64_MAX)
            return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_choose_sizes: the observed rows are over 2^63");
    }
    for (size_t i = 0; i < kept; i++) {
        if (p->n > 0 && p->sorted[p->n - 1].size == p->sorted[i].size)
            p->sorted[p->n - 1].count += p->sorted[i].count;
        else
            p->sorted[p->n++] = p->sorted[i];
    }
    for (size_t i = 0; i < p->n; i++) {
        p->counts[i + 1] = p->counts[i] + p->sorted[i].count;
        p->rows[i + 1] = p->rows[i] + p->sorted[i].count * (uint64_t)p->sorted[i].size;
    }
    return INGOT_OK;
}

/* ---- The function ------------------------------------------------------------------------------------------------ */

static enum ingot_status no_memory(size_t n, struct ingot_error *error) {
    return IG_ERR(error, INGOT_OUT_OF_MEMORY, "ingot_choose_sizes: out of memory for %zu observed sizes", n);
}

/* Sums and costs have a value for each number of sizes from 0 to n. */
static enum ingot_status choose(struct programme *p, const int64_t *observed, const uint64_t *counts, size_t n,
                                int64_t *out_sizes, struct ingot_error *error) {
    size_t bytes;
    IG_TRY(read(p, observed, counts, n, error));
    if (p->most > p->n) p->most = p->n;
    if (!ig_size_mul(p->most, p->n + 1, &bytes) || !ig_size_mul(bytes, sizeof *p->first, &bytes))
        return no_memory(n, error);
    p->first = ig_allocate(&ig_libc_allocator, bytes, _Alignof(uint32_t));
    if (!p->first) return no_memory(n, error);
    solve(p);
    read_sizes(p, out_sizes);
    ig_release(&ig_libc_allocator, p->first, bytes);
    return INGOT_OK;
}

enum ingot_status ingot_choose_sizes(const int64_t *observed, const uint64_t *counts, size_t n, size_t most,
                                     int64_t *out_sizes, size_t *out_n_sizes, struct ingot_error *error) {
    if (!observed || !counts || !out_sizes || !out_n_sizes)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_choose_sizes: an argument is NULL");
    if (most == 0) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_choose_sizes: at most 0 sizes are wanted");
    if (n >= UINT32_MAX / 64) return no_memory(n, error);
    struct programme p = {.most = most};
    size_t bytes = (n + 1) * (sizeof *p.sorted + 4 * sizeof *p.cost);
    p.sorted = ig_allocate(&ig_libc_allocator, bytes, _Alignof(struct observation));
    if (!p.sorted) return no_memory(n, error);
    p.counts = (uint64_t *)(p.sorted + n + 1);
    p.rows = p.counts + n + 1;
    p.before = p.rows + n + 1;
    p.cost = p.before + n + 1;
    enum ingot_status status = choose(&p, observed, counts, n, out_sizes, error);
    if (status == INGOT_OK) *out_n_sizes = p.most;
    ig_release(&ig_libc_allocator, p.sorted, bytes);
    return status;
}
