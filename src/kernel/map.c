/*
 * The map family: elementwise trees and views, one loop nest for each group of outputs of one shape, or for each part of
 * a concatenation. Tiles are runs of some 8192 elements. Where a tensor is read across its memory order (a transpose),
 * the two innermost dims of both sides are walked in blocks, so that each cache line is used whole while it is near.
 */
#include <string.h>

#include "kernel/kernel.h"
#include "kernel/lower.h"
#include "kernel/nest.h"

enum {
    TILE_ELEMENTS = 8192, /* of simple work: some microseconds */
    LANES = 16,
    MAX_UNROLL = 8,    /* an innermost dim up to this size is unrolled inside the next one's vector loop */
    BLOCK_ACROSS = 16, /* a cache line of float32 on the side that is read across */
    BLOCK_ALONG = 64,
};

/* One nest: stores values[i] to buffers[i] at positions[i], all in nest.x. */
struct part {
    struct ig_nest nest;
    int count;
    int *buffer, *value, *position; /* in nest.x */
    int transposed;                 /* the dim that reads step by 1 while the last one strides; -1: none */
    int split;                      /* the dim that is cut into chunks for tiles */
    int64_t chunk;                  /* 0: not cut */
    ig_dim tiles;
};

struct mapper {
    struct ig_graph *graph;
    const struct ig_region *region;
    struct ig_kernel *kernel;
    struct ig_loops *k;
    struct ig_lower lower;
    IG_VEC(struct part *) parts;
};

static ig_x num(struct mapper *m, int64_t i) {
    return ig_x_index(m->k, i);
}

static ig_x dim(struct mapper *m, ig_dim d) {
    return ig_x_dim(m->k, d);
}

/* ---- What is computed ------------------------------------------------------------------------------------------------- */

static struct part *new_part(struct mapper *m, int capacity) {
    struct part *p = IG_NEW(m->k->job, struct part);
    ig_nest_init(&p->nest, m->k);
    p->buffer = IG_NEW_ARRAY(m->k->job, int, capacity);
    p->value = IG_NEW_ARRAY(m->k->job, int, capacity);
    p->position = IG_NEW_ARRAY(m->k->job, int, capacity);
    IG_PUSH(m->k->job, &m->parts, p);
    return p;
}

static void add_store(struct mapper *m, struct part *p, ig_value value, const ig_x *index, ig_value out,
                      const ig_x *out_index) {
    p->buffer[p->count] = m->lower.buffer_of[out];
    p->value[p->count] = ig_nest_add(&p->nest, ig_lower_value(&m->lower, value, index));
    p->position[p->count] = ig_nest_add(&p->nest, ig_lower_linear(&m->lower, ig_type_of(m->graph, out), out_index));
    p->count++;
}

/* Each part of a concatenation is stored by itself, so that nothing is selected. */
static void add_concat(struct mapper *m, ig_value out, const struct ig_node *concat) {
    int64_t axis = ig_attr_int(m->graph, concat, IG_ATTR_axis);
    ig_dim start = ig_dim_const(m->k->dims, 0);
    for (uint32_t i = 0; i < concat->n_in; i++) {
        const struct ig_type type = *ig_type_of(m->graph, concat->in[i]);
        struct part *p = new_part(m, 1);
        ig_x index[INGOT_MAX_RANK], to[INGOT_MAX_RANK];
        for (int d = 0; d < type.rank; d++)
            index[d] = to[d] = ig_nest_dim(&p->nest, type.dim[d]);
        to[axis] = ig_x_add(m->k, index[axis], dim(m, start));
        add_store(m, p, concat->in[i], index, out, to);
        start = ig_dim_add(m->k->dims, start, type.dim[axis]);
    }
}

static bool same_dims(const struct ig_type *a, const struct ig_type *b) {
    return a->rank == b->rank && !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim);
}

