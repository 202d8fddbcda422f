/*
 * Measures refitting and adapters: refit_bench FOLDER [NAME=VALUE]..., where FOLDER has
 *
 *     first.ingot     an engine         second.onnx     other weights for it
 *     second.ingot    built from those  slots.ingot     the engine with slots for adapters (none: not measured)
 *     some.ingot      in some layers    first.onnx      the engine's model
 *     lora/           an adapter        lora1/          one for the layer that is switched
 *
 * and the names are: layer and switched (parts of the names of the tensors that are refitted as one layer, and that lora1
 * changes), rounds and runs (in each round), switches (how often an adapter is put on and taken off), threads (that run
 * meanwhile), compute (threads of a run), device, only (one of layer, all, speed, slots, switch), and symbols of the inputs (batch, sequence).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../cli/cli.h"
#include "base/hash/hash.h"
#include "ingot/ingot.h"

enum { MOST_INPUTS = 8, MOST_ROUNDS = 1024, MOST_THREADS = 64 };

static struct ingot_error error;
static int n_settings;
static char **settings;

static void must(enum ingot_status status) {
    if (status == INGOT_OK) return;
    fprintf(stderr, "%s: %s\n", ingot_status_name(status), error.message);
    exit(4);
}

static const char *setting(const char *name, const char *otherwise) {
    size_t length = strlen(name);
    for (int i = 0; i < n_settings; i++) {
        if (strncmp(settings[i], name, length) == 0 && settings[i][length] == '=') return settings[i] + length + 1;
    }
    return otherwise;
}

static long number(const char *name, const char *otherwise) {
    return strtol(setting(name, otherwise), NULL, 10);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *of, int count) {
    qsort(of, (size_t)count, sizeof *of, ascending);
    return count % 2 ? of[count / 2] : (of[count / 2 - 1] + of[count / 2]) / 2;
}

static void print_times(const char *what, double *ms, int count) {
    double first = ms[0], second = count > 1 ? ms[1] : 0;
    int rest = count > 2 ? count - 2 : 0;
    printf("%-44s first %.2f, second %.2f", what, first, second);
    if (rest) {
        double middle = median(ms + 2, rest);
        printf(", then median %.2f (%.2f to %.2f) ms", middle, ms[2], ms[count - 1]);
    }
    putchar('\n');
}

/* ---- Running --------------------------------------------------------------------------------------------------------- */

struct runner {
    struct ingot_context *context;
    struct ingot_tensor inputs[MOST_INPUTS];
    double ms[MOST_ROUNDS], processor_ms[MOST_ROUNDS];
};

static struct ingot_engine *load(const char *folder, const char *name) {
    struct ingot_engine *engine;
    char *path = cli_format("%s/%s", folder, name);
    must(ingot_engine_load(path, NULL, &engine, &error));
    free(path);
    return engine;
}

/* Integers of all inputs are small and the same; `adapter` is the number of all samples' slots. */
static void open_runner(struct runner *r, struct ingot_engine *engine, int64_t adapter, unsigned threads) {
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    options.device = (int)number("device", "0");
    options.threads = threads ? threads : (unsigned)number("compute", "0");
    must(ingot_context_create(engine, &options, &r->context, &error));
    for (size_t i = 0; i < ingot_engine_input_count(engine); i++) {
        struct ingot_tensor_info info;
        ingot_engine_input(engine, i, &info);
        struct ingot_tensor *t = &r->inputs[i];
        *t = (struct ingot_tensor){.dtype = info.dtype, .rank = info.rank, .memory = INGOT_HOST};
        for (int d = 0; d < info.rank; d++)
            t->dims[d] = info.dims[d] >= 0 ? info.dims[d] : number(info.symbols[d], "1");
        int64_t count = ingot_tensor_elements(t);
        t->data = cli_alloc((size_t)count, ingot_dtype_size(t->dtype));
        bool chooses = strcmp(info.name, "adapter") == 0;
        for (int64_t k = 0; k < count; k++) {
            if (t->dtype == INGOT_I64)
                ((int64_t *)t->data)[k] = chooses ? adapter : 1 + k % 7 * !strstr(info.name, "mask");
            if (t->dtype == INGOT_F32) ((float *)t->data)[k] = (float)(k * 37 % 101) / 50 - 1;
        }
        must(ingot_context_set_input(r->context, i, t, &error));
    }
}

