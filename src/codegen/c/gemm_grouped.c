/*
 * The micro-kernel of convolutions in groups of a few channels, of as many inputs or one, as C. A vector has several groups'
 * channels, or some of a group's of one input. One element of each group's input, repeated for all of its group, is multiplied by
 * the weights with which it goes into each of the group's results: so no lane is empty. Sums of several neighbouring outputs stay in registers. For each line of the
 * window and each channel of a group, the weights of all taps are loaded once, and the columns of the input one after
 * the other, each of which is brought into order once for all the windows it lies in.
 */
#include "codegen/c/micro.h"
#include "codegen/c/micro_text.h"

/* Column s of the input: element i of each group, repeated. */
static void print_column(const struct ig_micro *m, int lanes, int64_t i, int64_t s, struct ig_text *text) {
    const char *one = ig_c_micro_reader(text->job, m, "e"), *vector = ig_c_micro_reader(text->job, m, "u");
    int64_t at = s * m->x_tap;
    if (m->group >= lanes) {
        ig_text_printf(text, "                const %s_e x1 = %sxr + %lld);\n", m->name, one, (long long)at + i);
        ig_text_printf(text, "                const %s_v a = x1 - (%s_v){0};\n", m->name, m->name);
        return;
    }
    ig_text_printf(text, "                const %s_v x1 = %sxr + %lld);\n", m->name, vector, (long long)at);
    ig_text_printf(text, "                const %s_v a = __builtin_shufflevector(x1, x1", m->name);
    for (int lane = 0; lane < lanes; lane++)
        ig_text_printf(text, ", %lld", lane / m->group * m->group + (long long)i);
    ig_text_add(text, ");\n");
}

/* Groups of one input: so few elements are loaded, and doubled again and again, which compilers do in registers, unlike other
 * shuffles between vectors of two sizes. */
static void print_only_column(const struct ig_micro *m, int lanes, int64_t s, struct ig_text *text) {
    int n = lanes / (int)m->group;
    ig_text_printf(text, "                const %s_x%d x%d = *(const %s_m *)(xr + %lld);\n", m->name, n, n, m->name,
                   (long long)s * m->x_tap);
    for (n *= 2; n <= lanes; n *= 2) {
        ig_text_printf(text, "                const %s_x%d x%d = __builtin_shufflevector(x%d, x%d", m->name, n, n,
                       n / 2, n / 2);
        for (int lane = 0; lane < n; lane++)
            ig_text_printf(text, ", %d", lane / 2);
        ig_text_add(text, ");\n");
    }
    ig_text_printf(text, "                const %s_v a = x%d;\n", m->name, lanes);
}

/* Vectors of so many elements as the groups of a vector have inputs, or twice as many and so on; one of the former in memory. */
static void print_types(const struct ig_micro *m, int lanes, struct ig_text *text) {
    const char *type = ig_c_micro_type(m->dtype);
    int size = (int)ingot_dtype_size(m->dtype), least = lanes / (int)m->group;
    if (m->inputs == m->group || m->group >= lanes) return;
    ig_text_printf(text, "typedef %s %s_m __attribute__((vector_size(%d), aligned(%d), may_alias));\n", type, m->name,
                   least * size, size);
    for (int n = least; n <= lanes; n *= 2)
        ig_text_printf(text, "typedef %s %s_x%d __attribute__((vector_size(%d)));\n", type, m->name, n, n * size);
}

int64_t ig_c_micro_last_column(const struct ig_micro *m, int columns) {
    return (columns - 1) * m->x_column + (m->kw - 1) * m->dilation;
}

int64_t ig_c_micro_next_column(const struct ig_micro *m, int columns, int64_t s) {
    int64_t next = ig_c_micro_last_column(m, columns) + 1;
    for (int c = 0; c < columns; c++) {
        for (int64_t t = 0; t < m->kw; t++) {
            int64_t here = c * m->x_column + t * m->dilation;
            if (here > s && here < next) next = here;
        }
    }
    return next;
}

