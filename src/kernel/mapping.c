/* The parts of map regions: see mapping.h. */
#include "kernel/mapping.h"

#include <string.h>

enum { MAX_SHORT = 8 };

static ig_x num(struct ig_mapping *m, int64_t i) {
    return ig_x_index(m->k, i);
}

static ig_x dim(struct ig_mapping *m, ig_dim d) {
    return ig_x_dim(m->k, d);
}

/* ---- Parts ------------------------------------------------------------------------------------------------------- */

static struct ig_part *new_part(struct ig_mapping *m, int capacity) {
    struct ig_part *p = IG_NEW(m->k->job, struct ig_part);
    ig_nest_init(&p->nest, m->k, m->at);
    p->buffer = IG_NEW_ARRAY(m->k->job, int, capacity);
    p->value = IG_NEW_ARRAY(m->k->job, int, capacity);
    p->position = IG_NEW_ARRAY(m->k->job, int, capacity);
    IG_PUSH(m->k->job, &m->parts, p);
    return p;
}

/* Stores a value in `out`, in its type. */
static void add_store(struct ig_mapping *m, struct ig_part *p, ig_value value, const ig_x *index, ig_value out,
                      const ig_x *out_index) {
    ig_x x = ig_lower_value(&m->lower, value, index);
    if (value != out) {
        const struct ig_node *cast = ig_def_op(m->graph, out, IG_OP_cast);
        bool saturates = cast && ig_attr_int(m->graph, cast, IG_ATTR_saturate) != 0;
        x = ig_x_cast(m->k, x, ig_type_of(m->graph, out)->dtype, saturates);
    }
    p->buffer[p->count] = m->lower.buffer_of[out];
    p->value[p->count] = ig_nest_add(&p->nest, x);
    p->position[p->count] = ig_nest_add(&p->nest, ig_lower_linear(&m->lower, ig_type_of(m->graph, out), out_index));
    p->count++;
}

/* The concatenation that `out` is, or is a cast of, if this region computes it; else IG_NO_VALUE. */
static ig_value concat_of(struct ig_mapping *m, ig_value out) {
    if (m->lower.is_input[out]) return IG_NO_VALUE;
    const struct ig_node *cast = ig_def_op(m->graph, out, IG_OP_cast);
    ig_value v = cast ? cast->in[0] : out;
    return !m->lower.is_input[v] && ig_def_op(m->graph, v, IG_OP_concat) ? v : IG_NO_VALUE;
}

/* Each operand of a concatenation is a part of its own, so that no select is needed. It is stored in all outputs that
 * are the concatenation or casts of it. */
static void add_concat(struct ig_mapping *m, ig_value value, bool *done) {
    const struct ig_node concat = *ig_def_op(m->graph, value, IG_OP_concat);
    int64_t axis = ig_attr_int(m->graph, &concat, IG_ATTR_axis);
    ig_dim start = ig_dim_const(m->k->dims, 0);
    for (uint32_t i = 0; i < concat.n_in; i++) {
        const struct ig_type type = *ig_type_of(m->graph, concat.in[i]);
        struct ig_part *p = new_part(m, (int)m->region->outputs.count);
        ig_x index[INGOT_MAX_RANK], to[INGOT_MAX_RANK];
        for (int d = 0; d < type.rank; d++)
            index[d] = to[d] = ig_nest_dim(&p->nest, type.dim[d]);
        to[axis] = ig_x_add(m->k, index[axis], dim(m, start));
        for (uint32_t o = 0; o < m->region->outputs.count; o++) {
            ig_value out = m->region->outputs.at[o];
            if (concat_of(m, out) != value) continue;
            add_store(m, p, concat.in[i], index, out, to);
            done[o] = true;
        }
        start = ig_dim_add(m->k->dims, start, type.dim[axis]);
    }
}

static bool same_dims(const struct ig_type *a, const struct ig_type *b) {
    return a->rank == b->rank && !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim);
}

/* Adds a part with all outputs of one shape, that of the first output not yet done. */
static void add_group(struct ig_mapping *m, uint32_t first, bool *done) {
    const struct ig_type type = *ig_type_of(m->graph, m->region->outputs.at[first]);
    struct ig_part *p = new_part(m, (int)m->region->outputs.count);
    ig_x index[INGOT_MAX_RANK];
    for (int d = 0; d < type.rank; d++)
        index[d] = ig_nest_dim(&p->nest, type.dim[d]);
    for (uint32_t i = first; i < m->region->outputs.count; i++) {
        ig_value out = m->region->outputs.at[i];
        if (done[i] || !same_dims(&type, ig_type_of(m->graph, out))) continue;
        done[i] = true;
        add_store(m, p, out, index, out, index);
    }
}

static void add_outputs(struct ig_mapping *m) {
    uint32_t count = m->region->outputs.count;
    bool *done = IG_NEW_ARRAY(m->k->job, bool, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        ig_value concat = concat_of(m, m->region->outputs.at[i]);
        if (!done[i] && concat != IG_NO_VALUE) add_concat(m, concat, done);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!done[i]) add_group(m, i, done);
    }
}

/* ---- Strides and cost -------------------------------------------------------------------------------------------- */

struct strides {
    struct ig_part *p;
    bool across[IG_NEST_DIMS]; /* some load has stride 1 along this dim, and strides along the last */
    bool along;                /* some load has stride 1 along the last dim */
    bool interleaved;          /* some load varies along the last dim, and has stride 1 along another or -1 there */
    bool entangled;            /* some load varies along the last dim, in no even steps */
};

