/*
 * Rows whose innermost axis is kept, on GPUs (a mean over the pixels of a channels-last picture): a block does
 * neighbouring columns, which a warp reads coalesced, and divides their elements among its warps. The threads' partial
 * results meet in shared memory. See row.h.
 */
#include "kernel/cuda/row.h"

#include <math.h>

#include "kernel/kept.h"

enum {
    THREADS = 256,
    MANY_THREADS = 512,  /* if rows are long */
    MOST_THREADS = 1024, /* if there are few blocks, too */
    MOST_COLUMNS = 64,   /* per block */
    LEAST_COLUMNS = 8,   /* per block: 32 bytes of f32, the unit of memory transfers */
    LEAST_ACROSS = 4,    /* threads side by side */
    ENOUGH_BLOCKS = IG_CUDA_PROCESSORS,
    LONG_SHARE = 8,    /* rows per thread above which another thread pays off */
    MOST_PARTS = 8192, /* partial results in shared memory */
    MOST_VECTOR = 8,
    FEW_SHARES = 16, /* partial results per column that one thread combines */
    MOST_KEPT = 6,   /* values of a column that a thread keeps in registers */
};

struct columns {
    struct ig_row *r;
    struct problem *problem;
    int width, shares; /* columns per block; threads that share a column's rows */
    int vector;        /* columns per thread */
    ig_x first;        /* first column of the block */
    ig_dim along;      /* number of columns along the last kept dim */
    ig_x vars[IG_NEST_DIMS];
    int *partial; /* by step: array of one partial result per column and share */
    int *sums;    /* by step: a thread's partial results */
};

static ig_x num(struct columns *c, int64_t i) {
    return ig_x_index(c->r->k, i);
}

static ig_x dim(struct columns *c, ig_dim d) {
    return ig_x_dim(c->r->k, d);
}

/* Loops over `threads` threads with a column each; skips columns that do not exist. */
static struct ig_stmt *column_loop(struct columns *c, struct ig_stmt *body, int threads, ig_x *out_thread,
                                   ig_x *out_lane) {
    struct ig_loops *k = c->r->k;
    body = ig_s_for(k, body, IG_FOR_SIMD, num(c, 0), num(c, threads), num(c, 1), out_thread);
    *out_lane = ig_x_mod(k, *out_thread, num(c, c->width));
    ig_x column = ig_x_add(k, c->first, *out_lane);
    if (c->r->kept > 0) c->vars[c->r->kept - 1] = column;
    ig_x exists = ig_x_less(k, column, dim(c, c->along));
    return k->x.at[exists].kind == IG_X_INT ? body : ig_s_if(k, body, exists);
}

static ig_x bind(struct columns *c, int which, ig_x lane) {
    ig_x x = ig_nest_bind(&c->r->nest, which, c->vars);
    return ig_x_substitute(c->r->k, x, &c->r->lane, &lane, 1);
}

/* The positions along the reduced dims of element `at` of the row. */
static void split_place(struct columns *c, ig_x at) {
    struct ig_row *r = c->r;
    for (int d = r->nest.rank - 1; d > r->kept; d--) {
        c->vars[d] = ig_x_mod(r->k, at, dim(c, r->nest.extent[d]));
        at = ig_x_div(r->k, at, dim(c, r->nest.extent[d]));
    }
    if (r->nest.rank > r->kept) c->vars[r->kept] = at;
}

static void emit_stores(struct columns *c, struct ig_stmt *body, int pass, ig_x lane) {
    struct ig_row *r = c->r;
    for (uint32_t i = 0; i < r->stores.count; i++) {
        const struct ig_row_store *s = &r->stores.at[i];
        if (s->pass == pass) ig_s_store(r->k, body, s->buffer, bind(c, s->position, lane), bind(c, s->value, lane));
    }
}

/* What a thread accumulates: the columns of the block from first * vector on, of every `shares`-th row. What does not depend on
 * the row, such as the root of a variance, is kept: expressions are made for a row `row` and a column `column` of the thread's. */
struct part {
    struct columns *c;
    int pass;
    ig_x thread, first, share;
    ig_x row, column, sum;
    struct ig_kept kept;
};

/* The place of a column of the part's within the block. */
static ig_x lane_of(const struct part *p, ig_x column) {
    struct ig_loops *k = p->c->r->k;
    return ig_x_add(k, ig_x_mul(k, p->first, num(p->c, p->c->vector)), column);
}

