/*
 * Walks a kernel's loops for what a tile costs; see estimate.h.
 *
 * Of a tile are counted the instructions that its warps issue, the lines that their accesses touch in the first cache,
 * the sectors that move between the caches, and the loads that a thread waits for in turn. An expression is evaluated in
 * the outermost loop in which all it depends on is known, as printers do it. The constants are set by profiles of ten
 * networks in f16 on an H200, at batch 1 and 32: eight of ten kernels are estimated at 0.6 to 2.8 times what they took there
 * (bench/results/gpu/networks/2026-11-23-fusion.md).
 */
#include "kernel/cuda/estimate.h"

#include <math.h>
#include <stdlib.h>

#include "kernel/cuda/access.h"

enum { MOST_LEVELS = 24, WARP = 32, TILE_SAMPLES = 8, IN_FLIGHT = 8 };

/* Of an H200, per nanosecond: instructions that a multiprocessor issues, lines that its first cache serves, bytes
 * between the caches, bytes of memory; and what the second-level cache holds. */
#define ISSUES 5.0
#define LINES 1.3
#define CACHE 5500.0
#define MEMORY 3700.0
#define CACHE_BYTES 40e6
/* Nanoseconds: a kernel that does nothing, and a load that is waited for. */
#define START 2200.0
#define LATENCY 500.0

/* A loop around the statement that is looked at. */
struct level {
    enum ig_for_kind kind;
    int var, lanes;
    int64_t lo, step, trips;
    double warps; /* executions of the body by warps, per tile */
    double turns; /* loads in a row that a thread waits for, per load in the body */
};

struct estimate {
    const struct ig_kernel *kernel;
    const struct ig_loops *k;
    struct ig_evaluation values;
    struct level level[MOST_LEVELS];
    int depth;         /* the innermost level */
    int8_t *level_of;  /* by expression, plus 1; 0: not known yet */
    int *level_of_var; /* by loop variable */
    bool *counted;     /* by expression */
    double share;      /* of the tiles that execute the statement */
    double tiles;
    double issues, lines, turns; /* per tile */
    double *moved;               /* by buffer: bytes between the caches, all tiles */
};

/* ---- Expressions -------------------------------------------------------------------------------------------------- */

static int find_level(struct estimate *e, ig_x x) {
    const struct ig_x_node *n = ig_x_look(e->k, x);
    if (e->level_of[x]) return e->level_of[x] - 1;
    int level = 0;
    if (n->kind == IG_X_VAR) level = e->level_of_var[n->i];
    if (n->kind == IG_X_ACC || (n->kind == IG_X_LOAD && e->k->buffers.at[n->i].kind != IG_BUFFER_PARAM))
        level = e->depth;
    for (int i = 0; i < 3; i++) {
        int of = n->args[i] == IG_NO_X ? 0 : find_level(e, n->args[i]);
        level = of > level ? of : level;
    }
    level = level > e->depth ? e->depth : level;
    e->level_of[x] = (int8_t)(level + 1);
    return level;
}

static bool is_known(const struct estimate *e, ig_x x) {
    return ig_x_look(e->k, x)->kind == IG_X_INT;
}

/* Instructions of a warp. */
static double instructions(const struct estimate *e, const struct ig_x_node *n) {
    bool index = !ig_dtype_is_float(n->dtype) && n->dtype != INGOT_BOOL;
    if (n->kind == IG_X_CAST) return 1;
    if (n->kind == IG_X_SELECT) return 1;
    if (n->kind == IG_X_LOAD) return e->k->buffers.at[n->i].kind == IG_BUFFER_SPREAD ? 0 : 1;
    if (n->kind != IG_X_MAP) return 0;
    switch (n->op) {
    case IG_OP_div:
    case IG_OP_mod:
        if (!index) return 8;
        return is_known(e, n->args[1]) ? 6 : 30;
    case IG_OP_exp:
    case IG_OP_sqrt: return 6;
    case IG_OP_sigmoid:
    case IG_OP_tanh:
    case IG_OP_log: return 10;
    case IG_OP_erf:
    case IG_OP_normcdf:
    case IG_OP_sin:
    case IG_OP_cos: return 20;
    case IG_OP_pow: return 40;
    default: return index ? 1.5 : 1;
    }
}

/* The loops that spread a statement at `level` over threads; *out_serial: the level of the innermost loop within, which a
 * thread executes in turn; -1: none. */
static struct ig_spread spread_at(struct estimate *e, int level, int *out_serial) {
    struct ig_spread s = {.team = -1, .thread = -1, .vector = -1};
    *out_serial = -1;
    for (int i = 0; i <= level; i++) {
        const struct level *l = &e->level[i];
        if (l->kind == IG_FOR_TEAM) s.team = l->var, s.lanes = l->lanes;
        if (l->kind == IG_FOR_VECTOR) s.vector = l->var, s.width = (int)l->trips;
        if (l->kind == IG_FOR_SIMD) {
            s.thread = l->var, s.thread_lo = l->lo, s.thread_step = l->step;
            s.threads = l->trips;
        }
        if ((l->kind == IG_FOR_SERIAL || l->kind == IG_FOR_UNROLL) && s.thread >= 0) *out_serial = i;
    }
    return s;
}

