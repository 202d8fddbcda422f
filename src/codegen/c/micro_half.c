/*
 * Half-precision operands of micro-kernels as C: converted on load, so that weights take half the memory and the
 * products are those of f32. A bfloat16 is the upper half of a float; float16 has a conversion instruction since F16C,
 * which every supported target has, under the same builtin names in gcc and clang.
 */
#include "codegen/c/micro.h"
#include "codegen/c/micro_text.h"

static bool is_half(const struct ig_micro *m) {
    return m->half != INGOT_DTYPE_NONE;
}

const char *ig_c_micro_element(const struct ig_micro *m) {
    return is_half(m) ? "h" : "e";
}

const char *ig_c_micro_reader(struct ig_job *job, const struct ig_micro *m, const char *memory) {
    if (!is_half(m)) return ig_format(job, "*(const %s_%s *)(", m->name, memory);
    return ig_format(job, "%s_%s(", m->name, memory[0] == 'e' ? "one" : "load");
}

static void print_bf16(const struct ig_micro *m, int lanes, const char *vector, struct ig_text *text) {
    ig_text_printf(text,
                   "    typedef unsigned words __attribute__((vector_size(%d)));\n"
                   "    return (%s_%s)(__builtin_convertvector(*(const %s_s *)at, words) << 16);\n",
                   4 * lanes, m->name, vector, m->name);
}

static void print_f16(const struct ig_micro *m, int lanes, const char *vector, struct ig_text *text) {
    ig_text_printf(text, "    typedef short shorts __attribute__((vector_size(%d)));\n", lanes == 4 ? 16 : 2 * lanes);
    ig_text_printf(text, "    const %s_s bits = *(const %s_s *)at;\n", m->name, m->name);
    if (lanes == 16) {
        ig_text_printf(text, "    typedef float floats __attribute__((vector_size(64)));\n");
        ig_text_printf(text,
                       "    return (%s_%s)__builtin_ia32_vcvtph2ps512_mask((shorts)bits, (floats){0}, "
                       "(unsigned short)-1, 4);\n",
                       m->name, vector);
    } else if (lanes == 8) {
        ig_text_printf(text, "    return (%s_%s)__builtin_ia32_vcvtph2ps256((shorts)bits);\n", m->name, vector);
    } else {
        ig_text_printf(text,
                       "    const shorts both = {(short)bits[0], (short)bits[1], (short)bits[2], (short)bits[3]};\n"
                       "    return (%s_%s)__builtin_ia32_vcvtph2ps(both);\n",
                       m->name, vector);
    }
}

static void print_one(const struct ig_micro *m, struct ig_text *text) {
    ig_text_printf(text, "INLINE %s_e %s_one(const %s_h *at) {\n", m->name, m->name, m->name);
    if (m->half == INGOT_BF16) {
        ig_text_printf(text, "    typedef unsigned words __attribute__((vector_size(16)));\n"
                             "    typedef float floats __attribute__((vector_size(16)));\n"
                             "    return ((floats)(words){(unsigned)*at << 16})[0];\n}\n");
    } else {
        ig_text_printf(text, "    typedef short shorts __attribute__((vector_size(16)));\n"
                             "    return __builtin_ia32_vcvtph2ps((shorts){(short)*at})[0];\n}\n");
    }
}

void ig_c_micro_half(const struct ig_micro *m, int lanes, const char *vector, struct ig_text *text) {
    if (!is_half(m)) return;
    ig_text_printf(text, "typedef unsigned short %s_h __attribute__((may_alias));\n", m->name);
    ig_text_printf(text, "typedef unsigned short %s_s __attribute__((vector_size(%d), aligned(2), may_alias));\n",
                   m->name, 2 * lanes);
    ig_text_printf(text, "INLINE %s_%s %s_load(const %s_h *at) {\n", m->name, vector, m->name, m->name);
    if (m->half == INGOT_BF16)
        print_bf16(m, lanes, vector, text);
    else
        print_f16(m, lanes, vector, text);
    ig_text_add(text, "}\n");
    print_one(m, text);
}
