/*
 * Forms the most fused regions that the choices permit.
 *
 * One sweep in the order of nodes. Every contraction, window, scan and rest operator starts a region, which then
 * absorbs the following elementwise nodes while they have the same shape and their other operands are available by then
 * (epilogues: bias, activation, residual). Elementwise nodes that cannot join a region start their own; a reduction
 * turns the elementwise region before it into a row region, and rows absorb what follows, including other reductions
 * over the same axes (softmax, normalisations). Elementwise regions take over others that only they read, and so do
 * concatenations and, on GPUs, kernels that store views: through views, too, where it pays. Attentions are recognised
 * beforehand (attend.c): everything between the scores and the second product is reserved for the region that the latter
 * starts. Similar and independent recurrences, the two directions of a layer, share a region.
 *
 * Views are owned by no region: each region that reads through one takes a copy of it, so that transposes, slices and
 * gathers cost index arithmetic but no memory. The same holds for casts from a half-precision type to f32 and for dequantised
 * bytes: the narrow value is what is stored. Views that must be materialised (results of the graph, operands of control
 * flow, concatenations) are regions of their own.
 */
#include "pass/fuse/form.h"

#include <stdlib.h>

#include "ir/build.h"
#include "ir/canonical.h"
#include "ir/part.h"
#include "ir/turns.h"
#include "pass/fuse/attend.h"
#include "pass/fuse/in_place.h"
#include "pass/fuse/scatters.h"
#include "pass/fuse/twins.h"
#include "pass/fuse/widening.h"
#include "pass/product/pack_tables.h"

struct fuser {
    struct ig_graph *g;
    const struct ig_pass_options *options;
    const struct ig_choices *choices;
    bool join; /* false: one region per node */
    uint32_t *uses;
    uint32_t *region_of; /* by node; IG_NO_REGION: a view, a constant, or not placed yet */
    uint32_t *time_of;   /* by value: 1 + index of the anchor after which it is available; 0: from the start */
    bool *stored;        /* by value: read outside its own region */
    bool *only_reduced;  /* by value: only reductions read it */
    bool *widens;        /* by node: computed by each reader from its narrow operand (widening.h) */
    bool *is_part;       /* by node: a part of its operand that can be read in place */
    bool *in_place;      /* by node: a concatenation whose operands' regions store them in its memory */
    const struct ig_attend **attends; /* by node: the attention of which it is the last product; NULL: none */
    bool *held_back;                  /* by node: reserved for the region that an attention's last product starts */
    IG_VEC(struct fusing) regions;
};

/* A region being formed. */
struct fusing {
    enum ig_family family;
    ig_node_id anchor;
    uint32_t time;
    bool open;                  /* may absorb later nodes */
    bool dead;                  /* was merged into another */
    struct ig_type space;       /* the iteration space: the shape of what it computes (of rows: before reduction) */
    const struct ig_attr *axes; /* ROW: the reduced axes */
    IG_VEC(ig_node_id) nodes;
};

/* ---- What may join a region ----------------------------------------------------------------------------------- */

/* Is this the shape of a row region's reduced values: size 1 along its axes? */
static bool is_reduced_shape(struct fuser *f, const struct fusing *r, const struct ig_type *type) {
    if (r->family != IG_FAMILY_ROW || type->rank != r->space.rank) return false;
    ig_dim one = ig_dim_const(f->g->dims, 1);
    for (int i = 0; i < type->rank; i++) {
        bool reduced = false;
        for (int k = 0; k < r->axes->count; k++)
            reduced |= r->axes->ints[k] == i;
        if (type->dim[i] != (reduced ? one : r->space.dim[i])) return false;
    }
    return true;
}

/* Nodes that occupy no memory: each reader computes them for itself. */
static bool is_free(const struct ig_node *n) {
    return n->op == IG_OP_iota || n->op == IG_OP_shape || n->op == IG_OP_constant;
}

static bool is_view(const struct ig_node *n) {
    return ig_op_info(n->op)->family == IG_FAMILY_VIEW && n->op != IG_OP_concat;
}

static bool is_elementwise(const struct ig_node *n) {
    return ig_op_info(n->op)->family == IG_FAMILY_MAP && n->op != IG_OP_iota;
}

static bool is_reduction(const struct ig_node *n) {
    return ig_op_info(n->op)->family == IG_FAMILY_ROW;
}

static bool is_widening(const struct fuser *f, const struct ig_node *n) {
    return f->widens[n - f->g->nodes.at];
}

/* The value that is read from memory for v: the narrow one if no region owns what widens it, else v itself. */
static ig_value beneath_widening(const struct fuser *f, ig_value v) {
    ig_node_id id;
    while ((id = f->g->values.at[v].node) != IG_NO_NODE && f->widens[id] && f->region_of[id] == IG_NO_REGION)
        v = f->g->nodes.at[id].in[0];
    return v;
}

static uint32_t region_of_value(const struct fuser *f, ig_value v) {
    v = beneath_widening(f, v);
    ig_node_id id = f->g->values.at[v].node;
    return id == IG_NO_NODE || f->g->values.at[v].is_const ? IG_NO_REGION : f->region_of[id];
}

static uint32_t value_time(const struct fuser *f, ig_value v) {
    return v == IG_NO_VALUE ? 0 : f->time_of[v];
}

