/* ingot bench: latency, throughput, memory, time per kernel; bench_gpu.c adds the figures of GPUs, bench_contexts.c those
 * of several contexts at once. */
#include <jansson.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "folder.h"

#define MAX_CONTEXTS 1024
#define MAX_INFLIGHT 1024

/* ---- The machine */

/* The text after the colon of the line of a /proc file that starts with `key`; the caller frees it. NULL: none. */
static char *proc_field(const char *path, const char *key) {
    char line[512];
    FILE *file = fopen(path, "r");
    if (!file) return NULL;
    while (fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || !colon) continue;
        fclose(file);
        colon += 1 + strspn(colon + 1, " \t");
        colon[strcspn(colon, "\n")] = 0;
        return cli_strdup(colon);
    }
    fclose(file);
    return NULL;
}

static char *device_name(const struct bench_arguments *a, const struct session *session) {
    struct ingot_gpu_info gpu;
    if (session_is_gpu(session))
        return cli_strdup(ingot_gpu_describe((int)a->context.device, &gpu, NULL) == INGOT_OK ? gpu.name
                                                                                             : "unknown GPU");
    char *name = proc_field("/proc/cpuinfo", "model name");
    return name ? name : cli_strdup("unknown processor");
}

/* Resets the peak of resident memory. If the kernel does not support that, the peak includes the build. */
static void reset_peak(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    malloc_trim(0); /* memory left over from the build does not count as the engine's */
    if (!file) return;
    fputs("5", file);
    fclose(file);
}

size_t peak_bytes(void) {
    char *text = proc_field("/proc/self/status", "VmHWM");
    size_t bytes = text ? (size_t)strtoull(text, NULL, 10) * 1024 : 0;
    free(text);
    return bytes;
}

/* ---- Measuring */

static enum ingot_status run_and_take(struct session *session, struct taker *taker, struct ingot_error *error) {
    CLI_TRY(ingot_context_run(session->context, error));
    return taker_take(taker, error);
}

static enum ingot_status measure(const struct bench_arguments *a, struct session *session, struct taker *taker,
                                 struct measurement *m, struct ingot_error *error) {
    for (double warm = now_ms(), runs = 0; runs < 3 || (runs < 50 && now_ms() - warm < 100 * a->seconds); runs++) {
        CLI_TRY(run_and_take(session, taker, error));
    }
    double start = now_ms(), last = start;
    while (last - start < 1e3 * a->seconds || m->latency.count < 5) {
        if (samples_make_room(&m->latency)) last = now_ms();
        CLI_TRY(run_and_take(session, taker, error));
        double now = now_ms();
        samples_add(&m->latency, now - last);
        last = now;
    }
    m->total_ms = last - start;
    samples_sort(&m->latency);
    m->peak_bytes = peak_bytes();
    const size_t room = sizeof m->exchanges / sizeof *m->exchanges;
    m->n_exchanges = ingot_context_exchanges(session->context, m->exchanges, room);
    if (m->n_exchanges > room) m->n_exchanges = room;
    return ingot_context_memory(session->context, &m->memory, error);
}

/* Are single kernels to be timed? */
static bool wants_profile(const struct bench_arguments *a) {
    return a->profile || a->cliffs.given;
}

static enum ingot_status measure_host(const struct bench_arguments *a, struct session *session,
                                      const struct outputs *outputs, struct measurement *m, struct ingot_error *error) {
    struct taker taker;
    enum ingot_status status = taker_init(&taker, outputs, session->context, INGOT_HOST, 1, error);
    if (status == INGOT_OK) status = measure(a, session, &taker, m, error);
    taker_deinit(&taker);
    return status;
}

static enum ingot_status run_kernels(const struct bench_arguments *a, struct session *session, struct measurement *m,
                                     struct ingot_error *error) {
    double start = now_ms();
    for (; m->profiled_runs < 5 || (m->profiled_runs < 1000 && now_ms() - start < 500 * a->seconds); m->profiled_runs++)
        CLI_TRY(ingot_context_run(session->context, error));
    return INGOT_OK;
}

