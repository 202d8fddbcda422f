/*
 * The map family: elementwise trees and views, one loop nest per group of outputs of one shape, or per operand of a
 * concatenation. Tiles are runs of some 8192 elements. Where a tensor is read across its memory order (a transpose),
 * the two innermost dims of both sides are blocked, so that each cache line is fully used while it is cached.
 */
#include "kernel/kept.h"
#include "kernel/mapping.h"

#include "kernel/schedules.h"

enum {
    TILE_ELEMENTS = 8192, /* of simple work: some microseconds */
    LANES = 16,
    BLOCK_ACROSS = 16, /* a cache line of float32 on the side that is read across */
    BLOCK_ALONG = 64,
    STRETCH = TILE_ELEMENTS / BLOCK_ACROSS, /* of the last dim of a tile of such blocks */
    MOST_JOINED = 1024,                     /* elements of one loop along two dims */
    LEAST_TURNS = 32,                       /* of that loop in a tile, before which it fills arrays */
    MOST_TURNED = 4,                        /* operands that are transposed */
};

static ig_x num(struct ig_mapping *m, int64_t i) {
    return ig_x_index(m->k, i);
}

static ig_x dim(struct ig_mapping *m, ig_dim d) {
    return ig_x_dim(m->k, d);
}

/* ---- Choosing tiles ---------------------------------------------------------------------------------------------- */

