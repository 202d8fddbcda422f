/*
 * Sharding rules: every operator, divided in every way that its rule knows, gives on two to five ranks what it gives on one.
 * Numbers are small and whole, so that all sums are exact and results must be equal. Sizes are symbols, or numbers that
 * do not divide.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/build.h"
#include "ir/eval/eval.h"
#include "ir/text/print.h"
#include "pass/shard/split.h"
#include "support/support.h"

enum { MOST_INPUTS = 6, MOST_RANKS = 5, MOST_WAYS = 64, MOST_VALUES = 8 };

struct rule_case {
    const char *types; /* of the inputs %0, %1, …, separated by spaces */
    const char *node;  /* results are %10, %11, … */
    int ways;          /* distinct ones, in units of single elements */
    int64_t most; /* integers are from 0 to this, less one; below 0: from this to its negative, less one; 0: 0 or 1 */
};

#define POOL "kernel=[2,2], strides=[1,1], dilations=[1,1], before=[0,0], sizes=[3,4], channels_last="
#define CONV "strides=[1,1], dilations=[1,1], before=[1,1], after=[1,1], groups="
#define CONV_END ", kernel=[3,3], math=0, border=0}"

/* a, b and c are symbols. */
static const struct rule_case cases[] = {
    {"f32[a,7,b]", "exp(%0): f32[a,7,b]", 3, 0},
    {"f32[a,7,b] f32[7,1]", "add(%0, %1): f32[a,7,b]", 3, 0},
    {"f32[a,1] f32[1,b] f32[1]", "where(%9, %0, %1): f32[a,b]", 2, 0},
    {"f32[a,7]", "cast(%0) {to=i32, saturate=0}: i32[a,7]", 2, 0},
    {"f32[a,1,7]", "broadcast(%0) {dims=[a,b,7]}: f32[a,b,7]", 3, 0},
    {"f32[a,12,5]", "reshape(%0) {dims=[a,3,4,5]}: f32[a,3,4,5]", 4, 0},
    {"f32[a,12,b]", "reshape(%0) {dims=[12*a,b]}: f32[12*a,b]", 3, 0},
    {"f32[a,12]", "reshape(%0) {dims=[4*a,3]}: f32[4*a,3]", 3, 0},
    {"f32[a,b,5]", "transpose(%0) {perm=[2,0,1]}: f32[5,a,b]", 3, 0},
    {"f32[a,7,5]", "slice(%0) {starts=[0,1,0], sizes=[a,4,5], steps=[1,1,1]}: f32[a,4,5]", 2, 0},
    {"f32[a,7,5]", "slice(%0) {starts=[0,0,0], sizes=[a,7,3], steps=[1,1,2]}: f32[a,7,3]", 2, 0},
    {"f32[a,7]", "pad(%0) {before=[0,1], after=[0,0], mode=0}: f32[a,8]", 1, 0},
    {"f32[a,7] f32[]", "pad(%0, %1) {before=[0,0], after=[1,0], mode=0}: f32[a+1,7]", 1, 0},
    {"f32[a,7] f32[b,7]", "concat(%0, %1) {axis=0}: f32[a+b,7]", 1, 0},
    {"f32[a,7] f32[a,7]", "concat(%0, %1) {axis=1}: f32[a,14]", 2, 0},
    {"f32[a,7,b] i64[c,2]", "gather(%0, %1) {axis=1}: f32[a,c,2,b]", 5, -10},
    {"f32[12,b] i32[a]", "gather(%0, %1) {axis=0}: f32[a,b]", 3, -12},
    {"f16[5,b] i64[]", "gather(%0, %1) {axis=0}: f16[b]", 2, -5},
    {"i8[3,7] i32[a,b]", "gather(%0, %1) {axis=1}: i8[3,a,b]", 4, -9},
    {"bool[7,b] i64[a]", "gather(%0, %1) {axis=0}: bool[a,b]", 2, 7},
    {"f32[a,b] i64[c]", "gather(%0, %1) {axis=0}: f32[c,b]", 2, 1},
    {"f32[a,7,5] i64[a,7,b]", "gather_elements(%0, %1) {axis=2}: f32[a,7,b]", 3, 5},
    {"f32[a,7,5,c] i64[a,b,2]", "gather_nd(%0, %1) {batch_dims=1}: f32[a,b,c]", 3, 5},
    {"f32[a,7] i64[a,3] f32[a,3]", "scatter_elements(%0, %1, %2) {axis=1, reduction=1}: f32[a,7]", 1, 7},
    {"f32[5,b] i64[c,1] f32[c,b]", "scatter_nd(%0, %1, %2) {reduction=1}: f32[5,b]", 1, 5},
    {"f32[a,7,b]", "reduce_sum(%0) {axes=[1]}: f32[a,1,b]", 3, 0},
    {"f32[a,7,5]", "reduce_max(%0) {axes=[1,2]}: f32[a,1,1]", 3, 0},
    {"f32[a,7,5]", "reduce_min(%0) {axes=[2]}: f32[a,7,1]", 3, 0},
    {"f32[a,7,5]", "reduce_mean(%0) {axes=[2]}: f32[a,7,1]", 2, 0},
    {"f32[a,3,5]", "reduce_prod(%0) {axes=[1]}: f32[a,1,5]", 2, 0},
    {"f32[a,7]", "argmax(%0) {axis=1, last=0}: i64[a,1]", 1, 0},
    {"f32[a,7]", "argmin(%0) {axis=0, last=1}: i64[1,7]", 1, 0},
    {"f32[a,7]", "cumsum(%0) {axis=1, exclusive=0, reverse=1}: f32[a,7]", 1, 0},
    {"f32[3,7]", "cumprod(%0) {axis=0, exclusive=1, reverse=0}: f32[3,7]", 1, 0},
    {"f32[a,7]", "topk(%0) {axis=1, k=3, largest=1}: f32[a,3], i64[a,3]", 1, 0},
    {"f32[a]", "iota() {dims=[a,7], axis=1}: i64[a,7]", 1, 0},
    {"f32[a,3]", "pad(%0) {before=[0,0], after=[0,4], mode=0}: f32[a,7]", 1, 0},
    {"f32[a,7] f32[7,b]", "matmul(%0, %1) {acc=f32, packed=0, n=0, math=0}: f32[a,b]", 3, 0},
    {"f32[a,b,3,7] f32[b,7,5]", "matmul(%0, %1) {acc=f32, packed=0, n=0, math=0}: f32[a,b,3,5]", 5, 0},
    {"f32[b,3,7] f32[1,7,5]", "matmul(%0, %1) {acc=f32, packed=0, n=0, math=0}: f32[b,3,5]", 4, 0},
    {"f32[a,12] u8[7,12] f32[7,3]",
     "matmul_blocks(%0, %1, %2, -, -) {acc=f32, bits=8, block=4, offset=2, packed=0, n=0}: f32[a,7]", 3, 16},
    {"f32[a,12] u8[7,12] f32[7,3] f32[7,3]",
     "matmul_blocks(%0, %1, %2, %3, -) {acc=f32, bits=8, block=4, offset=2, packed=0, n=0}: f32[a,7]", 3, 16},
    {"i8[a,8] i8[7,8] f32[a,2] f32[2,7]", "matmul_scaled(%0, %1, %2, %3) {acc=f32, block=4, columns=1}: f32[a,7]", 1,
     16},
    {"f32[a,5,4,4] f32[7,5,3,3] f32[7]",
     "conv(%0, %1, %2) {" CONV "1, acc=f32, channels_last=0, packed=0, n=7" CONV_END ": f32[a,7,4,4]", 3, 0},
    {"f32[a,4,4,6] f32[7,6,3,3]",
     "conv(%0, %1, -) {" CONV "1, acc=f32, channels_last=1, packed=0, n=7" CONV_END ": f32[a,4,4,7]", 3, 0},
    {"f32[a,6,4,4] f32[9,2,3,3] f32[9]",
     "conv(%0, %1, %2) {" CONV "3, acc=f32, channels_last=0, packed=0, n=9" CONV_END ": f32[a,9,4,4]", 2, 0},
    {"f32[a,7,4,4] f32[7,1,3,3]",
     "conv(%0, %1, -) {" CONV "7, acc=f32, channels_last=0, packed=0, n=7" CONV_END ": f32[a,7,4,4]", 2, 0},
    {"f32[a,7,4,5]", "pool_max(%0) {" POOL "0}: f32[a,7,3,4]", 2, 0},
    {"f32[a,4,5,7]", "pool_sum(%0) {" POOL "1}: f32[a,3,4,7]", 2, 0},
    {"f32[a,7,4,5]", "pool_avg(%0) {" POOL "0, after=[0,0], count_pad=0}: f32[a,7,3,4]", 2, 0},
    {"f32[3,a,8] f32[8,2] f32[a,2] f32[a,2] i32[a] f32[6]",
     "lstm(%0, %1, %2, %3, %4, %5) {reverse=0, activations=[0,1,1], clip=0, input_forget=0, alphas=[0,0,0], "
     "betas=[0,0,0]}: f32[3,a,2], f32[a,2], f32[a,2]",
     1, 4},
    {"f32[3,a,6] f32[6,2] f32[a,2] i32[a] f32[2]",
     "gru(%0, %1, %2, %3, %4) {reverse=1, activations=[0,1], clip=0, linear_before_reset=1, alphas=[0,0], "
     "betas=[0,0]}: f32[3,a,2], f32[a,2]",
     1, 4},
    {"f32[3,a,2] f32[2,2] f32[a,2] i32[a]",
     "rnn(%0, %1, %2, %3) {reverse=0, activations=[1], clip=0, alphas=[0], betas=[0]}: f32[3,a,2], f32[a,2]", 1, 4},
};
enum { CASES = sizeof cases / sizeof *cases };

