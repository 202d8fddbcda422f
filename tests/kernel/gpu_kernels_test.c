/*
 * The kernels of every shared model compile for GPUs of every generation, in fp32 and in fp16: NVRTC needs no GPU.
 * Regions of symbolic sizes have a kernel more for other sizes, in fp16 for sm_90a only, where schedules differ most.
 * These are thousands of kernels, so a text that several models share is compiled once, of those with the same schedule
 * one in eight is, and support/check/nvrtc_check.h saves time. If the models are not beside the project's folder, the
 * example network replaces them. Skipped without NVRTC (INGOT_NVRTC names it if the loader does not find it).
 *
 *     gpu_kernels_test [--all] [MODEL.onnx...]
 *
 * compiles each kernel, or those of other models.
 */
#define _GNU_SOURCE
#include "support/support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/text.h"
#include "compile/options.h"
#include "compile/plan_build.h"
#include "import/onnx/import.h"
#include "pass/precision/precision.h"
#include "support/check/nvrtc_check.h"
#include "support/check/passes.h"
#include "support/model/network.h"
#include "support/model/structure.h"

#define MODELS TEST_SOURCE_DIR "/../shared/models"

static const char *const precision_names[] = {"fp32", "fp16"};
enum { N_PRECISIONS = sizeof precision_names / sizeof *precision_names };

static char **models;
static size_t n_models;
static char folder[] = "/tmp/gpu-kernels-XXXXXX";

static bool compile_all;

static const char *const archs[] = {"sm_80", "sm_90a", "sm_100"};
enum { N_ARCHS = sizeof archs / sizeof *archs };

/* The distinct kernels of all models for a target. */
struct collection {
    struct ig_job job;
    int arch;
    struct ig_map by_text, by_schedule; /* by_schedule: how many there are */
    IG_VEC(struct ig_source) texts;     /* each kernel is called "kernel" */
    uint32_t n_kernels, n_texts;
    size_t bytes;
    unsigned failures;
};

