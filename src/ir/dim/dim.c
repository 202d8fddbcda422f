/*
 * Symbolic integers: the pool, its canonical form, sums and products. Division is in dim_div.c, ranges and comparison
 * in dim_range.c, text in dim_text.c, walking and substitution in dim_walk.c.
 */
#include "ir/dim/dim_pool.h"

#include <string.h>

/* ---- Checked arithmetic */

static _Noreturn void raise_overflow(struct ig_job *job) {
    ig_raise(job, INGOT_BAD_MODEL, "a dimension does not fit into 64 bits");
}

int64_t ig_checked_add(struct ig_job *job, int64_t a, int64_t b) {
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) raise_overflow(job);
    return sum;
}

int64_t ig_checked_mul(struct ig_job *job, int64_t a, int64_t b) {
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product)) raise_overflow(job);
    return product;
}

int64_t ig_floor_div(int64_t a, int64_t b) {
    int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a % b < 0) != (b < 0));
}

int64_t ig_gcd(int64_t a, int64_t b) {
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a;
    uint64_t y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y != 0) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x > INT64_MAX ? 1 : (int64_t)x; /* 2^63 does not fit; 1 is a divisor, too */
}

/* ---- Order */

static int atom_compare(const struct ig_dims *dims, uint32_t a, uint32_t b) {
    if (a == b) return 0;
    const struct ig_dim_atom *x = &dims->atoms.at[a], *y = &dims->atoms.at[b];
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->kind == IG_DIM_SYMBOL) return strcmp(x->name, y->name);
    int order = ig_sum_compare(dims, x->a, y->a);
    return order != 0 ? order : ig_sum_compare(dims, x->b, y->b);
}

int ig_mono_compare(const struct ig_dims *dims, uint64_t a, uint64_t b) {
    if (a == b) return 0;
    const struct ig_dim_mono *x = &dims->monos.at[a], *y = &dims->monos.at[b];
    if (x->degree != y->degree) return x->degree > y->degree ? -1 : 1;
    for (uint32_t i = 0; i < x->degree; i++) {
        int order = atom_compare(dims, x->atoms[i], y->atoms[i]);
        if (order != 0) return order;
    }
    return 0;
}

int ig_sum_compare(const struct ig_dims *dims, ig_dim a, ig_dim b) {
    if (a == b) return 0;
    const struct ig_dim_sum *x = ig_sum(dims, a), *y = ig_sum(dims, b);
    for (uint32_t i = 0; i < x->count && i < y->count; i++) {
        int order = ig_mono_compare(dims, x->terms[i].mono, y->terms[i].mono);
        if (order != 0) return order;
        if (x->terms[i].coef != y->terms[i].coef) return x->terms[i].coef < y->terms[i].coef ? -1 : 1;
    }
    return x->count > y->count ? -1 : 1;
}

/* ---- Monomials */

uint32_t ig_mono_of(struct ig_dims *dims, const uint32_t *sorted_atoms, uint32_t degree) {
    uint32_t found;
    size_t bytes = degree * sizeof *sorted_atoms;
    if (degree == 0) return IG_MONO_ONE;
    if (ig_map_get(&dims->mono_index, sorted_atoms, bytes, &found)) return found;
    struct ig_dim_mono mono = {ig_memdup(dims->job, sorted_atoms, bytes), degree};
    found = dims->monos.count;
    IG_PUSH(dims->job, &dims->monos, mono);
    ig_map_put(&dims->mono_index, sorted_atoms, bytes, found);
    return found;
}

uint32_t ig_mono_mul(struct ig_dims *dims, uint64_t a, uint64_t b) {
    const struct ig_dim_mono *x = &dims->monos.at[a], *y = &dims->monos.at[b];
    uint32_t atoms[IG_DIM_MAX_DEGREE];
    uint32_t i = 0, j = 0, n = 0;
    if (x->degree + y->degree > IG_DIM_MAX_DEGREE)
        ig_raise(dims->job, INGOT_UNSUPPORTED, "a dimension is a product of more than %d factors", IG_DIM_MAX_DEGREE);
    while (i < x->degree || j < y->degree) {
        bool left = j == y->degree || (i < x->degree && atom_compare(dims, x->atoms[i], y->atoms[j]) <= 0);
        atoms[n++] = left ? x->atoms[i++] : y->atoms[j++];
    }
    return ig_mono_of(dims, atoms, n);
}

