/*
 * Products of f32 on AMX, whose tiles multiply bf16, as C. An f32 is the sum of three bf16 of 8 bits each: it rounded, the
 * upper bits of what that leaves, and what is left then: x = x1 + x2 + x3 exactly. Of the nine products of such sums the six largest are
 * added up, x1 y1 last among them; each of the others is at most 2^-24 of the product, which is what rounding an f32 product costs.
 * Tiles take bf16 16 times as fast as vectors take f32. (Henry, Tang and Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype
 * For Higher-Precision Computations", 2019.)
 *
 * Parts of less than 2^-126 are zero for the tiles. An infinity's other parts are NaN, and so are sums of its products: who
 * calls computes these again.
 */
#include "codegen/c/micro.h"
#include "codegen/c/micro_text.h"

enum { TILE = 16, PARTS = 3, LINE = 64, PART = TILE * 2 * TILE }; /* PART: bf16 of a tile */

/* The order of the products, smallest first, with what is loaded before each: a tile is in use for as long as it can be. */
static const struct {
    int a, b; /* parts, from 0 on */
    bool loads_a, loads_b;
} turns[] = {{2, 0, true, true},  {1, 0, true, false}, {1, 1, false, true},
             {0, 1, true, false}, {0, 2, false, true}, {0, 0, false, true}};

/* One of the six products, of all tiles. */
static void print_turn(const struct ig_micro *m, int turn, int halves, int vectors, struct ig_text *text) {
    const char *n = m->name;
    int a = turns[turn].a * PART, b = turns[turn].b * 2 * PART;
    for (int h = 0; h < halves; h++) {
        if (turns[turn].loads_a)
            ig_text_printf(text, "        %s_load(%d, a + %d, %d);\n", n, 4 + h, h * PARTS * PART + a, LINE);
        for (int v = 0; v < vectors; v++) {
            if (turns[turn].loads_b && h == 0)
                ig_text_printf(text, "        %s_load(%d, b + %d, %d);\n", n, 6 + v, b + v * 2 * TILE, 2 * LINE);
            ig_text_printf(text, "        %s_add(%d, %d, %d);\n", n, 2 * h + v, 4 + h, 6 + v);
        }
    }
}

void ig_c_micro_parts_block(const struct ig_micro *m, int halves, int vectors, struct ig_text *text) {
    const char *n = m->name;
    int line = 4 * m->nr;
    ig_text_printf(
        text,
        "static __attribute__((noinline)) void %s_tiles_%dx%d(const %s_a *a, long lda, const %s_b *b, %s_e *c, "
        "long k,\n    long first, long second%s) {\n"
        "    %s_e *under = c + second * %d;\n    (void)lda, (void)under;\n%s    if (first) {\n",
        n, halves, vectors, n, n, n, m->rate ? ", const char *next" : "", n, m->nr,
        m->rate ? "    long stretch = 0;\n" : "");
    for (int i = 0; i < halves * vectors; i++)
        ig_text_printf(text, "        %s_zero(%d);\n", n, i / vectors * 2 + i % vectors);
    ig_text_add(text, "    } else {\n");
    for (int i = 0; i < halves * vectors; i++)
        ig_text_printf(text, "        %s_load(%d, %s + %d, %d);\n", n, i / vectors * 2 + i % vectors,
                       i / vectors ? "under" : "c", i % vectors * TILE, line);
    ig_text_printf(text, "    }\n    for (long p = 0; p < k; p += %d, a += %d, b += %d) {\n", IG_MICRO_PIECE,
                   IG_MICRO_PIECE_ELEMENTS, IG_MICRO_PIECE_ELEMENTS);
    for (int turn = 0; turn < (int)(sizeof turns / sizeof *turns); turn++)
        print_turn(m, turn, halves, vectors, text);
    ig_c_micro_tile_fetches(m, text);
    ig_text_add(text, "    }\n");
    for (int i = 0; i < halves * vectors; i++)
        ig_text_printf(text, "    %s_store(%d, %s + %d, %d);\n", n, i / vectors * 2 + i % vectors,
                       i / vectors ? "under" : "c", i % vectors * TILE, line);
    ig_text_add(text, "}\n");
}

/* NAME_split: the parts of two vectors, of whose lanes those of `other` become the second ones of pairs; each part `apart` elements behind
 * the one before. The second part is cut off instead of rounded: what is left still fits the third, and is below 2^-16. */
