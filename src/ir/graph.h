/*
 * The graph: core operators (ops.def) over values, in topological order.
 *
 * A graph is append-only: a node's inputs exist before it, so the order of nodes is an execution order, and nothing is
 * ever unlinked. A pass reads one graph and appends to a new one (pass/pass.h), which makes every rewrite local; dead
 * code disappears by not being copied. Values and nodes are 32-bit indices. All graphs of a model share one pool of
 * dims and live in the job's arena.
 *
 * Constants are not a phase but a property: a value is constant if all inputs of its (pure) node are. The constant part
 * of a graph *is* the recipe by which weights are computed from the model's initialisers; it is evaluated on demand
 * (ig_const_tensor) and, for weights, when the engine is written.
 */
#ifndef IG_IR_GRAPH_H
#define IG_IR_GRAPH_H

#include "ir/initializer.h"
#include "ir/type.h"

typedef uint32_t ig_value;
typedef uint32_t ig_node_id;
#define IG_NO_VALUE UINT32_MAX
#define IG_NO_NODE UINT32_MAX
#define IG_NO_REGION UINT32_MAX

enum ig_op {
#define IG_MAP(name, ...) IG_OP_##name,
#define IG_OP(name, ...) IG_OP_##name,
#include "ir/ops.def"
    IG_OP_COUNT
};

enum ig_family {
    IG_FAMILY_SOURCE,
    IG_FAMILY_VIEW,
    IG_FAMILY_MAP,
    IG_FAMILY_ROW,
    IG_FAMILY_CONTRACT,
    /* Of regions only, on GPUs: two contractions with a softmax between them, anchored in the last. */
    IG_FAMILY_ATTEND,
    IG_FAMILY_WINDOW,
    IG_FAMILY_SCAN,
    IG_FAMILY_REST,
    IG_FAMILY_CONTROL,
    IG_FAMILY_COLLECTIVE, /* steps of the plan that the group of ranks executes */
    IG_FAMILY_COUNT
};

/* Are regions of that family kernels? Others are steps that the runtime executes by itself. */
static inline bool ig_family_has_kernels(enum ig_family family) {
    return family != IG_FAMILY_CONTROL && family != IG_FAMILY_COLLECTIVE;
}

/* "map", "contract" */
const char *ig_family_name(enum ig_family family);

enum ig_pad_mode { IG_PAD_CONSTANT, IG_PAD_REFLECT, IG_PAD_EDGE, IG_PAD_WRAP };
enum ig_scatter { IG_SCATTER_SET, IG_SCATTER_ADD, IG_SCATTER_MUL, IG_SCATTER_MAX, IG_SCATTER_MIN };
/* Permission to round the operands of an f32 contraction, for kernels that gain by it. */
enum ig_math {
    IG_MATH_EXACT, /* operands are not rounded */
    IG_MATH_TF32,  /* operands rounded to 10 bits of fraction; sums stay in f32 */
    /* Of floats of 8 bits: sums may have as few bits as the tensor cores accumulate them with (docs/precision.md). */
    IG_MATH_FAST,
};
/* Activations of recurrences. */
enum ig_activation {
    IG_ACT_SIGMOID,
    IG_ACT_TANH,
    IG_ACT_RELU,
    IG_ACT_AFFINE,
    IG_ACT_LEAKY_RELU,
    IG_ACT_THRESHOLDED_RELU,
    IG_ACT_SCALED_TANH,
    IG_ACT_HARD_SIGMOID,
    IG_ACT_ELU,
    IG_ACT_SOFTSIGN,
    IG_ACT_SOFTPLUS,
};

/* Every attribute name in ops.def, once. */
#define IG_ATTR_NAMES(A)                                                                                             \
    A(to), A(saturate), A(data), A(values), A(scalar), A(dims), A(axis), A(perm), A(starts), A(sizes), A(steps),     \
        A(before), A(after), A(mode), A(batch_dims), A(reduction), A(axes), A(last), A(exclusive), A(reverse), A(k), \
        A(largest), A(acc), A(packed), A(n), A(strides), A(dilations), A(groups), A(channels_last), A(kernel),       \
        A(column_major), A(count_pad), A(activations), A(clip), A(input_forget), A(alphas), A(betas),                \
        A(linear_before_reset), A(trip), A(carried), A(math), A(border), A(bits), A(block), A(columns), A(offset),   \
        A(number), A(ranks), A(rank), A(parts), A(root)

enum ig_attr_name {
#define IG_ATTR_ENUMERATOR(name) IG_ATTR_##name
    IG_ATTR_NAMES(IG_ATTR_ENUMERATOR),
#undef IG_ATTR_ENUMERATOR
    IG_ATTR_COUNT
};