static void close_runner(struct runner *r) {
    ingot_context_destroy(r->context);
    for (int i = 0; i < MOST_INPUTS; i++)
        free(r->inputs[i].data);
    *r = (struct runner){.context = NULL};
}

/* A hash of all results, of which the first is returned too. */
static uint64_t run(struct runner *r, size_t outputs, struct ingot_tensor *out_first) {
    uint64_t hash = 0;
    must(ingot_context_run(r->context, &error));
    for (size_t i = outputs; i-- > 0;) {
        struct ingot_tensor t;
        must(ingot_context_output(r->context, i, &t, &error));
        hash = hash * 31 + ig_hash64(t.data, (size_t)ingot_tensor_elements(&t) * ingot_dtype_size(t.dtype));
        if (out_first) *out_first = t;
    }
    return hash;
}

/* Of all threads: on a CPU that others use too, it says more than the time on the clock. */
static double processor_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

/* Rounds by turns, `runs` each. */
static void compare(struct runner *runners, const char *const *names, int count) {
    const int rounds = (int)number("rounds", "15"), runs = (int)number("runs", "200");
    for (int round = -1; round < rounds; round++) {
        for (int k = 0; k < count; k++) {
            double start = now_ms(), processor = processor_ms();
            for (int i = 0; i < runs; i++)
                must(ingot_context_run(runners[k].context, &error));
            if (round < 0) continue;
            runners[k].ms[round] = (now_ms() - start) / runs;
            runners[k].processor_ms[round] = (processor_ms() - processor) / runs;
        }
    }
    double first = 0, first_processor = 0;
    for (int k = 0; k < count; k++) {
        double middle = median(runners[k].ms, rounds), processor = median(runners[k].processor_ms, rounds);
        if (k == 0) first = middle, first_processor = processor;
        printf("%-28s median %.4f ms (%.4f to %.4f), ratio to the first %.4f; processor %.3f ms, %.4f\n", names[k],
               middle, runners[k].ms[0], runners[k].ms[rounds - 1], middle / first, processor,
               processor / first_processor);
    }
}

/* ---- Tensors --------------------------------------------------------------------------------------------------------- */

struct tensors {
    struct ingot_tensors *file;
    const struct ingot_named_tensor *list;
    size_t count;
};

static struct tensors open_tensors(const char *folder, const char *name) {
    struct tensors t;
    char *path = cli_format("%s/%s", folder, name);
    must(ingot_tensors_open(path, NULL, &t.file, &error));
    t.list = ingot_tensors_list(t.file, &t.count);
    free(path);
    return t;
}

/* Those with `part` in a name, of f32 and more than one element. */
static size_t choose(const struct tensors *from, const char *part, struct ingot_named_tensor *out) {
    size_t count = 0;
    for (size_t i = 0; i < from->count; i++) {
        const struct ingot_named_tensor *t = &from->list[i];
        bool named = strstr(t->name, part) || (t->alias && strstr(t->alias, part));
        if (named && t->tensor.dtype == INGOT_F32 && ingot_tensor_elements(&t->tensor) > 1) out[count++] = *t;
    }
    return count;
}

/* A checkpoint's tensors and, behind them, so that they win, what an adapter makes of some. What an engine has combined is
 * needed together. */
