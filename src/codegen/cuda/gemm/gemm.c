/* The matrix product of a block as CUDA C++: prints the constants, and the parts of the template that they need. */
#include "codegen/cuda/gemm/gemm.h"

#include "codegen/cuda/exchange.h"
#include "codegen/cuda/templates.h"

enum { MOST_UNROLLED = 12 /* steps */, MOST_SUMS = 16 /* of a thread */ };

/* A walk of few steps over a small tile is unrolled: it is over soon, so that what each step decides anew would count. With
 * larger tiles many blocks run, or long; then registers and the cache of instructions count for more. So they do without
 * tensor cores, where a step is hundreds of instructions. Elsewhere the number of steps is not told to NVRTC, which
 * unrolls as it sees fit where it knows it. */
static bool is_unrolled(const struct ig_cuda_gemm *g) {
    return g->math != IG_CUDA_FMA && g->steps > 0 && g->steps <= MOST_UNROLLED &&
           g->bm * g->bn <= MOST_SUMS * ig_cuda_gemm_threads(g);
}

static void print_stream_constants(const struct ig_cuda_gemm *g, struct ig_text *text) {
    struct ig_cuda_stream at = ig_cuda_gemm_stream(g);
    ig_text_printf(text, "enum { PRODUCTS = %d, ALL_DEPTH = %d, A_COPY = %d };\n", g->twin ? 2 : 1, g->depth,
                   g->a_copy);
    ig_text_printf(text, "enum { RING_AT = %d, BARRIERS_AT = %d, ROWS_AT = %d, ROWS_FIRST = %d };\n", at.ring,
                   at.barriers, at.rows, g->first);
    /* The tensor cores multiply all columns at once, and warps share their depth. */
    bool cores = g->bm > 4;
    int columns = (g->twin ? 2 : 1) * g->bn, piece = g->bk * ig_cuda_gemm_element(g),
        column = g->depth * ig_cuda_gemm_element(g);
    ig_text_printf(text, "constexpr int GROUPS = %d, SHARES = %d, WARPS = %d;\n", cores ? 1 : columns,
                   cores ? g->warps_n : 1, g->warps_n);
    ig_text_printf(text, "constexpr int PIECE = %d, COLUMN = %d, PIECES = %d, STAGE = %d;\n", piece, column,
                   (column + piece - 1) / piece, cores ? columns * piece : piece);
}

/* Those of matrices and of windows that come tap by tap have no meaning, but stand in code that is not used. */
static void print_patch(const struct ig_cuda_gemm *g, struct ig_text *text) {
    bool patch = g->patch[0] > 0;
    ig_text_printf(text, "enum { PATCH = %d, SLICES = %d, ARRIVING = %d };\n", patch,
                   patch ? ig_cuda_gemm_patch_slices(g) : 1,
                   patch ? ig_cuda_gemm_patch_arriving(g) : ig_cuda_gemm_stage(g));
    ig_text_printf(text, "enum { PATCH_ROWS = %d, PATCH_COLUMNS = %d, PATCH_LINE = %d, PATCH_BYTES = %d };\n",
                   patch ? g->patch[0] : 1, patch ? g->patch[1] : 1, patch ? ig_cuda_gemm_patch_pixels(g, 1) : 1,
                   patch ? ig_cuda_gemm_patch_bytes(g) : 0);
    ig_text_printf(text, "enum { PHASES_Y = %d, PHASES_X = %d, PIXEL = %d };\n",
                   patch ? ig_cuda_gemm_patch_phases(g, 0) : 1, patch ? ig_cuda_gemm_patch_phases(g, 1) : 1,
                   patch ? ig_cuda_gemm_patch_pixel(g) : 1);
    int groups = g->groups > 1 ? g->groups : 1,
        lines = g->b == IG_CUDA_ACROSS ? g->taps[1] * g->taps[2] * g->channels : g->group_columns;
    ig_text_printf(text, "enum { CHANNEL_GROUPS = %d, GROUP_COLUMNS = %d, GROUP_LINES = %d };\n", groups,
                   groups > 1 ? g->column_blocks / groups * g->bn : 0, groups > 1 ? lines : 0);
    if (g->a != IG_CUDA_WINDOWS)
        ig_text_add(text, "enum { CHANNELS = 1, TAPS_Y = 1, TAPS_X = 1, STRIDE_Y = 1, STRIDE_X = 1, DILATION_Y = 1, "
                          "DILATION_X = 1 };\n");
}

