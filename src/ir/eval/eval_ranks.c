/*
 * Evaluates the graphs of several ranks in lockstep, with the collectives between them. See eval.h and
 * base/collective.h.
 */
#include <string.h>

#include "base/collective.h"
#include "ir/eval/eval_op.h"

/* One rank's evaluation, and the collective that it has come to. */
struct seat {
    struct ig_graph *graph;
    struct ig_eval *ev;
    struct ig_walk walk;
    const struct ig_node *node; /* NULL: it has come to its end */
    struct ig_view operand;
};

struct group {
    struct ig_job *job;
    struct seat *seats;
    uint32_t ranks;
};

/* ---- One rank by itself */

static _Noreturn void refuse(struct ig_eval *ev, const struct ig_node *node) {
    ig_eval_raise(ev, "%s needs the graphs of all ranks, this is one rank's", ig_op_info(node->op)->name);
}

IG_EVAL(all_reduce) {
    refuse(ev, node);
}

IG_EVAL(all_gather) {
    refuse(ev, node);
}

IG_EVAL(reduce_scatter) {
    refuse(ev, node);
}

IG_EVAL(all_to_all) {
    refuse(ev, node);
}

IG_EVAL(broadcast_from) {
    refuse(ev, node);
}

/* ---- Agreement */

/* "all_reduce, number 3 ('MatMul 'o'')" */
static const char *place_of(const struct group *g, uint32_t rank) {
    const struct seat *s = &g->seats[rank];
    if (!s->node) return "its end";
    return ig_format(g->job, "%s, number %lld (%s)", ig_op_info(s->node->op)->name,
                     (long long)ig_attr_int(s->graph, s->node, IG_ATTR_number),
                     s->node->origin ? s->node->origin : "unnamed");
}

static bool same_attr(const struct group *g, const struct seat *a, const struct seat *b, int index) {
    const struct ig_attr *x = &a->node->attr[index], *y = &b->node->attr[index];
    if (ig_op_info(a->node->op)->attrs[index].name == IG_ATTR_rank) return true;
    if (x->kind != IG_KIND_DIMS) return x->i == y->i;
    for (int i = 0; i < x->count; i++) {
        if (i >= y->count || ig_eval_dim(a->ev, x->dims[i]) != ig_eval_dim(b->ev, y->dims[i])) return false;
    }
    return x->count == y->count && (uint32_t)x->count == g->ranks;
}

static bool same_shape(const struct seat *a, const struct seat *b, int64_t divided) {
    if (a->operand.dtype != b->operand.dtype || a->operand.rank != b->operand.rank) return false;
    for (int i = 0; i < a->operand.rank; i++) {
        if (i != divided && a->operand.dims[i] != b->operand.dims[i]) return false;
    }
    return true;
}

/* Has each rank come to the same collective as rank 0? */
static void check_agreement(const struct group *g) {
    const struct seat *first = &g->seats[0];
    for (uint32_t r = 1; r < g->ranks; r++) {
        const struct seat *s = &g->seats[r];
        bool same = !s->node == !first->node && (!s->node || s->node->op == first->node->op);
        for (int i = 0; same && s->node && i < ig_op_info(s->node->op)->n_attrs; i++)
            same = same_attr(g, first, s, i);
        bool gathers = s->node && s->node->op == IG_OP_all_gather;
        int64_t divided = same && gathers ? ig_attr_int(s->graph, s->node, IG_ATTR_axis) : -1;
        if (same && s->node) same = same_shape(first, s, divided);
        if (!same)
            ig_raise(g->job, INGOT_INTERNAL, "rank 0 has come to %s, rank %u to %s: they would wait for ever",
                     place_of(g, 0), r, place_of(g, r));
    }
    if (!first->node) return;
    for (uint32_t r = 0; r < g->ranks; r++) {
        const struct seat *s = &g->seats[r];
        enum ig_op op = s->node->op;
        bool divides = op == IG_OP_all_gather || op == IG_OP_reduce_scatter;
        int64_t said = ig_attr_int(s->graph, s->node, divides ? IG_ATTR_rank : IG_ATTR_ranks);
        if (said != (divides ? r : g->ranks))
            ig_raise(g->job, INGOT_INTERNAL, "%s of rank %u of %u is made for %s %lld", ig_op_info(op)->name, r,
                     g->ranks, divides ? "rank" : "a number of ranks of", (long long)said);
    }
}