/* Its place among the threads' sums. */
static ig_x sum_of(const struct part *p, ig_x column) {
    struct ig_loops *k = p->c->r->k;
    return ig_x_add(k, ig_x_mul(k, p->thread, num(p->c, p->c->vector)), column);
}

/* A loop over the part's columns; `column`: its number among them, `sum`: its place among the threads' sums. */
static struct ig_stmt *vector_loop(const struct part *p, struct ig_stmt *body, ig_x *out_column, ig_x *out_sum) {
    struct columns *c = p->c;
    *out_column = num(c, 0);
    if (c->vector > 1)
        body = ig_s_for(c->r->k, body, IG_FOR_VECTOR, num(c, 0), num(c, c->vector), num(c, 1), out_column);
    *out_sum = sum_of(p, *out_column);
    return body;
}

static void clear_sums(const struct part *p, struct ig_stmt *body) {
    struct ig_row *r = p->c->r;
    ig_x column, sum;
    body = vector_loop(p, body, &column, &sum);
    for (uint32_t i = 0; i < r->steps.count; i++) {
        const struct ig_row_step *step = &r->steps.at[i];
        if (step->pass == p->pass) ig_s_store(r->k, body, p->c->sums[i], sum, ig_row_neutral(r, step));
    }
}

static bool is_kept(const void *user, ig_x x) {
    const struct part *p = user;
    const struct ig_x_node *n = ig_x_look(p->c->r->k, x);
    return n->kind != IG_X_FLOAT && !ig_x_contains(p->c->r->k, x, p->row);
}

/* An expression of the row's nest, for p->row and p->column. */
static ig_x bind_anew(const struct part *p, int which) {
    struct columns *c = p->c;
    ig_x lane = lane_of(p, p->column);
    if (c->r->kept > 0) c->vars[c->r->kept - 1] = ig_x_add(c->r->k, c->first, lane);
    split_place(c, p->row);
    return bind(c, which, lane);
}

/* The same for another row and column, from what is kept. */
static ig_x bind_kept(const struct part *p, int which, ig_x row, ig_x column) {
    ig_x from[] = {p->row, p->column}, to[] = {row, column};
    ig_x x = ig_kept_read(&p->kept, bind_anew(p, which), p->sum);
    return ig_x_substitute(p->c->r->k, x, from, to, 2);
}

/* Fills in what is kept, in a loop over the part's columns. */
static void keep(struct part *p, struct ig_stmt *body) {
    struct columns *c = p->c;
    struct ig_row *r = c->r;
    ig_x column, sum;
    p->row = ig_x_free_var(r->k, r->count);
    p->column = ig_x_free_var(r->k, ig_dim_const(r->k->dims, c->vector));
    p->sum = sum_of(p, p->column);
    p->kept = (struct ig_kept){.k = r->k, .lanes = c->vector, .most = MOST_KEPT, .wanted = is_kept, .user = p};
    p->kept.threads = (int64_t)(c->width / c->vector) * c->shares;
    for (uint32_t i = 0; i < r->steps.count; i++) {
        if (r->steps.at[i].pass == p->pass) ig_kept_add(&p->kept, bind_anew(p, r->steps.at[i].term));
    }
    for (uint32_t i = 0; i < r->stores.count; i++) {
        if (r->stores.at[i].pass == p->pass) ig_kept_add(&p->kept, bind_anew(p, r->stores.at[i].value));
    }
    if (p->kept.values.count == 0) return;
    body = vector_loop(p, body, &column, &sum);
    for (uint32_t i = 0; i < p->kept.values.count; i++) {
        const struct ig_kept_value *v = &p->kept.values.at[i];
        ig_s_store(r->k, body, v->array, sum, ig_x_substitute(r->k, v->value, &p->column, &column, 1));
    }
}

static void add_row(const struct part *p, struct ig_stmt *body, ig_x at) {
    struct columns *c = p->c;
    struct ig_row *r = c->r;
    ig_x column, sum;
    body = vector_loop(p, body, &column, &sum);
    for (uint32_t i = 0; i < r->stores.count; i++) {
        const struct ig_row_store *s = &r->stores.at[i];
        if (s->pass != p->pass) continue;
        ig_s_store(r->k, body, s->buffer, bind_kept(p, s->position, at, column), bind_kept(p, s->value, at, column));
    }
    for (uint32_t i = 0; i < r->steps.count; i++) {
        const struct ig_row_step *step = &r->steps.at[i];
        if (step->pass != p->pass) continue;
        ig_x so_far = ig_x_load(r->k, c->sums[i], sum), term = bind_kept(p, step->term, at, column);
        ig_s_store(r->k, body, c->sums[i], sum, ig_x_map2(r->k, step->update, so_far, term));
    }
}

