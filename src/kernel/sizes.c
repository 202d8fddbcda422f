/* Values of symbols; see sizes.h. */
#include "kernel/sizes.h"

void ig_sizes_usual(struct ig_dims *dims, struct ig_job *job, struct ig_sizes *out_sizes) {
    enum { OTHERS = 128 };
    ig_dim symbol;
    int64_t lo, hi, value;
    *out_sizes = (struct ig_sizes){.dims = dims};
    for (uint32_t i = 0; ig_dim_symbol_at(dims, i, &symbol, &lo, &hi); i++) {
        if (!ig_dim_usual(dims, symbol, &value)) value = OTHERS < lo ? lo : OTHERS > hi ? hi : OTHERS;
        ig_sizes_set(out_sizes, job, symbol, value);
    }
}

void ig_sizes_set(struct ig_sizes *sizes, struct ig_job *job, ig_dim symbol, int64_t value) {
    for (uint32_t i = 0; i < sizes->symbols.count; i++) {
        if (sizes->symbols.at[i] != symbol) continue;
        sizes->values.at[i] = value;
        return;
    }
    IG_PUSH(job, &sizes->symbols, symbol);
    IG_PUSH(job, &sizes->values, value);
}

int64_t ig_sizes_of(const struct ig_sizes *s, struct ig_job *job, ig_dim dim) {
    int64_t value = 0;
    if (dim == IG_DIM_NONE || !ig_dim_eval(s->dims, dim, s->symbols.at, s->values.at, (int)s->symbols.count, &value)) {
        ig_raise(job, INGOT_UNSUPPORTED, "the size '%s' is not known before the model runs",
                 dim == IG_DIM_NONE ? "?" : ig_dim_text(s->dims, dim));
    }
    return value;
}

int64_t ig_sizes_guess(const struct ig_sizes *s, ig_dim dim) {
    int64_t lo, hi, value;
    ig_dim_range(s->dims, dim, &lo, &hi);
    if (lo == hi) return lo;
    bool known = ig_dim_eval(s->dims, dim, s->symbols.at, s->values.at, (int)s->symbols.count, &value);
    if (known && value >= lo && value <= hi) return value;
    lo = lo < 1 ? 1 : lo > INT32_MAX ? INT32_MAX : lo;
    return hi / 8 < lo ? hi : lo * 8;
}
