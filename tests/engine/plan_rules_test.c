/* The rules of plans (engine/check.h): each is broken once. */
#include <string.h>

#include "base/cpu_time.h"
#include "engine/check.h"
#include "support/plan/small_plan.h"
#include "support/support.h"

static void expect_broken(const struct ig_plan *plan, const char *expected) {
    struct ingot_error error;
    assert_int_equal(ig_plan_check(plan, SMALL_CODE, SMALL_WEIGHTS, &error), INGOT_BAD_ENGINE);
    if (!strstr(error.message, expected)) fail_msg("'%s' does not say '%s'", error.message, expected);
}

static void test_rules(void **state) {
    struct ingot_error error;
    assert_int_equal(ig_plan_check(&small_plan, SMALL_CODE, SMALL_WEIGHTS, &error), INGOT_OK);
    struct ig_plan plan = small_plan;
    plan.n_subplans = 0;
    expect_broken(&plan, "there are 0 plans");
    plan = small_plan;
    plan.strings_size--;
    expect_broken(&plan, "not terminated");

    struct ig_subplan nested[4];
    memcpy(nested, subplans, sizeof nested);
    plan = small_plan;
    plan.subplans = nested;
    nested[1].n_inputs = 2;
    expect_broken(&plan, "its body takes 2");
    nested[1] = subplans[1];
    nested[0].n_steps = 7;
    expect_broken(&plan, "plans overlap");
    nested[0] = subplans[0];
    nested[3].n_checks = 1;
    expect_broken(&plan, "plans overlap");
    nested[3].n_checks = 3;
    expect_broken(&plan, "plan 3 has no checks");

    struct ig_plan_step changed[COUNT(steps)];
    memcpy(changed, steps, sizeof changed);
    plan = small_plan;
    plan.steps = changed;
    changed[2].b = 2;
    expect_broken(&plan, "plan 2 is the body of two steps");
    changed[2].b = 0;
    expect_broken(&plan, "runs plan 0");
    changed[2] = steps[2];
    changed[1].n_carried = UINT32_MAX;
    expect_broken(&plan, "passes 4294967297 values");
    changed[1] = steps[1];
    changed[3].work = COUNT(symbols) + COUNT(instrs); /* a copy's work: its duration is estimated from it */
    expect_broken(&plan, "step 0 has no work");
    changed[3] = steps[3];
    changed[1].n_dims = 1;
    expect_broken(&plan, "steps overlap");
    changed[1] = steps[1];
    changed[0].kernel = 2;
    expect_broken(&plan, "step 0 calls a library with a wrong number of sizes");
    changed[0].kernel = 3;
    expect_broken(&plan, "runs kernel 3 of 3");

    struct ig_plan_buffer moved[COUNT(buffers)];
    memcpy(moved, buffers, sizeof moved);
    plan = small_plan;
    plan.buffers = moved;
    moved[6].index = 6;
    expect_broken(&plan, "alias of what comes after");
    moved[6] = buffers[6];
    moved[4].last = 0;
    expect_broken(&plan, "does not live then");

    struct ig_shape_instr early[COUNT(instrs)];
    memcpy(early, instrs, sizeof early);
    plan = small_plan;
    plan.instrs = early;
    early[1].a = FOUR_BATCH;
    expect_broken(&plan, "uses what comes after it");
}

static void test_demand_rules(void **state) {
    (void)state;
    struct ig_plan plan = small_plan;
    struct ig_plan_step changed[COUNT(steps)];
    memcpy(changed, steps, sizeof changed);
    plan.steps = changed;
    changed[0].demand = 3;
    expect_broken(&plan, "step 0 has demand 3 of 2");
    changed[0] = steps[0];
    changed[1].demand = 1; /* a loop's are those of its body */
    expect_broken(&plan, "step 1 has demand 1");

    struct ig_plan_demand other[COUNT(demands)];
    memcpy(other, demands, sizeof other);
    plan = small_plan;
    plan.demands = other;
    other[1].operations[IG_UNIT_I8] = SQUARE + 1;
    expect_broken(&plan, "demand 1 has no numbers");

    struct ig_shape_instr early[COUNT(demand_instrs)];
    memcpy(early, demand_instrs, sizeof early);
    plan = small_plan;
    plan.demand_instrs = early;
    early[0].a = DEMANDED;
    expect_broken(&plan, "demand instruction 0 uses what comes after it");
    early[0] = demand_instrs[0];
    early[1].op = IG_SHAPE_MAX + 1;
    expect_broken(&plan, "demand instruction 1 has the unknown operation");
    /* The runtime binds shapes without the demand program. */
    struct ig_plan_check beyond[COUNT(checks)];
    memcpy(beyond, checks, sizeof beyond);
    plan = small_plan;
    plan.checks = beyond;
    beyond[0].a = DEMANDED;
    expect_broken(&plan, "check 0 has no numbers");
}

