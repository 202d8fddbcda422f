/* Rules of what computes: elementwise operators, reductions, contractions, windows, recurrences and control flow; see
 * rows_rule.h. */
#include <string.h>

#include "ir/rows/rows_rule.h"

bool ig_rows_none(struct ig_rows *x) {
    (void)x;
    return false;
}

/* ---- Broadcasting ------------------------------------------------------------------------------------------------ */

/* An operand's axis, counted in the result's, to which shapes are aligned at the end. */
static int aligned(const struct ig_rows *x, uint32_t operand) {
    return x->in[operand].axis + ig_type_of(x->graph, x->node->out)->rank - ig_rows_type(x, operand)->rank;
}

/* Is an operand without rows the same for all of the result's? */
static bool is_stretched(const struct ig_rows *x, uint32_t operand) {
    const struct ig_type *type = ig_rows_type(x, operand);
    int own = x->out[0].axis - (ig_type_of(x->graph, x->node->out)->rank - type->rank);
    return own < 0 || ig_rows_is(x, type->dim[own], 1);
}

/* All operands with rows have them along one axis of the result, where out[0] has them then. */
static bool align(struct ig_rows *x) {
    for (uint32_t i = 0; i < x->node->n_in; i++) {
        if (x->in[i].axis == IG_ROWS_NONE) continue;
        if (x->out[0].axis != IG_ROWS_NONE && x->out[0].axis != aligned(x, i)) return false;
        x->out[0].axis = aligned(x, i);
        x->out[0].inner = x->in[i].inner;
    }
    return ig_rows_same_size(x);
}

bool ig_rows_map(struct ig_rows *x) {
    if (!align(x)) return false;
    for (uint32_t i = 0; i < x->node->n_in; i++) {
        if (x->in[i].axis == IG_ROWS_NONE && !is_stretched(x, i)) return false;
    }
    return true;
}

/* ---- Reductions, cumulative sums, order -------------------------------------------------------------------------- */

/* Along the axis or axes that are the operator's first attribute. */
bool ig_rows_along(struct ig_rows *x) {
    const struct ig_attr *along = &x->node->attr[0];
    int count = along->kind == IG_KIND_INTS ? along->count : 1;
    for (int i = 0; i < count; i++) {
        if ((along->kind == IG_KIND_INTS ? along->ints[i] : along->i) == x->in[0].axis) return false;
    }
    for (uint32_t o = 0; o < x->node->n_out; o++)
        x->out[o] = x->in[0];
    return true;
}

/* ---- Contractions and windows ------------------------------------------------------------------------------------ */

static bool only_first(const struct ig_rows *x) {
    for (uint32_t i = 1; i < x->node->n_in; i++) {
        if (x->in[i].axis != IG_ROWS_NONE) return false;
    }
    return x->in[0].axis != IG_ROWS_NONE;
}

bool ig_rows_product(struct ig_rows *x) {
    int rank = ig_type_of(x->graph, x->node->out)->rank;
    if (ig_attr_int(x->graph, x->node, IG_ATTR_packed) > 0) {
        x->out[0] = x->in[0];
        return only_first(x) && x->in[0].axis < rank - 1;
    }
    if (x->in[0].axis == ig_rows_type(x, 0)->rank - 1) return false;
    if (x->in[1].axis == ig_rows_type(x, 1)->rank - 2 || !align(x)) return false;
    for (uint32_t i = 0; i < 2 && x->out[0].axis < rank - 2; i++) {
        if (x->in[i].axis == IG_ROWS_NONE && !is_stretched(x, i)) return false;
    }
    return true;
}

bool ig_rows_product_of_codes(struct ig_rows *x) {
    x->out[0] = x->in[0];
    return only_first(x) && x->in[0].axis < ig_rows_type(x, 0)->rank - 1;
}

/* The rows and their scales. */
bool ig_rows_scaled_product(struct ig_rows *x) {
    bool alike = x->in[0].axis == x->in[2].axis && x->in[0].inner == x->in[2].inner;
    x->out[0] = x->in[0];
    return alike && x->in[1].axis == IG_ROWS_NONE && x->in[3].axis == IG_ROWS_NONE && x->in[0].axis != IG_ROWS_NONE &&
           x->in[0].axis < ig_rows_type(x, 0)->rank - 1 && ig_rows_same_size(x);
}

/* Images in a batch. */
static bool images(struct ig_rows *x) {
    x->out[0] = x->in[0];
    return only_first(x) && x->in[0].axis == 0;
}

