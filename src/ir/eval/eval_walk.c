/*
 * Walks the part of a graph that some values depend on, in order; a value is dropped after its last reader.
 *
 * Evaluating one small constant in a graph of ten thousand nodes must not take ten thousand steps. So the needed nodes
 * are found backwards from the wanted values, and the visit marks lie in an array that is never cleared: a mark is
 * valid only if it has the generation of its walk.
 */
#include <stdlib.h>
#include <string.h>

#include "ir/eval/eval_const.h"
#include "ir/eval/eval_op.h"

static const ig_eval_fn evaluators[IG_OP_COUNT] = {
#define IG_MAP(name, ...) [IG_OP_##name] = ig_eval_map,
#define IG_OP(name, ...) [IG_OP_##name] = ig_eval_##name,
#include "ir/ops.def"
};

static uint32_t slot_of(const struct ig_walk *walk, ig_value value) {
    IG_ASSERT(walk->graph->job, value < walk->graph->values.count);
    uint64_t mark = walk->slot_of[value];
    return mark >> 32 == walk->generation ? (uint32_t)mark : UINT32_MAX;
}

struct planner {
    struct ig_eval *ev;
    struct ig_walk *walk;
    IG_VEC(ig_node_id) found; /* needed nodes; the inputs of those from `next` on have not been visited */
    IG_VEC(uint32_t) uses;
};

static void mark_value(struct planner *p, ig_value value) {
    p->walk->slot_of[value] = (uint64_t)p->walk->generation << 32 | p->uses.count;
    IG_PUSH(p->ev->job, &p->uses, 0);
}

/* Counts a reader of `value`; its node becomes needed, with all of its outputs. */
static void need(struct planner *p, ig_value value) {
    struct ig_graph *graph = p->walk->graph;
    if (slot_of(p->walk, value) == UINT32_MAX) {
        const struct ig_node *node = ig_def(graph, value);
        if (node) {
            IG_PUSH(p->ev->job, &p->found, ig_info(graph, value)->node);
            for (uint32_t i = 0; i < node->n_out; i++)
                mark_value(p, node->out + i);
        } else {
            mark_value(p, value);
        }
    }
    uint32_t slot = slot_of(p->walk, value);
    IG_ASSERT(p->ev->job, slot < p->uses.count);
    p->uses.at[slot]++;
}

static int compare_ids(const void *a, const void *b) {
    ig_node_id x = *(const ig_node_id *)a, y = *(const ig_node_id *)b;
    return (x > y) - (x < y);
}

void ig_walk_plan(struct ig_eval *ev, struct ig_walk *walk, struct ig_graph *graph, const ig_value *wanted,
                  uint32_t n_wanted) {
    struct planner p = {.ev = ev, .walk = walk};
    *walk = (struct ig_walk){.graph = graph, .wanted = wanted, .n_wanted = n_wanted};
    walk->slot_of = ig_const_marks(graph, &walk->generation);
    for (uint32_t i = 0; i < n_wanted; i++)
        need(&p, wanted[i]);
    for (uint32_t next = 0; next < p.found.count; next++) {
        const struct ig_node *node = &graph->nodes.at[p.found.at[next]];
        for (uint32_t i = 0; i < node->n_in; i++) {
            if (node->in[i] != IG_NO_VALUE) need(&p, node->in[i]);
        }
    }
    walk->n_nodes = p.found.count;
    walk->nodes = p.found.at;
    walk->n_slots = p.uses.count;
    walk->uses = p.uses.at;
    if (walk->n_nodes > 0) qsort(walk->nodes, walk->n_nodes, sizeof *walk->nodes, compare_ids);
    walk->remaining = ig_eval_scratch(ev, walk->n_slots, sizeof *walk->remaining);
    walk->views = ig_eval_scratch(ev, walk->n_slots, sizeof *walk->views);
}

static void drop_reader(struct ig_eval *ev, struct ig_walk *walk, ig_value value) {
    uint32_t slot = slot_of(walk, value);
    if (--walk->remaining[slot] == 0) ig_view_drop(ev, &walk->views[slot]);
}