/* Timing a whole run does not disturb the GPU, profiling its parts does: each measurement has its own context. */
static enum ingot_status measure_gpu(const struct bench_arguments *a, struct session *session,
                                     const struct ingot_tensor *tensors, const struct outputs *outputs,
                                     struct measurement *m, struct ingot_error *error) {
    struct taker taker;
    CLI_TRY(bench_enqueue(a, session, tensors, outputs, &m->gpu, error));
    CLI_TRY(session_context(session, &a->context, CLOCK_RUNS, error));
    CLI_TRY(inputs_bind(session, tensors, error));
    enum ingot_status status = taker_init(&taker, outputs, session->context, INGOT_HOST, 1, error);
    if (status == INGOT_OK) status = bench_clock(a, session, &m->gpu, error);
    taker_deinit(&taker);
    CLI_TRY(status);
    if (!wants_profile(a)) return INGOT_OK;
    CLI_TRY(session_context(session, &a->context, CLOCK_KERNELS, error));
    CLI_TRY(inputs_bind(session, tensors, error));
    return run_kernels(a, session, m, error);
}

/* Otherwise one context runs singly, always with the same shapes. */
static bool is_concurrent(const struct bench_arguments *a) {
    return a->contexts > 1 || a->inflight > 1 || a->stream.given;
}

static enum ingot_status bench_singly(const struct bench_arguments *a, struct session *session,
                                      const struct ingot_tensor *tensors, struct measurement *m,
                                      struct ingot_error *error) {
    struct outputs outputs;
    bool gpu = session_is_gpu(session);
    sizes_init_fixed(&m->contexts.sizes, session, tensors);
    enum ingot_status status = outputs_init(&outputs, a->mode, session, &m->contexts.sizes, error);
    if (status == INGOT_OK)
        status = session_context(session, &a->context, wants_profile(a) && !gpu ? CLOCK_KERNELS : CLOCK_NONE, error);
    if (status == INGOT_OK) status = inputs_bind(session, tensors, error);
    if (status == INGOT_OK) status = measure_host(a, session, &outputs, m, error);
    if (status == INGOT_OK && gpu) status = measure_gpu(a, session, tensors, &outputs, m, error);
    outputs_deinit(&outputs);
    if (status == INGOT_OK && wants_profile(a)) profile_take(session, a->cliffs.value, m);
    return status;
}

static enum ingot_status bench(const struct bench_arguments *a, struct session *session, struct tensor_list *given,
                               struct measurement *m, struct ingot_error *error) {
    struct ingot_tensor *tensors;
    CLI_TRY(inputs_prepare(session->inputs, session->n_inputs, &a->inputs, &a->build.shapes, a->seed, given, &tensors,
                           error));
    enum ingot_status status = is_concurrent(a) ? bench_contexts(a, session, tensors, given, m, error)
                                                : bench_singly(a, session, tensors, m, error);
    free(tensors);
    return status;
}

/* ---- Reporting */

static double average_ms(const struct measurement *m) {
    return m->total_ms / (double)m->latency.count;
}

static void print_samples(const char *title, const struct samples *s, bool tail, const char *unit) {
    printf("%-12smin %.3f  p50 %.3f  p90 %.3f  p99 %.3f", title, s->at[0], samples_part(s, 0.5), samples_part(s, 0.9),
           samples_part(s, 0.99));
    if (tail) printf("  p99.9 %.3f", samples_part(s, 0.999));
    printf(" %s", unit);
}

static void print_contexts(const struct bench_arguments *a, const struct contexts_measurement *c) {
    printf("contexts    %u, up to %u in flight each", a->contexts, a->inflight);
    for (size_t i = 0; i < c->sizes.n_ranges; i++) {
        const struct symbol_range *range = &c->sizes.ranges[i];
        printf("%s%s from %lld to %lld", i ? ", " : "; ", range->name, (long long)range->lo, (long long)range->hi);
        if (range->step > 1) printf(" in steps of %lld", (long long)range->step);
    }
    putchar('\n');
}

