/* Checks cubins; see cubin.h. */
#include "device/cuda/cubin.h"

#include <elf.h>
#include <string.h>

#define MACHINE_CUDA 190

static bool within(uint64_t offset, uint64_t size, size_t end) {
    return offset <= end && size <= end - offset;
}

static bool sections_end_within(const unsigned char *code, const Elf64_Ehdr *header, size_t size) {
    if (header->e_shentsize != sizeof(Elf64_Shdr) ||
        !within(header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr), size))
        return false;
    for (uint64_t i = 0; i < header->e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, code + header->e_shoff + i * sizeof section, sizeof section);
        if (section.sh_type != SHT_NOBITS && !within(section.sh_offset, section.sh_size, size)) return false;
    }
    return true;
}

static bool segments_end_within(const unsigned char *code, const Elf64_Ehdr *header, size_t size) {
    if (header->e_phnum == 0) return true;
    if (header->e_phentsize != sizeof(Elf64_Phdr) ||
        !within(header->e_phoff, (uint64_t)header->e_phnum * sizeof(Elf64_Phdr), size))
        return false;
    for (uint64_t i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        memcpy(&segment, code + header->e_phoff + i * sizeof segment, sizeof segment);
        if (!within(segment.p_offset, segment.p_filesz, size)) return false;
    }
    return true;
}

bool ig_cubin_is_whole(const void *code, size_t size) {
    Elf64_Ehdr header;
    if (size < sizeof header) return false;
    memcpy(&header, code, sizeof header);
    return memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
           header.e_ident[EI_DATA] == ELFDATA2LSB && header.e_machine == MACHINE_CUDA && header.e_shnum > 0 &&
           sections_end_within(code, &header, size) && segments_end_within(code, &header, size);
}

unsigned ig_cubin_architecture(const void *code) {
    Elf64_Ehdr header;
    memcpy(&header, code, sizeof header);
    switch (header.e_ident[EI_ABIVERSION]) {
    case 7: return header.e_flags & 0xff; /* CUDA 11 and 12 */
    case 8: return header.e_flags >> 8 & 0xff;
    default: return 0;
    }
}