/* Their positions count from the first image: a row's must not depend on how many rows lie before it. */
bool ig_rows_positions(struct ig_rows *x) {
    return images(x) && ig_rows_multiple(x, ig_rows_type(x, 0)->dim[0]) == x->in[0].inner;
}

/* Images in a batch; or positions along a spatial axis, if no window reaches from one to another. */
bool ig_rows_window(struct ig_rows *x) {
    const struct ig_graph *g = x->graph;
    const struct ig_attr *kernel = ig_attr(g, x->node, IG_ATTR_kernel);
    if (images(x) || !only_first(x)) return only_first(x);
    int axis = x->in[0].axis - (ig_attr_int(g, x->node, IG_ATTR_channels_last) ? 1 : 2);
    return axis >= 0 && axis < kernel->count && kernel->ints[axis] == 1 &&
           ig_attr(g, x->node, IG_ATTR_strides)->ints[axis] == 1 &&
           ig_rows_is(x, ig_attr(g, x->node, IG_ATTR_before)->dims[axis], 0) && ig_rows_same_size(x);
}

/* ---- Recurrences ------------------------------------------------------------------------------------------------- */

/* Each sequence of a batch has states and a length of its own; weights, peepholes and biases are common. */
bool ig_rows_recurrence(struct ig_rows *x) {
    if (x->in[0].axis != 1 || x->in[1].axis != IG_ROWS_NONE) return false;
    for (uint32_t i = 2; i < x->node->n_in; i++) {
        if (x->node->in[i] == IG_NO_VALUE) continue;
        const struct ig_type *type = ig_rows_type(x, i);
        bool own = type->rank == 2 || type->dtype == INGOT_I32;
        if (x->in[i].axis != (own ? 0 : IG_ROWS_NONE)) return false;
    }
    for (uint32_t o = 0; o < x->node->n_out; o++)
        x->out[o] = (struct ig_rows_at){.axis = o == 0 ? 1 : 0, .inner = x->in[0].inner};
    return ig_rows_same_size(x);
}

/* ---- Control flow: what is decided must not depend on rows ------------------------------------------------------- */

/* Do a body's output and a value of type `type` at `at` divide axes of the same size in the same way? */
static bool same_size(const struct ig_graph *body, uint32_t output, const struct ig_rows_at *inside,
                      const struct ig_type *type, const struct ig_rows_at *at) {
    if (inside->axis == IG_ROWS_NONE || at->axis == IG_ROWS_NONE) return inside->axis == at->axis;
    ig_dim size = ig_type_of(body, body->outputs.at[output].value)->dim[inside->axis];
    return size == type->dim[at->axis] && inside->inner == at->inner;
}

bool ig_rows_branch(struct ig_rows *x) {
    if (x->in[0].axis != IG_ROWS_NONE) return false;
    for (int b = 0; b < 2; b++) {
        struct ig_graph *body = x->node->body[b];
        const struct ig_rows_at *out = ig_rows_body(x, body, 1);
        for (uint32_t o = 0; o < x->node->n_out; o++) {
            if (!out || (b == 1 && x->out[o].axis != out[o].axis)) return false;
            x->out[o] = out[o];
            if (!same_size(body, o, &out[o], ig_type_of(x->graph, x->node->out + o), &x->out[o])) return false;
        }
    }
    return true;
}

/* Carried values must have their rows where they had them before the iteration. */
bool ig_rows_loop(struct ig_rows *x) {
    uint32_t carried = (uint32_t)ig_attr_int(x->graph, x->node, IG_ATTR_carried);
    struct ig_graph *body = x->node->body[0];
    if (x->in[0].axis != IG_ROWS_NONE || x->in[1].axis != IG_ROWS_NONE) return false;
    const struct ig_rows_at *out = ig_rows_body(x, body, 0);
    if (!out || out[0].axis != IG_ROWS_NONE) return false;
    for (uint32_t o = 0; o < x->node->n_out; o++) {
        const struct ig_rows_at *inside = &out[o + 1];
        bool stacked = o >= carried && inside->axis != IG_ROWS_NONE;
        x->out[o] = *inside;
        if (stacked) x->out[o].axis++;
        if (!same_size(body, o + 1, inside, ig_type_of(x->graph, x->node->out + o), &x->out[o])) return false;
        if (o < carried && !same_size(body, o + 1, inside, ig_rows_type(x, o + 2), &x->in[o + 2])) return false;
    }
    return true;
}
