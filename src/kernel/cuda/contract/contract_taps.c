/*
 * Depthwise convolution on GPUs, channels-last, of inputs that are computed or gathered as they are read, and in double
 * precision (others: contract_depthwise.c): a thread computes one output position of as many channels as one 16-byte
 * access holds. Its sum is an ordinary expression over all taps, whose loads are all in flight together; neighbouring
 * threads read neighbouring channels, and overlapping windows hit the cache.
 */
#include "kernel/cuda/contract/contract.h"

enum { THREADS = 128, MOST_TAPS = 81 };

static ig_x num(struct ig_contract *c, int64_t i) {
    return ig_x_index(c->k, i);
}

/* The sum of all taps at row m of matrix b. */
static ig_x sum_of_taps(struct ig_contract *c, ig_x b, ig_x m) {
    struct ig_loops *k = c->k;
    int64_t taps = ig_contract_const(c, c->depth, 0);
    ig_x sum = ig_x_float(k, c->dtype, 0);
    for (int64_t tap = 0; tap < taps; tap++) {
        ig_x depth[IG_CONTRACT_DEPTH];
        int64_t rest = tap;
        for (int i = c->depth_rank - 1; i >= 0; i--) {
            int64_t size = ig_contract_const(c, c->depth_dim[i], 1);
            depth[i] = num(c, rest % size);
            rest /= size;
        }
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

/* Emits the outputs of `vector` channels at one pixel: number `slot` of these. */
static void emit_slot(struct ig_contract *c, struct ig_stmt *body, int vector, ig_x slot) {
    struct ig_loops *k = c->k;
    ig_x pixel = slot, zero = num(c, 0), j = zero;
    ig_x first = ig_x_mul(k, ig_x_split_off(k, &pixel, ig_contract_as_dim(c, c->groups / vector)), num(c, vector));
    ig_x image = pixel, m = ig_x_split_off(k, &image, c->rows);
    if (vector > 1) body = ig_s_for(k, body, IG_FOR_VECTOR, zero, num(c, vector), num(c, 1), &j);
    ig_x channel = ig_x_add(k, first, j), b = ig_x_add(k, ig_x_mul(k, image, num(c, c->groups)), channel);
    c->linear = ig_x_add(k, ig_x_mul(k, pixel, num(c, c->groups)), channel);
    c->sum = sum_of_taps(c, b, m);
    ig_contract_position(c, b, m, zero, c->position);
    ig_contract_store(c, body, -1, zero);
}

bool ig_cuda_contract_taps(struct ig_contract *c) {
    struct ig_loops *k = c->k;
    struct ig_dims *dims = k->dims;
    int64_t taps = ig_contract_const(c, c->depth, 0);
    if (!ig_cuda_is_depthwise(c) || taps < 1 || taps > MOST_TAPS || !ig_dtype_is_float(c->dtype)) return false;
    int vector = vector_of(c);
    ig_dim slots =
        ig_dim_mul(dims, ig_dim_mul(dims, ig_contract_out(c)->dim[0], c->rows), ig_dim_const(dims, c->groups / vector));
    c->kernel->tiles = ig_dim_ceil_div(dims, slots, ig_dim_const(dims, THREADS));
    c->kernel->threads = THREADS;
    c->kernel->tactic = ig_format(k->job, "depthwise, tap by tap, %d channels a thread", vector);
    ig_x tile, thread, zero = num(c, 0), one = num(c, 1);
    struct ig_stmt *body = ig_s_for(k, NULL, IG_FOR_TILE, zero, ig_x_dim(k, c->kernel->tiles), one, &tile);
    ig_x first = ig_x_mul(k, tile, num(c, THREADS)), left = ig_x_sub(k, ig_x_dim(k, slots), first);
    body = ig_s_for(k, body, IG_FOR_SIMD, zero, ig_x_min(k, num(c, THREADS), left), one, &thread);
    emit_slot(c, body, vector, ig_x_add(k, first, thread));
    return !c->astray;
}
