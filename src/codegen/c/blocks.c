/*
 * Few rows by weights that are codes of 2, 4 or 8 bits, as C (ir/blocks.h: the form IG_BLOCKS_LANES). Lanes are depths, and the
 * rows of the first operand are read as they lie.
 *
 * Codes of 4 bits are looked up: the 16 values that a column's codes stand for, dequantised, are one vector with AVX-512 and
 * two with AVX2, made anew for each block of the depth; a shift brings the next 16 codes into the lowest bits of the words,
 * and one permutation by them gives the weights, whose upper bits it ignores. So any table costs the same, and the values
 * are exactly those of the reference. Of 2 bits, the four values fill a vector again and again, so that the bits above a code do
 * not matter, and one vector is enough with AVX2, too. Codes of 8 bits are widened, converted and scaled; with AVX2 those of 4 bits too, unless
 * they have a table, since choosing between two permutations takes longer. Floats of 8 bits are shifted to where f32 has its
 * exponent and fraction, without passing through f32's subnormal numbers, which are slow.
 */
#include "ir/blocks.h"
#include "codegen/c/micro.h"
#include "codegen/c/micro_text.h"

enum {
    VECTOR = 16,
    STRETCH = 1024
}; /* depths that share a shift; depths for which several rows stay in the first cache */

struct printer {
    const struct ig_micro *m;
    const struct ig_micro_blocks *b;
    const char *name;
    struct ig_text *text;
    int lanes, parts; /* of a vector of VECTOR depths */
    int rows, columns;
};

static int64_t chunk_of(const struct printer *p) {
    return ig_blocks_chunk(IG_BLOCKS_LANES, p->b->bits);
}

static bool looks_up(const struct printer *p) {
    return p->b->bits == 2 || (p->b->bits == 4 && (p->lanes == 16 || p->b->table));
}

/* The vectors that hold what a column's codes stand for. */
static int table_parts(const struct printer *p) {
    return p->b->bits == 2 ? 1 : p->parts;
}

static int64_t chunk_count(const struct printer *p) {
    return (p->b->depth + chunk_of(p) - 1) / chunk_of(p);
}

static int64_t block_count(const struct printer *p) {
    return (p->b->depth + p->b->block - 1) / p->b->block;
}

/* ---- Types and conversions --------------------------------------------------------------------------------------- */

/* The function NAME_<what>: element i of a scale or zero point as float. */
static void print_reader(const struct printer *p, const char *what, enum ingot_dtype dtype) {
    const char *value = "((const float *)at)[i]";
    switch (dtype) {
    case INGOT_U8: value = "(float)((const unsigned char *)at)[i]"; break;
    case INGOT_I8: value = "(float)((const signed char *)at)[i]"; break;
    case INGOT_BF16: value = "((four){.bits = (unsigned)((const unsigned short *)at)[i] << 16}).number"; break;
    case INGOT_F16: value = "__builtin_ia32_vcvtph2ps((shorts){((const short *)at)[i]})[0]"; break;
    default: break;
    }
    ig_text_printf(p->text,
                   "INLINE float %s_%s(const void *at, long i) {\n"
                   "    typedef union { unsigned bits; float number; } four;\n"
                   "    typedef short shorts __attribute__((vector_size(16)));\n"
                   "    (void)sizeof(four);\n    (void)sizeof(shorts);\n    return %s;\n}\n",
                   p->name, what, value);
}

/* NAME_round: to the type of the first operand. */
static void print_round(const struct printer *p) {
    const char *n = p->name;
    ig_text_printf(p->text, "INLINE %s_v %s_round(%s_v x) {\n", n, n, n);
    if (p->b->weight == INGOT_BF16) {
        ig_text_printf(p->text,
                       "    const %s_i bits = (%s_i)x, even = (bits >> 16) & 1;\n"
                       "    const %s_i rounded = (bits + 0x7fff + even) & -65536, nan = x != x;\n"
                       "    return (%s_v)((nan & bits) | (~nan & rounded));\n",
                       n, n, n, n);
    } else if (p->b->weight == INGOT_F16 && p->lanes == 16) {
        ig_text_printf(p->text,
                       "    typedef short shorts __attribute__((vector_size(32)));\n"
                       "    const shorts narrow = (shorts)__builtin_ia32_vcvtps2ph512_mask(x, 4, (shorts){0}, "
                       "(unsigned short)-1);\n"
                       "    return __builtin_ia32_vcvtph2ps512_mask(narrow, (%s_v){0}, (unsigned short)-1, 4);\n",
                       n);
    } else if (p->b->weight == INGOT_F16) {
        ig_text_add(p->text, "    return __builtin_ia32_vcvtph2ps256(__builtin_ia32_vcvtps2ph256(x, 4));\n");
    } else {
        ig_text_add(p->text, "    return x;\n");
    }
    ig_text_add(p->text, "}\n");
}

