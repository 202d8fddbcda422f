/* Which recipes leave the bytes of their initialiser as they are. */
#include <string.h>

#include "compile/refit/in_place.h"
#include "support/support.h"

static const struct recipe {
    bool leaves;
    const char *text;
} recipes[] = {
    {true, "graph {\n  input %0 \"0\": f32[3,5]\n  output \"weight\" = %0\n}\n"},
    {true,
     "graph {\n  input %0 \"0\": f32[3,5]\n  %1 = reshape(%0) {dims=[15,1]}: f32[15,1]\n  output \"weight\" = %1\n}\n"},
    /* A linear layer's weight as GPUs read it. */
    {true, "graph {\n  input %0 \"0\": f16[6,4]\n  %1 = transpose(%0) {perm=[1,0]}: f16[4,6]\n"
           "  %2 = reshape(%1) {dims=[4,6,1]}: f16[4,6,1]\n  %3 = transpose(%2) {perm=[1,0,2]}: f16[6,4,1]\n"
           "  output \"weight\" = %3\n}\n"},
    /* Axes are divided, and the parts come back to where they were. */
    {true, "graph {\n  input %0 \"0\": f32[6,4]\n  %1 = transpose(%0) {perm=[1,0]}: f32[4,6]\n"
           "  %2 = reshape(%1) {dims=[2,2,3,2]}: f32[2,2,3,2]\n  %3 = transpose(%2) {perm=[2,3,0,1]}: f32[3,2,2,2]\n"
           "  output \"weight\" = %3\n}\n"},
    {false, "graph {\n  input %0 \"0\": f32[6,4]\n  %1 = transpose(%0) {perm=[1,0]}: f32[4,6]\n"
            "  %2 = reshape(%1) {dims=[2,2,3,2]}: f32[2,2,3,2]\n  %3 = transpose(%2) {perm=[3,2,0,1]}: f32[2,3,2,2]\n"
            "  output \"weight\" = %3\n}\n"},
    {false,
     "graph {\n  input %0 \"0\": f32[6,4]\n  %1 = transpose(%0) {perm=[1,0]}: f32[4,6]\n  output \"weight\" = %1\n}\n"},
    /* Square: the shape is the same, the bytes are not. */
    {false,
     "graph {\n  input %0 \"0\": f32[4,4]\n  %1 = transpose(%0) {perm=[1,0]}: f32[4,4]\n  output \"weight\" = %1\n}\n"},
    {true,
     "graph {\n  input %0 \"0\": f32[1,4]\n  %1 = transpose(%0) {perm=[1,0]}: f32[4,1]\n  output \"weight\" = %1\n}\n"},
    /* A reshape that is no view of what is transposed. */
    {false, "graph {\n  input %0 \"0\": f32[6,4]\n  %1 = transpose(%0) {perm=[1,0]}: f32[4,6]\n"
            "  %2 = reshape(%1) {dims=[24]}: f32[24]\n  output \"weight\" = %2\n}\n"},
    {false, "graph {\n  input %0 \"0\": f32[4]\n  %1 = neg(%0): f32[4]\n  output \"weight\" = %1\n}\n"},
    {false,
     "graph {\n  input %0 \"0\": f32[4]\n  %1 = cast(%0) {to=f16, saturate=0}: f16[4]\n  output \"weight\" = %1\n}\n"},
    {false, "graph {\n  input %0 \"0\": f32[4]\n  %1 = concat(%0, %0) {axis=0}: f32[8]\n  output \"weight\" = %1\n}\n"},
    {false, "graph {\n  input %0 \"0\": f32[4]\n  input %1 \"1\": f32[4]\n  output \"weight\" = %1\n}\n"},
    {false, "graph {\n  input %0 \"0\": f32[0]\n  output \"weight\" = %0\n}\n"},
};

static const struct recipe *at;

static void look(struct ig_job *job, void *argument) {
    (void)argument;
    assert_int_equal(ig_in_place_leaves_bytes(job, at->text, strlen(at->text)), at->leaves);
}

static void test_recipes(void **state) {
    (void)state;
    for (at = recipes; at < recipes + sizeof recipes / sizeof *recipes; at++) {
        struct ig_job job;
        struct ingot_error error;
        ig_job_init(&job, &ig_libc_allocator);
        if (ig_job_run(&job, look, NULL, &error) != INGOT_OK) fail_msg("%s\n%s", error.message, at->text);
        ig_job_deinit(&job);
    }
}

/* ---- Weights that may lie apart --------------------------------------------------------------------------------------- */

enum { WEIGHTS = 5 };

static void test_apart(void **state) {
    (void)state;
    static const struct ig_weight_entry weights[WEIGHTS] = {{.offset = 0, .size = 100},
                                                            {.offset = 128, .size = 64},
                                                            {.offset = 192, .size = 64}, /* beside the one before */
                                                            {.offset = 256, .size = 128},
                                                            {.offset = 384, .size = 64}};
    static const struct ig_shape_instr sizes[] = {{.op = IG_SHAPE_CONST, .value = 100},
                                                  {.op = IG_SHAPE_CONST, .value = 128},
                                                  {.op = IG_SHAPE_CONST, .value = 64},
                                                  {.op = IG_SHAPE_ADD}};
    struct ig_plan_buffer buffers[] = {{.kind = IG_PLAN_WEIGHT, .index = 0, .bytes = 1},
                                       {.kind = IG_PLAN_WEIGHT, .index = 2, .bytes = 2},
                                       {.kind = IG_PLAN_ARENA, .index = 4, .bytes = 4},
                                       {.kind = IG_PLAN_WEIGHT, .index = 4, .bytes = 2},
                                       {.kind = IG_PLAN_WEIGHT, .index = 6, .bytes = 3}};
    const struct ig_refit_tables tables = {.n_weights = WEIGHTS, .weights = weights};
    const struct ig_plan plan = {.n_symbols = 1, .n_instrs = 4, .instrs = sizes, .n_buffers = 5, .buffers = buffers};
    bool apart[WEIGHTS];
    ig_refit_find_apart(&tables, &plan, apart);
    assert_memory_equal(apart, ((bool[]){true, false, false, true, true}), sizeof apart);
    buffers[0].bytes = 2; /* reads more than the weight has */
    buffers[3].index = 5; /* begins within it, and ends in the next */
    ig_refit_find_apart(&tables, &plan, apart);
    assert_memory_equal(apart, ((bool[]){false, false, false, false, false}), sizeof apart);
    buffers[0].bytes = 4; /* as many bytes as shapes say: up to the end */
    buffers[3].index = 4;
    ig_refit_find_apart(&tables, &plan, apart);
    assert_memory_equal(apart, ((bool[]){false, false, false, false, false}), sizeof apart);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_recipes), cmocka_unit_test(test_apart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
