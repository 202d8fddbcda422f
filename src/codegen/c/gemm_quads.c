/*
 * The micro-kernel of products of u8 by i8 as C, without VNNI: by vpmaddubsw, which sums the products of two neighbouring
 * bytes in 16 bits, and vpmaddwd by ones, which sums two of these in 32. That is 32 products in three instructions, where
 * f32 has eight in one, but the first sum saturates. It cannot, whatever the bytes of A are, where the sum of two
 * neighbouring weights is from -128 to 128: 255 * 128 fits 16 bits, and weights with different signs never pass it.
 *
 * So what is to be proved concerns the weights alone, and the kernel proves it itself, for each quad of a panel (four steps of
 * the depth, all columns) when the panel is about to meet its rows. It costs a third of what the quad's products with one
 * block of rows do. New weights thus need no other code, and B may be computed by the network too. A list puts the quads
 * that are proved first (ig_c_micro_list), for branches by quads would be mispredicted; the others follow, whose bytes are
 * widened to 16 bits, even and odd ones apart. So are all where there is no list, for few rows.
 */
#include "codegen/c/micro.h"
#include "codegen/c/micro_text.h"

/* NAME_columns: the bytes of some columns. NAME_even, NAME_odd: the even or the odd bytes of the four at `at`, widened, in each
 * lane. They are volatile, so that compilers do not keep them in registers, which the sums fill. */
static void print_halves(const struct ig_micro *m, const struct ig_target *target, struct ig_text *text) {
    const char *n = m->name, *in = target->vector_registers >= 32 ? "v" : "x";
    const char *and = target->vector_registers >= 32 ? "vpandd" : "vpand";
    ig_text_printf(text,
                   "INLINE %s_v %s_columns(const %s_b *at) {\n    %s_v c;\n"
                   "    __asm__ volatile(\"vmovdqu%s %%1, %%0\" : \"=%s\"(c) : \"m\"(*(const %s_u *)at));\n"
                   "    return c;\n}\n",
                   n, n, n, n, target->vector_registers >= 32 ? "32" : "", in, n);
    ig_text_printf(text,
                   "static const unsigned %s_mask[16] __attribute__((aligned(64))) = {[0 ... 15] = 0x00ff00ff};\n"
                   "INLINE %s_s %s_even(const %s_a *at) {\n    %s_s c;\n"
                   "    __asm__ volatile(\"vpbroadcastd %%1, %%0\\n\\t%s %%2, %%0, %%0\"\n"
                   "                     : \"=&%s\"(c) : \"m\"(*(const %s_w *)at), \"m\"(*(const %s_u *)%s_mask));\n   "
                   " return c;\n}\n"
                   "INLINE %s_s %s_odd(const %s_a *at) {\n    %s_s c;\n"
                   "    __asm__ volatile(\"vpbroadcastd %%1, %%0\\n\\tvpsrlw $8, %%0, %%0\" : \"=%s\"(c)\n"
                   "                     : \"m\"(*(const %s_w *)at));\n    return c;\n}\n",
                   n, n, n, n, n, and, in, n, n, n, n, n, n, n, in, n);
}

void ig_c_micro_quads(const struct ig_micro *m, const struct ig_target *target, struct ig_text *text) {
    const char *n = m->name, *in = target->vector_registers >= 32 ? "v" : "x";
    int bytes = target->vector_bytes;
    ig_text_printf(text,
                   "typedef signed char %s_b __attribute__((may_alias));\n"
                   "typedef short %s_s __attribute__((vector_size(%d)));\n"
                   "typedef unsigned short %s_t __attribute__((vector_size(%d)));\n"
                   "INLINE %s_v %s_pairs(%s_s a, %s_s b) {\n    %s_v c;\n"
                   "    __asm__(\"vpmaddwd %%2, %%1, %%0\" : \"=%s\"(c) : \"%s\"(a), \"%s\"(b));\n    return c;\n}\n",
                   n, n, bytes, n, bytes, n, n, n, n, n, in, in, in);
    print_halves(m, target, text);
    if (m->listed)
        ig_text_printf(text,
                       "INLINE %s_s %s_bytes(%s_v a, const %s_b *b) {\n    %s_s c;\n"
                       "    __asm__(\"vpmaddubsw %%2, %%1, %%0\" : \"=%s\"(c) : \"%s\"(a), \"m\"(*(const %s_u *)b));\n"
                       "    return c;\n}\n",
                       n, n, n, n, n, in, in, n);
}

/* Where the four bytes of row r at step 4 * q are. */
static const char *four(const struct ig_micro *m, int r, struct ig_job *job) {
    if (m->lda) return ig_format(job, "a + 4 * q + %lld", (long long)r * m->lda);
    return ig_format(job, "a%d + 4 * q + %d * lda", r / 3 * 3, r % 3);
}

static void print_begin(const struct ig_micro *m, const char *end, struct ig_text *text) {
    ig_text_printf(text, "    for (; i < %s; i++) {\n        const long q = %s;\n        const %s_b *y = b + q * %d;\n",
                   end, m->listed ? "list[1 + i]" : "i", m->name, 4 * m->nr);
    for (int at = 0; m->prefetch && at < 4 * m->nr; at += 64)
        ig_text_printf(text, "        __builtin_prefetch(y + %lld);\n", (long long)m->prefetch + at);
}

