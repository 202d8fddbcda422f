/*
 * The row family on GPUs, where the innermost axis is reduced. A row of up to 1024 elements is done by a team of
 * threads of a warp, several rows per block, so that reductions are shuffles and need no barrier; a longer row takes a
 * whole block. Rows of constant size are read once: values that several passes need, inputs included, stay in the
 * registers of the thread that computed them, or, of long rows of 16 bits, in shared memory. Other rows are read again in
 * each pass, from the caches. If all rows are in flight at once, constants of the last pass, such as a normalisation's
 * weights, are loaded before the first pass, since their latency is then on the critical path. If blocks do rows in turn,
 * these constants come from the first cache, and registers are worth more.
 *
 * Each thread sums every n-th element, and the partial sums are added as a tree, so that long sums lose no digits.
 */
#include "kernel/cuda/row.h"

#include <math.h>

#include "kernel/schedules.h"

enum {
    TEAM_ROW = 1024, /* longest row, in elements, for a team */
    LANES = 32,      /* per warp */
    TEAM_THREADS = 128,
    LONGEST = 1024 * 32,    /* longest row, or part of one, in elements, that is kept in registers */
    MIDDLE = 512 * 48,      /* the same in blocks of 512 threads */
    REGISTERS = 48,         /* elements kept per thread */
    EARLY_REGISTERS = 64,   /* for constants, per thread, in addition */
    EARLY_BYTES = 16 << 10, /* largest constant to prefetch before the kernel waits */
    MOST_EARLY = 4,
    MOST_VECTOR = 8,
    LEAST_PART = 4096, /* elements of a row that a block of a cluster does */
    SHARED_BYTES = 16, /* for reductions over a cluster */
    SHORT = 12288,     /* elements of a row, or part of one, that are few enough for 512 threads anyway */
    MOST_SLOTS = 3,    /* blocks of a multiprocessor that keep their rows in shared memory */
    SLOT_BYTES = 1024, /* of shared memory that a block takes besides */
    FEW_EACH = 4,      /* elements of a lane, if rows are few */
    MANY_EACH = 16,
    FEW = 512, /* threads per multiprocessor that can have that many registers */
};

struct ig_row_lines {
    struct ig_row *r;
    int64_t n;       /* elements per row; -1: unknown */
    int lanes;       /* threads per team; 0: the block does a row, or */
    int blocks;      /* those of a cluster do */
    int64_t part;    /* elements per row and block, if they are equally many in each and kept; -1: not so */
    ig_x share;      /* the block's part of the row */
    int vector;      /* elements per access */
    ig_value halves; /* what is kept in shared memory; IG_NO_VALUE: nothing, but registers may keep some */
    bool copied;     /* there by a call, since it lies there as it does in memory */
    int slots;       /* blocks that a multiprocessor has room for */
    int least;       /* bytes of shared memory (ig_row_share_bytes) */
    ig_x vars[IG_NEST_DIMS];
    ig_x at;                              /* the loop over a row's accesses */
    bool few;                             /* few rows: all are in flight at once */
    int n_early;                          /* number of constants loaded before the passes */
    int early[MOST_EARLY];                /* their register buffers */
    const struct ig_row_arrival *arrival; /* NULL: all values come from memory */
};

static ig_x num(struct ig_row *r, int64_t i) {
    return ig_x_index(r->k, i);
}

static ig_x dim(struct ig_row *r, ig_dim d) {
    return ig_x_dim(r->k, d);
}

/* ---- Choosing ---------------------------------------------------------------------------------------------------- */

/* At the sizes for which candidates are ordered. */
static int64_t guess_rows(const struct ig_row *r) {
    return ig_sizes_guess(r->at, ig_row_results(r));
}

static bool are_few(int64_t rows, int threads) {
    return rows * threads <= IG_CUDA_PROCESSORS * FEW;
}

/* Lanes for a row of which each has up to `each` elements, as far as there are lanes. */
static int lanes_for(int64_t row, int64_t each) {
    int lanes = 1;
    while (lanes < LANES && lanes * each < row)
        lanes *= 2;
    return lanes;
}

/* Are all reductions such that clusters have functions for them? */
static bool can_share(const struct ig_row *r, const struct ig_target *target) {
    if (target->sm < 90) return false;
    for (uint32_t i = 0; i < r->steps.count; i++) {
        if (r->steps.at[i].dtype != INGOT_F32 || r->steps.at[i].is_place) return false;
    }
    return true;
}

