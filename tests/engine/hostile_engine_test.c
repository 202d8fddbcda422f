/*
 * Engines for CUDA with altered plans and matching checksums (support/plan/mutation.h), loaded and run on stand-ins for the
 * driver, cuBLASLt and cuDNN. The runtime must either refuse an engine or run it. It must not access memory that is not
 * its own (checked by AddressSanitizer; kernels do nothing here, but libraries compute and tensor maps are read, see
 * support/device/text_code.h), make invalid driver calls, leak, or run for ever.
 *
 *     hostile_engine_test [MUTANTS [SEED [FIRST]]]
 *
 * tries more mutants than the suite has time for and prints their numbers to standard error; ASAN_OPTIONS=handle_segv=2
 * shows where one crashes, and its number as FIRST repeats it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/format.h"
#include "fake_cublaslt/fake_cublaslt.h"
#include "fake_cuda/fake_cuda.h"
#include "fake_cudnn/fake_cudnn.h"
#include "support/beside.h"
#include "support/device/text_code.h"
#include "support/model/network.h"
#include "support/model/onnx_model.h"
#include "support/plan/mutation.h"
#include "support/support.h"

#define MOST_MEMORY ((size_t)16 << 20)
#define MOST_CALLS 4000 /* driver calls by one mutant; the last one fails */
enum { MOST_PORTS = 8, MUTANTS = 700 };

static struct fake_cuda *cuda;
static struct fake_cublaslt *cublaslt;
static struct fake_cudnn *cudnn;
static char folder[4000]; /* the stand-ins' folder */
static long session_mutants, session_first;
static uint64_t session_seed = 1;

/* ---- The engines --------------------------------------------------------------------------------------------------------- */

struct subject {
    const char *name;
    unsigned char *data;
    size_t size;
};

static struct subject subjects[8];
static size_t n_subjects;

static void keep(const char *name, struct ingot_model *model, const struct ingot_build_options *options) {
    struct ingot_error error = {0};
    void *data;
    size_t size;
    if (ingot_model_build_memory(model, options, &data, &size, &error)) fail_msg("%s: %s", name, error.message);
    void *copy = NULL;
    if (posix_memalign(&copy, IG_ENGINE_ALIGNMENT, size)) abort();
    memcpy(copy, data, size);
    subjects[n_subjects++] = (struct subject){name, copy, size};
    ingot_blob_release(model, data, size);
    ingot_model_destroy(model);
}

static struct ingot_build_options options_for(const char *precision) {
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    options.target = "cuda:sm_90a";
    options.precision = precision;
    options.nvrtc = folder;
    return options;
}

/* Generated kernels compute nothing here, so the tuner finds that only the library's results are right. */
static void keep_tuned(const char *path) {
    struct ingot_error error = {0};
    struct ingot_model *model;
    struct ingot_build_options options = options_for("fp16");
    struct ingot_shape_spec n = {"n", "1:4:9"};
    options.shapes = &n, options.n_shapes = 1;
    options.tune_seconds = 1e6; /* until all is measured, on any machine */
    if (ingot_model_load(path, NULL, &model, &error)) fail_msg("%s", error.message);
    keep(strrchr(path, '/') + 1, model, &options);
}

static void keep_made(const char *name, struct test_model *m, const char *precision, bool portable) {
    struct ingot_error error = {0};
    struct ingot_model *model;
    struct ingot_build_options options = options_for(precision);
    struct ingot_shape_spec n = {"n", "1:8192:8192"};
    options.shapes = &n, options.n_shapes = 1;
    options.portable = portable;
    size_t size;
    const void *data = test_model_pack(m, &size);
    if (ingot_model_load_memory(data, size, NULL, NULL, &model, &error)) fail_msg("%s: %s", name, error.message);
    keep(name, model, &options);
    test_model_deinit(m);
}

