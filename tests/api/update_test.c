/*
 * Inputs that runs update: decoders' caches written where they are, other states copied there at the end; errors.
 *
 *     update_test [TARGET]     "cuda:sm_80" needs a GPU, or the emulator's driver and compiler
 */
#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/model/by_code.h"

static const char *target = "cpu";

static bool on_gpu(void) {
    return strncmp(target, "cuda", 4) == 0;
}

/* A model, built for the target, and a context. */
struct built {
    struct ingot_model *model;
    void *data;
    size_t size;
    struct ingot_engine *engine;
    struct ingot_context *context;
};

static struct built build(struct ingot_network *network) {
    struct built b = {.model = network_finish(network)};
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    options.target = target;
    options.nvrtc = getenv("INGOT_NVRTC");
    MUST(ingot_model_build_memory(b.model, &options, &b.data, &b.size, &by_code_error));
    MUST(ingot_engine_load_memory(b.data, b.size, NULL, &b.engine, &by_code_error));
    MUST(ingot_context_create(b.engine, NULL, &b.context, &by_code_error));
    return b;
}

static void release(struct built *b) {
    ingot_context_destroy(b->context);
    ingot_engine_release(b->engine);
    ingot_blob_release(b->model, b->data, b->size);
    ingot_model_destroy(b->model);
}

static void set(struct built *b, size_t index, struct ingot_tensor tensor) {
    MUST(ingot_context_set_input(b->context, index, &tensor, &by_code_error));
}

static void run(struct built *b) {
    MUST(ingot_context_run(b->context, &by_code_error));
}

/* ---- A cache */

enum { WIDTH = 64 };

/* cache[position] = row; y = sum of the cache over its rows. */
static struct ingot_network *decoder(const char *op) {
    struct ingot_network *network = network_create();
    ingot_value cache = network_input(network, "cache", INGOT_F32, 2, (const char *const[]){"length", "64"});
    ingot_value row = network_input(network, "row", INGOT_F32, 2, (const char *const[]){"1", "64"});
    ingot_value next;
    if (strcmp(op, "scatter_nd") == 0) {
        ingot_value position = network_input(network, "position", INGOT_I64, 2, (const char *const[]){"1", "1"});
        next = network_add(network, op, INPUTS(cache, position, row), NULL, 0);
    } else {
        ingot_value position = network_input(network, "position", INGOT_I64, 2, (const char *const[]){"1", "1"});
        position = network_add(network, "broadcast", INPUTS(position), ATTRIBUTES(DIMS("dims", "1", "64")));
        next = network_add(network, op, INPUTS(cache, position, row), ATTRIBUTES(INT("axis", 0)));
    }
    MUST(ingot_network_output(
        network, "y", network_add(network, "reduce_sum", INPUTS(next), ATTRIBUTES(INTS("axes", 0))), &by_code_error));
    MUST(ingot_network_update(network, "next", cache, next, &by_code_error));
    return network;
}

