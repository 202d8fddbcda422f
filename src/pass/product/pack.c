/*
 * pack: stores constant weights of contractions in the order in which the micro-kernels read them.
 *
 * Requires:   layout (convolutions in channels-last form).
 * Guarantees: matrices [k, n] of f32, f16, bf16 or, on GPUs, bytes that are the constant second operand of a matmul
 *             become [ceil(n/NR), k, NR]; constant weights of channels-last convolutions become [groups, ceil(M/groups/NR), kernel...,
 *             C/groups, NR], [kernel..., C] if depthwise, and on CPUs [kernel..., C/groups, M] in groups of so few channels
 *             that vectors have several, and depthwise ones of pictures of bytes with four lines together; transformed
 *             filters (winograd.c) have their positions in the place of the
 *             kernel's; the attribute `packed` records it (NR, or 1). NR is the target's panel width. On CPUs, weights of i8 are packed likewise where the first operand is of bytes,
 *             with four steps of the depth together; one of i8 is raised by 128 to u8 for that, and 128 times the sums of
 *             the weights are taken off the result. Recurrent weights are in panels of units, as ops.def says, which their rank shows.
 *             GPU kernels read plain matrices: there is one panel as wide as all columns, and NR is their number,
 *             rounded up to a multiple of 8. Matrices whose columns are such a multiple stay unchanged. NR is 1 for
 *             bytes, which their tensor cores read along the depth only, for rows that may be few on GPUs
 *             that stream columns, on GPUs with products of warp
 *             groups in TF32, where these do the same, and for many rows in f16 and bf16, where that saves exchanging
 *             results between threads, or filling up. Convolutions of
 *             pictures are also rewritten, so that their windows consist of whole vector loads (picture.c), where several
 *             steps are together on CPUs as well; and convolutions of many narrow groups on GPUs, which become fewer
 *             (join_groups.c).
 *             Codes of matmul_blocks become real bits, in the order of ir/blocks.h (pack_blocks.c).
 *             What attentions on GPUs add to each score is stored in the order in which threads have the scores (pack_tables.c).
 *             A constant first operand (weights_first.c) gets zeros at the ends of its lines, up to whole loads of the depth, on
 *             GPUs; `packed` records that, too.
 *             Packing is pad, reshape and transpose of the constant, so it is a recipe.
 */
#include "pass/match.h"
#include "pass/passes.h"
#include "pass/product/join_groups.h"
#include "pass/product/pack_blocks.h"
#include "pass/product/pack_tables.h"
#include "pass/view/picture.h"
#include "pass/view/view.h"

enum { MOST_COLUMNS = 1 << 20 }; /* per panel: the limit of shape inference */

/* Appends zeros along the axis up to a multiple of nr; sets the number of panels (or of groups of steps). */
static ig_value pad_to_panels(struct ig_graph *g, ig_value v, int axis, int64_t nr, int64_t *out_panels) {
    int64_t size = 0;
    ig_dim_is_const(g->dims, ig_type_of(g, v)->dim[axis], &size);
    *out_panels = (size + nr - 1) / nr;
    return ig_build_pad_end(g, v, axis, *out_panels * nr - size);
}

/* Is w a constant of static shape without empty dims? */
static bool is_packable(struct ig_graph *g, ig_value w, int64_t *out_dims) {
    const struct ig_type *type = ig_type_of(g, w);
    if (!ig_info(g, w)->is_const || !ig_type_is_static(g->dims, type, out_dims)) return false;
    for (int i = 0; i < type->rank; i++) {
        if (out_dims[i] == 0) return false;
    }
    return true;
}

/* Bytes that GPUs multiply on their tensor cores, which read them along the depth only. */
static bool are_bytes(const struct ig_target *target, enum ingot_dtype dtype) {
    return ig_target_is_cuda(target) &&
           (dtype == INGOT_I8 || dtype == INGOT_U8 || dtype == INGOT_F8E4M3FN || dtype == INGOT_F8E5M2);
}

