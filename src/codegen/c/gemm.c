/*
 * The micro-kernel of contractions as C: an outer product per step of k, accumulated in MR x NV vector registers (Goto
 * and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008; Van Zee and van de Geijn, "BLIS", 2015).
 * Elements of A are broadcast from memory by the load port, rows of B are loaded as whole vectors.
 *
 * AVX-512 holds 14 x 2 accumulators, two vectors of B and a broadcast in its 32 registers, AVX2 6 x 2 in its 16. Fewer
 * than four rows do not cover the latency of the multiply-add: their loop is unrolled over k into separate
 * accumulators, which are added at the end.
 *
 * With AVX2, products of floats are inline assembly, too, in the order of the text. A chain of sums then waits for its turn at
 * most two cycles, so that the order decides whether both units are always busy: gcc's took 5 to 8% longer (Zen 4, 2026-11-30).
 *
 * On AMX, blocks of 16 rows and more are done by tiles (gemm_tiles.c), fewer as follows.
 *
 * Bytes are multiplied by VNNI's vpdpbusd: a lane of the sums gains four products, of four neighbouring bytes of a row of A
 * (which are broadcast) and of a column of B (which lie together there). Without VNNI there are other ways (gemm_quads.c). On
 * AMX, pairs of bf16 are multiplied by vdpbf16ps
 * likewise, which is no faster than products of f32, but reads half of the bytes. The text is inline assembly, since compilers
 * differ in the names of their builtins.
 */
#include <stdio.h>

#include "codegen/c/micro.h"
#include "codegen/c/micro_text.h"

const char *ig_c_micro_type(enum ingot_dtype dtype) {
    switch (dtype) {
    case INGOT_F32: return "float";
    case INGOT_F64: return "double";
    case INGOT_I64:
    case INGOT_U64: return "unsigned long"; /* unsigned, so that overflow wraps */
    default: return "unsigned";
    }
}

void ig_c_micro_types(const struct ig_micro *m, const struct ig_target *target, struct ig_text *text) {
    const char *type = ig_c_micro_type(m->dtype);
    int element = target->vector_bytes / ig_micro_lanes(target, m->dtype);
    ig_text_printf(text, "typedef %s %s_e __attribute__((may_alias));\n", type, m->name);
    ig_text_printf(text, "typedef %s %s_v __attribute__((vector_size(%d)));\n", type, m->name, target->vector_bytes);
    ig_text_printf(text, "typedef %s %s_u __attribute__((vector_size(%d), aligned(%d), may_alias));\n", type, m->name,
                   target->vector_bytes, element);
}

/* The number of steps of k with accumulators of their own. */
static int k_unroll(int rows, int vectors) {
    int chains = rows * vectors;
    return chains >= 8 ? 1 : chains >= 4 ? 2 : 4;
}

/* The number of steps of k in a turn of the loop. Short vectors leave few cycles for what counts and branches, fewer still where
 * another thread runs on the same core: with 12 products a turn, 4 to 10% of the rate was lost (2026-11-28, Zen 3). */
static int steps_of_turn(const struct ig_target *target, int chains, int unroll) {
    enum { ENOUGH = 48 };
    int steps = unroll;
    while (target->vector_registers < 32 && chains * steps < ENOUGH)
        steps *= 2;
    return steps;
}

/* Signed bytes without VNNI: A was widened to 16 bits before, B is as it is read, and pairs of products are exact in 32 bits. */
static bool is_widened(const struct ig_micro *m) {
    return m->together == 2 && m->dtype == INGOT_I32;
}

/* Unsigned bytes without VNNI. */
static bool is_of_quads(const struct ig_micro *m, const struct ig_target *target) {
    return m->together == 4 && !target->vnni;
}

/* Steps of the depth that one instruction takes. */
static int together(const struct ig_micro *m) {
    return m->together ? m->together : 1;
}

/* The end of the numbers of rows that are done by vectors. */
static int rows_of_vectors(const struct ig_micro *m) {
    return m->tile_groups ? 16 : 32;
}

static int64_t row_offset(const struct ig_micro *m, int r) {
    return m->group ? r / m->group * m->group_stride + r % m->group * m->lda : r * m->lda;
}

/* Are products of floats instructions? */
static bool is_ordered(const struct ig_micro *m, const struct ig_target *target) {
    return !m->together && target->vector_registers < 32 && (m->dtype == INGOT_F32 || m->dtype == INGOT_F64);
}

