/*
 * Random networks that ranks compute together, through the whole compiler and the runtime, against the reference evaluator: each
 * is an engine with plans for two, three and four ranks, which run as threads of a context, with a processor or GPU each, with more
 * threads, or on one GPU or two for all, and as members of a group, of which
 * each has the whole results, with the same bits; but where they are stages of a pipeline, others than rank 0 may have nothing. Inputs are small whole numbers; where all steps are exact, results must be
 * equal. Runs have several sizes of the symbols, also smaller ones than there are ranks, and are repeated.
 *
 *     random_ranks_test [--target TARGET] [FIRST [COUNT]]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compile/compile.h"
#include "ir/eval/eval.h"
#include "support/plan/engine_bytes.h"
#include "support/random/random_network.h"
#include "support/support.h"
#include "verify/compare.h"

enum { NETWORKS = 12, MAX_INPUTS = 2, MAX_OUTPUTS = 2, BINDINGS = 3, TURNS = BINDINGS + 1, FEWEST = 2, MOST = 4 };

static const unsigned degrees[] = {2, 3, 4};
/* Ways to divide the networks, in turn. */
static const char *const ways[] = {"pipeline", "tensor", "mixed", "batch"};

struct trial {
    uint64_t seed;
    struct random_maker m;
    struct engine_bytes bytes;
    struct ingot_tensor inputs[BINDINGS][MAX_INPUTS], expected[BINDINGS][MAX_OUTPUTS];
};

static const char *target; /* NULL: this machine's processor */

/* How many plans have had collectives, so that the test tests something. */
static unsigned divided;

static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* ---- Networks and engines ---------------------------------------------------------------------------------------- */

static struct ingot_tensor make_input(struct trial *t, uint32_t index) {
    struct random_maker *m = &t->m;
    struct ig_type type = *ig_type_of(m->g, m->g->inputs.at[index].value);
    struct ingot_tensor x = {.dtype = type.dtype, .rank = type.rank};
    for (int i = 0; i < type.rank; i++)
        x.dims[i] = random_size(m, type.dim[i]);
    int64_t count = ingot_tensor_elements(&x);
    float *numbers = ig_alloc(m->job, (size_t)count * sizeof *numbers + 64);
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (float)((int)(mixed(t->seed * 1000003 + index * 7919 + (uint64_t)i) % 9) - 4);
    x.data = numbers;
    return x;
}

static void choose_sizes(struct trial *t, int binding) {
    static const int64_t batches[] = {2, 1, 5, 3, 8}, lengths[] = {7, 33, 1, 17, 4, 64};
    uint64_t r = mixed(t->seed + 77);
    t->m.sizes[0] = batches[(r + (uint64_t)binding) % 5];
    t->m.sizes[1] = lengths[(r / 5 + 2 * (uint64_t)binding) % 6];
}

static const char *way_of(const struct trial *t) {
    return ways[t->seed % 4];
}

static void build(struct trial *t) {
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    options.ranks = degrees;
    options.n_ranks = sizeof degrees / sizeof *degrees;
    options.sharding = way_of(t);
    options.opt_level = t->seed % 5 == 3 ? 1 : 3;
    options.jobs = 1;
    options.target = target;
    options.verify_passes = true;
    struct ig_engine_sink sink = engine_bytes_sink(&t->bytes, t->m.job);
    ig_compile(t->m.job, t->m.g, &options, &sink);
}

/* ---- Runs -------------------------------------------------------------------------------------------------------- */

/* A rank, or a context of several: what its runs gave. */
struct runner {
    struct trial *t;
    unsigned rank, ranks;
    bool is_pipeline;
    const char *meeting; /* NULL: the ranks are threads of the context */
    unsigned threads;    /* of each rank of a context; 0: 1 */
    unsigned gpus;       /* that they share; 0: each has its own */
    pthread_t thread;
    void *results[TURNS][MAX_OUTPUTS];
    struct ingot_tensor tensors[TURNS][MAX_OUTPUTS]; /* with these as data */
    enum ingot_status status;
    struct ingot_error error;
};

static enum ingot_status join(struct runner *r, struct ingot_group **out_group) {
    char own[40], all[40], place[200];
    const char *const environment[] = {own, all, place, NULL};
    struct ingot_group_options options = INGOT_GROUP_OPTIONS_INIT;
    snprintf(own, sizeof own, "INGOT_RANK=%u", r->rank);
    snprintf(all, sizeof all, "INGOT_RANKS=%u", r->ranks);
    snprintf(place, sizeof place, "INGOT_RENDEZVOUS=%s", r->meeting);
    options.environment = environment;
    options.seconds = 120;
    return ingot_group_join(&options, out_group, &r->error);
}

