/*
 * The part of NVRTC that Ingot uses: functions as the "NVRTC" manual of the CUDA toolkit documents them, declared here
 * because NVIDIA's headers need not be present where Ingot is built. All return 0 or an error code.
 */
#ifndef IG_TOOLCHAIN_NVRTC_API_H
#define IG_TOOLCHAIN_NVRTC_API_H

#include <stddef.h>

#include "base/job.h"

struct ig_nvrtc_program; /* opaque, as nvrtcProgram is */

enum { IG_NVRTC_SUCCESS = 0, IG_NVRTC_OUT_OF_MEMORY = 1, IG_NVRTC_COMPILATION = 6 };

struct ig_nvrtc {
    void *library;
    const char *path;    /* as passed to dlopen */
    const char *version; /* "NVRTC 13.0" */
    const char *option;  /* an additional option for every program, for tests; NULL: none */
    bool refuses_losses; /* fails where the compiler notes a loss of performance, for tests */
    const char *(*get_error_string)(int result);
    int (*get_version)(int *out_major, int *out_minor);
    int (*create_program)(struct ig_nvrtc_program **out_program, const char *source, const char *name, int n_headers,
                          const char *const *headers, const char *const *header_names);
    int (*destroy_program)(struct ig_nvrtc_program **program);
    int (*compile_program)(struct ig_nvrtc_program *program, int n_options, const char *const *options);
    int (*get_log_size)(struct ig_nvrtc_program *program, size_t *out_size); /* includes the terminator */
    int (*get_log)(struct ig_nvrtc_program *program, char *out_log);
    int (*get_cubin_size)(struct ig_nvrtc_program *program, size_t *out_size);
    int (*get_cubin)(struct ig_nvrtc_program *program, char *out_cubin);
    int (*get_ptx_size)(struct ig_nvrtc_program *program, size_t *out_size); /* includes the terminator */
    int (*get_ptx)(struct ig_nvrtc_program *program, char *out_ptx);
};

/* Which library it is (program.h). */
const char *ig_nvrtc_program(struct ig_job *job, const struct ig_nvrtc *nvrtc);

#endif
