/* A collective as CUDA C++. */
#include "codegen/cuda/exchange.h"

#include "codegen/cuda/templates.h"
#include "ir/type.h"

/* How elements are stored, and what they are added up as: integers without a sign, so that they wrap around. */
static const struct type {
    const char *stored, *sum;
} types[INGOT_DTYPE_COUNT] = {
    [INGOT_F16] = {"f16", "float"},
    [INGOT_BF16] = {"bf16", "float"},
    [INGOT_F32] = {"float", "float"},
    [INGOT_F64] = {"double", "double"},
    [INGOT_I32] = {"int", "unsigned"},
    [INGOT_U32] = {"unsigned", "unsigned"},
    [INGOT_I64] = {"long long", "unsigned long long"},
    [INGOT_U64] = {"unsigned long long", "unsigned long long"},
};

/* What elements are reduced as: of the maximum and the minimum integers keep their sign. */
static const char *total_type(const struct ig_cuda_exchange *e) {
    const bool adds = e->reduction == IG_REDUCE_SUM || ig_dtype_is_float(e->dtype);
    return adds ? types[e->dtype].sum : types[e->dtype].stored;
}

/* Moved, not reduced. */
static const char *plain_type(enum ingot_dtype dtype) {
    switch (ingot_dtype_size(dtype)) {
    case 1: return "unsigned char";
    case 2: return "unsigned short";
    case 4: return "unsigned";
    default: return "unsigned long long";
    }
}

static void print_constants(const struct ig_cuda_exchange *e, struct ig_text *text) {
    const bool reduces = ig_collective_reduces(e->kind);
    ig_text_add(text, "enum { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, BROADCAST };\n"
                      "enum { SUM, MAX, MIN };\n"
                      "struct f16 {\n    unsigned short bits;\n};\nstruct bf16 {\n    unsigned short bits;\n};\n");
    ig_text_printf(text, "enum { KIND = %d, REDUCTION = %d, REDUCES = %d, EVEN = %d, EARLY = %d, PUSHED = %d };\n",
                   (int)e->kind, (int)e->reduction, reduces, e->even, e->early, e->pushed);
    ig_text_printf(text, "enum { RANKS = %u, ROOT = %u, MOST_RANKS = %u };\n", e->ranks, e->root, IG_MOST_RANKS);
    ig_text_printf(text, "enum { HEADERS = %d, SHORT_LINES = %d, SHORT_EACH = %d, LONG_EACH = %d };\n",
                   IG_WINDOW_HEADERS, IG_WINDOW_SHORT_LINES, IG_WINDOW_SHORT_EACH, IG_WINDOW_LONG_EACH);
    ig_text_printf(text, "enum { SLOT = %d, SHORT = %d, FIRST_EPOCH = %d };\n", IG_WINDOW_SLOT, IG_WINDOW_SHORT,
                   IG_WINDOW_FIRST_EPOCH);
    if (e->row > 0) ig_text_printf(text, "enum { ROW = %lld };\n", (long long)e->row);
    ig_text_printf(text, "typedef %s element;\ntypedef %s total;\n",
                   reduces ? types[e->dtype].stored : plain_type(e->dtype), reduces ? total_type(e) : "int");
    ig_text_add(text, ig_cuda_template_exchange_words);
}

void ig_cuda_exchange(const struct ig_cuda_exchange *e, struct ig_text *text) {
    ig_text_add(text, "namespace exchange {\n");
    print_constants(e, text);
    ig_text_add(text, ig_cuda_template_exchange);
    if (e->row > 0) ig_text_add(text, ig_cuda_template_exchange_row);
    ig_text_add(text, "}\n");
}

void ig_cuda_push(const struct ig_cuda_exchange *e, struct ig_text *text) {
    ig_text_add(text, "namespace exchange {\n");
    if (e) print_constants(e, text);
    ig_text_add(text, e ? ig_cuda_template_exchange_push : ig_cuda_template_exchange_unpushed);
    ig_text_add(text, "}\n");
}
