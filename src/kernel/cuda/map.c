/*
 * The map family on GPUs. A thread computes a *slot*: the neighbours along the last dim that one 16-byte access holds,
 * or a single element if they are not contiguous. Consecutive slots go to consecutive threads, so that a warp reads and
 * writes whole lines; a block does one or a few slots per thread. Large maps give each thread two or four slots,
 * because occupancy alone does not hide the latency: several loads in flight per thread do.
 *
 * Parts that are short pieces of the same lines, as where channels-last images are joined, are stored by the same block, for some
 * lines at a time, if pieces begin within units of memory transfers: these are read once more where they are stored piece by piece,
 * long after one another.
 *
 * A transpose goes through shared memory: a block reads lines of one side and writes lines of the other (Ruetsch and
 * Micikevicius, "Optimizing matrix transpose in CUDA", 2009). Lines are padded by one element, so that the elements of
 * a column fall into different banks.
 */
#include "ir/part.h"
#include "kernel/affine.h"
#include "kernel/mapping.h"
#include "kernel/schedules.h"

enum {
    LANES = 16,
    THREADS = 256,
    FEW_THREADS = 128, /* for blocks, if blocks of THREADS would leave multiprocessors idle */
    BLOCK = 1024,      /* elements per block of a transpose */
    MOST_SIDE = 32,
    MOST_STAGED = 4,                        /* loads of a transpose that are staged through shared memory */
    LONG_LINE = 2048,                       /* bytes; pieces of longer ones are long enough */
    UNIT = 32,                              /* bytes, of memory transfers */
    MOST_ROUNDS = 4,                        /* slots per thread and piece */
    MOST_LOADS = 32,                        /* of a thread with several slots */
    MANY = IG_CUDA_PROCESSORS * 2048 * 4,   /* slots beyond which each thread takes several */
    FEW = IG_CUDA_PROCESSORS * THREADS * 2, /* slots below which blocks are small */
    MOST_GATHERED = 4,                      /* elements of a slot whose loads are by indices */
};

struct plan {
    int vector;    /* elements per slot */
    int each;      /* slots per thread */
    bool uneven;   /* the last tile has fewer slots */
    ig_dim slots;  /* whole slots only */
    int side, top; /* transposes: block size along the dim read across and along the last dim; 0: no transpose */
};

struct mapper {
    struct ig_mapping m;
    struct plan *plans; /* by part */
    int threads;
    int64_t lines; /* where parts are pieces of lines: lines per tile; else 0 */
};

static ig_x num(struct mapper *m, int64_t i) {
    return ig_x_index(m->m.k, i);
}

static ig_x dim(struct mapper *m, ig_dim d) {
    return ig_x_dim(m->m.k, d);
}

/* ---- Choosing ---------------------------------------------------------------------------------------------------- */

static int64_t guess_elements(const struct ig_part *p) {
    int64_t elements = 1;
    for (int d = 0; d < p->nest.rank; d++) {
        int64_t n = ig_nest_guess(&p->nest, d);
        elements = n > 0 && elements > INT32_MAX / n ? INT32_MAX : elements * n;
    }
    return elements;
}

/* The size of a transpose's block along dim d, no longer than necessary. */
static int side_of(const struct ig_part *p, int d) {
    int64_t n = ig_nest_guess(&p->nest, d);
    int side = MOST_SIDE;
    while (side > 8 && side / 2 >= n)
        side /= 2;
    return side;
}

static void plan_transpose(struct ig_part *p, struct plan *plan) {
    struct ig_dims *dims = p->nest.k->dims;
    int last = p->nest.rank - 1;
    plan->side = side_of(p, p->transposed);
    plan->top = side_of(p, last);
    if (plan->side < MOST_SIDE) plan->top = BLOCK / plan->side;
    if (plan->top < MOST_SIDE) plan->side = BLOCK / plan->top;
    p->tiles = ig_dim_mul(dims, ig_dim_ceil_div(dims, p->nest.extent[last], ig_dim_const(dims, plan->top)),
                          ig_dim_ceil_div(dims, p->nest.extent[p->transposed], ig_dim_const(dims, plan->side)));
    for (int d = 0; d < last; d++) {
        if (d != p->transposed) p->tiles = ig_dim_mul(dims, p->tiles, p->nest.extent[d]);
    }
}

