/*
 * The operands of a contraction: read in place where that is fast, or copied into panels.
 *
 * The copy fills borders with zeros, undoes strides and dilations, widens narrow types and computes elementwise
 * prologues, so that the micro-kernel sees plain matrices. Rows are copied along runs that are contiguous in memory: a
 * whole kernel row times the channels in a channels-last convolution whose window lies inside the image.
 */
#include <string.h>

#include "kernel/affine.h"
#include "kernel/cpu/contract.h"
#include "kernel/family/contract_problem.h"

enum ingot_dtype ig_contract_half(enum ingot_dtype dtype) {
    return dtype == INGOT_F16 || dtype == INGOT_BF16 ? dtype : INGOT_DTYPE_NONE;
}

bool ig_contract_can_convert(const struct ig_contract *c, enum ingot_dtype dtype) {
    if (dtype == c->dtype) return true;
    return c->dtype == INGOT_F32 && ig_contract_half(dtype) != INGOT_DTYPE_NONE;
}

/* ---- Reading in place -------------------------------------------------------------------------------------------- */

/* A loop variable that stands for any position in 0 … n-1, to analyse how an element's address depends on it. */
static ig_x probe(struct ig_contract *c, ig_dim n) {
    struct ig_stmt *nowhere = IG_NEW(c->graph->job, struct ig_stmt);
    ig_x var;
    ig_s_for(c->k, nowhere, IG_FOR_SERIAL, ig_contract_int(c, 0), ig_contract_dim(c, n), ig_contract_int(c, 1), &var);
    return var;
}

/* The buffer and position of a plain load; -1 for any other value. */
static int loaded_from(const struct ig_contract *c, ig_x value, ig_x *out_position) {
    const struct ig_x_node *n = ig_x_look(c->k, value);
    if (n->kind != IG_X_LOAD) return -1;
    if (c->k->buffers.at[n->i].nothing != IG_NO_X) return -1;
    *out_position = n->args[0];
    return (int)n->i;
}

/* Does `position` have a fixed stride along `axis`? */
static bool steps(struct ig_contract *c, ig_x position, ig_x axis, ig_dim *out_stride) {
    struct ig_affine sum;
    ig_affine_of(c->k, position, &sum);
    *out_stride = ig_affine_factor(c->k, &sum, axis);
    return !ig_affine_entangled(c->k, &sum, axis);
}

static bool is_one(const struct ig_contract *c, ig_dim d) {
    return ig_contract_const(c, d, 0) == 1;
}

/* The depth as one axis: possible if all axes but the last have size 1. */
static bool probe_depth(struct ig_contract *c, ig_x *out_depth) {
    for (int i = 0; i + 1 < c->depth_rank; i++) {
        if (!is_one(c, c->depth_dim[i])) return false;
        out_depth[i] = ig_contract_int(c, 0);
    }
    out_depth[c->depth_rank - 1] = probe(c, c->depth_dim[c->depth_rank - 1]);
    return true;
}

/* Along an axis of size 1 the variable is the constant 0, so no stride can be derived: any is right, and 1 suits. */
static ig_dim stride_along(struct ig_contract *c, ig_dim size, ig_dim stride) {
    return is_one(c, size) ? ig_dim_const(c->graph->dims, 1) : stride;
}

struct ig_contract_view ig_contract_view_a(struct ig_contract *c, ig_x b) {
    struct ig_contract_view none = {.buffer = -1}, view;
    ig_x depth[IG_CONTRACT_DEPTH], position;
    if (!probe_depth(c, depth)) return none;
    ig_x m = probe(c, c->rows), p = depth[c->depth_rank - 1];
    ig_dim along;
    view.buffer = loaded_from(c, ig_contract_a(c, b, m, depth), &position);
    if (view.buffer < 0 || c->k->buffers.at[view.buffer].dtype != c->operand || c->padded != c->depth) return none;
    if (!steps(c, position, m, &view.stride) || !steps(c, position, p, &along)) return none;
    if (!is_one(c, stride_along(c, c->depth, along))) return none;
    ig_x from[2] = {m, p}, to[2] = {ig_contract_int(c, 0), ig_contract_int(c, 0)};
    view.base = ig_x_substitute(c->k, position, from, to, 2);
    view.transposed = false;
    return view;
}

