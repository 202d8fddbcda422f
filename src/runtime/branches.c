/* Concurrent steps: levels, estimated gain, dependencies; see branches.h. */
#include "runtime/branches.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
/* Beyond this many steps, or operands of them, finding their order takes too long for what it may gain. */
#define MOST_STEPS 4096
#define MOST_OPERANDS 32768

/* What it must gain at least, in parts of the time; and what the arena may be at most, in parts of what it was, and bytes. */
#define LEAST_GAIN 0.03
#define MOST_MEMORY 1.25
#define FREE_MEMORY 1e6

/*
 * Microseconds, on GPUs of these years: between two kernels of which the second starts early, of which it does not, and
 * where several kernels begin or meet, and for each that is beside another. The first two were measured on an H100; to be
 * right within a factor of two is enough.
 */
#define EARLY_GAP 0.6
#define GAP 0.9
#define FORK_GAP 1.3
#define SIDE_GAP 0.3
/* A kernel's least time; bytes that memory moves and vector operations that a multiprocessor does in a microsecond. */
#define LEAST_TIME 1.5
#define BYTES_PER_US 2e6
#define WORK_PER_US 1e4

/* One frame's work in progress; the tables are by number of the step in the plan. */
struct branches {
    struct ig_frame_env *env;
    struct ig_frame *frame;
    const struct ig_plan *plan;
    uint32_t *writer; /* by buffer */
    uint32_t *level;  /* the new ones */
    uint32_t *latest; /* the level before which its first reader comes */
    double *time, *share;
    size_t bytes; /* of these tables */
};

static enum ingot_status no_memory(struct ingot_error *error) {
    return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a plan instance");
}

static const struct ig_plan_buffer *buffer_at(const struct branches *b, uint32_t buffer) {
    return &b->plan->buffers[b->frame->sub->buffers + buffer];
}

static bool is_written(const struct branches *b, uint32_t buffer) {
    uint32_t kind = buffer_at(b, buffer)->kind;
    return kind == IG_PLAN_ARENA || kind == IG_PLAN_OUTPUT;
}

static bool has_many_operands(const struct ig_frame *frame) {
    uint64_t count = 0;
    for (uint32_t s = 0; s < frame->sub->n_steps; s++)
        count += frame->steps[s].plan->n_operands;
    return count > MOST_OPERANDS;
}

/* Parts of buffers have no writer that is easily found. */
static bool has_aliases(const struct branches *b) {
    for (uint32_t i = 0; i < b->frame->sub->n_buffers; i++) {
        if (buffer_at(b, i)->kind == IG_PLAN_ALIAS) return true;
    }
    return false;
}

/* ---- Levels ------------------------------------------------------------------------------------------------------------- */

static void find_writers(struct branches *b) {
    for (uint32_t i = 0; i < b->frame->sub->n_buffers; i++)
        b->writer[i] = NONE;
    IG_EACH_OPERAND(b->plan, b->frame, s, k, buffer) {
        if (is_written(b, buffer) && b->writer[buffer] == NONE) b->writer[buffer] = s;
    }
}

/* The step whose result operand k of step s is; s itself where it is the result of s, NONE where it is nobody's. */
static uint32_t source(const struct branches *b, uint32_t s, uint32_t k) {
    uint32_t buffer = ig_plan_operand(b->plan, b->frame->steps[s].plan, k);
    return buffer == IG_PLAN_NONE ? NONE : b->writer[buffer];
}

/* As early as possible, within the stretch: what was before it has happened. */
static uint32_t find_earliest(struct branches *b, const struct ig_frame_segment *segment, uint32_t base) {
    uint32_t end = base;
    for (uint32_t s = segment->first; s < segment->first + segment->count; s++) {
        b->level[s] = base;
        b->latest[s] = NONE;
        for (uint32_t k = 0; k < b->frame->steps[s].plan->n_operands; k++) {
            uint32_t from = source(b, s, k);
            if (from == NONE || from == s || from < segment->first) continue;
            if (b->level[from] + 1 > b->level[s]) b->level[s] = b->level[from] + 1;
        }
        if (b->level[s] + 1 > end) end = b->level[s] + 1;
    }
    return end;
}