/* Where an image's channels become innermost, a thread stores a whole pixel, while neighbouring threads load neighbours; where pairs
 * are exchanged, a whole pair. Where loads
 * are by indices that change along the last dim, it works out once where several results lie, if there are many. */
static int vector_of(struct ig_part *p) {
    int vector = ig_nest_vector(&p->nest, p->position, p->buffer, p->count, true);
    bool many = guess_elements(p) >= (int64_t)FEW * MOST_GATHERED;
    if (!p->interleaves && !(p->gathers && many)) return vector;
    int stored = ig_nest_store_vector(&p->nest, p->position, p->buffer, p->count);
    if (!p->interleaves && stored > MOST_GATHERED) stored = MOST_GATHERED;
    return stored > vector ? stored : vector;
}

static void plan_slots(struct mapper *m, struct ig_part *p, struct plan *plan) {
    struct ig_dims *dims = p->nest.k->dims;
    plan->vector = vector_of(p);
    plan->slots =
        ig_dim_div(dims, ig_dim_product(dims, p->nest.extent, p->nest.rank), ig_dim_const(dims, plan->vector));
    plan->each = 1;
    int64_t slots = guess_elements(p) / plan->vector;
    for (int each = 4; each > 1 && plan->each == 1 && slots >= MANY; each /= 2) {
        if (each * ig_part_cost(p) <= MOST_LOADS) plan->each = each;
    }
    int64_t tile = (int64_t)plan->vector * plan->each * m->threads;
    plan->uneven = !ig_dim_divides(dims, ig_dim_const(dims, (int64_t)plan->each * m->threads), plan->slots);
    p->tiles = ig_dim_ceil_div(dims, ig_dim_product(dims, p->nest.extent, p->nest.rank), ig_dim_const(dims, tile));
}

/* ---- Transposes -------------------------------------------------------------------------------------------------- */

/* The loads to stage through shared memory: stride 1 along `transposed`, a larger one along the last dim. */
struct staged {
    struct mapper *m;
    struct ig_part *p;
    struct ig_map seen;
    int count;
    ig_x load[MOST_STAGED];
};

static void find_staged(struct staged *s, ig_x x) {
    struct ig_loops *k = s->m->m.k;
    struct ig_nest *nest = &s->p->nest;
    uint32_t unused;
    if (x == IG_NO_X || ig_map_get(&s->seen, &x, sizeof x, &unused)) return;
    ig_map_put(&s->seen, &x, sizeof x, 1);
    const struct ig_x_node n = k->x.at[x];
    if (n.kind == IG_X_LOAD && s->count < MOST_STAGED) {
        struct ig_affine sum;
        ig_affine_of(k, n.args[0], &sum);
        ig_dim one = ig_dim_const(k->dims, 1), zero = ig_dim_const(k->dims, 0);
        ig_dim last = ig_affine_factor(k, &sum, nest->var[nest->rank - 1]);
        if (ig_affine_factor(k, &sum, nest->var[s->p->transposed]) == one && last != one && last != zero) {
            s->load[s->count++] = x;
            return;
        }
    }
    for (int i = 0; i < 3; i++)
        find_staged(s, n.args[i]);
}

/* Loops over the elements of a block, `fast` of them along fast_dim innermost; sets the variables of both dims, and
 * skips elements outside the tensor. */
static struct ig_stmt *block_loop(struct mapper *m, struct ig_part *p, struct ig_stmt *body, int fast, int fast_dim,
                                  int slow_dim, const ig_x *first, ig_x *vars, ig_x *out_fast, ig_x *out_slow) {
    struct ig_loops *k = m->m.k;
    ig_x i;
    body = ig_s_for(k, body, IG_FOR_SIMD, num(m, 0), num(m, BLOCK), num(m, 1), &i);
    *out_fast = ig_x_mod(k, i, num(m, fast));
    *out_slow = ig_x_div(k, i, num(m, fast));
    vars[fast_dim] = ig_x_add(k, first[fast_dim], *out_fast);
    vars[slow_dim] = ig_x_add(k, first[slow_dim], *out_slow);
    ig_x inside = ig_x_and(k, ig_x_less(k, vars[fast_dim], dim(m, p->nest.extent[fast_dim])),
                           ig_x_less(k, vars[slow_dim], dim(m, p->nest.extent[slow_dim])));
    return ig_s_if(k, body, inside);
}

