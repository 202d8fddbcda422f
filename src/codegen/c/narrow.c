/*
 * Lines of f32 to bytes as C: clamped, rounded where a quantisation does that, or truncated, and stored 16 at a time.
 * Compilers do not find the instructions that narrow vectors, so loops that end in a cast to bytes are left with a line of
 * floats, and this does the rest. A quantisation adds its zero point behind the rounding; its bounds are whole numbers, so
 * that they may be enforced before it, and the conversion to integers rounds.
 */
#include "codegen/c/micro.h"
#include "codegen/c/micro_text.h"

/* Instructions for the larger and the smaller of two vectors, the second where one is NaN. */
static void print_types(const struct ig_micro *m, const struct ig_target *target, struct ig_text *text) {
    bool wide = target->vector_registers >= 32;
    int bytes = wide ? 64 : 32;
    const char *n = m->name, *in = wide ? "v" : "x";
    ig_text_printf(text,
                   "typedef %s char %s_b __attribute__((may_alias));\n"
                   "typedef float %s_f __attribute__((vector_size(%d)));\n"
                   "typedef float %s_u __attribute__((vector_size(%d), aligned(4), may_alias));\n"
                   "typedef int %s_i __attribute__((vector_size(%d)));\n"
                   "typedef char %s_q __attribute__((vector_size(16), aligned(1), may_alias));\n",
                   m->dtype == INGOT_U8 ? "unsigned" : "signed", n, n, bytes, n, bytes, n, bytes, n);
    ig_text_printf(text,
                   "INLINE %s_i %s_whole(const float *from, int zero) {\n    %s_f x = *(const %s_u *)from;\n"
                   "    const %s_f none = {0}, low = none + (float)(%d - zero), high = none + (float)(%d - zero);\n",
                   n, n, n, n, n, m->dtype == INGOT_U8 ? 0 : -128, m->dtype == INGOT_U8 ? 255 : 127);
    if (m->dtype == INGOT_I8) /* NaN gives 0; the smaller bound otherwise */
        ig_text_printf(text,
                       "    const %s_i number = x == x;\n"
                       "    x = (%s_f)(((%s_i)x & number) | ((%s_i)(none - (float)zero) & ~number));\n",
                       n, n, n, n);
    ig_text_printf(text,
                   "    __asm__(\"vmaxps %%2, %%1, %%0\" : \"=%s\"(x) : \"%s\"(x), \"%s\"(low));\n"
                   "    __asm__(\"vminps %%2, %%1, %%0\" : \"=%s\"(x) : \"%s\"(x), \"%s\"(high));\n",
                   in, in, in, in, in, in);
    if (m->rounds)
        ig_text_printf(
            text,
            "    %s_i whole;\n"
            "    __asm__(\"vcvtps2dq %%1, %%0\" : \"=%s\"(whole) : \"%s\"(x));\n    return whole + zero;\n}\n",
            n, in, in);
    else
        ig_text_printf(text, "    return __builtin_convertvector(x, %s_i);\n}\n", n);
}

static void print_wide(const struct ig_micro *m, struct ig_text *text) {
    ig_text_printf(
        text,
        "    for (; i + 16 <= n; i += 16)\n"
        "        __asm__(\"vpmovdb %%1, %%0\" : \"=m\"(*(%s_q *)(to + i)) : \"v\"(%s_whole(from + i, zero)));\n"
        "    const unsigned short mask = (unsigned short)((1u << (n - i)) - 1);\n"
        "    if (i < n)\n"
        "        __asm__(\"vpmovdb %%1, %%0%%{%%2%%}\" : \"+m\"(*(%s_q *)(to + i))\n"
        "                : \"v\"(%s_whole(from + i, zero)), \"Yk\"(mask));\n",
        m->name, m->name, m->name, m->name);
}

static void print_packed(const struct ig_micro *m, struct ig_text *text) {
    const char *n = m->name;
    ig_text_printf(
        text,
        "    typedef short shorts __attribute__((vector_size(32)));\n"
        "    for (; i < n; i += 16) {\n"
        "        const shorts half = (shorts)__builtin_ia32_packssdw256(%s_whole(from + i, zero), "
        "%s_whole(from + i + 8, zero));\n"
        "        const %s_i both = (%s_i)__builtin_ia32_pack%swb256(half, half);\n"
        "        const int four __attribute__((vector_size(16))) = __builtin_shufflevector(both, both, 0, 4, 1, 5);\n"
        "        if (i + 16 <= n) {\n"
        "            *(%s_q *)(to + i) = (%s_q)four;\n"
        "        } else {\n"
        "            const %s_b *rest = (const %s_b *)&four;\n"
        "            for (long j = i; j < n; j++) to[j] = rest[j - i];\n"
        "        }\n"
        "    }\n",
        n, n, n, n, m->dtype == INGOT_U8 ? "us" : "ss", n, n, n, n);
}

