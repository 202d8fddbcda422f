/*
 * CPU features and caches. Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2 (CPUID,
 * XGETBV) and volume 1 chapter 13 (state components); AMD64 Architecture Programmer's Manual, volume 3 appendix E.
 */
#include "base/cpu.h"

#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__x86_64__)

enum cpuid_register { EAX, EBX, ECX, EDX };

/* The bits of XCR0 that must be set for a feature's registers to survive a context switch. */
#define STATE_AVX ((uint64_t)0x6)                    /* SSE, AVX */
#define STATE_AVX512 (STATE_AVX | (uint64_t)0xe0)    /* opmask, upper halves, upper registers */
#define STATE_AMX (STATE_AVX512 | (uint64_t)0x60000) /* tile configuration, tile data */

struct feature {
    uint64_t bit;
    uint32_t leaf, subleaf;
    enum cpuid_register reg;
    unsigned shift;
    uint64_t state;
};

static const struct feature features[] = {
    {IG_CPU_MOVBE, 1, 0, ECX, 22, 0},
    {IG_CPU_POPCNT, 1, 0, ECX, 23, 0},
    {IG_CPU_FMA, 1, 0, ECX, 12, STATE_AVX},
    {IG_CPU_F16C, 1, 0, ECX, 29, STATE_AVX},
    {IG_CPU_BMI1, 7, 0, EBX, 3, 0},
    {IG_CPU_AVX2, 7, 0, EBX, 5, STATE_AVX},
    {IG_CPU_BMI2, 7, 0, EBX, 8, 0},
    {IG_CPU_AVX512F, 7, 0, EBX, 16, STATE_AVX512},
    {IG_CPU_AVX512DQ, 7, 0, EBX, 17, STATE_AVX512},
    {IG_CPU_AVX512CD, 7, 0, EBX, 28, STATE_AVX512},
    {IG_CPU_AVX512BW, 7, 0, EBX, 30, STATE_AVX512},
    {IG_CPU_AVX512VL, 7, 0, EBX, 31, STATE_AVX512},
    {IG_CPU_AVX512_VNNI, 7, 0, ECX, 11, STATE_AVX512},
    {IG_CPU_AMX_BF16, 7, 0, EDX, 22, STATE_AMX},
    {IG_CPU_AVX512_FP16, 7, 0, EDX, 23, STATE_AVX512},
    {IG_CPU_AMX_TILE, 7, 0, EDX, 24, STATE_AMX},
    {IG_CPU_AMX_INT8, 7, 0, EDX, 25, STATE_AMX},
    {IG_CPU_AVX_VNNI, 7, 1, EAX, 4, STATE_AVX},
    {IG_CPU_AVX512_BF16, 7, 1, EAX, 5, STATE_AVX512},
    {IG_CPU_LZCNT, 0x80000001, 0, ECX, 5, 0},
};

/* The extended state that the operating system has enabled. */
static uint64_t enabled_state(void) {
    uint32_t eax, ebx, ecx, edx;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx >> 27 & 1)) return 0; /* OSXSAVE */
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

uint64_t ig_cpu_features(void) {
    uint64_t found = 0, state = enabled_state();
    uint32_t regs[4] = {0}, leaf = 0, subleaf = 0;
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        const struct feature *f = &features[i];
        if (f->leaf != leaf || f->subleaf != subleaf) { /* the table is sorted: one CPUID per leaf */
            leaf = f->leaf;
            subleaf = f->subleaf;
            if (!__get_cpuid_count(leaf, subleaf, &regs[EAX], &regs[EBX], &regs[ECX], &regs[EDX])) {
                for (int r = 0; r < 4; r++)
                    regs[r] = 0;
            }
        }
        if ((regs[f->reg] >> f->shift & 1) && (state & f->state) == f->state) found |= f->bit;
    }
    return found;
}

