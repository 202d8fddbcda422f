/*
 * Locates the operands of a contraction, in the terms of the GPU template's copies: analyses the address of an element
 * as a function of its line and its depth.
 */
#include "kernel/affine.h"
#include "kernel/cuda/contract/contract.h"

enum { MOST_TAPS = 1 << 12 }; /* of the windows that the template copies */

static ig_dim constant(struct ig_contract *c, int64_t i) {
    return ig_dim_const(c->graph->dims, i);
}

static int64_t known(const struct ig_contract *c, ig_dim d) {
    return ig_contract_const(c, d, 0);
}

/* ---- Rows over all images ---------------------------------------------------------------------------------------- */

ig_dim ig_cuda_rows(struct ig_contract *c) {
    if (!c->spatial) return c->rows;
    return ig_dim_mul(c->graph->dims, ig_contract_out(c)->dim[0], c->rows);
}

ig_dim ig_cuda_batch(struct ig_contract *c) {
    return c->spatial ? constant(c, c->groups) : c->batch;
}

void ig_cuda_locate(struct ig_contract *c, ig_x b, ig_x m, ig_x *out_b, ig_x *out_m) {
    *out_b = b;
    *out_m = m;
    if (!c->spatial) return;
    ig_x image = m;
    *out_m = ig_x_split_off(c->k, &image, c->rows);
    *out_b = ig_x_add(c->k, ig_x_mul(c->k, image, ig_contract_int(c, c->groups)), b);
}

/* ---- Alignment --------------------------------------------------------------------------------------------------- */

static bool divides(struct ig_contract *c, int64_t by, ig_dim d) {
    return ig_dim_divides(c->graph->dims, constant(c, by), d);
}

/* Is the sum, without its term of `skip`, a multiple of `by`? */
static bool is_multiple(struct ig_contract *c, const struct ig_affine *sum, ig_x skip, int64_t by) {
    for (int i = 0; i < sum->count; i++) {
        if (sum->term[i].atom != skip && !divides(c, by, sum->term[i].factor)) return false;
    }
    return divides(c, by, sum->constant);
}

/* The largest copy, up to 16 bytes, that divides every address, stride and contiguous length; `sizes`: these lengths
 * and strides. */
static int copy_of(struct ig_contract *c, const struct ig_affine *position, ig_x unit, const ig_dim *sizes, int count,
                   int element) {
    for (int bytes = 16; bytes > element; bytes /= 2) {
        bool all = !position || is_multiple(c, position, unit, bytes / element);
        for (int i = 0; i < count; i++)
            all = all && divides(c, bytes / element, sizes[i]);
        if (all) return bytes;
    }
    return element;
}

/* ---- Matrices ---------------------------------------------------------------------------------------------------- */

/* An element's address as a sum over variables for its line and for the axes of its depth. */
struct address {
    bool is_b;
    int buffer;
    ig_x position, line, depth[IG_CONTRACT_DEPTH];
    struct ig_affine sum;
};

static struct ig_cuda_source none(void) {
    return (struct ig_cuda_source){.kind = IG_CUDA_FILLED, .buffer = -1, .position = IG_NO_X, .line = IG_NO_X};
}

/* The buffer of a plain load of an element, of bytes under the cast to the type of the sums; -1 for anything else. */
static int plain_load(struct ig_contract *c, ig_x value, enum ingot_dtype element, ig_x *out_position) {
    const struct ig_x_node *n = ig_x_look(c->k, value);
    if (n->kind == IG_X_CAST && ingot_dtype_size(element) == 1) n = ig_x_look(c->k, n->args[0]);
    if (n->kind != IG_X_LOAD) return -1;
    const struct ig_buffer *buffer = &c->k->buffers.at[n->i];
    if (buffer->dtype != element || buffer->nothing != IG_NO_X) return -1;
    *out_position = n->args[0];
    return (int)n->i;
}

static void probe(struct ig_contract *c, ig_dim lines, bool is_b, struct address *out) {
    out->is_b = is_b;
    out->line = ig_x_free_var(c->k, lines);
    for (int i = 0; i < c->depth_rank; i++) {
        bool one = known(c, c->depth_dim[i]) == 1;
        out->depth[i] = one ? ig_contract_int(c, 0) : ig_x_free_var(c->k, c->depth_dim[i]);
    }
}

