/*
 * The part of ingot.h that makes models by code instead of from a file. Include ingot.h, which includes this.
 *
 *     ingot_network_create --> network --input, weight, add, output--> network --ingot_network_finish--> model
 *
 * A network grows value by value. An operator is one of Ingot's core operators ("matmul", "reduce_sum": docs/ir.md), or one
 * of ONNX's ("Conv": docs/operators.md), which becomes core operators as in an imported file. The
 * model is what ingot_model_load would have made; everything that is done with models can be done with it.
 *
 * A call that fails leaves the network as it was, so that a caller may try. A network may be used by one thread at a time.
 */
#ifndef INGOT_NETWORK_H
#define INGOT_NETWORK_H

#ifndef INGOT_INGOT_H
#error "include ingot/ingot.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct ingot_network;

/* A tensor in a network: its number. */
typedef uint32_t ingot_value;
#define INGOT_NO_VALUE UINT32_MAX /* an optional input that is left out */

/* Where in the caller's program a call stands, for `source`: "mlp.c:31". */
#define INGOT_HERE INGOT_HERE_AT(__FILE__, __LINE__)
#define INGOT_HERE_AT(file, line) INGOT_HERE_TEXT(file, line)
#define INGOT_HERE_TEXT(file, line) file ":" #line

struct ingot_network_options {
    size_t struct_size;
    const struct ingot_allocator *allocator; /* borrowed for the network's and its model's life */
    int onnx_opset;                          /* which ONNX's operators have their meaning of; 0: the newest known */
};
#define INGOT_NETWORK_OPTIONS_INIT \
    { sizeof(struct ingot_network_options), NULL, 0 }

INGOT_API enum ingot_status ingot_network_create(const struct ingot_network_options *options,
                                                 struct ingot_network **out_network, struct ingot_error *error);
/* NULL does nothing. */
INGOT_API void ingot_network_destroy(struct ingot_network *network);

/*
 * Adds an input. Each of the `rank` texts in `dims` is a number ("3"), a symbol ("batch"), or an expression of symbols
 * ("2*seq+1": + - * and the functions floor, mod, min, max of docs/ir.md). Symbols range from 0 to 2^31-1, unless
 * ingot_network_set_range says otherwise.
 */
INGOT_API enum ingot_status ingot_network_input(struct ingot_network *network, const char *name, enum ingot_dtype dtype,
                                                int rank, const char *const *dims, ingot_value *out_value,
                                                struct ingot_error *error);
/* Adds an input i64[] whose value is the symbol: for sizes that the dims of no input tell. */
INGOT_API enum ingot_status ingot_network_size_input(struct ingot_network *network, const char *name,
                                                     const char *symbol, ingot_value *out_value,
                                                     struct ingot_error *error);
/* Promises lo <= symbol <= hi, which inputs are checked for at run time. A later promise narrows an earlier one. */
INGOT_API enum ingot_status ingot_network_set_range(struct ingot_network *network, const char *symbol, int64_t lo,
                                                    int64_t hi, struct ingot_error *error);

/*
 * Adds a weight: a tensor in host memory that refitting may replace, by this name, which no other weight has. The data are
 * borrowed, and must stay as they are until the model is destroyed, unless `copy`.
 */
INGOT_API enum ingot_status ingot_network_weight(struct ingot_network *network, const char *name,
                                                 const struct ingot_tensor *tensor, bool copy, ingot_value *out_value,
                                                 struct ingot_error *error);
/* Adds a tensor that belongs to the network's logic. The data are copied. */
INGOT_API enum ingot_status ingot_network_constant(struct ingot_network *network, const struct ingot_tensor *tensor,
                                                   ingot_value *out_value, struct ingot_error *error);

