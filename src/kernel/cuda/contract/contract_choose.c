/*
 * Tiles for contractions on a GPU: the candidates, and their cost model.
 *
 * The model follows one multiprocessor through its share of the work. A block waits once for its first copies, then
 * walks: a step takes the longest of its products, its copies and the wait for copies, and a bit of the others, where blocks
 * resident on the same multiprocessor share the throughput of products and copies. The constants are fitted to 11,000 times of
 * products and convolutions on an H200 that ran long enough for its clock to be what its power allows, with weights that come from
 * memory and from the cache (bench/product_bench): the model is 15% off, and its choice 2.6% slower than the best. There kernels
 * start while others run; the START of one that does not is added.
 */
#include <math.h>

#include "kernel/cuda/contract/contract.h"
#include "kernel/cuda/contract/contract_rows.h"

enum { MOST_SPLIT = 8, FEW_STAGES = 4, MOST_UNROLLED = 9, MANY_STAGES = 6, MOST_PRODUCER_STAGES = 8 };

/* bm x bn: the tile; m, n: warps (tensor cores) or results per thread (CUDA cores) along rows and columns. */
struct shape {
    int bm, bn, m, n;
};

static const struct shape tensor_shapes[] = {
    {16, 32, 1, 2},  {16, 64, 1, 4},  {32, 32, 2, 2},   {32, 64, 1, 4},   {64, 32, 2, 2},   {64, 64, 2, 2},
    {64, 128, 2, 2}, {128, 64, 2, 2}, {128, 128, 2, 2}, {128, 128, 2, 4}, {128, 256, 2, 4},
};
/* With warpgroups: each takes 64 rows, and at least 64 columns if B lies across the depth (its panels are that
 * wide). */
static const struct shape group_shapes[] = {
    {64, 32, 4, 1},  {64, 64, 4, 1},   {64, 128, 4, 1},  {64, 128, 4, 2},
    {128, 64, 8, 1}, {128, 128, 8, 1}, {128, 256, 8, 1}, {128, 192, 8, 1},
};
/* The same with operands swapped: m, n are warps, four of which along the columns are a group. */
static const struct shape swapped_shapes[] = {{128, 64, 1, 4}};
/* With a producer: m groups take turns; n is 1 if B is kept. */
static const struct shape producer_shapes[] = {
    {64, 128, 2, 0},  {64, 192, 2, 0},  {64, 256, 2, 0},  {128, 128, 2, 0}, {128, 192, 2, 0}, {128, 64, 0, 0},
    {128, 128, 0, 0}, {128, 192, 0, 0}, {128, 256, 0, 0}, {256, 128, 0, 0}, {192, 96, 0, 0},  {192, 128, 0, 0},
    {192, 192, 0, 0}, {256, 96, 0, 0},  {64, 32, 4, 1},   {64, 64, 4, 1},   {64, 96, 4, 1},   {64, 128, 4, 1},
    {64, 128, 3, 1},  {64, 192, 3, 1},  {64, 256, 2, 1},  {128, 128, 2, 1}, {128, 192, 2, 1},
};
/* By patches of images: m groups take turns. */
static const struct shape patch_shapes[] = {
    {64, 32, 4, 0},  {64, 64, 4, 0},   {64, 96, 4, 0},   {64, 128, 4, 0}, {64, 128, 3, 0},
    {64, 192, 3, 0}, {64, 256, 2, 0},  {128, 32, 4, 0},  {128, 64, 4, 0}, {128, 64, 3, 0},
    {128, 96, 3, 0}, {128, 128, 2, 0}, {128, 192, 2, 0},
};
static const struct shape plain_shapes[] = {
    {8, 32, 1, 4},  {8, 128, 1, 4}, {16, 64, 2, 4},  {32, 32, 4, 4},   {32, 64, 4, 4},
    {64, 32, 4, 4}, {64, 64, 8, 4}, {128, 64, 8, 8}, {128, 128, 8, 8},
};

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* What takes longest, and a bit of the others, the less the larger `power` is. */
static double together_of(double a, double b, double c, double power) {
    return pow(pow(a, power) + pow(b, power) + pow(c, power), 1 / power);
}

/* The most shared memory for one block; a multiprocessor has a kilobyte more, and each block takes one for itself. */
static int shared_capacity(int sm) {
    return sm >= 90 ? 227 << 10 : 163 << 10;
}

/* Registers per thread besides its sums. A walk of a few known steps is unrolled, and then the addresses of all windows
 * that it copies are computed ahead. */
static int registers_besides(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *g) {
    int64_t steps = ceil_div(ceil_div(p->depth, g->bk), g->split);
    return g->a == IG_CUDA_WINDOWS && steps > g->stages && steps <= MOST_UNROLLED ? 126 : 80;
}

/* Blocks resident on a multiprocessor, limited by shared memory, threads and registers. */
static int resident(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *g) {
    int threads = ig_cuda_gemm_threads(g);
    int by_shared = (shared_capacity(p->sm) + 1024) / (ig_cuda_gemm_shared(g) + 1024);
    int sums = g->bm * g->bn / threads * (g->promoted && g->warpgroups ? 2 : 1);
    int registers = sums + registers_besides(p, g);
    int by_registers = 65536 / ((registers > 255 ? 255 : registers) * threads);
    int by_threads = 2048 / threads, least = by_shared < by_registers ? by_shared : by_registers;
    least = least < by_threads ? least : by_threads;
    return least < 1 ? 1 : least;
}