/* The steps of the depth that packed weights of the product of x and w have together; 0: they are not packed. */
static int64_t steps_together(const struct ig_rewriter *rw, struct ig_graph *g, ig_value x, ig_value w) {
    enum ingot_dtype dtype = ig_type_of(g, w)->dtype;
    int64_t together = ig_target_together(rw->options->target, ig_type_of(g, x)->dtype, dtype);
    bool is_float = dtype == INGOT_F32 || dtype == INGOT_F16 || dtype == INGOT_BF16;
    return is_float || together > 1 || are_bytes(rw->options->target, dtype) ? together : 0;
}

static ig_value rebuild(struct ig_graph *g, const struct ig_node *n, const ig_value *in, ig_value w, int64_t packed,
                        int64_t columns) {
    struct ig_attr *attrs = ig_attrs_copy(g, n->op, n->attr);
    attrs[ig_attr_slot(n->op, IG_ATTR_packed)].i = packed;
    attrs[ig_attr_slot(n->op, IG_ATTR_n)].i = columns;
    ig_value operands[3] = {in[0], w, n->n_in > 2 ? in[2] : IG_NO_VALUE};
    struct ig_graph *const no_bodies[2] = {NULL, NULL};
    return ig_build_node(g, n->op, operands, n->n_in, 1, attrs, no_bodies);
}

enum { FEW_ROWS = 16 };

/* Between which bounds the number of the product's rows lies. */
static void range_of_rows(const struct ig_rewriter *rw, const struct ig_node *n, int64_t *out_lo, int64_t *out_hi) {
    struct ig_graph *g = rw->in;
    const struct ig_type *out = ig_type_of(g, n->out);
    ig_dim rows = ig_dim_const(g->dims, 1);
    for (int i = 0; i + 1 < out->rank; i++)
        rows = ig_dim_mul(g->dims, rows, out->dim[i]);
    ig_dim_range(g->dims, rows, out_lo, out_hi);
}

/* Can few rows stream the columns through shared memory (kernel/cuda/contract/contract_choose.c)? */
static bool can_stream(const struct ig_rewriter *rw, const struct ig_node *n, int64_t depth) {
    enum { SHORT = 512 };
    enum ingot_dtype dtype = ig_type_of(rw->in, n->in[1])->dtype;
    bool narrow = dtype == INGOT_F16 || dtype == INGOT_BF16;
    int64_t bytes = depth * (int64_t)ingot_dtype_size(dtype), lo, hi;
    range_of_rows(rw, n, &lo, &hi);
    bool few = narrow ? lo <= FEW_ROWS : hi <= 4; /* rows of f32, and where they are few always */
    return ig_target_can_stream(rw->options->target) && n->op == IG_OP_matmul && few && bytes >= SHORT &&
           bytes % 16 == 0;
}

/* Do the products of warp groups want the columns one by one, each along the depth? In TF32 they can read nothing else.
 * Otherwise the copy engine can then deal out the columns of 32 among the threads that store them (base/tensor_map.h);
 * few rows read the weights straight from memory, row by row. Columns that would have to be filled up one by one need not be,
 * so that an embedding's matrix, which gives the logits too, is there once. The depth must be whole loads. */
static bool wants_columns(const struct ig_rewriter *rw, const struct ig_node *n, int64_t depth, int64_t columns) {
    enum ingot_dtype dtype = ig_type_of(rw->in, n->in[1])->dtype;
    int64_t lo, hi;
    if (are_bytes(rw->options->target, dtype)) return depth * columns > 1; /* a single number becomes a literal */
    if (can_stream(rw, n, depth)) return true;
    if (!ig_target_has_warpgroups(rw->options->target)) return false;
    if (ig_attr_int(rw->in, n, IG_ATTR_math) == IG_MATH_TF32) return depth % 4 == 0;
    range_of_rows(rw, n, &lo, &hi);
    if ((dtype != INGOT_F16 && dtype != INGOT_BF16) || depth % 8 != 0 || lo <= FEW_ROWS) return false;
    return columns % 32 == 0 || columns % 8 != 0;
}

