/* Matrices of codes in blocks; see blocks.h. */
#include "ir/blocks.h"

#include "ir/build.h"

int64_t ig_blocks_chunk(enum ig_blocks_form form, int bits) {
    switch (form) {
    case IG_BLOCKS_LANES: return bits == 8 ? 64 : 512 / bits;
    case IG_BLOCKS_FRAGMENTS: return 256 / bits;
    default: return 1;
    }
}

int64_t ig_blocks_bytes(enum ig_blocks_form form, int bits, int64_t depth, int64_t n) {
    int64_t size = ig_blocks_chunk(form, bits), chunks = (depth + size - 1) / size;
    return form == IG_BLOCKS_PLAIN   ? n * depth
           : form == IG_BLOCKS_LANES ? n * chunks * 64
                                     : (n + 15) / 16 * chunks * 512;
}

static struct ig_blocks_place in_lanes(int bits, int64_t chunk, int64_t within) {
    if (bits == 8) return (struct ig_blocks_place){chunk * 64 + within, 0};
    int64_t code = within / 16, bit = code * bits; /* of a word */
    return (struct ig_blocks_place){chunk * 64 + within % 16 * 4 + bit / 8, (int)(bit % 8)};
}

static struct ig_blocks_place in_fragments(int bits, int64_t chunk, int64_t column, int64_t within) {
    int64_t thread = column % 8 * 4 + within % 32 / 8, own = within % 8;
    int64_t at = (chunk * 32 + thread) * 16 + column % 16 / 8 * 8;
    if (bits == 8) return (struct ig_blocks_place){at + own, 0};
    int64_t runs = 4 / bits, run = within / 32; /* of a word */
    int64_t bit = (own % 2 * 4 * runs + run % runs * 4 + own / 2) * bits;
    return (struct ig_blocks_place){at + run / runs * 4 + bit / 8, (int)(bit % 8)};
}

struct ig_blocks_place ig_blocks_place(enum ig_blocks_form form, int bits, int64_t depth, int64_t column, int64_t at) {
    int64_t size = ig_blocks_chunk(form, bits), chunks = (depth + size - 1) / size;
    switch (form) {
    case IG_BLOCKS_LANES: return in_lanes(bits, column * chunks + at / size, at % size);
    case IG_BLOCKS_FRAGMENTS: return in_fragments(bits, column / 16 * chunks + at / size, column, at % size);
    default: return (struct ig_blocks_place){column * depth + at, 0};
    }
}

ig_value ig_build_matmul_blocks(struct ig_graph *g, ig_value a, const struct ig_blocks *b, enum ingot_dtype acc) {
    ig_value in[5] = {a, b->codes, b->scale, b->zero, b->table};
    struct ig_attr attrs[6] = {ig_attr_of_dtype(acc),     ig_attr_of_int(b->bits), ig_attr_of_int(b->block),
                               ig_attr_of_int(b->offset), ig_attr_of_int(0),       ig_attr_of_int(0)};
    uint32_t count = b->table != IG_NO_VALUE ? 5 : b->zero != IG_NO_VALUE ? 4 : 3;
    return ig_build_node(g, IG_OP_matmul_blocks, in, count, 1, attrs, NULL);
}
