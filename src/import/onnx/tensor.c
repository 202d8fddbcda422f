/*
 * TensorProto to constants. Elements lie in the message's raw data, in a typed field, or in another file; in the first
 * and last case they are used in place. Every size is checked against the dims before it is used.
 */
#include "import/onnx/importer.h"

#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/narrow.h"

/* TensorProto.DataType. */
enum {
    ONNX_FLOAT = 1,
    ONNX_UINT8,
    ONNX_INT8,
    ONNX_UINT16,
    ONNX_INT16,
    ONNX_INT32,
    ONNX_INT64,
    ONNX_STRING,
    ONNX_BOOL,
    ONNX_FLOAT16,
    ONNX_DOUBLE,
    ONNX_UINT32,
    ONNX_UINT64,
    ONNX_COMPLEX64,
    ONNX_COMPLEX128,
    ONNX_BFLOAT16,
    ONNX_FLOAT8E4M3FN,
    ONNX_FLOAT8E4M3FNUZ,
    ONNX_FLOAT8E5M2,
    ONNX_FLOAT8E5M2FNUZ,
    ONNX_UINT4,
    ONNX_INT4,
    ONNX_FLOAT4E2M1,
    ONNX_FLOAT8E8M0,
    ONNX_UINT2,
    ONNX_INT2,
    ONNX_TYPE_COUNT, /* of what Ingot may have */
    ONNX_FLOAT6E2M3 = ONNX_TYPE_COUNT,
    ONNX_FLOAT6E3M2
};
enum { LOCATION_EXTERNAL = 1 };

static const enum ingot_dtype dtypes[ONNX_TYPE_COUNT] = {
    [ONNX_FLOAT] = INGOT_F32,
    [ONNX_UINT8] = INGOT_U8,
    [ONNX_INT8] = INGOT_I8,
    [ONNX_UINT16] = INGOT_U16,
    [ONNX_INT16] = INGOT_I16,
    [ONNX_INT32] = INGOT_I32,
    [ONNX_INT64] = INGOT_I64,
    [ONNX_BOOL] = INGOT_BOOL,
    [ONNX_FLOAT16] = INGOT_F16,
    [ONNX_BFLOAT16] = INGOT_BF16,
    [ONNX_DOUBLE] = INGOT_F64,
    [ONNX_UINT32] = INGOT_U32,
    [ONNX_UINT64] = INGOT_U64,
    [ONNX_FLOAT8E4M3FN] = INGOT_F8E4M3FN,
    [ONNX_FLOAT8E4M3FNUZ] = INGOT_F8E4M3FNUZ,
    [ONNX_FLOAT8E5M2] = INGOT_F8E5M2,
    [ONNX_FLOAT8E5M2FNUZ] = INGOT_F8E5M2FNUZ,
    [ONNX_UINT4] = INGOT_U4,
    [ONNX_INT4] = INGOT_I4,
    [ONNX_FLOAT4E2M1] = INGOT_F4E2M1,
    [ONNX_FLOAT8E8M0] = INGOT_F8E8M0,
    [ONNX_UINT2] = INGOT_U2,
    [ONNX_INT2] = INGOT_I2,
};

/* Types that Ingot has not, for error messages. */
static const char *const unsupported_names[] = {
    [ONNX_STRING] = "string",         [ONNX_COMPLEX64] = "complex64",   [ONNX_COMPLEX128] = "complex128",
    [ONNX_FLOAT6E2M3] = "float6e2m3", [ONNX_FLOAT6E3M2] = "float6e3m2",
};

const char *ig_onnx_unsupported_type(int64_t data_type) {
    bool known = data_type > 0 && data_type < (int64_t)(sizeof unsupported_names / sizeof *unsupported_names);
    return known ? unsupported_names[data_type] : NULL;
}

enum ingot_dtype ig_onnx_dtype(struct ig_job *job, int64_t data_type, const char *what) {
    if (data_type > 0 && data_type < ONNX_TYPE_COUNT && dtypes[data_type]) return dtypes[data_type];
    const char *unsupported = ig_onnx_unsupported_type(data_type);
    if (unsupported) ig_raise(job, INGOT_UNSUPPORTED, "type %s of %s is not supported", unsupported, what);
    ig_raise(job, INGOT_BAD_MODEL, "%s has the unknown type %lld", what, (long long)data_type);
}

int32_t ig_onnx_data_type(enum ingot_dtype dtype) {
    for (int32_t i = 0; i < ONNX_TYPE_COUNT; i++) {
        if (dtypes[i] == dtype) return i;
    }
    return 0;
}

/* ---- Sizes ---- */

static const char *name_of(const Onnx__TensorProto *tensor, const char *name) {
    return name && *name ? name : tensor->name && *tensor->name ? tensor->name : "?";
}

