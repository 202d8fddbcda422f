/*
 * LSTM, GRU and RNN over time in one direction, as the ONNX operators define them. The input's contraction is a
 * separate operator; a step adds the recurrent one. The state is kept as double between steps.
 */
#include <math.h>
#include <string.h>

#include "ir/eval/eval_op.h"

/* ---- Activations */

struct activation {
    enum ig_activation kind;
    double alpha, beta;
};

static double activate(const struct activation *f, double x) {
    switch (f->kind) {
    case IG_ACT_SIGMOID: return 1 / (1 + exp(-x));
    case IG_ACT_TANH: return tanh(x);
    case IG_ACT_RELU: return x > 0 || isnan(x) ? x : 0;
    case IG_ACT_AFFINE: return f->alpha * x + f->beta;
    case IG_ACT_LEAKY_RELU: return x < 0 ? f->alpha * x : x;
    case IG_ACT_THRESHOLDED_RELU: return x >= f->alpha || isnan(x) ? x : 0;
    case IG_ACT_SCALED_TANH: return f->alpha * tanh(f->beta * x);
    case IG_ACT_HARD_SIGMOID: return isnan(x) ? x : fmin(fmax(f->alpha * x + f->beta, 0), 1);
    case IG_ACT_ELU: return x < 0 ? f->alpha * expm1(x) : x;
    case IG_ACT_SOFTSIGN: return x / (1 + fabs(x));
    case IG_ACT_SOFTPLUS: return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
    }
    return NAN;
}

/* ---- Common parts */

struct recurrence {
    struct ig_view xw;
    int gates;
    int64_t time, batch, hidden;
    double *r; /* [gates*hidden][hidden] */
    const struct ig_view *lengths;
    struct activation f[3];
    double clip;
    bool reverse;
    double *h;    /* [batch][hidden] */
    double *x;    /* [gates*hidden] of the current step */
    double *sums; /* [gates*hidden]: R times h */
    struct ig_view y;
};

static double *as_doubles(struct ig_eval *ev, const struct ig_view *view) {
    struct ig_view dense = ig_view_dense(ev, view);
    int64_t n = ig_view_elements(&dense);
    union ig_cell *cells = ig_eval_scratch(ev, n, sizeof *cells);
    ig_cells_load(view->dtype, dense.data, (int64_t)ingot_dtype_size(view->dtype), n, cells);
    return &cells->f;
}

static bool given(const struct ig_node *node, const struct ig_view *in, uint32_t index) {
    return index < node->n_in && in[index].dtype != INGOT_DTYPE_NONE;
}

/* r as doubles [gates*hidden][hidden], unpacked if need be (ops.def). */
static double *recurrent_weights(struct ig_eval *ev, const struct ig_view *r, const struct recurrence *rec) {
    double *values = as_doubles(ev, r);
    if (r->rank == 2) return values;
    int64_t hidden = rec->hidden, units = r->dims[3], rows = rec->gates * hidden;
    double *plain = ig_eval_scratch(ev, rows * hidden, sizeof *plain);
    for (int64_t row = 0; row < rows; row++) {
        int64_t gate = row / hidden, panel = row % hidden / units, unit = row % hidden % units;
        for (int64_t i = 0; i < hidden; i++)
            plain[row * hidden + i] = values[((panel * hidden + i) * rec->gates + gate) * units + unit];
    }
    return plain;
}

static bool weights_fit(const struct ig_view *xw, const struct ig_view *r, int gates) {
    if (xw->rank != 3 || (r->rank != 2 && r->rank != 4)) return false;
    bool fits = xw->dims[2] == gates * r->dims[1];
    if (r->rank == 2) return fits && r->dims[0] == xw->dims[2];
    return fits && r->dims[2] == gates && r->dims[3] > 0 && r->dims[0] == (r->dims[1] + r->dims[3] - 1) / r->dims[3];
}

/* An optional state as doubles [batch][hidden]; zeros if absent. */
static double *state(struct ig_eval *ev, const struct recurrence *rec, const struct ig_node *node,
                     const struct ig_view *in, uint32_t index) {
    if (given(node, in, index)) {
        if (ig_view_elements(&in[index]) != rec->batch * rec->hidden)
            ig_eval_raise(ev, "the initial state has another size");
        return as_doubles(ev, &in[index]);
    }
    double *zeros = ig_eval_scratch(ev, rec->batch * rec->hidden, sizeof *zeros);
    for (int64_t i = 0; i < rec->batch * rec->hidden; i++)
        zeros[i] = 0;
    return zeros;
}

