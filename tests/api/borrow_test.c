/*
 * Weights that an engine reads where the caller has them (ingot_engine_refit with `borrow`), beside those that it makes of
 * theirs. Run under ThreadSanitizer.
 *
 *     borrow_test [TARGET]     "cuda:sm_80" needs a GPU, or the emulator's driver and compiler
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/model/by_code.h"
#include "support/model/network.h"

enum { WIDTH = 64, OUT = 24, ROWS = 5, WEIGHTS = 3, SHIFT = 0, SCALE = 1, DENSE = 2 };
enum { DENSE_BYTES = WIDTH * OUT * sizeof(float), PLAIN_BYTES = WIDTH * sizeof(float) };

static const char *target = "cpu";

static bool on_gpu(void) {
    return strncmp(target, "cuda", 4) == 0;
}

/* ---- The network: y = ((x + shift) * scale) dense^T ------------------------------------------------------------------- */

struct values {
    float shift[WIDTH], scale[WIDTH], dense[OUT * WIDTH];
};

struct built {
    struct ingot_model *model;
    void *data;
    size_t size;
    struct ingot_engine *engine;
};

static float pixels[ROWS * WIDTH];

static void fill(struct values *values, uint64_t seed) {
    float *all = values->shift;
    for (size_t i = 0; i < sizeof *values / sizeof *all; i++)
        all[i] = test_random(&seed);
}

static struct built build(const struct values *values, bool stripped) {
    struct ingot_network *network = network_create();
    ingot_value x = network_input(network, "x", INGOT_F32, 2, (const char *const[]){"n", "64"});
    ingot_value shift = network_weight(network, "shift", WIDTH, 0, values->shift);
    ingot_value scale = network_weight(network, "scale", WIDTH, 0, values->scale);
    ingot_value dense = network_weight(network, "dense", OUT, WIDTH, values->dense);
    x = network_add(network, "sigmoid", INPUTS(network_add(network, "Add", INPUTS(x, shift), NULL, 0)), NULL, 0);
    x = network_add(network, "sigmoid", INPUTS(network_add(network, "Mul", INPUTS(x, scale), NULL, 0)), NULL, 0);
    dense = network_add(network, "transpose", INPUTS(dense), ATTRIBUTES(INTS("perm", 1, 0)));
    MUST(ingot_network_output(network, "y", network_add(network, "matmul", INPUTS(x, dense), NULL, 0), &by_code_error));
    struct built b = {.model = network_finish(network)};
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    options.target = target;
    options.nvrtc = getenv("INGOT_NVRTC");
    options.strip_weights = stripped;
    MUST(ingot_model_build_memory(b.model, &options, &b.data, &b.size, &by_code_error));
    MUST(ingot_engine_load_memory(b.data, b.size, NULL, &b.engine, &by_code_error));
    return b;
}

static void release(struct built *b) {
    ingot_engine_release(b->engine);
    ingot_blob_release(b->model, b->data, b->size);
    ingot_model_destroy(b->model);
}

static struct ingot_context *make_context(struct ingot_engine *engine) {
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    struct ingot_context *context;
    options.threads = 1;
    MUST(ingot_context_create(engine, &options, &context, &by_code_error));
    return context;
}

static enum ingot_status compute(struct ingot_context *context, int64_t rows, float *y, struct ingot_error *error) {
    struct ingot_tensor x = {INGOT_F32, 2, {rows, WIDTH}, pixels, INGOT_HOST}, out;
    enum ingot_status status = ingot_context_set_input(context, 0, &x, error);
    if (!status) status = ingot_context_run(context, error);
    if (!status) status = ingot_context_output(context, 0, &out, error);
    if (!status) memcpy(y, out.data, (size_t)rows * OUT * sizeof *y);
    return status;
}

/* What an engine gives that was built with these values. */
static void find_expected(const struct values *values, float *y) {
    struct built b = build(values, false);
    struct ingot_context *context = make_context(b.engine);
    MUST(compute(context, ROWS, y, &by_code_error));
    ingot_context_destroy(context);
    release(&b);
}

