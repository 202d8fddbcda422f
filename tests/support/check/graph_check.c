#include "support/check/graph_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/narrow.h"
#include "codegen/c/print.h"
#include "codegen/cuda/print.h"
#include "compile/compiler.h"
#include "compile/estimates.h"
#include "device/device.h"
#include "ir/eval/eval.h"
#include "ir/part.h"
#include "ir/text/print.h"
#include "pass/precision/precision.h"
#include "support/check/passes.h"
#include "support/device/emulated.h"
#include "support/support.h"

/* ---- Inputs ---------------------------------------------------------------------------------------------------------- */

static double random_number(enum ingot_dtype dtype, uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    uint32_t bits = *state >> 8;
    if (dtype == INGOT_BOOL) return bits & 1;
    if (ig_dtype_is_float(dtype)) return (double)bits / (1 << 23) - 1;
    return (double)(bits % 11) - (ig_dtype_is_signed(dtype) ? 5 : 0);
}

static void fill(enum ingot_dtype dtype, void *data, int64_t count, uint32_t seed, bool poison) {
    uint32_t state = seed * 2654435761u + 12345;
    for (int64_t i = 0; i < count; i++) {
        double x = random_number(dtype, &state);
        uint32_t dice = state >> 20 & 127;
        if (poison && ig_dtype_is_float(dtype) && dice < 3)
            x = dice == 0 ? (double)NAN : dice == 1 ? (double)INFINITY : -(double)INFINITY;
        ig_store_f64(dtype, data, i, x);
    }
}

/* The type's extreme values, and random bits, so that magnitudes vary from element to element. */
static void fill_hostile(enum ingot_dtype dtype, void *data, int64_t count, uint32_t seed) {
    static const double floats[] = {0,
                                    -0.0,
                                    1,
                                    -1,
                                    0.5,
                                    -0.5,
                                    2,
                                    -2,
                                    3,
                                    -3,
                                    1e-45,
                                    -1e-45,
                                    1e-40,
                                    1.1754944e-38,
                                    6e-8,
                                    6.1e-5,
                                    65504,
                                    65520,
                                    -70000,
                                    3.4028235e38,
                                    -3.4028235e38,
                                    88.7,
                                    88.8,
                                    -87.5,
                                    -103.9,
                                    -104.2,
                                    16777216,
                                    16777217,
                                    0.99999994,
                                    1.0000001,
                                    -0.99999994,
                                    127.5,
                                    128,
                                    -128.5,
                                    255.5,
                                    256,
                                    -32769,
                                    65536,
                                    2147483647,
                                    2147483648.0,
                                    -2147483649.0,
                                    4294967295.0,
                                    4294967296.0,
                                    9223372036854775807.0,
                                    -9223372036854775808.0,
                                    18446744073709551615.0,
                                    1e19,
                                    -1e19,
                                    1e300,
                                    -1e300,
                                    1e-310,
                                    709.9,
                                    -745.2,
                                    3.14159265358979,
                                    1e5,
                                    1e10,
                                    -1e22,
                                    0.1,
                                    7.5};
    const int64_t n = (int64_t)(sizeof floats / sizeof *floats);
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 88172645463325252u;
    for (int64_t i = 0; i < count; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        uint32_t dice = state >> 40 & 15;
        if (dtype == INGOT_BOOL) {
            ig_store_i64(dtype, data, i, (int64_t)(state >> 33 & 1));
        } else if (!ig_dtype_is_float(dtype)) {
            static const int64_t integers[] = {0,
                                               1,
                                               -1,
                                               2,
                                               127,
                                               -128,
                                               255,
                                               32767,
                                               -32768,
                                               65535,
                                               2147483647,
                                               -2147483648ll,
                                               4294967295ll,
                                               INT64_MAX,
                                               INT64_MIN,
                                               7,
                                               8,
                                               31,
                                               32,
                                               63,
                                               64};
            ig_store_i64(dtype, data, i, dice < 8 ? integers[state % 21] : (int64_t)(state >> (state >> 58)));
        } else if (dice == 0) {
            ig_store_f64(dtype, data, i,
                         dice & 1       ? (double)NAN
                         : state & 1024 ? (double)INFINITY
                         : state & 2048 ? -(double)INFINITY
                                        : (double)NAN);
        } else if (dice < 6) {
            ig_store_f64(dtype, data, i, floats[state % (uint64_t)n]);
        } else {
            double size =
                ldexp(1 + (double)(state >> 12 & 0xffffff) / 0x1000000, (int)(state >> 36 & 31) - (dice < 12 ? 24 : 8));
            ig_store_f64(dtype, data, i, state & 4096 ? -size : size);
        }
    }
}