static void print_matrices(const struct ig_cuda_gemm *g, struct ig_text *text) {
    ig_text_printf(text, "enum { BATCHES = %d, A_MATRICES = %d, B_MATRICES = %d, INNER = %d, OUTER = %d };\n",
                   g->batches, g->a_matrices, g->b_matrices, IG_CUDA_INNER, IG_CUDA_OUTER);
}

static void print_constants(const struct ig_cuda_gemm *g, struct ig_text *text) {
    int element = ig_cuda_gemm_element(g), line = ig_cuda_gemm_line(g);
    bool integers = g->math == IG_CUDA_I8;
    ig_text_printf(text, "enum { FMA, TF32, F16, BF16, I8, F8, MATH = %d };\n", (int)g->math);
    const char *total = !integers || g->scale_columns > 0 ? "float" : "int";
    ig_text_printf(text, "typedef %s total;\ntypedef %s2 two_totals;\ntypedef %s4 totals;\n", total, total, total);
    ig_text_printf(text, "typedef %s step_total;\nenum { SCALE_COLUMNS = %d, DEALT_SCALES = %d };\n",
                   integers ? "int" : "float", g->scale_columns, g->dealt);
    ig_text_printf(text, "enum { BM = %d, BN = %d, DEPTH = %d, ELEMENT = %d };\n", g->bm, g->bn, g->bk, element);
    ig_text_printf(text, "enum { THREADS = %d, STAGES = %d, SPLIT = %d, EARLY = %d };\n", ig_cuda_gemm_threads(g),
                   g->stages, g->split, g->early);
    ig_text_printf(text, "enum { UNROLLED_STEPS = %d, PROMOTED = %d };\n", is_unrolled(g) ? g->steps : 0, g->promoted);
    if (g->direct)
        ig_text_printf(text, "enum { AHEAD = %d, PRODUCTS = %d };\n", g->stages, g->twin ? 2 : 1);
    else if (g->stream)
        print_stream_constants(g, text);
    else if (g->math == IG_CUDA_FMA)
        ig_text_printf(text, "enum { THREAD_M = %d, THREAD_N = %d, WARPGROUPS = 0 };\n", g->thread_m, g->thread_n);
    else if (!g->producer)
        ig_text_printf(text, "enum { WARPS_M = %d, WARPS_N = %d, WARPGROUPS = %d, SWAPPED = %d };\n", g->warps_m,
                       g->warps_n, g->warpgroups, g->swapped);
    ig_text_printf(text, "enum { A_BYTES = %d, B_BYTES = %d, STAGE_BYTES = %d, TILE_ROW = %d };\n",
                   g->bm * line * element, g->bn * line * element, ig_cuda_gemm_stage(g), ig_cuda_gemm_tile_row(g));
    if (g->producer)
        ig_text_printf(
            text,
            "enum { ALL_GROUPS = %d, TURNS = %d, REGISTERS = %d, ADDS_IN_PAIRS = %d, BAND = %d, DEALT = %d, KEPT = %d, "
            "COLUMN_BLOCKS = %d, BARRIERS_AT = %d, BEGUN = %d };\n",
            ig_cuda_gemm_groups(g), g->turns, ig_cuda_gemm_registers(g), ig_cuda_gemm_adds_in_pairs(g), IG_CUDA_BAND,
            g->dealt, g->kept, g->column_blocks, ig_cuda_gemm_barriers_at(g), g->begun);
    if (g->producer) print_matrices(g, text);
    ig_text_printf(text, "enum { A_ACROSS = %d, B_ACROSS = %d, ACROSS_TURN = %d, WHOLE_DEPTH = %d };\n",
                   g->a == IG_CUDA_ACROSS, g->b == IG_CUDA_ACROSS, g->math == IG_CUDA_TF32 ? 2 : 1, g->whole_depth);
    ig_text_printf(text, "enum { WINDOWS = %d };\n", g->a == IG_CUDA_WINDOWS);
    if (g->a == IG_CUDA_WINDOWS) {
        static const char axes[] = "ZYX";
        for (int i = 0; i < 3; i++)
            ig_text_printf(text, "enum { TAPS_%c = %d, STRIDE_%c = %d, DILATION_%c = %d };\n", axes[i], g->taps[i],
                           axes[i], g->strides[i], axes[i], g->dilations[i]);
        ig_text_printf(text, "enum { SIDE_BY_SIDE = %d, AXES = %d, CHANNELS = %d, BORDER = %d };\n", g->side_by_side,
                       g->axes, g->channels, g->border);
        for (int i = 0; i < 3 && g->producer; i++)
            ig_text_printf(text, "enum { LOWER_%c = %d, UPPER_%c = %d };\n", axes[i], g->lower[i], axes[i],
                           g->upper[i]);
    }
    if (g->producer) print_patch(g, text);
}