/* Has the text NAME_each, the element or elements of A at an address in each lane, and NAME_dot, which adds products? */
static bool has_dot(const struct ig_micro *m, const struct ig_target *target) {
    return m->together || is_ordered(m, target);
}

/* c += a * b, for row r and all vectors; `at` is A's element, or where it is. */
static void print_products(const struct ig_micro *m, bool dot, int r, int vectors, int u, int sums, const char *at,
                           struct ig_text *text) {
    if (dot) ig_text_printf(text, "        const %s_v a%d_%d = %s_each(%s);\n", m->name, u, r, m->name, at);
    for (int v = 0; v < vectors; v++) {
        ig_text_add(text, v ? " " : "        ");
        if (dot)
            ig_text_printf(text, "%s_dot(c%d_%d_%d, a%d_%d, b%d_%d);", m->name, u % sums, r, v, u, r, u, v);
        else
            ig_text_printf(text, "c%d_%d_%d += %s * b%d_%d;", u % sums, r, v, at, u, v);
    }
    ig_text_add(text, "\n");
}

static void print_step(const struct ig_micro *m, const struct ig_target *target, int rows, int vectors, int u, int sums,
                       struct ig_text *text) {
    int lanes = ig_micro_lanes(target, m->dtype);
    bool dot = has_dot(m, target);
    int step = together(m), line = 64 / (int)ingot_dtype_size(m->half != INGOT_DTYPE_NONE ? m->half : m->dtype);
    for (int at = 0; m->prefetch && at < m->nr * step; at += line)
        ig_text_printf(text, "        __builtin_prefetch(b + %lld);\n", (long long)m->prefetch + u * m->nr * step + at);
    /* Into the second cache: the first is full of data in use. */
    if (m->rate)
        ig_text_printf(text, "        __builtin_prefetch(next + %lld * (p + %d), 0, 2);\n", (long long)m->rate,
                       u * step);
    const char *reader = is_widened(m) && !m->wide ? ig_format(text->job, "%s_widen(", m->name)
                         : m->together             ? ig_format(text->job, "*(const %s_u *)(", m->name)
                                                   : ig_c_micro_reader(text->job, m, "u");
    for (int v = 0; v < vectors; v++)
        ig_text_printf(text, "        const %s_v b%d_%d = %sb + %d);\n", m->name, u, v, reader,
                       (u * m->nr + v * lanes) * step);
    for (int r = 0; r < rows; r++) {
        char at[64];
        const char *address = dot ? "&" : "";
        if (m->lda)
            snprintf(at, sizeof at, "%sa[%lld]", address, (long long)row_offset(m, r) + u * step);
        else
            snprintf(at, sizeof at, "%sa%d[%d * lda + %d]", address, r / 3 * 3, r % 3, u * step);
        print_products(m, dot, r, vectors, u, sums, at, text);
    }
}

static void print_loop(const struct ig_micro *m, const struct ig_target *target, int rows, int vectors, int steps,
                       int sums, struct ig_text *text) {
    int each = steps * together(m);
    ig_text_printf(text, "    for (; p + %d <= k; p += %d) {\n", each, each);
    for (int u = 0; u < steps; u++)
        print_step(m, target, rows, vectors, u, sums, text);
    if (m->lda) {
        ig_text_printf(text, "        a += %d;\n", each);
    } else {
        for (int r = 0; r < rows; r += 3)
            ig_text_printf(text, "        a%d += %d;\n", r, each);
    }
    ig_text_printf(text, "        b += %d;\n    }\n", each * m->nr);
}

/* The loop over the depth, or over a segment of it. */
static void print_walk(const struct ig_micro *m, const struct ig_target *target, int rows, int vectors, int unroll,
                       struct ig_text *text) {
    ig_text_add(text, "    long p = 0;\n");
    int steps = steps_of_turn(target, rows * vectors, unroll);
    print_loop(m, target, rows, vectors, steps, unroll, text);
    if (steps > 1) print_loop(m, target, rows, vectors, 1, 1, text);
}