static struct ingot_named_tensor *together(const struct ingot_named_tensor *base, size_t n,
                                           struct ingot_tensors *adapter, size_t *out_count) {
    size_t n_merged;
    const struct ingot_named_tensor *merged = ingot_tensors_list(adapter, &n_merged);
    struct ingot_named_tensor *all = cli_alloc(n + n_merged, sizeof *all);
    memcpy(all, base, n * sizeof *all);
    memcpy(all + n, merged, n_merged * sizeof *all);
    *out_count = n + n_merged;
    return all;
}

static struct ingot_refit_info refit(struct ingot_engine *engine, const struct ingot_named_tensor *list, size_t n) {
    struct ingot_refit_options options = INGOT_REFIT_OPTIONS_INIT;
    struct ingot_refit_info info;
    options.partial = true;
    must(ingot_engine_refit(engine, list, n, &options, &info, &error));
    return info;
}

/* ---- What is measured ------------------------------------------------------------------------------------------------ */

/* In place, to the second weights and back, while a context is bound to the engine; a run in between. */
static void measure_in_place(struct ingot_engine *engine, const struct tensors *first, const struct tensors *second,
                             const char *part, const char *what) {
    enum { REFITS = 24 };
    struct ingot_named_tensor *a = cli_alloc(first->count + 1, sizeof *a), *b = cli_alloc(second->count + 1, sizeof *b);
    size_t n_a = choose(first, part, a), n_b = choose(second, part, b), bytes = 0;
    struct runner r = {.context = NULL};
    double ms[REFITS], processor_ms[REFITS];
    struct ingot_refit_info info = {.changed = 0};
    open_runner(&r, engine, 0, 0);
    uint64_t before = run(&r, ingot_engine_output_count(engine), NULL);
    for (size_t i = 0; i < n_a; i++)
        bytes += (size_t)ingot_tensor_elements(&a[i].tensor) * sizeof(float);
    for (int i = 0; i < REFITS; i++) {
        double start = now_ms();
        clock_t begin = clock();
        info = i % 2 ? refit(engine, a, n_a) : refit(engine, b, n_b);
        ms[i] = now_ms() - start;
        processor_ms[i] = (double)(clock() - begin) * 1e3 / CLOCKS_PER_SEC;
        run(&r, ingot_engine_output_count(engine), NULL);
    }
    printf("in place, %s: %zu tensors, %.1f MB, %zu weights of %.1f MB\n", what, n_a, (double)bytes / 1e6, info.weights,
           (double)info.weight_bytes / 1e6);
    print_times("  refit", ms, REFITS);
    print_times("  its processor time", processor_ms, REFITS);
    printf("  results as before: %s\n", run(&r, ingot_engine_output_count(engine), NULL) == before ? "yes" : "NO");
    close_runner(&r);
    free(a);
    free(b);
}

static void measure_speed(const char *folder, struct ingot_engine *engine, const struct tensors *second) {
    static const char *const names[] = {"a fresh build", "refitted in place", "a fresh build again"};
    struct ingot_engine *fresh = load(folder, "second.ingot"), *again = load(folder, "second.ingot");
    struct ingot_named_tensor *b = cli_alloc(second->count + 1, sizeof *b);
    struct runner r[3] = {{.context = NULL}};
    refit(engine, b, choose(second, "", b));
    open_runner(&r[0], fresh, 0, 0);
    open_runner(&r[1], engine, 0, 0);
    open_runner(&r[2], again, 0, 0);
    size_t outputs = ingot_engine_output_count(engine);
    printf("results of a refitted engine are those of a fresh build: %s\n",
           run(&r[0], outputs, NULL) == run(&r[1], outputs, NULL) ? "yes" : "NO");
    compare(r, names, 3);
    for (int i = 0; i < 3; i++)
        close_runner(&r[i]);
    ingot_engine_release(fresh);
    ingot_engine_release(again);
    free(b);
}

