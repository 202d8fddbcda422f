/* ingot_tensors_*: the tensors of a file, of any format. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "compile/refit/refit.h"
#include "import/onnx/import.h"
#include "weights/adapter.h"

struct ingot_tensors {
    const struct ingot_allocator *allocator;
    struct ig_job job;
    const struct ingot_named_tensor *at;
    size_t count;
};

struct opening {
    struct ingot_tensors *tensors;
    const char *path;
    const struct ingot_named_tensor *base; /* that an adapter is merged with */
    size_t n_base;
    const struct ingot_engine *engine; /* that has the slot for an adapter */
    unsigned slot;
};

static void unmap(void *mapping) {
    ig_file_unmap(mapping);
}

static bool ends_with(const char *text, const char *end) {
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

static void read_onnx(struct ingot_tensors *out, const char *path, const struct ig_mapping *file) {
    struct ig_job *job = &out->job;
    const char *slash = strrchr(path, '/');
    const char *folder = !slash ? "." : slash == path ? "/" : ig_strndup(job, path, (size_t)(slash - path));
    const struct ig_initializers *all = ig_import_onnx_initializers(job, file->data, file->size, folder);
    out->at = ig_refit_tensors(job, all, &out->count);
}

static const struct ig_mapping *map_file(struct ig_job *job, const char *path) {
    struct ig_mapping *file = IG_NEW(job, struct ig_mapping);
    struct ingot_error error = {INGOT_INTERNAL, ""};
    if (ig_file_map(path, file, &error) != INGOT_OK) ig_raise_error(job, &error);
    ig_defer(job, unmap, file);
    return file;
}

static void open_file(struct ig_job *job, void *argument) {
    struct opening *o = argument;
    struct ig_tensors list = {.job = job};
    struct ig_where where = {.verb = "read", .name = o->path};
    const struct ig_mapping *file = map_file(job, o->path);
    ig_where_push(job, &where);
    if (ends_with(o->path, ".onnx"))
        read_onnx(o->tensors, o->path, file);
    else if (ends_with(o->path, ".safetensors"))
        ig_safetensors_read(&list, file->data, file->size);
    else if (ends_with(o->path, ".npz"))
        ig_npz_read(&list, file->data, file->size);
    else if (ends_with(o->path, ".npy"))
        ig_npy_read(&list, "", file->data, file->size);
    else
        ig_raise(job, INGOT_BAD_TENSOR, "its name ends neither in .onnx, .safetensors, .npz nor .npy");
    ig_where_pop(job);
    if (o->tensors->at) return;
    o->tensors->at = list.list.at;
    o->tensors->count = list.list.count;
}

struct adapter_files {
    const struct ig_mapping *config, *matrices;
};

static struct adapter_files map_adapter(struct ig_job *job, const char *folder) {
    return (struct adapter_files){
        .config = map_file(job, ig_format(job, "%s/adapter_config.json", folder)),
        .matrices = map_file(job, ig_format(job, "%s/adapter_model.safetensors", folder)),
    };
}

static void open_adapter(struct ig_job *job, void *argument) {
    struct opening *o = argument;
    struct ig_tensors matrices = {.job = job}, list = {.job = job};
    struct ig_where where = {.verb = "apply", .name = o->path};
    const struct adapter_files files = map_adapter(job, o->path);
    ig_where_push(job, &where);
    ig_safetensors_read(&matrices, files.matrices->data, files.matrices->size);
    ig_adapter_merge(&list, files.config->data, files.config->size, &matrices, o->base, o->n_base);
    ig_where_pop(job);
    o->tensors->at = list.list.at;
    o->tensors->count = list.list.count;
}

static void open_slot(struct ig_job *job, void *argument) {
    struct opening *o = argument;
    struct ig_tensors matrices = {.job = job}, list = {.job = job};
    struct ig_where where = {.verb = "apply", .name = o->path};
    const struct adapter_files files = o->path ? map_adapter(job, o->path) : (struct adapter_files){NULL, NULL};
    const size_t n = ingot_engine_initializer_count(o->engine);
    struct ingot_initializer_info *infos = IG_NEW_ARRAY(job, struct ingot_initializer_info, n + 1);
    for (size_t i = 0; i < n; i++)
        ingot_engine_initializer(o->engine, i, &infos[i]);
    if (o->path) ig_where_push(job, &where);
    if (o->path) ig_safetensors_read(&matrices, files.matrices->data, files.matrices->size);
    ig_adapter_fill(&list, o->path ? files.config->data : NULL, o->path ? files.config->size : 0, &matrices, infos, n,
                    o->slot);
    if (o->path) ig_where_pop(job);
    o->tensors->at = list.list.at;
    o->tensors->count = list.list.count;
}

static enum ingot_status open_by(void (*body)(struct ig_job *job, void *argument), struct opening *opening,
                                 const struct ingot_allocator *allocator, struct ingot_tensors **out_tensors,
                                 struct ingot_error *error) {
    if (!allocator) allocator = &ig_libc_allocator;
    struct ingot_tensors *tensors = ig_allocate(allocator, sizeof *tensors, _Alignof(struct ingot_tensors));
    if (!tensors) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory");
    tensors->allocator = allocator;
    ig_job_init(&tensors->job, allocator);
    opening->tensors = tensors;
    enum ingot_status status = ig_job_run(&tensors->job, body, opening, error);
    if (status != INGOT_OK) {
        ingot_tensors_close(tensors);
        return status;
    }
    *out_tensors = tensors;
    return INGOT_OK;
}

enum ingot_status ingot_tensors_open(const char *path, const struct ingot_allocator *allocator,
                                     struct ingot_tensors **out_tensors, struct ingot_error *error) {
    struct opening opening = {.path = path};
    if (!path || !out_tensors)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_tensors_open: %s is NULL", path ? "out_tensors" : "path");
    return open_by(open_file, &opening, allocator, out_tensors, error);
}

enum ingot_status ingot_tensors_open_adapter(const char *folder, const struct ingot_named_tensor *base, size_t n_base,
                                             const struct ingot_allocator *allocator,
                                             struct ingot_tensors **out_tensors, struct ingot_error *error) {
    struct opening opening = {.path = folder, .base = base, .n_base = n_base};
    if (!folder || !out_tensors || (!base && n_base))
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_tensors_open_adapter: NULL argument");
    for (size_t i = 0; i < n_base; i++) {
        if (!base[i].name) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "tensor %zu has no name", i);
    }
    return open_by(open_adapter, &opening, allocator, out_tensors, error);
}