static enum ingot_status load(struct runner *r, struct ingot_engine **out_engine) {
    struct ingot_load_options options = INGOT_LOAD_OPTIONS_INIT;
    enum ingot_status status = INGOT_OK;
    if (r->meeting)
        status = join(r, &options.group);
    else
        options.ranks = r->ranks;
    if (status == INGOT_OK)
        status = ingot_engine_load_memory(r->t->bytes.data, r->t->bytes.size, &options, out_engine, &r->error);
    ingot_group_release(options.group); /* the engine has a reference */
    return status;
}

/* The sizes as they come, and once more the first ones. */
static enum ingot_status run_turns(struct runner *r, struct ingot_context *context) {
    const struct ig_graph *g = r->t->m.g;
    enum ingot_status status = INGOT_OK;
    for (int k = 0; status == INGOT_OK && k < TURNS; k++) {
        for (uint32_t i = 0; status == INGOT_OK && i < g->inputs.count; i++)
            status = ingot_context_set_input(context, i, &r->t->inputs[k % BINDINGS][i], &r->error);
        if (status == INGOT_OK) status = ingot_context_run(context, &r->error);
        for (uint32_t o = 0; status == INGOT_OK && o < g->outputs.count; o++) {
            struct ingot_tensor *to = &r->tensors[k][o];
            status = ingot_context_output(context, o, to, &r->error);
            if (status != INGOT_OK) break;
            size_t size = (size_t)ingot_tensor_elements(to) * ingot_dtype_size(to->dtype);
            r->results[k][o] = malloc(size + 1);
            if (!r->results[k][o]) abort();
            if (size) memcpy(r->results[k][o], to->data, size);
            to->data = r->results[k][o];
        }
    }
    return status;
}

static void *run(void *argument) {
    struct runner *r = argument;
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    struct ingot_engine *engine = NULL;
    struct ingot_context *context = NULL;
    options.threads = r->meeting ? 1 : r->ranks * (r->threads ? r->threads : 1);
    options.gpus = r->gpus;
    options.device =
        target ? (int)r->rank : 0; /* each rank has a GPU; those of a context are the first one's neighbours */
    r->status = load(r, &engine);
    if (r->status == INGOT_OK) r->status = ingot_context_create(engine, &options, &context, &r->error);
    if (r->status == INGOT_OK) r->status = run_turns(r, context);
    ingot_context_destroy(context);
    ingot_engine_release(engine);
    return NULL;
}

static void drop(struct runner *r) {
    for (int k = 0; k < TURNS; k++)
        for (int o = 0; o < MAX_OUTPUTS; o++)
            free(r->results[k][o]);
}

/* ---- Comparing --------------------------------------------------------------------------------------------------- */

static void compare(struct runner *r, const struct runner *first) {
    static const struct tolerance exact;
    struct trial *t = r->t;
    const char *how = r->meeting ? "in a group" : "in a context";
    struct tolerance tolerance = exact;
    char difference[300];
    if (r->status != INGOT_OK)
        ig_raise(t->m.job, INGOT_INTERNAL, "rank %u of %u %s: %s", r->rank, r->ranks, how, r->error.message);
    if (!t->m.exact) tolerance = tolerance_of_build(&(struct build_arguments){.precision = "fp32"});
    if (!t->m.exact) tolerance.atol = 1e-5; /* results may be differences of numbers of size 1 */
    for (int k = 0; k < TURNS; k++) {
        for (uint32_t o = 0; o < t->m.g->outputs.count; o++) {
            const struct ingot_tensor *got = &r->tensors[k][o];
            const struct ingot_tensor *again = k == BINDINGS ? &r->tensors[0][o] : got;
            size_t size = (size_t)ingot_tensor_elements(got) * ingot_dtype_size(got->dtype);
            if (r->is_pipeline && r->meeting && r->rank > 0 && got->rank > 0 && got->dims[0] == 0)
                continue; /* rank 0 has it */
            if (!tensors_agree(got, &t->expected[k % BINDINGS][o], &tolerance, difference, sizeof difference))
                ig_raise(t->m.job, INGOT_INTERNAL, "rank %u of %u %s, sizes %d%s: %s", r->rank, r->ranks, how, k,
                         t->m.exact ? ", exact" : "", difference);
            if (memcmp(got->data, first->tensors[k][o].data, size) != 0)
                ig_raise(t->m.job, INGOT_INTERNAL, "rank %u of %u %s, sizes %d: other bits than rank 0", r->rank,
                         r->ranks, how, k);
            if (memcmp(got->data, again->data, size) != 0)
                ig_raise(t->m.job, INGOT_INTERNAL, "rank %u of %u %s: other bits in another run", r->rank, r->ranks,
                         how);
        }
    }
}