/* Is every operand of n computed in region r or available before it? The caller has checked the shape of n's result. */
static bool operands_ready(const struct fuser *f, const struct ig_node *n, uint32_t r) {
    uint32_t time = f->regions.at[r].time;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] == IG_NO_VALUE || region_of_value(f, n->in[i]) == r) continue;
        if (value_time(f, n->in[i]) >= time) return false;
    }
    return true;
}

/* The latest region among the producers of n's operands that may absorb n, or IG_NO_REGION. */
static uint32_t joinable_region(struct fuser *f, const struct ig_node *n) {
    const struct ig_type *type = ig_type_of(f->g, n->out);
    uint32_t best = IG_NO_REGION;
    for (uint32_t i = 0; f->join && i < n->n_in; i++) {
        uint32_t r = n->in[i] == IG_NO_VALUE ? IG_NO_REGION : region_of_value(f, n->in[i]);
        if (r == IG_NO_REGION || !f->regions.at[r].open) continue;
        const struct fusing *region = &f->regions.at[r];
        if (!ig_same_dims(type, &region->space) && !is_reduced_shape(f, region, type)) continue;
        if (best != IG_NO_REGION && f->regions.at[best].time >= region->time) continue;
        if (operands_ready(f, n, r)) best = r;
    }
    return best;
}

/* ---- Forming regions -------------------------------------------------------------------------------------------- */

static uint32_t found_region(struct fuser *f, ig_node_id id, enum ig_family family, const struct ig_type *space,
                             bool open) {
    struct fusing r = {.family = family, .anchor = id, .time = id + 1, .open = open, .space = *space};
    IG_PUSH(f->g->job, &f->regions, r);
    return f->regions.count - 1;
}

static void enter_region(struct fuser *f, uint32_t r, ig_node_id id) {
    const struct ig_node *n = &f->g->nodes.at[id];
    IG_PUSH(f->g->job, &f->regions.at[r].nodes, id);
    f->region_of[id] = r;
    for (uint32_t o = 0; o < n->n_out; o++)
        f->time_of[n->out + o] = f->regions.at[r].time;
}

static bool same_axes(const struct ig_attr *a, const struct ig_attr *b) {
    if (a->count != b->count) return false;
    for (int i = 0; i < a->count; i++) {
        if (a->ints[i] != b->ints[i]) return false;
    }
    return true;
}

/* The axes of a reduction as an INTS attribute; argmax and argmin have a single axis. */
static const struct ig_attr *reduction_axes(struct fuser *f, const struct ig_node *n) {
    if (n->op != IG_OP_argmax && n->op != IG_OP_argmin) return ig_attr(f->g, n, IG_ATTR_axes);
    struct ig_attr *axes = IG_NEW(f->g->job, struct ig_attr);
    int64_t axis = ig_attr_int(f->g, n, IG_ATTR_axis);
    *axes = ig_attr_of_ints(ig_memdup(f->g->job, &axis, sizeof axis), 1);
    return axes;
}

/* A reduction joins the elementwise or row region that computes its operand, or starts a row region. */
static void place_reduction(struct fuser *f, ig_node_id id) {
    const struct ig_node *n = &f->g->nodes.at[id];
    const struct ig_attr *axes = reduction_axes(f, n);
    uint32_t r = region_of_value(f, n->in[0]);
    struct fusing *region = r == IG_NO_REGION || !f->join ? NULL : &f->regions.at[r];
    bool fits = region && region->open && ig_same_dims(ig_type_of(f->g, n->in[0]), &region->space) &&
                (region->family == IG_FAMILY_MAP || (region->family == IG_FAMILY_ROW && same_axes(axes, region->axes)));
    if (!fits) {
        r = found_region(f, id, IG_FAMILY_ROW, ig_type_of(f->g, n->in[0]), true);
        region = &f->regions.at[r];
    }
    region->family = IG_FAMILY_ROW;
    region->axes = axes;
    enter_region(f, r, id);
}

/* How often the nodes of region r, and node `id`, read v. */
static uint32_t readings_in(const struct fuser *f, uint32_t r, ig_node_id id, ig_value v) {
    uint32_t count = 0;
    const struct fusing *region = &f->regions.at[r];
    for (uint32_t i = 0; i <= region->nodes.count; i++) {
        const struct ig_node *n = &f->g->nodes.at[i < region->nodes.count ? region->nodes.at[i] : id];
        for (uint32_t k = 0; k < n->n_in; k++)
            count += n->in[k] == v;
    }
    return count;
}

/* Can node `id` compute what region p does, its operand v, element by element? Nothing else may read any of it. */
static bool is_absorbed(const struct fuser *f, uint32_t p, ig_node_id id, ig_value v) {
    const struct fusing *from = &f->regions.at[p];
    bool concat = f->g->nodes.at[id].op == IG_OP_concat;
    if (from->family != IG_FAMILY_MAP || !ig_same_dims(ig_type_of(f->g, v), &from->space)) return false;
    for (uint32_t i = 0; i < from->nodes.count; i++) {
        const struct ig_node *n = &f->g->nodes.at[from->nodes.at[i]];
        bool fits = is_elementwise(n) || (concat && n->op == IG_OP_concat && n->out == v);
        if (!fits || f->uses[n->out] != readings_in(f, p, id, n->out)) return false;
    }
    return true;
}