/* Prints the function that gives the position of byte `byte` of line `line` in an operand's part of a step. */
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

/* The type that copies an operand, and the parameters and arguments that locate it. */
struct source {
    const char *type, *parameters, *arguments;
};

static struct source source_of(struct ig_job *job, const struct ig_cuda_gemm *g, enum ig_cuda_operand operand,
                               char name, int copy) {
    char size = name == 'a' ? 'M' : 'N';
    switch (operand) {
    case IG_CUDA_WINDOWS:
        return (struct source){
            ig_format(job, "windows<BM, %d>", copy),
            "long long planes, long long height, long long width, long long pixel, long long channels,\n"
            "    long long out_planes, long long out_height, long long out_width,\n"
            "    long long ahead, long long above, long long before,\n    ",
            "planes, height, width, pixel, channels, out_planes, out_height, out_width, ahead, above, before"};
    case IG_CUDA_LISTED:
        return (struct source){ig_format(job, "listed<BM, %d, %lld>", copy, (long long)g->piece),
                               "const long long *list, long long stride, ", "list, stride"};
    default:
        return (struct source){ig_format(job, "%s<B%c, %d, %d>", operand == IG_CUDA_ACROSS ? "across" : "along", size,
                                         copy, name == 'b' && !g->whole_columns),
                               ig_format(job, "long long ld%c, ", name), ig_format(job, "ld%c", name)};
    }
}

/* Where the scales of a product's rows and columns lie, as scales::start takes them; and the block's own place. */
static const char scale_parameters[] = ",\n    const float *row_scales, long long row_pitch, long long step_pitch, "
                                       "const float *column_scales,\n    long long across";
static const char scale_start[] = "    by.start(row_scales, row_pitch, step_pitch, rows, column_scales, across, "
                                  "(int)first_row, (int)first_column, 0);\n";

static void print_multiply(const struct ig_cuda_gemm *g, struct ig_text *text) {
    struct source a = source_of(text->job, g, g->a, 'a', g->a_copy), b = source_of(text->job, g, g->b, 'b', g->b_copy);
    ig_text_printf(
        text,
        "__device__ __forceinline__ void multiply(total *tile, const void *a, %slong long first_row,\n"
        "    long long rows, const void *b, %slong long first_column, long long columns, long long depth%s) {\n"
        "    scales by;\n"
        "%s"
        "    %s load_a;\n"
        "    load_a.start((const char *)a, %s, first_row, rows);\n"
        "    %s load_b;\n"
        "    load_b.start((const char *)b, %s, first_column, columns);\n"
        "    walk(tile, load_a, load_b, depth, by);\n"
        "}\n",
        a.parameters, b.parameters, g->scale_columns ? scale_parameters : "", g->scale_columns ? scale_start : "",
        a.type, a.arguments, b.type, b.arguments);
}

/* A type of operands in the names of instructions. */
static const char *type_name(enum ingot_dtype dtype) {
    switch (dtype) {
    case INGOT_F16: return "f16";
    case INGOT_BF16: return "bf16";
    case INGOT_I8: return "s8";
    case INGOT_U8: return "u8";
    case INGOT_F8E4M3FN: return "e4m3";
    case INGOT_F8E5M2: return "e5m2";
    default: return "tf32";
    }
}