ig_value random_constant(struct ig_graph *g, enum ingot_dtype dtype, int rank, const int64_t *dims, uint32_t seed) {
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= dims[i];
    size_t size = (size_t)count * ingot_dtype_size(dtype);
    void *bytes = ig_alloc(g->job, size + 64);
    fill(dtype, bytes, count, seed, false);
    struct ig_data data = {.bytes = bytes, .size = size, .initializer = ig_format(g->job, "w%u", seed)};
    return ig_build_constant(g, dtype, rank, dims, ig_memdup(g->job, &data, sizeof data));
}

struct ig_type sized_type(struct ig_graph *g, enum ingot_dtype dtype, int rank, const int64_t *sizes) {
    static const char *const names[] = {"s0", "s1", "s2", "s3"};
    ig_dim dims[INGOT_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = sizes[i] < 0 ? ig_dim_symbol(g->dims, names[-1 - sizes[i]]) : ig_dim_const(g->dims, sizes[i]);
    return ig_type_make(dtype, rank, dims);
}

/* ---- Compiling a case ------------------------------------------------------------------------------------------------ */

struct checked {
    const struct graph_case *given;
    struct ig_graph *reference, *graph; /* as built; after the passes */
    struct ingot_tensor *inputs, *expected;
    struct ig_kernel **kernels; /* by region */
    uint32_t *sources;          /* by region: index of its kernel's text */
    int orders;                 /* bits: those of the emulator in which it runs */
    void **memory;              /* by value of `graph` */
};

struct run {
    const struct graph_case *cases;
    int count, ninth;           /* ninth 0 … 8 of the cases; -1: all */
    struct ig_target target;    /* the target that the text is compiled for */
    struct ig_target schedules; /* the target of the schedules: the same, or a GPU */
    const char *cc;
    const char *arch;             /* a GPU's, for NVRTC; NULL: a C compiler */
    struct emulator_options *how; /* the emulator's options; NULL: a real device */
    struct ig_device *devices[2]; /* the second may be NULL */
    struct ig_code code;
    const char *label;
    char message[256];
};

static int64_t size_of(const struct checked *c, const struct ig_graph *g, ig_dim d) {
    ig_dim symbols[4];
    static const char *const names[] = {"s0", "s1", "s2", "s3"};
    for (int i = 0; i < 4; i++)
        symbols[i] = ig_dim_symbol(g->dims, names[i]);
    int64_t value = 0;
    IG_ASSERT(g->job, ig_dim_eval(g->dims, d, symbols, c->given->sizes, 4, &value));
    return value;
}

static struct ingot_tensor tensor_of(const struct checked *c, const struct ig_graph *g, ig_value v) {
    const struct ig_type *type = ig_type_of(g, v);
    struct ingot_tensor t = {.dtype = type->dtype, .rank = type->rank};
    for (int i = 0; i < type->rank; i++)
        t.dims[i] = size_of(c, g, type->dim[i]);
    return t;
}

static void make_reference(struct ig_job *job, struct checked *c) {
    c->reference = ig_graph_create(job, ig_dims_create(job));
    c->given->build(c->reference, c->given->argument);
    if (c->given->flags & GRAPH_INTEGERS) {
        static const struct ig_target target = {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16};
        const struct ig_pass_options options = {.target = &target};
        c->reference = passes_named(c->reference, "integers canonicalize", &options);
    }
    struct ig_graph *g = c->reference;
    c->inputs = IG_NEW_ARRAY(job, struct ingot_tensor, g->inputs.count + 1);
    c->expected = IG_NEW_ARRAY(job, struct ingot_tensor, g->outputs.count + 1);
    for (uint32_t i = 0; i < g->inputs.count; i++) {
        struct ingot_tensor t = tensor_of(c, g, g->inputs.at[i].value);
        int64_t count = ingot_tensor_elements(&t);
        t.data = ig_alloc(job, (size_t)count * ingot_dtype_size(t.dtype) + 64);
        uint32_t seed = i + 1 + 100 * (uint32_t)c->given->sizes[GRAPH_SIZES];
        if (c->given->flags & GRAPH_HOSTILE) {
            fill_hostile(t.dtype, t.data, count, seed);
        } else {
            fill(t.dtype, t.data, count, seed, c->given->flags & GRAPH_POISON);
        }
        c->inputs[i] = t;
    }
    ig_eval_graph(job, g, c->inputs, c->expected);
}

static bool counts(const struct ig_kernel *kernel, unsigned flags) {
    bool brought = kernel->gemm && kernel->gemm->patch[0];
    if (flags & GRAPH_PATCH) return flags & GRAPH_MAPS ? brought : kernel->patch != NULL;
    if (flags & GRAPH_BANDED) return kernel->banded;
    if (flags & GRAPH_SERVED) return kernel->attend && kernel->attend->served;
    if (flags & GRAPH_ROWS_FIRST)
        return (kernel->gemm && kernel->gemm->first) || (kernel->blocks && kernel->blocks->first);
    return flags & GRAPH_MAPS ? kernel->n_maps > 0 && !brought : kernel->gemm && kernel->gemm->swapped;
}

/* The candidate that the case asks for, or the first if there are fewer, not counting calls of libraries. */
static struct ig_kernel *make_kernel(const struct checked *c, uint32_t r, const struct ig_target *target) {
    int left = (int)(c->given->flags / GRAPH_CHOICE);
    const struct ig_region *region = &c->graph->regions.at[r];
    bool any = !(c->given->flags &
                 (GRAPH_MAPS | GRAPH_SWAPPED | GRAPH_PATCH | GRAPH_BANDED | GRAPH_SERVED | GRAPH_ROWS_FIRST));
    enum ig_op op = c->graph->nodes.at[region->anchor].op;
    bool few = op == IG_OP_matmul || op == IG_OP_matmul_blocks;
    bool found = false, conv = op == IG_OP_conv, warpgroups = ig_target_has_warpgroups(target);
    bool must = (c->given->flags & GRAPH_BANDED && conv) ||
                (c->given->flags & GRAPH_PATCH && c->given->flags & GRAPH_MAPS && conv && warpgroups) ||
                (c->given->flags & GRAPH_ROWS_FIRST && few && ig_target_can_stream(target)) ||
                (c->given->flags & GRAPH_DEMANDED && op == IG_OP_matmul && warpgroups) ||
                (c->given->flags & GRAPH_SERVED && region->family == IG_FAMILY_ATTEND && warpgroups);
    struct ig_kernel *kernel;
    int choice = any ? left : 0;
    do {
        kernel = ig_kernel_candidate(c->graph, region, target, NULL, choice++);
        found |= kernel && counts(kernel, c->given->flags);
    } while (!any && kernel && (!counts(kernel, c->given->flags) || left-- > 0));
    if (must && !found)
        ig_raise(c->graph->job, INGOT_INTERNAL, "%s: no kernel of the kind that is to be checked", c->given->name);
    return kernel && !kernel->library ? kernel : ig_kernel_make(c->graph, region, target);
}

static void make_kernels(struct ig_job *job, const struct run *run, struct checked *c) {
    unsigned flags = c->given->flags;
    bool narrow = flags & (GRAPH_FP16 | GRAPH_BF16 | GRAPH_TF32);
    const struct ig_precisions precisions = {.base = flags & GRAPH_FP16   ? IG_PRECISION_FP16
                                                     : flags & GRAPH_BF16 ? IG_PRECISION_BF16
                                                                          : IG_PRECISION_TF32,
                                             .everywhere = true};
    struct ig_pass_options options = {.target = run->arch ? &run->schedules : &run->target, .precisions = &precisions};
    if (flags & (GRAPH_ROWS_FIRST | GRAPH_ESTIMATED)) options.estimator = ig_estimates_open(job, options.target);
    bool raw = c->given->flags & GRAPH_RAW;
    const char *passes = ig_format(job, "%sattend pad-heads %s%sfuse partition", raw ? "" : "layout ",
                                   narrow ? "precision " : "", raw ? "" : "pack ");
    c->graph = passes_named(c->reference, passes, &options);
    c->kernels = IG_NEW_ARRAY(job, struct ig_kernel *, c->graph->regions.count + 1);
    for (uint32_t r = 0; r < c->graph->regions.count; r++) {
        /* Contractions are templates in the printer's language, so they need a schedule for the same target. */
        bool contract = !run->arch && c->graph->regions.at[r].family == IG_FAMILY_CONTRACT;
        const struct ig_target *target = contract ? &run->target : &run->schedules;
        c->kernels[r] = make_kernel(c, r, target);
    }
}

static void *memory_of(struct ig_job *job, struct checked *c, ig_value v) {
    struct ig_graph *g = c->graph;
    if (c->memory[v]) return c->memory[v];
    const struct ig_node *n = ig_def(g, v);
    ig_dim begin;
    if (ig_info(g, v)->is_const) {
        c->memory[v] = ig_const_tensor(g, v).data;
    } else if (n && n->op == IG_OP_reshape) {
        c->memory[v] = memory_of(job, c, n->in[0]);
    } else if (n && n->region == IG_NO_REGION && ig_part_begin(g, n, &begin)) {
        size_t before = (size_t)size_of(c, g, begin) * ingot_dtype_size(ig_type_of(g, v)->dtype);
        c->memory[v] = (char *)memory_of(job, c, n->in[0]) + before;
    } else {
        struct ingot_tensor t = tensor_of(c, g, v);
        size_t size = (size_t)ingot_tensor_elements(&t) * ingot_dtype_size(t.dtype);
        c->memory[v] = ig_alloc(job, size + 64);
        memset(c->memory[v], 0xff, size + 64);
    }
    return c->memory[v];
}

/* Outputs whose operands regions store in place. */
static void share_outputs(struct ig_job *job, struct checked *c) {
    struct ig_graph *g = c->graph;
    for (uint32_t o = 0; o < g->outputs.count; o++) {
        const struct ig_node *concat = ig_part_stored(g, g->outputs.at[o].value);
        if (!concat) continue;
        char *at = memory_of(job, c, concat->out);
        for (uint32_t i = 0; i < concat->n_in; i++) {
            struct ingot_tensor t = tensor_of(c, g, concat->in[i]);
            c->memory[ig_part_base(g, concat->in[i])] = at;
            at += (size_t)ingot_tensor_elements(&t) * ingot_dtype_size(t.dtype);
        }
    }
}

static bool is_literal(const struct ig_kernel *kernel, ig_value v) {
    for (uint32_t i = 0; i < kernel->literals.count; i++) {
        if (kernel->literals.at[i] == v) return true;
    }
    return false;
}

/* ---- Running ----------------------------------------------------------------------------------------------------------- */

/* The buffers of a launch: the region's inputs and outputs, in the device's memory. */
struct buffers {
    void *host[256], *at[256];
    size_t size[256];
    uint32_t count, inputs;
};

static void add_buffer(struct ig_job *job, struct checked *c, ig_value v, struct buffers *b) {
    struct ingot_tensor t = tensor_of(c, c->graph, v);
    IG_ASSERT(job, b->count < 256);
    b->size[b->count] = (size_t)ingot_tensor_elements(&t) * ingot_dtype_size(t.dtype);
    b->host[b->count] = b->at[b->count] = memory_of(job, c, v);
    b->count++;
}

static void find_buffers(struct ig_job *job, struct checked *c, uint32_t r, struct buffers *b) {
    const struct ig_region *region = &c->graph->regions.at[r];
    b->count = 0;
    for (uint32_t i = 0; i < region->inputs.count; i++) {
        if (!is_literal(c->kernels[r], region->inputs.at[i])) add_buffer(job, c, region->inputs.at[i], b);
    }
    b->inputs = b->count;
    for (uint32_t i = 0; i < region->outputs.count; i++)
        add_buffer(job, c, region->outputs.at[i], b);
}

static void check_status(struct ig_job *job, enum ingot_status status, const struct ingot_error *error) {
    if (status != INGOT_OK) ig_raise_error(job, error);
}

/* Uploads the outputs too: what a kernel does not write must keep its value. Each buffer is exactly as large as its
 * tensor, so that the emulator detects accesses beyond it. */
static void send_buffers(struct ig_job *job, struct ig_device *device, struct ig_stream *stream, struct buffers *b) {
    struct ingot_error error;
    for (uint32_t i = 0; !device->host_memory && i < b->count; i++) {
        check_status(job, device->api->allocate(device, b->size[i], &b->at[i], &error), &error);
        check_status(job, device->api->copy(device, stream, b->at[i], b->host[i], b->size[i], &error), &error);
    }
}

static void fetch_buffers(struct ig_job *job, struct ig_device *device, struct ig_stream *stream, struct buffers *b) {
    struct ingot_error error;
    for (uint32_t i = 0; !device->host_memory && i < b->count; i++) {
        if (i >= b->inputs)
            check_status(job, device->api->copy(device, stream, b->host[i], b->at[i], b->size[i], &error), &error);
    }
    check_status(job, device->api->stream_wait(device, stream, &error), &error);
    for (uint32_t i = 0; !device->host_memory && i < b->count; i++)
        device->api->release(device, b->at[i], b->size[i]);
}

static void run_region(struct ig_job *job, struct run *run, struct checked *c, uint32_t r, struct ig_device *device,
                       struct ig_module *module) {
    const struct ig_kernel *kernel = c->kernels[r];
    struct buffers *buffers = IG_NEW(job, struct buffers);
    int64_t dims[256];
    find_buffers(job, c, r, buffers);
    IG_ASSERT(job, kernel->dims.count <= 256);
    for (uint32_t i = 0; i < kernel->dims.count; i++)
        dims[i] = size_of(c, c->graph, kernel->dims.at[i]);
    struct ig_launch launch = {.module = module,
                               .entry = run->code.entries[c->sources[r]],
                               .portable = UINT64_MAX,
                               .name = ig_format(job, "kernel_%u", c->sources[r]),
                               .threads = (uint32_t)kernel->threads,
                               .shared = (uint32_t)kernel->shared_bytes,
                               .buffers = buffers->at,
                               .n_buffers = buffers->count,
                               .dims = dims,
                               .n_dims = kernel->dims.count,
                               .maps = kernel->maps,
                               .n_maps = (uint32_t)kernel->n_maps,
                               .lasting = (uint32_t)kernel->lasting,
                               .turn = (uint32_t)kernel->turn,
                               .whole = kernel->whole,
                               .tiles = size_of(c, c->graph, kernel->tiles),
                               .scratch = (size_t)size_of(c, c->graph, kernel->scratch_bytes)};
    struct ingot_error error;
    struct ig_stream *stream;
    check_status(job, device->api->stream_create(device, &stream, &error), &error);
    send_buffers(job, device, stream, buffers);
    check_status(job, device->api->reserve_scratch(device, stream, launch.scratch, &error), &error);
    check_status(job, device->api->launch(device, stream, &launch, &error), &error);
    fetch_buffers(job, device, stream, buffers);
    device->api->stream_destroy(device, stream);
}

/* Smaller numbers lose precision. */
static double smallest_normal(enum ingot_dtype dtype) {
    switch (dtype) {
    case INGOT_F64: return 0x1p-1022;
    case INGOT_F8E4M3FN: return 0x1p-6;
    case INGOT_F8E5M2:
    case INGOT_F16: return 0x1p-14;
    default: return 0x1p-126;
    }
}

static bool is_narrow_number(const struct checked *c, enum ingot_dtype dtype) {
    return c->given->flags & GRAPH_NUMBERS && ig_narrow_is_float(dtype);
}

static double value_at(const struct checked *c, enum ingot_dtype dtype, const void *data, int64_t i) {
    if (!is_narrow_number(c, dtype)) return ig_load_f64(dtype, data, i);
    return (double)ig_narrow_to_f32(dtype, ((const uint8_t *)data)[i]);
}

/* The tolerance is relative to `scale`. */
static bool same_number(enum ingot_dtype dtype, double e, double x, double tolerance, double scale) {
    double small = smallest_normal(dtype);
    if (isnan(e)) return isnan(x);
    if (isinf(e)) return x == e;
    if (fabs(x - e) <= tolerance * (fabs(scale) + small)) return true;
    /* The reference computes in float64 itself, and may be wrong below its smallest normal number. */
    return dtype == INGOT_F64 && fabs(x) <= small && fabs(e) <= small;
}

/* Does v follow from sums of products of floats, such as the pass `integers` leaves where it has no integer product? Devices add them up
 * in other orders. */
static bool follows_float_products(const struct ig_graph *g, ig_value v) {
    bool *follows = calloc(g->values.count, sizeof *follows);
    assert_non_null(follows);
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        bool product = n->op == IG_OP_conv || n->op == IG_OP_matmul;
        bool found = product && ig_dtype_is_float(ig_type_of(g, n->in[0])->dtype);
        for (uint32_t i = 0; i < n->n_in; i++)
            found |= n->in[i] != IG_NO_VALUE && follows[n->in[i]];
        for (uint32_t o = 0; o < n->n_out; o++)
            follows[n->out + o] = found;
    }
    bool found = follows[v];
    free(follows);
    return found;
}

