/*
 * LSTM, GRU and RNN. The input's contraction does not depend on the previous step, so it is hoisted out of the
 * recurrence: one product over all steps, with every bias that can be merged. Two directions are two independent
 * recurrences. Sources: Hochreiter and Schmidhuber 1997, Gers et al. 2000 (peepholes), Cho et al. 2014; onnx.ai for
 * gate orders.
 */
#include <string.h>

#include "import/onnx/importer.h"
#include "import/onnx/op/arith.h"

struct recurrence {
    enum ig_op op;
    int gates;     /* LSTM 4, GRU 3, RNN 1 */
    int functions; /* activations per direction: 3, 2, 1 */
    int states;    /* LSTM 2 (h and c), else 1 */
    int64_t hidden;
    int directions;
    bool reverse_only, layout, linear_before_reset;
    ig_value x;       /* [time, batch, input] */
    ig_value lengths; /* i32[batch] or IG_NO_VALUE */
};

/* ---- Activations ---- */

static const struct activation {
    const char *name;
    enum ig_activation core;
    double alpha, beta; /* defaults */
} activations[] = {
    {"Sigmoid", IG_ACT_SIGMOID, 0, 0},
    {"Tanh", IG_ACT_TANH, 0, 0},
    {"Relu", IG_ACT_RELU, 0, 0},
    {"Affine", IG_ACT_AFFINE, 1, 0},
    {"LeakyRelu", IG_ACT_LEAKY_RELU, 0.01, 0},
    {"ThresholdedRelu", IG_ACT_THRESHOLDED_RELU, 1, 0},
    {"ScaledTanh", IG_ACT_SCALED_TANH, 1, 1},
    {"HardSigmoid", IG_ACT_HARD_SIGMOID, 0.2, 0.5},
    {"Elu", IG_ACT_ELU, 1, 0},
    {"Softsign", IG_ACT_SOFTSIGN, 0, 0},
    {"Softplus", IG_ACT_SOFTPLUS, 0, 0},
};

static bool same_word(const char *name, const uint8_t *data, size_t length) {
    if (strlen(name) != length) return false;
    for (size_t i = 0; i < length; i++) {
        if ((name[i] | 32) != (data[i] | 32)) return false;
    }
    return true;
}

static const struct activation *find_activation(struct ig_onnx_node *n, const ProtobufCBinaryData *name) {
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        if (same_word(activations[i].name, name->data, name->len)) return &activations[i];
    }
    ig_onnx_refuse(n, "activation '%.*s' is not supported", (int)(name->len < 40 ? name->len : 40),
                   (const char *)name->data);
}

struct functions {
    int64_t core[3];
    double alphas[3], betas[3];
};

/* The activations of one direction. Alphas and betas are listed, in order, only for activations that have one. */
static struct functions read_functions(struct ig_onnx_node *n, const struct recurrence *r, int direction) {
    static const char *const defaults[] = {"Sigmoid", "Tanh", "Tanh"};
    const Onnx__AttributeProto *given = ig_onnx_attr(n, "activations");
    int n_alphas, n_betas, alpha = 0, beta = 0, wanted = r->functions * r->directions;
    const float *alphas = ig_onnx_floats(n, "activation_alpha", &n_alphas);
    const float *betas = ig_onnx_floats(n, "activation_beta", &n_betas);
    if (given && given->n_strings == 0) given = NULL;
    if (given && given->n_strings != (size_t)wanted) {
        ig_onnx_bad(n, "attribute 'activations' has %zu values, expected %d", given->n_strings, wanted);
    }
    struct functions f = {0};
    for (int i = 0; i < (direction + 1) * r->functions; i++) {
        const char *fallback = r->op == IG_OP_rnn ? "Tanh" : defaults[i % r->functions];
        ProtobufCBinaryData name = {.len = strlen(fallback), .data = (uint8_t *)fallback};
        const struct activation *a = find_activation(n, given ? &given->strings[i] : &name);
        double chosen_alpha = a->alpha, chosen_beta = a->beta;
        bool has_alpha = a->alpha != 0, has_beta = a->core == IG_ACT_AFFINE || a->beta != 0;
        if (has_alpha && alpha < n_alphas) chosen_alpha = (double)alphas[alpha++];
        if (has_beta && beta < n_betas) chosen_beta = (double)betas[beta++];
        if (i < direction * r->functions) continue;
        f.core[i % r->functions] = a->core;
        f.alphas[i % r->functions] = chosen_alpha;
        f.betas[i % r->functions] = chosen_beta;
    }
    return f;
}

