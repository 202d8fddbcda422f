/*
 * The verifier: checks every invariant that graph.h states, right after each pass, so that the pass that breaks one is
 * identified. A violation is a defect of Ingot, never of the model.
 */
#include <stdio.h>

#include "ir/infer/infer.h"
#include "ir/part.h"
#include "ir/text/print.h"

struct verifier {
    struct ig_job *job;
    struct ig_graph *graph;
    const char *after;
};

static _Noreturn void fail(const struct verifier *v, ig_node_id id, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static _Noreturn void fail(const struct verifier *v, ig_node_id id, const char *format, ...) {
    char message[512], place[128] = "graph";
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (id != IG_NO_NODE)
        snprintf(place, sizeof place, "node %u (%s)", id, ig_op_info(v->graph->nodes.at[id].op)->name);
    ig_raise(v->job, INGOT_INTERNAL, "the graph is broken after %s: %s: %s", v->after, place, message);
}

/* ---- Nodes */

static void check_order(const struct verifier *v, ig_node_id id, ig_value first_free) {
    const struct ig_node *node = &v->graph->nodes.at[id];
    for (uint32_t i = 0; i < node->n_in; i++) {
        ig_value in = node->in[i];
        if (in == IG_NO_VALUE) continue;
        if (in >= v->graph->values.count) fail(v, id, "input %u does not exist", i);
        if (ig_info(v->graph, in)->node != IG_NO_NODE && in >= first_free) fail(v, id, "input %u is computed later", i);
    }
    if (node->out < first_free || node->out > v->graph->values.count ||
        node->n_out > v->graph->values.count - node->out)
        fail(v, id, "the results lie wrongly");
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (ig_info(v->graph, node->out + i)->node != id) fail(v, id, "result %u belongs to another node", i);
    }
}

struct inference {
    struct ig_graph *graph;
    const struct ig_node *node;
    struct ig_type *types;
};

static void infer(struct ig_job *job, void *argument) {
    struct inference *inference = argument;
    ig_infer_node(inference->graph, inference->node, inference->types);
}

/* Infers the types again. Dims may have another form, since other ranges were known then, but may not differ. */
static void check_types(const struct verifier *v, ig_node_id id) {
    const struct ig_node *node = &v->graph->nodes.at[id];
    struct ig_type *types = IG_NEW_ARRAY(v->job, struct ig_type, node->n_out + 1);
    struct inference inference = {v->graph, node, types};
    struct ingot_error error;
    uint32_t n_assumptions = v->graph->assumptions.count;
    if (node->op == IG_OP_constant) types[0] = *ig_type_of(v->graph, node->out);
    enum ingot_status status = ig_job_run(v->job, infer, &inference, &error);
    v->graph->assumptions.count = n_assumptions; /* verification must add no assumptions */
    if (status == INGOT_OUT_OF_MEMORY) ig_raise_error(v->job, &error);
    if (status != INGOT_OK) fail(v, id, "%s", error.message);
    for (uint32_t i = 0; i < node->n_out; i++) {
        const struct ig_type *type = ig_type_of(v->graph, node->out + i);
        bool same = type->dtype == types[i].dtype && type->rank == types[i].rank;
        for (int j = 0; same && j < type->rank; j++)
            same = ig_dim_equal(v->graph->dims, type->dim[j], types[i].dim[j]) != IG_NO;
        if (!same) fail(v, id, "result %u has another type than is inferred", i);
    }
}

static void check_constness(const struct verifier *v, ig_node_id id) {
    const struct ig_node *node = &v->graph->nodes.at[id];
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (!ig_info(v->graph, node->out + i)->is_const) return;
    }
    if (node->body[0] != NULL) fail(v, id, "control flow is said to be constant");
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] != IG_NO_VALUE && !ig_info(v->graph, node->in[i])->is_const)
            fail(v, id, "it is said to be constant, but input %u is not", i);
    }
}

/* Numbered from 0 in their order: one that a pass drops, copies or moves would make ranks wait for each other for ever. */
static void check_collective(const struct verifier *v, ig_node_id id, int64_t expected) {
    int64_t number = ig_attr_int(v->graph, &v->graph->nodes.at[id], IG_ATTR_number);
    if (number != expected)
        fail(v, id, "it is collective %lld where number %lld was expected: one was dropped, copied or moved",
             (long long)number, (long long)expected);
}

static void check_nodes(const struct verifier *v) {
    ig_value first_free = 0;
    int64_t collectives = 0;
    for (ig_node_id id = 0; id < v->graph->nodes.count; id++) {
        const struct ig_node *node = &v->graph->nodes.at[id];
        if (node->op >= IG_OP_COUNT)
            ig_raise(v->job, INGOT_INTERNAL, "the graph is broken after %s: node %u has no operator", v->after, id);
        check_order(v, id, first_free);
        first_free = node->out + node->n_out;
        for (int b = 0; b < 2; b++) {
            if (node->body[b] != NULL) ig_graph_verify(node->body[b], v->after);
        }
        check_types(v, id);
        check_constness(v, id);
        if (ig_op_is_collective(node->op)) check_collective(v, id, collectives++);
    }
}

/* ---- Ports */