/* To bf16, of which AMX targets have the conversion. */
static void print_halves(const struct ig_micro *m, struct ig_text *text) {
    const char *n = m->name;
    ig_text_printf(text,
                   "typedef float %s_f __attribute__((vector_size(64), aligned(4), may_alias));\n"
                   "typedef short %s_q __attribute__((vector_size(32), aligned(2), may_alias));\n"
                   "INLINE void %s(const float *from, void *to_bytes, long n, long zero) {\n"
                   "    short *to = to_bytes;\n    (void)zero;\n"
                   "    for (long i = 0; i < n; i += 16) {\n        %s_q halves;\n"
                   "        __asm__(\"vcvtneps2bf16 %%1, %%0\" : \"=v\"(halves) : \"v\"(*(const %s_f *)(from + i)));\n"
                   "        const unsigned short mask = (unsigned short)(n - i >= 16 ? -1 : (1 << (n - i)) - 1);\n"
                   "        if (n - i >= 16)\n            *(%s_q *)(to + i) = halves;\n"
                   "        else\n"
                   "            __asm__(\"vmovdqu16 %%1, %%0%%{%%2%%}\" : \"+m\"(*(%s_q *)(to + i)) : \"v\"(halves), "
                   "\"Yk\"(mask));\n"
                   "    }\n}\n",
                   n, n, n, n, n, n, n);
}

void ig_c_micro_narrow(const struct ig_micro *m, const struct ig_target *target, struct ig_text *text) {
    if (m->dtype == INGOT_BF16) {
        print_halves(m, text);
        return;
    }
    print_types(m, target, text);
    ig_text_printf(text,
                   "INLINE void %s(const float *from, void *to_bytes, long n, long zero) {\n    %s_b *to = to_bytes;\n "
                   "   long i = 0;\n",
                   m->name, m->name);
    if (target->vector_registers >= 32)
        print_wide(m, text);
    else
        print_packed(m, text);
    ig_text_add(text, "}\n");
}

/* Bytes to floats: 16 (AVX2: 8) at a time, the rest under a mask (AVX2: one by one). */
void ig_c_micro_widen(const struct ig_micro *m, const struct ig_target *target, struct ig_text *text) {
    bool wide = target->vector_registers >= 32;
    int lanes = wide ? 16 : 8;
    const char *n = m->name, *extend = m->dtype == INGOT_U8 ? "vpmovzxbd" : "vpmovsxbd";
    ig_text_printf(text,
                   "typedef %s char %s_b __attribute__((may_alias));\n"
                   "typedef char %s_q __attribute__((vector_size(%d), aligned(1), may_alias));\n"
                   "typedef int %s_i __attribute__((vector_size(%d)));\n"
                   "typedef float %s_f __attribute__((vector_size(%d)));\n"
                   "typedef float %s_u __attribute__((vector_size(%d), aligned(4), may_alias));\n"
                   "INLINE void %s(const void *from_bytes, float *to, long n) {\n"
                   "    const %s_b *from = from_bytes;\n    %s_i whole;\n    long i = 0;\n"
                   "    for (; i + %d <= n; i += %d) {\n"
                   "        __asm__(\"%s %%1, %%0\" : \"=%s\"(whole) : \"m\"(*(const %s_q *)(from + i)));\n"
                   "        *(%s_u *)(to + i) = __builtin_convertvector(whole, %s_f);\n    }\n",
                   m->dtype == INGOT_U8 ? "unsigned" : "signed", n, n, lanes, n, 4 * lanes, n, 4 * lanes, n, 4 * lanes,
                   n, n, n, lanes, lanes, extend, wide ? "v" : "x", n, n, n);
    if (wide)
        ig_text_printf(text,
                       "    const unsigned short mask = (unsigned short)((1u << (n - i)) - 1);\n"
                       "    if (i < n) {\n"
                       "        __asm__(\"%s %%1, %%0%%{%%2%%}%%{z%%}\" : \"=v\"(whole)\n"
                       "                : \"m\"(*(const %s_q *)(from + i)), \"Yk\"(mask));\n"
                       "        *(%s_u *)(to + i) = __builtin_convertvector(whole, %s_f);\n    }\n}\n",
                       extend, n, n, n);
    else
        ig_text_add(text, "    for (; i < n; i++) to[i] = (float)from[i];\n}\n");
}
