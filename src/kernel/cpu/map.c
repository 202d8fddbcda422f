/*
 * The map family: elementwise trees and views, one loop nest per group of outputs of one shape, or per operand of a
 * concatenation. Tiles are runs of some 8192 elements. Where a tensor is read across its memory order (a transpose),
 * the two innermost dims of both sides are blocked, so that each cache line is fully used while it is cached.
 */
#include "kernel/mapping.h"

#include "kernel/schedules.h"

enum {
    TILE_ELEMENTS = 8192, /* of simple work: some microseconds */
    LANES = 16,
    BLOCK_ACROSS = 16, /* a cache line of float32 on the side that is read across */
    BLOCK_ALONG = 64,
};

static ig_x num(struct ig_mapping *m, int64_t i) {
    return ig_x_index(m->k, i);
}

static ig_x dim(struct ig_mapping *m, ig_dim d) {
    return ig_x_dim(m->k, d);
}

/* ---- Choosing tiles ---------------------------------------------------------------------------------------------- */

/* Cuts the nest so that the dims inside the cut have about TILE_ELEMENTS; the dims before it count tiles. */
static void choose_tiles(struct ig_part *p) {
    struct ig_dims *dims = p->nest.k->dims;
    int64_t volume = 1, target = TILE_ELEMENTS * 8 / (8 + ig_part_cost(p));
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
static void choose_blocks(struct ig_part *p) {
    struct ig_dims *dims = p->nest.k->dims;
    p->chunk = BLOCK_ACROSS;
    p->tiles = ig_dim_ceil_div(dims, p->nest.extent[p->transposed], ig_dim_const(dims, p->chunk));
    for (int i = 0; i < p->nest.rank - 1; i++) {
        if (i != p->transposed) p->tiles = ig_dim_mul(dims, p->tiles, p->nest.extent[i]);
    }
}

/* ---- Loops ------------------------------------------------------------------------------------------------------- */

/* Splits a tile's number into the positions along the dims before `count`, the last innermost; `skip` is left out. */
static void split_tile(struct ig_mapping *m, struct ig_part *p, ig_x tile, int count, int skip, ig_x *vars) {
    int first = skip == 0 ? 1 : 0;
    for (int i = count - 1; i > first; i--) {
        if (i == skip) continue;
        vars[i] = ig_x_mod(m->k, tile, dim(m, p->nest.extent[i]));
        tile = ig_x_div(m->k, tile, dim(m, p->nest.extent[i]));
    }
    if (first < count) vars[first] = tile; /* the rest */
}

/* Loops over chunk `number` of dim d. */
static struct ig_stmt *chunk_loop(struct ig_mapping *m, struct ig_part *p, struct ig_stmt *body, enum ig_for_kind kind,
                                  ig_x number, int d, ig_x *out_var) {
    ig_x lo = ig_x_mul(m->k, number, num(m, p->chunk));
    ig_x hi = ig_x_min(m->k, ig_x_add(m->k, lo, num(m, p->chunk)), dim(m, p->nest.extent[d]));
    return ig_s_for(m->k, body, kind, lo, hi, num(m, 1), out_var);
}

/* The stores inside the vector loop, repeated along a short last dim that is `unrolled`. */
static void emit_innermost(struct ig_mapping *m, struct ig_part *p, struct ig_stmt *body, int unrolled, ig_x *vars) {
    if (unrolled == 0) {
        ig_part_store(m, p, body, vars);
        return;
    }
    for (int64_t i = 0; i < unrolled; i++) {
        vars[p->nest.rank - 1] = num(m, i);
        ig_part_store(m, p, body, vars);
    }
}

static void emit_plain(struct ig_mapping *m, struct ig_part *p, struct ig_stmt *body, ig_x tile) {
    struct ig_nest *nest = &p->nest;
    ig_x vars[IG_NEST_DIMS], chunk = num(m, 0);
    int64_t last = 0;
    int unrolled = 0;
    if (nest->rank > 1 && p->split < nest->rank - 1 && ig_part_is_short(p, nest->rank - 1)) {
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

static void emit_transposed(struct ig_mapping *m, struct ig_part *p, struct ig_stmt *body, ig_x tile) {
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
    ig_part_store(m, p, body, vars);
}

static void emit_part(void *user, uint32_t part, struct ig_stmt *body, ig_x tile) {
    struct ig_mapping *m = user;
    struct ig_part *p = m->parts.at[part];
    if (p->transposed >= 0) {
        emit_transposed(m, p, body, tile);
    } else {
        emit_plain(m, p, body, tile);
    }
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

static const char *tactic_of(struct ig_mapping *m) {
    struct ig_part *p = m->parts.count > 0 ? m->parts.at[0] : NULL;
    if (!p) return "map of nothing";
    const char *parts = m->parts.count > 1 ? ig_format(m->k->job, ", %u parts", m->parts.count) : "";
    if (p->transposed >= 0) {
        return ig_format(m->k->job, "map, blocks of %d x %d across%s", BLOCK_ACROSS, BLOCK_ALONG, parts);
    }
    return ig_format(m->k->job, "map, %d loop%s%s", p->nest.rank, p->nest.rank == 1 ? "" : "s", parts);
}

struct ig_kernel *ig_kernel_map(struct ig_graph *graph, const struct ig_region *region, const struct ig_target *target,
                                const struct ig_sizes *at) {
    (void)target;
    struct ig_mapping m;
    ig_mapping_init(&m, graph, region, at);
    for (uint32_t i = 0; i < m.parts.count; i++) {
        if (m.parts.at[i]->transposed >= 0) {
            choose_blocks(m.parts.at[i]);
        } else {
            choose_tiles(m.parts.at[i]);
        }
    }
    ig_mapping_emit(&m, emit_part, &m);
    m.kernel->tactic = tactic_of(&m);
    m.kernel->work = ig_mapping_work(&m, LANES);
    return m.kernel;
}