static void test_update_rules(void **state) {
    (void)state;
    struct ig_plan plan = small_plan;
    struct ig_plan_tensor changed[COUNT(tensors)];
    memcpy(changed, tensors, sizeof changed);
    plan.tensors = changed;
    changed[2].updates = 1;
    assert_int_equal(ig_plan_check(&plan, SMALL_CODE, SMALL_WEIGHTS, NULL), INGOT_OK);
    changed[2].updates = 2; /* n, a scalar */
    expect_broken(&plan, "output 0 is not like the input that it updates");
    changed[2].updates = 3;
    expect_broken(&plan, "output 0 updates no input");
    changed[2].updates = 0;
    changed[2].reserved = 1;
    expect_broken(&plan, "output 0 has something in its reserved field");
    changed[2] = tensors[2];
    changed[0].updates = 1;
    expect_broken(&plan, "input 0 updates something");
    changed[0] = tensors[0];
    changed[7].updates = 3; /* a loop's body */
    expect_broken(&plan, "output 1 updates no input");
}

static void test_symbol_rules(void **state) {
    struct ig_plan plan = small_plan;
    struct ig_plan_symbol other[COUNT(symbols)];
    memcpy(other, symbols, sizeof other);
    plan.symbols = other;
    other[0].lo = 1001;
    expect_broken(&plan, "symbol 0 has an empty range");
    other[0] = symbols[0];
    other[0].mixes = sizeof strings;
    expect_broken(&plan, "symbol 0 has no reason to mix rows");
    other[0] = symbols[0];
    other[1].mixes = IG_PLAN_NONE;
    expect_broken(&plan, "symbol 1 counts no rows");
    other[1] = symbols[1];
    other[1].reserved = 1;
    expect_broken(&plan, "symbol 1 has something in its reserved field");
}

static void test_alternative_rules(void **state) {
    struct ig_plan plan = small_plan;
    struct ig_plan_step changed[COUNT(steps)];
    memcpy(changed, steps, sizeof changed);
    plan.steps = changed;
    static const struct {
        uint32_t alternatives, n;
        ig_slot choice;
        const char *expected;
    } wrong[] = {
        {7, 2, ONE, "steps overlap"},
        {8, 1, ONE, "step 0 has no alternatives"},
        {UINT32_MAX, 1, ONE, "step 0 has no alternatives"},
        {0, UINT32_MAX, ONE, "steps overlap"},
        {7, 1, COUNT(symbols) + COUNT(instrs), "step 0 has no choice among its alternatives"},
        {7, 1, NONE, "step 0 has no choice among its alternatives"},
        {1, 1, ONE, "step 0 has an alternative that is no kernel, or has alternatives"},
        {0, 1, ONE, "step 0 has an alternative that is no kernel, or has alternatives"},
    };
    for (uint32_t i = 0; i < COUNT(wrong); i++) {
        changed[0].alternatives = wrong[i].alternatives;
        changed[0].n_alternatives = wrong[i].n;
        changed[0].choice = wrong[i].choice;
        expect_broken(&plan, wrong[i].expected);
    }
    changed[0] = steps[0];
    changed[3].alternatives = 7, changed[3].n_alternatives = 1, changed[3].choice = ONE;
    expect_broken(&plan, "steps overlap");
    changed[0].n_alternatives = 0;
    expect_broken(&plan, "step 0 has alternatives and is no kernel");
    changed[0] = steps[0], changed[3] = steps[3];
    /* The rules of steps hold for an alternative too, in the place of its step. */
    changed[7].kernel = 3;
    expect_broken(&plan, "step 0 runs kernel 3 of 3");
    changed[7] = steps[7], changed[7].tiles = NONE;
    expect_broken(&plan, "step 0 has no number of tiles");
    changed[7] = steps[7], changed[7].operands = 20;
    expect_broken(&plan, "step 0");
    changed[7] = steps[7];
    uint32_t dead[COUNT(operands)];
    memcpy(dead, operands, sizeof dead);
    plan.operands = dead;
    dead[21] = 5; /* lives from step 1 on */
    expect_broken(&plan, "step 0 uses buffer 5, which does not live then");
}

/* Plans whose memory would take too long to plan, although their tables are complete. */
static void test_limits(void **state) {
    enum { MANY = (1 << 17) + 1 };
    struct ig_plan plan = small_plan;
    struct ig_subplan large[COUNT(subplans)];
    memcpy(large, subplans, sizeof large);
    plan.subplans = large;
    plan.n_steps = plan.n_buffers = MANY; /* beyond the arrays, which are not read */
    large[0].n_steps = IG_PLAN_MAX_STEPS + 1;
    expect_broken(&plan, "plan 0 has 65537 steps and 8 buffers, not at most 65536 and 131072");
    large[0] = subplans[0];
    large[3].buffers = 0, large[3].n_buffers = MANY;
    expect_broken(&plan, "plan 3 has 1 steps and 131073 buffers, not at most 65536 and 131072");
}

