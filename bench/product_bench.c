/*
 * Products and convolutions in f16, tf32, i8 or f8e4m3fn (of the last two also with scales for each 128 of the depth, by column or by 128
 * columns) on the first GPU, by all kernels that the cost model ranks among its first at any
 * number of rows: what each takes, beside what the model says (kernel/cuda/contract/contract_choose.c). From these its constants
 * are fitted.
 *
 *     product_bench [--only SUBSTRING] [--first N] [--warm MS] [--source|--estimates]
 *
 * A line is: name, rows, estimate, time with weights in memory, time with weights in the cache, floor, tactic; times in
 * microseconds, of a launch among many that start early. The floor is that of an H200: what the operations take at 800 tera
 * a second in f16, half of that in tf32 and twice in bytes, or the bytes at 4.2 tera a second if they are more than half of the cache. --first: candidates at each number of rows (default 12);
 * --warm: each is run for so many milliseconds before it is timed (default 0), until the clock is what the power limit allows;
 * --source prints the kernels and runs nothing; --estimates runs nothing either and has zeros for times. Estimates are those within
 * networks: of matrices of more than 64 rows, 0.7 us less than for a product among others like it, as here.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/print.h"
#include "compile/compiler.h"
#include "device/device.h"
#include "ir/build.h"
#include "kernel/lower.h"
#include "pass/pass.h"

enum { BUFFERS = 6, LAUNCHES = 24, ROUNDS = 3, FLUSH = 128 << 20, SIZES = 12 };

/* Kernels whose estimate is this far from the least are not measured. */
#define FAR 2.6

struct product {
    const char *name;
    int64_t depth, columns; /* of a convolution: channels */
    int64_t side;           /* of the image of a 3x3 convolution; 0: a matrix product, or `image` says */
    int64_t sizes[SIZES];   /* rows, or images */
    bool gelu;              /* behind it; otherwise ReLU */
    enum { F16, TF32, I8, F8, FAST_F8, SQUARES_F8, COLUMNS_F8, SQUARES_I8, F8_TO_F8, FAST_F8_TO_F8 } type;
    /* Of many matrices, `sizes` are batches: of `rows` rows each, by matrices of a batch's own, transposed or not; or of weights, by which
     * those of a batch are multiplied from the left. */
    enum { ONE, TRANSPOSED, APART, WEIGHTS } matrices;
    int64_t rows;
    /* Of other convolutions: planes, rows, columns. Padding is half of the taps. */
    int64_t image[3], taps[3], strides[3], groups;
};

#define FILM(n, d, h, w) .sizes = {n}, .image = {d, h, w}
#define TAPS(z, y, x) .taps = {z, y, x}
#define PICTURE(in, out, side, taps, stride) \
    in, out, .sizes = {1, 32}, .image = {1, side, side}, TAPS(1, taps, taps), .strides = {1, stride, stride}
#define GROUPED(width, count, side, stride)                                                          \
    (width) * (count), (width) * (count), .sizes = {1, 32}, .image = {1, side, side}, TAPS(1, 3, 3), \
                                          .strides = {1, stride, stride}, .groups = count

#define MATRICES(kind, height, depth, columns) depth, columns, .sizes = {1, 32}, .matrices = kind, .rows = height

