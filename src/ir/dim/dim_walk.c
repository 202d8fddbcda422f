/* Traversal of symbolic integers: structure as a binary tree, symbols, substitution, evaluation. */
#include "ir/dim/dim_pool.h"

/* ---- Structure */

/* A product as a left-leaning tree: the product without its last atom, times that atom. */
static struct ig_dim_view look_at_mono(struct ig_dims *dims, uint64_t index) {
    struct ig_dim_mono mono = dims->monos.at[index];
    uint32_t last = mono.atoms[mono.degree - 1];
    if (mono.degree > 1) {
        struct ig_dim_view view = {.kind = IG_DIM_MUL};
        view.a = ig_dim_of_term(dims, 1, ig_mono_of(dims, mono.atoms, mono.degree - 1));
        view.b = ig_dim_of_term(dims, 1, ig_mono_of(dims, &last, 1));
        return view;
    }
    struct ig_dim_atom atom = dims->atoms.at[last];
    return (struct ig_dim_view){.kind = atom.kind, .name = atom.name, .a = atom.a, .b = atom.b};
}

struct ig_dim_view ig_dim_look(struct ig_dims *dims, ig_dim dim) {
    struct ig_dim_view view = {.kind = IG_DIM_CONST};
    struct ig_dim_sum sum = *ig_sum(dims, dim);
    if (ig_dim_is_const(dims, dim, &view.value)) return view;
    struct ig_dim_term last = sum.terms[sum.count - 1];
    if (sum.count > 1) {
        struct ig_sum_draft draft;
        ig_draft_init(&draft, dims);
        for (uint32_t i = 0; i + 1 < sum.count; i++)
            ig_draft_add(&draft, sum.terms[i].coef, sum.terms[i].mono);
        view.kind = IG_DIM_ADD;
        view.a = ig_draft_finish(&draft);
        view.b = ig_dim_of_term(dims, last.coef, last.mono);
        return view;
    }
    if (last.coef == 1) return look_at_mono(dims, last.mono);
    view.kind = IG_DIM_MUL;
    view.a = ig_dim_of_term(dims, 1, last.mono);
    view.b = ig_dim_const(dims, last.coef);
    return view;
}

/* ---- Symbols */

struct symbol_list {
    uint32_t count;
    uint32_t atoms[IG_DIM_MAX_SIZE];
};

static void collect_symbols(const struct ig_dims *dims, ig_dim dim, struct symbol_list *list);

static void collect_atom(const struct ig_dims *dims, uint32_t index, struct symbol_list *list) {
    const struct ig_dim_atom *atom = &dims->atoms.at[index];
    if (atom->kind != IG_DIM_SYMBOL) {
        collect_symbols(dims, atom->a, list);
        collect_symbols(dims, atom->b, list);
        return;
    }
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->atoms[i] == index) return;
    }
    list->atoms[list->count++] = index; /* fits: an expression has at most IG_DIM_MAX_SIZE parts */
}

static void collect_symbols(const struct ig_dims *dims, ig_dim dim, struct symbol_list *list) {
    const struct ig_dim_sum *sum = ig_sum(dims, dim);
    for (uint32_t i = 0; i < sum->count; i++) {
        const struct ig_dim_mono *mono = &dims->monos.at[sum->terms[i].mono];
        for (uint32_t j = 0; j < mono->degree; j++)
            collect_atom(dims, mono->atoms[j], list);
    }
}

void ig_dim_symbols(const struct ig_dims *dims, ig_dim dim, void (*visit)(void *user, ig_dim symbol), void *user) {
    struct symbol_list list = {.count = 0};
    collect_symbols(dims, dim, &list);
    for (uint32_t i = 0; i < list.count; i++)
        visit(user, ig_dim_symbol((struct ig_dims *)dims, dims->atoms.at[list.atoms[i]].name)); /* interned already */
}

/* ---- Substitution */

struct substitution {
    struct ig_dims *dims;
    const ig_dim *symbols, *values;
    int count;
};

static ig_dim substitute(const struct substitution *s, ig_dim dim);

static ig_dim substitute_atom(const struct substitution *s, uint32_t index) {
    struct ig_dim_atom atom = s->dims->atoms.at[index];
    ig_dim self = ig_dim_of_term(s->dims, 1, ig_mono_of(s->dims, &index, 1));
    if (atom.kind == IG_DIM_SYMBOL) {
        for (int i = 0; i < s->count; i++) {
            if (s->symbols[i] == self) return s->values[i];
        }
        return self;
    }
    ig_dim a = substitute(s, atom.a), b = substitute(s, atom.b);
    switch (atom.kind) {
    case IG_DIM_DIV: return ig_dim_div(s->dims, a, b);
    case IG_DIM_MOD: return ig_dim_mod(s->dims, a, b);
    case IG_DIM_MIN: return ig_dim_min(s->dims, a, b);
    default: return ig_dim_max(s->dims, a, b);
    }
}

