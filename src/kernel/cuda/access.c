/* See access.h. */
#include "kernel/cuda/access.h"

#include <stdlib.h>

enum { WARP = 32, MOST_THREADS = 128, MOST_WIDTH = 16, SECTOR = 32, LINE = 128 };

void ig_evaluation_init(struct ig_evaluation *e, const struct ig_loops *k, const struct ig_sizes *at) {
    *e = (struct ig_evaluation){.k = k, .at = at};
    e->var = IG_NEW_ARRAY(k->job, int64_t, k->vars.count + 1);
    e->value = IG_NEW_ARRAY(k->job, int64_t, k->x.count + 1);
    e->when = IG_NEW_ARRAY(k->job, uint32_t, k->x.count + 1);
    e->dim = IG_NEW_ARRAY(k->job, int64_t, k->dim_params.count + 1);
    for (uint32_t i = 0; i < k->dim_params.count; i++)
        e->dim[i] = ig_sizes_guess(at, k->dim_params.at[i]);
}

static int64_t floor_div(int64_t a, int64_t b) {
    if (b <= 0) return 0;
    int64_t q = a / b;
    return a % b < 0 ? q - 1 : q;
}

static int64_t map(enum ig_op op, int64_t a, int64_t b) {
    switch (op) {
    case IG_OP_add: return (int64_t)((uint64_t)a + (uint64_t)b);
    case IG_OP_sub: return (int64_t)((uint64_t)a - (uint64_t)b);
    case IG_OP_mul: return (int64_t)((uint64_t)a * (uint64_t)b);
    case IG_OP_div: return floor_div(a, b);
    case IG_OP_mod: return b <= 0 ? 0 : a - floor_div(a, b) * b;
    case IG_OP_min: return a < b ? a : b;
    case IG_OP_max: return a > b ? a : b;
    case IG_OP_neg: return (int64_t)(0 - (uint64_t)a);
    case IG_OP_eq: return a == b;
    case IG_OP_lt: return a < b;
    case IG_OP_le: return a <= b;
    case IG_OP_and: return a && b;
    case IG_OP_or: return a || b;
    case IG_OP_not: return !a;
    default: return 0;
    }
}

static int64_t evaluate(struct ig_evaluation *e, ig_x x) {
    const struct ig_x_node *n = ig_x_look(e->k, x);
    switch (n->kind) {
    case IG_X_INT: return n->i;
    case IG_X_DIM: return e->dim[n->i];
    case IG_X_VAR: return e->var[n->i];
    case IG_X_SELECT: return ig_evaluate(e, n->args[ig_evaluate(e, n->args[0]) ? 1 : 2]);
    case IG_X_CAST: return ig_dtype_is_float(n->dtype) ? 0 : ig_evaluate(e, n->args[0]);
    case IG_X_LOAD: return ig_dtype_is_float(n->dtype) ? 0 : ig_evaluate(e, n->args[0]);
    case IG_X_MAP: {
        if (ig_dtype_is_float(n->dtype)) return 0;
        int64_t b = n->args[1] == IG_NO_X ? 0 : ig_evaluate(e, n->args[1]);
        return map(n->op, ig_evaluate(e, n->args[0]), b);
    }
    default: return 0;
    }
}

int64_t ig_evaluate(struct ig_evaluation *e, ig_x x) {
    if (e->when[x] == e->now && e->now) return e->value[x];
    int64_t value = evaluate(e, x);
    e->when[x] = e->now;
    return e->value[x] = value;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The number of different values of the array, divided by `unit`; sorts it. */
static int different(int64_t *at, int count, int unit) {
    int found = 0;
    qsort(at, (size_t)count, sizeof *at, compare);
    for (int i = 0; i < count; i++)
        found += i == 0 || floor_div(at[i], unit) != floor_div(at[i - 1], unit);
    return found;
}

/* Sets the variables of thread i. */
static void place(struct ig_evaluation *e, const struct ig_spread *s, int64_t i) {
    if (s->team >= 0) {
        e->var[s->team] = i / s->lanes;
        i %= s->lanes;
    }
    if (s->thread >= 0) e->var[s->thread] = s->thread_lo + i * s->thread_step;
}

/* The bytes' addresses that a thread touches: the first and the last of what lies side by side. */
static int addresses(struct ig_evaluation *e, ig_x index, int bytes, const struct ig_spread *s, int64_t *out) {
    int width = s->vector < 0 ? 1 : s->width > MOST_WIDTH ? MOST_WIDTH : s->width;
    int64_t first = 0;
    bool together = true;
    for (int i = 0; i < width; i++) {
        if (s->vector >= 0) e->var[s->vector] = i;
        e->now++;
        out[i] = ig_evaluate(e, index) * bytes;
        first = i == 0 ? out[0] : first;
        together = together && out[i] == first + (int64_t)i * bytes;
    }
    if (s->vector >= 0) e->var[s->vector] = 0;
    if (!together || width == 1) return width;
    out[1] = first + (int64_t)width * bytes - 1;
    return -2;
}

struct ig_touch ig_access_touch(struct ig_evaluation *e, ig_x index, int bytes, const struct ig_spread *s) {
    int64_t all[MOST_THREADS * MOST_WIDTH], own[WARP * MOST_WIDTH], one[MOST_WIDTH] = {0};
    int64_t threads = s->team >= 0 ? MOST_THREADS : s->thread >= 0 ? s->threads : 1;
    int count = (int)(threads < MOST_THREADS ? threads : MOST_THREADS), warps = (count + WARP - 1) / WARP;
    int n_all = 0, lines = 0, pieces = 1;
    for (int w = 0; w < warps; w++) {
        int n_own = 0;
        for (int i = w * WARP; i < count && i < (w + 1) * WARP; i++) {
            place(e, s, i);
            int n = addresses(e, index, bytes, s, one);
            pieces = n < 0 ? pieces : n;
            n = n < 0 ? -n : n;
            for (int k = 0; k < n; k++)
                own[n_own++] = all[n_all++] = one[k];
        }
        lines += different(own, n_own, LINE);
    }
    place(e, s, 0);
    struct ig_touch touch = {.accesses = pieces, .lines = (double)lines / warps};
    touch.sectors = (double)different(all, n_all, SECTOR) / warps;
    return touch;
}