/* Splits b by a: the atoms of b that a has too (common), and the others (rest). */
static void mono_split(struct ig_dims *dims, uint64_t b, uint64_t a, uint32_t *out_common, uint32_t *out_rest) {
    const struct ig_dim_mono *x = &dims->monos.at[a], *y = &dims->monos.at[b];
    uint32_t common[IG_DIM_MAX_DEGREE], rest[IG_DIM_MAX_DEGREE];
    uint32_t n_common = 0, n_rest = 0;
    for (uint32_t i = 0, j = 0; j < y->degree; j++) {
        while (i < x->degree && atom_compare(dims, x->atoms[i], y->atoms[j]) < 0)
            i++;
        if (i < x->degree && x->atoms[i] == y->atoms[j]) {
            common[n_common++] = y->atoms[j];
            i++;
        } else {
            rest[n_rest++] = y->atoms[j];
        }
    }
    *out_common = ig_mono_of(dims, common, n_common);
    *out_rest = ig_mono_of(dims, rest, n_rest);
}

bool ig_mono_div(struct ig_dims *dims, uint64_t b, uint64_t a, uint32_t *out_quotient) {
    uint32_t common;
    mono_split(dims, b, a, &common, out_quotient);
    return common == a;
}

uint32_t ig_mono_gcd(struct ig_dims *dims, uint64_t a, uint64_t b) {
    uint32_t common, rest;
    mono_split(dims, b, a, &common, &rest);
    return common;
}

/* ---- Sums */

void ig_draft_init(struct ig_sum_draft *draft, struct ig_dims *dims) {
    draft->dims = dims;
    draft->count = 0;
}

void ig_draft_add(struct ig_sum_draft *draft, int64_t coef, uint64_t mono) {
    struct ig_dims *dims = draft->dims;
    uint32_t at = 0, end = draft->count;
    int order = 1;
    if (coef == 0) return;
    if (coef == INT64_MIN && mono != IG_MONO_ONE) raise_overflow(dims->job); /* so that negation cannot overflow */
    while (at < end) { /* binary search: canonical order is costlier to compare than to move */
        uint32_t middle = at + (end - at) / 2;
        order = ig_mono_compare(dims, draft->terms[middle].mono, mono);
        if (order == 0) at = middle;
        if (order == 0) break;
        if (order < 0)
            at = middle + 1;
        else
            end = middle;
    }
    if (at < draft->count && draft->terms[at].mono == mono) {
        struct ig_dim_term *term = &draft->terms[at];
        term->coef = ig_checked_add(dims->job, term->coef, coef);
        if (term->coef != 0) return;
        memmove(term, term + 1, (draft->count - at - 1) * sizeof *term);
        draft->count--;
        return;
    }
    if (draft->count == IG_DIM_MAX_TERMS)
        ig_raise(dims->job, INGOT_UNSUPPORTED, "a dimension is a sum of more than %d terms", IG_DIM_MAX_TERMS);
    memmove(&draft->terms[at + 1], &draft->terms[at], (draft->count - at) * sizeof *draft->terms);
    draft->terms[at] = (struct ig_dim_term){coef, mono};
    draft->count++;
}

void ig_draft_add_sum(struct ig_sum_draft *draft, int64_t scale, ig_dim sum) {
    const struct ig_dim_sum *s = ig_sum(draft->dims, sum);
    for (uint32_t i = 0; i < s->count; i++)
        ig_draft_add(draft, ig_checked_mul(draft->dims->job, scale, s->terms[i].coef), s->terms[i].mono);
}

static uint32_t atom_size(const struct ig_dims *dims, uint32_t atom) {
    const struct ig_dim_atom *a = &dims->atoms.at[atom];
    return a->kind == IG_DIM_SYMBOL ? 1 : 1 + ig_sum(dims, a->a)->size + ig_sum(dims, a->b)->size;
}

static uint32_t draft_size(const struct ig_sum_draft *draft) {
    uint32_t size = 1;
    for (uint32_t i = 0; i < draft->count && size <= IG_DIM_MAX_SIZE; i++) {
        const struct ig_dim_mono *mono = &draft->dims->monos.at[draft->terms[i].mono];
        size++;
        for (uint32_t j = 0; j < mono->degree; j++)
            size += atom_size(draft->dims, mono->atoms[j]);
    }
    return size;
}

ig_dim ig_draft_finish(struct ig_sum_draft *draft) {
    struct ig_dims *dims = draft->dims;
    uint32_t found;
    size_t bytes = draft->count * sizeof *draft->terms;
    if (ig_map_get(&dims->sum_index, draft->terms, bytes, &found)) return found;
    struct ig_dim_sum sum = {.count = draft->count, .size = draft_size(draft)};
    if (sum.size > IG_DIM_MAX_SIZE)
        ig_raise(dims->job, INGOT_UNSUPPORTED, "a dimension is an expression of more than %d parts", IG_DIM_MAX_SIZE);
    sum.terms = ig_memdup(dims->job, draft->terms, bytes);
    found = dims->sums.count;
    IG_PUSH(dims->job, &dims->sums, sum);
    ig_map_put(&dims->sum_index, draft->terms, bytes, found);
    return found;
}

