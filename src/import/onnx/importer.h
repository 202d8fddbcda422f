/*
 * Internals of the importer: what the operators' functions work with (one ig_onnx_node each), and the other parts:
 *
 *     wire.c       what comes before unpacking: leaves elements of tensors in the file, refuses excessive nesting
 *     import.c     the model: opsets, inputs, outputs
 *     scope.c      names to values: initialisers, captured values of subgraphs
 *     order.c      sorts nodes topologically
 *     subgraph.c   nodes, bodies of control flow, branches resolved at import
 *     function.c   local functions, inlined
 *     contents.c   which inputs' contents determine shapes
 *     sharding.c   how the model divides nodes among devices
 *     tensor.c     TensorProto to constants; external.c maps their files
 *     attribute.c  attributes and inputs of a node, checked
 *     rational.c   sizes that a model computes in floats
 *     apply.c      operators without a model, one by one
 *     operators.c  the table (operators.def); behind it, in op, a file per family
 */
#ifndef IG_IMPORT_ONNX_IMPORTER_H
#define IG_IMPORT_ONNX_IMPORTER_H

#include "base/map.h"
#include "import/onnx/import.h"
#include "ir/build.h"
#include "onnx.pb-c.h"

/* In a scope: an optional output that the operator's function did not produce. (IG_NO_VALUE: an absent input.) */
#define IG_ONNX_UNMADE (IG_NO_VALUE - 1)
/* In the model's scope: an unsupported input. Only a node that reads it is refused, so that the message names the
 * operator. */
#define IG_ONNX_REFUSED (IG_NO_VALUE - 2)

/* AttributeProto.AttributeType. */
enum {
    IG_ONNX_FLOAT = 1,
    IG_ONNX_INT,
    IG_ONNX_STRING,
    IG_ONNX_TENSOR,
    IG_ONNX_GRAPH,
    IG_ONNX_FLOATS,
    IG_ONNX_INTS,
};

/* Limits on what a small hostile file can expand to. */
enum {
    IG_ONNX_MAX_NESTING = 64,        /* of subgraphs and function calls */
    IG_ONNX_MAX_NODES = 1 << 20,     /* after inlining */
    IG_ONNX_MAX_FORKS = 16,          /* see ig_onnx_fork */
    IG_ONNX_MAX_INPUT_ELEMENTS = 64, /* in integer inputs whose elements become symbols */
};

/* A ModelProto whose tensors have, instead of each `raw_data`, an index into `raw` (uint32_t); with no `raw`: as it was. */
struct ig_onnx_message {
    const uint8_t *data;
    size_t size;
    const ProtobufCBinaryData *raw; /* where they lie */
    uint32_t n_raw;
};

/* State of one import. */
struct ig_onnx {
    struct ig_job *job;
    struct ig_onnx_message message;
    const Onnx__ModelProto *model; /* unpacked from it */
    const char *folder;            /* may be NULL */
    bool missing_weights;          /* initialisers without data are zeros */
    struct ig_dims *dims;
    struct ig_map functions; /* key (see function.c) -> index in model->functions */
    struct ig_map plain;     /* names of inputs whose elements do not become symbols */
    struct ig_map refused;   /* name of an unsupported input -> index in refusals */
    IG_VEC(const char *) refusals;
    struct ig_initializers *initializers;
    struct ig_map records; /* address of an initialiser's TensorProto -> index in initializers */
    struct ig_onnx_file *files;
    int node_opset; /* of nodes without a model (apply.h) */
    int nesting;
    int forks;
    uint32_t nodes;
    int64_t collectives; /* so far */
};

/* The attributes of the call being inlined, which ref_attr_name refers to. */
struct ig_onnx_frame {
    const Onnx__AttributeProto **attributes; /* resolved: none of them is itself a reference */
    const char **names;
    size_t count;
};

/* Outer values that a body of control flow (or both bodies of an If) reads, in the order of their first use. */
struct ig_onnx_captures {
    IG_VEC(ig_value) outer;
    struct ig_map known; /* the same, as a set */
};
void ig_onnx_captures_init(struct ig_onnx_captures *captures, struct ig_job *job);

/*
 * The names of one graph, subgraph or function body. A subgraph that becomes a body has its own graph and captures; one
 * that is imported in place (a branch known to be taken) appends to its outer scope's graph.
 */
