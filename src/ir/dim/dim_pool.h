/*
 * Internals of the pool of symbolic integers (dim.h), for the files dim*.c only.
 *
 * A sum is a list of terms in canonical order; a term is a coefficient times a monomial; a monomial is a sorted list of
 * atoms, repeated for powers. Sums, monomials and atoms are interned: two are equal if and only if their indices are.
 * The canonical order is structural (graded lexicographic, see ig_mono_compare), not the order of creation, so that a
 * text parsed into another pool prints the same.
 *
 * Every expression has a bounded number of parts (IG_DIM_MAX_SIZE). Models are untrusted, and expressions share parts:
 * without the bound, walking one could take time exponential in the length of the model.
 */
#ifndef IG_IR_DIM_POOL_H
#define IG_IR_DIM_POOL_H

#include "base/map.h"
#include "ir/dim/dim.h"

enum { IG_DIM_MAX_TERMS = 128, IG_DIM_MAX_DEGREE = 32, IG_DIM_MAX_SIZE = 2048 };

struct ig_dim_atom {
    enum ig_dim_kind kind; /* SYMBOL, DIV, MOD, MIN or MAX */
    const char *name;      /* SYMBOL */
    ig_dim a, b;           /* DIV, MOD, MIN, MAX */
    int64_t lo, hi;        /* SYMBOL */
    int64_t usual;         /* SYMBOL; -1: unknown */
    bool fixed;            /* SYMBOL; see ig_dim_fix */
};

struct ig_dim_mono {
    const uint32_t *atoms;
    uint32_t degree;
};

struct ig_dim_term {
    int64_t coef;  /* not 0 */
    uint64_t mono; /* 64 bits wide, so that the interning key has no padding */
};

struct ig_dim_interval {
    int64_t lo, hi; /* INT64_MIN and INT64_MAX: unbounded */
};

struct ig_dim_sum {
    const struct ig_dim_term *terms;
    uint32_t count;
    uint32_t size;  /* number of parts, nested expressions included */
    uint32_t epoch; /* of `range`; 0: not computed yet */
    struct ig_dim_interval range;
    uint32_t refresh_epoch; /* of `refreshed` */
    ig_dim refreshed;
};

#define IG_MONO_ONE 0u /* the empty product: the monomial of a constant term */

struct ig_dims {
    struct ig_job *job;
    IG_VEC(struct ig_dim_atom) atoms;
    IG_VEC(struct ig_dim_mono) monos;
    IG_VEC(struct ig_dim_sum) sums; /* sums.at[0] is reserved for IG_DIM_NONE */
    struct ig_map symbol_index, atom_index, mono_index, sum_index;
    IG_VEC(uint32_t) symbols; /* indices of atoms */
    uint32_t epoch;           /* incremented when a symbol's range changes */
};

/* A sum under construction; terms stay sorted and nonzero. */
struct ig_sum_draft {
    struct ig_dims *dims;
    uint32_t count;
    struct ig_dim_term terms[IG_DIM_MAX_TERMS];
};
void ig_draft_init(struct ig_sum_draft *draft, struct ig_dims *dims);
void ig_draft_add(struct ig_sum_draft *draft, int64_t coef, uint64_t mono);
/* Adds scale times another sum. */
void ig_draft_add_sum(struct ig_sum_draft *draft, int64_t scale, ig_dim sum);
ig_dim ig_draft_finish(struct ig_sum_draft *draft);

/* The sum of an index; raises INGOT_INTERNAL for IG_DIM_NONE and indices of another pool. */
const struct ig_dim_sum *ig_sum(const struct ig_dims *dims, ig_dim dim);
/* The constant term. */
int64_t ig_sum_constant(const struct ig_dims *dims, ig_dim dim);
/* The atom, if the sum is a single atom; else NULL. */
const struct ig_dim_atom *ig_sum_atom(const struct ig_dims *dims, ig_dim dim);
/* The greatest common divisor of the coefficients, optionally including the constant term; 0 if there are none. */
int64_t ig_sum_content(const struct ig_dims *dims, ig_dim dim, bool with_constant);
ig_dim ig_sum_scale(struct ig_dims *dims, ig_dim dim, int64_t scale);
/* Divides every coefficient by a common divisor. */
ig_dim ig_sum_shrink(struct ig_dims *dims, ig_dim dim, int64_t divisor);
int ig_sum_compare(const struct ig_dims *dims, ig_dim a, ig_dim b);

ig_dim ig_dim_of_atom(struct ig_dims *dims, enum ig_dim_kind kind, ig_dim a, ig_dim b);
ig_dim ig_dim_of_term(struct ig_dims *dims, int64_t coef, uint64_t mono);

uint32_t ig_mono_of(struct ig_dims *dims, const uint32_t *sorted_atoms, uint32_t degree);
uint32_t ig_mono_mul(struct ig_dims *dims, uint64_t a, uint64_t b);
/* True if a divides b; then out_quotient is b / a. */
bool ig_mono_div(struct ig_dims *dims, uint64_t b, uint64_t a, uint32_t *out_quotient);
uint32_t ig_mono_gcd(struct ig_dims *dims, uint64_t a, uint64_t b);
/* Larger monomials come first: higher degree, then lexicographically by atoms. A monomial order, so that polynomial
 * division by leading terms works. */
int ig_mono_compare(const struct ig_dims *dims, uint64_t a, uint64_t b);

/* Checked arithmetic: raises INGOT_BAD_MODEL if int64 overflows. */
int64_t ig_checked_add(struct ig_job *job, int64_t a, int64_t b);
int64_t ig_checked_mul(struct ig_job *job, int64_t a, int64_t b);
int64_t ig_floor_div(int64_t a, int64_t b); /* b > 0, or no overflow */
int64_t ig_gcd(int64_t a, int64_t b);       /* >= 0 */

#endif
