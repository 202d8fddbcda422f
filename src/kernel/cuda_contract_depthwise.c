/*
 * Depthwise convolution on GPUs, channels last: a thread has one output position of as many channels as an access of 16 bytes
 * holds. It is bound by memory, so its sum is an ordinary expression over all taps, whose loads are all in flight together;
 * neighbouring threads read neighbouring channels, and what their windows share comes from the cache.
 */
#include "kernel/cuda_contract.h"

enum { THREADS = 128, MOST_TAPS = 81 };

static ig_x num(struct ig_contract *c, int64_t i) {
    return ig_x_index(c->k, i);
}

/* The sum of all taps at row m of matrix b: of the output at hand. */
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
    int vector = 16 / (int)ingot_dtype_size(ig_type_of(c->graph, c->node.in[0])->dtype);
    while (vector > 1 && c->groups % vector != 0)
        vector /= 2;
    return vector;
}

bool ig_cuda_contract_depthwise(struct ig_contract *c) {
    struct ig_loops *k = c->k;
    struct ig_dims *dims = k->dims;
    int64_t taps = ig_contract_const(c, c->depth, 0);
    if (!c->spatial || c->groups == 1 || taps < 1 || taps > MOST_TAPS) return false;
    if (!ig_dtype_is_float(c->dtype) || !ig_attr_int(c->graph, &c->node, IG_ATTR_channels_last)) return false;
    if (ig_contract_const(c, c->columns, 0) != 1 || ig_contract_const(c, c->depth_dim[c->spatial], 0) != 1)
        return false;
    int vector = vector_of(c);
    int64_t each = c->groups / vector;
    ig_dim slots = ig_dim_mul(dims, ig_dim_mul(dims, ig_type_of(c->graph, c->node.out)->dim[0], c->rows),
                              ig_dim_const(dims, each));
    c->kernel->tiles = ig_dim_ceil_div(dims, slots, ig_dim_const(dims, THREADS));
    c->kernel->threads = THREADS;
    c->kernel->tactic = ig_format(k->job, "depthwise, %d channels a thread", vector);
    ig_x tile, thread, j = num(c, 0), zero = num(c, 0), one = num(c, 1);
    struct ig_stmt *body = ig_s_for(k, NULL, IG_FOR_TILE, zero, ig_x_dim(k, c->kernel->tiles), one, &tile);
    ig_x first = ig_x_mul(k, tile, num(c, THREADS)), left = ig_x_sub(k, ig_x_dim(k, slots), first);
    body = ig_s_for(k, body, IG_FOR_SIMD, zero, ig_x_min(k, num(c, THREADS), left), one, &thread);
    if (vector > 1) body = ig_s_for(k, body, IG_FOR_VECTOR, zero, num(c, vector), one, &j);
    ig_x slot = ig_x_add(k, first, thread);
    ig_x image = ig_x_div(k, slot, num(c, each));
    ig_x channel = ig_x_add(k, ig_x_mul(k, ig_x_mod(k, slot, num(c, each)), num(c, vector)), j);
    ig_x pixel = image, m = ig_contract_split_off(c, &image, c->rows);
    c->linear = ig_x_add(k, ig_x_mul(k, pixel, num(c, c->groups)), channel);
    ig_x b = ig_x_add(k, ig_x_mul(k, image, num(c, c->groups)), channel);
    c->sum = sum_of_taps(c, b, m);
    ig_contract_position(c, b, m, zero, c->position);
    ig_contract_store(c, body, -1, zero);
    return !c->astray;
}