static double largest_difference(struct runner *a, struct runner *b, double *out_largest) {
    struct ingot_tensor x, y;
    double most = 0;
    run(a, 1, &x);
    run(b, 1, &y);
    *out_largest = 0;
    for (int64_t i = 0; x.dtype == INGOT_F32 && i < ingot_tensor_elements(&x); i++) {
        double p = ((float *)x.data)[i], q = ((float *)y.data)[i], d = p > q ? p - q : q - p;
        most = d > most ? d : most;
        *out_largest = q > *out_largest ? q : -q > *out_largest ? -q : *out_largest;
    }
    return most;
}

static void fill_slot(struct ingot_engine *engine, const char *folder, unsigned slot) {
    struct ingot_tensors *tensors;
    char *path = cli_format("%s/lora", folder);
    size_t count;
    must(ingot_tensors_open_slot(path, engine, slot, NULL, &tensors, &error));
    const struct ingot_named_tensor *list = ingot_tensors_list(tensors, &count);
    double start = now_ms();
    struct ingot_refit_info info = refit(engine, list, count);
    printf("a slot is filled: %zu tensors, %.1f MB of weights, in %.2f ms\n", count, (double)info.weight_bytes / 1e6,
           now_ms() - start);
    ingot_tensors_close(tensors);
    free(path);
}

/* Slots beside an adapter merged into the weights; `engine` has the first weights. */
static void measure_slots(const char *folder, struct ingot_engine *engine, const struct tensors *first,
                          const char *file) {
    static const char *const names[] = {"merged (no slots)", "slots, none chosen", "slots, one chosen"};
    struct ingot_engine *slots = load(folder, file);
    struct ingot_tensors *merged;
    char *path = cli_format("%s/lora", folder);
    struct runner r[3] = {{.context = NULL}};
    size_t count;
    double largest;
    printf("slots of %s\n", file);
    open_runner(&r[0], engine, 0, 0);
    open_runner(&r[1], slots, 0, 0);
    open_runner(&r[2], slots, 2, 0);
    double difference = largest_difference(&r[1], &r[0], &largest);
    printf("none chosen and no slots: largest difference %.3g of %.3g\n", difference, largest);
    fill_slot(slots, folder, 2);
    fill_slot(slots, folder, 3);
    double start = now_ms();
    must(ingot_tensors_open_adapter(path, first->list, first->count, NULL, &merged, &error));
    printf("an adapter is merged in %.1f ms, on the host\n", now_ms() - start);
    struct ingot_named_tensor *on = together(first->list, first->count, merged, &count);
    refit(engine, on, count);
    free(on);
    difference = largest_difference(&r[2], &r[0], &largest);
    printf("one chosen and merged: largest difference %.3g of %.3g\n", difference, largest);
    compare(r, names, 3);
    for (int i = 0; i < 3; i++)
        close_runner(&r[i]);
    refit(engine, first->list, first->count);
    ingot_engine_release(slots);
    ingot_tensors_close(merged);
    free(path);
}

/* ---- On and off ------------------------------------------------------------------------------------------------------ */

struct loaded {
    pthread_t thread;
    struct ingot_engine *engine;
    uint64_t with, without;
    long runs, on, mixed;
};
static atomic_int stop;

static void *run_loaded(void *argument) {
    struct loaded *l = argument;
    struct runner r = {.context = NULL};
    open_runner(&r, l->engine, 0, 1);
    for (; !atomic_load(&stop); l->runs++) {
        uint64_t hash = run(&r, ingot_engine_output_count(l->engine), NULL);
        l->on += hash == l->with;
        l->mixed += hash != l->with && hash != l->without;
    }
    close_runner(&r);
    return NULL;
}