struct ig_contract_view ig_contract_view_b(struct ig_contract *c, ig_x b) {
    struct ig_contract_view none = {.buffer = -1}, view;
    ig_x depth[IG_CONTRACT_DEPTH], position;
    if (!probe_depth(c, depth)) return none;
    ig_x n = probe(c, c->columns), p = depth[c->depth_rank - 1];
    ig_dim by_column, by_depth;
    ig_x value = ig_contract_b(c, b, n, depth);
    const struct ig_x_node *cast = ig_x_look(c->k, value);
    if (c->interleaves && cast->kind == IG_X_CAST) value = cast->args[0]; /* bytes are copied as they are */
    view.buffer = loaded_from(c, value, &position);
    if (view.buffer < 0) return none;
    enum ingot_dtype dtype = c->k->buffers.at[view.buffer].dtype;
    if (c->interleaves ? dtype != ig_contract_in(c, 1)->dtype : !ig_contract_can_convert(c, dtype)) return none;
    if (!steps(c, position, n, &by_column) || !steps(c, position, p, &by_depth)) return none;
    view.transposed = !is_one(c, stride_along(c, c->columns, by_column));
    if (view.transposed && !is_one(c, stride_along(c, c->depth, by_depth))) return none;
    view.stride = view.transposed ? by_column : by_depth;
    ig_x from[2] = {n, p}, to[2] = {ig_contract_int(c, 0), ig_contract_int(c, 0)};
    view.base = ig_x_substitute(c->k, position, from, to, 2);
    return view;
}

static struct ig_contract_image dense_image(struct ig_contract *c) {
    const struct ig_type *x = ig_contract_in(c, 0);
    struct ig_contract_image view = {.buffer = c->lower.buffer_of[c->node.in[0]], .base = ig_contract_int(c, 0)};
    view.image = x->dim[c->spatial + 1];
    for (int i = c->spatial - 1; i >= 0; i--) {
        view.stride[i] = view.image;
        view.image = ig_dim_mul(c->graph->dims, view.image, x->dim[i + 1]);
    }
    return view;
}

struct ig_contract_image ig_contract_view_image(struct ig_contract *c) {
    const struct ig_type *x = ig_contract_in(c, 0);
    struct ig_contract_image none = {.buffer = -1}, view;
    ig_x at[INGOT_MAX_RANK], zero[INGOT_MAX_RANK], position;
    ig_dim along[INGOT_MAX_RANK];
    if (c->lower.is_input[c->node.in[0]]) return dense_image(c);
    for (int i = 0; i < x->rank; i++) {
        at[i] = probe(c, x->dim[i]);
        zero[i] = ig_contract_int(c, 0);
    }
    view.buffer = loaded_from(c, ig_lower_value(&c->lower, c->node.in[0], at), &position);
    if (view.buffer < 0 || c->k->buffers.at[view.buffer].dtype != x->dtype) return none;
    for (int i = 0; i < x->rank; i++) {
        if (!steps(c, position, at[i], &along[i])) return none;
        along[i] = stride_along(c, x->dim[i], along[i]);
    }
    if (!is_one(c, along[x->rank - 1])) return none;
    view.base = ig_x_substitute(c->k, position, at, zero, x->rank);
    view.image = along[0];
    for (int i = 0; i < c->spatial; i++)
        view.stride[i] = along[i + 1];
    return view;
}

/* ---- Copying rows of A ------------------------------------------------------------------------------------------- */

static struct ig_stmt *loop(struct ig_contract *c, struct ig_stmt *body, enum ig_for_kind kind, ig_x hi,
                            ig_x *out_var) {
    return ig_s_for(c->k, body, kind, ig_contract_int(c, 0), hi, ig_contract_int(c, 1), out_var);
}

