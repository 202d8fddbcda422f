/*
 * safetensors (https://github.com/huggingface/safetensors, "Format"): the length of the header (8 bytes), the header as
 * JSON {"NAME": {"dtype": ..., "shape": [...], "data_offsets": [BEGIN, END]}, ..., "__metadata__": {...}}, the data. As the
 * format demands, the tensors must cover the data without holes or overlaps.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "weights/weights.h"

enum { MOST_HEADER = 100000000 }; /* bytes; the limit of the format's own library */

struct type {
    const char *code;
    enum ingot_dtype dtype;
};

static const struct type types[] = {
    {"F32", INGOT_F32},
    {"F16", INGOT_F16},
    {"BF16", INGOT_BF16},
    {"F64", INGOT_F64},
    {"I8", INGOT_I8},
    {"I16", INGOT_I16},
    {"I32", INGOT_I32},
    {"I64", INGOT_I64},
    {"U8", INGOT_U8},
    {"U16", INGOT_U16},
    {"U32", INGOT_U32},
    {"U64", INGOT_U64},
    {"BOOL", INGOT_BOOL},
    {"F8_E4M3", INGOT_F8E4M3FN},
    {"F8_E5M2", INGOT_F8E5M2},
    {"F8_E4M3FNUZ", INGOT_F8E4M3FNUZ},
    {"F8_E5M2FNUZ", INGOT_F8E5M2FNUZ},
    {"F8_E8M0", INGOT_F8E8M0},
};

struct range {
    uint64_t begin, end;
};

struct reader {
    struct ig_job *job;
    struct ig_tensors *tensors;
    const unsigned char *data; /* behind the header */
    uint64_t size;
    IG_VEC(struct range) ranges;
};

static void release_json(void *resource) {
    json_decref(resource);
}

static json_t *parse_header(struct ig_job *job, const unsigned char *bytes, size_t size, uint64_t *out_length) {
    uint64_t length;
    json_error_t reason;
    if (size < sizeof length) ig_raise(job, INGOT_BAD_TENSOR, "it is too short for a safetensors file");
    memcpy(&length, bytes, sizeof length);
    if (length > MOST_HEADER || length > size - sizeof length)
        ig_raise(job, INGOT_BAD_TENSOR, "its header would have %llu bytes: it is no safetensors file, or cut off",
                 (unsigned long long)length);
    json_t *json = json_loadb((const char *)bytes + sizeof length, (size_t)length, JSON_REJECT_DUPLICATES, &reason);
    if (!json) ig_raise(job, INGOT_BAD_TENSOR, "its header is no valid JSON: %s", reason.text);
    ig_defer(job, release_json, json);
    if (!json_is_object(json)) ig_raise(job, INGOT_BAD_TENSOR, "its header is no JSON object");
    *out_length = sizeof length + length;
    return json;
}

static bool get_number(const json_t *json, uint64_t *out_number) {
    if (!json_is_integer(json) || json_integer_value(json) < 0) return false;
    *out_number = (uint64_t)json_integer_value(json);
    return true;
}

static void read_type(struct reader *r, const json_t *json, struct ingot_tensor *out) {
    const char *code = json_string_value(json_object_get(json, "dtype"));
    const json_t *shape = json_object_get(json, "shape");
    if (!code || !json_is_array(shape)) ig_raise(r->job, INGOT_BAD_TENSOR, "it has no dtype or no shape");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(code, types[i].code) == 0) out->dtype = types[i].dtype;
    }
    if (!out->dtype) ig_raise(r->job, INGOT_UNSUPPORTED, "elements of type '%.40s' are not supported", code);
    if (json_array_size(shape) > INGOT_MAX_RANK)
        ig_raise(r->job, INGOT_UNSUPPORTED, "rank %zu is more than %d", json_array_size(shape), INGOT_MAX_RANK);
    out->rank = (int)json_array_size(shape);
    for (int i = 0; i < out->rank; i++) {
        uint64_t dim;
        if (!get_number(json_array_get(shape, (size_t)i), &dim))
            ig_raise(r->job, INGOT_BAD_TENSOR, "dim %d of its shape is no size", i);
        out->dims[i] = (int64_t)dim;
    }
}

