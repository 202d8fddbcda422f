/*
 * Reads x86-64 ELF relocatable objects, as far as the linker (link.h) needs them. Every offset, size and index is
 * checked here once, so that link.c can follow them. Source: the System V ABI, generic part (gABI chapter 4) and AMD64
 * supplement (psABI 4.2 to 4.4).
 */
#ifndef IG_TOOLCHAIN_ELF_H
#define IG_TOOLCHAIN_ELF_H

#include <elf.h>

#include "base/job.h"

enum ig_section_role {
    IG_SECTION_DROPPED,  /* not part of the code: symbol tables, notes, unwind tables, empty sections */
    IG_SECTION_TEXT,     /* instructions */
    IG_SECTION_CONSTANT, /* read-only data */
    IG_SECTION_WRITABLE, /* writable data, or data with absolute addresses: refused if not empty */
};

struct ig_section {
    enum ig_section_role role;
    const char *name;
    const unsigned char *bytes; /* `size` bytes in the object */
    uint64_t size, alignment;
    uint32_t n_relocations;
    const Elf64_Rela *relocations; /* offsets not yet checked, since the bound depends on the relocation's width */
};

struct ig_symbol {
    const char *name;
    uint32_t section; /* SHN_UNDEF, SHN_ABS, SHN_COMMON, or an index below n_sections */
    uint64_t value;   /* offset in the section, at most its size */
    unsigned char type, binding;
};

struct ig_object {
    const char *label; /* for messages */
    uint32_t n_sections, n_symbols;
    struct ig_section *sections;
    struct ig_symbol *symbols; /* symbol indices in relocations are below n_symbols */
};

/* Parses an object file; `bytes` must live as long as the result. Raises INGOT_TOOLCHAIN if it is malformed. */
void ig_object_read(struct ig_job *job, const void *bytes, size_t size, const char *label,
                    struct ig_object *out_object);

#endif
