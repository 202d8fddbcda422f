/* Attention on GPUs: chooses the instructions, and how heads are divided among warps and blocks. See attend.h. */
#include <math.h>

#include "kernel/cuda/attend/attend.h"

enum {
    MOST_DEPTH = 256,  /* elements of a query, key or value */
    MOST_SHARED = 320, /* elements of a query and a value, up to which two warpgroups share steps of 64 keys */
    WHOLE = 80 << 10,  /* bytes of shared memory up to which all keys are loaded at once, in several steps */
    HALF = 112 << 10,  /* and in one: two blocks of warpgroups fit */
    ONE_STEP = 224     /* keys up to which a warpgroup has all scores of a query in registers */
};

/* ---- Does it apply? ---------------------------------------------------------------------------------------------- */

static bool choose_math(struct ig_cuda_attention *s) {
    struct ig_graph *g = s->a->graph;
    enum ingot_dtype dtype = ig_type_of(g, s->a->scores.in[0])->dtype;
    bool rounded = ig_attr_int(g, &s->a->scores, IG_ATTR_math) == IG_MATH_TF32 &&
                   ig_attr_int(g, &s->a->product, IG_ATTR_math) == IG_MATH_TF32;
    if (ig_type_of(g, s->a->scores.in[1])->dtype != dtype || ig_type_of(g, s->a->product.in[1])->dtype != dtype)
        return false;
    s->element = (int)ingot_dtype_size(dtype);
    return ig_cuda_math_of(dtype, rounded, &s->t->math);
}

/* Heads are copied in pieces of 16 bytes and padded to what the instructions take. */
static bool choose_depth(struct ig_cuda_attention *s) {
    int64_t depth, columns, piece = 16 / s->element, whole = s->t->math == IG_CUDA_FMA ? 32 : 16;
    if (!ig_dim_is_const(s->k->dims, s->a->depth, &depth) || !ig_dim_is_const(s->k->dims, s->a->columns, &columns))
        return false;
    if (depth < 1 || columns < 1 || depth > MOST_DEPTH || columns > MOST_DEPTH || depth % piece || columns % piece)
        return false;
    s->t->depth = (int)((depth + 15) / 16 * 16);
    s->t->columns = (int)((columns + whole - 1) / whole * whole);
    s->t->depth_bytes = (int)depth * s->element;
    s->t->column_bytes = (int)columns * s->element;
    return true;
}

/* Are the region's results the product's, converted to the operands' type? */
static bool is_narrow(const struct ig_cuda_attention *s) {
    struct ig_graph *g = s->a->graph;
    for (uint32_t i = 0; i < s->a->region->outputs.count; i++) {
        ig_value v = s->a->region->outputs.at[i];
        if (ig_type_of(g, v)->dtype != ig_type_of(g, s->a->scores.in[0])->dtype) return false;
        for (const struct ig_node *n; v != s->a->product.out; v = n->in[0]) {
            if (!(n = ig_def_op(g, v, IG_OP_cast)) && !(n = ig_def_op(g, v, IG_OP_transpose))) return false;
        }
    }
    return true;
}

/* ---- Tiles ------------------------------------------------------------------------------------------------------- */

/* Warps along queries (m) and keys (n); keys per step of a warp, for warpgroups at most; blocks that share the keys
 * (split); heads that a block does in turn. The last ones are direct, those before them served. */
static const struct shape {
    int m, n, keys;
    bool warpgroups;
    int split, turns;
} shapes[] = {{1, 4, 32, false, 1, 0}, {2, 2, 32, false, 1, 0}, {4, 1, 64, false, 1, 0}, {4, 1, 128, true, 1, 0},
              {1, 4, 32, false, 8, 0}, {1, 4, 32, false, 4, 0}, {1, 4, 32, false, 2, 0}, {4, 1, 64, true, 1, 0},
              {8, 1, 128, true, 1, 0}, {8, 1, 64, true, 1, 0},  {2, 4, 32, false, 1, 0}, {1, 8, 16, false, 1, 0},
              {4, 2, 32, false, 1, 0}, {4, 1, 64, false, 1, 4}, {4, 1, 64, true, 1, 4},  {4, 1, 64, true, 1, 0},
              {8, 1, 128, true, 1, 0}, {1, 8, 16, false, 1, 0}, {1, 8, 16, false, 2, 0}, {1, 8, 16, false, 4, 0},
              {1, 8, 16, false, 8, 0}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };
