/*
 * Weights evaluated in slabs, by several threads: bit by bit what the evaluator gives. Recipes are random, of all that
 * moves, converts and changes elements, on hostile numbers and sizes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compile/weights.h"
#include "ir/build.h"
#include "ir/eval/eval.h"
#include "ir/eval/eval_slab.h"
#include "support/counting_allocator.h"
#include "support/support.h"

enum { RECIPES = 250, MOST_STEPS = 7, MOST_ELEMENTS = 400000 };

struct maker {
    struct ig_job *job;
    struct ig_graph *g;
    uint64_t state;
    bool multiplies;
};

static uint64_t pick(struct maker *m, uint64_t n) {
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (m->state >> 33) % n;
}

/* ---- Recipes ---- */

static const enum ingot_dtype dtypes[] = {INGOT_F32, INGOT_F16, INGOT_BF16, INGOT_F64, INGOT_I8,
                                          INGOT_U8,  INGOT_I32, INGOT_I64,  INGOT_BOOL};

/* Any bits; among floats one in eight is NaN, infinite, subnormal or huge. */
static ig_value constant_of(struct maker *m, enum ingot_dtype dtype, int rank, const int64_t *dims) {
    size_t size = ingot_dtype_size(dtype), count = 1;
    for (int i = 0; i < rank; i++)
        count *= (size_t)dims[i];
    unsigned char *bytes = ig_alloc(m->job, count * size + 2);
    bool may_lie_anywhere = ig_dtype_is_float(dtype) || count * size >= IG_DATA_LARGE;
    bytes += may_lie_anywhere && pick(m, 2); /* as in a file without alignment */
    for (size_t i = 0; i < count * size; i++)
        bytes[i] = (unsigned char)pick(m, dtype == INGOT_BOOL ? 2 : 256);
    for (size_t i = 0; i + 1 < count && size > 1; i += 1 + (size_t)pick(m, 16)) {
        unsigned char *high = bytes + i * size + size - 2; /* sign, exponent, the mantissa's first bits */
        static const uint16_t patterns[] = {0x7f80, 0xff80, 0x7fc0, 0x7f81, 0x0001,
                                            0x8000, 0x477f, 0x4780, 0x3300, 0x7c00};
        memcpy(high, &patterns[pick(m, sizeof patterns / sizeof *patterns)], 2);
    }
    struct ig_data *data = IG_NEW(m->job, struct ig_data);
    *data = (struct ig_data){.bytes = bytes, .size = count * size, .initializer = "w"};
    return ig_build_constant(m->g, dtype, rank, dims, data);
}

static int dims_of(struct maker *m, ig_value v, int64_t *dims) {
    assert_true(ig_type_is_static(m->g->dims, ig_type_of(m->g, v), dims));
    return ig_type_of(m->g, v)->rank;
}

static ig_dim number(struct maker *m, int64_t value) {
    return ig_dim_const(m->g->dims, value);
}

static ig_value step_transpose(struct maker *m, ig_value v) {
    int64_t dims[INGOT_MAX_RANK], perm[INGOT_MAX_RANK];
    int rank = dims_of(m, v, dims);
    for (int i = 0; i < rank; i++) {
        int at = (int)pick(m, (uint64_t)i + 1);
        perm[i] = perm[at];
        perm[at] = i;
    }
    return ig_build_transpose(m->g, v, perm);
}

/* Merges neighbouring axes, and splits one by a divisor. */
static ig_value step_reshape(struct maker *m, ig_value v) {
    int64_t dims[INGOT_MAX_RANK], to[INGOT_MAX_RANK];
    int rank = dims_of(m, v, dims), count = 0;
    for (int i = 0; i < rank; i++) {
        if (count > 0 && pick(m, 3) == 0) {
            to[count - 1] *= dims[i];
        } else {
            to[count++] = dims[i];
        }
    }
    for (int i = 0; i < count && count < INGOT_MAX_RANK; i++) {
        int64_t divisor = (int64_t[]){1, 2, 3, 4, 7, 16}[pick(m, 6)];
        if (to[i] % divisor != 0 || pick(m, 2)) continue;
        memmove(to + i + 1, to + i, (size_t)(count - i) * sizeof *to);
        to[i] = to[i + 1] / divisor;
        to[i + 1] = divisor;
        count++;
        i++;
    }
    ig_dim shape[INGOT_MAX_RANK];
    for (int i = 0; i < count; i++)
        shape[i] = number(m, to[i]);
    return ig_build_reshape(m->g, v, shape, count);
}