static void begin(struct ig_eval *ev, struct ig_graph *graph, const struct ig_node *node, const struct ig_view *in,
                  int gates, uint32_t lengths, struct recurrence *rec) {
    *rec = (struct recurrence){.xw = ig_view_dense(ev, &in[0]), .gates = gates};
    const struct ig_view *r = &in[1];
    if (!weights_fit(&in[0], r, gates)) ig_eval_raise(ev, "the recurrent weights do not fit the input");
    rec->time = in[0].dims[0], rec->batch = in[0].dims[1], rec->hidden = r->dims[1];
    rec->r = recurrent_weights(ev, r, rec);
    rec->h = state(ev, rec, node, in, 2);
    rec->x = ig_eval_scratch(ev, gates * rec->hidden, sizeof *rec->x);
    rec->sums = ig_eval_scratch(ev, gates * rec->hidden, sizeof *rec->sums);
    rec->reverse = ig_attr_int(graph, node, IG_ATTR_reverse) != 0;
    rec->clip = ig_attr(graph, node, IG_ATTR_clip)->f;
    if (given(node, in, lengths)) {
        rec->lengths = &in[lengths];
        if (in[lengths].rank != 1 || in[lengths].dims[0] != rec->batch)
            ig_eval_raise(ev, "one length a batch expected");
    }
    const struct ig_attr *kinds = ig_attr(graph, node, IG_ATTR_activations);
    const struct ig_attr *alphas = ig_attr(graph, node, IG_ATTR_alphas), *betas = ig_attr(graph, node, IG_ATTR_betas);
    for (int i = 0; i < 3 && i < kinds->count; i++) {
        rec->f[i] = (struct activation){(enum ig_activation)kinds->ints[i], i < alphas->count ? alphas->floats[i] : 0,
                                        i < betas->count ? betas->floats[i] : 0};
    }
    int64_t dims[] = {rec->time, rec->batch, rec->hidden};
    rec->y = ig_view_new(ev, in[0].dtype, 3, dims);
    uint64_t zero = 0;
    ig_view_fill(&rec->y, &zero);
}

static int64_t length_of(const struct recurrence *rec, int64_t b) {
    if (!rec->lengths) return rec->time;
    int64_t index[] = {b}, length = ig_load_i64(rec->lengths->dtype, ig_view_at(rec->lengths, index), 0);
    return length < 0 ? 0 : length > rec->time ? rec->time : length;
}

/* sums[i] = row i of R times h, for rows first … first + n - 1. */
static void recur(const struct recurrence *rec, const double *h, int64_t first, int64_t n) {
    for (int64_t i = first; i < first + n; i++) {
        double sum = 0;
        for (int64_t j = 0; j < rec->hidden; j++)
            sum += rec->r[i * rec->hidden + j] * h[j];
        rec->sums[i] = sum;
    }
}

static void load_step(const struct recurrence *rec, int64_t t, int64_t b) {
    int64_t index[] = {t, b, 0}, n = rec->gates * rec->hidden;
    for (int64_t i = 0; i < n; i++)
        rec->x[i] = ig_load_f64(rec->xw.dtype, ig_view_at(&rec->xw, index), i);
}

static double clipped(const struct recurrence *rec, double x) {
    return rec->clip > 0 ? fmin(fmax(x, -rec->clip), rec->clip) + (isnan(x) ? x : 0) : x;
}

static double gate(const struct recurrence *rec, int activation, double x) {
    return activate(&rec->f[activation], clipped(rec, x));
}

/* Runs each sequence over its own length; step(user, rec, b) computes the next h of batch element b from x. */
static void run_steps(struct recurrence *rec, void (*step)(void *user, struct recurrence *rec, int64_t b), void *user) {
    for (int64_t b = 0; b < rec->batch; b++) {
        int64_t length = length_of(rec, b);
        for (int64_t s = 0; s < length; s++) {
            int64_t t = rec->reverse ? length - 1 - s : s, index[] = {t, b, 0};
            load_step(rec, t, b);
            step(user, rec, b);
            for (int64_t j = 0; j < rec->hidden; j++) {
                ig_store_f64(rec->y.dtype, ig_view_at(&rec->y, index), j, rec->h[b * rec->hidden + j]);
            }
        }
    }
}

static struct ig_view state_result(struct ig_eval *ev, const struct recurrence *rec, const double *values) {
    int64_t dims[] = {rec->batch, rec->hidden};
    struct ig_view out = ig_view_new(ev, rec->y.dtype, 2, dims);
    for (int64_t i = 0; i < rec->batch * rec->hidden; i++)
        ig_store_f64(out.dtype, out.data, i, values[i]);
    return out;
}

/* ---- LSTM: gates i, o, f, c; activations f, g, h */