static const struct product products[] = {
    {"768x2304", 768, 2304, .sizes = {16, 32, 49, 128, 197, 512, 1024, 1576, 2048, 3152, 6304, 12608}},
    {"768x768", 768, 768, .sizes = {16, 32, 49, 128, 197, 512, 1024, 1576, 2048, 3152, 6304, 12608}},
    {"3072x768", 3072, 768, .sizes = {16, 32, 49, 128, 197, 512, 1024, 1576, 2048, 3152, 6304, 12608}},
    {"1024x1024", 1024, 1024, .sizes = {16, 32, 49, 128, 197, 512, 1024, 1576, 2048, 3152, 6304, 12608}},
    {"768x3072 gelu", 768, 3072, .sizes = {16, 32, 49, 128, 197, 512, 1024, 1576, 2048, 3152, 6304, 12608},
     .gelu = true},
    {"1024x3072", 1024, 3072, .sizes = {512, 1024, 1576, 2048, 3152, 4096, 6304, 8192, 12608}},
    {"1024x4096 gelu", 1024, 4096, .sizes = {512, 1024, 1576, 2048, 3152, 4096, 6304, 8192, 12608}, .gelu = true},
    {"4096x1024", 4096, 1024, .sizes = {512, 1024, 1576, 2048, 3152, 4096, 6304, 8192, 12608}},
    {"4096x4096", 4096, 4096, .sizes = {512, 1024, 1576, 2048, 3152, 4096, 6304, 8192, 12608}},
    {"384x384", 384, 384, .sizes = {512, 1024, 1576, 2048, 3152, 4096, 6304, 8192, 12608}},
    {"384x1536 gelu", 384, 1536, .sizes = {512, 1024, 1576, 2048, 3152, 4096, 6304, 8192, 12608}, .gelu = true},
    {"1536x384", 1536, 384, .sizes = {512, 1024, 1576, 2048, 3152, 4096, 6304, 8192, 12608}},
    {"few 1024x1024", 1024, 1024, .sizes = {1, 2, 4, 8, 16, 32, 64}},
    {"few 1024x2816", 1024, 2816, .sizes = {1, 2, 4, 8, 16, 32, 64}},
    {"few 2816x1024", 2816, 1024, .sizes = {1, 2, 4, 8, 16, 32, 64}},
    {"few 5632x2048", 5632, 2048, .sizes = {1, 2, 4, 8, 16, 32, 64}},
    {"few 4096x4096", 4096, 4096, .sizes = {1, 2, 4, 8, 16, 32, 64}},
    {"few 4096x12288", 4096, 12288, .sizes = {1, 2, 4, 8, 16, 32, 64}},
    {"64x256", 64, 256, .sizes = {3136, 6272, 12544, 25088, 50176, 100352}},
    {"256x64", 256, 64, .sizes = {3136, 6272, 12544, 25088, 50176, 100352}},
    {"128x512", 128, 512, .sizes = {784, 1568, 3136, 6272, 12544, 25088}},
    {"512x128", 512, 128, .sizes = {784, 1568, 3136, 6272, 12544, 25088}},
    {"256x1024", 256, 1024, .sizes = {196, 392, 784, 1568, 3136, 6272}},
    {"1024x256", 1024, 256, .sizes = {196, 392, 784, 1568, 3136, 6272}},
    {"512x2048", 512, 2048, .sizes = {49, 98, 196, 392, 784, 1568}},
    {"2048x512", 2048, 512, .sizes = {49, 98, 196, 392, 784, 1568}},
    {"96x24", 96, 24, .sizes = {3136, 6272, 12544, 50176}},
    {"144x32", 144, 32, .sizes = {784, 1568, 3136, 12544}},
    {"64x384", 64, 384, .sizes = {196, 392, 784, 3136}},
    {"384x64", 384, 64, .sizes = {196, 392, 784, 3136}},
    {"576x96", 576, 96, .sizes = {196, 392, 784, 3136}},
    {"160x960", 160, 960, .sizes = {49, 98, 196, 784}},
    {"960x320", 960, 320, .sizes = {49, 98, 196, 784}},
    {"320x1280", 320, 1280, .sizes = {49, 98, 196, 784}},
    {"many 96x384 gelu", 96, 384, .sizes = {3136, 100352}, .gelu = true},
    {"many 96x384", 96, 384, .sizes = {100352}},
    {"many 384x96", 384, 96, .sizes = {100352}},
    {"many 192x768 gelu", 192, 768, .sizes = {784, 25088}, .gelu = true},
    {"many 768x192", 768, 192, .sizes = {25088}},
    {"many 64x256 gelu", 64, 256, .sizes = {100352, 401408}, .gelu = true},
    {"many 64x64", 64, 64, .sizes = {100352, 401408}},
    {"many 256x64", 256, 64, .sizes = {401408}},
    {"many 32x128 gelu", 32, 128, .sizes = {401408}, .gelu = true},
    {"many 24x96 gelu", 24, 96, .sizes = {6272, 25088, 100352}, .gelu = true},
    {"many 96x24", 96, 24, .sizes = {25088, 100352}},
    {"narrow 3x3 16 at 112x112", 16, 16, .side = 112, .sizes = {1, 8, 32}},
    {"narrow 3x3 24 at 56x56", 24, 24, .side = 56, .sizes = {1, 8, 32}},
    {"narrow 3x3 40 at 28x28", 40, 40, .side = 28, .sizes = {1, 8, 32}},
    {"narrow 3x3 72 at 14x14", 72, 72, .side = 14, .sizes = {1, 8, 32}},
    {"narrow 3x3 144 at 7x7", 144, 144, .side = 7, .sizes = {1, 8, 32}},
    {"narrow 3x3 32 at 56x56", 32, 32, .side = 56, .sizes = {1, 8, 32}},
    {"narrow 3x3 32 at 28x28", 32, 32, .side = 28, .sizes = {1, 8, 32}},
    {"narrow 3x3 48 at 28x28", 48, 48, .side = 28, .sizes = {1, 8, 32}},
    {"narrow 3x3 48 at 14x14", 48, 48, .side = 14, .sizes = {1, 8, 32}},
    {"narrow 3x3 64 at 28x28", 64, 64, .side = 28, .sizes = {1, 8, 32}},
    {"narrow 3x3 96 at 14x14", 96, 96, .side = 14, .sizes = {1, 8, 32}},
    {"narrow 3x3 96 at 7x7", 96, 96, .side = 7, .sizes = {1, 8, 32}},
    {"narrow 3x3 24 at 28x28", 24, 24, .side = 28, .sizes = {1, 8, 32}},
    {"narrow 3x3 16 at 56x56", 16, 16, .side = 56, .sizes = {1, 8, 32}},
    {"3x3 64 at 56x56", 64, 64, .side = 56, .sizes = {1, 2, 4, 8, 16, 32}},
    {"3x3 128 at 28x28", 128, 128, .side = 28, .sizes = {1, 2, 4, 8, 16, 32}},
    {"3x3 256 at 14x14", 256, 256, .side = 14, .sizes = {1, 2, 4, 8, 16, 32}},
    {"3x3 512 at 7x7", 512, 512, .side = 7, .sizes = {1, 2, 4, 8, 16, 32}},
    {"film 3x3x3 64 at 16x56x56", 64, 64, FILM(8, 16, 56, 56), TAPS(3, 3, 3)},
    {"film 3x3x3 128 at 8x28x28", 128, 128, FILM(8, 8, 28, 28), TAPS(3, 3, 3)},
    {"film 3x3x3 256 at 4x14x14", 256, 256, FILM(8, 4, 14, 14), TAPS(3, 3, 3)},
    {"film 3x3x3 512 at 2x7x7", 512, 512, FILM(8, 2, 7, 7), TAPS(3, 3, 3)},
    {"film 1x3x3 64 to 144 at 16x56x56", 64, 144, FILM(8, 16, 56, 56), TAPS(1, 3, 3)},
    {"film 3x1x1 144 to 64 at 16x56x56", 144, 64, FILM(8, 16, 56, 56), TAPS(3, 1, 1)},
    {"film 3x7x4 pairs at 16x112x56", 8, 64, FILM(8, 16, 112, 56), TAPS(3, 7, 4), .strides = {1, 2, 1}},
    {"first 7x4 pairs at 224x112", 8, 64, .sizes = {1, 32}, .image = {1, 224, 112}, TAPS(1, 7, 4),
     .strides = {1, 2, 1}},
    {"first 3x2 pairs at 224x112", 8, 32, .sizes = {1, 32}, .image = {1, 224, 112}, TAPS(1, 3, 2),
     .strides = {1, 2, 1}},
    {"first 3x2 pairs to 24", 8, 24, .sizes = {1, 32}, .image = {1, 224, 112}, TAPS(1, 3, 2), .strides = {1, 2, 1}},
    {"narrow 24 to 24 at 112", PICTURE(24, 24, 112, 3, 1)},
    {"narrow 24 to 96 at 112 by 2", PICTURE(24, 96, 112, 3, 2)},
    {"narrow 48 to 192 at 56", PICTURE(48, 192, 56, 3, 1)},
    {"narrow 64 to 3 at 192", PICTURE(64, 3, 192, 3, 1)},
    {"narrow 64 to 32 at 256", PICTURE(64, 32, 256, 3, 1)},
    {"narrow 32 to 32 at 256", PICTURE(32, 32, 256, 3, 1)},
    {"narrow 32 to 64 at 112", PICTURE(32, 64, 112, 3, 1)},
    {"narrow 32 to 1 at 256", PICTURE(32, 1, 256, 1, 1)},
    {"narrow 16 to 16 at 14, 7x7", PICTURE(16, 16, 14, 7, 1)},
    {"narrow 16 to 16 at 112", PICTURE(16, 16, 112, 3, 1)},
    {"narrow 32 to 32 at 56", PICTURE(32, 32, 56, 3, 1)},
    {"narrow 32 to 64 at 149", PICTURE(32, 64, 149, 3, 1)},
    {"narrow 32 to 64 at 112 by 2", PICTURE(32, 64, 112, 3, 2)},
    {"narrow 48 to 48 at 28", PICTURE(48, 48, 28, 3, 1)},
    {"narrow 64 to 16 at 112", PICTURE(64, 16, 112, 3, 1)},
    {"narrow 64 to 64 at 112", PICTURE(64, 64, 112, 3, 1)},
    {"narrow 64 to 96 at 35", PICTURE(64, 96, 35, 3, 1)},
    {"narrow 64 to 128 at 56 by 2", PICTURE(64, 128, 56, 3, 2)},
    {"narrow 96 to 96 at 28", PICTURE(96, 96, 28, 3, 1)},
    {"narrow 96 to 64 at 35, 5x5", PICTURE(96, 64, 35, 5, 1)},
    {"narrow 128 to 32 at 28", PICTURE(128, 32, 28, 3, 1)},
    {"narrow 128 to 64 at 56", PICTURE(128, 64, 56, 3, 1)},
    {"narrow 192 to 32 at 14", PICTURE(192, 32, 14, 3, 1)},
    {"taps 1x7, 160 to 192 at 17", 160, 192, FILM(32, 1, 17, 17), TAPS(1, 1, 7)},
    {"taps 7x1, 192 to 192 at 17", 192, 192, FILM(32, 1, 17, 17), TAPS(1, 7, 1)},
    {"taps 1x3, 384 to 384 at 8", 384, 384, FILM(32, 1, 8, 8), TAPS(1, 1, 3)},
    {"wide 128 to 128 at 64", PICTURE(128, 128, 64, 3, 1)},
    {"wide 256 to 256 at 32", PICTURE(256, 256, 32, 3, 1)},
    {"wide 192 to 96 at 28", PICTURE(192, 96, 28, 3, 1)},
    {"first 3x3 of 4 to 64 at 192", PICTURE(4, 64, 192, 3, 1)},
    {"first 3x3 of 4 to 32 at 256", PICTURE(4, 32, 256, 3, 1)},
    {"groups 32 of 4 at 56", GROUPED(4, 32, 56, 1)},
    {"groups 32 of 8 at 28", GROUPED(8, 32, 28, 1)},
    {"groups 32 of 8 at 56 by 2", GROUPED(8, 32, 56, 2)},
    {"groups 32 of 16 at 14", GROUPED(16, 32, 14, 1)},
    {"groups 32 of 32 at 7", GROUPED(32, 32, 7, 1)},
    {"groups 6 of 8 at 56", GROUPED(8, 6, 56, 1)},
    {"groups 14 of 16 at 28", GROUPED(16, 14, 28, 1)},
    {"groups 14 of 24 at 14", GROUPED(24, 14, 14, 1)},
    {"groups 8 of 48 at 14", GROUPED(48, 8, 14, 1)},
    {"groups 4 of 32 at 56", GROUPED(32, 4, 56, 1)},
    {"groups 2 of 64 at 56", GROUPED(64, 2, 56, 1)},
    {"groups 8 of 32 at 28", GROUPED(32, 8, 28, 1)},
    {"groups 4 of 64 at 28", GROUPED(64, 4, 28, 1)},
    {"groups 16 of 32 at 14", GROUPED(32, 16, 14, 1)},
    {"groups 8 of 64 at 14", GROUPED(64, 8, 14, 1)},
    {"groups 7 of 32 at 28", GROUPED(32, 7, 28, 1)},
    {"groups 7 of 48 at 14", GROUPED(48, 7, 14, 1)},
    {"groups 16 of 64 at 7", GROUPED(64, 16, 7, 1)},
    {"batch of weights 384x196x768", MATRICES(WEIGHTS, 384, 196, 768)},
    {"batch of weights 384x196x768 gelu", MATRICES(WEIGHTS, 384, 196, 768), .gelu = true},
    {"batch of weights 196x384x768", MATRICES(WEIGHTS, 196, 384, 768)},
    {"batch of weights 196x196x384", MATRICES(WEIGHTS, 196, 196, 384)},
    {"batch of weights 196x196x768", MATRICES(WEIGHTS, 196, 196, 768)},
    {"batch of weights 64x64x3136", MATRICES(WEIGHTS, 64, 64, 3136)},
    {"batch of weights 256x256x784", MATRICES(WEIGHTS, 256, 256, 784)},
    {"batch 197x64x200", 64, 200, .sizes = {12, 96, 384}, .matrices = TRANSPOSED, .rows = 197},
    {"batch 196x48x200", 48, 200, .sizes = {4, 128}, .matrices = TRANSPOSED, .rows = 196},
    {"batch 512x64x512", 64, 512, .sizes = {12, 96}, .matrices = TRANSPOSED, .rows = 512},
    {"batch 197x200x64", 200, 64, .sizes = {12, 96, 384}, .matrices = APART, .rows = 197},
    {"batch 512x512x64", 512, 64, .sizes = {12, 96}, .matrices = APART, .rows = 512},
    {"batch 1024x1024x128", 1024, 128, .sizes = {8, 32}, .matrices = APART, .rows = 1024},
    {"batch 128x128x128", 128, 128, .sizes = {8, 64, 512}, .matrices = APART, .rows = 128},
    {"batch 256x1024x256", 1024, 256, .sizes = {4, 32}, .matrices = APART, .rows = 256},
    {"batch 512x2048x512", 2048, 512, .sizes = {2, 16}, .matrices = APART, .rows = 512},
#define BYTES(name, is)                                                                             \
    {name " 4096x4096", 4096, 4096, .sizes = {512, 4096}, .type = is},                              \
        {name " 1024x1024", 1024, 1024, .sizes = {384, 3072}, .type = is},                          \
        {name " 1024x4096 gelu", 1024, 4096, .sizes = {384, 1536, 3072}, .gelu = true, .type = is}, \
        {name " 4096x1024", 4096, 1024, .sizes = {384, 3072}, .type = is},                          \
        {name " 768x3072 gelu", 768, 3072, .sizes = {197, 6304}, .gelu = true, .type = is},         \
        {name " 3072x768", 3072, 768, .sizes = {197, 6304}, .type = is},                            \
        {name " 64x256", 64, 256, .sizes = {3136, 401408}, .type = is},                             \
        {name " 256x64", 256, 64, .sizes = {3136, 401408}, .type = is},                             \
        {name " 1024x256", 1024, 256, .sizes = {196, 25088}, .type = is},                           \
        {name " 3x3 64 at 56x56", 64, 64, .side = 56, .sizes = {1, 128}, .type = is},               \
        {name " 3x3 128 at 28x28", 128, 128, .side = 28, .sizes = {1, 128}, .type = is}, {          \
        name " 3x3 512 at 7x7", 512, 512, .side = 7, .sizes = {1, 128}, .type = is                  \
    }
    BYTES("i8", I8),
    BYTES("f8", F8),
    BYTES("fast f8", FAST_F8),
    BYTES("half", F16),
#define SCALED(name, is)                                                     \
    {name " 4096x4096", 4096, 4096, .sizes = {512, 4096}, .type = is},       \
        {name " 1024x4096", 1024, 4096, .sizes = {384, 3072}, .type = is}, { \
        name " 4096x1024", 4096, 1024, .sizes = {384, 3072}, .type = is      \
    }
    SCALED("squares f8", SQUARES_F8),
    SCALED("columns f8", COLUMNS_F8),
    SCALED("squares i8", SQUARES_I8),
#define QUANTIZED(name, is)                                                                           \
    {name " 768x3072 gelu", 768, 3072, .sizes = {197, 1576, 6304}, .gelu = true, .type = is},         \
        {name " 1024x4096 gelu", 1024, 4096, .sizes = {384, 1536, 3072}, .gelu = true, .type = is}, { \
        name " 1024x3072", 1024, 3072, .sizes = {384, 1536, 3072}, .type = is                         \
    }
    QUANTIZED("f8 to f8", F8_TO_F8),
    QUANTIZED("fast f8 to f8", FAST_F8_TO_F8),
    {"tf32 768x2304", 768, 2304, .sizes = {128, 512, 4096, 6304}, .type = TF32},
    {"tf32 768x768", 768, 768, .sizes = {128, 512, 4096, 6304}, .type = TF32},
    {"tf32 3072x768", 3072, 768, .sizes = {128, 512, 4096, 6304}, .type = TF32},
    {"tf32 768x3072 gelu", 768, 3072, .sizes = {128, 512, 4096, 6304}, .gelu = true, .type = TF32},
    {"tf32 64x256", 64, 256, .sizes = {3136, 25088, 100352}, .type = TF32},
    {"tf32 256x64", 256, 64, .sizes = {3136, 25088, 100352}, .type = TF32},
    {"tf32 1024x256", 1024, 256, .sizes = {196, 1568, 6272}, .type = TF32},
    {"tf32 3x3 64 at 56x56", 64, 64, .side = 56, .sizes = {1, 8, 32}, .type = TF32},
    {"tf32 3x3 256 at 14x14", 256, 256, .side = 14, .sizes = {1, 8, 32}, .type = TF32},
    {"tf32 3x3 512 at 7x7", 512, 512, .side = 7, .sizes = {1, 8, 32}, .type = TF32},
    {"large 512x512", 512, 512, .sizes = {512}},
    {"large 1024x1024", 1024, 1024, .sizes = {1024, 8192}},
    {"large 1536x1536", 1536, 1536, .sizes = {1536}},
    {"large 2048x2048", 2048, 2048, .sizes = {2048}},
    {"large 3072x3072", 3072, 3072, .sizes = {3072}},
    {"large 4096x4096", 4096, 4096, .sizes = {512, 1024, 2048, 4096, 8192}},
    {"large 1024x4096", 1024, 4096, .sizes = {4096, 8192}},
    {"large 4096x1024", 4096, 1024, .sizes = {4096, 8192}},
    {"large 8192x2048", 8192, 2048, .sizes = {2048}},
    {"large 2048x8192", 2048, 8192, .sizes = {2048}},
    {"large 4096x11008", 4096, 11008, .sizes = {2048}},
    {"large 11008x4096", 11008, 4096, .sizes = {2048}},
};
enum { PRODUCTS = sizeof products / sizeof *products };

