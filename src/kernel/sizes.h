/* Sizes: values of symbols, at which kernels are chosen and measured. */
#ifndef IG_KERNEL_SIZES_H
#define IG_KERNEL_SIZES_H

#include "ir/dim/dim.h"

struct ig_sizes {
    struct ig_dims *dims;
    IG_VEC(ig_dim) symbols;
    IG_VEC(int64_t) values;
};

/* Every symbol at its usual value; 128, or the nearest within its range, for symbols without one, which passes have
 * created. */
void ig_sizes_usual(struct ig_dims *dims, struct ig_job *job, struct ig_sizes *out_sizes);
/* Sets or replaces a value. */
void ig_sizes_set(struct ig_sizes *sizes, struct ig_job *job, ig_dim symbol, int64_t value);
/* The value of an expression; raises INGOT_UNSUPPORTED if a symbol has none. */
int64_t ig_sizes_of(const struct ig_sizes *sizes, struct ig_job *job, ig_dim dim);
/* The same for cost models, which need some value within the expression's range: where it is not known, eight times the
 * least. */
int64_t ig_sizes_guess(const struct ig_sizes *sizes, ig_dim dim);

#endif
