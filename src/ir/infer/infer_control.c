/* Type inference of recurrences and control flow. See infer.h. */
#include "ir/infer/infer.h"

/* ---- Recurrences: xw [time, batch, gates*hidden], r [gates*hidden, hidden] or packed, states [batch, hidden] */

struct recurrence {
    ig_dim time, batch, hidden;
    enum ingot_dtype dtype;
};

static void check_shape(struct ig_infer *x, uint32_t input, const char *what, int rank, ig_dim d0, ig_dim d1) {
    if (!ig_infer_has(x, input)) return;
    const struct ig_type *type = ig_infer_in(x, input);
    ig_infer_rank(x, input, rank);
    ig_infer_unify(x, type->dim[0], d0, what);
    if (rank > 1) ig_infer_unify(x, type->dim[1], d1, what);
}

static void check_float(struct ig_infer *x, uint32_t input, enum ingot_dtype dtype) {
    if (ig_infer_has(x, input)) ig_infer_dtype(x, input, dtype);
}

static void check_activations(struct ig_infer *x, int count) {
    const int64_t *activations = ig_infer_ints(x, IG_ATTR_activations, count);
    ig_infer_attr(x, IG_ATTR_alphas);
    for (int i = 0; i < count; i++) {
        if (activations[i] < IG_ACT_SIGMOID || activations[i] > IG_ACT_SOFTPLUS)
            ig_infer_fail(x, "activation %lld does not exist", (long long)activations[i]);
    }
    if (ig_infer_attr(x, IG_ATTR_alphas)->count != count || ig_infer_attr(x, IG_ATTR_betas)->count != count)
        ig_infer_fail(x, "there are not %d alphas and betas", count);
}

/* r unpacked, or packed as [ceil(hidden/units), hidden, gates, units]. */
static void check_weights(struct ig_infer *x, int gates, ig_dim width) {
    const struct ig_type *r = ig_infer_in(x, 1);
    if (r->rank != 4) {
        ig_infer_rank(x, 1, 2);
        ig_infer_unify(x, r->dim[0], width, "widths of the gates");
        return;
    }
    ig_infer_unify(x, r->dim[0], ig_dim_ceil_div(x->dims, r->dim[1], r->dim[3]), "numbers of panels");
    ig_infer_unify(x, r->dim[2], ig_dim_const(x->dims, gates), "numbers of gates");
}

/* Checks xw, r, h0 and `lengths`, and returns the sizes. */
static struct recurrence recurrence(struct ig_infer *x, int gates, uint32_t lengths) {
    const struct ig_type *xw = ig_infer_in(x, 0), *r = ig_infer_in(x, 1);
    ig_infer_rank(x, 0, 3);
    if (r->rank < 2) ig_infer_rank(x, 1, 2);
    struct recurrence s = {xw->dim[0], xw->dim[1], r->dim[1], xw->dtype};
    ig_dim width = ig_dim_mul(x->dims, ig_dim_const(x->dims, gates), s.hidden);
    if (!ig_dtype_is_float(s.dtype)) ig_infer_fail(x, "input 0 is not of a floating-point type");
    if (!ig_dtype_is_float(r->dtype)) ig_infer_fail(x, "input 1 is not of a floating-point type");
    check_float(x, 2, s.dtype);
    ig_infer_unify(x, xw->dim[2], width, "widths of the gates");
    check_weights(x, gates, width);
    check_shape(x, 2, "dims of the state", 2, s.batch, s.hidden);
    if (ig_infer_has(x, lengths)) ig_infer_dtype(x, lengths, INGOT_I32);
    check_shape(x, lengths, "dims of the lengths", 1, s.batch, s.batch);
    return s;
}

/* y [time, batch, hidden] and the last states [batch, hidden] */
static void results(struct ig_infer *x, const struct recurrence *s, int states) {
    ig_dim dims[3] = {s->time, s->batch, s->hidden};
    x->out[0] = ig_type_make(s->dtype, 3, dims);
    for (int i = 0; i < states; i++)
        x->out[1 + i] = ig_type_make(s->dtype, 2, dims + 1);
}

void ig_infer_lstm(struct ig_infer *x) {
    struct recurrence s = recurrence(x, 4, 4);
    check_activations(x, 3);
    check_float(x, 3, s.dtype);
    check_float(x, 5, s.dtype);
    check_shape(x, 3, "dims of the cell state", 2, s.batch, s.hidden);
    ig_dim peepholes = ig_dim_mul(x->dims, ig_dim_const(x->dims, 3), s.hidden);
    check_shape(x, 5, "dims of the peepholes", 1, peepholes, peepholes);
    results(x, &s, 2);
}

void ig_infer_gru(struct ig_infer *x) {
    struct recurrence s = recurrence(x, 3, 3);
    check_activations(x, 2);
    check_float(x, 4, s.dtype);
    check_shape(x, 4, "dims of the bias", 1, s.hidden, s.hidden);
    results(x, &s, 1);
}

