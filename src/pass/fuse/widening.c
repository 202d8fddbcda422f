/* Widened values that no region owns; see widening.h. */
#include "pass/fuse/widening.h"

#include "pass/view/view.h"

static bool widens_half(const struct ig_graph *g, const struct ig_node *n) {
    if (n->op != IG_OP_cast || ig_type_of(g, n->out)->dtype != INGOT_F32) return false;
    enum ingot_dtype from = ig_type_of(g, n->in[0])->dtype;
    return from == INGOT_F16 || from == INGOT_BF16;
}

bool ig_widens_rounded(const struct ig_graph *g, ig_value v) {
    const struct ig_node *widening = ig_info(g, v)->is_const ? ig_def_op(g, v, IG_OP_cast) : NULL;
    const struct ig_node *rounding =
        widening && widens_half(g, widening) ? ig_def_op(g, widening->in[0], IG_OP_cast) : NULL;
    return rounding && ig_type_of(g, rounding->in[0])->dtype == INGOT_F32;
}

/* Is n a step of a dequantisation, given which nodes before it are? */
static bool widens_byte(struct ig_graph *g, const struct ig_node *n, const bool *before) {
    enum ingot_dtype to = ig_type_of(g, n->out)->dtype;
    if ((to != INGOT_F32 && to != INGOT_I32) || ig_info(g, n->out)->is_const) return false;
    if (n->op == IG_OP_cast) {
        enum ingot_dtype from = ig_type_of(g, n->in[0])->dtype;
        return from == INGOT_U8 || from == INGOT_I8;
    }
    if (n->op != IG_OP_add && n->op != IG_OP_sub && n->op != IG_OP_mul) return false;
    ig_value x = n->in[0], constant = n->in[1];
    ig_node_id id = ig_info(g, x)->node;
    return id != IG_NO_NODE && before[id] && ig_same_dims(ig_type_of(g, x), ig_type_of(g, n->out)) &&
           ig_info(g, constant)->is_const && ig_type_is_single(g->dims, ig_type_of(g, constant));
}

/* Does n make numbers of a few integers, such as the positions of tokens? */
static bool converts_few(const struct ig_graph *g, const struct ig_node *n) {
    enum { FEW = 64 };
    const struct ig_type *from = n->op == IG_OP_cast ? ig_type_of(g, n->in[0]) : NULL;
    int64_t elements;
    if (!from || ig_dtype_is_float(from->dtype) || ingot_dtype_size(from->dtype) == 0) return false;
    return ig_dim_usual(g->dims, ig_type_elements(g->dims, from), &elements) && elements <= FEW;
}

bool *ig_find_widening(struct ig_graph *g) {
    const uint32_t count = g->nodes.count;
    bool *widens = IG_NEW_ARRAY(g->job, bool, count + 1), *bytes = IG_NEW_ARRAY(g->job, bool, count + 1);
    bool *result = IG_NEW_ARRAY(g->job, bool, g->values.count + 1); /* by value: of the graph */
    bool *other = IG_NEW_ARRAY(g->job, bool, g->values.count + 1);  /* by value: what is not elementwise reads it */
    for (ig_node_id id = 0; id < count; id++)
        bytes[id] = widens_byte(g, &g->nodes.at[id], bytes);
    for (uint32_t i = 0; i < g->outputs.count; i++)
        result[g->outputs.at[i].value] = true;
    for (ig_node_id id = count; id-- > 0;) {
        const struct ig_node *n = &g->nodes.at[id];
        if (ig_info(g, n->out)->is_const) continue;
        bool read_by_elements = !other[n->out] && !result[n->out];
        widens[id] = widens_half(g, n) || ((bytes[id] || converts_few(g, n)) && read_by_elements);
        enum ig_family family = ig_op_info(n->op)->family;
        bool passes_on = bytes[id] || (family == IG_FAMILY_VIEW && n->op != IG_OP_concat);
        bool element = family == IG_FAMILY_MAP || family == IG_FAMILY_ROW;
        for (uint32_t i = 0; i < n->n_in; i++) {
            bool index = n->op == IG_OP_gather && i == 1; /* it is computed where elements are gathered */
            if (n->in[i] == IG_NO_VALUE || index) continue;
            if (passes_on ? other[n->out] : !element) other[n->in[i]] = true;
        }
    }
    return widens;
}
