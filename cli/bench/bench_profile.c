/* What the profile of `ingot bench` says: each kernel's time beside its estimate and its floor, and the kernels that are far
 * from it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "cli.h"

/* A kernel that takes no more of a run is no cliff. */
#define LEAST_SHARE 0.02
/* An estimate is near a time if neither is so many times the other. */
#define NEAR 1.3

static double lost_ms(const struct ingot_profile_row *row) {
    return row->total_ms > row->floor_ms ? row->total_ms - row->floor_ms : 0;
}

static int by_loss(const void *a, const void *b) {
    double x = lost_ms(a), y = lost_ms(b);
    return (x < y) - (x > y);
}

static double total_ms(const struct measurement *m) {
    double total = 0;
    for (size_t i = 0; i < m->n_profile; i++)
        total += m->profile[i].total_ms;
    return total;
}

static double floor_ms(const struct measurement *m) {
    double total = 0;
    for (size_t i = 0; i < m->n_profile; i++)
        total += m->profile[i].floor_ms;
    return total;
}

/* ---- The table ----------------------------------------------------------------------------------------------------- */

static void print_row(const struct ingot_profile_row *row, double estimate_ms, double total) {
    double calls = (double)row->calls, share = total > 0 ? 100 * row->total_ms / total : 0;
    printf("%10.1f %6.1f%% ", 1e3 * row->total_ms / calls, share);
    if (estimate_ms > 0)
        printf("%10.1f ", 1e3 * estimate_ms / calls);
    else
        printf("%10s ", "-");
    printf("%10.2f %10.1f %8llu  %-18s %-24s %s\n", 1e3 * row->floor_ms / calls, 1e3 * lost_ms(row) / calls,
           (unsigned long long)row->calls, row->bound ? row->bound : "-", row->kernel, row->origin);
}

/* Of the kernels that have an estimate: how many are within 30% of it, and what they take together. */
static void print_estimates(const struct measurement *m) {
    size_t estimated = 0, near = 0;
    double measured_ms = 0, estimated_ms = 0;
    for (size_t i = 0; i < m->n_profile; i++) {
        double time = m->profile[i].total_ms, estimate = m->estimates[i];
        if (estimate <= 0 || time <= 0) continue;
        estimated++;
        near += estimate < NEAR * time && time < NEAR * estimate;
        measured_ms += time;
        estimated_ms += estimate;
    }
    if (!estimated) return;
    printf("estimates   %zu of %zu are within 30%% of the time, all together are %.2f of it; for %s\n", near, estimated,
           estimated_ms / measured_ms, m->estimated_for);
}

void profile_print(const struct measurement *m) {
    double total = total_ms(m), floor = floor_ms(m);
    printf("\nkernels     %.1f%% of their time is their floor", total > 0 ? 100 * floor / total : 0);
    if (m->apart_us > 0) printf("; timed one by one, each takes %.1f us more", m->apart_us);
    putchar('\n');
    print_estimates(m);
    printf("%10s %7s %10s %10s %10s %8s  %-18s %-24s %s\n", "us/call", "share", "estimate", "floor", "lost", "calls",
           "floor is", "kernel", "from");
    for (size_t i = 0; i < m->n_profile; i++) {
        if (m->profile[i].calls)
            print_row(&m->profile[i], m->estimates[i], total); /* else a branch not taken, or for other sizes */
    }
}

json_t *profile_json(const struct measurement *m) {
    json_t *rows = json_array();
    for (size_t i = 0; i < m->n_profile; i++) {
        const struct ingot_profile_row *row = &m->profile[i];
        json_array_append_new(rows, json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:s?, s:f, s:f}", "kernel", row->kernel,
                                              "origin", row->origin, "calls", (json_int_t)row->calls, "total_ms",
                                              row->total_ms, "estimate_ms", m->estimates[i], "floor_ms", row->floor_ms,
                                              "bound", row->bound, "bytes", row->bytes, "operations", row->operations));
    }
    return rows;
}

