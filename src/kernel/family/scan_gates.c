/*
 * The gates of recurrences, as expressions: what one unit of an LSTM (Hochreiter and Schmidhuber 1997; peepholes: Gers
 * et al. 2000), a GRU (Cho et al. 2014) or an RNN computes from its sums in one step.
 */
#include "kernel/family/scan_recurrent.h"

static ig_x num(struct ig_recurrence *r, int64_t i) {
    return ig_x_index(r->k, i);
}

static ig_x dim(struct ig_recurrence *r, ig_dim d) {
    return ig_x_dim(r->k, d);
}

ig_value ig_recurrence_operand(const struct ig_recurrence *r, uint32_t index) {
    return index < r->node.n_in ? r->node.in[index] : IG_NO_VALUE;
}

ig_x ig_recurrence_position(struct ig_recurrence *r) {
    if (r->own) return r->iteration;
    return ig_x_add(r->k, ig_x_mul(r->k, r->row, dim(r, r->stride)), r->unit);
}

ig_x ig_recurrence_old_state(struct ig_recurrence *r) {
    ig_x at = ig_recurrence_position(r);
    return ig_x_load(r->k, r->states, r->own ? at : ig_x_add(r->k, r->old_at, at));
}

static ig_x real(struct ig_recurrence *r, double value) {
    return ig_x_float(r->k, r->dtype, value);
}

static ig_x add(struct ig_recurrence *r, ig_x a, ig_x b) {
    return ig_x_map2(r->k, IG_OP_add, a, b);
}

static ig_x sub(struct ig_recurrence *r, ig_x a, ig_x b) {
    return ig_x_map2(r->k, IG_OP_sub, a, b);
}

static ig_x mul(struct ig_recurrence *r, ig_x a, ig_x b) {
    return ig_x_map2(r->k, IG_OP_mul, a, b);
}

/* Element `at` of a vector operand. */
static ig_x vector(struct ig_recurrence *r, ig_value v, ig_x at) {
    return ig_lower_value(r->lower, v, &at);
}

/* ---- Activations ------------------------------------------------------------------------------------------------- */

static ig_x softplus(struct ig_recurrence *r, ig_x x) {
    struct ig_loops *k = r->k;
    ig_x decay = ig_x_map1(k, IG_OP_exp, ig_x_map1(k, IG_OP_neg, ig_x_map1(k, IG_OP_abs, x)));
    return add(r, ig_x_map2(k, IG_OP_max, x, real(r, 0)), ig_x_map1(k, IG_OP_log1p, decay));
}

static ig_x activate(struct ig_recurrence *r, int which, ig_x x) {
    struct ig_loops *k = r->k;
    double a = ig_attr(r->graph, &r->node, IG_ATTR_alphas)->floats[which];
    double b = ig_attr(r->graph, &r->node, IG_ATTR_betas)->floats[which];
    ig_x alpha = real(r, a), beta = real(r, b), zero = real(r, 0), one = real(r, 1);
    ig_x negative = ig_x_map2(k, IG_OP_lt, x, zero);
    switch ((enum ig_activation)ig_attr(r->graph, &r->node, IG_ATTR_activations)->ints[which]) {
    case IG_ACT_SIGMOID: return ig_x_map1(k, IG_OP_sigmoid, x);
    case IG_ACT_TANH: return ig_x_map1(k, IG_OP_tanh, x);
    case IG_ACT_RELU: return ig_x_map2(k, IG_OP_max, x, zero);
    case IG_ACT_AFFINE: return add(r, mul(r, alpha, x), beta);
    case IG_ACT_LEAKY_RELU: return ig_x_select(k, negative, mul(r, alpha, x), x);
    case IG_ACT_THRESHOLDED_RELU: return ig_x_select(k, ig_x_map2(k, IG_OP_lt, x, alpha), zero, x);
    case IG_ACT_SCALED_TANH: return mul(r, alpha, ig_x_map1(k, IG_OP_tanh, mul(r, beta, x)));
    case IG_ACT_HARD_SIGMOID:
        return ig_x_map2(k, IG_OP_min, ig_x_map2(k, IG_OP_max, add(r, mul(r, alpha, x), beta), zero), one);
    case IG_ACT_ELU: return ig_x_select(k, negative, mul(r, alpha, sub(r, ig_x_map1(k, IG_OP_exp, x), one)), x);
    case IG_ACT_SOFTSIGN: return ig_x_map2(k, IG_OP_div, x, add(r, one, ig_x_map1(k, IG_OP_abs, x)));
    case IG_ACT_SOFTPLUS: return softplus(r, x);
    }
    ig_raise(k->job, INGOT_INTERNAL, "unknown activation in %s", ig_op_info(r->node.op)->name);
}

