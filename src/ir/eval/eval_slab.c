/*
 * Slabs: what rows of each value a slab of the result needs is known before any is evaluated, since along one axis the
 * operators of recipes (elementwise ones and movements) turn a range of rows into a range of rows. A value whose rows
 * cannot be told apart like that, that is small or is read more than once, is evaluated as a whole, when the slabs are
 * opened. See eval_slab.h.
 */
#include "ir/eval/eval_slab.h"

#include <string.h>

#include "base/file.h"
#include "ir/eval/eval_const.h"
#include "ir/eval/eval_op.h"

/* Values of fewer bytes are evaluated as a whole. More than MOST_VALUES values are no recipe for slabs. */
enum { SMALL_BYTES = IG_DATA_LARGE, MOST_VALUES = 256 };

struct ig_slab_value {
    struct ig_slab_value *next; /* of all values of the slabs */
    ig_value value;
    struct ig_node node;
    enum ingot_dtype dtype;
    int rank, axis; /* the divided axis; -1: not divided */
    int64_t dims[INGOT_MAX_RANK];
    bool is_whole;
    struct ingot_tensor tensor; /* if whole */
    void *owned;                /* its elements; NULL: they belong to the graph */
    uint32_t n_in;
    struct ig_slab_value **in;
    /* Pad: amounts. Slice: starts (before) and steps. */
    int64_t before[INGOT_MAX_RANK], after[INGOT_MAX_RANK];
    /* Reshape: axes [axis, end) here are axes [in_axis, in_end) of the operand; what a step along the first of each is, in
     * elements of the others. */
    int in_axis, in_end;
    int64_t inner, in_inner;
};

/* ---- Planning ------------------------------------------------------------------------------------------------- */

struct planner {
    struct ig_graph *graph;
    struct ig_slab_value *values;
    uint32_t n_values;
};

static struct ig_slab_value *plan(struct planner *p, ig_value value, int axis);

/* A constant is read where it lies, whatever its alignment. */
static bool plan_constant(struct planner *p, struct ig_slab_value *v) {
    const struct ig_data *data = ig_attr(p->graph, &v->node, IG_ATTR_data)->data;
    v->is_whole = true;
    v->tensor = (struct ingot_tensor){.dtype = v->dtype, .rank = v->rank, .data = (void *)(uintptr_t)data->bytes};
    memcpy(v->tensor.dims, v->dims, sizeof v->tensor.dims);
    return true;
}

static void plan_operand(struct planner *p, struct ig_slab_value *v, uint32_t operand, int axis) {
    v->in[operand] = plan(p, v->node.in[operand], axis);
}

static bool static_attr(const struct planner *p, const struct ig_node *node, enum ig_attr_name name, int64_t *out) {
    const struct ig_attr *attr = ig_attr(p->graph, node, name);
    for (int i = 0; i < attr->count; i++) {
        if (!ig_dim_is_const(p->graph->dims, attr->dims[i], &out[i])) return false;
    }
    return true;
}

/* Operands that broadcast: one that has all rows is divided. */
static bool plan_broadcast(struct planner *p, struct ig_slab_value *v) {
    for (uint32_t i = 0; i < v->n_in; i++) {
        const struct ig_type *type = ig_type_of(p->graph, v->node.in[i]);
        int64_t dims[INGOT_MAX_RANK];
        int axis = v->axis - (v->rank - type->rank);
        bool has_rows = ig_type_is_static(p->graph->dims, type, dims) && axis >= 0 && dims[axis] == v->dims[v->axis];
        plan_operand(p, v, i, has_rows ? axis : -1);
    }
    return true;
}

static bool plan_pad(struct planner *p, struct ig_slab_value *v) {
    bool constant = ig_attr_int(p->graph, &v->node, IG_ATTR_mode) == IG_PAD_CONSTANT;
    if (!static_attr(p, &v->node, IG_ATTR_before, v->before) || !static_attr(p, &v->node, IG_ATTR_after, v->after) ||
        (!constant && (v->before[v->axis] != 0 || v->after[v->axis] != 0)))
        return false;
    plan_operand(p, v, 0, v->axis);
    if (v->n_in > 1 && v->node.in[1] != IG_NO_VALUE) plan_operand(p, v, 1, -1);
    return true;
}

