/*
 * Expressions as C text. An expression used once is written where it is used. One that is used several times, comes
 * from outside the loop of its use, or would make a line too long becomes a named local.
 */
#include "codegen/printer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_TEXT = 100 };

/* ---- Types and operators ----------------------------------------------------------------------------------------- */

const char *ig_code_type(enum ingot_dtype dtype) {
    static const char *const names[INGOT_DTYPE_COUNT] = {
        [INGOT_F32] = "float",  [INGOT_F16] = "float",    [INGOT_BF16] = "float",   [INGOT_F64] = "double",
        [INGOT_I8] = "int8_t",  [INGOT_I16] = "int16_t",  [INGOT_I32] = "int32_t",  [INGOT_I64] = "int64_t",
        [INGOT_U8] = "uint8_t", [INGOT_U16] = "uint16_t", [INGOT_U32] = "uint32_t", [INGOT_U64] = "uint64_t",
        [INGOT_BOOL] = "_Bool", [INGOT_I4] = "int8_t",    [INGOT_I2] = "int8_t",
    };
    return names[dtype] ? names[dtype] : "uint8_t"; /* of narrow types, the codes */
}

const char *ig_code_storage_type(enum ingot_dtype dtype) {
    if (dtype == INGOT_F16 || dtype == INGOT_BF16) return "uint16_t";
    return dtype == INGOT_BOOL ? "uint8_t" : ig_code_type(dtype);
}

enum style { CALL, PREFIX, INFIX, WRAPPED };
struct form {
    enum style style;
    const char *sign;
    enum ig_code_strength strength;
};

static const struct form signs[IG_OP_COUNT] = {
    [IG_OP_add] = {INFIX, "+", IG_CODE_ADD},     [IG_OP_sub] = {INFIX, "-", IG_CODE_ADD},
    [IG_OP_mul] = {INFIX, "*", IG_CODE_MUL},     [IG_OP_div] = {INFIX, "/", IG_CODE_MUL},
    [IG_OP_mod] = {INFIX, "%", IG_CODE_MUL},     [IG_OP_lt] = {INFIX, "<", IG_CODE_COMPARE},
    [IG_OP_le] = {INFIX, "<=", IG_CODE_COMPARE}, [IG_OP_eq] = {INFIX, "==", IG_CODE_EQUAL},
    [IG_OP_and] = {INFIX, "&", IG_CODE_BITAND},  [IG_OP_or] = {INFIX, "|", IG_CODE_OR},
    [IG_OP_xor] = {INFIX, "^", IG_CODE_XOR},     [IG_OP_bitand] = {INFIX, "&", IG_CODE_BITAND},
    [IG_OP_bitor] = {INFIX, "|", IG_CODE_OR},    [IG_OP_bitxor] = {INFIX, "^", IG_CODE_XOR},
    [IG_OP_not] = {PREFIX, "!", IG_CODE_UNARY},  [IG_OP_neg] = {PREFIX, "-", IG_CODE_UNARY},
};

static bool is_integer(enum ingot_dtype dtype) {
    return ig_dtype_is_integer(dtype);
}

/* How an operator on operands of a type is written. Integer data wraps, so it is added as unsigned. */
static struct form form_of(enum ig_op op, enum ingot_dtype dtype, bool wraps) {
    const struct form call = {CALL, NULL, IG_CODE_ATOM};
    struct form form = signs[op];
    if (!form.sign) return call;
    if (ig_dtype_is_float(dtype)) return op == IG_OP_mod ? call : form;
    if (!is_integer(dtype) || !wraps || ig_op_info(op)->result_bool) return form;
    if (op == IG_OP_div || op == IG_OP_mod || op == IG_OP_neg) return call;
    if (dtype == INGOT_U32 || dtype == INGOT_U64) return form;
    return (struct form){WRAPPED, form.sign, IG_CODE_UNARY};
}

