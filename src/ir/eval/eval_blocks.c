/* matmul_blocks: the matrix is dequantised as the contraction fetches it (ops.def says by which rounding). */
#include "base/narrow.h"
#include "ir/blocks.h"
#include "ir/eval/eval_contract.h"

struct product {
    struct ig_contraction base;
    struct ig_view a; /* [rows, depth], dense */
    struct ig_view codes, scale, zero, table;
    enum ig_blocks_form form;
    int bits;
    int64_t block, offset;
};

static void fetch_row(const struct ig_contraction *c, int64_t row, union ig_cell *out_cells) {
    const struct product *p = (const struct product *)c;
    int64_t size = (int64_t)ingot_dtype_size(p->a.dtype);
    ig_contract_load(c, p->a.dtype, p->a.data + row * c->depth * size, size, c->depth, out_cells);
}

static float element(const struct product *p, const struct ig_view *of, int64_t column, int64_t block) {
    int64_t columns = ig_blocks_columns(p->form, p->base.columns);
    int64_t blocks = (p->base.depth + p->block - 1) / p->block;
    int64_t at = p->form == IG_BLOCKS_FRAGMENTS ? block * columns + column : column * blocks + block;
    return (float)ig_load_f64(of->dtype, of->data, at);
}

static double weight(const struct product *p, int64_t column, int64_t at) {
    struct ig_blocks_place place = ig_blocks_place(p->form, p->bits, p->base.depth, column, at);
    int code = ((const uint8_t *)p->codes.data)[place.byte] >> place.shift & ((1 << p->bits) - 1);
    float value = p->table.dtype != INGOT_DTYPE_NONE   ? ((const float *)(const void *)p->table.data)[code]
                  : ig_narrow_is_float(p->codes.dtype) ? ig_narrow_to_f32(p->codes.dtype, (uint8_t)code)
                                                       : (float)(code - p->offset);
    if (p->zero.dtype != INGOT_DTYPE_NONE) value -= element(p, &p->zero, column, at / p->block);
    value *= element(p, &p->scale, column, at / p->block);
    if (p->a.dtype == INGOT_F32) return value;
    uint64_t rounded;
    ig_store_f64(p->a.dtype, &rounded, 0, value);
    return ig_load_f64(p->a.dtype, &rounded, 0);
}

static void fetch_columns(const struct ig_contraction *c, int64_t k, int64_t first, int n, union ig_cell *out_cells) {
    for (int i = 0; i < n; i++)
        out_cells[i].f = weight((const struct product *)c, first + i, k);
}

/* Elements that an operand must have, whatever its shape. */
static void check_size(struct ig_eval *ev, const struct ig_view *view, int64_t elements, const char *what) {
    if (view->dtype != INGOT_DTYPE_NONE && ig_view_elements(view) < elements)
        ig_eval_raise(ev, "%s: %lld elements, expected %lld", what, (long long)ig_view_elements(view),
                      (long long)elements);
}

IG_EVAL(matmul_blocks) {
    int64_t packed = ig_attr_int(graph, node, IG_ATTR_packed);
    int64_t k = in[0].dims[in[0].rank - 1], n = packed ? ig_attr_int(graph, node, IG_ATTR_n) : in[1].dims[0];
    struct ig_view none = {0};
    struct product p = {.form = (enum ig_blocks_form)packed,
                        .bits = (int)ig_attr_int(graph, node, IG_ATTR_bits),
                        .block = ig_attr_int(graph, node, IG_ATTR_block),
                        .offset = ig_attr_int(graph, node, IG_ATTR_offset),
                        .a = ig_view_dense(ev, &in[0]),
                        .codes = ig_view_dense(ev, &in[1]),
                        .scale = ig_view_dense(ev, &in[2]),
                        .zero = node->n_in > 3 && in[3].dtype != INGOT_DTYPE_NONE ? ig_view_dense(ev, &in[3]) : none,
                        .table = node->n_in > 4 && in[4].dtype != INGOT_DTYPE_NONE ? ig_view_dense(ev, &in[4]) : none};
    int64_t blocks = (k + p.block - 1) / p.block * ig_blocks_columns(p.form, n);
    enum ingot_dtype acc = (enum ingot_dtype)ig_attr_int(graph, node, IG_ATTR_acc);
    int64_t dims[INGOT_MAX_RANK], size = (int64_t)ingot_dtype_size(acc);
    for (int i = 0; i < in[0].rank; i++)
        dims[i] = i + 1 < in[0].rank ? in[0].dims[i] : n;
    out[0] = ig_view_new(ev, acc, in[0].rank, dims);
    if (ig_view_elements(&out[0]) == 0) return;
    check_size(ev, &p.codes, ig_blocks_bytes(p.form, p.bits, k, n), "codes");
    check_size(ev, &p.scale, blocks, "scales");
    check_size(ev, &p.zero, blocks, "zero points");
    p.base = (struct ig_contraction){.rows = ig_view_elements(&out[0]) / n,
                                     .depth = k,
                                     .columns = n,
                                     .fetch_row = fetch_row,
                                     .fetch_columns = fetch_columns,
                                     .result = acc,
                                     .out = out[0].data,
                                     .row_stride = n * size,
                                     .column_stride = size};
    ig_contract(ev, &p.base, in[0].dtype, in[0].dtype);
}
