/*
 * The processors available to this process. Affinity says where its threads may run; the quota of a control group (set
 * by `docker run --cpus`) says how much time they get there. Both matter: threads beyond the quota are throttled all at
 * once, which is far slower than running fewer. Sources: sched(7), cgroups(7), the kernel's cgroup-v2 and sched-bwc
 * documents.
 */
#define _GNU_SOURCE /* sched_getaffinity, CPU_COUNT_S */
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"

static void read_affinity(struct ig_processors *out_processors) {
    memset(out_processors->mask, 0xff, sizeof out_processors->mask);
#if defined(__linux__)
    /* 64 KiB of mask covers half a million processors; the call fails where the mask is too small. */
    static const size_t sizes[] = {sizeof out_processors->mask, 8192};
    _Alignas(cpu_set_t) unsigned char mask[8192];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sched_getaffinity(0, sizes[i], (cpu_set_t *)(void *)mask) != 0) continue;
        int count = CPU_COUNT_S(sizes[i], (cpu_set_t *)(void *)mask);
        if (count <= 0) continue;
        out_processors->count = (unsigned)count;
        if (i == 0) memcpy(out_processors->mask, mask, sizes[i]);
        return;
    }
#endif
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    out_processors->count = online > 0 ? (unsigned)online : 1;
}

#if defined(__linux__)

/* Reads a small file; false if it is missing or empty. */
static bool read_text(const char *path, char *out, size_t capacity) {
    FILE *file = fopen(path, "re");
    if (!file) return false;
    size_t length = fread(out, 1, capacity - 1, file);
    out[length] = '\0';
    fclose(file);
    return length > 0;
}

/* The processors that `quota` microseconds per `period` amount to, rounded up. */
static unsigned quota_processors(long long quota, long long period) {
    if (quota <= 0 || period <= 0) return UINT_MAX;
    long long processors = quota / period + (quota % period != 0);
    return processors < UINT_MAX ? (unsigned)processors : UINT_MAX;
}

/* The limit of one group; `folder` is its path below the mount point. */
static unsigned group_limit(const char *mount, const char *folder, bool unified) {
    char path[PATH_MAX], text[128];
    if (unified) {
        snprintf(path, sizeof path, "%s%s/cpu.max", mount, folder);
        long long quota, period;
        if (!read_text(path, text, sizeof text) || sscanf(text, "%lld %lld", &quota, &period) != 2) return UINT_MAX;
        return quota_processors(quota, period); /* "max" does not scan as a number: no limit */
    }
    snprintf(path, sizeof path, "%s%s/cpu.cfs_quota_us", mount, folder);
    if (!read_text(path, text, sizeof text)) return UINT_MAX;
    long long quota = strtoll(text, NULL, 10);
    snprintf(path, sizeof path, "%s%s/cpu.cfs_period_us", mount, folder);
    if (!read_text(path, text, sizeof text)) return UINT_MAX;
    return quota_processors(quota, strtoll(text, NULL, 10));
}

/* The tightest limit on the path from the group up to the root. In a container the path may be the host's, with only
 * the root visible; what cannot be read sets no limit. */
static unsigned tightest_limit(const char *mount, char *folder, bool unified) {
    unsigned limit = UINT_MAX;
    for (;;) {
        unsigned here = group_limit(mount, folder, unified);
        if (here < limit) limit = here;
        char *slash = strrchr(folder, '/');
        if (!slash) return limit;
        *slash = '\0';
    }
}

/* Does the comma-separated list contain "cpu"? */
static bool lists_cpu(const char *controllers) {
    for (const char *at = controllers; *at; at += strspn(at, ",")) {
        size_t length = strcspn(at, ",");
        if (length == 3 && memcmp(at, "cpu", 3) == 0) return true;
        at += length;
    }
    return false;
}

/* Lines of /proc/self/cgroup: "ID:CONTROLLERS:PATH"; version 2 has ID 0 and no controllers. */
static unsigned by_quota(void) {
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file) return UINT_MAX;
    unsigned limit = UINT_MAX;
    char line[PATH_MAX];
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *folder = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!folder) continue;
        *controllers++ = '\0';
        *folder++ = '\0';
        bool unified = !*controllers;
        if (!unified && !lists_cpu(controllers)) continue;
        char mount[128];
        if (unified) {
            snprintf(mount, sizeof mount, "/sys/fs/cgroup");
        } else {
            snprintf(mount, sizeof mount, "/sys/fs/cgroup/%.60s", controllers);
        }
        unsigned here = tightest_limit(mount, folder, unified);
        if (here < limit) limit = here;
    }
    fclose(file);
    return limit;
}

#else

static unsigned by_quota(void) {
    return UINT_MAX;
}

#endif

void ig_processors_read(struct ig_processors *out_processors) {
    read_affinity(out_processors);
    out_processors->quota = by_quota();
}

unsigned ig_processors_usable(const struct ig_processors *processors) {
    unsigned count = processors->count < processors->quota ? processors->count : processors->quota;
    return count > 0 ? count : 1;
}

unsigned ig_cpu_processors(void) {
    struct ig_processors processors;
    ig_processors_read(&processors);
    return ig_processors_usable(&processors);
}
