/* Lines of floats between bytes in memory: see line.h. */
#include "kernel/family/line.h"

#include <string.h>

#include "base/map.h"
#include "kernel/affine.h"

struct writer {
    struct ig_kernel *kernel;
    struct ig_loops *k;
    const struct ig_target *target;
    const struct ig_line *line;
    struct ig_stmt *loop;
};

/* Does the element at `at` have its neighbours along the line beside it? */
static bool is_along_line(struct writer *w, ig_x at) {
    struct ig_affine sum;
    int64_t factor;
    ig_affine_of(w->k, at, &sum);
    return ig_dim_is_const(w->k->dims, ig_affine_factor(w->k, &sum, w->line->column), &factor) && factor == 1 &&
           !ig_affine_entangled(w->k, &sum, w->line->column);
}

static const char *micro_of(struct writer *w, const char *name, enum ig_micro_kind kind, enum ingot_dtype dtype,
                            bool rounds) {
    struct ig_kernel *kernel = w->kernel;
    name = ig_format(w->k->job, "%s_%s", name, ingot_dtype_name(dtype));
    for (uint32_t i = 0; i < kernel->micros.count; i++) {
        if (strcmp(kernel->micros.at[i].name, name) == 0) return name;
    }
    struct ig_micro micro = {.kind = kind, .name = name, .dtype = dtype, .rounds = rounds};
    IG_PUSH(w->k->job, &kernel->micros, micro);
    return name;
}

static int make_line(struct writer *w) {
    const char *name = ig_format(w->k->job, "line%u", w->k->buffers.count);
    return ig_loops_local(w->k, INGOT_F32, (w->line->most + 15) / 16 * 16, name);
}

/* The position at the line's begin. */
static ig_x begin_of(struct writer *w, ig_x at) {
    ig_x first = ig_x_index(w->k, 0);
    return ig_x_substitute(w->k, at, &w->line->column, &first, 1);
}

/* Is x a number rounded to an integer, plus perhaps a zero point? Sets both. */
static bool is_rounded(struct writer *w, ig_x x, ig_x *out_number, int64_t *out_zero) {
    struct ig_x_node n = *ig_x_look(w->k, x);
    *out_zero = 0;
    if (n.kind == IG_X_MAP && n.op == IG_OP_add) {
        struct ig_x_node a = *ig_x_look(w->k, n.args[0]), b = *ig_x_look(w->k, n.args[1]);
        double zero = a.kind == IG_X_FLOAT ? a.f : b.kind == IG_X_FLOAT ? b.f : 0.5;
        if (zero < -255 || zero > 255 || zero != (double)(int64_t)zero) return false;
        *out_zero = (int64_t)zero;
        n = a.kind == IG_X_FLOAT ? b : a;
    }
    *out_number = n.args[0];
    return n.kind == IG_X_MAP && n.op == IG_OP_round;
}

/* Is the value a number in f32 that a micro-kernel can cast to that type? Bytes saturate. */
static bool is_narrowed(struct writer *w, enum ingot_dtype dtype, ig_x value, ig_x *out_number) {
    const struct ig_x_node n = *ig_x_look(w->k, value);
    bool is_cast = n.kind == IG_X_CAST && (enum ingot_dtype)n.i == dtype;
    *out_number = is_cast ? n.args[0] : value;
    if (ig_x_look(w->k, *out_number)->dtype != INGOT_F32) return false;
    if (dtype == INGOT_BF16) return w->target->isa == IG_ISA_AMX && !(is_cast && n.saturate);
    return (dtype == INGOT_U8 || dtype == INGOT_I8) && is_cast && n.saturate;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* Bytes along the line that are cast to f32, and what stands for them. */
struct reads {
    struct ig_map seen;
    IG_VEC(ig_x) from;
    IG_VEC(ig_x) to;
};

/* Is it a byte of memory along the line, as f32? */
static bool is_widened(struct writer *w, const struct ig_x_node *n) {
    if (n->kind != IG_X_CAST || n->dtype != INGOT_F32) return false;
    const struct ig_x_node from = *ig_x_look(w->k, n->args[0]);
    if (from.kind != IG_X_LOAD || (from.dtype != INGOT_U8 && from.dtype != INGOT_I8)) return false;
    const struct ig_buffer *b = &w->k->buffers.at[from.i];
    return b->dtype == from.dtype && b->nothing == IG_NO_X && is_along_line(w, from.args[0]);
}

static void find_reads(struct writer *w, ig_x x, struct reads *r) {
    const struct ig_x_node n = *ig_x_look(w->k, x);
    uint32_t unused;
    if (ig_map_get(&r->seen, &x, sizeof x, &unused)) return;
    ig_map_put(&r->seen, &x, sizeof x, 1);
    if (is_widened(w, &n)) {
        IG_PUSH(w->k->job, &r->from, x);
        return;
    }
    for (int i = 0; i < 3 && n.kind != IG_X_LOAD; i++) {
        if (n.args[i] != IG_NO_X) find_reads(w, n.args[i], r);
    }
}

/* The value with lines of floats in the place of bytes, which are filled before the loop. */
static ig_x read_lines(struct writer *w, ig_x value) {
    struct ig_loops *k = w->k;
    struct reads r = {0};
    ig_map_init(&r.seen, k->job);
    find_reads(w, value, &r);
    for (uint32_t i = 0; i < r.from.count; i++) {
        const struct ig_x_node load = *ig_x_look(k, ig_x_look(k, r.from.at[i])->args[0]);
        int line = make_line(w);
        struct ig_call_arg args[] = {
            {(int)load.i, begin_of(w, load.args[0])}, {line, ig_x_index(k, 0)}, {-1, w->line->columns}};
        ig_s_call(k, w->line->around, micro_of(w, "widen", IG_MICRO_WIDEN, load.dtype, false), args, 3);
        ig_s_move_before(w->line->around, w->loop);
        IG_PUSH(k->job, &r.to, ig_x_load(k, line, w->line->column));
    }
    return ig_x_substitute(k, value, r.from.at, r.to.at, (int)r.from.count);
}

bool ig_line_store(struct ig_kernel *kernel, const struct ig_target *target, const struct ig_line *line,
                   struct ig_stmt *loop, int buffer, ig_x at, ig_x value) {
    struct ig_loops *k = kernel->loops;
    struct writer w = {kernel, k, target, line, loop};
    ig_x number, whole, first = ig_x_index(k, 0);
    enum ingot_dtype dtype = k->buffers.at[buffer].dtype;
    if (!line->around || !is_narrowed(&w, dtype, value, &number) || !is_along_line(&w, at)) return false;
    int64_t zero = 0;
    bool rounds = dtype != INGOT_BF16 && is_rounded(&w, number, &whole, &zero);
    if (rounds)
        number = whole;
    else
        zero = 0;
    number = read_lines(&w, number);
    int to = make_line(&w);
    ig_s_store(k, loop, to, line->column, number);
    struct ig_call_arg args[] = {
        {to, first}, {buffer, begin_of(&w, at)}, {-1, line->columns}, {-1, ig_x_index(k, zero)}};
    ig_s_call(k, line->around, micro_of(&w, rounds ? "quantize" : "narrow", IG_MICRO_NARROW, dtype, rounds), args, 4);
    return true;
}
