/* Folds the tables of a plan, and unfolds them; see fold.h. */
#include "engine/fold.h"

#include <stdlib.h>
#include <string.h>

/* ---- Tables ------------------------------------------------------------------------------------------------------ */

/* A table as words. */
struct table {
    enum ig_part part;
    const uint32_t *words;
    uint32_t count;    /* records */
    uint32_t width;    /* words per record */
    uint32_t listable; /* by word: may be listed */
};

#define WORD(type, field) (1u << (offsetof(struct type, field) / sizeof(uint32_t)))
#define TABLE(part, array, count, listable) \
    { part, (const uint32_t *)(array), count, ig_part_rules[part].record / sizeof(uint32_t), listable }
enum { TABLES = 6, STEPS = 3 };

static void get_tables(const struct ig_plan *p, struct table *out) {
    const struct table tables[TABLES] = {
        TABLE(IG_PART_TENSORS, p->tensors, p->n_tensors, WORD(ig_plan_tensor, name)),
        TABLE(IG_PART_SHAPE_PROGRAM, p->instrs, p->n_instrs, 0),
        TABLE(IG_PART_BUFFERS, p->buffers, p->n_buffers, WORD(ig_plan_buffer, index) | WORD(ig_plan_buffer, offset)),
        TABLE(IG_PART_STEPS, p->steps, p->n_steps, WORD(ig_plan_step, label)),
        TABLE(IG_PART_OPERANDS, p->operands, p->n_operands, 0),
        TABLE(IG_PART_DIMS, p->dims, p->n_dims, 0),
    };
    memcpy(out, tables, sizeof tables);
}

static void set_tables(struct ig_plan *p, const struct table *tables) {
    p->tensors = (const void *)tables[0].words, p->n_tensors = tables[0].count;
    p->instrs = (const void *)tables[1].words, p->n_instrs = tables[1].count;
    p->buffers = (const void *)tables[2].words, p->n_buffers = tables[2].count;
    p->steps = (const void *)tables[STEPS].words, p->n_steps = tables[STEPS].count;
    p->operands = tables[4].words, p->n_operands = tables[4].count;
    p->dims = tables[5].words, p->n_dims = tables[5].count;
}

/* ---- Finding runs ------------------------------------------------------------------------------------------------ */

/* Longer layers are found where the steps tell their length. */
enum { LONGEST_PERIOD = 1024, LONGEST_PERIOD_OF_WORDS = 64, MOST_RECORDS = 1 << 18, MOST_HINTS = 64 };
enum { RUN_WORDS = sizeof(struct ig_plan_run) / sizeof(uint32_t), LEAST_SAVED = 16 };

struct folding {
    struct table table;
    struct ig_plan_run *runs;
    uint32_t n_runs;
    uint32_t *listed;
    uint32_t n_listed;
    uint32_t hints[MOST_HINTS]; /* periods to try besides short ones */
    uint32_t n_hints;
};

static bool is_linear(const uint32_t *words, size_t stride) {
    return words[2 * stride] - words[stride] == words[stride] - words[0];
}

/* Does record i go on in constant stride for two periods, up to words that may be listed? */
static bool goes_on(const struct table *t, uint32_t i, uint32_t period) {
    const uint32_t *words = t->words + (size_t)i * t->width;
    for (uint32_t f = 0; f < t->width; f++) {
        if (!is_linear(words + f, (size_t)period * t->width) && !(t->listable >> f & 1)) return false;
    }
    return true;
}

/* Takes the longest run of that period among the records from `begin` to `end`, if it saves more than *best. */
static void try_period(const struct table *t, uint32_t begin, uint32_t end, uint32_t period, struct ig_plan_run *best,
                       uint64_t *inout_saved) {
    uint32_t length = 0;
    if (period == 0 || (end - begin) / 3 < period) return;
    for (uint32_t i = begin; i + 2 * period < end; i++) {
        length = goes_on(t, i, period) ? length + 1 : 0;
        uint64_t saved = (uint64_t)(length / period) * period;
        if (saved <= *inout_saved) continue;
        *inout_saved = saved;
        *best = (struct ig_plan_run){t->part, i + 1 - length, period, length / period + 2, 0};
    }
}

