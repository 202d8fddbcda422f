#include "support/device/text_code.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "toolchain/rename.h"

enum { MOST_THREADS = 1024 };

struct kernel {
    struct fake_kernel base; /* first: its address is the driver's handle */
    struct kernel *next;
    char name[];
};

struct loaded {
    struct kernel *kernels;
    char text[];
};

/* Reads the sections of a cubin: the stand-in's has one, its text. PTX is text itself. */
static void *load(const void *image) {
    Elf64_Ehdr header;
    const char *text = image;
    size_t size;
    if (memcmp(image, ELFMAG, SELFMAG) != 0) {
        size = strlen(text);
    } else {
        Elf64_Shdr section;
        memcpy(&header, image, sizeof header);
        memcpy(&section, text + header.e_shoff, sizeof section);
        text += section.sh_offset;
        size = section.sh_size;
    }
    struct loaded *l = calloc(1, sizeof *l + size + 1);
    if (!l) abort();
    memcpy(l->text, text, size);
    return l;
}

static void unload(void *module) {
    struct loaded *l = module;
    for (struct kernel *k = l->kernels, *next; k; k = next) {
        next = k->next;
        free(k);
    }
    free(l);
}

/* The parameters after a kernel's name; NULL if the text has no such kernel. */
static const char *find_parameters(const char *text, const char *name) {
    size_t length = strlen(name);
    for (const char *at = text; length && (at = strstr(at, name)); at++) {
        if (at > text && at[-1] == '\n' && at[length] == '(') return at + length + 1;
    }
    return NULL;
}

static const struct fake_kernel *find(void *module, const char *name) {
    struct loaded *l = module;
    const char *at = find_parameters(l->text, name);
    if (!at) at = find_parameters(l->text, IG_ANY_KERNEL); /* the text is no string table, in which it was renamed */
    if (!at) return NULL;
    struct kernel *k = calloc(1, sizeof *k + strlen(name) + 1);
    if (!k) abort();
    strcpy(k->name, name);
    k->base = (struct fake_kernel){.name = k->name, .n_parameters = 1};
    for (; *at && *at != ')'; at++) {
        k->base.n_parameters += *at == ',';
        k->base.n_maps += strncmp(at, "tensor_map ", 11) == 0;
    }
    k->next = l->kernels;
    l->kernels = k;
    return &k->base;
}

/* Reads all of it, so that sanitizers detect maps that describe more than the memory contains. */
static unsigned read_matrix(const struct fake_tensor_map *map) {
    const unsigned char *line = (const unsigned char *)(uintptr_t)map->memory;
    unsigned sum = 0;
    for (uint64_t i = 0; i < map->lines; i++, line += map->pitch) {
        for (uint64_t k = 0; k < map->width * map->element; k++)
            sum += line[k];
    }
    return sum;
}

static const char *run(const struct fake_kernel *kernel, unsigned grid, unsigned threads, unsigned shared,
                       void **parameters) {
    static volatile unsigned sum; /* keeps the reads from being optimised away */
    (void)grid, (void)shared;
    if (threads > MOST_THREADS) return "too many threads";
    for (uint32_t i = 0; i < kernel->n_maps; i++)
        sum += read_matrix(parameters[kernel->n_parameters - kernel->n_maps + i]);
    return NULL;
}

struct fake_code text_code(void) {
    return (struct fake_code){.load = load, .unload = unload, .find = find, .run = run};
}
