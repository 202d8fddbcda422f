/*
 * Rows that lie side by side on GPUs, in pieces: groups of channels of a channels-last picture, whose pixels are reduced
 * too (GroupNorm). A block does neighbouring groups, whose pieces a warp reads coalesced, and divides the pixels among its
 * threads; each of these has a part of a group's piece. On Hopper the blocks of a cluster divide the pixels of the same
 * groups. Partial results meet in shared memory, in a fixed order. See row.h.
 */
#include <math.h>

#include "kernel/cuda/row.h"
#include "kernel/kept.h"

enum {
    THREADS = 512,
    MANY_THREADS = 1024, /* where each has a multiprocessor for itself and keeps nothing */
    LINE = 64,           /* elements of a pixel that a block reads side by side */
    LEAST_LINE = 16,     /* 32 bytes of f16, the unit of memory transfers */
    LONGEST_PIECE = 64,  /* elements of a group that lie together; longer pieces need no neighbours */
    LEAST_PIXELS = 64,
    MOST_BLOCKS = 8,       /* of a cluster */
    LONG_SHARE = 16,       /* elements per thread above which another block pays off */
    MOST_KEPT = 48,        /* elements per thread that stay in its registers */
    MOST_SLOTS = 2,        /* blocks of a multiprocessor */
    SLOT_BYTES = 34 << 10, /* of shared memory that a block takes besides what it keeps: MOST_BYTES and a little more */
    FEW_PARTS = 16,        /* partial results per group that one thread combines */
    MOST_STEPS = 4,
    MOST_VECTOR = 4,       /* more takes too many registers for what is the same for all pixels */
    MOST_VALUES = 6,       /* of each element along a pixel, that are the same for all pixels and kept in registers */
    MOST_BYTES = 32 << 10, /* of partial results in shared memory */
    AHEAD = 64,            /* bytes of a thread whose loads are under way together */
    MOST_PIXELS = 8,
    MOST_AHEAD = 2, /* inputs of each pixel */
};

struct groups {
    struct ig_row *r;
    struct ig_row_groups of;
    int threads;        /* of a block; about so many */
    int width;          /* groups per block */
    int vector;         /* elements per access: a part of a piece, or */
    int together;       /* so many whole ones; 1: one, or a part */
    int across, shares; /* threads side by side in a pixel; pixels at once */
    int least_shared;   /* bytes (ig_row_share_bytes) */
    int blocks;         /* of a cluster, which divide the pixels */
    int64_t part;       /* pixels per block if they are equally many and kept, else -1 */
    ig_value halves;    /* what is kept in shared memory; IG_NO_VALUE: in registers */
    int rounds;         /* of those, pixels per thread */
    ig_x first, block;  /* the first group; which block of the cluster */
    ig_x vars[IG_NEST_DIMS];
    int ahead[MOST_AHEAD]; /* registers for what is loaded ahead, in each pass anew; -1: none yet */
    int *partial;          /* by step: array of one partial result per group and part */
    int *sums;             /* by step: a thread's partial results */
};

static ig_x num(const struct groups *g, int64_t i) {
    return ig_x_index(g->r->k, i);
}

static ig_x dim(const struct groups *g, ig_dim d) {
    return ig_x_dim(g->r->k, d);
}

/* Threads that share a group's piece. */
static int64_t each_of(const struct groups *g) {
    return g->together > 1 ? 1 : g->of.piece / g->vector;
}

/* Parts of a group that threads of a block have. */
static int parts_of(const struct groups *g) {
    return g->shares * (int)each_of(g);
}

/* ---- Choosing ---------------------------------------------------------------------------------------------------- */

static bool find_groups(struct groups *g) {
    const struct ig_row *r = g->r;
    return ig_row_find_groups(r, &g->of) && g->of.piece <= LONGEST_PIECE &&
           ig_sizes_guess(r->at, g->of.pixels) >= LEAST_PIXELS && r->steps.count <= MOST_STEPS;
}

static int64_t count_tiles(const struct groups *g, int64_t pictures, int width) {
    return pictures * ((g->of.count + width - 1) / width);
}

/* Can clusters combine the results? */
static bool can_share(const struct ig_row *r, const struct ig_target *target) {
    for (uint32_t i = 0; i < r->steps.count; i++) {
        if (r->steps.at[i].dtype != INGOT_F32 || r->steps.at[i].update != IG_OP_add) return false;
    }
    return target->sm >= 90;
}