static ig_value step_slice(struct maker *m, ig_value v) {
    int64_t dims[INGOT_MAX_RANK];
    int rank = dims_of(m, v, dims);
    if (rank == 0) return v;
    int axis = (int)pick(m, (uint64_t)rank);
    int64_t dim = dims[axis], step = (int64_t[]){1, 1, 2, 3, -1, -2}[pick(m, 6)], start = (int64_t)pick(m, 3);
    if (dim < 4) return v;
    if (step < 0)
        return ig_build_slice_axis(m->g, v, axis, number(m, dim - 1 - start), number(m, (dim - start) / -step), step);
    return ig_build_slice_axis(m->g, v, axis, number(m, start), number(m, (dim - start + step - 1) / step), step);
}

static ig_value step_pad(struct maker *m, ig_value v) {
    int64_t dims[INGOT_MAX_RANK];
    ig_dim before[INGOT_MAX_RANK], after[INGOT_MAX_RANK];
    int rank = dims_of(m, v, dims);
    enum ig_pad_mode mode = pick(m, 3) ? IG_PAD_CONSTANT : (enum ig_pad_mode)pick(m, 4);
    bool valued = mode == IG_PAD_CONSTANT && pick(m, 2);
    for (int i = 0; i < rank; i++) {
        int64_t most = dims[i] < 2 ? 0 : dims[i] < 200 ? dims[i] - 1 : 200;
        before[i] = number(m, pick(m, 2) ? 0 : (int64_t)pick(m, (uint64_t)most + 1));
        after[i] = number(m, pick(m, 2) ? 0 : (int64_t)pick(m, (uint64_t)most + 1));
    }
    ig_value value = valued ? constant_of(m, ig_type_of(m->g, v)->dtype, 0, NULL) : IG_NO_VALUE;
    return ig_build_pad(m->g, v, before, after, mode, value);
}

static ig_value step_cast(struct maker *m, ig_value v) {
    enum ingot_dtype to = dtypes[pick(m, pick(m, 2) ? 4 : sizeof dtypes / sizeof *dtypes)];
    return pick(m, 4) ? ig_build_cast(m->g, v, to) : ig_build_cast_saturating(m->g, v, to);
}

static ig_value step_broadcast(struct maker *m, ig_value v) {
    int64_t dims[INGOT_MAX_RANK];
    ig_dim to[INGOT_MAX_RANK];
    int rank = dims_of(m, v, dims), more = rank < INGOT_MAX_RANK && pick(m, 2);
    if (more) to[0] = number(m, 1 + (int64_t)pick(m, 3));
    for (int i = 0; i < rank; i++)
        to[i + more] = number(m, dims[i] == 1 ? 1 + (int64_t)pick(m, 3) : dims[i]);
    return ig_build_broadcast(m->g, v, to, rank + more);
}

static ig_value step_concat(struct maker *m, ig_value v) {
    int64_t dims[INGOT_MAX_RANK];
    int rank = dims_of(m, v, dims), count = 2 + (int)pick(m, 2);
    if (rank == 0) return v;
    int axis = (int)pick(m, (uint64_t)rank);
    ig_value parts[3];
    for (int i = 0; i < count; i++) {
        dims[axis] = (int64_t)pick(m, 5);
        parts[i] = pick(m, 4) ? constant_of(m, ig_type_of(m->g, v)->dtype, rank, dims) : v;
    }
    parts[pick(m, (uint64_t)count)] = v;
    return ig_build_concat(m->g, parts, count, axis);
}

static ig_value step_gather(struct maker *m, ig_value v) {
    int64_t dims[INGOT_MAX_RANK], shape[2], values[64];
    int rank = dims_of(m, v, dims), index_rank = (int)pick(m, 3);
    if (rank == 0 || rank - 1 + index_rank > INGOT_MAX_RANK) return v;
    int axis = (int)pick(m, (uint64_t)rank);
    if (dims[axis] == 0) return v;
    int64_t count = 1;
    for (int i = 0; i < index_rank; i++)
        count *= shape[i] = 1 + (int64_t)pick(m, 5);
    for (int64_t i = 0; i < count; i++)
        values[i] = (int64_t)pick(m, 2 * (uint64_t)dims[axis]) - dims[axis];
    struct ig_data *data = IG_NEW(m->job, struct ig_data);
    *data = (struct ig_data){.bytes = ig_memdup(m->job, values, sizeof values), .size = (size_t)count * 8};
    return ig_build_gather(m->g, v, ig_build_constant(m->g, INGOT_I64, index_rank, shape, data), axis);
}

static ig_value step_scale(struct maker *m, ig_value v) {
    const struct ig_type *type = ig_type_of(m->g, v);
    int64_t dims[INGOT_MAX_RANK];
    if (type->dtype == INGOT_BOOL) return v;
    int rank = dims_of(m, v, dims), skipped = rank ? (int)pick(m, (uint64_t)rank) : 0;
    for (int i = 0; i < rank; i++)
        dims[i] = pick(m, 3) ? 1 : dims[i];
    ig_value scale = constant_of(m, type->dtype, rank - skipped, dims + skipped);
    return pick(m, 2) ? ig_map2(m->g, IG_OP_mul, v, scale) : ig_map2(m->g, IG_OP_add, scale, v);
}