/* ---- Operands ---- */

/* One direction of a tensor [directions, ...], without that axis. */
static ig_value of_direction(struct ig_onnx_node *n, ig_value value, int direction) {
    int axis = 0;
    ig_dim start = ig_dim_const(n->dims, direction), one = ig_dim_const(n->dims, 1);
    return ig_build_squeeze(n->g, ig_build_slice_axis(n->g, value, 0, start, one, 1), &axis, 1);
}

static ig_value part(struct ig_onnx_node *n, ig_value vector, int64_t from, int64_t size) {
    return ig_build_slice_axis(n->g, vector, 0, ig_dim_const(n->dims, from), ig_dim_const(n->dims, size), 1);
}

static void check_dim(struct ig_onnx_node *n, ig_value value, int axis, int64_t expected, const char *what) {
    int64_t size = ig_onnx_static_dim(n, value, axis, what);
    if (size != expected) ig_onnx_bad(n, "%s is %lld, expected %lld", what, (long long)size, (long long)expected);
}

static struct recurrence read_recurrence(struct ig_onnx_node *n) {
    static const char *const directions[] = {"forward", "reverse", "bidirectional"};
    static const int64_t batch_first[] = {1, 0, 2};
    int direction = ig_onnx_choice(n, "direction", directions, 3, 0);
    enum ig_op op = (enum ig_op)n->op->arg;
    struct recurrence r = {
        .op = op,
        .gates = op == IG_OP_lstm  ? 4
                 : op == IG_OP_gru ? 3
                                   : 1,
        .functions = op == IG_OP_lstm  ? 3
                     : op == IG_OP_gru ? 2
                                       : 1,
        .states = op == IG_OP_lstm ? 2 : 1,
        .directions = direction == 2 ? 2 : 1,
        .reverse_only = direction == 1,
        .layout = ig_onnx_flag(n, "layout", false),
        .linear_before_reset = ig_onnx_flag(n, "linear_before_reset", false),
        .x = ig_onnx_in(n, 0),
        .lengths = ig_onnx_optional(n, 4),
    };
    ig_value w = ig_onnx_in(n, 1), recurrent = ig_onnx_in(n, 2);
    ig_onnx_check_rank(n, r.x, 3, 3, "X");
    ig_onnx_check_rank(n, w, 3, 3, "W");
    ig_onnx_check_rank(n, recurrent, 3, 3, "R");
    ig_onnx_check_same_type(n, r.x, w);
    ig_onnx_check_same_type(n, r.x, recurrent);
    r.hidden = ig_onnx_static_dim(n, recurrent, 2, "the hidden size of R");
    if (ig_onnx_int(n, "hidden_size", r.hidden) != r.hidden) ig_onnx_bad(n, "attribute 'hidden_size' contradicts R");
    check_dim(n, w, 0, r.directions, "the number of directions of W");
    check_dim(n, recurrent, 0, r.directions, "the number of directions of R");
    check_dim(n, w, 1, r.gates * r.hidden, "dim 1 of W");
    check_dim(n, recurrent, 1, r.gates * r.hidden, "dim 1 of R");
    if (r.lengths != IG_NO_VALUE) r.lengths = ig_build_cast(n->g, r.lengths, INGOT_I32);
    if (r.layout) r.x = ig_build_transpose(n->g, r.x, batch_first);
    return r;
}

