/* toolchain/: compilers as processes, the object reader and the linker. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "engine/plan.h"
#include "support/support.h"
#include "toolchain/environment.h"
#include "toolchain/link.h"
#include "toolchain/process.h"
#include "toolchain/toolchain.h"

#define COUNT(array) (unsigned)(sizeof(array) / sizeof *(array))

/* ---- A compilation in a job of its own ---- */

struct trial {
    const char *cc, *flag;
    unsigned jobs;
    const struct ig_source *sources;
    unsigned count;
    void (*use)(const struct ig_code *code, unsigned char *mapped);
    void *bytes; /* a copy of the result */
    size_t size;
    struct ig_object_code *objects;
    unsigned compiled;
};

static void take(void *user, unsigned index, const struct ig_object_code *object) {
    struct trial *trial = user;
    assert_true(index < trial->count);
    assert_null(trial->objects[index].bytes);
    trial->objects[index] = *object;
    trial->compiled++;
}

static void take_one(void *user, unsigned index, const struct ig_object_code *object) {
    assert_int_equal(index, 0);
    *(struct ig_object_code *)user = *object;
}

/* Compiles and links. */
static void compile(struct ig_job *job, struct trial *trial, const struct ig_toolchain *toolchain,
                    struct ig_code *code) {
    const char *const flags[] = {"-march=x86-64-v2", trial->flag, NULL};
    const char **symbols = IG_NEW_ARRAY(job, const char *, trial->count + 1);
    struct ig_object_code support;
    trial->objects = IG_NEW_ARRAY(job, struct ig_object_code, trial->count + 1);
    ig_toolchain_objects(job, toolchain, flags, trial->sources, trial->count, take, trial);
    assert_int_equal(trial->compiled, trial->count);
    for (unsigned i = 0; i < trial->count; i++)
        symbols[i] = trial->sources[i].symbol;
    bool needs_support = ig_toolchain_needs_support(job, trial->objects, trial->count);
    if (needs_support) ig_toolchain_objects(job, toolchain, flags, &ig_toolchain_support, 1, take_one, &support);
    ig_toolchain_link(job, trial->objects, symbols, symbols, trial->count, needs_support ? &support : NULL, code);
}