static void choose_width(struct groups *g, int64_t pictures) {
    int most = g->of.piece < LINE ? (int)(LINE / g->of.piece) : 1,
        least = (int)((LEAST_LINE + g->of.piece - 1) / g->of.piece);
    g->width = most < g->of.count ? most : (int)g->of.count;
    while (g->width / 2 >= least && count_tiles(g, pictures, g->width) * MOST_BLOCKS < IG_CUDA_PROCESSORS)
        g->width /= 2;
}

/* Of dynamic shared memory, for sums over a cluster. */
static int sums_bytes(const struct groups *g) {
    return (2 * g->width * 4 + 15) / 16 * 16;
}

/* Pixels that blocks keep if they are divided among so many; -1: they are read again. */
static int64_t kept_part(const struct groups *g, int blocks, ig_value halves, int limit, bool *out_in_registers) {
    int64_t pixels, line = g->width * g->of.piece;
    if (!ig_dim_is_const(g->r->k->dims, g->of.pixels, &pixels) || pixels % blocks != 0) return -1;
    int64_t elements = pixels / blocks * line;
    *out_in_registers = elements <= (int64_t)MOST_KEPT * THREADS;
    /* A thread's last pixel may be beyond the last. */
    bool fits = halves != IG_NO_VALUE && 2 * (elements + (int64_t)THREADS * MOST_VECTOR) + SLOT_BYTES <= limit;
    return *out_in_registers || fits ? pixels / blocks : -1;
}

struct choice {
    const struct groups *g;
    int64_t tiles, elements;
    double bytes; /* of an element */
    ig_value halves;
    int limit; /* bytes of shared memory */
};

static int slots_of(int64_t elements, int limit, bool in_shared_memory) {
    int64_t slots = in_shared_memory ? limit / (2 * elements + SLOT_BYTES) : MOST_SLOTS;
    return slots < 1 ? 1 : slots > MOST_SLOTS ? MOST_SLOTS : (int)slots;
}

static double time_of(const void *user, int blocks) {
    const struct choice *c = user;
    int64_t elements = c->elements / blocks;
    bool in_registers = true;
    if (elements < (int64_t)LONG_SHARE * THREADS) return -1;
    bool kept = kept_part(c->g, blocks, c->halves, c->limit, &in_registers) >= 0;
    int slots = ig_row_share_alone(c->tiles, blocks) ? 1 : slots_of(elements, c->limit, kept && !in_registers);
    return ig_row_share_time((double)c->tiles, blocks, slots, (double)elements * c->bytes * (kept ? 2 : 3));
}

/* How many blocks do a tile, and whether they read it once. */
static void choose_blocks(struct groups *g, const struct ig_target *target, int64_t pictures) {
    struct choice c = {.g = g, .tiles = count_tiles(g, pictures, g->width), .halves = ig_row_halves_cuda(g->r)};
    bool in_registers = true;
    c.elements = ig_sizes_guess(g->r->at, g->of.pixels) * g->width * g->of.piece;
    c.bytes = (double)ingot_dtype_size(g->r->space.dtype);
    c.limit = ig_target_shared_bytes(target);
    g->blocks = ig_row_share_choose(time_of, &c, can_share(g->r, target));
    g->part = kept_part(g, g->blocks, c.halves, c.limit, &in_registers);
    g->halves = in_registers ? IG_NO_VALUE : c.halves;
    int64_t each = (g->part * g->width * g->of.piece + THREADS - 1) / THREADS;
    bool in_shared_memory = g->part >= 0 && g->halves != IG_NO_VALUE;
    bool alone = ig_row_share_alone(c.tiles, g->blocks);
    g->least_shared = ig_row_share_bytes(target, c.tiles, g->blocks);
    g->threads = alone && g->part < 0 ? MANY_THREADS : THREADS;
    g->r->kernel->resident = alone ? 1 : slots_of(c.elements / g->blocks, c.limit, in_shared_memory);
    if (in_shared_memory) {
        ig_row_keep_halves_cuda(g->r, g->halves, sums_bytes(g), false);
    } else if (g->part >= 0) {
        ig_row_keep_cuda(g->r, THREADS, (int)each);
    }
}

struct problem {
    int blocks, slots;
    double pixel; /* bytes that a block moves per pixel in all passes */
};

static double cost(const struct ig_kernel *kernel, const int64_t *sizes) {
    const struct problem *p = kernel->model.problem;
    return 3 + ig_row_share_time((double)sizes[0], p->blocks, p->slots, (double)sizes[1] * p->pixel / p->blocks);
}

