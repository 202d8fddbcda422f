/* Names in compiled code; see rename.h. */
#include "toolchain/rename.h"

#include <ctype.h>
#include <elf.h>
#include <string.h>

#include "base/text.h"

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

/* The length of the comment at `at`, or 0. */
static size_t comment_length(const char *at) {
    if (at[0] != '/') return 0;
    if (at[1] == '/') return strcspn(at, "\n");
    if (at[1] != '*') return 0;
    const char *end = strstr(at + 2, "*/");
    return end ? (size_t)(end - at) + 2 : strlen(at);
}

/* The length of the string or character constant at `at`, or 0. */
static size_t constant_length(const char *at) {
    const char quote = *at;
    if (quote != '"' && quote != '\'') return 0;
    const char *end = at + 1;
    while (*end && *end != quote && *end != '\n')
        end += end[0] == '\\' && end[1] ? 2 : 1;
    return (size_t)(end - at) + (*end == quote);
}

const char *ig_source_rename(struct ig_job *job, const char *text, const char *from, const char *to) {
    struct ig_text out;
    const size_t of_from = strlen(from);
    const char *kept = text; /* from here on, what is not yet in `out` */
    ig_text_init(&out, job);
    for (const char *at = text; (at = strstr(at, from)); at += of_from) {
        if ((at > text && is_word(at[-1])) || is_word(at[of_from])) continue;
        ig_text_add_n(&out, kept, (size_t)(at - kept));
        ig_text_add(&out, to);
        kept = at + of_from;
    }
    ig_text_add(&out, kept);
    return out.at;
}

const char *ig_source_strip(struct ig_job *job, const char *text) {
    struct ig_text out;
    const char *kept = text;
    ig_text_init(&out, job);
    for (size_t length; *text; text += length) {
        length = comment_length(text);
        if (length) {
            ig_text_add_n(&out, kept, (size_t)(text - kept));
            ig_text_add(&out, " "); /* as the language has it */
            kept = text + length;
        } else {
            length = constant_length(text);
            if (!length) length = 1;
        }
    }
    ig_text_add(&out, kept);
    return out.at;
}

struct ig_object_code ig_ptx_rename(struct ig_job *job, const struct ig_object_code *ptx, const char *name) {
    struct ig_text out;
    const char *done = ptx->bytes;
    ig_text_init(&out, job);
    for (const char *at; (at = strstr(done, IG_ANY_KERNEL)); done = at + strlen(IG_ANY_KERNEL)) {
        ig_text_add_n(&out, done, (size_t)(at - done));
        ig_text_add(&out, name);
    }
    ig_text_add(&out, done);
    return (struct ig_object_code){out.at, out.length + 1};
}

/* The strings of one table, each with its NUL. */
static void rename_strings(char *strings, size_t size, const char *name) {
    const size_t old = strlen(IG_ANY_KERNEL), new = strlen(name);
    for (size_t at = 0, length; at < size; at += length + 1) {
        length = strnlen(strings + at, size - at);
        char *last = strings + at + length - old;
        if (length < old || length == size - at || memcmp(last, IG_ANY_KERNEL, old) != 0) continue;
        if (length > old && last[-1] != '.') continue;
        memset(last, 0, old);
        memcpy(last, name, new);
        length = strlen(strings + at); /* the zeroes that follow are empty strings */
    }
}

struct ig_object_code ig_cubin_rename(struct ig_job *job, const struct ig_object_code *cubin, const char *name) {
    IG_ASSERT(job, strlen(name) <= strlen(IG_ANY_KERNEL));
    char *bytes = ig_memdup(job, cubin->bytes, cubin->size);
    const struct ig_object_code copy = {bytes, cubin->size};
    Elf64_Ehdr header;
    if (copy.size < sizeof header) return copy;
    memcpy(&header, bytes, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_shentsize != sizeof(Elf64_Shdr)) return copy;
    if (header.e_shoff > copy.size || header.e_shnum > (copy.size - header.e_shoff) / sizeof(Elf64_Shdr)) return copy;
    for (uint64_t i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, bytes + header.e_shoff + i * sizeof section, sizeof section);
        bool is_inside = section.sh_offset <= copy.size && section.sh_size <= copy.size - section.sh_offset;
        if (section.sh_type == SHT_STRTAB && is_inside)
            rename_strings(bytes + section.sh_offset, (size_t)section.sh_size, name);
    }
    return copy;
}