/* The number of elements of a tensor of these dims. Raises if its size in bytes does not fit. */
static size_t check_dims(struct ig_job *job, const int64_t *dims, size_t rank, size_t element, const char *what) {
    if (rank > INGOT_MAX_RANK) {
        ig_raise(job, INGOT_UNSUPPORTED, "%s has rank %zu; at most %d is supported", what, rank, INGOT_MAX_RANK);
    }
    size_t count = 1, bytes;
    bool fits = true;
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] < 0) ig_raise(job, INGOT_BAD_MODEL, "%s has the dim %lld", what, (long long)dims[i]);
        /* The other dims of an empty tensor may be of any size. */
        fits &= ig_size_mul(count, (size_t)dims[i], &count);
        if (dims[i] == 0) return 0;
    }
    if (!fits || !ig_size_mul(count, element, &bytes) || bytes > INT64_MAX) {
        ig_raise(job, INGOT_BAD_MODEL, "%s is too large", what);
    }
    return count;
}

/* ---- Elements ---- */

static void check_count(struct ig_job *job, const char *what, size_t there, size_t expected) {
    if (there == expected) return;
    ig_raise(job, INGOT_BAD_MODEL, "%s has %zu elements of data, expected %zu", what, there, expected);
}

/* Truncates wider integers to their low bytes; bools are normalised afterwards. */
static void *narrow(struct ig_job *job, const void *wide, size_t wide_size, size_t count, size_t size) {
    if (size == wide_size) return (void *)wide;
    uint8_t *bytes = ig_alloc_array(job, count, size);
    for (size_t i = 0; i < count; i++)
        memcpy(bytes + i * size, (const uint8_t *)wide + i * wide_size, size);
    return bytes;
}

/* Reads elements from the field that the format assigns to their type; packed ones, `count` bytes of them. */
static const void *typed_elements(struct ig_job *job, const Onnx__TensorProto *t, enum ingot_dtype dtype, size_t count,
                                  const char *what) {
    size_t size = ingot_dtype_size(dtype);
    switch (dtype) {
    case INGOT_F32: check_count(job, what, t->n_float_data, count); return t->float_data;
    case INGOT_F64: check_count(job, what, t->n_double_data, count); return t->double_data;
    case INGOT_I64: check_count(job, what, t->n_int64_data, count); return t->int64_data;
    case INGOT_U64:
    case INGOT_U32:
        check_count(job, what, t->n_uint64_data, count);
        return narrow(job, t->uint64_data, sizeof *t->uint64_data, count, size);
    default:
        check_count(job, what, t->n_int32_data, count);
        return narrow(job, t->int32_data, sizeof *t->int32_data, count, size);
    }
}

/* Makes every bool 0 or 1; files may contain other bytes. */
static const void *normalize_bools(struct ig_job *job, const uint8_t *bytes, size_t count) {
    bool normal = true;
    for (size_t i = 0; i < count; i++)
        normal &= bytes[i] <= 1;
    if (normal) return bytes;
    uint8_t *copy = ig_memdup(job, bytes, count);
    for (size_t i = 0; i < count; i++)
        copy[i] = copy[i] != 0;
    return copy;
}

/* The elements of a tensor that has `raw_data`. */
static const void *raw_elements(struct ig_onnx *import, const Onnx__TensorProto *t, size_t size, const char *what) {
    ProtobufCBinaryData raw = t->raw_data;
    uint32_t index;
    if (import->message.raw) {
        IG_ASSERT(import->job, raw.len == sizeof index);
        memcpy(&index, raw.data, sizeof index);
        IG_ASSERT(import->job, index < import->message.n_raw);
        raw = import->message.raw[index];
    }
    if (raw.len != size) {
        ig_raise(import->job, INGOT_BAD_MODEL, "%s has %zu bytes of data, expected %zu", what, raw.len, size);
    }
    return raw.data;
}

static bool has_no_data(const Onnx__TensorProto *t) {
    return !t->has_raw_data && !t->n_float_data && !t->n_double_data && !t->n_int32_data && !t->n_int64_data &&
           !t->n_uint64_data;
}

static void unmap(void *mapping) {
    ig_file_unmap(mapping);
}

/* Memory that is zero, and takes none. */
static const void *zeros(struct ig_job *job, size_t size) {
    struct ig_mapping *mapping = IG_NEW(job, struct ig_mapping);
    struct ingot_error error;
    if (ig_file_map_zeros(size, mapping, &error) != INGOT_OK) ig_raise_error(job, &error);
    ig_defer(job, unmap, mapping);
    return mapping->data;
}