enum ingot_status ingot_tensors_open_slot(const char *folder, const struct ingot_engine *engine, unsigned slot,
                                          const struct ingot_allocator *allocator, struct ingot_tensors **out_tensors,
                                          struct ingot_error *error) {
    struct opening opening = {.path = folder, .engine = engine, .slot = slot};
    if (!engine || !out_tensors)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_tensors_open_slot: %s is NULL",
                      engine ? "out_tensors" : "engine");
    if (slot == 0) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "slots have numbers from 1 on, not 0");
    return open_by(open_slot, &opening, allocator, out_tensors, error);
}

const struct ingot_named_tensor *ingot_tensors_list(const struct ingot_tensors *tensors, size_t *out_count) {
    *out_count = tensors->count;
    return tensors->at;
}

void ingot_tensors_close(struct ingot_tensors *tensors) {
    if (!tensors) return;
    ig_job_deinit(&tensors->job);
    ig_release(tensors->allocator, tensors, sizeof *tensors);
}

enum ingot_status ingot_tensors_write_npy(const char *path, const struct ingot_tensor *tensor,
                                          struct ingot_error *error) {
    char header[IG_NPY_HEADER];
    if (!path || !tensor) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_tensors_write_npy: NULL argument");
    size_t header_size = ig_npy_header(tensor, header);
    size_t size = (size_t)ingot_tensor_elements(tensor) * ingot_dtype_size(tensor->dtype);
    FILE *file = fopen(path, "wb");
    if (!file) return IG_ERR(error, INGOT_IO, "cannot create '%s': %s", path, strerror(errno));
    bool written = fwrite(header, 1, header_size, file) == header_size &&
                   (size == 0 || fwrite(tensor->data, 1, size, file) == size);
    if (fclose(file) != 0 || !written) return IG_ERR(error, INGOT_IO, "cannot write '%s': %s", path, strerror(errno));
    return INGOT_OK;
}
