/*
 * What tools/gpu-check-ranks starts: runs an engine again and again on random inputs, always the same, as one of several
 * processes (INGOT_RANK, INGOT_RANKS, INGOT_RENDEZVOUS) or in threads, and prints a digest of the results of each run.
 *
 *     rank_program ENGINE processes|THREADS RUNS SECONDS [again]
 *
 * RUNS 0: until something fails, and only the first digest. SECONDS: the group's time limit. again: after a failure it
 * leaves the group, joins a new one and runs once. Rank r takes GPU r if the engine is for GPUs.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "session.h"

struct order {
    const char *engine;
    unsigned threads; /* 0: processes */
    long runs;
    double seconds;
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
    session->n_inputs = ingot_engine_input_count(session->engine);
    session->n_outputs = ingot_engine_output_count(session->engine);
    session->inputs = cli_alloc(session->n_inputs, sizeof *session->inputs);
    session->outputs = cli_alloc(session->n_outputs, sizeof *session->outputs);
    for (size_t i = 0; i < session->n_inputs; i++)
        ingot_engine_input(session->engine, i, &session->inputs[i]);
    for (size_t i = 0; i < session->n_outputs; i++)
        ingot_engine_output(session->engine, i, &session->outputs[i]);
    struct context_arguments arguments = {.device = session_is_gpu(session) ? session->rank : 0};
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

static enum ingot_status run_all(const struct order *order, struct session *session, struct ingot_error *error) {
    struct option_list none = {0};
    struct tensor_list given = {0};
    struct ingot_tensor *inputs;
    CLI_TRY(inputs_prepare(session->inputs, session->n_inputs, &none, &none, 1, &given, &inputs, error));
    enum ingot_status status = inputs_bind(session, inputs, error);
    for (long i = 0; status == INGOT_OK && (order->runs == 0 || i < order->runs); i++) {
        uint64_t digest;
        status = run(session, &digest, error);
        if (status == INGOT_OK && (i == 0 || order->runs > 0)) printf("run %016llx\n", (unsigned long long)digest);
    }
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
        fputs("usage: rank_program ENGINE processes|THREADS RUNS SECONDS [again]\n", stderr);
        return 2;
    }
    struct order order = {argv[1], (unsigned)strtoul(argv[2], NULL, 10), strtol(argv[3], NULL, 10),
                          strtod(argv[4], NULL)};
    enum ingot_status status = attend(&order);
    if (status != INGOT_OK && argc > 5) {
        order.runs = 1;
        status = attend(&order);
    }
    return status == INGOT_OK ? 0 : 4;
}