/* Maps code as the runtime does: read-only and executable. */
static unsigned char *map_code(const struct ig_code *code) {
    void *memory = mmap(NULL, code->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    memcpy(memory, code->bytes, code->size);
    assert_int_equal(mprotect(memory, code->size, PROT_READ | PROT_EXEC), 0);
    return memory;
}

static void trial_body(struct ig_job *job, void *argument) {
    struct trial *trial = argument;
    struct ig_toolchain toolchain;
    struct ig_code code;
    ig_toolchain_find(job, trial->cc, trial->jobs, &toolchain);
    compile(job, trial, &toolchain, &code);
    assert_int_equal(code.size % 4096, 0);
    assert_int_equal((uintptr_t)code.bytes % 4096, 0);
    trial->bytes = malloc(code.size);
    trial->size = code.size;
    if (code.size) memcpy(trial->bytes, code.bytes, code.size);
    if (trial->use) {
        unsigned char *mapped = map_code(&code);
        trial->use(&code, mapped);
        munmap(mapped, code.size);
    }
}

static enum ingot_status run_body(void (*body)(struct ig_job *, void *), void *argument, struct ingot_error *error) {
    struct ig_job job;
    ig_job_init(&job, &ig_libc_allocator);
    error->message[0] = '\0';
    enum ingot_status status = ig_job_run(&job, body, argument, error);
    ig_job_deinit(&job);
    return status;
}

static void expect_success(struct trial *trial) {
    struct ingot_error error;
    if (run_body(trial_body, trial, &error) != INGOT_OK) fail_msg("%s", error.message);
}

/* Compiles a text whose function is "kernel"; it must be refused with a message that contains `expected`. */
static void expect_refusal(const char *text, const char *expected) {
    struct ingot_error error;
    struct ig_source source = {"kernel", text};
    struct trial trial = {.jobs = 1, .sources = &source, .count = 1};
    assert_int_equal(run_body(trial_body, &trial, &error), INGOT_TOOLCHAIN);
    if (!strstr(error.message, expected)) fail_msg("'%s' does not say '%s'", error.message, expected);
    free(trial.bytes);
}

/* ---- Code that works ---- */

#define SIGNATURE(name)                                         \
    "typedef __INT64_TYPE__ i64; typedef unsigned char byte;\n" \
    "void " name "(void *const *buf, const i64 *dim, i64 begin, i64 end, void *scratch)"

static const struct ig_source working[] = {
    /* Constants, a vectorised loop, a static function. */
    {"scale", "static float half(float x) { return x * 0.5f + 3.25f; }\n" SIGNATURE(
                  "scale") "{\n"
                           "    const float *a = buf[0]; float *o = buf[1];\n"
                           "#pragma omp simd\n"
                           "    for (i64 i = begin; i < end; i++) o[i] = half(a[i]);\n"
                           "}\n"},
    /* A jump table and a table of constants: position-independent addresses. */
    {"choose", "static const int table[] = {5, 7, 11, 13, 17, 19, 23, 29};\n" SIGNATURE(
                   "choose") "{\n"
                             "    int *o = buf[0];\n"
                             "    for (i64 i = begin; i < end; i++) {\n"
                             "        switch (i) {\n"
                             "        case 0: o[i] = dim[0] / 3; break;\n"
                             "        case 1: o[i] = dim[0] * 7; break;\n"
                             "        case 2: o[i] = dim[0] ^ 12; break;\n"
                             "        case 3: o[i] = dim[0] - 100; break;\n"
                             "        case 4: o[i] = dim[0] << 3; break;\n"
                             "        case 5: o[i] = dim[0] | 3; break;\n"
                             "        case 6: o[i] = dim[0] % 10; break;\n"
                             "        default: o[i] = table[i & 7];\n"
                             "        }\n"
                             "    }\n"
                             "}\n"},
    /* The four memory functions, called directly and through pointers. */
    {"memory",
     "#pragma GCC visibility push(default)\n"
     "void *memcpy(void *, const void *, __SIZE_TYPE__); void *memmove(void *, const void *, __SIZE_TYPE__);\n"
     "void *memset(void *, int, __SIZE_TYPE__); int memcmp(const void *, const void *, __SIZE_TYPE__);\n"
     "#pragma GCC visibility pop\n"
     "static __attribute__((noinline)) void *jump(void *to, const void *from, __SIZE_TYPE__ n) {\n"
     "    __asm__(\"\" : \"+r\"(to));\n"
     "    return memmove(to, from, n);\n"
     "}\n"
     "typedef void *mover(void *, const void *, __SIZE_TYPE__);\n"
     "static __attribute__((noinline)) void call(mover *f, void *to, const void *from, __INT64_TYPE__ n);\n" SIGNATURE(
         "memory") "{\n"
                   "    byte *a = buf[0], *b = buf[1]; i64 n = dim[0];\n"
                   "    memcpy(b, a, n); memset(a, 0x5a, n); jump(b + 3, b, n);\n"
                   "    call(memmove, b + 1, b + 2, n);\n"
                   "    *(int *)buf[2] = memcmp(a, b, n);\n"
                   "}\n"
                   "static void call(mover *f, void *to, const void *from, i64 n) { __asm__(\"\" : \"+r\"(f)); f(to, "
                   "from, n); }\n"},
    /* The same file-scope names as another kernel. */
    {"other", "static float half(float x) { return x * 2.0f; }\n" SIGNATURE(
                  "other") "{\n"
                           "    float *o = buf[0];\n"
                           "    for (i64 i = begin; i < end; i++) o[i] = half(o[i]);\n"
                           "}\n"},
};

static void check_memory_functions(ig_cpu_kernel kernel) {
    for (int64_t n = 0; n < 200; n++) {
        unsigned char a[256], b[256], expected[256];
        for (int i = 0; i < 256; i++)
            a[i] = (unsigned char)(i * 7 + n), b[i] = expected[i] = (unsigned char)i;
        memcpy(expected, a, (size_t)n);
        memmove(expected + 3, expected, (size_t)n);
        memmove(expected + 1, expected + 2, (size_t)n);
        int order = 0;
        kernel((void *[]){a, b, &order}, &n, 0, 1, NULL);
        assert_memory_equal(b, expected, 256);
        for (int64_t i = 0; i < n; i++)
            assert_int_equal(a[i], 0x5a);
        int real = memcmp(a, b, (size_t)n);
        assert_int_equal((order > 0) - (order < 0), (real > 0) - (real < 0));
    }
}

static void use_working(const struct ig_code *code, unsigned char *mapped) {
    for (unsigned i = 0; i < COUNT(working); i++) {
        assert_true(code->entries[i] < code->size);
    }
    float a[37], o[37];
    for (int i = 0; i < 37; i++)
        a[i] = (float)i, o[i] = -1;
    ((ig_cpu_kernel)(void *)(mapped + code->entries[0]))((void *[]){a, o}, NULL, 2, 35, NULL);
    for (int i = 0; i < 37; i++)
        assert_true(o[i] == (i < 2 || i >= 35 ? -1.0f : (float)i * 0.5f + 3.25f));

    int chosen[9];
    int64_t dim = 1234;
    static const int expected[] = {411, 8638, 1246, 1134, 9872, 1235, 4, 29, 5};
    ((ig_cpu_kernel)(void *)(mapped + code->entries[1]))((void *[]){chosen}, &dim, 0, 9, NULL);
    assert_memory_equal(chosen, expected, sizeof expected);

    check_memory_functions((ig_cpu_kernel)(void *)(mapped + code->entries[2]));

    ((ig_cpu_kernel)(void *)(mapped + code->entries[3]))((void *[]){a}, NULL, 0, 37, NULL);
    for (int i = 0; i < 37; i++)
        assert_true(a[i] == 2.0f * (float)i);
}

static void check_compiler(const char *cc, const char *flag) {
    struct trial first = {
        .cc = cc, .flag = flag, .jobs = 1, .sources = working, .count = COUNT(working), .use = use_working};
    struct trial again = first;
    again.jobs = 3;
    expect_success(&first);
    expect_success(&again);
    assert_int_equal(first.size, again.size); /* the number of processes has no effect */
    assert_memory_equal(first.bytes, again.bytes, first.size);
    free(first.bytes);
    free(again.bytes);
}

static void test_default_compiler(void **state) {
    check_compiler(NULL, NULL);
}

static void test_gcc(void **state) {
    if (access("/usr/bin/gcc", X_OK) != 0) skip();
    check_compiler("gcc", NULL);
    check_compiler("gcc", "-fno-plt"); /* calls through a GOT, which does not exist here */
    check_compiler("gcc", "-Os");
}

static void test_clang(void **state) {
    if (access("/usr/bin/clang", X_OK) != 0) skip();
    check_compiler("/usr/bin/clang", NULL);
    check_compiler("/usr/bin/clang", "-fno-plt");
    check_compiler("/usr/bin/clang", "-O1");
}

static void test_nothing_to_compile(void **state) {
    struct ingot_error error;
    struct trial trial = {.jobs = 2};
    if (run_body(trial_body, &trial, &error) != INGOT_OK) fail_msg("%s", error.message);
    free(trial.bytes);
}

/* File names, the date and the temporary folder do not affect the code. */
static void test_place_does_not_show(void **state) {
    struct ig_source source = {"kernel", SIGNATURE("kernel") "{ __builtin_strcpy(buf[0], __FILE__ __BASE_FILE__); }\n"};
    struct trial first = {.jobs = 1, .sources = &source, .count = 1}, second = first;
    expect_success(&first);
    expect_success(&second);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.bytes, second.bytes, first.size);
    free(first.bytes);
    free(second.bytes);
}

