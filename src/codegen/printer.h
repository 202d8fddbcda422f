/*
 * What the printers of loop IR share: place.c (where each expression is computed), range.c (which indices fit in 32
 * bits), expression.c (the text of expressions), statement.c (the parts of statements). The languages, c/ and cuda/,
 * print statements and the frame.
 */
#ifndef IG_CODEGEN_PRINTER_H
#define IG_CODEGEN_PRINTER_H

#include "base/map.h"
#include "codegen/prelude.h"
#include "kernel/kernel.h"

struct ig_code_printer;

/* The differences between languages, other than statements. */
struct ig_code_language {
    const struct ig_code_table *tables; /* of the prelude; searched in order */
    size_t n_tables;
    const char *inf_f32, *inf_f64, *nan_f32, *nan_f64;
    bool moves_halves; /* elements of half precision are stored as 16 bits, so that moving them needs no conversion */
    bool narrow;       /* indices that fit are computed in 32 bits; else all in 64 */
    bool splits_picks; /* what a select chooses between is loaded before it, where a body has several results */
    const char *begin; /* the text of IG_X_BEGIN */
    const char *end;   /* of IG_X_END; NULL: there is none */
    /* The text of a product that is rounded before it is added to something, given its ordinary text. */
    const char *(*apart)(struct ig_code_printer *p, enum ingot_dtype dtype, const char *a, const char *b);
    const char *(*address)(struct ig_code_printer *p, const struct ig_buffer *b); /* of a parameter, as an integer */
    /* Replaces "name[index]" for some buffers; may be NULL. */
    const char *(*element)(struct ig_code_printer *p, int buffer, ig_x index);
    /* Replaces the text of some casts, as an atom: NULL for the others; may be NULL. */
    const char *(*cast)(struct ig_code_printer *p, const struct ig_x_node *n);
    /* The text of some selects, as an atom: NULL for the others; may be NULL. */
    const char *(*pick)(struct ig_code_printer *p, const struct ig_x_node *n);
};

/* The most tiles per launch if indices are narrow; a grid never has more blocks. */
#define IG_CODE_MAX_TILES (((int64_t)1 << 30) - 1)

/* C's operator precedence, from strongest to weakest. */
enum ig_code_strength {
    IG_CODE_ATOM,
    IG_CODE_UNARY,
    IG_CODE_MUL,
    IG_CODE_ADD,
    IG_CODE_COMPARE,
    IG_CODE_EQUAL,
    IG_CODE_BITAND,
    IG_CODE_XOR,
    IG_CODE_OR,
    IG_CODE_SELECT
};

/* The current text of an expression. */
struct ig_code_text {
    const char *text; /* NULL: none yet */
    enum ig_code_strength strength;
    bool named; /* text is a local variable, assigned at `time` */
    uint32_t time;
};

/* A statement in pre-order, and what is computed just before it. */
struct ig_code_place {
    const struct ig_stmt *stmt;
    uint64_t *writes;    /* bit set of the accumulators, then the buffers, that it or its body writes */
    IG_VEC(ig_x) before; /* operands before their users */
};

struct ig_code_undo {
    ig_x x;
    struct ig_code_text text;
};

struct ig_code_printer {
    struct ig_job *job;
    const struct ig_code_language *language;
    const struct ig_kernel *kernel;
    const struct ig_loops *k;
    struct ig_text out;
    int indent;
    struct ig_code_prelude prelude;

    /* place.c */
    IG_VEC(struct ig_code_place) places;
    uint32_t words; /* per bit set of resources */
    uint32_t *uses; /* by expression: number of texts that contain it */
    bool *deep;     /* by expression: used inside a loop that it does not depend on */
    bool *unstable; /* by expression: depends on accumulators or written buffers */
    bool *picked;   /* by expression: a load that has to be a statement of its own; see ig_code_language.splits_picks */

    /* expression.c */
    struct ig_code_text *text; /* by expression */
    uint32_t clock;
    uint32_t *written; /* by resource: the time of its last write */
    IG_VEC(struct ig_code_undo) undo;
    uint32_t n_locals;
    bool *narrow;      /* by expression: an index that fits in an int; see range.c */
    const char **form; /* by expression: the form that will do, "short" or "coarse"; or NULL */
    bool *apart;       /* by expression: a product that must not be contracted with a sum; see exact.c */
    bool has_zero;     /* C: the text uses a zero that compilers do not see through */
    /* By accumulator: the variable that receives updates in its place in the current loop; or NULL. */
    const char **stands_for;
};

/* Prepares printing: places all expressions. */
void ig_code_printer_init(struct ig_code_printer *p, struct ig_job *job, const struct ig_kernel *kernel,
                          const struct ig_code_language *language);

