/*
 * Contractions on GPUs. A tile is a block of bm x bn results: the template (codegen/cuda/gemm/gemm.h) walks along the depth
 * and leaves the sums in shared memory; the epilogue runs on them as ordinary loops.
 *
 * Operands that lie in memory as matrices, as lines, or as the windows of an image are copied by the template,
 * pipelined several steps ahead of the products. All others (elementwise prologues, gathered or strided elements) are
 * filled in by the kernel's loops, step by step.
 *
 * Split-K: if there are fewer tiles than multiprocessors, the blocks of a cluster divide the depth of a tile, and then
 * its rows: each adds up its share through distributed shared memory, in a fixed order, and runs the epilogue on it. So
 * results are deterministic.
 */
#include "kernel/cuda/contract/contract_product.h"

#include <math.h>

#include "kernel/affine.h"

enum { MOST_VECTOR = 16 }; /* bytes per access */

/* ---- Choosing ---------------------------------------------------------------------------------------------------- */

/* Sums that are scaled step by step: blocks have to be steps, and of the columns that a thread has, either all or none share a
 * scale with the next one. */
static bool choose_scaled_math(struct ig_cuda_product *s) {
    enum { BLOCK = 128, NEIGHBOURS = 32 };
    struct ig_contract *c = s->c;
    struct ig_cuda_gemm *g = s->g;
    int64_t block = ig_contract_attr_int(c, IG_ATTR_block), columns = ig_contract_attr_int(c, IG_ATTR_columns);
    g->a_type = ig_contract_in(c, 0)->dtype;
    g->b_type = ig_contract_in(c, 1)->dtype;
    if (block != BLOCK || (columns != 1 && columns % NEIGHBOURS != 0)) return false;
    g->promoted = true;
    g->scale_columns = (int)columns;
    return ig_cuda_math_of_bytes(g->a_type, g->b_type, c->target->sm, &g->math) && ig_cuda_find_scales(c, &s->scales);
}

/* Chooses the instructions; false if the template has none for the operand types. */
static bool choose_math(struct ig_cuda_product *s) {
    const struct ig_contract *c = s->c;
    struct ig_cuda_gemm *g = s->g;
    if (c->scaled) return choose_scaled_math(s);
    bool coded = c->node.op == IG_OP_matmul_blocks; /* codes stand for numbers of the other operand's type */
    int64_t math = coded ? IG_MATH_EXACT : ig_contract_attr_int(c, IG_ATTR_math);
    g->a_type = ig_contract_in(c, 0)->dtype;
    g->b_type = coded ? g->a_type : ig_contract_in(c, 1)->dtype;
    if (g->a_type == g->b_type && ig_cuda_math_of(g->a_type, math == IG_MATH_TF32, &g->math))
        return c->dtype == INGOT_F32;
    if (coded || !ig_cuda_math_of_bytes(g->a_type, g->b_type, c->target->sm, &g->math)) return false;
    g->promoted = g->math == IG_CUDA_F8 && math != IG_MATH_FAST;
    return c->dtype == (g->math == IG_CUDA_I8 ? INGOT_I32 : INGOT_F32);
}

/* Does a byte lie beside its neighbours across the depth? */
static bool are_bytes_across(const struct ig_cuda_product *s) {
    return ig_cuda_math_is_bytes(s->g->math) && (s->a.kind == IG_CUDA_ACROSS || s->b.kind == IG_CUDA_ACROSS);
}

static void find_operands(struct ig_cuda_product *s, ig_x b) {
    s->a = ig_cuda_source_a(s->c, b, s->g->a_type);
    s->b = ig_cuda_source_b(s->c, b, s->g->b_type);
    if (s->c->has_twin) s->twin = ig_cuda_source_twin_b(s->c, b, s->g->b_type);
    if (s->a.kind != IG_CUDA_FILLED && s->b.kind != IG_CUDA_FILLED && !are_bytes_across(s)) return;
    s->a.kind = s->b.kind = IG_CUDA_FILLED;
    s->a.copy = s->b.copy = 16;
}

static double cost(const struct ig_kernel *kernel, const int64_t *sizes) {
    struct ig_cuda_problem p = *(const struct ig_cuda_problem *)kernel->model.problem;
    p.batch = sizes[0];
    p.rows = sizes[1];
    p.columns = sizes[2];
    p.depth = sizes[3];
    return ig_cuda_gemm_cost_in_network(&p, kernel->gemm);
}