static void note_strides(void *user, const struct ig_affine *sum, int buffer) {
    struct strides *s = user;
    struct ig_nest *nest = &s->p->nest;
    ig_dim one = ig_dim_const(nest->k->dims, 1), zero = ig_dim_const(nest->k->dims, 0);
    int last = nest->rank - 1;
    if (buffer < 0) return;
    ig_dim step = ig_affine_factor(nest->k, sum, nest->var[last]);
    bool entangled = ig_affine_entangled(nest->k, sum, nest->var[last]), still = step == zero && !entangled;
    s->entangled |= entangled;
    s->interleaved |= step == ig_dim_const(nest->k->dims, -1);
    for (int i = 0; i < last && step != one && !still; i++)
        s->interleaved |= ig_affine_factor(nest->k, sum, nest->var[i]) == one;
    if (step == one) s->along = true;
    if (step == one || step == zero) return;
    for (int i = 0; i < last; i++)
        s->across[i] |= ig_affine_factor(nest->k, sum, nest->var[i]) == one;
}

bool ig_part_is_short(const struct ig_part *p, int d) {
    int64_t n;
    return ig_dim_is_const(p->nest.k->dims, p->nest.extent[d], &n) && n <= MAX_SHORT;
}

/* Short dims need no blocking: all of their lines fit in the cache, and a short last dim is unrolled. */
static void find_transpose(struct ig_part *p) {
    p->transposed = -1;
    if (p->nest.rank < 1) return;
    struct strides s = {.p = p};
    ig_nest_indices(&p->nest, note_strides, &s);
    p->gathers = s.entangled;
    if (p->nest.rank < 2) return;
    p->interleaves = ig_part_is_short(p, p->nest.rank - 1) && s.interleaved;
    if (ig_part_is_short(p, p->nest.rank - 1)) return;
    for (int i = 0; i < p->nest.rank - 1; i++) {
        if (s.across[i] && !ig_part_is_short(p, i)) p->transposed = i;
    }
}

int64_t ig_part_cost(struct ig_part *p) {
    int64_t cost = 0;
    for (int i = 0; i < p->count; i++)
        cost += ig_x_cost(p->nest.k, p->nest.x.at[p->value[i]]);
    return cost + p->count;
}

/* ---- Statements -------------------------------------------------------------------------------------------------- */

void ig_part_store(struct ig_mapping *m, struct ig_part *p, struct ig_stmt *body, const ig_x *vars) {
    for (int i = 0; i < p->count; i++) {
        ig_x at = ig_nest_bind(&p->nest, p->position[i], vars);
        ig_s_store(m->k, body, p->buffer[i], at, ig_nest_bind(&p->nest, p->value[i], vars));
    }
}

void ig_mapping_emit(struct ig_mapping *m, void (*emit)(void *user, uint32_t part, struct ig_stmt *body, ig_x tile),
                     void *user) {
    struct ig_dims *dims = m->k->dims;
    ig_dim total = ig_dim_const(dims, 0);
    for (uint32_t i = 0; i < m->parts.count; i++)
        total = ig_dim_add(dims, total, m->parts.at[i]->tiles);
    m->kernel->tiles = total;
    ig_x tile;
    struct ig_stmt *body = ig_s_for(m->k, NULL, IG_FOR_TILE, num(m, 0), dim(m, total), num(m, 1), &tile);
    ig_s_name(m->k, tile, "tile");
    ig_dim first = ig_dim_const(dims, 0);
    for (uint32_t i = 0; i < m->parts.count; i++) {
        struct ig_part *p = m->parts.at[i];
        ig_dim end = ig_dim_add(dims, first, p->tiles);
        struct ig_stmt *guarded = body;
        if (m->parts.count > 1) {
            ig_x after = ig_x_less(m->k, num(m, -1), ig_x_sub(m->k, tile, dim(m, first)));
            guarded = ig_s_if(m->k, body, ig_x_and(m->k, after, ig_x_less(m->k, tile, dim(m, end))));
        }
        emit(user, i, guarded, ig_x_sub(m->k, tile, dim(m, first)));
        first = end;
    }
}

ig_dim ig_mapping_work(struct ig_mapping *m, int lanes) {
    struct ig_dims *dims = m->k->dims;
    ig_dim work = ig_dim_const(dims, 0);
    for (uint32_t i = 0; i < m->parts.count; i++) {
        struct ig_part *p = m->parts.at[i];
        ig_dim elements = ig_dim_product(dims, p->nest.extent, p->nest.rank);
        work = ig_dim_add(dims, work, ig_dim_mul(dims, elements, ig_dim_const(dims, ig_part_cost(p))));
    }
    return ig_dim_ceil_div(dims, work, ig_dim_const(dims, lanes));
}

void ig_mapping_init(struct ig_mapping *m, struct ig_graph *graph, const struct ig_region *region,
                     const struct ig_sizes *at) {
    *m = (struct ig_mapping){.graph = graph, .region = region, .at = at};
    m->kernel = IG_NEW(graph->job, struct ig_kernel);
    m->k = m->kernel->loops = ig_loops_create(graph->job, graph->dims);
    ig_lower_init(&m->lower, m->k, graph, region);
    add_outputs(m);
    for (uint32_t i = 0; i < m->parts.count; i++) {
        ig_nest_simplify(&m->parts.at[i]->nest);
        find_transpose(m->parts.at[i]);
    }
}
