/* Validates descriptions of library calls; see library.h. */
#include "base/library.h"

#include "base/memory.h"

static const struct {
    const char *name, *files;
    enum ig_library_operation operation;
    uint32_t n_activations; /* it supports the activations below this */
} libraries[IG_LIBRARY_COUNT] = {
    [IG_LIBRARY_CUBLASLT] = {"cuBLASLt", "libcublasLt.so.13, libcublasLt.so.12", IG_LIBRARY_PRODUCT,
                             IG_LIBRARY_GELU + 1},
    [IG_LIBRARY_CUDNN] = {"cuDNN", "libcudnn.so.9", IG_LIBRARY_CONVOLUTION, IG_LIBRARY_RELU + 1},
};

const char *ig_library_name(uint32_t library) {
    return library < IG_LIBRARY_COUNT ? libraries[library].name : "?";
}

const char *ig_library_files(uint32_t library) {
    return library < IG_LIBRARY_COUNT ? libraries[library].files : "?";
}

uint32_t ig_library_size_count(const struct ig_library_call *c) {
    return c->operation == IG_LIBRARY_CONVOLUTION ? IG_LIBRARY_CONV_SIZES : IG_LIBRARY_SIZES;
}

static bool is_half(uint32_t type) {
    return type == INGOT_F16 || type == INGOT_BF16;
}

static bool is_f8(uint32_t type) {
    return type == INGOT_F8E4M3FN || type == INGOT_F8E5M2;
}

bool ig_library_is_integer(const struct ig_library_call *c) {
    return c->a_type == INGOT_I8;
}

bool ig_library_is_float8(const struct ig_library_call *c) {
    return is_f8(c->a_type);
}

/* Of the types that only cuBLASLt multiplies. */
static const char *narrow_error(const struct ig_library_call *c) {
    bool integer = ig_library_is_integer(c), summand = c->addend != IG_LIBRARY_NO_OPERAND,
         bias = c->bias != IG_LIBRARY_NO_OPERAND;
    bool same =
        integer ? c->b_type == INGOT_I8 : is_f8(c->b_type) && (c->a_type != INGOT_F8E5M2 || c->b_type != INGOT_F8E5M2);
    if (c->library != IG_LIBRARY_CUBLASLT || !same) return "operands of a type that the library does not multiply";
    if (integer ? c->out_type != INGOT_I32 : c->out_type != INGOT_F32 && !is_half(c->out_type))
        return "results of a type that does not fit the operands'";
    if (c->a_across || !c->b_along) return "matrices that do not lie along the depth";
    if (integer &&
        (summand || bias || c->activation || c->scale != 1 || c->factor != IG_LIBRARY_NO_OPERAND || c->rounded))
        return "sums of integers that are not left as they are";
    return bias && c->out_type == INGOT_F32 ? "a bias of a type that the library does not add" : NULL;
}

const char *ig_library_call_error(const struct ig_library_call *c) {
    bool half = is_half(c->a_type), narrow = ig_library_is_integer(c) || ig_library_is_float8(c);
    bool scaled = c->scale != 1 || c->factor != IG_LIBRARY_NO_OPERAND;
    if (c->library >= IG_LIBRARY_COUNT) return "an unknown library";
    if (c->operation != libraries[c->library].operation) return "an operation that is not the library's";
    if (c->choice >= IG_LIBRARY_MOST_CHOICES) return "an unknown choice";
    if (!narrow && ((!half && c->a_type != INGOT_F32) || c->b_type != c->a_type))
        return "operands of a type that the library does not multiply";
    if (!narrow && c->out_type != INGOT_F32 && c->out_type != c->a_type)
        return "results of a type that does not fit the operands'";
    if (c->rounded > 1 || (c->rounded && half)) return "operands that cannot be rounded";
    if (scaled && c->operation != IG_LIBRARY_PRODUCT) return "a scale that the library does not know";
    if (c->factor != IG_LIBRARY_NO_OPERAND && !narrow) return "a factor that the library does not read";
    uint32_t most = c->operation == IG_LIBRARY_PRODUCT;
    if (c->a_across > most || c->b_along > most) return "matrices that lie in no known way";
    if (c->activation >= libraries[c->library].n_activations) return "an activation that the library does not know";
    return narrow ? narrow_error(c) : NULL;
}