/* Columns per panel; 0: weights are not packed. On a GPU one panel has all columns of a group: a row-major matrix [k,
 * n], zero-padded so that rows begin at multiples of 16 bytes. */
static int64_t panel_width(const struct ig_target *target, int64_t columns) {
    if (!ig_target_is_cuda(target)) return ig_target_nr(target);
    return columns <= MOST_COLUMNS - 8 ? (columns + 7) / 8 * 8 : 0;
}

/* Does a GPU multiply the operands on its tensor cores? */
static bool has_tensor_cores(const struct ig_rewriter *rw, const struct ig_node *n) {
    enum ingot_dtype dtype = ig_type_of(rw->in, n->in[1])->dtype;
    bool rounded = ig_attr_int(rw->in, n, IG_ATTR_math) == IG_MATH_TF32;
    return ig_target_is_cuda(rw->options->target) &&
           (dtype == INGOT_F16 || dtype == INGOT_BF16 || rounded || are_bytes(rw->options->target, dtype));
}

/* The lines of a constant first operand filled up to whole loads, so that all begin at a multiple of one. */
static ig_value fill_lines(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    enum { LOAD = 16 /* bytes */ };
    struct ig_graph *g = rw->out;
    int64_t dims[INGOT_MAX_RANK], lines;
    if (ig_type_of(g, in[0])->rank != 2 || !is_packable(g, in[0], dims) || !has_tensor_cores(rw, n)) return IG_NO_VALUE;
    int64_t load = LOAD / (int64_t)ingot_dtype_size(ig_type_of(g, in[0])->dtype), more = (load - dims[1] % load) % load;
    if (more == 0) return IG_NO_VALUE;
    ig_value filled[3] = {pad_to_panels(g, in[0], 1, load, &lines), in[1], IG_NO_VALUE};
    struct ig_attr *attrs = ig_attrs_copy(g, n->op, n->attr);
    attrs[ig_attr_slot(n->op, IG_ATTR_packed)].i = -more;
    struct ig_graph *const no_bodies[2] = {NULL, NULL};
    return ig_build_node(g, n->op, filled, n->n_in, 1, attrs, no_bodies);
}

static ig_value pack_matmul(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    int64_t dims[INGOT_MAX_RANK], panels, steps, together = steps_together(rw, g, in[0], in[1]);
    if (ig_type_of(g, in[1])->rank != 2 || together == 0 || !is_packable(g, in[1], dims)) return fill_lines(rw, n, in);
    int64_t nr = wants_columns(rw, n, dims[0], dims[1]) ? 1 : panel_width(rw->options->target, dims[1]);
    if (nr == 0 || (nr > 1 && nr == dims[1] && ig_target_is_cuda(rw->options->target))) return IG_NO_VALUE;
    ig_value w = pad_to_panels(g, in[1], 1, nr, &panels);
    w = pad_to_panels(g, w, 0, together, &steps);
    if (together > 1) {
        w = ig_view_reshape_to(g, w, (int64_t[]){steps, together, panels, nr}, 4);
        w = ig_view_transpose(g, w, (int64_t[]){2, 0, 3, 1});
    } else {
        w = ig_view_reshape_to(g, w, (int64_t[]){dims[0], panels, nr}, 3);
        w = ig_view_transpose(g, w, (int64_t[]){1, 0, 2});
    }
    return rebuild(g, n, in, w, nr, dims[1]);
}

/* [C,1,kernel...] to [kernel...,C] */
static ig_value pack_depthwise(struct ig_graph *g, ig_value w, const int64_t *dims, int rank) {
    int64_t sizes[INGOT_MAX_RANK], perm[INGOT_MAX_RANK];
    sizes[0] = dims[0];
    for (int i = 1; i < rank - 1; i++)
        sizes[i] = dims[i + 1];
    for (int i = 0; i < rank - 1; i++)
        perm[i] = i == rank - 2 ? 0 : i + 1;
    return ig_view_transpose(g, ig_view_reshape_to(g, w, sizes, rank - 1), perm);
}