static Onnx__TensorProto *add_weight(struct test_model *m, const char *name, const char *dims, size_t count) {
    float *values = ig_alloc(&m->job, count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(i % 13) / 16 - 0.25f;
    return test_raw(m, NULL, name, TEST_FLOAT, dims, values, count * sizeof *values);
}

/* Products whose tiles TMA fetches. */
static void keep_products(void) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "n 768");
    add_weight(&m, "w", "768 768", (size_t)768 * 768);
    test_attr_int(&m, test_node(&m, NULL, "Softmax", "x", "s"), "axis", -1);
    test_node(&m, NULL, "MatMul", "s w", "z");
    test_node(&m, NULL, "Relu", "z", "r");
    test_node(&m, NULL, "MatMul", "r w", "y");
    test_output(&m, NULL, "y");
    keep_made("products", &m, "fp16", true);
}

/* Attention: three projections, scores, softmax, weighted sums, and a last projection. */
static void keep_attention(void) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "n 128 256");
    add_weight(&m, "w", "256 256", 256 * 256);
    test_ints(&m, NULL, "apart", "4", "0 128 4 64");
    test_ints(&m, NULL, "together", "3", "0 128 256");
    for (const char *each = "qkv"; *each; each++) {
        char product[] = {*each, '0', 0}, reshaped[] = {*each, '1', 0},
             of[] = {*each, '0', ' ', 'a', 'p', 'a', 'r', 't', 0};
        char name[] = {*each, 0};
        char factor[] = {'x', ' ', 'w', *each, 0};
        add_weight(&m, factor + 2, "256 256", 256 * 256);
        test_node(&m, NULL, "MatMul", factor, product);
        test_node(&m, NULL, "Reshape", of, reshaped);
        test_attr_ints(&m, test_node(&m, NULL, "Transpose", reshaped, name), "perm",
                       *each == 'k' ? "0 2 3 1" : "0 2 1 3");
    }
    test_node(&m, NULL, "MatMul", "q k", "scores");
    test_attr_int(&m, test_node(&m, NULL, "Softmax", "scores", "weights"), "axis", -1);
    test_node(&m, NULL, "MatMul", "weights v", "mixed");
    test_attr_ints(&m, test_node(&m, NULL, "Transpose", "mixed", "back"), "perm", "0 2 1 3");
    test_node(&m, NULL, "Reshape", "back together", "flat");
    test_node(&m, NULL, "MatMul", "flat w", "projected");
    test_node(&m, NULL, "Add", "projected x", "y");
    test_output(&m, NULL, "y");
    keep_made("attention", &m, "fp16", false);
}

/* Small independent products. */
static void keep_branches(void) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "n 16");
    for (const char *each = "abcd"; *each; each++) {
        char i = *each, w1[] = {'w', i, '1', 0}, w2[] = {'w', i, '2', 0}, h[] = {'h', i, 0}, r[] = {'r', i, 0},
             y[] = {'y', i, 0};
        char first[] = {'x', ' ', 'w', i, '1', 0}, second[] = {'r', i, ' ', 'w', i, '2', 0};
        add_weight(&m, w1, "16 16", 256);
        add_weight(&m, w2, "16 16", 256);
        test_node(&m, NULL, "MatMul", first, h);
        test_attr_int(&m, test_node(&m, NULL, "Softmax", h, r), "axis", -1);
        test_node(&m, NULL, "MatMul", second, y);
    }
    test_attr_int(&m, test_node(&m, NULL, "Concat", "ya yb yc yd", "all"), "axis", 1);
    test_attr_int(&m, test_node(&m, NULL, "Softmax", "all", "y"), "axis", -1);
    test_output(&m, NULL, "y");
    keep_made("branches", &m, "fp32", true);
}

