/*
 * Statements and the frame of a kernel as C: see print.h.
 *
 * Vector loops carry "#pragma omp simd" with the accumulators they reduce. Minimum and maximum of floats give NaN where
 * any element is NaN; no OpenMP reduction says that, so such an accumulator is an integer inside the loop, in the order
 * of the floats with NaN at the end (ig_key_…), which also vectorises better.
 */
#include "codegen/c/micro.h"
#include "codegen/c/printer.h"

#include <stdio.h>
#include <string.h>

static void print_body(struct ig_c_printer *p, const struct ig_stmt *s, uint32_t *next);

/* ---- Lines ------------------------------------------------------------------------------------------------------------ */

static void indentation(struct ig_c_printer *p) {
    for (int i = 0; i < p->indent; i++)
        ig_text_add(&p->out, "    ");
}

void ig_c_line(struct ig_c_printer *p, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    IG_ASSERT(p->job, length >= 0);
    char *text = ig_alloc(p->job, (size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    indentation(p);
    ig_text_add_n(&p->out, text, (size_t)length);
    ig_text_add(&p->out, "\n");
}

/* ---- Simple statements -------------------------------------------------------------------------------------------------- */

static void print_store(struct ig_c_printer *p, const struct ig_stmt *s) {
    const struct ig_buffer *b = &p->k->buffers.at[s->buffer];
    const char *at = ig_c_text_of(p, s->index, IG_C_SELECT);
    const char *value = ig_c_text_of(p, s->value, IG_C_SELECT);
    if (b->dtype == INGOT_F16 || b->dtype == INGOT_BF16) {
        const char *name = ig_format(p->job, "ig_store_%s", ingot_dtype_name(b->dtype));
        ig_c_prelude_use(&p->prelude, name);
        value = ig_format(p->job, "%s(%s)", name, value);
    }
    ig_c_line(p, "%s[%s] = %s;", b->name, at, value);
    ig_c_note_write(p, ig_c_resource_of_buffer(p, s->buffer));
}

static void print_update(struct ig_c_printer *p, const struct ig_stmt *s) {
    const char *acc = ig_format(p->job, "acc%d", s->var), *value;
    if (p->keyed[s->var]) {
        const char *to_key =
            ig_format(p->job, "ig_key_%s_%s", s->op == IG_OP_max ? "max" : "min", ingot_dtype_name(s->dtype));
        ig_c_prelude_use(&p->prelude, to_key);
        acc = ig_format(p->job, "key%d", s->var);
        const char *sign = s->op == IG_OP_max ? ">" : "<";
        const char *key_type = s->dtype == INGOT_F64 ? "int64_t" : "int32_t";
        const char *name = ig_format(p->job, "next%d_%u", s->var, p->n_locals++);
        ig_c_line(p, "const %s %s = %s(%s);", key_type, name, to_key, ig_c_text_of(p, s->value, IG_C_SELECT));
        value = ig_format(p->job, "%s %s %s ? %s : %s", acc, sign, name, acc, name);
    } else if (s->op == IG_OP_where) {
        value = ig_c_text_of(p, s->value, IG_C_SELECT);
    } else if (s->op == IG_OP_add && ig_dtype_is_float(s->dtype)) {
        ig_c_line(p, "%s += %s;", acc, ig_c_text_of(p, s->value, IG_C_SELECT));
        ig_c_note_write(p, (uint32_t)s->var);
        return;
    } else {
        value = ig_c_apply(p, s->op, s->dtype, true, acc, s->value);
    }
    ig_c_line(p, "%s = %s;", acc, value);
    ig_c_note_write(p, (uint32_t)s->var);
}

static void print_call(struct ig_c_printer *p, const struct ig_stmt *s) {
    struct ig_text args;
    ig_text_init(&args, p->job);
    for (int i = 0; i < s->n_args; i++) {
        if (i > 0) ig_text_add(&args, ", ");
        int b = s->args[i].buffer;
        const struct ig_x_node *index = &p->k->x.at[s->args[i].index];
        if (b < 0) {
            ig_text_add(&args, ig_c_text_of(p, s->args[i].index, IG_C_SELECT));
        } else if (index->kind == IG_X_INT && index->i == 0) {
            ig_text_add(&args, p->k->buffers.at[b].name);
        } else {
            ig_text_printf(&args, "%s + %s", p->k->buffers.at[b].name, ig_c_text_of(p, s->args[i].index, IG_C_ADD));
        }
    }
    ig_c_line(p, "%s(%s);", s->text, args.at ? args.at : "");
    for (int i = 0; i < s->n_args; i++) {
        int b = s->args[i].buffer;
        if (b >= 0 && p->k->buffers.at[b].written) ig_c_note_write(p, ig_c_resource_of_buffer(p, b));
    }
}

/* A template's text with its references replaced and its lines indented. */
static void print_text(struct ig_c_printer *p, const struct ig_stmt *s) {
    struct ig_text filled;
    ig_text_init(&filled, p->job);
    const char *rest = s->text;
    while (rest) {
        size_t length;
        ig_x x;
        bool at;
        const char *next = ig_c_next_reference(rest, &length, &x, &at);
        ig_text_add_n(&filled, rest, length);
        if (at) ig_text_add(&filled, "@");
        if (x != IG_NO_X) ig_text_add(&filled, ig_c_text_of(p, x, IG_C_ATOM));
        rest = next;
    }
    for (const char *line = filled.at ? filled.at : ""; *line;) {
        size_t length = strcspn(line, "\n");
        ig_c_line(p, "%.*s", (int)length, line);
        line += length + (line[length] == '\n');
    }
    for (uint32_t b = 0; b < p->k->buffers.count; b++) {
        if (p->k->buffers.at[b].written) ig_c_note_write(p, ig_c_resource_of_buffer(p, (int)b));
    }
}

/* ---- Loops ---------------------------------------------------------------------------------------------------------------- */

struct reductions {
    IG_VEC(const struct ig_stmt *) updates; /* one for each accumulator from outside the loop */
    bool possible;                          /* as a vector loop */
};

static void find_reductions(struct ig_c_printer *p, const struct ig_stmt *s, uint64_t *inside, struct reductions *r) {
    for (uint32_t i = 0; i < s->body.count; i++) {
        const struct ig_stmt *c = s->body.at[i];
        if (c->kind == IG_S_ACC) inside[c->var / 64] |= (uint64_t)1 << (c->var % 64);
        if (c->kind == IG_S_UPDATE && !(inside[c->var / 64] >> (c->var % 64) & 1)) {
            bool known = c->op == IG_OP_add || c->op == IG_OP_mul || c->op == IG_OP_min || c->op == IG_OP_max;
            r->possible = r->possible && known;
            bool seen = false;
            for (uint32_t u = 0; u < r->updates.count; u++)
                seen = seen || r->updates.at[u]->var == c->var;
            if (!seen) IG_PUSH(p->job, &r->updates, c);
        }
        find_reductions(p, c, inside, r);
    }
}

static const char *reduction_sign(enum ig_op op) {
    if (op == IG_OP_add) return "+";
    if (op == IG_OP_mul) return "*";
    return op == IG_OP_min ? "min" : "max";
}

static bool needs_key(const struct ig_stmt *update) {
    return ig_dtype_is_float(update->dtype) && (update->op == IG_OP_min || update->op == IG_OP_max);
}

static void print_simd_pragma(struct ig_c_printer *p, const struct reductions *r) {
    struct ig_text pragma;
    ig_text_init(&pragma, p->job);
    ig_text_add(&pragma, "#pragma omp simd");
    for (uint32_t i = 0; i < r->updates.count; i++) {
        const struct ig_stmt *u = r->updates.at[i];
        ig_text_printf(&pragma, " reduction(%s : %s%d)", reduction_sign(u->op), needs_key(u) ? "key" : "acc", u->var);
        if (!needs_key(u)) continue;
        const char *type = ingot_dtype_name(u->dtype), *order = u->op == IG_OP_max ? "max" : "min";
        const char *to_key = ig_format(p->job, "ig_key_%s_%s", order, type);
        ig_c_prelude_use(&p->prelude, to_key);
        ig_c_line(p, "%s key%d = %s(acc%d);", u->dtype == INGOT_F64 ? "int64_t" : "int32_t", u->var, to_key, u->var);
        p->keyed[u->var] = true;
    }
    ig_c_line(p, "%s", pragma.at);
}

static void close_keys(struct ig_c_printer *p, const struct reductions *r) {
    for (uint32_t i = 0; i < r->updates.count; i++) {
        const struct ig_stmt *u = r->updates.at[i];
        if (!needs_key(u)) continue;
        const char *from_key = ig_format(p->job, "ig_unkey_%s", ingot_dtype_name(u->dtype));
        ig_c_prelude_use(&p->prelude, from_key);
        ig_c_line(p, "acc%d = %s(key%d);", u->var, from_key, u->var);
        p->keyed[u->var] = false;
    }
}

/* Names that depend on what the loop writes hold in its first round only. */
static void note_loop_writes(struct ig_c_printer *p, uint32_t place) {
    for (uint32_t r = 0; r < ig_c_resource_count(p); r++) {
        if (p->places.at[place].writes[r / 64] >> (r % 64) & 1) ig_c_note_write(p, r);
    }
}

static const char *loop_head(struct ig_c_printer *p, const struct ig_stmt *s) {
    const char *var = p->k->vars.at[s->var].name;
    if (!var) var = ig_format(p->job, "i%d", s->var);
    if (s->for_kind == IG_FOR_TILE) {
        return ig_format(p->job, "for (int64_t %s = begin; %s < end; %s++) {", var, var, var);
    }
    const char *lo = ig_c_text_of(p, s->lo, IG_C_SELECT), *hi = ig_c_text_of(p, s->hi, IG_C_ADD);
    const struct ig_x_node *step = s->step == IG_NO_X ? NULL : &p->k->x.at[s->step];
    if (!step || (step->kind == IG_X_INT && step->i == 1)) {
        return ig_format(p->job, "for (int64_t %s = %s; %s < %s; %s++) {", var, lo, var, hi, var);
    }
    return ig_format(p->job, "for (int64_t %s = %s; %s < %s; %s += %s) {", var, lo, var, hi, var,
                     ig_c_text_of(p, s->step, IG_C_SELECT));
}

static void print_for(struct ig_c_printer *p, const struct ig_stmt *s, uint32_t place, uint32_t *next) {
    struct reductions r = {.possible = s->for_kind == IG_FOR_SIMD};
    if (r.possible) {
        find_reductions(p, s, IG_NEW_ARRAY(p->job, uint64_t, (size_t)p->k->n_accs / 64 + 1), &r);
    }
    const char *head = loop_head(p, s);
    if (r.possible) print_simd_pragma(p, &r);
    if (s->for_kind == IG_FOR_UNROLL || s->for_kind == IG_FOR_VECTOR) ig_c_line(p, "#pragma GCC unroll 32");
    note_loop_writes(p, place);
    ig_c_line(p, "%s", head);
    print_body(p, s, next);
    ig_c_line(p, "}");
    if (r.possible) close_keys(p, &r);
}

static void print_stmt(struct ig_c_printer *p, const struct ig_stmt *s, uint32_t *next) {
    uint32_t place = (*next)++;
    ig_c_compute_before(p, place);
    switch (s->kind) {
    case IG_S_FOR: print_for(p, s, place, next); break;
    case IG_S_STORE: print_store(p, s); break;
    case IG_S_ACC:
        ig_c_line(p, "%s acc%d = %s;", ig_c_type(s->dtype), s->var, ig_c_text_of(p, s->value, IG_C_SELECT));
        ig_c_note_write(p, (uint32_t)s->var);
        break;
    case IG_S_UPDATE: print_update(p, s); break;
    case IG_S_IF:
        ig_c_line(p, "if (%s) {", ig_c_text_of(p, s->value, IG_C_SELECT));
        print_body(p, s, next);
        ig_c_line(p, "}");
        break;
    case IG_S_TEXT: print_text(p, s); break;
    case IG_S_CALL: print_call(p, s); break;
    }
}

static void print_body(struct ig_c_printer *p, const struct ig_stmt *s, uint32_t *next) {
    uint32_t mark = ig_c_scope_open(p);
    p->indent++;
    for (uint32_t i = 0; i < s->body.count; i++)
        print_stmt(p, s->body.at[i], next);
    p->indent--;
    ig_c_scope_close(p, mark);
}

/* ---- The frame ------------------------------------------------------------------------------------------------------------ */

static void print_param(struct ig_c_printer *p, const struct ig_buffer *b) {
    const char *type = ig_c_storage_type(b->dtype), *constant = b->written ? "" : "const ";
    if (b->nothing == IG_NO_X) {
        ig_c_line(p, "%s%s *restrict const %s = buf[%d];", constant, type, b->name, b->param);
        return;
    }
    ig_c_prelude_use(&p->prelude, "ig_nothing");
    ig_c_line(p, "%s%s *restrict const %s = %s ? (const void *)ig_nothing : buf[%d];", constant, type, b->name,
              ig_c_plain_text(p, b->nothing), b->param);
}

static void print_buffers(struct ig_c_printer *p) {
    for (uint32_t i = 0; i < p->k->dim_params.count; i++) {
        ig_c_line(p, "const int64_t d%u = dim[%u]; /* %s */", i, i, ig_dim_text(p->k->dims, p->k->dim_params.at[i]));
    }
    for (uint32_t i = 0; i < p->k->buffers.count; i++) {
        const struct ig_buffer *b = &p->k->buffers.at[i];
        const char *type = ig_c_storage_type(b->dtype);
        if (b->kind == IG_BUFFER_PARAM) print_param(p, b);
        if (b->kind == IG_BUFFER_SCRATCH) {
            ig_c_line(p, "%s *restrict const %s = (%s *)((char *)scratch + %s);", type, b->name, type,
                      ig_c_plain_text(p, b->offset));
        }
        if (b->kind == IG_BUFFER_LOCAL || b->kind == IG_BUFFER_SPREAD) {
            ig_c_line(p, "%s %s[%lld] __attribute__((aligned(64)));", type, b->name, (long long)b->elements);
        }
    }
}

/* Text for a comment: printable, and unable to end it. */
static const char *comment(struct ig_job *job, const char *text) {
    char *copy = ig_strdup(job, text ? text : "");
    for (char *c = copy; *c; c++) {
        if ((unsigned char)*c < 32 && *c != '\n') *c = ' ';
        if (c[0] == '*' && c[1] == '/') *c = '.';
        if (c[0] == '/' && c[1] == '*') c[1] = '.';
    }
    return copy;
}

static const char declarations[] =
    "typedef __INT8_TYPE__ int8_t;\ntypedef __INT16_TYPE__ int16_t;\ntypedef __INT32_TYPE__ int32_t;\n"
    "typedef __INT64_TYPE__ int64_t;\ntypedef __UINT8_TYPE__ uint8_t;\ntypedef __UINT16_TYPE__ uint16_t;\n"
    "typedef __UINT32_TYPE__ uint32_t;\ntypedef __UINT64_TYPE__ uint64_t;\n"
    "#define INLINE static inline __attribute__((always_inline, unused))\n";

const char *ig_c_kernel(struct ig_job *job, const struct ig_kernel *kernel, const char *symbol,
                        const struct ig_target *target) {
    struct ig_c_printer p = {.job = job, .kernel = kernel, .k = kernel->loops, .indent = 1};
    ig_text_init(&p.out, job);
    ig_c_prelude_init(&p.prelude, job);
    p.text = IG_NEW_ARRAY(job, struct ig_c_text, p.k->x.count + 1);
    p.written = IG_NEW_ARRAY(job, uint32_t, ig_c_resource_count(&p) + 1);
    p.keyed = IG_NEW_ARRAY(job, bool, (size_t)p.k->n_accs + 1);
    print_buffers(&p);
    ig_c_place_all(&p);
    uint32_t next = 0;
    print_stmt(&p, p.k->top, &next);

    struct ig_text unit;
    ig_text_init(&unit, job);
    ig_text_printf(&unit, "/*\n * %s\n * %s\n */\n", comment(job, kernel->title), comment(job, kernel->tactic));
    ig_text_add(&unit, declarations);
    if (p.prelude.text.at) ig_text_printf(&unit, "\n%s", p.prelude.text.at);
    if (kernel->prelude) ig_text_printf(&unit, "\n%s", kernel->prelude);
    for (uint32_t i = 0; i < kernel->micros.count; i++) {
        ig_text_add(&unit, "\n");
        ig_c_micro(&kernel->micros.at[i], target, &unit);
    }
    ig_text_printf(
        &unit, "\nvoid %s(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {\n%s}\n",
        symbol, p.out.at);
    return unit.at;
}
