/*
 * NumPy's .npy format (NEP 1; numpy.lib.format): magic, version, the length of the header (2 bytes in version 1, 4 in 2
 * and 3), the header as the text of a Python dict with the keys descr, fortran_order and shape, the elements.
 *
 * Plain numbers and booleans in either byte order are read, and Fortran order is turned into C order; NumPy has no name
 * for bfloat16, which is kept as two opaque bytes ('<V2'), as the ml_dtypes package does. Narrow types go by that package's
 * names, which NumPy reads where it is imported; opaque single bytes ('|V1') might be of any of them and are refused.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "weights/weights.h"

/* ---- Types */

struct npy_type {
    const char *code; /* without the byte order */
    enum ingot_dtype dtype;
};

static const struct npy_type types[] = {
    {"f4", INGOT_F32},
    {"f2", INGOT_F16},
    {"V2", INGOT_BF16},
    {"f8", INGOT_F64},
    {"i1", INGOT_I8},
    {"i2", INGOT_I16},
    {"i4", INGOT_I32},
    {"i8", INGOT_I64},
    {"u1", INGOT_U8},
    {"u2", INGOT_U16},
    {"u4", INGOT_U32},
    {"u8", INGOT_U64},
    {"b1", INGOT_BOOL},
    {"int4", INGOT_I4},
    {"uint4", INGOT_U4},
    {"int2", INGOT_I2},
    {"uint2", INGOT_U2},
    {"float8_e4m3fn", INGOT_F8E4M3FN},
    {"float8_e5m2", INGOT_F8E5M2},
    {"float8_e4m3fnuz", INGOT_F8E4M3FNUZ},
    {"float8_e5m2fnuz", INGOT_F8E5M2FNUZ},
    {"float8_e8m0fnu", INGOT_F8E8M0},
    {"float4_e2m1fn", INGOT_F4E2M1},
};
enum { N_TYPES = sizeof types / sizeof *types };

/* ---- The header's dict. Python allows more spellings of it than NumPy writes; these are NumPy's, with any spacing. */

struct cursor {
    const char *at, *end;
};

static void skip_spaces(struct cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
        c->at++;
}

static bool take(struct cursor *c, char wanted) {
    skip_spaces(c);
    if (c->at == c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

static bool take_word(struct cursor *c, const char *word) {
    size_t length = strlen(word);
    skip_spaces(c);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0) return false;
    c->at += length;
    return true;
}

/* A quoted string without escapes, truncated to the capacity. */
static bool take_string(struct cursor *c, char *out_text, size_t capacity) {
    skip_spaces(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return false;
    char quote = *c->at++;
    const char *close = memchr(c->at, quote, (size_t)(c->end - c->at));
    if (!close) return false;
    snprintf(out_text, capacity, "%.*s", (int)(close - c->at), c->at);
    c->at = close + 1;
    return true;
}

static bool take_dim(struct cursor *c, int64_t *out_dim) {
    int64_t value = 0;
    const char *start;
    skip_spaces(c);
    for (start = c->at; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *c->at - '0', &value))
            return false;
    }
    if (c->at > start && c->at < c->end && *c->at == 'L') c->at++; /* Python 2's long */
    *out_dim = value;
    return c->at > start;
}

struct header {
    char descr[32];
    bool has_descr, has_order, has_shape, fortran;
    int rank; /* may exceed INGOT_MAX_RANK; further dims are not stored */
    int64_t dims[INGOT_MAX_RANK];
};

static bool take_shape(struct cursor *c, struct header *header) {
    if (!take(c, '(')) return false;
    while (!take(c, ')')) {
        int64_t dim;
        if (!take_dim(c, &dim)) return false;
        if (header->rank < INGOT_MAX_RANK) header->dims[header->rank] = dim;
        header->rank++;
        if (!take(c, ',')) {
            if (!take(c, ')')) return false;
            break;
        }
    }
    header->has_shape = true;
    return true;
}

static bool take_entry(struct cursor *c, struct header *header, struct ingot_error *error) {
    char key[32];
    if (!take_string(c, key, sizeof key) || !take(c, ':')) return false;
    if (strcmp(key, "descr") == 0) {
        skip_spaces(c);
        if (c->at < c->end && *c->at == '[') {
            ig_error_set(error, INGOT_BAD_TENSOR, "records with fields are not supported");
            return false;
        }
        return header->has_descr = take_string(c, header->descr, sizeof header->descr);
    }
    if (strcmp(key, "fortran_order") == 0) {
        header->fortran = take_word(c, "True");
        return header->has_order = header->fortran || take_word(c, "False");
    }
    return strcmp(key, "shape") == 0 && !header->has_shape && take_shape(c, header);
}

