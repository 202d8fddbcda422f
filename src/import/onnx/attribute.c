/* Attributes and inputs of a node, with every assumption checked, so that the operators' functions read like their
 * definitions. */
#include "import/onnx/importer.h"

#include <stdio.h>
#include <string.h>

#include "ir/eval/eval.h"

static const char *const kind_names[] = {"undefined", "a float", "an integer", "a string",
                                         "a tensor",  "a graph", "floats",     "integers"};

static _Noreturn void raise(const struct ig_onnx_node *n, enum ingot_status status, const char *format, va_list list) {
    char message[INGOT_ERROR_MESSAGE_SIZE];
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    ig_raise(n->job, status, "%s", message);
}

void ig_onnx_refuse(const struct ig_onnx_node *n, const char *format, ...) {
    va_list list;
    va_start(list, format);
    raise(n, INGOT_UNSUPPORTED, format, list);
}

void ig_onnx_bad(const struct ig_onnx_node *n, const char *format, ...) {
    va_list list;
    va_start(list, format);
    raise(n, INGOT_BAD_MODEL, format, list);
}

/* ---- Attributes ---- */

/* Resolves a reference to an attribute of the enclosing function; NULL if the call does not give it. */
static const Onnx__AttributeProto *resolve(const struct ig_onnx_node *n, const Onnx__AttributeProto *attribute) {
    const struct ig_onnx_frame *frame = n->scope->frame;
    if (!attribute->ref_attr_name || !*attribute->ref_attr_name) return attribute;
    if (!frame)
        ig_onnx_bad(n, "attribute '%s' refers to '%s' outside of a function", attribute->name ? attribute->name : "",
                    attribute->ref_attr_name);
    for (size_t i = 0; i < frame->count; i++) {
        if (strcmp(frame->names[i], attribute->ref_attr_name) == 0) return frame->attributes[i];
    }
    return NULL;
}

const Onnx__AttributeProto *ig_onnx_attr(const struct ig_onnx_node *n, const char *name) {
    for (size_t i = 0; i < n->proto->n_attribute; i++) {
        const Onnx__AttributeProto *attribute = n->proto->attribute[i];
        if (attribute->name && strcmp(attribute->name, name) == 0) return resolve(n, attribute);
    }
    return NULL;
}

static const Onnx__AttributeProto *attr_of_kind(const struct ig_onnx_node *n, const char *name, int kind) {
    const Onnx__AttributeProto *attribute = ig_onnx_attr(n, name);
    if (!attribute || !attribute->has_type || attribute->type == kind || attribute->type == 0) return attribute;
    ig_onnx_bad(n, "attribute '%s' is not %s", name, kind_names[kind]);
}

int64_t ig_onnx_int(const struct ig_onnx_node *n, const char *name, int64_t otherwise) {
    const Onnx__AttributeProto *attribute = attr_of_kind(n, name, IG_ONNX_INT);
    return attribute ? attribute->i : otherwise;
}

bool ig_onnx_flag(const struct ig_onnx_node *n, const char *name, bool otherwise) {
    return ig_onnx_int(n, name, otherwise) != 0;
}

double ig_onnx_float(const struct ig_onnx_node *n, const char *name, double otherwise) {
    const Onnx__AttributeProto *attribute = attr_of_kind(n, name, IG_ONNX_FLOAT);
    return attribute ? (double)attribute->f : otherwise;
}

const char *ig_onnx_string(const struct ig_onnx_node *n, const char *name, const char *otherwise) {
    const Onnx__AttributeProto *attribute = attr_of_kind(n, name, IG_ONNX_STRING);
    if (!attribute) return otherwise;
    return attribute->s.len ? ig_strndup(n->job, (const char *)attribute->s.data, attribute->s.len) : "";
}

const int64_t *ig_onnx_ints(const struct ig_onnx_node *n, const char *name, int *out_count) {
    const Onnx__AttributeProto *attribute = attr_of_kind(n, name, IG_ONNX_INTS);
    *out_count = 0;
    if (!attribute) return NULL;
    if (attribute->n_ints > INT32_MAX) ig_onnx_bad(n, "attribute '%s' is too long", name);
    *out_count = (int)attribute->n_ints;
    /* Not NULL: an empty list is a list. */
    return attribute->n_ints ? attribute->ints : ig_alloc(n->job, sizeof(int64_t));
}

const float *ig_onnx_floats(const struct ig_onnx_node *n, const char *name, int *out_count) {
    const Onnx__AttributeProto *attribute = attr_of_kind(n, name, IG_ONNX_FLOATS);
    *out_count = 0;
    if (!attribute) return NULL;
    if (attribute->n_floats > INT32_MAX) ig_onnx_bad(n, "attribute '%s' is too long", name);
    *out_count = (int)attribute->n_floats;
    return attribute->n_floats ? attribute->floats : ig_alloc(n->job, sizeof(float));
}