enum ig_attr_kind {
    IG_KIND_INT,
    IG_KIND_FLOAT,
    IG_KIND_INTS,
    IG_KIND_FLOATS,
    IG_KIND_DIM,
    IG_KIND_DIMS,
    IG_KIND_DTYPE,
    IG_KIND_DATA
};

/* The elements of a constant: row-major, in the model's file or in the arena. Of IG_DATA_LARGE bytes and more they need not
 * be aligned to their type: a file may have them anywhere. ig_const_tensor aligns them. */
enum { IG_DATA_LARGE = 64 << 10 };
struct ig_data {
    const void *bytes;
    size_t size;
    const char *initializer;       /* its ONNX initialiser, for refitting; NULL: part of the model's logic */
    struct ig_initializer *record; /* of the initialiser; NULL in graphs that come from no model */
    uint64_t absent;               /* not 0: hash of data omitted from a text; `bytes` are zeros instead */
};

struct ig_attr {
    enum ig_attr_kind kind;
    int count; /* of INTS, FLOATS, DIMS */
    union {
        int64_t i; /* INT, DTYPE */
        double f;  /* FLOAT */
        const int64_t *ints;
        const double *floats;
        ig_dim dim;
        const ig_dim *dims;
        const struct ig_data *data;
    };
};

/* The element types that an elementwise operator accepts. */
enum ig_operands { IG_OPERANDS_FLOAT, IG_OPERANDS_INT, IG_OPERANDS_NUM, IG_OPERANDS_BOOL, IG_OPERANDS_ANY };

enum { IG_MAX_ATTRS = 12 }; /* per row */

struct ig_op_info {
    const char *name;
    enum ig_family family;
    int min_in, max_in, outputs; /* -1: any */
    int n_attrs;
    struct {
        enum ig_attr_name name;
        enum ig_attr_kind kind;
    } attrs[IG_MAX_ATTRS];
    bool is_map; /* an IG_MAP row; then also: */
    enum ig_operands operands;
    bool result_bool;
};
const struct ig_op_info *ig_op_info(enum ig_op op);
static inline bool ig_op_is_collective(enum ig_op op) {
    return ig_op_info(op)->family == IG_FAMILY_COLLECTIVE;
}
/* Is op(a, b) = op(b, a), to the last bit? */
bool ig_op_commutes(enum ig_op op);
/* IG_OP_COUNT if there is none of that name. */
enum ig_op ig_op_parse(const char *name);
const char *ig_attr_name_text(enum ig_attr_name name);

struct ig_graph;

struct ig_node {
    enum ig_op op;
    uint32_t n_in, n_out;
    const ig_value *in;         /* IG_NO_VALUE: absent optional input */
    ig_value out;               /* the first output; further outputs have the next indices */
    const struct ig_attr *attr; /* one per attribute of the row, in its order */
    struct ig_graph *body[2];
    const char *origin; /* the ONNX node it was made from: "Conv 'conv1'"; may be NULL */
    uint32_t region;    /* set by the fuse pass; IG_NO_REGION: none */
};

struct ig_value_info {
    struct ig_type type;
    ig_node_id node; /* its definition; IG_NO_NODE: an input of the graph */
    bool is_const;
    bool in_memory;         /* kernels read it from memory although it has one element (compile/refit/literals.h) */
    bool is_refittable;     /* constant that depends on a named initialiser: kept as a recipe, never folded */
    const char *name;       /* for people; may be NULL */
    const char *kept;       /* why it is stored in f32 although less was requested; for people; may be NULL */
    const char *as_written; /* why a product with a quantised operand is not one of bytes; for people; may be NULL */
    /* Symbolic contents of an integer or bool value; NULL if unknown. Single elements may be IG_DIM_NONE. */
    const ig_dim *elements;
};

struct ig_port {
    ig_value value;
    const char *name;
    uint32_t updates; /* of an output of the main graph: 1 + the input in whose memory it is stored; 0: none */
};

/* A set of nodes that one kernel computes, in the graph's order. Formed by the fuse pass. */
/* A decision between two ways to divide a graph into regions. */
struct ig_decided {
    ig_value value; /* the view, the results of an attention or a collective, or the rows in front of a product */
    const char *otherwise;  /* the other way, for people: "stored" */
    double proposed, other; /* estimated microseconds of the regions in question */
    bool taken;             /* the other way */
};

