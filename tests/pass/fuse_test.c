/* The division into regions: which nodes are fused and which are not, and that regions read only values already
 * computed. */
#include <string.h>

#include "ir/build.h"
#include "ir/part.h"
#include "ir/text/print.h"
#include "pass/fuse/regions.h"
#include "support/check/graph_check.h"
#include "support/support.h"

struct division {
    const char *text;
    bool join;
    const struct ig_target *target;
    uint32_t regions;
    char families[16]; /* one letter per region, in order */
    uint32_t parts;    /* inputs of regions that are parts of other tensors, read in place */
};

static char letter(enum ig_family family) {
    static const char letters[] = {
        [IG_FAMILY_MAP] = 'm',    [IG_FAMILY_ROW] = 'r',  [IG_FAMILY_CONTRACT] = 'c', [IG_FAMILY_WINDOW] = 'w',
        [IG_FAMILY_ATTEND] = 'a', [IG_FAMILY_SCAN] = 's', [IG_FAMILY_REST] = 'x',     [IG_FAMILY_CONTROL] = 'f',
    };
    return letters[family];
}

/* The tensor in whose memory v lies. */
static ig_value memory_of(struct ig_graph *g, const bool *ready, ig_value v) {
    ig_dim begin;
    while (!ready[v]) {
        const struct ig_node *n = ig_def(g, v);
        assert_non_null(n);
        assert_true(n->op == IG_OP_reshape || ig_part_begin(g, n, &begin));
        v = n->in[0];
    }
    return v;
}

/* Every input of a region is constant, an input of the graph, or computed by an earlier region (up to reshapes and
 * parts). */
static void check_order(struct ig_graph *g) {
    bool *ready = IG_NEW_ARRAY(g->job, bool, g->values.count + 1);
    for (uint32_t v = 0; v < g->values.count; v++)
        ready[v] = ig_info(g, v)->is_const || ig_info(g, v)->node == IG_NO_NODE;
    for (uint32_t r = 0; r < g->regions.count; r++) {
        const struct ig_region *region = &g->regions.at[r];
        for (uint32_t i = 0; i < region->inputs.count; i++)
            memory_of(g, ready, region->inputs.at[i]);
        assert_true(region->outputs.count > 0);
        for (uint32_t i = 0; i < region->outputs.count; i++)
            ready[region->outputs.at[i]] = true;
    }
    for (uint32_t i = 0; i < g->outputs.count; i++) {
        const struct ig_node *parts = ig_part_stored(g, g->outputs.at[i].value);
        for (uint32_t k = 0; parts && k < parts->n_in; k++)
            memory_of(g, ready, parts->in[k]);
        if (!parts) memory_of(g, ready, g->outputs.at[i].value);
    }
}

static uint32_t count_parts(struct ig_graph *g) {
    uint32_t count = 0;
    for (uint32_t r = 0; r < g->regions.count; r++) {
        for (uint32_t i = 0; i < g->regions.at[r].inputs.count; i++) {
            ig_value v = g->regions.at[r].inputs.at[i];
            const struct ig_node *n;
            while ((n = ig_def_op(g, v, IG_OP_reshape)))
                v = n->in[0];
            n = ig_def_op(g, v, IG_OP_slice);
            count += n && n->region == IG_NO_REGION;
        }
    }
    return count;
}

static void divide(struct ig_job *job, void *argument) {
    struct division *d = argument;
    struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), d->text, strlen(d->text));
    struct ig_pass_options options = {.target = d->target};
    g = d->join ? ig_pass_fuse(g, &options) : ig_pass_partition(g, &options);
    ig_graph_verify(g, "fuse");
    check_order(g);
    d->regions = g->regions.count;
    for (uint32_t r = 0; r < g->regions.count; r++)
        d->families[r] = letter(g->regions.at[r].family);
    d->parts = count_parts(g);
}

static void run_division(struct division *d, const char *families) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, divide, d, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
    assert_string_equal(d->families, families);
}

static void expect(const char *text, bool join, const char *families) {
    struct division d = {.text = text, .join = join};
    run_division(&d, families);
}