/* The elements as they are stored, `count` of the type's size; of types of less than 8 bits, packed bytes. */
static const void *stored_elements(struct ig_onnx *import, const Onnx__TensorProto *t, enum ingot_dtype dtype,
                                   size_t count, const char *what) {
    size_t size = count * ingot_dtype_size(dtype);
    if (t->has_data_location && t->data_location == LOCATION_EXTERNAL) return ig_onnx_external(import, t, size);
    if (t->has_raw_data) return raw_elements(import, t, size, what);
    return typed_elements(import->job, t, dtype, count, what);
}

/* Gives each element of less than 8 bits a byte. */
static const void *unpacked_elements(struct ig_onnx *import, const Onnx__TensorProto *t, enum ingot_dtype dtype,
                                     size_t count, const char *what) {
    const uint8_t *packed = stored_elements(import, t, dtype, ig_narrow_packed_size(dtype, count), what);
    uint8_t *bytes = ig_alloc_array(import->job, count, 1);
    ig_narrow_unpack(dtype, packed, count, bytes);
    return bytes;
}

static const void *elements(struct ig_onnx *import, const Onnx__TensorProto *t, enum ingot_dtype dtype, size_t count,
                            const char *what) {
    struct ig_job *job = import->job;
    size_t size = count * ingot_dtype_size(dtype);
    bool is_external = t->has_data_location && t->data_location == LOCATION_EXTERNAL;
    const void *bytes;
    if (import->missing_weights && size && has_no_data(t) && !is_external) {
        bytes = zeros(job, size);
    } else if (ig_narrow_bits(dtype) && ig_narrow_bits(dtype) < 8) {
        bytes = unpacked_elements(import, t, dtype, count, what);
    } else {
        bytes = stored_elements(import, t, dtype, count, what);
    }
    /* Data that the importer and passes may look at are aligned to their type; larger ones the evaluator aligns in parts. */
    if (size && size < IG_DATA_LARGE && (uintptr_t)bytes % ingot_dtype_size(dtype)) bytes = ig_memdup(job, bytes, size);
    return dtype == INGOT_BOOL ? normalize_bools(job, bytes, count) : bytes;
}

/* The record of the initialiser that `proto` is: one, also if bodies are imported several times. */
static struct ig_initializer *record_of(struct ig_onnx *import, const Onnx__TensorProto *proto, const char *name,
                                        enum ingot_dtype dtype, size_t rank, const int64_t *dims, const void *bytes,
                                        size_t size) {
    struct ig_initializers *all = import->initializers;
    uint32_t index;
    if (ig_map_get(&import->records, &proto, sizeof proto, &index)) return all->list.at[index];
    ig_map_put(&import->records, &proto, sizeof proto, all->list.count);
    return ig_initializers_add(all, name, dtype, rank, dims, bytes, size);
}

static ig_value make_constant(struct ig_onnx *import, struct ig_graph *g, const Onnx__TensorProto *proto,
                              enum ingot_dtype dtype, size_t rank, const int64_t *dims, const void *bytes, size_t size,
                              const char *initializer) {
    struct ig_data *data = IG_NEW(g->job, struct ig_data);
    *data = (struct ig_data){.bytes = bytes, .size = size, .initializer = initializer};
    if (initializer) data->record = record_of(import, proto, initializer, dtype, rank, dims, bytes, size);
    return ig_build_constant(g, dtype, (int)rank, dims, data);
}

/* A tensor's type, and its elements in the order of memory. */
struct dense {
    enum ingot_dtype dtype;
    const void *bytes;
    size_t size;
};

static struct dense read_dense(struct ig_onnx *import, const Onnx__TensorProto *tensor, const char *initializer) {
    const char *what = ig_format(import->job, "tensor '%s'", name_of(tensor, initializer));
    struct dense dense = {.dtype = ig_onnx_dtype(import->job, tensor->data_type, what)};
    size_t count = check_dims(import->job, tensor->dims, tensor->n_dims, ingot_dtype_size(dense.dtype), what);
    dense.bytes = elements(import, tensor, dense.dtype, count, what);
    dense.size = count * ingot_dtype_size(dense.dtype);
    return dense;
}

ig_value ig_onnx_constant(struct ig_onnx *import, struct ig_graph *g, const Onnx__TensorProto *tensor,
                          const char *initializer) {
    struct dense dense = read_dense(import, tensor, initializer);
    return make_constant(import, g, tensor, dense.dtype, tensor->n_dims, tensor->dims, dense.bytes, dense.size,
                         initializer);
}

/* ---- Sparse tensors, made dense ---- */

