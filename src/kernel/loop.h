/*
 * The loop IR: the form of a generated kernel before it is printed.
 *
 *  - Expressions (ig_x): pure, typed, hash-consed. Index arithmetic is i64; the rest computes in f32, f64, i32, i64, …
 *  - Statements: loops, stores, accumulators, branches, and calls of micro-kernels.
 *
 * A kernel is void kernel(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch): it executes
 * tiles begin … end-1. Buffers are numbered inputs first, then outputs; `dim` holds numbers computed by the shape
 * program.
 *
 * Expressions have no position: the printer computes each at the head of the outermost loop body in which all that it
 * depends on is known. So every load must be safe whenever the loops around the variables in its index run: clamp the
 * index, then select.
 */
#ifndef IG_KERNEL_LOOP_H
#define IG_KERNEL_LOOP_H

#include "ir/graph.h"
#include "ir/target.h"

typedef uint32_t ig_x;
#define IG_NO_X UINT32_MAX

enum ig_x_kind {
    IG_X_INT,     /* i: constant of an integer type or bool */
    IG_X_FLOAT,   /* f */
    IG_X_DIM,     /* dim[i], i64 */
    IG_X_VAR,     /* loop variable i, i64 */
    IG_X_LOAD,    /* element args[0] of buffer i, converted to the buffer's compute type */
    IG_X_MAP,     /* elementwise operator of ops.def on args; also floor division and modulo of indices */
    IG_X_CAST,    /* args[0] to dtype */
    IG_X_SELECT,  /* args[0] ? args[1] : args[2] */
    IG_X_ACC,     /* value of accumulator i, after the loops that update it */
    IG_X_BEGIN,   /* the kernel's argument `begin`, i64: identifies the first tile of a call */
    IG_X_END,     /* CPU: the kernel's argument `end`, i64: the tile after the call's last */
    IG_X_ADDRESS, /* the address of PARAM buffer i, i64 */
    IG_X_CALL,    /* function functions[i] of the printer's prelude on args; made by printers only */
};

struct ig_x_node {
    enum ig_x_kind kind;
    enum ingot_dtype dtype;
    enum ig_op op; /* MAP */
    bool saturate; /* CAST */
    bool wraps;    /* MAP on integer data: wraps on overflow. Index arithmetic never overflows */
    int64_t i;     /* see ig_x_kind; CAST: the target dtype, while `dtype` is its compute type */
    double f;
    ig_x args[3];
};

enum ig_buffer_kind {
    IG_BUFFER_PARAM,   /* buf[i] */
    IG_BUFFER_SCRATCH, /* scratch memory of the thread, at a byte offset (an ig_x) */
    IG_BUFFER_LOCAL,   /* array on the stack, of constant size */
    /* `width` elements per iteration of a vector loop: element i*width + r belongs to iteration i of SIMD loops over 0
     * … elements/width with step 1, and only that iteration accesses it. CUDA: registers of the thread that executes
     * the iteration; elsewhere like LOCAL. */
    IG_BUFFER_SPREAD,
    /* CUDA only: dynamic shared memory of the block (ig_kernel.shared_bytes) at a constant byte offset, a multiple of
     * 16. Buffers may overlap. */
    IG_BUFFER_SHARED,
};
struct ig_buffer {
    enum ig_buffer_kind kind;
    enum ingot_dtype dtype;
    bool written;
    bool once;                   /* PARAM: no element is stored more than once in the whole kernel */
    bool constant;               /* PARAM: a weight, which no kernel writes */
    int param;                   /* PARAM */
    ig_x offset;                 /* SCRATCH: bytes, a multiple of 64; SHARED: bytes */
    int64_t elements;            /* LOCAL, SPREAD */
    enum ingot_dtype rounded_to; /* LOCAL of f32: what its numbers are stored as in the end; NONE: as they are */
    int64_t width;               /* SPREAD */
    const char *name;            /* in the printed text: "x0", "row1" */
    /* PARAM: bytes of a constant to prefetch before the kernel waits for the preceding one; 0: none. */
    int64_t early;
    /* PARAM: 1 + the dim parameter with the bytes of which each block prefetches its share, likewise; 0: none. */
    uint32_t share;
    /* PARAM that may be empty and is still read, at a clamped index: a bool expression, true if it is empty; IG_NO_X:
     * never empty. */
    ig_x nothing;
};

/* Known facts about a loop variable. It is printed as "i<n>" unless named. */
struct ig_loop_var {
    const char *name;
    ig_dim lo, hi; /* lo <= variable < hi; IG_DIM_NONE: unknown */
};

