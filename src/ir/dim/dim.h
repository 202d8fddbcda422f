/*
 * Symbolic integers: the dims of tensors, and everything computed from them (sizes, strides, loop bounds, offsets).
 *
 * An ig_dim is an index into a pool that hash-conses: equal expressions have equal indices. Expressions are kept in one
 * canonical form, a sum of integer multiples of products of atoms, where an atom is a symbol or a floor division,
 * modulo, minimum or maximum of canonical expressions. So (batch + 1) * 2 and 2*batch + 2 are the same ig_dim, and
 * comparing dims is comparing integers. Arithmetic is on int64; what overflows raises INGOT_BAD_MODEL.
 */
#ifndef IG_IR_DIM_H
#define IG_IR_DIM_H

#include "base/job.h"
#include "base/text.h"

typedef uint32_t ig_dim;
#define IG_DIM_NONE 0u /* "unknown": no expression has this index */

struct ig_dims; /* the pool; shared by all graphs of one model, in the job's arena */

struct ig_dims *ig_dims_create(struct ig_job *job);

ig_dim ig_dim_const(struct ig_dims *dims, int64_t value);
/* The symbol of that name, created on first use with the range [0, INT32_MAX]. */
ig_dim ig_dim_symbol(struct ig_dims *dims, const char *name);
/* Narrows a symbol's range (from --shape); lo == hi does not turn it into a constant (see ig_dim_substitute). */
void ig_dim_set_range(struct ig_dims *dims, ig_dim symbol, int64_t lo, int64_t hi);

/* A symbol's typical value (from --shape's OPT): no guarantee, but kernels are chosen for it. */
void ig_dim_set_usual(struct ig_dims *dims, ig_dim symbol, int64_t value);
/* The value of an expression for these; false if a symbol in it has none. */
bool ig_dim_usual(const struct ig_dims *dims, ig_dim dim, int64_t *out_value);

/* Marks a symbol whose value is `hi` in every run, though what is computed at once may be a part of it, down to lo. */
void ig_dim_fix(struct ig_dims *dims, ig_dim symbol);
bool ig_dim_is_fixed(struct ig_dims *dims, ig_dim symbol);
/* Enumerates the pool's symbols in order of creation, with their ranges; false past the last. */
bool ig_dim_symbol_at(struct ig_dims *dims, uint32_t index, ig_dim *out_symbol, int64_t *out_lo, int64_t *out_hi);

ig_dim ig_dim_add(struct ig_dims *dims, ig_dim a, ig_dim b);
ig_dim ig_dim_sub(struct ig_dims *dims, ig_dim a, ig_dim b);
ig_dim ig_dim_mul(struct ig_dims *dims, ig_dim a, ig_dim b);
ig_dim ig_dim_div(struct ig_dims *dims, ig_dim a, ig_dim b);      /* floor; exact if the canonical form shows it */
ig_dim ig_dim_ceil_div(struct ig_dims *dims, ig_dim a, ig_dim b); /* = floor((a + b - 1) / b) */
ig_dim ig_dim_mod(struct ig_dims *dims, ig_dim a, ig_dim b);      /* sign of b */
ig_dim ig_dim_min(struct ig_dims *dims, ig_dim a, ig_dim b);
ig_dim ig_dim_max(struct ig_dims *dims, ig_dim a, ig_dim b);

bool ig_dim_is_const(const struct ig_dims *dims, ig_dim dim, int64_t *out_value);
/* An interval that holds for all values of the symbols; INT64_MIN / INT64_MAX if unbounded. */
void ig_dim_range(const struct ig_dims *dims, ig_dim dim, int64_t *out_lo, int64_t *out_hi);
/* Only certain answers: yes, no, or cannot tell. */
enum ig_answer { IG_NO = 0, IG_YES = 1, IG_MAYBE = 2 };
enum ig_answer ig_dim_equal(struct ig_dims *dims, ig_dim a, ig_dim b);
enum ig_answer ig_dim_less(struct ig_dims *dims, ig_dim a, ig_dim b);
/* True if the canonical form shows that b divides a for all values of the symbols. */
bool ig_dim_divides(struct ig_dims *dims, ig_dim b, ig_dim a);
ig_dim ig_dim_product(struct ig_dims *dims, const ig_dim *factors, int count);

/* "batch", "2*seq+1", "floor(h/2)", "12"; parsed back by ig_dim_parse, which returns IG_DIM_NONE on a syntax error. */
void ig_dim_print(const struct ig_dims *dims, ig_dim dim, struct ig_text *text);
const char *ig_dim_text(const struct ig_dims *dims, ig_dim dim); /* in the arena */
ig_dim ig_dim_parse(struct ig_dims *dims, const char *text, const char **out_end);
/* Is the text a symbol's name that needs no quotes: letters, digits and _, not beginning with a digit? */
bool ig_dim_is_name(const char *text);

/* A string in double quotes with \" \\ and \xHH escaped, the form of names in texts; and its inverse: returns the name
 * and moves *inout_text past it, or NULL if there is none. */
void ig_quote(const char *name, struct ig_text *text);
const char *ig_unquote(struct ig_job *job, const char **inout_text);

/* Simplifies the expression by the current ranges, which may have been narrowed since it was built. */
ig_dim ig_dim_refresh(struct ig_dims *dims, ig_dim dim);

/* Replaces symbols: symbols[i] by values[i]. */
ig_dim ig_dim_substitute(struct ig_dims *dims, ig_dim dim, const ig_dim *symbols, const ig_dim *values, int count);
/* The value for given values of the symbols; false if a symbol is missing or a divisor is zero. */
bool ig_dim_eval(const struct ig_dims *dims, ig_dim dim, const ig_dim *symbols, const int64_t *values, int count,
                 int64_t *out_value);

/* Structure, for translation into the shape program: an expression is a constant, a symbol, or a binary operation.
 * n-ary sums and products appear as left-leaning binary ones. */
enum ig_dim_kind {
    IG_DIM_CONST,
    IG_DIM_SYMBOL,
    IG_DIM_ADD,
    IG_DIM_MUL,
    IG_DIM_DIV,
    IG_DIM_MOD,
    IG_DIM_MIN,
    IG_DIM_MAX
};
struct ig_dim_view {
    enum ig_dim_kind kind;
    int64_t value;    /* CONST */
    const char *name; /* SYMBOL */
    ig_dim a, b;
};
struct ig_dim_view ig_dim_look(struct ig_dims *dims, ig_dim dim);
/* Calls visit once for every symbol in dim. */
void ig_dim_symbols(const struct ig_dims *dims, ig_dim dim, void (*visit)(void *user, ig_dim symbol), void *user);

#endif