static bool plan_slice(struct planner *p, struct ig_slab_value *v) {
    if (!static_attr(p, &v->node, IG_ATTR_starts, v->before)) return false;
    memcpy(v->after, ig_attr(p->graph, &v->node, IG_ATTR_steps)->ints, (size_t)v->rank * sizeof *v->after);
    if (v->after[v->axis] <= 0) return false;
    plan_operand(p, v, 0, v->axis);
    return true;
}

static bool plan_gather(struct planner *p, struct ig_slab_value *v) {
    int axis = (int)ig_attr_int(p->graph, &v->node, IG_ATTR_axis), rank = ig_type_of(p->graph, v->node.in[1])->rank;
    bool by_index = v->axis >= axis && v->axis < axis + rank;
    plan_operand(p, v, 0, by_index ? -1 : v->axis < axis ? v->axis : v->axis - rank + 1);
    plan_operand(p, v, 1, by_index ? v->axis - axis : -1);
    return true;
}

/* The least group of axes from the divided one on that is a group of the operand's axes, too. */
static bool plan_reshape(struct planner *p, struct ig_slab_value *v) {
    const struct ig_type *type = ig_type_of(p->graph, v->node.in[0]);
    int64_t dims[INGOT_MAX_RANK], before = 1, in_before = 1;
    if (!ig_type_is_static(p->graph->dims, type, dims)) return false;
    for (int i = 0; i < v->axis; i++)
        before *= v->dims[i];
    int axis = 0;
    while (axis < type->rank && (in_before < before || dims[axis] == 1))
        in_before *= dims[axis++];
    if (axis == type->rank || in_before != before) return false;
    int64_t want = v->dims[v->axis], have = dims[axis];
    int to = v->axis + 1, from = axis + 1;
    while (have != want) {
        if ((have < want ? from : to) == (have < want ? type->rank : v->rank)) return false;
        if (have < want) {
            have *= dims[from++];
        } else {
            want *= v->dims[to++];
        }
    }
    v->in_axis = axis;
    v->in_end = from;
    v->inner = want / v->dims[v->axis];
    v->in_inner = have / dims[axis];
    plan_operand(p, v, 0, axis);
    return true;
}

/* Plans the operands; false if the result's rows cannot be told apart in them. */
static bool plan_operands(struct planner *p, struct ig_slab_value *v) {
    if (ig_op_info(v->node.op)->is_map) return plan_broadcast(p, v);
    switch (v->node.op) {
    case IG_OP_constant: return plan_constant(p, v);
    case IG_OP_cast:
    case IG_OP_where:
    case IG_OP_broadcast: return plan_broadcast(p, v);
    case IG_OP_transpose:
        plan_operand(p, v, 0, (int)ig_attr(p->graph, &v->node, IG_ATTR_perm)->ints[v->axis]);
        return true;
    case IG_OP_concat:
        for (uint32_t i = 0; i < v->n_in; i++)
            plan_operand(p, v, i, v->axis);
        return true;
    case IG_OP_reshape: return plan_reshape(p, v);
    case IG_OP_pad: return plan_pad(p, v);
    case IG_OP_slice: return plan_slice(p, v);
    case IG_OP_gather: return plan_gather(p, v);
    default: return false;
    }
}

static bool is_planned(const struct planner *p, ig_value value) {
    for (const struct ig_slab_value *v = p->values; v; v = v->next) {
        if (v->value == value) return true;
    }
    return false;
}

static struct ig_slab_value *plan(struct planner *p, ig_value value, int axis) {
    const struct ig_type *type = ig_type_of(p->graph, value);
    const struct ig_node *node = ig_def(p->graph, value);
    struct ig_slab_value *v = IG_NEW(p->graph->job, struct ig_slab_value);
    *v = (struct ig_slab_value){.value = value, .dtype = type->dtype, .rank = type->rank, .axis = axis, .node = *node};
    size_t bytes = ingot_dtype_size(type->dtype);
    bool divided = axis >= 0 && !is_planned(p, value) && p->n_values < MOST_VALUES && node->n_out == 1 &&
                   ig_type_is_static(p->graph->dims, type, v->dims);
    for (int i = 0; divided && i < v->rank; i++)
        divided = v->dims[i] > 0 && ig_size_mul(bytes, (size_t)v->dims[i], &bytes);
    v->next = p->values;
    p->values = v;
    p->n_values++;
    if (divided && bytes >= SMALL_BYTES) {
        v->n_in = node->n_in;
        v->in = IG_NEW_ARRAY(p->graph->job, struct ig_slab_value *, v->n_in + 1);
        if (plan_operands(p, v)) return v;
    }
    v->is_whole = true; /* `axis` is then divided by slicing */
    return v;
}

