/*
 * Refitting whole models: the example, and the real ones beside the project's folder if there are any. Each is built for a
 * GPU with a compiler that compiles nothing; its initialisers get other values, ordinary ones and such as could decide
 * something. The engine that is refitted to them has the bytes of one that is built from the changed model; a structural
 * initialiser that changes is refused by name. Builds with a cache find the first one's structure in the former case, and
 * give the same bytes in both.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "onnx.pb-c.h"
#include "support/beside.h"
#include "support/model/network.h"
#include "support/support.h"

enum { MOST_BYTES = 24 << 20, ROUNDS = 3 };

static const char *models = TEST_SOURCE_DIR "/../shared/models/real";
static char nvrtc[4096], folder[] = "/tmp/ingot-refit-models-XXXXXX";

struct blob {
    unsigned char *data;
    size_t size;
};

/* ---- Models with other values */

static uint64_t random_bits(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 24;
}

/* Of f32: the type of most weights. Every third tensor has equal numbers, which a pass could take for something. */
static void change_floats(float *at, size_t count, int round, uint64_t *state) {
    static const float special[] = {0, 1, -1, 0.5f, 1e30f, 2};
    uint64_t kind = random_bits(state);
    for (size_t i = 0; i < count; i++) {
        uint64_t r = random_bits(state);
        at[i] = round > 0 && kind % 3 == 0 ? special[kind / 3 % 6] : (float)(r % 2001) / 1000 - 1;
    }
}

static bool is_structural(const struct ingot_engine *engine, const char *name) {
    for (size_t i = 0; i < ingot_engine_initializer_count(engine); i++) {
        struct ingot_initializer_info info;
        ingot_engine_initializer(engine, i, &info);
        if (strcmp(info.name, name) == 0) return info.kind == INGOT_STRUCTURAL;
    }
    return false;
}

/* Changes what can be replaced, or with `structural` one that cannot; returns its name, or of any changed tensor. */
static const char *change(Onnx__GraphProto *graph, const struct ingot_engine *engine, bool structural, int round) {
    const char *changed = NULL;
    uint64_t state = (uint64_t)round * 977 + 1;
    for (size_t i = 0; i < graph->n_initializer; i++) {
        Onnx__TensorProto *t = graph->initializer[i];
        if (t->has_data_location || is_structural(engine, t->name) != structural || (structural && changed)) continue;
        if (t->data_type == 1 && t->has_raw_data) {
            float *copy = malloc(t->raw_data.len + 1); /* raw data need not be aligned */
            change_floats(copy, t->raw_data.len / sizeof *copy, round, &state);
            memcpy(t->raw_data.data, copy, t->raw_data.len);
            free(copy);
        } else if (t->data_type == 1 && t->n_float_data) {
            change_floats(t->float_data, t->n_float_data, round, &state);
        } else if (t->data_type == 10 && t->has_raw_data && !structural) {
            for (size_t k = 0; k + 1 < t->raw_data.len; k += 2)
                t->raw_data.data[k] ^= (unsigned char)random_bits(&state);
        } else if ((t->data_type == 2 || t->data_type == 3) && t->has_raw_data && !structural) {
            for (size_t k = 0; k < t->raw_data.len; k++)
                t->raw_data.data[k] = (unsigned char)random_bits(&state);
        } else {
            continue;
        }
        changed = t->name;
    }
    return changed;
}

/* ---- Engines */

/* `cache` may be NULL; `out_found`: whether the structure is from there. */
static bool build_with(struct ingot_cache *cache, const void *data, size_t size, const char *model_folder,
                       struct blob *out, bool *out_found, struct ingot_error *error) {
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    struct ingot_build_report report = INGOT_BUILD_REPORT_INIT;
    struct ingot_model *model;
    void *engine;
    options.target = "cuda:sm_80";
    options.nvrtc = nvrtc;
    options.variants = 1;
    options.cache = cache;
    options.report = &report;
    if (ingot_model_load_memory(data, size, model_folder, NULL, &model, error)) return false;
    bool built = ingot_model_build_memory(model, &options, &engine, &out->size, error) == INGOT_OK;
    if (built) {
        assert_int_equal(posix_memalign((void **)&out->data, 64, out->size), 0);
        memcpy(out->data, engine, out->size);
        ingot_blob_release(model, engine, out->size);
    }
    ingot_model_destroy(model);
    *out_found = report.structure_cached;
    return built;
}

static bool build(const void *data, size_t size, const char *model_folder, struct blob *out,
                  struct ingot_error *error) {
    bool found;
    return build_with(NULL, data, size, model_folder, out, &found, error);
}