/* Bytes that a row's elements take in memory, inputs and outputs. */
static double row_bytes(const struct ig_row_lines *l, int64_t row, bool again) {
    const struct ig_row *r = l->r;
    double bytes = 0;
    for (uint32_t i = 0; i < r->region->inputs.count; i++) {
        const struct ig_type *type = ig_type_of(r->graph, r->region->inputs.at[i]);
        if (ig_row_is_space_shape(r, type)) bytes += (again ? 2 : 1) * (double)ingot_dtype_size(type->dtype);
    }
    const struct ig_type *type = ig_type_of(r->graph, r->region->outputs.at[0]);
    if (ig_row_is_space_shape(r, type)) bytes += (double)ingot_dtype_size(type->dtype);
    return bytes * (double)row;
}

/* A long row, or if several blocks do it their parts. */
struct long_row {
    struct ig_row_lines *l;
    const struct ig_target *target;
    int64_t row;
    ig_value halves;
};

/* May the elements that the blocks do be kept? */
static bool is_even(const struct ig_row_lines *l, int blocks) {
    return blocks == 1 || (l->n > 0 && l->n % ((int64_t)MOST_VECTOR * blocks) == 0);
}

/* What a block of `blocks` keeps, and how many a multiprocessor has room for. */
static void divide_row(const struct long_row *p, int blocks) {
    struct ig_row_lines *l = p->l;
    struct ig_kernel *kernel = l->r->kernel;
    int64_t part = p->row / blocks, bytes = 2 * part + SHARED_BYTES, limit = ig_target_shared_bytes(p->target);
    bool halves = p->halves != IG_NO_VALUE && part > SHORT && l->n == p->row && bytes <= limit && is_even(l, blocks);
    bool few = halves || part <= SHORT || (blocks > 1 && (part <= MIDDLE || part > LONGEST));
    l->least = ig_row_share_bytes(p->target, guess_rows(l->r), blocks);
    l->blocks = blocks;
    l->halves = halves ? p->halves : IG_NO_VALUE;
    kernel->threads = part <= 4096 ? 256 : few ? 512 : 1024;
    l->slots = 1024 / kernel->threads;
    if (halves) l->slots = (int)(limit / (bytes + SLOT_BYTES));
    if (l->slots > MOST_SLOTS) l->slots = MOST_SLOTS;
    if (l->slots < 1) l->slots = 1;
    if (ig_row_share_alone(guess_rows(l->r), blocks)) l->slots = 1;
    kernel->resident = halves ? l->slots : 0;
}

static bool is_read_once(const struct ig_row_lines *l, int64_t part) {
    return l->halves != IG_NO_VALUE || (l->n >= 0 && part <= LONGEST && is_even(l, l->blocks));
}

static double time_of(const void *user, int blocks) {
    const struct long_row *p = user;
    int64_t part = p->row / blocks;
    if (part < LEAST_PART) return -1;
    divide_row(p, blocks);
    double bytes = row_bytes(p->l, part, !is_read_once(p->l, part));
    return ig_row_share_time((double)guess_rows(p->l->r), blocks, p->l->slots, bytes);
}

static void choose_threads(struct ig_row_lines *l, const struct ig_target *target) {
    struct ig_row *r = l->r;
    int64_t row = l->n < 0 ? TEAM_ROW : l->n, lo, hi;
    ig_dim_range(r->k->dims, r->count, &lo, &hi);
    if (l->n < 0 && lo > TEAM_ROW) row = lo;
    if (row > TEAM_ROW) {
        struct long_row p = {l, target, row, ig_row_halves_cuda(r)};
        divide_row(&p, ig_row_share_choose(time_of, &p, can_share(r, target)));
        return;
    }
    /* About four elements per lane; more if the row is long, or if there are so many rows that instructions count more
     * than latency. */
    int64_t each = are_few(guess_rows(r), lanes_for(row, FEW_EACH)) ? FEW_EACH : MANY_EACH;
    l->lanes = lanes_for(row, each);
}

