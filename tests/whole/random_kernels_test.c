/*
 * Random networks through the whole compiler and the runtime, against the reference evaluator: on processors, with one, two
 * and five threads, and on the emulator of GPUs. Half of them compute with small whole numbers, on which float32 is exact, and
 * are compared bit by bit; the others have real numbers, and some have NaN and infinities here and there, or are larger.
 * Each engine runs with several sizes of its symbols, and on GPUs some of its regions have a kernel for each of some of them.
 *
 *     random_kernels_test [cpu|gpu|all [FIRST [COUNT [OPTION...]]]]
 *
 * tries COUNT networks from number FIRST on, each in a process of its own, and says of those that fail with how few steps they
 * do. Options: steps=N and elements=N (of a value) at most, numbers=N, target=T, precision=P, opt=N, cc=PATH, pass=NAME=off (or
 * none), dump=PASS, first (of the candidates for each kernel), print (the network and its kernels).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cpu.h"
#include "compile/compile.h"
#include "ir/eval/eval.h"
#include "ir/text/print.h"
#include "pass/pass.h"
#include "support/beside.h"
#include "support/device/emulated.h"
#include "support/plan/engine_bytes.h"
#include "support/random/random_choice.h"
#include "support/random/random_network.h"
#include "support/support.h"
#include "verify/compare.h"

enum { MAX_INPUTS = 2, MAX_OUTPUTS = 2, BINDINGS = 3, SECONDS = 600, MOST_VARIANTS = 4 };

enum numbers { WHOLE, POISONED, REAL, SCALED };

/* What number it is says all of it. */
struct trial {
    uint64_t seed;
    bool gpu;
    int steps, opt;
    int64_t elements; /* that a value has at most */
    enum numbers numbers;
    const char *target, *precision, *cc, *pass, *dump;
    bool print, first; /* first: the cost model's first choices */
    const char *text;  /* a network to be tried instead of a random one */
};

/* How many networks had regions with several kernels: memory that the processes share. */
static unsigned *varied;

/* ---- Choices ------------------------------------------------------------------------------------------------------------- */

static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* One that may be switched off, and is. */
static const char *random_switch(uint64_t r) {
    static char text[64];
    const struct ig_pass *pass = &ig_passes[r % (uint64_t)ig_pass_count];
    snprintf(text, sizeof text, "%s=off", pass->name);
    return pass->required ? NULL : text;
}

static struct trial choose(uint64_t seed, bool gpu) {
    static const char *const cpus[] = {"cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:amx"};
    static const uint64_t needed[] = {IG_CPU_X86_64_V3, IG_CPU_X86_64_V4, IG_CPU_AMX};
    static const char *const gpus[] = {"cuda:sm_80", "cuda:sm_90a", "cuda:sm_90a"};
    static const char *const precisions[] = {"fp32", "fp32", "fp16", "bf16", "fp16", "tf32", "fp32", "fp32"};
    static const int opts[] = {3, 3, 3, 2, 1, 0};
    uint64_t r = mixed(seed * 2 + gpu + 0x9e3779b97f4a7c15u);
    struct trial t = {.seed = seed, .gpu = gpu, .target = gpus[r % 3]};
    for (int i = 0; !gpu && i <= (int)(r % 3); i++)
        if ((ig_cpu_features() & needed[i]) == needed[i]) t.target = cpus[i];
    t.precision = precisions[gpu ? r / 3 % 7 : 3 + r / 3 % 7 % 5];
    t.opt = opts[r / 21 % 6];
    t.elements = gpu ? 6000 : 30000;
    t.numbers = r / 126 % 8 < 3 ? WHOLE : r / 126 % 8 < 4 ? POISONED : r / 126 % 8 < 7 ? REAL : SCALED;
    t.first = r / 8064 % 2;
    if (r / 16128 % 4 == 0) t.pass = random_switch(r / 64512);
    if (r / 16128 % 4 == 1 && access("/usr/bin/clang", X_OK) == 0) t.cc = "/usr/bin/clang";
    t.steps = 2 + (int)(r / 1008 % (gpu ? 5 : 12));
    /* Poison may come where narrow types overflow, and need not. */
    if (t.numbers == POISONED || t.numbers == SCALED) t.precision = "fp32";
    /* It may spread what is no number: docs/passes.md. */
    if (t.numbers == POISONED) t.pass = "split-phases=off";
    return t;
}