static void hand_over_sums(const struct part *p, struct ig_stmt *body) {
    struct columns *c = p->c;
    struct ig_row *r = c->r;
    ig_x column, sum;
    body = vector_loop(p, body, &column, &sum);
    ig_x at = ig_x_add(r->k, ig_x_mul(r->k, p->share, num(c, c->width)), lane_of(p, column));
    for (uint32_t i = 0; i < r->steps.count; i++) {
        const struct ig_row_step *step = &r->steps.at[i];
        if (step->pass != p->pass) continue;
        ig_s_store(r->k, body, c->shares > 1 ? c->partial[i] : step->array, at, ig_x_load(r->k, c->sums[i], sum));
    }
}

static void emit_share(struct columns *c, struct ig_stmt *body, int pass) {
    struct ig_loops *k = c->r->k;
    ig_x units = num(c, c->width / c->vector), at;
    struct part p = {.c = c, .pass = pass};
    body = ig_s_for(k, body, IG_FOR_SIMD, num(c, 0), ig_x_mul(k, units, num(c, c->shares)), num(c, 1), &p.thread);
    p.first = ig_x_mod(k, p.thread, units);
    p.share = ig_x_div(k, p.thread, units);
    ig_x column = ig_x_add(k, c->first, ig_x_mul(k, p.first, num(c, c->vector)));
    ig_x exists = ig_x_less(k, column, dim(c, c->along));
    if (k->x.at[exists].kind != IG_X_INT) body = ig_s_if(k, body, exists);
    clear_sums(&p, body);
    keep(&p, body);
    struct ig_stmt *rows = ig_s_for(k, body, IG_FOR_SERIAL, p.share, dim(c, c->r->count), num(c, c->shares), &at);
    add_row(&p, rows, at);
    hand_over_sums(&p, body);
}

/* Combines the partial results of `from` threads per column into those of `to` threads. */
static void emit_meeting(struct columns *c, struct ig_stmt *body, int pass, int from, int to) {
    struct ig_row *r = c->r;
    struct ig_loops *k = r->k;
    ig_x thread, lane, share;
    body = column_loop(c, body, c->width * to, &thread, &lane);
    for (uint32_t i = 0; i < r->steps.count; i++) {
        const struct ig_row_step *step = &r->steps.at[i];
        if (step->pass != pass) continue;
        int acc = ig_s_acc(k, body, step->dtype, ig_x_load(k, c->partial[i], thread));
        struct ig_stmt *all = ig_s_for(k, body, IG_FOR_SERIAL, num(c, 1), num(c, from / to), num(c, 1), &share);
        ig_x at = ig_x_add(k, ig_x_mul(k, share, num(c, (int64_t)c->width * to)), thread);
        ig_s_update(k, all, acc, step->update, ig_x_load(k, c->partial[i], at));
        ig_s_store(k, body, to > 1 ? c->partial[i] : step->array, thread, ig_x_acc(k, acc, step->dtype));
    }
}

static void emit_pass(struct columns *c, struct ig_stmt *body, int pass) {
    struct ig_row *r = c->r;
    bool steps = false, stores = false;
    for (uint32_t i = 0; i < r->steps.count; i++)
        steps = steps || r->steps.at[i].pass == pass;
    for (uint32_t i = 0; i < r->stores.count; i++)
        stores = stores || r->stores.at[i].pass == pass;
    if (steps || stores) emit_share(c, body, pass);
    if (!steps || c->shares == 1) return;
    int shares = c->shares;
    if (shares > 2 * FEW_SHARES) {
        emit_meeting(c, body, pass, shares, FEW_SHARES);
        shares = FEW_SHARES;
    }
    emit_meeting(c, body, pass, shares, 1);
}

/* ---- Choosing ---------------------------------------------------------------------------------------------------- */

/* The shape of blocks. */
struct shape {
    int width, shares, vector;
};

static int threads_of(const struct shape *s) {
    return s->width / s->vector * s->shares;
}

