/*
 * Contractions alone: the layers of well-known networks, each as one kernel, in GFLOP/s and as a fraction of
 * the machine's peak, which a loop of independent multiply-adds measures; of narrow types, so many times that as the
 * instructions multiply more at once.
 *
 *     contract_bench [--target cpu:LEVEL] [--type f32|u8|i8|bf16] [--threads N] [--cc PATH] [--only SUBSTRING] [--source]
 *                    [--most N]
 *
 * Weights of i8 are normal numbers, of which the largest of many thousands is N (127). Without VNNI their sizes decide how they
 * are multiplied (codegen/c/gemm_quads.c).
 *
 * Layers of bytes, u8 or i8 by i8, end in scales for each channel and a quantisation to the same type; those of bf16, in
 * a cast to it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cpu.h"
#include "codegen/c/print.h"
#include "compile/compiler.h"
#include "compile/options.h"
#include "device/device.h"
#include "ir/build.h"
#include "kernel/kernel.h"

struct layer {
    const char *name;
    int64_t height, width, in, out; /* height 0: a matrix product of `width` rows */
    int64_t kernel, stride, groups;
    bool prologue; /* batch normalisation and ReLU before it */
};

static const struct layer layers[] = {
    {"resnet50 conv1 7x7/2", 224, 224, 3, 64, 7, 2, 1, false},
    {"resnet50 conv1 in pairs 7x4/2x1", 224, 112, 8, 64, 7, 2, 1, false},
    {"resnet50 56x56 1x1 64-64", 56, 56, 64, 64, 1, 1, 1, false},
    {"resnet50 56x56 3x3 64", 56, 56, 64, 64, 3, 1, 1, false},
    {"resnet50 56x56 1x1 64-256", 56, 56, 64, 256, 1, 1, 1, false},
    {"resnet50 56x56 1x1 256-64", 56, 56, 256, 64, 1, 1, 1, false},
    {"resnet50 56x56 3x3/2 128", 56, 56, 128, 128, 3, 2, 1, false},
    {"resnet50 28x28 3x3 128", 28, 28, 128, 128, 3, 1, 1, false},
    {"resnet50 28x28 1x1 128-512", 28, 28, 128, 512, 1, 1, 1, false},
    {"resnet50 28x28 1x1 512-128", 28, 28, 512, 128, 1, 1, 1, false},
    {"resnet50 14x14 3x3 256", 14, 14, 256, 256, 3, 1, 1, false},
    {"resnet50 14x14 1x1 256-1024", 14, 14, 256, 1024, 1, 1, 1, false},
    {"resnet50 14x14 1x1 1024-256", 14, 14, 1024, 256, 1, 1, 1, false},
    {"resnet50 14x14 1x1/2 1024-2048", 14, 14, 1024, 2048, 1, 2, 1, false},
    {"resnet50 7x7 3x3 512", 7, 7, 512, 512, 3, 1, 1, false},
    {"resnet50 7x7 1x1 512-2048", 7, 7, 512, 2048, 1, 1, 1, false},
    {"resnet50 7x7 1x1 2048-512", 7, 7, 2048, 512, 1, 1, 1, false},
    {"densenet 28x28 1x1 256-128 bn", 28, 28, 256, 128, 1, 1, 1, true},
    {"densenet 14x14 1x1 640-128 bn", 14, 14, 640, 128, 1, 1, 1, true},
    {"densenet 14x14 3x3 128-32", 14, 14, 128, 32, 3, 1, 1, false},
    {"mobilenet 3x3/2 3-32", 224, 224, 3, 32, 3, 2, 1, false},
    {"mobilenet 112 1x1 32-16", 112, 112, 32, 16, 1, 1, 1, false},
    {"mobilenet 112 1x1 16-96", 112, 112, 16, 96, 1, 1, 1, false},
    {"mobilenet 56 1x1 144-24", 56, 56, 144, 24, 1, 1, 1, false},
    {"mobilenet 14 1x1 96-576", 14, 14, 96, 576, 1, 1, 1, false},
    {"mobilenet 14 1x1 576-96", 14, 14, 576, 96, 1, 1, 1, false},
    {"mobilenet 7 1x1 960-160", 7, 7, 960, 160, 1, 1, 1, false},
    {"mobilenet 7 1x1 320-1280", 7, 7, 320, 1280, 1, 1, 1, false},
    {"depthwise 112 3x3 32", 112, 112, 32, 32, 3, 1, 32, false},
    {"depthwise 112 3x3/2 96", 112, 112, 96, 96, 3, 2, 96, false},
    {"depthwise 56 3x3 144", 56, 56, 144, 144, 3, 1, 144, false},
    {"depthwise 14 3x3 576", 14, 14, 576, 576, 3, 1, 576, false},
    {"depthwise 14 5x5 672", 14, 14, 672, 672, 5, 1, 672, false},
    {"depthwise 7 3x3 960", 7, 7, 960, 960, 3, 1, 960, false},
    {"resnext 56 3x3 32x4", 56, 56, 128, 128, 3, 1, 32, false},
    {"resnext 56 3x3/2 32x8", 56, 56, 256, 256, 3, 2, 32, false},
    {"resnext 28 3x3 32x8", 28, 28, 256, 256, 3, 1, 32, false},
    {"resnext 14 3x3 32x16", 14, 14, 512, 512, 3, 1, 32, false},
    {"resnext 7 3x3 32x32", 7, 7, 1024, 1024, 3, 1, 32, false},
    {"square 256x256x256", 0, 256, 256, 256, 1, 1, 1, false},
    {"square 512x512x512", 0, 512, 512, 512, 1, 1, 1, false},
    {"square 1024x1024x1024", 0, 1024, 1024, 1024, 1, 1, 1, false},
    {"bert 128x768x768", 0, 128, 768, 768, 1, 1, 1, false},
    {"bert 128x768x2304", 0, 128, 768, 2304, 1, 1, 1, false},
    {"bert 128x768x3072", 0, 128, 768, 3072, 1, 1, 1, false},
    {"bert 128x3072x768", 0, 128, 3072, 768, 1, 1, 1, false},
    {"vit 197x768x3072", 0, 197, 768, 3072, 1, 1, 1, false},
    {"vit 197x3072x768", 0, 197, 3072, 768, 1, 1, 1, false},
    {"gpt2 head 128x768x50257", 0, 128, 768, 50257, 1, 1, 1, false},
    {"one row 1x2048x1000", 0, 1, 2048, 1000, 1, 1, 1, false},
};

