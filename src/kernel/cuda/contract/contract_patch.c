/*
 * Convolutions of few columns or few channels on GPUs, channels-last, on the tensor cores: a block computes a tile of
 * neighbouring output positions, whose windows lie in one patch of the image. The patch is copied to shared memory once
 * (codegen/cuda/patch.cu), where a product of copied windows (contract.c) would copy it for each tap anew. With few
 * columns to multiply it by, those copies take most of the time. Blocks are persistent and keep the weights.
 */
#include <math.h>

#include "kernel/cuda/contract/contract.h"

enum {
    MOST_STEPS = 72,        /* of the unrolled walk along the depth */
    MOST_SHARED = 99 << 10, /* which every generation gives to a block */
    MOST_COLUMNS = 96,      /* of a tile */
    MOST_SUMS = 96,         /* of a thread */
    MOST_LASTING = 6,       /* blocks of a multiprocessor */
    MOST_CHOICES = 4,
    REGISTERS = 65536,
};

/* Tiles: rows and columns of positions, and how many times 16 of them a warp has. Eight neighbours of a row are loaded at
 * once. */
static const struct shape {
    int rows, columns, blocks;
} shapes[] = {{16, 16, 4}, {16, 16, 2}, {8, 16, 4}, {8, 16, 2}, {8, 8, 2},  {8, 8, 1},   {16, 32, 4},
              {16, 32, 2}, {8, 32, 4},  {8, 32, 2}, {1, 64, 2}, {1, 64, 1}, {1, 128, 2}, {1, 256, 2}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* What the cost of a kernel depends on, beside sizes. */
struct problem {
    const struct ig_cuda_patch *p;
    int64_t matrices;        /* of weights: groups, and blocks of columns */
    int64_t groups, columns; /* of all groups */
    int lasting;
    double issue; /* ig_cuda_contract_issue */
};

struct patch {
    struct ig_contract *c;
    struct ig_loops *k;
    struct ig_cuda_patch *p;
    struct ig_cuda_source a, b;
    int64_t columns; /* of a group */
    int lasting, sums;
    ig_x image, at[3], group, first_column; /* of a tile: its image, first position, and weights */
};

static ig_x num(struct patch *s, int64_t i) {
    return ig_x_index(s->k, i);
}

static ig_x dim(struct patch *s, ig_dim d) {
    return ig_x_dim(s->k, d);
}

static ig_dim constant(struct patch *s, int64_t i) {
    return ig_dim_const(s->k->dims, i);
}

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static ig_dim size_of(struct patch *s, int axis) {
    return ig_cuda_size_along(s->c, ig_contract_out(s->c), axis);
}

/* Of all images. */
static ig_dim planes_of(struct patch *s) {
    return ig_dim_mul(s->k->dims, ig_contract_out(s->c)->dim[0], size_of(s, 0));
}

/* ---- Choosing ---------------------------------------------------------------------------------------------------- */

static int threads_registers(const struct ig_cuda_patch *p) {
    int sums = p->blocks * p->bn / 8 * 4, registers = sums + 72;
    return registers > 255 ? 255 : registers;
}

/* Blocks that a multiprocessor has room for. */
static int lasting_of(const struct ig_cuda_patch *p, int sm) {
    int by_shared = ((sm >= 90 ? 227 : 163) << 10) / (ig_cuda_patch_shared(p) + 1024);
    int by_registers = REGISTERS / (ig_cuda_patch_threads(p) * threads_registers(p));
    int least = by_shared < by_registers ? by_shared : by_registers;
    return least > MOST_LASTING ? MOST_LASTING : least < 1 ? 1 : least;
}

/* Microseconds. Of a tile: the tensor cores' cycles, those of shared memory that feeds them, the bytes that arrive from
 * the second-level cache, and the epilogue's instructions. The blocks of a multiprocessor overlap these. */
static double time_of(const struct problem *problem, int64_t planes, int64_t rows, int64_t columns) {
    enum { CLOCK = 1700 };
    const struct ig_cuda_patch *p = problem->p;
    int pairs = (p->bn + 15) / 16; /* of eight columns, which are loaded together */
    double steps = ig_cuda_patch_steps(p), blocks = (double)(p->tile[0] * p->tile[1]) / 16, warps = blocks / p->blocks;
    double products = steps * blocks * p->bn / 8 * 1.7, loads = steps * 4 * (blocks + warps * pairs);
    double pixels = (double)ig_cuda_patch_pixels(p, 0) * ig_cuda_patch_pixels(p, 1) * ig_cuda_patch_pixels(p, 2);
    double copies = pixels * ig_cuda_patch_chunks(p) * (16.0 / p->copy > 4 ? 4 : 16.0 / p->copy) * 0.7;
    double finish = blocks * 16 * p->bn * (0.08 + 0.06 / 0.093 * problem->issue);
    double longest = fmax(fmax(products, loads), fmax(copies, finish)), all = products + loads + copies + finish;
    double tile = longest + (all - longest) * (problem->lasting > 1 ? 0.3 : 0.8);
    int64_t tiles = planes * ceil_div(rows, p->tile[0]) * ceil_div(columns, p->tile[1]) * problem->matrices;
    double each = (double)ceil_div(tiles, IG_CUDA_PROCESSORS), turns = ceil(each / problem->lasting);
    double weights = (double)(ig_cuda_patch_shared(p) - ig_cuda_patch_weights_at(p)) / 24;
    double elements =
        ((double)problem->groups * p->channels / p->joined * p->strides[1] * p->strides[2] + (double)problem->columns);
    double memory = (double)(planes * rows * columns) * elements * ig_cuda_patch_element(p) / 3.4e6;
    return 2.6 + fmax((each * tile + turns * 1500 + weights) * 1.25 / CLOCK, memory);
}

static double cost(const struct ig_kernel *kernel, const int64_t *sizes) {
    return time_of(kernel->model.problem, sizes[0], sizes[1], sizes[2]);
}

/* Pixels that have a chunk's channels together, which the weights of neighbouring taps have, too; else 1. */
static int joined_of(const struct patch *s) {
    const struct ig_cuda_patch *p = s->p;
    int lanes = 16 / ig_cuda_patch_element(p),
        joined = p->channels && lanes % p->channels == 0 ? lanes / p->channels : 1;
    bool whole = p->channels == ig_contract_const(s->c, s->a.pixel, 0) && p->taps[2] % joined == 0;
    return whole && p->dilations[2] == 1 && p->strides[2] == 1 && !p->b_across ? joined : 1;
}

static void describe(struct patch *s) {
    struct ig_cuda_patch *p = s->p;
    p->channels = (int)ig_contract_const(s->c, s->a.below, 0);
    p->copy = s->a.copy;
    p->b_across = s->b.kind == IG_CUDA_ACROSS;
    for (int i = 0; i < 3; i++) {
        p->taps[i] = (int)ig_cuda_attr_along(s->c, IG_ATTR_kernel, i);
        p->strides[i] = (int)ig_cuda_attr_along(s->c, IG_ATTR_strides, i);
        p->dilations[i] = (int)ig_cuda_attr_along(s->c, IG_ATTR_dilations, i);
    }
    p->joined = joined_of(s);
    p->channels *= p->joined;
    p->taps[2] /= p->joined;
    p->dilations[2] *= p->joined;
    p->bn = (int)ceil_div(s->columns, 8) * 8;
    if (p->bn > MOST_COLUMNS) p->bn = (int)ceil_div(p->bn / 8, ceil_div(p->bn, MOST_COLUMNS)) * 8;
}

static struct problem problem_of(const struct patch *s, const struct ig_cuda_patch *p) {
    int64_t groups = s->c->groups;
    return (struct problem){.p = p,
                            .matrices = groups * ceil_div(s->columns, p->bn),
                            .groups = groups,
                            .columns = groups * s->columns,
                            .lasting = lasting_of(p, s->c->target->sm),
                            .issue = ig_cuda_contract_issue(s->c)};
}

static void take_shape(struct ig_cuda_patch *p, int shape) {
    p->tile[0] = shapes[shape].rows;
    p->tile[1] = shapes[shape].columns;
    p->blocks = shapes[shape].blocks;
}

/* The shapes that fit shared memory, by the cost model; returns how many. */
static int order_shapes(struct patch *s, int *out_order, double *out_least) {
    double costs[SHAPES];
    int count = 0;
    int64_t n = ig_sizes_guess(s->c->at, planes_of(s));
    int64_t h = ig_sizes_guess(s->c->at, size_of(s, 1)), w = ig_sizes_guess(s->c->at, size_of(s, 2));
    for (int i = 0; i < SHAPES; i++) {
        struct ig_cuda_patch p = *s->p;
        take_shape(&p, i);
        if (p.blocks * p.bn / 2 > MOST_SUMS || ig_cuda_patch_shared(&p) > MOST_SHARED) continue;
        struct problem problem = problem_of(s, &p);
        double time = time_of(&problem, n, h, w);
        int at = count++;
        for (; at > 0 && costs[at - 1] > time; at--) {
            costs[at] = costs[at - 1];
            out_order[at] = out_order[at - 1];
        }
        costs[at] = time;
        out_order[at] = i;
    }
    *out_least = count > 0 ? costs[0] : INFINITY;
    return count < MOST_CHOICES ? count : MOST_CHOICES;
}

/* Is the best shape estimated to take less time than a product of copied windows? */
static bool pays(struct patch *s) {
    int order[SHAPES];
    double least;
    return order_shapes(s, order, &least) > 0 && least < ig_cuda_contract_gemm_time(s->c);
}

/* Gives s->p the shape of candidate c->choice; false if it is beyond the last. */
static bool choose(struct patch *s) {
    struct ig_contract *c = s->c;
    int order[SHAPES];
    double least;
    c->choices = order_shapes(s, order, &least);
    if (c->choice >= c->choices) return false;
    take_shape(s->p, order[c->choice]);
    struct problem *problem = IG_NEW(s->k->job, struct problem);
    *problem = problem_of(s, s->p);
    s->lasting = problem->lasting;
    c->kernel->model =
        (struct ig_kernel_model){{planes_of(s), size_of(s, 1), size_of(s, 2), constant(s, 1)}, problem, cost};
    return true;
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

static ig_dim blocks_of(struct patch *s, int axis) {
    return axis == 0 ? size_of(s, 0) : ig_dim_ceil_div(s->k->dims, size_of(s, axis), constant(s, s->p->tile[axis - 1]));
}

/* Tiles that have the same weights. */
static ig_dim count_alike(struct patch *s) {
    struct ig_dims *dims = s->k->dims;
    ig_dim planes = ig_dim_mul(dims, ig_contract_out(s->c)->dim[0], blocks_of(s, 0));
    return ig_dim_mul(dims, planes, ig_dim_mul(dims, blocks_of(s, 1), blocks_of(s, 2)));
}

/* Finds a tile's place from its number. */
static void locate(struct patch *s, ig_x number, ig_dim alike, int64_t matrices) {
    struct ig_loops *k = s->k;
    ig_x matrix = num(s, 0);
    int64_t per_group = matrices / s->c->groups;
    if (matrices > 1) {
        ig_x within = ig_x_split_off(k, &number, alike);
        matrix = number;
        number = within;
    }
    for (int i = 2; i >= 0; i--) {
        ig_x block = ig_x_split_off(k, &number, blocks_of(s, i));
        s->at[i] = i == 0 ? block : ig_x_mul(k, block, num(s, s->p->tile[i - 1]));
    }
    s->image = number;
    s->first_column = ig_x_mul(k, ig_x_mod(k, matrix, num(s, per_group)), num(s, s->p->bn));
    s->group = ig_x_div(k, matrix, num(s, per_group));
}

static void push(struct ig_call_arg *args, int *count, int buffer, ig_x index) {
    args[(*count)++] = (struct ig_call_arg){buffer, index};
}

static void call_multiply(struct patch *s, struct ig_stmt *body, ig_x tile, ig_dim alike) {
    struct ig_loops *k = s->k;
    struct ig_call_arg args[20];
    int n = 0;
    struct ig_cuda_source a = ig_cuda_source_a(s->c, s->group, ig_contract_in(s->c, 0)->dtype);
    struct ig_cuda_source b = ig_cuda_source_b(s->c, s->group, s->p->b_type);
    push(args, &n, s->sums, num(s, 0));
    push(args, &n, a.buffer, a.base);
    push(args, &n, -1, dim(s, a.pixel));
    for (int i = 0; i < 3; i++)
        push(args, &n, -1, dim(s, a.size[i]));
    push(args, &n, -1, s->image);
    for (int i = 0; i < IG_CUDA_AXES; i++)
        push(args, &n, -1, ig_cuda_window_along(s->c, s->at[i], i));
    push(args, &n, b.buffer, b.base);
    push(args, &n, -1, dim(s, b.ld));
    push(args, &n, -1, s->first_column);
    push(args, &n, -1, num(s, s->columns));
    push(args, &n, -1, tile);
    push(args, &n, -1, dim(s, alike));
    ig_value begun, start = ig_contract_start(s->c, &begun);
    if (start != IG_NO_VALUE && s->columns % 2 == 0) {
        s->c->begun = begun;
        s->p->begun = true;
        push(args, &n, s->c->lower.buffer_of[start], s->first_column);
    }
    ig_s_call(k, body, "patch::multiply", args, n);
}

/* Stores `vector` columns of a position. Positions and columns beyond the output are computed like its last ones and not
 * stored, so that loads need not wait for comparisons. */
static void emit_position(struct patch *s, struct ig_stmt *body, ig_x y, ig_x x, ig_x column, int vector, ig_x at) {
    struct ig_contract *c = s->c;
    struct ig_loops *k = s->k;
    ig_x j = num(s, 0);
    ig_x place[3] = {s->at[0], ig_x_add(k, s->at[1], y), ig_x_add(k, s->at[2], x)};
    column = ig_x_add(k, s->first_column, column);
    c->inside = IG_NO_X;
    for (int i = 1; i < 3; i++) {
        if (ig_dim_divides(k->dims, constant(s, s->p->tile[i - 1]), size_of(s, i))) continue;
        ig_contract_store_where(c, ig_x_less(k, place[i], dim(s, size_of(s, i))));
        place[i] = ig_x_min(k, place[i], dim(s, ig_dim_sub(k->dims, size_of(s, i), constant(s, 1))));
    }
    if (s->columns % s->p->bn != 0) {
        ig_contract_store_where(c, ig_x_less(k, column, num(s, s->columns)));
        column = ig_x_min(k, column, num(s, s->columns - vector));
    }
    if (vector > 1) body = ig_s_for(k, body, IG_FOR_VECTOR, num(s, 0), num(s, vector), num(s, 1), &j);
    ig_x channel = ig_x_add(k, ig_x_mul(k, s->group, num(s, s->columns)), ig_x_add(k, column, j));
    ig_cuda_place(c, s->image, place, channel, c->groups * s->columns);
    ig_contract_store(c, body, s->sums, ig_x_add(k, at, j));
}

static void emit(struct patch *s) {
    struct ig_contract *c = s->c;
    struct ig_loops *k = s->k;
    int vector = ig_cuda_vector_of(c, s->columns), across = s->p->bn / vector,
        positions = s->p->tile[0] * s->p->tile[1];
    int64_t matrices = c->groups * ceil_div(s->columns, s->p->bn);
    ig_dim alike = count_alike(s);
    c->kernel->tiles = ig_dim_mul(k->dims, alike, constant(s, matrices));
    ig_x tile, slot;
    struct ig_stmt *body = ig_s_for(k, NULL, IG_FOR_TILE, num(s, 0), dim(s, c->kernel->tiles), num(s, 1), &tile);
    locate(s, tile, alike, matrices);
    call_multiply(s, body, tile, alike);
    body = ig_s_for(k, body, IG_FOR_SIMD, num(s, 0), num(s, (int64_t)positions * across), num(s, 1), &slot);
    ig_x position = ig_x_div(k, slot, num(s, across));
    ig_x column = ig_x_mul(k, ig_x_mod(k, slot, num(s, across)), num(s, vector));
    ig_x at = ig_x_add(k, ig_x_mul(k, position, num(s, ig_cuda_patch_row(s->p))), column);
    ig_x y = ig_x_div(k, position, num(s, s->p->tile[1])), x = ig_x_mod(k, position, num(s, s->p->tile[1]));
    emit_position(s, body, y, x, column, vector, at);
}

static bool choose_math(struct patch *s) {
    struct ig_cuda_patch *p = s->p;
    p->a_type = ig_contract_in(s->c, 0)->dtype;
    p->b_type = ig_contract_in(s->c, 1)->dtype;
    if (p->a_type == p->b_type && ig_cuda_math_of(p->a_type, false, &p->math))
        return s->c->dtype == INGOT_F32 && (p->math == IG_CUDA_F16 || p->math == IG_CUDA_BF16);
    if (!ig_cuda_math_of_bytes(p->a_type, p->b_type, s->c->target->sm, &p->math) || p->math != IG_CUDA_I8) return false;
    return s->c->dtype == INGOT_I32 && ig_contract_border(s->c) == 0;
}

/* Do the operands suit the template, in sizes that are known? */
static bool suits(struct patch *s) {
    struct ig_contract *c = s->c;
    enum ingot_dtype element = ig_contract_in(c, 0)->dtype;
    if (!c->spatial || c->has_twin || c->winograd || !ig_contract_attr_int(c, IG_ATTR_channels_last)) return false;
    if (!choose_math(s)) return false;
    s->columns = ig_contract_const(c, c->columns, 0);
    if (s->columns < 1 || ig_contract_const(c, c->depth, 0) < 1) return false;
    ig_x group = c->groups == 1 ? num(s, 0) : ig_x_free_var(s->k, constant(s, c->groups));
    s->a = ig_cuda_source_a(c, group, element);
    s->b = ig_cuda_source_b(c, group, s->p->b_type);
    if (s->a.kind != IG_CUDA_WINDOWS && s->a.kind != IG_CUDA_ALONG) return false;
    if (s->b.kind != IG_CUDA_ACROSS && s->b.kind != IG_CUDA_ALONG) return false;
    return s->b.copy == 16 && (s->p->math != IG_CUDA_I8 || s->b.kind == IG_CUDA_ALONG);
}

static bool schedule(struct ig_contract *c, bool first) {
    static const char *const maths[] = {[IG_CUDA_F16] = "f16", [IG_CUDA_BF16] = "bf16", [IG_CUDA_I8] = "i8"};
    struct patch s = {.c = c, .k = c->k, .p = IG_NEW(c->k->job, struct ig_cuda_patch)};
    if (!suits(&s)) return false;
    describe(&s);
    if (ig_cuda_patch_steps(s.p) > MOST_STEPS || pays(&s) != first) return false;
    if (!choose(&s)) return c->choices > 0;
    c->kernel->patch = s.p;
    c->kernel->threads = ig_cuda_patch_threads(s.p);
    c->kernel->shared_bytes = ig_cuda_patch_shared(s.p);
    c->kernel->lasting = s.lasting;
    c->kernel->tactic = ig_format(c->k->job, "patch %s %dx%dx%d, %d threads, %d blocks last", maths[s.p->math],
                                  s.p->tile[0], s.p->tile[1], s.p->bn, c->kernel->threads, s.lasting);
    s.sums = ig_loops_shared(s.k, c->dtype, 0, "sums");
    emit(&s);
    ig_loops_store_once(s.k);
    return !c->astray;
}

bool ig_cuda_contract_patch_first(struct ig_contract *c) {
    return schedule(c, true);
}

bool ig_cuda_contract_patch_last(struct ig_contract *c) {
    return schedule(c, false);
}
