/*
 * Statements and the frame of a kernel as C: see print.h.
 *
 * Vector loops carry "#pragma omp simd" with their reduction accumulators. Minimum and maximum of floats give NaN if
 * any element is NaN; no OpenMP reduction does, so inside the loop such an accumulator is an integer, in the order of
 * the floats with NaN at the end (ig_key_…), which also vectorises better.
 */
#include "codegen/c/print.h"
#include "codegen/c/micro.h"
#include "codegen/c/tables.h"
#include "codegen/printer.h"

static const struct ig_code_table tables[] = {
    {ig_code_functions_basic, &ig_code_functions_basic_count},
    {ig_code_functions_convert, &ig_code_functions_convert_count},
    {ig_code_functions_narrow, &ig_code_functions_narrow_count},
    {ig_c_functions_f32, &ig_c_functions_f32_count},
    {ig_c_functions_f64, &ig_c_functions_f64_count},
    {ig_c_functions_trig, &ig_c_functions_trig_count},
};
static const char *address(struct ig_code_printer *p, const struct ig_buffer *b) {
    return ig_format(p->job, "(int64_t)buf[%d]", b->param); /* compilers take restrict pointers for different ones */
}

/* gcc contracts across statements and functions, whatever pragmas say: only what happens to the bits in between prevents it, and
 * that with a zero of which it does not know. Vector loops stay what they are. */
static const char *apart(struct ig_code_printer *p, enum ingot_dtype dtype, const char *a, const char *b) {
    const char *name = ig_format(p->job, "ig_apart_%s", ingot_dtype_name(dtype));
    ig_code_prelude_use(&p->prelude, name);
    p->has_zero = true;
    return ig_format(p->job, "%s(%s * %s, ig_zero)", name, a, b);
}

/* Is one of the two that a select chooses between a number, and the other only loaded? */
static bool is_plain(const struct ig_loops *k, const struct ig_x_node *n) {
    enum ig_x_kind a = k->x.at[n->args[1]].kind, b = k->x.at[n->args[2]].kind;
    return (a == IG_X_FLOAT && b == IG_X_LOAD) || (a == IG_X_LOAD && b == IG_X_FLOAT);
}

/* By a byte of a mask gcc chooses between floats with vectors of as many lanes as there are bytes in one, each of whose
 * masks it widens in three steps and merges with those of other selects. What is done to the bits has no masks. */
static const char *pick(struct ig_code_printer *p, const struct ig_x_node *n) {
    const struct ig_x_node *mask = &p->k->x.at[n->args[0]];
    bool is_load = mask->kind == IG_X_LOAD && !p->text[n->args[0]].named;
    if (!is_load || p->k->buffers.at[mask->i].dtype != INGOT_BOOL) return NULL;
    if (n->dtype != INGOT_F32 || is_plain(p->k, n)) return NULL;
    ig_code_prelude_use(&p->prelude, "ig_pick_f32");
    const char *byte = ig_code_element(p, (int)mask->i, mask->args[0]);
    return ig_format(p->job, "ig_pick_f32(%s, %s, %s)", byte, ig_code_text_of(p, n->args[1], IG_CODE_SELECT),
                     ig_code_text_of(p, n->args[2], IG_CODE_SELECT));
}

static const struct ig_code_language language = {
    .tables = tables,
    .n_tables = sizeof tables / sizeof *tables,
    .inf_f32 = "__builtin_inff()",
    .inf_f64 = "__builtin_inf()",
    .nan_f32 = "__builtin_nanf(\"\")",
    .nan_f64 = "__builtin_nan(\"\")",
    .apart = apart,
    .moves_halves = true,
    .splits_picks = true,
    .address = address,
    .pick = pick,
    .begin = "begin",
    .end = "end",
};

static void print_body(struct ig_code_printer *p, const struct ig_stmt *s, uint32_t *next);

/* ---- Extrema in vector loops ------------------------------------------------------------------------------------- */

static bool needs_key(const struct ig_stmt *update) {
    return ig_dtype_is_float(update->dtype) && (update->op == IG_OP_min || update->op == IG_OP_max);
}

static const char *key_function(struct ig_code_printer *p, const struct ig_stmt *update) {
    const char *order = update->op == IG_OP_max ? "max" : "min";
    const char *name = ig_format(p->job, "ig_key_%s_%s", order, ingot_dtype_name(update->dtype));
    ig_code_prelude_use(&p->prelude, name);
    return name;
}

static const char *key_type(const struct ig_stmt *update) {
    return update->dtype == INGOT_F64 ? "int64_t" : "int32_t";
}

static void open_key(struct ig_code_printer *p, const struct ig_stmt *update) {
    const char *to_key = key_function(p, update);
    p->stands_for[update->var] = ig_format(p->job, "key%d", update->var);
    ig_code_line(p, "%s key%d = %s(acc%d);", key_type(update), update->var, to_key, update->var);
}

