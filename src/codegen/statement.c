/* The parts that the printers build statements from; see printer.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "codegen/printer.h"

void ig_code_printer_init(struct ig_code_printer *p, struct ig_job *job, const struct ig_kernel *kernel,
                          const struct ig_code_language *language) {
    *p = (struct ig_code_printer){.job = job, .language = language, .kernel = kernel, .k = kernel->loops, .indent = 1};
    ig_text_init(&p->out, job);
    ig_code_prelude_init(&p->prelude, job, language->tables, language->n_tables);
    p->text = IG_NEW_ARRAY(job, struct ig_code_text, p->k->x.count + 1);
    p->written = IG_NEW_ARRAY(job, uint32_t, ig_code_resource_count(p) + 1);
    p->narrow = IG_NEW_ARRAY(job, bool, p->k->x.count + 1);
    p->form = IG_NEW_ARRAY(job, const char *, p->k->x.count + 1);
    p->apart = IG_NEW_ARRAY(job, bool, p->k->x.count + 1);
    p->stands_for = IG_NEW_ARRAY(job, const char *, (size_t)p->k->n_accs + 1);
    if (language->narrow) ig_code_find_narrow(p);
    ig_code_find_apart(p);
    ig_code_place_all(p);
}

/* ---- Lines ------------------------------------------------------------------------------------------------------- */