struct ig_region {
    enum ig_family family; /* of the kernel: MAP, ROW, CONTRACT, ATTEND, WINDOW, SCAN, REST; or CONTROL, COLLECTIVE */
    ig_node_id anchor;     /* the contraction, window, … that determines the family; for MAP and ROW the last node */
    IG_VEC(ig_node_id) nodes;
    IG_VEC(ig_value) inputs;  /* read from memory, unique; weights included */
    IG_VEC(ig_value) outputs; /* written to memory; the order of both follows from the region alone (canonical.h) */
    /* COLLECTIVE: a region that computes what this one and the next do together, and stores the collective's result only if
     * others read it: a kernel may run in place of both (pass/fuse/exchanges.h). NULL: none. Its nodes belong to them. */
    const struct ig_region *joined;
    /* CONTRACT: its kernel sends each result as soon as it is computed to all of so many ranks, itself too, for the region joined to the
     * collective behind it, which has the same number here and begins before the kernel has ended (compile/shard/agree.h). 0: none. */
    int pushed;
    /* COLLECTIVE that gathers from one rank: 1 + the only other rank that reads it, so that these two exchange it and the others take no
     * part; 0: all do. */
    int reader;
};

/* Two dims that a shape rule assumed equal without proof: a model adds f32[n] to f32[m]. They are checked when the
 * graph (or body) runs with given shapes; otherwise kernels would access memory out of bounds. */
struct ig_dim_pair {
    ig_dim a, b;
};

struct ig_sharding_note;

struct ig_graph {
    struct ig_job *job;
    struct ig_dims *dims;
    IG_VEC(struct ig_node) nodes;
    IG_VEC(struct ig_value_info) values;
    IG_VEC(struct ig_port) inputs; /* in the model's order */
    IG_VEC(struct ig_port) outputs;
    IG_VEC(struct ig_region) regions;       /* empty before the fuse pass; then in an execution order */
    IG_VEC(struct ig_decided) decided;      /* what the fuse pass decided by estimates */
    bool attends;                           /* attentions may become regions; set by the attend pass, preserved by all
                                         others */
    IG_VEC(struct ig_dim_pair) assumptions; /* of this graph, not of its bodies; unique */
    const char *origin;                     /* given to nodes appended from now on */
    struct ig_map *cse;                     /* node contents -> node; see build.h */
    struct ig_const_cache *constants;       /* evaluated small constants */
    struct ig_initializers *initializers;   /* of a model's main graph, as imported; else NULL */
    const struct ig_sharding_note *notes;   /* of the same: how it is divided among devices, as the model says */
    uint32_t n_notes;
};

/* What a model says of a node for so many devices: "PATTERN=HOW" (pass/shard/ask.h), or why that is not understood. */
struct ig_sharding_note {
    const char *ask, *problem;
    unsigned devices;
};

struct ig_graph *ig_graph_create(struct ig_job *job, struct ig_dims *dims);

static inline const struct ig_value_info *ig_info(const struct ig_graph *graph, ig_value value) {
    return &graph->values.at[value];
}
static inline const struct ig_type *ig_type_of(const struct ig_graph *graph, ig_value value) {
    return &graph->values.at[value].type;
}
/* The node that defines value, or NULL for an input of the graph. Valid until a node is appended. */
const struct ig_node *ig_def(const struct ig_graph *graph, ig_value value);
/* The defining node if it is of that op, else NULL. */
const struct ig_node *ig_def_op(const struct ig_graph *graph, ig_value value, enum ig_op op);

/* Attributes by name; raises INGOT_INTERNAL if the operator's row has none of that name. */
const struct ig_attr *ig_attr(const struct ig_graph *graph, const struct ig_node *node, enum ig_attr_name name);
static inline int64_t ig_attr_int(const struct ig_graph *graph, const struct ig_node *node, enum ig_attr_name name) {
    return ig_attr(graph, node, name)->i;
}
/* Is it an all-gather of a value that one rank has? The others' parts are empty. */
bool ig_gathers_from_one(const struct ig_graph *graph, const struct ig_node *node);
int ig_gathers_from(const struct ig_graph *graph, const struct ig_node *node); /* that rank; 0 if all are empty */

void ig_graph_assume_equal(struct ig_graph *graph, ig_dim a, ig_dim b);
/* For a model's main graph: narrows the ranges of symbols by the assumptions (n == min(n, 512): n is at most 512). */
void ig_graph_narrow_symbols(struct ig_graph *graph);

/* Counts the nodes and graph outputs that read each value: an array by value, in the arena. */
uint32_t *ig_graph_use_counts(struct ig_graph *graph);

#endif