struct ig_onnx_scope {
    struct ig_onnx *import;
    struct ig_onnx_scope *outer; /* enclosing scope, whose names are visible too; NULL for models and functions */
    struct ig_graph *graph;
    struct ig_map values;          /* name -> ig_value; IG_ONNX_UNMADE: an optional output that was not produced */
    struct ig_map initializers;    /* name -> index into proto->initializer */
    struct ig_map sparse;          /* name -> index into proto->sparse_initializer */
    const Onnx__GraphProto *proto; /* NULL for function bodies */
    size_t n_opsets;
    Onnx__OperatorSetIdProto **opsets;
    const struct ig_onnx_frame *frame; /* NULL outside of functions */
    struct ig_onnx_captures *captures; /* of the body; NULL if imported in place */
    struct ig_map captured;            /* outer value -> value here */
    Onnx__NodeProto **nodes;           /* nodes being imported; the current one is nodes[order[position]] */
    const uint32_t *order;
    uint32_t n_order, position;
    struct ig_onnx_scope *taken; /* the branch that continues this scope; see ig_onnx_fork */
};

struct ig_onnx_op;

/* A node being imported. */
struct ig_onnx_node {
    struct ig_onnx *import;
    struct ig_onnx_scope *scope;
    struct ig_job *job;
    struct ig_dims *dims;
    struct ig_graph *g;
    const Onnx__NodeProto *proto;
    const struct ig_onnx_op *op;
    int64_t opset;
    uint32_t n_in, n_out;
    ig_value *in;  /* IG_NO_VALUE if absent */
    ig_value *out; /* the function returns the first and sets the others */
};

/* Reductions composed of a core reduction and elementwise work around it. */
enum ig_onnx_reduction { IG_SUM_ABS, IG_SUM_SQUARES, IG_SUM_L2, IG_LOG_SUM, IG_LOG_SUM_EXP };

typedef ig_value (*ig_onnx_fn)(struct ig_onnx_node *n);

/* A row of the table: the function for `name` from opset `since` up to the next row of that name. */
struct ig_onnx_op {
    const char *domain, *name;
    int since;
    ig_onnx_fn import;
    int arg; /* parameter of the function, usually a core operator */
};
/* NULL if there is none. */
const struct ig_onnx_op *ig_onnx_find_op(const char *domain, const char *name, int64_t opset);
/* The newest opset that gave an operator the meaning that it has here. */
int ig_onnx_newest_opset(void);

#define IG_ONNX(domain, op, since, function, arg) ig_value ig_import_##function(struct ig_onnx_node *n);
#include "import/onnx/operators.def"
#undef IG_ONNX

/* ---- Unpacking */

/* Cuts them out of a ModelProto, which must live as long as they are used, unless it is malformed. Raises if subgraphs are
 * nested deeper than IG_ONNX_MAX_NESTING. */
struct ig_onnx_message ig_onnx_cut(struct ig_job *job, const uint8_t *data, size_t size);

/* ---- Scopes */

void ig_onnx_scope_init(struct ig_onnx_scope *scope, struct ig_onnx *import, struct ig_graph *graph,
                        struct ig_onnx_scope *outer, const Onnx__GraphProto *proto);
void ig_onnx_bind(struct ig_onnx_scope *scope, const char *name, ig_value value);
/* Raises if no such name is visible. */
ig_value ig_onnx_lookup(struct ig_onnx_scope *scope, const char *name);
bool ig_onnx_is_initializer(const struct ig_onnx_scope *scope, const char *name);
/* The value in scope's graph that stands for a value of the outer scope's graph; captures it if needed. */
ig_value ig_onnx_capture(struct ig_onnx_scope *scope, ig_value outer);
/* The opset of a domain in this scope; 0 if it is not imported. */
int64_t ig_onnx_opset(const struct ig_onnx_scope *scope, const char *domain);

/* Finds the inputs whose elements are symbols although no shape depends on them, and adds their names; false if there
 * are none. */
bool ig_onnx_find_plain_inputs(struct ig_graph *graph, struct ig_map *out_plain);

/* The integer attribute of that name. */
int64_t ig_onnx_proto_int(const Onnx__NodeProto *node, const char *name, int64_t otherwise);
/* Notes in the graph how the model's nodes are divided among devices. */
void ig_onnx_read_sharding(struct ig_onnx_scope *scope);

/* ---- Nodes and subgraphs */

/* Imports a node whose inputs and number of outputs are set: fills its outputs. */
void ig_onnx_import_operator(struct ig_onnx_node *n);
/* The indices of the nodes that `outputs` depend on, in topological order; raises on a cycle. */
uint32_t *ig_onnx_order(struct ig_onnx *import, Onnx__NodeProto **nodes, size_t n_nodes, char **outputs,
                        size_t n_outputs, uint32_t *out_count);
