#include "support/model/network.h"

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