/* Control flow, shapes from an input's elements, and an input that is also an output. */
static void keep_control(void) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "trip", TEST_INT64, "");
    test_input(&m, NULL, "chosen", TEST_BOOL, "");
    test_input(&m, NULL, "x", TEST_FLOAT, "n 6");
    test_input(&m, NULL, "shape", TEST_INT64, "2");
    add_weight(&m, "w", "6 6", 36);
    Onnx__GraphProto *body = test_graph(&m), *then_branch = test_graph(&m), *else_branch = test_graph(&m);
    test_input(&m, body, "i", TEST_INT64, "");
    test_input(&m, body, "go", TEST_BOOL, "");
    test_input(&m, body, "state", TEST_FLOAT, "n 6");
    test_node(&m, body, "MatMul", "state w", "moved");
    test_node(&m, body, "Add", "moved x", "next");
    test_node(&m, body, "Tanh", "next", "seen");
    test_output(&m, body, "go");
    test_output(&m, body, "next");
    test_output(&m, body, "seen");
    test_attr_graph(&m, test_node(&m, NULL, "Loop", "trip _ x", "last all"), "body", body);
    test_node(&m, then_branch, "MatMul", "last w", "t");
    test_output(&m, then_branch, "t");
    test_node(&m, else_branch, "Identity", "x", "e");
    test_output(&m, else_branch, "e");
    Onnx__NodeProto *node = test_node(&m, NULL, "If", "chosen", "v");
    test_attr_graph(&m, node, "then_branch", then_branch);
    test_attr_graph(&m, node, "else_branch", else_branch);
    test_node(&m, NULL, "Expand", "v shape", "wide");
    test_node(&m, NULL, "Identity", "x", "same");
    test_output(&m, NULL, "all");
    test_output(&m, NULL, "wide");
    test_output(&m, NULL, "same");
    keep_made("control", &m, "fp32", false);
}

/* ---- One engine ---------------------------------------------------------------------------------------------------------- */

/* Blocks of exactly the requested size, so that AddressSanitizer detects accesses beyond them, up to a limit. */
struct limited_allocator {
    struct ingot_allocator base;
    long live;
};

static void *limited_alloc(void *user, size_t size, size_t alignment) {
    struct limited_allocator *a = user;
    void *memory = NULL;
    if (size > MOST_MEMORY || posix_memalign(&memory, alignment < 16 ? 16 : alignment, size ? size : 1)) return NULL;
    a->live++;
    return memory;
}

static void limited_release(void *user, void *memory, size_t size) {
    ((struct limited_allocator *)user)->live -= memory != NULL;
    free(memory);
}

struct trial {
    struct ingot_engine *engine;
    struct ingot_context *context;
    void *data[MOST_PORTS];
    struct ingot_error error;
};

/* Symbolic dims are n; integers are n or 6. An input that is too large stays unbound, and the run reports that. */
static enum ingot_status bind(struct trial *t, size_t index, int64_t n) {
    struct ingot_tensor_info info;
    ingot_engine_input(t->engine, index, &info);
    struct ingot_tensor tensor = {.dtype = info.dtype, .rank = info.rank};
    int64_t bytes = (int64_t)ingot_dtype_size(info.dtype);
    for (int axis = 0; axis < info.rank; axis++) {
        tensor.dims[axis] = info.dims[axis] < 0 ? n : info.dims[axis];
        if (__builtin_mul_overflow(bytes, tensor.dims[axis], &bytes) || bytes > (int64_t)MOST_MEMORY) return INGOT_OK;
    }
    free(t->data[index]);
    tensor.data = t->data[index] = malloc((size_t)bytes + 1);
    memset(tensor.data, 0, (size_t)bytes);
    for (int64_t i = 0; info.dtype != INGOT_F32 && info.dtype != INGOT_F16 && i < bytes;
         i += (int64_t)ingot_dtype_size(info.dtype))
        ((unsigned char *)tensor.data)[i] = info.dtype == INGOT_BOOL ? 1 : (unsigned char)(i ? 6 : n);
    return ingot_context_set_input(t->context, index, &tensor, &t->error);
}

static void read_outputs(struct trial *t) {
    static volatile unsigned sum;
    for (size_t i = 0; i < ingot_engine_output_count(t->engine); i++) {
        struct ingot_tensor out;
        if (ingot_context_output(t->context, i, &out, &t->error)) continue;
        size_t bytes = (size_t)ingot_tensor_elements(&out) * ingot_dtype_size(out.dtype);
        for (size_t k = 0; k < bytes; k++)
            sum += ((const unsigned char *)out.data)[k];
    }
}