static void print_proved(const struct ig_micro *m, int rows, int vectors, int lanes, struct ig_text *text) {
    ig_text_printf(text, "    const %s_s ones = (%s_s){0} + 1;\n", m->name, m->name);
    print_begin(m, "list[0]", text);
    for (int r = 0; r < rows; r++) {
        ig_text_printf(text, "        const %s_v a_%d = %s_each(%s);\n", m->name, r, m->name, four(m, r, text->job));
        for (int v = 0; v < vectors; v++)
            ig_text_printf(text, "        c0_%d_%d += %s_pairs(%s_bytes(a_%d, y + %d), ones);\n", r, v, m->name,
                           m->name, r, 4 * v * lanes);
    }
    ig_text_add(text, "    }\n");
}

/* The products of the even or the odd bytes. Each half loads what it takes, as there are no registers to keep it. */
static void print_half(const struct ig_micro *m, bool odd, int rows, int vectors, int lanes, struct ig_text *text) {
    const char *n = m->name, *half = odd ? "odd" : "even";
    ig_text_add(text, "        {\n");
    for (int v = 0; v < vectors; v++) {
        const char *from = ig_format(text->job, "%s_columns(y + %d)", n, 4 * v * lanes);
        if (odd)
            ig_text_printf(text, "            const %s_s b%d = (%s_s)%s >> 8;\n", n, v, n, from);
        else
            ig_text_printf(text, "            const %s_s b%d = (%s_s)((%s_t)%s << 8) >> 8;\n", n, v, n, n, from);
    }
    for (int r = 0; r < rows; r++) {
        ig_text_printf(text, "            const %s_s a_%d = %s_%s(%s);\n", n, r, n, half, four(m, r, text->job));
        for (int v = 0; v < vectors; v++)
            ig_text_printf(text, "            c0_%d_%d += %s_pairs(a_%d, b%d);\n", r, v, n, r, v);
    }
    ig_text_add(text, "        }\n");
}

/* Between the halves, compilers are kept from adding up the products of both before they add them to the sums. */
static void print_widened(const struct ig_micro *m, bool wide, int rows, int vectors, int lanes, struct ig_text *text) {
    print_begin(m, "k / 4", text);
    print_half(m, false, rows, vectors, lanes, text);
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            ig_text_printf(text, "        __asm__(\"\" : \"+%s\"(c0_%d_%d));\n", wide ? "v" : "x", r, v);
    print_half(m, true, rows, vectors, lanes, text);
    ig_text_add(text, "    }\n");
}

void ig_c_micro_quads_walk(const struct ig_micro *m, const struct ig_target *target, int rows, int vectors,
                           struct ig_text *text) {
    int lanes = ig_micro_lanes(target, m->dtype);
    ig_text_add(text, "    long i = 0;\n");
    if (m->listed) print_proved(m, rows, vectors, lanes, text);
    print_widened(m, target->vector_registers >= 32, rows, vectors, lanes, text);
}

/* Both ends of the list grow towards each other, and the number that is stored at the wrong one is overwritten later. */
void ig_c_micro_list(const struct ig_micro *m, const struct ig_target *target, struct ig_text *text) {
    const char *n = m->name, *in = target->vector_registers >= 32 ? "v" : "x";
    int bytes = target->vector_bytes;
    ig_text_printf(text,
                   "typedef signed char %s_b __attribute__((may_alias));\n"
                   "typedef unsigned char %s_v __attribute__((vector_size(%d)));\n"
                   "typedef unsigned char %s_u __attribute__((vector_size(%d), aligned(1), may_alias));\n"
                   "typedef short %s_s __attribute__((vector_size(%d)));\n"
                   "typedef long long %s_q __attribute__((vector_size(%d)));\n"
                   "INLINE %s_q %s_fails(const %s_b *b) {\n    %s_s sum;\n    const %s_v ones = (%s_v){0} + 1;\n"
                   "    __asm__(\"vpmaddubsw %%2, %%1, %%0\" : \"=%s\"(sum) : \"%s\"(ones), \"m\"(*(const %s_u *)b));\n"
                   "    return (%s_q)((sum > 128) | (sum < -128));\n}\n",
                   n, n, bytes, n, bytes, n, bytes, n, bytes, n, n, n, n, n, n, in, in, n, n);
    ig_text_printf(text,
                   "static void %s(const void *b_bytes, long k, void *list_bytes) {\n"
                   "    const %s_b *b = b_bytes;\n    unsigned short *list = list_bytes;\n"
                   "    long n = k / 4, proved = 0, left = n;\n"
                   "    for (long q = 0; q < n; q++, b += %d) {\n        const %s_q fails = %s_fails(b)",
                   n, n, 4 * m->nr, n, n);
    for (int at = bytes; at < 4 * m->nr; at += bytes)
        ig_text_printf(text, " | %s_fails(b + %d)", n, at);
    ig_text_add(text, ";\n        const long holds = !(fails[0]");
    for (int i = 1; i < bytes / 8; i++)
        ig_text_printf(text, " | fails[%d]", i);
    ig_text_add(text,
                ");\n        list[1 + proved] = (unsigned short)q;\n        list[left] = (unsigned short)q;\n"
                "        proved += holds;\n        left -= !holds;\n    }\n    list[0] = (unsigned short)proved;\n}\n");
}