static enum ig_code_strength operand_strength(struct form form, int operand) {
    switch (form.style) {
    case CALL: return IG_CODE_SELECT;
    case PREFIX: return IG_CODE_ATOM;
    case WRAPPED: return IG_CODE_ATOM;
    default: return operand == 0 ? form.strength : form.strength - 1;
    }
}

static const char *apply(struct ig_code_printer *p, struct form form, enum ig_op op, enum ingot_dtype dtype,
                         const char *a, const char *b) {
    if (form.style == INFIX) return ig_format(p->job, "%s %s %s", a, form.sign, b);
    if (form.style == PREFIX) return ig_format(p->job, "%s%s", form.sign, a);
    if (form.style == WRAPPED) {
        const char *wide = dtype == INGOT_I64 ? "uint64_t" : "uint32_t";
        return ig_format(p->job, "(%s)((%s)%s %s (%s)%s)", ig_code_type(dtype), wide, a, form.sign, wide, b);
    }
    const char *name = ig_format(p->job, "ig_%s_%s", ig_op_info(op)->name, ingot_dtype_name(dtype));
    ig_code_prelude_use(&p->prelude, name);
    return b ? ig_format(p->job, "%s(%s, %s)", name, a, b) : ig_format(p->job, "%s(%s)", name, a);
}

/* The short or coarse form of a function of f32. */
static const char *in_form(struct ig_code_printer *p, const char *form, enum ig_op op, const char *a) {
    const char *name = ig_format(p->job, "ig_%s_%s_f32", form, ig_op_info(op)->name);
    ig_code_prelude_use(&p->prelude, name);
    return ig_format(p->job, "%s(%s)", name, a);
}

const char *ig_code_apply(struct ig_code_printer *p, enum ig_op op, enum ingot_dtype dtype, bool wraps, const char *a,
                          ig_x b) {
    struct form form = form_of(op, dtype, wraps);
    return apply(p, form, op, dtype, a, ig_code_text_of(p, b, operand_strength(form, 1)));
}

/* ---- Leaves ------------------------------------------------------------------------------------------------------ */

static const char *float_literal(struct ig_code_printer *p, enum ingot_dtype dtype, double f) {
    bool single = dtype == INGOT_F32;
    const struct ig_code_language *l = p->language;
    if (isnan(f)) return single ? l->nan_f32 : l->nan_f64;
    if (isinf(f)) return ig_format(p->job, "%s%s", f < 0 ? "-" : "", single ? l->inf_f32 : l->inf_f64);
    const char *digits = ig_format(p->job, single ? "%.9g" : "%.17g", f);
    if (single && (double)strtof(ig_format(p->job, "%g", f), NULL) == f) digits = ig_format(p->job, "%g", f);
    if (!single && strtod(ig_format(p->job, "%g", f), NULL) == f) digits = ig_format(p->job, "%g", f);
    const char *point = strpbrk(digits, ".en") ? "" : ".0";
    return ig_format(p->job, "%s%s%s", digits, point, single ? "f" : "");
}

static const char *int_literal(struct ig_code_printer *p, enum ingot_dtype dtype, int64_t i) {
    if (dtype == INGOT_U64) return ig_format(p->job, "%lluu", (unsigned long long)i);
    if (dtype == INGOT_U32) return ig_format(p->job, "%lluu", (unsigned long long)i);
    if (i == INT64_MIN) return "(-9223372036854775807 - 1)";
    if (dtype == INGOT_I32 && i == INT32_MIN) return "(-2147483647 - 1)";
    return ig_format(p->job, "%lld", (long long)i);
}

const char *ig_code_element(struct ig_code_printer *p, int buffer, ig_x index) {
    const char *special = p->language->element ? p->language->element(p, buffer, index) : NULL;
    if (special) return special;
    return ig_format(p->job, "%s[%s]", p->k->buffers.at[buffer].name, ig_code_text_of(p, index, IG_CODE_SELECT));
}