/* How many elements of the operands the tensor cores multiply in the time of one of two bytes. */
static double pace(enum ig_cuda_math math) {
    return math == IG_CUDA_TF32 ? 0.5 : ig_cuda_math_is_bytes(math) ? 2 : 1;
}

/* Multiply-adds per nanosecond of a multiprocessor with that many warps. A thread with few results waits for shared
 * memory; a single warp per scheduler waits for its own results. */
static double rate(const struct ig_cuda_gemm *g, int warps) {
    if (g->math == IG_CUDA_FMA) {
        int results = g->thread_m * g->thread_n;
        double share = results >= 64 ? 0.75 : results >= 32 ? 0.7 : results >= 16 ? 0.5 : results >= 8 ? 0.3 : 0.17;
        return 225 * share * (warps > 4 ? 1 : 0.6);
    }
    double m = (double)g->bm / g->warps_m, n = (double)g->bn / g->warps_n, alone = warps > 4 ? 1 : 0.63;
    if (g->swapped) n = m;
    if (g->warpgroups) return 3510 * pace(g->math) * alone * n / (n + 28);
    if (g->math == IG_CUDA_F8) alone *= 0.4; /* sm_90 has no such instruction but that of warp groups */
    return 3640 * pace(g->math) * alone * (m * n / (m + n)) / (m * n / (m + n) + 48);
}

#define START 1300.0
/* Of that, what passes within networks while the kernel before ends, for products of matrices of more than FEW_ROWS: another kernel leaves
 * room for the first weights to come, which one like it, as in a measurement, does not. From 13 products of networks of batch 1 on an
 * H200. */
#define FEW_ROWS 64
#define HIDDEN 700.0

/* Of products of windows, what does not pass meanwhile since blocks leave the next kernel's no room beside them. From 660 times of 3x3
 * convolutions of 16 to 144 channels on an H200, where such with more blocks than multiprocessors took 0.5 to 1.3 us longer, beside
 * the model, than others; within networks more. Where the weights are not few, that many blocks ask for them makes up for it. */
#define CROWDED 900.0

/* What a block takes beside its products, in nanoseconds. CUDA cores are fitted by themselves, to times at full clock. */
static const struct around {
    double copied;  /* bytes per nanosecond */
    double windows; /* copies of lines of windows take so many times as long, since it is computed where they lie */
    double latency; /* of a copy */
    double step, start;
    double power;                   /* how much of products, copies and waits takes place at once (together_of) */
    double result, heavy, swapped;  /* of the epilogue, for each result; swapped ones are stored one by one */
    double cluster, member, gather; /* split: for a cluster, for each of its blocks, and for each result to add up */
} of_cuda_cores = {124, 1, 510, 90, 1300, 32, 0.095, 0.116, 0, 720, 144, 0.104},
  of_tensor_cores = {627, 6.6, 265, 89, 925, 2, 0.119, 0.119, 0, 800, 160, 0.096},
  of_warp_groups = {627, 6.6, 485, 89, 925, 2, 0.119, 0.119, 0.013, 800, 160, 0.096},
  of_byte_groups = {627, 6.6, 315, 108, 925, 2, 0.119, 0.119, 0.013, 800, 160, 0.096};

static const struct around *around(const struct ig_cuda_gemm *g) {
    if (g->math == IG_CUDA_FMA) return &of_cuda_cores;
    if (!g->warpgroups) return &of_tensor_cores;
    return ig_cuda_math_is_bytes(g->math) ? &of_byte_groups : &of_warp_groups;
}

/* Nanoseconds per step that a walk of so many steps waits for copies, of which all stages but one or two are under way.
 * The first of them began before the walk. */
static double wait_time(const struct ig_cuda_gemm *g, double steps) {
    double ahead = g->stages - (g->warpgroups ? 2 : 1), first = ahead / steps;
    if (g->a == IG_CUDA_FILLED) return 1200;
    return around(g)->latency / ahead * (first < 1 ? 1 - first : 0);
}

/* What a function of the epilogue takes of a multiprocessor's instructions, in nanoseconds for each result; how many a quotient takes
 * (codegen/cuda/quantize.c), and how many fewer normcdf does where results become floats of 8 bits (codegen/cuda/rounded.c). */
#define HEAVY 0.093
#define QUOTIENT 5
#define COARSE 4

/* How much longer than those of windows copies take whose pieces are 2 bytes, which threads make themselves: three of lambda_resnet26t took 62, 124 and
 * 246 us on an H200. */
#define SINGLES 4

bool ig_cuda_contract_is_heavy(const struct ig_contract *c) {
    for (uint32_t i = 0; i < c->region->nodes.count; i++) {
        enum ig_op op = c->graph->nodes.at[c->region->nodes.at[i]].op;
        if (op == IG_OP_erf || op == IG_OP_normcdf || op == IG_OP_tanh || op == IG_OP_exp || op == IG_OP_sigmoid ||
            op == IG_OP_pow)
            return true;
    }
    return false;
}

