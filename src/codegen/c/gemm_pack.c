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

void ig_c_micro(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text) {
    switch (micro->kind) {
    case IG_MICRO_GEMM: ig_c_micro_gemm(micro, target, text); break;
    case IG_MICRO_PACK: ig_c_micro_pack(micro, target, text); break;
    case IG_MICRO_TOPK: ig_c_micro_topk(micro, target, text); break;
    case IG_MICRO_BLOCKS: ig_c_micro_blocks(micro, target, text); break;
    case IG_MICRO_DEPTHWISE: ig_c_micro_depthwise(micro, target, text); break;
    case IG_MICRO_DEPTHWISE_DOTS: ig_c_micro_depthwise_dots(micro, target, text); break;
    case IG_MICRO_NARROW: ig_c_micro_narrow(micro, target, text); break;
    case IG_MICRO_WIDEN: ig_c_micro_widen(micro, target, text); break;
    }
}