static const char *load_text(struct ig_code_printer *p, const struct ig_x_node *n, enum ig_code_strength *strength) {
    const struct ig_buffer *b = &p->k->buffers.at[n->i];
    const char *element = ig_code_element(p, (int)n->i, n->args[0]);
    if (b->dtype == INGOT_BOOL) {
        *strength = IG_CODE_EQUAL;
        return ig_format(p->job, "%s != 0", element);
    }
    if (b->dtype != INGOT_F16 && b->dtype != INGOT_BF16) return element;
    const char *name = ig_format(p->job, "ig_load_%s", ingot_dtype_name(b->dtype));
    ig_code_prelude_use(&p->prelude, name);
    return ig_format(p->job, "%s(%s)", name, element);
}

/* ---- Casts ------------------------------------------------------------------------------------------------------- */

static const char *convert(struct ig_code_printer *p, const char *kind, enum ingot_dtype from, enum ingot_dtype to,
                           ig_x x) {
    const char *name = ig_format(p->job, "ig_%s_%s_%s", kind, ingot_dtype_name(from), ingot_dtype_name(to));
    ig_code_prelude_use(&p->prelude, name);
    return ig_format(p->job, "%s(%s)", name, ig_code_text_of(p, x, IG_CODE_SELECT));
}

static const char *widen(struct ig_code_printer *p, enum ingot_dtype from, ig_x x) {
    const char *name = ig_format(p->job, "ig_widen_%s", ingot_dtype_name(from));
    ig_code_prelude_use(&p->prelude, name);
    return ig_format(p->job, "%s(%s)", name, ig_code_text_of(p, x, IG_CODE_SELECT));
}

static const char *cast_text(struct ig_code_printer *p, const struct ig_x_node *n, enum ig_code_strength *strength) {
    ig_x x = n->args[0];
    enum ingot_dtype from = p->k->x.at[x].dtype, to = (enum ingot_dtype)n->i;
    const char *special = p->language->cast ? p->language->cast(p, n) : NULL;
    if (special) return special;
    if (ig_dtype_is_narrow(from)) return widen(p, from, x);
    if (ig_dtype_is_narrow(to)) return convert(p, n->saturate ? "saturate" : "narrow", from, to, x);
    if (to == INGOT_BOOL) {
        *strength = IG_CODE_EQUAL;
        return ig_format(p->job, "%s != 0", ig_code_text_of(p, x, IG_CODE_EQUAL));
    }
    if (to == INGOT_F16 || to == INGOT_BF16) {
        if (from == INGOT_F64) return convert(p, "round", from, to, x);
        const char *name = ig_format(p->job, "ig_round_f32_%s", ingot_dtype_name(to));
        ig_code_prelude_use(&p->prelude, name);
        const char *as_float = from == INGOT_F32 ? "" : "(float)";
        return ig_format(p->job, "%s(%s%s)", name, as_float,
                         ig_code_text_of(p, x, from == INGOT_F32 ? IG_CODE_SELECT : IG_CODE_ATOM));
    }
    bool to_integer = is_integer(to);
    if (to_integer && ig_dtype_is_float(from)) return convert(p, n->saturate ? "saturate" : "truncate", from, to, x);
    if (to_integer && n->saturate && is_integer(from)) {
        return convert(p, "saturate", from == INGOT_U64 ? INGOT_U64 : INGOT_I64, to, x);
    }
    *strength = IG_CODE_UNARY;
    const char *type = p->narrow[n - p->k->x.at] ? "int" : ig_code_type(to);
    return ig_format(p->job, "(%s)%s", type, ig_code_text_of(p, x, IG_CODE_ATOM));
}

/* ---- Operators --------------------------------------------------------------------------------------------------- */