/* Sets up the cost model; returns the problem at the sizes c->at. */
static const struct ig_cuda_problem *make_model(struct ig_cuda_product *s) {
    struct ig_contract *c = s->c;
    struct ig_cuda_problem *p = IG_NEW(s->k->job, struct ig_cuda_problem);
    *p = (struct ig_cuda_problem){.batch = ig_sizes_guess(c->at, s->batches.count),
                                  .rows = ig_sizes_guess(c->at, s->rows),
                                  .columns = ig_sizes_guess(c->at, c->columns),
                                  .depth = ig_sizes_guess(c->at, c->depth),
                                  .math = s->g->math,
                                  .a = s->a.kind,
                                  .b = s->b.kind,
                                  .a_copy = s->a.copy,
                                  .b_copy = s->b.copy,
                                  .step = ig_cuda_map_step(c, s->g, &s->a),
                                  .sm = c->target->sm,
                                  .streams = ig_target_can_stream(c->target),
                                  .warpgroups = ig_target_has_warpgroups(c->target),
                                  .heavy = ig_cuda_contract_is_heavy(c),
                                  .issue = ig_cuda_contract_issue(c),
                                  .mapped = ig_cuda_can_map(c, s->g, &s->a, &s->b, &s->batches),
                                  .boxed = ig_cuda_find_columns_apart(c, &s->b, &s->batches, &s->columns_apart),
                                  .twin = c->has_twin,
                                  .first = ig_cuda_rows_most(s->first),
                                  .single = ig_contract_const(c, s->batches.count, 0) == 1,
                                  .fixed =
                                      ig_contract_const(c, c->columns, 0) > 0 && ig_contract_const(c, c->depth, 0) > 0};
    if (s->a.kind == IG_CUDA_WINDOWS) {
        p->slice = ig_cuda_patch_slice(c, s->g, &s->a, &s->b);
        p->height = ig_sizes_guess(c->at, ig_cuda_size_along(c, ig_contract_out(c), 1));
        p->width = ig_sizes_guess(c->at, ig_cuda_size_along(c, ig_contract_out(c), 2));
    }
    c->kernel->model = (struct ig_kernel_model){{s->batches.count, s->rows, c->columns, c->depth}, p, cost};
    return p;
}

/* The steps of each block along the depth; 0: not known, or not the same for all. */
static int steps_of(const struct ig_cuda_product *s) {
    int64_t depth, steps;
    if (!ig_dim_is_const(s->k->dims, s->c->depth, &depth)) return 0;
    steps = (depth + s->g->bk - 1) / s->g->bk;
    return steps % s->g->split == 0 && steps <= INT32_MAX ? (int)(steps / s->g->split) : 0;
}

/* Do both products' second operands lie in the same way, from the beginning of their buffers? */
static bool is_twin_alike(struct ig_cuda_product *s) {
    bool matrix = s->b.kind == IG_CUDA_ACROSS || s->b.kind == IG_CUDA_ALONG;
    return matrix && s->twin.kind == s->b.kind && s->twin.ld == s->b.ld && s->twin.copy == s->b.copy &&
           ig_cuda_begins_buffer(s->c, &s->b) && ig_cuda_begins_buffer(s->c, &s->twin);
}

/* Finds the operands and all candidates; returns how many. */
static int find_candidates(struct ig_cuda_product *s, struct ig_cuda_gemm *out) {
    struct ig_contract *c = s->c;
    s->rows = ig_cuda_rows(c);
    s->batches = ig_cuda_batches(c);
    find_operands(s, s->batches.at);
    if (c->has_twin && !is_twin_alike(s)) return 0;
    struct ig_cuda_gemm like = *s->g;
    like.a = s->a.kind;
    like.b = s->b.kind;
    like.stages = like.split = 1;
    like.a_copy = s->a.copy;
    like.b_copy = s->b.copy;
    like.piece = s->a.kind == IG_CUDA_LISTED ? s->a.piece : 0;
    if (s->a.kind == IG_CUDA_WINDOWS) ig_cuda_describe_windows(c, &like, &s->a);
    return ig_cuda_gemm_candidates(make_model(s), &like, IG_CONTRACT_MOST_CHOICES, out);
}

double ig_cuda_contract_gemm_time(struct ig_contract *c) {
    struct ig_cuda_product s = {.c = c, .k = c->k, .g = IG_NEW(c->k->job, struct ig_cuda_gemm)};
    struct ig_cuda_gemm candidates[IG_CONTRACT_MOST_CHOICES];
    if (!choose_math(&s) || find_candidates(&s, candidates) == 0) return INFINITY;
    return ig_cuda_gemm_cost(c->kernel->model.problem, &candidates[0]);
}

/* Makes candidate c->choice; false if it is beyond the last. */
static bool choose(struct ig_cuda_product *s) {
    struct ig_cuda_gemm candidates[IG_CONTRACT_MOST_CHOICES];
    struct ig_contract *c = s->c;
    c->choices = find_candidates(s, candidates);
    IG_ASSERT(s->k->job, c->choices > 0 || c->has_twin || c->first);
    if (c->choice >= c->choices) return false;
    *s->g = candidates[c->choice];
    if (c->region->pushed) {
        s->g->pushes = s->g->stream ? ig_cuda_contract_push(c, s->g->bm) : NULL;
        c->choices = s->g->pushes != NULL;
        if (c->choice >= c->choices) return false;
    }
    s->g->whole_depth = ig_dim_divides(s->k->dims, constant(s, s->g->bk), c->depth);
    s->g->whole_columns = ig_dim_divides(s->k->dims, constant(s, s->g->bn), c->columns);
    s->g->steps = steps_of(s);
    return true;
}