/* How 16 rows are multiplied by 8 columns. Sums that are promoted begin anew each time. */
static void print_block(enum ig_cuda_math math, enum ingot_dtype a_type, enum ingot_dtype b_type, bool promoted,
                        const char *total, struct ig_text *text) {
    bool integers = math == IG_CUDA_I8;
    const char *sum = integers ? "s32" : "f32", *bound = integers ? "r" : "f", *to = promoted ? "some" : "c";
    ig_text_printf(text,
                   "__device__ __forceinline__ void multiply_block(%s *c, const unsigned (&a)[4], unsigned b0, "
                   "unsigned b1) {\n",
                   total);
    if (!ig_cuda_math_is_bytes(math)) {
        ig_text_add(text, "    multiply_add(c, a, b0, b1);\n}\n");
        return;
    }
    if (promoted) ig_text_add(text, "    total some[4] = {0, 0, 0, 0};\n");
    ig_text_printf(text,
                   "    asm volatile(\"mma.sync.aligned.m16n8k32.row.col.%s.%s.%s.%s {%%0,%%1,%%2,%%3}, "
                   "{%%4,%%5,%%6,%%7}, {%%8,%%9}, {%%0,%%1,%%2,%%3};\"\n"
                   "                 :",
                   sum, type_name(a_type), type_name(b_type), sum);
    for (int i = 0; i < 4; i++)
        ig_text_printf(text, " \"+%s\"(%s[%d])%s", bound, to, i, i < 3 ? "," : "\n");
    ig_text_add(text,
                "                 : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b0), \"r\"(b1));\n");
    if (promoted) ig_text_add(text, "    c[0] += some[0], c[1] += some[1], c[2] += some[2], c[3] += some[3];\n");
    ig_text_add(text, "}\n");
}

void ig_cuda_print_multiply_block(enum ig_cuda_math math, enum ingot_dtype a_type, enum ingot_dtype b_type,
                                  bool promoted, struct ig_text *text) {
    print_block(math, a_type, b_type, promoted, "total", text);
}

/* The instruction that multiplies 64 rows by a group's columns, or the other way round. If sums are promoted, `add` says
 * whether it adds to those that there are, or begins new ones. */
static void print_group_multiply(const struct ig_cuda_gemm *g, struct ig_text *text) {
    const char *first = type_name(g->swapped ? g->b_type : g->a_type);
    const char *second = type_name(g->swapped ? g->a_type : g->b_type);
    bool first_across = g->a == IG_CUDA_ACROSS, second_across = g->b == IG_CUDA_ACROSS,
         integers = g->math == IG_CUDA_I8;
    int columns = g->producer ? g->bn : g->swapped ? g->bm / g->warps_m : g->bn / g->warps_n, sums = columns / 2;
    ig_text_printf(text,
                   "__device__ __forceinline__ void multiply_add(step_total (&c)[%d][4], unsigned long long a, "
                   "unsigned long long b, int add) {\n"
                   "    asm volatile(\"{\\n.reg .pred add;\\nsetp.ne.b32 add, %s, 0;\\n\"\n"
                   "                 \"wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s {\"",
                   columns / 8, g->promoted ? ig_format(text->job, "%%%d", sums + 2) : "1", columns,
                   32 / ig_cuda_gemm_element(g), integers ? "s32" : "f32", first, second);
    for (int i = 0; i < sums; i++)
        ig_text_printf(text, "%s\"%%%d%s\"", i % 16 == 0 ? "\n                 " : " ", i, i + 1 < sums ? ", " : "");
    ig_text_printf(text, "\n                 \"}, %%%d, %%%d, add%s", sums, sums + 1, integers ? "" : ", 1, 1");
    if (ig_cuda_gemm_element(g) == 2)
        ig_text_printf(text, ", %d, %d", g->swapped ? second_across : first_across,
                       g->swapped ? first_across : second_across);
    ig_text_add(text, ";\\n}\"\n                 :");
    for (int i = 0; i < sums; i++)
        ig_text_printf(text, "%s\"+%s\"(c[%d][%d])%s", i % 4 == 0 && i > 0 ? "\n                   " : " ",
                       integers ? "r" : "f", i / 4, i % 4, i + 1 < sums ? "," : "");
    ig_text_printf(text, "\n                 : \"l\"(a), \"l\"(b)%s);\n}\n", g->promoted ? ", \"r\"(add)" : "");
}