/* Parts of memory that are read in place, by kernels for CPUs and for GPUs. */
static void expect_parts(const char *text, const char *families, uint32_t on_cpu, uint32_t on_gpu) {
    static const struct ig_target gpu = {.isa = IG_ISA_CUDA, .sm = 90};
    struct division d = {.text = text, .join = true};
    run_division(&d, families);
    assert_int_equal(d.parts, on_cpu);
    d = (struct division){.text = text, .join = true, .target = &gpu};
    run_division(&d, families);
    assert_int_equal(d.parts, on_gpu);
}

/* A contraction fuses bias, residual and activation; the residual's own producer runs before it. */
static const char residual[] = "graph {\n"
                               "  input %0 \"x\": f32[batch,64]\n"
                               "  input %1 \"w\": f32[64,64]\n"
                               "  input %2 \"b\": f32[64]\n"
                               "  %3 = sqrt(%0): f32[batch,64]\n"
                               "  %4 = matmul(%0, %1) {acc=f32, packed=0, n=0, math=0}: f32[batch,64]\n"
                               "  %5 = add(%4, %2): f32[batch,64]\n"
                               "  %6 = add(%5, %3): f32[batch,64]\n"
                               "  %7 = sigmoid(%6): f32[batch,64]\n"
                               "  %8 = mul(%6, %7): f32[batch,64]\n"
                               "  output \"y\" = %8\n"
                               "}\n";

static void test_epilogue(void **state) {
    expect(residual, true, "mc");
    expect(residual, false, "mcmmmm");
}

/* A scatter gathers its updates itself, here of what it adds them to; but not what is transposed. */
static const char gathered[] = "graph {\n"
                               "  input %0 \"x\": f32[n,64]\n"
                               "  input %1 \"from\": i64[m,64]\n"
                               "  input %2 \"to\": i64[m,64]\n"
                               "  %3 = gather_elements(%0, %1) {axis=0}: f32[m,64]\n"
                               "  %4 = scatter_elements(%0, %2, %3) {axis=0, reduction=1}: f32[n,64]\n"
                               "  output \"y\" = %4\n"
                               "}\n";
static const char turned[] = "graph {\n"
                             "  input %0 \"x\": f32[n,64]\n"
                             "  input %1 \"u\": f32[64,m]\n"
                             "  input %2 \"to\": i64[m,64]\n"
                             "  %3 = transpose(%1) {perm=[1,0]}: f32[m,64]\n"
                             "  %4 = scatter_elements(%0, %2, %3) {axis=0, reduction=1}: f32[n,64]\n"
                             "  output \"y\" = %4\n"
                             "}\n";

/* What is computed of sums of whole rows is computed as they are stored, on GPUs. */
static const char summed[] = "graph {\n"
                             "  input %0 \"x\": f32[9,64]\n"
                             "  input %1 \"to\": i64[m,1]\n"
                             "  input %2 \"u\": f32[m,64]\n"
                             "  %3 = broadcast(%1) {dims=[m,64]}: i64[m,64]\n"
                             "  %4 = scatter_elements(%0, %3, %2) {axis=0, reduction=1}: f32[9,64]\n"
                             "  %5 = add(%4, %0): f32[9,64]\n"
                             "  output \"y\" = %5\n"
                             "}\n";

static void test_scatter(void **state) {
    static const struct ig_target gpu = {.isa = IG_ISA_CUDA, .sm = 90};
    struct division d = {.text = summed, .join = true, .target = &gpu};
    (void)state;
    run_division(&d, "x");
    expect(summed, true, "xm");
    d.text = gathered;
    run_division(&d, "mx");
    expect(gathered, true, "x");
    expect(gathered, false, "mx");
    expect(turned, true, "mx");
}

/* Softmax is one row kernel, which fuses the elementwise work before and after it. */
static const char softmax[] = "graph {\n"
                              "  input %0 \"x\": f32[batch,n]\n"
                              "  input %1 \"mask\": f32[batch,n]\n"
                              "  %2 = add(%0, %1): f32[batch,n]\n"
                              "  %3 = reduce_max(%2) {axes=[1]}: f32[batch,1]\n"
                              "  %4 = sub(%2, %3): f32[batch,n]\n"
                              "  %5 = exp(%4): f32[batch,n]\n"
                              "  %6 = reduce_sum(%5) {axes=[1]}: f32[batch,1]\n"
                              "  %7 = div(%5, %6): f32[batch,n]\n"
                              "  output \"y\" = %7\n"
                              "}\n";

static void test_row(void **state) {
    expect(softmax, true, "r");
}

