/*
 * Control flow: bodies are walked as separate graphs. Symbols introduced by a body's inputs are bound for one walk
 * only; they are a suffix of the evaluation's list.
 */
#include <string.h>

#include "ir/eval/eval_op.h"

struct body {
    struct ig_walk walk;
    uint32_t n_in, n_out;
};

static void plan_body(struct ig_eval *ev, struct ig_graph *graph, struct body *body) {
    body->n_in = graph->inputs.count;
    body->n_out = graph->outputs.count;
    ig_value *wanted = ig_eval_scratch(ev, body->n_out, sizeof *wanted);
    for (uint32_t i = 0; i < body->n_out; i++)
        wanted[i] = graph->outputs.at[i].value;
    ig_walk_plan(ev, &body->walk, graph, wanted, body->n_out);
}

static void run_body(struct ig_eval *ev, struct body *body, const struct ig_view *in, struct ig_view *out) {
    uint32_t symbols = ev->symbols.count;
    struct ig_graph *graph = body->walk.graph;
    for (uint32_t i = 0; i < body->n_in; i++) {
        const struct ig_type *type = ig_type_of(graph, graph->inputs.at[i].value);
        if (in[i].dtype != type->dtype || in[i].rank != type->rank) {
            ig_eval_raise(ev, "input %u of the body is %s of rank %d, expected %s of rank %d", i,
                          ingot_dtype_name(in[i].dtype), in[i].rank, ingot_dtype_name(type->dtype), type->rank);
        }
        for (int axis = 0; axis < type->rank; axis++) {
            if (ig_eval_bind(ev, type->dim[axis], in[i].dims[axis])) continue;
            ig_eval_raise(ev, "input %u of the body has size %lld along axis %d, expected %s", i,
                          (long long)in[i].dims[axis], axis, ig_dim_text(ev->dims, type->dim[axis]));
        }
    }
    ig_walk_run(ev, &body->walk, in, out);
    ev->symbols.count = ev->values.count = symbols;
}

static bool truth(struct ig_eval *ev, const struct ig_view *view) {
    if (ig_view_elements(view) != 1)
        ig_eval_raise(ev, "a condition of %lld elements", (long long)ig_view_elements(view));
    return ig_load_i64(view->dtype, view->data, 0) != 0;
}

IG_EVAL(if) {
    struct body body;
    plan_body(ev, node->body[truth(ev, &in[0]) ? 0 : 1], &body);
    if (body.n_in != node->n_in - 1 || body.n_out != node->n_out) ig_eval_raise(ev, "the branch has another arity");
    run_body(ev, &body, in + 1, out);
}

/* One scanned output: its slices in the order of iterations. */
struct scanned {
    IG_VEC(struct ig_view) slices;
};

static struct ig_view stack(struct ig_eval *ev, struct ig_graph *body, ig_value value, struct scanned *scanned) {
    const struct ig_type *type = ig_type_of(body, value);
    uint32_t count = scanned->slices.count;
    int64_t dims[INGOT_MAX_RANK] = {count};
    if (type->rank >= INGOT_MAX_RANK) ig_eval_raise(ev, "rank %d is more than %d", type->rank + 1, INGOT_MAX_RANK);
    for (int i = 0; i < type->rank; i++) {
        int64_t known = 0;
        if (count == 0 &&
            !ig_dim_eval(ev->dims, type->dim[i], ev->symbols.at, ev->values.at, (int)ev->symbols.count, &known)) {
            known = 0; /* no iteration ran, so there are no elements whatever the dim */
        }
        dims[1 + i] = count > 0 ? scanned->slices.at[0].dims[i] : known;
    }
    struct ig_view out = ig_view_new(ev, type->dtype, type->rank + 1, dims), part = out;
    part.rank--;
    memmove(part.dims, out.dims + 1, sizeof part.dims - sizeof part.dims[0]);
    memmove(part.strides, out.strides + 1, sizeof part.strides - sizeof part.strides[0]);
    for (uint32_t i = 0; i < count; i++) {
        struct ig_view *slice = &scanned->slices.at[i];
        for (int d = 0; d < part.rank; d++) {
            if (slice->dims[d] != part.dims[d]) ig_eval_raise(ev, "scanned slices of different shapes");
        }
        part.data = out.data + (int64_t)i * out.strides[0] * (int64_t)ingot_dtype_size(out.dtype);
        ig_view_copy(slice, &part);
        ig_view_drop(ev, slice);
    }
    return out;
}

/* After an iteration: replaces the carried values by the body's results, and keeps the scanned slices. */
static void carry(struct ig_eval *ev, struct ig_view *body_in, struct ig_view *body_out, int64_t carried,
                  struct scanned *scanned, uint32_t n_scanned) {
    for (int64_t i = 0; i < carried; i++) {
        ig_view_drop(ev, &body_in[2 + i]);
        body_in[2 + i] = body_out[1 + i];
    }
    for (uint32_t i = 0; i < n_scanned; i++)
        IG_PUSH(ev->job, &scanned[i].slices, body_out[1 + carried + i]);
}

IG_EVAL(loop) {
    int64_t carried = ig_attr_int(graph, node, IG_ATTR_carried);
    bool go_on = in[1].dtype == INGOT_DTYPE_NONE || truth(ev, &in[1]);
    int64_t trips = in[0].dtype == INGOT_DTYPE_NONE ? INT64_MAX : ig_load_i64(in[0].dtype, in[0].data, 0);
    struct body body;
    plan_body(ev, node->body[0], &body);
    if (body.n_in != node->n_in || carried < 0 || (uint32_t)carried + 1 > body.n_out || body.n_out - 1 != node->n_out) {
        ig_eval_raise(ev, "the body has another arity");
    }
    uint32_t n_scanned = body.n_out - 1 - (uint32_t)carried;
    struct ig_view *body_in = ig_eval_scratch(ev, body.n_in, sizeof *body_in);
    struct ig_view *body_out = ig_eval_scratch(ev, body.n_out, sizeof *body_out);
    struct scanned *scanned = ig_eval_scratch(ev, n_scanned, sizeof *scanned);
    for (uint32_t i = 0; i < n_scanned; i++)
        scanned[i] = (struct scanned){0};
    memcpy(body_in, in, body.n_in * sizeof *body_in);
    for (int64_t i = 0; i < carried; i++)
        ig_view_retain(&body_in[2 + i]);
    body_in[1] = ig_view_new(ev, INGOT_BOOL, 0, NULL);
    *(uint8_t *)body_in[1].data = 1;
    for (int64_t i = 0; i < trips && go_on; i++) {
        body_in[0] = ig_view_new(ev, INGOT_I64, 0, NULL); /* not reused: a scanned output may be the counter */
        *(int64_t *)(void *)body_in[0].data = i;
        run_body(ev, &body, body_in, body_out);
        go_on = truth(ev, &body_out[0]);
        ig_view_drop(ev, &body_in[0]);
        ig_view_drop(ev, &body_out[0]);
        carry(ev, body_in, body_out, carried, scanned, n_scanned);
    }
    ig_view_drop(ev, &body_in[1]);
    for (int64_t i = 0; i < carried; i++)
        out[i] = body_in[2 + i];
    for (uint32_t i = 0; i < n_scanned; i++) {
        out[carried + i] = stack(ev, node->body[0], node->body[0]->outputs.at[1 + carried + i].value, &scanned[i]);
    }
}