/* Cuts the nest so that the dims inside the cut have about `target` elements; the dims before it count tiles. */
static void choose_tiles(struct ig_part *p, int64_t target) {
    struct ig_dims *dims = p->nest.k->dims;
    int64_t volume = 1;
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

/* ---- Groups of channels ------------------------------------------------------------------------------------------ */

/* Elements of the last two dims, if one loop may run along both; else 0. */
static int64_t joined_elements(const struct ig_part *p) {
    int64_t groups, piece;
    int last = p->nest.rank - 1;
    if (last < 2 || !ig_part_is_short(p, last)) return 0;
    if (!ig_dim_is_const(p->nest.k->dims, p->nest.extent[last], &piece)) return 0;
    if (!ig_dim_is_const(p->nest.k->dims, p->nest.extent[last - 1], &groups)) return 0;
    return groups * piece >= LANES && groups * piece <= MOST_JOINED ? groups * piece : 0;
}

enum stepping { EVENLY, UNEVENLY, UNKNOWN };

/* How an index steps across the border of the last two dims. */
static enum stepping stepping_of(const struct ig_nest *nest, const struct ig_affine *sum) {
    ig_x inner = nest->var[nest->rank - 1], outer = nest->var[nest->rank - 2];
    if (ig_affine_entangled(nest->k, sum, inner) || ig_affine_entangled(nest->k, sum, outer)) return UNKNOWN;
    ig_dim within = ig_affine_factor(nest->k, sum, inner), across = ig_affine_factor(nest->k, sum, outer);
    return across == ig_dim_mul(nest->k->dims, within, nest->extent[nest->rank - 1]) ? EVENLY : UNEVENLY;
}

/* Is x the same for all iterations of a tile's outer loops? */
static bool is_still(const struct ig_part *p, ig_x x) {
    for (int d = p->split; d < p->nest.rank - 2; d++) {
        if (ig_x_contains(p->nest.k, x, p->nest.var[d])) return false;
    }
    return true;
}

struct reads {
    const struct ig_part *p;
    bool fits; /* what steps unevenly is read from memory, and the same for all iterations of a tile's outer loops */
};

static void check_read(void *user, const struct ig_affine *sum, int buffer) {
    struct reads *reads = user;
    enum stepping stepping = stepping_of(&reads->p->nest, sum);
    if (stepping == EVENLY) return;
    bool memory = buffer >= 0 && ig_dtype_is_float(reads->p->nest.k->buffers.at[buffer].dtype);
    if (stepping == UNKNOWN || !memory || !is_still(reads->p, ig_affine_x(reads->p->nest.k, sum))) reads->fits = false;
}

static bool stores_evenly(const struct ig_part *p) {
    for (int i = 0; i < p->count; i++) {
        struct ig_affine sum;
        ig_affine_of(p->nest.k, p->nest.x.at[p->position[i]], &sum);
        if (stepping_of(&p->nest, &sum) != EVENLY) return false;
    }
    return true;
}

/* Where channels lie side by side, and something is given for groups of a few of them (their mean, their deviation), one loop
 * runs along all channels, and reads it from arrays that have it for each. */
static bool join_groups(struct ig_part *p, int64_t target) {
    int64_t elements = joined_elements(p);
    if (elements == 0 || !stores_evenly(p)) return false;
    choose_tiles(p, target < LEAST_TURNS * elements ? LEAST_TURNS * elements : target);
    struct reads reads = {.p = p, .fits = p->split < p->nest.rank - 2};
    if (reads.fits) ig_nest_indices(&p->nest, check_read, &reads);
    return reads.fits;
}

static void choose_loops(struct ig_part *p) {
    int64_t target = TILE_ELEMENTS * 8 / (8 + ig_part_cost(p));
    p->joined = join_groups(p, target);
    if (!p->joined) choose_tiles(p, target);
}

static bool has_uneven_read(const struct ig_part *p, ig_x x) {
    struct ig_loops *k = p->nest.k;
    const struct ig_x_node n = k->x.at[x];
    if (n.kind == IG_X_LOAD) {
        struct ig_affine sum;
        ig_affine_of(k, n.args[0], &sum);
        return stepping_of(&p->nest, &sum) != EVENLY;
    }
    for (int i = 0; i < 3; i++) {
        if (n.args[i] != IG_NO_X && has_uneven_read(p, n.args[i])) return true;
    }
    return false;
}

static bool is_kept(const void *user, ig_x x) {
    const struct ig_part *p = user;
    return is_still(p, x) && has_uneven_read(p, x);
}

/* How many stretches of the last dim a transpose has tiles of. */
static ig_dim stretches_of(const struct ig_part *p) {
    struct ig_dims *dims = p->nest.k->dims;
    return ig_dim_ceil_div(dims, p->nest.extent[p->nest.rank - 1], ig_dim_const(dims, STRETCH));
}

/* Tiles of a transpose: a block of rows of the dim read across, times a stretch of the last dim. */
static void choose_blocks(struct ig_part *p) {
    struct ig_dims *dims = p->nest.k->dims;
    p->chunk = BLOCK_ACROSS;
    p->tiles = ig_dim_ceil_div(dims, p->nest.extent[p->transposed], ig_dim_const(dims, p->chunk));
    p->tiles = ig_dim_mul(dims, p->tiles, stretches_of(p));
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

/* The loop along the last two dims. */
static struct ig_stmt *joined_loop(struct ig_mapping *m, struct ig_part *p, struct ig_stmt *body, ig_x *vars,
                                   ig_x *out_lane) {
    int last = p->nest.rank - 1;
    ig_x piece = dim(m, p->nest.extent[last]);
    body = ig_s_for(m->k, body, IG_FOR_SIMD, num(m, 0), num(m, joined_elements(p)), num(m, 1), out_lane);
    vars[last - 1] = ig_x_div(m->k, *out_lane, piece);
    vars[last] = ig_x_mod(m->k, *out_lane, piece);
    return body;
}

/* Keeps what the tile reads for groups, and lets the part read it there. */
static void emit_kept(struct ig_mapping *m, struct ig_part *p, struct ig_stmt *body, ig_x *vars, struct ig_kept *kept) {
    struct ig_nest *nest = &p->nest;
    ig_x lane;
    *kept = (struct ig_kept){.k = m->k, .lanes = joined_elements(p), .wanted = is_kept, .user = p};
    for (int i = 0; i < p->count; i++)
        ig_kept_add(kept, nest->x.at[p->value[i]]);
    for (int d = p->split; d < nest->rank; d++)
        vars[d] = num(m, 0);
    body = joined_loop(m, p, body, vars, &lane);
    for (uint32_t i = 0; i < kept->values.count; i++) {
        ig_x value = ig_x_substitute(m->k, kept->values.at[i].value, nest->var, vars, nest->rank);
        ig_s_store(m->k, body, kept->values.at[i].array, lane, value);
    }
}

static void emit_joined(struct ig_mapping *m, struct ig_part *p, struct ig_stmt *body, ig_x *vars,
                        const struct ig_kept *kept) {
    ig_x lane;
    body = joined_loop(m, p, body, vars, &lane);
    for (int i = 0; i < p->count; i++)
        p->nest.x.at[p->value[i]] = ig_kept_read(kept, p->nest.x.at[p->value[i]], lane);
    ig_part_store(m, p, body, vars);
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
    struct ig_kept kept;
    if (p->joined) emit_kept(m, p, body, vars, &kept);
    int loops = nest->rank - (p->joined ? 2 : unrolled > 0);
    for (int d = p->split < 0 ? 0 : p->split; d < loops; d++) {
        bool innermost = d == loops - 1 && !p->joined;
        enum ig_for_kind kind = innermost ? IG_FOR_SIMD : IG_FOR_SERIAL;
        if (d == p->split && p->chunk) {
            body = chunk_loop(m, p, body, kind, chunk, d, &vars[d]);
        } else {
            body = ig_s_for(m->k, body, kind, num(m, 0), dim(m, nest->extent[d]), num(m, 1), &vars[d]);
        }
    }
    if (p->joined) {
        emit_joined(m, p, body, vars, &kept);
    } else {
        emit_innermost(m, p, body, unrolled, vars);
    }
}

/* ---- Transposes -------------------------------------------------------------------------------------------------- */

/* Operands that are read across their lines: blocks of them are turned in registers, into local arrays. */
struct turned {
    struct ig_mapping *m;
    struct ig_part *p;
    int count;
    ig_x load[MOST_TURNED];
    ig_dim stride[MOST_TURNED]; /* between the lines */
    int array[MOST_TURNED];
};

static bool is_turned(const struct turned *t, ig_x x) {
    for (int i = 0; i < t->count; i++) {
        if (t->load[i] == x) return true;
    }
    return false;
}

/* Is the load one of words, from another line for each position along the last dim, and side by side along the other? */
static bool reads_across(const struct turned *t, const struct ig_x_node *load, ig_dim *out_stride) {
    struct ig_loops *k = t->m->k;
    const struct ig_buffer *b = &k->buffers.at[load->i];
    const struct ig_nest *nest = &t->p->nest;
    ig_x last = nest->var[nest->rank - 1], across = nest->var[t->p->transposed];
    struct ig_affine sum;
    bool words = b->dtype == INGOT_F32 || b->dtype == INGOT_F64 || b->dtype == INGOT_I32 || b->dtype == INGOT_I64;
    if (!words || b->kind != IG_BUFFER_PARAM || b->written || b->nothing != IG_NO_X) return false;
    ig_affine_of(k, load->args[0], &sum);
    if (ig_affine_entangled(k, &sum, last) || ig_affine_entangled(k, &sum, across)) return false;
    *out_stride = ig_affine_factor(k, &sum, last);
    return ig_affine_factor(k, &sum, across) == ig_dim_const(k->dims, 1) && *out_stride != ig_dim_const(k->dims, 0) &&
           *out_stride != ig_dim_const(k->dims, 1);
}

static void find_turned(struct turned *t, ig_x x) {
    struct ig_loops *k = t->m->k;
    const struct ig_x_node n = k->x.at[x];
    ig_dim stride;
    if (n.kind == IG_X_LOAD && t->count < MOST_TURNED && !is_turned(t, x) && reads_across(t, &n, &stride)) {
        t->load[t->count] = x;
        t->stride[t->count] = stride;
        const char *name = ig_format(k->job, "turned%u", k->buffers.count);
        t->array[t->count++] = ig_loops_local(k, n.dtype, BLOCK_ACROSS * BLOCK_ALONG, name);
        return;
    }
    for (int i = 0; i < 3; i++) {
        if (n.args[i] != IG_NO_X) find_turned(t, n.args[i]);
    }
}

static const char *turn_micro(struct ig_mapping *m, enum ingot_dtype dtype) {
    for (uint32_t i = 0; i < m->kernel->micros.count; i++) {
        if (m->kernel->micros.at[i].dtype == dtype) return m->kernel->micros.at[i].name;
    }
    const char *name = ig_format(m->k->job, "turn_%s", ingot_dtype_name(dtype));
    struct ig_micro micro = {
        .kind = IG_MICRO_PACK, .name = name, .dtype = dtype, .half = INGOT_DTYPE_NONE, .nr = BLOCK_ALONG};
    IG_PUSH(m->k->job, &m->kernel->micros, micro);
    return name;
}

/* Turns a block of each operand, from these positions on and up to these, and lets the part read it there. */
static void emit_turned(struct turned *t, struct ig_stmt *body, ig_x *vars, ig_x first, ig_x end, ig_x block,
                        ig_x block_end) {
    struct ig_mapping *m = t->m;
    struct ig_nest *nest = &t->p->nest;
    int across = t->p->transposed, last = nest->rank - 1;
    ig_x to[MOST_TURNED], row = ig_x_sub(m->k, nest->var[across], first);
    ig_x at = ig_x_add(m->k, ig_x_mul(m->k, row, num(m, BLOCK_ALONG)), ig_x_sub(m->k, nest->var[last], block));
    vars[across] = first;
    vars[last] = block;
    for (int i = 0; i < t->count; i++) {
        const struct ig_x_node load = m->k->x.at[t->load[i]];
        ig_x from = ig_x_substitute(m->k, load.args[0], nest->var, vars, nest->rank);
        struct ig_call_arg args[] = {{(int)load.i, from},
                                     {-1, dim(m, t->stride[i])},
                                     {t->array[i], num(m, 0)},
                                     {-1, ig_x_sub(m->k, end, first)},
                                     {-1, ig_x_sub(m->k, block_end, block)}};
        ig_s_call(m->k, body, turn_micro(m, load.dtype), args, 5);
        to[i] = ig_x_load(m->k, t->array[i], at);
    }
    for (uint32_t i = 0; i < nest->x.count && t->count > 0; i++)
        nest->x.at[i] = ig_x_substitute(m->k, nest->x.at[i], t->load, to, t->count);
}

static void emit_transposed(struct ig_mapping *m, struct ig_part *p, struct ig_stmt *body, ig_x tile) {
    struct ig_nest *nest = &p->nest;
    int last = nest->rank - 1;
    ig_x vars[IG_NEST_DIMS], block;
    ig_dim blocks = ig_dim_ceil_div(m->k->dims, nest->extent[p->transposed], ig_dim_const(m->k->dims, p->chunk));
    ig_x number = ig_x_split_off(m->k, &tile, blocks), stretch = ig_x_split_off(m->k, &tile, stretches_of(p));
    split_tile(m, p, tile, last, p->transposed, vars);
    ig_x n = dim(m, nest->extent[last]), begin = ig_x_mul(m->k, stretch, num(m, STRETCH));
    ig_x stop = ig_x_min(m->k, ig_x_add(m->k, begin, num(m, STRETCH)), n);
    body = ig_s_for(m->k, body, IG_FOR_SERIAL, begin, stop, num(m, BLOCK_ALONG), &block);
    ig_x end = ig_x_min(m->k, ig_x_add(m->k, block, num(m, BLOCK_ALONG)), n);
    ig_x first = ig_x_mul(m->k, number, num(m, p->chunk));
    ig_x after = ig_x_min(m->k, ig_x_add(m->k, first, num(m, p->chunk)), dim(m, p->nest.extent[p->transposed]));
    struct turned turned = {.m = m, .p = p};
    for (int i = 0; i < p->count; i++)
        find_turned(&turned, p->nest.x.at[p->value[i]]);
    emit_turned(&turned, body, vars, first, after, block, end);
    body = ig_s_for(m->k, body, IG_FOR_SERIAL, first, after, num(m, 1), &vars[p->transposed]);
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
            choose_loops(m.parts.at[i]);
        }
    }
    ig_mapping_emit(&m, emit_part, &m);
    m.kernel->tactic = tactic_of(&m);
    m.kernel->work = ig_mapping_work(&m, LANES);
    return m.kernel;
}
