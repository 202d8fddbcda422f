/* The processor's features (CPUID, with the operating system's support by XGETBV), and how many processors this process
 * may use. */
#ifndef IG_BASE_CPU_H
#define IG_BASE_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Feature bits, stored in engine files: never renumbered. */
#define IG_CPU_AVX2 ((uint64_t)1 << 0)
#define IG_CPU_FMA ((uint64_t)1 << 1)
#define IG_CPU_F16C ((uint64_t)1 << 2)
#define IG_CPU_BMI2 ((uint64_t)1 << 3)
#define IG_CPU_AVX512F ((uint64_t)1 << 4)
#define IG_CPU_AVX512BW ((uint64_t)1 << 5)
#define IG_CPU_AVX512CD ((uint64_t)1 << 6)
#define IG_CPU_AVX512DQ ((uint64_t)1 << 7)
#define IG_CPU_AVX512VL ((uint64_t)1 << 8)
#define IG_CPU_AVX512_VNNI ((uint64_t)1 << 9)
#define IG_CPU_AVX512_BF16 ((uint64_t)1 << 10)
#define IG_CPU_AMX_TILE ((uint64_t)1 << 11)
#define IG_CPU_AMX_BF16 ((uint64_t)1 << 12)
#define IG_CPU_AMX_INT8 ((uint64_t)1 << 13)
#define IG_CPU_AVX_VNNI ((uint64_t)1 << 14)
#define IG_CPU_AVX512_FP16 ((uint64_t)1 << 15)
#define IG_CPU_BMI1 ((uint64_t)1 << 16)
#define IG_CPU_LZCNT ((uint64_t)1 << 17)
#define IG_CPU_MOVBE ((uint64_t)1 << 18)
#define IG_CPU_POPCNT ((uint64_t)1 << 19)
#define IG_CPU_FEATURE_COUNT 20

/* The features that code for a level of the x86-64 ABI may use. */
#define IG_CPU_X86_64_V3 \
    (IG_CPU_AVX2 | IG_CPU_FMA | IG_CPU_F16C | IG_CPU_BMI2 | IG_CPU_BMI1 | IG_CPU_LZCNT | IG_CPU_MOVBE | IG_CPU_POPCNT)
#define IG_CPU_X86_64_V4 \
    (IG_CPU_X86_64_V3 | IG_CPU_AVX512F | IG_CPU_AVX512BW | IG_CPU_AVX512CD | IG_CPU_AVX512DQ | IG_CPU_AVX512VL)
#define IG_CPU_AMX \
    (IG_CPU_X86_64_V4 | IG_CPU_AVX512_VNNI | IG_CPU_AVX512_BF16 | IG_CPU_AMX_TILE | IG_CPU_AMX_BF16 | IG_CPU_AMX_INT8)

/* The features that the processor has and whose registers the operating system saves; 0 on other architectures.
 * Executes CPUID on every call, which takes tens of microseconds under a hypervisor. */
uint64_t ig_cpu_features(void);
/* "avx512f": the name of the lowest bit; "none" for 0, "unknown" for bits without a name. A static string. */
const char *ig_cpu_feature_name(uint64_t features);
/* Requests AMX tile registers, which Linux grants once per process. False if they are not available. */
bool ig_cpu_request_amx(void);

/* The processor's own name, its family and model: "AMD EPYC, family 25, model 17"; "processor" if it reports no name. */
enum { IG_CPU_NAME_SIZE = 49 + 32 };
void ig_cpu_name(char out_name[IG_CPU_NAME_SIZE]);

/* Bytes of data cache visible to one core; sensible defaults if the processor does not report them. */
struct ig_cpu_caches {
    size_t l1, l2, l3; /* l3 may be shared; 0 if there is none */
};
struct ig_cpu_caches ig_cpu_caches(void);

/* The processors that a thread, and the threads it starts, may use. */
enum { IG_PROCESSOR_WORDS = 16 };
struct ig_processors {
    uint64_t mask[IG_PROCESSOR_WORDS]; /* its affinity, bit by processor; all bits where there are more processors */
    unsigned count;                    /* in its affinity, at least 1 */
    unsigned quota;                    /* what the time granted by the cgroups amounts to; UINT_MAX: no limit */
};
/* Those of the calling thread. Reads files. */
void ig_processors_read(struct ig_processors *out_processors);
/* How many can be used at once: `count`, limited by the quota. At least 1. */
unsigned ig_processors_usable(const struct ig_processors *processors);
/* The same for the calling thread. */
unsigned ig_cpu_processors(void);

/* Between two looks at what another processor will write: leaves it, and the other thread of this core, the resources. */
static inline void ig_cpu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