/* Merges a bias [2 * gates * hidden], W's half followed by R's. A GRU that applies the reset gate after the product
 * keeps R's part for the hidden gate inside the recurrence. */
static ig_value merged_bias(struct ig_onnx_node *n, const struct recurrence *r, ig_value bias, ig_value *out_inner) {
    int64_t size = r->gates * r->hidden;
    ig_value w = part(n, bias, 0, size), inner = part(n, bias, size, size);
    if (r->op != IG_OP_gru || !r->linear_before_reset) return ig_add(n->g, w, inner);
    int64_t early = 2 * r->hidden;
    *out_inner = part(n, inner, early, r->hidden);
    ig_value sum = ig_add(n->g, part(n, w, 0, early), part(n, inner, 0, early));
    ig_value parts[] = {sum, part(n, w, early, r->hidden)};
    return ig_build_concat(n->g, parts, 2, 0);
}

/* X * W^T + bias for all steps at once. */
static ig_value project(struct ig_onnx_node *n, const struct recurrence *r, int direction, ig_value *out_inner) {
    static const int64_t turned[] = {1, 0};
    ig_value w = ig_build_transpose(n->g, of_direction(n, ig_onnx_in(n, 1), direction), turned);
    ig_value y = ig_build_matmul(n->g, r->x, w, ig_onnx_type(n, r->x));
    *out_inner = IG_NO_VALUE;
    if (!ig_onnx_has(n, 3)) return y;
    ig_onnx_check_rank(n, n->in[3], 2, 2, "B");
    check_dim(n, n->in[3], 0, r->directions, "the number of directions of B");
    check_dim(n, n->in[3], 1, 2 * r->gates * r->hidden, "dim 1 of B");
    return ig_add(n->g, y, merged_bias(n, r, of_direction(n, n->in[3], direction), out_inner));
}

/* The initial state [batch, hidden] of one direction; zeros if not given. */
static ig_value initial_state(struct ig_onnx_node *n, const struct recurrence *r, uint32_t input, int direction) {
    static const int64_t batch_first[] = {1, 0, 2};
    if (!ig_onnx_has(n, input)) {
        ig_dim dims[] = {ig_onnx_dim(n, r->x, 1), ig_dim_const(n->dims, r->hidden)};
        return ig_onnx_full(n, ig_onnx_type(n, r->x), 0, dims, 2);
    }
    ig_value state = n->in[input];
    ig_onnx_check_same_type(n, r->x, state);
    ig_onnx_check_rank(n, state, 3, 3, "an initial state");
    if (r->layout) state = ig_build_transpose(n->g, state, batch_first);
    check_dim(n, state, 0, r->directions, "the number of directions of an initial state");
    return of_direction(n, state, direction);
}

/* ---- One direction ---- */

static uint32_t fill_operands(struct ig_onnx_node *n, const struct recurrence *r, int direction, ig_value in[6]) {
    ig_value inner;
    uint32_t count = 0;
    in[count++] = project(n, r, direction, &inner);
    in[count++] = of_direction(n, ig_onnx_in(n, 2), direction);
    in[count++] = initial_state(n, r, 5, direction);
    if (r->op == IG_OP_lstm) in[count++] = initial_state(n, r, 6, direction);
    in[count++] = r->lengths;
    if (r->op == IG_OP_lstm && ig_onnx_has(n, 7)) {
        ig_onnx_check_rank(n, n->in[7], 2, 2, "P");
        in[count++] = of_direction(n, n->in[7], direction);
    }
    if (r->op == IG_OP_gru && r->linear_before_reset && inner != IG_NO_VALUE) in[count++] = inner;
    while (in[count - 1] == IG_NO_VALUE)
        count--;
    return count;
}