void ig_onnx_ints_of(const struct ig_onnx_node *n, const char *name, int count, int64_t otherwise, int64_t *out) {
    int there;
    const int64_t *ints = ig_onnx_ints(n, name, &there);
    if (ints && there != count) ig_onnx_bad(n, "attribute '%s' has %d values, expected %d", name, there, count);
    for (int i = 0; i < count; i++)
        out[i] = ints ? ints[i] : otherwise;
}

const Onnx__GraphProto *ig_onnx_graph_attr(const struct ig_onnx_node *n, const char *name) {
    const Onnx__AttributeProto *attribute = attr_of_kind(n, name, IG_ONNX_GRAPH);
    if (!attribute || !attribute->g) ig_onnx_bad(n, "attribute '%s' is missing", name);
    return attribute->g;
}

int ig_onnx_choice(const struct ig_onnx_node *n, const char *name, const char *const *choices, int n_choices,
                   int otherwise) {
    const char *text = ig_onnx_string(n, name, NULL);
    if (!text) return otherwise;
    for (int i = 0; i < n_choices; i++) {
        if (strcmp(text, choices[i]) == 0) return i;
    }
    ig_onnx_refuse(n, "attribute '%s' is '%.60s', which is not supported", name, text);
}

/* ---- Inputs and outputs ---- */

bool ig_onnx_has(const struct ig_onnx_node *n, uint32_t input) {
    return input < n->n_in && n->in[input] != IG_NO_VALUE;
}

ig_value ig_onnx_in(const struct ig_onnx_node *n, uint32_t input) {
    if (!ig_onnx_has(n, input)) ig_onnx_bad(n, "input %u is missing", input);
    return n->in[input];
}

ig_value ig_onnx_optional(const struct ig_onnx_node *n, uint32_t input) {
    return ig_onnx_has(n, input) ? n->in[input] : IG_NO_VALUE;
}

bool ig_onnx_wants(const struct ig_onnx_node *n, uint32_t output) {
    return output < n->n_out && *n->proto->output[output];
}

enum ingot_dtype ig_onnx_type(const struct ig_onnx_node *n, ig_value value) {
    return ig_type_of(n->g, value)->dtype;
}

int ig_onnx_rank(const struct ig_onnx_node *n, ig_value value) {
    return ig_type_of(n->g, value)->rank;
}

void ig_onnx_check_rank(const struct ig_onnx_node *n, ig_value value, int lo, int hi, const char *what) {
    int rank = ig_onnx_rank(n, value);
    if (rank < lo || (hi == lo && rank != lo)) {
        ig_onnx_bad(n, "%s has rank %d, expected %s%d", what, rank, hi == lo ? "" : "at least ", lo);
    }
    if (rank > hi) ig_onnx_refuse(n, "%s has rank %d, at most %d is supported", what, rank, hi);
}

void ig_onnx_check_same_type(const struct ig_onnx_node *n, ig_value a, ig_value b) {
    enum ingot_dtype x = ig_onnx_type(n, a), y = ig_onnx_type(n, b);
    if (x != y) ig_onnx_bad(n, "inputs have types %s and %s", ingot_dtype_name(x), ingot_dtype_name(y));
}

ig_dim ig_onnx_dim(const struct ig_onnx_node *n, ig_value value, int axis) {
    return ig_type_of(n->g, value)->dim[axis];
}

const ig_dim *ig_onnx_dims_of(const struct ig_onnx_node *n, ig_value value) {
    return ig_type_of(n->g, value)->dim;
}

int64_t ig_onnx_static_dim(const struct ig_onnx_node *n, ig_value value, int axis, const char *what) {
    int64_t size;
    ig_dim dim = ig_onnx_dim(n, value, axis);
    if (!ig_dim_is_const(n->dims, dim, &size)) {
        ig_onnx_refuse(n, "%s is %s, it must be known at build time", what, ig_dim_text(n->dims, dim));
    }
    return size;
}

/* ---- Axes ---- */

int ig_onnx_axis(const struct ig_onnx_node *n, int64_t axis, int rank) {
    if (axis < -rank || axis >= rank) ig_onnx_bad(n, "axis %lld is out of range for rank %d", (long long)axis, rank);
    return (int)(axis < 0 ? axis + rank : axis);
}

int ig_onnx_axes(const struct ig_onnx_node *n, int input, int rank, int64_t *out_axes) {
    int64_t buffer[INGOT_MAX_RANK];
    int count;
    const int64_t *axes = buffer;
    if (input >= 0 && ig_onnx_has(n, (uint32_t)input)) {
        ig_onnx_const_ints(n, (uint32_t)input, "axes", buffer, INGOT_MAX_RANK, &count);
    } else {
        axes = ig_onnx_ints(n, "axes", &count);
        if (!axes) return -1;
    }
    bool chosen[INGOT_MAX_RANK] = {false};
    for (int i = 0; i < count; i++) {
        int axis = ig_onnx_axis(n, axes[i], rank);
        if (chosen[axis]) ig_onnx_bad(n, "axis %d is given twice", axis);
        chosen[axis] = true;
    }
    count = 0;
    for (int axis = 0; axis < rank; axis++) {
        if (chosen[axis]) out_axes[count++] = axis;
    }
    return count;
}