struct candidate {
    const struct product *product;
    const struct ig_kernel *kernel;
    ig_dim symbol;
};

struct bench {
    const char *only;
    int first;
    double warm; /* nanoseconds */
    bool source, estimates;
    struct ig_target target;
    struct ig_device *device;
    struct ig_stream *stream;
    struct ig_event *begin, *end;
    void *flush, *buffer[BUFFERS];
    struct ig_module *module;
    IG_VEC(struct candidate) candidates;
    IG_VEC(struct ig_source) sources;
};

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

static ig_value weights(struct ig_graph *g, enum ingot_dtype dtype, int rank, const int64_t *dims) {
    size_t size = ingot_dtype_size(dtype);
    for (int i = 0; i < rank; i++)
        size *= (size_t)dims[i];
    unsigned char *bytes = ig_alloc_array(g->job, size + 16, 1);
    struct ig_data data = {.bytes = bytes, .size = size, .initializer = "weights"};
    memset(bytes, 0x21, size);
    return ig_build_constant(g, dtype, rank, dims, ig_memdup(g->job, &data, sizeof data));
}

/* The geometry of a convolution, with planes. */
struct window {
    int64_t image[3], taps[3], strides[3], out[3], groups;
};

static bool is_conv(const struct product *p) {
    return p->side > 0 || p->image[0] > 0;
}