static void make_model(struct groups *g, ig_dim tiles) {
    struct ig_row *r = g->r;
    struct problem *p = IG_NEW(r->k->job, struct problem);
    *p = (struct problem){.blocks = g->blocks, .slots = r->kernel->resident};
    p->pixel = (double)(g->of.piece * g->width * (g->part < 0 ? 3 : 2)) * (double)ingot_dtype_size(r->space.dtype);
    ig_dim one = ig_dim_const(r->k->dims, 1);
    r->kernel->model = (struct ig_kernel_model){{tiles, g->of.pixels, one, one}, p, cost};
}

/* A register buffer of `each` elements per thread. */
static void set_registers(struct groups *g, int buffer, int each) {
    struct ig_buffer *b = &g->r->k->buffers.at[buffer];
    b->width = each;
    b->elements = (int64_t)each * g->across * g->shares;
}

/* ---- Loops ------------------------------------------------------------------------------------------------------- */

/* `place`: the element's, among those kept in registers. */
static ig_x bind(struct groups *g, int which, ig_x lane, ig_x place) {
    struct ig_row *r = g->r;
    ig_x from[] = {r->lane, r->place}, to[] = {lane, place};
    return ig_x_substitute(r->k, ig_nest_bind(&r->nest, which, g->vars), from, to, r->place == IG_NO_X ? 1 : 2);
}

/* The positions along the dims of a pixel. */
static void split_pixel(struct groups *g, ig_x at) {
    struct ig_row *r = g->r;
    for (int d = r->nest.rank - 2; d > r->kept; d--) {
        g->vars[d] = ig_x_mod(r->k, at, dim(g, r->nest.extent[d]));
        at = ig_x_div(r->k, at, dim(g, r->nest.extent[d]));
    }
    g->vars[r->kept] = at;
}

/* Skips what is done for group `lane` of the block if there is no such group. */
static struct ig_stmt *choose_group(struct groups *g, struct ig_stmt *body, ig_x lane) {
    struct ig_loops *k = g->r->k;
    ig_x group = ig_x_add(k, g->first, lane), exists = ig_x_less(k, group, num(g, g->of.count));
    g->vars[g->r->kept - 1] = group;
    return g->of.count % g->width == 0 ? body : ig_s_if(k, body, exists);
}

/* What a thread does in a pass: its part of a group, or several groups, of its pixels. What does not depend on the pixel, such as
 * the root of a variance, is kept: expressions are made for a pixel `at`, the thread's number `round`, and the access's element `j`.
 * Pixels that are not kept are loaded several at once: the compiler begins few by itself, and none before the last one's stores. */
struct part {
    struct groups *g;
    int pass;
    ig_x thread, share, lane, part; /* lane: its first group */
    ig_x at, round, j;
    struct ig_kept kept;
    ig_x loads[MOST_AHEAD]; /* what is loaded ahead, into g->ahead */
    int n_ahead, pixels;    /* inputs; pixels at once */
};

static bool is_kept(const void *user, ig_x x) {
    const struct part *p = user;
    const struct ig_loops *k = p->g->r->k;
    return ig_x_look(k, x)->kind != IG_X_FLOAT && !ig_x_contains(k, x, p->at) && !ig_x_contains(k, x, p->round);
}

/* Which of the thread's groups an element is in. */
static ig_x group_of(const struct part *p, ig_x j) {
    const struct groups *g = p->g;
    return g->together > 1 ? ig_x_div(g->r->k, j, num(g, g->of.piece)) : num(g, 0);
}

/* An expression of the row's nest, for p->at, p->round and p->j. */
static ig_x bind_anew(const struct part *p, int which) {
    struct groups *g = p->g;
    struct ig_row *r = g->r;
    struct ig_loops *k = r->k;
    ig_x vector = num(g, g->vector), element = ig_x_add(k, ig_x_mul(k, p->part, vector), p->j);
    if (g->together > 1) element = ig_x_mod(k, p->j, num(g, g->of.piece));
    ig_x group = ig_x_add(k, p->lane, group_of(p, p->j));
    ig_x own = ig_x_add(k, ig_x_mul(k, p->thread, num(g, g->rounds)), p->round);
    if (g->halves != IG_NO_VALUE)
        own = ig_x_add(k, ig_x_mul(k, p->round, num(g, (int64_t)g->across * g->shares)), p->thread);
    split_pixel(g, p->at);
    g->vars[r->kept - 1] = ig_x_add(k, g->first, group);
    g->vars[r->nest.rank - 1] = element;
    return bind(g, which, group, ig_x_add(k, ig_x_mul(k, own, vector), p->j));
}