static void expect(struct ingot_context *context, const struct values *values) {
    float y[ROWS * OUT], expected[ROWS * OUT];
    find_expected(values, expected);
    for (int turn = 0; turn < 2; turn++) {
        MUST(compute(context, ROWS, y, &by_code_error));
        assert_memory_equal(y, expected, sizeof y);
    }
}

/* ---- Memory that kernels read ----------------------------------------------------------------------------------------- */

static struct built copier; /* copies to a GPU's memory, and owns it */
static struct ingot_context *copying;

static void *lend_memory(size_t bytes) {
    void *memory;
    MUST(ingot_context_allocate(copying, on_gpu() ? INGOT_CUDA : INGOT_HOST, bytes, &memory, &by_code_error));
    return memory;
}

static void free_memory(void *memory, size_t bytes) {
    ingot_context_free(copying, on_gpu() ? INGOT_CUDA : INGOT_HOST, memory, bytes);
}

static void write_memory(void *memory, const float *values, int64_t count) {
    if (!on_gpu()) {
        memcpy(memory, values, (size_t)count * sizeof *values);
        return;
    }
    struct ingot_tensor from = {INGOT_F32, 1, {count}, (void *)(uintptr_t)values, INGOT_HOST};
    MUST(ingot_context_set_input(copying, 0, &from, &by_code_error));
    MUST(ingot_context_set_output_in(copying, 0, INGOT_CUDA, memory, (size_t)count * sizeof *values, &by_code_error));
    MUST(ingot_context_run(copying, &by_code_error));
}

static int set_up(void **state) {
    (void)state;
    struct ingot_network *network = network_create();
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    uint64_t seed = 5;
    ingot_value x = network_input(network, "x", INGOT_F32, 1, (const char *const[]){"n"});
    MUST(ingot_network_output(network, "y", x, &by_code_error));
    options.target = target;
    options.nvrtc = getenv("INGOT_NVRTC");
    copier.model = network_finish(network);
    MUST(ingot_model_build_memory(copier.model, &options, &copier.data, &copier.size, &by_code_error));
    MUST(ingot_engine_load_memory(copier.data, copier.size, NULL, &copier.engine, &by_code_error));
    copying = make_context(copier.engine);
    for (int i = 0; i < ROWS * WIDTH; i++)
        pixels[i] = test_random(&seed);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    ingot_context_destroy(copying);
    release(&copier);
    return 0;
}

/* The values in memory that an engine for the target can borrow. */
struct lent {
    void *memory[WEIGHTS];
    struct ingot_named_tensor tensors[WEIGHTS];
};

static void write_lent(struct lent *lent, const struct values *values) {
    write_memory(lent->memory[SHIFT], values->shift, WIDTH);
    write_memory(lent->memory[SCALE], values->scale, WIDTH);
    write_memory(lent->memory[DENSE], values->dense, OUT * WIDTH);
}

static void lend(struct lent *lent, const struct values *values) {
    static const char *const names[] = {"shift", "scale", "dense"};
    static const size_t bytes[] = {PLAIN_BYTES, PLAIN_BYTES, DENSE_BYTES};
    for (int i = 0; i < WEIGHTS; i++) {
        lent->memory[i] = lend_memory(bytes[i]);
        struct ingot_tensor tensor = {INGOT_F32, 1, {WIDTH}, lent->memory[i], on_gpu() ? INGOT_CUDA : INGOT_HOST};
        if (i == DENSE) tensor.rank = 2, tensor.dims[0] = OUT, tensor.dims[1] = WIDTH;
        lent->tensors[i] = (struct ingot_named_tensor){.name = names[i], .tensor = tensor};
    }
    write_lent(lent, values);
}

static void take_back(struct lent *lent) {
    for (int i = 0; i < WEIGHTS; i++)
        free_memory(lent->memory[i], i == DENSE ? DENSE_BYTES : PLAIN_BYTES);
}