static void test_library_rules(void **state) {
    struct ig_plan plan = small_plan;
    struct ig_plan_kernel other[COUNT(kernels)];
    memcpy(other, kernels, sizeof other);
    plan.kernels = other;
    other[2].library = 2;
    expect_broken(&plan, "kernel 2 is library call 2 of 1");
    other[2].library = UINT32_MAX;
    expect_broken(&plan, "kernel 2 is library call 4294967295 of 1");
    other[2].library = 1, other[2].entry = 64;
    expect_broken(&plan, "kernel 2 is a library's and has code");
    other[2].entry = 0, other[2].portable = 64;
    expect_broken(&plan, "kernel 2 is a library's and has code");

    plan = small_plan;
    struct ig_library_call wrong = calls[0];
    plan.calls = &wrong;
    wrong.library = IG_LIBRARY_COUNT;
    expect_broken(&plan, "library call 0 has an unknown library");
    wrong = calls[0];
    wrong.out_type = INGOT_BF16;
    expect_broken(&plan, "library call 0 has results of a type");
}

static void test_collective_rules(void **state) {
    enum { THEN = 5 };
    struct ig_plan plan = small_plan;
    struct ig_collective other[COUNT(collectives)];
    struct ig_plan_step changed[COUNT(steps)];
    uint32_t given[COUNT(operands)];
    memcpy(other, collectives, sizeof other);
    memcpy(changed, steps, sizeof changed);
    memcpy(given, operands, sizeof given);
    plan.collectives = other;
    plan.steps = changed;
    plan.operands = given;
    other[1].kind = IG_COLLECTIVE_COUNT;
    expect_broken(&plan, "collective 1 has an unknown kind");
    other[1] = collectives[1];
    other[0].dtype = INGOT_DTYPE_COUNT;
    expect_broken(&plan, "collective 0 has an unknown type");
    other[0] = (struct ig_collective){IG_BROADCAST, INGOT_F32, 0, 2};
    expect_broken(&plan, "step 0 is a collective with a peer that is no rank");
    other[0] = collectives[0];
    changed[THEN].kernel = 2;
    expect_broken(&plan, "step 0 is collective 2 of 2");
    changed[THEN] = steps[THEN];
    changed[THEN].n_dims = 2;
    expect_broken(&plan, "step 0 is a collective with 2 dims");
    changed[THEN] = steps[THEN];
    given[steps[THEN].operands] = NONE;
    expect_broken(&plan, "step 0: operand 0 is buffer 4294967295 of 2");
    /* A receive has no source. */
    other[0].kind = IG_RECEIVE;
    struct ingot_error error;
    assert_int_equal(ig_plan_check(&plan, SMALL_CODE, SMALL_WEIGHTS, &error), INGOT_OK);
    given[steps[THEN].operands + 1] = NONE;
    expect_broken(&plan, "step 0: operand 1 is buffer 4294967295 of 2");
}

static void test_copy_rules(void **state) {
    struct ig_plan plan = small_plan;
    struct ig_plan_buffer changed[COUNT(buffers)];
    struct ig_weight_copy copies[2];
    uint32_t weight = 0;
    struct ingot_error error;
    memcpy(changed, buffers, sizeof changed);
    while (changed[weight].kind != IG_PLAN_WEIGHT)
        weight++;
    const uint64_t bytes = ig_plan_fixed_bytes(&plan, &changed[weight]);
    assert_in_range(bytes, 1, SMALL_WEIGHTS / 2);
    const struct ig_weight_copy good = {SMALL_WEIGHTS, 0, bytes, 0, 1};
    plan.buffers = changed;
    plan.copies = copies;
    plan.n_copies = 2;
#define COPIES(a, b) (copies[0] = (a), copies[1] = (b))
#define COPY(...) ((struct ig_weight_copy){__VA_ARGS__})
    COPIES(good, COPY(SMALL_WEIGHTS + bytes, 1, 3, 8, 4));
    assert_int_equal(ig_plan_check(&plan, SMALL_CODE, SMALL_WEIGHTS, &error), INGOT_OK);
    changed[weight].index = SMALL_WEIGHTS / 64;
    assert_int_equal(ig_plan_check(&plan, SMALL_CODE, SMALL_WEIGHTS, &error), INGOT_OK);
    changed[weight].index++;
    expect_broken(&plan, "lies in no copy of weights");
    changed[weight].index = SMALL_WEIGHTS / 64;
    COPIES(COPY(SMALL_WEIGHTS, 0, 1, 0, 1),
           COPY(SMALL_WEIGHTS + 64, 0, bytes, 0, 1)); /* of one byte, if bytes are more */
    if (bytes > 1) expect_broken(&plan, "lies in no copy of weights");
    changed[weight].index = buffers[weight].index;
    COPIES(COPY(SMALL_WEIGHTS - 64, 0, 1, 0, 1), good);
    expect_broken(&plan, "copy 0 of weights has no place of its own");
    COPIES(good, COPY(SMALL_WEIGHTS, 0, 1, 0, 1));
    expect_broken(&plan, "copy 1 of weights has no place of its own");
    const struct ig_weight_copy wrong[] = {
        {SMALL_WEIGHTS, 0, 0, 0, 1},
        {SMALL_WEIGHTS, 0, 1, 0, 0},
        {SMALL_WEIGHTS, SMALL_WEIGHTS, 1, 0, 1},
        {SMALL_WEIGHTS, 1, SMALL_WEIGHTS, 0, 1},
        {SMALL_WEIGHTS, 0, 1, SMALL_WEIGHTS, 2},
        {SMALL_WEIGHTS, 0, UINT64_MAX, 0, 2},
        {SMALL_WEIGHTS, 0, 1, UINT64_MAX, 3},
        {SMALL_WEIGHTS, UINT64_MAX, 2, 1, 1},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        COPIES(wrong[i], good);
        expect_broken(&plan, "copy 0 is of what lies beyond the weights");
    }
}

