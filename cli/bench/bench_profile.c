/* What the profile of `ingot bench` says: each kernel's time beside its floor, and the kernels that are far from it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

/* A kernel that takes no more of a run is no cliff. */
#define LEAST_SHARE 0.02

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

static void print_row(const struct ingot_profile_row *row, double total) {
    double calls = (double)row->calls, share = total > 0 ? 100 * row->total_ms / total : 0;
    printf("%10.1f %6.1f%% %10.2f %10.1f %8llu  %-18s %-24s %s\n", 1e3 * row->total_ms / calls, share,
           1e3 * row->floor_ms / calls, 1e3 * lost_ms(row) / calls, (unsigned long long)row->calls,
           row->bound ? row->bound : "-", row->kernel, row->origin);
}

void profile_print(const struct measurement *m) {
    double total = total_ms(m), floor = floor_ms(m);
    printf("\nkernels     %.1f%% of their time is their floor", total > 0 ? 100 * floor / total : 0);
    if (m->apart_us > 0) printf("; timed one by one, each takes %.1f us more", m->apart_us);
    putchar('\n');
    printf("%10s %7s %10s %10s %8s  %-18s %-24s %s\n", "us/call", "share", "floor", "lost", "calls", "floor is",
           "kernel", "from");
    for (size_t i = 0; i < m->n_profile; i++) {
        if (m->profile[i].calls) print_row(&m->profile[i], total); /* else a branch not taken, or for other sizes */
    }
}

json_t *profile_json(const struct measurement *m) {
    json_t *rows = json_array();
    for (size_t i = 0; i < m->n_profile; i++) {
        const struct ingot_profile_row *row = &m->profile[i];
        json_array_append_new(rows, json_pack("{s:s, s:s, s:I, s:f, s:f, s:s?, s:f, s:f}", "kernel", row->kernel,
                                              "origin", row->origin, "calls", (json_int_t)row->calls, "total_ms",
                                              row->total_ms, "floor_ms", row->floor_ms, "bound", row->bound, "bytes",
                                              row->bytes, "operations", row->operations));
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
 * So what the kernels of a run take together beyond the run is taken off, each the same, but no more than to its floor.
 */
static void take_off_events(struct measurement *m) {
    double calls = 0, run_ms = m->gpu.compute.count ? samples_part(&m->gpu.compute, 0.5) : 0;
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

void profile_take(struct session *session, double share, struct measurement *m) {
    m->n_profile = ingot_context_profile(session->context, NULL, 0);
    m->profile = cli_alloc(m->n_profile, sizeof *m->profile);
    ingot_context_profile(session->context, m->profile, m->n_profile);
    take_off_events(m);
    qsort(m->profile, m->n_profile, sizeof *m->profile, by_loss);
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