/* Of output o, if it is of floats. */
static double tolerance_for(const struct checked *c, uint32_t o) {
    const struct ig_graph *g = c->reference;
    bool sums = (c->given->flags & GRAPH_INTEGERS) && follows_float_products(g, g->outputs.at[o].value);
    return sums ? 2e-6 : c->given->tolerance; /* as sum_tolerance says */
}

static bool same_element(const struct checked *c, const struct ingot_tensor *expected, const void *got, int64_t i,
                         double tolerance, double largest) {
    enum ingot_dtype dtype = expected->dtype;
    if (!ig_dtype_is_float(dtype) && !is_narrow_number(c, dtype))
        return ig_load_i64(dtype, expected->data, i) == ig_load_i64(dtype, got, i);
    double e = value_at(c, dtype, expected->data, i), x = value_at(c, dtype, got, i);
    return same_number(dtype, e, x, tolerance, c->given->flags & GRAPH_EACH ? e : largest);
}

static void compare(struct ig_job *job, struct run *run, struct checked *c, uint32_t o) {
    const struct ingot_tensor *expected = &c->expected[o];
    const void *got = memory_of(job, c, c->graph->outputs.at[o].value);
    int64_t count = ingot_tensor_elements(expected);
    double largest = 0, tolerance = tolerance_for(c, o);
    for (int64_t i = 0; i < count; i++) {
        double e = fabs(value_at(c, expected->dtype, expected->data, i));
        if (isfinite(e) && e > largest) largest = e;
    }
    for (int64_t i = 0; i < count; i++) {
        if (same_element(c, expected, got, i, tolerance, largest)) continue;
        ig_raise(job, INGOT_INTERNAL, "%s, %s: output %u '%s', element %lld of %lld: %.9g, expected %.9g",
                 c->given->name, run->label, o, c->graph->outputs.at[o].name, (long long)i, (long long)count,
                 value_at(c, expected->dtype, got, i), value_at(c, expected->dtype, expected->data, i));
    }
}

