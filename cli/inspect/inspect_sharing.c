/*
 * What the regions of an engine have in common: groups of equal regions, which share kernels; sequences of regions that
 * repeat, such as layers; and what distinguishes groups that are nearly equal. Computed from the explanation.
 */
#include <stdlib.h>
#include <string.h>

#include "inspect/inspect.h"

/* ---- Groups ------------------------------------------------------------------------------------------------------ */

/* The engine's regions, control flow aside, and the group of each. */
struct regions {
    size_t count;
    const json_t **region;
    size_t *group;
};

static size_t group_of(const json_t *explanation, json_int_t kernel) {
    const json_t *groups = json_object_get(explanation, "groups");
    size_t i = 0;
    while (i + 1 < json_array_size(groups) && json_number(json_array_get(groups, i), "kernel") != kernel)
        i++;
    return i;
}

static struct regions find_regions(const json_t *explanation) {
    const json_t *all = json_object_get(explanation, "regions");
    size_t n = json_array_size(all);
    struct regions r = {0, cli_alloc(n, sizeof *r.region), cli_alloc(n, sizeof *r.group)};
    for (size_t i = 0; i < n; i++) {
        const json_t *region = json_array_get(all, i);
        if (!json_object_get(region, "kernel")) continue;
        r.region[r.count] = region;
        r.group[r.count++] = group_of(explanation, json_number(region, "kernel"));
    }
    return r;
}

/* The kernels that a region may run: one, or all its variants, each once. */
static json_t *kernels_of(const json_t *region) {
    json_t *kernels = json_array(), *seen = json_object();
    const json_t *variants = json_object_get(region, "variants");
    json_array_append_new(kernels, json_integer(json_number(region, "kernel")));
    for (size_t i = 0; i < json_array_size(variants); i++) {
        json_int_t kernel = json_number(json_array_get(variants, i), "kernel");
        char *name = cli_format("%lld", (long long)kernel);
        if (kernel != json_number(region, "kernel") && !json_object_get(seen, name))
            json_array_append_new(kernels, json_integer(kernel));
        json_object_set_new(seen, name, json_true());
        free(name);
    }
    json_decref(seen);
    return kernels;
}

static json_t *group_json(const json_t *explanation, const struct regions *r, size_t group) {
    const json_t *all = json_object_get(explanation, "kernels");
    const json_t *first = NULL;
    json_int_t regions = 0, bytes = 0, source = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (r->group[i] != group) continue;
        if (!first) first = r->region[i];
        regions++;
    }
    json_t *kernels = first ? kernels_of(first) : json_array();
    for (size_t i = 0; i < json_array_size(kernels); i++) {
        const json_t *kernel = json_array_get(all, (size_t)json_integer_value(json_array_get(kernels, i)));
        bytes += json_number(kernel, "bytes");
        source += (json_int_t)strlen(json_text(kernel, "source"));
    }
    return json_pack("{s:o, s:I, s:I, s:I, s:s, s:s}", "kernels", kernels, "regions", regions, "bytes", bytes,
                     "source_bytes", source, "first", first ? json_text(first, "label") : "", "text",
                     json_text(json_array_get(json_object_get(explanation, "groups"), group), "text"));
}

static json_t *groups_json(const json_t *explanation, const struct regions *r) {
    json_t *groups = json_array();
    for (size_t i = 0; i < json_array_size(json_object_get(explanation, "groups")); i++)
        json_array_append_new(groups, group_json(explanation, r, i));
    return groups;
}

/* What sharing saved: kernels, bytes of code, and by the length of what was compiled, time. */
static json_t *shared_json(const struct regions *r, const json_t *groups) {
    json_int_t kernels = 0, alone = 0, bytes = 0, bytes_alone = 0, source = 0, source_alone = 0;
    for (size_t i = 0; i < json_array_size(groups); i++) {
        const json_t *g = json_array_get(groups, i);
        json_int_t n = (json_int_t)json_array_size(json_object_get(g, "kernels")), regions = json_number(g, "regions");
        kernels += n, alone += regions * n;
        bytes += json_number(g, "bytes"), bytes_alone += regions * json_number(g, "bytes");
        source += json_number(g, "source_bytes"), source_alone += regions * json_number(g, "source_bytes");
    }
    double time = source_alone ? (double)source / (double)source_alone : 1;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:f}", "regions", (json_int_t)r->count, "kernels", kernels,
                     "kernels_alone", alone, "bytes", bytes, "bytes_alone", bytes_alone, "compile_time", time);
}

/* ---- Sequences --------------------------------------------------------------------------------------------------- */

struct sequence {
    size_t first, period, count;
};