/* Does the expression of a constant contain a product? */
static bool has_products(struct ig_graph *g, ig_value value) {
    IG_VEC(ig_value) pending = {0};
    uint32_t generation;
    uint64_t *marks = ig_const_marks(g, &generation), mark = (uint64_t)generation << 32;
    IG_PUSH(g->job, &pending, value);
    while (pending.count) {
        const struct ig_node *node = ig_def(g, pending.at[--pending.count]);
        if (ig_op_info(node->op)->family == IG_FAMILY_CONTRACT) return true;
        for (uint32_t i = 0; i < node->n_in; i++) {
            if (node->in[i] == IG_NO_VALUE || marks[node->in[i]] == mark) continue;
            marks[node->in[i]] = mark;
            IG_PUSH(g->job, &pending, node->in[i]);
        }
    }
    return false;
}

/* What is whole is evaluated by itself, with all that it is computed from. If that are products several times, as in a part of a network
 * that no input reaches, the result as a whole takes less. */
static struct ig_slab_value *plan_result(struct planner *p, ig_value value, int axis) {
    struct ig_slab_value *root = plan(p, value, axis);
    int products = 0;
    for (const struct ig_slab_value *v = p->values; v; v = v->next)
        products += v->is_whole && has_products(p->graph, v->value);
    if (products > 1) {
        *p = (struct planner){.graph = p->graph};
        root = plan(p, value, -1);
        root->axis = axis;
    }
    for (struct ig_slab_value *v = p->values; v; v = v->next) {
        if (v->is_whole && !v->tensor.data) v->tensor = ig_const_weight(p->graph, v->value);
    }
    return root;
}

void ig_slabs_close(struct ig_slabs *slabs) {
    for (struct ig_slab_value *v = slabs->values; v; v = v->next) {
        ig_eval_free_detached(slabs->graph->job->allocator, v->owned);
        v->owned = NULL;
    }
}

struct ig_slabs *ig_slabs_open(struct ig_graph *graph, ig_value value, size_t bytes) {
    struct ig_slabs *slabs = IG_NEW(graph->job, struct ig_slabs);
    struct planner p = {.graph = graph};
    const struct ig_type *type = ig_type_of(graph, value);
    int64_t dims[INGOT_MAX_RANK];
    *slabs = (struct ig_slabs){.graph = graph, .count = 1, .axis = -1, .rows = 1, .dim = 1};
    if (!ig_type_is_static(graph->dims, type, dims)) ig_raise(graph->job, INGOT_INTERNAL, "a weight of no fixed size");
    slabs->row_bytes = ingot_dtype_size(type->dtype);
    for (int i = type->rank - 1; i >= 0; i--) {
        if (dims[i] == 1) continue;
        slabs->row_bytes *= (size_t)slabs->dim;
        slabs->dim = dims[i];
        slabs->axis = i;
    }
    slabs->root = plan_result(&p, value, slabs->axis);
    slabs->values = p.values;
    for (struct ig_slab_value *v = p.values; v; v = v->next) { /* nothing can fail from here on */
        if (v->is_whole) v->owned = ig_const_take(graph, &v->tensor);
        if (v->owned) slabs->held += (size_t)ingot_tensor_elements(&v->tensor) * ingot_dtype_size(v->dtype);
    }
    size_t rows = slabs->row_bytes ? bytes / slabs->row_bytes : 1;
    slabs->rows = rows == 0 ? 1 : rows < (size_t)slabs->dim ? (int64_t)rows : slabs->dim;
    if (slabs->dim > 0) slabs->count = (uint32_t)((slabs->dim + slabs->rows - 1) / slabs->rows);
    return slabs;
}