/* ---- Numbers ------------------------------------------------------------------------------------------------------------- */

/* The element of which an input has `count`. Only two are no numbers: they spread. */
static float number_of(const struct trial *t, uint64_t bits, int64_t element, int64_t count) {
    float whole = (float)((int)(bits % 9) - 4), real = (float)(bits >> 11 & 0xffffff) / 0x800000 - 1;
    uint64_t place = count ? mixed(t->seed + (uint64_t)count) % (uint64_t)count : 0;
    switch (t->numbers) {
    case WHOLE: return whole;
    case POISONED: return element == (int64_t)place ? NAN : element == (int64_t)place / 3 ? INFINITY : whole;
    case REAL: return 2 * real;
    case SCALED:
    default: return ldexpf(real, t->seed % 2 ? 4 : 7);
    }
}

static struct ingot_tensor make_input(struct random_maker *m, const struct trial *t, uint32_t index) {
    struct ig_type type = *ig_type_of(m->g, m->g->inputs.at[index].value);
    struct ingot_tensor x = {.dtype = type.dtype, .rank = type.rank};
    for (int i = 0; i < type.rank; i++)
        x.dims[i] = random_size(m, type.dim[i]);
    int64_t count = ingot_tensor_elements(&x);
    float *numbers = ig_alloc(m->job, (size_t)count * sizeof *numbers + 64);
    for (int64_t i = 0; i < count; i++)
        numbers[i] = number_of(t, mixed(t->seed * 1000003 + index * 7919 + (uint64_t)i), i, count);
    x.data = numbers;
    return x;
}

/* ---- Engines ------------------------------------------------------------------------------------------------------------- */

static void check(struct ig_job *job, enum ingot_status status, const struct ingot_error *error) {
    if (status != INGOT_OK) ig_raise_error(job, error);
}

static void show(void *user, const char *text, size_t length) {
    (void)user;
    fwrite(text, 1, length, stdout);
}

/* Each process has one, which whoever waits for it takes away. */
static void cache_path(pid_t process, char *out_path, size_t size) {
    snprintf(out_path, size, "/tmp/ingot-random-kernels-%ld", (long)process);
}

/* A kernel that could not be compiled would hide behind the one that took its place. */
static void refuse(void *user, const char *text) {
    ig_raise(user, INGOT_INTERNAL, "noted: %s", text);
}

static void build(struct random_maker *m, const struct trial *t, struct engine_bytes *out) {
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    struct ingot_sink dump = {NULL, show};
    options.target = t->target;
    options.precision = t->precision;
    options.opt_level = t->opt;
    options.cc = t->cc;
    options.jobs = 1;
    options.verify_passes = true;
    if (t->pass) {
        options.pass_switches = &t->pass;
        options.n_pass_switches = 1;
    }
    options.dump_after = t->dump;
    options.dump = &dump;
    options.note = refuse;
    options.note_user = m->job;
    options.tactics = "generated";
    options.variants = MOST_VARIANTS;
    char cache[64];
    const char *caches[] = {cache};
    if (!t->first && t->opt > 0) {
        cache_path(getpid(), cache, sizeof cache);
        random_choices_write(m->g, &options, t->seed, cache);
        options.timing_caches = caches;
        options.n_timing_caches = 1;
    }
    struct ig_engine_sink sink = engine_bytes_sink(out, m->job);
    ig_compile(m->job, m->g, &options, &sink);
}

/* ---- Runs ---------------------------------------------------------------------------------------------------------------- */

static void compare(struct random_maker *m, const struct trial *t, const struct ingot_tensor *got,
                    const struct ingot_tensor *want, const char *where) {
    static const struct tolerance exact;
    const struct build_arguments build = {.precision = t->precision};
    struct tolerance tolerance = m->exact ? exact : tolerance_of_build(&build);
    /* Differences of numbers of size 1 may be all that a result is. */
    if (!m->exact) tolerance.atol = m->largest == 256 ? 3e-2 : strcmp(t->precision, "fp32") ? 4e-3 : 1e-5;
    char difference[300];
    if (tensors_agree(got, want, &tolerance, difference, sizeof difference)) return;
    ig_raise(m->job, INGOT_INTERNAL, "%s%s: %s", where, m->exact ? ", exact" : "", difference);
}