enum ig_stmt_kind {
    IG_S_FOR,    /* var from lo to hi by step: body */
    IG_S_STORE,  /* buffer[index] = value, converted to the buffer's type */
    IG_S_ACC,    /* declares an accumulator with its initial value; scope: the rest of this body */
    IG_S_UPDATE, /* accumulator = op(accumulator, value), or = value where op is IG_OP_where */
    IG_S_IF,     /* condition: body */
    /* Template text in the printer's language; may use the names of variables and of buffers in dynamic shared
     * memory. */
    IG_S_TEXT,
    IG_S_CALL, /* text(args…): calls a function of the kernel's prelude (a micro-kernel) */
};
enum ig_for_kind {
    IG_FOR_SERIAL,
    IG_FOR_SIMD,   /* vectorised; iterations independent but for accumulators updated by add, mul, min, max */
    IG_FOR_TILE,   /* the tile loop begin … end-1: exactly one, outermost */
    IG_FOR_UNROLL, /* constant, small bounds */
    /* From 0 to 2, 4, 8 or 16, step 1; iterations independent but for accumulators, no loops inside: unrolled. CUDA:
     * where an index is a multiple of the count plus the variable, the loads and stores of all iterations are one
     * access of up to 16 bytes; this needs buffers aligned to 16 bytes. */
    IG_FOR_VECTOR,
    /* Iterations independent. CUDA: spread over teams of `lanes` threads of the block; inside, the threads of a team
     * take the block's place, for SIMD loops and for uniform values. Inside, no locals, scratch or calls; SPREAD is
     * allowed. Elsewhere serial. */
    IG_FOR_TEAM,
};
/* An argument of a call: the address of element `index` of a buffer, as a pointer to the buffer's storage type (const
 * unless the buffer is written); if buffer is -1, the value of `index`. */
struct ig_call_arg {
    int buffer;
    ig_x index;
};
struct ig_stmt {
    enum ig_stmt_kind kind;
    enum ig_for_kind for_kind;
    int var;                        /* FOR: loop variable; ACC, UPDATE: accumulator */
    ig_x lo, hi, step;              /* FOR */
    bool once;                      /* SERIAL: runs exactly once */
    int lanes;                      /* TEAM: threads per team, a power of two up to 32 that divides those of a block */
    int buffer;                     /* STORE */
    ig_x index, value;              /* STORE; value: also ACC, UPDATE, and IF's condition */
    enum ig_op op;                  /* UPDATE */
    enum ingot_dtype dtype;         /* ACC */
    const char *text;               /* TEXT; CALL: the function's name */
    const struct ig_call_arg *args; /* CALL; loads from a buffer that is passed do not move across the call */
    int n_args;
    IG_VEC(struct ig_stmt *) body; /* FOR, IF */
};

struct ig_loops {
    struct ig_job *job;
    struct ig_dims *dims;
    IG_VEC(struct ig_x_node) x;
    struct ig_map *x_index;
    IG_VEC(struct ig_buffer) buffers;
    IG_VEC(ig_dim) dim_params;      /* dim[i] */
    IG_VEC(const char *) functions; /* of IG_X_CALL, perhaps with template arguments: "f<1, 2>" */
    IG_VEC(struct ig_loop_var) vars;
    int n_accs;          /* accumulator n is printed as "acc<n>" */
    struct ig_stmt *top; /* the FOR of kind TILE */
};

struct ig_loops *ig_loops_create(struct ig_job *job, struct ig_dims *dims);

