/*
 * The prelude: small inline functions for the operators that C has no symbol for, one version per type that occurs.
 * Only those that a kernel uses are printed. They are branch-free, so that gcc and clang vectorise loops over them
 * (prelude_*.c; tools/minimax.py finds the polynomials).
 */
#ifndef IG_CODEGEN_PRELUDE_H
#define IG_CODEGEN_PRELUDE_H

#include "base/map.h"
#include "base/text.h"

/* A prelude function. In `text`, "$T" is the type (float), "$U" the unsigned integer of its size, "$S" the suffix
 * (f32), "$B" its bits, "$L" and "$H" an integer's limits, "$F" the suffix of C's own math functions. */
struct ig_code_function {
    /* Without suffix if it serves several types: "ig_max_"; else complete: "ig_exp_f32". */
    const char *name;
    const char *types; /* suffixes served, separated by blanks; NULL: the name is complete */
    const char *needs; /* names of functions it calls, may contain "$S", separated by blanks; may be NULL */
    const char *text;
};

struct ig_code_table {
    const struct ig_code_function *functions;
    const size_t *count;
};

struct ig_code_prelude {
    struct ig_job *job;
    const struct ig_code_table *tables; /* searched in order; the first that has a function wins */
    size_t n_tables;
    struct ig_map seen;
    struct ig_text text;
};

void ig_code_prelude_init(struct ig_code_prelude *prelude, struct ig_job *job, const struct ig_code_table *tables,
                          size_t n_tables);
/* Adds a function after all that it needs. Raises INGOT_INTERNAL if there is none of that name. */
void ig_code_prelude_use(struct ig_code_prelude *prelude, const char *name);

/* Tables for all languages: exact operators, conversions, and those of narrow types. */
extern const struct ig_code_function ig_code_functions_basic[], ig_code_functions_convert[], ig_code_functions_narrow[];
extern const size_t ig_code_functions_basic_count, ig_code_functions_convert_count, ig_code_functions_narrow_count;

#endif