/* All outputs of one shape, beginning with the first that is not done. */
static void add_group(struct mapper *m, uint32_t first, bool *done) {
    const struct ig_type type = *ig_type_of(m->graph, m->region->outputs.at[first]);
    struct part *p = new_part(m, (int)m->region->outputs.count);
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

static void add_outputs(struct mapper *m) {
    uint32_t count = m->region->outputs.count;
    bool *done = IG_NEW_ARRAY(m->k->job, bool, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        ig_value out = m->region->outputs.at[i];
        const struct ig_node *concat = ig_def_op(m->graph, out, IG_OP_concat);
        if (!concat || m->lower.is_input[out]) continue;
        const struct ig_node copy = *concat;
        add_concat(m, out, &copy);
        done[i] = true;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!done[i]) add_group(m, i, done);
    }
}

/* ---- How ---------------------------------------------------------------------------------------------------------------- */

struct strides {
    struct part *p;
    bool across[IG_NEST_DIMS]; /* some load steps by 1 along this dim, and by more along the last */
    bool along;                /* some load steps by 1 along the last */
};

static void note_strides(void *user, const struct ig_affine *sum, bool is_load) {
    struct strides *s = user;
    struct ig_nest *nest = &s->p->nest;
    ig_dim one = ig_dim_const(nest->k->dims, 1), zero = ig_dim_const(nest->k->dims, 0);
    int last = nest->rank - 1;
    if (!is_load) return;
    ig_dim step = ig_affine_factor(nest->k, sum, nest->var[last]);
    if (step == one) s->along = true;
    if (step == one || step == zero) return;
    for (int i = 0; i < last; i++)
        s->across[i] |= ig_affine_factor(nest->k, sum, nest->var[i]) == one;
}

static bool is_short(const struct ig_nest *nest, int d) {
    int64_t n;
    return ig_dim_is_const(nest->k->dims, nest->extent[d], &n) && n <= MAX_UNROLL;
}

/* Short dims (three colours, two halves) need no blocks: all of their lines fit, and a short last one is unrolled. */
static void find_transpose(struct part *p) {
    p->transposed = -1;
    if (p->nest.rank < 2 || is_short(&p->nest, p->nest.rank - 1)) return;
    struct strides s = {.p = p};
    ig_nest_indices(&p->nest, note_strides, &s);
    for (int i = 0; i < p->nest.rank - 1; i++) {
        if (s.across[i] && !is_short(&p->nest, i)) p->transposed = i;
    }
}

static int64_t part_cost(struct part *p) {
    int64_t cost = 0;
    for (int i = 0; i < p->count; i++)
        cost += ig_x_cost(p->nest.k, p->nest.x.at[p->value[i]]);
    return cost + p->count;
}

/* Cuts the nest so that the dims inside the cut have about TILE_ELEMENTS; the dims before it count tiles. */
static void choose_tiles(struct part *p) {
    struct ig_dims *dims = p->nest.k->dims;
    int64_t volume = 1, target = TILE_ELEMENTS * 8 / (8 + part_cost(p));
    p->tiles = ig_dim_const(dims, 1);
    p->split = p->nest.rank - 1;
    while (p->split > 0 && volume * ig_nest_guess(&p->nest, p->split) <= target)
        volume *= ig_nest_guess(&p->nest, p->split--);
    for (int i = 0; i < p->split; i++)
        p->tiles = ig_dim_mul(dims, p->tiles, p->nest.extent[i]);
    if (p->split < 0) return;
    p->chunk = target / (volume > 0 ? volume : 1);
    if (p->split == p->nest.rank - 1) p->chunk = (p->chunk + 63) / 64 * 64;
    if (p->chunk < 1) p->chunk = 1;
    int64_t n;
    if (ig_dim_is_const(dims, p->nest.extent[p->split], &n)) {
        int64_t chunks = (n + p->chunk - 1) / p->chunk;
        if (chunks <= 1) {
            p->chunk = 0;
            return;
        }
        /* Chunks of equal size. */
        p->chunk = (n + chunks - 1) / chunks;
        if (p->split == p->nest.rank - 1) p->chunk = (p->chunk + LANES - 1) / LANES * LANES;
    }
    p->tiles =
        ig_dim_mul(dims, p->tiles, ig_dim_ceil_div(dims, p->nest.extent[p->split], ig_dim_const(dims, p->chunk)));
}