double ig_cuda_contract_issue(const struct ig_contract *c) {
    /* As NVIDIA's compiler makes them: 4 of a product alone, 11.4 of one with a sum of bytes. */
    double instructions = 0, coarse = 0;
    bool quantizes = false, float8 = false;
    for (uint32_t i = 0; i < c->region->nodes.count; i++) {
        const struct ig_node *n = &c->graph->nodes.at[c->region->nodes.at[i]];
        enum ingot_dtype from = ig_type_of(c->graph, n->in[0])->dtype, to = ig_type_of(c->graph, n->out)->dtype;
        bool computes = n->op == IG_OP_add || n->op == IG_OP_sub || n->op == IG_OP_mul;
        bool to_float8 = n->op == IG_OP_cast && ig_dtype_is_narrow(to) && ig_dtype_is_float(from);
        quantizes |= n->op == IG_OP_round || to_float8;
        float8 |= to_float8;
        if (n->op == IG_OP_normcdf) coarse = COARSE;
        if (n->op == IG_OP_round || to_float8) instructions += 2;
        if (n->op == IG_OP_div) instructions += QUOTIENT;
        if (n->op == IG_OP_cast && from == INGOT_I32) instructions++;
        if (n->op == IG_OP_cast && ingot_dtype_size(from) == 1) instructions += 1.5;
        if (computes && from != INGOT_I32) instructions++; /* sums begin with what is added to them */
    }
    double heavy = ig_cuda_contract_is_heavy(c) ? HEAVY : 0;
    if (float8) instructions -= coarse;
    return quantizes ? heavy + 0.0085 * instructions : heavy;
}

/* Nanoseconds in which a multiprocessor scales and adds up the sums of a step: an instruction each, one more where each column has a
 * scale of its own, and two in the time of conversions of integers. Not fitted. */
static double scaling(const struct ig_cuda_gemm *g) {
    if (!g->scale_columns) return 0;
    double instructions = 1 + (g->scale_columns == 1) + (g->math == IG_CUDA_I8 ? 2 : 0);
    return (double)g->bm * g->bn * instructions / 225;
}

/* Registers of a thread for the scales of a step's rows and columns, and for where they lie. Where each column has its own, those of two
 * steps: on an H200, 128 x 128 tiles that had to spill some took seven times as long. */
static int registers_of_scales(const struct ig_cuda_gemm *g, int columns) {
    enum { PLACE = 12 };
    return !g->scale_columns ? 0 : PLACE + (g->scale_columns == 1 ? columns / 2 : columns / 32);
}

/* Nanoseconds per step of copies of 2 bytes, which threads make themselves, and wait for (codegen/cuda/copy.cu): a load took 500 on an H200,
 * one by one, whatever else ran. Of windows the fit has them, of bytes all small copies. */
static double awaited(const struct ig_cuda_gemm *g, enum ig_cuda_operand kind, int lines, int copy) {
    enum { TOGETHER = 8, LOAD = 500, ASYNCHRONOUS = 4 };
    if (copy >= ASYNCHRONOUS || kind == IG_CUDA_WINDOWS || kind == IG_CUDA_FILLED || ig_cuda_math_is_bytes(g->math))
        return 0;
    double copies = (double)lines * g->bk * ig_cuda_gemm_element(g) / copy / ig_cuda_gemm_threads(g);
    return ceil(copies / TOGETHER) * LOAD;
}

/* Nanoseconds per step if `together` blocks share the multiprocessor. */
static double step_time(const struct ig_cuda_gemm *g, double steps, int together) {
    const struct around *k = around(g);
    double step = (double)g->bk * ig_cuda_gemm_element(g) * together; /* bytes per line, of all blocks */
    double products = (double)g->bm * g->bn * g->bk * together / rate(g, ig_cuda_gemm_threads(g) / 32 * together);
    /* Of bytes, which often lie in shorter pieces than 16 of them; a copy of less takes as long. */
    bool bytes = ig_cuda_math_is_bytes(g->math);
    double a = g->bm * (bytes ? 16.0 / g->a_copy : 1), b = g->bn * (bytes ? 16.0 / g->b_copy : 1);
    if (g->a == IG_CUDA_WINDOWS) a *= g->a_copy == 2 ? SINGLES * k->windows : k->windows;
    double copies = (a + b) * step / k->copied, wait = wait_time(g, steps);
    double meeting = g->warpgroups && ig_cuda_gemm_threads(g) > 128 ? 124 : 0; /* of several groups */
    double small = awaited(g, g->a, g->bm, g->a_copy) + awaited(g, g->b, g->bn, g->b_copy);
    return together_of(products, copies, wait, k->power) + k->step + meeting + scaling(g) * together + small;
}

/* What the memory takes for operands and results. Of windows, the rows lie in the caches. */
static double memory_time(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *g) {
    double rows = (double)p->rows, columns = (double)p->columns, depth = (double)p->depth;
    double elements = rows * columns + depth * columns + (p->a == IG_CUDA_WINDOWS ? 0 : rows * depth);
    return (double)p->batch * elements * ig_cuda_gemm_element(g) / 4025;
}

/* Nanoseconds per step of groups that add what the tensor cores have summed up; none where they do so while the next step's products are in
 * flight. Groups that share a tile do so in turns, and the others' products go on; of groups that take turns with tiles, the others run
 * their epilogues meanwhile. */
static double promotion(const struct ig_cuda_gemm *g) {
    double shared = (double)g->bm * g->bn * 0.0035, alone = (double)g->bm / 64 * (g->bn * 0.38 + 44);
    bool hidden = ig_cuda_gemm_adds_in_pairs(g) && !g->scale_columns;
    return (!g->promoted || hidden ? 0 : g->turns ? alone : shared) + scaling(g);
}

/* Blocks whose tiles all have the same columns. */
static int64_t blocks_that_keep(const struct ig_cuda_gemm *g) {
    int side = g->column_blocks > 1 ? g->column_blocks : 1;
    return IG_CUDA_PROCESSORS - IG_CUDA_PROCESSORS % side;
}

/* Groups in turns that read B once: whatever takes longest, products, instructions of the epilogues or a group's own work, and a bit
 * of the others. */
