/* See in_place.h. */
#include "pass/fuse/in_place.h"

#include "ir/part.h"

struct storing {
    struct ig_graph *g;
    const struct ig_target *target;
    const uint32_t *uses; /* by value */
};

/* By value: how many nodes read its memory. The rounding of a concatenation does not: that is stored beside it. */
static uint32_t *count_memory_readers(const struct storing *f) {
    struct ig_graph *g = f->g;
    uint32_t *readers = IG_NEW_ARRAY(g->job, uint32_t, g->values.count + 1);
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        bool rounds = n->op == IG_OP_cast && ig_def_op(g, n->in[0], IG_OP_concat);
        for (uint32_t i = 0; i < n->n_in && n->op != IG_OP_reshape && !rounds; i++) {
            if (n->in[i] != IG_NO_VALUE) readers[ig_part_base(g, n->in[i])]++;
        }
    }
    for (uint32_t i = 0; i < g->outputs.count; i++)
        readers[ig_part_base(g, g->outputs.at[i].value)]++;
    return readers;
}

/* Is operand i computed by a region of its own anyway, of which nothing else reads it: a product, or a concatenation that is
 * also stored in another type? */
static bool is_stored_apart(const struct storing *f, const struct ig_node *concat, uint32_t i,
                            const uint32_t *readers) {
    ig_value v = ig_part_base(f->g, concat->in[i]);
    const struct ig_node *n = ig_info(f->g, v)->is_const ? NULL : ig_def(f->g, v);
    if (!n || readers[v] != 1) return false;
    return ig_op_info(n->op)->family == IG_FAMILY_CONTRACT || (n->op == IG_OP_concat && f->uses[v] > 1);
}

static bool is_stored_in_place(const struct storing *f, const struct ig_node *n, const uint32_t *readers) {
    struct ig_graph *g = f->g;
    if (ig_info(g, n->out)->is_const || !ig_part_is_row_of_parts(g, n)) return false;
    if (f->uses[n->out] != 1 || readers[n->out] != 1) return false;
    ig_dim before = ig_dim_const(g->dims, 0);
    for (uint32_t i = 0; i < n->n_in; i++) {
        const struct ig_type *type = ig_type_of(g, n->in[i]);
        if (!is_stored_apart(f, n, i, readers) || !ig_part_is_aligned(g, f->target, type->dtype, before)) return false;
        before = ig_dim_add(g->dims, before, ig_type_elements(g->dims, type));
    }
    return true;
}

bool *ig_find_in_place(struct ig_graph *g, const struct ig_target *target, const uint32_t *uses, bool any) {
    const struct storing f = {g, target, uses};
    bool *in_place = IG_NEW_ARRAY(g->job, bool, g->nodes.count + 1);
    if (!any) return in_place;
    const uint32_t *readers = count_memory_readers(&f);
    for (uint32_t i = 0; i < g->outputs.count; i++) {
        ig_value v = ig_part_base(g, g->outputs.at[i].value);
        ig_node_id id = ig_info(g, v)->node;
        if (id != IG_NO_NODE) in_place[id] = is_stored_in_place(&f, &g->nodes.at[id], readers);
    }
    return in_place;
}
