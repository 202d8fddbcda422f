/*
 * Depthwise convolution on GPUs, channels-last, of an input that lies in memory: a thread computes several neighbouring
 * output positions of several neighbouring channels (codegen/cuda/depthwise.cu), so that each element that it loads and
 * converts serves several positions. Neighbouring threads have neighbouring channels, then neighbouring positions, whose
 * windows overlap in the caches. Bytes are multiplied by several rows of the window at once (codegen/cuda/depthwise_bytes.cu).
 */
#include "kernel/cuda/contract/contract.h"

#include <math.h>

enum {
    MANY_THREADS = 128,   /* per block */
    FEW_THREADS = 64,     /* if blocks are few */
    MOST_LANES = 4,       /* channels of a thread */
    MOST_WIDTH = 14,      /* positions of a thread */
    MOST_LOADED = 20,     /* of a row of the input, by a thread of more than: */
    SMALL_WIDTH = 4,      /* positions */
    MOST_WEIGHTS = 64,    /* of a row of the window, in registers */
    MOST_PRODUCTS = 2000, /* of a thread, if all rows are unrolled */
};

/* How the output is divided among threads. */
struct division {
    int lanes, width; /* of a thread: channels, positions side by side */
    bool at_once;     /* the rows of the window are unrolled */
};

/* What the cost of a division depends on, beside sizes. */
struct problem {
    int64_t channels, window_rows, taps, stride; /* rows of the window, planes included; taps of a row */
    int64_t steps; /* of bytes: in which these rows are multiplied, several at a time; 0: others */
    struct division is;
};

struct depthwise {
    struct ig_contract *c;
    struct ig_loops *k;
    struct ig_cuda_depthwise *t;
    struct division is;
    int threads; /* per block */
    const struct ig_type *in, *out;
    int sums;                           /* buffer */
    ig_x thread, image, channel, at[3]; /* of a thread: its first channel and position */
};

static ig_x num(struct depthwise *s, int64_t i) {
    return ig_x_index(s->k, i);
}

static ig_x dim(struct depthwise *s, ig_dim d) {
    return ig_x_dim(s->k, d);
}

static ig_dim constant(struct depthwise *s, int64_t i) {
    return ig_dim_const(s->k->dims, i);
}

/* All but the division. */
static void describe(struct depthwise *s) {
    struct ig_cuda_depthwise *t = s->t = IG_NEW(s->k->job, struct ig_cuda_depthwise);
    *t = (struct ig_cuda_depthwise){.input = s->in->dtype,
                                    .weight = ig_contract_in(s->c, 1)->dtype,
                                    .channels = s->c->groups,
                                    .stride = (int)ig_cuda_attr_along(s->c, IG_ATTR_strides, 2),
                                    .border = (int)ig_contract_border(s->c)};
    for (int i = 0; i < 3; i++) {
        t->taps[i] = (int)ig_cuda_attr_along(s->c, IG_ATTR_kernel, i);
        t->dilations[i] = (int)ig_cuda_attr_along(s->c, IG_ATTR_dilations, i);
    }
}

/* ---- Choosing ---------------------------------------------------------------------------------------------------- */

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static int threads_per_block(int64_t threads) {
    return threads < (int64_t)MANY_THREADS * IG_CUDA_PROCESSORS * 2 ? FEW_THREADS : MANY_THREADS;
}

static int64_t count_at(const struct problem *p, int64_t images, int64_t rows, int64_t columns) {
    return images * rows * ceil_div(columns, p->is.width) * (p->channels / p->is.lanes);
}

/* Instructions of a thread for bytes: a multiplier is fed with a channel's bytes of several rows of the window, which are transposed
 * for it. Multiplying and moving bytes take two turns each of a part of the processor, side by side. */
static double instructions_of_bytes(const struct problem *p, double loads) {
    double lanes = p->is.lanes,
           columns = (double)p->steps * ((double)(p->is.width - 1) * (double)p->stride + 2 * (double)p->taps);
    double products = (double)p->steps * (double)p->taps * lanes * p->is.width;
    return products * 1.3 + columns * 2 * lanes + loads * 3 + p->is.width * lanes * 2 + 60;
}