static void print_split(const struct ig_micro *m, int apart, struct ig_text *text) {
    const char *n = m->name;
    ig_text_printf(text,
                   "typedef float %s_f __attribute__((vector_size(64)));\n"
                   "typedef float %s_u __attribute__((vector_size(64), aligned(4), may_alias));\n"
                   "typedef unsigned %s_i __attribute__((vector_size(64)));\n"
                   "typedef unsigned %s_p __attribute__((vector_size(64), may_alias));\n"
                   "INLINE %s_f %s_cut(%s_i x) { return (%s_f)(x & 0xffff0000); }\n"
                   "INLINE void %s_put(%s_f x, %s_f y, unsigned short *to) {\n"
                   "    *(%s_p *)to = (%s_i)x >> 16 | (%s_i)y;\n}\n",
                   n, n, n, n, n, n, n, n, n, n, n, n, n, n);
    ig_text_printf(text,
                   "INLINE void %s_split(const float *from, const float *other, unsigned short *to) {\n"
                   "    const %s_f x = *(const %s_u *)from, y = *(const %s_u *)other;\n"
                   "    const %s_f x1 = %s_cut((%s_i)x + 0x8000), y1 = %s_cut((%s_i)y + 0x8000);\n"
                   "    const %s_f x2 = %s_cut((%s_i)(x - x1)), y2 = %s_cut((%s_i)(y - y1));\n"
                   "    %s_put(x1, y1, to);\n    %s_put(x2, y2, to + %d);\n"
                   "    %s_put(x - x1 - x2, y - y1 - y2, to + %d);\n}\n",
                   n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, apart, n, 2 * apart);
}

void ig_c_micro_row_parts(const struct ig_micro *m, struct ig_text *text) {
    const char *n = m->name;
    print_split(m, PART, text);
    ig_text_printf(text,
                   "INLINE void %s_tile(const float *from, long ld, unsigned short *to, long k) {\n"
                   "    for (long p = 0; p < k; p += %d, from += %d, to += %d) {\n"
                   "        for (long r = 0; r < %d; r++) {\n"
                   "            const float *at = from + r * ld;\n"
                   "            float rest[%d];\n"
                   "            if (k - p < %d) {\n"
                   "                for (long i = 0; i < %d; i++) rest[i] = p + i < k ? at[i] : 0;\n"
                   "                at = rest;\n            }\n"
                   "            %s_split(at, at + %d, to + r * %d);\n        }\n    }\n}\n",
                   n, IG_MICRO_PIECE, IG_MICRO_PIECE, IG_MICRO_PIECE_ELEMENTS, TILE, IG_MICRO_PIECE, IG_MICRO_PIECE,
                   IG_MICRO_PIECE, n, TILE, 2 * TILE);
    ig_text_printf(text,
                   "static void %s(long rows, const float *from, long ld, void *to_bytes, long k) {\n"
                   "    unsigned short *to = to_bytes;\n"
                   "    %s_tile(from, ld, to, k);\n"
                   "    if (rows > %d) %s_tile(from + (rows - %d) * ld, ld, to + %d, k);\n}\n",
                   n, n, TILE, n, TILE, PARTS * PART);
}

void ig_c_micro_column_parts(const struct ig_micro *m, struct ig_text *text) {
    const char *n = m->name;
    print_split(m, 2 * PART, text);
    ig_text_printf(text,
                   "static void %s(const float *from, void *to_bytes, long k) {\n"
                   "    static const float none[%d];\n    unsigned short *to = to_bytes;\n"
                   "    for (long p = 0; p < k; p += %d, from += %d * %d, to += %d) {\n"
                   "        for (long i = 0; i < %d; i++) {\n"
                   "            const float *x = p + i < k ? from + i * %d : none, *y = p + i + %d < k ? from + (i + "
                   "%d) * %d : none;\n"
                   "            %s_split(x, y, to + i * %d);\n"
                   "            %s_split(x + %d, y + %d, to + i * %d + %d);\n        }\n    }\n}\n",
                   n, m->nr, IG_MICRO_PIECE, IG_MICRO_PIECE, m->nr, IG_MICRO_PIECE_ELEMENTS, TILE, m->nr, TILE, TILE,
                   m->nr, n, 4 * TILE, n, TILE, TILE, 4 * TILE, 2 * TILE);
}