static struct ingot_refit_info refit(struct ingot_engine *engine, const struct ingot_named_tensor *tensors, size_t n,
                                     bool borrow) {
    struct ingot_refit_options options = INGOT_REFIT_OPTIONS_INIT;
    struct ingot_refit_info info;
    options.borrow = borrow;
    options.partial = n < WEIGHTS;
    MUST(ingot_engine_refit(engine, tensors, n, &options, &info, &by_code_error));
    assert_int_equal(info.changed + info.unchanged, n);
    return info;
}

static bool is_borrowed(const struct ingot_engine *engine, const char *name) {
    struct ingot_initializer_info info = {.name = ""};
    for (size_t i = 0; strcmp(info.name, name) != 0; i++)
        ingot_engine_initializer(engine, i, &info);
    return info.is_borrowed;
}

static size_t weights_bytes(struct ingot_context *context) {
    struct ingot_memory_info info;
    MUST(ingot_context_memory(context, &info, &by_code_error));
    return info.weights_bytes;
}

/* ---- Lending ---------------------------------------------------------------------------------------------------------- */

/* An engine that never had weights borrows what it reads as it is, makes the rest, and sees what is written in place. */
static void test_without_weights(void **state) {
    struct values values, other;
    struct lent lent;
    fill(&values, 1);
    fill(&other, 2);
    struct built b = build(&values, true);
    lend(&lent, &values);
    struct ingot_refit_info info = refit(b.engine, lent.tensors, WEIGHTS, true);
    assert_int_equal(info.borrowed, 2);
    assert_int_equal(info.borrowed_bytes, 2 * PLAIN_BYTES);
    assert_in_range(info.owned_bytes, DENSE_BYTES, DENSE_BYTES * 2); /* panels are filled up */
    assert_int_equal(info.weight_bytes, info.owned_bytes);
    assert_true(is_borrowed(b.engine, "shift") && is_borrowed(b.engine, "scale") && !is_borrowed(b.engine, "dense"));
    for (int i = 0; i < WEIGHTS; i++)
        assert_true(ingot_engine_borrows(b.engine, lent.memory[i]) == (i != DENSE));
    struct ingot_context *context = make_context(b.engine);
    expect(context, &values);
    assert_int_equal(weights_bytes(context), info.owned_bytes);

    struct values mixed = values;
    memcpy(mixed.scale, other.scale, sizeof mixed.scale);
    write_memory(lent.memory[SCALE], other.scale, WIDTH);
    expect(context, &mixed);
    write_lent(&lent, &other); /* that of the layer too, of which the engine has made something */
    memcpy(mixed.shift, other.shift, sizeof mixed.shift);
    expect(context, &mixed);
    info = refit(b.engine, lent.tensors, WEIGHTS, true);
    assert_int_equal(info.changed, 1);
    assert_int_equal(info.weights, 1);
    expect(context, &other);
    assert_int_equal(refit(b.engine, lent.tensors, WEIGHTS, true).changed, 0);
    ingot_context_destroy(context);
    release(&b);
    take_back(&lent);
}