/* Zeros where the depth is padded, behind `size` elements that are stored from `to` on. */
static void pad_row(struct ig_contract *c, struct ig_stmt *body, int buffer, ig_x to, ig_dim size) {
    ig_dim rounded = ig_contract_rounded(c, size);
    ig_x none = ig_dtype_is_float(c->dtype) ? ig_x_float(c->k, c->dtype, 0) : ig_x_int(c->k, c->operand, 0), i;
    if (rounded == size) return;
    body = ig_s_for(c->k, body, IG_FOR_SERIAL, ig_contract_dim(c, size), ig_contract_dim(c, rounded),
                    ig_contract_int(c, 1), &i);
    ig_s_store(c->k, body, buffer, ig_x_add(c->k, to, i), none);
}

/* A small divisor, also of `extent`, by which x divides index p of so many elements, or what is p but for an offset; 1: there is none. */
static int64_t find_divisor(struct ig_contract *c, ig_x x, ig_x p, int64_t extent, struct ig_map *seen) {
    enum { MOST = 4 };
    uint32_t unused;
    int64_t found = 1;
    if (x == IG_NO_X || ig_map_get(seen, &x, sizeof x, &unused)) return 1;
    ig_map_put(seen, &x, sizeof x, 1);
    const struct ig_x_node n = *ig_x_look(c->k, x);
    if (n.kind == IG_X_MAP && !n.wraps && (n.op == IG_OP_div || n.op == IG_OP_mod)) {
        const struct ig_x_node by = *ig_x_look(c->k, n.args[1]);
        struct ig_affine sum;
        ig_affine_of(c->k, n.args[0], &sum);
        bool fits = by.kind == IG_X_INT && by.i > 1 && by.i <= MOST && extent % by.i == 0;
        if (fits && is_one(c, ig_affine_factor(c->k, &sum, p))) return by.i;
    }
    for (int i = 0; i < 3 && found == 1; i++)
        found = find_divisor(c, n.args[i], p, extent, seen);
    return found;
}

/* How many runs in memory the last axis of the depth is read from in turns, as behind a shuffle of channels; 1: not so. */
static int64_t count_runs(struct ig_contract *c, ig_x b, ig_x m, const ig_x *outer) {
    struct ig_map seen;
    ig_x depth[IG_CONTRACT_DEPTH];
    int last = c->depth_rank - 1;
    memcpy(depth, outer, sizeof depth);
    depth[last] = probe(c, c->depth_dim[last]);
    ig_map_init(&seen, c->graph->job);
    int64_t extent = ig_contract_const(c, c->depth_dim[last], 1);
    return find_divisor(c, ig_contract_a(c, b, m, depth), depth[last], extent, &seen);
}

/* One row, axis by axis of the depth; the innermost loop is the vector loop, with an element of each run. */
static void copy_row_by_axes(struct ig_contract *c, struct ig_stmt *body, ig_x b, ig_x m, int buffer, ig_x to) {
    ig_x depth[IG_CONTRACT_DEPTH] = {0};
    int last = c->depth_rank - 1;
    struct ig_stmt *whole = body;
    for (int i = 0; i < last; i++)
        body = loop(c, body, IG_FOR_SERIAL, ig_contract_dim(c, c->depth_dim[i]), &depth[i]);
    int64_t runs = count_runs(c, b, m, depth);
    ig_dim length = ig_dim_div(c->k->dims, c->depth_dim[last], ig_dim_const(c->k->dims, runs));
    ig_x nth;
    struct ig_stmt *each = loop(c, body, IG_FOR_SIMD, ig_contract_dim(c, length), &nth);
    for (int64_t i = 0; i < runs; i++) {
        depth[last] = ig_x_add(c->k, ig_x_mul(c->k, nth, ig_contract_int(c, runs)), ig_contract_int(c, i));
        ig_x at = ig_x_add(c->k, to, ig_contract_padded_at(c, depth));
        ig_s_store(c->k, each, buffer, at, ig_contract_a(c, b, m, depth));
    }
    if (!c->spatial) {
        pad_row(c, whole, buffer, to, c->depth);
        return;
    }
    depth[last] = ig_contract_int(c, 0);
    pad_row(c, body, buffer, ig_x_add(c->k, to, ig_contract_padded_at(c, depth)), c->depth_dim[last]);
}

