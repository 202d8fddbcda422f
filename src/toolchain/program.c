/* Which program a file is; see program.h. */
#include "toolchain/program.h"

#include <elf.h>
#include <string.h>

#include "base/file.h"
#include "base/hash/hash.h"
#include "base/text.h"

/* Bytes of a file, or of a part of it. */
struct range {
    const unsigned char *at;
    size_t size;
};

/* False if these bytes are not all within the range. */
static bool part(struct range of, uint64_t offset, uint64_t size, struct range *out) {
    if (offset > of.size || size > of.size - offset) return false;
    *out = (struct range){of.at + offset, (size_t)size};
    return true;
}

static uint64_t rounded(uint64_t size) {
    return (size + 3) / 4 * 4;
}

static bool find_in_notes(struct range notes, struct range *out_id) {
    struct range header, name;
    for (uint64_t at = 0; part(notes, at, sizeof(Elf64_Nhdr), &header);) {
        Elf64_Nhdr note;
        memcpy(&note, header.at, sizeof note);
        at += sizeof note;
        if (!part(notes, at, note.n_namesz, &name)) return false;
        at += rounded(note.n_namesz);
        if (!part(notes, at, note.n_descsz, out_id)) return false;
        at += rounded(note.n_descsz);
        if (note.n_type == NT_GNU_BUILD_ID && name.size == 4 && memcmp(name.at, "GNU", 4) == 0) return out_id->size > 0;
    }
    return false;
}

static bool find_build_id(struct range file, struct range *out_id) {
    struct range header, notes;
    Elf64_Ehdr elf;
    if (!part(file, 0, sizeof elf, &header)) return false;
    memcpy(&elf, header.at, sizeof elf);
    if (memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_ident[EI_CLASS] != ELFCLASS64) return false;
    for (unsigned i = 0; i < elf.e_phnum && elf.e_phentsize == sizeof(Elf64_Phdr); i++) {
        Elf64_Phdr segment;
        if (elf.e_phoff > file.size || !part(file, elf.e_phoff + i * sizeof segment, sizeof segment, &header))
            return false;
        memcpy(&segment, header.at, sizeof segment);
        if (segment.p_type != PT_NOTE || !part(file, segment.p_offset, segment.p_filesz, &notes)) continue;
        if (find_in_notes(notes, out_id)) return true;
    }
    return false;
}

const char *ig_program_identity(struct ig_job *job, const char *path) {
    struct ig_mapping file;
    struct ig_text text;
    struct range id;
    if (!path || ig_file_map(path, &file, NULL) != INGOT_OK) return "-";
    ig_text_init(&text, job);
    if (find_build_id((struct range){file.data, file.size}, &id)) {
        ig_text_printf(&text, "%zu bytes, build ", file.size);
        for (size_t i = 0; i < id.size && i < 64; i++)
            ig_text_printf(&text, "%02x", id.at[i]);
    } else {
        char digits[33];
        ig_hash128_print(ig_hash128(file.data, file.size), digits);
        ig_text_add(&text, digits);
    }
    ig_file_unmap(&file);
    return text.at;
}