/* What is not lent is a copy, on either side; and all of it moves while contexts are bound to it. */
static void test_other_memory(void **state) {
    struct values values, other;
    struct lent first, second;
    fill(&values, 1);
    fill(&other, 2);
    struct built b = build(&values, false);
    struct ingot_context *context = make_context(b.engine), *idle = make_context(b.engine);
    expect(context, &values);
    lend(&first, &values);
    lend(&second, &other);
    assert_int_equal(refit(b.engine, first.tensors, WEIGHTS, true).borrowed, 2);
    expect(context, &values);
    expect(idle, &values);
    struct ingot_refit_info info = refit(b.engine, &second.tensors[SCALE], 1, true);
    assert_int_equal(info.changed, 1);
    assert_int_equal(info.weights, 0);
    assert_int_equal(info.borrowed, 2);
    struct values mixed = values;
    memcpy(mixed.scale, other.scale, sizeof mixed.scale);
    expect(context, &mixed);
    assert_true(
        ingot_engine_borrows(b.engine, first.memory[SCALE])); /* by what the other context runs next, or has run */
    expect(idle, &mixed);
    assert_false(ingot_engine_borrows(b.engine, first.memory[SCALE]));
    write_memory(first.memory[SCALE], other.dense, WIDTH);
    expect(context, &mixed);

    /* Its own again, partly and wholly: the caller's memory is read no more. */
    info = refit(b.engine, &second.tensors[SCALE], 1, false);
    assert_int_equal(info.borrowed, 1);
    assert_int_equal(info.weights, 1);
    assert_false(is_borrowed(b.engine, "scale"));
    write_memory(second.memory[SCALE], values.dense, WIDTH);
    expect(context, &mixed);
    write_lent(&second, &other);
    info = refit(b.engine, second.tensors, WEIGHTS, false);
    assert_int_equal(info.borrowed + info.borrowed_bytes, 0);
    expect(context, &other);
    expect(idle, &other);
    for (int i = 0; i < WEIGHTS; i++)
        assert_false(ingot_engine_borrows(b.engine, first.memory[i]) ||
                     ingot_engine_borrows(b.engine, second.memory[i]));
    take_back(&first);
    take_back(&second);
    expect(context, &other);
    ingot_context_destroy(context);
    ingot_context_destroy(idle);
    release(&b);
}

/* From a file, whose pages the engine's own weights remain. */
static void test_from_a_file(void **state) {
    char path[] = "/tmp/ingot-borrow-test-XXXXXX";
    int file = mkstemp(path);
    struct values values, other;
    struct lent lent;
    struct ingot_engine *engine;
    fill(&values, 1);
    fill(&other, 2);
    struct built b = build(&values, false);
    assert_true(file >= 0 && write(file, b.data, b.size) == (ssize_t)b.size);
    close(file);
    MUST(ingot_engine_load(path, NULL, &engine, &by_code_error));
    lend(&lent, &other);
    assert_int_equal(refit(engine, lent.tensors, WEIGHTS, true).borrowed, 2);
    struct ingot_context *context = make_context(engine);
    expect(context, &other);
    assert_int_equal(refit(engine, lent.tensors, WEIGHTS, false).borrowed, 0);
    take_back(&lent);
    expect(context, &other);
    ingot_context_destroy(context);
    ingot_engine_release(engine);
    release(&b);
    unlink(path);
}

/* ---- What is not borrowed, and what is refused ---------------------------------------------------------------------------- */

static void test_alignment(void **state) {
    struct values values;
    struct lent lent;
    fill(&values, 1);
    struct built b = build(&values, true);
    lend(&lent, &values);
    const size_t off = on_gpu() ? 4 : 2; /* kernels for GPUs want 16, others the alignment of elements */
    char *memory = lend_memory(PLAIN_BYTES + 16);
    if (on_gpu())
        write_memory(memory + off, values.shift, WIDTH);
    else
        memcpy(memory + off, values.shift, PLAIN_BYTES);
    lent.tensors[SHIFT].tensor.data = memory + off;
    struct ingot_refit_info info = refit(b.engine, lent.tensors, WEIGHTS, true);
    assert_int_equal(info.borrowed, 1);
    assert_false(is_borrowed(b.engine, "shift"));
    free_memory(memory, PLAIN_BYTES + 16);
    struct ingot_context *context = make_context(b.engine);
    expect(context, &values);
    ingot_context_destroy(context);
    release(&b);
    take_back(&lent);
}

/* Host memory, for a GPU; a GPU's, for the processor. */
static void test_wrong_memory(void **state) {
    struct values values;
    struct lent lent;
    struct ingot_refit_options options = INGOT_REFIT_OPTIONS_INIT;
    fill(&values, 1);
    struct built b = build(&values, true);
    lend(&lent, &values);
    options.borrow = true;
    if (on_gpu()) {
        const void *const data[] = {values.shift, values.scale, values.dense};
        for (int i = 0; i < WEIGHTS; i++) {
            lent.tensors[i].tensor.data = (void *)(uintptr_t)data[i];
            lent.tensors[i].tensor.memory = INGOT_HOST;
        }
        assert_int_equal(refit(b.engine, lent.tensors, WEIGHTS, true).borrowed, 0);
        struct values kept = values;
        fill(&values, 7);
        struct ingot_context *context = make_context(b.engine);
        expect(context, &kept);
        ingot_context_destroy(context);
    } else {
        lent.tensors[SCALE].tensor.memory = INGOT_CUDA;
        assert_int_equal(ingot_engine_refit(b.engine, lent.tensors, WEIGHTS, &options, NULL, &by_code_error),
                         INGOT_INVALID_ARGUMENT);
        assert_non_null(
            strstr(by_code_error.message, "'scale': expected f32[64], found f32[64] in the memory of a GPU"));
    }
    release(&b);
    take_back(&lent);
}

