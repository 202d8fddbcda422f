/*
 * The frame of a kernel in CUDA C: see print.h, and statement.c for how the threads of a block divide it.
 */
#include "codegen/cuda/print.h"

#include <string.h>

#include "codegen/cuda/attend/attend.h"
#include "codegen/cuda/banded.h"
#include "codegen/cuda/blocks.h"
#include "codegen/cuda/depthwise.h"
#include "codegen/cuda/exchange.h"
#include "codegen/cuda/gemm/gemm.h"
#include "codegen/cuda/patch.h"
#include "codegen/cuda/printer.h"
#include "codegen/cuda/recurrent/recurrent.h"
#include "kernel/cuda/contract/contract.h"

enum { MOST_STATIC = 40 << 10 }; /* bytes of arrays in static shared memory, of which a block has 48 KiB */

/* ---- Elements ---------------------------------------------------------------------------------------------------- */

/* The register of a SPREAD buffer: element var*width + r is number r of the current slot. */
static const char *spread_element(struct ig_code_printer *p, int buffer, ig_x index) {
    const struct ig_cuda_printer *c = (const struct ig_cuda_printer *)p;
    const struct ig_buffer *b = &p->k->buffers.at[buffer];
    if (b->kind != IG_BUFFER_SPREAD) return NULL;
    IG_ASSERT(p->job, c->spread_var >= 0);
    const char *var = ig_code_var_name(p, c->spread_var);
    if (b->width == 1) return ig_format(p->job, "%s[%s]", b->name, c->spread_slot);
    return ig_format(p->job, "%s[%s - %s * %lld + %s * %lld]", b->name, ig_code_text_of(p, index, IG_CODE_ADD), var,
                     (long long)b->width, c->spread_slot, (long long)b->width);
}

/* A byte among others in registers, as a float. */
static const char *number_of_byte(struct ig_code_printer *p, const struct ig_x_node *n) {
    const struct ig_x_node *load = &p->k->x.at[n->args[0]];
    if (n->i != INGOT_F32 || load->kind != IG_X_LOAD) return NULL;
    const struct ig_buffer *b = &p->k->buffers.at[load->i];
    bool is_byte = b->dtype == INGOT_I8 || b->dtype == INGOT_U8;
    if (!is_byte || b->kind != IG_BUFFER_LOCAL || b->elements % 4 != 0) return NULL;
    const char *name = ig_format(p->job, "ig_number_%s", ingot_dtype_name(b->dtype));
    ig_code_use_function(p, name);
    return ig_format(p->job, "%s(%s, %s)", name, b->name, ig_code_text_of(p, load->args[0], IG_CODE_SELECT));
}

static const struct ig_code_table tables[] = {
    {ig_cuda_functions, &ig_cuda_functions_count},
    {ig_cuda_functions_quantize, &ig_cuda_functions_quantize_count},
    {ig_code_functions_basic, &ig_code_functions_basic_count},
    {ig_code_functions_convert, &ig_code_functions_convert_count},
    {ig_code_functions_narrow, &ig_code_functions_narrow_count},
};
static const char *address(struct ig_code_printer *p, const struct ig_buffer *b) {
    return ig_format(p->job, "(long long)%s", b->name);
}

static const char *apart(struct ig_code_printer *p, enum ingot_dtype dtype, const char *a, const char *b) {
    return ig_format(p->job, "__%cmul_rn(%s, %s)", dtype == INGOT_F64 ? 'd' : 'f', a, b);
}

const struct ig_code_language ig_cuda_language = {
    .tables = tables,
    .n_tables = sizeof tables / sizeof *tables,
    .inf_f32 = "__int_as_float(0x7f800000)",
    .inf_f64 = "__longlong_as_double(0x7ff0000000000000)",
    .nan_f32 = "__int_as_float(0x7fc00000)",
    .nan_f64 = "__longlong_as_double(0x7ff8000000000000)",
    .narrow = true,
    .moves_halves = true,
    .apart = apart,
    .address = address,
    .begin = "begin", /* set for each tile, since a block's tiles are not consecutive */
    .element = spread_element,
    .cast = number_of_byte,
};

/* ---- Buffers ----------------------------------------------------------------------------------------------------- */

static bool is_read(const struct ig_loops *k, int buffer) {
    for (ig_x x = 0; x < k->x.count; x++) {
        if (k->x.at[x].kind == IG_X_LOAD && k->x.at[x].i == buffer) return true;
    }
    return false;
}

