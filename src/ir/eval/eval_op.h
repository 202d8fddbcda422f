/*
 * Internals of the reference evaluator: shared by the operators' evaluators (eval_*.c).
 *
 * Values are strided views of reference-counted blocks, so that slices, transposes, broadcasts and most reshapes cost
 * nothing. Arithmetic is independent of element types: rows of elements are loaded into *cells*, 8-byte doubles for
 * floating types and int64 for the others (u64 reinterpreted), computed there, and stored back with one rounding.
 */
#ifndef IG_IR_EVAL_OP_H
#define IG_IR_EVAL_OP_H

#include "ir/eval/eval.h"

struct ig_eval_block;

struct ig_view {
    enum ingot_dtype dtype; /* INGOT_DTYPE_NONE: an absent optional input */
    int rank;
    int64_t dims[INGOT_MAX_RANK];
    int64_t strides[INGOT_MAX_RANK]; /* in elements; 0 if broadcast, negative if reversed */
    char *data;                      /* address of the element at index 0, …, 0 */
    struct ig_eval_block *block;     /* NULL: borrowed memory */
};

/* All blocks of one evaluation, so that a failure frees them, whoever holds them. */
struct ig_eval_memory {
    struct ig_job *job;
    struct ig_eval_block *blocks;
};

struct ig_eval {
    struct ig_job *job;
    struct ig_dims *dims;
    struct ig_eval_memory memory;
    IG_VEC(ig_dim) symbols; /* bound symbols; a stack: the body of control flow adds a suffix and removes it */
    IG_VEC(int64_t) values;
    IG_VEC(struct ig_eval_block *) temporaries; /* released after the current node */
    const struct ig_graph *root;                /* the outermost graph and its inputs, for symbols that are input
                                                   elements */
    const struct ig_view *root_inputs;
};

/* Evaluates one node: `in` has n_in views, `out` gets n_out views with one reference each. */
typedef void (*ig_eval_fn)(struct ig_eval *ev, struct ig_graph *graph, const struct ig_node *node,
                           const struct ig_view *in, struct ig_view *out);
#define IG_EVAL(name)                                                                           \
    void ig_eval_##name(struct ig_eval *ev, struct ig_graph *graph, const struct ig_node *node, \
                        const struct ig_view *in, struct ig_view *out)
#define IG_MAP(name, ...)
#define IG_OP(name, ...) IG_EVAL(name);
#include "ir/ops.def"
IG_EVAL(map); /* all IG_MAP rows */

/* ---- eval_memory.c: blocks and views */

/* A new uninitialised dense view with one reference; sizes are checked. */
struct ig_view ig_view_new(struct ig_eval *ev, enum ingot_dtype dtype, int rank, const int64_t *dims);
/* An array that lives until the current node is done. */
void *ig_eval_scratch(struct ig_eval *ev, int64_t count, size_t size);
/* Of memory that the caller keeps. */
struct ig_view ig_view_of_tensor(const struct ingot_tensor *tensor);
void ig_view_retain(const struct ig_view *view);
void ig_view_drop(struct ig_eval *ev, struct ig_view *view);
/* The same elements, dense in row-major order: `view` itself, or a copy that lives until the current node is done. */
struct ig_view ig_view_dense(struct ig_eval *ev, const struct ig_view *view);
bool ig_view_is_dense(const struct ig_view *view);
int64_t ig_view_elements(const struct ig_view *view);
/* Row-major strides of dims. */
void ig_dense_strides(int rank, const int64_t *dims, int64_t *out_strides);
/* Axis out[i] is axis perm[i] of `view`; no reference is taken. */
struct ig_view ig_view_permute(const struct ig_view *view, const int64_t *perm);
/* Permutes [N, C, spatial...] to [N, spatial..., C], or back. */
struct ig_view ig_view_move_channels(const struct ig_view *view, bool to_last);
/* A view with stride 0 along broadcast dims; no reference is taken. Raises if the shapes do not fit. */
struct ig_view ig_view_broadcast(struct ig_eval *ev, const struct ig_view *view, int rank, const int64_t *dims);
char *ig_view_at(const struct ig_view *view, const int64_t *index);
/* make_own makes the view dense and the only user of its block; detach removes such a block from the evaluation, so
 * that its elements belong to the caller; free_detached frees them. */
void ig_eval_make_own(struct ig_eval *ev, struct ig_view *view);
void *ig_eval_detach(struct ig_view *view);
void ig_eval_free_detached(const struct ingot_allocator *allocator, void *data);
/* Frees every block of an evaluation (a struct ig_eval_memory), for ig_defer. */
void ig_eval_free_all(void *memory);
/* Releases the newest temporaries until `keep` are left. */
void ig_eval_drop_temporaries(struct ig_eval *ev, uint32_t keep);

/* ---- eval_move.c: no reference is taken to a view returned */

/* In place if strides allow, else a copy that lives until the current node is done. */
struct ig_view ig_view_shaped(struct ig_eval *ev, const struct ig_view *view, int rank, const int64_t *dims);
/* Restricts an axis to `size` elements from `start` on, every step-th. */
void ig_view_cut(struct ig_eval *ev, struct ig_view *view, int axis, int64_t start, int64_t size, int64_t step);
/* New views with one reference. `value`: what to pad with, a scalar; NULL: zero. */
struct ig_view ig_view_joined(struct ig_eval *ev, const struct ig_view *parts, uint32_t count, int axis);
struct ig_view ig_view_padded(struct ig_eval *ev, const struct ig_view *view, const struct ig_view *value,
                              enum ig_pad_mode mode, const int64_t *before, const int64_t *after);