/* The view or node that reads v, an operand of node `id`, beneath views that nothing else reads and that are not stored: on GPUs, where
 * estimates tell whether to compute what is beneath them pays. */
static ig_node_id reader_beneath(const struct fuser *f, ig_node_id id, ig_value v) {
    const struct ig_node *n;
    while (f->choices->beneath && f->uses[v] == 1 && !f->stored[v] && (n = ig_def(f->g, v)) && is_view(n)) {
        id = f->g->values.at[v].node;
        v = n->in[0];
    }
    return id;
}

/* Takes the elementwise region that computes v, an operand of node `id`, and nothing else, over into region r, a map: with the views between
 * them, if there are any. */
static void absorb_map(struct fuser *f, uint32_t r, ig_node_id id, ig_value v) {
    ig_node_id reader = reader_beneath(f, id, v);
    bool direct = reader == id;
    ig_value computed = direct ? v : f->g->nodes.at[reader].in[0];
    ig_node_id producer = f->g->values.at[computed].node;
    uint32_t p = producer == IG_NO_NODE ? IG_NO_REGION : f->region_of[producer];
    if (p == IG_NO_REGION || p == r || !is_absorbed(f, p, reader, computed)) return;
    if ((!direct || is_view(&f->g->nodes.at[id])) && (!f->choices->beneath || f->choices->apart[computed])) return;
    f->regions.at[p].dead = true;
    for (uint32_t k = 0; k < f->regions.at[p].nodes.count; k++)
        enter_region(f, r, f->regions.at[p].nodes.at[k]);
    for (; v != computed; v = ig_def(f->g, v)->in[0])
        enter_region(f, r, f->g->values.at[v].node);
}

/* The same for all operands of the node, which region r, a map, is to have. */
static void absorb_maps(struct fuser *f, uint32_t r, ig_node_id id) {
    const struct ig_node *n = &f->g->nodes.at[id];
    if (!f->join || f->regions.at[r].family != IG_FAMILY_MAP) return;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] != IG_NO_VALUE) absorb_map(f, r, id, n->in[i]);
    }
}

/* By value: do only reductions read it? Their region may as well compute it (a square), instead of reading it. */
static bool *find_only_reduced(struct ig_graph *g, const uint32_t *uses) {
    uint32_t *reduced = IG_NEW_ARRAY(g->job, uint32_t, g->values.count + 1);
    bool *only = IG_NEW_ARRAY(g->job, bool, g->values.count + 1);
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (is_reduction(n)) reduced[n->in[0]]++;
    }
    for (ig_value v = 0; v < g->values.count; v++)
        only[v] = uses[v] > 0 && reduced[v] == uses[v];
    return only;
}

/* Does n, which could join the contraction r, compute from one value what only reductions read? */
static bool is_left_to_reduction(const struct fuser *f, uint32_t r, const struct ig_node *n) {
    const struct fusing *region = &f->regions.at[r];
    for (uint32_t i = 1; i < n->n_in; i++) {
        if (n->in[i] != n->in[0]) return false;
    }
    return region->family == IG_FAMILY_CONTRACT && f->only_reduced[n->out];
}

/* Is n the rounding of a concatenation that a region stores? */
static bool rounds_concat(const struct fuser *f, const struct ig_node *n) {
    const struct ig_node *concat = n->op == IG_OP_cast ? ig_def_op(f->g, n->in[0], IG_OP_concat) : NULL;
    return f->join && concat && region_of_value(f, n->in[0]) != IG_NO_REGION;
}

static void place_elementwise(struct fuser *f, ig_node_id id) {
    const struct ig_node *n = &f->g->nodes.at[id];
    uint32_t r = rounds_concat(f, n) ? region_of_value(f, n->in[0]) : joinable_region(f, n);
    if (r != IG_NO_REGION && is_left_to_reduction(f, r, n)) r = IG_NO_REGION;
    if (r == IG_NO_REGION) r = found_region(f, id, IG_FAMILY_MAP, ig_type_of(f->g, n->out), true);
    absorb_maps(f, r, id);
    enter_region(f, r, id);
}

/* Its parts are stored by one kernel, computed as they are stored. */
static void place_concat(struct fuser *f, ig_node_id id) {
    uint32_t r = found_region(f, id, IG_FAMILY_MAP, ig_type_of(f->g, f->g->nodes.at[id].out), false);
    absorb_maps(f, r, id);
    enter_region(f, r, id);
}

static bool all_ones(const struct ig_attr *a) {
    for (int i = 0; i < a->count; i++) {
        if (a->ints[i] != 1) return false;
    }
    return true;
}

/* Is each element of the first operand read once per column block (matmul, pointwise convolution), so that an
 * elementwise prologue is not recomputed? */
static bool reads_rows_once(struct fuser *f, const struct ig_node *n) {
    if (n->op == IG_OP_matmul || n->op == IG_OP_matmul_blocks) return true;
    return n->op == IG_OP_conv && ig_attr_int(f->g, n, IG_ATTR_channels_last) &&
           ig_attr_int(f->g, n, IG_ATTR_groups) == 1 && all_ones(ig_attr(f->g, n, IG_ATTR_kernel)) &&
           all_ones(ig_attr(f->g, n, IG_ATTR_strides));
}