/* Views are read through; a view that is a result is stored, a reshape never is. */
static const char views[] = "graph {\n"
                            "  input %0 \"x\": f32[2,3,4]\n"
                            "  %1 = sqrt(%0): f32[2,3,4]\n"
                            "  %2 = transpose(%1) {perm=[0,2,1]}: f32[2,4,3]\n"
                            "  %3 = exp(%2): f32[2,4,3]\n"
                            "  %4 = reshape(%3) {dims=[24]}: f32[24]\n"
                            "  output \"a\" = %4\n"
                            "  output \"b\" = %2\n"
                            "}\n";

static void test_views(void **state) {
    expect(views, true, "mmm");
}

/* Reductions over different axes do not share a kernel. */
static const char two_axes[] = "graph {\n"
                               "  input %0 \"x\": f32[5,7]\n"
                               "  %1 = exp(%0): f32[5,7]\n"
                               "  %2 = reduce_sum(%1) {axes=[0]}: f32[1,7]\n"
                               "  %3 = reduce_sum(%1) {axes=[1]}: f32[5,1]\n"
                               "  output \"a\" = %2\n"
                               "  output \"b\" = %3\n"
                               "}\n";

static void test_axes(void **state) {
    expect(two_axes, true, "rr");
}

/* An elementwise prologue that only a matrix product reads is computed while its panels are packed. */
static const char prologue[] = "graph {\n"
                               "  input %0 \"x\": f32[8,16]\n"
                               "  input %1 \"w\": f32[16,4]\n"
                               "  %2 = abs(%0): f32[8,16]\n"
                               "  %3 = add(%0, %2): f32[8,16]\n"
                               "  %4 = mul(%0, %0): f32[8,16]\n"
                               "  %5 = matmul(%4, %1) {acc=f32, packed=0, n=0, math=0}: f32[8,4]\n"
                               "  %6 = matmul(%3, %1) {acc=f32, packed=0, n=0, math=0}: f32[8,4]\n"
                               "  %7 = add(%5, %6): f32[8,4]\n"
                               "  output \"y\" = %7\n"
                               "}\n";

static void test_prologue(void **state) {
    expect(prologue, true, "mcc");
}

/* One layer's part of a stacked tensor is an input of its own, where it lies in one piece: not the columns of c. Kernels for
 * GPUs need it aligned to 16 bytes: not so in b. */
static const char parts[] = "graph {\n"
                            "  input %0 \"a\": f32[3,batch,4]\n"
                            "  input %1 \"b\": f32[3,batch,3]\n"
                            "  input %2 \"c\": f32[batch,8]\n"
                            "  %3 = slice(%0) {starts=[1,0,0], sizes=[1,batch,4], steps=[1,1,1]}: f32[1,batch,4]\n"
                            "  %4 = reshape(%3) {dims=[batch,4]}: f32[batch,4]\n"
                            "  %5 = sqrt(%4): f32[batch,4]\n"
                            "  %6 = slice(%1) {starts=[1,0,0], sizes=[2,batch,3], steps=[1,1,1]}: f32[2,batch,3]\n"
                            "  %7 = sqrt(%6): f32[2,batch,3]\n"
                            "  %8 = slice(%2) {starts=[0,4], sizes=[batch,4], steps=[1,1]}: f32[batch,4]\n"
                            "  %9 = sqrt(%8): f32[batch,4]\n"
                            "  output \"x\" = %5\n"
                            "  output \"y\" = %7\n"
                            "  output \"z\" = %9\n"
                            "}\n";

/* Of what a region computes; a part of a part; and one that is a result, which is stored. */
static const char nested_parts[] =
    "graph {\n"
    "  input %0 \"a\": f32[4,batch,8]\n"
    "  %1 = exp(%0): f32[4,batch,8]\n"
    "  %2 = slice(%1) {starts=[2,0,0], sizes=[2,batch,8], steps=[1,1,1]}: f32[2,batch,8]\n"
    "  %3 = slice(%2) {starts=[1,0,0], sizes=[1,batch,8], steps=[1,1,1]}: f32[1,batch,8]\n"
    "  %4 = sqrt(%3): f32[1,batch,8]\n"
    "  output \"x\" = %4\n"
    "  output \"y\" = %2\n"
    "}\n";