/* An adapter, of one layer, is merged and taken off while threads run. Only the layer's tensors are given. */
static void switch_adapter(const char *folder, struct ingot_engine *engine, const struct tensors *first,
                           const char *part) {
    const long switches = number("switches", "1000"), threads = number("threads", "2");
    struct ingot_named_tensor *off = cli_alloc(first->count + 1, sizeof *off), *on;
    size_t n = choose(first, part, off), n_on;
    struct ingot_tensors *adapter;
    char *path = cli_format("%s/lora1", folder);
    must(ingot_tensors_open_adapter(path, off, n, NULL, &adapter, &error));
    on = together(off, n, adapter, &n_on);
    struct loaded loaded[MOST_THREADS] = {{0}};
    struct runner r = {.context = NULL};
    size_t outputs = ingot_engine_output_count(engine);
    double *ms = cli_alloc((size_t)switches * 2, sizeof *ms), sum = 0;
    open_runner(&r, engine, 0, 0);
    uint64_t without = run(&r, outputs, NULL);
    refit(engine, on, n_on);
    uint64_t with = run(&r, outputs, NULL);
    refit(engine, off, n);
    atomic_store(&stop, 0);
    for (long i = 0; i < threads; i++) {
        loaded[i] = (struct loaded){.engine = engine, .with = with, .without = without};
        pthread_create(&loaded[i].thread, NULL, run_loaded, &loaded[i]);
    }
    double begin = now_ms();
    for (long i = 0; i < 2 * switches; i++) {
        double start = now_ms();
        i % 2 ? refit(engine, off, n) : refit(engine, on, n_on);
        ms[i] = now_ms() - start;
        sum += ms[i];
    }
    double took = now_ms() - begin;
    atomic_store(&stop, 1);
    long runs = 0, seen = 0, mixed = 0;
    for (long i = 0; i < threads; i++) {
        pthread_join(loaded[i].thread, NULL);
        runs += loaded[i].runs;
        seen += loaded[i].on;
        mixed += loaded[i].mixed;
    }
    printf("%ld times on and off in %.1f s, %ld threads: refits of %zu tensors took %.2f ms on average, "
           "%.2f in the "
           "median; %ld "
           "runs, %ld with the adapter, %ld of neither\n",
           switches, took / 1e3, threads, n, sum / (double)(2 * switches), median(ms, (int)(2 * switches)), runs, seen,
           mixed);
    printf("with and without differ: %s; results at the end are the first ones: %s; weights that differ: %zu\n",
           with != without ? "yes" : "NO", run(&r, outputs, NULL) == without ? "yes" : "NO",
           refit(engine, first->list, first->count).changed);
    close_runner(&r);
    ingot_tensors_close(adapter);
    free(path);
    free(ms);
    free(off);
    free(on);
}

static bool is_wanted(const char *part) {
    return strcmp(setting("only", part), part) == 0;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fputs("usage: refit_bench FOLDER [NAME=VALUE]...\n", stderr);
        return 2;
    }
    const char *folder = argv[1], *layer = setting("layer", "layer.0.");
    n_settings = argc - 2;
    settings = argv + 2;
    layer = setting("layer", layer);
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct ingot_engine *engine = load(folder, "first.ingot");
    struct tensors first = open_tensors(folder, "first.onnx"), second = open_tensors(folder, "second.onnx");
    if (is_wanted("layer")) measure_in_place(engine, &first, &second, layer, "one layer");
    if (is_wanted("all")) measure_in_place(engine, &first, &second, "", "all weights");
    if (is_wanted("speed")) measure_speed(folder, engine, &second);
    refit(engine, first.list, first.count);
    for (int i = 0; i < 2; i++) {
        static const char *const files[] = {"slots.ingot", "some.ingot"};
        char *path = cli_format("%s/%s", folder, files[i]);
        FILE *file = fopen(path, "rb");
        if (file && is_wanted("slots")) measure_slots(folder, engine, &first, files[i]);
        if (file) fclose(file);
        free(path);
    }
    if (is_wanted("switch")) switch_adapter(folder, engine, &first, setting("switched", layer));
    ingot_tensors_close(first.file);
    ingot_tensors_close(second.file);
    ingot_engine_release(engine);
    return 0;
}