static struct window window_of(const struct product *p) {
    struct window w = {{1, p->side, p->side}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, p->groups ? p->groups : 1};
    for (int i = 0; i < 3; i++) {
        if (p->image[0]) w.image[i] = p->image[i], w.taps[i] = p->taps[i];
        if (p->strides[0]) w.strides[i] = p->strides[i];
        w.out[i] = (w.image[i] + w.taps[i] / 2 * 2 - w.taps[i]) / w.strides[i] + 1;
    }
    return w;
}

static const struct {
    enum ingot_dtype in, acc, out;
    enum ig_math math;
    double pace;    /* operations in the time of one in f16 */
    int64_t shared; /* columns that share a scale in each 128 of the depth; 0: there are no such scales */
} types[] = {
    [F16] = {INGOT_F16, INGOT_F32, INGOT_F16, IG_MATH_EXACT, 1},
    [TF32] = {INGOT_F32, INGOT_F32, INGOT_F32, IG_MATH_TF32, 0.5},
    [I8] = {INGOT_I8, INGOT_I32, INGOT_I8, IG_MATH_EXACT, 2},
    [F8] = {INGOT_F8E4M3FN, INGOT_F32, INGOT_F16, IG_MATH_EXACT, 2},
    [FAST_F8] = {INGOT_F8E4M3FN, INGOT_F32, INGOT_F16, IG_MATH_FAST, 2},
    [SQUARES_F8] = {INGOT_F8E4M3FN, INGOT_F32, INGOT_F16, IG_MATH_EXACT, 2, 128},
    [COLUMNS_F8] = {INGOT_F8E4M3FN, INGOT_F32, INGOT_F16, IG_MATH_EXACT, 2, 1},
    [SQUARES_I8] = {INGOT_I8, INGOT_F32, INGOT_F16, IG_MATH_EXACT, 2, 128},
    [F8_TO_F8] = {INGOT_F8E4M3FN, INGOT_F32, INGOT_F8E4M3FN, IG_MATH_EXACT, 2},
    [FAST_F8_TO_F8] = {INGOT_F8E4M3FN, INGOT_F32, INGOT_F8E4M3FN, IG_MATH_FAST, 2},
};