static const char *producer_tactic(struct ig_cuda_product *s) {
    static const char *const turns[] = {"", "", " in turns", " in 3 turns", " in 4 turns"};
    const char *patch =
        s->g->patch[0] ? ig_format(s->k->job, ", patches of %dx%d", s->g->patch[0], s->g->patch[1]) : "";
    return ig_format(s->k->job, " tma%s%s%s", turns[s->g->turns], s->g->kept ? ", B kept" : "", patch);
}

static const char *tactic(struct ig_cuda_product *s) {
    static const char *const maths[] = {"fma", "tf32", "f16", "bf16", "i8", "f8"};
    static const char *const operands[] = {"along", "across", "listed", "windows", "filled"};
    const struct ig_cuda_gemm *g = s->g;
    const char *split = g->split > 1 ? ig_format(s->k->job, ", depth in %d", g->split) : "";
    if (g->scale_columns) split = ig_format(s->k->job, ", scaled%s", split);
    if (g->math == IG_CUDA_F8 && !g->promoted) split = ig_format(s->k->job, ", fast sums%s", split);
    if (g->direct)
        return ig_format(s->k->job, "gemm %s direct %dx%s%d, %d warps, %d steps ahead%s", maths[g->math], g->bm,
                         g->twin ? "2x" : "", g->bn, g->warps_n, g->stages, split);
    if (g->stream)
        return ig_format(s->k->job, "gemm %s stream %dx%s%d, %d warps, %d pieces ahead%s%s", maths[g->math], g->bm,
                         g->twin ? "2x" : "", g->bn, g->warps_n, g->stages, g->first ? ", rows first" : "",
                         g->pushes ? ", pushed" : "");
    return ig_format(s->k->job, "gemm %s%s %dx%dx%d, %d threads, %d stages, %s x %s%s", maths[g->math],
                     g->producer     ? producer_tactic(s)
                     : g->swapped    ? " wgmma swapped"
                     : g->warpgroups ? " wgmma"
                                     : "",
                     g->bm, g->bn, g->bk, ig_cuda_gemm_threads(g), g->stages, operands[g->a], operands[g->b], split);
}

static bool has_load(struct ig_cuda_product *s, ig_x x) {
    const struct ig_x_node *n = ig_x_look(s->k, x);
    bool found = n->kind == IG_X_LOAD;
    for (int i = 0; i < 3 && !found; i++)
        found = n->args[i] != IG_NO_X && has_load(s, n->args[i]);
    return found;
}

/* Can copies of B begin before the kernel waits for its predecessor? Until then it may read only constants and write
 * nothing. That excludes operands whose offsets are loaded: the predecessor may compute these. */
static bool is_early(struct ig_cuda_product *s) {
    const struct ig_contract *c = s->c;
    if (!ig_target_has_early_start(c->target) || s->g->a == IG_CUDA_FILLED) return false;
    if (has_load(s, s->g->a == IG_CUDA_LISTED ? s->a.position : s->a.base) || has_load(s, s->b.base)) return false;
    for (uint32_t i = 0; i < c->region->inputs.count; i++) {
        ig_value v = c->region->inputs.at[i];
        if (c->lower.is_input[v] && c->lower.buffer_of[v] == s->b.buffer) return ig_info(c->graph, v)->is_const;
    }
    return false;
}

int ig_product_vector(struct ig_cuda_product *s) {
    const struct ig_contract *c = s->c;
    int widest = 2;
    for (uint32_t i = 0; i < c->region->outputs.count; i++) {
        int bytes = (int)ingot_dtype_size(ig_type_of(c->graph, c->region->outputs.at[i])->dtype);
        widest = bytes > widest ? bytes : widest;
    }
    int vector = MOST_VECTOR / widest;
    while (vector > 1 && !ig_dim_divides(s->k->dims, constant(s, vector), c->columns))
        vector /= 2;
    return vector;
}

static void make_buffers(struct ig_cuda_product *s) {
    struct ig_kernel *kernel = s->c->kernel;
    struct ig_cuda_gemm *g = s->g;
    g->early = is_early(s);
    s->tile = g->producer ? ig_loops_local(s->k, s->c->dtype, IG_CUDA_OWN_COLUMNS, "sums")
                          : ig_loops_shared(s->k, s->c->dtype, 0, "sums");
    if (g->a == IG_CUDA_LISTED) s->list = ig_loops_shared(s->k, INGOT_I64, ig_cuda_gemm_list(g), "list");
    if (g->a == IG_CUDA_FILLED) {
        int a_bytes = g->bm * ig_cuda_gemm_line(g) * ig_cuda_gemm_element(g);
        s->a_lines = ig_loops_shared(s->k, g->a_type, 0, "rows");
        s->b_lines = ig_loops_shared(s->k, g->b_type, a_bytes, "columns");
    }
    if (g->producer) {
        g->dealt = g->b == IG_CUDA_ALONG && ig_product_vector(s) == IG_CUDA_OWN_COLUMNS &&
                   ig_dim_divides(s->k->dims, constant(s, IG_DEALT_LINES), s->c->columns);
        kernel->lasting = 1;
        ig_cuda_map_operands(s->c, g, &s->a, &s->b, &s->batches, s->rows);
    }
    if (ig_cuda_gemm_streams_boxes(g))
        ig_cuda_map_columns(s->c, g, &s->b, g->twin ? &s->twin : &s->b, s->batches.count, s->columns_apart);
    kernel->gemm = g;
    kernel->threads = ig_cuda_gemm_threads(g);
    kernel->shared_bytes = ig_cuda_gemm_shared(g);
    kernel->cluster = g->split > 1 ? g->split : 0;
    kernel->tactic = tactic(s);
}