/* The left operand; cast to 64 bits if it is narrow and the result is not. */
static const char *widened(struct ig_code_printer *p, ig_x result, ig_x x, enum ig_code_strength strength) {
    const char *text = ig_code_text_of(p, x, strength);
    if (!p->narrow[x] || p->narrow[result] || p->k->x.at[result].dtype != INGOT_I64) return text;
    return ig_format(p->job, "(int64_t)%s", ig_code_text_of(p, x, IG_CODE_ATOM));
}

/* Writes a sum of indices with a negative term as a difference; NULL for anything else. */
static const char *difference(struct ig_code_printer *p, const struct ig_x_node *n) {
    const struct ig_x_node *b = &p->k->x.at[n->args[1]];
    if (n->op != IG_OP_add || n->wraps) return NULL;
    const char *left = widened(p, (ig_x)(n - p->k->x.at), n->args[0], IG_CODE_ADD);
    if (b->kind == IG_X_INT && b->i < 0 && b->i != INT64_MIN)
        return ig_format(p->job, "%s - %lld", left, (long long)-b->i);
    if (b->kind != IG_X_MAP || b->op != IG_OP_mul || b->wraps || p->text[n->args[1]].named) return NULL;
    const struct ig_x_node *factor = &p->k->x.at[b->args[1]];
    if (factor->kind != IG_X_INT || factor->i >= 0 || factor->i == INT64_MIN) return NULL;
    if (p->narrow[b->args[0]] && !p->narrow[n->args[1]]) return NULL;
    if (factor->i == -1) return ig_format(p->job, "%s - %s", left, ig_code_text_of(p, b->args[0], IG_CODE_MUL));
    return ig_format(p->job, "%s - %s * %lld", left, ig_code_text_of(p, b->args[0], IG_CODE_MUL),
                     (long long)-factor->i);
}

/* Makes a divisor that may be 0 nonzero, since quotients of indices are computed even if the dividing axis is empty.
 * NULL: no need. */
static const char *divisor(struct ig_code_printer *p, ig_x x) {
    const struct ig_x_node *n = &p->k->x.at[x];
    int64_t lo, hi;
    if (n->kind != IG_X_DIM) return NULL;
    ig_dim_range(p->k->dims, p->k->dim_params.at[n->i], &lo, &hi);
    return lo > 0 ? NULL : ig_format(p->job, "(d%d + (d%d == 0))", (int)n->i, (int)n->i);
}

/* Are all operands of an index narrow? */
static bool parts_narrow(const struct ig_code_printer *p, const struct ig_x_node *n) {
    return p->narrow[n->args[0]] && (n->args[1] == IG_NO_X || p->narrow[n->args[1]]);
}

static const char *map_text(struct ig_code_printer *p, const struct ig_x_node *n, enum ig_code_strength *strength) {
    enum ingot_dtype dtype = p->k->x.at[n->args[0]].dtype;
    struct form form = form_of(n->op, dtype, n->wraps);
    *strength = form.strength;
    const char *text = difference(p, n);
    if (text) return text;
    bool arithmetic = n->dtype == INGOT_I64 && !n->wraps && form.style == INFIX;
    ig_x self = (ig_x)(n - p->k->x.at);
    const char *a = arithmetic ? widened(p, self, n->args[0], operand_strength(form, 0))
                               : ig_code_text_of(p, n->args[0], operand_strength(form, 0));
    const char *b = NULL;
    if (!n->wraps && (n->op == IG_OP_div || n->op == IG_OP_mod)) b = divisor(p, n->args[1]);
    if (!b && n->args[1] != IG_NO_X) b = ig_code_text_of(p, n->args[1], operand_strength(form, 1));
    if (form.style == CALL && dtype == INGOT_I64 && !n->wraps && parts_narrow(p, n)) dtype = INGOT_I32;
    if (p->apart[self]) {
        *strength = IG_CODE_ATOM;
        return p->language->apart(p, n->dtype, a, b);
    }
    text = p->form[self] ? in_form(p, p->form[self], n->op, a) : apply(p, form, n->op, dtype, a, b);
    if (!p->narrow[self] || parts_narrow(p, n)) return text;
    *strength = IG_CODE_UNARY;
    return ig_format(p->job, "(int)(%s)", text);
}