/* What part of the sectors that an access in a serial loop touches was not touched by the iteration before. */
static double fresh_part(struct estimate *e, ig_x index, int bytes, int serial) {
    enum { SECTOR = 32 };
    if (serial < 0) return 1;
    const struct level *l = &e->level[serial];
    e->values.now++;
    int64_t from = ig_evaluate(&e->values, index);
    e->values.var[l->var] = l->lo + l->step;
    e->values.now++;
    int64_t moved = llabs(ig_evaluate(&e->values, index) - from) * bytes;
    e->values.var[l->var] = l->lo;
    return moved >= SECTOR ? 1 : (double)(moved > 0 ? moved : 1) / SECTOR;
}

/* A load or store of a parameter by the statement at `level`. */
static void count_access(struct estimate *e, int buffer, ig_x index, int level) {
    const struct ig_buffer *b = &e->k->buffers.at[buffer];
    double warps = e->level[level].warps * e->share;
    int bytes = (int)ingot_dtype_size(b->dtype), serial;
    if (b->kind != IG_BUFFER_PARAM) {
        e->issues += b->kind == IG_BUFFER_SPREAD ? 0 : warps;
        return;
    }
    struct ig_spread s = spread_at(e, level, &serial);
    struct ig_touch touch = ig_access_touch(&e->values, index, bytes, &s);
    if (s.vector >= 0) warps /= s.width;
    double accesses = warps * touch.accesses;
    e->issues += accesses;
    e->lines += warps * (touch.lines > touch.accesses ? touch.lines : touch.accesses);
    e->moved[buffer] += e->tiles * warps * touch.sectors * 32 * fresh_part(e, index, bytes, serial);
    if (!b->written) e->turns += e->level[level].turns * e->share;
}

static void count(struct estimate *e, ig_x x) {
    if (x == IG_NO_X || e->counted[x]) return;
    e->counted[x] = true;
    const struct ig_x_node *n = ig_x_look(e->k, x);
    for (int i = 0; i < 3; i++)
        count(e, n->args[i]);
    int level = find_level(e, x);
    if (n->kind == IG_X_LOAD)
        count_access(e, (int)n->i, n->args[0], level);
    else
        e->issues += e->level[level].warps * e->share * instructions(e, n);
}

/* ---- Statements --------------------------------------------------------------------------------------------------- */

static void walk(struct estimate *e, const struct ig_stmt *s);

static void walk_body(struct estimate *e, const struct ig_stmt *s) {
    for (uint32_t i = 0; i < s->body.count; i++)
        walk(e, s->body.at[i]);
}

static double ceil_div(double a, double b) {
    return ceil(a / b);
}

static void enter(struct estimate *e, const struct ig_stmt *s) {
    const struct level *out = &e->level[e->depth];
    double threads = e->kernel->threads;
    e->values.now++;
    int64_t lo = ig_evaluate(&e->values, s->lo), hi = ig_evaluate(&e->values, s->hi);
    int64_t step = ig_evaluate(&e->values, s->step);
    struct level in = {.kind = s->for_kind, .var = s->var, .lo = lo, .step = step, .lanes = s->lanes};
    in.trips = step > 0 && hi > lo ? (hi - lo + step - 1) / step : 0;
    double trips = (double)in.trips;
    int lanes = 0;
    for (int i = 0; i <= e->depth; i++)
        lanes = e->level[i].kind == IG_FOR_TEAM ? e->level[i].lanes : lanes;
    in.warps = out->warps * trips;
    in.turns = out->turns * ceil_div(trips, IN_FLIGHT);
    switch (s->for_kind) {
    case IG_FOR_SIMD:
        in.warps = lanes ? out->warps * ceil_div(trips, lanes) : out->warps * WARP * ceil_div(trips, WARP) / threads;
        in.turns = out->turns * ceil_div(ceil_div(trips, lanes ? lanes : threads), IN_FLIGHT);
        break;
    case IG_FOR_TEAM:
        in.warps = out->warps * trips * s->lanes / threads;
        in.turns = out->turns * ceil_div(trips * s->lanes, threads);
        break;
    case IG_FOR_UNROLL:
    case IG_FOR_VECTOR: in.turns = out->turns; break;
    default: break;
    }
    e->level[++e->depth] = in;
    e->level_of_var[s->var] = e->depth;
    e->values.var[s->var] = lo;
}

static void walk_for(struct estimate *e, const struct ig_stmt *s) {
    if (e->depth + 1 == MOST_LEVELS) return;
    count(e, s->hi);
    enter(e, s);
    if (e->level[e->depth].trips > 0) walk_body(e, s);
    e->depth--;
}