const char *ig_library_use_error(const struct ig_library_call *c, uint32_t n_operands, uint32_t n_sizes) {
    const uint32_t needed[] = {c->a, c->b, c->out}, optional[] = {c->addend, c->bias, c->factor};
    if (n_sizes != ig_library_size_count(c)) return "a wrong number of sizes";
    for (int i = 0; i < 3; i++) {
        if (needed[i] >= n_operands) return "an operand that is not there";
    }
    for (int i = 0; i < 3; i++) {
        if (optional[i] != IG_LIBRARY_NO_OPERAND && optional[i] >= n_operands) return "an operand that is not there";
    }
    return NULL;
}

/* Do `matrices` of `lines` of `length` elements fit into an operand? No number is negative; the first two are
 * positive. */
static bool is_inside(int64_t offset, int64_t matrices, int64_t step, int64_t lines, int64_t ld, int64_t length,
                      size_t bytes, uint32_t type) {
    size_t between, within, end;
    return ig_size_mul((size_t)(matrices - 1), (size_t)step, &between) &&
           ig_size_mul((size_t)(lines - 1), (size_t)ld, &within) && ig_size_add(between, within, &end) &&
           ig_size_add(end, (size_t)offset, &end) && ig_size_add(end, (size_t)length, &end) &&
           end <= bytes / ingot_dtype_size((enum ingot_dtype)type);
}

/* Does a tensor whose element count is the product of `count` factors, none of them negative, fit into its operand? */
static bool fits(const int64_t *sizes, const int *factors, int count, size_t bytes, uint32_t type) {
    size_t product = 1;
    for (int i = 0; i < count; i++) {
        if (!ig_size_mul(product, (size_t)sizes[factors[i]], &product)) return false;
    }
    return product <= bytes / ingot_dtype_size((enum ingot_dtype)type);
}

bool ig_library_is_empty(const struct ig_library_call *c, const int64_t *z) {
    if (c->operation == IG_LIBRARY_CONVOLUTION)
        return z[IG_LIBRARY_IMAGES] == 0 || z[IG_LIBRARY_OUT] == 0 || z[IG_LIBRARY_OUT + 1] == 0 ||
               z[IG_LIBRARY_FILTERS] == 0;
    return z[IG_LIBRARY_BATCH] == 0 || z[IG_LIBRARY_ROWS] == 0 || z[IG_LIBRARY_COLUMNS] == 0;
}

/* ---- Convolutions ------------------------------------------------------------------------------------------------ */

/* Does the output size along an axis follow from input, padding, kernel, dilation and stride? */
static bool is_right_axis(const int64_t *z, int axis) {
    int64_t stride = z[IG_LIBRARY_STRIDE + axis], kernel = z[IG_LIBRARY_KERNEL + axis];
    if (stride == 0 || kernel == 0 || z[IG_LIBRARY_DILATION + axis] == 0 || z[IG_LIBRARY_IN + axis] == 0) return false;
    int64_t reach = (kernel - 1) * z[IG_LIBRARY_DILATION + axis] + 1;
    int64_t size = z[IG_LIBRARY_IN + axis] + z[IG_LIBRARY_BEFORE + axis] + z[IG_LIBRARY_AFTER + axis];
    return size >= reach && (size - reach) / stride + 1 == z[IG_LIBRARY_OUT + axis];
}