/* Does x load something at neighbouring places for neighbouring m, and far apart for neighbouring p? */
static bool loads_across(struct ig_contract *c, ig_x x, ig_x m, ig_x p, struct ig_map *seen) {
    uint32_t unused;
    if (x == IG_NO_X || ig_map_get(seen, &x, sizeof x, &unused)) return false;
    ig_map_put(seen, &x, sizeof x, 1);
    const struct ig_x_node n = *ig_x_look(c->k, x);
    if (n.kind == IG_X_LOAD) {
        struct ig_affine sum;
        ig_affine_of(c->k, n.args[0], &sum);
        ig_dim along = ig_affine_factor(c->k, &sum, p);
        if (is_one(c, ig_affine_factor(c->k, &sum, m)) && !is_one(c, along) && ig_contract_const(c, along, 1) != 0)
            return true;
    }
    for (int i = 0; i < 3; i++)
        if (loads_across(c, n.args[i], m, p, seen)) return true;
    return false;
}

static bool reads_across(struct ig_contract *c, ig_x b) {
    struct ig_map seen;
    ig_x depth[IG_CONTRACT_DEPTH], m = probe(c, c->rows);
    ig_map_init(&seen, c->graph->job);
    for (int i = 0; i < c->depth_rank; i++)
        depth[i] = probe(c, c->depth_dim[i]);
    return !is_one(c, c->rows) && loads_across(c, ig_contract_a(c, b, m, depth), m, depth[c->depth_rank - 1], &seen);
}

/* Rows of an operand that lies the other way round: some of the depth of all rows, and then the next, so that each cache line
 * is used by several rows while it is in the first cache. */
static void copy_rows_across(struct ig_contract *c, struct ig_stmt *body, ig_x b, ig_x first_row, ig_x rows, int buffer,
                             ig_x lda) {
    enum { BLOCK = 64 };
    struct ig_loops *k = c->k;
    ig_x depth[IG_CONTRACT_DEPTH] = {0}, r, start;
    int last = c->depth_rank - 1;
    struct ig_stmt *whole = body;
    for (int i = 0; i < last; i++)
        body = loop(c, body, IG_FOR_SERIAL, ig_contract_dim(c, c->depth_dim[i]), &depth[i]);
    struct ig_stmt *outer = body;
    ig_x n = ig_contract_dim(c, c->depth_dim[last]), block = ig_contract_int(c, BLOCK);
    body = ig_s_for(k, body, IG_FOR_SERIAL, ig_contract_int(c, 0), n, block, &start);
    ig_x end = ig_x_min(k, ig_x_add(k, start, block), n);
    body = loop(c, body, IG_FOR_SERIAL, rows, &r);
    body = ig_s_for(k, body, IG_FOR_SIMD, start, end, ig_contract_int(c, 1), &depth[last]);
    ig_x to = ig_x_add(k, ig_x_mul(k, r, lda), ig_contract_padded_at(c, depth));
    ig_s_store(k, body, buffer, to, ig_contract_a(c, b, ig_x_add(k, first_row, r), depth));
    if (c->padded == c->depth) return;
    body = loop(c, c->spatial ? outer : whole, IG_FOR_SERIAL, rows, &r);
    depth[last] = ig_contract_int(c, 0);
    to = ig_x_mul(k, r, lda);
    if (c->spatial) to = ig_x_add(k, to, ig_contract_padded_at(c, depth));
    pad_row(c, body, buffer, to, c->spatial ? c->depth_dim[last] : c->depth);
}

/* Are the last kernel axis and the channels one run in memory? Needs channels last, no groups and no dilation. */
static bool has_runs(const struct ig_contract *c) {
    if (!c->spatial || c->groups != 1 || !c->lower.is_input[c->node.in[0]] || c->padded != c->depth) return false;
    if (!ig_contract_attr_int(c, IG_ATTR_channels_last)) return false;
    int64_t run =
        ig_contract_const(c, c->depth_dim[c->spatial], 0) * ig_contract_const(c, c->depth_dim[c->spatial - 1], 0);
    return ig_contract_attr(c, IG_ATTR_dilations)->ints[c->spatial - 1] == 1 && run > 1;
}

