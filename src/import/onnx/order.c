/*
 * The nodes that a graph's outputs need, inputs first. ONNX asks for topological order, but files exist that do not keep
 * it; and what no output needs is neither imported nor refused. A node with subgraphs needs what they capture.
 */
#include "import/onnx/importer.h"

struct order {
    struct ig_onnx *import;
    Onnx__NodeProto **nodes;
    size_t n_nodes;
    struct ig_map producers; /* name -> node */
    IG_VEC(uint32_t) needs;  /* of node i: needs.at[first[i]] … first[i + 1] */
    uint32_t *first;
    uint8_t *state;        /* NEW, OPEN, DONE */
    IG_VEC(uint32_t) done; /* in the order found */
};
enum { NEW, OPEN, DONE };

static void add_producers(struct order *order) {
    ig_map_init(&order->producers, order->import->job);
    for (size_t i = 0; i < order->n_nodes; i++) {
        const Onnx__NodeProto *node = order->nodes[i];
        for (size_t j = 0; j < node->n_output; j++) {
            uint32_t other;
            if (!*node->output[j]) continue;
            if (ig_map_get_name(&order->producers, node->output[j], &other)) {
                ig_raise(order->import->job, INGOT_BAD_MODEL, "value '%s' is defined twice", node->output[j]);
            }
            ig_map_put_name(&order->producers, node->output[j], (uint32_t)i);
        }
    }
}

static void add_need(struct order *order, const char *name) {
    uint32_t producer;
    if (ig_map_get_name(&order->producers, name, &producer)) IG_PUSH(order->import->job, &order->needs, producer);
}

/* Names are unique in a graph and its subgraphs, so that a name from within a body that this graph makes is a capture. The
 * recursion is bounded: ig_onnx_check_nesting went before. */
static void add_needs(struct order *order, const Onnx__NodeProto *node) {
    for (size_t i = 0; i < node->n_input; i++)
        add_need(order, node->input[i]);
    for (size_t i = 0; i < node->n_attribute; i++) {
        const Onnx__GraphProto *body = node->attribute[i]->g;
        if (!body) continue;
        for (size_t j = 0; j < body->n_node; j++)
            add_needs(order, body->node[j]);
        for (size_t j = 0; j < body->n_output; j++) {
            if (body->output[j]->name) add_need(order, body->output[j]->name);
        }
    }
}

/* Depth first from one node, on a stack of our own. */
static void visit(struct order *order, uint32_t root, uint32_t *stack, uint32_t *next) {
    struct ig_job *job = order->import->job;
    uint32_t depth = 0;
    if (order->state[root] == DONE) return;
    order->state[root] = OPEN;
    stack[depth++] = root;
    while (depth) {
        uint32_t node = stack[depth - 1];
        if (next[node] == order->first[node + 1]) {
            order->state[node] = DONE;
            IG_PUSH(job, &order->done, node);
            depth--;
            continue;
        }
        uint32_t need = order->needs.at[next[node]++];
        if (order->state[need] == OPEN) {
            const char *name = order->nodes[need]->name;
            ig_raise(job, INGOT_BAD_MODEL, "the graph has a cycle through node '%s' (%s)", name ? name : "",
                     order->nodes[need]->op_type ? order->nodes[need]->op_type : "");
        }
        if (order->state[need] == NEW) {
            order->state[need] = OPEN;
            stack[depth++] = need;
        }
    }
}

/* The file's own order where it is one. */
static uint32_t *finish(struct order *order) {
    bool sorted = true;
    for (size_t i = 0; i < order->n_nodes && sorted; i++) {
        if (order->state[i] != DONE) continue;
        for (uint32_t j = order->first[i]; j < order->first[i + 1]; j++)
            sorted &= order->needs.at[j] < i;
    }
    if (sorted) {
        order->done.count = 0;
        for (size_t i = 0; i < order->n_nodes; i++) {
            if (order->state[i] == DONE) order->done.at[order->done.count++] = (uint32_t)i;
        }
    }
    return order->done.at;
}

uint32_t *ig_onnx_order(struct ig_onnx *import, Onnx__NodeProto **nodes, size_t n_nodes, char **outputs,
                        size_t n_outputs, uint32_t *out_count) {
    struct ig_job *job = import->job;
    if (n_nodes > IG_ONNX_MAX_NODES) ig_raise(job, INGOT_UNSUPPORTED, "the graph has %zu nodes", n_nodes);
    struct order order = {.import = import, .nodes = nodes, .n_nodes = n_nodes};
    add_producers(&order);
    order.first = IG_NEW_ARRAY(job, uint32_t, n_nodes + 1);
    order.state = IG_NEW_ARRAY(job, uint8_t, n_nodes + 1);
    for (size_t i = 0; i < n_nodes; i++) {
        order.first[i] = order.needs.count;
        add_needs(&order, nodes[i]);
    }
    order.first[n_nodes] = order.needs.count;
    uint32_t *stack = IG_NEW_ARRAY(job, uint32_t, n_nodes + 1);
    uint32_t *next = IG_NEW_ARRAY(job, uint32_t, n_nodes + 1);
    for (size_t i = 0; i < n_nodes; i++)
        next[i] = order.first[i];
    for (size_t i = 0; i < n_outputs; i++) {
        uint32_t producer;
        if (!outputs[i] || !ig_map_get_name(&order.producers, outputs[i], &producer)) continue;
        visit(&order, producer, stack, next);
    }
    uint32_t *result = finish(&order);
    *out_count = order.done.count;
    return result;
}
