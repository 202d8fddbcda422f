/*
 * Depthwise convolutions of 16-bit floats on GPUs, channels-last, of an input that lies in memory, on the tensor cores: lines
 * of the input times banded matrices (codegen/cuda/banded.cu). Most of what is multiplied is zero, but with a large window
 * the tensor cores still take less time than the threads of contract_depthwise.c, and each element is read and converted
 * once for all outputs of a tile.
 */
#include <math.h>

#include "kernel/cuda/contract/contract.h"

enum {
    CHUNK = 8,              /* columns of a slot */
    SLOTS = 16,             /* of an instruction */
    MOST_SHARED = 99 << 10, /* which every generation gives to a block */
    MOST_STRIDE = 16,
    MOST_REACH = 448,   /* rows or columns of a window: more steps than matrices */
    MOST_MATRICES = 28, /* of a channel, each two registers */
    MOST_CHOICES = 3,
    MOST_SHAPES = 30,
    REGISTERS = 65536,
};

/* What the cost of a kernel depends on, beside sizes. */
struct problem {
    const struct ig_cuda_banded *b;
    int resident; /* blocks of a multiprocessor */
    double issue; /* ig_cuda_contract_issue */
};

struct banded {
    struct ig_contract *c;
    struct ig_loops *k;
    struct ig_cuda_banded *b;
    int sums;
    ig_x image, at[2], channel; /* of a tile: its first image, position and channel */
};

static ig_x num(struct banded *s, int64_t i) {
    return ig_x_index(s->k, i);
}

static ig_x dim(struct banded *s, ig_dim d) {
    return ig_x_dim(s->k, d);
}

static ig_dim constant(struct banded *s, int64_t i) {
    return ig_dim_const(s->k->dims, i);
}

static int ceil_div(int64_t a, int64_t b) {
    return (int)((a + b - 1) / b);
}

/* Rows and columns are axes 0 and 1 here. */
static int64_t attr_of(const struct banded *s, enum ig_attr_name name, int axis) {
    return ig_cuda_attr_along(s->c, name, axis + 1);
}

static ig_dim out_size(struct banded *s, int axis) {
    return ig_cuda_size_along(s->c, ig_contract_out(s->c), axis + 1);
}

/* ---- Choosing ---------------------------------------------------------------------------------------------------- */

static int matrices(const struct ig_cuda_banded *b) {
    return b->taps[0] * ig_cuda_banded_steps(b);
}

static int registers(const struct ig_cuda_banded *b) {
    int all = b->rows * 4 + 4 * matrices(b) + 28;
    return ceil_div(all < 80 ? 80 : all, 8) * 8;
}

static int resident_of(const struct ig_cuda_banded *b, int sm) {
    int by_shared = ((sm >= 90 ? 227 : 163) << 10) / (ig_cuda_banded_shared(b) + 1024);
    int by_registers = REGISTERS / (ig_cuda_banded_threads(b) * registers(b));
    int least = by_shared < by_registers ? by_shared : by_registers;
    return least < 1 ? 1 : least > 8 ? 8 : least;
}

/* Microseconds. Of a tile, in cycles of a multiprocessor, which hardly overlap: accesses to shared memory, by 128 bytes;
 * pixels that arrive or leave; instructions of warps; products. A wave of tiles waits for memory once. Rounded from 300 times
 * on an H200, of windows of 3x3 to 9x9: 11% off, and its choice up to a tenth slower than the best. */
static double time_of(const struct problem *p, int64_t images, int64_t rows, int64_t columns) {
    enum { CLOCK = 1700, LATENCY = 1900 };
    const struct ig_cuda_banded *b = p->b;
    double group = b->group, bands = matrices(b), positions = ig_cuda_banded_positions(b);
    double loads = (double)ig_cuda_banded_reach(b) * ig_cuda_banded_steps(b);
    double pixels = (double)b->tile[0] * ig_cuda_banded_lines(b) * ig_cuda_banded_chunks(b) * CHUNK;
    double accesses = group * (loads * 4 + bands * 2 + (positions * 8 + pixels * 2) / 128);
    double instructions = group * (bands * (b->rows + 5) + loads + 12.0 * b->rows);
    instructions += group * (pixels * 0.063 + positions * (0.086 + 0.65 / 0.34 * p->issue));
    double tile = 0.52 * accesses + 0.7 * (pixels + positions) + 0.34 * instructions + 0.25 * group * bands * b->rows;
    int64_t tiles = (int64_t)ceil_div(images, b->tile[0]) * ceil_div(rows, (int64_t)b->tile[1] * b->rows) *
                    ceil_div(columns, (int64_t)b->tile[2] * CHUNK) * ceil_div(b->channels, b->group);
    double each = ceil_div(tiles, IG_CUDA_PROCESSORS), waves = ceil(each / p->resident);
    double warps = ig_cuda_banded_threads(b) / 32.0 * fmin(each, p->resident);
    double elements = (double)(images * rows * columns * b->channels);
    double memory = elements * (1 + (double)(b->strides[0] * b->strides[1])) * 2 / 3.5e6;
    return 2.2 + fmax((each * tile * (1 + 1.3 / warps) + waves * LATENCY) / CLOCK, memory);
}