/* The small plan with a kernel beside the collective of its third plan, which has a seat behind its input and its output. */
struct exchanging {
    struct ig_plan plan;
    struct ig_plan_buffer buffers[COUNT(buffers) + 3];
    struct ig_subplan subplans[COUNT(subplans)];
    struct ig_plan_step steps[COUNT(steps) + 5];
    uint32_t operands[COUNT(operands) + 9];
    ig_slot dims[COUNT(dim_table) + 2];
};
enum { TOGETHER = 5, OTHER = COUNT(steps), PAIR = OTHER + 3, SEAT = COUNT(buffers) + 2, GIVEN = COUNT(operands) };

static void make_exchanging(struct exchanging *e) {
    memcpy(e->buffers, buffers, sizeof buffers);
    memcpy(e->buffers + COUNT(buffers), buffers + subplans[2].buffers, 2 * sizeof *buffers);
    e->buffers[SEAT] = (struct ig_plan_buffer){IG_PLAN_SEAT, 0, SIXTY_FOUR, NONE, 0, 0};
    memcpy(e->subplans, subplans, sizeof subplans);
    e->subplans[2].buffers = COUNT(buffers), e->subplans[2].n_buffers = 3;
    memcpy(e->operands, operands, sizeof operands);
    for (uint32_t i = 0; i < 9; i++)
        e->operands[GIVEN + i] = i % 3;
    memcpy(e->dims, dim_table, sizeof dim_table);
    e->dims[COUNT(dim_table)] = e->dims[COUNT(dim_table) + 1] = ONE;
    memcpy(e->steps, steps, sizeof steps);
    e->steps[TOGETHER].alternatives = OTHER, e->steps[TOGETHER].n_alternatives = 1;
    for (int i = 0; i < 3; i++) {
        e->steps[OTHER + i] = steps[0];
        e->steps[OTHER + i].kernel = 0;
        e->steps[OTHER + i].operands = GIVEN, e->steps[OTHER + i].n_operands = 3;
        e->steps[OTHER + i].n_alternatives = e->steps[OTHER + i].n_dims = 0;
    }
    e->plan = small_plan;
    e->plan.buffers = e->buffers, e->plan.n_buffers += 3;
    e->plan.subplans = e->subplans;
    e->plan.operands = e->operands, e->plan.n_operands += 9;
    e->plan.dims = e->dims, e->plan.n_dims += 2;
    e->plan.steps = e->steps, e->plan.n_steps += 1;
}

static void test_exchange_rules(void **state) {
    struct exchanging e;
    struct ingot_error error;
    make_exchanging(&e);
    if (ig_plan_check(&e.plan, SMALL_CODE, SMALL_WEIGHTS, &error)) fail_msg("%s", error.message);
    e.buffers[SEAT].index = 1;
    expect_broken(&e.plan, "buffer 2 is seat 1 of a rank");
    make_exchanging(&e);
    e.buffers[SEAT].bytes = NONE;
    expect_broken(&e.plan, "buffer 2 has no size");
    make_exchanging(&e);
    e.buffers[SEAT] = (struct ig_plan_buffer){IG_PLAN_WEIGHT, 1, SIXTY_FOUR, NONE, 0, 0};
    expect_broken(&e.plan, "step 0 is a collective, and its kernel has no seat");
    make_exchanging(&e);
    e.operands[GIVEN + 2] = 3;
    expect_broken(&e.plan, "step 0: operand 2 is buffer 3 of 3");
    make_exchanging(&e);
    e.steps[OTHER].n_operands = 2;
    expect_broken(&e.plan, "step 0 is a collective, and its kernel has other operands");
    make_exchanging(&e);
    e.operands[GIVEN] = 1, e.operands[GIVEN + 1] = 0;
    expect_broken(&e.plan, "step 0 is a collective, and its kernel has other operands");
    make_exchanging(&e);
    e.plan.n_steps += 2;
    e.steps[TOGETHER].n_alternatives = 3;
    expect_broken(&e.plan, "step 0 has alternatives and is no kernel");
    make_exchanging(&e);
    e.steps[OTHER] = steps[6];
    expect_broken(&e.plan, "step 0 has an alternative that is no kernel, or has alternatives");
    make_exchanging(&e);
    e.steps[OTHER].kernel = COUNT(kernels);
    expect_broken(&e.plan, "step 0 runs kernel 3 of 3");
    /* Of another plan. */
    make_exchanging(&e);
    e.steps[TOGETHER].alternatives = COUNT(steps) - 1;
    expect_broken(&e.plan, "step 0: operand 1 is buffer 3 of 3");
}

