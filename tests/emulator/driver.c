/* See driver.h. */
#define _GNU_SOURCE
#include "emulator/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emulator/translate.h"
#include "fake_cuda/fake_cuda.h"
#include "toolchain/rename.h"

#define EXPORT __attribute__((visibility("default")))
enum { MOST_PARAMETERS = 300 };

extern fake_cuda_state_function fake_cuda_state;
EXPORT emulator_mode_function emulator_mode;

static struct emulator_options mode;

struct emulator_options *emulator_mode(void) {
    return &mode;
}

/* ---- Code ------------------------------------------------------------------------------------------------------------------ */

struct kernel {
    struct fake_kernel base; /* first: its address is the driver's handle */
    const struct emulated_object *object;
    const struct emulated_kernel *kernel;
    struct kernel *next;
};

struct loaded {
    void *library;
    struct kernel *kernels;
};

/* The size of an ELF image: its section headers are last. */
static size_t size_of(const unsigned char *image) {
    uint64_t sections;
    uint16_t size, count;
    memcpy(&sections, image + 40, sizeof sections);
    memcpy(&size, image + 58, sizeof size);
    memcpy(&count, image + 60, sizeof count);
    return (size_t)sections + (size_t)size * count;
}

/* Refuses PTX. */
static void *load(const void *image) {
    static const char elf[] = {0x7f, 'E', 'L', 'F'};
    if (memcmp(image, elf, sizeof elf) != 0) return NULL;
    size_t size = size_of(image);
    struct loaded *l = calloc(1, sizeof *l);
    char path[] = "/tmp/emulated-kernels-XXXXXX", *copy = malloc(size);
    int file = mkstemp(path); /* a unique name: the loader identifies libraries by path */
    if (!l || !copy || file < 0) abort();
    memcpy(copy, image, size);
    emulator_unmask(copy);
    if (write(file, copy, size) != (ssize_t)size) abort();
    l->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!l->library) fprintf(stderr, "emulator: %s\n", dlerror());
    unlink(path);
    close(file);
    free(copy);
    if (l->library) return l;
    free(l);
    return NULL;
}

static void unload(void *module) {
    struct loaded *l = module;
    while (l->kernels) {
        struct kernel *k = l->kernels;
        l->kernels = k->next;
        free((char *)(uintptr_t)k->base.name);
        free(k);
    }
    dlclose(l->library);
    free(l);
}

static const struct fake_kernel *find(void *module, const char *name) {
    struct loaded *l = module;
    char symbol[512];
    snprintf(symbol, sizeof symbol, "emulated_%s", name);
    const struct emulated_kernel *found = dlsym(l->library, symbol);
    /* Renaming a cubin's kernel changes no names in here, since a symbol is found by the hash of its name. */
    if (!found) found = dlsym(l->library, "emulated_" IG_ANY_KERNEL);
    if (!found) return NULL;
    struct kernel *k = calloc(1, sizeof *k);
    if (!k) abort();
    k->base.name = strdup(name);
    k->base.n_parameters = (uint32_t)found->parameters;
    k->base.n_maps = (uint32_t)found->maps;
    k->object = dlsym(l->library, "emulated_object");
    k->kernel = found;
    k->next = l->kernels;
    l->kernels = k;
    return &k->base;
}

static const char *run(const struct fake_kernel *kernel, unsigned grid, unsigned threads, unsigned shared,
                       void **parameters) {
    static _Thread_local char message[EMULATOR_MESSAGE];
    const struct kernel *k = (const struct kernel *)kernel;
    const struct emulated_launch launch = {.name = kernel->name,
                                           .object = k->object,
                                           .kernel = k->kernel,
                                           .parameters = parameters,
                                           .blocks = (int)grid,
                                           .threads = (int)threads,
                                           .shared = shared};
    return emulator_run(&launch, &mode, message) ? NULL : message;
}

/* ---- The machine ------------------------------------------------------------------------------------------------------------- */

__attribute__((constructor)) static void begin(void) {
    const char *words = getenv("EMULATOR");
    if (!words) words = "";
    mode = (struct emulator_options){.backwards = strstr(words, "backwards") != NULL,
                                     .late = strstr(words, "late") != NULL,
                                     .races = strstr(words, "no-races") == NULL};
    const char *sm = strstr(words, "sm_"), *gpus = strstr(words, "gpus_");
    *fake_cuda_state() =
        (struct fake_cuda){.version = 13000,
                           .devices = gpus ? atoi(gpus + 5) : 1,
                           .sm = sm ? atoi(sm + 3) : 90,
                           .pools = 1,
                           .no_mapping = strstr(words, "no-mapping") != NULL,
                           .has_clock = strstr(words, "clock") != NULL,
                           .memory = (size_t)64 << 30,
                           .shared = 227 << 10,
                           .code = {load, unload, find, run, emulator_add_memory, emulator_remove_memory}};
}