/* The deterministic cache parameters, which both vendors lay out alike under different leaves. */
static void read_caches(uint32_t leaf, struct ig_cpu_caches *caches) {
    for (uint32_t index = 0; index < 16; index++) {
        uint32_t eax, ebx, ecx, edx;
        if (!__get_cpuid_count(leaf, index, &eax, &ebx, &ecx, &edx)) return;
        unsigned type = eax & 0x1f, level = eax >> 5 & 7;
        if (type == 0) return;
        if (type == 2) continue; /* instructions only */
        size_t ways = (ebx >> 22) + 1, partitions = (ebx >> 12 & 0x3ff) + 1, line = (ebx & 0xfff) + 1;
        size_t size = ways * partitions * line * ((size_t)ecx + 1);
        if (level == 1) caches->l1 = size;
        if (level == 2) caches->l2 = size;
        if (level == 3) caches->l3 = size;
    }
}

struct ig_cpu_caches ig_cpu_caches(void) {
    struct ig_cpu_caches caches = {0, 0, 0};
    read_caches(4, &caches);
    if (!caches.l1) read_caches(0x8000001d, &caches);
    if (!caches.l1) caches.l1 = (size_t)32 << 10;
    if (!caches.l2) caches.l2 = (size_t)512 << 10;
    return caches;
}

/* The brand string: 48 bytes in three leaves, with spaces before and behind it. */
static size_t read_name(char out[IG_CPU_NAME_SIZE]) {
    uint32_t words[12] = {0};
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t *w = words + (size_t)4 * i;
        if (!__get_cpuid(0x80000002 + i, &w[0], &w[1], &w[2], &w[3])) return 0;
    }
    memcpy(out, words, sizeof words);
    out[sizeof words] = 0;
    size_t skipped = strspn(out, " "), length = strlen(out + skipped);
    memmove(out, out + skipped, length + 1);
    while (length > 0 && out[length - 1] == ' ')
        out[--length] = 0;
    return length;
}

/* Family and model, as processor manuals count them: virtual machines may give several generations one brand. */
static void add_model(char *name, size_t length) {
    uint32_t signature, b, c, d;
    if (!__get_cpuid(1, &signature, &b, &c, &d)) return;
    uint32_t family = signature >> 8 & 15, model = signature >> 4 & 15;
    if (family == 6 || family == 15) model += signature >> 12 & 0xf0;
    if (family == 15) family += signature >> 20 & 255;
    snprintf(name + length, IG_CPU_NAME_SIZE - length, ", family %u, model %u", family, model);
}

#else

uint64_t ig_cpu_features(void) {
    return 0;
}

static size_t read_name(char out[IG_CPU_NAME_SIZE]) {
    (void)out;
    return 0;
}

static void add_model(char *name, size_t length) {
    (void)name;
    (void)length;
}

struct ig_cpu_caches ig_cpu_caches(void) {
    return (struct ig_cpu_caches){(size_t)32 << 10, (size_t)512 << 10, 0};
}

#endif

void ig_cpu_name(char out[IG_CPU_NAME_SIZE]) {
    size_t length = read_name(out);
    if (length == 0) length = strlen(strcpy(out, "processor"));
    add_model(out, length);
}

const char *ig_cpu_feature_name(uint64_t bits) {
    static const char *const names[IG_CPU_FEATURE_COUNT] = {
        "avx2",     "fma",        "f16c",       "bmi2",       "avx512f",  "avx512bw", "avx512cd",
        "avx512dq", "avx512vl",   "avx512vnni", "avx512bf16", "amx-tile", "amx-bf16", "amx-int8",
        "avxvnni",  "avx512fp16", "bmi1",       "lzcnt",      "movbe",    "popcnt",
    };
    if (!bits) return "none";
    int lowest = __builtin_ctzll(bits);
    return lowest < IG_CPU_FEATURE_COUNT ? names[lowest] : "unknown";
}

bool ig_cpu_request_amx(void) {
#if defined(__linux__) && defined(__x86_64__)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
    return false;
#endif
}