/* The third plan is a collective and a kernel behind it, which another does together. */
static void make_pair(struct exchanging *e) {
    make_exchanging(e);
    e->steps[PAIR] = e->steps[TOGETHER];
    e->steps[PAIR].n_alternatives = 2;
    e->steps[TOGETHER] = e->steps[OTHER + 2] = (struct ig_plan_step){0}; /* no plan's */
    e->steps[PAIR + 1] = e->steps[OTHER];
    e->steps[PAIR + 1].n_operands = 2;
    e->steps[OTHER + 1].dims = COUNT(dim_table), e->steps[OTHER + 1].n_dims = 2;
    e->subplans[2].steps = PAIR, e->subplans[2].n_steps = 2;
    e->plan.n_steps += 4;
}

static void test_exchange_of_two_steps(void **state) {
    static const char wrong[] = "step 0 is a collective, and the kernel of it and the next step cannot be one";
    struct exchanging e;
    struct ingot_error error;
    make_pair(&e);
    if (ig_plan_check(&e.plan, SMALL_CODE, SMALL_WEIGHTS, &error)) fail_msg("%s", error.message);
    e.steps[OTHER + 1].n_operands = 1;
    expect_broken(&e.plan, "step 0 is a collective, and its kernel has no seat");
    make_pair(&e);
    e.steps[OTHER + 1].n_dims = 1;
    expect_broken(&e.plan, wrong);
    make_pair(&e);
    e.steps[PAIR + 1] = steps[6];
    e.steps[PAIR + 1].operands = GIVEN;
    expect_broken(&e.plan, wrong);
    make_pair(&e);
    e.subplans[2].n_steps = 1;
    expect_broken(&e.plan, wrong);
    make_pair(&e);
    e.steps[OTHER + 1].tiles = NONE;
    expect_broken(&e.plan, "step 0 has no number of tiles");
    make_pair(&e);
    e.steps[OTHER].n_operands = 2;
    expect_broken(&e.plan, "step 0 is a collective, and its kernel has other operands");
}

/* The small plan for two ranks: the second has no steps. */
struct ranked {
    struct ig_plan plan;
    struct ig_plan_tensor tensors[COUNT(tensors) + 3];
    struct ig_plan_buffer buffers[COUNT(buffers) + 3];
    struct ig_subplan subplans[COUNT(subplans) + 1];
    struct ig_plan_rank ranks[2];
};
enum { SECOND = COUNT(subplans) };

static void make_ranked(struct ranked *r) {
    memcpy(r->tensors, tensors, sizeof tensors);
    memcpy(r->tensors + COUNT(tensors), tensors, 3 * sizeof *tensors);
    memcpy(r->buffers, buffers, sizeof buffers);
    memcpy(r->buffers + COUNT(buffers), buffers, 3 * sizeof *buffers);
    memcpy(r->subplans, subplans, sizeof subplans);
    r->subplans[SECOND] =
        (struct ig_subplan){COUNT(tensors), 2, COUNT(tensors) + 2, 1, COUNT(buffers), 3, COUNT(steps), 0, 0, 0};
    r->ranks[0] = (struct ig_plan_rank){2, 0, 0, 0};
    r->ranks[1] = (struct ig_plan_rank){2, 1, SECOND, 0};
    r->plan = small_plan;
    r->plan.tensors = r->tensors, r->plan.n_tensors += 3;
    r->plan.buffers = r->buffers, r->plan.n_buffers += 3;
    r->plan.subplans = r->subplans, r->plan.n_subplans++;
    r->plan.ranks = r->ranks, r->plan.n_ranks = 2;
    /* What the body computes together in the small plan, which no body of a rank may, is a copy. */
    static struct ig_plan_step changed[COUNT(steps)];
    memcpy(changed, steps, sizeof changed);
    changed[5] = steps[6];
    changed[5].operands = steps[5].operands;
    r->plan.steps = changed;
}

