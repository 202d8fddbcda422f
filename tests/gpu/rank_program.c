/*
 * What tools/gpu-check-ranks starts: runs an engine again and again on random inputs, always the same, as one of several
 * processes (INGOT_RANK, INGOT_RANKS, INGOT_RENDEZVOUS) or in threads, and prints a digest of the results of each run.
 *
 *     rank_program ENGINE processes|THREADS[/GPUS] RUNS SECONDS [again|mixed]
 *
 * GPUS: threads share so many, with the same bits for each such number; else each has its own. RUNS 0: until something fails, and only the first digest. SECONDS: the group's time limit. again: after a failure it
 * leaves the group, joins a new one and runs once. mixed: every run has one of some random sizes, must give what the first run of
 * these sizes gave, and there is one digest of all. Rank r takes GPU r if the engine is for GPUs.
 *
 * Each run is enqueued behind another one that is not waited for: of the same sizes, or if mixed, in every second run, of others.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/sizes.h"
#include "cli.h"
#include "random.h"
#include "session.h"

enum { MIXED = 24, TOLD_EVERY = 10000 };

struct order {
    const char *engine;
    unsigned threads; /* 0: processes */
    unsigned gpus;    /* that threads share; 0: each has its own */
    long runs;
    double seconds;
    bool mixed;
};

/* Rows of 8 bytes, then what is left. */
static uint64_t digest_of(uint64_t digest, const void *data, size_t size) {
    const char *at = data;
    for (uint64_t word; size > 0;
         at += sizeof word < size ? sizeof word : size, size -= sizeof word < size ? sizeof word : size) {
        word = 0;
        memcpy(&word, at, sizeof word < size ? sizeof word : size);
        digest = (digest ^ word) * 0x9e3779b97f4a7c15u;
        digest ^= digest >> 29;
    }
    return digest;
}

static enum ingot_status join(const struct order *order, struct ingot_group **out_group, struct ingot_error *error) {
    struct ingot_group_options options = INGOT_GROUP_OPTIONS_INIT;
    options.environment = (const char *const *)environ;
    options.seconds = order->seconds;
    return ingot_group_join(&options, out_group, error);
}

static enum ingot_status open_session(const struct order *order, struct session *session, struct ingot_error *error) {
    struct ingot_load_options options = INGOT_LOAD_OPTIONS_INIT;
    options.ranks = order->threads;
    if (order->threads == 0) CLI_TRY(join(order, &options.group, error));
    session->rank = ingot_group_rank(options.group);
    enum ingot_status status = ingot_engine_load(order->engine, &options, &session->engine, error);
    ingot_group_release(options.group); /* the engine has a reference */
    CLI_TRY(status);
    session_ask(session);
    struct context_arguments arguments = {.device = session_is_gpu(session) ? session->rank : 0, .gpus = order->gpus};
    return session_context(session, &arguments, CLOCK_NONE, error);
}

static enum ingot_status run(struct session *session, uint64_t *out_digest, struct ingot_error *error) {
    struct ingot_tensor tensor;
    CLI_TRY(ingot_context_run(session->context, error));
    *out_digest = 0;
    for (size_t i = 0; i < session->n_outputs; i++) {
        CLI_TRY(ingot_context_output(session->context, i, &tensor, error));
        size_t size = (size_t)ingot_tensor_elements(&tensor) * ingot_dtype_size(tensor.dtype);
        *out_digest = digest_of(*out_digest, tensor.data, size);
    }
    return INGOT_OK;
}

static enum ingot_status run_alike(const struct order *order, struct session *session, struct ingot_tensor *inputs,
                                   struct ingot_error *error) {
    CLI_TRY(inputs_bind(session, inputs, error));
    for (long i = 0; order->runs == 0 || i < order->runs; i++) {
        uint64_t digest;
        CLI_TRY(ingot_context_enqueue(session->context, NULL, error));
        CLI_TRY(run(session, &digest, error));
        if (i == 0 || order->runs > 0) printf("run %016llx\n", (unsigned long long)digest);
    }
    return INGOT_OK;
}

/* In the same random order on all ranks. */
static enum ingot_status run_mixed(const struct order *order, struct session *session, struct sizes *sizes,
                                   struct ingot_error *error) {
    uint64_t state = 1, all = 0, digest, first[MIXED] = {0};
    struct ingot_tensor *inputs = sizes->largest;
    long told = 0;
    for (long i = 0; order->runs == 0 || i < order->runs; i++) {
        size_t which = random_next(&state) % MIXED;
        for (size_t k = 0; k < sizes->n_inputs; k++)
            memcpy(inputs[k].dims, sizes->shapes[which * sizes->n_inputs + k].dims, sizeof inputs[k].dims);
        CLI_TRY(inputs_bind(session, inputs, error));
        if (random_next(&state) % 2) {
            CLI_TRY(ingot_context_enqueue(session->context, NULL, error));
            continue;
        }
        CLI_TRY(run(session, &digest, error));
        if (first[which] && first[which] != digest)
            return cli_error(error, INGOT_INTERNAL, "run %ld has other bits than the first of these sizes", i);
        first[which] = digest;
        all = digest_of(all, &digest, sizeof digest);
        if (i / TOLD_EVERY != told) printf("done %ld\n", (told = i / TOLD_EVERY) * TOLD_EVERY);
    }
    printf("run %016llx\n", (unsigned long long)all);
    return INGOT_OK;
}

static enum ingot_status run_all(const struct order *order, struct session *session, struct ingot_error *error) {
    const struct context_arguments arguments = {.device = session_is_gpu(session) ? session->rank : 0};
    struct option_list none = {0};
    const struct stream stream = {&none, &arguments, .seed = 1, .data_seed = 1};
    struct tensor_list given = {0};
    struct sizes sizes = {0};
    struct ingot_tensor *inputs;
    CLI_TRY(inputs_prepare(session->inputs, session->n_inputs, &none, &none, 1, &given, &inputs, error));
    enum ingot_status status =
        order->mixed ? sizes_init_stream(&sizes, session, inputs, &stream, &given, error) : INGOT_OK;
    if (status == INGOT_OK)
        status = order->mixed ? run_mixed(order, session, &sizes, error) : run_alike(order, session, inputs, error);
    if (order->mixed) sizes_deinit(&sizes);
    free(inputs);
    tensor_list_free(&given);
    return status;
}

static enum ingot_status attend(const struct order *order) {
    struct ingot_error error;
    struct session session = {.build_ms = -1};
    enum ingot_status status = open_session(order, &session, &error);
    if (status == INGOT_OK) status = run_all(order, &session, &error);
    if (status != INGOT_OK) printf("%s: %s\n", ingot_status_name(status), error.message);
    session_close(&session);
    return status;
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 5) {
        fputs("usage: rank_program ENGINE processes|THREADS[/GPUS] RUNS SECONDS [again|mixed]\n", stderr);
        return 2;
    }
    const char *how = argc > 5 ? argv[5] : "";
    const char *gpus = strchr(argv[2], '/');
    struct order order = {argv[1],
                          (unsigned)strtoul(argv[2], NULL, 10),
                          gpus ? (unsigned)strtoul(gpus + 1, NULL, 10) : 0,
                          strtol(argv[3], NULL, 10),
                          strtod(argv[4], NULL),
                          strcmp(how, "mixed") == 0};
    enum ingot_status status = attend(&order);
    if (status != INGOT_OK && strcmp(how, "again") == 0) {
        order.runs = 1;
        status = attend(&order);
    }
    return status == INGOT_OK ? 0 : 4;
}