void ig_onnx_import_nodes(struct ig_onnx_scope *scope, Onnx__NodeProto **nodes, size_t n_nodes, char **outputs,
                          size_t n_outputs);
/* Imports the nodes of scope->proto that its outputs depend on. */
void ig_onnx_import_graph(struct ig_onnx_scope *scope);
ig_value ig_onnx_graph_output(struct ig_onnx_scope *scope, size_t index);
/* Imports `proto`, which has no inputs, into the node's own graph; fills out_values (one per output). */
void ig_onnx_import_inline(struct ig_onnx_node *n, const Onnx__GraphProto *proto, ig_value *out_values);
/*
 * For an If whose branches cannot be merged (their ranks differ) and whose condition is unknown: takes the branch with
 * which the rest of the graph imports, if there is exactly one; else returns false.
 */
bool ig_onnx_fork(struct ig_onnx_node *n, const Onnx__GraphProto *branches[2]);

/* The local function that a node calls, or NULL. */
const Onnx__FunctionProto *ig_onnx_find_function(const struct ig_onnx *import, const Onnx__NodeProto *node);
void ig_onnx_register_functions(struct ig_onnx *import);
void ig_onnx_inline_function(struct ig_onnx_node *n, const Onnx__FunctionProto *function);

/* Raises if function calls and subgraphs are nested too deeply; pairs with ig_onnx_leave. */
void ig_onnx_enter(struct ig_onnx *import);
void ig_onnx_leave(struct ig_onnx *import);

/* ---- Tensors */

/* The name of a type that ONNX has and Ingot has not; NULL for all others. */
const char *ig_onnx_unsupported_type(int64_t data_type);
/* Converts ONNX's TensorProto.DataType; raises if Ingot has no such type. `what` names the tensor in the message:
 * "tensor 'w'". */
enum ingot_dtype ig_onnx_dtype(struct ig_job *job, int64_t data_type, const char *what);
/* The inverse. */
int32_t ig_onnx_data_type(enum ingot_dtype dtype);
ig_value ig_onnx_constant(struct ig_onnx *import, struct ig_graph *g, const Onnx__TensorProto *tensor,
                          const char *initializer);
ig_value ig_onnx_sparse_constant(struct ig_onnx *import, struct ig_graph *g, const Onnx__SparseTensorProto *tensor,
                                 const char *initializer);
/* Lists the initialisers of the graph and of its nodes' bodies. */
void ig_onnx_read_initializers(struct ig_onnx *import, const Onnx__GraphProto *graph);
/* Lists an initialiser that no node has used. */
void ig_onnx_add_unused(struct ig_onnx *import, const Onnx__TensorProto *proto, size_t rank, const int64_t *dims);
/* The bytes of a tensor stored in another file. */
const void *ig_onnx_external(struct ig_onnx *import, const Onnx__TensorProto *tensor, size_t size);
void ig_onnx_release_files(void *import);

/* ---- Attributes (attribute.c): absent ones have a default, a wrong type raises */

const Onnx__AttributeProto *ig_onnx_attr(const struct ig_onnx_node *n, const char *name);
int64_t ig_onnx_int(const struct ig_onnx_node *n, const char *name, int64_t otherwise);
bool ig_onnx_flag(const struct ig_onnx_node *n, const char *name, bool otherwise);
double ig_onnx_float(const struct ig_onnx_node *n, const char *name, double otherwise);
const char *ig_onnx_string(const struct ig_onnx_node *n, const char *name, const char *otherwise);
/* NULL and 0 if absent. */
const int64_t *ig_onnx_ints(const struct ig_onnx_node *n, const char *name, int *out_count);
const float *ig_onnx_floats(const struct ig_onnx_node *n, const char *name, int *out_count);
/* Exactly `count` values; if absent, all are `otherwise`. */
void ig_onnx_ints_of(const struct ig_onnx_node *n, const char *name, int count, int64_t otherwise, int64_t *out);
const Onnx__GraphProto *ig_onnx_graph_attr(const struct ig_onnx_node *n, const char *name);
/* The index of the attribute's string among the n_choices; raises if it is none of them. */
int ig_onnx_choice(const struct ig_onnx_node *n, const char *name, const char *const *choices, int n_choices,
                   int otherwise);