struct settings {
    struct ig_target target;
    struct ig_kernel_compiler compiler;
    const char *cc;
    struct ig_device *device;
    const char *only, *level;
    enum ingot_dtype type; /* of the operands; with i8 weights for bytes */
    bool source;
    int most;    /* the largest weight of i8 */
    double peak; /* GFLOP/s of all threads */
};

/* One thread is timed by its CPU clock, which excludes time while it is preempted. */
static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(struct ig_job *job, enum ingot_status status, const struct ingot_error *error) {
    if (status != INGOT_OK) ig_raise_error(job, error);
}

/* ---- The graph of a layer ---------------------------------------------------------------------------------------- */

static float *numbers(struct ig_job *job, int64_t count) {
    float *data = ig_alloc_array(job, (size_t)count + 16, sizeof *data);
    uint32_t state = 1;
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = (float)(state >> 9) / (1 << 23) - 0.5f;
    }
    return data;
}

/* Numbers of any type: as bits, the upper halves of these floats are bf16. */
static ig_value weights_of(struct ig_graph *g, enum ingot_dtype dtype, int rank, const int64_t *dims) {
    int64_t count = 1, size = (int64_t)ingot_dtype_size(dtype);
    for (int i = 0; i < rank; i++)
        count *= dims[i];
    float *data = numbers(g->job, count);
    if (size < 4) {
        for (int64_t i = 0; i < count; i++)
            memcpy((char *)data + i * size, (char *)&data[i] + (dtype == INGOT_BF16 ? 2 : 1), (size_t)size);
    }
    struct ig_data contents = {.bytes = data, .size = (size_t)(count * size), .initializer = "weights"};
    return ig_build_constant(g, dtype, rank, dims, ig_memdup(g->job, &contents, sizeof contents));
}

static ig_value weights(struct ig_graph *g, int rank, const int64_t *dims) {
    return weights_of(g, INGOT_F32, rank, dims);
}

