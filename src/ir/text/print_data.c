/* The text of constants' data; see print_data.h. Base 64 as in RFC 4648, with padding. */
#include "ir/text/print_data.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash/hash.h"
#include "ir/eval/eval.h"

enum { FEW = 16 };                         /* at most so many elements are printed as literals */
static const size_t max_absent = 1u << 30; /* bytes: the most zeros that a text may request */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* ---- Printing */

void ig_float_print(enum ingot_dtype dtype, double value, struct ig_text *text) {
    char digits[40] = "nan";
    int most = dtype == INGOT_F64 ? 17 : 9, least = dtype == INGOT_F64 ? 15 : 6;
    for (int precision = least; precision <= most && !isnan(value); precision++) { /* the shortest that reads back */
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        double back = strtod(digits, NULL);
        if (dtype == INGOT_F64 ? back == value : (float)back == (float)value) break;
    }
    ig_text_add(text, digits);
}

static void print_literals(enum ingot_dtype dtype, const void *bytes, size_t count, struct ig_text *text) {
    ig_text_add(text, "[");
    for (size_t i = 0; i < count; i++) {
        int64_t index = (int64_t)i;
        if (i > 0) ig_text_add(text, ",");
        if (ig_dtype_is_float(dtype))
            ig_float_print(dtype, ig_load_f64(dtype, bytes, index), text);
        else if (dtype == INGOT_U64)
            ig_text_printf(text, "%" PRIu64, (uint64_t)ig_load_i64(dtype, bytes, index));
        else
            ig_text_printf(text, "%" PRId64, ig_load_i64(dtype, bytes, index));
    }
    ig_text_add(text, "]");
}

static void print_base64(const unsigned char *bytes, size_t size, struct ig_text *text) {
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        uint32_t group = (uint32_t)bytes[i] << 16;
        if (left > 1) group |= (uint32_t)bytes[i + 1] << 8;
        if (left > 2) group |= bytes[i + 2];
        char digits[4] = {alphabet[group >> 18], alphabet[group >> 12 & 63], left > 1 ? alphabet[group >> 6 & 63] : '=',
                          left > 2 ? alphabet[group & 63] : '='};
        ig_text_add_n(text, digits, 4);
    }
}

void ig_data_print(const struct ig_type *type, const struct ig_data *data, bool in_full, struct ig_text *text) {
    size_t count = data->size / ingot_dtype_size(type->dtype);
    if (data->absent != 0) {
        ig_text_printf(text, "hash:%016" PRIx64, data->absent);
    } else if (count <= FEW) {
        print_literals(type->dtype, data->bytes, count, text);
    } else if (in_full) {
        ig_text_add(text, "base64:");
        print_base64(data->bytes, data->size, text);
    } else {
        uint64_t hash = ig_hash64(data->bytes, data->size);
        ig_text_printf(text, "hash:%016" PRIx64, hash != 0 ? hash : 1);
    }
}

/* ---- Parsing */

static bool parse_literal(enum ingot_dtype dtype, void *bytes, int64_t index, const char **inout_text) {
    char *end;
    const char *at = *inout_text;
    bool starts = *at == '-' || (*at >= '0' && *at <= '9') || (ig_dtype_is_float(dtype) && (*at == 'n' || *at == 'i'));
    if (!starts) return false; /* strtod and strtoll would skip spaces and accept more notations */
    if (ig_dtype_is_float(dtype))
        ig_store_f64(dtype, bytes, index, strtod(at, &end));
    else if (dtype == INGOT_U64)
        ig_store_i64(dtype, bytes, index, (int64_t)strtoull(at, &end, 10));
    else
        ig_store_i64(dtype, bytes, index, strtoll(at, &end, 10));
    *inout_text = end;
    return end != at;
}

static bool parse_literals(enum ingot_dtype dtype, void *bytes, int64_t count, const char **inout_text) {
    if (*(*inout_text)++ != '[') return false;
    for (int64_t i = 0; i < count; i++) {
        if (i > 0 && *(*inout_text)++ != ',') return false;
        if (!parse_literal(dtype, bytes, i, inout_text)) return false;
    }
    return *(*inout_text)++ == ']';
}

static bool parse_base64(unsigned char *bytes, size_t size, const char **inout_text) {
    for (size_t i = 0; i < size; i += 3) {
        uint32_t group = 0;
        for (size_t j = 0; j < 4; j++) {
            char c = *(*inout_text)++;
            bool padding = j > size - i;
            const char *digit = c != 0 ? strchr(alphabet, c) : NULL;
            if (padding ? c != '=' : digit == NULL) return false;
            group = group << 6 | (padding ? 0 : (uint32_t)(digit - alphabet));
        }
        for (size_t j = 0; j < 3 && i + j < size; j++)
            bytes[i + j] = (unsigned char)(group >> (16 - 8 * j));
    }
    return true;
}

static bool parse_hash(uint64_t *out_hash, const char **inout_text) {
    uint64_t hash = 0;
    for (int i = 0; i < 16; i++) {
        static const char digits[] = "0123456789abcdef";
        char c = *(*inout_text)++;
        const char *digit = c != 0 ? strchr(digits, c) : NULL;
        if (digit == NULL) return false;
        hash = hash << 4 | (uint64_t)(digit - digits);
    }
    *out_hash = hash;
    return hash != 0;
}

static bool accept(const char *word, const char **inout_text) {
    size_t length = strlen(word);
    if (strncmp(*inout_text, word, length) != 0) return false;
    *inout_text += length;
    return true;
}

const struct ig_data *ig_data_parse(struct ig_job *job, enum ingot_dtype dtype, int64_t count, size_t given,
                                    const char **inout_text) {
    struct ig_data *data = IG_NEW(job, struct ig_data);
    bool is_base64 = accept("base64:", inout_text), is_hash = !is_base64 && accept("hash:", inout_text);
    size_t size;
    if (count < 0 || !ig_size_mul((size_t)count, ingot_dtype_size(dtype), &size)) return NULL;
    /* A short text must not cause a large allocation: literals and base 64 are about as long as their data. */
    if (is_hash ? size > max_absent : (size_t)count > given || size / 4 > given) return NULL;
    void *bytes = ig_alloc(job, size + 1);
    bool good = is_base64 ? parse_base64(bytes, size, inout_text)
                : is_hash ? parse_hash(&data->absent, inout_text)
                          : parse_literals(dtype, bytes, count, inout_text);
    data->bytes = bytes;
    data->size = size;
    return good ? data : NULL;
}
