/*
 * The CPU's micro-kernels (kernel/micro.h) as CUDA C, for schedules made for CPUs: the threads that call one divide its
 * results. `thread` of `threads` is 0 of 1 if a thread works alone.
 */
#include "codegen/cuda/printer.h"
#include "codegen/cuda/templates.h"
#include "codegen/order.h"

static const char *type_of(enum ingot_dtype dtype) {
    switch (dtype) {
    case INGOT_F32: return "float";
    case INGOT_F64: return "double";
    case INGOT_I64:
    case INGOT_U64: return "unsigned long long"; /* unsigned, so that overflow wraps */
    default: return "unsigned";
    }
}

static void print_gemm(const struct ig_micro *m, const struct ig_target *target, struct ig_text *text) {
    const char *t = type_of(m->dtype);
    long long segments = m->segments > 1 ? m->segments : 1;
    ig_text_printf(
        text,
        "static __device__ void %s(int thread, int threads, int64_t rows, int64_t vectors, const void *a_bytes,\n"
        "    int64_t lda, const void *b_bytes, void *c_bytes, int64_t k, int64_t first%s) {\n"
        "    const %s *a = (const %s *)a_bytes, *b = (const %s *)b_bytes;\n"
        "    %s *c = (%s *)c_bytes;\n"
        "    const int columns = (int)vectors * %d;\n"
        "    for (int i = thread; i < (int)rows * columns; i += threads) {\n"
        "        const int r = i / columns, j = i %% columns;\n",
        m->name, m->rate ? ", const void *next" : "", t, t, t, t, t, ig_micro_lanes(target, m->dtype));
    if (m->group) {
        ig_text_printf(text, "        const %s *row = a + (r / %lld * %lldll + r %% %lld * %lldll), *column = b + j;\n",
                       t, (long long)m->group, (long long)m->group_stride, (long long)m->group, (long long)m->lda);
    } else {
        ig_text_printf(text, "        const %s *row = a + r * lda, *column = b + j;\n", t);
    }
    ig_text_printf(text, "        %s sum = first ? 0 : c[r * %d + j];\n", t, m->nr);
    ig_text_printf(text,
                   "        for (int s = 0; s < %lld; s++, row += %lldll - k) {\n"
                   "            for (int64_t p = 0; p < k; p++, row++, column += %d) sum += *row * *column;\n"
                   "        }\n"
                   "        c[r * %d + j] = sum;\n"
                   "    }\n}\n",
                   segments, (long long)m->jump, m->nr, m->nr);
}

static void print_pack(const struct ig_micro *m, struct ig_text *text) {
    const char *t = type_of(m->dtype);
    ig_text_printf(
        text,
        "static __device__ void %s(int thread, int threads, const void *from_bytes, int64_t ld, void *to_bytes,\n"
        "    int64_t k, int64_t columns) {\n"
        "    const %s *from = (const %s *)from_bytes;\n"
        "    %s *to = (%s *)to_bytes;\n"
        "    for (int64_t i = thread; i < k * %d; i += threads) {\n"
        "        const int64_t p = i / %d, j = i %% %d;\n"
        "        to[i] = j < columns ? from[j * ld + p] : 0;\n"
        "    }\n}\n",
        m->name, t, t, t, t, m->nr, m->nr, m->nr);
}

static void print_depthwise(const struct ig_micro *m, struct ig_text *text) {
    const char *t = type_of(m->dtype);
    ig_text_printf(
        text,
        "static __device__ void %s(int thread, int threads, int64_t columns, const void *x_bytes, int64_t x_row,\n"
        "    const void *w_bytes, void *c_bytes, int64_t kh, int64_t kw, int64_t channels) {\n"
        "    const %s *x = (const %s *)x_bytes, *w = (const %s *)w_bytes;\n"
        "    %s *c = (%s *)c_bytes;\n"
        "    for (int i = thread; i < (int)(columns * channels); i += threads) {\n"
        "        const int column = i / (int)channels, ch = i %% (int)channels;\n"
        "        %s sum = 0;\n"
        "        for (int64_t r = 0; r < kh; r++)\n"
        "            for (int64_t s = 0; s < kw; s++)\n",
        m->name, t, t, t, t, t, t);
    ig_text_printf(
        text,
        "                sum += x[r * x_row + s * %lldll + column * %lldll + ch] * w[r * %lldll + s * %lldll + ch];\n"
        "        c[column * %d + ch] = sum;\n"
        "    }\n}\n",
        (long long)m->x_tap, (long long)m->x_column, (long long)m->w_row, (long long)m->w_tap, m->nr);
}

static void print_topk(const struct ig_micro *m, struct ig_text *text) {
    const char *wide = m->key_bytes == 16 ? "unsigned long long" : "unsigned", *n = m->name;
    ig_text_printf(text, "typedef %s %s_e;\n", ig_code_bits(m->dtype), n);
    ig_code_order(m, "static __device__ __forceinline__", wide, text);
    ig_text_printf(text,
                   "namespace %s_team {\n"
                   "typedef %s_e element;\n"
                   "typedef %s wide, place;\n"
                   "enum { TEAM = %d, KEPT = %d, BITS = %d };\n"
                   "__device__ __forceinline__ wide order_of(element x) {\n"
                   "    return %s_order(x);\n"
                   "}\n",
                   n, n, wide, m->team, m->kept, (int)(8 * ingot_dtype_size(m->dtype)), n);
    ig_text_add(text, ig_cuda_template_topk);
    ig_text_printf(
        text,
        "}\n"
        "static __device__ void %s(int thread, int threads, const void *row, int64_t stride, int64_t n,\n"
        "    void *values, void *indices, int64_t step, int64_t k, void *keys) {\n"
        "    %s_team::run(thread, (const %s_e *)row, stride, n, (%s_e *)values, (int64_t *)indices, step, k, "
        "keys);\n"
        "}\n",
        n, n, n, n);
}

void ig_cuda_micro(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text) {
    switch (micro->kind) {
    case IG_MICRO_GEMM: print_gemm(micro, target, text); break;
    case IG_MICRO_PACK: print_pack(micro, text); break;
    case IG_MICRO_TOPK: print_topk(micro, text); break;
    case IG_MICRO_DEPTHWISE: print_depthwise(micro, text); break;
    case IG_MICRO_BLOCKS:
    case IG_MICRO_GROUPED:
    case IG_MICRO_DEPTHWISE_DOTS:
    case IG_MICRO_INTERLEAVE:
    case IG_MICRO_ROW_PARTS:
    case IG_MICRO_COLUMN_PARTS:
    case IG_MICRO_LIST:
    case IG_MICRO_WIDEN:
    case IG_MICRO_NARROW: break; /* of schedules for CPUs alone */
    }
}