/* The positions where block number `tile` begins, along all dims. */
static void block_start(struct mapper *m, struct ig_part *p, const struct plan *plan, ig_x tile, ig_x *first) {
    struct ig_loops *k = m->m.k;
    int last = p->nest.rank - 1;
    int order[IG_NEST_DIMS], n = 0;
    order[n++] = last;
    order[n++] = p->transposed;
    for (int d = last - 1; d >= 0; d--) {
        if (d != p->transposed) order[n++] = d;
    }
    for (int i = 0; i < n; i++) {
        int size = order[i] == last ? plan->top : order[i] == p->transposed ? plan->side : 1;
        ig_x blocks = dim(m, ig_dim_ceil_div(k->dims, p->nest.extent[order[i]], ig_dim_const(k->dims, size)));
        ig_x at = i == n - 1 ? tile : ig_x_mod(k, tile, blocks);
        if (i < n - 1) tile = ig_x_div(k, tile, blocks);
        first[order[i]] = ig_x_mul(k, at, num(m, size));
    }
}

static void emit_transpose(struct mapper *m, struct ig_part *p, const struct plan *plan, struct ig_stmt *body,
                           ig_x tile) {
    struct ig_loops *k = m->m.k;
    struct staged staged = {.m = m, .p = p};
    int last = p->nest.rank - 1, across = p->transposed, pitch = plan->side + 1;
    ig_map_init(&staged.seen, k->job);
    for (int i = 0; i < p->count; i++)
        find_staged(&staged, p->nest.x.at[p->value[i]]);
    ig_x first[IG_NEST_DIMS], vars[IG_NEST_DIMS], fast, slow;
    block_start(m, p, plan, tile, first);
    for (int d = 0; d < p->nest.rank; d++)
        vars[d] = first[d];
    struct ig_stmt *inner = block_loop(m, p, body, plan->side, across, last, first, vars, &fast, &slow);
    int buffer[MOST_STAGED];
    for (int i = 0; i < staged.count; i++) {
        const struct ig_x_node n = k->x.at[staged.load[i]];
        buffer[i] = ig_loops_local(k, k->buffers.at[n.i].dtype, (int64_t)pitch * plan->top,
                                   ig_format(k->job, "block%u", k->buffers.count));
        ig_x from = ig_x_substitute(k, staged.load[i], p->nest.var, vars, p->nest.rank);
        ig_s_store(k, inner, buffer[i], ig_x_add(k, ig_x_mul(k, slow, num(m, pitch)), fast), from);
    }
    inner = block_loop(m, p, body, plan->top, last, across, first, vars, &fast, &slow);
    ig_x from[IG_NEST_DIMS + MOST_STAGED], to[IG_NEST_DIMS + MOST_STAGED];
    for (int i = 0; i < staged.count; i++) {
        from[i] = staged.load[i];
        to[i] = ig_x_load(k, buffer[i], ig_x_add(k, ig_x_mul(k, fast, num(m, pitch)), slow));
    }
    for (int d = 0; d < p->nest.rank; d++) {
        from[staged.count + d] = p->nest.var[d];
        to[staged.count + d] = vars[d];
    }
    for (int i = 0; i < p->count; i++) {
        ig_x value = ig_x_substitute(k, p->nest.x.at[p->value[i]], from, to, staged.count + p->nest.rank);
        ig_s_store(k, inner, p->buffer[i], ig_nest_bind(&p->nest, p->position[i], vars), value);
    }
}

/* ---- Slots ------------------------------------------------------------------------------------------------------- */

/* Splits a slot's number into positions along the dims; along the last, of the slot's first element. */
static void split_slot(struct mapper *m, struct ig_part *p, int vector, ig_x slot, ig_x *vars) {
    struct ig_loops *k = m->m.k;
    for (int d = p->nest.rank - 1; d > 0; d--) {
        ig_dim n = p->nest.extent[d];
        if (d == p->nest.rank - 1) n = ig_dim_div(k->dims, n, ig_dim_const(k->dims, vector));
        vars[d] = ig_x_mod(k, slot, dim(m, n));
        slot = ig_x_div(k, slot, dim(m, n));
    }
    if (p->nest.rank > 0) {
        vars[0] = slot;
        vars[p->nest.rank - 1] = ig_x_mul(k, vars[p->nest.rank - 1], num(m, vector));
    }
}

