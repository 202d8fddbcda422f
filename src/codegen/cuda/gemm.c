/* Matrix products of a block as CUDA C++: constants, and the parts of the template that they call for. */
#include "codegen/cuda/gemm.h"

#include "codegen/cuda/templates.h"

static void print_constants(const struct ig_cuda_gemm *g, struct ig_text *text) {
    int element = ig_cuda_gemm_element(g), line = ig_cuda_gemm_line(g);
    ig_text_printf(text, "enum { FMA, TF32, F16, BF16, MATH = %d };\n", (int)g->math);
    ig_text_printf(text, "enum { BM = %d, BN = %d, DEPTH = %d, ELEMENT = %d };\n", g->bm, g->bn, g->bk, element);
    ig_text_printf(text, "enum { THREADS = %d, STAGES = %d, SPLIT = %d };\n", ig_cuda_gemm_threads(g), g->stages,
                   g->split);
    if (g->math == IG_CUDA_FMA)
        ig_text_printf(text, "enum { THREAD_M = %d, THREAD_N = %d };\n", g->thread_m, g->thread_n);
    else
        ig_text_printf(text, "enum { WARPS_M = %d, WARPS_N = %d };\n", g->warps_m, g->warps_n);
    ig_text_printf(text, "enum { A_BYTES = %d, STAGE_BYTES = %d, TILE_ROW = %d };\n", g->bm * line * element,
                   (g->bm + g->bn) * line * element, g->bn + IG_CUDA_TILE_PAD);
    ig_text_printf(text, "enum { A_ACROSS = %d, B_ACROSS = %d, ACROSS_TURN = %d };\n", g->a == IG_CUDA_ACROSS,
                   g->b == IG_CUDA_ACROSS, g->math == IG_CUDA_TF32 ? 2 : 1);
    if (g->a == IG_CUDA_WINDOWS) {
        ig_text_printf(text, "enum { TAPS_X = %d, STRIDE_Y = %d, STRIDE_X = %d, DILATION_Y = %d, DILATION_X = %d };\n",
                       g->taps[1], g->strides[0], g->strides[1], g->dilations[0], g->dilations[1]);
    }
}

/* Where line `line` has its byte `byte` in an operand's part of a step. */
static void print_place(const struct ig_cuda_gemm *g, const char *name, enum ig_cuda_operand operand, int lines,
                        struct ig_text *text) {
    ig_text_printf(text, "__device__ __forceinline__ unsigned place_%s(int line, int byte) {\n    return ", name);
    if (operand == IG_CUDA_FILLED)
        ig_text_printf(text, "line * %d + byte;\n}\n", ig_cuda_gemm_line(g) * ig_cuda_gemm_element(g));
    else if (operand == IG_CUDA_ACROSS)
        ig_text_printf(text, "place<DEPTH, %d * ELEMENT, ACROSS_TURN>(line, byte);\n}\n", lines);
    else
        ig_text_printf(text, "place<%d, DEPTH * ELEMENT>(line, byte);\n}\n", lines);
}

static const char *loader(enum ig_cuda_operand operand) {
    return operand == IG_CUDA_WINDOWS ? "windows" : operand == IG_CUDA_ACROSS ? "across" : "along";
}

static void print_multiply(const struct ig_cuda_gemm *g, struct ig_text *text) {
    bool windows = g->a == IG_CUDA_WINDOWS;
    ig_text_add(text, "__device__ __forceinline__ void multiply(float *tile, const void *a, ");
    if (windows) {
        ig_text_add(text, "long long height, long long width,\n    long long pixel, long long channels, long long "
                          "out_height, long long out_width, long long above, long long before,\n    ");
    } else {
        ig_text_add(text, "long long lda, ");
    }
    ig_text_add(text, "long long first_row, long long rows, const void *b, long long ldb,\n"
                      "    long long first_column, long long columns, long long depth) {\n");
    ig_text_printf(text, "    %s<BM, %d> load_a;\n    %s<BN, %d> load_b;\n", loader(g->a), g->a_copy, loader(g->b),
                   g->b_copy);
    if (windows)
        ig_text_add(text,
                    "    const image i = {(const char *)a, height, width, pixel, channels, out_height, out_width, "
                    "above, before};\n"
                    "    load_a.start(i, first_row, rows);\n");
    else
        ig_text_add(text, "    load_a.start((const char *)a, lda, first_row, rows);\n");
    ig_text_add(text, "    load_b.start((const char *)b, ldb, first_column, columns);\n"
                      "    walk(tile, load_a, load_b, depth);\n}\n");
}

/* The product of what the kernel's loops have filled in. */
static const char add[] = "__device__ __forceinline__ void add(sums &c, float *tile) {\n"
                          "    const unsigned memory = (unsigned)__cvta_generic_to_shared(tile);\n"
                          "    __syncthreads();\n"
                          "    c.step(memory, memory + A_BYTES);\n"
                          "    __syncthreads();\n"
                          "}\n";

void ig_cuda_gemm(const struct ig_cuda_gemm *g, struct ig_text *text) {
    bool filled = g->a == IG_CUDA_FILLED;
    ig_text_add(text, "namespace gemm {\n");
    print_constants(g, text);
    ig_text_add(text, ig_cuda_template_gemm_copy);
    if (g->a == IG_CUDA_WINDOWS) ig_text_add(text, ig_cuda_template_gemm_windows);
    print_place(g, "a", g->a, g->bm, text);
    print_place(g, "b", g->b, g->bn, text);
    ig_text_add(text, g->math == IG_CUDA_FMA ? ig_cuda_template_gemm_fma : ig_cuda_template_gemm_mma);
    ig_text_add(text, ig_cuda_template_gemm);
    if (filled)
        ig_text_add(text, add);
    else
        print_multiply(g, text);
    ig_text_add(text, "}\n");
}
