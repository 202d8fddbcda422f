/*
 * Layout, then relocation; see link.h. Source: AMD64 ABI supplement, 4.4 (relocation types) and B.2 (how an access
 * through the global offset table is rewritten if the symbol is within reach).
 */
#include "toolchain/link.h"

#include <inttypes.h>
#include <string.h>

#define PAGE 4096u
#define FUNCTION_ALIGNMENT 64u /* a cache line, so that a kernel's speed does not depend on its neighbours */
#define TRAP 0xcc              /* int3, between functions */
#define LARGEST ((uint64_t)1 << 30)
#define NOWHERE UINT64_MAX

struct linker {
    struct ig_job *job;
    uint32_t count; /* objects, the support object last */
    const struct ig_object **objects;
    uint64_t **places; /* per object and section: offset in the blob, or NOWHERE */
    unsigned char *blob;
    uint64_t size;
};

static bool is_defined(const struct ig_symbol *symbol) {
    return symbol->section != SHN_UNDEF && symbol->section != SHN_ABS && symbol->section != SHN_COMMON;
}

bool ig_link_needs_support(const struct ig_object *object) {
    for (uint32_t s = 0; s < object->n_sections; s++) {
        const struct ig_section *section = &object->sections[s];
        for (uint32_t r = 0; r < section->n_relocations; r++) {
            const struct ig_symbol *symbol = &object->symbols[ELF64_R_SYM(section->relocations[r].r_info)];
            if (symbol->section == SHN_UNDEF && *symbol->name) return true;
        }
    }
    return false;
}

/* ---- Layout ---- */

/* The name by which people find the data in the source: a symbol's or, without one, the section's. */
static const char *name_in_section(const struct ig_object *object, uint32_t section) {
    for (uint32_t i = 0; i < object->n_symbols; i++) {
        const struct ig_symbol *symbol = &object->symbols[i];
        if (symbol->section == section && symbol->type != STT_SECTION && *symbol->name) return symbol->name;
    }
    return object->sections[section].name;
}

static void refuse_writable(const struct linker *l, const struct ig_object *object) {
    for (uint32_t s = 0; s < object->n_sections; s++) {
        if (object->sections[s].role == IG_SECTION_WRITABLE) {
            ig_raise(l->job, INGOT_TOOLCHAIN, "cannot link '%s': '%s' (%s) is writable data, which code must not have",
                     object->label, name_in_section(object, s), object->sections[s].name);
        }
    }
    for (uint32_t i = 0; i < object->n_symbols; i++) {
        const struct ig_symbol *symbol = &object->symbols[i];
        if (symbol->section == SHN_COMMON) {
            ig_raise(l->job, INGOT_TOOLCHAIN, "cannot link '%s': '%s' is writable data, which code must not have",
                     object->label, symbol->name);
        }
    }
}

/* Places the sections of one role, object by object. The first section of an object starts a cache line. */
static void place_sections(struct linker *l, enum ig_section_role role) {
    for (uint32_t o = 0; o < l->count; o++) {
        const struct ig_object *object = l->objects[o];
        uint64_t least = FUNCTION_ALIGNMENT;
        for (uint32_t s = 0; s < object->n_sections; s++) {
            const struct ig_section *section = &object->sections[s];
            if (section->role != role) continue;
            uint64_t alignment = section->alignment > least ? section->alignment : least;
            uint64_t start = (l->size + alignment - 1) & ~(alignment - 1);
            if (section->size > LARGEST || start + section->size > LARGEST) {
                ig_raise(l->job, INGOT_TOOLCHAIN, "cannot link '%s': more than %" PRIu64 " bytes of code",
                         object->label, LARGEST);
            }
            l->places[o][s] = start;
            l->size = start + section->size;
            least = 1;
        }
    }
}

static void copy_sections(struct linker *l) {
    for (uint32_t o = 0; o < l->count; o++) {
        const struct ig_object *object = l->objects[o];
        for (uint32_t s = 0; s < object->n_sections; s++) {
            if (l->places[o][s] == NOWHERE) continue;
            memcpy(l->blob + l->places[o][s], object->sections[s].bytes, object->sections[s].size);
        }
    }
}

