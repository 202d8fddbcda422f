/*
 * The micro-kernel of contractions on AMX as C: 2 x 2 tiles of 16 x 16 sums, so that each tile of A and of B that is loaded
 * serves two products. Rows of A are read from where they lie, in steps that are as long as the tiles' rows; the packed
 * panels of B are tiles as they are. Blocks have 16 to 32 rows: the second tile begins 16 rows before the block's end, and
 * does those that it shares with the first once more, with the same result.
 *
 * Tiles are configured when a call of the kernel begins, all of them for this kernel, and given up at its end. Source:
 * Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18 (Programming with Intel AMX).
 */
#include "codegen/c/micro.h"
#include "codegen/c/micro_text.h"

enum { TILE = 16, LINE = 64 }; /* rows of a tile, bytes of a row */

/* Tiles 0 to 3 are the sums, by rows and then columns; 4 and 5 are of A, 6 and 7 of B. */
static void print_configuration(const struct ig_micro *m, struct ig_text *text) {
    ig_text_printf(
        text,
        "static const struct {\n    unsigned char palette, start, reserved[14];\n    unsigned short bytes[16];\n"
        "    unsigned char rows[16];\n} %s_tiles __attribute__((aligned(64))) = {\n",
        m->name);
    int a = 4 * m->tile_groups, rows = m->tile_groups;
    ig_text_printf(text, "    1, 0, {0}, {%d, %d, %d, %d, %d, %d, %d, %d}, {%d, %d, %d, %d, %d, %d, %d, %d}\n};\n",
                   LINE, LINE, LINE, LINE, a, a, LINE, LINE, TILE, TILE, TILE, TILE, TILE, TILE, rows, rows);
    ig_text_printf(text,
                   "INLINE void %s_begin(void) { __asm__ volatile(\"ldtilecfg %%0\" : : \"m\"(%s_tiles)); }\n"
                   "INLINE void %s_end(void) { __asm__ volatile(\"tilerelease\"); }\n",
                   m->name, m->name, m->name);
    ig_text_printf(
        text,
        "#define %s_load(tile, at, stride) \\\n"
        "    __asm__ volatile(\"tileloadd (%%0,%%1,1), %%%%tmm\" #tile : : \"r\"(at), \"r\"((long)(stride)) : "
        "\"memory\")\n"
        "#define %s_store(tile, at, stride) \\\n"
        "    __asm__ volatile(\"tilestored %%%%tmm\" #tile \", (%%0,%%1,1)\" : : \"r\"(at), \"r\"((long)(stride)) : "
        "\"memory\")\n"
        "#define %s_zero(tile) __asm__ volatile(\"tilezero %%%%tmm\" #tile : :)\n"
        "#define %s_add(c, a, b) __asm__ volatile(\"%s %%%%tmm\" #b \", %%%%tmm\" #a \", %%%%tmm\" #c : :)\n",
        m->name, m->name, m->name, m->name, m->together == 4 ? "tdpbusd" : "tdpbf16ps");
}

/* Prefetches what is due in a step, into the second cache: a line of each stretch in turns. */
void ig_c_micro_tile_fetches(const struct ig_micro *m, struct ig_text *text) {
    if (!m->rate) return;
    int64_t lines = (m->rate * m->tile_groups * m->together + LINE - 1) / LINE;
    ig_text_printf(text,
                   "        for (int i = 0; i < %lld; i++) {\n"
                   "            __builtin_prefetch(next + stretch * %lld, 0, 2);\n"
                   "            if (++stretch == %lld) stretch = 0, next += %d;\n        }\n",
                   (long long)lines, (long long)m->stretch, (long long)m->stretches, LINE);
}

static void print_block(const struct ig_micro *m, int halves, int vectors, struct ig_text *text) {
    const char *n = m->name;
    int line = 4 * m->nr, step = m->tile_groups * m->together;
    ig_text_printf(
        text,
        "static __attribute__((noinline)) void %s_tiles_%dx%d(const %s_a *a, long lda, const %s_b *b, %s_e *c, long "
        "k,\n"
        "    long first, long second%s) {\n    const %s_a *low = a + second * lda;\n    %s_e *under = c + second * "
        "%d;\n"
        "    (void)low, (void)under;\n%s    if (first) {\n",
        n, halves, vectors, n, n, n, m->rate ? ", const char *next" : "", n, n, m->nr,
        m->rate ? "    long stretch = 0;\n" : "");
    for (int h = 0; h < halves; h++)
        for (int v = 0; v < vectors; v++)
            ig_text_printf(text, "        %s_zero(%d);\n", n, 2 * h + v);
    ig_text_add(text, "    } else {\n");
    for (int h = 0; h < halves; h++)
        for (int v = 0; v < vectors; v++)
            ig_text_printf(text, "        %s_load(%d, %s + %d, %d);\n", n, 2 * h + v, h ? "under" : "c", v * TILE,
                           line);
    ig_text_add(text, "    }\n");
    if (m->segments > 1) ig_text_printf(text, "    for (long s = 0; s < %lld; s++) {\n", (long long)m->segments);
    ig_text_printf(text, "    for (long p = 0; p < k; p += %d) {\n", step);
    ig_text_printf(text, "        %s_load(4, a + p, lda * sizeof *a);\n", n);
    for (int v = 0; v < vectors; v++) {
        ig_text_printf(text, "        %s_load(%d, b + p * %d + %d, %d);\n", n, 6 + v, m->nr, v * TILE * m->together,
                       line);
        ig_text_printf(text, "        %s_add(%d, 4, %d);\n", n, v, 6 + v);
    }
    if (halves == 2) {
        ig_text_printf(text, "        %s_load(5, low + p, lda * sizeof *a);\n", n);
        for (int v = 0; v < vectors; v++)
            ig_text_printf(text, "        %s_add(%d, 5, %d);\n", n, 2 + v, 6 + v);
    }
    ig_c_micro_tile_fetches(m, text);
    ig_text_add(text, "    }\n");
    if (m->segments > 1)
        ig_text_printf(text, "    a += %lld;\n    low += %lld;\n    b += k * %d;\n    }\n", (long long)m->jump,
                       (long long)m->jump, m->nr);
    for (int h = 0; h < halves; h++)
        for (int v = 0; v < vectors; v++)
            ig_text_printf(text, "    %s_store(%d, %s + %d, %d);\n", n, 2 * h + v, h ? "under" : "c", v * TILE, line);
    ig_text_add(text, "}\n");
}

void ig_c_micro_tiles(const struct ig_micro *m, struct ig_text *text) {
    print_configuration(m, text);
    for (int halves = 1; halves <= 2; halves++)
        for (int v = 1; v <= 2; v++)
            if (m->vectors >> v & 1) (m->parts ? ig_c_micro_parts_block : print_block)(m, halves, v, text);
}

void ig_c_micro_tiles_dispatch(const struct ig_micro *m, struct ig_text *text) {
    ig_text_printf(text, "    if (rows >= %d) {\n", TILE);
    for (int v = 1; v <= 2; v++) {
        if (!(m->vectors >> v & 1)) continue;
        for (int halves = 1; halves <= 2; halves++)
            ig_text_printf(
                text, "        if (vectors == %d && rows %s %d) %s_tiles_%dx%d(a, lda, b, c, k, first, rows - %d%s);\n",
                v, halves == 1 ? "==" : ">", TILE, m->name, halves, v, TILE, m->rate ? ", next" : "");
    }
    ig_text_add(text, "        return;\n    }\n");
}