/* ---- Code that is refused ---- */

static void test_refusals(void **state) {
    expect_refusal(SIGNATURE("kernel") "{ undeclared_thing++; }\n", "undeclared_thing");
    expect_refusal(SIGNATURE("kernel") "{ undeclared_thing++; }\n", "cannot compile 'kernel': 0.c:2:");
    expect_refusal("#include <stdio.h>\n" SIGNATURE("kernel") "{}\n", "stdio.h");
    expect_refusal("float expf(float);\n" SIGNATURE("kernel") "{ *(float *)buf[0] = expf(dim[0]); }\n", "'expf'");
    expect_refusal("float memexp(float);\n" SIGNATURE("kernel") "{ *(float *)buf[0] = memexp(dim[0]); }\n", "'memexp'");
    expect_refusal("static int calls;\n" SIGNATURE("kernel") "{ *(int *)buf[0] = ++calls; }\n",
                   "'calls' (.bss) is writable data");
    expect_refusal("int calls = 5;\n" SIGNATURE("kernel") "{ *(int *)buf[0] = ++calls; }\n",
                   "'calls' (.data) is writable data");
    expect_refusal("static __thread int calls;\n" SIGNATURE("kernel") "{ *(int *)buf[0] = ++calls; }\n", "'calls'");
    expect_refusal("static const char *const names[] = {\"ab\", \"cd\", \"ef\"};\n" SIGNATURE(
                       "kernel") "{ *(const char **)buf[0] = names[dim[0]]; }\n",
                   "absolute address");
    expect_refusal("void other(void) {}\n", "'kernel': it has no function of that name");
    expect_refusal("static " SIGNATURE("kernel") "{}\n", "'kernel'");
    expect_refusal("const int kernel = 5;\n", "'kernel': it has no function of that name");
    expect_refusal("", "'kernel': it has no function of that name");
    expect_refusal(
        "__attribute__((constructor)) void start(void) { __asm__ volatile(\"\"); }\n" SIGNATURE("kernel") "{}\n",
        "init_array");
}

