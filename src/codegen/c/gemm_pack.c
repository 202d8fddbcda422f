/*
 * Packing a panel of a transposed matrix as C: four columns by four steps of k at a time, transposed in registers (two
 * rounds of unpacking per 4 x 4 block), so that both sides are accessed in runs of 16 bytes.
 */
#include "codegen/c/micro.h"
#include "codegen/c/micro_text.h"

static void print_block(const struct ig_micro *m, struct ig_text *text) {
    const char *reader = ig_c_micro_reader(text->job, m, "q"), *one = ig_c_micro_reader(text->job, m, "e");
    ig_text_printf(text, "    for (; j + 4 <= columns; j += 4) {\n        long p = 0;\n");
    ig_text_add(text, "        for (; p + 4 <= k; p += 4) {\n");
    for (int i = 0; i < 4; i++)
        ig_text_printf(text, "            const %s_q x%d = %sfrom + (j + %d) * ld + p);\n", m->name, i, reader, i);
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < 2; i++)
            ig_text_printf(text, "            const %s_q y%d = __builtin_shufflevector(x%d, x%d, %s);\n", m->name,
                           half * 2 + i, i, i + 2, half ? "2, 6, 3, 7" : "0, 4, 1, 5");
    for (int i = 0; i < 4; i++)
        ig_text_printf(text, "            *(%s_q *)(to + (p + %d) * %d + j) = __builtin_shufflevector(y%d, y%d, %s);\n",
                       m->name, i, m->nr, i / 2 * 2, i / 2 * 2 + 1, i % 2 ? "2, 6, 3, 7" : "0, 4, 1, 5");
    ig_text_printf(text,
                   "        }\n        for (; p < k; p++)\n"
                   "            for (long i = 0; i < 4; i++) to[p * %d + j + i] = %sfrom + (j + i) * ld + p);\n    }\n",
                   m->nr, one);
}

void ig_c_micro_pack(const struct ig_micro *m, const struct ig_target *target, struct ig_text *text) {
    const char *type = ig_c_micro_type(m->dtype);
    bool wide = target->vector_bytes / ig_micro_lanes(target, m->dtype) == 8;
    int bytes = wide ? 8 : 4;
    ig_text_printf(text, "typedef %s %s_e __attribute__((may_alias));\n", type, m->name);
    ig_text_printf(text, "typedef %s %s_q __attribute__((vector_size(%d), aligned(%d), may_alias));\n", type, m->name,
                   4 * bytes, bytes);
    ig_c_micro_half(m, 4, "q", text);
    ig_text_printf(text,
                   "static void %s(const void *from_bytes, long ld, void *to_bytes, long k, long columns) {\n"
                   "    const %s_%s *restrict from = from_bytes;\n    %s_e *restrict to = to_bytes;\n    long j = 0;\n",
                   m->name, m->name, ig_c_micro_element(m), m->name);
    print_block(m, text);
    ig_text_printf(text,
                   "    for (; j < columns; j++)\n"
                   "        for (long p = 0; p < k; p++) to[p * %d + j] = %sfrom + j * ld + p);\n"
                   "    for (; j < %d; j++)\n"
                   "        for (long p = 0; p < k; p++) to[p * %d + j] = 0;\n}\n",
                   m->nr, ig_c_micro_reader(text->job, m, "e"), m->nr, m->nr);
}

/* A vector of two, its elements taken in turns from the low or the high halves of two others with that many. */
static void print_turns(const char *name, const char *to, const char *a, const char *b, int count, bool high,
                        struct ig_text *text) {
    ig_text_printf(text, "            const %s %s = __builtin_shufflevector(%s, %s", name, to, a, b);
    for (int i = 0; i < count / 2; i++)
        ig_text_printf(text, ", %d, %d", i + (high ? count / 2 : 0), i + (high ? count / 2 : 0) + count);
    ig_text_add(text, ");\n");
}