static void check_ports(const struct verifier *v) {
    uint32_t without_node = 0;
    for (uint32_t i = 0; i < v->graph->inputs.count; i++) {
        ig_value value = v->graph->inputs.at[i].value;
        if (value >= v->graph->values.count || ig_info(v->graph, value)->node != IG_NO_NODE)
            fail(v, IG_NO_NODE, "input %u is no input", i);
        for (uint32_t j = 0; j < i; j++) {
            if (v->graph->inputs.at[j].value == value) fail(v, IG_NO_NODE, "inputs %u and %u are the same", i, j);
        }
    }
    for (uint32_t i = 0; i < v->graph->outputs.count; i++) {
        if (v->graph->outputs.at[i].value >= v->graph->values.count) fail(v, IG_NO_NODE, "output %u does not exist", i);
    }
    for (ig_value value = 0; value < v->graph->values.count; value++)
        without_node += ig_info(v->graph, value)->node == IG_NO_NODE;
    if (without_node != v->graph->inputs.count) fail(v, IG_NO_NODE, "some values are neither computed nor inputs");
}

/* ---- Regions: every value that a region reads is constant, an input of the graph, an output of an earlier region, or
 * a reshape or part of one of these. */

static bool is_in_memory(struct ig_graph *graph, const bool *ready, ig_value value) {
    for (;;) {
        const struct ig_node *node = ig_def(graph, value);
        ig_dim begin;
        if (ready[value] || !node || ig_info(graph, value)->is_const) return true;
        if (node->op != IG_OP_reshape && !ig_part_begin(graph, node, &begin)) return false;
        value = node->in[0];
    }
}

static bool contains(const ig_node_id *nodes, uint32_t count, ig_node_id id) {
    for (uint32_t i = 0; i < count; i++) {
        if (nodes[i] == id) return true;
    }
    return false;
}

static void check_region(const struct verifier *v, uint32_t index, bool *ready) {
    const struct ig_region *region = &v->graph->regions.at[index];
    for (uint32_t i = 0; i < region->nodes.count; i++) {
        if (region->nodes.at[i] >= v->graph->nodes.count || (i > 0 && region->nodes.at[i] <= region->nodes.at[i - 1]))
            fail(v, IG_NO_NODE, "the nodes of region %u are out of order", index);
    }
    if (!contains(region->nodes.at, region->nodes.count, region->anchor))
        fail(v, IG_NO_NODE, "region %u does not contain its anchor", index);
    for (uint32_t i = 0; i < region->inputs.count; i++) {
        ig_value input = region->inputs.at[i];
        if (!is_in_memory(v->graph, ready, input))
            fail(v, ig_info(v->graph, input)->node, "region %u reads it before it is there", index);
    }
    for (uint32_t i = 0; i < region->outputs.count; i++) {
        ig_value value = region->outputs.at[i];
        ig_node_id id = ig_info(v->graph, value)->node;
        if (id == IG_NO_NODE || !contains(region->nodes.at, region->nodes.count, id))
            fail(v, IG_NO_NODE, "output %u of region %u is not computed in it", i, index);
        ready[value] = true;
    }
}

/* It runs where the region does, and in place of the next one too. */
static void check_joined(const struct verifier *v, uint32_t index, const bool *ready) {
    const struct ig_region *region = &v->graph->regions.at[index], *joined = region->joined;
    if (!joined) return;
    if (region->family != IG_FAMILY_COLLECTIVE || index + 1 == v->graph->regions.count ||
        joined->anchor != region->anchor)
        fail(v, region->anchor, "region %u is joined with nothing", index);
    for (uint32_t i = 0; i < joined->inputs.count; i++) {
        ig_value input = joined->inputs.at[i];
        if (!is_in_memory(v->graph, ready, input))
            fail(v, ig_info(v->graph, input)->node, "what joins region %u reads it before it is there", index);
    }
    if (joined->pushed && (index == 0 || v->graph->regions.at[index - 1].pushed != joined->pushed))
        fail(v, region->anchor, "what joins region %u waits for rows that nothing pushes", index);
}

/* Its results go to those who wait for them right behind it, and to nobody else. */
static void check_pushed(const struct verifier *v, uint32_t index) {
    const struct ig_region *region = &v->graph->regions.at[index], *next = region + 1;
    if (!region->pushed) return;
    if (index + 1 == v->graph->regions.count || !next->joined || next->joined->pushed != region->pushed ||
        region->outputs.at[0] != v->graph->nodes.at[next->anchor].in[0])
        fail(v, region->anchor, "nothing behind region %u waits for the rows that it pushes", index);
}

static void check_regions(const struct verifier *v) {
    bool *ready = IG_NEW_ARRAY(v->job, bool, v->graph->values.count + 1);
    int64_t collectives = 0;
    for (uint32_t i = 0; i < v->graph->regions.count; i++) {
        check_joined(v, i, ready);
        check_pushed(v, i);
        check_region(v, i, ready);
        if (v->graph->regions.at[i].family == IG_FAMILY_COLLECTIVE)
            check_collective(v, v->graph->regions.at[i].anchor, collectives++);
    }
}

void ig_graph_verify(struct ig_graph *graph, const char *after) {
    struct verifier v = {graph->job, graph, after};
    check_ports(&v);
    check_nodes(&v);
    check_regions(&v);
}