/* Conditions on the tile's number tell apart the parts of a kernel. */
static void walk_if(struct estimate *e, const struct ig_stmt *s) {
    int64_t *tile = &e->values.var[e->level[0].var], before = *tile, inside = -1;
    double share = e->share;
    int taken = 0;
    count(e, s->value);
    for (int i = 0; i < TILE_SAMPLES; i++) {
        *tile = (int64_t)(e->tiles * (2 * i + 1) / (2 * TILE_SAMPLES));
        e->values.now++;
        if (!ig_evaluate(&e->values, s->value)) continue;
        if (inside < 0 || taken == TILE_SAMPLES / 2) inside = *tile;
        taken++;
    }
    *tile = taken ? inside : before;
    e->share = share * (taken ? (double)taken / TILE_SAMPLES : 1.0 / TILE_SAMPLES);
    walk_body(e, s);
    e->share = share;
    *tile = before;
}

static void walk(struct estimate *e, const struct ig_stmt *s) {
    const struct level *here = &e->level[e->depth];
    switch (s->kind) {
    case IG_S_FOR: walk_for(e, s); break;
    case IG_S_IF: walk_if(e, s); break;
    case IG_S_STORE:
        count(e, s->index);
        count(e, s->value);
        count_access(e, s->buffer, s->index, e->depth);
        break;
    case IG_S_ACC: count(e, s->value); break;
    case IG_S_UPDATE:
        count(e, s->value);
        e->issues += here->warps * e->share;
        break;
    default: break;
    }
}

/* ---- Time --------------------------------------------------------------------------------------------------------- */

static double capped(const struct estimate *e, int buffer, double bytes) {
    const struct ig_buffer *b = &e->k->buffers.at[buffer];
    if (b->kind != IG_BUFFER_PARAM || b->param < 0 || (uint32_t)b->param >= e->kernel->bytes.count) return bytes;
    double size = (double)ig_sizes_guess(e->values.at, e->kernel->bytes.at[b->param]);
    return bytes < size ? bytes : size;
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

static struct ig_cuda_walk result(const struct estimate *e) {
    const double threads = e->kernel->threads;
    struct ig_cuda_walk w = {
        .tiles = e->tiles, .threads = threads, .issues = e->issues, .lines = e->lines, .turns = e->turns};
    for (uint32_t b = 0; b < e->k->buffers.count; b++) {
        w.moved += e->moved[b];
        w.once += capped(e, (int)b, e->moved[b]);
    }
    w.resident = larger(1, fmin(floor(2048 / threads), floor(227e3 / (e->kernel->shared_bytes + 1024.0))));
    return w;
}

struct ig_cuda_walk ig_cuda_walk(const struct ig_kernel *kernel, const struct ig_sizes *at) {
    const struct ig_loops *k = kernel->loops;
    struct estimate e = {.kernel = kernel, .k = k, .share = 1};
    const struct ig_stmt *top = k->top;
    if (!top || kernel->threads < 1) return (struct ig_cuda_walk){0};
    ig_evaluation_init(&e.values, k, at);
    e.level_of = IG_NEW_ARRAY(k->job, int8_t, k->x.count + 1);
    e.counted = IG_NEW_ARRAY(k->job, bool, k->x.count + 1);
    e.level_of_var = IG_NEW_ARRAY(k->job, int, k->vars.count + 1);
    e.moved = IG_NEW_ARRAY(k->job, double, k->buffers.count + 1);
    e.tiles = (double)ig_sizes_guess(at, kernel->tiles);
    if (e.tiles < 1) return (struct ig_cuda_walk){.threads = kernel->threads};
    double warps = ceil_div(kernel->threads, WARP);
    e.level[0] = (struct level){.kind = IG_FOR_TILE, .var = top->var, .trips = 1, .warps = warps, .turns = 1};
    e.values.var[top->var] = (int64_t)(e.tiles / 2);
    walk_body(&e, top);
    return result(&e);
}

double ig_cuda_estimate(const struct ig_kernel *kernel, const struct ig_sizes *at) {
    const struct ig_cuda_walk w = ig_cuda_walk(kernel, at);
    if (w.threads == 0) return 0;
    if (w.tiles < 1) return START / 1000;
    double far = w.once > CACHE_BYTES ? w.once - CACHE_BYTES / 2 : 0, near = w.once - far;
    double each = ceil(w.tiles / IG_CUDA_PROCESSORS), wait = ceil(each / w.resident) * w.turns * LATENCY;
    double busy = each * larger(w.issues / ISSUES, w.lines / LINES);
    double transfers = larger(w.moved / CACHE, far / MEMORY + near / CACHE);
    double most = larger(larger(busy, transfers), wait), all = busy + transfers + wait;
    return (START + most + 0.2 * (all - most)) / 1000;
}