static void print_results(const struct ig_micro *m, int rows, int vectors, int lanes, int unroll,
                          struct ig_text *text) {
    for (int u = 1; u < unroll; u++)
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < vectors; v++)
                ig_text_printf(text, "    c0_%d_%d += c%d_%d_%d;\n", r, v, u, r, v);
    ig_text_add(text, "    if (!first) {\n");
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            ig_text_printf(text, "        c0_%d_%d += *(const %s_u *)(c + %d);\n", r, v, m->name,
                           r * m->nr + v * lanes);
    ig_text_add(text, "    }\n");
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            ig_text_printf(text, "    *(%s_u *)(c + %d) = c0_%d_%d;\n", m->name, r * m->nr + v * lanes, r, v);
}

/* One variant of the micro-kernel: rows x vectors. It is never inlined: constants of the caller, such as those of an
 * epilogue's GELU, would take registers away from its sums, which fill them. */
static void print_gemm(const struct ig_micro *m, const struct ig_target *target, int rows, int vectors,
                       struct ig_text *text) {
    bool quads = is_of_quads(m, target);
    int lanes = ig_micro_lanes(target, m->dtype), unroll = quads ? 1 : k_unroll(rows, vectors);
    const char *a = m->together ? "a" : "e", *b = m->together ? "b" : ig_c_micro_element(m);
    ig_text_printf(text,
                   "static __attribute__((noinline)) void %s_%dx%d(const %s_%s *restrict a, long lda,\n"
                   "    const %s_%s *restrict b,\n"
                   "    %s_e *restrict c, long k, long first%s%s) {\n",
                   m->name, rows, vectors, m->name, a, m->name, b, m->name,
                   m->listed ? ", const unsigned short *list" : "", m->rate ? ", const char *next" : "");
    for (int u = 0; u < unroll; u++) {
        for (int r = 0; r < rows; r++) {
            ig_text_printf(text, "    %s_v ", m->name);
            for (int v = 0; v < vectors; v++)
                ig_text_printf(text, "%sc%d_%d_%d = {0}", v ? ", " : "", u, r, v);
            ig_text_add(text, ";\n");
        }
    }
    if (m->lda) {
        ig_text_add(text, "    (void)lda;\n");
    } else {
        for (int r = 0; r < rows; r += 3)
            ig_text_printf(text, "    const %s_%s *a%d = a + %d * lda;\n", m->name, a, r, r);
    }
    if (quads) {
        ig_c_micro_quads_walk(m, target, rows, vectors, text);
    } else if (m->segments > 1) {
        ig_text_printf(text, "    for (long s = 0; s < %lld; s++) {\n", (long long)m->segments);
        print_walk(m, target, rows, vectors, unroll, text);
        ig_text_printf(text, "    a += %lld - k;\n", (long long)m->jump);
        if (m->rate) ig_text_printf(text, "    next += %lld * k;\n", (long long)m->rate);
        ig_text_add(text, "    }\n");
    } else {
        print_walk(m, target, rows, vectors, unroll, text);
    }
    print_results(m, rows, vectors, lanes, unroll, text);
    ig_text_add(text, "}\n");
}

static void print_dispatch(const struct ig_micro *m, struct ig_text *text) {
    ig_text_printf(text,
                   "static inline void %s(long rows, long vectors, const void *a, long lda, const void *b, void *c,\n"
                   "    long k, long first%s%s) {\n",
                   m->name, m->listed ? ", const void *list" : "", m->rate ? ", const void *next" : "");
    if (m->tile_groups) ig_c_micro_tiles_dispatch(m, text);
    ig_text_add(text, "    switch (rows * 8 + vectors) {\n");
    for (int r = 1; r < rows_of_vectors(m); r++)
        for (int v = 1; v < 8; v++)
            if (m->rows >> r & 1 && m->vectors >> v & 1)
                ig_text_printf(text, "    case %d: %s_%dx%d(a, lda, b, c, k, first%s%s); break;\n", r * 8 + v, m->name,
                               r, v, m->listed ? ", list" : "", m->rate ? ", next" : "");
    ig_text_add(text, "    default: break;\n    }\n}\n");
}

/* Assemblers take the unmarked instruction for AVX-512's. */
void ig_c_micro_dot(const struct ig_micro *m, const struct ig_target *target, bool memory, struct ig_text *text) {
    bool wide = target->vector_registers >= 32;
    const char *in = wide ? "v" : "x", *mark = wide ? "" : "%{vex%} ";
    ig_text_printf(text,
                   "typedef unsigned %s %s_b __attribute__((may_alias));\n"
                   "#define %s_dot(c, a, b) __asm__(\"%s%s %%2, %%1, %%0\" : \"+%s\"(c) : \"%s\"(a), \"%s%s\"(b))\n",
                   m->together == 2 ? "short" : "char", m->name, m->name, mark,
                   m->together == 2 ? "vdpbf16ps" : "vpdpbusd", in, in, in, memory ? "m" : "");
}

