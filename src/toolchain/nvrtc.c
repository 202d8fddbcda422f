/*
 * Finds and loads NVRTC; see nvrtc.h. nvrtc_compile.c uses it.
 */
#define _GNU_SOURCE /* dladdr */
#include "toolchain/nvrtc.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "toolchain/nvrtc_api.h"
#include "toolchain/program.h"

/* First the bare name, which development toolkits have, then the newest. */
static const char *const names[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"};
/* Searched below a folder that the user names: itself, a toolkit, Python's site-packages with NVIDIA's wheels. */
static const char *const inside[] = {"", "/lib64", "/lib", "/nvidia/cuda_nvrtc/lib", "/nvidia/cu13/lib"};
/* Where toolkits are installed but the loader does not search. */
static const char *const folders[] = {"/usr/local/cuda/lib64", "/opt/cuda/lib64",
                                      "/usr/local/cuda/targets/x86_64-linux/lib"};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
    {"nvrtcGetErrorString", offsetof(struct ig_nvrtc, get_error_string)},
    {"nvrtcVersion", offsetof(struct ig_nvrtc, get_version)},
    {"nvrtcCreateProgram", offsetof(struct ig_nvrtc, create_program)},
    {"nvrtcDestroyProgram", offsetof(struct ig_nvrtc, destroy_program)},
    {"nvrtcCompileProgram", offsetof(struct ig_nvrtc, compile_program)},
    {"nvrtcGetProgramLogSize", offsetof(struct ig_nvrtc, get_log_size)},
    {"nvrtcGetProgramLog", offsetof(struct ig_nvrtc, get_log)},
    {"nvrtcGetCUBINSize", offsetof(struct ig_nvrtc, get_cubin_size)},
    {"nvrtcGetCUBIN", offsetof(struct ig_nvrtc, get_cubin)},
    {"nvrtcGetPTXSize", offsetof(struct ig_nvrtc, get_ptx_size)},
    {"nvrtcGetPTX", offsetof(struct ig_nvrtc, get_ptx)},
};

/* Never unloaded: later builds use it too, and loading it takes longer than compiling a small kernel. */
static bool open_at(struct ig_nvrtc *n, const char *path) {
    n->library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    n->path = path;
    return n->library != NULL;
}

static bool open_in(struct ig_job *job, struct ig_nvrtc *n, const char *folder) {
    for (size_t i = 0; i < COUNT(names); i++) {
        if (open_at(n, ig_format(job, "%s/%s", folder, names[i]))) return true;
    }
    return false;
}

static void open_given(struct ig_job *job, struct ig_nvrtc *n, const char *path) {
    struct stat info;
    if (!*path) ig_raise(job, INGOT_TOOLCHAIN, "no NVRTC: its path is empty"); /* dlopen would open this program */
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        for (size_t i = 0; i < COUNT(inside); i++) {
            if (open_in(job, n, ig_format(job, "%s%s", path, inside[i]))) return;
        }
        ig_raise(job, INGOT_TOOLCHAIN, "no NVRTC: there is no libnvrtc.so, .so.13 or .so.12 in '%s'", path);
    }
    if (open_at(n, path)) return;
    const char *reason = dlerror();
    ig_raise(job, INGOT_TOOLCHAIN, "no NVRTC: %s", reason ? reason : path);
}

static void open_anywhere(struct ig_job *job, struct ig_nvrtc *n) {
    for (size_t i = 0; i < COUNT(names); i++) {
        if (open_at(n, names[i])) return;
    }
    for (size_t i = 0; i < COUNT(folders); i++) {
        if (open_in(job, n, folders[i])) return;
    }
    struct ig_text where;
    ig_text_init(&where, job);
    for (size_t i = 0; i < COUNT(folders); i++)
        ig_text_printf(&where, ", %s", folders[i]);
    ig_raise(job, INGOT_TOOLCHAIN,
             "no NVRTC, which CUDA targets need: looked for libnvrtc.so, .so.13 and .so.12 where the loader looks%s; "
             "install the CUDA toolkit or name its path",
             where.at);
}

static void close_library(void *resource) {
    struct ig_nvrtc *n = resource;
    if (n->library) dlclose(n->library);
}

struct ig_nvrtc *ig_nvrtc_load(struct ig_job *job, const char *path) {
    struct ig_nvrtc *n = IG_NEW(job, struct ig_nvrtc);
    ig_defer(job, close_library, n);
    if (path) {
        open_given(job, n, path);
    } else {
        open_anywhere(job, n);
    }
    for (size_t i = 0; i < COUNT(functions); i++) {
        void *address = dlsym(n->library, functions[i].name);
        if (!address) ig_raise(job, INGOT_TOOLCHAIN, "'%s' is no NVRTC: it lacks %s", n->path, functions[i].name);
        memcpy((char *)n + functions[i].offset, &address, sizeof address);
    }
    int major = 0, minor = 0, failure = n->get_version(&major, &minor);
    if (failure) ig_raise(job, INGOT_TOOLCHAIN, "'%s': %s", n->path, n->get_error_string(failure));
    n->version = ig_format(job, "NVRTC %d.%d", major, minor);
    return n;
}

const char *ig_nvrtc_version(const struct ig_nvrtc *nvrtc) {
    return nvrtc->version;
}

/* `path` may be a name that the loader found somewhere. */
const char *ig_nvrtc_program(struct ig_job *job, const struct ig_nvrtc *nvrtc) {
    Dl_info info;
    void *function;
    memcpy(&function, &nvrtc->get_version, sizeof function);
    return ig_program_identity(job, dladdr(function, &info) ? info.dli_fname : NULL);
}