/* 0 <= at <= last. */
static ig_x within(struct ig_contract *c, ig_x at, ig_x last) {
    ig_x low = ig_x_less(c->k, ig_contract_int(c, -1), at);
    return ig_x_and(c->k, low, ig_x_less(c->k, at, ig_x_add(c->k, last, ig_contract_int(c, 1))));
}

/* Copies a row kernel row by kernel row if its window lies inside the image, tested at run time by `inside`; else by
 * axes. */
static void copy_row_by_runs(struct ig_contract *c, struct ig_stmt *body, ig_x b, ig_x m, int buffer, ig_x to) {
    struct ig_loops *k = c->k;
    const struct ig_type *x = ig_contract_in(c, 0);
    const struct ig_attr *dilations = ig_contract_attr(c, IG_ATTR_dilations);
    ig_x image, origin[INGOT_MAX_RANK], row, column, inside = ig_x_int(k, INGOT_BOOL, 1);
    ig_contract_window(c, b, m, &image, origin);
    row = image;
    for (int i = 0; i < c->spatial; i++) {
        int64_t reach = (ig_contract_const(c, c->depth_dim[i], 1) - 1) * dilations->ints[i];
        ig_dim last = ig_dim_sub(k->dims, x->dim[i + 1], ig_dim_const(k->dims, 1 + reach));
        inside = ig_x_and(k, inside, within(c, origin[i], ig_contract_dim(c, last)));
    }
    struct ig_stmt *then = body;
    if (ig_contract_padded(c)) {
        then = ig_s_if(k, body, inside);
        copy_row_by_axes(c, ig_s_if(k, body, ig_x_map1(k, IG_OP_not, inside)), b, m, buffer, to);
    }
    ig_x at = ig_contract_int(c, 0);
    for (int i = 0; i + 1 < c->spatial; i++) {
        ig_x tap;
        then = loop(c, then, IG_FOR_SERIAL, ig_contract_dim(c, c->depth_dim[i]), &tap);
        at = ig_x_add(k, ig_x_mul(k, at, ig_contract_dim(c, c->depth_dim[i])), tap);
        row = ig_x_mul(k, row, ig_contract_dim(c, x->dim[i + 1]));
        row = ig_x_add(k, row, ig_x_add(k, origin[i], ig_x_mul(k, tap, ig_contract_int(c, dilations->ints[i]))));
    }
    ig_dim channels = c->depth_dim[c->spatial];
    ig_dim run = ig_dim_mul(k->dims, channels, c->depth_dim[c->spatial - 1]);
    row = ig_x_add(k, ig_x_mul(k, row, ig_contract_dim(c, x->dim[c->spatial])), origin[c->spatial - 1]);
    then = loop(c, then, IG_FOR_SIMD, ig_contract_dim(c, run), &column);
    ig_x value = ig_x_load(k, c->lower.buffer_of[c->node.in[0]],
                           ig_x_add(k, ig_x_mul(k, row, ig_contract_dim(c, channels)), column));
    at = ig_x_add(k, ig_x_mul(k, at, ig_contract_dim(c, run)), column);
    ig_s_store(k, then, buffer, ig_x_add(k, to, at), ig_x_cast(k, value, ig_dtype_compute(c->operand), false));
}

void ig_contract_copy_a(struct ig_contract *c, struct ig_stmt *body, ig_x b, ig_x first_row, ig_x rows, int buffer,
                        ig_x lda) {
    ig_x r;
    if (!has_runs(c) && reads_across(c, b)) {
        copy_rows_across(c, body, b, first_row, rows, buffer, lda);
        return;
    }
    body = loop(c, body, IG_FOR_SERIAL, rows, &r);
    ig_x m = ig_x_add(c->k, first_row, r), to = ig_x_mul(c->k, r, lda);
    if (has_runs(c)) {
        copy_row_by_runs(c, body, b, m, buffer, to);
    } else {
        copy_row_by_axes(c, body, b, m, buffer, to);
    }
}

/* ---- Copying panels of B ----------------------------------------------------------------------------------------- */

/* Are all panels full, or the last one already zero-padded in B? */
static bool panels_full(const struct ig_contract *c, int nr) {
    if (c->packed) return true;
    return ig_dim_divides(c->graph->dims, ig_dim_const(c->graph->dims, nr), c->columns);
}

