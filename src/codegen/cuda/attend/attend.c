/* Attention by a block as CUDA C++: prints the constants and the template. */
#include "codegen/cuda/attend/attend.h"

#include "codegen/cuda/templates.h"

/* A warpgroup instruction of sm_90a: 64 x columns sums. The left operand is in registers, or both are in shared memory;
 * then `add` says whether it adds to the sums that there are, or begins new ones. */
static void print_group_product(const char *name, const char *type, int columns, bool registers, struct ig_text *text) {
    int sums = columns / 2;
    ig_text_printf(text, "__device__ __forceinline__ void %s(float *c, %s) {\n", name,
                   registers ? "const unsigned *a, unsigned long long b"
                             : "unsigned long long a, unsigned long long b, int add");
    ig_text_printf(text,
                   "    asm volatile(\"{\\n.reg .pred add;\\nsetp.ne.b32 add, %s, 0;\\n\"\n"
                   "                 \"wgmma.mma_async.sync.aligned.m64n%dk16.f32.%s.%s {\"",
                   registers ? "1" : ig_format(text->job, "%%%d", sums + 2), columns, type, type);
    for (int i = 0; i < sums; i++)
        ig_text_printf(text, "%s\"%%%d%s\"", i % 16 == 0 ? "\n                 " : " ", i, i + 1 < sums ? ", " : "");
    if (registers)
        ig_text_printf(text, "\n                 \"}, {%%%d, %%%d, %%%d, %%%d}, %%%d, add, 1, 1, 1;", sums, sums + 1,
                       sums + 2, sums + 3, sums + 4);
    else
        ig_text_printf(text, "\n                 \"}, %%%d, %%%d, add, 1, 1, 0, 0;", sums, sums + 1);
    ig_text_add(text, "\\n}\"\n                 :");
    for (int i = 0; i < sums; i++)
        ig_text_printf(text, "%s\"+f\"(c[%d])%s", i % 8 == 0 && i > 0 ? "\n                   " : " ", i,
                       i + 1 < sums ? "," : "");
    const char *left = registers ? "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])" : "\"l\"(a)";
    ig_text_printf(text, "\n                 : %s, \"l\"(b)%s);\n}\n", left, registers ? "" : ", \"r\"(add)");
}

static void print_products(const struct ig_cuda_attend *a, struct ig_text *text) {
    const char *type = a->math == IG_CUDA_F16 ? "f16" : "bf16";
    if (a->warpgroups) {
        print_group_product("multiply_keys", type, a->keys, false, text);
        print_group_product("multiply_values", type, a->columns, true, text);
        ig_text_add(text, ig_cuda_template_attend_wgmma);
    } else if (a->math == IG_CUDA_FMA) {
        ig_text_add(text, ig_cuda_template_attend_fma);
    } else {
        ig_text_add(text, ig_cuda_template_mma);
        ig_text_add(text, ig_cuda_template_attend_mma);
    }
}

void ig_cuda_attend(const struct ig_cuda_attend *a, struct ig_text *text) {
    ig_text_add(text, "namespace attend {\n");
    ig_text_printf(text, "enum { FMA, TF32, F16, BF16, MATH = %d, ELEMENT = %d, GROUPS = %d, DIRECT = %d };\n",
                   (int)a->math, ig_cuda_attend_element(a), a->warpgroups, a->direct);
    ig_text_printf(
        text, "enum { WARPS_M = %d, WARPS_N = %d, KEYS = %d, STAGES = %d, AHEAD = %d, WHOLE = %d, SPLIT = %d };\n",
        a->warps_m, a->warps_n, a->keys, a->stages, a->whole ? a->stages : a->stages - 1, a->whole, a->split);
    ig_text_printf(text, "enum { DEPTH = %d, COLUMNS = %d, DEPTH_BYTES = %d, COLUMN_BYTES = %d, TILE_ROW = %d };\n",
                   a->depth, a->columns, a->depth_bytes, a->column_bytes, ig_cuda_attend_tile_row(a));
    ig_text_printf(text, "enum { LINE = %d, LINE_V = %d }; // bytes in shared memory\n",
                   ig_cuda_attend_line(a, a->depth), ig_cuda_attend_line(a, a->columns));
    ig_text_printf(text, "enum { TURNS = %d, GUARDED = %d, REPAIRED = %d };\n", a->turns, a->guarded, a->repaired);
    ig_text_printf(text, "enum { TABLES_AT = %d, TABLE_Q = %d, TABLE_K = %d, TABLE_V = %d };\n",
                   ig_cuda_attend_tables_at(a), a->table[IG_CUDA_ATTEND_QUERIES], a->table[IG_CUDA_ATTEND_KEYS],
                   a->table[IG_CUDA_ATTEND_VALUES]);
    ig_text_printf(text, "enum { SERVED = %d, BARRIERS_AT = %d };\n", a->served, ig_cuda_attend_barriers_at(a));
    ig_text_add(text, ig_cuda_template_attend_block);
    if (a->direct) {
        ig_text_add(text, ig_cuda_template_mma);
        ig_text_add(text, ig_cuda_template_attend_direct);
    } else {
        ig_text_add(text, ig_cuda_template_attend_copy);
        print_products(a, text);
        ig_text_add(text, ig_cuda_template_attend);
    }
    if (a->turns) ig_text_add(text, ig_cuda_template_attend_turns);
    if (a->served) {
        ig_text_add(text, ig_cuda_template_gemm_barrier);
        ig_text_add(text, ig_cuda_template_attend_served);
    }
    if (a->narrow) ig_text_add(text, ig_cuda_template_attend_narrow);
    ig_text_add(text, "}\n");
}
