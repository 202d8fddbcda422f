/*
 * Sorts the nodes that a graph's outputs depend on topologically. ONNX requires topological order, but files exist that
 * violate it; and nodes that no output depends on are neither imported nor refused. A node with subgraphs depends on
 * what they capture.
 */
#include "import/onnx/importer.h"

#include <string.h>

struct order {
    struct ig_onnx *import;
    Onnx__NodeProto **nodes;
    size_t n_nodes;
    struct ig_map producers; /* name -> node */
    IG_VEC(uint32_t) needs;  /* what node i depends on: needs.at[first[i]] … needs.at[first[i + 1] - 1] */
    uint32_t *first;
    uint8_t *state;        /* NEW, OPEN, DONE */
    IG_VEC(uint32_t) done; /* in the order of the search */
};
enum { NEW, OPEN, DONE };

/* The names that a body defines, linked to those of the bodies around it. */
struct locals {
    const struct locals *outer;
    struct ig_map names;
};

static bool is_constant(const Onnx__NodeProto *node) {
    return node->op_type && strcmp(node->op_type, "Constant") == 0;
}

/* Names must be unique. But model editors add a second Constant of the same name; runtimes take the last, and so do
 * we. */
static void find_producers(struct order *order) {
    ig_map_init(&order->producers, order->import->job);
    for (size_t i = 0; i < order->n_nodes; i++) {
        const Onnx__NodeProto *node = order->nodes[i];
        for (size_t j = 0; j < node->n_output; j++) {
            uint32_t other;
            const char *name = node->output[j];
            if (!*name) continue;
            bool repeated = ig_map_get_name(&order->producers, name, &other);
            if (repeated && !(is_constant(node) && is_constant(order->nodes[other]))) {
                ig_raise(order->import->job, INGOT_BAD_MODEL, "value '%s' is defined twice", name);
            }
            ig_map_put_name(&order->producers, name, (uint32_t)i);
        }
    }
}

static void add_need(struct order *order, const struct locals *locals, const char *name) {
    uint32_t producer;
    for (; locals; locals = locals->outer) {
        if (ig_map_get_name(&locals->names, name, &producer)) return;
    }
    if (ig_map_get_name(&order->producers, name, &producer)) IG_PUSH(order->import->job, &order->needs, producer);
}

static void add_needs(struct order *order, const struct locals *locals, const Onnx__NodeProto *node);

/* Adds what a body captures. The recursion is bounded: ig_onnx_check_nesting has run. */
static void add_body_needs(struct order *order, const struct locals *outer, const Onnx__GraphProto *body) {
    struct locals locals = {.outer = outer};
    ig_map_init(&locals.names, order->import->job);
    for (size_t i = 0; i < body->n_input; i++) {
        if (body->input[i]->name) ig_map_put_name(&locals.names, body->input[i]->name, 1);
    }
    for (size_t i = 0; i < body->n_initializer; i++) {
        if (body->initializer[i]->name) ig_map_put_name(&locals.names, body->initializer[i]->name, 1);
    }
    for (size_t i = 0; i < body->n_node; i++) {
        for (size_t j = 0; j < body->node[i]->n_output; j++)
            ig_map_put_name(&locals.names, body->node[i]->output[j], 1);
    }
    for (size_t i = 0; i < body->n_node; i++)
        add_needs(order, &locals, body->node[i]);
    for (size_t i = 0; i < body->n_output; i++) {
        if (body->output[i]->name) add_need(order, &locals, body->output[i]->name);
    }
}

static void add_needs(struct order *order, const struct locals *locals, const Onnx__NodeProto *node) {
    for (size_t i = 0; i < node->n_input; i++)
        add_need(order, locals, node->input[i]);
    for (size_t i = 0; i < node->n_attribute; i++) {
        if (node->attribute[i]->g) add_body_needs(order, locals, node->attribute[i]->g);
    }
}

static void find_needs(struct order *order) {
    order->first = IG_NEW_ARRAY(order->import->job, uint32_t, order->n_nodes + 1);
    for (size_t i = 0; i < order->n_nodes; i++) {
        order->first[i] = order->needs.count;
        add_needs(order, NULL, order->nodes[i]);
    }
    order->first[order->n_nodes] = order->needs.count;
}

/* Depth-first search from one node, with an explicit stack. */
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

/* Keeps the file's own order if it is topological. */
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
    find_producers(&order);
    find_needs(&order);
    order.state = IG_NEW_ARRAY(job, uint8_t, n_nodes + 1);
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