static void expect_no_compiler(const char *cc, const char *expected) {
    struct ingot_error error;
    struct trial trial = {.cc = cc, .jobs = 1};
    assert_int_equal(run_body(trial_body, &trial, &error), INGOT_TOOLCHAIN);
    if (!strstr(error.message, expected)) fail_msg("'%s' does not say '%s'", error.message, expected);
}

static void test_missing_compilers(void **state) {
    expect_no_compiler("/no/such/cc", "no C compiler: '/no/such/cc'");
    expect_no_compiler("no-such-cc", "looked for 'no-such-cc' in /usr/local/bin:/usr/bin:/bin");
    expect_no_compiler("/bin/false", "'/bin/false' is no C compiler");
    expect_no_compiler("/", "'/'");
}

/* ---- Processes and folders ---- */

/* Never ends by itself. */
static const char *const shell_sleep[] = {"/bin/sh", "-c", "echo started; sleep infinity & sleep infinity", NULL};
static const char *const shell_talk[] = {"/bin/sh", "-c", "echo out; echo err >&2; cat; exit 7", NULL};
static const char *const shell_shout[] = {"/bin/sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x", NULL};
static const char *const shell_die[] = {"/bin/sh", "-c", "kill -9 $$", NULL};
static const char *const no_environment[] = {NULL};
static char kept_path[64];