static void print_buckets(const struct buckets *buckets) {
    const struct ingot_batch_info *info = &buckets->info;
    printf("buckets     %s rounded up to ", buckets->symbol);
    for (size_t i = 0; i < buckets->n_sizes; i++)
        printf("%s%lld", i ? ", " : "", (long long)buckets->sizes[i]);
    printf(": padding is %.1f%% of the rows; %llu of %llu runs captured first\n", 100 * buckets_padded(buckets),
           (unsigned long long)info->captures, (unsigned long long)info->runs);
}

static void print_text(const struct bench_arguments *a, const struct session *session, const struct measurement *m) {
    char *device = device_name(a, session);
    printf("device      %s\n", device);
    if (session->build_ms >= 0) printf("build       %.0f ms\n", session->build_ms);
    printf("load        %.2f ms\n", session->load_ms);
    if (is_concurrent(a)) print_contexts(a, &m->contexts);
    if (a->buckets) print_buckets(&m->contexts.buckets);
    printf("outputs     %s\n", outputs_mode_name(a->mode));
    print_samples("latency", &m->latency, is_concurrent(a), "ms");
    printf(" (%zu runs)\n", m->latency.count);
    if (m->gpu.compute.count) {
        print_samples("pinned", &m->gpu.pinned, false, "ms, from pinned memory to pinned memory\n");
        print_samples("gpu time", &m->gpu.compute, false, "ms\n");
        printf("transfers   inputs %.4f ms, outputs %.4f ms\n", m->gpu.input_ms, m->gpu.output_ms);
        print_samples("enqueue", &m->gpu.enqueue, false, "us of the host's time, behind a run under way\n");
        print_samples("  in a row", &m->gpu.row, false, "us, behind two runs and more\n");
        print_samples("  idle", &m->gpu.idle, false, "us, while the GPU has nothing to do\n");
    }
    printf("throughput  %.1f /s", 1e3 / average_ms(m));
    if (m->gpu.compute.count) printf(", enqueued in a row %.1f /s", m->gpu.row_per_s);
    if (m->contexts.samples > 0) printf(", %.1f samples/s", 1e3 * m->contexts.samples / m->total_ms);
    putchar('\n');
    if (a->contexts > 1)
        printf("fairness    least served %zu runs, most served %zu\n", m->contexts.least, m->contexts.most);
    printf("memory      peak %.1f MB: weights %.1f, activations %.1f (lower bound %.1f), scratch %.1f MB\n",
           (double)m->peak_bytes / 1e6, (double)m->memory.weights_bytes / 1e6, (double)m->memory.arena_bytes / 1e6,
           (double)m->memory.lower_bound_bytes / 1e6, (double)m->memory.scratch_bytes / 1e6);
    if (m->memory.exchange_bytes) printf("exchanges   %.1f MB of memory\n", (double)m->memory.exchange_bytes / 1e6);
    if (m->memory.nccl_bytes)
        printf("NCCL        %.1f MB of memory, as measured on rank 0's GPU\n", (double)m->memory.nccl_bytes / 1e6);
    for (size_t i = 0; i < m->n_exchanges; i++) {
        const struct ingot_exchange_row *row = &m->exchanges[i];
        printf("%-12s%s of %.1f MB by %s: a kernel takes %.1f us, NCCL %.1f\n", i ? "" : "measured", row->collective,
               (double)row->bytes / 1e6, row->by_nccl ? "NCCL" : "a kernel", row->kernel_us, row->nccl_us);
    }
    if (a->profile) profile_print(m);
    if (a->cliffs.given) cliffs_print(m, a->cliffs.value);
    free(device);
}

static json_t *samples_json(const struct samples *s) {
    return json_pack("{s:f, s:f, s:f, s:f}", "min", s->at[0], "p50", samples_part(s, 0.5), "p90", samples_part(s, 0.9),
                     "p99", samples_part(s, 0.99));
}

