/*
 * Layers of two products, a residual and a norm, divided by tensors among two and three ranks, of any number of rows. Between GPUs that
 * reach each other's memory, the sum of the ranks' terms, the residual and the norm are one kernel as long as the rows are few;
 * everywhere else there are two. Profiles say which ran, and results are compared with plain ones. Ranks that share GPUs, and those that
 * have more threads, get the same bits, and so do runs that are enqueued behind each other.
 *
 *     joined_rows_test [TARGET [apart]]     "cuda:sm_90" needs GPUs, or the emulator's driver and compiler; `apart`: they do
 *                                           not reach each other's memory
 */
#include "support/support.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/model/by_code.h"

static const char *target = "cpu";
static bool joins, apart;

enum { LAYERS = 2, MOST_RUNS = 6, MOST_INNER = 1024 };
static const double epsilon = 1e-5;

struct network {
    int64_t width, inner;
    unsigned ranks;
    bool centred;            /* LayerNorm, else RMSNorm */
    int64_t most;            /* rows of one kernel */
    int64_t rows[MOST_RUNS]; /* until -1 */
    const char *known;       /* if the compiler knows the rows, how many; then products push them on GPUs */
    bool in_a_row;           /* also enqueued behind each other, which takes the emulator long of long rows */
};

/* ---- The network ------------------------------------------------------------------------------------------------- */

static float numbers(uint32_t seed, int64_t i) {
    const uint32_t x = (uint32_t)i * 2654435761u ^ seed * 0x9e3779b9u, y = x ^ x >> 15;
    return (float)((int32_t)(y * 2246822519u) >> 8) / (1 << 23);
}

struct weights {
    float *in, *out, *scale, *bias;
};

static float *make(int64_t count, uint32_t seed, float size) {
    float *data = malloc((size_t)count * sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++)
        data[i] = size * numbers(seed, i);
    return data;
}

static struct weights make_weights(const struct network *w, uint32_t layer) {
    const float size = 1 / sqrtf((float)w->width);
    return (struct weights){make(w->width * w->inner, 4 * layer, size), make(w->inner * w->width, 4 * layer + 1, 1),
                            make(w->width, 4 * layer + 2, 1), make(w->width, 4 * layer + 3, 1)};
}

static void drop_weights(struct weights *all) {
    for (int i = 0; i < LAYERS; i++) {
        free(all[i].in);
        free(all[i].out);
        free(all[i].scale);
        free(all[i].bias);
    }
}

static ingot_value mean(struct ingot_network *n, ingot_value x) {
    return network_add(n, "reduce_mean", INPUTS(x), ATTRIBUTES(INTS("axes", 1)));
}

/* Under a name of its own. */
static ingot_value weight(struct ingot_network *n, int64_t d0, int64_t d1, const float *data) {
    static unsigned count;
    char name[20];
    snprintf(name, sizeof name, "weight %u", count++);
    return network_weight(n, name, d0, d1, data);
}

static ingot_value norm(struct ingot_network *n, const struct network *w, const struct weights *own, ingot_value x) {
    ingot_value scale = weight(n, w->width, 0, own->scale);
    if (w->centred) x = network_add(n, "sub", INPUTS(x, mean(n, x)), NULL, 0);
    ingot_value square = mean(n, network_add(n, "mul", INPUTS(x, x), NULL, 0));
    square = network_add(n, "add", INPUTS(square, network_scalar(n, (float)epsilon)), NULL, 0);
    x = network_add(n, "div", INPUTS(x, network_add(n, "sqrt", INPUTS(square), NULL, 0)), NULL, 0);
    x = network_add(n, "mul", INPUTS(x, scale), NULL, 0);
    if (!w->centred) return x;
    return network_add(n, "add", INPUTS(x, weight(n, w->width, 0, own->bias)), NULL, 0);
}

static struct ingot_network *describe(const struct network *w, const struct weights *all) {
    char width[20];
    snprintf(width, sizeof width, "%lld", (long long)w->width);
    struct ingot_network *n = network_create();
    ingot_value hidden =
                    network_input(n, "x", INGOT_F32, 2, (const char *const[]){w->known ? w->known : "rows", width}),
                x = hidden;
    for (int i = 0; i < LAYERS; i++) {
        ingot_value in = weight(n, w->width, w->inner, all[i].in), out = weight(n, w->inner, w->width, all[i].out);
        ingot_value inner = network_add(n, "matmul", INPUTS(x, in), NULL, 0);
        inner = network_add(n, "max", INPUTS(inner, network_scalar(n, 0)), NULL, 0);
        hidden = network_add(n, "add", INPUTS(network_add(n, "matmul", INPUTS(inner, out), NULL, 0), hidden), NULL, 0);
        x = norm(n, w, &all[i], hidden);
    }
    MUST(ingot_network_output(n, "y", x, &by_code_error));
    return n;
}

