/* The object reader; see elf.h. Objects come from the compiler, which is as trustworthy as whoever controls its
 * path. */
#include "toolchain/elf.h"

#include <string.h>

struct reader {
    struct ig_job *job;
    const unsigned char *bytes;
    uint64_t size;
    struct ig_object *object;
    Elf64_Shdr *headers; /* a copy: those in the file may be unaligned */
};

static _Noreturn void refuse(const struct reader *r, const char *what) {
    ig_raise(r->job, INGOT_TOOLCHAIN, "the object file of '%s' is malformed: %s", r->object->label, what);
}

/* Returns a range of the file, or refuses one that is not within it. */
static const unsigned char *range(const struct reader *r, uint64_t offset, uint64_t size, const char *what) {
    if (offset > r->size || size > r->size - offset) refuse(r, what);
    return r->bytes + offset;
}

static void read_header(struct reader *r) {
    Elf64_Ehdr header;
    memcpy(&header, range(r, 0, sizeof header, "no ELF header"), sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) refuse(r, "not an ELF file");
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
        header.e_machine != EM_X86_64) {
        ig_raise(r->job, INGOT_TOOLCHAIN, "the compiler made an object for another machine than x86-64");
    }
    if (header.e_type != ET_REL) refuse(r, "not a relocatable object");
    if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum == 0) refuse(r, "its section table");
    uint64_t table = (uint64_t)header.e_shnum * sizeof(Elf64_Shdr);
    r->object->n_sections = header.e_shnum;
    r->headers = ig_memdup(r->job, range(r, header.e_shoff, table, "its section table"), (size_t)table);
    if (header.e_shstrndx >= header.e_shnum) refuse(r, "its section names");
    r->object->sections = IG_NEW_ARRAY(r->job, struct ig_section, header.e_shnum);
    const Elf64_Shdr *names = &r->headers[header.e_shstrndx];
    const char *strings = (const char *)range(r, names->sh_offset, names->sh_size, "its section names");
    for (uint32_t i = 0; i < header.e_shnum; i++) {
        uint32_t at = r->headers[i].sh_name;
        if (at >= names->sh_size || !memchr(strings + at, 0, names->sh_size - at)) refuse(r, "a section's name");
        r->object->sections[i].name = strings + at;
    }
}

static bool starts_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static enum ig_section_role role_of(const Elf64_Shdr *header, const char *name) {
    if (!(header->sh_flags & SHF_ALLOC) || header->sh_size == 0) return IG_SECTION_DROPPED;
    if (header->sh_type == SHT_NOTE || starts_with(name, ".eh_frame")) return IG_SECTION_DROPPED;
    if (header->sh_type != SHT_PROGBITS || (header->sh_flags & SHF_TLS)) return IG_SECTION_WRITABLE;
    /* Read-only once relocated; if there is anything to relocate at run time, the linker refuses it. */
    if (starts_with(name, ".data.rel.ro")) return IG_SECTION_CONSTANT;
    if (header->sh_flags & SHF_WRITE) return IG_SECTION_WRITABLE;
    return header->sh_flags & SHF_EXECINSTR ? IG_SECTION_TEXT : IG_SECTION_CONSTANT;
}

static void read_sections(struct reader *r) {
    for (uint32_t i = 0; i < r->object->n_sections; i++) {
        const Elf64_Shdr *header = &r->headers[i];
        struct ig_section *section = &r->object->sections[i];
        section->role = header->sh_type == SHT_NULL ? IG_SECTION_DROPPED : role_of(header, section->name);
        section->size = header->sh_size;
        section->alignment = header->sh_addralign ? header->sh_addralign : 1;
        if (section->role == IG_SECTION_DROPPED) continue;
        if (section->alignment > 4096 || (section->alignment & (section->alignment - 1))) {
            refuse(r, "a section's alignment");
        }
        if (header->sh_type == SHT_NOBITS) continue; /* a size, but no bytes; refused because of its role */
        section->bytes = range(r, header->sh_offset, header->sh_size, "a section reaches beyond its end");
    }
}

