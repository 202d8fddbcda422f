/* Denormal numbers on CPUs: products take them for zeros, elementwise kernels keep them, and a run leaves its thread's arithmetic as it was. */
#include "support/support.h"

#include "support/model/by_code.h"

enum { ROWS = 16, DEPTH = 32, COLUMNS = 48 };
#define DENORMAL 1e-40f

static float w[DEPTH * COLUMNS], x[ROWS * DEPTH];

static struct ingot_model *model(void) {
    struct ingot_network *network = network_create();
    ingot_value in = network_input(network, "x", INGOT_F32, 2, (const char *const[]){"16", "32"});
    ingot_value product =
        network_add(network, "MatMul", INPUTS(in, network_weight(network, "w", DEPTH, COLUMNS, w)), NULL, 0);
    ingot_value twice = network_add(network, "mul", INPUTS(in, network_scalar(network, 2)), NULL, 0);
    MUST(ingot_network_output(network, "product", product, &by_code_error));
    MUST(ingot_network_output(network, "twice", twice, &by_code_error));
    return network_finish(network);
}

static const float *output(struct ingot_context *context, size_t which) {
    struct ingot_tensor y;
    MUST(ingot_context_output(context, which, &y, &by_code_error));
    return y.data;
}

/* One number of each row is ordinary. */
static void fill(void) {
    for (int i = 0; i < ROWS * DEPTH; i++)
        x[i] = i % DEPTH == 5 ? 3.0f : DENORMAL;
    for (int i = 0; i < DEPTH * COLUMNS; i++)
        w[i] = i / COLUMNS == 5 ? 0.5f : 1e38f;
}

static void test_denormals(void **state) {
    fill();
    struct ingot_model *built = model();
    struct ingot_tensor in = {INGOT_F32, 2, {ROWS, DEPTH}, x, INGOT_HOST};
    struct ingot_engine *engine;
    struct ingot_context *context;
    void *data;
    size_t size;
    MUST(ingot_model_build_memory(built, NULL, &data, &size, &by_code_error));
    MUST(ingot_engine_load_memory(data, size, NULL, &engine, &by_code_error));
    MUST(ingot_context_create(engine, NULL, &context, &by_code_error));
    MUST(ingot_context_set_input(context, 0, &in, &by_code_error));
    MUST(ingot_context_run(context, &by_code_error));
    for (int i = 0; i < ROWS * COLUMNS; i++)
        assert_true(output(context, 0)[i] == 1.5f); /* the others would add 0.31 */
    for (int i = 0; i < ROWS * DEPTH; i++)
        assert_true(output(context, 1)[i] == 2 * x[i]);
    volatile float tiny = DENORMAL;
    assert_true(tiny * 0.5f > 0);
    ingot_context_destroy(context);
    ingot_engine_release(engine);
    ingot_blob_release(built, data, size);
    ingot_model_destroy(built);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_denormals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
