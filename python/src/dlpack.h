/*
 * The binary interface of DLPack 1.x, by which array libraries show each other their tensors without a copy: the structs of
 * its specification (https://dmlc.github.io/dlpack), those of the C exchange API included, under names of Ingot's own.
 */
#ifndef INGOT_PYTHON_DLPACK_H
#define INGOT_PYTHON_DLPACK_H

#include <stdint.h>

enum { DL_MAJOR = 1, DL_MINOR = 1 }; /* what is written here: other minors have the same layout */

enum dl_device_type { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };
enum dl_code {
    DL_INT = 0,
    DL_UINT = 1,
    DL_FLOAT = 2,
    DL_BFLOAT = 4,
    DL_BOOL = 6,
    DL_FLOAT8_E4M3FN = 10,
    DL_FLOAT8_E4M3FNUZ = 11,
    DL_FLOAT8_E5M2 = 12,
    DL_FLOAT8_E5M2FNUZ = 13,
    DL_FLOAT8_E8M0FNU = 14,
};
enum { DL_READ_ONLY = 1, DL_IS_COPIED = 2 }; /* flags */

struct dl_version {
    uint32_t major, minor;
};

struct dl_device {
    int32_t type; /* enum dl_device_type */
    int32_t id;
};

struct dl_type {
    uint8_t code; /* enum dl_code */
    uint8_t bits;
    uint16_t lanes;
};

struct dl_tensor {
    void *data;
    struct dl_device device;
    int32_t ndim;
    struct dl_type dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: dense, row-major */
    uint64_t byte_offset;
};

/* In capsules named "dltensor"; "used_dltensor" once it is taken. */
struct dl_managed {
    struct dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
};

/* In capsules named "dltensor_versioned"; "used_dltensor_versioned" once it is taken. */
struct dl_managed_versioned {
    struct dl_version version;
    void *context;
    void (*deleter)(struct dl_managed_versioned *self);
    uint64_t flags;
    struct dl_tensor tensor;
};

/* In a capsule named "dlpack_exchange_api", the attribute __dlpack_c_exchange_api__ of a tensor's type. Functions return 0,
 * or -1 with Python's exception set; none synchronises streams. */
struct dl_exchange_api {
    struct dl_version version;
    struct dl_exchange_api *previous; /* of an older major version */
    int (*allocate)(struct dl_tensor *prototype, struct dl_managed_versioned **out_tensor, void *error_context,
                    void (*set_error)(void *error_context, const char *kind, const char *message));
    int (*export_managed)(void *object, struct dl_managed_versioned **out_tensor);
    int (*import_managed)(struct dl_managed_versioned *tensor, void **out_object); /* takes the tensor */
    int (*read)(void *object, struct dl_tensor *out_tensor); /* valid until control returns to Python; may be NULL */
    int (*current_stream)(int32_t device_type, int32_t device, void **out_stream);
};

#endif
