/* Finds, instantiates and orders prelude functions; see prelude.h. */
#include "codegen/prelude.h"

#include <string.h>

struct type_names {
    const char *suffix, *type, *unsigned_type, *bits, *low, *high, *letter;
};
static const struct type_names type_table[] = {
    {"f32", "float", "uint32_t", "32", "", "", "f"},
    {"f64", "double", "uint64_t", "64", "", "", ""},
    {"f16", "float", "uint16_t", "16", "", "", "f"},
    {"bf16", "float", "uint16_t", "16", "", "", "f"},
    {"i8", "int8_t", "uint8_t", "8", "-128", "127", ""},
    {"i16", "int16_t", "uint16_t", "16", "-32768", "32767", ""},
    {"i32", "int32_t", "uint32_t", "32", "(-2147483647 - 1)", "2147483647", ""},
    {"i64", "int64_t", "uint64_t", "64", "(-9223372036854775807 - 1)", "9223372036854775807", ""},
    {"u8", "uint8_t", "uint8_t", "8", "0", "255", ""},
    {"u16", "uint16_t", "uint16_t", "16", "0", "65535", ""},
    {"u32", "uint32_t", "uint32_t", "32", "0", "4294967295u", ""},
    {"u64", "uint64_t", "uint64_t", "64", "0", "18446744073709551615u", ""},
    {"i4", "int8_t", "uint8_t", "4", "-8", "7", ""},
    {"i2", "int8_t", "uint8_t", "2", "-2", "1", ""},
    {"u4", "uint8_t", "uint8_t", "4", "0", "15", ""},
    {"u2", "uint8_t", "uint8_t", "2", "0", "3", ""},
    {"f8e4m3fn", "uint8_t", "uint8_t", "8", "", "", ""},
    {"f8e5m2", "uint8_t", "uint8_t", "8", "", "", ""},
    {"f8e4m3fnuz", "uint8_t", "uint8_t", "8", "", "", ""},
    {"f8e5m2fnuz", "uint8_t", "uint8_t", "8", "", "", ""},
    {"f4e2m1", "uint8_t", "uint8_t", "4", "", "", ""},
};

void ig_code_prelude_init(struct ig_code_prelude *prelude, struct ig_job *job, const struct ig_code_table *tables,
                          size_t n_tables) {
    *prelude = (struct ig_code_prelude){.job = job, .tables = tables, .n_tables = n_tables};
    ig_map_init(&prelude->seen, job);
    ig_text_init(&prelude->text, job);
}

static const struct type_names *find_type(const char *suffix, size_t length) {
    for (size_t i = 0; i < sizeof type_table / sizeof *type_table; i++) {
        if (strlen(type_table[i].suffix) == length && !memcmp(type_table[i].suffix, suffix, length)) {
            return &type_table[i];
        }
    }
    return NULL;
}

/* Does the blank-separated list contain the word? */
static bool has_word(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; *at;) {
        size_t n = strcspn(at, " ");
        if (n == length && !memcmp(at, word, n)) return true;
        at += n + (at[n] == ' ');
    }
    return false;
}

static const struct ig_code_function *find(const struct ig_code_prelude *prelude, const char *name,
                                           const struct type_names **out_type) {
    for (size_t g = 0; g < prelude->n_tables; g++) {
        for (size_t i = 0; i < *prelude->tables[g].count; i++) {
            const struct ig_code_function *f = &prelude->tables[g].functions[i];
            size_t length = strlen(f->name);
            *out_type = NULL;
            if (!f->types && strcmp(f->name, name) == 0) return f;
            if (!f->types || strncmp(f->name, name, length) != 0 || !has_word(f->types, name + length)) continue;
            *out_type = find_type(name + length, strlen(name + length));
            return f;
        }
    }
    return NULL;
}

/* What "$T", "$U", … stand for. */
static const char *meaning(const struct type_names *type, char letter) {
    switch (letter) {
    case 'T': return type->type;
    case 'U': return type->unsigned_type;
    case 'B': return type->bits;
    case 'L': return type->low;
    case 'H': return type->high;
    case 'F': return type->letter;
    default: return type->suffix;
    }
}

static const char *instantiate(struct ig_job *job, const char *pattern, size_t length, const struct type_names *type) {
    struct ig_text text;
    ig_text_init(&text, job);
    ig_text_add(&text, "");
    for (const char *at = pattern, *end = pattern + length; at < end;) {
        const char *dollar = memchr(at, '$', (size_t)(end - at));
        size_t n = dollar ? (size_t)(dollar - at) : (size_t)(end - at);
        ig_text_add_n(&text, at, n);
        at += n;
        if (!dollar) break;
        IG_ASSERT(job, type != NULL);
        ig_text_add(&text, meaning(type, at[1]));
        at += 2;
    }
    return text.at;
}

void ig_code_prelude_use(struct ig_code_prelude *prelude, const char *name) {
    uint32_t unused;
    if (ig_map_get_name(&prelude->seen, name, &unused)) return;
    ig_map_put_name(&prelude->seen, name, 1);
    const struct type_names *type;
    const struct ig_code_function *f = find(prelude, name, &type);
    if (!f) ig_raise(prelude->job, INGOT_INTERNAL, "no function %s in the prelude", name);
    for (const char *need = f->needs; need && *need;) {
        size_t n = strcspn(need, " ");
        ig_code_prelude_use(prelude, instantiate(prelude->job, need, n, type));
        need += n + (need[n] == ' ');
    }
    ig_text_add(&prelude->text, instantiate(prelude->job, f->text, strlen(f->text), type));
}