static void read_symbol(const struct reader *r, const Elf64_Sym *from, const char *strings, uint64_t strings_size,
                        struct ig_symbol *out) {
    if (from->st_name >= strings_size || !memchr(strings + from->st_name, 0, strings_size - from->st_name)) {
        refuse(r, "a symbol's name");
    }
    *out = (struct ig_symbol){
        .name = strings + from->st_name,
        .section = from->st_shndx,
        .value = from->st_value,
        .type = ELF64_ST_TYPE(from->st_info),
        .binding = ELF64_ST_BIND(from->st_info),
    };
    if (out->section == SHN_UNDEF || out->section == SHN_ABS || out->section == SHN_COMMON) return;
    if (out->section >= r->object->n_sections) refuse(r, "a symbol's section");
    if (out->value > r->object->sections[out->section].size) refuse(r, "a symbol lies beyond its section");
    if (out->type == STT_SECTION) out->name = r->object->sections[out->section].name;
}

static void read_symbols(struct reader *r) {
    const Elf64_Shdr *table = NULL;
    for (uint32_t i = 0; i < r->object->n_sections; i++) {
        if (r->headers[i].sh_type != SHT_SYMTAB) continue;
        if (table) refuse(r, "two symbol tables");
        table = &r->headers[i];
    }
    if (!table) return;
    if (table->sh_entsize != sizeof(Elf64_Sym) || table->sh_link >= r->object->n_sections ||
        table->sh_size / sizeof(Elf64_Sym) > UINT32_MAX) {
        refuse(r, "its symbol table");
    }
    const Elf64_Shdr *names = &r->headers[table->sh_link];
    const char *strings = (const char *)range(r, names->sh_offset, names->sh_size, "its symbol names");
    const unsigned char *symbols = range(r, table->sh_offset, table->sh_size, "its symbol table");
    r->object->n_symbols = (uint32_t)(table->sh_size / sizeof(Elf64_Sym));
    r->object->symbols = IG_NEW_ARRAY(r->job, struct ig_symbol, r->object->n_symbols);
    for (uint32_t i = 0; i < r->object->n_symbols; i++) {
        Elf64_Sym symbol;
        memcpy(&symbol, symbols + (size_t)i * sizeof symbol, sizeof symbol);
        read_symbol(r, &symbol, strings, names->sh_size, &r->object->symbols[i]);
    }
}

static void read_relocations(struct reader *r) {
    for (uint32_t i = 0; i < r->object->n_sections; i++) {
        const Elf64_Shdr *header = &r->headers[i];
        if (header->sh_type != SHT_RELA && header->sh_type != SHT_REL) continue;
        if (header->sh_info >= r->object->n_sections) refuse(r, "a relocation table's section");
        struct ig_section *section = &r->object->sections[header->sh_info];
        if (section->role == IG_SECTION_DROPPED) continue;
        if (header->sh_type == SHT_REL || header->sh_entsize != sizeof(Elf64_Rela) || section->relocations ||
            header->sh_link >= r->object->n_sections || r->headers[header->sh_link].sh_type != SHT_SYMTAB) {
            refuse(r, "a relocation table");
        }
        const unsigned char *bytes = range(r, header->sh_offset, header->sh_size, "a relocation table");
        uint64_t count = header->sh_size / sizeof(Elf64_Rela);
        if (count > UINT32_MAX) refuse(r, "a relocation table");
        Elf64_Rela *relocations = ig_memdup(r->job, bytes, (size_t)count * sizeof *relocations);
        for (uint64_t k = 0; k < count; k++) {
            if (ELF64_R_SYM(relocations[k].r_info) >= r->object->n_symbols) refuse(r, "a relocation's symbol");
        }
        section->relocations = relocations;
        section->n_relocations = (uint32_t)count;
    }
}

void ig_object_read(struct ig_job *job, const void *bytes, size_t size, const char *label,
                    struct ig_object *out_object) {
    *out_object = (struct ig_object){.label = label};
    struct reader reader = {.job = job, .bytes = bytes, .size = size, .object = out_object};
    read_header(&reader);
    read_sections(&reader);
    read_symbols(&reader);
    read_relocations(&reader);
}
