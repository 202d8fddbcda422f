/*
 * Finds the index arithmetic that fits in 32 bits: interval arithmetic over all expressions, from the bounds of loops
 * and dims. A sum that overflows gets the unbounded interval.
 */
#include "codegen/printer.h"

#include <string.h>

struct interval {
    int64_t lo, hi;
};

static const struct interval anything = {INT64_MIN, INT64_MAX};
/* The largest value of an int loop variable: a further step still fits. */
enum { LARGEST_VAR = INT32_MAX - (1 << 24) };

struct ranges {
    struct ig_code_printer *p;
    struct interval *of; /* by expression */
    bool *known;
    const struct ig_stmt **loop_of; /* by variable; NULL: none seen */
};

static struct interval range_of(struct ranges *r, ig_x x);

static bool is_anything(struct interval a) {
    return a.lo == INT64_MIN || a.hi == INT64_MAX;
}

static struct interval of_dim(struct ranges *r, ig_dim d) {
    struct interval i;
    ig_dim_range(r->p->k->dims, d, &i.lo, &i.hi);
    return i;
}

static struct interval of_var(struct ranges *r, int64_t var) {
    const struct ig_loop_var *v = &r->p->k->vars.at[var];
    const struct ig_stmt *s = r->loop_of[var];
    struct interval i = anything;
    if (s && s->for_kind == IG_FOR_TILE) {
        i = (struct interval){0, range_of(r, s->hi).hi};
        return (struct interval){0, i.hi > IG_CODE_MAX_TILES ? IG_CODE_MAX_TILES : i.hi - 1};
    }
    if (s) i = (struct interval){range_of(r, s->lo).lo, range_of(r, s->hi).hi};
    if (v->lo != IG_DIM_NONE && of_dim(r, v->lo).lo > i.lo) i.lo = of_dim(r, v->lo).lo;
    if (v->hi != IG_DIM_NONE && of_dim(r, v->hi).hi < i.hi) i.hi = of_dim(r, v->hi).hi;
    if (i.hi != INT64_MAX && i.hi > i.lo) i.hi--;
    return i;
}

static struct interval sum(struct interval a, struct interval b) {
    struct interval s;
    if (is_anything(a) || is_anything(b)) return anything;
    if (__builtin_add_overflow(a.lo, b.lo, &s.lo) || __builtin_add_overflow(a.hi, b.hi, &s.hi)) return anything;
    return s;
}

static struct interval product(struct interval a, struct interval b) {
    int64_t corner[4];
    if (is_anything(a) || is_anything(b)) return anything;
    if (__builtin_mul_overflow(a.lo, b.lo, &corner[0]) || __builtin_mul_overflow(a.lo, b.hi, &corner[1]) ||
        __builtin_mul_overflow(a.hi, b.lo, &corner[2]) || __builtin_mul_overflow(a.hi, b.hi, &corner[3]))
        return anything;
    struct interval s = {corner[0], corner[0]};
    for (int i = 1; i < 4; i++) {
        if (corner[i] < s.lo) s.lo = corner[i];
        if (corner[i] > s.hi) s.hi = corner[i];
    }
    return s;
}

/* Index divisions have non-negative dividends and divisors of at least 1. */
static struct interval quotient(struct interval a, struct interval b) {
    if (a.lo < 0) return anything;
    int64_t by = b.lo > 1 && b.lo != INT64_MIN ? b.lo : 1;
    return (struct interval){0, a.hi == INT64_MAX ? INT64_MAX : a.hi / by};
}

static struct interval remainder_of(struct interval a, struct interval b) {
    if (a.lo < 0) return anything;
    int64_t hi = b.hi > 0 ? b.hi - (b.hi != INT64_MAX) : 0;
    return (struct interval){0, a.hi < hi ? a.hi : hi};
}