static void run_case(struct ig_job *job, struct run *run, struct checked *c, struct ig_device *device,
                     struct ig_module *module) {
    struct ig_graph *g = c->graph;
    c->memory = IG_NEW_ARRAY(job, void *, g->values.count + 4096); /* evaluating constants appends values */
    for (uint32_t i = 0; i < g->inputs.count; i++)
        c->memory[g->inputs.at[i].value] = c->inputs[i].data;
    share_outputs(job, c);
    for (uint32_t r = 0; r < g->regions.count; r++)
        run_region(job, run, c, r, device, module);
    for (uint32_t o = 0; o < g->outputs.count; o++)
        compare(job, run, c, o);
}

/* Texts so far. `nameless` are the texts without the kernels' names, so that cases that differ only in inputs, or that
 * the passes make equal, are compiled once. */
struct texts {
    IG_VEC(struct ig_source) sources;
    IG_VEC(const char *) nameless;
};

static const char *text_of(struct ig_job *job, const struct run *run, const struct ig_kernel *kernel,
                           const char *symbol) {
    return run->arch ? ig_cuda_kernel(job, kernel, symbol, &run->schedules)
                     : ig_c_kernel(job, kernel, symbol, &run->target);
}

static uint32_t add_source(struct ig_job *job, struct run *run, struct texts *texts, const struct ig_kernel *kernel) {
    const char *nameless = text_of(job, run, kernel, "kernel");
    uint32_t n = texts->sources.count;
    for (uint32_t i = 0; i < n; i++) {
        if (!strcmp(texts->nameless.at[i], nameless)) return i;
    }
    const char *symbol = ig_format(job, "kernel_%u", n);
    IG_PUSH(job, &texts->nameless, nameless);
    IG_PUSH(job, &texts->sources, (struct ig_source){symbol, text_of(job, run, kernel, symbol)});
    return n;
}