/* Expressions, simplified as they are built: constant folding, x*1, x+0, min and max of equal operands, … */
ig_x ig_x_int(struct ig_loops *k, enum ingot_dtype dtype, int64_t i);
ig_x ig_x_index(struct ig_loops *k, int64_t i); /* an i64 constant */
ig_x ig_x_float(struct ig_loops *k, enum ingot_dtype dtype, double f);
/* The index of a dim among the parameters, of which it becomes one, even if it is constant. */
uint32_t ig_loops_dim(struct ig_loops *k, ig_dim dim);
ig_x ig_x_dim(struct ig_loops *k, ig_dim dim); /* a constant, or dim[i], whose parameter is added on first use */
ig_x ig_x_var(struct ig_loops *k, int var);
ig_x ig_x_load(struct ig_loops *k, int buffer, ig_x index);
ig_x ig_x_map1(struct ig_loops *k, enum ig_op op, ig_x a);
ig_x ig_x_map2(struct ig_loops *k, enum ig_op op, ig_x a, ig_x b);
ig_x ig_x_cast(struct ig_loops *k, ig_x a, enum ingot_dtype to, bool saturate);
ig_x ig_x_select(struct ig_loops *k, ig_x condition, ig_x a, ig_x b);
ig_x ig_x_acc(struct ig_loops *k, int acc, enum ingot_dtype dtype);
/* Arguments may be IG_NO_X, the last ones. */
ig_x ig_x_call(struct ig_loops *k, enum ingot_dtype dtype, const char *function, ig_x a, ig_x b, ig_x c);
ig_x ig_x_begin(struct ig_loops *k);
ig_x ig_x_end(struct ig_loops *k);
/* Are the parameters of two buffers different memory? */
ig_x ig_x_apart(struct ig_loops *k, int a, int b);
/* i64 arithmetic */
ig_x ig_x_add(struct ig_loops *k, ig_x a, ig_x b);
ig_x ig_x_sub(struct ig_loops *k, ig_x a, ig_x b);
ig_x ig_x_mul(struct ig_loops *k, ig_x a, ig_x b);
ig_x ig_x_div(struct ig_loops *k, ig_x a, ig_x b); /* of non-negative numbers */
ig_x ig_x_mod(struct ig_loops *k, ig_x a, ig_x b);
/* Divides *number by `count` in place and returns the remainder. Safe if `count` is 0 at run time. */
ig_x ig_x_split_off(struct ig_loops *k, ig_x *number, ig_dim count);
ig_x ig_x_min(struct ig_loops *k, ig_x a, ig_x b);
ig_x ig_x_max(struct ig_loops *k, ig_x a, ig_x b);
ig_x ig_x_less(struct ig_loops *k, ig_x a, ig_x b);
ig_x ig_x_and(struct ig_loops *k, ig_x a, ig_x b);
/* A variable from 0 to extent-1 without a loop: for expressions built before the loops are decided; to be
 * substituted. */
ig_x ig_x_free_var(struct ig_loops *k, ig_dim extent);
/* Replaces every occurrence of from[i] by to[i]. */
ig_x ig_x_substitute(struct ig_loops *k, ig_x x, const ig_x *from, const ig_x *to, int count);
static inline const struct ig_x_node *ig_x_look(const struct ig_loops *k, ig_x x) {
    return &k->x.at[x];
}

int ig_loops_param(struct ig_loops *k, int param, enum ingot_dtype dtype, bool written, const char *name);
int ig_loops_scratch(struct ig_loops *k, enum ingot_dtype dtype, ig_x offset, const char *name);
int ig_loops_local(struct ig_loops *k, enum ingot_dtype dtype, int64_t elements, const char *name);
int ig_loops_shared(struct ig_loops *k, enum ingot_dtype dtype, int64_t offset, const char *name);
int ig_loops_spread(struct ig_loops *k, enum ingot_dtype dtype, int64_t iterations, int64_t width, const char *name);
/* Tells of all parameters that the kernel stores no element more than once. */
void ig_loops_store_once(struct ig_loops *k);

/* Statements, appended to `body` (FOR or IF; NULL: the FOR becomes `top`). The tile loop's hi must be ig_x_dim(k,
 * tiles); its text runs from begin to end. */
struct ig_stmt *ig_s_for(struct ig_loops *k, struct ig_stmt *body, enum ig_for_kind kind, ig_x lo, ig_x hi, ig_x step,
                         ig_x *out_var);
void ig_s_store(struct ig_loops *k, struct ig_stmt *body, int buffer, ig_x index, ig_x value);
/* Reserves an accumulator's number before ig_s_acc_declare declares it; ig_s_acc does both. */
int ig_loops_acc(struct ig_loops *k);
void ig_s_acc_declare(struct ig_loops *k, struct ig_stmt *body, int acc, enum ingot_dtype dtype, ig_x initial);
int ig_s_acc(struct ig_loops *k, struct ig_stmt *body, enum ingot_dtype dtype, ig_x initial);
void ig_s_update(struct ig_loops *k, struct ig_stmt *body, int acc, enum ig_op op, ig_x value);
struct ig_stmt *ig_s_if(struct ig_loops *k, struct ig_stmt *body, ig_x condition);
/* In `text`, "@123" is the expression of that number and "@@" an at sign; loop variables, accumulators and buffers may
 * be used by name, and dim[i] as d<i>. Counts as a write to every scratch, local and output buffer. */
void ig_s_text(struct ig_loops *k, struct ig_stmt *body, const char *text);
/* Names a loop variable (an IG_X_VAR) in the text; a number is appended to make the name unique. */
void ig_s_name(struct ig_loops *k, ig_x var, const char *name);
/* Moves the last statement of a body before s, another one of it. */
void ig_s_move_before(struct ig_stmt *body, const struct ig_stmt *s);
void ig_s_call(struct ig_loops *k, struct ig_stmt *body, const char *function, const struct ig_call_arg *args,
               int count);

#endif