/*
 * "const float *__restrict__ x0". A buffer that other threads write may not be __restrict__: compilers could then
 * ignore barriers. Nor may what a predecessor writes where the kernel waits for it in the middle of its text: of data that nobody
 * can change NVIDIA's assembler moves loads (LDG.CONSTANT) before griddepcontrol.wait. Where that comes first, there is nothing
 * that it could be moved before, and loads for the epilogue gain up to 6% of a network by being moved.
 */
static const char *param_text(struct ig_code_printer *p, const struct ig_buffer *b, int index) {
    const char *type = ig_code_storage_type(b->dtype);
    const bool may_change = ((const struct ig_cuda_printer *)p)->waits_late && !b->constant;
    if (!b->written)
        return ig_format(p->job, "const %s *%s%s%s", type, may_change ? "" : "__restrict__ ", b->name,
                         b->nothing == IG_NO_X ? "" : "_");
    return ig_format(p->job, "%s *%s%s", type, is_read(p->k, index) ? "" : "__restrict__ ", b->name);
}

static const char *parameters(struct ig_code_printer *p) {
    struct ig_text text;
    ig_text_init(&text, p->job);
    int count = 0;
    for (uint32_t i = 0; i < p->k->buffers.count; i++) {
        const struct ig_buffer *b = &p->k->buffers.at[i];
        if (b->kind == IG_BUFFER_PARAM && b->param >= count) count = b->param + 1;
    }
    for (int param = 0; param < count; param++) {
        const char *one = ig_format(p->job, "const void *unused%d", param);
        for (uint32_t i = 0; i < p->k->buffers.count; i++) {
            const struct ig_buffer *b = &p->k->buffers.at[i];
            if (b->kind == IG_BUFFER_PARAM && b->param == param) one = param_text(p, b, (int)i);
        }
        ig_text_printf(&text, "%s,\n    ", one);
    }
    for (uint32_t i = 0; i < p->k->dim_params.count; i++)
        ig_text_printf(&text, "long long d%u_, ", i);
    ig_text_add(&text, "long long tiles, char *scratch");
    for (int i = 0; i < p->kernel->n_maps; i++)
        ig_text_printf(&text, ",\n    const __grid_constant__ gemm::tensor_map map%d", i);
    return text.at;
}

static bool is_narrow_dim(const struct ig_code_printer *p, ig_dim d) {
    int64_t lo, hi;
    ig_dim_range(p->k->dims, d, &lo, &hi);
    return lo >= -INT32_MAX && hi <= INT32_MAX;
}

/* The scratch bytes per block, as text: a constant or a dim. */
static const char *scratch_size(struct ig_code_printer *p) {
    int64_t bytes;
    ig_dim size = p->kernel->scratch_bytes;
    if (ig_dim_is_const(p->k->dims, size, &bytes)) return ig_format(p->job, "%lld", (long long)bytes);
    for (uint32_t i = 0; i < p->k->dim_params.count; i++) {
        if (p->k->dim_params.at[i] == size) return ig_format(p->job, "d%u", i);
    }
    ig_raise(p->job, INGOT_INTERNAL, "a kernel does not get the size of its scratch memory");
}

static int64_t local_bytes(const struct ig_buffer *b) {
    return (b->elements * (int64_t)ingot_dtype_size(b->dtype) + 15) / 16 * 16;
}

/* Elements per thread of a private buffer. */
static int64_t private_elements(const struct ig_cuda_printer *c, const struct ig_buffer *b, const struct ig_stmt *s) {
    int64_t rounds = b->kind == IG_BUFFER_SPREAD ? b->elements / b->width : 0;
    int lanes = c->threads;
    if (!rounds) return b->elements;
    for (uint32_t i = 0; i < s->body.count; i++) {
        if (s->body.at[i]->for_kind == IG_FOR_TEAM && s->body.at[i]->kind == IG_S_FOR) lanes = s->body.at[i]->lanes;
    }
    return (rounds + lanes - 1) / lanes * b->width;
}

