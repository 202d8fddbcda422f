/*
 * Which functions may be computed by short forms: those whose results are only stored in 16 bits, or as floats of 8, perhaps after sums,
 * products and choices. prelude.c has the forms, with their errors, each below a quarter of the distance between
 * neighbouring numbers of the type (docs/precision.md).
 */
#include "codegen/cuda/printer.h"

/* What is made of an expression's value, as bits. */
enum { EXACT = 1, F16 = 2, BF16 = 4, F8 = 8 };

struct finder {
    struct ig_code_printer *p;
    unsigned char *made; /* by expression */
    unsigned as;
};

static unsigned rounded_to(enum ingot_dtype dtype) {
    switch (dtype) {
    case INGOT_F16: return F16;
    case INGOT_BF16: return BF16;
    case INGOT_F8E4M3FN:
    case INGOT_F8E5M2: return F8;
    default: return EXACT;
    }
}

/* Is the result's error no larger than the operand's, up to a small factor? */
static bool passes_on(const struct ig_x_node *n, int operand) {
    if (n->kind == IG_X_SELECT) return operand > 0;
    if (n->kind != IG_X_MAP || n->dtype != INGOT_F32) return false;
    switch (n->op) {
    case IG_OP_add:
    case IG_OP_sub:
    case IG_OP_mul:
    case IG_OP_neg:
    case IG_OP_abs:
    case IG_OP_min:
    case IG_OP_max: return true;
    default: return false;
    }
}

static void note(struct finder *f, ig_x x, unsigned as) {
    const struct ig_x_node *n = &f->p->k->x.at[x];
    if ((f->made[x] & as) == as) return;
    f->made[x] |= (unsigned char)as;
    for (int i = 0; i < 3; i++) {
        if (n->args[i] == IG_NO_X) continue;
        if (n->kind == IG_X_CAST)
            note(f, n->args[i], rounded_to((enum ingot_dtype)n->i));
        else
            note(f, n->args[i], passes_on(n, i) ? as : EXACT);
    }
}

static void note_root(void *user, ig_x x) {
    struct finder *f = user;
    note(f, x, f->as);
}

static const char *form_of(const struct ig_x_node *n, unsigned made) {
    if (n->kind != IG_X_MAP || n->dtype != INGOT_F32 || made == 0 || made & EXACT) return NULL;
    if (n->op == IG_OP_sigmoid || n->op == IG_OP_tanh) return "short";
    if (n->op == IG_OP_normcdf && !(made & BF16)) return made == F8 ? "coarse" : "short";
    return NULL;
}

void ig_cuda_find_rounded(struct ig_code_printer *p) {
    struct finder f = {.p = p, .made = IG_NEW_ARRAY(p->job, unsigned char, p->k->x.count + 1)};
    for (uint32_t i = 0; i < p->places.count; i++) {
        const struct ig_stmt *s = p->places.at[i].stmt;
        const struct ig_buffer *to = s->kind == IG_S_STORE ? &p->k->buffers.at[s->buffer] : NULL;
        f.as = !to ? EXACT : rounded_to(to->rounded_to != INGOT_DTYPE_NONE ? to->rounded_to : to->dtype);
        ig_code_roots(p, s, note_root, &f);
    }
    for (uint32_t x = 0; x < p->k->x.count; x++)
        p->form[x] = form_of(&p->k->x.at[x], f.made[x]);
}