/* NAME_pick: the entries of a table, one vector or two, that the lowest bits of each word count. */
static void print_pick(const struct printer *p) {
    const char *n = p->name;
    if (p->lanes == 16) {
        ig_text_printf(
            p->text,
            "INLINE %s_v %s_pick(%s_v table, %s_i at) {\n"
            "#ifdef __clang__\n    return __builtin_ia32_permvarsf512(table, at);\n"
            "#else\n    return __builtin_ia32_permvarsf512_mask(table, at, table, (unsigned short)-1);\n#endif\n}\n",
            n, n, n, n);
    } else if (table_parts(p) == 1) {
        ig_text_printf(p->text,
                       "INLINE %s_v %s_pick(%s_v table, %s_i at) {\n"
                       "    return __builtin_ia32_permvarsf256(table, at);\n}\n",
                       n, n, n, n);
    } else {
        ig_text_printf(p->text,
                       "INLINE %s_v %s_pick(%s_v low, %s_v high, %s_i at) {\n"
                       "    low = __builtin_ia32_permvarsf256(low, at);\n"
                       "    high = __builtin_ia32_permvarsf256(high, at);\n"
                       "    return __builtin_ia32_blendvps256(low, high, (%s_v)(at << 28));\n}\n",
                       n, n, n, n, n, n);
    }
}

/* Floats of 8 bits as f32. Those below their least normal number begin as that number and more, from which it is subtracted. */
static void print_floats(const struct printer *p) {
    const char *n = p->name;
    bool e4m3 = p->b->codes == INGOT_F8E4M3FN;
    int shift = e4m3 ? 20 : 21, normal = e4m3 ? 8 : 4, exponent = e4m3 ? 120 : 112, largest = e4m3 ? 0x7e : 0x7b;
    ig_text_printf(p->text,
                   "    const %s_i size = words & 127, sign = (words & 128) << 24;\n"
                   "    const %s_i small = size < %d, beyond = size > %d;\n"
                   "    const %s_i bits = (size << %d) + %d + (small & %d);\n"
                   "    const %s_v value = (%s_v)(bits | (beyond & 0x7f800000)) - (%s_v)(small & %d);\n"
                   "    return (%s_v)((%s_i)value | sign);\n}\n",
                   n, n, normal, largest, n, shift, exponent << 23, 1 << 23, n, n, n, (exponent + 1) << 23, n, n);
}

/* NAME_wide: codes of 8 bits as numbers. Of gcc, convertvector would take many instructions. */
static void print_wide(const struct printer *p) {
    const char *n = p->name;
    ig_text_printf(p->text,
                   "INLINE %s_v %s_wide(const unsigned char *at) {\n"
                   "    const %s_b bytes = *(const %s_b *)at;\n"
                   "#ifdef __clang__\n    const %s_i words = __builtin_convertvector(bytes, %s_i);\n#else\n"
                   "    typedef char chars __attribute__((vector_size(16)));\n",
                   n, n, n, n, n, n);
    if (p->lanes == 8)
        ig_text_add(p->text, "    typedef long long halves __attribute__((vector_size(16)));\n"
                             "    const halves both = {(long long)bytes, 0};\n");
    ig_text_printf(p->text, "    const %s_i words = (%s_i)__builtin_ia32_pmovzxbd", n, n);
    if (p->lanes == 16)
        ig_text_printf(p->text, "512_mask((chars)bytes, (%s_i){0}, (unsigned short)-1)", n);
    else
        ig_text_add(p->text, "256((chars)both)");
    ig_text_add(p->text, ";\n#endif\n");
    if (p->b->codes == INGOT_U8)
        ig_text_printf(p->text, "    return __builtin_convertvector(words, %s_v);\n}\n", n);
    else
        print_floats(p);
}

