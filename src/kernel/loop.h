/*
 * The loop IR: what a generated kernel is before it is text. Small enough to hold in the head:
 *
 *   - expressions (ig_x): pure, typed, hash-consed. Index arithmetic is i64; the rest computes in f32, f64, i32, i64, …
 *   - statements: loops, stores, accumulators, branches, and calls of a micro-kernel.
 *
 * A kernel is void kernel(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch): it does the
 * tiles begin … end-1. Buffers are numbered inputs first, then outputs; `dim` are numbers computed by the shape
 * program. Where an expression is computed follows from what it depends on: the printer puts it at the head of the
 * outermost loop body in which it is known. So every load must be safe to execute whenever the loops around the
 * variables in its index run: clamp the index, then select.
 */
#ifndef IG_KERNEL_LOOP_H
#define IG_KERNEL_LOOP_H

#include "ir/graph.h"
#include "ir/target.h"

typedef uint32_t ig_x;
#define IG_NO_X UINT32_MAX

enum ig_x_kind {
    IG_X_INT,    /* i: constant of an integer type or bool */
    IG_X_FLOAT,  /* f */
    IG_X_DIM,    /* dim[i], i64 */
    IG_X_VAR,    /* loop variable i, i64 */
    IG_X_LOAD,   /* buffer i at element args[0]; converted to the compute type of the buffer's */
    IG_X_MAP,    /* op on args, elementwise operators of ops.def; also floor division and modulo on indices */
    IG_X_CAST,   /* args[0] to dtype */
    IG_X_SELECT, /* args[0] ? args[1] : args[2] */
    IG_X_ACC,    /* the value of accumulator i, after the loops that updated it */
    IG_X_BEGIN,  /* the kernel's argument `begin`, i64: tells the first tile of a call from the others */
};

struct ig_x_node {
    enum ig_x_kind kind;
    enum ingot_dtype dtype;
    enum ig_op op; /* MAP */
    bool saturate; /* CAST */
    bool wraps;    /* MAP on integers that are data: wraps on overflow. Index arithmetic never overflows. */
    int64_t i;     /* CAST: the dtype that is cast to; the node's dtype is its compute type */
    double f;
    ig_x args[3];
};

/* Where a buffer's memory is. */
enum ig_buffer_kind {
    IG_BUFFER_PARAM,   /* buf[i] */
    IG_BUFFER_SCRATCH, /* per-thread scratch at an offset (an ig_x in bytes) */
    IG_BUFFER_LOCAL,   /* an array on the stack, of constant size */
    IG_BUFFER_SPREAD, /* `width` elements for each iteration of a vector loop: element i*width + r belongs to iteration i
                          of SIMD loops over 0 … elements/width, step 1, and is touched by that iteration only. CUDA: the
                          registers of the thread that does it; elsewhere like LOCAL. */
    IG_BUFFER_SHARED, /* CUDA alone: in the block's dynamic shared memory (ig_kernel.shared_bytes) at a constant offset in
                          bytes, a multiple of 16. Buffers may overlap. */
};
struct ig_buffer {
    enum ig_buffer_kind kind;
    enum ingot_dtype dtype;
    bool written;
    bool once;        /* PARAM: no element is stored to twice, by whatever statement */
    int param;        /* PARAM */
    ig_x offset;      /* SCRATCH: bytes, a multiple of 64; SHARED: bytes */
    int64_t elements; /* LOCAL, SPREAD */
    int64_t width;    /* SPREAD */
    const char *name; /* in the text: "x0", "row1" */
    int64_t early;    /* PARAM: bytes of a constant, to be fetched before the kernel waits for the one before; 0: not */
    ig_x nothing;     /* PARAM that may be empty and is read all the same, at a clamped index: a bool expression that
                         holds where it is empty (IG_NO_X: never) */
};

/* What is known of a loop variable. Names in the text: "i<n>" unless named otherwise. */
struct ig_loop_var {
    const char *name;
    ig_dim lo, hi; /* lo <= variable < hi; IG_DIM_NONE: not known */
};