/* A slot that exists. */
static void emit_existing(struct mapper *m, struct ig_part *p, const struct plan *plan, struct ig_stmt *body,
                          ig_x slot) {
    struct ig_loops *k = m->m.k;
    ig_x vars[IG_NEST_DIMS], lane;
    split_slot(m, p, plan->vector, slot, vars);
    if (plan->vector > 1) {
        body = ig_s_for(k, body, IG_FOR_VECTOR, num(m, 0), num(m, plan->vector), num(m, 1), &lane);
        vars[p->nest.rank - 1] = ig_x_add(k, vars[p->nest.rank - 1], lane);
    }
    ig_part_store(&m->m, p, body, vars);
}

static void emit_slot(struct mapper *m, struct ig_part *p, const struct plan *plan, struct ig_stmt *body, ig_x slot) {
    struct ig_loops *k = m->m.k;
    ig_x exists = ig_x_less(k, slot, dim(m, plan->slots));
    bool known = k->x.at[exists].kind == IG_X_INT;
    if (known && !k->x.at[exists].i) return; /* there are fewer elements than one slot holds */
    emit_existing(m, p, plan, known ? body : ig_s_if(k, body, exists), slot);
}

/* If a single dim is no multiple of the slot, the last tile does the elements after the last whole slot. */
static void emit_tail(struct mapper *m, struct ig_part *p, const struct plan *plan, struct ig_stmt *body, ig_x tile) {
    struct ig_loops *k = m->m.k;
    ig_dim vector = ig_dim_const(k->dims, plan->vector);
    if (p->nest.rank != 1 || ig_dim_divides(k->dims, vector, p->nest.extent[0])) return;
    ig_x at, last = ig_x_map2(k, IG_OP_eq, tile, dim(m, ig_dim_sub(k->dims, p->tiles, ig_dim_const(k->dims, 1))));
    body = ig_s_if(k, body, last);
    body = ig_s_for(k, body, IG_FOR_SIMD, dim(m, ig_dim_mul(k->dims, plan->slots, vector)), dim(m, p->nest.extent[0]),
                    num(m, 1), &at);
    ig_part_store(&m->m, p, body, &at);
}

/* The slots of a thread from `slot` on, the first one of the tile: it looks once whether the whole tile exists, so that the
 * loads of all of them are under way together. */
static void emit_several(struct mapper *m, struct ig_part *p, const struct plan *plan, struct ig_stmt *body, ig_x first,
                         ig_x slot) {
    struct ig_loops *k = m->m.k;
    ig_x i, each = num(m, plan->each), apart = num(m, m->threads), last = num(m, (int64_t)m->threads * plan->each - 1);
    ig_x all = ig_x_less(k, ig_x_add(k, first, last), dim(m, plan->slots));
    struct ig_stmt *inner = plan->uneven ? ig_s_if(k, body, all) : body;
    inner = ig_s_for(k, inner, IG_FOR_UNROLL, num(m, 0), each, num(m, 1), &i);
    emit_existing(m, p, plan, inner, ig_x_add(k, slot, ig_x_mul(k, i, apart)));
    if (!plan->uneven) return;
    inner = ig_s_if(k, body, ig_x_map1(k, IG_OP_not, all));
    inner = ig_s_for(k, inner, IG_FOR_SERIAL, num(m, 0), each, num(m, 1), &i);
    emit_slot(m, p, plan, inner, ig_x_add(k, slot, ig_x_mul(k, i, apart)));
}

static void emit_slots(struct mapper *m, struct ig_part *p, const struct plan *plan, struct ig_stmt *body, ig_x tile) {
    struct ig_loops *k = m->m.k;
    ig_x thread, first = ig_x_mul(k, tile, num(m, (int64_t)m->threads * plan->each));
    struct ig_stmt *threads = ig_s_for(k, body, IG_FOR_SIMD, num(m, 0), num(m, m->threads), num(m, 1), &thread);
    ig_x slot = ig_x_add(k, first, thread);
    if (plan->each > 1) {
        emit_several(m, p, plan, threads, first, slot);
    } else {
        emit_slot(m, p, plan, threads, slot);
    }
    emit_tail(m, p, plan, body, tile);
}

