/* Tensor files: the format that a name implies, reading whole files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tensor/tensor.h"

enum ingot_status file_read(const char *path, unsigned char **out_data, size_t *out_size, struct ingot_error *error) {
    struct stat info;
    FILE *file = fopen(path, "rb");
    if (!file) return cli_error(error, INGOT_IO, "cannot open '%s': %s", path, strerror(errno));
    if (fstat(fileno(file), &info) != 0 || !S_ISREG(info.st_mode)) {
        fclose(file);
        return cli_error(error, INGOT_IO, "cannot read '%s': not a regular file", path);
    }
    size_t size = (size_t)info.st_size;
    unsigned char *data = cli_alloc(size + 1, 1); /* NUL-terminated, for text */
    bool whole = fread(data, 1, size, file) == size;
    fclose(file);
    if (!whole) {
        free(data);
        return cli_error(error, INGOT_IO, "cannot read '%s': it ended early", path);
    }
    *out_data = data;
    *out_size = size;
    return INGOT_OK;
}

static bool ends_with(const char *text, const char *end) {
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

/* "cannot read 'x.npy': <what was wrong>" */
static enum ingot_status name_file(const char *path, struct ingot_error *error, enum ingot_status status) {
    if (!error) return status;
    struct ingot_error inner = *error;
    return cli_error(error, status, "cannot read '%.300s': %.700s", path, inner.message);
}

/* Copies the tensors of a file that the library reads. */
static enum ingot_status read_named(const char *path, struct tensor_list *list, struct ingot_error *error) {
    struct ingot_tensors *file;
    size_t count;
    enum ingot_status status = INGOT_OK;
    CLI_TRY(ingot_tensors_open(path, NULL, &file, error));
    const struct ingot_named_tensor *tensors = ingot_tensors_list(file, &count);
    for (size_t i = 0; i < count && status == INGOT_OK; i++) {
        struct named_tensor copy = {.tensor = tensors[i].tensor};
        status = tensor_allocate(&copy.tensor, error);
        if (status != INGOT_OK) break;
        size_t size = (size_t)ingot_tensor_elements(&copy.tensor) * ingot_dtype_size(copy.tensor.dtype);
        if (size > 0) memcpy(copy.tensor.data, tensors[i].tensor.data, size);
        if (*tensors[i].name) copy.name = cli_strdup(tensors[i].name);
        tensor_list_add(list, copy);
    }
    ingot_tensors_close(file);
    return status;
}

enum ingot_status tensor_file_read(const char *path, struct tensor_list *list, struct ingot_error *error) {
    if (ends_with(path, ".npy") || ends_with(path, ".npz") || ends_with(path, ".safetensors"))
        return read_named(path, list, error);
    if (!ends_with(path, ".pb")) {
        return cli_error(error, INGOT_BAD_TENSOR,
                         "cannot read '%s': its name ends neither in .npy, .npz, .safetensors nor .pb", path);
    }
    unsigned char *data = NULL;
    size_t size = 0;
    struct named_tensor tensor = {0};
    CLI_TRY(file_read(path, &data, &size, error));
    enum ingot_status status = onnx_tensor_parse(data, size, &tensor, error);
    free(data);
    if (status != INGOT_OK) return name_file(path, error, status);
    tensor_list_add(list, tensor);
    return INGOT_OK;
}