/* What begins or ends where the tensor may end before is read with clamped indices; a step is not one piece. */
static const char no_parts[] = "graph {\n"
                               "  input %0 \"a\": f32[n,4]\n"
                               "  input %1 \"b\": f32[6,4]\n"
                               "  %2 = slice(%0) {starts=[1,0], sizes=[1,4], steps=[1,1]}: f32[1,4]\n"
                               "  %3 = exp(%2): f32[1,4]\n"
                               "  %4 = slice(%1) {starts=[0,0], sizes=[3,4], steps=[2,1]}: f32[3,4]\n"
                               "  %5 = exp(%4): f32[3,4]\n"
                               "  output \"x\" = %3\n"
                               "  output \"y\" = %5\n"
                               "}\n";

/* A part is dense: what reads memory only needs no copy. */
static const char part_of_dense[] = "graph {\n"
                                    "  input %0 \"a\": f32[3,5,4]\n"
                                    "  %1 = slice(%0) {starts=[2,0,0], sizes=[1,5,4], steps=[1,1,1]}: f32[1,5,4]\n"
                                    "  %2, %3 = topk(%1) {axis=2, k=2, largest=1}: f32[1,5,2], i64[1,5,2]\n"
                                    "  output \"x\" = %2\n"
                                    "}\n";

static void test_parts(void **state) {
    expect_parts(parts, "mmm", 2, 1);
    expect_parts(nested_parts, "mmm", 1, 1);
    expect_parts(no_parts, "mm", 0, 0);
    expect_parts(part_of_dense, "x", 1, 1);
}

/* Rows of a table that two regions read: the first stores them, so that the second reads no table. */
static const char embedding[] = "graph {\n"
                                "  input %0 \"table\": f32[9,4]\n"
                                "  input %1 \"w\": f32[4,4]\n"
                                "  input %2 \"ids\": i64[n]\n"
                                "  %3 = gather(%0, %2) {axis=0}: f32[n,4]\n"
                                "  %4 = exp(%3): f32[n,4]\n"
                                "  %5 = matmul(%4, %1) {acc=f32, packed=0, n=0, math=0}: f32[n,4]\n"
                                "  %6 = add(%3, %5): f32[n,4]\n"
                                "  output \"y\" = %6\n"
                                "}\n";

static void check_embedding(struct ig_job *job, void *argument) {
    struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), embedding, strlen(embedding));
    struct ig_pass_options options = {0};
    (void)argument;
    g = ig_pass_fuse(g, &options);
    ig_graph_verify(g, "fuse");
    assert_int_equal(g->regions.count, 2);
    assert_int_equal(g->regions.at[0].outputs.count, 2);
    const struct ig_region *second = &g->regions.at[1];
    for (uint32_t i = 0; i < second->inputs.count; i++)
        assert_true(ig_type_of(g, second->inputs.at[i])->dtype == INGOT_F32);
    /* What the region computes comes before what it reads, whichever is older. */
    const struct ig_node *sum = &g->nodes.at[second->nodes.at[second->nodes.count - 1]];
    assert_int_equal(sum->op, IG_OP_add);
    assert_non_null(ig_def_op(g, sum->in[0], IG_OP_matmul));
}

static void test_embedding(void **state) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, check_embedding, NULL, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

/* A byte that is an index stays a byte in memory, also where the gathered elements are an operand of a product. */
static const char table[] = "graph {\n"
                            "  input %0 \"x\": f32[n,8]\n"
                            "  input %1 \"w\": f32[8,8]\n"
                            "  input %2 \"table\": f32[256]\n"
                            "  %3 = matmul(%0, %1) {acc=f32, packed=0, n=0, math=0}: f32[n,8]\n"
                            "  %4 = cast(%3) {to=u8, saturate=1}: u8[n,8]\n"
                            "  %5 = cast(%4) {to=i32, saturate=0}: i32[n,8]\n"
                            "  %6 = gather(%2, %5) {axis=0}: f32[n,8]\n"
                            "  %7 = matmul(%6, %1) {acc=f32, packed=0, n=0, math=0}: f32[n,8]\n"
                            "  output \"y\" = %7\n"
                            "}\n";

static void check_table(struct ig_job *job, void *argument) {
    struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), table, strlen(table));
    struct ig_pass_options options = {0};
    (void)argument;
    g = ig_pass_fuse(g, &options);
    ig_graph_verify(g, "fuse");
    check_order(g);
    assert_true(g->regions.count >= 2);
    assert_int_equal(ig_type_of(g, g->regions.at[0].outputs.at[0])->dtype, INGOT_U8);
}