/* ---- Scales ------------------------------------------------------------------------------------------------------ */

void ig_product_start_scales(struct ig_cuda_product *s, struct ig_stmt *body, const char *name, ig_x first) {
    const struct ig_cuda_scales *from = &s->scales;
    const char *rows = s->k->buffers.at[from->rows].name, *columns = s->k->buffers.at[from->columns].name;
    if (!s->g->scale_columns) return;
    ig_s_text(s->k, body,
              ig_format(s->k->job, "%s.by.start(%s + @%u, @%u, @%u, @%u, %s, @%u, (int)@%u, (int)@%u, (int)@%u);", name,
                        rows, (unsigned)from->base, (unsigned)dim(s, from->row_pitch),
                        (unsigned)dim(s, from->step_pitch), (unsigned)dim(s, s->rows), columns,
                        (unsigned)dim(s, from->across), (unsigned)s->first_row, (unsigned)s->first_column,
                        (unsigned)first));
}

/* ---- Operands copied by the template ----------------------------------------------------------------------------- */

static ig_x last_of(struct ig_cuda_product *s, ig_dim d) {
    return dim(s, ig_dim_sub(s->k->dims, d, constant(s, 1)));
}

static void fill_list(struct ig_cuda_product *s, struct ig_stmt *body) {
    ig_x line;
    body = loop(s, body, IG_FOR_SIMD, num(s, s->g->bm), &line);
    ig_x row = ig_x_min(s->k, ig_x_add(s->k, s->first_row, line), last_of(s, s->rows));
    ig_s_store(s->k, body, s->list, line, ig_x_substitute(s->k, s->a.position, &s->a.line, &row, 1));
}

static void push(struct ig_cuda_product *s, struct ig_call_arg *args, int *count, int buffer, ig_x index) {
    (void)s;
    args[(*count)++] = (struct ig_call_arg){buffer, index};
}

static void push_windows(struct ig_cuda_product *s, struct ig_call_arg *args, int *n) {
    const struct ig_contract *c = s->c;
    const struct ig_type *out = ig_contract_out(c);
    const struct ig_attr *before = ig_contract_attr(c, IG_ATTR_before);
    int first = c->spatial - 3; /* axis of the planes, negative if there are none */
    for (int i = 0; i < 3; i++)
        push(s, args, n, -1, dim(s, s->a.size[i]));
    push(s, args, n, -1, dim(s, s->a.pixel));
    push(s, args, n, -1, dim(s, s->a.below));
    for (int i = first; i < c->spatial; i++)
        push(s, args, n, -1, dim(s, i < 0 ? constant(s, 1) : out->dim[i + 1]));
    for (int i = first; i < c->spatial; i++)
        push(s, args, n, -1, dim(s, i < 0 ? constant(s, 0) : before->dims[i]));
}

static void call_multiply(struct ig_cuda_product *s, struct ig_stmt *body) {
    struct ig_call_arg args[32];
    int n = 0;
    push(s, args, &n, s->tile, num(s, 0));
    push(s, args, &n, s->a.buffer, s->a.kind == IG_CUDA_LISTED ? num(s, 0) : s->a.base);
    if (s->a.kind == IG_CUDA_WINDOWS) {
        push_windows(s, args, &n);
    } else if (s->a.kind == IG_CUDA_LISTED) {
        push(s, args, &n, s->list, num(s, 0));
        push(s, args, &n, -1, dim(s, s->a.piece_stride));
    } else {
        push(s, args, &n, -1, dim(s, s->a.ld));
    }
    push(s, args, &n, -1, s->first_row);
    push(s, args, &n, -1, dim(s, s->rows));
    push(s, args, &n, s->b.buffer, s->b.base);
    push(s, args, &n, -1, dim(s, s->b.ld));
    push(s, args, &n, -1, s->first_column);
    push(s, args, &n, -1, dim(s, s->c->columns));
    push(s, args, &n, -1, dim(s, s->c->depth));
    if (s->g->twin) push(s, args, &n, s->twin.buffer, s->twin.base);
    if (s->g->scale_columns) {
        push(s, args, &n, s->scales.rows, s->scales.base);
        push(s, args, &n, -1, dim(s, s->scales.row_pitch));
        push(s, args, &n, -1, dim(s, s->scales.step_pitch));
        push(s, args, &n, s->scales.columns, num(s, 0));
        push(s, args, &n, -1, dim(s, s->scales.across));
    }
    ig_s_call(s->k, body, "gemm::multiply", args, n);
}