/* ---- eval_copy.c */

/* Joint iteration over several views of equal dims: axes sorted by the strides of view 0 and merged where all views
 * allow. */
enum { IG_NEST_VIEWS = 4 };
struct ig_nest {
    int rank; /* at least 1 */
    int n;
    int64_t dims[INGOT_MAX_RANK];
    int64_t strides[IG_NEST_VIEWS][INGOT_MAX_RANK]; /* in bytes */
    char *data[IG_NEST_VIEWS];
    int64_t index[INGOT_MAX_RANK];
};
/* False if there are no elements. */
bool ig_nest_begin(struct ig_nest *nest, const struct ig_view *const *views, int n);
/* Advances `data` to the next run along the last axis (dims[rank-1] elements); false after the last. */
bool ig_nest_next(struct ig_nest *nest);

/* Row-major odometer over dims, none of which is 0; false after the last index. */
bool ig_advance(int rank, const int64_t *dims, int64_t *index);

/* Copies elements; equal types and dims, no overlap. */
void ig_view_copy(const struct ig_view *from, const struct ig_view *to);
void ig_view_fill(const struct ig_view *to, const void *element);

/* ---- eval_element.c: rows of cells */

union ig_cell {
    double f;
    int64_t i;
};
/* stride in bytes */
void ig_cells_load(enum ingot_dtype dtype, const void *data, int64_t stride, int64_t count, union ig_cell *out_cells);
void ig_cells_store(enum ingot_dtype dtype, void *data, int64_t stride, int64_t count, const union ig_cell *cells);

/* ---- eval.c */

struct ig_eval *ig_eval_create(struct ig_job *job, struct ig_graph *graph);
void ig_eval_destroy(struct ig_eval *ev);
/* Binds `dim` to a value if it is an unbound symbol, else checks it. False on a contradiction; passes if it cannot be
 * decided yet. */
bool ig_eval_bind(struct ig_eval *ev, ig_dim dim, int64_t value);

/* The value of a symbolic dim in this evaluation. */
int64_t ig_eval_dim(struct ig_eval *ev, ig_dim dim);
/* An attribute of kind DIMS as numbers; raises if there are more than `capacity`. */
int ig_eval_attr_dims(struct ig_eval *ev, const struct ig_attr *attr, int64_t *out_dims, int capacity);
/* Raises an error that the model or its inputs caused. */
_Noreturn void ig_eval_raise(struct ig_eval *ev, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Views of a graph's inputs, checked, by which it binds its symbols; and its outputs, handed to the caller. */
struct ig_view *ig_eval_take_inputs(struct ig_eval *ev, struct ig_graph *graph, const struct ingot_tensor *inputs);
void ig_eval_give_outputs(struct ig_eval *ev, struct ig_view *views, uint32_t count, struct ingot_tensor *out_outputs);

/* ---- eval_walk.c */

/* A walk over the part of a graph that some values depend on; planned once, run any number of times. */
struct ig_walk {
    struct ig_graph *graph;
    uint32_t n_nodes, n_slots, n_wanted;
    ig_node_id *nodes; /* in execution order */
    uint64_t *slot_of; /* by value: generation of the walk << 32 | slot; shared by all walks over the graph */
    uint32_t generation;
    uint32_t *uses; /* by slot */
    const ig_value *wanted;
    uint32_t next;         /* of the current run, in nodes */
    uint32_t *remaining;   /* by slot, of the current run */
    struct ig_view *views; /* by slot, of the current run */
};
/* The walk's memory lives until the current node's temporaries are released, or the evaluation ends. */
void ig_walk_plan(struct ig_eval *ev, struct ig_walk *walk, struct ig_graph *graph, const ig_value *wanted,
                  uint32_t n_wanted);
/* `inputs` are the graph's, borrowed; `out` gets a view with one reference per wanted value. Symbols bound during the
 * walk stay bound. */
void ig_walk_run(struct ig_eval *ev, struct ig_walk *walk, const struct ig_view *inputs, struct ig_view *out);
/* Its parts, for whoever evaluates the collectives of several ranks. advance goes on to the next collective, which it
 * returns with its operand, or to the end (NULL); supply gives a collective's result, with one reference, and goes past it. */
void ig_walk_begin(struct ig_eval *ev, struct ig_walk *walk, const struct ig_view *inputs);
const struct ig_node *ig_walk_advance(struct ig_eval *ev, struct ig_walk *walk, struct ig_view *out_operand);
void ig_walk_supply(struct ig_eval *ev, struct ig_walk *walk, const struct ig_view *result);
void ig_walk_end(struct ig_eval *ev, struct ig_walk *walk, struct ig_view *out);

static inline bool ig_cells_are_float(enum ingot_dtype dtype) {
    return dtype == INGOT_F32 || dtype == INGOT_F16 || dtype == INGOT_BF16 || dtype == INGOT_F64;
}

#endif
