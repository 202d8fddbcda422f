/*
 * External data: tensors whose elements lie in files beside the model. A file is mapped once and stays mapped until the
 * job ends, so that weights are used in place. Models are untrusted, so locations may not leave the folder, neither by
 * their text nor through symbolic links. Source: onnx.ai, "External data".
 */
#include "import/onnx/importer.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

struct ig_onnx_file {
    struct ig_onnx_file *next;
    const char *location;
    struct ig_mapping mapping;
};

void ig_onnx_release_files(void *argument) {
    struct ig_onnx *import = argument;
    for (struct ig_onnx_file *file = import->files; file; file = file->next)
        ig_file_unmap(&file->mapping);
    import->files = NULL;
}

/* Is the location relative, without a component ".."? */
static bool stays_inside(const char *location) {
    if (*location == '/' || *location == '\0') return false;
    for (const char *part = location; part; part = strchr(part, '/')) {
        part += *part == '/';
        size_t length = strcspn(part, "/");
        if (length == 2 && memcmp(part, "..", 2) == 0) return false;
        if (length == 0 && *part == '\0') return false;
    }
    return true;
}

/* Compares both paths with all links resolved. The results are bounded by PATH_MAX, so they live on the stack. */
static bool resolves_inside(const char *folder, const char *path) {
    char real_folder[PATH_MAX], real_path[PATH_MAX];
    if (!realpath(folder, real_folder)) return false;
    if (!realpath(path, real_path)) return true; /* opening it will report why */
    size_t length = strlen(real_folder);
    if (length == 1) return true;
    return strncmp(real_folder, real_path, length) == 0 && real_path[length] == '/';
}

static const struct ig_mapping *map_file(struct ig_onnx *import, const char *location, const char *tensor) {
    struct ig_job *job = import->job;
    for (struct ig_onnx_file *file = import->files; file; file = file->next) {
        if (strcmp(file->location, location) == 0) return &file->mapping;
    }
    if (!import->folder) {
        ig_raise(job, INGOT_BAD_MODEL, "tensor '%s' lies in the file '%s', but the model has no folder", tensor,
                 location);
    }
    const char *path = ig_format(job, "%s/%s", *import->folder ? import->folder : ".", location);
    if (!stays_inside(location) || !resolves_inside(*import->folder ? import->folder : ".", path)) {
        ig_raise(job, INGOT_BAD_MODEL, "tensor '%s' lies in '%s', outside of the model's folder", tensor, location);
    }
    struct ig_onnx_file *file = IG_NEW(job, struct ig_onnx_file);
    struct ingot_error error = {0};
    file->location = location;
    if (ig_file_map(path, &file->mapping, &error) != INGOT_OK) ig_raise_error(job, &error);
    file->next = import->files;
    import->files = file;
    return &file->mapping;
}

static uint64_t parse_number(struct ig_job *job, const char *tensor, const char *key, const char *text) {
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && value < UINT64_MAX / 10 - 9; at++)
        value = value * 10 + (uint64_t)(*at - '0');
    if (at == text || *at) {
        ig_raise(job, INGOT_BAD_MODEL, "%s of the external data of tensor '%s' is '%s', expected a number", key, tensor,
                 text);
    }
    return value;
}

const void *ig_onnx_external(struct ig_onnx *import, const Onnx__TensorProto *tensor, size_t size) {
    struct ig_job *job = import->job;
    const char *location = NULL, *name = tensor->name ? tensor->name : "?";
    uint64_t offset = 0, length = size;
    for (size_t i = 0; i < tensor->n_external_data; i++) {
        const char *key = tensor->external_data[i]->key, *value = tensor->external_data[i]->value;
        if (!key || !value) continue;
        if (strcmp(key, "location") == 0) location = value;
        if (strcmp(key, "offset") == 0) offset = parse_number(job, name, key, value);
        if (strcmp(key, "length") == 0) length = parse_number(job, name, key, value);
    }
    if (!location) ig_raise(job, INGOT_BAD_MODEL, "the external data of tensor '%s' have no location", name);
    if (length != size) {
        ig_raise(job, INGOT_BAD_MODEL, "tensor '%s' has %llu bytes of external data, expected %zu", name,
                 (unsigned long long)length, size);
    }
    const struct ig_mapping *mapping = map_file(import, location, name);
    if (offset > mapping->size || size > mapping->size - offset) {
        ig_raise(job, INGOT_BAD_MODEL, "the data of tensor '%s' reach beyond the end of '%s' (%zu bytes)", name,
                 location, mapping->size);
    }
    return size ? (const uint8_t *)mapping->data + offset : NULL;
}
