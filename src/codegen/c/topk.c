/*
 * The k best of a row as C: one pass with a heap of the k best so far, then heap sort (Floyd 1964, Williams 1964).
 *
 * An element and its index make one unsigned integer, the key: the element in the high half, turned so that smaller is
 * better, the index in the low half. So keys differ, ties fall to the smaller index, and a comparison is one
 * instruction. The heap has the worst of the best at its root; rows that lie together are first compared with it block
 * by block, in vectors, because few elements get past it.
 */
#include <stdio.h>

#include "codegen/c/micro.h"
#include "codegen/c/micro_text.h"

struct bits {
    const char *unsigned_type, *sign, *infinity; /* infinity NULL: an integer type */
};

static struct bits bits_of(enum ingot_dtype dtype) {
    switch (dtype) {
    case INGOT_F64: return (struct bits){"unsigned long", "0x8000000000000000", "0x7ff0000000000000"};
    case INGOT_F32: return (struct bits){"unsigned", "0x80000000", "0x7f800000"};
    case INGOT_F16: return (struct bits){"unsigned short", "0x8000", "0x7c00"};
    case INGOT_BF16: return (struct bits){"unsigned short", "0x8000", "0x7f80"};
    case INGOT_I64: return (struct bits){"unsigned long", "0x8000000000000000", NULL};
    case INGOT_I32: return (struct bits){"unsigned", "0x80000000", NULL};
    case INGOT_I16: return (struct bits){"unsigned short", "0x8000", NULL};
    case INGOT_I8: return (struct bits){"unsigned char", "0x80", NULL};
    case INGOT_U64: return (struct bits){"unsigned long", "0", NULL};
    case INGOT_U32: return (struct bits){"unsigned", "0", NULL};
    case INGOT_U16: return (struct bits){"unsigned short", "0", NULL};
    default: return (struct bits){"unsigned char", "0", NULL};
    }
}

/* NAME_order: an element's bits as an unsigned integer, smaller for better ones. Both zeros are equal. */
static void print_order(const struct ig_micro *m, const char *wide, struct ig_text *text) {
    struct bits b = bits_of(m->dtype);
    const char *turned = m->largest ? "~" : "", *n = m->name;
    ig_text_printf(text, "static inline __attribute__((always_inline)) %s %s_order(%s_e x) {\n", wide, n, n);
    if (!b.infinity) {
        ig_text_printf(text, "    return (%s)%s(%s_e)(x ^ %s);\n}\n", wide, turned, n, b.sign);
        return;
    }
    ig_text_printf(text,
                   "    const %s_e all = (%s_e)~(%s_e)0, size = (%s_e)(x & ~%s);\n"
                   "    const %s_e number = (%s_e)(x & %s && size ? ~x : x | %s);\n"
                   "    const %s_e order = size > %s ? all : number;\n"
                   "    return (%s)%sorder;\n}\n",
                   n, n, n, n, b.sign, n, n, b.sign, b.sign, n, b.infinity, wide, turned);
}

static void print_heap(const struct ig_micro *m, const char *key, struct ig_text *text) {
    const char *n = m->name;
    ig_text_printf(text,
                   "static void %s_sift(%s *keys, long at, long n) {\n"
                   "    const %s moved = keys[at];\n"
                   "    for (long child = 2 * at + 1; child < n; child = 2 * at + 1) {\n"
                   "        child += child + 1 < n && keys[child] < keys[child + 1];\n"
                   "        if (keys[child] <= moved) break;\n"
                   "        keys[at] = keys[child];\n"
                   "        at = child;\n"
                   "    }\n"
                   "    keys[at] = moved;\n"
                   "}\n",
                   n, key, key);
    ig_text_printf(text,
                   "static void %s_offer(const %s_e *x, long stride, long from, long to, %s *keys, long k) {\n"
                   "    for (long i = from; i < to; i++) {\n"
                   "        const %s key = (%s)%s_order(x[i * stride]) << %d | (%s)i;\n"
                   "        if (key >= keys[0]) continue;\n"
                   "        keys[0] = key;\n"
                   "        %s_sift(keys, 0, k);\n"
                   "    }\n"
                   "}\n",
                   n, n, key, key, key, n, 4 * m->key_bytes, key, n);
}

/* Blocks of a dense row without anything better than the heap's root are passed over. */
static void print_scan(const struct ig_micro *m, const char *wide, struct ig_text *text) {
    enum { BLOCK = 128 };
    const char *n = m->name;
    ig_text_printf(text,
                   "    long i = kept;\n"
                   "    for (; kept > 0 && stride == 1 && i + %d <= n; i += %d) {\n"
                   "        const %s worst = (%s)(keys[0] >> %d);\n"
                   "        int better = 0;\n"
                   "#pragma omp simd reduction(| : better)\n"
                   "        for (long j = 0; j < %d; j++)\n"
                   "            better |= %s_order(x[i + j]) < worst;\n"
                   "        if (better) %s_offer(x, 1, i, i + %d, keys, kept);\n"
                   "    }\n"
                   "    if (kept > 0) %s_offer(x, stride, i, n, keys, kept);\n",
                   BLOCK, BLOCK, wide, wide, 4 * m->key_bytes, BLOCK, n, n, BLOCK, n);
}

static void print_results(const struct ig_micro *m, const char *key, const char *wide, struct ig_text *text) {
    const char *n = m->name;
    ig_text_printf(text,
                   "    for (long last = kept - 1; last > 0; last--) {\n"
                   "        const %s worst = keys[0];\n"
                   "        keys[0] = keys[last];\n"
                   "        keys[last] = worst;\n"
                   "        %s_sift(keys, 0, last);\n"
                   "    }\n"
                   "    for (long j = 0; j < k; j++) {\n"
                   "        const long at = j < kept ? (long)(%s)keys[j] : 0;\n"
                   "        if (values) values[j * step] = j < kept ? x[at * stride] : 0;\n"
                   "        if (indices) indices[j * step] = at;\n"
                   "    }\n"
                   "}\n",
                   key, n, wide);
}

void ig_c_micro_topk(const struct ig_micro *m, const struct ig_target *target, struct ig_text *text) {
    (void)target;
    bool large = m->key_bytes == 16;
    const char *wide = large ? "unsigned long" : "unsigned", *n = m->name;
    ig_text_printf(text, "typedef %s %s_e __attribute__((may_alias));\n", bits_of(m->dtype).unsigned_type, n);
    ig_text_printf(text, "typedef %s %s_key __attribute__((may_alias));\n",
                   large ? "unsigned __int128" : "unsigned long", n);
    char key[64];
    snprintf(key, sizeof key, "%s_key", n);
    print_order(m, wide, text);
    print_heap(m, key, text);
    ig_text_printf(text,
                   "static void %s(const void *row, long stride, long n, void *value_bytes, void *index_bytes,\n"
                   "    long step, long k, void *key_bytes) {\n"
                   "    const %s_e *x = row;\n"
                   "    %s_e *values = value_bytes;\n"
                   "    long *indices = index_bytes;\n"
                   "    %s *keys = key_bytes;\n"
                   "    const long kept = k < n ? k : n;\n"
                   "    for (long j = 0; j < kept; j++)\n"
                   "        keys[j] = (%s)%s_order(x[j * stride]) << %d | (%s)j;\n"
                   "    for (long j = kept / 2; j-- > 0;)\n"
                   "        %s_sift(keys, j, kept);\n",
                   n, n, n, key, key, n, 4 * m->key_bytes, key, n);
    print_scan(m, wide, text);
    print_results(m, key, wide, text);
}
