/* Recurrences and running totals with extreme shapes, against the reference. */
#include "support/check/kernel_cases.h"

#define COUNT(a) (int)(sizeof(a) / sizeof *(a))

static const int64_t symbols[4] = {2, 7, 3, 0}; /* sizes */

/* Rounding errors of a few operations in that type. */
static double tolerance_for(enum ingot_dtype dtype) {
    switch (dtype) {
    case INGOT_F64: return 1e-12;
    case INGOT_F32: return 2e-5;
    case INGOT_F16: return 4e-3;
    case INGOT_BF16: return 4e-2;
    default: return 0;
    }
}

/* ---- Running totals ------------------------------------------------------------------------------------------------- */

struct total {
    int rank, axis;
    int64_t sizes[4];
    enum ingot_dtype dtype;
    bool product, exclusive, reverse, constant;
};

static void build_total(struct ig_graph *g, const void *argument) {
    const struct total *t = argument;
    struct ig_type type = sized_type(g, t->dtype, t->rank, t->sizes);
    ig_value x = t->constant ? random_constant(g, t->dtype, t->rank, t->sizes, 1) : ig_build_input(g, "x", &type);
    struct ig_attr attrs[] = {ig_attr_of_int(t->axis), ig_attr_of_int(t->exclusive), ig_attr_of_int(t->reverse)};
    ig_build_output(g, "y", ig_build_node(g, t->product ? IG_OP_cumprod : IG_OP_cumsum, &x, 1, 1, attrs, NULL));
}

#define UNPACK(...) \
    { __VA_ARGS__ }
#define TOTAL(r, a, d) .rank = r, .axis = a, .sizes = UNPACK d, .dtype = INGOT_F32

static const struct total totals[] = {
    {TOTAL(1, 0, (100))},     {TOTAL(1, 0, (1))},          {TOTAL(1, 0, (0))},       {TOTAL(2, 1, (5, 33))},
    {TOTAL(2, 0, (33, 5))},   {TOTAL(3, 1, (2, 9, 300))},  {TOTAL(3, 0, (4, 3, 2))}, {TOTAL(4, 2, (2, 3, 5, 129))},
    {TOTAL(3, 1, (2, 0, 4))}, {TOTAL(3, 1, (-1, -2, -3))}, {TOTAL(2, 1, (-2, -1))},  {TOTAL(3, 1, (-1, 5, -4))},
};
static const enum ingot_dtype numeric[] = {INGOT_F32, INGOT_F16, INGOT_BF16, INGOT_F64, INGOT_I8,  INGOT_I16,
                                           INGOT_I32, INGOT_I64, INGOT_U8,   INGOT_U16, INGOT_U32, INGOT_U64};

static void add_total(struct total *t, const struct total *shape, int variant, enum ingot_dtype dtype) {
    *t = *shape;
    t->product = variant & 1;
    t->exclusive = variant & 2;
    t->reverse = variant & 4;
    t->dtype = dtype;
    add_named_case(build_total, t, 0, symbols, "total %d of %s, variant %d", (int)(shape - totals),
                   ingot_dtype_name(dtype), variant)
        ->tolerance = tolerance_for(dtype);
}

static void test_totals(void **state) {
    static struct total variants[4 * COUNT(totals) + COUNT(numeric)];
    (void)state;
    int n = 0;
    for (int i = 0; i < 4 * COUNT(totals); i++)
        add_total(&variants[n++], &totals[i / 4], (2 * i + i / 4 % 2) % 8, INGOT_F32);
    for (int i = 0; i < COUNT(numeric); i++)
        add_total(&variants[n++], &totals[i % 2 ? 3 : 5], i % 8, numeric[i]);
    check_all();
}

/* ---- Recurrences ---------------------------------------------------------------------------------------------------- */

struct recurrence {
    enum ig_op op;
    int64_t time, batch, hidden;
    enum ingot_dtype dtype;
    bool reverse, lengths, peephole, bias, flag; /* flag: input_forget or linear_before_reset */
    bool weights_given;                          /* given as inputs, so that the kernel packs them */
    enum ig_activation activations[3];
    double clip, alpha, beta;
    unsigned outputs; /* bit o: output o is wanted; 0: all */
    bool twice;       /* both directions, with separate weights */
    bool half;        /* the weights are f16 */
};

