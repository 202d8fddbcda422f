/*
 * Machines, for floors. Those that are CPUs are measured, each time, since others may be using the processors; what was the
 * fastest ever is kept in a text file,
 *
 *     AMD EPYC 7B13, family 25, model 1, 2 threads: multiply-adds 102400, cache 148000, memory 27000
 *
 * in multiply-adds of f32 by vectors and bytes per microsecond. Whoever measures something faster adds a line. Lines that make no sense
 * are skipped, and those that begin with "f32", which earlier versions wrote and measured wrongly.
 */
#include "api/machines.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"

enum ingot_status ig_machines_gpu(int gpu, struct ig_machine *out_machine, struct ingot_error *error) {
    struct ig_device_cuda_info info;
    IG_TRY(ig_device_cuda_describe(gpu, &info, error));
    *out_machine = ig_machine_of_gpu(&(struct ig_gpu_figures){.sm = info.sm,
                                                              .processors = info.processors,
                                                              .mhz = info.mhz,
                                                              .memory = info.bandwidth,
                                                              .cache_bytes = (double)info.cache});
    return INGOT_OK;
}

enum { LONGEST = 200 };
#define FIGURES " multiply-adds %.0f, cache %.0f, memory %.0f\n"

/* "AMD EPYC 7B13, family 25, model 1, 2 threads:" */
static void name_of(unsigned threads, char out_name[LONGEST]) {
    char processor[IG_CPU_NAME_SIZE];
    ig_cpu_name(processor);
    snprintf(out_name, LONGEST, "%s, %u thread%s:", processor, threads, threads == 1 ? "" : "s");
}

static bool is_rate(double rate) {
    return rate > 1 && rate < 1e12;
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* The fastest of a file's lines for a machine; zeros: none. */
struct known {
    double f32, cache, memory;
};

static struct known find(const char *path, const char *name) {
    struct known best = {0, 0, 0}, k;
    char line[LONGEST + 100];
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, strlen(name)) != 0) continue;
        if (sscanf(line + strlen(name), " multiply-adds %lf, cache %lf, memory %lf", &k.f32, &k.cache, &k.memory) != 3)
            continue;
        if (!is_rate(k.f32) || !is_rate(k.cache) || !is_rate(k.memory)) continue;
        best = (struct known){larger(best.f32, k.f32), larger(best.cache, k.cache), larger(best.memory, k.memory)};
    }
    if (file) fclose(file);
    return best;
}

/* Multiply-adds of f32 by vectors; tiles may do more. */
static double multiply_adds(const struct ig_machine *m) {
    return m->rate[IG_UNIT_SIMPLE] / 2;
}

/* Is the machine faster than what is known, by more than measurements differ? */
static bool is_faster(const struct ig_machine *m, const struct known *k) {
    const double more = 1.02;
    return multiply_adds(m) > more * k->f32 || m->cache > more * k->cache || m->memory > more * k->memory;
}

/* All rates of products and arithmetic follow from that of f32. */
static void raise_rates(struct ig_machine *m, const struct known *k) {
    double faster = larger(k->f32 / multiply_adds(m), 1);
    for (int u = 0; u < IG_UNIT_COUNT; u++)
        m->rate[u] *= faster;
    m->cache = larger(m->cache, k->cache);
    m->memory = larger(m->memory, k->memory);
}

/* In one write, so that processes that measure at the same time do not mix their lines. */
static void add(const char *path, const char *name, const struct ig_machine *m) {
    char line[LONGEST + 100];
    int length = snprintf(line, sizeof line, "%s" FIGURES, name, multiply_adds(m), m->cache, m->memory);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return;
    ssize_t written = write(fd, line, (size_t)length);
    (void)written; /* of a line cut short, nothing is read */
    close(fd);
}

enum ingot_status ig_machines_cpu(struct ig_device *device, const char *path, struct ig_machine *out_machine,
                                  struct ingot_error *error) {
    char name[LONGEST];
    name_of(device->threads, name);
    IG_TRY(ig_device_cpu_measure(device, out_machine, error));
    struct known known = {0, 0, 0};
    if (path) known = find(path, name);
    bool faster = is_faster(out_machine, &known);
    raise_rates(out_machine, &known);
    if (path && faster) add(path, name, out_machine);
    out_machine->cache_bytes = (double)device->cache_bytes;
    return INGOT_OK;
}
