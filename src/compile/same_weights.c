/* Classes of equal constants: hash-consing over graphs. See same_weights.h. */
#include "compile/same_weights.h"

#include <string.h>

#include "ir/build_node.h"

void ig_same_weights_init(struct ig_same_weights *same, struct ig_job *job) {
    *same = (struct ig_same_weights){.job = job};
    ig_map_init(&same->classes, job);
}

/* Constants are appended while a plan is built. */
static void follow(struct ig_same_weights *same, const struct ig_graph *graph) {
    const uint32_t count = graph->values.count;
    if (same->graph == graph && count <= same->n_known) return;
    uint32_t *known = IG_NEW_ARRAY(same->job, uint32_t, 2 * (size_t)count + 1);
    if (same->graph == graph) memcpy(known, same->known, same->n_known * sizeof *known);
    same->graph = graph;
    same->known = known;
    same->n_known = 2 * count;
}

/* Recursion is bounded by the longest chain of constant nodes. */
uint32_t ig_same_weights_class(struct ig_same_weights *same, struct ig_graph *graph, ig_value value) {
    follow(same, graph);
    if (same->known[value]) return same->known[value] - 1;
    struct ig_node node = *ig_def(graph, value);
    const ig_value first = node.out;
    ig_value *classes = IG_NEW_ARRAY(same->job, ig_value, node.n_in + 1);
    struct ig_key key;
    uint32_t class;
    for (uint32_t i = 0; i < node.n_in; i++)
        classes[i] = node.in[i] == IG_NO_VALUE ? IG_NO_VALUE : ig_same_weights_class(same, graph, node.in[i]);
    node.in = classes;
    ig_key_make(&key, graph, &node, ig_type_of(graph, first));
    ig_key_add(&key, value - first);
    if (!ig_map_get(&same->classes, key.at, key.count * sizeof *key.at, &class)) {
        class = same->count++;
        ig_map_put(&same->classes, key.at, key.count * sizeof *key.at, class);
    }
    same->known[value] = class + 1;
    return class;
}