static double kept_cost(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *g) {
    int64_t tiles = ceil_div(p->rows, g->bm) * g->column_blocks;
    int64_t each = ceil_div(tiles, blocks_that_keep(g));
    double area = (double)g->bm * g->bn, kept = (double)g->kept * g->bn * g->bk * ig_cuda_gemm_element(g);
    double walk = g->kept * (area * g->bk / (9150 * pace(g->math)) + promotion(g) + 199);
    double finish = area * (0.108 + 0.68 * p->issue) + 200, issue = area * p->issue;
    double own = (walk + finish) * (double)each / (double)(each < g->turns ? each : g->turns);
    return START + 900 + kept / 360 + together_of((double)each * walk, (double)each * issue, own, 2.87);
}

/* An instruction of a slice's products takes its columns' time, or what shared memory needs to give it both operands. */
static double products_of_slice(const struct ig_cuda_gemm *g) {
    double depths = (double)ig_cuda_gemm_patch_pixel(g) / 32;
    return g->taps[1] * g->taps[2] * depths * g->bm / 64;
}

/* Nanoseconds of the copy engine for the pixels of a tile, of which each slice is a piece: more where slices end beyond their pixel, most
 * if pixels then begin within units of memory. Measured for 24 and 40 channels. */
static double copies_of_patches(const struct ig_cuda_gemm *g) {
    enum { UNIT = 32 };
    int bytes = g->channels * ig_cuda_gemm_element(g), pixel = ig_cuda_gemm_patch_pixel(g);
    double phases = ig_cuda_gemm_patch_phases(g, 0) * ig_cuda_gemm_patch_phases(g, 1);
    double pieces =
        ig_cuda_gemm_patch_slices(g) * phases * ig_cuda_gemm_patch_pixels(g, 0) * ig_cuda_gemm_patch_pixels(g, 1);
    if (pixel == IG_PATCH_PIXEL) return 0; /* a line is one */
    return pieces * (bytes % pixel == 0 ? 1.2 : bytes * g->strides[2] % UNIT == 0 ? 4 : 5.5);
}

/* As kept_cost, by patches of the image, of which a stage has a slice of the channels. From 387 times of 3x3 and 5x5 convolutions of 16
 * to 256 channels: 10% off, and its choice 0.8% slower than the best. */
static double patch_cost(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *g) {
    int64_t images = p->height * p->width > 0 ? ceil_div(p->rows, p->height * p->width) : 0;
    int64_t tiles = images * ceil_div(p->height, g->patch[0]) * ceil_div(p->width, g->patch[1]) * g->column_blocks;
    int64_t each = ceil_div(tiles, blocks_that_keep(g));
    double area = (double)g->bm * g->bn, slices = ig_cuda_gemm_patch_slices(g);
    double walk = slices * products_of_slice(g) * larger(g->bn / 2.0, 16 + g->bn / 4.0) * 0.644 + 92;
    double finish = area * (0.0514 + 0.68 * p->issue) + 203, issue = area * p->issue;
    double own = (walk + finish + 421 * slices) * (double)each / (double)(each < g->turns ? each : g->turns);
    double busy = together_of((double)each * walk, (double)each * issue, (double)each * copies_of_patches(g), 3.28);
    return START + 1697 + together_of(busy, own, 0, 3.28);
}

/* Persistent blocks, each of which does its share of the tiles in turn. The second-level cache serves fewer blocks
 * better. Of groups that take turns, one's epilogue and waits overlap with the other's products, which they slow down. */
static double producer_cost(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *g) {
    int64_t tiles = p->batch * ceil_div(p->rows, g->bm) * ceil_div(p->columns, g->bn);
    int64_t each = ceil_div(tiles, IG_CUDA_PROCESSORS);
    double area = (double)g->bm * g->bn, bytes = (double)(g->bm + g->bn) * g->bk * ig_cuda_gemm_element(g);
    double busy = tiles < IG_CUDA_PROCESSORS ? 0.2 + 0.8 * (double)tiles / IG_CUDA_PROCESSORS : 1;
    double rate = !g->turns ? 3750 : g->bm == 64 ? 4950 : 3910;
    double products = area * g->bk / (rate * pace(g->math)) + promotion(g),
           copies = bytes / (g->turns ? 146 : 181) * busy;
    double step = together_of(products, copies, 0, 2) + (g->turns && each > 1 ? 23 : 56);
    double walk = (double)ceil_div(p->depth, g->bk) * step;
    double heavy = area * (0.031 + p->issue - HEAVY) + 1240.0 / ig_cuda_gemm_groups(g); /* more groups, fewer waits */
    double finish = g->turns   ? area * (0.091 + 0.92 * p->issue)
                    : p->heavy ? heavy
                               : area * larger(0.031, p->issue) + 310;
    double finishes = g->turns ? 1 + 0.34 * (double)(each - 1) : (double)each;
    double windows =
        g->a == IG_CUDA_WINDOWS ? 570 : 0; /* against windows that threads copy, which take less than said */
    return START + (g->turns ? 1650 : 2400) + windows + (double)each * walk + finishes * finish;
}

/* Depths of a warp's step where B goes straight to registers: a thread has four, of 16 bytes. */
static int direct_step(const struct ig_cuda_gemm *g) {
    return 32 * 16 / (g->bn * ig_cuda_gemm_element(g)) * 4;
}

/* How many steps each warp has. */
static int64_t direct_steps(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *g) {
    return ceil_div(p->depth, (int64_t)direct_step(g) * ig_cuda_gemm_walkers(g) * g->split);
}

