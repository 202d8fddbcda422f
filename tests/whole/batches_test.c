/*
 * One engine with a dynamic batch runs at 1, 2, 7, 32 and 128, and each sample's result is the one it has alone; also
 * where batches are rounded up to sizes that were prepared in the background. First with one kernel for all sizes
 * (--variants 1), when nothing but the batch differs; then with several, which may round otherwise.
 *
 *     batches_test [TARGET MODEL.onnx...]
 *
 * By default it runs the example network, on the CPU and on GPU 0 if there is one. The batch is the first dim of the
 * first input; other symbolic dims are 128.
 */
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/model/network.h"

enum { LARGEST = 128, OTHER_DIMS = 128, MAX_PORTS = 8 };

static const int64_t batches[] = {1, 2, 7, 32, LARGEST, 7, 1};

/* Inputs and expected results of the largest batch; smaller batches are a prefix. */
struct port {
    struct ingot_tensor tensor;
    size_t sample; /* bytes per sample */
    double largest;
};

struct trial {
    struct test_network network;
    struct ingot_engine *engine;
    struct ingot_context *context;
    struct port inputs[MAX_PORTS], wanted[MAX_PORTS];
    size_t n_inputs, n_outputs;
};

static const char **models;
static int n_models;
static const char *target;

static void must(enum ingot_status status, const struct ingot_error *error) {
    if (status) fail_msg("%s", error->message);
}

/* ---- Set-up --------------------------------------------------------------------------------------------------------------- */

/* Sizes of all symbols but the batch. */
static size_t choose_shapes(struct ingot_model *model, struct ingot_shape_spec *out_shapes, size_t room) {
    static const char size[] = "128";
    struct ingot_tensor_info first, info;
    size_t count = 0;
    ingot_model_input(model, 0, &first);
    assert_true(first.rank > 0 && first.dims[0] == -1);
    for (size_t i = 0; i < ingot_model_input_count(model); i++) {
        ingot_model_input(model, i, &info);
        for (int axis = 0; axis < info.rank; axis++) {
            bool known = info.dims[axis] != -1 || strcmp(info.symbols[axis], first.symbols[0]) == 0;
            for (size_t k = 0; k < count; k++)
                known = known || strcmp(out_shapes[k].name, info.symbols[axis]) == 0;
            if (known) continue;
            assert_true(count < room);
            out_shapes[count++] = (struct ingot_shape_spec){info.symbols[axis], size};
        }
    }
    return count;
}

/* variants 0: the default. */
static void build(struct trial *t, const char *path, const char *on, unsigned variants) {
    struct ingot_error error;
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    struct ingot_shape_spec shapes[MAX_PORTS];
    must(ingot_model_load(path, NULL, &t->network.model, &error), &error);
    options.target = on;
    options.variants = variants;
    options.shapes = shapes;
    options.n_shapes = choose_shapes(t->network.model, shapes, MAX_PORTS);
    must(ingot_model_build_memory(t->network.model, &options, &t->network.data, &t->network.size, &error), &error);
    must(ingot_engine_load_memory(t->network.data, t->network.size, NULL, &t->engine, &error), &error);
    must(ingot_context_create(t->engine, NULL, &t->context, &error), &error);
}

/* Fills floats with numbers in -1 … 1, integers with token numbers, or with ones if they are a mask. */
static void fill(const struct ingot_tensor_info *info, struct ingot_tensor *tensor, uint64_t *seed) {
    int64_t count = ingot_tensor_elements(tensor);
    bool mask = strstr(info->name, "mask") != NULL;
    for (int64_t i = 0; i < count; i++) {
        float number = test_random(seed);
        int64_t token = mask ? 1 : (int64_t)(500 + 499 * number);
        switch (tensor->dtype) {
        case INGOT_F32: ((float *)tensor->data)[i] = number; break;
        case INGOT_I64: ((int64_t *)tensor->data)[i] = token; break;
        case INGOT_I32: ((int32_t *)tensor->data)[i] = (int32_t)token; break;
        default: fail_msg("input '%s' has a type that this test knows no values for", info->name);
        }
    }
}

static void make_inputs(struct trial *t) {
    struct ingot_tensor_info info;
    uint64_t seed = 1;
    t->n_inputs = ingot_engine_input_count(t->engine);
    assert_true(t->n_inputs <= MAX_PORTS);
    for (size_t i = 0; i < t->n_inputs; i++) {
        struct port *port = &t->inputs[i];
        ingot_engine_input(t->engine, i, &info);
        port->tensor = (struct ingot_tensor){.dtype = info.dtype, .rank = info.rank, .memory = INGOT_HOST};
        for (int axis = 0; axis < info.rank; axis++)
            port->tensor.dims[axis] = axis == 0 ? LARGEST : info.dims[axis] == -1 ? OTHER_DIMS : info.dims[axis];
        size_t bytes = (size_t)ingot_tensor_elements(&port->tensor) * ingot_dtype_size(info.dtype);
        port->sample = bytes / LARGEST;
        port->tensor.data = malloc(bytes);
        assert_non_null(port->tensor.data);
        fill(&info, &port->tensor, &seed);
    }
}

/* ---- Runs ----------------------------------------------------------------------------------------------------------------- */

static void run(struct trial *t, int64_t first, int64_t batch) {
    struct ingot_error error;
    for (size_t i = 0; i < t->n_inputs; i++) {
        struct ingot_tensor part = t->inputs[i].tensor;
        part.dims[0] = batch;
        part.data = (char *)part.data + (size_t)first * t->inputs[i].sample;
        must(ingot_context_set_input(t->context, i, &part, &error), &error);
    }
    must(ingot_context_run(t->context, &error), &error);
}

