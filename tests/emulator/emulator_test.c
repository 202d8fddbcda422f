/* The faults that the GPU emulator must detect, and correct code that it must accept: other tests rely on both. */
#include <string.h>

#include "base/memory.h"
#include "support/device/emulated.h"
#include "support/support.h"

#define HEAD "extern \"C\" __global__ void __launch_bounds__(64) "
#define PARAMETERS "(float *p, long long n, long long tiles, void *scratch) {\n    int t = threadIdx.x;\n"

/* `says`: part of the expected message; NULL: no fault. */
static const struct bad {
    const char *body, *says;
} kernels[] = {
    {"p[t] = t;", NULL},
    {"__shared__ float s[64]; s[t] = t; __syncthreads(); p[t] = s[63 - t];", NULL},
    {"__shared__ float s[64]; s[t] = t; __syncwarp(); p[t] = s[t ^ 31];", NULL},
    {"__shared__ float s[64]; s[t] = t; __syncwarp(); p[t] = s[t ^ 1]; __syncwarp(); s[t] = s[t] + 1;", NULL},
    {"__shared__ float s[64]; s[t] = t; __syncwarp(); p[t] = s[t ^ 1]; s[t] = s[t] + 1;", "with no barrier between"},
    {"__shared__ float s[64]; s[t] = t; p[t] = s[t ^ 1];", "with no barrier between"},
    {"__shared__ float s[64]; s[t] = t; __syncwarp(); p[t] = s[63 - t];", "with no barrier between"},
    {"float x = p[t ^ 1]; p[t] = x;", "with no barrier between"},
    /* One access to bytes with different histories. */
    {"__shared__ float s[64]; if (t < 63) s[t] = t; __syncthreads(); if (t == 0) s[63] = 1; __syncwarp();\n"
     "    if (t == 32) *(float4 *)p = *(float4 *)&s[60];",
     "with no barrier between"},
    /* Bytes of one word, whose accesses are noted one by one, beside those of whole words. */
    {"((char *)p)[t] = t; __syncthreads(); if (t < 16) p[t] = p[t] + 1;", NULL},
    {"((char *)p)[t] = t; volatile float x = p[t / 4];", "with no barrier between"},
    {"volatile float x = p[t / 4]; __syncwarp(); ((char *)p)[t] = t; __syncthreads(); ((short *)p)[t] = t;", NULL},
    {"if (t == 0) ((char *)p)[3] = 1; __syncthreads(); if (t < 2) ((short *)p)[t] = 1; if (t == 32) p[0] = 2;",
     "with no barrier between"},
    {"if (t == 0) p[0] = 1; if (t == 40) ((char *)p)[2] = 1;", "with no barrier between"},
    {"if (t == 0) ((char *)p)[0] = 1; __syncthreads(); if (t == 0) p[0] = 1; if (t == 40) ((char *)p)[2] = 1;",
     "with no barrier between"},
    {"p[0] = 1;", "with no barrier between"},
    {"p[t + 1] = t;", "writes 4 bytes at 256 of 256 bytes"},
    {"if (t == 0) p[0] = p[-1];", "reads 4 bytes at -4 of 256 bytes"},
    {"if (t == 0) *(long long *)(p + 1) = 1;", "at an address that is no multiple of them"},
    {"if (t == 0) *(uint4 *)(p + 4) = *(uint4 *)(p + 2);", "at an address that is no multiple of them"},
    {"if (t < 32) __syncthreads(); p[t] = t;", "waits for the block forever"},
    {"float a[4] = {1, 2, 3, 4}; p[t] = a[(int)n / 16 - (t < 63)];", "an index beyond its array"},
    {"int a = 2147483584 + t; p[t] = (float)(a + (int)n / 64);", "overflows"},
    {"p[t] = (float)((int)n / (63 - t));", "by zero"},
    {"atomicAdd((unsigned *)p, 1); __syncthreads(); if (((unsigned *)p)[0] < 64) p[0] = p[64];", NULL},
    {"atomicAdd(p + 64, 1);", "writes 4 bytes at 256 of 256 bytes"},
    /* What synchronises is no race, but checked like other accesses. */
    {"unsigned a;\n"
     "    asm volatile(\"st.relaxed.sys.global.u32 [%0], %1;\" ::\"l\"(p), \"r\"(1) : \"memory\");\n"
     "    asm volatile(\"ld.relaxed.sys.global.u32 %0, [%1];\" : \"=r\"(a) : \"l\"(p) : \"memory\");\n"
     "    if (a != 1) p[64] = 0;",
     NULL},
    {"asm volatile(\"st.relaxed.sys.global.u64 [%0], %1;\" ::\"l\"(p + 63), \"l\"(1ll) : \"memory\");",
     "at an address that is no multiple of them"},
    {"asm volatile(\"st.relaxed.sys.global.v2.u64 [%0], {%1, %2};\" ::\"l\"(p + 2), \"l\"(1ll), \"l\"(1ll));",
     "writes 16 bytes at an address that is no multiple of them"},
    {"asm volatile(\"st.relaxed.sys.global.v2.u64 [%0], {%1, %2};\" ::\"l\"(p + 64), \"l\"(1ll), \"l\"(1ll));",
     "writes 16 bytes at 256 of 256 bytes"},
    {"long long a; asm volatile(\"ld.relaxed.sys.global.u64 %0, [%1];\" : \"=l\"(a) : \"l\"(p - 2) : \"memory\");",
     "reads 8 bytes at -8 of 256 bytes"},
    /* Threads that poll let others come. */
    {"if (t == 63) { __nanosleep(100); *(volatile float *)p = 0; }\n"
     "    __syncthreads(); unsigned a = 1;\n"
     "    if (t == 40) for (int i = 0; i < 3; i++) __nanosleep(100);\n"
     "    if (t == 40) asm volatile(\"st.relaxed.sys.global.u32 [%0], %1;\" ::\"l\"(p), \"r\"(3) : \"memory\");\n"
     "    while (a != 3) asm volatile(\"ld.relaxed.sys.global.u32 %0, [%1];\" : \"=r\"(a) : \"l\"(p) : \"memory\");",
     NULL},
};
enum { N_KERNELS = sizeof kernels / sizeof *kernels };