enum ingot_attribute_kind {
    INGOT_ATTRIBUTE_INT = 1, /* i; switches too: 0 or 1 */
    INGOT_ATTRIBUTE_FLOAT,   /* f */
    INGOT_ATTRIBUTE_STRING,  /* string; of ONNX's operators alone */
    INGOT_ATTRIBUTE_INTS,    /* ints */
    INGOT_ATTRIBUTE_FLOATS,  /* floats */
    INGOT_ATTRIBUTE_DIMS,    /* dims: texts as for ingot_network_input; of core operators alone; one for a single dim */
    INGOT_ATTRIBUTE_DTYPE,   /* dtype; ONNX's operators get their own number of it */
    INGOT_ATTRIBUTE_TENSOR,  /* tensor; copied */
    INGOT_ATTRIBUTE_BODY,    /* body: made by ingot_network_create_body; of core operators "if" and "loop" alone */
};
struct ingot_attribute {
    const char *name;
    enum ingot_attribute_kind kind;
    size_t count; /* of a list; else 0 */
    union {
        int64_t i;
        double f;
        const char *string;
        const int64_t *ints;
        const double *floats;
        const char *const *dims;
        enum ingot_dtype dtype;
        const struct ingot_tensor *tensor;
        struct ingot_network *body;
    };
};

struct ingot_operator {
    const char *name;
    const ingot_value *inputs;
    size_t n_inputs;
    /* In any order. What is left out of a core operator has its natural value: steps, strides and dilations 1, groups 1,
     * paddings and switches 0; what has none must be given. */
    const struct ingot_attribute *attributes;
    size_t n_attributes;
    const char *label;  /* for messages, patterns and explanations: "layer1.0.conv1"; NULL: none */
    const char *source; /* for messages: INGOT_HERE, or a line of the program that is translated; NULL: none */
};
/*
 * Adds an operator; `out_values` gets `n_outputs` values, which must be as many as it has, or fewer for ONNX's operators whose last
 * outputs are optional. INGOT_BAD_MODEL with label, source, operator and shapes if these do not fit, INGOT_UNSUPPORTED if there
 * is no such operator, or not for these types and attributes.
 */
INGOT_API enum ingot_status ingot_network_add(struct ingot_network *network, const struct ingot_operator *op,
                                              ingot_value *out_values, size_t n_outputs, struct ingot_error *error);

/* The value's type and dims; the name is "" if it has none. Strings live as long as the network and its model. */
INGOT_API enum ingot_status ingot_network_describe(struct ingot_network *network, ingot_value value,
                                                   struct ingot_tensor_info *out_info, struct ingot_error *error);

/* Makes a value an output. A value may be several outputs. */
INGOT_API enum ingot_status ingot_network_output(struct ingot_network *network, const char *name, ingot_value value,
                                                 struct ingot_error *error);

/*
 * Makes `value` an output that is stored in the memory of `input`, when the run has read that: a decoder's cache, or any other
 * state. These come behind the other outputs of the model. Both have the same type and dims, and an input is updated at most once. A scatter into the input that nothing else reads
 * touches nothing but the elements that it writes; other values are copied there at the end of the run.
 */
INGOT_API enum ingot_status ingot_network_update(struct ingot_network *network, const char *name, ingot_value input,
                                                 ingot_value value, struct ingot_error *error);

/*
 * A body of control flow: a network of its own inputs, in which the symbols of `outer` mean the same. It lives as long as `outer`, and is
 * given to one "if" or "loop" of it when its outputs are complete. Bodies see nothing of `outer` but what is passed to
 * their inputs (docs/ir.md has these operators' rules).
 */
INGOT_API enum ingot_status ingot_network_create_body(struct ingot_network *outer, struct ingot_network **out_body,
                                                      struct ingot_error *error);

/* Makes the model and destroys the network. INGOT_INVALID_ARGUMENT if it has no outputs; then, as after any failure, the network
 * is as it was. */
INGOT_API enum ingot_status ingot_network_finish(struct ingot_network *network, struct ingot_model **out_model,
                                                 struct ingot_error *error);

#ifdef __cplusplus
}
#endif
#endif
