/* NumPy's .npz: a zip archive of .npy members, named as the arrays. libzip reads all of it and verifies checksums. */
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "tensor/tensor.h"

/* A member's bytes. Its declared size is not trusted: memory grows with the bytes actually read. */
static enum ingot_status read_member(zip_file_t *file, zip_uint64_t claimed, unsigned char **out_data, size_t *out_size,
                                     struct ingot_error *error) {
    size_t capacity = claimed < 1 << 20 ? (size_t)claimed + 1 : 1 << 20, size = 0;
    unsigned char *data = cli_alloc(capacity, 1);
    for (;;) {
        if (size == capacity) {
            capacity *= 2;
            data = cli_resize(data, capacity, 1);
        }
        zip_int64_t got = zip_fread(file, data + size, capacity - size);
        if (got < 0) {
            free(data);
            return cli_error(error, INGOT_BAD_TENSOR, "%s", zip_file_strerror(file));
        }
        if (got == 0) break;
        size += (size_t)got;
    }
    *out_data = data;
    *out_size = size;
    return INGOT_OK;
}

static enum ingot_status parse_member(zip_t *archive, zip_uint64_t index, const zip_stat_t *info,
                                      struct tensor_list *list, struct ingot_error *error) {
    unsigned char *data = NULL;
    size_t size = 0;
    struct named_tensor tensor = {0};
    zip_file_t *file = zip_fopen_index(archive, index, 0);
    if (!file) return cli_error(error, INGOT_BAD_TENSOR, "%s", zip_strerror(archive));
    enum ingot_status status = read_member(file, info->size, &data, &size, error);
    zip_fclose(file);
    CLI_TRY(status);
    status = npy_parse(data, size, &tensor.tensor, error);
    free(data);
    CLI_TRY(status);
    size_t length = strlen(info->name);
    tensor.name = cli_strdup(info->name);
    if (length > 4 && strcmp(info->name + length - 4, ".npy") == 0) tensor.name[length - 4] = 0;
    tensor_list_add(list, tensor);
    return INGOT_OK;
}

enum ingot_status npz_read(const char *path, struct tensor_list *list, struct ingot_error *error) {
    int code = 0;
    zip_t *archive = zip_open(path, ZIP_RDONLY, &code);
    if (!archive) {
        zip_error_t reason;
        zip_error_init_with_code(&reason, code);
        cli_error(error, code == ZIP_ER_OPEN || code == ZIP_ER_NOENT ? INGOT_IO : INGOT_BAD_TENSOR,
                  "cannot open '%s': %s", path, zip_error_strerror(&reason));
        zip_error_fini(&reason);
        return error ? error->status : INGOT_BAD_TENSOR;
    }
    enum ingot_status status = INGOT_OK;
    zip_int64_t count = zip_get_num_entries(archive, 0);
    for (zip_int64_t i = 0; i < count && status == INGOT_OK; i++) {
        zip_stat_t info;
        struct ingot_error inner = {INGOT_BAD_TENSOR, "its directory is damaged"};
        const char *name = "?";
        status = INGOT_BAD_TENSOR;
        if (zip_stat_index(archive, (zip_uint64_t)i, 0, &info) == 0 && info.valid & ZIP_STAT_NAME) {
            name = info.name;
            status = parse_member(archive, (zip_uint64_t)i, &info, list, &inner);
        }
        if (status != INGOT_OK) {
            cli_error(error, status, "cannot read '%.200s' of '%.300s': %.400s", name, path, inner.message);
        }
    }
    zip_discard(archive);
    return status;
}
