/*
 * Products on GPUs of which the depth and either the rows or the columns are few, such as those that mix the heads of an
 * attention: tiles of the tensor cores would be mostly empty, while as a map they take as long as their operands' bytes. A
 * thread computes the few results of several neighbours along the other, long side; its sums are ordinary expressions,
 * whose loads are all in flight together.
 */
#include <math.h>

#include "kernel/affine.h"
#include "kernel/cuda/contract/contract.h"

enum {
    THREADS = 128,
    MOST_DEPTH = 32,
    MOST_PRODUCTS = 64, /* for each element of the long side */
    SMALL_SIDE = 32,    /* if that is short, too, tiles would be emptier still: */
    MOST_OF_SMALL = 256,
    MOST_BYTES = 16, /* of an access */
};

struct small {
    struct ig_contract *c;
    struct ig_loops *k;
    bool by_rows;       /* the long side are the rows, else the columns */
    int64_t few, depth; /* of the other side */
    ig_dim batch, side; /* matrices; the length of the long side */
    int vector;         /* neighbours of a thread */
    ig_x b, at, other;  /* of an element: the matrix, its places along the long side and the other */
};

struct problem {
    double products, bytes; /* for each element of the long side */
};

static ig_x num(struct small *s, int64_t i) {
    return ig_x_index(s->k, i);
}

/* ---- Does it apply? ---------------------------------------------------------------------------------------------- */

static bool applies(struct small *s) {
    struct ig_contract *c = s->c;
    int64_t rows = ig_contract_const(c, c->rows, INT64_MAX), columns = ig_contract_const(c, c->columns, INT64_MAX);
    s->depth = ig_contract_const(c, c->depth, 0);
    if (c->spatial || c->packed || c->has_twin || !ig_dtype_is_float(c->dtype) || c->together > 1) return false;
    if (s->depth < 1 || s->depth > MOST_DEPTH) return false;
    s->by_rows = columns <= rows;
    s->few = s->by_rows ? columns : rows;
    s->side = s->by_rows ? c->rows : c->columns;
    s->batch = c->batch;
    bool is_short = ig_contract_const(c, s->side, INT64_MAX) <= SMALL_SIDE;
    return s->few >= 1 && s->few <= (is_short ? MOST_OF_SMALL : MOST_PRODUCTS) / s->depth;
}

/* ---- Elements ---------------------------------------------------------------------------------------------------- */

static ig_x row(const struct small *s) {
    return s->by_rows ? s->at : s->other;
}

static ig_x column(const struct small *s) {
    return s->by_rows ? s->other : s->at;
}

static void at_depth(struct small *s, int64_t p, ig_x *out_depth) {
    for (int i = s->c->depth_rank - 1; i >= 0; i--) {
        int64_t size = ig_contract_const(s->c, s->c->depth_dim[i], 1);
        out_depth[i] = num(s, p % size);
        p /= size;
    }
}

static ig_x sum(struct small *s) {
    struct ig_loops *k = s->k;
    ig_x total = IG_NO_X, depth[IG_CONTRACT_DEPTH];
    for (int64_t p = 0; p < s->depth; p++) {
        at_depth(s, p, depth);
        ig_x a = ig_x_cast(k, ig_contract_a(s->c, s->b, row(s), depth), s->c->dtype, false);
        ig_x product = ig_x_map2(k, IG_OP_mul, a, ig_contract_b(s->c, s->b, column(s), depth));
        total = total == IG_NO_X ? product : ig_x_map2(k, IG_OP_add, total, product);
    }
    return total;
}

/* Are neighbours along the long side neighbours in memory? */
static bool is_contiguous(struct small *s, ig_x value, ig_x side) {
    const struct ig_x_node *n = ig_x_look(s->k, value);
    struct ig_affine place;
    if (n->kind != IG_X_LOAD) return false;
    ig_affine_of(s->k, n->args[0], &place);
    return !ig_affine_entangled(s->k, &place, side) &&
           ig_affine_factor(s->k, &place, side) == ig_dim_const(s->k->dims, 1);
}