static void test_rank_rules(void **state) {
    struct ranked r;
    struct ingot_error error;
    uint32_t degrees[2] = {0};
    make_ranked(&r);
    if (ig_plan_check(&r.plan, SMALL_CODE, SMALL_WEIGHTS, &error)) fail_msg("%s", error.message);
    assert_int_equal(ig_plan_rank_subplan(&r.plan, 2, 0), 0);
    assert_int_equal(ig_plan_rank_subplan(&r.plan, 2, 1), SECOND);
    assert_int_equal(ig_plan_rank_subplan(&r.plan, 1, 0), IG_PLAN_NONE);
    assert_int_equal(ig_plan_degrees(&r.plan, degrees, 2), 1);
    assert_int_equal(degrees[0], 2);
    assert_int_equal(ig_plan_rank_subplan(&small_plan, 1, 0), 0);
    assert_int_equal(ig_plan_rank_subplan(&small_plan, 2, 0), IG_PLAN_NONE);
    assert_int_equal(ig_plan_degrees(&small_plan, degrees, 2), 1);
    assert_int_equal(degrees[0], 1);
    r.plan.steps = steps;
    expect_broken(&r.plan, "step 0 is a collective of 2 ranks in a plan for 0");
    make_ranked(&r);
    r.plan.n_ranks = 1;
    expect_broken(&r.plan, "not all of 2 ranks have a plan");
    make_ranked(&r);
    r.plan.n_ranks = 0;
    expect_broken(&r.plan, "plan 4 is nobody's body");
    make_ranked(&r);
    r.ranks[1].rank = 0;
    expect_broken(&r.plan, "rank 0 of 2 is out of order");
    make_ranked(&r);
    r.ranks[0].ranks = r.ranks[1].ranks = IG_MOST_RANKS + 1;
    expect_broken(&r.plan, "rank 0 of 65 cannot be");
    make_ranked(&r);
    r.ranks[1].reserved = 1;
    expect_broken(&r.plan, "rank 1 of 2 cannot be");
    make_ranked(&r);
    r.ranks[1].subplan = 0;
    expect_broken(&r.plan, "rank 1 of 2 has no plan of its own");
    r.ranks[1].subplan = 9;
    expect_broken(&r.plan, "rank 1 of 2 has no plan of its own");
    r.ranks[1].subplan = 2;
    expect_broken(&r.plan, "which is a rank's");
    make_ranked(&r);
    r.subplans[SECOND].n_inputs = 1;
    expect_broken(&r.plan, "plan 4 of a rank has other inputs or outputs");
    make_ranked(&r);
    r.tensors[COUNT(tensors)].dtype = INGOT_F16;
    expect_broken(&r.plan, "plan 4 of a rank has another tensor 0");
}