/* One model's kernels; in a job of its own, because it holds a whole network. */
struct visit {
    struct collection *to;
    const char *name, *path, *precision;
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- Models --------------------------------------------------------------------------------------------------------------- */

static void add_model(char *path) {
    models = realloc(models, (n_models + 1) * sizeof *models);
    assert_non_null(models);
    models[n_models++] = path;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A file NAME.onnx or a folder with model.onnx. */
static void add_models_of(const char *parent) {
    DIR *directory = opendir(parent);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        const char *dot = strrchr(entry->d_name, '.');
        char *path = NULL;
        if (entry->d_name[0] == '.') continue;
        assert_true(asprintf(&path, dot && strcmp(dot, ".onnx") == 0 ? "%s/%s" : "%s/%s/model.onnx", parent,
                             entry->d_name) > 0);
        if (access(path, R_OK) == 0) {
            add_model(path);
        } else {
            free(path);
        }
    }
    if (directory) closedir(directory);
}

static void find_models(int count, char **given) {
    for (int i = 0; i < count; i++)
        add_model(strdup(given[i]));
    if (n_models) return;
    add_models_of(MODELS "/real");
    add_models_of(MODELS "/structures");
    if (!n_models) {
        printf("there are no models in " MODELS ": the example network stands for them\n");
        add_model(strdup(TEST_DIGITS));
    }
    qsort(models, n_models, sizeof *models, by_name);
}

/* "resnet50" of ".../resnet50.onnx", "yunet" of ".../yunet/model.onnx". */
static char *name_of(const char *path) {
    char *copy = strdup(path), *end = strrchr(copy, '.');
    if (end) *end = '\0';
    char *last = strrchr(copy, '/');
    if (last && strcmp(last, "/model") == 0) {
        *last = '\0';
        last = strrchr(copy, '/');
    }
    char *name = strdup(last ? last + 1 : copy);
    free(copy);
    return name;
}

/* ---- Their kernels ---------------------------------------------------------------------------------------------------------- */

static bool is_letter(char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The text without what depends on its model: the comment at its head, and the function's name. */
static const char *bare(struct ig_job *job, const char *text, const char *symbol) {
    struct ig_text result;
    size_t length = strlen(symbol);
    ig_text_init(&result, job);
    if (strncmp(text, "/*", 2) == 0) text = strstr(text, "*/") + 2;
    const char *from = text;
    for (const char *at = text; (at = strstr(at, symbol)); at += length) {
        if ((at > text && is_letter(at[-1])) || is_letter(at[length])) continue;
        ig_text_printf(&result, "%.*skernel", (int)(at - from), from);
        from = at + length;
    }
    ig_text_printf(&result, "%s", from);
    return result.at;
}

/* Of the kernels of one schedule the first two, and every eighth. */
static bool is_chosen(struct collection *c, const char *schedule) {
    uint32_t number = 0;
    ig_map_get_name(&c->by_schedule, schedule, &number);
    ig_map_put_name(&c->by_schedule, schedule, number + 1);
    return compile_all || number < 2 || number % 8 == 0;
}

static void add_kernel(struct collection *c, const char *model, const struct ig_compiled_kernel *kernel) {
    const char *text = bare(&c->job, kernel->source, kernel->symbol);
    uint32_t known;
    c->n_kernels++;
    if (ig_map_get_name(&c->by_text, text, &known)) return;
    ig_map_put_name(&c->by_text, text, c->n_texts++);
    if (!is_chosen(c, kernel->kernel->tactic)) return;
    struct ig_source source = {ig_format(&c->job, "%s of %s", kernel->symbol, model), text};
    IG_PUSH(&c->job, &c->texts, source);
}

static void unmap(void *mapping) {
    ig_file_unmap(mapping);
}

static struct ig_graph *import(struct ig_job *job, const char *path) {
    struct ig_mapping *mapping = IG_NEW(job, struct ig_mapping);
    struct ingot_error error;
    if (ig_file_map(path, mapping, &error)) ig_raise_error(job, &error);
    ig_defer(job, unmap, mapping);
    char *parent = ig_strdup(job, path);
    *strrchr(parent, '/') = '\0';
    return ig_import_onnx(job, mapping->data, mapping->size, parent, false, NULL);
}

/* The pipeline, up to the compiler. */
static void collect(struct ig_job *job, void *argument) {
    const struct visit *visit = argument;
    const struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    struct ig_target_choice target;
    struct ig_precisions precisions;
    struct ig_variant_set variants;
    struct ig_kernel_set set;
    struct ig_built_plan plan;
    ig_target_parse(job, ig_format(job, "cuda:%s", archs[visit->to->arch]), &target);
    const struct ig_kernel_compiler compiler = {.target = &target.target, .arch = archs[visit->to->arch]};
    struct ig_graph *imported = import(job, visit->path), *graph = imported;
    ig_precisions_parse(graph, visit->precision, NULL, 0, &precisions);
    const struct ig_pass_options pass_options = {.target = &target.target, .precisions = &precisions};
    graph = passes_of_build(graph, &options, &pass_options);
    bool varied = target.target.sm == 90 && strcmp(visit->precision, "fp16") == 0;
    ig_variants_choose(graph, &target.target, NULL, varied ? 2 : 1, &variants);
    ig_kernel_set_init(&set, job, &compiler, NULL, &variants);
    ig_plan_build(graph, imported, &set, &plan);
    if (set.refusals.count) ig_raise_error(job, set.refusals.at[0].error); /* a slower kernel was used instead */
    for (uint32_t i = 0; i < set.kernels.count; i++)
        add_kernel(visit->to, visit->name, &set.kernels.at[i]);
}

static void visit_model(struct collection *c, const char *path) {
    struct ingot_error error;
    struct visit visit = {c, name_of(path), structure_fill(path, folder), NULL};
    if (!visit.path) fail_msg("cannot read %s", path);
    for (int i = 0; i < N_PRECISIONS; i++) {
        struct ig_job job;
        visit.precision = precision_names[i];
        ig_job_init(&job, &ig_libc_allocator);
        if (ig_job_run(&job, collect, &visit, &error)) {
            printf("FAILED %s for %s, %s: %s\n", visit.name, archs[c->arch], visit.precision, error.message);
            c->failures++;
        }
        ig_job_deinit(&job);
    }
    free((char *)visit.name);
    free((char *)visit.path);
}

/* ---- Compiling them --------------------------------------------------------------------------------------------------------- */

static void compile(struct ig_job *job, void *argument) {
    struct collection *c = argument;
    c->bytes = nvrtc_check(job, archs[c->arch], c->texts.at, c->texts.count);
}

static void try_arch(int arch) {
    struct collection c = {.arch = arch};
    struct ingot_error error;
    double begin = now();
    clock_t ticks = clock();
    ig_job_init(&c.job, &ig_libc_allocator);
    ig_map_init(&c.by_text, &c.job);
    ig_map_init(&c.by_schedule, &c.job);
    for (size_t i = 0; i < n_models; i++)
        visit_model(&c, models[i]);
    double middle = now();
    if (ig_job_run(&c.job, compile, &c, &error)) {
        printf("FAILED %s\n", error.message);
        c.failures++;
    }
    printf(
        "%s: %zu models, %u kernels, %u texts, %u compiled, %.0f s to print, %.0f s to compile, %.0f s of a processor, "
        "%zu bytes\n",
        archs[arch], n_models, c.n_kernels, c.n_texts, c.texts.count, middle - begin, now() - middle,
        (double)(clock() - ticks) / CLOCKS_PER_SEC, c.bytes);
    ig_job_deinit(&c.job);
    assert_int_equal(c.failures, 0);
}

static void sm_80(void **state) {
    try_arch(0);
}

static void sm_90a(void **state) {
    try_arch(1);
}

static void sm_100(void **state) {
    try_arch(2);
}

static int tear_down(void **state) {
    char *command;
    for (size_t i = 0; i < n_models; i++)
        free(models[i]);
    free(models);
    assert_true(asprintf(&command, "%s/model.onnx", folder) > 0);
    unlink(command);
    strcpy(strrchr(command, '/'), "/weights");
    unlink(command);
    free(command);
    return rmdir(folder);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sm_80),
        cmocka_unit_test(sm_90a),
        cmocka_unit_test(sm_100),
    };
    struct ingot_error error;
    if (!nvrtc_is_found(&error)) {
        printf("skipped: %s\n", error.message);
        return 77;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!mkdtemp(folder)) return 1;
    compile_all = argc > 1 && strcmp(argv[1], "--all") == 0;
    find_models(argc - 1 - compile_all, argv + 1 + compile_all);
    return cmocka_run_group_tests_name("kernels for GPUs", tests, NULL, tear_down);
}