/* ---- Plainly ----------------------------------------------------------------------------------------------------- */

static void normalise(const struct network *w, const struct weights *own, const double *hidden, double *x) {
    double middle = 0, square = 0;
    for (int64_t i = 0; i < w->width && w->centred; i++)
        middle += hidden[i] / (double)w->width;
    for (int64_t i = 0; i < w->width; i++)
        square += (hidden[i] - middle) * (hidden[i] - middle) / (double)w->width;
    for (int64_t i = 0; i < w->width; i++)
        x[i] = (hidden[i] - middle) / sqrt(square + epsilon) * (double)own->scale[i] +
               (w->centred ? (double)own->bias[i] : 0);
}

static void compute_row(const struct network *w, const struct weights *all, double *hidden, double *x) {
    double inner[MOST_INNER];
    for (int layer = 0; layer < LAYERS; layer++) {
        const struct weights *own = &all[layer];
        memset(inner, 0, sizeof inner);
        for (int64_t i = 0; i < w->width; i++)
            for (int64_t k = 0; k < w->inner; k++)
                inner[k] += x[i] * (double)own->in[i * w->inner + k];
        for (int64_t k = 0; k < w->inner; k++)
            for (int64_t i = 0; i < w->width; i++)
                hidden[i] += fmax(inner[k], 0) * (double)own->out[k * w->width + i];
        normalise(w, own, hidden, x);
    }
}

static void check_row(const struct network *w, const struct weights *all, const float *given, const float *found) {
    double *hidden = malloc(2 * (size_t)w->width * sizeof *hidden), *x = hidden + w->width;
    assert_non_null(hidden);
    for (int64_t i = 0; i < w->width; i++)
        hidden[i] = x[i] = (double)given[i];
    compute_row(w, all, hidden, x);
    for (int64_t i = 0; i < w->width; i++)
        if (!(fabs((double)found[i] - x[i]) <= 1e-4))
            fail_msg("%g in place of %g at %lld", (double)found[i], x[i], (long long)i);
    free(hidden);
}

/* ---- Runs -------------------------------------------------------------------------------------------------------- */

/* How often kernels of rows have run. */
static uint64_t row_kernels(const struct ingot_context *context) {
    struct ingot_profile_row rows[100];
    const size_t count = ingot_context_profile(context, rows, 100);
    uint64_t calls = 0;
    assert_true(count <= 100);
    for (size_t i = 0; i < count; i++)
        if (strncmp(rows[i].kernel, "row_", 4) == 0) calls += rows[i].calls;
    return calls;
}

/* Results of the first context, by run; the others' must be equal. */
static float *kept[MOST_RUNS];

static void keep(int i, const struct ingot_tensor *y) {
    const size_t size = (size_t)ingot_tensor_elements(y) * sizeof(float);
    if (kept[i]) {
        assert_memory_equal(kept[i], y->data, size);
        return;
    }
    kept[i] = malloc(size + 1);
    assert_non_null(kept[i]);
    if (size) memcpy(kept[i], y->data, size);
}

static void run(struct ingot_context *context, const struct network *w, const struct weights *all, int i) {
    const int64_t rows = w->rows[i];
    float *given = make(rows * w->width + 1, 77, 1);
    const struct ingot_tensor x = {INGOT_F32, 2, {rows, w->width}, given, INGOT_HOST};
    struct ingot_tensor y;
    struct ingot_memory_info memory;
    const uint64_t before = row_kernels(context);
    MUST(ingot_context_set_input(context, 0, &x, &by_code_error));
    MUST(ingot_context_memory(context, &memory, &by_code_error)); /* prepares rank 0, even before the first run */
    MUST(ingot_context_run(context, &by_code_error));
    MUST(ingot_context_output(context, 0, &y, &by_code_error));
    assert_int_equal(y.dims[0], rows);
    for (int64_t r = 0; r < rows; r++)
        check_row(w, all, given + r * w->width, (const float *)y.data + r * w->width);
    keep(i, &y);
    const bool joined = joins && rows > 0 && rows <= w->most;
    assert_int_equal(row_kernels(context) - before, joined ? 0 : LAYERS);
    MUST(ingot_context_memory(context, &memory, &by_code_error));
    const bool is_apart = !joins && strncmp(target, "cuda", 4) == 0;
    assert_int_equal(memory.exchange_bytes == 0, is_apart);
    assert_int_equal(memory.nccl_bytes > 0, is_apart);
    free(given);
}