/* Tiles of a transpose: a block of rows of the dim read across, times the whole last dim. */
static void choose_blocks(struct part *p) {
    struct ig_dims *dims = p->nest.k->dims;
    p->chunk = BLOCK_ACROSS;
    p->tiles = ig_dim_ceil_div(dims, p->nest.extent[p->transposed], ig_dim_const(dims, p->chunk));
    for (int i = 0; i < p->nest.rank - 1; i++) {
        if (i != p->transposed) p->tiles = ig_dim_mul(dims, p->tiles, p->nest.extent[i]);
    }
}

/* ---- Loops -------------------------------------------------------------------------------------------------------------- */

static void emit_stores(struct mapper *m, struct part *p, struct ig_stmt *body, const ig_x *vars) {
    for (int i = 0; i < p->count; i++) {
        ig_x at = ig_nest_bind(&p->nest, p->position[i], vars);
        ig_s_store(m->k, body, p->buffer[i], at, ig_nest_bind(&p->nest, p->value[i], vars));
    }
}

/* From a tile's number to the positions along the dims before `count`, the innermost of them changing fastest. `skip`
 * is left out. */
static void split_tile(struct mapper *m, struct part *p, ig_x tile, int count, int skip, ig_x *vars) {
    int first = skip == 0 ? 1 : 0;
    for (int i = count - 1; i > first; i--) {
        if (i == skip) continue;
        vars[i] = ig_x_mod(m->k, tile, dim(m, p->nest.extent[i]));
        tile = ig_x_div(m->k, tile, dim(m, p->nest.extent[i]));
    }
    if (first < count) vars[first] = tile; /* what is left */
}

/* The range of a chunk. */
static struct ig_stmt *chunk_loop(struct mapper *m, struct part *p, struct ig_stmt *body, enum ig_for_kind kind,
                                  ig_x number, int d, ig_x *out_var) {
    ig_x lo = ig_x_mul(m->k, number, num(m, p->chunk));
    ig_x hi = ig_x_min(m->k, ig_x_add(m->k, lo, num(m, p->chunk)), dim(m, p->nest.extent[d]));
    return ig_s_for(m->k, body, kind, lo, hi, num(m, 1), out_var);
}

/* The vector loop over dim d, with a short dim after it unrolled. */
static void emit_innermost(struct mapper *m, struct part *p, struct ig_stmt *body, int unrolled, ig_x *vars) {
    if (unrolled == 0) {
        emit_stores(m, p, body, vars);
        return;
    }
    for (int64_t i = 0; i < unrolled; i++) {
        vars[p->nest.rank - 1] = num(m, i);
        emit_stores(m, p, body, vars);
    }
}

static void emit_plain(struct mapper *m, struct part *p, struct ig_stmt *body, ig_x tile) {
    struct ig_nest *nest = &p->nest;
    ig_x vars[IG_NEST_DIMS], chunk = num(m, 0);
    int64_t last = 0;
    int unrolled = 0;
    if (nest->rank > 1 && p->split < nest->rank - 1 && is_short(nest, nest->rank - 1)) {
        ig_dim_is_const(m->k->dims, nest->extent[nest->rank - 1], &last);
        unrolled = (int)last;
    }
    if (p->chunk) {
        ig_dim chunks = ig_dim_ceil_div(m->k->dims, nest->extent[p->split], ig_dim_const(m->k->dims, p->chunk));
        chunk = ig_x_mod(m->k, tile, dim(m, chunks));
        tile = ig_x_div(m->k, tile, dim(m, chunks));
    }
    split_tile(m, p, tile, p->split, -1, vars);
    for (int d = p->split < 0 ? 0 : p->split; d < nest->rank - (unrolled > 0); d++) {
        bool innermost = d == nest->rank - 1 - (unrolled > 0);
        enum ig_for_kind kind = innermost ? IG_FOR_SIMD : IG_FOR_SERIAL;
        if (d == p->split && p->chunk) {
            body = chunk_loop(m, p, body, kind, chunk, d, &vars[d]);
        } else {
            body = ig_s_for(m->k, body, kind, num(m, 0), dim(m, nest->extent[d]), num(m, 1), &vars[d]);
        }
    }
    emit_innermost(m, p, body, unrolled, vars);
}

