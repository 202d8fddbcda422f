/* Makes a network by code, compiles it in memory, and runs it: the layers of a perceptron, with weights of the caller's. */
#include <stdio.h>

#include "ingot/ingot.h"

enum { FEATURES = 4, HIDDEN = 3 };
static float w1[FEATURES][HIDDEN] = {{1, 0, -1}, {0, 2, 1}, {-1, 1, 0}, {0.5f, 0, 1}}, b1[HIDDEN] = {0, 1, -1};
static float w2[HIDDEN][1] = {{1}, {-1}, {2}};

static int fail(const struct ingot_error *error) {
    fprintf(stderr, "%s: %s\n", ingot_status_name(error->status), error->message);
    return 1;
}

int main(void) {
    struct ingot_error error;
    struct ingot_network *network;
    ingot_value x, y, w, b;
    if (ingot_network_create(NULL, &network, &error)) return fail(&error);
    if (ingot_network_input(network, "x", INGOT_F32, 2, (const char *const[]){"batch", "4"}, &x, &error))
        return fail(&error);

    /* An operator of ONNX's, which knows the bias ... */
    struct ingot_tensor weights = {INGOT_F32, 2, {FEATURES, HIDDEN}, w1, INGOT_HOST};
    struct ingot_tensor bias = {INGOT_F32, 1, {HIDDEN}, b1, INGOT_HOST};
    if (ingot_network_weight(network, "hidden.weight", &weights, false, &w, &error)) return fail(&error);
    if (ingot_network_weight(network, "hidden.bias", &bias, false, &b, &error)) return fail(&error);
    struct ingot_operator hidden = {
        .name = "Gemm", .inputs = (ingot_value[]){x, w, b}, .n_inputs = 3, .label = "hidden", .source = INGOT_HERE};
    if (ingot_network_add(network, &hidden, &y, 1, &error)) return fail(&error);
    struct ingot_operator relu = {.name = "Relu", .inputs = &y, .n_inputs = 1, .source = INGOT_HERE};
    if (ingot_network_add(network, &relu, &y, 1, &error)) return fail(&error);

    /* ... and core operators. */
    struct ingot_tensor last = {INGOT_F32, 2, {HIDDEN, 1}, w2, INGOT_HOST};
    if (ingot_network_weight(network, "last.weight", &last, false, &w, &error)) return fail(&error);
    struct ingot_operator product = {
        .name = "matmul", .inputs = (ingot_value[]){y, w}, .n_inputs = 2, .label = "last", .source = INGOT_HERE};
    if (ingot_network_add(network, &product, &y, 1, &error)) return fail(&error);
    struct ingot_attribute dims = {"dims", INGOT_ATTRIBUTE_DIMS, 1, {.dims = (const char *const[]){"batch"}}};
    struct ingot_operator flatten = {
        .name = "reshape", .inputs = &y, .n_inputs = 1, .attributes = &dims, .n_attributes = 1, .source = INGOT_HERE};
    if (ingot_network_add(network, &flatten, &y, 1, &error)) return fail(&error);
    if (ingot_network_output(network, "score", y, &error)) return fail(&error);

    struct ingot_model *model;
    void *data;
    size_t size;
    struct ingot_engine *engine;
    struct ingot_context *context;
    if (ingot_network_finish(network, &model, &error)) return fail(&error);
    if (ingot_model_build_memory(model, NULL, &data, &size, &error)) return fail(&error);
    if (ingot_engine_load_memory(data, size, NULL, &engine, &error)) return fail(&error);
    if (ingot_context_create(engine, NULL, &context, &error)) return fail(&error);

    float rows[2][FEATURES] = {{1, 2, 3, 4}, {4, 3, 2, 1}};
    struct ingot_tensor input = {INGOT_F32, 2, {2, FEATURES}, rows, INGOT_HOST}, score;
    if (ingot_context_set_input(context, 0, &input, &error)) return fail(&error);
    if (ingot_context_run(context, &error)) return fail(&error);
    if (ingot_context_output(context, 0, &score, &error)) return fail(&error);
    for (int i = 0; i < 2; i++)
        printf("row %d: %g\n", i, (double)((float *)score.data)[i]);

    ingot_context_destroy(context);
    ingot_engine_release(engine);
    ingot_blob_release(model, data, size);
    ingot_model_destroy(model);
    return 0;
}
