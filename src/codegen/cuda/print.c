/* Loop IR to CUDA C; see print.h. */
#include "codegen/cuda/print.h"

const char *ig_cuda_kernel(struct ig_job *job, const struct ig_kernel *kernel, const char *symbol,
                           const struct ig_target *target) {
    (void)kernel, (void)target;
    ig_raise(job, INGOT_UNSUPPORTED, "kernel '%s' cannot be printed for CUDA yet", symbol);
}