/* ---- Contents of inputs ---- */

const ig_dim *ig_onnx_elements(const struct ig_onnx_node *n, uint32_t input, const char *what, int *out_count) {
    const ig_dim *elements;
    ig_value value = ig_onnx_in(n, input);
    if (!ig_dtype_is_integer(ig_onnx_type(n, value))) {
        ig_onnx_bad(n, "input '%s' is of type %s, expected integers", what, ingot_dtype_name(ig_onnx_type(n, value)));
    }
    if (!ig_elements(n->g, value, &elements, out_count)) {
        ig_onnx_refuse(n, "input '%s' depends on data that are known only during a run", what);
    }
    return elements;
}

ig_dim ig_onnx_element(const struct ig_onnx_node *n, uint32_t input, const char *what) {
    int count;
    const ig_dim *elements = ig_onnx_elements(n, input, what, &count);
    if (count != 1) ig_onnx_bad(n, "input '%s' has %d elements, expected 1", what, count);
    return elements[0];
}

void ig_onnx_const_ints(const struct ig_onnx_node *n, uint32_t input, const char *what, int64_t *out, int capacity,
                        int *out_count) {
    const ig_dim *elements;
    int count = 0;
    ig_value value = ig_onnx_in(n, input);
    if (ig_const_ints(n->g, value, out, capacity, out_count)) return;
    if (ig_elements(n->g, value, &elements, &count) && count <= capacity) {
        int known = 0;
        while (known < count && ig_dim_is_const(n->dims, elements[known], &out[known]))
            known++;
        *out_count = count;
        if (known == count) return;
    }
    if (count > capacity) ig_onnx_bad(n, "input '%s' has %d elements, at most %d are expected", what, count, capacity);
    ig_onnx_refuse(n, "input '%s' must be a constant of at most %d integers", what, capacity);
}

const double *ig_onnx_const_floats(const struct ig_onnx_node *n, uint32_t input, const char *what, int *out_count) {
    *out_count = 0;
    if (!ig_onnx_has(n, input)) return NULL;
    ig_value value = n->in[input];
    if (!ig_info(n->g, value)->is_const) ig_onnx_refuse(n, "input '%s' must be a constant", what);
    struct ingot_tensor tensor = ig_const_tensor(n->g, value);
    int64_t count = ingot_tensor_elements(&tensor);
    double *floats = count > 0 && count <= 64 ? IG_NEW_ARRAY(n->job, double, (size_t)count) : NULL;
    for (int64_t i = 0; floats && i < count; i++)
        floats[i] = ig_load_f64(tensor.dtype, tensor.data, i);
    ig_const_release(n->g, value, &tensor);
    if (count > 64) ig_onnx_bad(n, "input '%s' has %lld elements", what, (long long)count);
    *out_count = (int)count;
    return floats;
}

double ig_onnx_const_scalar(const struct ig_onnx_node *n, uint32_t input, const char *what, double otherwise) {
    double value;
    if (!ig_onnx_has(n, input)) return otherwise;
    if (!ig_const_scalar(n->g, n->in[input], &value)) ig_onnx_refuse(n, "input '%s' must be a constant scalar", what);
    return value;
}

/* ---- Values ---- */

ig_value ig_onnx_wide(const struct ig_onnx_node *n, ig_value value) {
    return ig_build_cast(n->g, value, ig_dtype_compute(ig_onnx_type(n, value)));
}

ig_value ig_onnx_along(const struct ig_onnx_node *n, ig_value value, int axis, int rank) {
    ig_dim dims[INGOT_MAX_RANK];
    ig_onnx_check_rank(n, value, 1, 1, "a vector");
    for (int i = 0; i < rank; i++)
        dims[i] = ig_dim_const(n->dims, 1);
    dims[axis] = ig_onnx_dim(n, value, 0);
    return ig_build_reshape(n->g, value, dims, rank);
}

ig_value ig_onnx_full(const struct ig_onnx_node *n, enum ingot_dtype dtype, double value, const ig_dim *dims,
                      int rank) {
    return ig_build_broadcast(n->g, ig_build_scalar(n->g, dtype, value), dims, rank);
}

ig_value ig_onnx_reverse(const struct ig_onnx_node *n, ig_value value, int axis) {
    ig_dim size = ig_onnx_dim(n, value, axis);
    ig_dim last = ig_dim_sub(n->dims, size, ig_dim_const(n->dims, 1));
    return ig_build_slice_axis(n->g, value, axis, last, size, -1);
}
