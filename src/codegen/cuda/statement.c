/*
 * Statements as CUDA C. A block does one tile. Statements outside vector loops are executed by all its threads
 * together, so that each of them has every accumulator, and one thread does the stores. A vector loop is divided: the
 * threads take its iterations in turn, and sums are combined in registers by shuffles, then through shared memory. In a
 * loop over teams, the threads of a team, which lie in one warp, take the place of the block's.
 */
#include <string.h>

#include "codegen/cuda/printer.h"

static void print_body(struct ig_cuda_printer *c, const struct ig_stmt *s, uint32_t *next) {
    struct ig_code_printer *p = &c->base;
    uint32_t mark = ig_code_scope_open(p);
    p->indent++;
    for (uint32_t i = 0; i < s->body.count; i++)
        ig_cuda_stmt(c, s->body.at[i], next);
    p->indent--;
    ig_code_scope_close(p, mark);
}

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

bool ig_cuda_is_divided(struct ig_code_printer *p, const struct ig_stmt *s) {
    if (s->kind != IG_S_FOR || s->for_kind != IG_FOR_SIMD) return false;
    struct ig_code_reductions r;
    ig_code_find_reductions(p, s, &r);
    return r.possible;
}

static int lanes(const struct ig_cuda_printer *c) {
    return c->level == IG_CUDA_TEAM ? c->lanes : c->threads;
}

/* The index of a thread in its team or block. */
static const char *lane(const struct ig_cuda_printer *c) {
    return c->level == IG_CUDA_TEAM ? ig_format(c->base.job, "(THREAD & %d)", c->lanes - 1) : "THREAD";
}

/* ---- Reductions -------------------------------------------------------------------------------------------------- */

static const char *operator_name(enum ig_op op) {
    switch (op) {
    case IG_OP_add: return "add";
    case IG_OP_mul: return "mul";
    case IG_OP_min: return "min";
    default: return "max";
    }
}

/* The name of the function that combines two values. */
static const char *combining_name(enum ig_op op) {
    return op == IG_OP_add ? "plus" : op == IG_OP_mul ? "times" : operator_name(op);
}

static const char *neutral(const struct ig_code_printer *p, enum ig_op op, enum ingot_dtype dtype) {
    const struct ig_code_language *l = p->language;
    bool is_double = dtype == INGOT_F64, is_max = op == IG_OP_max;
    if (op == IG_OP_add) return "0";
    if (op == IG_OP_mul) return "1";
    if (ig_dtype_is_float(dtype))
        return ig_format(p->job, "%s%s", is_max ? "-" : "", is_double ? l->inf_f64 : l->inf_f32);
    switch (dtype) {
    case INGOT_I64: return is_max ? "(-9223372036854775807 - 1)" : "9223372036854775807";
    case INGOT_I32: return is_max ? "(-2147483647 - 1)" : "2147483647";
    case INGOT_U64: return is_max ? "0" : "18446744073709551615u";
    case INGOT_U32: return is_max ? "0" : "4294967295u";
    default: ig_raise(p->job, INGOT_INTERNAL, "accumulator of type %s", ingot_dtype_name(dtype));
    }
}

static void open_reductions(struct ig_cuda_printer *c, const struct ig_code_reductions *r) {
    struct ig_code_printer *p = &c->base;
    for (uint32_t i = 0; i < r->updates.count; i++) {
        const struct ig_stmt *u = r->updates.at[i];
        p->stands_for[u->var] = ig_format(p->job, "part%d", u->var);
        ig_code_line(p, "%s part%d = %s;", ig_code_type(u->dtype), u->var, neutral(p, u->op, u->dtype));
    }
}

/* A block's sums of floats, two and two; the number of sums that this has added up. */
static uint32_t add_pairs(struct ig_cuda_printer *c, const struct ig_code_reductions *r, const char *who) {
    struct ig_code_printer *p = &c->base;
    uint32_t done = 0;
    if (c->level == IG_CUDA_TEAM) return 0;
    for (; done + 1 < r->updates.count; done += 2) {
        const struct ig_stmt *a = r->updates.at[done], *b = r->updates.at[done + 1];
        if (a->op != IG_OP_add || b->op != IG_OP_add || a->dtype != INGOT_F32 || b->dtype != INGOT_F32) break;
        const char *name = ig_format(p->job, "ig_%s_add_pair_f32", who);
        ig_code_prelude_use(&p->prelude, name);
        ig_code_line(p, "%s(part%d, part%d);", name, a->var, b->var);
    }
    return done;
}

