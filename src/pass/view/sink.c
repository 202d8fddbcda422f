/*
 * Sinks views below the operators that follow them: the driver. The rules are in sink_transpose.c and sink_reshape.c.
 *
 * Views only move down, towards the results, so that sinking terminates. Two inverse views that meet cancel, and a
 * computation ends up next to its producer, where the two can be fused.
 */
#include "base/map.h"
#include "pass/view/view.h"

static bool all_const(const struct ig_graph *g, const ig_value *in, uint32_t n_in) {
    for (uint32_t i = 0; i < n_in; i++) {
        if (in[i] != IG_NO_VALUE && !ig_info(g, in[i])->is_const) return false;
    }
    return true;
}

static bool asks_for_order(const struct ig_node *n) {
    return n->op == IG_OP_conv || n->op == IG_OP_transpose || ig_op_info(n->op)->family == IG_FAMILY_WINDOW;
}

static void find_followed(struct ig_followed *f, const struct ig_graph *g) {
    f->g = g;
    f->by_order = IG_NEW_ARRAY(g->job, bool, g->values.count + 1);
    for (ig_node_id id = g->nodes.count; id-- > 0;) {
        const struct ig_node *n = &g->nodes.at[id];
        bool asks = asks_for_order(n) || ig_op_info(n->op)->family == IG_FAMILY_CONTROL;
        for (uint32_t o = 0; o < n->n_out && !asks; o++)
            asks = f->by_order[n->out + o];
        for (uint32_t i = 0; i < n->n_in && asks; i++) {
            if (n->in[i] != IG_NO_VALUE) f->by_order[n->in[i]] = true;
        }
    }
}

bool ig_is_followed(struct ig_followed *f, const struct ig_graph *g, const struct ig_node *n) {
    if (f->g != g) find_followed(f, g);
    return f->by_order[n->out];
}

struct mark {
    const struct ig_graph *g;
    uint64_t value;
};

void ig_sink_mark(struct ig_sink *s, ig_value v) {
    struct mark key = {s->g, v};
    if (s->layouts) ig_map_put(s->layouts, &key, sizeof key, 1);
}

bool ig_sink_is_marked(const struct ig_sink *s, ig_value v) {
    struct mark key = {s->g, v};
    uint32_t found;
    return s->layouts && ig_map_get(s->layouts, &key, sizeof key, &found);
}

static ig_value transpose(struct ig_sink *s, ig_value v, const int64_t *perm) {
    ig_value turned = ig_view_transpose(s->g, v, perm);
    if (ig_sink_is_marked(s, v)) ig_sink_mark(s, turned);
    return turned;
}

ig_value ig_sink_node(struct ig_sink *s, enum ig_op op, const ig_value *in, uint32_t n_in,
                      const struct ig_attr *attrs) {
    struct ig_sink_args a = {op, in, n_in, attrs};
    if (!all_const(s->g, in, n_in)) {
        ig_value sunk = ig_sink_transpose(s, &a);
        if (sunk == IG_NO_VALUE) sunk = ig_sink_reshape(s, &a);
        if (sunk != IG_NO_VALUE) return sunk;
    }
    if (op == IG_OP_transpose) return transpose(s, in[0], attrs[0].ints);
    if (op == IG_OP_reshape) return ig_view_reshape(s->g, in[0], attrs[0].dims, attrs[0].count);
    struct ig_graph *const no_bodies[2] = {NULL, NULL};
    return ig_build_node(s->g, op, in, n_in, 1, attrs, no_bodies);
}

struct ig_type ig_map_result(struct ig_graph *g, const ig_value *in, uint32_t n_in) {
    struct ig_type result = *ig_type_of(g, in[0]);
    for (uint32_t i = 1; i < n_in; i++) {
        struct ig_type left = result, right = *ig_type_of(g, in[i]);
        ig_broadcast_dims(g, "elementwise operator", &left, &right, &result);
    }
    return result;
}