/* Threads of a block whose teams have `lanes`. Teams share a block, as long as every multiprocessor has a block. */
static int team_threads(int lanes, int64_t rows) {
    int threads = TEAM_THREADS;
    while (threads > LANES && rows * lanes < (int64_t)threads * IG_CUDA_PROCESSORS)
        threads /= 2;
    return threads;
}

/* What depends on the number of rows, and what the kernel is. */
struct problem {
    int lanes, threads, blocks, slots;
    bool few;
    double row_bytes; /* if several passes read what is not kept, so often */
};

/* The rules above say which kernel is best; how much others lose is rounded from measurements on an H200: a kernel for
 * few rows needs up to three times as long for many, one for many rows a tenth more for few. */
static double cost(const struct ig_kernel *kernel, const int64_t *sizes) {
    const struct problem *p = kernel->model.problem;
    int threads = p->lanes ? team_threads(p->lanes, sizes[0]) : p->threads;
    bool few = are_few(sizes[0], p->lanes ? p->lanes : threads);
    double time = (double)sizes[0] * p->row_bytes / 2.5e6;
    if (p->threads < threads) time *= sqrt((double)threads / p->threads);
    if (p->few && !few) time *= 1.5;
    double start = p->threads > threads || few > p->few ? 3.3 : 3;
    if (!p->lanes) time = ig_row_share_time((double)sizes[0], p->blocks, p->slots, p->row_bytes / p->blocks);
    return start + time;
}

static void make_model(struct ig_row_lines *l) {
    struct ig_row *r = l->r;
    struct ig_dims *dims = r->k->dims;
    struct problem *p = IG_NEW(r->k->job, struct problem);
    int64_t row = l->n < 0 ? TEAM_ROW : l->n;
    *p = (struct problem){.lanes = l->lanes, .threads = r->kernel->threads, .blocks = l->blocks, .few = l->few};
    p->slots = l->slots;
    p->row_bytes = row_bytes(l, row, !is_read_once(l, row / l->blocks));
    ig_dim one = ig_dim_const(dims, 1), rows = ig_dim_product(dims, r->nest.extent, r->kept);
    r->kernel->model = (struct ig_kernel_model){{rows, one, one, one}, p, cost};
}

/* ---- Values kept in registers ------------------------------------------------------------------------------------ */

/* If several passes need v, keeps it, or the last value that follows from it alone. */
static void keep(struct ig_row *r, int64_t elements, ig_value v, int *inout_room) {
    const uint32_t *passes = ig_row_passes_of(r);
    bool several = (passes[v] & (passes[v] - 1)) != 0;
    if (!several || *inout_room <= 0 || !ig_row_is_space_shape(r, ig_type_of(r->graph, v))) return;
    if (r->pass_of[v] >= 0) v = ig_row_widen(r, passes, v);
    if (r->cache_of[v] >= 0) return;
    enum ingot_dtype dtype = ig_dtype_compute(ig_type_of(r->graph, v)->dtype);
    r->cache_of[v] = ig_loops_spread(r->k, dtype, elements, 1, ig_format(r->graph->job, "kept%u", r->k->buffers.count));
    r->cache_pass[v] = __builtin_ctz(passes[v]);
    --*inout_room;
}

void ig_row_keep_cuda(struct ig_row *r, int64_t elements, int each) {
    int room = REGISTERS / each;
    r->place = ig_x_free_var(r->k, r->count);
    for (int inputs = 0; inputs < 2; inputs++) {
        for (uint32_t i = 0; i < r->region->nodes.count; i++) {
            const struct ig_node *n = &r->graph->nodes.at[r->region->nodes.at[i]];
            bool loads = ig_op_info(n->op)->family == IG_FAMILY_VIEW;
            if (inputs ? loads : ig_row_is_expensive(n)) keep(r, elements, n->out, &room);
        }
        for (uint32_t i = 0; inputs && i < r->region->inputs.count; i++) {
            if (r->lower.is_input[r->region->inputs.at[i]]) keep(r, elements, r->region->inputs.at[i], &room);
        }
    }
}

/* Are the elements of a row? */
static bool are_one_behind_the_other(const struct ig_row *r) {
    int64_t n;
    bool behind = false;
    for (int d = 0; d < r->space.rank; d++) {
        behind = behind || r->reduced[d];
        if (behind && !r->reduced[d] && !(ig_dim_is_const(r->k->dims, r->space.dim[d], &n) && n == 1)) return false;
    }
    return true;
}