static void test_table(void **state) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, check_table, NULL, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

/* Each reader converts a few integers by itself, but not many. */
#define POSITIONS(n)                                       \
    "graph {\n"                                            \
    "  input %0 \"at\": i64[" n ",1]\n"                    \
    "  input %1 \"by\": f32[8]\n"                          \
    "  input %2 \"of\": f32[4]\n"                          \
    "  %3 = cast(%0) {to=f32, saturate=0}: f32[" n ",1]\n" \
    "  %4 = mul(%3, %1): f32[" n ",8]\n"                   \
    "  %5 = mul(%3, %2): f32[" n ",4]\n"                   \
    "  output \"y\" = %4\n"                                \
    "  output \"z\" = %5\n"                                \
    "}\n"

static void test_positions(void **state) {
    expect(POSITIONS("64"), true, "mm");
    expect(POSITIONS("65"), true, "mmm");
}

/* The halves of a rotated pair are computed as they are stored, also rounded; a part that another kernel reads is not. */
static const char rotation[] = "graph {\n"
                               "  input %0 \"x\": f32[n,4]\n"
                               "  input %1 \"y\": f32[n,4]\n"
                               "  input %2 \"c\": f32[4]\n"
                               "  input %3 \"s\": f32[4]\n"
                               "  input %4 \"w\": f32[4,4]\n"
                               "  %5 = mul(%0, %2): f32[n,4]\n"
                               "  %6 = mul(%1, %3): f32[n,4]\n"
                               "  %7 = sub(%5, %6): f32[n,4]\n"
                               "  %8 = mul(%0, %3): f32[n,4]\n"
                               "  %9 = mul(%1, %2): f32[n,4]\n"
                               "  %10 = add(%8, %9): f32[n,4]\n"
                               "  %11 = concat(%7, %10) {axis=1}: f32[n,8]\n"
                               "  %12 = concat(%0, %1) {axis=1}: f32[n,8]\n"
                               "  %13 = concat(%12, %11) {axis=0}: f32[2*n,8]\n"
                               "  %14 = cast(%13) {to=f16, saturate=0}: f16[2*n,8]\n"
                               "  %15 = exp(%0): f32[n,4]\n"
                               "  %16 = matmul(%15, %4) {acc=f32, packed=0, n=0, math=0}: f32[n,4]\n"
                               "  %17 = concat(%15, %16) {axis=1}: f32[n,8]\n"
                               "  output \"a\" = %13\n"
                               "  output \"b\" = %14\n"
                               "  output \"c\" = %17\n"
                               "}\n";

static void test_concat(void **state) {
    expect(rotation, true, "mmcm");
}

/* The square that only a mean reads is computed with the mean, not stored by the product before it. */
static const char square[] = "graph {\n"
                             "  input %0 \"x\": f32[n,8]\n"
                             "  input %1 \"w\": f32[8,8]\n"
                             "  %2 = matmul(%0, %1) {acc=f32, packed=0, n=0, math=0}: f32[n,8]\n"
                             "  %3 = add(%2, %0): f32[n,8]\n"
                             "  %4 = mul(%3, %3): f32[n,8]\n"
                             "  %5 = reduce_mean(%4) {axes=[1]}: f32[n,1]\n"
                             "  %6 = div(%3, %5): f32[n,8]\n"
                             "  output \"y\" = %6\n"
                             "}\n";

static void check_square(struct ig_job *job, void *argument) {
    struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), square, strlen(square));
    struct ig_pass_options options = {0};
    (void)argument;
    g = ig_pass_fuse(g, &options);
    assert_int_equal(g->regions.count, 2);
    assert_int_equal(g->regions.at[0].outputs.count, 1);
    assert_int_equal(g->regions.at[1].inputs.count, 1);
}

static void test_square(void **state) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, check_square, NULL, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

/* A gate and what it lets through: one region on GPUs where there are few rows, and weights of one shape. */
struct gate {
    int64_t rows, columns; /* of the second weight; the first has 32 columns */
    bool is_cuda;
    const char *families;
};