const struct ig_dim_sum *ig_sum(const struct ig_dims *dims, ig_dim dim) {
    IG_ASSERT(dims->job, dim != IG_DIM_NONE && dim < dims->sums.count);
    return &dims->sums.at[dim];
}

int64_t ig_sum_constant(const struct ig_dims *dims, ig_dim dim) {
    const struct ig_dim_sum *s = ig_sum(dims, dim);
    return s->count > 0 && s->terms[s->count - 1].mono == IG_MONO_ONE ? s->terms[s->count - 1].coef : 0;
}

const struct ig_dim_atom *ig_sum_atom(const struct ig_dims *dims, ig_dim dim) {
    const struct ig_dim_sum *s = ig_sum(dims, dim);
    if (s->count != 1 || s->terms[0].coef != 1) return NULL;
    const struct ig_dim_mono *mono = &dims->monos.at[s->terms[0].mono];
    return mono->degree == 1 ? &dims->atoms.at[mono->atoms[0]] : NULL;
}

int64_t ig_sum_content(const struct ig_dims *dims, ig_dim dim, bool with_constant) {
    const struct ig_dim_sum *s = ig_sum(dims, dim);
    int64_t content = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        if (with_constant || s->terms[i].mono != IG_MONO_ONE) content = ig_gcd(content, s->terms[i].coef);
    }
    return content;
}

ig_dim ig_sum_scale(struct ig_dims *dims, ig_dim dim, int64_t scale) {
    struct ig_sum_draft draft;
    if (scale == 1) return dim;
    ig_draft_init(&draft, dims);
    if (scale != 0) ig_draft_add_sum(&draft, scale, dim);
    return ig_draft_finish(&draft);
}

ig_dim ig_sum_shrink(struct ig_dims *dims, ig_dim dim, int64_t divisor) {
    struct ig_sum_draft draft;
    const struct ig_dim_sum *s = ig_sum(dims, dim);
    ig_draft_init(&draft, dims);
    for (uint32_t i = 0; i < s->count; i++)
        ig_draft_add(&draft, s->terms[i].coef / divisor, s->terms[i].mono);
    return ig_draft_finish(&draft);
}

ig_dim ig_dim_of_term(struct ig_dims *dims, int64_t coef, uint64_t mono) {
    struct ig_sum_draft draft;
    ig_draft_init(&draft, dims);
    ig_draft_add(&draft, coef, mono);
    return ig_draft_finish(&draft);
}

ig_dim ig_dim_of_atom(struct ig_dims *dims, enum ig_dim_kind kind, ig_dim a, ig_dim b) {
    uint32_t key[3] = {kind, a, b}, atom;
    if (!ig_map_get(&dims->atom_index, key, sizeof key, &atom)) {
        atom = dims->atoms.count;
        IG_PUSH(dims->job, &dims->atoms, (struct ig_dim_atom){.kind = kind, .a = a, .b = b});
        ig_map_put(&dims->atom_index, key, sizeof key, atom);
    }
    return ig_dim_of_term(dims, 1, ig_mono_of(dims, &atom, 1));
}

/* ---- Public functions */

struct ig_dims *ig_dims_create(struct ig_job *job) {
    struct ig_dims *dims = IG_NEW(job, struct ig_dims);
    dims->job = job;
    dims->epoch = 1;
    ig_map_init(&dims->symbol_index, job);
    ig_map_init(&dims->atom_index, job);
    ig_map_init(&dims->mono_index, job);
    ig_map_init(&dims->sum_index, job);
    IG_PUSH(job, &dims->sums, (struct ig_dim_sum){.count = 0});
    IG_PUSH(job, &dims->monos, (struct ig_dim_mono){.degree = 0});
    return dims;
}

ig_dim ig_dim_const(struct ig_dims *dims, int64_t value) {
    return ig_dim_of_term(dims, value, IG_MONO_ONE);
}