/* With one number of threads, the sizes as they come and once more the first ones. */
static void run(struct random_maker *m, const struct trial *t, struct ingot_engine *engine, unsigned threads,
                struct ingot_tensor inputs[BINDINGS][MAX_INPUTS], struct ingot_tensor expected[BINDINGS][MAX_OUTPUTS]) {
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    struct ingot_context *context;
    struct ingot_error error;
    char where[96];
    options.threads = threads;
    check(m->job, ingot_context_create(engine, &options, &context, &error), &error);
    for (int k = 0; k <= BINDINGS; k++) {
        int b = k % BINDINGS;
        for (uint32_t i = 0; i < m->g->inputs.count; i++)
            check(m->job, ingot_context_set_input(context, i, &inputs[b][i], &error), &error);
        check(m->job, ingot_context_run(context, &error), &error);
        for (uint32_t o = 0; o < m->g->outputs.count; o++) {
            struct ingot_tensor got;
            check(m->job, ingot_context_output(context, o, &got, &error), &error);
            snprintf(where, sizeof where, "%u threads, sizes %d, output '%s'", threads, k, m->g->outputs.at[o].name);
            compare(m, t, &got, &expected[b][o], where);
        }
    }
    ingot_context_destroy(context);
}

static void choose_sizes(struct random_maker *m, const struct trial *t, int binding) {
    static const int64_t batches[] = {2, 1, 5, 3, 0}, lengths[] = {7, 33, 1, 17, 65, 64, 16, 130};
    uint64_t r = mixed(t->seed + 77);
    m->sizes[0] = batches[(r + (uint64_t)binding) % (t->seed % 8 ? 4 : 5)];
    m->sizes[1] = lengths[(r / 4 + 3 * (uint64_t)binding) % (t->gpu ? 7 : 8)];
}

static void print_graph(struct random_maker *m) {
    struct ig_text text;
    ig_text_init(&text, m->job);
    ig_graph_print(m->g, 0, &text);
    puts(text.at);
}

static void try_network(struct ig_job *job, void *argument) {
    const struct trial *t = argument;
    struct random_maker m = {.job = job,
                             .g = ig_graph_create(job, ig_dims_create(job)),
                             .state = mixed(t->seed),
                             .sizes = {3, 33},
                             .empty = t->seed % 8 == 0,
                             .max_elements = t->elements,
                             .whole = t->numbers <= POISONED,
                             .largest = !strcmp(t->precision, "bf16")   ? 256
                                        : !strcmp(t->precision, "fp16") ? 2048
                                                                        : 1 << 24};
    struct ingot_tensor inputs[BINDINGS][MAX_INPUTS], expected[BINDINGS][MAX_OUTPUTS];
    struct ingot_error error;
    struct ingot_engine *engine;
    struct engine_bytes memory;
    m.exact = m.whole;
    if (t->text) {
        m.g = ig_graph_parse(job, m.g->dims, t->text, strlen(t->text));
    } else {
        random_network(&m, t->steps);
    }
    if (t->print) print_graph(&m);
    ig_graph_verify(m.g, "construction");
    for (int b = 0; b < BINDINGS; b++) {
        choose_sizes(&m, t, b);
        for (uint32_t i = 0; i < m.g->inputs.count; i++)
            inputs[b][i] = make_input(&m, t, i);
        ig_eval_graph(job, m.g, inputs[b], expected[b]);
    }
    build(&m, t, &memory);
    check(job, ingot_engine_load_memory(memory.data, memory.size, NULL, &engine, &error), &error);
    const char *explanation = NULL;
    assert_int_equal(ingot_engine_explanation(engine, &explanation, NULL), INGOT_OK);
    if (t->print) puts(explanation);
    *varied += strstr(explanation, "\"variants\"") != NULL;
    static const unsigned threads[] = {1, 2, 5};
    for (int i = 0; i < (t->gpu ? 1 : 3); i++)
        run(&m, t, engine, threads[i], inputs, expected);
    ingot_engine_release(engine);
    for (int b = 0; b < BINDINGS; b++)
        for (uint32_t o = 0; o < m.g->outputs.count; o++)
            ig_eval_release(job, &expected[b][o]);
}