static void talk_body(struct ig_job *job, void *argument) {
    struct ig_processes *processes = ig_processes_create(job, 4, NULL);
    ig_process_start(processes, shell_talk, no_environment, 0);
    ig_process_start(processes, shell_shout, ig_compiler_environment(job, NULL), 1);
    ig_process_start(processes, shell_die, no_environment, 2);
    bool seen[3] = {false};
    while (ig_processes_running(processes)) {
        struct ig_process_end end = ig_process_wait(processes);
        seen[end.tag] = true;
        if (end.tag == 0) {
            assert_int_equal(end.exit_status, 7);
            assert_string_equal(end.output, "out\nerr\n");
        } else if (end.tag == 1) {
            assert_int_equal(end.exit_status, 0);
            assert_int_equal(strlen(end.output), 65536);
        } else {
            assert_int_equal(end.exit_status, -1);
            assert_int_equal(end.signal, SIGKILL);
        }
    }
    assert_true(seen[0] && seen[1] && seen[2]);
    ig_processes_destroy(processes);
}

static void test_processes(void **state) {
    struct ingot_error error;
    assert_int_equal(run_body(talk_body, NULL, &error), INGOT_OK);
}

static void abandon_body(struct ig_job *job, void *argument) {
    struct ig_folder *folder = ig_folder_create(job);
    snprintf(kept_path, sizeof kept_path, "%s", folder->path);
    FILE *file = fopen(ig_format(job, "%s/leftover", folder->path), "w");
    assert_non_null(file);
    fclose(file);
    struct ig_processes *processes = ig_processes_create(job, 4, NULL);
    for (int i = 0; i < 3; i++)
        ig_process_start(processes, shell_sleep, ig_compiler_environment(job, NULL), 0);
    const char *const missing[] = {"/no/such/program", NULL};
    ig_process_start(processes, missing, no_environment, 0);
}

/* A failure kills and reaps running processes, grandchildren too, and removes the folder. If it waited for them, or
 * left one alive, this test would not end: they never end by themselves, and all of them hold the pipe's write end. */
static void test_failure_leaves_nothing(void **state) {
    struct ingot_error error;
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(run_body(abandon_body, NULL, &error), INGOT_TOOLCHAIN);
    assert_non_null(strstr(error.message, "/no/such/program"));
    assert_int_equal(access(kept_path, F_OK), -1);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
}

/* In a process of its own: starts compilers that never end, with a folder, and is killed. */
static void doomed_body(struct ig_job *job, void *argument) {
    int *told = argument;
    struct ig_folder *made = ig_folder_create(job);
    FILE *file = fopen(ig_format(job, "%s/leftover", made->path), "w");
    if (file) fclose(file);
    struct ig_processes *processes = ig_processes_create(job, 4, made->path);
    for (int i = 0; i < 3; i++)
        ig_process_start(processes, shell_sleep, ig_compiler_environment(job, NULL), 0);
    if (write(told[1], made->path, strlen(made->path)) > 0) raise(SIGKILL);
}