static void choose_kept(struct ig_row_lines *l) {
    l->part = -1;
    if (l->halves != IG_NO_VALUE) {
        l->part = l->n / l->blocks;
        l->copied = l->part % MOST_VECTOR == 0 && are_one_behind_the_other(l->r);
        ig_row_keep_halves_cuda(l->r, l->halves, SHARED_BYTES, l->copied);
        return;
    }
    if (l->n < 2 || l->n / l->blocks > LONGEST || !is_even(l, l->blocks)) return;
    l->part = l->n / l->blocks;
    int threads = l->lanes ? l->lanes : l->r->kernel->threads;
    ig_row_keep_cuda(l->r, l->part, (int)((l->part + threads - 1) / threads));
}

/* ---- Loops ------------------------------------------------------------------------------------------------------- */

/* The positions along the reduced dims of element at*vector + lane of the row. */
static void split_place(struct ig_row_lines *l, ig_x at, ig_x lane) {
    struct ig_row *r = l->r;
    struct ig_nest *nest = &r->nest;
    for (int d = nest->rank - 1; d >= r->kept; d--) {
        ig_dim n = nest->extent[d];
        bool last = d == nest->rank - 1;
        if (last) n = ig_dim_div(r->k->dims, n, ig_dim_const(r->k->dims, l->vector));
        l->vars[d] = d == r->kept ? at : ig_x_mod(r->k, at, dim(r, n));
        if (d > r->kept) at = ig_x_div(r->k, at, dim(r, n));
        if (last) l->vars[d] = ig_x_add(r->k, ig_x_mul(r->k, l->vars[d], num(r, l->vector)), lane);
    }
}

static ig_x bind(struct ig_row_lines *l, int which, ig_x place) {
    struct ig_row *r = l->r;
    ig_x x = ig_nest_bind(&r->nest, which, l->vars);
    return r->place == IG_NO_X ? x : ig_x_substitute(r->k, x, &r->place, &place, 1);
}

/* ---- Constants loaded early -------------------------------------------------------------------------------------- */

/* The loads of constants for an element, in an expression. */
struct loads {
    const struct ig_row_lines *l;
    ig_x at[MOST_EARLY];
    int count;
};

static bool is_constant(const struct ig_row_lines *l, int buffer) {
    const struct ig_row *r = l->r;
    for (uint32_t i = 0; i < r->region->inputs.count; i++) {
        ig_value v = r->region->inputs.at[i];
        if (r->lower.is_input[v] && r->lower.buffer_of[v] == buffer) return ig_info(r->graph, v)->is_const;
    }
    return false;
}

static bool collect(struct loads *s, ig_x x) {
    const struct ig_x_node n = *ig_x_look(s->l->r->k, x);
    if (n.kind == IG_X_LOAD && is_constant(s->l, (int)n.i) && ig_x_contains(s->l->r->k, x, s->l->at)) {
        for (int i = 0; i < s->count; i++) {
            if (s->at[i] == x) return true;
        }
        if (s->count == MOST_EARLY) return false;
        s->at[s->count++] = x;
        return true;
    }
    for (int i = 0; i < 3; i++) {
        if (n.args[i] != IG_NO_X && !collect(s, n.args[i])) return false;
    }
    return true;
}

/* Small constants are prefetched while the preceding kernel still runs. */
static void fetch_constants(struct ig_row_lines *l) {
    struct ig_row *r = l->r;
    for (uint32_t i = 0; l->few && i < r->region->inputs.count; i++) {
        ig_value v = r->region->inputs.at[i];
        const struct ig_type *type = ig_type_of(r->graph, v);
        int64_t count, size = (int64_t)ingot_dtype_size(type->dtype);
        if (!r->lower.is_input[v] || !ig_info(r->graph, v)->is_const) continue;
        if (!ig_dim_is_const(r->k->dims, ig_type_elements(r->k->dims, type), &count)) continue;
        if (count <= EARLY_BYTES / size) r->k->buffers.at[r->lower.buffer_of[v]].early = count * size;
    }
}

/* The constants that the last pass loads for the element at `place`, always in the same order; false if there are too
 * many. */