/* acc = acc op (the parts of all threads). */
static void close_reductions(struct ig_cuda_printer *c, const struct ig_code_reductions *r) {
    struct ig_code_printer *p = &c->base;
    bool team = c->level == IG_CUDA_TEAM;
    const char *who = team ? "team" : p->kernel->cluster > 1 ? "cluster" : "block";
    uint32_t added = add_pairs(c, r, who);
    IG_ASSERT(p->job, team || !c->producer);
    for (uint32_t i = 0; i < r->updates.count; i++) {
        const struct ig_stmt *u = r->updates.at[i];
        const char *type = ingot_dtype_name(u->dtype), *all = ig_format(p->job, "part%d", u->var);
        p->stands_for[u->var] = NULL;
        if (i >= added) {
            const char *name = ig_format(p->job, "ig_%s_%s_%s", who, operator_name(u->op), type);
            ig_code_prelude_use(&p->prelude, name);
            all = team ? ig_format(p->job, "%s(%s, %d)", name, all, c->lanes) : ig_format(p->job, "%s(%s)", name, all);
        }
        const char *both = ig_format(p->job, "ig_%s_%s", combining_name(u->op), type);
        ig_code_prelude_use(&p->prelude, both);
        ig_code_line(p, "acc%d = %s(acc%d, %s);", u->var, both, u->var, all);
        ig_code_note_write(p, (uint32_t)u->var);
    }
}

/* ---- Loops ------------------------------------------------------------------------------------------------------- */

static bool const_of(const struct ig_code_printer *p, ig_x x, int64_t *out) {
    if (x == IG_NO_X) return false;
    const struct ig_x_node *n = &p->k->x.at[x];
    *out = n->i;
    return n->kind == IG_X_INT;
}

static const char *step_text(struct ig_code_printer *p, const struct ig_stmt *s) {
    return s->step == IG_NO_X ? "1" : ig_code_text_of(p, s->step, IG_CODE_ATOM);
}

static const char *times(struct ig_code_printer *p, const char *step, const char *what) {
    return strcmp(step, "1") == 0 ? what : ig_format(p->job, "%s * %s", what, step);
}

/* The head of a loop over iterations `which`, which + count, … */
static const char *divided_head(struct ig_code_printer *p, const struct ig_stmt *s, const char *which, int count) {
    int64_t lo, hi, one = 1;
    const char *step = step_text(p, s), *var = ig_code_var_name(p, s->var);
    bool from_zero =
        const_of(p, s->lo, &lo) && lo == 0 && (s->step == IG_NO_X || const_of(p, s->step, &one)) && one == 1;
    if (from_zero && const_of(p, s->hi, &hi) && hi == count)
        return ig_format(p->job, "if (const int %s = %s; true) {", var, which);
    if (from_zero && const_of(p, s->hi, &hi) && hi < count)
        return ig_format(p->job, "if (const int %s = %s; %s < %lld) {", var, which, var, (long long)hi);
    const char *begin = times(p, step, which), *first = ig_code_text_of(p, s->lo, IG_CODE_ADD);
    if (!from_zero) begin = ig_format(p->job, "%s + %s", first, begin);
    const char *stride = times(p, step, ig_format(p->job, "%d", count));
    return ig_code_loop_head(p, s, begin, ig_code_text_of(p, s->hi, IG_CODE_ADD), stride);
}

struct spread_search {
    const struct ig_code_printer *p;
    int64_t rounds; /* iterations of the SPREAD buffers in use; 0: none */
};

static void find_spread_in(void *user, ig_x x) {
    struct spread_search *f = user;
    const struct ig_x_node *n = &f->p->k->x.at[x];
    const struct ig_buffer *b = n->kind == IG_X_LOAD ? &f->p->k->buffers.at[n->i] : NULL;
    if (b && b->kind == IG_BUFFER_SPREAD) f->rounds = b->elements / b->width;
    for (int i = 0; i < 3; i++) {
        if (n->args[i] != IG_NO_X) find_spread_in(user, n->args[i]);
    }
}

/* Finds how many iterations the SPREAD buffers in a loop have room for; 0: there are no such buffers. */
static void find_spread(struct ig_code_printer *p, const struct ig_stmt *s, struct spread_search *f) {
    ig_code_roots(p, s, find_spread_in, f);
    if (s->kind == IG_S_STORE && p->k->buffers.at[s->buffer].kind == IG_BUFFER_SPREAD)
        f->rounds = p->k->buffers.at[s->buffer].elements / p->k->buffers.at[s->buffer].width;
    for (int i = 0; s->kind == IG_S_CALL && i < s->n_args; i++) {
        const struct ig_buffer *b = s->args[i].buffer < 0 ? NULL : &p->k->buffers.at[s->args[i].buffer];
        if (b && b->kind == IG_BUFFER_SPREAD) f->rounds = b->elements / b->width;
    }
    for (uint32_t i = 0; i < s->body.count; i++)
        find_spread(p, s->body.at[i], f);
}