enum ig_stmt_kind {
    IG_S_FOR,    /* var from lo to hi by step: body */
    IG_S_STORE,  /* buffer[index] = value, converted to the buffer's type */
    IG_S_ACC,    /* accumulator: declared with its initial value; visible to the statements after it in this body */
    IG_S_UPDATE, /* accumulator = op(accumulator, value), or = value where op is IG_OP_where */
    IG_S_IF,     /* condition: body */
    IG_S_TEXT,   /* a piece of a template: text in the printer's language, may use the names of vars and,
                    of buffers, those in the block's dynamic memory */
    IG_S_CALL,   /* text(args…): a function of the kernel's prelude (a micro-kernel) */
};
enum ig_for_kind {
    IG_FOR_SERIAL,
    IG_FOR_SIMD,   /* iterations independent but for accumulators updated by add, mul, min, max: to be vectorised */
    IG_FOR_TILE,   /* the tile loop begin … end-1: exactly one, outermost */
    IG_FOR_UNROLL, /* constant, small bounds */
    IG_FOR_VECTOR, /* from 0 to 2, 4, 8 or 16, step 1; iterations independent but for accumulators, no loops within:
                      unrolled. CUDA: where an index is a multiple of the count plus the variable, the loads and stores of
                      all iterations are one access of up to 16 bytes, for buffers begin at multiples of 16 bytes. */
    IG_FOR_TEAM, /* iterations independent. CUDA: spread over teams of `lanes` threads of the block; inside, SIMD loops
                      and what is uniform mean the threads of a team. No locals, scratch or calls within, but SPREAD.
                      Elsewhere serial. */
};
/* An argument of a call: the address of element `index` of a buffer, as a pointer to the buffer's storage type (const
 * where the buffer is not written), or, where buffer is -1, the value of `index`. */
struct ig_call_arg {
    int buffer;
    ig_x index;
};
struct ig_stmt {
    enum ig_stmt_kind kind;
    enum ig_for_kind for_kind;
    int var;                /* FOR: index of the loop variable; ACC, UPDATE: of the accumulator */
    ig_x lo, hi, step;      /* FOR */
    int lanes;              /* FOR of kind TEAM: a power of two up to 32, which divides the threads of a block */
    int buffer;             /* STORE */
    ig_x index, value;      /* STORE; value: ACC, UPDATE, IF's condition */
    enum ig_op op;          /* UPDATE */
    enum ingot_dtype dtype; /* ACC */
    const char *text;       /* TEXT; CALL: the function's name */
    const struct ig_call_arg *args; /* CALL; loads from a buffer that is passed are not moved across the call */
    int n_args;
    IG_VEC(struct ig_stmt *) body; /* FOR, IF */
};

struct ig_loops {
    struct ig_job *job;
    struct ig_dims *dims;
    IG_VEC(struct ig_x_node) x;
    struct ig_map *x_index;
    IG_VEC(struct ig_buffer) buffers;
    IG_VEC(ig_dim) dim_params; /* dim[i] */
    IG_VEC(struct ig_loop_var) vars;
    int n_accs;          /* accumulator n is "acc<n>" in the text */
    struct ig_stmt *top; /* the FOR of kind TILE */
};

struct ig_loops *ig_loops_create(struct ig_job *job, struct ig_dims *dims);

/* Expressions. Simplified as they are built: constants folded, x*1, x+0, min and max of equal things, … */
ig_x ig_x_int(struct ig_loops *k, enum ingot_dtype dtype, int64_t i);
ig_x ig_x_index(struct ig_loops *k, int64_t i); /* an i64 constant */
ig_x ig_x_float(struct ig_loops *k, enum ingot_dtype dtype, double f);
ig_x ig_x_dim(struct ig_loops *k, ig_dim dim); /* a constant, or dim[i] with the parameter added on first use */
ig_x ig_x_var(struct ig_loops *k, int var);
ig_x ig_x_load(struct ig_loops *k, int buffer, ig_x index);
ig_x ig_x_map1(struct ig_loops *k, enum ig_op op, ig_x a);
ig_x ig_x_map2(struct ig_loops *k, enum ig_op op, ig_x a, ig_x b);
ig_x ig_x_cast(struct ig_loops *k, ig_x a, enum ingot_dtype to, bool saturate);
ig_x ig_x_select(struct ig_loops *k, ig_x condition, ig_x a, ig_x b);
ig_x ig_x_acc(struct ig_loops *k, int acc, enum ingot_dtype dtype);
ig_x ig_x_begin(struct ig_loops *k);
/* i64 shorthands */
ig_x ig_x_add(struct ig_loops *k, ig_x a, ig_x b);
ig_x ig_x_sub(struct ig_loops *k, ig_x a, ig_x b);
ig_x ig_x_mul(struct ig_loops *k, ig_x a, ig_x b);
ig_x ig_x_div(struct ig_loops *k, ig_x a, ig_x b); /* of non-negative numbers */
ig_x ig_x_mod(struct ig_loops *k, ig_x a, ig_x b);
/* Splits what counts `count` things off a number: the remainder, and the quotient in its place. Where `count` may turn out to
 * be 0, nothing is divided by that. */