/* ---- Collectives */

static union ig_cell reduced(enum ingot_dtype dtype, int64_t reduction, union ig_cell a, union ig_cell b) {
    union ig_cell out = a;
    if (!ig_cells_are_float(dtype)) {
        bool less = dtype == INGOT_U64 ? (uint64_t)b.i < (uint64_t)a.i : b.i < a.i;
        if (reduction == IG_REDUCE_SUM) out.i = (int64_t)((uint64_t)a.i + (uint64_t)b.i);
        if (reduction == IG_REDUCE_MAX && !less) out = b;
        if (reduction == IG_REDUCE_MIN && less) out = b;
    } else if (reduction == IG_REDUCE_SUM) {
        out.f = dtype == INGOT_F64 ? a.f + b.f : (double)((float)a.f + (float)b.f);
    } else {
        bool less = b.f < a.f, unordered = b.f != b.f;
        bool takes = reduction == IG_REDUCE_MAX ? b.f > a.f : less;
        if (a.f == a.f && (takes || unordered)) out = b;
    }
    return out;
}

/* The reduction of all operands, for a rank; dense. */
static struct ig_view reduce(struct group *g, uint32_t rank, int64_t reduction) {
    struct ig_eval *ev = g->seats[rank].ev;
    const struct ig_view *first = &g->seats[0].operand;
    struct ig_view out = ig_view_new(ev, first->dtype, first->rank, first->dims);
    int64_t count = ig_view_elements(first), size = (int64_t)ingot_dtype_size(first->dtype);
    union ig_cell *sums = ig_eval_scratch(ev, count, sizeof *sums), *terms = ig_eval_scratch(ev, count, sizeof *terms);
    for (uint32_t r = 0; r < g->ranks; r++) {
        struct ig_view dense = ig_view_dense(g->seats[r].ev, &g->seats[r].operand);
        ig_cells_load(dense.dtype, dense.data, size, count, r ? terms : sums);
        for (int64_t i = 0; r && i < count; i++)
            sums[i] = reduced(dense.dtype, reduction, sums[i], terms[i]);
    }
    ig_cells_store(out.dtype, out.data, size, count, sums);
    return out;
}

static struct ig_view gather(struct group *g, uint32_t rank, int axis) {
    struct ig_eval *ev = g->seats[rank].ev;
    struct ig_view *parts = ig_eval_scratch(ev, g->ranks, sizeof *parts);
    for (uint32_t r = 0; r < g->ranks; r++)
        parts[r] = g->seats[r].operand;
    return ig_view_joined(ev, parts, g->ranks, axis);
}

static struct ig_view reduce_scatter(struct group *g, uint32_t rank) {
    const struct seat *s = &g->seats[rank];
    const struct ig_attr *parts = ig_attr(s->graph, s->node, IG_ATTR_parts);
    int axis = (int)ig_attr_int(s->graph, s->node, IG_ATTR_axis);
    struct ig_view whole = reduce(g, rank, ig_attr_int(s->graph, s->node, IG_ATTR_reduction));
    int64_t begin = 0;
    for (uint32_t r = 0; r < rank; r++)
        begin += ig_eval_dim(s->ev, parts->dims[r]);
    ig_view_cut(s->ev, &whole, axis, begin, ig_eval_dim(s->ev, parts->dims[rank]), 1);
    return whole;
}

static struct ig_view all_to_all(struct group *g, uint32_t rank) {
    const struct ig_view *own = &g->seats[rank].operand;
    struct ig_view out = ig_view_new(g->seats[rank].ev, own->dtype, own->rank, own->dims);
    for (uint32_t r = 0; r < g->ranks; r++) {
        struct ig_view from = g->seats[r].operand, to = out;
        ig_view_cut(g->seats[r].ev, &from, 0, rank, 1, 1);
        ig_view_cut(g->seats[rank].ev, &to, 0, r, 1, 1);
        ig_view_copy(&from, &to);
    }
    return out;
}

