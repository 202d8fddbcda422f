/*
 * The prelude: small inline functions for the operators that C has no sign for, in one version for each type that
 * occurs. Only those that a kernel uses are printed. They are free of branches, so that loops over them vectorise with
 * gcc and clang (prelude_*.c; tools/minimax.py finds the polynomials).
 */
#ifndef IG_CODEGEN_PRELUDE_H
#define IG_CODEGEN_PRELUDE_H

#include "base/map.h"
#include "base/text.h"

/* A function of the prelude. In `text`, "$T" is the type (float), "$U" the unsigned integer of its size, "$S" the
 * suffix (f32), "$B" its bits, "$L" and "$H" an integer's limits, "$F" the letter at the end of C's own functions. */
struct ig_code_function {
    const char *name;  /* without suffix for rows of several types: "ig_max_"; with it for others: "ig_exp_f32" */
    const char *types; /* suffixes served, separated by blanks; NULL: the name is complete */
    const char *needs; /* names of others, with "$S" in them, separated by blanks; may be NULL */
    const char *text;
};

struct ig_code_table {
    const struct ig_code_function *functions;
    const size_t *count;
};

struct ig_code_prelude {
    struct ig_job *job;
    const struct ig_code_table *tables; /* the first that has a function gives it */
    size_t n_tables;
    struct ig_map seen;
    struct ig_text text;
};

void ig_code_prelude_init(struct ig_code_prelude *prelude, struct ig_job *job, const struct ig_code_table *tables,
                          size_t n_tables);
/* Adds a function, and before it what it needs. Raises INGOT_INTERNAL where there is none of that name. */
void ig_code_prelude_use(struct ig_code_prelude *prelude, const char *name);

/* Tables for all languages: exact operators, conversions. */
extern const struct ig_code_function ig_code_functions_basic[], ig_code_functions_convert[];
extern const size_t ig_code_functions_basic_count, ig_code_functions_convert_count;

#endif