static const char *call_text(struct ig_code_printer *p, const struct ig_x_node *n) {
    const char *name = p->k->functions.at[n->i], *arguments = "";
    for (int i = 0; i < 3 && n->args[i] != IG_NO_X; i++) {
        const char *text = ig_code_text_of(p, n->args[i], IG_CODE_SELECT);
        arguments = ig_format(p->job, "%s%s%s", arguments, i ? ", " : "", text);
    }
    ig_code_use_function(p, name);
    return ig_format(p->job, "%s(%s)", name, arguments);
}

static const char *select_text(struct ig_code_printer *p, const struct ig_x_node *n, enum ig_code_strength *strength) {
    const char *special = p->language->pick ? p->language->pick(p, n) : NULL;
    if (special) return special;
    *strength = IG_CODE_SELECT;
    return ig_format(p->job, "%s ? %s : %s", ig_code_text_of(p, n->args[0], IG_CODE_OR),
                     ig_code_text_of(p, n->args[1], IG_CODE_OR), ig_code_text_of(p, n->args[2], IG_CODE_OR));
}

static const char *node_text(struct ig_code_printer *p, const struct ig_x_node *n, enum ig_code_strength *strength) {
    *strength = IG_CODE_ATOM;
    switch (n->kind) {
    case IG_X_INT:
        if (n->i < 0) *strength = IG_CODE_UNARY;
        return int_literal(p, n->dtype, n->i);
    case IG_X_FLOAT:
        if (signbit(n->f)) *strength = IG_CODE_UNARY;
        return float_literal(p, n->dtype, n->f);
    case IG_X_DIM: return ig_format(p->job, "d%d", (int)n->i);
    case IG_X_VAR: return ig_code_var_name(p, n->i);
    case IG_X_BEGIN: return p->language->begin;
    case IG_X_END: return p->language->end;
    case IG_X_ADDRESS: *strength = IG_CODE_UNARY; return p->language->address(p, &p->k->buffers.at[n->i]);
    case IG_X_ACC: return ig_format(p->job, "acc%d", (int)n->i);
    case IG_X_LOAD: return load_text(p, n, strength);
    case IG_X_MAP: return map_text(p, n, strength);
    case IG_X_CAST: return cast_text(p, n, strength);
    case IG_X_CALL: return call_text(p, n);
    case IG_X_SELECT: return select_text(p, n, strength);
    }
    ig_raise(p->job, INGOT_INTERNAL, "expression of unknown kind %d", (int)n->kind);
}

const char *ig_code_type_of(const struct ig_code_printer *p, ig_x x) {
    return p->narrow[x] ? "int" : ig_code_type(p->k->x.at[x].dtype);
}

/* ---- Naming ------------------------------------------------------------------------------------------------------ */

/* The number of leaves of index arithmetic without divisions; large for anything else. */
static int index_weight(const struct ig_code_printer *p, ig_x x) {
    const struct ig_x_node *n = &p->k->x.at[x];
    if (n->kind == IG_X_INT || n->kind == IG_X_DIM || n->kind == IG_X_VAR || p->text[x].named) return 1;
    bool plain = n->kind == IG_X_MAP && !n->wraps && (n->op == IG_OP_add || n->op == IG_OP_mul);
    return plain ? index_weight(p, n->args[0]) + index_weight(p, n->args[1]) : 100;
}

static bool wants_name(const struct ig_code_printer *p, ig_x x, const char *text) {
    const struct ig_x_node *n = &p->k->x.at[x];
    bool computed = n->kind == IG_X_LOAD || n->kind == IG_X_MAP || n->kind == IG_X_CAST || n->kind == IG_X_SELECT;
    if (!computed && n->kind != IG_X_CALL) return false;
    if (strlen(text) > LONGEST_TEXT || p->picked[x]) return true;
    if (index_weight(p, x) <= 4) return false;
    return p->uses[x] > 1 || p->deep[x];
}