/* The sequence between `begin` and `end` that repeats most regions; of equal ones the shortest, then the first. */
static struct sequence longest_sequence(const size_t *group, size_t begin, size_t end) {
    struct sequence best = {0, 0, 0};
    for (size_t period = 1; 2 * period <= end - begin; period++) {
        size_t length = 0;
        for (size_t i = begin; i + period < end; i++) {
            length = group[i] == group[i + period] ? length + 1 : 0;
            size_t count = length / period + 1;
            if ((count - 1) * period > (best.count ? best.count - 1 : 0) * best.period)
                best = (struct sequence){i + 1 - length, period, count};
        }
    }
    return best;
}

/* A sequence of fewer regions is no layer. */
enum { LEAST_PERIOD = 2 };

static void add_sequences(const struct regions *r, size_t begin, size_t end, json_t *to) {
    struct sequence s = longest_sequence(r->group, begin, end);
    if (s.count < 2 || s.period < LEAST_PERIOD) return;
    add_sequences(r, begin, s.first, to);
    json_array_append_new(to, json_pack("{s:I, s:I, s:I, s:s, s:s}", "first", (json_int_t)s.first, "regions",
                                        (json_int_t)s.period, "times", (json_int_t)s.count, "from",
                                        json_text(r->region[s.first], "label"), "to",
                                        json_text(r->region[s.first + s.period - 1], "label")));
    add_sequences(r, s.first + s.period * s.count, end, to);
}

/* ---- All --------------------------------------------------------------------------------------------------------- */

static json_t *sharing_json(const json_t *explanation) {
    struct regions r = find_regions(explanation);
    json_t *groups = groups_json(explanation, &r), *sequences = json_array();
    add_sequences(&r, 0, r.count, sequences);
    json_t *sharing = json_pack("{s:o, s:o, s:o, s:o}", "shared", shared_json(&r, groups), "sequences", sequences,
                                "differences", inspect_differences(groups), "groups", groups);
    free(r.region);
    free(r.group);
    return sharing;
}

static void print_shared(const json_t *s, size_t n_groups) {
    long long regions = (long long)json_number(s, "regions"), kernels = (long long)json_number(s, "kernels");
    long long alone = (long long)json_number(s, "kernels_alone");
    printf("regions     %lld in %zu group%s of equal ones\n", regions, n_groups, n_groups == 1 ? "" : "s");
    printf("kernels     %lld compiled, %lld without sharing", kernels, alone);
    if (alone > kernels) printf(": %.0f %% fewer", 100 * (1 - (double)kernels / (double)alone));
    printf("\ncode        %lld bytes, %lld without sharing\n", (long long)json_number(s, "bytes"),
           (long long)json_number(s, "bytes_alone"));
    printf("compiling   %.0f %% of the time without sharing, by the length of the kernels' texts\n",
           100 * json_real_value(json_object_get(s, "compile_time")));
}

static void print_sequences(const json_t *sequences) {
    for (size_t i = 0; i < json_array_size(sequences); i++) {
        const json_t *s = json_array_get(sequences, i);
        long long first = (long long)json_number(s, "first"), n = (long long)json_number(s, "regions");
        long long times = (long long)json_number(s, "times");
        printf("%-12s%lld regions, %lld times: regions %lld to %lld\n", i ? "" : "sequences", n, times, first,
               first + n * times - 1);
        printf("%14sfrom %s\n%14sto   %s\n", "", json_text(s, "from"), "", json_text(s, "to"));
    }
}

static void print_groups(const json_t *groups) {
    printf("groups\n%4s %7s %7s %8s  %s\n", "no.", "regions", "kernels", "bytes", "first region");
    for (size_t i = 0; i < json_array_size(groups); i++) {
        const json_t *g = json_array_get(groups, i);
        printf("%4zu %7lld %7zu %8lld  %s\n", i, (long long)json_number(g, "regions"),
               json_array_size(json_object_get(g, "kernels")), (long long)json_number(g, "bytes"),
               json_text(g, "first"));
    }
}

static void print_differences(const json_t *differences) {
    for (size_t i = 0; i < json_array_size(differences); i++) {
        const json_t *d = json_array_get(differences, i), *what = json_object_get(d, "what");
        printf("%s%4lld differs from %lld in\n", i ? "" : "nearly equal\n", (long long)json_number(d, "group"),
               (long long)json_number(d, "from"));
        for (size_t k = 0; k < json_array_size(what); k++)
            printf("%8s%s\n", "", json_string_value(json_array_get(what, k)));
    }
}

void inspect_sharing_print(const json_t *explanation, bool json) {
    json_t *sharing = sharing_json(explanation);
    const json_t *groups = json_object_get(sharing, "groups");
    if (json) {
        json_dumpf(sharing, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(4));
        putchar('\n');
    } else {
        print_shared(json_object_get(sharing, "shared"), json_array_size(groups));
        print_sequences(json_object_get(sharing, "sequences"));
        print_groups(groups);
        print_differences(json_object_get(sharing, "differences"));
    }
    json_decref(sharing);
}