/* Indices in `shapes`: the largest plain one to choose; warpgroups with long steps and with short ones, and two that share
 * these; those that split the keys; heads in turn, without warpgroups and with; served ones; direct ones, the first for one block. */
enum {
    LARGEST = 2,
    GROUP = 3,
    SHORT_GROUP = 7,
    PAIR = 9,
    SPLIT = 4,
    SPLITS = 3,
    TURNS = 13,
    GROUP_TURNS = 14,
    SERVED = 15,
    SERVED_KINDS = 2,
    DIRECT = SERVED + SERVED_KINDS,
    DIRECTS = 4
};

static bool is_served(int shape) {
    return shape >= SERVED && shape < SERVED + SERVED_KINDS;
}

static bool can_group(const struct ig_cuda_attention *s) {
    return s->element == 2 && ig_target_has_warpgroups(s->a->target);
}

/* Heads that fill registers and shared memory: only short steps of keys have room beside them. */
static bool is_vast(const struct ig_cuda_attention *s) {
    return s->t->depth > 128 || s->t->columns > 128;
}

/* Blocks share keys within a cluster. */
static bool can_split(const struct ig_cuda_attention *s) {
    return s->a->target->sm >= 90;
}

static bool is_padded(const struct ig_cuda_attention *s) {
    struct ig_cuda_attend t = *s->t;
    t.warpgroups = true;
    return ig_cuda_attend_line(&t, t.depth) > t.depth_bytes;
}

/* Do lines of 16-bit elements lie at constant distances, and are heads not vast? */
static bool lies_evenly(struct ig_cuda_attention *s) {
    if (s->element != 2 || is_vast(s)) return false;
    for (int i = 0; i < s->a->score_type.rank - 2; i++)
        s->head[i] = ig_x_free_var(s->k, s->a->score_type.dim[i]);
    bool found = ig_cuda_attention_find_sources(s), listed = s->t->table_lines > 0;
    s->t->table_lines = 0;
    return found && !listed;
}

/* The problem as the choice sees it, and the shape that was chosen. */
struct problem {
    bool groups, wide, splits, turns; /* can use warpgroups; has wide heads; can split the keys; can turn */
    bool vast;                        /* see is_vast; they are wide, too */
    bool padded;                      /* for warpgroups, queries and keys are longer in shared memory than in memory */
    bool direct;                      /* keys and values can go straight to registers */
    bool served;                      /* a warp can copy for the others */
    bool reads, packed;               /* something for each score; from packed tables only */
    bool known, at_once;              /* the number of keys; then steps divide it, and all keys may be loaded at once */
    int64_t width;                    /* elements of a query and a value */
    int shape;
};

/* The work of warpgroups, in keys: those of whole steps. With short steps four blocks fit on a processor instead of two, which
 * hides what each waits for. Where there are not that many blocks, or no loads for each score to wait for, long steps are better. */
static double work(const struct problem *p, int shape, int64_t heads, int64_t queries, int64_t keys) {
    int64_t step = shapes[shape].keys, whole = (keys + step - 1) / step * step, blocks = heads * ((queries + 63) / 64);
    double all = (double)(p->known ? keys : whole);
    if (shape == GROUP) return all;
    if (blocks <= 2 * IG_CUDA_PROCESSORS || p->at_once) return 1.1 * all;
    return p->reads ? 0.9 * all : 1.02 * all;
}

