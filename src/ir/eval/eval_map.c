/*
 * Elementwise operators, all generated from ops.def: one function each for double, int64 and uint64 operands, applied
 * to rows of cells. Results are rounded to their type once, when they are stored.
 */
#include <math.h>
#include <string.h>

#include "base/half_row.h"
#include "base/narrow.h"
#include "ir/eval/eval_op.h"

/* Elements per piece of a row: pieces stay in the L1 cache. */
enum { ROW = 512 };

/* ---- Integer arithmetic. Signed cells are computed in 128 bits and truncated to 64, so that all of it wraps. */

static uint64_t power(uint64_t base, uint64_t exponent) {
    uint64_t result = 1;
    for (; exponent; exponent >>= 1, base *= base) {
        if (exponent & 1) result *= base;
    }
    return result;
}

static int64_t signed_pow(int64_t a, int64_t b) {
    if (b >= 0) return (int64_t)power((uint64_t)a, (uint64_t)b);
    if (a == 1) return 1;
    return a == -1 ? (b & 1 ? -1 : 1) : 0; /* 1 / a^-b, truncated; defined as 0 for a = 0 */
}

static int64_t signed_mod(int64_t a, int64_t b) {
    if (b == 0 || b == -1) return 0;
    int64_t rem = a % b;
    return rem != 0 && (rem < 0) != (b < 0) ? rem + b : rem;
}

/* ---- One function per operator and kind of cell; the operator's operand class decides which kinds exist. */

typedef void (*row_fn)(union ig_cell *restrict out, const union ig_cell *x, const union ig_cell *y, int n);

#define ROW_FUNCTION(function, expression, type, field, result)                                                \
    static void function(union ig_cell *restrict out, const union ig_cell *x, const union ig_cell *y, int n) { \
        for (int i = 0; i < n; i++) {                                                                          \
            type a = (type)x[i].field, b = (type)y[i].field;                                                   \
            (void)a, (void)b;                                                                                  \
            out[i].result = (expression);                                                                      \
        }                                                                                                      \
    }
#define NO_FUNCTION(...)

#define FLOAT_OF_FLOAT ROW_FUNCTION
#define FLOAT_OF_NUM ROW_FUNCTION
#define FLOAT_OF_ANY ROW_FUNCTION
#define FLOAT_OF_INT NO_FUNCTION
#define FLOAT_OF_BOOL NO_FUNCTION
#define RESULT_SAME f
#define RESULT_BOOL i
#define IG_MAP(name, arity, operands, result, on_float, on_int) \
    FLOAT_OF_##operands(name##_float, on_float, double, f, RESULT_##result)
#include "ir/ops.def"

#define INT_OF_FLOAT NO_FUNCTION
#define INT_OF_NUM ROW_FUNCTION
#define INT_OF_ANY ROW_FUNCTION
#define INT_OF_INT ROW_FUNCTION
#define INT_OF_BOOL ROW_FUNCTION
#define IG_INT_ABS(a) ((a) < 0 ? -(a) : (a))
#define IG_INT_SIGN(a) (((a) > 0) - ((a) < 0))
#define IG_INT_DIV(a, b) ((b) == 0 ? 0 : (a) / (b))
#define IG_INT_MOD(a, b) signed_mod((int64_t)(a), (int64_t)(b))
#define IG_INT_REM(a, b) ((b) == 0 ? 0 : (a) % (b))
#define IG_INT_POW(a, b) signed_pow((int64_t)(a), (int64_t)(b))
#define IG_INT_SHL(a, b) ((b) < 0 || (b) > 63 ? 0 : (uint64_t)(a) << (int)(b))
#define IG_INT_SHR(a, b) ((b) < 0 || (b) > 63 ? 0 : (a) >> (int)(b))
#define IG_MAP(name, arity, operands, result, on_float, on_int) \
    INT_OF_##operands(name##_signed, (int64_t)(on_int), __int128, i, i)
#include "ir/ops.def"

#undef IG_INT_ABS
#undef IG_INT_SIGN
#undef IG_INT_MOD
#undef IG_INT_POW
#undef IG_INT_SHL
#undef IG_INT_SHR
#define IG_INT_ABS(a) (a)
#define IG_INT_SIGN(a) ((a) > 0)
#define IG_INT_MOD(a, b) IG_INT_REM(a, b)
#define IG_INT_POW(a, b) power(a, b)
#define IG_INT_SHL(a, b) ((b) > 63 ? 0 : (a) << (b))
#define IG_INT_SHR(a, b) ((b) > 63 ? 0 : (a) >> (b))
#define IG_MAP(name, arity, operands, result, on_float, on_int) \
    INT_OF_##operands(name##_unsigned, (int64_t)(on_int), uint64_t, i, i)
