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

/*
 * Compiles each source to a cubin for `arch` ("sm_90a") or, if `is_portable`, to PTX, `jobs` in parallel (0: one per
 * processor). `compiled` gets them one by one. Raises INGOT_TOOLCHAIN with the compiler's first error.
 */
void ig_nvrtc_objects(struct ig_job *job, const struct ig_nvrtc *nvrtc, const char *arch, bool is_portable,
                      unsigned jobs, const struct ig_source *sources, unsigned count, ig_compiled *compiled,
                      void *user);
/* What a cubin, or PTX, depends on besides the source, as text: version and build of the library, and options. */
const char *ig_nvrtc_identity(struct ig_job *job, const struct ig_nvrtc *nvrtc, const char *arch, bool is_portable);
/* Puts cubins, and the PTX of each (NULL: none), into one blob. */
void ig_nvrtc_lay_out(struct ig_job *job, const struct ig_object_code *cubins, const struct ig_object_code *portable,
                      unsigned count, struct ig_code *out_code);

#endif