/* Whole pages, of which those that are not to be written cannot be: a run that wrote the whole cache would die. */
static void check_cache(const char *op) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = 5, rows = page / (WIDTH * sizeof(float));
    float *cache = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(cache != MAP_FAILED);
    const int64_t length = (int64_t)(pages * rows);
    struct built b = build(decoder(op));
    assert_int_equal(ingot_engine_updated_input(b.engine, 0), SIZE_MAX);
    assert_int_equal(ingot_engine_updated_input(b.engine, 1), 0);
    assert_int_equal(ingot_engine_updated_input(b.engine, 2), SIZE_MAX);
    float row[WIDTH], sum[WIDTH] = {0};
    int64_t position;
    set(&b, 0, (struct ingot_tensor){INGOT_F32, 2, {length, WIDTH}, cache, INGOT_HOST});
    set(&b, 1, (struct ingot_tensor){INGOT_F32, 2, {1, WIDTH}, row, INGOT_HOST});
    set(&b, 2, (struct ingot_tensor){INGOT_I64, 2, {1, 1}, &position, INGOT_HOST});
    for (int step = 0; step < 4; step++) {
        size_t own = (size_t)step + 1;
        position = (int64_t)(own * rows) + step;
        for (int i = 0; i < WIDTH; i++)
            sum[i] += row[i] = (float)(step * 100 + i);
        assert_int_equal(mprotect(cache, pages * page, on_gpu() ? PROT_READ | PROT_WRITE : PROT_READ), 0);
        assert_int_equal(mprotect((char *)cache + own * page, page, PROT_READ | PROT_WRITE), 0);
        run(&b);
        struct ingot_tensor y, next;
        MUST(ingot_context_output(b.context, 0, &y, &by_code_error));
        MUST(ingot_context_output(b.context, 1, &next, &by_code_error));
        assert_ptr_equal(next.data, cache);
        assert_int_equal(next.dims[0], length);
        assert_memory_equal(cache + position * WIDTH, row, sizeof row);
        for (int i = 0; i < WIDTH; i++)
            assert_true(fabsf(((float *)y.data)[i] - sum[i]) < 1e-3f);
    }
    /* Other memory, of another size, from the next run on; the old one is as it was. */
    float other[3 * WIDTH] = {0};
    position = -1;
    set(&b, 0, (struct ingot_tensor){INGOT_F32, 2, {3, WIDTH}, other, INGOT_HOST});
    assert_int_equal(mprotect(cache, pages * page, PROT_READ), 0);
    run(&b);
    assert_memory_equal(other + 2 * WIDTH, row, sizeof row);
    position = 3; /* out of range: nothing is written */
    memset(row, 0, sizeof row);
    run(&b);
    assert_true(other[2 * WIDTH + 1] == 301);
    release(&b);
    munmap(cache, pages * page);
}

static void test_cache(void **state) {
    check_cache("scatter_nd");
    check_cache("scatter_elements");
}

/* A cache in the GPU's memory stays there, and one in the host's is there between two runs, also if nobody waits. */
static void test_memory(void **state) {
    struct built b = build(decoder("scatter_nd"));
    float row[WIDTH], host[3 * WIDTH] = {0};
    void *device;
    int64_t position;
    struct ingot_tensor y;
    set(&b, 1, (struct ingot_tensor){INGOT_F32, 2, {1, WIDTH}, row, INGOT_HOST});
    set(&b, 2, (struct ingot_tensor){INGOT_I64, 2, {1, 1}, &position, INGOT_HOST});
    MUST(ingot_context_allocate(b.context, INGOT_CUDA, sizeof host, &device, &by_code_error));
    for (int kind = 0; kind < 2; kind++) {
        enum ingot_memory memory = kind && on_gpu() ? INGOT_CUDA : INGOT_HOST;
        set(&b, 0, (struct ingot_tensor){INGOT_F32, 2, {3, WIDTH}, kind ? device : host, memory});
        for (int step = 0; step < 3; step++) {
            position = 2 - step;
            for (int i = 0; i < WIDTH; i++)
                row[i] = (float)(kind * 1000 + step * 100 + i);
            MUST(ingot_context_enqueue(b.context, NULL, &by_code_error));
        }
        MUST(ingot_context_wait(b.context, &by_code_error));
        MUST(ingot_context_output(b.context, 0, &y, &by_code_error));
        for (int i = 0; i < WIDTH; i++)
            assert_true(fabsf(((float *)y.data)[i] - (float)(3 * (kind * 1000 + i) + 300)) < 1e-2f);
    }
    for (int i = 0; i < 3 * WIDTH; i++)
        assert_true(host[i] == (float)((2 - i / WIDTH) * 100 + i % WIDTH));
    ingot_context_free(b.context, INGOT_CUDA, device, sizeof host);
    release(&b);
}

/* ---- Values that are copied */

