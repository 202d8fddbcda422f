/*
 * The prelude: small inline functions for the operators that C has no sign for, in one version for each type that
 * occurs. Only those that a kernel uses are printed. They are free of branches, so that loops over them vectorise with
 * gcc and clang (prelude_*.c; tools/minimax.py finds the polynomials).
 */
#ifndef IG_CODEGEN_C_PRELUDE_H
#define IG_CODEGEN_C_PRELUDE_H

#include "base/map.h"
#include "base/text.h"

/* A function of the prelude. In `text`, "$T" is the type (float), "$U" the unsigned integer of its size, "$S" the
 * suffix (f32), "$B" its bits, "$L" and "$H" an integer's limits, "$F" the letter at the end of C's own functions. */
struct ig_c_function {
    const char *name;  /* without suffix for rows of several types: "ig_max_"; with it for others: "ig_exp_f32" */
    const char *types; /* suffixes served, separated by blanks; NULL: the name is complete */
    const char *needs; /* names of others, with "$S" in them, separated by blanks; may be NULL */
    const char *text;
};

struct ig_c_prelude {
    struct ig_job *job;
    struct ig_map seen;
    struct ig_text text;
};

void ig_c_prelude_init(struct ig_c_prelude *prelude, struct ig_job *job);
/* Adds a function, and before it what it needs. Raises INGOT_INTERNAL where there is none of that name. */
void ig_c_prelude_use(struct ig_c_prelude *prelude, const char *name);
/* Names of all functions, for tests; returns how many. */
size_t ig_c_prelude_list(struct ig_job *job, const char *const **out_names);

/* The rows, by file. */
extern const struct ig_c_function ig_c_functions_basic[], ig_c_functions_convert[], ig_c_functions_f32[],
    ig_c_functions_f64[], ig_c_functions_trig[];
extern const size_t ig_c_functions_basic_count, ig_c_functions_convert_count, ig_c_functions_f32_count,
    ig_c_functions_f64_count, ig_c_functions_trig_count;

#endif