static void prepare_case(struct ig_job *job, struct run *run, struct texts *texts, struct checked *c) {
    struct ig_where where = {.verb = "check", .name = c->given->name};
    ig_where_push(job, &where);
    make_reference(job, c);
    make_kernels(job, run, c);
    c->sources = IG_NEW_ARRAY(job, uint32_t, c->graph->regions.count + 1);
    for (uint32_t r = 0; r < c->graph->regions.count; r++)
        c->sources[r] = add_source(job, run, texts, c->kernels[r]);
    ig_where_pop(job);
}

static bool launches_alike(const struct checked *a, const struct checked *b, uint32_t r) {
    const struct ig_kernel *x = a->kernels[r], *y = b->kernels[r];
    return a->sources[r] == b->sources[r] && x->threads == y->threads && x->shared_bytes == y->shared_bytes &&
           x->n_maps == y->n_maps &&
           (x->n_maps == 0 || !memcmp(x->maps, y->maps, (size_t)x->n_maps * sizeof *x->maps)) &&
           x->lasting == y->lasting && x->turn == y->turn && x->whole == y->whole &&
           size_of(a, a->graph, x->tiles) == size_of(b, b->graph, y->tiles);
}

/* Are these two of one graph, with equal sizes and kernels? */
static bool runs_alike(const struct checked *a, const struct checked *b) {
    bool alike = a->given->build == b->given->build && a->given->argument == b->given->argument &&
                 !memcmp(a->given->sizes, b->given->sizes, GRAPH_SIZES * sizeof *a->given->sizes) &&
                 a->graph->regions.count == b->graph->regions.count;
    for (uint32_t r = 0; alike && r < a->graph->regions.count; r++)
        alike = launches_alike(a, b, r);
    return alike;
}