static ig_x kept_at(const struct part *p, ig_x j) {
    struct ig_loops *k = p->g->r->k;
    return ig_x_add(k, ig_x_mul(k, p->thread, num(p->g, p->g->vector)), j);
}

/* Where the registers for pixel `round` of those loaded ahead are. */
static ig_x ahead_at(const struct part *p, ig_x round, ig_x j) {
    struct ig_loops *k = p->g->r->k;
    ig_x pixel = ig_x_add(k, ig_x_mul(k, p->thread, num(p->g, p->pixels)), round);
    return ig_x_add(k, ig_x_mul(k, pixel, num(p->g, p->g->vector)), j);
}

static ig_x at_pixel(const struct part *p, ig_x x, ig_x at, ig_x round, ig_x j) {
    ig_x from[] = {p->at, p->round, p->j}, to[] = {at, round, j};
    return ig_x_substitute(p->g->r->k, x, from, to, 3);
}

/* The same for another pixel and element, from what is kept and was loaded ahead. */
static ig_x bind_kept(const struct part *p, int which, ig_x at, ig_x round, ig_x j) {
    ig_x x = ig_kept_read(&p->kept, bind_anew(p, which), kept_at(p, p->j)), loaded[MOST_AHEAD];
    for (int i = 0; i < p->n_ahead; i++)
        loaded[i] = ig_x_load(p->g->r->k, p->g->ahead[i], ahead_at(p, p->round, p->j));
    return at_pixel(p, ig_x_substitute(p->g->r->k, x, p->loads, loaded, p->n_ahead), at, round, j);
}

/* A loop over the elements of an access. */
static struct ig_stmt *element_loop(const struct part *p, struct ig_stmt *body, ig_x *out_j) {
    const struct groups *g = p->g;
    *out_j = num(g, 0);
    return g->vector > 1 ? ig_s_for(g->r->k, body, IG_FOR_VECTOR, *out_j, num(g, g->vector), num(g, 1), out_j) : body;
}

/* Fills in what is kept. */
static void keep(struct part *p, struct ig_stmt *body) {
    struct groups *g = p->g;
    struct ig_row *r = g->r;
    struct ig_loops *k = r->k;
    ig_x j;
    p->at = ig_x_free_var(k, g->of.pixels);
    p->round = ig_x_free_var(k, ig_dim_const(k->dims, g->rounds > 0 ? g->rounds : 1));
    p->j = ig_x_free_var(k, ig_dim_const(k->dims, g->vector));
    p->kept = (struct ig_kept){.k = k, .lanes = g->vector, .most = MOST_VALUES, .wanted = is_kept, .user = p};
    p->kept.threads = (int64_t)g->across * g->shares;
    for (uint32_t i = 0; i < r->stores.count; i++) {
        if (r->stores.at[i].pass == p->pass) ig_kept_add(&p->kept, bind_anew(p, r->stores.at[i].value));
    }
    for (uint32_t i = 0; i < r->steps.count; i++) {
        if (r->steps.at[i].pass == p->pass) ig_kept_add(&p->kept, bind_anew(p, r->steps.at[i].term));
    }
    if (p->kept.values.count == 0) return;
    body = element_loop(p, body, &j);
    for (uint32_t i = 0; i < p->kept.values.count; i++) {
        const struct ig_kept_value *v = &p->kept.values.at[i];
        ig_s_store(k, body, v->array, kept_at(p, j), ig_x_substitute(k, v->value, &p->j, &j, 1));
    }
}

/* Finds what an expression loads for each pixel. */
static void find_loads(struct part *p, ig_x x) {
    struct ig_loops *k = p->g->r->k;
    const struct ig_x_node n = *ig_x_look(k, x);
    if (n.kind != IG_X_LOAD) {
        for (int i = 0; i < 3; i++) {
            if (n.args[i] != IG_NO_X) find_loads(p, n.args[i]);
        }
        return;
    }
    bool found = k->buffers.at[n.i].kind != IG_BUFFER_PARAM || !ig_x_contains(k, x, p->at);
    for (int i = 0; i < p->n_ahead && !found; i++)
        found = p->loads[i] == x;
    if (!found && p->n_ahead < MOST_AHEAD) p->loads[p->n_ahead++] = x;
}

static enum ingot_dtype loaded_type(const struct part *p, int i) {
    const struct ig_loops *k = p->g->r->k;
    return k->buffers.at[ig_x_look(k, p->loads[i])->i].dtype;
}