ig_dim ig_dim_symbol(struct ig_dims *dims, const char *name) {
    uint32_t atom;
    if (!ig_map_get_name(&dims->symbol_index, name, &atom)) {
        struct ig_dim_atom symbol = {.kind = IG_DIM_SYMBOL, .lo = 0, .hi = INT32_MAX, .usual = -1};
        symbol.name = ig_strdup(dims->job, name);
        atom = dims->atoms.count;
        IG_PUSH(dims->job, &dims->atoms, symbol);
        IG_PUSH(dims->job, &dims->symbols, atom);
        ig_map_put_name(&dims->symbol_index, name, atom);
    }
    return ig_dim_of_term(dims, 1, ig_mono_of(dims, &atom, 1));
}

void ig_dim_set_range(struct ig_dims *dims, ig_dim symbol, int64_t lo, int64_t hi) {
    const struct ig_dim_atom *atom = ig_sum_atom(dims, symbol);
    IG_ASSERT(dims->job, atom != NULL && atom->kind == IG_DIM_SYMBOL);
    if (lo > hi)
        ig_raise(dims->job, INGOT_INVALID_ARGUMENT, "the range %lld to %lld of '%s' is empty", (long long)lo,
                 (long long)hi, atom->name);
    struct ig_dim_atom *changed = &dims->atoms.at[atom - dims->atoms.at];
    changed->lo = lo;
    changed->hi = hi;
    dims->epoch++;
}

void ig_dim_set_usual(struct ig_dims *dims, ig_dim symbol, int64_t value) {
    const struct ig_dim_atom *atom = ig_sum_atom(dims, symbol);
    IG_ASSERT(dims->job, atom != NULL && atom->kind == IG_DIM_SYMBOL && value >= 0);
    dims->atoms.at[atom - dims->atoms.at].usual = value;
}

void ig_dim_fix(struct ig_dims *dims, ig_dim symbol) {
    const struct ig_dim_atom *atom = ig_sum_atom(dims, symbol);
    IG_ASSERT(dims->job, atom != NULL && atom->kind == IG_DIM_SYMBOL);
    dims->atoms.at[atom - dims->atoms.at].fixed = true;
}

bool ig_dim_is_fixed(struct ig_dims *dims, ig_dim symbol) {
    const struct ig_dim_atom *atom = ig_sum_atom(dims, symbol);
    return atom && atom->fixed;
}

bool ig_dim_symbol_at(struct ig_dims *dims, uint32_t index, ig_dim *out_symbol, int64_t *out_lo, int64_t *out_hi) {
    if (index >= dims->symbols.count) return false;
    uint32_t atom = dims->symbols.at[index];
    *out_lo = dims->atoms.at[atom].lo;
    *out_hi = dims->atoms.at[atom].hi;
    *out_symbol = ig_dim_of_term(dims, 1, ig_mono_of(dims, &atom, 1));
    return true;
}

ig_dim ig_dim_add(struct ig_dims *dims, ig_dim a, ig_dim b) {
    struct ig_sum_draft draft;
    ig_draft_init(&draft, dims);
    ig_draft_add_sum(&draft, 1, a);
    ig_draft_add_sum(&draft, 1, b);
    return ig_draft_finish(&draft);
}

ig_dim ig_dim_sub(struct ig_dims *dims, ig_dim a, ig_dim b) {
    struct ig_sum_draft draft;
    ig_draft_init(&draft, dims);
    ig_draft_add_sum(&draft, 1, a);
    ig_draft_add_sum(&draft, -1, b);
    return ig_draft_finish(&draft);
}

ig_dim ig_dim_mul(struct ig_dims *dims, ig_dim a, ig_dim b) {
    struct ig_sum_draft draft;
    const struct ig_dim_sum *x = ig_sum(dims, a), *y = ig_sum(dims, b);
    ig_draft_init(&draft, dims);
    for (uint32_t i = 0; i < x->count; i++) {
        for (uint32_t j = 0; j < y->count; j++) {
            int64_t coef = ig_checked_mul(dims->job, x->terms[i].coef, y->terms[j].coef);
            ig_draft_add(&draft, coef, ig_mono_mul(dims, x->terms[i].mono, y->terms[j].mono));
        }
    }
    return ig_draft_finish(&draft);
}

ig_dim ig_dim_product(struct ig_dims *dims, const ig_dim *factors, int count) {
    ig_dim product = ig_dim_const(dims, 1);
    for (int i = 0; i < count; i++)
        product = ig_dim_mul(dims, product, factors[i]);
    return product;
}

bool ig_dim_is_const(const struct ig_dims *dims, ig_dim dim, int64_t *out_value) {
    const struct ig_dim_sum *s = ig_sum(dims, dim);
    if (s->count > 1 || (s->count == 1 && s->terms[0].mono != IG_MONO_ONE)) return false;
    if (out_value != NULL) *out_value = s->count == 0 ? 0 : s->terms[0].coef;
    return true;
}