/* 16 bytes of each row at a time: halves in one round of unpacking, bytes in two for fours. */
void ig_c_micro_interleave(const struct ig_micro *m, struct ig_text *text) {
    int size = (int)ingot_dtype_size(m->dtype), lanes = 16 / size;
    const char *n = m->name, *type = size == 1 ? "char" : "short";
    ig_text_printf(text,
                   "typedef unsigned %s %s_t __attribute__((may_alias));\n"
                   "typedef unsigned %s %s_q __attribute__((vector_size(16), aligned(%d), may_alias));\n"
                   "typedef unsigned short %s_w __attribute__((vector_size(16), may_alias));\n"
                   "static void %s(const void *from_bytes, long ld, void *to_bytes, long k, long columns) {\n"
                   "    const %s_t *from = from_bytes;\n    %s_t *to = to_bytes;\n"
                   "    for (long p = 0; p < k; p += %d, from += %d * ld, to += %d) {\n        long j = 0;\n"
                   "        for (; j + %d <= columns; j += %d) {\n",
                   type, n, type, n, size, n, n, n, n, m->together, m->together, m->nr * m->together, lanes, lanes);
    for (int r = 0; r < m->together; r++)
        ig_text_printf(text, "            const %s_q r%d = *(const %s_q *)(from + %d * ld + j);\n", n, r, n, r);
    const char *vector = ig_format(text->job, "%s_q", n), *words = ig_format(text->job, "%s_w", n);
    print_turns(vector, "a0", "r0", "r1", lanes, false, text);
    print_turns(vector, "a1", "r0", "r1", lanes, true, text);
    if (m->together == 4) {
        print_turns(vector, "b0", "r2", "r3", lanes, false, text);
        print_turns(vector, "b1", "r2", "r3", lanes, true, text);
        for (int i = 0; i < 4; i++) {
            const char *a = ig_format(text->job, "(%s)a%d", words, i / 2),
                       *b = ig_format(text->job, "(%s)b%d", words, i / 2);
            print_turns(words, ig_format(text->job, "y%d", i), a, b, 8, i % 2, text);
            ig_text_printf(text, "            *(%s_q *)(to + 4 * j + %d) = (%s_q)y%d;\n", n, 16 * i, n, i);
        }
    } else {
        for (int i = 0; i < 2; i++)
            ig_text_printf(text, "            *(%s_q *)(to + 2 * j + %d) = a%d;\n", n, lanes * i, i);
    }
    ig_text_printf(
        text,
        "        }\n        for (; j < %d; j++)\n"
        "            for (long g = 0; g < %d; g++) to[%d * j + g] = j < columns ? from[g * ld + j] : 0;\n    }\n}\n",
        m->nr, m->together, m->together);
}

void ig_c_micro(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text) {
    switch (micro->kind) {
    case IG_MICRO_GEMM: ig_c_micro_gemm(micro, target, text); break;
    case IG_MICRO_ROW_PARTS: ig_c_micro_row_parts(micro, text); break;
    case IG_MICRO_COLUMN_PARTS: ig_c_micro_column_parts(micro, text); break;
    case IG_MICRO_LIST: ig_c_micro_list(micro, target, text); break;
    case IG_MICRO_PACK: ig_c_micro_pack(micro, target, text); break;
    case IG_MICRO_INTERLEAVE: ig_c_micro_interleave(micro, text); break;
    case IG_MICRO_TOPK: ig_c_micro_topk(micro, target, text); break;
    case IG_MICRO_BLOCKS: ig_c_micro_blocks(micro, target, text); break;
    case IG_MICRO_DEPTHWISE: ig_c_micro_depthwise(micro, target, text); break;
    case IG_MICRO_GROUPED: ig_c_micro_grouped(micro, target, text); break;
    case IG_MICRO_DEPTHWISE_DOTS: ig_c_micro_depthwise_dots(micro, target, text); break;
    case IG_MICRO_NARROW: ig_c_micro_narrow(micro, target, text); break;
    case IG_MICRO_WIDEN: ig_c_micro_widen(micro, target, text); break;
    }
}