/* The registers of input i; passes use the same ones, if it has the same type in them. */
static void reserve_ahead(const struct part *p, int i) {
    struct groups *g = p->g;
    struct ig_loops *k = g->r->k;
    int *buffer = &g->ahead[i], each = p->pixels * g->vector;
    if (*buffer < 0 || k->buffers.at[*buffer].dtype != loaded_type(p, i) || k->buffers.at[*buffer].width != each)
        *buffer = ig_loops_spread(k, loaded_type(p, i), 1, 1, ig_format(k->job, "ahead%u", k->buffers.count));
    set_registers(g, *buffer, each);
}

static void choose_ahead(struct part *p) {
    struct groups *g = p->g;
    struct ig_row *r = g->r;
    int bytes = 0;
    if (g->part >= 0) return;
    for (uint32_t i = 0; i < r->stores.count; i++) {
        if (r->stores.at[i].pass == p->pass) find_loads(p, bind_anew(p, r->stores.at[i].value));
    }
    for (uint32_t i = 0; i < r->steps.count; i++) {
        if (r->steps.at[i].pass == p->pass) find_loads(p, bind_anew(p, r->steps.at[i].term));
    }
    for (int i = 0; i < p->n_ahead; i++)
        bytes += g->vector * (int)ingot_dtype_size(loaded_type(p, i));
    if (bytes > 0) p->pixels = bytes > AHEAD ? 1 : AHEAD / bytes < MOST_PIXELS ? AHEAD / bytes : MOST_PIXELS;
    for (int i = 0; i < p->n_ahead; i++)
        reserve_ahead(p, i);
}

static void emit_ahead(const struct part *p, struct ig_stmt *body, ig_x at, ig_x round, ig_x j) {
    struct ig_loops *k = p->g->r->k;
    for (int i = 0; i < p->n_ahead; i++)
        ig_s_store(k, body, p->g->ahead[i], ahead_at(p, round, j), at_pixel(p, p->loads[i], at, round, j));
}

static void emit_stores(const struct part *p, struct ig_stmt *body, ig_x at, ig_x round, ig_x j) {
    struct ig_row *r = p->g->r;
    for (uint32_t i = 0; i < r->stores.count; i++) {
        const struct ig_row_store *s = &r->stores.at[i];
        if (s->pass != p->pass) continue;
        ig_x position = bind_kept(p, s->position, at, round, j);
        ig_s_store(r->k, body, s->buffer, position, bind_kept(p, s->value, at, round, j));
    }
}

static void emit_steps(const struct part *p, struct ig_stmt *body, ig_x at, ig_x round, ig_x j) {
    struct groups *g = p->g;
    struct ig_row *r = g->r;
    ig_x sum = ig_x_add(r->k, ig_x_mul(r->k, p->thread, num(g, g->together)), group_of(p, j));
    for (uint32_t i = 0; i < r->steps.count; i++) {
        const struct ig_row_step *step = &r->steps.at[i];
        if (step->pass != p->pass) continue;
        ig_x so_far = ig_x_load(r->k, g->sums[i], sum), term = bind_kept(p, step->term, at, round, j);
        ig_s_store(r->k, body, g->sums[i], sum, ig_x_map2(r->k, step->update, so_far, term));
    }
}

/* Pixels of a thread: every `shares`-th of the block's, from `from` on. */
struct pixels {
    ig_x from, to, first;
    bool back; /* from the last to the first */
};

static ig_x turned(const struct groups *g, const struct pixels *p, ig_x at) {
    struct ig_loops *k = g->r->k;
    return p->back ? ig_x_sub(k, ig_x_add(k, p->from, ig_x_sub(k, p->to, num(g, 1))), at) : at;
}

/* A loop over a thread's pixels, or over the first of each p->pixels, where some are loaded ahead. `round`: the pixel's number among
 * them, if they are kept. Others are read once more in each pass, every other time from the last to the first: those that have
 * been read just before may still be in the cache. */