static ig_x gate(struct ig_recurrence *r, int activation, ig_x x) {
    double clip = ig_attr(r->graph, &r->node, IG_ATTR_clip)->f;
    if (clip > 0) {
        x = ig_x_map2(r->k, IG_OP_max, x, real(r, -clip));
        x = ig_x_map2(r->k, IG_OP_min, x, real(r, clip));
    }
    return activate(r, activation, x);
}

/* ---- The gates of one unit --------------------------------------------------------------------------------------- */

/* The time index of the current row in this step. */
static ig_x moment(struct ig_recurrence *r) {
    if (!r->reverse) return r->step;
    ig_x length = r->length == IG_NO_X ? dim(r, r->time) : r->length;
    ig_x moment = ig_x_sub(r->k, ig_x_sub(r->k, length, num(r, 1)), r->step);
    return r->length == IG_NO_X ? moment : ig_x_max(r->k, moment, num(r, 0));
}

static ig_x by_iteration(struct ig_recurrence *r, int buffer, int g) {
    ig_x at = ig_x_mul(r->k, r->iteration, num(r, r->gates));
    return ig_x_load(r->k, buffer, ig_x_add(r->k, at, num(r, g)));
}

static ig_x recurrent_sum(struct ig_recurrence *r, int g) {
    if (r->own) return by_iteration(r, r->sums, g);
    ig_x at = ig_x_mul(r->k, r->row, num(r, r->gates * r->units));
    return ig_x_load(r->k, r->sums, ig_x_add(r->k, ig_x_add(r->k, at, num(r, (int64_t)g * r->units)), r->lane));
}

ig_x ig_recurrence_input(struct ig_recurrence *r, int g) {
    ig_x start = ig_x_mul(r->k, dim(r, r->hidden), num(r, g));
    ig_x index[] = {moment(r), ig_x_add(r->k, r->first_row, r->row), ig_x_add(r->k, start, r->unit)};
    return ig_lower_value(r->lower, r->node.in[0], index);
}

static ig_x input_sum(struct ig_recurrence *r, int g) {
    return r->block ? by_iteration(r, r->inputs, g) : ig_recurrence_input(r, g);
}

static ig_x gate_sum(struct ig_recurrence *r, int g) {
    return add(r, input_sum(r, g), recurrent_sum(r, g));
}

ig_x ig_recurrence_y_at(struct ig_recurrence *r) {
    ig_x index[] = {moment(r), ig_x_add(r->k, r->first_row, r->row), r->unit};
    return ig_lower_linear(r->lower, ig_type_of(r->graph, r->node.out), index);
}

ig_x ig_recurrence_cell_at(struct ig_recurrence *r) {
    if (!r->turns) return ig_recurrence_position(r);
    ig_x index[] = {ig_x_add(r->k, r->first_row, r->row), r->unit};
    return ig_lower_linear(r->lower, ig_type_of(r->graph, r->node.out + 2), index);
}

/* In turns, the last of them leaves the last state. The old one, of which h may be computed, may have the new one's place: it is the last
 * to be stored. */
static void store_state(struct ig_recurrence *r, struct ig_stmt *body, ig_x h) {
    struct ig_loops *k = r->k;
    ig_x at = ig_recurrence_position(r);
    if (r->out_y >= 0) ig_s_store(k, body, r->out_y, ig_recurrence_y_at(r), ig_x_cast(k, h, r->storage, false));
    if (!r->turns) ig_s_store(k, body, r->states, r->own ? at : ig_x_add(k, r->new_at, at), h);
    if (!r->turns || r->out_h < 0) return;
    ig_x index[] = {ig_x_add(k, r->first_row, r->row), r->unit};
    ig_s_store(k, body, r->out_h, ig_lower_linear(r->lower, ig_type_of(r->graph, r->node.out + 1), index), h);
}