/* A case that has the kernels of one before it, but other inputs or passes, takes one of the two orders, by turns; a case
 * that is the same, as where kernels have fewer candidates than the list asks for, none. */
static void choose_orders(struct checked *all, int i) {
    all[i].orders = 3;
    for (int before = 0; before < i; before++) {
        if (!all[before].orders || !runs_alike(&all[before], &all[i])) continue;
        bool same = all[before].given->flags % GRAPH_CHOICE == all[i].given->flags % GRAPH_CHOICE;
        all[i].orders = same ? 0 : all[i].orders & (1 << i % 2);
    }
}

/* Not simply every ninth case: lists often have a period of three. */
static bool takes(const struct run *run, int i) {
    return run->ninth < 0 || (i + i / 9) % 9 == run->ninth;
}

static void compile(struct ig_job *job, struct run *run, const struct texts *texts) {
    if (run->how) {
        emulated_compile(job, texts->sources.at, texts->sources.count, run->target.sm, &run->code);
        return;
    }
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    struct ig_kernel_compiler compiler;
    options.nvrtc = getenv("INGOT_NVRTC");
    options.cc = run->cc;
    options.jobs = run->arch ? 0 : 2;
    ig_kernel_compiler_find(job, &run->target, &options, NULL, &compiler);
    ig_kernel_compiler_run(job, &compiler, texts->sources.at, texts->sources.count, NULL, NULL, &run->code);
}