static struct ig_type static_type(struct ig_graph *g, enum ingot_dtype dtype, int rank, const int64_t *sizes) {
    ig_dim dims[INGOT_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = ig_dim_const(g->dims, sizes[i]);
    return ig_type_make(dtype, rank, dims);
}

static bool is_byte(enum ingot_dtype type) {
    return type == INGOT_U8 || type == INGOT_I8;
}

static enum ingot_dtype sum_type(const struct settings *s) {
    return is_byte(s->type) ? INGOT_I32 : INGOT_F32;
}

/* Weights in the shape [outer..., depth, nr], with steps of the depth together where the target packs them so. */
static ig_value packed_weights(struct ig_graph *g, const struct settings *s, int outer, const int64_t *dims) {
    enum ingot_dtype dtype = is_byte(s->type) ? INGOT_I8 : s->type;
    int64_t shape[INGOT_MAX_RANK], together = ig_target_together(&s->target, s->type, dtype);
    memcpy(shape, dims, (size_t)(outer + 2) * sizeof *shape);
    shape[outer] = (shape[outer] + together - 1) / together;
    shape[outer + 2] = together;
    return weights_of(g, dtype, outer + 2 + (together > 1), shape);
}

/* The first convolution of 7 x 7 pixels of 3 channels, as it is rewritten for narrow types: 7 x 4 pairs of 4 channels each. */
static bool is_paired(const struct layer *l) {
    return l->height == 2 * l->width;
}

static ig_value build_conv(struct ig_graph *g, const struct settings *s, const struct layer *l, ig_value x, int nr) {
    int64_t per = l->in / l->groups;
    bool depthwise = per == 1,
         in_rows = l->groups > 1 && nr / 2 % per == 0 && s->type != INGOT_U8 && s->type != INGOT_I8;
    bool pairs = is_paired(l);
    int64_t pad = l->kernel / 2, panels = (l->out / l->groups + nr - 1) / nr,
            two[2] = {l->kernel, pairs ? 4 : l->kernel};
    int64_t packed[] = {l->groups, panels, two[0], two[1], per, nr}, plain[] = {l->kernel, l->kernel, l->in};
    int64_t rows[] = {l->kernel, l->kernel, per, l->out};
    enum ingot_dtype type = is_byte(s->type) ? INGOT_I8 : s->type;
    int64_t lines[] = {(l->kernel + 3) / 4, l->kernel, (l->in + 15) / 16 * 16, 4};
    bool dots = type == INGOT_I8;
    ig_value in[3] = {x, IG_NO_VALUE, weights_of(g, sum_type(s), 1, &l->out)};
    if (depthwise)
        in[1] = dots ? weights_of(g, type, 4, lines) : weights_of(g, type, 3, plain);
    else if (in_rows)
        in[1] = weights_of(g, type, 4, rows);
    else
        in[1] = packed_weights(g, s, 4, packed);
    ig_dim before[2] = {ig_dim_const(g->dims, pad), ig_dim_const(g->dims, pairs ? 2 : pad)};
    ig_dim after[2] = {before[0], ig_dim_const(g->dims, pairs ? 1 : pad)};
    int64_t strides[2] = {l->stride, pairs ? 1 : l->stride}, ones[2] = {1, 1};
    struct ig_attr attrs[] = {ig_attr_of_ints(strides, 2),
                              ig_attr_of_ints(ones, 2),
                              ig_attr_of_dims(before, 2),
                              ig_attr_of_dims(after, 2),
                              ig_attr_of_int(l->groups),
                              ig_attr_of_dtype(sum_type(s)),
                              ig_attr_of_int(1),
                              ig_attr_of_int(depthwise || in_rows ? 1 : nr),
                              ig_attr_of_int(l->out),
                              ig_attr_of_ints(two, 2),
                              ig_attr_of_int(IG_MATH_EXACT),
                              ig_attr_of_int(0)};
    struct ig_graph *const none[2] = {NULL, NULL};
    return ig_build_node(g, IG_OP_conv, in, 3, 1, attrs, none);
}

static ig_value build_matmul(struct ig_graph *g, const struct settings *s, const struct layer *l, ig_value x, int nr) {
    int64_t packed[] = {(l->out + nr - 1) / nr, l->in, nr};
    ig_value in[2] = {x, packed_weights(g, s, 1, packed)};
    struct ig_attr attrs[] = {ig_attr_of_dtype(sum_type(s)), ig_attr_of_int(nr), ig_attr_of_int(l->out),
                              ig_attr_of_int(0)};
    struct ig_graph *const none[2] = {NULL, NULL};
    ig_value y = ig_build_node(g, IG_OP_matmul, in, 2, 1, attrs, none);
    return ig_map2(g, IG_OP_add, y, weights_of(g, sum_type(s), 1, &l->out));
}

/* Scales and quantises sums in i32, with a zero point. */
static ig_value quantised(struct ig_graph *g, const struct settings *s, const struct layer *l, ig_value y) {
    ig_value scale = ig_map2(g, IG_OP_mul, weights(g, 1, &l->out), ig_build_scalar(g, INGOT_F32, 1e-3));
    y = ig_map2(g, IG_OP_mul, ig_build_cast(g, y, INGOT_F32), scale);
    y = ig_map2(g, IG_OP_max, y, ig_build_scalar(g, INGOT_F32, 0));
    y = ig_map2(g, IG_OP_add, ig_map1(g, IG_OP_round, y), ig_build_scalar(g, INGOT_F32, 3));
    return ig_build_cast_saturating(g, y, s->type);
}

/* Builds the layer with bias and ReLU, as one region. */
static struct ig_region build_layer(struct ig_graph *g, const struct settings *s, const struct layer *l) {
    int64_t image[] = {1, l->height, l->width, l->in}, matrix[] = {l->width, l->in};
    int nr = ig_target_nr(&s->target);
    struct ig_type type = l->height ? static_type(g, s->type, 4, image) : static_type(g, s->type, 2, matrix);
    ig_value x = ig_build_input(g, "x", &type), a = x;
    if (l->prologue && s->type == INGOT_F32) {
        a = ig_map2(g, IG_OP_mul, a, weights(g, 1, &l->in));
        a = ig_map2(g, IG_OP_add, a, weights(g, 1, &l->in));
        a = ig_map2(g, IG_OP_max, a, ig_build_scalar(g, INGOT_F32, 0));
    }
    ig_value y = l->height ? build_conv(g, s, l, a, nr) : build_matmul(g, s, l, a, nr);
    if (is_byte(s->type))
        y = quantised(g, s, l, y);
    else
        y = ig_build_cast(g, ig_map2(g, IG_OP_max, y, ig_build_scalar(g, INGOT_F32, 0)), s->type);
    ig_build_output(g, "y", y);
    struct ig_region r = {.family = IG_FAMILY_CONTRACT};
    bool *seen = IG_NEW_ARRAY(g->job, bool, g->values.count + 1);
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (ig_info(g, n->out)->is_const) continue;
        IG_PUSH(g->job, &r.nodes, id);
        if (ig_op_info(n->op)->family == IG_FAMILY_CONTRACT) r.anchor = id;
        for (uint32_t i = 0; i < n->n_in; i++) {
            if (seen[n->in[i]] || (n->in[i] != x && !ig_info(g, n->in[i])->is_const)) continue;
            seen[n->in[i]] = true;
            IG_PUSH(g->job, &r.inputs, n->in[i]);
        }
    }
    IG_PUSH(g->job, &r.outputs, y);
    return r;
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static struct ig_code compile(struct ig_job *job, const struct settings *s, const char *text) {
    struct ig_source source = {"kernel", text};
    struct ig_code code;
    ig_kernel_compiler_run(job, &s->compiler, &source, 1, NULL, NULL, &code);
    return code;
}

/* The shortest launch time measured within about 0.3 s. */
static double fastest(struct ig_job *job, const struct settings *s, const struct ig_code *code,
                      struct ig_launch *launch) {
    struct ingot_error error;
    struct ig_device *d = s->device;
    struct ig_stream *stream;
    double best = 1e9;
    check(job, d->api->module_create(d, code->bytes, code->size, &launch->module, &error), &error);
    check(job, d->api->stream_create(d, &stream, &error), &error);
    check(job, d->api->reserve_scratch(d, stream, launch->scratch, &error), &error);
    launch->entry = code->entries[0];
    clockid_t clock = d->api->workers(d) == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    double until = now(clock) + 0.3;
    for (int i = 0; i < 3 || now(clock) < until; i++) {
        double start = now(clock);
        check(job, d->api->launch(d, stream, launch, &error), &error);
        check(job, d->api->stream_wait(d, stream, &error), &error);
        double time = now(clock) - start;
        if (time < best) best = time;
    }
    d->api->stream_destroy(d, stream);
    d->api->module_destroy(d, launch->module);
    return best;
}

/* Sums of four numbers, nearly normal, as bytes. */
static void make_bytes(const struct settings *s, int8_t *bytes, int64_t count) {
    uint32_t state = 1;
    for (int64_t i = 0; i < count; i++) {
        float sum = -2;
        for (int j = 0; j < 4; j++) {
            state = state * 1664525u + 1013904223u;
            sum += (float)(state >> 9) / (1 << 23);
        }
        float scaled = sum * (float)s->most / 1.8f;
        bytes[i] = (int8_t)(scaled > (float)s->most ? s->most : scaled < (float)-s->most ? -s->most : scaled);
    }
}

static int64_t number(const struct ig_graph *g, ig_dim d) {
    int64_t value = 0;
    ig_dim_is_const(g->dims, d, &value);
    return value;
}

static void bench_layer(struct ig_job *job, const struct settings *s, const struct layer *l) {
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    struct ig_region region = build_layer(g, s, l);
    struct ig_kernel *kernel = ig_kernel_candidate(g, &region, &s->target, NULL, 0);
    const char *text = ig_c_kernel(job, kernel, "kernel", &s->target);
    if (s->source) puts(text);
    struct ig_code code = compile(job, s, text);
    void *buffers[16];
    uint32_t n = 0;
    double flops = 2;
    for (uint32_t i = 0; i < region.inputs.count + region.outputs.count; i++) {
        ig_value v = i < region.inputs.count ? region.inputs.at[i] : region.outputs.at[i - region.inputs.count];
        bool literal = false;
        for (uint32_t j = 0; j < kernel->literals.count; j++)
            literal |= kernel->literals.at[j] == v;
        int64_t count = number(g, ig_type_elements(g->dims, ig_type_of(g, v)));
        if (!literal) buffers[n++] = numbers(job, count);
        if (ig_info(g, v)->is_const && ig_type_of(g, v)->dtype == INGOT_I8) make_bytes(s, buffers[n - 1], count);
        if (i == region.inputs.count) flops *= (double)count;
    }
    flops *= (double)(l->kernel * (is_paired(l) ? 4 : l->kernel) * l->in / l->groups);
    int64_t dims[64];
    for (uint32_t i = 0; i < kernel->dims.count && i < 64; i++)
        dims[i] = number(g, kernel->dims.at[i]);
    struct ig_launch launch = {.buffers = buffers,
                               .n_buffers = n,
                               .dims = dims,
                               .n_dims = kernel->dims.count,
                               .tiles = number(g, kernel->tiles),
                               .whole = kernel->whole,
                               .scratch = (size_t)number(g, kernel->scratch_bytes)};
    double time = fastest(job, s, &code, &launch);
    printf("%-32s %9.1f us %7.1f GF/s %5.1f%%   %lld tiles; %s\n", l->name, 1e6 * time, 1e-9 * flops / time,
           1e-7 * flops / time / s->peak, (long long)launch.tiles, kernel->tactic);
    fflush(stdout);
}

/* Independent multiply-adds, one tile per worker. */
static double measure_peak(struct ig_job *job, const struct settings *s) {
    struct ig_text t;
    ig_text_init(&t, job);
    int lanes = s->target.vector_bytes / 4, chains = 12, rounds = 1000000;
    ig_text_printf(&t, "typedef float v __attribute__((vector_size(%d)));\n", s->target.vector_bytes);
    ig_text_add(&t, "void kernel(void *const *buf, const long *dim, long begin, long end, void *scratch) {\n");
    ig_text_add(&t, "    for (long t = begin; t < end; t++) {\n        v a, b;\n        float *out = buf[0];\n");
    ig_text_printf(&t, "        for (int i = 0; i < %d; i++) a[i] = out[i], b[i] = out[i] * 0.5f;\n", lanes);
    for (int i = 0; i < chains; i++)
        ig_text_printf(&t, "        v c%d = a + %d.0f;\n", i, i);
    ig_text_printf(&t, "        for (int r = 0; r < %d; r++) {\n           ", rounds);
    for (int i = 0; i < chains; i++)
        ig_text_printf(&t, " c%d = c%d * a + b;", i, i);
    ig_text_printf(&t, "\n        }\n        v c = c0");
    for (int i = 1; i < chains; i++)
        ig_text_printf(&t, " + c%d", i);
    ig_text_printf(&t, ";\n        for (int i = 0; i < %d; i++) out[%d * t + i] = c[i];\n    }\n}\n", lanes, lanes);
    struct ig_code code = compile(job, s, t.at);
    void *buffer = numbers(job, 4096);
    uint32_t workers = s->device->api->workers(s->device);
    struct ig_launch launch = {.buffers = &buffer, .n_buffers = 1, .tiles = workers};
    double time = fastest(job, s, &code, &launch);
    return 2e-9 * lanes * chains * rounds * workers / time;
}

/* How many times the products of f32 the widest instructions for these operands do. */
static double times_f32(const struct settings *s) {
    bool amx = s->target.isa == IG_ISA_AMX;
    if (is_byte(s->type)) return amx ? 32 : s->target.vnni ? 4 : 2;
    return s->type == INGOT_BF16 && amx ? 16 : 1;
}

static void bench(struct ig_job *job, void *argument) {
    struct settings *s = argument;
    s->peak = measure_peak(job, s) * times_f32(s);
    printf("%s, %s, %u threads, %s, peak %.1f GF/s\n", s->level, ingot_dtype_name(s->type),
           s->device->api->workers(s->device), s->compiler.version, s->peak);
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        if (!s->only || strstr(layers[i].name, s->only)) bench_layer(job, s, &layers[i]);
    }
}