/* As a context of so many threads, and as a group of so many. */
static void check_ranks(struct trial *t, unsigned ranks) {
    static unsigned meetings;
    struct runner context = {.t = t, .ranks = ranks}, members[MOST] = {{0}};
    char meeting[60];
    snprintf(meeting, sizeof meeting, "/tmp/ingot-random-ranks-%d-%u", (int)getpid(), meetings++);
    run(&context);
    for (unsigned r = 0; r < ranks; r++) {
        members[r] = (struct runner){
            .t = t, .rank = r, .ranks = ranks, .is_pipeline = strcmp(way_of(t), "pipeline") == 0, .meeting = meeting};
        if (target && t->seed % 2) members[r].gpus = ranks;
        if (pthread_create(&members[r].thread, NULL, run, &members[r])) abort();
    }
    for (unsigned r = 0; r < ranks; r++)
        pthread_join(members[r].thread, NULL);
    compare(&context, &context);
    for (unsigned r = 0; r < ranks; r++)
        compare(&members[r], &context);
    for (unsigned more = 1; more <= 2; more++) {
        struct runner other = {.t = t, .ranks = ranks, .threads = more + 1, .gpus = target ? more : 0};
        run(&other);
        compare(&other, &context);
        drop(&other);
    }
    drop(&context);
    for (unsigned r = 0; r < ranks; r++)
        drop(&members[r]);
}

/* ---- Trials ------------------------------------------------------------------------------------------------------ */

static void count_divided(struct trial *t) {
    struct ig_engine_file file;
    struct ingot_error error;
    if (ig_engine_open_memory(t->bytes.data, t->bytes.size, INGOT_VERIFY_ALL, &ig_libc_allocator, &file, &error))
        ig_raise_error(t->m.job, &error);
    divided += file.plan.n_collectives > 0;
    ig_engine_close(&file);
}

static void try_network(struct ig_job *job, void *argument) {
    struct trial *t = argument;
    t->m = (struct random_maker){.job = job,
                                 .g = ig_graph_create(job, ig_dims_create(job)),
                                 .state = mixed(t->seed * 2 + 1),
                                 .sizes = {3, 33},
                                 .max_elements = 20000,
                                 .whole = true,
                                 .exact = true,
                                 .tables = true,
                                 .largest = 1 << 24};
    random_network(&t->m, 2 + (int)(mixed(t->seed) % 7));
    for (int b = 0; b < BINDINGS; b++) {
        choose_sizes(t, b);
        for (uint32_t i = 0; i < t->m.g->inputs.count; i++)
            t->inputs[b][i] = make_input(t, i);
        ig_eval_graph(job, t->m.g, t->inputs[b], t->expected[b]);
    }
    build(t);
    count_divided(t);
    for (unsigned ranks = FEWEST; ranks <= MOST; ranks++)
        check_ranks(t, ranks);
    for (int b = 0; b < BINDINGS; b++)
        for (uint32_t o = 0; o < t->m.g->outputs.count; o++)
            ig_eval_release(job, &t->expected[b][o]);
}

/* False: it failed, and this says how. */
static bool try_one(uint64_t seed, char *out_text, size_t size) {
    struct trial t = {.seed = seed};
    struct ingot_error error;
    struct ig_job job;
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, try_network, &t, &error);
    if (status != INGOT_OK)
        snprintf(out_text, size, "network %llu by %s: %.800s", (unsigned long long)seed, ways[seed % 4], error.message);
    ig_job_deinit(&job);
    return status == INGOT_OK;
}

static void test_some(void **state) {
    char text[INGOT_ERROR_MESSAGE_SIZE];
    for (uint64_t seed = 0; seed < NETWORKS; seed++)
        if (!try_one(seed, text, sizeof text)) fail_msg("%s", text);
    assert_true(divided >= NETWORKS / 4); /* of most networks, no part is worth an exchange */
}

static int try_many(uint64_t first, uint64_t count) {
    char text[INGOT_ERROR_MESSAGE_SIZE];
    unsigned failed = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (try_one(seed, text, sizeof text)) continue;
        puts(text);
        fflush(stdout);
        failed++;
    }
    printf("%u of %llu failed, %u have collectives\n", failed, (unsigned long long)count, divided);
    return failed > 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_some)};
    if (argc > 2 && strcmp(argv[1], "--target") == 0) {
        target = argv[2];
        argv += 2, argc -= 2;
    }
    if (argc > 1) return try_many(strtoull(argv[1], NULL, 10), argc > 2 ? strtoull(argv[2], NULL, 10) : 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