/* count += step, where what was there is read by a result that also depends on what comes; and two states that change places. */
static void test_copied(void **state) {
    struct ingot_network *network = network_create();
    const char *const dims[] = {"n"};
    ingot_value count = network_input(network, "count", INGOT_F32, 1, dims);
    ingot_value a = network_input(network, "a", INGOT_F32, 1, dims),
                b = network_input(network, "b", INGOT_F32, 1, dims);
    ingot_value step = network_input(network, "step", INGOT_F32, 1, dims);
    ingot_value next = network_add(network, "add", INPUTS(count, step), NULL, 0);
    MUST(ingot_network_update(network, "next", count, next, &by_code_error));
    MUST(ingot_network_update(network, "b.next", b, a, &by_code_error));
    MUST(ingot_network_update(network, "a.next", a, network_add(network, "neg", INPUTS(b), NULL, 0), &by_code_error));
    MUST(ingot_network_output(network, "product", network_add(network, "mul", INPUTS(count, next), NULL, 0),
                              &by_code_error));
    struct built built = build(network);
    float counts[3] = {1, 2, 3}, as[3] = {10, 20, 30}, bs[3] = {-1, -2, -3}, steps[3] = {1, 1, 2};
    set(&built, 0, (struct ingot_tensor){INGOT_F32, 1, {3}, counts, INGOT_HOST});
    set(&built, 1, (struct ingot_tensor){INGOT_F32, 1, {3}, as, INGOT_HOST});
    set(&built, 2, (struct ingot_tensor){INGOT_F32, 1, {3}, bs, INGOT_HOST});
    set(&built, 3, (struct ingot_tensor){INGOT_F32, 1, {3}, steps, INGOT_HOST});
    run(&built);
    struct ingot_tensor product;
    MUST(ingot_context_output(built.context, 0, &product, &by_code_error));
    const float first[3] = {2, 6, 15}, second[3] = {6, 12, 35};
    assert_memory_equal(product.data, first, sizeof first);
    assert_memory_equal(as, ((float[]){1, 2, 3}), sizeof as);
    assert_memory_equal(bs, ((float[]){10, 20, 30}), sizeof bs);
    run(&built);
    MUST(ingot_context_output(built.context, 0, &product, &by_code_error));
    assert_memory_equal(product.data, second, sizeof second);
    assert_memory_equal(counts, ((float[]){3, 4, 7}), sizeof counts);
    release(&built);
}

/* States that change places, one that stays, and an output that is what one was. */
static void test_swapped(void **state) {
    struct ingot_network *network = network_create();
    const char *const dims[] = {"n"};
    ingot_value a = network_input(network, "a", INGOT_F32, 1, dims),
                b = network_input(network, "b", INGOT_F32, 1, dims);
    ingot_value c = network_input(network, "c", INGOT_F32, 1, dims);
    MUST(ingot_network_update(network, "a.next", a, b, &by_code_error));
    MUST(ingot_network_update(network, "b.next", b, a, &by_code_error));
    MUST(ingot_network_update(network, "c.next", c, c, &by_code_error));
    MUST(ingot_network_output(network, "a.before", a, &by_code_error));
    struct built built = build(network);
    float as[2] = {1, 2}, bs[2] = {3, 4}, cs[2] = {5, 6};
    set(&built, 0, (struct ingot_tensor){INGOT_F32, 1, {2}, as, INGOT_HOST});
    set(&built, 1, (struct ingot_tensor){INGOT_F32, 1, {2}, bs, INGOT_HOST});
    set(&built, 2, (struct ingot_tensor){INGOT_F32, 1, {2}, cs, INGOT_HOST});
    run(&built);
    struct ingot_tensor before;
    MUST(ingot_context_output(built.context, 0, &before, &by_code_error));
    assert_memory_equal(before.data, ((float[]){1, 2}), sizeof as);
    assert_memory_equal(as, ((float[]){3, 4}), sizeof as);
    assert_memory_equal(bs, ((float[]){1, 2}), sizeof bs);
    assert_memory_equal(cs, ((float[]){5, 6}), sizeof cs);
    release(&built);
}

/* A scatter into data that something else reads is not done in place: both see what was there. */
static void test_read_elsewhere(void **state) {
    struct ingot_network *network = network_create();
    ingot_value data = network_input(network, "data", INGOT_F32, 1, (const char *const[]){"n"});
    ingot_value at = network_input(network, "at", INGOT_I64, 2, (const char *const[]){"1", "1"});
    ingot_value one = network_input(network, "one", INGOT_F32, 1, (const char *const[]){"1"});
    ingot_value next = network_add(network, "scatter_nd", INPUTS(data, at, one), NULL, 0);
    MUST(ingot_network_update(network, "next", data, next, &by_code_error));
    MUST(ingot_network_output(network, "y", network_add(network, "sub", INPUTS(next, data), NULL, 0), &by_code_error));
    struct built b = build(network);
    float values[4] = {1, 2, 3, 4}, new = 10;
    int64_t position = 2;
    set(&b, 0, (struct ingot_tensor){INGOT_F32, 1, {4}, values, INGOT_HOST});
    set(&b, 1, (struct ingot_tensor){INGOT_I64, 2, {1, 1}, &position, INGOT_HOST});
    set(&b, 2, (struct ingot_tensor){INGOT_F32, 1, {1}, &new, INGOT_HOST});
    run(&b);
    struct ingot_tensor y;
    MUST(ingot_context_output(b.context, 0, &y, &by_code_error));
    assert_memory_equal(y.data, ((float[]){0, 0, 7, 0}), 4 * sizeof(float));
    assert_memory_equal(values, ((float[]){1, 2, 10, 4}), sizeof values);
    release(&b);
}