/* B straight to registers: reading it, the slower the narrower the pieces of its lines are; the latency of all but the
 * first loads, which the preceding kernel hides; the products of a multiprocessor's blocks and the sums of their warps;
 * the blocks of a cluster. Fitted to 141 times of 1 to 16 rows on an H200: 8% off, and its choice 6% slower than the
 * best; but narrow lines to those within networks, where they take three times as long as alone. */
static double direct_cost(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *g) {
    int64_t blocks = p->batch * ceil_div(p->rows, g->bm) * ceil_div(p->columns, g->bn) * g->split;
    double each = (double)ceil_div(blocks, IG_CUDA_PROCESSORS), element = ig_cuda_gemm_element(g);
    double matrices = (double)p->batch * (g->twin ? 2 : 1), line = g->bn * element;
    double all = matrices * (double)p->depth * (double)p->columns * element;
    double reading = all / (line <= 32 ? 450 : line <= 64 ? 1000 : 4500);
    reading += (double)(ceil_div(p->rows, g->bm) - 1) * all / 5000; /* from the second-level cache */
    double products = each * (double)p->depth * g->bn / g->split * (g->bm > 4 ? 1 : g->bm + 1.5) * 3.4e-3;
    products *= g->twin ? 2 : 1;
    double latency = 760 * (double)(ceil_div(direct_steps(p, g), g->stages) - 1);
    double sums = 0.18 * each * g->bm * g->bn * g->warps_n, cluster = g->split > 1 ? 50 + 250 * log2(g->split) : 0;
    cluster *= larger(1, each / 2);
    return (START + latency + reading + products + sums + cluster + (p->heavy ? 200 : 0)) / 1000;
}

/* B streamed to the tensor cores, beginning while the preceding kernel ends: the memory, what is under way for a block at once, and the
 * second-level cache, which also gives each block the rows; a way to the memory and back where few blocks share it. From 60 times
 * of one to 16 rows on an H200; what each further wave takes, from 16 to 197 rows. */
static double boxes_time(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *g, int64_t tiles, double all) {
    double element = ig_cuda_gemm_element(g), columns = g->bn * (g->twin ? 2.0 : 1), depth = (double)p->depth;
    int64_t blocks_of_rows = ceil_div(p->rows, g->bm), rows = p->rows < g->bm ? p->rows : g->bm;
    double ring = (double)g->warps_n * g->stages * columns * g->bk * element;
    double memory = all / 4250, waves = (double)ceil_div(tiles, 2 * IG_CUDA_PROCESSORS) - 1;
    double block = columns * depth * element / ring * 1900 * (waves + 1);
    double cache = (all * (double)blocks_of_rows + (double)(rows * tiles) * depth * element) / 7000;
    return together_of(memory, block, cache, 4) + (tiles < IG_CUDA_PROCESSORS ? 600 : 0) + 2100 * waves;
}

/* The same to CUDA cores, which multiply in f32. From 50 times of one to four rows. */
static double columns_time(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *g, int64_t tiles, double all) {
    double element = ig_cuda_gemm_element(g), waves = (double)ceil_div(tiles, 2 * IG_CUDA_PROCESSORS) - 1;
    double products = all / element * (double)ceil_div(p->rows, g->bm) * (g->bm + 1.5) * 1.1e-4;
    double again = (double)(ceil_div(p->rows, g->bm) - 1) * all / 5000; /* from the second-level cache */
    double narrow = g->warps_n < 8 ? 100 : 0; /* as many pieces are under way, but fewer at work */
    return 700 + together_of(all / 4250, products, again, 4) + 300 * waves + narrow;
}

static double stream_cost(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *g) {
    double matrices = (double)p->batch * (g->twin ? 2 : 1);
    double all = matrices * (double)p->depth * (double)p->columns * ig_cuda_gemm_element(g);
    int64_t tiles = p->batch * ceil_div(p->rows, g->bm) * ceil_div(p->columns, g->bn);
    double time = g->bm > 4 ? boxes_time(p, g, tiles, all) : columns_time(p, g, tiles, all);
    if (p->first) time += ig_cuda_rows_time(p->first, p->depth, tiles);
    return (START + time + (p->heavy ? 200 : 0)) / 1000;
}

/* A block for each tile, or a cluster. */
static double block_cost(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *g) {
    const struct around *k = around(g);
    int64_t blocks = p->batch * ceil_div(p->rows, g->bm) * ceil_div(p->columns, g->bn) * g->split;
    double steps = (double)ceil_div(ceil_div(p->depth, g->bk), g->split);
    int full = resident(p, g);
    int64_t at_once = (int64_t)IG_CUDA_PROCESSORS * full;
    if (g->split > 1) at_once -= at_once / 10; /* clusters do not find room everywhere */
    int64_t waves = ceil_div(blocks, at_once);
    int last = (int)ceil_div(blocks - (waves - 1) * at_once, IG_CUDA_PROCESSORS);
    double each = (p->heavy ? k->heavy - 0.8 * HEAVY : k->result) + 0.8 * p->issue + k->swapped * g->swapped;
    double once = START + k->start, finish = (double)g->bm * g->bn / g->split * each;
    if (g->split > 1) { /* through distributed shared memory */
        once += k->cluster + k->member * g->split;
        finish += (double)g->bm * g->bn * k->gather;
    }
    if (g->a == IG_CUDA_WINDOWS && blocks > IG_CUDA_PROCESSORS && p->rows > 4 * p->columns) once += CROWDED;
    double time = (double)(waves - 1) * (steps * step_time(g, steps, full) + finish * full + 293.0 / full);
    return time + steps * step_time(g, steps, last) + finish * last + once;
}