static void print_sum(const struct printer *p) {
    ig_text_printf(p->text, "INLINE float %s_sum(%s_v x) {\n", p->name, p->name);
    if (p->lanes == 16)
        ig_text_add(p->text, "    typedef float eight __attribute__((vector_size(32)));\n"
                             "    const eight y = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +\n"
                             "                    __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);\n");
    else
        ig_text_printf(p->text, "    const %s_v y = x;\n", p->name);
    ig_text_add(p->text, "    typedef float quarter __attribute__((vector_size(16)));\n"
                         "    const quarter z = __builtin_shufflevector(y, y, 0, 1, 2, 3) +\n"
                         "                      __builtin_shufflevector(y, y, 4, 5, 6, 7);\n"
                         "    return (z[0] + z[2]) + (z[1] + z[3]);\n}\n");
}

/* ---- Products ---------------------------------------------------------------------------------------------------- */

/* The values of the codes in the block that depth p + `at` is in, for all columns. */
static void print_tables(const struct printer *p, int64_t at) {
    const char *n = p->name;
    ig_text_printf(p->text, "        g = (p + %lld) / %lld;\n", (long long)at, (long long)p->b->block);
    for (int c = 0; c < p->columns; c++) {
        int64_t from = c * block_count(p);
        ig_text_printf(p->text, "        s%d = %s_scale(scale, %lld + g);\n", c, n, (long long)from);
        if (p->b->zero != INGOT_DTYPE_NONE)
            ig_text_printf(p->text, "        z%d = %s_zero(zero, %lld + g);\n", c, n, (long long)from);
        for (int part = 0; looks_up(p) && part < table_parts(p); part++)
            ig_text_printf(p->text, "        t%d_%d = %s_round((base%d%s) * s%d);\n", c, part, n, part,
                           p->b->zero != INGOT_DTYPE_NONE ? ig_format(p->text->job, " - z%d", c) : "", c);
    }
}

/* The weights of part `part` of the i-th VECTOR of depths: w0, w1, …; of which `count` exist. */
static void print_weights(const struct printer *p, int i, int part, int count) {
    const char *n = p->name;
    for (int c = 0; c < p->columns; c++) {
        if (looks_up(p)) {
            const char *tables = table_parts(p) == 1 ? ig_format(p->text->job, "t%d_0", c)
                                                     : ig_format(p->text->job, "t%d_0, t%d_1", c, c);
            ig_text_printf(p->text, "        w%d = %s_pick(%s, x%d_%d >> %d);\n", c, n, tables, c, part,
                           p->b->bits * i);
        } else {
            if (p->b->bits == 4)
                ig_text_printf(p->text, "        w%d = __builtin_convertvector((x%d_%d >> %d) & 15, %s_v);\n", c, c,
                               part, 4 * i, n);
            else
                ig_text_printf(p->text, "        w%d = %s_wide(codes + %lld + p + %d);\n", c, n,
                               (long long)c * chunk_count(p) * 64, i * VECTOR + part * p->lanes);
            ig_text_printf(p->text, "        w%d = %s_round((w%d - %d.0f%s) * s%d);\n", c, n, c, (int)p->b->offset,
                           p->b->zero != INGOT_DTYPE_NONE ? ig_format(p->text->job, " - z%d", c) : "", c);
        }
        if (count < p->lanes) /* what lies beyond the depth may be infinite */
            ig_text_printf(p->text, "        w%d = (%s_v)((%s_i)w%d & (lane < %d));\n", c, n, n, c, count);
    }
}

