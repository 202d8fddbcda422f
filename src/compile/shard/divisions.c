/* A plan as ONNX's device configurations have it, node by node of the model; see shard.h. */
#include "base/map.h"
#include "compile/shard/shard.h"
#include "ir/build.h"

/* The nodes that an ONNX node became. */
struct group {
    const char *origin;
    bool has_product, all_whole, differ;
    ig_node_id stands; /* a product, or the last one */
};
struct groups {
    IG_VEC(struct group) list;
};

static bool is_product(const struct ig_node *n) {
    return ig_op_info(n->op)->family == IG_FAMILY_CONTRACT;
}

static bool same_result(const struct ig_division *a, const struct ig_division *b) {
    return a && b ? ig_layout_same(&a->out[0], &b->out[0]) : a == b;
}

static void find_groups(const struct ig_sharding *s, struct groups *out) {
    const struct ig_graph *g = s->graph;
    const struct ig_shard_plan *plan = &s->considered[s->chosen].result.plan;
    struct ig_map known;
    ig_map_init(&known, g->job);
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        uint32_t index = out->list.count;
        if (!n->origin || n->n_out == 0 || ig_info(g, n->out)->is_const) continue;
        if (!ig_map_get_name(&known, n->origin, &index)) {
            ig_map_put_name(&known, n->origin, index);
            IG_PUSH(g->job, &out->list, ((struct group){.origin = n->origin, .all_whole = true}));
        }
        IG_ASSERT(g->job, out->list.at && index < out->list.count);
        struct group *group = &out->list.at[index];
        group->all_whole &= !plan->divisions[id];
        if (group->has_product && !is_product(n)) continue;
        group->differ |= group->has_product && !same_result(plan->divisions[id], plan->divisions[group->stands]);
        group->has_product |= is_product(n);
        group->stands = id;
    }
}

static int64_t number(const struct ig_graph *g, ig_dim dim) {
    int64_t value = 0;
    return ig_dim_is_const(g->dims, dim, &value) ? value : 0;
}

/* Which weights are divided, as far as it can be said. */
static void describe_weights(struct ig_graph *g, const struct ig_node *n, const struct ig_division *d,
                             struct ig_onnx_division *out) {
    const bool table = n->op == IG_OP_gather && d->in[0].kind == IG_LAYOUT_SPLIT;
    if (!is_product(n) && !table) return;
    out->weights_rank = ig_type_of(g, n->in[table ? 0 : 1])->rank;
    if (d->out[0].kind == IG_LAYOUT_PARTIAL)
        out->weights = IG_ONNX_WEIGHTS_ROWS;
    else if (is_product(n) && ig_info(g, n->in[1])->is_const && d->out[0].axis == ig_shard_columns(g, n))
        out->weights = IG_ONNX_WEIGHTS_COLUMNS;
}

static bool describe(struct ig_graph *g, const struct group *group, const struct ig_division *d,
                     struct ig_onnx_division *out) {
    const struct ig_node *n = &g->nodes.at[group->stands];
    *out = (struct ig_onnx_division){.origin = group->origin};
    if (group->differ) return false;
    if (!d) {
        out->result = IG_ONNX_RESULT_WHOLE;
        return group->all_whole;
    }
    describe_weights(g, n, d, out);
    if (d->out[0].kind == IG_LAYOUT_PARTIAL) {
        out->result = IG_ONNX_RESULT_SUM;
        return out->weights == IG_ONNX_WEIGHTS_ROWS;
    }
    if (d->out[0].kind != IG_LAYOUT_SPLIT) return false;
    out->result = IG_ONNX_RESULT_SPLIT;
    out->axis = d->out[0].axis;
    out->outer = number(g, d->out[0].outer);
    out->count = number(g, d->out[0].count);
    out->inner = number(g, d->out[0].inner);
    return true;
}

uint32_t ig_sharding_divisions(const struct ig_sharding *s, const struct ig_onnx_division **out_divisions) {
    const struct ig_shard_plan *plan = &s->considered[s->chosen].result.plan;
    struct groups groups = {0};
    if (plan->places)
        ig_raise(s->graph->job, INGOT_UNSUPPORTED, "stages of a pipeline cannot be written as device configurations");
    find_groups(s, &groups);
    struct ig_onnx_division *all = IG_NEW_ARRAY(s->graph->job, struct ig_onnx_division, groups.list.count + 1);
    uint32_t count = 0;
    for (uint32_t i = 0; i < groups.list.count; i++) {
        const struct group *group = &groups.list.at[i];
        count += describe(s->graph, group, plan->divisions[group->stands], &all[count]);
    }
    *out_divisions = all;
    return count;
}