/* All processes hold the write end of `alive`, so that its end is theirs, and that of the removal. */
static void test_killed_process_leaves_nothing(void **state) {
    struct ingot_error error;
    int told[2], alive[2], status;
    char path[64] = {0}, byte;
    assert_int_equal(pipe(told), 0);
    assert_int_equal(pipe(alive), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        run_body(doomed_body, told, &error);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_true(read(told[0], path, sizeof path - 1) > 0);
    close(alive[1]);
    assert_int_equal(read(alive[0], &byte, 1), 0);
    assert_int_equal(access(path, F_OK), -1);
    close(alive[0]);
    close(told[0]);
    close(told[1]);
}

/* ---- Memory that runs out ---- */

struct limited {
    size_t left, live;
};

static void *limited_alloc(void *user, size_t size, size_t alignment) {
    struct limited *limited = user;
    if (limited->left == 0) return NULL;
    limited->left--;
    limited->live++;
    return ig_libc_allocator.alloc(NULL, size, alignment);
}

static void limited_release(void *user, void *memory, size_t size) {
    struct limited *limited = user;
    limited->live--;
    free(memory);
}

/* The arena allocates only a few times, so each of these can fail in turn. */
static void test_failing_allocator(void **state) {
    enum ingot_status status = INGOT_OUT_OF_MEMORY;
    for (size_t allowed = 0; status != INGOT_OK; allowed++) {
        struct limited limited = {.left = allowed};
        struct ingot_allocator allocator = {&limited, limited_alloc, limited_release};
        struct trial trial = {.jobs = 2, .sources = working, .count = COUNT(working)};
        struct ig_job job;
        struct ingot_error error;
        ig_job_init(&job, &allocator);
        status = ig_job_run(&job, trial_body, &trial, &error);
        ig_job_deinit(&job);
        free(trial.bytes);
        assert_true(status == INGOT_OK || status == INGOT_OUT_OF_MEMORY);
        assert_int_equal(limited.live, 0);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        assert_true(allowed < 100);
    }
}

/* ---- Damaged object files ---- */

static void object_body(struct ig_job *job, void *argument) {
    struct trial *trial = argument;
    struct ig_folder *folder = ig_folder_create(job);
    const char *source = ig_format(job, "%s/a.c", folder->path), *object = ig_format(job, "%s/a.o", folder->path);
    FILE *file = fopen(source, "w");
    fputs(trial->sources->text, file);
    fclose(file);
    const char *const argv[] = {trial->cc, "-O2", "-fPIC", "-w", "-c", source, "-o", object, NULL};
    struct ig_processes *processes = ig_processes_create(job, 1, NULL);
    ig_process_start(processes, argv, ig_compiler_environment(job, folder->path), 0);
    assert_int_equal(ig_process_wait(processes).exit_status, 0);
    struct ingot_error error;
    struct ig_mapping mapping;
    assert_int_equal(ig_file_map(object, &mapping, &error), INGOT_OK);
    trial->bytes = malloc(mapping.size);
    trial->size = mapping.size;
    memcpy(trial->bytes, mapping.data, mapping.size);
    ig_file_unmap(&mapping);
}

struct damaged {
    const void *bytes;
    size_t size;
};

static void link_body(struct ig_job *job, void *argument) {
    struct damaged *damaged = argument;
    struct ig_object object;
    struct ig_code code;
    const char *symbol = "memory";
    ig_object_read(job, damaged->bytes, damaged->size, "memory", &object);
    ig_link_needs_support(&object);
    ig_link(job, &object, &symbol, 1, &object, &code);
}

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void test_damaged_objects(void **state) {
    struct ingot_error error;
    struct trial trial = {.cc = "/usr/bin/cc", .sources = &working[2]};
    if (access(trial.cc, X_OK) != 0) skip();
    assert_int_equal(run_body(object_body, &trial, &error), INGOT_OK);
    uint64_t random = 1;
    for (int round = 0; round < 4000; round++) {
        /* A block of exactly the file's size, so that AddressSanitizer detects reads beyond it. */
        size_t size = round % 4 ? trial.size : (size_t)(next_random(&random) % trial.size);
        unsigned char *copy = malloc(size ? size : 1);
        memcpy(copy, trial.bytes, size);
        for (int k = 0; size && k < 1 + round % 5; k++) {
            size_t at = next_random(&random) % size;
            if (round & 1) at = size - 1 - at % (size < 1600 ? size : 1600); /* the section table is at the end */
            copy[at] = (unsigned char)(round & 2 ? 0xff : next_random(&random));
        }
        struct damaged damaged = {copy, size};
        enum ingot_status status = run_body(link_body, &damaged, &error);
        if (status) assert_true(strlen(error.message) > 10);
        free(copy);
    }
    free(trial.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_compiler),
        cmocka_unit_test(test_gcc),
        cmocka_unit_test(test_clang),
        cmocka_unit_test(test_nothing_to_compile),
        cmocka_unit_test(test_place_does_not_show),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_missing_compilers),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_failure_leaves_nothing),
        cmocka_unit_test(test_killed_process_leaves_nothing),
        cmocka_unit_test(test_failing_allocator),
        cmocka_unit_test(test_damaged_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