static ig_value weights(struct ig_graph *g, const struct recurrence *r, int gates, uint32_t seed) {
    const int64_t sizes[] = {gates * r->hidden, r->hidden};
    if (r->weights_given) return input(g, seed ? "r2" : "r", r->dtype, 2, sizes);
    /* Small, so that the gates do not saturate. */
    ig_value all = random_constant(g, INGOT_F32, 2, sizes, 11 + seed);
    all = ig_map2(g, IG_OP_mul, all, ig_build_scalar(g, INGOT_F32, r->hidden > 16 ? 0.1 : 0.5));
    return ig_build_cast(g, all, r->half ? INGOT_F16 : r->dtype);
}

static uint32_t attributes(const struct recurrence *r, int functions, struct ig_attr *out_attrs) {
    static int64_t kinds[3];
    static double alphas[3], betas[3];
    uint32_t n = 0;
    for (int i = 0; i < functions; i++) {
        kinds[i] = (int64_t)r->activations[i];
        alphas[i] = r->alpha;
        betas[i] = r->beta;
    }
    out_attrs[n++] = ig_attr_of_int(r->reverse);
    out_attrs[n++] = ig_attr_of_ints(kinds, functions);
    out_attrs[n++] = ig_attr_of_float(r->clip);
    if (r->op != IG_OP_rnn) out_attrs[n++] = ig_attr_of_int(r->flag);
    out_attrs[n++] = ig_attr_of_floats(alphas, functions);
    out_attrs[n++] = ig_attr_of_floats(betas, functions);
    return n;
}

static void build_recurrence(struct ig_graph *g, const void *argument) {
    const struct recurrence *r = argument;
    int gates = r->op == IG_OP_lstm ? 4 : r->op == IG_OP_gru ? 3 : 1, functions = gates == 1 ? 1 : gates - 1;
    const int64_t sizes[] = {r->time, r->batch, gates * r->hidden}, state[] = {r->batch, r->hidden};
    const int64_t vector[] = {r->op == IG_OP_lstm ? 3 * r->hidden : r->hidden};
    struct ig_attr attrs[6];
    ig_value in[6];
    uint32_t n = 0, n_out = r->op == IG_OP_lstm ? 3 : 2;
    in[n++] = input(g, "xw", r->dtype, 3, sizes);
    in[n++] = weights(g, r, gates, 0);
    in[n++] = input(g, "h", r->dtype, 2, state);
    if (r->op == IG_OP_lstm) in[n++] = input(g, "c", r->dtype, 2, state);
    in[n++] = r->lengths ? input(g, "lengths", INGOT_I32, 1, &r->batch) : IG_NO_VALUE;
    if (r->peephole || r->bias) in[n++] = input(g, "extra", r->dtype, 1, vector);
    while (in[n - 1] == IG_NO_VALUE)
        n--;
    attributes(r, functions, attrs);
    for (uint32_t i = 0; i <= r->twice; i++) {
        if (i > 0) {
            in[1] = weights(g, r, gates, i);
            attrs[0] = ig_attr_of_int(!r->reverse);
        }
        ig_value y = ig_build_node(g, r->op, in, n, n_out, attrs, NULL);
        static const char *const output_names[] = {"y", "h_last", "c_last", "y2", "h_last2", "c_last2"};
        for (uint32_t o = 0; o < n_out; o++) {
            if (r->outputs == 0 || r->outputs >> o & 1) ig_build_output(g, output_names[3 * i + o], y + o);
        }
    }
}

#define SIZES(t, b, h) .time = t, .batch = b, .hidden = h, .dtype = INGOT_F32
#define USUAL .activations = {IG_ACT_SIGMOID, IG_ACT_TANH, IG_ACT_TANH}
#define ROUGH(a, b, c) .activations = {IG_ACT_##a, IG_ACT_##b, IG_ACT_##c}