static bool collect_last(struct ig_row_lines *l, ig_x place, struct loads *out) {
    struct ig_row *r = l->r;
    *out = (struct loads){.l = l};
    for (uint32_t i = 0; i < r->stores.count; i++) {
        const struct ig_row_store *s = &r->stores.at[i];
        if (s->pass == r->passes && !collect(out, bind(l, s->value, place))) return false;
    }
    return true;
}

static void load_constants(struct ig_row_lines *l, struct ig_stmt *body) {
    struct ig_row *r = l->r;
    ig_x at, lane = num(r, 0);
    struct loads loads;
    int64_t threads = l->lanes ? l->lanes : r->kernel->threads, each = (l->n + threads - 1) / threads;
    if (!l->few || l->n < 2 || r->passes == 0 || l->blocks > 1) return;
    struct ig_stmt *loop = ig_s_for(r->k, body, IG_FOR_SIMD, num(r, 0), num(r, l->n / l->vector), num(r, 1), &at);
    struct ig_stmt *inner = loop;
    l->at = at;
    if (l->vector > 1) inner = ig_s_for(r->k, loop, IG_FOR_VECTOR, num(r, 0), num(r, l->vector), num(r, 1), &lane);
    split_place(l, at, lane);
    ig_x place = ig_x_add(r->k, ig_x_mul(r->k, at, num(r, l->vector)), lane);
    bool few = collect_last(l, place, &loads) && loads.count > 0 && loads.count * each <= EARLY_REGISTERS;
    if (!few) {
        body->body.count--; /* remove the empty loop */
        return;
    }
    for (int i = 0; i < loads.count; i++) {
        enum ingot_dtype dtype = ig_x_look(r->k, loads.at[i])->dtype;
        l->early[i] = ig_loops_spread(r->k, dtype, l->n, 1, ig_format(r->graph->job, "early%d", i));
        r->k->buffers.at[l->early[i]].width = l->vector;
        ig_s_store(r->k, inner, l->early[i], place, loads.at[i]);
    }
    l->n_early = loads.count;
}

static ig_x take_constants(struct ig_row_lines *l, ig_x x, ig_x place) {
    struct loads loads;
    ig_x to[MOST_EARLY];
    if (l->n_early == 0) return x;
    IG_ASSERT(l->r->graph->job, collect_last(l, place, &loads) && loads.count == l->n_early);
    for (int i = 0; i < loads.count; i++)
        to[i] = ig_x_load(l->r->k, l->early[i], place);
    return ig_x_substitute(l->r->k, x, loads.at, to, loads.count);
}

/* ---- Passes ------------------------------------------------------------------------------------------------------ */

static void emit_element(struct ig_row_lines *l, struct ig_stmt *body, int pass, ig_x place) {
    struct ig_row *r = l->r;
    for (uint32_t i = 0; i < r->stores.count; i++) {
        const struct ig_row_store *s = &r->stores.at[i];
        if (s->pass != pass) continue;
        ig_x value = bind(l, s->value, place);
        if (pass == r->passes) value = take_constants(l, value, place);
        ig_s_store(r->k, body, s->buffer, bind(l, s->position, place), value);
    }
    for (uint32_t i = 0; i < r->steps.count; i++) {
        const struct ig_row_step *step = &r->steps.at[i];
        if (step->pass == pass) ig_s_update(r->k, body, step->acc, step->update, bind(l, step->term, place));
    }
}

static void emit_pass(struct ig_row_lines *l, struct ig_stmt *body, int pass) {
    struct ig_row *r = l->r;
    bool work = false;
    for (uint32_t i = 0; i < r->steps.count; i++) {
        const struct ig_row_step *step = &r->steps.at[i];
        if (step->pass != pass) continue;
        ig_s_acc_declare(r->k, body, step->acc, step->dtype, ig_row_neutral(r, step));
        work = true;
    }
    for (uint32_t i = 0; i < r->stores.count; i++)
        work = work || r->stores.at[i].pass == pass;
    if (!work) return;
    ig_x at, lane = num(r, 0);
    ig_dim count = ig_dim_div(r->k->dims, r->count, ig_dim_const(r->k->dims, l->vector));
    ig_x from = num(r, 0), to = dim(r, count), first = num(r, 0);
    if (l->blocks > 1 && l->part >= 0) {
        to = num(r, l->part / l->vector);
        first = ig_x_mul(r->k, l->share, to);
    } else if (l->blocks > 1) {
        ig_x part = dim(r, ig_dim_ceil_div(r->k->dims, count, ig_dim_const(r->k->dims, l->blocks)));
        from = ig_x_mul(r->k, l->share, part);
        to = ig_x_min(r->k, ig_x_add(r->k, from, part), to);
    }
    body = ig_s_for(r->k, body, IG_FOR_SIMD, from, to, num(r, 1), &at);
    l->at = at;
    if (l->vector > 1) body = ig_s_for(r->k, body, IG_FOR_VECTOR, num(r, 0), num(r, l->vector), num(r, 1), &lane);
    split_place(l, ig_x_add(r->k, first, at), lane);
    emit_element(l, body, pass, ig_x_add(r->k, ig_x_mul(r->k, at, num(r, l->vector)), lane));
}