static enum ingot_status try_trial(const struct trial *t, struct ingot_error *error) {
    struct ig_job job;
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, try_network, (void *)t, error);
    ig_job_deinit(&job);
    return status;
}

/* ---- Many of them, in processes of their own ----------------------------------------------------------------------------- */

/* The emulator's order of things, and what it takes itself for. */
static void choose_emulator(const struct trial *t) {
    char how[64];
    snprintf(how, sizeof how, "%s %s", strstr(t->target, "sm_80") ? "sm_80" : "",
             t->seed % 3 == 0   ? "backwards late"
             : t->seed % 3 == 1 ? "late"
                                : "");
    setenv("EMULATOR", how, 1);
}

/* Ends an endless loop. The limit is on processor time, which does not pass while others keep the machine busy. */
static void limit_time(void) {
    const struct rlimit limit = {SECONDS, SECONDS};
    if (setrlimit(RLIMIT_CPU, &limit) != 0) abort();
}

/* What it printed, or how it ended; empty where nothing is wrong. */
static void try_apart(const struct trial *t, char *out_text, size_t size) {
    int ends[2], status;
    char cache[64];
    if (pipe(ends)) abort();
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) abort();
    if (child == 0) {
        struct ingot_error error = {0};
        close(ends[0]);
        limit_time();
        choose_emulator(t);
        if (try_trial(t, &error) && write(ends[1], error.message, strlen(error.message)) < 0) abort();
        fflush(stdout);
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t n; used + 1 < size && (n = read(ends[0], out_text + used, size - 1 - used)) > 0;)
        used += (size_t)n;
    out_text[used] = '\0';
    close(ends[0]);
    waitpid(child, &status, 0);
    cache_path(child, cache, sizeof cache);
    unlink(cache);
    if (WIFSIGNALED(status)) snprintf(out_text, size, "ended by signal %d", WTERMSIG(status));
    if (WIFEXITED(status) && WEXITSTATUS(status)) snprintf(out_text, size, "exit code %d", WEXITSTATUS(status));
}

static bool report(struct trial t) {
    char text[INGOT_ERROR_MESSAGE_SIZE], less[sizeof text] = "";
    try_apart(&t, text, sizeof text);
    if (!*text) return true;
    int most = t.steps;
    for (t.steps = 1; t.steps < most && !t.print && !*less; t.steps++)
        try_apart(&t, less, sizeof less);
    if (*less) t.steps--;
    printf("%s %llu steps=%d target=%s precision=%s opt=%d numbers=%d%s %s %s: %s\n", t.gpu ? "gpu" : "cpu",
           (unsigned long long)t.seed, t.steps, t.target, t.precision, t.opt, t.numbers, t.first ? " first" : "",
           t.pass ? t.pass : "", t.cc ? t.cc : "", *less ? less : text);
    fflush(stdout);
    return false;
}

static void read_option(struct trial *t, const char *text) {
    const char *value = strchr(text, '=');
    value = value ? value + 1 : "";
    if (strncmp(text, "steps=", 6) == 0) t->steps = atoi(value) < t->steps ? atoi(value) : t->steps;
    if (strncmp(text, "target=", 7) == 0) t->target = value;
    if (strncmp(text, "precision=", 10) == 0) t->precision = value;
    if (strncmp(text, "opt=", 4) == 0) t->opt = atoi(value);
    if (strncmp(text, "elements=", 9) == 0) t->elements = atoi(value);
    if (strncmp(text, "numbers=", 8) == 0) t->numbers = (enum numbers)atoi(value);
    if (strncmp(text, "cc=", 3) == 0) t->cc = value;
    if (strncmp(text, "pass=", 5) == 0) t->pass = strcmp(value, "none") ? value : NULL;
    if (strncmp(text, "dump=", 5) == 0) t->dump = value;
    if (strcmp(text, "first") == 0) t->first = true;
    if (strcmp(text, "print") == 0) t->print = true;
}