static const struct recurrence recurrences[] = {
    {IG_OP_lstm, SIZES(1, 1, 128), USUAL},
    {IG_OP_lstm, SIZES(7, 1, 32), USUAL, .reverse = true},
    {IG_OP_lstm, SIZES(4, 5, 20), USUAL, .lengths = true},
    {IG_OP_lstm, SIZES(4, 5, 20), USUAL, .lengths = true, .reverse = true, .peephole = true},
    {IG_OP_lstm, SIZES(5, 30, 40), USUAL, .flag = true, .clip = 0.3},
    {IG_OP_lstm, SIZES(3, 2, 1), USUAL, .peephole = true},
    {IG_OP_lstm, SIZES(0, 3, 16), USUAL},
    {IG_OP_lstm, SIZES(3, 0, 16), USUAL},
    {IG_OP_lstm, SIZES(-1, -2, 33), USUAL, .lengths = true},
    {IG_OP_lstm, SIZES(-4, -3, 8), USUAL},
    {IG_OP_lstm, SIZES(3, 3, 17), USUAL, .weights_given = true},
    {IG_OP_lstm, SIZES(3, 2, 24), USUAL, .outputs = 1},
    {IG_OP_lstm, SIZES(3, 2, 24), USUAL, .outputs = 2, .lengths = true},
    {IG_OP_lstm, SIZES(3, 2, 24), USUAL, .outputs = 4},
    {IG_OP_lstm, SIZES(3, 2, 9), ROUGH(HARD_SIGMOID, AFFINE, LEAKY_RELU), .alpha = 0.3, .beta = 0.4},
    {IG_OP_lstm, SIZES(3, 2, 9), ROUGH(SIGMOID, SCALED_TANH, ELU), .alpha = 0.7, .beta = 1.1},
    {IG_OP_lstm, SIZES(3, 2, 9), ROUGH(SIGMOID, SOFTSIGN, SOFTPLUS), .clip = 1},
    {IG_OP_lstm, SIZES(3, 2, 9), ROUGH(SIGMOID, RELU, THRESHOLDED_RELU), .alpha = 0.1},
    {IG_OP_gru, SIZES(6, 1, 48), USUAL},
    {IG_OP_gru, SIZES(6, 1, 48), USUAL, .flag = true, .bias = true},
    {IG_OP_gru, SIZES(4, 7, 21), USUAL, .lengths = true, .bias = true},
    {IG_OP_gru, SIZES(4, 7, 21), USUAL, .lengths = true, .reverse = true, .flag = true},
    {IG_OP_gru, SIZES(3, 3, 1), USUAL, .clip = 0.2},
    {IG_OP_gru, SIZES(-1, -2, 16), USUAL, .weights_given = true},
    {IG_OP_gru, SIZES(3, 20, 5), ROUGH(HARD_SIGMOID, SOFTSIGN, TANH), .alpha = 0.3, .beta = 0.4, .flag = true},
    {IG_OP_gru, SIZES(0, 2, 16), USUAL},
    {IG_OP_rnn, SIZES(6, 2, 40), ROUGH(TANH, TANH, TANH)},
    {IG_OP_rnn, SIZES(6, 2, 40), ROUGH(RELU, TANH, TANH), .lengths = true, .reverse = true, .clip = 2},
    {IG_OP_rnn, SIZES(-3, -2, 3), ROUGH(AFFINE, TANH, TANH), .alpha = 0.5, .beta = 0.1, .lengths = true},
    {IG_OP_rnn, SIZES(4, 1, 1), ROUGH(TANH, TANH, TANH)},
    {IG_OP_lstm, SIZES(5, 1, 24), USUAL, .twice = true},
    {IG_OP_lstm, SIZES(4, 13, 17), USUAL, .twice = true, .lengths = true, .weights_given = true},
    {IG_OP_gru, SIZES(-1, -2, 20), USUAL, .twice = true, .lengths = true, .outputs = 1},
    {IG_OP_rnn, SIZES(4, 9, 64), ROUGH(TANH, TANH, TANH), .weights_given = true, .outputs = 2},
    /* On GPUs: states of several blocks, some of whose weights find no room. */
    {IG_OP_lstm, SIZES(2, 3, 261), USUAL, .half = true},
    {IG_OP_lstm, SIZES(2, 1, 516), USUAL, .reverse = true},
    {IG_OP_gru, SIZES(3, 2, 130), USUAL, .half = true, .lengths = true, .twice = true},
    {IG_OP_gru, SIZES(4, 6, 100), USUAL, .half = true, .flag = true, .bias = true},
    {IG_OP_lstm, SIZES(3, 5, 17), USUAL, .half = true, .peephole = true, .reverse = true},
    {IG_OP_lstm, SIZES(-1, -2, 64), USUAL, .half = true, .lengths = true},
    {IG_OP_lstm, SIZES(2, 1, 520), USUAL, .half = true},
    {IG_OP_lstm, SIZES(3, 2, 40), ROUGH(SIGMOID, RELU, ELU), .half = true, .alpha = 0.5},
    /* Threads share the steps of these. */
    {IG_OP_lstm, SIZES(5, 1, 260), USUAL},
    {IG_OP_lstm, SIZES(4, 7, 271), USUAL, .reverse = true, .peephole = true, .clip = 0.5},
    {IG_OP_lstm, SIZES(3, 2, 257), USUAL, .twice = true},
    {IG_OP_lstm, SIZES(-2, 1, 256), USUAL, .twice = true, .outputs = 2},
    {IG_OP_lstm, SIZES(1, 3, 256), USUAL, .outputs = 4, .flag = true},
    {IG_OP_gru, SIZES(5, 1, 296), USUAL, .flag = true, .bias = true, .reverse = true},
    {IG_OP_gru, SIZES(4, 5, 301), USUAL, .flag = true, .outputs = 2},
    {IG_OP_rnn, SIZES(4, 1, 513), ROUGH(TANH, TANH, TANH), .twice = true},
    {IG_OP_rnn, SIZES(3, 8, 520), ROUGH(RELU, TANH, TANH), .outputs = 2},
    /* And not of these: steps that do nothing, no steps. */
    {IG_OP_lstm, SIZES(3, 2, 256), USUAL, .lengths = true},
    {IG_OP_lstm, SIZES(-4, 2, 256), USUAL},
    /* On GPUs: tiles of 8, 12 and 16 rows, the last of them smaller. */
    {IG_OP_gru, SIZES(2, 140, 130), USUAL, .half = true, .lengths = true},
    {IG_OP_lstm, SIZES(3, 97, 136), USUAL, .half = true, .twice = true, .lengths = true},
    {IG_OP_lstm, SIZES(2, 300, 136), USUAL, .half = true, .reverse = true, .peephole = true},
};

