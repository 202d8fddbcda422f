/*
 * The micro-kernel of depthwise convolution of bytes as C, without VNNI: a vector of channels at a time, of which a lane of the
 * sums gains the products of two rows of the window by vpmaddwd, exactly. Packed weights have four rows of a channel side
 * by side; their even and their odd bytes, widened, are the weights of rows 0 and 2 and of rows 1 and 3. They stay in
 * registers for all columns, whose bytes are brought together likewise. Rows that the window lacks take no instructions.
 */
#include "codegen/c/micro.h"
#include "codegen/c/micro_text.h"

enum { ROWS = 4 };

/* NAME_one: bytes of one row in 32 bits each; NAME_two: of two, in 16 bits each, in turns. */
static void print_readers(const struct ig_micro *m, const struct ig_target *target, struct ig_text *text) {
    bool wide = target->vector_registers >= 32;
    const char *n = m->name, *in = wide ? "v" : "x";
    ig_text_printf(text,
                   "typedef unsigned char %s_b __attribute__((may_alias));\n"
                   "typedef short %s_s __attribute__((vector_size(%d)));\n"
                   "typedef unsigned short %s_t __attribute__((vector_size(%d)));\n"
                   "typedef char %s_q __attribute__((vector_size(%d), aligned(1), may_alias));\n"
                   "INLINE %s_v %s_one(const %s_b *x) {\n    %s_v c;\n"
                   "    __asm__(\"vpmovzxbd %%1, %%0\" : \"=%s\"(c) : \"m\"(*(const %s_q *)x));\n    return c;\n}\n"
                   "#define %s_add(c, a, b) \\\n    do { \\\n        %s_v sum; \\\n"
                   "        __asm__(\"vpmaddwd %%2, %%1, %%0\" : \"=%s\"(sum) : \"%s\"(a), \"%sm\"(b)); \\\n"
                   "        c += sum; \\\n    } while (0)\n",
                   n, n, target->vector_bytes, n, target->vector_bytes, n, target->vector_bytes / 4, n, n, n, n, in, n,
                   n, n, in, in, in);
    if (wide)
        ig_text_printf(
            text, "INLINE %s_v %s_two(const %s_b *x, const %s_b *y) {\n    return %s_one(x) | %s_one(y) << 16;\n}\n", n,
            n, n, n, n, n);
    else
        ig_text_printf(text,
                       "typedef char %s_h __attribute__((vector_size(16)));\n"
                       "INLINE %s_v %s_two(const %s_b *x, const %s_b *y) {\n    %s_h low, high;\n    %s_v c;\n"
                       "    __asm__(\"vmovq %%1, %%0\" : \"=x\"(low) : \"m\"(*(const %s_q *)x));\n"
                       "    __asm__(\"vmovq %%1, %%0\" : \"=x\"(high) : \"m\"(*(const %s_q *)y));\n"
                       "    __asm__(\"vpunpcklbw %%2, %%1, %%0\" : \"=x\"(low) : \"x\"(low), \"x\"(high));\n"
                       "    __asm__(\"vpmovzxbw %%1, %%0\" : \"=x\"(c) : \"x\"(low));\n    return c;\n}\n",
                       n, n, n, n, n, n, n, n, n);
}

/* Is a row of the group in the window? */
static bool exists(const struct ig_micro *m, int group, int row) {
    return ROWS * group + row < m->kh;
}

static void print_weights(const struct ig_micro *m, int group, int64_t tap, struct ig_text *text) {
    const char *n = m->name;
    ig_text_printf(text, "            const %s_v w%lld = *(const %s_u *)(w + %lld + 4 * ch);\n", n, (long long)tap, n,
                   ((long long)group * m->kw + tap) * m->w_tap);
    ig_text_printf(text, "            const %s_s e%lld = (%s_s)((%s_t)w%lld << 8) >> 8;\n", n, (long long)tap, n, n,
                   (long long)tap);
    if (exists(m, group, 1))
        ig_text_printf(text, "            const %s_s o%lld = (%s_s)w%lld >> 8;\n", n, (long long)tap, n,
                       (long long)tap);
}

/* The bytes of rows `first` and first + 2 of a group at input column s. */
static void print_bytes(const struct ig_micro *m, char name, int group, int first, int64_t s, struct ig_text *text) {
    const char *n = m->name;
    int64_t at = (ROWS * group + first) * m->x_row + s * m->x_tap;
    if (exists(m, group, first + 2))
        ig_text_printf(text, "                const %s_v %c = %s_two(x + %lld + ch, x + %lld + ch);\n", n, name, n,
                       (long long)at, (long long)at + 2LL * m->x_row);
    else
        ig_text_printf(text, "                const %s_v %c = %s_one(x + %lld + ch);\n", n, name, n, (long long)at);
}

/* All products of input column s with the taps of a group of rows. */
static void print_column(const struct ig_micro *m, int columns, int group, int64_t s, struct ig_text *text) {
    bool odd = exists(m, group, 1);
    ig_text_add(text, "            {\n");
    print_bytes(m, 'a', group, 0, s, text);
    if (odd) print_bytes(m, 'b', group, 1, s, text);
    for (int i = 0; i < columns; i++) {
        for (int64_t t = 0; t < m->kw; t++) {
            if (i * m->x_column + t * m->dilation != s) continue;
            ig_text_printf(text, "                %s_add(c%d, a, e%lld);\n", m->name, i, (long long)t);
            if (odd) ig_text_printf(text, "                %s_add(c%d, b, o%lld);\n", m->name, i, (long long)t);
        }
    }
    ig_text_add(text, "            }\n");
}

static void print_columns(const struct ig_micro *m, const struct ig_target *target, int columns, struct ig_text *text) {
    const char *n = m->name;
    int lanes = ig_micro_lanes(target, m->dtype);
    int64_t last = ig_c_micro_last_column(m, columns);
    ig_text_printf(
        text,
        "static __attribute__((noinline)) void %s_%d(const %s_b *x, const %s_b *w, unsigned *c, long channels) "
        "{\n    for (long ch = 0; ch < channels; ch += %d) {\n",
        n, columns, n, n, lanes);
    for (int i = 0; i < columns; i++)
        ig_text_printf(text, "        %s_v c%d = {0};\n", n, i);
    for (int g = 0; ROWS * g < m->kh; g++) {
        ig_text_add(text, "        {\n");
        for (int64_t t = 0; t < m->kw; t++)
            print_weights(m, g, t, text);
        for (int64_t s = 0; s <= last; s = ig_c_micro_next_column(m, columns, s))
            print_column(m, columns, g, s, text);
        ig_text_add(text, "        }\n");
    }
    for (int i = 0; i < columns; i++)
        ig_text_printf(text, "        *(%s_u *)(c + %d + ch) = c%d;\n", n, i * m->nr, i);
    ig_text_add(text, "    }\n}\n");
}

void ig_c_micro_depthwise_pairs(const struct ig_micro *m, const struct ig_target *target, struct ig_text *text) {
    print_readers(m, target, text);
    for (int c = 1; c < 32; c++)
        if (m->rows >> c & 1) print_columns(m, target, c, text);
}
