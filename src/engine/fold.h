/*
 * Repeated layers stand in an engine file once. The tables of a plan are folded by the writer and unfolded by the reader:
 * what runs is always the whole plan.
 *
 * Records of a table that go on in a constant stride are a run: `count` iterations of `period` records each, in which
 * every word of an iteration differs from that of the iteration before by the same number (mostly 0; for operands and
 * weights, what one layer has of them). The file holds the first two iterations, the layer and its stride; the words of
 * the others follow. Words that need not be in constant stride (where weights lie, labels) may be listed instead,
 * by iteration. So steps whose kernels, sizes and alternatives are equal and whose operands correspond fold, and nothing
 * needs to be known of layers; unfolding gives exactly the tables that were folded, and the plan's rules (check.h) are
 * checked of those.
 */
#ifndef IG_ENGINE_FOLD_H
#define IG_ENGINE_FOLD_H

#include "base/error.h"
#include "base/memory.h"
#include "engine/format.h"

#define IG_MAX_RUNS 1024                 /* per engine */
#define IG_MAX_UNFOLDED_WORDS (1u << 24) /* of a table that has runs: a small file cannot become a huge plan */

struct ig_folded {
    struct ig_plan plan;            /* with folded tables */
    const struct ig_plan_run *runs; /* ascending by table and record */
    const uint32_t *listed;
    uint32_t n_runs, n_listed;
    void *memory; /* of all tables that are not those of the whole plan */
    size_t size;
};

/* Deterministic. The result refers to the plan; release it with ig_folded_release. */
enum ingot_status ig_plan_fold(const struct ig_plan *plan, const struct ingot_allocator *allocator,
                               struct ig_folded *out_folded, struct ingot_error *error);
void ig_folded_release(struct ig_folded *folded, const struct ingot_allocator *allocator);

/* The whole plan of a folded one, which may be from a hostile file: INGOT_BAD_ENGINE if the runs do not fit the tables. The
 * result refers to the folded plan and to *out_memory (NULL if there are no runs), which the caller releases. */
enum ingot_status ig_plan_unfold(const struct ig_folded *folded, const struct ingot_allocator *allocator,
                                 struct ig_plan *out_plan, void **out_memory, size_t *out_size,
                                 struct ingot_error *error);

#endif