/* The number of iterations if it is constant and small per thread, else 0. Such loops are unrolled, so that all their
 * loads are in flight at once. */
static int64_t few_rounds(const struct ig_cuda_printer *c, const struct ig_stmt *s) {
    enum { FEW = 8 };
    int64_t lo, hi, step = 1;
    const struct ig_code_printer *p = &c->base;
    if (!const_of(p, s->lo, &lo) || lo != 0 || !const_of(p, s->hi, &hi)) return 0;
    if (s->step != IG_NO_X && (!const_of(p, s->step, &step) || step != 1)) return 0;
    return hi > lanes(c) && hi <= FEW * (int64_t)lanes(c) ? hi : 0;
}

/* Registers cannot be indexed at run time, so the iterations of each thread are unrolled. */
static void print_spread(struct ig_cuda_printer *c, const struct ig_stmt *s, int64_t rounds, uint32_t *next,
                         enum ig_cuda_level inner) {
    struct ig_code_printer *p = &c->base;
    int64_t each = (rounds + lanes(c) - 1) / lanes(c), hi;
    const char *var = ig_code_var_name(p, s->var), *which = lane(c), *end = ig_code_text_of(p, s->hi, IG_CODE_ADD);
    bool whole = const_of(p, s->hi, &hi) && hi == each * lanes(c);
    const char *test = whole ? "true" : ig_format(p->job, "%s < %s", var, end);
    c->spread_var = s->var;
    c->spread_slot = each > 1 ? ig_format(p->job, "slot%d", s->var) : "0";
    if (each > 1) {
        ig_code_line(p, "#pragma unroll");
        ig_code_line(p, "for (int slot%d = 0; slot%d < %lld; slot%d++)", s->var, s->var, (long long)each, s->var);
        p->indent++;
        which = ig_format(p->job, "%s + slot%d * %d", which, s->var, lanes(c));
    }
    ig_code_line(p, "if (const int %s = %s; %s) {", var, which, test);
    enum ig_cuda_level outer = c->level;
    c->level = inner;
    print_body(c, s, next);
    c->level = outer;
    ig_code_line(p, "}");
    if (each > 1) p->indent--;
    c->spread_var = -1;
}

static void print_divided(struct ig_cuda_printer *c, const struct ig_stmt *s, uint32_t place, uint32_t *next) {
    struct ig_code_printer *p = &c->base;
    struct ig_code_reductions r;
    struct spread_search spread = {.p = p};
    ig_code_find_reductions(p, s, &r);
    find_spread(p, s, &spread);
    if (!spread.rounds) spread.rounds = few_rounds(c, s);
    const char *head = spread.rounds ? NULL : divided_head(p, s, lane(c), lanes(c));
    open_reductions(c, &r);
    ig_code_note_loop(p, place);
    if (spread.rounds) {
        print_spread(c, s, spread.rounds, next, IG_CUDA_THREAD);
    } else {
        enum ig_cuda_level outer = c->level;
        /* The epilogue of a product: keeps the loads of several iterations in flight; that of a partial tile, which is
         * rare, stays short. */
        if ((p->kernel->gemm || p->kernel->patch) && strncmp(head, "for", 3) == 0)
            ig_code_line(p, "#pragma unroll %d", const_of(p, s->hi, &(int64_t){0}) ? 4 : 1);
        ig_code_line(p, "%s", head);
        c->level = IG_CUDA_THREAD;
        print_body(c, s, next);
        c->level = outer;
        ig_code_line(p, "}");
    }
    close_reductions(c, &r);
}

static void print_team(struct ig_cuda_printer *c, const struct ig_stmt *s, uint32_t place, uint32_t *next) {
    struct ig_code_printer *p = &c->base;
    c->lanes = s->lanes;
    const char *team = ig_format(p->job, "THREAD / %d", s->lanes);
    ig_code_note_loop(p, place);
    ig_code_line(p, "%s", divided_head(p, s, team, c->threads / s->lanes));
    c->level = IG_CUDA_TEAM;
    print_body(c, s, next);
    c->level = IG_CUDA_BLOCK;
    ig_code_line(p, "}");
}