/* Multiplies the first `depths` of a chunk. */
static void print_chunk(const struct printer *p, int64_t depths) {
    const char *n = p->name;
    int64_t block = p->b->block;
    int vectors = (int)((depths + VECTOR - 1) / VECTOR);
    int every = block >= p->b->depth || block % chunk_of(p) == 0 ? vectors
                : chunk_of(p) % block == 0                       ? (int)(block / VECTOR)
                                                                 : 1;
    for (int c = 0; c < p->columns; c++) {
        int64_t line = c * chunk_count(p) * 64, next = (c + p->columns) * chunk_count(p) * 64;
        const char *at = p->b->bits == 2 ? "p / 4" : p->b->bits == 4 ? "p / 2" : "p";
        ig_text_printf(p->text, "        __builtin_prefetch(codes + %lld + %s);\n", (long long)next, at);
        for (int part = 0; p->b->bits < 8 && part < p->parts; part++)
            ig_text_printf(p->text, "        const %s_i x%d_%d = *(const %s_w *)(codes + %lld + %s);\n", n, c, part, n,
                           (long long)line + 4 * p->lanes * part, at);
    }
    for (int i = 0; i < vectors; i++) {
        if (i % every == 0) print_tables(p, i * VECTOR);
        for (int part = 0; part < p->parts; part++) {
            int64_t count = depths - i * VECTOR - part * p->lanes;
            if (count <= 0) break;
            print_weights(p, i, part, count < p->lanes ? (int)count : p->lanes);
            for (int r = 0; r < p->rows; r++) {
                ig_text_printf(p->text, "        y = *(const %s_u *)(a + %d * lda + p + %d);\n", n, r,
                               i * VECTOR + part * p->lanes);
                for (int c = 0; c < p->columns; c++)
                    ig_text_printf(p->text, "        c%d_%d += w%d * y;\n", r, c, c);
            }
        }
    }
}

/* rows x columns sums over the depths from `from` to `to`, added to c unless `first`. */
static void print_product(const struct printer *p) {
    const char *n = p->name;
    int64_t rest = p->b->depth % chunk_of(p);
    ig_text_printf(p->text,
                   "static __attribute__((noinline)) void %s_%dx%d(const %s_e *restrict a, long lda,\n"
                   "    const unsigned char *restrict codes, const void *restrict scale, const void *restrict zero,\n"
                   "    const %s_e *restrict table, %s_e *restrict c, long from, long to, long first) {\n"
                   "    long p = from, g;\n    %s_v y;\n    (void)zero;\n    (void)table;\n",
                   n, p->rows, p->columns, n, n, n, n);
    ig_text_printf(p->text, "    const %s_i lane = {", n);
    for (int i = 0; i < p->lanes; i++)
        ig_text_printf(p->text, "%s%d", i ? ", " : "", i);
    ig_text_add(p->text, "};\n    (void)lane;\n");
    for (int part = 0; looks_up(p) && part < table_parts(p); part++) {
        if (p->b->table)
            ig_text_printf(p->text, "    const %s_v base%d = *(const %s_u *)(table + %d);\n", n, part, n,
                           part * p->lanes);
        else
            ig_text_printf(p->text, "    const %s_v base%d = __builtin_convertvector((lane & %d) + %d, %s_v);\n", n,
                           part, (1 << p->b->bits) - 1, part * p->lanes - (int)p->b->offset, n);
    }
    for (int c = 0; c < p->columns; c++) {
        ig_text_printf(p->text, "    %s_v w%d;\n    float s%d%s;\n", n, c, c,
                       p->b->zero != INGOT_DTYPE_NONE ? ig_format(p->text->job, ", z%d", c) : "");
        for (int part = 0; looks_up(p) && part < table_parts(p); part++)
            ig_text_printf(p->text, "    %s_v t%d_%d;\n", n, c, part);
        for (int r = 0; r < p->rows; r++)
            ig_text_printf(p->text, "    %s_v c%d_%d = {0};\n", n, r, c);
    }
    ig_text_printf(p->text, "    for (; p + %lld <= to; p += %lld) {\n", (long long)chunk_of(p),
                   (long long)chunk_of(p));
    print_chunk(p, chunk_of(p));
    ig_text_add(p->text, "    }\n");
    if (rest > 0) {
        ig_text_add(p->text, "    if (p < to) {\n");
        print_chunk(p, rest);
        ig_text_add(p->text, "    }\n");
    }
    for (int r = 0; r < p->rows; r++)
        for (int c = 0; c < p->columns; c++)
            ig_text_printf(p->text, "    c[%d] = %s_sum(c%d_%d) + (first ? 0 : c[%d]);\n", r * p->m->nr + c, n, r, c,
                           r * p->m->nr + c);
    ig_text_add(p->text, "}\n");
}

