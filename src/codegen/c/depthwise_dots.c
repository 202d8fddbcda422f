/*
 * The micro-kernel of depthwise convolution of bytes as C, with VNNI: a lane of the sums gains the products of four rows of
 * the window at once. For that, the bytes of four rows of a channel are brought together: a line of 64 (AVX2: 32) channels
 * of each row is loaded, its groups of four channels are put in the order in which two rounds of interleaving within
 * lanes of 16 bytes leave channels in their order, and the interleaved vectors serve every tap that reads this column.
 * Rows that the window lacks are zeros. The whole window is unrolled. Without VNNI it is done otherwise (depthwise_pairs.c).
 */
#include "codegen/c/micro.h"
#include "codegen/c/micro_text.h"

enum { ROWS = 4 };

struct printer {
    const struct ig_micro *m;
    struct ig_text *text;
    int lanes, vectors; /* of the sums; vectors at a time */
};

static void print_order(struct printer *p) {
    int parts = p->lanes / 4;
    ig_text_printf(p->text, "    const %s_v order = {", p->m->name);
    for (int i = 0; i < p->lanes; i++)
        ig_text_printf(p->text, "%s%d", i ? ", " : "", i % 4 * parts + i / 4);
    ig_text_add(p->text, "}, none = {0};\n");
}

/* Interleaves the elements of `bits` in a and b: their low or high halves. */
static void interleave(struct printer *p, const char *to, char half, const char *bits, const char *a, const char *b) {
    ig_text_printf(p->text, "            %s_v %s; %s_unpack(\"%c%s\", %s, %s, %s);\n", p->m->name, to, p->m->name, half,
                   bits, to, a, b);
}

/* The vectors d0 ... of rows first ... of the window at input column s. */
static void print_column(struct printer *p, int first, int64_t s) {
    const struct ig_micro *m = p->m;
    const char *row[ROWS] = {"none", "none", "none", "none"}, *names[ROWS] = {"r0", "r1", "r2", "r3"};
    for (int r = 0; r < ROWS && first + r < m->kh; r++) {
        int64_t at = (first + r) * m->x_row + s * m->x_tap;
        row[r] = names[r];
        ig_text_printf(p->text, "            %s_v r%d; %s_permute(r%d, order, *(const %s_u *)(x + %lld + ch));\n",
                       m->name, r, m->name, r, m->name, (long long)at);
    }
    bool upper = row[2] != row[3];
    for (int h = 0; h < (p->vectors + 1) / 2; h++) {
        char half = h ? 'h' : 'l';
        interleave(p, h ? "h01" : "l01", half, "bw", row[0], row[1]);
        if (upper) interleave(p, h ? "h23" : "l23", half, "bw", row[2], row[3]);
        const char *a = h ? "h01" : "l01", *b = !upper ? "none" : h ? "h23" : "l23";
        interleave(p, h ? "d2" : "d0", 'l', "wd", a, b);
        if (2 * h + 1 < p->vectors) interleave(p, h ? "d3" : "d1", 'h', "wd", a, b);
    }
}

/* All products of the input column s with the taps of `rows` from number `group` on. */
static void print_products(struct printer *p, int columns, int group, int64_t s) {
    const struct ig_micro *m = p->m;
    ig_text_add(p->text, "        {\n");
    print_column(p, ROWS * group, s);
    for (int i = 0; i < columns; i++) {
        for (int t = 0; t < m->kw; t++) {
            if (i * m->x_column + t * m->dilation != s) continue;
            for (int v = 0; v < p->vectors; v++) {
                int64_t at = (group * m->kw + t) * m->w_tap + (int64_t)4 * v * p->lanes;
                ig_text_printf(p->text, "            %s_dot(c%d_%d, d%d, *(const %s_u *)(w + %lld + 4 * ch));\n",
                               m->name, i, v, v, m->name, (long long)at);
            }
        }
    }
    ig_text_add(p->text, "        }\n");
}

static void print_channels(struct printer *p, int columns) {
    const struct ig_micro *m = p->m;
    int64_t last = ig_c_micro_last_column(m, columns);
    for (int i = 0; i < columns; i++) {
        for (int v = 0; v < p->vectors; v++)
            ig_text_printf(p->text, "        %s_v c%d_%d = none;\n", m->name, i, v);
    }
    for (int g = 0; g < (m->kh + ROWS - 1) / ROWS; g++) {
        for (int64_t s = 0; s <= last; s = ig_c_micro_next_column(m, columns, s))
            print_products(p, columns, g, s);
    }
    for (int i = 0; i < columns; i++) {
        for (int v = 0; v < p->vectors; v++)
            ig_text_printf(p->text, "        *(%s_u *)(c + %d + ch) = c%d_%d;\n", m->name, i * m->nr + v * p->lanes, i,
                           v);
    }
}

/* One number of columns: four vectors at a time, then one of the numbers that remain. */
static void print_columns(struct printer *p, int columns) {
    const struct ig_micro *m = p->m;
    int line = ROWS * p->lanes;
    ig_text_printf(
        p->text,
        "static __attribute__((noinline)) void %s_%d(const %s_b *x, const %s_b *w, unsigned *c, long channels) "
        "{\n    long ch = 0;\n",
        m->name, columns, m->name, m->name);
    print_order(p);
    p->vectors = ROWS;
    ig_text_printf(p->text, "    for (; ch + %d <= channels; ch += %d) {\n", line, line);
    print_channels(p, columns);
    ig_text_add(p->text, "    }\n");
    for (int v = ROWS - 1; v > 0; v--) {
        if (!(m->vectors >> v & 1)) continue;
        p->vectors = v;
        ig_text_printf(p->text, "    if (ch + %d == channels) {\n", v * p->lanes);
        print_channels(p, columns);
        ig_text_add(p->text, "    }\n");
    }
    ig_text_add(p->text, "}\n");
}

static void print_all_columns(const struct ig_micro *m, const struct ig_target *target, struct ig_text *text) {
    struct printer p = {.m = m, .text = text, .lanes = ig_micro_lanes(target, m->dtype)};
    const char *in = target->vector_registers >= 32 ? "v" : "x";
    ig_c_micro_dot(m, target, true, text);
    ig_text_printf(
        text,
        "#define %s_permute(d, i, s) __asm__(\"vpermd %%2, %%1, %%0\" : \"=%s\"(d) : \"%s\"(i), \"%sm\"(s))\n"
        "#define %s_unpack(kind, d, a, b) \\\n"
        "    __asm__(\"vpunpck\" kind \" %%2, %%1, %%0\" : \"=%s\"(d) : \"%s\"(a), \"%s\"(b))\n",
        m->name, in, in, in, m->name, in, in, in);
    for (int c = 1; c < 32; c++)
        if (m->rows >> c & 1) print_columns(&p, c);
}

void ig_c_micro_depthwise_dots(const struct ig_micro *m, const struct ig_target *target, struct ig_text *text) {
    ig_c_micro_types(m, target, text);
    if (target->vnni)
        print_all_columns(m, target, text);
    else
        ig_c_micro_depthwise_pairs(m, target, text);
    ig_text_printf(text,
                   "static void %s(long columns, const void *x, const void *w, void *c, long channels) {\n"
                   "    switch (columns) {\n",
                   m->name);
    for (int c = 1; c < 32; c++)
        if (m->rows >> c & 1) ig_text_printf(text, "    case %d: %s_%d(x, w, c, channels); break;\n", c, m->name, c);
    ig_text_add(text, "    default: break;\n    }\n}\n");
}