/* Compares the evaluated shape with the inferred one: this detects wrong shape rules. */
static void check_output(struct ig_eval *ev, struct ig_graph *graph, ig_value value, const struct ig_view *view) {
    const struct ig_type *type = ig_type_of(graph, value);
    if (view->dtype != type->dtype || view->rank != type->rank) {
        ig_raise(ev->job, INGOT_INTERNAL, "the value is %s of rank %d, inferred was %s of rank %d",
                 ingot_dtype_name(view->dtype), view->rank, ingot_dtype_name(type->dtype), type->rank);
    }
    for (int i = 0; i < type->rank; i++) {
        if (ig_eval_bind(ev, type->dim[i], view->dims[i])) continue;
        ig_eval_raise(ev, "the result has size %lld along axis %d, expected %lld (%s)", (long long)view->dims[i], i,
                      (long long)ig_eval_dim(ev, type->dim[i]), ig_dim_text(ev->dims, type->dim[i]));
    }
}

/* Stores a node's results, and drops what has no readers any more. */
static void end_node(struct ig_eval *ev, struct ig_walk *walk, const struct ig_node *node, const struct ig_view *out) {
    for (uint32_t i = 0; i < node->n_out; i++) {
        check_output(ev, walk->graph, node->out + i, &out[i]);
        walk->views[slot_of(walk, node->out + i)] = out[i];
    }
    for (uint32_t i = 0; i < node->n_out; i++) { /* drops outputs without readers */
        uint32_t slot = slot_of(walk, node->out + i);
        if (walk->remaining[slot] == 0) ig_view_drop(ev, &walk->views[slot]);
    }
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] != IG_NO_VALUE) drop_reader(ev, walk, node->in[i]);
    }
}

static void run_node(struct ig_eval *ev, struct ig_walk *walk, const struct ig_node *node) {
    uint32_t temporaries = ev->temporaries.count;
    struct ig_view few_in[8], few_out[4], *in = few_in, *out = few_out;
    struct ig_where where = {NULL, "evaluate", node->origin, ig_op_info(node->op)->name};
    ig_where_push(ev->job, &where);
    if (node->n_in > 8) in = ig_eval_scratch(ev, node->n_in, sizeof *in);
    if (node->n_out > 4) out = ig_eval_scratch(ev, node->n_out, sizeof *out);
    for (uint32_t i = 0; i < node->n_in; i++) {
        in[i] = node->in[i] == IG_NO_VALUE ? (struct ig_view){0} : walk->views[slot_of(walk, node->in[i])];
    }
    evaluators[node->op](ev, walk->graph, node, in, out);
    end_node(ev, walk, node, out);
    ig_eval_drop_temporaries(ev, temporaries);
    ig_where_pop(ev->job);
}

void ig_walk_begin(struct ig_eval *ev, struct ig_walk *walk, const struct ig_view *inputs) {
    if (walk->n_slots > 0) memcpy(walk->remaining, walk->uses, walk->n_slots * sizeof *walk->uses);
    for (uint32_t i = 0; i < walk->graph->inputs.count; i++) {
        uint32_t slot = slot_of(walk, walk->graph->inputs.at[i].value);
        if (slot == UINT32_MAX) continue;
        walk->views[slot] = inputs[i];
        ig_view_retain(&inputs[i]);
    }
    walk->next = 0;
}

const struct ig_node *ig_walk_advance(struct ig_eval *ev, struct ig_walk *walk, struct ig_view *out_operand) {
    for (; walk->next < walk->n_nodes; walk->next++) {
        const struct ig_node *node = &walk->graph->nodes.at[walk->nodes[walk->next]];
        if (ig_op_is_collective(node->op)) {
            *out_operand = walk->views[slot_of(walk, node->in[0])];
            return node;
        }
        run_node(ev, walk, node);
    }
    return NULL;
}

void ig_walk_supply(struct ig_eval *ev, struct ig_walk *walk, const struct ig_view *result) {
    end_node(ev, walk, &walk->graph->nodes.at[walk->nodes[walk->next++]], result);
}

void ig_walk_end(struct ig_eval *ev, struct ig_walk *walk, struct ig_view *out) {
    for (uint32_t i = 0; i < walk->n_wanted; i++) {
        out[i] = walk->views[slot_of(walk, walk->wanted[i])];
        ig_view_retain(&out[i]);
    }
    for (uint32_t i = 0; i < walk->n_wanted; i++)
        drop_reader(ev, walk, walk->wanted[i]);
}

void ig_walk_run(struct ig_eval *ev, struct ig_walk *walk, const struct ig_view *inputs, struct ig_view *out) {
    struct ig_view operand;
    ig_walk_begin(ev, walk, inputs);
    const struct ig_node *stopped = ig_walk_advance(ev, walk, &operand);
    if (stopped) run_node(ev, walk, stopped); /* raises */
    ig_walk_end(ev, walk, out);
}