double ig_cuda_gemm_cost(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *g) {
    if (g->direct) return direct_cost(p, g);
    if (g->stream) return stream_cost(p, g);
    double time = !g->producer  ? block_cost(p, g)
                  : g->patch[0] ? patch_cost(p, g)
                  : g->kept     ? kept_cost(p, g)
                                : producer_cost(p, g);
    return together_of(time, START + memory_time(p, g), 0, 4) / 1000;
}

double ig_cuda_gemm_cost_in_network(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *g) {
    bool copies = !g->direct && !g->stream && g->a != IG_CUDA_WINDOWS && g->a != IG_CUDA_FILLED;
    double hidden = copies && g->math != IG_CUDA_FMA && p->rows > FEW_ROWS ? HIDDEN : 0;
    return ig_cuda_gemm_cost(p, g) - hidden / 1000;
}

/* As many stages as the steps can use and shared memory holds; false if even the fewest do not fit. */
static bool fit_stages(const struct ig_cuda_problem *p, struct ig_cuda_gemm *g, int most) {
    int64_t steps = ceil_div(ceil_div(p->depth, g->bk), g->split);
    int least = g->warpgroups ? 3 : 2;
    g->stages = steps < most ? (steps < least ? least : (int)steps) : most;
    while (g->stages > least && ig_cuda_gemm_shared(g) > shared_capacity(p->sm))
        g->stages--;
    return ig_cuda_gemm_shared(g) <= shared_capacity(p->sm);
}

static bool is_useful(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *g) {
    int least = p->a == IG_CUDA_ACROSS ? 32 : 16;
    if (g->bm > least && g->bm >= 2 * p->rows && p->rows > 0) return false;
    int64_t narrowest = g->swapped || (p->a_copy == 1 || p->b_copy == 1) ? 64 : 32;
    if (g->bn > narrowest && g->bn >= 2 * p->columns && p->columns > 0) return false;
    if (g->swapped && p->columns <= 16) return false;
    if (g->a == IG_CUDA_ACROSS && (g->bm < 32 || (g->math == IG_CUDA_FMA && g->thread_m % 4 != 0))) return false;
    int threads = ig_cuda_gemm_threads(g), element = ig_cuda_gemm_element(g);
    if (threads * p->a_copy < g->bk * element || threads * p->b_copy < g->bk * element) return false; /* a line */
    /* A thread copies at most 32 pieces of a tile, of a_copy or b_copy bytes each, or 64 bytes. */
    int most_a = threads * (p->a_copy > 1 ? p->a_copy * 32 : 64),
        most_b = threads * (p->b_copy > 1 ? p->b_copy * 32 : 64);
    if (most_a < g->bm * g->bk * element || most_b < g->bn * g->bk * element) return false;
    if (g->split > 1 && ceil_div(p->depth, g->bk) < 2 * g->split) return false;
    return g->split <= g->bm;
}

/* Inserts a candidate by cost, keeping the `most` best. Returns their number. */
static int keep(struct ig_cuda_gemm *out, double *costs, int count, int most, const struct ig_cuda_gemm *g,
                double cost) {
    int at = count < most ? count : most;
    while (at > 0 && costs[at - 1] > cost)
        at--;
    if (at == most) return count;
    count = count < most ? count + 1 : most;
    for (int i = count - 1; i > at; i--) {
        out[i] = out[i - 1];
        costs[i] = costs[i - 1];
    }
    out[at] = *g;
    costs[at] = cost;
    return count;
}

enum {
    LIMIT = 64,
    PATCH_SHAPES = sizeof patch_shapes / sizeof *patch_shapes,
    PRODUCER_SHAPES = sizeof producer_shapes / sizeof *producer_shapes,
    SERVED = PRODUCER_SHAPES + PATCH_SHAPES
};
struct candidates {
    struct ig_cuda_gemm *out;
    double costs[LIMIT];
    int count, most;
};

/* Has a thread registers for its sums, and for those that the tensor cores accumulate, of 64 rows? */
static bool has_registers(const struct ig_cuda_gemm *g) {
    int own = g->bm * g->bn / ig_cuda_gemm_workers(g);
    if (!g->promoted || (!g->producer && !g->warpgroups && !g->scale_columns)) return true;
    if (!g->producer) return own <= 64;
    return own + g->bn / 2 + registers_of_scales(g, g->bn) <= ig_cuda_gemm_sum_registers(g);
}

static void add_shapes(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *like, const struct shape *shapes,
                       int count, struct candidates *c) {
    for (int i = 0; i < count; i++) {
        for (int split = 1; split <= (p->sm >= 90 ? MOST_SPLIT : 1); split *= 2) {
            struct ig_cuda_gemm g = *like;
            g.bm = shapes[i].bm;
            g.bn = shapes[i].bn;
            g.bk = 128 / ig_cuda_gemm_element(&g);
            g.warps_m = g.thread_m = shapes[i].m;
            g.warps_n = g.thread_n = shapes[i].n;
            g.split = split;
            if (!is_useful(p, &g) || !has_registers(&g)) continue;
            if (fit_stages(p, &g, FEW_STAGES))
                c->count = keep(c->out, c->costs, c->count, c->most, &g, ig_cuda_gemm_cost(p, &g));
            if (g.warpgroups && fit_stages(p, &g, MANY_STAGES) && g.stages > FEW_STAGES)
                c->count = keep(c->out, c->costs, c->count, c->most, &g, ig_cuda_gemm_cost(p, &g));
        }
    }
}