/* ---- Operands filled in by loops --------------------------------------------------------------------------------- */

/* Splits index p of the depth into the indices of its axes. */
static void split_depth(struct ig_cuda_product *s, ig_x p, ig_x *out_depth) {
    for (int i = s->c->depth_rank - 1; i > 0; i--)
        out_depth[i] = ig_x_split_off(s->k, &p, s->c->depth_dim[i]);
    out_depth[0] = p;
}

/* Fills one step's lines of A (or B), each along the depth, with zeros beyond the operand. Consecutive threads run
 * along the depth or, if `across`, across it. */
static void fill(struct ig_cuda_product *s, struct ig_stmt *body, ig_x step, bool is_a, bool across) {
    struct ig_loops *k = s->k;
    int lines = is_a ? s->g->bm : s->g->bn, bk = s->g->bk;
    ig_x e, depth[IG_CONTRACT_DEPTH], b, m, value;
    body = loop(s, body, IG_FOR_SIMD, num(s, (int64_t)lines * bk), &e);
    ig_x line = across ? ig_x_mod(k, e, num(s, lines)) : ig_x_div(k, e, num(s, bk));
    ig_x p = across ? ig_x_div(k, e, num(s, lines)) : ig_x_mod(k, e, num(s, bk));
    ig_x at = ig_x_add(k, ig_x_mul(k, line, num(s, ig_cuda_gemm_line(s->g))), p);
    ig_dim end = is_a ? s->rows : s->c->columns;
    line = ig_x_add(k, is_a ? s->first_row : s->first_column, line);
    p = ig_x_add(k, ig_x_mul(k, step, num(s, bk)), p);
    ig_x inside = ig_x_and(k, ig_x_less(k, line, dim(s, end)), ig_x_less(k, p, dim(s, s->c->depth)));
    line = ig_x_min(k, line, last_of(s, end));
    split_depth(s, ig_x_min(k, p, last_of(s, s->c->depth)), depth);
    if (is_a) {
        ig_cuda_locate(s->c, s->at, line, &b, &m);
        value = ig_contract_a(s->c, b, m, depth);
    } else {
        ig_cuda_locate(s->c, s->at, num(s, 0), &b, &m);
        value = ig_contract_b(s->c, b, line, depth);
    }
    enum ingot_dtype type = ig_dtype_compute(is_a ? s->g->a_type : s->g->b_type);
    ig_x zero = ig_x_cast(k, ig_x_float(k, INGOT_F32, 0), type, false);
    value = ig_x_select(k, inside, ig_x_cast(k, value, type, false), zero);
    ig_s_store(k, body, is_a ? s->a_lines : s->b_lines, at, value);
}

/* Are neighbours in memory neighbours across the depth? True of B unless it is transposed. */
static bool lies_across(struct ig_cuda_product *s, bool is_a) {
    struct ig_loops *k = s->k;
    ig_x depth[IG_CONTRACT_DEPTH], line = ig_x_free_var(k, is_a ? s->c->rows : s->c->columns), zero = num(s, 0);
    for (int i = 0; i < s->c->depth_rank; i++)
        depth[i] = zero;
    ig_x value = is_a ? ig_contract_a(s->c, zero, line, depth) : ig_contract_b(s->c, zero, line, depth);
    while (ig_x_look(k, value)->kind == IG_X_CAST)
        value = ig_x_look(k, value)->args[0];
    if (ig_x_look(k, value)->kind != IG_X_LOAD) return false;
    struct ig_affine sum;
    ig_affine_of(k, ig_x_look(k, value)->args[0], &sum);
    return ig_contract_const(s->c, ig_affine_factor(k, &sum, line), 0) == 1;
}

static void emit_filled(struct ig_cuda_product *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    struct ig_dims *dims = k->dims;
    ig_dim steps = ig_dim_ceil_div(dims, s->c->depth, constant(s, s->g->bk));
    ig_dim each = ig_dim_ceil_div(dims, steps, constant(s, s->g->split));
    ig_x lo = ig_x_mul(k, s->share, dim(s, each)), step;
    ig_x hi = ig_x_min(k, ig_x_add(k, lo, dim(s, each)), dim(s, steps));
    ig_s_text(k, body, "gemm::sums registers;\nregisters.clear();");
    ig_product_start_scales(s, body, "registers", lo);
    struct ig_stmt *walk = ig_s_for(k, body, IG_FOR_SERIAL, lo, hi, num(s, 1), &step);
    fill(s, walk, step, true, lies_across(s, true));
    fill(s, walk, step, false, lies_across(s, false));
    ig_s_text(k, walk, "gemm::add(registers, sums);");
    ig_s_text(k, body, "gemm::finish(registers, sums);");
}