/* Operators that every rank computes whole; some might get a rule, none may be forgotten. */
static const enum ig_op whole_ops[] = {
    IG_OP_constant,       IG_OP_shape,          IG_OP_pool_argmax, IG_OP_if,
    IG_OP_loop,           IG_OP_all_reduce,     IG_OP_all_gather,  IG_OP_all_to_all,
    IG_OP_reduce_scatter, IG_OP_broadcast_from,
};

/* ---- Graphs ------------------------------------------------------------------------------------------------------- */

struct run {
    struct ig_job *job;
    const struct rule_case *c;
    struct ig_graph *g;
    ig_node_id node; /* that is divided */
    struct ingot_tensor inputs[MOST_INPUTS + 1], expected[MOST_VALUES];
    uint64_t state;
    const char *seen[MOST_WAYS]; /* texts of ways in single elements */
    int n_seen;
    bool wrong; /* other ways than expected */
    bool ops[IG_OP_COUNT];
};

static int64_t pick(struct run *r, int64_t count) {
    r->state = r->state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(r->state >> 33) % count;
}

static void make_graph(struct run *r) {
    struct ig_text text;
    ig_text_init(&text, r->job);
    ig_text_add(&text, "graph {\n");
    const char *at = r->c->types;
    for (int i = 0; *at; i++) {
        int length = (int)strcspn(at, " ");
        ig_text_printf(&text, "  input %%%d \"i%d\": %.*s\n", i, i, length, at);
        at += length + (at[length] == ' ');
    }
    ig_text_add(&text, "  input %9 \"condition\": bool[a,b]\n");
    const char *types = strstr(r->c->node, "): ") ? strstr(r->c->node, "): ") + 3 : strstr(r->c->node, "}: ") + 3;
    int results = 1;
    for (const char *comma = types; (comma = strstr(comma, "], ")); comma++)
        results++;
    ig_text_add(&text, "  %10");
    for (int o = 1; o < results; o++)
        ig_text_printf(&text, ", %%%d", 10 + o);
    ig_text_printf(&text, " = %s\n", r->c->node);
    for (int o = 0; o < results; o++)
        ig_text_printf(&text, "  output \"o%d\" = %%%d\n", o, 10 + o);
    ig_text_add(&text, "}\n");
    r->g = ig_graph_parse(r->job, ig_dims_create(r->job), text.at, text.length);
    r->node = r->g->nodes.count - 1;
}