static enum ingot_status parse_header(const char *text, size_t length, struct header *header,
                                      struct ingot_error *error) {
    struct cursor c = {text, text + length};
    *header = (struct header){0};
    ig_error_set(error, INGOT_BAD_TENSOR, "its header is no dict of descr, fortran_order and shape");
    if (!take(&c, '{')) return INGOT_BAD_TENSOR;
    while (!take(&c, '}')) {
        if (!take_entry(&c, header, error)) return INGOT_BAD_TENSOR;
        if (take(&c, ',')) continue;
        if (!take(&c, '}')) return INGOT_BAD_TENSOR;
        break;
    }
    if (!header->has_descr || !header->has_order || !header->has_shape) return INGOT_BAD_TENSOR;
    return INGOT_OK;
}

/* ---- The elements */

static void swap_bytes(unsigned char *data, size_t count, size_t size) {
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < size / 2; j++) {
            unsigned char byte = data[i * size + j];
            data[i * size + j] = data[i * size + size - 1 - j];
            data[i * size + size - 1 - j] = byte;
        }
    }
}

/* From Fortran order to C order. */
static void from_fortran(const struct ingot_tensor *to, const unsigned char *from) {
    size_t size = ingot_dtype_size(to->dtype);
    int64_t index[INGOT_MAX_RANK] = {0}, n = ingot_tensor_elements(to);
    for (int64_t i = 0; i < n; i++) {
        int64_t offset = 0;
        for (int d = to->rank - 1; d >= 0; d--)
            offset = offset * to->dims[d] + index[d];
        memcpy((unsigned char *)to->data + (size_t)i * size, from + (size_t)offset * size, size);
        for (int d = to->rank - 1; d >= 0 && ++index[d] == to->dims[d]; d--)
            index[d] = 0;
    }
}

static enum ingot_status set_type(const struct header *header, struct ingot_tensor *tensor, bool *out_swap,
                                  struct ingot_error *error) {
    const char *code = header->descr;
    *out_swap = *code == '>';
    if (*code && strchr("<>|=", *code)) code++;
    if (strcmp(code, "?") == 0) code = "b1";
    for (int i = 0; i < N_TYPES; i++) {
        if (strcmp(code, types[i].code) == 0) tensor->dtype = types[i].dtype;
    }
    if (strcmp(code, "bfloat16") == 0) tensor->dtype = INGOT_BF16;
    if (strcmp(code, "f1") == 0) tensor->dtype = INGOT_F8E5M2; /* what NumPy writes of ml_dtypes' */
    if (tensor->dtype == INGOT_DTYPE_NONE) {
        return IG_ERR(error, INGOT_BAD_TENSOR, "elements of type '%s' are not supported", header->descr);
    }
    if (header->rank > INGOT_MAX_RANK) {
        return IG_ERR(error, INGOT_BAD_TENSOR, "rank %d is more than %d", header->rank, INGOT_MAX_RANK);
    }
    tensor->rank = header->rank;
    memcpy(tensor->dims, header->dims, sizeof tensor->dims);
    return INGOT_OK;
}

/* The tensor must take exactly the rest of the file, which also bounds the allocation. */
static enum ingot_status check_size(const struct ingot_tensor *tensor, size_t left, struct ingot_error *error) {
    size_t bytes = ingot_dtype_size(tensor->dtype), used = 0;
    bool fits = true, empty = false;
    char dims[INGOT_MAX_RANK * 22 + 1] = "";
    for (int i = 0; i < tensor->rank; i++) {
        empty |= tensor->dims[i] == 0;
        fits = fits && !__builtin_mul_overflow(bytes, (size_t)tensor->dims[i], &bytes);
        used += (size_t)snprintf(dims + used, sizeof dims - used, "%s%lld", i ? "," : "", (long long)tensor->dims[i]);
    }
    if (empty ? left == 0 : fits && bytes == left) return INGOT_OK;
    return IG_ERR(error, INGOT_BAD_TENSOR, "it has %zu bytes of elements, which is not the size of %s[%s]", left,
                  ingot_dtype_name(tensor->dtype), dims);
}

size_t ig_npy_bytes(const struct ingot_tensor *tensor) {
    size_t bytes = (size_t)ingot_tensor_elements(tensor) * ingot_dtype_size(tensor->dtype);
    return bytes ? bytes : 1;
}

