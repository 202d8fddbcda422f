/*
 * What a CPU's threads can do at best: multiply-adds of f32, and reading what their caches hold and what they do not. Each
 * is done a few times over, and the fastest counts. All other rates follow from that of f32 (base/machine.c).
 *
 * Of multiply-adds each thread's own time counts, in which it has a processor: what wakes threads up, or runs in their place,
 * takes longer than they do. Reading is timed as a whole, since threads share the memory.
 */
#include "device/cpu/speed.h"

#include <time.h>

#include "base/cpu.h"
#include "base/memory.h"

#if defined(__x86_64__)

#include <immintrin.h>

enum {
    SUMS = 10, /* independent ones: enough for two units whose results take five cycles */
    STEPS = 16000,
    ROUNDS = 24,
    PASSES = 8,        /* over a thread's part of the cache */
    PIECE = 1 << 18,   /* bytes per tile of memory */
    MEMORY = 64 << 20, /* bytes */
    LINE = 64,
    MEMORY_ROUNDS = 4,
    TILES = MEMORY / PIECE,
};

#define EACH_SUM(x) x(0) x(1) x(2) x(3) x(4) x(5) x(6) x(7) x(8) x(9)
/* From values of their own: the compiler sees that equal sums stay equal, and computes one of them. */
#define DECLARE_8(i) s##i = _mm256_set1_ps((float)(i)),
#define DECLARE_16(i) s##i = _mm512_set1_ps((float)(i)),
#define MULTIPLY_8(i) s##i = _mm256_fmadd_ps(s##i, a, b);
#define MULTIPLY_16(i) s##i = _mm512_fmadd_ps(s##i, a, b);
#define ADD_8(i) sum = _mm256_add_ps(sum, s##i);
#define ADD_16(i) sum = _mm512_add_ps(sum, s##i);

__attribute__((target("avx2,fma"))) static void multiply_8(void *const *buffers, const int64_t *dims, int64_t begin,
                                                           int64_t end, void *scratch) {
    const __m256 a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(0.25f);
    for (int64_t tile = begin; tile < end; tile++) {
        __m256 EACH_SUM(DECLARE_8) sum = a;
        for (int64_t i = 0; i < dims[0]; i++) {
            EACH_SUM(MULTIPLY_8)
        }
        EACH_SUM(ADD_8)
        _mm256_store_ps((float *)buffers[0] + 16 * tile, sum);
    }
}

__attribute__((target("avx512f"))) static void multiply_16(void *const *buffers, const int64_t *dims, int64_t begin,
                                                           int64_t end, void *scratch) {
    const __m512 a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(0.25f);
    for (int64_t tile = begin; tile < end; tile++) {
        __m512 EACH_SUM(DECLARE_16) sum = a;
        for (int64_t i = 0; i < dims[0]; i++) {
            EACH_SUM(MULTIPLY_16)
        }
        EACH_SUM(ADD_16)
        _mm512_store_ps((float *)buffers[0] + 16 * tile, sum);
    }
}

/* Reads tile after tile of dims[0] bytes, each dims[1] times. */
__attribute__((target("avx2"))) static void read_tiles(void *const *buffers, const int64_t *dims, int64_t begin,
                                                       int64_t end, void *scratch) {
    for (int64_t tile = begin; tile < end; tile++) {
        const char *from = (const char *)buffers[1] + tile * dims[0];
        __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
        for (int64_t pass = 0; pass < dims[1]; pass++) {
            for (int64_t i = 0; i < dims[0]; i += 128) {
                const __m256i *at = (const __m256i *)(from + i);
                a = _mm256_xor_si256(a, at[0]);
                b = _mm256_add_epi8(b, at[1]);
                c = _mm256_xor_si256(c, at[2]);
                d = _mm256_add_epi8(d, at[3]);
            }
        }
        a = _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
        _mm256_store_si256((__m256i *)((char *)buffers[0] + 64 * (tile % dims[2])), a);
    }
}

/* So that every page is there. */
static void write_tiles(void *const *buffers, const int64_t *dims, int64_t begin, int64_t end, void *scratch) {
    for (int64_t i = begin * dims[0]; i < end * dims[0]; i += 4096)
        ((char *)buffers[1])[i] = 1;
}

/* Nanoseconds for which this thread has had a processor. */
static uint64_t thread_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* One tile for each thread; keeps the shortest time, per tile, in a line of buffers[1]. */
static void timed_products(ig_pool_kernel products, void *const *buffers, const int64_t *dims, int64_t begin,
                           int64_t end) {
    for (int64_t tile = begin; tile < end; tile++) {
        uint64_t *shortest = (uint64_t *)((char *)buffers[1] + LINE * tile), from = thread_clock();
        products(buffers, dims, tile, tile + 1, NULL);
        uint64_t taken = thread_clock() - from;
        if (taken > 0 && (*shortest == 0 || taken < *shortest)) *shortest = taken;
    }
}