static void compute(struct ingot_engine *engine, const struct network *w, const struct weights *all, unsigned gpus,
                    unsigned threads) {
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    struct ingot_context *context;
    char text[80];
    options.threads = threads;
    options.gpus = gpus;
    options.profile = true;
    enum ingot_status status = ingot_context_create(engine, &options, &context, &by_code_error);
    if (gpus > 0 && !joins) {
        snprintf(text, sizeof text, "%u ranks on %u GPUs exchange through windows, and there are none: ", w->ranks,
                 gpus);
        assert_int_equal(status, INGOT_UNSUPPORTED);
        assert_non_null(strstr(by_code_error.message, text));
        return;
    }
    MUST(status);
    for (int i = 0; i < MOST_RUNS && w->rows[i] >= 0; i++)
        run(context, w, all, i);
    ingot_context_destroy(context);
}

/* Runs of mixed shapes, of which nobody waits for any but the last. */
static void compute_in_a_row(struct ingot_engine *engine, const struct network *w, unsigned gpus) {
    enum { ROUNDS = 2 };
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    struct ingot_context *context;
    void *y[ROUNDS][MOST_RUNS] = {{NULL}};
    size_t sizes[MOST_RUNS];
    options.gpus = gpus;
    MUST(ingot_context_create(engine, &options, &context, &by_code_error));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < MOST_RUNS && w->rows[i] >= 0; i++) {
            float *given = make(w->rows[i] * w->width + 1, 77, 1);
            const struct ingot_tensor x = {INGOT_F32, 2, {w->rows[i], w->width}, given, INGOT_HOST};
            sizes[i] = (size_t)(w->rows[i] * w->width) * sizeof(float);
            MUST(ingot_context_allocate(context, INGOT_PINNED, sizes[i] + 1, &y[round][i], &by_code_error));
            MUST(ingot_context_set_input(context, 0, &x, &by_code_error));
            MUST(ingot_context_set_output_in(context, 0, INGOT_PINNED, y[round][i], sizes[i], &by_code_error));
            MUST(ingot_context_enqueue(context, NULL, &by_code_error));
            free(given);
        }
    }
    MUST(ingot_context_wait(context, &by_code_error));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < MOST_RUNS && w->rows[i] >= 0; i++) {
            if (sizes[i]) assert_memory_equal(kept[i], y[round][i], sizes[i]);
            ingot_context_free(context, INGOT_PINNED, y[round][i], sizes[i] + 1);
        }
    }
    ingot_context_destroy(context);
}

static void build(struct ingot_model *model, const struct network *w, void **out_data, size_t *out_size) {
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    options.target = target;
    options.nvrtc = getenv("INGOT_NVRTC");
    options.ranks = &w->ranks;
    options.n_ranks = 1;
    options.sharding = "tensor";
    options.verify_passes = true;
    MUST(ingot_model_build_memory(model, &options, out_data, out_size, &by_code_error));
}