/* ---- Epilogue ---------------------------------------------------------------------------------------------------- */

/* The element's number in the output: the groups of a convolution lie within a row, the batches of a matrix product do not. */
static ig_x linear(struct ig_cuda_product *s, ig_x m, ig_x column) {
    struct ig_loops *k = s->k;
    ig_dim columns = s->c->columns, line = s->c->spatial ? ig_dim_mul(k->dims, s->batches.count, columns) : columns;
    ig_dim apart = s->c->spatial ? columns : ig_dim_mul(k->dims, s->rows, columns);
    return ig_x_add(k, ig_x_mul(k, m, dim(s, line)), ig_x_add(k, ig_x_mul(k, s->at, dim(s, apart)), column));
}

/* Columns beyond the last are computed like the last ones and not stored, so that loads need not wait for comparisons. */
void ig_product_emit_columns(struct ig_cuda_product *s, struct ig_stmt *body, ig_x m, ig_x column, int vector,
                             ig_x at) {
    struct ig_contract *c = s->c;
    struct ig_loops *k = s->k;
    ig_x j = num(s, 0), b, rows_inside = c->inside;
    if (!ig_dim_divides(k->dims, constant(s, s->g->bn), c->columns)) {
        ig_contract_store_where(c, ig_x_less(k, column, dim(s, c->columns)));
        column = ig_x_min(k, column, dim(s, ig_dim_sub(k->dims, c->columns, constant(s, vector))));
    }
    if (vector > 1) body = loop(s, body, IG_FOR_VECTOR, num(s, vector), &j);
    column = ig_x_add(k, column, j);
    if (c->spatial || c->ahead) c->linear = linear(s, m, column);
    ig_cuda_locate(c, s->at, m, &b, &m);
    ig_contract_position(c, b, m, column, c->position);
    if (s->g->twin) c->twin_at = ig_x_add(k, ig_x_add(k, at, j), num(s, s->g->bn));
    if (c->ahead) c->ahead_at = ig_x_add(k, c->ahead_at, j);
    ig_contract_store(c, body, s->tile, ig_x_add(k, at, j));
    c->inside = rows_inside;
}

int ig_product_epilogue_vector(struct ig_cuda_product *s) {
    int columns = s->g->direct ? s->g->bn / s->g->split : s->g->bn, vector = ig_product_vector(s);
    while (columns % vector != 0)
        vector /= 2;
    return vector;
}

/* The epilogue of the block's first `count` rows, which begin at `first`, `above` rows into the tile. */
static void emit_rows(struct ig_cuda_product *s, struct ig_stmt *body, ig_x first, ig_x above, ig_x count) {
    struct ig_loops *k = s->k;
    int columns = s->g->direct ? s->g->bn / s->g->split : s->g->bn;
    int vector = ig_product_epilogue_vector(s);
    int across = columns / vector;
    ig_x slot;
    body = loop(s, body, IG_FOR_SIMD, ig_x_mul(k, count, num(s, across)), &slot);
    ig_x row = ig_x_div(k, slot, num(s, across)),
         column = ig_x_mul(k, ig_x_mod(k, slot, num(s, across)), num(s, vector));
    if (s->g->direct) column = ig_x_add(k, ig_x_mul(k, s->share, num(s, columns)), column);
    ig_x at = ig_x_mul(k, ig_x_add(k, above, row), num(s, ig_cuda_gemm_tile_row(s->g)));
    if (s->c->ahead) s->c->ahead_at = ig_x_mul(k, slot, num(s, vector));
    ig_product_emit_columns(s, body, ig_x_add(k, first, row), ig_x_add(k, s->first_column, column), vector,
                            ig_x_add(k, at, column));
}

bool ig_product_is_beside(struct ig_cuda_product *s, ig_value v) {
    const struct ig_contract *c = s->c;
    if (v == IG_NO_VALUE || ig_is_literal(c->graph, v) || !c->lower.is_input[v]) return false;
    int buffer = c->lower.buffer_of[v];
    return ig_same_dims(ig_type_of(c->graph, v), ig_contract_out(c)) && buffer != s->a.buffer && buffer != s->b.buffer;
}

/* All but the last tiles have all their rows; their loop has constant bounds, so that it is unrolled and its loads are
 * in flight together. */
static void emit_epilogue(struct ig_cuda_product *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    int rows = s->g->direct ? s->g->bm : s->g->bm / s->g->split;
    ig_x above = s->g->direct ? num(s, 0) : ig_x_mul(k, s->share, num(s, rows)),
         first = ig_x_add(k, s->first_row, above);
    const int only = ig_product_only_rows(s);
    if (only > 0 || ig_dim_divides(k->dims, constant(s, s->g->bm), s->rows)) {
        emit_rows(s, body, first, above, num(s, only > 0 ? only : rows));
        return;
    }
    ig_x left = ig_x_sub(k, dim(s, s->rows), first);
    emit_rows(s, ig_s_if(k, body, ig_x_less(k, num(s, rows - 1), left)), first, above, num(s, rows));
    body = ig_s_if(k, body, ig_x_less(k, left, num(s, rows)));
    emit_rows(s, body, first, above, ig_x_max(k, left, num(s, 0)));
}