static bool is_cheap(const struct ig_node *n) {
    switch (n->op) {
    case IG_OP_add:
    case IG_OP_sub:
    case IG_OP_mul:
    case IG_OP_min:
    case IG_OP_max:
    case IG_OP_neg:
    case IG_OP_cast:
    case IG_OP_where:
    case IG_OP_lt:
    case IG_OP_le:
    case IG_OP_eq: return true;
    default: return false;
    }
}

static bool is_for_gpu(const struct fuser *f) {
    return f->options->target && ig_target_is_cuda(f->options->target);
}

/* Absorbs, as a prologue, the elementwise region that computes only this contraction's first operand. Not on GPUs:
 * there an operand that needs no computation is copied asynchronously while products are made, which is worth a
 * kernel. */
static void absorb_prologue(struct fuser *f, uint32_t r, ig_value operand) {
    uint32_t p = region_of_value(f, operand);
    if (is_for_gpu(f)) return;
    if (!f->join || p == IG_NO_REGION || f->uses[operand] != 1) return;
    struct fusing *prologue = &f->regions.at[p];
    if (prologue->family != IG_FAMILY_MAP) return;
    int computes = 0;
    for (uint32_t i = 0; i < prologue->nodes.count; i++) {
        const struct ig_node *n = &f->g->nodes.at[prologue->nodes.at[i]];
        computes += n->op != IG_OP_cast;
        if (!is_cheap(n) || computes > 4) return;
        if (n->out != operand && f->uses[n->out] != 1) return;
        if (!ig_same_dims(ig_type_of(f->g, n->out), &prologue->space)) return;
    }
    prologue->dead = true;
    for (uint32_t i = 0; i < prologue->nodes.count; i++) {
        IG_PUSH(f->g->job, &f->regions.at[r].nodes, prologue->nodes.at[i]);
        f->region_of[prologue->nodes.at[i]] = r;
    }
}

/* Joins a recurrence to the latest one, if alike (the two directions of a layer), unless something in between reads
 * that one's results. The shared region runs at the position of the later one. */
static bool join_recurrence(struct fuser *f, ig_node_id id) {
    const struct ig_node *n = &f->g->nodes.at[id];
    uint32_t r = f->regions.count;
    while (r > 0 && f->regions.at[r - 1].family != IG_FAMILY_SCAN)
        r--;
    if (!f->join || r-- == 0) return false;
    struct fusing *region = &f->regions.at[r];
    if (!ig_are_alike_recurrences(f->g, n, &f->g->nodes.at[region->anchor])) return false;
    for (ig_node_id between = region->anchor + 1; between <= id; between++) {
        const struct ig_node *reader = &f->g->nodes.at[between];
        for (uint32_t i = 0; i < reader->n_in; i++) {
            if (reader->in[i] != IG_NO_VALUE && region_of_value(f, reader->in[i]) == r) return false;
        }
    }
    region->time = id + 1;
    for (uint32_t i = 0; i < region->nodes.count; i++) {
        const struct ig_node *member = &f->g->nodes.at[region->nodes.at[i]];
        for (uint32_t o = 0; o < member->n_out; o++)
            f->time_of[member->out + o] = region->time;
    }
    enter_region(f, r, id);
    return true;
}

/* Joins a product of few rows to the latest one if that has the same first operand (a gate and what it lets through), and no
 * twin yet: a kernel of few rows waits for its operand and starts, which takes as long as reading the weights. */
static bool join_twin(struct fuser *f, ig_node_id id) {
    uint32_t r = f->regions.count;
    while (r > 0 && (f->regions.at[r - 1].dead || f->regions.at[r - 1].family != IG_FAMILY_CONTRACT))
        r--;
    if (!f->join || !is_for_gpu(f) || r-- == 0) return false;
    const struct fusing *region = &f->regions.at[r];
    const struct ig_node *n = &f->g->nodes.at[id];
    bool computed = region_of_value(f, ig_part_base(f->g, n->in[0])) != IG_NO_REGION;
    if (!computed || !ig_are_twins(f->g, &f->g->nodes.at[region->anchor], n)) return false;
    for (uint32_t i = 0; i < region->nodes.count; i++) {
        ig_node_id member = region->nodes.at[i];
        if (member != region->anchor && f->g->nodes.at[member].op == n->op) return false;
    }
    enter_region(f, r, id);
    return true;
}

static void place_anchor(struct fuser *f, ig_node_id id) {
    const struct ig_node *n = &f->g->nodes.at[id];
    enum ig_family family = ig_op_info(n->op)->family;
    if (family == IG_FAMILY_SCAN && join_recurrence(f, id)) return;
    if ((n->op == IG_OP_matmul || n->op == IG_OP_matmul_blocks) && join_twin(f, id)) return;
    bool takes_epilogue =
        f->join && (family == IG_FAMILY_CONTRACT || n->op == IG_OP_pool_max || n->op == IG_OP_pool_avg ||
                    n->op == IG_OP_pool_sum || (is_for_gpu(f) && ig_collects_updates(f->g, n)));
    uint32_t r = found_region(f, id, family, ig_type_of(f->g, n->out), takes_epilogue);
    if (family == IG_FAMILY_CONTRACT && reads_rows_once(f, n)) absorb_prologue(f, r, n->in[0]);
    enter_region(f, r, id);
}

/* ---- Views that must be stored ----------------------------------------------------------------------------------- */