static void emit_transposed(struct mapper *m, struct part *p, struct ig_stmt *body, ig_x tile) {
    struct ig_nest *nest = &p->nest;
    int last = nest->rank - 1;
    ig_x vars[IG_NEST_DIMS], block;
    ig_dim blocks = ig_dim_ceil_div(m->k->dims, nest->extent[p->transposed], ig_dim_const(m->k->dims, p->chunk));
    ig_x number = ig_x_mod(m->k, tile, dim(m, blocks));
    split_tile(m, p, ig_x_div(m->k, tile, dim(m, blocks)), last, p->transposed, vars);
    ig_x n = dim(m, nest->extent[last]);
    body = ig_s_for(m->k, body, IG_FOR_SERIAL, num(m, 0), n, num(m, BLOCK_ALONG), &block);
    ig_x end = ig_x_min(m->k, ig_x_add(m->k, block, num(m, BLOCK_ALONG)), n);
    body = chunk_loop(m, p, body, IG_FOR_SERIAL, number, p->transposed, &vars[p->transposed]);
    body = ig_s_for(m->k, body, IG_FOR_SIMD, block, end, num(m, 1), &vars[last]);
    emit_stores(m, p, body, vars);
}

static void emit_part(struct mapper *m, struct part *p, struct ig_stmt *body, ig_x tile) {
    if (p->transposed >= 0) {
        emit_transposed(m, p, body, tile);
    } else {
        emit_plain(m, p, body, tile);
    }
}

static void emit_all(struct mapper *m) {
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
        struct part *p = m->parts.at[i];
        ig_dim end = ig_dim_add(dims, first, p->tiles);
        struct ig_stmt *guarded = body;
        if (m->parts.count > 1) {
            ig_x after = ig_x_less(m->k, num(m, -1), ig_x_sub(m->k, tile, dim(m, first)));
            guarded = ig_s_if(m->k, body, ig_x_and(m->k, after, ig_x_less(m->k, tile, dim(m, end))));
        }
        emit_part(m, p, guarded, ig_x_sub(m->k, tile, dim(m, first)));
        first = end;
    }
}

/* ---- The kernel ---------------------------------------------------------------------------------------------------------- */

static ig_dim work_of(struct mapper *m) {
    struct ig_dims *dims = m->k->dims;
    ig_dim work = ig_dim_const(dims, 0);
    for (uint32_t i = 0; i < m->parts.count; i++) {
        struct part *p = m->parts.at[i];
        ig_dim elements = ig_dim_product(dims, p->nest.extent, p->nest.rank);
        work = ig_dim_add(dims, work, ig_dim_mul(dims, elements, ig_dim_const(dims, part_cost(p))));
    }
    return ig_dim_ceil_div(dims, work, ig_dim_const(dims, LANES));
}

static const char *tactic_of(struct mapper *m) {
    struct part *p = m->parts.count > 0 ? m->parts.at[0] : NULL;
    if (!p) return "map of nothing";
    const char *parts = m->parts.count > 1 ? ig_format(m->k->job, ", %u parts", m->parts.count) : "";
    if (p->transposed >= 0) {
        return ig_format(m->k->job, "map, blocks of %d x %d across%s", BLOCK_ACROSS, BLOCK_ALONG, parts);
    }
    return ig_format(m->k->job, "map, %d loop%s%s", p->nest.rank, p->nest.rank == 1 ? "" : "s", parts);
}

struct ig_kernel *ig_kernel_map(struct ig_graph *graph, const struct ig_region *region,
                                const struct ig_target *target) {
    (void)target;
    struct mapper m = {.graph = graph, .region = region, .kernel = IG_NEW(graph->job, struct ig_kernel)};
    m.k = m.kernel->loops = ig_loops_create(graph->job, graph->dims);
    ig_lower_init(&m.lower, m.k, graph, region);
    add_outputs(&m);
    for (uint32_t i = 0; i < m.parts.count; i++) {
        struct part *p = m.parts.at[i];
        ig_nest_simplify(&p->nest);
        find_transpose(p);
        if (p->transposed >= 0) {
            choose_blocks(p);
        } else {
            choose_tiles(p);
        }
    }
    emit_all(&m);
    m.kernel->tactic = tactic_of(&m);
    m.kernel->work = work_of(&m);
    return m.kernel;
}