static double cost(const struct ig_kernel *kernel, const int64_t *sizes) {
    return time_of(kernel->model.problem, sizes[0], sizes[1], sizes[2]);
}

static struct problem problem_of(const struct banded *s, const struct ig_cuda_banded *b) {
    return (struct problem){b, resident_of(b, s->c->target->sm), ig_cuda_contract_issue(s->c)};
}

/* As many of `count` as `room` allows, in equal shares. */
static int share(int64_t count, int room) {
    return count <= room ? (int)(count < 1 ? 1 : count) : ceil_div(count, ceil_div(count, room));
}

struct sizes {
    int64_t images, rows, columns;
};

/* Divides slots among chunks, then bands, then images. */
static void fill(struct ig_cuda_banded *b, const struct sizes *at) {
    b->tile[2] = share(ceil_div(at->columns, CHUNK), SLOTS);
    b->tile[1] = share(ceil_div(at->rows, b->rows), SLOTS / b->tile[2]);
    b->tile[0] = share(at->images, SLOTS / (b->tile[2] * b->tile[1]));
}

struct ordered {
    struct ig_cuda_banded at[MOST_SHAPES];
    double costs[MOST_SHAPES];
    int count;
};

static void insert(struct ordered *o, const struct ig_cuda_banded *b, double time) {
    int at = o->count++;
    for (; at > 0 && o->costs[at - 1] > time; at--) {
        o->at[at] = o->at[at - 1];
        o->costs[at] = o->costs[at - 1];
    }
    o->at[at] = *b;
    o->costs[at] = time;
}

/* The tiles that fit shared memory, by the cost model. */
static void order_tiles(struct banded *s, struct ordered *out) {
    const struct sizes at = {ig_sizes_guess(s->c->at, ig_contract_out(s->c)->dim[0]),
                             ig_sizes_guess(s->c->at, out_size(s, 0)), ig_sizes_guess(s->c->at, out_size(s, 1))};
    static const int bands[] = {1, 2, 4, 7, 8}; /* rows: images often have a multiple of 7 */
    out->count = 0;
    for (int group = 8; group <= 32; group *= 2) {
        for (int own = 2; own <= 4; own *= 2) {
            for (size_t i = 0; i < sizeof bands / sizeof *bands; i++) {
                int rows = bands[i];
                struct ig_cuda_banded b = *s->b;
                b.group = group;
                b.own = own;
                b.rows = rows;
                fill(&b, &at);
                if (group >= 2 * b.channels || ig_cuda_banded_shared(&b) > MOST_SHARED) continue;
                if (rows > 1 && rows >= 2 * at.rows) continue;
                struct problem problem = problem_of(s, &b);
                insert(out, &b, time_of(&problem, at.images, at.rows, at.columns));
            }
        }
    }
}

/* Sets all but the tile; false if windows are so far apart or so large that none fits, and sizes might not fit ints. */
static bool describe(struct banded *s) {
    struct ig_cuda_banded *b = s->b;
    b->channels = s->c->groups;
    for (int i = 0; i < 2; i++) {
        int64_t taps = attr_of(s, IG_ATTR_kernel, i), stride = attr_of(s, IG_ATTR_strides, i);
        int64_t dilation = attr_of(s, IG_ATTR_dilations, i);
        if (stride > MOST_STRIDE || (taps - 1) * dilation > MOST_REACH) return false;
        b->taps[i] = (int)taps;
        b->strides[i] = (int)stride;
        b->dilations[i] = (int)dilation;
    }
    return true;
}