static void test_refusals(void **state) {
    struct values values;
    struct lent lent;
    struct ingot_refit_options options = INGOT_REFIT_OPTIONS_INIT;
    fill(&values, 1);
    struct built b = build(&values, true);
    lend(&lent, &values);
    options.borrow = true;
    assert_int_equal(ingot_refit_file("engine", lent.tensors, WEIGHTS, &options, NULL, NULL, &by_code_error),
                     INGOT_INVALID_ARGUMENT);
    assert_non_null(strstr(by_code_error.message, "a file cannot borrow weights"));
    options.device = -1;
    assert_int_equal(ingot_engine_refit(b.engine, lent.tensors, WEIGHTS, &options, NULL, &by_code_error),
                     INGOT_INVALID_ARGUMENT);
    options.device = 0;
    assert_int_equal(ingot_engine_refit(b.engine, lent.tensors, WEIGHTS - 1, &options, NULL, &by_code_error),
                     INGOT_INVALID_ARGUMENT);
    assert_non_null(strstr(by_code_error.message, "no tensor is given for 'dense'"));
    lent.tensors[SCALE].tensor.dims[0] = WIDTH / 2;
    assert_int_equal(ingot_engine_refit(b.engine, lent.tensors, WEIGHTS, &options, NULL, &by_code_error),
                     INGOT_INVALID_ARGUMENT);
    assert_non_null(strstr(by_code_error.message, "'scale': expected f32[64], found f32[32]"));
    lent.tensors[SCALE].tensor.dims[0] = WIDTH;
    assert_false(ingot_engine_borrows(b.engine, lent.memory[SHIFT]));
    assert_false(ingot_engine_borrows(b.engine, NULL) || ingot_engine_borrows(NULL, lent.memory[SHIFT]));
    refit(b.engine, lent.tensors, WEIGHTS, true);
    struct ingot_context *context = make_context(b.engine);
    if (on_gpu()) {
        options.partial = true;
        options.device = 1; /* two GPUs' memory at once */
        assert_int_equal(ingot_engine_refit(b.engine, &lent.tensors[SCALE], 1, &options, NULL, &by_code_error),
                         INGOT_OK);
        lent.tensors[SCALE].tensor.data = lent.memory[DENSE];
        assert_int_equal(ingot_engine_refit(b.engine, &lent.tensors[SCALE], 1, &options, NULL, &by_code_error),
                         INGOT_INVALID_ARGUMENT);
        assert_non_null(strstr(by_code_error.message, "in the memory of GPU 0, and is lent others in that of GPU 1"));
    }
    expect(context, &values);
    ingot_context_destroy(context);
    release(&b);
    take_back(&lent);
}