static void print_memory(struct ig_cuda_printer *c, const struct ig_buffer *b, bool is_private, int64_t *shared_bytes) {
    struct ig_code_printer *p = &c->base;
    const char *type = ig_code_storage_type(b->dtype);
    switch (b->kind) {
    case IG_BUFFER_PARAM:
        if (b->written || b->nothing == IG_NO_X) break;
        ig_code_prelude_use(&p->prelude, "ig_nothing");
        ig_code_line(p, "const %s *const %s = %s ? (const %s *)ig_nothing : %s_;", type, b->name,
                     ig_code_plain_text(p, b->nothing), type, b->name);
        break;
    case IG_BUFFER_SCRATCH:
        ig_code_line(p, "%s *const %s = (%s *)(scratch + (long long)blockIdx.x * %s + %s);", type, b->name, type,
                     scratch_size(p), ig_code_plain_text(p, b->offset));
        break;
    case IG_BUFFER_SHARED:
        ig_code_line(p, "%s *const %s = (%s *)(ig_shared + %s);", type, b->name, type,
                     ig_code_plain_text(p, b->offset));
        break;
    case IG_BUFFER_SPREAD:
    case IG_BUFFER_LOCAL:
        if (is_private) {
            ig_code_line(p, "__align__(16) %s %s[%lld];", type, b->name, (long long)private_elements(c, b, p->k->top));
            break;
        }
        if (c->producer) ig_raise(p->job, INGOT_INTERNAL, "an array that the threads share beside a producer");
        *shared_bytes += local_bytes(b);
        ig_code_line(p, "__shared__ __align__(16) %s %s[%lld];", type, b->name, (long long)b->elements);
        break;
    }
}

static void print_buffers(struct ig_cuda_printer *c) {
    struct ig_code_printer *p = &c->base;
    for (uint32_t i = 0; i < p->k->dim_params.count; i++) {
        ig_dim d = p->k->dim_params.at[i];
        const char *type = is_narrow_dim(p, d) ? "int" : "int64_t";
        ig_code_line(p, "const %s d%u = (%s)d%u_; /* %s */", type, i, type, i, ig_dim_text(p->k->dims, d));
    }
    int64_t shared = 0;
    for (uint32_t i = 0; i < p->k->buffers.count; i++)
        print_memory(c, &p->k->buffers.at[i], c->is_private[i], &shared);
    if (shared > MOST_STATIC)
        ig_raise(p->job, INGOT_INTERNAL, "a kernel's arrays take %lld bytes of shared memory", (long long)shared);
}

/* ---- The translation unit ---------------------------------------------------------------------------------------- */

static const char declarations[] =
    "typedef signed char int8_t;\ntypedef short int16_t;\ntypedef int int32_t;\ntypedef long long int64_t;\n"
    "typedef unsigned char uint8_t;\ntypedef unsigned short uint16_t;\ntypedef unsigned uint32_t;\n"
    "typedef unsigned long long uint64_t;\ntypedef bool _Bool;\n"
    "#define INLINE static __device__ __forceinline__\n";

/* The builtins of C compilers that the shared function tables use, in CUDA. */
static const char *const builtins[][2] = {
    {"__builtin_fabsf", "fabsf"},
    {"__builtin_fabs", "fabs"},
    {"__builtin_floorf", "floorf"},
    {"__builtin_floor", "floor"},
    {"__builtin_ceilf", "ceilf"},
    {"__builtin_ceil", "ceil"},
    {"__builtin_truncf", "truncf"},
    {"__builtin_trunc", "trunc"},
    {"__builtin_rintf", "rintf"},
    {"__builtin_rint", "rint"},
    {"__builtin_sqrtf", "sqrtf"},
    {"__builtin_sqrt", "sqrt"},
    {"__builtin_copysignf", "copysignf"},
    {"__builtin_copysign", "copysign"},
    {"__builtin_inff()", "__int_as_float(0x7f800000)"},
    {"__builtin_inf()", "__longlong_as_double(0x7ff0000000000000)"},
    {"__builtin_nanf(text)", "__int_as_float(0x7fc00000)"},
    {"__builtin_nan(text)", "__longlong_as_double(0x7ff8000000000000)"},
};

static void add_builtins(struct ig_job *job, struct ig_text *unit, const char *text) {
    for (size_t i = 0; text && i < sizeof builtins / sizeof *builtins; i++) {
        const char *name = builtins[i][0];
        if (strstr(text, ig_format(job, "%.*s(", (int)strcspn(name, "("), name)))
            ig_text_printf(unit, "#define %s %s\n", name, builtins[i][1]);
    }
}