ig_x ig_x_split_off(struct ig_loops *k, ig_x *number, ig_dim count);
ig_x ig_x_min(struct ig_loops *k, ig_x a, ig_x b);
ig_x ig_x_max(struct ig_loops *k, ig_x a, ig_x b);
ig_x ig_x_less(struct ig_loops *k, ig_x a, ig_x b);
ig_x ig_x_and(struct ig_loops *k, ig_x a, ig_x b);
/* A variable from 0 to extent-1 that no loop has: for expressions built before the loops are decided, to be
 * substituted. */
ig_x ig_x_free_var(struct ig_loops *k, ig_dim extent);
/* The expression with every occurrence of from[i] replaced by to[i]. */
ig_x ig_x_substitute(struct ig_loops *k, ig_x x, const ig_x *from, const ig_x *to, int count);
static inline const struct ig_x_node *ig_x_look(const struct ig_loops *k, ig_x x) {
    return &k->x.at[x];
}

int ig_loops_param(struct ig_loops *k, int param, enum ingot_dtype dtype, bool written, const char *name);
int ig_loops_scratch(struct ig_loops *k, enum ingot_dtype dtype, ig_x offset, const char *name);
int ig_loops_local(struct ig_loops *k, enum ingot_dtype dtype, int64_t elements, const char *name);
int ig_loops_shared(struct ig_loops *k, enum ingot_dtype dtype, int64_t offset, const char *name);
int ig_loops_spread(struct ig_loops *k, enum ingot_dtype dtype, int64_t iterations, int64_t width, const char *name);

/* Statements, appended to `body` (an ig_stmt of kind FOR or IF; NULL: the FOR becomes `top`). Give the tile loop's hi as
 * ig_x_dim(k, tiles): its text runs from begin to end. */
struct ig_stmt *ig_s_for(struct ig_loops *k, struct ig_stmt *body, enum ig_for_kind kind, ig_x lo, ig_x hi, ig_x step,
                         ig_x *out_var);
void ig_s_store(struct ig_loops *k, struct ig_stmt *body, int buffer, ig_x index, ig_x value);
/* An accumulator's number ahead of its declaration by ig_s_acc_declare; ig_s_acc does both. */
int ig_loops_acc(struct ig_loops *k);
void ig_s_acc_declare(struct ig_loops *k, struct ig_stmt *body, int acc, enum ingot_dtype dtype, ig_x initial);
int ig_s_acc(struct ig_loops *k, struct ig_stmt *body, enum ingot_dtype dtype, ig_x initial);
void ig_s_update(struct ig_loops *k, struct ig_stmt *body, int acc, enum ig_op op, ig_x value);
struct ig_stmt *ig_s_if(struct ig_loops *k, struct ig_stmt *body, ig_x condition);
/* In `text`, "@123" stands for the expression of that number, and "@@" for an at sign; loop variables, accumulators and
 * buffers may also be used by their names, dim[i] as d<i>. Counts as writing every scratch, local and output buffer. */
void ig_s_text(struct ig_loops *k, struct ig_stmt *body, const char *text);
/* The name of a loop variable (an IG_X_VAR) in the text; a number is added to make it unique. */
void ig_s_name(struct ig_loops *k, ig_x var, const char *name);
void ig_s_call(struct ig_loops *k, struct ig_stmt *body, const char *function, const struct ig_call_arg *args,
               int count);

#endif