static const char *local_name(struct ig_code_printer *p, const struct ig_x_node *n) {
    uint32_t number = p->n_locals++;
    if (n->kind == IG_X_LOAD) return ig_format(p->job, "%s_%u", p->k->buffers.at[n->i].name, number);
    if (n->kind == IG_X_CAST) return ig_format(p->job, "cast_%u", number);
    if (n->kind == IG_X_CALL) return ig_format(p->job, "call_%u", number);
    if (n->kind == IG_X_SELECT) return ig_format(p->job, "pick_%u", number);
    return ig_format(p->job, "%s_%u", ig_op_info(n->op)->name, number);
}

/* Has anything that x reads been written since `time`? */
static bool is_stale(const struct ig_code_printer *p, ig_x x, uint32_t time) {
    const struct ig_x_node *n = &p->k->x.at[x];
    if (!p->unstable[x]) return false;
    if (n->kind == IG_X_ACC) return p->written[n->i] > time;
    if (n->kind == IG_X_LOAD && p->written[ig_code_resource_of_buffer(p, (int)n->i)] > time) return true;
    for (int i = 0; i < 3; i++) {
        if (n->args[i] != IG_NO_X && is_stale(p, n->args[i], time)) return true;
    }
    return false;
}

static void set_text(struct ig_code_printer *p, ig_x x, const char *text, enum ig_code_strength strength, bool named) {
    struct ig_code_undo undo = {x, p->text[x]};
    IG_PUSH(p->job, &p->undo, undo);
    p->text[x] = (struct ig_code_text){text, strength, named, p->clock};
}

void ig_code_compute_before(struct ig_code_printer *p, uint32_t place) {
    const struct ig_code_place *at = &p->places.at[place];
    for (uint32_t i = 0; i < at->before.count; i++) {
        ig_x x = at->before.at[i];
        const struct ig_x_node *n = &p->k->x.at[x];
        if (p->text[x].named && !is_stale(p, x, p->text[x].time)) continue;
        enum ig_code_strength strength;
        const char *text = node_text(p, n, &strength);
        bool named = wants_name(p, x, text);
        if (named) {
            const char *name = local_name(p, n);
            ig_code_line(p, "const %s %s = %s;", ig_code_type_of(p, x), name, text);
            text = name;
            strength = IG_CODE_ATOM;
        }
        set_text(p, x, text, strength, named);
    }
}

const char *ig_code_text_of(struct ig_code_printer *p, ig_x x, enum ig_code_strength strength) {
    const struct ig_code_text *t = &p->text[x];
    IG_ASSERT(p->job, t->text != NULL);
    return t->strength > strength ? ig_format(p->job, "(%s)", t->text) : t->text;
}

const char *ig_code_plain_text(struct ig_code_printer *p, ig_x x) {
    const struct ig_x_node *n = &p->k->x.at[x];
    for (int i = 0; i < 3; i++) {
        if (n->args[i] != IG_NO_X) ig_code_plain_text(p, n->args[i]);
    }
    enum ig_code_strength strength;
    const char *text = node_text(p, n, &strength);
    set_text(p, x, text, strength, false);
    return text;
}

void ig_code_note_write(struct ig_code_printer *p, uint32_t resource) {
    p->written[resource] = ++p->clock;
}

uint32_t ig_code_scope_open(struct ig_code_printer *p) {
    return p->undo.count;
}

void ig_code_scope_close(struct ig_code_printer *p, uint32_t mark) {
    while (p->undo.count > mark) {
        const struct ig_code_undo *undo = &p->undo.at[--p->undo.count];
        p->text[undo->x] = undo->text;
    }
}