/* NAME_a, an element of A; NAME_each: the four bytes at `at` in each lane. It is an instruction, since gcc would compute parts
 * of these in general registers. */
static void print_four(const struct ig_micro *m, const struct ig_target *target, struct ig_text *text) {
    const char *n = m->name, *in = target->vector_registers >= 32 ? "v" : "x";
    ig_text_printf(
        text,
        "typedef unsigned %s %s_a __attribute__((may_alias));\n"
        "typedef unsigned %s_w __attribute__((aligned(1), may_alias));\n"
        "INLINE %s_v %s_each(const %s_a *at) {\n    %s_v c;\n"
        "    __asm__(\"vpbroadcastd %%1, %%0\" : \"=%s\"(c) : \"m\"(*(const %s_w *)at));\n    return c;\n}\n",
        m->together == 4 ? "char" : "short", n, n, n, n, n, n, in, n);
}

static void print_ordered(const struct ig_micro *m, struct ig_text *text) {
    const char *n = m->name, *type = m->dtype == INGOT_F32 ? "s" : "d";
    ig_text_printf(text,
                   "INLINE %s_v %s_each(const %s_e *at) {\n    %s_v c;\n"
                   "    __asm__ volatile(\"vbroadcasts%s %%1, %%0\" : \"=x\"(c) : \"m\"(*at));\n    return c;\n}\n"
                   "#define %s_dot(c, a, b) \\\n"
                   "    __asm__ volatile(\"vfmadd231p%s %%2, %%1, %%0\" : \"+x\"(c) : \"x\"(a), \"x\"(b))\n",
                   n, n, n, n, type, n, type);
}

/* NAME_widen: bytes of B in 16 bits each, as an instruction: gcc widens the halves of a vector one by one. NAME_dot: two
 * products a lane. */
static void print_pairs(const struct ig_micro *m, const struct ig_target *target, struct ig_text *text) {
    const char *n = m->name, *in = target->vector_registers >= 32 ? "v" : "x";
    ig_text_printf(text, "typedef signed %s %s_b __attribute__((may_alias));\n", m->wide ? "short" : "char", n);
    if (!m->wide)
        ig_text_printf(
            text,
            "typedef signed char %s_h __attribute__((vector_size(%d), aligned(1), may_alias));\n"
            "INLINE %s_v %s_widen(const %s_b *at) {\n    %s_v c;\n"
            "    __asm__(\"vpmovsxbw %%1, %%0\" : \"=%s\"(c) : \"m\"(*(const %s_h *)at));\n    return c;\n}\n",
            n, target->vector_bytes / 2, n, n, n, n, in, n);
    ig_text_printf(text,
                   "INLINE %s_v %s_pairs(%s_v a, %s_v b) {\n    %s_v c;\n"
                   "    __asm__(\"vpmaddwd %%2, %%1, %%0\" : \"=%s\"(c) : \"%s\"(a), \"%s\"(b));\n    return c;\n}\n"
                   "#define %s_dot(c, a, b) c += %s_pairs(a, b)\n",
                   n, n, n, n, n, in, in, in, n, n);
}

void ig_c_micro_gemm(const struct ig_micro *m, const struct ig_target *target, struct ig_text *text) {
    int lanes = ig_micro_lanes(target, m->dtype);
    ig_c_micro_types(m, target, text);
    if (m->together) {
        print_four(m, target, text);
        if (is_widened(m))
            print_pairs(m, target, text);
        else if (is_of_quads(m, target))
            ig_c_micro_quads(m, target, text);
        else
            ig_c_micro_dot(m, target, false, text);
    } else {
        ig_c_micro_half(m, lanes, "v", text);
        if (is_ordered(m, target)) print_ordered(m, text);
    }
    for (int r = 1; r < rows_of_vectors(m); r++)
        for (int v = 1; v < 8; v++)
            if (m->rows >> r & 1 && m->vectors >> v & 1) print_gemm(m, target, r, v, text);
    if (m->tile_groups) ig_c_micro_tiles(m, text);
    print_dispatch(m, text);
}