static enum ingot_status run(struct trial *t, int64_t n) {
    for (size_t i = 0; i < ingot_engine_input_count(t->engine) && i < MOST_PORTS; i++)
        IG_TRY(bind(t, i, n));
    enum ingot_status status = ingot_context_run(t->context, &t->error);
    if (status != INGOT_OK) return status;
    read_outputs(t);
    struct ingot_memory_info memory;
    return ingot_context_memory(t->context, &memory, &t->error);
}

static enum ingot_status run_all(struct trial *t, const struct ingot_context_options *options) {
    IG_TRY(ingot_context_create(t->engine, options, &t->context, &t->error));
    enum ingot_status status = run(t, 3);
    if (status == INGOT_OK) status = run(t, 5);
    if (status == INGOT_OK) status = run(t, 3);
    struct ingot_profile_row rows[4];
    if (status == INGOT_OK) (void)ingot_context_profile(t->context, rows, 4);
    return status;
}

static enum ingot_status try_engine(const unsigned char *data, size_t size, uint64_t choice,
                                    struct ingot_error *error) {
    struct limited_allocator allocator = {.base = {&allocator, limited_alloc, limited_release}};
    struct ingot_load_options load = INGOT_LOAD_OPTIONS_INIT;
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    struct trial t = {0};
    load.allocator = &allocator.base;
    load.verify = INGOT_VERIFY_NO_WEIGHTS;
    options.threads = 1;
    options.profile = choice % 8 == 0;
    options.timing = choice % 8 == 1;
    options.max_plan_instances = 1 + choice / 8 % 2;
    cuda->fail_at = MOST_CALLS, cuda->fail_result = 719;
    cuda->later = 0, cuda->log_size = sizeof cuda->log, cuda->misuse[0] = '\0';
    enum ingot_status status = ingot_engine_load_memory(data, size, &load, &t.engine, &t.error);
    if (status == INGOT_OK) status = run_all(&t, &options);
    ingot_context_destroy(t.context);
    ingot_engine_release(t.engine);
    for (size_t i = 0; i < MOST_PORTS; i++)
        free(t.data[i]);
    assert_string_equal(cuda->misuse, "");
    assert_string_equal(cublaslt->misuse, "");
    assert_string_equal(cudnn->misuse, "");
    assert_int_equal(cuda->live + cublaslt->live + cudnn->live, 0);
    assert_int_equal(allocator.live, 0);
    *error = t.error;
    return status;
}

/* ---- Tests --------------------------------------------------------------------------------------------------------------- */

static int make_subjects(void **state) {
    keep_tuned(TEST_SOURCE_DIR "/tests/whole/library_build.onnx");
    keep_tuned(TEST_SOURCE_DIR "/tests/whole/library_build_conv.onnx");
    keep_products();
    keep_attention();
    keep_branches();
    keep_control();
    return 0;
}

static int drop_subjects(void **state) {
    for (size_t i = 0; i < n_subjects; i++)
        free(subjects[i].data);
    return 0;
}

static size_t count_of(const struct subject *s, enum ig_part part) {
    struct ig_engine_header header;
    memcpy(&header, s->data, sizeof header);
    return header.parts[part].size / ig_part_rules[part].record;
}

static const void *table_of(const struct subject *s, enum ig_part part) {
    struct ig_engine_header header;
    memcpy(&header, s->data, sizeof header);
    return s->data + header.parts[part].offset;
}

/* The unchanged engines run, and contain everything that mutations should change. */
static void subjects_run(void **state) {
    struct ingot_error error;
    size_t n_calls = 0, n_maps = 0, n_lasting = 0, n_portable = 0, n_bodies = 0, n_more = 0;
    for (size_t i = 0; i < n_subjects; i++) {
        const struct subject *s = &subjects[i];
        if (try_engine(s->data, s->size, 0, &error) || try_engine(s->data, s->size, 2, &error))
            fail_msg("%s: %s", s->name, error.message);
        const struct ig_plan_kernel *kernels = table_of(s, IG_PART_KERNELS);
        for (size_t k = 0; k < count_of(s, IG_PART_KERNELS); k++) {
            n_maps += kernels[k].n_maps;
            n_lasting += kernels[k].lasting;
            n_portable += !kernels[k].library && kernels[k].portable != UINT64_MAX;
        }
        const struct ig_plan_step *steps = table_of(s, IG_PART_STEPS);
        for (size_t k = 0; k < count_of(s, IG_PART_STEPS); k++)
            n_more += steps[k].n_alternatives;
        n_calls += count_of(s, IG_PART_CALLS);
        n_bodies += count_of(s, IG_PART_SUBPLANS) - 1;
    }
    print_message(
        "%zu library calls, %zu tensor maps, %zu kernels that last, %zu with PTX, %zu bodies, %zu alternatives\n",
        n_calls, n_maps, n_lasting, n_portable, n_bodies, n_more);
    assert_true(n_calls > 2 && n_maps > 2 && n_lasting > 0 && n_portable > 2 && n_bodies > 2 && n_more > 2);
}