static bool suits(struct banded *s) {
    struct ig_contract *c = s->c;
    enum ingot_dtype in = ig_contract_in(c, 0)->dtype, filters = ig_contract_in(c, 1)->dtype;
    if (!ig_cuda_depthwise_lies(c) || c->spatial > 2 || in != filters || c->groups % 8 != 0) return false;
    if (!ig_cuda_math_of(in, false, &s->b->math)) return false;
    if (s->b->math != IG_CUDA_F16 && s->b->math != IG_CUDA_BF16) return false;
    return describe(s) && matrices(s->b) <= MOST_MATRICES;
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

static ig_dim tiles_along(struct banded *s, ig_dim size, int64_t tile) {
    return ig_dim_ceil_div(s->k->dims, size, constant(s, tile));
}

static int64_t tile_size(const struct banded *s, int axis) {
    return axis == 0 ? s->b->tile[1] * s->b->rows : s->b->tile[2] * CHUNK;
}

static ig_dim count_tiles(struct banded *s) {
    struct ig_dims *dims = s->k->dims;
    ig_dim tiles = tiles_along(s, ig_contract_out(s->c)->dim[0], s->b->tile[0]);
    for (int i = 0; i < 2; i++)
        tiles = ig_dim_mul(dims, tiles, tiles_along(s, out_size(s, i), tile_size(s, i)));
    return ig_dim_mul(dims, tiles, constant(s, ceil_div(s->b->channels, s->b->group)));
}

/* Finds a tile's place from its number. */
static void locate(struct banded *s, ig_x number) {
    struct ig_loops *k = s->k;
    ig_x group = ig_x_split_off(k, &number, constant(s, ceil_div(s->b->channels, s->b->group)));
    s->channel = ig_x_mul(k, group, num(s, s->b->group));
    for (int i = 1; i >= 0; i--) {
        ig_x block = ig_x_split_off(k, &number, tiles_along(s, out_size(s, i), tile_size(s, i)));
        s->at[i] = ig_x_mul(k, block, num(s, tile_size(s, i)));
    }
    s->image = ig_x_mul(k, number, num(s, s->b->tile[0]));
}

static void push(struct ig_call_arg *args, int *count, int buffer, ig_x index) {
    args[(*count)++] = (struct ig_call_arg){buffer, index};
}

static void call_multiply(struct banded *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    const struct ig_type *in = ig_contract_in(s->c, 0);
    struct ig_call_arg args[10];
    int n = 0;
    push(args, &n, s->sums, num(s, 0));
    push(args, &n, ig_cuda_plain_operand(s->c, 0), num(s, 0));
    push(args, &n, -1, dim(s, in->dim[0]));
    for (int i = 0; i < 2; i++)
        push(args, &n, -1, dim(s, ig_cuda_size_along(s->c, in, i + 1)));
    push(args, &n, -1, s->image);
    for (int i = 0; i < 2; i++)
        push(args, &n, -1, ig_cuda_window_along(s->c, s->at[i], i + 1));
    push(args, &n, ig_cuda_plain_operand(s->c, 1), num(s, 0));
    push(args, &n, -1, s->channel);
    ig_s_call(k, body, "banded::multiply", args, n);
}

/* Where a slot lies in the output. */
struct place {
    ig_x image, row, column, inside; /* as far as the slot decides: rows and columns are to be compared */
};

static struct place place_of(struct banded *s, ig_x slot) {
    struct ig_loops *k = s->k;
    const struct ig_cuda_banded *b = s->b;
    ig_x band = slot, chunk = ig_x_split_off(k, &band, constant(s, b->tile[2]));
    struct place p = {.image = ig_x_split_off(k, &band, constant(s, b->tile[0]))};
    p.image = ig_x_add(k, s->image, p.image);
    p.row = ig_x_add(k, s->at[0], ig_x_mul(k, band, num(s, b->rows)));
    p.column = ig_x_add(k, s->at[1], ig_x_mul(k, chunk, num(s, CHUNK)));
    p.inside = ig_x_less(k, p.image, dim(s, ig_contract_out(s->c)->dim[0]));
    if (b->tile[0] * b->tile[1] * b->tile[2] < SLOTS)
        p.inside = ig_x_and(k, p.inside, ig_x_less(k, band, num(s, b->tile[1])));
    return p;
}

static ig_x within(struct banded *s, ig_x inside, ig_x at, int axis) {
    return ig_x_and(s->k, inside, ig_x_less(s->k, at, dim(s, out_size(s, axis))));
}

/* Stores `vector` channels, from `own` of the tile on, of the position `at` in the output, in the tile `position`. What is
 * beyond the output is computed like the last of it and not stored, so that loads need not wait for comparisons. */
static void emit_position(struct banded *s, struct ig_stmt *body, ig_x at[3], ig_x inside, ig_x position, ig_x own,
                          int vector) {
    struct ig_contract *c = s->c;
    struct ig_loops *k = s->k;
    ig_x j, channel = ig_x_add(k, s->channel, own);
    c->inside = inside;
    if (s->b->channels % s->b->group != 0) channel = ig_x_min(k, channel, num(s, s->b->channels - vector));
    for (int i = 0; i < 3; i++) {
        ig_dim size = i == 0 ? ig_contract_out(c)->dim[0] : out_size(s, i - 1);
        at[i] = ig_x_min(k, at[i], dim(s, ig_dim_sub(k->dims, size, constant(s, 1))));
    }
    body = ig_s_for(k, body, IG_FOR_VECTOR, num(s, 0), num(s, vector), num(s, 1), &j);
    own = ig_x_add(k, own, j);
    channel = ig_x_add(k, channel, j);
    ig_cuda_place(c, at[0], (const ig_x[]){num(s, 0), at[1], at[2]}, channel, c->groups);
    ig_x skew = ig_x_mul(k, ig_x_div(k, own, num(s, 8)), num(s, ig_cuda_banded_skew(s->b) / 4));
    ig_x plane = ig_x_add(k, ig_x_mul(k, own, num(s, ig_cuda_banded_plane(s->b) / 4)), skew);
    ig_contract_store(c, body, s->sums, ig_x_add(k, plane, position));
}

/* A thread has a column of each half of a slot, in all of its lines. */
static void emit_slot(struct banded *s, struct ig_stmt *body, ig_x number, int vector) {
    struct ig_loops *k = s->k;
    const struct ig_cuda_banded *b = s->b;
    ig_x own = ig_x_mul(k, ig_x_split_off(k, &number, constant(s, b->group / vector)), num(s, vector));
    ig_x x = ig_x_split_off(k, &number, constant(s, 4)), line = num(s, 0), half, position;
    struct place p = place_of(s, number);
    if (b->channels % b->group != 0)
        p.inside = ig_x_and(k, p.inside, ig_x_less(k, ig_x_add(k, s->channel, own), num(s, b->channels)));
    if (b->rows > 1) body = ig_s_for(k, body, IG_FOR_UNROLL, num(s, 0), num(s, b->rows), num(s, 1), &line);
    body = ig_s_for(k, body, IG_FOR_UNROLL, num(s, 0), num(s, 2), num(s, 1), &half);
    ig_x at[3] = {p.image, ig_x_add(k, p.row, line),
                  ig_x_add(k, p.column, ig_x_add(k, ig_x_mul(k, half, num(s, 4)), x))};
    position = ig_x_add(k, ig_x_mul(k, line, num(s, 2)), half);
    position = ig_x_add(k, ig_x_mul(k, position, num(s, SLOTS)), number);
    position = ig_x_add(k, ig_x_mul(k, position, num(s, 4)), x);
    emit_position(s, body, at, within(s, within(s, p.inside, at[1], 0), at[2], 1), position, own, vector);
}

static void emit(struct banded *s) {
    struct ig_loops *k = s->k;
    int vector = ig_cuda_vector_of(s->c, s->b->channels);
    ig_x tile, number;
    s->c->kernel->tiles = count_tiles(s);
    struct ig_stmt *body = ig_s_for(k, NULL, IG_FOR_TILE, num(s, 0), dim(s, s->c->kernel->tiles), num(s, 1), &tile);
    locate(s, tile);
    call_multiply(s, body);
    ig_x count = num(s, (int64_t)SLOTS * 4 * (s->b->group / vector));
    body = ig_s_for(k, body, IG_FOR_SIMD, num(s, 0), count, num(s, 1), &number);
    emit_slot(s, body, number, vector);
}

static bool schedule(struct ig_contract *c, bool first) {
    struct banded s = {.c = c, .k = c->k, .b = IG_NEW(c->k->job, struct ig_cuda_banded)};
    struct ordered order;
    if (!suits(&s)) return false;
    order_tiles(&s, &order);
    if (order.count == 0 || (order.costs[0] < ig_cuda_contract_depthwise_time(c)) != first) return false;
    c->choices = order.count < MOST_CHOICES ? order.count : MOST_CHOICES;
    if (c->choice >= c->choices) return true;
    *s.b = order.at[c->choice];
    struct problem *problem = IG_NEW(c->k->job, struct problem);
    *problem = problem_of(&s, s.b);
    c->kernel->model = (struct ig_kernel_model){
        {ig_contract_out(c)->dim[0], out_size(&s, 0), out_size(&s, 1), constant(&s, 1)}, problem, cost};
    c->kernel->banded = s.b;
    c->kernel->threads = ig_cuda_banded_threads(s.b);
    c->kernel->shared_bytes = ig_cuda_banded_shared(s.b);
    c->kernel->resident = problem->resident;
    c->kernel->tactic = ig_format(c->k->job, "banded %s, %dx%dx%d slots of 8x%d, %d channels, %d threads",
                                  s.b->math == IG_CUDA_F16 ? "f16" : "bf16", s.b->tile[0], s.b->tile[1], s.b->tile[2],
                                  s.b->rows, s.b->group, c->kernel->threads);
    s.sums = ig_loops_shared(s.k, c->dtype, 0, "sums");
    emit(&s);
    ig_loops_store_once(s.k);
    return !c->astray;
}

bool ig_cuda_contract_banded_first(struct ig_contract *c) {
    return schedule(c, true);
}

bool ig_cuda_contract_banded_last(struct ig_contract *c) {
    return schedule(c, false);
}