/* Does the node read its operands only from memory, as dense tensors? */
static bool reads_memory_only(const struct ig_node *n) {
    switch (ig_op_info(n->op)->family) {
    case IG_FAMILY_SCAN:
    case IG_FAMILY_REST:
    case IG_FAMILY_CONTROL:
    case IG_FAMILY_COLLECTIVE:
    case IG_FAMILY_WINDOW: return true;
    case IG_FAMILY_CONTRACT: return false;
    default: return false;
    }
}

/* A transpose that moves the innermost axis is slow to read through: with several readers it is worth materialising. */
static bool moves_innermost(const struct ig_graph *g, const struct ig_node *n) {
    if (n->op != IG_OP_transpose) return false;
    const struct ig_attr *perm = ig_attr(g, n, IG_ATTR_perm);
    return perm->count > 0 && perm->ints[perm->count - 1] != perm->count - 1;
}

/* Scatters read each update once, so through views too, of which one that moves rows about costs nothing. Not on GPUs, whose threads
 * would wait for the number of a row and then for the row, one group of updates after the other: twice as long as for rows in order. */
static bool is_scattered_through(const struct fuser *f, const struct ig_node *n, uint32_t operand,
                                 const struct ig_node *view) {
    const struct ig_graph *g = f->g;
    if (is_for_gpu(f)) return false;
    bool updates = operand == 2 && (n->op == IG_OP_scatter_elements || n->op == IG_OP_scatter_nd);
    return updates && view && is_view(view) && !moves_innermost(g, view) && !ig_info(g, view->out)->is_const;
}

/* Does the view take whole matrices of a weight by their numbers? */
static bool chooses_weights(const struct ig_graph *g, const struct ig_node *view) {
    return view->op == IG_OP_gather && ig_info(g, view->in[0])->is_const &&
           ig_attr_int(g, view, IG_ATTR_axis) < ig_type_of(g, view->in[0])->rank - 2;
}

/* Contractions read through these views. Others, such as most gathers, and pads, turned or not, are materialised, since panels are
 * filled with plain addressing; so is a convolution's image whose channels are not innermost (find_stored_views), since
 * each of its elements is read once per kernel position. */
static bool contraction_reads_through(const struct ig_graph *g, const struct ig_node *n, ig_value operand,
                                      const struct ig_node *view) {
    return view->op == IG_OP_reshape || view->op == IG_OP_transpose || view->op == IG_OP_slice ||
           view->op == IG_OP_broadcast || (n->op == IG_OP_matmul && view->out == operand && chooses_weights(g, view));
}

/* Do the rows of a product's operand (`v`, a reshape of the transpose `view`) consist of more than two separately
 * strided axes? GPU kernels copy contiguous rows, or rows of contiguous pieces. */
static bool rows_are_scattered(const struct fuser *f, ig_value v, const struct ig_node *view) {
    struct ig_graph *g = f->g;
    if (!is_for_gpu(f) || view->op != IG_OP_transpose) return false;
    const struct ig_type *rows = ig_type_of(g, v), *type = ig_type_of(g, view->out);
    const struct ig_attr *perm = ig_attr(g, view, IG_ATTR_perm);
    ig_dim left = rows->dim[rows->rank - 1], one = ig_dim_const(g->dims, 1);
    int axes = 0;
    for (int i = type->rank - 1; i >= 0 && left != one; i--) {
        if (!ig_dim_divides(g->dims, type->dim[i], left)) return false;
        left = ig_dim_div(g->dims, left, type->dim[i]);
        axes += i == type->rank - 1 || perm->ints[i] + 1 != perm->ints[i + 1];
    }
    return axes > 2;
}

/* By node. */
static bool *find_parts(const struct fuser *f) {
    struct ig_graph *g = f->g;
    bool *parts = IG_NEW_ARRAY(g->job, bool, g->nodes.count + 1);
    ig_dim begin;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (ig_info(g, n->out)->is_const || !ig_part_begin(g, n, &begin)) continue;
        parts[id] = ig_part_is_aligned(g, f->options->target, ig_type_of(g, n->out)->dtype, begin);
    }
    return parts;
}

/* The value whose memory v shares through reshapes and through parts that no region computes. */
static ig_value memory_base(const struct fuser *f, ig_value v) {
    for (;;) {
        v = ig_part_base(f->g, v);
        ig_node_id id = f->g->values.at[v].node;
        if (id == IG_NO_NODE || !f->is_part[id] || f->region_of[id] != IG_NO_REGION) return v;
        v = f->g->nodes.at[id].in[0];
    }
}

/* Is v a part of an input, or of what a region computes? Before regions are formed. */
static bool lies_in_memory(const struct fuser *f, ig_value v) {
    ig_value base = memory_base(f, v);
    const struct ig_node *n = ig_def(f->g, base);
    return base != v && (!n || !(is_view(n) || is_free(n) || is_widening(f, n)));
}

/* Does an elementwise node read each element of this view many times, along rows that are strided in memory? Without
 * estimates (on CPUs) it is stored then, once and in the order in which it is read. */
static bool is_read_often(const struct fuser *f, const struct ig_node *n, ig_value base, const struct ig_node *view) {
    enum { OFTEN = 8 };
    struct ig_graph *g = f->g;
    int64_t read, there;
    if (f->options->estimator || !view || !moves_innermost(g, view)) return false;
    if (ig_op_info(n->op)->family != IG_FAMILY_MAP) return false;
    return ig_dim_usual(g->dims, ig_type_elements(g->dims, ig_type_of(g, n->out)), &read) &&
           ig_dim_usual(g->dims, ig_type_elements(g->dims, ig_type_of(g, base)), &there) && read >= OFTEN * there;
}

