/*
 * Inside the C printer: its state, shared by place.c (where each expression is computed), expression.c (its text) and
 * print.c (statements and the frame).
 */
#ifndef IG_CODEGEN_C_PRINTER_H
#define IG_CODEGEN_C_PRINTER_H

#include "base/map.h"
#include "codegen/c/prelude.h"
#include "codegen/c/print.h"

/* C's binding strengths, weakest last. */
enum ig_c_strength {
    IG_C_ATOM,
    IG_C_UNARY,
    IG_C_MUL,
    IG_C_ADD,
    IG_C_COMPARE,
    IG_C_EQUAL,
    IG_C_BITAND,
    IG_C_XOR,
    IG_C_OR,
    IG_C_SELECT
};

/* The text of an expression as it stands. */
struct ig_c_text {
    const char *text; /* NULL: none yet */
    enum ig_c_strength strength;
    bool named; /* text is a local variable, assigned at `time` */
    uint32_t time;
};

/* A statement in pre-order, and what is computed just before it. */
struct ig_c_place {
    const struct ig_stmt *stmt;
    uint64_t *writes;    /* a bit for each accumulator, then each buffer, that it or its body writes */
    IG_VEC(ig_x) before; /* parts before wholes */
};

struct ig_c_undo {
    ig_x x;
    struct ig_c_text text;
};

struct ig_c_printer {
    struct ig_job *job;
    const struct ig_kernel *kernel;
    const struct ig_loops *k;
    struct ig_text out;
    int indent;
    struct ig_c_prelude prelude;

    /* place.c */
    IG_VEC(struct ig_c_place) places;
    uint32_t words; /* of a bit set of resources */
    uint32_t *uses; /* by expression: how many texts contain it */
    bool *deep;     /* by expression: used inside a loop that it does not depend on */
    bool *unstable; /* by expression: depends on accumulators or written buffers */

    /* expression.c */
    struct ig_c_text *text; /* by expression */
    uint32_t clock;
    uint32_t *written; /* by resource: the time of its last write */
    IG_VEC(struct ig_c_undo) undo;
    uint32_t n_locals;
    bool *keyed; /* by accumulator: kept as an integer in the vector loop that is being printed */
};

/* Resources are accumulators, then buffers. */
static inline uint32_t ig_c_resource_of_buffer(const struct ig_c_printer *p, int buffer) {
    return (uint32_t)(p->k->n_accs + buffer);
}
static inline uint32_t ig_c_resource_count(const struct ig_c_printer *p) {
    return (uint32_t)p->k->n_accs + p->k->buffers.count;
}

/* Decides for every expression before which statements it is computed. */
void ig_c_place_all(struct ig_c_printer *p);
/* Calls visit for every expression that a statement itself evaluates (not its body). */
void ig_c_roots(struct ig_c_printer *p, const struct ig_stmt *s, void (*visit)(void *user, ig_x x), void *user);
/* The next "@…" of a template: returns the text up to it in *out_length, the expression in *out_x (IG_NO_X: a plain
 * at sign, or the end) and where to go on, NULL at the end. */
const char *ig_c_next_reference(const char *text, size_t *out_length, ig_x *out_x, bool *out_at);

/* Prints the declarations of what is computed before places.at[place]. */
void ig_c_compute_before(struct ig_c_printer *p, uint32_t place);
/* The text of an expression that was placed, put into parentheses where it binds weaker than asked. */
const char *ig_c_text_of(struct ig_c_printer *p, ig_x x, enum ig_c_strength strength);
/* Notes a write, so that texts that depend on it are computed anew. */
void ig_c_note_write(struct ig_c_printer *p, uint32_t resource);
/* Scopes: names declared since the mark are forgotten. */
uint32_t ig_c_scope_open(struct ig_c_printer *p);
void ig_c_scope_close(struct ig_c_printer *p, uint32_t mark);

const char *ig_c_type(enum ingot_dtype dtype);         /* of values: "float", "_Bool", … */
const char *ig_c_storage_type(enum ingot_dtype dtype); /* in memory: "uint16_t" for f16, "uint8_t" for bool */
/* op(a, b) for operands of a type, where a is a name; for updates. */
const char *ig_c_apply(struct ig_c_printer *p, enum ig_op op, enum ingot_dtype dtype, bool wraps, const char *a,
                       ig_x b);
/* The text of an expression over constants and dims, anywhere. */
const char *ig_c_plain_text(struct ig_c_printer *p, ig_x x);
void ig_c_line(struct ig_c_printer *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