static void add_gpu_json(json_t *object, const struct gpu_measurement *gpu) {
    json_object_set_new(object, "gpu_ms", samples_json(&gpu->compute));
    json_object_set_new(object, "pinned_latency_ms", samples_json(&gpu->pinned));
    json_object_set_new(object, "enqueue_us", samples_json(&gpu->enqueue));
    json_object_set_new(object, "enqueue_row_us", samples_json(&gpu->row));
    json_object_set_new(object, "enqueue_idle_us", samples_json(&gpu->idle));
    json_object_set_new(object, "throughput_in_a_row_per_s", json_real(gpu->row_per_s));
    json_object_set_new(object, "transfer_ms",
                        json_pack("{s:f, s:f}", "inputs", gpu->input_ms, "outputs", gpu->output_ms));
}

static void add_contexts_json(json_t *object, const struct bench_arguments *a, const struct measurement *m) {
    const struct contexts_measurement *c = &m->contexts;
    json_object_set_new(json_object_get(object, "latency_ms"), "p99.9", json_real(samples_part(&m->latency, 0.999)));
    json_object_set_new(object, "contexts", json_integer(a->contexts));
    json_object_set_new(object, "inflight", json_integer(a->inflight));
    json_object_set_new(object, "runs_per_context",
                        json_pack("{s:I, s:I}", "least", (json_int_t)c->least, "most", (json_int_t)c->most));
    if (c->samples > 0) json_object_set_new(object, "samples_per_s", json_real(1e3 * c->samples / m->total_ms));
    if (!a->stream.given) return;
    json_t *ranges = json_object();
    for (size_t i = 0; i < c->sizes.n_ranges; i++) {
        const struct symbol_range *range = &c->sizes.ranges[i];
        json_object_set_new(
            ranges, range->name,
            json_pack("[I, I, I]", (json_int_t)range->lo, (json_int_t)range->hi, (json_int_t)range->step));
    }
    json_object_set_new(object, "stream_of_sizes",
                        json_pack("{s:I, s:o}", "seed", (json_int_t)a->stream.value, "ranges", ranges));
}

static json_t *buckets_json(const struct buckets *buckets) {
    const struct ingot_batch_info *info = &buckets->info;
    json_t *sizes = json_array();
    for (size_t i = 0; i < buckets->n_sizes; i++)
        json_array_append_new(sizes, json_integer(buckets->sizes[i]));
    return json_pack("{s:s, s:o, s:f, s:I, s:I, s:I, s:I}", "symbol", buckets->symbol, "sizes", sizes, "padded",
                     buckets_padded(buckets), "runs", (json_int_t)info->runs, "captures", (json_int_t)info->captures,
                     "plan_bytes", (json_int_t)info->plan_bytes, "padding_bytes", (json_int_t)info->padding_bytes);
}

static json_t *exchanges_json(const struct measurement *m) {
    json_t *rows = json_array();
    for (size_t i = 0; i < m->n_exchanges; i++) {
        const struct ingot_exchange_row *row = &m->exchanges[i];
        json_array_append_new(rows, json_pack("{s:s, s:I, s:f, s:f, s:b}", "collective", row->collective, "bytes",
                                              (json_int_t)row->bytes, "kernel_us", row->kernel_us, "nccl_us",
                                              row->nccl_us, "by_nccl", row->by_nccl));
    }
    return rows;
}

