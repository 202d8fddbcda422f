/*
 * The k best of a row as C: one pass with the k best so far, which are a sorted list if they are few, else a heap, then heap
 * sort (Floyd 1964, Williams 1964).
 *
 * An element and its index form one unsigned integer, the key: the element in the high half, mapped so that smaller is
 * better, the index in the low half. So keys are distinct, ties go to the smaller index, and a comparison is one
 * instruction. The root of the heap is the worst of the best; contiguous rows are first compared with it in blocks, by
 * vectors, because few elements beat it. A list is moved on by vectors, too: element j of what is left after a new one is
 * the lesser of the old one and the greater of the one before and the new one.
 */
#include "codegen/c/micro.h"
#include "codegen/c/micro_text.h"
#include "codegen/order.h"

enum {
    LONG = 256, /* elements per block */
    SHORT = 16,
    FEW = 48,  /* keys up to which a list is faster than a heap, and */
    FAR = 256, /* elements for each of them: in longer rows most that are new stay near the heap's root */
};

static void print_heap(const struct ig_micro *m, const char *wide, struct ig_text *text) {
    const char *n = m->name;
    ig_text_printf(text,
                   "static void %s_sift(%s_key *keys, long at, long n) {\n"
                   "    const %s_key moved = keys[at];\n"
                   "    for (long child = 2 * at + 1; child < n; child = 2 * at + 1) {\n"
                   "        child += child + 1 < n && keys[child] < keys[child + 1];\n"
                   "        if (keys[child] <= moved) break;\n"
                   "        keys[at] = keys[child];\n"
                   "        at = child;\n"
                   "    }\n"
                   "    keys[at] = moved;\n"
                   "}\n",
                   n, n, n);
    /* Indices increase, so an element must be strictly better than the worst to replace it. */
    ig_text_printf(text,
                   "static inline void %s_offer(%s order, long i, %s_key *keys, long k) {\n"
                   "    if (order >= (%s)(keys[0] >> %d)) return;\n"
                   "    keys[0] = (%s_key)order << %d | (%s_key)i;\n"
                   "    %s_sift(keys, 0, k);\n"
                   "}\n",
                   n, wide, n, wide, 4 * m->key_bytes, n, 4 * m->key_bytes, n, n);
}

/* NAME_any: is any of LONG elements better than the element whose order is `worst`? NAME_block offers SHORT
 * elements. */
static void print_blocks(const struct ig_micro *m, const char *wide, struct ig_text *text) {
    const char *n = m->name;
    ig_text_printf(text,
                   "static inline int %s_any(const %s_e *x, %s worst) {\n"
                   "    int better = 0;\n"
                   "#pragma omp simd reduction(| : better)\n"
                   "    for (long j = 0; j < %d; j++)\n"
                   "        better |= %s_order(x[j]) < worst;\n"
                   "    return better;\n"
                   "}\n",
                   n, n, wide, LONG, n);
    ig_text_printf(text,
                   "static inline void %s_block(const %s_e *x, long i, %s_key *keys, long k) {\n"
                   "    const %s worst = (%s)(keys[0] >> %d);\n"
                   "    %s orders[%d];\n"
                   "    int better = 0;\n"
                   "#pragma omp simd reduction(| : better)\n"
                   "    for (long j = 0; j < %d; j++) {\n"
                   "        orders[j] = %s_order(x[i + j]);\n"
                   "        better |= orders[j] < worst;\n"
                   "    }\n"
                   "    for (long j = 0; better && j < %d; j++) %s_offer(orders[j], i + j, keys, k);\n"
                   "}\n",
                   n, n, n, wide, wide, 4 * m->key_bytes, wide, SHORT, SHORT, n, SHORT, n);
}

/* NAME_few: the k best in a list, which goes back and forth between two arrays. */
static void print_few(const struct ig_micro *m, const char *wide, struct ig_text *text) {
    const char *n = m->name;
    ig_text_printf(
        text,
        "static inline void %s_insert(const %s_key *restrict from, %s_key *restrict to, %s_key x, long k) {\n"
        "#pragma omp simd\n"
        "    for (long j = 0; j < k; j++) {\n"
        "        const %s_key low = from[j - 1] > x ? from[j - 1] : x;\n"
        "        to[j] = from[j] < low ? from[j] : low;\n"
        "    }\n"
        "}\n",
        n, n, n, n, n);
    ig_text_printf(text,
                   "static void %s_few(const %s_e *x, long stride, long n, %s_key *keys, long k) {\n"
                   "    %s_key both[2][%d];\n"
                   "    int now = 0;\n"
                   "    both[0][0] = both[1][0] = 0;\n"
                   "    for (long j = 1; j <= k; j++) both[0][j] = ~(%s_key)0;\n"
                   "    for (long i = 0; i < n;) {\n"
                   "        if (stride == 1 && i >= k && i %% %d == 0 && i + %d <= n &&\n"
                   "            !%s_any(x + i, (%s)(both[now][k] >> %d))) {\n"
                   "            i += %d;\n"
                   "            continue;\n"
                   "        }\n"
                   "        %s orders[%d];\n"
                   "        const long count = n - i < %d ? n - i : %d;\n"
                   "        unsigned better = i < k ? (1u << count) - 1 : 0;\n"
                   "        if (stride == 1 && count == %d) {\n"
                   "            const %s worst = (%s)(both[now][k] >> %d);\n"
                   "#pragma omp simd reduction(| : better)\n"
                   "            for (long j = 0; j < %d; j++) {\n"
                   "                orders[j] = %s_order(x[i + j]);\n"
                   "                better |= orders[j] < worst ? 1u << j : 0;\n"
                   "            }\n"
                   "        } else {\n"
                   "            for (long j = 0; j < count; j++) orders[j] = %s_order(x[(i + j) * stride]);\n"
                   "            better = (1u << count) - 1;\n"
                   "        }\n",
                   n, n, n, n, FEW + 1, n, LONG, LONG, n, wide, 4 * m->key_bytes, LONG, wide, SHORT, SHORT, SHORT,
                   SHORT, wide, wide, 4 * m->key_bytes, SHORT, n, n);
    ig_text_printf(text,
                   "        for (; better; better &= better - 1) {\n"
                   "            const long j = __builtin_ctz(better);\n"
                   "            const %s_key key = (%s_key)orders[j] << %d | (%s_key)(i + j);\n"
                   "            if (key >= both[now][k]) continue;\n"
                   "            %s_insert(both[now] + 1, both[1 - now] + 1, key, k);\n"
                   "            now = 1 - now;\n"
                   "        }\n"
                   "        i += count;\n"
                   "    }\n"
                   "    for (long j = 0; j < k; j++) keys[j] = both[now][j + 1];\n"
                   "}\n",
                   n, n, 4 * m->key_bytes, n, n);
}

