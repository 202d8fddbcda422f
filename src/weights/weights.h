/*
 * Files of named tensors: NumPy's .npz and .npy, and safetensors. They are untrusted: every size is checked against the
 * file before anything of that size is read or allocated. (ONNX models have their tensors read by the importer.)
 */
#ifndef IG_WEIGHTS_WEIGHTS_H
#define IG_WEIGHTS_WEIGHTS_H

#include "base/job.h"

struct ig_tensors {
    struct ig_job *job; /* owns names and data, but for those that lie in the caller's memory */
    IG_VEC(struct ingot_named_tensor) list;
};

/* All three add tensors and raise INGOT_BAD_TENSOR; messages do not name the file. */

/* The data are used in place where they are aligned to their type: `data` must live as long as the job. */
void ig_safetensors_read(struct ig_tensors *tensors, const void *data, size_t size);
void ig_npz_read(struct ig_tensors *tensors, const void *data, size_t size);
void ig_npy_read(struct ig_tensors *tensors, const char *name, const void *data, size_t size);

/* Versions 1 to 3, either byte order, either storage order. The data are the caller's: ig_npy_bytes of them. */
enum ingot_status ig_npy_parse(const void *data, size_t size, const struct ingot_allocator *allocator,
                               struct ingot_tensor *out_tensor, struct ingot_error *error);
size_t ig_npy_bytes(const struct ingot_tensor *tensor);

/* The header that precedes the data in a .npy file. */
enum { IG_NPY_HEADER = 512 };
size_t ig_npy_header(const struct ingot_tensor *tensor, char out_header[IG_NPY_HEADER]);

#endif