static int try_many(int count, char **arguments) {
    uint64_t first = count > 2 ? strtoull(arguments[2], NULL, 10) : 0,
             n = count > 3 ? strtoull(arguments[3], NULL, 10) : 1;
    bool cpu = strcmp(arguments[1], "gpu") != 0, gpu = strcmp(arguments[1], "cpu") != 0;
    unsigned failed = 0, tried = 0;
    for (uint64_t seed = first; seed < first + n; seed++) {
        for (int on_gpu = 0; on_gpu < 2; on_gpu++) {
            if (on_gpu ? !gpu : !cpu) continue;
            struct trial t = choose(seed, on_gpu);
            for (int i = 4; i < count; i++)
                read_option(&t, arguments[i]);
            failed += !report(t);
            tried++;
        }
    }
    printf("%u of %u failed, %u have variants\n", failed, tried, *varied);
    return failed > 0;
}

/* ---- A few of them ------------------------------------------------------------------------------------------------------- */

static void try_some(bool gpu, uint64_t count) {
    *varied = 0;
    for (uint64_t seed = 0; seed < count; seed++) {
        struct trial t = choose(seed, gpu);
        char text[INGOT_ERROR_MESSAGE_SIZE];
        try_apart(&t, text, sizeof text);
        if (*text)
            fail_msg("network %llu for %s, %s, level %d: %s", (unsigned long long)seed, t.target, t.precision, t.opt,
                     text);
    }
}

static void test_processors(void **state) {
    (void)state;
    try_some(false, 30);
}

static void test_emulator(void **state) {
    (void)state;
    if (!emulated_is_present()) skip();
    try_some(true, 8);
    print_message("%u of 8 networks have regions with several kernels\n", *varied);
    assert_true(*varied > 0);
}

/* Those in which something was wrong once. */
static const struct trial known[] = {
    /* Slices that begin anywhere, which kernels for GPUs wrote 16 bytes at a time. */
    {.gpu = true,
     .target = "cuda:sm_80",
     .precision = "fp32",
     .opt = 3,
     .elements = 1000,
     .text = "graph {\n"
             "  input %0 \"x\": f32[length,3]\n"
             "  %1 = constant() {data=[3]}: i64[]\n"
             "  %2 = loop(%1, -, %0) {trip=3, carried=0}: f32[3,length,3]\n"
             "  body {\n"
             "    input %0 \"i\": i64[]\n"
             "    input %1 \"going\": bool[]\n"
             "    input %2 \"x\": f32[length,3]\n"
             "    %3 = neg(%2): f32[length,3]\n"
             "    output \"going\" = %1\n"
             "    output \"again\" = %3\n"
             "  }\n"
             "  output \"all\" = %2\n"
             "}\n"},
};

static void test_known(void **state) {
    (void)state;
    if (!emulated_is_present()) skip();
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char text[INGOT_ERROR_MESSAGE_SIZE];
        try_apart(&known[i], text, sizeof text);
        if (*text) fail_msg("known network %zu: %s", i, text);
    }
}

/* The emulator is found as a driver is, by name: the loader reads where to look when a program begins. */
static void find_emulator(char **arguments) {
    static const char below[] = "emulator";
    char folder[4096];
    test_beside(below, folder, sizeof folder);
    const char *path = getenv("LD_LIBRARY_PATH");
    if (path && strcmp(path, folder) == 0) return;
    setenv("LD_LIBRARY_PATH", folder, 1);
    execv("/proc/self/exe", arguments);
    abort();
}

int main(int count, char **arguments) {
    find_emulator(arguments);
    varied = mmap(NULL, sizeof *varied, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (varied == MAP_FAILED) abort();
    if (count > 1) return try_many(count, arguments);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_known), cmocka_unit_test(test_processors),
                                       cmocka_unit_test(test_emulator)};
    return cmocka_run_group_tests_name("random networks", tests, NULL, NULL);
}
