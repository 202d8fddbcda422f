/*
 * Contractions: matmul and convolution in every layout, by one loop. A contraction is rows x depth times depth x
 * columns; layouts differ only in how a row of the left side and a strip of the right side are fetched as cells.
 * Floating types and integers of up to 16 bits are summed as double (exact for those: the products have at most 32
 * bits); wider integers wrap in 64 bits.
 */
#include <string.h>

#include "ir/eval/eval_contract.h"

#include "base/narrow.h"

enum { ROWS = 4, COLUMNS = 64 };

#define MULTIPLY(name, field, type)                                                        \
    static void name(int64_t depth, const union ig_cell *rows, const union ig_cell *strip, \
                     union ig_cell sums[ROWS][COLUMNS], int columns) {                     \
        for (int j = 0; j < columns; j += 8) {                                             \
            type sum[ROWS][8] = {{0}};                                                     \
            for (int64_t k = 0; k < depth; k++) {                                          \
                const union ig_cell *b = strip + k * COLUMNS + j;                          \
                for (int r = 0; r < ROWS; r++) {                                           \
                    type a = (type)rows[r * depth + k].field;                              \
                    for (int i = 0; i < 8; i++)                                            \
                        sum[r][i] += a * (type)b[i].field;                                 \
                }                                                                          \
            }                                                                              \
            for (int r = 0; r < ROWS; r++) {                                               \
                for (int i = 0; i < 8; i++)                                                \
                    sums[r][j + i].field = sum[r][i];                                      \
            }                                                                              \
        }                                                                                  \
    }
MULTIPLY(multiply_float, f, double)
MULTIPLY(multiply_int, i, uint64_t)

static bool wide_integer(enum ingot_dtype dtype) {
    return !ig_cells_are_float(dtype) && ingot_dtype_size(dtype) >= 4;
}

/* Loads any type as double. */
static void load_float(enum ingot_dtype dtype, const void *data, int64_t stride, int64_t n, union ig_cell *out_cells) {
    ig_cells_load(dtype, data, stride, n, out_cells);
    if (ig_cells_are_float(dtype)) return;
    bool narrow = ig_narrow_is_float(dtype);
    for (int64_t i = 0; i < n; i++)
        out_cells[i].f = narrow ? (double)ig_narrow_to_f32(dtype, (uint8_t)out_cells[i].i) : (double)out_cells[i].i;
}

void ig_contract_load(const struct ig_contraction *c, enum ingot_dtype dtype, const void *data, int64_t stride,
                      int64_t n, union ig_cell *out_cells) {
    if (c->integer) {
        ig_cells_load(dtype, data, stride, n, out_cells);
    } else {
        load_float(dtype, data, stride, n, out_cells);
    }
}

/* Converts double sums if the result has an integer type. */
static void store_row(const struct ig_contraction *c, int64_t row, int64_t first, int n, union ig_cell *sums) {
    if (!ig_cells_are_float(c->result) && !c->integer) {
        for (int i = 0; i < n; i++)
            sums[i].i = (int64_t)sums[i].f;
    }
    if (c->bias) {
        union ig_cell bias[COLUMNS];
        ig_cells_load(c->bias->dtype, c->bias->data + first * c->bias_stride, c->bias_stride, n, bias);
        for (int i = 0; i < n; i++) {
            if (ig_cells_are_float(c->result)) {
                sums[i].f += bias[i].f;
            } else {
                sums[i].i = (int64_t)((uint64_t)sums[i].i + (uint64_t)bias[i].i);
            }
        }
    }
    ig_cells_store(c->result, c->out + row * c->row_stride + first * c->column_stride, c->column_stride, n, sums);
}

void ig_contract(struct ig_eval *ev, struct ig_contraction *c, enum ingot_dtype a, enum ingot_dtype b) {
    c->integer = wide_integer(a) || wide_integer(b);
    uint32_t temporaries = ev->temporaries.count;
    if (c->integer && ig_cells_are_float(c->result))
        ig_eval_raise(ev, "integers contracted to %s", ingot_dtype_name(c->result));
    union ig_cell *strip = ig_eval_scratch(ev, c->depth, COLUMNS * sizeof *strip);
    union ig_cell *rows = ig_eval_scratch(ev, c->depth, ROWS * sizeof *rows), sums[ROWS][COLUMNS];
    for (int64_t first = 0; first < c->columns; first += COLUMNS) {
        int n = c->columns - first < COLUMNS ? (int)(c->columns - first) : COLUMNS;
        if (n < COLUMNS && c->depth > 0) memset(strip, 0, (size_t)c->depth * COLUMNS * sizeof *strip);
        for (int64_t k = 0; k < c->depth; k++)
            c->fetch_columns(c, k, first, n, strip + k * COLUMNS);
        for (int64_t row = 0; row < c->rows; row += ROWS) {
            int count = c->rows - row < ROWS ? (int)(c->rows - row) : ROWS;
            if (count < ROWS && c->depth > 0) memset(rows, 0, (size_t)c->depth * ROWS * sizeof *rows);
            for (int r = 0; r < count; r++)
                c->fetch_row(c, row + r, rows + r * c->depth);
            (c->integer ? multiply_int : multiply_float)(c->depth, rows, strip, sums, n);
            for (int r = 0; r < count; r++)
                store_row(c, row + r, first, n, sums[r]);
        }
    }
    ig_eval_drop_temporaries(ev, temporaries);
}