static void timed_8(void *const *buffers, const int64_t *dims, int64_t begin, int64_t end, void *scratch) {
    timed_products(multiply_8, buffers, dims, begin, end);
}

static void timed_16(void *const *buffers, const int64_t *dims, int64_t begin, int64_t end, void *scratch) {
    timed_products(multiply_16, buffers, dims, begin, end);
}

struct task {
    struct ig_pool *pool;
    ig_pool_kernel kernel;
    void *buffers[2]; /* results, a line per tile; what is read */
    int64_t dims[3];
    int64_t tiles;
};

/* The shortest time of several rounds, in microseconds. */
static double shortest(const struct task *task, int rounds) {
    const struct ig_pool_item item = {.kernel = task->kernel,
                                      .buffers = task->buffers,
                                      .dims = task->dims,
                                      .tiles = task->tiles,
                                      .workers = ig_pool_size(task->pool),
                                      .chunks = 1};
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < rounds; i++) {
        uint64_t begin = ig_clock();
        ig_pool_run(task->pool, &item, 1, NULL);
        uint64_t taken = ig_clock() - begin;
        best = taken < best ? taken : best;
    }
    return best > 0 ? (double)best / 1000 : 0.001;
}

static void measure_products(struct ig_pool *pool, char *results, uint64_t features, struct ig_machine *m) {
    bool wide = (features & IG_CPU_X86_64_V4) == IG_CPU_X86_64_V4;
    const uint32_t n = ig_pool_size(pool);
    uint64_t *times = (uint64_t *)(results + (size_t)LINE * n);
    struct task task = {pool, wide ? timed_16 : timed_8, {results, times}, {STEPS}, n};
    const size_t apart = LINE / sizeof *times;
    double done = (double)STEPS * SUMS * (wide ? 16 : 8), rate = 0;
    for (uint32_t i = 0; i < n; i++)
        times[apart * i] = 0;
    shortest(&task, ROUNDS);
    for (uint32_t i = 0; i < n; i++) /* a thread in whose place another one did its tile has no time */
        rate += times[apart * i] ? 1e3 * done / (double)times[apart * i] : 0;
    if (rate == 0) return;
    const double faster = 2 * rate / m->rate[IG_UNIT_SIMPLE];
    for (int u = 0; u < IG_UNIT_COUNT; u++)
        m->rate[u] *= faster;
}

static void measure_memory(struct ig_pool *pool, void *results, void *memory, struct ig_machine *m) {
    const int64_t n = ig_pool_size(pool), part = (int64_t)(ig_cpu_caches().l2 / 2) & ~(int64_t)4095;
    struct task task = {pool, write_tiles, {results, memory}, {PIECE, 1, n}, TILES};
    shortest(&task, 1);
    task.kernel = read_tiles;
    m->memory = MEMORY / shortest(&task, MEMORY_ROUNDS);
    task.dims[0] = part < MEMORY / n ? part : MEMORY / n / 128 * 128;
    task.dims[1] = PASSES;
    task.tiles = n;
    double cache = (double)(task.dims[0] * PASSES * n) / shortest(&task, ROUNDS);
    m->cache = cache > m->memory ? cache : m->memory;
}

enum ingot_status ig_cpu_measure(struct ig_pool *pool, const struct ingot_allocator *allocator,
                                 struct ig_machine *out_machine, struct ingot_error *error) {
    const uint64_t features = ig_cpu_features();
    const uint32_t n = ig_pool_size(pool);
    *out_machine = ig_machine_of_cpu(features, n);
    if ((features & IG_CPU_X86_64_V3) != IG_CPU_X86_64_V3) return INGOT_OK;
    char *results = allocator->alloc(allocator->user, 2 * (size_t)LINE * n, LINE);
    void *memory = allocator->alloc(allocator->user, MEMORY, 4096);
    if (results && memory) {
        measure_products(pool, results, features, out_machine);
        measure_memory(pool, results, memory, out_machine);
    }
    ig_release(allocator, results, 2 * (size_t)LINE * n);
    ig_release(allocator, memory, MEMORY);
    if (!results || !memory) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for measuring this machine");
    return INGOT_OK;
}

#else

enum ingot_status ig_cpu_measure(struct ig_pool *pool, const struct ingot_allocator *allocator,
                                 struct ig_machine *out_machine, struct ingot_error *error) {
    *out_machine = ig_machine_of_cpu(0, ig_pool_size(pool));
    return INGOT_OK;
}

#endif
