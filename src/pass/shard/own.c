/* Networks with collectives of their own; see own.h. */
#include "pass/shard/own.h"

#include "ir/build.h"
#include "pass/pass.h"

const struct ig_node *ig_shard_own(const struct ig_graph *g) {
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (ig_op_is_collective(n->op)) return n;
        for (int b = 0; b < 2; b++) {
            const struct ig_node *found = n->body[b] ? ig_shard_own(n->body[b]) : NULL;
            if (found) return found;
        }
    }
    return NULL;
}

struct adoption {
    struct ig_graph *main;
    int ranks, rank;
    int64_t number; /* of the next collective */
};

/* The number of ranks that a collective is of; 0: any. */
static int64_t ranks_of(const struct ig_graph *g, const struct ig_node *n) {
    if (n->op == IG_OP_all_gather || n->op == IG_OP_reduce_scatter) return ig_attr(g, n, IG_ATTR_parts)->count;
    int64_t ranks = ig_attr_int(g, n, IG_ATTR_ranks);
    return n->op == IG_OP_all_reduce && ranks == 1 ? 0 : ranks;
}

static const char *name_of(const struct ig_node *n) {
    return n->origin ? n->origin : ig_op_info(n->op)->name;
}

static bool adopt(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct adoption *a = rw->state;
    struct ig_attr attrs[IG_MAX_ATTRS];
    if (!ig_op_is_collective(n->op)) return false;
    if (rw->in != a->main)
        ig_raise(rw->in->job, INGOT_UNSUPPORTED, "%s is a collective in control flow, which is not supported",
                 name_of(n));
    int64_t of = ranks_of(rw->in, n);
    if (of != 0 && of != a->ranks)
        ig_raise(rw->in->job, INGOT_INVALID_ARGUMENT, "%s is a collective of %lld ranks, but the engine is for %d",
                 name_of(n), (long long)of, a->ranks);
    for (int i = 0; i < ig_op_info(n->op)->n_attrs; i++) {
        enum ig_attr_name name = ig_op_info(n->op)->attrs[i].name;
        attrs[i] = n->attr[i];
        if (name == IG_ATTR_number) attrs[i] = ig_attr_of_int(a->number++);
        if (name == IG_ATTR_ranks) attrs[i] = ig_attr_of_int(a->ranks);
        if (name == IG_ATTR_rank) attrs[i] = ig_attr_of_int(a->rank);
    }
    out_values[0] = ig_build_node(rw->out, n->op, in, n->n_in, n->n_out, attrs, NULL);
    return true;
}

struct ig_graph *ig_shard_adopt(struct ig_graph *graph, int ranks, int rank) {
    struct adoption a = {.main = graph, .ranks = ranks, .rank = rank};
    return ig_rewrite(graph, NULL, adopt, &a);
}
