#include "support/model/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

void test_network_build(struct test_network *n, const char *path, const struct ingot_build_options *options) {
    struct ingot_error error = {0};
    memset(n, 0, sizeof *n);
    if (ingot_model_load(path, NULL, &n->model, &error)) fail_msg("%s", error.message);
    if (ingot_model_build_memory(n->model, options, &n->data, &n->size, &error)) fail_msg("%s", error.message);
}

void test_network_release(struct test_network *n) {
    ingot_blob_release(n->model, n->data, n->size);
    ingot_model_destroy(n->model);
}

bool test_network_fits_gpu(const char *path, struct ingot_error *error) {
    struct ingot_gpu_info gpu;
    struct ingot_model *model;
    void *data;
    size_t size;
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    options.target = "cuda";
    if (ingot_gpu_describe(0, &gpu, error)) return false;
    printf("GPU 0: %s, %s\n", gpu.name, gpu.target);
    if (ingot_model_load(path, NULL, &model, error)) return false;
    enum ingot_status status = ingot_model_build_memory(model, &options, &data, &size, error);
    if (status == INGOT_OK) ingot_blob_release(model, data, size);
    ingot_model_destroy(model);
    return status != INGOT_TOOLCHAIN;
}

void test_pictures(float *pixels, int count) {
    uint64_t seed = 1;
    for (int i = 0; i < count * PIXELS; i++)
        pixels[i] = test_random(&seed);
}

static void *counted_alloc(void *user, size_t size, size_t alignment) {
    struct test_allocator *a = user;
    if (++a->calls == a->fail_at) return NULL;
    void *memory = NULL;
    if (posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, size ? size : 1)) return NULL;
    a->live++;
    a->bytes += (long)size;
    return memory;
}

static void counted_release(void *user, void *memory, size_t size) {
    struct test_allocator *a = user;
    if (!memory) return;
    a->live--;
    a->bytes -= (long)size;
    free(memory);
}

void test_allocator_init(struct test_allocator *a) {
    memset(a, 0, sizeof *a);
    a->base = (struct ingot_allocator){a, counted_alloc, counted_release};
}

float test_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(*state >> 32) / 2147483648.0f;
}