/* Resources: accumulators, then buffers. */
static inline uint32_t ig_code_resource_of_buffer(const struct ig_code_printer *p, int buffer) {
    return (uint32_t)(p->k->n_accs + buffer);
}
static inline uint32_t ig_code_resource_count(const struct ig_code_printer *p) {
    return (uint32_t)p->k->n_accs + p->k->buffers.count;
}

/* Finds the indices that fit in 32 bits (p->narrow). */
void ig_code_find_narrow(struct ig_code_printer *p);
/* Finds the products that must be rounded before they are added (p->apart). */
void ig_code_find_apart(struct ig_code_printer *p);
/* Decides for every expression before which statement it is computed. */
void ig_code_place_all(struct ig_code_printer *p);
/* Calls visit for every expression that a statement itself evaluates, not those in its body. */
void ig_code_roots(struct ig_code_printer *p, const struct ig_stmt *s, void (*visit)(void *user, ig_x x), void *user);
/* Finds the next "@…" of a template. *out_length is the length of the text before it, *out_x its expression (IG_NO_X: a
 * plain at sign, or the end). Returns where to continue, NULL at the end. */
const char *ig_code_next_reference(const char *text, size_t *out_length, ig_x *out_x, bool *out_at);

/* Prints the declarations of what is computed before places.at[place]. */
void ig_code_compute_before(struct ig_code_printer *p, uint32_t place);
/* The text of a placed expression, in parentheses if it binds weaker than `strength`. */
const char *ig_code_text_of(struct ig_code_printer *p, ig_x x, enum ig_code_strength strength);
/* Records a write, so that expressions that depend on it are computed again. */
void ig_code_note_write(struct ig_code_printer *p, uint32_t resource);
/* Scopes: close forgets the names declared since open. */
uint32_t ig_code_scope_open(struct ig_code_printer *p);
void ig_code_scope_close(struct ig_code_printer *p, uint32_t mark);

/* "x0[i]" */
const char *ig_code_element(struct ig_code_printer *p, int buffer, ig_x index);
const char *ig_code_type(enum ingot_dtype dtype);         /* of values: "float", "_Bool", … */
const char *ig_code_storage_type(enum ingot_dtype dtype); /* in memory: "uint16_t" for f16, "uint8_t" for bool */
/* op(a, b) for operands of `dtype`, where a is a name; for updates. */
const char *ig_code_apply(struct ig_code_printer *p, enum ig_op op, enum ingot_dtype dtype, bool wraps, const char *a,
                          ig_x b);
/* The text of an expression over constants and dims, independent of any statement. */
const char *ig_code_plain_text(struct ig_code_printer *p, ig_x x);
/* The type of a loop variable or of a named expression. */
const char *ig_code_type_of(const struct ig_code_printer *p, ig_x x);

/* statement.c */
void ig_code_line(struct ig_code_printer *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints lines with the current indentation. */
void ig_code_lines(struct ig_code_printer *p, const char *text);
/* Adds a function to the prelude, whose name may have template arguments. */
void ig_code_use_function(struct ig_code_printer *p, const char *name);
/* "y0[i] = value;"; records the write. */
const char *ig_code_store(struct ig_code_printer *p, const struct ig_stmt *s);
/* "acc3 += value;"; records the write. */
const char *ig_code_update(struct ig_code_printer *p, const struct ig_stmt *s);
/* The arguments of a call. */
const char *ig_code_arguments(struct ig_code_printer *p, const struct ig_stmt *s);
/* Records the writes of a call or a template. */
void ig_code_note_writes(struct ig_code_printer *p, const struct ig_stmt *s);
/* A template with its references filled in. */
const char *ig_code_fill(struct ig_code_printer *p, const struct ig_stmt *s);
/* Call before a loop: names that depend on what it writes are valid in its first iteration only. */
void ig_code_note_loop(struct ig_code_printer *p, uint32_t place);
const char *ig_code_var_name(struct ig_code_printer *p, int64_t var);
/* "for (int64_t i = lo; i < hi; i += step) {" for the bounds given. */
const char *ig_code_loop_head(struct ig_code_printer *p, const struct ig_stmt *s, const char *lo, const char *hi,
                              const char *step);
/* "{ const int64_t i = lo;" */
const char *ig_code_once_head(struct ig_code_printer *p, const struct ig_stmt *s, const char *lo);
/* The accumulators from outside that a loop updates, one update each. */
struct ig_code_reductions {
    IG_VEC(const struct ig_stmt *) updates;
    bool possible; /* all by operators that may be reordered */
};
void ig_code_find_reductions(struct ig_code_printer *p, const struct ig_stmt *s, struct ig_code_reductions *r);
/* Text made safe for a comment: printable, and unable to end it. */
const char *ig_code_comment(struct ig_job *job, const char *text);

#endif