/* Where the tensor's elements are; checks that it is as many as its type says. */
static struct range read_range(struct reader *r, const json_t *json, const struct ingot_tensor *tensor) {
    const json_t *offsets = json_object_get(json, "data_offsets");
    struct range range;
    uint64_t bytes = ingot_dtype_size(tensor->dtype);
    bool fits = true, empty = false;
    if (json_array_size(offsets) != 2 || !get_number(json_array_get(offsets, 0), &range.begin) ||
        !get_number(json_array_get(offsets, 1), &range.end))
        ig_raise(r->job, INGOT_BAD_TENSOR, "it has no data_offsets");
    if (range.begin > range.end || range.end > r->size)
        ig_raise(r->job, INGOT_BAD_TENSOR, "its data, bytes %llu to %llu of %llu, are not in the file",
                 (unsigned long long)range.begin, (unsigned long long)range.end, (unsigned long long)r->size);
    for (int i = 0; i < tensor->rank; i++) {
        empty |= tensor->dims[i] == 0;
        fits = fits && !__builtin_mul_overflow(bytes, (uint64_t)tensor->dims[i], &bytes);
    }
    if (empty ? range.end != range.begin : !fits || range.end - range.begin != bytes)
        ig_raise(r->job, INGOT_BAD_TENSOR, "it has %llu bytes of data, which is not the size of its shape",
                 (unsigned long long)(range.end - range.begin));
    return range;
}

/* Elements that are not aligned to their size are copied, and so are bools that are neither 0 nor 1. */
static void *place(struct reader *r, const struct range *range, const struct ingot_tensor *tensor) {
    const unsigned char *at = r->data + range->begin;
    size_t size = (size_t)(range->end - range->begin);
    bool usable = (uintptr_t)at % ingot_dtype_size(tensor->dtype) == 0;
    for (size_t i = 0; tensor->dtype == INGOT_BOOL && i < size; i++)
        usable &= at[i] <= 1;
    if (usable || size == 0) return (void *)(uintptr_t)at;
    unsigned char *copy = ig_memdup(r->job, at, size);
    for (size_t i = 0; tensor->dtype == INGOT_BOOL && i < size; i++)
        copy[i] = copy[i] != 0;
    return copy;
}

static void add_tensor(struct reader *r, const char *name, const json_t *json) {
    struct ingot_named_tensor one = {.name = ig_strdup(r->job, name)};
    struct ig_where where = {.verb = "read", .name = name};
    ig_where_push(r->job, &where);
    read_type(r, json, &one.tensor);
    struct range range = read_range(r, json, &one.tensor);
    one.tensor.data = place(r, &range, &one.tensor);
    ig_where_pop(r->job);
    IG_PUSH(r->job, &r->tensors->list, one);
    if (range.end > range.begin) IG_PUSH(r->job, &r->ranges, range);
}

static int by_begin(const void *a, const void *b) {
    const struct range *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void check_cover(struct reader *r) {
    uint64_t end = 0;
    if (r->ranges.count) qsort(r->ranges.at, r->ranges.count, sizeof *r->ranges.at, by_begin);
    for (uint32_t i = 0; i < r->ranges.count; i++) {
        if (r->ranges.at[i].begin != end)
            ig_raise(r->job, INGOT_BAD_TENSOR, "its tensors %s at byte %llu",
                     r->ranges.at[i].begin < end ? "overlap" : "leave a hole", (unsigned long long)end);
        end = r->ranges.at[i].end;
    }
    if (end != r->size)
        ig_raise(r->job, INGOT_BAD_TENSOR, "it has %llu bytes of data, and tensors for %llu",
                 (unsigned long long)r->size, (unsigned long long)end);
}

void ig_safetensors_read(struct ig_tensors *tensors, const void *data, size_t size) {
    struct reader r = {.job = tensors->job, .tensors = tensors};
    uint64_t begin;
    json_t *json = parse_header(r.job, data, size, &begin), *entry;
    const char *name;
    r.data = (const unsigned char *)data + begin;
    r.size = size - begin;
    json_object_foreach(json, name, entry) {
        if (strcmp(name, "__metadata__") != 0) add_tensor(&r, name, entry);
    }
    check_cover(&r);
    ig_undefer(r.job, json);
    json_decref(json);
}
