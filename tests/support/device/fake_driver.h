/* The fake NVIDIA driver that is built with the tests; see fake_cuda/fake_cuda.h. */
#ifndef TESTS_SUPPORT_FAKE_DRIVER_H
#define TESTS_SUPPORT_FAKE_DRIVER_H

#include "fake_cuda/fake_cuda.h"

struct fake_driver {
    char path[4096]; /* for ig_device_cuda_create_with */
    struct fake_cuda *cuda;
    fake_cuda_depth_function *depth;
    fake_cuda_current_function *current;
    int (*push)(void *context); /* for the caller's own contexts */
    int (*pop)(void **context);
};

/* Opens and resets it: two GPUs of sm_90 with 1 GiB each, and the kernels of gpu_code.h. */
void fake_driver_open(struct fake_driver *driver);

/* Opens and resets the fake cuBLASLt. `out_path` is for ig_device_cuda_use_library and has room for 4096 characters. */
struct fake_cublaslt;
struct fake_cublaslt *fake_cublaslt_open(char *out_path);
/* The same for cuDNN. */
struct fake_cudnn;
struct fake_cudnn *fake_cudnn_open(char *out_path);

#endif