/* Is word w of a run's period in constant stride throughout? */
static bool is_linear_throughout(const struct table *t, const struct ig_plan_run *run, uint32_t w) {
    size_t stride = (size_t)run->period * t->width;
    const uint32_t *words = t->words + (size_t)run->first * t->width + w;
    for (uint32_t i = 0; i + 2 < run->count; i++) {
        if (!is_linear(words + i * stride, stride)) return false;
    }
    return true;
}

static uint32_t count_columns(const struct table *t, const struct ig_plan_run *run) {
    uint32_t count = 0;
    for (uint32_t w = 0; w < run->period * t->width; w++)
        count += !is_linear_throughout(t, run, w);
    return count;
}

/* Lists the words that are not in constant stride: the word, then its values from the third iteration on. */
static void list_columns(struct folding *f, const struct ig_plan_run *run) {
    const struct table *t = &f->table;
    size_t stride = (size_t)run->period * t->width;
    for (uint32_t w = 0; w < stride; w++) {
        if (is_linear_throughout(t, run, w)) continue;
        f->listed[f->n_listed++] = w;
        for (uint32_t i = 2; i < run->count; i++)
            f->listed[f->n_listed++] = t->words[(size_t)run->first * t->width + i * stride + w];
    }
}

/* Finds the run that saves most between `begin` and `end`, then those before and behind it. */
static void find_runs(struct folding *f, uint32_t begin, uint32_t end) {
    const struct table *t = &f->table;
    struct ig_plan_run run = {0};
    uint64_t saved = 0;
    uint32_t longest = t->width == 1 ? LONGEST_PERIOD_OF_WORDS : LONGEST_PERIOD;
    for (uint32_t period = 1; period <= longest; period++)
        try_period(t, begin, end, period, &run, &saved);
    for (uint32_t i = 0; i < f->n_hints; i++)
        try_period(t, begin, end, f->hints[i], &run, &saved);
    if (saved == 0 || f->n_runs == IG_MAX_RUNS) return;
    run.columns = count_columns(t, &run);
    if (saved * t->width < (uint64_t)run.columns * (run.count - 1) + RUN_WORDS + LEAST_SAVED) return;
    find_runs(f, begin, run.first);
    if (f->n_runs == IG_MAX_RUNS) return;
    f->runs[f->n_runs++] = run;
    list_columns(f, &run);
    find_runs(f, run.first + run.period * run.count, end);
}

/* What a layer has of operands and dims, as the runs of steps tell. */
static void take_hints(struct folding *f, const struct ig_plan *plan) {
    for (uint32_t i = 0; i < f->n_runs && f->n_hints + 2 <= MOST_HINTS; i++) {
        if (f->runs[i].part != IG_PART_STEPS) continue;
        const struct ig_plan_step *a = &plan->steps[f->runs[i].first], *b = a + f->runs[i].period;
        f->hints[f->n_hints++] = b->operands - a->operands;
        f->hints[f->n_hints++] = b->dims - a->dims;
    }
}

/* ---- Folding ----------------------------------------------------------------------------------------------------- */

/* Copies the records that the runs from `run` on leave, and sets the table to them. */
static uint32_t *shorten(struct table *t, const struct ig_plan_run *runs, uint32_t n_runs, uint32_t *to) {
    uint32_t from = 0;
    size_t record = t->width * sizeof(uint32_t);
    const uint32_t *words = t->words, *begin = to;
    for (uint32_t i = 0; i <= n_runs; i++) {
        uint32_t stop = i < n_runs ? runs[i].first + 2 * runs[i].period : t->count;
        memcpy(to, words + (size_t)from * t->width, (stop - from) * record);
        to += (size_t)(stop - from) * t->width;
        from = i < n_runs ? runs[i].first + runs[i].period * runs[i].count : stop;
    }
    t->words = begin;
    t->count = (uint32_t)((size_t)(to - begin) / t->width);
    return to;
}