/* Then as late as those allow that read the result; what nobody reads stays early, and its operands with it. */
static void delay(struct branches *b, const struct ig_frame_segment *segment) {
    for (uint32_t i = segment->count; i-- > 0;) {
        uint32_t s = segment->first + i;
        if (b->latest[s] != NONE) b->level[s] = b->latest[s] - 1;
        for (uint32_t k = 0; k < b->frame->steps[s].plan->n_operands; k++) {
            uint32_t from = source(b, s, k);
            if (from == NONE || from == s || from < segment->first) continue;
            if (b->level[s] < b->latest[from]) b->latest[from] = b->level[s];
        }
    }
}

/* Steps of control flow have a level of their own. Returns the number of levels. */
static uint32_t find_levels(struct branches *b) {
    uint32_t levels = 0;
    for (uint32_t i = 0; i < b->frame->n_segments; i++) {
        const struct ig_frame_segment *segment = &b->frame->segments[i];
        levels = find_earliest(b, segment, levels);
        delay(b, segment);
    }
    return levels;
}

/* Scratch memory is one for all of a stream: its users take turns. */
static bool uses_scratch(const struct ig_frame_step *step) {
    return step->plan->kind == IG_STEP_KERNEL && (step->launch.scratch || step->launch.library);
}

/* ---- What it gains ------------------------------------------------------------------------------------------------------ */

/* How long each step takes alone, and on how much of the device it runs. */
static void estimate_steps(struct branches *b) {
    double processors = b->env->device->processors;
    for (uint32_t s = 0; s < b->frame->sub->n_steps; s++) {
        const struct ig_frame_step *step = &b->frame->steps[s];
        double tiles = step->plan->kind == IG_STEP_KERNEL ? (double)step->launch.tiles : processors;
        double work = step->plan->work == IG_PLAN_NONE ? 0 : (double)b->env->slots[step->plan->work], bytes = 0;
        for (uint32_t k = 0; k < step->plan->n_operands; k++) {
            uint32_t buffer = ig_plan_operand(b->plan, step->plan, k);
            if (buffer != IG_PLAN_NONE) bytes += (double)b->frame->bytes[buffer];
        }
        bool fills = tiles >= processors || uses_scratch(step);
        b->share[s] = fills ? 1 : tiles / processors;
        double busy = b->share[s] > 0 ? b->share[s] : 1;
        double moving = bytes / BYTES_PER_US / busy, computing = work / WORK_PER_US / (busy * processors);
        b->time[s] = LEAST_TIME + (moving > computing ? moving : computing);
    }
}

static double gap(const struct ig_frame_step *step) {
    return step->launch.waits ? EARLY_GAP : GAP;
}

/* One after the other, and level by level: what does not fit beside each other takes turns. */
static double estimate_gain(const struct branches *b, uint32_t n_levels, double *longest, double *total,
                            uint32_t *count, uint32_t *out_beside) {
    double chain = 0, side_by_side = 0;
    for (uint32_t s = 0; s < b->frame->sub->n_steps; s++) {
        uint32_t level = b->level[s];
        chain += b->time[s] + gap(&b->frame->steps[s]);
        longest[level] = b->time[s] > longest[level] ? b->time[s] : longest[level];
        total[level] += b->time[s] * b->share[s];
        count[level]++;
    }
    for (uint32_t s = 0; s < b->frame->sub->n_steps; s++) {
        uint32_t level = b->level[s];
        bool alone = count[level] == 1 && (level == 0 || count[level - 1] == 1);
        if (count[level] > 1) ++*out_beside;
        if (alone) side_by_side += gap(&b->frame->steps[s]);
    }
    for (uint32_t level = 0; level < n_levels; level++) {
        side_by_side += longest[level] > total[level] ? longest[level] : total[level];
        if (count[level] > 1 || (level > 0 && count[level - 1] > 1))
            side_by_side += FORK_GAP + SIDE_GAP * (count[level] - 1);
    }
    return chain > 0 ? 1 - side_by_side / chain : 0;
}