static void check(const struct network *w) {
    struct weights all[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        all[i] = make_weights(w, (uint32_t)i);
    struct ingot_model *model = network_finish(describe(w, all));
    struct ingot_load_options load = INGOT_LOAD_OPTIONS_INIT;
    struct ingot_engine *engine;
    void *data;
    size_t size;
    build(model, w, &data, &size);
    load.ranks = w->ranks;
    MUST(ingot_engine_load_memory(data, size, &load, &engine, &by_code_error));
    const bool is_gpu = strncmp(target, "cuda", 4) == 0;
    const char *explanation;
    MUST(ingot_engine_explanation(engine, &explanation, &by_code_error));
    assert_int_equal(strstr(explanation, ", pushed") != NULL, is_gpu && w->known);
    for (unsigned more = 0; more <= w->ranks; more++)
        compute(engine, w, all, is_gpu ? more : 0, is_gpu ? w->ranks : w->ranks * (more + 1));
    if (w->in_a_row) compute_in_a_row(engine, w, 0);
    if (w->in_a_row && joins) compute_in_a_row(engine, w, 1);
    if (is_gpu) {
        struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
        struct ingot_context *context;
        options.gpus = w->ranks + 1;
        assert_int_equal(ingot_context_create(engine, &options, &context, &by_code_error), INGOT_INVALID_ARGUMENT);
    }
    for (int i = 0; i < MOST_RUNS; i++) {
        free(kept[i]);
        kept[i] = NULL;
    }
    ingot_engine_release(engine);
    ingot_blob_release(model, data, size);
    ingot_model_destroy(model);
    drop_weights(all);
}

static void test_short_rows(void **state) {
    check(&(struct network){64, 96, 2, false, 128, {1, 128, 129, 3, -1}, NULL, true});
    check(&(struct network){33, 90, 3, true, 128, {5, 130, 1, 128, 0, -1}, NULL, true});
}

/* As many as fit into the lines of a short message. */
static void test_long_rows(void **state) {
    check(&(struct network){4096, 6, 2, false, 32, {1, 32, 33, -1}, NULL, false});
}

/* Products push rows, and what adds them up begins before these have ended. */
static void test_pushed_rows(void **state) {
    check(&(struct network){512, 1024, 2, false, 128, {1, -1}, "1", true});
    check(&(struct network){512, 768, 3, true, 128, {3, -1}, "3", false});
}

/* ---- Ranks that fail --------------------------------------------------------------------------------------------- */

/* Only rank 0 has the caller's memory for results, so that it alone cannot begin. What was enqueued before is lost too. */
static void test_rank_cannot_begin(void **state) {
    const struct network w = {64, 96, 2, false, 128, {3, -1}, NULL, false};
    struct weights all[LAYERS] = {make_weights(&w, 0), make_weights(&w, 1)};
    struct ingot_model *model = network_finish(describe(&w, all));
    struct ingot_load_options load = INGOT_LOAD_OPTIONS_INIT;
    struct ingot_engine *engine;
    struct ingot_context *context;
    struct ingot_lease *lease;
    struct ingot_tensor y;
    float given[64 * 3] = {1, 2, 3}, results[64];
    const struct ingot_tensor x = {INGOT_F32, 2, {3, 64}, given, INGOT_HOST};
    void *data;
    size_t size;
    build(model, &w, &data, &size);
    load.ranks = 2;
    MUST(ingot_engine_load_memory(data, size, &load, &engine, &by_code_error));
    MUST(ingot_context_create(engine, NULL, &context, &by_code_error));
    assert_int_equal(ingot_context_enqueue(context, NULL, &by_code_error), INGOT_INVALID_ARGUMENT);
    assert_string_equal(by_code_error.message, "input 'x' is not set");
    MUST(ingot_context_set_input(context, 0, &x, &by_code_error));
    for (int i = 0; i < 3; i++)
        MUST(ingot_context_enqueue(context, NULL, &by_code_error));
    MUST(ingot_context_set_output(context, 0, results, sizeof results, &by_code_error));
    assert_int_equal(ingot_context_enqueue(context, NULL, &by_code_error), INGOT_INVALID_ARGUMENT);
    assert_non_null(strstr(by_code_error.message, "output 'y' has 768 bytes, the memory given for it 256"));
    MUST(ingot_context_wait(context, &by_code_error)); /* nothing is under way */
    assert_int_equal(ingot_context_output(context, 0, &y, &by_code_error), INGOT_INVALID_ARGUMENT);
    MUST(ingot_context_set_output(context, 0, NULL, 0, &by_code_error));
    for (int i = 0; i < 3; i++)
        MUST(ingot_context_enqueue(context, NULL, &by_code_error));
    MUST(ingot_context_lease(context, &lease, &by_code_error));
    MUST(ingot_lease_wait(lease, &by_code_error));
    MUST(ingot_lease_output(lease, 0, &y, &by_code_error));
    for (int r = 0; r < 3; r++)
        check_row(&w, all, given + r * w.width, (const float *)y.data + r * w.width);
    ingot_lease_release(lease);
    MUST(ingot_context_wait_for(context, 60, &by_code_error));
    MUST(ingot_context_output(context, 0, &y, &by_code_error));
    for (int r = 0; r < 3; r++)
        check_row(&w, all, given + r * w.width, (const float *)y.data + r * w.width);
    ingot_context_destroy(context);
    ingot_engine_release(engine);
    ingot_blob_release(model, data, size);
    ingot_model_destroy(model);
    drop_weights(all);
}

struct member {
    unsigned rank;
    const void *data;
    size_t size;
    char meeting[60];
    pthread_barrier_t *over;
    int runs;
    enum ingot_status status, later; /* of these runs, and of one behind them */
    bool has_results;
    struct ingot_error error, later_error;
};

static enum ingot_status join(struct member *m, struct ingot_context **out_context, struct ingot_engine **out_engine) {
    char own[40], place[100];
    const char *const environment[] = {own, "INGOT_RANKS=2", place, NULL};
    struct ingot_group_options options = INGOT_GROUP_OPTIONS_INIT;
    struct ingot_load_options load = INGOT_LOAD_OPTIONS_INIT;
    struct ingot_context_options context = INGOT_CONTEXT_OPTIONS_INIT;
    snprintf(own, sizeof own, "INGOT_RANK=%u", m->rank);
    snprintf(place, sizeof place, "INGOT_RENDEZVOUS=%s", m->meeting);
    options.environment = environment;
    options.seconds = 3;
    context.device = (int)m->rank;
    enum ingot_status status = ingot_group_join(&options, &load.group, &m->error);
    if (status == INGOT_OK) status = ingot_engine_load_memory(m->data, m->size, &load, out_engine, &m->error);
    ingot_group_release(load.group);
    return status == INGOT_OK ? ingot_context_create(*out_engine, &context, out_context, &m->error) : status;
}

/* Enqueues its runs, and waits for the last. */
static void *take_part(void *argument) {
    struct member *m = argument;
    float given[64] = {0};
    const struct ingot_tensor x = {INGOT_F32, 2, {1, 64}, given, INGOT_HOST};
    struct ingot_context *context = NULL;
    struct ingot_engine *engine = NULL;
    struct ingot_tensor y;
    m->status = join(m, &context, &engine);
    if (m->status == INGOT_OK) m->status = ingot_context_set_input(context, 0, &x, &m->error);
    for (int i = 0; m->status == INGOT_OK && i < m->runs; i++)
        m->status = ingot_context_enqueue(context, NULL, &m->error);
    if (m->status == INGOT_OK) m->status = ingot_context_wait(context, &m->error);
    m->has_results = ingot_context_output(context, 0, &y, &m->later_error) == INGOT_OK;
    pthread_barrier_wait(m->over);
    m->later = ingot_context_run(context, &m->later_error);
    pthread_barrier_wait(m->over);
    ingot_context_destroy(context);
    ingot_engine_release(engine);
    return NULL;
}

/* Rank 1 makes so many runs, and rank 0 more, whose kernels give up; in the emulator they end before the host looks. */
static void miss_rank(const void *data, size_t size, int runs) {
    struct member members[2] = {{.rank = 0, .runs = runs + 3}, {.rank = 1, .runs = runs}};
    pthread_barrier_t over;
    pthread_t thread;
    pthread_barrier_init(&over, NULL, 2);
    for (int r = 0; r < 2; r++) {
        members[r].data = data;
        members[r].size = size;
        members[r].over = &over;
        snprintf(members[r].meeting, sizeof members[r].meeting, "/tmp/ingot-missing-rank-%d-%d", (int)getpid(), runs);
    }
    assert_int_equal(pthread_create(&thread, NULL, take_part, &members[1]), 0);
    take_part(&members[0]);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&over);
    assert_string_equal(members[1].error.message, "");
    assert_int_equal(members[1].has_results, runs > 0);
    assert_int_equal(members[0].status, INGOT_TIMEOUT);
    if (!strstr(members[0].error.message, "rank 0 waited")) fail_msg("%s", members[0].error.message);
    assert_false(members[0].has_results);
    for (int r = 0; r < 2; r++)
        if (members[r].later == INGOT_OK || !strstr(members[r].later_error.message, "rank 0"))
            fail_msg("rank %d: %s", r, members[r].later_error.message);
}

static void test_missing_rank(void **state) {
    const struct network w = {64, 96, 2, false, 128, {-1}, NULL, false};
    struct weights all[LAYERS] = {make_weights(&w, 0), make_weights(&w, 1)};
    struct ingot_model *model = network_finish(describe(&w, all));
    void *data;
    size_t size;
    build(model, &w, &data, &size);
    miss_rank(data, size, 0);
    if (!apart) miss_rank(data, size, 4); /* the stand-in for NCCL waits for ever */
    ingot_blob_release(model, data, size);
    ingot_model_destroy(model);
    drop_weights(all);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_rows),   cmocka_unit_test(test_long_rows),
        cmocka_unit_test(test_pushed_rows),  cmocka_unit_test(test_rank_cannot_begin),
        cmocka_unit_test(test_missing_rank),
    };
    if (argc > 1) target = argv[1];
    apart = argc > 2;
    joins = strncmp(target, "cuda", 4) == 0 && !apart;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