static const float *result(struct trial *t, size_t i, int64_t batch, size_t *out_floats) {
    struct ingot_error error;
    struct ingot_tensor y;
    must(ingot_context_output(t->context, i, &y, &error), &error);
    assert_int_equal(y.dtype, INGOT_F32);
    assert_int_equal(y.dims[0], batch);
    *out_floats = (size_t)(ingot_tensor_elements(&y) / batch);
    return y.data;
}

/* Runs each sample alone: the expected results. */
static void run_singles(struct trial *t) {
    t->n_outputs = ingot_engine_output_count(t->engine);
    assert_true(t->n_outputs <= MAX_PORTS);
    for (int64_t sample = 0; sample < LARGEST; sample++) {
        run(t, sample, 1);
        for (size_t i = 0; i < t->n_outputs; i++) {
            struct port *port = &t->wanted[i];
            size_t floats;
            const float *y = result(t, i, 1, &floats);
            port->sample = floats * sizeof *y;
            if (!port->tensor.data) port->tensor.data = calloc(LARGEST, port->sample);
            assert_non_null(port->tensor.data);
            memcpy((char *)port->tensor.data + (size_t)sample * port->sample, y, port->sample);
            for (size_t k = 0; k < floats; k++)
                port->largest = fmax(port->largest, fabs((double)y[k]));
        }
    }
}

/* The tolerance of `ingot verify` for fp32. Returns the largest error, relative to the largest number. */
static double compare(struct trial *t, size_t i, int64_t batch) {
    const struct port *port = &t->wanted[i];
    size_t floats;
    const float *got = result(t, i, batch, &floats), *want = port->tensor.data;
    double worst = 0;
    assert_int_equal(floats * sizeof *got, port->sample);
    for (size_t k = 0; k < floats * (size_t)batch; k++) {
        double error = fabs((double)got[k] - (double)want[k]);
        worst = fmax(worst, error);
        if (!(error <= 1e-3 * fabs((double)want[k]) + 1e-4 * port->largest + 1e-6))
            fail_msg("batch %d, output %zu, sample %zu, element %zu: %g, alone %g", (int)batch, i, k / floats,
                     k % floats, (double)got[k], (double)want[k]);
    }
    return port->largest > 0 ? worst / port->largest : worst;
}

static void run_all(struct trial *t, const char *what, bool prints) {
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
        double worst = 0;
        run(t, 0, batches[b]);
        for (size_t i = 0; i < t->n_outputs; i++)
            worst = fmax(worst, compare(t, i, batches[b]));
        if (prints) printf("%s, batch %d: differs by %.1e at most\n", what, (int)batches[b], worst);
    }
}

/* False if the model mixes its samples. */
static bool round_up(struct trial *t, bool prints) {
    static const int64_t sizes[] = {2, 5, 40, LARGEST};
    struct ingot_error error;
    struct ingot_tensor_info first;
    struct ingot_batch_info info;
    struct ingot_tensor shapes[MAX_PORTS];
    ingot_engine_input(t->engine, 0, &first);
    const struct ingot_batch_options options = {sizeof options, first.symbols[0], sizes, 4};
    enum ingot_status status = ingot_context_set_batch(t->context, &options, &error);
    if (status == INGOT_UNSUPPORTED) return false;
    must(status, &error);
    for (int b = 3; b >= 0; b--) {
        for (size_t i = 0; i < t->n_inputs; i++) {
            shapes[i] = t->inputs[i].tensor;
            shapes[i].dims[0] = sizes[b];
            shapes[i].data = NULL;
        }
        must(ingot_context_prepare(t->context, shapes, t->n_inputs, INGOT_PREPARE_IN_BACKGROUND, &error), &error);
    }
    must(ingot_context_prepare_wait(t->context, &error), &error);
    run_all(t, "rounded up", prints);
    must(ingot_context_batch(t->context, &info, &error), &error);
    assert_int_equal(info.captures, 0);
    return true;
}

static void try_engine(const char *path, const char *on, unsigned variants) {
    struct trial t = {0};
    build(&t, path, on, variants);
    make_inputs(&t);
    run_singles(&t);
    bool prints = n_models && variants == 1;
    if (prints) printf("%s on %s\n", path, on);
    run_all(&t, "exactly", prints);
    assert_true(round_up(&t, prints) || n_models);
    for (size_t i = 0; i < MAX_PORTS; i++) {
        free(t.inputs[i].tensor.data);
        free(t.wanted[i].tensor.data);
    }
    ingot_context_destroy(t.context);
    ingot_engine_release(t.engine);
    test_network_release(&t.network);
}

static void try_model(const char *path, const char *on) {
    try_engine(path, on, 1);
    try_engine(path, on, 0);
}

/* ---- Tests ---------------------------------------------------------------------------------------------------------------- */

static void on_the_cpu(void **state) {
    if (n_models) skip();
    try_model(TEST_DIGITS, "cpu");
}

static void on_a_gpu(void **state) {
    struct ingot_gpu_info gpu;
    struct ingot_error error;
    if (n_models || ingot_gpu_describe(0, &gpu, &error)) skip();
    try_model(TEST_DIGITS, "cuda");
}

static void models_that_are_given(void **state) {
    if (!n_models) skip();
    for (int i = 0; i < n_models; i++)
        try_model(models[i], target);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_the_cpu),
        cmocka_unit_test(on_a_gpu),
        cmocka_unit_test(models_that_are_given),
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 2) {
        target = argv[1];
        models = (const char **)argv + 2;
        n_models = argc - 2;
    }
    return cmocka_run_group_tests_name("batches", tests, NULL, NULL);
}