static struct ig_stmt *pixel_loop(const struct part *p, struct ig_stmt *body, struct pixels *out, ig_x *out_at,
                                  ig_x *out_round) {
    const struct groups *g = p->g;
    struct ig_loops *k = g->r->k;
    ig_x from = num(g, 0), to = dim(g, g->of.pixels);
    if (g->blocks > 1) {
        ig_x part = dim(g, ig_dim_ceil_div(k->dims, g->of.pixels, ig_dim_const(k->dims, g->blocks)));
        from = ig_x_mul(k, g->block, part);
        to = ig_x_min(k, ig_x_add(k, from, part), to);
    }
    *out = (struct pixels){.from = from, .to = to, .back = p->pass % 2 == 1};
    *out_round = num(g, 0);
    if (g->part < 0) {
        int64_t step = (int64_t)g->shares * (p->n_ahead > 0 ? p->pixels : 1);
        body = ig_s_for(k, body, IG_FOR_SERIAL, ig_x_add(k, from, p->share), to, num(g, step), &out->first);
        *out_at = turned(g, out, out->first);
        return body;
    }
    body = ig_s_for(k, body, IG_FOR_UNROLL, num(g, 0), num(g, g->rounds), num(g, 1), out_round);
    ig_x own = ig_x_add(k, p->share, ig_x_mul(k, *out_round, num(g, g->shares)));
    *out_at = ig_x_add(k, from, own);
    return g->part % g->shares == 0 ? body : ig_s_if(k, body, ig_x_less(k, own, num(g, g->part)));
}

/* A loop over the pixels that begin with a pixel of pixel_loop's. */
static struct ig_stmt *ahead_loop(const struct part *p, struct ig_stmt *body, const struct pixels *pixels, ig_x *out_at,
                                  ig_x *out_round) {
    const struct groups *g = p->g;
    struct ig_loops *k = g->r->k;
    body = ig_s_for(k, body, IG_FOR_UNROLL, num(g, 0), num(g, p->pixels), num(g, 1), out_round);
    ig_x own = ig_x_add(k, pixels->first, ig_x_mul(k, *out_round, num(g, g->shares)));
    *out_at = turned(g, pixels, own);
    return ig_s_if(k, body, ig_x_less(k, own, pixels->to));
}

/* Clears a thread's sums, or hands them over to the block. `own`: the number of its part; lane: its first group. */
static void emit_sums(struct groups *g, struct ig_stmt *body, int pass, ig_x thread, ig_x own, ig_x lane) {
    struct ig_row *r = g->r;
    struct ig_loops *k = r->k;
    ig_x u = num(g, 0);
    if (pass == r->passes) return; /* it only stores */
    if (g->together > 1) body = ig_s_for(k, body, IG_FOR_UNROLL, num(g, 0), num(g, g->together), num(g, 1), &u);
    ig_x sum = ig_x_add(k, ig_x_mul(k, thread, num(g, g->together)), u);
    for (uint32_t i = 0; i < r->steps.count; i++) {
        const struct ig_row_step *step = &r->steps.at[i];
        if (step->pass != pass) continue;
        if (own == IG_NO_X) {
            ig_s_store(k, body, g->sums[i], sum, ig_row_neutral(r, step));
            continue;
        }
        ig_x at = ig_x_add(k, ig_x_mul(k, own, num(g, g->width)), ig_x_add(k, lane, u));
        ig_s_store(k, body, g->partial[i], at, ig_x_load(k, g->sums[i], sum));
    }
}

static void emit_pixels(const struct part *p, struct ig_stmt *body) {
    struct pixels pixels;
    ig_x at, round, j;
    body = pixel_loop(p, body, &pixels, &at, &round);
    if (p->n_ahead > 0) {
        struct ig_stmt *first = element_loop(p, ahead_loop(p, body, &pixels, &at, &round), &j);
        emit_ahead(p, first, at, round, j);
        body = ahead_loop(p, body, &pixels, &at, &round);
    }
    body = element_loop(p, body, &j);
    emit_stores(p, body, at, round, j);
    emit_steps(p, body, at, round, j);
}

static void emit_parts(struct groups *g, struct ig_stmt *body, int pass) {
    struct ig_loops *k = g->r->k;
    struct part p = {.g = g, .pass = pass};
    ig_x each = num(g, each_of(g));
    body = ig_s_for(k, body, IG_FOR_SIMD, num(g, 0), num(g, (int64_t)g->across * g->shares), num(g, 1), &p.thread);
    ig_x across = ig_x_mod(k, p.thread, num(g, g->across));
    p.share = ig_x_div(k, p.thread, num(g, g->across));
    p.lane = ig_x_mul(k, ig_x_div(k, across, each), num(g, g->together));
    p.part = ig_x_mod(k, across, each);
    body = choose_group(g, body, p.lane);
    emit_sums(g, body, pass, p.thread, IG_NO_X, p.lane);
    keep(&p, body);
    choose_ahead(&p);
    emit_pixels(&p, body);
    emit_sums(g, body, pass, p.thread, ig_x_add(k, ig_x_mul(k, p.share, each), p.part), p.lane);
}