/* As many stages as shared memory holds. What is kept leaves room for a few; more columns of tiles than that would read
 * A too often. */
static bool fit_producer(const struct ig_cuda_problem *p, struct ig_cuda_gemm *g, bool keeps) {
    enum { FEWEST = 3, MOST_KEPT_BLOCKS = 16 };
    g->column_blocks = keeps ? (int)ceil_div(p->columns, g->bn) : 0;
    g->kept = keeps ? (int)ceil_div(p->depth, g->bk) : 0;
    if (g->patch[0] && ig_cuda_gemm_patch_pixel(g) > IG_PATCH_PIXEL)
        g->kept = g->taps[1] * g->taps[2] * ig_cuda_gemm_patch_slices(g);
    if (keeps && (!p->fixed || (!g->patch[0] && !p->single) || ceil_div(p->columns, g->bn) > MOST_KEPT_BLOCKS ||
                  p->depth > 16384))
        return false;
    g->stages = MOST_PRODUCER_STAGES;
    while (g->stages > FEWEST && ig_cuda_gemm_shared(g) > shared_capacity(p->sm))
        g->stages--;
    return ig_cuda_gemm_shared(g) <= shared_capacity(p->sm);
}

static void add_producers(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *like, struct candidates *c) {
    for (int i = 0; i < PRODUCER_SHAPES; i++) {
        struct ig_cuda_gemm g = *like;
        g.producer = g.warpgroups = true;
        g.bm = producer_shapes[i].bm;
        g.bn = producer_shapes[i].bn;
        g.bk = p->step / ig_cuda_gemm_element(&g);
        g.turns = producer_shapes[i].m;
        if (2 * p->rows <= g.bm || 2 * p->columns <= g.bn) continue;
        if (p->b == IG_CUDA_ACROSS && g.bn % (128 / ig_cuda_gemm_element(&g)) != 0) continue; /* whole panels */
        if (g.bm == 256 && !ig_cuda_math_is_bytes(g.math)) continue;
        if (!has_registers(&g) || !fit_producer(p, &g, producer_shapes[i].n == 1)) continue;
        c->count = keep(c->out, c->costs, c->count, c->most, &g, ig_cuda_gemm_cost(p, &g));
    }
}

/* Convolutions whose weights fit beside patches of the image. */
static void add_patches(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *like, struct candidates *c) {
    enum { MOST_PRODUCTS = 128 /* which are unrolled */, MOST_BOX = 256, SQUARE = 8 };
    int element = ig_cuda_gemm_element(like);
    for (int i = 0; i < PATCH_SHAPES; i++) {
        struct ig_cuda_gemm g = *like;
        g.producer = g.warpgroups = true;
        g.bm = patch_shapes[i].bm;
        g.bn = patch_shapes[i].bn;
        g.groups = (int)p->batch;
        g.group_columns = (int)p->columns;
        g.bk = (p->slice > IG_PATCH_PIXEL ? p->slice : 2 * p->slice) / element;
        g.turns = patch_shapes[i].m;
        g.patch[1] = p->height == 1 ? g.bm : SQUARE;
        g.patch[0] = g.bm / g.patch[1];
        if (2 * p->columns <= g.bn && g.bn > 32) continue;
        if (p->b == IG_CUDA_ACROSS && g.bn * element != 64 && g.bn * element % 128 != 0) continue; /* whole panels */
        if (ig_cuda_gemm_patch_pixels(&g, 0) * g.strides[1] > MOST_BOX) continue;
        int line = p->slice > IG_PATCH_PIXEL ? g.strides[2] : g.channels; /* of what a box counts, for a pixel */
        if (ig_cuda_gemm_patch_pixels(&g, 1) * line > MOST_BOX) continue;
        if (products_of_slice(&g) > MOST_PRODUCTS) continue;
        if (g.promoted || p->batch > IG_CUDA_PROCESSORS || !fit_producer(p, &g, true)) continue;
        g.column_blocks *= g.groups;
        if (g.column_blocks > IG_CUDA_PROCESSORS) continue;
        c->count = keep(c->out, c->costs, c->count, c->most, &g, ig_cuda_gemm_cost(p, &g));
    }
}

/* Can warp groups multiply the operands? They read elements of four bytes along the depth only. */
static bool suits_warpgroups(const struct ig_cuda_problem *p) {
    if (!p->warpgroups || p->a == IG_CUDA_FILLED || p->math == IG_CUDA_FMA) return false;
    return p->math != IG_CUDA_TF32 || (p->a != IG_CUDA_ACROSS && p->b == IG_CUDA_ALONG);
}

/* As many steps ahead as there are, within the registers of a thread. */
static void add_direct(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *like, int bm, int bn, int warps,
                       struct candidates *c) {
    enum { MOST_AHEAD = 4 };
    for (int split = 1; split <= (p->sm >= 90 ? bn == 64 ? MOST_SPLIT : bn / 16 : 1); split *= 2) {
        struct ig_cuda_gemm g = *like;
        g.direct = true;
        g.twin = p->twin;
        g.bm = bm;
        g.bn = bn;
        g.warps_m = 1;
        g.warps_n = warps;
        g.split = split;
        g.bk = direct_step(&g) * ig_cuda_gemm_walkers(&g) * split;
        if (split > 1 && p->depth < g.bk) continue;
        int64_t steps = direct_steps(p, &g);
        g.stages = steps > MOST_AHEAD ? bm > 2 ? MOST_AHEAD / 2 : MOST_AHEAD : steps < 1 ? 1 : (int)steps;
        c->count = keep(c->out, c->costs, c->count, c->most, &g, ig_cuda_gemm_cost(p, &g));
    }
}