static void update_key(struct ig_code_printer *p, const struct ig_stmt *s) {
    const char *key = p->stands_for[s->var], *sign = s->op == IG_OP_max ? ">" : "<";
    const char *to_key = key_function(p, s), *name = ig_format(p->job, "next%d_%u", s->var, p->n_locals++);
    ig_code_line(p, "const %s %s = %s(%s);", key_type(s), name, to_key, ig_code_text_of(p, s->value, IG_CODE_SELECT));
    ig_code_line(p, "%s = %s %s %s ? %s : %s;", key, key, sign, name, key, name);
    ig_code_note_write(p, (uint32_t)s->var);
}

static void close_key(struct ig_code_printer *p, const struct ig_stmt *update) {
    const char *from_key = ig_format(p->job, "ig_unkey_%s", ingot_dtype_name(update->dtype));
    ig_code_prelude_use(&p->prelude, from_key);
    ig_code_line(p, "acc%d = %s(key%d);", update->var, from_key, update->var);
    p->stands_for[update->var] = NULL;
}

/* ---- Loops ------------------------------------------------------------------------------------------------------- */

static const char *reduction_sign(enum ig_op op) {
    if (op == IG_OP_add) return "+";
    if (op == IG_OP_mul) return "*";
    return op == IG_OP_min ? "min" : "max";
}

static void print_simd_pragma(struct ig_code_printer *p, const struct ig_code_reductions *r) {
    struct ig_text pragma;
    ig_text_init(&pragma, p->job);
    ig_text_add(&pragma, "#pragma omp simd");
    for (uint32_t i = 0; i < r->updates.count; i++) {
        const struct ig_stmt *u = r->updates.at[i];
        ig_text_printf(&pragma, " reduction(%s : %s%d)", reduction_sign(u->op), needs_key(u) ? "key" : "acc", u->var);
        if (needs_key(u)) open_key(p, u);
    }
    ig_code_line(p, "%s", pragma.at);
}

static const char *loop_head(struct ig_code_printer *p, const struct ig_stmt *s) {
    if (s->for_kind == IG_FOR_TILE) return ig_code_loop_head(p, s, "begin", "end", "1");
    const char *lo = ig_code_text_of(p, s->lo, IG_CODE_SELECT);
    /* gcc undoes such a loop itself, but then no longer vectorises those within it that are marked for it. */
    if (s->once) return ig_code_once_head(p, s, lo);
    const char *hi = ig_code_text_of(p, s->hi, IG_CODE_ADD);
    return ig_code_loop_head(p, s, lo, hi, s->step == IG_NO_X ? "1" : ig_code_text_of(p, s->step, IG_CODE_SELECT));
}

static void print_for(struct ig_code_printer *p, const struct ig_stmt *s, uint32_t place, uint32_t *next) {
    struct ig_code_reductions r = {0};
    if (s->for_kind == IG_FOR_SIMD) ig_code_find_reductions(p, s, &r);
    const char *head = loop_head(p, s);
    if (r.possible) print_simd_pragma(p, &r);
    if (s->for_kind == IG_FOR_UNROLL || s->for_kind == IG_FOR_VECTOR) ig_code_line(p, "#pragma GCC unroll 32");
    ig_code_note_loop(p, place);
    ig_code_line(p, "%s", head);
    print_body(p, s, next);
    ig_code_line(p, "}");
    for (uint32_t i = 0; r.possible && i < r.updates.count; i++) {
        if (needs_key(r.updates.at[i])) close_key(p, r.updates.at[i]);
    }
}

static void print_stmt(struct ig_code_printer *p, const struct ig_stmt *s, uint32_t *next) {
    uint32_t place = (*next)++;
    ig_code_compute_before(p, place);
    switch (s->kind) {
    case IG_S_FOR: print_for(p, s, place, next); break;
    case IG_S_STORE: ig_code_line(p, "%s", ig_code_store(p, s)); break;
    case IG_S_ACC:
        ig_code_line(p, "%s acc%d = %s;", ig_code_type(s->dtype), s->var, ig_code_text_of(p, s->value, IG_CODE_SELECT));
        ig_code_note_write(p, (uint32_t)s->var);
        break;
    case IG_S_UPDATE:
        if (p->stands_for[s->var]) {
            update_key(p, s);
        } else {
            ig_code_line(p, "%s", ig_code_update(p, s));
        }
        break;
    case IG_S_IF:
        ig_code_line(p, "if (%s) {", ig_code_text_of(p, s->value, IG_CODE_SELECT));
        print_body(p, s, next);
        ig_code_line(p, "}");
        break;
    case IG_S_TEXT:
        ig_code_lines(p, ig_code_fill(p, s));
        ig_code_note_writes(p, s);
        break;
    case IG_S_CALL:
        ig_code_line(p, "%s(%s);", s->text, ig_code_arguments(p, s));
        ig_code_note_writes(p, s);
        break;
    }
}

static void print_body(struct ig_code_printer *p, const struct ig_stmt *s, uint32_t *next) {
    uint32_t mark = ig_code_scope_open(p);
    p->indent++;
    for (uint32_t i = 0; i < s->body.count; i++)
        print_stmt(p, s->body.at[i], next);
    p->indent--;
    ig_code_scope_close(p, mark);
}

/* ---- The frame --------------------------------------------------------------------------------------------------- */