/* Prints how a step is multiplied, and the walk over the steps. */
static void print_products(const struct ig_cuda_gemm *g, struct ig_text *text) {
    if (g->warpgroups) {
        ig_text_add(text, ig_cuda_template_gemm_wgmma);
    } else {
        if (g->math != IG_CUDA_FMA) {
            ig_text_add(text, ig_cuda_template_mma);
            bool promoted = g->promoted && !g->scale_columns; /* or the whole step's */
            print_block(g->math, g->a_type, g->b_type, promoted, "step_total", text);
        }
        if (g->math == IG_CUDA_FMA)
            ig_text_add(text, ig_cuda_template_gemm_fma);
        else
            ig_text_add(text, ig_cuda_template_gemm_mma);
    }
    ig_text_add(text, ig_cuda_template_gemm_walk);
}

/* Multiplies the operands that the kernel's loops have filled in. */
static const char add[] = "__device__ __forceinline__ void add(sums &c, total *tile) {\n"
                          "    const unsigned memory = (unsigned)__cvta_generic_to_shared(tile);\n"
                          "    __syncthreads();\n"
                          "    c.step(memory, memory + A_BYTES);\n"
                          "    __syncthreads();\n"
                          "}\n";

/* Prints all that the kernel's loops call. */
static void print_copying(const struct ig_cuda_gemm *g, struct ig_text *text) {
    bool filled = g->a == IG_CUDA_FILLED;
    ig_text_add(text, ig_cuda_template_copy);
    ig_text_add(text, ig_cuda_template_gemm_copy);
    if (g->a == IG_CUDA_WINDOWS) ig_text_add(text, ig_cuda_template_gemm_windows);
    print_place(g, "a", g->a, g->bm, text);
    print_place(g, "b", g->b, g->bn, text);
    ig_text_add(text, ig_cuda_template_gemm);
    print_products(g, text);
    if (filled)
        ig_text_add(text, add);
    else
        print_multiply(g, text);
}

static void print_producer(const struct ig_cuda_gemm *g, struct ig_text *text) {
    ig_text_add(text, ig_cuda_template_gemm_barrier);
    ig_text_add(text, ig_cuda_template_gemm_box);
    ig_text_add(text, ig_cuda_template_gemm_producer);
    if (g->patch[0])
        ig_text_add(text, ig_cuda_template_gemm_patches);
    else if (g->a == IG_CUDA_WINDOWS)
        ig_text_add(text, ig_cuda_template_gemm_taps);
}

static void print_direct(const struct ig_cuda_gemm *g, struct ig_text *text) {
    bool cores = g->bm > 4;
    ig_text_add(text, ig_cuda_template_load);
    ig_text_add(text, ig_cuda_template_gemm_direct);
    ig_text_add(text, cores ? ig_cuda_template_mma : ig_cuda_template_gemm_element);
    ig_text_add(text, cores ? ig_cuda_template_gemm_direct_mma : ig_cuda_template_gemm_direct_fma);
    ig_text_add(text, ig_cuda_template_gemm_direct_walk);
}

static void print_stream(const struct ig_cuda_gemm *g, struct ig_text *text) {
    bool cores = g->bm > 4;
    ig_text_add(text, cores ? ig_cuda_template_mma : ig_cuda_template_gemm_element);
    ig_text_add(text, ig_cuda_template_gemm_barrier);
    ig_text_add(text, cores ? ig_cuda_template_gemm_box : ig_cuda_template_copy);
    ig_text_add(text, ig_cuda_template_gemm_ring);
    ig_cuda_push(g->pushes, text);
    ig_text_add(text, cores ? ig_cuda_template_gemm_stream_mma : ig_cuda_template_gemm_stream_fma);
}

void ig_cuda_gemm(const struct ig_cuda_gemm *g, struct ig_text *text) {
    ig_text_add(text, "namespace gemm {\n");
    print_constants(g, text);
    if (!g->direct && !g->stream)
        ig_text_add(text, g->scale_columns ? ig_cuda_template_gemm_scales : ig_cuda_template_gemm_unscaled);
    if (g->warpgroups) {
        ig_text_add(text, ig_cuda_template_gemm_group);
        print_group_multiply(g, text);
    }
    if (g->producer)
        print_producer(g, text);
    else if (g->direct)
        print_direct(g, text);
    else if (g->stream)
        print_stream(g, text);
    else
        print_copying(g, text);
    ig_text_add(text, "}\n");
}
