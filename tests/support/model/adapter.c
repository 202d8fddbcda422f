#include "support/model/adapter.h"

#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/model/network.h"

static float *random_matrix(size_t count, uint64_t *state) {
    float *at = malloc((count + 1) * sizeof *at);
    for (size_t i = 0; i < count; i++)
        at[i] = test_random(state);
    return at;
}

static size_t size_of_a(const struct test_adapter_layer *l) {
    return (size_t)(l->rank * l->in);
}

static size_t size_of_b(const struct test_adapter_layer *l) {
    return (size_t)(l->rank * l->out);
}

void test_adapter_matrices(const struct test_adapter_layer *layers, size_t layer, uint64_t seed, float **out_a,
                           float **out_b) {
    uint64_t state = seed * 1000 + layer;
    *out_a = random_matrix(size_of_a(&layers[layer]), &state);
    *out_b = random_matrix(size_of_b(&layers[layer]), &state);
}

static FILE *create(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    return file;
}

static size_t describe(char *text, size_t capacity, const struct test_adapter_layer *layers, size_t n) {
    size_t length = 0, at = 0;
    for (size_t i = 0; i < n; i++) {
        const struct test_adapter_layer *l = &layers[i];
        size_t a = at + 4 * size_of_a(l), b = a + 4 * size_of_b(l);
        length += (size_t)snprintf(text + length, capacity - length,
                                   "%c\"base_model.model.%s.lora_A.weight\":{\"dtype\":\"F32\",\"shape\":[%lld,%lld],"
                                   "\"data_offsets\":[%zu,%zu]},\"base_model.model.%s.lora_B.weight\":{\"dtype\":"
                                   "\"F32\",\"shape\":[%lld,%lld],\"data_offsets\":[%zu,%zu]}",
                                   i ? ',' : '{', l->module, (long long)l->rank, (long long)l->in, at, a, l->module,
                                   (long long)l->out, (long long)l->rank, a, b);
        at = b;
    }
    length += (size_t)snprintf(text + length, capacity - length, "}");
    assert_true(length < capacity);
    return length;
}

void test_adapter_write(const char *folder, const struct test_adapter_layer *layers, size_t n, uint64_t seed) {
    char header[4096];
    assert_int_equal(mkdir(folder, 0700), 0);
    FILE *file = create(folder, "adapter_config.json");
    fprintf(file, "{\"peft_type\":\"LORA\",\"r\":1,\"lora_alpha\":%d}", TEST_ADAPTER_ALPHA);
    fclose(file);
    file = create(folder, "adapter_model.safetensors");
    const uint64_t length = describe(header, sizeof header, layers, n);
    fwrite(&length, sizeof length, 1, file);
    fwrite(header, 1, length, file);
    for (size_t i = 0; i < n; i++) {
        float *a, *b;
        test_adapter_matrices(layers, i, seed, &a, &b);
        fwrite(a, sizeof *a, size_of_a(&layers[i]), file);
        fwrite(b, sizeof *b, size_of_b(&layers[i]), file);
        free(a);
        free(b);
    }
    assert_int_equal(fclose(file), 0);
}

void test_adapter_remove(const char *folder) {
    static const char *const names[] = {"adapter_config.json", "adapter_model.safetensors"};
    char path[4096];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}