/* Combines `from` partial results per group into `to`; one is the block's. */
static void emit_meeting(struct groups *g, struct ig_stmt *body, int pass, int from, int to) {
    struct ig_row *r = g->r;
    struct ig_loops *k = r->k;
    ig_x thread, part;
    body = ig_s_for(k, body, IG_FOR_SIMD, num(g, 0), num(g, (int64_t)g->width * to), num(g, 1), &thread);
    ig_x lane = ig_x_mod(k, thread, num(g, g->width)), own = ig_x_div(k, thread, num(g, g->width));
    body = choose_group(g, body, lane);
    for (uint32_t i = 0; i < r->steps.count; i++) {
        const struct ig_row_step *step = &r->steps.at[i];
        if (step->pass != pass) continue;
        int acc = ig_s_acc(k, body, step->dtype, ig_x_load(k, g->partial[i], thread));
        struct ig_stmt *all =
            ig_s_for(k, body, IG_FOR_SERIAL, ig_x_add(k, own, num(g, to)), num(g, from), num(g, to), &part);
        ig_x at = ig_x_add(k, ig_x_mul(k, part, num(g, g->width)), lane);
        ig_s_update(k, all, acc, step->update, ig_x_load(k, g->partial[i], at));
        ig_s_store(k, body, to > 1 ? g->partial[i] : step->array, thread, ig_x_acc(k, acc, step->dtype));
    }
}

/* Adds up the blocks' results, those of two steps at once. */
static void emit_cluster(struct groups *g, struct ig_stmt *body, int pass) {
    struct ig_row *r = g->r;
    int held = -1; /* waits for another */
    for (uint32_t i = 0; i < r->steps.count; i++) {
        const struct ig_row_step *step = &r->steps.at[i];
        const struct ig_call_arg args[] = {{step->array, num(g, 0)}, {held, num(g, 0)}, {-1, num(g, g->width)}};
        if (step->pass != pass) continue;
        if (held >= 0) ig_s_call(r->k, body, "ig_cluster_sums_pair_f32", args, 3);
        held = held < 0 ? step->array : -1;
    }
    const struct ig_call_arg last[] = {{held, num(g, 0)}, {-1, num(g, g->width)}};
    if (held >= 0) ig_s_call(r->k, body, "ig_cluster_sums_f32", last, 2);
}

static void emit_pass(struct groups *g, struct ig_stmt *body, int pass) {
    struct ig_row *r = g->r;
    bool steps = false, stores = false;
    for (uint32_t i = 0; i < r->steps.count; i++)
        steps = steps || r->steps.at[i].pass == pass;
    for (uint32_t i = 0; i < r->stores.count; i++)
        stores = stores || r->stores.at[i].pass == pass;
    if (steps || stores) emit_parts(g, body, pass);
    if (!steps) return;
    int parts = parts_of(g);
    if (parts > 2 * FEW_PARTS) {
        emit_meeting(g, body, pass, parts, FEW_PARTS);
        parts = FEW_PARTS;
    }
    emit_meeting(g, body, pass, parts, 1);
    if (g->blocks > 1) emit_cluster(g, body, pass);
}

/* What is stored once per group, by the first block of a cluster. */
static void emit_results(struct groups *g, struct ig_stmt *body) {
    struct ig_row *r = g->r;
    ig_x lane;
    bool any = false;
    for (uint32_t i = 0; i < r->stores.count; i++)
        any = any || r->stores.at[i].pass > r->passes;
    if (!any) return;
    if (g->blocks > 1) body = ig_s_if(r->k, body, ig_x_less(r->k, g->block, num(g, 1)));
    body = ig_s_for(r->k, body, IG_FOR_SIMD, num(g, 0), num(g, g->width), num(g, 1), &lane);
    body = choose_group(g, body, lane);
    for (int d = r->kept; d < r->nest.rank; d++)
        g->vars[d] = num(g, 0);
    for (uint32_t i = 0; i < r->stores.count; i++) {
        const struct ig_row_store *s = &r->stores.at[i];
        if (s->pass != r->passes + 1) continue;
        ig_s_store(r->k, body, s->buffer, bind(g, s->position, lane, num(g, 0)), bind(g, s->value, lane, num(g, 0)));
    }
}

