/* What is right and wrong about calls of libraries; see library.h. */
#include "base/library.h"

#include "base/memory.h"

static const struct {
    const char *name, *files;
} libraries[IG_LIBRARY_COUNT] = {
    [IG_LIBRARY_CUBLASLT] = {"cuBLASLt", "libcublasLt.so.13, libcublasLt.so.12"},
};

const char *ig_library_name(uint32_t library) {
    return library < IG_LIBRARY_COUNT ? libraries[library].name : "?";
}

const char *ig_library_files(uint32_t library) {
    return library < IG_LIBRARY_COUNT ? libraries[library].files : "?";
}

const char *ig_library_call_error(const struct ig_library_call *c) {
    bool half = c->in_type == INGOT_F16 || c->in_type == INGOT_BF16;
    if (c->library >= IG_LIBRARY_COUNT) return "an unknown library";
    if (c->choice >= IG_LIBRARY_MOST_CHOICES) return "an unknown choice";
    if (!half && c->in_type != INGOT_F32) return "operands of a type that the library does not multiply";
    if (c->out_type != INGOT_F32 && c->out_type != c->in_type)
        return "results of a type that does not fit the operands'";
    if (c->rounded > 1 || (c->rounded && half)) return "operands that cannot be rounded";
    if (c->a_across > 1 || c->b_along > 1) return "matrices that lie in no known way";
    if (c->activation >= IG_LIBRARY_ACTIVATION_COUNT) return "an unknown activation";
    return NULL;
}

const char *ig_library_use_error(const struct ig_library_call *c, uint32_t n_operands, uint32_t n_sizes) {
    const uint32_t needed[] = {c->a, c->b, c->out}, optional[] = {c->addend, c->bias};
    if (n_sizes != IG_LIBRARY_SIZES) return "a wrong number of sizes";
    for (int i = 0; i < 3; i++) {
        if (needed[i] >= n_operands) return "an operand that is not there";
    }
    for (int i = 0; i < 2; i++) {
        if (optional[i] != IG_LIBRARY_NO_OPERAND && optional[i] >= n_operands) return "an operand that is not there";
    }
    return NULL;
}

/* Whether `matrices` of `lines` of `length` elements are inside an operand. No number is negative or above 2^31. */
static bool is_inside(int64_t offset, int64_t matrices, int64_t step, int64_t lines, int64_t ld, int64_t length,
                      size_t bytes, uint32_t type) {
    size_t between, within, end;
    return ig_size_mul((size_t)(matrices - 1), (size_t)step, &between) &&
           ig_size_mul((size_t)(lines - 1), (size_t)ld, &within) && ig_size_add(between, within, &end) &&
           ig_size_add(end, (size_t)offset, &end) && ig_size_add(end, (size_t)length, &end) &&
           end <= bytes / ingot_dtype_size((enum ingot_dtype)type);
}

bool ig_library_is_empty(const int64_t *sizes) {
    return sizes[IG_LIBRARY_BATCH] == 0 || sizes[IG_LIBRARY_ROWS] == 0 || sizes[IG_LIBRARY_COLUMNS] == 0;
}

const char *ig_library_sizes_error(const struct ig_library_call *c, const int64_t *z, const size_t *bytes) {
    int64_t batch = z[IG_LIBRARY_BATCH], rows = z[IG_LIBRARY_ROWS], columns = z[IG_LIBRARY_COLUMNS],
            depth = z[IG_LIBRARY_DEPTH];
    for (int i = 0; i < IG_LIBRARY_SIZES; i++) {
        /* Steps and offsets lie within what is counted in bytes, but need not fit the library's integers. */
        int64_t most =
            i == IG_LIBRARY_A_STEP || i == IG_LIBRARY_B_STEP || i == IG_LIBRARY_A_OFFSET || i == IG_LIBRARY_B_OFFSET
                ? INT64_MAX / 16
                : INT32_MAX;
        if (z[i] < 0 || z[i] > most) return "a size that the library cannot count";
    }
    if (ig_library_is_empty(z)) return NULL;
    if (depth == 0) return "a product of nothing";
    int64_t a_lines = c->a_across ? depth : rows, a_length = c->a_across ? rows : depth;
    int64_t b_lines = c->b_along ? columns : depth, b_length = c->b_along ? depth : columns;
    if (z[IG_LIBRARY_A_LD] < a_length || z[IG_LIBRARY_B_LD] < b_length) return "lines that overlap";
    if (!is_inside(z[IG_LIBRARY_A_OFFSET], batch, z[IG_LIBRARY_A_STEP], a_lines, z[IG_LIBRARY_A_LD], a_length,
                   bytes[c->a], c->in_type) ||
        !is_inside(z[IG_LIBRARY_B_OFFSET], batch, z[IG_LIBRARY_B_STEP], b_lines, z[IG_LIBRARY_B_LD], b_length,
                   bytes[c->b], c->in_type))
        return "a matrix that is larger than its operand";
    const uint32_t dense[] = {c->out, c->addend};
    for (int i = 0; i < 2; i++) {
        if (dense[i] == IG_LIBRARY_NO_OPERAND) continue;
        if (!is_inside(0, 1, 0, batch, rows * columns, rows * columns, bytes[dense[i]], c->out_type))
            return "results that are larger than their operand";
    }
    if (c->bias != IG_LIBRARY_NO_OPERAND && !is_inside(0, 1, 0, 1, columns, columns, bytes[c->bias], c->out_type))
        return "a bias that is larger than its operand";
    return NULL;
}