static void print_param(struct ig_code_printer *p, const struct ig_buffer *b) {
    const char *type = ig_code_storage_type(b->dtype), *constant = b->written ? "" : "const ";
    if (b->nothing == IG_NO_X) {
        ig_code_line(p, "%s%s *restrict const %s = buf[%d];", constant, type, b->name, b->param);
        return;
    }
    ig_code_prelude_use(&p->prelude, "ig_nothing");
    ig_code_line(p, "%s%s *restrict const %s = %s ? (const void *)ig_nothing : buf[%d];", constant, type, b->name,
                 ig_code_plain_text(p, b->nothing), b->param);
}

static void print_buffers(struct ig_code_printer *p) {
    for (uint32_t i = 0; i < p->k->dim_params.count; i++) {
        ig_code_line(p, "const int64_t d%u = dim[%u]; /* %s */", i, i, ig_dim_text(p->k->dims, p->k->dim_params.at[i]));
    }
    for (uint32_t i = 0; i < p->k->buffers.count; i++) {
        const struct ig_buffer *b = &p->k->buffers.at[i];
        const char *type = ig_code_storage_type(b->dtype);
        if (b->kind == IG_BUFFER_PARAM) print_param(p, b);
        if (b->kind == IG_BUFFER_SCRATCH) {
            ig_code_line(p, "%s *restrict const %s = (%s *)((char *)scratch + %s);", type, b->name, type,
                         ig_code_plain_text(p, b->offset));
        }
        if (b->kind == IG_BUFFER_LOCAL || b->kind == IG_BUFFER_SPREAD) {
            ig_code_line(p, "%s %s[%lld] __attribute__((aligned(64)));", type, b->name, (long long)b->elements);
        }
    }
}

/* Tiles of AMX are configured for the whole call. */
static void print_tiles(struct ig_code_printer *p, const char *what) {
    const struct ig_kernel *kernel = p->kernel;
    for (uint32_t i = 0; i < kernel->micros.count; i++) {
        const struct ig_micro *m = &kernel->micros.at[i];
        if (m->tile_groups) ig_code_line(p, "%s_%s();", m->name, what);
    }
}

/*
 * Do products and recurrences make most of the kernel? They take what is below 2^-126 for zero (FTZ and DAZ of the control register):
 * the sums do not see it, and to multiply by it takes some processors a hundred cycles. Softmaxes far from their maximum make such numbers.
 */
static bool flushes(const struct ig_kernel *kernel) {
    return kernel->family == IG_FAMILY_CONTRACT || kernel->family == IG_FAMILY_ATTEND ||
           kernel->family == IG_FAMILY_SCAN;
}

static const char flush[] = "    const unsigned ig_mode = __builtin_ia32_stmxcsr();\n"
                            "    __builtin_ia32_ldmxcsr(ig_mode | 0x8040);\n";
static const char restore[] = "    __builtin_ia32_ldmxcsr(ig_mode);\n";

static const char declarations[] =
    "typedef __INT8_TYPE__ int8_t;\ntypedef __INT16_TYPE__ int16_t;\ntypedef __INT32_TYPE__ int32_t;\n"
    "typedef __INT64_TYPE__ int64_t;\ntypedef __UINT8_TYPE__ uint8_t;\ntypedef __UINT16_TYPE__ uint16_t;\n"
    "typedef __UINT32_TYPE__ uint32_t;\ntypedef __UINT64_TYPE__ uint64_t;\n"
    "#define INLINE static inline __attribute__((always_inline, unused))\n";

static const char zero[] = "    int32_t ig_zero = 0;\n    __asm__(\"\" : \"+r\"(ig_zero));\n";

const char *ig_c_kernel(struct ig_job *job, const struct ig_kernel *kernel, const char *symbol,
                        const struct ig_target *target) {
    struct ig_code_printer p;
    ig_code_printer_init(&p, job, kernel, &language);
    print_buffers(&p);
    uint32_t next = 0;
    print_tiles(&p, "begin");
    print_stmt(&p, p.k->top, &next);
    print_tiles(&p, "end");

    struct ig_text unit;
    ig_text_init(&unit, job);
    ig_text_printf(&unit, "/*\n * %s\n * %s\n */\n", ig_code_comment(job, kernel->title),
                   ig_code_comment(job, kernel->tactic));
    ig_text_add(&unit, declarations);
    if (p.prelude.text.at) ig_text_printf(&unit, "\n%s", p.prelude.text.at);
    if (kernel->prelude) ig_text_printf(&unit, "\n%s", kernel->prelude);
    for (uint32_t i = 0; i < kernel->micros.count; i++) {
        ig_text_add(&unit, "\n");
        ig_c_micro(&kernel->micros.at[i], target, &unit);
    }
    const bool flushing = flushes(kernel);
    ig_text_printf(&unit,
                   "\nvoid %s(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {\n",
                   symbol);
    ig_text_printf(&unit, "%s%s%s%s}\n", flushing ? flush : "", p.has_zero ? zero : "", p.out.at,
                   flushing ? restore : "");
    return unit.at;
}