static void check_gate(struct ig_job *job, void *argument) {
    static const struct ig_target gpu = {.isa = IG_ISA_CUDA, .sm = 90};
    const struct gate *t = argument;
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    struct ig_type type = sized_type(g, INGOT_F16, 2, (const int64_t[]){t->rows, 16});
    ig_value x = ig_map1(g, IG_OP_neg, ig_build_input(g, "x", &type));
    ig_value a = random_constant(g, INGOT_F16, 2, (const int64_t[]){16, 32}, 1);
    ig_value b = random_constant(g, INGOT_F16, 2, (const int64_t[]){16, t->columns}, 2);
    a = ig_map1(g, IG_OP_sigmoid, ig_build_matmul(g, x, a, INGOT_F32));
    b = ig_build_matmul(g, x, b, INGOT_F32);
    if (t->columns == 32) b = ig_map2(g, IG_OP_mul, a, b);
    ig_build_output(g, "a", a);
    ig_build_output(g, "b", b);
    struct ig_pass_options options = {.target = t->is_cuda ? &gpu : NULL};
    g = ig_pass_fuse(g, &options);
    ig_graph_verify(g, "fuse");
    check_order(g);
    assert_int_equal(g->regions.count, strlen(t->families));
    for (uint32_t r = 0; r < g->regions.count; r++)
        assert_int_equal(letter(g->regions.at[r].family), t->families[r]);
}

static void test_gate(void **state) {
    static const struct gate gates[] = {
        {1, 32, true, "mc"},   {16, 32, true, "mc"}, {17, 32, true, "mcc"},
        {1, 32, false, "mcc"}, {1, 40, true, "mcc"}, {-1, 32, true, "mcc"},
    };
    for (size_t i = 0; i < sizeof gates / sizeof *gates; i++) {
        struct ig_job job;
        struct ingot_error error = {0};
        ig_job_init(&job, &ig_libc_allocator);
        if (ig_job_run(&job, check_gate, (void *)&gates[i], &error)) fail_msg("%s", error.message);
        ig_job_deinit(&job);
    }
}

/* Stacked caches of two layers, which are rounded too: each layer stores its own in the result. */
#define CACHES(axis, shape, results)                          \
    "graph {\n"                                               \
    "  input %0 \"past\": f32[2,m,4]\n"                       \
    "  input %1 \"new\": f32[2,n,4]\n"                        \
    "  %2 = exp(%1): f32[2,n,4]\n"                            \
    "  %3 = concat(%0, %1) {axis=1}: f32[2,m+n,4]\n"          \
    "  %4 = concat(%0, %2) {axis=1}: f32[2,m+n,4]\n"          \
    "  %5 = cast(%3) {to=f16, saturate=0}: f16[2,m+n,4]\n"    \
    "  %6 = cast(%4) {to=f16, saturate=0}: f16[2,m+n,4]\n"    \
    "  %7 = reshape(%3) {dims=[1,2,m+n,4]}: f32[1,2,m+n,4]\n" \
    "  %8 = reshape(%4) {dims=[1,2,m+n,4]}: f32[1,2,m+n,4]\n" \
    "  %9 = concat(%7, %8) {axis=" axis "}: f32[" shape "]\n" \
    "  output \"a\" = %5\n  output \"b\" = %6\n  output \"c\" = %9\n" results "}\n"

static void test_caches(void **state) {
    expect(CACHES("0", "2,2,m+n,4", ""), true, "mm");
    expect(CACHES("1", "1,4,m+n,4", ""), true, "mm");
    expect(CACHES("2", "1,2,2*m+2*n,4", ""), true, "mmm");
    expect(CACHES("0", "2,2,m+n,4", "  output \"d\" = %4\n"), true, "mmm");
    expect(CACHES("0", "2,2,m+n,4", "  %10 = exp(%9): f32[2,2,m+n,4]\n  output \"d\" = %10\n"), true, "mmmm");
    expect(CACHES("0", "2,2,m+n,4", ""), false, "mmmmmm");
}

/* Identity networks: nothing to compute. */
static void test_nothing(void **state) {
    expect("graph {\n  input %0 \"x\": f32[2]\n  output \"y\" = %0\n}\n", true, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epilogue), cmocka_unit_test(test_row),       cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_views),    cmocka_unit_test(test_axes),      cmocka_unit_test(test_prologue),
        cmocka_unit_test(test_nothing),  cmocka_unit_test(test_parts),     cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_table),    cmocka_unit_test(test_positions), cmocka_unit_test(test_concat),
        cmocka_unit_test(test_square),   cmocka_unit_test(test_gate),      cmocka_unit_test(test_caches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