/* Columns that are computed together: as many as the registers allow. */
static int columns_of(const struct printer *p, int rows) {
    return p->lanes == 16 && rows <= 3 ? 4 : 2;
}

static void print_rows(struct printer *p, int rows) {
    p->rows = rows;
    p->columns = columns_of(p, rows);
    print_product(p);
    p->columns = 1;
    print_product(p);
}

static void print_case(const struct printer *p, int rows) {
    int64_t line = chunk_count(p) * 64;
    const char *scale = ig_format(p->text->job, "(const char *)scale + j * %lld",
                                  (long long)block_count(p) * (long long)ingot_dtype_size(p->b->scale));
    const char *zero = p->b->zero == INGOT_DTYPE_NONE
                           ? "zero"
                           : ig_format(p->text->job, "(const char *)zero + j * %lld",
                                       (long long)block_count(p) * (long long)ingot_dtype_size(p->b->zero));
    ig_text_printf(p->text, "            case %d:\n", rows);
    int columns = columns_of(p, rows);
    for (int step = columns; step > 0; step = step == 1 ? 0 : 1)
        ig_text_printf(
            p->text,
            "                for (; j + %d <= columns; j += %d)\n"
            "                    %s_%dx%d(a + r * lda, lda, codes + j * %lld, %s, %s, table, c + r * %d + j, "
            "from, to, from == 0);\n",
            step, step, p->name, rows, step, (long long)line, scale, zero, p->m->nr);
    ig_text_add(p->text, "                break;\n");
}

void ig_c_micro_blocks(const struct ig_micro *m, const struct ig_target *target, struct ig_text *text) {
    struct printer p = {.m = m, .b = m->blocks, .name = m->name, .text = text};
    p.lanes = ig_micro_lanes(target, m->dtype);
    p.parts = VECTOR / p.lanes;
    ig_c_micro_types(m, target, text);
    ig_text_printf(text, "typedef int %s_i __attribute__((vector_size(%d)));\n", m->name, 4 * p.lanes);
    ig_text_printf(text, "typedef int %s_w __attribute__((vector_size(%d), aligned(1), may_alias));\n", m->name,
                   4 * p.lanes);
    ig_text_printf(text, "typedef unsigned char %s_b __attribute__((vector_size(%d), aligned(1), may_alias));\n",
                   m->name, p.lanes);
    print_reader(&p, "scale", p.b->scale);
    if (p.b->zero != INGOT_DTYPE_NONE) print_reader(&p, "zero", p.b->zero);
    print_round(&p);
    if (looks_up(&p)) print_pick(&p);
    if (p.b->bits == 8) print_wide(&p);
    print_sum(&p);
    const char *now = "0"; /* the most of the remaining rows that are computed at once */
    for (int r = 1; r < 32; r++) {
        if (!(m->rows >> r & 1)) continue;
        now = ig_format(text->job, "rows - r >= %d ? %d : %s", r, r, now);
        print_rows(&p, r);
    }
    ig_text_printf(text,
                   "static void %s(long rows, long columns, const %s_e *a, long lda, const void *code_bytes,\n"
                   "    const void *scale, const void *zero, const %s_e *table, %s_e *c) {\n"
                   "    const unsigned char *codes = code_bytes;\n"
                   "    const long stretch = rows > 2 ? %d : %lld;\n"
                   "    for (long from = 0; from < %lld; from += stretch) {\n"
                   "        const long to = from + stretch < %lld ? from + stretch : %lld;\n"
                   "        for (long r = 0, now; r < rows; r += now) {\n            long j = 0;\n"
                   "            now = %s;\n            switch (now) {\n",
                   m->name, m->name, m->name, m->name, STRETCH, (long long)chunk_count(&p) * chunk_of(&p),
                   (long long)p.b->depth, (long long)p.b->depth, (long long)p.b->depth, now);
    for (int r = 1; r < 32; r++)
        if (m->rows >> r & 1) print_case(&p, r);
    ig_text_add(text, "            default: return;\n            }\n        }\n    }\n}\n");
}
