/* See translate.h. */
#include "emulator/translate.h"

#include <ctype.h>
#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMPILER "/usr/bin/g++"
enum { MACHINE_CUDA = 190, MOST_OPERANDS = 300 };

/* ---- Inline assembly becomes function calls --------------------------------------------------------------------------------- */

/* asm volatile("template" : "=r"(to) : "r"(from) : "memory"), parsed. */
struct assembly {
    char text[4096]; /* the template */
    const char *operands[MOST_OPERANDS];
    size_t lengths[MOST_OPERANDS];
    int count;
};

static const char *skip_space(const char *at) {
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

/* Appends a string literal's characters to `to`; returns the end of the literal. */
static const char *read_literal(const char *at, char *to, size_t room) {
    size_t length = strlen(to);
    for (at++; *at && *at != '"'; at++) {
        char c = *at;
        if (c == '\\') c = *++at == 'n' ? '\n' : *at;
        if (length + 1 < room) to[length++] = c;
    }
    to[length] = '\0';
    return *at ? at + 1 : at;
}

/* Parses a parenthesised operand at `at`; returns its end. */
static const char *read_operand(const char *at, struct assembly *a) {
    int depth = 0;
    const char *begin = at + 1;
    do {
        depth += *at == '(' ? 1 : *at == ')' ? -1 : 0;
        at++;
    } while (*at && depth > 0);
    if (a->count < MOST_OPERANDS) {
        a->operands[a->count] = begin;
        a->lengths[a->count++] = (size_t)(at - 1 - begin);
    }
    return at;
}

/* Parses a statement from the parenthesis after "asm"; returns its end. */
static const char *read_assembly(const char *at, struct assembly *a) {
    char constraint[64];
    a->text[0] = '\0';
    a->count = 0;
    for (at = skip_space(at + 1); *at == '"'; at = skip_space(at))
        at = read_literal(at, a->text, sizeof a->text);
    while (*at && *at != ')') {
        constraint[0] = '\0';
        if (*at == '"') {
            at = read_literal(at, constraint, sizeof constraint);
        } else if (*at == '(') {
            at = read_operand(at, a);
        } else {
            at++;
        }
    }
    at = skip_space(at + 1);
    return *at == ';' ? at + 1 : at;
}

/* wgmma.mma_async.sync.aligned.m64nNkK.sum.a.b: the last "}" of its operands is followed by scales, and with types of 16
 * bits by transpose flags. */
static void print_wgmma(FILE *out, const char *instruction, const struct assembly *a) {
    const char *shape = strstr(instruction, ".m64n"), *last = strrchr(instruction, '}');
    int columns = 0, depth = 0, turned[2] = {0, 0}, n = 0;
    char types[3][8] = {"", "", ""};
    const char *commas[16], *comma;
    if (shape)
        sscanf(shape, ".m64n%dk%d.%7[a-z0-9].%7[a-z0-9].%7[a-z0-9]", &columns, &depth, types[0], types[1], types[2]);
    for (comma = last ? strchr(last, ',') : NULL; comma && n < 16; comma = strchr(comma + 1, ','))
        commas[n++] = comma;
    /* With A in registers, its braces are the last ones, and there is only B's transpose flag. */
    if (n == 7) turned[0] = atoi(commas[n - 2] + 1);
    if (n >= 1 && depth == 16) turned[1] = atoi(commas[n - 1] + 1);
    fprintf(out, "emulated_wgmma_of<emulated_of_%s, emulated_of_%s>(%d, %d, %d", types[1], types[2], columns, turned[0],
            turned[1]);
    for (int i = 0; i < a->count; i++)
        fprintf(out, ", %.*s", (int)a->lengths[i], a->operands[i]);
    fputs(");", out);
}

/* "mov.u64 %0, %%globaltimer" is ptx_mov_u64_globaltimer. */
static void print_register(FILE *out, const char *instruction) {
    const char *from = strstr(instruction, "%%");
    if (strncmp(instruction, "mov.", 4) != 0 || !from) return;
    fputc('_', out);
    for (from += 2; isalnum((unsigned char)*from) || *from == '_'; from++)
        fputc(*from, out);
}

static void print_instruction(FILE *out, const char *instruction, const struct assembly *a) {
    size_t length = strcspn(instruction, " \t");
    if (strncmp(instruction, "wgmma.mma_async", 15) == 0) {
        print_wgmma(out, instruction, a);
        return;
    }
    fputs("ptx_", out);
    for (size_t i = 0; i < length; i++)
        fputc(isalnum((unsigned char)instruction[i]) ? instruction[i] : '_', out);
    print_register(out, instruction);
    fputc('(', out);
    for (int i = 0; i < a->count; i++)
        fprintf(out, "%s%.*s", i > 0 ? ", " : "", (int)a->lengths[i], a->operands[i]);
    fputs(");", out);
}

static bool does_nothing(const char *instruction) {
    static const char *const prefixes[] = {".reg", "setp.ne.b32 add", "setp.ne.b32 inside", "selp.b32 %0, 1, 0, over"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        if (strncmp(instruction, prefixes[i], strlen(prefixes[i])) == 0) return true;
    }
    return *instruction == '\0' || *instruction == '}';
}

static void print_assembly(FILE *out, const struct assembly *a) {
    fputs("{ ", out);
    const char *at = a->text;
    while (*at) {
        at += strspn(at, "{ \t\n;");
        size_t length = strcspn(at, ";");
        char one[4096];
        snprintf(one, sizeof one, "%.*s", (int)length, at);
        if (!does_nothing(one)) print_instruction(out, one, a);
        at += length;
    }
    fputs(" }", out);
}

/* ---- Text --------------------------------------------------------------------------------------------------------------------- */

static bool is_word(const char *text, const char *at, size_t length) {
    bool begins = at == text || (!isalnum((unsigned char)at[-1]) && at[-1] != '_');
    return begins && !isalnum((unsigned char)at[length]) && at[length] != '_';
}

/* Followed by "N) char ig_shared[];". */
static const char dynamic[] = "extern __shared__ __align__(";

static void print_text(FILE *out, const char *text) {
    const char *from = text;
    for (const char *at = text; *at; at++) {
        if (strncmp(at, dynamic, sizeof dynamic - 1) == 0) {
            fwrite(from, 1, (size_t)(at - from), out);
            fputs("char *const ig_shared = emulated_dynamic();", out);
            from = strchr(at, ';') + 1;
            at = from - 1;
        } else if (strncmp(at, "asm", 3) == 0 && is_word(text, at, 3)) {
            struct assembly a;
            const char *open = skip_space(at + 3);
            if (strncmp(open, "volatile", 8) == 0) open = skip_space(open + 8);
            if (*open != '(') continue;
            fwrite(from, 1, (size_t)(at - from), out);
            from = read_assembly(open, &a);
            print_assembly(out, &a);
            at = from - 1;
        }
    }
    fputs(from, out);
}

/* extern "C" __global__ void [__cluster_dims__(N, …)] __launch_bounds__(N) NAME(…) */
struct head {
    char name[256];
    int threads, cluster, alignment; /* alignment: of dynamic shared memory */
};

static bool find_head(const char *text, struct head *h) {
    const char *at = strstr(text, "extern \"C\" __global__"), *bounds = at ? strstr(at, "__launch_bounds__(") : NULL;
    const char *cluster = at ? strstr(at, "__cluster_dims__(") : NULL;
    if (!bounds) return false;
    h->threads = atoi(strchr(bounds, '(') + 1);
    h->cluster = cluster && cluster < bounds ? atoi(strchr(cluster, '(') + 1) : 1;
    const char *shared = strstr(text, dynamic);
    h->alignment = shared ? atoi(shared + sizeof dynamic - 1) : 16;
    const char *name = skip_space(strchr(bounds, ')') + 1);
    snprintf(h->name, sizeof h->name, "%.*s", (int)strcspn(name, "("), name);
    return true;
}

static void print_unit(FILE *out, const char *const *texts, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        struct head h;
        fprintf(out,
                "#undef EMULATED_SHARED\n#define EMULATED_SHARED __attribute__((section(\"emulated_shared%u\")))\n"
                "extern \"C\" { extern char __start_emulated_shared%u[] EMULATED_WEAK, __stop_emulated_shared%u[] "
                "EMULATED_WEAK; }\n"
                "namespace k%u {\n#line 1\n",
                i, i, i, i);
        print_text(out, texts[i]);
        if (find_head(texts[i], &h)) {
            fprintf(
                out,
                "EMULATED static void start(void *const *parameters) { emulated_call(%s, parameters); }\n"
                "extern \"C\" { EMULATED extern const emulated_kernel emulated_%s;\n"
                "const emulated_kernel emulated_%s = {start, emulated_parameters(%s), emulated_maps(%s), %d, %d, %d, "
                "__start_emulated_shared%u, __stop_emulated_shared%u}; }\n",
                h.name, h.name, h.name, h.name, h.name, h.threads, h.cluster, h.alignment, i, i);
        }
        fputs("}\n", out);
    }
}