static struct interval of_map(struct ranges *r, const struct ig_x_node *n) {
    struct interval a = range_of(r, n->args[0]), b = n->args[1] == IG_NO_X ? anything : range_of(r, n->args[1]);
    switch (n->op) {
    case IG_OP_add: return sum(a, b);
    case IG_OP_sub: {
        struct interval negative = {b.hi == INT64_MAX ? INT64_MIN : -b.hi, b.lo == INT64_MIN ? INT64_MAX : -b.lo};
        return sum(a, negative);
    }
    case IG_OP_mul: return product(a, b);
    case IG_OP_div: return quotient(a, b);
    case IG_OP_mod: return remainder_of(a, b);
    case IG_OP_min: return (struct interval){a.lo < b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
    case IG_OP_max: return (struct interval){a.lo > b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
    default: return anything;
    }
}

static struct interval of_cast(const struct ig_code_printer *p, const struct ig_x_node *n) {
    switch (p->k->x.at[n->args[0]].dtype) {
    case INGOT_BOOL: return (struct interval){0, 1};
    case INGOT_I8:
    case INGOT_U8:
    case INGOT_I16:
    case INGOT_U16: return (struct interval){INT16_MIN, UINT16_MAX};
    case INGOT_I32: return (struct interval){-INT32_MAX, INT32_MAX};
    default: return anything;
    }
}

static struct interval compute(struct ranges *r, ig_x x) {
    const struct ig_x_node *n = &r->p->k->x.at[x];
    if (n->dtype != INGOT_I64 || n->wraps) return anything;
    switch (n->kind) {
    case IG_X_INT: return (struct interval){n->i, n->i};
    case IG_X_DIM: return of_dim(r, r->p->k->dim_params.at[n->i]);
    case IG_X_VAR: return of_var(r, n->i);
    case IG_X_BEGIN:
    case IG_X_END: return (struct interval){0, IG_CODE_MAX_TILES};
    case IG_X_MAP: return of_map(r, n);
    case IG_X_CAST: return of_cast(r->p, n);
    case IG_X_SELECT: {
        struct interval a = range_of(r, n->args[1]), b = range_of(r, n->args[2]);
        return (struct interval){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
    }
    default: return anything;
    }
}

static struct interval range_of(struct ranges *r, ig_x x) {
    if (!r->known[x]) {
        r->of[x] = compute(r, x);
        r->known[x] = true;
    }
    return r->of[x];
}

static void find_loops(struct ranges *r, const struct ig_stmt *s) {
    if (s->kind == IG_S_FOR) r->loop_of[s->var] = s;
    for (uint32_t i = 0; i < s->body.count; i++)
        find_loops(r, s->body.at[i]);
}

static bool fits(struct interval i, int64_t largest) {
    return i.lo >= -INT32_MAX && i.hi <= largest;
}

/* A loop variable is an int if its bounds are. */
static bool fits_bounds(struct ranges *r, int64_t var) {
    const struct ig_stmt *s = r->loop_of[var];
    if (!s) return false;
    return s->for_kind == IG_FOR_TILE || (fits(range_of(r, s->lo), INT32_MAX) && fits(range_of(r, s->hi), INT32_MAX));
}

void ig_code_find_narrow(struct ig_code_printer *p) {
    struct ranges r = {.p = p,
                       .of = IG_NEW_ARRAY(p->job, struct interval, p->k->x.count + 1),
                       .known = IG_NEW_ARRAY(p->job, bool, p->k->x.count + 1),
                       .loop_of = IG_NEW_ARRAY(p->job, const struct ig_stmt *, p->k->vars.count + 1)};
    find_loops(&r, p->k->top);
    for (ig_x x = 0; x < p->k->x.count; x++) {
        const struct ig_x_node *n = &p->k->x.at[x];
        bool is_var = n->kind == IG_X_VAR;
        p->narrow[x] = n->dtype == INGOT_I64 && fits(range_of(&r, x), is_var ? LARGEST_VAR : INT32_MAX);
        if (is_var && !fits_bounds(&r, n->i)) p->narrow[x] = false;
    }
}
