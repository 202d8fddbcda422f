/*
 * The micro-kernel of depthwise convolution as C: up to eight neighbouring outputs of two vectors of channels stay in
 * registers while the window is walked, so that a weight is loaded once for all of them and every multiply-add takes
 * its input straight from memory. Channels that do not fill two vectors are done by one vector, by an overlapping last
 * vector (which computes some sums twice), or, if there are fewer than a vector holds, one by one.
 */
#include "codegen/c/micro.h"
#include "codegen/c/micro_text.h"

/* `vectors` 0: a single channel. */
static void print_taps(const struct ig_micro *m, int columns, int vectors, int lanes, struct ig_text *text) {
    int n = vectors ? vectors : 1;
    const char *suffix = vectors ? "v" : "e", *memory = vectors ? "u" : "e";
    const char *reader = ig_c_micro_reader(text->job, m, memory);
    ig_text_printf(text, "            const %s_%s *xt = xr + t * %lld + ch, *wt = wr + t * %lld + ch;\n", m->name,
                   ig_c_micro_element(m), (long long)m->x_tap, (long long)m->w_tap);
    for (int v = 0; v < n; v++)
        ig_text_printf(text, "            const %s_%s w%d = %swt + %d);\n", m->name, suffix, v, reader, v * lanes);
    for (int c = 0; c < columns; c++)
        for (int v = 0; v < n; v++)
            ig_text_printf(text, "            c%d_%d += %sxt + %lld) * w%d;\n", c, v, reader,
                           (long long)m->x_column * c + v * lanes, v);
}

static void print_channels(const struct ig_micro *m, int columns, int vectors, int lanes, struct ig_text *text) {
    int n = vectors ? vectors : 1;
    const char *suffix = vectors ? "v" : "e", *memory = vectors ? "u" : "e";
    for (int c = 0; c < columns; c++) {
        ig_text_printf(text, "        %s_%s ", m->name, suffix);
        for (int v = 0; v < n; v++)
            ig_text_printf(text, "%sc%d_%d = %s", v ? ", " : "", c, v, vectors ? "{0}" : "0");
        ig_text_add(text, ";\n");
    }
    ig_text_printf(text,
                   "        for (long r = 0; r < kh; r++) {\n"
                   "            const %s_%s *xr = x + r * x_row, *wr = w + r * %lld;\n"
                   "            for (long t = 0; t < kw; t++) {\n",
                   m->name, ig_c_micro_element(m), (long long)m->w_row);
    print_taps(m, columns, vectors, lanes, text);
    ig_text_add(text, "            }\n        }\n");
    for (int c = 0; c < columns; c++)
        for (int v = 0; v < n; v++)
            ig_text_printf(text, "        *(%s_%s *)(c + %d + ch) = c%d_%d;\n", m->name, memory, c * m->nr + v * lanes,
                           c, v);
}

static void print_columns(const struct ig_micro *m, int columns, int lanes, struct ig_text *text) {
    int pair = columns <= 4 || lanes >= 16 ? 2 : 1; /* AVX2 has registers for 8 x 1 or 4 x 2 sums */
    ig_text_printf(
        text,
        "static inline __attribute__((always_inline)) void %s_%d(const %s_%s *restrict x, long x_row,\n"
        "    const %s_%s *restrict w, %s_e *restrict c, long kh, long kw, long channels) {\n    long ch = 0;\n",
        m->name, columns, m->name, ig_c_micro_element(m), m->name, ig_c_micro_element(m), m->name);
    if (pair == 2) {
        ig_text_printf(text, "    for (; ch + %d <= channels; ch += %d) {\n", 2 * lanes, 2 * lanes);
        print_channels(m, columns, 2, lanes, text);
        ig_text_add(text, "    }\n");
    }
    ig_text_printf(
        text, "    while (ch < channels && channels >= %d) {\n        if (ch + %d > channels) ch = channels - %d;\n",
        lanes, lanes, lanes);
    print_channels(m, columns, 1, lanes, text);
    ig_text_printf(text, "        ch += %d;\n    }\n    for (; ch < channels; ch++) {\n", lanes);
    print_channels(m, columns, 0, lanes, text);
    ig_text_add(text, "    }\n}\n");
}

void ig_c_micro_depthwise(const struct ig_micro *m, const struct ig_target *target, struct ig_text *text) {
    int lanes = ig_micro_lanes(target, m->dtype);
    ig_c_micro_types(m, target, text);
    ig_c_micro_half(m, lanes, "v", text);
    for (int c = 1; c < 32; c++)
        if (m->rows >> c & 1) print_columns(m, c, lanes, text);
    ig_text_printf(text,
                   "static void %s(long columns, const void *x, long x_row, const void *w, void *c, long kh, long kw,\n"
                   "    long channels) {\n    switch (columns * 2 + (kw == %lld)) {\n",
                   m->name, (long long)m->kw);
    for (int c = 1; c < 32; c++) {
        if (!(m->rows >> c & 1)) continue;
        ig_text_printf(text, "    case %d: %s_%d(x, x_row, w, c, kh, %lld, channels); break;\n", c * 2 + 1, m->name, c,
                       (long long)m->kw);
        if (c == 1)
            ig_text_printf(text, "    case %d: %s_%d(x, x_row, w, c, kh, kw, channels); break;\n", c * 2, m->name, c);
    }
    ig_text_add(text, "    default: break;\n    }\n}\n");
}