/* For `columns` columns of `count` elements, by the number of reductions. Blocks are wide enough for whole memory
 * transfers and narrow enough to be many, but no wider than there are columns. A thread has as many columns as one access
 * holds, up to `vector`, if a block is left with some threads side by side and all of them are many. */
static struct shape choose_shape(int64_t columns, int64_t count, uint32_t n_steps, int vector) {
    struct shape s = {.width = MOST_COLUMNS, .vector = vector};
    while (s.width > LEAST_COLUMNS && columns / s.width < ENOUGH_BLOCKS)
        s.width /= 2;
    while (s.width > 1 && s.width / 2 >= columns)
        s.width /= 2;
    while (s.vector > 1 && s.width / s.vector < LEAST_ACROSS)
        s.vector /= 2;
    s.shares = THREADS / (s.width / s.vector);
    while (s.shares > 1 && s.shares * 2 > count)
        s.shares /= 2;
    while (s.vector > 1 && threads_of(&s) < THREADS && columns / s.width * threads_of(&s) < ENOUGH_BLOCKS * THREADS)
        s.vector /= 2;
    int most = columns / s.width < ENOUGH_BLOCKS ? MOST_THREADS : MANY_THREADS;
    while (threads_of(&s) < most && count / s.shares > LONG_SHARE)
        s.shares *= 2;
    while (s.shares > 1 && s.width * s.shares * (int64_t)n_steps > MOST_PARTS)
        s.shares /= 2;
    /* Short rows: take more columns instead. */
    while (threads_of(&s) < 32)
        s.width *= 2;
    if (s.shares == 1 && columns >= THREADS / 2 * ENOUGH_BLOCKS) s.width = THREADS / 2 * s.vector;
    return s;
}

struct problem {
    struct shape shape;
    uint32_t n_steps;
    double element; /* bytes */
};

/* Microseconds: a thread reads its share of a column, an element at a time, each some 40 ns after the one before; or the
 * memory is read at 2.5 TB/s, if that takes longer. */
static double cost(const struct ig_kernel *kernel, const int64_t *sizes) {
    const struct problem *p = kernel->model.problem;
    double columns = (double)sizes[0], count = (double)sizes[1];
    double threads = threads_of(&p->shape);
    double blocks = columns / p->shape.width, resident = 2048 / threads < 16 ? 2048 / threads : 16;
    double turns = ceil(blocks / (IG_CUDA_PROCESSORS * (resident < 1 ? 1 : resident)));
    double walk = turns * count / p->shape.shares * 0.04, bytes = columns * count * p->element / 2.5e6;
    return 3.5 + (walk > bytes ? walk : bytes) + (p->shape.shares > 1 ? 0.5 : 0) + p->shape.shares * 0.002;
}

/* How many neighbouring columns an access of 16 bytes holds of a value; 1: it has not the shape of all rows. */
static int columns_of_access(const struct ig_row *r, ig_value v) {
    const struct ig_type *type = ig_type_of(r->graph, v);
    return ig_row_is_space_shape(r, type) ? 16 / (int)ingot_dtype_size(type->dtype) : 1;
}

/* The same of the narrowest operand, read as it is or through views, where there are so many along all dims behind those of the rows. */
static int vector_of(const struct ig_row *r) {
    int vector = 1, first = r->space.rank;
    while (first > 0 && !r->reduced[first - 1])
        first--;
    ig_dim along = ig_dim_product(r->k->dims, r->space.dim + first, r->space.rank - first);
    for (uint32_t i = 0; i < r->region->inputs.count; i++) {
        int fit = columns_of_access(r, r->region->inputs.at[i]);
        if (fit > vector) vector = fit;
    }
    for (uint32_t i = 0; i < r->region->nodes.count; i++) {
        const struct ig_node *n = &r->graph->nodes.at[r->region->nodes.at[i]];
        int fit = ig_op_info(n->op)->family == IG_FAMILY_VIEW ? columns_of_access(r, n->out) : 1;
        if (fit > vector) vector = fit;
    }
    while (vector > 1 && (vector > MOST_VECTOR || !ig_dim_divides(r->k->dims, ig_dim_const(r->k->dims, vector), along)))
        vector /= 2;
    return vector;
}

static void take_shape(struct columns *c) {
    const struct shape *shape = &c->problem->shape;
    c->width = shape->width;
    c->vector = shape->vector;
    c->shares = shape->shares;
    c->r->kernel->threads = threads_of(shape);
}

