/* Order-preserving integer keys; see order.h. */
#include "codegen/order.h"

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

const char *ig_code_bits(enum ingot_dtype dtype) {
    return bits_of(dtype).unsigned_type;
}

void ig_code_order(const struct ig_micro *m, const char *qualifiers, const char *wide, struct ig_text *text) {
    struct bits b = bits_of(m->dtype);
    const char *turned = m->largest ? "~" : "", *n = m->name;
    ig_text_printf(text, "%s %s %s_order(%s_e x) {\n", qualifiers, wide, n, n);
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