static void lay_out(struct linker *l) {
    for (uint32_t o = 0; o < l->count; o++) {
        uint32_t n = l->objects[o]->n_sections;
        l->places[o] = IG_NEW_ARRAY(l->job, uint64_t, n);
        for (uint32_t s = 0; s < n; s++)
            l->places[o][s] = NOWHERE;
        refuse_writable(l, l->objects[o]);
    }
    place_sections(l, IG_SECTION_TEXT);
    uint64_t text_size = l->size;
    place_sections(l, IG_SECTION_CONSTANT);
    l->size = (l->size + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    l->blob = ig_alloc(l->job, l->size + PAGE); /* so that the blob can start on a page, as the mapping will */
    l->blob += -(uintptr_t)l->blob & (PAGE - 1);
    memset(l->blob, TRAP, text_size);
    copy_sections(l);
}

/* ---- Resolution ---- */

/* The offset of a defined symbol in the blob; NOWHERE if its section was dropped. */
static uint64_t address_of(const struct linker *l, uint32_t object, const struct ig_symbol *symbol) {
    uint64_t place = l->places[object][symbol->section];
    return place == NOWHERE ? NOWHERE : place + symbol->value;
}

/* The external definition of a name in one object; NULL if there is none. */
static const struct ig_symbol *find_external(const struct ig_object *object, const char *name) {
    for (uint32_t i = 0; i < object->n_symbols; i++) {
        const struct ig_symbol *symbol = &object->symbols[i];
        if (symbol->binding != STB_LOCAL && is_defined(symbol) && strcmp(symbol->name, name) == 0) return symbol;
    }
    return NULL;
}

static uint64_t resolve(const struct linker *l, uint32_t o, const struct ig_symbol *symbol, bool has_support) {
    const struct ig_object *object = l->objects[o];
    uint64_t address = NOWHERE;
    if (symbol->type == STT_GNU_IFUNC || symbol->type == STT_TLS) {
        ig_raise(l->job, INGOT_TOOLCHAIN, "cannot link '%s': '%s' is chosen at run time", object->label, symbol->name);
    }
    if (is_defined(symbol)) {
        address = address_of(l, o, symbol);
    } else if (symbol->section == SHN_UNDEF && has_support) {
        const struct ig_symbol *found = find_external(l->objects[l->count - 1], symbol->name);
        if (found) address = address_of(l, l->count - 1, found);
    }
    if (address == NOWHERE) {
        ig_raise(l->job, INGOT_TOOLCHAIN, "cannot link '%s': '%s' is not defined, and code must not need anything else",
                 object->label, *symbol->name ? symbol->name : "(a symbol without a name)");
    }
    return address;
}

/* One relocation. `at`: its offset in the blob; `before`: how many bytes of its section precede it. */
struct fixup {
    const struct linker *l;
    const struct ig_object *object;
    const struct ig_symbol *symbol;
    uint64_t at, before;
    int64_t addend;
    uint64_t target;
};

static void store(const struct fixup *f, uint64_t at, int64_t value, size_t width) {
    if (width == 4 && (value > INT32_MAX || value < INT32_MIN)) {
        ig_raise(f->l->job, INGOT_TOOLCHAIN, "cannot link '%s': '%s' is out of reach", f->object->label,
                 f->symbol->name);
    }
    uint64_t bits = (uint64_t)value;
    for (size_t i = 0; i < width; i++)
        f->l->blob[at + i] = (unsigned char)(bits >> (8 * i)); /* little endian */
}

/* S + A - P. Blob offsets are below 2^30, so only a wild addend overflows; it wraps, and `store` checks the result. */
static int64_t distance(const struct fixup *f) {
    return (int64_t)(f->target + (uint64_t)f->addend - f->at);
}

/*
 * Rewrites an access through the global offset table, which does not exist here. The symbol is within reach, so an
 * instruction that loads its address from the table becomes one that computes it, and an indirect call or jump becomes
 * direct. The relocated field ends the instruction (its addend is -4); the two bytes before it are the last opcode byte
 * and the ModRM byte.
 */
static bool relax(const struct fixup *f) {
    if (f->before < 2 || f->addend != -4) return false;
    unsigned char *code = f->l->blob + f->at;
    if (code[-2] == 0x8b && (code[-1] & 0xc7) == 0x05) { /* mov table(%rip), reg -> lea symbol(%rip), reg */
        code[-2] = 0x8d;
    } else if (code[-2] == 0xff && code[-1] == 0x15) { /* call *table(%rip) -> addr32 call symbol */
        code[-2] = 0x67;
        code[-1] = 0xe8;
    } else if (code[-2] == 0xff && code[-1] == 0x25) { /* jmp *table(%rip) -> jmp symbol; nop */
        code[-2] = 0xe9;
        store(f, f->at - 1, distance(f) + 1, 4);
        code[3] = 0x90;
        return true;
    } else {
        return false;
    }
    store(f, f->at, distance(f), 4);
    return true;
}

static void refuse_relocation(const struct fixup *f, uint32_t type) {
    bool absolute = type == R_X86_64_64 || type == R_X86_64_32 || type == R_X86_64_32S;
    ig_raise(f->l->job, INGOT_TOOLCHAIN, "cannot link '%s': '%s' is needed %s (relocation type %u)", f->object->label,
             f->symbol->name, absolute ? "by its absolute address" : "in a way that code must not use", type);
}

static void apply(const struct fixup *f, uint32_t type) {
    switch (type) {
    case R_X86_64_PC32:
    case R_X86_64_PLT32: store(f, f->at, distance(f), 4); return;
    case R_X86_64_PC64: store(f, f->at, distance(f), 8); return;
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
        if (relax(f)) return;
        break;
    default: break;
    }
    refuse_relocation(f, type);
}

static void relocate_section(const struct linker *l, uint32_t o, uint32_t s, bool has_support) {
    const struct ig_object *object = l->objects[o];
    const struct ig_section *section = &object->sections[s];
    for (uint32_t r = 0; r < section->n_relocations; r++) {
        const Elf64_Rela *relocation = &section->relocations[r];
        uint32_t type = (uint32_t)ELF64_R_TYPE(relocation->r_info);
        uint64_t width = type == R_X86_64_PC64 ? 8 : 4;
        if (type == R_X86_64_NONE) continue;
        if (relocation->r_offset > section->size || width > section->size - relocation->r_offset) {
            ig_raise(l->job, INGOT_TOOLCHAIN,
                     "the object file of '%s' is malformed: a relocation lies beyond its section", object->label);
        }
        struct fixup fixup = {
            .l = l,
            .object = object,
            .symbol = &object->symbols[ELF64_R_SYM(relocation->r_info)],
            .at = l->places[o][s] + relocation->r_offset,
            .before = relocation->r_offset,
            .addend = relocation->r_addend,
        };
        fixup.target = resolve(l, o, fixup.symbol, has_support);
        apply(&fixup, type);
    }
}

void ig_link(struct ig_job *job, const struct ig_object *objects, const char *const *symbols, uint32_t count,
             const struct ig_object *support, struct ig_code *out_code) {
    struct linker l = {.job = job, .count = count + (support ? 1 : 0)};
    l.objects = IG_NEW_ARRAY(job, const struct ig_object *, l.count);
    l.places = IG_NEW_ARRAY(job, uint64_t *, l.count);
    for (uint32_t o = 0; o < count; o++)
        l.objects[o] = &objects[o];
    if (support) l.objects[count] = support;
    lay_out(&l);
    for (uint32_t o = 0; o < l.count; o++) {
        for (uint32_t s = 0; s < l.objects[o]->n_sections; s++) {
            if (l.places[o][s] != NOWHERE) relocate_section(&l, o, s, support != NULL);
        }
    }
    uint64_t *entries = IG_NEW_ARRAY(job, uint64_t, count);
    for (uint32_t o = 0; o < count; o++) {
        const struct ig_symbol *symbol = find_external(&objects[o], symbols[o]);
        if (!symbol || objects[o].sections[symbol->section].role != IG_SECTION_TEXT) {
            ig_raise(job, INGOT_TOOLCHAIN, "cannot link '%s': it has no function of that name", symbols[o]);
        }
        entries[o] = address_of(&l, o, symbol);
    }
    *out_code = (struct ig_code){.bytes = l.blob, .size = (size_t)l.size, .entries = entries};
}