/* Finds the header's text, and where the elements begin. */
static enum ingot_status find_header(const unsigned char *bytes, size_t size, size_t *out_start, size_t *out_length,
                                     struct ingot_error *error) {
    if (size < 10 || memcmp(bytes, "\x93NUMPY", 6) != 0) return IG_ERR(error, INGOT_BAD_TENSOR, "not a .npy file");
    int version = bytes[6];
    if (version < 1 || version > 3)
        return IG_ERR(error, INGOT_BAD_TENSOR, ".npy of version %d, expected 1 to 3", version);
    size_t start = version == 1 ? 10 : 12, length = bytes[8] | (size_t)bytes[9] << 8;
    if (size < start) return IG_ERR(error, INGOT_BAD_TENSOR, "it is cut off in the header");
    if (version > 1) length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (length > size - start) return IG_ERR(error, INGOT_BAD_TENSOR, "it is cut off in the header");
    *out_start = start;
    *out_length = length;
    return INGOT_OK;
}

enum ingot_status ig_npy_parse(const void *data, size_t size, const struct ingot_allocator *allocator,
                               struct ingot_tensor *out_tensor, struct ingot_error *error) {
    const unsigned char *bytes = data;
    struct ingot_tensor tensor = {0};
    struct header header;
    size_t start = 0, length = 0;
    bool swap;
    IG_TRY(find_header(bytes, size, &start, &length, error));
    IG_TRY(parse_header((const char *)bytes + start, length, &header, error));
    IG_TRY(set_type(&header, &tensor, &swap, error));
    size_t left = size - start - length;
    IG_TRY(check_size(&tensor, left, error));
    tensor.data = ig_allocate(allocator, ig_npy_bytes(&tensor), 64);
    if (!tensor.data) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a tensor of %zu bytes", left);
    if (header.fortran && tensor.rank > 1) {
        from_fortran(&tensor, bytes + start + length);
    } else if (left > 0) {
        memcpy(tensor.data, bytes + start + length, left);
    }
    size_t element = ingot_dtype_size(tensor.dtype);
    if (swap && element > 1) swap_bytes(tensor.data, left / element, element);
    for (size_t i = 0; tensor.dtype == INGOT_BOOL && i < left; i++) {
        ((unsigned char *)tensor.data)[i] = ((unsigned char *)tensor.data)[i] != 0;
    }
    *out_tensor = tensor;
    return INGOT_OK;
}

struct owned {
    const struct ingot_allocator *allocator;
    void *data;
    size_t size;
};

static void release_owned(void *resource) {
    struct owned *owned = resource;
    ig_release(owned->allocator, owned->data, owned->size);
}

void ig_npy_read(struct ig_tensors *tensors, const char *name, const void *data, size_t size) {
    struct ig_job *job = tensors->job;
    struct owned *owned = IG_NEW(job, struct owned);
    struct ingot_named_tensor one = {.name = ig_strdup(job, name)};
    struct ingot_error error;
    if (ig_npy_parse(data, size, job->allocator, &one.tensor, &error) != INGOT_OK) ig_raise_error(job, &error);
    *owned = (struct owned){job->allocator, one.tensor.data, ig_npy_bytes(&one.tensor)};
    ig_defer(job, release_owned, owned);
    IG_PUSH(job, &tensors->list, one);
}

size_t ig_npy_header(const struct ingot_tensor *tensor, char out_header[IG_NPY_HEADER]) {
    static const char magic[8] = "\x93NUMPY\x01"; /* and version 1.0 */
    const char *code = "f4";
    char dims[INGOT_MAX_RANK * 23 + 1] = "", dict[320];
    size_t used = 0, element = ingot_dtype_size(tensor->dtype);
    for (int i = 0; i < N_TYPES; i++) {
        if (types[i].dtype == tensor->dtype) code = types[i].code;
    }
    for (int i = 0; i < tensor->rank; i++) {
        used += (size_t)snprintf(dims + used, sizeof dims - used, "%s%lld%s", i ? " " : "", (long long)tensor->dims[i],
                                 i + 1 < tensor->rank || tensor->rank == 1 ? "," : "");
    }
    const char *order = strlen(code) > 2 ? "" : element > 1 ? "<" : "|";
    int length =
        snprintf(dict, sizeof dict, "{'descr': '%s%s', 'fortran_order': False, 'shape': (%s), }", order, code, dims);
    /* Padded with spaces to a multiple of 64, and a newline. */
    size_t size = (10 + (size_t)length + 1 + 63) / 64 * 64;
    snprintf(out_header + 10, IG_NPY_HEADER - 10, "%-*s\n", (int)(size - 11), dict);
    memcpy(out_header, magic, sizeof magic);
    out_header[8] = (char)((size - 10) & 255);
    out_header[9] = (char)((size - 10) >> 8);
    return size;
}