/* 0 where steps are a chain in any case. */
static enum ingot_status find_gain(struct branches *b, uint32_t n_levels, double *out_gain, uint32_t *out_beside,
                                   struct ingot_error *error) {
    const struct ingot_allocator *allocator = b->env->allocator;
    size_t each = 2 * sizeof(double) + sizeof(uint32_t);
    *out_gain = 0;
    *out_beside = 0;
    if (n_levels == b->frame->sub->n_steps) return INGOT_OK;
    double *longest = ig_allocate(allocator, n_levels * each, _Alignof(double));
    if (!longest) return no_memory(error);
    estimate_steps(b);
    *out_gain = estimate_gain(b, n_levels, longest, longest + n_levels, (uint32_t *)(longest + 2 * (size_t)n_levels),
                              out_beside);
    ig_release(allocator, longest, n_levels * each);
    return INGOT_OK;
}

/* ---- Putting it into effect ---------------------------------------------------------------------------------------------- */

static int by_level(const void *pa, const void *pb) {
    const struct ig_frame_step *a = pa, *b = pb;
    if (a->level != b->level) return a->level < b->level ? -1 : 1;
    return a->plan < b->plan ? -1 : 1;
}

/* The memory for another order; back to the old one where it takes too much. */
static enum ingot_status plan_memory(struct branches *b, bool *out_fits, struct ingot_error *error) {
    struct ig_frame *frame = b->frame;
    size_t before = frame->arena_bytes;
    for (uint32_t s = 0; s < frame->sub->n_steps; s++)
        frame->steps[s].level = b->level[s];
    IG_TRY(ig_frame_plan_memory(b->env, frame, error));
    *out_fits = (double)frame->arena_bytes <= MOST_MEMORY * (double)before + FREE_MEMORY;
    if (*out_fits) {
        frame->branches.bytes = frame->arena_bytes > before ? frame->arena_bytes - before : 0;
        return INGOT_OK;
    }
    for (uint32_t s = 0; s < frame->sub->n_steps; s++)
        frame->steps[s].level = s;
    return ig_frame_plan_memory(b->env, frame, error);
}

/* Do these steps touch the same memory, and one of them writes it? */
static bool collide(const struct branches *b, const struct ig_frame_step *x, uint32_t k, const struct ig_frame_step *y,
                    uint32_t l) {
    const struct ig_frame *frame = b->frame;
    uint32_t p = ig_plan_operand(b->plan, x->plan, k), q = ig_plan_operand(b->plan, y->plan, l);
    if (p == IG_PLAN_NONE || q == IG_PLAN_NONE || !is_written(b, p) || !is_written(b, q)) return false;
    const struct ig_plan_step *writer_of_p = frame->steps[b->writer[p]].plan;
    const struct ig_plan_step *writer_of_q = frame->steps[b->writer[q]].plan;
    if (writer_of_p != x->plan && writer_of_q != y->plan) return false;
    if (p == q) return true;
    bool both = buffer_at(b, p)->kind == IG_PLAN_ARENA && buffer_at(b, q)->kind == IG_PLAN_ARENA;
    return both && frame->place[p] < frame->place[q] + frame->bytes[q] &&
           frame->place[q] < frame->place[p] + frame->bytes[p];
}

static bool must_follow(const struct branches *b, const struct ig_frame_step *x, const struct ig_frame_step *y) {
    if (uses_scratch(x) && uses_scratch(y)) return true;
    for (uint32_t k = 0; k < x->plan->n_operands; k++) {
        for (uint32_t l = 0; l < y->plan->n_operands; l++) {
            if (collide(b, x, k, y, l)) return true;
        }
    }
    return false;
}

/*
 * The steps that each comes after at once; what these come after is implied. Going back from the step itself, each step
 * that is implied already need not be looked at, so that in what is nearly a chain hardly any is. `implied`: a row of bits
 * for each step.
 */