static void print_json(const struct bench_arguments *a, const struct session *session, const struct measurement *m) {
    char *device = device_name(a, session);
    json_t *object = json_pack(
        "{s:s, s:o, s:f, s:I, s:f, s:o, s:I, s:I, s:{s:I, s:I, s:I, s:I, s:I, s:I}}", "device", device, "latency_ms",
        samples_json(&m->latency), "throughput_per_s", 1e3 / average_ms(m), "peak_memory_bytes",
        (json_int_t)m->peak_bytes, "load_ms", session->load_ms, "build_ms",
        session->build_ms >= 0 ? json_real(session->build_ms) : json_null(), "threads", (json_int_t)a->context.threads,
        "runs", (json_int_t)m->latency.count, "memory", "weights_bytes", (json_int_t)m->memory.weights_bytes,
        "arena_bytes", (json_int_t)m->memory.arena_bytes, "lower_bound_bytes", (json_int_t)m->memory.lower_bound_bytes,
        "scratch_bytes", (json_int_t)m->memory.scratch_bytes, "exchange_bytes", (json_int_t)m->memory.exchange_bytes,
        "nccl_bytes", (json_int_t)m->memory.nccl_bytes);
    json_object_set_new(object, "outputs", json_string(outputs_mode_name(a->mode)));
    if (m->n_exchanges) json_object_set_new(object, "exchanges", exchanges_json(m));
    if (m->gpu.compute.count) add_gpu_json(object, &m->gpu);
    if (is_concurrent(a)) add_contexts_json(object, a, m);
    if (a->buckets) json_object_set_new(object, "buckets", buckets_json(&m->contexts.buckets));
    if (a->profile) json_object_set_new(object, "profile", profile_json(m));
    if (a->cliffs.given) json_object_set_new(object, "cliffs", cliffs_json(m));
    json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(object);
    free(device);
}

static void measurement_free(struct measurement *m) {
    free(m->latency.at);
    free(m->gpu.compute.at);
    free(m->gpu.pinned.at);
    free(m->gpu.enqueue.at);
    free(m->gpu.row.at);
    free(m->gpu.idle.at);
    free(m->profile);
    free(m->estimates);
    free(m->estimated_for);
    free(m->cliffs);
    buckets_deinit(&m->contexts.buckets);
    sizes_deinit(&m->contexts.sizes);
}

/* What the options say together; EXIT_DONE if it makes sense. */
static int check_options(struct bench_arguments *a) {
    if (!outputs_mode_read(a->outputs, &a->mode))
        return cli_usage("bench", "--outputs: expected leased, given or fresh, got '%s'", a->outputs);
    if (a->mode == OUTPUTS_FRESH && a->inflight > 1)
        return cli_usage("bench", "--outputs fresh excludes --inflight: only the last run's results can be taken");
    if (a->contexts < 1 || a->contexts > MAX_CONTEXTS)
        return cli_usage("bench", "--contexts: expected 1 to %d, got %u", MAX_CONTEXTS, a->contexts);
    if (a->inflight < 1 || a->inflight > MAX_INFLIGHT)
        return cli_usage("bench", "--inflight: expected 1 to %d, got %u", MAX_INFLIGHT, a->inflight);
    if (wants_profile(a) && is_concurrent(a))
        return cli_usage("bench", "--%s excludes --contexts, --inflight and --stream-of-sizes",
                         a->profile ? "profile" : "cliffs");
    if (a->stream.given && a->inputs.count)
        return cli_usage("bench", "--input excludes --stream-of-sizes, whose inputs are random numbers");
    if (a->buckets && !a->stream.given) return cli_usage("bench", "--buckets is for --stream-of-sizes");
    return EXIT_DONE;
}