/* ---- Cliffs -------------------------------------------------------------------------------------------------------- */

/* Adds a step to the sum of those that its kernel does. */
static void add_step(struct measurement *m, const struct ingot_profile_row *row) {
    size_t i = 0;
    while (i < m->n_cliffs && strcmp(m->cliffs[i].kernel, row->kernel) != 0)
        i++;
    if (i == m->n_cliffs) {
        m->cliffs[m->n_cliffs++] = *row;
        return;
    }
    m->cliffs[i].calls += row->calls;
    m->cliffs[i].total_ms += row->total_ms;
    m->cliffs[i].floor_ms += row->floor_ms;
}

/*
 * A kernel of a GPU is timed between two events, which adds some microseconds; in a run it follows the one before at once.
 * So what the kernels of a run take together beyond the shortest run is taken off, each the same, but no more than to its floor.
 */
static void take_off_events(struct measurement *m) {
    double calls = 0, run_ms = m->gpu.compute.count ? samples_part(&m->gpu.compute, 0) : 0;
    for (size_t i = 0; i < m->n_profile; i++)
        calls += (double)m->profile[i].calls;
    double beyond = total_ms(m) - run_ms * (double)m->profiled_runs;
    if (run_ms == 0 || beyond <= 0 || calls == 0) return;
    m->apart_us = 1e3 * beyond / calls;
    for (size_t i = 0; i < m->n_profile; i++) {
        struct ingot_profile_row *row = &m->profile[i];
        double off = beyond / calls * (double)row->calls, most = lost_ms(row);
        row->total_ms -= off < most ? off : most;
    }
}

/* ---- Estimates ----------------------------------------------------------------------------------------------------- */

/* A region of the explanation whose step has this label, by this kernel, of the `from`th on; NULL: there is none. */
static const json_t *find_region(const json_t *explanation, const struct ingot_profile_row *row, size_t *inout_from) {
    const json_t *regions = json_object_get(explanation, "regions"), *kernels = json_object_get(explanation, "kernels");
    const size_t count = json_array_size(regions);
    for (size_t k = 0; k < count; k++) { /* rows are in the order of regions, but for kernels at other sizes */
        size_t i = (*inout_from + k) % count;
        const json_t *region = json_array_get(regions, i), *number = json_object_get(region, "kernel");
        const char *label = json_string_value(json_object_get(region, "label"));
        if (!label || !json_is_integer(number) || strcmp(label, row->origin) != 0) continue;
        const json_t *kernel = json_array_get(kernels, (size_t)json_integer_value(number));
        const char *name = json_string_value(json_object_get(kernel, "name"));
        if (!name || strcmp(name, row->kernel) != 0) continue;
        *inout_from = i + 1;
        return region;
    }
    return NULL;
}

/* Of all calls of the row. A CPU's rows have those of this machine and its threads. */
static double estimate_of(const json_t *region, const struct ingot_profile_row *row, bool gpu) {
    if (!gpu) return row->estimate_ms;
    return json_real_value(json_object_get(region, "estimate_us")) / 1e3 * (double)row->calls;
}

/* Estimates are of the engine, for the usual sizes; of GPUs for the one that the target usually runs on. */
static void take_estimates(struct session *session, struct measurement *m) {
    const char *text;
    struct ingot_error error;
    size_t from = 0;
    bool gpu = m->gpu.compute.count > 0;
    m->estimates = cli_alloc(m->n_profile + 1, sizeof *m->estimates);
    if (ingot_engine_explanation(session->engine, &text, &error) != INGOT_OK) return;
    json_t *explanation = json_loads(text, 0, NULL);
    const json_t *figures = json_object_get(explanation, "figures");
    const char *machine = json_string_value(json_object_get(figures, "machine"));
    const char *sizes = json_string_value(json_object_get(figures, "sizes"));
    for (size_t i = 0; i < m->n_profile; i++)
        m->estimates[i] = estimate_of(find_region(explanation, &m->profile[i], &from), &m->profile[i], gpu);
    if (machine && sizes) {
        machine = gpu ? machine : "this machine";
        m->estimated_for = cli_format(*sizes ? "%s, %s" : "%s", machine, sizes);
    }
    json_decref(explanation);
}