/* x plus gate g's peephole, its weight times a cell; x alone if there are no peepholes. */
static ig_x with_peephole(struct ig_recurrence *r, ig_x x, int g, ig_x cell) {
    ig_value weights = ig_recurrence_operand(r, 5);
    if (weights == IG_NO_VALUE) return x;
    ig_x start = ig_x_mul(r->k, dim(r, r->hidden), num(r, g));
    return add(r, x, mul(r, vector(r, weights, ig_x_add(r->k, start, r->unit)), cell));
}

static void emit_lstm(struct ig_recurrence *r, struct ig_stmt *body) {
    enum { INPUT, OUTPUT, FORGET, CELL };
    ig_x old = ig_x_load(r->k, r->cells, ig_recurrence_cell_at(r));
    ig_x i = gate(r, 0, with_peephole(r, gate_sum(r, INPUT), 0, old));
    ig_x f = ig_attr_int(r->graph, &r->node, IG_ATTR_input_forget)
                 ? sub(r, real(r, 1), i)
                 : gate(r, 0, with_peephole(r, gate_sum(r, FORGET), 2, old));
    ig_x cell = add(r, mul(r, f, old), mul(r, i, gate(r, 1, gate_sum(r, CELL))));
    ig_x o = gate(r, 0, with_peephole(r, gate_sum(r, OUTPUT), 1, cell));
    store_state(r, body, mul(r, o, activate(r, 2, cell)));
    ig_s_store(r->k, body, r->cells, ig_recurrence_cell_at(r), cell);
}

bool ig_recurrence_resets_product(const struct ig_recurrence *r) {
    return r->node.op == IG_OP_gru && ig_attr_int(r->graph, &r->node, IG_ATTR_linear_before_reset) != 0;
}

static void store_mixed(struct ig_recurrence *r, struct ig_stmt *body, ig_x z, ig_x candidate) {
    store_state(r, body, add(r, mul(r, sub(r, real(r, 1), z), candidate), mul(r, z, ig_recurrence_old_state(r))));
}

/* Round 0 computes the update and reset gates, round 1 the candidate and the new state. One round does all if the reset
 * gate applies to the product. */
static void emit_gru(struct ig_recurrence *r, struct ig_stmt *body, int round) {
    enum { UPDATE, RESET, HIDDEN };
    ig_x at = ig_recurrence_position(r);
    ig_value bias = ig_recurrence_operand(r, 4);
    if (round == 0) {
        ig_x z = gate(r, 0, gate_sum(r, UPDATE)), reset = gate(r, 0, gate_sum(r, RESET));
        if (!ig_recurrence_resets_product(r)) {
            ig_s_store(r->k, body, r->update, at, z);
            ig_s_store(r->k, body, r->reset, at, mul(r, reset, ig_recurrence_old_state(r)));
            return;
        }
        ig_x linear = recurrent_sum(r, HIDDEN);
        if (bias != IG_NO_VALUE) linear = add(r, linear, vector(r, bias, r->unit));
        store_mixed(r, body, z, gate(r, 1, add(r, input_sum(r, HIDDEN), mul(r, reset, linear))));
        return;
    }
    ig_x linear = gate_sum(r, HIDDEN);
    if (bias != IG_NO_VALUE) linear = add(r, linear, vector(r, bias, r->unit));
    store_mixed(r, body, ig_x_load(r->k, r->update, at), gate(r, 1, linear));
}

static void emit_rnn(struct ig_recurrence *r, struct ig_stmt *body) {
    store_state(r, body, gate(r, 0, gate_sum(r, 0)));
}

void ig_recurrence_gates(struct ig_recurrence *r, struct ig_stmt *body, int round) {
    switch (r->node.op) {
    case IG_OP_lstm: emit_lstm(r, body); break;
    case IG_OP_gru: emit_gru(r, body, round); break;
    default: emit_rnn(r, body); break;
    }
}