/* Do convolutions in groups fill vectors with the channels of several groups on CPUs (cpu/contract_depthwise.c)? */
static bool spans_groups(const struct ig_target *target, const struct ig_type *w, const int64_t *dims, int64_t groups) {
    int64_t lanes = ig_target_nr(target) / 2, per = dims[0] / groups;
    bool one = dims[1] == 1 && w->dtype == INGOT_F32 && per <= IG_TARGET_MOST_OUTPUTS;
    bool suits = lanes % per == 0 ? one || dims[1] == per : one && per % lanes == 0;
    return !ig_target_is_cuda(target) && groups > 1 && suits && dims[0] >= lanes && w->rank <= 4;
}

/* [M,C/groups,kernel...] to [kernel...,C/groups,M] */
static ig_value pack_groups(struct ig_graph *g, ig_value w, int rank) {
    int64_t perm[INGOT_MAX_RANK];
    for (int i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i + 2 : rank - 1 - i;
    return ig_view_transpose(g, w, perm);
}

/* [h,w,C] to [ceil(h/4), w, C, 4], with channels rounded up to a multiple of 16 */
static ig_value lines_together(struct ig_graph *g, ig_value w) {
    int64_t lines, blocks, width = 0;
    ig_dim_is_const(g->dims, ig_type_of(g, w)->dim[1], &width);
    w = pad_to_panels(g, pad_to_panels(g, w, 0, 4, &lines), 2, 16, &blocks);
    w = ig_view_reshape_to(g, w, (int64_t[]){lines, 4, width, 16 * blocks}, 4);
    return ig_view_transpose(g, w, (int64_t[]){0, 2, 3, 1});
}

/* [M,C/groups,kernel...] to [groups, panels, kernel..., C/groups, nr], or with some channels together to
 * [groups, panels, kernel..., C/groups/together, nr, together] */
static ig_value pack_panels(struct ig_graph *g, ig_value w, const int64_t *dims, int rank, int64_t groups, int64_t nr,
                            int64_t together) {
    int64_t sizes[INGOT_MAX_RANK], perm[INGOT_MAX_RANK], panels, steps;
    int kernel = rank - 2, count = 0, channels = 3, taps = together > 1 ? 5 : 4; /* axes before the transpose */
    sizes[0] = groups;
    sizes[1] = dims[0] / groups;
    for (int i = 1; i < rank; i++)
        sizes[i + 1] = dims[i];
    w = pad_to_panels(g, ig_view_reshape_to(g, w, sizes, rank + 1), 1, nr, &panels);
    w = pad_to_panels(g, w, 2, together, &steps);
    sizes[1] = panels;
    sizes[2] = nr;
    sizes[3] = steps;
    sizes[4] = together;
    for (int i = 0; i < kernel; i++)
        sizes[taps + i] = dims[i + 2];
    w = ig_view_reshape_to(g, w, sizes, taps + kernel);
    perm[count++] = 0;
    perm[count++] = 1;
    for (int i = 0; i < kernel; i++)
        perm[count++] = taps + i;
    perm[count++] = channels;
    perm[count++] = 2;
    if (together > 1) perm[count++] = 4;
    return ig_view_transpose(g, w, perm);
}

static struct ig_attr *with_groups(struct ig_graph *g, const struct ig_node *n, int64_t groups) {
    struct ig_attr *attrs = ig_attrs_copy(g, n->op, n->attr);
    attrs[ig_attr_slot(n->op, IG_ATTR_groups)].i = groups;
    return attrs;
}

static ig_value pack_conv(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    int64_t dims[INGOT_MAX_RANK];
    int64_t groups = ig_attr_int(rw->in, n, IG_ATTR_groups), together = steps_together(rw, g, in[0], in[1]);
    int rank = ig_type_of(g, in[1])->rank;
    if (!ig_attr_int(rw->in, n, IG_ATTR_channels_last) || together == 0 || rank + 2 > INGOT_MAX_RANK - (together > 1))
        return IG_NO_VALUE;
    if (!is_packable(g, in[1], dims)) return IG_NO_VALUE;
    if (groups > 1 && dims[0] == groups && dims[1] == 1) {
        bool bytes = ig_type_of(g, in[1])->dtype == INGOT_I8 && !ig_target_is_cuda(rw->options->target);
        if (bytes && (rank != 4 || ig_type_of(g, in[0])->dtype != INGOT_U8)) return IG_NO_VALUE;
        ig_value w = pack_depthwise(g, in[1], dims, rank);
        return rebuild(g, n, in, bytes ? lines_together(g, w) : w, 1, dims[0]);
    }
    if (together == 1 && spans_groups(rw->options->target, ig_type_of(g, in[1]), dims, groups))
        return rebuild(g, n, in, pack_groups(g, in[1], rank), 1, dims[0]);
    struct ig_node conv = *n;
    ig_value operands[3] = {in[0], in[1], n->n_in > 2 ? in[2] : IG_NO_VALUE};
    bool lines = (ig_target_is_cuda(rw->options->target) || together > 1) && groups == 1 &&
                 ig_picture_pack(g, &conv, operands, rw->options->target);
    if (groups > 1 && has_tensor_cores(rw, n)) {
        operands[1] = ig_join_groups(g, operands[1], &groups, ig_target_has_warpgroups(rw->options->target));
        conv.attr = with_groups(g, n, groups);
    }
    is_packable(g, operands[1], dims);
    int64_t nr = panel_width(rw->options->target, dims[0] / groups), depth = 1;
    for (int i = 1; i < rank; i++)
        depth *= dims[i];
    if (lines || wants_columns(rw, n, depth, dims[0] / groups)) nr = 1;
    if (nr == 0) return IG_NO_VALUE;
    return rebuild(g, &conv, operands, pack_panels(g, operands[1], dims, rank, groups, nr, together), nr, dims[0]);
}

/* [gates*hidden,hidden] to [panels,hidden,gates,units] */
static ig_value pack_recurrence(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    int64_t dims[INGOT_MAX_RANK], panels;
    ig_value operands[6];
    const struct ig_type *type = ig_type_of(g, in[1]);
    bool computes = type->dtype == ig_dtype_compute(type->dtype); /* CPUs do not convert weights as they multiply */
    bool suits = type->rank == 2 && (computes || ig_target_is_cuda(rw->options->target));
    if (!suits || !is_packable(g, in[1], dims)) return IG_NO_VALUE;
    int64_t hidden = dims[1], gates = dims[0] / hidden;
    int64_t units = ig_target_units(rw->options->target, (int)gates, (int)ingot_dtype_size(type->dtype), hidden);
    ig_value r = ig_view_reshape_to(g, in[1], (int64_t[]){gates, hidden, hidden}, 3);
    r = pad_to_panels(g, r, 1, units, &panels);
    r = ig_view_reshape_to(g, r, (int64_t[]){gates, panels, units, hidden}, 4);
    for (uint32_t i = 0; i < n->n_in; i++)
        operands[i] = in[i];
    operands[1] = ig_view_transpose(g, r, (int64_t[]){1, 3, 0, 2});
    return ig_build_node(g, n->op, operands, n->n_in, n->n_out, n->attr, NULL);
}

static bool pack_states(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    ig_value first = pack_recurrence(rw, n, in);
    for (uint32_t o = 0; o < n->n_out && first != IG_NO_VALUE; o++)
        out_values[o] = first + o;
    return first != IG_NO_VALUE;
}

/* ---- Signed operands --------------------------------------------------------------------------------------------- */

/* Does the target multiply only unsigned bytes by signed ones fast, and would the weights be packed for that? */
static bool wants_unsigned(const struct ig_rewriter *rw, struct ig_graph *g, const struct ig_node *n, ig_value x,
                           ig_value w) {
    const struct ig_target *target = rw->options->target;
    const struct ig_type *type = ig_type_of(g, w);
    int64_t dims[INGOT_MAX_RANK];
    if (ig_target_together(target, INGOT_U8, INGOT_I8) == 1) return false;
    if (ig_type_of(g, x)->dtype != INGOT_I8 || type->dtype != INGOT_I8 || !is_packable(g, w, dims)) return false;
    if (n->op == IG_OP_matmul) return type->rank == 2;
    int64_t groups = ig_attr_int(g, n, IG_ATTR_groups);
    bool depthwise = groups > 1 && dims[0] == groups && dims[1] == 1;
    return ig_attr_int(g, n, IG_ATTR_channels_last) && (!depthwise || type->rank == 4);
}

/* -128 times the sums of each column's weights. */
static ig_value correction(struct ig_graph *g, ig_value w, bool is_matmul) {
    const int64_t filter[] = {1, 2, 3, 4, 5, 6, 7}, rows = 0;
    const struct ig_type type = *ig_type_of(g, w);
    ig_value sums = ig_build_cast(g, w, INGOT_I32);
    sums = is_matmul ? ig_build_reduce(g, IG_OP_reduce_sum, sums, &rows, 1)
                     : ig_build_reduce(g, IG_OP_reduce_sum, sums, filter, type.rank - 1);
    sums = ig_view_reshape(g, sums, &type.dim[is_matmul], 1);
    return ig_map2(g, IG_OP_mul, sums, ig_build_scalar_int(g, INGOT_I32, -128));
}

/* The product of x + 128, as u8, less 128 times the sums of the weights: x * w = (x + 128) * w - 128 * w. */
static ig_value pack_signed(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    bool is_matmul = n->op == IG_OP_matmul;
    ig_value raised = ig_build_cast(g, in[0], INGOT_U8), less = correction(g, in[1], is_matmul);
    raised = ig_map2(g, IG_OP_add, raised, ig_build_scalar_int(g, INGOT_U8, 128));
    if (is_matmul) {
        ig_value y = pack_matmul(rw, n, (const ig_value[]){raised, in[1]});
        return ig_map2(g, IG_OP_add, y, less);
    }
    struct ig_node conv = *n;
    struct ig_attr *attrs = ig_attrs_copy(g, n->op, n->attr);
    attrs[ig_attr_slot(n->op, IG_ATTR_border)].i += 128;
    conv.attr = attrs;
    conv.n_in = 3;
    if (n->n_in > 2 && in[2] != IG_NO_VALUE) less = ig_map2(g, IG_OP_add, in[2], less);
    return pack_conv(rw, &conv, (const ig_value[]){raised, in[1], less});
}

/* What is looked up in the graph that is rewritten, not in bodies; on GPUs. */
struct packing {
    const struct ig_graph *in;
    const bool *tables; /* by value: see pack_tables.h */
};

static bool pack(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    const struct packing *p = rw->state;
    if (rw->in == p->in && n->n_out == 1 && p->tables[n->out]) {
        out_values[0] = ig_pack_table(rw->out, ig_build_copy(rw->out, rw->in, n, in));
        return true;
    }
    if (n->op == IG_OP_lstm || n->op == IG_OP_gru || n->op == IG_OP_rnn)
        return !ig_info(rw->in, n->out)->is_const && pack_states(rw, n, in, out_values);
    if (n->op == IG_OP_matmul_blocks) {
        out_values[0] = ig_pack_blocks(rw, n, in);
        return out_values[0] != IG_NO_VALUE;
    }
    if (n->op != IG_OP_matmul && n->op != IG_OP_conv) return false;
    if (ig_info(rw->in, n->out)->is_const || ig_attr_int(rw->in, n, IG_ATTR_packed) != 0) return false;
    if (wants_unsigned(rw, rw->out, n, in[0], in[1]))
        out_values[0] = pack_signed(rw, n, in);
    else
        out_values[0] = n->op == IG_OP_matmul ? pack_matmul(rw, n, in) : pack_conv(rw, n, in);
    return out_values[0] != IG_NO_VALUE;
}

struct ig_graph *ig_pass_pack(struct ig_graph *in, const struct ig_pass_options *options) {
    struct packing p = {0};
    if (ig_target_is_cuda(options->target)) p = (struct packing){in, ig_find_tables(in)};
    return ig_rewrite(in, options, pack, &p);
}