void ig_infer_rnn(struct ig_infer *x) {
    struct recurrence s = recurrence(x, 1, 3);
    check_activations(x, 1);
    results(x, &s, 1);
}

/* ---- Control flow */

/* Fails unless the types of a body's input (or output) and of its value agree; returns the more precise one. */
static struct ig_type join(struct ig_infer *x, const char *what, uint32_t index, const struct ig_type *a,
                           const struct ig_type *b) {
    struct ig_type type = *a;
    if (a->dtype != b->dtype || a->rank != b->rank) ig_infer_fail(x, "the types of %s %u differ", what, index);
    for (int i = 0; i < a->rank; i++) {
        if (!ig_dims_unify(x->graph, a->dim[i], b->dim[i], &type.dim[i]))
            ig_infer_fail(x, "the dims of %s %u differ: %s and %s", what, index, ig_infer_dim_text(x, a->dim[i]),
                          ig_infer_dim_text(x, b->dim[i]));
    }
    return type;
}

static void check_ports(struct ig_infer *x, const struct ig_graph *body, uint32_t inputs, uint32_t outputs) {
    if (body->inputs.count != inputs || body->outputs.count != outputs)
        ig_infer_fail(x, "a body has %u inputs and %u outputs, expected %u and %u", body->inputs.count,
                      body->outputs.count, inputs, outputs);
}

static const struct ig_type *body_in(const struct ig_graph *body, uint32_t i) {
    return ig_type_of(body, body->inputs.at[i].value);
}

static const struct ig_type *body_out(const struct ig_graph *body, uint32_t i) {
    return ig_type_of(body, body->outputs.at[i].value);
}

/* A condition: bool of one element. */
static void check_condition(struct ig_infer *x, const struct ig_type *type) {
    ig_dim either;
    bool one = ig_dims_unify(x->graph, ig_type_elements(x->dims, type), ig_dim_const(x->dims, 1), &either);
    if (type->dtype != INGOT_BOOL || !one) ig_infer_fail(x, "a condition is not one bool");
}

void ig_infer_if(struct ig_infer *x) {
    const struct ig_node *node = x->node;
    check_condition(x, ig_infer_in(x, 0));
    for (int b = 0; b < 2; b++) {
        check_ports(x, node->body[b], node->n_in - 1, node->n_out);
        for (uint32_t i = 1; i < node->n_in; i++)
            join(x, "capture", i - 1, ig_infer_in(x, i), body_in(node->body[b], i - 1));
    }
    for (uint32_t i = 0; i < node->n_out; i++)
        x->out[i] = join(x, "result", i, body_out(node->body[0], i), body_out(node->body[1], i));
}

/* inputs: trip, condition, carried…, captures…; body: iteration, condition, carried…, captures… -> condition, carried…,
 * scanned… */
void ig_infer_loop(struct ig_infer *x) {
    const struct ig_node *node = x->node;
    const struct ig_graph *body = node->body[0];
    int64_t carried = ig_infer_int(x, IG_ATTR_carried);
    ig_dim trip = ig_infer_attr(x, IG_ATTR_trip)->dim;
    if (carried < 0 || carried > node->n_out || carried + 2 > node->n_in)
        ig_infer_fail(x, "%lld carried values do not fit", (long long)carried);
    check_ports(x, body, node->n_in, node->n_out + 1);
    if (ig_infer_has(x, 0)) ig_infer_dtype(x, 0, INGOT_I64);
    if (ig_infer_has(x, 1)) check_condition(x, ig_infer_in(x, 1));
    check_condition(x, body_in(body, 1));
    check_condition(x, body_out(body, 0));
    if (body_in(body, 0)->dtype != INGOT_I64) ig_infer_fail(x, "the body's iteration number is not i64");
    for (uint32_t i = 2; i < node->n_in; i++)
        join(x, "input", i, ig_infer_in(x, i), body_in(body, i));
    for (uint32_t i = 0; i < node->n_out; i++) {
        const struct ig_type *result = body_out(body, i + 1);
        if ((int64_t)i < carried) {
            x->out[i] = join(x, "carried value", i, ig_infer_in(x, i + 2), result);
            continue;
        }
        if (trip == IG_DIM_NONE) ig_infer_fail(x, "values are scanned over an unknown number of iterations");
        if (result->rank == INGOT_MAX_RANK) ig_infer_fail(x, "scanned value %u has too high a rank", i);
        x->out[i] = (struct ig_type){.dtype = result->dtype, .rank = result->rank + 1};
        x->out[i].dim[0] = trip;
        for (int j = 0; j < result->rank; j++)
            x->out[i].dim[j + 1] = result->dim[j];
    }
}