/* The position of an element in a copied panel: [depth][nr], or [depth/G][nr][G]. */
static ig_x panel_at(struct ig_contract *c, ig_x p, ig_x j, int nr) {
    struct ig_loops *k = c->k;
    ig_x together = ig_contract_int(c, c->together);
    ig_x at = ig_x_add(k, ig_x_mul(k, ig_x_div(k, p, together), ig_contract_int(c, nr)), j);
    return ig_x_add(k, ig_x_mul(k, at, together), ig_x_mod(k, p, together));
}

/* Zeros where the depth is padded. */
static void pad_panel(struct ig_contract *c, struct ig_stmt *body, int nr, int buffer) {
    ig_x p, j;
    if (c->padded == c->depth) return;
    body = ig_s_for(c->k, body, IG_FOR_SERIAL, ig_contract_dim(c, c->depth), ig_contract_dim(c, c->padded),
                    ig_contract_int(c, 1), &p);
    body = loop(c, body, IG_FOR_SERIAL, ig_contract_int(c, nr), &j);
    ig_x none = ig_dtype_is_float(c->dtype) ? ig_x_float(c->k, c->dtype, 0) : ig_x_int(c->k, c->dtype, 0);
    ig_s_store(c->k, body, buffer, panel_at(c, p, j, nr), none);
}

static void copy_elements(struct ig_contract *c, struct ig_stmt *body, ig_x b, ig_x panel, int nr, int buffer) {
    struct ig_loops *k = c->k;
    ig_x depth[IG_CONTRACT_DEPTH], j;
    IG_ASSERT(k->job, c->depth_rank > 0);
    for (int i = 0; i < c->depth_rank; i++)
        body = loop(c, body, IG_FOR_SERIAL, ig_contract_dim(c, c->depth_dim[i]), &depth[i]);
    body = loop(c, body, IG_FOR_SIMD, ig_contract_int(c, nr), &j);
    ig_x n = ig_x_add(k, ig_x_mul(k, panel, ig_contract_int(c, nr)), j), value;
    if (panels_full(c, nr)) {
        value = ig_contract_b(c, b, n, depth);
    } else {
        ig_x columns = ig_contract_dim(c, c->columns);
        ig_x last = ig_x_sub(k, columns, ig_contract_int(c, 1));
        ig_x none = ig_dtype_is_float(c->dtype) ? ig_x_float(k, c->dtype, 0) : ig_x_int(k, c->dtype, 0);
        value = ig_x_select(k, ig_x_less(k, n, columns), ig_contract_b(c, b, ig_x_min(k, n, last), depth), none);
    }
    ig_s_store(k, body, buffer, panel_at(c, ig_contract_depth_at(c, depth), j, nr), value);
}

/* B has unit stride along the columns: copies whole rows as far as there are columns, then zeros. */
static void copy_rows(struct ig_contract *c, struct ig_stmt *body, const struct ig_contract_view *view, ig_x panel,
                      int nr, int buffer, ig_x columns) {
    struct ig_loops *k = c->k;
    ig_x p, j;
    body = loop(c, body, IG_FOR_SERIAL, ig_contract_dim(c, c->depth), &p);
    ig_x from = ig_x_add(k, view->base, ig_x_mul(k, panel, ig_contract_int(c, nr)));
    from = ig_x_add(k, from, ig_x_mul(k, p, ig_contract_dim(c, view->stride)));
    ig_x to = ig_x_mul(k, p, ig_contract_int(c, nr));
    struct ig_stmt *copy = loop(c, body, IG_FOR_SIMD, columns, &j);
    ig_s_store(k, copy, buffer, ig_x_add(k, to, j), ig_x_load(k, view->buffer, ig_x_add(k, from, j)));
    if (ig_x_look(k, columns)->kind == IG_X_INT && ig_x_look(k, columns)->i == nr) return;
    ig_x none = ig_dtype_is_float(c->dtype) ? ig_x_float(k, c->dtype, 0) : ig_x_int(k, c->dtype, 0);
    struct ig_stmt *fill = ig_s_for(k, body, IG_FOR_SIMD, columns, ig_contract_int(c, nr), ig_contract_int(c, 1), &j);
    ig_s_store(k, fill, buffer, ig_x_add(k, to, j), none);
}