/* Two warpgroups share keys whose lines are longer than what is read, as copying them takes long, unless that leaves more
 * queries of the last tile empty. Of values that does not pay. */
static bool pairs(const struct problem *p, int64_t queries) {
    return p->padded && p->width <= MOST_SHARED && (queries + 63) / 64 % 2 == 0;
}

/* Beside the results of a wide head, the registers of a warpgroup hold the scores of long steps only if its block is alone. */
static int best_group(const struct problem *p, int64_t heads, int64_t queries, int64_t keys) {
    bool alone = !p->vast && heads * ((queries + 63) / 64) <= IG_CUDA_PROCESSORS;
    if (p->wide) return pairs(p, queries) ? PAIR : alone ? GROUP : SHORT_GROUP;
    double of_short = work(p, SHORT_GROUP, heads, queries, keys);
    return of_short < work(p, GROUP, heads, queries, keys) ? SHORT_GROUP : GROUP;
}

/* Direct blocks that run at once: registers are enough for two of narrow heads on a multiprocessor, one of wide heads. */
static int64_t direct_at_once(const struct problem *p) {
    return (p->wide ? 1 : 2) * IG_CUDA_PROCESSORS;
}

/* Microseconds that direct blocks take for their steps, and for bringing together the parts of a cluster. Clusters do not find
 * room everywhere, while blocks of the kernel before still run. */
static double direct_time(const struct problem *p, int shape, int64_t heads, int64_t queries, int64_t keys) {
    int64_t split = shapes[shape].split, blocks = heads * ((queries + 7) / 8) * split, at_once = direct_at_once(p);
    if (split > 1) at_once -= at_once / 4;
    int64_t share = ((keys + 7) / 8 + split - 1) / split, step = (int64_t)shapes[shape].keys * shapes[shape].n / 8;
    int64_t steps = (share + step - 1) / step, rounds = (blocks + at_once - 1) / at_once;
    return (double)rounds * (0.6 + 0.6 * (double)steps) + (split > 1 ? 0.4 + 0.05 * (double)split : 0);
}

static int best_direct(const struct problem *p, int64_t heads, int64_t queries, int64_t keys) {
    int best = DIRECT;
    for (int i = DIRECT + 1; i < DIRECT + DIRECTS && p->splits; i++) {
        if (direct_time(p, i, heads, queries, keys) < direct_time(p, best, heads, queries, keys)) best = i;
    }
    return best;
}

/* Blocks that a warp serves, in microseconds: a step of keys, with all blocks of a multiprocessor at work and of a block alone;
 * what a block takes beside its steps. Groups that share keys need the registers of a multiprocessor if their heads are wide, and
 * do not pay for others. Measured on an H200 with heads of 64 and 128. */
static const struct served_terms {
    double step, alone, block;
} served_terms[2][SERVED_KINDS] = {{{0.31, 0.55, 0.2}, {0, 0, 0}}, {{0.52, 0.8, 1.8}, {1.88, 1.88, 4.1}}};

static bool can_serve(const struct problem *p, int shape) {
    return p->served && served_terms[p->wide][shape - SERVED].step > 0;
}

/* The most blocks that a multiprocessor gets. */
static int64_t blocks_each(int shape, int64_t heads, int64_t queries) {
    int64_t rows = 16 * shapes[shape].m, blocks = heads * ((queries + rows - 1) / rows);
    return (blocks + IG_CUDA_PROCESSORS - 1) / IG_CUDA_PROCESSORS;
}

/* Few blocks hide less of what each waits for. */
static double served_time(const struct problem *p, int shape, int64_t heads, int64_t queries, int64_t keys) {
    const struct served_terms *t = &served_terms[p->wide][shape - SERVED];
    int64_t each = blocks_each(shape, heads, queries), steps = (keys + shapes[shape].keys - 1) / shapes[shape].keys;
    double all = (double)steps * t->step + t->block, alone = (double)steps * t->alone + t->block;
    return 3 + fmax(((double)each + (shapes[shape].m == 4 ? 0.4 : 0)) * all, alone);
}