/* Divides `within` by the height of its band: IG_CUDA_BAND, or `last` for those from `full` tile rows on. If the
 * quotients are small, by multiplying with 2^SHIFT / height + 1, since the threads that multiply wait for the result. */
static ig_x divide_by_height(struct ig_cuda_product *s, ig_x within, ig_x is_full, ig_dim last, ig_dim column_blocks,
                             ig_x *out_rest) {
    enum { SHIFT = 17, MOST = (1 << SHIFT) / IG_CUDA_BAND / IG_CUDA_BAND };
    struct ig_loops *k = s->k;
    struct ig_dims *dims = k->dims;
    int64_t lo, hi;
    ig_dim_range(dims, column_blocks, &lo, &hi);
    ig_x height = ig_x_select(k, is_full, num(s, IG_CUDA_BAND), dim(s, last));
    if (hi > MOST || ig_x_look(k, height)->kind == IG_X_INT) {
        *out_rest = ig_x_mod(k, within, height);
        return ig_x_div(k, within, height);
    }
    ig_dim inverse = ig_dim_add(dims, ig_dim_div(dims, constant(s, 1 << SHIFT), last), constant(s, 1));
    ig_x factor = ig_x_select(k, is_full, num(s, (1 << SHIFT) / IG_CUDA_BAND + 1), dim(s, inverse));
    ig_x quotient = ig_x_div(k, ig_x_mul(k, within, factor), num(s, 1 << SHIFT));
    ig_x rest = ig_x_sub(k, within, ig_x_mul(k, quotient, height));
    *out_rest = ig_x_min(k, ig_x_max(k, rest, num(s, 0)), num(s, IG_CUDA_BAND - 1)); /* tells its range */
    return quotient;
}

/* With a producer that keeps B, row by row. */
static void locate_in_rows(struct ig_cuda_product *s, ig_x tile) {
    struct ig_loops *k = s->k;
    ig_x column = ig_x_mod(k, tile, num(s, s->g->column_blocks)), own = column;
    s->at = num(s, 0);
    if (s->g->groups > 1) {
        ig_x each = num(s, s->g->column_blocks / s->g->groups);
        s->at = ig_x_div(k, column, each);
        own = ig_x_mod(k, column, each);
    }
    s->first_column = ig_x_mul(k, own, num(s, s->g->bn));
    s->first_row = ig_x_mul(k, ig_x_div(k, tile, num(s, s->g->column_blocks)), num(s, s->g->bm));
}

/* With a producer, the tiles of a batch are ordered by bands of IG_CUDA_BAND tile rows; within a band, column by column. */
static void locate_in_bands(struct ig_cuda_product *s, ig_x tile, ig_dim row_blocks, ig_dim column_blocks) {
    struct ig_loops *k = s->k;
    struct ig_dims *dims = k->dims;
    ig_dim before = ig_dim_sub(dims, ig_dim_ceil_div(dims, row_blocks, constant(s, IG_CUDA_BAND)), constant(s, 1));
    ig_dim last = ig_dim_sub(dims, row_blocks, ig_dim_mul(dims, before, constant(s, IG_CUDA_BAND)));
    ig_x whole = ig_x_mul(k, dim(s, column_blocks), num(s, IG_CUDA_BAND)), rest;
    s->at = num(s, 0);
    if (!s->c->spatial && ig_contract_const(s->c, s->batches.count, 0) != 1) {
        s->at = tile;
        tile = ig_x_split_off(k, &s->at, ig_dim_mul(dims, row_blocks, column_blocks));
    }
    ig_x band = ig_x_div(k, tile, whole), within = ig_x_mod(k, tile, whole);
    ig_x is_full = ig_x_less(k, band, dim(s, before));
    ig_x column = divide_by_height(s, within, is_full, ig_dim_max(dims, last, constant(s, 1)), column_blocks, &rest);
    s->first_row = ig_x_mul(k, ig_x_add(k, ig_x_mul(k, band, num(s, IG_CUDA_BAND)), rest), num(s, s->g->bm));
    s->first_column = ig_x_mul(k, column, num(s, s->g->bn));
}

enum axis { COLUMN, ROW, MATRIX };

static void swap(enum axis *a, enum axis *b) {
    enum axis other = *a;
    *a = *b;
    *b = other;
}

/* The order in which tiles are numbered, the fastest axis first: row by row, so that A is read once; column by column if
 * B is so large that it would not stay in the second-level cache. The last axis needs no division by its number of
 * tiles, for which the first copies would wait: best a symbolic one, since dividing by a constant takes a tenth of the
 * time. */
