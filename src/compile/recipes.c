/* The text of recipes; see recipes.h. */
#include "compile/recipes.h"

#include <string.h>

#include "base/text.h"
#include "ir/build.h"
#include "ir/text/print.h"

struct extraction {
    struct ig_graph *from, *to;
    ig_value *map; /* IG_NO_VALUE: not copied yet */
    bool has_initializer;
};

/* Copies what v needs, depth first; recursion is bounded by the longest chain of constant nodes. */
static ig_value extract(struct extraction *x, ig_value v) {
    if (x->map[v] != IG_NO_VALUE) return x->map[v];
    struct ig_node n = *ig_def(x->from, v);
    ig_value *in = IG_NEW_ARRAY(x->from->job, ig_value, n.n_in + 1);
    const struct ig_data *data = n.op == IG_OP_constant ? ig_attr(x->from, &n, IG_ATTR_data)->data : NULL;
    ig_value first;
    if (data && data->initializer) {
        x->has_initializer = true;
        first = ig_build_input(x->to, data->initializer, ig_type_of(x->from, v));
    } else {
        for (uint32_t i = 0; i < n.n_in; i++)
            in[i] = n.in[i] == IG_NO_VALUE ? IG_NO_VALUE : extract(x, n.in[i]);
        first = ig_build_copy(x->to, x->from, &n, in);
    }
    for (uint32_t o = 0; o < n.n_out; o++)
        x->map[n.out + o] = first + o;
    return x->map[v];
}

const char *ig_recipes_text(struct ig_job *job, const struct ig_built_plan *built) {
    struct ig_text text;
    ig_text_init(&text, job);
    ig_text_add(&text, "");
    for (uint32_t i = 0; i < built->weights.count; i++) {
        const struct ig_weight *w = &built->weights.at[i];
        struct extraction x = {.from = w->graph, .to = ig_graph_create(job, w->graph->dims)};
        x.map = IG_NEW_ARRAY(job, ig_value, w->graph->values.count + 1);
        memset(x.map, 0xff, sizeof *x.map * w->graph->values.count);
        ig_value out = extract(&x, w->value);
        if (!x.has_initializer) continue;
        ig_build_output(x.to, ig_format(job, "weight_%u", i), out);
        ig_graph_print(x.to, IG_PRINT_DATA, &text);
    }
    return text.length ? text.at : "";
}