/* Skips blocks of a dense row with nothing better than the heap's root: long blocks first, then short ones. */
static void print_scan(const struct ig_micro *m, const char *wide, struct ig_text *text) {
    const char *n = m->name;
    ig_text_printf(text,
                   "    long i = kept;\n"
                   "    while (kept > 0 && stride == 1 && i + %d <= n) {\n"
                   "        const long end = i + %d <= n ? i + %d : i + %d;\n"
                   "        if (end == i + %d && !%s_any(x + i, (%s)(keys[0] >> %d))) i = end;\n"
                   "        for (; i < end; i += %d)\n"
                   "            %s_block(x, i, keys, kept);\n"
                   "    }\n"
                   "    for (; kept > 0 && i < n; i++)\n"
                   "        %s_offer(%s_order(x[i * stride]), i, keys, kept);\n",
                   SHORT, LONG, LONG, SHORT, LONG, n, wide, 4 * m->key_bytes, SHORT, n, n, n);
}

/* NAME_many: the `kept` best, by a heap. */
static void print_many(const struct ig_micro *m, const char *wide, struct ig_text *text) {
    const char *n = m->name;
    ig_text_printf(text,
                   "static void %s_many(const %s_e *x, long stride, long n, %s_key *keys, long kept) {\n"
                   "    for (long j = 0; j < kept; j++)\n"
                   "        keys[j] = (%s_key)%s_order(x[j * stride]) << %d | (%s_key)j;\n"
                   "    for (long j = kept / 2; j-- > 0;)\n"
                   "        %s_sift(keys, j, kept);\n",
                   n, n, n, n, n, 4 * m->key_bytes, n, n);
    print_scan(m, wide, text);
    ig_text_printf(text,
                   "    for (long last = kept - 1; last > 0; last--) {\n"
                   "        const %s_key worst = keys[0];\n"
                   "        keys[0] = keys[last];\n"
                   "        keys[last] = worst;\n"
                   "        %s_sift(keys, 0, last);\n"
                   "    }\n"
                   "}\n",
                   n, n);
}

static void print_results(const char *wide, struct ig_text *text) {
    ig_text_printf(text,
                   "    for (long j = 0; j < k; j++) {\n"
                   "        const long at = j < kept ? (long)(%s)keys[j] : 0;\n"
                   "        if (values) values[j * step] = j < kept ? x[at * stride] : 0;\n"
                   "        if (indices) indices[j * step] = at;\n"
                   "    }\n"
                   "}\n",
                   wide);
}

void ig_c_micro_topk(const struct ig_micro *m, const struct ig_target *target, struct ig_text *text) {
    (void)target;
    bool large = m->key_bytes == 16;
    const char *wide = large ? "unsigned long" : "unsigned", *n = m->name;
    ig_text_printf(text, "typedef %s %s_e __attribute__((may_alias));\n", ig_code_bits(m->dtype), n);
    ig_text_printf(text, "typedef %s %s_key __attribute__((may_alias));\n",
                   large ? "unsigned __int128" : "unsigned long", n);
    ig_code_order(m, "static inline __attribute__((always_inline))", wide, text);
    print_heap(m, wide, text);
    print_blocks(m, wide, text);
    print_many(m, wide, text);
    if (!large) print_few(m, wide, text);
    ig_text_printf(text,
                   "static void %s(const void *row, long stride, long n, void *value_bytes, void *index_bytes,\n"
                   "    long step, long k, void *key_bytes) {\n"
                   "    const %s_e *x = row;\n"
                   "    %s_e *values = value_bytes;\n"
                   "    long *indices = index_bytes;\n"
                   "    %s_key *keys = key_bytes;\n"
                   "    const long kept = k < n ? k : n;\n",
                   n, n, n, n);
    if (large) {
        ig_text_printf(text, "    %s_many(x, stride, n, keys, kept);\n", n);
    } else {
        ig_text_printf(text,
                       "    if (kept < 2 || kept > %d || n > %d * kept) %s_many(x, stride, n, keys, kept);\n"
                       "    else %s_few(x, stride, n, keys, kept);\n",
                       FEW, FAR, n, n);
    }
    print_results(wide, text);
}