/* The flat position of the i-th value; indices are flat [n], or coordinates [n, rank]. */
static size_t sparse_position(struct ig_job *job, const Onnx__SparseTensorProto *sparse, const int64_t *indices,
                              size_t i, size_t count, const char *what) {
    size_t rank = sparse->n_dims, position = 0;
    if (sparse->indices->n_dims == 1) {
        if (indices[i] >= 0 && (size_t)indices[i] < count) return (size_t)indices[i];
    } else {
        bool inside = true;
        for (size_t axis = 0; axis < rank; axis++) {
            int64_t index = indices[i * rank + axis];
            inside &= index >= 0 && index < sparse->dims[axis];
            position = position * (size_t)sparse->dims[axis] + (size_t)index;
        }
        if (inside) return position;
    }
    ig_raise(job, INGOT_BAD_MODEL, "%s has an index outside of its dims", what);
}

static struct dense read_sparse(struct ig_onnx *import, const Onnx__SparseTensorProto *sparse,
                                const char *initializer) {
    struct ig_job *job = import->job;
    const Onnx__TensorProto *values = sparse->values, *indices = sparse->indices;
    if (!values || !indices) ig_raise(job, INGOT_BAD_MODEL, "a sparse tensor has no values or no indices");
    const char *what = ig_format(job, "sparse tensor '%s'", name_of(values, initializer));
    enum ingot_dtype dtype = ig_onnx_dtype(job, values->data_type, what);
    size_t size = ingot_dtype_size(dtype);
    size_t count = check_dims(job, sparse->dims, sparse->n_dims, size, what);
    size_t n = check_dims(job, values->dims, values->n_dims, size, what);
    size_t n_indices = check_dims(job, indices->dims, indices->n_dims, sizeof(int64_t), what);
    bool flat = indices->n_dims == 1 && n_indices == n;
    bool coordinates =
        indices->n_dims == 2 && (size_t)indices->dims[0] == n && (size_t)indices->dims[1] == sparse->n_dims;
    if (indices->data_type != ONNX_INT64 || (!flat && !coordinates)) {
        ig_raise(job, INGOT_BAD_MODEL, "the indices of %s fit neither its values nor its dims", what);
    }
    const uint8_t *from = elements(import, values, dtype, n, what);
    const int64_t *where = elements(import, indices, INGOT_I64, n_indices, what);
    uint8_t *dense = ig_alloc_array(job, count, size);
    for (size_t i = 0; i < n; i++) {
        memcpy(dense + size * sparse_position(job, sparse, where, i, count, what), from + size * i, size);
    }
    return (struct dense){dtype, dense, count * size};
}

ig_value ig_onnx_sparse_constant(struct ig_onnx *import, struct ig_graph *g, const Onnx__SparseTensorProto *sparse,
                                 const char *initializer) {
    struct dense dense = read_sparse(import, sparse, initializer);
    return make_constant(import, g, sparse->values, dense.dtype, sparse->n_dims, sparse->dims, dense.bytes, dense.size,
                         initializer);
}

/* ---- Initialisers without a graph ---- */

static bool is_supported(const Onnx__TensorProto *proto, size_t rank) {
    bool fits = proto->data_type > 0 && proto->data_type < ONNX_TYPE_COUNT && rank <= INGOT_MAX_RANK;
    return fits && dtypes[proto->data_type] && proto->name && *proto->name;
}

void ig_onnx_read_initializers(struct ig_onnx *import, const Onnx__GraphProto *graph) {
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const Onnx__TensorProto *t = graph->initializer[i];
        if (!is_supported(t, t->n_dims)) continue;
        struct dense dense = read_dense(import, t, t->name);
        record_of(import, t, t->name, dense.dtype, t->n_dims, t->dims, dense.bytes, dense.size);
    }
    for (size_t i = 0; i < graph->n_sparse_initializer; i++) {
        const Onnx__SparseTensorProto *t = graph->sparse_initializer[i];
        if (!t->values || !is_supported(t->values, t->n_dims)) continue;
        struct dense dense = read_sparse(import, t, t->values->name);
        record_of(import, t->values, t->values->name, dense.dtype, t->n_dims, t->dims, dense.bytes, dense.size);
    }
    for (size_t i = 0; i < graph->n_node; i++) {
        for (size_t k = 0; k < graph->node[i]->n_attribute; k++) {
            const Onnx__AttributeProto *attribute = graph->node[i]->attribute[k];
            if (attribute->g) ig_onnx_read_initializers(import, attribute->g);
        }
    }
}

void ig_onnx_add_unused(struct ig_onnx *import, const Onnx__TensorProto *proto, size_t rank, const int64_t *dims) {
    uint32_t known;
    if (!is_supported(proto, rank) || ig_map_get(&import->records, &proto, sizeof proto, &known)) return;
    ig_initializers_add(import->initializers, proto->name, dtypes[proto->data_type], rank, dims, NULL, 0);
}