static void test_map_rules(void **state) {
    struct ig_plan plan = small_plan;
    struct ig_plan_kernel other[COUNT(kernels)];
    memcpy(other, kernels, sizeof other);
    plan.kernels = other;
    static const struct {
        struct ig_tensor_map map;
        const char *expected;
    } wrong[] = {
        {{4, 1, 0, 1, 64, 128, .element = 2}, "step 0 has a tensor map with an operand that is not there"},
        {{UINT32_MAX, 1, 0, 1, 64, 128, .element = 2}, "an operand that is not there"},
        {{1, 2, 0, 1, 64, 128, .element = 2}, "a dim that is not there"},
        {{1, 1, UINT32_MAX, 1, 64, 128, .element = 2}, "a dim that is not there"},
        {{1, 1, 0, 2, 64, 128, .element = 2}, "a dim that is not there"},
        {{1, 1, 0, 1, 64, 128, .element = 0}, "elements of another size"},
        {{1, 1, 0, 1, 0, 128, .element = 2}, "a box of a width"},
        {{1, 1, 0, 1, 0x80000020, 128, .element = 2}, "a box of a width"},
        {{1, 1, 0, 1, 64, 0, .element = 2}, "a box of a height"},
        {{1, 1, 0, 1, 64, 257, .element = 2}, "a box of a height"},
        {{1, 1, 0, 1, 64, 128, 2, .dealt = 2}, "lines that cannot be dealt out"},
        {{1, 1, 0, 1, 64, 48, 2, .dealt = 1}, "lines that cannot be dealt out"},
        {{1, 1, 0, 1, 64, 128, 2, .dealt = 1, .axes = 2, .steps = {1, 1}}, "lines that cannot be dealt out"},
        {{1, 1, 0, 1, 64, 128, 2, .axes = 1}, "windows of an unknown kind"},
        {{1, 1, 0, 1, 64, 128, 2, .axes = 4}, "windows of an unknown kind"},
        {{1, 1, 0, 1, 64, 128, 2, .axes = 2, .sizes = {0, 2}, .steps = {1, 1}}, "a dim that is not there"},
        {{1, 1, 0, 1, 64, 128, 2, .axes = 2, .lower = {0, -129}, .steps = {1, 1}}, "windows too far outside"},
        {{1, 1, 0, 1, 64, 128, 2, .axes = 3, .upper = {16}, .steps = {1, 1, 1}}, "windows too far outside"},
        {{1, 1, 0, 1, 64, 128, 2, .axes = 2, .steps = {1}}, "windows too far apart"},
        {{1, 1, 0, 1, 64, 128, 2, .axes = 2, .steps = {9, 1}}, "windows too far apart"},
        {{1, 1, 0, 1, 64, 100, 2, .patch = {10, 10}}, "a patch of something else than a picture"},
        {{1, 1, 0, 1, 64, 100, 2, .axes = 3, .steps = {1, 1, 1}, .patch = {10, 10}}, "a patch of something else"},
        {{1, 1, 0, 1, 64, 257, 2, .axes = 2, .steps = {1, 1}, .patch = {257, 1}}, "a patch that cannot be brought"},
        {{1, 1, 0, 1, 64, 129, 2, .axes = 2, .steps = {1, 2}, .patch = {1, 129}}, "a patch that cannot be brought"},
        {{1, 1, 0, 1, 64, 10, 2, .axes = 2, .steps = {1, 1}, .patch = {10}}, "a patch that cannot be brought"},
        {{1, 1, 0, 1, 64, 10, 2, .axes = 2, .lower = {-1}, .steps = {1, 1}, .patch = {10, 1}}, "a patch with windows"},
        {{1, 1, 0, 1, 64, 99, 2, .axes = 2, .steps = {1, 1}, .patch = {10, 10}}, "a patch of another number of pixels"},
        {{1, 1, 0, 1, 8, 100, 2, .axes = 2, .steps = {1, 1}}, "a box of a width"},
        {{1, 1, 0, 1, 8, 100, 2, .axes = 2, .steps = {2, 1}, .patch = {10, 10}}, "a patch that cannot be brought"},
        {{1, 1, 0, 1, 8, 33, 2, .axes = 2, .steps = {1, 1}, .patch = {33, 1}}, "a patch that cannot be brought"},
        {{1, 1, 0, 1, 64, 128, 2, .matrices = 2}, "matrices of an unknown kind"},
        {{1, 1, 0, 1, 64, 128, 2, .matrices = 1, .dealt = 1}, "matrices of an unknown kind"},
        {{1, 1, 0, 1, 64, 128, 2, .matrices = 1, .begin = 2}, "a dim that is not there"},
        {{1, 1, 0, 1, 64, 128, 2, .matrices = 1, .counts = {0, 2}}, "a dim that is not there"},
        {{1, 1, 0, 1, 64, 128, 2, .matrices = 1, .apart = {UINT32_MAX}}, "a dim that is not there"},
    };
    for (uint32_t i = 0; i < COUNT(wrong); i++) {
        other[1].maps[0] = wrong[i].map;
        expect_broken(&plan, wrong[i].expected);
    }
    other[1] = kernels[1];
    other[1].n_maps = 0;
    expect_broken(&plan, "kernel 1 has something in tensor map 0");
    other[1].n_maps = IG_MOST_TENSOR_MAPS + 1;
    expect_broken(&plan, "kernel 1 has 3 tensor maps");
    other[1] = kernels[1], other[1].lasting = IG_MOST_LASTING + 1;
    expect_broken(&plan, "kernel 1 wants 9 blocks of a multiprocessor");
    other[1] = kernels[1], other[1].whole = 2;
    expect_broken(&plan, "kernel 1 says neither that parts of it are whole");
    other[1] = kernels[1], other[1].kind = IG_CPU_KINDS;
    expect_broken(&plan, "kernel 1 is of unknown kind 11");
    other[1] = kernels[1], other[2].n_maps = 1;
    expect_broken(&plan, "kernel 2 has 1 tensor maps");
}

/* Lines that are dealt out come in 32s. */
static void test_dealt_sizes(void **state) {
    const struct ig_tensor_map map = {0, 0, 1, 2, 64, 64, .element = 2, .dealt = 1};
    assert_null(ig_tensor_map_sizes_error(&map, (const int64_t[]){24, 64, 32}, (63 * 32 + 24) * 2));
    assert_non_null(ig_tensor_map_sizes_error(&map, (const int64_t[]){24, 64, 32}, (63 * 32 + 24) * 2 - 1));
    assert_non_null(ig_tensor_map_sizes_error(&map, (const int64_t[]){24, 48, 32}, 64 * 64));
}

/* The sizes that a tensor map is used with: 5 rows of 24 elements, 32 apart, in 304 bytes. */
static void test_map_sizes(void **state) {
    const struct ig_tensor_map map = {0, 0, 1, 2, 64, 8, .element = 2};
    const int64_t right[] = {24, 5, 32};
    assert_null(ig_tensor_map_sizes_error(&map, right, (4 * 32 + 24) * 2));
    assert_non_null(ig_tensor_map_sizes_error(&map, right, (4 * 32 + 24) * 2 - 1));
    static const int64_t wrong[][3] = {{0, 5, 32},
                                       {24, 0, 32},
                                       {-1, 5, 32},
                                       {24, -5, 32},
                                       {24, 5, 23},
                                       {24, 5, 28},
                                       {24, 5, INT64_MAX},
                                       {INT64_MAX, 5, 32},
                                       {24, INT64_MAX, 32},
                                       {24, INT32_MAX, 32},
                                       {24, 5, (int64_t)1 << 31}};
    for (uint32_t i = 0; i < COUNT(wrong); i++)
        assert_non_null(ig_tensor_map_sizes_error(&map, wrong[i], 1000));
}