/* By value: views and free nodes that must be materialised. */
static bool *find_stored_views(const struct fuser *f) {
    struct ig_graph *g = f->g;
    bool *stored = ig_memdup(g->job, f->choices->stored, g->values.count * sizeof *stored);
    for (uint32_t i = 0; i < g->outputs.count; i++)
        stored[ig_part_base(g, g->outputs.at[i].value)] = true;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (ig_info(g, n->out)->is_const) continue;
        bool reads_memory = reads_memory_only(n);
        bool contract = ig_op_info(n->op)->family == IG_FAMILY_CONTRACT;
        bool window = ig_op_info(n->op)->family == IG_FAMILY_WINDOW;
        for (uint32_t i = 0; i < n->n_in; i++) {
            if (n->in[i] == IG_NO_VALUE) continue;
            bool index = i == 1 && (n->op == IG_OP_scatter_elements || n->op == IG_OP_scatter_nd);
            ig_value base = ig_part_base(g, index ? ig_beneath_repeats(g, n->in[i]) : n->in[i]);
            const struct ig_node *view = ig_def(g, base);
            if ((contract || window) && view && !ig_info(g, base)->is_const && is_widening(f, view)) {
                base = ig_part_base(g, view->in[0]);
                view = ig_def(g, base);
            }
            bool scales = n->op == IG_OP_matmul_scaled && i >= 2; /* which templates read by themselves */
            bool dense = reads_memory && !is_scattered_through(f, n, i, view);
            if ((dense || scales) && !lies_in_memory(f, base)) stored[base] = true;
            if (is_read_often(f, n, base, view)) stored[base] = true;
            bool strided = view && n->op == IG_OP_conv && moves_innermost(g, view);
            if (contract && view) strided |= n->op == IG_OP_matmul && rows_are_scattered(f, n->in[i], view);
            if (contract && view && is_view(view) && (strided || !contraction_reads_through(g, n, n->in[i], view)))
                stored[base] = true;
            if (contract && view && view->op == IG_OP_transpose && ig_def_op(g, view->in[0], IG_OP_pad))
                stored[view->in[0]] = true;
        }
        if (is_view(n) && f->uses[n->out] > 1 && moves_innermost(g, n) && !f->options->estimator) stored[n->out] = true;
        if (!f->join && n->op != IG_OP_reshape) stored[n->out] = true;
    }
    return stored;
}

/* ---- The sweep --------------------------------------------------------------------------------------------------- */

/* Is this transpose the only reader of an attention's results, and does it move whole rows? Then results are stored in
 * its order, mostly that of the next product's operand. */
static bool is_order_of_results(struct fuser *f, const struct ig_node *view) {
    if (view->op != IG_OP_transpose || f->uses[view->in[0]] != 1) return false;
    uint32_t r = region_of_value(f, view->in[0]);
    const struct fusing *region = r == IG_NO_REGION ? NULL : &f->regions.at[r];
    if (!region || region->family != IG_FAMILY_ATTEND || !region->open) return false;
    const struct ig_attr *perm = ig_attr(f->g, view, IG_ATTR_perm);
    return beneath_widening(f, view->in[0]) == view->in[0] && perm->ints[perm->count - 1] == perm->count - 1;
}

static void place_view(struct fuser *f, ig_node_id id) {
    const struct ig_node *n = &f->g->nodes.at[id];
    uint32_t time = 0;
    if (is_order_of_results(f, n)) {
        uint32_t r = region_of_value(f, n->in[0]);
        enter_region(f, r, id);
        f->regions.at[r].open = false;
        return;
    }
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (value_time(f, n->in[i]) > time) time = value_time(f, n->in[i]);
    }
    f->time_of[n->out] = time;
    if (f->stored[n->out] && n->op != IG_OP_reshape) {
        uint32_t r = found_region(f, id, IG_FAMILY_MAP, ig_type_of(f->g, n->out), false);
        absorb_maps(f, r, id);
        enter_region(f, r, id);
    }
}

static void place_attend(struct fuser *f, const struct ig_attend *a) {
    const struct ig_node *n = &f->g->nodes.at[a->product];
    uint32_t r = found_region(f, a->product, IG_FAMILY_ATTEND, ig_type_of(f->g, n->out), true);
    for (uint32_t i = 0; i < a->nodes.count; i++)
        enter_region(f, r, a->nodes.at[i]);
    enter_region(f, r, a->product);
}

static void place_node(struct fuser *f, ig_node_id id) {
    const struct ig_node *n = &f->g->nodes.at[id];
    if (ig_info(f->g, n->out)->is_const || f->held_back[id]) return;
    if (f->attends && f->attends[id]) {
        place_attend(f, f->attends[id]);
        return;
    }
    /* A widened value that must be stored as such is placed like any elementwise one. */
    if (is_view(n) || is_free(n) || (f->widens[id] && !f->stored[n->out]))
        place_view(f, id);
    else if (f->in_place[id])
        return;
    else if (n->op == IG_OP_concat)
        place_concat(f, id);
    else if (is_elementwise(n))
        place_elementwise(f, id);
    else if (is_reduction(n))
        place_reduction(f, id);
    else
        place_anchor(f, id);
}