/* Along two axes if there is one plane. */
static ig_value build_conv(struct ig_graph *g, const struct product *p, ig_value x) {
    const struct window w = window_of(p);
    int from = w.image[0] == 1 && w.taps[0] == 1 ? 1 : 0, spatial = 3 - from;
    int64_t filter[] = {p->columns, p->depth / w.groups, w.taps[from], w.taps[from + 1], w.taps[2]}, ones[] = {1, 1, 1};
    struct ig_graph *const none[2] = {NULL, NULL};
    ig_dim half[3];
    for (int i = 0; i < spatial; i++)
        half[i] = ig_dim_const(g->dims, w.taps[from + i] / 2);
    struct ig_attr attrs[] = {ig_attr_of_ints(w.strides + from, spatial),
                              ig_attr_of_ints(ones, spatial),
                              ig_attr_of_dims(half, spatial),
                              ig_attr_of_dims(half, spatial),
                              ig_attr_of_int(w.groups),
                              ig_attr_of_dtype(types[p->type].acc),
                              ig_attr_of_int(1),
                              ig_attr_of_int(0),
                              ig_attr_of_int(p->columns),
                              ig_attr_of_ints(w.taps + from, spatial),
                              ig_attr_of_int(types[p->type].math),
                              ig_attr_of_int(0)};
    ig_value in[] = {x, weights(g, types[p->type].in, spatial + 2, filter)};
    return ig_build_node(g, IG_OP_conv, in, 2, 1, attrs, none);
}

static ig_value build_scaled(struct ig_graph *g, const struct product *p, ig_value x) {
    enum { BLOCK = 128 };
    int64_t shared = types[p->type].shared, blocks = (p->depth + BLOCK - 1) / BLOCK;
    const int64_t matrix[] = {p->columns, p->depth}, scales[] = {blocks, (p->columns + shared - 1) / shared};
    struct ig_type rows = *ig_type_of(g, x);
    rows.dtype = INGOT_F32;
    rows.dim[1] = ig_dim_const(g->dims, blocks);
    return ig_build_matmul_scaled(g, x, weights(g, types[p->type].in, 2, matrix), ig_build_input(g, "scales", &rows),
                                  weights(g, INGOT_F32, 2, scales), BLOCK, shared);
}