static struct ig_view broadcast_from(struct group *g, uint32_t rank, int64_t root) {
    const struct ig_view *from = &g->seats[root].operand;
    struct ig_view out = ig_view_new(g->seats[rank].ev, from->dtype, from->rank, from->dims);
    ig_view_copy(from, &out);
    return out;
}

static struct ig_view result_for(struct group *g, uint32_t rank) {
    const struct seat *s = &g->seats[rank];
    switch (s->node->op) {
    case IG_OP_all_reduce: return reduce(g, rank, ig_attr_int(s->graph, s->node, IG_ATTR_reduction));
    case IG_OP_all_gather: return gather(g, rank, (int)ig_attr_int(s->graph, s->node, IG_ATTR_axis));
    case IG_OP_reduce_scatter: return reduce_scatter(g, rank);
    case IG_OP_all_to_all: return all_to_all(g, rank);
    default: return broadcast_from(g, rank, ig_attr_int(s->graph, s->node, IG_ATTR_root));
    }
}

/* All results are made before an operand is dropped. */
static void run_collective(struct group *g) {
    uint32_t *temporaries = IG_NEW_ARRAY(g->job, uint32_t, g->ranks);
    struct ig_view *results = IG_NEW_ARRAY(g->job, struct ig_view, g->ranks);
    for (uint32_t r = 0; r < g->ranks; r++)
        temporaries[r] = g->seats[r].ev->temporaries.count;
    for (uint32_t r = 0; r < g->ranks; r++)
        results[r] = result_for(g, r);
    for (uint32_t r = 0; r < g->ranks; r++) {
        ig_walk_supply(g->seats[r].ev, &g->seats[r].walk, &results[r]);
        ig_eval_drop_temporaries(g->seats[r].ev, temporaries[r]);
    }
}

/* ---- Ranks */

/* What is wanted are the outputs, and all collectives, since others wait for them. */
static void open_seat(struct seat *s, const struct ingot_tensor *inputs) {
    struct ig_graph *graph = s->graph;
    uint32_t wanted = 0;
    s->ev = ig_eval_create(graph->job, graph);
    struct ig_view *in = ig_eval_take_inputs(s->ev, graph, inputs);
    ig_value *values = ig_eval_scratch(s->ev, (int64_t)graph->outputs.count + graph->nodes.count, sizeof *values);
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        values[wanted++] = graph->outputs.at[i].value;
    for (uint32_t i = 0; i < graph->nodes.count; i++) {
        if (ig_op_is_collective(graph->nodes.at[i].op)) values[wanted++] = graph->nodes.at[i].out;
    }
    ig_walk_plan(s->ev, &s->walk, graph, values, wanted);
    ig_walk_begin(s->ev, &s->walk, in);
}

static void close_seat(struct seat *s, struct ingot_tensor *out_outputs) {
    struct ig_view *out = ig_eval_scratch(s->ev, s->walk.n_wanted, sizeof *out);
    ig_walk_end(s->ev, &s->walk, out);
    ig_eval_give_outputs(s->ev, out, s->graph->outputs.count, out_outputs);
    ig_eval_destroy(s->ev);
}

void ig_eval_ranks(struct ig_job *job, struct ig_graph *const *graphs, uint32_t ranks,
                   const struct ingot_tensor *inputs, struct ingot_tensor *out_outputs) {
    struct group g = {.job = job, .ranks = ranks, .seats = IG_NEW_ARRAY(job, struct seat, ranks)};
    bool ended = false;
    for (uint32_t r = 0; r < ranks; r++) {
        g.seats[r].graph = graphs[r];
        open_seat(&g.seats[r], inputs);
    }
    while (!ended) {
        for (uint32_t r = 0; r < ranks; r++)
            g.seats[r].node = ig_walk_advance(g.seats[r].ev, &g.seats[r].walk, &g.seats[r].operand);
        check_agreement(&g);
        ended = !g.seats[0].node;
        if (!ended) run_collective(&g);
    }
    for (uint32_t r = 0; r < ranks; r++)
        close_seat(&g.seats[r], out_outputs + (size_t)r * graphs[r]->outputs.count);
}
