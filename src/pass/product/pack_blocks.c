/* Codes of matmul_blocks in the order in which kernels read them; ir/blocks.h describes it. */
#include "pass/product/pack_blocks.h"

#include "ir/blocks.h"
#include "ir/build.h"
#include "pass/view/view.h"

/* A matrix with zeros appended, to that size. */
static ig_value pad(struct ig_graph *g, ig_value v, int64_t rows, int64_t columns) {
    const struct ig_type *type = ig_type_of(g, v);
    ig_dim zero = ig_dim_const(g->dims, 0), before[] = {zero, zero};
    ig_dim after[] = {ig_dim_sub(g->dims, ig_dim_const(g->dims, rows), type->dim[0]),
                      ig_dim_sub(g->dims, ig_dim_const(g->dims, columns), type->dim[1])};
    return ig_build_pad(g, v, before, after, IG_PAD_CONSTANT, IG_NO_VALUE);
}

/* Joins the codes of a byte, the first in the lowest bits, along an axis of size 8 / bits, which goes. */
static ig_value join_codes(struct ig_graph *g, ig_value v, int axis, int bits) {
    ig_dim one = ig_dim_const(g->dims, 1);
    ig_value joined = ig_build_slice_axis(g, v, axis, ig_dim_const(g->dims, 0), one, 1);
    for (int i = 1; i < 8 / bits; i++) {
        ig_value code = ig_build_slice_axis(g, v, axis, ig_dim_const(g->dims, i), one, 1);
        code = ig_map2(g, IG_OP_shl, code, ig_build_scalar_int(g, INGOT_U8, i * bits));
        joined = ig_map2(g, IG_OP_bitor, joined, code);
    }
    return ig_build_squeeze(g, joined, &axis, 1);
}

static ig_value pack_lanes(struct ig_graph *g, ig_value codes, int bits, int64_t n, int64_t k) {
    int64_t size = ig_blocks_chunk(IG_BLOCKS_LANES, bits), chunks = (k + size - 1) / size;
    codes = pad(g, codes, n, chunks * size);
    if (bits == 8) return ig_view_reshape_to(g, codes, (int64_t[]){n, chunks, 64}, 3);
    codes = join_codes(g, ig_view_reshape_to(g, codes, (int64_t[]){n, chunks, 4, 8 / bits, 16}, 5), 3, bits);
    codes = ig_view_transpose(g, codes, (int64_t[]){0, 1, 3, 2});
    return ig_view_reshape_to(g, codes, (int64_t[]){n, chunks, 64}, 3);
}

static ig_value pack_fragments(struct ig_graph *g, ig_value codes, int bits, int64_t n, int64_t k) {
    int64_t size = ig_blocks_chunk(IG_BLOCKS_FRAGMENTS, bits), chunks = (k + size - 1) / size, tiles = (n + 15) / 16;
    codes = pad(g, codes, tiles * 16, chunks * size);
    if (bits == 8) {
        codes = ig_view_reshape_to(g, codes, (int64_t[]){tiles, 2, 8, chunks, 4, 8}, 6);
        codes = ig_view_transpose(g, codes, (int64_t[]){0, 3, 2, 4, 1, 5});
    } else if (bits == 2) {
        /* A word's depths are 32 * r + 2 * j + e0 and more: j tells the codes of a byte, e0 and r the bytes. */
        codes = ig_view_reshape_to(g, codes, (int64_t[]){tiles * 16, chunks, 2, 2, 4, 4, 2}, 7);
        codes = join_codes(g, codes, 5, bits);
        codes = ig_view_reshape_to(g, codes, (int64_t[]){tiles, 2, 8, chunks, 2, 2, 4, 2}, 8);
        codes = ig_view_transpose(g, codes, (int64_t[]){0, 3, 2, 6, 1, 4, 7, 5});
    } else {
        /* A word's depths are 4 * e2 + 2 * e1 + e0: bit e1 tells the nibbles of a byte, e0 and e2 the bytes. */
        codes = ig_view_reshape_to(g, codes, (int64_t[]){tiles * 16, chunks * 8, 2, 2, 2}, 5);
        codes = join_codes(g, codes, 3, bits);
        codes = ig_view_reshape_to(g, codes, (int64_t[]){tiles, 2, 8, chunks, 2, 4, 2, 2}, 8);
        codes = ig_view_transpose(g, codes, (int64_t[]){0, 3, 2, 5, 1, 4, 7, 6});
    }
    return ig_view_reshape_to(g, codes, (int64_t[]){tiles, chunks, 32, 16}, 4);
}

/* [n, blocks] to [blocks, n], padded. */
static ig_value turn(struct ig_graph *g, ig_value v, int64_t n) {
    int64_t blocks = 0;
    ig_dim_is_const(g->dims, ig_type_of(g, v)->dim[1], &blocks);
    return ig_view_transpose(g, pad(g, v, (n + 15) / 16 * 16, blocks), (int64_t[]){1, 0});
}

ig_value ig_pack_blocks(struct ig_rewriter *rw, const struct ig_node *node, const ig_value *in) {
    struct ig_graph *g = rw->out;
    int64_t dims[INGOT_MAX_RANK];
    int bits = (int)ig_attr_int(rw->in, node, IG_ATTR_bits);
    bool known = ig_info(g, in[1])->is_const && ig_info(g, in[2])->is_const &&
                 ig_type_is_static(g->dims, ig_type_of(g, in[1]), dims) && dims[0] > 0 && dims[1] > 0;
    if (!known || ig_attr_int(rw->in, node, IG_ATTR_packed) != IG_BLOCKS_PLAIN) return IG_NO_VALUE;
    bool cuda = ig_target_is_cuda(rw->options->target);
    ig_value operands[5] = {IG_NO_VALUE, IG_NO_VALUE, IG_NO_VALUE, IG_NO_VALUE, IG_NO_VALUE};
    for (uint32_t i = 0; i < node->n_in; i++)
        operands[i] = in[i];
    operands[1] = (cuda ? pack_fragments : pack_lanes)(g, in[1], bits, dims[0], dims[1]);
    for (int i = 2; i < 4 && cuda; i++)
        if (operands[i] != IG_NO_VALUE) operands[i] = turn(g, operands[i], dims[0]);
    struct ig_attr *attrs = ig_attrs_copy(g, node->op, node->attr);
    attrs[ig_attr_slot(node->op, IG_ATTR_packed)].i = cuda ? IG_BLOCKS_FRAGMENTS : IG_BLOCKS_LANES;
    attrs[ig_attr_slot(node->op, IG_ATTR_n)].i = dims[0];
    return ig_build_node(g, node->op, operands, node->n_in, 1, attrs, NULL);
}