static void make_inputs(struct run *r) {
    struct ig_dims *dims = r->g->dims;
    const ig_dim symbols[] = {ig_dim_symbol(dims, "a"), ig_dim_symbol(dims, "b"), ig_dim_symbol(dims, "c")};
    int64_t values[] = {1 + pick(r, 9), 1 + pick(r, 9), 1 + pick(r, 9)};
    for (uint32_t i = 0; i < r->g->inputs.count; i++) {
        const struct ig_type *type = ig_type_of(r->g, r->g->inputs.at[i].value);
        struct ingot_tensor *t = &r->inputs[i];
        *t = (struct ingot_tensor){.dtype = type->dtype, .rank = type->rank};
        for (int k = 0; k < type->rank; k++)
            assert_true(ig_dim_eval(dims, type->dim[k], symbols, values, 3, &t->dims[k]));
        int64_t count = ingot_tensor_elements(t);
        t->data = ig_alloc(r->job, (size_t)count * 8 + 8);
        for (int64_t k = 0; k < count; k++) {
            bool is_index = !ig_dtype_is_float(type->dtype);
            const int64_t most = r->c->most ? r->c->most : 2;
            int64_t number = !is_index ? pick(r, 9) - 4 : most < 0 ? pick(r, -2 * most) + most : pick(r, most);
            ig_store_f64(type->dtype, t->data, k, (double)number);
        }
    }
}