static int best_served(const struct problem *p, int64_t heads, int64_t queries, int64_t keys) {
    int best = SERVED;
    for (int i = SERVED + 1; i < SERVED + SERVED_KINDS; i++) {
        if (can_serve(p, i) && served_time(p, i, heads, queries, keys) < served_time(p, best, heads, queries, keys))
            best = i;
    }
    return best;
}

/* Does it pay that a warp copies for the others? With several blocks of many keys on each multiprocessor, where registers need not
 * hold something for each score. */
static bool pays_to_serve(const struct problem *p, int64_t heads, int64_t queries, int64_t keys) {
    return p->served && keys >= 512 && !p->reads && blocks_each(SERVED, heads, queries) >= 4;
}

/* The shape expected to be best. Warpgroups, if at least half of their 64 queries are used. Else the smallest tiles of
 * queries that all run at once: small tiles finish sooner, large ones read the keys less often. */
static int best_shape(const struct problem *p, int64_t heads, int64_t queries, int64_t keys) {
    int64_t tiles = heads * ((queries + 15) / 16);
    /* Many heads of few keys, as long as enough blocks are left to do several each. */
    if (p->turns && heads * ((queries + 63) / 64) >= 8 * IG_CUDA_PROCESSORS) return p->groups ? GROUP_TURNS : TURNS;
    /* Two direct blocks read the keys twice, which does not matter where there are few. */
    bool few = queries <= 8 || (queries <= 16 && 2 * heads <= direct_at_once(p) / 2);
    if (p->direct && few) return best_direct(p, heads, queries, keys);
    if (pays_to_serve(p, heads, queries, keys)) return best_served(p, heads, queries, keys);
    if (p->groups && queries >= 32) return best_group(p, heads, queries, keys);
    /* If few blocks would read many keys, several blocks share them. */
    for (int i = SPLIT; i < SPLIT + SPLITS && p->splits; i++) {
        if (tiles * shapes[i].split <= IG_CUDA_PROCESSORS && keys >= shapes[i].split * 128) return i;
    }
    for (int i = 0; i < LARGEST; i++) {
        int64_t rows = 16 * shapes[i].m;
        if (heads * ((queries + rows - 1) / rows) <= IG_CUDA_PROCESSORS) return i;
    }
    return LARGEST;
}

/* Shared memory for a block: data-centre chips allow 163 or 227 KiB, of which 160 are used but by blocks that a warp serves
 * (sm_90a), smaller chips 99. */
int ig_cuda_attention_most_shared(const struct ig_cuda_attention *s) {
    int sm = s->a->target->sm;
    if (s->t->served) return 227 << 10;
    return sm == 80 || sm == 90 || sm == 100 ? 160 << 10 : 99 << 10;
}

/* Chooses steps of up to `most` keys that leave little of the last step empty. Few keys are loaded all at once. Somewhat
 * more are one step, for which nothing has to be rescaled, where no masks take registers too. */
static void divide_keys(struct ig_cuda_attention *s, int64_t most) {
    int64_t keys, best = INT64_MAX;
    if (!ig_dim_is_const(s->k->dims, s->a->keys, &keys) || keys < 1) return;
    if (!s->t->served && most > 64 && keys > most && keys <= ONE_STEP && s->reads == IG_ATTENTION_READS_NOTHING)
        most = ONE_STEP;
    int64_t fewest = (keys + most - 1) / most;
    for (int64_t steps = fewest; steps < fewest + 3; steps++) {
        int64_t each = ((keys + steps - 1) / steps + 15) / 16 * 16;
        if (each * steps >= best || each < 32) continue;
        best = each * steps;
        s->t->keys = (int)each;
    }
    int64_t steps = (keys + s->t->keys - 1) / s->t->keys;
    if (steps > 4 || s->t->served) return;
    s->t->whole = true;
    s->t->stages = (int)steps;
    if (ig_cuda_attend_shared(s->t) <= (steps == 1 ? HALF : WHOLE)) return;
    s->t->whole = false;
    s->t->stages = 2;
}