static bool is_var(struct ig_contract *c, ig_x x) {
    return ig_x_look(c->k, x)->kind == IG_X_VAR;
}

/* The stride of the address along a variable; IG_DIM_NONE if it is not constant. An axis of one element has any stride:
 * if_single. */
static ig_dim step(struct ig_contract *c, const struct address *a, ig_x along, ig_dim if_single) {
    if (!is_var(c, along)) return if_single;
    if (ig_affine_entangled(c->k, &a->sum, along)) return IG_DIM_NONE;
    return ig_affine_factor(c->k, &a->sum, along);
}

/* The stride along the whole depth, if its axes act as one; else IG_DIM_NONE. */
static ig_dim depth_step(struct ig_contract *c, const struct address *a, ig_dim if_single) {
    ig_dim first = IG_DIM_NONE, apart = IG_DIM_NONE;
    for (int i = c->depth_rank - 1; i >= 0; i--) {
        ig_dim here = step(c, a, a->depth[i], IG_DIM_NONE);
        if (!is_var(c, a->depth[i])) continue;
        if (here == IG_DIM_NONE || (apart != IG_DIM_NONE && here != apart)) return IG_DIM_NONE;
        if (first == IG_DIM_NONE) first = here;
        apart = ig_dim_mul(c->graph->dims, here, c->depth_dim[i]);
    }
    return first == IG_DIM_NONE ? if_single : first;
}

/* The address with the depth at 0, and the line too unless keep_line. */
static ig_x origin(struct ig_contract *c, const struct address *a, bool keep_line) {
    ig_x from[IG_CONTRACT_DEPTH + 1], to[IG_CONTRACT_DEPTH + 1];
    int count = 0;
    if (!keep_line) from[count++] = a->line;
    for (int i = 0; i < c->depth_rank; i++) {
        if (is_var(c, a->depth[i])) from[count++] = a->depth[i];
    }
    for (int i = 0; i < count; i++)
        to[i] = ig_contract_int(c, 0);
    return ig_x_substitute(c->k, a->position, from, to, count);
}

/* A matrix: both strides are constant, and one of them is 1. */
static bool as_matrix(struct ig_contract *c, const struct address *a, ig_dim lines, int element,
                      struct ig_cuda_source *out) {
    ig_dim one = constant(c, 1);
    ig_dim by_line = known(c, lines) == 1 ? c->depth : step(c, a, a->line, IG_DIM_NONE);
    ig_dim by_depth = depth_step(c, a, one);
    if (by_line == IG_DIM_NONE || by_depth == IG_DIM_NONE) return false;
    struct ig_affine base;
    *out = (struct ig_cuda_source){.buffer = a->buffer, .base = origin(c, a, false)};
    ig_affine_of(c->k, out->base, &base);
    out->kind = by_depth == one ? IG_CUDA_ALONG : IG_CUDA_ACROSS;
    if (by_depth != one && by_line != one && known(c, lines) != 1) return false;
    out->ld = by_depth == one ? by_line : by_depth;
    int64_t packed =
        c->scaled ? 0 : ig_contract_attr_int(c, IG_ATTR_packed); /* B is padded with zeros past its last column */
    ig_dim across = packed > 0 && a->is_b ? constant(c, packed) : lines, along = c->depth;
    if (!a->is_b) along = ig_dim_add(c->k->dims, along, constant(c, ig_contract_filled(c)));
    ig_dim sizes[2] = {out->ld, by_depth == one ? along : across};
    out->copy = copy_of(c, &base, IG_NO_X, sizes, 2, element);
    return true;
}

/* Lines at arbitrary positions: the last axis of the depth has unit stride, and at most one other has several
 * elements. */