/* A tile is a position along the dims before the pixels, a block of groups, and a block of a cluster. */
static struct ig_stmt *tile_loop(struct groups *g) {
    struct ig_row *r = g->r;
    struct ig_dims *dims = r->k->dims;
    ig_dim across = ig_dim_const(dims, (g->of.count + g->width - 1) / g->width), tiles = across;
    for (int d = 0; d < r->kept - 1; d++)
        tiles = ig_dim_mul(dims, tiles, r->nest.extent[d]);
    make_model(g, tiles);
    r->kernel->tiles = ig_dim_mul(dims, tiles, ig_dim_const(dims, g->blocks));
    if (g->blocks > 1) {
        r->kernel->cluster = g->blocks;
        r->kernel->shared_bytes = sums_bytes(g);
    }
    if (g->halves != IG_NO_VALUE)
        r->kernel->shared_bytes = sums_bytes(g) + 2 * g->rounds * g->shares * g->across * g->vector;
    if (r->kernel->shared_bytes < g->least_shared) r->kernel->shared_bytes = g->least_shared;
    ig_x tile;
    struct ig_stmt *body = ig_s_for(r->k, NULL, IG_FOR_TILE, num(g, 0), dim(g, r->kernel->tiles), num(g, 1), &tile);
    ig_s_name(r->k, tile, "tile");
    g->block = ig_x_split_off(r->k, &tile, ig_dim_const(dims, g->blocks));
    g->first = ig_x_mul(r->k, ig_x_split_off(r->k, &tile, across), num(g, g->width));
    for (int d = r->kept - 2; d >= 0; d--)
        g->vars[d] = d > 0 ? ig_x_split_off(r->k, &tile, r->nest.extent[d]) : tile;
    return body;
}

/* Short pieces are read several at once. */
static void choose_vector(struct groups *g) {
    g->vector = ig_row_vector_cuda(g->r);
    g->together = 1;
    g->vector = g->vector < MOST_VECTOR ? g->vector : MOST_VECTOR;
    int64_t bytes = (int64_t)g->threads * 8 * g->r->steps.count; /* of partial results */
    while (g->vector == g->together * g->of.piece && 2 * g->vector <= MOST_VECTOR &&
           g->width % (2 * g->together) == 0 && g->of.count % (2 * g->together) == 0 &&
           bytes * 2 * g->together <= MOST_BYTES) {
        g->together *= 2;
        g->vector *= 2;
    }
}

/* Once the nest is known: who does what. */
static void divide(struct groups *g) {
    struct ig_row *r = g->r;
    choose_vector(g);
    g->across = (int)(g->width * g->of.piece / g->vector);
    g->shares = g->threads / g->across;
    g->rounds = g->part < 0 ? 1 : (int)((g->part + g->shares - 1) / g->shares);
    r->kernel->threads = (g->across * g->shares + 31) / 32 * 32;
    for (uint32_t i = 0; i < r->k->buffers.count; i++) {
        if (r->k->buffers.at[i].kind == IG_BUFFER_SPREAD) set_registers(g, (int)i, g->rounds * g->vector);
    }
    g->partial = IG_NEW_ARRAY(r->k->job, int, r->steps.count + 1);
    g->sums = IG_NEW_ARRAY(r->k->job, int, r->steps.count + 1);
    for (uint32_t i = 0; i < r->steps.count; i++) {
        enum ingot_dtype dtype = r->steps.at[i].dtype;
        g->partial[i] = ig_loops_local(r->k, dtype, (int64_t)g->width * parts_of(g), ig_format(r->k->job, "part%u", i));
        g->sums[i] = ig_loops_spread(r->k, dtype, 1, 1, ig_format(r->k->job, "share%u", i));
        set_registers(g, g->sums[i], g->together);
    }
}

bool ig_row_groups_cuda(struct ig_row *r, const struct ig_target *target) {
    struct groups g = {.r = r};
    for (int i = 0; i < MOST_AHEAD; i++)
        g.ahead[i] = -1;
    if (!find_groups(&g)) return false;
    int64_t pictures = ig_sizes_guess(r->at, ig_row_results(r)) / g.of.count;
    choose_width(&g, pictures);
    choose_blocks(&g, target, pictures);
    r->columns = true; /* an array of results, one per group */
    if (!ig_row_prepare(r, g.width) || !ig_row_fits_groups(r, &g.of)) return false;
    divide(&g);
    struct ig_stmt *body = tile_loop(&g);
    for (int pass = 0; pass <= r->passes; pass++)
        emit_pass(&g, body, pass);
    emit_results(&g, body);
    r->kernel->way = IG_WAY_SIDE_BY_SIDE;
    r->kernel->tactic =
        ig_format(r->k->job, "rows side by side, %d passes, %d in %d blocks of %d, %d elements at once%s",
                  r->passes + 1, g.width, g.blocks, r->kernel->threads, g.vector, g.part < 0 ? "" : ", read once");
    return true;
}