/* Heads in turn have one step of few keys. */
static void take_all_keys(struct ig_cuda_attention *s) {
    int64_t keys = 0;
    ig_dim_is_const(s->k->dims, s->a->keys, &keys);
    s->t->keys = (int)((keys + 15) / 16 * 16);
    s->t->stages = 1;
}

static bool can_be(const struct ig_cuda_attention *s, const struct problem *p, const struct shape *shape) {
    if (p->vast && shape->keys > 64) return false;
    if (is_served((int)(shape - shapes)) && !can_serve(p, (int)(shape - shapes))) return false;
    return (!shape->warpgroups || p->groups) && (shape->split == 1 || p->splits) && (!shape->turns || p->turns) &&
           (shape < shapes + DIRECT || p->direct);
}

/* Microseconds that blocks take for their steps in turn, if nothing else limits them: a step waits for its products, its
 * loads and the other threads, the longer the more keys a warp has. */
static double latency(const struct shape *shape, int64_t heads, int64_t queries, int64_t keys) {
    int64_t rows = 16 * shape->m, step = (int64_t)shape->keys * shape->n * shape->split;
    int64_t resident = shape->keys > 64 ? 2 : 4, at_once = IG_CUDA_PROCESSORS * resident;
    int64_t blocks = heads * ((queries + rows - 1) / rows) * shape->split;
    int64_t rounds = (blocks + at_once - 1) / at_once, steps = (keys + step - 1) / step;
    return (double)(rounds * steps) * (0.5 + 0.0075 * shape->keys);
}

/* The rules above say which shape is best, not by how much: the others are taken to need a quarter more, but for short
 * and long steps. The time itself matters where the kernels of a network are weighed against each other: products of whole
 * tiles at a third of the peak of an H100, or one read of all operands, of which the lesser is mostly hidden; what is added to
 * each score; with few blocks, what their steps take in turn. */
static double cost(const struct ig_kernel *kernel, const int64_t *sizes) {
    const struct problem *p = kernel->model.problem;
    if (is_served(p->shape)) return served_time(p, p->shape, sizes[0], sizes[1], sizes[2]);
    int best = best_shape(p, sizes[0], sizes[1], sizes[2]);
    bool group = p->shape == SHORT_GROUP || p->shape == PAIR || (p->shape == GROUP && !p->wide);
    bool close = p->shape == best || (group && (best == GROUP || best == SHORT_GROUP || best == PAIR));
    double heads = (double)sizes[0], queries = (double)sizes[1], keys = (double)sizes[2], width = (double)p->width;
    double all = group ? work(p, p->shape, sizes[0], sizes[1], sizes[2]) : keys;
    bool turns = shapes[p->shape].turns > 0;
    double rows = p->groups && queries >= 32 ? ceil(queries / 64) * 64 : queries;
    double products = 2 * heads * rows * all * width / (p->groups ? 3e8 : 5e7);
    double bytes = heads * (queries + keys) * width * 2 / (turns ? 3e6 : 4.5e6);
    if (p->reads && !turns) products += heads * rows * keys / (p->packed ? 2.3e6 : 1.5e6);
    double busy = 1.4 + (products > bytes ? products + 0.2 * bytes : bytes + 0.2 * products);
    double waits = p->shape >= DIRECT ? direct_time(p, p->shape, sizes[0], sizes[1], sizes[2])
                                      : latency(&shapes[p->shape], sizes[0], sizes[1], sizes[2]);
    double time = 1.6 + fmax(busy, waits);
    return close ? time : 1.25 * time;
}