static bool as_list(struct ig_contract *c, const struct address *a, int element, struct ig_cuda_source *out) {
    ig_dim one = constant(c, 1), outer = IG_DIM_NONE;
    int last = c->depth_rank - 1;
    if (step(c, a, a->depth[last], one) != one) return false;
    for (int i = 0; i < last; i++) {
        if (!is_var(c, a->depth[i])) continue;
        if (outer != IG_DIM_NONE) return false;
        outer = step(c, a, a->depth[i], one);
        if (outer == IG_DIM_NONE) return false;
    }
    int64_t piece = known(c, c->depth_dim[last]);
    if (outer != IG_DIM_NONE && piece == 0) return false;
    struct ig_affine base;
    *out = (struct ig_cuda_source){.kind = IG_CUDA_LISTED, .buffer = a->buffer};
    out->line = a->line;
    out->position = origin(c, a, true);
    out->piece = outer == IG_DIM_NONE ? 0 : piece;
    out->piece_stride = outer == IG_DIM_NONE ? constant(c, 0) : outer;
    ig_affine_of(c->k, out->position, &base);
    ig_dim sizes[2] = {out->piece_stride, c->depth_dim[last]};
    out->copy = copy_of(c, &base, IG_NO_X, sizes, 2, element);
    return true;
}

/* ---- Convolutions ------------------------------------------------------------------------------------------------ */

static bool channels_last(const struct ig_contract *c) {
    return ig_contract_attr_int(c, IG_ATTR_channels_last) != 0;
}

int ig_cuda_plain_operand(const struct ig_contract *c, int operand) {
    ig_value v = c->node.in[operand];
    while (!c->lower.is_input[v]) {
        const struct ig_node *n = ig_info(c->graph, v)->is_const ? NULL : ig_def(c->graph, v);
        if (!n || n->op != IG_OP_reshape) return -1;
        v = n->in[0];
    }
    return c->lower.buffer_of[v];
}

/* The same, of elements of a type; -1: of others, or it may be empty. */
static int plain_operand(struct ig_contract *c, int operand, enum ingot_dtype element) {
    int buffer = ig_cuda_plain_operand(c, operand);
    if (buffer < 0) return -1;
    const struct ig_buffer *b = &c->k->buffers.at[buffer];
    return b->dtype == element && b->nothing == IG_NO_X ? buffer : -1;
}

static bool is_pointwise(const struct ig_contract *c) {
    const struct ig_attr *strides = ig_contract_attr(c, IG_ATTR_strides);
    for (int i = 0; i < c->spatial; i++) {
        if (known(c, c->depth_dim[i]) != 1 || strides->ints[i] != 1) return false;
    }
    return !ig_contract_padded(c);
}

static bool knows_taps(const struct ig_contract *c) {
    int64_t taps = 1;
    for (int i = 0; i < c->spatial; i++) {
        int64_t here = known(c, c->depth_dim[i]);
        if (here == 0 || here > MOST_TAPS) return false;
        taps *= here;
    }
    return taps <= MOST_TAPS;
}

static struct ig_cuda_source conv_a(struct ig_contract *c, ig_x b, int buffer, int element) {
    const struct ig_type *x = ig_contract_in(c, 0);
    ig_dim below = c->depth_dim[c->spatial], pixel = x->dim[c->spatial + 1];
    ig_dim sizes[2] = {below, pixel};
    struct ig_cuda_source s = {.buffer = buffer, .kind = IG_CUDA_WINDOWS, .pixel = pixel, .below = below};
    s.base = ig_x_mul(c->k, b, ig_contract_dim(c, below));
    s.copy = copy_of(c, NULL, IG_NO_X, sizes, 2, element);
    for (int i = 0, axis = c->spatial - 3; i < 3; i++, axis++)
        s.size[i] = axis < 0 ? constant(c, 1) : x->dim[axis + 1];
    if (is_pointwise(c)) {
        s.kind = IG_CUDA_ALONG;
        s.ld = pixel;
    } else if (!knows_taps(c)) {
        return none();
    }
    return s;
}