static ig_value step_where(struct maker *m, ig_value v) {
    int64_t dims[INGOT_MAX_RANK];
    int rank = dims_of(m, v, dims);
    ig_value condition = constant_of(m, INGOT_BOOL, rank, dims);
    return ig_build_where(m->g, condition, v, constant_of(m, ig_type_of(m->g, v)->dtype, 0, NULL));
}

/* Read twice, and not divisible along every axis. */
static ig_value step_centre(struct maker *m, ig_value v) {
    int64_t dims[INGOT_MAX_RANK], axis;
    int rank = dims_of(m, v, dims);
    if (rank == 0 || ig_type_of(m->g, v)->dtype != INGOT_F32) return v;
    axis = (int64_t)pick(m, (uint64_t)rank);
    return ig_map2(m->g, IG_OP_sub, v, ig_build_reduce(m->g, IG_OP_reduce_max, v, &axis, 1));
}

/* What slabs do not divide. Several of them are evaluated with the result. */
static ig_value step_product(struct maker *m, ig_value v) {
    int64_t dims[INGOT_MAX_RANK], shape[2], elements = 1;
    if (!m->multiplies) return v;
    int rank = dims_of(m, v, dims);
    for (int i = 0; i < rank; i++)
        elements *= dims[i];
    if (rank < 2 || ig_type_of(m->g, v)->dtype != INGOT_F32 || elements > MOST_ELEMENTS / 4) return v;
    shape[0] = dims[rank - 1];
    shape[1] = 1 + (int64_t)pick(m, 8);
    v = ig_build_matmul(m->g, v, constant_of(m, INGOT_F32, 2, shape), INGOT_F32);
    return pick(m, 2) ? ig_map2(m->g, IG_OP_sub, v, ig_map2(m->g, IG_OP_mul, v, v)) : v;
}

static ig_value (*const steps[])(struct maker *, ig_value) = {
    step_product, step_transpose, step_transpose, step_reshape, step_reshape, step_cast,  step_cast,      step_pad,
    step_pad,     step_slice,     step_concat,    step_gather,  step_scale,   step_where, step_broadcast, step_centre};

static ig_value recipe(struct maker *m) {
    static const int64_t sizes[] = {1, 1, 2, 3, 7, 16, 31, 64, 129, 300};
    int64_t dims[INGOT_MAX_RANK], elements = 1;
    int rank = (int)pick(m, INGOT_MAX_RANK + 1);
    bool is_empty = pick(m, 20) == 0;
    for (int i = 0; i < rank; i++) {
        dims[i] = sizes[pick(m, sizeof sizes / sizeof *sizes)];
        if (elements * dims[i] > MOST_ELEMENTS / 4) dims[i] = 1;
        elements *= dims[i];
    }
    if (rank > 0 && !is_empty && elements < 20000) { /* large enough to be divided */
        dims[pick(m, (uint64_t)rank)] *= 20000 / elements + 1;
    } else if (rank > 0 && is_empty) {
        dims[pick(m, (uint64_t)rank)] = 0;
    }
    ig_value v = constant_of(m, dtypes[pick(m, pick(m, 2) ? 1 : 9)], rank, dims);
    for (uint64_t i = pick(m, MOST_STEPS + 1); i > 0; i--) {
        ig_value next = steps[pick(m, sizeof steps / sizeof *steps)](m, v);
        int64_t elements_now = 1;
        int rank_now = dims_of(m, next, dims);
        for (int k = 0; k < rank_now; k++)
            elements_now *= dims[k];
        if (elements_now <= MOST_ELEMENTS) v = next;
    }
    return v;
}

/* ---- Comparisons ---- */

static size_t bytes_of(const struct ingot_tensor *t) {
    return (size_t)ingot_tensor_elements(t) * ingot_dtype_size(t->dtype);
}

struct counts {
    uint32_t divided, whole;
};

static void check_slabs(struct maker *m, ig_value v, size_t slab_bytes, struct counts *counts) {
    struct ingot_tensor expected = ig_const_tensor(m->g, v);
    struct ig_slabs *slabs = ig_slabs_open(m->g, v, slab_bytes);
    size_t at = 0;
    ig_slabs_prefetch(slabs);
    for (uint32_t i = 0; i < slabs->count; i++) {
        struct ig_slab slab;
        ig_slab_evaluate(m->job, slabs, i, &slab);
        assert_true(slab.size <= bytes_of(&expected) - at);
        if (slab.size && memcmp(slab.data, (const char *)expected.data + at, slab.size) != 0)
            fail_msg("slab %u of %u differs", i, slabs->count);
        at += slab.size;
        ig_slab_free(m->job->allocator, &slab);
    }
    assert_int_equal(at, bytes_of(&expected));
    if (slabs->held < bytes_of(&expected)) {
        counts->divided++;
    } else {
        counts->whole++;
    }
    ig_slabs_close(slabs);
    ig_const_release(m->g, v, &expected);
}