/* Each allocation fails once: the engine has what it had. */
static void test_out_of_memory(void **state) {
    struct values values, other;
    struct lent first, second;
    struct test_allocator allocator;
    struct ingot_load_options load = INGOT_LOAD_OPTIONS_INIT;
    struct ingot_refit_options options = INGOT_REFIT_OPTIONS_INIT;
    struct ingot_engine *engine;
    struct ingot_error error;
    fill(&values, 1);
    fill(&other, 2);
    struct built b = build(&values, true);
    lend(&first, &values);
    lend(&second, &other);
    test_allocator_init(&allocator);
    load.allocator = &allocator.base;
    options.borrow = true;
    options.allocator = &allocator.base;
    MUST(ingot_engine_load_memory(b.data, b.size, &load, &engine, &by_code_error));
    refit(engine, first.tensors, WEIGHTS, true);
    struct ingot_context *context = make_context(engine);
    expect(context, &values);
    enum ingot_status status = INGOT_OUT_OF_MEMORY;
    for (long n = 1; status != INGOT_OK; n++) {
        allocator.fail_at = allocator.calls + n;
        status = ingot_engine_refit(engine, second.tensors, WEIGHTS, &options, NULL, &error);
        allocator.fail_at = 0;
        if (status == INGOT_OK) break;
        assert_int_equal(status, INGOT_OUT_OF_MEMORY);
        assert_true(ingot_engine_borrows(engine, first.memory[SHIFT]));
        assert_false(ingot_engine_borrows(engine, second.memory[SHIFT]));
    }
    expect(context, &other);
    assert_false(ingot_engine_borrows(engine, first.memory[SHIFT]));
    ingot_context_destroy(context);
    ingot_engine_release(engine);
    assert_int_equal(allocator.live, 0);
    release(&b);
    take_back(&first);
    take_back(&second);
}

/* ---- Threads ---------------------------------------------------------------------------------------------------------- */

enum { THREADS = 4, TURNS = 60 };

struct runner {
    pthread_t thread;
    struct ingot_engine *engine;
    int wrong;
    enum ingot_status status;
    struct ingot_error error;
};

static float either[2][ROWS * OUT];
static atomic_bool stopped;

static void *run(void *argument) {
    struct runner *r = argument;
    float y[ROWS * OUT];
    struct ingot_context *context = make_context(r->engine);
    while (!r->status && !atomic_load(&stopped)) {
        r->status = compute(context, ROWS, y, &r->error);
        r->wrong += memcmp(y, either[0], sizeof y) != 0 && memcmp(y, either[1], sizeof y) != 0;
    }
    ingot_context_destroy(context);
    return NULL;
}

/* While threads run, memory is lent, and taken back and overwritten as soon as nobody reads it. */
static void test_threads(void **state) {
    static struct runner runners[THREADS];
    struct values values[2];
    struct lent lent[2];
    const float nothing[OUT * WIDTH] = {0};
    for (int i = 0; i < 2; i++) {
        fill(&values[i], 1 + (uint64_t)i);
        find_expected(&values[i], either[i]);
        lend(&lent[i], &values[i]);
    }
    struct built b = build(&values[0], true);
    refit(b.engine, lent[0].tensors, WEIGHTS, true);
    atomic_store(&stopped, false);
    for (int i = 0; i < THREADS; i++) {
        runners[i] = (struct runner){.engine = b.engine};
        assert_int_equal(pthread_create(&runners[i].thread, NULL, run, &runners[i]), 0);
    }
    for (int turn = 1; turn <= TURNS; turn++) {
        struct lent *next = &lent[turn % 2], *last = &lent[1 - turn % 2];
        write_lent(next, &values[turn % 2]);
        refit(b.engine, next->tensors, WEIGHTS, turn % 5 != 0);
        while (ingot_engine_borrows(b.engine, last->memory[SHIFT]) ||
               ingot_engine_borrows(b.engine, last->memory[SCALE]))
            usleep(100);
        for (int i = 0; i < WEIGHTS; i++)
            write_memory(last->memory[i], nothing, i == DENSE ? OUT * WIDTH : WIDTH);
    }
    atomic_store(&stopped, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(runners[i].thread, NULL);
        if (runners[i].status) fail_msg("%s", runners[i].error.message);
        assert_int_equal(runners[i].wrong, 0);
    }
    release(&b);
    take_back(&lent[0]);
    take_back(&lent[1]);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_weights), cmocka_unit_test(test_other_memory), cmocka_unit_test(test_from_a_file),
        cmocka_unit_test(test_alignment),       cmocka_unit_test(test_wrong_memory), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_out_of_memory),   cmocka_unit_test(test_threads),
    };
    if (argc > 1) target = argv[1];
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