#include "ir/ops.def"

#define TAKEN(function) function
#define NOT_TAKEN(function) NULL
#define FLOAT_ENTRY_FLOAT TAKEN
#define FLOAT_ENTRY_NUM TAKEN
#define FLOAT_ENTRY_ANY TAKEN
#define FLOAT_ENTRY_INT NOT_TAKEN
#define FLOAT_ENTRY_BOOL NOT_TAKEN
#define INT_ENTRY_FLOAT NOT_TAKEN
#define INT_ENTRY_NUM TAKEN
#define INT_ENTRY_ANY TAKEN
#define INT_ENTRY_INT TAKEN
#define INT_ENTRY_BOOL TAKEN

static const struct row_functions {
    row_fn of_float, of_signed, of_unsigned;
} functions[IG_OP_COUNT] = {
#define IG_MAP(name, arity, operands, result, on_float, on_int)                                  \
    [IG_OP_##name] = {FLOAT_ENTRY_##operands(name##_float), INT_ENTRY_##operands(name##_signed), \
                      INT_ENTRY_##operands(name##_unsigned)},
#include "ir/ops.def"
};

/* ---- The walk over the elements */

/* The common dims of n operands. */
static int broadcast_dims(struct ig_eval *ev, const struct ig_view *in, int n, int64_t *out_dims) {
    int rank = 0;
    for (int v = 0; v < n; v++)
        rank = in[v].rank > rank ? in[v].rank : rank;
    for (int i = 0; i < rank; i++) {
        out_dims[i] = 1;
        for (int v = 0; v < n; v++) {
            int from = i - (rank - in[v].rank);
            if (from >= 0 && in[v].dims[from] != 1) out_dims[i] = in[v].dims[from];
        }
    }
    return rank; /* ig_view_broadcast raises on dims that do not match */
}

/* The axes of a view from the largest stride to the smallest; false if one is reversed or broadcast. */
static bool memory_order(const struct ig_view *view, int *out_axes) {
    for (int i = 0; i < view->rank; i++) {
        if (view->dims[i] > 1 && view->strides[i] <= 0) return false;
        int at = i;
        for (; at > 0 && view->strides[out_axes[at - 1]] < view->strides[i]; at--)
            out_axes[at] = out_axes[at - 1];
        out_axes[at] = i;
    }
    return true;
}

/* The result, in the memory order of the first operand that has its shape: channels-last stays channels-last, and the
 * walk is one of long rows. */
static struct ig_view new_like(struct ig_eval *ev, enum ingot_dtype dtype, int rank, const int64_t *dims,
                               const struct ig_view *operands, int n) {
    struct ig_view out = ig_view_new(ev, dtype, rank, dims);
    int axes[INGOT_MAX_RANK] = {0};
    for (int v = 0; v < n; v++) {
        if (!memory_order(&operands[v], axes)) continue;
        uint64_t stride = 1; /* unsigned: as in ig_dense_strides */
        for (int i = rank - 1; i >= 0; i--) {
            out.strides[axes[i]] = (int64_t)stride;
            stride *= (uint64_t)dims[axes[i]];
        }
        break;
    }
    return out;
}

/* Calls compute on rows of cells of up to three operands, after conversion from and to any types. */
struct row_job {
    void (*compute)(const struct row_job *job, union ig_cell *restrict out, union ig_cell *const *in, int n);
    row_fn function;
    int arity, width;
    enum ingot_dtype from, to;
    bool saturate;
};

/* `out` and the operands have equal dims. */
static void run_rows(const struct row_job *job, const struct ig_view *out, const struct ig_view *operands) {
    const struct ig_view *views[IG_NEST_VIEWS] = {out, &operands[0], &operands[1], &operands[2]};
    struct ig_nest nest;
    if (!ig_nest_begin(&nest, views, 1 + job->arity)) return;
    union ig_cell result[ROW], cells[3][ROW], *const rows[3] = {cells[0], cells[1], cells[2]};
    memset(cells[1], 0, sizeof cells[1]); /* the absent operand of unary functions */
    int last = nest.rank - 1;
    do {
        for (int64_t at = 0; at < nest.dims[last]; at += ROW) {
            int n = nest.dims[last] - at < ROW ? (int)(nest.dims[last] - at) : ROW;
            for (int v = 0; v < job->arity; v++) {
                int64_t stride = nest.strides[1 + v][last];
                ig_cells_load(operands[v].dtype, nest.data[1 + v] + at * stride, stride, n, cells[v]);
            }
            job->compute(job, result, rows, n);
            ig_cells_store(out->dtype, nest.data[0] + at * nest.strides[0][last], nest.strides[0][last], n, result);
        }
    } while (ig_nest_next(&nest));
}

static struct ig_view run_elementwise(struct ig_eval *ev, const struct row_job *job, enum ingot_dtype dtype,
                                      const struct ig_view *in) {
    int64_t dims[INGOT_MAX_RANK] = {0};
    int rank = broadcast_dims(ev, in, job->arity, dims);
    struct ig_view operands[3];
    for (int v = 0; v < job->arity; v++)
        operands[v] = ig_view_broadcast(ev, &in[v], rank, dims);
    struct ig_view out = new_like(ev, dtype, rank, dims, operands, job->arity);
    run_rows(job, &out, operands);
    return out;
}

static void compute_map(const struct row_job *job, union ig_cell *restrict out, union ig_cell *const *in, int n) {
    job->function(out, in[0], in[1], n);
}

/* A shift by at least the type's width gives 0; cells are wider, so such a shift is set to 64. */
static void compute_shift(const struct row_job *job, union ig_cell *restrict out, union ig_cell *const *in, int n) {
    for (int i = 0; i < n; i++) {
        if ((uint64_t)in[1][i].i >= (uint64_t)job->width) in[1][i].i = 64;
    }
    job->function(out, in[0], in[1], n);
}

IG_EVAL(map) {
    const struct row_functions *of = &functions[node->op];
    enum ingot_dtype dtype = in[0].dtype;
    struct row_job job = {.compute = compute_map, .arity = (int)node->n_in, .width = 8 * (int)ingot_dtype_size(dtype)};
    bool is_signed = dtype == INGOT_I8 || dtype == INGOT_I16 || dtype == INGOT_I32 || dtype == INGOT_I64;
    job.function = ig_cells_are_float(dtype) ? of->of_float : is_signed ? of->of_signed : of->of_unsigned;
    if (!job.function) ig_eval_raise(ev, "not defined for %s", ingot_dtype_name(dtype));
    if (node->op == IG_OP_shl || node->op == IG_OP_shr) job.compute = compute_shift;
    out[0] = run_elementwise(ev, &job, ig_op_info(node->op)->result_bool ? INGOT_BOOL : dtype, in);
}

static void compute_where(const struct row_job *job, union ig_cell *restrict out, union ig_cell *const *in, int n) {
    for (int i = 0; i < n; i++)
        out[i] = in[0][i].i ? in[1][i] : in[2][i];
}

IG_EVAL(where) {
    struct row_job job = {.compute = compute_where, .arity = 3};
    out[0] = run_elementwise(ev, &job, in[1].dtype, in);
}

/* ---- Casts */

static int64_t clamp(int64_t value, int64_t lo, int64_t hi) {
    return value < lo ? lo : value > hi ? hi : value;
}

/* The range of an integer type, in int64. The upper bound of u64 does not fit and is handled separately. */
static void range_of(enum ingot_dtype dtype, int64_t *out_lo, int64_t *out_hi) {
    int bits = 8 * (int)ingot_dtype_size(dtype);
    bool is_signed = dtype == INGOT_I8 || dtype == INGOT_I16 || dtype == INGOT_I32 || dtype == INGOT_I64;
    *out_hi = is_signed || bits == 64 ? INT64_MAX >> (64 - bits) : (INT64_C(1) << bits) - 1;
    *out_lo = is_signed ? -*out_hi - 1 : 0;
}

static int64_t cast_float(const struct row_job *job, double value) {
    int64_t result;
    ig_store_f64(job->to == INGOT_U64 ? INGOT_U64 : INGOT_I64, &result, 0, value);
    if (!job->saturate) return result;
    int64_t lo, hi;
    range_of(job->to, &lo, &hi);
    if (isnan(value)) return 0;
    if (job->to == INGOT_U64) return value < 0 ? 0 : value >= 0x1p64 ? -1 : result;
    return value <= (double)lo ? lo : value >= (double)hi ? hi : result;
}

static int64_t cast_int(const struct row_job *job, int64_t value) {
    int64_t lo, hi;
    if (!job->saturate || job->from == job->to) return value;
    if (job->to == INGOT_U64) return job->from != INGOT_U64 && value < 0 ? 0 : value;
    range_of(job->to, &lo, &hi);
    if (job->from == INGOT_U64 && value < 0) return hi;
    return clamp(value, lo, hi);
}

/* To and from narrow floats, whose cells hold the codes; to narrow integers, from i8 and u8. */
static void compute_narrow_cast(const struct row_job *job, union ig_cell *restrict out, union ig_cell *const *in,
                                int n) {
    for (int i = 0; i < n; i++) {
        union ig_cell cell = in[0][i];
        if (ig_narrow_is_float(job->from)) {
            out[i].f = (double)ig_narrow_to_f32(job->from, (uint8_t)cell.i);
        } else if (ig_narrow_is_float(job->to)) {
            out[i].i = ig_f64_to_narrow(job->to, cell.f, job->saturate);
        } else {
            out[i].i = ig_dtype_is_narrow(job->to) ? ig_narrow_to_int(job->to, (uint8_t)cell.i) : cell.i;
        }
    }
}

static void compute_cast(const struct row_job *job, union ig_cell *restrict out, union ig_cell *const *in, int n) {
    bool from_float = ig_cells_are_float(job->from), to_float = ig_cells_are_float(job->to);
    for (int i = 0; i < n; i++) {
        union ig_cell cell = in[0][i];
        if (job->to == INGOT_BOOL) {
            out[i].i = from_float ? cell.f != 0 : cell.i != 0;
        } else if (from_float && to_float) {
            out[i] = cell;
        } else if (from_float) {
            out[i].i = cast_float(job, cell.f);
        } else if (!to_float) {
            out[i].i = cast_int(job, cell.i);
        } else if (job->to == INGOT_F32) { /* rounded once */
            out[i].f = job->from == INGOT_U64 ? (float)(uint64_t)cell.i : (float)cell.i;
        } else {
            out[i].f = job->from == INGOT_U64 ? (double)(uint64_t)cell.i : (double)cell.i;
        }
    }
}

/* Conversions of rows without cells; what they give is the same. */
typedef void (*convert_fn)(const void *from, void *to, size_t count);

#define CONVERT(name, from_type, to_type)                               \
    static void name(const void *from, void *to, size_t count) {        \
        ig_##name##_row((const from_type *)from, (to_type *)to, count); \
    }
CONVERT(f32_to_f16, float, uint16_t)
CONVERT(f32_to_bf16, float, uint16_t)
CONVERT(f16_to_f32, uint16_t, float)
CONVERT(bf16_to_f32, uint16_t, float)

static convert_fn conversion(enum ingot_dtype from, enum ingot_dtype to) {
    if (from == INGOT_F32 && to == INGOT_F16) return f32_to_f16;
    if (from == INGOT_F32 && to == INGOT_BF16) return f32_to_bf16;
    if (from == INGOT_F16 && to == INGOT_F32) return f16_to_f32;
    if (from == INGOT_BF16 && to == INGOT_F32) return bf16_to_f32;
    return NULL;
}

/* False, and nothing done, where rows are not contiguous. */
static bool convert_rows(convert_fn convert, const struct ig_view *out, const struct ig_view *in) {
    const struct ig_view *views[] = {out, in};
    struct ig_nest nest;
    if (!ig_nest_begin(&nest, views, 2)) return true;
    int last = nest.rank - 1;
    if (nest.dims[last] > 1 && (nest.strides[0][last] != (int64_t)ingot_dtype_size(out->dtype) ||
                                nest.strides[1][last] != (int64_t)ingot_dtype_size(in->dtype)))
        return false;
    do {
        convert(nest.data[1], nest.data[0], (size_t)nest.dims[last]);
    } while (ig_nest_next(&nest));
    return true;
}

IG_EVAL(cast) {
    struct row_job job = {.compute = compute_cast,
                          .arity = 1,
                          .from = in[0].dtype,
                          .to = (enum ingot_dtype)ig_attr_int(graph, node, IG_ATTR_to),
                          .saturate = ig_attr_int(graph, node, IG_ATTR_saturate) != 0};
    if (ig_dtype_is_narrow(job.from) || ig_dtype_is_narrow(job.to)) job.compute = compute_narrow_cast;
    convert_fn convert = conversion(job.from, job.to);
    out[0] = new_like(ev, job.to, in[0].rank, in[0].dims, in, 1);
    if (!convert || !convert_rows(convert, &out[0], &in[0])) run_rows(&job, &out[0], in);
}

IG_EVAL(iota) {
    int64_t dims[INGOT_MAX_RANK];
    int rank = ig_eval_attr_dims(ev, ig_attr(graph, node, IG_ATTR_dims), dims, INGOT_MAX_RANK);
    int axis = (int)ig_attr_int(graph, node, IG_ATTR_axis);
    int64_t strides[INGOT_MAX_RANK];
    out[0] = ig_view_new(ev, INGOT_I64, rank, dims);
    ig_dense_strides(rank, dims, strides);
    int64_t n = ig_view_elements(&out[0]);
    for (int64_t i = 0; i < n; i++)
        ((int64_t *)(void *)out[0].data)[i] = i / strides[axis] % dims[axis];
}