static ig_value build_product(struct ig_graph *g, const struct product *p, ig_value x) {
    const int64_t matrix[] = {p->depth, p->columns};
    struct ig_graph *const none[2] = {NULL, NULL};
    struct ig_attr attrs[] = {ig_attr_of_dtype(types[p->type].acc), ig_attr_of_int(0), ig_attr_of_int(0),
                              ig_attr_of_int(types[p->type].math)};
    ig_value in[] = {x, weights(g, types[p->type].in, 2, matrix)};
    return ig_build_node(g, IG_OP_matmul, in, 2, 1, attrs, none);
}

/* The second operand is given as [batch, columns, depth] if it is transposed. */
static ig_value build_matrices(struct ig_graph *g, const struct product *p, ig_value x) {
    const int64_t matrix[] = {p->rows, p->depth}, turned[] = {0, 2, 1};
    if (p->matrices == WEIGHTS) return ig_build_matmul(g, weights(g, types[p->type].in, 2, matrix), x, INGOT_F32);
    struct ig_type type = *ig_type_of(g, x);
    type.dim[1] = ig_dim_const(g->dims, p->matrices == TRANSPOSED ? p->columns : p->depth);
    type.dim[2] = ig_dim_const(g->dims, p->matrices == TRANSPOSED ? p->depth : p->columns);
    ig_value y = ig_build_input(g, "second", &type);
    return ig_build_matmul(g, x, p->matrices == TRANSPOSED ? ig_build_transpose(g, y, turned) : y, INGOT_F32);
}

/* Are results bytes, like the operands? */
static bool is_quantized(const struct product *p) {
    return types[p->type].out == types[p->type].in && ingot_dtype_size(types[p->type].in) == 1;
}

/* Sums, scaled by column. */
static ig_value scaled(struct ig_graph *g, const struct product *p, ig_value y) {
    return ig_map2(g, IG_OP_mul, ig_build_cast(g, y, INGOT_F32), weights(g, INGOT_F32, 1, &p->columns));
}

static bool is_needed(const char *pass) {
    static const char *const needed[] = {"pack", "fuse", "partition"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (!strcmp(pass, needed[i])) return true;
    }
    return false;
}

static struct ig_graph *build(struct ig_job *job, const struct bench *b, const struct product *p, ig_dim *out_symbol) {
    struct ig_pass_options options = {.target = &b->target};
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    const struct window w = window_of(p);
    ig_dim dims[5];
    int rank = 0;
    dims[rank++] = *out_symbol = ig_dim_symbol(g->dims, "rows");
    ig_dim_set_range(g->dims, *out_symbol, p->sizes[0], 1 << 19);
    for (int i = w.image[0] == 1 && w.taps[0] == 1 ? 1 : 0; is_conv(p) && i < 3; i++)
        dims[rank++] = ig_dim_const(g->dims, w.image[i]);
    if (p->matrices) dims[rank++] = ig_dim_const(g->dims, p->matrices == WEIGHTS ? p->depth : p->rows);
    dims[rank++] = ig_dim_const(g->dims, p->matrices == WEIGHTS ? p->columns : p->depth);
    struct ig_type type = ig_type_make(types[p->type].in, rank, dims);
    ig_value x = ig_build_input(g, "x", &type);
    ig_value y = is_conv(p)              ? build_conv(g, p, x)
                 : types[p->type].shared ? build_scaled(g, p, x)
                 : p->matrices           ? build_matrices(g, p, x)
                                         : build_product(g, p, x);
    y = ig_map2(g, IG_OP_add, y, weights(g, types[p->type].acc, 1, &p->columns));
    if (is_quantized(p)) y = scaled(g, p, y);
    y = p->gelu ? ig_map2(g, IG_OP_mul, y, ig_map1(g, IG_OP_normcdf, y))
                : ig_map2(g, IG_OP_max, y, ig_build_scalar(g, INGOT_F32, 0));
    if (is_quantized(p) && p->gelu) y = ig_map2(g, IG_OP_mul, y, ig_build_scalar(g, INGOT_F32, 1 / 0.0178571437));
    if (p->type == I8) y = ig_map1(g, IG_OP_round, y);
    ig_build_output(g, "y", ig_build_cast_saturating(g, y, types[p->type].out));
    for (int i = 0; i < ig_pass_count; i++) {
        if (is_needed(ig_passes[i].name)) g = ig_passes[i].run(g, &options);
    }
    IG_ASSERT(job, g->regions.count == 1);
    return g;
}

/* Microseconds, at least, for so many rows. */
static double floor_of(const struct product *p, int64_t rows) {
    if (p->matrices) {
        double m = (double)p->rows, n = (double)p->columns, k = (double)p->depth, count = (double)rows;
        double all = m * k * (p->matrices == WEIGHTS ? 1 : count) + count * (k * n + m * n), moved = 2 * all;
        return fmax(2 * count * m * n * k / 800e6, moved > 25e6 ? moved / 4.2e6 : 0);
    }
    const struct window w = window_of(p);
    double element = (double)ingot_dtype_size(types[p->type].in), in = (double)rows, out = (double)rows, taps = 1;
    for (int i = 0; is_conv(p) && i < 3; i++) {
        in *= (double)w.image[i];
        out *= (double)w.out[i];
        taps *= (double)w.taps[i];
    }
    double depth = taps * (double)p->depth / (double)w.groups, operations = 2 * out * (double)p->columns * depth;
    double bytes = element * (in * (double)p->depth + out * (double)p->columns + depth * (double)p->columns);
    double least = operations / (800e6 * types[p->type].pace);
    return bytes > 25e6 ? fmax(least, bytes / 4.2e6) : least;
}

static struct ig_sizes sizes_of(struct ig_job *job, struct ig_dims *dims, ig_dim symbol, int64_t rows) {
    struct ig_sizes at;
    ig_sizes_usual(dims, job, &at);
    ig_sizes_set(&at, job, symbol, rows);
    return at;
}