/* ---- Matmul */

struct matmul {
    struct ig_contraction base;
    struct ig_view a, b; /* the matrices of the current batch */
    int64_t size_a, size_b;
    int64_t packed, together; /* as in ops.def: NR and G */
};

static void matmul_row(const struct ig_contraction *c, int64_t row, union ig_cell *out_cells) {
    const struct matmul *m = (const struct matmul *)c;
    const struct ig_view *a = &m->a;
    ig_contract_load(c, a->dtype, a->data + row * a->strides[a->rank - 2] * m->size_a,
                     a->strides[a->rank - 1] * m->size_a, c->depth, out_cells);
}

static void matmul_columns(const struct ig_contraction *c, int64_t k, int64_t first, int n, union ig_cell *out_cells) {
    const struct matmul *m = (const struct matmul *)c;
    const struct ig_view *b = &m->b;
    if (!m->packed) {
        ig_contract_load(c, b->dtype,
                         b->data + (k * b->strides[b->rank - 2] + first * b->strides[b->rank - 1]) * m->size_b,
                         b->strides[b->rank - 1] * m->size_b, n, out_cells);
        return;
    }
    for (int64_t column = first; column < first + n; column++) {
        int64_t index[] = {column / m->packed, k / m->together, column % m->packed, k % m->together};
        ig_contract_load(c, b->dtype, ig_view_at(b, index), 0, 1, out_cells++);
    }
}

static void matmul_batches(struct ig_eval *ev, struct matmul *m, const struct ig_view *a, const struct ig_view *b,
                           struct ig_view *out, enum ingot_dtype dtype_b) {
    int batch = out->rank - 2;
    int64_t index[INGOT_MAX_RANK] = {0};
    do {
        m->a.data = ig_view_at(a, index);
        m->b.data = m->packed ? b->data : ig_view_at(b, index);
        m->base.out = ig_view_at(out, index);
        ig_contract(ev, &m->base, a->dtype, dtype_b);
    } while (ig_advance(batch, out->dims, index));
}

IG_EVAL(matmul) {
    int64_t how = ig_attr_int(graph, node, IG_ATTR_packed), packed = how > 0 ? how : 0;
    const struct ig_view *a = &in[0], *b = &in[1];
    if (a->rank < 2 || b->rank < 2 || (packed && b->rank != 3 && b->rank != 4))
        ig_eval_raise(ev, "ranks %d and %d", a->rank, b->rank);
    int64_t m = a->dims[a->rank - 2], line = a->dims[a->rank - 1], k = how < 0 ? line + how : line;
    int64_t together = packed && b->rank == 4 ? b->dims[3] : 1;
    int64_t n = packed ? ig_attr_int(graph, node, IG_ATTR_n) : b->dims[b->rank - 1];
    int64_t depth = packed ? b->dims[1] : b->dims[b->rank - 2];
    if (together < 1 || depth != (k + together - 1) / together ||
        (packed && (b->dims[0] * packed < n || b->dims[2] != packed))) {
        ig_eval_raise(ev, "depths %lld and %lld differ", (long long)k, (long long)depth);
    }
    int rank = packed || a->rank > b->rank ? a->rank : b->rank;
    int64_t dims[INGOT_MAX_RANK], dims_a[INGOT_MAX_RANK], dims_b[INGOT_MAX_RANK];
    for (int i = 0; i < rank - 2; i++) {
        int ia = i - (rank - a->rank), ib = i - (rank - b->rank);
        int64_t da = ia < 0 ? 1 : a->dims[ia], db = packed || ib < 0 ? 1 : b->dims[ib];
        dims[i] = dims_a[i] = dims_b[i] = da == 1 ? db : da;
    }
    dims[rank - 2] = dims_a[rank - 2] = m;
    dims_a[rank - 1] = line;
    dims_b[rank - 2] = k;
    dims[rank - 1] = dims_b[rank - 1] = n;
    struct ig_view whole_a = ig_view_broadcast(ev, a, rank, dims_a);
    struct ig_view whole_b = packed ? *b : ig_view_broadcast(ev, b, rank, dims_b);
    enum ingot_dtype acc = (enum ingot_dtype)ig_attr_int(graph, node, IG_ATTR_acc);
    out[0] = ig_view_new(ev, acc, rank, dims);
    if (ig_view_elements(&out[0]) == 0) return;
    int64_t size = (int64_t)ingot_dtype_size(acc);
    struct matmul job = {.base = {.rows = m,
                                  .depth = k,
                                  .columns = n,
                                  .fetch_row = matmul_row,
                                  .fetch_columns = matmul_columns,
                                  .result = acc,
                                  .row_stride = n * size,
                                  .column_stride = size},
                         .a = whole_a,
                         .b = whole_b,
                         .packed = packed,
                         .together = together};
    job.size_a = (int64_t)ingot_dtype_size(a->dtype);
    job.size_b = (int64_t)ingot_dtype_size(b->dtype);
    matmul_batches(ev, &job, &whole_a, &whole_b, &out[0], b->dtype);
}