static const char *convolution_error(const struct ig_library_call *c, const int64_t *z, const size_t *bytes) {
    static const int in[] = {IG_LIBRARY_IMAGES, IG_LIBRARY_IN, IG_LIBRARY_IN + 1, IG_LIBRARY_CHANNELS};
    static const int filters[] = {IG_LIBRARY_FILTERS, IG_LIBRARY_KERNEL, IG_LIBRARY_KERNEL + 1, IG_LIBRARY_CHANNELS};
    static const int out[] = {IG_LIBRARY_IMAGES, IG_LIBRARY_OUT, IG_LIBRARY_OUT + 1, IG_LIBRARY_FILTERS};
    int64_t groups = z[IG_LIBRARY_GROUPS], per_group[IG_LIBRARY_CONV_SIZES];
    for (int i = 0; i < IG_LIBRARY_CONV_SIZES; i++) {
        if (z[i] < 0 || z[i] > INT32_MAX) return "a size that the library cannot count";
        per_group[i] = z[i];
    }
    if (ig_library_is_empty(c, z)) return NULL;
    if (groups == 0 || z[IG_LIBRARY_CHANNELS] == 0 || z[IG_LIBRARY_CHANNELS] % groups || z[IG_LIBRARY_FILTERS] % groups)
        return "channels that its groups do not divide";
    if (!is_right_axis(z, 0) || !is_right_axis(z, 1)) return "results that its windows do not make";
    per_group[IG_LIBRARY_CHANNELS] /= groups;
    if (!fits(z, in, 4, bytes[c->a], c->a_type)) return "images that are larger than their operand";
    if (!fits(per_group, filters, 4, bytes[c->b], c->b_type)) return "filters that are larger than their operand";
    if (!fits(z, out, 4, bytes[c->out], c->out_type) ||
        (c->addend != IG_LIBRARY_NO_OPERAND && !fits(z, out, 4, bytes[c->addend], c->out_type)))
        return "results that are larger than their operand";
    if (c->bias != IG_LIBRARY_NO_OPERAND && !fits(z, filters, 1, bytes[c->bias], c->out_type))
        return "a bias that is larger than its operand";
    return NULL;
}

/* ---- Products ---------------------------------------------------------------------------------------------------- */

static const char *product_error(const struct ig_library_call *c, const int64_t *z, const size_t *bytes) {
    int64_t batch = z[IG_LIBRARY_BATCH], rows = z[IG_LIBRARY_ROWS], columns = z[IG_LIBRARY_COLUMNS],
            depth = z[IG_LIBRARY_DEPTH];
    for (int i = 0; i < IG_LIBRARY_SIZES; i++) {
        /* Steps and offsets are bounded by the operands' bytes, not by the range of the library's integers. */
        int64_t most =
            i == IG_LIBRARY_A_STEP || i == IG_LIBRARY_B_STEP || i == IG_LIBRARY_A_OFFSET || i == IG_LIBRARY_B_OFFSET
                ? INT64_MAX / 16
                : INT32_MAX;
        if (z[i] < 0 || z[i] > most) return "a size that the library cannot count";
    }
    if (ig_library_is_empty(c, z)) return NULL;
    if (depth == 0) return "a product of nothing";
    int64_t a_lines = c->a_across ? depth : rows, a_length = c->a_across ? rows : depth;
    int64_t b_lines = c->b_along ? columns : depth, b_length = c->b_along ? depth : columns;
    if (z[IG_LIBRARY_A_LD] < a_length || z[IG_LIBRARY_B_LD] < b_length) return "lines that overlap";
    if (!is_inside(z[IG_LIBRARY_A_OFFSET], batch, z[IG_LIBRARY_A_STEP], a_lines, z[IG_LIBRARY_A_LD], a_length,
                   bytes[c->a], c->a_type) ||
        !is_inside(z[IG_LIBRARY_B_OFFSET], batch, z[IG_LIBRARY_B_STEP], b_lines, z[IG_LIBRARY_B_LD], b_length,
                   bytes[c->b], c->b_type))
        return "a matrix that is larger than its operand";
    const uint32_t dense[] = {c->out, c->addend};
    for (int i = 0; i < 2; i++) {
        if (dense[i] == IG_LIBRARY_NO_OPERAND) continue;
        if (!is_inside(0, 1, 0, batch, rows * columns, rows * columns, bytes[dense[i]], c->out_type))
            return "results that are larger than their operand";
    }
    if (c->bias != IG_LIBRARY_NO_OPERAND && !is_inside(0, 1, 0, 1, columns, columns, bytes[c->bias], c->out_type))
        return "a bias that is larger than its operand";
    if (c->factor != IG_LIBRARY_NO_OPERAND && bytes[c->factor] < sizeof(float)) return "a factor that is not there";
    return NULL;
}

const char *ig_library_sizes_error(const struct ig_library_call *c, const int64_t *sizes, const size_t *bytes) {
    return c->operation == IG_LIBRARY_CONVOLUTION ? convolution_error(c, sizes, bytes) : product_error(c, sizes, bytes);
}