static ig_dim substitute(const struct substitution *s, ig_dim dim) {
    struct ig_dim_sum sum = *ig_sum(s->dims, dim);
    ig_dim result = ig_dim_const(s->dims, 0);
    for (uint32_t i = 0; i < sum.count; i++) {
        struct ig_dim_mono mono = s->dims->monos.at[sum.terms[i].mono];
        ig_dim product = ig_dim_const(s->dims, sum.terms[i].coef);
        for (uint32_t j = 0; j < mono.degree; j++)
            product = ig_dim_mul(s->dims, product, substitute_atom(s, mono.atoms[j]));
        result = ig_dim_add(s->dims, result, product);
    }
    return result;
}

ig_dim ig_dim_substitute(struct ig_dims *dims, ig_dim dim, const ig_dim *symbols, const ig_dim *values, int count) {
    struct substitution s = {dims, symbols, values, count};
    return substitute(&s, dim);
}

ig_dim ig_dim_refresh(struct ig_dims *dims, ig_dim dim) {
    if (ig_sum(dims, dim)->refresh_epoch != dims->epoch) {
        ig_dim refreshed = ig_dim_substitute(dims, dim, NULL, NULL, 0);
        dims->sums.at[dim].refreshed = refreshed;
        dims->sums.at[dim].refresh_epoch = dims->epoch;
    }
    return dims->sums.at[dim].refreshed;
}

/* ---- Evaluation */

struct evaluation {
    const struct ig_dims *dims;
    const ig_dim *symbols;
    const int64_t *values;
    int count;
    bool usual; /* evaluate at the symbols' own usual values, not at `values` */
};

static bool evaluate(const struct evaluation *e, ig_dim dim, int64_t *out_value);

static bool evaluate_symbol(const struct evaluation *e, uint32_t index, int64_t *out_value) {
    if (e->usual) {
        *out_value = e->dims->atoms.at[index].usual;
        return *out_value >= 0;
    }
    for (int i = 0; i < e->count; i++) {
        const struct ig_dim_sum *symbol = ig_sum(e->dims, e->symbols[i]);
        const struct ig_dim_mono *mono = symbol->count == 1 ? &e->dims->monos.at[symbol->terms[0].mono] : NULL;
        if (mono != NULL && mono->degree == 1 && mono->atoms[0] == index) {
            *out_value = e->values[i];
            return true;
        }
    }
    return false;
}

static bool evaluate_atom(const struct evaluation *e, uint32_t index, int64_t *out_value) {
    const struct ig_dim_atom *atom = &e->dims->atoms.at[index];
    int64_t a, b;
    if (atom->kind == IG_DIM_SYMBOL) return evaluate_symbol(e, index, out_value);
    if (!evaluate(e, atom->a, &a) || !evaluate(e, atom->b, &b)) return false;
    if (atom->kind == IG_DIM_MIN || atom->kind == IG_DIM_MAX) {
        *out_value = (a < b) == (atom->kind == IG_DIM_MIN) ? a : b;
        return true;
    }
    if (b == 0 || (a == INT64_MIN && b == -1)) return false;
    int64_t quotient = ig_floor_div(a, b);
    *out_value = atom->kind == IG_DIM_DIV ? quotient : a - quotient * b;
    return true;
}

static bool evaluate(const struct evaluation *e, ig_dim dim, int64_t *out_value) {
    const struct ig_dim_sum *sum = ig_sum(e->dims, dim);
    int64_t result = 0;
    for (uint32_t i = 0; i < sum->count; i++) {
        const struct ig_dim_mono *mono = &e->dims->monos.at[sum->terms[i].mono];
        int64_t product = sum->terms[i].coef, factor;
        for (uint32_t j = 0; j < mono->degree; j++) {
            if (!evaluate_atom(e, mono->atoms[j], &factor)) return false;
            if (__builtin_mul_overflow(product, factor, &product)) return false;
        }
        if (__builtin_add_overflow(result, product, &result)) return false;
    }
    *out_value = result;
    return true;
}

bool ig_dim_eval(const struct ig_dims *dims, ig_dim dim, const ig_dim *symbols, const int64_t *values, int count,
                 int64_t *out_value) {
    struct evaluation e = {dims, symbols, values, count, false};
    return evaluate(&e, dim, out_value);
}

bool ig_dim_usual(const struct ig_dims *dims, ig_dim dim, int64_t *out_value) {
    struct evaluation e = {.dims = dims, .usual = true};
    return evaluate(&e, dim, out_value);
}