/* ---- Gathers that several regions read ---------------------------------------------------------------------------- */

/* By node, of gathers that no region owns. */
struct gather_reader {
    uint32_t first; /* the first region that reads it; IG_NO_REGION: none */
    bool others;    /* further regions read it */
    bool unknown;   /* it is read through views, by regions not known here */
};

static void note_reader(struct fuser *f, struct gather_reader *readers, ig_node_id id, ig_value operand) {
    uint32_t r = f->region_of[id];
    ig_value v = r == IG_NO_REGION ? operand : beneath_widening(f, operand);
    ig_node_id gather = f->g->values.at[v].node;
    if (gather == IG_NO_NODE || f->g->values.at[v].is_const || f->region_of[gather] != IG_NO_REGION) return;
    struct gather_reader *reader = &readers[gather];
    if (r == IG_NO_REGION) {
        reader->unknown = reader->unknown || !f->widens[id];
        return;
    }
    reader->others = reader->others || (reader->first != IG_NO_REGION && reader->first != r);
    if (reader->first == IG_NO_REGION || f->regions.at[r].time < f->regions.at[reader->first].time) reader->first = r;
}

/* Of several regions that read rows of a table (embeddings), the first one stores them for the others: so the others read
 * them as all layers read the results of the layer before. */
static void store_gathers(struct fuser *f) {
    struct ig_graph *g = f->g;
    struct gather_reader *readers = IG_NEW_ARRAY(g->job, struct gather_reader, g->nodes.count + 1);
    for (ig_node_id id = 0; id < g->nodes.count; id++)
        readers[id].first = IG_NO_REGION;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        for (uint32_t i = 0; i < n->n_in && !ig_info(g, n->out)->is_const; i++) {
            if (n->in[i] != IG_NO_VALUE) note_reader(f, readers, id, n->in[i]);
        }
    }
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct gather_reader *reader = &readers[id];
        if (g->nodes.at[id].op != IG_OP_gather || !reader->others || reader->unknown) continue;
        const struct fusing *first = &f->regions.at[reader->first];
        bool computes_all = first->family == IG_FAMILY_MAP || first->family == IG_FAMILY_ROW;
        if (computes_all && first->open && ig_same_dims(ig_type_of(g, g->nodes.at[id].out), &first->space))
            enter_region(f, reader->first, id);
    }
}

/* ---- From assignments to regions --------------------------------------------------------------------------------- */

/* Walks back from a region's own nodes to its inputs. Views on the way are copied into the region; a reshape or part of a
 * stored value is itself an input. */
struct gathering {
    struct fuser *f;
    struct ig_region *region;
    uint32_t index;
    bool *node_seen; /* reset after each region */
    bool *value_seen;
    IG_VEC(ig_node_id) touched_nodes;
    IG_VEC(ig_value) touched_values;
};

static void gather_node(struct gathering *w, ig_node_id id);

static void gather_input(struct gathering *w, ig_value v) {
    struct ig_graph *g = w->f->g;
    const struct ig_value_info *info = ig_info(g, v);
    if (!info->is_const && info->node != IG_NO_NODE && w->f->region_of[info->node] == w->index) return;
    const struct ig_value_info *base_info = ig_info(g, memory_base(w->f, v));
    bool base_in_memory =
        base_info->is_const || base_info->node == IG_NO_NODE ||
        (w->f->region_of[base_info->node] != IG_NO_REGION && w->f->region_of[base_info->node] != w->index);
    if (!base_in_memory ||
        (w->region->family == IG_FAMILY_ATTEND && (ig_widens_rounded(g, v) || ig_is_packed_table(g, v)))) {
        gather_node(w, info->node);
        return;
    }
    if (w->value_seen[v]) return;
    w->value_seen[v] = true;
    IG_PUSH(g->job, &w->touched_values, v);
    IG_PUSH(g->job, &w->region->inputs, v);
}

static void gather_node(struct gathering *w, ig_node_id id) {
    struct ig_graph *g = w->f->g;
    if (w->node_seen[id]) return;
    w->node_seen[id] = true;
    IG_PUSH(g->job, &w->touched_nodes, id);
    const struct ig_node *n = &g->nodes.at[id];
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] != IG_NO_VALUE) gather_input(w, n->in[i]);
    }
    IG_PUSH(g->job, &w->region->nodes, id);
}

/* Marks the values that nodes outside their own region read. Views belong to no region, so they count as such. */
static void mark_stored_values(struct fuser *f) {
    struct ig_graph *g = f->g;
    for (uint32_t i = 0; i < g->outputs.count; i++)
        f->stored[ig_part_base(g, g->outputs.at[i].value)] = true;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (ig_info(g, n->out)->is_const) continue;
        if (f->options->target && ig_takes_turns(g, n, f->options->target)) {
            f->stored[n->out] = true;
            if (n->op == IG_OP_lstm) f->stored[n->out + 2] = true;
        }
        if (ig_op_is_collective(n->op)) f->stored[n->out] = true;            /* even if nothing reads it */
        if (is_widening(f, n) && f->region_of[id] == IG_NO_REGION) continue; /* its readers are counted instead */
        for (uint32_t i = 0; i < n->n_in; i++) {
            if (n->in[i] == IG_NO_VALUE) continue;
            uint32_t r = region_of_value(f, n->in[i]);
            if (r != IG_NO_REGION && f->region_of[id] != r) f->stored[beneath_widening(f, n->in[i])] = true;
        }
    }
}