static void run_cases(struct ig_job *job, void *argument) {
    struct run *run = argument;
    struct checked *all = IG_NEW_ARRAY(job, struct checked, (size_t)run->count);
    struct texts texts = {0};
    int count = 0;
    for (int i = 0; i < run->count; i++) {
        if (!takes(run, i)) continue;
        all[count].given = &run->cases[i];
        prepare_case(job, run, &texts, &all[count]);
        choose_orders(all, count++);
    }
    compile(job, run, &texts);
    for (int d = 0; d < 2 && run->devices[d]; d++) {
        struct ingot_error error;
        struct ig_module *module;
        const struct ig_device_api *api = run->devices[d]->api;
        if (api->module_create(run->devices[d], run->code.bytes, run->code.size, &module, &error) != INGOT_OK) {
            ig_raise_error(job, &error);
        }
        if (run->how) *run->how = (struct emulator_options){.backwards = d == 1, .late = d == 1, .races = true};
        for (int i = 0; i < count; i++) {
            if (!run->how || all[i].orders >> d & 1) run_case(job, run, &all[i], run->devices[d], module);
        }
        api->module_destroy(run->devices[d], module);
    }
    for (int i = 0; i < count; i++) {
        for (uint32_t o = 0; o < all[i].reference->outputs.count; o++)
            ig_eval_release(job, &all[i].expected[o]);
    }
}

static void check_on(struct run *run) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, run_cases, run, &error);
    ig_job_deinit(&job);
    if (status != INGOT_OK) fail_msg("%s: %s", run->label, error.message);
}

static bool has_compiler(struct ig_job *job, const char *cc) {
    (void)job;
    char path[128];
    snprintf(path, sizeof path, "/usr/bin/%s", cc);
    FILE *file = fopen(path, "rb");
    if (file) fclose(file);
    return file != NULL;
}

/* GPU schedules without templates are plain loops, which can be printed as C. */
static void check_cuda_schedules(struct run *run) {
    run->target = (struct ig_target){.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16};
    run->schedules = (struct ig_target){.isa = IG_ISA_CUDA, .vector_bytes = 32, .vector_registers = 16, .sm = 90};
    run->cc = "gcc";
    run->ninth = -1;
    run->label = "loops for CUDA as C, gcc";
    if ((ig_cpu_features() & IG_CPU_X86_64_V3) == IG_CPU_X86_64_V3 && has_compiler(NULL, run->cc)) check_on(run);
}

static void destroy_devices(struct run *run) {
    for (int d = 0; d < 2; d++)
        run->devices[d]->api->destroy(run->devices[d]);
}

/* On the emulator: threads in ascending order with immediate copies, and in descending order with late ones. */
static void check_emulated(const struct graph_case *cases, int count) {
    struct run run = {.cases = cases, .count = count, .ninth = -1, .label = "the emulator", .arch = "sm_90a"};
    for (int d = 0; d < 2; d++)
        run.devices[d] = emulated_create(0, &run.how);
    run.schedules = run.target =
        (struct ig_target){.isa = IG_ISA_CUDA, .vector_bytes = 64, .vector_registers = 32, .sm = 90, .sm_own = true};
    check_on(&run);
    destroy_devices(&run);
}