static struct problem *make_model(struct ig_cuda_attention *s) {
    const struct ig_attention *a = s->a;
    struct problem *p = IG_NEW(s->k->job, struct problem);
    int64_t keys = 0, lines = 64 * s->t->depth;
    bool known = ig_dim_is_const(s->k->dims, a->keys, &keys);
    s->reads = ig_cuda_attention_change_reads(s);
    bool even = lies_evenly(s);
    *p = (struct problem){.groups = can_group(s),
                          .wide = s->t->columns > 64 || is_vast(s),
                          .splits = can_split(s),
                          .turns = !is_vast(s) && ig_cuda_attention_can_turn(s),
                          .vast = is_vast(s),
                          .padded = is_padded(s),
                          .direct = even,
                          .served = even && can_group(s) && is_narrow(s),
                          .reads = s->reads >= IG_ATTENTION_READS_PACKED,
                          .packed = s->reads == IG_ATTENTION_READS_PACKED,
                          .known = known,
                          .at_once = known && (lines + keys * (s->t->depth + s->t->columns)) * s->element <= WHOLE,
                          .width = s->t->depth + s->t->columns};
    p->shape = best_shape(p, ig_sizes_guess(a->at, a->heads), ig_sizes_guess(a->at, a->queries),
                          ig_sizes_guess(a->at, a->keys));
    ig_dim one = ig_dim_const(s->k->dims, 1);
    a->kernel->model = (struct ig_kernel_model){{a->heads, a->queries, a->keys, one}, p, cost};
    return p;
}

/* The shape of a candidate: the best one first, then the others in order; -1: there are no more. */
static int shape_of_choice(struct ig_cuda_attention *s, int choice) {
    struct problem *p = make_model(s);
    int best = p->shape;
    for (int i = 0; i < N_SHAPES && choice > 0; i++) {
        if (i != best && can_be(s, p, &shapes[i]) && --choice == 0) return p->shape = i;
    }
    return choice == 0 ? best : -1;
}

/* Keys per step of a warp: those of long heads fill the shared memory, and results the registers. */
static int fitting_keys(const struct ig_cuda_attention *s, int keys) {
    int width = s->t->depth + s->t->columns;
    if (s->element == 4) return width > 160 ? 16 : keys;
    return width > MOST_SHARED && keys > 32 ? 32 : keys;
}

static bool choose_shape(struct ig_cuda_attention *s, int choice) {
    int which = shape_of_choice(s, choice);
    if (which < 0) return false;
    s->t->split = shapes[which].split;
    s->t->warpgroups = shapes[which].warpgroups;
    s->t->warps_m = shapes[which].m;
    s->t->warps_n = shapes[which].n;
    s->t->keys = fitting_keys(s, shapes[which].keys);
    s->t->stages = 2;
    s->t->turns = shapes[which].turns;
    s->t->served = is_served(which);
    s->t->direct = which >= DIRECT;
    s->t->narrow = s->t->warpgroups && is_narrow(s);
    s->t->guarded = s->a->parts.guarded;
    s->t->repaired = s->a->parts.repaired;
    if (s->t->turns)
        take_all_keys(s);
    else if (s->t->warpgroups)
        divide_keys(s, s->t->keys);
    while (ig_cuda_attend_shared(s->t) > ig_cuda_attention_most_shared(s) && s->t->warps_n > 1 && !s->t->direct)
        s->t->warps_n /= 2;
    while (ig_cuda_attend_shared(s->t) > ig_cuda_attention_most_shared(s) && s->t->warps_m > 1 && !s->t->warpgroups)
        s->t->warps_m /= 2;
    s->threads = ig_cuda_attend_workers(s->t);
    s->rows = ig_cuda_attend_rows(s->t);
    s->step = s->t->keys * s->t->warps_n;
    return ig_cuda_attend_shared(s->t) <= ig_cuda_attention_most_shared(s);
}

bool ig_cuda_attention_choose(struct ig_cuda_attention *s, int choice) {
    return choose_math(s) && choose_depth(s) && choose_shape(s, choice);
}