static void add(struct ig_job *job, struct bench *b, const struct product *p, const struct ig_kernel *kernel,
                ig_dim symbol) {
    for (uint32_t i = 0; i < b->candidates.count; i++) {
        const struct candidate *c = &b->candidates.at[i];
        if (c->product == p && !strcmp(c->kernel->tactic, kernel->tactic)) return;
    }
    struct ig_source source = {.symbol = ig_format(job, "kernel_%u", b->sources.count)};
    source.text = ig_cuda_kernel(job, kernel, source.symbol, &b->target);
    if (b->source) printf("// %s\n%s\n", p->name, source.text);
    IG_PUSH(job, &b->candidates, (struct candidate){p, kernel, symbol});
    IG_PUSH(job, &b->sources, source);
}

static void prepare(struct ig_job *job, struct bench *b, const struct product *p) {
    ig_dim symbol;
    struct ig_graph *g = build(job, b, p, &symbol);
    for (int s = 0; s < SIZES && p->sizes[s]; s++) {
        struct ig_sizes *at = IG_NEW(job, struct ig_sizes);
        *at = sizes_of(job, g->dims, symbol, p->sizes[s]);
        for (int choice = 0; choice < b->first; choice++) {
            struct ig_kernel *k = ig_kernel_candidate(g, &g->regions.at[0], &b->target, at, choice);
            if (k && !k->library) add(job, b, p, k, symbol);
        }
    }
}

/* ---- Measuring --------------------------------------------------------------------------------------------------- */

static void must(struct ig_job *job, enum ingot_status status, const struct ingot_error *error) {
    if (status != INGOT_OK) ig_raise_error(job, error);
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The median time of a list in nanoseconds; `cold`: when the cache has been filled with other data. */
static double time_of(struct ig_job *job, struct bench *b, struct ig_list *list, bool cold) {
    const struct ig_device_api *api = b->device->api;
    struct ingot_error error;
    uint64_t times[ROUNDS + 1];
    double before = 0;
    for (int i = 0; i <= ROUNDS; i++) {
        if (cold) must(job, api->copy(b->device, b->stream, b->flush, (char *)b->flush + FLUSH, FLUSH, &error), &error);
        must(job, api->event_record(b->device, b->stream, b->begin, &error), &error);
        must(job, api->list_launch(b->device, b->stream, list, &error), &error);
        must(job, api->event_record(b->device, b->stream, b->end, &error), &error);
        must(job, api->stream_wait(b->device, b->stream, &error), &error);
        must(job, api->event_elapsed(b->device, b->begin, b->end, &times[i], &error), &error);
        before += (double)times[i];
        if (before < b->warm) i = -1;
    }
    qsort(times + 1, ROUNDS, sizeof *times, compare);
    return (double)times[1 + ROUNDS / 2];
}

/* Microseconds of a launch, each with weights of its own or all with the same. */
static double measure(struct ig_job *job, struct bench *b, struct ig_launch *launch, size_t weights_size, bool cold) {
    const struct ig_device_api *api = b->device->api;
    struct ingot_error error;
    struct ig_list *list;
    void *buffers[BUFFERS] = {b->buffer[0], NULL, b->buffer[2]};
    for (uint32_t i = 3; i < launch->n_buffers; i++)
        buffers[i] = i + 1 < launch->n_buffers ? b->buffer[2] : b->buffer[3]; /* the result is the last */
    launch->buffers = buffers;
    must(job, api->list_begin(b->device, b->stream, &error), &error);
    for (int i = 0; i < LAUNCHES; i++) {
        buffers[1] = (char *)b->buffer[1] + (cold ? (size_t)i * weights_size : 0);
        must(job, api->launch(b->device, b->stream, launch, &error), &error);
    }
    must(job, api->list_end(b->device, b->stream, &list, &error), &error);
    if (api->list_ready) must(job, api->list_ready(b->device, b->stream, list, &error), &error);
    double time = time_of(job, b, list, cold) / LAUNCHES / 1000;
    api->list_destroy(b->device, list);
    return time;
}

/* The least estimate of all candidates for so many rows. */
static double least_cost(struct ig_job *job, const struct bench *b, const struct product *p, int64_t rows) {
    double least = INFINITY;
    for (uint32_t i = 0; i < b->candidates.count; i++) {
        const struct candidate *c = &b->candidates.at[i];
        if (c->product != p) continue;
        struct ig_sizes at = sizes_of(job, c->kernel->loops->dims, c->symbol, rows);
        least = fmin(least, ig_kernel_cost(c->kernel, &at));
    }
    return least;
}

static size_t weights_size(const struct product *p) {
    const struct window w = window_of(p);
    int64_t taps = is_conv(p) ? w.taps[0] * w.taps[1] * w.taps[2] : 1, batches = 1;
    for (int s = 0; p->matrices && s < SIZES && p->sizes[s]; s++)
        batches = p->sizes[s];
    return (size_t)(p->depth * p->columns * taps * batches) * ingot_dtype_size(types[p->type].in);
}

static uint32_t buffers_of(struct ig_job *job, const struct ig_kernel *k) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < k->loops->buffers.count; i++) {
        const struct ig_buffer *buffer = &k->loops->buffers.at[i];
        if (buffer->kind == IG_BUFFER_PARAM && (uint32_t)buffer->param >= count) count = (uint32_t)buffer->param + 1;
    }
    IG_ASSERT(job, count <= BUFFERS);
    return count;
}

