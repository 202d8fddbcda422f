/* The products of a recurrence's steps as CUDA C++. */
#include "codegen/cuda/recurrent/recurrent.h"

#include "codegen/cuda/templates.h"

static const char *type_of(enum ingot_dtype dtype) {
    switch (dtype) {
    case INGOT_F16: return "f16";
    case INGOT_BF16: return "bf16";
    case INGOT_F64: return "double";
    default: return "float";
    }
}

void ig_cuda_recurrent(const struct ig_cuda_recurrent *r, struct ig_text *text) {
    ig_text_add(text, "namespace recurrent {\n");
    ig_text_printf(text, "enum { GATES = %d, UNITS = %d, SUMS = %d, HIDDEN = %d, STRIDE = %d, ROWS = %d };\n", r->gates,
                   r->units, r->gates * r->units, r->hidden, r->stride, r->rows);
    ig_text_printf(text, "enum { KEPT = %d, BLOCKS = %d };\n", r->kept, r->blocks);
    if (r->cores) {
        ig_text_printf(text, "enum { TF32, F16, BF16, MATH = %s, REGISTERS = %d };\ntypedef unsigned short half;\n",
                       r->weight == INGOT_F16 ? "F16" : "BF16", r->registers);
        ig_text_printf(text, "enum { COLUMNS = %d, COLUMN = %d, TERM = %d };\n", ig_cuda_recurrent_columns(r),
                       ig_cuda_recurrent_column(r), ig_cuda_recurrent_term(r));
    } else {
        ig_text_printf(text, "enum { PARTS = %d, DEPTH = %d };\n", r->parts, r->depth);
        ig_text_add(text, "struct f16 {\n    unsigned short bits;\n};\nstruct bf16 {\n    unsigned short bits;\n};\n");
    }
    ig_text_printf(text, "typedef %s weight;\ntypedef %s element;\n", r->cores ? "half" : type_of(r->weight),
                   type_of(r->element));
    ig_text_add(text, ig_cuda_template_recurrent);
    if (r->cores) ig_text_add(text, ig_cuda_template_mma);
    ig_text_add(text, r->cores ? ig_cuda_template_recurrent_mma : ig_cuda_template_recurrent_fma);
    ig_text_add(text, "}\n");
}