/* ---- Taking -------------------------------------------------------------------------------------------------------- */

/* The rows, with their estimates, by the time lost. */
static void sort_rows(struct measurement *m) {
    struct estimated {
        struct ingot_profile_row row; /* first, so that rows compare */
        double estimate;
    } *all = cli_alloc(m->n_profile + 1, sizeof *all);
    for (size_t i = 0; i < m->n_profile; i++)
        all[i] = (struct estimated){m->profile[i], m->estimates[i]};
    qsort(all, m->n_profile, sizeof *all, by_loss);
    for (size_t i = 0; i < m->n_profile; i++) {
        m->profile[i] = all[i].row;
        m->estimates[i] = all[i].estimate;
    }
    free(all);
}

void profile_take(struct session *session, double share, struct measurement *m) {
    m->n_profile = ingot_context_profile(session->context, NULL, 0);
    m->profile = cli_alloc(m->n_profile, sizeof *m->profile);
    ingot_context_profile(session->context, m->profile, m->n_profile);
    /* Of each kernel the shortest call counts: a single stall of the host between two events would spoil a mean. */
    for (size_t i = 0; i < m->n_profile; i++)
        m->profile[i].total_ms = m->profile[i].shortest_ms * (double)m->profile[i].calls;
    take_estimates(session, m);
    take_off_events(m);
    sort_rows(m);
    m->cliffs = cli_alloc(m->n_profile, sizeof *m->cliffs);
    for (size_t i = 0; i < m->n_profile; i++) {
        if (m->profile[i].floor_ms > 0) add_step(m, &m->profile[i]);
    }
    size_t left = 0;
    double total = total_ms(m);
    for (size_t i = 0; i < m->n_cliffs; i++) {
        const struct ingot_profile_row kernel = m->cliffs[i];
        if (kernel.total_ms > LEAST_SHARE * total && kernel.floor_ms < share * kernel.total_ms)
            m->cliffs[left++] = kernel;
    }
    m->n_cliffs = left;
    qsort(m->cliffs, m->n_cliffs, sizeof *m->cliffs, by_loss);
}

void cliffs_print(const struct measurement *m, double share) {
    double total = total_ms(m);
    printf("cliffs      ");
    if (m->n_cliffs == 0)
        printf("none: every kernel over %.0f%% of a run reaches %g of its floor\n", 100 * LEAST_SHARE, share);
    else
        printf("%zu kernels over %.0f%% of a run reach less than %g of their floor\n", m->n_cliffs, 100 * LEAST_SHARE,
               share);
    for (size_t i = 0; i < m->n_cliffs; i++) {
        const struct ingot_profile_row *kernel = &m->cliffs[i];
        printf("  %5.3f of its floor, %5.1f%% of a run  %-24s %s\n", kernel->floor_ms / kernel->total_ms,
               100 * kernel->total_ms / total, kernel->kernel, kernel->origin);
    }
}

json_t *cliffs_json(const struct measurement *m) {
    double total = total_ms(m);
    json_t *kernels = json_array();
    for (size_t i = 0; i < m->n_cliffs; i++) {
        const struct ingot_profile_row *kernel = &m->cliffs[i];
        json_array_append_new(kernels, json_pack("{s:s, s:s, s:f, s:f}", "kernel", kernel->kernel, "origin",
                                                 kernel->origin, "of_floor", kernel->floor_ms / kernel->total_ms,
                                                 "of_run", kernel->total_ms / total));
    }
    return kernels;
}