int cmd_bench(int argc, char **argv) {
    struct bench_arguments a = {.build = BUILD_ARGUMENTS_DEFAULT,
                                .contexts = 1,
                                .inflight = 1,
                                .outputs = "leased",
                                .seconds = 3,
                                .cliffs.value = 0.2};
    const struct option_row rows[] = {
        {"shape", 's', OPTION_LIST, "NAME=SPEC", "a symbol (batch=4) or input (image=1x3x224x224); repeatable",
         &a.build.shapes},
        {"input", 'i', OPTION_LIST, "NAME=FILE", "a tensor from .npy, .npz or ONNX .pb; repeatable", &a.inputs},
        CONTEXT_OPTION_ROWS(a.context),
        RUN_RANK_OPTION_ROWS(a.build),
        {"seconds", 0, OPTION_NUMBER, "S", "how long to measure (default 3)", &a.seconds},
        {"contexts", 0, OPTION_UNSIGNED, "N", "that run at once, each with a thread of its own (default 1)",
         &a.contexts},
        {"inflight", 0, OPTION_UNSIGNED, "M", "runs that each enqueues before it waits (default 1)", &a.inflight},
        {"stream-of-sizes", 0, OPTION_OPTIONAL, "SEED",
         "every run has random sizes, from the ranges of --shape\nNAME=MIN:OPT:MAX or else of the engine; in steps of "
         "a power\nof two where the model takes no others",
         &a.stream},
        {"buckets", 0, OPTION_TEXT, "SPEC",
         "batches are rounded up: pow2; 1,2,4: to these sizes; 8: to\nthe 8 sizes that pad least", &a.buckets},
        {"outputs", 0, OPTION_TEXT, "MODE",
         "how results are taken: leased (the default), in memory given\nby the caller, or fresh for each run",
         &a.outputs},
        {"seed", 0, OPTION_UNSIGNED, "N", "of the random inputs (default 0)", &a.seed},
        {"profile", 0, OPTION_FLAG, NULL,
         "each kernel's time too, its floor (the least time that this\nmachine could take) and what is lost, the most "
         "first",
         &a.profile},
        {"cliffs", 0, OPTION_SHARE, "[SHARE]",
         "the kernels that take over 2% of a run and reach less than\nSHARE (default 0.2) of their floor; status 1 if "
         "there are any",
         &a.cliffs},
        {"json", 0, OPTION_FLAG, NULL, "one JSON object", &a.json},
        BUILD_OPTION_ROWS(a.build),
        {0},
    };
    const struct option_table table = {"bench", "ENGINE|MODEL [OPTION...]",
                                       "Runs again and again, and prints percentiles of the latency, throughput and "
                                       "memory. Inputs that are not given\n"
                                       "are seeded random numbers; open dims without --shape are 1 along the first "
                                       "axis, 224 along the spatial axes of\n"
                                       "rank 4, 64 elsewhere.\n"
                                       "On a GPU the latency is end to end, run by run, from host memory to host "
                                       "memory. Besides there are: the same from\n"
                                       "pinned memory to pinned memory, which the host need not copy; the GPU's time "
                                       "by its own clock, transfers apart;\n"
                                       "the host's time to enqueue a run of shapes seen before, from pinned memory, "
                                       "behind one that is under way, behind two\n"
                                       "and more (where large results leave beside the next run) and while the GPU is "
                                       "idle; and the throughput of runs\n"
                                       "that are enqueued in a row, so that inputs travel while the run before is "
                                       "computed.\n"
                                       "With --contexts, --inflight or --stream-of-sizes, what a server does: inputs "
                                       "are in pinned memory, a run's latency\n"
                                       "is from its enqueueing to the end of the wait behind it (on the CPU, to its "
                                       "own end), throughput is that of all\n"
                                       "contexts, and fairness says how many runs the least and the most served one "
                                       "had.\n",
                                       rows};
    int status, count = options_parse(&table, argc, argv, &status);
    if (count >= 0 && count != 1) status = cli_usage("bench", "expected one engine or model, got %d", count);
    if (count == 1) status = check_options(&a);
    a.build.device = a.context.device;
    char *machines = cache_machines(a.build.cache);
    a.context.machines = machines;
    if (count == 1 && status == EXIT_DONE) {
        struct ingot_error error;
        struct session session;
        struct tensor_list given = {0};
        struct measurement m = {0};
        enum ingot_status result = session_open(&session, argv[0], &a.build, &error);
        reset_peak();
        if (result == INGOT_OK) result = bench(&a, &session, &given, &m, &error);
        status = EXIT_DONE;
        if (result != INGOT_OK) {
            status = cli_fail(&error);
        } else if (a.json) {
            print_json(&a, &session, &m);
        } else {
            print_text(&a, &session, &m);
        }
        if (status == EXIT_DONE && a.cliffs.given && m.n_cliffs) status = EXIT_DIFFERENT;
        measurement_free(&m);
        session_close(&session);
        tensor_list_free(&given);
    }
    build_arguments_free(&a.build);
    option_list_free(&a.inputs);
    free(machines);
    return status;
}