static ig_value run_direction(struct ig_onnx_node *n, const struct recurrence *r, int direction) {
    struct functions f = read_functions(n, r, direction);
    ig_value in[6];
    uint32_t n_in = fill_operands(n, r, direction, in);
    struct ig_attr attrs[6]; /* in the order of ops.def */
    int count = 0;
    attrs[count++] = ig_attr_of_int(r->reverse_only || direction == 1);
    attrs[count++] = ig_attr_of_ints(f.core, r->functions);
    attrs[count++] = ig_attr_of_float(ig_onnx_float(n, "clip", 0));
    if (r->op == IG_OP_lstm) attrs[count++] = ig_attr_of_int(ig_onnx_flag(n, "input_forget", false));
    if (r->op == IG_OP_gru) attrs[count++] = ig_attr_of_int(r->linear_before_reset);
    attrs[count++] = ig_attr_of_floats(f.alphas, r->functions);
    attrs[count++] = ig_attr_of_floats(f.betas, r->functions);
    return ig_build_node(n->g, r->op, in, n_in, (uint32_t)(1 + r->states), attrs, NULL);
}

/* Concatenates the directions: y on axis 1 of [time, D, batch, hidden], states on axis 0 of [D, batch, hidden]. */
static ig_value join(struct ig_onnx_node *n, const struct recurrence *r, const ig_value *parts, int axis) {
    static const int64_t y_batch_first[] = {2, 0, 1, 3}, state_batch_first[] = {1, 0, 2};
    ig_value apart[2];
    for (int i = 0; i < r->directions; i++)
        apart[i] = ig_build_unsqueeze(n->g, parts[i], &axis, 1);
    ig_value joined = r->directions == 1 ? apart[0] : ig_build_concat(n->g, apart, r->directions, axis);
    if (!r->layout) return joined;
    return ig_build_transpose(n->g, joined, axis == 1 ? y_batch_first : state_batch_first);
}

ig_value ig_import_recurrent(struct ig_onnx_node *n) {
    struct recurrence r = read_recurrence(n);
    ig_value first[2], parts[2];
    for (int i = 0; i < r.directions; i++)
        first[i] = run_direction(n, &r, i);
    for (int output = 1; output <= r.states && output < (int)n->n_out; output++) {
        for (int i = 0; i < r.directions; i++)
            parts[i] = first[i] + (ig_value)output;
        n->out[output] = join(n, &r, parts, 0);
    }
    return join(n, &r, first, 1);
}

/* ---- DynamicQuantizeLSTM, one of ONNX Runtime's own operators ---- */

/* A weight [directions, rows, gates * hidden] of 8 bits, with a scale and a zero point for each direction, or for each of its
 * columns, in the inputs from `scale` on: as LSTM has it, in f32. */
static ig_value dequantized(struct ig_onnx_node *n, uint32_t weight, uint32_t scale) {
    static const int64_t turned[] = {0, 2, 1};
    static const int axes[] = {1, 2};
    ig_value difference = ig_build_cast(n->g, ig_onnx_in(n, weight), INGOT_F32), factor = ig_onnx_in(n, scale);
    ig_onnx_check_rank(n, difference, 3, 3, "a weight");
    ig_onnx_check_rank(n, factor, 1, 2, "a scale");
    int missing = 3 - ig_onnx_rank(n, factor);
    if (ig_onnx_has(n, scale + 1)) {
        ig_onnx_check_rank(n, n->in[scale + 1], 3 - missing, 3 - missing, "a zero point");
        ig_value zero = ig_build_cast(n->g, n->in[scale + 1], INGOT_F32);
        difference = ig_sub(n->g, difference, ig_build_unsqueeze(n->g, zero, axes, missing));
    }
    ig_value w = ig_mul(n->g, difference, ig_build_unsqueeze(n->g, factor, axes, missing));
    return ig_build_transpose(n->g, w, turned);
}

/* ONNX Runtime quantises what is multiplied with the weights, too, anew in each step; here that stays as it is. */
ig_value ig_import_dynamic_quantize_lstm(struct ig_onnx_node *n) {
    n->in[1] = dequantized(n, 1, 8);
    n->in[2] = dequantized(n, 2, 10);
    return ig_import_recurrent(n);
}