struct lstm {
    double *c;              /* [batch][hidden] */
    const double *peephole; /* i, o, f; may be NULL */
    bool input_forget;
};

static void lstm_step(void *user, struct recurrence *rec, int64_t b) {
    struct lstm *l = user;
    int64_t n = rec->hidden;
    double *h = rec->h + b * n, *c = l->c + b * n;
    recur(rec, h, 0, 4 * n);
    for (int64_t j = 0; j < n; j++) {
        const double *p = l->peephole;
        double i = gate(rec, 0, rec->x[j] + rec->sums[j] + (p ? p[j] * c[j] : 0));
        double f = gate(rec, 0, rec->x[2 * n + j] + rec->sums[2 * n + j] + (p ? p[2 * n + j] * c[j] : 0));
        double g = gate(rec, 1, rec->x[3 * n + j] + rec->sums[3 * n + j]);
        if (l->input_forget) f = 1 - i;
        c[j] = f * c[j] + i * g;
        double o = gate(rec, 0, rec->x[n + j] + rec->sums[n + j] + (p ? p[n + j] * c[j] : 0));
        h[j] = o * activate(&rec->f[2], c[j]);
    }
}

IG_EVAL(lstm) {
    struct recurrence rec;
    struct lstm l = {.input_forget = ig_attr_int(graph, node, IG_ATTR_input_forget) != 0};
    begin(ev, graph, node, in, 4, 4, &rec);
    l.c = state(ev, &rec, node, in, 3);
    if (given(node, in, 5)) {
        if (ig_view_elements(&in[5]) != 3 * rec.hidden) ig_eval_raise(ev, "peephole weights of another size");
        l.peephole = as_doubles(ev, &in[5]);
    }
    run_steps(&rec, lstm_step, &l);
    out[0] = rec.y;
    out[1] = state_result(ev, &rec, rec.h);
    out[2] = state_result(ev, &rec, l.c);
}

/* ---- GRU: gates z, r, h; activations f, g */

struct gru {
    const double *bias; /* recurrent bias of the hidden gate; may be NULL */
    bool linear_before_reset;
    double *z, *reset; /* [hidden] */
};

static void gru_step(void *user, struct recurrence *rec, int64_t b) {
    struct gru *g = user;
    int64_t n = rec->hidden;
    double *h = rec->h + b * n;
    recur(rec, h, 0, g->linear_before_reset ? 3 * n : 2 * n);
    for (int64_t j = 0; j < n; j++) {
        double r = gate(rec, 0, rec->x[n + j] + rec->sums[n + j]);
        g->z[j] = gate(rec, 0, rec->x[j] + rec->sums[j]);
        g->reset[j] = g->linear_before_reset ? r : r * h[j];
    }
    if (!g->linear_before_reset) recur(rec, g->reset, 2 * n, n);
    for (int64_t j = 0; j < n; j++) {
        double linear = rec->sums[2 * n + j] + (g->bias ? g->bias[j] : 0);
        if (g->linear_before_reset) linear *= g->reset[j];
        double candidate = gate(rec, 1, rec->x[2 * n + j] + linear);
        h[j] = (1 - g->z[j]) * candidate + g->z[j] * h[j];
    }
}

IG_EVAL(gru) {
    struct recurrence rec;
    struct gru g = {.linear_before_reset = ig_attr_int(graph, node, IG_ATTR_linear_before_reset) != 0};
    begin(ev, graph, node, in, 3, 3, &rec);
    if (given(node, in, 4)) {
        if (ig_view_elements(&in[4]) != rec.hidden) ig_eval_raise(ev, "a recurrent bias of another size");
        g.bias = as_doubles(ev, &in[4]);
    }
    g.z = ig_eval_scratch(ev, rec.hidden, sizeof *g.z);
    g.reset = ig_eval_scratch(ev, rec.hidden, sizeof *g.reset);
    run_steps(&rec, gru_step, &g);
    out[0] = rec.y;
    out[1] = state_result(ev, &rec, rec.h);
}

/* ---- RNN */

static void rnn_step(void *user, struct recurrence *rec, int64_t b) {
    (void)user;
    double *h = rec->h + b * rec->hidden;
    recur(rec, h, 0, rec->hidden);
    for (int64_t j = 0; j < rec->hidden; j++)
        h[j] = gate(rec, 0, rec->x[j] + rec->sums[j]);
}

IG_EVAL(rnn) {
    struct recurrence rec;
    begin(ev, graph, node, in, 1, 3, &rec);
    run_steps(&rec, rnn_step, NULL);
    out[0] = rec.y;
    out[1] = state_result(ev, &rec, rec.h);
}
