/* A stand-in for NVRTC: its output runs on the emulator (grid.h), under the driver of driver.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/translate.h"
#include "toolchain/nvrtc_api.h"

#define EXPORT __attribute__((visibility("default")))

struct ig_nvrtc_program {
    char *source;
    char *object;
    size_t size;
    char log[1024];
};

EXPORT const char *nvrtcGetErrorString(int result);
EXPORT int nvrtcVersion(int *major, int *minor);
EXPORT int nvrtcCreateProgram(struct ig_nvrtc_program **out, const char *source, const char *name, int n_headers,
                              const char *const *headers, const char *const *header_names);
EXPORT int nvrtcDestroyProgram(struct ig_nvrtc_program **program);
EXPORT int nvrtcCompileProgram(struct ig_nvrtc_program *program, int n_options, const char *const *options);
EXPORT int nvrtcGetProgramLogSize(struct ig_nvrtc_program *program, size_t *out);
EXPORT int nvrtcGetProgramLog(struct ig_nvrtc_program *program, char *out);
EXPORT int nvrtcGetCUBINSize(struct ig_nvrtc_program *program, size_t *out);
EXPORT int nvrtcGetCUBIN(struct ig_nvrtc_program *program, char *out);
EXPORT int nvrtcGetPTXSize(struct ig_nvrtc_program *program, size_t *out);
EXPORT int nvrtcGetPTX(struct ig_nvrtc_program *program, char *out);

static const char ptx[] = ".version 8.0\n";
#ifdef EMULATOR_HEADERS
__attribute__((used)) static const char headers_hash[] = EMULATOR_HEADERS; /* tests/CMakeLists.txt */
#endif

const char *nvrtcGetErrorString(int result) {
    return result == IG_NVRTC_COMPILATION ? "NVRTC_ERROR_COMPILATION" : "an error";
}

int nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 0;
    return IG_NVRTC_SUCCESS;
}

int nvrtcCreateProgram(struct ig_nvrtc_program **out, const char *source, const char *name, int n_headers,
                       const char *const *headers, const char *const *header_names) {
    (void)name, (void)n_headers, (void)headers, (void)header_names;
    struct ig_nvrtc_program *p = calloc(1, sizeof *p);
    *out = p;
    if (p) p->source = strdup(source);
    return p && p->source ? IG_NVRTC_SUCCESS : IG_NVRTC_OUT_OF_MEMORY;
}

int nvrtcDestroyProgram(struct ig_nvrtc_program **program) {
    free((*program)->source);
    free((*program)->object);
    free(*program);
    *program = NULL;
    return IG_NVRTC_SUCCESS;
}

/* "--gpu-architecture=sm_90a" compiles an object; "…=compute_90" compiles nothing: PTX is a dummy here. */
int nvrtcCompileProgram(struct ig_nvrtc_program *p, int n_options, const char *const *options) {
    int sm = 0;
    for (int i = 0; i < n_options; i++) {
        const char *at = strstr(options[i], "=sm_");
        if (at) sm = atoi(at + 4);
    }
    if (!sm) return IG_NVRTC_SUCCESS;
    const char *text = p->source;
    p->object = emulator_compile(&text, 1, sm, &p->size, p->log, sizeof p->log);
    return p->object ? IG_NVRTC_SUCCESS : IG_NVRTC_COMPILATION;
}

int nvrtcGetProgramLogSize(struct ig_nvrtc_program *p, size_t *out) {
    *out = strlen(p->log) + 1;
    return IG_NVRTC_SUCCESS;
}

int nvrtcGetProgramLog(struct ig_nvrtc_program *p, char *out) {
    strcpy(out, p->log);
    return IG_NVRTC_SUCCESS;
}

int nvrtcGetCUBINSize(struct ig_nvrtc_program *p, size_t *out) {
    *out = p->size;
    return IG_NVRTC_SUCCESS;
}

int nvrtcGetCUBIN(struct ig_nvrtc_program *p, char *out) {
    memcpy(out, p->object, p->size);
    return IG_NVRTC_SUCCESS;
}

int nvrtcGetPTXSize(struct ig_nvrtc_program *p, size_t *out) {
    (void)p;
    *out = sizeof ptx;
    return IG_NVRTC_SUCCESS;
}

int nvrtcGetPTX(struct ig_nvrtc_program *p, char *out) {
    (void)p;
    memcpy(out, ptx, sizeof ptx);
    return IG_NVRTC_SUCCESS;
}