void ig_code_line(struct ig_code_printer *p, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    IG_ASSERT(p->job, length >= 0);
    char *text = ig_alloc(p->job, (size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    for (int i = 0; i < p->indent; i++)
        ig_text_add(&p->out, "    ");
    ig_text_add_n(&p->out, text, (size_t)length);
    ig_text_add(&p->out, "\n");
}

void ig_code_lines(struct ig_code_printer *p, const char *text) {
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        ig_code_line(p, "%.*s", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

const char *ig_code_comment(struct ig_job *job, const char *text) {
    char *copy = ig_strdup(job, text ? text : "");
    for (char *c = copy; *c; c++) {
        if ((unsigned char)*c < 32 && *c != '\n') *c = ' ';
        if (c[0] == '*' && c[1] == '/') *c = '.';
        if (c[0] == '/' && c[1] == '*') c[1] = '.';
    }
    return copy;
}

/* ---- Simple statements ------------------------------------------------------------------------------------------- */

/* The bits of an element of half precision that is only moved, or of a zero; NULL: the value has to be computed. */
static const char *moved_half(struct ig_code_printer *p, ig_x value, enum ingot_dtype dtype) {
    const struct ig_x_node *n = &p->k->x.at[value];
    if (n->kind == IG_X_FLOAT && n->f == 0 && !signbit(n->f)) return "0";
    if (n->kind == IG_X_SELECT) {
        ig_x condition = n->args[0];
        const char *a = moved_half(p, n->args[1], dtype), *b = a ? moved_half(p, n->args[2], dtype) : NULL;
        return b ? ig_format(p->job, "(%s) ? %s : %s", ig_code_text_of(p, condition, IG_CODE_SELECT), a, b) : NULL;
    }
    const struct ig_buffer *from = n->kind == IG_X_LOAD ? &p->k->buffers.at[n->i] : NULL;
    bool moves = from && from->dtype == dtype && (!from->written || from->kind == IG_BUFFER_LOCAL);
    return moves ? ig_code_element(p, (int)n->i, n->args[0]) : NULL;
}

const char *ig_code_store(struct ig_code_printer *p, const struct ig_stmt *s) {
    const struct ig_buffer *b = &p->k->buffers.at[s->buffer];
    const char *element = ig_code_element(p, s->buffer, s->index), *moved = NULL;
    bool half = b->dtype == INGOT_F16 || b->dtype == INGOT_BF16;
    if (half && p->language->moves_halves) moved = moved_half(p, s->value, b->dtype);
    const char *value = moved ? moved : ig_code_text_of(p, s->value, IG_CODE_SELECT);
    if (half && !moved) {
        const char *name = ig_format(p->job, "ig_store_%s", ingot_dtype_name(b->dtype));
        ig_code_prelude_use(&p->prelude, name);
        value = ig_format(p->job, "%s(%s)", name, value);
    }
    ig_code_note_write(p, ig_code_resource_of_buffer(p, s->buffer));
    return ig_format(p->job, "%s = %s;", element, value);
}

const char *ig_code_update(struct ig_code_printer *p, const struct ig_stmt *s) {
    const char *acc = p->stands_for[s->var], *value;
    if (!acc) acc = ig_format(p->job, "acc%d", s->var);
    if (s->op == IG_OP_where) {
        value = ig_code_text_of(p, s->value, IG_CODE_SELECT);
    } else if (s->op == IG_OP_add && ig_dtype_is_float(s->dtype)) {
        value = ig_code_text_of(p, s->value, IG_CODE_SELECT);
        ig_code_note_write(p, (uint32_t)s->var);
        return ig_format(p->job, "%s += %s;", acc, value);
    } else {
        value = ig_code_apply(p, s->op, s->dtype, true, acc, s->value);
    }
    ig_code_note_write(p, (uint32_t)s->var);
    return ig_format(p->job, "%s = %s;", acc, value);
}

/* ---- Calls and templates ----------------------------------------------------------------------------------------- */

void ig_code_use_function(struct ig_code_printer *p, const char *name) {
    ig_code_prelude_use(&p->prelude, ig_format(p->job, "%.*s", (int)strcspn(name, "<"), name));
}

const char *ig_code_arguments(struct ig_code_printer *p, const struct ig_stmt *s) {
    struct ig_text args;
    ig_text_init(&args, p->job);
    ig_text_add(&args, "");
    for (int i = 0; i < s->n_args; i++) {
        if (i > 0) ig_text_add(&args, ", ");
        int b = s->args[i].buffer;
        const struct ig_x_node *index = &p->k->x.at[s->args[i].index];
        bool whole = index->kind == IG_X_INT && index->i == 0, special = b >= 0 && !whole && p->language->element;
        const char *element = special ? p->language->element(p, b, s->args[i].index) : NULL;
        if (element) {
            ig_text_printf(&args, "&%s", element);
        } else if (b < 0) {
            ig_text_add(&args, ig_code_text_of(p, s->args[i].index, IG_CODE_SELECT));
        } else if (whole) {
            ig_text_add(&args, p->k->buffers.at[b].name);
        } else {
            ig_text_printf(&args, "%s + %s", p->k->buffers.at[b].name,
                           ig_code_text_of(p, s->args[i].index, IG_CODE_ADD));
        }
    }
    return args.at;
}

void ig_code_note_writes(struct ig_code_printer *p, const struct ig_stmt *s) {
    for (int i = 0; s->kind == IG_S_CALL && i < s->n_args; i++) {
        int b = s->args[i].buffer;
        if (b >= 0 && p->k->buffers.at[b].written) ig_code_note_write(p, ig_code_resource_of_buffer(p, b));
    }
    for (uint32_t b = 0; s->kind == IG_S_TEXT && b < p->k->buffers.count; b++) {
        if (p->k->buffers.at[b].written) ig_code_note_write(p, ig_code_resource_of_buffer(p, (int)b));
    }
}

const char *ig_code_fill(struct ig_code_printer *p, const struct ig_stmt *s) {
    struct ig_text filled;
    ig_text_init(&filled, p->job);
    ig_text_add(&filled, "");
    const char *rest = s->text;
    while (rest) {
        size_t length;
        ig_x x;
        bool at;
        const char *next = ig_code_next_reference(rest, &length, &x, &at);
        ig_text_add_n(&filled, rest, length);
        if (at) ig_text_add(&filled, "@");
        if (x != IG_NO_X) ig_text_add(&filled, ig_code_text_of(p, x, IG_CODE_ATOM));
        rest = next;
    }
    return filled.at;
}

/* ---- Loops ------------------------------------------------------------------------------------------------------- */

static void find_reductions(struct ig_code_printer *p, const struct ig_stmt *s, uint64_t *inside,
                            struct ig_code_reductions *r) {
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

void ig_code_find_reductions(struct ig_code_printer *p, const struct ig_stmt *s, struct ig_code_reductions *r) {
    *r = (struct ig_code_reductions){.possible = true};
    find_reductions(p, s, IG_NEW_ARRAY(p->job, uint64_t, (size_t)p->k->n_accs / 64 + 1), r);
}

void ig_code_note_loop(struct ig_code_printer *p, uint32_t place) {
    for (uint32_t r = 0; r < ig_code_resource_count(p); r++) {
        if (p->places.at[place].writes[r / 64] >> (r % 64) & 1) ig_code_note_write(p, r);
    }
}

const char *ig_code_var_name(struct ig_code_printer *p, int64_t var) {
    const char *name = p->k->vars.at[var].name;
    return name ? name : ig_format(p->job, "i%d", (int)var);
}

/* The type of a loop's variable. */
static const char *var_type(const struct ig_code_printer *p, int var) {
    for (ig_x x = 0; x < p->k->x.count; x++) {
        if (p->k->x.at[x].kind == IG_X_VAR && p->k->x.at[x].i == var) return ig_code_type_of(p, x);
    }
    return "int64_t";
}

const char *ig_code_loop_head(struct ig_code_printer *p, const struct ig_stmt *s, const char *lo, const char *hi,
                              const char *step) {
    const char *var = ig_code_var_name(p, s->var), *type = var_type(p, s->var);
    if (strcmp(step, "1") == 0)
        return ig_format(p->job, "for (%s %s = %s; %s < %s; %s++) {", type, var, lo, var, hi, var);
    return ig_format(p->job, "for (%s %s = %s; %s < %s; %s += %s) {", type, var, lo, var, hi, var, step);
}

const char *ig_code_once_head(struct ig_code_printer *p, const struct ig_stmt *s, const char *lo) {
    return ig_format(p->job, "{ const %s %s = %s;", var_type(p, s->var), ig_code_var_name(p, s->var), lo);
}
