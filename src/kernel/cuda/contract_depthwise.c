/*
 * Depthwise convolution on GPUs, channels-last: a thread computes one output position of as many channels as one
 * 16-byte access holds. It is bound by memory, so its sum is an ordinary expression over all taps, whose loads are all
 * in flight together; neighbouring threads read neighbouring channels, and overlapping windows hit the cache. For large
 * windows with many blocks, the expression covers one row of taps at a time: all taps would take so many registers that
 * only two blocks fit on a multiprocessor.
 */
#include "kernel/cuda/contract.h"

enum { THREADS = 128, MOST_TAPS = 81, MOST_AT_ONCE = 25, FEW_BLOCKS = 2 * IG_CUDA_PROCESSORS };

static ig_x num(struct ig_contract *c, int64_t i) {
    return ig_x_index(c->k, i);
}

/* The sum of all taps at row m of matrix b; if `row` is given, only of those in that row of the window. */
static ig_x sum_of_taps(struct ig_contract *c, ig_x b, ig_x m, ig_x row) {
    struct ig_loops *k = c->k;
    int64_t taps = ig_contract_const(c, c->depth, 0);
    if (row != IG_NO_X) taps /= ig_contract_const(c, c->depth_dim[0], 1);
    ig_x sum = ig_x_float(k, c->dtype, 0);
    for (int64_t tap = 0; tap < taps; tap++) {
        ig_x depth[IG_CONTRACT_DEPTH];
        int64_t rest = tap;
        for (int i = c->depth_rank - 1; i >= 0; i--) {
            int64_t size = ig_contract_const(c, c->depth_dim[i], 1);
            depth[i] = num(c, rest % size);
            rest /= size;
        }
        if (row != IG_NO_X) depth[0] = row;
        ig_x product = ig_x_map2(k, IG_OP_mul, ig_contract_a(c, b, m, depth), ig_contract_b(c, b, num(c, 0), depth));
        sum = tap == 0 ? product : ig_x_map2(k, IG_OP_add, sum, product);
    }
    return sum;
}

static int vector_of(const struct ig_contract *c) {
    int vector = 16 / (int)ingot_dtype_size(ig_contract_in(c, 0)->dtype);
    while (vector > 1 && c->groups % vector != 0)
        vector /= 2;
    return vector;
}

/* The work of a thread: the outputs of `vector` channels at one pixel. */
struct slot {
    struct ig_contract *c;
    struct ig_stmt *body;
    int vector;
    ig_x pixel, image, m, first; /* pixel: index over all images; first: channel */
};

static struct slot slot_of(struct ig_contract *c, struct ig_stmt *body, int vector, ig_x number) {
    ig_x each = num(c, c->groups / vector);
    struct slot s = {.c = c, .body = body, .vector = vector, .pixel = ig_x_div(c->k, number, each)};
    s.first = ig_x_mul(c->k, ig_x_mod(c->k, number, each), num(c, vector));
    s.image = s.pixel;
    s.m = ig_x_split_off(c->k, &s.image, c->rows);
    return s;
}

static struct ig_stmt *lane_loop(const struct slot *s, struct ig_stmt *body, ig_x *out_lane) {
    struct ig_contract *c = s->c;
    *out_lane = num(c, 0);
    return s->vector == 1 ? body
                          : ig_s_for(c->k, body, IG_FOR_VECTOR, num(c, 0), num(c, s->vector), num(c, 1), out_lane);
}

static ig_x matrix_of(const struct slot *s, ig_x channel) {
    return ig_x_add(s->c->k, ig_x_mul(s->c->k, s->image, num(s->c, s->c->groups)), channel);
}