/* ---- Ways --------------------------------------------------------------------------------------------------------- */

static const char *way_text(struct run *r, const struct ig_division *d) {
    const struct ig_node *n = &r->g->nodes.at[r->node];
    struct ig_text text;
    ig_text_init(&text, r->job);
    for (uint32_t i = 0; i < n->n_in; i++)
        ig_text_printf(&text, "%s; ", ig_layout_text(r->job, r->g->dims, &d->in[i]));
    for (uint32_t i = 0; i < n->n_out; i++)
        ig_text_printf(&text, "-> %s", ig_layout_text(r->job, r->g->dims, &d->out[i]));
    return text.at;
}

static bool same_numbers(const struct ingot_tensor *a, const struct ingot_tensor *b) {
    if (a->dtype != b->dtype || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++) {
        if (a->dims[i] != b->dims[i]) return false;
    }
    for (int64_t i = 0; i < ingot_tensor_elements(a); i++) {
        double x = ig_load_f64(a->dtype, a->data, i), y = ig_load_f64(b->dtype, b->data, i);
        if (x != y && (x == x || y == y)) return false;
    }
    return true;
}

static void check_ranks(struct run *r, const struct ig_division *d, int ranks) {
    struct ig_shard_plan plan = {.ranks = ranks};
    struct ig_graph *graphs[MOST_RANKS];
    struct ingot_tensor found[MOST_RANKS * MOST_VALUES];
    uint32_t outputs = r->g->outputs.count;
    plan.divisions = IG_NEW_ARRAY(r->job, const struct ig_division *, r->g->nodes.count + 1);
    plan.divisions[r->node] = d;
    for (int rank = 0; rank < ranks; rank++) {
        graphs[rank] = ig_shard_split(r->g, &plan, rank);
        ig_graph_verify(graphs[rank], "splitting");
    }
    ig_shard_check(graphs, ranks);
    ig_eval_ranks(r->job, graphs, (uint32_t)ranks, r->inputs, found);
    for (uint32_t i = 0; i < outputs * (uint32_t)ranks; i++) {
        if (!same_numbers(&found[i], &r->expected[i % outputs])) {
            struct ig_text text;
            ig_text_init(&text, r->job);
            ig_graph_print(graphs[i / outputs], 0, &text);
            fail_msg("%s on %d ranks, %s: rank %u differs\n%s", r->c->node, ranks, way_text(r, d), i / outputs,
                     text.at);
        }
        ig_eval_release(r->job, &found[i]);
    }
}

static void note_way(struct run *r, const struct ig_division *d) {
    const char *text = way_text(r, d);
    for (int i = 0; i < r->n_seen; i++) {
        if (strcmp(r->seen[i], text) == 0) return;
    }
    assert_true(r->n_seen < MOST_WAYS);
    r->seen[r->n_seen++] = text;
}

/* One operand or result, given by `outer` and units of `inner` elements of an axis. */
static void try_way(struct run *r, struct ig_slot_of slot, const struct ig_type *type, int axis, int64_t outer,
                    int64_t inner) {
    const struct ig_node *n = &r->g->nodes.at[r->node];
    struct ig_dims *dims = r->g->dims;
    ig_dim unit = ig_dim_const(dims, outer * inner);
    if (!ig_dim_divides(dims, unit, type->dim[axis])) return;
    struct ig_layout given = ig_layout_split(axis, ig_dim_const(dims, outer), ig_dim_div(dims, type->dim[axis], unit),
                                             ig_dim_const(dims, inner));
    struct ig_division d = {.in = IG_NEW_ARRAY(r->job, struct ig_layout, n->n_in + 1),
                            .out = IG_NEW_ARRAY(r->job, struct ig_layout, n->n_out + 1)};
    if (!ig_shard_divide(r->g, n, slot, &given, &d)) return;
    if (outer * inner == 1) note_way(r, &d);
    for (int ranks = 2; ranks <= MOST_RANKS; ranks++) {
        bool serves = true;
        for (uint32_t i = 0; i < n->n_in; i++)
            serves &= ig_layout_serves(dims, &d.in[i], ranks);
        for (uint32_t i = 0; i < n->n_out; i++)
            serves &= ig_layout_serves(dims, &d.out[i], ranks);
        if (serves) check_ranks(r, &d, ranks);
    }
}