/* Puts what the region computes before what it reads, where the operator commutes. Passes put the older value first, and
 * what all layers read (a mask) is older than what they compute in all layers but the first. */
static void order_operands(struct fuser *f, uint32_t r, ig_node_id id) {
    struct ig_node *n = &f->g->nodes.at[id];
    if (!ig_op_commutes(n->op) || region_of_value(f, n->in[0]) == r || region_of_value(f, n->in[1]) != r) return;
    ig_value *in = IG_NEW_ARRAY(f->g->job, ig_value, 2);
    in[0] = n->in[1];
    in[1] = n->in[0];
    n->in = in;
}

static void emit_region(struct fuser *f, struct gathering *w, uint32_t r) {
    struct ig_graph *g = f->g;
    const struct fusing *from = &f->regions.at[r];
    struct ig_region region = {.family = from->family, .anchor = from->anchor};
    w->region = &region;
    w->index = r;
    for (uint32_t i = 0; i < from->nodes.count; i++) {
        order_operands(f, r, from->nodes.at[i]);
        gather_node(w, from->nodes.at[i]);
    }
    IG_ASSERT(g->job, region.nodes.count > 0);
    ig_region_sort(&region);
    for (uint32_t i = 0; i < region.nodes.count; i++) {
        struct ig_node *n = &g->nodes.at[region.nodes.at[i]];
        if (f->region_of[region.nodes.at[i]] != r) continue;
        n->region = g->regions.count;
        for (uint32_t o = 0; o < n->n_out; o++) {
            if (f->stored[n->out + o]) IG_PUSH(g->job, &region.outputs, n->out + o);
        }
    }
    if (region.family == IG_FAMILY_MAP || region.family == IG_FAMILY_ROW)
        region.anchor = region.nodes.at[region.nodes.count - 1];
    ig_region_arrange(g, &region);
    IG_PUSH(g->job, &g->regions, region);
    for (uint32_t i = 0; i < w->touched_nodes.count; i++)
        w->node_seen[w->touched_nodes.at[i]] = false;
    for (uint32_t i = 0; i < w->touched_values.count; i++)
        w->value_seen[w->touched_values.at[i]] = false;
    w->touched_nodes.count = w->touched_values.count = 0;
}

static int compare_times(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void emit_regions(struct fuser *f) {
    struct ig_graph *g = f->g;
    mark_stored_values(f);
    uint64_t *order = IG_NEW_ARRAY(g->job, uint64_t, f->regions.count + 1);
    uint32_t count = 0;
    for (uint32_t r = 0; r < f->regions.count; r++) {
        if (!f->regions.at[r].dead) order[count++] = (uint64_t)f->regions.at[r].time << 32 | r;
    }
    qsort(order, count, sizeof *order, compare_times);
    struct gathering w = {.f = f,
                          .node_seen = IG_NEW_ARRAY(g->job, bool, g->nodes.count + 1),
                          .value_seen = IG_NEW_ARRAY(g->job, bool, g->values.count + 1)};
    for (uint32_t i = 0; i < count; i++)
        emit_region(f, &w, (uint32_t)order[i]);
}

/* By node: is it reserved for the region of an attention? */
static bool *find_held_back(struct ig_graph *g, const struct ig_attend *const *attends) {
    bool *held_back = IG_NEW_ARRAY(g->job, bool, g->nodes.count + 1);
    for (ig_node_id id = 0; attends && id < g->nodes.count; id++) {
        const struct ig_attend *a = attends[id];
        for (uint32_t i = 0; a && i < a->nodes.count; i++)
            held_back[a->nodes.at[i]] = true;
    }
    return held_back;
}

void ig_regions_form(struct ig_graph *g, const struct ig_pass_options *options, bool join,
                     const struct ig_choices *choices) {
    struct fuser f = {.g = g, .options = options, .choices = choices, .join = join, .uses = ig_graph_use_counts(g)};
    g->regions.count = 0;
    f.region_of = IG_NEW_ARRAY(g->job, uint32_t, g->nodes.count + 1);
    for (ig_node_id id = 0; id < g->nodes.count; id++)
        f.region_of[id] = g->nodes.at[id].region = IG_NO_REGION;
    f.time_of = IG_NEW_ARRAY(g->job, uint32_t, g->values.count + 1);
    f.only_reduced = find_only_reduced(g, f.uses);
    f.widens = ig_find_widening(g);
    f.is_part = find_parts(&f);
    f.stored = find_stored_views(&f);
    f.in_place = ig_find_in_place(g, options->target, f.uses, join && !choices->is_body);
    f.attends = join && g->attends ? ig_find_attends(g, f.uses, f.stored, options) : NULL;
    for (ig_node_id id = 0; f.attends && id < g->nodes.count; id++)
        f.attends[id] = choices->declined[id] ? NULL : f.attends[id];
    f.held_back = find_held_back(g, f.attends);
    for (ig_node_id id = 0; id < g->nodes.count; id++)
        place_node(&f, id);
    if (join) store_gathers(&f);
    emit_regions(&f);
}