/* Its products with the weights of the taps that read it. */
static void print_products(const struct ig_micro *m, int columns, int lanes, int64_t i, int64_t s,
                           struct ig_text *text) {
    int64_t last = ig_c_micro_last_column(m, columns);
    ig_text_add(text, "            ");
    if (s < m->before || s > last - m->after)
        ig_text_printf(text, "if (%lld >= first && %lld < end) ", (long long)s, (long long)s);
    ig_text_add(text, "{\n");
    if (m->inputs < m->group && m->group < lanes)
        print_only_column(m, lanes, s, text);
    else
        print_column(m, lanes, i, s, text);
    for (int c = 0; c < columns; c++) {
        for (int64_t t = 0; t < m->kw; t++) {
            if (c * m->x_column + t * m->dilation == s)
                ig_text_printf(text, "                c%d += a * w%lld;\n", c, (long long)t);
        }
    }
    ig_text_add(text, "            }\n");
}

static void print_columns(const struct ig_micro *m, int columns, int lanes, struct ig_text *text) {
    const char *n = m->name, *h = ig_c_micro_element(m), *reader = ig_c_micro_reader(text->job, m, "u");
    int64_t last = ig_c_micro_last_column(m, columns);
    ig_text_printf(text,
                   "static __attribute__((noinline)) void %s_%d(const %s_%s *restrict x, long x_row,\n"
                   "    const %s_%s *restrict w, %s_e *restrict c, long kh, long first, long end, long channels) {\n"
                   "    for (long ch = 0; ch < channels; ch += %d) {\n"
                   "        if (ch + %d > channels) ch = channels - %d;\n",
                   n, columns, n, h, n, h, n, lanes, lanes, lanes);
    for (int c = 0; c < columns; c++)
        ig_text_printf(text, "        %s_v c%d = {0};\n", n, c);
    ig_text_printf(text,
                   "        for (long r = 0; r < kh; r++) {\n"
                   "            const %s_%s *xr = x + r * x_row + ch / %lld * %lld, *wr = w + r * %lld + ch;\n",
                   n, h, (long long)m->group, (long long)m->inputs, (long long)m->w_row);
    for (int64_t i = 0; i < m->inputs; i++) {
        ig_text_add(text, "            {\n");
        for (int64_t t = 0; t < m->kw; t++) {
            int64_t at = t * m->w_tap + i * (m->w_tap / m->inputs);
            ig_text_printf(text, "            const %s_v w%lld = %swr + %lld);\n", n, (long long)t, reader,
                           (long long)at);
        }
        for (int64_t s = 0; s <= last; s = ig_c_micro_next_column(m, columns, s))
            print_products(m, columns, lanes, i, s, text);
        ig_text_add(text, "            }\n");
    }
    ig_text_add(text, "        }\n");
    for (int c = 0; c < columns; c++)
        ig_text_printf(text, "        *(%s_u *)(c + %d + ch) = c%d;\n", n, c * m->nr, c);
    ig_text_add(text, "    }\n}\n");
}

void ig_c_micro_grouped(const struct ig_micro *m, const struct ig_target *target, struct ig_text *text) {
    int lanes = ig_micro_lanes(target, m->dtype);
    ig_c_micro_types(m, target, text);
    ig_c_micro_half(m, lanes, "v", text);
    print_types(m, lanes, text);
    for (int c = 1; c < 32; c++)
        if (m->rows >> c & 1) print_columns(m, c, lanes, text);
    ig_text_printf(
        text,
        "static void %s(long columns, const void *x, long x_row, const void *w, void *c, long kh, long first,\n"
        "    long end, long channels) {\n    switch (columns) {\n",
        m->name);
    for (int c = 1; c < 32; c++)
        if (m->rows >> c & 1)
            ig_text_printf(text, "    case %d: %s_%d(x, x_row, w, c, kh, first, end, channels); break;\n", c, m->name,
                           c);
    ig_text_add(text, "    default: break;\n    }\n}\n");
}
