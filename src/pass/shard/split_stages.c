/* The ranks' graphs of a pipeline; see stage.h. */
#include "ir/build.h"
#include "pass/pass.h"
#include "pass/shard/stage.h"

struct splitter {
    struct ig_graph *from, *to;
    const struct ig_shard_plan *plan;
    int rank;
    int64_t collectives;  /* so far */
    ig_value *own, *sent; /* by value: as its node gives it; as all ranks have it. IG_NO_VALUE: not here, not yet */
};

static int place_of(const struct splitter *s, ig_value v) {
    const struct ig_value_info *info = ig_info(s->from, v);
    return info->node == IG_NO_NODE || info->is_const ? IG_EVERY_RANK : s->plan->places[info->node];
}

/* Of such a type, but for none of the first axis's elements. */
static ig_value nothing_of(struct splitter *s, enum ingot_dtype dtype, const ig_dim *shape, int rank) {
    ig_dim dims[INGOT_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = i == 0 ? ig_dim_const(s->to->dims, 0) : shape[i];
    return ig_build_broadcast(s->to, ig_build_scalar(s->to, dtype, 0), dims, rank);
}

/* Gathers the value from the rank that has it. */
static ig_value send(struct splitter *s, ig_value v) {
    struct ig_dims *dims = s->to->dims;
    const struct ig_type type = *ig_type_of(s->from, v);
    const bool is_cast = s->plan->sent && s->plan->sent[v] != INGOT_DTYPE_NONE;
    const enum ingot_dtype sent = is_cast ? s->plan->sent[v] : type.dtype;
    const int place = place_of(s, v), ranks = s->plan->ranks, rank = type.rank > 0 ? type.rank : 1;
    const ig_dim one = ig_dim_const(dims, 1), nothing = ig_dim_const(dims, 0);
    ig_dim *parts = IG_NEW_ARRAY(s->from->job, ig_dim, (size_t)ranks), shape[INGOT_MAX_RANK] = {one};
    ig_value part;
    for (int i = 0; i < type.rank; i++)
        shape[i] = type.dim[i];
    for (int r = 0; r < ranks; r++)
        parts[r] = r == place ? shape[0] : nothing;
    if (place == s->rank)
        part = ig_build_reshape(s->to, is_cast ? ig_build_cast(s->to, s->own[v], sent) : s->own[v], shape, rank);
    else
        part = nothing_of(s, sent, shape, rank);
    ig_value all = ig_build_all_gather(s->to, part, s->collectives++, s->rank, 0, parts, ranks);
    all = ig_build_reshape(s->to, all, type.dim, type.rank);
    return is_cast ? ig_build_cast(s->to, all, type.dtype) : all;
}

/* The value where `place` reads it; all ranks ask alike, so that they have the same collectives. IG_NO_VALUE: only others have it. */
static ig_value value_at(struct splitter *s, ig_value v, int place) {
    const int source = place_of(s, v);
    if (source == IG_EVERY_RANK || source == place) return s->own[v];
    if (s->sent[v] == IG_NO_VALUE) {
        const char *reader = s->to->origin; /* what is exchanged belongs to the node that gave it */
        ig_build_origin(s->to, ig_def(s->from, v)->origin);
        s->sent[v] = send(s, v);
        ig_build_origin(s->to, reader);
    }
    return s->sent[v];
}

static void split_node(struct splitter *s, ig_node_id id) {
    const struct ig_node *n = &s->from->nodes.at[id];
    const int place = n->n_out > 0 ? place_of(s, n->out) : IG_EVERY_RANK;
    ig_value *in = IG_NEW_ARRAY(s->from->job, ig_value, n->n_in + 1);
    ig_build_origin(s->to, n->origin);
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = n->in[i] == IG_NO_VALUE ? IG_NO_VALUE : value_at(s, n->in[i], place);
    if (place != IG_EVERY_RANK && place != s->rank) return;
    ig_value first = ig_build_copy(s->to, s->from, n, in);
    for (uint32_t o = 0; o < n->n_out; o++) {
        const char *name = ig_info(s->from, n->out + o)->name;
        s->own[n->out + o] = first + o;
        if (name) ig_build_name(s->to, first + o, name);
    }
}

static ig_value result_of(struct splitter *s, const struct ig_port *port) {
    const struct ig_type type = *ig_type_of(s->from, port->value);
    const bool stays = place_of(s, port->value) == 0 && type.rank > 0 && port->updates == 0;
    if (!stays || s->sent[port->value] != IG_NO_VALUE) return value_at(s, port->value, IG_EVERY_RANK);
    return s->rank == 0 ? s->own[port->value] : nothing_of(s, type.dtype, type.dim, type.rank);
}

struct ig_graph *ig_shard_split_stages(struct ig_graph *g, const struct ig_shard_plan *plan, int rank) {
    struct splitter s = {.from = g, .plan = plan, .rank = rank};
    s.to = ig_graph_create(g->job, g->dims);
    s.own = IG_NEW_ARRAY(g->job, ig_value, g->values.count + 1);
    s.sent = IG_NEW_ARRAY(g->job, ig_value, g->values.count + 1);
    for (ig_value v = 0; v < g->values.count; v++)
        s.own[v] = s.sent[v] = IG_NO_VALUE;
    for (uint32_t i = 0; i < g->inputs.count; i++) {
        const struct ig_port *port = &g->inputs.at[i];
        ig_value input = ig_build_input(s.to, port->name, ig_type_of(g, port->value));
        s.to->values.at[input].elements = ig_info(g, port->value)->elements;
        s.own[port->value] = input;
    }
    for (ig_node_id id = 0; id < g->nodes.count; id++)
        split_node(&s, id);
    ig_build_origin(s.to, NULL);
    for (uint32_t i = 0; i < g->outputs.count; i++)
        ig_build_port(s.to, &g->outputs.at[i], result_of(&s, &g->outputs.at[i]));
    return ig_rewrite(s.to, NULL, NULL, NULL); /* without constants of other stages, and with bodies of its own */
}
