/*
 * Compiles CUDA C with NVIDIA's run-time compiler, which is loaded on first use: Ingot builds for GPUs on machines
 * without one, and for CPUs on machines without CUDA.
 */
#ifndef IG_TOOLCHAIN_NVRTC_H
#define IG_TOOLCHAIN_NVRTC_H

#include "toolchain/toolchain.h"

struct ig_nvrtc; /* the library's functions */

/* Loads NVRTC: from `path` if not NULL, else by name (libnvrtc.so, .so.13, .so.12), where the loader looks and in the
 * folders of installed toolkits. The library stays loaded. Raises INGOT_TOOLCHAIN naming the files tried. */
struct ig_nvrtc *ig_nvrtc_load(struct ig_job *job, const char *path);
/* "NVRTC 13.0"; recorded, since reproducibility depends on it. */
const char *ig_nvrtc_version(const struct ig_nvrtc *nvrtc);

/* Compiles each source to a cubin for `arch` ("sm_90a") and, if `portable`, also to PTX; `jobs` in parallel (0: one per
 * processor). The result depends on the sources, the arch and the compiler only. Raises INGOT_TOOLCHAIN with the
 * compiler's first error. */
void ig_nvrtc_compile(struct ig_job *job, const struct ig_nvrtc *nvrtc, const char *arch, bool portable, unsigned jobs,
                      const struct ig_source *sources, unsigned count,
                      void (*progress)(void *user, unsigned done, unsigned total), void *user,
                      struct ig_code *out_code);

#endif