static void order_axes(struct ig_cuda_product *s, const ig_dim *counts, int last, enum axis *order) {
    enum { LARGE = 16 << 20 };
    const struct ig_contract *c = s->c;
    int64_t elements = ig_sizes_guess(c->at, c->columns) * ig_sizes_guess(c->at, c->depth);
    for (int i = 0; i <= last; i++)
        order[i] = (enum axis)i;
    if (elements > LARGE / ig_cuda_gemm_element(s->g)) {
        swap(&order[COLUMN], &order[ROW]);
        return;
    }
    for (int i = last - 1; i >= 0 && ig_contract_const(c, counts[order[last]], -1) >= 0; i--) {
        if (ig_contract_const(c, counts[order[i]], -1) < 0) swap(&order[i], &order[last]);
    }
}

static void locate(struct ig_cuda_product *s, ig_x tile, ig_dim row_blocks, ig_dim column_blocks) {
    ig_dim counts[] = {column_blocks, row_blocks, s->batches.count};
    ig_x at[] = {num(s, 0), num(s, 0), num(s, 0)};
    int last = ig_contract_const(s->c, s->batches.count, 0) == 1 ? ROW : MATRIX;
    enum axis order[MATRIX + 1];
    order_axes(s, counts, last, order);
    for (int i = 0; i < last; i++)
        at[order[i]] = ig_x_split_off(s->k, &tile, counts[order[i]]);
    at[order[last]] = tile;
    s->first_row = ig_x_mul(s->k, at[ROW], num(s, s->g->bm));
    s->first_column = ig_x_mul(s->k, at[COLUMN], num(s, s->g->bn));
    s->at = at[MATRIX];
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

/* Tiles along the rows; of patches, those of all images. */
static ig_dim blocks_of_rows(struct ig_cuda_product *s) {
    struct ig_dims *dims = s->k->dims;
    if (!s->g->patch[0]) return ig_dim_ceil_div(dims, s->rows, constant(s, s->g->bm));
    ig_dim count = ig_contract_out(s->c)->dim[0];
    for (int i = 0; i < 2; i++) {
        ig_dim size = ig_cuda_size_along(s->c, ig_contract_out(s->c), 1 + i);
        count = ig_dim_mul(dims, count, ig_dim_ceil_div(dims, size, constant(s, s->g->patch[i])));
    }
    return count;
}

static void emit(struct ig_cuda_product *s) {
    struct ig_contract *c = s->c;
    struct ig_loops *k = s->k;
    struct ig_dims *dims = k->dims;
    ig_dim row_blocks = blocks_of_rows(s);
    ig_dim column_blocks = ig_dim_ceil_div(dims, c->columns, constant(s, s->g->bn));
    ig_dim blocks = ig_dim_mul(dims, s->batches.count, ig_dim_mul(dims, row_blocks, column_blocks));
    c->kernel->tiles = ig_dim_mul(dims, blocks, constant(s, s->g->split));
    ig_x tile, rest;
    struct ig_stmt *body = loop(s, NULL, IG_FOR_TILE, dim(s, c->kernel->tiles), &tile);
    rest = tile;
    if (s->g->producer) {
        s->share = num(s, 0);
        if (s->g->kept)
            locate_in_rows(s, tile);
        else
            locate_in_bands(s, tile, row_blocks, column_blocks);
        ig_product_emit_owners(s, body, tile);
        return;
    }
    s->share = ig_x_split_off(c->k, &rest, constant(s, s->g->split));
    locate(s, rest, row_blocks, column_blocks);
    if (s->g->a == IG_CUDA_FILLED) {
        emit_filled(s, body);
    } else {
        find_operands(s, s->at);
        if (s->g->a == IG_CUDA_LISTED) fill_list(s, body);
        if (s->g->stream)
            ig_product_emit_stream(s, body);
        else
            call_multiply(s, body);
    }
    emit_epilogue(s, body);
    s->c->ahead = NULL;
    if (s->g->pushes)
        ig_cuda_contract_send(c, body,
                              &(struct ig_cuda_push_tile){s->tile, s->g->bm, s->g->bn, ig_cuda_gemm_tile_row(s->g),
                                                          s->first_row, s->first_column, s->rows});
    if (s->g->direct) ig_s_call(s->k, body, "gemm::leave", NULL, 0);
}

bool ig_cuda_contract_gemm(struct ig_contract *c) {
    struct ig_cuda_product s = {.c = c, .k = c->k, .g = IG_NEW(c->k->job, struct ig_cuda_gemm)};
    if (!choose_math(&s)) return false;
    if (c->spatial && !ig_contract_attr_int(c, IG_ATTR_channels_last)) return false;
    if (c->first && !(s.first = ig_cuda_rows_find(c))) return false;
    if (!choose(&s)) return c->choices > 0;
    make_buffers(&s);
    if (s.first && !ig_cuda_rows_prepare(s.first, ig_cuda_gemm_stream(s.g).rows)) return false;
    emit(&s);
    ig_loops_store_once(s.k);
    return !c->astray;
}