/* Weights of a convolution: one panel per group, at least as wide as the group's columns, or a line for each column. */
static struct ig_cuda_source conv_b(struct ig_contract *c, ig_x b, int buffer, int element) {
    int64_t width = ig_contract_attr_int(c, IG_ATTR_packed), columns = known(c, c->columns);
    if (width == 1 && !ig_contract_without_panels(c)) {
        struct ig_cuda_source lines = {.kind = IG_CUDA_ALONG, .buffer = buffer, .ld = c->depth};
        lines.base = ig_x_mul(c->k, b, ig_contract_dim(c, ig_dim_mul(c->graph->dims, c->columns, c->depth)));
        lines.copy = copy_of(c, NULL, IG_NO_X, &c->depth, 1, element);
        return lines;
    }
    if (width < columns || columns == 0 || width == 1) return none();
    ig_dim ld = constant(c, width), group = ig_dim_mul(c->graph->dims, c->depth, ld);
    struct ig_cuda_source s = {.kind = IG_CUDA_ACROSS, .buffer = buffer, .ld = ld};
    s.base = ig_x_mul(c->k, b, ig_contract_dim(c, group));
    s.copy = copy_of(c, NULL, IG_NO_X, &ld, 1, element); /* padded with zeros past the last column */
    return s;
}

/* ---- Both operands ----------------------------------------------------------------------------------------------- */

struct ig_cuda_source ig_cuda_source_a(struct ig_contract *c, ig_x b, enum ingot_dtype element) {
    int bytes = (int)ingot_dtype_size(element);
    struct ig_cuda_source s;
    struct address a;
    if (c->spatial) {
        int buffer = plain_operand(c, 0, element);
        return buffer < 0 || !channels_last(c) ? none() : conv_a(c, b, buffer, bytes);
    }
    probe(c, c->rows, false, &a);
    a.buffer = plain_load(c, ig_contract_a(c, b, a.line, a.depth), element, &a.position);
    if (a.buffer < 0) return none();
    ig_affine_of(c->k, a.position, &a.sum);
    if (as_matrix(c, &a, c->rows, bytes, &s) || as_list(c, &a, bytes, &s)) return s;
    return none();
}

struct ig_cuda_source ig_cuda_source_b(struct ig_contract *c, ig_x b, enum ingot_dtype element) {
    int bytes = (int)ingot_dtype_size(element);
    struct ig_cuda_source s;
    struct address a;
    if (c->spatial) {
        int buffer = plain_operand(c, 1, element);
        return buffer < 0 || !channels_last(c) ? none() : conv_b(c, b, buffer, bytes);
    }
    probe(c, c->columns, true, &a);
    a.buffer = plain_load(c, ig_contract_b(c, b, a.line, a.depth), element, &a.position);
    if (a.buffer < 0) return none();
    ig_affine_of(c->k, a.position, &a.sum);
    return as_matrix(c, &a, c->columns, bytes, &s) ? s : none();
}

struct ig_cuda_source ig_cuda_source_twin_b(struct ig_contract *c, ig_x b, enum ingot_dtype element) {
    struct ig_node own = c->node;
    c->node = c->twin;
    struct ig_cuda_source s = ig_cuda_source_b(c, b, element);
    c->node = own;
    return s;
}

/* ---- Scales ------------------------------------------------------------------------------------------------------ */

bool ig_cuda_find_scales(struct ig_contract *c, struct ig_cuda_scales *out) {
    struct ig_loops *k = c->k;
    const struct ig_type *columns = ig_contract_in(c, 3);
    ig_dim blocks = columns->dim[0], one = constant(c, 1);
    ig_x m = ig_x_free_var(k, c->rows), t = known(c, blocks) == 1 ? ig_contract_int(c, 0) : ig_x_free_var(k, blocks);
    ig_x value = ig_contract_row_scale(c, m, t), position = IG_NO_X;
    struct address a = {.line = m, .depth = {t}};
    out->rows = plain_load(c, value, INGOT_F32, &position);
    out->columns = plain_operand(c, 3, INGOT_F32);
    if (out->rows < 0 || out->columns < 0 || ig_is_literal(c->graph, c->node.in[3])) return false;
    ig_affine_of(k, position, &a.sum);
    out->row_pitch = known(c, c->rows) == 1 ? one : step(c, &a, m, IG_DIM_NONE);
    out->step_pitch = step(c, &a, t, one);
    out->across = columns->dim[1];
    out->base = ig_x_substitute(k, position, (const ig_x[]){m, t},
                                (const ig_x[]){ig_contract_int(c, 0), ig_contract_int(c, 0)}, 2);
    return out->row_pitch != IG_DIM_NONE && out->step_pitch != IG_DIM_NONE;
}