/* Microseconds for images (planes included) of rows x columns: instructions, of which schedulers issue most of one a
 * cycle, counted as in the code for sm_90; accesses to the first cache; or the memory's traffic. A thread alone waits
 * for its own results, and for memory once a row, or less if all rows' loads are in flight together. Positions beyond a
 * row's end cost comparisons. Rounded from measurements on an H200. */
static double time_of(const struct problem *p, int64_t images, int64_t rows, int64_t columns) {
    enum { LATENCY = 500, CLOCK = 1700 };
    double lanes = p->is.lanes, width = p->is.width, taps = (double)p->taps, window_rows = (double)p->window_rows;
    int64_t threads = count_at(p, images, rows, columns);
    int block = threads_per_block(threads);
    double loads = window_rows * ((width - 1) * (double)p->stride + 2 * taps);
    double instructions = window_rows * (taps * lanes * width + 8) + loads * (lanes + 2) + width * lanes * 2 + 60;
    if (p->steps > 0) instructions = instructions_of_bytes(p, loads);
    double warps = (double)ceil_div(ceil_div(threads, block), IG_CUDA_PROCESSORS) * block / 32;
    double issued = warps * instructions / 4 / 0.85,
           accessed = LATENCY + warps * loads * (lanes > 2 && p->steps == 0 ? lanes : 2);
    double alone = instructions * 3.3 + LATENCY * (p->is.at_once ? 3 : window_rows);
    double cycles = fmax(alone, fmax(issued, accessed));
    if (columns % p->is.width != 0) cycles *= 1.4;
    double elements = (double)(images * rows * columns * p->channels);
    double bytes = elements * (1 + (double)(p->stride * p->stride)) * (p->steps > 0 ? 1 : 2) / 3.5e6;
    return 2.5 + fmax(cycles / CLOCK, bytes);
}

static double cost(const struct ig_kernel *kernel, const int64_t *sizes) {
    return time_of(kernel->model.problem, sizes[0], sizes[1], sizes[2]);
}