static enum ingot_status find_edges(struct branches *b, const struct ig_frame_segment *segment, uint64_t *implied,
                                    uint32_t *found, struct ingot_error *error) {
    size_t words = (segment->count + 63) / 64;
    for (uint32_t i = 0; i < segment->count; i++) {
        struct ig_frame_step *step = &b->frame->steps[segment->first + i];
        uint64_t *row = implied + i * words;
        for (uint32_t j = i; j-- > 0;) {
            if (row[j / 64] >> j % 64 & 1) continue;
            if (!must_follow(b, step, &b->frame->steps[segment->first + j])) continue;
            for (size_t w = 0; w < words; w++)
                row[w] |= implied[j * words + w];
            row[j / 64] |= (uint64_t)1 << j % 64;
            found[step->n_after++] = j;
        }
        uint32_t *after = ig_arena_alloc(b->env->memory, (step->n_after + 1) * sizeof *after);
        if (!after) return no_memory(error);
        memcpy(after, found, step->n_after * sizeof *after);
        step->after = after;
    }
    return INGOT_OK;
}

static enum ingot_status find_all_edges(struct branches *b, struct ingot_error *error) {
    const struct ingot_allocator *allocator = b->env->allocator;
    enum ingot_status status = INGOT_OK;
    for (uint32_t i = 0; i < b->frame->n_segments && status == INGOT_OK; i++) {
        const struct ig_frame_segment *segment = &b->frame->segments[i];
        size_t words = (segment->count + 63) / 64, row = words * sizeof(uint64_t) + sizeof(uint32_t);
        uint64_t *implied = ig_allocate(allocator, segment->count * row, _Alignof(uint64_t));
        if (!implied) return no_memory(error);
        status = find_edges(b, segment, implied, (uint32_t *)(implied + segment->count * words), error);
        ig_release(allocator, implied, segment->count * row);
    }
    return status;
}

/* Writers are numbers of steps, which change. */
static enum ingot_status reorder(struct branches *b, struct ingot_error *error) {
    struct ig_frame *frame = b->frame;
    for (uint32_t i = 0; i < frame->n_segments; i++)
        qsort(frame->steps + frame->segments[i].first, frame->segments[i].count, sizeof *frame->steps, by_level);
    find_writers(b);
    return find_all_edges(b, error);
}

static enum ingot_status decide(struct branches *b, struct ingot_error *error) {
    double gain;
    uint32_t beside;
    bool fits;
    find_writers(b);
    uint32_t n_levels = find_levels(b);
    IG_TRY(find_gain(b, n_levels, &gain, &beside, error));
    if (gain < LEAST_GAIN) return INGOT_OK;
    IG_TRY(plan_memory(b, &fits, error));
    if (!fits) return INGOT_OK;
    b->frame->branches.steps = beside;
    b->frame->branches.gain = gain;
    return reorder(b, error);
}

static bool allocate_tables(struct branches *b) {
    uint32_t n_steps = b->frame->sub->n_steps, n_buffers = b->frame->sub->n_buffers;
    b->bytes = n_steps * (2 * sizeof(double) + 2 * sizeof(uint32_t)) + n_buffers * sizeof(uint32_t);
    b->time = ig_allocate(b->env->allocator, b->bytes, _Alignof(double));
    if (!b->time) return false;
    b->share = b->time + n_steps;
    b->level = (uint32_t *)(b->share + n_steps);
    b->latest = b->level + n_steps;
    b->writer = b->latest + n_steps;
    return true;
}

enum ingot_status ig_branches_apply(struct ig_frame_env *env, struct ig_frame *frame, struct ingot_error *error) {
    struct branches b = {.env = env, .frame = frame, .plan = &env->file->plan};
    if (!env->device->processors || frame->sub->n_steps < 2 || frame->sub->n_steps > MOST_STEPS) return INGOT_OK;
    if (has_many_operands(frame) || has_aliases(&b)) return INGOT_OK;
    if (!allocate_tables(&b)) return no_memory(error);
    enum ingot_status status = decide(&b, error);
    ig_release(env->allocator, b.time, b.bytes);
    return status;
}