static void find_compiler(struct ig_job *job, void *argument) {
    struct settings *s = argument;
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    struct ig_target_choice choice;
    ig_target_parse(job, s->level, &choice);
    uint64_t missing = choice.required_features & ~ig_cpu_features();
    if (missing || ((choice.required_features & IG_CPU_AMX_TILE) && !ig_cpu_request_amx()))
        ig_raise(job, INGOT_INCOMPATIBLE, "%s needs %s", choice.name, missing ? ig_cpu_feature_name(missing) : "AMX");
    s->target = choice.target;
    s->level = choice.name;
    options.cc = s->cc;
    options.jobs = 1;
    ig_kernel_compiler_find(job, &s->target, &options, NULL, &s->compiler);
}

int main(int argc, char **argv) {
    struct settings s = {.level = "cpu", .type = INGOT_F32, .most = 127};
    unsigned threads = 1;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--source")) {
            s.source = true;
            continue;
        }
        if (!strcmp(argv[i], "--target")) s.level = value;
        for (int t = INGOT_DTYPE_NONE + 1; t < INGOT_DTYPE_COUNT && !strcmp(argv[i], "--type"); t++)
            if (!strcmp(ingot_dtype_name((enum ingot_dtype)t), value)) s.type = (enum ingot_dtype)t;
        if (!strcmp(argv[i], "--threads")) threads = (unsigned)atoi(value);
        if (!strcmp(argv[i], "--cc")) s.cc = value;
        if (!strcmp(argv[i], "--only")) s.only = value;
        if (!strcmp(argv[i], "--most")) s.most = atoi(value);
        i++;
    }
    struct ig_job job;
    struct ingot_error error;
    enum ingot_status status = ig_device_cpu_create(threads, &ig_libc_allocator, &s.device, &error);
    ig_job_init(&job, &ig_libc_allocator);
    if (status == INGOT_OK) status = ig_job_run(&job, find_compiler, &s, &error);
    if (status == INGOT_OK) status = ig_job_run(&job, bench, &s, &error);
    if (status != INGOT_OK) fprintf(stderr, "contract_bench: %s\n", error.message);
    ig_job_deinit(&job);
    if (s.device) s.device->api->destroy(s.device);
    return status != INGOT_OK;
}
