/*
 * Matrices of codes of 2, 4 or 8 bits, integers or floats, with a scale for each block of the depth: how matmul_blocks (ops.def) stores them.
 *
 * In bytes as kernels read them, the columns [n] of the depth [k] are cut into chunks, padded with zeros:
 *
 *  - IG_BLOCKS_LANES, for vectors of CPUs: [n, chunks, 64]. Of 4 bits, 128 depths a chunk: the i-th code of 32-bit word d is depth
 *    16i + d, so that shifting 16 words by 4i bits gives 16 depths in a row. Of 2 bits likewise, 256 depths a chunk. Of 8 bits, 64
 *    depths in order.
 *  - IG_BLOCKS_FRAGMENTS, for the tensor cores of GPUs: [ceil(n/16), chunks, 32, 16], 16 bytes for each thread of a warp, the
 *    order of the first operand of mma.m16n8k16 with the columns as its rows. Thread 4g + t has columns g and g + 8, 8 bytes each.
 *    Of 4 bits, a chunk is 64 depths, and a thread's are 8t to 8t + 7 of each 32, a word for these, which begins with the even
 *    depths, in nibbles 0 to 3, before the odd ones: masking nibbles 0 and 4 gives a pair of neighbours. Of 2 bits, a chunk is 128
 *    depths, and a word is for 2 x 8 of them: the even ones of the first 8, of the other 8, then the odd ones. Of 8 bits, a
 *    chunk is 32 depths, a thread's are 8t to 8t + 7, in order. Scales and zero points are [blocks, 16 * ceil(n/16)].
 */
#ifndef IG_IR_BLOCKS_H
#define IG_IR_BLOCKS_H

#include "ir/graph.h"

enum ig_blocks_form { IG_BLOCKS_PLAIN, IG_BLOCKS_LANES, IG_BLOCKS_FRAGMENTS, IG_BLOCKS_FORMS };

enum { IG_BLOCKS_STREAMED = 24 << 10 /* bytes of a tile's codes from which GPUs stream them */ };

/* Depths of a chunk; 1 in the plain form. */
int64_t ig_blocks_chunk(enum ig_blocks_form form, int bits);
/* Bytes of all codes. */
int64_t ig_blocks_bytes(enum ig_blocks_form form, int bits, int64_t depth, int64_t n);
/* Where a code lies: its byte, counted from the first, and the bits below it there. */
struct ig_blocks_place {
    int64_t byte;
    int shift;
};
struct ig_blocks_place ig_blocks_place(enum ig_blocks_form form, int bits, int64_t depth, int64_t column, int64_t at);
/* The columns of scales and zero points in memory. */
static inline int64_t ig_blocks_columns(enum ig_blocks_form form, int64_t n) {
    return form == IG_BLOCKS_FRAGMENTS ? (n + 15) / 16 * 16 : n;
}

/* codes u8, f8e4m3fn or f8e5m2 [n, k], scale and zero [n, ceil(k/block)], zero and table may be IG_NO_VALUE: the product in the plain form. */
struct ig_blocks {
    ig_value codes, scale, zero, table;
    int bits;
    int64_t block, offset;
};
ig_value ig_build_matmul_blocks(struct ig_graph *g, ig_value a, const struct ig_blocks *b, enum ingot_dtype acc);

#endif