/* B has unit stride along the depth: a micro-kernel transposes the panel in registers. */
static void copy_transposed(struct ig_contract *c, struct ig_stmt *body, const struct ig_contract_view *view,
                            ig_x panel, int nr, int buffer, ig_x columns) {
    struct ig_loops *k = c->k;
    struct ig_micro micro = {.kind = IG_MICRO_PACK, .name = "pack", .dtype = c->dtype, .nr = nr};
    micro.half = ig_contract_half(c->k->buffers.at[view->buffer].dtype);
    ig_x first = ig_x_mul(k, panel, ig_contract_int(c, nr)), depth = ig_contract_dim(c, c->depth);
    ig_x stride = ig_contract_dim(c, view->stride), steps = stride;
    if (c->interleaves) { /* steps that are together are 32 bits */
        micro.dtype = INGOT_I32;
        micro.half = INGOT_DTYPE_NONE;
        steps = ig_x_div(k, stride, ig_contract_int(c, c->together));
        depth = ig_x_div(k, depth, ig_contract_int(c, c->together));
    }
    IG_PUSH(k->job, &c->kernel->micros, micro);
    struct ig_call_arg args[] = {{view->buffer, ig_x_add(k, view->base, ig_x_mul(k, first, stride))},
                                 {-1, steps},
                                 {buffer, ig_contract_int(c, 0)},
                                 {-1, depth},
                                 {-1, columns}};
    ig_s_call(k, body, micro.name, args, 5);
}

/* B has unit stride along the columns: a micro-kernel interleaves its rows. */
static void copy_interleaved(struct ig_contract *c, struct ig_stmt *body, const struct ig_contract_view *view,
                             ig_x panel, int nr, int buffer, ig_x columns) {
    struct ig_loops *k = c->k;
    struct ig_micro micro = {.kind = IG_MICRO_INTERLEAVE, .name = "interleave", .nr = nr, .together = c->together};
    micro.dtype = c->k->buffers.at[view->buffer].dtype;
    IG_PUSH(k->job, &c->kernel->micros, micro);
    ig_x from = ig_x_add(k, view->base, ig_x_mul(k, panel, ig_contract_int(c, nr)));
    struct ig_call_arg args[] = {{view->buffer, from},
                                 {-1, ig_contract_dim(c, view->stride)},
                                 {buffer, ig_contract_int(c, 0)},
                                 {-1, ig_contract_dim(c, c->depth)},
                                 {-1, columns}};
    ig_s_call(k, body, micro.name, args, 5);
}

/* Is a copy by whole groups of steps possible? Transposed, these must lie as whole words. */
static bool has_whole_groups(struct ig_contract *c, const struct ig_contract_view *view) {
    ig_dim words = ig_dim_const(c->graph->dims, 4 / (int64_t)ingot_dtype_size(c->k->buffers.at[view->buffer].dtype));
    if (!c->interleaves) return true;
    if (c->padded != c->depth) return false;
    return !view->transposed ||
           (ig_dim_divides(c->graph->dims, words, view->stride) && ig_contract_const(c, words, 0) == c->together);
}

void ig_contract_copy_b(struct ig_contract *c, struct ig_stmt *body, ig_x b, ig_x panel, int nr, int buffer) {
    struct ig_loops *k = c->k;
    struct ig_contract_view view = ig_contract_view_b(c, b);
    if (view.buffer < 0 || !has_whole_groups(c, &view)) {
        copy_elements(c, body, b, panel, nr, buffer);
        pad_panel(c, body, nr, buffer);
        return;
    }
    ig_x width = ig_contract_int(c, nr);
    ig_x columns = ig_x_min(k, width, ig_x_sub(k, ig_contract_dim(c, c->columns), ig_x_mul(k, panel, width)));
    if (view.transposed) {
        copy_transposed(c, body, &view, panel, nr, buffer, columns);
    } else if (c->interleaves) {
        copy_interleaved(c, body, &view, panel, nr, buffer, columns);
    } else {
        copy_rows(c, body, &view, panel, nr, buffer, columns);
    }
}