/* Chooses the division that takes the least time, which it returns, and sets up the cost model. */
static double choose(struct depthwise *s) {
    struct ig_contract *c = s->c;
    struct ig_dims *dims = s->k->dims;
    struct problem *p = IG_NEW(s->k->job, struct problem);
    ig_dim images = ig_dim_mul(dims, s->out->dim[0], ig_cuda_size_along(s->c, s->out, 0));
    ig_dim rows = ig_cuda_size_along(s->c, s->out, 1), columns = ig_cuda_size_along(s->c, s->out, 2);
    int64_t n = ig_sizes_guess(c->at, images), height = ig_sizes_guess(c->at, rows);
    int64_t length = ig_sizes_guess(c->at, columns), taps = ig_cuda_attr_along(s->c, IG_ATTR_kernel, 2);
    double least = INFINITY;
    *p = (struct problem){.channels = c->groups, .taps = taps, .stride = ig_cuda_attr_along(s->c, IG_ATTR_strides, 2)};
    p->window_rows = ig_cuda_attr_along(s->c, IG_ATTR_kernel, 0) * ig_cuda_attr_along(s->c, IG_ATTR_kernel, 1);
    if (ig_cuda_depthwise_is_bytes(s->t)) p->steps = (int64_t)s->t->taps[0] * ig_cuda_depthwise_steps(s->t);
    int64_t turns = p->steps > 0 ? p->steps : p->window_rows;
    for (int lanes = MOST_LANES; lanes > 0; lanes /= 2) {
        if (c->groups % lanes != 0 || (lanes > 2 && lanes * taps > MOST_WEIGHTS)) continue;
        if (lanes == 1 && c->groups % 2 == 0) break; /* accesses of two bytes */
        for (int width = MOST_WIDTH; width > 0; width--) {
            if (width > SMALL_WIDTH && (width - 1) * p->stride + taps > MOST_LOADED) continue;
            p->is = (struct division){.lanes = lanes, .width = width};
            p->is.at_once = turns * taps * lanes * width <= MOST_PRODUCTS;
            double time = time_of(p, n, height, length);
            if (time >= least) continue;
            least = time;
            s->is = p->is;
        }
    }
    p->is = s->is;
    s->t->lanes = s->is.lanes;
    s->t->width = s->is.width;
    s->t->at_once = s->is.at_once;
    s->threads = threads_per_block(count_at(p, n, height, length));
    c->kernel->model = (struct ig_kernel_model){{images, rows, columns, constant(s, 1)}, p, cost};
    return least;
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

static ig_dim across(struct depthwise *s) {
    return ig_dim_ceil_div(s->k->dims, ig_cuda_size_along(s->c, s->out, 2), constant(s, s->is.width));
}

static ig_dim count_threads(struct depthwise *s) {
    struct ig_dims *dims = s->k->dims;
    ig_dim rows = ig_dim_mul(dims, ig_cuda_size_along(s->c, s->out, 0), ig_cuda_size_along(s->c, s->out, 1));
    ig_dim count = ig_dim_mul(dims, ig_dim_mul(dims, s->out->dim[0], rows), across(s));
    return ig_dim_mul(dims, count, constant(s, s->c->groups / s->is.lanes));
}

/* Finds a thread's place from its number. */
static void locate(struct depthwise *s, ig_x number) {
    struct ig_loops *k = s->k;
    ig_x piece = ig_x_split_off(k, &number, constant(s, s->c->groups / s->is.lanes));
    s->channel = ig_x_mul(k, piece, num(s, s->is.lanes));
    s->at[2] = ig_x_mul(k, ig_x_split_off(k, &number, across(s)), num(s, s->is.width));
    s->at[1] = ig_x_split_off(k, &number, ig_cuda_size_along(s->c, s->out, 1));
    s->at[0] = ig_x_split_off(k, &number, ig_cuda_size_along(s->c, s->out, 0));
    s->image = number;
}

static void emit_sums(struct depthwise *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    struct ig_contract *c = s->c;
    ig_x from[IG_CUDA_AXES];
    for (int i = 0; i < IG_CUDA_AXES; i++)
        from[i] = ig_cuda_window_along(c, s->at[i], i);
    ig_s_text(
        k, body,
        ig_format(
            k->job,
            "depthwise::add_up(%s, %s, %s, @%u, (int)@%u, (int)@%u, (int)@%u, (int)@%u, (int)@%u, (int)@%u, (int)@%u);",
            k->buffers.at[s->sums].name, k->buffers.at[ig_cuda_plain_operand(c, 0)].name,
            k->buffers.at[ig_cuda_plain_operand(c, 1)].name, (unsigned)s->image, (unsigned)from[0], (unsigned)from[1],
            (unsigned)from[2], (unsigned)s->channel, (unsigned)dim(s, ig_cuda_size_along(s->c, s->in, 0)),
            (unsigned)dim(s, ig_cuda_size_along(s->c, s->in, 1)),
            (unsigned)dim(s, ig_cuda_size_along(s->c, s->in, 2))));
}

/* The epilogue, position by position. Positions beyond the last are computed like the last one and not stored. */
static void emit_stores(struct depthwise *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    struct ig_contract *c = s->c;
    int lanes = s->is.lanes, width = s->is.width;
    ig_dim columns = ig_cuda_size_along(s->c, s->out, 2);
    ig_x at = num(s, 0), lane = num(s, 0);
    if (width > 1) body = ig_s_for(k, body, IG_FOR_UNROLL, num(s, 0), num(s, width), num(s, 1), &at);
    ig_x column = ig_x_add(k, s->at[2], at);
    if (!ig_dim_divides(k->dims, constant(s, width), columns)) {
        c->inside = ig_x_less(k, column, dim(s, columns));
        column = ig_x_min(k, column, dim(s, ig_dim_sub(k->dims, columns, constant(s, 1))));
    }
    if (lanes > 1) body = ig_s_for(k, body, IG_FOR_VECTOR, num(s, 0), num(s, lanes), num(s, 1), &lane);
    ig_x places[3] = {s->at[0], s->at[1], column}, channel = ig_x_add(k, s->channel, lane);
    ig_cuda_place(c, s->image, places, channel, c->groups);
    ig_x mine = ig_x_mul(k, s->thread, num(s, (int64_t)width * lanes));
    mine = ig_x_add(k, mine, ig_x_add(k, ig_x_mul(k, at, num(s, lanes)), lane));
    c->sum = ig_x_load(k, s->sums, mine);
    ig_contract_store(c, body, -1, num(s, 0));
}

static void emit(struct depthwise *s) {
    struct ig_contract *c = s->c;
    struct ig_loops *k = s->k;
    ig_dim threads = count_threads(s);
    c->kernel->tiles = ig_dim_ceil_div(k->dims, threads, constant(s, s->threads));
    c->kernel->threads = s->threads;
    ig_x tile, block = num(s, s->threads);
    struct ig_stmt *body = ig_s_for(k, NULL, IG_FOR_TILE, num(s, 0), dim(s, c->kernel->tiles), num(s, 1), &tile);
    ig_x first = ig_x_mul(k, tile, block), left = ig_x_sub(k, dim(s, threads), first);
    body = ig_s_for(k, body, IG_FOR_SIMD, num(s, 0), ig_x_min(k, block, left), num(s, 1), &s->thread);
    s->sums = ig_loops_spread(k, c->dtype, s->threads, (int64_t)s->is.width * s->is.lanes, "sums");
    locate(s, ig_x_add(k, first, s->thread));
    emit_sums(s, body);
    emit_stores(s, body);
}

static bool is_byte(enum ingot_dtype dtype) {
    return dtype == INGOT_I8 || dtype == INGOT_U8;
}

static bool is_float(enum ingot_dtype dtype) {
    return dtype == INGOT_F32 || dtype == INGOT_F16 || dtype == INGOT_BF16;
}

/* Does an operand lie in memory, in a type of the template's? */
static bool is_plain(const struct ig_contract *c, int operand) {
    int buffer = ig_cuda_plain_operand(c, operand);
    if (buffer < 0) return false;
    enum ingot_dtype dtype = c->k->buffers.at[buffer].dtype;
    return c->dtype == INGOT_I32 ? is_byte(dtype) : c->dtype == INGOT_F32 && is_float(dtype);
}

bool ig_cuda_is_depthwise(const struct ig_contract *c) {
    if (!c->spatial || c->groups == 1 || !ig_contract_attr_int(c, IG_ATTR_channels_last)) return false;
    return ig_contract_is_one(c, c->columns) && ig_contract_is_one(c, c->depth_dim[c->spatial]);
}

bool ig_cuda_depthwise_lies(const struct ig_contract *c) {
    if (!ig_cuda_is_depthwise(c) || !is_plain(c, 0) || !is_plain(c, 1)) return false;
    return ig_contract_attr_int(c, IG_ATTR_packed) == 1 && !ig_contract_lines_together(c);
}

static struct depthwise begin(struct ig_contract *c) {
    return (struct depthwise){.c = c, .k = c->k, .in = ig_contract_in(c, 0), .out = ig_contract_out(c)};
}

static bool suits(struct depthwise *s) {
    return ig_cuda_depthwise_lies(s->c) && 2 * ig_cuda_attr_along(s->c, IG_ATTR_kernel, 2) <= MOST_WEIGHTS;
}

double ig_cuda_contract_depthwise_time(struct ig_contract *c) {
    struct depthwise s = begin(c);
    if (!suits(&s)) return INFINITY;
    describe(&s);
    return choose(&s);
}

bool ig_cuda_contract_depthwise(struct ig_contract *c) {
    struct depthwise s = begin(c);
    if (!suits(&s)) return false;
    describe(&s);
    choose(&s);
    c->kernel->depthwise = s.t;
    c->kernel->tactic = ig_format(c->k->job, "depthwise%s, %d positions of %d channels a thread%s",
                                  ig_cuda_depthwise_is_bytes(s.t) ? " i8" : "", s.is.width, s.is.lanes,
                                  s.is.at_once ? ", all rows at once" : "");
    emit(&s);
    ig_loops_store_once(c->k);
    return !c->astray;
}
