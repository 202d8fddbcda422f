/* Tables of scores in the order in which threads have them; see pack_tables.h and codegen/cuda/attend/attend_block.cu. */
#include "pass/product/pack_tables.h"

#include <string.h>

#include "ir/attend.h"
#include "ir/build.h"
#include "pass/view/view.h"

/* Of 16 keys: two blocks of eight, of which each of four lanes has two neighbours. */
enum { BLOCKS = 2, LANES = 4, NEIGHBOURS = 2, TOGETHER = BLOCKS * LANES * NEIGHBOURS };
/* Of fewer keys, blocks keep what is added for several heads (kernel/cuda/attend/attend_turns.c); few queries are not divided so. */
enum { LEAST_KEYS = 65, LEAST_QUERIES = 16 };

static int64_t size_of(const struct ig_graph *g, ig_dim dim) {
    int64_t size;
    return ig_dim_is_const(g->dims, dim, &size) ? size : 0;
}

/* Are the two products for tensor cores, and are there so many scores that each thread has several? */
static bool has_fragments(const struct ig_graph *g, const struct ig_attend *a, const struct ig_type *scores) {
    const struct ig_node *product = &g->nodes.at[a->scores];
    enum ingot_dtype dtype = ig_type_of(g, product->in[0])->dtype;
    bool half = dtype == INGOT_F16 || dtype == INGOT_BF16;
    return (half || ig_attr_int(g, product, IG_ATTR_math) == IG_MATH_TF32) &&
           size_of(g, scores->dim[scores->rank - 1]) >= LEAST_KEYS &&
           size_of(g, scores->dim[scores->rank - 2]) >= LEAST_QUERIES;
}

/* Is v a constant of static shape with a number for each query and key? */
static bool is_table(const struct ig_graph *g, ig_value v, const struct ig_type *scores) {
    const struct ig_type *type = ig_type_of(g, v);
    int64_t dims[INGOT_MAX_RANK];
    if (!ig_info(g, v)->is_const || type->rank < 2 || !ig_type_is_static(g->dims, type, dims)) return false;
    return memcmp(&type->dim[type->rank - 2], &scores->dim[scores->rank - 2], 2 * sizeof *type->dim) == 0;
}

bool *ig_find_tables(struct ig_graph *g) {
    bool *tables = IG_NEW_ARRAY(g->job, bool, g->values.count + 1);
    const uint32_t *uses = g->attends ? ig_graph_use_counts(g) : NULL;
    for (ig_node_id id = 0; uses && id < g->nodes.count; id++) {
        struct ig_attend a;
        if (g->nodes.at[id].op != IG_OP_matmul || !ig_attend_match(g, uses, id, &a)) continue;
        const struct ig_type *scores = ig_type_of(g, a.changed);
        if (!has_fragments(g, &a, scores)) continue;
        for (uint32_t i = 0; i < a.nodes.count; i++) {
            const struct ig_node *n = &g->nodes.at[a.nodes.at[i]];
            if (!ig_op_info(n->op)->is_map && n->op != IG_OP_where) continue;
            for (uint32_t j = 0; j < n->n_in; j++) {
                if (n->in[j] != IG_NO_VALUE && is_table(g, n->in[j], scores)) tables[n->in[j]] = true;
            }
        }
    }
    return tables;
}

/* The cast of v if v is a half that is widened, else NULL. */
static const struct ig_node *widening_of(const struct ig_graph *g, ig_value v) {
    const struct ig_node *n = ig_type_of(g, v)->dtype == INGOT_F32 ? ig_def_op(g, v, IG_OP_cast) : NULL;
    enum ingot_dtype from = n ? ig_type_of(g, n->in[0])->dtype : INGOT_F32;
    return from == INGOT_F16 || from == INGOT_BF16 ? n : NULL;
}

ig_value ig_pack_table(struct ig_graph *g, ig_value table) {
    const struct ig_node *widening = widening_of(g, table);
    const ig_value stored = widening ? widening->in[0] : table;
    const struct ig_type type = *ig_type_of(g, stored);
    const int last = type.rank - 1;
    const int64_t queries = size_of(g, type.dim[last - 1]), keys = size_of(g, type.dim[last]);
    const int64_t groups = (keys + TOGETHER - 1) / TOGETHER;
    const int64_t heads = size_of(g, ig_dim_product(g->dims, type.dim, last - 1));
    ig_value v = ig_build_pad_end(g, stored, last, groups * TOGETHER - keys);
    const ig_dim *padded = ig_type_of(g, v)->dim;
    ig_dim whole[INGOT_MAX_RANK];
    memcpy(whole, padded, (size_t)type.rank * sizeof *whole);
    v = ig_view_reshape_to(g, v, (int64_t[]){heads, queries, groups, BLOCKS, LANES, NEIGHBOURS}, 6);
    v = ig_build_transpose(g, v, (int64_t[]){0, 1, 2, 4, 3, 5}); /* what is stored */
    v = ig_build_transpose(g, v, (int64_t[]){0, 1, 2, 4, 3, 5});
    v = ig_build_reshape(g, v, whole, type.rank);
    v = ig_build_slice_axis(g, v, last, ig_dim_const(g->dims, 0), type.dim[last], 1);
    return widening ? ig_build_cast(g, v, INGOT_F32) : v;
}

bool ig_is_packed_table(const struct ig_graph *g, ig_value v) {
    const struct ig_node *n = widening_of(g, v);
    if (!ig_info(g, v)->is_const) return false;
    if (n) v = n->in[0];
    if ((n = ig_def_op(g, v, IG_OP_slice))) v = n->in[0];
    if ((n = ig_def_op(g, v, IG_OP_reshape))) v = n->in[0];
    if (!(n = ig_def_op(g, v, IG_OP_transpose)) || !ig_def_op(g, n->in[0], IG_OP_transpose)) return false;
    const struct ig_type *type = ig_type_of(g, v);
    return type->rank == 6 && size_of(g, type->dim[3]) == BLOCKS && size_of(g, type->dim[4]) == LANES &&
           size_of(g, type->dim[5]) == NEIGHBOURS;
}
