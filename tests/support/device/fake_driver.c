#define _GNU_SOURCE
#include "support/device/fake_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fake_cublaslt/fake_cublaslt.h"
#include "fake_cudnn/fake_cudnn.h"
#include "support/beside.h"
#include "support/support.h"

#define TILE 16

/* ---- The kernels: block by block, tile by tile ---------------------------------------------------------------------------- */

static int64_t number(void **parameters, int i) {
    return *(const int64_t *)parameters[i];
}

static float *floats(void **parameters, int i) {
    return *(float **)parameters[i];
}

/* For every element i of every tile of every block. */
#define EACH_ELEMENT(i, grid, tiles, n)                                \
    for (int64_t block_ = 0; block_ < (int64_t)(grid); block_++)       \
        for (int64_t tile_ = block_; tile_ < (tiles); tile_ += (grid)) \
            for (int64_t i = tile_ * TILE; i < (tile_ + 1) * TILE && i < (n); i++)

static void run_add(unsigned grid, unsigned threads, void **p) {
    const float *a = floats(p, 0), *b = floats(p, 1);
    float *c = floats(p, 2);
    EACH_ELEMENT(i, grid, number(p, 4), number(p, 3)) c[i] = a[i] + b[i];
}

static void run_twice(unsigned grid, unsigned threads, void **p) {
    float *a = floats(p, 0);
    EACH_ELEMENT(i, grid, number(p, 2), number(p, 1)) a[i] *= 2;
}

static void run_pair(unsigned grid, unsigned threads, void **p) {
    const float *a = floats(p, 0);
    float *b = floats(p, 1);
    int64_t n = number(p, 2);
    EACH_ELEMENT(i, grid, number(p, 3), n) b[i] = a[i] + a[n - 1 - i];
}

/* Copies a tensor map's matrix line by line, and appends the grid's size. */
static void run_map(unsigned grid, unsigned threads, void **p) {
    const struct fake_tensor_map *map = p[7];
    float *to = floats(p, 1);
    for (uint64_t line = 0; line < map->lines; line++, to += map->width)
        memcpy(to, (const char *)(uintptr_t)map->memory + line * map->pitch, map->width * map->element);
    *to = (float)grid;
}

static void run_mark(unsigned grid, unsigned threads, void **p) {
    int *marks = *(int **)p[0];
    int64_t bytes = number(p, 1), tiles = number(p, 2);
    char *scratch = *(char **)p[3];
    for (int64_t block = 0; block < (int64_t)grid; block++) {
        for (int64_t tile = block; tile < tiles; tile += grid) {
            memset(scratch + block * bytes, (int)tile & 0xff, (size_t)bytes);
            marks[tile]++;
        }
    }
}

/* Stands in for the device's own PTX. */
static void run_copy(unsigned grid, unsigned threads, void **parameters) {
    const uint64_t *const *p = (const uint64_t *const *)parameters;
    memcpy((void *)(uintptr_t)*p[1], (const void *)(uintptr_t)*p[0], *p[2]);
}

static const struct fake_kernel kernels[] = {
    {"ingot_copy", 3, 0, run_copy}, {"add", 6, 0, run_add}, {"twice", 4, 0, run_twice},     {"pair", 5, 0, run_pair},
    {"mark", 4, 0, run_mark},       {"map", 8, 1, run_map}, {"twice_late", 4, 0, run_twice}};

/* ---- Opening --------------------------------------------------------------------------------------------------------------- */

static void find(void *library, const char *name, void *out_function) {
    void *address = dlsym(library, name);
    if (!address) fail_msg("%s", dlerror());
    memcpy(out_function, &address, sizeof address);
}

static void *open_beside(const char *name, char *out_path, size_t size) {
    test_beside(name, out_path, size);
    void *library = dlopen(out_path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fail_msg("%s", dlerror());
    return library;
}

void fake_driver_open(struct fake_driver *driver) {
    fake_cuda_state_function *state;
    void *library = open_beside("libfake_cuda.so", driver->path, sizeof driver->path);
    find(library, "fake_cuda_state", &state);
    find(library, "fake_cuda_depth", &driver->depth);
    find(library, "fake_cuda_current", &driver->current);
    find(library, "cuCtxPushCurrent_v2", &driver->push);
    find(library, "cuCtxPopCurrent_v2", &driver->pop);
    driver->cuda = state();
    *driver->cuda = (struct fake_cuda){.version = 13000, .devices = 2, .sm = 90, .pools = 1, .memory = (size_t)1 << 30};
    memcpy(driver->cuda->kernels, kernels, sizeof kernels);
}

struct fake_cublaslt *fake_cublaslt_open(char *out_path) {
    fake_cublaslt_state_function *state;
    find(open_beside("libfake_cublaslt.so", out_path, 4096), "fake_cublaslt_state", &state);
    *state() = (struct fake_cublaslt){.ways = 3, .workspace = 4096};
    return state();
}

struct fake_cudnn *fake_cudnn_open(char *out_path) {
    fake_cudnn_state_function *state;
    find(open_beside("libfake_cudnn.so", out_path, 4096), "fake_cudnn_state", &state);
    *state() = (struct fake_cudnn)FAKE_CUDNN;
    return state();
}