static void mutants_do_no_harm(void **state) {
    long count = session_mutants ? session_mutants : MUTANTS, ran = 0;
    unsigned statuses[INGOT_INTERNAL + 1] = {0};
    for (long i = session_first; i < session_first + count; i++) {
        const struct subject *s = &subjects[(size_t)i % n_subjects];
        uint64_t random = session_seed + (uint64_t)i * 0x9e3779b97f4a7c15u;
        struct ingot_error error;
        void *copy = NULL;
        if (session_mutants) fprintf(stderr, "\r%s %ld ", s->name, i);
        assert_int_equal(posix_memalign(&copy, IG_ENGINE_ALIGNMENT, s->size), 0);
        memcpy(copy, s->data, s->size);
        mutate_engine(copy, &random);
        enum ingot_status status = try_engine(copy, s->size, mutation_random(&random), &error);
        if (status == INGOT_INTERNAL || (status != INGOT_OK && strlen(error.message) < 10))
            fail_msg("%s, mutant %ld: status %d, '%s'", s->name, i, (int)status, error.message);
        if (session_mutants) fprintf(stderr, "%s                    ", status ? error.message : "");
        statuses[status]++;
        ran += status == INGOT_OK;
        free(copy);
    }
    for (int i = 0; i <= INGOT_INTERNAL; i++)
        if (statuses[i]) print_message("%s: %u\n", i ? ingot_status_name((enum ingot_status)i) : "ran", statuses[i]);
    if (!session_mutants) assert_true(ran > count / 20 && statuses[INGOT_BAD_ENGINE] > count / 20);
}

/* ---- The machine ----------------------------------------------------------------------------------------------------------- */

static void *state_of(const char *library, const char *function) {
    void *(*state)(void);
    void *loaded = dlopen(library, RTLD_NOW), *address = loaded ? dlsym(loaded, function) : NULL;
    if (!address) abort();
    memcpy(&state, &address, sizeof state);
    return state();
}

/* The stand-ins are found by name, like the real libraries. The loader reads LD_LIBRARY_PATH only when a program
 * starts, so this may restart it. */
static void find_stand_ins(char **arguments) {
    static const char below[] = "emulator";
    test_beside(below, folder, sizeof folder);
    const char *path = getenv("LD_LIBRARY_PATH");
    if (!path || strcmp(path, folder) != 0) {
        setenv("LD_LIBRARY_PATH", folder, 1);
        execv("/proc/self/exe", arguments);
        abort();
    }
    cuda = state_of("libcuda.so.1", "fake_cuda_state");
    cublaslt = state_of("libcublasLt.so.13", "fake_cublaslt_state");
    cudnn = state_of("libcudnn.so.9", "fake_cudnn_state");
    cuda->memory = MOST_MEMORY;
    cuda->code = text_code();
    strcpy(strrchr(folder, '/') + 1, "fake_nvrtc.so");
}

int main(int count, char **arguments) {
    find_stand_ins(arguments);
    if (count > 1) session_mutants = atol(arguments[1]);
    if (count > 2) session_seed = strtoull(arguments[2], NULL, 10);
    if (count > 3) session_first = atol(arguments[3]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(subjects_run),
        cmocka_unit_test(mutants_do_no_harm),
    };
    return cmocka_run_group_tests(tests, make_subjects, drop_subjects);
}