static struct emulator_options *how;

static void launch(struct ig_device *device, struct ig_module *module, const char *name, int i) {
    struct ingot_error error = {0};
    struct ig_stream *stream;
    void *memory;
    assert_int_equal(device->api->stream_create(device, &stream, &error), INGOT_OK);
    assert_int_equal(device->api->allocate(device, 64 * sizeof(float), &memory, &error), INGOT_OK);
    const struct ig_launch l = {.module = module,
                                .portable = UINT64_MAX,
                                .name = name,
                                .threads = 64,
                                .buffers = (void *[]){memory},
                                .n_buffers = 1,
                                .dims = (int64_t[]){64},
                                .n_dims = 1,
                                .tiles = 1};
    enum ingot_status status = device->api->launch(device, stream, &l, &error);
    if (status == INGOT_OK) status = device->api->stream_wait(device, stream, &error);
    const char *says = kernels[i].says;
    if (says ? status == INGOT_OK || !strstr(error.message, says) : status != INGOT_OK)
        fail_msg("%s\ngives '%s'", kernels[i].body, error.message);
    device->api->release(device, memory, 64 * sizeof(float));
    device->api->stream_destroy(device, stream);
}

static void run(struct ig_job *job, void *argument) {
    struct ig_source sources[N_KERNELS];
    struct ig_code code;
    struct ingot_error error;
    struct ig_module *module;
    struct ig_device *device = emulated_create(0, &how);
    (void)argument;
    for (int i = 0; i < N_KERNELS; i++) {
        sources[i].symbol = ig_format(job, "kernel_%d", i);
        sources[i].text = ig_format(job, HEAD "%s" PARAMETERS "    %s\n}\n", sources[i].symbol, kernels[i].body);
    }
    emulated_compile(job, sources, N_KERNELS, 90, &code);
    assert_int_equal(device->api->module_create(device, code.bytes, code.size, &module, &error), INGOT_OK);
    for (int backwards = 0; backwards < 2; backwards++) {
        *how = (struct emulator_options){.backwards = backwards, .late = backwards, .races = true};
        for (int i = 0; i < N_KERNELS; i++)
            launch(device, module, sources[i].symbol, i);
    }
    device->api->module_destroy(device, module);
    device->api->destroy(device);
}

static void finds_what_is_wrong(void **state) {
    struct ig_job job;
    struct ingot_error error = {0};
    (void)state;
    if (!emulated_is_present()) skip();
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, run, NULL, &error);
    ig_job_deinit(&job);
    if (status != INGOT_OK) fail_msg("%s", error.message);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_what_is_wrong)};
    return cmocka_run_group_tests_name("the emulator of GPUs", tests, NULL, NULL);
}