/* Nor is one whose updates are gathered of the data: none may be read after it was overwritten. */
static void test_gathered(void **state) {
    struct ingot_network *network = network_create();
    ingot_value data = network_input(network, "data", INGOT_F32, 1, (const char *const[]){"n"});
    ingot_value from = network_input(network, "from", INGOT_I64, 1, (const char *const[]){"3"});
    ingot_value to = network_input(network, "to", INGOT_I64, 2, (const char *const[]){"3", "1"});
    ingot_value moved = network_add(network, "gather", INPUTS(data, from), ATTRIBUTES(INT("axis", 0)));
    ingot_value next = network_add(network, "scatter_nd", INPUTS(data, to, moved), NULL, 0);
    MUST(ingot_network_update(network, "next", data, next, &by_code_error));
    struct built b = build(network);
    float values[4] = {1, 2, 3, 4};
    int64_t numbers[3] = {0, 1, 2}, places[3] = {1, 2, 3};
    set(&b, 0, (struct ingot_tensor){INGOT_F32, 1, {4}, values, INGOT_HOST});
    set(&b, 1, (struct ingot_tensor){INGOT_I64, 1, {3}, numbers, INGOT_HOST});
    set(&b, 2, (struct ingot_tensor){INGOT_I64, 2, {3, 1}, places, INGOT_HOST});
    run(&b);
    assert_memory_equal(values, ((float[]){1, 1, 2, 3}), sizeof values);
    release(&b);
}

/* Rows of a batch are not computed apart, since the last of them overlap. */
static void test_batch(void **state) {
    struct built b = build(decoder("scatter_nd"));
    struct ingot_symbol_info info;
    assert_int_equal(ingot_engine_symbol_count(b.engine), 1);
    ingot_engine_symbol(b.engine, 0, &info);
    assert_non_null(info.mixes);
    release(&b);
}

/* ---- Errors */

static void expect(enum ingot_status status, const char *part) {
    if (status != INGOT_INVALID_ARGUMENT || !strstr(by_code_error.message, part))
        fail_msg("status %d: %s; expected: %s", (int)status, by_code_error.message, part);
}

static void test_errors(void **state) {
    struct ingot_network *network = decoder("scatter_nd"), *body;
    ingot_value cache = 0, row = 1, position = 2;
    struct ingot_error *error = &by_code_error;
    expect(ingot_network_update(network, "again", cache, cache, error), "'cache' is updated already");
    expect(ingot_network_update(network, "row", row, cache, error), "its type is not that of the input 'row'");
    expect(ingot_network_update(network, "next", position, position, error), "already an output named 'next'");
    expect(ingot_network_update(network, "", position, position, error), "name");
    expect(ingot_network_update(network, "x", 3, position, error), "is no input");
    expect(ingot_network_update(network, "x", position, 1000, error), "1000 is no value");
    MUST(ingot_network_create_body(network, &body, error));
    ingot_value inner = network_input(body, "x", INGOT_F32, 0, NULL);
    expect(ingot_network_update(body, "x", inner, inner, error), "a body updates nothing");
    struct built b = build(network);
    float memory[WIDTH];
    expect(ingot_context_set_output(b.context, 1, memory, sizeof memory, error),
           "stored in the memory of input 'cache'");
    MUST(ingot_context_set_output(b.context, 1, NULL, 0, error));
    expect(ingot_context_set_output_fresh(b.context, 1, INGOT_HOST, error), "stored in the memory of an input");
    release(&b);
}

int main(int argc, char **argv) {
    if (argc > 1) target = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cache),   cmocka_unit_test(test_memory),         cmocka_unit_test(test_copied),
        cmocka_unit_test(test_swapped), cmocka_unit_test(test_read_elsewhere), cmocka_unit_test(test_gathered),
        cmocka_unit_test(test_batch),   cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