_Noreturn void ig_onnx_refuse(const struct ig_onnx_node *n, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* INGOT_UNSUPPORTED */
_Noreturn void ig_onnx_bad(const struct ig_onnx_node *n, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* INGOT_BAD_MODEL */

/* ---- Inputs */

bool ig_onnx_has(const struct ig_onnx_node *n, uint32_t input);
ig_value ig_onnx_in(const struct ig_onnx_node *n, uint32_t input);       /* raises if absent */
ig_value ig_onnx_optional(const struct ig_onnx_node *n, uint32_t input); /* IG_NO_VALUE if absent */
bool ig_onnx_wants(const struct ig_onnx_node *n, uint32_t output);       /* is the output named? */
enum ingot_dtype ig_onnx_type(const struct ig_onnx_node *n, ig_value value);
int ig_onnx_rank(const struct ig_onnx_node *n, ig_value value);
/* Raises unless lo <= rank <= hi; `what` as in "input 0". */
void ig_onnx_check_rank(const struct ig_onnx_node *n, ig_value value, int lo, int hi, const char *what);
void ig_onnx_check_same_type(const struct ig_onnx_node *n, ig_value a, ig_value b);
ig_dim ig_onnx_dim(const struct ig_onnx_node *n, ig_value value, int axis);
const ig_dim *ig_onnx_dims_of(const struct ig_onnx_node *n, ig_value value); /* valid until a node is appended */
/* A dim that must be constant. */
int64_t ig_onnx_static_dim(const struct ig_onnx_node *n, ig_value value, int axis, const char *what);
/* Maps -rank <= axis < rank to 0 <= axis < rank; raises for others. */
int ig_onnx_axis(const struct ig_onnx_node *n, int64_t axis, int rank);
/* Axes from attribute "axes" or, if `input` is not negative and that input is present, from there; sorted and unique.
 * Returns their number, or -1 if neither is given. */
int ig_onnx_axes(const struct ig_onnx_node *n, int input, int rank, int64_t *out_axes);
/* The symbolic elements of an integer input that determines shapes. Raises if they depend on data. */
const ig_dim *ig_onnx_elements(const struct ig_onnx_node *n, uint32_t input, const char *what, int *out_count);
ig_dim ig_onnx_element(const struct ig_onnx_node *n, uint32_t input, const char *what); /* exactly one */
/* The same for constants. */
void ig_onnx_const_ints(const struct ig_onnx_node *n, uint32_t input, const char *what, int64_t *out, int capacity,
                        int *out_count);
double ig_onnx_const_scalar(const struct ig_onnx_node *n, uint32_t input, const char *what, double otherwise);
/* Constant floats; NULL if the input is absent or empty. */
const double *ig_onnx_const_floats(const struct ig_onnx_node *n, uint32_t input, const char *what, int *out_count);

/* ---- Sizes computed in floats (rational.c) */

enum { IG_ONNX_MAX_RATIOS = 8 };
/* The elements of a small float vector, truncated; true if they are known functions of the dims. */
bool ig_onnx_truncate(struct ig_onnx_node *n, ig_value value, ig_dim *out_elements, int *out_count);
/* floor(dims[i] * scales[i]) */
bool ig_onnx_scale_dims(struct ig_onnx_node *n, ig_value scales, const ig_dim *dims, int count, ig_dim *out_dims);
/* ceil((limit - start) / delta) of floats that are not all constants; true if it is a known function of the dims. */
bool ig_onnx_range_size(struct ig_onnx_node *n, ig_value start, ig_value limit, ig_value delta, ig_dim *out_size);
/* The simplest fraction that rounds to `value` as a float; false if there is no simple one. */
bool ig_onnx_simplest_fraction(double value, int64_t *out_num, int64_t *out_den);

/* ---- Values */

/* Composed operators compute f16 and bf16 in f32: widen, compose, and cast back to the operand's type. */
ig_value ig_onnx_wide(const struct ig_onnx_node *n, ig_value value);
/* Reshapes a vector to lie along `axis` of a tensor of `rank`: [1,…,c,…,1]. */
ig_value ig_onnx_along(const struct ig_onnx_node *n, ig_value value, int axis, int rank);
/* A tensor filled with zeros (or another scalar) of the given type. */
ig_value ig_onnx_full(const struct ig_onnx_node *n, enum ingot_dtype dtype, double value, const ig_dim *dims, int rank);
ig_value ig_onnx_reverse(const struct ig_onnx_node *n, ig_value value, int axis); /* reverses the order along an axis */

/* Gives initialisers the names of PyTorch's parameters that they are made of, where the model tells them. */
void ig_onnx_name_parameters(struct ig_initializers *all, const Onnx__GraphProto *graph);

#endif
