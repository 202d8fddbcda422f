/* Tensors with a name and their own memory, and the files that store them. */
#ifndef CLI_TENSOR_H
#define CLI_TENSOR_H

#include "cli.h"

struct named_tensor {
    char *name; /* may be NULL */
    struct ingot_tensor tensor;
};

struct tensor_list {
    struct named_tensor *at;
    size_t count;
};

void named_tensor_free(struct named_tensor *tensor);
void tensor_list_add(struct tensor_list *list, struct named_tensor tensor);
struct named_tensor *tensor_list_find(const struct tensor_list *list, const char *name);
void tensor_list_free(struct tensor_list *list);

/* Allocates zeroed data for the tensor's type and dims; INGOT_BAD_TENSOR if they are unreasonable. */
enum ingot_status tensor_allocate(struct ingot_tensor *tensor, struct ingot_error *error);
/* "f32[1,3,224,224]" */
char *tensor_type_text(const struct ingot_tensor *tensor);
double tensor_get(const struct ingot_tensor *tensor, int64_t index);
/* Integers of all types; u64 reinterpreted; of narrow floats, the code. */
int64_t tensor_get_int(const struct ingot_tensor *tensor, int64_t index);
void tensor_set(const struct ingot_tensor *tensor, int64_t index, double value);
/* Of 16 bits and more. */
bool dtype_is_float(enum ingot_dtype dtype);
/* A copy whose floats are of another type, rounded to nearest; the caller frees its data. */
enum ingot_status tensor_cast(const struct ingot_tensor *from, enum ingot_dtype dtype, struct ingot_tensor *out_tensor,
                              struct ingot_error *error);
/* Bits of elements that have less than 8, else 0. */
int dtype_packed_bits(enum ingot_dtype dtype);

/*
 * Reads a file of one tensor (.npy; .pb: an ONNX TensorProto) or several (.npz, .safetensors), by its extension, and adds
 * them to the list. Every error names the file.
 */
enum ingot_status tensor_file_read(const char *path, struct tensor_list *list, struct ingot_error *error);

/* An ONNX TensorProto from memory; errors do not name the file. */
enum ingot_status onnx_tensor_parse(const void *data, size_t size, struct named_tensor *out_tensor,
                                    struct ingot_error *error);

/* Reads a whole file; the caller frees *out_data. */
enum ingot_status file_read(const char *path, unsigned char **out_data, size_t *out_size, struct ingot_error *error);

#endif