/* A sum of which each rank has a term, times a factor that all have, by either operand; with another sum, or stretched, it cannot be. */
static void check_scaled(struct ig_job *job, void *argument) {
    static const struct {
        const char *types, *node;
        bool can[2];
    } products[] = {
        {"f32[a,7] f32[a,1]", "mul(%0, %1): f32[a,7]", {true, false}},
        {"f32[7] f32[a,7]", "mul(%0, %1): f32[a,7]", {false, true}},
        {"f32[a,7] f32[a,7]", "mul(%0, %1): f32[a,7]", {true, true}},
        {"f32[a,7] f32[a,7]", "div(%0, %1): f32[a,7]", {false, false}},
    };
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        const struct rule_case c = {.types = products[i].types, .node = products[i].node};
        struct run r = {.job = job, .c = &c};
        make_graph(&r);
        for (uint32_t k = 0; k < 2; k++) {
            const struct ig_layout sums = ig_layout_partial(IG_REDUCE_SUM), most = ig_layout_partial(IG_REDUCE_MAX);
            struct ig_layout in[2], out;
            struct ig_division d = {in, &out};
            const struct ig_node *n = &r.g->nodes.at[r.node];
            assert_false(ig_shard_divide(r.g, n, (struct ig_slot_of){.index = k}, &most, &d));
            assert_false(ig_shard_divide(r.g, n, (struct ig_slot_of){.is_result = true}, &sums, &d));
            assert_int_equal(ig_shard_divide(r.g, n, (struct ig_slot_of){.index = k}, &sums, &d), products[i].can[k]);
            if (!products[i].can[k]) continue;
            assert_int_equal(in[k].kind, IG_LAYOUT_PARTIAL);
            assert_int_equal(in[1 - k].kind, IG_LAYOUT_WHOLE);
            assert_int_equal(out.kind, IG_LAYOUT_PARTIAL);
        }
    }
}

static void test_scaled_terms(void **state) {
    struct ig_job job;
    struct ingot_error error;
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, check_scaled, NULL, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

static void try_slot(struct run *r, struct ig_slot_of slot, ig_value v) {
    static const int64_t sizes[][2] = {{1, 1}, {1, 2}, {2, 1}, {1, 3}, {3, 1}, {3, 2}, {1, 4}};
    if (v == IG_NO_VALUE) return;
    const struct ig_type type = *ig_type_of(r->g, v);
    for (int axis = 0; axis < type.rank; axis++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            try_way(r, slot, &type, axis, sizes[i][0], sizes[i][1]);
    }
}

static void check_case(struct ig_job *job, void *argument) {
    struct run *r = argument;
    r->job = job;
    make_graph(r);
    make_inputs(r);
    ig_eval_graph(job, r->g, r->inputs, r->expected);
    const struct ig_node n = r->g->nodes.at[r->node];
    r->ops[n.op] = true;
    for (uint32_t i = 0; i < n.n_in; i++)
        try_slot(r, (struct ig_slot_of){.index = i}, n.in[i]);
    for (uint32_t i = 0; i < n.n_out; i++)
        try_slot(r, (struct ig_slot_of){.is_result = true, .index = i}, n.out + i);
    for (uint32_t i = 0; i < r->g->outputs.count; i++)
        ig_eval_release(job, &r->expected[i]);
    if (r->n_seen == r->c->ways) return;
    r->wrong = true;
    print_error("%s: %d ways, expected %d\n", r->c->node, r->n_seen, r->c->ways);
    for (int i = 0; i < r->n_seen; i++)
        print_error("  %s\n", r->seen[i]);
}

static void test_rules(void **state) {
    enum { ROUNDS = 6 };
    bool ops[IG_OP_COUNT] = {false}, wrong = false;
    for (int i = 0; i < CASES * ROUNDS; i++) {
        struct run r = {.c = &cases[i % CASES], .state = (uint64_t)i + 1};
        struct ig_job job;
        struct ingot_error error;
        ig_job_init(&job, &ig_libc_allocator);
        if (ig_job_run(&job, check_case, &r, &error)) fail_msg("%s: %s", r.c->node, error.message);
        ig_job_deinit(&job);
        wrong |= r.wrong;
        for (int op = 0; op < IG_OP_COUNT; op++)
            ops[op] |= r.ops[op];
    }
    assert_false(wrong);
    for (size_t i = 0; i < sizeof whole_ops / sizeof *whole_ops; i++) {
        assert_false(ops[whole_ops[i]]);
        ops[whole_ops[i]] = true;
    }
    for (int op = 0; op < IG_OP_COUNT; op++) {
        if (!ops[op] && !ig_op_info(op)->is_map) fail_msg("%s is divided by no case", ig_op_info(op)->name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules), cmocka_unit_test(test_scaled_terms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