/* Matrices like these, the first of them 16 elements into the buffer: 3 of them 160 apart, twice, 512 apart. */
static void test_matrices_sizes(void **state) {
    const struct ig_tensor_map map = {
        0, 0, 1, 2, 64, 8, .element = 2, .matrices = 1, .begin = 3, .counts = {4, 5}, .apart = {6, 7}};
    enum { DIMS = 8 };
    const int64_t right[DIMS] = {24, 5, 32, 16, 3, 2, 160, 512};
    const size_t bytes = (16 + 512 + 2 * 160 + 4 * 32 + 24) * 2;
    assert_null(ig_tensor_map_sizes_error(&map, right, bytes));
    assert_non_null(ig_tensor_map_sizes_error(&map, right, bytes - 1));
    static const struct {
        int dim;
        int64_t size;
    } wrong[] = {{3, -8},       {3, 4}, {3, INT64_MAX}, {4, 0},  {4, -1},        {4, (int64_t)1 << 31},
                 {5, 0},        {6, 0}, {6, -160},      {6, 84}, {7, INT64_MAX}, {7, (int64_t)1 << 39},
                 {4, INT32_MAX}};
    for (uint32_t i = 0; i < COUNT(wrong); i++) {
        int64_t dims[DIMS];
        memcpy(dims, right, sizeof dims);
        dims[wrong[i].dim] = wrong[i].size;
        assert_non_null(ig_tensor_map_sizes_error(&map, dims, 4 * bytes));
    }
}

/* Windows over two images of 3 x 4 pixels, 32 elements apart, of which 24 are channels. */
static void test_window_sizes(void **state) {
    const struct ig_tensor_map map = {.width = 0,
                                      .lines = 1,
                                      .pitch = 2,
                                      .box_width = 64,
                                      .box_lines = 8,
                                      .element = 2,
                                      .axes = 2,
                                      .sizes = {3, 4},
                                      .lower = {-1, 0},
                                      .upper = {-1, -2},
                                      .steps = {1, 2}};
    const size_t bytes = (23 * 32 + 24) * 2;
    assert_null(ig_tensor_map_sizes_error(&map, (const int64_t[]){24, 2, 32, 4, 3}, bytes));
    assert_non_null(ig_tensor_map_sizes_error(&map, (const int64_t[]){24, 2, 32, 4, 3}, bytes - 1));
    static const int64_t wrong[][5] = {{24, 2, 32, 0, 3},         {24, 2, 32, 4, 2}, {24, 2, 32, -4, -3},
                                       {24, 2, 32, INT64_MAX, 3}, {24, 0, 32, 4, 3}, {24, 2, 32, INT32_MAX, INT32_MAX}};
    for (uint32_t i = 0; i < COUNT(wrong); i++)
        assert_non_null(ig_tensor_map_sizes_error(&map, wrong[i], bytes));
}

/* Patches of three images of 3 x 4 pixels of 8 channels, which follow each other: lines are pieces. */
static void test_line_sizes(void **state) {
    const struct ig_tensor_map map = {
        0, 0, 1, 2, 8, 9, 2, .axes = 2, .sizes = {3, 4}, .steps = {1, 1}, .patch = {3, 3}};
    const size_t bytes = 36 * 8 * 2;
    assert_null(ig_tensor_map_error(&map, 1, 5));
    assert_null(ig_tensor_map_sizes_error(&map, (const int64_t[]){8, 3, 8, 4, 3}, bytes));
    assert_non_null(ig_tensor_map_sizes_error(&map, (const int64_t[]){8, 3, 8, 4, 3}, bytes - 1));
    static const int64_t wrong[][5] = {{8, 3, 16, 4, 3}, {16, 3, 16, 4, 3}, {8, 1, 8, INT32_MAX / 8 + 1, 1}};
    for (uint32_t i = 0; i < COUNT(wrong); i++)
        assert_non_null(ig_tensor_map_sizes_error(&map, wrong[i], SIZE_MAX));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_line_sizes),
        cmocka_unit_test(test_demand_rules),
        cmocka_unit_test(test_symbol_rules),
        cmocka_unit_test(test_update_rules),
        cmocka_unit_test(test_alternative_rules),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_library_rules),
        cmocka_unit_test(test_collective_rules),
        cmocka_unit_test(test_copy_rules),
        cmocka_unit_test(test_exchange_rules),
        cmocka_unit_test(test_exchange_of_two_steps),
        cmocka_unit_test(test_rank_rules),
        cmocka_unit_test(test_map_rules),
        cmocka_unit_test(test_dealt_sizes),
        cmocka_unit_test(test_map_sizes),
        cmocka_unit_test(test_matrices_sizes),
        cmocka_unit_test(test_window_sizes),
    };
    return cmocka_run_group_tests_name("plan rules", tests, NULL, NULL);
}