static void choose(struct columns *c) {
    struct ig_row *r = c->r;
    ig_dim columns = ig_row_results(r), one = ig_dim_const(r->k->dims, 1);
    struct problem *p = c->problem = IG_NEW(r->k->job, struct problem);
    p->n_steps = r->steps.count;
    p->element = (double)ingot_dtype_size(r->space.dtype);
    p->shape = choose_shape(ig_sizes_guess(r->at, columns), ig_sizes_guess(r->at, r->count), p->n_steps, vector_of(r));
    take_shape(c);
    r->kernel->model = (struct ig_kernel_model){{columns, r->count, one, one}, p, cost};
}

/* Views may divide the last dim, so that it has fewer columns side by side than expected: no thread's go beyond them. */
static void fit_vector(struct columns *c) {
    struct ig_dims *dims = c->r->k->dims;
    struct shape *s = &c->problem->shape;
    int last = c->r->kept - 1;
    c->along = last >= 0 ? c->r->nest.extent[last] : ig_dim_const(dims, 1);
    while (s->vector > 1 && !ig_dim_divides(dims, ig_dim_const(dims, s->vector), c->along))
        s->vector /= 2;
    while (s->shares > 1 && threads_of(s) > MOST_THREADS)
        s->shares /= 2;
    take_shape(c);
}

static void add_partials(struct columns *c) {
    struct ig_row *r = c->r;
    c->partial = IG_NEW_ARRAY(r->k->job, int, r->steps.count + 1);
    c->sums = IG_NEW_ARRAY(r->k->job, int, r->steps.count + 1);
    int64_t threads = (int64_t)(c->width / c->vector) * c->shares;
    for (uint32_t i = 0; i < r->steps.count; i++)
        c->sums[i] =
            ig_loops_spread(r->k, r->steps.at[i].dtype, threads, c->vector, ig_format(r->k->job, "share%u", i));
    for (uint32_t i = 0; c->shares > 1 && i < r->steps.count; i++) {
        c->partial[i] = ig_loops_local(r->k, r->steps.at[i].dtype, (int64_t)c->width * c->shares,
                                       ig_format(r->k->job, "part%u", i));
    }
}

/* A tile is a position along the kept dims but the last, and a block of columns. */
static struct ig_stmt *tile_loop(struct columns *c) {
    struct ig_row *r = c->r;
    struct ig_dims *dims = r->k->dims;
    struct ig_nest *nest = &r->nest;
    int last = r->kept - 1;
    ig_dim blocks = ig_dim_ceil_div(dims, c->along, ig_dim_const(dims, c->width));
    r->kernel->tiles = blocks;
    for (int d = 0; d < last; d++)
        r->kernel->tiles = ig_dim_mul(dims, r->kernel->tiles, nest->extent[d]);
    ig_x tile;
    struct ig_stmt *body = ig_s_for(r->k, NULL, IG_FOR_TILE, num(c, 0), dim(c, r->kernel->tiles), num(c, 1), &tile);
    ig_s_name(r->k, tile, "tile");
    c->first = ig_x_mul(r->k, ig_x_mod(r->k, tile, dim(c, blocks)), num(c, c->width));
    ig_x rest = ig_x_div(r->k, tile, dim(c, blocks));
    for (int d = last - 1; d > 0; d--) {
        c->vars[d] = ig_x_mod(r->k, rest, dim(c, nest->extent[d]));
        rest = ig_x_div(r->k, rest, dim(c, nest->extent[d]));
    }
    if (last > 0) c->vars[0] = rest;
    return body;
}

bool ig_row_columns_cuda(struct ig_row *r) {
    struct columns c = {.r = r};
    choose(&c);
    if (!ig_row_prepare(r, c.width)) return false;
    fit_vector(&c);
    add_partials(&c);
    struct ig_stmt *body = tile_loop(&c);
    for (int pass = 0; pass <= r->passes; pass++)
        emit_pass(&c, body, pass);
    ig_x thread, lane;
    for (int d = r->kept; d < r->nest.rank; d++)
        c.vars[d] = num(&c, 0);
    body = column_loop(&c, body, c.width, &thread, &lane);
    emit_stores(&c, body, r->passes + 1, lane);
    r->kernel->way = IG_WAY_COLUMNS;
    r->kernel->tactic = ig_format(r->k->job, "columns, %d passes, blocks of %d, %d a thread, %d threads each",
                                  r->passes + 1, c.width, c.vector, c.shares);
    return true;
}
