/* matmul_scaled: block by block along the depth, so that each sum is rounded to f32 and scaled as ops.def says. */
#include "ir/eval/eval_contract.h"

struct product {
    struct ig_contraction base; /* of one block */
    struct ig_view a, b;        /* [rows, depth] and [columns, depth], dense */
    int64_t depth, first;       /* all of it; where the block begins */
};

static void fetch_row(const struct ig_contraction *c, int64_t row, union ig_cell *out_cells) {
    const struct product *p = (const struct product *)c;
    ig_contract_load(c, p->a.dtype, p->a.data + row * p->depth + p->first, 1, c->depth, out_cells);
}

static void fetch_columns(const struct ig_contraction *c, int64_t k, int64_t first, int n, union ig_cell *out_cells) {
    const struct product *p = (const struct product *)c;
    ig_contract_load(c, p->b.dtype, p->b.data + first * p->depth + p->first + k, p->depth, n, out_cells);
}

IG_EVAL(matmul_scaled) {
    int64_t block = ig_attr_int(graph, node, IG_ATTR_block), shared = ig_attr_int(graph, node, IG_ATTR_columns);
    int64_t dims[INGOT_MAX_RANK], k = in[0].dims[in[0].rank - 1], n = in[1].dims[0];
    for (int i = 0; i < in[0].rank; i++)
        dims[i] = i + 1 < in[0].rank ? in[0].dims[i] : n;
    out[0] = ig_view_new(ev, INGOT_F32, in[0].rank, dims);
    int64_t elements = ig_view_elements(&out[0]), blocks = (k + block - 1) / block, across = (n + shared - 1) / shared;
    if (elements == 0) return;
    int64_t rows = elements / n;
    if (in[1].dims[1] != k) ig_eval_raise(ev, "depths %lld and %lld differ", (long long)k, (long long)in[1].dims[1]);
    struct ig_view row_scales = ig_view_dense(ev, &in[2]), column_scales = ig_view_dense(ev, &in[3]);
    if (ig_view_elements(&row_scales) != rows * blocks || ig_view_elements(&column_scales) != blocks * across)
        ig_eval_raise(ev, "the scales do not fit %lld blocks", (long long)blocks);
    struct product p = {.a = ig_view_dense(ev, &in[0]), .b = ig_view_dense(ev, &in[1]), .depth = k};
    float *y = (float *)(void *)out[0].data, *part = ig_eval_scratch(ev, elements, sizeof *part);
    double *sum = ig_eval_scratch(ev, elements, sizeof *sum);
    for (int64_t i = 0; i < elements; i++)
        sum[i] = 0;
    for (int64_t t = 0; t < blocks; t++) {
        p.first = t * block;
        p.base = (struct ig_contraction){.rows = rows,
                                         .depth = k - p.first < block ? k - p.first : block,
                                         .columns = n,
                                         .fetch_row = fetch_row,
                                         .fetch_columns = fetch_columns,
                                         .result = INGOT_F32,
                                         .out = (char *)part,
                                         .row_stride = n * (int64_t)sizeof *part,
                                         .column_stride = sizeof *part};
        ig_contract(ev, &p.base, in[0].dtype, in[1].dtype);
        for (int64_t i = 0; i < elements; i++) {
            float row = (float)ig_load_f64(INGOT_F32, row_scales.data, i / n * blocks + t);
            float column = (float)ig_load_f64(INGOT_F32, column_scales.data, t * across + i % n / shared);
            float scale = row * column;
            sum[i] += (double)part[i] * (double)scale;
        }
    }
    for (int64_t i = 0; i < elements; i++)
        y[i] = (float)sum[i];
}