/* ---- Compiling ----------------------------------------------------------------------------------------------------------------- */

bool emulator_present(void) {
    return access(COMPILER, X_OK) == 0;
}

static void mask(void *object, int sm) {
    Elf64_Ehdr *header = object;
    header->e_machine = MACHINE_CUDA;
    header->e_ident[EI_ABIVERSION] = 8;
    header->e_flags = (Elf64_Word)sm << 8;
}

void emulator_unmask(void *object) {
    Elf64_Ehdr *header = object;
    header->e_machine = EM_X86_64;
    header->e_ident[EI_ABIVERSION] = 0;
    header->e_flags = 0;
}

static void *read_all(const char *path, size_t *out_size) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    void *bytes = malloc((size_t)size + 1);
    if (!bytes || fread(bytes, 1, (size_t)size, file) != (size_t)size) abort();
    fclose(file);
    *out_size = (size_t)size;
    return bytes;
}

static void first_error(const char *path, char *log, size_t log_size) {
    FILE *file = fopen(path, "rb");
    char line[1024];
    log[0] = '\0';
    while (file && fgets(line, sizeof line, file)) {
        if (log[0] && !strstr(line, "error")) continue;
        snprintf(log, log_size, "%s", line);
        if (strstr(line, "error")) break;
    }
    if (file) fclose(file);
}