static void fold_tables(struct folding *f, struct table *tables, const struct ig_plan *plan, uint32_t *to) {
    uint32_t first_run[TABLES + 1];
    for (int i = 0; i < TABLES; i++) {
        f->table = tables[i];
        first_run[i] = f->n_runs;
        if (tables[i].count <= MOST_RECORDS && (uint64_t)tables[i].count * tables[i].width <= IG_MAX_UNFOLDED_WORDS)
            find_runs(f, 0, tables[i].count);
        if (i == STEPS) take_hints(f, plan);
    }
    first_run[TABLES] = f->n_runs;
    for (int i = 0; i < TABLES; i++) {
        uint32_t n_runs = first_run[i + 1] - first_run[i];
        if (n_runs) to = shorten(&tables[i], f->runs + first_run[i], n_runs, to);
    }
}

enum ingot_status ig_plan_fold(const struct ig_plan *plan, const struct ingot_allocator *allocator,
                               struct ig_folded *out, struct ingot_error *error) {
    struct table tables[TABLES];
    size_t words = 0, runs = IG_MAX_RUNS * sizeof(struct ig_plan_run);
    get_tables(plan, tables);
    for (int i = 0; i < TABLES; i++)
        words += (size_t)tables[i].count * tables[i].width;
    /* Listed words replace words of the tables, so neither they nor the shortened tables are more than there are. */
    *out = (struct ig_folded){.plan = *plan, .size = runs + 2 * words * sizeof(uint32_t)};
    out->memory = ig_allocate(allocator, out->size, 64);
    if (!out->memory) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for an engine's plan");
    struct folding f = {.runs = out->memory};
    uint32_t *shortened = (uint32_t *)(void *)((char *)out->memory + runs);
    f.listed = shortened + words;
    fold_tables(&f, tables, plan, shortened);
    set_tables(&out->plan, tables);
    out->runs = f.runs, out->n_runs = f.n_runs;
    out->listed = f.listed, out->n_listed = f.n_listed;
    return INGOT_OK;
}

void ig_folded_release(struct ig_folded *folded, const struct ingot_allocator *allocator) {
    ig_release(allocator, folded->memory, folded->size);
    *folded = (struct ig_folded){0};
}

/* ---- Unfolding --------------------------------------------------------------------------------------------------- */

static enum ingot_status bad_run(uint32_t index, const char *what, struct ingot_error *error) {
    return IG_ERR(error, INGOT_BAD_ENGINE, "the engine's repetition %u %s", index, what);
}

/* The runs of a table: from *inout_run on, as many as there are. Counts the records of the whole table. */
static enum ingot_status measure_table(const struct ig_folded *f, const struct table *t, uint32_t *inout_run,
                                       uint64_t *out_count, struct ingot_error *error) {
    uint64_t end = 0, removed = 0; /* of the run before; by all runs so far */
    for (; *inout_run < f->n_runs && f->runs[*inout_run].part == (uint32_t)t->part; ++*inout_run) {
        const struct ig_plan_run *run = &f->runs[*inout_run];
        uint64_t kept = run->first + 2 * (uint64_t)run->period;
        if (run->period == 0 || run->count < 3) return bad_run(*inout_run, "repeats nothing", error);
        if (run->first < end || kept - removed > t->count || kept < removed)
            return bad_run(*inout_run, "is not where it must be", error);
        removed += (run->count - (uint64_t)2) * run->period;
        end = run->first + (uint64_t)run->period * run->count;
        if ((t->count + removed) * t->width > IG_MAX_UNFOLDED_WORDS) return bad_run(*inout_run, "is too long", error);
    }
    *out_count = t->count + removed;
    return INGOT_OK;
}