static const char *assemble(struct ig_cuda_printer *c, const char *symbol, const struct ig_target *target) {
    struct ig_code_printer *p = &c->base;
    const struct ig_kernel *kernel = p->kernel;
    struct ig_text unit;
    ig_text_init(&unit, p->job);
    ig_text_printf(&unit, "/*\n * %s\n * %s\n */\n", ig_code_comment(p->job, kernel->title),
                   ig_code_comment(p->job, kernel->tactic));
    ig_text_printf(&unit, "%s#define THREAD ((int)threadIdx.x%s)\nenum { THREADS = %d };\n", declarations,
                   c->turns ? ig_format(p->job, " %% %d", c->threads) : "", c->threads);
    if (kernel->cluster > 1) ig_text_printf(&unit, "enum { CLUSTER = %d };\n", kernel->cluster);
    add_builtins(p->job, &unit, p->prelude.text.at);
    if (p->prelude.text.at) ig_text_printf(&unit, "\n%s", p->prelude.text.at);
    if (kernel->prelude) ig_text_printf(&unit, "\n%s", kernel->prelude);
    if (kernel->gemm) {
        ig_text_add(&unit, "\n");
        ig_cuda_gemm(kernel->gemm, &unit);
    }
    if (kernel->attend) {
        ig_text_add(&unit, "\n");
        ig_cuda_attend(kernel->attend, &unit);
    }
    if (kernel->blocks) {
        ig_text_add(&unit, "\n");
        ig_cuda_blocks(kernel->blocks, &unit);
    }
    if (kernel->banded) {
        ig_text_add(&unit, "\n");
        ig_cuda_banded(kernel->banded, &unit);
    }
    if (kernel->depthwise) {
        ig_text_add(&unit, "\n");
        ig_cuda_depthwise(kernel->depthwise, &unit);
    }
    if (kernel->patch) {
        ig_text_add(&unit, "\n");
        ig_cuda_patch(kernel->patch, &unit);
    }
    if (kernel->recurrent) {
        ig_text_add(&unit, "\n");
        ig_cuda_recurrent(kernel->recurrent, &unit);
    }
    if (kernel->exchange) {
        ig_text_add(&unit, "\n");
        ig_cuda_exchange(kernel->exchange, &unit);
    }
    for (uint32_t i = 0; i < kernel->micros.count; i++) {
        ig_text_add(&unit, "\n");
        ig_cuda_micro(&kernel->micros.at[i], target, &unit);
    }
    const char *clusters = kernel->cluster > 1 ? ig_format(p->job, "__cluster_dims__(%d, 1, 1) ", kernel->cluster) : "";
    const char *resident = kernel->resident ? ig_format(p->job, ", %d", kernel->resident) : "";
    if (kernel->lasting) resident = ig_format(p->job, ", %d", kernel->lasting);
    ig_text_printf(&unit, "\nextern \"C\" __global__ void %s__launch_bounds__(%d%s)\n", clusters, kernel->threads,
                   resident);
    ig_text_printf(&unit, "%s(%s) {\n%s}\n", symbol, parameters(p), p->out.at);
    return unit.at;
}

static const char wait_for_last[] = "asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");";

/* The index of the dim that counts the lines, or the depth, of A or B. */
static uint32_t size_of(const struct ig_kernel *kernel, int map, bool depth) {
    enum ig_cuda_operand operand = map == 0 ? kernel->gemm->a : kernel->gemm->b;
    return depth == (operand == IG_CUDA_ALONG) ? kernel->maps[map].width : kernel->maps[map].lines;
}

/* The inner ones of a product's batches. */
static const char *inner_batches(struct ig_code_printer *p) {
    const struct ig_cuda_gemm *g = p->kernel->gemm;
    return g->batches ? ig_format(p->job, "d%u_", g->inner) : "1";
}

static void print_produce(struct ig_code_printer *p) {
    const struct ig_tensor_map *a = &p->kernel->maps[0];
    uint32_t columns = size_of(p->kernel, 1, false), depth = size_of(p->kernel, 1, true);
    if (a->axes == 0) {
        ig_code_line(p, "    gemm::produce(gemm::matrix_tiles(map0), map1, (int)tiles, d%u_, d%u_, d%u_, %s);",
                     size_of(p->kernel, 0, false), columns, depth, inner_batches(p));
        return;
    }
    if (p->kernel->gemm->patch[0]) {
        ig_code_line(p, "    const gemm::patch_tiles a(map0, d%u_, d%u_);", a->sizes[1], a->sizes[0]);
        ig_code_line(p, "    gemm::produce(a, map1, (int)tiles, 0, 0, 0, 1);");
        return;
    }
    const char *planes = a->axes == 3 ? ig_format(p->job, "d%u_", a->sizes[2]) : "1";
    ig_code_line(p, "    const gemm::window_tiles a(map0, %s, d%u_, d%u_);", planes, a->sizes[1], a->sizes[0]);
    ig_code_line(p, "    gemm::produce(a, map1, (int)tiles, a.windows(d%u_), d%u_, d%u_, 1);", a->lines, columns,
                 depth);
}