void ig_slabs_prefetch(const struct ig_slabs *slabs) {
    for (const struct ig_slab_value *v = slabs->values; v; v = v->next) {
        if (!v->is_whole || !ig_def_op(slabs->graph, v->value, IG_OP_constant)) continue;
        ig_file_prefetch(v->tensor.data, (size_t)ingot_tensor_elements(&v->tensor) * ingot_dtype_size(v->dtype));
    }
}

/* ---- Evaluation ----------------------------------------------------------------------------------------------- */

struct range {
    int64_t begin, end;
};

static struct ig_view rows_of(struct ig_eval *ev, const struct ig_slabs *s, const struct ig_slab_value *v,
                              struct range range);

static struct ig_view reshape_rows(struct ig_eval *ev, const struct ig_slabs *s, const struct ig_slab_value *v,
                                   struct range range, const int64_t *dims) {
    /* The operand's rows that contain these, laid flat, without what is too much at both ends. */
    struct range all = {range.begin * v->inner / v->in_inner, (range.end * v->inner + v->in_inner - 1) / v->in_inner};
    struct ig_view in = rows_of(ev, s, v->in[0], all);
    int64_t flat[INGOT_MAX_RANK];
    int rank = v->in_axis + 1;
    memcpy(flat, in.dims, sizeof flat);
    flat[v->in_axis] = (all.end - all.begin) * v->in_inner;
    for (int i = v->in_end; i < in.rank; i++)
        flat[rank++] = in.dims[i];
    in = ig_view_shaped(ev, &in, rank, flat);
    ig_view_cut(ev, &in, v->in_axis, range.begin * v->inner - all.begin * v->in_inner,
                (range.end - range.begin) * v->inner, 1);
    return ig_view_shaped(ev, &in, v->rank, dims);
}

static struct ig_view pad_rows(struct ig_eval *ev, const struct ig_slabs *s, const struct ig_slab_value *v,
                               struct range range) {
    int64_t before[INGOT_MAX_RANK], after[INGOT_MAX_RANK], first = v->before[v->axis];
    int64_t size = v->dims[v->axis] - first - v->after[v->axis];
    struct range inner = {range.begin > first ? range.begin - first : 0,
                          range.end - first < size ? range.end - first : size};
    struct ig_view in, value;
    memcpy(before, v->before, sizeof before);
    memcpy(after, v->after, sizeof after);
    if (inner.begin < inner.end) {
        in = rows_of(ev, s, v->in[0], inner);
        before[v->axis] = inner.begin + first - range.begin;
        after[v->axis] = range.end - first - inner.end;
    } else { /* nothing but border */
        in = (struct ig_view){.dtype = v->dtype, .rank = v->rank};
        for (int i = 0; i < v->rank; i++)
            in.dims[i] = v->dims[i] - before[i] - after[i];
        in.dims[v->axis] = before[v->axis] = 0;
        after[v->axis] = range.end - range.begin;
    }
    if (v->n_in > 1 && v->in[1]) value = rows_of(ev, s, v->in[1], range);
    return ig_view_padded(ev, &in, v->n_in > 1 && v->in[1] ? &value : NULL,
                          (enum ig_pad_mode)ig_attr_int(s->graph, &v->node, IG_ATTR_mode), before, after);
}

static struct ig_view slice_rows(struct ig_eval *ev, const struct ig_slabs *s, const struct ig_slab_value *v,
                                 struct range range) {
    int64_t start = v->before[v->axis], step = v->after[v->axis];
    struct range in = {start + range.begin * step, start + (range.end - 1) * step + 1};
    struct ig_view view = rows_of(ev, s, v->in[0], in);
    for (int i = 0; i < v->rank; i++) {
        if (i == v->axis) {
            ig_view_cut(ev, &view, i, 0, range.end - range.begin, step);
        } else {
            ig_view_cut(ev, &view, i, v->before[i], v->dims[i], v->after[i]);
        }
    }
    return view;
}

