/*
 * What the printers of loop IR share: place.c (where each expression is computed), range.c (which indices fit in 32
 * bits), expression.c (the text of expressions), statement.c (of what statements are made of). The languages, c/ and
 * cuda/, print statements and the frame.
 */
#ifndef IG_CODEGEN_PRINTER_H
#define IG_CODEGEN_PRINTER_H

#include "base/map.h"
#include "codegen/prelude.h"
#include "kernel/kernel.h"

struct ig_code_printer;

/* What differs between the languages, but for statements. */
struct ig_code_language {
    const struct ig_code_table *tables; /* of the prelude; the first that has a function gives it */
    size_t n_tables;
    const char *inf_f32, *inf_f64, *nan_f32, *nan_f64;
    bool narrow;       /* indices are computed in 32 bits where they fit; else all in 64 */
    const char *begin; /* IG_X_BEGIN */
    /* "name[index]", where that is not all there is to it; may be NULL. */
    const char *(*element)(struct ig_code_printer *p, int buffer, ig_x index);
};

/* Tiles of a launch, where indices are narrow; a grid has no more blocks. */
#define IG_CODE_MAX_TILES (((int64_t)1 << 30) - 1)

/* C's binding strengths, weakest last. */
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

/* The text of an expression as it stands. */
struct ig_code_text {
    const char *text; /* NULL: none yet */
    enum ig_code_strength strength;
    bool named; /* text is a local variable, assigned at `time` */
    uint32_t time;
};

/* A statement in pre-order, and what is computed just before it. */
struct ig_code_place {
    const struct ig_stmt *stmt;
    uint64_t *writes;    /* a bit for each accumulator, then each buffer, that it or its body writes */
    IG_VEC(ig_x) before; /* parts before wholes */
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
    uint32_t words; /* of a bit set of resources */
    uint32_t *uses; /* by expression: how many texts contain it */
    bool *deep;     /* by expression: used inside a loop that it does not depend on */
    bool *unstable; /* by expression: depends on accumulators or written buffers */

    /* expression.c */
    struct ig_code_text *text; /* by expression */
    uint32_t clock;
    uint32_t *written; /* by resource: the time of its last write */
    IG_VEC(struct ig_code_undo) undo;
    uint32_t n_locals;
    bool *narrow;            /* by expression: an index that is an int; see range.c */
    const char **stands_for; /* by accumulator: the variable that updates go to instead, in the loop at hand; or NULL */
};

/* Ready to print: everything is placed. */
void ig_code_printer_init(struct ig_code_printer *p, struct ig_job *job, const struct ig_kernel *kernel,
                          const struct ig_code_language *language);

/* Resources are accumulators, then buffers. */
static inline uint32_t ig_code_resource_of_buffer(const struct ig_code_printer *p, int buffer) {
    return (uint32_t)(p->k->n_accs + buffer);
}
static inline uint32_t ig_code_resource_count(const struct ig_code_printer *p) {
    return (uint32_t)p->k->n_accs + p->k->buffers.count;
}

/* Finds the indices that fit in 32 bits (p->narrow). */
void ig_code_find_narrow(struct ig_code_printer *p);
/* Decides for every expression before which statements it is computed. */
void ig_code_place_all(struct ig_code_printer *p);
/* Calls visit for every expression that a statement itself evaluates (not its body). */
void ig_code_roots(struct ig_code_printer *p, const struct ig_stmt *s, void (*visit)(void *user, ig_x x), void *user);
/* The next "@…" of a template: returns the text up to it in *out_length, the expression in *out_x (IG_NO_X: a plain
 * at sign, or the end) and where to go on, NULL at the end. */
const char *ig_code_next_reference(const char *text, size_t *out_length, ig_x *out_x, bool *out_at);

/* Prints the declarations of what is computed before places.at[place]. */
void ig_code_compute_before(struct ig_code_printer *p, uint32_t place);
/* The text of an expression that was placed, put into parentheses where it binds weaker than asked. */
const char *ig_code_text_of(struct ig_code_printer *p, ig_x x, enum ig_code_strength strength);
/* Notes a write, so that texts that depend on it are computed anew. */
void ig_code_note_write(struct ig_code_printer *p, uint32_t resource);
/* Scopes: names declared since the mark are forgotten. */
uint32_t ig_code_scope_open(struct ig_code_printer *p);
void ig_code_scope_close(struct ig_code_printer *p, uint32_t mark);

/* "x0[i]" */
const char *ig_code_element(struct ig_code_printer *p, int buffer, ig_x index);
const char *ig_code_type(enum ingot_dtype dtype);         /* of values: "float", "_Bool", … */
const char *ig_code_storage_type(enum ingot_dtype dtype); /* in memory: "uint16_t" for f16, "uint8_t" for bool */
/* op(a, b) for operands of a type, where a is a name; for updates. */
const char *ig_code_apply(struct ig_code_printer *p, enum ig_op op, enum ingot_dtype dtype, bool wraps, const char *a,
                          ig_x b);
/* The text of an expression over constants and dims, anywhere. */
const char *ig_code_plain_text(struct ig_code_printer *p, ig_x x);
/* The type of a loop variable, or of a name for an expression. */
const char *ig_code_type_of(const struct ig_code_printer *p, ig_x x);

/* statement.c */
void ig_code_line(struct ig_code_printer *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Lines, indented. */
void ig_code_lines(struct ig_code_printer *p, const char *text);
/* "y0[i] = value;", and notes the write. */
const char *ig_code_store(struct ig_code_printer *p, const struct ig_stmt *s);
/* "acc3 += value;", and notes the write. */
const char *ig_code_update(struct ig_code_printer *p, const struct ig_stmt *s);
/* The arguments of a call. */
const char *ig_code_arguments(struct ig_code_printer *p, const struct ig_stmt *s);
/* Notes what a call or a template writes. */
void ig_code_note_writes(struct ig_code_printer *p, const struct ig_stmt *s);
/* A template with its references replaced. */
const char *ig_code_fill(struct ig_code_printer *p, const struct ig_stmt *s);
/* Before a loop: names that depend on what it writes hold in its first round only. */
void ig_code_note_loop(struct ig_code_printer *p, uint32_t place);
const char *ig_code_var_name(struct ig_code_printer *p, int64_t var);
/* "for (int64_t i = lo; i < hi; i += step) {" for the bounds given. */
const char *ig_code_loop_head(struct ig_code_printer *p, const struct ig_stmt *s, const char *lo, const char *hi,
                              const char *step);
/* Accumulators from outside the loop that it updates, one update for each. */
struct ig_code_reductions {
    IG_VEC(const struct ig_stmt *) updates;
    bool possible; /* all by operators whose order does not matter */
};
void ig_code_find_reductions(struct ig_code_printer *p, const struct ig_stmt *s, struct ig_code_reductions *r);
/* Text for a comment: printable, and unable to end it. */
const char *ig_code_comment(struct ig_job *job, const char *text);

#endif