/* The stores made once per row, after all passes, by the first block of a cluster. */
static void emit_results(struct ig_row_lines *l, struct ig_stmt *body) {
    struct ig_row *r = l->r;
    bool any = false;
    for (uint32_t i = 0; i < r->stores.count; i++)
        any = any || r->stores.at[i].pass > r->passes;
    if (!any) return;
    if (l->blocks > 1) body = ig_s_if(r->k, body, ig_x_less(r->k, l->share, num(r, 1)));
    for (int d = r->kept; d < r->nest.rank; d++)
        l->vars[d] = num(r, 0);
    emit_element(l, body, r->passes + 1, num(r, 0));
}

/* The tile loop and, for teams, the loop over the tile's rows inside it. */
static struct ig_stmt *row_loop(struct ig_row_lines *l, ig_x *out_row) {
    struct ig_row *r = l->r;
    struct ig_dims *dims = r->k->dims;
    ig_dim rows = ig_dim_product(dims, r->nest.extent, r->kept);
    int64_t each = l->lanes ? r->kernel->threads / l->lanes : 1;
    r->kernel->tiles = ig_dim_ceil_div(dims, rows, ig_dim_const(dims, each));
    if (l->blocks > 1) r->kernel->tiles = ig_dim_mul(dims, rows, ig_dim_const(dims, l->blocks));
    struct ig_stmt *body = ig_s_for(r->k, NULL, IG_FOR_TILE, num(r, 0), dim(r, r->kernel->tiles), num(r, 1), out_row);
    ig_s_name(r->k, *out_row, l->lanes ? "tile" : "row");
    if (l->blocks > 1) {
        l->share = ig_x_split_off(r->k, out_row, ig_dim_const(dims, l->blocks));
        r->kernel->cluster = l->blocks;
        r->kernel->shared_bytes = SHARED_BYTES;
    }
    if (l->halves != IG_NO_VALUE) r->kernel->shared_bytes = (int)(SHARED_BYTES + 2 * l->part);
    if (r->kernel->shared_bytes < l->least) r->kernel->shared_bytes = l->least;
    if (!l->lanes) return body;
    ig_x first = ig_x_mul(r->k, *out_row, num(r, each));
    ig_x end = ig_x_min(r->k, ig_x_add(r->k, first, num(r, each)), dim(r, rows));
    body = ig_s_for(r->k, body, IG_FOR_TEAM, first, end, num(r, 1), out_row);
    body->lanes = l->lanes;
    ig_s_name(r->k, *out_row, "row");
    return body;
}

static void emit_call(struct ig_row_lines *l, struct ig_stmt *body, const struct ig_row_call *call) {
    ig_s_call(l->r->k, body, call->function, call->args, call->n_args);
}

/* The block's part of the row comes to shared memory. */
static void emit_copy(struct ig_row_lines *l, struct ig_stmt *body, ig_x row) {
    struct ig_row *r = l->r;
    ig_x from = ig_x_mul(r->k, row, num(r, l->n));
    if (l->blocks > 1) from = ig_x_add(r->k, from, ig_x_mul(r->k, l->share, num(r, l->part)));
    const struct ig_call_arg args[] = {
        {r->cache_of[l->halves], num(r, 0)}, {r->lower.buffer_of[l->halves], from}, {-1, num(r, 2 * l->part)}};
    ig_s_call(r->k, body, "ig_keep", args, 3);
}