/* Along the divided axis each part gives the rows that are its own. */
static struct ig_view concat_rows(struct ig_eval *ev, const struct ig_slabs *s, const struct ig_slab_value *v,
                                  struct range range) {
    int axis = (int)ig_attr_int(s->graph, &v->node, IG_ATTR_axis);
    struct ig_view *parts = ig_eval_scratch(ev, v->n_in, sizeof *parts);
    uint32_t count = 0;
    int64_t offset = 0;
    for (uint32_t i = 0; i < v->n_in; i++) {
        struct range own = range;
        if (axis == v->axis) {
            int64_t size = v->in[i]->is_whole ? v->in[i]->tensor.dims[axis] : v->in[i]->dims[axis];
            own.begin = range.begin > offset ? range.begin - offset : 0;
            own.end = range.end - offset < size ? range.end - offset : size;
            offset += size;
            if (own.begin >= own.end) continue;
        }
        parts[count++] = rows_of(ev, s, v->in[i], own);
    }
    return count == 1 ? parts[0] : ig_view_joined(ev, parts, count, axis);
}

/* For operators that compute; movements take elements from anywhere. */
static struct ig_view aligned(struct ig_eval *ev, struct ig_view view) {
    if ((uintptr_t)view.data % ingot_dtype_size(view.dtype) == 0) return view;
    struct ig_view copy = ig_view_new(ev, view.dtype, view.rank, view.dims);
    ig_view_copy(&view, &copy);
    return copy;
}

static struct ig_view operate(struct ig_eval *ev, const struct ig_slabs *s, const struct ig_slab_value *v,
                              struct range range) {
    struct ig_view in[3], out;
    IG_ASSERT(ev->job, v->n_in <= 3);
    for (uint32_t i = 0; i < v->n_in; i++)
        in[i] = aligned(ev, rows_of(ev, s, v->in[i], range));
    switch (v->node.op) {
    case IG_OP_cast: ig_eval_cast(ev, s->graph, &v->node, in, &out); break;
    case IG_OP_where: ig_eval_where(ev, s->graph, &v->node, in, &out); break;
    case IG_OP_gather: ig_eval_gather(ev, s->graph, &v->node, in, &out); break;
    default: ig_eval_map(ev, s->graph, &v->node, in, &out); break;
    }
    return out;
}

/* The rows of a value in `range`; all of one that is not divided. All memory is freed with the evaluation. */
static struct ig_view rows_of(struct ig_eval *ev, const struct ig_slabs *s, const struct ig_slab_value *v,
                              struct range range) {
    int64_t dims[INGOT_MAX_RANK];
    if (v->is_whole) {
        struct ig_view view = ig_view_of_tensor(&v->tensor);
        if (v->axis >= 0) ig_view_cut(ev, &view, v->axis, range.begin, range.end - range.begin, 1);
        return view;
    }
    memcpy(dims, v->dims, sizeof dims);
    dims[v->axis] = range.end - range.begin;
    struct ig_view in;
    switch (v->node.op) {
    case IG_OP_reshape: return reshape_rows(ev, s, v, range, dims);
    case IG_OP_pad: return pad_rows(ev, s, v, range);
    case IG_OP_slice: return slice_rows(ev, s, v, range);
    case IG_OP_concat: return concat_rows(ev, s, v, range);
    case IG_OP_transpose:
        in = rows_of(ev, s, v->in[0], range);
        return ig_view_permute(&in, ig_attr(s->graph, &v->node, IG_ATTR_perm)->ints);
    case IG_OP_broadcast: in = rows_of(ev, s, v->in[0], range); return ig_view_broadcast(ev, &in, v->rank, dims);
    default: return operate(ev, s, v, range);
    }
}

void ig_slab_evaluate(struct ig_job *job, const struct ig_slabs *slabs, uint32_t index, struct ig_slab *out_slab) {
    struct ig_eval *ev = ig_eval_create(job, slabs->graph);
    struct range range = {(int64_t)index * slabs->rows, ((int64_t)index + 1) * slabs->rows};
    if (range.end > slabs->dim) range.end = slabs->dim;
    struct ig_view view = rows_of(ev, slabs, slabs->root, range);
    struct ig_slab slab = {.size = (size_t)(range.end - range.begin) * slabs->row_bytes};
    if (!view.block && ig_view_is_dense(&view)) {
        slab.data = view.data;
    } else {
        ig_eval_make_own(ev, &view);
        slab.data = slab.owned = ig_eval_detach(&view);
    }
    ig_eval_destroy(ev);
    *out_slab = slab;
}

void ig_slab_free(const struct ingot_allocator *allocator, struct ig_slab *slab) {
    ig_eval_free_detached(allocator, slab->owned);
    *slab = (struct ig_slab){0};
}
