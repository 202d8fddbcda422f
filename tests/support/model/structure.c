#define _GNU_SOURCE
#include "support/model/structure.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ingot/ingot.h"
#include "onnx.pb-c.h"

/* Larger initialisers are external data, in the file. */
enum { LARGEST_INSIDE = 4096, ALIGNMENT = 4096, EXTERNAL = 1 };

struct filling {
    int file;
    uint64_t end; /* of the file */
    unsigned count;
};

static void *must_allocate(size_t size) {
    void *memory = calloc(1, size ? size : 1);
    if (!memory) abort();
    return memory;
}

static char *text(const char *format, unsigned long long number) {
    char *result = NULL;
    if (asprintf(&result, format, number) < 0) abort();
    return result;
}

static size_t element_size(const Onnx__TensorProto *tensor) {
    switch (tensor->data_type) {
    case 1: return 4;  /* FLOAT */
    case 10: return 2; /* FLOAT16 */
    default: return 0; /* others contain their data */
    }
}

static size_t size_of(const Onnx__TensorProto *tensor) {
    size_t size = element_size(tensor);
    for (size_t i = 0; i < tensor->n_dims; i++)
        size *= (size_t)tensor->dims[i];
    return size;
}

/* Fills each differently, so that they are not merged as equal constants. */
static void fill_inside(struct filling *f, Onnx__TensorProto *tensor, size_t size) {
    tensor->has_raw_data = 1;
    tensor->raw_data.len = size;
    tensor->raw_data.data = must_allocate(size);
    float value = 0.5f + 1e-4f * (float)(f->count % 4096);
    for (size_t at = 0; element_size(tensor) == sizeof value && at < size; at += sizeof value)
        memcpy(tensor->raw_data.data + at, &value, sizeof value);
}

static void add_entry(Onnx__TensorProto *tensor, const char *key, char *value) {
    Onnx__StringStringEntryProto *entry = must_allocate(sizeof *entry);
    onnx__string_string_entry_proto__init(entry);
    entry->key = strdup(key);
    entry->value = value;
    tensor->external_data[tensor->n_external_data++] = entry;
}

static bool fill_outside(struct filling *f, Onnx__TensorProto *tensor, size_t size) {
    float first = 1e-4f * (float)f->count;
    tensor->external_data = must_allocate(2 * sizeof *tensor->external_data);
    add_entry(tensor, "location", strdup("weights"));
    add_entry(tensor, "offset", text("%llu", f->end));
    tensor->has_data_location = 1;
    tensor->data_location = EXTERNAL;
    bool well = pwrite(f->file, &first, sizeof first, (off_t)f->end) == (ssize_t)sizeof first;
    f->end += (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return well && ftruncate(f->file, (off_t)f->end) == 0;
}

static bool has_data(const Onnx__TensorProto *tensor) {
    return tensor->has_raw_data || tensor->n_external_data || tensor->n_float_data || tensor->n_int32_data ||
           tensor->n_int64_data || tensor->n_double_data || tensor->n_uint64_data;
}

static bool fill(struct filling *f, Onnx__ModelProto *model) {
    for (size_t i = 0; model->graph && i < model->graph->n_initializer; i++) {
        Onnx__TensorProto *tensor = model->graph->initializer[i];
        size_t size = size_of(tensor);
        if (has_data(tensor) || size == 0) continue;
        f->count++;
        if (size <= LARGEST_INSIDE) {
            fill_inside(f, tensor, size);
        } else if (!fill_outside(f, tensor, size)) {
            return false;
        }
    }
    return true;
}

static bool read_file(const char *path, void **out_data, size_t *out_size) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) return false;
    long size = ftell(file);
    rewind(file);
    *out_data = must_allocate((size_t)size);
    *out_size = (size_t)size;
    bool well = fread(*out_data, 1, *out_size, file) == *out_size;
    fclose(file);
    return well;
}

static bool write_model(const char *path, const Onnx__ModelProto *model) {
    size_t size = onnx__model_proto__get_packed_size(model);
    void *data = must_allocate(size);
    onnx__model_proto__pack(model, data);
    FILE *file = fopen(path, "wb");
    bool well = file && fwrite(data, 1, size, file) == size;
    if (file && fclose(file) != 0) well = false;
    free(data);
    return well;
}

char *structure_fill(const char *path, const char *folder) {
    void *data;
    size_t size;
    char *model_file, *weights_file;
    if (!read_file(path, &data, &size)) return NULL;
    Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, size, data);
    free(data);
    if (!model) return NULL;
    if (asprintf(&model_file, "%s/model.onnx", folder) < 0 || asprintf(&weights_file, "%s/weights", folder) < 0)
        abort();
    struct filling f = {.file = open(weights_file, O_CREAT | O_TRUNC | O_RDWR, 0600)};
    bool well = f.file >= 0 && fill(&f, model) && write_model(model_file, model);
    if (f.file >= 0) close(f.file);
    onnx__model_proto__free_unpacked(model, NULL);
    free(weights_file);
    if (well && f.count) return model_file;
    free(model_file);
    return well ? strdup(path) : NULL;
}