/* ---- Pieces of lines --------------------------------------------------------------------------------------------- */

static ig_dim lines_of(const struct ig_part *p) {
    return ig_dim_product(p->nest.k->dims, p->nest.extent, p->nest.rank - 1);
}

/* Elements of a part's piece of a line; -1: unknown. */
static int64_t piece_of(const struct ig_part *p) {
    int64_t n;
    return ig_dim_is_const(p->nest.k->dims, p->nest.extent[p->nest.rank - 1], &n) ? n : -1;
}

/* Are the parts short pieces of the same lines, which share units of memory? */
static bool are_pieces(const struct mapper *m) {
    int64_t bytes = 0;
    bool shared = false;
    if (m->m.parts.count < 2) return false;
    const struct ig_part *first = m->m.parts.at[0];
    for (uint32_t i = 0; i < m->m.parts.count; i++) {
        const struct ig_part *p = m->m.parts.at[i];
        bool same = p->transposed < 0 && p->count == 1 && p->buffer[0] == first->buffer[0] && p->nest.rank >= 2;
        if (!same || lines_of(p) != lines_of(first) || piece_of(p) < 0) return false;
        bytes += piece_of(p) * (int64_t)ingot_dtype_size(m->m.k->buffers.at[p->buffer[0]].dtype);
        shared |= bytes % UNIT != 0;
    }
    return shared && bytes <= LONG_LINE;
}

/* Slots of a part in a line. */
static int64_t slots_of(const struct mapper *m, uint32_t part) {
    return piece_of(m->m.parts.at[part]) / m->plans[part].vector;
}

/* Rounds of the block's threads for so many lines. */
static int64_t rounds_of(const struct mapper *m, int64_t lines) {
    int64_t rounds = 0;
    for (uint32_t i = 0; i < m->m.parts.count; i++)
        rounds += (lines * slots_of(m, i) + m->threads - 1) / m->threads;
    return rounds;
}

/* As many lines that few threads are idle in the last rounds, and that every multiprocessor has blocks. */
static void choose_lines(struct mapper *m) {
    int64_t all = ig_sizes_guess(m->m.at, lines_of(m->m.parts.at[0])), longest = 0;
    double best = 0;
    for (uint32_t i = 0; i < m->m.parts.count; i++)
        longest = slots_of(m, i) > longest ? slots_of(m, i) : longest;
    for (int64_t lines = 1; lines * longest <= (int64_t)MOST_ROUNDS * m->threads || lines == 1; lines++) {
        if (lines > 1 && all / lines < 2 * IG_CUDA_PROCESSORS) break;
        double share = (double)lines / (double)rounds_of(m, lines);
        if (share < 1.01 * best) continue;
        best = share;
        m->lines = lines;
    }
}

static void emit_piece(struct mapper *m, uint32_t part, struct ig_stmt *body, ig_x tile) {
    struct ig_loops *k = m->m.k;
    struct ig_part *p = m->m.parts.at[part];
    ig_x i, count = num(m, m->lines * slots_of(m, part));
    body = ig_s_for(k, body, IG_FOR_SIMD, num(m, 0), count, num(m, 1), &i);
    emit_slot(m, p, &m->plans[part], body, ig_x_add(k, ig_x_mul(k, tile, count), i));
}

static void emit_pieces(struct mapper *m) {
    struct ig_loops *k = m->m.k;
    ig_x tile;
    m->m.kernel->tiles = ig_dim_ceil_div(k->dims, lines_of(m->m.parts.at[0]), ig_dim_const(k->dims, m->lines));
    struct ig_stmt *body = ig_s_for(k, NULL, IG_FOR_TILE, num(m, 0), dim(m, m->m.kernel->tiles), num(m, 1), &tile);
    ig_s_name(k, tile, "tile");
    for (uint32_t i = 0; i < m->m.parts.count; i++) {
        if (slots_of(m, i) > 0) emit_piece(m, i, body, tile);
    }
}

/* ---- Parts ------------------------------------------------------------------------------------------------------- */

