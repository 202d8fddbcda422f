/* Replaces emulator_compile, so that the emulator's stand-in for NVRTC (emulator/nvrtc.c) compiles in no time: the
 * cubin contains only the kernel's text, for support/device/text_code.h. Texts that contain $FAKE_NVRTC_REFUSES do not
 * compile. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/translate.h"

struct cubin {
    Elf64_Ehdr header;
    Elf64_Shdr section;
    char text[]; /* NUL-terminated */
};

void *emulator_compile(const char *const *texts, unsigned count, int sm, size_t *out_size, char *log, size_t log_size) {
    const char *refused = getenv("FAKE_NVRTC_REFUSES");
    size_t length = 1, at = 0;
    for (unsigned i = 0; i < count; i++) {
        if (refused && strstr(texts[i], refused)) {
            snprintf(log, log_size, "error: this is refused");
            return NULL;
        }
        length += strlen(texts[i]);
    }
    struct cubin *cubin = calloc(1, sizeof *cubin + length);
    if (!cubin) return NULL;
    cubin->header =
        (Elf64_Ehdr){.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT, 65, 8},
                     .e_type = ET_EXEC,
                     .e_machine = 190,
                     .e_version = EV_CURRENT,
                     .e_shoff = offsetof(struct cubin, section),
                     .e_flags = (Elf64_Word)sm << 8,
                     .e_ehsize = sizeof(Elf64_Ehdr),
                     .e_shentsize = sizeof(Elf64_Shdr),
                     .e_shnum = 1};
    cubin->section =
        (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_offset = offsetof(struct cubin, text), .sh_size = length};
    for (unsigned i = 0; i < count; i++) {
        size_t part = strlen(texts[i]);
        memcpy(cubin->text + at, texts[i], part);
        at += part;
    }
    *out_size = sizeof *cubin + length;
    return cubin;
}