/* As many neighbours as an access holds, if they are neighbours in the operand and in the results. */
static int choose_vector(struct small *s) {
    struct ig_contract *c = s->c;
    ig_x depth[IG_CONTRACT_DEPTH];
    at_depth(s, 0, depth);
    s->b = ig_x_free_var(s->k, s->batch);
    s->at = ig_x_free_var(s->k, s->side);
    s->other = num(s, 0);
    ig_x value = s->by_rows ? ig_contract_a(c, s->b, row(s), depth) : ig_contract_b(c, s->b, column(s), depth);
    ig_contract_position(c, s->b, row(s), column(s), c->position);
    const struct ig_type *out = ig_contract_out(c);
    struct ig_affine place;
    ig_affine_of(s->k, ig_lower_linear(&c->lower, out, c->position), &place);
    bool results = !ig_affine_entangled(s->k, &place, s->at) &&
                   ig_affine_factor(s->k, &place, s->at) == ig_dim_const(s->k->dims, 1);
    if (!results || !is_contiguous(s, value, s->at)) return 1;
    int vector = MOST_BYTES / (int)ingot_dtype_size(ig_contract_in(c, !s->by_rows)->dtype);
    while (vector > 1 && !ig_dim_divides(s->k->dims, ig_dim_const(s->k->dims, vector), s->side))
        vector /= 2;
    return vector;
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

/* Microseconds: the bytes, mostly from the second cache, or the instructions. */
static double cost(const struct ig_kernel *kernel, const int64_t *sizes) {
    const struct problem *p = kernel->model.problem;
    double elements = (double)sizes[0] * (double)sizes[1];
    return 2 + fmax(elements * p->bytes / 3e6, elements * p->products * 2 / (IG_CUDA_PROCESSORS * 128 * 1.7e3 * 0.5));
}

static void make_model(struct small *s) {
    struct ig_contract *c = s->c;
    struct problem *p = IG_NEW(s->k->job, struct problem);
    double in = (double)ingot_dtype_size(ig_contract_in(c, !s->by_rows)->dtype), few = (double)s->few;
    p->products = few * (double)s->depth;
    p->bytes = in * (double)s->depth + few * (double)ingot_dtype_size(ig_contract_out(c)->dtype);
    ig_dim one = ig_dim_const(s->k->dims, 1);
    c->kernel->model = (struct ig_kernel_model){{s->batch, s->side, one, one}, p, cost};
}

static void emit(struct small *s, struct ig_stmt *body, ig_x number, ig_dim across) {
    struct ig_loops *k = s->k;
    struct ig_contract *c = s->c;
    ig_x j = num(s, 0);
    ig_x first = ig_x_mul(k, ig_x_split_off(k, &number, across), num(s, s->vector));
    int64_t together = 8; /* results of the short side, if a thread has no neighbours along the long one */
    while (s->few % together != 0 || (together > 1 && s->vector > 1))
        together /= 2;
    s->b = number;
    s->other = num(s, 0);
    if (s->few > together)
        body = ig_s_for(k, body, IG_FOR_UNROLL, num(s, 0), num(s, s->few), num(s, together), &s->other);
    int64_t vector = s->vector > 1 ? s->vector : together;
    if (vector > 1) body = ig_s_for(k, body, IG_FOR_VECTOR, num(s, 0), num(s, vector), num(s, 1), &j);
    s->at = s->vector > 1 ? ig_x_add(k, first, j) : first;
    if (s->vector == 1) s->other = ig_x_add(k, s->other, j);
    c->sum = sum(s);
    ig_contract_position(c, s->b, row(s), column(s), c->position);
    ig_contract_store(c, body, -1, num(s, 0));
}

bool ig_cuda_contract_small(struct ig_contract *c) {
    struct small s = {.c = c, .k = c->k};
    struct ig_dims *dims = c->k->dims;
    if (!applies(&s)) return false;
    s.vector = choose_vector(&s);
    ig_dim across = ig_dim_ceil_div(dims, s.side, ig_dim_const(dims, s.vector)),
           threads = ig_dim_mul(dims, s.batch, across);
    c->kernel->tiles = ig_dim_ceil_div(dims, threads, ig_dim_const(dims, THREADS));
    c->kernel->threads = THREADS;
    c->kernel->tactic =
        ig_format(c->k->job, "small products, %d %s a thread", s.vector, s.by_rows ? "rows" : "columns");
    make_model(&s);
    ig_x tile, thread, zero = num(&s, 0), one = num(&s, 1), block = num(&s, THREADS);
    struct ig_stmt *body = ig_s_for(c->k, NULL, IG_FOR_TILE, zero, ig_x_dim(c->k, c->kernel->tiles), one, &tile);
    ig_x first = ig_x_mul(c->k, tile, block), left = ig_x_sub(c->k, ig_x_dim(c->k, threads), first);
    body = ig_s_for(c->k, body, IG_FOR_SIMD, zero, ig_x_min(c->k, block, left), one, &thread);
    emit(&s, body, ig_x_add(c->k, first, thread), across);
    return !c->astray;
}