static void measure_candidate(struct ig_job *job, struct bench *b, uint32_t i, uint64_t entry) {
    const struct candidate *c = &b->candidates.at[i];
    const struct product *p = c->product;
    const struct ig_kernel *k = c->kernel;
    struct ig_launch launch = {.module = b->module,
                               .entry = entry,
                               .portable = UINT64_MAX,
                               .name = b->sources.at[i].symbol,
                               .threads = (uint32_t)k->threads,
                               .shared = (uint32_t)k->shared_bytes,
                               .waits = true,
                               .lasting = (uint32_t)k->lasting,
                               .maps = k->maps,
                               .n_maps = (uint32_t)k->n_maps,
                               .n_buffers = buffers_of(job, k),
                               .n_dims = k->dims.count};
    size_t size = weights_size(p);
    for (int s = 0; s < SIZES && p->sizes[s]; s++) {
        struct ig_sizes at = sizes_of(job, k->loops->dims, c->symbol, p->sizes[s]);
        if (ig_kernel_cost(k, &at) > FAR * least_cost(job, b, p, p->sizes[s])) continue;
        int64_t *dims = IG_NEW_ARRAY(job, int64_t, k->dims.count + 1);
        for (uint32_t d = 0; d < k->dims.count; d++)
            dims[d] = ig_sizes_of(&at, job, k->dims.at[d]);
        launch.dims = dims;
        launch.tiles = ig_sizes_of(&at, job, k->tiles);
        double cold = b->estimates ? 0 : measure(job, b, &launch, size, true),
               warm = b->estimates ? 0 : measure(job, b, &launch, size, false);
        printf("%s\t%lld\t%.2f\t%.2f\t%.2f\t%.2f\t%s\n", p->name, (long long)p->sizes[s], ig_kernel_cost(k, &at), cold,
               warm, floor_of(p, p->sizes[s]), k->tactic);
    }
}

/* Small numbers of both signs, in all types: zeros would take less power, and so less time. */
static void fill_numbers(unsigned char *bytes, size_t size) {
    uint32_t state = 5;
    for (size_t i = 0; i < size; i++) {
        state = state * 1664525u + 1013904223u;
        bytes[i] = (unsigned char)(i % 2 ? (state >> 24 & 0x87) | 0x28 : state >> 24 & 0xbf);
    }
}

static void allocate(struct ig_job *job, struct bench *b, size_t size, void **out) {
    static unsigned char numbers[FLUSH];
    struct ingot_error error;
    if (!numbers[0]) fill_numbers(numbers, FLUSH);
    must(job, b->device->api->allocate(b->device, size, out, &error), &error);
    for (size_t at = 0; at < size; at += FLUSH) {
        size_t some = size - at < FLUSH ? size - at : FLUSH;
        must(job, b->device->api->copy(b->device, b->stream, (char *)*out + at, numbers, some, &error), &error);
    }
}

static bool is_asked_for(const struct bench *b, const struct product *p) {
    return !b->only || strstr(p->name, b->only);
}

static void open_device(struct ig_job *job, struct bench *b) {
    struct ig_device_cuda_info info;
    struct ingot_error error;
    size_t most = 0, most_rows = (size_t)256 << 20;
    for (int i = 0; i < PRODUCTS; i++) {
        size_t size = is_asked_for(b, &products[i]) ? weights_size(&products[i]) * LAUNCHES : 0;
        most = size > most ? size : most;
    }
    must(job, ig_device_cuda_describe(0, &info, &error), &error);
    must(job, ig_device_cuda_create(0, &ig_libc_allocator, &b->device, &error), &error);
    must(job, b->device->api->stream_create(b->device, &b->stream, &error), &error);
    must(job, b->device->api->event_create(b->device, true, &b->begin, &error), &error);
    must(job, b->device->api->event_create(b->device, true, &b->end, &error), &error);
    allocate(job, b, (size_t)2 * FLUSH, &b->flush);
    allocate(job, b, most_rows, &b->buffer[0]);
    allocate(job, b, most, &b->buffer[1]);
    allocate(job, b, 1 << 20, &b->buffer[2]);
    allocate(job, b, most_rows, &b->buffer[3]);
    b->target.sm = info.sm;
    b->target.sm_own = info.sm_own;
}

static void run(struct ig_job *job, void *argument) {
    struct bench *b = argument;
    struct ingot_error error;
    struct ig_code code;
    if (!b->source && !b->estimates) open_device(job, b);
    for (int i = 0; i < PRODUCTS; i++) {
        if (is_asked_for(b, &products[i])) prepare(job, b, &products[i]);
    }
    fprintf(stderr, "%u kernels\n", b->candidates.count);
    for (uint32_t i = 0; b->estimates && i < b->candidates.count; i++)
        measure_candidate(job, b, i, 0);
    if (b->source || b->estimates || b->candidates.count == 0) return;
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    struct ig_kernel_compiler compiler;
    options.nvrtc = getenv("INGOT_NVRTC");
    ig_kernel_compiler_find(job, &b->target, &options, NULL, &compiler);
    ig_kernel_compiler_run(job, &compiler, b->sources.at, b->sources.count, NULL, NULL, &code);
    fprintf(stderr, "compiled\n");
    must(job, b->device->api->module_create(b->device, code.bytes, code.size, &b->module, &error), &error);
    for (uint32_t i = 0; i < b->candidates.count; i++)
        measure_candidate(job, b, i, code.entries[i]);
}

int main(int argc, char **argv) {
    struct bench *b = calloc(1, sizeof *b);
    struct ingot_error error = {0};
    if (!b) return 4;
    b->first = 12;
    b->target =
        (struct ig_target){.isa = IG_ISA_CUDA, .vector_bytes = 64, .vector_registers = 32, .sm = 90, .sm_own = true};
    for (int i = 1; i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (!strcmp(argv[i], "--source")) {
            b->source = true;
        } else if (!strcmp(argv[i], "--estimates")) {
            b->estimates = true;
        } else if (!strcmp(argv[i], "--only") && has_value) {
            b->only = argv[++i];
        } else if (!strcmp(argv[i], "--first") && has_value) {
            b->first = atoi(argv[++i]);
        } else if (!strcmp(argv[i], "--warm") && has_value) {
            b->warm = atof(argv[++i]) * 1e6;
        } else {
            fprintf(stderr, "usage: product_bench [--only SUBSTRING] [--first N] [--warm MS] [--source|--estimates]\n");
            free(b);
            return 2;
        }
    }
    struct ig_job job;
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, run, b, &error);
    ig_job_deinit(&job);
    free(b);
    if (status == INGOT_OK) return 0;
    fprintf(stderr, "product_bench: %s\n", error.message);
    return 4;
}