/* Writes the iterations of a run from the third on, whose first two end at `to`; returns the end of the words listed for
 * it, or NULL if they are no columns of the run. */
static const uint32_t *repeat(const struct table *t, const struct ig_plan_run *run, const uint32_t *listed,
                              const uint32_t *end, uint32_t *to) {
    size_t stride = (size_t)run->period * t->width, left = run->count - 2;
    for (size_t i = 0; i < left * stride; i++)
        to[i] = 2 * to[(ptrdiff_t)(i - stride)] - to[(ptrdiff_t)(i - 2 * stride)];
    for (uint32_t c = 0; c < run->columns; c++, listed += left + 1) {
        if ((size_t)(end - listed) < left + 1 || *listed >= stride) return NULL;
        for (size_t i = 0; i < left; i++)
            to[i * stride + *listed] = listed[1 + i];
    }
    return listed;
}

static enum ingot_status unfold_table(const struct ig_folded *f, struct table *t, uint32_t first, uint32_t n_runs,
                                      const uint32_t **inout_listed, uint32_t *to, struct ingot_error *error) {
    const uint32_t *from = t->words, *begin = to;
    for (uint32_t i = first; i < first + n_runs; i++) {
        const struct ig_plan_run *run = &f->runs[i];
        size_t kept = (run->first + 2 * (size_t)run->period) * t->width - (size_t)(to - begin);
        memcpy(to, from, kept * sizeof *to);
        to += kept;
        from += kept;
        *inout_listed = repeat(t, run, *inout_listed, f->listed + f->n_listed, to);
        if (!*inout_listed) return bad_run(i, "lists what it does not have", error);
        to += (run->count - (size_t)2) * run->period * t->width;
    }
    size_t rest = (size_t)(t->words + (size_t)t->count * t->width - from);
    memcpy(to, from, rest * sizeof *to);
    t->count = (uint32_t)((size_t)(to + rest - begin) / t->width);
    t->words = begin;
    return INGOT_OK;
}

static size_t aligned(uint64_t words) {
    return (size_t)((words * sizeof(uint32_t) + 63) / 64 * 64);
}

enum ingot_status ig_plan_unfold(const struct ig_folded *folded, const struct ingot_allocator *allocator,
                                 struct ig_plan *out_plan, void **out_memory, size_t *out_size,
                                 struct ingot_error *error) {
    struct table tables[TABLES];
    uint32_t run = 0, first[TABLES + 1];
    uint64_t counts[TABLES] = {0};
    size_t size = 0;
    get_tables(&folded->plan, tables);
    for (int i = 0; i < TABLES; i++) {
        first[i] = run;
        IG_TRY(measure_table(folded, &tables[i], &run, &counts[i], error));
        if (run > first[i]) size += aligned(counts[i] * tables[i].width);
    }
    first[TABLES] = run;
    if (run < folded->n_runs) return bad_run(run, "is not where it must be", error);
    *out_plan = folded->plan;
    *out_memory = NULL;
    *out_size = size;
    const uint32_t *listed = folded->listed;
    char *memory = size ? ig_allocate(allocator, size, 64) : NULL, *to = memory;
    if (size && !memory) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for an engine's plan");
    enum ingot_status status = INGOT_OK;
    for (int i = 0; i < TABLES && status == INGOT_OK; i++) {
        uint32_t n_runs = first[i + 1] - first[i];
        if (n_runs == 0) continue;
        status = unfold_table(folded, &tables[i], first[i], n_runs, &listed, (uint32_t *)(void *)to, error);
        to += aligned(counts[i] * tables[i].width);
    }
    if (status == INGOT_OK && listed != folded->listed + folded->n_listed)
        status = IG_ERR(error, INGOT_BAD_ENGINE, "the engine lists words that no repetition has");
    if (status != INGOT_OK) {
        ig_release(allocator, memory, size);
        return status;
    }
    set_tables(out_plan, tables);
    *out_memory = memory;
    return INGOT_OK;
}
