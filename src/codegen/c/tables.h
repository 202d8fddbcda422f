/* Prelude functions for C only: polynomials that vectorise, one table per file prelude_*.c. */
#ifndef IG_CODEGEN_C_TABLES_H
#define IG_CODEGEN_C_TABLES_H

#include "codegen/prelude.h"

extern const struct ig_code_function ig_c_functions_f32[], ig_c_functions_f64[], ig_c_functions_trig[];
extern const size_t ig_c_functions_f32_count, ig_c_functions_f64_count, ig_c_functions_trig_count;

#endif