static void emit_part(void *user, uint32_t part, struct ig_stmt *body, ig_x tile) {
    struct mapper *m = user;
    struct ig_part *p = m->m.parts.at[part];
    const struct plan *plan = &m->plans[part];
    if (plan->side) {
        emit_transpose(m, p, plan, body, tile);
    } else {
        emit_slots(m, p, plan, body, tile);
    }
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

static int threads_of(struct mapper *m) {
    int64_t slots = 0;
    for (uint32_t i = 0; i < m->m.parts.count; i++) {
        struct ig_part *p = m->m.parts.at[i];
        if (p->transposed >= 0) return THREADS;
        slots += guess_elements(p) / vector_of(p);
    }
    return slots < FEW ? FEW_THREADS : THREADS;
}

/* Does the region read all of an operand, once each? */
static bool is_read_whole(const struct mapper *m, ig_value v) {
    const struct ig_region *region = m->m.region;
    for (uint32_t i = 0; i < region->nodes.count; i++) {
        const struct ig_node *n = &m->m.graph->nodes.at[region->nodes.at[i]];
        bool whole = ig_op_info(n->op)->family == IG_FAMILY_MAP || n->op == IG_OP_concat || n->op == IG_OP_reshape ||
                     n->op == IG_OP_transpose;
        for (uint32_t k = 0; k < n->n_in && !whole; k++) {
            if (n->in[k] == v) return false;
        }
    }
    return true;
}

/* Large inputs of the graph, such as caches, are there from the beginning: each block brings its share to the second-level
 * cache while the preceding kernel still runs. */
static void fetch_inputs(struct mapper *m) {
    enum { LEAST = 64 << 10 };
    const struct ig_region *region = m->m.region;
    struct ig_loops *k = m->m.k;
    for (uint32_t i = 0; i < region->inputs.count; i++) {
        ig_value v = region->inputs.at[i];
        if (!m->m.lower.is_input[v] || !ig_part_is_given(m->m.graph, v) || !is_read_whole(m, v)) continue;
        const struct ig_type *type = ig_type_of(m->m.graph, v);
        ig_dim size = ig_dim_const(k->dims, (int64_t)ingot_dtype_size(type->dtype));
        ig_dim bytes = ig_dim_mul(k->dims, ig_type_elements(k->dims, type), size);
        if (ig_sizes_guess(m->m.at, bytes) < LEAST) continue;
        k->buffers.at[m->m.lower.buffer_of[v]].share = 1 + ig_loops_dim(k, bytes);
    }
}

static const char *tactic_of(struct mapper *m) {
    struct ig_job *job = m->m.k->job;
    if (m->m.parts.count == 0) return "map of nothing";
    const struct plan *plan = &m->plans[0];
    const char *parts = m->m.parts.count > 1 ? ig_format(job, ", %u parts", m->m.parts.count) : "";
    if (m->lines)
        return ig_format(job, "map, %d elements a thread%s of %lld lines", plan->vector, parts, (long long)m->lines);
    if (plan->side)
        return ig_format(job, "map, blocks of %d x %d through shared memory%s", plan->side, plan->top, parts);
    return ig_format(job, "map, %d x %d elements a thread%s", plan->each, plan->vector, parts);
}

struct ig_kernel *ig_kernel_map_cuda(struct ig_graph *graph, const struct ig_region *region,
                                     const struct ig_target *target, const struct ig_sizes *at) {
    struct mapper m;
    ig_mapping_init(&m.m, graph, region, at);
    m.plans = IG_NEW_ARRAY(graph->job, struct plan, m.m.parts.count + 1);
    m.threads = m.m.kernel->threads = threads_of(&m);
    for (uint32_t i = 0; i < m.m.parts.count; i++) {
        struct ig_part *p = m.m.parts.at[i];
        if (p->transposed >= 0) {
            plan_transpose(p, &m.plans[i]);
        } else {
            plan_slots(&m, p, &m.plans[i]);
        }
    }
    m.lines = 0;
    if (are_pieces(&m)) choose_lines(&m);
    if (m.lines) {
        emit_pieces(&m);
    } else {
        ig_mapping_emit(&m.m, emit_part, &m);
    }
    ig_loops_store_once(m.m.k);
    if (ig_target_has_early_start(target)) fetch_inputs(&m);
    m.m.kernel->tactic = tactic_of(&m);
    m.m.kernel->work = ig_mapping_work(&m.m, LANES);
    return m.m.kernel;
}