/* GRAPH_CHECK: what alone is checked: "gpu", GPU 0, or one level of processors. */
static const char *alone(void) {
    const char *where = getenv("GRAPH_CHECK");
    return where ? where : "";
}

static bool on_gpu_alone(void) {
    return strcmp(alone(), "gpu") == 0;
}

/* On GPU 0, if there is one. */
static void check_gpu(const struct graph_case *cases, int count) {
    struct run run = {.cases = cases, .count = count, .ninth = -1, .label = "the first GPU"};
    struct ig_device_cuda_info info;
    struct ingot_error error = {0};
    int gpus;
    if (ig_device_cuda_count(&gpus, &error) != INGOT_OK || gpus == 0) {
        if (on_gpu_alone()) fail_msg("there is no GPU: %s", error.message);
        return;
    }
    assert_int_equal(ig_device_cuda_describe(0, &info, &error), INGOT_OK);
    assert_int_equal(ig_device_cuda_create(0, &ig_libc_allocator, &run.devices[0], &error), INGOT_OK);
    run.arch = info.arch;
    run.schedules = run.target = (struct ig_target){
        .isa = IG_ISA_CUDA, .vector_bytes = 64, .vector_registers = 32, .sm = info.sm, .sm_own = info.sm_own};
    check_on(&run);
    run.devices[0]->api->destroy(run.devices[0]);
}

static void create_devices(struct run *run) {
    struct ingot_error error;
    for (int d = 0; d < 2; d++) {
        enum ingot_status status = ig_device_cpu_create(d == 0 ? 1 : 3, &ig_libc_allocator, &run->devices[d], &error);
        assert_int_equal(status, INGOT_OK);
    }
}

void check_graphs_for_cuda(const struct graph_case *cases, int count) {
    struct run run = {.cases = cases, .count = count};
    check_gpu(cases, count);
    if (on_gpu_alone()) return;
    if (emulated_is_present()) {
        check_emulated(cases, count);
        return;
    }
    create_devices(&run);
    check_cuda_schedules(&run);
    destroy_devices(&run);
}

void check_graphs_for_cpu(const struct graph_case *cases, int count) {
    enum { LEVELS = 5 };
    static const struct {
        const char *name;
        struct ig_target target;
        uint64_t needed;
    } levels[LEVELS] = {
        {"x86-64-v3", {IG_ISA_X86_64_V3, 32, 16, false, 0, false}, IG_CPU_X86_64_V3},
        {"x86-64-v4", {IG_ISA_X86_64_V4, 64, 32, false, 0, false}, IG_CPU_X86_64_V4},
        {"x86-64-v3+vnni", {IG_ISA_X86_64_V3, 32, 16, true, 0, false}, IG_CPU_X86_64_V3 | IG_CPU_AVX_VNNI},
        {"x86-64-v4+vnni", {IG_ISA_X86_64_V4, 64, 32, true, 0, false}, IG_CPU_X86_64_V4 | IG_CPU_AVX512_VNNI},
        {"amx", {IG_ISA_AMX, 64, 32, true, 0, false}, IG_CPU_AMX},
    };
    static const char *const compilers[] = {"gcc", "clang"};
    struct run run = {.cases = cases, .count = count};
    create_devices(&run);
    for (int t = 0; t < LEVELS && (t < 2 || (count > 0 && (cases[0].flags & GRAPH_VNNI))); t++) {
        for (int c = 0; c < 2; c++) {
            char label[64];
            uint64_t missing = levels[t].needed & ~ig_cpu_features();
            if (*alone() && !on_gpu_alone() && strcmp(alone(), levels[t].name) != 0) continue;
            if (missing || !has_compiler(NULL, compilers[c])) continue;
            if (levels[t].target.isa == IG_ISA_AMX && !ig_cpu_request_amx()) continue;
            snprintf(label, sizeof label, "%s, %s", levels[t].name, compilers[c]);
            run.target = run.schedules = levels[t].target;
            run.cc = compilers[c];
            run.ninth = c && count > 8 && has_compiler(NULL, compilers[0]) ? 4 * t % 9 : -1;
            run.label = label;
            check_on(&run);
        }
    }
    destroy_devices(&run);
}

void check_graphs(const struct graph_case *cases, int count) {
    if (!on_gpu_alone()) check_graphs_for_cpu(cases, count);
    if (!*alone() || on_gpu_alone()) check_graphs_for_cuda(cases, count);
}
