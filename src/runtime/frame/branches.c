/* Concurrent steps: levels, estimated gain, dependencies; see branches.h. */
#include "runtime/frame/branches.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
/* With more steps or operands than this, finding the dependencies takes too long for the possible gain. */
#define MOST_STEPS 4096
#define MOST_OPERANDS 32768

/* The least fraction of the time that must be gained; the arena may grow to this factor of its sequential size, plus
 * these bytes. */
#define LEAST_GAIN 0.03
#define MOST_MEMORY 1.25
#define FREE_MEMORY 1e6

/*
 * Gaps in microseconds on current GPUs: between two kernels if the second launches early, and if not; where several
 * kernels fork or join; and per additional concurrent kernel. The first two were measured on an H100; a factor of two
 * is accurate enough.
 */
#define EARLY_GAP 0.6
#define GAP 0.9
#define FORK_GAP 1.3
#define SIDE_GAP 0.3
/* A kernel's least time in microseconds; per microsecond, the bytes that memory moves and the vector operations of
 * one multiprocessor. */
#define LEAST_TIME 1.5
#define BYTES_PER_US 2e6
#define WORK_PER_US 1e4

/* State for one frame; tables are by plan step unless noted. */
struct branches {
    struct ig_frame_env *env;
    struct ig_frame *frame;
    const struct ig_plan *plan;
    uint32_t *writer; /* by buffer that is no alias */
    uint32_t *level;  /* the new levels */
    uint32_t *latest; /* lowest level of a step that reads its result; NONE: not read */
    double *time, *share;
    size_t bytes; /* total size of these tables */
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

/* The buffer whose memory operand k of a step uses; IG_PLAN_NONE: none. */
static uint32_t root_of(const struct branches *b, const struct ig_plan_step *step, uint32_t k) {
    uint32_t buffer = ig_plan_operand(b->plan, step, k);
    return buffer == IG_PLAN_NONE ? IG_PLAN_NONE : b->frame->root[buffer];
}

static bool has_many_operands(const struct ig_frame *frame) {
    uint64_t count = 0;
    for (uint32_t s = 0; s < frame->n_steps; s++)
        count += frame->steps[s].plan->n_operands;
    return count > MOST_OPERANDS;
}

/* ---- Levels ------------------------------------------------------------------------------------------------------ */

static void find_writers(struct branches *b) {
    for (uint32_t i = 0; i < b->frame->sub->n_buffers; i++)
        b->writer[i] = NONE;
    IG_EACH_OPERAND(b->plan, b->frame, s, k, buffer) {
        uint32_t root = b->frame->root[buffer];
        if (is_written(b, root) && b->writer[root] == NONE) b->writer[root] = s;
    }
}

/* The step that produces operand k of step s: s itself if it is a result of s, NONE if no step writes it. */
static uint32_t source(const struct branches *b, uint32_t s, uint32_t k) {
    uint32_t root = root_of(b, b->frame->steps[s].plan, k);
    return root == IG_PLAN_NONE ? NONE : b->writer[root];
}

/* Gives each step its earliest level within the segment; earlier segments have completed. Returns the level after
 * the last. */
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

/* Then moves each step to the latest level that the readers of its result allow. A step whose result nobody reads
 * stays early, and so do the steps that it reads from. */
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

/* Each step of control flow has a level of its own. Returns the number of levels. */
static uint32_t find_levels(struct branches *b) {
    uint32_t levels = 0;
    for (uint32_t i = 0; i < b->frame->n_segments; i++) {
        const struct ig_frame_segment *segment = &b->frame->segments[i];
        levels = find_earliest(b, segment, levels);
        delay(b, segment);
    }
    return levels;
}

/* Scratch memory is shared by a whole stream, so steps that use it must not run concurrently. */
static bool uses_scratch(const struct ig_frame_step *step) {
    return step->plan->kind == IG_STEP_KERNEL && (step->launch.scratch || step->launch.library);
}

/* ---- Estimated gain ---------------------------------------------------------------------------------------------- */

/* Estimates each step's time alone, and the share of the device that it occupies. */
static void estimate_steps(struct branches *b) {
    double processors = b->env->device->processors;
    for (uint32_t s = 0; s < b->frame->n_steps; s++) {
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

/* Compares sequential execution with execution by levels; steps of a level that do not fit side by side take turns. */
static double estimate_gain(const struct branches *b, uint32_t n_levels, double *longest, double *total,
                            uint32_t *count, uint32_t *out_beside) {
    double chain = 0, side_by_side = 0;
    for (uint32_t s = 0; s < b->frame->n_steps; s++) {
        uint32_t level = b->level[s];
        chain += b->time[s] + gap(&b->frame->steps[s]);
        longest[level] = b->time[s] > longest[level] ? b->time[s] : longest[level];
        total[level] += b->time[s] * b->share[s];
        count[level]++;
    }
    for (uint32_t s = 0; s < b->frame->n_steps; s++) {
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

/* The gain is 0 if the steps form a chain. */
static enum ingot_status find_gain(struct branches *b, uint32_t n_levels, double *out_gain, uint32_t *out_beside,
                                   struct ingot_error *error) {
    const struct ingot_allocator *allocator = b->env->allocator;
    size_t each = 2 * sizeof(double) + sizeof(uint32_t);
    *out_gain = 0;
    *out_beside = 0;
    if (n_levels == b->frame->n_steps) return INGOT_OK;
    double *longest = ig_allocate(allocator, n_levels * each, _Alignof(double));
    if (!longest) return no_memory(error);
    estimate_steps(b);
    *out_gain = estimate_gain(b, n_levels, longest, longest + n_levels, (uint32_t *)(longest + 2 * (size_t)n_levels),
                              out_beside);
    ig_release(allocator, longest, n_levels * each);
    return INGOT_OK;
}

/* ---- Application ------------------------------------------------------------------------------------------------- */

static int by_level(const void *pa, const void *pb) {
    const struct ig_frame_step *a = pa, *b = pb;
    if (a->level != b->level) return a->level < b->level ? -1 : 1;
    return a->plan < b->plan ? -1 : 1;
}

/* Plans memory with lifetimes counted in levels; reverts to sequential ones if the arena grows too much. */
static enum ingot_status plan_memory(struct branches *b, bool *out_fits, struct ingot_error *error) {
    struct ig_frame *frame = b->frame;
    size_t before = frame->arena_bytes;
    for (uint32_t s = 0; s < frame->n_steps; s++)
        frame->steps[s].level = b->level[s];
    IG_TRY(ig_frame_plan_memory(b->env, frame, error));
    *out_fits = (double)frame->arena_bytes <= MOST_MEMORY * (double)before + FREE_MEMORY;
    if (*out_fits) {
        frame->branches.bytes = frame->arena_bytes > before ? frame->arena_bytes - before : 0;
        return INGOT_OK;
    }
    for (uint32_t s = 0; s < frame->n_steps; s++)
        frame->steps[s].level = s;
    return ig_frame_plan_memory(b->env, frame, error);
}

/* Do operand k of x and operand l of y share memory that x or y writes? */
static bool collide(const struct branches *b, const struct ig_frame_step *x, uint32_t k, const struct ig_frame_step *y,
                    uint32_t l) {
    const struct ig_frame *frame = b->frame;
    uint32_t p = root_of(b, x->plan, k), q = root_of(b, y->plan, l);
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
 * Finds the steps that each depends on directly: a transitive reduction. It walks backwards from each step and skips
 * steps that are already implied, so that in a near-chain hardly any pair is compared. `implied`: a row of bits per
 * step.
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

/* Sorts the steps by level. Writers are step numbers, so they are found anew. */
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
    uint32_t n_steps = b->frame->n_steps, n_buffers = b->frame->sub->n_buffers;
    b->bytes = n_steps * (2 * sizeof(double) + 2 * sizeof(uint32_t)) + n_buffers * sizeof(uint32_t);
    b->time = ig_allocate(b->env->allocator, b->bytes, _Alignof(double));
    if (!b->time) return false;
    b->share = b->time + n_steps;
    b->level = (uint32_t *)(b->share + n_steps);
    b->latest = b->level + n_steps;
    b->writer = b->latest + n_steps;
    return true;
}

/* Does the order of the steps matter beyond what they read and write? All ranks make their calls in one order. */
static bool is_ordered(const struct branches *b) {
    const struct ig_subplan *main = &b->plan->subplans[0];
    if (b->plan->n_collectives) return true;
    for (uint32_t i = 0; i < main->n_outputs; i++) {
        if (b->plan->tensors[main->outputs + i].updates) return true;
    }
    return false;
}

enum ingot_status ig_branches_apply(struct ig_frame_env *env, struct ig_frame *frame, struct ingot_error *error) {
    struct branches b = {.env = env, .frame = frame, .plan = &env->file->plan};
    if (is_ordered(&b)) return INGOT_OK;
    if (!env->device->processors || frame->n_steps < 2 || frame->n_steps > MOST_STEPS) return INGOT_OK;
    if (has_many_operands(frame)) return INGOT_OK;
    if (!allocate_tables(&b)) return no_memory(error);
    enum ingot_status status = decide(&b, error);
    ig_release(env->allocator, b.time, b.bytes);
    return status;
}