static void add_recurrence(struct recurrence *r, const struct recurrence *from, enum ingot_dtype dtype, unsigned flags,
                           const char *what) {
    *r = *from;
    r->dtype = dtype;
    add_named_case(build_recurrence, r, flags, symbols, "%s %d of %s%s", r->op == IG_OP_lstm ? "lstm" : "gru or rnn",
                   (int)(from - recurrences), ingot_dtype_name(dtype), what)
        ->tolerance = tolerance_for(dtype);
}

static void test_recurrences(void **state) {
    static struct recurrence variants[COUNT(recurrences)];
    (void)state;
    for (int i = 0; i < COUNT(recurrences); i++)
        add_recurrence(&variants[i], &recurrences[i], INGOT_F32, 0, "");
    check_all();
}

static void test_recurrences_of_types(void **state) {
    static const enum ingot_dtype dtypes[] = {INGOT_F64, INGOT_F16, INGOT_BF16};
    static const int chosen[] = {3, 8, 20, 27, 43};
    static struct recurrence variants[COUNT(dtypes) * COUNT(chosen)];
    (void)state;
    for (int i = 0; i < COUNT(variants); i++)
        add_recurrence(&variants[i], &recurrences[chosen[i % COUNT(chosen)]], dtypes[i / COUNT(chosen)], 0, "");
    check_all();
}

/* NaN and infinities do not leave their rows. Raw: weights are constants that the passes have not packed, so the kernel
 * does. */
static void test_poisoned_recurrences(void **state) {
    static const int chosen[] = {2, 4, 14, 16, 19, 20, 27, 28, 43};
    static struct recurrence variants[2 * COUNT(chosen)];
    (void)state;
    for (int i = 0; i < COUNT(variants); i++) {
        unsigned flags = i % 2 ? GRAPH_POISON : GRAPH_RAW;
        add_recurrence(&variants[i], &recurrences[chosen[i / 2]], INGOT_F32, flags, i % 2 ? ", poisoned" : ", raw");
    }
    check_all();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_totals),
        cmocka_unit_test(test_recurrences),
        cmocka_unit_test(test_recurrences_of_types),
        cmocka_unit_test(test_poisoned_recurrences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