/* The dims that are kept, of row number `row`. */
static void split_row(struct ig_row_lines *l, ig_x row) {
    struct ig_row *r = l->r;
    for (int d = r->kept - 1; d > 0; d--) {
        l->vars[d] = ig_x_mod(r->k, row, dim(r, r->nest.extent[d]));
        row = ig_x_div(r->k, row, dim(r, r->nest.extent[d]));
    }
    if (r->kept > 0) l->vars[0] = row;
}

static void emit(struct ig_row_lines *l) {
    struct ig_row *r = l->r;
    ig_x row;
    struct ig_stmt *body = row_loop(l, &row);
    if (l->copied) emit_copy(l, body, row);
    split_row(l, row);
    fetch_constants(l);
    if (l->arrival) emit_call(l, body, &l->arrival->first);
    load_constants(l, body);
    emit_pass(l, body, -1);
    if (l->arrival) emit_call(l, body, &l->arrival->arrives);
    for (int pass = 0; pass <= r->passes; pass++)
        emit_pass(l, body, pass);
    emit_results(l, body);
    if (l->arrival) emit_call(l, body, &l->arrival->last);
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

int ig_row_vector_cuda(struct ig_row *r) {
    int *positions = IG_NEW_ARRAY(r->k->job, int, r->stores.count + 1);
    int *buffers = IG_NEW_ARRAY(r->k->job, int, r->stores.count + 1), count = 0;
    for (uint32_t i = 0; i < r->stores.count; i++) {
        if (r->stores.at[i].pass > r->passes) continue;
        positions[count] = r->stores.at[i].position;
        buffers[count++] = r->stores.at[i].buffer;
    }
    if (r->nest.rank == r->kept) return 1;
    int vector = ig_nest_vector(&r->nest, positions, buffers, count, false);
    return vector > MOST_VECTOR ? MOST_VECTOR : vector;
}

/* Each lane takes at least one vector. */
static void fit_lanes(struct ig_row_lines *l) {
    while (l->lanes > 1 && l->n > 0 && (int64_t)l->lanes * l->vector > l->n && l->lanes / 2 * l->vector >= l->n)
        l->lanes /= 2;
}

/* Of the registers that were chosen before it was known. */
static void set_widths(struct ig_row_lines *l) {
    for (uint32_t i = 0; i < l->r->k->buffers.count; i++) {
        struct ig_buffer *b = &l->r->k->buffers.at[i];
        if (b->kind == IG_BUFFER_SPREAD) b->width = l->vector;
    }
}

static bool lines_prepare(struct ig_row_lines *l, struct ig_row *r, const struct ig_target *target) {
    *l = (struct ig_row_lines){.r = r, .n = -1, .blocks = 1, .slots = 1, .halves = IG_NO_VALUE};
    if (!r->regular || r->columns) return false;
    ig_dim_is_const(r->k->dims, r->count, &l->n);
    choose_threads(l, target);
    choose_kept(l);
    if (!ig_row_prepare(r, 0)) return false;
    l->vector = ig_row_vector_cuda(r);
    fit_lanes(l);
    if (l->lanes) r->kernel->threads = team_threads(l->lanes, guess_rows(r));
    l->few = are_few(guess_rows(r), l->lanes ? l->lanes : r->kernel->threads);
    make_model(l);
    set_widths(l);
    return true;
}

/* ---- Rows of which a value arrives ------------------------------------------------------------------------------- */

/* The other operands are loaded while it is on its way. */
static void keep_operands(struct ig_row *r, int64_t elements, int each) {
    int room = REGISTERS / each;
    const uint32_t *passes = ig_row_passes_of(r);
    for (uint32_t i = 0; i < r->region->inputs.count && room > 0; i++) {
        ig_value v = r->region->inputs.at[i];
        const struct ig_type *type = ig_type_of(r->graph, v);
        if (passes[v] == 0 || ig_info(r->graph, v)->is_const || !ig_row_is_space_shape(r, type)) continue;
        const char *name = ig_format(r->graph->job, "kept%u", r->k->buffers.count);
        r->cache_of[v] = ig_loops_spread(r->k, ig_dtype_compute(type->dtype), elements, 1, name);
        r->cache_pass[v] = -1;
        room--;
    }
}

bool ig_row_arrived_cuda(struct ig_row *r, const struct ig_row_arrival *arrival) {
    struct ig_row_lines l = {
        .r = r, .n = -1, .blocks = 1, .slots = 1, .halves = IG_NO_VALUE, .few = true, .arrival = arrival};
    if (!r->regular || r->columns || !ig_dim_is_const(r->k->dims, r->count, &l.n) || l.n < 2) return false;
    l.part = l.n;
    r->cache_of[arrival->value] = arrival->buffer;
    r->cache_pass[arrival->value] = -2;
    const int each = (int)((l.n + r->kernel->threads - 1) / r->kernel->threads);
    keep_operands(r, l.n, each);
    ig_row_keep_cuda(r, l.n, each);
    if (!ig_row_prepare(r, 0)) return false;
    l.vector = ig_row_vector_cuda(r);
    set_widths(&l);
    emit(&l);
    r->kernel->tactic = ig_format(r->graph->job, "rows, %d passes, blocks of %d, %d elements at once%s", r->passes + 1,
                                  r->kernel->threads, l.vector, l.n_early ? ", constants early" : "");
    return true;
}

/* ---- Rows within another kernel ---------------------------------------------------------------------------------- */

struct ig_row_lines *ig_row_within_cuda(struct ig_row *r, bool single) {
    struct ig_row_lines *l = IG_NEW(r->k->job, struct ig_row_lines);
    *l = (struct ig_row_lines){.r = r, .n = -1, .blocks = 1, .slots = 1, .halves = IG_NO_VALUE, .few = true};
    if (!r->regular || r->columns || !ig_dim_is_const(r->k->dims, r->count, &l->n) || l->n < 2) return NULL;
    l->part = l->n;
    l->lanes = single ? 0 : LANES;
    const int threads = single ? r->kernel->threads : LANES;
    ig_row_keep_cuda(r, l->n, (int)((l->n + threads - 1) / threads));
    if (!ig_row_prepare(r, 0)) return NULL;
    l->vector = ig_row_vector_cuda(r);
    set_widths(l);
    return l;
}

void ig_row_within_constants_cuda(struct ig_row_lines *l, struct ig_stmt *body) {
    fetch_constants(l);
    if (!l->lanes) load_constants(l, body);
}

void ig_row_within_emit_cuda(struct ig_row_lines *l, struct ig_stmt *body) {
    struct ig_row *r = l->r;
    ig_x row = num(r, 0);
    if (l->lanes) {
        body = ig_s_for(r->k, body, IG_FOR_TEAM, row, dim(r, ig_row_results(r)), num(r, 1), &row);
        body->lanes = l->lanes;
    }
    split_row(l, row);
    if (l->lanes) load_constants(l, body);
    for (int pass = 0; pass <= r->passes; pass++)
        emit_pass(l, body, pass);
}

/* ---- Choosing among schedules ------------------------------------------------------------------------------------ */

struct ig_kernel *ig_kernel_row_cuda(struct ig_graph *graph, const struct ig_region *region,
                                     const struct ig_target *target, const struct ig_sizes *at) {
    struct ig_row r;
    struct ig_row_lines l;
    ig_row_init(&r, graph, region, at, true);
    if (r.regular && r.columns && ig_row_columns_cuda(&r)) {
        ig_row_finish(&r);
        return r.kernel;
    }
    if (r.regular && !r.columns) {
        if (ig_row_groups_cuda(&r, target)) {
            ig_row_finish(&r);
            return r.kernel;
        }
        ig_row_init(&r, graph, region, at, true);
    }
    if (lines_prepare(&l, &r, target)) {
        emit(&l);
        const char *who =
            l.lanes ? ig_format(graph->job, "teams of %d in blocks of %d", l.lanes, r.kernel->threads)
                    : ig_format(graph->job, "%sblocks of %d",
                                l.blocks > 1 ? ig_format(graph->job, "%d ", l.blocks) : "", r.kernel->threads);
        r.kernel->tactic =
            ig_format(graph->job, "rows, %d passes, %s, %d elements at once%s%s", r.passes + 1, who, l.vector,
                      l.n_early ? ", constants early" : "", l.halves == IG_NO_VALUE ? "" : ", kept in shared memory");
    } else {
        ig_row_init(&r, graph, region, at, false);
        ig_row_staged(&r);
    }
    ig_row_finish(&r);
    return r.kernel;
}