/* For few rows, in one tile: B is read once, by blocks that are narrow enough for all multiprocessors to take part. */
static void add_directs(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *like, struct candidates *c) {
    enum { MOST_ROWS = 16 };
    int element = ig_cuda_gemm_element(like);
    bool fits = p->a == IG_CUDA_ALONG && p->b == IG_CUDA_ACROSS && p->a_copy >= 4 * element && p->b_copy == 16;
    if (!fits || p->rows > MOST_ROWS) return;
    for (int bm = 1; bm <= (element == 2 ? MOST_ROWS : 4); bm *= 2) {
        bool cores = bm > 4;
        if (bm < p->rows || (bm >= 2 * p->rows && bm > 1 && !(bm == 8 && p->rows > 2))) continue;
        for (int bn = cores ? 64 : 16; bn <= 64; bn *= 2) {
            for (int warps = 4; warps <= (bn < 64 ? 16 : 8); warps *= 2)
                add_direct(p, like, bm, bn, warps, c);
        }
    }
}

/* As many stages as two blocks of a multiprocessor have room for. On the tensor cores, two of eight warps and three of four are
 * enough. False if fewer than two stages fit. */
static bool fit_stream(struct ig_cuda_gemm *g) {
    enum { MOST_STAGES = 8, LARGEST = 112 << 10 };
    g->stages = g->bm <= 4 ? MOST_STAGES : g->warps_n == 8 ? 2 : 3;
    while (g->stages > 1 && ig_cuda_gemm_shared(g) > LARGEST)
        g->stages--;
    return g->stages > 1;
}

/* All columns at once by two blocks a multiprocessor; on the tensor cores by narrower ones, whose warps all have sums of each. Pieces
 * are as long as the fewest columns need to be worth a turn. */
static void add_streams(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *like, struct candidates *c) {
    enum { MOST_ROWS = 16, BLOCKS = 2 * IG_CUDA_PROCESSORS, PIECE = 2048, MOST_CORE_COLUMNS = 64, FEW_COLUMNS = 16 };
    int element = ig_cuda_gemm_element(like);
    bool fits = p->a == IG_CUDA_ALONG && p->b == IG_CUDA_ALONG && p->b_copy == 16 && p->fixed && p->streams;
    if (!fits || p->rows > MOST_ROWS || ig_cuda_math_is_bytes(like->math) || p->depth > INT32_MAX / 64) return;
    for (int bm = 1; bm <= (element == 2 ? MOST_ROWS : 4); bm *= 2) {
        bool cores = bm > 4;
        if (bm < p->rows || bm < p->first || (bm >= 2 * p->rows && bm > 1 && bm != 8)) continue;
        if (cores && (p->a_copy < 16 || !p->boxed)) continue;
        int64_t step = cores ? 16 : 4, bn = ceil_div(ceil_div(p->columns, BLOCKS), step) * step;
        struct ig_cuda_gemm g = *like;
        g.stream = true;
        g.twin = p->twin;
        g.bm = bm;
        g.bn = (int)(cores && bn > MOST_CORE_COLUMNS ? MOST_CORE_COLUMNS : bn);
        g.warps_m = 1;
        g.depth = (int)p->depth;
        g.first = p->first;
        int box = 128 / element;
        g.bk = !cores ? PIECE / element : g.bn * (g.twin ? 2 : 1) <= FEW_COLUMNS ? 2 * box : box;
        for (g.warps_n = 8; g.warps_n >= 4; g.warps_n /= 2) {
            bool idle = !cores && g.warps_n > g.bn * (g.twin ? 2 : 1);
            if (!idle && fit_stream(&g))
                c->count = keep(c->out, c->costs, c->count, c->most, &g, ig_cuda_gemm_cost(p, &g));
        }
    }
}

int ig_cuda_gemm_candidates(const struct ig_cuda_problem *p, const struct ig_cuda_gemm *like, int most,
                            struct ig_cuda_gemm *out) {
    struct ig_cuda_gemm groups = *like, producers[SERVED];
    struct candidates own = {.out = producers, .most = most / 2 < SERVED ? most / 2 : SERVED};
    groups.warpgroups = suits_warpgroups(p);
    if (groups.warpgroups && p->mapped && !p->twin && !p->first) add_producers(p, like, &own);
    if (groups.warpgroups && p->slice > 0) add_patches(p, like, &own);
    struct candidates c = {.out = out, .most = (most < LIMIT ? most : LIMIT) - own.count};
    if (p->twin || p->first) {
        if (!p->first) add_directs(p, like, &c);
        add_streams(p, like, &c);
        return c.count;
    }
    if (p->math == IG_CUDA_FMA)
        add_shapes(p, like, plain_shapes, sizeof plain_shapes / sizeof *plain_shapes, &c);
    else
        add_shapes(p, like, tensor_shapes, sizeof tensor_shapes / sizeof *tensor_shapes, &c);
    if (groups.warpgroups) add_shapes(p, &groups, group_shapes, sizeof group_shapes / sizeof *group_shapes, &c);
    groups.swapped = groups.warpgroups && !like->scale_columns;
    if (groups.swapped) add_shapes(p, &groups, swapped_shapes, sizeof swapped_shapes / sizeof *swapped_shapes, &c);
    add_directs(p, like, &c);
    add_streams(p, like, &c);
    c.most += own.count;
    for (int i = 0; i < own.count; i++)
        c.count = keep(c.out, c.costs, c.count, c.most, &producers[i], own.costs[i]);
    return c.count;
}