/* Adds up the window row by row, in registers of `thread`; returns their buffer. */
static int add_rows(const struct slot *s, ig_x thread) {
    struct ig_contract *c = s->c;
    struct ig_loops *k = c->k;
    int sums = ig_loops_spread(k, c->dtype, THREADS, s->vector, "taps");
    ig_x first = ig_x_mul(k, thread, num(c, s->vector)), row, j;
    struct ig_stmt *lanes = lane_loop(s, s->body, &j);
    ig_s_store(k, lanes, sums, ig_x_add(k, first, j), ig_x_float(k, c->dtype, 0));
    struct ig_stmt *rows =
        ig_s_for(k, s->body, IG_FOR_SERIAL, num(c, 0), ig_x_dim(k, c->depth_dim[0]), num(c, 1), &row);
    lanes = lane_loop(s, rows, &j);
    ig_x at = ig_x_add(k, first, j), so_far = ig_x_load(k, sums, at);
    ig_x sum = sum_of_taps(c, matrix_of(s, ig_x_add(k, s->first, j)), s->m, row);
    ig_s_store(k, lanes, sums, at, ig_x_map2(k, IG_OP_add, so_far, sum));
    return sums;
}

static void emit_slot(const struct slot *s, ig_x thread, bool by_rows) {
    struct ig_contract *c = s->c;
    struct ig_loops *k = c->k;
    ig_x j, zero = num(c, 0);
    int sums = by_rows ? add_rows(s, thread) : -1;
    struct ig_stmt *lanes = lane_loop(s, s->body, &j);
    ig_x channel = ig_x_add(k, s->first, j), b = matrix_of(s, channel);
    c->linear = ig_x_add(k, ig_x_mul(k, s->pixel, num(c, c->groups)), channel);
    c->sum = by_rows ? ig_x_load(k, sums, ig_x_add(k, ig_x_mul(k, thread, num(c, s->vector)), j))
                     : sum_of_taps(c, b, s->m, IG_NO_X);
    ig_contract_position(c, b, s->m, zero, c->position);
    ig_contract_store(c, lanes, -1, zero);
}

static bool goes_by_rows(struct ig_contract *c, int vector) {
    int64_t taps = ig_contract_const(c, c->depth, 0), blocks = ig_contract_const(c, c->kernel->tiles, INT64_MAX);
    return vector > 1 && taps > MOST_AT_ONCE && blocks > FEW_BLOCKS && ig_contract_const(c, c->depth_dim[0], 1) > 1;
}

bool ig_cuda_contract_depthwise(struct ig_contract *c) {
    struct ig_loops *k = c->k;
    struct ig_dims *dims = k->dims;
    int64_t taps = ig_contract_const(c, c->depth, 0);
    if (!c->spatial || c->groups == 1 || taps < 1 || taps > MOST_TAPS) return false;
    if (!ig_dtype_is_float(c->dtype) || !ig_contract_attr_int(c, IG_ATTR_channels_last)) return false;
    if (ig_contract_const(c, c->columns, 0) != 1 || ig_contract_const(c, c->depth_dim[c->spatial], 0) != 1)
        return false;
    int vector = vector_of(c);
    ig_dim slots =
        ig_dim_mul(dims, ig_dim_mul(dims, ig_contract_out(c)->dim[0], c->rows), ig_dim_const(dims, c->groups / vector));
    c->kernel->tiles = ig_dim_ceil_div(dims, slots, ig_dim_const(dims, THREADS));
    c->kernel->threads = THREADS;
    bool by_rows = goes_by_rows(c, vector);
    c->kernel->tactic = ig_format(k->job, "depthwise, %d channels a thread%s", vector, by_rows ? ", row by row" : "");
    ig_x tile, thread, zero = num(c, 0), one = num(c, 1);
    struct ig_stmt *body = ig_s_for(k, NULL, IG_FOR_TILE, zero, ig_x_dim(k, c->kernel->tiles), one, &tile);
    ig_x first = ig_x_mul(k, tile, num(c, THREADS)), left = ig_x_sub(k, ig_x_dim(k, slots), first);
    body = ig_s_for(k, body, IG_FOR_SIMD, zero, ig_x_min(k, num(c, THREADS), left), one, &thread);
    struct slot s = slot_of(c, body, vector, ig_x_add(k, first, thread));
    emit_slot(&s, thread, by_rows);
    return !c->astray;
}
