/* Tensor files: the format that a name implies, reading whole files, writing .npy. */
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

enum ingot_status tensor_file_read(const char *path, struct tensor_list *list, struct ingot_error *error) {
    if (ends_with(path, ".npz")) return npz_read(path, list, error);
    bool npy = ends_with(path, ".npy");
    if (!npy && !ends_with(path, ".pb")) {
        return cli_error(error, INGOT_BAD_TENSOR, "cannot read '%s': its name ends neither in .npy, .npz nor .pb",
                         path);
    }
    unsigned char *data = NULL;
    size_t size = 0;
    struct named_tensor tensor = {0};
    CLI_TRY(file_read(path, &data, &size, error));
    enum ingot_status status =
        npy ? npy_parse(data, size, &tensor.tensor, error) : onnx_tensor_parse(data, size, &tensor, error);
    free(data);
    if (status != INGOT_OK) return name_file(path, error, status);
    tensor_list_add(list, tensor);
    return INGOT_OK;
}

enum ingot_status tensor_file_write_npy(const char *path, const struct ingot_tensor *tensor,
                                        struct ingot_error *error) {
    size_t header_size, size = (size_t)ingot_tensor_elements(tensor) * ingot_dtype_size(tensor->dtype);
    FILE *file = fopen(path, "wb");
    if (!file) return cli_error(error, INGOT_IO, "cannot create '%s': %s", path, strerror(errno));
    char *header = npy_header(tensor, &header_size);
    bool written = fwrite(header, 1, header_size, file) == header_size &&
                   (size == 0 || fwrite(tensor->data, 1, size, file) == size);
    free(header);
    if (fclose(file) != 0 || !written)
        return cli_error(error, INGOT_IO, "cannot write '%s': %s", path, strerror(errno));
    return INGOT_OK;
}