static void write_file(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* Refits the engine file to the model file; the result is in the file `to`. */
static enum ingot_status refit(const char *engine, const char *model, const char *to, struct ingot_error *error) {
    struct ingot_tensors *tensors;
    size_t count;
    if (ingot_tensors_open(model, NULL, &tensors, error)) fail_msg("%s", error->message);
    const struct ingot_named_tensor *list = ingot_tensors_list(tensors, &count);
    enum ingot_status status = ingot_refit_file(engine, list, count, NULL, to, NULL, error);
    ingot_tensors_close(tensors);
    return status;
}

struct subject {
    const char *name, *folder;
    const unsigned char *data;
    size_t size;
    struct ingot_engine *engine;
    struct ingot_cache *cache;
    char old_engine[64], new_engine[64], new_model[64];
    int refitted, refused;
};

static struct ingot_cache *open_cache(void) {
    struct ingot_cache_options options = INGOT_CACHE_OPTIONS_INIT;
    struct ingot_cache *cache;
    options.max_memory_bytes = (size_t)1 << 30; /* a quarter of it is the largest entry */
    assert_int_equal(ingot_cache_open(&options, &cache, NULL), INGOT_OK);
    return cache;
}

/* Builds as `fresh` was built, with the cache. */
static void try_cache(const struct subject *s, const void *data, size_t size, const struct blob *fresh, bool expected) {
    struct blob cached;
    struct ingot_error error;
    bool found;
    if (!build_with(s->cache, data, size, s->folder, &cached, &found, &error))
        fail_msg("%s: %s", s->name, error.message);
    if (found != expected) fail_msg("%s: the structure was %sfound in the cache", s->name, found ? "" : "not ");
    if (cached.size != fresh->size || memcmp(cached.data, fresh->data, fresh->size) != 0)
        fail_msg("%s: the engine differs with a cache", s->name);
    free(cached.data);
}

static void try_round(struct subject *s, bool structural, int round) {
    struct ingot_error error = {0};
    Onnx__ModelProto *proto = onnx__model_proto__unpack(NULL, s->size, s->data);
    const char *changed = change(proto->graph, s->engine, structural, round);
    size_t size = onnx__model_proto__get_packed_size(proto);
    uint8_t *data = malloc(size);
    onnx__model_proto__pack(proto, data);
    write_file(s->new_model, data, size);
    enum ingot_status status = changed ? refit(s->old_engine, s->new_model, s->new_engine, &error) : INGOT_OK;
    if (structural && changed) {
        if (status != INGOT_INVALID_ARGUMENT || !strstr(error.message, changed))
            fail_msg("%s: '%s' is structural, but: %s", s->name, changed, error.message);
        struct blob fresh;
        if (build(data, size, s->folder, &fresh, &error)) {
            try_cache(s, data, size, &fresh, false);
            try_cache(s, data, size, &fresh, true);
            free(fresh.data);
        }
        s->refused++;
    } else if (changed) {
        struct blob fresh;
        struct ig_mapping file;
        if (status != INGOT_OK) fail_msg("%s: %s", s->name, error.message);
        if (!build(data, size, s->folder, &fresh, &error)) fail_msg("%s: %s", s->name, error.message);
        assert_int_equal(ig_file_map(s->new_engine, &file, &error), INGOT_OK);
        if (file.size != fresh.size || memcmp(file.data, fresh.data, fresh.size) != 0)
            fail_msg("%s: the refitted engine differs from a fresh one", s->name);
        try_cache(s, data, size, &fresh, true);
        ig_file_unmap(&file);
        free(fresh.data);
        s->refitted++;
    }
    free(data);
    onnx__model_proto__free_unpacked(proto, NULL);
}

static void try_model(const char *name, const char *model_folder) {
    struct subject s = {.name = name, .folder = model_folder};
    struct ingot_error error;
    struct ig_mapping file;
    struct blob engine;
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", model_folder, strstr(name, ".onnx") ? name : "model.onnx");
    if (ig_file_map(path, &file, &error) != INGOT_OK) return;
    s.data = file.data;
    s.size = file.size;
    snprintf(s.old_engine, sizeof s.old_engine, "%s/old.ingot", folder);
    snprintf(s.new_engine, sizeof s.new_engine, "%s/new.ingot", folder);
    snprintf(s.new_model, sizeof s.new_model, "%s/new.onnx", folder);
    if (s.size > MOST_BYTES) {
        printf("%-48s skipped: large\n", name);
    } else if (!build(s.data, s.size, model_folder, &engine, &error)) {
        printf("%-48s skipped: %.100s\n", name, error.message);
    } else {
        write_file(s.old_engine, engine.data, engine.size);
        if (ingot_engine_load_memory(engine.data, engine.size, NULL, &s.engine, &error)) fail_msg("%s", error.message);
        s.cache = open_cache();
        try_cache(&s, s.data, s.size, &engine, false);
        for (int round = 0; round < ROUNDS; round++)
            try_round(&s, false, round);
        try_round(&s, true, 0);
        printf("%-48s refitted %d times, refused %d times\n", name, s.refitted, s.refused);
        ingot_engine_release(s.engine);
        ingot_cache_close(s.cache);
        free(engine.data);
    }
    ig_file_unmap(&file);
}

static void test_example(void **state) {
    try_model("digits.onnx", TEST_SOURCE_DIR "/examples/digits");
}

static void test_real_models(void **state) {
    DIR *all = opendir(models);
    if (!all) skip();
    for (struct dirent *entry; (entry = readdir(all));) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", models, entry->d_name);
        if (entry->d_name[0] != '.') try_model(entry->d_name, path);
    }
    closedir(all);
}

static int set_up(void **state) {
    static const char name[] = "fake_nvrtc.so";
    if (!mkdtemp(folder)) return 1;
    test_beside(name, nvrtc, sizeof nvrtc);
    return 0;
}

static int tear_down(void **state) {
    static const char *const names[] = {"old.ingot", "new.ingot", "new.onnx"};
    for (int i = 0; i < 3; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    return rmdir(folder);
}

int main(int argc, char **argv) {
    if (argc > 1) models = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_example), cmocka_unit_test(test_real_models)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