/* Separates the producer from the groups that multiply. */
static void print_roles(struct ig_code_printer *p, const struct ig_target *target) {
    const struct ig_kernel *kernel = p->kernel;
    ig_code_line(p, "gemm::start_barriers();");
    ig_code_line(p, "if (gemm::is_producer()) {");
    ig_code_line(p, "    gemm::give_registers();");
    print_produce(p);
    ig_code_line(p, "    return;");
    ig_code_line(p, "}");
    ig_code_line(p, "gemm::take_registers();");
    if (kernel->gemm->early && ig_target_has_early_start(target)) ig_code_line(p, "%s", wait_for_last);
}

/* Does each thread wait for the preceding kernel somewhere within a template? Groups that a producer serves do so first. */
static bool waits_late(const struct ig_kernel *kernel) {
    return (kernel->gemm && kernel->gemm->early && !kernel->gemm->producer) ||
           (kernel->blocks && kernel->blocks->early) || (kernel->exchange && kernel->exchange->early);
}

/* Blocks of the next kernel may start as soon as all of this one's are running. This kernel touches no memory before
 * the results of its predecessor are visible; the predecessor's own wait covers all kernels before that. */
static void print_early_start(struct ig_code_printer *p) {
    /* One that sends what it computes to other ranks lets it start itself, once it has waited (exchange_push.cu). */
    if (!ig_cuda_contract_pushes(p->kernel)) ig_code_line(p, "asm volatile(\"griddepcontrol.launch_dependents;\");");
    for (uint32_t i = 0; i < p->k->buffers.count; i++) {
        const struct ig_buffer *buffer = &p->k->buffers.at[i];
        if (buffer->kind == IG_BUFFER_PARAM && buffer->share > 0) {
            ig_code_prelude_use(&p->prelude, "ig_fetch_share");
            const char *given = buffer->nothing == IG_NO_X ? "" : "_"; /* the parameter, which may be empty */
            ig_code_line(p, "ig_fetch_share(%s%s, d%u_);", buffer->name, given, buffer->share - 1);
        }
        if (buffer->kind != IG_BUFFER_PARAM || buffer->early == 0) continue;
        ig_code_prelude_use(&p->prelude, "ig_fetch");
        ig_code_line(p, "ig_fetch(%s, %lld);", buffer->name, (long long)buffer->early);
    }
    const struct ig_kernel *kernel = p->kernel; /* which may wait by itself, after its first loads of weights */
    if ((kernel->gemm && kernel->gemm->early) || waits_late(kernel)) return;
    ig_code_line(p, "%s", wait_for_last);
}

const char *ig_cuda_kernel(struct ig_job *job, const struct ig_kernel *kernel, const char *symbol,
                           const struct ig_target *target) {
    struct ig_cuda_printer c = {
        .level = IG_CUDA_BLOCK, .threads = kernel->threads, .waits_late = waits_late(kernel), .spread_var = -1};
    if (kernel->gemm) {
        c.threads = ig_cuda_gemm_workers(kernel->gemm);
        c.producer = kernel->gemm->producer;
        c.turns = kernel->gemm->turns;
    }
    if (kernel->attend) {
        c.threads = ig_cuda_attend_workers(kernel->attend);
        c.served = kernel->attend->served;
    }
    struct ig_code_printer *p = &c.base;
    ig_cuda_quantize(kernel->loops);
    ig_cuda_vectorize(kernel->loops);
    ig_code_printer_init(p, job, kernel, &ig_cuda_language);
    ig_cuda_find_rounded(p);
    c.fence = IG_NEW_ARRAY(job, bool, p->places.count + 1);
    c.is_private = IG_NEW_ARRAY(job, bool, p->k->buffers.count + 1);
    ig_cuda_place_buffers(&c);
    ig_cuda_place_fences(&c);
    if (kernel->shared_bytes > 0) ig_code_line(p, "extern __shared__ __align__(1024) char ig_shared[];");
    if (ig_target_has_early_start(target)) print_early_start(p);
    if (kernel->opening) ig_code_line(p, "%s", kernel->opening);
    if (kernel->gemm && kernel->gemm->producer) print_roles(p, target);
    print_buffers(&c);
    uint32_t next = 0;
    ig_cuda_stmt(&c, p->k->top, &next);
    return assemble(&c, symbol, target);
}