void *emulator_compile(const char *const *texts, unsigned count, int sm, size_t *out_size, char *log, size_t log_size) {
    static const char command[] =
        "cd %s && " COMPILER
        " -std=gnu++17 -O1 -w -fPIC -fno-strict-aliasing -ffp-contract=off -fno-exceptions -fno-rtti "
        "-fno-threadsafe-statics -fno-math-errno -fno-stack-protector -fsanitize=thread "
        "-fsanitize=bounds,signed-integer-overflow,integer-divide-by-zero %s -I" TEST_SOURCE_DIR
        "/tests -include emulator/cuda.hpp %s "
        "-c unit.cpp -o unit.o 2> log && " COMPILER " -shared -s unit.o -o unit.so -lm 2>> log";
    char folder[] = "/tmp/emulatorXXXXXX", path[64], line[2048];
    void *object = NULL;
    if (!mkdtemp(folder)) return NULL;
    snprintf(path, sizeof path, "%s/unit.cpp", folder);
    FILE *unit = fopen(path, "wb");
    if (unit) print_unit(unit, texts, count);
    if (unit) fclose(unit);
    /* A call that names the place makes three times as much code of each sum of integers as a trap does. Processors with
     * AVX2 also convert float16. */
    const char *words = getenv("EMULATOR");
    snprintf(line, sizeof line, command, folder,
             words && strstr(words, "places") ? "" : "-fsanitize-undefined-trap-on-error",
             __builtin_cpu_supports("avx2") ? "-mf16c" : "");
    bool good = system(line) == 0;
    snprintf(path, sizeof path, "%s/%s", folder, good ? "unit.so" : "log");
    if (good) object = read_all(path, out_size);
    if (!good) first_error(path, log, log_size);
    if (object) mask(object, sm);
    const char *keep = getenv("EMULATOR_KEEP");
    snprintf(line, sizeof line, keep ? "mkdir -p '%2$s' && mv %1$s '%2$s'" : "rm -r %1$s", folder, keep ? keep : "");
    if (system(line) != 0) return object;
    return object;
}