static bool uses_begin(const struct ig_code_printer *p) {
    for (ig_x x = 0; x < p->k->x.count; x++) {
        if (p->k->x.at[x].kind == IG_X_BEGIN) return true;
    }
    return false;
}

static void print_for(struct ig_cuda_printer *c, const struct ig_stmt *s, uint32_t place, uint32_t *next) {
    struct ig_code_printer *p = &c->base;
    if (c->level != IG_CUDA_THREAD && ig_cuda_is_divided(p, s)) {
        print_divided(c, s, place, next);
        return;
    }
    if (c->level == IG_CUDA_BLOCK && s->for_kind == IG_FOR_TEAM) {
        print_team(c, s, place, next);
        return;
    }
    const char *head;
    if (s->for_kind == IG_FOR_TILE) {
        head = c->producer ? ig_code_loop_head(p, s, "gemm::first_tile()", "tiles", "gemm::next_tile()")
                           : ig_code_loop_head(p, s, "(int)blockIdx.x", "tiles", "(int)gridDim.x");
    } else {
        const char *lo = ig_code_text_of(p, s->lo, IG_CODE_SELECT), *hi = ig_code_text_of(p, s->hi, IG_CODE_ADD);
        head = ig_code_loop_head(p, s, lo, hi, step_text(p, s));
    }
    if (s->for_kind == IG_FOR_UNROLL || s->for_kind == IG_FOR_VECTOR) ig_code_line(p, "#pragma unroll");
    ig_code_note_loop(p, place);
    ig_code_line(p, "%s", head);
    if (s->for_kind == IG_FOR_TILE && uses_begin(p))
        ig_code_line(p, "    const int %s = %s;", p->language->begin, ig_code_var_name(p, s->var));
    print_body(c, s, next);
    ig_code_line(p, "}");
}

/* ---- Statements -------------------------------------------------------------------------------------------------- */

/* If several threads execute the store together, one of them does it. */
static void print_store(struct ig_cuda_printer *c, const struct ig_stmt *s) {
    struct ig_code_printer *p = &c->base;
    const char *store = ig_code_store(p, s);
    if (c->level == IG_CUDA_THREAD || c->is_private[s->buffer]) {
        ig_code_line(p, "%s", store);
    } else {
        ig_code_line(p, "if (%s == 0) %s", lane(c), store);
    }
}

/* Micro-kernels get the index and the number of the threads that call them. */
static void print_call(struct ig_cuda_printer *c, const struct ig_stmt *s) {
    struct ig_code_printer *p = &c->base;
    const char *who = "";
    if (strncmp(s->text, "ig_", 3) == 0) ig_code_use_function(p, s->text);
    for (uint32_t i = 0; i < c->base.kernel->micros.count; i++) {
        if (strcmp(c->base.kernel->micros.at[i].name, s->text) != 0) continue;
        who = c->level == IG_CUDA_THREAD ? "0, 1, " : ig_format(p->job, "%s, %d, ", lane(c), lanes(c));
    }
    ig_code_line(p, "%s(%s%s);", s->text, who, ig_code_arguments(p, s));
    ig_code_note_writes(p, s);
}

void ig_cuda_stmt(struct ig_cuda_printer *c, const struct ig_stmt *s, uint32_t *next) {
    struct ig_code_printer *p = &c->base;
    uint32_t place = (*next)++;
    if (c->fence[place]) {
        IG_ASSERT(p->job, !c->producer);
        ig_code_line(p, c->served ? "attend::meet_workers();" : "__syncthreads();");
    }
    ig_code_compute_before(p, place);
    switch (s->kind) {
    case IG_S_FOR: print_for(c, s, place, next); break;
    case IG_S_STORE: print_store(c, s); break;
    case IG_S_ACC:
        ig_code_line(p, "%s acc%d = %s;", ig_code_type(s->dtype), s->var, ig_code_text_of(p, s->value, IG_CODE_SELECT));
        ig_code_note_write(p, (uint32_t)s->var);
        break;
    case IG_S_UPDATE: ig_code_line(p, "%s", ig_code_update(p, s)); break;
    case IG_S_IF:
        ig_code_line(p, "if (%s) {", ig_code_text_of(p, s->value, IG_CODE_SELECT));
        print_body(c, s, next);
        ig_code_line(p, "}");
        break;
    case IG_S_TEXT:
        ig_code_lines(p, ig_code_fill(p, s));
        ig_code_note_writes(p, s);
        break;
    case IG_S_CALL: print_call(c, s); break;
    }
}