struct trial {
    uint64_t seed;
    struct counts counts;
};

static void slabs_body(struct ig_job *job, void *argument) {
    struct trial *t = argument;
    struct maker m = {.job = job, .state = t->seed, .multiplies = true};
    m.g = ig_graph_create(job, ig_dims_create(job));
    ig_value v = recipe(&m);
    static const size_t sizes[] = {1, 1000, 40000, 1 << 20};
    check_slabs(&m, v, sizes[pick(&m, 4)], &t->counts);
}

static void test_slabs(void **state) {
    struct trial t = {0};
    struct ingot_error error;
    for (t.seed = 1; t.seed <= RECIPES; t.seed++) {
        struct ig_job job;
        struct counting_allocator counter;
        counting_allocator_init(&counter);
        ig_job_init(&job, &counter.base);
        if (ig_job_run(&job, slabs_body, &t, &error) != INGOT_OK)
            fail_msg("recipe %u: %s", (unsigned)t.seed, error.message);
        ig_job_deinit(&job);
        assert_int_equal(counter.live_count, 0);
    }
    if (t.counts.divided < RECIPES / 4) fail_msg("only %u of %d recipes were divided", t.counts.divided, RECIPES);
}

/* ---- The reader ---- */

struct reading {
    uint64_t seed;
    unsigned jobs;
    uint32_t stop_after; /* in pieces */
    bool checked;
};

enum { WEIGHTS = 12 };

static void reading_body(struct ig_job *job, void *argument) {
    struct reading *r = argument;
    struct maker m = {.job = job, .state = r->seed};
    m.g = ig_graph_create(job, ig_dims_create(job));
    struct ig_weight weights[WEIGHTS];
    int64_t dims[INGOT_MAX_RANK];
    for (int i = 0; i < WEIGHTS; i++) {
        weights[i] = (struct ig_weight){.graph = m.g, .value = recipe(&m)};
        weights[i].size = ingot_dtype_size(ig_type_of(m.g, weights[i].value)->dtype);
        int rank = dims_of(&m, weights[i].value, dims);
        for (int k = 0; k < rank; k++)
            weights[i].size *= (uint64_t)dims[k];
    }
    struct ig_weight_reader *reader = ig_weights_open(job, weights, WEIGHTS, r->jobs);
    uint32_t pieces = 0;
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        struct ingot_tensor expected = {0};
        if (r->checked) expected = ig_const_tensor(m.g, weights[i].value);
        for (size_t at = 0, size; at < weights[i].size; at += size) {
            const void *data = ig_weights_read(reader, i, &size);
            if (pieces++ == r->stop_after) ig_raise(job, INGOT_CANCELLED, "enough");
            assert_true(size > 0 && size <= weights[i].size - at);
            if (r->checked) assert_memory_equal(data, (const char *)expected.data + at, size);
        }
        ig_const_release(m.g, weights[i].value, &expected);
    }
    ig_weights_close(reader);
}

static enum ingot_status read_all(struct reading *r, size_t fail_at) {
    struct ig_job job;
    struct ingot_error error;
    struct counting_allocator counter;
    counting_allocator_init(&counter);
    counter.fail_at = fail_at;
    ig_job_init(&job, &counter.base);
    enum ingot_status status = ig_job_run(&job, reading_body, r, &error);
    ig_job_deinit(&job);
    assert_int_equal(counter.live_count, 0);
    assert_int_equal(counter.wrong, 0);
    return status;
}

static void test_reader(void **state) {
    static const unsigned jobs[] = {1, 2, 5, 0};
    for (uint64_t seed = 100; seed < 112; seed++) {
        struct reading r = {.seed = seed, .jobs = jobs[seed % 4], .stop_after = UINT32_MAX, .checked = true};
        assert_int_equal(read_all(&r, 0), INGOT_OK);
        r.stop_after = (uint32_t)seed % 7;
        assert_int_equal(read_all(&r, 0), INGOT_CANCELLED);
    }
}

/* Each allocation fails once, in whichever thread it is. */
static void test_reader_without_memory(void **state) {
    struct reading r = {.seed = 200, .jobs = 3, .stop_after = UINT32_MAX};
    enum ingot_status status = INGOT_OUT_OF_MEMORY;
    for (size_t fail_at = 1; status != INGOT_OK; fail_at++) {
        status = read_all(&r, fail_at);
        assert_true(status == INGOT_OK || status == INGOT_OUT_OF_MEMORY);
        assert_true(fail_at < 2000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slabs),
        cmocka_unit_test(test_reader),
        cmocka_unit_test(test_reader_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
